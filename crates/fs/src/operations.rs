//! Operations of callers. Each is one path, which [`call::run`] runs.

use crate::block::{ReadData, WriteData};
use crate::paths::directory::NewFile;
use crate::paths::permissions::attributes_of;
use crate::paths::{attributes, audit, booking, call, directory, file, freeing, rename, room, xattr};
use crate::stop::Stop;
use crate::types::{
    Access, Attributes, Caller, DirEntry, Errno, FallocateMode, FileKind, Ino, RenameMode, SetAttributes,
    StatFs, Step, TARGET_BYTES_MAX, Time, Whence, XattrMode,
};
use crate::{Audit, Fs};

/// Directories and names.
impl Fs {
    /// Looks up a name, which may be `.` or `..`.
    pub fn lookup(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| directory::look_up(core, caller, parent, name))
    }

    /// Creates a file, a pipe, a socket or a device.
    #[expect(clippy::too_many_arguments, reason = "the arguments of mknod")]
    pub fn mknod(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        mode: u16,
        rdev: u32,
    ) -> Result<Step<Attributes>, Errno> {
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Errno::Invalid);
        }
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) && !caller.is_root() {
            return Err(Errno::NotPermitted);
        }
        self.make(now, caller, parent, name, NewFile { kind, mode, rdev, target: &[], held: false })
    }

    /// Creates a regular file and holds it, like [`Fs::open`]. The caller may use it as opened, whatever its mode.
    pub fn create(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u16,
    ) -> Result<Step<Attributes>, Errno> {
        let file = NewFile { kind: FileKind::File, mode, rdev: 0, target: &[], held: true };
        self.make(now, caller, parent, name, file)
    }

    /// Creates a directory.
    pub fn mkdir(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u16,
    ) -> Result<Step<Attributes>, Errno> {
        let file = NewFile { kind: FileKind::Directory, mode, rdev: 0, target: &[], held: false };
        self.make(now, caller, parent, name, file)
    }

    /// Creates a symbolic link.
    pub fn symlink(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Step<Attributes>, Errno> {
        match target.len() {
            0 => return Err(Errno::NoEntry),
            length if length > TARGET_BYTES_MAX => return Err(Errno::NameTooLong),
            _ => {}
        }
        let file = NewFile { kind: FileKind::Symlink, mode: 0o777, rdev: 0, target, held: false };
        self.make(now, caller, parent, name, file)
    }

    fn make(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        file: NewFile,
    ) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| directory::make_file(core, now, caller, parent, name, file))
    }

    /// Adds a name to a file.
    pub fn link(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| directory::link_file(core, now, caller, ino, parent, name))
    }

    /// Removes a name of a file other than a directory.
    pub fn unlink(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| directory::remove(core, now, caller, parent, name, false))
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, now: Time, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| directory::remove(core, now, caller, parent, name, true))
    }

    /// Renames a file or a directory.
    #[expect(clippy::too_many_arguments, reason = "the arguments of renameat2")]
    pub fn rename(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| {
            rename::rename_file(core, now, caller, (parent, name), (new_parent, new_name), mode)
        })
    }

    /// Lists up to `count` entries of a directory after `cookie` (0: from the beginning) into `entries`, `.` and `..` first. No entries mean the end.
    /// With `attributes`, each entry includes its `stat` result.
    pub fn readdir(
        &mut self,
        now: Time,
        ino: Ino,
        cookie: u64,
        count: usize,
        attributes: bool,
        entries: &mut Vec<DirEntry>,
    ) -> Result<Step<()>, Errno> {
        entries.clear();
        call::run(&mut self.core, now, |core| {
            match directory::list(core, ino, cookie, count, attributes, entries) {
                // A listing cut short by a missing node is still a listing.
                Err(Stop::Miss(_)) if !entries.is_empty() => Ok(()),
                other => other,
            }
        })
    }

    /// The target of a symbolic link.
    pub fn readlink(&mut self, now: Time, ino: Ino) -> Result<Step<Vec<u8>>, Errno> {
        call::run(&mut self.core, now, |core| directory::target_of(core, ino))
    }
}

/// Attributes and open files.
impl Fs {
    /// Answers `stat`.
    pub fn getattr(&mut self, now: Time, ino: Ino) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| Ok(attributes_of(ino, &core.catalog.inode(ino)?)))
    }

    /// Changes attributes.
    pub fn setattr(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        set: &SetAttributes,
    ) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| attributes::set_attributes(core, now, caller, ino, set))
    }

    /// Checks that the caller has the rights in `access`.
    pub fn access(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        access: Access,
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| attributes::may(core, caller, ino, access))
    }

    /// Checks an access and holds the file: it stays, even without a name, until each hold is released.
    pub fn open(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        access: Access,
    ) -> Result<Step<Attributes>, Errno> {
        call::run(&mut self.core, now, |core| attributes::open_file(core, caller, ino, access))
    }

    /// Holds a file without a check.
    pub fn hold(&mut self, ino: Ino) {
        self.core.orphans.hold(ino);
    }

    /// Releases a held file. A file without a name disappears with its last hold.
    pub fn release(&mut self, ino: Ino) {
        if self.core.orphans.release(ino) {
            freeing::reap_now(&mut self.core);
            booking::book(&mut self.core);
        }
    }

    /// The value of an extended attribute.
    pub fn getxattr(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
    ) -> Result<Step<Vec<u8>>, Errno> {
        call::run(&mut self.core, now, |core| xattr::xattr_value(core, caller, ino, name))
    }

    /// Names of the extended attributes, each followed by a zero.
    pub fn listxattr(&mut self, now: Time, caller: &Caller, ino: Ino) -> Result<Step<Vec<u8>>, Errno> {
        call::run(&mut self.core, now, |core| xattr::xattr_names(core, caller, ino))
    }

    /// Sets an extended attribute.
    pub fn setxattr(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| {
            xattr::set_xattr(core, now, caller, ino, name, Some(value), mode)
        })
    }

    /// Removes an extended attribute.
    pub fn removexattr(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| {
            xattr::set_xattr(core, now, caller, ino, name, None, XattrMode::Replace)
        })
    }
}

/// Contents of files, and the file system as a whole.
impl Fs {
    /// Reads up to `size` bytes into `out`, which is cleared; fewer at the end of the file.
    pub fn read(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step<()>, Errno> {
        let mut data = ReadData::default();
        let done = self.read_data(now, ino, offset, size, &mut data);
        data.take(out);
        done
    }

    /// Like [`Fs::read`], without a copy.
    pub fn read_data(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        size: usize,
        out: &mut ReadData,
    ) -> Result<Step<()>, Errno> {
        out.clear();
        call::run(&mut self.core, now, |core| file::read_file(core, now, ino, offset, size, out))
    }

    /// Writes all of `data`, or nothing.
    pub fn write(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Result<Step<()>, Errno> {
        self.write_data(now, caller, ino, &WriteData::new(offset, data))
    }

    /// Like [`Fs::write`], with data prepared without the file system.
    pub fn write_data(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        data: &WriteData,
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| file::write_file(core, now, caller, ino, data))
    }

    /// Promises space, or frees it.
    pub fn fallocate(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        offset: u64,
        length: u64,
        mode: FallocateMode,
    ) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| {
            file::allocate_file(core, now, caller, ino, offset, length, mode)
        })
    }

    /// Finds data or a hole from an offset on, like `lseek`.
    pub fn seek_data(
        &mut self,
        now: Time,
        ino: Ino,
        offset: u64,
        whence: Whence,
    ) -> Result<Step<u64>, Errno> {
        call::run(&mut self.core, now, |core| file::seek_file(core, ino, offset, whence))
    }

    /// Space of the file system. The cleaner can provide everything promised here.
    pub fn statfs(&mut self, now: Time) -> Result<Step<StatFs>, Errno> {
        call::run(&mut self.core, now, |core| Ok(room::statfs(core)))
    }

    /// Continues a walk; done when everything has been visited. Nothing may change during a walk, so mount read-only
    /// for it.
    pub fn audit(&mut self, now: Time, audit: &mut Audit) -> Result<Step<()>, Errno> {
        call::run(&mut self.core, now, |core| audit::audit_on(core, audit))
    }
}
