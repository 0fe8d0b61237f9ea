//! Random commands, right and wrong ones, one after the other, beside a model that says of each how it must end and what every chunk
//! and every zone is then: a command that ends with an error has changed nothing but what the rules say.

use super::SUPERPAGE;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Drive, Lba, Opcode, Rng, Status, ZoneAction, ZoneInfo, ZoneOp,
    ZoneState,
};
use pellucid_testing::conformance::Bench;

/// From one zone to the next, and what of it can be written: 6 superpages.
const ZONE: u64 = 64;
const CAPACITY: u64 = 48;
const OPEN_MAX: usize = 2;
const ACTIVE_MAX: usize = 3;

/// A zone: its state, its write pointer, and when it was opened.
type Zone = (ZoneState, u64, u64);

struct Zones {
    zones: Vec<Zone>,
    clock: u64,
}

impl Zones {
    fn count(&self, states: &[ZoneState]) -> usize {
        self.zones.iter().filter(|zone| states.contains(&zone.0)).count()
    }

    /// Opens a zone, closing the implicitly open one that was opened first if there are too many.
    fn open(&mut self, n: usize, to: ZoneState) -> Status {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, ImplicitlyOpen};
        if [ImplicitlyOpen, ExplicitlyOpen].contains(&self.zones[n].0) {
            self.zones[n].0 = to;
            return Status::Success;
        }
        if self.zones[n].0 == Empty && self.count(&[ImplicitlyOpen, ExplicitlyOpen, Closed]) == ACTIVE_MAX {
            return Status::TooManyActiveZones;
        }
        if self.count(&[ImplicitlyOpen, ExplicitlyOpen]) == OPEN_MAX {
            let implicit = self.zones.iter_mut().filter(|zone| zone.0 == ImplicitlyOpen);
            match implicit.min_by_key(|zone| zone.2) {
                Some(oldest) => oldest.0 = Closed,
                None => return Status::TooManyOpenZones,
            }
        }
        self.clock += 1;
        (self.zones[n].0, self.zones[n].2) = (to, self.clock);
        Status::Success
    }

    fn write(&mut self, lba: u64, sectors: u64, append: bool) -> Status {
        use ZoneState::{ExplicitlyOpen, Full, ImplicitlyOpen};
        if lba + sectors > self.zones.len() as u64 * ZONE {
            return Status::LbaOutOfRange;
        }
        let (n, offset) = ((lba / ZONE) as usize, lba % ZONE);
        let (state, pointer, _) = self.zones[n];
        if append && (offset != 0 || sectors > SUPERPAGE.into()) {
            return Status::InvalidField;
        }
        if state == Full {
            return Status::ZoneFull;
        }
        if !append && offset != pointer {
            return Status::ZoneInvalidWrite;
        }
        if pointer + sectors > CAPACITY {
            return Status::ZoneBoundary;
        }
        let status = self.open(n, if state == ExplicitlyOpen { state } else { ImplicitlyOpen });
        if status == Status::Success {
            self.zones[n].1 += sectors;
            if self.zones[n].1 == CAPACITY {
                self.zones[n].0 = Full;
            }
        }
        status
    }

    fn act(&mut self, n: usize, action: ZoneAction) -> Status {
        use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen};
        let state = self.zones[n].0;
        match (action, state) {
            (ZoneAction::Open, Empty | ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                return self.open(n, ExplicitlyOpen);
            }
            (ZoneAction::Close, ImplicitlyOpen | ExplicitlyOpen | Closed) => self.zones[n].0 = Closed,
            (ZoneAction::Finish, _) => self.zones[n].0 = Full,
            (ZoneAction::Reset, _) => self.zones[n] = (Empty, 0, 0),
            _ => return Status::ZoneInvalidTransition,
        }
        Status::Success
    }

    fn act_on_all(&mut self, action: ZoneAction) -> Status {
        use ZoneState::{Closed, ExplicitlyOpen, Full, ImplicitlyOpen};
        let (one, states): (_, &[ZoneState]) = match action {
            ZoneAction::OpenAll if self.count(&[ExplicitlyOpen, Closed]) > OPEN_MAX => {
                return Status::TooManyOpenZones;
            }
            ZoneAction::OpenAll => (ZoneAction::Open, &[Closed]),
            ZoneAction::CloseAll => (ZoneAction::Close, &[ImplicitlyOpen, ExplicitlyOpen]),
            ZoneAction::FinishAll => (ZoneAction::Finish, &[ImplicitlyOpen, ExplicitlyOpen, Closed]),
            ZoneAction::ResetAll => (ZoneAction::Reset, &[ImplicitlyOpen, ExplicitlyOpen, Closed, Full]),
            _ => return Status::Success,
        };
        let concerned: Vec<usize> =
            (0..self.zones.len()).filter(|&n| states.contains(&self.zones[n].0)).collect();
        for n in concerned {
            assert_eq!(self.act(n, one), Status::Success);
        }
        Status::Success
    }
}

/// A random command to zones, and how it must end.
fn zone_command(model: &mut Zones, rng: &mut Rng, image: usize) -> (Command, Status) {
    // Few zones, so that they fill; the last one and beyond, now and then.
    let n = match rng.below(20) {
        0 => model.zones.len() as u64 - rng.below(2),
        _ => rng.below(5),
    };
    let pointer = model.zones.get(n as usize).map_or(0, |zone| zone.1);
    let offset = if rng.below(4) > 0 { pointer } else { rng.below(ZONE) };
    let (sectors, start) = (1 + rng.below(20), n * ZONE);
    let data = vec![7; sectors as usize * image];
    match rng.below(10) {
        0..4 => {
            let status = model.write(start + offset, sectors, false);
            (Command::new(0, Opcode::Write, Lba(start + offset), sectors as u32, data), status)
        }
        4..6 => {
            let at = if rng.below(8) > 0 { start } else { start + offset };
            let sectors = 1 + sectors % 10;
            let status = model.write(at, sectors, true);
            let data = vec![7; sectors as usize * image];
            (Command::new(0, Opcode::Zone(ZoneOp::Append), Lba(at), sectors as u32, data), status)
        }
        6 => {
            let status = if start + offset + sectors > model.zones.len() as u64 * ZONE {
                Status::LbaOutOfRange
            } else if offset + sectors > ZONE {
                Status::ZoneBoundary
            } else {
                Status::Success
            };
            (Command::new(0, Opcode::Read, Lba(start + offset), sectors as u32, data), status)
        }
        _ => {
            // Actions on all would leave little to do if they came often.
            let kinds = if rng.below(6) == 0 { ZoneAction::ALL.len() } else { 5 };
            let action = ZoneAction::ALL[rng.below(kinds as u64) as usize];
            let at = if rng.below(8) > 0 { start } else { start + offset };
            let all = action as u8 & 0x80 != 0;
            let status = if at >= model.zones.len() as u64 * ZONE {
                Status::LbaOutOfRange
            } else if all {
                model.act_on_all(action)
            } else if at % ZONE != 0 {
                Status::InvalidField
            } else {
                model.act((at / ZONE) as usize, action)
            };
            (Command::new(0, Opcode::Zone(ZoneOp::Change(action)), Lba(at), 0, Vec::new()), status)
        }
    }
}

#[test]
fn zones_end_every_command_as_their_rules_say() {
    const NAMESPACE: &str = "[[drive.namespace]]\ninterface = \"zoned\"\ndies_per_zone = 1\nspare_blocks = 2\nactive_max = 3\nopen_max = 2\n";
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..4 {
        let mut bench = Bench::new(NAMESPACE, &["drive.media.pages=6", "drive.buffer.write=\"write-back\""]);
        let geometry = bench.zones();
        assert_eq!((geometry.zone_sectors, geometry.capacity_sectors), (ZONE, CAPACITY));
        let zones = vec![(ZoneState::Empty, 0, 0); geometry.zones as usize];
        let mut model = Zones { zones, clock: 0 };
        let mut rng = Rng::stream(seed, "rules of zones");
        let image = Drive::image_bytes(&bench.drive);
        for step in 0..1500 {
            let (command, status) = zone_command(&mut model, &mut rng, image);
            let what = format!("seed {seed}, step {step}: {:?} at {:?}", command.opcode, command.lba);
            assert_eq!(bench.run(command).status, status, "{what}");
            seen.insert(format!("{status:?}"));
            let all = Command::new(0, Opcode::Report, Lba(0), geometry.zones, Vec::new());
            let report = bench.run(all).data;
            for (n, bytes) in report.as_chunks().0.iter().enumerate() {
                let info = ZoneInfo::decode(bytes).expect("a descriptor");
                let (state, pointer, _) = model.zones[n];
                assert_eq!(info.state, state, "{what}: zone {n}");
                let written = info.write_pointer.0 - info.start.0;
                assert!(state == ZoneState::Full || written == pointer, "{what}: zone {n} at {written}");
            }
        }
    }
    assert_eq!(seen.len(), 9, "every status was to be seen: {seen:?}");
}

const CHUNK: u32 = 64;
const CHUNKS: u32 = 24;
const OPEN_CHUNKS_MAX: usize = 3;
const OPEN_PER_UNIT_MAX: usize = 2;

/// Chunks by their number, each with its write pointer in sectors.
#[derive(Clone)]
struct Chunks {
    written: Vec<u32>,
}

impl Chunks {
    /// The number of a chunk and a sector of it.
    fn place(lba: Lba) -> Option<(u32, u32)> {
        // Two groups of two units of six chunks, for which there are three bits.
        let (unit, chunk) = ((lba.0 >> 9) as u32, (lba.0 >> 6 & 7) as u32);
        (lba.0 < 1 << 11 && chunk < 6).then_some((unit * 6 + chunk, (lba.0 & 63) as u32))
    }

    /// Chunks that were begun and are not full, in a range of numbers; `begun` counts whatever was written to by this command.
    fn open(&self, begun: &[u32], range: std::ops::Range<u32>) -> usize {
        let is_open = |&n: &u32| {
            let written = self.written[n as usize];
            written > 0 && (written < CHUNK || begun.contains(&n))
        };
        range.filter(is_open).count()
    }

    /// All of a write, or nothing.
    fn write(&mut self, addresses: &[Lba]) -> Status {
        let before = self.clone();
        // What this command writes is open until it is on the media.
        let mut begun = Vec::new();
        let status = match addresses.len().is_multiple_of(SUPERPAGE as usize) {
            true => addresses
                .chunks(SUPERPAGE as usize)
                .find_map(|superpage| self.write_superpage(superpage, &mut begun)),
            false => Some(Status::ChunkOutOfOrder),
        };
        if status.is_some() {
            *self = before;
        }
        status.unwrap_or(Status::Success)
    }

    fn write_superpage(&mut self, superpage: &[Lba], begun: &mut Vec<u32>) -> Option<Status> {
        if !superpage.iter().zip(superpage[0].0..).all(|(lba, expected)| lba.0 == expected) {
            return Some(Status::ChunkOutOfOrder);
        }
        let Some((n, sector)) = Chunks::place(superpage[0]) else { return Some(Status::ChunkWriteInvalid) };
        let written = self.written[n as usize];
        if written == CHUNK {
            return Some(Status::ChunkWriteInvalid);
        }
        if sector != written {
            return Some(Status::ChunkOutOfOrder);
        }
        let unit = n / 6 * 6;
        if written == 0
            && (self.open(begun, 0..CHUNKS) == OPEN_CHUNKS_MAX
                || self.open(begun, unit..unit + 6) == OPEN_PER_UNIT_MAX)
        {
            return Some(Status::ChunkWriteInvalid);
        }
        self.written[n as usize] += SUPERPAGE;
        begun.push(n);
        None
    }

    /// Resets each address that can be; the bits of those that cannot.
    fn reset(&mut self, addresses: &[Lba]) -> u64 {
        let mut failed = 0;
        for (i, &lba) in addresses.iter().enumerate() {
            match Chunks::place(lba).map(|(n, _)| &mut self.written[n as usize]) {
                Some(written) if *written > 0 => *written = 0,
                _ => failed |= 1 << i,
            }
        }
        failed
    }

    fn state(&self, n: u32) -> ChunkState {
        match self.written[n as usize] {
            0 => ChunkState::Free,
            CHUNK => ChunkState::Closed,
            _ => ChunkState::Open,
        }
    }
}

/// A place where a write may go on; a wrong one now and then.
fn chunk_address(model: &Chunks, rng: &mut Rng) -> Lba {
    // Three in one unit, and three in others.
    let n = [0u32, 1, 2, 8, 15, 20][rng.below(6) as usize];
    let start = u64::from(n / 6) << 9 | u64::from(n % 6) << 6;
    Lba(match rng.below(12) {
        0 => start + rng.below(CHUNK.into()),
        1 => rng.below(1 << 12),
        _ => start + u64::from(model.written[n as usize] % CHUNK),
    })
}

/// A random command to chunks, how it must end, and which of its addresses must fail.
fn chunk_command(bench: &Bench, model: &mut Chunks, rng: &mut Rng, image: usize) -> (Command, Status, u64) {
    let all = |count: usize| if count < 64 { (1u64 << count) - 1 } else { u64::MAX };
    let count = match rng.below(10) {
        0 => 1 + rng.below(20) as u32,
        _ => SUPERPAGE * (1 + rng.below(4) as u32),
    };
    let run = |lba: Lba, count: u32| (0..u64::from(count)).map(move |i| Lba(lba.0 + i));
    match rng.below(8) {
        0..3 => {
            let lba = chunk_address(model, rng);
            let status = model.write(&run(lba, count).collect::<Vec<_>>());
            let data = vec![7; count as usize * image];
            // Only vectors have bits.
            (Command::new(0, Opcode::Write, lba, count, data), status, 0)
        }
        3..6 => {
            let mut addresses: Vec<Lba> = Vec::new();
            for _ in 0..1 + rng.below(3) {
                addresses.extend(run(chunk_address(model, rng), SUPERPAGE));
            }
            if rng.below(8) == 0 {
                let (a, b) = (rng.below(addresses.len() as u64), rng.below(addresses.len() as u64));
                addresses.swap(a as usize, b as usize);
            }
            let status = model.write(&addresses);
            let failed = if status == Status::Success { 0 } else { all(addresses.len()) };
            let data = vec![7; addresses.len() * image];
            (bench.vector(Opcode::Write, &addresses, data), status, failed)
        }
        _ => {
            let addresses: Vec<Lba> = (0..1 + rng.below(3)).map(|_| chunk_address(model, rng)).collect();
            let failed = model.reset(&addresses);
            let status = if failed == 0 { Status::Success } else { Status::ChunkInvalidReset };
            (bench.vector(Opcode::Chunk(ChunkOp::Reset), &addresses, Vec::new()), status, failed)
        }
    }
}

#[test]
fn chunks_end_every_command_as_their_rules_say() {
    const NAMESPACE: &str =
        "[[drive.namespace]]\ninterface = \"open-channel\"\nopen_max = 3\nopen_per_unit_max = 2\n";
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..4 {
        let mut bench = Bench::new(NAMESPACE, &[]);
        let geometry = bench.chunks();
        assert_eq!((geometry.address_bits(), geometry.chunk_sectors), ([1, 1, 3, 6], CHUNK));
        let mut model = Chunks { written: vec![0; CHUNKS as usize] };
        let mut rng = Rng::stream(seed, "rules of chunks");
        let image = Drive::image_bytes(&bench.drive);
        for step in 0..1500 {
            let (command, status, failed) = chunk_command(&bench, &mut model, &mut rng, image);
            let what = format!("seed {seed}, step {step}: {:?} at {:?}", command.opcode, command.lba);
            let done = bench.run(command);
            assert_eq!((done.status, done.result), (status, failed), "{what}");
            seen.insert(format!("{:?} {status:?}", done.opcode));
            let report = bench.run(Command::new(0, Opcode::Report, Lba(0), CHUNKS, Vec::new())).data;
            for (n, bytes) in (0..).zip(report.as_chunks().0) {
                let info = ChunkInfo::decode(bytes).expect("a descriptor");
                let expected = (model.state(n), model.written[n as usize]);
                assert_eq!((info.state, info.write_pointer), expected, "{what}: chunk {n}");
            }
        }
    }
    assert_eq!(seen.len(), 5, "every status was to be seen: {seen:?}");
}
