//! Reads: sectors in the ring are copied; the others are read from the drive, as a vector if they are not
//! contiguous.
//!
//! ```text
//!  sectors ─┬─ in the ring ────────────► copied
//!           ├─ never written, or lost ─► zeros (lost at a start: the read fails)
//!           └─ mapped ─► held in place ─► read (again, if it fails) ─► given back
//! ```
//! A line is not reset while sectors are being read from it.

use super::resets;
use crate::ftl::core::Core;
use crate::ftl::port::TAG_READ;
use crate::ftl::reads::Purpose;
use pellucid_flash::{Command, Completion, Lba, Lpn, Opcode, Status, Vector};
use pellucid_ftl::Located;

/// Starts a read of the application.
pub(in crate::ftl) fn start(core: &mut Core, request: u32) {
    let mut command = core.requests.take_command(request);
    let (image, wanted) = (core.lines.shape().image_bytes, !command.data.is_empty());
    let mut read = core.reads.take();
    core.reads[read].begin(request);
    let (mut parts, mut lost, mut unmapped) = (0, false, 0);
    for i in 0..command.sectors {
        let lpn = Lpn((command.lba.0 + u64::from(i)) as u32);
        let place = i as usize * image..(i as usize + 1) * image;
        if let Some(at) = core.ring.find(lpn) {
            core.counters.found_in_buffer();
            let trimmed = core.ring.entry(at).trimmed;
            unmapped += u32::from(trimmed);
            match trimmed {
                _ if !wanted => {}
                true => command.data[place].fill(0),
                false => command.data[place].copy_from_slice(core.ring.image(at)),
            }
            continue;
        }
        let Located::At(ppa) = core.ftl.lookup(lpn) else {
            if wanted {
                command.data[place].fill(0);
            }
            let zero = core.ftl.peek(lpn) == Located::Zero;
            lost |= !zero;
            unmapped += u32::from(zero);
            continue;
        };
        if core.reads[read].sectors().len() == Vector::ADDRESSES_MAX {
            parts += 1;
            send(core, read, wanted, Vec::new());
            read = core.reads.take();
            core.reads[read].begin(request);
        }
        let line = core.lines.line_of(ppa);
        core.lines[line].hold();
        core.reads[read].add(ppa, i);
    }
    if core.reads[read].sectors().is_empty() {
        core.reads.release(read);
    } else {
        parts += 1;
        let whole = core.reads[read].is_all_of(command.sectors);
        let data = if whole { std::mem::take(&mut command.data) } else { Vec::new() };
        send(core, read, wanted, data);
    }
    core.counters.lost(lost);
    if let Some(status) = core.requests.begin_read(request, command, parts, unmapped, lost) {
        core.finish(request, status);
    }
}

/// Sends a read into the buffer `data`; if that is empty and the data are wanted, into a buffer of the
/// pool.
fn send(core: &mut Core, read: u32, wanted: bool, mut data: Vec<u8>) {
    let Core { reads, lines, port, counters, .. } = core;
    let record = &reads[read];
    let count = record.sectors().len();
    if wanted && data.is_empty() {
        data = port.image();
        data.resize(count * lines.shape().image_bytes, 0);
    }
    let first = lines.address(record.sectors()[0].0);
    let addresses = || record.sectors().iter().map(|&(ppa, _)| lines.address(ppa));
    // GC needs the error bitmap, which only a read of addresses has.
    let listed = record.is_gc() || addresses().zip(first.0..).any(|(address, lba)| address != Lba(lba));
    let vector = listed.then(|| {
        let mut vector = port.vector();
        vector.addresses.extend(addresses());
        if record.is_gc() {
            vector.metadata.resize(count * Vector::METADATA_BYTES, 0);
        }
        vector
    });
    counters.sent_command();
    let command = Command::new(TAG_READ | u64::from(read), Opcode::Read, first, count as u32, data);
    port.send(Command { vector, ..command });
}

/// Sends the copies that were gathered in `read`.
pub(super) fn send_copies(core: &mut Core, read: u32) {
    let sectors = core.reads[read].begin_copies();
    core.counters.read_for_gc(sectors);
    send(core, read, true, Vec::new());
}

/// Handles the end of a read. Returns its user; `None` if the read was sent again.
pub(super) fn ended(core: &mut Core, read: u32, completion: &mut Completion) -> Option<Purpose> {
    let most = core.lines.shape().config.read_retries;
    if !is_readable(completion)
        && completion.status != Status::PowerLoss
        && core.reads[read].tries_again(most)
    {
        core.counters.read_again();
        let wanted = !completion.data.is_empty();
        if let Some(vector) = completion.vector.take() {
            core.port.put_back(Vec::new(), Some(vector));
        }
        send(core, read, wanted, std::mem::take(&mut completion.data));
        return None;
    }
    for at in 0..core.reads[read].sectors().len() {
        let line = core.lines.line_of(core.reads[read].sectors()[at].0);
        resets::release(core, line);
    }
    Some(core.reads[read].purpose())
}

#[inline]
pub(super) fn is_readable(completion: &Completion) -> bool {
    matches!(completion.status, Status::Success | Status::HighEcc)
}

/// Takes in the sectors that a command of a request has read.
pub(super) fn arrived(core: &mut Core, read: u32, request: u32, completion: &mut Completion) {
    let image = core.lines.shape().image_bytes;
    let (data, vector) = (std::mem::take(&mut completion.data), completion.vector.take());
    let command = core.requests.record_mut(request).command_mut();
    let mut spare = Vec::new();
    if core.reads[read].is_whole() {
        command.data = data;
    } else {
        for (from, &(_, to)) in data.chunks_exact(image).zip(core.reads[read].sectors()) {
            command.data[to as usize * image..][..image].copy_from_slice(from);
        }
        spare = data;
    }
    core.port.put_back(spare, vector);
    let failure = (!is_readable(completion)).then_some(completion.status);
    core.counters.lost(failure.is_some());
    if let Some(status) = core.requests.part_read(request, failure, completion.stages) {
        core.finish(request, status);
    }
}
