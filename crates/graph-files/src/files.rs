//! Segments in a directory: one file each.
//!
//! ```text
//!   work/  graph.lock   held by the process that uses it
//!          graph.boot   what is here may not be on the media: it counts until the machine is started again
//!          *.seg        one for each segment: its bytes, then a checksum of each block of them, then what the checksums belong to
//! ```
//! A segment is checked block by block whenever it is read, so damage is an error and never a wrong result.
//!
//! A run of a few seconds should not wait for the disk, so nothing is synced before [`DURABLE_AFTER`]. A
//! killed process loses nothing by that. After a power cut, `graph.boot` names an earlier start of the
//! machine, and the directory counts as empty. `graph.boot` is removed once everything is synced.
//!
//! Invariants: one process uses a directory at a time (`graph.lock`); files that are not segments stay
//! untouched; a plan that is found after a power cut has all its windows.

use crate::sums::{Sums, Trailer};
use pellucid_graph::store::{Segment, Store, StoreError, absent, short};
use rustix::fs::{Advice, fadvise};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of files beside the segments. They do not clash with users' files, which the directory may hold, too.
const LOCK: &str = "graph.lock";
const BOOT: &str = "graph.boot";
const NEW: &str = "new.seg";

/// Maximum number of open files.
const OPEN_MAX: usize = 128;

/// Interval between syncs of the directory.
const DURABLE_AFTER: Duration = Duration::from_secs(10);

/// An open file.
#[derive(Debug)]
struct Open {
    file: File,
    /// Trailer of a sealed segment; `None` while the segment grows.
    trailer: Option<Trailer>,
}

/// A directory of segments.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    /// Lock file; it is locked while it is open.
    _lock: File,
    open: BTreeMap<Segment, Open>,
    order: VecDeque<Segment>,
    /// Segments that are not sealed, with the checksums of their bytes.
    growing: BTreeMap<Segment, Sums>,
    /// Segments that this process sealed.
    sealed: BTreeSet<Segment>,
    /// Buffer for a block that is read in part.
    block: Vec<u8>,
    /// Time of the last sync, or of opening.
    synced: Instant,
    /// `graph.boot` exists.
    volatile: bool,
    written_bytes: u64,
    read_bytes: u64,
}

impl FileStore {
    /// Opens a directory, and creates it if it does not exist. An error is a complete sentence.
    pub fn open(directory: &Path) -> Result<FileStore, String> {
        let name = directory.display();
        if directory.exists() && !directory.is_dir() {
            return Err(format!("{name} is no directory; allowed: a directory, or a new name"));
        }
        std::fs::create_dir_all(directory).map_err(|error| format!("{name}: {error}"))?;
        let path = directory.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| format!("{}: {error}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(format!("{name} is in use by another process")),
            Err(TryLockError::Error(error)) => return Err(format!("{name}: {error}")),
        }
        let mut store = FileStore {
            directory: directory.to_path_buf(),
            _lock: lock,
            open: BTreeMap::new(),
            order: VecDeque::new(),
            growing: BTreeMap::new(),
            sealed: BTreeSet::new(),
            block: Vec::new(),
            synced: Instant::now(),
            volatile: false,
            written_bytes: 0,
            read_bytes: 0,
        };
        store.see_boot().map_err(|error| format!("{name}: {error}"))?;
        Ok(store)
    }

    /// Clears the directory if a power cut may have lost data.
    fn see_boot(&mut self) -> io::Result<()> {
        let now = start_of_machine();
        match std::fs::read(self.boot()) {
            // Without a boot id, each process counts as a start.
            Ok(then) if then == now && !now.is_empty() => self.volatile = true,
            Err(error) if error.kind() == ErrorKind::NotFound && self.bytes(Segment::Plan).is_some() => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {
                if let Err(error) = self.clear(false) {
                    // The disk is full: an empty directory is useless, and `error` gives the reason.
                    let _ = self.clear(true);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn boot(&self) -> PathBuf {
        self.directory.join(BOOT)
    }

    /// Makes everything in the directory durable.
    fn sync(&mut self) -> io::Result<()> {
        for path in self.segments()? {
            File::open(path)?.sync_data()?;
        }
        File::open(&self.directory)?.sync_all()?;
        if std::mem::take(&mut self.volatile) {
            std::fs::remove_file(self.boot())?;
            File::open(&self.directory)?.sync_all()?;
        }
        self.synced = Instant::now();
        Ok(())
    }

    fn segments(&self) -> io::Result<Vec<PathBuf>> {
        let paths = std::fs::read_dir(&self.directory)?.map(|entry| entry.map(|entry| entry.path()));
        paths.filter(|path| path.as_ref().map_or(true, |path| is_segment(path))).collect()
    }

    /// Bytes written and read so far.
    pub fn moved_bytes(&self) -> (u64, u64) {
        (self.written_bytes, self.read_bytes)
    }

    /// Returns the path of a segment.
    pub fn path(&self, segment: Segment) -> PathBuf {
        self.directory.join(format!("{segment}.seg"))
    }

    /// Removes every segment. With `with_directory`, also removes the directory if nothing else is in it and
    /// it can be removed. The plan goes first: a process that is killed meanwhile leaves no plan without its
    /// windows.
    pub fn clear(&mut self, with_directory: bool) -> io::Result<()> {
        self.open.clear();
        self.order.clear();
        self.growing.clear();
        self.sealed.clear();
        let (plan, mut paths) = (self.path(Segment::Plan), self.segments()?);
        paths.sort_unstable_by_key(|path| *path != plan);
        for path in paths {
            std::fs::remove_file(path)?;
        }
        if with_directory {
            for file in [BOOT, LOCK].map(|name| self.directory.join(name)) {
                match std::fs::remove_file(file) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            self.volatile = false;
            // The directory may hold other files, or be a mount point.
            let _ = std::fs::remove_dir(&self.directory);
        } else if !self.volatile {
            std::fs::write(self.boot(), start_of_machine())?;
            File::open(self.boot())?.sync_all()?;
            File::open(&self.directory)?.sync_all()?;
            self.volatile = true;
        }
        Ok(())
    }

    /// Checks every byte of a segment, unless this process wrote it, and returns the segment's length.
    /// Callers that read the file directly call this first.
    pub fn verify(&mut self, segment: Segment) -> Result<u64, StoreError> {
        let bytes = self.opened(segment)?;
        if !self.sealed.contains(&segment) {
            let mut from = 0;
            while from < bytes {
                let end = bytes.min(from + Sums::BLOCK_BYTES);
                self.read_block(segment, from, end)?;
                from = end;
            }
        }
        Ok(bytes)
    }

    /// Opens a segment, if it is not open, and returns its length.
    fn opened(&mut self, segment: Segment) -> Result<u64, StoreError> {
        if !self.open.contains_key(&segment) {
            let file = OpenOptions::new().read(true).write(true).open(self.path(segment));
            let file = file.map_err(|error| match error.kind() {
                ErrorKind::NotFound => absent(segment),
                _ => failed(segment, &error),
            })?;
            let trailer = match self.growing.contains_key(&segment) {
                true => None,
                false => Some(trailer_of(&file, segment)?),
            };
            self.keep(segment, Open { file, trailer });
        }
        Ok(match &self.open[&segment].trailer {
            Some(trailer) => trailer.bytes(),
            None => self.growing[&segment].bytes(),
        })
    }

    fn keep(&mut self, segment: Segment, open: Open) {
        self.open.insert(segment, open);
        self.order.push_back(segment);
        while self.order.len() > OPEN_MAX {
            let oldest = self.order.pop_front().expect("there are many");
            self.open.remove(&oldest);
        }
    }

    fn forget(&mut self, segment: Segment) {
        if self.open.remove(&segment).is_some() {
            self.order.retain(|&other| other != segment);
        }
        self.growing.remove(&segment);
        self.sealed.remove(&segment);
    }

    /// Reads one block of an open segment into `self.block`, and checks it.
    fn read_block(&mut self, segment: Segment, from: u64, end: u64) -> Result<(), StoreError> {
        let mut block = std::mem::take(&mut self.block);
        block.resize((end - from) as usize, 0);
        let read = self.read_whole(segment, from, &mut block);
        self.block = block;
        read
    }

    /// Reads whole blocks of an open segment, and checks them.
    fn read_whole(&mut self, segment: Segment, from: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let Open { file, trailer } = &self.open[&segment];
        file.read_exact_at(into, from).map_err(|error| failed(segment, &error))?;
        self.read_bytes += into.len() as u64;
        match trailer {
            Some(trailer) => trailer.check(from, into).map_err(|why| StoreError::Damaged { segment, why }),
            // This process wrote the growing segment.
            None => Ok(()),
        }
    }
}

/// Reads the trailer of a sealed segment.
fn trailer_of(file: &File, segment: Segment) -> Result<Trailer, StoreError> {
    let bytes = file.metadata().map_err(|error| failed(segment, &error))?.len();
    let read = |at, into: &mut [u8]| file.read_exact_at(into, at);
    match Trailer::read(&segment.to_string(), bytes, read) {
        Ok(Ok(trailer)) => Ok(trailer),
        Ok(Err(why)) => Err(StoreError::Damaged { segment, why }),
        Err(error) => Err(failed(segment, &error)),
    }
}

/// Reports whether a file has the name of a segment: words and numbers joined by `-`.
fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let Some(name) = name.strip_suffix(".seg") else { return false };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = name.split('-').filter(|part| !is_number(part)).collect();
    let numbers = name.split('-').count() - words.len();
    match words[..] {
        ["new" | "plan" | "state" | "degrees"] => numbers == 0,
        ["run"] | ["run", "weights"] | ["values", "even" | "odd"] => numbers == 1,
        ["offsets" | "others" | "weights"] => numbers == 2,
        _ => false,
    }
}

/// Returns the kernel's boot id, which identifies this start of the machine; empty if there is none.
fn start_of_machine() -> Vec<u8> {
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn failed(segment: Segment, error: &io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            StoreError::Full { segment, why: error.to_string() }
        }
        _ => StoreError::Failed { segment, why: error.to_string() },
    }
}

impl Store for FileStore {
    fn create(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.forget(segment);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(self.path(segment));
        let file = file.map_err(|error| failed(segment, &error))?;
        self.growing.insert(segment, Sums::default());
        self.keep(segment, Open { file, trailer: None });
        Ok(())
    }

    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        let at = self.opened(segment)?;
        let Some(sums) = self.growing.get_mut(&segment) else {
            return Err(StoreError::Failed { segment, why: "it is sealed".into() });
        };
        self.open[&segment].file.write_all_at(data, at).map_err(|error| failed(segment, &error))?;
        sums.add(data);
        self.written_bytes += data.len() as u64;
        Ok(())
    }

    fn seal(&mut self, segment: Segment) -> Result<(), StoreError> {
        let at = self.opened(segment)?;
        let Some(sums) = self.growing.remove(&segment) else { return Ok(()) };
        let trailer = sums.seal(&segment.to_string());
        let encoded = trailer.encode();
        let open = self.open.get_mut(&segment).expect("it was opened");
        open.file.write_all_at(&encoded, at).map_err(|error| failed(segment, &error))?;
        open.trailer = Some(trailer);
        self.written_bytes += encoded.len() as u64;
        self.sealed.insert(segment);
        Ok(())
    }

    fn bytes(&self, segment: Segment) -> Option<u64> {
        if let Some(sums) = self.growing.get(&segment) {
            return Some(sums.bytes());
        }
        if let Some(Open { trailer: Some(trailer), .. }) = self.open.get(&segment) {
            return Some(trailer.bytes());
        }
        let file = File::open(self.path(segment)).ok()?;
        // A damaged segment counts with all its bytes; reading them reports the damage.
        let whole = || file.metadata().ok().map(|data| data.len());
        trailer_of(&file, segment).map_or_else(|_| whole(), |trailer| Some(trailer.bytes()))
    }

    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError> {
        const BLOCK: u64 = Sums::BLOCK_BYTES;
        let bytes = self.opened(segment)?;
        let end = at + into.len() as u64;
        if end > bytes {
            return Err(short(segment, bytes, end));
        }
        let mut from = at;
        while from < end {
            let part = &mut into[(from - at) as usize..];
            let last = end == bytes;
            let whole = if last { end - from } else { (end - from) / BLOCK * BLOCK };
            if from.is_multiple_of(BLOCK) && whole > 0 {
                self.read_whole(segment, from, &mut part[..whole as usize])?;
                from += whole;
                continue;
            }
            let begin = from / BLOCK * BLOCK;
            self.read_block(segment, begin, bytes.min(begin + BLOCK))?;
            let until = end.min(begin + BLOCK);
            part[..(until - from) as usize]
                .copy_from_slice(&self.block[(from - begin) as usize..(until - begin) as usize]);
            from = until;
        }
        Ok(())
    }

    fn will_read(&mut self, segment: Segment, at: u64, bytes: u64) {
        if self.opened(segment).is_ok() {
            // Advice only: a system that ignores it reads later.
            let _ = fadvise(&self.open[&segment].file, at, NonZeroU64::new(bytes), Advice::WillNeed);
        }
    }

    fn remove(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.forget(segment);
        match std::fs::remove_file(self.path(segment)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(segment, &error)),
            _ => Ok(()),
        }
    }

    fn replace(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        self.forget(segment);
        let (path, new) = (self.path(segment), self.directory.join(NEW));
        let mut sums = Sums::default();
        sums.add(data);
        let encoded = sums.seal(&segment.to_string()).encode();
        let written = (|| {
            let mut file = File::create(&new)?;
            file.write_all(data)?;
            file.write_all(&encoded)?;
            if self.synced.elapsed() >= DURABLE_AFTER {
                self.sync()?;
            }
            std::fs::rename(&new, &path)
        })();
        written.map_err(|error| failed(segment, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("pellucid-graph-files-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn what_a_power_cut_may_have_taken_is_forgotten() {
        let directory = directory("boot");
        let plan = |store: &FileStore| store.bytes(Segment::Plan);
        let mut store = FileStore::open(&directory).unwrap();
        store.replace(Segment::Plan, b"plan").unwrap();
        drop(store);
        // The same start of the machine: only the process was killed.
        assert_eq!(plan(&FileStore::open(&directory).unwrap()), Some(4));
        std::fs::write(directory.join(BOOT), "another start\n").unwrap();
        assert_eq!(plan(&FileStore::open(&directory).unwrap()), None);
        let mut store = FileStore::open(&directory).unwrap();
        store.replace(Segment::Plan, b"plan").unwrap();
        store.sync().unwrap();
        drop(store);
        assert!(!directory.join(BOOT).exists());
        assert_eq!(plan(&FileStore::open(&directory).unwrap()), Some(4));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_flip_or_a_cut_anywhere_in_a_segment_is_damage() {
        let directory = directory("damage");
        let data: Vec<u8> = (0..3 * Sums::BLOCK_BYTES as u32 + 99).map(|at| (at * 7 % 251) as u8).collect();
        let mut store = FileStore::open(&directory).unwrap();
        store.create(Segment::Degrees).unwrap();
        data.chunks(5000).for_each(|part| store.append(Segment::Degrees, part).unwrap());
        store.seal(Segment::Degrees).unwrap();
        let path = store.path(Segment::Degrees);
        drop(store);
        let good = std::fs::read(&path).unwrap();
        // Ranges that begin and end within blocks, at block boundaries, and at the end of the segment.
        let block = Sums::BLOCK_BYTES as usize;
        for part in [
            0..data.len(),
            1..2,
            5..block,
            block..2 * block,
            block - 1..3 * block + 1,
            data.len() - 1..data.len(),
        ] {
            let mut found = vec![0; part.len()];
            FileStore::open(&directory)
                .unwrap()
                .read(Segment::Degrees, part.start as u64, &mut found)
                .unwrap();
            assert!(found == data[part.clone()], "{part:?}");
        }
        let damage = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let mut store = FileStore::open(&directory).unwrap();
            let read = store.read(Segment::Degrees, 0, &mut vec![0; data.len()]);
            assert!(matches!(read, Err(StoreError::Damaged { segment: Segment::Degrees, .. })), "{read:?}");
            assert!(matches!(store.verify(Segment::Degrees), Err(StoreError::Damaged { .. })));
        };
        for at in (0..data.len()).step_by(997).chain(data.len()..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            damage(&bad);
        }
        for cut in [0, 1, 19, data.len(), good.len() - 1] {
            damage(&good[..cut]);
        }
        // A whole segment under another's name.
        std::fs::write(directory.join("others-0-0.seg"), &good).unwrap();
        let moved = FileStore::open(&directory).unwrap().read(Segment::Others(0, 0), 0, &mut [0; 4]);
        assert!(moved.unwrap_err().to_string().contains("another segment"));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn segments_are_what_was_written_and_one_process_has_them() {
        let directory = directory("segments");
        let mut store = FileStore::open(&directory).unwrap();
        assert!(FileStore::open(&directory).unwrap_err().contains("in use"));
        for segment in (0..300).map(Segment::Run) {
            store.create(segment).unwrap();
            store.append(segment, format!("{segment}").as_bytes()).unwrap();
        }
        store.append(Segment::Run(0), b"more").unwrap();
        let mut found = [0; 9];
        store.read(Segment::Run(0), 0, &mut found).unwrap();
        assert_eq!(&found, b"run-0more");
        assert!(
            store.read(Segment::Run(0), 1, &mut found).unwrap_err().to_string().contains("ends at byte 9")
        );
        store.seal(Segment::Run(299)).unwrap();
        store.replace(Segment::State, b"one").unwrap();
        store.replace(Segment::State, b"three").unwrap();
        drop(store);
        let mine =
            ["boot", "lock", "run.seg", "others-1.seg", "values-1.seg", "old-run-1.seg", "1.seg", "mine.txt"];
        for name in mine {
            std::fs::write(directory.join(name), "not a segment").unwrap();
        }
        let mut store = FileStore::open(&directory).unwrap();
        assert_eq!(store.bytes(Segment::State), Some(5));
        assert_eq!(store.bytes(Segment::Run(299)), Some(7));
        store.remove(Segment::State).unwrap();
        assert!(store.read(Segment::State, 0, &mut found).unwrap_err().to_string().contains("not there"));
        let all = [
            Segment::Run(1),
            Segment::RunWeights(2),
            Segment::Offsets(3, 4),
            Segment::Others(5, 6),
            Segment::Weights(7, 8),
            Segment::Degrees,
            Segment::Values(9, true),
            Segment::Values(10, false),
            Segment::State,
            Segment::Plan,
        ];
        all.into_iter().for_each(|segment| store.create(segment).unwrap());
        store.clear(true).unwrap();
        let left = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        let left: BTreeSet<_> = left.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(left, mine.map(String::from).into());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
