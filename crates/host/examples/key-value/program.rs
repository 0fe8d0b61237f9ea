//! Key-value store as async functions, on a deterministic executor that is itself a machine.
//!
//! A task is polled when one of its own commands has completed, or when the condition that it waits for may
//! have changed. Tasks take turns in the order of their wake-ups. There are no wakers: the tag of a command
//! names its task.

use super::log::{Answer, Ask, Log, Outcome, Record, SEGMENT, What};
use pellucid_flash::{Command, Completion, SimTime, Status};
use pellucid_host::Machine;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// State that the tasks and the executor share.
struct Shared {
    now: SimTime,
    /// Task that is being polled.
    current: u64,
    serial: u64,
    done: BTreeMap<u64, Completion>,
    /// Tasks that wait for a condition instead of a command.
    parked: VecDeque<u64>,
    woken: VecDeque<u64>,
    down: VecDeque<Command>,
    up: VecDeque<Answer>,
    // ---- the store's
    log: Log,
    mounted: bool,
    cleaning: bool,
    writes: usize,
}

/// Handle on the drive and on the store.
#[derive(Clone)]
struct Handle(Rc<RefCell<Shared>>);

/// Future that resolves to the completion of the command with this tag.
struct Reply(Handle, u64);

impl Future for Reply {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Completion> {
        match self.0.0.borrow_mut().done.remove(&self.1) {
            Some(completion) => Poll::Ready(completion),
            None => Poll::Pending,
        }
    }
}

impl Handle {
    /// Sends a command of the log; the future resolves to its completion.
    fn io(&self, make: impl FnOnce(&mut Log, u64) -> Command) -> Reply {
        let mut shared = self.0.borrow_mut();
        shared.serial += 1;
        let tag = shared.current << 32 | (shared.serial & 0xffff_ffff);
        let command = make(&mut shared.log, tag);
        shared.down.push_back(command);
        Reply(self.clone(), tag)
    }

    /// Waits until `holds` is true.
    async fn until(&self, holds: impl Fn(&Shared) -> bool) {
        poll_fn(|_| {
            let mut shared = self.0.borrow_mut();
            if holds(&shared) {
                return Poll::Ready(());
            }
            let task = shared.current;
            shared.parked.push_back(task);
            Poll::Pending
        })
        .await;
    }

    /// Changes shared state, and wakes the tasks that wait for a condition.
    fn changed(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.0.borrow_mut();
        change(&mut shared);
        let parked = std::mem::take(&mut shared.parked);
        shared.woken.extend(parked);
    }

    async fn serve(self, ask: Ask) {
        let Ask { tag, key, what } = ask;
        self.until(|shared| shared.mounted).await;
        let outcome = match what {
            What::Get => self.get(key).await,
            What::Put(value) => self.write(key, Some(value)).await,
            What::Delete => self.write(key, None).await,
        };
        let mut shared = self.0.borrow_mut();
        let at = shared.now;
        shared.up.push_back(Answer { tag, at, outcome });
    }

    async fn get(&self, key: u64) -> Outcome {
        loop {
            let place = self.0.borrow().log.place(key);
            let Some(position) = place else { return Outcome::Value(None) };
            if let Some(value) = self.0.borrow().log.fresh(position) {
                return Outcome::Value(Some(value.to_vec()));
            }
            let completion = self.io(|log, tag| log.read(tag, position, 1)).await;
            let found = Record::decode(&completion.data);
            self.0.borrow_mut().log.images.push(completion.data);
            match found {
                Some(found) if found.position == position => return Outcome::Value(found.value),
                // The value was moved, and its old place was overwritten.
                _ if self.0.borrow().log.place(key) != place => {}
                _ => return Outcome::Failed(Status::UnrecoveredRead),
            }
        }
    }

    async fn write(&self, key: u64, value: Option<Vec<u8>>) -> Outcome {
        self.until(|shared| !shared.cleaning && !shared.log.is_low()).await;
        {
            let shared = self.0.borrow();
            match value {
                Some(_) if shared.log.is_full(key) => return Outcome::Full,
                None if shared.log.place(key).is_none() => return Outcome::Done,
                _ => {}
            }
        }
        self.changed(|shared| shared.writes += 1);
        let completion = self.append(key, value).await;
        self.changed(|shared| shared.writes -= 1);
        match completion.status {
            Status::Success => Outcome::Done,
            status => Outcome::Failed(status),
        }
    }

    /// Appends a record; the future resolves to its completion.
    fn append(&self, key: u64, value: Option<Vec<u8>>) -> impl Future<Output = Completion> + '_ {
        let position = self.0.borrow().log.head;
        let io = self.io(|log, tag| log.append(tag, key, value.as_deref()));
        async move {
            let mut completion = io.await;
            let log = &mut self.0.borrow_mut().log;
            log.written(position);
            log.images.push(std::mem::take(&mut completion.data));
            completion
        }
    }

    /// Reads the log, then cleans it whenever it is low.
    async fn keep(self) {
        let sectors = (self.0.borrow().log.segments() * SEGMENT) as u32;
        let all = self.io(|log, tag| log.read(tag, 0, sectors)).await;
        self.changed(|shared| {
            shared.log.mount(&all.data);
            shared.mounted = true;
        });
        loop {
            self.until(|shared| shared.log.is_low()).await;
            self.0.borrow_mut().cleaning = true;
            self.until(|shared| shared.writes == 0).await;
            let first = self.0.borrow().log.tail / SEGMENT * SEGMENT;
            let oldest = self.io(|log, tag| log.read(tag, first, SEGMENT as u32)).await;
            let live = self.0.borrow().log.live_of(&oldest.data);
            let copies: Vec<_> =
                live.into_iter().map(|record| self.append(record.key, record.value)).collect();
            for copy in copies {
                copy.await;
            }
            self.changed(|shared| {
                shared.log.tail = shared.log.end_of_oldest();
                shared.cleaning = false;
            });
        }
    }
}

/// Executor, a machine like any other.
pub struct Program {
    handle: Handle,
    tasks: Vec<Option<Task>>,
    vacant: Vec<usize>,
}

impl Program {
    pub fn new(sectors: u64, sector_bytes: usize) -> Program {
        let shared = Shared {
            now: SimTime::ZERO,
            current: 0,
            serial: 0,
            done: BTreeMap::new(),
            parked: VecDeque::new(),
            woken: VecDeque::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            log: Log::new(sectors, sector_bytes),
            mounted: false,
            cleaning: false,
            writes: 0,
        };
        let handle = Handle(Rc::new(RefCell::new(shared)));
        let mut program = Program { handle: handle.clone(), tasks: Vec::new(), vacant: Vec::new() };
        program.spawn(Box::pin(handle.keep()));
        program
    }

    pub fn check(&self) {
        self.handle.0.borrow().log.check();
    }

    fn spawn(&mut self, task: Task) {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        self.tasks[at] = Some(task);
        self.handle.0.borrow_mut().woken.push_back(at as u64);
        self.run();
    }

    /// Polls woken tasks until none is left.
    fn run(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let woken = {
                let mut shared = self.handle.0.borrow_mut();
                let Some(woken) = shared.woken.pop_front() else { return };
                shared.current = woken;
                woken as usize
            };
            let Some(task) = &mut self.tasks[woken] else { continue };
            if task.as_mut().poll(&mut context).is_ready() {
                self.tasks[woken] = None;
                self.vacant.push(woken);
            }
        }
    }
}

impl Machine for Program {
    type Ask = Ask;
    type Answer = Answer;

    fn namespaces(&self) -> &[u16] {
        &[0]
    }

    fn submit(&mut self, now: SimTime, ask: Ask) {
        self.handle.0.borrow_mut().now = now;
        self.spawn(Box::pin(self.handle.clone().serve(ask)));
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        {
            let mut shared = self.handle.0.borrow_mut();
            shared.now = now;
            shared.woken.push_back(completion.tag >> 32);
            shared.done.insert(completion.tag, completion.take());
        }
        self.run();
    }

    fn advance(&mut self, now: SimTime) {
        self.handle.0.borrow_mut().now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        self.handle.0.borrow_mut().down.pop_front()
    }

    fn pop(&mut self) -> Option<Answer> {
        self.handle.0.borrow_mut().up.pop_front()
    }

    fn answered(&self) -> usize {
        self.handle.0.borrow().up.len()
    }

    fn is_ready(&self) -> bool {
        self.handle.0.borrow().mounted
    }
}
