//! Work that is done: reports, logs, comparison, descriptions.

use crate::common::{Folder, project, repeatable, run_in};
use serde_json::json;

#[test]
fn a_benchmark_runs_small_and_repeats() {
    let run = || {
        let words =
            ["run", "bench/random-read.toml", "--number-ios", "2000", "--json", "--set", "media.blocks=32"];
        let sets = ["--set", "ftl.over_provisioning=0.3"];
        run_in(project(), &[&words[..], &sets].concat()).json()
    };
    let first = run();
    assert_eq!(first["requests"], 2000);
    assert_eq!(first["directions"]["read"]["errors"], 0);
    assert!(first["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(first["requests_per_wall_second"].as_f64().unwrap() > 0.0);
    assert!(first["peak_memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert_eq!(
        first["workload"]["command_line"],
        "pellucid run bench/random-read.toml --number-ios 2000 --json --set media.blocks=32 \
         --set ftl.over_provisioning=0.3"
    );
    let words =
        ["run", "bench/random-write.toml", "--number-ios", "20000", "--json", "--set", "media.blocks=32"];
    let written = run_in(project(), &words).json();
    assert_eq!((&written["requests"], &written["directions"]["write"]["errors"]), (&20000.into(), &0.into()));
    assert!(
        written["write_amplification"]["total"].as_f64().unwrap() > 1.5,
        "the drive was not preconditioned"
    );
    assert_eq!(repeatable(first), repeatable(run()));
}

#[test]
fn text_says_what_was_done_without_control_characters() {
    let folder = Folder::with_drive();
    let done = folder.run(&[
        "run",
        "tiny.toml",
        "--rw",
        "randrw",
        "--iodepth",
        "4",
        "--number-ios",
        "500",
        "--verify",
        "--precondition",
        "fill",
        "--quiet",
    ]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    assert!(done.stdout.starts_with("run  tiny  <  randrw bs=4k iodepth=4\n\ntiny  "), "{}", done.stdout);
    assert!(done.stdout.contains("where reads wait"), "{}", done.stdout);
    assert!(done.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{}", done.stdout);
}

/// A trim of a part of a mapping unit programs the unit again, although the host writes nothing.
#[test]
fn what_trims_program_is_told() {
    let folder = Folder::with_drive();
    let trims = ["run", "tiny.toml", "--rw", "randtrim", "--bs", "512", "--number-ios", "500"];
    let done = folder
        .run(&[&trims[..], &["--precondition", "fill", "--set", "buffer.entries=16", "--quiet"]].concat());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let told = done.stdout.split_once("where writes went   host ").map(|(_, rest)| rest);
    assert!(told.is_some_and(|told| told.contains("programmed; the host wrote nothing")), "{}", done.stdout);
}

#[test]
fn keys_apply_to_every_job_and_a_seed_changes_the_run() {
    let folder = Folder::with_drive();
    let run = |more: &[&str]| {
        let words = ["run", "tiny.toml", "--bs", "8k", "--number-ios=300", "--json"];
        let jobs = ["--job", "rw=randwrite,iodepth=2", "--job", "rw=randread,number_ios=200"];
        repeatable(folder.run(&[&words[..], &jobs, more].concat()).json())
    };
    let report = run(&[]);
    let directions = &report["directions"];
    assert_eq!(
        (&directions["write"]["requests"], &directions["read"]["requests"]),
        (&300.into(), &200.into())
    );
    assert_eq!(directions["write"]["bytes"], 300 * 8192);
    assert_eq!(run(&["--seed", "7"])["seeds"]["workload"], 7);
    assert_ne!(run(&["--seed", "7"])["directions"], *directions);
}

#[test]
fn switches_take_no_value_and_hyphens_are_accepted() {
    let folder = Folder::with_drive();
    let words =
        ["run", "--time_based", "tiny.toml", "--rw=write", "--runtime", "20ms", "--end-fsync", "--json"];
    let report = folder.run(&words).json();
    assert_eq!(report["directions"]["flush"]["requests"], 1);
    assert!(report["simulated_seconds"].as_f64().unwrap() >= 0.02);
}

#[test]
fn a_fio_file_runs_and_its_notices_name_lines() {
    let folder = Folder::with_drive();
    folder.write("job.fio", "[global]\nioengine=libaio\nbs=4k\n[one]\nrw=randread\nio_size=400k\n");
    let done = folder.run(&["run", "tiny.toml", "job.fio", "--json"]);
    assert!(done.stderr.starts_with("job.fio: line 2: ioengine=libaio: ignored: "), "{}", done.stderr);
    assert_eq!(done.json()["requests"], 100);
    assert_eq!(folder.run(&["run", "tiny.toml", "job.fio", "--json", "--quiet"]).stderr, "");
}

/// A pipe delivers a trace or a description only once.
#[test]
fn traces_and_descriptions_may_come_through_a_pipe() {
    let folder = Folder::with_drive();
    // More than is looked at to recognise it.
    let line = |i: u64| format!("{},host,0,Read,{},4096,0\n", 1_000 * i, 4096 * (i % 100));
    folder.write("trace.csv", &(0..12_000).map(line).collect::<String>());
    let piped = |file: &str, words: &str| {
        let command = format!("cat {file} | {} {words}", env!("CARGO_BIN_EXE_pellucid"));
        std::process::Command::new("sh").args(["-c", &command]).current_dir(folder.path("")).output().unwrap()
    };
    let report = piped("trace.csv", "replay tiny.toml /dev/stdin --json");
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["replay"]["records"], 12_000);
    let two = piped("trace.csv", "compare tiny.toml tiny.toml,ftl.victim=fifo --trace /dev/stdin");
    assert_eq!(two.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&two.stderr),
        "error: /dev/stdin: it can be read only once, and not by each drive; allowed: a file\n"
    );
    let shown = piped("tiny.toml", "show /dev/stdin --json");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
}

#[test]
fn a_replay_writes_report_and_log() {
    let folder = Folder::with_drive();
    let lines: String = (0..200u64)
        .map(|i| {
            format!("{},host,0,{},{},4096,0\n", i * 10_000, ["Write", "Read"][i as usize % 2], i / 2 * 4096)
        })
        .collect();
    folder.write("trace.csv", &lines);
    let words = ["replay", "tiny.toml", "trace.csv", "--report", "out", "--log", "log.csv", "--verify"];
    let answer = folder.run(&words).answer();
    assert!(answer.starts_with("replay  tiny  <  trace.csv\n\n"), "{answer}");
    assert!(answer.contains("\nreport              out/index.html  (JSON and CSV beside it)\n"), "{answer}");
    assert!(
        answer.contains("\nnext:  pellucid compare tiny.toml jasmine --trace trace.csv --address fold\n"),
        "{answer}"
    );
    let json = std::fs::read_to_string(folder.path("out/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["requests"], 200);
    assert!(std::fs::read_to_string(folder.path("out/index.html")).unwrap().starts_with("<!"));
    assert!(std::fs::read_to_string(folder.path("out/series.csv")).unwrap().lines().count() > 1);
    assert_eq!(std::fs::read_to_string(folder.path("log.csv")).unwrap().lines().count(), 201);
    let limited =
        folder.run(&["replay", "tiny.toml", "trace.csv", "--limit", "50", "--closed-loop", "4", "--json"]);
    assert_eq!(limited.json()["requests"], 50);
}

#[test]
fn the_example_trace_replays_on_the_main_preset() {
    let trace = "examples/cloudphysics.csv.zst";
    let report = run_in(project(), &["replay", "cosmos-plus", trace, "--json", "--limit", "20000"]).json();
    assert_eq!(report["requests"], 20_000);
    for direction in ["read", "write"] {
        assert_eq!(report["directions"][direction]["errors"], 0, "{direction}");
    }
}

#[test]
fn drives_are_compared_side_by_side() {
    let folder = Folder::with_drive();
    let drives = ["compare", "tiny.toml", "tiny.toml,media.timing.read=\"100us\""];
    let work = ["--rw", "randread", "--number-ios", "500", "--set", "precondition.fill=1.0"];
    let text = folder.run(&[&drives[..], &work, &["--report", "out"]].concat()).answer();
    assert!(text.contains("  read=50us  ") && text.contains("  read=100us\n"), "{text}");
    assert!(text.contains("read mean") && text.contains(" % worse\n"), "{text}");
    assert!(folder.path("out/read=100us/report.json").exists());
    let page = std::fs::read_to_string(folder.path("out/index.html")).unwrap();
    assert!(page.contains("<a href=\"read=100us/index.html\">read=100us</a>"), "{page}");
    assert!(page.contains("Read latency, all drives"), "{page}");
    let compared: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("out/compare.json")).unwrap()).unwrap();
    assert_eq!(compared[0]["overrides"], json!({"precondition.fill": "1.0"}));
    assert_eq!(compared[1]["overrides"]["drive.media.timing.read"], "[\"100us\"]");
    let reports = folder.run(&[&drives[..], &work, &["--json"]].concat()).json();
    let mean = |i: usize| reports[i]["directions"]["read"]["latency"]["mean_ns"].as_f64().unwrap();
    assert!(mean(1) > mean(0) * 1.5, "{} {}", mean(0), mean(1));
    assert_eq!(folder.run(&["compare", "tiny.toml"]).status, 2);
}

#[test]
fn a_drive_that_fails_is_named_and_the_others_are_compared() {
    let folder = Folder::with_drive();
    let failing = "tiny.toml,media.faults.program_fail=1,drive.name=weak";
    let work = ["--rw", "randread", "--number-ios", "300", "--report", "out"];
    let done =
        folder.run(&[&["compare", failing, "tiny.toml", "tiny.toml,ftl.victim=fifo"], &work[..]].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stdout.contains("victim=greedy") && done.stdout.contains("victim=fifo"), "{}", done.stdout);
    let last = done.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: 1 of 3 drives failed: weak: "), "{}", done.stderr);
    let compared: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("out/compare.json")).unwrap()).unwrap();
    assert_eq!(compared[0]["drive"]["name"], "weak");
    assert!(compared[0]["error"].is_string() && compared[1]["requests"] == 300, "{compared}");
    assert!(std::fs::read_to_string(folder.path("out/index.html")).unwrap().contains("weak failed:"));
    let done = folder.run(&[&["compare", failing, failing], &work[..]].concat());
    assert_eq!((done.status, done.stdout.as_str()), (1, ""));
    assert!(done.stderr.starts_with("error: all 2 drives failed: weak: "), "{}", done.stderr);
}

#[test]
fn a_comparison_says_where_requests_were_widened() {
    let folder = Folder::with_drive();
    let line = |i: u64| format!("{},host,0,Read,{},512,0\n", i * 10_000, i * 512);
    folder.write("trace.csv", &(0..100).map(line).collect::<String>());
    let drives = ["compare", "tiny.toml", "tiny.toml,media.sector_size=4096,drive.name=large"];
    let text = folder.run(&[&drives[..], &["--trace", "trace.csv"]].concat()).answer();
    let note =
        "note: on large, 100 of 100 requests of the trace were widened to whole sectors of 4,096 bytes\n";
    assert!(text.contains(note), "{text}");
    assert!(!text.contains("note: on tiny"), "{text}");
}

#[test]
fn a_shown_description_shows_the_same_again() {
    let folder = Folder::new();
    let shown = folder.run(&["show", "cosmos-plus", "--set", "ftl.victim=fifo"]).answer();
    assert!(shown.contains("victim = \"fifo\"") && shown.contains("--set"), "{shown}");
    folder.write("again.toml", &shown);
    assert_eq!(folder.run(&["show", "again.toml"]).answer(), shown);
    let entries = folder.run(&["show", "again.toml", "--json"]).json();
    let victim = entries.as_array().unwrap().iter().find(|entry| entry["key"] == "drive.ftl.victim").unwrap();
    assert_eq!(victim["value"], "\"fifo\"");
}

#[test]
fn the_geometry_of_namespaces_is_shown() {
    let folder = Folder::new();
    for (name, lines) in [
        (
            "open-channel",
            "# namespace 0: open-channel, 137438953472 B (128.0 GiB)\n\
             #   16 groups x 8 parallel units x 64 chunks x 4096 sectors of 4096 B\n\
             #   ws_min 16, ws_opt 16, mw_cunits 0 sectors; open chunks any number, of a parallel unit any number\n\n[drive]\n",
        ),
        (
            "zoned",
            "# namespace 0: zoned, 99857989632 B (93.0 GiB)\n\
             #   496 zones of 65536 sectors of 4096 B, 49152 of them writable\n\
             #   open zones at most 14, active zones at most 14, longest append 48 sectors\n\n[drive]\n",
        ),
    ] {
        let shown = folder.run(&["show", name]).answer();
        assert!(shown.starts_with(lines), "{shown}");
        folder.write("again.toml", &shown);
        assert_eq!(folder.run(&["show", "again.toml"]).answer(), shown, "{name}");
    }
}

#[test]
fn presets_are_listed_and_all_can_be_shown() {
    let folder = Folder::new();
    let presets = folder.run(&["presets", "--json"]).json();
    let text = folder.run(&["presets"]).answer();
    for preset in presets.as_array().unwrap() {
        let name = preset["name"].as_str().unwrap();
        assert!(text.contains(name));
        let shown = folder.run(&["show", name]).answer();
        assert!(
            shown.lines().find(|line| !line.starts_with('#') && !line.is_empty()) == Some("[drive]"),
            "{name}"
        );
    }
    assert!(presets.as_array().unwrap().len() >= 7);
}

/// Each option of `pellucid fault` asks the server for what it says.
#[test]
fn faults_are_asked_for_as_they_were_told() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new();
    let listener = std::os::unix::net::UnixListener::bind(folder.path("control")).unwrap();
    let asked = std::thread::spawn(move || {
        let answer = |stream: std::io::Result<std::os::unix::net::UnixStream>| {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            stream.get_mut().write_all(b"{\"ok\":true}\n").unwrap();
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        };
        listener.incoming().take(10).map(answer).collect::<Vec<_>>()
    });
    let mut expected = Vec::new();
    for (words, request) in [
        (&["--kill-die", "5"][..], json!({"do": "damage", "what": "kill-die", "die": 5})),
        (
            &["--slow-die", "0", "--factor", "2.5"],
            json!({"do": "damage", "what": "slow-die", "die": 0, "factor": 2.5}),
        ),
        (&["--slow-die", "5x20"], json!({"do": "damage", "what": "slow-die", "die": 5, "factor": 20.0})),
        (
            &["--bit-errors", "--factor", "100"],
            json!({"do": "damage", "what": "bit-errors", "factor": 100.0}),
        ),
        (
            &["--bit-errors", "3", "--factor", "0"],
            json!({"do": "damage", "what": "bit-errors", "die": 3, "factor": 0.0}),
        ),
        (&["--fail-programs", "4"], json!({"do": "damage", "what": "fail-programs", "count": 4})),
        (&["--fail-erases", "2"], json!({"do": "damage", "what": "fail-erases", "count": 2})),
        (&["--wear-out"], json!({"do": "damage", "what": "wear-out"})),
        (
            &["--program-fail", "0.5", "--read-fail", "0"],
            json!({"do": "faults", "program_fail": 0.5, "read_fail": 0.0}),
        ),
        (
            &["--erase-fail", "1", "--drive", "two"],
            json!({"do": "faults", "erase_fail": 1.0, "drive": "two"}),
        ),
    ] {
        let done = folder.run(&[&["fault", "--control", "control"], words].concat());
        assert_eq!(done.json(), json!({"ok": true}), "{words:?}");
        expected.push(request);
    }
    assert_eq!(asked.join().unwrap(), expected);
    for words in [
        &["--slow-die", "3"][..],
        &["--slow-die", "3x"],
        &["--slow-die", "3x2", "--factor", "2"],
        &["--bit-errors"],
        &["--kill-die", "x"],
        &["--kill-die", "1", "--wear-out"],
        &["--wear-out", "--read-fail", "0.1"],
        &["--factor", "2"],
        &["--kill-die", "1", "--factor", "2"],
        &["--slow-die", "1", "--factor", "nan"],
        &["--slow-die", "1", "--factor", "-1"],
    ] {
        let done = folder.run(&[&["fault", "--control", "control"], words].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
    }
}

/// A drive that the server does not have was asked for wrongly; a drive that fails to do what is asked was not.
#[test]
fn an_answer_says_whether_it_was_asked_wrongly() {
    use std::io::{BufRead, BufReader, Write};
    let folder = Folder::new();
    for (answer, status) in [("drive: nosuch; allowed: one, two", 2), ("the drive has no power", 1)] {
        let socket = format!("control{status}");
        let listener = std::os::unix::net::UnixListener::bind(folder.path(&socket)).unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            stream.read_line(&mut String::new()).unwrap();
            writeln!(stream.get_mut(), "{{\"error\":\"{answer}\"}}").unwrap();
        });
        let done = folder.run(&["power-cut", "--control", &socket, "--drive", "nosuch"]);
        assert_eq!(done.status, status, "{}", done.stderr);
        server.join().unwrap();
    }
}

/// Each line of the log is an event in the format asked for, whichever part writes it. A key of a description that a server ignores
/// is one.
#[test]
fn all_that_a_server_says_is_in_the_format_asked_for() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::with_drive();
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_pellucid"))
        .args(["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:socket", "--monitor", "0"])
        .args(["--log-format", "json"])
        .current_dir(folder.path(""))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = Vec::new();
    for line in BufReader::new(server.stderr.take().unwrap()).lines() {
        events.push(line.unwrap());
        if events.last().is_some_and(|line| line.contains("monitor")) {
            break;
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let events = events.iter().map(|line| serde_json::from_str::<serde_json::Value>(line));
    let events: Vec<_> = events.map(|event| event.unwrap_or_default()["event"].clone()).collect();
    assert_eq!(events, ["listening", "not-preconditioned", "listening"]);
}

/// `-` is the standard input for descriptions, traces and job files.
#[test]
fn a_dash_is_the_standard_input() {
    let folder = Folder::with_drive();
    let description = std::fs::read_to_string(folder.path("tiny.toml")).unwrap();
    let trace: String = (0..20u64)
        .map(|i| format!("{},host,0,Read,{},4096,0\n", 128_166_372_000_000_000 + i * 10_000, i * 4096))
        .collect();
    let cases = [
        (&["run", "-", "--rw", "read", "--number-ios", "20", "--json"][..], description.as_str()),
        (&["replay", "tiny.toml", "-", "--json"], &trace),
        (&["run", "tiny.toml", "-", "--json"], "[a]\nrw=read\nnumber_ios=20\nbs=4k\n"),
    ];
    for (words, text) in cases {
        let report = folder.run_with_input(words, text).json();
        assert_eq!(report["requests"], 20, "{words:?}");
    }
    // Read once, resolved twice.
    let made =
        folder.run_with_input(&["age", "-", "--overwrite", "1", "-o", "a.pellucid", "--json"], &description);
    assert_eq!(made.json()["image"], "a.pellucid");
}

#[test]
fn jobs_of_one_name_are_numbered() {
    let folder = Folder::with_drive();
    let jobs = [
        "--job",
        "name=a,rw=read",
        "--job",
        "name=a,rw=read",
        "--job",
        "name=b,rw=read",
        "--job",
        "name=a,rw=read",
    ];
    let words = ["run", "tiny.toml", "--number-ios", "10", "--json"];
    let report = folder.run(&[&words[..], &jobs].concat()).json();
    let names: Vec<&str> =
        report["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "a (2)", "b", "a (3)"]);
}

#[test]
fn job_keys_without_effect_are_named() {
    let folder = Folder::with_drive();
    let warnings = |more: &[&str]| {
        let words = ["run", "tiny.toml", "--number-ios", "10", "--runtime", "1s"];
        let done = folder.run(&[&words[..], more].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        let about = done.stderr.lines().filter(|line| line.contains(" has no effect: "));
        about.map(|line| format!("{line}\n")).collect::<String>()
    };
    for (given, told) in [
        (
            &["--rw", "read", "--rwmixread", "70"][..],
            "--rwmixread: rwmixread has no effect: rw does not mix reads and writes",
        ),
        (
            &["--rw", "read", "--percentage-random", "70"],
            "--percentage-random: percentage_random has no effect: rw is sequential",
        ),
        (&["--rw", "randread", "--fsync", "8"], "--fsync: fsync has no effect: rw has no writes"),
        (
            &["--rw", "read", "--thinktime-blocks", "8"],
            "--thinktime-blocks: thinktime_blocks has no effect: there is no thinktime",
        ),
        (
            &["--rw", "read", "--rate-process", "poisson"],
            "--rate-process: rate_process has no effect: there is neither rate nor rate_iops",
        ),
        (
            &["--rw", "read", "--bs", "8k", "--bssplit", "4k/60:64k/40"],
            "--bs: bs has no effect: bssplit takes precedence",
        ),
        (
            &["--rw", "read", "--io-size", "8k", "--time-based"],
            "--io-size: io_size has no effect: time_based goes on until runtime is over",
        ),
        (
            &["--rw", "read", "--offset-increment", "64k"],
            "--offset-increment: offset_increment has no effect: numjobs is 1",
        ),
        (
            &["--rw", "read", "--plids", "0"],
            "--plids: plids has no effect: writes carry no placement handles",
        ),
    ] {
        assert_eq!(warnings(given), format!("warning: {told}\n"), "{given:?}");
    }
    for fine in [
        &["--rw", "rw", "--rwmixread", "70"][..],
        &["--rw", "randrw", "--percentage-random", "70", "--fsync", "8", "--norandommap"],
        &[
            "--rw",
            "read",
            "--thinktime",
            "1us",
            "--thinktime-blocks",
            "8",
            "--rate",
            "1g",
            "--rate-process",
            "poisson",
        ],
    ] {
        assert_eq!(warnings(fine), "", "{fine:?}");
    }
}

/// A disk has no flash, and a zero would say that it had and did nothing with it.
#[test]
fn a_disk_reports_nothing_of_flash() {
    let folder = Folder::with_drive();
    let work = ["--rw", "randwrite", "--bs", "4k", "--number-ios", "50"];
    let of_disk = folder.run(&[&["run", "wd1502faex", "--json"], &work[..]].concat()).json();
    for section in ["write_amplification", "gc", "wear", "media"] {
        assert!(of_disk[section].is_null(), "{section}: {}", of_disk[section]);
    }
    let text = folder.run(&[&["run", "wd1502faex"], &work[..]].concat()).answer();
    assert!(!text.contains("programmed per host byte") && !text.contains("erases"), "{text}");
    let of_flash = folder.run(&[&["run", "tiny.toml", "--json"], &work[..]].concat()).json();
    assert_eq!(of_flash["write_amplification"]["host_written_bytes"], 50 * 4096);
    let both = folder.run(&[&["compare", "wd1502faex", "tiny.toml"], &work[..]].concat()).answer();
    assert!(both.contains("write amplification"), "{both}");
}

#[test]
fn file_servers_run_on_disks_and_on_flash() {
    let folder = Folder::with_drive();
    for drive in ["wd1502faex", "tiny.toml"] {
        let files = ["--nfiles", "20", "--meanfilesize", "16k", "--nthreads", "4", "--page-cache", "1m"];
        let words = [&["run", drive, "--rw", "varmail", "--runtime", "500ms", "--json"], &files[..]].concat();
        let report = folder.run(&words).json();
        assert!(report["requests"].as_u64().unwrap() > 10, "{drive}: {report}");
    }
}

/// Work without a request is no work, whatever asks for it, and no table says otherwise.
#[test]
fn work_without_a_request_fails() {
    let folder = Folder::with_drive();
    folder.write(
        "notices.txt",
        "  8,0    0        1     0.0  1 UT   N [fio] 1\n  8,0    0        2     0.1  1  P   N [fio]\n",
    );
    folder.write("names.csv", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n");
    folder.write("empty.csv", "1,h,0,Read,0,0,0\n");
    let refused = |words: &[&str], said: &str| {
        let done = folder.run(words);
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(!done.stdout.contains("measured"), "{}", done.stdout);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    };
    for trace in ["notices.txt", "names.csv"] {
        refused(&["replay", "tiny.toml", trace], "no request in the trace");
        refused(&["run", "tiny.toml", "--set", &format!("run.trace={trace}")], "no request in the trace");
        refused(&["compare", "tiny.toml", "tiny.toml", "--trace", trace], "no request in the trace");
    }
    refused(&["replay", "tiny.toml", "empty.csv"], "nothing was measured");
    refused(&["compare", "tiny.toml", "tiny.toml", "--trace", "empty.csv"], "nothing was measured");
    let ramp = ["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--ramp-time", "10s"];
    refused(&ramp, "nothing was measured: 10 requests were done, all before the measurement began");
    refused(&["age", "tiny.toml", "--fill", "0", "-o", "new.pellucid"], "nothing is written");
    assert!(!folder.path("new.pellucid").exists());
    let done = folder.run_with_input(&["replay", "tiny.toml", "/dev/stdin", "--format", "msr"], "");
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn a_trace_with_names_replays_and_ages_a_drive() {
    let folder = Folder::with_drive();
    let line =
        |i: u64| format!("{},128166372003{},hm,1,Write,{},4096,100\n", i, 100_000 + i * 1000, i % 300 * 4096);
    let names = ",Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    folder.write("pandas.csv", &(names.to_owned() + &(0..500).map(line).collect::<String>()));
    let replay =
        |more: &[&str]| folder.run(&[&["replay", "tiny.toml", "pandas.csv", "--json"], more].concat()).json();
    assert_eq!(replay(&[])["requests"], 500);
    let columns = "csv:time=Timestamp,op=Type,offset=Offset,size=Size,unit=100ns";
    assert_eq!(replay(&["--format", columns])["directions"], replay(&["--format", "msr"])["directions"]);
    let repeated = replay(&["--repeat", "4"]);
    assert_eq!((&repeated["requests"], &repeated["replay"]["records"]), (&2000.into(), &2000.into()));
    let text = std::fs::read_to_string(folder.path("pandas.csv")).unwrap();
    let piped = ["replay", "tiny.toml", "-", "--repeat", "2", "--json"];
    assert_eq!(folder.run_with_input(&piped, &text).json()["requests"], 1000);
}

/// Commands that a replay proposes work as they are printed.
#[test]
fn the_hints_work_as_they_are_printed() {
    let folder = Folder::with_drive();
    // Beyond the end of the drive.
    let line = |i: u64| format!("{},h,0,Read,{},4096,0\n", i * 1000, i * 400_000);
    folder.write("a trace.csv", &(0..50).map(line).collect::<String>());
    for options in [
        &["--set", "run.address=fold", "--set", "ftl.victim=fifo"][..],
        &["--address", "fold", "--limit", "20"],
    ] {
        let words = [&["replay", "tiny.toml", "a trace.csv"], options].concat();
        let text = folder.run(&words).answer();
        let (_, hints) = text.split_once("next:").expect("hints");
        let hints: Vec<&str> = hints.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(hints.len(), 3, "{text}");
        for hint in hints {
            let script = hint.replacen("pellucid ", "\"$0\" ", 1);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_pellucid")]).current_dir(folder.path(""));
            let done = shell.output().unwrap();
            assert!(done.status.success(), "{hint}: {}", String::from_utf8_lossy(&done.stderr));
        }
        std::fs::remove_dir_all(folder.path("report")).unwrap();
    }
}

/// A run that verifies says what it compared; one without says nothing of it.
#[test]
fn a_run_that_verifies_says_how_many_reads_it_compared() {
    let folder = Folder::with_drive();
    let words = ["run", "tiny.toml", "--rw", "randrw", "--bs", "4k", "--number-ios", "400"];
    let text = folder.run(&[&words[..], &["--verify"]].concat()).answer();
    let report = folder.run(&[&words[..], &["--verify", "--json"]].concat()).json();
    let reads = report["directions"]["read"]["requests"].as_u64().unwrap();
    assert!(reads > 100 && report["verified_reads"] == reads, "{report}");
    assert!(
        text.contains(&format!("{reads} reads were compared with what was written, and all are right")),
        "{text}"
    );
    assert!(folder.run(&[&words[..], &["--json"]].concat()).json().get("verified_reads").is_none());
    let words = ["run", "tiny.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "400", "--verify"];
    let done = folder.run(&words);
    assert!(done.stderr.contains("warning: run.verify: no read was compared"), "{}", done.stderr);
    assert!(done.stdout.contains("nothing: no read was compared"), "{}", done.stdout);
}

/// Tables of nameless writes grow with the sectors that the host keeps by logical address.
#[test]
fn tables_that_outgrow_the_controllers_memory_are_told() {
    let run = |dram: &str| {
        let namespace = "drive.namespace=[{ interface = \"nameless\" }]";
        let drive = ["--set", namespace, "--set", "media.sector_size=4KiB", "--set", "media.blocks=64"];
        let more = ["--set", "host.layers=nameless-file", "--set", dram];
        let work = ["--rw", "randwrite", "--bs", "4k", "--number-ios", "2000"];
        let done = run_in(project(), &[&["run", "jasmine"][..], &drive, &more, &work].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        done.stdout + &done.stderr
    };
    let told = run("memory.dram=69000");
    assert!(told.contains("tables have grown beyond its DRAM (drive.memory): chunk tables "), "{told}");
    assert!(!run("memory.dram=1MiB").contains("grown beyond"));
}

/// Polls so rare that the drive waits for the host, whose polls wait for the drive: writes that waited too long fail, and the run ends and
/// says how many. Reads that fail within the drive hold nothing up.
#[test]
fn a_drive_whose_host_or_media_fail_answers_all_the_same() {
    let folder = Folder::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/papers/jasmine-sec341.toml");
    // So few blocks leave no less than this spare.
    let spare = "drive.namespace=[{ interface = \"nameless\", over_provisioning = 0.1858 }]";
    let work = ["run", file, "--set", "media.blocks=12", "--set", spare, "--number-ios", "60000", "--json"];
    let failing = "media.faults.read_fail=0.05";
    for (more, all) in [
        (&["--set", "host.ata.poll=100s"][..], false),
        (&["--set", "host.ata.poll=100ms"], true),
        (&["--set", "host.layers=nameless-file,block-layer", "--set", failing], true),
        (&["--set", "host.ata.address=error", "--set", "host.ata.poll=10s", "--set", failing], true),
    ] {
        let done = folder.run(&[&work[..], more].concat());
        assert_eq!(done.status, i32::from(!all), "{more:?}: {}", done.stderr);
        let told = done.stderr.contains(" of 60,000 write requests failed");
        assert_eq!(told, !all, "{more:?}: {}", done.stderr);
        assert!(!done.stdout.is_empty(), "{more:?}");
    }
}

/// A request of a trace is one command, however long it is.
#[test]
fn a_long_request_of_a_trace_is_one_command() {
    let folder = Folder::with_drive();
    folder.write("long.csv", "0,R,0,4194304\n1,W,0,2097152\n");
    let columns = "csv:time=1,op=2,offset=3,size=4,unit=us";
    let report = folder.run(&["replay", "tiny.toml", "long.csv", "--format", columns, "--json"]).json();
    assert_eq!((&report["requests"], &report["replay"]["split"]), (&2.into(), &0.into()));
}

/// Commands to try next are hints, of every command that has some.
#[test]
fn a_quiet_command_has_no_hints() {
    let folder = Folder::with_drive();
    let age = ["age", "tiny.toml", "--overwrite", "0.1", "--output", "a.pellucid", "--force"];
    for words in [&age[..], &["demo", "--force"]] {
        let told = folder.run(words).answer();
        assert!(told.contains("\nnext:  pellucid "), "{told}");
        let quiet = folder.run(&[words, &["--quiet"]].concat()).answer();
        assert!(!quiet.contains("next:"), "{quiet}");
    }
}
