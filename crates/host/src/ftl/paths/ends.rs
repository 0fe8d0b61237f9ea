//! Ends of commands: of reads, and of the jobs of parallel units.

use super::{flush, gc, jobs, read, resets, write};
use crate::ftl::core::Core;
use crate::ftl::reads::Purpose;
use crate::ftl::units::Job;
use pellucid_flash::{Completion, Opcode, Status};

/// Handles the end of a read.
pub(in crate::ftl) fn read_ended(core: &mut Core, read: u32, completion: &mut Completion) {
    match read::ended(core, read, completion) {
        None => return,
        Some(Purpose::Request(request)) => read::arrived(core, read, request, completion),
        Some(Purpose::Gc) => gc::arrived(core, read, completion),
    }
    core.reads.release(read);
}

/// Handles the end of a unit's current job. `starting`: the layer is being started, which handles refusals itself. Returns `true` if it was a
/// padding of the start.
pub(in crate::ftl) fn unit_ended(
    core: &mut Core,
    unit: u32,
    completion: &mut Completion,
    starting: bool,
) -> bool {
    let job = core.units.end(unit);
    if completion.opcode == Opcode::Write {
        core.counters.wrote(completion);
    }
    core.port.put_back(std::mem::take(&mut completion.data), completion.vector.take());
    // The drive refused the job, or does not guarantee its result.
    if completion.status == Status::WriteFault && !starting {
        core.units.refuse(unit, job);
        return false;
    }
    let again = core.units.take_refused(unit);
    let ok = read::is_readable(completion) || (again && was_taken(core, unit, job, completion.status));
    let mut padded = false;
    match job {
        // A chunk that was never written needs no reset.
        Job::Reset(line) => {
            let ok = ok || completion.status == Status::ChunkInvalidReset;
            resets::reset_ended(core, line, unit, ok);
        }
        _ => {
            match ok {
                true => core.lines[job.line()].grew(unit),
                false => resets::chunk_failed(core, job.line(), unit, completion.status),
            }
            padded = job_ended(core, job, ok, starting);
            if core.lines.shape().held_rows > 0 {
                flush::synced(core);
            }
        }
    }
    jobs::kick(core, unit);
    padded
}

/// Reports whether a refused job was nevertheless executed: the chunk's write pointer is after it.
fn was_taken(core: &Core, unit: u32, job: Job, status: Status) -> bool {
    let full = core.lines[job.line()].rows(unit).is_some_and(|rows| rows + 1 == core.lines.shape().rows);
    status == Status::ChunkOutOfOrder || (status == Status::ChunkWriteInvalid && full)
}

/// Ends the jobs for failed chunks that were never sent. Returns the number of paddings of the start among them.
#[inline]
pub(in crate::ftl) fn end_aborted(core: &mut Core, starting: bool) -> u32 {
    let mut padded = 0;
    while let Some(job) = core.units.next_aborted() {
        padded += u32::from(job_ended(core, job, false, starting));
    }
    padded
}

/// Handles the end of a job; returns `true` if it was a padding of the start.
fn job_ended(core: &mut Core, job: Job, ok: bool, starting: bool) -> bool {
    match job {
        Job::Data(id, line) => write::program_ended(core, id, line, ok),
        Job::Start(line) => {
            core.lines[line].start_written(ok);
            jobs::kick_all(core);
        }
        Job::End(line, _) => resets::end_written(core, line),
        Job::Pad(..) if starting => return true,
        Job::Pad(line, _) => resets::release(core, line),
        Job::Reset(_) => unreachable!("resets end by themselves"),
    }
    false
}
