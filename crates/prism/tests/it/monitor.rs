//! The flash monitor against a plain model: several applications with random commands, while blocks fail, LUNs are swapped, applications come and go,
//! and the power is cut at every event.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Opcode, Rng,
    SimTime, Status, Vector,
};
use pellucid_prism::{AppId, Monitor, MonitorConfig, MonitorError, Request};
use std::collections::BTreeMap;

/// Sectors of a page, and bytes of a sector.
const PAGE: usize = 4;
const SECTOR: usize = 512;

/// A block, as its application knows it.
#[derive(Clone, Debug, Default)]
struct Block {
    /// Mark of each acknowledged page; `None`: unreadable.
    pages: Vec<Option<u8>>,
    /// Marks of the write in flight.
    writing: Vec<u8>,
    resetting: bool,
    reading: u32,
    /// True if a failed write has closed it.
    closed: bool,
    offline: bool,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Write(usize),
    Read(usize, usize),
    Reset(usize),
}

#[derive(Clone, Debug)]
struct App {
    id: AppId,
    own: ChunkGeometry,
    blocks: Vec<Block>,
}

#[derive(Clone)]
struct World {
    monitor: Monitor<Reference>,
    config: MonitorConfig,
    apps: BTreeMap<String, App>,
    under_way: BTreeMap<u64, (String, Asked)>,
    tags: u64,
    rng: Rng,
    /// Application whose blocks are erased more often than others.
    hot: Option<String>,
}

fn config(wear_gap: u32) -> MonitorConfig {
    MonitorConfig { wear_gap, ..MonitorConfig::default() }
}

impl World {
    #[allow(clippy::print_stdout, reason = "a test that fails shows its seed")]
    fn new(drive: Reference, config: MonitorConfig, seed: u64) -> World {
        println!("seed {seed}");
        let monitor = Monitor::start(drive, config.clone(), SimTime::ZERO).expect("blank media");
        let rng = Rng::stream(seed, "monitor");
        World { monitor, config, apps: BTreeMap::new(), under_way: BTreeMap::new(), tags: 0, rng, hot: None }
    }

    /// Three applications on six LUNs, or two with something free.
    fn usual(seed: u64, faults: Faults, wear_gap: u32) -> World {
        let mut drive = Reference::new(geometry(2, 3, 12, 32, 4), seed);
        drive.retire(3);
        drive.retire(12 + 11);
        let mut world = World::new(drive, config(wear_gap), seed);
        world.monitor.drive.faults = faults;
        world.allocate("hot", 2);
        world.allocate("cold", 2);
        if seed.is_multiple_of(2) {
            world.allocate("third", 1);
        }
        world.hot = Some("hot".into());
        world
    }

    fn request(&self, luns: u64) -> Request {
        Request { capacity_bytes: luns * self.monitor.lun_bytes(), over_provisioning: 0.0 }
    }

    fn allocate(&mut self, name: &str, luns: u64) {
        let request = self.request(luns);
        self.monitor.allocate(name, request).expect("room");
        self.learn(name);
    }

    fn learn(&mut self, name: &str) {
        let id = self.monitor.open(name).expect("it was allocated");
        let Some(Interface::OpenChannel(own)) = self.monitor.interface(id.0) else { panic!("open") };
        let blocks = vec![Block::default(); (own.parallel_units() * own.chunks) as usize];
        self.apps.insert(name.into(), App { id, own, blocks });
    }

    fn lba(app: &App, block: usize, page: usize) -> Lba {
        Lba(app.own.lba(app.own.chunk_at(block as u32)).0 + (page * PAGE) as u64)
    }

    fn images(marks: &[u8], from: usize) -> (Vec<u8>, Vec<u8>) {
        let pages = || marks.iter().enumerate().map(|(at, mark)| mark ^ (from + at) as u8);
        let data = pages().flat_map(|value| [value; PAGE * SECTOR]).collect();
        (data, pages().flat_map(|value| [value; PAGE * Vector::METADATA_BYTES]).collect())
    }

    /// Submits a random command of a random application, the hot one more often.
    fn submit(&mut self) {
        let hot = self.hot.clone().filter(|_| self.rng.chance(0.8));
        let nth = self.rng.below(self.apps.len() as u64) as usize;
        let name = hot.unwrap_or_else(|| self.apps.keys().nth(nth).expect("one").clone());
        let app = self.apps.get_mut(&name).expect("one");
        let at = self.rng.below(app.blocks.len() as u64) as usize;
        let (all, id) = ((app.own.chunk_sectors as usize) / PAGE, app.id);
        let Block { pages, writing, resetting, reading, closed, offline } = app.blocks[at].clone();
        if resetting || offline {
            return;
        }
        self.tags += 1;
        let full = closed || pages.len() == all;
        let read = !pages.is_empty() && self.rng.chance(0.3);
        let command = if read {
            let page = self.rng.below(pages.len() as u64) as usize;
            if pages[page].is_none() {
                return;
            }
            app.blocks[at].reading += 1;
            self.under_way.insert(self.tags, (name.clone(), Asked::Read(at, page)));
            let read = Command::new(
                self.tags,
                Opcode::Read,
                World::lba(app, at, page),
                PAGE as u32,
                vec![0; PAGE * SECTOR],
            );
            let metadata = vec![0; PAGE * Vector::METADATA_BYTES];
            Command { vector: Some(Box::new(Vector { metadata, ..Vector::default() })), ..read }
        } else if !writing.is_empty() {
            return;
        } else if full || (!pages.is_empty() && self.rng.chance(0.1)) {
            // Cold data are rarely rewritten.
            if reading > 0 || (name == "cold" && self.rng.chance(0.9)) {
                return;
            }
            app.blocks[at].resetting = true;
            self.under_way.insert(self.tags, (name.clone(), Asked::Reset(at)));
            Command::new(self.tags, Opcode::Chunk(ChunkOp::Reset), World::lba(app, at, 0), 0, Vec::new())
        } else {
            let count = (1 + self.rng.below(4) as usize).min(all - pages.len());
            let marks: Vec<u8> = (0..count).map(|_| self.rng.below(256) as u8).collect();
            let (data, metadata) = World::images(&marks, pages.len());
            app.blocks[at].writing = marks;
            self.under_way.insert(self.tags, (name.clone(), Asked::Write(at)));
            let lba = World::lba(app, at, pages.len());
            let write = Command::new(self.tags, Opcode::Write, lba, (count * PAGE) as u32, data);
            Command { vector: Some(Box::new(Vector { metadata, ..Vector::default() })), ..write }
        };
        self.monitor.submit(self.monitor.now(), Command { namespace: id.0, ..command });
        self.take();
    }

    fn step(&mut self) {
        if let Some(next) = self.monitor.next_event() {
            self.monitor.advance(next);
        }
        self.take();
        self.monitor.check();
    }

    fn take(&mut self) {
        while let Some(ended) = self.monitor.pop() {
            let (name, asked) = self.under_way.remove(&ended.tag).expect("under way");
            let app = self.apps.get_mut(&name).expect("it has commands");
            match asked {
                Asked::Write(at) => {
                    let block = &mut app.blocks[at];
                    let marks = std::mem::take(&mut block.writing);
                    match ended.status {
                        Status::Success => block.pages.extend(marks.into_iter().map(Some)),
                        Status::ChunkWriteFailed => block.pages.extend(marks.iter().map(|_| None)),
                        Status::ChunkClosedEarly => {
                            block.pages.extend(marks.iter().map(|_| None));
                            block.closed = true;
                        }
                        other => panic!("{name}: a write ended with {other:?}"),
                    }
                }
                Asked::Read(at, page) => {
                    app.blocks[at].reading -= 1;
                    let mark = app.blocks[at].pages[page].expect("it can be read");
                    if ended.status == Status::Success {
                        let (data, metadata) = World::images(&[mark], page);
                        assert_eq!(ended.data, data, "{name}: block {at} page {page}");
                        assert_eq!(ended.vector.expect("it was wanted").metadata, metadata);
                    } else {
                        assert!(self.monitor.drive.faults.read > 0.0, "{:?}", ended.status);
                    }
                }
                Asked::Reset(at) => {
                    let offline = ended.status == Status::ChunkOffline;
                    assert!(offline || ended.status == Status::Success, "{:?}", ended.status);
                    app.blocks[at] = Block { offline, ..Block::default() };
                }
            }
        }
    }

    /// Cuts the power; the same monitor restarts, or another one starts.
    fn crash(&mut self) {
        let now = self.monitor.now();
        self.monitor.drive.power_cut();
        if self.rng.chance(0.5) {
            self.monitor.restart(now).expect("its state");
            while self.monitor.pop().is_some() {}
        } else {
            let drive = self.monitor.drive.clone();
            self.monitor = Monitor::start(drive, self.config.clone(), now).expect("its state");
        }
        self.under_way.clear();
        self.monitor.check();
        let names: Vec<String> = self.monitor.applications().map(|app| app.name).collect();
        assert_eq!(
            {
                let mut names = names.clone();
                names.sort();
                names
            },
            self.apps.keys().cloned().collect::<Vec<_>>()
        );
        for name in names {
            assert_eq!(self.monitor.open(&name), Ok(self.apps[&name].id), "{name}");
        }
    }

    fn ask(&mut self, command: Command) -> Completion {
        self.monitor.submit(self.monitor.now(), command);
        while self.monitor.completed() == 0 {
            let next = self.monitor.next_event().expect("it goes on");
            self.monitor.advance(next);
        }
        self.monitor.pop().expect("it has ended")
    }

    /// Reads and compares everything while idle. Afterwards the state that a crash left in doubt is known.
    fn check(&mut self) {
        assert!(self.under_way.is_empty());
        for (name, mut app) in std::mem::take(&mut self.apps) {
            let count = app.blocks.len() as u32;
            let report =
                Command { namespace: app.id.0, ..Command::new(1, Opcode::Report, Lba(0), count, Vec::new()) };
            let report = self.ask(report);
            assert_eq!(
                (report.status, report.data.len()),
                (Status::Success, count as usize * ChunkInfo::BYTES)
            );
            for at in 0..app.blocks.len() {
                let packed = report.data.as_chunks().0[at];
                let info = ChunkInfo::decode(&packed).expect("a state");
                assert_eq!(info.start, World::lba(&app, at, 0), "{name}: block {at}");
                let block = app.blocks[at].clone();
                app.blocks[at] = self.check_block(&app, at, &block, &info, &name);
            }
            self.apps.insert(name, app);
        }
        self.monitor.check();
    }

    fn check_block(&mut self, app: &App, at: usize, block: &Block, info: &ChunkInfo, name: &str) -> Block {
        let what = format!("{name}: block {at}: {info:?} of {block:?}");
        let written = info.write_pointer as usize / PAGE;
        if info.state == ChunkState::Offline {
            assert!(block.offline || block.resetting, "{what}");
            return Block { offline: true, ..Block::default() };
        }
        let (known, begun) = (block.pages.len(), block.pages.len() + block.writing.len());
        if block.resetting {
            assert!(written == 0 || written == known, "{what}");
        } else if block.offline {
            assert_eq!(written, 0, "{what}");
        } else {
            assert!(written == known || written == begun, "{what}");
        }
        if block.resetting && written > 0 {
            // The erase was interrupted: the content is unreliable.
            return Block {
                pages: vec![None; written],
                closed: info.state == ChunkState::Closed,
                ..Block::default()
            };
        }
        let marks: Vec<Option<u8>> =
            block.pages.iter().copied().chain(block.writing.iter().map(|&mark| Some(mark))).collect();
        let mut found = Vec::new();
        for (page, mark) in marks[..written].iter().enumerate() {
            let Some(mark) = *mark else {
                found.push(None);
                continue;
            };
            let mut read =
                Command::new(2, Opcode::Read, World::lba(app, at, page), PAGE as u32, vec![0; PAGE * SECTOR]);
            read.vector = Some(Box::new(Vector {
                metadata: vec![0; PAGE * Vector::METADATA_BYTES],
                ..Vector::default()
            }));
            let ended = self.ask(Command { namespace: app.id.0, ..read });
            let (data, metadata) = World::images(&[mark], page);
            if ended.status == Status::Success {
                assert_eq!(ended.data, data, "{what} page {page}");
                assert_eq!(ended.vector.expect("it was wanted").metadata, metadata, "{what} page {page}");
            } else {
                assert!(page >= known, "{what} page {page}: {:?}", ended.status);
            }
            found.push((ended.status == Status::Success).then_some(mark));
        }
        Block { pages: found, closed: info.state == ChunkState::Closed && written < 8, ..Block::default() }
    }

    fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.step();
        }
    }

    fn work(&mut self, events: u32, each: impl Fn(&World)) {
        for _ in 0..events {
            while self.under_way.len() < 6 && self.rng.chance(0.8) {
                self.submit();
            }
            self.step();
            each(self);
        }
    }

    /// Cuts the power now, works a little, and cuts it twice more.
    fn cut(&self) {
        let mut cut = self.clone();
        cut.monitor.drive.faults.read = 0.0;
        cut.crash();
        cut.check();
        cut.work(15, |_| {});
        cut.crash();
        cut.crash();
        cut.check();
    }
}

#[test]
fn random_commands_match_a_plain_model() {
    let mut swaps = 0;
    for seed in 0..8 {
        let mut world = World::usual(seed, Faults::default(), 2);
        for _ in 0..6 {
            world.work(300, |_| {});
            world.settle();
            world.check();
        }
        swaps += world.monitor.swaps().0;
        let statistics = world.monitor.statistics(world.apps["hot"].id).expect("open");
        assert!(statistics.erases > 20 && statistics.reads > 20 && statistics.writes > 20, "{statistics:?}");
    }
    assert!(swaps > 8, "{swaps} swaps");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn what_was_acknowledged_survives_a_cut_at_every_event() {
    let mut swapping = 0;
    for seed in 10..16 {
        // From the first command on, with swaps of LUNs.
        let mut world = World::usual(seed, Faults::default(), 1);
        world.work(60, World::cut);
        while !world.monitor.swaps().1 {
            world.work(1, |_| {});
        }
        for _ in 0..120 {
            world.work(1, World::cut);
            swapping += u32::from(world.monitor.swaps().1);
        }
    }
    assert!(swapping > 200, "{swapping} cuts while LUNs changed places");
}

#[test]
fn blocks_that_fail_are_replaced_and_lose_nothing_else() {
    let (mut replaced, mut lost) = (0, 0);
    for seed in 20..28 {
        let faults = Faults { write: 0.01, reset: 0.01, read: 0.01 };
        let mut world = World::usual(seed, faults, 2);
        for round in 0..5 {
            world.work(250, |_| {});
            if round % 2 == 1 {
                world.cut();
            }
            world.settle();
            let faults = std::mem::take(&mut world.monitor.drive.faults);
            world.check();
            world.monitor.drive.faults = faults;
        }
        for app in world.apps.values() {
            let statistics = world.monitor.statistics(app.id).expect("open");
            replaced += statistics.replaced_blocks;
            lost += statistics.lost_blocks;
        }
    }
    assert!(replaced > 20 && lost > 0, "{replaced} replaced, {lost} lost");
}

#[test]
fn cuts_at_every_event_while_blocks_fail() {
    for seed in 30..34 {
        let mut world = World::usual(seed, Faults { write: 0.01, reset: 0.02, read: 0.0 }, 1);
        world.work(200, |_| {});
        world.work(120, World::cut);
    }
}

/// A write to a spare counts once the application has been told that its block is erased.
#[test]
fn a_block_is_replaced_for_good_before_its_erase_ends() {
    for seed in 0..40 {
        let mut world = World::usual(seed, Faults::default(), 0);
        world.work(150, |_| {});
        world.settle();
        let app = &world.apps["cold"];
        let at = app.blocks.iter().position(|block| !block.pages.is_empty()).expect("something is written");
        let lba = World::lba(app, at, 0);
        let (id, name) = (app.id.0, "cold".to_string());
        world.monitor.drive.faults.reset = 1.0;
        let reset =
            Command { namespace: id, ..Command::new(1, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()) };
        assert_eq!(world.ask(reset).status, Status::Success);
        world.monitor.drive.faults.reset = 0.0;
        assert_eq!(world.monitor.statistics(AppId(id)).expect("open").replaced_blocks, 1);
        let (data, metadata) = World::images(&[seed as u8], 0);
        let mut write = Command::new(2, Opcode::Write, lba, PAGE as u32, data);
        write.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
        assert_eq!(world.ask(Command { namespace: id, ..write }).status, Status::Success);
        world.apps.get_mut(&name).expect("there").blocks[at] =
            Block { pages: vec![Some(seed as u8)], ..Block::default() };
        world.cut();
    }
}

/// Every write and erase of a LUN fails from some moment on; its blocks can still be read.
#[test]
fn a_dying_lun_takes_nobody_else_with_it() {
    for seed in 40..44 {
        let mut world = World::usual(seed, Faults::default(), 2);
        world.work(300, |_| {});
        world.settle();
        let dying = world.monitor.applications().find(|app| app.name == "hot").expect("there").units[0];
        let first = dying * 12;
        let mut sick = world.clone();
        sick.monitor.drive.kill(first..first + 12);
        sick.work(400, |_| {});
        sick.settle();
        sick.check();
        sick.crash();
        sick.check();
        for name in ["cold", "third"] {
            let Some(app) = sick.apps.get(name) else { continue };
            let untouched = sick.monitor.applications().find(|info| info.name == name).expect("there").units;
            if !untouched.contains(&dying) {
                assert!(app.blocks.iter().all(|block| !block.offline && !block.closed), "{name}");
            }
        }
    }
}

/// Runs `change` with a power cut after every number of events, and examines the result.
fn cut_everywhere(
    world: &World,
    change: impl Fn(&mut Monitor<Reference>, &mut u32) -> Result<(), MonitorError>,
    after: impl Fn(&World, &Monitor<Reference>, bool),
) {
    for events in 0.. {
        let mut cut = world.clone();
        let mut left = events;
        let done = change(&mut cut.monitor, &mut left);
        let now = cut.monitor.now();
        let mut drive = cut.monitor.drive.clone();
        drive.power_cut();
        let again = Monitor::start(drive, cut.config.clone(), now).expect("its state");
        again.check();
        after(world, &again, done.is_ok());
        // Other applications keep all their data.
        cut.monitor = again;
        let names: Vec<String> = cut.apps.keys().cloned().collect();
        for name in names {
            if cut.monitor.open(&name).is_err() {
                cut.apps.remove(&name);
            }
        }
        assert!(cut.apps.contains_key("cold"));
        cut.check();
        if done.is_ok() {
            return assert!(events > 1, "{events} events");
        }
        assert_eq!(done, Err(MonitorError::NoAnswer));
    }
}

fn limited(left: &mut u32) -> impl FnMut(&mut Reference, Option<SimTime>) -> Option<SimTime> {
    move |_, next| {
        *left = left.checked_sub(1)?;
        next
    }
}

#[test]
fn an_allocation_is_whole_or_not_there_at_every_cut() {
    for seed in [51, 53] {
        let mut world = World::usual(seed, Faults::default(), 0);
        world.work(200, |_| {});
        world.settle();
        // Its LUNs hold data of a released application.
        world.allocate("gone", 1);
        world.hot = Some("gone".into());
        world.work(100, |_| {});
        world.settle();
        world.monitor.release("gone").expect("at rest");
        world.apps.remove("gone");
        let request = world.request(2);
        cut_everywhere(
            &world,
            |monitor, left| monitor.allocate_by("new", request, limited(left)).map(|_| ()),
            |world, again, done| {
                let mut again = again.clone();
                let there = again.applications().any(|app| app.name == "new");
                assert!(there || !done, "it was told that it is there");
                assert_eq!(again.free_luns(), world.monitor.free_luns() - if there { 2 } else { 0 });
                if there {
                    // Data of the previous application are unreadable.
                    let id = again.open("new").expect("there");
                    let mut other = World { monitor: again, apps: BTreeMap::new(), ..world.clone() };
                    other.learn("new");
                    assert_eq!(other.apps["new"].id, id);
                    other.check();
                }
            },
        );
    }
}

#[test]
fn a_release_is_whole_or_not_there_at_every_cut() {
    let mut world = World::usual(60, Faults::default(), 0);
    world.work(200, |_| {});
    world.settle();
    cut_everywhere(
        &world,
        |monitor, left| monitor.release_by("third", limited(left)),
        |world, again, done| {
            let there = again.applications().any(|app| app.name == "third");
            assert!(!there || !done, "it was told that it has gone");
            assert_eq!(again.free_luns(), world.monitor.free_luns() + if there { 0 } else { 1 });
        },
    );
}

#[test]
fn the_first_start_can_be_cut_everywhere() {
    let blank = Reference::new(geometry(2, 3, 12, 32, 4), 1);
    for events in 0u32.. {
        let (mut left, mut kept) = (events, None);
        let wait = |drive: &mut Reference, next| {
            kept = Some(drive.clone());
            left = left.checked_sub(1)?;
            next
        };
        if Monitor::start_by(blank.clone(), config(2), SimTime::ZERO, wait).is_ok() {
            return assert!(events > 3);
        }
        let mut drive = kept.expect("it was cut");
        drive.power_cut();
        Monitor::start(drive, config(2), SimTime(1 << 30)).expect("as good as blank").check();
    }
}

/// Difference of the most and the least worn LUN, after a fixed number of erases of the hot application.
fn spread(wear_gap: u32, seed: u64) -> (f64, u64) {
    let drive = Reference::new(geometry(2, 2, 16, 32, 4), seed);
    let mut world = World::new(drive, config(wear_gap), seed);
    world.allocate("cold", 2);
    world.allocate("hot", 2);
    // Cold data are everywhere.
    world.hot = Some("cold".into());
    world.work(600, |_| {});
    world.settle();
    world.hot = Some("hot".into());
    while world.monitor.statistics(world.apps["hot"].id).expect("open").erases < 3000 {
        world.work(50, |_| {});
    }
    world.settle();
    world.check();
    let wear: Vec<f64> = world.monitor.wear().map(|lun| lun.average_erases).collect();
    let most = wear.iter().copied().fold(0.0, f64::max);
    (most - wear.iter().copied().fold(f64::MAX, f64::min), world.monitor.swaps().0)
}

#[test]
fn wear_levelling_narrows_the_spread_and_changes_no_data() {
    for seed in [70, 71] {
        let (uneven, none) = spread(0, seed);
        let (even, swaps) = spread(8, seed);
        assert_eq!(none, 0);
        assert!(swaps >= 4, "{swaps} swaps");
        // A swap starts beyond 8 and ends after the hot LUNs have continued in the meantime.
        assert!(uneven > 100.0 && even < 16.0, "{uneven:.1} without, {even:.1} with {swaps} swaps");
    }
}
