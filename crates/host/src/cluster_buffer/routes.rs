//! Routes: requests and ends of commands go to the paths, and rounds of work follow. No route decides anything but the order of the paths.

use super::ClusterBuffer;
use super::paths::{bypass, evict, flush, group, read, start, write};
use super::port::{Part, Purpose, Step};
use pellucid_flash::slab::NIL;
use pellucid_flash::{Command, Completion, Opcode, Status};

impl ClusterBuffer {
    #[inline]
    pub(super) fn do_step(&mut self, step: Step) {
        match step {
            Step::Begin(op) => self.begin(op),
            Step::Send(command) => self.core.port.pass(command),
            Step::Ended(completion) => self.ended(completion),
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, op: u32) {
        let core = &mut self.core;
        if start::holds(core, op) {
            return;
        }
        let Command { opcode, sectors, .. } = *core.requests.command(op);
        match opcode {
            Opcode::Read => read::start(core, op),
            Opcode::Flush => flush::start(core, op),
            Opcode::Write if core.requests.is_buffered(op) => {
                core.counters.wrote(sectors);
                core.clock.tick();
                core.requests.wait(op);
            }
            _ => core.requests.wait(op),
        }
        self.go_on();
    }

    fn ended(&mut self, completion: Completion) {
        let core = &mut self.core;
        let Part { op, purpose } = core.port.ended(&completion);
        if op != NIL {
            core.requests.set_stages(op, completion.stages);
        }
        match purpose {
            Purpose::Read => read::ended(core, op, completion),
            Purpose::Missing(at) => read::missing_ended(core, op, at, completion),
            Purpose::Bypass => bypass::ended(core, op, completion),
            Purpose::Flush => core.finish(op, completion.status),
            Purpose::Pad(eviction) => evict::padded(core, eviction, completion),
            Purpose::Run(eviction) => evict::run_written(core, eviction, completion),
            Purpose::Stop if completion.status == Status::Success => core.ends.flushed(),
            Purpose::Stop => {}
            Purpose::GroupFlush => group::flushed(core, completion.status),
            Purpose::Append => group::appended(core, completion),
            Purpose::Start => {
                let early = start::go_on(core, completion);
                early.into_iter().for_each(|op| self.begin(op));
            }
        }
        self.go_on();
    }

    /// Starts all work that is possible now.
    #[inline]
    pub(super) fn go_on(&mut self) {
        let core = &mut self.core;
        group::decide_way(core);
        loop {
            write::admit(core);
            if !evict::start(core) {
                break;
            }
        }
        match core.journal {
            Some(_) => group::go_on(core),
            None => flush::go_on(core),
        }
        flush::stop_goes_on(core);
    }
}
