//! Reads: sectors in the ring are copied; the others are read from the drive, as a vector if they are not
//! contiguous.
//!
//! ```text
//!  sectors ─┬─ in the ring ────────────► copied
//!           ├─ never written, or lost ─► zeros (lost at a start: the read fails)
//!           └─ mapped ─► held in place ─► read (again, if it fails) ─► given back
//! ```
//! A line is not reset while sectors are being read from it.

use super::{HostFtl, TAG_READ};
use pellucid_flash::{Command, Completion, Lba, Opcode, Ppa, Status, Vector};
use pellucid_ftl::{Located, Move};

/// Read with the drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    purpose: Purpose,
    /// Address of each sector, and its index in the command.
    sectors: Vec<(Ppa, u32)>,
    /// GC copies of the sectors, with their causes.
    pub copies: Vec<Move>,
    attempts: u32,
    /// The buffer is the command's own.
    whole: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Purpose {
    /// Reads for a command of the application.
    Request(u32),
    #[default]
    Gc,
}

impl HostFtl {
    pub(super) fn start_read(&mut self, request: u32) {
        let mut command = self.requests[request].command.take().expect("a request has its command");
        let (image, wanted) = (self.image_bytes, !command.data.is_empty());
        let mut read = self.reads.take();
        self.begin_read(read, request);
        let (mut parts, mut lost, mut unmapped) = (0, false, 0);
        for i in 0..command.sectors {
            let lpn = pellucid_flash::Lpn((command.lba.0 + u64::from(i)) as u32);
            let place = i as usize * image..(i as usize + 1) * image;
            if let Some(at) = self.ring.find(lpn) {
                self.counters.buffer_read_hits += 1;
                let trimmed = self.ring.entry(at).trimmed;
                unmapped += u32::from(trimmed);
                match trimmed {
                    _ if !wanted => {}
                    true => command.data[place].fill(0),
                    false => command.data[place].copy_from_slice(self.ring.image(at)),
                }
                continue;
            }
            let Located::At(ppa) = self.ftl.lookup(lpn) else {
                if wanted {
                    command.data[place].fill(0);
                }
                let zero = self.ftl.peek(lpn) == Located::Zero;
                lost |= !zero;
                unmapped += u32::from(zero);
                continue;
            };
            if self.reads[read].sectors.len() == Vector::ADDRESSES_MAX {
                parts += 1;
                self.send_read(read, wanted, Vec::new());
                read = self.reads.take();
                self.begin_read(read, request);
            }
            let line = self.lines.line_of(ppa);
            self.lines[line].holds += 1;
            self.reads[read].sectors.push((ppa, i));
        }
        if self.reads[read].sectors.is_empty() {
            self.reads.release(read);
        } else {
            parts += 1;
            self.reads[read].whole = self.reads[read].sectors.len() == command.sectors as usize;
            let data = if self.reads[read].whole { std::mem::take(&mut command.data) } else { Vec::new() };
            self.send_read(read, wanted, data);
        }
        let record = &mut self.requests[request];
        record.command = Some(command);
        (record.left, record.unmapped) = (parts, unmapped);
        record.status = lost.then_some(Status::UnrecoveredRead);
        self.counters.lost_reads += u64::from(lost);
        if parts == 0 {
            let status = record.status.unwrap_or(Status::Success);
            self.finish(request, status);
        }
    }

    fn begin_read(&mut self, read: u32, request: u32) {
        let record = &mut self.reads[read];
        record.purpose = Purpose::Request(request);
        record.sectors.clear();
        (record.attempts, record.whole) = (0, false);
    }

    /// Sends a read into the buffer `data`; if that is empty and the data are wanted, into a buffer of the
    /// pool.
    fn send_read(&mut self, read: u32, wanted: bool, mut data: Vec<u8>) {
        let record = &self.reads[read];
        let count = record.sectors.len();
        if wanted && data.is_empty() {
            data = self.pools.images.pop().unwrap_or_default();
            data.resize(count * self.image_bytes, 0);
        }
        let first = self.lines.address(record.sectors[0].0);
        let metadata = matches!(record.purpose, Purpose::Gc);
        let addresses = || record.sectors.iter().map(|&(ppa, _)| self.lines.address(ppa));
        // GC needs the error bitmap, which only a read of addresses has.
        let listed = metadata || addresses().zip(first.0..).any(|(address, lba)| address != Lba(lba));
        let vector = listed.then(|| {
            let mut vector = self.pools.vector();
            vector.addresses.extend(addresses());
            if metadata {
                vector.metadata.resize(count * Vector::METADATA_BYTES, 0);
            }
            vector
        });
        self.counters.commands += 1;
        let command = Command::new(TAG_READ | u64::from(read), Opcode::Read, first, count as u32, data);
        self.send(Command { vector, ..command });
    }

    /// Sends the copies that were gathered in `read`.
    pub(super) fn send_copies(&mut self, read: u32) {
        let record = &mut self.reads[read];
        record.purpose = Purpose::Gc;
        (record.attempts, record.whole) = (0, false);
        record.sectors.clear();
        record.sectors.extend(record.copies.iter().zip(0..).map(|(r, i)| (r.from, i)));
        self.counters.collected_reads += self.reads[read].sectors.len() as u64;
        self.send_read(read, true, Vec::new());
    }

    pub(super) fn read_ended(&mut self, read: u32, completion: &mut Completion) {
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        let record = &mut self.reads[read];
        let retry =
            !ok && record.attempts < self.config.read_retries && completion.status != Status::PowerLoss;
        if retry {
            record.attempts += 1;
            self.counters.read_retries += 1;
            let wanted = !completion.data.is_empty();
            if let Some(vector) = completion.vector.take() {
                self.pools.put_back(Vec::new(), Some(vector));
            }
            return self.send_read(read, wanted, std::mem::take(&mut completion.data));
        }
        for at in 0..self.reads[read].sectors.len() {
            let line = self.lines.line_of(self.reads[read].sectors[at].0);
            self.lines[line].holds -= 1;
            self.reset_if_due(line);
        }
        match self.reads[read].purpose {
            Purpose::Request(request) => self.request_read(read, request, completion),
            Purpose::Gc => self.copies_arrived(read, completion),
        }
        self.reads.release(read);
    }

    fn request_read(&mut self, read: u32, request: u32, completion: &mut Completion) {
        let image = self.image_bytes;
        let (data, vector) = (std::mem::take(&mut completion.data), completion.vector.take());
        let Completion { status, stages, .. } = *completion;
        let record = &mut self.requests[request];
        let command = record.command.as_mut().expect("a request has its command");
        let mut spare = Vec::new();
        if self.reads[read].whole {
            command.data = data;
        } else {
            for (from, &(_, to)) in data.chunks_exact(image).zip(&self.reads[read].sectors) {
                command.data[to as usize * image..][..image].copy_from_slice(from);
            }
            spare = data;
        }
        self.pools.put_back(spare, vector);
        if !matches!(status, Status::Success | Status::HighEcc) {
            self.counters.lost_reads += 1;
            record.status = Some(status);
        }
        record.stages = stages;
        record.left -= 1;
        if record.left == 0 {
            let status = record.status.unwrap_or(Status::Success);
            self.finish(request, status);
        }
    }
}
