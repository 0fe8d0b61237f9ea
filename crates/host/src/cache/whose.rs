//! Ownership of the cache on the flash: its head, and the head's copy.
//!
//! The copy is on the media before the head is written, so it is never older, and replaces a head that is
//! damaged in any way: unreadable, blank or another's. The start writes the head again from it. A drive is
//! blank only if the head, the copy and the place of the records are.

use super::format::FOREIGN;
use super::head::{HEAD_BYTES, Head, Life};
use super::start::Phase;
use super::{Backend, CacheManager, Part, Purpose, Side};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Lba, Opcode, Status};

const UNWRITABLE: &str = "the head of the cache cannot be written to the cache drive";
const MADE_ON_BLANK: &str = "the cache drive was blank, so a new cache was made; if it held a cache before, what that had not written back is lost";
const BY_COPY: &str = "the head of the cache is damaged; its copy was used";
const UNREADABLE: &str = "the head of the cache cannot be read from the cache drive, nor can its copy";

impl CacheManager {
    /// Returns the address of the head; a solid-state cache has it in its last block.
    pub(super) fn head_place(&self) -> Lba {
        match &self.backend {
            Backend::Block(_) => Lba(0),
            Backend::Ssc(geometry) => {
                let unit = u64::from(geometry.unit_sectors);
                Lba((geometry.address_sectors / unit - 1) * unit)
            }
        }
    }

    /// Returns the address of the copy, if there is space for one. It is far from the head, because
    /// neighbouring sectors are often lost together. A solid-state cache has it in its last block but one.
    fn copy_place(&self) -> Option<Lba> {
        match &self.backend {
            Backend::Block(_) => Some(Lba(self.flash_sectors - u64::from(self.head_sectors()))),
            Backend::Ssc(geometry) => {
                let unit = u64::from(geometry.unit_sectors);
                let copy = self.head_place().0 - unit;
                (copy >= self.sectors).then_some(Lba(copy))
            }
        }
    }

    /// Solid-state cache: returns the first sector of the head and its copy, which lie at the end.
    pub(super) fn heads_from(&self) -> u64 {
        self.copy_place().unwrap_or_else(|| self.head_place()).0
    }

    fn head_sectors(&self) -> u32 {
        match &self.backend {
            Backend::Block(_) => HEAD_BYTES.div_ceil(self.config.sector_bytes as usize) as u32,
            Backend::Ssc(geometry) => geometry.unit_sectors,
        }
    }

    pub(super) fn read_head(&mut self, lba: Lba) {
        let sectors = self.head_sectors();
        let data = self.buffer(sectors.into());
        self.send_start(Opcode::Read, lba.0, sectors, data);
    }

    pub(super) fn head_read(&mut self, part: Part, status: Status, data: &[u8]) {
        let is_copy = part.lba != self.head_place().0;
        let head = match status {
            Status::Success => Head::decode(data),
            _ => None,
        };
        if let Some(head) = head {
            self.start.by_copy = is_copy;
            return self.head_found(head);
        }
        let readable = matches!(status, Status::Success | Status::Absent);
        let blank = status == Status::Absent || (readable && data.iter().all(|&byte| byte == 0));
        let (was_readable, was_blank) = if is_copy { self.start.head_was } else { (true, true) };
        let (readable, blank) = (readable && was_readable, blank && was_blank);
        self.start.head_was = (readable, blank);
        if !is_copy && let Some(copy) = self.copy_place() {
            return self.read_head(copy);
        }
        match &self.backend {
            _ if self.config.format => self.begin_new(None),
            _ if !readable => self.fail_start(UNREADABLE),
            Backend::Block(_) => self.look_at_records(blank),
            Backend::Ssc(_) if blank => self.begin_new(None),
            Backend::Ssc(_) => self.refuse_start(FOREIGN),
        }
    }

    fn head_found(&mut self, head: Head) {
        if self.config.format || head.life == Life::Detached {
            return self.begin_new(Some(&head));
        }
        match self.mismatch(&head) {
            Some(sentence) => self.refuse_start(sentence),
            None => self.begin_known(head),
        }
    }

    /// Returns the reason that a cache does not belong to this store, if it does not.
    fn mismatch(&self, head: &Head) -> Option<String> {
        const INSTEAD: &str = "or --format, which loses what is not written back";
        let own = &self.start.head;
        let bytes = |sectors: u64| sectors * u64::from(self.config.sector_bytes);
        if head.format != own.format {
            return Some(format!(
                "the cache on the cache drive has format {}; this program knows format {}; allowed: to detach it with the version that made \
                 it, {INSTEAD}",
                head.format, own.format
            ));
        }
        if head.store != own.store {
            return Some(format!(
                "the cache on the cache drive belongs to another backing store ({}); allowed: that one, {INSTEAD}",
                head.name
            ));
        }
        if head.store_sectors != own.store_sectors {
            return Some(format!(
                "the backing store has {} bytes, and had {} when the cache was made; allowed: the same size (detach before it is changed), \
                 {INSTEAD}",
                bytes(own.store_sectors),
                bytes(head.store_sectors)
            ));
        }
        if head.block_bytes != own.block_bytes {
            return Some(format!(
                "the cache was made with blocks of {} bytes, not of {}; allowed: the same, {INSTEAD}",
                head.block_bytes, own.block_bytes
            ));
        }
        (head.layout != own.layout).then(|| {
            format!("the cache was made on a cache drive of another size, with other sets, or by a version that did not align its blocks; allowed: \
                 the same (detach with that version), {INSTEAD}")
        })
    }

    pub(super) fn begin_new(&mut self, before: Option<&Head>) {
        self.start.fresh = true;
        self.start.notice = Some(match before {
            _ if self.config.format => "a new cache was made, whatever the cache drive held (--format)",
            Some(_) => "a new cache was made in place of a detached one",
            None => MADE_ON_BLANK,
        });
        if before.is_some_and(|head| head.epoch == self.start.head.epoch) {
            self.start.head.epoch = self.start.head.epoch.wrapping_add(1);
        }
        match &self.backend {
            // A crash must find neither a part of the new records nor a part of the old ones.
            Backend::Block(_) => self.write_head(Life::Detached),
            // The cache is first searched for dirty blocks, which must not be lost.
            Backend::Ssc(_) if !self.config.format && before.is_none() => self.look_for_dirty(),
            Backend::Ssc(_) => self.sweep(),
        }
    }

    fn begin_known(&mut self, head: Head) {
        (self.start.head.epoch, self.start.was) = (head.epoch, head.life);
        self.start.notice = self.start.by_copy.then_some(BY_COPY);
        match &self.backend {
            Backend::Block(_) => {
                self.start.phase = Phase::Records;
                self.read_records();
            }
            Backend::Ssc(_) if head.life == Life::Closed || self.config.durable_commands => {
                self.look_for_dirty()
            }
            Backend::Ssc(_) => self.sweep(),
        }
    }

    /// Writes the copy and then the head.
    pub(super) fn write_head(&mut self, life: Life) {
        if self.start.phase != Phase::Running {
            self.start.phase = Phase::Opening;
        }
        self.start.head.life = life;
        let first = self.copy_place().unwrap_or_else(|| self.head_place());
        self.send_head(first);
    }

    fn send_head(&mut self, lba: Lba) {
        let sectors = self.head_sectors();
        let bytes = sectors as usize * self.image_bytes;
        let data = match self.keeps_content() {
            true => self.start.head.encode(bytes),
            false => vec![0; bytes],
        };
        let part = Part { op: NIL, purpose: Purpose::Head, lba: lba.0, sectors, ..Part::default() };
        let is_block = matches!(self.backend, Backend::Block(_));
        let opcode = if is_block { Opcode::Write } else { Opcode::WriteDirty };
        let command = Command::new(0, opcode, lba, sectors, data);
        self.send(Side::Flash, part, Command { fua: is_block, ..command });
    }

    pub(super) fn head_written(&mut self, part: Part, status: Status, data: Vec<u8>) {
        self.give_back(data);
        let is_ssc = matches!(self.backend, Backend::Ssc(_));
        if status == Status::Success && part.sectors > 0 && is_ssc {
            // The copy is on the media after the flush.
            let part = Part { sectors: 0, ..part };
            return self.send(Side::Flash, part, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        }
        if status == Status::Success && part.lba != self.head_place().0 {
            return self.send_head(self.head_place());
        }
        let life = self.start.head.life;
        let done = status == Status::Success;
        match life {
            Life::Detached if self.start.fresh && done => self.write_empty_records(),
            Life::Detached if self.start.fresh => self.fail_start(UNWRITABLE),
            Life::Open if self.start.phase == Phase::Opening && (done || self.begins_read_only()) => {
                self.running();
            }
            Life::Open if self.start.phase == Phase::Opening => self.fail_start(UNWRITABLE),
            _ => self.ending_written(life, status),
        }
    }
}
