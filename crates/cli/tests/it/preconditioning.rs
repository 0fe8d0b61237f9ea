//! Content of a drive when work begins, and the warning about reads that find no data.

use crate::common::{Done, Folder, TINY, repeatable};
use serde_json::Value;
use std::process::Command;

/// The tiny drive, whose description says nothing of preconditioning.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("empty.toml", TINY.split("[precondition]").next().unwrap());
    folder.write("full.toml", TINY);
    // Every other request reads what nobody has written, of the first 2 MiB.
    let line = |i: u64| {
        let (kind, at) = if i.is_multiple_of(2) { ("Read", i) } else { ("Write", 256 + i % 16) };
        format!("{},host,0,{kind},{},4096,0\n", 10_000 * i, 4096 * at)
    };
    folder.write("trace.csv", &(0..400).map(line).collect::<String>());
    folder
}

fn share(report: &Value) -> f64 {
    report["reads"]["unmapped_share"].as_f64().unwrap()
}

const NO_DATA: &str = "of the reads were of sectors that hold no data";

/// Warnings of such reads.
fn warned(report: &Value) -> usize {
    let warnings = report["warnings"].as_array().unwrap();
    warnings.iter().filter(|sentence| sentence.as_str().unwrap().contains(NO_DATA)).count()
}

fn refused(done: Done) -> String {
    assert_eq!(done.status, 2, "{}", done.stderr);
    done.stderr
}

#[test]
fn a_replay_finds_data_where_it_reads_unless_told_otherwise() {
    let folder = folder();
    let replay =
        |more: &[&str]| folder.run(&[&["replay", "empty.toml", "trace.csv", "--json"], more].concat());
    let done = replay(&[]);
    assert!(!done.stderr.contains(NO_DATA), "{}", done.stderr);
    let by_trace = done.json();
    assert_eq!((share(&by_trace), warned(&by_trace)), (0.0, 0));
    let mean = |report: &Value| report["directions"]["read"]["latency"]["mean_ns"].as_f64().unwrap();
    assert!(mean(&by_trace) > 50_000.0, "a sense takes 50 us");
    assert_eq!(by_trace["workload"]["precondition"], "trace: what it reads before it writes it");
    assert_eq!(replay(&["--precondition", "trace"]).json()["directions"], by_trace["directions"]);

    let done = replay(&["--precondition", "none"]);
    let sentence = "warning: 100 % of the reads were of sectors that hold no data";
    assert!(done.stderr.contains(sentence), "{}", done.stderr);
    let none = done.json();
    assert_eq!((share(&none), warned(&none)), (1.0, 1));
    assert_eq!(none["reads"]["unmapped_sectors"], 200 * 8);
    assert!(mean(&none) < 10_000.0);
    let text = folder.run(&["replay", "empty.toml", "trace.csv", "--precondition", "none"]).answer();
    assert!(text.contains("\n   unmapped "), "{text}");

    for state in ["fill", "steady"] {
        let report = replay(&["--precondition", state]).json();
        assert_eq!(share(&report), 0.0, "{state}");
        let overwritten = report["wear"]["erases"]["total"].as_u64().unwrap() > 0;
        assert_eq!(overwritten, state == "steady");
    }
    // The description takes precedence over the default.
    let report = folder.run(&["replay", "full.toml", "trace.csv", "--json"]).json();
    assert_eq!(report["workload"]["precondition"], "90 % filled");
    let report = replay(&["--set", "precondition.fill=0.0", "--precondition", "none"]);
    assert!(refused(report).contains("--precondition and --set precondition.fill do not go together"));
    assert_eq!(share(&replay(&["--set", "precondition.fill=0.0"]).json()), 1.0);
}

#[test]
fn every_way_to_replay_knows_what_is_read_first() {
    let folder = folder();
    let whole = repeatable(folder.run(&["replay", "empty.toml", "trace.csv", "--json"]).json());
    let piped = |words: &str| {
        let command = format!(
            "cat trace.csv | {} replay empty.toml /dev/stdin {words}",
            env!("CARGO_BIN_EXE_pellucid")
        );
        let output = Command::new("sh").args(["-c", &command]).current_dir(folder.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let streamed = piped("--json");
    assert_eq!(streamed["directions"], whole["directions"]);
    assert_eq!(streamed["workload"]["summary"], "/dev/stdin (msr)");
    assert_eq!(share(&piped("--json --precondition none")), 1.0);
    // Only what is replayed is read, where it is replayed to.
    for more in [&["--limit", "100"][..], &["--address", "fold"], &["--closed-loop", "8"], &["--verify"]] {
        let report = folder.run(&[&["replay", "empty.toml", "trace.csv", "--json"], more].concat()).json();
        assert_eq!(share(&report), 0.0, "{more:?}");
    }
    let reports =
        folder.run(&["compare", "empty.toml", "full.toml", "--trace", "trace.csv", "--json"]).json();
    assert_eq!((share(&reports[0]), share(&reports[1])), (0.0, 0.0));
}

#[test]
fn a_host_ftl_is_preconditioned_through_its_layer() {
    let folder = folder();
    let drive = TINY.split("[drive.ftl]").next().unwrap();
    let layered = format!(
        "{drive}[drive.buffer]\nentries = 32\n[[drive.namespace]]\ninterface = \"open-channel\"\n[host]\n\
         layers = [\"host-ftl\"]\n[host.ftl]\nover_provisioning = 0.5\n"
    );
    folder.write("layered.toml", &layered);
    let replay = |more: &[&str]| {
        folder
            .run(&[&["replay", "layered.toml", "trace.csv", "--address", "fold", "--json"], more].concat())
            .json()
    };
    assert_eq!(share(&replay(&["--precondition", "none"])), 1.0);
    assert_eq!(share(&replay(&[])), 0.0);
    assert_eq!(share(&replay(&["--verify"])), 0.0);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = folder();
    let jobs = ["--rw", "randread", "--number_ios", "100"];
    let run = |first: &[&str], more: &[&str]| folder.run(&[first, &jobs, more].concat());
    let by_trace = ["--precondition", "trace"];
    assert!(
        refused(run(&["run", "empty.toml"], &by_trace))
            .contains("there is no trace, only jobs; allowed: none, fill")
    );
    let sentence = refused(run(&["run", "empty.toml", "--set", "precondition.fill=\"trace\""], &[]));
    assert!(sentence.contains("there is no trace"), "{sentence}");
    assert!(
        refused(folder.run(&["age", "empty.toml", "--set", "precondition.fill=\"trace\""]))
            .contains("no trace")
    );
    folder.run(&["age", "empty.toml", "--fill", "10%", "--overwrite", "0", "-o", "aged.pellucid"]).answer();
    let replay =
        |more: &[&str]| folder.run(&[&["replay", "aged.pellucid", "trace.csv", "--json"], more].concat());
    assert!(refused(replay(&["--precondition", "steady"])).contains("an image is preconditioned already"));
    // An image is as it is; what it lacks can be added.
    let lacking = share(&replay(&[]).json());
    assert!(lacking > 0.5, "{lacking}");
    assert_eq!(share(&replay(&["--precondition", "none"]).json()), lacking);
    assert_eq!(share(&replay(&["--precondition", "trace", "--verify"]).json()), 0.0);
    // Jobs are not preconditioned unless somebody says so.
    let unmapped = run(&["run", "empty.toml", "--json"], &[]).json();
    assert_eq!(share(&unmapped), 1.0);
    assert_eq!(share(&run(&["run", "empty.toml", "--json"], &["--precondition", "fill"]).json()), 0.0);
}

/// Filling half a terabyte of memory is refused before it begins.
#[test]
fn memory_that_is_not_there_is_refused() {
    let folder = folder();
    let sizes = [
        "media.store=ram",
        "media.blocks=8192",
        "media.pages=1024",
        "media.page_size=16KiB",
        "media.unit_size=16KiB",
    ];
    let sets: Vec<&str> = sizes.iter().flat_map(|set| ["--set", set]).collect();
    let words = ["run", "empty.toml", "--rw", "read", "--number_ios", "1", "--precondition", "fill"];
    let sentence = refused(folder.run(&[&words[..], &sets].concat()));
    assert!(sentence.contains("preconditioning will take about 4"), "{sentence}");
    assert!(
        sentence.contains("--precondition trace or none") && sentence.contains("--overcommit"),
        "{sentence}"
    );
}

#[test]
fn jobs_have_rows_and_names_of_their_own() {
    let folder = folder();
    let words = ["run", "full.toml", "--bs", "4k", "--number_ios=300"];
    let jobs = ["--job", "name=load,rw=write", "--job", "rw=randread,stonewall=1,iodepth=4"];
    let report = folder.run(&[&words[..], &jobs, &["--json", "--report", "out"]].concat()).json();
    assert_eq!((&report["jobs"][0]["name"], &report["jobs"][1]["name"]), (&"load".into(), &"job2".into()));
    assert_eq!(report["jobs"][1]["start_seconds"], report["jobs"][0]["end_seconds"]);
    assert_eq!(report["jobs"][1]["directions"]["read"]["requests"], 300);
    let csv = std::fs::read_to_string(folder.path("out/requests.csv")).unwrap();
    assert!(csv.lines().any(|line| line.starts_with("job,\"load\",0,1,0,")), "{csv}");
    let text = folder.run(&[&words[..], &jobs].concat()).answer();
    for words in ["\nall jobs, over the drive's whole ", "\nload, ", "\njob2, "] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let compared =
        folder.run(&[&["compare", "full.toml", "empty.toml"], &words[2..], &jobs].concat()).answer();
    assert!(compared.contains("\nload: write IOPS") && compared.contains("\njob2: read mean"), "{compared}");
}

/// All sectors without data are counted, whether firmware or controller completes the command.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn every_preset_counts_all_reads_without_data() {
    let folder = Folder::new();
    for preset in [
        "cosmos-plus",
        "cosmos-plus-slc",
        "cosmos-plus-tlc",
        "cosmos-plus-open-channel",
        "jasmine",
        "jasmine-optimized",
        "memblaze",
        "netbook-ssd",
        "netbook-ssd-1",
        "netbook-ssd-3",
        "laptop-ssd-5",
        "datacenter-tlc",
        "client-qlc",
        "open-channel",
    ] {
        let words = ["run", preset, "--rw", "randread", "--bs", "32k", "--number-ios", "20", "--json"];
        let report = folder.run(&words).json();
        let sector_bytes = report["drive"]["sector_bytes"].as_u64().unwrap();
        assert_eq!(report["reads"]["unmapped"]["requests"], 20, "{preset}");
        assert_eq!(report["reads"]["unmapped_sectors"], 20 * 32768 / sector_bytes, "{preset}");
    }
}

/// Merges copy superpages of several units while a drive is filled and overwritten, and every sector is there afterwards.
#[test]
fn log_blocks_are_preconditioned_on_superpages_of_several_units() {
    let folder = Folder::new();
    for map in ["bast", "fast"] {
        let map = format!("ftl.map={map}");
        let mut words =
            vec!["run", "datacenter-tlc", "--rw", "randread", "--bs", "4k", "--number-ios", "2000"];
        words.extend(["--precondition", "steady", "--verify", "--json", "--set", &map]);
        for set in [
            "media.channels=1",
            "media.ways=1",
            "media.blocks=64",
            "media.pages=48",
            "ftl.over_provisioning=0.5",
        ] {
            words.extend(["--set", set]);
        }
        let report = folder.run(&words).json();
        assert_eq!(warned(&report), 0, "{map}: every read finds data");
    }
}

/// A drive of flash before a disk: what it holds is of earlier work, and its garbage collection has to copy it.
#[test]
fn a_drive_before_a_disk_is_preconditioned() {
    let folder = Folder::new();
    let cached = |preset: &str| {
        format!(
            "[drive]\npreset = \"{preset}\"\n\n[drive.media]\nblocks = 48\npages = 8\nsector_size = 4096\n\n[drive.ftl]\n\
             over_provisioning = 0.5\n\n[host]\nlayers = [\"cache\"]\n\n[backing]\nkind = \"disk\"\ncapacity = \"1GiB\"\nzones = 2\n\n\
             [[job]]\nrw = \"randwrite\"\nbs = \"4k\"\nsize = \"48m\"\nnumber_ios = 12000\n"
        )
    };
    folder.write("ssd.toml", &cached("jasmine-optimized"));
    folder.write("ssc.toml", &cached("jasmine-ssc"));
    let run = |state: &str| folder.run(&["run", "ssd.toml", "--json", "--precondition", state]).json();
    let copied = |report: &Value| report["gc"]["copied_units"].as_u64().unwrap();
    let (empty, full) = (run("none"), run("fill"));
    assert_eq!(full["workload"]["precondition"], "100 % filled");
    assert!(copied(&full) > copied(&empty), "{} {}", copied(&full), copied(&empty));
    let refused = refused(folder.run(&["run", "ssc.toml", "--precondition", "fill"]));
    assert!(refused.contains("precondition.fill: the drive has no block namespace"), "{refused}");
}
