//! Tests the cluster buffer against a plain model, on a drive whose commands overtake each other, fail, and
//! are lost with the power.

use crate::block_reference::BlockReference;
use crate::reference::Faults;
use pellucid_flash::{
    ChunkOp, Command, Completion, Drive, Interface, Lba, Nanos, Opcode, Rng, SimTime, Status,
};
use pellucid_host::{
    ClusterBuffer, ClusterBufferConfig, ClusterBufferError, FlushPolicy, JournalConfig, JournalHead,
    JournalUse, Layer, Machine, Stack, TableMemory,
};
use std::collections::BTreeMap;
use std::ops::Range;

const SECTOR: usize = 512;

type Buffered = Stack<ClusterBuffer, BlockReference>;

/// Returns the configuration of a buffer of hardly more than `clusters` clusters.
fn config(cluster_sectors: u32, clusters: u64, sectors: u64) -> ClusterBufferConfig {
    let cluster = u64::from(cluster_sectors);
    let tables = sectors.div_ceil(cluster) * 4 + (cluster * 4 + 128) * 16;
    ClusterBufferConfig {
        cluster_sectors,
        size_bytes: tables + (clusters + 1) * cluster * 540 + 1024,
        idle_ns: None,
        ..ClusterBufferConfig::default()
    }
}

fn random_config(seed: u64, sectors: u64) -> ClusterBufferConfig {
    let mut rng = Rng::stream(seed, "config");
    let mut pick = |values: &[u64]| values[rng.below(values.len() as u64) as usize];
    let base = config(pick(&[1, 3, 8, 16]) as u32, pick(&[2, 3, 8]), sectors);
    let evictions = pick(&[1, 1, 2, 4]) as u32;
    ClusterBufferConfig {
        size_bytes: base.size_bytes + u64::from(evictions) * u64::from(base.cluster_sectors) * 512,
        flush: if pick(&[0, 1]) == 0 { FlushPolicy::Strict } else { FlushPolicy::Paper },
        idle_ns: [None, Some(Nanos(30)), Some(Nanos(400))][pick(&[0, 1, 2]) as usize],
        age_ns: [None, Some(Nanos(500))][pick(&[0, 1]) as usize],
        padding: pick(&[0, 1, 1]) == 1,
        early_retirement: pick(&[0, 1]) == 1,
        evictions,
        tables: if seed % 5 == 1 { TableMemory::Beside } else { TableMemory::Within },
        bypass: random_bypass(seed, sectors),
        ..base
    }
}

/// Ranges that the writes of every third seed pass by: they touch, overlap, and lie anywhere.
fn random_bypass(seed: u64, sectors: u64) -> Vec<Range<u64>> {
    let mut rng = Rng::stream(seed, "bypass");
    let ranges = if seed.is_multiple_of(3) { 1 + rng.below(3) } else { 0 };
    // A journal may take some sectors at the end.
    let sectors = sectors - 20;
    let mut range = || {
        let first = rng.below(sectors - 1);
        first..first + 1 + rng.below((sectors - first - 1).min(20))
    };
    (0..ranges).map(|_| range()).collect()
}

fn start(config: &ClusterBufferConfig, drive: BlockReference, now: SimTime) -> Buffered {
    let layer =
        ClusterBuffer::new(config, drive.interface(0), drive.image_bytes()).unwrap_or_else(|e| panic!("{e}"));
    Stack::start(layer, drive, now).expect("it has nothing to find")
}

/// Possible versions of a sector, each with the number of the change that made it; 0 is blank.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// Newest version such that no older one can come back.
    settled: u64,
    /// Newest submitted version.
    newest: u64,
    /// Newest version such that no older one can come back after a power cut.
    durable: u64,
    /// Number of changes under way; `oldest` is the oldest of them.
    open: u32,
    oldest: u64,
    /// Version of the newest trim.
    trimmed: u64,
}

#[derive(Clone, Debug)]
struct Asked {
    opcode: Opcode,
    lba: u64,
    sectors: u32,
    fua: bool,
    /// Read: the settled version of each sector. Flush: the versions that it makes durable.
    promised: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct World {
    host: Buffered,
    sectors: Vec<Sector>,
    unflushed: BTreeMap<u64, u64>,
    asked: BTreeMap<u64, Asked>,
    version: u64,
    rng: Rng,
    /// Chance of pauses, and pauses that have ended.
    pausing: Rng,
    pauses: u32,
    now: SimTime,
    lossy: bool,
    flush_faults: u32,
}

fn image(lba: u64, version: u64) -> Vec<u8> {
    let word = (lba << 32 | version).to_le_bytes();
    if version == 0 { vec![0; SECTOR] } else { word.repeat(SECTOR / 8) }
}

/// Returns the version of an image, and checks that the image is not torn.
fn version(lba: u64, image: &[u8]) -> u64 {
    let word = u64::from_le_bytes(image[..8].try_into().expect("eight bytes"));
    assert!(image.chunks(8).all(|other| other == word.to_le_bytes()), "sector {lba} is torn");
    assert!(word == 0 || word >> 32 == lba, "sector {lba} holds data of {}", word >> 32);
    word & 0xffff_ffff
}

impl World {
    fn new(config: &ClusterBufferConfig, drive: BlockReference, seed: u64) -> World {
        let host = start(config, drive, SimTime::ZERO);
        let sectors = host.layer.capacity_sectors();
        World {
            host,
            sectors: vec![Sector::default(); sectors as usize],
            unflushed: BTreeMap::new(),
            asked: BTreeMap::new(),
            version: 0,
            rng: Rng::stream(seed, "world"),
            pausing: Rng::stream(seed, "pauses"),
            pauses: 0,
            now: SimTime::ZERO,
            lossy: false,
            flush_faults: 0,
        }
    }

    fn submit(&mut self) {
        let (opcode, fua) = match self.rng.below(100) {
            0..30 => (Opcode::Read, false),
            30..80 => (Opcode::Write, false),
            80..87 => (Opcode::Write, true),
            87..92 => (Opcode::Trim, false),
            92..94 => (Opcode::WriteZeroes, false),
            _ => (Opcode::Flush, false),
        };
        let all = self.sectors.len() as u64;
        let span = if self.rng.chance(0.6) { all / 8 } else { all };
        let longest = if self.rng.chance(0.1) { 40 } else { 7 };
        let length = (1 + self.rng.below(longest)).min(span);
        let lba = self.rng.below(span - length + 1);
        self.ask(opcode, lba, if opcode == Opcode::Flush { 0 } else { length as u32 }, fua);
    }

    fn ask(&mut self, opcode: Opcode, lba: u64, sectors: u32, fua: bool) {
        self.version += 1;
        let range = lba..lba + u64::from(sectors);
        let mut asked = Asked { opcode, lba, sectors, fua, promised: Vec::new() };
        let mut data = Vec::new();
        match opcode {
            Opcode::Read => {
                asked.promised = range.map(|at| (at, self.sectors[at as usize].settled)).collect();
                data = vec![0xAA; sectors as usize * SECTOR];
            }
            Opcode::Flush => {
                // In paper mode, a flush covers only data that have left the buffer.
                let paper = self.host.layer.config().flush == FlushPolicy::Paper;
                let held: Vec<u64> = self.host.layer.held().filter(|_| paper).map(|lba| lba.0).collect();
                let promised = self.unflushed.iter().filter(|(at, _)| !held.contains(at));
                asked.promised = promised.map(|(&at, &version)| (at, version)).collect();
            }
            _ => {
                for at in range {
                    let sector = &mut self.sectors[at as usize];
                    sector.newest = self.version;
                    if opcode == Opcode::Write {
                        data.extend(image(at, self.version));
                    } else {
                        sector.trimmed = self.version;
                    }
                    sector.oldest = if sector.open == 0 { self.version } else { sector.oldest };
                    sector.open += 1;
                }
            }
        }
        let tag = self.version;
        self.asked.insert(tag, asked);
        Drive::submit(
            &mut self.host,
            self.now,
            Command { fua, ..Command::new(tag, opcode, Lba(lba), sectors, data) },
        );
        self.collect();
    }

    fn step(&mut self) -> bool {
        let Some(next) = Drive::next_event(&self.host) else { return false };
        self.now = self.now.max(next);
        Drive::advance(&mut self.host, self.now);
        self.collect();
        true
    }

    fn collect(&mut self) {
        while let Some(ended) = Drive::pop(&mut self.host) {
            let asked = self.asked.remove(&ended.tag).expect("it was asked, and not answered before");
            self.verify(&asked, &ended);
        }
        self.host.layer.check();
    }

    fn verify(&mut self, asked: &Asked, ended: &Completion) {
        assert_eq!(ended.stages.total(), ended.completed - ended.submitted, "stages of {asked:?}");
        let ok = match ended.status {
            Status::Success => true,
            Status::WriteFault | Status::UnrecoveredRead if self.lossy => false,
            status => panic!("{asked:?} ended with {status:?}"),
        };
        match asked.opcode {
            Opcode::Read if ok => {
                for (&(lba, settled), image) in asked.promised.iter().zip(ended.data.chunks(SECTOR)) {
                    self.check(lba, settled, image);
                }
            }
            Opcode::Flush if ok => {
                for &(lba, version) in &asked.promised {
                    let sector = &mut self.sectors[lba as usize];
                    sector.durable = sector.durable.max(version);
                    self.unflushed.retain(|&at, &mut unflushed| at != lba || unflushed > version);
                }
            }
            Opcode::Flush => self.flush_faults += 1,
            Opcode::Read => {}
            _ => self.changed(asked, ok),
        }
    }

    fn changed(&mut self, asked: &Asked, ok: bool) {
        for at in asked.lba..asked.lba + u64::from(asked.sectors) {
            let sector = &mut self.sectors[at as usize];
            sector.open -= 1;
            if !ok {
                sector.oldest = sector.oldest.min(sector.settled);
            }
            if sector.open == 0 {
                sector.settled = sector.settled.max(sector.oldest);
                if ok && asked.fua && asked.opcode == Opcode::Write {
                    sector.durable = sector.durable.max(sector.oldest);
                } else {
                    self.unflushed.insert(at, sector.settled);
                }
            }
        }
    }

    fn check(&self, lba: u64, settled: u64, image: &[u8]) {
        let (found, sector) = (version(lba, image), &self.sectors[lba as usize]);
        let good = match found {
            0 => settled == 0 || sector.trimmed >= settled,
            found => (settled..=sector.newest).contains(&found),
        };
        assert!(
            good,
            "sector {lba} came back in version {found}; allowed: {settled} to {sector:?} at {:?}",
            self.now
        );
    }

    fn drain(&mut self) {
        while self.step() {}
        assert!(self.asked.is_empty(), "at rest, and unanswered: {:?}", self.asked);
    }

    fn read_all(&mut self) {
        for lba in (0..self.sectors.len() as u64).step_by(16) {
            self.ask(Opcode::Read, lba, (self.sectors.len() as u64 - lba).min(16) as u32, false);
            while !self.asked.is_empty() {
                assert!(self.step(), "a read is under way");
            }
        }
    }

    fn work(&mut self, steps: u32) {
        for _ in 0..steps {
            let depth = 1 + self.rng.below(12) as usize;
            while self.asked.len() < depth && self.rng.chance(0.8) {
                self.submit();
            }
            let paused = self.host.layer.is_paused();
            if self.pausing.chance(if paused { 0.1 } else { 0.01 }) {
                self.pause_or_resume();
            }
            self.step();
        }
    }

    /// Pauses the buffer, or resumes it, whether its pause has ended or not.
    fn pause_or_resume(&mut self) {
        let layer = &mut self.host.layer;
        if !layer.is_paused() {
            layer.pause(self.now);
            self.host.act_on_drive(self.now, |_| ());
            return self.collect();
        }
        match layer.paused() {
            Some(Ok(())) => {
                assert_eq!(layer.held_sectors(), 0, "a paused buffer holds nothing");
                self.pauses += 1;
            }
            Some(Err(why)) => assert!(self.lossy || why.contains("power was cut"), "{why}"),
            None => {}
        }
        layer.resume();
    }

    /// Cuts the power; the state after the cut is the reference from now on.
    fn cut(&mut self) {
        let held = u64::from(self.host.layer.held_sectors());
        assert!(held * SECTOR as u64 <= self.host.layer.window_bytes());
        self.host.drive.cut();
        self.host.restart(self.now).expect("it has nothing to find");
        while let Some(ended) = Drive::pop(&mut self.host) {
            assert_eq!(ended.status, Status::PowerLoss, "{:?}", ended.opcode);
            self.asked.remove(&ended.tag).expect("it was asked, and not answered before");
        }
        assert!(self.asked.is_empty(), "unanswered after a power cut: {:?}", self.asked);
        self.unflushed.clear();
        for sector in &mut self.sectors {
            (sector.settled, sector.open) = (sector.durable, 0);
        }
        for lba in 0..self.sectors.len() as u64 {
            let settled = self.sectors[lba as usize].settled;
            Drive::submit(
                &mut self.host,
                self.now,
                Command::new(0, Opcode::Read, Lba(lba), 1, vec![0; SECTOR]),
            );
            let ended = loop {
                if let Some(ended) = Drive::pop(&mut self.host) {
                    break ended;
                }
                self.now = Drive::next_event(&self.host).expect("a read is under way");
                Drive::advance(&mut self.host, self.now);
            };
            self.check(lba, settled, &ended.data);
            let found = version(lba, &ended.data);
            let sector = &mut self.sectors[lba as usize];
            (sector.settled, sector.durable, sector.newest, sector.trimmed) = (found, found, found, 0);
        }
    }
}

fn world(seed: u64) -> World {
    let sectors = 150 + seed % 7;
    let config = random_config(seed, sectors);
    if seed.is_multiple_of(2) && config.flush == FlushPolicy::Strict {
        let usage = if seed.is_multiple_of(8) { JournalUse::Cheaper } else { JournalUse::Always };
        return journalled(&config, usage, seed);
    }
    World::new(&config, BlockReference::new(sectors, seed), seed)
}

/// Makes a buffer with a journal of the minimum size, or hardly larger.
fn journalled(config: &ClusterBufferConfig, usage: JournalUse, seed: u64) -> World {
    let unit_bytes = [512, 1024, 3 * 512][seed as usize / 2 % 3];
    let journal = JournalConfig { ring_bytes: 0, unit_bytes, usage, make: Some(seed) };
    let mut config = ClusterBufferConfig { journal: Some(journal), ..config.clone() };
    // The additional memory is for a record.
    config.size_bytes += u64::from(config.cluster_sectors) * 512 + 4096;
    let block = |sectors| Some(Interface::Block { sectors, handles: 1 });
    let Err(ClusterBufferError::Journal { least, .. }) = ClusterBuffer::new(&config, block(1000), SECTOR)
    else {
        panic!("a ring of nothing");
    };
    let ring_bytes = least + seed % 5 * u64::from(unit_bytes);
    config.journal = Some(JournalConfig { ring_bytes, ..journal });
    let before = 150 + seed % 7 + ring_bytes.div_ceil(SECTOR as u64);
    let sectors =
        (before..).find(|&all| JournalHead::sectors(all, 512)[1] >= before).expect("room for both heads");
    World::new(&config, BlockReference::new(sectors, seed), seed)
}

#[test]
fn random_commands_match_a_plain_map() {
    let (mut evicted, mut pauses, mut bypassed) = (0, 0, 0);
    for seed in 0..120 {
        let mut world = world(seed);
        world.work(600);
        world.drain();
        world.read_all();
        evicted += world.host.layer.counters().evictions;
        bypassed += world.host.layer.counters().bypassed;
        pauses += world.pauses;
        world.host.stop().expect("a drive without faults");
        assert_eq!(world.host.layer.held_sectors(), 0, "seed {seed}");
        // All data are on the drive.
        world.host = start(&world.host.layer.config().clone(), world.host.drive.clone(), world.now);
        world.read_all();
    }
    assert!(evicted > 5_000 && pauses > 40, "{evicted} evictions, {pauses} pauses");
    assert!(bypassed > 5_000, "{bypassed} commands passed the buffer by");
}

#[test]
fn commands_that_fail_lose_nothing() {
    let (mut failed, mut told) = (0, 0);
    for seed in 200..280 {
        let mut world = world(seed);
        world.lossy = true;
        world.host.drive.faults = Faults { write: 0.05, reset: 0.0, read: 0.05 };
        world.work(600);
        world.drain();
        world.host.drive.faults = Faults::default();
        // A flush retries the refused clusters; in paper mode it reports them, and the next flush succeeds.
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        world.lossy = false;
        world.ask(Opcode::Flush, 0, 0, false);
        world.drain();
        world.read_all();
        failed += world.host.layer.counters().failed_evictions;
        told += world.flush_faults;
    }
    assert!(failed > 500 && told > 50, "{failed} evictions failed, {told} flushes told");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cut_at_every_event_loses_what_is_stated_at_most() {
    let (mut cuts, mut lost) = (0, 0);
    for seed in 400..424 {
        let mut world = world(seed);
        for _ in 0..150 {
            while world.asked.len() < 6 {
                world.submit();
            }
            world.step();
            let mut other = world.clone();
            other.cut();
            other.work(5);
            other.cut();
            lost += other.host.layer.counters().lost_sectors;
            cuts += 2;
        }
    }
    assert!(cuts > 5_000 && lost > 10_000, "{cuts} cuts, {lost} sectors");
}

/// Checks that a pause empties the buffer, that writes then pass it by, and that they do so in the ranges that
/// are named, at any time.
#[test]
fn writes_pass_a_paused_buffer_by_and_those_into_named_ranges_always() {
    let named = ClusterBufferConfig { bypass: vec![100..108, 104..120], ..config(8, 4, 400) };
    let drive = BlockReference::new(400, 1);
    let mut host = start(&named, drive, SimTime::ZERO);
    let write = |host: &mut Buffered, lba, sectors| {
        let data = vec![7; sectors as usize * SECTOR];
        assert_eq!(call(host, Opcode::Write, lba, sectors, data).status, Status::Success);
        (host.layer.held_sectors(), host.layer.counters().bypassed)
    };
    assert_eq!(write(&mut host, 0, 5), (5, 0));
    assert_eq!(write(&mut host, 99, 1), (6, 0), "before the range");
    assert_eq!(write(&mut host, 120, 1), (7, 0), "behind it");
    assert_eq!(write(&mut host, 119, 2), (6, 1), "into it: the older copy of its second sector is gone");
    host.layer.pause(Stack::now(&host));
    host.act_on_drive(Stack::now(&host), |_| ());
    while host.layer.paused().is_none() {
        let next = Drive::next_event(&host).expect("evictions are under way");
        Drive::advance(&mut host, next);
    }
    assert_eq!(host.layer.paused(), Some(Ok(())));
    assert_eq!(write(&mut host, 0, 5), (0, 2), "paused");
    host.layer.resume();
    assert!(host.layer.paused().is_some_and(|outcome| outcome.is_err()));
    assert_eq!(write(&mut host, 0, 5), (5, 2), "resumed");
    for wrong in [3..3, 399..401] {
        let wrong = ClusterBufferConfig { bypass: vec![wrong], ..config(8, 4, 400) };
        let refused = ClusterBuffer::new(&wrong, Some(Interface::Block { sectors: 400, handles: 1 }), SECTOR);
        assert!(matches!(refused, Err(ClusterBufferError::Bypass { drive_bytes: 204_800, .. })));
    }
}

/// Checks that a journal brings nothing back over what a pause wrote, or over what was written while it lasted.
#[test]
fn a_journal_brings_nothing_back_over_writes_of_a_pause() {
    for (usage, during) in
        [(JournalUse::Always, false), (JournalUse::Always, true), (JournalUse::Cheaper, false)]
    {
        let base = ClusterBufferConfig { flush: FlushPolicy::Strict, ..config(8, 4, 160) };
        let mut host = journalled(&base, usage, 2).host;
        let write = |host: &mut Buffered, with| {
            assert_eq!(call(host, Opcode::Write, 9, 2, vec![with; 2 * SECTOR]).status, Status::Success);
        };
        write(&mut host, 1);
        assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
        // Drained by the pause; or written past the buffer, before the pause has ended or after it.
        write(&mut host, 2);
        let now = Stack::now(&host);
        host.layer.pause(now);
        host.act_on_drive(now, |_| ());
        if during {
            write(&mut host, 3);
        }
        while !during && host.layer.paused().is_none() {
            let next = Drive::next_event(&host).expect("the pause goes on");
            Drive::advance(&mut host, next);
        }
        if !during {
            assert_eq!(host.layer.paused(), Some(Ok(())));
            let mut killed = start(&host.layer.config().clone(), host.drive.clone(), Stack::now(&host));
            assert_eq!(call(&mut killed, Opcode::Read, 9, 2, vec![0; 2 * SECTOR]).data, vec![2; 2 * SECTOR]);
            write(&mut host, 3);
        }
        let mut killed = start(&host.layer.config().clone(), host.drive.clone(), Stack::now(&host));
        assert_eq!(
            call(&mut killed, Opcode::Read, 9, 2, vec![0; 2 * SECTOR]).data,
            vec![3; 2 * SECTOR],
            "{usage:?}"
        );
    }
}

/// Checks what how-to/fire.md promises of zeros and trims past the buffer, which a pause does not change: they are durable with the next
/// flush; before it, a start may bring back from the journal what was flushed before them, and once the pause has ended, it brings back nothing.
#[test]
fn zeros_past_a_paused_buffer_are_durable_with_the_next_flush() {
    let mut came_back = 0;
    for opcode in [Opcode::WriteZeroes, Opcode::Trim] {
        for (ended, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
            let base = ClusterBufferConfig { flush: FlushPolicy::Strict, ..config(8, 4, 160) };
            let mut host = journalled(&base, JournalUse::Always, 2).host;
            let write = call(&mut host, Opcode::Write, 9, 2, vec![1; 2 * SECTOR]);
            assert_eq!(write.status, Status::Success);
            assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
            let now = Stack::now(&host);
            host.layer.pause(now);
            host.act_on_drive(now, |_| ());
            if ended {
                while host.layer.paused().is_none() {
                    let next = Drive::next_event(&host).expect("the pause goes on");
                    Drive::advance(&mut host, next);
                }
                assert_eq!(host.layer.paused(), Some(Ok(())));
            }
            assert_eq!(call(&mut host, opcode, 9, 2, Vec::new()).status, Status::Success);
            if flushed {
                assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
            }
            let mut drive = host.drive.clone();
            drive.abandon();
            let mut killed = start(&host.layer.config().clone(), drive, Stack::now(&host));
            let found = call(&mut killed, Opcode::Read, 9, 2, vec![9; 2 * SECTOR]).data;
            let old = found == vec![1; 2 * SECTOR];
            assert!(old || found == vec![0; 2 * SECTOR], "{opcode:?}: neither the data nor zeros");
            assert!(
                !old || !(ended || flushed),
                "{opcode:?}: came back, pause ended: {ended}, flushed: {flushed}"
            );
            came_back += u32::from(old);
        }
    }
    assert!(came_back > 0, "the journal has brought nothing back, so the promise is weaker than the buffer");
}

/// Makes a world whose flushes journal, with work under way.
fn journalling(seed: u64, usage: JournalUse) -> World {
    let sectors = 150 + seed % 7;
    let config = ClusterBufferConfig { flush: FlushPolicy::Strict, ..random_config(seed, sectors) };
    journalled(&config, usage, seed)
}

/// Checks that a cut at any event, and another at any event of the following start, lose no flushed data
/// while the ring wraps many times.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_journal_loses_nothing_that_was_flushed() {
    let (mut records, mut replayed, mut cuts, mut failures) = (0, 0, 0, 0);
    // Seeds 634 and 714: a group took two records, and the first one no longer named the data that only the
    // second had.
    for seed in (600..640).chain([714]) {
        let mut world = journalling(seed, JournalUse::Always);
        world.work(1500);
        if seed % 3 == 0 {
            // The drive refuses records that may be on the media all the same.
            world.lossy = true;
            world.host.drive.faults = Faults { write: 0.1, reset: 0.0, read: 0.0 };
            world.work(300);
            world.host.drive.faults = Faults::default();
            failures += world.host.layer.counters().journal_failures;
            world.drain();
            world.ask(Opcode::Flush, 0, 0, false);
            world.drain();
            world.lossy = false;
        }
        for _ in 0..60 {
            while world.asked.len() < 6 {
                world.submit();
            }
            world.step();
            let mut other = world.clone();
            other.cut();
            replayed += brought_back(&other);
            other.work(40);
            let steps = other.rng.below(30);
            other.host.drive.cut();
            other.host.layer.restart(other.now).expect("the start follows");
            while Drive::pop(&mut other.host).is_some() {}
            other.asked.clear();
            for _ in 0..steps {
                other.step();
            }
            other.cut();
            replayed += brought_back(&other);
            cuts += 2;
        }
        records += world.host.layer.counters().journal_records;
        world.drain();
        world.host.stop().expect("a drive without faults");
        // Nothing is left to write back, and all data are on the drive.
        world.host = start(&world.host.layer.config().clone(), world.host.drive.clone(), world.now);
        assert_eq!(brought_back(&world), 0, "seed {seed}");
        world.read_all();
    }
    assert!(
        records > 1_500 && replayed > 10_000 && cuts > 4_000 && failures > 2,
        "{records} records, {replayed} sectors, {failures} failures"
    );
}

fn brought_back(world: &World) -> u64 {
    brought_back_by(&world.host)
}

fn brought_back_by(host: &Buffered) -> u64 {
    let figures = host.layer.figures();
    let found = figures.iter().find(|figure| figure.name == "replayed_bytes").expect("it counts them");
    found.value / SECTOR as u64
}

/// Sends a command, and waits for its completion.
fn call(host: &mut Buffered, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) -> Completion {
    host.call(Command::new(1, opcode, Lba(lba), sectors, data)).expect("an answer")
}

fn plain(clusters: u64) -> Buffered {
    start(&config(8, clusters, 200), BlockReference::new(200, 1), SimTime::ZERO)
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let mut host = plain(3);
    let mut status =
        |opcode, lba, sectors, bytes| call(&mut host, opcode, lba, sectors, vec![7; bytes]).status;
    assert_eq!(status(Opcode::Write, 0, 0, 0), Status::InvalidField);
    assert_eq!(status(Opcode::Read, 0, 0, 0), Status::InvalidField);
    assert_eq!(status(Opcode::Write, 0, 2, 512), Status::InvalidField);
    assert_eq!(status(Opcode::Read, 0, 2, 512), Status::InvalidField);
    assert_eq!(status(Opcode::Write, 199, 2, 1024), Status::LbaOutOfRange);
    assert_eq!(status(Opcode::Read, 200, 1, 512), Status::LbaOutOfRange);
    assert_eq!(status(Opcode::Trim, u64::MAX, 2, 0), Status::LbaOutOfRange);
    assert_eq!(status(Opcode::Chunk(ChunkOp::Reset), 0, 0, 0), Status::InvalidOpcode);
    assert_eq!(status(Opcode::Write, 199, 1, 512), Status::Success);
    assert_eq!(status(Opcode::Flush, 0, 0, 0), Status::Success);
    assert_eq!(host.layer.counters().writes, 1);
}

#[test]
fn an_eviction_is_a_read_and_a_write_and_full_clusters_leave_first() {
    let mut host = plain(3);
    let sector = |count: usize| vec![3; count * SECTOR];
    // The data are every second sector of cluster 0, the oldest; all of cluster 1; and some of cluster 2.
    for at in [1, 3, 5] {
        call(&mut host, Opcode::Write, at, 1, sector(1));
    }
    call(&mut host, Opcode::Write, 8, 8, sector(8));
    call(&mut host, Opcode::Write, 17, 2, sector(2));
    assert_eq!(host.layer.counters().evictions, 0);
    // Data beyond the space drive out the full cluster, without a read, and nothing else.
    let held = u64::from(host.layer.held_sectors());
    let room = host.layer.window_bytes() / SECTOR as u64 - held;
    let more = room as u32 + 1;
    assert!(more <= 100, "{more} sectors");
    call(&mut host, Opcode::Write, 96, more, sector(more as usize));
    let counters = host.layer.counters();
    assert_eq!((counters.evictions, counters.full_evictions, counters.padding_reads), (1, 1, 0));
    let held: Vec<u64> = host.layer.held().map(|lba| lba.0).collect();
    assert!(held.contains(&1) && !held.contains(&8), "{held:?}");
    // The rest leaves with a stop: two commands for each cluster, regardless of its holes.
    let before = host.layer.counters();
    host.stop().unwrap_or_else(|e| panic!("{e}"));
    let counters = host.layer.counters();
    let evictions = counters.evictions - before.evictions;
    assert!(evictions >= 3);
    assert_eq!(counters.cluster_writes - before.cluster_writes, evictions);
    assert!(counters.padding_reads - before.padding_reads <= evictions);
    assert_eq!(host.layer.held_sectors(), 0);
}

/// Checks that a flush does not pad clusters of which the buffer has less than half.
#[test]
fn a_flush_pads_what_the_buffer_has_half_of_and_writes_the_runs_of_others() {
    let mut host = plain(3);
    for (at, count) in [(1, 1), (3, 2), (8, 3), (12, 1)] {
        call(&mut host, Opcode::Write, at, count, vec![3; count as usize * SECTOR]);
    }
    assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
    // Cluster 0 has three of eight sectors, in two runs. Cluster 1 has four, and is padded.
    let counters = host.layer.counters();
    assert_eq!((counters.evictions, counters.padding_reads), (2, 1));
    assert_eq!((counters.cluster_writes, counters.cluster_sectors), (3, 3 + 8));
    assert_eq!(host.layer.held_sectors(), 0);
    host.layer.check();
}

#[test]
fn a_drive_that_refuses_an_eviction_is_told_at_the_next_flush_and_reads_see_the_data() {
    for flush in [FlushPolicy::Strict, FlushPolicy::Paper] {
        let config = ClusterBufferConfig { flush, idle_ns: Some(Nanos(1000)), ..config(8, 3, 200) };
        let mut host = start(&config, BlockReference::new(200, 5), SimTime::ZERO);
        call(&mut host, Opcode::Write, 3, 2, vec![9; 2 * SECTOR]);
        host.drive.faults.write = 1.0;
        // Idle time evicts clusters; the drive refuses them.
        while let Some(next) = host.next_event() {
            host.advance(next);
        }
        assert_eq!(host.layer.counters().failed_evictions, 1);
        let read = call(&mut host, Opcode::Read, 2, 4, vec![0; 4 * SECTOR]);
        assert_eq!(read.status, Status::Success);
        assert_eq!(read.data[SECTOR..3 * SECTOR], [9; 2 * SECTOR], "{flush:?}");
        // Reads see the data even if the drive cannot read the sectors that it refused to write.
        host.drive.faults.read = 1.0;
        let covered = call(&mut host, Opcode::Read, 3, 2, vec![0; 2 * SECTOR]);
        assert_eq!((covered.status, &covered.data[..]), (Status::Success, &[9; 2 * SECTOR][..]));
        host.drive.faults.read = 0.0;
        assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::WriteFault, "{flush:?}");
        // Once the drive writes again, the next flush writes everything.
        host.drive.faults.write = 0.0;
        assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success, "{flush:?}");
        assert_eq!(host.stop(), Ok(()));
        assert_eq!(host.layer.held_sectors(), 0);
        let drive = host.drive.clone();
        let mut bare = start(&config, drive, host.now());
        let read = call(&mut bare, Opcode::Read, 3, 2, vec![0; 2 * SECTOR]);
        assert_eq!(read.data, [9; 2 * SECTOR], "{flush:?}");
    }
}

/// Checks a drive that takes no more writes: a write that finds no space fails, and nothing hangs.
#[test]
fn a_drive_that_is_gone_ends_everything_with_an_error() {
    let mut host = plain(2);
    host.drive.faults = Faults { write: 1.0, reset: 0.0, read: 1.0 };
    let mut refused = 0;
    for round in 0..30 {
        let ended = call(&mut host, Opcode::Write, round * 6, 6, vec![1; 6 * SECTOR]);
        refused += u32::from(ended.status == Status::WriteFault);
    }
    assert!(refused > 10, "{refused} writes were refused");
    assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::WriteFault);
    assert_eq!(call(&mut host, Opcode::Read, 190, 4, vec![0; 4 * SECTOR]).status, Status::UnrecoveredRead);
    assert!(host.stop().is_err(), "what it holds is nowhere else");
    assert!(host.layer.held_sectors() > 0);
    host.layer.check();
}

#[test]
fn idle_time_and_age_empty_the_buffer() {
    let aged = ClusterBufferConfig { age_ns: Some(Nanos(5_000)), ..config(8, 3, 200) };
    let idle = ClusterBufferConfig { idle_ns: Some(Nanos(5_000)), ..config(8, 3, 200) };
    for config in [aged, idle] {
        let mut host = start(&config, BlockReference::new(200, 5), SimTime::ZERO);
        for at in [0, 50, 100] {
            call(&mut host, Opcode::Write, at, 2, vec![9; 2 * SECTOR]);
        }
        assert_eq!(host.layer.counters().evictions, 0);
        let first = host.next_event().expect("it will be evicted");
        assert_eq!(first, SimTime(5_000), "{config:?}");
        while let Some(next) = host.next_event() {
            host.advance(next);
        }
        assert_eq!((host.layer.counters().evictions, host.layer.held_sectors()), (3, 0));
        assert!(host.now() < SimTime(7_000), "{}", host.now());
    }
}

/// Checks that writes to many clusters evict one when their tables are used up, or, with tables beside the memory, when no sector is free.
#[test]
fn tables_beside_the_memory_leave_all_of_it_to_sectors() {
    let within = config(8, 30, 8_000);
    let beside = ClusterBufferConfig { tables: TableMemory::Beside, ..within.clone() };
    let sectors = (within.size_bytes - 8 * 512) / 512;
    for (config, most) in [(within, sectors / 2), (beside, sectors)] {
        let mut host = start(&config, BlockReference::new(8_000, 5), SimTime::ZERO);
        let evicted = |host: &Buffered| host.layer.counters().evictions;
        let mut written = 0;
        while evicted(&host) == 0 {
            call(&mut host, Opcode::Write, written * 8, 1, vec![9; SECTOR]);
            written += 1;
        }
        let is_beside = config.tables == TableMemory::Beside;
        assert!(written - 1 == most || !is_beside && written < most, "{written} clusters, {config:?}");
        host.layer.check();
        let beside_bytes = config.tables_beside_bytes(8_000);
        let share = host.layer.memory_bytes() as f64 / (config.size_bytes + beside_bytes) as f64;
        assert!((0.9..=1.05).contains(&share), "{share} of {} and {beside_bytes}", config.size_bytes);
        assert_eq!(beside_bytes > 0, is_beside);
    }
}

/// Checks that a device is never assumed to have a journal, or one of another shape, and that its content is
/// left alone.
#[test]
fn a_journal_is_made_only_where_that_was_asked_for() {
    let journal =
        JournalConfig { ring_bytes: 128 << 10, unit_bytes: 1024, usage: JournalUse::Always, make: None };
    let config = ClusterBufferConfig { journal: Some(journal), ..config(8, 6, 600) };
    let drive = BlockReference::new(600, 3);
    let start = |config: &ClusterBufferConfig, drive: &BlockReference| {
        let layer = ClusterBuffer::new(config, drive.interface(0), SECTOR).unwrap_or_else(|e| panic!("{e}"));
        Stack::start(layer, drive.clone(), SimTime::ZERO)
    };
    let why = start(&config, &drive).expect_err("there is none");
    assert!(why.contains("has no journal"), "{why}");
    let made = JournalConfig { make: Some(5), ..journal };
    let make = ClusterBufferConfig { journal: Some(made), ..config.clone() };
    let mut host = start(&make, &drive).expect("it is made");
    assert_eq!(host.layer.capacity_sectors(), 328, "whole clusters before 256 sectors of ring and the heads");
    call(&mut host, Opcode::Write, 3, 2, vec![9; 2 * SECTOR]);
    call(&mut host, Opcode::Flush, 0, 0, Vec::new());
    assert_eq!(host.layer.counters().journal_records, 1);
    // The computer is replaced; the journal is found, with this shape only.
    let mut back = start(&config, &host.drive).expect("it is there");
    let read = call(&mut back, Opcode::Read, 3, 2, vec![0; 2 * SECTOR]);
    assert_eq!((read.data, brought_back_by(&back)), (vec![9; 2 * SECTOR], 2));
    let larger = JournalConfig { unit_bytes: 2048, ..made };
    let other = ClusterBufferConfig { journal: Some(larger), ..config.clone() };
    let why = start(&other, &host.drive).expect_err("it has another shape");
    assert!(why.contains("another journal") && why.contains("allowed: the same settings"), "{why}");
    let paper = ClusterBufferConfig { flush: FlushPolicy::Paper, ..make };
    let refused = ClusterBuffer::new(&paper, drive.interface(0), SECTOR);
    assert_eq!(refused.err(), Some(ClusterBufferError::JournalOfPaper));
}

/// Checks that one of the two heads is enough, and that a start writes the other one again.
#[test]
fn a_journal_is_found_by_either_head() {
    let journal =
        JournalConfig { ring_bytes: 128 << 10, unit_bytes: 1024, usage: JournalUse::Always, make: Some(5) };
    let make = ClusterBufferConfig { journal: Some(journal), ..config(8, 6, 600) };
    let found = JournalConfig { make: None, ..journal };
    let config = ClusterBufferConfig { journal: Some(found), ..make.clone() };
    let start = |config: &ClusterBufferConfig, drive: &BlockReference| {
        let layer = ClusterBuffer::new(config, drive.interface(0), SECTOR).unwrap_or_else(|e| panic!("{e}"));
        Stack::start(layer, drive.clone(), SimTime::ZERO)
    };
    let mut host = start(&make, &BlockReference::new(600, 3)).expect("it is made");
    call(&mut host, Opcode::Write, 3, 2, vec![9; 2 * SECTOR]);
    call(&mut host, Opcode::Flush, 0, 0, Vec::new());
    let [last, other] = JournalHead::sectors(600, 512);
    assert_eq!((last, other), (599, 590));
    let looks = |config: &ClusterBufferConfig, drive: &BlockReference| {
        let mut back = start(config, drive)?;
        let read = call(&mut back, Opcode::Read, 3, 2, vec![0; 2 * SECTOR]);
        assert_eq!((read.data, brought_back_by(&back)), (vec![9; 2 * SECTOR], 2));
        Ok::<BlockReference, String>(back.drive)
    };
    for head in [last, other] {
        let mut drive = host.drive.clone();
        drive.harm(head);
        // The existing journal is used even if a new one may be made.
        looks(&make, &drive).expect("the other one is there");
        drive.bad = Some(head);
        looks(&config, &drive).expect("the other one can be read");
    }
    let mut drive = host.drive.clone();
    drive.harm(last);
    let mut repaired = start(&config, &drive).expect("the other one is there").drive;
    repaired.harm(other);
    start(&config, &repaired).expect("the first one was written again");
    repaired.bad = Some(last);
    let why = start(&make, &repaired).expect_err("neither is there");
    assert!(why.contains("cannot be read"), "{why}");
    repaired.bad = None;
    for head in [last, other] {
        repaired.put(head, vec![0; SECTOR]);
    }
    // Flushed data may be in the ring alone, so a new journal does not replace it.
    for config in [&config, &make] {
        let why = start(config, &repaired).expect_err("neither is there");
        assert!(why.contains("both heads of the journal are damaged"), "{why}");
    }
    for sector in 0..600 {
        repaired.put(sector, vec![0; SECTOR]);
    }
    let why = start(&config, &repaired).expect_err("it was discarded");
    assert!(why.contains("has no journal"), "{why}");
    start(&make, &repaired).expect("it is made");
}

/// Checks that a crash while a journal is made leaves a device on which the next start makes one.
#[test]
fn a_making_that_is_interrupted_begins_anew() {
    let journal =
        JournalConfig { ring_bytes: 128 << 10, unit_bytes: 1024, usage: JournalUse::Always, make: Some(5) };
    let make = ClusterBufferConfig { journal: Some(journal), ..config(8, 6, 600) };
    let drive = BlockReference::new(600, 3);
    let layer = ClusterBuffer::new(&make, drive.interface(0), SECTOR).expect("it fits");
    let mut making = Stack::new(layer, drive, SimTime::ZERO);
    let mut made = 0;
    while let Some(next) = making.next_event().filter(|_| !making.layer.is_ready()) {
        Drive::advance(&mut making, next);
        for is_cut in [false, true] {
            let mut drive = making.drive.clone();
            if is_cut {
                drive.cut()
            } else {
                drive.abandon()
            }
            let again = ClusterBuffer::new(&make, drive.interface(0), SECTOR).expect("it fits");
            let host = Stack::start(again, drive, next).expect("it is made, or found");
            made += u32::from(host.layer.start_notice().is_some());
        }
    }
    assert!(made > 4, "{made} starts made it");
}

/// Checks that a journal of another format is named, not read.
#[test]
fn a_journal_of_an_older_format_is_refused_by_name() {
    let (config, mut drive, _) = flushed_into_a_journal();
    for head in JournalHead::sectors(600, 512) {
        let mut older = drive.sector(head).to_vec();
        older[44..48].fill(0);
        let sum = crc32c::crc32c(&older[12..64]);
        older[8..12].copy_from_slice(&sum.to_le_bytes());
        drive.put(head, older);
    }
    let layer = ClusterBuffer::new(&config, drive.interface(0), SECTOR).expect("it fits");
    let why = Stack::start(layer, drive, SimTime::ZERO).expect_err("it is of another format");
    assert!(why.contains("has format 1; this program knows format 2"), "{why}");
}

/// Makes records of flushes, the last without some clusters, on a drive whose process was killed. Also
/// returns the writes of each flush.
fn flushed_into_a_journal() -> (ClusterBufferConfig, BlockReference, Vec<(u64, Vec<u8>)>) {
    let journal =
        JournalConfig { ring_bytes: 128 << 10, unit_bytes: 1024, usage: JournalUse::Always, make: Some(5) };
    let make = ClusterBufferConfig { journal: Some(journal), ..config(8, 6, 600) };
    let layer = ClusterBuffer::new(&make, BlockReference::new(600, 3).interface(0), SECTOR).expect("it fits");
    let mut host = Stack::start(layer, BlockReference::new(600, 3), SimTime::ZERO).expect("it is made");
    let mut written = Vec::new();
    for flush in 0..5_u64 {
        for cluster in 0..5 - flush / 4 {
            let (lba, data) = (8 * cluster + flush, image(8 * cluster + flush, flush + 1));
            call(&mut host, Opcode::Write, lba, 1, data.clone());
            written.push((lba, data));
        }
        // The same sector is written again and again: an older record has older data of it.
        written.retain(|(lba, _)| *lba != 7);
        written.push((7, image(7, flush + 1)));
        call(&mut host, Opcode::Write, 7, 1, image(7, flush + 1));
        assert_eq!(call(&mut host, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
    }
    let found = JournalConfig { make: None, ..journal };
    assert_eq!(host.layer.counters().journal_failures, 0);
    (ClusterBufferConfig { journal: Some(found), ..make }, host.drive, written)
}

/// Checks damage to any sector of a journal, and failed reads of it: the flushed data are there, or the start
/// refuses. A newest record that is not whole may belong to a flush that was answered or not; the start
/// reports that there is one.
#[test]
fn damage_to_any_sector_of_a_journal_is_never_silent() {
    let (config, drive, written) = flushed_into_a_journal();
    let ring = JournalHead::parse(drive.sector(599)).expect("a head").ring;
    let (mut refused, mut torn, mut whole) = (0, 0, 0);
    for sector in ring..600 {
        for harm in [Some(2), Some(9), Some(17), Some(26), Some(33), Some(70), Some(400), None] {
            let mut drive = drive.clone();
            match harm {
                Some(byte) => drive.flip(sector, byte),
                None => drive.bad = Some(sector),
            }
            let layer = ClusterBuffer::new(&config, drive.interface(0), SECTOR).expect("it fits");
            let mut host = match Stack::start(layer, drive, SimTime::ZERO) {
                Ok(host) => host,
                Err(why) => {
                    assert!(why.contains("journal"), "{why}");
                    refused += 1;
                    continue;
                }
            };
            let old = written
                .iter()
                .filter(|(lba, data)| call(&mut host, Opcode::Read, *lba, 1, vec![0; SECTOR]).data != *data);
            let old = old.count();
            let figures = host.layer.figures();
            let says = figures.iter().any(|figure| figure.name == "torn_records" && figure.value == 1);
            // Only the newest record may be missing: its four clusters, and the sector that all records have.
            assert!(old == 0 || (says && old == 5), "sector {sector}, {harm:?}: {old} are old");
            torn += usize::from(old > 0);
            whole += usize::from(old == 0);
        }
    }
    assert!(refused > 100 && torn > 20 && whole > 500, "{refused} refused, {torn} torn, {whole} whole");
}

/// Checks that a spot of the ring that takes no writes costs one flush when the ring reaches it, and never
/// the next, however full the ring is.
#[test]
fn a_bad_spot_in_the_ring_is_left_behind() {
    let (mut failed, mut twice) = (0, 0);
    for seed in 0..20 {
        let mut world = journalling(seed, JournalUse::Always);
        let config = world.host.layer.config().clone();
        let first = world.host.layer.capacity_sectors();
        let sectors = config.journal.expect("it has one").ring_bytes / SECTOR as u64;
        world.host.drive.bad = Some(first + seed * sectors / 20);
        let mut before = Status::Success;
        for round in 0..400 {
            for _ in 0..world.rng.below(6) {
                let lba = world.rng.below(first - 1);
                let write = call(&mut world.host, Opcode::Write, lba, 1, image(lba, round + 1));
                assert_eq!(write.status, Status::Success);
            }
            let status = call(&mut world.host, Opcode::Flush, 0, 0, Vec::new()).status;
            failed += u64::from(status != Status::Success);
            twice += u64::from(status != Status::Success && before != Status::Success);
            before = status;
        }
    }
    assert!(failed > 20 && twice == 0, "{failed} flushes failed, {twice} of them after another one");
}

/// Checks that the memory in use is at most the configured size, and hardly less.
#[test]
fn memory_is_what_was_configured() {
    for (sector, cluster, size, drive) in
        [(512, 2048, 32, 16), (512, 4096, 32, 128), (4096, 512, 64, 32), (4096, 256, 8, 64)]
    {
        let (size_bytes, sectors) = (size << 20, (drive << 30) / u64::from(sector));
        let config = ClusterBufferConfig {
            sector_bytes: sector,
            cluster_sectors: cluster,
            size_bytes,
            ..ClusterBufferConfig::default()
        };
        let block = Some(Interface::Block { sectors, handles: 1 });
        let layer = ClusterBuffer::new(&config, block, sector as usize).unwrap_or_else(|e| panic!("{e}"));
        let share = layer.memory_bytes() as f64 / size_bytes as f64;
        assert!((0.98..=1.02).contains(&share), "{share} of {size} MiB for {drive} GiB");
        let beside = ClusterBufferConfig { tables: TableMemory::Beside, ..config.clone() };
        let all = size_bytes + beside.tables_beside_bytes(sectors);
        let layer = ClusterBuffer::new(&beside, block, sector as usize).unwrap_or_else(|e| panic!("{e}"));
        let share = layer.memory_bytes() as f64 / all as f64;
        assert!((0.98..=1.02).contains(&share), "{share} of {all} bytes with tables beside {size} MiB");
        let journal = JournalConfig {
            ring_bytes: 512 << 20,
            unit_bytes: 16 << 10,
            usage: JournalUse::Always,
            make: Some(1),
        };
        let config = ClusterBufferConfig { journal: Some(journal), ..config };
        let layer = ClusterBuffer::new(&config, block, sector as usize).unwrap_or_else(|e| panic!("{e}"));
        let share = layer.memory_bytes() as f64 / size_bytes as f64;
        assert!((0.98..=1.02).contains(&share), "{share} of {size} MiB with a journal");
    }
    let config = ClusterBufferConfig { size_bytes: 1 << 20, ..ClusterBufferConfig::default() };
    let refused = ClusterBuffer::new(&config, Some(Interface::Block { sectors: 1 << 20, handles: 1 }), 512);
    let Err(ClusterBufferError::Size { least, .. }) = refused else { panic!("{refused:?}") };
    let config = ClusterBufferConfig { size_bytes: least, ..config };
    assert!(
        ClusterBuffer::new(&config, Some(Interface::Block { sectors: 1 << 20, handles: 1 }), 512).is_ok()
    );
}
