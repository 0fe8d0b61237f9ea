//! Targets that are created and removed while their drive is served: block targets over NBD, raw targets over
//! NVMe/TCP with a host FTL of another server as the application; refusals, and the state after a power cut
//! and after a restart.

use crate::common::{self, Client, NQN, ask_control, chunks, eventually, listen, pattern, scratch, zones};
use pellucid_device::{Device, Namespace};
use pellucid_flash::{ChunkAddress, ChunkOp, DieId, Drive, Interface, Lba, Opcode, Status};
use pellucid_host::{
    HostFtl, HostFtlConfig, LayerConfig, Stack, Target as Range, TargetKind, Targets, ZoneChunksConfig,
};
use pellucid_media::{Fault, StoreKind};
use pellucid_serve::{Core, Operated, Options, Remote, RemoteConfig, Served, Server, Stopper, Time};
use pellucid_target::Drives;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::Operation;
use pellucid_wire::nbd::Command;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

const BLOCK: usize = 4096;

fn settings() -> HostFtlConfig {
    HostFtlConfig { over_provisioning: 0.5, ..HostFtlConfig::default() }
}

struct Running {
    nvme: SocketAddr,
    nbd: PathBuf,
    control: PathBuf,
    /// Targets kept for the next start.
    kept: Arc<Mutex<Targets>>,
    stopper: Stopper,
    thread: Option<JoinHandle<Vec<Device>>>,
}

fn core(device: Device, targets: &Targets, time: Time, kept: &Arc<Mutex<Targets>>) -> Core {
    let mut core = Core::new(vec![("chunks".into(), device)], time).expect("a drive that can be served");
    let keep = Arc::clone(kept);
    let keep = Box::new(move |targets: &Targets| {
        *keep.lock().expect("a registry") = targets.clone();
        Ok(())
    });
    core.keep_targets("chunks", settings(), targets, keep).expect("targets that start");
    core
}

fn serve(
    name: &str,
    targets: Targets,
    device: impl FnOnce() -> Device + Send + 'static,
    time: Time,
) -> Running {
    serve_core(name, targets, move |targets, kept| core(device(), &targets, time, kept))
}

fn serve_core(
    name: &str,
    targets: Targets,
    make: impl FnOnce(Targets, &Arc<Mutex<Targets>>) -> Core + Send + 'static,
) -> Running {
    let directory = scratch(name);
    let (nbd, control) = (directory.join("nbd"), directory.join("control"));
    let paths = (nbd.clone(), control.clone());
    let (tell, told) = mpsc::channel();
    let kept: Arc<Mutex<Targets>> = Arc::default();
    let registry = Arc::clone(&kept);
    let thread = std::thread::spawn(move || {
        let core = make(targets, &registry);
        let mut server = Server::new(core, Options::default(), Box::new(|_| {})).expect("an event queue");
        let nvme = listen(&mut server, paths, 0, BTreeMap::new());
        tell.send((nvme, server.stopper())).expect("somebody listens");
        server.run().expect("a good end").into_devices()
    });
    let (nvme, stopper) = told.recv().expect("the server starts");
    Running { nvme, nbd, control, kept, stopper, thread: Some(thread) }
}

impl Running {
    fn client(&self, export: &str) -> Client {
        let stream = UnixStream::connect(&self.nbd).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a socket option");
        Client::begin(Box::new(stream), export, true)
    }

    fn control(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&ask_control(&self.control, line)).expect("JSON")
    }

    fn create(&self, name: &str, kind: &str, first: u32, units: u32) -> serde_json::Value {
        self.control(&format!(
            r#"{{"do":"target-create","name":"{name}","kind":"{kind}","first_unit":{first},"units":{units}}}"#
        ))
    }

    fn remove(&self, name: &str) -> serde_json::Value {
        self.control(&format!(r#"{{"do":"target-remove","name":"{name}"}}"#))
    }

    /// Waits until no connection holds a target, as a server notices a closed connection only when it polls.
    fn wait_until_free(&self, name: &str) {
        eventually(&format!("{name} is free"), || {
            let answer = self.control(r#"{"do":"targets"}"#);
            let targets = answer["targets"].as_array().expect("a list");
            targets.iter().all(|t| t["name"] != name || t["connections"] == 0)
        });
    }

    /// Starts a host FTL of another server on the subsystem `subsystem`.
    fn application(&self, name: &str, subsystem: &str) -> Running {
        let remote = RemoteConfig {
            address: self.nvme.to_string(),
            nqn: Some(subsystem.into()),
            nsid: None,
            host_nqn: "nqn.2014-08.org.example:host".into(),
            digests: false,
            queues: 1,
            secrets: None,
        };
        serve_core(name, Targets::default(), move |_, _| {
            let remote = Remote::connect(remote).expect("a drive to stand on");
            let app = Served::on_remote(remote, &[LayerConfig::HostFtl(settings())]).expect("a start");
            Core::new(vec![("app".into(), app)], Time::Paced { dilation: 1.0 }).expect("served")
        })
    }

    fn stop(mut self) -> Vec<Device> {
        self.stopper.stop();
        self.thread.take().expect("stopped once").join().expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stopper.stop();
            let _ = thread.join();
        }
    }
}

fn block(at: u64, round: u64) -> Vec<u8> {
    pattern(at * 1000 + round, BLOCK)
}

/// Writes every block several times, so that GC runs.
fn fill(client: &mut Client, rounds: u64) {
    for round in 0..rounds {
        for at in 0..client.size_bytes / BLOCK as u64 {
            client.write(at * BLOCK as u64, &block(at, round));
        }
    }
    client.flush();
}

fn check(client: &mut Client, round: u64) {
    for at in 0..client.size_bytes / BLOCK as u64 {
        assert!(client.read(at * BLOCK as u64, BLOCK as u32) == block(at, round), "block {at} differs");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn targets_are_made_used_side_by_side_and_taken_away() {
    for (name, time) in [("instant", Time::Instant), ("paced", Time::Paced { dilation: 0.1 })] {
        let server = serve(&format!("targets-{name}"), Targets::default(), chunks, time);
        assert_eq!(server.create("main", "block", 0, 2)["ok"], true);
        assert_eq!(server.create("log", "raw", 2, 2)["ok"], true);
        let answer = server.control(r#"{"do":"targets"}"#);
        assert_eq!(answer["targets"][0]["namespace"], "chunks.main", "{answer}");
        assert_eq!(answer["targets"][1]["state"], "ready");
        let application = server.application(&format!("targets-app-{name}"), &format!("{NQN}.log"));
        let (mut main, mut log) = (server.client("chunks.main"), application.client(""));
        assert!(main.size_bytes > 1 << 20 && log.size_bytes > 1 << 20);
        for part in 0..2 {
            fill(&mut main, 2 + part);
            fill(&mut log, 2 + part);
            check(&mut main, 1 + part);
            check(&mut log, 1 + part);
        }
        for (target, who) in [("main", "1 connections"), ("log", "2 connections")] {
            let refused = server.remove(target)["error"].as_str().expect("refused").to_owned();
            assert!(refused.contains(who) && refused.contains("disconnect"), "{refused}");
        }
        main.leave();
        log.leave();
        application.stop();
        for target in ["main", "log"] {
            server.wait_until_free(target);
            assert_eq!(server.remove(target)["ok"], true);
        }
        assert!(server.kept.lock().expect("a registry").list().is_empty());
        // An equal target finds its data again; a different one on its units does not.
        assert_eq!(server.create("main", "block", 0, 2)["ok"], true);
        let mut main = server.client("chunks.main");
        check(&mut main, 2);
        main.leave();
        server.wait_until_free("main");
        assert_eq!(server.remove("main")["ok"], true);
        assert_eq!(server.create("other", "block", 0, 2)["ok"], true);
        let mut other = server.client("chunks.other");
        assert_eq!(other.read(0, BLOCK as u32), vec![0; BLOCK]);
        other.leave();
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_a_sentence() {
    let server = serve("targets-refused", Targets::default(), chunks, Time::Instant);
    assert_eq!(server.create("main", "block", 0, 2)["ok"], true);
    for (name, kind, first, units, sentence) in [
        (
            "b",
            "raw",
            1,
            2,
            "units 1-2: overlap those of target main, which has 0-1; allowed: parallel units of no other target",
        ),
        ("b", "block", 3, 2, "units 3-4: not in the drive; allowed: a range within 0-3"),
        ("b", "tape", 2, 1, "kind: \"tape\"; allowed: block, raw"),
        ("main", "raw", 2, 1, "main: the name chunks.main is taken; allowed: another name"),
        ("a b", "raw", 2, 1, "target name \"a b\": allowed: letters, digits, '-', '_' and '.', at least one"),
    ] {
        assert_eq!(server.create(name, kind, first, units)["error"], sentence);
    }
    // "chunks." and the prefix of the NQN take 32 of 223 bytes.
    let long = "x".repeat(192);
    let refused = server.create(&long, "raw", 2, 1)["error"].as_str().expect("refused").to_owned();
    assert!(refused.starts_with("target name: 192 bytes; allowed: at most 191, as its NQN"), "{refused}");
    assert_eq!(server.create(&long[1..], "raw", 2, 1)["ok"], true);
    assert_eq!(server.remove(&long[1..])["ok"], true);
    for (line, sentence) in [
        (r#"{"do":"status","drive":"a"}"#, "drive: unknown to status; allowed: nothing beside do"),
        (
            r#"{"do":"faults","program-fail":1}"#,
            "program-fail: unknown to faults; allowed: drive, program_fail, erase_fail, read_fail",
        ),
        (r#"{"do":"power-cut","drvie":"b"}"#, "drvie: unknown to power-cut; allowed: drive"),
    ] {
        assert_eq!(server.control(line)["error"], sentence);
    }
    assert_eq!(server.remove("c")["error"], "c: no such target; allowed: main");
    let line = r#"{"do":"target-create","drive":"x","name":"y","kind":"raw","first_unit":2,"units":1}"#;
    let unknown = server.control(line);
    assert_eq!(unknown["error"], "drive: \"x\"; allowed: chunks, chunks.main");
    // None of this has changed anything.
    let answer = server.control(r#"{"do":"targets"}"#);
    assert_eq!(answer["targets"].as_array().expect("a list").len(), 1);
    assert_eq!(server.kept.lock().expect("a registry").list().len(), 1);

    let blocks =
        common::serve("targets-none", vec![("plain".into(), common::drive(StoreKind::Ram))], Time::Instant);
    let answer = blocks.control(r#"{"do":"target-create","name":"a","kind":"raw","first_unit":0,"units":1}"#);
    assert!(answer.contains("plain: no open-channel namespace"), "{answer}");
}

#[test]
fn discovery_tells_of_targets_as_they_come_and_go() {
    let server = serve("targets-discovery", Targets::default(), chunks, Time::Instant);
    let offered = || {
        let remote = RemoteConfig {
            address: server.nvme.to_string(),
            nqn: None,
            nsid: None,
            host_nqn: "nqn.2014-08.org.example:host".into(),
            digests: false,
            queues: 1,
            secrets: None,
        };
        Remote::connect(remote).map_or_else(|error| error.to_string(), |remote| remote.nqn().to_owned())
    };
    assert_eq!(offered(), NQN);
    assert_eq!(server.create("log", "raw", 1, 3)["ok"], true);
    assert!(
        offered()
            .ends_with(&format!("several subsystems; allowed: HOST:PORT/NQN with one of {NQN}, {NQN}.log"))
    );
    // The host that queried counts as connected until the server has seen the end of its connections.
    server.wait_until_free("log");
    assert_eq!(server.remove("log")["ok"], true);
    assert_eq!(offered(), NQN);
}

#[test]
fn flushed_data_of_targets_survive_power_cuts_and_a_restart() {
    let server = serve("targets-power", Targets::default(), chunks, Time::Instant);
    assert_eq!(server.create("main", "block", 1, 3)["ok"], true);
    let mut main = server.client("chunks.main");
    for round in 1..4 {
        fill(&mut main, round);
        assert_eq!(server.control(r#"{"do":"power-cut"}"#)["ok"], true);
        check(&mut main, round - 1);
    }
    let hole = main.size_bytes / 2 / BLOCK as u64 * BLOCK as u64;
    assert_eq!(main.ask(Command::Trim, 0, 0, hole as u32, &[]).error, 0);
    main.flush();
    let extents = main.ask(Command::BlockStatus, 0, 0, main.size_bytes as u32, &[]).extents;
    let holes: Vec<(u32, u32)> = extents.iter().map(|e| (e.length_bytes, e.flags)).collect();
    // After the last whole block, a few sectors may never have been written.
    let whole = main.size_bytes / BLOCK as u64 * BLOCK as u64;
    assert_eq!(holes[..2], [(hole as u32, 3), ((whole - hole) as u32, 0)]);
    main.leave();
    let kept = server.kept.lock().expect("a registry").clone();
    let device = server.stop().pop().expect("one drive");
    // Like any layer it was stopped in order, so its next start replays nothing.
    let target = Range::new("main".into(), TargetKind::Block, 1..4);
    let config = target.host_ftl(&settings()).expect("a block target");
    let layer = HostFtl::new(&config, Drive::interface(&device, 0), device.image_bytes()).expect("room");
    let (now, twin) = (device.now(), device.clone());
    let started = Stack::start(layer, twin, now).expect("a start").layer.mount_cost().report;
    assert!(started.map_page_reads > 0 && started.replay_reads == 0, "{started:?}");
    let server = serve("targets-restart", kept, move || device, Time::Instant);
    let mut main = server.client("chunks.main");
    assert_eq!(main.read(0, BLOCK as u32), vec![0; BLOCK]);
    for at in hole / BLOCK as u64..main.size_bytes / BLOCK as u64 {
        assert!(main.read(at * BLOCK as u64, BLOCK as u32) == block(at, 2), "block {at} differs");
    }
    main.leave();
}

/// The drive's own namespace can only report the chunks on units of a target.
#[test]
fn the_drives_own_namespace_reaches_no_unit_of_a_target() {
    let mut targets = Targets::default();
    let device = chunks();
    let Some(Interface::OpenChannel(geometry)) = Drive::interface(&device, 0) else { panic!("chunks") };
    let range = Range::new("log".into(), TargetKind::Raw, 1..3);
    targets.create(&geometry, range).expect("room");
    let mut core = core(device, &targets, Time::Instant, &Arc::default());
    let mut ask = |namespace: usize, opcode, unit: u32, sectors: u32| {
        let address = ChunkAddress { group: unit / 2, unit: unit % 2, chunk: 1, sector: 0 };
        let lba = if namespace == 0 { geometry.lba(address) } else { Lba(0) };
        let bytes = if opcode == Opcode::Write { sectors as usize * 512 } else { 0 };
        let route = Route { connection: ConnectionId::new(1), token: 7 };
        core.submit(namespace, route, Operation::new(opcode, lba, sectors, vec![1; bytes]));
        while core.outstanding() > 0 {
            core.run();
            if let Some(done) = core.pop() {
                return done.answer.status;
            }
        }
        panic!("no completion")
    };
    for (unit, status) in
        [(0, Status::Success), (1, Status::LbaOutOfRange), (2, Status::LbaOutOfRange), (3, Status::Success)]
    {
        assert_eq!(ask(0, Opcode::Write, unit, 8), status, "write to unit {unit}");
        assert_eq!(ask(0, Opcode::Read, unit, 8), status, "read of unit {unit}");
        assert_eq!(ask(0, Opcode::Chunk(ChunkOp::Reset), unit, 0), status, "reset in unit {unit}");
        assert_eq!(ask(0, Opcode::Report, unit, 4), Status::Success, "report of unit {unit}");
    }
    // The target's first chunk is chunk 0 of the drive's unit 1; commands of others have not touched it.
    assert_eq!(ask(1, Opcode::Write, 0, 8), Status::Success);
}

/// Commands in flight end even if damage on command is the last event.
#[test]
fn damage_on_command_leaves_nobody_waiting() {
    // Simulated time is so fast that all has happened by the time of the damage.
    let time = Time::Paced { dilation: 1e-6 };
    let mut targets = Targets::default();
    let Some(Interface::OpenChannel(geometry)) = Drive::interface(&chunks(), 0) else { panic!("chunks") };
    targets.create(&geometry, Range::new("main".into(), TargetKind::Block, 0..2)).expect("room");
    let layered = || Served::with_layers(chunks(), &[LayerConfig::HostFtl(settings())]).expect("a start");
    for (mut core, namespace) in [
        (core(chunks(), &targets, time, &Arc::default()), 1),
        (Core::new(vec![("app".into(), layered())], time).expect("served"), 0),
    ] {
        for round in 0..20 {
            let route = Route { connection: ConnectionId::new(1), token: round };
            let write = Operation::new(Opcode::Write, Lba(round), 1, vec![1; 512]);
            core.submit(namespace, route, Operation { fua: true, ..write });
            core.inject(namespace, Fault::SlowDie { die: DieId(0), factor: 2.0 }).expect("such a die");
            let began = std::time::Instant::now();
            while core.outstanding() > 0 {
                assert!(began.elapsed() < Duration::from_secs(600), "round {round}");
                core.run();
                while core.pop().is_some() {}
            }
        }
    }
}

/// A target that can no longer write is read-only, whatever the state of its drive.
#[test]
fn a_target_without_good_chunks_says_that_it_is_read_only() {
    let server = serve("targets-read-only", Targets::default(), chunks, Time::Instant);
    assert_eq!(server.create("main", "block", 0, 2)["ok"], true);
    let read_only = |name: &str| {
        let status = server.control(r#"{"do":"status"}"#);
        let drives = status["drives"].as_array().expect("a list");
        drives.iter().find(|drive| drive["name"] == name).expect("served")["read_only"].clone()
    };
    assert_eq!(read_only("chunks.main"), false);
    let damage = r#"{"do":"damage","drive":"chunks","what":"fail-programs","count":1000000}"#;
    assert_eq!(server.control(damage)["ok"], true);
    let mut main = server.client("chunks.main");
    let failed = (0..100)
        .any(|at| main.ask(Command::Write, 1, at * BLOCK as u64, BLOCK as u32, &block(at, 0)).error != 0);
    assert!(failed, "no program succeeds");
    assert_eq!((read_only("chunks.main"), read_only("chunks")), (true.into(), false.into()));
    main.leave();
}

/// A host FTL on zones whose records are unreadable after a power cut does not start. Commands in flight and
/// later ones still end with an error.
#[test]
fn a_power_cut_that_is_the_end_of_a_host_ftl_leaves_nobody_waiting() {
    let mut config = common::chunk_config();
    config.namespaces = vec![Namespace::Zoned { zones: zones(0..config.media.geometry.blocks) }];
    let layered = || {
        let device = Device::new(&config).expect("a good configuration");
        let zones = ZoneChunksConfig { width: 2, ..ZoneChunksConfig::default() };
        let settings = HostFtlConfig { finish_chunks: true, over_provisioning: 1.0, ..settings() };
        let layers = [LayerConfig::ZoneChunks(zones), LayerConfig::HostFtl(settings)];
        Served::with_layers(device, &layers).expect("a start")
    };
    let mut ends = 0;
    for die in (0..4).map(DieId) {
        let mut core = Core::new(vec![("app".into(), layered())], Time::Instant).expect("served");
        let submit = |core: &mut Core, token| {
            let route = Route { connection: ConnectionId::new(1), token };
            let opcode = if token % 2 == 0 { Opcode::Write } else { Opcode::Read };
            core.submit(0, route, Operation::new(opcode, Lba(8 * token), 8, vec![1; 8 * 512]));
        };
        let statuses = |core: &mut Core| {
            let mut all = Vec::new();
            while core.outstanding() > 0 {
                core.run();
                all.extend(std::iter::from_fn(|| core.pop()).map(|done| done.answer.status));
            }
            all
        };
        (0..60).for_each(|token| submit(&mut core, token));
        assert_eq!(statuses(&mut core), [Status::Success; 60]);
        (60..68).for_each(|token| submit(&mut core, token));
        core.inject(0, Fault::KillDie { die }).expect("such a die");
        if core.power_cut(0).is_err() {
            ends += 1;
            // Some had ended before.
            let ended = statuses(&mut core);
            assert!(ended.len() == 8 && ended.contains(&Status::PowerLoss), "{ended:?}");
            (0..4).for_each(|token| submit(&mut core, token));
            assert_eq!(statuses(&mut core), [Status::ReadOnly; 4]);
        }
    }
    assert!(ends > 0, "all could be read");
}
