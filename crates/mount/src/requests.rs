//! Requests of the kernel. The thread that reads a request carries it out.
//!
//! The kernel may cache all it learns, because nothing else changes this file system: names, missing names,
//! attributes, listings, data. Files are not opened and closed here: after an `open` is answered with ENOSYS,
//! the kernel omits both. A file lives while the number of answers that named it, minus its FORGETs, is
//! positive. The kernel checks permissions (`default_permissions`) with all groups of the caller; the file
//! system checks them again.

use crate::convert::{self, attributes, errno, ino, now, permissions};
use crate::volume::Volume;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use pellucid_fs::{
    Attributes, BLOCK_BYTES, Caller, FallocateMode, FileKind, Ino, NAME_BYTES_MAX, ReadData, RenameMode,
    SetAttributes, Time, Whence, WriteData, XattrMode,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Time for which the kernel may cache an answer.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Largest write that the kernel sends; its limit of pages per request allows no more.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel sends before it makes a process wait.
const BACKGROUND_REQUESTS: u16 = 64;
/// Inode numbers are never reused, so the generation is constant.
const GENERATION: Generation = Generation(0);
const NO_HANDLE: FileHandle = FileHandle(0);
/// A caller that is not the superuser.
const NOBODY: Caller<'static> = Caller { uid: u32::MAX, gid: u32::MAX, groups: &[] };

/// Flags of `fallocate(2)`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
/// Flag of `open(2)`: data must be durable before the answer.
const O_DSYNC: i32 = 0o10_000;
/// Whences of `lseek(2)`.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
/// Flags of `setxattr(2)`.
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// Handler of the kernel's requests.
pub struct Requests {
    volume: Arc<Volume>,
}

impl Requests {
    pub fn new(volume: Arc<Volume>) -> Requests {
        Requests { volume }
    }
}

/// Sends the result, or the error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(errno(error)),
        }
    };
}

thread_local! {
    /// Buffers for data on their way to the kernel.
    static BUFFERS: RefCell<(ReadData, Vec<u8>)> = RefCell::default();
}

/// Supplementary groups of a process.
fn groups_of(request: &Request) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

/// Carries out an operation that may depend on the groups of the caller. Reading the groups takes a lookup in
/// /proc, so it is done only if the operation is refused without them.
fn as_caller<T>(
    request: &Request,
    mut operation: impl FnMut(&Caller<'_>) -> Result<T, pellucid_fs::Errno>,
) -> Result<T, pellucid_fs::Errno> {
    use pellucid_fs::Errno::{AccessDenied, NotPermitted};
    let caller = Caller { uid: request.uid(), gid: request.gid(), groups: &[] };
    match operation(&caller) {
        Err(AccessDenied | NotPermitted) if caller.uid != 0 => {
            operation(&Caller { groups: &groups_of(request), ..caller })
        }
        answer => answer,
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            // Otherwise the kernel asks before every write whether the file has capabilities.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        for flag in wanted {
            // A capability that the kernel lacks is not needed.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_REQUESTS);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // The kernel has already checked search permission on the directory.
        let found = self.volume.named(|fs| fs.lookup(now(), &Caller::ROOT, ino(parent), name.as_bytes()));
        match found {
            Ok(found) => reply.entry(&KEEP, &attributes(&found), GENERATION),
            Err(pellucid_fs::Errno::NoEntry) => reply.entry(&KEEP, &nothing(), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _request: &Request, node: INodeNo, times: u64) {
        self.volume.forget(ino(node), times);
    }

    fn getattr(&self, _request: &Request, node: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.volume.run(|fs| fs.getattr(now(), ino(node))), found => reply.attr(&KEEP, &attributes(&found)))
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_too: Option<SystemTime>,
        _saved: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            mode: mode.map(permissions),
            uid,
            gid,
            size,
            through_handle: handle.is_some(),
            accessed: accessed.map(convert::set_time),
            modified: modified.map(convert::set_time),
            changed: changed.map(convert::time),
        };
        // Here groups decide more than permission: they also decide whether the set-group-id bit stays.
        let groups = if request.uid() == 0 { Vec::new() } else { groups_of(request) };
        let caller = Caller { uid: request.uid(), gid: request.gid(), groups: &groups };
        let done = self.volume.run(|fs| fs.setattr(now(), &caller, ino(node), &set));
        answer!(reply, done, found => reply.attr(&KEEP, &attributes(&found)))
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        answer!(reply, self.volume.run(|fs| fs.readlink(now(), ino(node))), target => reply.data(&target))
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = convert::kind_of_mode(mode) else { return reply.error(Errno::EINVAL) };
        let made = self.make(request, parent, name, kind, mode, device);
        answer!(reply, made, made => reply.entry(&KEEP, &attributes(&made), GENERATION))
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(request, parent, name, FileKind::Directory, mode, 0);
        answer!(reply, made, made => reply.entry(&KEEP, &attributes(&made), GENERATION))
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(request, parent, name, FileKind::File, mode, 0);
        answer!(reply, made, made => {
            reply.created(&KEEP, &attributes(&made), GENERATION, NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE)
        })
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (name, target) = (name.as_bytes(), target.as_os_str().as_bytes());
        let made = as_caller(request, |caller| {
            self.volume.named(|fs| fs.symlink(now(), caller, ino(parent), name, target))
        });
        answer!(reply, made, made => reply.entry(&KEEP, &attributes(&made), GENERATION))
    }

    fn link(&self, request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = as_caller(request, |caller| {
            self.volume.named(|fs| fs.link(now(), caller, ino(node), ino(parent), name.as_bytes()))
        });
        answer!(reply, made, made => reply.entry(&KEEP, &attributes(&made), GENERATION))
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.unlink(now(), caller, ino(parent), name.as_bytes()))
        });
        answer!(reply, done, _ => reply.ok())
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.rmdir(now(), caller, ino(parent), name.as_bytes()))
        });
        answer!(reply, done, _ => reply.ok())
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            RenameFlags::RENAME_WHITEOUT => RenameMode::Whiteout,
            flags if flags == RenameFlags::RENAME_WHITEOUT | RenameFlags::RENAME_NOREPLACE => {
                RenameMode::NoReplaceWhiteout
            }
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((ino(parent), name.as_bytes()), (ino(new_parent), new_name.as_bytes()));
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.rename(now(), caller, from.0, from.1, to.0, to.1, mode))
        });
        answer!(reply, done, _ => reply.ok())
    }

    fn open(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFERS.with_borrow_mut(|(parts, buffer)| {
            let read = self.volume.run(|fs| fs.read_data(now(), ino(node), offset, bytes as usize, parts));
            parts.take(buffer);
            answer!(reply, read, _ => reply.data(buffer))
        })
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel has checked everything except whether to clear the set-user-id and set-group-id bits.
        let kills = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let caller = if kills { NOBODY } else { Caller::ROOT };
        let mut written = self.write_pieces(&caller, ino(node), offset, data);
        if flags.0 & O_DSYNC != 0 && !how.contains(WriteFlags::FUSE_WRITE_CACHE) {
            written = written.and_then(|written| self.volume.sync().map(|()| written));
        }
        answer!(reply, written, bytes => reply.written(bytes as u32))
    }

    fn fsync(&self, _request: &Request, _node: INodeNo, _handle: FileHandle, _data: bool, reply: ReplyEmpty) {
        answer!(reply, self.volume.sync(), () => reply.ok())
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _data: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.volume.sync(), () => reply.ok())
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const PUNCH: i32 = PUNCH_HOLE | KEEP_SIZE;
        const ZERO_KEEP: i32 = ZERO_RANGE | KEEP_SIZE;
        let mode = match mode {
            0 => FallocateMode::Allocate,
            KEEP_SIZE => FallocateMode::KeepSize,
            PUNCH => FallocateMode::PunchHole,
            ZERO_RANGE => FallocateMode::ZeroRange,
            ZERO_KEEP => FallocateMode::ZeroRangeKeepSize,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.fallocate(now(), caller, ino(node), offset, bytes, mode))
        });
        answer!(reply, done, _ => reply.ok())
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let whence = match whence {
            SEEK_DATA => Whence::Data,
            SEEK_HOLE => Whence::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = self.volume.run(|fs| fs.seek_data(now(), ino(node), offset, whence));
        answer!(reply, found, at => reply.offset(at as i64))
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut entries = Vec::new();
        let listed = self.volume.run(|fs| fs.readdir(now(), ino(node), cookie, LISTED, false, &mut entries));
        answer!(reply, listed, () => {
            for entry in &entries {
                let name = OsStr::from_bytes(&entry.name);
                if reply.add(INodeNo(entry.ino.0), entry.cookie, convert::kind(entry.kind), name) {
                    break;
                }
            }
            reply.ok()
        })
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.volume.list(ino(node), cookie, LISTED, |entry, of| {
            let name = OsStr::from_bytes(&entry.name);
            !reply.add(INodeNo(entry.ino.0), entry.cookie, name, &KEEP, &attributes(of), GENERATION)
        });
        answer!(reply, listed, () => reply.ok())
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let (block, name) = (BLOCK_BYTES as u32, NAME_BYTES_MAX as u32);
        answer!(reply, self.volume.run(|fs| fs.statfs(now())), of => {
            reply.statfs(of.blocks, of.blocks_free, of.blocks_free, of.files, of.files_free, block, name, block)
        })
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => XattrMode::Set,
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.setxattr(now(), caller, ino(node), name.as_bytes(), value, mode))
        });
        answer!(reply, done, _ => reply.ok())
    }

    fn getxattr(&self, request: &Request, node: INodeNo, name: &OsStr, bytes: u32, reply: ReplyXattr) {
        let found = as_caller(request, |caller| {
            self.volume.run(|fs| fs.getxattr(now(), caller, ino(node), name.as_bytes()))
        });
        answer!(reply, found, value => send(reply, &value, bytes))
    }

    fn listxattr(&self, request: &Request, node: INodeNo, bytes: u32, reply: ReplyXattr) {
        let found = as_caller(request, |caller| self.volume.run(|fs| fs.listxattr(now(), caller, ino(node))));
        answer!(reply, found, names => send(reply, &names, bytes))
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = as_caller(request, |caller| {
            self.volume.run(|fs| fs.removexattr(now(), caller, ino(node), name.as_bytes()))
        });
        answer!(reply, done, _ => reply.ok())
    }
}

/// Entries requested per listing: as many short names as the largest answer holds.
const LISTED: usize = 1024;

/// Size of one write operation. An operation waits until the log has space for all of it; the smallest file
/// system has space for this much.
const PIECE_BYTES: usize = 128 << 10;

impl Requests {
    /// Writes as much as there is space for. Returns an error if nothing could be written.
    fn write_pieces(
        &self,
        caller: &Caller<'_>,
        node: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, pellucid_fs::Errno> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            // Pieces end on block boundaries.
            let length = PIECE_BYTES - (at % BLOCK_BYTES as u64) as usize;
            let piece = &data[done..data.len().min(done + length)];
            let prepared = WriteData::new(at, piece);
            match self.volume.run(|fs| fs.write_data(now(), caller, node, &prepared)) {
                Ok(()) => done += piece.len(),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: FileKind,
        mode: u32,
        device: u32,
    ) -> Result<Attributes, pellucid_fs::Errno> {
        let (name, mode) = (name.as_bytes(), permissions(mode));
        as_caller(request, |caller| {
            self.volume.named(|fs| match kind {
                FileKind::Directory => fs.mkdir(now(), caller, ino(parent), name, mode),
                kind => fs.mknod(now(), caller, ino(parent), name, kind, mode, device),
            })
        })
    }
}

/// Answers with a value, or with its size if the caller asked for the size.
fn send(reply: ReplyXattr, value: &[u8], asked: u32) {
    match asked as usize {
        0 => reply.size(value.len() as u32),
        asked if asked < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}

/// Attributes with inode number 0: the answer for a missing name, which the kernel may cache.
fn nothing() -> FileAttr {
    attributes(&Attributes {
        ino: Ino(0),
        kind: FileKind::File,
        mode: 0,
        links: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        accessed: Time(0),
        modified: Time(0),
        changed: Time(0),
        created: Time(0),
    })
}
