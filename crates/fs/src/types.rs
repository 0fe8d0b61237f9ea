//! Public types: file numbers, times, attributes, errors, steps.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Longest name of an entry or extended attribute.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link.
pub const TARGET_BYTES_MAX: usize = 4095;
/// Largest value of an extended attribute.
pub const XATTR_BYTES_MAX: usize = 65536;
/// Largest file, as in ext4 with blocks of this size.
pub const FILE_BYTES_MAX: u64 = (u32::MAX as u64) * BLOCK_BYTES as u64;
/// Most links of a file, as in ext4.
pub const LINKS_MAX: u32 = 65_000;

/// Number of a file; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(1);
}

/// Nanoseconds since the start of 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// Nanoseconds since `earlier`; 0 if that is later.
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

/// Result of `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the file.
    pub ino: Ino,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits, with set-user-id, set-group-id and sticky: 12 bits.
    pub mode: u16,
    /// Hard links; for a directory, 2 plus its subdirectories.
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
    /// Result of `stat`, if requested.
    pub attributes: Option<Attributes>,
}

/// The calling process.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// User id; 0 may do everything.
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
    /// No rights: the file only has to exist.
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
    /// True if the size is changed through a file open for writing (`ftruncate`), checked when it was opened.
    pub through_handle: bool,
    /// Last access.
    pub accessed: Option<SetTime>,
    /// Last change of the data.
    pub modified: Option<SetTime>,
    /// Last change of the attributes; set by kernels that maintain it themselves.
    pub changed: Option<Time>,
}

/// Behaviour of rename when the new name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// `RENAME_NOREPLACE`: fail.
    NoReplace,
    /// `RENAME_EXCHANGE`: exchange the two.
    Exchange,
    /// `RENAME_WHITEOUT`: replace it, and leave a whiteout of an overlay file system under the old name: a character device 0, 0.
    Whiteout,
    /// `RENAME_WHITEOUT` with `RENAME_NOREPLACE`.
    NoReplaceWhiteout,
}

impl RenameMode {
    /// Returns true if an existing name stays.
    pub(crate) fn keeps_target(self) -> bool {
        matches!(self, RenameMode::NoReplace | RenameMode::NoReplaceWhiteout)
    }

    /// Returns true if the old name becomes a whiteout.
    pub(crate) fn leaves_whiteout(self) -> bool {
        matches!(self, RenameMode::Whiteout | RenameMode::NoReplaceWhiteout)
    }
}

/// Behaviour of `setxattr` when the attribute exists, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Set it.
    Set,
    /// `XATTR_CREATE`: it must be new.
    Create,
    /// `XATTR_REPLACE`: it must exist.
    Replace,
}

/// Operation of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Promises space; the file grows to the end of the range.
    Allocate,
    /// `KEEP_SIZE`: promises space without growing the file.
    KeepSize,
    /// `PUNCH_HOLE`: frees space; the range reads as zeros.
    PunchHole,
    /// `ZERO_RANGE`: the range reads as zeros, and its space is promised.
    ZeroRange,
    /// `ZERO_RANGE | KEEP_SIZE`.
    ZeroRangeKeepSize,
}

/// Content that `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

/// Result of `statfs`, in blocks of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks available to files and their metadata together.
    pub blocks: u64,
    /// Free blocks; the cleaner can make every one of them writable.
    pub blocks_free: u64,
    /// Maximum number of files.
    pub files: u64,
    /// Files that could still be created.
    pub files_free: u64,
    /// Identity of the file system.
    pub id: u64,
}

/// Progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Done.
    Done(T),
    /// The operation changed nothing. It needs blocks that are not in memory, or space: execute jobs, then call it again.
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
        /// Reason why an operation failed, with Linux's number.
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
