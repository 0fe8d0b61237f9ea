//! Commands on their way through the drive: the command itself, and the slices that it is cut into.
//!
//! ```text
//!  command ─► Work ─┬─► Slice  one mapping unit, or what one flash operation serves
//!                   ├─► Slice  each books its own stages; those of the last to end are the command's
//!                   └─► Slice ─► slices_left = 0: the command is complete
//! ```
//! Invariants: a slice is in one stage at any time, and the time since `mark` is booked when it leaves it; a command counts
//! its slices that have not ended.

use crate::back::scheduler::FlashOp;
use crate::losses::Promise;
use pellucid_flash::slab::{Linked, NIL};
use pellucid_flash::{Cause, Command, Lba, Lpn, Nanos, Opcode, Ppa, SimTime, Stage, StageTimes, Status};

/// A command in the drive. The fields that the end of a slice touches lie together, at the beginning.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Work {
    pub slices_left: u32,
    /// Slices whose data the controller has still to move before it completes the command by itself.
    pub dmas_left: u32,
    pub mark: SimTime,
    pub submitted: SimTime,
    /// Result in the completion.
    pub result: u64,
    next: u32,
    /// Unmapped sectors in the completion.
    pub unmapped: u32,
    pub status: Status,
    /// Open-channel copy: the sources are in the controller.
    pub copied: bool,
    /// A command that a nameless namespace gives its own chunks, and why.
    pub inner: Option<Cause>,
    /// Occupied; for walking outstanding commands at a power cut.
    pub live: bool,
    /// Taken from its queue; one of the `active` ones.
    pub fetched: bool,
    pub stages: StageTimes,
    pub command: Command,
    /// See [`Promise::settled`] (flush).
    pub settled: SimTime,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            slices_left: 0,
            dmas_left: 0,
            mark: SimTime::ZERO,
            submitted: SimTime::ZERO,
            result: 0,
            next: NIL,
            unmapped: 0,
            status: Status::Success,
            copied: false,
            inner: None,
            live: false,
            fetched: false,
            stages: StageTimes::default(),
            command: Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()),
            settled: SimTime::ZERO,
        }
    }
}

impl Work {
    /// Reinitialises the record for another command. It does so field by field and in place, because copying the whole record would
    /// cost more than using it.
    #[inline]
    pub fn begin(&mut self, command: Command, submitted: SimTime, status: Status) {
        (self.slices_left, self.dmas_left) = (0, 0);
        (self.mark, self.submitted) = (submitted, submitted);
        (self.result, self.unmapped, self.status, self.next) = (0, 0, status, NIL);
        (self.copied, self.inner, self.live, self.fetched) = (false, None, true, false);
        self.stages = StageTimes::default();
        self.command = command;
    }

    /// The worst status of a command's parts is its own. `failed`: bits of the addresses concerned.
    pub fn merge_status(&mut self, status: Status, failed: u64) {
        let worse = match self.status {
            Status::Success => true,
            Status::HighEcc => status != Status::Success,
            _ => false,
        };
        if worse {
            self.status = status;
        }
        let listed = self.command.vector.as_ref().is_some_and(|v| !v.addresses.is_empty());
        if status != Status::Success && listed {
            self.result |= failed;
        }
    }

    /// Returns the promise of a flush.
    pub fn promise(&self) -> Promise {
        Promise { submitted: self.submitted, settled: self.settled }
    }
}

impl Linked for Work {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Numbers of the commands that were fetched and are not retired.
///
/// ```text
///  fetched ─► taken by the firmware ─► completed ─► retired
///             └ untaken before          └ by the controller itself: unretired until the firmware has dealt with it
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    active: u32,
    untaken: u32,
    unretired: u32,
}

impl Fetched {
    /// A command leaves its queue.
    #[inline]
    pub fn fetch(&mut self) {
        self.active += 1;
        self.untaken += 1;
    }

    /// The firmware has taken a command.
    #[inline]
    pub fn take(&mut self) {
        self.untaken -= 1;
    }

    /// The controller has completed a command by itself.
    #[inline]
    pub fn complete_early(&mut self) {
        self.unretired += 1;
    }

    /// The firmware has dealt with a command that the controller has completed.
    #[inline]
    pub fn learn_end(&mut self) {
        self.unretired -= 1;
    }

    /// A command has left the drive.
    #[inline]
    pub fn retire(&mut self) {
        self.active -= 1;
        debug_assert!(self.active >= self.untaken && self.active >= self.unretired, "{self:?}");
    }

    /// Commands fetched and not retired.
    #[inline]
    pub fn active(self) -> u32 {
        self.active
    }

    /// Commands fetched that the firmware has not taken yet.
    #[inline]
    pub fn untaken(self) -> u32 {
        self.untaken
    }

    /// Commands that the controller has completed and the firmware has not dealt with.
    #[inline]
    pub fn unretired(self) -> u32 {
        self.unretired
    }
}

/// Path of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Route {
    /// Through buffer and page map.
    Page,
    /// Direct: from the media to the host.
    Read,
    /// Direct: from the host to the media, one superpage.
    Program,
    /// Direct: an erase unit.
    Erase,
    /// Direct: from the media into the controller, to be programmed elsewhere.
    CopyRead,
    /// Direct: one superpage of what was read so, or moved inside a die.
    CopyProgram,
    /// Direct: what the controller knows by itself, to the host.
    Tell,
    /// Zoned: from the host into the buffer, a superpage or a part of one.
    Stage,
}

/// Where the data of a slice are, or go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Unknown yet, or nowhere.
    None,
    /// This entry of the data buffer.
    Entry(u32),
    /// The media, from this unit on.
    Units(Ppa),
    /// This superpage of a zone.
    Superpage(u32),
    /// This slot of a zoned namespace's buffer.
    Slot(u32),
}

impl Place {
    #[inline]
    pub fn entry(self) -> u32 {
        match self {
            Place::Entry(entry) => entry,
            other => unreachable!("a buffer entry was expected, not {other:?}"),
        }
    }

    #[inline]
    pub fn units(self) -> Ppa {
        match self {
            Place::Units(first) => first,
            other => unreachable!("a place on the media was expected, not {other:?}"),
        }
    }

    pub fn superpage(self) -> u32 {
        match self {
            Place::Superpage(superpage) => superpage,
            other => unreachable!("a superpage of a zone was expected, not {other:?}"),
        }
    }

    pub fn slot(self) -> u32 {
        match self {
            Place::Slot(slot) => slot,
            other => unreachable!("a slot was expected, not {other:?}"),
        }
    }
}

/// The part of a command that lies in one mapping unit; of one that addresses the media, the part that one flash operation
/// serves.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub work: u32,
    /// Its logical page; of a block namespace.
    pub lpn: Lpn,
    /// The chunk or zone concerned; of the others.
    pub number: u32,
    /// First sector inside the unit.
    pub first: u32,
    pub sectors: u32,
    /// Where its sectors start in the command's data.
    pub data_at: u32,
    /// A write of zeros, without host data.
    pub zero: bool,
    /// The program of this slice was not begun, so there is no end to ask the media for.
    pub unbegun: bool,
    /// The write is acknowledged only when programmed.
    pub through: bool,
    /// Its data have crossed the link and stand where they belong; the firmware need not know yet.
    pub moved: bool,
    /// This slice started the flash operation that it waits for, so the operation's stages are its own.
    pub primary: bool,
    /// The host's memory has its data already, straight from the media.
    pub delivered: bool,
    pub route: Route,
    pub place: Place,
    pub mark: SimTime,
    pub stages: StageTimes,
    pub next: u32,
}

impl Linked for Slice {
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice {
            work: NIL,
            lpn: Lpn::NONE,
            number: 0,
            first: 0,
            sectors: 0,
            data_at: 0,
            zero: false,
            unbegun: false,
            through: false,
            moved: false,
            primary: false,
            delivered: false,
            route: Route::Page,
            place: Place::None,
            mark: SimTime::ZERO,
            stages: StageTimes::default(),
            next: NIL,
        }
    }
}

impl Slice {
    /// Books the time since the last transition to `stage`.
    #[inline]
    pub fn book(&mut self, stage: Stage, now: SimTime) {
        self.stages.add(stage, now - self.mark);
        self.mark = now;
    }

    /// Credits the time since the last transition to the operations whose time is left in `pool`, in proportion, and
    /// subtracts it from the pool. Time that the pool does not cover goes to `Buffer`.
    pub fn book_from(&mut self, pool: &mut StageTimes, now: SimTime) {
        let (wait, total) = ((now - self.mark).0, pool.total().0);
        for stage in Stage::ALL {
            let time = &mut pool.0[stage as usize];
            let share = match total <= wait {
                true => *time,
                false => (u128::from(*time) * u128::from(wait) / u128::from(total)) as u64,
            };
            *time -= share;
            self.stages.add(stage, Nanos(share));
            self.mark += Nanos(share);
        }
        self.book(Stage::Buffer, now);
    }

    /// The flash operation that it waited for has ended.
    #[inline]
    pub fn add_operation(&mut self, op: &FlashOp, now: SimTime) {
        // One that joined the operation under way only waited for it.
        if op.since != self.mark || op.mark != now {
            return self.book(Stage::Buffer, now);
        }
        self.stages.add_all(&op.stages);
        self.mark = now;
    }

    /// The flash operation that it waited for has ended; its times were these.
    #[inline]
    pub fn add_stages(&mut self, stages: &StageTimes, now: SimTime) {
        // One that joined the operation under way only waited for it.
        if stages.total() != now - self.mark {
            return self.book(Stage::Buffer, now);
        }
        self.stages.add_all(stages);
        self.mark = now;
    }

    /// The sectors as bits of the unit.
    #[inline]
    pub fn mask(&self) -> u64 {
        sector_mask(self.first, self.sectors)
    }
}

/// `sectors` bits from bit `first` on; up to 64.
#[inline]
pub(crate) fn sector_mask(first: u32, sectors: u32) -> u64 {
    (u64::MAX >> (64 - sectors)) << first
}
