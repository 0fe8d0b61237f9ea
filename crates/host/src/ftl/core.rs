//! Core of a host FTL: the objects that the paths use. Each has private fields and keeps its own invariants.

use super::HostFtlError;
use super::collector::Collector;
use super::counters::HostCounters;
use super::flushes::Flushes;
use super::lines::Lines;
use super::port::Port;
use super::programs::Programs;
use super::rate::RateLimiter;
use super::reads::Read;
use super::requests::Requests;
use super::ring::Ring;
use super::stop::Stop;
use super::units::Units;
use pellucid_flash::Status;
use pellucid_flash::slab::Slab;
use pellucid_ftl::PageMap;

/// Work that is left in a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// State has changed since the last search for work.
    moved: bool,
    /// Writes were taken in, planned or sent in this round; earlier steps of the round need no repetition for
    /// that.
    passed: bool,
}

impl Work {
    /// Asks for another round if `moved`.
    #[inline]
    pub fn note(&mut self, moved: bool) {
        self.moved |= moved;
    }

    /// Asks for another round.
    #[inline]
    pub fn moved(&mut self) {
        self.moved = true;
    }

    /// Notes that writes went on.
    #[inline]
    pub fn passed(&mut self) {
        self.passed = true;
    }

    /// Takes the wish for another round.
    #[inline]
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Takes the note that writes went on.
    #[inline]
    pub fn take_passed(&mut self) -> bool {
        std::mem::take(&mut self.passed)
    }

    #[inline]
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    #[inline]
    pub fn has_passed(&self) -> bool {
        self.passed
    }
}

/// State in which the layer refuses writes, or all commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    failure: Option<HostFtlError>,
    read_only: bool,
}

impl Health {
    /// Notes the reason that the layer cannot run.
    pub fn fail(&mut self, error: HostFtlError) {
        self.failure = Some(error);
    }

    #[inline]
    pub fn failure(&self) -> Option<&HostFtlError> {
        self.failure.as_ref()
    }

    /// Stops taking writes if the lines are worn out.
    #[inline]
    pub fn wear_out(&mut self, worn_out: bool) {
        self.read_only |= worn_out;
    }

    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// Objects of a host FTL.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub lines: Lines,
    pub ftl: PageMap,
    pub ring: Ring,
    pub rate: RateLimiter,
    pub units: Units,
    pub programs: Programs,
    pub reads: Slab<Read>,
    pub collector: Collector,
    pub flushes: Flushes,
    pub requests: Requests,
    pub port: Port,
    pub stop: Stop,
    pub work: Work,
    pub health: Health,
    pub counters: HostCounters,
}

impl Core {
    /// Answers a command of the application.
    #[inline]
    pub fn finish(&mut self, request: u32, status: Status) {
        let (opcode, sectors) = self.requests.finish(request, status, self.port.now());
        self.counters.answered(opcode, status, sectors);
    }

    /// Stops taking writes if the engine has too few blocks left.
    #[inline]
    pub fn note_wear(&mut self) {
        self.health.wear_out(self.ftl.view().worn_out);
    }
}
