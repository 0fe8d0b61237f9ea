//! Conversions between the kernel's types and the file system's.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use pellucid_fs::{Attributes, Errno, FileKind, Ino, SetTime, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.code())
}

/// Current time, for a request.
pub fn now() -> Time {
    time(SystemTime::now())
}

/// Converts a time of a request. Times outside the range of 64-bit nanoseconds (before 1677, after 2262) are
/// clamped to it.
pub fn time(at: SystemTime) -> Time {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => Time(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
        // Before 1970 `fuser` subtracts the nanoseconds instead of adding them.
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            Time((-seconds).saturating_mul(1_000_000_000).saturating_add(before.subsec_nanos().into()))
        }
    }
}

fn system_time(at: Time) -> SystemTime {
    let distance = Duration::from_nanos(at.0.unsigned_abs());
    if at.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

pub fn set_time(to: TimeOrNow) -> SetTime {
    match to {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(at) => SetTime::To(time(at)),
    }
}

pub fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Converts the `S_IFMT` bits of a mode to a file kind. No bits mean a regular file, as in `mknod(2)`.
pub fn kind_of_mode(mode: u32) -> Option<FileKind> {
    match mode & S_IFMT {
        0 => Some(FileKind::File),
        bits => FileKind::ALL.into_iter().find(|kind| kind.mode_bits() == bits),
    }
}

const S_IFMT: u32 = 0o170_000;
/// Permission bits, with set-user-id, set-group-id and sticky.
const PERMISSIONS: u32 = 0o7777;

pub fn permissions(mode: u32) -> u16 {
    (mode & PERMISSIONS) as u16
}

pub fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.ino.0),
        size: of.size,
        blocks: of.blocks,
        atime: system_time(of.accessed),
        mtime: system_time(of.modified),
        ctime: system_time(of.changed),
        crtime: system_time(of.created),
        kind: kind(of.kind),
        perm: of.mode,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.rdev,
        blksize: pellucid_fs::BLOCK_BYTES as u32,
        flags: 0,
    }
}
