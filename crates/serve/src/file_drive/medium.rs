//! The file itself: how it is opened, and each operation as a system call.
//!
//! Invariant: a read returns the data written, or an error. A write never extends a file that has become
//! shorter, as that would replace lost data by zeros.

use super::config::{FileConfig, FileError};
use pellucid_flash::{Command, Held, Lba, Opcode, Status};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom as SeekTo, fallocate, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// Error for a file that was truncated to zero; it is not taken for a new one.
const EMPTY: &str = "it is there and empty: what it held is gone; allowed: a copy of it, or no file at all and ,size=BYTES, which makes a new one";

/// Error for a file without a name, whose data end with this process.
const DELETED: &str = "it was deleted or replaced; what it holds is lost when this process ends: copy it through the drive, which takes no writes any more";

/// First bytes of our own files that are no plain disks, and the reason why each is refused.
const OURS: [(&[u8], &str); 2] = [
    (
        b"PELLUCID",
        "it is the media of a modelled drive, not a plain disk; allowed: that drive with --set media.store=file:PATH, or \
         another file",
    ),
    (
        b"PELLAGED",
        "it is the image of a used drive, not a plain disk; allowed: that drive from this image, or another file",
    ),
];

/// Buffer size, and so the piece size of long operations, where direct I/O needs its own memory.
const PIECE_BYTES: usize = 1 << 18;
/// Alignment of memory for direct I/O.
const ALIGNMENT: usize = 4096;

/// Cost of asking a file system for holes, in lookups in a table in memory.
const SEEK_LOOKS: u64 = 128;

/// An open file, locked against other processes.
pub(super) struct Medium {
    file: File,
    path: PathBuf,
    bytes: u64,
    sector_bytes: u32,
    direct: bool,
    /// The file is regular, not a block device.
    is_regular: bool,
    /// The file had a name when it was opened; one in memory or a temporary one has none.
    named: bool,
}

/// A file that this process has created. Unless the drive has been used, the file is removed with it, so that
/// a refused start leaves nothing behind.
pub(super) struct Made(Option<PathBuf>);

impl Made {
    /// Keeps the file after the drive is dropped.
    pub fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Failure of an operation.
pub(super) struct Trouble {
    /// Status for the host.
    pub status: Status,
    /// Consequence, with the message for the log.
    pub what: What,
}

/// Consequence of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Only this operation fails.
    Passing(String),
    /// Acknowledged data may be lost: the drive refuses writes.
    Doubt(String),
    /// The file or device has changed: no operation works any more.
    Gone(String),
}

/// Buffer of a thread for direct I/O and for zeros.
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(vec![0; PIECE_BYTES + ALIGNMENT])
    }

    fn aligned(&mut self) -> &mut [u8] {
        let at = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[at..at + PIECE_BYTES]
    }
}

impl Medium {
    pub fn open(config: &FileConfig) -> Result<(Medium, Made), FileError> {
        let path = &config.path;
        let io = |action| move |source| FileError::Io { path: path.clone(), action, source };
        let unfit = |why: String| FileError::Unfit { path: path.clone(), why };
        let there = match std::fs::metadata(path) {
            Ok(found) => Some(found.file_type()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(io("open")(error)),
        };
        let is_regular = there.is_none_or(|kind| kind.is_file());
        if !is_regular && !there.is_some_and(|kind| kind.is_block_device()) {
            return Err(unfit("allowed: a regular file, a block device".into()));
        }
        if there.is_none() && config.size_bytes.is_none() {
            return Err(unfit("no such file; allowed: ,size=BYTES behind it, which makes one".into()));
        }
        // `O_EXCL` refuses a block device that is mounted or part of another device.
        let exclusive = if is_regular { OFlags::empty() } else { OFlags::EXCL };
        let direct = if config.direct { OFlags::DIRECT } else { OFlags::empty() };
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags((exclusive | direct).bits() as i32);
        let file = options.create_new(there.is_none()).open(path);
        let mut file = file.map_err(io("open for reading and writing"))?;
        let made = Made(there.is_none().then(|| path.clone()));
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(unfit("another process has it".into())),
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        let mut bytes = file.seek(SeekFrom::End(0)).map_err(io("ask for the size"))?;
        if is_regular && there.is_some() && bytes == 0 {
            return Err(unfit(EMPTY.into()));
        }
        match config.size_bytes {
            Some(size) if is_regular && bytes == 0 => {
                file.set_len(size).map_err(io("give it its size"))?;
                bytes = size;
            }
            Some(size) if size != bytes => {
                return Err(unfit(format!("size = {size}; it has {bytes} bytes; allowed: that, or no size")));
            }
            _ => {}
        }
        let sector = u64::from(config.sector_bytes);
        if bytes == 0 || !bytes.is_multiple_of(sector) {
            return Err(unfit(format!("its size of {bytes} bytes is no multiple of a sector of {sector}")));
        }
        let (path, sector_bytes) = (path.clone(), config.sector_bytes);
        let named = file.metadata().map_err(io("ask for its names"))?.nlink() > 0;
        let medium = Medium { file, path, bytes, sector_bytes, direct: config.direct, is_regular, named };
        medium.try_a_read()?;
        Ok((medium, made))
    }

    /// Reads the first sector, to check that the file is readable, that direct I/O works with single sectors,
    /// and that the file is none of our own formats, which a write of the host would damage.
    fn try_a_read(&self) -> Result<(), FileError> {
        let mut scratch = Scratch::new();
        let first = &mut scratch.aligned()[..self.sector_bytes as usize];
        match self.read_at(first, 0, ReadWriteFlags::empty()) {
            Ok(()) => match OURS.iter().find(|(magic, _)| first.starts_with(magic)) {
                Some((_, why)) => Err(FileError::Unfit { path: self.path.clone(), why: (*why).into() }),
                None => Ok(()),
            },
            Err(Some(Errno::INVAL)) if self.direct => Err(FileError::Unfit {
                path: self.path.clone(),
                why: format!(
                    "direct = true: not in sectors of {} bytes; allowed: false, or larger sectors",
                    self.sector_bytes
                ),
            }),
            Err(error) => Err(FileError::Io {
                path: self.path.clone(),
                action: "read the first sector",
                source: error.unwrap_or(Errno::IO).into(),
            }),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Identity of this file or device, the same at every opening, to distinguish it from others of its
    /// size: for a file, inode and birth time; for a device, the system's identifiers, at least its number.
    pub fn identity(&self) -> String {
        let Ok(found) = self.file.metadata() else { return self.path.display().to_string() };
        if self.is_regular {
            let birth = found.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let birth = birth.map_or(0, |since| since.as_nanos());
            return format!("inode {}, born {birth}", found.ino());
        }
        let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
        let of_system = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let known =
            ["wwid", "device/wwid", "device/serial", "dm/uuid", "loop/backing_file", "uuid", "partition"];
        let known = known.iter().filter_map(|name| {
            let text = std::fs::read_to_string(of_system.join(name)).ok()?;
            Some(format!("{name} {}", text.trim()))
        });
        let known: Vec<String> = known.collect();
        match known.is_empty() {
            true => format!("device {major}:{minor}"),
            false => format!("device, {}", known.join(", ")),
        }
    }

    /// Returns the status of an invalid command.
    pub fn refuse(&self, command: &Command) -> Option<Status> {
        let Command { opcode, lba, sectors, data, namespace, .. } = command;
        let bytes = *sectors as usize * self.sector_bytes as usize;
        let sound = match opcode {
            Opcode::Flush => return (*namespace != 0).then_some(Status::InvalidField),
            Opcode::Read => *sectors > 0 && (data.is_empty() || data.len() == bytes),
            Opcode::Write => *sectors > 0 && data.len() == bytes,
            Opcode::Trim | Opcode::WriteZeroes => *sectors > 0,
            _ => return Some(Status::InvalidOpcode),
        };
        let end = lba.0.checked_add(u64::from(*sectors));
        match end {
            _ if !sound || *namespace != 0 || command.vector.is_some() => Some(Status::InvalidField),
            Some(end) if end <= self.bytes / u64::from(self.sector_bytes) => None,
            _ => Some(Status::LbaOutOfRange),
        }
    }

    fn offset(&self, command: &Command) -> u64 {
        command.lba.0 * u64::from(self.sector_bytes)
    }

    /// Reports whether a sector holds data, and how far the file system says so. Unknown sectors count as
    /// data.
    pub fn held(&self, lba: Lba) -> Held {
        let sector = u64::from(self.sector_bytes);
        let at = lba.0 * sector;
        let data = Held { holds: true, until: u64::MAX, looks: SEEK_LOOKS };
        let hole = |end: u64| Held { holds: false, until: end / sector, ..data };
        match seek(&self.file, SeekTo::Data(at)) {
            Ok(next) if next / sector > lba.0 => hole(next),
            // A hole that ends within the sector does not count.
            Ok(_) => match seek(&self.file, SeekTo::Hole(at + sector - 1)) {
                Ok(end) => Held { until: end.div_ceil(sector), ..data },
                Err(_) => Held { until: lba.0 + 1, ..data },
            },
            Err(Errno::NXIO) if self.check_whole(Status::UnrecoveredRead).is_ok() => hole(u64::MAX),
            Err(_) => data,
        }
    }

    /// Reads from the page cache; returns false if data are missing there or the file does not support it.
    pub fn read_cached(&self, command: &mut Command) -> bool {
        if self.direct || command.data.is_empty() {
            return false;
        }
        let at = self.offset(command);
        let wanted = command.data.len();
        let read = preadv2(&self.file, &mut [IoSliceMut::new(&mut command.data)], at, ReadWriteFlags::NOWAIT);
        read == Ok(wanted)
    }

    /// Executes a command.
    pub fn execute(&self, command: &mut Command, scratch: &mut Scratch) -> Result<(), Trouble> {
        let at = self.offset(command);
        let length = u64::from(command.sectors) * u64::from(self.sector_bytes);
        let force = if command.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        match command.opcode {
            Opcode::Read => self.read(&mut command.data, at, length, scratch),
            Opcode::Write => self.write(&command.data, at, force, scratch),
            Opcode::Flush => self.sync(),
            Opcode::Trim => self.discard(FallocateFlags::PUNCH_HOLE, at, length, command.fua, scratch),
            _ => self.discard(FallocateFlags::ZERO_RANGE, at, length, command.fua, scratch),
        }
    }

    fn read(&self, data: &mut [u8], at: u64, length: u64, scratch: &mut Scratch) -> Result<(), Trouble> {
        let outcome = match (self.direct, data.is_empty()) {
            (false, false) => self.read_at(data, at, ReadWriteFlags::empty()),
            // Direct reads, and reads that return no data.
            _ => pieces(length).try_for_each(|(from, to)| {
                let piece = &mut scratch.aligned()[..to - from];
                self.read_at(piece, at + from as u64, ReadWriteFlags::empty())?;
                if let Some(place) = data.get_mut(from..to) {
                    place.copy_from_slice(piece);
                }
                Ok(())
            }),
        };
        outcome.map_err(|error| match error {
            Some(error) => self.trouble(Status::UnrecoveredRead, "read", error),
            None => self.gone(Status::UnrecoveredRead),
        })
    }

    fn write(
        &self,
        data: &[u8],
        at: u64,
        force: ReadWriteFlags,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        self.check_whole(Status::WriteFault)?;
        let outcome = match self.direct {
            false => self.write_at(data, at, force),
            true => pieces(data.len() as u64).try_for_each(|(from, to)| {
                let piece = &mut scratch.aligned()[..to - from];
                piece.copy_from_slice(&data[from..to]);
                self.write_at(piece, at + from as u64, force)
            }),
        };
        outcome.map_err(|error| {
            let trouble = self.trouble(Status::WriteFault, "write", error);
            // An error of a forced write may belong to an earlier write, and the system reports it only once.
            if force.is_empty() || is_full(error) { trouble } else { trouble.into_doubt() }
        })
    }

    /// Writes all acknowledged data to the disk.
    fn sync(&self) -> Result<(), Trouble> {
        self.check_whole(Status::WriteFault)?;
        again(|| rustix::fs::fdatasync(&self.file))
            .map_err(|error| self.trouble(Status::WriteFault, "flush", error).into_doubt())
    }

    /// Discards or zeroes a range, by the best means of the file system.
    fn discard(
        &self,
        how: FallocateFlags,
        at: u64,
        length: u64,
        fua: bool,
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        self.check_whole(Status::WriteFault)?;
        match again(|| fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, at, length)) {
            Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL) => {
                scratch.aligned().fill(0);
                for (from, to) in pieces(length) {
                    self.write_at(&scratch.aligned()[..to - from], at + from as u64, ReadWriteFlags::empty())
                        .map_err(|error| self.trouble(Status::WriteFault, "write zeros", error))?;
                }
            }
            result => result.map_err(|error| self.trouble(Status::WriteFault, "discard", error))?,
        }
        if fua { self.sync() } else { Ok(()) }
    }

    /// Reads exactly the length of `data`; the error `None` means that the file ends before.
    fn read_at(&self, mut data: &mut [u8], mut at: u64, flags: ReadWriteFlags) -> Result<(), Option<Errno>> {
        while !data.is_empty() {
            match again(|| preadv2(&self.file, &mut [IoSliceMut::new(data)], at, flags)).map_err(Some)? {
                0 => return Err(None),
                read => {
                    data = &mut data[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }

    fn write_at(&self, mut data: &[u8], mut at: u64, flags: ReadWriteFlags) -> Result<(), Errno> {
        while !data.is_empty() {
            match again(|| pwritev2(&self.file, &[IoSlice::new(data)], at, flags))? {
                0 => return Err(Errno::IO),
                written => {
                    data = &data[written..];
                    at += written as u64;
                }
            }
        }
        Ok(())
    }

    /// Checks that a file is at least as long as it was, and still has a name if it had one.
    fn check_whole(&self, status: Status) -> Result<(), Trouble> {
        if !self.is_regular {
            return Ok(());
        }
        match rustix::fs::fstat(&self.file) {
            Ok(found) if self.named && found.st_nlink == 0 => {
                Err(Trouble { status, what: What::Doubt(DELETED.into()) })
            }
            Ok(found) if found.st_size as u64 >= self.bytes => Ok(()),
            Ok(_) => Err(self.gone(status)),
            Err(error) => Err(self.trouble(status, "ask for the size", error)),
        }
    }

    fn gone(&self, status: Status) -> Trouble {
        let why = format!(
            "it is shorter than the {} bytes that it had; nothing of it is served any more",
            self.bytes
        );
        Trouble { status, what: What::Gone(why) }
    }

    fn trouble(&self, status: Status, action: &str, error: Errno) -> Trouble {
        let sentence = format!("cannot {action}: {}", std::io::Error::from(error));
        let what = match error {
            Errno::NXIO | Errno::NODEV => What::Gone(sentence),
            _ => What::Passing(sentence),
        };
        Trouble { status, what }
    }
}

impl Trouble {
    /// Escalates the failure: data acknowledged before may be lost.
    fn into_doubt(self) -> Trouble {
        let what = match self.what {
            What::Passing(why) => What::Doubt(format!(
                "{why}; what was written before may be lost, so it takes no writes any more"
            )),
            other => other,
        };
        Trouble { what, ..self }
    }
}

fn is_full(error: Errno) -> bool {
    matches!(error, Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
}

/// Bounds of the pieces of a range.
fn pieces(length: u64) -> impl Iterator<Item = (usize, usize)> {
    let length = length as usize;
    (0..length).step_by(PIECE_BYTES).map(move |from| (from, (from + PIECE_BYTES).min(length)))
}

/// Repeats a call while signals interrupt it.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
