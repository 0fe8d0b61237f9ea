//! A nameless namespace: the machine of nameless writes ([`NamelessMachine`]) over chunks of the drive's own.
//!
//! ```text
//!  command ─► its data cross the host link ─► machine ─► commands to the chunks ─► slices ─► flash operations
//!                                                │  ▲                                            │
//!  host   ◄─ DMA of what was read ◄─ answer ◄────┘  └────────────── inner_ended ◄────────────────┘
//! ```
//! A command to the chunks is a [`Work`](crate::front::commands::Work) like any other, with `inner` set: no host knows it, no data of it
//! cross the host link, and its end goes to the machine. Checkpoints and copies are such commands, so dies, channels and firmware
//! see no difference to what a host FTL does over an open-channel drive.

use crate::back::operations::erase_now;
use crate::config::Feedback;
use crate::direct::DirectPath;
use crate::direct::chunks::ChunkNamespace;
use crate::error::DeviceError;
use crate::events::Event;
use crate::front::commands::{Place, Route};
use crate::shared::Shared;
use pellucid_flash::{
    BlockId, BlockView, ChunkOp, Command, Completion, Interface, Layout, Lba, Lpn, NamelessOp, Nanos, Opcode,
    Ppa, SimTime, Stage, StageTimes, Status,
};
use pellucid_ftl::{ChunkPlan, ChunkReset, Chunks, NamelessConfig, NamelessMachine, Sending};
use pellucid_media::{Media, Outcome, ReadResult};

/// Feedback settings of the inner chunks, which report to the machine alone.
const QUIET: Feedback = Feedback {
    unwritten_is_error: false,
    copyback: false,
    high_ecc: false,
    very_high_ecc: false,
    high_ecc_bits: u32::MAX,
    very_high_ecc_bits: u32::MAX,
    wear_gap: 0,
};

/// A nameless namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamelessNamespace {
    pub machine: NamelessMachine,
    chunks: ChunkNamespace,
    /// An [`Event::Awaited`] is to come.
    awaited: bool,
}

impl NamelessNamespace {
    /// Its blocks as they lie on the flash, as an observer sees them; without erase counts.
    pub fn block_views(&self) -> impl Iterator<Item = (BlockId, BlockView)> + use<'_> {
        self.chunks.chunks.block_views()
    }

    /// The namespace as the media have it. Mounting takes no simulated time, so what the machine asks for is done at once.
    pub fn mount(
        (number, config): (u16, &NamelessConfig),
        mut chunks: Chunks,
        layout: &Layout,
        (media, read_retries): (&mut Media, u32),
        kept: Option<Vec<u8>>,
    ) -> Result<NamelessNamespace, DeviceError> {
        let interface = Interface::OpenChannel(*chunks.geometry());
        let machine = NamelessMachine::new(config, number, Some(interface), media.image_bytes());
        let mut machine = machine.map_err(DeviceError::Nameless)?;
        machine.keep(kept);
        machine.start(SimTime::ZERO);
        let mut now = Mounting { chunks: &mut chunks, media, layout, read_retries };
        // Later commands of the machine, such as those of garbage collection, take their time as soon as the drive is used.
        while !machine.is_ready() {
            let command = machine.next_command().expect("a start waits for nothing but its commands");
            machine.complete(SimTime::ZERO, &mut now.carry_out(command));
        }
        match machine.failure() {
            Some(sentence) => Err(DeviceError::Nameless(sentence)),
            None => Ok(NamelessNamespace {
                machine,
                chunks: ChunkNamespace::new(number, chunks, QUIET),
                awaited: false,
            }),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.machine.memory_bytes() + self.chunks.chunks.memory_bytes()
    }

    pub fn check(&self) {
        self.machine.check();
        self.chunks.chunks.check();
    }

    /// Why a command cannot be accepted.
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        match shared.host.has_queue(command.queue) {
            true => self.machine.refuse(command),
            false => Some(Status::InvalidField),
        }
    }

    /// The firmware has taken a command: the data of a write come first.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        let command = &shared.works[work].command;
        let sectors = command.sectors;
        match command.opcode {
            Opcode::Write | Opcode::Nameless(NamelessOp::Write) => {
                self.cross(shared, work, Route::Stage, sectors)
            }
            _ => self.ask(shared, work),
        }
    }

    /// All data of a command cross the host link.
    fn cross(&mut self, shared: &mut Shared, work: u32, route: Route, sectors: u32) {
        self.direct_slice(shared, work, route, (Place::None, 0), (0, sectors), 0);
    }

    /// Gives a command to the machine.
    fn ask(&mut self, shared: &mut Shared, work: u32) {
        let (now, submitted) = (shared.now, shared.works[work].submitted);
        let own = &mut shared.works[work].command;
        let data = std::mem::take(&mut own.data);
        let Command { opcode, lba, sectors, fua, .. } = *own;
        let command = Command {
            fua,
            vector: own.vector.take(),
            ..Command::new(work.into(), opcode, lba, sectors, data)
        };
        let refused = self.machine.refuse(&command);
        // The drive has booked the time until here.
        let sending = Sending { sent: submitted, counts_from: now };
        self.machine.submit(sending, now, command, refused);
        self.go_on(shared);
    }

    /// Starts what the machine asks of the chunks, and ends what it has answered.
    fn go_on(&mut self, shared: &mut Shared) {
        while let Some(command) = self.machine.next_command() {
            let cause = self.machine.cause(&command);
            let work = shared.works.take();
            shared.works[work].begin(command, shared.now, Status::Success);
            (shared.works[work].inner, shared.works[work].live) = (Some(cause), false);
            self.chunks.start(shared, work);
        }
        while let Some(answer) = self.machine.pop() {
            self.answered(shared, answer);
        }
        if let Some(at) = self.machine.next_event().filter(|_| !self.awaited) {
            self.awaited = true;
            shared.events.at(at.max(shared.now), Event::Awaited(self.chunks.number.into()));
        }
    }

    /// Writes that have waited for the host as long as they may end. Those that began to wait later are looked at again.
    pub fn host_awaited(&mut self, shared: &mut Shared) {
        self.awaited = false;
        self.machine.advance(shared.now);
        self.go_on(shared);
    }

    /// A command to the chunks has ended.
    pub fn inner_ended(&mut self, shared: &mut Shared, work: u32) {
        let record = &mut shared.works[work];
        let command = &mut record.command;
        let mut completion = Completion {
            tag: command.tag,
            opcode: command.opcode,
            status: record.status,
            submitted: record.submitted,
            completed: shared.now,
            stages: record.stages,
            data: std::mem::take(&mut command.data),
            result: record.result,
            unmapped: record.unmapped,
            vector: command.vector.take(),
        };
        shared.works.release(work);
        self.machine.complete(shared.now, &mut completion);
        self.go_on(shared);
    }

    fn answered(&mut self, shared: &mut Shared, answer: Completion) {
        let (now, work) = (shared.now, answer.tag as u32);
        let record = &mut shared.works[work];
        record.stages.add_all(&in_the_drive(answer.stages));
        (record.mark, record.status) = (now, answer.status);
        (record.result, record.unmapped) = (answer.result, answer.unmapped);
        let command = &mut record.command;
        (command.data, command.vector) = (answer.data, answer.vector);
        let sectors = command.sectors;
        let told =
            matches!(command.opcode, Opcode::Read | Opcode::Nameless(NamelessOp::Read) | Opcode::Report);
        match told && answer.status == Status::Success {
            true => self.cross(shared, work, Route::Tell, sectors),
            false => shared.ask_complete(work),
        }
    }

    /// Writes that wait for an acknowledgement end without; whether there were some.
    pub fn give_up_waiting(&mut self, shared: &mut Shared) -> bool {
        self.machine.give_up_waiting();
        let some = self.machine.answered() > 0;
        self.go_on(shared);
        some
    }

    /// The array starts on an operation of the chunks. For how long.
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        self.chunks.begins(shared, op)
    }

    /// The data of a read of the chunks are in the controller.
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        self.chunks.arrived(shared, op);
    }

    /// A program or an erase of the chunks has ended.
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        self.chunks.ended(shared, op);
    }
}

impl DirectPath for NamelessNamespace {
    fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        match shared.works[shared.slices[slice].work].inner {
            Some(_) => self.chunks.slice_known(shared, slice),
            None => {
                shared.slices[slice].book(Stage::Firmware, shared.now);
                self.ask_dma(shared, slice);
            }
        }
    }

    fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        let record = &shared.slices[slice];
        let (work, route, stages) = (record.work, record.route, record.stages);
        if shared.works[work].inner.is_some() {
            return self.chunks.dma_done(shared, slice);
        }
        if route == Route::Tell {
            return shared.slice_done(slice, Status::Success);
        }
        shared.slices.release(slice);
        let record = &mut shared.works[work];
        (record.slices_left, record.stages, record.mark) = (record.slices_left - 1, stages, shared.now);
        self.ask(shared, work);
    }
}

/// The stages of an answer: what the machine calls the host's time is waiting in the drive.
fn in_the_drive(mut stages: StageTimes) -> StageTimes {
    let waited = std::mem::take(&mut stages.0[Stage::Host as usize]);
    stages.add(Stage::Buffer, Nanos(waited));
    stages
}

/// Carries out commands to the chunks while the drive mounts.
struct Mounting<'a> {
    chunks: &'a mut Chunks,
    media: &'a mut Media,
    layout: &'a Layout,
    read_retries: u32,
}

impl Mounting<'_> {
    fn carry_out(&mut self, mut command: Command) -> Completion {
        let status = match command.opcode {
            Opcode::Report => {
                command.data.clear();
                (0..command.sectors).for_each(|number| self.chunks.info(number).encode(&mut command.data));
                Status::Success
            }
            Opcode::Read => self.read(command.lba, &mut command.data),
            Opcode::Write => self.write(command.lba, command.sectors, &command.data),
            Opcode::Chunk(ChunkOp::Reset) => self.reset(command.lba),
            other => unreachable!("a start does not ask for {other:?}"),
        };
        command.ended(status, SimTime::ZERO, SimTime::ZERO, StageTimes::ZERO)
    }

    fn read(&mut self, first: Lba, data: &mut [u8]) -> Status {
        let image = self.media.image_bytes();
        for (sector, out) in (first.0..).zip(data.chunks_exact_mut(image)) {
            let Some((ppa, at)) = self.chunks.locate(Lba(sector)) else { return Status::UnrecoveredRead };
            let mut attempts = 0..=self.read_retries;
            if !attempts
                .any(|attempt| matches!(self.media.read(ppa, at, out, attempt), ReadResult::Ok { .. }))
            {
                return Status::UnrecoveredRead;
            }
        }
        Status::Success
    }

    fn write(&mut self, first: Lba, sectors: u32, data: &[u8]) -> Status {
        let mut plans: Vec<ChunkPlan> = Vec::new();
        if let Err(status) = self.chunks.reserve(sectors, |i| Lba(first.0 + u64::from(i)), &mut plans) {
            return status;
        }
        let unit = self.layout.sectors_per_unit as usize * self.media.image_bytes();
        let mut images = data.chunks_exact(unit);
        let mut status = Status::Success;
        for plan in plans {
            let Some(sequence) = self.chunks.program_begins(plan.chunk) else { return Status::WriteFault };
            let begun = self.media.program_begin(plan.first, sequence);
            begun.unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            for (at, images) in (0..self.layout.units_per_superpage).zip(&mut images) {
                self.media.put_unit_with(Ppa(plan.first.0 + at), Lpn(plan.chunk), images, &[]);
            }
            let ok = self.media.program_end(plan.first) == Outcome::Ok;
            let (ended, retire) = self.chunks.written(plan.chunk, ok);
            if let Some(block) = retire {
                self.media.retire(block);
            }
            status = if ended == Status::Success { status } else { ended };
        }
        status
    }

    fn reset(&mut self, lba: Lba) -> Status {
        match self.chunks.reset_begin(lba) {
            Ok(ChunkReset::Erase { chunk, block }) => {
                let ok = erase_now(self.media, block);
                self.chunks.reset_end(chunk, ok, self.media.array().erase_count(block))
            }
            Ok(ChunkReset::Retired { block, status }) => {
                self.media.invalidate(block);
                status
            }
            Ok(ChunkReset::Later) => unreachable!("chunks that the host manages are not refreshed"),
            Err(status) => status,
        }
    }
}
