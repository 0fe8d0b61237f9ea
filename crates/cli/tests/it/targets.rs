//! Targets on ranges of parallel units, kept beside the drive's description.

use crate::common::{Folder, TINY};

fn folder() -> Folder {
    let folder = Folder::new();
    let open = TINY.replace("sector_size = 512", "sector_size = 4096").replace("fill = 0.9", "fill = 0.0");
    folder.write("open.toml", &format!("{open}\n[[drive.namespace]]\ninterface = \"open-channel\"\n"));
    folder.write("block.toml", TINY);
    folder
}

#[test]
fn targets_are_made_listed_used_and_removed() {
    let folder = folder();
    folder.run(&["target", "create", "open.toml", "main", "--units", "0-1"]).answer();
    folder.run(&["target", "create", "open.toml", "log", "--units", "3", "--kind", "raw"]).answer();
    let list = folder.run(&["target", "list", "open.toml"]).answer();
    let lines: Vec<Vec<&str>> = list.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..1], ["0-1"]);
    assert_eq!(lines[0][3..], ["block", "main"]);
    assert_eq!(lines[1][3..], ["free"]);
    assert_eq!(lines[2][3..], ["raw", "log"]);
    let work = ["--rw", "randwrite", "--bs", "4k", "--number_ios", "2000", "--json"];
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
            "units 1-2: overlap those of target main, which has 0-1; targets share no parallel unit",
        ),
        (
            &["create", "open.toml", "more", "--units", "2-4"],
            "units 2-4: not in the drive; allowed: a range within 0-3",
        ),
        (
            &["create", "open.toml", "main", "--units", "2"],
            "main: there is a target of this name; remove it first",
        ),
        (&["remove", "open.toml", "other"], "other: no such target; there are main"),
        (&["list", "block.toml"], "block.toml: no open-channel namespace"),
    ] {
        let done = folder.run(&[&["target"], words].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(sentence), "{words:?}: {}", done.stderr);
    }
}
