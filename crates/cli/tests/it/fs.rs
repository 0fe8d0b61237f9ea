//! The commands of the file system that need no mount. Mounts: tools/fs_trials.py.

use crate::common::Folder;

#[test]
fn an_image_is_made_told_walked_and_listed() {
    let folder = Folder::new();
    let told = folder.run(&["fs", "format", "image", "--size", "16MiB", "--json"]).json();
    let free = told["blocks_free"].as_u64().unwrap();
    assert!(free > 0 && free <= told["blocks"].as_u64().unwrap(), "{told}");
    let again = folder.run(&["fs", "stat", "image", "--json"]).json();
    assert_eq!((&told["identity"], &told["blocks"]), (&again["identity"], &again["blocks"]));
    let text = folder.run(&["fs", "check", "image"]).answer();
    assert!(text.contains("1 files") && text.contains("0 errors"), "{text}");
    let repaired = folder.run(&["fs", "check", "image", "--repair"]).answer();
    assert_eq!(repaired, text, "there is nothing to repair");
    assert_eq!(folder.run(&["fs", "dump", "image"]).answer().lines().count(), 1);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    folder.write("foreign", &"something else\n".repeat(10_000));
    folder.run(&["fs", "format", "image", "--size", "16MiB"]).answer();
    let cases: [(&[&str], &str); 9] = [
        (&["stat", "foreign"], "no Pellucid file system"),
        (&["check", "absent"], "absent: "),
        (&["mount", "image", "nowhere"], "nowhere: is not there"),
        (&["mount", "image", "foreign"], "foreign: is no directory"),
        (&["format", "image", "--size", "16MiB"], "--force"),
        (&["format", "foreign"], "--force"),
        (&["format", "tiny", "--size", "4KiB"], "tiny: "),
        (&["format", "odd", "--size", "much"], "--size much"),
        (&["mount", "image", ".", "--memory", "1KiB"], "--memory 1KiB"),
    ];
    for (words, why) in cases {
        let done = folder.run(&[&["fs"], words].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(why) && done.stderr.lines().count() == 1, "{words:?}: {}", done.stderr);
    }
    assert!(!folder.path("tiny").exists() && !folder.path("odd").exists());
    assert!(folder.run(&["fs", "check", "image"]).answer().contains("0 errors"));
}

#[test]
fn damage_is_named_and_ends_with_status_1() {
    let folder = Folder::new();
    folder.run(&["fs", "format", "image", "--size", "16MiB"]).answer();
    let image = std::fs::read(folder.path("image")).unwrap();
    // Whatever is not a superblock or a picture, so that it still mounts: the nodes of the tree.
    let mut damaged = image.clone();
    let log = damaged.len() / 128;
    damaged[log..].fill(0x55);
    std::fs::write(folder.path("image"), damaged).unwrap();
    let done = folder.run(&["fs", "check", "image"]);
    assert!(done.status != 0 && !done.stderr.contains("panicked"), "{}", done.stderr);
}

/// A small drive, on blocks or on flash.
const BLOCK: &[&str] = &[
    "--drive",
    "memblaze",
    "--set",
    "media.channels=4",
    "--set",
    "media.ways=1",
    "--set",
    "media.blocks=48",
    "--set",
    "media.pages=64",
];
const FLASH: &[&str] = &["--set", "drive.namespace=[{ interface = \"open-channel\" }]"];
const NAMES: &[&str] =
    &["--set", "drive.namespace=[{ interface = \"nameless\" }]", "--set", "media.sector_size=4KiB"];

#[test]
fn a_modelled_drive_keeps_its_file_system_in_its_media() {
    let folder = Folder::new();
    for (media, more) in [("block.media", &[][..]), ("flash.media", FLASH), ("names.media", NAMES)] {
        let run = |words: &[&str]| folder.run(&[&["fs"], words, BLOCK, more].concat());
        let told = run(&["format", media, "--json"]).json();
        let again = run(&["stat", media, "--json"]).json();
        assert_eq!((&told["identity"], &told["blocks"]), (&again["identity"], &again["blocks"]));
        assert!(run(&["check", media]).answer().contains("0 errors"));
        assert_eq!(run(&["dump", media]).answer().lines().count(), 1);
        run(&["format", media, "--force"]).answer();
        assert_ne!(run(&["stat", media, "--json"]).json()["identity"], told["identity"]);
    }
}

#[test]
fn a_drive_that_does_not_fit_is_refused_and_changes_nothing() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("mnt")).unwrap();
    folder.run(&["fs", "format", "image", "--size", "16MiB"]).answer();
    folder.run(&[&["fs", "format", "block.media"], BLOCK].concat()).answer();
    let of_drive = |words: &[&'static str]| [words, BLOCK].concat();
    let on_flash = |words: &[&'static str]| [words, BLOCK, FLASH].concat();
    let cases = [
        (of_drive(&["format", "new", "--size", "16MiB"]), "--size with --drive"),
        (of_drive(&["format", "block.media"]), "--force"),
        (of_drive(&["check", "absent"]), "absent: "),
        (of_drive(&["check", "image"]), "image: "),
        (on_flash(&["check", "block.media"]), "block.media: "),
        (vec!["check", "image", "--set", "media.blocks=48"], "allowed: with --drive"),
        (vec!["check", "block.media"], "no Pellucid file system"),
        (vec!["check", "image", "--drive", "nonsense"], "nonsense"),
        (vec!["mount", "image", ".", "--time", "instant"], "--drive"),
        (vec!["mount", "image", "mnt", "--control", "control"], "allowed: with --drive"),
        (vec!["mount", "image", "mnt", "--fault", "power-cut@2s"], "allowed: with --drive"),
        (vec!["mount", "image", "mnt", "--open"], "allowed: with --monitor"),
    ];
    for (words, why) in cases {
        let done = folder.run(&[&["fs"], &words[..]].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{words:?}: {}", done.stderr);
    }
    assert!(!folder.path("new").exists() && !folder.path("absent").exists());
    assert!(folder.run(&["fs", "check", "image"]).answer().contains("0 errors"));
    assert!(folder.run(&[&["fs", "check", "block.media"], BLOCK].concat()).answer().contains("0 errors"));
}
