//! The file or block device that a file system lies on.

use crate::carrier::{Begun, Carrier};
use pellucid_apps::fs::{BLOCK_BYTES, Blocks, Job, JobAnswer, JobError, JobOutcome};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a mount that is ending may take until its image is free.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Blocks that the kernel takes at once (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// Why an image cannot be used, in one sentence with its name.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be opened, made or read.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
    /// It is neither a file nor a block device.
    #[error("{}: is neither a file nor a block device; allowed: one of them", .0.display())]
    Kind(PathBuf),
    /// It is not there, and no size is given to make it with.
    #[error("{}: is not there; allowed: a file or block device that is there, or --size SIZE, which makes a file", .0.display())]
    Absent(PathBuf),
    /// Another process has it.
    #[error("{}: in use by another mount or command", .0.display())]
    InUse(PathBuf),
}

/// An open image, which no other process opens meanwhile.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    bytes: u64,
    device: bool,
    /// It takes no writes.
    read_only: bool,
    /// The kernel writes to a file for one thread at a time, and lets the others spin: here they sleep.
    writing: Mutex<()>,
}

/// What the image is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading and writing; only reading where it takes no writes.
    Change,
    /// Reading only; several may.
    Look,
    /// A file system shall be made on it; with a size, a file is made if it is not there.
    Make {
        /// Bytes; none: those it has.
        bytes: Option<u64>,
    },
}

impl Image {
    /// Opens or makes an image.
    pub fn open(path: &Path, purpose: Purpose) -> Result<Image, ImageError> {
        let about = |error| ImageError::Io(path.to_owned(), error);
        if path.metadata().is_ok_and(|data| !data.is_file() && !data.file_type().is_block_device()) {
            return Err(ImageError::Kind(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(purpose != Purpose::Look);
        // What is there is looked at before it is replaced.
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
        // A block device says 0 as its length, but can be sought to its end.
        let bytes = file.seek(SeekFrom::End(0)).map_err(about)?;
        let read_only = purpose == Purpose::Look;
        Ok(Image { file, path: path.to_owned(), bytes, device, read_only, writing: Mutex::new(()) })
    }

    /// What its size becomes when it is made with this one. A block device keeps its own.
    pub(crate) fn bytes_for(&self, wanted: Option<u64>) -> u64 {
        wanted.filter(|_| !self.device).unwrap_or(self.bytes)
    }

    /// Makes a file longer or shorter.
    pub(crate) fn resize(&self, bytes: u64) -> io::Result<()> {
        if self.device || bytes == self.bytes { Ok(()) } else { self.file.set_len(bytes) }
    }

    /// Whether there is nothing but zeros at its beginning.
    pub(crate) fn is_empty(&self, bytes: u64) -> io::Result<bool> {
        let mut data = vec![0; bytes.min(self.bytes) as usize];
        self.file.read_exact_at(&mut data, 0)?;
        Ok(data.iter().all(|byte| *byte == 0))
    }

    /// Whether it takes no writes, or was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Carries out a job; the data that were read, where it reads.
    fn carry_out(&self, job: Job) -> Result<Vec<u8>, JobError> {
        let offset = |block: u64| block * BLOCK_BYTES as u64;
        let done = match job {
            Job::Read { block, blocks, .. } => {
                let mut data = vec![0; blocks as usize * BLOCK_BYTES];
                self.file.read_exact_at(&mut data, offset(block)).map(|()| data)
            }
            Job::Write { block, data, .. } => {
                let _turn = (!self.device).then(|| self.writing.lock());
                self.write(&data, offset(block)).map(|()| Vec::new())
            }
            Job::Flush { .. } => self.file.sync_data().map(|()| Vec::new()),
            Job::Discard { block, blocks, .. } => {
                self.discard(offset(block), offset(blocks.into()));
                Ok(Vec::new())
            }
            // Of flash, or of names.
            _ => return Err(JobError::Failed),
        };
        done.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ROFS | Errno::PERM) => JobError::ReadOnly,
            _ => JobError::Failed,
        })
    }

    /// Writes blocks from where they are.
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

    /// Gives the room of a range back. That is no promise, so a failure is none.
    fn discard(&self, offset: u64, bytes: u64) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, how, offset, bytes);
    }
}

impl Carrier for Image {
    fn path(&self) -> &Path {
        &self.path
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

/// Whether a block device says that it takes no writes. It can be opened for them all the same.
fn is_write_protected(device: &Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    let says = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    says.is_ok_and(|says| says.trim() == "1")
}

/// Locks all other processes out; for reading (`shared`) only those that write.
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
