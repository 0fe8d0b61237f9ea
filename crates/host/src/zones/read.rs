//! Reads of chunks: the runs of zone sectors to read, and the destination of each sector.
//!
//! ```text
//!  wanted     12 13    17   T(31)      300          T: a trailer, for the out-of-band data of 12, 13 and 17
//!  reads     [12 .. 17]     [31]      [300]         what lies close together comes with one command
//! ```
//! A failed run is read again sector by sector, so that a bad sector fails alone; if it is a trailer, the
//! next one repeats its content. If only out-of-band data are wanted, only trailers are read.

use super::{Op, Purpose, ZoneChunks, trailer};
use pellucid_flash::{Command, Completion, Lba, Opcode, Status, Vector};

/// Maximum gap of unwanted sectors that are read to save another command: a page of most drives.
const GAP_SECTORS: u64 = 4;

/// Sector of the drive, and its index in the command, or [`TRAILER`] or [`NEXT_TRAILER`].
pub(super) type Want = (u64, u32);

const TRAILER: u32 = u32::MAX;

/// Marker of the trailer after an unreadable one, whose content it repeats.
const NEXT_TRAILER: u32 = u32::MAX - 1;

/// Returns the address of the `i`-th sector of a command.
fn address(command: &Command, i: u32) -> Lba {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses[i as usize],
        _ => Lba(command.lba.0 + u64::from(i)),
    }
}

impl ZoneChunks {
    pub(super) fn start_read(&mut self, op: u32) {
        let mut wants = std::mem::take(&mut self.wants);
        wants.clear();
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let data = !command.data.is_empty();
        let metadata = command.vector.as_mut().map(|v| &mut v.metadata).filter(|m| !m.is_empty());
        let metadata = metadata.map(|m| m.fill(0)).is_some();
        let mut inside = command
            .vector
            .as_ref()
            .is_none_or(|v| [0, command.sectors as usize].contains(&v.addresses.len()));
        for i in 0..if inside { command.sectors } else { 0 } {
            let Some(place) = self.shape.place(address(command, i)) else {
                inside = false;
                break;
            };
            if data || !metadata {
                wants.push((self.shape.lba(place), i));
            }
            if metadata {
                wants.push((self.shape.trailer(place), TRAILER));
            }
        }
        if !inside {
            self.wants = wants;
            return self.finish(op, Status::LbaOutOfRange);
        }
        wants.sort_unstable();
        wants.dedup();
        let first = wants[0].0;
        let direct =
            !metadata && (0..).zip(&wants).all(|(i, &(lba, at))| at == i && lba == first + u64::from(i));
        if direct && self.shape.place_at(first).zone == self.shape.place_at(wants[wants.len() - 1].0).zone {
            self.send_direct(op, first);
        } else {
            self.send_runs(op, &wants);
        }
        self.wants = wants;
    }

    /// Sends one read for sectors that are contiguous and in order.
    fn send_direct(&mut self, op: u32, first: u64) {
        let command = self.ops[op].command.as_mut().expect("a command under way");
        let (sectors, data) = (command.sectors, std::mem::take(&mut command.data));
        let part = self.parts.take();
        self.send(op, part, Purpose::Direct, Command::new(0, Opcode::Read, Lba(first), sectors, data));
    }

    fn send_runs(&mut self, op: u32, wants: &[Want]) {
        // This hold keeps the operation open until all runs are sent.
        self.ops[op].left += 1;
        let zone_sectors = self.shape.zones.zone_sectors;
        let mut from = 0;
        for at in 1..=wants.len() {
            let ends = at == wants.len() || {
                let (last, next) = (wants[at - 1].0, wants[at].0);
                let long = next - wants[from].0 >= u64::from(self.shape.batch);
                next - last > GAP_SECTORS + 1 || long || next / zone_sectors != last / zone_sectors
            };
            if ends {
                self.send_run(op, &wants[from..at]);
                from = at;
            }
        }
        self.part_ended(op);
    }

    fn send_run(&mut self, op: u32, wants: &[Want]) {
        let (first, last) = (wants[0].0, wants[wants.len() - 1].0);
        let sectors = (last - first + 1) as u32;
        let content = self.keeps_content() && wants.iter().any(|w| w.1 >= NEXT_TRAILER);
        let mut data = Vec::new();
        if content || !self.command(op).data.is_empty() {
            data = self.buffers.pop().unwrap_or_default();
            data.clear();
            data.resize(sectors as usize * self.image_bytes, 0);
        }
        let asked = wants.iter().filter(|w| w.1 < NEXT_TRAILER).count() as u64;
        self.counters.gap_sectors += u64::from(sectors).saturating_sub(asked);
        let part = self.parts.take();
        let record = &mut self.parts[part];
        record.first = first;
        record.wants.clear();
        record.wants.extend_from_slice(wants);
        self.send(op, part, Purpose::Run, Command::new(0, Opcode::Read, Lba(first), sectors, data));
    }

    pub(super) fn run_ended(&mut self, part: u32, op: u32, completion: Completion) {
        let ok = matches!(completion.status, Status::Success | Status::HighEcc);
        let wants = std::mem::take(&mut self.parts[part].wants);
        let first = self.parts[part].first;
        if !ok && wants.len() > 1 && completion.status != Status::PowerLoss {
            for want in &wants {
                self.send_run(op, std::slice::from_ref(want));
            }
        } else {
            for &(lba, at) in &wants {
                let from = (lba - first) as usize * self.image_bytes;
                let image = completion.data.get(from..from + self.image_bytes).unwrap_or_default();
                match at {
                    TRAILER if !ok && completion.status != Status::PowerLoss && self.has_next(lba) => {
                        self.send_run(op, &[(lba + u64::from(self.shape.batch), NEXT_TRAILER)]);
                    }
                    TRAILER | NEXT_TRAILER => self.give_metadata(op, (lba, at), image, ok),
                    at if ok => self.give_data(op, at, image),
                    at => self.lose(op, at, completion.status),
                }
            }
        }
        if completion.data.capacity() > 0 {
            self.buffers.push(completion.data);
        }
        self.parts[part].wants = wants;
        self.parts.release(part);
        self.part_ended(op);
    }

    fn give_data(&mut self, op: u32, at: u32, image: &[u8]) {
        let data = &mut self.ops[op].command.as_mut().expect("a command under way").data;
        if !data.is_empty() {
            data[at as usize * image.len()..][..image.len()].copy_from_slice(image);
        }
    }

    fn lose(&mut self, op: u32, at: u32, status: Status) {
        let record = &mut self.ops[op];
        record.status = Some(if status == Status::PowerLoss { status } else { Status::UnrecoveredRead });
        record.failed |= 1 << at.min(63);
    }

    /// Reports whether the zone has another batch after this trailer's, whose trailer may repeat it.
    fn has_next(&self, lba: u64) -> bool {
        let place = self.shape.place_at(lba + u64::from(self.shape.batch));
        self.keeps_content()
            && place.zone == self.shape.place_at(lba).zone
            && u64::from((place.batch + 1) * self.shape.batch) <= self.shape.zones.capacity_sectors
    }

    /// Copies the out-of-band data for all sectors of the command that a trailer, or with `NEXT_TRAILER` the
    /// one before it, describes. Without a valid trailer they are zeros.
    fn give_metadata(&mut self, op: u32, (lba, at): Want, image: &[u8], read: bool) {
        let mut place = self.shape.place_at(lba);
        let bytes = Vector::METADATA_BYTES;
        let length = self.shape.data as usize * bytes;
        let oob = match self.stamps.get(place.zone as usize) {
            None if at == NEXT_TRAILER => {
                trailer::parse_before(image, place.zone, place.batch, self.shape.data)
            }
            None => trailer::parse(image, place.zone, place.batch, self.shape.data),
            Some(stamps) => stamps.get(place.batch as usize * length..(place.batch as usize + 1) * length),
        };
        let ok = read && (at == TRAILER || oob.is_some());
        place.batch -= u32::from(at == NEXT_TRAILER);
        let Op { command, failed, status, .. } = &mut self.ops[op];
        let command = command.as_mut().expect("a command under way");
        for i in 0..command.sectors {
            let own = self.shape.place(address(command, i)).expect("looked at before");
            if (own.zone, own.batch) != (place.zone, place.batch) {
                continue;
            }
            if !ok {
                *failed |= 1 << i.min(63);
                *status = Some(Status::UnrecoveredRead);
            } else if let (Some(oob), Some(vector)) = (oob, &mut command.vector) {
                let from = own.sector as usize * bytes;
                vector.metadata[i as usize * bytes..][..bytes].copy_from_slice(&oob[from..from + bytes]);
            }
        }
    }
}
