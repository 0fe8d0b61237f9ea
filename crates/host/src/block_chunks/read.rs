//! Reads of chunks: the runs of drive sectors to read, and the destination of each sector.

use super::table::{self, HEADER_BYTES, Sector};
use super::{BlockChunks, Purpose};
use pellucid_flash::{Command, Completion, Lba, Opcode, Status, Vector};

/// Maximum sectors of a run.
const RUN_SECTORS: u64 = 256;

/// Sector of the drive that a read needs, and its destination in the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Want {
    lba: u64,
    /// The read needs the sector's out-of-band data, from a table, instead of the sector.
    oob: bool,
    at: u32,
}

/// Returns the address of the `i`-th sector of a command.
fn address(command: &Command, i: u32) -> Lba {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses[i as usize],
        _ => Lba(command.lba.0 + u64::from(i)),
    }
}

impl BlockChunks {
    pub(super) fn start_read(&mut self, op: u32) {
        let mut wants = std::mem::take(&mut self.wants);
        wants.clear();
        let inside = self.find_wants(op, &mut wants);
        if !inside || wants.is_empty() {
            self.wants = wants;
            let status = if inside { Status::Success } else { Status::LbaOutOfRange };
            return self.finish(op, status);
        }
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let first = wants[0].lba;
        let direct = wants.len() == command.sectors as usize
            && (0..)
                .zip(&wants)
                .all(|(at, want)| !want.oob && want.at == at && want.lba == first + u64::from(at));
        if direct {
            // The read omits the data; only its status matters.
            let (sectors, data) = (command.sectors, std::mem::take(&mut command.data));
            self.send_new(op, Purpose::Direct, Command::new(0, Opcode::Read, Lba(first), sectors, data));
        } else {
            wants.sort_unstable();
            let mut rest = &wants[..];
            while let Some(first) = rest.first() {
                let joins =
                    |pair: &[Want]| pair[1].lba - pair[0].lba <= 1 && pair[1].lba - first.lba < RUN_SECTORS;
                let count = 1 + rest.windows(2).take_while(|pair| joins(pair)).count();
                self.send_run(op, &rest[..count]);
                rest = &rest[count..];
            }
        }
        self.wants = wants;
    }

    /// Lists the drive sectors that a read needs, and fills all others with zeros. Returns `false` if an
    /// address is out of range.
    fn find_wants(&mut self, op: u32, wants: &mut Vec<Want>) -> bool {
        let keeps = self.keeps_content();
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let data = !command.data.is_empty();
        let mut metadata = command.vector.as_mut().map_or_else(Vec::new, |v| std::mem::take(&mut v.metadata));
        metadata.fill(0);
        let oob = !metadata.is_empty();
        let mut inside = true;
        for at in 0..command.sectors {
            let Some((number, sector)) = self.shape.place(address(command, at)) else {
                inside = false;
                break;
            };
            if sector >= self.chunks[number as usize].written {
                if data {
                    command.data[at as usize * self.image_bytes..][..self.image_bytes].fill(0);
                }
                continue;
            }
            if data || !oob {
                wants.push(Want { lba: self.shape.data(number, sector).0, oob: false, at });
            }
            if oob && keeps {
                let write = sector / self.shape.chunks.write_min_sectors;
                let lba = self.shape.table(self.shape.table_of(number, write)).0;
                wants.push(Want { lba, oob: true, at });
            } else if oob {
                let from = sector as usize * Vector::METADATA_BYTES;
                metadata[at as usize * Vector::METADATA_BYTES..][..Vector::METADATA_BYTES]
                    .copy_from_slice(&self.stamps[number as usize][from..][..Vector::METADATA_BYTES]);
            }
        }
        if let Some(vector) = &mut command.vector {
            vector.metadata = metadata;
        }
        inside
    }

    fn send_run(&mut self, op: u32, wants: &[Want]) {
        let part = self.parts.take();
        self.parts[part].wants.clear();
        self.parts[part].wants.extend_from_slice(wants);
        let sectors = (wants[wants.len() - 1].lba - wants[0].lba + 1) as u32;
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.resize(sectors as usize * self.image_bytes, 0);
        self.send(op, part, Purpose::Run, Command::new(0, Opcode::Read, Lba(wants[0].lba), sectors, buffer));
    }

    pub(super) fn run_ended(&mut self, part: u32, op: u32, completion: Completion) {
        let wants = std::mem::take(&mut self.parts[part].wants);
        let (first, last) = (wants[0].lba, wants[wants.len() - 1].lba);
        if completion.status == Status::Success {
            for &want in &wants {
                let image =
                    &completion.data[(want.lba - first) as usize * self.image_bytes..][..self.image_bytes];
                if !self.deliver(op, want, image) {
                    self.fail(op, want.at, Status::UnrecoveredRead);
                }
            }
        } else if first == last {
            wants.iter().for_each(|want| self.fail(op, want.at, completion.status));
        } else {
            // The run is read again sector by sector, so that a bad sector fails alone.
            wants.chunk_by(|a, b| a.lba == b.lba).for_each(|wants| self.send_run(op, wants));
        }
        self.give_back(completion.data);
        self.parts[part].wants = wants;
        self.parts.release(part);
        self.ops[op].left -= 1;
        if self.ops[op].left == 0 {
            let status = self.ops[op].status.unwrap_or(Status::Success);
            self.finish(op, status);
        }
    }

    fn fail(&mut self, op: u32, at: u32, status: Status) {
        self.ops[op].failed |= 1u64.checked_shl(at).unwrap_or(0);
        self.ops[op].status = Some(status);
    }

    /// Copies a sector of the drive to its destination; returns `false` if it is not the expected table
    /// sector.
    fn deliver(&mut self, op: u32, want: Want, image: &[u8]) -> bool {
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let lba = address(command, want.at);
        if !want.oob {
            if !command.data.is_empty() {
                command.data[want.at as usize * self.image_bytes..][..self.image_bytes]
                    .copy_from_slice(image);
            }
            return true;
        }
        let Some((number, sector)) = self.shape.place(lba) else { return false };
        let in_table = sector % (self.shape.chunks.write_min_sectors * self.shape.per_sector);
        let from = HEADER_BYTES + in_table as usize * Vector::METADATA_BYTES;
        let generation = self.chunks[number as usize].generation;
        let good = match table::parse(image, number, self.epoch) {
            Sector::Table(header) => (header.epoch, header.generation) == (self.epoch, generation),
            Sector::Other | Sector::Damaged => false,
        };
        if let (true, Some(vector)) = (good, &mut command.vector) {
            vector.metadata[want.at as usize * Vector::METADATA_BYTES..][..Vector::METADATA_BYTES]
                .copy_from_slice(&image[from..][..Vector::METADATA_BYTES]);
        }
        good
    }
}
