//! Commands keep their promises: seeds, checks, logs, and impossible jobs.

use crate::common::{Done, Folder, TINY};

const WORK: [&str; 7] = ["--rw", "randwrite", "--bs", "4k", "--number-ios", "500", "--json"];

/// Two requests a millisecond apart, and a third.
const TRACE: &str = "128166372003061629,a,0,Write,0,4096,1\n128166372003071629,a,0,Read,0,4096,1\n\
    128166372003081629,a,0,Read,0,4096,1\n";

fn refused(done: Done, sentence: &str) {
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains(sentence), "{}", done.stderr);
}

#[test]
fn the_seed_is_that_of_job_files_and_of_ageing() {
    let folder = Folder::with_drive();
    folder.write("plain.fio", "[a]\nrw=randwrite\nbs=4k\nsize=1m\n");
    folder.write("own.fio", "[a]\nrw=randwrite\nbs=4k\nsize=1m\nrandseed=9\n[b]\nrw=randread\nsize=1m\n");
    let run = |file: &str, seed: &str, log: &str| {
        folder.run(&["run", "tiny.toml", file, "--seed", seed, "--log", log, "--json", "-q"]).json()
    };
    let logged = |seed: &str| {
        let report = run("plain.fio", seed, "requests.log");
        assert_eq!(report["seeds"]["workload"].to_string(), seed);
        std::fs::read(folder.path("requests.log")).unwrap()
    };
    assert!(logged("1") != logged("2"));
    let own = run("own.fio", "2", "own.log");
    assert_eq!((&own["seeds"]["job 1"], &own["seeds"]["job 2"]), (&9.into(), &2.into()), "{}", own["seeds"]);
    let age = |seed: &str, name: &str| {
        folder.run(&["age", "tiny.toml", "--overwrite", "1", "--seed", seed, "-o", name]).answer();
        std::fs::read(folder.path(name)).unwrap()
    };
    assert!(age("1", "one.pellucid") != age("2", "two.pellucid"));
    assert!(folder.run(&["show", "two.pellucid"]).answer().contains("seed = 2"));
}

#[test]
fn a_drive_in_a_file_is_verified_from_the_first_write_on() {
    let folder = Folder::new();
    let kept = TINY.replace("store = \"none\"", "store = \"file\"\npath = \"media.img\"");
    folder.write("kept.toml", &kept.replace("\"volatile\"", "\"journal\"").replace("fill = 0.9", "fill = 0"));
    let run = |rw: &str| {
        let work = ["--rw", rw, "--bs", "4k", "--size", "50%", "--number-ios", "800", "--verify"];
        folder.run(&[&["run", "kept.toml"][..], &work].concat())
    };
    run("randwrite").answer();
    run("randread").answer();
    run("randrw").answer();
}

#[test]
fn a_log_that_cannot_be_written_is_a_failure() {
    let folder = Folder::with_drive();
    let done = folder.run(&[&["run", "tiny.toml", "--log", "/dev/full"][..], &WORK].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert_eq!(done.stderr, "error: /dev/full: cannot be written: No space left on device\n");
}

#[test]
fn jobs_that_cannot_do_what_they_say_are_refused() {
    let folder = Folder::with_drive();
    let run = |more: &[&str]| folder.run(&[&["run", "tiny.toml"][..], &WORK, more].concat());
    refused(run(&["--queue", "9"]), "queue = 9: allowed: 0 to 7");
    let none = "unknown; allowed: none: no job stands before this one";
    for (jobs, waits) in [
        (&["--job", "wait_for=nosuch"][..], none),
        (&["--job", "name=a,wait_for=a"], none),
        (&["--job", "name=a,wait_for=b", "--job", "name=b,wait_for=a"], none),
        (
            &["--job", "name=a", "--job", "wait_for=b"],
            "wait_for = b: unknown; allowed: a: the jobs before this one",
        ),
    ] {
        refused(run(jobs), waits);
    }
    // Weights keep a ratio to those of others, or of clones.
    run(&["--job", "flow=1", "--job", "flow=2"]).answer();
    run(&["--flow", "1", "--numjobs", "2"]).answer();
    run(&["--job", "name=a", "--job", "name=b,wait_for=a"]).answer();
    let job = "[[job]]\nrw = \"read\"\nnumber_ios = 1\nwait_for = \"nosuch\"\n";
    folder.write("waits.toml", &format!("{TINY}{job}"));
    refused(folder.run(&["run", "waits.toml"]), "waits.toml");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let folder = Folder::with_drive();
    folder.write("t.csv", TRACE);
    folder.write("traced.toml", &format!("{TINY}[run]\ntrace = \"t.csv\"\n"));
    let compared = folder.run(&["compare", "traced.toml", "traced.toml", "--limit", "2", "--json"]).json();
    assert_eq!(compared[1]["requests"], 2);
    let compare = ["compare", "traced.toml", "tiny.toml", "--limit", "2"];
    refused(folder.run(&[&compare[..], &WORK].concat()), "--limit: there is no trace");
    for words in [&["age", "tiny.toml", "--verify"][..], &["show", "tiny.toml", "--seed", "3"]] {
        refused(folder.run(words), "means nothing to");
    }
    for factor in ["0", "1e30", "nan"] {
        refused(
            folder.run(&["replay", "tiny.toml", "t.csv", "--time-scale", factor]),
            "allowed: 1e-9 to 1e9",
        );
    }
}

#[test]
fn names_of_drives_stay_in_their_directories_and_apart() {
    let folder = Folder::with_drive();
    for name in ["../../escape", ".", "a\\u001b[31m"] {
        let set = format!("drive.name=\"{name}\"");
        refused(folder.run(&["show", "tiny.toml", "--set", &set]), "allowed: letters, digits");
    }
    folder.write(
        "second.toml",
        &TINY.replacen("[drive.media]", "[drive]\nname = \"tiny (2)\"\n[drive.media]", 1),
    );
    let drives = ["compare", "second.toml", "tiny.toml", "tiny.toml", "--report", "out"];
    folder.run(&[&drives[..], &WORK].concat()).answer();
    for name in ["tiny", "tiny (2)", "tiny (3)"] {
        assert!(folder.path("out").join(name).join("report.json").exists(), "{name}");
    }
}

#[test]
fn a_bad_setting_of_a_layer_is_a_refusal() {
    let folder = Folder::new();
    let open = TINY.replace("sector_size = 512", "sector_size = 4096").replace("fill = 0.9", "fill = 0");
    let namespace = "[[drive.namespace]]\ninterface = \"open-channel\"\n[host]\nlayers = [\"host-ftl\"]\n";
    folder.write("open.toml", &format!("{open}{namespace}"));
    let full = ["--set", "host.ftl.over_provisioning=0"];
    let done = folder.run(&[&["run", "open.toml"][..], &full, &WORK].concat());
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn what_a_replay_makes_of_its_trace_is_told() {
    let folder = Folder::with_drive();
    folder.write("plain.csv", TRACE);
    // Earlier than the one before it, of another disk, and no whole sector.
    folder.write("odd.csv", &format!("{TRACE}128166372003061000,a,1,Write,100,4096,1\n"));
    let replay = |trace: &str, more: &[&str]| folder.run(&[&["replay", "tiny.toml", trace], more].concat());
    assert!(!replay("plain.csv", &[]).answer().contains("\ntrace"));
    let text = replay("odd.csv", &[]).answer();
    let line = text.lines().find(|line| line.starts_with("trace")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>().join(" "),
        "trace devices in one address space 2 out of order 1 widened to sectors 1"
    );
    let json = replay("odd.csv", &["--json"]).json();
    let counts =
        ["records", "devices", "out_of_order", "widened", "moved"].map(|key| json["replay"][key].as_u64());
    assert_eq!(counts, [4, 2, 1, 1, 0].map(Some));
    let one = replay("odd.csv", &["--json", "--stream", "0"]).json();
    let counts = ["records", "devices", "other_devices"].map(|key| one["replay"][key].as_u64());
    assert_eq!(counts, [3, 1, 1].map(Some));
    let work = folder.run(&[&["run", "tiny.toml"][..], &WORK].concat()).json();
    assert!(work.get("replay").is_none());
}
