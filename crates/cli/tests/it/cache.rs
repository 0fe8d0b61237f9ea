//! `pellucid cache` from outside: what is written comes back after every kind of end, and a cache that cannot be is refused.

use crate::common::{Folder, Serving, TINY, eventually, listens, project};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;

const BLOCK: usize = 4096;
const STORE_BYTES: u64 = 4 << 20;

/// A client that speaks NBD, one request at a time.
struct Client(UnixStream);

impl Client {
    fn new(folder: &Folder) -> Client {
        let mut stream = UnixStream::connect(folder.path("nbd")).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle, no zeroes; then option 1, the first export.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(export[..8], STORE_BYTES.to_be_bytes(), "the cache is as large as the backing store");
        Client(stream)
    }

    fn send(&mut self, command: u16, offset: u64, length: usize, data: &[u8]) {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0]);
        request.extend(command.to_be_bytes());
        request.extend([7; 8]);
        request.extend(offset.to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
    }

    fn ask(&mut self, command: u16, offset: u64, length: usize, data: &[u8]) {
        self.send(command, offset, length, data);
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], *b"\x67\x44\x66\x98\0\0\0\0", "no error");
    }

    /// Returns whether a write of a block succeeds.
    fn takes(&mut self, offset: u64) -> bool {
        self.send(1, offset, BLOCK, &[9; BLOCK]);
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        reply[4..8] == [0; 4]
    }

    /// An answer to a read, whatever it says.
    fn answered_read(&mut self, length: usize) {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        if reply[4..8] == [0; 4] {
            self.0.read_exact(&mut vec![0; length]).unwrap();
        }
    }

    fn write(&mut self, offset: u64, byte: u8) {
        self.ask(1, offset, BLOCK, &[byte; BLOCK]);
    }

    fn flush(&mut self) {
        self.ask(3, 0, 0, &[]);
    }

    /// The byte that a whole block is full of.
    fn read(&mut self, offset: u64) -> u8 {
        self.ask(0, offset, BLOCK, &[]);
        let mut data = [0; BLOCK];
        self.0.read_exact(&mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == data[0]), "one write, as a whole");
        data[0]
    }
}

/// A folder with a backing store of zeros.
fn folder() -> Folder {
    let folder = Folder::new();
    store(&folder, "disk.img", STORE_BYTES);
    folder
}

/// Makes a folder with a backing store of zeros, and with a modelled drive in `kept.toml` that keeps its promises.
fn folder_with_model() -> Folder {
    let folder = folder();
    let kept = TINY.replace("store = \"none\"", "store = \"file\"\npath = \"media.img\"");
    let kept = kept.replace("\"volatile\"", "\"journal\"").replace("fill = 0.9", "fill = 0");
    folder.write("kept.toml", &kept);
    folder
}

fn store(folder: &Folder, name: &str, bytes: u64) {
    File::create(folder.path(name)).unwrap().set_len(bytes).unwrap();
}

/// Starts a cache on `drive`, with options behind it. A refused write to a file is an error and no signal.
fn start(folder: &Folder, drive: &str) -> Serving {
    for name in ["nbd", "control"] {
        let _ = std::fs::remove_file(folder.path(name));
    }
    let script =
        format!("exec \"$0\" cache --backing disk.img --drive {drive} --nbd unix:nbd --control control");
    let serving = Serving::new(folder, &script);
    listens(folder, "control");
    serving
}

/// The byte at this place of the backing store itself.
fn stored(folder: &Folder, offset: u64) -> u8 {
    std::fs::read(folder.path("disk.img")).unwrap()[offset as usize]
}

/// Both kinds of end, then detach: until that the backing store has nothing.
fn live(folder: &Folder, drive: &str, between: impl Fn(&Folder)) {
    let mut serving = start(folder, drive);
    let mut client = Client::new(folder);
    client.write(8192, 1);
    assert_eq!((client.read(8192), client.read(0)), (1, 0), "{drive}");
    drop(client);
    assert_eq!(serving.end("TERM"), Some(0), "{drive}");
    assert_eq!(stored(folder, 8192), 0, "{drive}: it is dirty");

    let mut serving = start(folder, drive);
    let mut client = Client::new(folder);
    assert_eq!((client.read(8192), client.read(0)), (1, 0), "{drive}: after SIGTERM");
    client.write(0, 2);
    client.flush();
    between(folder);
    drop(client);
    assert_eq!(serving.end("KILL"), None, "{drive}");

    let mut serving = start(folder, drive);
    let mut client = Client::new(folder);
    assert_eq!((client.read(8192), client.read(0)), (1, 2), "{drive}: after SIGKILL");
    assert_eq!((stored(folder, 8192), stored(folder, 0)), (0, 0), "{drive}: both are dirty");
    folder.run(&["detach", "--control", "control"]).answer();
    assert_eq!((stored(folder, 8192), stored(folder, 0)), (1, 2), "{drive}: written back");
    client.write(8192, 3);
    assert_eq!((client.read(8192), stored(folder, 8192)), (3, 3), "{drive}: around the cache");
    drop(client);
    assert_eq!(serving.end("TERM"), Some(0), "{drive}");
}

#[test]
fn what_was_written_comes_back_after_a_stop_and_after_a_kill() {
    live(&folder(), "file:flash.img,size=4MiB", |_| ());
}

#[test]
fn a_modelled_cache_drive_keeps_it_too_and_through_a_power_cut() {
    let folder = folder_with_model();
    live(&folder, "kept.toml", |folder| {
        folder.run(&["power-cut", "--control", "control"]).answer();
        let mut client = Client::new(folder);
        assert_eq!((client.read(8192), client.read(0)), (1, 2), "after a power cut");
    });
}

/// A manager that starts again takes no interrupted command for an answered one.
#[test]
fn a_power_cut_under_load_loses_nothing_that_was_flushed() {
    let folder = folder_with_model();
    let mut serving = start(&folder, "kept.toml");
    for round in 1..=8 {
        let mut client = Client::new(&folder);
        client.write(0, round);
        client.flush();
        for block in 1..=200 {
            client.send(1, block * BLOCK as u64, BLOCK, &[round; BLOCK]);
        }
        folder.run(&["power-cut", "--control", "control"]).answer();
        drop(client);
        assert_eq!(Client::new(&folder).read(0), round);
    }
    assert_eq!(serving.end("TERM"), Some(0));
}

/// A solid-state cache whose address space is much larger than the store: only that part is looked through at a start.
#[test]
fn a_solid_state_cache_keeps_it_too() {
    let folder = folder();
    live(
        &folder,
        "jasmine-ssc --set media.store=file --set media.path=media.img --set media.blocks=64 --set ftl.over_provisioning=0.3",
        |_| (),
    );
}

/// A worn-out cache drive under a manager that starts again: what it holds is read and written back, new data are refused.
#[test]
fn a_cache_drive_that_takes_no_writes_is_read_and_written_back() {
    let ssc = "jasmine-ssc --set media.store=file --set media.path=media.img --set media.blocks=64 --set ftl.over_provisioning=0.3";
    for drive in ["kept.toml", ssc] {
        let folder = folder_with_model();
        let mut serving = start(&folder, drive);
        let mut client = Client::new(&folder);
        client.write(8192, 1);
        client.write(0, 2);
        client.flush();
        let answer = folder.run(&["fault", "--control", "control", "--wear-out"]).answer();
        assert!(answer.contains("\"read_only\": true"), "{drive}: {answer}");
        folder.run(&["power-cut", "--control", "control"]).answer();
        let mut client = Client::new(&folder);
        assert_eq!((client.read(8192), client.read(0), client.read(4096)), (1, 2, 0), "{drive}");
        assert!(!client.takes(4096), "{drive}: new data are refused");
        let done = folder.run(&["detach", "--control", "control"]);
        assert_eq!(done.status, 1, "{drive}: {}", done.stderr);
        assert!(
            done.stderr.contains("everything is written back, but the cache drive takes no writes"),
            "{}",
            done.stderr
        );
        assert_eq!((stored(&folder, 8192), stored(&folder, 0)), (1, 2), "{drive}: written back");
        assert_eq!((client.read(8192), client.read(0)), (1, 2), "{drive}");
        drop(client);
        serving.end("TERM");
    }
}

/// A backing store that runs full while blocks are written back: they stay dirty, and go there when there is room again.
#[test]
fn a_backing_store_that_runs_full_is_told_and_nothing_is_lost() {
    let folder = folder();
    let far = 3 << 20;
    let mut serving = start(&folder, "file:flash.img,size=2MiB");
    serving.limit_files(Some(2 << 20));
    let mut client = Client::new(&folder);
    client.write(0, 1);
    client.write(far, 2);
    client.flush();
    let done = folder.run(&["detach", "--control", "control"]);
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("a dirty block cannot be written back") && done.stderr.contains("dirty still"),
        "{}",
        done.stderr
    );
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(log.contains("event=file-failed"), "{log}");
    assert_eq!((client.read(0), client.read(far), stored(&folder, far)), (1, 2, 0), "it is dirty still");
    drop(client);
    assert_eq!(serving.end("KILL"), None);

    let mut serving = start(&folder, "file:flash.img,size=2MiB");
    assert_eq!(Client::new(&folder).read(far), 2);
    folder.run(&["detach", "--control", "control"]).answer();
    assert_eq!((stored(&folder, 0), stored(&folder, far)), (1, 2));
    assert_eq!(serving.end("TERM"), Some(0));
}

/// A write-through client of a full backing store learns of it at once.
#[test]
fn a_full_backing_store_refuses_writes_that_go_through() {
    let folder = folder();
    let mut serving = start(&folder, "file:flash.img,size=2MiB --mode write-through");
    serving.limit_files(Some(2 << 20));
    let mut client = Client::new(&folder);
    assert!(client.takes(0) && !client.takes(3 << 20));
    assert_eq!((client.read(0), client.read(3 << 20)), (9, 0), "nothing that was refused is read");
    drop(client);
    assert_eq!(serving.end("TERM"), Some(0));
}

/// The disk of the cache drive's media file runs full: the client learns of it, and the process ends when it is asked to, and says so.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_full_disk_below_the_cache_drive_does_not_hold_up_the_end() {
    let ssc = "jasmine-ssc --set media.store=file --set media.path=media.img --set media.blocks=64 --set ftl.over_provisioning=0.3";
    for drive in ["kept.toml", ssc] {
        let folder = folder_with_model();
        let drive = &format!("{drive} --time instant");
        let mut serving = start(&folder, drive);
        let mut client = Client::new(&folder);
        client.write(0, 1);
        client.flush();
        // Beyond the log's own size.
        serving.limit_files(Some(1 << 20));
        let mut refused = 0;
        for round in 0..4 {
            for block in 1..STORE_BYTES / BLOCK as u64 {
                refused += u32::from(!client.takes(block * BLOCK as u64));
                client.send(0, (block - 1) * BLOCK as u64, 2 * BLOCK, &[]);
                client.answered_read(2 * BLOCK);
            }
            assert!(round == 0 || refused > 0, "{drive}: the disk is full");
        }
        drop(client);
        assert_eq!(serving.end("TERM"), Some(1), "{drive}");
        let log = std::fs::read_to_string(folder.path("log")).unwrap();
        assert!(log.contains("event=store-refused") && log.contains("\nerror: "), "{drive}: {log}");
        let _serving = start(&folder, drive);
        assert_eq!(Client::new(&folder).read(0), 1, "{drive}: what was flushed before is there");
    }
}

/// A stop of a large cache with little in it writes little, and not everything at once.
#[test]
fn a_stop_writes_records_only_of_what_there_is() {
    let folder = folder();
    let used = || std::fs::metadata(folder.path("flash.img")).unwrap().blocks() * 512;
    let mut serving = start(&folder, "file:flash.img,size=16GiB");
    let made = used();
    let mut client = Client::new(&folder);
    client.write(0, 9);
    drop(client);
    assert_eq!(serving.end("TERM"), Some(0));
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    let dirty = log.lines().find(|line| line.contains("event=cache-dirty")).expect("only the cache has it");
    assert!(dirty.contains("blocks=1 why=\"only the cache drive has their newest data"), "{dirty}");
    let more = used() - made;
    assert!(more < 1 << 20, "{more} bytes more of the sparse file are in use, after {made} for the records");
    let _serving = start(&folder, "file:flash.img,size=16GiB");
    assert_eq!(Client::new(&folder).read(0), 9);
}

/// Damage to the head is told and repaired, and so is a cache that is made where a file is missing.
#[test]
fn a_new_cache_and_a_damaged_head_are_told() {
    let folder = folder();
    let flash = "file:flash.img,size=4MiB";
    let notice = || {
        eventually("the log has the start", || {
            std::fs::read_to_string(folder.path("log")).unwrap().contains("event=mounted")
        });
        let log = std::fs::read_to_string(folder.path("log")).unwrap();
        log.lines().find(|line| line.contains("event=layer-notice")).map(str::to_owned)
    };
    let mut serving = start(&folder, flash);
    let told = notice().expect("a cache was made");
    assert!(told.contains("the cache drive was blank, so a new cache was made"), "{told}");
    let mut client = Client::new(&folder);
    client.write(0, 5);
    client.flush();
    drop(client);
    assert_eq!(serving.end("KILL"), None);
    let file = std::fs::OpenOptions::new().write(true).open(folder.path("flash.img")).unwrap();
    file.write_all_at(&[0; 4096], 0).unwrap();
    let mut serving = start(&folder, flash);
    let told = notice().expect("the head is damaged");
    assert!(told.contains("the head of the cache is damaged; its copy was used"), "{told}");
    assert_eq!(Client::new(&folder).read(0), 5);
    assert_eq!(serving.end("KILL"), None);
    let mut serving = start(&folder, flash);
    assert_eq!((notice(), Client::new(&folder).read(0)), (None, 5), "the head is whole again");
    assert_eq!(serving.end("TERM"), Some(0));
}

#[test]
fn a_cache_that_cannot_be_is_refused_with_a_sentence() {
    let folder = folder();
    std::fs::create_dir(folder.path("dir")).unwrap();
    std::fs::write(folder.path("noise.img"), vec![0xA5; 1 << 20]).unwrap();
    store(&folder, "other.img", STORE_BYTES);
    store(&folder, "small.img", 64 << 10);
    let refused = |backing: &str, drive: &str, more: &[&str], sentence: &str| {
        let words = ["cache", "--backing", backing, "--drive", drive, "--nbd", "unix:refused"];
        let done = folder.run(&[&words, more].concat());
        assert_eq!(done.status, 2, "{backing}, {drive}: {}", done.stderr);
        assert!(
            done.stderr.contains(sentence) && done.stderr.lines().count() == 1,
            "{backing}, {drive}: {}",
            done.stderr
        );
    };
    let flash = "file:flash.img,size=4MiB";
    refused("dir", flash, &[], "--backing: dir: allowed: a regular file, a block device");
    refused(
        "absent.img",
        flash,
        &[],
        "--backing absent.img: no such file; allowed: an existing file or block device",
    );
    refused("file:disk.img,size=8MiB", flash, &[], "allowed: no size");
    refused("disk.img", "file:./disk.img", &[], "--drive: ./disk.img is the backing store");
    assert!(!folder.path("flash.img").exists(), "nothing is made for a store that cannot be");
    for file in ["noise.img", "small.img"] {
        let sentence = format!("{file}: not a preset, and not a file that can be read: no text, so");
        refused("disk.img", file, &[], &sentence);
        refused("disk.img", file, &[], &format!("is file:{file}; presets: "));
    }
    refused("disk.img", "file:small.img", &[], "the cache drive has 16 sectors; allowed: at least");
    refused(
        "disk.img",
        "file:noise.img",
        &[],
        "something else than a cache; allowed: a blank one, or --format",
    );
    let ram = ["--set", "media.store=ram"];
    refused("disk.img", "cosmos-plus", &ram, "dirty blocks with it; allowed: --set media.store=file");
    refused("disk.img", "cosmos-plus", &[], "keeps no data");
    refused("disk.img", flash, &["--dirty", "0"], "'--dirty <PERCENT>'");
    let media = ["--set", "media.store=file:zoned.media", "--set", "media.space=sparse"];
    refused("disk.img", "zoned", &media, "no namespace that can cache");
    assert!(!folder.path("zoned.media").exists(), "nothing is left of a drive that cannot cache");

    let mut serving = start(&folder, flash);
    refused("disk.img", "file:noise.img", &[], "disk.img: another process has it");
    refused("other.img", "file:flash.img", &[], "flash.img: another process has it");
    let mut client = Client::new(&folder);
    client.write(0, 5);
    client.flush();
    drop(client);
    assert_eq!(serving.end("KILL"), None);
    refused("other.img", "file:flash.img", &[], "belongs to another backing store");
    let disk = std::fs::OpenOptions::new().write(true).open(folder.path("disk.img")).unwrap();
    disk.set_len(2 * STORE_BYTES).unwrap();
    refused("disk.img", "file:flash.img", &[], "has 2048 sectors of 4096 bytes, and had 1024");
    disk.set_len(STORE_BYTES).unwrap();
    refused("disk.img", "file:flash.img,sector=512", &[], "has 8192 sectors of 512 bytes, and had 1024");
    let _serving = start(&folder, flash);
    assert_eq!(Client::new(&folder).read(0), 5, "refusals lose nothing");
}

/// A drive with a modelled disk behind its cache cannot be served: the command that is named instead works as it is printed.
#[test]
fn the_command_that_serve_advises_works() {
    for example in ["flashtier-ssd", "flashtier-ssc"] {
        let folder = Folder::new();
        let path = project().join(format!("examples/papers/{example}.toml"));
        let set = ["--set", "media.blocks=50"];
        let done = folder.run(&[&["serve", path.to_str().unwrap(), "--nbd", "unix:nbd"], &set[..]].concat());
        assert_eq!(done.status, 2, "{}", done.stderr);
        let (_, advised) = done.stderr.split_once("a real backing store: pellucid").expect("a command");
        assert!(advised.contains("--set media.blocks=50"), "{advised}");
        File::create(folder.path("FILE")).unwrap().set_len(64 << 20).unwrap();
        // The port may be taken on this machine.
        let script = format!("exec \"$0\" {}", advised.trim().replace("--nbd 10809", "--nbd unix:nbd"));
        let mut server = Serving::new(&folder, &script);
        listens(&folder, "nbd");
        assert_eq!(server.end("TERM"), Some(0));
    }
}

/// Dirty blocks that the cache drive cannot read: the log names each once, a detach says which, and they are given up by a trim or on demand.
#[test]
fn lost_blocks_are_named_and_given_up() {
    let folder = folder_with_model();
    let mut serving = start(&folder, "kept.toml");
    let mut client = Client::new(&folder);
    let places: Vec<u64> = (0..60).map(|at| at * 2 * BLOCK as u64).collect();
    places.iter().for_each(|&place| client.write(place, 1));
    client.flush();
    folder.run(&["power-cut", "--control", "control"]).answer();
    folder.run(&["fault", "--control", "control", "--read-fail", "1"]).answer();
    let done = folder.run(&["detach", "--control", "control"]);
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("60 are lost (bytes 0-4095, 8192-12287, "), "{}", done.stderr);
    let log = || std::fs::read_to_string(folder.path("log")).unwrap();
    eventually("the log names them", || log().matches("event=cache-lost").count() == 60);
    assert!(log().contains("offset=8192 bytes=4096"), "{}", log());
    let lost = || {
        let figures = folder.run(&["top", "--control", "control", "--json"]).json();
        let layer = &figures["serving"]["layers"][0];
        (layer["lost_blocks"].clone(), layer["given_up_blocks"].clone())
    };
    assert_eq!(lost(), (60.into(), 0.into()));
    // A trim of the whole block.
    Client::new(&folder).ask(4, 0, BLOCK, &[]);
    assert_eq!(lost(), (59.into(), 0.into()));
    let done = folder.run(&["detach", "--control", "control", "--give-up-lost"]);
    assert!(
        done.stderr.contains("everything that can be read is written back, but the cache drive"),
        "{}",
        done.stderr
    );
    // A drive that reads nothing cannot note it either; a detach of one that can ends the cache (`crates/host/tests/it/cache/read_only.rs`).
    assert_eq!(lost(), (0.into(), 59.into()));
    assert_eq!(log().matches("event=cache-lost").count(), 60, "each is named once");
    assert_eq!((stored(&folder, 8192), Client::new(&folder).read(8192)), (0, 0), "the older data");
    serving.end("TERM");
}
