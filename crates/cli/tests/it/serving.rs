//! A server, as the system around it sees it.

use crate::common::{Folder, Serving, TINY, eventually, listens};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A server without free file descriptors cannot accept a client, and the system does not say when it can again: the server tries again and
/// again, and logs it once.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_server_without_descriptors_says_so_once() {
    let folder = Folder::with_drive();
    let script = "ulimit -n 24; exec \"$0\" serve tiny.toml --set media.store=ram --nbd unix:nbd";
    let _server = Serving::new(&folder, script);
    let count = |event: &str| std::fs::read_to_string(folder.path("log")).unwrap().matches(event).count();
    listens(&folder, "nbd");
    let mut clients = Vec::new();
    eventually("descriptors run out", || {
        clients.push(UnixStream::connect(folder.path("nbd")).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        count("event=accept-failed") > 0
    });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((count("event=accept-failed"), count("event=accepting-again")), (1, 0));
    drop(clients);
    eventually("somebody is accepted", || count("event=accepting-again protocol=nbd") > 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((count("event=accept-failed protocol=nbd"), count("event=accepting-again")), (1, 1));
}

/// A preset that forgets keeps what is flushed as soon as it is served; the drive that was asked to forget says in its log that it does.
#[test]
fn a_served_drive_that_promises_nothing_says_so() {
    for (more, expected) in [("", 0), ("--set ftl.durability=volatile", 1)] {
        let folder = Folder::new();
        let script = format!(
            "exec \"$0\" serve cosmos-plus --set media.store=file:kept.img --set media.space=sparse --set media.blocks=32 \
             --set ftl.over_provisioning=0.4 --nbd unix:nbd --control control {more}"
        );
        let _server = Serving::new(&folder, &script);
        listens(&folder, "control");
        let count = |event: &str| std::fs::read_to_string(folder.path("log")).unwrap().matches(event).count();
        // Findings at the start are logged with the first event.
        let _client = UnixStream::connect(folder.path("nbd")).unwrap();
        eventually("the client is logged", || count("event=connected") > 0);
        assert_eq!(count("event=promises-nothing"), expected, "{more}");
    }
}

/// Addresses that others reach are refused for every protocol alike, before anything is opened, unless peers prove who they are or `--open`
/// admits all of them.
#[test]
fn addresses_that_others_reach_want_proof_or_open() {
    let folder = Folder::with_drive();
    for (options, protocol) in [
        (&["--nbd", "0.0.0.0:0"][..], "nbd"),
        (&["--nbd", "[::]:0"], "nbd"),
        (&["--nvme-tcp", "0.0.0.0:0"], "nvme-tcp"),
        (&["--nbd", "unix:nbd", "--monitor", "0.0.0.0:0"], "monitor"),
        (&["--nbd", "unix:nbd", "--nvme-tcp", "0.0.0.0:0", "--host-nqn", "nqn.h"], "nvme-tcp"),
    ] {
        let words = [&["serve", "tiny.toml", "--set", "media.store=file:mine.drive"], options].concat();
        let done = folder.run(&words);
        assert_eq!(done.status, 2, "{options:?}: {}", done.stderr);
        let sentence = done.stderr.trim_end();
        assert!(sentence.contains(&format!("{protocol} ")) && sentence.contains("--open"), "{sentence}");
        assert!(sentence.contains("other machines can reach this address"), "{sentence}");
        assert!(!folder.path("mine.drive").exists(), "nothing is opened");
    }
    let done = folder.run(&["run", "tiny.toml", "--open"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    let script = "exec \"$0\" serve tiny.toml --set media.store=ram --nbd 0.0.0.0:0 --nvme-tcp 0.0.0.0:0 --monitor 0.0.0.0:0 --open";
    let _server = Serving::new(&folder, script);
    let log = || std::fs::read_to_string(folder.path("log")).unwrap();
    eventually("everything listens", || log().matches("event=listening").count() == 3);
}

#[test]
fn a_drive_that_nbd_cannot_show_is_not_served_by_it() {
    let folder = Folder::with_drive();
    let serve = ["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:nbd"];
    let open_channel = "drive.namespace=[{ interface = \"open-channel\" }]";
    let done = folder.run(&[&serve[..], &["--set", open_channel]].concat());
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    let sentence = "error: --nbd: tiny has no block namespace, and NBD shows nothing else; allowed: --nvme-tcp ADDR, or ";
    assert!(done.stderr.starts_with(sentence), "{}", done.stderr);
    assert!(!folder.path("nbd").exists(), "nothing listens");
    // Beside one that it can show, it is named.
    let script = "exec \"$0\" serve zoned,drive.name=unseen tiny.toml --set media.store=ram --set media.blocks=32 --nbd unix:nbd";
    let _server = Serving::new(&folder, script);
    let log = || std::fs::read_to_string(folder.path("log")).unwrap();
    eventually("the server listens", || log().contains("event=listening"));
    assert!(log().contains("warning: unseen: no block namespace, so NBD does not show it;"), "{}", log());
    assert!(!log().contains("warning: tiny"), "{}", log());
    // Through the control socket it can be given one; until then it is named.
    let script = "exec \"$0\" serve zoned,drive.name=later --set media.store=ram --set media.blocks=32 --nbd unix:other --control control";
    let _server = Serving::new(&folder, script);
    eventually("all is said", || log().contains("event=ready"));
    assert!(log().contains("warning: later: no block namespace, so NBD does not show it;"), "{}", log());
}

#[test]
fn a_server_stops_when_its_input_ends() {
    let folder = Folder::with_drive();
    // The input of a test's command is empty.
    let done = folder.run(&[
        "serve",
        "tiny.toml",
        "--set",
        "media.store=ram",
        "--nbd",
        "unix:nbd",
        "--until-input-ends",
    ]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("event=stopping reason=input"), "{}", done.stderr);
}

/// One line of the control socket, and its answer.
fn control(folder: &Folder, line: &str) -> String {
    let mut stream = UnixStream::connect(folder.path("control")).unwrap();
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

/// The lines of the log, as JSON, of this event.
fn events(log: &str, event: &str) -> Vec<Value> {
    let all =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    all.filter(|fields| fields["event"] == event).collect()
}

/// The log of a server says what it serves, how it is reached and what is done to it, each line with its time.
#[test]
fn the_log_tells_what_is_served_and_what_happens_to_it() {
    let folder = Folder::with_drive();
    let options = "--set media.store=file:mine.drive --set ftl.durability=journal --nbd unix:nbd --nbd 0 --nvme-tcp 0 \
                   --control control --record run.log --time instant --log-format json";
    let mut server = Serving::new(&folder, &format!("exec \"$0\" serve tiny.toml {options}"));
    let mode = |file| Some(std::fs::metadata(folder.path(file)).ok()?.permissions().mode() & 0o777);
    // A socket is bound first; others may write to it, which connecting is, at no time.
    eventually("the server listens", || mode("control").is_some_and(|mode| mode & 0o077 == 0));
    // The recording takes its name when the server stops.
    for file in ["mine.drive", "run.log.part", "nbd", "control"] {
        let mode = mode(file).expect("it is there");
        assert_eq!(mode, 0o600, "{file}: {mode:o}");
    }
    let mut client = UnixStream::connect(folder.path("nbd")).unwrap();
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    // Fixed newstyle, no zeroes; then option 1, the first export.
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    drop(client);
    let figures = folder.run(&["status", "--control", "control", "--figures"]).json();
    assert_eq!(figures["drives"][0]["name"], "tiny", "{figures}");
    assert!(control(&folder, r#"{"do":"power-cut"}"#).contains("true"));
    assert!(control(&folder, r#"{"do":"damage","what":"slow-die","die":1,"factor":2}"#).contains("true"));
    assert!(control(&folder, r#"{"do":"stop"}"#).contains("true"));
    server.wait();
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    let one = |event: &str| match &events(&log, event)[..] {
        [one] => one.clone(),
        other => panic!("{event}: {other:?}"),
    };
    for line in log.lines() {
        let fields: Value = serde_json::from_str(line).unwrap();
        let time = fields["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
    }
    let made = one("media-made");
    assert_eq!((made["drive"].as_str(), made["file"].as_str()), (Some("tiny"), Some("mine.drive")));
    let drive = one("drive");
    for (key, value) in [
        ("drive", "tiny"),
        ("from", "tiny.toml"),
        ("kind", "block"),
        ("sector_bytes", "512"),
        ("store", "file:mine.drive"),
        ("keeps", "flushed"),
        ("time_mode", "instant"),
    ] {
        assert_eq!(drive[key], value, "{key}");
    }
    assert!(drive["capacity_bytes"].as_str().unwrap().parse::<u64>().unwrap() > 1 << 20);
    let reachable = events(&log, "reachable");
    let port = |protocol: &str| {
        let listening = events(&log, "listening");
        let addresses =
            listening.iter().filter(|l| l["protocol"] == protocol).map(|l| l["address"].as_str().unwrap());
        addresses.filter_map(|address| address.strip_prefix("127.0.0.1:")).next().unwrap().to_owned()
    };
    let socket = std::path::absolute(folder.path("nbd")).unwrap();
    assert_eq!(reachable[0]["uri"], format!("nbd+unix:///tiny?socket={}", socket.display()));
    assert_eq!(reachable[1]["uri"], format!("nbd://127.0.0.1:{}/tiny", port("nbd")));
    let command =
        format!("nvme connect -t tcp -a 127.0.0.1 -s {} -n nqn.2026-01.org.pellucid:tiny", port("nvme-tcp"));
    assert_eq!(reachable[2]["command"], command);
    let (attached, detached) = (one("attached"), one("detached"));
    assert_eq!((&attached["drive"], &attached["connection"]), (&detached["drive"], &detached["connection"]));
    assert_eq!(one("power-cut")["drive"], "tiny");
    assert_eq!(events(&log, "mounted").len(), 1, "after the power cut");
    assert_eq!(one("fault")["fault"], "slow-die=1x2");
    assert_eq!(one("stopping")["reason"], "control");
}

/// A served drive starts with what its media hold, has no work of its own, and no cache on it.
#[test]
fn keys_that_a_served_drive_does_not_use_are_refused_by_name() {
    let folder = Folder::with_drive();
    for (set, with) in [
        ("kv.engine=raw", "pellucid kv, which puts a cache on the drive"),
        ("precondition.fill=0.5", "pellucid run, replay, compare and age, whose image can be served"),
        ("job=[{ rw = \"write\" }]", "pellucid run, replay and compare"),
    ] {
        let words = ["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:nbd", "--set", set];
        let done = folder.run(&words);
        assert_eq!(done.status, 2, "{set}: {}", done.stderr);
        let key = set.split('=').next().unwrap();
        assert!(done.stderr.starts_with(&format!("error: --set {key}: ")), "{}", done.stderr);
        assert!(
            done.stderr.ends_with(&format!(": has no effect here; allowed: with {with}\n")),
            "{}",
            done.stderr
        );
    }
}

/// Requests that break a drive must name one of several drives.
#[test]
fn a_power_cut_of_one_of_several_drives_names_it() {
    let folder = Folder::with_drive();
    let script = "exec \"$0\" serve tiny.toml tiny.toml,name=other --set media.store=ram --nbd unix:nbd --control control";
    let _server = Serving::new(&folder, script);
    listens(&folder, "control");
    for request in [r#"{"do":"power-cut"}"#, r#"{"do":"faults","program_fail":0.5}"#] {
        let answer = control(&folder, request);
        assert!(answer.contains("there are several; allowed: one of tiny, other"), "{answer}");
    }
    assert!(control(&folder, r#"{"do":"power-cut","drive":"other"}"#).contains("true"));
}

/// Faults that hosts meet come and go by command, and `status` shows them.
#[test]
fn faults_that_hosts_meet_are_injected_and_cleared() {
    let folder = Folder::with_drive();
    let script = "exec \"$0\" serve tiny.toml --set media.store=ram --nbd unix:nbd --control control";
    let _server = Serving::new(&folder, script);
    listens(&folder, "control");
    let shown = || {
        let status = folder.run(&["status", "--control", "control"]).json();
        status["drives"][0]["host_faults"].as_array().expect("a list").len()
    };
    assert_eq!(shown(), 0);
    let fault = "io-error:on=write,rate=0.5,seed=7";
    folder.run(&["fault", "--control", "control", "--inject", fault]).answer();
    assert_eq!(shown(), 1);
    folder.run(&["fault", "--control", "control", "--clear"]).answer();
    assert_eq!(shown(), 0);
    let wrong = folder.run(&["fault", "--control", "control", "--inject", "io-errors"]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
}

/// A media file that was never completed comes up as a new drive, and one that others may read is used; the log says both. One that was cut
/// to nothing is refused, with the way to a new one.
#[test]
fn an_unfinished_media_file_and_one_that_others_read_are_logged() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_drive();
    let serve = ["serve", "tiny.toml", "--set", "media.store=file:kept.img", "--nbd", "unix:nbd"];
    folder.write("kept.img", "");
    let done = folder.run(&serve);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("kept.img: the file is there and empty") && done.stderr.contains("delete it")
    );
    let file = ["serve", "file:kept.img,size=1MiB", "--nbd", "unix:nbd"];
    let done = folder.run(&file);
    assert!(done.status == 2 && done.stderr.contains("it is there and empty"), "{}", done.stderr);
    folder.write("kept.img", "PELLUnew");
    let set_mode = |mode| {
        std::fs::set_permissions(folder.path("kept.img"), std::fs::Permissions::from_mode(mode)).unwrap()
    };
    set_mode(0o644);
    let script = "exec \"$0\" serve tiny.toml --set media.store=file:kept.img --set ftl.durability=journal --nbd unix:nbd";
    for (mode, blank, exposed) in [(0o644, 1, 1), (0o600, 0, 0)] {
        set_mode(mode);
        let _ = std::fs::remove_file(folder.path("nbd"));
        let _server = Serving::new(&folder, script);
        let log = || std::fs::read_to_string(folder.path("log")).unwrap();
        listens(&folder, "nbd");
        let _client = UnixStream::connect(folder.path("nbd")).unwrap();
        eventually("the client is logged", || log().contains("event=connected"));
        let count = |event: &str| log().matches(event).count();
        assert_eq!((count("event=store-blank"), count("event=store-exposed")), (blank, exposed), "{}", log());
    }
}

/// Standard error that is full, and that nobody reads, stops no server: it starts, answers, and ends when it is asked to.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_log_that_nobody_reads_stops_no_server() {
    for command in [
        "serve tiny.toml --set media.store=ram --time instant --nbd unix:front",
        "fire --device backing.img --journal 9MiB --make-journal --nbd unix:front",
        "cache --backing backing.img --drive jasmine-ssc --set media.store=file:flash.img --set media.channels=1 \
         --set media.ways=2 --set media.blocks=32 --set media.pages=8 --set ftl.over_provisioning=0.55 --time instant \
         --nbd unix:front",
        "kv open.toml --engine policy --memory 256KiB --set media.store=ram --set media.blocks=32 --time instant --unix front",
    ] {
        let folder = Folder::with_drive();
        std::fs::File::create(folder.path("backing.img")).unwrap().set_len(32 << 20).unwrap();
        let open_channel = "[[drive.namespace]]\ninterface = \"open-channel\"\n[kv]\nitem_max = \"16KiB\"";
        folder.write("open.toml", &TINY.replace("[precondition]\nfill = 0.9", open_channel));
        let (full, log) = UnixStream::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        while (&full).write(&[b' '; 4096]).is_ok() {}
        full.set_nonblocking(false).unwrap();
        let mut server = Serving::logging_to(&folder, &format!("exec \"$0\" {command}"), OwnedFd::from(full));
        listens(&folder, "front");
        let mut client = UnixStream::connect(folder.path("front")).unwrap();
        // NBD greets; memcached answers.
        client.write_all(b"version\r\n").unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        server.signal("TERM");
        server.wait();
        drop(log);
    }
}

/// An ordinary file is no socket that a dead server left: it stays, and is named as what is in the way.
#[test]
fn a_file_in_the_place_of_a_socket_is_named_and_kept() {
    let folder = Folder::with_drive();
    folder.write("notes.txt", "mine");
    for sockets in
        [["--nbd", "unix:nbd", "--control", "notes.txt"], ["--nbd", "unix:notes.txt", "--control", "control"]]
    {
        let words = ["serve", "tiny.toml", "--set", "media.store=ram"];
        let done = folder.run(&[&words[..], &sockets].concat());
        assert_ne!(done.status, 0, "{sockets:?}");
        assert!(
            done.stderr.contains("notes.txt") && done.stderr.contains("a file is there that is no socket"),
            "{}",
            done.stderr
        );
        assert_eq!(std::fs::read_to_string(folder.path("notes.txt")).unwrap(), "mine");
    }
}
