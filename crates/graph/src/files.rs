//! Segments as files of one directory.
//!
//! Invariants: one process at a time has the directory (a lock on its file `lock`); nothing in it that is no segment is touched; what a
//! `replace` made durable is there after a crash.

use pellucid_apps::graph::store::{Segment, Store, StoreError, absent, short};
use rustix::fs::{Advice, fadvise};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files open at the same time.
const OPEN_MAX: usize = 128;

/// A directory of segments.
#[derive(Debug)]
pub struct FileStore {
    directory: PathBuf,
    /// Held for its lock.
    _lock: File,
    open: BTreeMap<Segment, (File, u64)>,
    order: VecDeque<Segment>,
    /// Sealed, and maybe not durable.
    sealed: Vec<Segment>,
    written_bytes: u64,
    read_bytes: u64,
}

impl FileStore {
    /// Opens a directory, which is made if it is not there. The error is a sentence.
    pub fn open(directory: &Path) -> Result<FileStore, String> {
        let name = directory.display();
        if directory.exists() && !directory.is_dir() {
            return Err(format!("{name} is no directory"));
        }
        std::fs::create_dir_all(directory).map_err(|error| format!("{name}: {error}"))?;
        let path = directory.join("lock");
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|error| format!("{}: {error}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(format!("{name} is in use by another process")),
            Err(TryLockError::Error(error)) => return Err(format!("{name}: {error}")),
        }
        Ok(FileStore {
            directory: directory.to_path_buf(),
            _lock: lock,
            open: BTreeMap::new(),
            order: VecDeque::new(),
            sealed: Vec::new(),
            written_bytes: 0,
            read_bytes: 0,
        })
    }

    /// Bytes written and read so far.
    pub fn moved_bytes(&self) -> (u64, u64) {
        (self.written_bytes, self.read_bytes)
    }

    /// Where a segment is.
    pub fn path(&self, segment: Segment) -> PathBuf {
        self.directory.join(format!("{segment}.seg"))
    }

    /// Removes every segment, and the directory if nothing else is in it.
    pub fn clear(&mut self, with_directory: bool) -> io::Result<()> {
        self.open.clear();
        self.order.clear();
        self.sealed.clear();
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "seg") {
                std::fs::remove_file(path)?;
            }
        }
        if with_directory {
            std::fs::remove_file(self.directory.join("lock"))?;
            match std::fs::remove_dir(&self.directory) {
                Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The file of a segment and its length.
    fn file(&mut self, segment: Segment) -> Result<&mut (File, u64), StoreError> {
        if !self.open.contains_key(&segment) {
            let file = OpenOptions::new().read(true).write(true).open(self.path(segment));
            let file = file.map_err(|error| match error.kind() {
                ErrorKind::NotFound => absent(segment),
                _ => failed(segment, &error),
            })?;
            let bytes = file.metadata().map_err(|error| failed(segment, &error))?.len();
            self.keep(segment, file, bytes);
        }
        Ok(self.open.get_mut(&segment).expect("it was opened"))
    }

    fn keep(&mut self, segment: Segment, file: File, bytes: u64) {
        self.open.insert(segment, (file, bytes));
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
        self.sealed.retain(|&other| other != segment);
    }
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
        self.keep(segment, file.map_err(|error| failed(segment, &error))?, 0);
        Ok(())
    }

    fn append(&mut self, segment: Segment, data: &[u8]) -> Result<(), StoreError> {
        let (file, bytes) = self.file(segment)?;
        file.write_all_at(data, *bytes).map_err(|error| failed(segment, &error))?;
        *bytes += data.len() as u64;
        self.written_bytes += data.len() as u64;
        Ok(())
    }

    fn seal(&mut self, segment: Segment) -> Result<(), StoreError> {
        self.sealed.push(segment);
        Ok(())
    }

    fn bytes(&self, segment: Segment) -> Option<u64> {
        match self.open.get(&segment) {
            Some((_, bytes)) => Some(*bytes),
            None => std::fs::metadata(self.path(segment)).ok().map(|data| data.len()),
        }
    }

    fn read(&mut self, segment: Segment, at: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let (file, bytes) = self.file(segment)?;
        let end = at + into.len() as u64;
        if end > *bytes {
            return Err(short(segment, *bytes, end));
        }
        file.read_exact_at(into, at).map_err(|error| failed(segment, &error))?;
        self.read_bytes += into.len() as u64;
        Ok(())
    }

    fn will_read(&mut self, segment: Segment, at: u64, bytes: u64) {
        if let Ok((file, _)) = self.file(segment) {
            // Advice: whoever does not take it reads later.
            let _ = fadvise(&*file, at, NonZeroU64::new(bytes), Advice::WillNeed);
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
        for sealed in std::mem::take(&mut self.sealed) {
            let (file, _) = self.file(sealed)?;
            file.sync_data().map_err(|error| failed(sealed, &error))?;
        }
        self.forget(segment);
        let (path, new) = (self.path(segment), self.directory.join("new.seg"));
        let written = (|| {
            let mut file = File::create(&new)?;
            file.write_all(data)?;
            file.sync_data()?;
            std::fs::rename(&new, &path)?;
            File::open(&self.directory)?.sync_all()
        })();
        written.map_err(|error| failed(segment, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("pellucid-graph-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn segments_are_what_was_written_and_one_process_has_them() {
        let directory = directory("segments");
        let mut store = FileStore::open(&directory).unwrap();
        assert!(FileStore::open(&directory).unwrap_err().contains("in use"));
        for segment in (0..300).map(Segment::Bucket) {
            store.create(segment).unwrap();
            store.append(segment, format!("{segment}").as_bytes()).unwrap();
        }
        store.append(Segment::Bucket(0), b"more").unwrap();
        let mut found = [0; 12];
        store.read(Segment::Bucket(0), 0, &mut found).unwrap();
        assert_eq!(&found, b"bucket-0more");
        assert!(
            store
                .read(Segment::Bucket(0), 1, &mut found)
                .unwrap_err()
                .to_string()
                .contains("ends at byte 12")
        );
        store.seal(Segment::Bucket(299)).unwrap();
        store.replace(Segment::State, b"one").unwrap();
        store.replace(Segment::State, b"three").unwrap();
        drop(store);
        std::fs::write(directory.join("mine.txt"), "not a segment").unwrap();
        let mut store = FileStore::open(&directory).unwrap();
        assert_eq!(store.bytes(Segment::State), Some(5));
        assert_eq!(store.bytes(Segment::Bucket(299)), Some(10));
        store.remove(Segment::State).unwrap();
        assert!(store.read(Segment::State, 0, &mut found).unwrap_err().to_string().contains("not there"));
        store.clear(true).unwrap();
        let left: Vec<_> =
            std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["mine.txt"]);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
