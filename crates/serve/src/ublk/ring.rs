//! The kernel interface of a block device: its control device, its character device, and the io_uring.
//!
//! Only this module touches memory and entries that the kernel shares with the server. Control commands refer
//! to memory that the queue owns and that outlives its ring; requests are read from a table that the kernel
//! writes before it ends their fetch; data are copied with ordinary reads and writes.

use super::UblkError;
use super::abi::{self, Control, Io, Request};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::cell::RefCell;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

/// Path of the control device, which exists if the driver is loaded.
pub(super) const CONTROL_DEVICE: &str = "/dev/ublk-control";

/// Names of commands that belong to no tag.
const START: u64 = 1 << 32;
const STOP: u64 = 2 << 32;
/// Base name of control commands, plus a number, so that a late end of an abandoned command is not taken for
/// that of the next.
const CONTROL: u64 = 3 << 32;

/// Length of the longest structure that a control command exchanges.
const EXCHANGE_BYTES: usize = 256;

/// An event of the kernel.
#[derive(Debug)]
pub(super) enum QueueEvent {
    /// A tag has a request.
    Request(u16),
    /// A tag's fetch has ended with the device.
    Returned,
    /// The device can be opened, or its start has failed.
    Started(io::Result<()>),
    /// The device can no longer be opened.
    Stopped(io::Result<()>),
}

/// Table of requests, mapped by the kernel.
struct Requests {
    at: NonNull<c_void>,
    bytes: usize,
}

impl Requests {
    #[allow(unsafe_code, reason = "mapping memory that the kernel writes")]
    fn map(device: &File, depth: u16) -> io::Result<Requests> {
        let bytes = (usize::from(depth) * abi::REQUEST_BYTES).next_multiple_of(rustix::param::page_size());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice; no other memory is touched.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, device, 0) }?;
        let at = NonNull::new(at).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Requests { at, bytes })
    }

    #[allow(unsafe_code, reason = "reading memory that the kernel writes")]
    fn read(&self, tag: u16) -> Request {
        let at = usize::from(tag) * abi::REQUEST_BYTES;
        assert!(at + abi::REQUEST_BYTES <= self.bytes, "a tag of this queue");
        // SAFETY: inside the mapping, as just checked. The kernel writes an entry before it ends the fetch of
        // its tag, which has been taken from the ring, and does not write it again before the tag is
        // committed.
        let bytes =
            unsafe { self.at.cast::<u8>().add(at).cast::<[u8; abi::REQUEST_BYTES]>().read_volatile() };
        Request::decode(&bytes)
    }
}

impl Drop for Requests {
    #[allow(unsafe_code, reason = "giving a mapping back")]
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, of this length; there are no references into it, as `read`
        // copies.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}

/// A device with one queue.
pub(super) struct Queue {
    ring: IoUring<squeue::Entry128>,
    /// Memory that control commands refer to. One is in flight only within [`Queue::control`].
    exchange: Box<[u8; EXCHANGE_BYTES]>,
    /// Number of control commands so far.
    controls: u64,
    control: File,
    number: u32,
    /// Character device and request table; closed before the device is deleted, which waits for this.
    open: Option<(File, Requests)>,
    /// The ring has entries that the kernel has not been told of.
    unsent: bool,
}

impl Queue {
    /// Adds a device and begins to start it, with a waiting fetch for each tag.
    pub fn new(depth: u16, parameters: &abi::Parameters) -> Result<Queue, UblkError> {
        let control = open_control()?;
        // Space for a fetch of each tag and for control commands.
        let entries = (u32::from(depth) + 8).next_power_of_two();
        let ring =
            IoUring::<squeue::Entry128>::builder().build(entries).map_err(step("a ring of the kernel"))?;
        let exchange = Box::new([0; EXCHANGE_BYTES]);
        let mut queue = Queue {
            ring,
            exchange,
            controls: 0,
            control,
            number: abi::ANY_DEVICE,
            open: None,
            unsent: false,
        };
        queue.add(depth, parameters)?;
        if let Err(error) = queue.start(depth, parameters) {
            // Only the first error is reported.
            let _ = queue.delete();
            return Err(error);
        }
        Ok(queue)
    }

    fn add(&mut self, depth: u16, parameters: &abi::Parameters) -> Result<(), UblkError> {
        let mut features = [0; 8];
        // A driver that does not know this command is too old as well.
        let known = self.control(Control::GetFeatures, &mut features, 0).is_ok();
        if !known || !abi::suffices(u64::from_ne_bytes(features)) {
            return Err(UblkError::TooOld { release: release() });
        }
        let mut device = abi::device(depth, parameters.io_bytes_max);
        self.control(Control::Add, &mut device, 0).map_err(step("adding a ublk device"))?;
        self.number = abi::device_number(&device);
        Ok(())
    }

    fn start(&mut self, depth: u16, parameters: &abi::Parameters) -> Result<(), UblkError> {
        let mut encoded = parameters.encode();
        self.control(Control::SetParameters, &mut encoded, 0).map_err(step("parameters of a ublk device"))?;
        let path = format!("/dev/ublkc{}", self.number);
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(step("opening the character device of a ublk device"))?;
        let requests = Requests::map(&file, depth).map_err(step("mapping the requests of a ublk device"))?;
        self.open = Some((file, requests));
        for tag in 0..depth {
            self.push_io(Io::Fetch, tag, 0);
        }
        let me = u64::from(std::process::id());
        self.push_control(Control::Start, abi::control(self.number, (0, 0), me), START);
        self.submit();
        Ok(())
    }

    /// Sends a control command that the kernel answers at once; `buffer` holds its data and then its answer.
    /// Interrupts do not end the wait: until the command ends, the kernel may use `exchange`.
    fn control(&mut self, command: Control, buffer: &mut [u8], data: u64) -> io::Result<()> {
        let exchange = &mut self.exchange[..buffer.len()];
        exchange.copy_from_slice(buffer);
        let refers = (exchange.as_mut_ptr() as u64, exchange.len() as u16);
        self.controls += 1;
        let name = CONTROL | self.controls;
        self.push_control(command, abi::control(self.number, refers, data), name);
        let ring = RefCell::new(&mut self.ring);
        let ended = wait_for_end(
            || ring.borrow().submit_and_wait(1).map(drop),
            || ring.borrow_mut().completion().find(|end| end.user_data() == name).map(|end| end.result()),
        );
        match ended {
            Ok(result) => {
                self.unsent = false;
                buffer.copy_from_slice(&self.exchange[..buffer.len()]);
                outcome(result)
            }
            Err(error) => {
                // The kernel may still have the command and this memory, so the memory is never reused.
                Box::leak(std::mem::replace(&mut self.exchange, Box::new([0; EXCHANGE_BYTES])));
                Err(error)
            }
        }
    }

    fn push_control(&mut self, command: Control, bytes: [u8; abi::CONTROL_BYTES], name: u64) {
        let control = types::Fd(self.control.as_raw_fd());
        self.push(opcode::UringCmd80::new(control, command as u32).cmd(bytes).build().user_data(name));
    }

    fn push_io(&mut self, command: Io, tag: u16, result: i32) {
        let Some((device, _)) = &self.open else { return };
        let device = types::Fd(device.as_raw_fd());
        let entry = opcode::UringCmd16::new(device, command as u32).cmd(abi::io(tag, result)).build();
        self.push(entry.user_data(u64::from(tag)).into());
    }

    #[allow(unsafe_code, reason = "handing an entry to the kernel")]
    fn push(&mut self, entry: squeue::Entry128) {
        self.unsent = true;
        // SAFETY: an I/O entry refers to no memory of this process. A control entry refers at most to
        // `exchange`, which outlives the ring; START and STOP refer to none.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.submit();
        }
    }

    /// Submits all entries to the kernel.
    pub fn submit(&mut self) {
        if std::mem::take(&mut self.unsent) {
            // Entries that the kernel does not take now stay in the ring for the next call.
            self.unsent = self.ring.submit().is_err();
        }
    }

    /// Descriptor that is readable when there are events.
    pub fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Path of the block device for users.
    pub fn device_path(&self) -> String {
        format!("/dev/ublkb{}", self.number)
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self, events: &mut Vec<QueueEvent>) {
        events.extend(self.ring.completion().filter_map(|end| event_of(&end)));
    }

    /// Reads the request of a tag that has one.
    pub fn request(&self, tag: u16) -> Request {
        let (_, requests) = self.open.as_ref().expect("requests come from an open device");
        requests.read(tag)
    }

    /// Copies the data of a write from the kernel.
    pub fn copy_in(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.device()?.read_exact_at(data, abi::data_offset(tag))
    }

    /// Copies the data of a read to the kernel.
    pub fn copy_out(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.device()?.write_all_at(data, abi::data_offset(tag))
    }

    fn device(&self) -> io::Result<&File> {
        let open = self.open.as_ref().map(|(device, _)| device);
        open.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    /// Ends the request of a tag, with a byte count or a negative error, and waits for its next request.
    pub fn commit(&mut self, tag: u16, result: i32) {
        self.push_io(Io::CommitAndFetch, tag, result);
    }

    /// Begins to remove the device; [`QueueEvent::Stopped`] reports the end.
    pub fn stop(&mut self) {
        self.push_control(Control::Stop, abi::control(self.number, (0, 0), 0), STOP);
        self.submit();
    }

    /// Deletes the device, after all fetches have ended, or before any has begun.
    pub fn delete(&mut self) -> io::Result<()> {
        self.open = None;
        self.control(Control::Delete, &mut [], 0)
    }
}

/// Waits until `ended` finds the end of a command, whatever signals arrive meanwhile.
///
/// # Errors
/// Returns errors of `wait`, except `Interrupted`. The command may then still be in flight.
fn wait_for_end(
    mut wait: impl FnMut() -> io::Result<()>,
    mut ended: impl FnMut() -> Option<i32>,
) -> io::Result<i32> {
    loop {
        match wait() {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            // An interrupted wait may still have submitted the command.
            _ => {}
        }
        if let Some(result) = ended() {
            return Ok(result);
        }
    }
}

fn event_of(end: &cqueue::Entry) -> Option<QueueEvent> {
    match end.user_data() {
        START => Some(QueueEvent::Started(outcome(end.result()))),
        STOP => Some(QueueEvent::Stopped(outcome(end.result()))),
        name if name >= CONTROL => None,
        // A fetch that ends without a request is not repeated.
        tag if end.result() == 0 => Some(QueueEvent::Request(tag as u16)),
        _ => Some(QueueEvent::Returned),
    }
}

fn outcome(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> UblkError {
    move |error| UblkError::Step { what, error }
}

/// Opens the device that makes block devices.
pub fn open_control() -> Result<File, UblkError> {
    OpenOptions::new().read(true).write(true).open(CONTROL_DEVICE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => UblkError::NoDriver { release: release() },
        _ => UblkError::Step { what: CONTROL_DEVICE, error },
    })
}

fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "unknown".into(), |text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// The kernel interrupts the wait at any moment, before and after it has taken the command; the buffer is
    /// released only when the command has ended.
    #[test]
    fn signals_do_not_end_the_wait_for_a_command() {
        for interruptions in 0..5 {
            let (mut waits, mut looks) = (0, 0);
            let wait = || {
                waits += 1;
                if waits <= interruptions { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
            };
            // The command ends two waits after the last interruption; one of them ends for another reason.
            let ended = || {
                looks += 1;
                (looks == interruptions + 2).then_some(-7)
            };
            assert_eq!(wait_for_end(wait, ended).expect("it ends"), -7);
            assert_eq!((waits, looks), (interruptions + 2, interruptions + 2));
        }
        let failed = wait_for_end(|| Err(io::ErrorKind::InvalidInput.into()), || None);
        assert_eq!(failed.expect_err("no signal").kind(), io::ErrorKind::InvalidInput);
    }

    /// Waits on a real ring of the kernel, if available: a timeout stands for the command.
    #[test]
    fn a_command_on_a_real_ring_is_waited_for() {
        let Ok(mut ring) = IoUring::<squeue::Entry128>::builder().build(8) else { return };
        const LENGTH: Duration = Duration::from_millis(30);
        let time = types::Timespec::from(LENGTH);
        let timeout = opcode::Timeout::new(&time).build().user_data(CONTROL | 1);
        let began = Instant::now();
        #[allow(unsafe_code, reason = "handing an entry to the kernel")]
        // SAFETY: the time outlives the ring's wait below.
        unsafe { ring.submission().push(&timeout.into()) }.expect("an empty ring");
        let mut interrupted = 0;
        let ring = RefCell::new(&mut ring);
        let wait = || {
            ring.borrow().submit_and_wait(1)?;
            interrupted += 1;
            Ok(())
        };
        let ended = || ring.borrow_mut().completion().next().map(|end| end.result());
        let result = wait_for_end(wait, ended).expect("it ends");
        assert_eq!((result, interrupted), (-62, 1), "ETIME");
        assert!(began.elapsed() >= LENGTH);
    }
}
