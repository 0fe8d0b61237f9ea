//! A plain file as a drive: compared with a plain model, with failures of the file, and served.

#![expect(clippy::print_stderr, reason = "what is skipped is told; a child process tells how it went")]

use crate::common::{self, Client, eventually, scratch};
use pellucid_flash::{ChunkOp, Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime, Status};
use pellucid_serve::event::Event;
use pellucid_serve::{Address, Core, FileConfig, FileDrive, Options, Server, Time};
use pellucid_target::nbd::NbdSession;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const SECTOR: usize = 4096;
const SECTORS: u64 = 256;
/// Environment variable through which the limited process finds its file.
const CHILD: &str = "PELLUCID_TEST_LIMITED_FILE";

fn place(name: &str) -> PathBuf {
    let directory = scratch(name);
    fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("disk.img");
    let _ = fs::remove_file(&path);
    path
}

fn config(path: &Path) -> FileConfig {
    FileConfig { size_bytes: Some(SECTORS * SECTOR as u64), ..FileConfig::new(path) }
}

fn open(path: &Path) -> FileDrive {
    FileDrive::open(&config(path)).expect("a file drive")
}

fn command(tag: u64, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) -> Command {
    Command::new(tag, opcode, Lba(lba), sectors, data)
}

/// Waits for the next completion.
fn next(drive: &mut FileDrive) -> Completion {
    loop {
        if let Some(completion) = drive.pop() {
            return completion;
        }
        assert!(drive.outstanding() > 0, "nothing is under way");
        drive.wait(Duration::from_secs(1));
        drive.advance(SimTime(1));
    }
}

fn ask(drive: &mut FileDrive, command: Command) -> Completion {
    drive.submit(SimTime(1), command);
    next(drive)
}

fn write(drive: &mut FileDrive, lba: u64, byte: u8) -> Status {
    ask(drive, command(0, Opcode::Write, lba, 1, vec![byte; SECTOR])).status
}

fn read(drive: &mut FileDrive, lba: u64) -> (Status, Vec<u8>) {
    let ended = ask(drive, command(0, Opcode::Read, lba, 1, vec![9; SECTOR]));
    (ended.status, ended.data)
}

/// Compares random commands with a plain array; as many run at once as do not overlap.
fn agrees_with_an_array(config: &FileConfig, seed: u64) {
    let mut drive = FileDrive::open(config).expect("a file drive");
    assert_eq!(drive.interface(0), Some(Interface::Block { sectors: SECTORS, handles: 1 }));
    let mut model = vec![0u8; SECTORS as usize];
    let mut rng = Rng::new(seed);
    for round in 0..60u8 {
        let (mut busy, mut reads) = (HashSet::new(), Vec::new());
        for tag in 0..32u64 {
            let (lba, sectors) = (rng.below(SECTORS - 80), 1 + rng.below(if tag == 0 { 80 } else { 8 }));
            let range = lba..lba + sectors;
            if !range.clone().all(|sector| busy.insert(sector)) {
                continue;
            }
            let bytes = sectors as usize * SECTOR;
            let (opcode, data) = match rng.below(8) {
                0 => (Opcode::Trim, Vec::new()),
                1 => (Opcode::WriteZeroes, Vec::new()),
                2..=4 => (Opcode::Write, vec![round.wrapping_mul(31) ^ tag as u8; bytes]),
                _ => (Opcode::Read, vec![0xEE; bytes]),
            };
            match (opcode, data.first()) {
                (Opcode::Read, _) => reads.push((tag, lba)),
                (Opcode::Write, Some(&byte)) => model[lba as usize..range.end as usize].fill(byte),
                _ => model[lba as usize..range.end as usize].fill(0),
            }
            let fua = opcode != Opcode::Read && rng.below(6) == 0;
            drive.submit(SimTime(1), Command { fua, ..command(tag, opcode, lba, sectors as u32, data) });
        }
        while drive.outstanding() + drive.completed() > 0 {
            let ended = next(&mut drive);
            assert_eq!(ended.status, Status::Success, "{:?}", ended.opcode);
            let Some((_, lba)) = reads.iter().find(|(tag, _)| *tag == ended.tag) else { continue };
            for (sector, image) in (*lba as usize..).zip(ended.data.chunks(SECTOR)) {
                assert!(image.iter().all(|&byte| byte == model[sector]), "sector {sector}, round {round}");
            }
        }
        assert_eq!(ask(&mut drive, command(0, Opcode::Flush, 0, 0, Vec::new())).status, Status::Success);
    }
    drop(drive);
    let bytes = fs::read(&config.path).expect("the file");
    assert!(
        bytes.chunks(SECTOR).zip(&model).all(|(image, &byte)| image == vec![byte; SECTOR]),
        "the file itself"
    );
}

#[test]
fn a_file_is_what_was_written() {
    let path = place("file-model");
    agrees_with_an_array(&config(&path), 1);
    assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_past_the_page_cache_is_what_was_written() {
    let path = place("file-direct");
    let config = FileConfig { direct: true, threads: 2, ..config(&path) };
    if let Err(error) = FileDrive::open(&config) {
        eprintln!("SKIPPED: this file system has no direct I/O: {error}");
        return;
    }
    let _ = fs::remove_file(&path);
    agrees_with_an_array(&config, 2);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let path = place("file-refused");
    let mut drive = open(&path);
    assert_eq!(write(&mut drive, 7, 5), Status::Success);
    let refused = [
        (command(1, Opcode::Write, SECTORS - 1, 2, vec![1; 2 * SECTOR]), Status::LbaOutOfRange),
        (command(2, Opcode::Write, u64::MAX, 1, vec![1; SECTOR]), Status::LbaOutOfRange),
        (command(3, Opcode::Write, 7, 1, vec![1; 100]), Status::InvalidField),
        (command(4, Opcode::Read, 7, 0, Vec::new()), Status::InvalidField),
        (command(5, Opcode::Trim, SECTORS, 1, Vec::new()), Status::LbaOutOfRange),
        (command(6, Opcode::Chunk(ChunkOp::Reset), 0, 0, Vec::new()), Status::InvalidOpcode),
        (Command { namespace: 1, ..command(7, Opcode::Flush, 0, 0, Vec::new()) }, Status::InvalidField),
    ];
    for (command, status) in refused {
        let tag = command.tag;
        let ended = ask(&mut drive, command);
        assert_eq!((ended.tag, ended.status), (tag, status));
    }
    assert_eq!(read(&mut drive, 7), (Status::Success, vec![5; SECTOR]));
    let unread = ask(&mut drive, command(8, Opcode::Read, 7, 1, Vec::new()));
    assert_eq!((unread.status, unread.data.len()), (Status::Success, 0), "a read for its own sake");
    assert!(drive.take_sentences().is_empty());
}

#[test]
fn what_is_no_drive_is_refused_with_what_is_allowed() {
    let path = place("file-unfit");
    let sentence = |config: &FileConfig| FileDrive::open(config).err().expect("refused").to_string();
    let there = FileConfig::new(&path);
    assert!(sentence(&there).contains("no such file; allowed: ,size="), "{}", sentence(&there));
    assert!(!path.exists(), "nothing was made");
    let odd = FileConfig { size_bytes: Some(10), ..there.clone() };
    assert!(sentence(&odd).contains("no multiple of a sector"), "{}", sentence(&odd));
    assert!(!path.exists(), "a refused size leaves nothing");
    fs::write(&path, [0; 5000]).expect("a file");
    assert!(
        sentence(&there).contains("5000 bytes is no multiple of a sector of 4096"),
        "{}",
        sentence(&there)
    );
    let other = FileConfig { size_bytes: Some(8192), ..there.clone() };
    assert!(sentence(&other).contains("size = 8192; it has 5000 bytes"), "{}", sentence(&other));
    assert_eq!(fs::read(&path).expect("the file"), [0; 5000], "it is as it was");
    fs::write(&path, []).expect("a file");
    for config in [&config(&path), &there] {
        assert!(
            sentence(config).contains("it is there and empty: what it held is gone"),
            "{}",
            sentence(config)
        );
    }
    assert_eq!(fs::metadata(&path).expect("there").len(), 0, "it is as it was");
    for (magic, allowed) in [("PELLUCID", "media.store=file:PATH"), ("PELLAGED", "the image of a used drive")]
    {
        let mut ours = vec![0; SECTOR];
        ours[..8].copy_from_slice(magic.as_bytes());
        fs::write(&path, &ours).expect("a file");
        assert!(sentence(&there).contains(allowed), "{}", sentence(&there));
        assert_eq!(fs::read(&path).expect("the file"), ours, "it is as it was");
    }
    let directory = FileConfig::new(path.parent().expect("a directory"));
    assert!(sentence(&directory).contains("allowed: a regular file, a block device"));
    fs::remove_file(&path).expect("removed");
    let held = open(&path);
    assert!(sentence(&config(&path)).contains("another process has it"), "{}", sentence(&config(&path)));
    drop(held);
    assert!(!path.exists(), "what was made and never written is gone");
    assert_eq!(write(&mut open(&path), 1, 1), Status::Success);
    assert!(path.exists(), "what was written stays");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("read-only");
    match File::options().write(true).open(&path) {
        Ok(_) => eprintln!("SKIPPED: to this user no file is read-only"),
        Err(_) => assert!(sentence(&config(&path)).contains("open for reading and writing")),
    }
}

#[test]
fn a_file_that_is_made_shorter_answers_errors_and_one_sentence() {
    let path = place("file-truncated");
    let mut drive = open(&path);
    assert_eq!(write(&mut drive, 1, 1), Status::Success);
    assert_eq!(write(&mut drive, 200, 2), Status::Success);
    let file = File::options().write(true).open(&path).expect("the file");
    file.set_len(100 * SECTOR as u64).expect("shorter");
    assert_eq!(write(&mut drive, 250, 3), Status::WriteFault, "a write does not make zeros of what is lost");
    assert_eq!(file.metadata().expect("there").len(), 100 * SECTOR as u64);
    assert_eq!(read(&mut drive, 200).0, Status::UnrecoveredRead);
    assert_eq!(ask(&mut drive, command(0, Opcode::Flush, 0, 0, Vec::new())).status, Status::WriteFault);
    assert!(drive.is_read_only());
    let sentences = drive.take_sentences();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains("shorter than the 1048576 bytes"), "{sentences:?}");
}

/// An unlinked file loses its contents when the process ends, so writes and flushes must fail; reads still work, for a copy.
#[test]
fn a_file_that_is_deleted_or_replaced_takes_no_more_writes() {
    for replaced in [false, true] {
        let path = place("file-deleted");
        let mut drive = open(&path);
        assert_eq!(write(&mut drive, 1, 7), Status::Success);
        let other = path.with_extension("other");
        match replaced {
            true => fs::copy(&path, &other).and_then(|_| fs::rename(&other, &path)).expect("another file"),
            false => fs::remove_file(&path).expect("deleted"),
        }
        assert_eq!(ask(&mut drive, command(0, Opcode::Flush, 0, 0, Vec::new())).status, Status::WriteFault);
        assert!(drive.is_read_only());
        assert_eq!(write(&mut drive, 2, 8), Status::ReadOnly);
        assert_eq!(read(&mut drive, 1), (Status::Success, vec![7; SECTOR]));
        let sentences = drive.take_sentences();
        assert!(sentences.len() == 1 && sentences[0].contains("deleted or replaced"), "{sentences:?}");
    }
}

/// A temporary file and one in memory have no name from the start, so they have lost none.
#[test]
fn a_file_that_never_had_a_name_is_not_deleted() {
    let path = place("file-nameless");
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("a file");
    file.set_len(1 << 20).and_then(|()| fs::remove_file(&path)).expect("a file without a name");
    let mut drive = open(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
    assert_eq!(write(&mut drive, 1, 7), Status::Success);
    assert_eq!(ask(&mut drive, command(0, Opcode::Flush, 0, 0, Vec::new())).status, Status::Success);
    assert_eq!(read(&mut drive, 1), (Status::Success, vec![7; SECTOR]));
    assert!(!drive.is_read_only() && drive.take_sentences().is_empty());
}

#[test]
fn a_read_finds_that_a_file_is_shorter() {
    let path = place("file-short-read");
    let mut drive = open(&path);
    File::options().write(true).open(&path).and_then(|file| file.set_len(SECTOR as u64)).expect("shorter");
    assert_eq!(read(&mut drive, 100).0, Status::UnrecoveredRead);
    assert_eq!(drive.take_sentences().len(), 1);
}

/// When the file cannot grow, as on a full disk, a write fails with a status, existing data stay readable,
/// and all works again once there is space. The limit applies to a separate process, so that it affects no
/// other test.
#[test]
fn a_full_disk_is_a_write_fault_that_passes() {
    let path = place("file-full");
    let me = std::env::current_exe().expect("this test");
    let limited = Process::new("sh")
        .arg("-c")
        .arg("trap '' XFSZ; exec \"$0\" --exact file::in_a_limited_process --nocapture")
        .arg(me)
        .env(CHILD, &path)
        .output()
        .expect("a shell");
    let said =
        String::from_utf8_lossy(&limited.stdout).into_owned() + &String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success() && said.contains("limited: done"), "{said}");
}

/// Child process of [`a_full_disk_is_a_write_fault_that_passes`], not a test by itself.
#[test]
fn in_a_limited_process() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let mut drive = open(&path);
    assert_eq!(write(&mut drive, 10, 1), Status::Success);
    let before = getrlimit(Resource::Fsize);
    let limit = Rlimit { current: Some(100 * SECTOR as u64), ..before };
    setrlimit(Resource::Fsize, limit).expect("a limit");
    assert_eq!(write(&mut drive, 200, 2), Status::WriteFault);
    let forced = Command { fua: true, ..command(0, Opcode::Write, 201, 1, vec![2; SECTOR]) };
    assert_eq!(ask(&mut drive, forced).status, Status::WriteFault);
    assert_eq!(write(&mut drive, 11, 3), Status::Success, "below the limit");
    assert_eq!(read(&mut drive, 10), (Status::Success, vec![1; SECTOR]));
    assert!(!drive.is_read_only(), "nothing that was acknowledged is in doubt");
    assert_eq!(drive.take_sentences().len(), 1, "said once");
    setrlimit(Resource::Fsize, before).expect("no limit");
    assert_eq!(write(&mut drive, 200, 4), Status::Success);
    assert_eq!(read(&mut drive, 200), (Status::Success, vec![4; SECTOR]));
    eprintln!("limited: done");
}

/// A file is served over NBD like any other drive; its messages reach the log.
#[test]
fn a_file_is_served() {
    let path = place("file-served");
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&lines);
    let socket = path.with_extension("sock");
    let (drive, listen) = (open(&path), Address::Unix(socket.clone()));
    let (tell, told) = mpsc::channel();
    let serving = std::thread::spawn(move || {
        let core = Core::new(vec![("disk".into(), drive)], Time::Instant).expect("a core");
        let log = move |event: &Event| log.lock().expect("a log").push(event.to_string());
        let mut server = Server::new(core, Options::default(), Box::new(log)).expect("a server");
        let accept = Box::new(|_, _| Ok(Box::<NbdSession>::default() as _));
        server.listen(&listen, "nbd", accept).expect("a listener");
        tell.send(server.stopper()).expect("somebody listens");
        server.run().map(drop)
    });
    let stopper = told.recv().expect("the server starts");
    let stream = std::os::unix::net::UnixStream::connect(&socket).expect("connected");
    let mut client = Client::begin(Box::new(stream), "disk", true);
    let data = common::pattern(3, 64 << 10);
    client.write(8192, &data);
    client.flush();
    assert_eq!(client.read(8192, data.len() as u32), data);
    assert_eq!(fs::read(&path).expect("the file")[8192..8192 + data.len()], data);
    File::options().write(true).open(&path).and_then(|file| file.set_len(SECTOR as u64)).expect("shorter");
    let refused = client.ask(pellucid_wire::nbd::Command::Read, 0, 8192, 4096, &[]);
    assert_ne!(refused.error, 0);
    let said = || lines.lock().expect("log").iter().any(|line| line.contains("event=file-failed"));
    eventually("the log", said);
    client.leave();
    stopper.stop();
    serving.join().expect("the server").expect("stopped");
}
