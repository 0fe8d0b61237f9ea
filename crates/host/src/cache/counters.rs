//! Counters of a cache.

use super::core::Core;
use pellucid_flash::{Command, Figure, Opcode, Status};

/// Counters of a cache manager. A command counts each of its blocks once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Blocks read that were cached.
    pub read_hits: u64,
    /// Blocks read that were not cached.
    pub read_misses: u64,
    /// Blocks written to the flash.
    pub write_hits: u64,
    /// Blocks written past the flash.
    pub write_arounds: u64,
    /// Blocks of sequential streams that bypassed the cache.
    pub bypassed: u64,
    /// Blocks filled into the cache after a read or a write-through write.
    pub fills: u64,
    /// Blocks written in part, with the rest read first.
    pub partial_writes: u64,
    /// Dirty blocks that became clean.
    pub cleaned: u64,
    /// Blocks that became dirty.
    pub dirtied: u64,
    /// Dirty blocks that the flash could not read, and that a detach has dropped.
    pub given_up: u64,
    /// Writes that found no slot, or a cache full of dirty blocks.
    pub full: u64,
    /// Reads that failed on the flash.
    pub flash_read_errors: u64,
    /// Writes, evictions and record writes that failed on the flash.
    pub flash_write_errors: u64,
    /// Reads that failed on the backing store.
    pub backing_read_errors: u64,
    /// Writes and flushes that failed on the backing store.
    pub backing_write_errors: u64,
    /// Commands answered with an error.
    pub failed: u64,
    /// Commands sent to the flash.
    pub flash_commands: u64,
    /// Commands sent to the backing store: reads, writes, and others.
    pub backing_commands: [u64; 3],
    /// Sectors read from the backing store, and written to it.
    pub backing_sectors: [u64; 2],
    /// Sectors of records written.
    pub record_sectors: u64,
}

impl CacheCounters {
    #[inline]
    pub(super) fn sent(&mut self, to_flash: bool, command: &Command) {
        if to_flash {
            self.flash_commands += 1;
            return;
        }
        let kind = match command.opcode {
            Opcode::Read => 0,
            Opcode::Write => 1,
            _ => 2,
        };
        self.backing_commands[kind] += 1;
        if kind < 2 {
            self.backing_sectors[kind] += u64::from(command.sectors);
        }
    }

    pub(super) fn answered(&mut self, status: Status) {
        self.failed += u64::from(status != Status::Success);
    }

    pub(super) fn hit(&mut self, blocks: u64) {
        self.read_hits += blocks;
    }

    pub(super) fn missed(&mut self, blocks: u64) {
        self.read_misses += blocks;
    }

    pub(super) fn wrote(&mut self, blocks: u64) {
        self.write_hits += blocks;
    }

    pub(super) fn went_around(&mut self, blocks: u64) {
        self.write_arounds += blocks;
    }

    pub(super) fn bypassed(&mut self, blocks: u64) {
        self.bypassed += blocks;
    }

    pub(super) fn filled(&mut self, blocks: u64) {
        self.fills += blocks;
    }

    pub(super) fn wrote_part(&mut self) {
        self.partial_writes += 1;
    }

    pub(super) fn cleaned(&mut self, blocks: u64) {
        self.cleaned += blocks;
    }

    pub(super) fn gave_up(&mut self) {
        self.given_up += 1;
    }

    pub(super) fn dirtied(&mut self, blocks: u64) {
        self.dirtied += blocks;
    }

    pub(super) fn found_full(&mut self) {
        self.full += 1;
    }

    pub(super) fn recorded(&mut self, sectors: u32) {
        self.record_sectors += u64::from(sectors);
    }

    pub(super) fn flash_read_failed(&mut self) {
        self.flash_read_errors += 1;
    }

    pub(super) fn flash_write_failed(&mut self) {
        self.flash_write_errors += 1;
    }

    pub(super) fn backing_read_failed(&mut self) {
        self.backing_read_errors += 1;
    }

    pub(super) fn backing_write_failed(&mut self) {
        self.backing_write_errors += 1;
    }
}

/// Returns the figures of a cache; `limit`: dirty blocks above which blocks are cleaned; `memory_bytes`: its memory.
pub(super) fn figures(core: &Core, limit: u64, memory_bytes: u64) -> Vec<Figure> {
    let c = core.requests.counters();
    let (count, bytes) = (Figure::count, Figure::bytes);
    let sector = u64::from(core.shape.config.sector_bytes);
    let [reads, writes, others] = c.backing_commands;
    let mut figures = vec![
        count("read_hits", "Blocks read that the cache had.", c.read_hits),
        count("read_misses", "Blocks read that the cache had not.", c.read_misses),
        count("write_hits", "Blocks written to the flash.", c.write_hits),
        count("write_arounds", "Blocks written past the cache.", c.write_arounds),
        count("bypassed", "Blocks that sequential streams read or wrote past the cache.", c.bypassed),
        count("fills", "Blocks put into the cache that the backing store has.", c.fills),
        count("partial_writes", "Blocks of which a part was written.", c.partial_writes),
        count("dirty_blocks", "Blocks that only the flash has.", core.blocks.dirty_count()).gauge(),
        count("dirty_limit_blocks", "Dirty blocks above which blocks are cleaned.", limit).gauge(),
        count("capacity_blocks", "Blocks that the flash always has room for; a solid-state cache keeps more clean ones while it has space.", core.shape.capacity_blocks()).gauge(),
        count("dirtied", "Blocks that became dirty.", c.dirtied),
        count("cleaned", "Dirty blocks that became clean.", c.cleaned),
        count("lost_blocks", "Dirty blocks that the flash could not read: reads of them fail until they are written or trimmed whole, or given up.", core.blocks.lost_count()).gauge(),
        count("given_up_blocks", "Lost blocks that a detach has given up: the older data of the backing store count again.", c.given_up),
        count("full", "Writes that found the cache full of dirty blocks.", c.full),
        count("flash_commands", "Commands sent to the flash.", c.flash_commands),
        count("backing_reads", "Reads sent to the backing store.", reads),
        count("backing_writes", "Writes sent to the backing store.", writes),
        count("backing_others", "Flushes and trims sent to the backing store.", others),
        bytes("backing_read_bytes", "Bytes read from the backing store.", c.backing_sectors[0] * sector),
        bytes("backing_written_bytes", "Bytes written to the backing store.", c.backing_sectors[1] * sector),
        bytes("record_bytes", "Bytes of records written to the flash.", c.record_sectors * sector),
        count("flash_read_errors", "Reads that the flash failed.", c.flash_read_errors),
        count("flash_write_errors", "Writes and evictions that the flash failed.", c.flash_write_errors),
        count("backing_read_errors", "Reads that the backing store failed.", c.backing_read_errors),
        count(
            "backing_write_errors",
            "Writes and flushes that the backing store failed.",
            c.backing_write_errors,
        ),
        count(
            "degraded",
            "1: the flash takes no more; new data go to the backing store.",
            core.ends.is_degraded().into(),
        )
        .gauge(),
        count("read_only", "1: the flash took no writes at the start.", core.ends.is_read_only().into())
            .gauge(),
        count(
            "detached",
            "1: everything was written back, and the cache is out of use.",
            core.ends.is_detached().into(),
        )
        .gauge(),
        bytes("memory_bytes", "Bytes of host memory that grow with the cache.", memory_bytes).gauge(),
    ];
    if let Some([cached, evictions]) = core.blocks.cached() {
        figures.push(count("cached_blocks", "Blocks in the cache.", cached).gauge());
        figures.push(count("evictions", "Clean blocks that made room for others.", evictions));
    }
    figures
}
