//! Open-channel commands, one after the other: scalar and vector ones, to the drive's own namespace and to a raw target on some
//! of its parallel units, with bad addresses, lengths and lists, failing programs, and power cuts.
//!
//! The first byte is the chance that a program fails; each command takes 8 bytes, and two more for each address of a list that is no
//! run. What is promised: a command ends once; one that is refused by a rule changes nothing; what is read is what was written last;
//! nobody reaches the other's units.

use pellucid_device::Device;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Opcode,
    Status, Vector, ZoneOp,
};
use pellucid_host::{HostFtlConfig, Shared, Target, TargetKind};
use pellucid_media::Faults;
use std::collections::HashMap;
use std::sync::OnceLock;

const DRIVE: &str = "drive.preset = \"jasmine\"\ndrive.media.channels = 2\ndrive.media.ways = 2\n\
    drive.media.blocks = 6\ndrive.media.pages = 4\ndrive.media.page_size = \"4KiB\"\ndrive.media.unit_size = \"4KiB\"\n\
    drive.media.store = \"ram\"\ndrive.media.spare_size = 4096\n\
    drive.namespace = [{ interface = \"open-channel\", open_max = 6, open_per_unit_max = 3 }]\n";
/// The target's parallel units.
const TARGET: std::ops::Range<u32> = 1..3;

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((&chance, bytes)) = bytes.split_first() else { return };
    let mut world = World::new(f64::from(chance) / 512.0);
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let listed = usize::from(head[1] & 7) * usize::from(head[0] >> 7);
        let Some((list, behind)) = behind.split_at_checked(2 * listed) else { break };
        rest = behind;
        world.step(head, list);
    }
    world.drive.drive.check();
}

struct World {
    drive: Shared<Device>,
    /// What each readable sector of the drive holds.
    content: HashMap<u64, u8>,
    geometries: [ChunkGeometry; 2],
    tag: u64,
}

impl World {
    fn new(program_fail: f64) -> World {
        static FRESH: OnceLock<Device> = OnceLock::new();
        let fresh = FRESH.get_or_init(|| {
            let spec = pellucid_spec::from_str(DRIVE, "fuzz", &[]).expect("a good description");
            Device::new(&spec.drive).expect("a good drive")
        });
        let mut device = fresh.clone();
        let faults = Faults { program_fail, ..device.config().media.faults.clone() };
        device.set_faults(faults).expect("a chance");
        let now = device.now();
        let Ok(mut drive) = Shared::new(device, now, 0) else { panic!("it has chunks") };
        let target = Target::new("raw".into(), TargetKind::Raw, TARGET);
        drive.create(target, &HostFtlConfig::default()).expect("free units");
        let shape = |namespace| match drive.interface(namespace) {
            Some(Interface::OpenChannel(geometry)) => geometry,
            _ => panic!("chunks"),
        };
        let geometries = [shape(0), shape(1)];
        World { drive, content: HashMap::new(), geometries, tag: 0 }
    }

    fn infos(&self) -> Vec<ChunkInfo> {
        self.drive.drive.namespace(0).chunk_infos(0, u32::MAX).collect()
    }

    /// An address: mostly a real one, near to a write pointer; sometimes any.
    fn address(&self, namespace: usize, bytes: [u8; 2]) -> Lba {
        let geometry = &self.geometries[namespace];
        let number = u32::from(bytes[0]) % (geometry.parallel_units() * geometry.chunks);
        let mut address = geometry.chunk_at(number);
        address.sector = match bytes[1] {
            0..128 => {
                let first = if namespace == 0 { 0 } else { TARGET.start * geometry.chunks };
                let info = self.infos()[(first + number) as usize];
                info.write_pointer.saturating_sub(u32::from(bytes[1] % 4))
            }
            other => u32::from(other - 128),
        };
        let lba = geometry.lba(address);
        if bytes[1] == 255 { Lba(lba.0 ^ 1 << (bytes[0] % 24)) } else { lba }
    }

    fn step(&mut self, head: &[u8; 8], list: &[u8]) {
        let namespace = usize::from(head[0] >> 4 & 1);
        let sector_bytes = self.geometries[0].sector_bytes as usize;
        if head[0] == 0x7F {
            return self.power_cut();
        }
        let opcode = match head[0] % 10 {
            0..3 => Opcode::Write,
            3..5 => Opcode::Read,
            5 | 6 => Opcode::Chunk(ChunkOp::Reset),
            7 => Opcode::Chunk(ChunkOp::Copy),
            8 => Opcode::Report,
            _ => [Opcode::Flush, Opcode::Trim, Opcode::Zone(ZoneOp::Append), Opcode::NextUnit]
                [usize::from(head[1] % 4)],
        };
        let first = self.address(namespace, [head[2], head[3]]);
        let min = self.geometries[0].write_min_sectors;
        let addresses: Vec<Lba> = match list.is_empty() && head[1] & 0x80 != 0 {
            // A run, as a list.
            true => {
                let count = min * (1 + u32::from(head[1] & 3)) + u32::from(head[1] >> 2 & 1);
                (0..u64::from(count)).map(|i| Lba(first.0.saturating_add(i))).collect()
            }
            false => list.chunks_exact(2).map(|pair| self.address(namespace, [pair[0], pair[1]])).collect(),
        };
        let sectors = match (addresses.len() as u32, head[4]) {
            (0, length) => {
                if length & 1 == 0 {
                    min * u32::from(length % 8)
                } else {
                    length.into()
                }
            }
            (count, 255) => count + 1,
            (count, _) => count,
        };
        let sectors = if opcode == Opcode::Chunk(ChunkOp::Reset) && head[4] < 250 {
            addresses.len() as u32
        } else {
            sectors
        };
        let bytes = match (opcode, head[5]) {
            (Opcode::Write | Opcode::Read, 255) => 7,
            (Opcode::Write | Opcode::Read, _) => sectors as usize * sector_bytes,
            _ => 0,
        };
        let destinations = match opcode {
            Opcode::Chunk(ChunkOp::Copy) => {
                addresses.iter().map(|_| self.address(namespace, [head[6], head[7]])).collect()
            }
            _ => Vec::new(),
        };
        let vector = (!addresses.is_empty())
            .then(|| Box::new(Vector { addresses: addresses.clone(), destinations, metadata: Vec::new() }));
        let command = Command {
            namespace: namespace as u16,
            vector,
            ..Command::new(self.tag, opcode, first, sectors, vec![head[6]; bytes])
        };
        let before = self.infos();
        let done = self.ask(command);
        let reached: Vec<Lba> = match addresses.is_empty() {
            true => (0..u64::from(sectors.min(4096))).map(|i| Lba(first.0.saturating_add(i))).collect(),
            false => addresses,
        };
        self.judge(namespace, &reached, head[6], &before, &done);
    }

    /// Submits a command and runs until it has ended.
    fn ask(&mut self, command: Command) -> Completion {
        self.tag += 1;
        let (tag, now) = (command.tag, self.drive.now());
        self.drive.submit(now, command);
        let done = loop {
            if let Some(done) = self.drive.pop() {
                break done;
            }
            let next = self.drive.next_event().expect("a command under way ends");
            self.drive.advance(next);
        };
        assert_eq!(done.tag, tag);
        assert!(self.drive.pop().is_none() && self.drive.outstanding() == 0, "it ends once");
        done
    }

    /// The drive's address of a namespace's one.
    fn on_drive(&self, namespace: usize, lba: Lba) -> Option<u64> {
        let mut address = self.geometries[namespace].address(lba)?;
        if namespace == 1 {
            let unit = address.group * self.geometries[1].units + address.unit + TARGET.start;
            (address.group, address.unit) =
                (unit / self.geometries[0].units, unit % self.geometries[0].units);
        }
        Some(self.geometries[0].lba(address).0)
    }

    fn judge(
        &mut self,
        namespace: usize,
        reached: &[Lba],
        fill: u8,
        before: &[ChunkInfo],
        done: &Completion,
    ) {
        let after = self.infos();
        let rule = matches!(
            done.status,
            Status::InvalidField | Status::InvalidOpcode | Status::LbaOutOfRange | Status::ChunkOutOfOrder
        );
        if rule || matches!(done.opcode, Opcode::Report | Opcode::Flush | Opcode::Read) {
            assert_eq!(before, after, "{:?} {:?} changes nothing", done.opcode, done.status);
        }
        for (number, (old, new)) in before.iter().zip(&after).enumerate() {
            let unit = number as u32 / self.geometries[0].chunks;
            if TARGET.contains(&unit) != (namespace == 1) {
                assert_eq!(old, new, "a unit of the other");
            }
            assert!(
                new.write_pointer <= new.sectors && (new.state != ChunkState::Free || new.write_pointer == 0)
            );
        }
        match (done.opcode, done.status) {
            (Opcode::Write, Status::Success) => {
                for lba in reached {
                    let at = self.on_drive(namespace, *lba).expect("it was written");
                    self.content.insert(at, fill);
                }
            }
            (Opcode::Read, Status::Success) if done.data.len() > 7 => {
                let sector_bytes = self.geometries[0].sector_bytes as usize;
                for (lba, data) in reached.iter().zip(done.data.chunks(sector_bytes)) {
                    let Some(&fill) = self.on_drive(namespace, *lba).and_then(|at| self.content.get(&at))
                    else {
                        continue;
                    };
                    assert!(
                        data.iter().all(|&byte| byte == fill),
                        "{lba:?}: {} where {fill} was written",
                        data[0]
                    );
                }
            }
            // Copies, resets and failures change more than is followed here: those chunks are forgotten.
            _ => {
                let geometry = self.geometries[0];
                let changed: Vec<bool> = before.iter().zip(&after).map(|(old, new)| old != new).collect();
                self.content.retain(|&at, _| {
                    let address = geometry.address(Lba(at)).expect("it was written");
                    !changed[geometry.chunk_number(address) as usize]
                });
            }
        }
    }

    fn power_cut(&mut self) {
        self.drive.drive.power_cut().expect("it mounts");
        let now = self.drive.drive.now();
        self.drive.restart(now).expect("raw targets start at once");
        while self.drive.pop().is_some() {}
        self.drive.drive.check();
    }
}
