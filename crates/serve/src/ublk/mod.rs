//! ublk: the kernel of this machine creates a block device for a namespace, and passes its requests through
//! io_uring.
//!
//! ```text
//!  add, parameters ─► Starting (a fetch for each tag waits; START is on its way) ─► Live ─► Stopping ─► Ended
//!                         └── refused ──────────────────────────────────────────────────────────────────►┘
//!
//!  kernel ── a fetch ends: request of its tag ─► copied in if it writes ─► drive
//!  kernel ◄─ commit, and the next fetch ◄──────── copied out if it read  ◄─── completion
//! ```
//! The device is an [`Attachment`]. During START and STOP the kernel itself reads and writes the device, so
//! they are submitted like requests and not waited for: the server's single thread answers these reads and
//! writes meanwhile. The crate `libublk` was read and not taken: it runs its queues in an executor of its own, one
//! to a thread, and waits for START and STOP, where the drives here belong to one thread that waits for nothing.
//!
//! Invariants: each tag has exactly one fetch in the kernel or one operation in the drive, until its fetch
//! ends with the device; the device is deleted after the last fetch has ended.

mod abi;
mod ring;

use crate::attachment::Attachment;
use crate::core::Core;
use crate::event::{Event, UblkStep, User};
use abi::Asked;
use pellucid_flash::{Completion, Interface, Lba, Opcode, Status};
use pellucid_target::Drives;
use pellucid_target::operation::{Keeps, Operation};
use pellucid_target::session::Port;
use ring::{Queue, QueueEvent};
use std::fmt;
use std::io;
use std::os::fd::RawFd;

/// Kernel error number for an error of the drive.
const EIO: i32 = 5;
/// Maximum number of concurrent requests.
const DEPTH: u16 = 128;
/// Maximum bytes of a request.
const IO_BYTES_MAX: u32 = 256 << 10;

/// Error that prevents a block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel lacks the driver, or it is not loaded.
    NoDriver {
        /// Release of the kernel.
        release: String,
    },
    /// The kernel's driver is too old.
    TooOld {
        /// Release of the kernel.
        release: String,
    },
    /// The namespace is no block namespace.
    NotBlock {
        /// Name of the namespace.
        name: String,
    },
    /// The kernel refused a step.
    Step {
        /// Step that was tried.
        what: &'static str,
        /// Error of the kernel.
        error: io::Error,
    },
}

impl fmt::Display for UblkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UblkError::NoDriver { release } => write!(
                f,
                "this kernel ({release}) has no ublk: there is no {}; it needs Linux 6.5 or newer and `modprobe ublk_drv`",
                ring::CONTROL_DEVICE
            ),
            UblkError::TooOld { release } => {
                write!(f, "this kernel ({release}) has a ublk without user copy; it needs Linux 6.5 or newer")
            }
            UblkError::NotBlock { name } => {
                write!(f, "{name}: no block namespace; allowed: namespaces with interface = \"block\"")
            }
            UblkError::Step { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Live,
    Stopping,
    Ended,
}

/// State that is needed to complete a tag's request.
#[derive(Clone, Copy, Default)]
struct InDrive {
    /// Bytes of data; requests without data end with 0.
    bytes: u32,
    read: bool,
}

/// A block device of the kernel, with its namespace.
pub struct BlockDevice {
    namespace: usize,
    sector_shift: u32,
    queue: Queue,
    phase: Phase,
    in_drive: Vec<InDrive>,
    /// Number of tags whose fetch has ended with the device.
    returned: u16,
    events: Vec<QueueEvent>,
    /// Events for the log.
    told: Vec<Event>,
}

impl BlockDevice {
    /// Checks that this kernel can be asked for block devices at all.
    ///
    /// # Errors
    /// The driver is missing, or may not be used.
    pub fn check() -> Result<(), UblkError> {
        ring::open_control().map(drop)
    }

    /// Creates a block device for a namespace; the log reports when it can be opened. The server must run on
    /// the thread that calls this.
    ///
    /// # Errors
    /// Fails if the kernel cannot, or if there is no such block namespace.
    pub fn new(namespace: usize, core: &Core) -> Result<BlockDevice, UblkError> {
        let n = &core.namespaces()[namespace];
        if !matches!(n.interface, Interface::Block { .. }) {
            return Err(UblkError::NotBlock { name: n.name.clone() });
        }
        let parameters = abi::Parameters {
            sectors: n.bytes() >> abi::SECTOR_SHIFT,
            sector_bytes: n.sector_bytes,
            unit_bytes: n.unit_bytes,
            io_bytes_max: IO_BYTES_MAX,
            keeps_flushed: n.keeps != Keeps::Nothing,
        };
        Ok(BlockDevice {
            namespace,
            sector_shift: n.sector_bytes.trailing_zeros() - abi::SECTOR_SHIFT,
            queue: Queue::new(DEPTH, &parameters)?,
            phase: Phase::Starting,
            in_drive: vec![InDrive::default(); usize::from(DEPTH)],
            returned: 0,
            events: Vec::new(),
            told: Vec::new(),
        })
    }

    fn started(&mut self, result: io::Result<()>, port: &mut Port<'_>) {
        let drive = port.namespaces()[self.namespace].name.clone();
        match result {
            Ok(()) => {
                self.told.push(Event::Attached { by: User::Device(self.queue.device_path()), drive });
                if self.phase == Phase::Starting {
                    self.phase = Phase::Live;
                }
            }
            Err(error) => {
                let (step, error) = (UblkStep::Start { drive }, error.to_string());
                self.told.push(Event::UblkFailed { step, error });
                self.begin_to_stop();
            }
        }
    }

    /// Begins to remove the device; the kernel first writes its remaining data.
    fn begin_to_stop(&mut self) {
        if matches!(self.phase, Phase::Starting | Phase::Live) {
            self.phase = Phase::Stopping;
            self.queue.stop();
        }
    }

    fn begin(&mut self, tag: u16, port: &mut Port<'_>) {
        let request = self.queue.request(tag);
        let sectors = request.sectors >> self.sector_shift;
        let lba = Lba(request.first_sector >> self.sector_shift);
        let bytes = request.sectors << abi::SECTOR_SHIFT;
        let (opcode, length) = match request.asked {
            Asked::Read => (Opcode::Read, bytes),
            Asked::Write => (Opcode::Write, bytes),
            Asked::Flush => (Opcode::Flush, 0),
            Asked::Discard => (Opcode::Trim, 0),
            Asked::WriteZeroes => (Opcode::WriteZeroes, 0),
            Asked::Other(_) => return self.queue.commit(tag, error_of(Status::InvalidOpcode)),
        };
        if length > IO_BYTES_MAX {
            return self.queue.commit(tag, error_of(Status::InvalidField));
        }
        let mut data = port.take_buffer(length as usize);
        if opcode == Opcode::Write
            && let Err(error) = self.queue.copy_in(tag, &mut data)
        {
            port.give_back(data);
            return self.queue.commit(tag, -error.raw_os_error().unwrap_or(EIO));
        }
        self.in_drive[usize::from(tag)] = InDrive { bytes: length, read: opcode == Opcode::Read };
        let (lba, sectors) = if opcode == Opcode::Flush { (Lba(0), 0) } else { (lba, sectors) };
        let fua = request.fua && opcode != Opcode::Flush;
        let operation = Operation { fua, ..Operation::new(opcode, lba, sectors, data) };
        port.submit(self.namespace, tag.into(), operation);
    }
}

impl Attachment for BlockDevice {
    fn protocol(&self) -> &'static str {
        "ublk"
    }

    fn namespace(&self) -> usize {
        self.namespace
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.queue.descriptor()]
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.told)
    }

    fn take(&mut self, port: &mut Port<'_>) {
        let mut events = std::mem::take(&mut self.events);
        self.queue.take_events(&mut events);
        for event in events.drain(..) {
            match event {
                QueueEvent::Request(tag) => self.begin(tag, port),
                QueueEvent::Returned => self.returned += 1,
                QueueEvent::Started(result) => self.started(result, port),
                QueueEvent::Stopped(Ok(())) => {}
                QueueEvent::Stopped(Err(error)) => {
                    let error = error.to_string();
                    self.told.push(Event::UblkFailed { step: UblkStep::Stop, error });
                }
            }
        }
        self.events = events;
        if self.returned == DEPTH && self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            let drive = port.namespaces()[self.namespace].name.clone();
            self.told.push(match self.queue.delete() {
                Ok(()) => Event::Detached { by: User::Device(self.queue.device_path()), drive },
                Err(error) => {
                    Event::UblkFailed { step: UblkStep::Delete { drive }, error: error.to_string() }
                }
            });
        }
    }

    fn completed(&mut self, token: u64, completion: Completion, port: &mut Port<'_>) {
        let tag = token as u16;
        let InDrive { bytes, read } = self.in_drive[usize::from(tag)];
        let Completion { status, data, .. } = completion;
        let mut result = if status == Status::Success { bytes as i32 } else { error_of(status) };
        if read
            && status == Status::Success
            && let Err(error) = self.queue.copy_out(tag, &data)
        {
            result = -error.raw_os_error().unwrap_or(EIO);
        }
        port.give_back(data);
        self.queue.commit(tag, result);
    }

    fn send(&mut self, _port: &mut Port<'_>) {
        self.queue.submit();
    }

    fn stop(&mut self, _port: &mut Port<'_>) {
        self.begin_to_stop();
    }

    fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
}

/// Negative kernel error number for a status.
fn error_of(status: Status) -> i32 {
    const EINVAL: i32 = 22;
    const EOPNOTSUPP: i32 = 95;
    const EROFS: i32 = 30;
    -match status {
        Status::LbaOutOfRange | Status::InvalidField => EINVAL,
        Status::InvalidOpcode => EOPNOTSUPP,
        Status::ReadOnly => EROFS,
        _ => EIO,
    }
}
