//! Channels and dies: chooses the next flash operation of each.
//!
//! Every die has a queue (the reservation station of Cosmos+); the operation at its head goes through
//!
//! ```text
//!          want channel        channel           array            want channel       channel
//!  read    read trigger  ──►  command   ──►  sense        ──►    read transfer ──►  data out ──► (decode)
//!  program write         ──►  data in   ──►  program      ──►    [status check]            ──► end
//!  erase   erase         ──►  command   ──►  erase        ──►    [status check]            ──► end
//! ```
//! With `page_transfers` data cross a channel page by page, and between two pages a better class goes first; a program that
//! was begun takes precedence over others of its class, and reads take turns.
//!
//! A free channel takes, among the heads that want it, the class with the best priority (Cosmos+ Table 2), round robin inside a class.
//! Zero-cost phases pass without an event. The scheduler knows nothing about media or translation: it hands out [`Step`]s, and its caller
//! gives it the array times. At every transition, an operation's time is credited to a stage.
//!
//! With independent plane reads, each plane of a die reads independently (`planes.rs`). The issuer, either hardware queues or a polling
//! firmware, is a type parameter (`issuer.rs`).
//!
//! | state | owner |
//! |---|---|
//! | queue, current and suspended operation, busy time of a die | `Die` |
//! | who wants a channel, and what it carries | `Channel` |
//! | times of commands and data, interconnect, solvers, drain | `Transfers` |
//! | order across dies | `Room` |
//! | when an operation gives way | `Suspension` |
//! | agreement of independent planes | `Planes` |
//! | what a polling firmware can know, and its lists | `Station` |
//!
//! Invariants: a die has at most one current operation (with independent plane reads, one read for each plane instead) and at most one
//! suspended one.

mod channel;
mod die;
mod flow;
mod interconnect;
mod issuer;
mod lanes;
mod operation;
mod planes;
mod poll;
mod room;
mod solver;
mod suspension;
mod transfers;
mod work;

pub(crate) use operation::{FlashOp, OpKind, Owner, Token};
pub(crate) use planes::PlaneUnits;

use channel::{CLASSES, Channel};
use die::{Die, Phase};
use issuer::EventDriven;
use poll::{Polled, Station};
use room::Room;
use suspension::Suspension;
use transfers::Transfers;
use work::Work;

use crate::config::{DeviceConfig, DieOrder, FirmwareModel};
use crate::events::Events;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Layout, Nanos, SimTime, Stage};

/// Next step of an operation, for the rest of the drive to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Command and data are in the die: say how long the array takes ([`Scheduler::start_array`]).
    Array(u32),
    /// The array has finished: let a read go on with [`Scheduler::transfer`], end others with [`Scheduler::release`].
    ArrayDone(u32),
    /// Read data are out of the die (and decoded).
    DataOut(u32),
}

/// Steps to carry out, first come, first served. There are few at a time, and soon none, so `taken` counts those taken from
/// the front. Invariant: `taken` is 0 if there are none.
#[derive(Clone, Debug, Default)]
struct Steps {
    steps: Vec<Step>,
    taken: usize,
}

impl Steps {
    #[inline]
    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    #[inline]
    fn pop(&mut self) -> Option<Step> {
        let step = *self.steps.get(self.taken)?;
        self.taken += 1;
        if self.taken == self.steps.len() {
            self.clear();
        }
        Some(step)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    #[inline]
    fn clear(&mut self) {
        self.steps.clear();
        self.taken = 0;
    }
}

/// Channels, dies and the operations on them.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub ops: Slab<FlashOp>,
    /// Dies; with independent plane reads their planes, one die after the other.
    dies: Vec<Die>,
    /// Planes of a die that read by themselves; 1: none do.
    planes: u32,
    plane_units: PlaneUnits,
    /// Entries of `dies` on one channel.
    dies_per_channel: u32,
    channels: Vec<Channel>,
    transfers: Transfers,
    steps: Steps,
    read_first: bool,
    /// Where operations wait for their dies in the order of all of them, if they keep it.
    room: Option<Room>,
    suspension: Option<Suspension>,
    working_dies: u32,
    busy_channels: u32,
    /// Class of: status check, read trigger, erase, write, read transfer.
    classes: [usize; CLASSES],
    /// View of a firmware loop, which looks at the channels and issues; `None`: operations issue themselves.
    station: Option<Box<Station>>,
}

/// Calls a method that is compiled for each issuer.
macro_rules! by_issuer {
    ($scheduler:ident.$method:ident($($argument:expr),*)) => {
        match $scheduler.station {
            None => $scheduler.$method::<EventDriven>($($argument),*),
            Some(_) => $scheduler.$method::<Polled>($($argument),*),
        }
    };
}

impl Scheduler {
    /// Builds the scheduler of a drive.
    pub fn of(config: &DeviceConfig, layout: &Layout) -> Scheduler {
        let of = &config.scheduler;
        let plane_units = PlaneUnits::new(&config.media, layout);
        let planes = plane_units.planes();
        let (dies, dies_per_channel) = (layout.dies * planes, layout.dies_per_channel * planes);
        let page_units = (config.media.geometry.page_bytes / layout.unit_bytes).max(1);
        let is_polled = config.firmware.model == FirmwareModel::Loop;
        let p = &of.priorities;
        Scheduler {
            ops: Slab::default(),
            dies: (0..dies).map(|die| Die::new(die, dies_per_channel, planes)).collect(),
            planes,
            plane_units,
            channels: vec![Channel::default(); layout.channels as usize],
            dies_per_channel,
            transfers: Transfers::new(of, &config.media.timing, layout, page_units, config.media.seed),
            steps: Steps::default(),
            read_first: of.order == DieOrder::ReadFirst,
            room: (of.order == DieOrder::InOrder).then(Room::default),
            suspension: Suspension::new(of, &config.media.timing),
            working_dies: 0,
            busy_channels: 0,
            classes: classes_of([p.status_check, p.read_trigger, p.erase, p.write, p.read_transfer]),
            station: is_polled.then(|| Box::new(Station::new(layout.channels, dies, of.queue))),
        }
    }

    /// The next thing to do for an operation.
    #[inline]
    pub fn pop_step(&mut self) -> Option<Step> {
        self.steps.pop()
    }

    /// Returns whether [`Scheduler::pop_step`] has a step to give.
    #[inline]
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Queues an operation at its die. Host reads may go ahead of what has not started.
    #[inline]
    pub fn enqueue(&mut self, now: SimTime, op: u32, ahead: bool, events: &mut Events) {
        by_issuer!(self.join(now, op, ahead, events));
    }

    /// Puts a failed read back at the head of its die's queue.
    pub fn enqueue_again(&mut self, now: SimTime, op: u32, events: &mut Events) {
        by_issuer!(self.join_again(now, op, events));
    }

    /// The transfer on `channel` has ended.
    #[inline]
    pub fn channel_done(&mut self, now: SimTime, channel: u32, events: &mut Events) {
        by_issuer!(self.carried_over(now, channel, events));
    }

    /// The array of the operation's die works for `time` from now on. A host read that came while the operation was on its way
    /// there does not wait for all of it either.
    #[inline]
    pub fn start_array(&mut self, now: SimTime, op: u32, time: Nanos, events: &mut Events) {
        let die = self.ops[op].plane;
        self.dies[die as usize].array_works(now + time, now);
        events.at(now + time, crate::events::Event::Die(die));
        if self.suspension.is_some() {
            self.try_suspend(now, die, events);
        }
    }

    /// The array operation of `die` should have ended now; a suspended one has not.
    #[inline]
    pub fn array_done(&mut self, now: SimTime, die: u32, events: &mut Events) {
        by_issuer!(self.array_has_ended(now, die, events));
    }

    /// A sensed read may leave its die.
    #[inline]
    pub fn transfer(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.ops[op].plane;
        by_issuer!(self.want(now, die, Phase::Transfer, events));
    }

    /// The data of `op` are decoded.
    pub fn decoded(&mut self, now: SimTime, op: u32) {
        self.ops[op].book(Stage::Transfer, now);
        match self.station {
            None => <EventDriven as issuer::Issuer>::decoded(self, op),
            Some(_) => <Polled as issuer::Issuer>::decoded(self, op),
        }
    }

    /// A program, erase or copyback is over; its die goes on with the next operation.
    #[inline]
    pub fn release(&mut self, now: SimTime, op: u32, events: &mut Events) {
        let die = self.ops[op].plane;
        by_issuer!(self.go_on(now, die, events));
    }

    /// Work of channels and dies, present and past.
    #[inline]
    pub fn work(&self) -> Work<'_> {
        Work::of(self)
    }

    /// Forgets all operations (power cut); busy times are kept.
    pub fn reset(&mut self, now: SimTime) {
        self.dies.iter_mut().for_each(|die| die.reset(now));
        self.channels.iter_mut().for_each(|channel| channel.reset(now));
        (self.working_dies, self.busy_channels) = (0, 0);
        if let Some(room) = &mut self.room {
            *room = Room::default();
        }
        if let Some(station) = &mut self.station {
            station.reset();
        }
        self.transfers.reset();
        self.steps.clear();
        self.ops.clear();
    }
}

/// The class of each kind of transfer, from its priority: equal ones share a class.
fn classes_of(priorities: [u8; CLASSES]) -> [usize; CLASSES] {
    let mut distinct = priorities.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    priorities.map(|p| distinct.iter().position(|&d| d == p).expect("taken from it"))
}
