//! `original`: slabs are ranges of an ordinary block drive, which does mapping, garbage collection and erases internally.
//!
//! A share of the drive is never written (static over-provisioning): the drive's garbage collection uses it as spare space. A place is overwritten by
//! its next slab; nothing is trimmed.

use super::writer::Writer;
use super::{DISCARD, EngineCounters, Event, FLUSH, Io, KIND, READ, Shape, WIPE, WRITE};
use crate::index::Entry;
use crate::slabs::Buffers;
use crate::{KvConfig, OverProvisioning};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Opcode, Status, Tag};
use std::collections::VecDeque;

/// Maximum slabs in flight to a drive that spreads each over its units, and pieces of each.
const WRITES_MAX: u32 = 4;
const DEPTH: u32 = 2;
/// Consecutive failures after which the drive rests.
const FAILURES_MAX: u32 = 8;
/// Alignment of slabs.
const ALIGNMENT: u32 = 64 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Original {
    namespace: u16,
    shape: Shape,
    /// Location of each slab; `NIL`: none.
    places: Vec<u32>,
    /// At a start: places that are kept.
    kept: Vec<bool>,
    free: VecDeque<u32>,
    /// Places that were free when the flash below had no room for them.
    without_flash: Vec<u32>,
    writer: Writer,
    failures_in_a_row: u32,
    read_only: bool,
    counters: EngineCounters,
}

impl Original {
    pub fn new(config: &KvConfig, drive: &impl Drive, slab_least: u32) -> Result<Original, String> {
        let found = (0..drive.namespaces()).find_map(|number| match drive.interface(number) {
            Some(Interface::Block { sectors, .. }) => Some((number, sectors)),
            _ => None,
        });
        let (namespace, sectors) =
            found.ok_or("engine \"original\" needs a block namespace, and the drive has none")?;
        let sector_bytes = drive.image_bytes() as u32;
        let bytes = sectors * u64::from(sector_bytes);
        let wanted = match config.slab_bytes {
            0 => slab_least.max(1 << 20).next_multiple_of(ALIGNMENT),
            bytes => bytes,
        };
        let slab_bytes = wanted.next_multiple_of(sector_bytes);
        Original::on(config, namespace, sector_bytes, slab_bytes, bytes, bytes, WRITES_MAX)
    }

    /// Slabs on a range of a block interface, `servers` of them in flight at a time: on what over-provisioning leaves of `all` bytes, and at most
    /// `most` bytes.
    pub fn on(
        config: &KvConfig,
        namespace: u16,
        sector_bytes: u32,
        slab_bytes: u32,
        all: u64,
        most: u64,
        servers: u32,
    ) -> Result<Original, String> {
        let share = match config.over_provisioning {
            OverProvisioning::Fixed(share) => share,
            OverProvisioning::Dynamic => {
                return Err("kv.over_provisioning = \"dynamic\" needs an engine that owns its blocks (function, raw, direct); \
                            allowed here: a share, such as 0.25"
                    .into());
            }
        };
        let bytes = if config.capacity_bytes == 0 { all } else { all.min(config.capacity_bytes) };
        let bytes = ((bytes as f64 * (1.0 - share)) as u64).min(most);
        let slabs = (bytes / u64::from(slab_bytes)).min(Entry::SLABS_MAX.into()) as u32;
        let shape = Shape { slab_bytes, sector_bytes, slabs, places_each: 1, servers, service_s: 0.0 };
        Ok(Original {
            namespace,
            shape,
            places: Vec::new(),
            kept: vec![false; slabs as usize],
            free: VecDeque::new(),
            without_flash: Vec::new(),
            writer: Writer::new(slab_bytes, slab_bytes, sector_bytes, DEPTH),
            failures_in_a_row: 0,
            read_only: false,
            counters: EngineCounters::default(),
        })
    }

    pub fn fresh(&self) -> Original {
        let Shape { slab_bytes, sector_bytes, slabs, .. } = self.shape;
        Original {
            places: Vec::new(),
            kept: vec![false; slabs as usize],
            free: VecDeque::new(),
            without_flash: Vec::new(),
            writer: Writer::new(slab_bytes, slab_bytes, sector_bytes, DEPTH),
            failures_in_a_row: 0,
            read_only: false,
            ..*self
        }
    }

    fn lba(&self, place: u32, sector: u32) -> Lba {
        let each = self.shape.slab_bytes / self.shape.sector_bytes;
        Lba(u64::from(place) * u64::from(each) + u64::from(sector))
    }

    fn command(&self, tag: Tag, opcode: Opcode, lba: Lba, data: Vec<u8>) -> Command {
        let sectors = data.len() as u32 / self.shape.sector_bytes;
        Command { namespace: self.namespace, ..Command::new(tag, opcode, lba, sectors, data) }
    }

    pub fn namespace(&self) -> u16 {
        self.namespace
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn is_started(&self) -> bool {
        true
    }

    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    pub fn is_ready(&self) -> bool {
        !self.read_only && self.writer.len() < self.shape.servers as usize && !self.free.is_empty()
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn resting(&self) -> u64 {
        self.read_only.into()
    }

    pub fn try_again(&mut self, _io: &mut Io) {
        (self.read_only, self.failures_in_a_row) = (false, FAILURES_MAX - 1);
    }

    /// Discards for places without a slab, so that the level below keeps no data for them.
    pub fn discards(&self) -> impl Iterator<Item = Command> + '_ {
        self.free.iter().map(|&place| self.discard(place))
    }

    /// Tells the level below that a place has no slab.
    pub fn discard(&self, place: u32) -> Command {
        let sectors = self.shape.slab_bytes / self.shape.sector_bytes;
        let discard = Command::new(DISCARD, Opcode::Trim, self.lba(place, 0), sectors, Vec::new());
        Command { namespace: self.namespace, ..discard }
    }

    /// The flash below has no room for more slabs than there are: free places are used no more.
    pub fn shrink(&mut self) {
        self.without_flash.extend(self.free.drain(..));
    }

    /// Places that are used no more.
    pub fn without_flash(&self) -> u32 {
        self.without_flash.len() as u32
    }

    pub fn write(&mut self, slab: u32, buffer: u32, forced: bool) {
        let place = self.free.pop_front().expect("it is ready");
        *self.place_mut(slab) = place;
        self.writer.begin(slab, buffer, forced);
    }

    fn place_mut(&mut self, slab: u32) -> &mut u32 {
        let at = slab as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, NIL);
        }
        &mut self.places[at]
    }

    #[inline]
    pub fn read(&mut self, io: &mut Io, tag: Tag, slab: u32, sector: u32, sectors: u32) -> u32 {
        let lba = self.lba(self.places[slab as usize], sector);
        let data = io.image((sectors * self.shape.sector_bytes) as usize);
        io.read_bytes += data.len() as u64;
        io.down.push_back(self.command(tag, Opcode::Read, lba, data));
        1
    }

    pub fn release(&mut self, slab: u32) {
        let place = std::mem::replace(self.place_mut(slab), NIL);
        self.free.push_back(place);
    }

    pub fn wipe(&mut self, io: &mut Io, slab: u32) {
        let place = self.places[slab as usize];
        let mut zeros = io.image(self.shape.sector_bytes as usize);
        zeros.fill(0);
        let wipe = self.command(WIPE | Tag::from(slab), Opcode::Write, self.lba(place, 0), zeros);
        io.down.push_back(Command { fua: true, ..wipe });
    }

    pub fn places(&self, slab: u32) -> &[u32] {
        std::slice::from_ref(&self.places[slab as usize])
    }

    pub fn candidates(&self) -> Vec<u32> {
        (0..self.shape.slabs).collect()
    }

    pub fn peek(&mut self, io: &mut Io, tag: Tag, place: u32) {
        let data = io.image(self.shape.sector_bytes as usize);
        io.down.push_back(self.command(tag, Opcode::Read, self.lba(place, 0), data));
    }

    pub fn adopt(&mut self, slab: u32, places: &[u32]) -> bool {
        let [place] = *places else { return false };
        let Some(kept @ false) = self.kept.get_mut(place as usize) else { return false };
        *kept = true;
        *self.place_mut(slab) = place;
        true
    }

    pub fn begin(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let held = |place: &u32| self.places.contains(place);
        self.free = (0..self.shape.slabs).filter(|place| !kept[*place as usize] || !held(place)).collect();
    }

    pub fn next_command(&mut self, io: &mut Io, buffers: &Buffers, stopped: bool) -> Option<Command> {
        if let Some(command) = io.down.pop_front() {
            return Some(command);
        }
        if stopped {
            return None;
        }
        if self.read_only {
            return None;
        }
        let piece = self.writer.next()?;
        let data = io.copy(&buffers.get(piece.buffer)[piece.from as usize..piece.to as usize]);
        io.written_bytes += data.len() as u64;
        let lba = self.lba(self.places[piece.slab as usize], piece.from / self.shape.sector_bytes);
        let write = self.command(WRITE | Tag::from(piece.slab), Opcode::Write, lba, data);
        Some(Command { fua: piece.forced, ..write })
    }

    pub fn complete(&mut self, io: &mut Io, completion: &mut Completion) {
        let (tag, status) = (completion.tag, completion.status);
        let data = std::mem::take(&mut completion.data);
        match tag & KIND {
            READ if status == Status::Success => io.events.push_back(Event::Read { tag, data: Some(data) }),
            READ => {
                io.put_back(data);
                io.events.push_back(Event::Read { tag, data: None });
            }
            FLUSH => io.events.push_back(Event::Flushed),
            DISCARD => {}
            WIPE => {
                io.put_back(data);
                self.release(tag as u32);
                io.events.push_back(Event::Wiped { good: status == Status::Success });
            }
            _ => {
                io.put_back(data);
                self.written(io, tag as u32, status);
            }
        }
    }

    fn written(&mut self, io: &mut Io, slab: u32, status: Status) {
        let good = status == Status::Success;
        let Some(good) = self.writer.ended(slab, good) else { return };
        if good {
            self.failures_in_a_row = 0;
        } else {
            self.counters.failures += 1;
            self.failures_in_a_row += 1;
            self.read_only |= status == Status::ReadOnly || self.failures_in_a_row >= FAILURES_MAX;
            self.release(slab);
        }
        io.events.push_back(Event::Written { slab, good });
    }

    pub fn counters(&self) -> EngineCounters {
        EngineCounters { resting: self.resting(), ..self.counters }
    }

    pub fn check(&self) {
        let used = self.places.iter().filter(|&&place| place != NIL).count();
        let unused = self.free.len() + self.without_flash.len();
        assert_eq!(used + unused, self.shape.slabs as usize, "a place is lost");
    }
}
