//! Write clustering in front of a file, as the system and an NBD client see it.

use crate::common::{Folder, Serving, eventually, listens};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

const DEVICE_BYTES: u64 = 16 << 20;
/// Size of a write.
const BYTES: usize = 4096;
/// Places on both sides of the boundaries of clusters of 1 MiB, and apart.
const PLACES: [u64; 5] = [0, (1 << 20) - 2048, 3 << 20, (7 << 20) + 512, DEVICE_BYTES - 4096];

const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// An NBD client with one request at a time: fixed newstyle, no zeroes, simple replies.
struct Client(UnixStream);

impl Client {
    fn of(folder: &Folder) -> Client {
        let mut stream = UnixStream::connect(folder.path("nbd")).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Client(stream)
    }

    /// The error of a request.
    fn ask(&mut self, what: u16, at: u64, bytes: usize, data: &[u8]) -> u32 {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0; 2]);
        request.extend(what.to_be_bytes());
        request.extend([7; 8]);
        request.extend(at.to_be_bytes());
        request.extend((bytes as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        assert_eq!((&reply[..4], &reply[8..]), (&0x6744_6698_u32.to_be_bytes()[..], &[7; 8][..]));
        u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]])
    }

    fn write(&mut self, at: u64, with: u8) -> u32 {
        self.ask(WRITE, at, BYTES, &[with; BYTES])
    }

    fn read(&mut self, at: u64) -> Vec<u8> {
        assert_eq!(self.ask(0, at, BYTES, &[]), 0);
        let mut data = vec![0; BYTES];
        self.0.read_exact(&mut data).unwrap();
        data
    }
}

/// A folder with a device of ones.
fn with_device() -> Folder {
    let folder = Folder::new();
    std::fs::write(folder.path("stick.img"), vec![1; DEVICE_BYTES as usize]).unwrap();
    folder
}

/// The buffer in front of it. It writes nothing for being idle, so that what reaches the device is what had to.
fn fire(folder: &Folder) -> (Serving, Client) {
    fire_with(folder, "")
}

fn fire_with(folder: &Folder, options: &str) -> (Serving, Client) {
    let _ = std::fs::remove_file(folder.path("control"));
    let server = Serving::new(
        folder,
        &format!(
            "exec \"$0\" fire --device stick.img --memory 4MiB --set host.cluster_buffer.idle=never --nbd unix:nbd --control control {options}"
        ),
    );
    listens(folder, "control");
    let client = Client::of(folder);
    (server, client)
}

/// Checks that the device holds `expected`, in all of its bytes.
fn check_device(folder: &Folder, expected: &[u8]) {
    let found = std::fs::read(folder.path("stick.img")).unwrap();
    assert_eq!(found.len(), expected.len());
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "the first byte of the device that is not what it should be");
}

fn put(model: &mut [u8], at: u64, with: u8) {
    model[at as usize..][..BYTES].fill(with);
}

/// Written, held, read, and on the device as soon as the command has been told to end, in either way.
#[test]
fn what_was_written_is_on_the_device_after_a_stop() {
    let folder = with_device();
    let mut model = vec![1; DEVICE_BYTES as usize];
    for (with, how) in [(2, "TERM"), (3, "stop")] {
        let (mut server, mut client) = fire(&folder);
        for at in PLACES {
            assert_eq!(client.write(at, with), 0);
        }
        check_device(&folder, &model);
        for at in PLACES {
            put(&mut model, at, with);
            assert_eq!(client.read(at), [with; BYTES]);
        }
        match how {
            "stop" => {
                let mut control = UnixStream::connect(folder.path("control")).unwrap();
                control.write_all(b"{\"do\":\"stop\"}\n").unwrap();
            }
            signal => server.signal(signal),
        }
        server.wait();
        check_device(&folder, &model);
    }
}

/// Flushed data survive a kill; data in the buffer are lost, and nothing else changes.
#[test]
fn what_was_flushed_is_on_the_device_after_a_kill() {
    let folder = with_device();
    let mut model = vec![1; DEVICE_BYTES as usize];
    for with in [2, 3] {
        let (server, mut client) = fire(&folder);
        for at in PLACES {
            assert_eq!(client.write(at, with), 0);
            put(&mut model, at, with);
        }
        assert_eq!(client.ask(FLUSH, 0, 0, &[]), 0);
        check_device(&folder, &model);
        assert_eq!(client.write(5 << 20, 9), 0);
        drop(server);
        // It was in the buffer, which is gone.
        check_device(&folder, &model);
        let (_server, mut client) = fire(&folder);
        for at in PLACES {
            assert_eq!(client.read(at), [with; BYTES]);
        }
    }
}

/// A paused buffer has written all that it held, and writes reach the device at once until it is resumed.
#[test]
fn a_paused_buffer_holds_nothing() {
    let folder = with_device();
    let mut model = vec![1; DEVICE_BYTES as usize];
    let (_server, mut client) = fire(&folder);
    assert_eq!(client.write(PLACES[1], 2), 0);
    check_device(&folder, &model);
    put(&mut model, PLACES[1], 2);
    let change = |change: &str| folder.run(&["fire", change, "--control", "control"]);
    assert_eq!(change("pause").status, 0);
    check_device(&folder, &model);
    assert_eq!(client.write(PLACES[2], 3), 0);
    put(&mut model, PLACES[2], 3);
    check_device(&folder, &model);
    assert_eq!(change("resume").status, 0);
    assert_eq!(client.write(PLACES[3], 4), 0);
    check_device(&folder, &model);
    assert_eq!(client.read(PLACES[3]), [4; BYTES]);
}

/// Writes into a named range reach the device at once, and others are held.
#[test]
fn writes_into_a_named_range_pass_the_buffer_by() {
    let folder = with_device();
    let mut model = vec![1; DEVICE_BYTES as usize];
    let (_server, mut client) = fire_with(&folder, "--bypass 3MiB-4MiB --bypass 7MiB-");
    assert_eq!(client.write(PLACES[1], 2), 0);
    check_device(&folder, &model);
    for at in &PLACES[2..] {
        assert_eq!(client.write(*at, 3), 0);
        put(&mut model, *at, 3);
    }
    check_device(&folder, &model);
}

/// A device that loses its end takes no writes any more; nothing is made of what it lost, and the log says why.
#[test]
fn a_device_that_gets_shorter_fails_flushes_and_is_not_made_longer() {
    let folder = with_device();
    let (mut server, mut client) = fire(&folder);
    assert_eq!((client.write(1 << 20, 2), client.ask(FLUSH, 0, 0, &[])), (0, 0));
    File::options().write(true).open(folder.path("stick.img")).unwrap().set_len(4 << 20).unwrap();
    assert_eq!(client.write(8 << 20, 3), 0, "the buffer takes it");
    assert_ne!(client.ask(FLUSH, 0, 0, &[]), 0, "the device does not");
    assert_eq!(client.read(8 << 20), [3; BYTES], "what the buffer holds can be read");
    let log = || std::fs::read_to_string(folder.path("log")).unwrap();
    eventually("the log says why", || log().contains("it is shorter than the 16777216 bytes that it had"));
    assert_eq!(server.end("TERM"), Some(1), "what the buffer held is lost");
    assert!(log().contains("event=stop-failed drive=\"stick\""), "{}", log());
    let said = log();
    let error = said.lines().find(|line| line.starts_with("error: not stopped in order: ")).expect(&said);
    assert!(
        error.contains("stick: what was not flushed before may be lost, its last flush failed"),
        "{error}"
    );
    assert!(error.contains("stick: not all of what was accepted"), "{error}");
    let device = File::open(folder.path("stick.img")).unwrap();
    assert_eq!(device.metadata().unwrap().len(), 4 << 20);
    let mut kept = [0; BYTES];
    device.read_exact_at(&mut kept, 1 << 20).unwrap();
    assert_eq!(kept, [2; BYTES]);
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let folder = with_device();
    std::fs::write(folder.path("odd.img"), [0; 1000]).unwrap();
    std::fs::write(folder.path("small.img"), [0; BYTES]).unwrap();
    let serve = ["--nbd", "unix:another"];
    let device = ["--device", "stick.img"];
    let (_server, _client) = fire(&folder);
    for (words, says) in [
        (&device[..], "no way to reach the drive; allowed: "),
        (&["--nbd", "unix:nbd"], "required arguments were not provided: --device"),
        (&["--device", "stick.img", "--nbd", "0"], "stick.img: another process has it"),
        (&["--probe", "stick.img"], "stick.img: another process has it"),
        (&["--probe", "odd.img"], "odd.img: its size of 1000 bytes is no multiple of a sector of 512"),
        (&["pause"], "required arguments were not provided: --control"),
        (&["--probe", "stick.img", "--nbd", "0"], "'--probe <DEVICE>' cannot be used with"),
        (&["--probe", "stick.img", "--cluster", "1MiB"], "'--probe <DEVICE>' cannot be used with"),
        (
            &["--probe", "small.img"],
            "small.img: 4096 bytes: too small to be probed; allowed: at least 67108864",
        ),
    ] {
        refused(&folder, words, says);
    }
    for (words, says) in [
        (&["--device", "."][..], ".: allowed: a regular file, a block device"),
        (&["--device", "none"], "none: no such file or device; allowed: "),
        (&["--device", "odd.img"], "its size of 1000 bytes is no multiple of a sector of 512"),
        (&["--device", "file:odd.img,sector=1000"], "sector = 1000; allowed: file:PATH"),
    ] {
        refused(&folder, &[words, &serve].concat(), says);
    }
    std::fs::write(folder.path("free.img"), vec![1; DEVICE_BYTES as usize]).unwrap();
    for (words, says) in [
        (&["--memory", "0"][..], "host.cluster_buffer.size = 0: not allowed; allowed: a size"),
        (&["--memory", "1MiB"], "host.cluster_buffer.size = 1048576 bytes: allowed: at least"),
        (&["--cluster", "1000"], "allowed: a multiple of the sector of 512 bytes"),
        (&["--flush", "never"], "not allowed; allowed: strict, paper"),
        (
            &["--bypass", "1MiB"],
            "--bypass 1MiB: free.img: allowed: FROM-TO, such as 0-64MiB, within its 16777216 bytes",
        ),
        (&["--bypass", "2MiB-1MiB"], "--bypass 2MiB-1MiB: free.img: allowed: FROM-TO"),
        (&["--bypass", "0-17MiB"], "--bypass 0-17MiB: free.img: allowed: FROM-TO"),
        (
            &["--memory", "1TiB"],
            "host.cluster_buffer.size = 1099511627776: allowed: at most the memory of this machine",
        ),
        (&["--bypass-metadata"], "--bypass-metadata: free.img: no known file system"),
        (&["--cluster", "auto", "--journal", "4MiB"], "--cluster auto: allowed: without a journal"),
        (&["--cluster", "auto"], "--cluster auto free.img: 16777216 bytes: too small to be probed"),
        (&["--set", "media.blocks=64"], "--set media.blocks=64: allowed: host.cluster_buffer.KEY=VALUE"),
        (&["--set", "host.cluster_buffer.sise=4MiB"], "unknown key (did you mean size?)"),
    ] {
        refused(&folder, &[&["--device", "free.img"][..], words, &serve].concat(), says);
    }
    // Its tables would have 4 bytes for each of its sectors: 120 GiB.
    File::create(folder.path("huge.img")).unwrap().set_len(15 << 40).unwrap();
    let huge = ["--device", "huge.img", "--memory", "256MiB", "--cluster", "64MiB"];
    let beside = ["--set", "host.cluster_buffer.tables=beside"];
    let says = "host.cluster_buffer.tables = beside: they would take 128";
    refused(&folder, &[&huge[..], &beside, &serve].concat(), says);
}

/// Flushed data may be in the journal alone: the device is refused without it, and with sectors of another size.
#[test]
fn a_journal_is_not_forgotten_whatever_the_sector() {
    let folder = Folder::new();
    File::create(folder.path("stick.img")).unwrap().set_len(64 << 20).unwrap();
    for (made, others) in [("file:stick.img", "stick.img"), ("stick.img", "file:stick.img")] {
        std::fs::write(folder.path("stick.img"), vec![0; 64 << 20]).unwrap();
        let script =
            format!("exec \"$0\" fire --device {made} --journal 12MiB --make-journal --nbd unix:nbd");
        let mut server = Serving::new(&folder, &script);
        listens(&folder, "nbd");
        assert_eq!(server.end("TERM"), Some(0));
        let sector = if made.starts_with("file:") { 4096 } else { 512 };
        let says = format!("it has a journal for sectors of {sector} bytes, which may hold flushed data");
        let way = format!("--device file:stick.img,sector={sector} --journal ");
        let serve = ["--nbd", "unix:other"];
        refused(&folder, &[&["--device", made], &serve[..]].concat(), &says);
        for more in [&[][..], &["--journal", "12MiB"], &["--journal", "12MiB", "--make-journal"]] {
            let words = [&["--device", others], more, &serve].concat();
            refused(&folder, &words, &says);
            refused(&folder, &words, &way);
        }
    }
}

fn refused(folder: &Folder, words: &[&str], says: &str) {
    let done = folder.run(&[&["fire"], words].concat());
    assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
    assert!(
        done.stderr.starts_with("error: ") && done.stderr.trim_end().lines().count() == 1,
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains(says), "{words:?}: {}", done.stderr);
}

/// Subcommands that ask a server print its answer as JSON, and accept `--json`.
#[test]
fn pause_and_resume_take_json() {
    let folder = Folder::new();
    for change in ["pause", "resume"] {
        let done = folder.run(&["fire", change, "--control", "none", "--json"]);
        assert!(done.status == 1 && done.stderr.contains("no server answers here"), "{}", done.stderr);
        assert!(folder.run(&["fire", change, "--help"]).answer().contains("--json"));
    }
}
