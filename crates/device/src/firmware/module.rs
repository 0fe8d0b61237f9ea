//! The firmware's modules, by which the processors' time is counted, and the chores that they do inside a step.

use crate::config::{ModuleCosts, StepCost};

/// A module of the firmware, by which the processors' time is counted (Cosmos+ sections 3.3 and 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FirmwareModule {
    /// Looking for a command, and taking it.
    Fetch = 0,
    /// Cutting commands into slices, and all of a slice that no other module is paid for.
    Slice = 1,
    /// The data buffer manager: look-ups, entries given and evicted.
    Buffer = 2,
    /// The address translator: look-ups, places chosen, older copies invalidated.
    Translation = 3,
    /// The dependency checker.
    Dependency = 4,
    /// GC: victims chosen, units copied.
    Gc = 5,
    /// Handing host DMA operations to their engine.
    Dma = 6,
    /// The scheduler's issuer: handing flash operations to their channels.
    Issue = 7,
    /// The scheduler's status checker: finding out what has ended, host DMA or flash, and dealing with it.
    Status = 8,
    /// Completing commands.
    Complete = 9,
    /// Handling admin commands.
    Admin = 10,
}

impl FirmwareModule {
    /// How many modules there are.
    pub const COUNT: usize = 11;
    /// All modules in the order of their numbers.
    pub const ALL: [FirmwareModule; FirmwareModule::COUNT] = [
        FirmwareModule::Fetch,
        FirmwareModule::Slice,
        FirmwareModule::Buffer,
        FirmwareModule::Translation,
        FirmwareModule::Dependency,
        FirmwareModule::Gc,
        FirmwareModule::Dma,
        FirmwareModule::Issue,
        FirmwareModule::Status,
        FirmwareModule::Complete,
        FirmwareModule::Admin,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            FirmwareModule::Fetch => "fetch",
            FirmwareModule::Slice => "slice",
            FirmwareModule::Buffer => "buffer",
            FirmwareModule::Translation => "translation",
            FirmwareModule::Dependency => "dependency",
            FirmwareModule::Gc => "gc",
            FirmwareModule::Dma => "dma",
            FirmwareModule::Issue => "issue",
            FirmwareModule::Status => "status",
            FirmwareModule::Complete => "complete",
            FirmwareModule::Admin => "admin",
        }
    }
}

/// Work of a module that only takes processor time: the step that calls the module performs the effects afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Chore {
    /// An admin command.
    Admin = 0,
    /// The page of a slice is looked for in the buffer.
    Lookup = 1,
    /// A page gets a vacant entry.
    Entry = 2,
    /// An entry is evicted for another page.
    Evict = 3,
    /// The place of a page that is read.
    Translate = 4,
    /// The place of a page that is written.
    Allocate = 5,
    /// The older copy of a page that is written becomes invalid.
    Invalidate = 6,
    /// Dependencies of a host DMA or flash operation.
    Depend = 7,
    /// GC chooses a victim.
    Victim = 8,
    /// GC copies a unit.
    Copy = 9,
}

/// A chore, and how often it is done. One number, so that a task is passed in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chores(u32);

impl Chores {
    /// A chore that is done so many times, fewer than 2^28.
    #[inline]
    pub fn new(chore: Chore, times: u32) -> Chores {
        debug_assert!(times < 1 << 28, "{chore:?} {times} times");
        Chores(times << 4 | chore as u32)
    }

    /// The number of the chore.
    pub const fn number(self) -> usize {
        (self.0 & 0xF) as usize
    }

    /// The module that does it.
    pub const fn module(self) -> FirmwareModule {
        Chore::ALL[self.number()].module()
    }

    /// How often it is done.
    pub const fn times(self) -> u64 {
        (self.0 >> 4) as u64
    }
}

impl Chore {
    /// How many chores there are.
    pub const COUNT: usize = 10;
    /// All chores in the order of their numbers.
    const ALL: [Chore; Chore::COUNT] = [
        Chore::Admin,
        Chore::Lookup,
        Chore::Entry,
        Chore::Evict,
        Chore::Translate,
        Chore::Allocate,
        Chore::Invalidate,
        Chore::Depend,
        Chore::Victim,
        Chore::Copy,
    ];

    /// The module that does it.
    pub const fn module(self) -> FirmwareModule {
        match self {
            Chore::Admin => FirmwareModule::Admin,
            Chore::Lookup | Chore::Entry | Chore::Evict => FirmwareModule::Buffer,
            Chore::Translate | Chore::Allocate | Chore::Invalidate => FirmwareModule::Translation,
            Chore::Depend => FirmwareModule::Dependency,
            Chore::Victim | Chore::Copy => FirmwareModule::Gc,
        }
    }

    /// Costs in the order of the numbers.
    pub const fn costs(costs: &ModuleCosts) -> [StepCost; Chore::COUNT] {
        let ModuleCosts {
            admin,
            lookup,
            entry,
            evict,
            translate,
            allocate,
            invalidate,
            depend,
            victim,
            copy,
        } = *costs;
        [admin, lookup, entry, evict, translate, allocate, invalidate, depend, victim, copy]
    }
}
