//! Types of callers: numbers of files, times, attributes, errors, steps.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Longest name of an entry, and of an extended attribute.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link.
pub const TARGET_BYTES_MAX: usize = 4095;
/// Largest value of an extended attribute.
pub const XATTR_BYTES_MAX: usize = 65536;
/// Largest file, as ext4's with blocks of this size.
pub const FILE_BYTES_MAX: u64 = (u32::MAX as u64) * BLOCK_BYTES as u64;
/// Most links of a file, as ext4's.
pub const LINKS_MAX: u32 = 65_000;

/// Number of a file. A number is never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
}

/// Nanoseconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// Nanoseconds since `earlier`; 0 when that is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0).max(0) as u64
    }

    /// `ns` nanoseconds later.
    #[must_use]
    pub fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns as i64))
    }
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Regular file.
    File = 1,
    /// Directory.
    Directory = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Socket.
    Socket = 5,
    /// Character device.
    CharDevice = 6,
    /// Block device.
    BlockDevice = 7,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [FileKind; 7] = [
        FileKind::File,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];

    pub(crate) fn of(number: u8) -> Option<FileKind> {
        FileKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// `S_IFMT` bits of Linux's `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            FileKind::File => 0o100_000,
            FileKind::Directory => 0o040_000,
            FileKind::Symlink => 0o120_000,
            FileKind::Fifo => 0o010_000,
            FileKind::Socket => 0o140_000,
            FileKind::CharDevice => 0o020_000,
            FileKind::BlockDevice => 0o060_000,
        }
    }
}

/// Answer of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the file.
    pub ino: Ino,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky: 12 bits.
    pub mode: u16,
    /// Hard links; of a directory, 2 and its subdirectories.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// Last change of the attributes.
    pub changed: Time,
    /// Creation.
    pub created: Time,
}

/// A name that a directory listing gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Number of the file.
    pub ino: Ino,
    /// Kind.
    pub kind: FileKind,
    /// Position at which a listing continues after this entry. It stays valid while other entries
    /// are added and removed.
    pub cookie: u64,
    /// The name.
    pub name: Box<[u8]>,
    /// Answer of `stat`, where it was asked for.
    pub attributes: Option<Attributes>,
}

/// The process that asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// User; 0 may do everything.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: &'a [u32],
}

impl Caller<'_> {
    /// The superuser.
    pub const ROOT: Caller<'static> = Caller { uid: 0, gid: 0, groups: &[] };

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Rights that an access needs: any of read (4), write (2), execute (1), as in `access(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// No rights: the file has to exist.
    pub const NONE: Access = Access(0);
    /// Search of a directory, execution of a file.
    pub const EXECUTE: Access = Access(1);
    /// Writing.
    pub const WRITE: Access = Access(2);
    /// Reading.
    pub const READ: Access = Access(4);
}

/// A new time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the call.
    Now,
    /// This time.
    To(Time),
}

/// Changes of `setattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// The size is changed through a file that is open for writing (`ftruncate`): that was checked when it was opened.
    pub through_handle: bool,
    /// Last access.
    pub accessed: Option<SetTime>,
    /// Last change of the data.
    pub modified: Option<SetTime>,
    /// Last change of the attributes; set by kernels that keep it themselves.
    pub changed: Option<Time>,
}

/// Behaviour of rename when the new name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// `RENAME_NOREPLACE`: nothing happens.
    NoReplace,
    /// `RENAME_EXCHANGE`: both change places.
    Exchange,
    /// `RENAME_WHITEOUT`: it is replaced, and a whiteout of an overlay file system takes the old name: a character device 0, 0.
    Whiteout,
    /// `RENAME_WHITEOUT` with `RENAME_NOREPLACE`.
    NoReplaceWhiteout,
}

impl RenameMode {
    /// Returns true if a name that exists stays.
    pub(crate) fn keeps_target(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::NoReplaceWhiteout)
    }

    /// Returns true if a whiteout takes the old name.
    pub(crate) fn leaves_whiteout(self) -> bool {
        matches!(self, RenameMode::Whiteout | RenameMode::NoReplaceWhiteout)
    }
}

/// Behaviour of `setxattr` when the attribute exists, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set it.
    Set,
    /// `XATTR_CREATE`: it has to be new.
    Create,
    /// `XATTR_REPLACE`: it has to be there.
    Replace,
}

/// Operation of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Promises space, and lets the file grow to the end of the range.
    Allocate,
    /// `KEEP_SIZE`: promises space.
    KeepSize,
    /// `PUNCH_HOLE`: frees space; reads find zeros.
    PunchHole,
    /// `ZERO_RANGE`: reads find zeros, and space is promised.
    ZeroRange,
    /// `ZERO_RANGE | KEEP_SIZE`.
    ZeroRangeKeepSize,
}

/// Target of `lseek`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// Answer of `statfs`, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks that files and their metadata may take together.
    pub blocks: u64,
    /// Free blocks. The cleaner can make every one of them writable.
    pub blocks_free: u64,
    /// Files that could exist.
    pub files: u64,
    /// Files that could be made.
    pub files_free: u64,
    /// Identity of the file system.
    pub id: u64,
}

/// How far an operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Done.
    Done(T),
    /// The operation changed nothing. It needs blocks that are not in memory, or space: carry out jobs, then call it again.
    Wait,
}

impl<T> Step<T> {
    /// Returns the result if the operation is done.
    pub fn done(self) -> Option<T> {
        match self {
            Step::Done(value) => Some(value),
            Step::Wait => None,
        }
    }
}

/// All changes made before `sync` was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncPoint(pub(crate) u64);

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Why an operation failed, as Linux counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum Errno { $($(#[$doc])* #[error($text)] $name = $code,)* }

        impl Errno {
            /// The number.
            pub const fn code(self) -> i32 {
                self as i32
            }
        }
    };
}

errnos! {
    /// EPERM
    NotPermitted = 1, "not permitted";
    /// ENOENT
    NoEntry = 2, "no such file or directory";
    /// EIO
    Io = 5, "input/output error";
    /// ENXIO
    NoAddress = 6, "no such data";
    /// E2BIG
    TooBig = 7, "too big";
    /// EBADF
    BadHandle = 9, "bad file descriptor";
    /// EACCES
    AccessDenied = 13, "permission denied";
    /// EBUSY
    Busy = 16, "busy";
    /// EEXIST
    Exists = 17, "file exists";
    /// ENOTDIR
    NotDirectory = 20, "not a directory";
    /// EISDIR
    IsDirectory = 21, "is a directory";
    /// EINVAL
    Invalid = 22, "invalid argument";
    /// EFBIG
    FileTooBig = 27, "file too big";
    /// ENOSPC
    NoSpace = 28, "no space left";
    /// EROFS
    ReadOnly = 30, "read-only file system";
    /// EMLINK
    TooManyLinks = 31, "too many links";
    /// ERANGE
    Range = 34, "out of range";
    /// ENAMETOOLONG
    NameTooLong = 36, "name too long";
    /// ENOTEMPTY
    NotEmpty = 39, "directory not empty";
    /// ENODATA
    NoData = 61, "no such attribute";
    /// EOPNOTSUPP
    NotSupported = 95, "not supported";
}
