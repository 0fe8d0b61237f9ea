//! The file or block device that holds a file system.

use crate::carrier::{Begun, Carrier};
use pellucid_fs::{BLOCK_BYTES, Blocks, Job, JobAnswer, JobError, JobOutcome};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time to wait for the lock of an image whose last mount is still ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of blocks in one `pwritev` (the kernel's `IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// An image that cannot be used: one sentence that begins with its path.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// An I/O error while the image was opened, created or read.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
    /// The image is neither a file nor a block device.
    #[error("{}: is neither a file nor a block device; allowed: one of them", .0.display())]
    Kind(PathBuf),
    /// The image does not exist, and no size was given to create it.
    #[error("{}: does not exist; allowed: an existing file or block device, or --size SIZE, which makes a file", .0.display())]
    Absent(PathBuf),
    /// Another process has locked the image.
    #[error("{}: in use by another mount or command", .0.display())]
    InUse(PathBuf),
}

/// An open image. Its file is locked against other processes.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    bytes: u64,
    device: bool,
    /// The image accepts no writes.
    read_only: bool,
    /// Held during a write to a file. The kernel lets one thread at a time write to a file and the others spin; here they sleep.
    writing: Mutex<()>,
    /// Last failure, in the words of the system.
    failure: Mutex<Option<String>>,
}

/// Purpose for which an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading and writing; reading only if the image accepts no writes.
    Change,
    /// Reading only; the lock is shared.
    Look,
    /// Formatting. With a size, a missing file is created.
    Make {
        /// New size in bytes; `None` keeps the present size.
        bytes: Option<u64>,
    },
}

impl Image {
    /// Opens or creates an image.
    pub fn open(path: &Path, purpose: Purpose) -> Result<Image, ImageError> {
        let about = |error| ImageError::Io(path.to_owned(), error);
        if path.metadata().is_ok_and(|data| !data.is_file() && !data.file_type().is_block_device()) {
            return Err(ImageError::Kind(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(purpose != Purpose::Look);
        // Existing content is inspected before it is replaced.
        options.create(matches!(purpose, Purpose::Make { bytes: Some(_) }));
        let mut file = match options.open(path) {
            Ok(file) => file,
            Err(error) => match (error.kind(), purpose) {
                (io::ErrorKind::NotFound, Purpose::Make { bytes: None }) => {
                    return Err(ImageError::Absent(path.to_owned()));
                }
                (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, Purpose::Change) => {
                    return Image::open(path, Purpose::Look);
                }
                _ => return Err(about(error)),
            },
        };
        let data = file.metadata().map_err(about)?;
        let device = data.file_type().is_block_device();
        if device && purpose == Purpose::Change && is_write_protected(&data) {
            return Image::open(path, Purpose::Look);
        }
        lock(&file, path, purpose == Purpose::Look)?;
        // The metadata of a block device report length 0; seeking to its end gives the size.
        let bytes = file.seek(SeekFrom::End(0)).map_err(about)?;
        let read_only = purpose == Purpose::Look;
        let (path, writing, failure) = (path.to_owned(), Mutex::new(()), Mutex::new(None));
        Ok(Image { file, path, bytes, device, read_only, writing, failure })
    }

    /// Size in bytes after formatting with `wanted`. A block device keeps its size.
    pub(crate) fn bytes_for(&self, wanted: Option<u64>) -> u64 {
        wanted.filter(|_| !self.device).unwrap_or(self.bytes)
    }

    /// Sets the length of a file; does nothing to a block device.
    pub(crate) fn resize(&mut self, bytes: u64) -> io::Result<()> {
        if self.device || bytes == self.bytes {
            return Ok(());
        }
        self.file
            .set_len(bytes)
            .map_err(|e| io::Error::new(e.kind(), format!("a length of {bytes} bytes: {e}")))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Returns true if the first `bytes` of the image are all zero.
    pub(crate) fn is_empty(&self, bytes: u64) -> io::Result<bool> {
        let mut data = vec![0; bytes.min(self.bytes) as usize];
        self.file.read_exact_at(&mut data, 0)?;
        Ok(data.iter().all(|byte| *byte == 0))
    }

    /// Returns true if the image accepts no writes or was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Carries out a job. Returns the data of a read, and nothing for other jobs.
    fn carry_out(&self, job: Job) -> Result<Vec<u8>, JobError> {
        let offset = |block: u64| block * BLOCK_BYTES as u64;
        let action = match job {
            Job::Read { .. } => "read",
            Job::Flush { .. } => "flush",
            _ => "write",
        };
        let done = match job {
            Job::Read { block, blocks, .. } => {
                let mut data = vec![0; blocks as usize * BLOCK_BYTES];
                self.file.read_exact_at(&mut data, offset(block)).map(|()| data)
            }
            Job::Write { block, data, .. } => {
                let _turn = (!self.device).then(|| self.writing.lock());
                self.write(&data, offset(block)).map(|()| Vec::new())
            }
            Job::Flush { .. } => self.sync().map(|()| Vec::new()),
            Job::Discard { block, blocks, .. } => {
                self.discard(offset(block), offset(blocks.into()));
                Ok(Vec::new())
            }
            // Jobs of the flash library and of nameless writes.
            _ => return Err(JobError::Failed),
        };
        done.map_err(|error| {
            let failure = Some(format!("cannot {action}: {error}"));
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::ROFS | Errno::PERM) => JobError::ReadOnly,
                _ => JobError::Failed,
            }
        })
    }

    /// Writes all data to the disk, and checks that the file still has a name and its length: another process may have deleted or truncated it.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let found = self.file.metadata()?;
        match self.device {
            false if found.nlink() == 0 => Err(io::Error::other("the file was deleted or replaced")),
            false if found.len() < self.bytes => Err(io::Error::other(format!(
                "the file was cut off at {} of {} bytes",
                found.len(),
                self.bytes
            ))),
            _ => Ok(()),
        }
    }

    /// Writes blocks without first copying them into one buffer.
    fn write(&self, blocks: &Blocks, mut offset: u64) -> io::Result<()> {
        let mut parts: Vec<IoSlice> = blocks.iter().map(|block| IoSlice::new(block)).collect();
        let mut left = &mut parts[..];
        while !left.is_empty() {
            let turn = left.len().min(PARTS_MAX);
            let written = match rustix::io::pwritev(&self.file, &left[..turn], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(Errno::INTR) => 0,
                written => written?,
            };
            IoSlice::advance_slices(&mut left, written);
            offset += written as u64;
        }
        Ok(())
    }

    /// Punches a hole. A discard is advisory, so errors are ignored.
    fn discard(&self, offset: u64, bytes: u64) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, how, offset, bytes);
    }
}

impl Carrier for Image {
    fn path(&self) -> &Path {
        &self.path
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self, job: Job) -> Begun {
        Begun::Job(job)
    }

    fn end(&self, begun: Begun) -> JobAnswer {
        match begun {
            Begun::Job(job) => JobAnswer::new(job.id(), JobOutcome::Ended(self.carry_out(job))),
            Begun::UnderWay(_) => begun.failed(),
        }
    }
}

/// Returns true if the kernel reports a block device as read-only. Opening such a device for writing still
/// succeeds.
fn is_write_protected(device: &Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    let says = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    says.is_ok_and(|says| says.trim() == "1")
}

/// Locks the image; with `shared`, other readers may lock it too.
fn lock(file: &File, path: &Path, shared: bool) -> Result<(), ImageError> {
    let patient_until = Instant::now() + LOCK_PATIENCE;
    loop {
        let tried = if shared { file.try_lock_shared() } else { file.try_lock() };
        match tried {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(ImageError::Io(path.to_owned(), error)),
            Err(TryLockError::WouldBlock) if Instant::now() < patient_until => {
                // `umount` returns before the process that served the mount has ended.
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Err(ImageError::InUse(path.to_owned())),
        }
    }
}
