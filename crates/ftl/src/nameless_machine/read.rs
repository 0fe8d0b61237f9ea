//! Reads: by name or by virtual address, as vectors where sectors lie apart. Garbage collection reads victims the same way.

use super::{NamelessMachine, TAG_READ};
use crate::Name;
use pellucid_flash::{BlockId, Command, Completion, Lpn, Opcode, Ppa, Status, Vector};

/// A read with the drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// The request; `None`: garbage collection.
    request: Option<u32>,
    /// Location of each sector, and the sector of the command, or unit of the victim, that it holds.
    sectors: Vec<(Ppa, u32)>,
    under_way: bool,
}

impl NamelessMachine {
    pub(super) fn start_read(&mut self, request: u32) {
        let mut command = self.requests[request].command.take().expect("a request has its command");
        let (image, wanted) = (self.image_bytes, !command.data.is_empty());
        let mut read = self.begin_read(Some(request));
        let (mut parts, mut unmapped, mut status) = (0, 0, None);
        for i in 0..command.sectors {
            let place = i as usize * image..(i as usize + 1) * image;
            let data = if wanted { &mut command.data[place] } else { &mut [] };
            let found = match command.opcode {
                Opcode::Read => self.virtual_sector(Lpn((command.lba.0 + u64::from(i)) as u32)),
                _ => self.named_sector(name(&command.vector, command.lba.0, i)),
            };
            let ppa = match found {
                Ok(Some(ppa)) if self.engine.is_taken(ppa) => {
                    data.copy_from_slice(if wanted { self.taken(ppa) } else { &[] });
                    continue;
                }
                Ok(Some(ppa)) => ppa,
                Ok(None) => {
                    data.fill(0);
                    unmapped += 1;
                    continue;
                }
                Err(wrong) => {
                    status = status.or(Some(wrong));
                    continue;
                }
            };
            if self.reads[read].sectors.len() == Vector::ADDRESSES_MAX {
                self.send_read(read, wanted);
                parts += 1;
                read = self.begin_read(Some(request));
            }
            self.reads[read].sectors.push((ppa, i));
        }
        if self.reads[read].sectors.is_empty() {
            self.reads.release(read);
        } else {
            self.send_read(read, wanted);
            parts += 1;
        }
        let record = &mut self.requests[request];
        record.command = Some(command);
        (record.left, record.unmapped, record.status) = (parts, unmapped, status);
        if parts == 0 {
            self.finish(request);
        }
    }

    /// Location of a virtual sector; `None`: nowhere.
    fn virtual_sector(&self, lpn: Lpn) -> Result<Option<Ppa>, Status> {
        match self.engine.lookup(lpn) {
            Ppa::NONE => Ok(None),
            Ppa::LOST => Err(Status::UnrecoveredRead),
            ppa => Ok(Some(ppa)),
        }
    }

    /// Location of a named sector. The old name of a move works too, as its copy is kept.
    fn named_sector(&self, name: Ppa) -> Result<Option<Ppa>, Status> {
        match self.engine.name(name) {
            Name::Here | Name::Moved(_) | Name::Leaving => Ok(Some(name)),
            Name::Unknown | Name::Virtual => Err(Status::Unwritten),
        }
    }

    pub(super) fn begin_read(&mut self, request: Option<u32>) -> u32 {
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.request, read.under_way) = (request, true);
        read.sectors.clear();
        at
    }

    /// Adds a sector of a victim to a read.
    pub(super) fn add_to_read(&mut self, read: u32, ppa: Ppa, index: u32) {
        self.reads[read].sectors.push((ppa, index));
    }

    pub(super) fn send_read(&mut self, at: u32, wanted: bool) {
        let read = &self.reads[at];
        let (count, first) = (read.sectors.len(), read.sectors[0].0);
        // The error bitmap, which shows the lost sectors of a victim, counts addresses.
        let in_row = read.sectors.iter().zip(first.0..).all(|(&(ppa, _), row)| ppa.0 == row);
        let one_block =
            self.shape.layout.block_of(first) == self.shape.layout.block_of(read.sectors[count - 1].0);
        let vector = (read.request.is_none() || !in_row || !one_block).then(|| {
            let mut vector = self.vectors.pop().unwrap_or_default();
            vector.addresses.extend(read.sectors.iter().map(|&(ppa, _)| self.shape.sector(ppa)));
            vector
        });
        let mut data = Vec::new();
        if wanted {
            data = self.buffers.pop().unwrap_or_default();
            data.clear();
            data.resize(count * self.image_bytes, 0);
        }
        let lba = self.shape.sector(first);
        let command = Command::new(TAG_READ | u64::from(at), Opcode::Read, lba, count as u32, data);
        self.send(Command { vector, ..command });
    }

    pub(super) fn read_ended(&mut self, at: u32, completion: &mut Completion) {
        let read = std::mem::take(&mut self.reads[at]);
        let image = self.image_bytes;
        let images = completion.data.chunks_exact(image);
        match read.request {
            Some(request) => {
                let command = self.requests[request].command.as_mut().expect("a request has its command");
                for (&(_, sector), data) in read.sectors.iter().zip(images) {
                    command.data[sector as usize * image..][..image].copy_from_slice(data);
                }
            }
            None => {
                let lost = !matches!(completion.status, Status::Success | Status::HighEcc);
                for (i, &(_, unit)) in read.sectors.iter().enumerate() {
                    let data = &completion.data[i * image..][..image];
                    let bad = lost && (completion.result == 0 || completion.result >> i & 1 == 1);
                    self.victim_read(unit, (!bad).then_some(data));
                }
            }
        }
        let request = read.request;
        self.reads[at] = Read { under_way: false, ..read };
        self.reads.release(at);
        match request {
            Some(request) => self.part_ended(request, completion.status, &completion.stages),
            None => self.victim_read_ended(),
        }
    }

    /// Returns whether garbage collection issued the read.
    pub(super) fn reads_victim(&self, read: u32) -> bool {
        self.reads[read].request.is_none()
    }

    /// Returns whether sectors of `block` are being read, so that it must not be erased now.
    pub(super) fn is_read(&self, block: BlockId) -> bool {
        let here = |&(ppa, _): &(Ppa, u32)| self.shape.layout.block_of(ppa) == block;
        self.reads.iter().any(|read| read.under_way && read.sectors.iter().any(here))
    }
}

/// The name of sector `i` of a command.
fn name(vector: &Option<Box<Vector>>, first: u64, i: u32) -> Ppa {
    let listed = vector.as_ref().and_then(|vector| vector.addresses.get(i as usize));
    Ppa(listed.map_or(first + u64::from(i), |lba| lba.0) as u32)
}
