//! Ownership of the cache on the flash: its head, and the head's copy.
//!
//! The copy is on the media before the head is written, so it is never older, and replaces a head that is
//! damaged in any way: unreadable, blank or another's. The start writes the head again from it. A drive is
//! blank only if the head, the copy and the place of the records are.

use super::format::FOREIGN;
use super::{CacheStart, Phase};
use crate::cache::core::Core;
use crate::cache::head::{Head, Life};
use crate::cache::op::{Part, Purpose, Side};
use crate::cache::shape::Backend;
use pellucid_flash::slab::NIL;
use pellucid_flash::{CacheOp, Command, Lba, Opcode, Status};

const UNWRITABLE: &str = "the head of the cache cannot be written to the cache drive";
const MADE_ON_BLANK: &str = "the cache drive was blank, so a new cache was made; if it held a cache before, what that had not written back is lost";
const BY_COPY: &str = "the head of the cache is damaged; its copy was used";
const UNREADABLE: &str = "the head of the cache cannot be read from the cache drive, nor can its copy";

impl CacheStart {
    pub(super) fn read_head(&mut self, core: &mut Core, lba: Lba) {
        let sectors = core.shape.head_sectors();
        let data = core.requests.buffer(sectors.into());
        self.send(core, Opcode::Read, lba.0, sectors, data);
    }

    pub(super) fn head_read(&mut self, core: &mut Core, part: Part, status: Status, data: &[u8]) {
        let is_copy = part.lba != core.shape.head_place().0;
        let head = match status {
            Status::Success => Head::decode(data),
            _ => None,
        };
        if let Some(head) = head {
            self.by_copy = is_copy;
            return self.head_found(core, head);
        }
        let readable = matches!(status, Status::Success | Status::Absent);
        let blank = status == Status::Absent || (readable && data.iter().all(|&byte| byte == 0));
        let (was_readable, was_blank) = if is_copy { self.head_was } else { (true, true) };
        let (readable, blank) = (readable && was_readable, blank && was_blank);
        self.head_was = (readable, blank);
        if !is_copy && let Some(copy) = core.shape.copy_place() {
            return self.read_head(core, copy);
        }
        match &core.shape.backend {
            _ if core.shape.config.format => self.begin_new(core, None),
            _ if !readable => self.fail(core, UNREADABLE),
            Backend::Block(_) => self.look_at_records(core, blank),
            Backend::Ssc(_) if blank => self.begin_new(core, None),
            Backend::Ssc(_) => self.refuse(core, FOREIGN),
        }
    }

    fn head_found(&mut self, core: &mut Core, head: Head) {
        if core.shape.config.format || head.life == Life::Detached {
            return self.begin_new(core, Some(&head));
        }
        match mismatch(&self.head, &head, core.shape.config.sector_bytes) {
            Some(sentence) => self.refuse(core, sentence),
            None => self.begin_known(core, head),
        }
    }

    pub(super) fn begin_new(&mut self, core: &mut Core, before: Option<&Head>) {
        self.fresh = true;
        self.notice = Some(match before {
            _ if core.shape.config.format => "a new cache was made, whatever the cache drive held (--format)",
            Some(_) => "a new cache was made in place of a detached one",
            None => MADE_ON_BLANK,
        });
        if before.is_some_and(|head| head.epoch == self.head.epoch) {
            self.head.epoch = self.head.epoch.wrapping_add(1);
        }
        match &core.shape.backend {
            // A crash must find neither a part of the new records nor a part of the old ones.
            Backend::Block(_) => self.write_head(core, Life::Detached),
            // The cache is first searched for dirty blocks, which must not be lost.
            Backend::Ssc(_) if !core.shape.config.format && before.is_none() => self.look_for_dirty(core),
            Backend::Ssc(_) => self.sweep(core),
        }
    }

    fn begin_known(&mut self, core: &mut Core, head: Head) {
        (self.head.epoch, self.was) = (head.epoch, head.life);
        self.notice = self.by_copy.then_some(BY_COPY);
        match &core.shape.backend {
            Backend::Block(_) => {
                self.phase = Phase::Records;
                self.read_records(core);
            }
            Backend::Ssc(_) if head.life == Life::Closed || core.shape.config.durable_commands => {
                self.look_for_dirty(core)
            }
            Backend::Ssc(_) => self.sweep(core),
        }
    }

    /// Writes the copy and then the head.
    pub fn write_head(&mut self, core: &mut Core, life: Life) {
        if self.phase != Phase::Running {
            self.phase = Phase::Opening;
        }
        self.head.life = life;
        let first = core.shape.copy_place().unwrap_or_else(|| core.shape.head_place());
        self.send_head(core, first);
    }

    fn send_head(&mut self, core: &mut Core, lba: Lba) {
        let sectors = core.shape.head_sectors();
        let bytes = sectors as usize * core.shape.image_bytes;
        let data = match core.shape.keeps_content() {
            true => self.head.encode(bytes),
            false => vec![0; bytes],
        };
        let part = Part { op: NIL, purpose: Purpose::Head, lba: lba.0, sectors, ..Part::default() };
        let is_block = !core.shape.is_ssc();
        let opcode = if is_block { Opcode::Write } else { Opcode::Cache(CacheOp::WriteDirty) };
        let command = Command::new(0, opcode, lba, sectors, data);
        core.requests.send(Side::Flash, part, Command { fua: is_block, ..command });
    }

    /// Handles the end of a write of the head, or of its copy. Returns the state that the head now has, or has not got, if a stop or a
    /// detach wrote it.
    pub fn head_written(&mut self, core: &mut Core, part: Part, status: Status) -> Option<Life> {
        let done = status == Status::Success;
        if done && part.sectors > 0 && core.shape.is_ssc() {
            // The copy is on the media after the flush.
            core.requests.send_flush(Side::Flash, Part { sectors: 0, ..part });
            return None;
        }
        if done && part.lba != core.shape.head_place().0 {
            self.send_head(core, core.shape.head_place());
            return None;
        }
        match self.head.life {
            Life::Detached if self.fresh && done => self.write_empty_records(core),
            Life::Detached if self.fresh => self.fail(core, UNWRITABLE),
            Life::Open if self.phase != Phase::Opening => return Some(Life::Open),
            Life::Open if done => self.running(),
            // A known cache: a new one holds nothing.
            Life::Open if status == Status::CacheFull && !self.fresh => self.press(core),
            Life::Open => match core.ends.begin_read_only(!self.fresh) {
                true => self.running(),
                false => self.fail(core, UNWRITABLE),
            },
            life => return Some(life),
        }
        None
    }
}

/// Returns the reason that a cache does not belong to this store, if it does not.
fn mismatch(own: &Head, head: &Head, sector_bytes: u32) -> Option<String> {
    const INSTEAD: &str = "or --format, which loses what is not written back";
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
        // The head does not say how long they were.
        return Some(format!(
            "the backing store has {} sectors of {sector_bytes} bytes, and had {} sectors when the cache was made; allowed: a cache drive with \
             sectors of the size that it had then, a store of the same size (detach before it is changed), {INSTEAD}",
            own.store_sectors, head.store_sectors
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
