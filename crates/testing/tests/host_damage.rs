//! Flash that cannot be read when the host's translation starts: only the data there are lost, and the loss is reported.

use crate::small::of_chunks;
use pellucid_device::Device;
use pellucid_flash::{
    ChunkInfo, ChunkOp, ChunkState, Command, Completion, DieId, Drive, Interface, Lba, Opcode, SimTime,
    Status,
};
use pellucid_host::{HostFtl, LayerConfig, Stack, Tower};
use pellucid_lab::drive::{TimedDrive, put_on};
use pellucid_media::Fault;
use std::collections::BTreeMap;

/// The small drive, with a translation of the host above it.
fn drive() -> String {
    of_chunks() + "[host]\nlayers = [\"host-ftl\"]\n[host.ftl]\nover_provisioning = 2.0\nspare_chunks = 2\n"
}

/// Sectors looked at.
const SECTORS: u64 = 20;

struct Bench<D: Drive = Device> {
    stack: Stack<HostFtl, D>,
    now: SimTime,
}

impl Bench {
    fn new(faults: &str) -> Bench {
        let spec =
            pellucid_spec::from_str(&(drive() + faults), "damage", &[]).unwrap_or_else(|e| panic!("{e}"));
        let [LayerConfig::HostFtl(config)] = &spec.host[..] else { panic!("another layer") };
        let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
        let layer = HostFtl::new(config, Drive::interface(&device, 0), Drive::image_bytes(&device));
        let now = device.now();
        let stack = Stack::start(layer.unwrap_or_else(|e| panic!("{e}")), device, now);
        Bench { stack: stack.unwrap_or_else(|e| panic!("{e}")), now }
    }

    /// Cuts the power and starts again. The error is the layer's sentence.
    fn restart(&mut self) -> Result<(), String> {
        self.stack.drive.power_cut().unwrap_or_else(|e| panic!("{e}"));
        while self.stack.drive.pop().is_some() {}
        let now = self.stack.drive.now();
        let result = self.stack.restart(now);
        self.now = self.now.max(self.stack.now());
        result
    }
}

impl<D: Drive> Bench<D> {
    fn run(&mut self, opcode: Opcode, lba: u64, data: Vec<u8>) -> (Status, Vec<u8>) {
        let sectors = u32::from(opcode != Opcode::Flush);
        self.stack.submit(self.now, Command::new(0, opcode, Lba(lba), sectors, data));
        loop {
            if let Some(completion) = self.stack.pop() {
                return (completion.status, completion.data);
            }
            self.now = self.stack.next_event().expect("commands end");
            Drive::advance(&mut self.stack, self.now);
        }
    }

    /// Writes `value` to some sectors, and flushes.
    fn write(&mut self, sectors: std::ops::Range<u64>, value: u8) {
        for lba in sectors {
            assert_eq!(self.run(Opcode::Write, lba, vec![value; 512]).0, Status::Success);
        }
        assert_eq!(self.run(Opcode::Flush, 0, Vec::new()).0, Status::Success);
    }

    /// Reads the first sectors; `None`: unreadable, and said so.
    fn look(&mut self) -> Vec<Option<u8>> {
        let read = |lba| match self.run(Opcode::Read, lba, vec![0xee; 512]) {
            (Status::Success, data) => Some(data[0]),
            (status, _) => {
                assert_eq!(status, Status::UnrecoveredRead, "sector {lba}");
                None
            }
        };
        (0..SECTORS).map(read).collect()
    }
}

/// Returns the contents that [`overwritten`] leaves.
fn newest() -> Vec<Option<u8>> {
    (0..SECTORS).map(|lba| Some(if lba < 16 { 2 } else { 1 })).collect()
}

/// Sectors written twice, and so much behind them that the ring has nothing of it.
fn overwritten(faults: &str) -> Bench {
    let mut bench = Bench::new(faults);
    bench.write(0..SECTORS, 1);
    bench.write(0..16, 2);
    bench.write(30..70, 9);
    bench
}

fn lost(found: &[Option<u8>], what: &str) -> usize {
    for (lba, (found, newest)) in found.iter().zip(newest()).enumerate() {
        assert!(found.is_none() || *found == newest, "{what}, sector {lba}: {found:?} for {newest:?}");
    }
    found.iter().filter(|found| found.is_none()).count()
}

#[test]
fn a_superpage_that_cannot_be_read_costs_what_lies_in_it() {
    let mut lost_in_all = 0;
    for die in 0..4 {
        for block in 0..2 {
            for superpage in 0..6 {
                let fault = format!("kind=\"read-fail\"\ndie={die}\nblock={block}\nsuperpage={superpage}\n");
                let mut bench = overwritten(&format!("[[drive.media.faults.list]]\n{fault}"));
                bench.restart().unwrap_or_else(|e| panic!("{fault}: {e}"));
                let count = lost(&bench.look(), &fault);
                assert!(count <= 4, "{fault}: {count} sectors of a superpage of 4");
                lost_in_all += count;
                // What was put together again can be collected and written.
                for round in 0..12 {
                    bench.write(30..110, round);
                }
                assert_eq!(lost(&bench.look(), &fault), count);
                bench.stack.layer.check();
                bench.restart().unwrap_or_else(|e| panic!("{fault}: {e}"));
                assert_eq!(lost(&bench.look(), &fault), count);
            }
        }
    }
    assert!(lost_in_all > 0);
}

#[test]
fn a_die_that_died_takes_nothing_with_it_but_what_it_held() {
    for die in 0..4 {
        let mut bench = overwritten("");
        let now = bench.now;
        bench.stack.drive.inject(now, Fault::KillDie { die: DieId(die) }).unwrap_or_else(|e| panic!("{e}"));
        bench.restart().unwrap_or_else(|e| panic!("die {die}: {e}"));
        let count = lost(&bench.look(), &format!("die {die}"));
        assert!((1..=8).contains(&count), "die {die}: {count}");
    }
}

/// A log on zones keeps beside data, in trailers, whose they are. What a trailer says is lost with it.
#[test]
fn a_zone_log_says_that_it_does_not_know_rather_than_give_older_data() {
    let zones = "interface = \"zoned\"\ndies_per_zone = 2\nspare_blocks = 2\nactive_max = 8";
    let log = "layers = [\"zone-log\"]\n[host.zone_log]\nwidth = 2\nbatch = 8\n[host.ftl]\nbuffer = 64";
    let text = drive().replace("interface = \"open-channel\"", zones).replace("pages = 8\n", "pages = 16\n");
    let text = text.replace("layers = [\"host-ftl\"]\n[host.ftl]", log);
    let (mut failed, mut known) = (0, 0);
    for (die, superpage) in (0..4).flat_map(|die| (0..16).map(move |superpage| (die, superpage))) {
        let fault = format!("kind=\"read-fail\"\ndie={die}\nblock=0\nsuperpage={superpage}\n");
        let spec =
            pellucid_spec::from_str(&format!("{text}[[drive.media.faults.list]]\n{fault}"), "damage", &[]);
        let spec = spec.unwrap_or_else(|e| panic!("{e}"));
        let start = |device| put_on(&spec.host, device);
        let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}"));
        let mut stack = start(device).unwrap_or_else(|e| panic!("{e}"));
        for (range, value) in [(0..SECTORS, 1), (0..16, 2), (30..100, 9)] {
            for lba in range {
                assert_eq!(ask(&mut stack, Opcode::Write, lba, vec![value; 512]).0, Status::Success);
            }
            assert_eq!(ask(&mut stack, Opcode::Flush, 0, Vec::new()).0, Status::Success);
        }
        let mut device = stack.into_bottom();
        device.power_cut().unwrap_or_else(|e| panic!("{e}"));
        while device.pop().is_some() {}
        match start(device) {
            Err(sentence) => {
                assert!(sentence.contains("cannot be read"), "{sentence}");
                failed += 1;
            }
            Ok(mut stack) => {
                let read = |lba| ask(&mut stack, Opcode::Read, lba, vec![0xee; 512]);
                let found = (0..SECTORS).map(read).map(|(s, data)| (s == Status::Success).then(|| data[0]));
                let count = lost(&found.collect::<Vec<_>>(), &fault);
                // Three sectors lie beside a trailer in its superpage, and four without one.
                assert!(count <= 4, "{fault}: {count} sectors");
                known += usize::from(count == 3);
            }
        }
    }
    // The next trailer of a zone says what one that cannot be read said. That of the last batch nobody repeats.
    assert!(known > 0 && failed > 0, "{known} of 64 are known all the same, {failed} are not");
    assert!(failed <= 4, "{failed} of 64: at most one in each of four zones");
}

fn ask(stack: &mut Tower<Device>, opcode: Opcode, lba: u64, data: Vec<u8>) -> (Status, Vec<u8>) {
    stack.submit(stack.now(), Command::new(0, opcode, Lba(lba), u32::from(opcode != Opcode::Flush), data));
    loop {
        if let Some(completion) = stack.pop() {
            return (completion.status, completion.data);
        }
        let next = stack.next_event().expect("commands end");
        stack.advance(next);
    }
}

/// A drive that has taken a chunk out of use, with what was in it.
struct Without {
    drive: Device,
    chunk: Option<Lba>,
    sectors: u64,
    /// Addresses of commands under way that lie there, as bits.
    gone: BTreeMap<u64, u64>,
}

impl Drive for Without {
    fn namespaces(&self) -> u16 {
        Drive::namespaces(&self.drive)
    }
    fn interface(&self, namespace: u16) -> Option<Interface> {
        Drive::interface(&self.drive, namespace)
    }
    fn image_bytes(&self) -> usize {
        Drive::image_bytes(&self.drive)
    }
    fn submit(&mut self, now: SimTime, command: Command) {
        let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
        let address = |i: u32| listed.get(i as usize).map_or(command.lba.0 + u64::from(i), |lba| lba.0);
        let is_gone = |lba| self.chunk.is_some_and(|chunk| (chunk.0..chunk.0 + self.sectors).contains(&lba));
        let bits = (0..command.sectors).filter(|&i| is_gone(address(i))).fold(0, |bits, i| bits | 1 << i);
        if command.opcode != Opcode::Report {
            self.gone.insert(command.tag, bits);
        }
        Drive::submit(&mut self.drive, now, command);
    }
    fn advance(&mut self, now: SimTime) {
        Drive::advance(&mut self.drive, now);
    }
    fn next_event(&self) -> Option<SimTime> {
        Drive::next_event(&self.drive)
    }
    fn pop(&mut self) -> Option<Completion> {
        let mut done = Drive::pop(&mut self.drive)?;
        let Some(gone) = self.chunk else { return Some(done) };
        if done.opcode == Opcode::Report {
            for bytes in done.data.chunks_exact_mut(ChunkInfo::BYTES) {
                let info = ChunkInfo::decode((&*bytes).try_into().expect("exact chunks")).expect("a chunk");
                if info.start == gone {
                    let mut offline = Vec::new();
                    ChunkInfo { state: ChunkState::Offline, write_pointer: 0, ..info }.encode(&mut offline);
                    bytes.copy_from_slice(&offline);
                }
            }
        }
        let bits = self.gone.remove(&done.tag).unwrap_or(0);
        if bits != 0 {
            assert_ne!(done.opcode, Opcode::Chunk(ChunkOp::Reset), "a chunk that is out of use");
            (done.status, done.result) = (Status::UnrecoveredRead, bits);
            let metadata = done.vector.as_mut().map_or(&mut [][..], |vector| &mut vector.metadata);
            for (i, oob) in metadata.chunks_exact_mut(16).enumerate() {
                oob.iter_mut().for_each(|byte| *byte *= (bits >> i & 1 == 0) as u8);
            }
        }
        Some(done)
    }
    fn outstanding(&self) -> usize {
        Drive::outstanding(&self.drive)
    }
    fn completed(&self) -> usize {
        Drive::completed(&self.drive)
    }
}

/// The first chunk of a line is offline, and with it the start that says which chunks are the line's. `after`: what is written to the line
/// last. Gives the target's sentence, or what it gives then.
fn without_first_chunk(after: std::ops::Range<u64>) -> Result<Vec<Option<u8>>, String> {
    let mut bench = overwritten("");
    bench.write(after, 9);
    let Some(Interface::OpenChannel(geometry)) = Drive::interface(&bench.stack.drive, 0) else {
        panic!("chunks")
    };
    let mut device = bench.stack.drive;
    device.power_cut().unwrap_or_else(|e| panic!("{e}"));
    while device.pop().is_some() {}
    let now = device.now();
    // The line that was begun first has the chunk with data and the lowest number.
    let mut without =
        Without { drive: device, chunk: None, sectors: geometry.chunk_sectors.into(), gone: BTreeMap::new() };
    Drive::submit(&mut without, now, Command::new(0, Opcode::Report, Lba(0), geometry.chunks, Vec::new()));
    let report = loop {
        if let Some(done) = without.pop() {
            break done.data;
        }
        let at = without.next_event().expect("a report ends");
        Drive::advance(&mut without, at);
    };
    let mut infos =
        report.chunks_exact(ChunkInfo::BYTES).filter_map(|b| ChunkInfo::decode(b.try_into().ok()?));
    without.chunk = infos.find(|info| info.write_pointer > 0).map(|info| info.start);
    assert!(without.chunk.is_some());
    let now = without.drive.now();
    let layer = bench.stack.layer.restart(now).unwrap_or_else(|e| panic!("{e}"));
    let mut bench = Bench { stack: Stack::start(layer, without, now)?, now };
    Ok(bench.look())
}

#[test]
fn a_line_whose_first_chunk_is_offline_is_not_reset() {
    let sentence = without_first_chunk(70..71).expect_err("nobody knows what was in it");
    assert!(sentence.contains("offline") && sentence.contains("older copy"), "{sentence}");
    // What the end of a line says is known all the same.
    let found = without_first_chunk(70..140).unwrap_or_else(|e| panic!("{e}"));
    let count = lost(&found, "offline");
    assert!(count > 0 && count < SECTORS as usize, "{count}");
}
