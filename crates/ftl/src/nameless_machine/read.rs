//! Reads by name or by virtual address, as vectors if the sectors are scattered. Garbage collection reads victims the same
//! way.

use super::core::Core;
use super::link::TAG_READ;
use super::{collect, ends};
use crate::Name;
use pellucid_flash::slab::Slab;
use pellucid_flash::{BlockId, Command, Completion, Layout, Lpn, Opcode, Ppa, SimTime, Status, Vector};

/// A read with the drive.
#[derive(Clone, Debug, Default)]
struct Read {
    /// The request; `None`: garbage collection.
    request: Option<u32>,
    /// Location of each sector, and the sector of the command, or unit of the victim, that it holds.
    sectors: Vec<(Ppa, u32)>,
    under_way: bool,
}

/// Reads with the drive. Invariant: a read that is not under way names no sectors of interest.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    reads: Slab<Read>,
}

impl Reads {
    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.reads.memory_bytes()
    }

    /// Begins a read without sectors, of a request or of the victim.
    pub fn begin(&mut self, request: Option<u32>) -> u32 {
        let at = self.reads.take();
        let read = &mut self.reads[at];
        (read.request, read.under_way) = (request, true);
        read.sectors.clear();
        at
    }

    /// Adds a sector to a read: its place, and the sector of the command, or unit of the victim, that it holds.
    pub fn add(&mut self, read: u32, ppa: Ppa, index: u32) {
        self.reads[read].sectors.push((ppa, index));
    }

    fn sectors(&self, read: u32) -> usize {
        self.reads[read].sectors.len()
    }

    /// Gives up a read that was not sent.
    fn drop(&mut self, read: u32) {
        self.reads[read].under_way = false;
        self.reads.release(read);
    }

    fn take(&mut self, at: u32) -> Read {
        std::mem::take(&mut self.reads[at])
    }

    /// Ends a read that was taken; its memory is used again.
    fn end(&mut self, at: u32, read: Read) {
        self.reads[at] = Read { under_way: false, ..read };
        self.reads.release(at);
    }

    /// Returns whether garbage collection issued the read.
    pub fn is_of_victim(&self, read: u32) -> bool {
        self.reads[read].request.is_none()
    }

    /// Returns whether sectors of `block` are being read, so that it must not be erased now.
    pub fn is_read(&self, layout: &Layout, block: BlockId) -> bool {
        let here = |&(ppa, _): &(Ppa, u32)| layout.block_of(ppa) == block;
        self.reads.iter().any(|read| read.under_way && read.sectors.iter().any(here))
    }
}

pub(super) fn start_read(core: &mut Core, request: u32) {
    let submitted = core.requests.sent(request);
    let mut command = core.requests.take_command(request);
    let (image, wanted) = (core.image_bytes, !command.data.is_empty());
    let mut read = core.reads.begin(Some(request));
    let (mut parts, mut unmapped, mut status) = (0, 0, None);
    for i in 0..command.sectors {
        let place = i as usize * image..(i as usize + 1) * image;
        let data = if wanted { &mut command.data[place] } else { &mut [] };
        let found = match command.opcode {
            Opcode::Read => virtual_sector(core, Lpn((command.lba.0 + u64::from(i)) as u32)),
            _ => named_sector(core, name(&command.vector, command.lba.0, i), submitted),
        };
        let ppa = match found {
            Ok(Some(ppa)) if core.engine.is_taken(ppa) => {
                data.copy_from_slice(if wanted { collect::taken(core, ppa) } else { &[] });
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
        if core.reads.sectors(read) == Vector::ADDRESSES_MAX {
            send_read(core, read, wanted);
            parts += 1;
            read = core.reads.begin(Some(request));
        }
        core.reads.add(read, ppa, i);
    }
    if core.reads.sectors(read) == 0 {
        core.reads.drop(read);
    } else {
        send_read(core, read, wanted);
        parts += 1;
    }
    core.requests.put_command(request, command);
    core.requests.awaits(request, parts);
    core.requests.set_unmapped(request, unmapped);
    core.requests.set_status(request, status);
    if parts == 0 {
        ends::finish(core, request);
    }
}

/// Location of a virtual sector; `None`: nowhere.
fn virtual_sector(core: &Core, lpn: Lpn) -> Result<Option<Ppa>, Status> {
    match core.engine.lookup(lpn) {
        Ppa::NONE => Ok(None),
        Ppa::LOST => Err(Status::UnrecoveredRead),
        ppa => Ok(Some(ppa)),
    }
}

/// Location of a named sector. The old name of a move works too, as its copy is kept.
fn named_sector(core: &Core, name: Ppa, submitted: SimTime) -> Result<Option<Ppa>, Status> {
    match core.name(name, submitted) {
        Name::Here | Name::Moved(_) | Name::Leaving => Ok(Some(name)),
        Name::Unknown | Name::Virtual => Err(Status::Unwritten),
    }
}

pub(super) fn send_read(core: &mut Core, at: u32, wanted: bool) {
    let read = &core.reads.reads[at];
    let (count, first) = (read.sectors.len(), read.sectors[0].0);
    // The error bitmap, which shows the lost sectors of a victim, counts addresses.
    let in_row = read.sectors.iter().zip(first.0..).all(|(&(ppa, _), row)| ppa.0 == row);
    let one_block =
        core.shape.layout.block_of(first) == core.shape.layout.block_of(read.sectors[count - 1].0);
    let vector = (read.request.is_none() || !in_row || !one_block).then(|| {
        let mut vector = core.link.vector();
        vector.addresses.extend(read.sectors.iter().map(|&(ppa, _)| core.shape.sector(ppa)));
        vector
    });
    let mut data = Vec::new();
    if wanted {
        data = core.link.buffer();
        data.clear();
        data.resize(count * core.image_bytes, 0);
    }
    let lba = core.shape.sector(first);
    let command = Command::new(TAG_READ | u64::from(at), Opcode::Read, lba, count as u32, data);
    core.link.send(Command { vector, ..command });
}

pub(super) fn read_ended(core: &mut Core, at: u32, completion: &mut Completion) {
    let read = core.reads.take(at);
    let image = core.image_bytes;
    let images = completion.data.chunks_exact(image);
    match read.request {
        Some(request) => {
            for (&(_, sector), data) in read.sectors.iter().zip(images) {
                core.requests.give(request, sector, data);
            }
        }
        None => {
            let lost = !matches!(completion.status, Status::Success | Status::HighEcc);
            for (i, &(_, unit)) in read.sectors.iter().enumerate() {
                let data = &completion.data[i * image..][..image];
                let bad = lost && (completion.result == 0 || completion.result >> i & 1 == 1);
                collect::victim_read(core, unit, (!bad).then_some(data));
            }
        }
    }
    let request = read.request;
    core.reads.end(at, read);
    match request {
        Some(request) => ends::part_ended(core, request, completion.status, &completion.stages),
        None => collect::victim_read_ended(core),
    }
}

/// The name of sector `i` of a command.
fn name(vector: &Option<Box<Vector>>, first: u64, i: u32) -> Ppa {
    let listed = vector.as_ref().and_then(|vector| vector.addresses.get(i as usize));
    Ppa(listed.map_or(first + u64::from(i), |lba| lba.0) as u32)
}
