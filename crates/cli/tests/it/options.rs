//! Every option of every command: it does something, or it is refused.

use crate::common::{COMMANDS, Done, Folder};
use std::collections::{BTreeMap, BTreeSet};

/// The long options that the help of a command, or of one of a group, lists.
fn options(folder: &Folder, command: &str) -> BTreeSet<String> {
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = folder.run(&words).answer();
    let names = help.lines().filter_map(|line| {
        let line = line.strip_prefix("      ").or(line.strip_prefix("  -").and_then(|line| line.get(3..)))?;
        let name = line.strip_prefix("--")?.split([' ', '=', '[', ',']).next()?;
        // Not the end of a list of aliases.
        let whole = name.chars().all(|c| c.is_alphanumeric() || c == '-');
        if !whole {
            return None;
        }
        Some(format!("--{name}"))
    });
    names.filter(|name| name != "--help").collect()
}

/// A process for each command, with one option that is not its own; each time another one. src/args.rs asks the same of all such options.
#[test]
fn the_command_refuses_options_of_others() {
    let folder = Folder::new();
    let each: BTreeMap<&str, BTreeSet<String>> =
        COMMANDS.iter().map(|&command| (command, options(&folder, command))).collect();
    let all: BTreeSet<&String> = each.values().flatten().collect();
    assert!(all.len() > 80, "{}", all.len());
    for (at, (command, own)) in each.iter().enumerate() {
        let others: Vec<&&String> = all.iter().filter(|option| !own.contains(**option)).collect();
        let option = others[at * others.len() / each.len()].as_str();
        let done = folder.run(&[command, option]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{command} {option}: {}", done.stderr);
        let start = format!("error: {option} means nothing to {command}; allowed: with ");
        assert!(done.stderr.starts_with(&start), "{command} {option}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        // Behind the names, of some, what to use instead.
        let names = done.stderr[start.len()..].trim_end().split("; ").next().unwrap_or_default();
        for other in names.split(", ") {
            let has = |own: &BTreeSet<String>| own.contains(option);
            let is_taken = each.get(other).map_or_else(|| has(&options(&folder, other)), has);
            assert!(is_taken, "{other} has no {option}");
        }
    }
}

/// Returns the output of a command and its files, without the parts that depend on real time.
fn outcome(folder: &Folder, words: &[&str]) -> (i32, String, String, Vec<String>) {
    let Done { status, stdout, stderr } = folder.run(words);
    let varies = |line: &str| {
        [
            "wall_seconds",
            "requests_per_wall_second",
            "peak_memory_bytes",
            "command_line",
            " simulated in ",
            ", in ",
        ]
        .iter()
        .any(|part| line.contains(part))
    };
    // Provenance repeats what was asked for, and says nothing about its effect.
    let mut in_provenance = false;
    let tells = |line: &&str| {
        in_provenance |= *line == "  \"provenance\": {";
        let told = !in_provenance && !varies(line);
        in_provenance &= *line != "  },";
        told
    };
    let stdout = stdout.lines().filter(tells).collect::<Vec<_>>().join("\n");
    let mut files: Vec<String> = std::fs::read_dir(folder.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    (status, stdout, stderr, files)
}

fn trace() -> String {
    let line = |i: u64| {
        format!(
            "{},host,{},{},{},4096,0\n",
            i * 10_000,
            i % 3,
            ["Write", "Read"][i as usize % 2],
            i / 2 * 4096
        )
    };
    (0..300).map(line).collect()
}

/// With the option the command does something else than without.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn each_option_of_a_command_that_works_on_drives_has_an_effect() {
    let work = ["--rw", "randrw", "--bs", "8k", "--number-ios", "200", "--iodepth", "4"];
    let run: Vec<&str> = [&["run", "tiny.toml"], &work[..]].concat();
    let compare: Vec<&str> = [&["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo"], &work[..]].concat();
    let replay = vec!["replay", "tiny.toml", "trace.csv"];
    let replayed = vec!["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--trace", "trace.csv"];
    let age = vec!["age", "tiny.toml", "--overwrite", "0.5", "-o", "x"];
    // Words of an option, by the command that they are added to; what is not here is looked at below.
    let common: &[&[&str]] =
        &[&["--set", "media.ways=1"], &["--json"], &["--report", "out"], &["--log", "log.csv"]];
    let shaped: &[&[&str]] = &[
        &["--format", "alibaba"],
        &["--time-scale", "0.5"],
        &["--closed-loop", "3"],
        &["--stream", "1"],
        &["--repeat", "2"],
        &["--limit", "100"],
    ];
    let jobs: &[&[&str]] = &[
        &["--rw", "read"],
        &["--bs", "4k"],
        &["--bsrange", "4k-16k"],
        &["--bssplit", "4k/50:8k/50"],
        &["--blockalign", "64k"],
        &["--size", "50%"],
        &["--offset", "1m"],
        &["--io-size", "80k"],
        &["--number-ios", "100"],
        &["--loops", "2"],
        &["--runtime", "1ms"],
        &["--ramp-time", "1ms"],
        &["--startdelay", "100ms"],
        &["--iodepth", "1"],
        &["--numjobs", "2"],
        &["--rwmixread", "90"],
        &["--rwmixwrite", "90"],
        &["--random-distribution", "zipf:1.2"],
        &["--percentage-random", "10"],
        &["--norandommap=0"],
        &["--randseed", "9"],
        &["--rate", "1m"],
        &["--rate-iops", "1000"],
        &["--thinktime", "5ms"],
        &["--fsync", "3"],
        &["--fdatasync", "3"],
        &["--end-fsync"],
        &["--sync"],
        &["--job", "rw=write"],
        &["--seed", "9"],
    ];
    let on = |words: &[&[&'static str]]| words.iter().map(|words| words.to_vec()).collect::<Vec<_>>();
    let mut cases: Vec<(Vec<&str>, Vec<Vec<&str>>)> = vec![
        (run.clone(), on(common)),
        ([&run[..], &["--json"]].concat(), on(jobs)),
        (compare.clone(), on(&common[..3])),
        (compare.clone(), vec![vec!["--iodepth", "1"], vec!["--seed", "9"]]),
        (replay.clone(), on(common)),
        (replay.clone(), on(shaped)),
        (replayed, on(shaped)),
        (vec!["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo"], vec![vec!["--fio", "job.fio"]]),
        (
            age,
            vec![
                vec!["--fill", "50%"],
                vec!["--overwrite", "1"],
                vec!["--output", "y"],
                vec!["--seed", "3"],
                vec!["--set", "ftl.victim=fifo"],
                vec!["--json"],
            ],
        ),
        (vec!["show", "tiny.toml"], vec![vec!["--json"], vec!["--set", "ftl.victim=fifo"]]),
        (vec!["presets"], vec![vec!["--json"]]),
        (vec!["reproduce", "--list", "C10"], vec![vec!["--json"]]),
    ];
    // Options that need company; those of placement handles have crates/testing/tests/placement.rs.
    for (base, more) in [
        (&["--time-based"][..], &["--runtime", "200ms"][..]),
        (&["--new-group"], &["--json", "--job", "rw=read", "--job", "rw=write"]),
        (&["--offset-increment", "1m"], &["--numjobs", "2", "--size", "1m"]),
        (&["--rate-process", "poisson"], &["--rate-iops", "1000"]),
        (&["--thinktime-blocks", "5"], &["--thinktime", "5ms"]),
        (&["--kb-base", "1000"], &[]),
        (&["--stonewall"], &["--job", "rw=read", "--job", "rw=write"]),
        (&["--name", "a"], &["--json", "--job", "rw=read", "--job", "rw=write"]),
        (&["--wait-for", "a"], &["--job", "name=a,rw=read"]),
        (&["--queue", "900"], &[]),
    ] {
        let base_words = match base[0] {
            "--kb-base" => vec!["run", "tiny.toml", "--rw", "read", "--number-ios", "10"],
            "--time-based" => vec!["run", "tiny.toml", "--rw", "write", "--io-size", "400k"],
            _ => run.clone(),
        };
        let (first, last) =
            if base[0] == "--kb-base" { (base, &["--bs", "4k"][..]) } else { (&[][..], base) };
        cases.push(([&base_words[..], more, if first.is_empty() { &[] } else { last }].concat(), vec![]));
        let with = [&base_words[..], first, more, last].concat();
        let without = [&base_words[..], more, if first.is_empty() { &[] } else { last }].concat();
        assert_ne!(fresh(&with), fresh(&without), "{with:?}");
    }
    for (base, options) in &cases {
        let without = fresh(base);
        for option in options {
            let words = [&base[..], option].concat();
            assert_ne!(fresh(&words), without, "{words:?} does what it does without");
        }
    }
}

/// Runs the command in a folder of its own.
fn fresh(words: &[&str]) -> (i32, String, String, Vec<String>) {
    let folder = Folder::with_drive();
    folder.write("trace.csv", &trace());
    folder.write("job.fio", "[a]\nrw=read\nnumber_ios=100\n");
    outcome(&folder, words)
}

/// Options that show only in more than one run are used by a test of their own; a new option needs one.
#[test]
fn each_option_is_used_by_a_test() {
    let folder = Folder::new();
    let root = crate::common::project();
    let mut text = String::new();
    for place in [
        "crates/cli/tests/it",
        "crates/cli/src/view",
        "crates/serve/tests",
        "tools",
        "bench",
        "examples/serve",
    ] {
        read_all(&root.join(place), &mut text);
    }
    let excepted = [
        // fio's word for what is always so.
        "--direct",
        // Placement handles: crates/testing/tests/placement.rs.
        "--fdp",
        "--dataplacement",
        "--plids",
        "--plid-select",
        // Settings of the host of a remote drive: crates/serve tests them without the command.
        "--remote-dhchap",
        "--remote-digests",
        "--remote-host-nqn",
        "--remote-queues",
    ];
    let mut unused = Vec::new();
    for command in COMMANDS {
        for option in options(&folder, command) {
            let used = text.contains(&format!("\"{option}\""))
                || text.contains(&format!("{option} "))
                || text.contains(&format!("{option}="));
            if !used && !excepted.contains(&option.as_str()) {
                unused.push(format!("{command} {option}"));
            }
        }
    }
    assert_eq!(unused, Vec::<String>::new(), "no test uses them");
}

fn read_all(place: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(place).unwrap_or_else(|e| panic!("{}: {e}", place.display())) {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => read_all(&path, text),
            false => text.push_str(&std::fs::read_to_string(&path).unwrap_or_default()),
        }
    }
}

#[test]
fn what_would_do_nothing_here_is_refused() {
    let folder = Folder::with_drive();
    folder.write("trace.csv", &trace());
    folder.write("run.toml", &format!("{}[run]\ntrace = \"trace.csv\"\n", crate::common::TINY));
    let serve = ["serve", "tiny.toml", "--set", "media.store=ram"];
    for (words, sentence) in [
        (&["run", "run.toml", "--seed", "3"][..], "--seed: a trace draws nothing at random"),
        (
            &["replay", "tiny.toml", "trace.csv", "--closed-loop", "2", "--time-scale", "2"],
            "the argument '--closed-loop",
        ),
        (&["reproduce", "--list", "--seed", "3"], "the argument '--list' cannot be used with '--seed"),
        (
            &["target", "list", "tiny.toml", "--control", "c", "--set", "a=b"],
            "--set means nothing to a server's drive",
        ),
        (&[&serve[..], &["--ublk", "--connections", "3"]].concat(), "--connections: allowed: with --nbd"),
        (
            &[&serve[..], &["--nbd", "unix:s", "--dhchap-group", "null"]].concat(),
            "--dhchap-group: allowed: with",
        ),
        (
            &[&serve[..], &["--nbd", "unix:s", "--quiet", "--log-format", "json"]].concat(),
            "the argument '--quiet",
        ),
    ] {
        let done = folder.run(words);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        assert!(done.stderr.starts_with(&format!("error: {sentence}")), "{words:?}: {}", done.stderr);
    }
}

#[test]
fn a_stream_that_the_trace_does_not_have_is_refused_with_those_that_it_has() {
    let folder = Folder::with_drive();
    folder.write("trace.csv", &trace());
    let sentence = "error: trace.csv: stream 77 is not in the trace; allowed: 0, 1, 2\n";
    for words in [
        &["replay", "tiny.toml", "trace.csv", "--stream", "77", "--set", "media.faults.program_fail=1"][..],
        &["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--trace", "trace.csv", "--stream", "77"],
        &["replay", "tiny.toml", "trace.csv", "--set", "run.stream=77"],
    ] {
        let done = folder.run(words);
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (2, "", sentence), "{words:?}");
    }
    // From a pipe it is known when the trace is over.
    let script =
        format!("cat trace.csv | {} replay tiny.toml /dev/stdin --stream 77", env!("CARGO_BIN_EXE_pellucid"));
    let piped =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(folder.path("")).output().unwrap();
    assert_eq!(piped.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&piped.stderr), sentence.replace("trace.csv", "/dev/stdin"));
    let one = folder.run(&["replay", "tiny.toml", "trace.csv", "--stream", "1", "--json"]).json();
    assert_eq!((&one["requests"], &one["replay"]["other_devices"]), (&100.into(), &200.into()));
}

/// fio's spelling and ours do the same.
#[test]
fn options_are_spelled_with_hyphens_and_as_fio_spells_them() {
    let run = |ios: &str, depth: &str| {
        outcome(
            &Folder::with_drive(),
            &["run", "tiny.toml", "--rw=randread", ios, "70", depth, "3", "--json"],
        )
    };
    let ours = run("--number-ios", "--iodepth");
    assert_eq!(ours.0, 0, "{}", ours.2);
    assert_eq!(run("--number_ios", "--iodepth"), ours);
    let help = Folder::new().run(&["run", "--help"]).answer();
    assert!(help.contains("--number-ios <1000000>") && help.contains("[alias: --number_ios]"), "{help}");
    assert!(!options(&Folder::new(), "run").iter().any(|option| option.contains('_')), "{help}");
}

#[test]
fn several_overrides_stand_behind_one_set_and_help_is_a_command() {
    let folder = Folder::with_drive();
    let shown = |words: &[&str]| folder.run(&[&["show"], words].concat()).answer();
    let apart = shown(&["tiny.toml", "--set", "ftl.victim=fifo", "--set", "media.ways=1"]);
    assert_eq!(shown(&["tiny.toml", "--set", "ftl.victim=fifo", "media.ways=1"]), apart);
    assert_eq!(shown(&["--set", "ftl.victim=fifo", "media.ways=1", "tiny.toml"]), apart);
    assert_eq!(shown(&["--set=ftl.victim=fifo", "media.ways=1", "tiny.toml"]), apart);
    let compare = ["compare", "--set", "precondition.fill=0.5", "tiny.toml", "tiny.toml,ftl.victim=fifo"];
    folder.run(&[&compare[..], &["--rw", "read", "--number-ios", "10"]].concat()).answer();
    assert_eq!(folder.run(&["help", "run"]).answer(), folder.run(&["run", "--help"]).answer());
    assert_eq!(folder.run(&["help"]).answer(), folder.run(&["--help"]).answer());
}

#[test]
fn a_key_of_another_table_is_suggested() {
    let folder = Folder::with_drive();
    for (set, meant) in [
        ("victim=fifo", "(did you mean ftl.victim or host.ftl.victim or kv.victim?)"),
        ("ftl.static_gap=5", "(did you mean ftl.wear.static_gap?)"),
        ("media.clock_mhz=5", "(did you mean firmware.clock_mhz?)"),
    ] {
        let done = folder.run(&["show", "tiny.toml", "--set", set]);
        assert_eq!(done.status, 2);
        assert!(done.stderr.contains(meant), "{}", done.stderr);
    }
}

/// Sizes, shares and times are written alike everywhere; a number that cannot be meant is refused with what is meant most likely.
#[test]
fn one_grammar_of_units() {
    let folder = Folder::with_drive();
    let run = |more: &[&str]| {
        folder.run(&[&["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--json"], more].concat())
    };
    let bytes = |bs: &str| run(&["--bs", bs]).json()["directions"]["read"]["bytes"].clone();
    for (bs, each) in [("16KiB", 16_384), ("16k", 16_384), ("0.5MiB", 524_288)] {
        assert_eq!(bytes(bs), each * 10, "{bs}");
    }
    folder.write("job.fio", "[a]\nrw=read\nbs=4ki\nblockalign=512\nnumber_ios=10\n");
    for (words, said) in [
        (
            &["--set", "ftl.over_provisioning=20"][..],
            "(did you mean 20%?); allowed: a share such as \"20%\" or 0.2",
        ),
        (&["--set", "media.timing.erase=3"], "(did you mean 3us or 3ms?); allowed: a duration such as"),
        (&["--set", "media.timing.read=[50]"], "media.timing.read"),
        (&["--bs", "16KB"], "a size such as 4096, 4k, 16KiB"),
        (&["--runtime", "5"], "a time with its unit, such as 5s"),
        (&["--thinktime", "100"], "a time with its unit, such as 100us"),
        (&["--kb-base", "1000"], "only in a job file of fio"),
        (
            &["--wait-for", "nobody"],
            "--wait-for: wait_for = nobody: unknown; allowed: none: no job stands before",
        ),
        (&["--random-distribution", "normal:101%"], "normal:deviation% from 0.001 to 100"),
    ] {
        let done = run(words);
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    let shown = |set: &str| folder.run(&["show", "tiny.toml", "--set", set]).answer();
    assert_eq!(shown("ftl.over_provisioning=50%"), shown("ftl.over_provisioning=0.5"));
    assert_eq!(shown("precondition.fill=90%"), shown("precondition.fill=0.9"));
    assert!(shown("ftl.over_provisioning=690%").contains("over_provisioning = \"690%\""));
    let done = folder.run(&["run", "tiny.toml", "job.fio"]);
    assert!(!done.stderr.contains("a size such as"), "fio's own words: {}", done.stderr);
}
