//! A small drive with log-block translation over a toy flash memory, beside a plain model of the expected content.
//!
//! Programs, erases and reads for copies queue per die and are carried out one at a time, each time for a random die, so that many are
//! under way at once. After every step all invariants are checked.

use super::nand::{Data, Nand};
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, Rng};
use pellucid_ftl::{
    Arrival, Arrived, CopyId, FtlConfig, GcJob, Located, LogBlock, MapJob, Move, Operation, Plan, ProgramId,
    Reclaim, Soon, Start, Stream,
};
use std::collections::{BTreeMap, VecDeque};

/// A media operation in the line of its die.
#[derive(Clone, Debug)]
enum Op {
    Program { plan: Plan, units: Vec<(Lpn, Data)>, host: bool },
    Erase(BlockId),
}

/// A source of a copy, its page and its data.
#[derive(Clone, Debug)]
struct Source {
    from: Ppa,
    lpn: Lpn,
    data: Data,
}

/// Versions that a page may hold after a power cut: the flushed one and later ones; version 0 is nothing.
#[derive(Clone, Debug, Default)]
struct Page {
    newest: u64,
    since_flush: Vec<u64>,
    /// The page may have been lost because a copy could not be read.
    may_be_lost: bool,
}

#[derive(Clone)]
pub struct Drive {
    pub map: LogBlock,
    pub nand: Nand,
    pub layout: Layout,
    config: FtlConfig,
    pub rng: Rng,
    /// Host data that wait for a superpage, by stream.
    queues: BTreeMap<u32, VecDeque<(Lpn, u64)>>,
    lines: Vec<VecDeque<Op>>,
    /// Copies whose sources were read.
    read: Vec<(CopyId, Vec<Option<Source>>)>,
    pages: Vec<Page>,
    version: u64,
    /// One in this many programs, and erases, fails; 0: none.
    pub program_fails: u64,
    pub erase_fails: u64,
    /// Invariants are checked after every step.
    pub checks: bool,
}

impl Drive {
    pub fn new(config: &FtlConfig, layout: &Layout, bad: &[BlockId], seed: u64) -> Drive {
        let map = LogBlock::new(config, layout, bad).unwrap_or_else(|e| panic!("{e}"));
        let pages = vec![Page { since_flush: vec![0], ..Page::default() }; map.user_units() as usize];
        Drive {
            map,
            nand: Nand::new(layout, bad),
            layout: layout.clone(),
            config: config.clone(),
            rng: Rng::new(seed),
            queues: BTreeMap::new(),
            lines: vec![VecDeque::new(); layout.dies as usize],
            read: Vec::new(),
            pages,
            version: 0,
            program_fails: 0,
            erase_fails: 0,
            checks: true,
        }
    }

    pub fn user_units(&self) -> u32 {
        self.map.user_units()
    }

    /// Writes a page; it is programmed when its stream has a superpage.
    pub fn write(&mut self, lpn: u32) {
        self.version += 1;
        let page = &mut self.pages[lpn as usize];
        page.newest = self.version;
        page.since_flush.push(self.version);
        page.may_be_lost = false;
        self.queue(Lpn(lpn), self.version);
        self.pump();
    }

    fn queue(&mut self, lpn: Lpn, version: u64) {
        let Stream::Log(stream) = self.map.stream(lpn) else { panic!("not a log block's stream") };
        assert!(stream < self.map.streams());
        // A page waits only once, as in a write buffer.
        for queue in self.queues.values_mut() {
            queue.retain(|waiting| waiting.0 != lpn);
        }
        self.queues.entry(stream).or_default().push_back((lpn, version));
    }

    pub fn trim(&mut self, lpn: u32) {
        for queue in self.queues.values_mut() {
            queue.retain(|waiting| waiting.0 != Lpn(lpn));
        }
        let page = &mut self.pages[lpn as usize];
        page.newest = 0;
        page.since_flush.push(0);
        page.may_be_lost = false;
        self.map.trim(Lpn(lpn));
        self.pump();
    }

    /// Plans whatever can be planned; `pad`: also host data that fill less than a superpage.
    fn plan(&mut self, pad: bool) {
        let per_superpage = self.layout.units_per_superpage as usize;
        let streams: Vec<u32> = self.queues.keys().copied().collect();
        for stream in streams {
            while let Some(queue) = self.queues.get_mut(&stream)
                && (queue.len() >= per_superpage || (pad && !queue.is_empty()))
            {
                let units: Vec<(Lpn, u64)> = queue.iter().take(per_superpage).copied().collect();
                let lpns: Vec<Lpn> = units.iter().map(|unit| unit.0).collect();
                let Some(plan) = self.map.place(Stream::Log(stream), &lpns) else { break };
                queue.drain(..units.len());
                let units = units.into_iter().map(|(lpn, version)| (lpn, Data::Version(version))).collect();
                self.lines[plan.die.0 as usize].push_back(Op::Program { plan, units, host: true });
            }
        }
    }

    pub fn pump(&mut self) {
        self.pump_padding(false);
    }

    fn pump_padding(&mut self, pad: bool) {
        self.plan(pad);
        for die in (0..self.layout.dies).map(pellucid_flash::DieId) {
            self.map.reap(die);
            while self.map.wants_gc(die)
                && let Some(GcJob::Copy { id, cause, sources }) = self.map.next_gc(die)
            {
                let sources = sources.to_vec();
                let mut read = vec![None; sources.len()];
                for (read, from) in read.iter_mut().zip(sources).filter(|(_, from)| from.is_some()) {
                    let moved = Move { from, cause, to: Stream::Merge(id), inside: false };
                    let found = self.nand.read(from);
                    let arrival = if found.is_some() { Arrival::Read } else { Arrival::Unreadable };
                    let page = self.page_at(from);
                    match self.map.arrived(&moved, arrival) {
                        Arrived::Keep(lpn) => {
                            let (named, data) = found.expect("it was read");
                            assert_eq!((lpn, named), (page, page), "unit {} holds another page", from.0);
                            *read = Some(Source { from, lpn, data });
                        }
                        Arrived::Lost => self.pages[page.0 as usize].may_be_lost = true,
                        other => panic!("{other:?} of a source that is current"),
                    }
                }
                self.read.push((id, read));
            }
        }
        self.reclaim();
    }

    fn page_at(&self, ppa: Ppa) -> Lpn {
        let at = |lpn: &u32| self.map.peek(Lpn(*lpn)) == Located::At(ppa);
        Lpn((0..self.user_units()).find(at).expect("a source is in use"))
    }

    fn reclaim(&mut self) {
        loop {
            while let Some(MapJob::Program { plan, units, .. }) = self.map.next_map_job() {
                let content = |position| {
                    let (lpn, bytes) = self.map.metadata(plan.id, position);
                    (lpn, Data::Metadata(bytes.to_vec()))
                };
                let units = (0..units).map(content).collect();
                self.lines[plan.die.0 as usize].push_back(Op::Program { plan, units, host: false });
            }
            match self.map.next_erase() {
                Some(Reclaim::Erase(block, _)) => {
                    let die = self.layout.die_of_block(block);
                    self.lines[die.0 as usize].push_back(Op::Erase(block));
                }
                Some(Reclaim::Retire(block)) => self.nand.retire(block),
                // There may be a map job now.
                Some(Reclaim::Evict(_)) => panic!("it is no cache"),
                Some(Reclaim::AwaitsTrims) => match self.map.next_map_job() {
                    Some(MapJob::Program { plan, units, .. }) => {
                        let content = |position| {
                            let (lpn, bytes) = self.map.metadata(plan.id, position);
                            (lpn, Data::Metadata(bytes.to_vec()))
                        };
                        let units = (0..units).map(content).collect();
                        self.lines[plan.die.0 as usize].push_back(Op::Program { plan, units, host: false });
                    }
                    _ => return,
                },
                None => return,
            }
        }
    }

    /// Carries out one operation that is under way; `false`: there is none.
    pub fn step(&mut self) -> bool {
        let busy: Vec<usize> = (0..self.lines.len()).filter(|&die| !self.lines[die].is_empty()).collect();
        let choices = busy.len() + self.read.len();
        if choices == 0 {
            return false;
        }
        let choice = self.rng.below(choices as u64) as usize;
        if choice < busy.len() {
            let op = self.lines[busy[choice]].pop_front().expect("a line that is not empty");
            self.carry_out(op);
        } else {
            let (id, read) = self.read.remove(choice - busy.len());
            let current = |source: &Source| self.map.is_current(source.from, Some(source.lpn));
            let unit = |source: Option<Source>| match source.filter(current) {
                Some(Source { lpn, data, .. }) => (lpn, data),
                None => (Lpn::NONE, Data::Padding),
            };
            let units: Vec<(Lpn, Data)> = read.into_iter().map(unit).collect();
            let lpns: Vec<Lpn> = units.iter().map(|unit| unit.0).collect();
            if let Some(plan) = self.map.place(Stream::Merge(id), &lpns) {
                self.lines[plan.die.0 as usize].push_back(Op::Program { plan, units, host: false });
            }
        }
        self.pump();
        if self.checks {
            self.map.check();
        }
        true
    }

    fn carry_out(&mut self, op: Op) {
        match op {
            Op::Program { plan, units, host } => {
                let ok = self.program_fails == 0 || self.rng.below(self.program_fails) > 0;
                self.nand.program(plan.first, plan.sequence, units.clone(), ok);
                self.end_program(plan.id, ok);
                if !ok && host {
                    for (lpn, data) in units {
                        // Only the newest version is written again.
                        if let Data::Version(version) = data
                            && self.pages[lpn.0 as usize].newest == version
                        {
                            self.queue(lpn, version);
                        }
                    }
                }
            }
            Op::Erase(block) => {
                let ok = self.erase_fails == 0 || self.rng.below(self.erase_fails) > 0;
                self.nand.erase(block, ok);
                if !ok {
                    self.nand.retire(block);
                }
                self.map.ended(Operation::Erase(block), ok);
            }
        }
    }

    fn end_program(&mut self, id: ProgramId, ok: bool) {
        self.map.prefetch(Soon::End(id));
        self.map.ended(Operation::Program(id), ok);
    }

    /// Writes all waiting data to the media; returns whether there was space for them.
    pub fn drain(&mut self) -> bool {
        for _ in 0..1_000_000 {
            self.pump_padding(true);
            if !self.step() {
                return self.queues.values().all(VecDeque::is_empty);
            }
        }
        panic!("it does not come to rest");
    }

    /// Flushes: all writes and trims so far survive a power cut.
    pub fn flush(&mut self) {
        assert!(self.drain(), "there is no room");
        let point = self.map.flush_point();
        while !self.map.flush_to(point) {
            self.pump();
            assert!(self.step(), "a flush waits for nothing");
        }
        for page in &mut self.pages {
            page.since_flush = vec![page.newest];
        }
    }

    /// Saves the trims so far: they survive a power cut, whatever else is under way.
    pub fn save_trims(&mut self) {
        let trimmed = |page: &&mut Page| page.since_flush.last() == Some(&0);
        let trimmed: Vec<&mut Page> = self.pages.iter_mut().filter(trimmed).collect();
        trimmed.into_iter().for_each(|page| page.since_flush = vec![0]);
        let point = self.map.flush_point();
        self.pump();
        while !self.map.flush_to(point) {
            self.pump();
            assert!(self.step(), "trims wait for nothing");
        }
    }

    /// The version of a page that the drive would read from the media, and whether that is its newest; `None`: lost.
    fn on_media(&self, lpn: u32) -> (Option<u64>, bool) {
        match self.map.peek(Lpn(lpn)) {
            Located::Zero => (Some(0), true),
            Located::Lost => (None, true),
            Located::At(ppa) => match self.map.readable(ppa) {
                copy if copy.is_some() => match self.nand.read(copy) {
                    Some((found, Data::Version(version))) => {
                        assert_eq!(found, Lpn(lpn), "unit {} holds another page", copy.0);
                        (Some(version), copy == ppa)
                    }
                    None if self.nand.unreadable.contains(&copy) => (None, copy == ppa),
                    other => panic!("page {lpn} at {}: {other:?}", copy.0),
                },
                _ => (Some(0), false),
            },
            Located::NeedsMap(_) => panic!("all of the map is in memory"),
        }
    }

    /// Compares every page with the model.
    pub fn verify(&self) {
        let waiting = |lpn: u32| self.queues.values().flatten().any(|unit| unit.0 == Lpn(lpn));
        for lpn in (0..self.user_units()).filter(|&lpn| !waiting(lpn)) {
            let (version, newest) = self.on_media(lpn);
            let page = &self.pages[lpn as usize];
            match version {
                Some(version) if newest => assert_eq!(version, page.newest, "page {lpn}"),
                Some(_) => {}
                None => assert!(page.may_be_lost, "page {lpn} is lost"),
            }
        }
    }

    /// Cuts the power: the first operation in each line is torn in half of the cases; the rest never happened. Then mounts again.
    pub fn cut(&mut self) {
        for line in &mut self.lines {
            if let Some(op) = line.pop_front()
                && self.rng.below(2) == 0
            {
                match op {
                    Op::Program { plan, units, .. } => {
                        self.nand.program(plan.first, plan.sequence, units, false);
                    }
                    Op::Erase(block) => self.nand.erase(block, false),
                }
            }
            line.clear();
        }
        self.queues.clear();
        self.read.clear();
        let (map, report) =
            LogBlock::start(&self.config, &self.layout, Start::Mount(&self.nand)).expect("it fitted before");
        map.check();
        self.map = map;
        let mut mapped = 0;
        for lpn in 0..self.user_units() {
            let (version, newest) = self.on_media(lpn);
            assert!(newest, "nothing is under way after a mount");
            let page = &mut self.pages[lpn as usize];
            match version {
                Some(version) => {
                    let allowed = &page.since_flush;
                    assert!(allowed.contains(&version), "page {lpn}: version {version} of {allowed:?}");
                    mapped += u64::from(version > 0);
                    (page.newest, page.since_flush) = (version, vec![version]);
                }
                None => assert!(page.may_be_lost, "page {lpn} was lost at the mount"),
            }
        }
        assert_eq!(report.expect("a mount reports").mapped_units, mapped);
        self.pump();
    }
}
