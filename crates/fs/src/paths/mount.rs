//! Mounting: reads the superblock, the newest checkpoint, the log after it (`replay.rs`), and the information about files that is needed
//! from the start.
//!
//! ```text
//!   superblock ─► (its copy) ─► places of checkpoints ─┬─► scan ─► apply ─► orphans ─► (owners of names) ─► mounted
//!   on flash: pictures in flash blocks ────────────────┘
//! ```
//! A mount is read-only if metadata that it has to change, or needs to free something, are unreadable: readable files are served, the rest is EIO.

use super::{booking, fetch, replay};
use crate::backend::{Content, FoundSegment};
use crate::catalog::Catalog;
use crate::finding::Finding;
use crate::key::{Extent, Inode, Key, Kind};
use crate::layout::{COPIES, Layout};
use crate::log::Log;
use crate::objects::Core;
use crate::picture::Picture;
use crate::record::SyncRecord;
use crate::space::Space;
use crate::stop::Stop;
use crate::superblock::{Chosen, NotRead, Super, choose, copy_of, read_superblock};
use crate::types::{BLOCK_BYTES, Ino};
use Outcome::{GoesOn, Over, Waits};
use replay::{Entries, Scan};

/// Places for checkpoints on a block drive.
const PLACES: usize = 2;

/// Checkpoint and sync record from which a mount starts.
type Places = (Box<Picture>, Option<SyncRecord>);

/// The newest whole picture on flash, with its superblock.
type Newest = Option<Box<(Super, Picture)>>;

/// A mount in progress.
#[derive(Clone, Debug)]
pub(crate) struct Mounting {
    /// Blocks of the drive.
    blocks: u64,
    step: MountStep,
}

/// A copy of a picture on flash: flash block, number of the picture in it, and number of the copy.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    segment: u32,
    number: u32,
    copy: u32,
}

#[derive(Clone, Debug)]
enum MountStep {
    Super,
    /// Reads the copy of the superblock in the block `at`.
    Copy {
        first: Result<Super, NotRead>,
        at: u64,
    },
    Places,
    /// On flash: copies of pictures still to be examined, and the newest whole one so far.
    Pictures {
        left: Vec<Candidate>,
        newest: Newest,
    },
    /// Reads the part of the log after the checkpoint.
    Scan {
        picture: Box<Picture>,
        scan: Box<Scan>,
    },
    Apply {
        entries: Entries,
    },
    Orphans {
        from: Key,
    },
    /// Reads the owners of the names.
    Owners {
        from: Key,
    },
}

/// Result of a step.
enum Outcome {
    /// The next step can start.
    GoesOn(MountStep),
    /// The step must be repeated after a read.
    Waits(MountStep),
    /// The mount has ended.
    Over,
}

impl Mounting {
    /// A mount of a drive of this many blocks.
    pub fn new(blocks: u64) -> Mounting {
        Mounting { blocks, step: MountStep::Super }
    }

    /// A mount of flash with this layout, whose blocks `found` hold data.
    pub fn on_flash(layout: &Layout, found: &[FoundSegment]) -> Mounting {
        let pictures = found.iter().filter(|found| found.content == Some(Content::Checkpoint));
        let newest = pictures.filter_map(|found| {
            let pictures = found.blocks.div_ceil(layout.places_blocks());
            (pictures > 0).then(|| Candidate { segment: found.segment, number: pictures - 1, copy: 0 })
        });
        let step = MountStep::Pictures { left: newest.collect(), newest: None };
        Mounting { blocks: layout.blocks, step }
    }

    /// Continues as far as possible. Returns the mount if it waits for reads; `None`: it has ended.
    pub fn run(self, core: &mut Core) -> Option<Mounting> {
        let Mounting { blocks, mut step } = self;
        loop {
            let outcome = take_step(core, blocks, step);
            booking::book(core);
            match outcome {
                Ok(GoesOn(next)) => step = next,
                Ok(Waits(step)) => return Some(Mounting { blocks, step }),
                Ok(Over) => {
                    begin_use(core);
                    return None;
                }
                Err(why) => {
                    core.life.failed(why);
                    return None;
                }
            }
        }
    }
}

fn take_step(core: &mut Core, blocks: u64, step: MountStep) -> Result<Outcome, String> {
    match step {
        MountStep::Super => read_first(core, blocks),
        MountStep::Copy { first, at } => read_copy(core, blocks, first, at),
        MountStep::Places => take_places(core),
        MountStep::Pictures { left, newest } => take_pictures(core, left, newest),
        MountStep::Scan { picture, mut scan } => Ok(match replay::scan_on(core, &picture, &mut scan) {
            false => Waits(MountStep::Scan { picture, scan }),
            true => GoesOn(MountStep::Apply { entries: replay::replay(core, &picture, *scan) }),
        }),
        MountStep::Apply { entries } => Ok(apply(core, entries)),
        MountStep::Orphans { from } => Ok(find_orphans(core, from)),
        MountStep::Owners { from } => Ok(find_owners(core, from)),
    }
}

/// Starts the use after the mount.
fn begin_use(core: &mut Core) {
    core.reads.count_anew();
    core.names.owners.begin_use();
    core.commits.mounted();
    if core.life.mounted(core.findings.damage().is_empty()) {
        if core.space.layout().backend.is_flash() {
            core.library.want_told();
        }
        if core.space.has_names() {
            core.names.moves.want_report();
        }
        core.want_checkpoint();
    }
}

// ---- superblock

fn read_first(core: &mut Core, blocks: u64) -> Result<Outcome, String> {
    let Some(bytes) = fetch::want_raw(core, 0, 1) else { return Ok(Waits(MountStep::Super)) };
    let first = superblock_of(core, bytes, blocks);
    if let Some(at) = copy_of(&first, blocks) {
        return Ok(GoesOn(MountStep::Copy { first, at }));
    }
    let found = first.map_err(NotRead::sentence)?;
    take_superblock(core, Chosen { found, mend: None });
    Ok(GoesOn(MountStep::Places))
}

fn read_copy(
    core: &mut Core,
    blocks: u64,
    first: Result<Super, NotRead>,
    at: u64,
) -> Result<Outcome, String> {
    let Some(bytes) = fetch::want_raw(core, at, 1) else { return Ok(Waits(MountStep::Copy { first, at })) };
    let copy = superblock_of(core, bytes, blocks);
    take_superblock(core, choose(first, at, copy, core.life.options().repair)?);
    Ok(GoesOn(MountStep::Places))
}

/// The superblock in a block; `None`: the block is unreadable.
fn superblock_of(core: &Core, bytes: Option<Vec<u8>>, blocks: u64) -> Result<Super, NotRead> {
    let why = "its first block is missing or cannot be read; allowed: what fs format has made";
    let bytes = bytes.ok_or_else(|| NotRead::Damaged(why.into()))?;
    read_superblock(&bytes, core.space.layout().backend, blocks)
}

/// Uses the superblock, and rewrites a damaged block of it.
fn take_superblock(core: &mut Core, Chosen { found, mend }: Chosen) {
    core.space = Space::new(found.layout.with_open(core.life.options().open_segments));
    core.log = Log::new(found.id, found.data_checksums);
    if let Some((block, finding)) = mend {
        core.findings.add_note(finding);
        core.checkpoints.want_superblocks([block]);
    }
}

// ---- checkpoint

fn take_places(core: &mut Core) -> Result<Outcome, String> {
    let Some((picture, record)) = read_places(core)? else { return Ok(Waits(MountStep::Places)) };
    take_picture(core, &picture);
    let scan = Box::new(Scan::new(&picture, record, false));
    Ok(GoesOn(MountStep::Scan { picture, scan }))
}

/// Finds the newest checkpoint with a whole copy, and the sync record; `None`: they are being read.
fn read_places(core: &mut Core) -> Result<Option<Places>, String> {
    let layout = *core.space.layout();
    let places = (0..2).flat_map(|number| (0..COPIES).map(move |copy| layout.place(number, copy)));
    let wanted = places.map(|place| (place, layout.place_blocks)).chain(layout.record().map(|at| (at, 1)));
    let wanted: Vec<(u64, u32)> = wanted.collect();
    let read: Vec<_> = wanted.iter().map(|&(at, blocks)| fetch::want_raw(core, at, blocks)).collect();
    if read.iter().any(Option::is_none) {
        for (&(at, _), read) in wanted.iter().zip(read) {
            if let Some(data) = read {
                core.reads.keep_raw(at, data);
            }
        }
        return Ok(None);
    }
    choose_picture(core, read.into_iter().map(Option::flatten).collect()).map(Some)
}

/// Chooses among the checkpoint copies; the sync record follows them.
fn choose_picture(core: &mut Core, read: Vec<Option<Vec<u8>>>) -> Result<Places, String> {
    let layout = *core.space.layout();
    let mut read = read.into_iter();
    let decode = |bytes: Vec<u8>| Picture::decode(&bytes, core.log.file_system(), &layout);
    let places: Vec<Vec<Picture>> = (0..PLACES)
        .map(|_| read.by_ref().take(COPIES as usize).flatten().filter_map(decode).collect())
        .collect();
    let whole = places.iter().filter(|place| !place.is_empty()).count();
    let record = read.next();
    if let (Some(None), Some(at)) = (&record, layout.record()) {
        core.findings.add_note(Finding(format!("the sync record, block {at}, cannot be read")));
    }
    let was_read = matches!(record, Some(Some(_)));
    let record = record.flatten().and_then(|bytes| SyncRecord::decode(&bytes, core.log.file_system()));
    // The first checkpoint is in both places.
    let Some(mut copies) = places
        .into_iter()
        .max_by_key(|place| place.first().map(|picture| picture.number))
        .filter(|place| !place.is_empty())
    else {
        return Err("all copies of its checkpoints are damaged or cannot be read".to_string());
    };
    let (count, picture) = (copies.len(), copies.swap_remove(0));
    if let (true, None, Some(at)) = (was_read, record, layout.record()) {
        // A record follows each checkpoint, so it is missing only if power failed right after the format.
        core.findings.add_note(Finding(format!(
            "the sync record, block {at}, is damaged, or was torn by a power cut: it does not say what was durable"
        )));
    }
    if count < COPIES as usize {
        core.findings.add_note(Finding(format!(
            "a copy of checkpoint {} is damaged or cannot be read",
            picture.number
        )));
    }
    if let Some(damage) = lost_checkpoint(picture.number, whole, layout.record(), record) {
        core.findings.add_damage(damage);
    }
    Ok((Box::new(picture), record))
}

/// Describes the damage if a checkpoint newer than the newest whole one was lost. `whole`: places with a whole copy. A power failure tears at most
/// one checkpoint, and never while the record, which then names the previous one, is being written.
fn lost_checkpoint(
    newest: u64,
    whole: usize,
    place: Option<u64>,
    record: Option<SyncRecord>,
) -> Option<Finding> {
    match (record, place) {
        (Some(record), _) if record.checkpoint > newest => Some(Finding(format!(
            "checkpoint {} is damaged or cannot be read, both copies: this is checkpoint {newest}, without what was changed later; \
             what was written over since cannot be read",
            record.checkpoint
        ))),
        (None, Some(at)) if whole < PLACES => Some(Finding(format!(
            "a checkpoint, both copies, and the sync record, block {at}, are damaged or cannot be read: this is checkpoint {newest}, and if that \
             was not the newest, what was changed later is lost"
        ))),
        _ => None,
    }
}

fn take_pictures(core: &mut Core, mut left: Vec<Candidate>, mut newest: Newest) -> Result<Outcome, String> {
    match read_picture(core, &mut left, &mut newest)? {
        None => return Ok(Waits(MountStep::Pictures { left, newest })),
        Some(true) => return Ok(GoesOn(MountStep::Pictures { left, newest })),
        Some(false) => {}
    }
    let Some(newest) = newest else {
        let why = "there is no Pellucid file system on it; `pellucid fs format` makes one and discards what is there";
        return Err(why.to_string());
    };
    let (found, picture) = *newest;
    let elsewhere = core.space.elsewhere();
    core.space = Space::new(found.layout.with_open(core.life.options().open_segments));
    core.space.set_elsewhere(elsewhere);
    take_picture(core, &picture);
    let scan = Box::new(Scan::new(&picture, None, true));
    Ok(GoesOn(MountStep::Scan { picture: Box::new(picture), scan }))
}

/// Examines a copy of a checkpoint on flash; if none is left, takes the newest. `None`: it is being
/// read.
fn read_picture(
    core: &mut Core,
    left: &mut Vec<Candidate>,
    newest: &mut Newest,
) -> Result<Option<bool>, String> {
    let layout = *core.space.layout();
    let Some(&Candidate { segment, number, copy }) = left.last() else { return Ok(Some(false)) };
    let block = number * layout.places_blocks() + copy * layout.place_blocks;
    let Some(bytes) = fetch::want_raw(core, layout.address(segment, block), layout.place_blocks) else {
        return Ok(None);
    };
    left.pop();
    let superblock = bytes.as_deref().and_then(|bytes| bytes.split_at_checked(BLOCK_BYTES));
    let found = superblock.map(|(first, rest)| {
        let found = read_superblock(first, layout.backend, layout.blocks).map_err(NotRead::sentence)?;
        Ok::<_, String>(Picture::decode(rest, found.id, &found.layout).map(|picture| (found, picture)))
    });
    match found {
        Some(Ok(Some((_, older)))) if newest.as_ref().is_some_and(|n| n.1.number > older.number) => {}
        Some(Ok(Some((found, picture)))) => {
            core.log = Log::new(found.id, found.data_checksums);
            *newest = Some(Box::new((found, picture)));
        }
        _ if copy + 1 < COPIES as u32 => {
            let what = "a copy of a checkpoint was torn by a power cut, or is damaged";
            core.findings.add_note(Finding(format!("flash block {segment}, block {block}: {what}")));
            left.push(Candidate { segment, number, copy: copy + 1 });
        }
        // The power failed during its write: the previous one is whole.
        _ if number > 0 => left.push(Candidate { segment, number: number - 1, copy: 0 }),
        Some(Err(why)) if left.is_empty() && newest.is_none() => return Err(why),
        _ => {}
    }
    Ok(Some(true))
}

fn take_picture(core: &mut Core, picture: &Picture) {
    core.catalog = Catalog::at(core.log.file_system(), picture);
    core.checkpoints.found(picture.number);
    core.space.restore(&picture.segments);
    core.log.resume(picture.epoch, picture.seq);
}

// ---- log

fn apply(core: &mut Core, mut entries: Entries) -> Outcome {
    while let Some((key, value)) = entries.front() {
        match replay::apply(core, *key, value.as_deref()) {
            Ok(()) => {
                entries.pop_front();
            }
            Err(Stop::Miss(miss)) if fetch::want_node(core, miss).is_ok() => {
                let goes_on = key.kind() != Some(Kind::Moved) && core.catalog.find(*key).is_ok();
                let step = MountStep::Apply { entries };
                return if goes_on { GoesOn(step) } else { Waits(step) };
            }
            Err(_) => {
                // The owner is unreadable, and is EIO. Nothing may be built on that.
                core.life.forbid_changes();
                cannot_apply(core);
                entries.pop_front();
            }
        }
    }
    core.catalog.forget_changed();
    GoesOn(MountStep::Orphans { from: Key::new(0, Kind::Orphan, 0) })
}

/// Notes a change of the log to an unreadable node.
fn cannot_apply(core: &mut Core) {
    let why = "a node of the tree is damaged or cannot be read: what was changed in it since the checkpoint is missing, too";
    if core.findings.damage().last().is_none_or(|last| last.0 != why) {
        core.findings.add_damage(Finding(why.to_string()));
    }
}

// ---- files

fn find_orphans(core: &mut Core, mut from: Key) -> Outcome {
    loop {
        match orphan_from(core, from) {
            Ok(Some(key)) => from = Key(key.0 + 1),
            Ok(None) => break,
            Err(Stop::Miss(miss)) if fetch::want_node(core, miss).is_ok() => {
                let step = MountStep::Orphans { from };
                return if orphan_from(core, from).is_ok() { GoesOn(step) } else { Waits(step) };
            }
            Err(_) => {
                core.life.forbid_changes();
                break;
            }
        }
    }
    if core.space.has_names() { GoesOn(MountStep::Owners { from: Key::MIN }) } else { Over }
}

fn find_owners(core: &mut Core, mut from: Key) -> Outcome {
    loop {
        match owner_from(core, from) {
            Ok(Some(key)) => from = Key(key.0 + 1),
            Ok(None) => return Over,
            Err(Stop::Miss(miss)) if fetch::want_node(core, miss).is_ok() => {
                let step = MountStep::Owners { from };
                return if owner_from(core, from).is_ok() { GoesOn(step) } else { Waits(step) };
            }
            Err(_) => {
                core.life.forbid_changes();
                return Over;
            }
        }
    }
}

/// Notes the next file with blocks to free: all of them if it is unlinked, otherwise those beyond its end.
fn orphan_from(core: &mut Core, from: Key) -> Result<Option<Key>, Stop> {
    let Some((key, _)) = core.catalog.seek(from)?.filter(|(key, _)| key.is_beside(from)) else {
        return Ok(None);
    };
    let ino = Ino(key.offset());
    let inode = core.catalog.find(Key::inode(ino))?;
    match inode.and_then(|place| Inode::decode(core.catalog.value(place))) {
        Some(inode) if inode.links > 0 => core.orphans.add_cut(ino),
        _ => core.orphans.add_unnamed(ino),
    };
    Ok(Some(key))
}

/// Notes the owner of the names of the next extent.
fn owner_from(core: &mut Core, from: Key) -> Result<Option<Key>, Stop> {
    let Some((key, place)) = core.catalog.seek(from)? else { return Ok(None) };
    if key.kind() == Some(Kind::Extent)
        && let Some(extent) = Extent::decode(key, core.catalog.value(place))
    {
        booking::own(core, Ino(key.object()), extent);
    }
    Ok(Some(key))
}
