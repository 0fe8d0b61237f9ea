//! Renaming: an entry takes a free name, replaces another entry, or is exchanged with it.

use super::directory::{
    Named, allow_entries, allow_removal, check_name, directory, drop_link, is_dots, named,
    put_changed_directory, put_entry,
};
use super::permissions::allow;
use super::{freeing, room};
use crate::key::{Inode, Key};
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{Access, Caller, Errno, FileKind, Ino, RenameMode, Time};

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    dir: Ino,
    /// Inode of the directory.
    inode: Inode,
    name: &'a [u8],
    /// Key of the present or future entry.
    key: Key,
}

/// A file with an entry.
#[derive(Clone, Copy, Debug)]
struct File {
    ino: Ino,
    kind: FileKind,
    inode: Inode,
}

impl File {
    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// A permitted renaming.
#[derive(Clone, Copy, Debug)]
struct Renaming<'a> {
    now: Time,
    caller: &'a Caller<'a>,
    mode: RenameMode,
    from: Place<'a>,
    to: Place<'a>,
    file: File,
}

impl Renaming<'_> {
    /// Reports whether an entry changes its directory.
    fn leaves(&self) -> bool {
        self.from.dir != self.to.dir
    }

    /// Reports whether a directory gets another parent.
    fn moves_directory(&self) -> bool {
        self.file.is_directory() && self.leaves()
    }
}

/// Renames a file or a directory.
pub(crate) fn rename_file(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    (parent, name): (Ino, &[u8]),
    (new_parent, new_name): (Ino, &[u8]),
    mode: RenameMode,
) -> Result<(), Stop> {
    check_name(name)?;
    check_name(new_name)?;
    let dir = directory(core, parent)?;
    let new_dir = directory(core, new_parent)?;
    allow(caller, &dir, Access::EXECUTE)?;
    allow(caller, &new_dir, Access::EXECUTE)?;
    if is_dots(name) || is_dots(new_name) {
        return Err(Errno::Busy.into());
    }
    let Named::Here(key, ino, kind) = named(core, parent, name)? else {
        return Err(Errno::NoEntry.into());
    };
    let (new_key, other) = match named(core, new_parent, new_name)? {
        Named::Here(..) if mode.keeps_target() => return Err(Errno::Exists.into()),
        Named::Here(new_key, other, kind) => (new_key, Some((other, kind))),
        Named::Free(_) if mode == RenameMode::Exchange => return Err(Errno::NoEntry.into()),
        Named::Free(new_key) => (new_key, None),
    };
    core.life.writable()?;
    let file = File { ino, kind, inode: core.catalog.inode(ino)? };
    let from = Place { dir: parent, inode: dir, name, key };
    let to = Place { dir: new_parent, inode: new_dir, name: new_name, key: new_key };
    let renaming = Renaming { now, caller, mode, from, to, file };
    if file.is_directory() && is_within(core, new_parent, ino)? {
        return Err(Errno::Invalid.into());
    }
    allow_entries(caller, &dir)?;
    allow_removal(caller, &dir, &file.inode)?;
    allow_entries(caller, &new_dir)?;
    if renaming.moves_directory() {
        allow(caller, &file.inode, Access::WRITE)?;
    }
    let Some((other, kind)) = other else { return take_free_name(core, renaming) };
    if other == ino {
        return Ok(());
    }
    let other = File { ino: other, kind, inode: core.catalog.inode(other)? };
    allow_removal(caller, &new_dir, &other.inode)?;
    match mode {
        RenameMode::Exchange => exchange(core, renaming, other),
        _ => replace(core, renaming, other),
    }
}

/// Gives a file a name that was free.
fn take_free_name(core: &mut Core, mut renaming: Renaming) -> Result<(), Stop> {
    room::to_add(core, 0, 4)?;
    touch_whiteout(core, renaming.mode)?;
    put_entry(core, renaming.to.key, renaming.file.ino, renaming.file.kind, renaming.to.name);
    core.catalog.delete(renaming.from.key);
    move_entry(core, &mut renaming, false);
    set_renamed(core, renaming.now, renaming.file, renaming.to.dir);
    leave_whiteout(core, &renaming);
    core.commits.changed();
    Ok(())
}

/// Exchanges the names of two files.
fn exchange(core: &mut Core, renaming: Renaming, other: File) -> Result<(), Stop> {
    let Renaming { now, caller, mut from, mut to, file, .. } = renaming;
    let other_moves = other.is_directory() && renaming.leaves();
    if other.is_directory() && is_within(core, from.dir, other.ino)? {
        return Err(Errno::Invalid.into());
    }
    if other_moves {
        allow(caller, &other.inode, Access::WRITE)?;
    }
    room::to_add(core, 0, 2)?;
    put_entry(core, from.key, other.ino, other.kind, from.name);
    put_entry(core, to.key, file.ino, file.kind, to.name);
    let moves = u32::from(renaming.moves_directory());
    from.inode.links = from.inode.links - moves + u32::from(other_moves);
    to.inode.links = to.inode.links + moves - u32::from(other_moves);
    put_changed_directory(core, now, from.dir, &mut from.inode);
    if renaming.leaves() {
        put_changed_directory(core, now, to.dir, &mut to.inode);
    }
    set_renamed(core, now, file, to.dir);
    set_renamed(core, now, other, from.dir);
    core.commits.changed();
    Ok(())
}

/// Gives a file the name of another file, which loses it.
fn replace(core: &mut Core, mut renaming: Renaming, other: File) -> Result<(), Stop> {
    match (renaming.file.is_directory(), other.is_directory()) {
        (true, false) => return Err(Errno::NotDirectory.into()),
        (false, true) => return Err(Errno::IsDirectory.into()),
        (true, true) if other.inode.size > 0 => return Err(Errno::NotEmpty.into()),
        _ => {}
    }
    core.catalog.touch(Key::orphan(other.ino), Key::orphan(other.ino))?;
    if renaming.mode.leaves_whiteout() { room::to_add(core, 0, 2) } else { room::to_free(core) }?;
    touch_whiteout(core, renaming.mode)?;
    core.catalog.delete(renaming.from.key);
    put_entry(core, renaming.to.key, renaming.file.ino, renaming.file.kind, renaming.to.name);
    move_entry(core, &mut renaming, true);
    if other.is_directory() {
        // The `..` entry of the replaced directory disappears.
        change_present(core, renaming.to.dir, |holder| holder.links -= 1);
    }
    set_renamed(core, renaming.now, renaming.file, renaming.to.dir);
    leave_whiteout(core, &renaming);
    drop_link(core, renaming.now, other.ino, other.inode);
    core.commits.changed();
    freeing::reap_now(core);
    Ok(())
}

/// Loads the position of a whiteout's future inode.
fn touch_whiteout(core: &mut Core, mode: RenameMode) -> Result<(), Stop> {
    let key = Key::inode(core.catalog.new_ino());
    if mode.leaves_whiteout() { core.catalog.touch(key, key) } else { Ok(()) }
}

/// Puts a whiteout where a file was, if the renaming leaves one.
fn leave_whiteout(core: &mut Core, renaming: &Renaming) {
    if !renaming.mode.leaves_whiteout() {
        return;
    }
    let (ino, now, from) = (core.catalog.new_ino(), renaming.now, renaming.from);
    let whiteout = Inode {
        kind: FileKind::CharDevice,
        mode: 0,
        links: 1,
        uid: renaming.caller.uid,
        gid: renaming.caller.gid,
        rdev: 0,
        size: 0,
        blocks: 0,
        parent: Ino(0),
        accessed: now,
        modified: now,
        changed: now,
        created: now,
    };
    core.catalog.put_new_inode(&whiteout);
    put_entry(core, from.key, ino, FileKind::CharDevice, from.name);
    change_present(core, from.dir, |dir| dir.size += 1);
}

/// Updates both directories of a moved entry. `replaces`: an entry of that name was replaced.
fn move_entry(core: &mut Core, renaming: &mut Renaming, replaces: bool) {
    let (now, leaves) = (renaming.now, renaming.leaves());
    let moves_directory = u32::from(renaming.moves_directory());
    let Renaming { from, to, .. } = renaming;
    if !leaves {
        from.inode.size -= u64::from(replaces);
        return put_changed_directory(core, now, from.dir, &mut from.inode);
    }
    from.inode.size -= 1;
    from.inode.links -= moves_directory;
    to.inode.size += u64::from(!replaces);
    to.inode.links += moves_directory;
    put_changed_directory(core, now, from.dir, &mut from.inode);
    put_changed_directory(core, now, to.dir, &mut to.inode);
}

/// The renamed file may be one of the directories just updated: only what renaming changes is set.
fn set_renamed(core: &mut Core, now: Time, mut file: File, parent: Ino) {
    file.inode.changed = now;
    if file.inode.kind == FileKind::Directory {
        file.inode.parent = parent;
    }
    core.catalog.put_inode(file.ino, &file.inode);
}

/// Changes the inode of a directory that was just changed.
fn change_present(core: &mut Core, dir: Ino, change: impl FnOnce(&mut Inode)) {
    let mut inode = core.catalog.present(|catalog| catalog.inode(dir));
    change(&mut inode);
    core.catalog.put_inode(dir, &inode);
}

/// Reports whether a directory is `above` or inside it.
fn is_within(core: &mut Core, mut ino: Ino, above: Ino) -> Result<bool, Stop> {
    while ino != above {
        if ino == Ino::ROOT {
            return Ok(false);
        }
        ino = core.catalog.inode(ino)?.parent;
    }
    Ok(true)
}
