//! Applications as jobs: what they report, and what is refused.

use crate::common::{Folder, repeatable};
use serde_json::{Value, json};

/// 40 MiB of flash for blocks.
const DRIVE: &str = r#"
[drive.media]
channels = 4
ways = 1
blocks = 40
pages = 64
page_size = "4KiB"
spare_size = 64
sector_size = "4KiB"
unit_size = "4KiB"
cell = "slc"
[drive.media.timing]
read = "50us"
program = "187us"
erase = "187us"
channel_rate = "200MB/s"
[drive.ftl]
gc_low = 1
over_provisioning = 0.25
durability = "volatile"
[drive.buffer]
entries = 64
write = "write-through"
retain = false
"#;

const APP: &str = r#"
[[job]]
app = "fileserver"
meanfilesize = "16k"
nthreads = 8
page_cache = "4m"
cleaner = "greedy"
warm_up = 6000
operations = 3000
"#;

fn namespace(interface: &str) -> String {
    format!("[[drive.namespace]]\ninterface = \"{interface}\"\n")
}

fn files() -> Folder {
    let folder = Folder::new();
    folder.write("block.toml", &format!("{DRIVE}[precondition]\nfill = 1\n{APP}"));
    folder.write("flash.toml", &format!("{DRIVE}{}{APP}backend = \"function\"\n", namespace("open-channel")));
    folder.write("names.toml", &format!("{DRIVE}{}virtual_share = 0.2\n{APP}", namespace("nameless")));
    folder
}

fn copied(report: &Value, by: &str) -> u64 {
    let copies = report["applications"][0]["copies"].as_array().unwrap();
    copies.iter().find(|copies| copies["by"] == by).unwrap()["bytes"].as_u64().unwrap()
}

#[test]
fn a_file_server_is_a_job_on_every_back_end() {
    let folder = files();
    let run = |name: &str| folder.run(&["run", name, "--json"]).json();
    let (block, flash, names) = (run("block.toml"), run("flash.toml"), run("names.toml"));
    for (report, backend) in [(&block, "block"), (&flash, "function"), (&names, "nameless")] {
        let app = &report["applications"][0];
        assert_eq!((&app["name"], &app["settings"]["backend"]), (&json!("fileserver"), &json!(backend)));
        let operations = app["operations"].as_u64().unwrap();
        assert_eq!(operations, 3000, "{backend}");
        let left_out = app["left_out"].as_u64().unwrap();
        assert_eq!(app["latency"]["count"], operations - left_out, "{backend}");
        let rate = (operations - left_out) as f64 / report["simulated_seconds"].as_f64().unwrap();
        assert!((app["operations_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{backend}");
        // A write of a whole file is one of eleven operations.
        let written = app["written_bytes"].as_u64().unwrap();
        assert!((2 << 20..16 << 20).contains(&written), "{backend}: {written}");
        assert!(app["programmed_bytes"].as_u64().unwrap() > written / 2, "{backend}");
        assert!(report["requests"].as_u64().unwrap() > 100, "{backend}");
        // The drive below names has data to move, the other file systems have segments to clean.
        let cleaner = if backend == "nameless" { "drive" } else { "file system" };
        assert!(copied(report, cleaner) > 0, "{backend}");
        assert_eq!(app["pauses"]["count"].as_u64().unwrap() > 0, backend != "nameless", "{backend}");
    }
    assert!(copied(&block, "drive") > 0, "the block drive collects");
    assert_eq!(copied(&flash, "drive"), 0);
    assert_eq!(repeatable(flash), repeatable(run("flash.toml")));
}

#[test]
fn an_application_stands_in_text_page_comparison_and_log() {
    let folder = files();
    let text = folder.run(&["run", "flash.toml", "--report", "page", "--log", "log.csv"]).answer();
    for line in ["fileserver          3,0", "copied     ", "cleaner pauses", "settings  "] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let page = std::fs::read_to_string(folder.path("page/index.html")).unwrap();
    assert!(page.contains("<h2>Application</h2>") && page.contains("operations / s"));
    assert!(std::fs::read_to_string(folder.path("log.csv")).unwrap().lines().count() > 100);
    let beside = folder.run(&["compare", "block.toml", "block.toml,ftl.victim=fifo"]);
    assert!(
        beside.status == 0 && beside.stdout.contains("copied by the drive"),
        "{}{}",
        beside.stdout,
        beside.stderr
    );
    let again = folder.run(&["rerun", "page"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
}

/// `fs run` is the run of such a job; in place, the model of the file system works above layers, too.
#[test]
fn a_file_system_is_run_by_its_own_command() {
    let folder = files();
    folder.write("drive.toml", DRIVE);
    folder.write(
        "layer.toml",
        &format!(
            "{DRIVE}{}[host]\nlayers = [\"host-ftl\"]\n[host.ftl]\nover_provisioning = 0.4\n",
            namespace("open-channel")
        ),
    );
    let work = ["--meanfilesize", "8k", "--warm-up", "500", "--operations", "500", "--json"];
    let own = folder.run(&[&["fs", "run", "varmail", "--drive", "drive.toml"][..], &work].concat()).json();
    let job = folder.run(&[&["run", "drive.toml", "--app", "varmail"][..], &work].concat()).json();
    assert_eq!(own["applications"][0], job["applications"][0]);
    let place = ["--filesystem", "in-place", "--size", "90%"];
    let in_place = |drive: &str| {
        let words = ["fs", "run", "varmail", "--drive", drive];
        folder.run(&[&words[..], &place, &work].concat()).json()
    };
    let (plain, layered) = (in_place("drive.toml"), in_place("layer.toml"));
    // Its files are on the media from the beginning.
    for report in [&plain, &layered] {
        assert!(
            report["workload"]["precondition"].as_str().unwrap().contains("90"),
            "{}",
            report["workload"]
        );
        assert_eq!(report["reads"]["unmapped"]["requests"], 0, "{}", report["reads"]);
    }
    assert_eq!(plain["applications"][0]["settings"]["filesystem"], "in-place");
    assert_eq!(copied(&plain, "file system"), 0);
    assert!(
        layered["applications"][0]["copies"].as_array().unwrap().len() == 3,
        "{}",
        layered["applications"][0]
    );
}

#[test]
fn what_an_application_does_not_ask_is_refused_with_its_place() {
    let folder = files();
    let wrong = |name: &str, more: &str, expected: &str| {
        let text = std::fs::read_to_string(folder.path(name)).unwrap();
        folder.write("wrong.toml", &format!("{text}{more}\n"));
        let done = folder.run(&["run", "wrong.toml"]);
        assert!(done.status == 2 && done.stderr.contains(expected), "{more}: {}", done.stderr);
        let line = text.lines().count() + 1;
        assert!(done.stderr.contains(&format!("wrong.toml:{line}")), "{more}: {}", done.stderr);
    };
    wrong("block.toml", "rw = \"read\"", "rw = read: allowed: not with app = fileserver");
    wrong("block.toml", "iodepth = 4", "iodepth = 4: allowed: not with app = fileserver");
    wrong("block.toml", "log_size = \"1m\"", "only with app = webserver");
    wrong("block.toml", "ops = \"10%\"", "only with backend = function");
    wrong("flash.toml", "segment = \"1m\"", "only on a block namespace");
    wrong(
        "block.toml",
        "backend = \"function\"",
        "function needs drive.namespace = [{ interface = \"open-channel\" }]",
    );
    wrong("flash.toml", "size = \"1g\"", "at most 33554432 bytes");
    wrong("names.toml", "size = \"50%\"", "only on blocks or flash");
    wrong("block.toml", "namespace = 3", "0: namespaces of the drive");
    let refused = |options: &[&str], expected: &str| {
        let done = folder.run(&[&["run", "block.toml"][..], options].concat());
        assert!(done.status == 2 && done.stderr.contains(expected), "{options:?}: {}", done.stderr);
    };
    refused(&["--job", "app=varmial"], "did you mean varmail?");
    let writes = ["--job", "app=varmail", "--job", "name=log,rw=write,number_ios=10"];
    refused(
        &writes,
        "rw = write: allowed: reads, or another target or namespace: its data there belong to job job1",
    );
    refused(&["--job", "rw=read,cleaner=greedy"], "cleaner = greedy: allowed: only with an app");
    for place in ["in-place", "log-structured"] {
        let job = |more: &str| format!("app=varmail,filesystem={place},{more}");
        refused(&["--job", &job("nfiles=100,meanfilesize=100g")], "nfiles = 100: allowed: at most 0 files");
        refused(&["--job", &job("meanappendsize=1t")], "meanappendsize = 1099511627776: allowed: at most 3");
    }
    refused(&["--verify"], "run.verify: allowed with app = fileserver: false");
    let large = folder.run(&["run", "memblaze", "--app", "varmail", "--size", "900g"]);
    assert!(large.status == 2 && large.stderr.contains("its data will take"), "{}", large.stderr);
}

/// Jobs of a description that are not done are told, and can be done.
#[test]
fn drives_beside_each_other_do_the_work_of_the_first_or_their_own() {
    let folder = files();
    let pair = ["compare", "block.toml", "flash.toml"];
    let first = folder.run(&pair);
    assert!(
        first.status == 0 && first.stderr.contains("flash.toml: its own jobs are left aside"),
        "{}",
        first.stderr
    );
    let own = folder.run(&[&pair[..], &["--own-jobs", "--json"]].concat()).json();
    let backend = |at: usize| own[at]["applications"][0]["settings"]["backend"].clone();
    assert_eq!([backend(0), backend(1)], [json!("block"), json!("function")], "{}", own[0]);
    for more in [&["--trace", "x.csv"][..], &["--rw", "read"]] {
        let done = folder.run(&[&pair[..], &["--own-jobs"], more].concat());
        assert!(done.status == 2 && done.stderr.contains("--own-jobs"), "{more:?}: {}", done.stderr);
    }
    let same = folder.run(&["compare", "block.toml", "block.toml,ftl.victim=fifo"]);
    assert!(!same.stderr.contains("left aside"), "{}", same.stderr);
}

#[test]
fn an_application_has_one_name_and_no_shape_of_fio() {
    let folder = files();
    for (more, expected) in [
        (&["varmail", "--app", "webserver"][..], "--app means nothing to fs"),
        (&["varmail", "--iodepth", "3"], "--iodepth means nothing to fs"),
        (&["pagerank"], "invalid value 'pagerank' for '<APP>'"),
        (&["kv"], "allowed: fileserver, webserver, varmail, tar, build"),
    ] {
        let done = folder.run(&[&["fs", "run", "--drive", "block.toml"][..], more].concat());
        assert!(done.status == 2 && done.stderr.contains(expected), "{more:?}: {}", done.stderr);
    }
    let help = folder.run(&["fs", "run", "--help"]).stdout;
    assert!(help.contains("--cleaner") && !help.contains("--iodepth") && !help.contains("--clients"));
    let done = folder.run(&["run", "block.toml", "--output-format", "json"]);
    assert!(
        done.status == 2 && done.stderr.contains("app = fileserver do not go together"),
        "{}",
        done.stderr
    );
}

/// An append is seldom so short that it has room; of a thread's operations it is the third, the fourth syncs.
#[test]
fn operations_that_are_left_out_are_no_work() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    for place in ["in-place", "log-structured"] {
        let run = |operations: &str| {
            let work = "app=varmail,nthreads=1,filled=80%,meanfilesize=16k,meanappendsize=30m,warm_up=2";
            let job = format!("{work},filesystem={place},operations={operations}");
            folder.run(&["run", "plain.toml", "--job", &job, "--json"])
        };
        let nothing = run("1");
        let expected = "all 1 operations of the measurement were left out";
        assert!(nothing.status == 1 && nothing.stderr.contains(expected), "{place}: {}", nothing.stderr);
        let report = run("2").json();
        let app = &report["applications"][0];
        assert_eq!((&app["operations"], &app["left_out"]), (&json!(2), &json!(1)), "{place}");
        assert_eq!((&app["latency"]["count"], &app["written_bytes"]), (&json!(1), &json!(0)), "{place}");
        let warning = report["warnings"][0].as_str().unwrap();
        assert!(warning.contains("50.0 % of the operations of job1 were left out"), "{place}: {warning}");
        let rate = 1.0 / report["simulated_seconds"].as_f64().unwrap();
        assert!((app["operations_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{place}");
    }
}

/// Each key is in the report with its value, given as an option.
#[test]
fn every_setting_of_an_application_has_its_effect() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let settings = |drive: &str, options: &[&str]| {
        let words = ["run", drive, "--warm-up", "100", "--operations", "300", "--json"];
        folder.run(&[&words[..], options].concat()).json()["applications"][0].clone()
    };
    let app = settings(
        "plain.toml",
        &[
            "--app",
            "webserver",
            "--backend",
            "block",
            "--cleaner",
            "greedy",
            "--cores",
            "1",
            "--cpu-operation",
            "3us",
            "--cpu-page",
            "2us",
            "--cpu-request",
            "9us",
            "--cpu-kib",
            "50ns",
            "--filled",
            "30%",
            "--meanappendsize",
            "2k",
            "--log-size",
            "64k",
            "--segment",
            "128k",
            "--open-segments",
            "2",
            "--picks",
            "together",
            "--nthreads",
            "4",
            "--page-cache",
            "8m",
        ],
    );
    for (key, value) in [
        ("backend", "block"),
        ("cleaner", "greedy"),
        ("cores", "1"),
        ("cpu_operation", "3000ns"),
        ("cpu_page", "2000ns"),
        ("cpu_request", "9000ns"),
        ("cpu_kib", "50ns"),
        ("meanappendsize", "2048"),
        ("log_size", "65536"),
        ("segment", "131072"),
        ("open_segments", "2"),
        ("picks", "together"),
        ("nthreads", "4"),
        ("page_cache", "8388608"),
    ] {
        assert_eq!(app["settings"][key], value, "{key}");
    }
    assert_eq!(app["warm_up"], 100);
    // One core, 3 us each.
    assert!(app["operations_per_second"].as_f64().unwrap() < 333_334.0);
    let open = |segments: &str| {
        let options = ["--app", "fileserver", "--segment", "128k", "--open-segments", segments];
        settings("plain.toml", &options)["operations_per_second"].clone()
    };
    assert_ne!(open("1"), open("4"));
    let more = settings("plain.toml", &["--app", "webserver", "--filled", "60%"]);
    let files = |app: &Value| app["settings"]["nfiles"].as_str().unwrap().parse::<u64>().unwrap();
    assert!((files(&app) * 2).abs_diff(files(&more)) <= 2, "{} and {}", files(&app), files(&more));
    let size =
        |ops: &str| settings("flash.toml", &["--ops", ops])["settings"]["size"].as_str().unwrap().to_string();
    assert_eq!([size("50%"), size("20%")], ["20971520", "33554432"]);
}

/// Keys of the kernel below a file system that writes in place.
#[test]
fn the_kernel_of_an_in_place_file_system_is_described() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let work = "run plain.toml --app fileserver --warm-up 0 --operations 20000 --json";
    let run_on = |filesystem: &'static str, more: &str| {
        let words = work.split(' ').chain(["--filesystem", filesystem]).chain(more.split(' '));
        let words: Vec<&str> = words.collect();
        let done = folder.run(&words);
        (done.status, done.stderr.clone(), (done.status == 0).then(|| done.json()))
    };
    let run = |more: &str| run_on("in-place", more);
    let usual = run("--cores 2").2.expect("a report");
    for (given, key, shown) in [
        ("--dirty-expire 1ms --dirty-writeback 1ms", "dirty_expire", "1000000ns"),
        ("--dirty-writeback 100us --dirty-expire 1us", "dirty_writeback", "100000ns"),
        ("--commit 1ms", "commit", "1000000ns"),
        ("--read-ahead 4k", "read_ahead", "4096"),
        ("--max-sectors 4k", "max_sectors", "4096"),
    ] {
        let report = run(given).2.expect("a report");
        assert_eq!(report["applications"][0]["settings"][key], shown, "{key}");
        assert_ne!(report["simulated_seconds"], usual["simulated_seconds"], "{key} has an effect");
    }
    for (wrong, told) in
        [("--commit 0", "1us or more"), ("--read-ahead 1k", "4k to 1g"), ("--max-sectors 2g", "4k to 1g")]
    {
        let (status, stderr, _) = run(wrong);
        assert!(status == 2 && stderr.contains(told), "{wrong}: {stderr}");
    }
    let (status, stderr, _) = run_on("log-structured", "--commit 1s");
    assert!(status == 2 && stderr.contains("only with filesystem = in-place"), "{stderr}");
    let kv = folder.run(&["run", "plain.toml", "--app", "kv", "--commit", "1s"]);
    assert!(kv.status == 2 && kv.stderr.contains("not with app = kv"), "{}", kv.stderr);
}

/// A cache on each kind of drive, with the engines of `[kv]`.
#[test]
fn a_key_value_cache_is_a_job_on_every_engine() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    folder.write("open.toml", &format!("{DRIVE}{}", namespace("open-channel")));
    let work = [
        "--app",
        "kv",
        "--clients",
        "8",
        "--think",
        "20us",
        "--set-share",
        "30%",
        "--value-size",
        "400",
        "--on-miss",
        "store",
    ];
    let run = |drive: &str, engine: &str| {
        let engine = format!("kv.engine={engine}");
        let options = ["--set", &engine, "--set", "kv.memory=1MiB", "--json", "--popularity", "zipf:0.8"];
        folder.run(&[&["run", drive][..], &work, &options].concat()).json()
    };
    for engine in ["original", "policy", "function", "raw", "direct"] {
        let report = run(if engine == "original" { "plain.toml" } else { "open.toml" }, engine);
        let app = &report["applications"][0];
        assert_eq!((&app["name"], &app["settings"]["kv.engine"]), (&json!("kv"), &json!(engine)));
        let keys: u64 = app["settings"]["nkeys"].as_str().unwrap().parse().unwrap();
        assert_eq!((&app["operations"], &app["warm_up"]), (&json!(keys), &json!(2 * keys)), "{engine}");
        let figure = |name: &str| {
            let all = app["figures"].as_array().unwrap();
            all.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_u64().unwrap()
        };
        let sets = figure("sets") as f64 / keys as f64;
        assert!(
            (0.25..0.6).contains(&sets) && figure("hits") > keys / 3,
            "{engine}: {sets}, {}",
            figure("hits")
        );
        assert!(app["programmed_bytes"].as_u64().unwrap() > 1 << 20, "{engine}");
        assert!(app["latency"]["p99_ns"].as_u64().unwrap() > 0, "{engine}");
        assert!(report["requests"].as_u64().unwrap() > 100, "{engine}");
    }
    assert_eq!(repeatable(run("open.toml", "raw")), repeatable(run("open.toml", "raw")));
    let refused = |drive: &str, options: &[&str], expected: &str| {
        let done = folder.run(&[&["run", drive, "--app", "kv"][..], options].concat());
        assert!(done.status == 2 && done.stderr.contains(expected), "{options:?}: {}", done.stderr);
    };
    refused("open.toml", &[], "kv.engine is \"original\"");
    refused("plain.toml", &["--set", "kv.engine=raw"], "kv.engine is \"raw\"");
    refused("plain.toml", &["--filled", "10%"], "filled = 10%: allowed: not with app = kv");
    refused("plain.toml", &["--popularity", "zipf:1"], "pareto:SCALE:SHAPE");
    refused("plain.toml", &["--nkeys", "3"], "a whole number from 10");
    let file = folder.run(&["run", "plain.toml", "--app", "varmail", "--clients", "3"]);
    assert!(
        file.status == 2 && file.stderr.contains("clients = 3: allowed: not with app = varmail"),
        "{}",
        file.stderr
    );
    let other =
        folder.run(&["run", "plain.toml", "--rw", "read", "--number-ios", "9", "--set", "kv.memory=1MiB"]);
    assert!(other.status == 2 && other.stderr.contains("app = kv, or pellucid kv"), "{}", other.stderr);
}

/// A copy of a tree of sources and compilers in it, on every back end and in place; a size and a rate follow from their loops.
#[test]
fn a_tree_of_sources_is_copied_and_built_on_every_file_system() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    folder.write("open.toml", &format!("{DRIVE}{}", namespace("open-channel")));
    folder.write("names.toml", &format!("{DRIVE}{}virtual_share = 0.2\n", namespace("nameless")));
    let run = |app: &str, drive: &str, more: &[&str]| {
        let words =
            ["fs", "run", app, "--drive", drive, "--warm-up", "3500", "--operations", "7000", "--json"];
        folder.run(&[&words[..], more].concat()).json()["applications"][0].clone()
    };
    for (app, threads, of_loop, written, read) in [("tar", "1", 7, 1, 1), ("build", "4", 20, 1, 4)] {
        for (drive, more) in [
            ("plain.toml", &[][..]),
            ("open.toml", &[]),
            ("names.toml", &[]),
            ("plain.toml", &["--filesystem", "in-place"]),
        ] {
            let report = run(app, drive, more);
            assert_eq!((&report["name"], &report["settings"]["nthreads"]), (&json!(app), &json!(threads)));
            assert_eq!(
                (&report["left_out"], &report["settings"]["meanappendsize"]),
                (&json!(0), &Value::Null)
            );
            let bytes = |key: &str| report[key].as_u64().unwrap() as f64;
            // Each loop writes one file and reads so many, of 7,967 bytes in the mean; sizes vary.
            let loops = 7000.0 / f64::from(of_loop) * 7967.0;
            let (wrote, got) = (bytes("written_bytes") / loops, bytes("read_bytes") / loops);
            assert!((wrote / f64::from(written) - 1.0).abs() < 0.4, "{app} on {drive} {more:?}: {wrote}");
            assert!((got / f64::from(read) - 1.0).abs() < 0.4, "{app} on {drive} {more:?}: {got}");
            assert!(report["programmed_bytes"].as_u64().unwrap() > 1 << 18, "{app} on {drive} {more:?}");
        }
    }
    let done = folder.run(&["run", "plain.toml", "--rw", "tar"]);
    assert!(done.status == 2, "{}", done.stderr);
}

/// Random graphs on both engines: what is computed does not depend on where the edges lie, how long it takes does.
#[test]
fn a_program_on_a_graph_is_a_job_on_both_engines() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    folder.write("open.toml", &format!("{DRIVE}{}", namespace("open-channel")));
    let run = |drive: &str, engine: &str, program: &str| {
        let words = ["graph", "run", program, "--drive", drive, "--engine", engine, "--json"];
        folder
            .run(&[&words[..], &["--edges", "200k", "--vertices", "9999", "--shards", "50%"]].concat())
            .json()
    };
    for program in ["pagerank", "components", "bfs", "sssp", "triangles"] {
        let (plain, policy) = (run("plain.toml", "original", program), run("open.toml", "policy", program));
        for (report, engine) in [(&plain, "original"), (&policy, "policy")] {
            let app = &report["applications"][0];
            assert_eq!((&app["name"], &app["settings"]["engine"]), (&json!(program), &json!(engine)));
            let phases: Vec<&Value> =
                app["phases"].as_array().unwrap().iter().map(|phase| &phase["phase"]).collect();
            assert_eq!(phases, ["prepare", "compute", "deliver"]);
            let seconds = |at: usize, key: &str| app["phases"][at][key].as_f64().unwrap();
            let all: f64 = (0..3).map(|at| seconds(at, "seconds")).sum();
            assert!((all / report["simulated_seconds"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{program}");
            assert!(seconds(0, "busy_seconds") > 0.0 && seconds(0, "busy_seconds") <= seconds(0, "seconds"));
            // Edges are written as runs of 8 bytes, and once more as shards.
            let written = app["written_bytes"].as_u64().unwrap();
            assert!(written > 200 * 1024 * 8, "{program}: {written}");
            assert!(app["programmed_bytes"].as_u64().unwrap() > written / 2, "{program}");
            assert!(app["operations"].as_u64().unwrap() > 0 && report["requests"].as_u64().unwrap() > 20);
        }
        assert_eq!(plain["applications"][0]["result"], policy["applications"][0]["result"], "{program}");
        assert_ne!(plain["applications"][0]["phases"], policy["applications"][0]["phases"], "{program}");
    }
    let ranks = run("open.toml", "policy", "pagerank");
    assert_eq!(repeatable(ranks), repeatable(run("open.toml", "policy", "pagerank")));
}

/// A drive owes no order to commands under way: what is read was written before. Jasmine's reads overtake writes.
#[test]
fn a_graph_is_read_as_it_was_written_on_a_drive_that_reorders() {
    let folder = files();
    let result = |drive: &[&str]| {
        let words = ["graph", "run", "pagerank", "--edges", "1m", "--iterations", "2", "--json", "--drive"];
        folder.run(&[&words[..], drive].concat()).json()["applications"][0]["result"].clone()
    };
    assert_eq!(
        result(&["jasmine", "--set", "media.blocks=64"]),
        result(&["memblaze", "--set", "media.blocks=64"])
    );
}

/// Values are those that the command computes of the same file in real memory.
#[test]
fn a_graph_of_a_file_has_the_values_that_the_command_computes() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let mut text = String::from("# a ring with chords, and an island\n");
    for vertex in 0..6000_u64 {
        text += &format!("{vertex}\t{}\n{vertex}\t{}\n", (vertex + 1) % 6000, vertex * 7919 % 6000);
        text += &format!(
            "{vertex}\t{}\n{}\t{}\n",
            vertex * vertex % 6000,
            6000 + vertex % 500,
            6000 + vertex % 7
        );
    }
    folder.write("edges.txt", &text);
    let job = |program: &str| {
        let words = ["graph", "run", program, "--drive", "plain.toml", "--graph", "file:edges.txt", "--json"];
        let report = folder.run(&[&words[..], &["--graph-memory", "160k"]].concat()).json();
        let number =
            |name: &str| report["applications"][0]["result"][name].as_str().unwrap().parse::<u64>().unwrap();
        assert_eq!((number("vertices"), number("edges") <= 24_000), (6500, true), "{program}");
        report["applications"][0]["result"].clone()
    };
    let command = |program: &str, more: &[&str]| {
        folder.run(&[&["graph", program, "edges.txt", "--json"][..], more].concat()).json()
    };
    for (program, name, more) in [
        ("components", "components", &[][..]),
        ("bfs", "reached", &["--from", "0"]),
        ("triangles", "triangles", &[]),
    ] {
        let (job, command) = (job(program), command(program, more));
        assert_eq!(job[name], command["count"].to_string(), "{program}: {command}");
    }
    let kept = folder.run(&[
        "graph",
        "run",
        "bfs",
        "--drive",
        "plain.toml",
        "--graph",
        "file:edges.txt",
        "--graph-memory",
        "160k",
        "--report",
        "page",
    ]);
    assert_eq!(kept.status, 0, "{}", kept.stderr);
    assert_eq!(folder.run(&["rerun", "page"]).status, 0);
    folder.write("edges.txt", "0 1\n");
    let changed = folder.run(&["rerun", "page"]);
    assert!(changed.status != 0 && changed.stderr.contains("edges.txt"), "{}", changed.stderr);
}

#[test]
fn what_a_program_on_a_graph_does_not_ask_is_refused() {
    let folder = files();
    let text = format!("{DRIVE}[[job]]\napp = \"pagerank\"\nedges = 100000\n");
    folder.write("plain.toml", &text);
    folder.write("wrong.txt", "0 1\n0 x\n");
    let line = text.lines().count() + 1;
    let wrong = |more: &str, expected: &str| {
        folder.write("wrong.toml", &format!("{text}{more}\n"));
        let done = folder.run(&["run", "wrong.toml"]);
        assert!(done.status == 2 && done.stderr.contains(expected), "{more}: {}", done.stderr);
        assert!(done.stderr.contains(&format!("wrong.toml:{line}")), "{more}: {}", done.stderr);
    };
    wrong("engine = \"policy\"", "engine = policy: allowed: with drive.namespace");
    wrong("engine = \"mapped\"", "original, policy");
    wrong("graph_memory = \"1g\"", "fits into it, so that nothing would reach the storage");
    wrong("bs = 1000", "whole sectors of 4096 bytes");
    wrong("segment = \"100k\"", "whole commands of 131072 bytes");
    wrong("shards = \"30g\"", "of storage");
    wrong("warm_up = 5", "warm_up = 5: allowed: not with app = pagerank");
    wrong("ops = \"5%\"", "only with engine = policy");
    let done = |program: &str, more: &[&str]| {
        let words = ["graph", "run", program, "--drive", "plain.toml"];
        folder.run(&[&words[..], more].concat())
    };
    for (program, more, status, expected) in [
        ("bfs", &["--from-vertex", "7000000"][..], 2, "a vertex of the graph"),
        (
            "pagerank",
            &["--vertices", "90000", "--graph-memory", "64k"],
            2,
            "graph_memory = 65536: allowed: at least",
        ),
        ("pagerank", &["--edges", "2m", "--graph-memory", "4m"], 1, "allowed: fewer edges, a larger drive"),
        ("pagerank", &["--seeds", "2", "--randseed", "3"], 2, "randseed"),
    ] {
        let done = done(program, more);
        assert!(done.status == status && done.stderr.contains(expected), "{more:?}: {}", done.stderr);
    }
    folder.write("bare.toml", DRIVE);
    for (path, expected) in [("none.txt", "none.txt"), ("wrong.txt", "line 2"), (".", "a directory")] {
        let graph = format!("file:{path}");
        let done = folder.run(&["graph", "run", "bfs", "--drive", "bare.toml", "--graph", &graph]);
        assert!(done.status == 2 && done.stderr.contains(expected), "{path}: {}", done.stderr);
    }
    folder.write("edges.txt", "0 1\n1 2\n");
    let words = ["graph", "run", "bfs", "--drive", "bare.toml", "--graph", "file:edges.txt"];
    let seeds = folder.run(&[&words[..], &["--seeds", "2"]].concat());
    assert!(seeds.status == 2 && seeds.stderr.contains("takes its work from a file"), "{}", seeds.stderr);
}

/// Each key of a program on a graph is in the report with its value, and has its effect.
#[test]
fn every_setting_of_a_graph_has_its_effect() {
    let folder = files();
    folder.write("open.toml", &format!("{DRIVE}{}", namespace("open-channel")));
    let app = |options: &[&str]| {
        let words = ["graph", "run", "pagerank", "--drive", "open.toml", "--engine", "policy", "--json"];
        let size = ["--vertices", "5000", "--edges", "100k", "--iterations", "2"];
        folder.run(&[&words[..], &size, options].concat()).json()["applications"][0].clone()
    };
    let busy = |app: &Value| {
        let phases = app["phases"].as_array().unwrap();
        phases.iter().map(|phase| phase["busy_seconds"].as_f64().unwrap()).sum::<f64>()
    };
    let usual = app(&[]);
    for (option, key, value, shown) in [
        ("--cpu-request", "cpu_request", "20us", "20000ns"),
        ("--cpu-completion", "cpu_completion", "20us", "20000ns"),
        ("--cpu-kib", "cpu_kib", "1us", "1000ns"),
        ("--cpu-sort", "cpu_sort", "200ns", "200ns"),
        ("--cpu-follow", "cpu_follow", "50ns", "50ns"),
        ("--cpu-apply", "cpu_apply", "500ns", "500ns"),
    ] {
        let dear = app(&[option, value]);
        assert_eq!(dear["settings"][key], shown);
        assert!(busy(&dear) > 1.01 * busy(&usual), "{option}: {} and {}", busy(&dear), busy(&usual));
        assert_eq!(dear["result"], usual["result"], "{option}");
    }
    for (option, key, value, shown) in [
        ("--edge-block", "edge_block", "16k", "16384"),
        ("--shards", "shards", "50%", "20971520"),
        ("--segment", "segment", "128k", "131072"),
        ("--ops", "ops", "10%", "10%"),
        ("--bs", "bs", "32k", "32768"),
        ("--iodepth", "iodepth", "2", "2"),
        ("--graph-memory", "graph_memory", "500k", "512000"),
        ("--damping", "damping", "0.5", "0.5"),
        ("--tolerance", "tolerance", "2", "2"),
        ("--graph", "graph", "power-law:1.8:1.7", "power-law:1.8:1.7"),
    ] {
        let other = app(&[option, value]);
        assert_eq!(other["settings"][key], shown);
        assert_ne!(usual["settings"][key], shown);
        // A command brings more than a block of edges here: see below.
        if !["ops", "segment", "shards", "edge_block"].contains(&key) {
            assert_ne!(
                (&other["phases"], &other["result"]),
                (&usual["phases"], &usual["result"]),
                "{option}"
            );
        }
    }
    let [small, large] =
        ["4k", "64k"].map(|bytes| app(&["--bs", "4k", "--edge-block", bytes])["phases"].clone());
    assert_ne!(small, large);
}

/// Comparison, seeds, timeline and film of a program on a graph.
#[test]
fn a_graph_stands_in_comparison_timeline_film_and_seeds() {
    let folder = files();
    let job = "[[job]]\napp = \"pagerank\"\nedges = 100000\niterations = 2\n";
    folder.write("plain.toml", &format!("{DRIVE}{job}"));
    folder.write("open.toml", &format!("{DRIVE}{}{job}engine = \"policy\"\n", namespace("open-channel")));
    let both = folder.run(&["compare", "plain.toml", "open.toml", "--own-jobs"]).answer();
    assert!(both.contains("time to prepare") && both.contains("time to compute"), "{both}");
    let options = ["--timeline", "trace.pftrace", "--film", "--report", "page"];
    let text = folder.run(&[&["run", "open.toml"][..], &options].concat()).answer();
    assert!(text.contains("phases ") && text.contains("checksum "), "{text}");
    assert!(std::fs::metadata(folder.path("trace.pftrace")).unwrap().len() > 10_000);
    let page = std::fs::read_to_string(folder.path("page/index.html")).unwrap();
    assert!(page.contains("<h3>phases</h3>") && page.contains("<h3>result</h3>"));
    let seeds = folder.run(&["run", "open.toml", "--seeds", "2"]);
    assert!(seeds.status == 0, "{}", seeds.stderr);
}

/// The requests of a trace, in the formats of `kv replay`.
#[test]
fn a_cache_takes_the_requests_of_a_trace() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let mut trace = String::new();
    for at in 0..4000 {
        let operation = if at % 2 == 0 { "set" } else { "get" };
        trace += &format!("{},key{},8,{},7,{operation},0\n", at / 100, at / 2 % 900, 500 + at % 3);
    }
    (0..3).for_each(|key| trace += &format!("40,key{key},8,0,7,delete,0\n"));
    folder.write("twitter.csv", &trace);
    let words =
        ["run", "plain.toml", "--app", "kv", "--requests", "file:twitter.csv", "--set", "kv.memory=1MiB"];
    let run = |more: &[&str]| folder.run(&[&words[..], more].concat());
    let all = run(&["--json"]).json();
    let app = &all["applications"][0];
    assert_eq!((&app["operations"], &app["warm_up"]), (&json!(4003), &json!(0)));
    let kinds = app["by_operation"].as_array().unwrap();
    let count =
        |kind: &Value| (kind["operation"].as_str().unwrap().to_owned(), kind["latency"]["count"].as_u64());
    let kinds: Vec<_> = kinds.iter().map(count).collect();
    let expected = [("hit", 2000), ("store", 2000), ("other", 3)];
    assert_eq!(kinds, expected.map(|(name, count)| (name.to_owned(), Some(count))));
    assert_eq!(app["settings"]["requests"], "file:twitter.csv");
    assert_eq!(all["provenance"]["inputs"][1]["path"], "twitter.csv", "{}", all["provenance"]["inputs"]);
    let figure = |app: &Value, name: &str| {
        let all = app["figures"].as_array().unwrap();
        all.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_u64().unwrap()
    };
    assert_eq!((figure(app, "sets"), figure(app, "hits")), (2000, 2000));
    let part = run(&["--json", "--warm-up", "1000", "--operations", "500"]).json();
    assert_eq!(
        (&part["applications"][0]["operations"], &part["applications"][0]["warm_up"]),
        (&json!(500), &json!(1000))
    );
    for (more, expected) in [
        (&["--nkeys", "50"][..], "nkeys = 50: allowed: not with requests = file:PATH"),
        (&["--warm-up", "9999"], "no request behind the warm-up"),
    ] {
        let done = run(more);
        assert!(done.status == 2 && done.stderr.contains(expected), "{more:?}: {}", done.stderr);
    }
    for (file, expected) in
        [("file:none.csv", "none.csv"), ("file:plain.toml", "requests = file:plain.toml: allowed: a trace")]
    {
        let done = folder.run(&["run", "plain.toml", "--app", "kv", "--requests", file]);
        assert!(done.status == 2 && done.stderr.contains(expected), "{file}: {}", done.stderr);
    }
}

/// Answers of a buffer take no time where the processor costs nothing; no rate is computed from them.
#[test]
fn operations_in_no_time_have_no_rate() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let work = ["--app", "kv", "--nkeys", "50", "--value-size", "100"];
    let run = |more: &[&str]| folder.run(&[&["run", "plain.toml"][..], &work, more].concat());
    let report = run(&["--json"]).json();
    assert_eq!(report["simulated_seconds"], 0.0);
    assert_eq!(report["applications"][0]["operations_per_second"], Value::Null);
    assert!(
        report["warnings"][0].as_str().unwrap().contains("took no simulated time"),
        "{}",
        report["warnings"]
    );
    let text = run(&[]).answer();
    assert!(text.contains("50 operations in no simulated time"), "{text}");
}

/// A size bounds what the log takes, on flash as on blocks; and without one, large drives get a small file system.
#[test]
fn the_size_of_a_file_system_bounds_its_log() {
    let folder = files();
    let settings = |drive: &str, more: &[&str]| {
        folder.run(&[&["run", drive, "--json"][..], more].concat()).json()["applications"][0].clone()
    };
    let half = settings("flash.toml", &["--size", "20m", "--filled", "60%"]);
    let whole =
        settings("flash.toml", &["--size", "32m", "--nfiles", half["settings"]["nfiles"].as_str().unwrap()]);
    assert_eq!((&half["settings"]["ops"], &whole["settings"]["ops"]), (&json!("50%"), &json!("20%")));
    let copied = |app: &Value| app["copies"][0]["bytes"].as_u64().unwrap();
    assert!(copied(&half) > 2 * copied(&whole), "{} and {}", copied(&half), copied(&whole));
    let both = folder.run(&["run", "flash.toml", "--size", "20m", "--ops", "10%"]);
    let said = "ops = 10%: allowed: 50% or more with this size";
    assert!(both.status == 2 && both.stderr.contains(said), "{}", both.stderr);
    assert_eq!(whole["settings"]["segment"], "262144");
    assert!(
        settings("block.toml", &[])["settings"]["segment"].as_str().unwrap().parse::<u64>().unwrap() >= 65536
    );
    let large = ["--app", "varmail", "--warm-up", "10", "--operations", "10"];
    assert_eq!(settings("memblaze", &large)["settings"]["size"], "268435456");
}

/// A cache that cannot stand on its drive is a refusal with its place, not a failure of the work.
#[test]
fn an_application_that_cannot_begin_is_refused_with_its_place() {
    let folder = files();
    let text = format!("{DRIVE}[kv]\ncapacity = \"900MiB\"\n[[job]]\napp = \"kv\"\n");
    folder.write("kv.toml", &text);
    let done = folder.run(&["run", "kv.toml"]);
    let line = text.lines().count();
    assert!(
        done.status == 2 && done.stderr.contains(&format!("kv.toml:{line}: app = kv: ")),
        "{}",
        done.stderr
    );
}

/// All write buffers are full while the flash is, and a victim that nobody reads leaves at once: stores go on with the place that it leaves.
#[test]
fn more_clients_than_a_slab_has_slots_are_answered_by_a_cache_of_few_buffers() {
    let folder = Folder::new();
    folder.write(
        "kk.toml",
        "[drive]\npreset = \"jasmine\"\n[drive.media]\nblocks = 40\npages = 16\nchannels = 1\nways = 2\n[drive.ftl]\nover_provisioning = 0.5\n",
    );
    for memory in ["2MiB", "4MiB"] {
        let kv = format!("kv.memory={memory}");
        let words = [
            "run",
            "kk.toml",
            "--app",
            "kv",
            "--operations",
            "2000",
            "--nkeys",
            "8000",
            "--value-size",
            "64k",
        ];
        let report = folder.run(&[&words[..], &["--set", &kv, "--json"]].concat()).json();
        assert_eq!(report["applications"][0]["operations"], 2000, "{memory}");
    }
}

/// A user's work: its keys have their effect, its time ends with the last answer, and what a layer holds then is drained and counted.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_users_work_is_a_job() {
    let folder = Folder::new();
    folder.write(
        "netbook.toml",
        "[drive]\npreset = \"netbook-ssd-2\"\nmedia.blocks = 1200\n\n[host]\nlayers = [\"cluster-buffer\"]\ncluster_buffer.cluster = \"1MiB\"\n",
    );
    let run = |options: &[&str]| {
        let words = ["run", "netbook.toml", "--json"];
        folder.run(&[&words[..], options].concat()).json()
    };
    let seconds =
        |report: &Value, at: usize| report["applications"][0]["phases"][at]["seconds"].as_f64().unwrap();
    let install = ["--app", "office-install", "--part", "20"];
    let ntfs = run(&[&install[..], &["--host-time", "2s"]].concat());
    let app = &ntfs["applications"][0];
    assert_eq!((&app["settings"]["volume"], &app["settings"]["part"]), (&json!("ntfs"), &json!("20")));
    assert_eq!(app["operations"], 35_055 / 20);
    assert_eq!([&app["phases"][0]["phase"], &app["phases"][1]["phase"]], ["work", "drain"]);
    assert!(seconds(&ntfs, 0) > 2.0 && seconds(&ntfs, 1) > 0.0, "{app}");
    let busy = app["phases"][0]["busy_seconds"].as_f64().unwrap();
    assert!((busy - 2.0).abs() < 1e-3, "{busy}");
    let buffer =
        ntfs["parts"].as_array().unwrap().iter().find(|part| part["part"] == "cluster-buffer").unwrap();
    let figure = |name: &str| {
        let all = buffer["figures"].as_array().unwrap();
        all.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_u64().unwrap()
    };
    assert_eq!((figure("writes"), figure("held_bytes")), (35_055 / 20, 0), "all of it is drained");
    // Neither host nor volume changes how much is asked, but when and where.
    let idle = run(&[&install[..], &["--host-time", "0"]].concat());
    assert!(seconds(&idle, 0) < seconds(&ntfs, 0) - 1.0);
    let fat = run(&[&install[..], &["--host-time", "2s", "--volume", "fat32"]].concat());
    assert_eq!(fat["applications"][0]["operations"], app["operations"]);
    assert_ne!(fat["applications"][0]["programmed_bytes"], app["programmed_bytes"]);
    let removed = |others| {
        let options = ["--app", "office-remove", "--part", "20", "--others", others];
        run(&options)["applications"][0]["written_bytes"].as_u64().unwrap()
    };
    assert_ne!(removed("0%"), removed("100%"));
    let transfers = ["--bs", "64k", "--warm-up", "3", "--operations", "40"];
    let of = |app| run(&[&["--app", app][..], &transfers].concat())["applications"][0].clone();
    let (reads, writes) = (of("atto-read"), of("atto-write"));
    assert_eq!((&reads["read_bytes"], &reads["operations"]), (&json!(40 * 65_536), &json!(40)));
    // A mebibyte of writes comes with 4 KiB of the file system.
    assert_eq!(writes["written_bytes"], 40 * 65_536 + 2 * 4096);
    for (options, told) in [
        (&["--app", "browse", "--set", "drive.media.sector_size=4096"][..], "with media.sector_size = 512"),
        (&["--app", "browse", "--set", "drive.media.blocks=900"], "which this one with"),
        (&["--part", "2", "--app", "atto-read"], "operations says how many"),
    ] {
        let words = ["run", "netbook.toml", "--json"];
        let refused = folder.run(&[&words[..], options].concat());
        assert_ne!(refused.status, 0, "{options:?}");
        assert!(refused.stderr.contains(told), "{options:?}: {}", refused.stderr);
    }
}

/// A cache that asks a database for what it misses: a slower database is told from a quicker one, and fewer keys are loaded.
#[test]
fn a_cache_in_front_of_a_database_is_a_job() {
    let folder = files();
    folder.write("plain.toml", DRIVE);
    let run = |options: &[&str]| {
        let words = [
            "run",
            "plain.toml",
            "--app",
            "kv",
            "--nkeys",
            "2000",
            "--set-share",
            "0%",
            "--warm-up",
            "0",
            "--operations",
            "2000",
            "--value-size",
            "etc-tail",
            "--json",
        ];
        folder.run(&[&words[..], options].concat()).json()["applications"][0].clone()
    };
    let query = ["--load", "500", "--on-miss", "query"];
    let slow = run(&[&query[..], &["--database-fixed", "1ms", "--database-variable", "0"]].concat());
    let quick = run(&[&query[..], &["--database-fixed", "10us", "--database-variable", "0"]].concat());
    let alone = run(&[
        &query[..],
        &["--database-fixed", "1ms", "--database-variable", "0", "--database-queries", "1"],
    ]
    .concat());
    assert_eq!((&slow["settings"]["load"], &slow["settings"]["on_miss"]), (&json!("500"), &json!("query")));
    assert_eq!(slow["settings"]["value_size"], "etc-tail");
    let rate = |app: &Value| app["operations_per_second"].as_f64().unwrap();
    let queries = |app: &Value| {
        let kinds = app["by_operation"].as_array().unwrap();
        let query = kinds.iter().find(|kind| kind["operation"] == "query").unwrap();
        query["latency"]["mean_ns"].as_f64().unwrap()
    };
    assert!(queries(&slow) >= 1e6 && queries(&quick) < 2e5, "{} {}", queries(&slow), queries(&quick));
    assert!(rate(&quick) > 2.0 * rate(&slow), "{} {}", rate(&quick), rate(&slow));
    assert!(rate(&slow) > 2.0 * rate(&alone), "{} {}", rate(&slow), rate(&alone));
    let nothing = run(&["--load", "500", "--on-miss", "nothing"]);
    assert!(nothing["by_operation"].as_array().unwrap().iter().all(|kind| kind["operation"] != "query"));
}
