//! Targets on ranges of parallel units, kept beside the description of a drive, or asked of a server.

use crate::common::{Folder, Serving, TINY, listens, project, run_in};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

fn folder() -> Folder {
    let folder = Folder::new();
    let open = TINY.replace("sector_size = 512", "sector_size = 4096").replace("fill = 0.9", "fill = 0.0");
    // A host FTL on two of its units needs that much.
    let host = "[host.ftl]\nover_provisioning = 2.0\n";
    folder.write("open.toml", &format!("{open}\n[[drive.namespace]]\ninterface = \"open-channel\"\n{host}"));
    folder.write("block.toml", TINY);
    folder
}

#[test]
fn targets_are_made_listed_used_and_removed() {
    let folder = folder();
    folder.run(&["target", "create", "open.toml", "main", "--units", "0-1"]).answer();
    folder.run(&["target", "create", "open.toml", "log", "--units", "3", "--kind", "raw"]).answer();
    let list = folder.run(&["target", "list", "open.toml"]).answer();
    let answer = folder.run(&["target", "list", "open.toml", "--json"]).json();
    assert_eq!(answer["targets"][1], json!({ "name": "log", "kind": "raw", "first_unit": 3, "units": 1 }));
    let lines: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..1], ["0-1"]);
    assert_eq!(lines[0][3..], ["block", "main"]);
    assert_eq!(lines[1][3..], ["free"]);
    assert_eq!(lines[2][3..], ["raw", "log"]);
    let work = ["--rw", "randwrite", "--bs", "4k", "--number-ios", "2000", "--json"];
    let sets = ["--set", "host.ftl.over_provisioning=2.0"];
    let report = folder.run(&[&["run", "open.toml", "--target", "main"][..], &sets, &work].concat()).json();
    assert_eq!(report["host_layer"]["name"], "host-ftl");
    // Two of four dies.
    let busy = |channel: usize, way: usize| report["utilisation"]["dies"][channel][way].as_f64().unwrap();
    assert!(busy(0, 0) > 0.0 && busy(0, 1) > 0.0, "{}", report["utilisation"]["dies"]);
    assert_eq!((busy(1, 0), busy(1, 1)), (0.0, 0.0));
    folder.run(&["target", "remove", "open.toml", "log"]).answer();
    folder.run(&["target", "create", "open.toml", "rest", "--units", "2-3"]).answer();
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let folder = folder();
    folder.run(&["target", "create", "open.toml", "main", "--units", "0-1"]).answer();
    for (words, sentence) in [
        (
            &["create", "open.toml", "more", "--units", "1-2"][..],
            "units 1-2: overlap those of target main, which has 0-1; allowed: parallel units of no other target",
        ),
        (
            &["create", "open.toml", "more", "--units", "2-4"],
            "units 2-4: not in the drive; allowed: a range within 0-3",
        ),
        (
            &["create", "open.toml", "main", "--units", "2"],
            "main: a target of this name exists; allowed: another name, or remove the target first",
        ),
        (&["remove", "open.toml", "other"], "other: no such target; allowed: main"),
        (&["list", "block.toml"], "block.toml: no open-channel namespace"),
    ] {
        let done = folder.run(&[&["target"], words].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(sentence), "{words:?}: {}", done.stderr);
    }
}

/// A server writes what it knows of targets: it would undo what another program has changed meanwhile.
#[test]
fn the_registry_of_a_drive_that_is_served_is_left_alone() {
    let folder = folder();
    let script = "exec \"$0\" serve open.toml --set media.store=ram --nbd unix:nbd --control control";
    let server = Serving::new(&folder, script);
    listens(&folder, "control");
    for words in [&["create", "open.toml", "main", "--units", "0-1"][..], &["remove", "open.toml", "main"]] {
        let done = folder.run(&[&["target"], words].concat());
        let why = "open.targets.toml: another program has it open; to ask a server that has the drive, use --control";
        assert!(done.status == 1 && done.stderr.contains(why), "{words:?}: {} {}", done.status, done.stderr);
    }
    let list = folder.run(&["target", "list", "open.toml", "--json"]).json();
    assert_eq!(list["targets"], json!([]));
    drop(server);
    folder.run(&["target", "create", "open.toml", "main", "--units", "0-1"]).answer();
}

/// Answers every request with the first of `answers` that is left, and returns what was asked.
fn server(folder: &Folder, answers: Vec<Value>) -> std::thread::JoinHandle<Vec<Value>> {
    let listener = UnixListener::bind(folder.path("control")).unwrap();
    std::thread::spawn(move || {
        let (mut asked, mut answers) = (Vec::new(), answers.into_iter());
        while answers.len() > 0 {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut line = String::new();
            while answers.len() > 0 && stream.read_line(&mut line).unwrap() > 0 {
                asked.push(serde_json::from_str(&line).unwrap());
                line.clear();
                let answer = format!("{}\n", answers.next().unwrap());
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        }
        asked
    })
}

fn listed() -> Value {
    json!({
        "ok": true, "drive": "open", "groups": 2, "units_per_group": 4, "chunks": 16, "chunk_sectors": 256, "sector_bytes": 4096,
        "targets": [{ "name": "log", "kind": "raw", "first_unit": 2, "units": 3, "state": "ready", "namespace": "open.log",
                      "bytes": 1, "connections": 2 }],
    })
}

#[test]
fn a_server_is_asked_and_its_answer_shown() {
    let folder = Folder::new();
    let ok = json!({"ok": true});
    let asked = server(
        &folder,
        vec![ok.clone(), listed(), listed(), ok, listed(), json!({"ok": false, "error": "in use"})],
    );
    let create =
        ["target", "create", "open", "log", "--units", "2-4", "--kind", "raw", "--control", "control"];
    let done = folder.run(&create);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let lines: Vec<String> =
        done.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "2 groups x 4 units, 16 chunks of 256 sectors each, 16 MiB a unit",
            "0-1 32 MiB free",
            "2-4 48 MiB raw log ready, served as open.log, 2 connections",
            "5-7 48 MiB free",
        ]
    );
    assert_eq!(folder.run(&["target", "list", "open", "--control", "control"]).stdout, done.stdout);
    let remove = ["target", "remove", "open", "log", "--control", "control"];
    assert_eq!(folder.run(&remove).stdout, done.stdout);
    let refused = folder.run(&remove);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
    let list = json!({"do": "targets", "drive": "open"});
    let gone = json!({"do": "target-remove", "drive": "open", "name": "log"});
    assert_eq!(
        asked.join().unwrap(),
        [
            json!({"do": "target-create", "drive": "open", "name": "log", "kind": "raw", "first_unit": 2, "units": 3}),
            list.clone(),
            list.clone(),
            gone.clone(),
            list,
            gone,
        ]
    );
}

/// Two targets in one description and one run, each job and each target with results of its own; the run can be repeated.
#[test]
fn a_description_has_targets_for_its_jobs() {
    let folder = folder();
    let open = std::fs::read_to_string(folder.path("open.toml")).unwrap();
    let two = "[[target]]\nname = \"log\"\nkind = \"raw\"\nunits = \"1 channel x all ways\"\nfill = \"25%\"\n\
               [[target]]\nname = \"main\"\nunits = \"rest\"\n\
               [[job]]\nname = \"read\"\ntarget = \"log\"\nrw = \"chunk-randread\"\nbs = \"4k\"\nnumber_ios = 300\n\
               [[job]]\nname = \"write\"\ntarget = \"main\"\nrw = \"randwrite\"\nbs = \"4k\"\nnumber_ios = 2000\n";
    folder.write("two.toml", &format!("{open}{two}"));
    let report = folder.run(&["run", "two.toml", "--json"]).json();
    let target = |at: usize, key: &str| report["targets"][at][key].clone();
    assert_eq!(
        (target(0, "name"), target(0, "jobs"), target(0, "units")),
        (json!("log"), json!(["read"]), json!(2))
    );
    assert_eq!((target(1, "kind"), target(1, "first_unit")), (json!("block"), json!(2)));
    assert_eq!(target(1, "directions")["write"]["requests"], 2000);
    assert_eq!(report["jobs"][0]["directions"]["read"]["requests"], 300);
    assert_eq!(report["jobs"][0]["directions"]["read"]["errors"], 0);
    assert!(target(1, "write_amplification")["total"].as_f64().unwrap() >= 1.0);
    assert_eq!(report["provenance"]["description"]["job[0].target"], "\"log\"");
    let text = folder.run(&["run", "two.toml", "--report", "report"]).answer();
    for words in
        ["read on log, ", "target log          raw, units 0-1", "target main         block, units 2-3"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = std::fs::read_to_string(folder.path("report/index.html")).unwrap();
    assert!(page.contains(">Targets<"), "a section for targets");
    let again = folder.run(&["rerun", "report"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    // One target for all jobs, raw ones too.
    let work = ["--rw", "chunk-write", "--bs", "16k", "--vector", "2", "--units", "0-1", "--number-ios", "9"];
    let options = ["run", "two.toml", "--json", "--job", "name=w", "--target", "log"];
    let one = folder.run(&[&options[..], &work].concat()).json();
    assert_eq!(one["targets"][0]["directions"]["write"]["requests"], 9);
    let none = folder.run(&["run", "two.toml", "--target", "other"]);
    assert!(none.stderr.contains("no such target in two.toml; allowed: log, main"), "{}", none.stderr);
    let block = folder.run(&["run", "two.toml", "--job", "rw=read,target=log"]);
    assert!(block.stderr.contains("rw = read: allowed: chunk patterns"), "{}", block.stderr);
}

/// Options that make the work of a file of the papers short.
fn shorter(text: &str) -> &'static [&'static str] {
    let app = text.lines().find_map(|line| line.strip_prefix("app = \"")?.split('"').next());
    match app {
        Some("pagerank") => &["--iterations", "1"],
        Some("kv") => &["--nkeys", "20000", "--load", "20000", "--warm-up", "2000", "--operations", "1000"],
        Some("mp3-copy" | "office-install") => &["--part", "50"],
        Some(_) => &["--warm-up", "2000", "--operations", "1000"],
        None if text.contains("\nramp_time = ") => &["--ramp-time", "1s", "--runtime", "1s"],
        None => &["--runtime", "100ms"],
    }
}

/// The files of the papers run as they are, in a part of their time.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_files_of_the_papers_run() {
    let folder = project().join("examples/papers");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    assert!(files.len() >= 2);
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(index.contains(&format!("]({name})")), "{name} is in the index");
        let text = std::fs::read_to_string(&file).unwrap();
        let is_app = text.contains("\napp = ");
        let report = run_in(&folder, &[&["run", name, "--json"][..], shorter(&text)].concat()).json();
        assert_eq!(report["applications"].is_array(), is_app, "{name}");
        for job in report["jobs"].as_array().unwrap() {
            assert!(job["requests"].as_u64().unwrap() > 0, "{name}: {}", job["name"]);
        }
    }
}

/// The examples of applications beside other work run, in a part of their time, and report each by itself.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_files_of_work_side_by_side_run() {
    let folder = Folder::new();
    for (name, expected) in [
        ("kv-beside-log.toml", [("kv", json!("cache")), ("varmail", json!("mail"))].as_slice()),
        ("kv-beside-log-block.toml", [("kv", Value::Null)].as_slice()),
    ] {
        let text = std::fs::read_to_string(project().join("examples/beside").join(name)).unwrap();
        let shorter = [("nkeys = 60000", "nkeys = 5000"), ("warm_up = 10000", "warm_up = 1000")];
        let shorter = shorter.into_iter().chain([("operations = 40000", "operations = 5000")]);
        let text = shorter.fold(text, |text, (long, short)| text.replace(long, short));
        folder.write(name, &text.replace("runtime = \"1s\"", "runtime = \"100ms\""));
        let report = folder.run(&["run", name, "--json"]).json();
        let apps = report["applications"].as_array().unwrap();
        let named: Vec<(&str, Value)> =
            apps.iter().map(|app| (app["name"].as_str().unwrap(), app["target"].clone())).collect();
        assert_eq!(named, expected, "{name}");
        for job in report["jobs"].as_array().unwrap() {
            assert!(job["requests"].as_u64().unwrap() > 0, "{name}: {}", job["name"]);
        }
        let text = folder.run(&["run", name]).answer();
        assert!(text.lines().any(|line| line.starts_with("cache: kv")), "{text}");
    }
}

/// Zones by their addresses, on a drive without layers; and jobs that keep to a ratio.
#[test]
fn zones_are_work_for_jobs() {
    let folder = Folder::new();
    let zoned = TINY.replace("fill = 0.9", "fill = 0.25").replace("[drive.buffer]\nentries = 32\n", "");
    let zoned = format!("{zoned}\n[[drive.namespace]]\ninterface = \"zoned\"\nspare_blocks = 4\n");
    folder.write("zoned.toml", &zoned);
    let append =
        ["--rw", "zone-append", "--bs", "4k", "--iodepth", "4", "--open-zones", "2", "--number-ios", "500"];
    let report = folder.run(&[&["run", "zoned.toml", "--json"][..], &append].concat()).json();
    assert_eq!(
        (&report["directions"]["write"]["requests"], &report["directions"]["write"]["errors"]),
        (&json!(500), &json!(0))
    );
    let ratio = ["--flow", "3", "--flow-id", "2", "--number-ios", "300"];
    let jobs = ["--job", "rw=zone-randread", "--job", "rw=zone-append,flow=1,number_ios=100"];
    let report = folder.run(&[&["run", "zoned.toml", "--json"][..], &ratio, &jobs].concat()).json();
    let ended = |job: usize| report["jobs"][job]["end_seconds"].as_f64().unwrap();
    assert!((ended(0) / ended(1) - 1.0).abs() < 0.1, "{} {}", ended(0), ended(1));
    let wide = folder.run(&["run", "zoned.toml", "--rw", "zone-append", "--open-zones", "999"]);
    assert!(
        wide.status == 2 && wide.stderr.contains("open_zones = 999: allowed: at most"),
        "{}",
        wide.stderr
    );
}

/// A server makes the targets of a description, beside those of its registry.
#[test]
fn a_server_has_the_targets_of_the_description() {
    let folder = folder();
    let open = std::fs::read_to_string(folder.path("open.toml")).unwrap();
    let raw = "[[target]]\nname = \"log\"\nkind = \"raw\"\nunits = \"2-3\"\n";
    folder.write("open.toml", &format!("{open}{raw}"));
    folder.run(&["target", "create", "open.toml", "more", "--units", "0", "--kind", "raw"]).answer();
    let script = "exec \"$0\" serve open.toml --set media.store=ram --nbd unix:nbd --control control";
    let server = Serving::new(&folder, script);
    listens(&folder, "control");
    let list = folder.run(&["target", "list", "open", "--json", "--control", "control"]).json();
    let names: Vec<&str> =
        list["targets"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["more", "log"]);
    drop(server);
    // One that overlaps them is refused before anything is served.
    folder.run(&["target", "remove", "open.toml", "more"]).answer();
    folder.write("open.toml", &open);
    folder.run(&["target", "create", "open.toml", "other", "--units", "1-2"]).answer();
    folder.write("open.toml", &format!("{open}{raw}"));
    let refused = folder.run(&["serve", "open.toml", "--set", "media.store=ram", "--nbd", "unix:nbd"]);
    assert!(
        refused.status == 2 && refused.stderr.contains("overlap those of target other"),
        "{}",
        refused.stderr
    );
}

/// Two block targets of a description, and a raw one.
const THREE: &str = "[[target]]\nname = \"a\"\nunits = \"0\"\nfill = 0.25\n\
                     [[target]]\nname = \"b\"\nunits = \"1\"\n\
                     [[target]]\nname = \"log\"\nkind = \"raw\"\nunits = \"2\"\nfill = 0.25\n";

fn folder_of_three() -> Folder {
    let folder = folder();
    let open = std::fs::read_to_string(folder.path("open.toml")).unwrap();
    folder.write("three.toml", &format!("{open}{THREE}"));
    folder.write("t.csv", "0,host,0,Write,0,4096,10\n9000,host,0,Read,0,4096,10\n");
    folder
}

#[test]
fn targets_of_a_description_are_listed_and_have_their_units() {
    let folder = folder_of_three();
    let list = folder.run(&["target", "list", "three.toml"]).answer();
    let lines: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][3..], ["block", "a", "of", "the", "description"]);
    assert_eq!(lines[3][3..], ["free"]);
    for (words, sentence) in [
        (
            &["create", "three.toml", "clash", "--units", "2-3", "--kind", "raw"][..],
            "clash: units 2-3: overlap those of target log, which has 2; allowed: parallel units of no other target; log is a [[target]] of \
             three.toml",
        ),
        (
            &["create", "three.toml", "a", "--units", "3"],
            "error: a: a [[target]] of this name is in three.toml; allowed: another name",
        ),
        (&["remove", "three.toml", "b"], "b: a [[target]] of three.toml"),
    ] {
        let done = folder.run(&[&["target"], words].concat());
        assert!(done.status == 2 && done.stderr.contains(sentence), "{words:?}: {}", done.stderr);
    }
    folder.run(&["target", "create", "three.toml", "more", "--units", "3", "--kind", "raw"]).answer();
    let list = folder.run(&["target", "list", "three.toml", "--json"]).json();
    let names: Vec<&str> =
        list["targets"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["a", "b", "log", "more"]);
    assert_eq!(list["targets"][3]["state"], Value::Null);
}

#[test]
fn a_trace_is_replayed_on_a_target() {
    let folder = folder_of_three();
    let refused = folder.run(&["replay", "three.toml", "t.csv"]);
    assert!(refused.stderr.contains("allowed: --target a or b"), "{}", refused.stderr);
    let done = folder.run(&["replay", "three.toml", "t.csv", "--target", "b", "--json"]).json();
    assert_eq!((&done["targets"][0]["name"], &done["requests"]), (&json!("b"), &json!(2)));
    let words = ["compare", "three.toml", "three.toml,host.ftl.over_provisioning=3.0", "--trace", "t.csv"];
    let both = folder.run(&[&words[..], &["--target", "b", "--json"]].concat()).json();
    assert_eq!((&both[0]["requests"], &both[1]["targets"][0]["name"]), (&json!(2), &json!("b")));
    let raw = folder.run(&["replay", "three.toml", "t.csv", "--target", "log"]);
    assert!(raw.stderr.contains("no block target, where a trace is replayed"), "{}", raw.stderr);
    // One of the registry, too.
    folder.run(&["target", "create", "open.toml", "main", "--units", "0-1"]).answer();
    let sets = ["--set", "host.ftl.over_provisioning=2.0"];
    folder.run(&[&["replay", "open.toml", "t.csv", "--target", "main", "--json"][..], &sets].concat()).json();
}

#[test]
fn precondition_goes_before_the_fill_of_a_target() {
    let folder = folder_of_three();
    let work =
        ["run", "three.toml", "--target", "a", "--rw", "randread", "--bs", "4k", "--number-ios", "500"];
    let run = |state: &[&str]| folder.run(&[&work[..], &["--json"], state].concat()).json();
    let unmapped = |report: &Value| report["reads"]["unmapped_sectors"].as_u64().unwrap();
    let own = run(&[]);
    assert_eq!(own["workload"]["precondition"], "a, log 25 % filled");
    assert!(unmapped(&own) > 0 && unmapped(&own) < 500);
    let none = run(&["--precondition", "none"]);
    assert_eq!((&none["workload"]["precondition"], unmapped(&none)), (&json!("none"), 500));
    let full = run(&["--precondition", "fill"]);
    assert_eq!((&full["workload"]["precondition"], unmapped(&full)), (&json!("100 % filled"), 0));
}

#[test]
fn a_namespace_beside_a_target_is_refused() {
    let folder = folder_of_three();
    let words = ["run", "three.toml", "--target", "log", "--rw", "chunk-write", "--namespace", "0"];
    let refused = folder.run(&words);
    let sentence = "--target log and namespace = 0: namespace and target do not go together";
    assert!(refused.status == 2 && refused.stderr.contains(sentence), "{}", refused.stderr);
}

/// Targets of a drive in RAM end with the drive; those of a drive in a file are there again.
#[test]
fn a_server_keeps_targets_where_it_keeps_data() {
    let folder = folder();
    let open = std::fs::read_to_string(folder.path("open.toml")).unwrap();
    let raw = "[[target]]\nname = \"log\"\nkind = \"raw\"\nunits = \"2-3\"\n";
    folder.write("open.toml", &format!("{open}{raw}"));
    let serve = |store: &str| {
        let script = format!("exec \"$0\" serve open.toml {store} --nbd unix:nbd --control control");
        let server = Serving::new(&folder, &script);
        listens(&folder, "control");
        let words = |words: &[&str]| {
            folder.run(&[&["target"][..], words, &["--control", "control"]].concat()).answer();
        };
        words(&["remove", "open", "log"]);
        words(&["create", "open", "l2", "--units", "1-2", "--kind", "raw"]);
        drop(server);
        let _ = std::fs::remove_file(folder.path("control"));
        let _ = std::fs::remove_file(folder.path("nbd"));
    };
    serve("--set media.store=ram");
    assert!(!folder.path("open.targets.toml").exists(), "nothing is left of a drive in RAM");
    serve("--set media.store=file --set media.path=drive.img");
    let refused = folder.run(&["serve", "open.toml", "--set", "media.store=ram", "--nbd", "unix:nbd"]);
    for words in ["overlap those of target l2", "[[target]] log", "kept in open.targets.toml"] {
        assert!(refused.status == 2 && refused.stderr.contains(words), "{}", refused.stderr);
    }
}

/// A target that a run and a server would refuse is not written down.
#[test]
fn a_target_without_room_for_a_host_ftl_is_refused_at_once() {
    let folder = Folder::new();
    folder.write(
        "open.toml",
        "[drive]\npreset = \"open-channel\"\n[drive.media]\nblocks = 40\n[host]\nlayers = []\n",
    );
    let done = folder.run(&["target", "create", "open.toml", "main", "--units", "0-63"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("target main: host.ftl.over_provisioning: "), "{}", done.stderr);
    assert!(!folder.path("open.targets.toml").exists(), "nothing is kept of it");
    folder.run(&["target", "create", "open.toml", "raw", "--units", "0-63", "--kind", "raw"]).answer();
    for words in [&["create", "open-channel", "main", "--units", "0-63"][..], &["list", "open-channel"]] {
        let done = folder.run(&[&["target"], words].concat());
        assert_eq!(done.status, 2, "{words:?}");
        assert!(
            done.stderr.contains("a preset, which keeps no targets; allowed: a description"),
            "{}",
            done.stderr
        );
    }
    assert!(!folder.path("open-channel.targets.toml").exists(), "a preset leaves no file here");
}
