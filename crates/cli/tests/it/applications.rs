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
    let copies = report["application"]["copies"].as_array().unwrap();
    copies.iter().find(|copies| copies["by"] == by).unwrap()["bytes"].as_u64().unwrap()
}

#[test]
fn a_file_server_is_a_job_on_every_back_end() {
    let folder = files();
    let run = |name: &str| folder.run(&["run", name, "--json"]).json();
    let (block, flash, names) = (run("block.toml"), run("flash.toml"), run("names.toml"));
    for (report, backend) in [(&block, "block"), (&flash, "function"), (&names, "nameless")] {
        let app = &report["application"];
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
    assert_eq!(own["application"], job["application"]);
    let place = ["--filesystem", "in-place", "--size", "90%"];
    let in_place = |drive: &str| {
        let words = ["fs", "run", "varmail", "--drive", drive];
        folder.run(&[&words[..], &place, &work].concat()).json()
    };
    let (plain, layered) = (in_place("drive.toml"), in_place("layer.toml"));
    assert_eq!(plain["application"]["settings"]["filesystem"], "in-place");
    assert_eq!(copied(&plain, "file system"), 0);
    assert!(layered["application"]["copies"].as_array().unwrap().len() == 3, "{}", layered["application"]);
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
    wrong("block.toml", "rw = \"read\"", "rw = given: allowed: not with app = fileserver");
    wrong("block.toml", "iodepth = 4", "iodepth = given: allowed: not with app = fileserver");
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
    refused(&["--job", "app=varmail", "--job", "rw=read"], "app = varmail: allowed: an application alone");
    refused(&["--job", "rw=read,cleaner=greedy"], "cleaner = given: allowed: only with an app");
    for place in ["in-place", "log-structured"] {
        let job = |more: &str| format!("app=varmail,filesystem={place},{more}");
        refused(&["--job", &job("nfiles=100,meanfilesize=100g")], "nfiles = 100: allowed: at most 0 files");
        refused(&["--job", &job("meanappendsize=1t")], "meanappendsize = 1099511627776: allowed: at most 3");
    }
    refused(&["--verify"], "run.verify: allowed with app = fileserver: false");
    let large = folder.run(&["run", "memblaze", "--app", "varmail"]);
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
    let backend = |at: usize| own[at]["application"]["settings"]["backend"].clone();
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
    let done = folder.run(&["fs", "run", "varmail", "--drive", "block.toml", "--job", "app=webserver"]);
    assert!(
        done.status == 2 && done.stderr.contains("app = webserver: not allowed beside varmail"),
        "{}",
        done.stderr
    );
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
        let app = &report["application"];
        assert_eq!((&app["operations"], &app["left_out"]), (&json!(2), &json!(1)), "{place}");
        assert_eq!((&app["latency"]["count"], &app["written_bytes"]), (&json!(1), &json!(0)), "{place}");
        let warning = report["warnings"][0].as_str().unwrap();
        assert!(warning.contains("50.0 % of the operations were left out"), "{place}: {warning}");
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
        folder.run(&[&words[..], options].concat()).json()["application"].clone()
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
        ("nthreads", "4"),
        ("page_cache", "8388608"),
    ] {
        assert_eq!(app["settings"][key], value, "{key}");
    }
    assert_eq!(app["warm_up"], 100);
    // One core, 3 us each.
    assert!(app["operations_per_second"].as_f64().unwrap() < 333_334.0);
    let more = settings("plain.toml", &["--app", "webserver", "--filled", "60%"]);
    let files = |app: &Value| app["settings"]["nfiles"].as_str().unwrap().parse::<u64>().unwrap();
    assert!((files(&app) * 2).abs_diff(files(&more)) <= 2, "{} and {}", files(&app), files(&more));
    let size =
        |ops: &str| settings("flash.toml", &["--ops", ops])["settings"]["size"].as_str().unwrap().to_string();
    assert_eq!([size("50%"), size("20%")], ["20971520", "33554432"]);
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
        let app = &report["application"];
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
    refused("plain.toml", &["--filled", "10%"], "filled = given: allowed: not with app = kv");
    refused("plain.toml", &["--popularity", "zipf:1"], "pareto:SCALE:SHAPE");
    refused("plain.toml", &["--nkeys", "3"], "a whole number from 10");
    let file = folder.run(&["run", "plain.toml", "--app", "varmail", "--clients", "3"]);
    assert!(
        file.status == 2 && file.stderr.contains("clients = given: allowed: not with app = varmail"),
        "{}",
        file.stderr
    );
    let other =
        folder.run(&["run", "plain.toml", "--rw", "read", "--number-ios", "9", "--set", "kv.memory=1MiB"]);
    assert!(other.status == 2 && other.stderr.contains("app = kv, or pellucid kv"), "{}", other.stderr);
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
        assert_eq!(report["application"]["operations"], 2000, "{memory}");
    }
}
