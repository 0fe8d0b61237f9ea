//! The file below the file store: reads and ordered writes, even while the disk refuses writes.
//!
//! ```text
//!  write ─► taken by the file system ─────────────────────────────► in the file
//!     └──── refused (disk full, I/O error) ─► held back, as all that follow, in order ─► try_again ─► in the file
//! ```
//! Invariant: the file always equals its state after some write: it contains all writes up to that one, and none after it. So from the
//! first refused write on, the file stays as a power cut at that moment would leave it, while reads find the newest bytes. Held-back
//! writes are in memory; the drive takes no more writes meanwhile, so they are limited to those that were under way.

#![allow(
    clippy::disallowed_types,
    reason = "the file store is the one place below the edge that opens files"
)]

use super::StoreNotice;
use crate::error::StoreError;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most notices that wait to be taken; further ones are dropped.
const NOTICES_MAX: usize = 64;

/// An open, locked image file.
#[derive(Debug)]
pub(super) struct Backing {
    path: PathBuf,
    file: File,
    /// The file had a name when it was opened; one in memory or a temporary one has none.
    named: bool,
    /// The file was not there before.
    new: bool,
    /// Writes that were refused, and those after them.
    held: VecDeque<(u64, Box<[u8]>)>,
    /// Reason why the first one was refused, or why the disk could not be synced.
    fault: Option<(Option<i32>, String)>,
    /// Something was written since the last sync.
    dirty: bool,
    notices: VecDeque<StoreNotice>,
}

/// Returns whether a file is there that begins with these bytes.
pub(super) fn begins_with(path: &Path, bytes: &[u8; 8]) -> bool {
    let mut begin = [0; 8];
    let read = |file: File| file.read_exact_at(&mut begin, 0).is_ok();
    path.is_file() && File::open(path).is_ok_and(read) && begin == *bytes
}

impl Backing {
    /// Opens or creates the file, locks it, and returns its length. Refuses anything but a regular file, and leaves it unchanged.
    pub fn open(path: &Path) -> Result<(Backing, u64), StoreError> {
        let io = |action| move |source| StoreError::Io { path: path.into(), action, source };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let there = match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Some(options.open(path)),
            Ok(_) => return Err(io("use as an image")(io::Error::other("it is not a regular file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error)),
        };
        let new = there.is_none();
        let file = there.unwrap_or_else(|| options.create_new(true).mode(0o600).open(path));
        let file = file.map_err(io("open or create the image"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: path.into() }),
            Err(TryLockError::Error(source)) => return Err(io("lock the image")(source)),
        }
        let found = file.metadata().map_err(io("ask for the length"))?;
        let (bytes, mode) = (found.len(), found.permissions().mode() & 0o777);
        let (path, held, mut notices): (PathBuf, _, _) = (path.into(), VecDeque::new(), VecDeque::new());
        if !new && mode & 0o077 != 0 {
            notices.push_back(StoreNotice::Exposed { path: path.clone(), mode });
        }
        let named = found.nlink() > 0;
        Ok((Backing { path, file, named, new, held, fault: None, dirty: false, notices }, bytes))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file did not exist before.
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Removes a file whose image was not completed.
    pub fn discard(&self) {
        // A file that cannot be removed has no magic number, so it is no image.
        let _ = std::fs::remove_file(&self.path);
    }

    pub fn set_len(&self, bytes: u64) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), action: "extend the new image", source };
        self.file.set_len(bytes).map_err(io)
    }

    /// Reserves disk space for the first `bytes` bytes. Checks first that there is enough: a failed attempt keeps the space it got, which
    /// would fill the disk.
    pub fn reserve(&self, bytes: u64) -> Result<(), StoreError> {
        use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs};
        use rustix::io::Errno;
        let no_space =
            |error: Errno| StoreError::NoSpace { path: self.path.clone(), bytes, source: error.into() };
        let (disk, file) = (fstatvfs(&self.file).map_err(no_space)?, fstat(&self.file).map_err(no_space)?);
        let held = file.st_blocks.unsigned_abs() * 512;
        if bytes > held + disk.f_bavail * disk.f_frsize {
            return Err(no_space(Errno::NOSPC));
        }
        let reserved = loop {
            match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        reserved.map_err(no_space)
    }

    /// Reads exactly this many bytes.
    #[inline]
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.file.read_exact_at(out, at);
        if self.held.is_empty() {
            return match read {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    Err(io::Error::new(e.kind(), "the file was cut off"))
                }
                other => other,
            };
        }
        self.patch(at, out);
        Ok(())
    }

    /// Replaces the bytes read by bytes that the file has not accepted yet.
    #[cold]
    fn patch(&self, at: u64, out: &mut [u8]) {
        let end = at + out.len() as u64;
        for (start, bytes) in &self.held {
            let (low, high) = (at.max(*start), end.min(start + bytes.len() as u64));
            if low < high {
                let from = &bytes[(low - start) as usize..(high - start) as usize];
                out[(low - at) as usize..(high - at) as usize].copy_from_slice(from);
            }
        }
    }

    /// Writes at once, or later if the disk refuses now.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.dirty = true;
        if self.held.is_empty() {
            match self.file.write_all_at(bytes, at) {
                Ok(()) => return,
                Err(error) => self.refused(&error),
            }
        }
        self.held.push_back((at, bytes.into()));
    }

    /// Syncs written data to the disk; `false`: that failed.
    pub fn sync(&mut self) -> bool {
        self.try_again();
        if self.dirty && self.fault.is_none() {
            match self.file.sync_data() {
                Ok(()) => self.dirty = false,
                // The kernel may have dropped the data that it could not write, and reports that once: a retry is impossible.
                Err(error) => self.refused(&error),
            }
        }
        self.fault.is_none()
    }

    /// Checks that the file has not been truncated below `bytes` bytes or deleted: that it has no name but had one. Lost data cannot be recovered, and an unlinked file
    /// disappears with this process, so no further durability can be promised.
    pub fn check_whole(&mut self, bytes: u64) {
        if self.fault.is_some() {
            return;
        }
        match self.file.metadata() {
            Ok(found) if self.named && found.nlink() == 0 => {
                self.tell(StoreNotice::Deleted { path: self.path.clone() });
                self.fault = Some((None, "the file was deleted".into()));
            }
            Ok(found) if found.len() >= bytes => {}
            Ok(found) => {
                let why = format!("the file was cut off at {} of {bytes} bytes", found.len());
                self.tell(StoreNotice::CutOff { path: self.path.clone(), found: found.len(), bytes });
                self.fault = Some((None, why));
            }
            Err(error) => self.refused(&error),
        }
    }

    /// Writes held-back data, as far as the disk takes them.
    pub fn try_again(&mut self) {
        if self.held.is_empty() {
            return;
        }
        while let Some((at, bytes)) = self.held.front() {
            if self.file.write_all_at(bytes, *at).is_err() {
                return;
            }
            self.held.pop_front();
        }
        self.fault = None;
        self.tell(StoreNotice::Recovered { path: self.path.clone() });
    }

    #[cold]
    fn refused(&mut self, error: &io::Error) {
        if self.fault.is_none() {
            self.tell(StoreNotice::Refused { path: self.path.clone(), why: error.to_string() });
        }
        self.fault = Some((error.raw_os_error(), error.to_string()));
    }

    /// Returns whether the file does not hold everything that was written to it.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.fault.is_some()
    }

    /// Returns the reason why writes are held back.
    pub fn fault(&self) -> Option<io::Error> {
        let (code, text) = self.fault.as_ref()?;
        Some(code.map_or_else(|| io::Error::other(text.clone()), io::Error::from_raw_os_error))
    }

    pub fn held_bytes(&self) -> u64 {
        self.held.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    pub fn tell(&mut self, notice: StoreNotice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(notice);
        }
    }

    pub fn notice(&mut self) -> Option<StoreNotice> {
        self.notices.pop_front()
    }
}
