//! Tests a cache whose flash has partly failed: readable data are read and written back, no stale data are
//! read, and losses are reported.

use super::ssc::Ssc;
use super::world::{self, Crash, Crashing, Flash, World};
use super::{exercise, seeds};
use crate::block_reference::BlockReference;
use crate::reference::Faults;
use pellucid_flash::{CacheGeometry, Drive, Interface, Lba, Nanos, Opcode, SimTime};
use pellucid_host::{CacheConfig, CacheManager, CacheMode, Layer, Machine, Pair, RecordWrites, Stack};

/// Returns faults of a flash that takes no writes; the reference solid-state cache still evicts and flushes.
fn no_writes(world: &World<Flash>) -> Faults {
    let is_ssc = matches!(world.host.drive.first, Flash::Ssc(_));
    Faults { write: 1.0, reset: f64::from(u8::from(is_ssc)), read: 0.0 }
}

#[test]
fn a_cache_whose_flash_takes_no_writes_is_read_and_written_back() {
    let mut dirty = 0;
    for seed in seeds(300..360) {
        let mut world = World::new(seed);
        exercise(&mut world, 300);
        let frozen = no_writes(&world);
        world.crash_with(Crash::ALL[seed as usize % 3], frozen);
        assert!(world.host.layer.is_read_only(), "seed {seed}");
        *world.host.drive.first.faults() = frozen;
        dirty += world.host.layer.dirty_blocks();
        world.check();
        let failed = world.failed;
        world.ask(Opcode::Write, 0, 1, false);
        world.ask(Opcode::Trim, 0, 1, false);
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        assert_eq!(world.failed - failed, 2, "seed {seed}: new data are refused, a flush is not");

        let outcome = world.detach().expect_err("the flash cannot be told");
        assert!(outcome.starts_with("everything is written back, but the cache drive"), "{outcome}");
        assert_eq!(world.host.layer.dirty_blocks(), 0, "seed {seed}");
        world.check();
        world.without_its_cache().check();
        // Unreadable copies are also in the backing store; no record of them is written.
        let failed = world.failed;
        *world.host.drive.first.faults() = Faults { read: 1.0, ..frozen };
        for lba in 0..20 {
            world.ask(Opcode::Read, lba, 1, false);
        }
        world.drain();
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        assert_eq!(world.failed, failed, "seed {seed}");
        // The flash is restored to its earlier state, so its old content comes back.
        *world.host.drive.first.faults() = Faults::default();
        world.crash(Crash::ALL[(seed + 1) as usize % 3]);
        assert!(!world.host.layer.is_read_only(), "seed {seed}");
        exercise(&mut world, 100);
        world.crash(Crash::All);
    }
    assert!(dirty > 100, "{dirty} blocks were dirty");
}

#[test]
fn a_flash_that_takes_writes_again_is_detached() {
    for seed in seeds(400..420) {
        let mut world = World::new(seed);
        exercise(&mut world, 200);
        let frozen = no_writes(&world);
        world.crash_with(Crash::Host, frozen);
        *world.host.drive.first.faults() = Faults::default();
        assert_eq!(world.detach(), Ok(()), "seed {seed}");
        exercise(&mut world, 100);
        world.without_its_cache().check();
        world.check();
    }
}

/// Checks a cache with only errors: a block that was neither written nor surely evicted counts as dirty, and
/// the cache drive does not even report whether it has it.
#[test]
fn every_command_ends_where_the_flash_answers_with_errors_only() {
    let mut failed = 0;
    for seed in (501..540).step_by(2) {
        let (config, flash, backing) = world::shape(seed);
        // The only timer is that after a failure.
        let config = CacheConfig { fallow: Nanos::ZERO, ..config };
        let mut world = World::on(config, flash, backing, seed);
        exercise(&mut world, 200);
        world.drain();
        *world.host.drive.first.faults() = Faults { write: 1.0, reset: 1.0, read: 0.0 };
        let Flash::Ssc(ssc) = &mut world.host.drive.first else {
            panic!("seed {seed}: no solid-state cache")
        };
        ssc.mute = true;
        exercise(&mut world, 300);
        let mut steps = 0;
        while world.outstanding() > 0 {
            steps += 1;
            assert!(world.step(), "seed {seed}: {} commands were forgotten", world.outstanding());
            assert!(steps < 10_000, "seed {seed}: {} commands do not end", world.outstanding());
        }
        failed += world.failed;
    }
    assert!(failed > 1000, "{failed} commands failed");
}

/// Makes a cache on a block drive without faults, with three dirty flushed blocks and one sector of each.
fn three_dirty_blocks() -> World<Flash> {
    three_dirty_blocks_with(world::shape(4).0.records)
}

fn three_dirty_blocks_with(records: RecordWrites) -> World<Flash> {
    let (config, flash, backing) = world::shape(4);
    let (sequential_bytes, dirty_percent) = (0, 90);
    let config =
        CacheConfig { mode: CacheMode::WriteBack, sequential_bytes, dirty_percent, records, ..config };
    let blocks = u64::from(config.block_bytes) / 512;
    let mut world = World::on(config, flash, backing, 4);
    for block in [1, 5, 9] {
        world.ask(Opcode::Write, block * blocks, blocks, false);
        world.drain();
    }
    world.ask(Opcode::Flush, 0, 0, false);
    world.drain();
    assert_eq!(world.host.layer.dirty_blocks(), 3);
    world
}

fn flash(world: &mut World<Flash>) -> &mut BlockReference {
    match &mut world.host.drive.first {
        Flash::Block(flash) => flash,
        Flash::Ssc(_) => unreachable!("a block drive"),
    }
}

/// Dirty blocks that can never be read are tried ever more seldom: a day is no work for them.
#[test]
fn blocks_that_can_never_be_cleaned_are_not_tried_every_second() {
    let (config, flash, backing) = world::shape(4);
    let (sequential_bytes, fallow) = (0, Nanos::ZERO);
    let config =
        CacheConfig { mode: CacheMode::WriteBack, sequential_bytes, dirty_percent: 1, fallow, ..config };
    let blocks = u64::from(config.block_bytes) / 512;
    let mut world = World::on(config, flash, backing, 4);
    *world.host.drive.first.faults() = Faults { read: 1.0, ..Faults::default() };
    for block in [1, 5, 9] {
        world.ask(Opcode::Write, block * blocks, blocks, false);
        world.drain();
    }
    let day = world.now + Nanos::from_secs(86_400);
    while world.host.next_event().is_some_and(|next| next <= day) && world.step() {}
    let (dirty, tried) = (world.host.layer.dirty_blocks(), world.host.layer.counters().flash_read_errors);
    assert_eq!(dirty, 3, "more than the percent that may be");
    // 1, 2, 4 and so on seconds, and then 23 hours.
    assert!((60..180).contains(&tried), "{tried} reads of {dirty} dirty blocks failed within a day");
}

/// Checks that readable blocks are still written back at once.
#[test]
fn a_dirty_block_that_cannot_be_read_is_told() {
    let mut world = three_dirty_blocks();
    let second = 5 * u64::from(world.config.block_bytes) / 512;
    // Every written sector has its own version.
    let version = u64::from(world.config.block_bytes) / 512 + 1;
    let image = [version.to_le_bytes(), second.to_le_bytes()].concat();
    let bad = flash(&mut world).find(&image);
    assert!(bad.is_some(), "the second write is on the flash");
    flash(&mut world).bad = bad;
    let outcome = world.detach().expect_err("a block is lost");
    let lost = second * 512..second * 512 + u64::from(world.config.block_bytes);
    let sentence = format!(
        "; 1 blocks are dirty still, the first at byte {0}; 1 are lost (bytes {0}-{1}) until they are written or trimmed whole, or given up \
         (--give-up-lost)",
        lost.start,
        lost.end - 1
    );
    assert!(
        outcome.contains("cannot be read from the cache drive") && outcome.ends_with(&sentence),
        "{outcome}"
    );
    assert_eq!(world.host.layer.take_lost(), [lost]);
    assert!(world.check_what_can_be_read() > 0);
    world.detach().expect_err("it is lost still");
    assert!(world.host.layer.take_lost().is_empty(), "it is told once");
    assert_eq!(figure(&world, "lost_blocks"), 1);
    flash(&mut world).bad = None;
    assert_eq!(world.detach(), Ok(()));
    assert_eq!(figure(&world, "lost_blocks"), 0);
    world.check();
}

fn figure(world: &World<Flash>, name: &str) -> u64 {
    let figures = world.host.layer.figures();
    figures.iter().find(|figure| figure.name == name).expect("a figure").value
}

/// A lost block is given up by writing or trimming it whole, or by a detach that is told to: else it stays dirty.
#[test]
fn a_lost_block_can_be_given_up() {
    for way in [Some(Opcode::Write), Some(Opcode::Trim), None] {
        let mut world = three_dirty_blocks();
        let blocks = u64::from(world.config.block_bytes) / 512;
        let lost = 5 * blocks;
        let image = [(blocks + 1).to_le_bytes(), lost.to_le_bytes()].concat();
        let bad = flash(&mut world).find(&image);
        flash(&mut world).bad = bad;
        world.detach().expect_err("a block is lost");
        world.ask(Opcode::Read, lost, 1, false);
        world.drain();
        assert_eq!((world.failed, figure(&world, "lost_blocks")), (1, 1));
        match way {
            None => {
                world.forget(lost..lost + blocks);
                assert_eq!(world.detach_by(true), Ok(()));
            }
            Some(opcode) => {
                // The cache drive takes no new data for its place, as one with a larger mapping unit, the rest of which is unreadable.
                world.ask(opcode, lost, blocks, false);
                world.drain();
                assert_eq!(world.failed, 1, "{opcode:?} ends the loss");
            }
        }
        assert_eq!(figure(&world, "lost_blocks"), 0, "{way:?}");
        assert_eq!(figure(&world, "given_up_blocks"), u64::from(way.is_none()));
        world.check();
        assert_eq!(world.detach(), Ok(()), "{way:?}");
        world.check();
        world.without_its_cache().check();
    }
}

/// A solid-state cache with three dirty flushed blocks, of which it cannot read the second.
fn lost_block_of_an_ssc() -> World<Flash> {
    let (config, _, backing) = world::shape(4);
    let config = CacheConfig { mode: CacheMode::WriteBack, sequential_bytes: 0, dirty_percent: 90, ..config };
    let blocks = u64::from(config.block_bytes) / 512;
    let geometry = CacheGeometry { address_sectors: 100 * blocks, unit_sectors: blocks as u32, units: 40 };
    let mut world = World::on(config, Flash::Ssc(Ssc::new(geometry, true, 4)), backing, 4);
    for block in [1, 5, 9] {
        world.ask(Opcode::Write, block * blocks, blocks, false);
        world.drain();
    }
    world.ask(Opcode::Flush, 0, 0, false);
    world.drain();
    ssc(&mut world).bad = Some(5);
    world.detach().expect_err("a block is lost");
    assert_eq!(figure(&world, "lost_blocks"), 1);
    world
}

fn ssc(world: &mut World<Flash>) -> &mut Ssc {
    match &mut world.host.drive.first {
        Flash::Ssc(ssc) => ssc,
        Flash::Block(_) => unreachable!("a solid-state cache"),
    }
}

/// A write that covers a lost block evicts it from a solid-state cache, too, and outlives every crash.
#[test]
fn a_lost_block_of_a_solid_state_cache_is_replaced() {
    for crash in Crash::ALL {
        let mut world = lost_block_of_an_ssc();
        let blocks = u64::from(world.config.block_bytes) / 512;
        world.ask(Opcode::Write, 4 * blocks, 3 * blocks, false);
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        assert_eq!((world.failed, figure(&world, "lost_blocks")), (0, 0));
        world.check();
        world.crash(crash);
        assert_eq!(world.detach(), Ok(()));
        world.without_its_cache().check();
    }
}

/// A replaced block outlives every crash, whatever is recorded when.
#[test]
fn a_lost_block_that_was_replaced_does_not_come_back() {
    for (records, flushes) in
        [(RecordWrites::EachWrite { force: true }, false), (RecordWrites::OnFlush, true)]
    {
        for crash in Crash::ALL {
            let mut world = three_dirty_blocks_with(records);
            let blocks = u64::from(world.config.block_bytes) / 512;
            let lost = 5 * blocks;
            let image = [(blocks + 1).to_le_bytes(), lost.to_le_bytes()].concat();
            flash(&mut world).bad = flash(&mut world).find(&image);
            world.ask(Opcode::Read, lost, blocks, false);
            world.drain();
            assert_eq!((world.failed, figure(&world, "lost_blocks")), (1, 1));
            world.ask(Opcode::Write, lost, blocks, false);
            world.drain();
            if flushes {
                world.ask(Opcode::Flush, 0, 0, false);
                world.drain();
            }
            assert_eq!((world.failed, figure(&world, "lost_blocks")), (1, 0));
            // Everything can be read, and is what was written last.
            world.crash(crash);
            assert!(!world.host.layer.is_dirty(Lba(lost)), "{crash:?}");
        }
    }
}

/// Blocks that were given up stay so over a crash, even if the cache drive could not record it as long as the program runs on; those that
/// were not are lost as before, and nobody is told again.
#[test]
fn what_was_given_up_stays_given_up() {
    let cases = [(1.0, Crash::Flash), (0.0, Crash::Flash), (0.0, Crash::Host), (0.0, Crash::All)];
    for (write, crash) in cases {
        for is_ssc in [false, true] {
            let mut world = if is_ssc { lost_block_of_an_ssc() } else { three_dirty_blocks() };
            let blocks = u64::from(world.config.block_bytes) / 512;
            let lost = 5 * blocks;
            if !is_ssc {
                let image = [(blocks + 1).to_le_bytes(), lost.to_le_bytes()].concat();
                flash(&mut world).bad = flash(&mut world).find(&image);
                world.detach().expect_err("a block is lost");
            }
            assert_eq!(world.host.layer.take_lost().len(), 1);
            world.forget(lost..lost + blocks);
            world.ask(Opcode::Write, 9 * blocks, blocks, false);
            world.ask(Opcode::Flush, 0, 0, false);
            world.drain();
            *world.host.drive.first.faults() = Faults { write, reset: write, ..Faults::default() };
            // Another block cannot be written back, so the detach fails.
            world.host.drive.second.bad = Some(9 * blocks);
            let mut gives_up = || {
                world.detach_by(true).expect_err("a block is dirty still");
                figure(&world, "given_up_blocks") == 1
            };
            assert!((0..5).any(|_| gives_up()));
            world.host.drive.second.bad = None;
            // What the detach has sent arrives; a command takes at most 120 ns.
            for _ in 0..8 {
                world.ask(Opcode::Flush, 0, 0, false);
                world.drain();
            }
            world.crash_with(crash, Faults::default());
            assert_eq!(figure(&world, "lost_blocks"), 0, "{crash:?}, a solid-state cache: {is_ssc}");
            assert_eq!(world.check_what_can_be_read(), 0, "{crash:?}, a solid-state cache: {is_ssc}");
            assert!(world.host.layer.take_lost().is_empty());
        }
    }
}

/// A detached cache needs nothing of its drive: a power cut of one that reads nothing more does not put an end to it.
#[test]
fn a_detached_cache_stays_so_over_a_power_cut() {
    let mut world = three_dirty_blocks();
    assert_eq!(world.detach(), Ok(()));
    let heads = heads(flash(&mut world));
    flash(&mut world).bad = Some(heads[0]);
    *world.host.drive.first.faults() = Faults { read: 1.0, write: 1.0, reset: 1.0 };
    world.crash_with(Crash::Flash, Faults { read: 1.0, write: 1.0, reset: 1.0 });
    assert!(world.host.layer.is_detached());
    let blocks = u64::from(world.config.block_bytes) / 512;
    world.ask(Opcode::Write, 5 * blocks, blocks, false);
    world.drain();
    world.check();
    assert_eq!(world.host.stop(), Ok(()));
}

/// Blocks that are lost and not given up are lost after a restart, too, and not named again.
#[test]
fn a_lost_block_is_named_once_over_a_power_cut() {
    let mut world = lost_block_of_an_ssc();
    assert_eq!(world.host.layer.take_lost().len(), 1);
    world.crash_with(Crash::Flash, Faults::default());
    assert_eq!(figure(&world, "lost_blocks"), 1);
    assert!(world.check_what_can_be_read() > 0);
    assert!(world.host.layer.take_lost().is_empty(), "it is told once");
    ssc(&mut world).bad = None;
    world.check();
    assert_eq!(figure(&world, "lost_blocks"), 0, "it was read");
}

/// A stop ends a detach that is under way: what is not written back is kept for the next start.
#[test]
fn a_stop_ends_a_detach() {
    let mut world = three_dirty_blocks();
    world.host.layer.detach(true);
    world.host.stop().expect("the cache stops");
    let why = world.host.layer.detached().expect("it has ended").expect_err("it was ended");
    assert!(why.contains("stopped before everything was written back"), "{why}");
    world.crash_with(Crash::Host, Faults::default());
    assert_eq!(world.host.layer.dirty_blocks(), 3);
    world.check();
}

#[test]
fn a_head_that_cannot_be_read_has_a_copy() {
    for crash in [Crash::Host, Crash::All] {
        let mut world = three_dirty_blocks();
        flash(&mut world).bad = Some(0);
        world.crash_with(crash, Faults::default());
        assert!(world.host.layer.is_read_only(), "it cannot be written either");
        assert_eq!(world.host.layer.dirty_blocks(), 3);
        world.check();
        world.detach().expect_err("nor be told");
        world.without_its_cache().check();
    }
}

/// Returns the sectors of the head and of its copy.
fn heads(flash: &mut BlockReference) -> Vec<u64> {
    let Some(Interface::Block { sectors, .. }) = flash.interface(0) else { panic!("a block drive") };
    (0..sectors).filter(|&lba| flash.sector(lba).starts_with(b"PLCACHE")).collect()
}

/// Returns the reason that a cache of this world does not start.
fn refusal(world: &World<Flash>) -> String {
    let pair = world.host.drive.clone();
    let layer = CacheManager::new(&world.config, pair.interface(0), pair.interface(1), 512).expect("room");
    Stack::start(layer, pair, world.now).expect_err("the start is refused")
}

#[test]
fn a_head_that_is_damaged_in_any_way_has_a_copy() {
    let mut known = three_dirty_blocks();
    let mut flipped = flash(&mut known).sector(0).to_vec();
    flipped[20] ^= 1;
    for image in [vec![0; 512], vec![0xA5; 512], flipped] {
        let mut world = three_dirty_blocks();
        let places = heads(flash(&mut world));
        assert_eq!((places.len(), places[0]), (2, 0));
        flash(&mut world).put(0, image);
        world.crash_with(Crash::Host, Faults::default());
        assert_eq!((world.host.layer.dirty_blocks(), world.host.layer.is_read_only()), (3, false));
        let notice = world.host.layer.start_notice().expect("the damage is told");
        assert!(notice.contains("its copy was used"), "{notice}");
        assert_eq!(heads(flash(&mut world)), places, "the head was written again");
        world.check();
        world.crash(Crash::Host);
        assert_eq!(world.host.layer.start_notice(), None);
    }
}

/// Checks that a drive is blank only if the head, its copy and the records are.
#[test]
fn records_without_a_head_are_no_blank_drive() {
    for image in [vec![0; 512], vec![0xA5; 512]] {
        let mut world = three_dirty_blocks();
        for head in heads(flash(&mut world)) {
            flash(&mut world).put(head, image.clone());
        }
        let why = refusal(&world);
        assert!(why.contains("a cache whose head is damaged"), "{why}");
        // Something else lies where the records were.
        for lba in 0..40 {
            flash(&mut world).put(lba, vec![0; 512]);
        }
        flash(&mut world).put(8, vec![7; 512]);
        let why = refusal(&world);
        assert!(why.contains("something else than a cache"), "{why}");
    }
}

#[test]
fn a_cache_of_an_older_format_is_refused_by_name() {
    let mut world = three_dirty_blocks();
    for lba in heads(flash(&mut world)) {
        let mut older = flash(&mut world).sector(lba).to_vec();
        older[7] = b'2';
        let sum = crc32c::crc32c(&older[12..196]);
        older[8..12].copy_from_slice(&sum.to_le_bytes());
        flash(&mut world).put(lba, older);
    }
    let why = refusal(&world);
    assert!(why.contains("has format 2; this program knows format 3; allowed: to detach it"), "{why}");
}

/// Checks that a crash of the first start leaves a drive on which the next start makes a cache.
#[test]
fn a_first_start_that_is_interrupted_begins_anew() {
    let (config, _, backing) = world::shape(4);
    let config = CacheConfig { block_bytes: 512, set_blocks: 4, ..config };
    let pair = Pair::new(BlockReference::new(700, 4), backing, SimTime::ZERO).expect("alike");
    let layer = CacheManager::new(&config, pair.interface(0), pair.interface(1), 512).expect("room");
    let mut making = Stack::new(layer, pair, SimTime::ZERO);
    let mut tried = 0;
    while let Some(next) = making.next_event().filter(|_| !making.layer.is_ready()) {
        Drive::advance(&mut making, next);
        for is_cut in [false, true] {
            let Pair { first: mut flash, second: backing, .. } = making.drive.clone();
            if is_cut {
                flash.cut()
            } else {
                flash.abandon()
            }
            let host = world::start(&config, Flash::Block(flash), backing, next);
            assert_eq!((host.layer.dirty_blocks(), host.layer.is_read_only()), (0, false));
            tried += u32::from(host.layer.start_notice().is_some_and(|why| why.contains("new cache")));
        }
    }
    assert!(tried > 10, "{tried} starts made a cache");
}

/// Checks that blocks which the records may have called dirty are not read: the backing store has older data.
#[test]
fn records_that_cannot_be_read_are_told_and_nothing_stale_is_read() {
    let mut world = three_dirty_blocks();
    flash(&mut world).bad = Some(8);
    world.crash_with(Crash::Host, Faults::default());
    assert!(world.host.layer.is_read_only());
    assert!(world.check_what_can_be_read() > 0, "not everything can be read");
    let outcome = world.detach().expect_err("what was dirty is not known");
    assert!(outcome.contains("records of the cache cannot be read"), "{outcome}");
    flash(&mut world).bad = None;
    world.crash(Crash::Host);
    assert_eq!(world.host.layer.dirty_blocks(), 3, "nothing was written meanwhile");
}

/// Checks that a sector with a wrong checksum counts as unreadable.
#[test]
fn damaged_records_are_told_and_nothing_stale_is_read() {
    let mut world = three_dirty_blocks();
    flash(&mut world).flip(8, 40);
    world.crash_with(Crash::Host, Faults::default());
    assert!(world.host.layer.is_read_only());
    assert!(world.check_what_can_be_read() > 0, "not everything can be read");
    flash(&mut world).flip(8, 40);
    world.crash(Crash::Host);
}

/// Checks overwritten records: other data, only a damaged magic, or the zeros that a discard leaves.
#[test]
fn records_that_are_none_are_told_and_nothing_stale_is_read() {
    let mut known = three_dirty_blocks();
    let mut records = flash(&mut known).sector(8).to_vec();
    assert!(records.starts_with(b"PLCR"));
    records[..4].fill(0);
    for image in [records, vec![0xA5; 512], [vec![0; 511], vec![1]].concat(), vec![0; 512]] {
        let mut world = three_dirty_blocks();
        flash(&mut world).put(8, image);
        world.crash_with(Crash::Host, Faults::default());
        assert!(world.host.layer.is_read_only());
        assert!(world.check_what_can_be_read() > 0, "not everything can be read");
        let outcome = world.detach().expect_err("what was dirty is not known");
        assert!(outcome.contains("records of the cache cannot be read"), "{outcome}");
    }
}

/// Checks that a crash never leaves a part of a cache that a new one replaces.
#[test]
fn a_new_cache_in_place_of_another_is_there_as_a_whole_or_not_at_all() {
    let (config, ..) = world::shape(4);
    let config = CacheConfig {
        mode: CacheMode::WriteBack,
        block_bytes: 512,
        set_blocks: 4,
        sequential_bytes: 0,
        dirty_percent: 90,
        ..config
    };
    let flash = Flash::Block(BlockReference::new(700, 4));
    let mut world = World::on(config.clone(), flash, BlockReference::new(900, 5), 4);
    // Each block has its own sector of records.
    for block in [1, 301, 601] {
        world.ask(Opcode::Write, block, 1, false);
        world.drain();
    }
    world.ask(Opcode::Flush, 0, 0, false);
    world.drain();
    let pair = world.host.drive.clone();
    let format = CacheConfig { format: true, nonce: 99, ..config.clone() };
    let layer = CacheManager::new(&format, pair.interface(0), pair.interface(1), 512).expect("room");
    let mut making = Stack::new(layer, pair, world.now);
    let (mut older, mut newer) = (0, 0);
    while let Some(next) = making.next_event().filter(|_| !making.layer.is_ready()) {
        Drive::advance(&mut making, next);
        for crash in [Crash::Host, Crash::All] {
            let Pair { first: mut flash, second: mut backing, .. } = making.drive.clone();
            match crash {
                Crash::Host => (flash.abandon(), backing.abandon()),
                _ => (flash.cut(), backing.cut()),
            };
            let host = world::start(&config, flash, backing, next);
            assert!(!host.layer.is_read_only(), "no record counts as lost");
            match host.layer.dirty_blocks() {
                3 => older += 1,
                0 => newer += 1,
                other => panic!("{other} of three dirty blocks"),
            }
        }
    }
    assert!(older > 3 && newer > 10, "{older} times the old one, {newer} times a new one");
}
