//! A command that is refused has changed nothing: not a byte of what its drives are on, and no new file stands where none was.

use crate::common::{Folder, Serving, TINY, listens};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

/// All files of a folder, with their bytes, without the log of a server that these tests keep there.
fn content(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder.path(".")).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file() && entry.file_name() != "log");
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

/// Checks that the same files are there, with the same bytes.
fn unchanged(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>, words: &str) {
    let names = before.keys().chain(after.keys());
    let differ: Vec<&String> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
    assert!(differ.is_empty(), "{words}: {differ:?}");
}

/// Options of any server that make it refuse: what it cannot have, and what does not exist.
const REFUSED: [&str; 10] = [
    "--nbd unix:same --control same",
    "--nbd unix:same --nbd unix:same",
    "--nbd 46107 --nbd 46107",
    "--nbd unix:busy",
    "--control busy",
    "--control nowhere/socket",
    "--record nowhere/trace",
    "--nbd unix:socket --tls nowhere",
    "--nvme-tcp 0 --dhchap nqn.host=nowhere",
    "--fault read-fail=1@1s:drive=another",
];

/// Runs `command` with each of the options behind it, and checks that nothing has changed.
fn changes_nothing(folder: &Folder, command: &str, options: &[&str]) {
    let before = content(folder);
    for option in options {
        let listens =
            if option.contains("--nbd") || option.contains("--nvme-tcp") { "" } else { "--nbd unix:socket" };
        let words = format!("{command} {listens} {option}");
        let done = folder.run(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(done.status, 2, "{words}: {}", done.stderr);
        unchanged(&before, &content(folder), &words);
        assert!(!folder.path("socket").exists(), "{words}: the socket is gone with the command");
    }
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("busy", "a plain file");
    File::create(folder.path("disk.img")).unwrap().write_all(&[0xa5; 16 << 20]).unwrap();
    folder
}

/// A journal is made at the end of a device, over what was there.
#[test]
fn no_journal_is_made_by_a_refused_command() {
    let folder = folder();
    let fire = "fire --device disk.img --journal 4MiB --make-journal";
    changes_nothing(&folder, fire, &REFUSED);
    let more = [
        "--time instant",
        "--fault power-cut@1s",
        "--fault io-error@1s:range=0-1TiB",
        "--record disk.img --force",
    ];
    changes_nothing(&folder, fire, &more);
}

/// A cache is formatted, and one that begins forgets that it was warm.
#[test]
fn no_cache_is_begun_by_a_refused_command() {
    let folder = folder();
    let cache = "cache --backing disk.img --drive file:flash.img,size=8MiB";
    changes_nothing(&folder, cache, &REFUSED);
    let script = format!("exec \"$0\" {cache} --nbd unix:socket --control control");
    let mut serving = Serving::new(&folder, &script);
    listens(&folder, "control");
    assert_eq!(serving.end("TERM"), Some(0));
    for command in [cache, "cache --backing disk.img --drive file:flash.img --format"] {
        changes_nothing(&folder, command, &REFUSED);
        changes_nothing(
            &folder,
            command,
            &["--time instant", "--record flash.img --force", "--record disk.img --force"],
        );
    }
}

/// A cache that begins is no warm one any more.
#[test]
fn no_warm_cache_is_lost_to_a_refused_command() {
    let folder = folder();
    let kv = "kv file:items.img,size=16MiB --engine raw --memory 1MiB --set kv.item_max=16KiB --set kv.warm_restart=true";
    let script = format!("exec \"$0\" {kv} --unix socket --control control");
    let mut serving = Serving::new(&folder, &script);
    listens(&folder, "socket");
    assert_eq!(serving.end("TERM"), Some(0));
    let before = content(&folder);
    for option in [
        "--unix busy",
        "--unix socket --control busy",
        "--unix same --control same",
        "--unix socket --tls nowhere",
        "--unix socket --time paced",
    ] {
        let words = format!("{kv} {option}");
        let done = folder.run(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(done.status, 2, "{words}: {}", done.stderr);
        unchanged(&before, &content(&folder), &words);
    }
}

/// A served drive makes its file; a recording does not take the place of one.
#[test]
fn no_drive_is_made_or_replaced_by_a_refused_command() {
    let folder = folder();
    changes_nothing(&folder, "serve file:new.img,size=8MiB", &REFUSED);
    let kept = TINY
        .replace("store = \"none\"", "store = \"file\"\npath = \"media.img\"")
        .replace("fill = 0.9", "fill = 0");
    folder.write("kept.toml", &kept);
    changes_nothing(&folder, "serve kept.toml", &REFUSED);
    changes_nothing(&folder, "serve file:disk.img", &["--record disk.img --force"]);
    let mut serving =
        Serving::new(&folder, "exec \"$0\" serve kept.toml --nbd unix:socket --control control");
    listens(&folder, "control");
    assert_eq!(serving.end("TERM"), Some(0));
    changes_nothing(&folder, "serve kept.toml", &["--record media.img --force"]);
}

/// A file that a drive in service is on is no output, whatever is forced.
#[test]
fn no_output_replaces_the_file_of_a_drive_in_service() {
    let folder = folder();
    std::fs::rename(folder.path("disk.img"), folder.path("disk")).unwrap();
    let mut serving =
        Serving::new(&folder, "exec \"$0\" serve file:disk --nbd unix:socket --control control");
    listens(&folder, "control");
    let before = content(&folder);
    folder.write("tiny.toml", TINY);
    for words in ["age tiny.toml -o disk --force", "run tiny.toml --number-ios 10 --log disk --force"] {
        let done = folder.run(&words.split_whitespace().collect::<Vec<_>>());
        assert!(done.status != 0 && done.stderr.contains("in use"), "{words}: {}", done.stderr);
    }
    std::fs::remove_file(folder.path("tiny.toml")).unwrap();
    unchanged(&before, &content(&folder), "outputs onto a drive in service");
    assert_eq!(serving.end("TERM"), Some(0));
}
