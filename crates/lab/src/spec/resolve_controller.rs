//! `[drive.host]`, `[drive.firmware]`, `[drive.buffer]`, `[drive.scheduler]`: the controller.

use super::error::SpecError;
use super::schema::Fallback::{Empty, Flag, Real, Whole, Word};
use super::schema::{Key, Kind, SHARE, TIME, Values, count, key};
use super::value::Quantity;
use pellucid_device::{
    Arbitration, Completes, DataBuffer, DieOrder, Firmware, FirmwareModel, HostInterface, Priorities,
    Scheduler, Solver, StepCost, WritePolicy,
};
use pellucid_flash::{Layout, Nanos};
use pellucid_media::Timing;

const QUEUES: Kind = Kind::Whole(1, 65_535);
/// What the tables of a drive are made for.
const COMMANDS: Kind = Kind::Whole(1, (1 << 20) - 1);
const ENTRIES: Kind = Kind::Whole(1, (1 << 24) - 1);
const READ_ENTRIES: Kind = Kind::Whole(0, (1 << 24) - 1);
const ARBITRATIONS: Kind = Kind::Word(&["round-robin", "weighted"]);
/// From a sector upwards.
const DMA_UNIT: Kind = Kind::Unit(Quantity::Size, 512, 1 << 20);
const LINK: Kind = Kind::Unit(Quantity::Rate, 0, i64::MAX as u64);
const PRIORITY: Kind = Kind::Whole(0, 255);
const SPREAD: Kind = Kind::Real(0.0, 0.99);
const CYCLES: Kind = count(0);
/// Whole seconds that fit 32 bits of nanoseconds.
const FIXED: Kind = Kind::Unit(Quantity::Time, 0, 4_000_000_000);

pub(crate) const KEYS: &[Key] = &[
    key("drive.host.queues", QUEUES, Whole(8), "I/O submission queues"),
    key("drive.host.arbitration", ARBITRATIONS, Word("round-robin"), "How the queues are served"),
    key(
        "drive.host.weights",
        Kind::Weights,
        Empty,
        "Weighted: commands per turn of queue 0, 1, ... (others: 1)",
    ),
    key("drive.host.commands", COMMANDS, Whole(256), "Commands that the controller works on at once"),
    key(
        "drive.host.in_order",
        Kind::Flag,
        Flag(false),
        "No command is taken while data of an earlier one wait for room in the buffer",
    ),
    key("drive.host.dma_unit", DMA_UNIT, Word("4KiB"), "Host DMA unit"),
    key("drive.host.link_rate", LINK, Whole(0), "Link rate in each direction; 0: transfers take no time"),
    key("drive.host.dma_overhead", TIME, Whole(0), "Link time of one DMA unit beside its bytes"),
    key("drive.host.fetch", TIME, Whole(0), "From arrival in a queue until the firmware sees the command"),
    key("drive.host.dma_latency", TIME, Whole(0), "Latency of a DMA operation that does not occupy the link"),
    key("drive.host.dma_request", TIME, Whole(0), "... and more of one that reads the host's memory"),
    key("drive.host.complete", TIME, Whole(0), "Time to post a completion"),
    key(
        "drive.host.completes",
        COMPLETES,
        Word("firmware"),
        "Who completes a command: the firmware, or the controller with the last DMA",
    ),
    key(
        "drive.firmware.model",
        FIRMWARES,
        Word("tasks"),
        "Tasks in order of arrival, or one loop that polls",
    ),
    key("drive.firmware.clock_mhz", count(1), Whole(1000), "Processor clock in MHz"),
    key("drive.firmware.fetch.cycles", CYCLES, Whole(0), "Taking a command: cycles"),
    key("drive.firmware.fetch.fixed", FIXED, Whole(0), "... and time that does not follow the clock"),
    key(
        "drive.firmware.slice.cycles",
        CYCLES,
        Whole(0),
        "Buffer, translation, dependencies of a slice: cycles",
    ),
    key("drive.firmware.slice.fixed", FIXED, Whole(0), "... and time that does not"),
    key("drive.firmware.dma.cycles", CYCLES, Whole(0), "Issuing a host DMA operation: cycles"),
    key("drive.firmware.dma.fixed", FIXED, Whole(0), "... and time that does not"),
    key(
        "drive.firmware.issue.cycles",
        CYCLES,
        Whole(0),
        "Issuing a flash operation (each channel phase): cycles",
    ),
    key("drive.firmware.issue.fixed", FIXED, Whole(0), "... and time that does not"),
    key("drive.firmware.status.cycles", CYCLES, Whole(0), "Finding out that an operation has ended: cycles"),
    key("drive.firmware.status.fixed", FIXED, Whole(0), "... and time that does not"),
    key(
        "drive.firmware.arrival.cycles",
        CYCLES,
        Whole(0),
        "Beside that, dealing with data from the media: cycles",
    ),
    key("drive.firmware.arrival.fixed", FIXED, Whole(0), "... and time that does not"),
    key("drive.firmware.complete.cycles", CYCLES, Whole(0), "Completing a command: cycles"),
    key("drive.firmware.complete.fixed", FIXED, Whole(0), "... and time that does not"),
    key("drive.firmware.turn.cycles", CYCLES, Whole(0), "Loop: a turn, with the look for a command: cycles"),
    key("drive.firmware.turn.fixed", FIXED, Whole(0), "... and time that does not"),
    key(
        "drive.firmware.visit.cycles",
        CYCLES,
        Whole(0),
        "Loop: coming to a channel, and to each way in its lists: cycles",
    ),
    key("drive.firmware.visit.fixed", FIXED, Whole(0), "... and time that does not"),
    key("drive.firmware.poll.cycles", CYCLES, Whole(0), "Loop: reading a register of a controller: cycles"),
    key("drive.firmware.poll.fixed", FIXED, Whole(0), "... and time that does not"),
    key(
        "drive.firmware.register.cycles",
        CYCLES,
        Whole(0),
        "Loop: writing a register of a control word: cycles",
    ),
    key("drive.firmware.register.fixed", FIXED, Whole(0), "... and time that does not"),
    key(
        "drive.firmware.word.cycles",
        CYCLES,
        Whole(0),
        "Loop: reading a way's status word or completion flag: cycles",
    ),
    key("drive.firmware.word.fixed", FIXED, Whole(0), "... and memory accesses"),
    key(
        "drive.firmware.spread",
        SPREAD,
        Real(0.0),
        "Loop: spread of the time of a step, a factor of 1 +- this",
    ),
    key("drive.buffer.entries", ENTRIES, Whole(1024), "Data-buffer entries, one mapping unit each"),
    key("drive.buffer.read_entries", READ_ENTRIES, Whole(0), "... and more that only reads may take"),
    key("drive.buffer.write", WRITES, Word("write-back"), "When a write is acknowledged"),
    key(
        "drive.buffer.retain",
        Kind::Flag,
        Flag(true),
        "Data stay after their operation, to serve later hits",
    ),
    key(
        "drive.buffer.dirty_high",
        SHARE,
        Real(1.0),
        "Write-back: dirty share above which writing out starts",
    ),
    key(
        "drive.scheduler.priorities.status_check",
        PRIORITY,
        Whole(1),
        "Channel priority, smaller first: status check",
    ),
    key("drive.scheduler.priorities.read_trigger", PRIORITY, Whole(2), "... starting a sense"),
    key("drive.scheduler.priorities.erase", PRIORITY, Whole(3), "... starting an erase"),
    key("drive.scheduler.priorities.write", PRIORITY, Whole(4), "... data transfer and program start"),
    key(
        "drive.scheduler.priorities.read_transfer",
        PRIORITY,
        Whole(5),
        "... moving sensed data out of the die",
    ),
    key("drive.scheduler.order", ORDERS, Word("fifo"), "Order of operations inside a die's queue"),
    key("drive.scheduler.suspend", Kind::Flag, Flag(false), "Suspend a program or erase for a host read"),
    key(
        "drive.scheduler.suspend_gap",
        TIME,
        Whole(0),
        "What was resumed works for so long before it is suspended again",
    ),
    key(
        "drive.scheduler.suspensions",
        Kind::Or("unlimited", &count(0)),
        Word("unlimited"),
        "How often a program or erase is suspended at most",
    ),
    key(
        "drive.scheduler.page_transfers",
        Kind::Flag,
        Flag(false),
        "Data cross a channel page by page, and what has priority goes in between",
    ),
    key("drive.scheduler.read_retries", count(0), Whole(5), "How often a failed read is tried again"),
    key("drive.scheduler.retry", TIME, Whole(0), "Extra sense time of each retry"),
    key(
        "drive.scheduler.queue",
        count(0),
        Whole(0),
        "Firmware loop: control words that a channel's controller holds beside the one it carries out, but for programs",
    ),
    key(
        "drive.scheduler.drain",
        TIME,
        Whole(0),
        "Channel time after a read transfer, until its data path has drained",
    ),
    key("drive.scheduler.drain_spread", SHARE, Real(0.0), "... and its spread, a factor of 1 +- this"),
    key(
        "drive.scheduler.fill_spread",
        SHARE,
        Real(0.0),
        "Spread of the channel time of a program's data, a factor of 1 +- this",
    ),
    key(
        "drive.scheduler.interconnect_rate",
        LINK,
        Whole(0),
        "Rate of the interconnect between memory and all channels, in each direction; 0: no limit",
    ),
    key("drive.scheduler.decode", TIME, Whole(0), "ECC decoding after a read transfer, off the channel"),
    key(
        "drive.scheduler.solver.channels",
        count(0),
        Whole(0),
        "Channels that share a key-equation solver of the ECC; 0: no waiting for it",
    ),
    key("drive.scheduler.solver.chunk", CHUNK, Word("256B"), "... bytes that it solves for at once"),
    key("drive.scheduler.solver.time", TIME, Whole(0), "... and the time that it takes"),
];

/// From a byte upwards.
const CHUNK: Kind = Kind::Unit(Quantity::Size, 1, 1 << 20);
const COMPLETES: Kind = Kind::Word(&["firmware", "controller"]);
const FIRMWARES: Kind = Kind::Word(&["tasks", "loop"]);
const WRITES: Kind = Kind::Word(&["write-through", "write-back"]);
const ORDERS: Kind = Kind::Word(&["fifo", "read-first"]);

pub(crate) fn host(values: &Values) -> Result<HostInterface, SpecError> {
    let queues = values.u32("drive.host.queues") as u16;
    let weights = values.weights("drive.host.weights");
    let arbitration = match values.text("drive.host.arbitration") {
        "round-robin" => Arbitration::RoundRobin,
        _ if weights.is_empty() => {
            return Err(
                values.refuse("drive.host.arbitration", "round-robin, or weighted with drive.host.weights")
            );
        }
        _ if weights.len() > usize::from(queues) => {
            let allowed = format!("at most {queues} weights, one per queue");
            return Err(values.refuse("drive.host.weights", allowed));
        }
        _ => Arbitration::Weighted(weights),
    };
    let complete_ns = values.time("drive.host.complete");
    let completes = match values.text("drive.host.completes") {
        "firmware" => Completes::Firmware,
        _ if complete_ns > Nanos::ZERO => {
            return Err(
                values.refuse("drive.host.completes", "firmware, or controller with drive.host.complete = 0")
            );
        }
        _ => Completes::Controller,
    };
    Ok(HostInterface {
        queues,
        arbitration,
        commands_max: values.u32("drive.host.commands"),
        in_order: values.flag("drive.host.in_order"),
        dma_unit_bytes: values.u32("drive.host.dma_unit"),
        link_bytes_per_second: values.whole("drive.host.link_rate"),
        dma_overhead_ns: values.time("drive.host.dma_overhead"),
        fetch_ns: values.time("drive.host.fetch"),
        dma_latency_ns: values.time("drive.host.dma_latency"),
        dma_request_ns: values.time("drive.host.dma_request"),
        complete_ns,
        completes,
    })
}

pub(crate) fn firmware(values: &Values) -> Firmware {
    let step = |name: &str| StepCost {
        cycles: values.u32(&format!("drive.firmware.{name}.cycles")),
        fixed_ns: values.u32(&format!("drive.firmware.{name}.fixed")),
    };
    Firmware {
        model: match values.text("drive.firmware.model") {
            "tasks" => FirmwareModel::Tasks,
            _ => FirmwareModel::Loop,
        },
        clock_mhz: values.u32("drive.firmware.clock_mhz"),
        fetch: step("fetch"),
        slice: step("slice"),
        dma: step("dma"),
        issue: step("issue"),
        status: step("status"),
        arrival: step("arrival"),
        complete: step("complete"),
        turn: step("turn"),
        visit: step("visit"),
        poll: step("poll"),
        register: step("register"),
        word: step("word"),
        spread: values.real("drive.firmware.spread"),
    }
}

pub(crate) fn buffer(values: &Values, layout: &Layout) -> Result<DataBuffer, SpecError> {
    let entries = values.u32("drive.buffer.entries");
    if entries < layout.units_per_stripe {
        let allowed =
            format!("at least {}, the mapping units that one program writes", layout.units_per_stripe);
        return Err(values.refuse("drive.buffer.entries", allowed));
    }
    Ok(DataBuffer {
        entries,
        read_entries: values.u32("drive.buffer.read_entries"),
        write: match values.text("drive.buffer.write") {
            "write-through" => WritePolicy::WriteThrough,
            _ => WritePolicy::WriteBack,
        },
        retain: values.flag("drive.buffer.retain"),
        dirty_high: values.real("drive.buffer.dirty_high"),
    })
}

pub(crate) fn scheduler(values: &Values, timing: &Timing) -> Result<Scheduler, SpecError> {
    let priority = |name: &str| values.u32(&format!("drive.scheduler.priorities.{name}")) as u8;
    let order = match values.text("drive.scheduler.order") {
        "fifo" => DieOrder::Fifo,
        _ => DieOrder::ReadFirst,
    };
    let suspend = values.flag("drive.scheduler.suspend");
    if suspend && order != DieOrder::ReadFirst {
        let allowed = "false, or true with drive.scheduler.order = \"read-first\"";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    if suspend && timing.suspend_ns.is_none() {
        let allowed = "false, or true with a duration in drive.media.timing.suspend";
        return Err(values.refuse("drive.scheduler.suspend", allowed));
    }
    let page_transfers = values.flag("drive.scheduler.page_transfers");
    if page_transfers && values.text("drive.firmware.model") == "loop" {
        let allowed = "false, or true with drive.firmware.model = \"tasks\"";
        return Err(values.refuse("drive.scheduler.page_transfers", allowed));
    }
    let solver = Some(values.u32("drive.scheduler.solver.channels")).filter(|&channels| channels > 0);
    let solver = solver.map(|channels| Solver {
        channels,
        chunk_bytes: values.u32("drive.scheduler.solver.chunk"),
        chunk_ns: values.time("drive.scheduler.solver.time"),
    });
    Ok(Scheduler {
        priorities: Priorities {
            status_check: priority("status_check"),
            read_trigger: priority("read_trigger"),
            erase: priority("erase"),
            write: priority("write"),
            read_transfer: priority("read_transfer"),
        },
        order,
        suspend,
        suspend_gap_ns: values.time("drive.scheduler.suspend_gap"),
        suspensions_max: values.whole_or_none("drive.scheduler.suspensions").map(|most| most as u32),
        page_transfers,
        read_retries: values.u32("drive.scheduler.read_retries"),
        retry_ns: values.time("drive.scheduler.retry"),
        refresh_above: values.whole_or_none("drive.ecc.refresh_above").map(|bits| bits as u32),
        queue: values.u32("drive.scheduler.queue"),
        drain_ns: values.time("drive.scheduler.drain"),
        drain_spread: values.real("drive.scheduler.drain_spread"),
        fill_spread: values.real("drive.scheduler.fill_spread"),
        interconnect_bytes_per_second: values.whole("drive.scheduler.interconnect_rate"),
        decode_ns: values.time("drive.scheduler.decode"),
        solver,
    })
}
