//! A drive is aged once; runs fork from its image.

use crate::common::{Folder, TINY, repeatable};

fn aged(folder: &Folder) {
    let words = ["age", "tiny.toml", "--fill", "90%", "--overwrite", "3", "-o", "aged.pellucid", "--json"];
    let summary = folder.run(&words).json();
    assert_eq!(summary["image"], "aged.pellucid");
    assert_eq!(summary["image_bytes"], std::fs::metadata(folder.path("aged.pellucid")).unwrap().len());
    assert!(summary["erases"]["mean"].as_f64().unwrap() > 2.0, "{summary}");
}

#[test]
fn runs_from_an_image_start_from_the_aged_drive_and_repeat() {
    let folder = Folder::with_drive();
    aged(&folder);
    let work = ["--rw", "randwrite", "--iodepth", "4", "--size", "90%", "--number-ios", "2000", "--json"];
    let run = |first: &[&str]| repeatable(folder.run(&[first, &work].concat()).json());
    let forked = run(&["run", "--image", "aged.pellucid", "--verify"]);
    assert_eq!(forked, run(&["run", "--image", "aged.pellucid", "--verify"]));
    let amplification = forked["write_amplification"]["total"].as_f64().unwrap();
    assert!(amplification > 1.2, "{amplification}: the drive is not in use");
    assert!(forked["wear"]["erases"]["min"].as_u64().unwrap() > 0, "wear was not kept");
    assert!(forked["mount"]["scanned_superpages"].as_u64().unwrap() > 0, "{}", forked["mount"]);
    assert!(forked["mount"]["duration_ns"].as_u64().unwrap() > 0, "{}", forked["mount"]);
    // An image is a drive like any other, and a description can be put on its media.
    for first in [&["run", "aged.pellucid"][..], &["run", "tiny.toml", "--image", "aged.pellucid"]] {
        assert_eq!(run(first)["directions"], forked["directions"], "{first:?}");
    }
    let fifo = run(&["run", "aged.pellucid", "--set", "ftl.victim=fifo"]);
    assert_ne!(fifo["write_amplification"], forked["write_amplification"]);
    let shown = folder.run(&["show", "aged.pellucid"]).answer();
    assert!(shown.contains("fill = 0.9"), "{shown}");
}

#[test]
fn an_image_does_not_fit_every_drive() {
    let folder = Folder::with_drive();
    aged(&folder);
    let work = ["--rw", "read", "--number-ios", "10"];
    let refused = |first: &[&str]| {
        let done = folder.run(&[first, &work].concat());
        assert_eq!(done.status, 2, "{}", done.stderr);
        done.stderr
    };
    assert_eq!(
        refused(&["run", "aged.pellucid", "--set", "media.blocks=32"]),
        "error: aged.pellucid: drive.media.blocks = 32: allowed: 24, as in the image\n"
    );
    // Another map would find nothing, another capacity would take host data for translation pages: no run may begin with that.
    for (set, wanted) in [
        ("ftl.map=fast,ftl.log_blocks=1", "the description has ftl.map = \"fast\""),
        ("ftl.map=bast,ftl.log_blocks=1", "the description has ftl.map = \"bast\""),
        ("ftl.durability=journal", "ftl.durability = \"journal\""),
        (
            "ftl.over_provisioning=0.5",
            "mapping units for the host (ftl.over_provisioning, ftl.capacity), but",
        ),
        (
            "ftl.over_provisioning=0.2",
            "mapping units for the host (ftl.over_provisioning, ftl.capacity), but",
        ),
        ("ftl.capacity=64KiB", "mapping units for the host (ftl.over_provisioning, ftl.capacity), but"),
    ] {
        for first in [&["run", "aged.pellucid"][..], &["run", "tiny.toml", "--image", "aged.pellucid"]] {
            let sets: Vec<&str> = set.split(',').flat_map(|set| ["--set", set]).collect();
            let said = refused(&[first, &sets].concat());
            assert!(
                said.starts_with("error: aged.pellucid: the description has ") && said.contains(wanted),
                "{set}: {said}"
            );
        }
        let other = format!("aged.pellucid,{set}");
        let done = folder.run(&[&["compare", "aged.pellucid", other.as_str()][..], &work].concat());
        assert!(done.status == 2 && done.stderr.contains(wanted), "{set}: {}", done.stderr);
    }
    assert_eq!(
        refused(&["run", "--image", "tiny.toml"]),
        "error: tiny.toml: not the image of a drive; `pellucid age` makes them\n"
    );
    let mut bytes = std::fs::read(folder.path("aged.pellucid")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(folder.path("aged.pellucid"), bytes).unwrap();
    assert!(refused(&["run", "aged.pellucid"]).contains("damaged"));
    for command in [&["show", "aged.pellucid"][..], &["explain", "ftl.victim", "aged.pellucid"]] {
        let done = folder.run(command);
        assert!(done.status == 2 && done.stderr.contains("damaged"), "{command:?}: {}", done.stderr);
    }
}

/// A smaller drive would take pages of the host for parts of its map, a larger one show the host parts of the map, and one that
/// forgets would write over what was kept: none of that is found out later.
#[test]
fn media_in_a_file_are_refused_to_a_drive_that_reads_them_otherwise() {
    let folder = Folder::with_drive();
    let store = ["--set", "media.store=file:media.img", "--set", "ftl.durability=journal"];
    folder.run(&[&["age", "tiny.toml", "--overwrite", "1"][..], &store].concat()).answer();
    let work = ["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--set", "precondition.fill=0.0"];
    let run = |sets: &[&str]| folder.run(&[&work[..], &store, sets].concat());
    let kept = std::fs::read(folder.path("media.img")).unwrap();
    for (set, named) in [
        ("ftl.over_provisioning=0.5", "ftl.over_provisioning"),
        ("ftl.over_provisioning=0.3", "ftl.over_provisioning"),
        (
            "ftl.durability=volatile",
            "the description has ftl.map = \"page\" or \"demand\" and ftl.durability = \"volatile\", but the data were written with ftl.map = \
             \"page\" or \"demand\" and ftl.durability = \"journal\"; allowed: the same, or another file",
        ),
        ("drive.namespace=[{ interface = \"block\", blocks = 20 }]", "but the data were written with"),
    ] {
        // One value of a key.
        let store = if set.starts_with("ftl.durability") { &store[..2] } else { &store[..] };
        let done = folder.run(&[&work[..], store, &["--set", set]].concat());
        assert_eq!(done.status, 2, "{set}: {}", done.stdout);
        assert!(done.stderr.contains("media.img: ") && done.stderr.contains(named), "{}", done.stderr);
        assert!(
            kept == std::fs::read(folder.path("media.img")).unwrap(),
            "{set}: a refused file was changed"
        );
    }
    let done = run(&["--set", "ftl.victim=fifo"]);
    let told = "media.img: the file held a drive before this run";
    assert!(done.status == 0 && done.stderr.contains(told), "{}", done.stderr);
}

/// Chunks that belong to no line of a host FTL are reset when it starts: not those of one at other parallel units.
#[test]
fn a_host_ftl_at_other_parallel_units_is_refused() {
    for (units, others) in [("0", "64"), ("64", "0")] {
        let folder = Folder::new();
        let work = "run open-channel --set media.store=file:media media.blocks=32 media.pages=64 host.ftl.over_provisioning=1 --rw write \
                    --bs 64k --size 8m --set";
        let run = |first: &str| {
            let set = format!("host.ftl.first_unit={first}");
            folder.run(&work.split_whitespace().chain([set.as_str()]).collect::<Vec<_>>())
        };
        run(units).answer();
        let done = run(others);
        let told = "a host FTL at other parallel units is on the drive";
        assert!(done.status != 0 && done.stderr.contains(told), "{} {}", done.status, done.stderr);
        run(units).answer();
    }
}

/// Keys that describe a drive's time before its first use are refused: they would change nothing.
#[test]
fn an_image_is_not_preconditioned_again() {
    let folder = Folder::with_drive();
    aged(&folder);
    let work = ["--rw", "read", "--number-ios", "10"];
    for set in [
        "precondition.shelf_days=300",
        "precondition.fill=0.5",
        "media.cycles=100",
        "drive.media.cycles=100",
        "media.faults.factory_bad=0.1",
    ] {
        for first in [&["run", "aged.pellucid"][..], &["run", "tiny.toml", "--image", "aged.pellucid"]] {
            let done = folder.run(&[first, &["--set", set], &work].concat());
            assert_eq!(done.status, 2, "{first:?} {set}: {}", done.stdout);
            let (key, _) = set.split_once('=').unwrap();
            let sentence = format!(
                "error: --set {key}: aged.pellucid has this behind it already; allowed: another image, "
            );
            assert!(done.stderr.starts_with(&sentence), "{}", done.stderr);
        }
    }
    let two = folder.run(&[&["run", "aged.pellucid", "--image", "aged.pellucid"][..], &work].concat());
    assert!(
        two.stderr.starts_with("error: aged.pellucid: an image, where a description is expected"),
        "{}",
        two.stderr
    );
    let again = folder.run(&["age", "aged.pellucid"]);
    assert!(
        again.stderr.starts_with("error: aged.pellucid: an image, where a description is expected"),
        "{}",
        again.stderr
    );
}

/// Renaming onto it would take a device, or whatever else it is, away.
#[test]
fn an_image_replaces_files_only() {
    let folder = Folder::with_drive();
    std::fs::create_dir(folder.path("place")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    for path in ["place", "socket"] {
        let done = folder.run(&["age", "tiny.toml", "--overwrite", "0", "-o", path]);
        assert_eq!(
            (done.status, done.stderr),
            (2, format!("error: {path}: not a file; allowed: a file, or a new name\n"))
        );
    }
    drop(listener);
    assert!(!folder.path("socket").is_file() && folder.path("socket").exists());
}

#[test]
fn an_amount_of_ageing_is_any_number() {
    let folder = Folder::with_drive();
    let age = |words: &[&str]| folder.run(&[&["age", "tiny.toml", "--json"], words].concat()).json();
    let erases = |words: &[&str]| age(words)["erases"]["total"].clone();
    assert_eq!(erases(&["--overwrite", ".5"]), erases(&["--overwrite", "0.5"]));
    assert_eq!(erases(&["--overwrite", "+1."]), erases(&["--overwrite", "1"]));
    assert_eq!(erases(&["--fill", "0.5", "--overwrite", "0"]), 0);
}

#[test]
fn drives_in_one_file_are_not_compared() {
    let folder = Folder::with_drive();
    let words = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--set", "media.store=file:media.img"];
    let done = folder.run(&[&words[..], &["--rw", "randwrite", "--number-ios", "100"]].concat());
    assert_eq!(done.status, 2, "{}", done.stdout);
    let expected = "error: tiny.toml,ftl.victim=fifo: its media are in media.img, as those of tiny.toml, and would start from what \
                    that has written; allowed: a file for each (NAME,media.path=FILE), or store none or ram\n";
    assert_eq!(done.stderr, expected);
    assert!(!folder.path("media.img").exists());
    let words =
        ["compare", "tiny.toml,media.store=file:a", "tiny.toml,media.store=file:b", "--rw", "randwrite"];
    folder.run(&[&words[..], &["--number-ios", "100"]].concat()).answer();
}

#[test]
fn media_in_a_file_are_their_own_image() {
    let folder = Folder::with_drive();
    let store = ["--set", "media.store=file", "--set", "media.path=media.img"];
    let age = ["age", "tiny.toml", "--overwrite", "1"];
    let forgetful = folder.run(&[&age[..], &store].concat());
    assert_eq!(forgetful.status, 2);
    assert!(forgetful.stderr.contains("drive.ftl.durability = volatile"), "{}", forgetful.stderr);
    assert!(!folder.path("media.img").exists());
}

#[test]
fn a_drive_of_chunks_or_zones_is_aged_through_its_layers_or_refused() {
    let folder = Folder::new();
    let raw = TINY.replace("sector_size = 512", "sector_size = 4096")
        + "[[drive.namespace]]\ninterface = \"open-channel\"\n";
    folder.write("raw.toml", &raw);
    let raw = raw.replace("store = \"none\"", "store = \"ram\"");
    folder.write(
        "layered.toml",
        &(raw + "[host]\nlayers = [\"host-ftl\"]\n[host.ftl]\nover_provisioning = 2.0\n"),
    );
    for age in [&["age", "raw.toml"][..], &["run", "raw.toml", "--rw", "read", "--number-ios", "1"]] {
        let refused = folder.run(age);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("no block namespace"), "{}", refused.stderr);
    }
    assert!(!folder.path("raw.pellucid").exists());
    let summary =
        folder.run(&["age", "layered.toml", "-o", "aged.pellucid", "--overwrite", "4", "--json"]).json();
    assert!(summary["capacity_bytes"].as_u64().unwrap() > 0, "{summary}");
    assert!(summary["erases"]["total"].as_u64().unwrap() > 0, "{summary}");
    let work = ["--rw", "randread", "--bs", "4k", "--size", "90%", "--number-ios", "300", "--json"];
    let report = folder.run(&[&["run", "aged.pellucid"][..], &work].concat()).json();
    // A place that nothing was written to is not read from the media.
    let reads = report["write_amplification"]["flash_reads"]["host"].as_u64().unwrap();
    assert!(reads > 250, "{reads} of 300 reads found data");
    for (key, value) in [("host.ftl.durability", "volatile"), ("media.store", "none")] {
        let refused = folder.run(&["age", "layered.toml", "--set", &format!("{key}={value}")]);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("{key} = {value}")), "{}", refused.stderr);
    }
}

/// A report tells what the drive had been through before.
#[test]
fn a_report_on_an_image_names_its_past() {
    let folder = Folder::with_drive();
    aged(&folder);
    let words = ["run", "aged.pellucid", "--rw", "randread", "--size", "90%", "--number-ios", "50"];
    let report = folder.run(&[&words[..], &["--json"]].concat()).json();
    let past = report["workload"]["precondition"].as_str().unwrap();
    assert!(
        past.starts_with("image aged.pellucid: 90 % filled, overwritten 3 times; erases per block ")
            && past.contains(", mean "),
        "{past}"
    );
    assert!(folder.run(&words).answer().contains("image aged.pellucid"));
}
