//! Faults that a host sees: each kind on every kind of drive, by range, number and seed; over NBD; counted
//! and shown.

use crate::common::{self, Client, drive, pattern, scratch, serve};
use pellucid_flash::{Completion, Lba, Opcode, SimTime, Status};
use pellucid_media::StoreKind;
use pellucid_serve::{Core, FileConfig, FileDrive, Operated, Served, Time};
use pellucid_target::Drives;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::Operation;
use pellucid_target::request::{HostFault, PlannedFault};
use pellucid_wire::nbd::{Command, command_flag};
use serde_json::Value;

const SECTOR: u64 = 512;
const BYTES: u64 = 4 << 20;

/// A server of one drive, without sockets.
struct One(Core);

impl One {
    fn new(drive: impl Into<Served>, faults: &[&str]) -> One {
        let mut core = Core::new(vec![("one".into(), drive.into())], Time::Instant).expect("a drive");
        for fault in faults {
            let fault: PlannedFault = fault.parse().unwrap_or_else(|error| panic!("{fault}: {error}"));
            core.plan(fault).unwrap_or_else(|error| panic!("{error}"));
        }
        One(core)
    }

    fn modelled(faults: &[&str]) -> One {
        One::new(drive(StoreKind::Ram), faults)
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.0.submit(0, Route { connection: ConnectionId::new(1), token }, operation);
    }

    fn next(&mut self) -> Completion {
        loop {
            self.0.run();
            if let Some(done) = self.0.pop() {
                return done.answer;
            }
        }
    }

    fn ask(&mut self, operation: Operation) -> Completion {
        self.submit(0, operation);
        self.next()
    }

    fn write(&mut self, lba: u64, data: Vec<u8>) -> Status {
        let sectors = (data.len() as u64 / self.sector()) as u32;
        self.ask(Operation::new(Opcode::Write, Lba(lba), sectors, data)).status
    }

    fn read(&mut self, lba: u64, sectors: u32) -> (Status, Vec<u8>) {
        let data = vec![0; (u64::from(sectors) * self.sector()) as usize];
        let done = self.ask(Operation::new(Opcode::Read, Lba(lba), sectors, data));
        (done.status, done.data)
    }

    fn sector(&self) -> u64 {
        self.0.namespaces()[0].sector_bytes.into()
    }

    /// Number of commands that each fault has hit.
    fn hits(&self) -> Vec<u64> {
        self.0.host_faults(0).into_iter().map(|(_, hits)| hits).collect()
    }
}

fn data(sectors: u64) -> Vec<u8> {
    pattern(3, (sectors * SECTOR) as usize)
}

fn file(name: &str) -> FileDrive {
    let directory = scratch(name);
    std::fs::create_dir_all(&directory).expect("a folder");
    let path = directory.join("disk.img");
    let _ = std::fs::remove_file(&path);
    let config = FileConfig { size_bytes: Some(BYTES), sector_bytes: 512, ..FileConfig::new(path) };
    FileDrive::open(&config).expect("a file drive")
}

/// As many commands as requested that touch the range fail and change nothing, on a modelled drive and on a
/// file.
#[test]
fn errors_come_where_and_as_often_as_asked() {
    let faults = ["io-error@0s:on=write,range=8KiB-16KiB,count=2", "io-error@0s:on=read,range=64KiB-"];
    for mut one in [One::modelled(&faults), One::new(file("host-fault-file"), &faults)] {
        assert_eq!(one.write(0, data(8)), Status::Success, "before the range");
        assert_eq!(one.write(15, data(2)), Status::WriteFault, "it touches the range");
        assert_eq!(one.write(31, data(2)), Status::WriteFault);
        assert_eq!(one.read(15, 2), (Status::Success, vec![0; 1024]), "nothing was written");
        assert_eq!(one.write(16, data(16)), Status::Success, "two were to fail");
        assert_eq!(one.read(16, 16), (Status::Success, data(16)));
        assert_eq!(one.read(127, 2).0, Status::UnrecoveredRead);
        assert_eq!(one.read(120, 8).0, Status::Success);
        assert_eq!(one.hits(), [2, 1]);
        assert_eq!(one.0.outstanding(), 0);
    }
}

/// With equal rate and seed, the same commands fail again.
#[test]
fn a_rate_is_repeatable_by_its_seed() {
    let failed = |seed: u64| {
        let mut one = One::modelled(&[&format!("io-error@0s:rate=0.25,seed={seed}")]);
        (0..200).map(|_| one.read(0, 1).0 != Status::Success).collect::<Vec<bool>>()
    };
    let first = failed(7);
    assert_eq!(first, failed(7));
    assert_ne!(first, failed(8));
    let count = first.iter().filter(|&&failed| failed).count();
    assert!((30..70).contains(&count), "{count} of 200");
}

/// A torn write stores its first sectors, leaves the others unchanged, and reports success.
#[test]
fn a_torn_write_leaves_its_end_as_it_was() {
    let mut one = One::modelled(&["torn-write@1ops:count=1"]);
    assert_eq!(one.write(0, vec![9; 8 << 10]), Status::Success, "the first command plans it");
    assert_eq!(one.write(0, data(16)), Status::Success);
    let (status, found) = one.read(0, 16);
    assert_eq!(status, Status::Success);
    let torn = (0..16).take_while(|&s| found[s * 512..][..512] == data(16)[s * 512..][..512]).count();
    assert!(torn < 16, "its end is missing");
    assert!(found[torn * 512..].iter().all(|&byte| byte == 9), "and is as it was");
    assert_eq!(one.hits(), [1]);
    assert_eq!(one.write(0, data(16)), Status::Success);
    assert_eq!(one.read(0, 16), (Status::Success, data(16)), "one was to be torn");
}

/// A lost flush is answered, and a power cut then loses the data it should have covered; likewise for a
/// forced write.
#[test]
fn a_lost_flush_costs_what_it_was_for() {
    for (faults, kept) in [(&[][..], true), (&["lost-flush@0s"][..], false)] {
        for forced in [false, true] {
            let mut one = One::modelled(faults);
            let write = Operation::new(Opcode::Write, Lba(0), 8, data(8));
            assert_eq!(one.ask(Operation { fua: forced, ..write }).status, Status::Success);
            if !forced {
                assert_eq!(one.ask(Operation::flush()).status, Status::Success);
            }
            one.0.power_cut(0).expect("it mounts");
            assert_eq!(one.read(0, 8).1 == data(8), kept, "forced: {forced}");
            assert_eq!(one.hits(), vec![1; faults.len()]);
        }
    }
}

/// Corruption is silent, flips one bit in a sector, is the same at every read, and affects the requested
/// fraction. Data corrupted by a write stay corrupt after the fault is cleared.
#[test]
fn corruption_is_silent_and_repeatable() {
    let wrong = |found: &[u8]| {
        let sectors = found.chunks(512).zip(data(1024).chunks(512).map(<[u8]>::to_vec).collect::<Vec<_>>());
        sectors
            .map(|(a, b)| a.iter().zip(&b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>())
            .collect::<Vec<u32>>()
    };
    let mut one = One::modelled(&["corrupt@1ops:rate=0.1,seed=5,range=64KiB-"]);
    assert_eq!(one.write(0, data(1024)), Status::Success);
    let (status, found) = one.read(0, 1024);
    assert_eq!(status, Status::Success);
    let bits = wrong(&found);
    assert!(bits[..128].iter().all(|&bits| bits == 0), "before the range");
    assert!(bits.iter().all(|&bits| bits <= 1));
    let count = bits.iter().sum::<u32>();
    assert!((50..130).contains(&count), "{count} of 896 sectors");
    let apart: Vec<u8> = (0..128).flat_map(|at| one.read(at * 8, 8).1).collect();
    assert_eq!(apart, found, "the same bits, whatever is read together");
    assert!(one.hits()[0] > 1);

    let mut one = One::modelled(&["corrupt@0s:on=write,range=0-512", "clear@2ops"]);
    assert_eq!(one.write(0, data(1024)), Status::Success);
    let found = one.read(0, 1024).1;
    assert!(one.hits().is_empty(), "the faults are gone");
    let bits = wrong(&found);
    assert_eq!((bits[0], bits[1..].iter().sum::<u32>()), (1, 0));
    assert_eq!(one.read(0, 1024).1, found);
}

/// A delayed command ends later in the drive's time; the others do not wait for it.
#[test]
fn a_delay_holds_one_command_back() {
    let drives = vec![("one".to_string(), drive(StoreKind::Ram))];
    let mut core = Core::new(drives, Time::Paced { dilation: 1e-6 }).expect("a drive");
    core.plan("delay=5s@0s:on=read,count=1".parse().expect("good")).expect("it can be");
    let mut one = One(core);
    one.submit(1, Operation::new(Opcode::Read, Lba(0), 1, vec![0; 512]));
    one.submit(2, Operation::new(Opcode::Read, Lba(64), 1, vec![0; 512]));
    let tokens: Vec<(SimTime, u64)> = std::iter::from_fn(|| {
        while one.0.outstanding() > 0 {
            one.0.run();
            if let Some(done) = one.0.pop() {
                let took = done.answer.completed - done.answer.submitted;
                assert_eq!(done.answer.stages.0.iter().sum::<u64>(), took.0, "each stage is told");
                return Some((SimTime(took.0), done.route.token));
            }
        }
        None
    })
    .collect();
    assert_eq!((tokens[0].1, tokens[1].1), (2, 1), "{tokens:?}");
    assert!(tokens[1].0.0 >= 5_000_000_000 && tokens[0].0.0 < 5_000_000_000, "{tokens:?}");
}

/// A power cut ends a delayed write: its host must not be told of success afterwards.
#[test]
fn a_power_cut_ends_what_is_held_back() {
    let drives = vec![("one".to_string(), drive(StoreKind::Ram))];
    let mut core = Core::new(drives, Time::Paced { dilation: 1.0 }).expect("a drive");
    core.plan("delay=3600s@0s".parse().expect("good")).expect("it can be");
    let mut one = One(core);
    one.submit(1, Operation::new(Opcode::Write, Lba(0), 8, data(8)));
    common::eventually("the write is held back", || {
        one.0.run();
        assert!(one.0.pop().is_none());
        one.0.host_faults(0)[0].1 == 1 && one.0.device(0).is_some_and(|d| d.outstanding_commands() == 0)
    });
    one.0.power_cut(0).expect("it mounts");
    assert_eq!(one.next().status, Status::PowerLoss);
}

#[test]
fn what_cannot_be_is_refused_with_what_is_allowed() {
    let mut one = One::modelled(&[]);
    for (fault, named) in [
        ("delay=5s@0s", "with --time instant no time is kept"),
        ("io-error@0s:range=1TiB-", "allowed: a range that begins within them"),
        ("io-error@0s:drive=two", "drive: \"two\"; allowed: one"),
    ] {
        let refusal = one.0.plan(fault.parse().expect("good")).expect_err(fault);
        assert!(refusal.contains(named), "{refusal}");
    }
    for (fault, named) in [
        ("io-error@random", "by chance with rate=P"),
        ("io-error@0s:mean=3", "fault's option"),
        ("io-error@0s:rate=7", "a probability from 0 to 1, or 0% to 100%"),
    ] {
        let refusal = fault.parse::<PlannedFault>().expect_err(fault).to_string();
        assert!(refusal.contains(named), "{refusal}");
    }
    assert!("io-error:rate=0.5".parse::<HostFault>().is_ok());
}

/// Over NBD an error is EIO; it is set and cleared on the control socket, and the status counts its hits.
#[test]
fn faults_are_set_counted_and_cleared_while_the_drive_is_served() {
    let served = serve("host-faults", vec![("one".into(), drive(StoreKind::Ram))], Time::Instant);
    let mut client = Client::tcp(&served, "");
    client.write(0, &data(16));
    let ask = |line: &str| -> Value { serde_json::from_str(&served.control(line)).expect("JSON") };
    assert_eq!(ask(r#"{"do":"inject","fault":"io-error:on=write+flush"}"#)["ok"], true);
    let refused = ask(r#"{"do":"inject","fault":"io-error:on=erase"}"#);
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("some of read+write+flush+trim")));
    const EIO: u32 = 5;
    assert_eq!(client.ask(Command::Write, command_flag::FUA, 0, 512, &[1; 512]).error, EIO);
    assert_eq!(client.ask(Command::Flush, 0, 0, 0, &[]).error, EIO);
    assert_eq!(client.read(0, 8 << 10), data(16));
    let status = ask(r#"{"do":"status"}"#);
    let expected = serde_json::json!([{ "fault": "io-error:on=write+flush", "hits": 2 }]);
    assert_eq!(status["drives"][0]["host_faults"], expected);
    assert_eq!(ask(r#"{"do":"clear-faults"}"#)["cleared"], 1);
    client.write(0, &[1; 512]);
    client.leave();
    served.stop();
}
