//! Chunks: the thin translation of an open-channel namespace.
//!
//! A parallel unit is a die and a chunk is an erase unit, so an address is a physical place. Each chunk has a state and two pointers;
//! there is no map. The rules of writing are checked before anything changes.
//!
//! ```text
//!           reserve                all written, or a failed write
//!   free ────────────► open ────────────────────────────► closed         written ≤ reserved ≤ superpages
//!    ▲                   │                                   │           │ read   │ in the die's queue
//!    └── reset_done ◄────┴─────── reset_begin ◄──────────────┘
//!              └─ erase failed, or the block was retired ──► offline
//! ```
//! With [`Management::Shared`] (class c of LightNVM's Fig. 1) the drive chooses the erase unit of a chunk when the chunk is first
//! written: wear is levelled and bad blocks are replaced below the chunks, at the cost of one number per chunk.
//!
//! Invariants: `written <= reserved`; superpages between the two are on their way to the media in the order of addresses; a chunk has a
//! block unless it is free under [`Management::Shared`], or offline; the open counts are the chunks in state open.

use crate::MountSource;
use crate::pool::Pool;
use pellucid_flash::{
    BlockId, BlockStream, BlockUse, BlockView, ChunkAddress, ChunkGeometry, ChunkInfo, ChunkState, DieId,
    Divisor, Layout, Lba, Lpn, Ppa, Status,
};
use std::ops::Range;

/// Owner of media management: host or drive (Fig. 1 of the LightNVM extended abstract).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// The host: chunk n always is erase unit n, good or bad.
    Host,
    /// Shared: the drive levels wear and handles errors below the chunks, with spare blocks of every die.
    Shared {
        /// Erase units of every die beyond the chunks.
        spare_blocks: u32,
    },
}

/// Effect of a failed program on its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The chunk is closed before its end (status 2F1h), and goes offline when it is reset.
    CloseChunk,
    /// The host goes on in the next write unit (status 2F0h).
    NextUnit,
}

/// An open-channel namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkConfig {
    /// Blocks of every die.
    pub blocks: Range<u32>,
    /// Class of management.
    pub management: Management,
    /// `ws_opt`, in programs.
    pub write_optimal_superpages: u32,
    /// `mw_cunits`, in programs: the last programs of an open chunk, which cannot be read yet.
    pub cached_superpages: u32,
    /// `maxoc`; 0: any number.
    pub open_max: u32,
    /// `maxocpu`; 0: any number.
    pub open_per_unit_max: u32,
    /// Effect of a failed program.
    pub failure: WriteFailure,
    /// Erases at which the wear index is 255.
    pub rated_erases: u32,
}

/// One program of a chunk to carry out. Its units go to `first`, `first + 1`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlan {
    /// Number of the chunk; goes to the spare area as the logical page.
    pub chunk: u32,
    /// First unit of the superpage.
    pub first: Ppa,
}

/// Work that a chunk reset needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkReset {
    /// Erase the chunk's block, then call [`Chunks::reset_end`].
    Erase {
        /// Number of the chunk.
        chunk: u32,
        /// Its block.
        block: BlockId,
    },
    /// No erase: the chunk's block is retired, and its content is given up. The reset has ended with this status.
    Retired {
        /// The block.
        block: BlockId,
        /// How the reset ended.
        status: Status,
    },
    /// The chunk is being refreshed: ask again when that has ended.
    Later,
}

const NONE: BlockId = BlockId(u32::MAX);

/// Gap after numbers that cannot be read in torn superpages; no drive has more programs under way than this. It must not be larger: a
/// chunk that stays open over many mounts cannot move to another block, and its numbers count from its first in 32 bits.
const SEQUENCE_GAP: u64 = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub block: BlockId,
    /// Superpages promised to writes.
    reserved: u32,
    /// Superpages that were programmed, or failed.
    pub written: u32,
    pub state: ChunkState,
    /// Programs planned and not ended.
    pub in_flight: u32,
    /// An erase has begun.
    pub resetting: bool,
    /// The block is no longer trusted: programs planned for it fail, and a reset retires it.
    pub broken: bool,
    /// The chunk is being refreshed, or the block left over from that is being erased.
    pub moving: bool,
}

/// The chunks of one namespace.
#[derive(Clone, Debug)]
pub struct Chunks {
    config: ChunkConfig,
    pub(crate) layout: Layout,
    pub(crate) geometry: ChunkGeometry,
    /// Bit widths of the fields of the geometry's addresses, which are split for every sector.
    address_bits: [u32; 4],
    superpage_sectors: Divisor,
    pub(crate) chunks: Vec<Chunk>,
    open: u32,
    open_of_die: Vec<u32>,
    free: u32,
    pub(crate) pool: Pool,
    sequence: u64,
}

impl ChunkConfig {
    /// Geometry of the namespace on media of this layout. Of `times` only the times count.
    pub fn geometry(&self, layout: &Layout, times: ChunkGeometry) -> ChunkGeometry {
        let spare = match self.management {
            Management::Host => 0,
            Management::Shared { spare_blocks } => spare_blocks,
        };
        let superpage_sectors = layout.units_per_superpage * layout.sectors_per_unit;
        ChunkGeometry {
            groups: layout.channels,
            units: layout.dies_per_channel,
            chunks: self.blocks.len() as u32 - spare,
            chunk_sectors: superpage_sectors * layout.superpages_per_block,
            sector_bytes: layout.sector_bytes,
            write_min_sectors: superpage_sectors,
            write_optimal_sectors: superpage_sectors * self.write_optimal_superpages,
            cached_sectors: superpage_sectors * self.cached_superpages,
            open_chunks_max: self.open_max,
            open_chunks_per_unit_max: self.open_per_unit_max,
            ..times
        }
    }
}

impl Chunks {
    /// Mounts the chunks of the media behind `source`. Also returns the blocks that must be erased before anything else happens
    /// ([`Chunks::erased_at_mount`]). Of `times` only the times count.
    pub fn mount(
        config: &ChunkConfig,
        layout: &Layout,
        times: ChunkGeometry,
        source: &impl MountSource,
    ) -> (Chunks, Vec<BlockId>) {
        let superpage_sectors = layout.units_per_superpage * layout.sectors_per_unit;
        let geometry = config.geometry(layout, times);
        let per_die = geometry.chunks;
        let free = Chunk {
            block: NONE,
            reserved: 0,
            written: 0,
            in_flight: 0,
            state: ChunkState::Free,
            resetting: false,
            broken: false,
            moving: false,
        };
        let mut chunks = Chunks {
            pool: Pool::new(layout, config.blocks.clone()),
            config: config.clone(),
            layout: layout.clone(),
            address_bits: geometry.address_bits(),
            geometry,
            superpage_sectors: Divisor::new(superpage_sectors),
            chunks: vec![free; (per_die * layout.dies) as usize],
            open: 0,
            open_of_die: vec![0; layout.dies as usize],
            free: 0,
            sequence: 1,
        };
        let erase = match config.management {
            Management::Host => chunks.mount_identity(source),
            Management::Shared { .. } => chunks.mount_shared(source),
        };
        for number in 0..chunks.chunks.len() {
            chunks.tally(number as u32, 1);
        }
        (chunks, erase)
    }

    fn mount_identity(&mut self, source: &impl MountSource) -> Vec<BlockId> {
        for number in 0..self.chunks.len() as u32 {
            let die = DieId(number / self.geometry.chunks);
            let block = self.pool.block(die, number % self.geometry.chunks);
            self.pool.set_erases(block, source.erases(block));
            self.adopt(number, block, source);
        }
        Vec::new()
    }

    /// Assigns to each chunk the newest block that names it, or the longer one of a block and its unfinished copy. Returns the other used
    /// blocks: they were being replaced and must be erased.
    fn mount_shared(&mut self, source: &impl MountSource) -> Vec<BlockId> {
        let mut newest = vec![((0, 0), NONE); self.chunks.len()];
        let mut erase = Vec::new();
        for block in self.pool.all() {
            self.pool.set_erases(block, source.erases(block));
            if source.used_superpages(block) == 0 {
                match source.is_bad(block) {
                    true => self.pool.retire(block),
                    false => self.pool.give(block),
                }
                continue;
            }
            match self.readable(block, source).next().map(|(_, spare)| spare) {
                Some((Lpn(chunk), sequence)) if (chunk as usize) < newest.len() => {
                    let other = &mut newest[chunk as usize];
                    let rank = (sequence, self.readable(block, source).count());
                    let older =
                        if rank > other.0 { std::mem::replace(other, (rank, block)).1 } else { block };
                    erase.extend((older != NONE).then_some(older));
                }
                _ => erase.push(block),
            }
        }
        for (number, &(_, block)) in newest.iter().enumerate().filter(|(_, n)| n.1 != NONE) {
            self.adopt(number as u32, block, source);
        }
        erase.retain(|&block| {
            if source.is_bad(block) {
                self.pool.retire(block);
            }
            !source.is_bad(block)
        });
        erase
    }

    /// Records, at a mount, that a block that [`Chunks::mount`] asked to erase is erased, or has failed.
    pub fn erased_at_mount(&mut self, block: BlockId, ok: bool, erases: u32) {
        self.pool.set_erases(block, erases);
        if ok { self.pool.give(block) } else { self.pool.retire(block) }
    }

    fn readable<'a>(
        &'a self,
        block: BlockId,
        source: &'a impl MountSource,
    ) -> impl DoubleEndedIterator<Item = (u32, (Lpn, u64))> + 'a {
        (0..source.used_superpages(block)).filter_map(move |superpage| {
            let unit = self.layout.ppa(block, superpage * self.layout.units_per_superpage);
            source.spare(unit).map(|spare| (superpage, spare))
        })
    }

    /// Sets chunk `number` to the content of `block`.
    fn adopt(&mut self, number: u32, block: BlockId, source: &impl MountSource) {
        let used = source.used_superpages(block);
        let last = self.readable(block, source).next_back();
        // A block whose superpages are all torn was begun with a number that no spare area holds, and may be written on.
        if used > 0 {
            let newest = last.map_or(0, |(_, (_, sequence))| sequence).max(source.begun(block));
            self.sequence = self.sequence.max(newest + SEQUENCE_GAP);
        }
        let (state, written) = match source.is_bad(block) {
            // Closed by a failure: the superpages before it can be read until the reset.
            true => {
                last.map_or((ChunkState::Offline, 0), |(superpage, _)| (ChunkState::Closed, superpage + 1))
            }
            false if used == 0 => (ChunkState::Free, 0),
            false if used == self.layout.superpages_per_block => (ChunkState::Closed, used),
            false => (ChunkState::Open, used),
        };
        let broken = source.is_bad(block);
        let chunk = &mut self.chunks[number as usize];
        *chunk = Chunk { block, reserved: written, written, state, broken, ..*chunk };
    }

    /// Geometry of the namespace, as hosts see it.
    pub fn geometry(&self) -> &ChunkGeometry {
        &self.geometry
    }

    /// Chunks in all.
    pub fn count(&self) -> u32 {
        self.chunks.len() as u32
    }

    pub(crate) fn die(&self, number: u32) -> DieId {
        DieId(number / self.geometry.chunks)
    }

    /// Adds a chunk to the count of its state, or (-1) removes it.
    fn tally(&mut self, number: u32, by: i32) {
        let die = self.die(number).0 as usize;
        let add = |count: &mut u32| *count = count.wrapping_add_signed(by);
        match self.chunks[number as usize].state {
            ChunkState::Free => add(&mut self.free),
            ChunkState::Open => {
                add(&mut self.open);
                add(&mut self.open_of_die[die]);
            }
            ChunkState::Closed | ChunkState::Offline => {}
        }
    }

    fn set_state(&mut self, number: u32, state: ChunkState) {
        self.tally(number, -1);
        self.chunks[number as usize].state = state;
        self.tally(number, 1);
    }

    /// The number of the chunk that holds `lba`.
    pub fn number(&self, lba: Lba) -> Option<u32> {
        self.address(lba).map(|address| self.geometry.chunk_number(address))
    }

    #[inline]
    fn address(&self, lba: Lba) -> Option<ChunkAddress> {
        self.geometry.address_by(self.address_bits, lba)
    }

    /// Location of a sector: its unit and the sector of the unit; `None` if it cannot be read, because there is no such sector, it was
    /// not written, or the drive still holds it back.
    #[inline]
    pub fn locate(&self, lba: Lba) -> Option<(Ppa, u32)> {
        let address = self.address(lba)?;
        let chunk = &self.chunks[self.geometry.chunk_number(address) as usize];
        let readable = match chunk.state {
            ChunkState::Closed => chunk.written,
            ChunkState::Open => chunk.written.saturating_sub(self.config.cached_superpages),
            ChunkState::Free | ChunkState::Offline => 0,
        };
        if address.sector >= readable * self.superpage_sectors.get() || chunk.resetting {
            return None;
        }
        let (unit, sector) = self.layout.split.sectors_per_unit.div_rem(address.sector);
        Some((self.layout.ppa(chunk.block, unit), sector))
    }

    /// Reserves superpages for the writes of one command, all or none: `sectors` addresses, `address(i)` for the i-th. Every
    /// `write_min_sectors` of them must be one superpage at its chunk's write pointer.
    pub fn reserve(
        &mut self,
        sectors: u32,
        address: impl Fn(u32) -> Lba,
        plans: &mut Vec<ChunkPlan>,
    ) -> Result<(), Status> {
        plans.clear();
        let (superpages, rest) = self.superpage_sectors.div_rem(sectors);
        if rest > 0 {
            return Err(Status::ChunkOutOfOrder);
        }
        let length = self.superpage_sectors.get();
        for superpage in 0..superpages {
            let first = superpage * length;
            let lba = address(first);
            let in_order = (1..length).all(|i| address(first + i).0 == lba.0.wrapping_add(i.into()));
            let plan = if in_order { self.reserve_superpage(lba) } else { Err(Status::ChunkOutOfOrder) };
            match plan {
                Ok(plan) => plans.push(plan),
                Err(status) => {
                    for plan in plans.drain(..).rev() {
                        self.take_back(plan.chunk);
                    }
                    return Err(status);
                }
            }
        }
        Ok(())
    }

    fn reserve_superpage(&mut self, lba: Lba) -> Result<ChunkPlan, Status> {
        let address = self.address(lba).ok_or(Status::ChunkWriteInvalid)?;
        let (number, sector) = (self.geometry.chunk_number(address), address.sector);
        let chunk = self.chunks[number as usize];
        let writable = matches!(chunk.state, ChunkState::Free | ChunkState::Open);
        if !writable || chunk.resetting || chunk.broken || chunk.reserved == self.layout.superpages_per_block
        {
            return Err(Status::ChunkWriteInvalid);
        }
        if sector != chunk.reserved * self.superpage_sectors.get() {
            return Err(Status::ChunkOutOfOrder);
        }
        if chunk.state == ChunkState::Free {
            self.open_chunk(number)?;
        }
        let chunk = &mut self.chunks[number as usize];
        let first = self.layout.ppa(chunk.block, chunk.reserved * self.layout.units_per_superpage);
        chunk.reserved += 1;
        chunk.in_flight += 1;
        Ok(ChunkPlan { chunk: number, first })
    }

    /// Opens a free chunk at its first write. The specification names no status for one chunk too many; this returns that of a write to a
    /// chunk that cannot take it.
    fn open_chunk(&mut self, number: u32) -> Result<(), Status> {
        let die = self.die(number);
        let over = |limit: u32, open: u32| limit > 0 && open >= limit;
        if over(self.config.open_max, self.open)
            || over(self.config.open_per_unit_max, self.open_of_die[die.0 as usize])
        {
            return Err(Status::ChunkWriteInvalid);
        }
        if self.chunks[number as usize].block == NONE {
            // No block is left for the chunk: the die has lost more than its spares.
            let Some(block) = self.pool.take(die) else {
                self.set_state(number, ChunkState::Offline);
                return Err(Status::ChunkWriteInvalid);
            };
            self.chunks[number as usize].block = block;
        }
        self.set_state(number, ChunkState::Open);
        Ok(())
    }

    /// Undoes the last reservation of a chunk.
    fn take_back(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        chunk.reserved -= 1;
        chunk.in_flight -= 1;
        if chunk.reserved == 0 {
            let block = chunk.block;
            if self.config.management != Management::Host {
                chunk.block = NONE;
                self.pool.give(block);
            }
            self.set_state(number, ChunkState::Free);
        }
    }

    /// Begins a planned program and returns its sequence number for the spare area; `None`: an earlier program in its chunk has failed,
    /// so this one must end as failed without starting.
    pub fn program_begins(&mut self, number: u32) -> Option<u64> {
        self.sequence += 1;
        (!self.chunks[number as usize].broken).then_some(self.sequence)
    }

    /// Owner of media management: host or drive.
    pub fn management(&self) -> Management {
        self.config.management
    }

    /// Erase counts of the most and the least worn usable chunk in the parallel unit of chunk `number`.
    pub fn wear_range(&self, number: u32) -> (u32, u32) {
        let first = self.die(number).0 * self.geometry.chunks;
        let (mut least, mut most) = (u32::MAX, 0);
        for chunk in &self.chunks[first as usize..(first + self.geometry.chunks) as usize] {
            if chunk.block != NONE && chunk.state != ChunkState::Offline {
                let erases = self.pool.erases(chunk.block);
                (least, most) = (least.min(erases), most.max(erases));
            }
        }
        (least.min(most), most)
    }

    /// Ends a planned program. Returns the status of the write, and the block if it must be retired.
    pub fn written(&mut self, number: u32, ok: bool) -> (Status, Option<BlockId>) {
        let chunk = &mut self.chunks[number as usize];
        chunk.in_flight -= 1;
        let end = if ok {
            chunk.written += 1;
            (Status::Success, None)
        } else if chunk.broken {
            (Status::ChunkClosedEarly, None)
        } else if self.config.failure == WriteFailure::NextUnit {
            chunk.written += 1;
            (Status::ChunkWriteFailed, None)
        } else {
            chunk.broken = true;
            chunk.reserved = chunk.written;
            let block = chunk.block;
            self.set_state(number, ChunkState::Closed);
            return (Status::ChunkClosedEarly, Some(block));
        };
        if self.chunks[number as usize].written == self.layout.superpages_per_block {
            self.set_state(number, ChunkState::Closed);
        }
        end
    }

    /// Begins to reset the chunk that holds `lba`.
    pub fn reset_begin(&mut self, lba: Lba) -> Result<ChunkReset, Status> {
        let number = self.number(lba).ok_or(Status::ChunkInvalidReset)?;
        let chunk = &mut self.chunks[number as usize];
        match chunk.state {
            ChunkState::Offline => return Err(Status::ChunkOffline),
            ChunkState::Free => return Err(Status::ChunkInvalidReset),
            // Programs for the chunk are under way.
            _ if chunk.resetting || chunk.in_flight > 0 => return Err(Status::ChunkInvalidReset),
            _ => {}
        }
        if chunk.moving {
            return Ok(ChunkReset::Later);
        }
        let block = chunk.block;
        if chunk.broken {
            return Ok(ChunkReset::Retired { block, status: self.reset_end(number, false, 0) });
        }
        chunk.resetting = true;
        Ok(ChunkReset::Erase { chunk: number, block })
    }

    /// Ends the erase of a chunk's block, which has had `erases` erases now. Returns the status of the reset.
    pub fn reset_end(&mut self, number: u32, ok: bool, erases: u32) -> Status {
        let chunk = &mut self.chunks[number as usize];
        let block = chunk.block;
        (chunk.resetting, chunk.broken, chunk.reserved, chunk.written) = (false, false, 0, 0);
        let shared = self.config.management != Management::Host;
        if shared {
            chunk.block = NONE;
        }
        if ok {
            self.pool.set_erases(block, erases);
        } else {
            self.pool.retire(block);
        }
        match (ok, shared) {
            (true, true) => self.pool.give(block),
            // Another block will replace it.
            (false, true) if self.pool.free_count(self.die(number)) > 0 => {}
            (true, false) => {}
            (false, _) => {
                self.set_state(number, ChunkState::Offline);
                return Status::ChunkOffline;
            }
        }
        self.set_state(number, ChunkState::Free);
        Status::Success
    }

    /// The blocks of chunks that hold anything, as an observer sees them; without erase counts.
    pub fn block_views(&self) -> impl Iterator<Item = (BlockId, BlockView)> + use<'_> {
        let units = self.layout.units_per_superpage;
        let held = self.chunks.iter().filter(|chunk| chunk.block != NONE);
        held.filter(|chunk| chunk.state != ChunkState::Free).map(move |chunk| {
            let usage = match chunk.state {
                _ if chunk.resetting => BlockUse::Erasing,
                ChunkState::Open => BlockUse::Open,
                ChunkState::Closed => BlockUse::Full,
                ChunkState::Free | ChunkState::Offline => BlockUse::Bad,
            };
            let view =
                BlockView { usage, stream: BlockStream::Direct, units: chunk.written * units, erases: 0 };
            (chunk.block, view)
        })
    }

    /// Erased blocks that hold nothing.
    pub fn free_blocks(&self) -> u32 {
        match self.config.management {
            Management::Host => self.free,
            Management::Shared { .. } => self.pool.free_total(),
        }
    }

    /// Wear index for hosts: 255 at the rated erases of a block.
    pub fn wear_index(&self, erases: u32) -> u8 {
        (u64::from(erases) * 255 / u64::from(self.config.rated_erases.max(1))).min(255) as u8
    }

    /// Descriptor of chunk `number`, as reports give it.
    pub fn info(&self, number: u32) -> ChunkInfo {
        let chunk = &self.chunks[number as usize];
        let wear_index = match chunk.block {
            NONE => 0,
            block => self.wear_index(self.pool.erases(block)),
        };
        ChunkInfo {
            state: chunk.state,
            wear_index,
            start: self.geometry.lba(self.geometry.chunk_at(number)),
            sectors: self.geometry.chunk_sectors,
            write_pointer: chunk.written * self.superpage_sectors.get(),
        }
    }

    /// Bytes of memory that a drive would need for its chunks.
    pub fn memory_bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<Chunk>()) as u64 + self.pool.memory_bytes()
    }

    /// Walks every invariant and panics, naming it, where one is broken.
    pub fn check(&self) {
        self.pool.check();
        let mut open_of_die = vec![0; self.open_of_die.len()];
        for (number, chunk) in self.chunks.iter().enumerate() {
            let pointers =
                chunk.written <= chunk.reserved && chunk.reserved <= self.layout.superpages_per_block;
            let idle = chunk.in_flight > 0 || chunk.written == chunk.reserved;
            assert!(pointers && idle, "chunk {number}: {chunk:?}");
            let without = chunk.block == NONE;
            let may_lack = match chunk.state {
                ChunkState::Free => self.config.management != Management::Host,
                ChunkState::Offline => true,
                ChunkState::Open | ChunkState::Closed => false,
            };
            assert!(!without || may_lack, "chunk {number} has no block: {chunk:?}");
            open_of_die[self.die(number as u32).0 as usize] += u32::from(chunk.state == ChunkState::Open);
        }
        assert_eq!(open_of_die, self.open_of_die, "open chunks of the dies");
        assert_eq!(open_of_die.iter().sum::<u32>(), self.open, "open chunks");
        let free = self.chunks.iter().filter(|chunk| chunk.state == ChunkState::Free).count();
        assert_eq!(free, self.free as usize, "free chunks");
    }
}
