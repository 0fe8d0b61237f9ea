//! Operations on an image other than mounting it: formatting, opening, walking.

use crate::carrier::Carrier;
use crate::convert::now;
use crate::drive::ModelledDrive;
use crate::image::{Image, ImageError, Purpose};
use pellucid_flash::Drive;
use pellucid_fs::{
    BLOCK_BYTES, Backend, DirEntry, Errno, FormatOptions, Fs, FsState, Ino, Job, JobId, JobOutcome,
    MountOptions, Step,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error of an operation on an image: one sentence that begins with the image's path.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The file or device cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The content of the image, or the requested content, is unfit.
    #[error("{}: {}", .0.display(), .1)]
    Unfit(PathBuf, String),
    /// The image holds data that the user did not ask to replace.
    #[error("{}: is not empty; allowed: a file or device without data, or --force, which replaces the data on it", .0.display())]
    NotEmpty(PathBuf),
    /// An operation failed.
    #[error("{}: {}", .0.display(), .1)]
    Failed(PathBuf, #[source] Errno),
}

/// An opened file system and its carrier. The target is its only caller.
pub struct Target {
    /// The file system.
    pub fs: Fs,
    /// Medium that holds the file system.
    pub carrier: Arc<dyn Carrier>,
}

/// Options of formatting.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Size of the file, which is created if it is missing. `None`: its present size.
    pub bytes: Option<u64>,
    /// Replace existing data.
    pub force: bool,
    /// Checksum data as well as metadata.
    pub data_checksums: bool,
}

/// Bytes inspected to decide whether an image is empty; superblocks of file systems and partition tables lie
/// within them.
const LOOKED_AT_BYTES: u64 = 128 << 10;

impl Target {
    /// Makes an empty file system. On failure nothing is changed.
    pub fn format(path: &Path, how: &Format) -> Result<Target, TargetError> {
        let existed = path.exists();
        let made = Target::make(path, how);
        if made.is_err() && !existed {
            // The file was created by this call, so it holds no other data.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn make(path: &Path, how: &Format) -> Result<Target, TargetError> {
        let mut image = Image::open(path, Purpose::Make { bytes: how.bytes })?;
        let failed = |error| TargetError::Image(ImageError::Io(path.to_owned(), error));
        if !how.force && !image.is_empty(LOOKED_AT_BYTES).map_err(failed)? {
            return Err(TargetError::NotEmpty(path.to_owned()));
        }
        let bytes = image.bytes_for(how.bytes);
        let fs = formatted(path, Backend::Block, bytes / BLOCK_BYTES as u64, how)?;
        image.resize(bytes).map_err(failed)?;
        Target::synced(fs, Arc::new(image))
    }

    /// Makes an empty file system that fills a modelled drive.
    pub fn format_drive<D>(drive: Arc<ModelledDrive<D>>, how: &Format) -> Result<Target, TargetError>
    where
        D: Drive + Send + 'static,
    {
        let path = drive.path().to_owned();
        let backend = drive.with_volume(|volume| volume.backend());
        let is_empty = match backend {
            Backend::Block | Backend::Nameless(_) => begins_empty(&*drive),
            Backend::Function(_) => drive.with_volume(|volume| volume.is_empty()),
        };
        if !how.force && !is_empty {
            return Err(TargetError::NotEmpty(path));
        }
        let blocks = drive.with_volume(|volume| {
            volume.clear();
            volume.blocks()
        });
        let fs = formatted(&path, backend, blocks, how)?;
        Target::synced(fs, drive)
    }

    /// Waits until a new file system is durable.
    fn synced(mut fs: Fs, carrier: Arc<dyn Carrier>) -> Result<Target, TargetError> {
        let point = fs.sync();
        let mut target = Target { fs, carrier };
        target.run(|fs| Ok(if fs.is_synced(point)? { Step::Done(()) } else { Step::Wait }))?;
        Ok(target)
    }

    /// Opens a file system for changes or for inspection. It is read-only if the file or device accepts no
    /// writes.
    pub fn open(path: &Path, options: MountOptions) -> Result<Target, TargetError> {
        let image = Image::open(path, if options.read_only { Purpose::Look } else { Purpose::Change })?;
        let options = MountOptions { read_only: image.is_read_only(), ..options };
        let fs = Fs::mount(now(), image.bytes() / BLOCK_BYTES as u64, options);
        Target::mounted(fs, Arc::new(image))
    }

    /// Opens the file system on a modelled drive.
    pub fn open_drive<D>(drive: Arc<ModelledDrive<D>>, options: MountOptions) -> Result<Target, TargetError>
    where
        D: Drive + Send + 'static,
    {
        let fs = drive.with_volume(|volume| volume.mount(now(), options));
        Target::mounted(fs, drive)
    }

    /// Waits until a file system is mounted.
    fn mounted(mut fs: Fs, carrier: Arc<dyn Carrier>) -> Result<Target, TargetError> {
        while fs.state() == FsState::Mounting {
            // Asking for a job may itself complete the mount.
            if !step(&mut fs, &*carrier) && fs.state() == FsState::Mounting {
                return Err(TargetError::Failed(carrier.path().to_owned(), Errno::Io));
            }
        }
        if let FsState::Failed(why) = fs.state() {
            return Err(TargetError::Unfit(carrier.path().to_owned(), why));
        }
        Ok(Target { fs, carrier })
    }

    /// Carries out an operation and the jobs that it needs.
    pub fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut Fs) -> Result<Step<T>, Errno>,
    ) -> Result<T, TargetError> {
        let failed = |errno| TargetError::Failed(self.carrier.path().to_owned(), errno);
        // Asking for a job may itself let the operation continue. If no job results, none ever will.
        let mut asked = 0;
        loop {
            match operation(&mut self.fs).map_err(failed)? {
                Step::Done(value) => return Ok(value),
                Step::Wait if step(&mut self.fs, &*self.carrier) => asked = 0,
                Step::Wait if asked == ASKED_MAX => return Err(failed(Errno::Io)),
                Step::Wait => asked += 1,
            }
        }
    }

    /// Unmounts the file system. All changes are durable on return.
    pub fn close(mut self) -> Result<(), TargetError> {
        self.fs.unmount();
        self.run(|fs| Ok(if fs.state() == FsState::Unmounted { Step::Done(()) } else { Step::Wait }))
    }

    /// Calls `see` with the path of each file and its directory entry; a directory comes before its contents.
    pub fn walk(&mut self, mut see: impl FnMut(&[u8], &DirEntry)) -> Result<(), TargetError> {
        let mut waiting = vec![(Ino::ROOT, Vec::new())];
        let mut entries = Vec::new();
        while let Some((directory, path)) = waiting.pop() {
            let (mut cookie, mut below) = (0, Vec::new());
            loop {
                self.run(|fs| fs.readdir(now(), directory, cookie, LISTED, true, &mut entries))?;
                let Some(last) = entries.last() else { break };
                cookie = last.cookie;
                for entry in entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
                    let whole = [&path, &b"/"[..], &entry.name].concat();
                    see(&whole, entry);
                    if entry.kind == pellucid_fs::FileKind::Directory {
                        below.push((entry.ino, whole));
                    }
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }
}

/// Requests for a job that yield none, after which an operation fails.
const ASKED_MAX: u32 = 100;
/// Entries per listing.
const LISTED: usize = 1024;

/// Carries out the next job, if there is one.
fn step(fs: &mut Fs, carrier: &dyn Carrier) -> bool {
    let Some(job) = fs.next_job(now()) else { return false };
    fs.answered(now(), carrier.end(carrier.begin(job)));
    true
}

/// Creates a file system in memory, still to be written.
fn formatted(path: &Path, backend: Backend, blocks: u64, how: &Format) -> Result<Fs, TargetError> {
    let failed = |error| TargetError::Image(ImageError::Io(path.to_owned(), error));
    let options = FormatOptions {
        backend,
        blocks,
        segment_blocks: 0,
        data_checksums: how.data_checksums,
        id: random().map_err(failed)?,
    };
    let unfit = |why| TargetError::Unfit(path.to_owned(), why);
    Fs::format(now(), &options, MountOptions::default()).map_err(unfit)
}

/// Returns true if the beginning of a drive holds only zeros. An unreadable block counts as data.
fn begins_empty(carrier: &dyn Carrier) -> bool {
    let blocks = (LOOKED_AT_BYTES / BLOCK_BYTES as u64) as u32;
    let begun = carrier.begin(Job::Read { id: JobId(1), block: 0, blocks });
    matches!(carrier.end(begun).outcome, JobOutcome::Ended(Ok(data)) if data.iter().all(|byte| *byte == 0))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
