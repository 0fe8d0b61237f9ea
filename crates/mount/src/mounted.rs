//! Life of a mount, from the command to its end.

use crate::requests::Requests;
use crate::volume::Volume;
use fuser::{Config, INodeNo, MountOption, Session, SessionACL, SessionUnmounter};
use pellucid_flash::Figure;
use pellucid_fs::Ino;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// Minimum number of threads that read requests. With fewer, a thread that waits for the image delays the
/// requests behind it.
const THREADS_MIN: usize = 4;

/// Memory of a thread that reads requests: fuser's buffer (16 MiB of data and a page) and its stack.
const THREAD_BYTES: usize = (16 << 20) + 4096 + (2 << 20);

/// Error that prevents a mount, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be used.
    #[error("{}: {}; allowed: an existing directory on which nothing is mounted", .0.display(), .1)]
    Point(PathBuf, &'static str),
    /// The kernel refuses the mount.
    #[error("{}: cannot be mounted: {}", .0.display(), .1)]
    Refused(PathBuf, String),
    /// The system gives no memory for the threads.
    #[error(
        "the {threads} threads that answer the kernel take {needed_bytes} bytes of memory, which the system does not give; allowed: fewer \
         threads, or a higher limit of memory"
    )]
    Memory {
        /// Number of threads.
        threads: usize,
        /// Bytes that they take.
        needed_bytes: usize,
    },
}

/// Refuses a mount whose threads would end for want of memory.
fn check_memory(threads: usize) -> Result<(), MountError> {
    let needed_bytes = threads * THREAD_BYTES;
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(needed_bytes).map_err(|_| MountError::Memory { threads, needed_bytes })?;
    // The compiler must not leave out the attempt.
    drop(std::hint::black_box(probe));
    Ok(())
}

/// Checks a mount point: it must be a directory on which nothing is mounted.
pub fn check_point(point: &Path) -> Result<(), MountError> {
    let refuse = |why| Err(MountError::Point(point.to_owned(), why));
    let data = match point.metadata() {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return refuse("is not there"),
        // The rest of a mount whose process was killed.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            return refuse("is a mount whose process has ended (umount takes it away)");
        }
        Err(_) => return refuse("cannot be looked at"),
    };
    if !data.is_dir() {
        return refuse("is no directory");
    }
    let parent = point.canonicalize().ok().and_then(|whole| whole.parent().map(Path::to_owned));
    if parent.is_none_or(|parent| parent.metadata().is_ok_and(|parent| parent.dev() != data.dev())) {
        return refuse("is a mount point already");
    }
    Ok(())
}

/// Options of a mount.
#[derive(Clone, Copy, Debug)]
pub struct MountedOptions {
    /// Changes are refused.
    pub read_only: bool,
    /// Other users may access the mount, as far as modes allow. If root mounts, they always may.
    pub others: bool,
    /// Threads that answer the kernel; `None`: two for each processor.
    pub threads: Option<usize>,
}

/// A mount that is served.
pub struct Mounted {
    session: Session<Requests>,
    volume: Arc<Volume>,
    point: PathBuf,
    ends: (Sender<End>, Receiver<End>),
}

/// Reason why a mount ends.
enum End {
    /// The file system was unmounted, or the kernel's requests could not be read.
    Session(io::Result<()>),
    /// The mount point is gone, but files are still open.
    Detached,
}

impl Mounted {
    /// Mounts a volume.
    pub fn new(volume: Volume, point: &Path, options: &MountedOptions) -> Result<Mounted, MountError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or((2 * processors).max(THREADS_MIN));
        check_memory(threads)?;
        let (name, volume) = (volume.path().display().to_string(), Arc::new(volume));
        volume.watch();
        let mut config = Config::default();
        let access = if options.read_only { MountOption::RO } else { MountOption::RW };
        // The kernel would split a name with commas into several options.
        let name = name.replace(',', "_");
        let subtype = MountOption::Subtype("pellucid".into());
        config.mount_options =
            vec![MountOption::FSName(name), subtype, access, MountOption::DefaultPermissions];
        let root = rustix::process::geteuid().is_root();
        if root {
            config.mount_options.extend([MountOption::Dev, MountOption::Suid]);
        }
        config.acl = if options.others || root { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(threads);
        config.clone_fd = true;
        let requests = Requests::new(Arc::clone(&volume));
        let session = Session::new(requests, point, &config)
            .map_err(|error| MountError::Refused(point.to_owned(), error.to_string()))?;
        Ok(Mounted { session, volume, point: point.to_owned(), ends: mpsc::channel() })
    }

    /// Returns a function for any thread that returns the file system's figures from the last moment it was not busy, and none once it is unmounted.
    pub fn figures(&self) -> impl Fn() -> Vec<Figure> + Send + Sync + 'static {
        let (volume, last) = (Arc::downgrade(&self.volume), Mutex::new(Vec::new()));
        move || {
            let Some(volume) = volume.upgrade() else { return Vec::new() };
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(figures) = volume.figures() {
                *last = figures;
            }
            last.clone()
        }
    }

    /// Returns a handle that unmounts from another thread.
    pub fn ender(&mut self) -> Ender {
        let unmounter = Mutex::new(self.session.unmount_callable());
        Ender { unmounter, point: self.point.clone(), ends: self.ends.0.clone() }
    }

    /// Serves the mount until it ends. All changes are durable on return.
    pub fn serve(self) -> Result<(), ServeError> {
        let Mounted { session, volume, ends: (ends, ended), .. } = self;
        let keeper = {
            let (volume, notifier) = (Arc::clone(&volume), session.notifier());
            // A file that the kernel has already forgotten is no error.
            let forget = move |ino: Ino| drop(notifier.inval_inode(INodeNo(ino.0), 0, 0));
            std::thread::spawn(move || volume.keep(forget))
        };
        std::thread::spawn(move || ends.send(End::Session(session.run())));
        let served = match ended.recv() {
            Ok(End::Session(served)) => served,
            Ok(End::Detached) | Err(mpsc::RecvError) => Ok(()),
        };
        let committed = volume.end();
        // If the keeper has panicked, no caller is left to report it to.
        let _ = keeper.join();
        served.map_err(ServeError::Session)?;
        committed.map_err(|errno| ServeError::End(volume.failure().unwrap_or_else(|| errno.to_string())))
    }
}

/// Error that ended a mount before it was unmounted.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The kernel's requests could not be read.
    #[error("requests of the kernel: {0}")]
    Session(#[source] io::Error),
    /// The last commit failed: changes that were not synced are lost.
    #[error("the last commit failed: {0}; unsynced changes since the commit before it are lost")]
    End(String),
}

/// Ends a mount from another thread.
pub struct Ender {
    unmounter: Mutex<SessionUnmounter>,
    point: PathBuf,
    ends: Sender<End>,
}

impl Ender {
    /// Unmounts, after the kernel has written back its changes. If files are open, the mount point still goes
    /// away and the files stop answering.
    pub fn end(&self) {
        if let Ok(root) = File::open(&self.point) {
            let _ = rustix::fs::syncfs(&root);
        }
        let mut unmounter = self.unmounter.lock().unwrap_or_else(PoisonError::into_inner);
        if unmounter.unmount().is_err() {
            let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
            // The receiver is gone if the mount has already ended by itself.
            let _ = self.ends.send(End::Detached);
        }
    }
}
