//! Zone commands, one after the other: writes, appends, reads, reports and every action, with bad places and lengths, flushes and
//! power cuts, on media that do not fail (`lab`'s tests of zones have those that do).
//!
//! Each command takes 6 bytes. What is promised: a command ends once; one that a rule refuses changes nothing; limits hold; what is
//! read is what was written; after a power cut a zone is a prefix of what it was, with everything that was flushed.

use pellucid_device::Device;
use pellucid_flash::{
    Command, Completion, Drive, Interface, Lba, Opcode, Status, ZoneAction, ZoneGeometry, ZoneInfo, ZoneOp,
    ZoneState,
};
use std::sync::OnceLock;

const DRIVE: &str = "drive.preset = \"jasmine\"\ndrive.media.channels = 2\ndrive.media.ways = 2\n\
    drive.media.blocks = 12\ndrive.media.pages = 16\ndrive.media.page_size = \"4KiB\"\ndrive.media.unit_size = \"4KiB\"\n\
    drive.media.store = \"ram\"\ndrive.media.spare_size = 4096\n\
    drive.namespace = [{ interface = \"zoned\", dies_per_zone = 2, spare_blocks = 4, open_max = 3, active_max = 4 }]\n";

/// One input.
pub fn run(bytes: &[u8]) {
    let mut world = World::new();
    for step in bytes.as_chunks::<6>().0 {
        world.step(step);
    }
    world.drive.check();
}

struct World {
    drive: Device,
    zones: ZoneGeometry,
    /// Of each zone, the bytes that fill its sectors.
    content: Vec<Vec<u8>>,
    /// Sectors of each zone that a flush has promised.
    flushed: Vec<usize>,
    tag: u64,
}

impl World {
    fn new() -> World {
        static FRESH: OnceLock<Device> = OnceLock::new();
        let fresh = FRESH.get_or_init(|| {
            let spec = pellucid_spec::from_str(DRIVE, "fuzz", &[]).expect("a good description");
            Device::new(&spec.drive).expect("a good drive")
        });
        let drive = fresh.clone();
        let Some(Interface::Zoned(zones)) = Drive::interface(&drive, 0) else { panic!("zones") };
        let count = zones.zones as usize;
        World { drive, zones, content: vec![Vec::new(); count], flushed: vec![0; count], tag: 0 }
    }

    fn step(&mut self, step: &[u8; 6]) {
        let [what, zone, place, length, fill, flags] = *step;
        let zone = u32::from(zone) % self.zones.zones;
        let start = u64::from(zone) * self.zones.zone_sectors;
        let written = self.content[zone as usize].len() as u64;
        let lba = Lba(match place {
            0..200 => start + written,
            200..230 => start + u64::from(place - 200) % (written + 1),
            230..254 => start + u64::from(place),
            _ => u64::MAX - u64::from(place),
        });
        let sectors = if length == 255 { 0 } else { u32::from(length % 48) + 1 };
        let opcode = match what % 16 {
            0..5 => Opcode::Write,
            5..7 => Opcode::Zone(ZoneOp::Append),
            7..10 => Opcode::Read,
            10 => Opcode::Report,
            11 => Opcode::Flush,
            12 if what > 200 => return self.power_cut(),
            _ => Opcode::Zone(ZoneOp::Change(ZoneAction::ALL[usize::from(fill) % ZoneAction::ALL.len()])),
        };
        let (lba, sectors) = match opcode {
            Opcode::Zone(_) if place < 250 => (Lba(start), sectors),
            Opcode::Read if place < 200 => (Lba(start), sectors),
            Opcode::Flush => (Lba(0), 0),
            _ => (lba, sectors),
        };
        let sectors =
            if matches!(opcode, Opcode::Zone(ZoneOp::Change(_))) && flags < 250 { 0 } else { sectors };
        let bytes = match opcode {
            Opcode::Write | Opcode::Zone(ZoneOp::Append) | Opcode::Read if flags == 255 => 3,
            Opcode::Write | Opcode::Zone(ZoneOp::Append) | Opcode::Read => {
                sectors as usize * self.zones.sector_bytes as usize
            }
            _ => 0,
        };
        let before = self.report();
        let command = Command::new(0, opcode, lba, sectors, vec![fill; bytes]);
        let done = self.ask(Command { fua: flags & 1 == 1 && opcode == Opcode::Write, ..command });
        self.judge(lba, fill, flags & 1 == 1, &before, &done);
    }

    fn ask(&mut self, command: Command) -> Completion {
        self.tag += 1;
        let now = self.drive.now();
        self.drive.submit(now, Command { tag: self.tag, ..command });
        let done = loop {
            if let Some(done) = self.drive.pop() {
                break done;
            }
            let next = self.drive.next_event().expect("a command under way ends");
            self.drive.advance(next);
        };
        assert_eq!(done.tag, self.tag);
        assert!(self.drive.pop().is_none(), "it ends once");
        done
    }

    fn report(&mut self) -> Vec<ZoneInfo> {
        let done = self.ask(Command::new(0, Opcode::Report, Lba(0), self.zones.zones, Vec::new()));
        assert_eq!(done.status, Status::Success);
        done.data.as_chunks().0.iter().map(|bytes| ZoneInfo::decode(bytes).expect("a state")).collect()
    }

    fn judge(&mut self, lba: Lba, fill: u8, fua: bool, before: &[ZoneInfo], done: &Completion) {
        let after = self.report();
        let sector_bytes = self.zones.sector_bytes as usize;
        let zone = (lba.0 / self.zones.zone_sectors).min(u64::from(self.zones.zones)) as usize;
        let rule = !matches!(
            done.status,
            Status::Success
                | Status::WriteFault
                | Status::UnrecoveredRead
                | Status::ZoneReadOnly
                | Status::ZoneOffline
        );
        // Making room for one more open zone closes another.
        let opens = matches!(
            done.opcode,
            Opcode::Write | Opcode::Zone(ZoneOp::Append) | Opcode::Zone(ZoneOp::Change(ZoneAction::Open))
        );
        if rule && !opens {
            assert_eq!(before, after, "{:?} {:?} changes nothing", done.opcode, done.status);
        }
        match (done.opcode, done.status) {
            (Opcode::Write | Opcode::Zone(ZoneOp::Append), Status::Success) => {
                let content = &mut self.content[zone];
                if done.opcode == Opcode::Zone(ZoneOp::Append) {
                    assert_eq!(done.result, zone as u64 * self.zones.zone_sectors + content.len() as u64);
                }
                content.resize(content.len() + done.data.len() / sector_bytes, fill);
                if fua && done.opcode == Opcode::Write {
                    self.flushed[zone] = content.len();
                }
            }
            (Opcode::Read, Status::Success) => {
                let first = (lba.0 % self.zones.zone_sectors) as usize;
                let held = &self.content.get(zone).map_or(&[][..], Vec::as_slice);
                for (at, data) in done.data.chunks(sector_bytes).enumerate() {
                    let expected = held.get(first + at).copied().unwrap_or(0);
                    let in_zone = ((first + at) as u64) < self.zones.zone_sectors;
                    assert!(
                        !in_zone || data.iter().all(|&b| b == expected),
                        "zone {zone}, sector {}",
                        first + at
                    );
                }
            }
            (Opcode::Flush, Status::Success) => {
                self.flushed = self.content.iter().map(Vec::len).collect();
            }
            _ => {}
        }
        for (zone, info) in after.iter().enumerate() {
            self.follow(zone, info, before[zone].state);
        }
        let open = |i: &&ZoneInfo| matches!(i.state, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen);
        let active = |i: &&ZoneInfo| open(i) || i.state == ZoneState::Closed;
        assert!(after.iter().filter(open).count() <= 3 && after.iter().filter(active).count() <= 4, "limits");
    }

    /// Keeps up with resets, and checks pointers.
    fn follow(&mut self, zone: usize, info: &ZoneInfo, before: ZoneState) {
        let pointer = info.write_pointer.0.wrapping_sub(info.start.0) as usize;
        let content = &mut self.content[zone];
        match info.state {
            ZoneState::Empty => {
                assert!(content.is_empty() || before != ZoneState::Empty, "zone {zone} lost its data");
                content.clear();
                self.flushed[zone] = 0;
            }
            ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
                // A write that failed may have got some way.
                assert!(pointer >= content.len(), "zone {zone}: {pointer} behind {}", content.len());
                assert_eq!(pointer, content.len(), "zone {zone}");
            }
            ZoneState::Offline => content.clear(),
            ZoneState::Full | ZoneState::ReadOnly => {}
        }
    }

    fn power_cut(&mut self) {
        self.drive.power_cut().expect("it mounts");
        while self.drive.pop().is_some() {}
        self.drive.check();
        for (zone, info) in self.report().iter().enumerate() {
            let pointer = info.write_pointer.0.wrapping_sub(info.start.0) as usize;
            match info.state {
                ZoneState::Empty => {
                    assert_eq!(self.flushed[zone], 0, "zone {zone} lost flushed data");
                    self.content[zone].clear();
                }
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed => {
                    assert!(pointer >= self.flushed[zone], "zone {zone} lost flushed data");
                    assert!(pointer <= self.content[zone].len(), "zone {zone} has data of nobody");
                    self.content[zone].truncate(pointer);
                    self.flushed[zone] = pointer;
                }
                _ => {}
            }
        }
    }
}
