//! Provenance of reports, `rerun`, `diff`, `explain`, `demo`, and the version.

use crate::common::{Folder, project, run_in};
use serde_json::Value;

const WORK: [&str; 8] = ["run", "tiny.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "2000"];

fn read(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.path(name)).unwrap()).unwrap()
}

fn write(folder: &Folder, name: &str, report: &Value) {
    folder.write(name, &serde_json::to_string(report).unwrap());
}

#[test]
fn the_version_names_its_commit_or_says_why_not() {
    let text = Folder::new().run(&["--version"]).answer();
    let start = format!("pellucid {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&start), "{text}");
    let in_git = project().join(".git").exists();
    assert_eq!(text.contains("unknown: built from a source archive"), !in_git, "{text}");
    if in_git {
        let date = text.trim().trim_end_matches(')').rsplit(' ').next().unwrap();
        assert_eq!((date.len(), date.matches('-').count()), (10, 2), "{text}");
    }
}

#[test]
fn a_report_names_all_that_it_follows_from() {
    let folder = Folder::with_drive();
    folder.run(&[&WORK[..], &["--set", "ftl.victim=fifo", "--report", "out"]].concat()).answer();
    let report = read(&folder, "out/report.json");
    let provenance = &report["provenance"];
    assert_eq!(provenance["version"], report["pellucid_version"]);
    assert_eq!(provenance["command"][0], "run");
    assert_eq!(provenance["command"].as_array().unwrap().len(), WORK.len() + 4);
    assert_eq!(provenance["description"]["drive.ftl.victim"], "\"fifo\"");
    assert_eq!(provenance["description"]["job[0].bs"], "\"4k\"");
    assert_eq!(provenance["seeds"], report["seeds"]);
    let input = &provenance["inputs"][0];
    assert_eq!((&input["role"], &input["path"]), (&"description".into(), &"tiny.toml".into()));
    assert_eq!(input["sha256"].as_str().unwrap().len(), 64);
    let keys = provenance["description"].as_object().unwrap();
    assert!(keys.keys().all(|key| key != "run.report"), "where results go is no part of the run");
}

#[test]
fn a_run_is_repeated_bit_for_bit_or_the_difference_is_named() {
    let folder = Folder::with_drive();
    folder.run(&[&WORK[..], &["--report", "out", "--log", "log.csv"]].concat()).answer();
    let before = std::fs::metadata(folder.path("log.csv")).unwrap().modified().unwrap();
    for name in ["out", "out/report.json"] {
        let answer = folder.run(&["rerun", name, "-q"]).answer();
        assert_eq!(answer, "out/report.json: repeated, every result is equal bit for bit\n");
    }
    assert_eq!(
        std::fs::metadata(folder.path("log.csv")).unwrap().modified().unwrap(),
        before,
        "nothing is written"
    );
    let mut wrong = read(&folder, "out/report.json");
    wrong["directions"]["write"]["latency"]["max_ns"] = 7.into();
    write(&folder, "wrong.json", &wrong);
    let done = folder.run(&["rerun", "wrong.json", "-q"]);
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(
        done.stdout.starts_with("results.directions.write.latency.max_ns: was 7, is "),
        "{}",
        done.stdout
    );
    assert_eq!(done.stderr, "error: wrong.json: 1 value differs from the report\n");
    let json = folder.run(&["rerun", "wrong.json", "-q", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["equal"], &json["differences"][0]["was"]), (&false.into(), &7.into()));
}

#[test]
fn replays_and_comparisons_are_repeated_too() {
    let folder = Folder::with_drive();
    let lines: String =
        (0..300u64).map(|i| format!("{},host,0,Write,{},4096,0\n", i * 10_000, i % 50 * 4096)).collect();
    folder.write("trace.csv", &lines);
    folder.run(&["replay", "tiny.toml", "trace.csv", "--limit", "200", "--report", "out"]).answer();
    let report = read(&folder, "out/report.json");
    assert_eq!(report["provenance"]["inputs"][1]["role"], "trace");
    assert_eq!(report["provenance"]["description"]["run.limit"], "200");
    folder.run(&["rerun", "out", "-q"]).answer();
    let drives = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo"];
    folder.run(&[&drives[..], &WORK[2..], &["--report", "both"]].concat()).answer();
    for name in ["both/compare.json", "both/victim=fifo/report.json", "both"] {
        folder.run(&["rerun", name, "-q"]).answer();
    }
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let folder = Folder::with_drive();
    let work = [&WORK[..], &["--report", "out"]].concat();
    folder.run(&work).answer();
    let report = read(&folder, "out/report.json");
    let refused = |change: &dyn Fn(&mut Value), said: &str| {
        let mut changed = report.clone();
        change(&mut changed);
        write(&folder, "changed.json", &changed);
        let done = folder.run(&["rerun", "changed.json", "-q"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    };
    refused(
        &|report| report["provenance"]["version"] = "0.0.1".into(),
        "it was made by version 0.0.1, and this is ",
    );
    refused(&|report| report["partial"] = true.into(), "the user ended the run before its time");
    refused(&|report| drop(report.as_object_mut().unwrap().remove("provenance")), "it has no provenance");
    refused(
        &|report| report["provenance"]["command"] = Value::from(vec!["age", "tiny.toml"]),
        "none of run, replay, compare, fs run and graph run",
    );
    refused(
        &|report| report["provenance"]["command"] = Value::from(vec!["rnu"]),
        "its command is refused: unrecognized subcommand",
    );
    refused(
        &|report| report["provenance"]["inputs"][0]["sha256"] = Value::Null,
        "tiny.toml (description) was a pipe",
    );
    folder.write("tiny.toml", &crate::common::TINY.replace("50us", "51us"));
    refused(&|_| {}, "tiny.toml (description) is not the file that was read: its SHA-256 is ");
    let done = folder.run(&["rerun", "tiny.toml"]);
    assert!(done.status == 2 && done.stderr.contains("tiny.toml: no JSON: "), "{}", done.stderr);
    // A run can be repeated only if its initial state is there again.
    folder.run(&[&work[..], &["--set", "media.store=file:media"]].concat()).answer();
    let done = folder.run(&["rerun", "out", "-q"]);
    assert!(
        done.status == 2 && done.stderr.contains("media: the run has written to the drive in this file"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_difference_of_two_runs_is_shown_in_description_and_results() {
    let folder = Folder::with_drive();
    for (directory, victim) in [("a", "greedy"), ("b", "fifo"), ("c", "greedy")] {
        let set = format!("ftl.victim={victim}");
        folder.run(&[&WORK[..], &["--set", &set, "--report", directory]].concat()).answer();
    }
    assert_eq!(folder.run(&["diff", "a", "c"]).answer(), "no difference in description and results\n");
    let done = folder.run(&["diff", "a/report.json", "b/report.json"]);
    assert_eq!((done.status, done.stderr.as_str()), (1, ""), "{}", done.stdout);
    let mut lines = done.stdout.lines();
    assert_eq!(lines.next(), Some("description"));
    let key: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(key, ["drive.ftl.victim", "\"greedy\"", "\"fifo\""]);
    assert_eq!(lines.next(), Some("results"));
    assert!(
        lines.any(|line| line.contains("write_amplification.total") && line.contains(" +")),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains(" %\n") && !done.stdout.contains("wall_seconds"), "{}", done.stdout);
    let json = folder.run(&["diff", "a", "b", "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["description"][0]["key"], "drive.ftl.victim");
    assert!(json["results"].as_array().unwrap().iter().any(|one| one["change"].is_string()));
}

#[test]
fn a_key_is_explained_with_its_value_and_source() {
    let folder = Folder::new();
    let text = folder.run(&["explain", "ftl.victim", "jasmine", "--set", "ftl.victim=fifo"]).answer();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("drive.ftl.victim"));
    for part in [
        "  meaning  ",
        "  type     word",
        "  allowed  greedy, ",
        "  default  ",
        "  value    \"fifo\" in jasmine",
        "  source   --set ftl.victim",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = folder.run(&["explain", "drive.media.timing.suspend_erase"]).answer();
    assert!(
        text.contains("  type     duration") && text.contains("  bounds   ") && !text.contains("  value "),
        "{text}"
    );
    let table = folder.run(&["explain", "host.cpu", "--json"]).json();
    assert!(table.as_array().unwrap().len() > 2, "{table}");
    let list = folder.run(&["explain", "target"]).answer();
    assert!(list.contains("fields of [[target]]") && list.contains("    units "), "{list}");
    let field = folder.run(&["explain", "target.units"]).answer();
    assert!(field.starts_with("target.units\n") && field.contains("[[target]] with kind"), "{field}");
    let refused = folder.run(&["explain", "target.units", "jasmine"]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("without DRIVE and --set"), "{}", refused.stderr);
    for typed in ["acknowledge_within", "drive.namespace[1].address_space", "guarantee"] {
        let text = folder.run(&["explain", typed]).answer();
        let field = typed.rsplit('.').next().unwrap();
        assert!(text.contains(&format!("drive.namespace.{field}\n")), "{typed}: {text}");
    }
    let fields = folder.run(&["explain", "namespace.blocks", "--json"]).json();
    assert!(fields.as_array().unwrap().len() > 3, "{fields}");
    let job = folder.run(&["explain", "iodepth"]).answer();
    assert!(job.starts_with("iodepth\n  meaning  "), "{job}");
    for (typed, near) in [
        ("ftl.victm", "(did you mean victim?)"),
        ("victim", "did you mean drive.ftl.victim"),
        ("iodeph", "of jobs there is iodepth"),
    ] {
        let done = folder.run(&["explain", typed]);
        assert!(done.status == 2 && done.stderr.contains(near), "{typed}: {}", done.stderr);
    }
    let shown = folder.run(&["show", "jasmine", "--explain"]).answer();
    folder.write("shown.toml", &shown);
    assert!(shown.contains("\n# ") && shown.contains("\nvictim = "), "{shown}");
    // It reads back as the same drive.
    assert_eq!(
        folder.run(&["show", "shown.toml", "--set", "name=jasmine"]).answer().lines().count(),
        folder.run(&["show", "jasmine"]).answer().lines().count()
    );
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_demo_shows_what_a_flush_keeps() {
    let folder = Folder::new();
    let text = folder.run(&["demo", "--report", "out", "--no-pause", "-q"]).answer();
    for step in [
        "\n1. Make a drive",
        "\n2. Overwrite",
        "\n3. Cut its power",
        "\n4. Look at what survived",
        "\n5. Write a report",
    ] {
        assert!(text.contains(step), "{step}: {text}");
    }
    assert!(text.contains("   200 of 200 writes before the flush are there.\n"), "{text}");
    assert!(text.contains("   0 of 200 writes behind it are there: "), "{text}");
    let rounds: Vec<f64> = text
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.len() > 5 && words[0].parse::<u32>().is_ok_and(|round| round <= 6))
                .then(|| words[1].parse().ok())?
        })
        .collect();
    assert_eq!(rounds.len(), 6, "{text}");
    assert!(rounds[5] > rounds[0] * 1.5, "GC has begun: {rounds:?}");
    assert!(folder.path("out/index.html").exists());
    // Each command of the walk is one that there is.
    for command in text.lines().filter_map(|line| line.trim().strip_prefix("$ pellucid ")) {
        let name = command.split(' ').next().unwrap();
        assert_eq!(run_in(project(), &[name, "--help"]).status, 0, "{command}");
    }
}
