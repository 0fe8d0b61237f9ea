//! The paper's workloads as streams of requests to a disk under Windows XP.
//!
//! The paper gives Table 2, the sizes of an installation of Office; 806 MB in 102 files, 96 % of the writes of 64 KiB (MP3 copy); more
//! than 90 % of the writes below 8 KiB (Linux sources); mostly small writes (uninstall); 30 web sites, reads and writes (browsing). It does
//! not say where requests go. A model of a volume decides that here; its constants are marked: *assumed*, or *fitted* to the number of
//! Table 3. A partition of Windows XP begins at sector 63, so no request is aligned to anything in the drive.

use pellucid_flash::Rng;
use pellucid_workload::files::SourceSizes;

/// First sector of the partition.
const PARTITION: u64 = 63;
/// Sectors of a cluster of the file system: 4 KiB, NTFS's default.
const FS_CLUSTER: u64 = 8;
/// Share of small writes to NTFS that go anywhere: directories, security descriptors, parts of the registry. Fitted: Table 3.
const NTFS_SCATTERED: f64 = 0.075;
/// Share of scattered writes on FAT32, which has neither; assumed.
const FAT_SCATTERED: f64 = 0.02;
/// Directories and files that are in use at a time: regions of half a MiB; assumed.
const NTFS_REGIONS: usize = 12;
/// Regions in use on FAT32; assumed.
const FAT_REGIONS: usize = 4;
/// A region is left for another one after this many writes to it, in the mean; assumed.
const REGION_WRITES: u64 = 100;
const REGION_SECTORS: u64 = 1024;
/// Sectors of a free extent, in the mean: 8 MiB; assumed.
const EXTENT_SECTORS: f64 = 16_384.0;

/// Files of a directory of the sources: 26,000 in some 1,700.
const FILES_OF_DIRECTORY: u32 = 16;
/// Sectors of a record of NTFS's file table.
const RECORD_SECTORS: u64 = 2;

/// Table 2: sectors of a request, and how many; the 5,102 "others" have 217,576 sectors.
const OFFICE_SIZES: [(u32, u32); 10] = [
    (128, 17_974),
    (8, 6_716),
    (32, 1_305),
    (1, 884),
    (7, 815),
    (16, 765),
    (56, 466),
    (64, 413),
    (3, 311),
    (24, 304),
];
const OFFICE_OTHERS: (u32, u32) = (5_102, 217_576);

/// Sites of the browsing benchmark (4.3.4).
const SITES: u32 = 30;
/// Files of a page and their bytes together: the 1,000 most popular home pages had 49.9 objects of 312 KB in 2008 (websiteoptimization.com,
/// "Average Web Page Size Triples Since 2003"). That the sizes are exponential is assumed.
const SITE_FILES: f64 = 49.9;
const SITE_FILE_BYTES: f64 = 312e3 / SITE_FILES;
/// Seconds of a page beside the disk: Internet Explorer showed the 25 most popular sites in 3.53 s each, January 2009 (Microsoft, "Measuring
/// Browser Performance", March 2009). That a netbook behind a proxy takes as long is assumed.
const SITE_S: f64 = 3.53;

/// Work of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Mp3,
    Linux,
    Install,
    Uninstall,
    Browse,
    /// An uninstallation that removes files; this percentage of its writes go where those of an installation do.
    Remove(u32),
}

impl Workload {
    pub const ALL: [Workload; 5] =
        [Workload::Mp3, Workload::Linux, Workload::Install, Workload::Uninstall, Workload::Browse];
    /// Workloads that the paper calls write-intensive.
    pub const WRITING: [Workload; 4] =
        [Workload::Mp3, Workload::Linux, Workload::Install, Workload::Uninstall];

    pub fn name(self) -> &'static str {
        match self {
            Workload::Mp3 => "MP3 copy",
            Workload::Linux => "Linux extraction",
            Workload::Install => "Office install",
            Workload::Uninstall => "Office uninstall",
            Workload::Browse => "browsing",
            Workload::Remove(_) => "removal of files",
        }
    }

    /// Published elapsed time with FlashFire over that without, geometric mean of five drives (Figs. 15 to 19).
    pub fn published(self) -> f64 {
        match self {
            Workload::Mp3 => 0.50,
            Workload::Linux | Workload::Uninstall | Workload::Remove(_) => 0.35,
            Workload::Install | Workload::Browse => 0.52,
        }
    }

    /// Seconds that the host works beside its disk. MP3: 806 MB from a USB disk of 30 MB/s, assumed. Browsing: [`SITE_S`]. Others: a
    /// netbook's processor, assumed.
    pub fn host_s(self) -> f64 {
        match self {
            Workload::Mp3 => 27.0,
            Workload::Linux => 120.0,
            Workload::Install => 240.0,
            Workload::Uninstall | Workload::Remove(_) => 15.0,
            Workload::Browse => f64::from(SITES) * SITE_S,
        }
    }
}

/// Format of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSystem {
    Ntfs,
    Fat32,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub write: bool,
    pub lba: u64,
    pub sectors: u32,
}

/// The requests of a workload on a volume of this many sectors; `shorter` this many times.
pub(super) fn requests(
    workload: Workload,
    system: FileSystem,
    sectors: u64,
    shorter: u32,
    seed: u64,
) -> Vec<Request> {
    let mut volume = Volume::new(system, sectors, Rng::stream(seed, workload.name()));
    match workload {
        Workload::Mp3 => volume.copy_mp3(shorter),
        Workload::Linux => volume.extract(26_000 / shorter),
        Workload::Install => volume.install(shorter),
        Workload::Uninstall => volume.uninstall(9_000 / shorter),
        Workload::Remove(others) => volume.remove(9_000 / shorter, others),
        Workload::Browse => volume.browse((f64::from(SITES) * SITE_FILES) as u32 / shorter),
    }
    volume.requests
}

/// A volume: where metadata and data go.
pub(super) struct Volume {
    system: FileSystem,
    sectors: u64,
    rng: Rng,
    /// NTFS: the log, written in turn. FAT32: what of the table is near the newest file.
    log: u64,
    /// NTFS: the end of the master file table.
    table: u64,
    regions: Vec<u64>,
    /// First sector of the index of the directory that is being filled.
    directory: u64,
    data: u64,
    extent_end: u64,
    requests: Vec<Request>,
}

impl Volume {
    pub fn new(system: FileSystem, sectors: u64, rng: Rng) -> Volume {
        let regions = match system {
            FileSystem::Ntfs => NTFS_REGIONS,
            FileSystem::Fat32 => FAT_REGIONS,
        };
        let mut volume = Volume {
            system,
            sectors,
            rng,
            log: 0,
            table: 0,
            regions: Vec::new(),
            directory: PARTITION,
            data: 0,
            extent_end: 0,
            requests: Vec::new(),
        };
        volume.regions = (0..regions).map(|_| volume.anywhere()).collect();
        volume
    }

    /// A place among older files, in the first half of the volume.
    fn anywhere(&mut self) -> u64 {
        let clusters = (self.sectors / 2 - REGION_SECTORS - PARTITION) / FS_CLUSTER;
        PARTITION + self.rng.below(clusters) * FS_CLUSTER
    }

    fn write(&mut self, lba: u64, sectors: u32) {
        self.requests.push(Request { write: true, lba, sectors });
    }

    /// Where a large new file begins: in the half of the volume that has no older files.
    pub fn new_file(&self) -> u64 {
        PARTITION + self.sectors / 2 / FS_CLUSTER * FS_CLUSTER
    }

    /// A small write of the file system.
    pub fn metadata(&mut self, sectors: u32) -> Request {
        let (scattered, log, table) = match self.system {
            FileSystem::Ntfs => (NTFS_SCATTERED, 0.3, 0.3),
            FileSystem::Fat32 => (FAT_SCATTERED, 0.5, 0.0),
        };
        let roll = self.rng.unit_f64();
        let room = |lba: u64| lba / FS_CLUSTER * FS_CLUSTER;
        let lba = if roll < scattered {
            self.anywhere()
        } else if roll < scattered + log {
            self.log(sectors)
        } else if roll < scattered + log + table {
            // Records of the newest files, 1 KiB each.
            self.table += self.rng.below(3);
            let window = self.rng.below(64);
            PARTITION + self.sectors / 8 + self.table.saturating_sub(window) * 2
        } else {
            let at = self.rng.below(self.regions.len() as u64) as usize;
            if self.rng.below(REGION_WRITES) == 0 {
                self.regions[at] = self.anywhere();
            }
            self.regions[at] + room(self.rng.below(REGION_SECTORS - u64::from(sectors)))
        };
        Request { write: true, lba, sectors }
    }

    fn write_metadata(&mut self, sectors: u32) {
        let request = self.metadata(sectors);
        self.requests.push(request);
    }

    /// NTFS logs in turn. FAT32 writes the sectors of the table that stand for the newest file, in both copies.
    fn log(&mut self, sectors: u32) -> u64 {
        match self.system {
            FileSystem::Ntfs => {
                self.log = (self.log + u64::from(sectors)) % (64 << 11);
                PARTITION + self.sectors / 8 + (128 << 11) + self.log
            }
            FileSystem::Fat32 => {
                self.log ^= 1;
                // An entry of 4 bytes for each cluster.
                let entry_sector = self.data / FS_CLUSTER / 128;
                PARTITION + 32 + self.log * (8 << 11) + entry_sector
            }
        }
    }

    /// The next sectors of a file, behind the sectors before.
    fn data(&mut self, sectors: u32) {
        if self.data + u64::from(sectors) > self.extent_end {
            let half = self.sectors / 2;
            let length = (-EXTENT_SECTORS * (1.0 - self.rng.unit_f64()).ln()) as u64 + 256;
            let clusters = (half - length.min(half / 2) - PARTITION) / FS_CLUSTER;
            self.data = PARTITION + half + self.rng.below(clusters) * FS_CLUSTER;
            self.extent_end = (self.data + length).min(self.sectors);
        }
        self.write(self.data, sectors);
        self.data += u64::from(sectors).next_multiple_of(FS_CLUSTER);
    }

    fn copy_mp3(&mut self, shorter: u32) {
        let (files, file_sectors) = (102 / shorter, 806_000_000 / 102 / 512_u32);
        for _ in 0..files {
            for _ in 0..file_sectors / 128 {
                self.data(128);
                // Of 100 writes 4 are small.
                if self.rng.chance(0.041) {
                    self.write_metadata(8);
                }
            }
        }
    }

    fn extract(&mut self, files: u32) {
        for file in 0..files {
            let bytes = SourceSizes::LINUX.draw(&mut self.rng);
            let mut sectors = (bytes / 4096.0).ceil().min(256.0) as u32 * 8;
            while sectors > 0 {
                let now = sectors.min(128);
                self.data(now);
                sectors -= now;
            }
            self.enter(file);
        }
    }

    /// The file system enters a new file in a directory, which lies beside the files that come after it.
    fn enter(&mut self, file: u32) {
        if file.is_multiple_of(FILES_OF_DIRECTORY) {
            self.data(FS_CLUSTER as u32);
            self.directory = self.data - FS_CLUSTER;
        }
        self.write_entry(file, self.data);
    }

    /// Writes the entry of a file whose data lie there: NTFS the log, the index of the directory, the record in the file table, the bitmap of
    /// the clusters, and the log again; FAT32 both copies of the table, and the directory.
    fn write_entry(&mut self, file: u32, data: u64) {
        let log = self.log(8);
        self.write(log, 8);
        self.write(self.directory, 8);
        if self.system == FileSystem::Ntfs {
            let record = PARTITION + self.sectors / 8 + RECORD_SECTORS * u64::from(file);
            self.write(record, RECORD_SECTORS as u32);
            // A bit for each cluster, in pages of 4 KiB.
            let page = data / FS_CLUSTER / 8 / 4096;
            self.write(PARTITION + self.sectors / 4 + page * FS_CLUSTER, 8);
        }
        let log = self.log(7);
        self.write(log, 7);
    }

    fn install(&mut self, shorter: u32) {
        let mut sizes = Vec::new();
        for (size, count) in OFFICE_SIZES {
            sizes.extend(std::iter::repeat_n(size, count as usize));
        }
        // As many sectors as there are, spread evenly.
        let (others, sectors) = OFFICE_OTHERS;
        sizes.extend((0..others).map(|at| (at + 1) * sectors / others - at * sectors / others));
        for at in (1..sizes.len()).rev() {
            let other = self.rng.below(at as u64 + 1) as usize;
            sizes.swap(at, other);
        }
        sizes.truncate(sizes.len() / shorter as usize);
        for size in sizes {
            if size <= 8 { self.write_metadata(size) } else { self.data(size) }
        }
    }

    fn uninstall(&mut self, writes: u32) {
        for _ in 0..writes {
            let size = [8, 8, 8, 8, 7, 3, 2, 1][self.rng.below(8) as usize];
            if self.rng.chance(0.04) { self.data(128) } else { self.write_metadata(size) }
        }
    }

    /// Removes files, one directory after the other: what is written for each is what entering it writes. `others`: percentage of the writes
    /// that belong to no file.
    fn remove(&mut self, writes: u32, others: u32) {
        let (end, mut file) = (self.requests.len() + writes as usize, 0);
        while self.requests.len() < end {
            if self.rng.below(100) < u64::from(others) {
                (0..5).for_each(|_| self.write_metadata(8));
                continue;
            }
            if file % FILES_OF_DIRECTORY == 0 {
                self.directory = self.anywhere();
            }
            let clusters = self.anywhere();
            self.write_entry(file, clusters);
            file += 1;
        }
    }

    fn browse(&mut self, files: u32) {
        for _ in 0..files {
            let bytes = -SITE_FILE_BYTES * (1.0 - self.rng.unit_f64()).ln();
            let sectors = 8 * (bytes / 4096.0).ceil().clamp(1.0, 16.0) as u32;
            self.data(sectors);
            let lba = self.data - u64::from(sectors);
            (0..3).for_each(|_| self.write_metadata(8));
            // The file that came before is shown.
            self.requests.push(Request { write: false, lba, sectors });
            let older = self.anywhere();
            self.requests.push(Request { write: false, lba: older, sectors: 16 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: u64 = 8 << 20;

    fn all(workload: Workload) -> Vec<Request> {
        requests(workload, FileSystem::Ntfs, SECTORS, 1, 1)
    }

    #[test]
    fn an_installation_is_that_of_table_2() {
        let requests = all(Workload::Install);
        let sectors: u64 = requests.iter().map(|request| u64::from(request.sectors)).sum();
        assert_eq!((requests.len(), sectors), (35_055, 2_693_322));
        let of_64_kib = requests.iter().filter(|request| request.sectors == 128).count();
        assert_eq!(of_64_kib, 17_974);
    }

    #[test]
    fn the_sizes_are_those_of_the_text() {
        let share = |workload, holds: fn(u32) -> bool| {
            let requests = all(workload);
            requests.iter().filter(|request| holds(request.sectors)).count() as f64 / requests.len() as f64
        };
        assert!(share(Workload::Mp3, |sectors| sectors == 128) > 0.955);
        assert!(share(Workload::Linux, |sectors| sectors < 16) > 0.90, "smaller than 8 KiB");
        assert!(share(Workload::Uninstall, |sectors| sectors <= 8) > 0.9);
        let mp3: u64 = all(Workload::Mp3).iter().map(|request| u64::from(request.sectors) * 512).sum();
        assert!((mp3 as f64 / 806e6 - 1.0).abs() < 0.02, "{mp3}");
    }

    #[test]
    fn all_of_it_is_on_the_volume() {
        for workload in Workload::ALL {
            for system in [FileSystem::Ntfs, FileSystem::Fat32] {
                for request in requests(workload, system, SECTORS, 1, 7) {
                    assert!(request.lba >= PARTITION && request.lba + u64::from(request.sectors) <= SECTORS);
                }
            }
        }
    }
}
