//! A host FTL on an open-channel drive of another server: data, lost connections, lost power, refusals.

mod cache;
mod lost;

use crate::common::{
    self, Client, NQN, ask_control, chunk_namespace, chunks, config, listen, pattern, scratch, zones,
};
use base64::Engine;
use pellucid_device::{Device, Namespace};
use pellucid_flash::{Drive, Interface};
use pellucid_ftl::Management;
use pellucid_host::{HostFtlConfig, LayerConfig, ZoneChunksConfig};
use pellucid_media::StoreKind;
use pellucid_serve::{Core, Options, Remote, RemoteConfig, Served, Server, Stopper, Time};
use pellucid_target::nvme::{DhGroup, HostSecrets};
use pellucid_wire::nbd::Command;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// A server in its own thread.
struct Running {
    nvme: SocketAddr,
    nbd: PathBuf,
    control: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

fn serve(name: &str, port: u16, time: Time, make: impl FnOnce() -> Served + Send + 'static) -> Running {
    serve_for(name, port, time, BTreeMap::new(), make)
}

/// Starts a server for hosts that must authenticate.
fn serve_for(
    name: &str,
    port: u16,
    time: Time,
    secrets: BTreeMap<String, HostSecrets>,
    make: impl FnOnce() -> Served + Send + 'static,
) -> Running {
    let directory = scratch(name);
    let (nbd, control) = (directory.join("nbd"), directory.join("control"));
    let paths = (nbd.clone(), control.clone());
    let (tell, told) = mpsc::channel();
    let log = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&log);
    let thread = std::thread::spawn(move || {
        let core = Core::new(vec![("chunks".into(), make())], time).expect("a drive that can be served");
        let keep =
            move |event: &pellucid_serve::event::Event| lines.lock().expect("a log").push(event.to_string());
        let mut server = Server::new(core, Options::default(), Box::new(keep)).expect("an event queue");
        let nvme = listen(&mut server, paths, port, secrets);
        tell.send((nvme, server.stopper())).expect("somebody listens");
        server.run().map(drop).expect("a good end");
    });
    let (nvme, stopper) = told.recv().expect("the server starts");
    Running { nvme, nbd, control, log, stopper, thread: Some(thread) }
}

fn remote_config(address: SocketAddr) -> RemoteConfig {
    RemoteConfig {
        address: address.to_string(),
        nqn: None,
        nsid: None,
        host_nqn: "nqn.2014-08.org.example:host".into(),
        digests: false,
        queues: 1,
        secrets: None,
    }
}

/// Starts a second server: a host FTL on the drive at `address`.
fn host(name: &str, address: SocketAddr, digests: bool) -> Running {
    host_as(name, RemoteConfig { digests, ..remote_config(address) })
}

fn host_as(name: &str, config: RemoteConfig) -> Running {
    serve(name, 0, Time::Paced { dilation: 1.0 }, move || {
        let remote = Remote::connect(config).expect("a drive to stand on");
        let settings = HostFtlConfig { over_provisioning: 0.5, ..HostFtlConfig::default() };
        Served::on_remote(remote, &[LayerConfig::HostFtl(settings)]).expect("a start")
    })
}

/// Starts a second server on the zones of a drive.
fn host_on_zones(name: &str, address: SocketAddr) -> Running {
    serve(name, 0, Time::Paced { dilation: 1.0 }, move || {
        let remote = Remote::connect(remote_config(address)).expect("a drive to stand on");
        assert!(matches!(Drive::interface(&remote, 0), Some(Interface::Zoned(_))));
        let chunks = ZoneChunksConfig { width: 2, ..ZoneChunksConfig::default() };
        let ftl = HostFtlConfig { over_provisioning: 1.0, finish_chunks: true, ..HostFtlConfig::default() };
        let layers = [LayerConfig::ZoneChunks(chunks), LayerConfig::HostFtl(ftl)];
        Served::on_remote(remote, &layers).expect("a start")
    })
}

/// Creates a zoned drive in memory.
fn zoned() -> Device {
    let mut config = config(StoreKind::Ram);
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    config.namespaces = vec![Namespace::Zoned { zones: zones(0..config.media.geometry.blocks) }];
    Device::new(&config).expect("a good configuration")
}

impl Running {
    fn client(&self) -> Client {
        let stream = UnixStream::connect(&self.nbd).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a socket option");
        Client::begin(Box::new(stream), "", true)
    }

    fn control(&self, line: &str) -> String {
        ask_control(&self.control, line)
    }

    /// Figures as monitors show them.
    fn figures(&self) -> serde_json::Value {
        serde_json::from_str(&self.control(r#"{"do":"watch"}"#)).expect("JSON")
    }

    fn logged(&self, what: &str) -> usize {
        self.log.lock().expect("a log").iter().filter(|line| line.contains(what)).count()
    }

    /// Waits until the log has `count` lines with `what`.
    fn wait_for(&self, what: &str, count: usize) {
        let end = Instant::now() + Duration::from_secs(600);
        while self.logged(what) < count {
            assert!(Instant::now() < end, "no {what} in {:?}", self.log.lock().expect("a log"));
            std::thread::yield_now();
        }
    }

    fn stop(mut self) {
        self.stopper.stop();
        self.thread.take().expect("stopped once").join().expect("the server does not panic");
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

/// Expected content of a drive: blocks with their seeds.
#[derive(Default)]
struct Model(BTreeMap<u64, u64>);

impl Model {
    fn write(&mut self, client: &mut Client, rng: &mut pellucid_flash::Rng) {
        let blocks = client.size_bytes / BLOCK as u64;
        let (at, seed) = (rng.below(blocks), rng.next_u64());
        client.write(at * BLOCK as u64, &pattern(seed, BLOCK));
        self.0.insert(at, seed);
    }

    fn check(&self, client: &mut Client) {
        for (&at, &seed) in &self.0 {
            assert!(
                client.read(at * BLOCK as u64, BLOCK as u32) == pattern(seed, BLOCK),
                "block {at} differs"
            );
        }
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn data_go_through_two_servers_and_are_found_by_a_third() {
    let drive = serve("remote-data", 0, Time::Instant, || chunks().into());
    let mut model = Model::default();
    let mut rng = pellucid_flash::Rng::new(1);
    for digests in [false, true] {
        let host = host("remote-data-host", drive.nvme, digests);
        let mut client = host.client();
        model.check(&mut client);
        // Several times the capacity, so that GC runs.
        let writes = 3 * client.size_bytes / BLOCK as u64;
        for _ in 0..writes {
            model.write(&mut client, &mut rng);
        }
        client.ask(Command::Trim, 0, 0, BLOCK as u32, &[]);
        model.0.remove(&0);
        assert_eq!(client.read(0, BLOCK as u32), vec![0; BLOCK]);
        client.flush();
        model.check(&mut client);
        let layer = &host.figures()["serving"]["layers"][0];
        assert_eq!(layer["remote"], "connected");
        assert_eq!(layer["written_bytes"], writes * BLOCK as u64, "{layer}");
        let moved: u64 =
            layer["programmed_bytes"].as_object().expect("causes").values().filter_map(|n| n.as_u64()).sum();
        assert!(moved >= writes * BLOCK as u64, "what was written is on the drive: {layer}");
        client.leave();
        host.stop();
    }
    assert!(drive.logged("broke the protocol") == 0);
}

#[test]
fn a_drive_that_has_forgotten_is_not_trusted() {
    let drive = serve("remote-forgets", 0, Time::Instant, || chunks().into());
    let address = drive.nvme;
    let host = host("remote-forgets-host", address, false);
    let mut client = host.client();
    let block = |at: u64| pattern(at + 1, BLOCK);
    // More than the write buffer of the host holds.
    (0..64).for_each(|at| client.write(at * BLOCK as u64, &block(at)));
    client.flush();
    drive.stop();
    // A drive of this name at this address, but empty.
    let _empty = serve("remote-forgets", address.port(), Time::Instant, || chunks().into());
    let mut refused = 0;
    for at in 0..64 {
        let reply = client.ask(Command::Read, 0, at * BLOCK as u64, BLOCK as u32, &[]);
        refused += u32::from(reply.error != 0);
        assert!(reply.error != 0 || reply.data == block(at), "block {at} is something else");
    }
    assert!(refused > 0, "everything was still in the host's buffer");
    assert_ne!(
        client.ask(Command::Write, 1, 0, BLOCK as u32, &block(0)).error,
        0,
        "a forced write went nowhere"
    );
    host.wait_for("lost data that it had acknowledged", 1);
    assert!(host.control(r#"{"do":"status"}"#).contains("\"remote\":\"lost\""));
    assert!(host.control(r#"{"do":"power-cut"}"#).contains("the drive is remote"));
}

#[test]
fn what_cannot_be_used_is_refused_with_a_reason() {
    let refused = |config: RemoteConfig| Remote::connect(config).err().expect("no such drive").to_string();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let why = refused(remote_config(nobody));
    assert!(why.contains(&nobody.to_string()) && why.contains("cannot connect"), "{why}");
    let blocks = serve("remote-blocks", 0, Time::Instant, || common::drive(StoreKind::Ram).into());
    let why = refused(remote_config(blocks.nvme));
    assert!(why.contains("has no open-channel namespace"), "{why}");
    let why = refused(RemoteConfig { nqn: Some(format!("{NQN}-2")), ..remote_config(blocks.nvme) });
    assert!(why.contains("there is no subsystem"), "{why}");
    let why = refused(RemoteConfig { nsid: Some(1), ..remote_config(blocks.nvme) });
    assert!(why.contains("namespace 1") && why.contains("not an open-channel one"), "{why}");
}

#[test]
fn a_local_drive_is_served_under_its_layer_and_comes_back_after_a_power_cut() {
    let served = serve("remote-local", 0, Time::Instant, || {
        let device = chunks();
        let settings = HostFtlConfig { over_provisioning: 0.5, ..HostFtlConfig::default() };
        Served::with_layers(device, &[LayerConfig::HostFtl(settings)]).expect("a start")
    });
    let mut client = served.client();
    let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(4));
    for _ in 0..3 {
        for _ in 0..400 {
            model.write(&mut client, &mut rng);
        }
        client.flush();
        let answer = served.control(r#"{"do":"power-cut"}"#);
        assert!(answer.contains("\"ok\":true"), "{answer}");
        model.check(&mut client);
    }
    client.leave();
    served.stop();
}

/// Builds a host FTL on chunks or zones of a drive in a file.
fn layered_in_file(file: PathBuf, zoned: bool) -> Served {
    let mut config = config(StoreKind::File(file));
    config.media.metadata_bytes = 16;
    config.media.geometry.spare_bytes = 256;
    let all = 0..config.media.geometry.blocks;
    let settings = HostFtlConfig { over_provisioning: 1.0, finish_chunks: zoned, ..HostFtlConfig::default() };
    if !zoned {
        config.namespaces = vec![chunk_namespace(all, Management::Host)];
        let device = Device::new(&config).expect("a good configuration");
        return Served::with_layers(device, &[LayerConfig::HostFtl(settings)]).expect("a start");
    }
    config.namespaces = vec![Namespace::Zoned { zones: zones(all) }];
    let device = Device::new(&config).expect("a good configuration");
    let chunks = ZoneChunksConfig { width: 2, ..ZoneChunksConfig::default() };
    let layers = [LayerConfig::ZoneChunks(chunks), LayerConfig::HostFtl(settings)];
    Served::with_layers(device, &layers).expect("a start")
}

/// Reads from the log how many translation pages the start found and how many sectors it replayed.
fn mounted(running: &Running) -> [u64; 2] {
    running.wait_for("event=mounted", 1);
    let log = running.log.lock().expect("a log");
    let line = log.iter().find(|line| line.contains("event=mounted")).expect("just seen");
    ["translation_pages=", "replayed="].map(|key| {
        let word = line.split(' ').find_map(|word| word.strip_prefix(key));
        word.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {key} in {line:?}"))
    })
}

#[test]
fn a_served_layer_stops_so_that_its_next_start_replays_nothing_and_survives_a_kill() {
    for (name, zoned) in [("layered-chunks", false), ("layered-zones", true)] {
        let directory = scratch(name);
        let (file, killed) = (directory.join("image"), directory.join("killed"));
        let _ = std::fs::remove_file(&file);
        let served = |file: &PathBuf| {
            let file = file.clone();
            serve(name, 0, Time::Instant, move || layered_in_file(file, zoned))
        };
        let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(5));
        let first = served(&file);
        let mut client = first.client();
        for _ in 0..2 * client.size_bytes / BLOCK as u64 {
            model.write(&mut client, &mut rng);
        }
        client.leave();
        first.stop();

        let second = served(&file);
        let [pages, replayed] = mounted(&second);
        assert!(pages > 0 && replayed == 0, "{name}: {pages} translation pages, {replayed} replayed");
        let mut client = second.client();
        model.check(&mut client);
        for _ in 0..200 {
            model.write(&mut client, &mut rng);
        }
        client.flush();
        // Image as left by a process that is killed here.
        std::fs::copy(&file, &killed).expect("a copy");
        Model::default().write(&mut client, &mut rng);
        client.leave();
        second.stop();

        let third = served(&killed);
        let [_, replayed] = mounted(&third);
        assert!(replayed > 0, "{name}: nothing was replayed after a kill");
        let mut client = third.client();
        model.check(&mut client);
        client.leave();
        third.stop();
    }
}

#[test]
fn a_layer_on_a_remote_drive_stops_with_data_that_nobody_flushed() {
    let drive = serve("remote-stop", 0, Time::Instant, || chunks().into());
    let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(6));
    for round in 0..2 {
        let host = host("remote-stop-host", drive.nvme, false);
        let [pages, replayed] = mounted(&host);
        assert!(round == 0 || (pages > 0 && replayed == 0), "{pages} translation pages, {replayed} replayed");
        let mut client = host.client();
        model.check(&mut client);
        for _ in 0..300 {
            model.write(&mut client, &mut rng);
        }
        client.leave();
        host.stop();
    }
}

/// Starts a target that answers a host's first bytes (ICReq) and the next (Connect), and then only listens.
fn impostor(answers: [Vec<u8>; 2]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut host in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            for answer in &answers {
                let _ = host.read(&mut bytes);
                let _ = host.write_all(answer);
            }
            let _ = host.shutdown(Shutdown::Write);
            while host.read(&mut bytes).is_ok_and(|count| count > 0) {}
        }
    });
    address
}

#[test]
fn no_answer_of_a_target_is_believed_or_makes_the_host_panic() {
    use pellucid_wire::nvme::Completion;
    use pellucid_wire::tcp::{
        DataHeader, Encoder, HEADER_BYTES_MAX, IcResp, ReadyToTransfer, Terms, encode_ic_resp,
    };
    let good = IcResp { alignment: 0, header_digest: false, data_digest: false, h2c_data_max: 4096 };
    let encoder = Encoder::controller(&Terms::default());
    let pdu = |write: &dyn Fn(&mut [u8]) -> usize| {
        let mut out = [0; HEADER_BYTES_MAX];
        let length = write(&mut out);
        out[..length].to_vec()
    };
    let r2t =
        |offset_bytes, length_bytes| ReadyToTransfer { cid: 0, transfer_tag: 0, offset_bytes, length_bytes };
    let cases = [
        (Vec::new(), "closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "does not speak NVMe/TCP"),
        (
            pdu(&|out| encoder.response(&Completion { cid: 77, ..Completion::default() }, out)),
            "not under way",
        ),
        (
            pdu(&|out| encoder.c2h_data(&DataHeader { length_bytes: 64, ..DataHeader::default() }, out)),
            "nobody asked",
        ),
        (pdu(&|out| encoder.r2t(&r2t(0, u32::MAX), out)), "not there to be sent"),
        // More than once, each within bounds.
        (
            [pdu(&|out| encoder.r2t(&r2t(0, 1024), out)), pdu(&|out| encoder.r2t(&r2t(0, 1024), out))]
                .concat(),
            "sent",
        ),
    ];
    let mut rng = pellucid_flash::Rng::new(9);
    for (answer, named) in cases {
        let set_up = encode_ic_resp(&good).to_vec();
        let answers = if named.contains("speak") { [answer, Vec::new()] } else { [set_up, answer] };
        let why = Remote::connect(remote_config(impostor(answers))).err().expect("no drive").to_string();
        assert!(why.contains(named), "{named}: {why}");
    }
    for _ in 0..50 {
        let noise = pattern(rng.next_u64(), 8 * (1 + rng.below(20) as usize));
        let answers = [encode_ic_resp(&good).to_vec(), noise];
        assert!(Remote::connect(remote_config(impostor(answers))).is_err());
    }
}

/// Keys of 32 bytes in text form, without transformation.
fn secrets(host: u8, controller: Option<u8>) -> HostSecrets {
    let printed = |key: u8| {
        let key = [key; 32];
        let bytes = [&key[..], &crc32fast::hash(&key).to_le_bytes()].concat();
        format!("DHHC-1:00:{}:\n", base64::prelude::BASE64_STANDARD.encode(bytes))
    };
    let text = printed(host) + &controller.map(printed).unwrap_or_default();
    HostSecrets::parse(&text).expect("secrets")
}

/// Every group, with several queues that authenticate separately.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_host_with_the_right_secret_works_on_several_queues() {
    let groups = [(DhGroup::Null, 1), (DhGroup::Ffdhe2048, 3), (DhGroup::Ffdhe8192, 2)];
    for (group, queues) in groups {
        let known = secrets(1, Some(2)).with_group_min(group);
        let of_host = BTreeMap::from([("nqn.2014-08.org.example:host".to_owned(), known)]);
        let name = format!("remote-secret-{group:?}");
        let drive = serve_for(&name, 0, Time::Instant, of_host, || chunks().into());
        let config = RemoteConfig { queues, secrets: Some(secrets(1, Some(2))), ..remote_config(drive.nvme) };
        let host = host_as(&format!("{name}-host"), config);
        assert_eq!(
            drive.logged("protocol=nvme-tcp peer"),
            usize::from(2 + queues),
            "discovery, admin, I/O queues"
        );
        let mut client = host.client();
        let (mut model, mut rng) = (Model::default(), pellucid_flash::Rng::new(5));
        // Many at once, so that all queues have work.
        let blocks = client.size_bytes / BLOCK as u64;
        for round in 0..blocks {
            model.write(&mut client, &mut rng);
            if round % 64 == 0 {
                client.flush();
            }
        }
        model.check(&mut client);
        client.leave();
        host.stop();
        assert_eq!(drive.logged("broke the protocol") + drive.logged("authentication of"), 0);
    }
}

#[test]
fn hosts_with_wrong_secrets_are_refused_with_the_reason() {
    let nqn = "nqn.2014-08.org.example:host";
    let known = secrets(1, Some(2)).with_group_min(DhGroup::Ffdhe2048);
    let of_host = BTreeMap::from([(nqn.to_owned(), known)]);
    let drive = serve_for("remote-refused-secret", 0, Time::Instant, of_host, || chunks().into());
    let refused = |secrets: Option<HostSecrets>| {
        let config = RemoteConfig { secrets, ..remote_config(drive.nvme) };
        Remote::connect(config).map(drop).expect_err("no way in").to_string()
    };
    let missing = refused(None);
    assert!(missing.contains("asks this host to authenticate") && missing.contains("no secret"), "{missing}");
    let wrong = refused(Some(secrets(3, None)));
    assert!(wrong.contains("it has another secret for it"), "{wrong}");
    drive.wait_for("wrong response: the host has another secret", 1);
    let impostor = refused(Some(secrets(1, Some(4))));
    assert!(impostor.contains("the controller does not know the secret"), "{impostor}");
    drive.wait_for("the host refuses the controller", 1);
    assert!(
        Remote::connect(RemoteConfig { secrets: Some(secrets(1, None)), ..remote_config(drive.nvme) })
            .is_ok()
    );

    // A drive that requires no authentication proves nothing.
    let open = serve("remote-open", 0, Time::Instant, || chunks().into());
    let config = RemoteConfig { secrets: Some(secrets(1, Some(2))), ..remote_config(open.nvme) };
    let why = Remote::connect(config).map(drop).expect_err("no proof").to_string();
    assert!(why.contains("would not prove who it is"), "{why}");
    let config = RemoteConfig { secrets: Some(secrets(1, None)), ..remote_config(open.nvme) };
    assert!(Remote::connect(config).is_ok(), "a host that need not authenticate");
}
