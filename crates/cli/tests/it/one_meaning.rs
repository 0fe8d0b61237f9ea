//! Settings given twice must agree, settings without effect are refused, and wrong input ends with status 2.

use crate::common::{Folder, Serving, eventually, listens};
use std::process::Command;

fn refused(folder: &Folder, words: &[&str], says: &[&str]) {
    let done = folder.run(words);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
    for part in says {
        assert!(done.stderr.contains(part), "{words:?}: {part:?} is not in {}", done.stderr);
    }
}

/// Requests of a trace with a line for each.
const TRACE: &str = "0,W,0,4096\n1,R,0,4096\n";

#[test]
fn an_option_and_the_key_that_it_spells_agree_or_are_refused() {
    let folder = Folder::with_drive();
    folder.write("trace.csv", TRACE);
    folder.write("other.csv", TRACE);
    let trace = "csv:time=1,op=2,offset=3,size=4,unit=us";
    let replay = ["replay", "tiny.toml", "trace.csv", "--format", trace];
    let run = ["run", "tiny.toml", "--rw", "read", "--number-ios", "10"];
    for (words, more) in [
        (&replay[..], ["--address", "fold", "--set", "run.address=compact"]),
        (&replay, ["--limit", "1", "--set", "run.limit=2"]),
        (&replay, ["--repeat", "2", "--set", "run.repeat=3"]),
        (&replay, ["--time-scale", "2", "--set", "run.time_scale=3"]),
        (&replay, ["--closed-loop", "2", "--set", "run.closed_loop=3"]),
        (&replay, ["--log", "a.csv", "--set", "run.log=b.csv"]),
        (&run, ["--log", "a.csv", "--set", "run.log=b.csv"]),
        (&run, ["--report", "a", "--set", "run.report=b"]),
        (&run, ["--seed", "3", "--set", "run.seed=4"]),
        (&run, ["--steady-state", "snia", "--set", "run.steady_state=iops:3%"]),
        (&run, ["--steady-round", "1s", "--set", "run.steady_round=2s"]),
        (&replay, ["--steady-round", "1s", "--set", "run.steady_round=2s"]),
        (&["age", "tiny.toml"], ["--steady-state", "snia", "--set", "precondition.steady=change"]),
        (&["age", "tiny.toml"], ["--fill", "0.5", "--set", "precondition.fill=0.6"]),
        (&["age", "tiny.toml"], ["--overwrite", "2", "--set", "precondition.overwrite=3"]),
        (&["age", "tiny.toml"], ["--seed", "2", "--set", "precondition.seed=3"]),
        (&["kv", "tiny.toml"], ["--engine", "raw", "--set", "kv.engine=original"]),
        (&["kv", "tiny.toml"], ["--memory", "1MiB", "--set", "kv.memory=2MiB"]),
        (
            &["fire", "--device", "tiny.toml", "--nbd", "unix:nbd"],
            ["--cluster", "1MiB", "--set", "host.cluster_buffer.cluster=2MiB"],
        ),
    ] {
        let [option, value, _, set] = more;
        let (key, other) = set.split_once('=').unwrap();
        let said = [option, value, key, other, "contradict each other; allowed: one of them"];
        refused(&folder, &[words, &more].concat(), &said);
    }
    refused(
        &folder,
        &[&replay[..], &["--set", "run.trace=other.csv"]].concat(),
        &["trace.csv", "run.trace", "other.csv"],
    );
    refused(
        &folder,
        &[&run[..], &["--set", "run.trace=other.csv"]].concat(),
        &["workload options", "run.trace"],
    );
    // The same said twice is no contradiction, and a description gives way to options.
    folder.run(&[&replay[..], &["--address", "fold", "--set", "run.address=fold"]].concat()).answer();
    folder.write("logs.toml", "[drive]\npreset = \"netbook-ssd\"\n[run]\nlog = \"b.csv\"\n");
    folder.run(&["run", "logs.toml", "--rw", "read", "--number-ios", "10", "--log", "a.csv"]).answer();
    assert!(folder.path("a.csv").exists() && !folder.path("b.csv").exists());
}

#[test]
fn a_switch_takes_its_value_as_fio_takes_it() {
    let folder = Folder::with_drive();
    // The log has the offset of each write.
    let run = |more: &[&str]| {
        let words = ["run", "tiny.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "50"];
        folder.run(&[&words[..], &["--log", "log.csv"], more].concat()).answer();
        std::fs::read_to_string(folder.path("log.csv")).unwrap()
    };
    assert_eq!(run(&["--norandommap", "0"]), run(&["--norandommap=0"]));
    assert_eq!(run(&["--norandommap", "1"]), run(&[]));
    assert_ne!(run(&["--norandommap", "0"]), run(&["--norandommap", "1"]));
}

#[test]
fn wrong_input_is_status_2() {
    let folder = Folder::new();
    folder.write("edges.txt", "0 1\n1 2\n");
    folder.write("empty.txt", "");
    std::fs::write(folder.path("other.img"), vec![1; 16 << 20]).unwrap();
    let cache = ["kv", "file:other.img", "--unix", "socket"];
    refused(
        &folder,
        &[&cache[..], &["--engine", "raw"]].concat(),
        &["something else than chunks", "allowed: a blank one"],
    );
    let done = folder.run(&[&cache[..], &["--engine", "raw"]].concat());
    assert!(!done.stderr.contains("format"), "no option of kv is called so: {}", done.stderr);
    refused(&folder, &["graph", "pagerank", "empty.txt"], &["no edges"]);
    refused(
        &folder,
        &["graph", "pagerank", "edges.txt", "--work", "empty.txt"],
        &["empty.txt is no directory"],
    );
    let done = folder.run(&["kv", "replay", "empty.txt", "--drive", "netbook-ssd"]);
    assert!(done.status == 2 && done.stderr.contains("no requests"), "{}: {}", done.status, done.stderr);
}

#[test]
fn a_refused_server_leaves_no_file() {
    let folder = Folder::with_drive();
    let nbd = ["--nbd", "unix:socket"];
    let drives =
        ["tiny.toml,media.store=file:drive,drive.name=a", "tiny.toml,media.store=file:drive,drive.name=b"];
    refused(&folder, &[&["serve"], &drives[..], &nbd].concat(), &["one image serves one drive"]);
    assert!(!folder.path("drive").exists(), "the first drive was made, and is taken away with the second");
    let one = ["serve", "tiny.toml", "--set", "media.store=file:drive"];
    refused(&folder, &[&one[..], &nbd, &["--record", "nowhere/log"]].concat(), &["nowhere"]);
    refused(&folder, &[&one[..], &["--nbd", "unix:nowhere/socket"]].concat(), &["nowhere"]);
    assert!(!folder.path("drive").exists());
    let mut server =
        Serving::new(&folder, "exec \"$0\" serve tiny.toml --set media.store=file:drive --nbd unix:socket");
    listens(&folder, "socket");
    assert_eq!(server.end("TERM"), Some(0));
    assert!(folder.path("drive").exists(), "a drive that was in service stays");
}

#[test]
fn time_is_refused_where_none_is_simulated() {
    let folder = Folder::new();
    for (words, option) in [
        (&["serve", "file:a.img,size=16MiB", "--nbd", "unix:socket", "--time", "instant"][..], "--time"),
        (&["serve", "file:a.img,size=16MiB", "--nbd", "unix:socket", "--lead-us", "9"], "--lead-us"),
        (&["fire", "--device", "file:a.img,size=16MiB", "--nbd", "unix:socket", "--time", "x10"], "--time"),
        (&["kv", "file:a.img,size=16MiB", "--unix", "socket", "--time", "paced"], "--time"),
    ] {
        refused(&folder, words, &[option, "allowed: with a modelled drive"]);
        assert!(!folder.path("a.img").exists());
    }
}

/// A pipe without a reader would hold up the server at its start, without a word.
#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let folder = Folder::with_drive();
    assert!(Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    let serve =
        ["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:socket", "--record", "pipe"];
    refused(&folder, &serve, &["pipe: a pipe that nobody reads; allowed: "]);
    let run = ["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--json", "--log", "pipe"];
    refused(&folder, &run, &["pipe: a pipe that nobody reads; allowed: "]);
    let mut reader = Serving::new(&folder, "exec cat pipe > copy");
    // `cat` opens the pipe when it begins; until then it has no reader.
    eventually("the pipe is read", || folder.run(&run).status == 0);
    reader.wait();
    let copy = std::fs::read_to_string(folder.path("copy")).unwrap();
    assert_eq!(copy.lines().count(), 11, "a header and each request: {copy}");
}

#[test]
fn the_log_has_the_requests_that_the_report_counts() {
    let folder = Folder::with_drive();
    let words = ["run", "tiny.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "400", "--json"];
    let report = folder.run(&[&words[..], &["--ramp-time", "20ms", "--log", "log.csv"]].concat()).json();
    let counted = report["directions"]["write"]["requests"].as_u64().unwrap();
    assert!((1..400).contains(&counted), "{counted}");
    let log = std::fs::read_to_string(folder.path("log.csv")).unwrap();
    assert_eq!(log.lines().count() as u64, counted + 1, "a header, and no request of the ramp time");
}

/// A description that takes more memory than there is says how much, instead of ending in a panic.
#[test]
fn tables_that_memory_has_no_space_for_are_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("mnt")).unwrap();
    folder.run(&["fs", "format", "image", "--size", "64MiB"]).answer();
    let large = "datacenter-tlc --set media.blocks=8000";
    for (words, says) in [
        (format!("run {large} --rw read --number-ios 10"), "the mapping table takes "),
        (format!("serve {large} --set media.store=ram --nbd unix:socket"), "a store in memory takes "),
        ("fs mount image mnt --threads 64".into(), "the 64 threads that answer the kernel take "),
    ] {
        // In KiB: enough for the command, and too little for a gigabyte.
        let script = format!("ulimit -v 600000; exec \"$0\" {words}");
        let done = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_pellucid")])
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("; allowed: "), "{words}: {stderr}");
    }
}

/// Each refusal of an image names a way that works.
#[test]
fn hints_on_images_lead_somewhere() {
    let folder = Folder::with_drive();
    folder
        .run(&["age", "tiny.toml", "--fill", "0.5", "--overwrite", "0", "--output", "half.pellucid"])
        .answer();
    let run = ["run", "half.pellucid", "--rw", "randwrite", "--bs", "4k", "--number-ios", "100"];
    let warned = folder.run(&run);
    assert!(warned.stderr.contains("for an image: pellucid age --overwrite steady"), "{}", warned.stderr);
    let steady = [&run[..], &["--precondition", "steady"]].concat();
    refused(
        &folder,
        &steady,
        &["another image: pellucid show IMAGE > drive.toml, then pellucid age drive.toml"],
    );
    refused(&folder, &["age", "half.pellucid"], &["such as that of pellucid show half.pellucid"]);
    let description = folder.run(&["show", "half.pellucid"]).answer();
    folder.write("shown.toml", &description);
    folder.run(&["age", "shown.toml", "--overwrite", "steady", "--output", "again.pellucid"]).answer();
    // An image serves if it keeps data, which the one that is refused does not.
    let serve = ["serve", "half.pellucid", "--nbd", "unix:socket"];
    refused(&folder, &serve, &["an image that pellucid age makes with --set media.store=ram"]);
    folder.run(&["age", "tiny.toml", "--set", "media.store=ram", "--output", "kept.pellucid"]).answer();
    let mut server = Serving::new(&folder, "exec \"$0\" serve kept.pellucid --nbd unix:socket");
    listens(&folder, "socket");
    assert_eq!(server.end("TERM"), Some(0));
}
