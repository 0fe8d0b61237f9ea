//! Access to a namespace of a served drive from within the process, for example for a mounted file system.
//! The user has a [`Drive`], the server an [`Attachment`].
//!
//! ```text
//!  a thread of the user ─► LocalDrive ─► asked    ─► LocalEnd ─► Port::submit ─► drive
//!                     ◄── a call ◄───── answered ◄─ LocalEnd ◄──────────────────┘
//! ```
//! A [`LocalDrive`] runs in wall time; the server keeps the drive's time.
//!
//! A power cut of the drive does not end the user, unlike a host. Writes that the user has not flushed may
//! then be lost, so from that moment on every command ends with [`Status::PowerLoss`], as if the drive had
//! left the bus. The user is told ([`LocalDrive::call`]) before the client that asked for the cut has its
//! answer, and must start again with a new [`LocalDrive`].

use crate::attachment::Attachment;
use crate::core::Core;
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime, StageTimes, Status};
use pellucid_target::Drives;
use pellucid_target::operation::{Namespace, Operation};
use pellucid_target::session::Port;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Callback for available answers; true: the drive has lost power, or the server has ended.
type Call = Box<dyn Fn(bool) + Send>;
/// Callback for a server that stops.
type End = Box<dyn Fn() + Send>;

/// State shared by both ends.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    asked: VecDeque<Command>,
    answered: VecDeque<Completion>,
    notices: VecDeque<Notice>,
    /// The user has closed its end.
    closed: bool,
    /// The drive has lost power, or the server has ended.
    gone: bool,
    call: Option<Arc<Mutex<Call>>>,
    /// Callback that ends the user when the server stops first.
    end: Option<End>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the user that answers are available, or that the drive is gone.
    fn tell(&self, is_gone: bool) {
        self.came.notify_all();
        let call = self.lock().call.clone();
        if let Some(call) = call {
            call.lock().unwrap_or_else(PoisonError::into_inner)(is_gone);
        }
    }

    /// Marks the drive as gone, after notifying the user, so that no refused command comes as a
    /// surprise.
    fn leave(&self) {
        if !self.lock().gone {
            self.tell(true);
            self.lock().gone = true;
            self.tell(true);
        }
    }
}

/// The server's end.
pub struct LocalEnd {
    namespace: usize,
    shared: Arc<Shared>,
    woken: UnixStream,
    /// Commands in the drive, by token.
    under_way: HashMap<u64, Command>,
    taken: VecDeque<Command>,
    /// Power cuts of the drive at the start; `None` until first read.
    power_cuts: Option<u64>,
    stopping: bool,
    /// Answers were added in this turn.
    answered: bool,
}

/// The user's end: a drive with one namespace.
pub struct LocalDrive {
    shared: Arc<Shared>,
    waker: UnixStream,
    number: u16,
    interface: Interface,
    sector_bytes: u32,
    is_read_only: bool,
    outstanding: usize,
    now: SimTime,
}

/// Creates both ends for a namespace of the served drives.
///
/// # Errors
/// Fails if the system has no descriptors left.
///
/// # Panics
/// Panics if the namespace does not exist.
pub fn in_process(namespace: usize, core: &Core) -> io::Result<(LocalEnd, LocalDrive)> {
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let shared = Arc::new(Shared::default());
    let Namespace { number, interface, sector_bytes, .. } = core.namespaces()[namespace];
    let is_read_only = core.is_read_only(namespace);
    let drive = LocalDrive {
        shared: Arc::clone(&shared),
        waker,
        number,
        interface,
        sector_bytes,
        is_read_only,
        outstanding: 0,
        now: SimTime::ZERO,
    };
    let end = LocalEnd {
        namespace,
        shared,
        woken,
        under_way: HashMap::new(),
        taken: VecDeque::new(),
        power_cuts: None,
        stopping: false,
        answered: false,
    };
    Ok((end, drive))
}

impl LocalEnd {
    /// Returns true if the drive has lost power since the start.
    fn lost_power(&mut self, port: &Port<'_>) -> bool {
        let cuts = port.device(self.namespace).map_or(0, |device| device.counters().power_cuts);
        let lost = *self.power_cuts.get_or_insert(cuts) != cuts;
        if lost {
            self.shared.leave();
        }
        lost
    }

    fn answer(&mut self, completion: Completion) {
        self.shared.lock().answered.push_back(completion);
        self.answered = true;
    }
}

impl Attachment for LocalEnd {
    fn protocol(&self) -> &'static str {
        "in-process"
    }

    fn namespace(&self) -> usize {
        self.namespace
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.woken.as_raw_fd()]
    }

    fn take(&mut self, port: &mut Port<'_>) {
        let mut bytes = [0; 64];
        while self.woken.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        let lost = self.lost_power(port);
        let notices = std::iter::from_fn(|| port.pop_notice(&[self.namespace]));
        let notices: Vec<Notice> = notices.map(|(_, notice)| notice).collect();
        self.answered |= !notices.is_empty();
        {
            let mut state = self.shared.lock();
            state.notices.extend(notices);
            std::mem::swap(&mut self.taken, &mut state.asked);
        }
        for mut command in std::mem::take(&mut self.taken) {
            if lost {
                self.answer(command.refused(SimTime::ZERO, Status::PowerLoss));
                continue;
            }
            let data = std::mem::take(&mut command.data);
            let Command { queue, opcode, fua, lba, sectors, handle, .. } = command;
            let operation =
                Operation { queue, opcode, fua, lba, sectors, data, handle, vector: command.vector.take() };
            let token = command.tag;
            self.under_way.insert(token, command);
            port.submit(self.namespace, token, operation);
        }
    }

    fn completed(&mut self, token: u64, mut completion: Completion, port: &mut Port<'_>) {
        if self.lost_power(port) {
            completion.status = Status::PowerLoss;
        }
        if let Some(command) = self.under_way.remove(&token) {
            completion.tag = command.tag;
            self.answer(completion);
        }
    }

    fn send(&mut self, port: &mut Port<'_>) {
        // The user must not learn of a power cut later than the client that asked for it.
        self.lost_power(port);
        if std::mem::take(&mut self.answered) {
            self.shared.tell(false);
        }
    }

    fn stop(&mut self, _port: &mut Port<'_>) {
        self.stopping = true;
        let end = self.shared.lock().end.take();
        if let Some(end) = end {
            end();
        }
    }

    fn has_ended(&self) -> bool {
        self.stopping && self.under_way.is_empty() && self.shared.lock().closed
    }
}

impl Drop for LocalEnd {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

impl LocalDrive {
    /// Number of its only namespace.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns true if the namespace took no writes at the start.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Sets the callback for available answers. Its argument is true if the drive has lost power or the server
    /// has ended: every command then ends with [`Status::PowerLoss`].
    pub fn call(&mut self, call: impl Fn(bool) + Send + 'static) {
        self.shared.lock().call = Some(Arc::new(Mutex::new(Box::new(call))));
    }

    /// Sets the callback for a server that stops while this drive is in use. The server then waits for
    /// [`LocalDrive::close`].
    pub fn on_stop(&mut self, end: impl Fn() + Send + 'static) {
        self.shared.lock().end = Some(Box::new(end));
    }

    /// Closes the drive: no more commands follow.
    pub fn close(&mut self) {
        let mut state = self.shared.lock();
        (state.closed, state.call, state.end) = (true, None, None);
    }

    /// Waits for an answer, at most `longest`. Returns the wall time since `began`, or `None` if there was no
    /// answer.
    pub fn wait(&self, began: Instant, longest: Duration) -> Option<SimTime> {
        let state = self.shared.lock();
        let empty = |state: &mut State| state.answered.is_empty() && !state.gone;
        let (state, _) = self
            .shared
            .came
            .wait_timeout_while(state, longest, empty)
            .unwrap_or_else(PoisonError::into_inner);
        (!state.answered.is_empty()).then(|| SimTime(began.elapsed().as_nanos() as u64))
    }

    /// Fails the commands that the server will no longer answer.
    fn give_up(state: &mut State, now: SimTime) {
        if state.gone {
            let lost = state.asked.drain(..).map(|command| command.refused(now, Status::PowerLoss));
            let lost: Vec<Completion> = lost.collect();
            state.answered.extend(lost);
        }
    }
}

impl Drop for LocalDrive {
    fn drop(&mut self) {
        self.close();
    }
}

impl Drive for LocalDrive {
    fn namespaces(&self) -> u16 {
        self.number + 1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == self.number).then_some(self.interface)
    }

    fn image_bytes(&self) -> usize {
        self.sector_bytes as usize
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        self.outstanding += 1;
        let mut state = self.shared.lock();
        state.asked.push_back(command);
        LocalDrive::give_up(&mut state, now);
        drop(state);
        // A full pipe means that the server is already being woken.
        let _ = self.waker.write(&[1]);
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
        LocalDrive::give_up(&mut self.shared.lock(), now);
    }

    fn next_event(&self) -> Option<SimTime> {
        let state = self.shared.lock();
        let has_any = !state.answered.is_empty() || !state.notices.is_empty();
        (has_any || (state.gone && !state.asked.is_empty())).then_some(self.now)
    }

    fn pop(&mut self) -> Option<Completion> {
        let mut ended = self.shared.lock().answered.pop_front()?;
        (ended.submitted, ended.completed, ended.stages) = (self.now, self.now, StageTimes::default());
        self.outstanding -= 1;
        Some(ended)
    }

    fn outstanding(&self) -> usize {
        self.outstanding - self.completed()
    }

    fn completed(&self) -> usize {
        self.shared.lock().answered.len()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        self.shared.lock().notices.pop_front().map(|notice| (self.number, notice))
    }
}
