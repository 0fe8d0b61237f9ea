//! Drives with several block namespaces: preconditioned, run, replayed, aged, shown and served.

use crate::common::{Folder, Serving, TINY, eventually, repeatable};
use serde_json::Value;

/// The tiny drive with two block namespaces, a third of its blocks and the rest.
fn folder() -> Folder {
    let folder = Folder::new();
    let tiny = TINY.split("[precondition]").next().unwrap().replace("blocks = 24", "blocks = 60");
    let two = "[[drive.namespace]]\ninterface = \"block\"\nblocks = 20\n\n[[drive.namespace]]\ninterface = \"block\"\n";
    folder.write("two.toml", &format!("{tiny}\n{two}"));
    folder
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

/// Adds up one count of both namespaces.
fn sum(report: &Value, pointer: &str) -> u64 {
    let namespaces = report["namespaces"].as_array().unwrap();
    namespaces.iter().map(|namespace| number(namespace.pointer(pointer).unwrap())).sum()
}

#[test]
fn each_namespace_is_preconditioned_worked_on_and_reported_by_itself() {
    let folder = folder();
    let run =
        |words: &[&str]| folder.run(&[&["run", "two.toml", "--json", "--verify"], words].concat()).json();
    let work = ["--precondition", "steady", "--job", "rw=randwrite,bs=4k,number_ios=3000"];
    let both = [&work[..], &["--job", "rw=randwrite,bs=4k,number_ios=1000,namespace=1"]].concat();
    let report = run(&both);
    let [first, second] = [&report["namespaces"][0], &report["namespaces"][1]];
    assert_eq!(report["namespaces"].as_array().unwrap().len(), 2);
    assert_eq!((&first["number"], &second["number"]), (&0.into(), &1.into()));
    assert_eq!((&first["interface"], &second["interface"]), (&"block".into(), &"block".into()));
    assert!(number(&first["capacity_bytes"]) < number(&second["capacity_bytes"]));
    assert_eq!(sum(&report, "/capacity_bytes"), number(&report["drive"]["capacity_bytes"]));
    // The counts of the namespaces add up to those of the drive, and each namespace had its own requests.
    let written = |namespace: &Value| number(&namespace["write_amplification"]["host_written_bytes"]);
    assert_eq!((written(first), written(second)), (3000 * 4096, 1000 * 4096));
    for pointer in [
        "/write_amplification/host_written_bytes",
        "/write_amplification/programmed_bytes_total",
        "/write_amplification/programs/gc",
        "/gc/victims",
        "/gc/copied_units",
        "/gc/erased_blocks/gc",
    ] {
        assert_eq!(sum(&report, pointer), number(report.pointer(pointer).unwrap()), "{pointer}");
    }
    assert_eq!(sum(&report, "/free_blocks"), number(&report["wear"]["free_blocks"]));
    // Both were overwritten until they were steady: writes to either cost GC from the first one on.
    for namespace in [first, second] {
        assert!(namespace["write_amplification"]["total"].as_f64().unwrap() > 1.0, "{namespace}");
        assert!(number(&namespace["gc"]["copied_units"]) > 0, "{namespace}");
    }
    assert_eq!(repeatable(run(&both)), repeatable(report.clone()), "two equal runs");
    // Reads of the second namespace find what preconditioning wrote there, and are verified.
    let reads = run(&["--precondition", "fill", "--job", "rw=randread,bs=4k,number_ios=500,namespace=1"]);
    let said = [
        "--precondition",
        "fill",
        "--rw",
        "randread",
        "--bs",
        "4k",
        "--number-ios",
        "500",
        "--namespace",
        "1",
    ];
    assert_eq!(repeatable(run(&said))["reads"], repeatable(reads.clone())["reads"]);
    assert_eq!(reads["reads"]["unmapped_share"], 0.0);
    let empty = run(&["--precondition", "none", "--job", "rw=randread,bs=4k,number_ios=500,namespace=1"]);
    assert_eq!(empty["reads"]["unmapped_share"], 1.0);
    let text = folder.run(&[&["run", "two.toml"], &both[..]].concat()).answer();
    assert!(text.contains("\nnamespace 0         block ") && text.contains("\nnamespace 1 "), "{text}");
    assert!(text.contains("2 namespaces, each page map"), "{text}");
}

#[test]
fn a_trace_goes_to_the_first_namespace() {
    let folder = folder();
    let line = |i: u64| format!("{},host,0,Write,{},4096,0\n", 10_000 * i, 4096 * (i % 64));
    folder.write("trace.csv", &(0..400).map(line).collect::<String>());
    let report =
        folder.run(&["replay", "two.toml", "trace.csv", "--precondition", "steady", "--json"]).json();
    let written = |at: usize| number(&report["namespaces"][at]["write_amplification"]["host_written_bytes"]);
    assert_eq!((written(0), written(1)), (400 * 4096, 0));
    // Beyond its end there is the other one.
    let beyond = format!("10,host,0,Write,{},4096,0\n", number(&report["namespaces"][0]["capacity_bytes"]));
    folder.write("beyond.csv", &beyond);
    let done = folder.run(&[
        "replay",
        "two.toml",
        "beyond.csv",
        "--set",
        "run.address=refuse",
        "--precondition",
        "none",
    ]);
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn one_namespace_reports_as_ever_and_what_is_not_there_is_refused() {
    let folder = folder();
    folder.write("one.toml", TINY);
    let report =
        folder.run(&["run", "one.toml", "--json", "--rw", "randwrite", "--number-ios", "100"]).json();
    assert!(report.get("namespaces").is_none());
    let done = folder.run(&["run", "two.toml", "--job", "rw=randread,number_ios=1,namespace=2"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("namespace = 2: allowed: 0, 1: block namespaces of the drive"),
        "{}",
        done.stderr
    );
}

#[test]
fn an_aged_drive_has_both_namespaces_full() {
    let folder = folder();
    let aged = folder.run(&["age", "two.toml", "-o", "two.pellucid", "--overwrite", "1", "--json"]).json();
    let each = aged["namespaces"].as_array().unwrap();
    assert_eq!(each.len(), 2);
    assert_eq!(each[0]["ageing"], aged["ageing"]);
    assert!(each.iter().all(|one| one["ageing"]["passes"].as_array().unwrap().len() == 1), "{aged}");
    for namespace in ["0", "1"] {
        let job = format!("rw=randread,bs=4k,number_ios=300,namespace={namespace}");
        let report =
            folder.run(&["run", "--image", "two.pellucid", "--verify", "--json", "--job", &job]).json();
        assert_eq!(report["reads"]["unmapped_share"], 0.0, "namespace {namespace}");
    }
}

#[test]
fn show_and_the_control_socket_name_each_namespace() {
    let folder = folder();
    let shown = folder.run(&["show", "two.toml"]).answer();
    let capacity =
        |line: &str| line.split(": block, ").nth(1).and_then(|rest| rest.split(' ').next()).map(String::from);
    let sizes: Vec<String> =
        shown.lines().filter(|line| line.starts_with("# namespace ")).filter_map(capacity).collect();
    assert!(shown.contains("# namespace 0 (two.1 when it is served): block, "), "{shown}");
    assert!(shown.contains("# namespace 1 (two.2 when it is served): block, "), "{shown}");
    let serve =
        "serve two.toml --set drive.media.store=ram --time instant --nbd 127.0.0.1:0 --control d.control";
    let _server = Serving::new(&folder, &format!("exec \"$0\" {serve}"));
    eventually("the control socket", || folder.path("d.control").exists());
    let status = folder.run(&["status", "--control", "d.control"]).json();
    let drives = status["drives"].as_array().unwrap();
    let named: Vec<(&str, String)> =
        drives.iter().map(|drive| (drive["name"].as_str().unwrap(), drive["bytes"].to_string())).collect();
    assert_eq!(named, [("two.1", sizes[0].clone()), ("two.2", sizes[1].clone())]);
    for drive in ["two.1", "two.2", "two"] {
        folder.run(&["fault", "--control", "d.control", "--drive", drive, "--read-fail", "0.5"]).answer();
    }
    let done = folder.run(&["fault", "--control", "d.control", "--drive", "two.3", "--read-fail", "0.5"]);
    assert!(done.stderr.contains("allowed: two.1, two.2"), "{}", done.stderr);
    folder.run(&["power-cut", "--control", "d.control", "--drive", "two.2"]).answer();
}

#[test]
fn too_few_blocks_are_told_of_the_namespace_that_has_them() {
    let folder = folder();
    let tiny = TINY.split("[precondition]").next().unwrap();
    let row = |blocks: &str| format!("[[drive.namespace]]\ninterface = \"block\"\n{blocks}\n");
    folder.write("few.toml", &format!("{tiny}\n{}{}", row("blocks = 3"), row("")));
    let refused = |words: &[&str]| {
        let done = folder.run(&[&["show", "few.toml"], words].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        done.stderr
    };
    let key = "few.toml:28: drive.namespace[0].blocks = 3: not allowed; allowed: ";
    let why = refused(&[]);
    assert!(why.contains(&format!("{key}at least 4: a die keeps 3 for itself")), "{why}");
    let why = refused(&["--set", "ftl.map=bast"]);
    let expected =
        "at least 11: a die has 8 log blocks (drive.ftl.log_blocks), and keeps 2 for merges and metadata";
    assert!(why.contains(expected) && why.contains("drive.namespace[0].blocks = 3"), "{why}");
    // The number named as sufficient is sufficient.
    folder.write("few.toml", &format!("{tiny}\n{}{}", row("blocks = 4"), row("")));
    let why = refused(&[]);
    let expected = "drive.ftl.over_provisioning = 0.35: not allowed; allowed: at least ";
    assert!(
        why.contains(expected) && why.contains(": each die of the 4 blocks of drive.namespace[0] keeps "),
        "{why}"
    );
}
