//! Extended attributes. A value is divided into pieces; each is stored under the hash of the name and its number, after the
//! name.

use super::directory::hash_of;
use super::permissions::allow;
use super::room;
use crate::key::{Fields, Inode, Key, Kind, OFFSET_MAX};
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{Access, Caller, Errno, FileKind, Ino, NAME_BYTES_MAX, Time, XATTR_BYTES_MAX, XattrMode};

/// Bytes of a value per piece. With the longest name it fits into a node's entry.
const PIECE: usize = 250;
/// Maximum pieces of a value, including slots for equal hashes.
const PIECES: u64 = 1024;

fn base(ino: Ino, name: &[u8]) -> Key {
    Key::new(ino.0, Kind::Xattr, hash_of(name) & (OFFSET_MAX - (PIECES - 1)))
}

/// Encodes the length of the name, the length of the whole value, the name, and a piece of the value.
fn encode(name: &[u8], length: usize, piece: &[u8], buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.push(name.len() as u8);
    buffer.extend_from_slice(&(length as u32).to_le_bytes());
    buffer.extend_from_slice(name);
    buffer.extend_from_slice(piece);
}

fn decode(value: &[u8]) -> Option<(&[u8], usize, &[u8])> {
    let mut f = Fields(value);
    let name = f.u8()?;
    let length = f.u32()? as usize;
    Some((f.bytes(name.into())?, length, f.0))
}

/// Position of an attribute.
enum Found {
    At(Key, usize),
    /// A free key at which it could begin.
    Free(Key),
}

fn pieces(length: usize) -> u64 {
    length.div_ceil(PIECE).max(1) as u64
}

fn check(caller: &Caller, inode: &Inode, name: &[u8], writes: bool) -> Result<(), Errno> {
    match name.len() {
        0 => return Err(Errno::Range),
        length if length > NAME_BYTES_MAX => return Err(Errno::Range),
        _ => {}
    }
    let space = name.split(|&byte| byte == b'.').next().unwrap_or_default();
    match space {
        b"user" if matches!(inode.kind, FileKind::File | FileKind::Directory) => {
            let sticky = inode.kind == FileKind::Directory && inode.mode & 0o1000 != 0;
            let owns = caller.is_root() || caller.uid == inode.uid;
            if writes && sticky && !owns { Err(Errno::NotPermitted) } else { Ok(()) }
        }
        b"user" => Err(if writes { Errno::NotPermitted } else { Errno::NoData }),
        b"trusted" if caller.is_root() => Ok(()),
        b"trusted" => Err(if writes { Errno::NotPermitted } else { Errno::NoData }),
        b"security" if caller.is_root() || !writes => Ok(()),
        b"security" => Err(Errno::NotPermitted),
        _ => Err(Errno::NotSupported),
    }
}

fn find(core: &mut Core, ino: Ino, name: &[u8]) -> Result<Found, Stop> {
    let mut key = base(ino, name);
    let end = Key(key.0 + u128::from(PIECES));
    loop {
        match core.catalog.seek(key)? {
            Some((found, place)) if found < end => {
                let (other, length, _) = decode(core.catalog.value(place)).ok_or(Errno::Io)?;
                if other == name {
                    return Ok(Found::At(found, length));
                }
                key = Key(found.0 + u128::from(pieces(length)));
            }
            _ => return Ok(Found::Free(key)),
        }
    }
}

/// The value of an extended attribute.
pub(crate) fn xattr_value(core: &mut Core, caller: &Caller, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Stop> {
    let inode = core.catalog.inode(ino)?;
    check(caller, &inode, name, false)?;
    if name.starts_with(b"user.") {
        allow(caller, &inode, Access::READ)?;
    }
    let Found::At(key, length) = find(core, ino, name)? else {
        return Err(Errno::NoData.into());
    };
    let mut value = Vec::with_capacity(length);
    for n in 0..pieces(length) {
        let place = core.catalog.find(Key(key.0 + u128::from(n)))?.ok_or(Errno::Io)?;
        value.extend_from_slice(decode(core.catalog.value(place)).ok_or(Errno::Io)?.2);
    }
    Ok(value)
}

/// Names of the extended attributes, each followed by a zero.
pub(crate) fn xattr_names(core: &mut Core, caller: &Caller, ino: Ino) -> Result<Vec<u8>, Stop> {
    core.catalog.inode(ino)?;
    let mut names = Vec::new();
    let mut key = Key::new(ino.0, Kind::Xattr, 0);
    while let Some((found, place)) = core.catalog.seek(key)? {
        if !found.is_beside(key) {
            break;
        }
        let (name, length, _) = decode(core.catalog.value(place)).ok_or(Errno::Io)?;
        if caller.is_root() || !name.starts_with(b"trusted.") {
            names.extend_from_slice(name);
            names.push(0);
        }
        key = Key(found.0 + u128::from(pieces(length)));
    }
    Ok(names)
}

/// Sets an extended attribute; `None`: removes it.
pub(crate) fn set_xattr(
    core: &mut Core,
    now: Time,
    caller: &Caller,
    ino: Ino,
    name: &[u8],
    value: Option<&[u8]>,
    mode: XattrMode,
) -> Result<(), Stop> {
    let mut inode = core.catalog.inode(ino)?;
    core.life.writable()?;
    check(caller, &inode, name, true)?;
    if name.starts_with(b"user.") {
        allow(caller, &inode, Access::WRITE)?;
    }
    let found = find(core, ino, name)?;
    match (&found, mode) {
        (Found::At(..), XattrMode::Create) => return Err(Errno::Exists.into()),
        (Found::Free(_), XattrMode::Replace) => return Err(Errno::NoData.into()),
        _ => {}
    }
    let length = value.map_or(0, <[u8]>::len);
    if length > XATTR_BYTES_MAX {
        return Err(Errno::TooBig.into());
    }
    // A growing attribute must not run into another one with the same hash.
    let end = base(ino, name).0 + u128::from(PIECES);
    let (old, mut key) = match found {
        Found::At(key, old) => (Some((key, old)), key),
        Found::Free(key) => (None, key),
    };
    let new = pieces(length);
    if let Some((at, old)) = old
        && new > pieces(old)
    {
        let behind = Key(at.0 + u128::from(pieces(old)));
        let others = core.catalog.seek(behind)?.filter(|(next, _)| next.0 < end);
        if others.is_some_and(|(next, _)| next.0 < at.0 + u128::from(new)) {
            return Err(Errno::NoSpace.into());
        }
        key = at;
    }
    if key.0 + u128::from(new) > end {
        return Err(Errno::NoSpace.into());
    }
    core.catalog.touch(key, Key(key.0 + u128::from(new.max(old.map_or(0, |(_, old)| pieces(old))))))?;
    match value {
        Some(_) => room::to_add(core, 0, 1 + new)?,
        None => room::to_free(core)?,
    }
    let kept = if value.is_some() { new } else { 0 };
    if let Some(value) = value {
        let mut buffer = Vec::new();
        for n in 0..new as usize {
            let piece = &value[(n * PIECE).min(length)..((n + 1) * PIECE).min(length)];
            encode(name, length, piece, &mut buffer);
            core.catalog.put(Key(key.0 + n as u128), &buffer);
        }
    }
    if let Some((at, old)) = old {
        for n in kept..pieces(old) {
            core.catalog.delete(Key(at.0 + u128::from(n)));
        }
    }
    inode.changed = now;
    core.catalog.put_inode(ino, &inode);
    core.commits.changed();
    Ok(())
}
