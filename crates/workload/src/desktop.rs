//! A user's work on a netbook under Windows XP, as streams of requests to its disk: the workloads of the FlashFire paper, and the ATTO benchmark.
//!
//! The paper gives Table 2, the request sizes of an Office installation; 806 MB in 102 files, with 96 % of the writes of 64 KiB (MP3 copy); more than
//! 90 % of the writes below 8 KiB (Linux sources); mostly small writes (uninstall); 30 web sites, reads and writes (browsing). It does not say where
//! requests go. A model of a volume decides that here; its constants are marked as *assumed*, or *fitted* to the numbers of Table 3. A partition of
//! Windows XP begins at sector 63, so no request is aligned to anything in the drive.

use crate::files::SourceSizes;
use pellucid_flash::Rng;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Bytes of a sector; with any other size, the partition and its files would be elsewhere.
pub const SECTOR_BYTES: u32 = 512;
/// Minimum sectors of a volume: 1 GiB, for logs, tables and files.
pub const SECTORS_MIN: u64 = 2 << 20;
/// First sector of the partition.
const PARTITION: u64 = 63;
/// Sectors of a cluster of the file system: 4 KiB, NTFS's default.
const FS_CLUSTER: u64 = 8;
/// Share of small NTFS writes to random places: directories, security descriptors, parts of the registry. Fitted: Table 3.
const NTFS_SCATTERED: f64 = 0.075;
/// Share of scattered writes on FAT32, which has no security descriptors or large registry writes; assumed.
const FAT_SCATTERED: f64 = 0.02;
/// Directories and files in use at a time, as regions of half a MiB; assumed.
const NTFS_REGIONS: usize = 12;
/// Regions in use on FAT32; assumed.
const FAT_REGIONS: usize = 4;
/// Mean number of writes to a region before it is left for another one; assumed.
const REGION_WRITES: u64 = 100;
const REGION_SECTORS: u64 = 1024;
/// Mean sectors of a free extent: 8 MiB; assumed.
const EXTENT_SECTORS: f64 = 16_384.0;

/// Files per directory of the sources: 26,000 in some 1,700.
const FILES_OF_DIRECTORY: u32 = 16;
/// Sectors of a record of NTFS's file table.
const RECORD_SECTORS: u64 = 2;

/// Table 2: request size in sectors, and count; the 5,102 "others" have 217,576 sectors.
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
/// Files per page, with their total bytes: the 1,000 most popular home pages had 49.9 objects of 312 KB in 2008 (websiteoptimization.com, "Average
/// Web Page Size Triples Since 2003"). Exponential sizes are assumed.
const SITE_FILES: f64 = 49.9;
const SITE_FILE_BYTES: f64 = 312e3 / SITE_FILES;
/// Seconds per page besides the disk: Internet Explorer showed the 25 most popular sites in 3.53 s each, January 2009 (Microsoft, "Measuring Browser
/// Performance", March 2009). The same time for a netbook behind a proxy is assumed.
const SITE_S: f64 = 3.53;

/// Sectors of ATTO's file: 256 MiB (4.2.1).
const ATTO_FILE: u64 = 512 << 10;
/// Bytes of ATTO's file for which the file system writes 4 KiB of metadata, at addresses given by the volume's model (assumed).
const METADATA_EVERY: u64 = 1 << 20;

/// A user's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum DesktopWork {
    /// Copying 806 MB in 102 files.
    Mp3Copy,
    /// Extraction of the sources of Linux: 26,000 files.
    LinuxExtract,
    /// Installation of an office suite, with the sizes of Table 2.
    OfficeInstall,
    /// Uninstallation, with writes at the addresses of an installation's.
    OfficeUninstall,
    /// Uninstallation as a removal of files, one directory after the other.
    OfficeRemove {
        /// Percentage of writes that belong to no file and go to the addresses of an installation.
        others: u8,
    },
    /// A browser that shows 30 web sites.
    Browse,
    /// ATTO's reads of a file.
    AttoRead(Transfers),
    /// ATTO's writes of a file.
    AttoWrite(Transfers),
}

/// Transfers of the ATTO benchmark, in order over a file of 256 MiB, repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// Sectors per transfer.
    pub sectors: u32,
    /// Transfers before the measurement.
    pub warm_up: u64,
    /// Number of transfers to measure; `None`: up to the end of the file.
    pub measured: Option<u64>,
}

impl Transfers {
    /// Number of measured transfers.
    pub fn measured(&self) -> u64 {
        self.measured.unwrap_or((ATTO_FILE / u64::from(self.sectors)).saturating_sub(self.warm_up).max(1))
    }
}

impl DesktopWork {
    /// Its name, as in `app`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Seconds of the host's own work besides its disk. MP3: 806 MB from a USB disk of 30 MB/s, assumed. Browsing: [`SITE_S`]. ATTO: none. Others: a
    /// netbook's processor, assumed.
    pub fn host_s(self) -> f64 {
        match self {
            DesktopWork::Mp3Copy => 27.0,
            DesktopWork::LinuxExtract => 120.0,
            DesktopWork::OfficeInstall => 240.0,
            DesktopWork::OfficeUninstall | DesktopWork::OfficeRemove { .. } => 15.0,
            DesktopWork::Browse => f64::from(SITES) * SITE_S,
            DesktopWork::AttoRead(_) | DesktopWork::AttoWrite(_) => 0.0,
        }
    }

    /// Name of its random stream.
    fn stream(self) -> &'static str {
        match self {
            DesktopWork::Mp3Copy => "MP3 copy",
            DesktopWork::LinuxExtract => "Linux extraction",
            DesktopWork::OfficeInstall => "Office install",
            DesktopWork::OfficeUninstall => "Office uninstall",
            DesktopWork::OfficeRemove { .. } => "removal of files",
            DesktopWork::Browse => "browsing",
            DesktopWork::AttoRead(_) | DesktopWork::AttoWrite(_) => "atto",
        }
    }
}

/// Format of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum VolumeFormat {
    /// With a log; writes are more random.
    #[default]
    Ntfs,
    /// With two copies of a table of clusters.
    Fat32,
}

impl VolumeFormat {
    /// Its name, as in `volume`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One request to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// `true`: a write.
    pub write: bool,
    /// First sector.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
}

/// The requests of a workload, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Requests.
    pub requests: Vec<DiskRequest>,
    /// Number of leading requests that are not measured.
    pub warm_up: usize,
    /// Measured operations: requests, or a benchmark's transfers without its file system's writes.
    pub operations: u64,
}

/// Generates the requests of a workload on a volume of this many sectors, or a `part`th of them.
pub fn script(work: DesktopWork, format: VolumeFormat, sectors: u64, part: u32, seed: u64) -> Script {
    let mut volume = Volume::new(format, sectors, Rng::stream(seed, work.stream()));
    let mut warm_up = 0;
    let mut operations = None;
    match work {
        DesktopWork::Mp3Copy => volume.copy_mp3(part),
        DesktopWork::LinuxExtract => volume.extract(26_000 / part),
        DesktopWork::OfficeInstall => volume.install(part),
        DesktopWork::OfficeUninstall => volume.uninstall(9_000 / part),
        DesktopWork::OfficeRemove { others } => volume.remove(9_000 / part, others.into()),
        DesktopWork::Browse => volume.browse((f64::from(SITES) * SITE_FILES) as u32 / part),
        DesktopWork::AttoRead(transfers) | DesktopWork::AttoWrite(transfers) => {
            let write = matches!(work, DesktopWork::AttoWrite(_));
            warm_up = volume.transfer(write, transfers);
            operations = Some(transfers.measured());
        }
    }
    let requests = volume.requests;
    let operations = operations.unwrap_or(requests.len() as u64);
    Script { requests, warm_up, operations }
}

/// A volume: the places of metadata and data.
struct Volume {
    system: VolumeFormat,
    sectors: u64,
    rng: Rng,
    /// NTFS: position in the log, written cyclically. FAT32: the part of the table near the newest file.
    log: u64,
    /// NTFS: the end of the master file table.
    table: u64,
    regions: Vec<u64>,
    /// First sector of the index of the directory being filled.
    directory: u64,
    data: u64,
    extent_end: u64,
    requests: Vec<DiskRequest>,
}

impl Volume {
    fn new(system: VolumeFormat, sectors: u64, rng: Rng) -> Volume {
        let regions = match system {
            VolumeFormat::Ntfs => NTFS_REGIONS,
            VolumeFormat::Fat32 => FAT_REGIONS,
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

    /// A random place among older files, in the first half of the volume.
    fn anywhere(&mut self) -> u64 {
        let clusters = (self.sectors / 2 - REGION_SECTORS - PARTITION) / FS_CLUSTER;
        PARTITION + self.rng.below(clusters) * FS_CLUSTER
    }

    fn write(&mut self, lba: u64, sectors: u32) {
        self.requests.push(DiskRequest { write: true, lba, sectors });
    }

    /// Start of a large new file, in the half of the volume without older files.
    fn new_file(&self) -> u64 {
        PARTITION + self.sectors / 2 / FS_CLUSTER * FS_CLUSTER
    }

    /// A small write of the file system.
    fn metadata(&mut self, sectors: u32) -> DiskRequest {
        let (scattered, log, table) = match self.system {
            VolumeFormat::Ntfs => (NTFS_SCATTERED, 0.3, 0.3),
            VolumeFormat::Fat32 => (FAT_SCATTERED, 0.5, 0.0),
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
        DiskRequest { write: true, lba, sectors }
    }

    fn write_metadata(&mut self, sectors: u32) {
        let request = self.metadata(sectors);
        self.requests.push(request);
    }

    /// NTFS writes its log cyclically. FAT32 writes the table sectors of the newest file, in both copies.
    fn log(&mut self, sectors: u32) -> u64 {
        match self.system {
            VolumeFormat::Ntfs => {
                self.log = (self.log + u64::from(sectors)) % (64 << 11);
                PARTITION + self.sectors / 8 + (128 << 11) + self.log
            }
            VolumeFormat::Fat32 => {
                self.log ^= 1;
                // An entry of 4 bytes per cluster.
                let entry_sector = self.data / FS_CLUSTER / 128;
                PARTITION + 32 + self.log * (8 << 11) + entry_sector
            }
        }
    }

    /// The next sectors of a file.
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
                // 4 of 100 writes are small.
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

    /// Creates a new file in a directory, which is stored near the files that follow it.
    fn enter(&mut self, file: u32) {
        if file.is_multiple_of(FILES_OF_DIRECTORY) {
            self.data(FS_CLUSTER as u32);
            self.directory = self.data - FS_CLUSTER;
        }
        self.write_entry(file, self.data);
    }

    /// Writes the entry of a file whose data are at `data`. NTFS: the log, the index of the directory, the record in the file table, the bitmap of
    /// the clusters, and the log again. FAT32: both copies of the table, and the directory.
    fn write_entry(&mut self, file: u32, data: u64) {
        let log = self.log(8);
        self.write(log, 8);
        self.write(self.directory, 8);
        if self.system == VolumeFormat::Ntfs {
            let record = PARTITION + self.sectors / 8 + RECORD_SECTORS * u64::from(file);
            self.write(record, RECORD_SECTORS as u32);
            // A bit per cluster, in pages of 4 KiB.
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
        // All sectors, spread evenly.
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

    /// Removes files, one directory after the other; each removal writes the same blocks as the creation. `others`: percentage of writes
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

    /// ATTO's transfers. Returns the number of warm-up requests.
    fn transfer(&mut self, write: bool, transfers: Transfers) -> usize {
        let (file_at, sectors) = (self.new_file(), transfers.sectors);
        let (mut since, mut warm_up) = (0, 0);
        for at in 0..transfers.warm_up + transfers.measured() {
            if at == transfers.warm_up {
                warm_up = self.requests.len();
            }
            let lba = file_at + at * u64::from(sectors) % ATTO_FILE;
            self.requests.push(DiskRequest { write, lba, sectors });
            since += u64::from(sectors) * u64::from(SECTOR_BYTES);
            if write && since >= METADATA_EVERY {
                since = 0;
                self.write_metadata(8);
            }
        }
        warm_up
    }

    fn browse(&mut self, files: u32) {
        for _ in 0..files {
            let bytes = -SITE_FILE_BYTES * (1.0 - self.rng.unit_f64()).ln();
            let sectors = 8 * (bytes / 4096.0).ceil().clamp(1.0, 16.0) as u32;
            self.data(sectors);
            let lba = self.data - u64::from(sectors);
            (0..3).for_each(|_| self.write_metadata(8));
            // The previous file is shown.
            self.requests.push(DiskRequest { write: false, lba, sectors });
            let older = self.anywhere();
            self.requests.push(DiskRequest { write: false, lba: older, sectors: 16 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: u64 = 8 << 20;

    const WORK: [DesktopWork; 5] = [
        DesktopWork::Mp3Copy,
        DesktopWork::LinuxExtract,
        DesktopWork::OfficeInstall,
        DesktopWork::OfficeUninstall,
        DesktopWork::Browse,
    ];

    fn all(work: DesktopWork) -> Vec<DiskRequest> {
        script(work, VolumeFormat::Ntfs, SECTORS, 1, 1).requests
    }

    #[test]
    fn an_installation_is_that_of_table_2() {
        let requests = all(DesktopWork::OfficeInstall);
        let sectors: u64 = requests.iter().map(|request| u64::from(request.sectors)).sum();
        assert_eq!((requests.len(), sectors), (35_055, 2_693_322));
        let of_64_kib = requests.iter().filter(|request| request.sectors == 128).count();
        assert_eq!(of_64_kib, 17_974);
    }

    #[test]
    fn the_sizes_are_those_of_the_text() {
        let share = |work, holds: fn(u32) -> bool| {
            let requests = all(work);
            requests.iter().filter(|request| holds(request.sectors)).count() as f64 / requests.len() as f64
        };
        assert!(share(DesktopWork::Mp3Copy, |sectors| sectors == 128) > 0.955);
        assert!(share(DesktopWork::LinuxExtract, |sectors| sectors < 16) > 0.90, "smaller than 8 KiB");
        assert!(share(DesktopWork::OfficeUninstall, |sectors| sectors <= 8) > 0.9);
        let mp3: u64 = all(DesktopWork::Mp3Copy).iter().map(|request| u64::from(request.sectors) * 512).sum();
        assert!((mp3 as f64 / 806e6 - 1.0).abs() < 0.02, "{mp3}");
    }

    #[test]
    fn all_of_it_is_on_the_volume() {
        let transfers = Transfers { sectors: 4096, warm_up: 3, measured: Some(200) };
        let work = WORK.into_iter().chain([
            DesktopWork::OfficeRemove { others: 20 },
            DesktopWork::AttoWrite(transfers),
            DesktopWork::AttoRead(transfers),
        ]);
        for work in work {
            for (format, sectors) in [
                (VolumeFormat::Ntfs, SECTORS),
                (VolumeFormat::Fat32, SECTORS),
                (VolumeFormat::Ntfs, SECTORS_MIN),
                (VolumeFormat::Fat32, SECTORS_MIN),
            ] {
                for request in script(work, format, sectors, 1, 7).requests {
                    let end = request.lba + u64::from(request.sectors);
                    assert!(request.lba >= PARTITION && end <= sectors, "{work:?}, {format:?}: {request:?}");
                }
            }
        }
    }

    /// Transfers wrap around the file; every MiB of writes has one metadata write, and reads have none.
    #[test]
    fn transfers_are_in_order_and_warm_up_before_they_are_measured() {
        let transfers = Transfers { sectors: 2048, warm_up: 3, measured: Some(4) };
        let of = |work| script(work, VolumeFormat::Ntfs, SECTORS, 1, 1);
        let writes = of(DesktopWork::AttoWrite(transfers));
        assert_eq!((writes.requests.len(), writes.warm_up, writes.operations), (14, 6, 4));
        let reads = of(DesktopWork::AttoRead(transfers));
        assert_eq!((reads.requests.len(), reads.warm_up, reads.operations), (7, 3, 4));
        let first = reads.requests[0].lba;
        assert!((0..7).all(|at| reads.requests[at as usize].lba == first + at * 2048));
        let whole = Transfers { measured: None, warm_up: 6, ..transfers };
        assert_eq!(whole.measured(), 250);
    }
}
