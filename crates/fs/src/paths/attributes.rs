//! Attributes, access to files, and open files.

use super::permissions::{allow, attributes_of, clear_privileges};
use super::{file, freeing, room};
use crate::key::Inode;
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{
    Access, Attributes, Caller, Errno, FILE_BYTES_MAX, FileKind, Ino, SetAttributes, SetTime, Time,
};

/// Checks that a caller may access a file.
pub(crate) fn may(core: &mut Core, caller: &Caller, ino: Ino, access: Access) -> Result<(), Stop> {
    let inode = core.catalog.inode(ino)?;
    let changes = matches!(inode.kind, FileKind::File | FileKind::Directory | FileKind::Symlink);
    if access.0 & Access::WRITE.0 != 0 && changes {
        core.life.writable()?;
    }
    allow(caller, &inode, access)
}

/// Checks an access and holds the file.
pub(crate) fn open_file(
    core: &mut Core,
    caller: &Caller,
    ino: Ino,
    access: Access,
) -> Result<Attributes, Stop> {
    let inode = core.catalog.inode(ino)?;
    if inode.kind == FileKind::Directory && access.0 & Access::WRITE.0 != 0 {
        return Err(Errno::IsDirectory.into());
    }
    may(core, caller, ino, access)?;
    core.orphans.hold(ino);
    Ok(attributes_of(ino, &inode))
}

/// Changes attributes.
pub(crate) fn set_attributes(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    ino: Ino,
    set: &SetAttributes,
) -> Result<Attributes, Stop> {
    if set.size.is_some() && core.life.writable().is_ok() {
        freeing::finish_cut(core, ino)?;
    }
    let old = core.catalog.inode(ino)?;
    core.life.writable()?;
    let mut inode = old;
    check_set(caller, &old, set)?;
    if let Some(size) = set.size {
        file::prepare_resize(core, ino, &old, size)?;
    }
    room::to_free(core)?;

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
        // ftruncate to the same size changes only the times.
        if !caller.is_root() {
            clear_privileges(&mut inode);
        }
        inode.modified = now;
        core.catalog.put_inode(ino, &inode);
        inode = file::resize(core, ino, inode, size);
    }
    for (time, field) in [(set.accessed, &mut inode.accessed), (set.modified, &mut inode.modified)] {
        match time {
            Some(SetTime::Now) => *field = now,
            Some(SetTime::To(time)) => *field = time,
            None => {}
        }
    }
    inode.changed = set.changed.unwrap_or(now);
    core.catalog.put_inode(ino, &inode);
    core.commits.changed();
    if set.size.is_some() {
        freeing::reap_now(core);
        inode = core.catalog.inode(ino)?;
    }
    Ok(attributes_of(ino, &inode))
}

fn check_set(caller: &Caller, old: &Inode, set: &SetAttributes) -> Result<(), Stop> {
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
        allow(caller, old, Access::WRITE)?;
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
            allow(caller, old, Access::WRITE)?;
        }
    }
    Ok(())
}
