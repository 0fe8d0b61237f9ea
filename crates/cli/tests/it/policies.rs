//! "Is this policy better?", as a user asks it: through `run`, with writes that nothing throttles.

use crate::common::Folder;
use serde_json::Value;

/// One die of 512 blocks of 16 pages; one block is no spare, and the rest leaves 28 %.
const ONE_DIE: &str = r#"
[drive.media]
channels = 1
ways = 1
blocks = 512
pages = 16
page_size = "4KiB"
sector_size = 4096
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[drive.ftl]
capacity = 26161152
separation = "off"
durability = "volatile"
[drive.buffer]
entries = 64
write = "write-through"
retain = false
[precondition]
fill = 1.0
overwrite = 4.0
[[job]]
rw = "randwrite"
bs = "4k"
iodepth = 64
number_ios = 12000
"#;

#[test]
#[expect(clippy::approx_constant, reason = "a write amplification that happens to be near pi")]
fn every_policy_has_the_write_amplification_of_theory() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    // (1 + OP) / OP, a / (a + W0(-a e^-a)), and the mean field of blocks of 16 pages for the rest. So small a die has a share of its
    // pages twice, the old copies of the 64 writes under way, hence 6 %.
    for (victim, theory) in
        [("random", 4.57), ("fifo", 2.48), ("greedy", 2.20), ("d-choices:2", 3.14), ("d-choices:10", 2.27)]
    {
        let policy = format!("ftl.victim={victim}");
        let report = folder.run(&["run", "die.toml", "--json", "--set", &policy]).json();
        let measured = report["write_amplification"]["total"].as_f64().unwrap();
        assert!((measured / theory - 1.0).abs() < 0.06, "{victim}: {measured}, theory {theory}");
        assert_eq!(report["gc"]["emergency_victims"], 0, "{victim}");
        assert_eq!(report["warnings"].as_array().unwrap().len(), 0, "{victim}: {}", report["warnings"]);
    }
}

#[test]
fn ageing_shows_its_evidence() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    let age = |more: &[&str]| folder.run(&[&["age", "die.toml", "-o", "die.pellucid"], more].concat());
    let ageing = &age(&["--overwrite", "steady", "--json"]).json()["ageing"];
    let passes = ageing["passes"].as_array().unwrap();
    let last = passes.last().unwrap()["write_amplification"].as_f64().unwrap();
    assert!(passes.len() > 2 && (last / 2.2 - 1.0).abs() < 0.06, "{ageing}");
    assert_eq!((&ageing["stopped"], &ageing["victim"]), (&"steady".into(), &"greedy".into()));
    let text = age(&["--overwrite", "2.5"]).answer();
    assert!(text.contains("overwritten 2.50 times, as asked"), "{text}");
    assert!(text.contains("victim policy greedy") && text.lines().count() < 24, "{text}");
}

#[test]
fn numbers_of_another_policys_state_come_with_a_warning() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    folder.run(&["age", "die.toml", "--overwrite", "3", "-o", "die.pellucid"]).answer();
    let work = ["--rw", "randwrite", "--iodepth", "64", "--number_ios", "1000"];
    let same = folder.run(&[&["run", "die.pellucid"], &work[..]].concat());
    assert_eq!((same.status, same.stderr.as_str()), (0, ""));
    let other = folder.run(&[&["run", "die.pellucid", "--set", "ftl.victim=fifo"], &work[..]].concat());
    assert!(
        other.stderr.starts_with(
            "warning: die.pellucid was aged with drive.ftl.victim = greedy and runs with fifo: until the run has overwritten"
        ),
        "{}",
        other.stderr
    );
}

#[test]
fn a_run_that_is_too_short_says_so() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    let short = ["--set", "precondition.overwrite=0.0", "--json"];
    let run = |more: &[&str]| folder.run(&[&["run", "die.toml"], &short[..], more].concat());
    let done = run(&["--number_ios", "639"]);
    let sentence = "write amplification is not steady: the run overwrote 10.0 % of the drive";
    assert!(done.stderr.starts_with(&format!("warning: {sentence}")), "{}", done.stderr);
    assert!(done.json()["warnings"][0].as_str().unwrap().starts_with(sentence));
    for quiet in [
        &["--rw", "randread", "--number_ios", "639"][..],
        &["--rw", "write", "--number_ios", "639"],
        &["--number_ios", "25000"],
    ] {
        assert_eq!(run(quiet).stderr, "", "{quiet:?}");
    }
}

/// Overwriting once is the transient itself: the halves of the run tell.
#[test]
fn a_run_whose_write_amplification_drifts_says_so() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    let once = ["--set", "precondition.overwrite=0.0", "--number_ios", "7000"];
    let done = folder.run(&[&["run", "die.toml"], &once[..]].concat());
    let sentence = "warning: write amplification is not steady: it was ";
    assert!(
        done.stderr.starts_with(sentence) && done.stderr.contains(" in the first half "),
        "{}",
        done.stderr
    );
}

#[test]
fn an_image_that_was_overwritten_once_is_not_steady() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    let work = ["--rw", "randwrite", "--iodepth", "64", "--number_ios", "300"];
    for (overwrite, warned) in [("1", true), ("steady", false)] {
        folder.run(&["age", "die.toml", "--overwrite", overwrite, "-o", "die.pellucid"]).answer();
        let done = folder.run(&[&["run", "die.pellucid"], &work[..]].concat());
        assert_eq!(done.stderr.contains("write amplification is not steady"), warned, "{}", done.stderr);
    }
}

/// Writes at random places, in the format of MSR.
fn trace(writes: u64) -> String {
    let line = |i: u64| {
        format!("{},host,0,Write,{},4096,0\n", 128_166_372_000_000_000 + i * 10_000, (i * 3571 % 6387) * 4096)
    };
    (0..writes).map(line).collect()
}

#[test]
fn a_replay_without_garbage_collection_needs_no_steady_state() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    for (writes, warned) in [(500, false), (5000, true)] {
        folder.write("trace.csv", &trace(writes));
        let state = if warned { "fill" } else { "none" };
        let sets = ["--set", "precondition.overwrite=0", "--set", "precondition.fill"];
        let fill = format!("{}={}", sets[3], if state == "fill" { "1.0" } else { "0.0" });
        let done = folder.run(&["replay", "die.toml", "trace.csv", sets[0], sets[1], "--set", &fill]);
        assert_eq!(done.stderr.contains("is not steady"), warned, "{} {}", done.stdout, done.stderr);
    }
}

/// Folding goes on when the run is over, and is no part of it.
#[test]
fn a_full_cache_is_reported_as_full() {
    let folder = Folder::new();
    let small =
        ["--set", "media.blocks=64", "--set", "media.channels=2", "--set", "ftl.over_provisioning=0.25"];
    let work = ["--set", "media.ways=1", "--rw", "write", "--bs", "128k", "--number-ios", "800", "--json"];
    let report = folder.run(&[&["run", "client-qlc"], &small[..], &work[..]].concat()).json();
    let cache = &report["slc_cache"];
    assert_eq!(cache["used_blocks"], cache["blocks"], "{cache}");
    let last = report["series"]["slc_cache_used_blocks"].as_array().unwrap().last().unwrap();
    assert_eq!(&cache["used_blocks"], last);
}

/// A run that was to go on until it is steady says whether it was, wherever it is told.
#[test]
fn pages_and_comparisons_say_whether_a_run_was_steady() {
    let folder = Folder::new();
    folder.write("die.toml", ONE_DIE);
    let until = ["--time-based", "--runtime", "1s", "--steady-state", "iops:90%", "--steady-round", "10ms"];
    let never = ["--time-based", "--runtime", "100ms", "--steady-state", "snia", "--steady-round", "50ms"];
    let work = ["--rw", "randread", "--bs", "4k"];
    folder.run(&[&["run", "die.toml"], &work[..], &until, &["--report", "one", "-q"]].concat()).answer();
    let page = std::fs::read_to_string(folder.path("one/index.html")).unwrap();
    assert!(page.contains("steady state: iops:90%: reached after") && page.contains("Rounds until steady"));
    let both = ["compare", "die.toml", "die.toml,ftl.victim=fifo"];
    let compared = folder.run(&[&both, &work[..], &until].concat()).answer();
    assert!(compared.contains("\nsteady after "), "{compared}");
    let done = folder.run(&[&both, &work[..], &never].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    for drive in ["victim=greedy", "victim=fifo"] {
        assert!(done.stdout.contains(&format!("note: {drive} was not steady: snia")), "{}", done.stdout);
        assert!(done.stderr.contains(&format!("error: {drive}: steady state")), "{}", done.stderr);
    }
    let done = folder.run(&[&["run", "die.toml"], &work[..], &never, &["--seeds", "2"]].concat());
    assert!(done.stdout.contains("2 of 2 runs did not become steady"), "{}", done.stdout);
}

/// Writes that a layer adds to those of requests are amplification, in the host or in the drive.
#[test]
fn layers_that_make_other_writes_are_part_of_write_amplification() {
    let folder = Folder::new();
    let small =
        ["--set", "media.blocks=128", "--rw", "randwrite", "--bs", "4k", "--number-ios", "12000", "--json"];
    let clustered = ["--set", "host.layers=[\"cluster-buffer\"]"];
    for (drive, layer) in [("netbook-ssd", &clustered[..]), ("jasmine-nameless", &[])] {
        let report = folder.run(&[&["run", drive], &small[..], layer].concat()).json();
        let amplification = &report["write_amplification"];
        let number = |of: &Value| of.as_f64().unwrap();
        let written = number(&amplification["host_written_bytes"]);
        assert_eq!(written, number(&report["directions"]["write"]["bytes"]), "{drive}");
        let total = number(&amplification["programmed_bytes_total"]) / written;
        assert!(
            (number(&amplification["total"]) - total).abs() < 1e-9 && total > 2.0,
            "{drive}: {amplification}"
        );
        let series = report["series"]["host_written_bytes"].as_array().unwrap();
        assert_eq!(series.iter().map(number).sum::<f64>(), written, "{drive}");
    }
}

#[test]
fn what_a_run_would_not_do_is_said_or_refused() {
    let folder = Folder::new();
    let one = ["--rw", "randread", "--bs", "4k", "--number-ios", "10"];
    let done = folder.run(&[&["run", "wd1502faex", "--precondition", "steady", "--json"], &one[..]].concat());
    assert!(
        done.stderr.contains("is a disk, whose times do not depend on what was written"),
        "{}",
        done.stderr
    );
    assert_eq!(done.json()["workload"]["precondition"], "none");
    let both = ["run", "netbook-ssd", "--rate", "1m", "--rate-iops", "100"];
    let done = folder.run(&[&both, &one[..]].concat());
    assert!(done.stderr.starts_with("error: --rate-iops: rate_iops = 100"), "{}", done.stderr);
    let seeded = ["run", "netbook-ssd", "--seed", "5", "--randseed", "4"];
    let done = folder.run(&[&seeded, &one[..]].concat());
    assert_eq!(
        (done.status, done.stderr.contains("--seed: each job has a randseed")),
        (2, true),
        "{}",
        done.stderr
    );
    for set in ["ftl.gc_low=4294967295", "ftl.gc_parallel=4294967295", "precondition.overwrite=1e18"] {
        let done = folder.run(&[&["run", "netbook-ssd", "--set", set], &one[..]].concat());
        assert_eq!((done.status, done.stderr.contains("allowed: ")), (2, true), "{set}: {}", done.stderr);
    }
    folder.write(
        "two.toml",
        "[drive]\npreset = 'open-channel'\nmedia.blocks = 64\n[host]\nlayers = []\n[[target]]\nname = 'a'\nkind = 'block'\nunits = '0-7'\n\
         [[target]]\nname = 'b'\nkind = 'block'\nunits = '8-15'\n",
    );
    let done = folder.run(&[&["run", "two.toml"], &one[..]].concat());
    assert!(done.stderr.contains("the work goes to a, the first of a, b"), "{}", done.stderr);
    let done = folder.run(&[&["compare", "two.toml", "two.toml,media.blocks=72"], &one[..]].concat());
    assert_eq!(done.stderr.matches("the work goes to a, the first of a, b").count(), 1, "{}", done.stderr);
    assert!(
        !folder.run(&[&["run", "two.toml", "--target", "b"], &one[..]].concat()).stderr.contains("goes to")
    );
}
