//! `pellucid apps`: applications on one drive, each with LUNs of its own, which stay theirs from one command to the next.

use crate::common::Folder;
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
        assert_eq!(
            (done.status, done.stderr.contains("there is no such file")),
            (2, true),
            "{}",
            done.stderr
        );
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
        (
            &["allocate", "open.toml", "cache", "--capacity", "1MiB"][..],
            "there is an application of this name",
        ),
        (&["allocate", "open.toml", "more", "--capacity", "1GiB"], "LUNs"),
        (&["allocate", "open.toml", "a b", "--capacity", "1MiB"], "allowed: letters"),
        (&["allocate", "open.toml", "x", "--capacity", "much"], "--capacity much"),
        (
            &["allocate", "open.toml", "x", "--capacity", "1MiB", "--over-provisioning", "half"],
            "a share such as",
        ),
        (&["release", "open.toml", "other"], "no such application; there are cache"),
        (&["list", "other.toml"], "allowed: file:PATH"),
        (
            &["allocate", "cosmos-plus", "x", "--capacity", "1MiB", "--set", "media.store=file:c.media"],
            "no open-channel",
        ),
    ];
    for (words, expected) in refused {
        let done = folder.run(&[&["apps"], words].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{words:?}: {}", done.stderr);
    }
    assert_eq!(apps(&folder, &["list", "open.toml"]), before);
}
