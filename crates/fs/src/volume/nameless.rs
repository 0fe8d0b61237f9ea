//! Jobs on a nameless namespace.

use super::ended;
use crate::backend::NamesShape;
use crate::jobs::{Job, JobError, JobId};
use crate::jobs::{JobAnswer, JobOutcome};
use crate::types::BLOCK_BYTES;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Lba, NamelessGeometry, NamelessOp, Notice, Opcode, Status, Vector,
};
use std::collections::VecDeque;

/// Executes jobs: sectors are blocks, and names of sectors are names of blocks.
#[derive(Clone, Debug)]
pub struct NamelessVolume {
    namespace: u16,
    pub(super) shape: NamesShape,
    /// Number of virtual blocks; the addresses of names follow these.
    pub(super) blocks: u64,
    /// Jobs in flight, with the address of each.
    jobs: Slab<(JobId, Lba)>,
    under_way: usize,
    /// [`Job::Moves`], while there is nothing to report.
    poll: Option<JobId>,
    moves: Vec<(u64, u64)>,
    /// Writes that wait for space, until something is freed or acknowledged.
    held: Vec<Command>,
    down: VecDeque<Command>,
    pub(super) up: VecDeque<JobAnswer>,
}

impl NamelessVolume {
    /// The error is a sentence.
    pub fn new(namespace: u16, geometry: &NamelessGeometry, image_bytes: usize) -> Result<Self, String> {
        if geometry.sector_bytes as usize != BLOCK_BYTES || image_bytes != BLOCK_BYTES {
            return Err(format!(
                "nameless sectors have {} bytes; a file system needs names of blocks of {BLOCK_BYTES}: media.sector_size = \"4KiB\"",
                geometry.sector_bytes
            ));
        }
        Ok(NamelessVolume {
            namespace,
            shape: NamesShape { names: geometry.name_sectors, capacity: geometry.capacity_sectors },
            blocks: geometry.virtual_sectors,
            jobs: Slab::default(),
            under_way: 0,
            poll: None,
            moves: Vec::new(),
            held: Vec::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
        })
    }

    pub(super) fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.namespace)
    }

    pub(super) fn submit(&mut self, job: Job) {
        let id = job.id();
        let whole = |opcode, at, blocks, data| Command::new(0, opcode, Lba(at), blocks, data);
        let command = match job {
            Job::Read { block, blocks, .. } => {
                let data = vec![0; blocks as usize * BLOCK_BYTES];
                match block.checked_sub(self.blocks) {
                    Some(name) => whole(Opcode::Nameless(NamelessOp::Read), name, blocks, data),
                    None => whole(Opcode::Read, block, blocks, data),
                }
            }
            Job::Write { block, data, .. } => whole(Opcode::Write, block, data.count() as u32, data.to_vec()),
            Job::NamelessWrite { data, .. } => {
                let blocks = data.count() as u32;
                let vector = (blocks > 1).then(Box::default);
                Command { vector, ..whole(Opcode::Nameless(NamelessOp::Write), 0, blocks, data.to_vec()) }
            }
            Job::Free { names, .. } => listed(Opcode::Nameless(NamelessOp::Free), &names),
            Job::Acknowledge { names, .. } => listed(Opcode::Nameless(NamelessOp::Acknowledge), &names),
            Job::Names { .. } => whole(Opcode::Report, 0, self.shape.names as u32, Vec::new()),
            Job::Flush { .. } => whole(Opcode::Flush, 0, 0, Vec::new()),
            Job::Discard { block, blocks, .. } => whole(Opcode::Trim, block, blocks, Vec::new()),
            Job::Moves { .. } => {
                self.poll = Some(id);
                return self.answer_poll();
            }
            Job::Allocate { .. } | Job::Keep { .. } => {
                let outcome = JobOutcome::Ended(Err(JobError::Failed));
                return self.up.push_back(JobAnswer::new(id, outcome));
            }
        };
        self.under_way += 1;
        let tag = self.jobs.insert((id, command.lba));
        self.down.push_back(Command { tag: tag.into(), namespace: self.namespace, ..command });
    }

    pub(super) fn complete(&mut self, completion: &mut Completion) {
        if completion.status == Status::CapacityExceeded
            && completion.opcode == Opcode::Write
            && self.under_way > self.held.len() + 1
        {
            let (lba, data) = (self.jobs[completion.tag as u32].1, std::mem::take(&mut completion.data));
            let blocks = (data.len() / BLOCK_BYTES) as u32;
            let again = Command::new(completion.tag, Opcode::Write, lba, blocks, data);
            return self.held.push(Command { namespace: self.namespace, ..again });
        }
        self.end(completion);
        let makes_space =
            matches!(completion.opcode, Opcode::Nameless(NamelessOp::Acknowledge | NamelessOp::Free));
        if makes_space || self.under_way == self.held.len() {
            self.down.extend(self.held.drain(..));
        }
    }

    fn end(&mut self, completion: &mut Completion) {
        let at = completion.tag as u32;
        let (id, _) = std::mem::take(&mut self.jobs[at]);
        self.jobs.release(at);
        self.under_way -= 1;
        let data = ended(completion.status, std::mem::take(&mut completion.data));
        let outcome = match completion.opcode {
            Opcode::Nameless(NamelessOp::Write) => {
                JobOutcome::Named(data.map(|_| match &completion.vector {
                    Some(vector) => vector.addresses.iter().map(|name| name.0).collect(),
                    None => vec![completion.result],
                }))
            }
            Opcode::Report => {
                // The report includes everything told before.
                self.moves.clear();
                let names =
                    |data: Vec<u8>| data.as_chunks().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
                JobOutcome::Named(data.map(names))
            }
            _ => JobOutcome::Ended(data),
        };
        let moves = std::mem::take(&mut self.moves);
        self.up.push_back(JobAnswer { id, outcome, moves });
        self.answer_poll();
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        if let Notice::Moved { old, new } = notice {
            self.moves.push((old.0, new.0));
            self.answer_poll();
        }
    }

    fn answer_poll(&mut self) {
        if (!self.moves.is_empty() || self.under_way == 0)
            && let Some(id) = self.poll.take()
        {
            let moves = std::mem::take(&mut self.moves);
            self.up.push_back(JobAnswer { id, outcome: JobOutcome::Moved, moves });
        }
    }

    pub(super) fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    /// Handles a power failure: outstanding requests fail, and the file system must be mounted
    /// again.
    pub(super) fn restart(&mut self) {
        // No job has the number 0, which marks the absence of one.
        let lost = std::mem::take(&mut self.jobs);
        let lost = lost.iter().map(|(id, _)| *id).filter(|id| id.0 > 0);
        for id in lost.chain(self.poll.take()) {
            self.up.push_back(JobAnswer::new(id, JobOutcome::Ended(Err(JobError::Failed))));
        }
        self.under_way = 0;
        self.moves.clear();
        self.held.clear();
        self.down.clear();
    }
}

fn listed(opcode: Opcode, names: &[u64]) -> Command {
    let addresses: Vec<Lba> = names.iter().map(|&name| Lba(name)).collect();
    let command = Command::new(0, opcode, Lba(0), addresses.len() as u32, Vec::new());
    Command { vector: Some(Box::new(Vector { addresses, ..Vector::default() })), ..command }
}
