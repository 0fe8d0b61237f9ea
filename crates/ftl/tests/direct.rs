//! Chunks and zones without a drive: rules, refreshes and mounts, on media that only record.

use crate::common;
use pellucid_flash::{
    BlockId, ChunkGeometry, ChunkState, Layout, Lba, Lpn, Nanos, Ppa, Status, ZoneAction, ZoneState,
};
use pellucid_ftl::{
    ChunkConfig, ChunkReset, Chunks, Management, MountSource, WriteFailure, ZoneConfig, ZoneWork, Zones,
};
use std::collections::BTreeSet;

/// Two dies of 6 blocks of 4 superpages of 2 units of one sector.
fn layout() -> Layout {
    common::layout(2, 6, 4, 2)
}

const SUPERPAGES: u32 = 4;
const SUPERPAGE: u32 = 2;

/// Flash content, superpage by superpage; a torn or failed one is `None`.
struct Flash {
    blocks: Vec<Vec<Option<(Lpn, u64)>>>,
    erases: Vec<u32>,
    bad: BTreeSet<u32>,
}

impl Flash {
    fn new() -> Flash {
        Flash { blocks: vec![Vec::new(); 12], erases: vec![0; 12], bad: BTreeSet::new() }
    }

    fn program(&mut self, first: Ppa, spare: Option<(Lpn, u64)>) {
        let (block, superpage) =
            (first.0 / (SUPERPAGES * SUPERPAGE), first.0 % (SUPERPAGES * SUPERPAGE) / SUPERPAGE);
        assert_eq!(self.blocks[block as usize].len(), superpage as usize, "in order");
        self.blocks[block as usize].push(spare);
    }
}

impl MountSource for Flash {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        let (block, superpage) =
            (ppa.0 / (SUPERPAGES * SUPERPAGE), ppa.0 % (SUPERPAGES * SUPERPAGE) / SUPERPAGE);
        self.blocks[block as usize].get(superpage as usize).copied().flatten()
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].len() as u32
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad.contains(&block.0)
    }

    fn map_page(&self, _: Ppa) -> Option<Vec<u8>> {
        None
    }
}

fn chunk_config(management: Management) -> ChunkConfig {
    ChunkConfig {
        blocks: 0..6,
        management,
        write_optimal_superpages: 1,
        cached_superpages: 0,
        open_max: 3,
        open_per_unit_max: 2,
        failure: WriteFailure::CloseChunk,
        rated_erases: 255,
    }
}

const SHARED: Management = Management::Shared { spare_blocks: 2 };

fn chunks(management: Management, flash: &Flash) -> (Chunks, Vec<BlockId>) {
    let times = ChunkGeometry {
        groups: 2,
        units: 1,
        chunks: 0,
        chunk_sectors: 0,
        sector_bytes: 4096,
        write_min_sectors: 0,
        write_optimal_sectors: 0,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(1); 2],
        write_ns: [Nanos(1); 2],
        reset_ns: [Nanos(1); 2],
    };
    Chunks::mount(&chunk_config(management), &layout(), times, flash)
}

/// First sector of chunk `number`.
fn start(chunks: &Chunks, number: u32) -> Lba {
    chunks.info(number).start
}

fn reserve(chunks: &mut Chunks, lba: Lba, sectors: u32) -> Result<Vec<Ppa>, Status> {
    let mut plans = Vec::new();
    chunks.reserve(sectors, |i| Lba(lba.0 + u64::from(i)), &mut plans)?;
    Ok(plans.iter().map(|plan| plan.first).collect())
}

/// Writes superpages to chunk `number`, on the media too.
fn write(chunks: &mut Chunks, flash: &mut Flash, number: u32, superpages: u32) {
    let lba = Lba(start(chunks, number).0 + u64::from(chunks.info(number).write_pointer));
    for first in reserve(chunks, lba, superpages * SUPERPAGE).expect("a good write") {
        let sequence = chunks.program_begins(number).expect("nothing has failed");
        flash.program(first, Some((Lpn(number), sequence)));
        assert_eq!(chunks.written(number, true), (Status::Success, None));
    }
    chunks.check();
}

fn block_of(chunks: &Chunks, number: u32) -> BlockId {
    BlockId(chunks.locate(start(chunks, number)).expect("it can be read").0.0 / (SUPERPAGES * SUPERPAGE))
}

#[test]
fn writes_keep_their_rules_or_change_nothing() {
    let mut flash = Flash::new();
    let (mut chunks, erase) = chunks(Management::Host, &flash);
    assert!(erase.is_empty() && chunks.count() == 12);
    let lba = start(&chunks, 0);
    for (at, sectors, status) in [
        (0, 1, Status::ChunkOutOfOrder),
        (2, 2, Status::ChunkOutOfOrder),
        (1 << 40, 2, Status::ChunkWriteInvalid),
    ] {
        assert_eq!(reserve(&mut chunks, Lba(lba.0 + at), sectors), Err(status), "{at} {sectors}");
        assert_eq!((chunks.info(0).state, chunks.info(0).write_pointer), (ChunkState::Free, 0));
        chunks.check();
    }
    write(&mut chunks, &mut flash, 0, 1);
    assert_eq!((chunks.info(0).state, chunks.info(0).write_pointer), (ChunkState::Open, 2));
    write(&mut chunks, &mut flash, 1, 1);
    let third = start(&chunks, 2);
    assert_eq!(
        reserve(&mut chunks, third, SUPERPAGE),
        Err(Status::ChunkWriteInvalid),
        "two of a unit are open"
    );
    write(&mut chunks, &mut flash, 6, 1);
    let other = start(&chunks, 7);
    assert_eq!(reserve(&mut chunks, other, SUPERPAGE), Err(Status::ChunkWriteInvalid), "three are open");
    write(&mut chunks, &mut flash, 0, 3);
    assert_eq!(chunks.info(0).state, ChunkState::Closed);
    assert_eq!(reserve(&mut chunks, third, SUPERPAGE), Ok(vec![layout().ppa(BlockId(2), 0)]));
    assert_eq!(chunks.reset_begin(third), Err(Status::ChunkInvalidReset), "a program is on its way");
    assert_eq!(chunks.locate(third), None);
}

#[test]
fn a_failed_write_closes_its_chunk_and_what_is_behind_it() {
    let mut flash = Flash::new();
    let (mut chunks, _) = chunks(Management::Host, &flash);
    let lba = start(&chunks, 3);
    let firsts = reserve(&mut chunks, lba, 3 * SUPERPAGE).expect("a good write");
    for (first, good) in firsts.iter().zip([true, false]) {
        let sequence = chunks.program_begins(3).expect("nothing has failed");
        flash.program(*first, good.then_some((Lpn(3), sequence)));
        let (status, retire) = chunks.written(3, good);
        let expected = if good { Status::Success } else { Status::ChunkClosedEarly };
        assert_eq!((status, retire), (expected, (!good).then_some(BlockId(3))));
    }
    assert_eq!(chunks.program_begins(3), None, "the third must not begin");
    assert_eq!(chunks.written(3, false), (Status::ChunkClosedEarly, None));
    assert_eq!((chunks.info(3).state, chunks.info(3).write_pointer), (ChunkState::Closed, SUPERPAGE));
    chunks.check();
    let reset = chunks.reset_begin(lba).expect("closed");
    assert_eq!(reset, ChunkReset::Retired { block: BlockId(3), status: Status::ChunkOffline });
    assert_eq!(chunks.reset_begin(lba), Err(Status::ChunkOffline));
}

#[test]
fn a_refresh_moves_a_full_chunk_and_holds_its_reset_back() {
    let mut flash = Flash::new();
    let (mut chunks, _) = chunks(SHARED, &flash);
    assert_eq!(chunks.count(), 8);
    write(&mut chunks, &mut flash, 1, 3);
    assert_eq!(chunks.refresh_begin(1), None, "not full");
    write(&mut chunks, &mut flash, 1, 1);
    let moved = chunks.refresh_begin(1).expect("full, and two blocks are to spare");
    assert_eq!((moved.from, chunks.refresh_begin(1)), (block_of(&chunks, 1), None));
    let lba = start(&chunks, 1);
    assert_eq!(chunks.reset_begin(lba), Ok(ChunkReset::Later));
    assert_eq!(chunks.refresh_end(moved, true), moved.from);
    assert_eq!(block_of(&chunks, 1), moved.to);
    assert_eq!(chunks.reset_begin(lba), Ok(ChunkReset::Later), "the original could come back");
    chunks.refresh_erased(1, moved.from, true, 1);
    chunks.check();
    assert_eq!(chunks.reset_begin(lba), Ok(ChunkReset::Erase { chunk: 1, block: moved.to }));
    // A refresh that is given up: the copy goes, the original stays.
    write(&mut chunks, &mut flash, 2, 4);
    let moved = chunks.refresh_begin(2).expect("full");
    assert_eq!(chunks.refresh_end(moved, false), moved.to);
    chunks.refresh_erased(2, moved.to, false, 0);
    assert_eq!(block_of(&chunks, 2), moved.from);
    // Each free chunk must still find a block: the die has lost one, and a refresh takes the second spare.
    write(&mut chunks, &mut flash, 3, 4);
    let moved = chunks.refresh_begin(3).expect("one is to spare");
    assert_eq!(chunks.refresh_begin(2), None, "what is left belongs to the free chunks");
    chunks.refresh_end(moved, true);
    chunks.refresh_erased(3, moved.from, false, 0);
    assert_eq!(chunks.refresh_begin(2), None);
    chunks.check();
}

#[test]
fn a_host_manages_its_media_itself() {
    let mut flash = Flash::new();
    let (mut chunks, _) = chunks(Management::Host, &flash);
    write(&mut chunks, &mut flash, 0, 4);
    assert_eq!((chunks.refresh_begin(0), chunks.distrust(0)), (None, None));
}

#[test]
fn a_distrusted_block_is_replaced_at_the_reset() {
    let mut flash = Flash::new();
    let (mut chunks, _) = chunks(SHARED, &flash);
    write(&mut chunks, &mut flash, 0, 2);
    assert_eq!(chunks.distrust(0), None, "it is being written");
    write(&mut chunks, &mut flash, 0, 2);
    let block = block_of(&chunks, 0);
    assert_eq!((chunks.distrust(0), chunks.distrust(0)), (Some(block), None));
    assert_eq!((chunks.refresh_begin(0), block_of(&chunks, 0)), (None, block), "what can be read stays");
    let lba = start(&chunks, 0);
    assert_eq!(chunks.reset_begin(lba), Ok(ChunkReset::Retired { block, status: Status::Success }));
    write(&mut chunks, &mut flash, 0, 4);
    assert_ne!(block_of(&chunks, 0), block);
}

/// Power fails at every superpage of a copy, and before the original is erased: one of the two is the whole chunk, and the other must be
/// erased.
#[test]
fn of_a_chunk_and_its_copy_the_longer_one_is_found() {
    for copied in 0..=SUPERPAGES {
        for original_first in [true, false] {
            let mut flash = Flash::new();
            let (from, to) = if original_first { (1, 4) } else { (4, 1) };
            let spare = |superpage: u32| Some((Lpn(2), 100 + u64::from(superpage)));
            flash.blocks[from] = (0..SUPERPAGES).map(spare).collect();
            // The last one that was begun is torn.
            flash.blocks[to] =
                (0..copied).map(|superpage| spare(superpage).filter(|_| superpage + 1 < copied)).collect();
            if copied == SUPERPAGES && original_first {
                flash.blocks[to] = flash.blocks[from].clone();
            }
            let (chunks, erase) = chunks(SHARED, &flash);
            let found = block_of(&chunks, 2).0 as usize;
            assert_eq!(chunks.info(2).write_pointer, SUPERPAGES * SUPERPAGE);
            assert!(flash.blocks[found].iter().all(Option::is_some), "{copied}: {found} is not whole");
            let other = if found == from { to } else { from };
            let expected = if flash.blocks[other].is_empty() { vec![] } else { vec![BlockId(other as u32)] };
            assert_eq!(erase, expected, "{copied} {original_first}");
        }
    }
    // A chunk that was reset and written again is the newer one, however short it is.
    let mut flash = Flash::new();
    flash.blocks[0] = (0..SUPERPAGES).map(|superpage| Some((Lpn(2), 100 + u64::from(superpage)))).collect();
    flash.blocks[3] = vec![Some((Lpn(2), 200))];
    let (chunks, erase) = chunks(SHARED, &flash);
    assert_eq!((block_of(&chunks, 2), erase), (BlockId(3), vec![BlockId(0)]));
}

fn zones() -> Zones {
    let config = ZoneConfig {
        blocks: 0..6,
        spare_blocks: 2,
        dies_per_zone: 2,
        open_max: 2,
        active_max: 3,
        append_max_sectors: 4,
        stage_superpages: 8,
        protected: false,
    };
    Zones::mount(&config, &layout(), &Flash::new(), |_| None, &[]).0
}

const CAPACITY: u32 = 2 * SUPERPAGES * SUPERPAGE;

fn at(zones: &Zones, zone: u32, sector: u32) -> Lba {
    Lba(u64::from(zone) * zones.geometry().zone_sectors + u64::from(sector))
}

#[test]
fn zones_keep_pointers_limits_and_capacity() {
    let mut zones = zones();
    assert_eq!(zones.geometry().zones, 4);
    let starts: Vec<Lba> = (0..4).map(|zone| at(&zones, zone, 0)).collect();
    assert_eq!(zones.accept(at(&zones, 0, 1), 1, false), Err(Status::ZoneInvalidWrite));
    assert_eq!(zones.accept(starts[0], 3, false), Ok((0, 0)));
    assert_eq!(zones.accept(starts[0], 3, true), Ok((0, 3)), "an append goes where the pointer is");
    assert_eq!(zones.accept(starts[0], 5, true), Err(Status::InvalidField), "longer than an append may be");
    assert_eq!(zones.accept(at(&zones, 0, 1), 1, true), Err(Status::InvalidField));
    assert_eq!(zones.accept(at(&zones, 0, 6), CAPACITY, false), Err(Status::ZoneBoundary));
    assert_eq!(zones.accept(at(&zones, 4, 0), 1, false), Err(Status::LbaOutOfRange));
    // A third open zone closes one that was opened implicitly; one that was opened explicitly stays.
    assert_eq!(zones.act(1, ZoneAction::Open), Ok(ZoneWork::Done));
    assert_eq!(zones.accept(starts[2], 1, false), Ok((2, 0)));
    let states = |zones: &Zones| (0..4).map(|zone| zones.state(zone)).collect::<Vec<_>>();
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen};
    assert_eq!(states(&zones), [Closed, ExplicitlyOpen, ImplicitlyOpen, Empty]);
    assert_eq!(zones.accept(starts[3], 1, false), Err(Status::TooManyActiveZones));
    zones.check();
    assert_eq!(zones.accept(at(&zones, 2, 1), CAPACITY - 1, false), Ok((2, 1)));
    assert_eq!(zones.state(2), Full);
    assert_eq!(zones.accept(at(&zones, 2, 5), 1, false), Err(Status::ZoneFull));
    assert_eq!(zones.accept(starts[3], 1, false), Ok((3, 0)), "a full zone is not active");
    zones.check();
}

/// Open, reset, finish, close, offline of zone 0: done at once (d), work for the drive (w), or refused (x).
#[test]
fn every_action_in_every_state_is_done_or_refused() {
    use ZoneAction::{Close, Finish, Offline, Open, Reset};
    let write = |zones: &mut Zones, sectors| assert_eq!(zones.accept(Lba(0), sectors, false), Ok((0, 0)));
    for (state, expected) in [
        (ZoneState::Empty, "ddwxx"),
        (ZoneState::ImplicitlyOpen, "dwwdx"),
        (ZoneState::ExplicitlyOpen, "dwwdx"),
        (ZoneState::Closed, "dwwdx"),
        (ZoneState::Full, "xwdxx"),
        (ZoneState::ReadOnly, "xxxxw"),
        (ZoneState::Offline, "xxxxd"),
    ] {
        let mut made = zones();
        match state {
            ZoneState::Empty => {}
            ZoneState::Full => write(&mut made, CAPACITY),
            ZoneState::ExplicitlyOpen => assert!(made.act(0, Open).is_ok()),
            ZoneState::Offline => made.fail(0),
            _ => write(&mut made, 1),
        }
        match state {
            ZoneState::Closed => assert!(made.act(0, Close).is_ok()),
            ZoneState::ReadOnly => made.fail(0),
            _ => {}
        }
        assert_eq!(made.state(0), state);
        for (action, expected) in [Open, Reset, Finish, Close, Offline].into_iter().zip(expected.chars()) {
            let mut zones = made.clone();
            let found = match zones.act(0, action) {
                Ok(ZoneWork::Done) => 'd',
                Ok(ZoneWork::Finish | ZoneWork::Reset | ZoneWork::Offline) => 'w',
                Err(status) => {
                    assert_eq!((status, zones.state(0)), (Status::ZoneInvalidTransition, state));
                    'x'
                }
            };
            assert_eq!(found, expected, "{action:?} of {state:?}");
            zones.check();
        }
    }
}

#[test]
fn zones_that_fail_are_named_once() {
    let mut zones = zones();
    zones.accept(at(&zones, 2, 0), 1, false).expect("room");
    zones.fail(2);
    zones.fail(1);
    zones.fail(2);
    assert_eq!((zones.state(2), zones.state(1)), (ZoneState::ReadOnly, ZoneState::Offline));
    assert_eq!([zones.pop_changed(), zones.pop_changed(), zones.pop_changed()], [Some(2), Some(1), None]);
    assert_eq!(zones.accept(at(&zones, 2, 1), 1, false), Err(Status::ZoneReadOnly));
    assert_eq!(zones.accept(at(&zones, 1, 0), 1, false), Err(Status::ZoneOffline));
    zones.check();
}
