//! Directories: look-up, creation, removal, listing; renaming is in `names/rename.rs`.
//!
//! Names are ordered by hash. The cookie of a listing is a position in the tree, so it stays valid while entries come and go.

mod rename;

use super::Fs;
use super::attributes::attributes_of;
use super::key::{Entry, Inode, Key, Kind, OFFSET_MAX};
use super::node::VALUE_BYTES_MAX;
use super::stop::Stop;
use super::types::{
    Access, Attributes, Caller, DirEntry, Errno, FileKind, Ino, LINKS_MAX, NAME_BYTES_MAX, Step,
    TARGET_BYTES_MAX, Time,
};

/// Names of a directory whose hashes are equal.
const SLOTS: u64 = 256;
const COOKIE_DOT: u64 = 1;
const COOKIE_DOT_DOT: u64 = 2;
const COOKIE_FIRST: u64 = 3;

/// Target of a name in a directory.
#[derive(Clone, Copy, Debug)]
enum Named {
    /// An entry.
    Here(Key, Ino, FileKind),
    /// No entry; a new one takes this key.
    Free(Key),
}

/// FNV-1a, mixed so that its high bits depend on every byte.
pub(super) fn hash_of(name: &[u8]) -> u64 {
    let mut hash = pellucid_flash::fnv1a(pellucid_flash::FNV_BASIS, name.iter().copied());
    hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

fn first_key(dir: Ino, name: &[u8]) -> Key {
    Key::new(dir.0, Kind::Entry, hash_of(name) & (OFFSET_MAX - (SLOTS - 1)))
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        [] => Err(Errno::NoEntry),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::Invalid),
        _ => Ok(()),
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// A file that shall be made.
#[derive(Clone, Copy, Debug)]
struct NewFile<'a> {
    kind: FileKind,
    mode: u16,
    rdev: u32,
    target: &'a [u8],
    held: bool,
}

impl Fs {
    /// The file of a name. `.` and `..` are names.
    pub fn lookup(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<Attributes>, Errno> {
        self.begin(now);
        let result = self.look_up(caller, parent, name);
        self.end(result)
    }

    fn look_up(&mut self, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Attributes, Stop> {
        check_name(name)?;
        let dir = self.directory(parent)?;
        self.allow(caller, &dir, Access::EXECUTE)?;
        let ino = match name {
            b"." => parent,
            b".." => dir.parent,
            _ => match self.named(parent, name)? {
                Named::Here(_, ino, _) => ino,
                Named::Free(_) => return Err(Errno::NoEntry.into()),
            },
        };
        Ok(attributes_of(ino, &self.catalog.inode(ino)?))
    }

    /// The inode of a directory that is not removed.
    fn directory(&mut self, ino: Ino) -> Result<Inode, Stop> {
        let inode = self.catalog.inode(ino)?;
        match inode.kind {
            FileKind::Directory => Ok(inode),
            _ => Err(Errno::NotDirectory.into()),
        }
    }

    fn named(&mut self, dir: Ino, name: &[u8]) -> Result<Named, Stop> {
        let first = first_key(dir, name);
        let mut free = first;
        loop {
            let found = self.catalog.seek(free)?;
            match found {
                Some((key, place)) if key == free => {
                    let entry = Entry::decode(self.catalog.value(place)).ok_or(Errno::Io)?;
                    if entry.name == name {
                        return Ok(Named::Here(key, entry.ino, entry.kind));
                    }
                    free = Key(free.0 + 1);
                    if free.0 == first.0 + u128::from(SLOTS) {
                        return Err(Errno::NoSpace.into());
                    }
                }
                // A gap: an entry with the same hash was removed, or there is none. The name may stand behind it.
                Some((key, place)) if key.0 < first.0 + u128::from(SLOTS) => {
                    let gap = free;
                    let mut next = Some((key, place));
                    while let Some((key, place)) = next
                        && key.0 < first.0 + u128::from(SLOTS)
                    {
                        let entry = Entry::decode(self.catalog.value(place)).ok_or(Errno::Io)?;
                        if entry.name == name {
                            return Ok(Named::Here(key, entry.ino, entry.kind));
                        }
                        next = self.catalog.seek(Key(key.0 + 1))?;
                    }
                    return Ok(Named::Free(gap));
                }
                _ => return Ok(Named::Free(free)),
            }
        }
    }

    fn put_entry(&mut self, key: Key, ino: Ino, kind: FileKind, name: &[u8]) {
        let mut buffer = [0; 264];
        self.catalog.put(key, Entry { ino, kind, name }.encode(&mut buffer));
    }

    /// Makes a file, a pipe, a socket or a device.
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

    /// Makes a regular file and holds it, as [`Fs::open`] does. Its maker may use it as it was opened, whatever its mode says.
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

    /// Makes a directory.
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

    /// Makes a symbolic link.
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
        self.begin(now);
        let result = self.make_file(now, caller, parent, name, file);
        self.end(result)
    }

    fn make_file(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        file: NewFile,
    ) -> Result<Attributes, Stop> {
        check_name(name)?;
        let mut dir = self.directory(parent)?;
        self.allow(caller, &dir, Access::EXECUTE)?;
        if is_dots(name) {
            return Err(Errno::Exists.into());
        }
        let Named::Free(key) = self.named(parent, name)? else {
            return Err(Errno::Exists.into());
        };
        self.writable()?;
        self.allow_entries(caller, &dir)?;
        let ino = self.new_ino;
        let pieces = file.target.len().div_ceil(VALUE_BYTES_MAX) as u64;
        self.catalog.touch(Key::inode(ino), Key::new(ino.0, Kind::Target, pieces))?;
        self.room_for(0, 3 + pieces)?;

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
        self.new_ino = Ino(ino.0 + 1);
        self.catalog.put_inode(ino, &inode);
        for (n, piece) in file.target.chunks(VALUE_BYTES_MAX).enumerate() {
            self.catalog.put(Key::new(ino.0, Kind::Target, n as u64), piece);
        }
        self.put_entry(key, ino, file.kind, name);
        dir.links += u32::from(is_dir);
        dir.size += 1;
        self.put_changed_directory(now, parent, &mut dir);
        if file.held {
            self.hold(ino);
        }
        self.changes += 1;
        Ok(attributes_of(ino, &inode))
    }

    fn put_changed_directory(&mut self, now: Time, ino: Ino, dir: &mut Inode) {
        (dir.modified, dir.changed) = (now, now);
        self.catalog.put_inode(ino, dir);
    }

    /// Returns whether entries of a directory may be made and removed.
    fn allow_entries(&self, caller: &Caller, dir: &Inode) -> Result<(), Stop> {
        self.allow(caller, dir, Access(Access::WRITE.0 | Access::EXECUTE.0))?;
        // A directory that was removed takes no entries.
        if dir.links == 0 { Err(Errno::NoEntry.into()) } else { Ok(()) }
    }

    /// In a sticky directory an entry is removed only by its file's owner, or by the directory's.
    fn allow_removal(&self, caller: &Caller, dir: &Inode, file: &Inode) -> Result<(), Stop> {
        let sticky = dir.mode & 0o1000 != 0;
        let owns = caller.is_root() || caller.uid == file.uid || caller.uid == dir.uid;
        if sticky && !owns { Err(Errno::NotPermitted.into()) } else { Ok(()) }
    }

    /// Gives a file a further name.
    pub fn link(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<Attributes>, Errno> {
        self.begin(now);
        let result = self.link_file(now, caller, ino, parent, name);
        self.end(result)
    }

    fn link_file(
        &mut self,
        now: Time,
        caller: &Caller,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Attributes, Stop> {
        check_name(name)?;
        let mut dir = self.directory(parent)?;
        self.allow(caller, &dir, Access::EXECUTE)?;
        if is_dots(name) {
            return Err(Errno::Exists.into());
        }
        let Named::Free(key) = self.named(parent, name)? else {
            return Err(Errno::Exists.into());
        };
        self.writable()?;
        self.allow_entries(caller, &dir)?;
        let mut inode = self.catalog.inode(ino)?;
        match inode.links {
            _ if inode.kind == FileKind::Directory => return Err(Errno::NotPermitted.into()),
            0 => return Err(Errno::NoEntry.into()),
            LINKS_MAX.. => return Err(Errno::TooManyLinks.into()),
            _ => {}
        }
        self.room_for(0, 2)?;
        inode.links += 1;
        inode.changed = now;
        self.catalog.put_inode(ino, &inode);
        self.put_entry(key, ino, inode.kind, name);
        dir.size += 1;
        self.put_changed_directory(now, parent, &mut dir);
        self.changes += 1;
        Ok(attributes_of(ino, &inode))
    }

    /// Removes a name of a file that is no directory.
    pub fn unlink(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        let result = self.remove(now, caller, parent, name, false);
        self.end(result)
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, now: Time, caller: &Caller, parent: Ino, name: &[u8]) -> Result<Step<()>, Errno> {
        self.begin(now);
        let result = self.remove(now, caller, parent, name, true);
        self.end(result)
    }

    fn remove(
        &mut self,
        now: Time,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        directories: bool,
    ) -> Result<(), Stop> {
        check_name(name)?;
        let mut dir = self.directory(parent)?;
        self.allow(caller, &dir, Access::EXECUTE)?;
        match name {
            b"." if directories => return Err(Errno::Invalid.into()),
            b".." if directories => return Err(Errno::NotEmpty.into()),
            _ if is_dots(name) => return Err(Errno::IsDirectory.into()),
            _ => {}
        }
        let Named::Here(key, ino, kind) = self.named(parent, name)? else {
            return Err(Errno::NoEntry.into());
        };
        self.writable()?;
        let inode = self.catalog.inode(ino)?;
        self.allow_entries(caller, &dir)?;
        self.allow_removal(caller, &dir, &inode)?;
        match (kind == FileKind::Directory, directories) {
            (true, false) => return Err(Errno::IsDirectory.into()),
            (false, true) => return Err(Errno::NotDirectory.into()),
            (true, true) if inode.size > 0 => return Err(Errno::NotEmpty.into()),
            _ => {}
        }
        self.catalog.touch(Key::orphan(ino), Key::orphan(ino))?;
        self.room_to_free()?;
        self.catalog.delete(key);
        dir.size -= 1;
        dir.links -= u32::from(directories);
        self.put_changed_directory(now, parent, &mut dir);
        self.drop_link(now, ino, inode);
        self.changes += 1;
        self.reap_now();
        Ok(())
    }

    /// Takes a link from a file; the keys of the inode and its orphan were touched.
    fn drop_link(&mut self, now: Time, ino: Ino, mut inode: Inode) {
        inode.links = if inode.kind == FileKind::Directory { 0 } else { inode.links - 1 };
        inode.changed = now;
        self.catalog.put_inode(ino, &inode);
        if inode.links == 0 {
            self.catalog.put(Key::orphan(ino), &[]);
            self.orphans.add_unnamed(ino);
        }
    }

    /// Lists up to `count` entries of a directory behind `cookie` (0: from the beginning) into `entries`, `.` and `..` first. None: the
    /// listing is at its end. With `attributes` each has what `stat` answers.
    pub fn readdir(
        &mut self,
        now: Time,
        ino: Ino,
        cookie: u64,
        count: usize,
        attributes: bool,
        entries: &mut Vec<DirEntry>,
    ) -> Result<Step<()>, Errno> {
        self.begin(now);
        entries.clear();
        let result = self.list(ino, cookie, count, attributes, entries);
        // A listing that is cut short by a node that is not in memory is a listing all the same.
        let result = match result {
            Err(Stop::Miss(_)) if !entries.is_empty() => Ok(()),
            other => other,
        };
        self.end(result)
    }

    fn list(
        &mut self,
        ino: Ino,
        cookie: u64,
        count: usize,
        attributes: bool,
        entries: &mut Vec<DirEntry>,
    ) -> Result<(), Stop> {
        let dir = self.directory(ino)?;
        for (place, other, name) in [(COOKIE_DOT, ino, &b"."[..]), (COOKIE_DOT_DOT, dir.parent, &b".."[..])] {
            if cookie < place && entries.len() < count && dir.links > 0 {
                let attributes = match attributes {
                    true => Some(attributes_of(other, &self.catalog.inode(other)?)),
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
            let Some((found, place)) = self.catalog.seek(key)? else { break };
            if !found.is_beside(key) {
                break;
            }
            let entry = Entry::decode(self.catalog.value(place)).ok_or(Errno::Io)?;
            let mut item = DirEntry {
                ino: entry.ino,
                kind: entry.kind,
                cookie: found.offset() + COOKIE_FIRST,
                name: entry.name.into(),
                attributes: None,
            };
            if attributes {
                item.attributes = Some(attributes_of(item.ino, &self.catalog.inode(item.ino)?));
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
    pub fn readlink(&mut self, now: Time, ino: Ino) -> Result<Step<Vec<u8>>, Errno> {
        self.begin(now);
        let result = self.target_of(ino);
        self.end(result)
    }

    fn target_of(&mut self, ino: Ino) -> Result<Vec<u8>, Stop> {
        let inode = self.catalog.inode(ino)?;
        if inode.kind != FileKind::Symlink {
            return Err(Errno::Invalid.into());
        }
        let mut target = Vec::with_capacity(inode.size as usize);
        for n in 0..inode.size.div_ceil(VALUE_BYTES_MAX as u64) {
            let place = self.catalog.find(Key::new(ino.0, Kind::Target, n))?.ok_or(Errno::Io)?;
            target.extend_from_slice(self.catalog.value(place));
        }
        Ok(target)
    }
}
