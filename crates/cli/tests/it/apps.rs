//! `pellucid apps`: applications on one drive, each with LUNs of its own, which stay theirs from one command to the next.

use crate::common::{Folder, Serving, listens};
use serde_json::Value;
use std::collections::BTreeSet;

/// An open-channel drive of 4 channels x 2 LUNs, its media in a file.
const DRIVE: &str = r#"
[drive.media]
channels = 4
ways = 2
planes = 1
blocks = 32
pages = 16
page_size = "4KiB"
spare_size = 256
sector_size = 4096
unit_size = "4KiB"
cell = "slc"
store = "file"
path = "flash.media"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[[drive.namespace]]
interface = "open-channel"
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("open.toml", DRIVE);
    folder
}

fn apps(folder: &Folder, words: &[&str]) -> Value {
    folder.run(&[&["apps", "--json"], words].concat()).json()
}

fn luns<'a>(all: &'a Value, name: &str) -> BTreeSet<&'a str> {
    let found = all["applications"].as_array().unwrap().iter().find(|app| app["name"] == name);
    let luns = found.unwrap_or_else(|| panic!("{name} in {all}"))["luns"].as_array().unwrap();
    luns.iter().map(|lun| lun.as_str().unwrap()).collect()
}

#[test]
fn applications_have_luns_of_their_own_until_they_are_released() {
    let folder = folder();
    for words in [&["list", "open.toml"][..], &["stats", "open.toml"], &["release", "open.toml", "cache"]] {
        let done = folder.run(&[&["apps"], words].concat());
        assert_eq!((done.status, done.stderr.contains("no such file")), (2, true), "{}", done.stderr);
    }
    assert!(!folder.path("flash.media").exists(), "to ask makes no file");
    let first = apps(&folder, &["allocate", "open.toml", "cache", "--capacity", "4MiB"]);
    assert_eq!(luns(&first, "cache").len(), 3, "{first}");
    let grow = ["allocate", "open.toml", "log", "--capacity", "1MiB", "--over-provisioning", "100%"];
    let second = apps(&folder, &grow);
    let kept = apps(&folder, &["list", "open.toml"]);
    assert_eq!(second, kept, "it is on the media");
    let (cache, log) = (luns(&kept, "cache"), luns(&kept, "log"));
    assert_eq!(cache, luns(&first, "cache"));
    assert!(log.len() >= 2 && cache.is_disjoint(&log), "{kept}");
    assert_eq!(kept["free_luns"], 8 - cache.len() - log.len());
    let stats = apps(&folder, &["stats", "open.toml"]);
    for lun in stats["luns"].as_array().unwrap() {
        let (name, owner) = (lun["lun"].as_str().unwrap(), lun["application"].as_str());
        let expected = if cache.contains(name) {
            Some("cache")
        } else if log.contains(name) {
            Some("log")
        } else {
            None
        };
        assert_eq!(owner, expected, "{lun}");
        assert!(lun["spare_blocks"].as_u64().unwrap() >= 3, "{lun}");
    }
    let left = apps(&folder, &["release", "open.toml", "cache"]);
    assert_eq!(
        (left["free_luns"].as_u64(), left["applications"].as_array().unwrap().len()),
        (Some(8 - log.len() as u64), 1)
    );
    let text = folder.run(&["apps", "list", "open.toml"]).answer();
    assert!(text.contains("LUNs free") && text.contains("log") && !text.contains("cache"), "{text}");
}

#[test]
fn what_cannot_be_allocated_is_refused_and_changes_nothing() {
    let folder = folder();
    folder.write("other.toml", &DRIVE.replace("store = \"file\"\npath = \"flash.media\"", "store = \"ram\""));
    let before = apps(&folder, &["allocate", "open.toml", "cache", "--capacity", "4MiB"]);
    let refused = [
        (&["allocate", "open.toml", "cache", "--capacity", "1MiB"][..], "an application of this name exists"),
        (&["allocate", "open.toml", "more", "--capacity", "1GiB"], "LUNs"),
        (&["allocate", "open.toml", "a b", "--capacity", "1MiB"], "allowed: letters"),
        (&["allocate", "open.toml", "x", "--capacity", "much"], "--capacity much"),
        (
            &["allocate", "open.toml", "x", "--capacity", "1MiB", "--over-provisioning", "half"],
            "a share such as",
        ),
        (&["release", "open.toml", "other"], "no such application; there are cache"),
        (&["list", "other.toml"], "allowed: file:PATH"),
        (&["list"], "no drive; allowed: a drive, or --control PATH"),
        (
            &["list", "--drive", "nix"],
            "--drive nix: one of the drives of a server; allowed: beside --control",
        ),
        (
            &["allocate", "open.toml", "--capacity", "1MiB"],
            "open.toml: a drive without the name of an application",
        ),
        (
            &["allocate", "cosmos-plus", "x", "--capacity", "1MiB", "--set", "media.store=file:c.media"],
            "no open-channel",
        ),
    ];
    // A file that is made for a drive goes again with the refusal.
    let new = ["allocate", "open.toml", "x", "--capacity", "1GiB", "--set", "media.path=new.media"];
    let done = folder.run(&[&["apps"], &new[..]].concat());
    assert!(done.status == 2 && done.stderr.contains("LUNs"), "{} {}", done.status, done.stderr);
    assert!(!folder.path("new.media").exists(), "the file of a refused allocation stays");
    for (words, expected) in refused {
        let done = folder.run(&[&["apps"], words].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{words:?}: {}", done.stderr);
    }
    assert_eq!(apps(&folder, &["list", "open.toml"]), before);
}

/// Applications of a drive in service: on the control socket, in the figures of monitors, and, as the drive is in a file, at the next start.
#[test]
fn a_served_drive_has_applications_too() {
    let folder = folder();
    let script = "exec \"$0\" serve open.toml --apps --nvme-tcp 127.0.0.1:0 --control control";
    let mut server = Serving::new(&folder, script);
    listens(&folder, "control");
    let served = |words: &[&str]| {
        let done = folder.run(&[&["apps", "--json"], words, &["--control", "control"]].concat());
        done.json()
    };
    assert_eq!(served(&["list"])["free_luns"], 8);
    let first = served(&["allocate", "cache", "--capacity", "4MiB"]);
    let second = served(&["allocate", "log", "--capacity", "1MiB", "--over-provisioning", "100%"]);
    let (cache, log) = (luns(&second, "cache"), luns(&second, "log"));
    assert_eq!((cache.len(), luns(&first, "cache")), (3, cache.clone()), "{second}");
    assert!(log.len() >= 2 && cache.is_disjoint(&log), "{second}");
    assert_eq!(served(&["list"]), second);
    // Monitors show the same owners.
    let figures = folder.run(&["status", "--figures", "--control", "control"]).json();
    let listed = &figures["serving"]["luns"][0];
    assert_eq!(listed["drive"], "open");
    for (shown, lun) in
        listed["luns"].as_array().unwrap().iter().zip(served(&["stats"])["luns"].as_array().unwrap())
    {
        assert_eq!((&shown["lun"], &shown["owner"]), (&lun["lun"], &lun["application"]));
        assert_eq!(shown["average_erases"], lun["average_erases"]);
    }
    let twice = folder.run(&["apps", "allocate", "cache", "--capacity", "1MiB", "--control", "control"]);
    assert!(twice.status != 0 && twice.stderr.contains("cache"), "{}", twice.stderr);
    let both = folder.run(&["apps", "list", "open.toml", "--control", "control"]);
    assert_eq!((both.status, both.stderr.contains("beside --control")), (2, true), "{}", both.stderr);
    let set = folder.run(&["apps", "list", "--control", "control", "--set", "media.blocks=7"]);
    let refused = "--set media.blocks=7: without effect on a drive in service";
    assert_eq!((set.status, set.stderr.contains(refused)), (2, true), "{}", set.stderr);
    // A power cut: applications are where they were.
    folder.run(&["power-cut", "--control", "control", "--drive", "open"]).answer();
    assert_eq!(served(&["list"]), second);
    let mut left = served(&["release", "cache"]);
    assert_eq!(left["applications"].as_array().unwrap().len(), 1, "{left}");
    assert_eq!(server.end("TERM"), Some(0));
    let said = std::fs::read_to_string(folder.path("log")).unwrap();
    let own: Vec<&str> = luns(&first, "cache").into_iter().collect();
    for event in [
        format!("event=application-allocated application=\"open.cache\" luns=\"{}\"", own.join(" ")),
        "event=application-released application=\"open.cache\"".into(),
    ] {
        assert!(said.contains(&event), "{event} in {said}");
    }
    // Only a server has namespaces.
    let name = left["applications"][0].as_object_mut().unwrap().remove("namespace");
    assert_eq!(name.unwrap(), "open.log");
    let kept = apps(&folder, &["list", "open.toml"]);
    assert_eq!(kept, left, "the file has what the server did");
}

/// A drive that is served as a whole has no applications.
#[test]
fn a_drive_that_is_not_divided_says_so() {
    let folder = folder();
    let _server =
        Serving::new(&folder, "exec \"$0\" serve open.toml --nvme-tcp 127.0.0.1:0 --control control");
    listens(&folder, "control");
    let done = folder.run(&["apps", "list", "--control", "control"]);
    assert!(done.status != 0 && done.stderr.contains("served with --apps"), "{}", done.stderr);
}
