//! Reports of the command about the storage of a drive: space, versions, recordings.

use crate::common::{Folder, Serving, eventually};
use std::path::PathBuf;
use std::process::Command;

/// A file system of one MiB in a folder; `None`, with the reason printed, where nothing can be mounted.
struct Mounted(PathBuf);

impl Mounted {
    #[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
    fn new(folder: &Folder) -> Option<Mounted> {
        let place = folder.path("small");
        std::fs::create_dir_all(&place).unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "pellucid"]).arg(&place).output();
        match done {
            Ok(output) if output.status.success() => Some(Mounted(place)),
            other => {
                println!("skipped: mount: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_drive_without_the_space_is_refused_and_the_way_out_is_named() {
    let folder = Folder::with_drive();
    let Some(_small) = Mounted::new(&folder) else { return };
    let words = [
        "run",
        "tiny.toml",
        "--set",
        "media.store=file:small/drive",
        "--set",
        "media.space=reserve",
        "--rw",
        "randwrite",
    ];
    let done = folder.run(&words);
    assert_eq!(done.status, 2, "{}", done.stderr);
    let says = "small/drive: cannot reserve 6.4 MB for the media: No space left on device";
    assert!(done.stderr.contains(says), "{}", done.stderr);
    assert!(done.stderr.contains("drive.media.space = \"sparse\""), "{}", done.stderr);
    assert!(!folder.path("small/drive").exists());
}

#[test]
fn an_image_of_an_older_version_is_refused_in_one_sentence() {
    let folder = Folder::with_drive();
    let mut older = vec![0; 4096];
    older[..8].copy_from_slice(b"PELLUCID");
    older[8] = 1;
    std::fs::write(folder.path("older"), &older).unwrap();
    let done = folder.run(&["run", "tiny.toml", "--set", "media.store=file:older", "--rw", "randread"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("older: image format version 1, but this program knows version 3 only"),
        "{}",
        done.stderr
    );
    assert_eq!(std::fs::read(folder.path("older")).unwrap(), older);
}

#[test]
fn a_recording_that_cannot_begin_is_refused() {
    let folder = Folder::with_drive();
    let done = folder.run(&[
        "serve",
        "tiny.toml",
        "--set",
        "media.store=ram",
        "--nbd",
        "unix:nbd",
        "--record",
        "/dev/full",
    ]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--record /dev/full: No space left on device"), "{}", done.stderr);
}

#[test]
fn a_server_says_what_its_drives_can_come_to_take() {
    let folder = Folder::with_drive();
    let script =
        "exec \"$0\" serve tiny.toml --set media.store=file:drive --set media.space=reserve --nbd unix:nbd";
    let _server = Serving::new(&folder, script);
    let log = || std::fs::read_to_string(folder.path("log")).unwrap();
    eventually("the start is logged", || log().contains("event=store"));
    let line = log().lines().find(|line| line.contains("event=store")).unwrap().to_owned();
    let number = |key: &str| -> u64 {
        let at = line.find(key).unwrap_or_else(|| panic!("{key} in {line}")) + key.len();
        line[at..].split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(number("memory_max_bytes=") < 1 << 20, "{line}");
    assert_eq!(number("file_max_bytes="), number("file_reserved_bytes="), "{line}");
    assert_eq!(number("file_max_bytes="), std::fs::metadata(folder.path("drive")).unwrap().len());
}

/// Files that were there before are never removed: a pipe, and an empty file.
#[test]
fn a_refused_drive_leaves_what_was_there() {
    let folder = Folder::with_drive();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let done = folder.run(&["run", "tiny.toml", "--set", "media.store=file:pipe", "--rw", "randwrite"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("pipe: cannot use as an image: it is not a regular file"),
        "{}",
        done.stderr
    );
    assert!(pipe.exists());
    let Some(_small) = Mounted::new(&folder) else { return };
    std::fs::write(folder.path("small/drive"), "").unwrap();
    let words = ["run", "tiny.toml", "--set", "media.store=file:small/drive", "--set", "media.space=reserve"];
    let done = folder.run(&[&words[..], &["--rw", "randwrite"]].concat());
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert_eq!(std::fs::metadata(folder.path("small/drive")).unwrap().len(), 0);
}

/// A process that is killed while it creates an image leaves one that the next start begins anew.
#[test]
fn an_image_whose_creation_was_cut_off_is_created_again() {
    let folder = Folder::with_drive();
    let drive = ["run", "tiny.toml", "--set", "media.store=file:drive", "--number-ios", "10"];
    let run = |rw: &'static str| folder.run(&[&drive[..], &["--rw", rw]].concat());
    run("randwrite").answer();
    let whole = std::fs::read(folder.path("drive")).unwrap();
    let mut begun = vec![0; whole.len() / 2];
    begun[..8].copy_from_slice(b"PELLUnew");
    std::fs::write(folder.path("drive"), &begun).unwrap();
    let used = "the file held a drive before this run";
    let made = run("randwrite");
    assert!(made.status == 0 && !made.stderr.contains(used), "{}", made.stderr);
    assert_eq!(&std::fs::read(folder.path("drive")).unwrap()[..8], b"PELLUCID");
    let again = run("randread");
    assert!(again.status == 0 && again.stderr.contains(used), "{}", again.stderr);
}

/// A limit of the shell ends no command without a word: what it refuses is told as a full disk is.
#[test]
fn a_file_size_limit_is_told_in_one_sentence() {
    let folder = Folder::with_drive();
    let cases = [
        ("fs format image --size 64MiB", "image: a length of 67108864 bytes: File too large"),
        ("run tiny.toml --set media.store=file:drive --rw randwrite --size 1MiB", "drive: "),
        ("kv file:store,size=64MiB --engine raw --listen unix:kv", "store"),
    ];
    for (words, says) in cases {
        let script = format!("ulimit -f 64; exec \"$0\" {words}");
        let done = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_pellucid")])
            .current_dir(folder.path("."))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(1 | 2)), "{words}: {:?} {stderr}", done.status);
        assert!(stderr.contains(says) && stderr.contains("File too large"), "{words}: {stderr}");
    }
    assert!(!folder.path("image").exists() && !folder.path("store").exists());
}
