//! Random commands of a cache beside a plain model of every block, and power cuts at any moment.
//!
//! The model keeps for each block the states that it may be in: the newest one that is durable, and all that came after it. The rules:
//!
//! - a dirty block reads as its version, and is never absent;
//! - a clean block reads as its version, or is absent; once seen absent it stays so until it is written, or the power is cut;
//! - an evicted block is absent;
//! - after a power cut a block is in one of its states; a durable one leaves none that is older.
//!
//! Changes of one block do not overlap, so that their order is known; reads overlap with everything.

use pellucid_device::{CacheConfig, Device, DeviceConfig, Guarantee, Namespace};
use pellucid_flash::{
    CacheGeometry, CacheOp, CacheState, Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime,
    Status,
};
use std::collections::BTreeMap;

/// The first state of each block that a command may meet.
type FirstMet = Vec<(u32, u64)>;
/// All states that it may meet, by block.
type AllMet = Vec<(u32, State)>;

/// Possible state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    id: u64,
    /// 0: absent.
    version: u32,
    dirty: bool,
    acknowledged: bool,
}

#[derive(Clone, Debug)]
struct Block {
    /// Oldest first; never empty.
    states: Vec<State>,
    /// A change is under way.
    busy: bool,
    /// Any of the states may be the present one, as after a power cut.
    unsettled: bool,
    /// A change failed: what is read tells the present state, and not what the power brings back.
    failed: bool,
    /// It was seen absent, with this newest state, before commands with a larger tag.
    gone: Option<(u64, u64)>,
}

impl Block {
    fn new() -> Block {
        let absent = State { id: 0, version: 0, dirty: false, acknowledged: true };
        Block { states: vec![absent], busy: false, unsettled: false, failed: false, gone: None }
    }

    fn newest(&self) -> State {
        self.states[self.states.len() - 1]
    }

    /// The first state that a command that begins now may meet.
    fn present(&self) -> u64 {
        match self.unsettled {
            true => self.states[0].id,
            false => self.states.iter().rev().find(|s| s.acknowledged).expect("one is").id,
        }
    }

    fn since(&self, id: u64) -> impl Iterator<Item = &State> {
        self.states.iter().filter(move |state| state.id >= id)
    }
}

#[derive(Clone, Debug)]
struct Pending {
    opcode: Opcode,
    first: u32,
    count: u32,
    fua: bool,
    /// Reads: the first state of each block that it may meet. Flushes: the newest acknowledged ones, by block.
    from: Vec<(u32, u64)>,
    /// Reads: the states of their blocks at the beginning, which a read may meet though they are forgotten meanwhile.
    met: Vec<(u32, State)>,
    /// Changes: the states that it makes.
    ids: Vec<u64>,
}

/// A cache, its model and a stream of random commands.
#[derive(Clone, Debug)]
pub struct Swarm {
    pub device: Device,
    geometry: CacheGeometry,
    durable: bool,
    blocks: BTreeMap<u32, Block>,
    pending: BTreeMap<u64, Pending>,
    rng: Rng,
    cuts: Rng,
    now: SimTime,
    next_id: u64,
    next_version: u32,
    tag: u64,
    /// Blocks of the backing store that are used.
    span: u32,
    /// Percentage of writes that are dirty.
    dirty_share: u64,
    lossy: bool,
    /// Issues few commands that write translation pages, such as flushes.
    pub seldom_flushed: bool,
    /// Cleans a run of blocks for each refusal, as a cache manager does.
    pub cleans_when_full: bool,
    /// Runs that are still to be cleaned.
    to_clean: u32,
    /// Reads that found their blocks, reads that did not, and writes refused for want of space.
    pub counts: [u64; 3],
}

impl Swarm {
    pub fn new(config: &DeviceConfig, span: u32, dirty_share: u64, seed: u64) -> Swarm {
        let device = Device::new(config).unwrap_or_else(|e| panic!("{e}"));
        let Some(Interface::Cache(geometry)) = device.interface(0) else { panic!("a cache") };
        let Some(Namespace::Cache { cache: CacheConfig { guarantee, .. }, .. }) = config.namespaces.first()
        else {
            panic!("a cache")
        };
        let faults = &config.media.faults;
        Swarm {
            device,
            geometry,
            durable: *guarantee == Guarantee::WriteDirty,
            blocks: BTreeMap::new(),
            pending: BTreeMap::new(),
            rng: Rng::stream(seed, "cache"),
            cuts: Rng::stream(seed, "cache cuts"),
            now: SimTime::ZERO,
            next_id: 0,
            next_version: 0,
            tag: 0,
            span,
            dirty_share,
            seldom_flushed: false,
            cleans_when_full: false,
            to_clean: 0,
            lossy: faults.read_fail > 0.0 || faults.program_fail > 0.0 || faults.erase_fail > 0.0,
            counts: [0; 3],
        }
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Submits a random command.
    pub fn submit(&mut self) {
        if self.to_clean > 0 {
            self.to_clean -= 1;
            let first = self.rng.below(u64::from(self.span)) as u32;
            let dirty = self.blocks.range(first..).find(|(_, block)| block.newest().dirty);
            let first = dirty.map_or(first, |(&number, _)| number);
            return self.change(Opcode::Cache(CacheOp::Clean), first, 64, false);
        }
        let longest = if self.rng.chance(0.1) { 12 } else { 3 };
        let count = 1 + self.rng.below(longest) as u32;
        // Half of the work on a tenth of the blocks, spread over the address space.
        let span = if self.rng.chance(0.5) { self.span.div_ceil(10) } else { self.span };
        let first = self.rng.below(u64::from(span.saturating_sub(count).max(1))) as u32;
        let roll = self.rng.below(100);
        let dirty = self.rng.below(100) < self.dirty_share;
        let fua = self.rng.chance(0.05);
        if self.seldom_flushed && !(35..80).contains(&roll) && self.rng.chance(0.95) {
            return self.change(Opcode::Cache(CacheOp::Clean), first, count, false);
        }
        match roll {
            0..35 => self.read(first, count),
            35..80 if dirty => self.change(Opcode::Cache(CacheOp::WriteDirty), first, count, fua),
            35..80 => self.change(Opcode::Cache(CacheOp::WriteClean), first, count, fua),
            80..86 => self.change(Opcode::Cache(CacheOp::Evict), first, count, fua),
            86..93 => self.change(Opcode::Cache(CacheOp::Clean), first, count, false),
            93..96 => self.exists(first, count),
            _ => self.flush(),
        }
    }

    fn block(&mut self, number: u32) -> &mut Block {
        self.blocks.entry(number).or_insert_with(Block::new)
    }

    fn send(&mut self, pending: Pending, data: Vec<u8>) {
        let sectors = u64::from(self.geometry.unit_sectors);
        // Blocks are scattered, in pieces of 64.
        let lba = Lba(self.address(pending.first) * sectors);
        let Pending { opcode, count, fua, .. } = pending;
        let count = if opcode == Opcode::Flush { 0 } else { count };
        self.tag += 1;
        self.pending.insert(self.tag, pending);
        let command = Command { fua, ..Command::new(self.tag, opcode, lba, count * sectors as u32, data) };
        self.device.submit(self.now, command);
        self.collect();
    }

    fn address(&self, number: u32) -> u64 {
        let pieces = self.geometry.address_sectors / u64::from(self.geometry.unit_sectors) / 64;
        let stride = pieces / u64::from(self.span.div_ceil(64) + 1);
        u64::from(number / 64) * stride.max(1) * 64 + u64::from(number % 64)
    }

    pub fn read(&mut self, first: u32, count: u32) {
        let count = count.min(64 - first % 64);
        let (from, met) = self.what_may_be_met(first, count);
        let bytes = (count * self.geometry.unit_sectors) as usize * self.device.image_bytes();
        let pending = Pending { opcode: Opcode::Read, first, count, fua: false, from, met, ids: Vec::new() };
        self.send(pending, vec![0xAA; bytes]);
    }

    /// The first state of each block that a read may meet, and all of them.
    fn what_may_be_met(&mut self, first: u32, count: u32) -> (FirstMet, AllMet) {
        let from: Vec<(u32, u64)> = (first..first + count).map(|n| (n, self.block(n).present())).collect();
        let states = |&(n, id): &(u32, u64)| self.blocks[&n].since(id).map(move |&state| (n, state));
        let met = from.iter().flat_map(states).collect();
        (from, met)
    }

    fn exists(&mut self, first: u32, count: u32) {
        let count = count.min(64 - first % 64);
        let (from, met) = self.what_may_be_met(first, count);
        let pending = Pending {
            opcode: Opcode::Cache(CacheOp::Exists),
            first,
            count,
            fua: false,
            from,
            met,
            ids: Vec::new(),
        };
        self.send(pending, Vec::new());
    }

    pub fn flush(&mut self) {
        let known = |block: &Block| block.states.iter().rev().find(|s| s.acknowledged).map(|s| s.id);
        let from = self.blocks.iter().filter(|(_, b)| !b.unsettled && b.states.len() > 1);
        let from = from.filter_map(|(&n, b)| Some((n, known(b)?))).collect();
        let pending = Pending {
            opcode: Opcode::Flush,
            first: 0,
            count: 0,
            fua: false,
            from,
            met: Vec::new(),
            ids: Vec::new(),
        };
        self.send(pending, Vec::new());
    }

    pub fn change(&mut self, opcode: Opcode, first: u32, count: u32, fua: bool) {
        let count = count.min(64 - first % 64);
        if (first..first + count).any(|n| self.block(n).busy) {
            return;
        }
        let (mut ids, mut data) = (Vec::new(), Vec::new());
        let bytes = self.geometry.unit_sectors as usize * self.device.image_bytes();
        for number in first..first + count {
            self.next_id += 1;
            let id = self.next_id;
            let writes = matches!(opcode, Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty));
            self.next_version += u32::from(writes);
            let version = self.next_version;
            let block = self.block(number);
            block.busy = true;
            let known = block.newest();
            let state = match opcode {
                Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty) => State {
                    id,
                    version,
                    dirty: opcode == Opcode::Cache(CacheOp::WriteDirty),
                    acknowledged: false,
                },
                Opcode::Cache(CacheOp::Clean) => State { id, dirty: false, acknowledged: false, ..known },
                _ => State { id, version: 0, dirty: false, acknowledged: false },
            };
            if opcode == Opcode::Cache(CacheOp::Clean) && block.unsettled {
                // Whatever it is, it may be absent from now on.
                block.states.iter_mut().for_each(|state| state.dirty = false);
            } else {
                block.states.push(state);
                // Reads under way may meet it, and end when it is a thing of the past.
                let meets =
                    |p: &&mut Pending| (p.first..p.first + p.count).contains(&number) && p.ids.is_empty();
                self.pending.values_mut().filter(meets).for_each(|p| p.met.push((number, state)));
            }
            ids.push(id);
            if writes {
                data.extend(version.to_le_bytes().iter().copied().cycle().take(bytes));
            }
        }
        self.send(Pending { opcode, first, count, fua, from: Vec::new(), met: Vec::new(), ids }, data);
    }

    /// Runs the next event; `false`: the drive is at rest.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.device.next_event() else { return false };
        self.now = next;
        self.device.advance(next);
        self.collect();
        true
    }

    /// Returns whether to cut the power after this event.
    pub fn cut_now(&mut self) -> bool {
        self.cuts.chance(0.0005)
    }

    /// Runs until nothing is in flight.
    pub fn drain(&mut self) {
        while self.step() {}
        assert!(self.pending.is_empty(), "the drive is at rest and owes {:?}", self.pending);
    }

    fn collect(&mut self) {
        while let Some(completion) = self.device.pop() {
            let pending = self.pending.remove(&completion.tag).expect("a command ends once");
            match pending.opcode {
                Opcode::Read => self.check_read(&pending, &completion),
                Opcode::Cache(CacheOp::Exists) => self.check_exists(&pending, &completion),
                Opcode::Flush => self.flushed(&pending, completion.status),
                _ => self.changed(&pending, completion.status),
            }
        }
    }

    fn changed(&mut self, pending: &Pending, status: Status) {
        let durable = match pending.opcode {
            Opcode::Cache(CacheOp::Clean) => false,
            _ => self.durable || pending.fua,
        };
        let refused = status == Status::CacheFull;
        assert!(
            matches!(status, Status::Success | Status::PowerLoss)
                || (refused && pending.opcode != Opcode::Cache(CacheOp::Clean))
                || (self.lossy && matches!(status, Status::WriteFault | Status::ReadOnly)),
            "{:?} ended with {status:?}",
            pending.opcode
        );
        self.counts[2] += u64::from(refused);
        self.to_clean += if refused && self.cleans_when_full { 2 } else { 0 };
        for (number, &id) in (pending.first..).zip(&pending.ids) {
            let block = self.block(number);
            block.busy = false;
            match status {
                Status::Success => {
                    if let Some(state) = block.states.iter_mut().find(|state| state.id == id) {
                        state.acknowledged = true;
                        (block.unsettled, block.failed) = (false, false);
                        block.gone = None;
                        if durable {
                            block.states.retain(|state| state.id >= id);
                        }
                    }
                }
                Status::CacheFull => block.states.retain(|state| state.id != id),
                _ => {
                    block.unsettled = true;
                    block.failed |= status != Status::PowerLoss;
                    block.gone = None;
                    block.states.iter_mut().for_each(|state| state.acknowledged = true);
                }
            }
        }
    }

    fn flushed(&mut self, pending: &Pending, status: Status) {
        if status != Status::Success {
            assert!(status == Status::PowerLoss || self.lossy, "a flush ended with {status:?}");
            return;
        }
        for &(number, id) in &pending.from {
            let block = self.block(number);
            // It was cut off from what it was known to be meanwhile.
            if !block.unsettled {
                block.states.retain(|state| state.id >= id);
            }
        }
    }

    fn check_read(&mut self, pending: &Pending, completion: &Completion) {
        match completion.status {
            Status::Success => self.counts[0] += 1,
            Status::Absent => self.counts[1] += 1,
            Status::PowerLoss => return,
            Status::UnrecoveredRead if self.lossy => return,
            other => panic!("a read ended with {other:?}"),
        }
        let bytes = self.geometry.unit_sectors as usize * self.device.image_bytes();
        for (at, &(number, from)) in pending.from.iter().enumerate() {
            let absent = completion.status == Status::Absent;
            if absent && at as u64 != completion.result {
                continue;
            }
            let version = match absent {
                true => 0,
                false => {
                    let data = &completion.data[at * bytes..][..bytes];
                    let version = u32::from_le_bytes(data[..4].try_into().unwrap());
                    assert!(data.chunks(4).all(|word| word == &data[..4]), "block {number} is mixed");
                    assert_ne!(version, 0, "block {number} has data that nobody wrote");
                    version
                }
            };
            self.seen(number, (from, completion.tag), version, &pending.met);
        }
    }

    /// A block was read as this version; 0: absent. `from`: the first state that it may meet, and the tag of the read.
    fn seen(&mut self, number: u32, (from, tag): (u64, u64), version: u32, met: &[(u32, State)]) {
        let newest_tag = self.tag;
        let block = self.block(number);
        let may = |state: &&State| state.version == version || (version == 0 && !state.dirty);
        let mut met = met.iter().filter(|&&(of, _)| of == number);
        assert!(
            block.since(from).any(|state| may(&state)) || met.any(|(_, state)| may(&state)),
            "block {number} reads as version {version}, and is {:?} since {from}",
            block.states
        );
        let newest = block.newest().id;
        assert!(
            version == 0 || from < newest || block.gone.is_none_or(|(id, at)| id != newest || tag <= at),
            "block {number} was absent and is back: {block:?}"
        );
        if block.busy {
            return;
        }
        if version == 0 && from == block.present() {
            block.gone = Some((newest, newest_tag));
        }
        if block.unsettled && !block.failed {
            block.states.retain(|state| may(&state));
            block.unsettled = block.states.len() > 1;
        }
    }

    fn check_exists(&mut self, pending: &Pending, completion: &Completion) {
        if completion.status != Status::Success {
            return assert_eq!(completion.status, Status::PowerLoss);
        }
        assert_eq!(completion.data.len(), pending.count as usize);
        for (&(number, from), &raw) in pending.from.iter().zip(&completion.data) {
            let state = CacheState::from_raw(raw).expect("a state");
            let block = self.block(number);
            let fits = |s: &State| match state {
                CacheState::Absent => !s.dirty,
                CacheState::Clean => !s.dirty && s.version > 0,
                // The power may have made it so again.
                CacheState::Dirty => s.version > 0,
            };
            let mut met = pending.met.iter().filter(|&&(of, _)| of == number);
            assert!(
                block.since(from).any(fits) || met.any(|(_, state)| fits(state)),
                "block {number} is {state:?}, and may be {:?}",
                block.states
            );
        }
        let sectors = u64::from(self.geometry.unit_sectors);
        let (first, next) = (self.address(pending.first), completion.result / sectors);
        for (&number, block) in &self.blocks {
            let must = !block.busy && block.states.iter().all(|state| state.dirty);
            let at = self.address(number);
            assert!(!must || at < first || at >= next, "block {number} is dirty and was passed by");
        }
    }

    /// Cuts the power, and looks at what is left of every block.
    pub fn power_cut(&mut self) {
        self.device.power_cut().unwrap_or_else(|e| panic!("{e}"));
        self.collect();
        assert!(self.pending.is_empty(), "the power was cut, and commands are owed");
        for block in self.blocks.values_mut() {
            (block.unsettled, block.failed, block.gone) = (true, false, None);
            block.states.iter_mut().for_each(|state| state.acknowledged = true);
        }
        self.device.check();
    }

    /// Reads every block that was ever named.
    pub fn look(&mut self) {
        for number in self.blocks.keys().copied().collect::<Vec<_>>() {
            self.read(number, 1);
            while self.in_flight() > 8 {
                assert!(self.step());
            }
        }
        self.drain();
    }
}
