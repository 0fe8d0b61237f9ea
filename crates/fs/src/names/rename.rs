//! Renaming.

use super::super::Fs;
use super::super::key::{Inode, Key};
use super::super::stop::Stop;
use super::super::types::{Access, Caller, Errno, FileKind, Ino, RenameMode, Step, Time};
use super::{Named, check_name, is_dots};

impl Fs {
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
        self.begin(now);
        let result = self.rename_file(now, caller, (parent, name), (new_parent, new_name), mode);
        self.end(result)
    }

    fn rename_file(
        &mut self,
        now: Time,
        caller: &Caller,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<(), Stop> {
        check_name(name)?;
        check_name(new_name)?;
        let mut dir = self.directory(parent)?;
        let mut new_dir = self.directory(new_parent)?;
        self.allow(caller, &dir, Access::EXECUTE)?;
        self.allow(caller, &new_dir, Access::EXECUTE)?;
        if is_dots(name) || is_dots(new_name) {
            return Err(Errno::Busy.into());
        }
        let Named::Here(key, ino, kind) = self.named(parent, name)? else {
            return Err(Errno::NoEntry.into());
        };
        let target = self.named(new_parent, new_name)?;
        match (target, mode) {
            (Named::Here(..), mode) if mode.keeps_target() => return Err(Errno::Exists.into()),
            (Named::Free(_), RenameMode::Exchange) => return Err(Errno::NoEntry.into()),
            _ => {}
        }
        self.writable()?;
        let mut inode = self.catalog.inode(ino)?;
        let moves = kind == FileKind::Directory && parent != new_parent;
        if kind == FileKind::Directory && self.is_within(new_parent, ino)? {
            return Err(Errno::Invalid.into());
        }
        self.allow_entries(caller, &dir)?;
        self.allow_removal(caller, &dir, &inode)?;
        self.allow_entries(caller, &new_dir)?;
        if moves {
            self.allow(caller, &inode, Access::WRITE)?;
        }
        let Named::Here(new_key, other, other_kind) = target else {
            let Named::Free(new_key) = target else { unreachable!("a name is here or free") };
            self.room_for(0, 4)?;
            self.touch_whiteout(mode)?;
            self.put_entry(new_key, ino, kind, new_name);
            self.catalog.delete(key);
            self.moved_entry(now, (parent, &mut dir), (new_parent, &mut new_dir), moves, false);
            self.renamed(now, ino, &mut inode, new_parent);
            self.leave_whiteout(now, caller, (parent, key, name), mode);
            self.changes += 1;
            return Ok(());
        };
        if other == ino {
            return Ok(());
        }
        let mut other_inode = self.catalog.inode(other)?;
        self.allow_removal(caller, &new_dir, &other_inode)?;
        if mode == RenameMode::Exchange {
            let other_moves = other_kind == FileKind::Directory && parent != new_parent;
            if other_kind == FileKind::Directory && self.is_within(parent, other)? {
                return Err(Errno::Invalid.into());
            }
            if other_moves {
                self.allow(caller, &other_inode, Access::WRITE)?;
            }
            self.room_for(0, 2)?;
            self.put_entry(key, other, other_kind, name);
            self.put_entry(new_key, ino, kind, new_name);
            dir.links = dir.links - u32::from(moves) + u32::from(other_moves);
            new_dir.links = new_dir.links + u32::from(moves) - u32::from(other_moves);
            self.put_changed_directory(now, parent, &mut dir);
            if parent != new_parent {
                self.put_changed_directory(now, new_parent, &mut new_dir);
            }
            self.renamed(now, ino, &mut inode, new_parent);
            self.renamed(now, other, &mut other_inode, parent);
            self.changes += 1;
            return Ok(());
        }
        match (kind == FileKind::Directory, other_kind == FileKind::Directory) {
            (true, false) => return Err(Errno::NotDirectory.into()),
            (false, true) => return Err(Errno::IsDirectory.into()),
            (true, true) if other_inode.size > 0 => return Err(Errno::NotEmpty.into()),
            _ => {}
        }
        self.catalog.touch(Key::orphan(other), Key::orphan(other))?;
        if mode.leaves_whiteout() { self.room_for(0, 2) } else { self.room_to_free() }?;
        self.touch_whiteout(mode)?;
        self.catalog.delete(key);
        self.put_entry(new_key, ino, kind, new_name);
        let replaced_directory = other_kind == FileKind::Directory;
        self.moved_entry(now, (parent, &mut dir), (new_parent, &mut new_dir), moves, true);
        if replaced_directory {
            // The replaced directory's `..` is gone.
            let mut holder = match self.catalog.inode(new_parent) {
                Ok(inode) => inode,
                Err(_) => unreachable!("it was just changed"),
            };
            holder.links -= 1;
            self.catalog.put_inode(new_parent, &holder);
        }
        self.renamed(now, ino, &mut inode, new_parent);
        self.leave_whiteout(now, caller, (parent, key, name), mode);
        self.drop_link(now, other, other_inode);
        self.changes += 1;
        self.reap_now();
        Ok(())
    }

    /// Brings where the inode of a whiteout will stand.
    fn touch_whiteout(&mut self, mode: RenameMode) -> Result<(), Stop> {
        let key = Key::inode(self.new_ino);
        if mode.leaves_whiteout() { self.catalog.touch(key, key) } else { Ok(()) }
    }

    /// Puts a whiteout where a file was, if the renaming leaves one.
    fn leave_whiteout(
        &mut self,
        now: Time,
        caller: &Caller,
        (parent, key, name): (Ino, Key, &[u8]),
        mode: RenameMode,
    ) {
        if !mode.leaves_whiteout() {
            return;
        }
        let ino = self.new_ino;
        self.new_ino = Ino(ino.0 + 1);
        let whiteout = Inode {
            kind: FileKind::CharDevice,
            mode: 0,
            links: 1,
            uid: caller.uid,
            gid: caller.gid,
            rdev: 0,
            size: 0,
            blocks: 0,
            parent: Ino(0),
            accessed: now,
            modified: now,
            changed: now,
            created: now,
        };
        self.catalog.put_inode(ino, &whiteout);
        self.put_entry(key, ino, FileKind::CharDevice, name);
        let Ok(mut dir) = self.catalog.inode(parent) else { unreachable!("it was just changed") };
        dir.size += 1;
        self.catalog.put_inode(parent, &dir);
    }

    /// Books that an entry has gone from one directory to another, whose entry of that name it replaced or not.
    fn moved_entry(
        &mut self,
        now: Time,
        (parent, dir): (Ino, &mut Inode),
        (new_parent, new_dir): (Ino, &mut Inode),
        is_directory: bool,
        replaces: bool,
    ) {
        if parent == new_parent {
            dir.size -= u64::from(replaces);
            return self.put_changed_directory(now, parent, dir);
        }
        dir.size -= 1;
        dir.links -= u32::from(is_directory);
        new_dir.size += u64::from(!replaces);
        new_dir.links += u32::from(is_directory);
        self.put_changed_directory(now, parent, dir);
        self.put_changed_directory(now, new_parent, new_dir);
    }

    /// A renamed file may be one of the directories that were just booked: only what renaming changes is set.
    fn renamed(&mut self, now: Time, ino: Ino, inode: &mut Inode, parent: Ino) {
        inode.changed = now;
        if inode.kind == FileKind::Directory {
            inode.parent = parent;
        }
        self.catalog.put_inode(ino, inode);
    }

    /// Returns whether a directory is `above` or below it.
    fn is_within(&mut self, mut ino: Ino, above: Ino) -> Result<bool, Stop> {
        while ino != above {
            if ino == Ino::ROOT {
                return Ok(false);
            }
            ino = self.catalog.inode(ino)?.parent;
        }
        Ok(true)
    }
}
