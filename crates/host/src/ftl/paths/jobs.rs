//! Jobs of parallel units: the next one that may be sent, and its command.
//!
//! If a drive refuses writes because its store is full, no chunk has failed. Until it accepts writes again,
//! flushes fail, as do writes that find no space in the ring; every change requested by the host makes the
//! layer retry.

use crate::ftl::core::Core;
use crate::ftl::meta;
use crate::ftl::port::TAG_UNIT;
use crate::ftl::programs::Content;
use crate::ftl::units::Job;
use pellucid_flash::{BlockId, Cause, ChunkOp, Command, Lpn, Opcode, append_images};
use pellucid_ftl::{Durability, ProgramId, Soon};

/// Queues a job, and starts it if possible.
pub(in crate::ftl) fn enqueue(core: &mut Core, unit: u32, job: Job) {
    core.units.push(unit, job);
    kick(core, unit);
}

/// Starts the next job of an idle unit.
#[inline]
pub(in crate::ftl) fn kick(core: &mut Core, unit: u32) {
    if core.units.may_start(unit) {
        start_next(core, unit);
    }
}

/// Starts the next jobs of all idle units.
pub(in crate::ftl) fn kick_all(core: &mut Core) {
    for unit in 0..core.lines.shape().units {
        kick(core, unit);
    }
}

/// Retries the jobs after a change that may let the drive take writes again.
pub(in crate::ftl) fn try_again(core: &mut Core) {
    if core.units.try_again() {
        core.work.moved();
        kick_all(core);
    }
}

/// Reports whether a job must wait: for the line's start to be written, or for another chunk to close.
#[inline]
fn must_wait(core: &Core, unit: u32, job: Job) -> bool {
    let line = &core.lines[job.line()];
    match job {
        Job::Data(..) if !line.is_opened() => true,
        // Padding during a start opens only chunks that were about to be opened anyway; if the drive
        // refuses it, the hole stays.
        Job::Reset(_) | Job::Pad(..) => false,
        _ if !core.lines.shape().is_limited() => false,
        _ => line.rows(unit) == Some(0) && !is_dead(core, unit, job) && core.lines.is_full(unit),
    }
}

/// Reports whether a job fails without being sent.
#[inline]
fn is_dead(core: &Core, unit: u32, job: Job) -> bool {
    let line = &core.lines[job.line()];
    match job {
        Job::Reset(_) => false,
        // Padding makes the content of a failed chunk readable, as long as the chunk is open.
        Job::Pad(..) => match line.rows(unit) {
            Some(rows) => rows == core.lines.shape().rows,
            None => line.is_dead(unit),
        },
        _ => line.is_dead(unit),
    }
}

/// Returns the index of the next job of a unit: the first one, or, if the drive limits open chunks, the
/// first of a line that need not wait. A job that closes a chunk may be queued behind one that opens a
/// chunk.
fn next_job(core: &Core, unit: u32) -> Option<usize> {
    let queue = core.units.queue(unit);
    if !must_wait(core, unit, *queue.front()?) {
        return Some(0);
    }
    if !core.lines.shape().is_limited() {
        return None;
    }
    let mut waiting = Vec::new();
    queue.iter().position(|&job| {
        let waits = waiting.contains(&job.line()) || must_wait(core, unit, job);
        if waits {
            waiting.push(job.line());
        }
        !waits
    })
}

fn start_next(core: &mut Core, unit: u32) {
    while core.units.may_start(unit)
        && let Some(at) = next_job(core, unit)
    {
        let job = core.units.remove(unit, at);
        if let Job::Data(id, _) = job {
            core.programs.sent(unit, id);
        }
        core.work.passed();
        if is_dead(core, unit, job) {
            core.work.moved();
            core.units.abort(unit, job);
            continue;
        }
        core.units.begin(unit, job);
        let mut command = job_command(core, unit, job);
        command.tag = TAG_UNIT | u64::from(unit);
        core.counters.sent_command();
        core.port.send(command);
    }
}

fn job_command(core: &mut Core, unit: u32, job: Job) -> Command {
    match job {
        Job::Data(id, line) => data_command(core, id, line),
        Job::Start(line) => {
            let content = start_content(core, line);
            meta_command(core, line, 0, &content, Cause::Journal)
        }
        Job::End(line, part) => {
            let shape = core.lines.shape();
            let superpage_bytes = shape.superpage_sectors as usize * shape.image_bytes;
            let superpage = shape.superpages() - shape.tail + part;
            let content = match (core.lines[line].end(), shape.keeps_content()) {
                // The end is encoded again for each superpage: ends are rare and short.
                (Some(end), true) => meta::end(shape.config.uuid, line, end),
                _ => Vec::new(),
            };
            let from = (part as usize * superpage_bytes).min(content.len());
            let to = (from + superpage_bytes).min(content.len());
            meta_command(core, line, superpage, &content[from..to], Cause::Journal)
        }
        Job::Pad(line, superpage) => meta_command(core, line, superpage, &[], Cause::Padding),
        Job::Reset(line) => {
            let lba = core.lines.chunk_of(line, unit).expect("a line that is reset has its chunks");
            Command::new(0, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new())
        }
    }
}

/// Makes the content of the start of a line; empty if the drive does not keep it.
fn start_content(core: &Core, line: BlockId) -> Vec<u8> {
    let shape = core.lines.shape();
    if !shape.keeps_content() {
        return Vec::new();
    }
    let chunk = |unit| core.lines.chunk_of(line, unit).expect("a line that is written has all its chunks");
    let made = (core.ftl.user_units(), shape.config.durability != Durability::Volatile);
    meta::start(shape.config.uuid, line, core.lines[line].sequence(), made, (0..shape.units).map(chunk))
}

/// Makes a write of one superpage without logical pages.
fn meta_command(core: &mut Core, line: BlockId, superpage: u32, content: &[u8], cause: Cause) -> Command {
    let shape = core.lines.shape();
    let (sectors, uuid) = (shape.superpage_sectors, shape.config.uuid);
    let mut data = core.port.image();
    data.clear();
    data.extend_from_slice(content);
    data.resize(sectors as usize * shape.image_bytes, 0);
    let mut vector = core.port.vector();
    for _ in 0..sectors {
        meta::put_oob(&mut vector.metadata, uuid, line, Lpn::NONE, 0);
    }
    core.counters.programmed(cause, u64::from(sectors));
    let (_, lba) = core.lines.place(line, superpage);
    Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors, data) }
}

fn data_command(core: &mut Core, id: ProgramId, line: BlockId) -> Command {
    core.ftl.prefetch(Soon::End(id));
    let (lba, sequence) = core.programs.place(id);
    let shape = core.lines.shape();
    let (sectors, image, uuid) = (shape.superpage_sectors as usize, shape.image_bytes, shape.config.uuid);
    let mut data = core.port.image();
    let mut vector = core.port.vector();
    data.clear();
    for &content in core.programs.contents(id) {
        let lpn = match content {
            Content::Entry(at) => {
                append_images(&mut data, core.ring.image(at));
                core.ring.entry(at).lpn
            }
            Content::Metadata(position) => {
                let (mark, bytes) = core.ftl.metadata(id, position);
                data.extend_from_slice(&bytes[..image.min(bytes.len())]);
                mark
            }
            Content::Index(sector) => {
                let from = sector as usize * image;
                data.extend_from_slice(&core.stop.index()[from..from + image]);
                meta::INDEX
            }
        };
        meta::put_oob(&mut vector.metadata, uuid, line, lpn, sequence);
    }
    data.resize(sectors * image, 0);
    while vector.metadata.len() < sectors * meta::OOB_BYTES {
        meta::put_oob(&mut vector.metadata, uuid, line, Lpn::NONE, sequence);
    }
    Command { vector: Some(vector), ..Command::new(0, Opcode::Write, lba, sectors as u32, data) }
}
