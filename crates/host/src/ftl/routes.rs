//! Routes: tasks of the processor and ends of commands go to the paths, and rounds of work run until everything waits for the drive, the
//! processor or the application. No route decides anything but the order of the paths.

use super::HostFtl;
use super::paths::{ends, flush, gc, read, resets, stop, write};
use super::port::{TAG_FINISH, TAG_NUMBER, TAG_READ, TAG_UNIT, Task};
use pellucid_flash::{BlockId, Completion, Lpn, Opcode, Status};

impl HostFtl {
    #[inline]
    pub(super) fn run(&mut self, task: Task) {
        match task {
            Task::Arrived(request) if self.start.is_some() => self.core.requests.wait_for_start(request),
            Task::Arrived(request) => self.arrived(request),
            Task::Send(command) => self.core.port.pass(command),
            Task::Ended(mut completion) => self.ended(&mut completion),
        }
    }

    /// Starts a command of the application.
    fn arrived(&mut self, request: u32) {
        let core = &mut self.core;
        let command = core.requests.command(request);
        let (opcode, lba, sectors) = (command.opcode, command.lba, command.sectors);
        // A write behind waiting ones waits for the same space, and there is no new work for it.
        let is_new =
            opcode != Opcode::Write || !core.requests.has_waiting() || core.collector.is_unfinished();
        core.work.note(is_new);
        match opcode {
            Opcode::Read => read::start(core, request),
            Opcode::Write if core.health.is_read_only() => core.finish(request, Status::ReadOnly),
            Opcode::Write => core.requests.wait(request),
            Opcode::Trim | Opcode::WriteZeroes => {
                for lba in lba.0..lba.0 + u64::from(sectors) {
                    flush::trim(core, Lpn(lba as u32));
                }
                core.finish(request, Status::Success);
            }
            _ => flush::start(core, request),
        }
    }

    /// Handles the end of a command of the drive.
    pub(super) fn ended(&mut self, completion: &mut Completion) {
        let core = &mut self.core;
        core.port.ended();
        core.work.moved();
        let number = (completion.tag & TAG_NUMBER) as u32;
        match (completion.tag & !TAG_NUMBER, &mut self.start) {
            (TAG_UNIT, start) => {
                let padded = ends::unit_ended(core, number, completion, start.is_some());
                if let Some(start) = start {
                    start.pad_ended(padded.into());
                }
            }
            (TAG_READ, _) => ends::read_ended(core, number, completion),
            // If the drive refused to finish the chunk, it was already out of use.
            (TAG_FINISH, _) => resets::release(core, BlockId(number)),
            (_, Some(start)) => start.ended(core, completion),
            (_, None) => {}
        }
    }

    /// Runs all work that is possible now.
    pub(super) fn settle(&mut self) {
        while self.core.work.take_moved() {
            let padded = ends::end_aborted(&mut self.core, self.start.is_some());
            if let Some(start) = &mut self.start {
                start.pad_ended(padded);
                self.start_goes_on();
                let passed = self.core.work.take_passed();
                self.core.work.note(passed);
                continue;
            }
            let core = &mut self.core;
            core.work.take_passed();
            gc::start(core);
            write::admit(core);
            write::fill(core);
            flush::go_on(core);
            if core.stop.is_begun() {
                stop::go_on(core);
            }
            // GC may find another victim on a second attempt, and the FTL may give up only after a complete
            // round.
            let again = core.work.has_passed() && (core.collector.is_unfinished() || core.port.is_quiet());
            core.work.note(again);
            if !core.work.has_moved() && core.port.is_quiet() {
                self.give_up();
            }
        }
    }

    /// Continues the start; after it, the commands begin that have waited for it.
    #[cold]
    fn start_goes_on(&mut self) {
        let Some(mut start) = self.start.take() else { return };
        if !start.go_on(&mut self.core) {
            self.start = Some(start);
            return;
        }
        start.end(&mut self.core);
        self.mount = start.cost();
        while let Some(request) = self.core.requests.next_early() {
            self.arrived(request);
        }
    }

    /// Fails waiting commands when nothing is in flight: no space is left and GC cannot free any, or the
    /// drive refuses writes. Sectors in the ring stay there and can be read.
    fn give_up(&mut self) {
        let core = &mut self.core;
        if !core.requests.has_waiting() && !flush::is_awaited(core) {
            return;
        }
        // A drive that takes no writes now may take some later.
        core.health.wear_out(!core.units.is_refused());
        while let Some(request) = core.requests.next_waiting() {
            core.finish(request, Status::WriteFault);
        }
        flush::fail_all(core);
    }
}
