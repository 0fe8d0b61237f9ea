//! `[drive.host]`, `[drive.firmware]`, `[drive.buffer]`, `[drive.scheduler]`: the controller.

use super::draft::{Draft, Turns};
use super::error::SpecError;
use super::schema::Fallback::{Empty, Flag, Real, Whole, Word};
use super::schema::{Kind, SHARE, TIME, Values, count, few, keys, word};
use pellucid_device::{Arbitration, Completes, DieOrder, FirmwareModel, WritePolicy};
use pellucid_flash::{Layout, Nanos};
use pellucid_text::Quantity;

const QUEUES: Kind = Kind::Whole(1, 65_535);
/// Number of commands, as far as the tables of a drive reach.
const COMMANDS: Kind = Kind::Whole(1, (1 << 20) - 1);
const ENTRIES: Kind = Kind::Whole(1, (1 << 24) - 1);
const READ_ENTRIES: Kind = Kind::Whole(0, (1 << 24) - 1);
/// From a sector upwards.
const DMA_UNIT: Kind = Kind::Unit(Quantity::Size, 512, 1 << 20);
const LINK: Kind = Kind::Unit(Quantity::Rate, 0, i64::MAX as u64);
const PRIORITY: Kind = Kind::Whole(0, 255);
const SPREAD: Kind = Kind::Share(0.0, 0.99);
const CYCLES: Kind = count(0);
/// Whole seconds that fit 32 bits of nanoseconds.
const FIXED: Kind = Kind::Unit(Quantity::Time, 0, 4_000_000_000);

/// From a byte upwards.
const CHUNK: Kind = Kind::Unit(Quantity::Size, 1, 1 << 20);

keys! {
    "drive.host.queues": QUEUES, Whole(8) => drive.host.queues,
        "I/O submission queues";
    "drive.host.arbitration": word::<Turns>(), Word("round-robin") => arbitration,
        "How the queues are served";
    "drive.host.weights": Kind::Weights, Empty => weights,
        "With weighted arbitration: commands in each turn of queue 0, 1, ...; queues beyond the list: 1";
    "drive.host.commands": COMMANDS, Whole(256) => drive.host.commands_max,
        "Commands that the controller works on at once";
    "drive.host.in_order": Kind::Flag, Flag(false) => drive.host.in_order,
        "No command is fetched while data of an earlier one wait for a buffer entry";
    "drive.host.dma_unit": DMA_UNIT, Word("4KiB") => drive.host.dma_unit_bytes,
        "Host DMA unit";
    "drive.host.link_rate": LINK, Whole(0) => drive.host.link_bytes_per_second,
        "Link rate in each direction; 0: transfers take no time";
    "drive.host.write_rate": LINK, Whole(0) => drive.host.write_bytes_per_second,
        "Rate of data from the host where something between link and memory is slower; 0: link_rate";
    "drive.host.dma_overhead": TIME, Whole(0) => drive.host.dma_overhead_ns,
        "Link time of one DMA unit beside its bytes";
    "drive.host.fetch": TIME, Whole(0) => drive.host.fetch_ns,
        "Time from arrival in a submission queue until the firmware can see the command";
    "drive.host.dma_latency": TIME, Whole(0) => drive.host.dma_latency_ns,
        "Latency of a DMA operation that does not occupy the link";
    "drive.host.dma_request": TIME, Whole(0) => drive.host.dma_request_ns,
        "Additional latency of a DMA operation that reads host memory";
    "drive.host.complete": TIME, Whole(0) => drive.host.complete_ns,
        "Time to post a completion";
    "drive.host.completes": word::<Completes>(), Word("firmware") => drive.host.completes,
        "What completes a command: the firmware, or the controller with the last DMA";
    "drive.firmware.model": word::<FirmwareModel>(), Word("tasks") => drive.firmware.model,
        "Tasks in order of arrival, or one polling loop";
    "drive.firmware.clock_mhz": count(1), Whole(1000) => drive.firmware.clock_mhz,
        "Processor clock in MHz";
    "drive.firmware.fetch.cycles": CYCLES, Whole(0) => drive.firmware.fetch.cycles,
        "Fetching a command: cycles";
    "drive.firmware.fetch.fixed": FIXED, Whole(0) => drive.firmware.fetch.fixed_ns,
        "Fetching a command: time that does not scale with the clock";
    "drive.firmware.slice.cycles": CYCLES, Whole(0) => drive.firmware.slice.cycles,
        "Buffer lookup, translation and dependency check of a slice: cycles";
    "drive.firmware.slice.fixed": FIXED, Whole(0) => drive.firmware.slice.fixed_ns,
        "Buffer lookup, translation and dependency check of a slice: time that does not scale with the clock";
    "drive.firmware.dma.cycles": CYCLES, Whole(0) => drive.firmware.dma.cycles,
        "Issuing a host DMA operation: cycles";
    "drive.firmware.dma.fixed": FIXED, Whole(0) => drive.firmware.dma.fixed_ns,
        "Issuing a host DMA operation: time that does not scale with the clock";
    "drive.firmware.issue.cycles": CYCLES, Whole(0) => drive.firmware.issue.cycles,
        "Issuing a flash operation (each channel phase): cycles";
    "drive.firmware.issue.fixed": FIXED, Whole(0) => drive.firmware.issue.fixed_ns,
        "Issuing a flash operation: time that does not scale with the clock";
    "drive.firmware.status.cycles": CYCLES, Whole(0) => drive.firmware.status.cycles,
        "Finding out that an operation has ended: cycles";
    "drive.firmware.status.fixed": FIXED, Whole(0) => drive.firmware.status.fixed_ns,
        "Finding out that an operation has ended: time that does not scale with the clock";
    "drive.firmware.arrival.cycles": CYCLES, Whole(0) => drive.firmware.arrival.cycles,
        "Handling data that have arrived from the media: cycles";
    "drive.firmware.arrival.fixed": FIXED, Whole(0) => drive.firmware.arrival.fixed_ns,
        "Handling data that have arrived from the media: time that does not scale with the clock";
    "drive.firmware.complete.cycles": CYCLES, Whole(0) => drive.firmware.complete.cycles,
        "Completing a command: cycles";
    "drive.firmware.complete.fixed": FIXED, Whole(0) => drive.firmware.complete.fixed_ns,
        "Completing a command: time that does not scale with the clock";
    "drive.firmware.turn.cycles": CYCLES, Whole(0) => drive.firmware.turn.cycles,
        "Loop: one iteration, with the check for a new command: cycles";
    "drive.firmware.turn.fixed": FIXED, Whole(0) => drive.firmware.turn.fixed_ns,
        "Loop: one iteration: time that does not scale with the clock";
    "drive.firmware.visit.cycles": CYCLES, Whole(0) => drive.firmware.visit.cycles,
        "Loop: visiting a channel, and each way in its lists: cycles";
    "drive.firmware.visit.fixed": FIXED, Whole(0) => drive.firmware.visit.fixed_ns,
        "Loop: visiting a channel or way: time that does not scale with the clock";
    "drive.firmware.poll.cycles": CYCLES, Whole(0) => drive.firmware.poll.cycles,
        "Loop: reading a register of a flash controller: cycles";
    "drive.firmware.poll.fixed": FIXED, Whole(0) => drive.firmware.poll.fixed_ns,
        "Loop: reading a register: time that does not scale with the clock";
    "drive.firmware.register.cycles": CYCLES, Whole(0) => drive.firmware.register.cycles,
        "Loop: writing a register of a flash control word: cycles";
    "drive.firmware.register.fixed": FIXED, Whole(0) => drive.firmware.register.fixed_ns,
        "Loop: writing a register: time that does not scale with the clock";
    "drive.firmware.word.cycles": CYCLES, Whole(0) => drive.firmware.word.cycles,
        "Loop: reading the status word or completion flag of a way: cycles";
    "drive.firmware.word.fixed": FIXED, Whole(0) => drive.firmware.word.fixed_ns,
        "Loop: reading a status word: time that does not scale with the clock";
    "drive.firmware.spread": SPREAD, Real(0.0) => drive.firmware.spread,
        "Loop: spread of the time of a step, a factor of 1 +- this";
    "drive.buffer.entries": ENTRIES, Whole(1024) => drive.buffer.entries,
        "Data-buffer entries of one mapping unit each";
    "drive.buffer.read_entries": READ_ENTRIES, Whole(0) => drive.buffer.read_entries,
        "Additional entries that only reads may take";
    "drive.buffer.write": word::<WritePolicy>(), Word("write-back") => drive.buffer.write,
        "When a write is acknowledged";
    "drive.buffer.retain": Kind::Flag, Flag(true) => drive.buffer.retain,
        "Data stay in the buffer after their operation, to serve later hits";
    "drive.buffer.fifo": Kind::Flag, Flag(false) => drive.buffer.fifo,
        "First in, first out: each write is programmed by itself; a read-modify-write moves only the sectors that it lacks";
    "drive.buffer.dirty_high": SHARE, Real(1.0) => drive.buffer.dirty_high,
        "Write-back: share of dirty entries above which write-out starts";
    "drive.scheduler.priorities.status_check": PRIORITY, Whole(1) => drive.scheduler.priorities.status_check,
        "Channel priority, smaller first: status check";
    "drive.scheduler.priorities.read_trigger": PRIORITY, Whole(2) => drive.scheduler.priorities.read_trigger,
        "Channel priority, smaller first: starting a sense";
    "drive.scheduler.priorities.erase": PRIORITY, Whole(3) => drive.scheduler.priorities.erase,
        "Channel priority, smaller first: starting an erase";
    "drive.scheduler.priorities.write": PRIORITY, Whole(4) => drive.scheduler.priorities.write,
        "Channel priority, smaller first: data transfer and program start";
    "drive.scheduler.priorities.read_transfer": PRIORITY, Whole(5) => drive.scheduler.priorities.read_transfer,
        "Channel priority, smaller first: moving sensed data out of the die";
    "drive.scheduler.order": word::<DieOrder>(), Word("fifo") => drive.scheduler.order,
        "Order of operations inside a die's queue; in-order: an operation whose die is busy blocks all operations behind it";
    "drive.scheduler.suspend": Kind::Flag, Flag(false) => drive.scheduler.suspend,
        "Suspend a program or erase for a host read";
    "drive.scheduler.suspend_gap": TIME, Whole(0) => drive.scheduler.suspend_gap_ns,
        "A resumed operation runs this long before it is suspended again";
    "drive.scheduler.suspensions": Kind::Or("unlimited", &count(0)), Word("unlimited") => drive.scheduler.suspensions_max,
        "How often one program or erase is suspended at most";
    "drive.scheduler.page_transfers": Kind::Flag, Flag(false) => drive.scheduler.page_transfers,
        "Data cross a channel page by page; transfers of higher priority go between two pages";
    "drive.scheduler.read_retries": few(0), Whole(5) => drive.scheduler.read_retries,
        "How often a failed read is tried again";
    "drive.scheduler.retry": TIME, Whole(0) => drive.scheduler.retry_ns,
        "Extra sense time of each retry";
    "drive.scheduler.queue": few(0), Whole(0) => drive.scheduler.queue,
        "Firmware loop: control words that a flash controller queues behind the current one, except behind programs";
    "drive.scheduler.drain": TIME, Whole(0) => drive.scheduler.drain_ns,
        "Channel time after a read transfer, until the data path has drained";
    "drive.scheduler.drain_spread": SHARE, Real(0.0) => drive.scheduler.drain_spread,
        "Spread of that drain time, a factor of 1 +- this";
    "drive.scheduler.interconnect_rate": LINK, Whole(0) => drive.scheduler.interconnect_bytes_per_second,
        "Rate of the interconnect between memory and all channels, in each direction; 0: no limit";
    "drive.scheduler.decode": TIME, Whole(0) => drive.scheduler.decode_ns,
        "ECC decoding after a read transfer, off the channel";
    "drive.scheduler.solver.channels": few(0), Whole(0) => solver.channels,
        "Channels that share one key-equation solver of the ECC decoder; 0: reads never wait for it";
    "drive.scheduler.solver.chunk": CHUNK, Word("256B") => solver.chunk_bytes,
        "Bytes of the codeword that the key-equation solver works on at once";
    "drive.scheduler.solver.time": TIME, Whole(0) => solver.chunk_ns,
        "Time of the key-equation solver for one codeword";
}

/// Checks the controller of a drive of this layout, whose media are finished.
pub(crate) fn finish(draft: &mut Draft, values: &Values, layout: &Layout) -> Result<(), SpecError> {
    draft.drive.host.arbitration = arbitration(draft, values)?;
    if draft.drive.host.completes == Completes::Controller && draft.drive.host.complete_ns > Nanos::ZERO {
        let allowed = "firmware, or controller with drive.host.complete = 0";
        return Err(values.refuse("drive.host.completes", allowed));
    }
    if draft.drive.buffer.entries < layout.units_per_superpage {
        let allowed =
            format!("at least {}, the mapping units that one program writes", layout.units_per_superpage);
        return Err(values.refuse("drive.buffer.entries", allowed));
    }
    let buffer = &draft.drive.buffer;
    if buffer.fifo
        && (buffer.retain || buffer.dirty_high > 0.0 || draft.drive.scheduler.order == DieOrder::ReadFirst)
    {
        let allowed = "false, or true with drive.buffer.retain = false, drive.buffer.dirty_high = 0.0 and \
                       drive.scheduler.order = \"fifo\" or \"in-order\"";
        return Err(values.refuse("drive.buffer.fifo", allowed));
    }
    draft.drive.scheduler.solver = Some(draft.solver).filter(|solver| solver.channels > 0);
    check_scheduler(draft, values)
}

fn arbitration(draft: &Draft, values: &Values) -> Result<Arbitration, SpecError> {
    let queues = draft.drive.host.queues;
    match draft.arbitration {
        Turns::RoundRobin => Ok(Arbitration::RoundRobin),
        Turns::Weighted if draft.weights.is_empty() => {
            Err(values.refuse("drive.host.arbitration", "round-robin, or weighted with drive.host.weights"))
        }
        Turns::Weighted if draft.weights.len() > usize::from(queues) => {
            Err(values.refuse("drive.host.weights", format!("at most {queues} weights, one per queue")))
        }
        Turns::Weighted => Ok(Arbitration::Weighted(draft.weights.clone())),
    }
}

fn check_scheduler(draft: &Draft, values: &Values) -> Result<(), SpecError> {
    let (scheduler, timing) = (&draft.drive.scheduler, &draft.drive.media.timing);
    if scheduler.suspend && scheduler.order != DieOrder::ReadFirst {
        let allowed = "false, or true with drive.scheduler.order = \"read-first\"";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    if scheduler.suspend && timing.suspend_ns.is_none() {
        let allowed = "false, or true with a duration in drive.media.timing.suspend";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    if scheduler.order == DieOrder::InOrder
        && (draft.drive.firmware.model == FirmwareModel::Loop || draft.drive.media.independent_plane_reads)
    {
        let allowed = "fifo, read-first, or in-order with drive.firmware.model = \"tasks\" and \
                       drive.media.independent_plane_reads = false";
        return Err(values.refuse("drive.scheduler.order", allowed));
    }
    if scheduler.page_transfers && draft.drive.firmware.model == FirmwareModel::Loop {
        let allowed = "false, or true with drive.firmware.model = \"tasks\"";
        return Err(values.refuse("drive.scheduler.page_transfers", allowed));
    }
    Ok(())
}
