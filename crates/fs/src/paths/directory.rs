//! Directories: look-up, creation, removal, listing; renaming is in `rename.rs`.
//!
//! Names are ordered by hash. The cookie of a listing is a position in the tree, so it stays valid while entries are added and removed.

use super::permissions::{allow, attributes_of};
use super::{freeing, room};
use crate::key::{Entry, Inode, Key, Kind, OFFSET_MAX};
use crate::node::VALUE_BYTES_MAX;
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{
    Access, Attributes, Caller, DirEntry, Errno, FileKind, Ino, LINKS_MAX, NAME_BYTES_MAX, Time,
};

/// Maximum number of names with equal hashes in a directory.
const SLOTS: u64 = 256;
const COOKIE_DOT: u64 = 1;
const COOKIE_DOT_DOT: u64 = 2;
const COOKIE_FIRST: u64 = 3;

/// Result of looking for a name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    /// An entry.
    Here(Key, Ino, FileKind),
    /// No entry; a new one would get this key.
    Free(Key),
}

/// FNV-1a, mixed so that its high bits depend on every byte.
pub(crate) fn hash_of(name: &[u8]) -> u64 {
    let mut hash = pellucid_flash::fnv1a(pellucid_flash::FNV_BASIS, name.iter().copied());
    hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

fn first_key(dir: Ino, name: &[u8]) -> Key {
    Key::new(dir.0, Kind::Entry, hash_of(name) & (OFFSET_MAX - (SLOTS - 1)))
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        [] => Err(Errno::NoEntry),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::Invalid),
        _ => Ok(()),
    }
}

pub(crate) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// A file to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile<'a> {
    pub kind: FileKind,
    pub mode: u16,
    pub rdev: u32,
    pub target: &'a [u8],
    pub held: bool,
}

/// The file of a name.
pub(crate) fn look_up(
    core: &mut Core,
    caller: &Caller,
    parent: Ino,
    name: &[u8],
) -> Result<Attributes, Stop> {
    check_name(name)?;
    let dir = directory(core, parent)?;
    allow(caller, &dir, Access::EXECUTE)?;
    let ino = match name {
        b"." => parent,
        b".." => dir.parent,
        _ => match named(core, parent, name)? {
            Named::Here(_, ino, _) => ino,
            Named::Free(_) => return Err(Errno::NoEntry.into()),
        },
    };
    Ok(attributes_of(ino, &core.catalog.inode(ino)?))
}

/// The inode of a directory that still has a name.
pub(crate) fn directory(core: &mut Core, ino: Ino) -> Result<Inode, Stop> {
    let inode = core.catalog.inode(ino)?;
    match inode.kind {
        FileKind::Directory => Ok(inode),
        _ => Err(Errno::NotDirectory.into()),
    }
}

/// Looks for a name in a directory.
pub(crate) fn named(core: &mut Core, dir: Ino, name: &[u8]) -> Result<Named, Stop> {
    let first = first_key(dir, name);
    let mut free = first;
    loop {
        let found = core.catalog.seek(free)?;
        match found {
            Some((key, place)) if key == free => {
                let entry = Entry::decode(core.catalog.value(place)).ok_or(Errno::Io)?;
                if entry.name == name {
                    return Ok(Named::Here(key, entry.ino, entry.kind));
                }
                free = Key(free.0 + 1);
                if free.0 == first.0 + u128::from(SLOTS) {
                    return Err(Errno::NoSpace.into());
                }
            }
            // A gap: an entry with this hash was removed, or none exists. The name may follow it.
            Some((key, place)) if key.0 < first.0 + u128::from(SLOTS) => {
                let gap = free;
                let mut next = Some((key, place));
                while let Some((key, place)) = next
                    && key.0 < first.0 + u128::from(SLOTS)
                {
                    let entry = Entry::decode(core.catalog.value(place)).ok_or(Errno::Io)?;
                    if entry.name == name {
                        return Ok(Named::Here(key, entry.ino, entry.kind));
                    }
                    next = core.catalog.seek(Key(key.0 + 1))?;
                }
                return Ok(Named::Free(gap));
            }
            _ => return Ok(Named::Free(free)),
        }
    }
}

/// Sets an entry whose path was loaded.
pub(crate) fn put_entry(core: &mut Core, key: Key, ino: Ino, kind: FileKind, name: &[u8]) {
    let mut buffer = [0; 264];
    core.catalog.put(key, Entry { ino, kind, name }.encode(&mut buffer));
}

/// Finds the key for a new name in a directory, and the directory.
fn free_name(core: &mut Core, caller: &Caller, parent: Ino, name: &[u8]) -> Result<(Inode, Key), Stop> {
    check_name(name)?;
    let dir = directory(core, parent)?;
    allow(caller, &dir, Access::EXECUTE)?;
    if is_dots(name) {
        return Err(Errno::Exists.into());
    }
    let Named::Free(key) = named(core, parent, name)? else {
        return Err(Errno::Exists.into());
    };
    core.life.writable()?;
    allow_entries(caller, &dir)?;
    Ok((dir, key))
}

/// Creates a file.
pub(crate) fn make_file(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    parent: Ino,
    name: &[u8],
    file: NewFile,
) -> Result<Attributes, Stop> {
    let (mut dir, key) = free_name(core, caller, parent, name)?;
    let ino = core.catalog.new_ino();
    let pieces = file.target.len().div_ceil(VALUE_BYTES_MAX) as u64;
    core.catalog.touch(Key::inode(ino), Key::new(ino.0, Kind::Target, pieces))?;
    room::to_add(core, 0, 3 + pieces)?;

    let is_dir = file.kind == FileKind::Directory;
    let (mut mode, mut gid) = (file.mode & 0o7777, caller.gid);
    if dir.mode & 0o2000 != 0 {
        gid = dir.gid;
        if is_dir {
            mode |= 0o2000;
        } else if mode & 0o2010 == 0o2010 && !caller.is_root() && !caller.is_in(gid) {
            mode &= !0o2000;
        }
    }
    let inode = Inode {
        kind: file.kind,
        mode,
        links: if is_dir { 2 } else { 1 },
        uid: caller.uid,
        gid,
        rdev: file.rdev,
        size: file.target.len() as u64,
        blocks: 0,
        parent: if is_dir { parent } else { Ino(0) },
        accessed: now,
        modified: now,
        changed: now,
        created: now,
    };
    core.catalog.put_new_inode(&inode);
    for (n, piece) in file.target.chunks(VALUE_BYTES_MAX).enumerate() {
        core.catalog.put(Key::new(ino.0, Kind::Target, n as u64), piece);
    }
    put_entry(core, key, ino, file.kind, name);
    dir.links += u32::from(is_dir);
    dir.size += 1;
    put_changed_directory(core, now, parent, &mut dir);
    if file.held {
        core.orphans.hold(ino);
    }
    core.commits.changed();
    Ok(attributes_of(ino, &inode))
}

/// Sets the inode of a directory with changed entries.
pub(crate) fn put_changed_directory(core: &mut Core, now: Time, ino: Ino, dir: &mut Inode) {
    (dir.modified, dir.changed) = (now, now);
    core.catalog.put_inode(ino, dir);
}

/// Checks that entries of a directory may be created and removed.
pub(crate) fn allow_entries(caller: &Caller, dir: &Inode) -> Result<(), Stop> {
    allow(caller, dir, Access(Access::WRITE.0 | Access::EXECUTE.0))?;
    // A removed directory accepts no entries.
    if dir.links == 0 { Err(Errno::NoEntry.into()) } else { Ok(()) }
}

/// Checks the sticky bit: only the owner of the file or of the directory may remove an entry.
pub(crate) fn allow_removal(caller: &Caller, dir: &Inode, file: &Inode) -> Result<(), Stop> {
    let sticky = dir.mode & 0o1000 != 0;
    let owns = caller.is_root() || caller.uid == file.uid || caller.uid == dir.uid;
    if sticky && !owns { Err(Errno::NotPermitted.into()) } else { Ok(()) }
}

/// Adds a name to a file.
pub(crate) fn link_file(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    ino: Ino,
    parent: Ino,
    name: &[u8],
) -> Result<Attributes, Stop> {
    let (mut dir, key) = free_name(core, caller, parent, name)?;
    let mut inode = core.catalog.inode(ino)?;
    match inode.links {
        _ if inode.kind == FileKind::Directory => return Err(Errno::NotPermitted.into()),
        0 => return Err(Errno::NoEntry.into()),
        LINKS_MAX.. => return Err(Errno::TooManyLinks.into()),
        _ => {}
    }
    room::to_add(core, 0, 2)?;
    inode.links += 1;
    inode.changed = now;
    core.catalog.put_inode(ino, &inode);
    put_entry(core, key, ino, inode.kind, name);
    dir.size += 1;
    put_changed_directory(core, now, parent, &mut dir);
    core.commits.changed();
    Ok(attributes_of(ino, &inode))
}

/// Removes a name of a file, or an empty directory.
pub(crate) fn remove(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    parent: Ino,
    name: &[u8],
    directories: bool,
) -> Result<(), Stop> {
    check_name(name)?;
    let mut dir = directory(core, parent)?;
    allow(caller, &dir, Access::EXECUTE)?;
    match name {
        b"." if directories => return Err(Errno::Invalid.into()),
        b".." if directories => return Err(Errno::NotEmpty.into()),
        _ if is_dots(name) => return Err(Errno::IsDirectory.into()),
        _ => {}
    }
    let Named::Here(key, ino, kind) = named(core, parent, name)? else {
        return Err(Errno::NoEntry.into());
    };
    core.life.writable()?;
    let inode = core.catalog.inode(ino)?;
    allow_entries(caller, &dir)?;
    allow_removal(caller, &dir, &inode)?;
    match (kind == FileKind::Directory, directories) {
        (true, false) => return Err(Errno::IsDirectory.into()),
        (false, true) => return Err(Errno::NotDirectory.into()),
        (true, true) if inode.size > 0 => return Err(Errno::NotEmpty.into()),
        _ => {}
    }
    core.catalog.touch(Key::orphan(ino), Key::orphan(ino))?;
    room::to_free(core)?;
    core.catalog.delete(key);
    dir.size -= 1;
    dir.links -= u32::from(directories);
    put_changed_directory(core, now, parent, &mut dir);
    drop_link(core, now, ino, inode);
    core.commits.changed();
    freeing::reap_now(core);
    Ok(())
}

/// Removes a link from a file; the paths of the inode and its orphan were loaded.
pub(crate) fn drop_link(core: &mut Core, now: Time, ino: Ino, mut inode: Inode) {
    inode.links = if inode.kind == FileKind::Directory { 0 } else { inode.links - 1 };
    inode.changed = now;
    core.catalog.put_inode(ino, &inode);
    if inode.links == 0 {
        core.catalog.put(Key::orphan(ino), &[]);
        core.orphans.add_unnamed(ino);
    }
}

/// Lists entries of a directory after a cookie.
pub(crate) fn list(
    core: &mut Core,
    ino: Ino,
    cookie: u64,
    count: usize,
    attributes: bool,
    entries: &mut Vec<DirEntry>,
) -> Result<(), Stop> {
    let dir = directory(core, ino)?;
    for (place, other, name) in [(COOKIE_DOT, ino, &b"."[..]), (COOKIE_DOT_DOT, dir.parent, &b".."[..])] {
        if cookie < place && entries.len() < count && dir.links > 0 {
            let attributes = match attributes {
                true => Some(attributes_of(other, &core.catalog.inode(other)?)),
                false => None,
            };
            let kind = FileKind::Directory;
            entries.push(DirEntry { ino: other, kind, cookie: place, name: name.into(), attributes });
        }
    }
    let from = cookie.saturating_sub(COOKIE_DOT_DOT);
    if from > OFFSET_MAX {
        return Ok(());
    }
    let mut key = Key::new(ino.0, Kind::Entry, from);
    while entries.len() < count {
        let Some((found, place)) = core.catalog.seek(key)? else { break };
        if !found.is_beside(key) {
            break;
        }
        let entry = Entry::decode(core.catalog.value(place)).ok_or(Errno::Io)?;
        let mut item = DirEntry {
            ino: entry.ino,
            kind: entry.kind,
            cookie: found.offset() + COOKIE_FIRST,
            name: entry.name.into(),
            attributes: None,
        };
        if attributes {
            item.attributes = Some(attributes_of(item.ino, &core.catalog.inode(item.ino)?));
        }
        entries.push(item);
        if found.offset() == OFFSET_MAX {
            break;
        }
        key = Key(found.0 + 1);
    }
    Ok(())
}

/// The target of a symbolic link.
pub(crate) fn target_of(core: &mut Core, ino: Ino) -> Result<Vec<u8>, Stop> {
    let inode = core.catalog.inode(ino)?;
    if inode.kind != FileKind::Symlink {
        return Err(Errno::Invalid.into());
    }
    let mut target = Vec::with_capacity(inode.size as usize);
    for n in 0..inode.size.div_ceil(VALUE_BYTES_MAX as u64) {
        let place = core.catalog.find(Key::new(ino.0, Kind::Target, n))?.ok_or(Errno::Io)?;
        target.extend_from_slice(core.catalog.value(place));
    }
    Ok(target)
}
