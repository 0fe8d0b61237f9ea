//! State that all namespaces of a drive share: the clock, the events to come, the host interface, the firmware processor, the scheduler,
//! the media, and the commands on their way.
//!
//! A namespace's methods take it as `&mut Shared`: a namespace changes itself and the shared state, and never another namespace.

use crate::back::scheduler::{OpKind, Scheduler};
use crate::config::{DeviceConfig, DieOrder, FirmwareModel};
use crate::counters::{Counters, Tally};
use crate::events::Events;
use crate::firmware::{Chore, Chores, Firmware, Task};
use crate::front::commands::{Fetched, Slice, Work, sector_mask};
use crate::front::host_interface::HostInterface;
use crate::front::notices::Notices;
use crate::probes::Observers;
use pellucid_flash::slab::Slab;
use pellucid_flash::{Cause, Completion, Divisor, Layout, SimTime, Stage};
use pellucid_media::{Media, MediaConfig};
use std::collections::VecDeque;

/// Everything of a drive that is no namespace's own.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub config: DeviceConfig,
    pub layout: Layout,
    pub now: SimTime,
    pub events: Events,
    pub host: HostInterface,
    pub firmware: Firmware,
    pub scheduler: Scheduler,
    pub media: Media,
    pub works: Slab<Work>,
    pub slices: Slab<Slice>,
    pub fetched: Fetched,
    pub image_bytes: usize,
    /// All sectors of a mapping unit, as bits.
    pub full: u64,
    /// Units that one sense brings: those of a superpage, of one-shot programming those of a page; with independent plane reads, of
    /// a page of one plane.
    pub sense: Divisor,
    pub tally: Tally,
    /// On while the drive is watched or recorded; nothing in the drive reads them.
    pub observers: Option<Box<Observers>>,
    pub completions: VecDeque<Completion>,
    pub notices: Notices,
    /// Commands of nameless namespaces to their own chunks that have ended.
    pub inner_ended: VecDeque<u32>,
}

impl Shared {
    /// State of a drive at rest. The description is complete and has been checked.
    pub fn new(config: DeviceConfig, media: Media) -> Shared {
        let layout = media.layout().clone();
        Shared {
            events: Events::default(),
            host: HostInterface::new(&config.host, config.firmware.model == FirmwareModel::Loop),
            firmware: Firmware::new(&config.firmware, config.media.seed),
            scheduler: Scheduler::of(&config, &layout),
            works: Slab::default(),
            slices: Slab::default(),
            now: SimTime::ZERO,
            fetched: Fetched::default(),
            image_bytes: media.image_bytes(),
            full: sector_mask(0, layout.sectors_per_unit),
            sense: units_of_a_sense(&config.media, &layout),
            tally: Tally::new(config.namespaces.len()),
            observers: None,
            completions: VecDeque::new(),
            notices: Notices::default(),
            inner_ended: VecDeque::new(),
            config,
            layout,
            media,
        }
    }

    /// The power fails: commands, events and operations are forgotten; clock, counters and busy times go on.
    pub fn power_off(&mut self) {
        self.events.clear();
        self.host.reset(self.now);
        self.firmware.reset(self.now);
        self.scheduler.reset(self.now);
        self.works.clear();
        self.inner_ended.clear();
        self.slices.clear();
        self.fetched = Fetched::default();
    }

    /// Counters of a namespace.
    #[inline]
    pub fn counts(&mut self, namespace: u16) -> &mut Counters {
        self.tally.of(namespace)
    }

    /// Sums over the namespaces and the drive, with what scheduler and media count.
    pub fn counters(&self) -> Counters {
        Counters {
            suspensions: self.scheduler.work().suspensions(),
            miscorrected_chunks: self.media.miscorrected_chunks(),
            damaged_reads: self.media.damage().reads(),
            retired_blocks: self.media.failures().retired(),
            ..self.tally.sum()
        }
    }

    pub fn reset_counters(&mut self) {
        self.tally.reset();
        self.media.reset_counts();
    }

    /// The namespace of a slice's command.
    #[inline]
    pub fn namespace_of(&self, slice: u32) -> u16 {
        self.works[self.slices[slice].work].command.namespace
    }

    /// Asks the firmware for a task. `true`: the task takes no time, and the caller does it at once. Every caller knows its task at
    /// compile time, so a task that costs nothing becomes a direct call.
    #[inline(always)]
    pub fn grants(&mut self, task: Task) -> bool {
        self.firmware.does_at_once(task) || self.ask_processor(task)
    }

    #[inline(never)]
    fn ask_processor(&mut self, task: Task) -> bool {
        self.firmware.ask(self.now, task, &mut self.events)
    }

    /// A module of the firmware does a chore, so many times: what is asked of its processor from now on stands behind that.
    #[inline(always)]
    pub fn charge(&mut self, chore: Chore, times: u32) {
        if self.firmware.is_priced(chore) {
            _ = self.ask_processor(Task::Chore(Chores::new(chore, times)));
        }
    }

    /// A flash operation is to join the queue of its die.
    #[inline(always)]
    pub fn ask_issue(&mut self, op: u32) {
        self.charge(Chore::Depend, 1);
        if self.grants(Task::Issue(op)) {
            self.issue(op);
        }
    }

    /// Adds an operation to the queue of its die.
    #[inline]
    pub fn issue(&mut self, op: u32) {
        self.scheduler.ops[op].book(Stage::Firmware, self.now);
        let ahead = self.may_go_ahead(op);
        self.scheduler.enqueue(self.now, op, ahead, &mut self.events);
    }

    /// Returns whether a read may overtake other operations of its die: only host reads and their mapping reads may, and only if the data
    /// are already programmed.
    #[inline]
    fn may_go_ahead(&self, op: u32) -> bool {
        let op = &self.scheduler.ops[op];
        self.config.scheduler.order == DieOrder::ReadFirst
            && op.kind == OpKind::Read
            && matches!(op.cause, Cause::Host | Cause::Map)
            && self.media.array().is_programmed(op.ppa)
    }

    /// A command is to be completed.
    #[inline(always)]
    pub fn ask_complete(&mut self, work: u32) {
        if self.works[work].inner.is_some() {
            self.inner_ended.push_back(work);
        } else if self.grants(Task::Complete(work)) {
            self.completed_by_firmware(work);
        }
    }
}

pub(crate) fn units_of_a_sense(media: &MediaConfig, layout: &Layout) -> Divisor {
    let geometry = &media.geometry;
    let planes = if media.independent_plane_reads && geometry.multi_plane { geometry.planes } else { 1 };
    let pages = geometry.one_shot_pages * planes;
    let whole = layout.units_per_superpage.is_multiple_of(pages);
    Divisor::new(if whole { layout.units_per_superpage / pages } else { 1 })
}
