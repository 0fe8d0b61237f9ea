//! Attributes, permissions, and open files.

use super::Fs;
use super::key::Inode;
use super::stop::Stop;
use super::types::{
    Access, Attributes, BLOCK_BYTES, Caller, Errno, FILE_BYTES_MAX, FileKind, Ino, SetAttributes, SetTime,
    Step, Time,
};

/// A directory shows this many bytes for each entry.
const ENTRY_BYTES: u64 = 32;
const DAY_NS: u64 = 86_400_000_000_000;

/// Returns the answer to `stat`.
pub(super) fn attributes_of(ino: Ino, inode: &Inode) -> Attributes {
    let size = match inode.kind {
        FileKind::Directory => inode.size * ENTRY_BYTES,
        _ => inode.size,
    };
    Attributes {
        ino,
        kind: inode.kind,
        mode: inode.mode,
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        size,
        blocks: inode.blocks * (BLOCK_BYTES as u64 / 512),
        accessed: inode.accessed,
        modified: inode.modified,
        changed: inode.changed,
        created: inode.created,
    }
}

impl Fs {
    /// Checks that the mode of a file allows an access.
    pub(super) fn allow(&self, caller: &Caller, inode: &Inode, access: Access) -> Result<(), Stop> {
        let wanted = u16::from(access.0 & 7);
        let granted = if caller.is_root() {
            // The superuser may do all but execute a file that nobody may.
            let executes = inode.kind == FileKind::Directory || inode.mode & 0o111 != 0;
            if executes { 7 } else { 6 }
        } else if caller.uid == inode.uid {
            inode.mode >> 6
        } else if caller.is_in(inode.gid) {
            inode.mode >> 3
        } else {
            inode.mode
        };
        if granted & wanted == wanted { Ok(()) } else { Err(Errno::AccessDenied.into()) }
    }

    /// Answers `stat`.
    pub fn getattr(&mut self, now: Time, ino: Ino) -> Result<Step<Attributes>, Errno> {
        self.begin(now);
        let result = self.catalog.inode(ino).map(|inode| attributes_of(ino, &inode));
        self.end(result)
    }

    /// Checks that the caller may do what `access` says.
    pub fn access(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        access: Access,
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        let result = self.may(caller, ino, access);
        self.end(result)
    }

    fn may(&mut self, caller: &Caller, ino: Ino, access: Access) -> Result<(), Stop> {
        let inode = self.catalog.inode(ino)?;
        let changes = matches!(inode.kind, FileKind::File | FileKind::Directory | FileKind::Symlink);
        if access.0 & Access::WRITE.0 != 0 && changes {
            self.writable()?;
        }
        self.allow(caller, &inode, access)
    }

    /// Checks an access and holds the file: it stays, even without a name, until it is released as often as it was held.
    pub fn open(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        access: Access,
    ) -> Result<Step<Attributes>, Errno> {
        self.begin(now);
        let result = self.open_file(caller, ino, access);
        self.end(result)
    }

    fn open_file(&mut self, caller: &Caller, ino: Ino, access: Access) -> Result<Attributes, Stop> {
        let inode = self.catalog.inode(ino)?;
        if inode.kind == FileKind::Directory && access.0 & Access::WRITE.0 != 0 {
            return Err(Errno::IsDirectory.into());
        }
        self.may(caller, ino, access)?;
        self.hold(ino);
        Ok(attributes_of(ino, &inode))
    }

    /// Holds a file without a check.
    pub fn hold(&mut self, ino: Ino) {
        self.orphans.hold(ino);
    }

    /// Releases a file that was held. One without a name is gone with the last hold.
    pub fn release(&mut self, ino: Ino) {
        if self.orphans.release(ino) {
            self.reap_now();
            self.bury();
        }
    }

    /// Changes attributes.
    pub fn setattr(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        set: &SetAttributes,
    ) -> Result<Step<Attributes>, Errno> {
        self.begin(now);
        let result = self.set_attributes(now, caller, ino, set);
        self.end(result)
    }

    fn set_attributes(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        set: &SetAttributes,
    ) -> Result<Attributes, Stop> {
        if set.size.is_some() && self.writable().is_ok() {
            self.finish_cut(ino)?;
        }
        let old = self.catalog.inode(ino)?;
        self.writable()?;
        let mut inode = old;
        self.check_set(caller, &old, set)?;
        if let Some(size) = set.size {
            self.prepare_resize(ino, &old, size)?;
        }
        self.room_to_free()?;

        if let Some(mode) = set.mode {
            inode.mode = mode & 0o7777;
        }
        if set.uid.is_some() || set.gid.is_some() {
            (inode.uid, inode.gid) = (set.uid.unwrap_or(old.uid), set.gid.unwrap_or(old.gid));
            if inode.kind != FileKind::Directory {
                clear_privileges(&mut inode);
            }
        }
        if set.mode.is_some() && !caller.is_root() && !caller.is_in(inode.gid) {
            inode.mode &= !0o2000;
        }
        if let Some(size) = set.size {
            // ftruncate to the same size changes nothing but the times.
            if !caller.is_root() {
                clear_privileges(&mut inode);
            }
            inode.modified = now;
            self.catalog.put_inode(ino, &inode);
            inode = self.resize(ino, inode, size);
        }
        for (time, field) in [(set.accessed, &mut inode.accessed), (set.modified, &mut inode.modified)] {
            match time {
                Some(SetTime::Now) => *field = now,
                Some(SetTime::To(time)) => *field = time,
                None => {}
            }
        }
        inode.changed = set.changed.unwrap_or(now);
        self.catalog.put_inode(ino, &inode);
        self.changes += 1;
        if set.size.is_some() {
            self.reap_now();
            inode = self.catalog.inode(ino)?;
        }
        Ok(attributes_of(ino, &inode))
    }

    fn check_set(&self, caller: &Caller, old: &Inode, set: &SetAttributes) -> Result<(), Stop> {
        let owns = caller.is_root() || caller.uid == old.uid;
        if set.mode.is_some() && !owns {
            return Err(Errno::NotPermitted.into());
        }
        let owner_may = |uid: u32| caller.is_root() || (owns && uid == old.uid);
        let group_may = |gid: u32| caller.is_root() || (owns && (gid == old.gid || caller.is_in(gid)));
        if !set.uid.is_none_or(owner_may) || !set.gid.is_none_or(group_may) {
            return Err(Errno::NotPermitted.into());
        }
        let times = [set.accessed, set.modified];
        if times.iter().flatten().any(|time| *time != SetTime::Now) {
            if !owns {
                return Err(Errno::NotPermitted.into());
            }
        } else if times.iter().any(Option::is_some) && !owns && set.size.is_none() {
            self.allow(caller, old, Access::WRITE)?;
        }
        if let Some(size) = set.size {
            match old.kind {
                FileKind::File => {}
                FileKind::Directory => return Err(Errno::IsDirectory.into()),
                _ => return Err(Errno::Invalid.into()),
            }
            if size > FILE_BYTES_MAX {
                return Err(Errno::FileTooBig.into());
            }
            if !set.through_handle {
                self.allow(caller, old, Access::WRITE)?;
            }
        }
        Ok(())
    }

    /// `relatime`: a read changes the access time if that is older than the last change, or than a day. `None`: it does not.
    pub(super) fn access_time(&self, now: Time, inode: &Inode) -> Option<Time> {
        let old = inode.accessed;
        let due = old <= inode.modified || old <= inode.changed || now.since(old) >= DAY_NS;
        (due && now > old && self.writable().is_ok()).then_some(now)
    }
}

/// Clears the bits that a change by another than the owner takes away: set-user-id, and set-group-id of a file that the group may execute.
pub(super) fn clear_privileges(inode: &mut Inode) {
    inode.mode &= !0o4000;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !0o2000;
    }
}
