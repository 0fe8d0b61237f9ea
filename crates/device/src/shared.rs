//! State that all namespaces of a drive share: the clock, the events to come, the host interface, the firmware processor, the scheduler,
//! the media, and the commands on their way.
//!
//! A namespace's methods take it as `&mut Shared`: a namespace changes itself and the shared state, and never another namespace.

use crate::back::scheduler::Scheduler;
use crate::config::{DeviceConfig, FirmwareModel};
use crate::counters::Counters;
use crate::events::Events;
use crate::firmware::{Chore, Chores, Firmware, Task};
use crate::front::commands::{Slice, Work, sector_mask};
use crate::front::host_interface::HostInterface;
use crate::probes::Observers;
use pellucid_flash::slab::Slab;
use pellucid_flash::{ChunkNotice, Completion, Divisor, Layout, SimTime};
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
    /// Commands fetched and not retired.
    pub active: u32,
    /// Commands fetched that the firmware has not taken yet.
    pub untaken: u32,
    /// Commands that the controller has completed and the firmware has not dealt with.
    pub unretired: u32,
    pub image_bytes: usize,
    /// All sectors of a mapping unit, as bits.
    pub full: u64,
    /// Units that one sense brings: those of a superpage, of one-shot programming those of a page; with independent plane reads, of
    /// a page of one plane.
    pub sense: Divisor,
    /// By namespace.
    counters: Vec<Counters>,
    /// Counters that belong to no namespace.
    pub common: Counters,
    /// On while the drive is watched or recorded; nothing in the drive reads them.
    pub observers: Option<Box<Observers>>,
    pub completions: VecDeque<Completion>,
    /// Notices that hosts have not received yet, with the namespace.
    pub notices: VecDeque<(u16, ChunkNotice)>,
    /// Commands of nameless namespaces to their own chunks that have ended.
    pub inner_ended: VecDeque<u32>,
    /// Notices so far.
    pub notice_count: u64,
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
            active: 0,
            untaken: 0,
            unretired: 0,
            image_bytes: media.image_bytes(),
            full: sector_mask(0, layout.sectors_per_unit),
            sense: units_of_a_sense(&config.media, &layout),
            counters: vec![Counters::default(); config.namespaces.len()],
            common: Counters::default(),
            observers: None,
            completions: VecDeque::new(),
            notices: VecDeque::new(),
            inner_ended: VecDeque::new(),
            notice_count: 0,
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
        (self.active, self.untaken, self.unretired) = (0, 0, 0);
    }

    /// Counters of a namespace.
    #[inline]
    pub fn counts(&mut self, namespace: u16) -> &mut Counters {
        &mut self.counters[usize::from(namespace)]
    }

    /// Returns a copy of the counters of a namespace.
    pub fn counters_of(&self, namespace: u16) -> Counters {
        self.counters.get(usize::from(namespace)).copied().unwrap_or_default()
    }

    /// Sums over the namespaces.
    pub fn counters(&self) -> Counters {
        let mut sum = self.common;
        self.counters.iter().for_each(|counters| sum.add(counters));
        Counters {
            suspensions: self.scheduler.suspensions(),
            miscorrected_chunks: self.media.miscorrected_chunks(),
            damaged_reads: self.media.damaged_reads(),
            retired_blocks: self.media.retired_blocks(),
            ..sum
        }
    }

    pub fn reset_counters(&mut self) {
        self.counters.fill(Counters::default());
        self.common = Counters::default();
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
        let at_once = self.firmware.does_at_once(task);
        if !at_once {
            self.ask_processor(task);
        }
        at_once
    }

    /// The firmware's next task, if it costs nothing.
    #[inline]
    pub fn finished_at_once(&mut self) -> Option<Task> {
        self.firmware.finished_at_once(self.now, &mut self.events)
    }

    #[inline(never)]
    fn ask_processor(&mut self, task: Task) {
        self.firmware.ask(self.now, task, &mut self.events);
    }

    /// A module of the firmware does a chore, so many times: what is asked of its processor from now on stands behind that.
    #[inline(always)]
    pub fn charge(&mut self, chore: Chore, times: u32) {
        if self.firmware.is_priced(chore) {
            self.ask_processor(Task::Chore(Chores::new(chore, times)));
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
