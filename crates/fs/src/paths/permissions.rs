//! Permissions, and attributes as callers see them.

use crate::key::Inode;
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{Access, Attributes, BLOCK_BYTES, Caller, Errno, FileKind, Ino, Time};

/// Size of a directory per entry, in bytes.
const ENTRY_BYTES: u64 = 32;
const DAY_NS: u64 = 86_400_000_000_000;

/// Returns the answer to `stat`.
pub(crate) fn attributes_of(ino: Ino, inode: &Inode) -> Attributes {
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

/// Checks that the mode of a file allows an access.
pub(crate) fn allow(caller: &Caller, inode: &Inode, access: Access) -> Result<(), Stop> {
    let wanted = u16::from(access.0 & 7);
    let granted = if caller.is_root() {
        // The superuser may do everything except execute a file without any execute bit.
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

/// `relatime`: the new access time if the old one is older than the last change, or than a day; `None`: unchanged.
pub(crate) fn access_time(core: &Core, now: Time, inode: &Inode) -> Option<Time> {
    let old = inode.accessed;
    let due = old <= inode.modified || old <= inode.changed || now.since(old) >= DAY_NS;
    (due && now > old && core.life.writable().is_ok()).then_some(now)
}

/// Clears the privileges that a change by anyone but the owner removes: set-user-id, and set-group-id of a group-executable file.
pub(crate) fn clear_privileges(inode: &mut Inode) {
    inode.mode &= !0o4000;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !0o2000;
    }
}
