//! Host's view when the storage below a drive fails: a full disk, a truncated file, memory at its limit, a
//! full recording.

use crate::common::{self, Client, chunk_config, config, drive, pattern, scratch, serve, serve_watched};
use pellucid_device::{Device, DeviceConfig};
use pellucid_flash::{Lba, Opcode, Status};
use pellucid_host::{HostFtlConfig, LayerConfig};
use pellucid_media::{Space, StoreKind};
use pellucid_serve::Operated;
use pellucid_serve::{Core, FioTrace, Served, Time};
use pellucid_target::Drives;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::Operation;
use pellucid_wire::nbd::{Command, command_flag};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;
const MIB32: u32 = 1 << 20;

/// A file system of 8 MiB in memory, removed at the end.
struct Small(PathBuf);

impl Small {
    /// Mounts it; returns `None` and prints the reason if this is not possible.
    #[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
    fn new(name: &str) -> Option<Small> {
        let place = scratch(name).join("small");
        std::fs::create_dir_all(&place).expect("a directory");
        let _ = std::process::Command::new("umount").arg(&place).output();
        let mut mount = std::process::Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=8m", "pellucid"]).arg(&place).output();
        match done {
            Ok(output) if output.status.success() => Some(Small(place)),
            Ok(output) => {
                println!("skipped: mount: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: mount: {error}");
                None
            }
        }
    }

    /// Fills the free space except `left` bytes; returns the path of the filling file.
    fn fill(&self, left: usize) -> PathBuf {
        let path = self.0.join("filler");
        let mut filler = std::fs::File::create(&path).expect("a file");
        let page = [1; 4096];
        while filler.write_all(&page).is_ok() {}
        let taken = filler.metadata().expect("its length").len() / 4096 * 4096;
        filler.set_len(taken.saturating_sub(left as u64)).expect("a shorter file");
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}

fn in_file(path: &Path, space: Space) -> DeviceConfig {
    let mut config = config(StoreKind::File(path.into()));
    config.media.keep.space = space;
    // 4 MiB.
    config.media.geometry.blocks = 16;
    config.ftl.over_provisioning = 0.5;
    config
}

/// A sparse image on a disk that fills up: hosts get errors, reads continue, no guaranteed data are lost,
/// even if the process ends, and with space again it continues as before. No block is retired.
#[test]
fn a_full_disk_is_an_error_for_the_host() {
    let Some(small) = Small::new("full") else { return };
    let described = in_file(&small.0.join("image"), Space::Sparse);
    let device = Device::new(&described).expect("a drive");
    let served = serve("full", vec![("one".into(), device)], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    let (old, new) = (pattern(1, MIB), pattern(2, MIB));
    client.write(0, &old);
    client.flush();
    let filler = small.fill(64 << 10);
    let mut errors = 0;
    for at in (0..MIB).step_by(16 << 10) {
        let reply = client.ask(Command::Write, 0, at as u64, 16 << 10, &new[at..at + (16 << 10)]);
        errors += u32::from(reply.error != 0);
    }
    let flushed = client.ask(Command::Flush, 0, 0, 0, &[]).error;
    assert!(errors > 0 && flushed != 0, "{errors} writes failed, flush {flushed}");
    let found = client.read(0, MIB32);
    for (at, sector) in found.chunks(512).enumerate() {
        let at = at * 512;
        assert!(sector == &old[at..at + 512] || sector == &new[at..at + 512], "sector at {at}");
    }
    // State if the process is killed now, and the disk has space again.
    let copy = scratch("full").join("copy");
    std::fs::copy(small.0.join("image"), &copy).expect("a copy");
    let killed = Device::new(&in_file(&copy, Space::Sparse)).expect("the image of a killed process");
    assert_eq!(killed.bad_blocks(), (0, 0));
    killed.check();
    let again = serve("full-killed", vec![("one".into(), killed)], Time::Instant);
    let mut survivor = Client::tcp(&again, "one");
    for (at, sector) in survivor.read(0, MIB32).chunks(512).enumerate() {
        let at = at * 512;
        assert!(sector == &old[at..at + 512] || sector == &new[at..at + 512], "sector at {at}, killed");
    }
    drop(survivor);
    drop(again.stop());
    std::fs::remove_file(copy).expect("the copy");

    std::fs::remove_file(filler).expect("the filler");
    client.write(0, &new);
    client.flush();
    assert_eq!(client.read(0, MIB32), new);
    drop(client);
    let devices = served.stop();
    assert_eq!(devices[0].bad_blocks(), (0, 0));
    devices[0].check();
    drop(devices);
    let mut mounted = Device::new(&described).expect("the drive");
    assert!(!mounted.media().recovered() && mounted.store_notice().is_none());
}

/// A full disk is no fault of a chunk: a host FTL refuses writes without space, and continues without a
/// restart when there is space.
#[test]
fn a_host_ftl_goes_on_when_a_full_disk_has_room_again() {
    let Some(small) = Small::new("full-host-ftl") else { return };
    let mut described = chunk_config();
    described.media.store = StoreKind::File(small.0.join("image"));
    described.media.keep.space = Space::Sparse;
    let start = || {
        let device = Device::new(&described).expect("a drive");
        let settings = HostFtlConfig { over_provisioning: 0.8, ..HostFtlConfig::default() };
        let served = Served::with_layers(device, &[LayerConfig::HostFtl(settings)]).expect("a start");
        Core::new(vec![("app".into(), served)], Time::Instant).expect("served")
    };
    let mut core = start();
    let bytes = MIB / 2;
    let (old, new) = (pattern(1, bytes), pattern(2, bytes));
    assert!(write_all(&mut core, &old) && flushes(&mut core));
    let filler = small.fill(64 << 10);
    for _ in 0..20 {
        write_all(&mut core, &new);
        assert!(!flushes(&mut core), "the disk is full");
    }
    for (at, sector) in read_all(&mut core, bytes).chunks(512).enumerate() {
        let at = at * 512;
        assert!(sector == &old[at..at + 512] || sector == &new[at..at + 512], "sector at {at}");
    }
    std::fs::remove_file(filler).expect("the filler");
    let newest = pattern(3, bytes);
    assert!(write_all(&mut core, &newest) && flushes(&mut core), "the disk has room");
    assert_eq!(read_all(&mut core, bytes), newest);
    drop(core);
    assert_eq!(read_all(&mut start(), bytes), newest, "after a restart");
}

/// Runs a host's command to its end.
fn ask(core: &mut Core, opcode: Opcode, at: usize, data: Vec<u8>) -> (Status, Vec<u8>) {
    let sectors = (data.len() / 512) as u32;
    let route = Route { connection: ConnectionId::new(1), token: 0 };
    core.submit(0, route, Operation::new(opcode, Lba(at as u64 / 512), sectors, data));
    loop {
        core.run();
        if let Some(done) = core.pop() {
            return (done.answer.status, done.answer.data);
        }
    }
}

/// Returns true if all writes succeed.
fn write_all(core: &mut Core, data: &[u8]) -> bool {
    let parts = data.chunks(16 << 10).zip((0..).step_by(16 << 10));
    parts.fold(true, |well, (part, at)| {
        ask(core, Opcode::Write, at, part.to_vec()).0 == Status::Success && well
    })
}

fn flushes(core: &mut Core) -> bool {
    ask(core, Opcode::Flush, 0, Vec::new()).0 == Status::Success
}

fn read_all(core: &mut Core, bytes: usize) -> Vec<u8> {
    let part = |at| ask(core, Opcode::Read, at, vec![0; 16 << 10]);
    let parts = (0..bytes).step_by(16 << 10).map(part);
    parts
        .flat_map(|(status, data)| if status == Status::Success { data } else { panic!("{status:?}") })
        .collect()
}

/// An image that does not fit is refused in a sentence, and leaves nothing behind.
#[test]
fn space_is_reserved_or_refused() {
    let Some(small) = Small::new("reserve") else { return };
    let path = small.0.join("image");
    let filler = small.fill(MIB);
    let refused = Device::new(&in_file(&path, Space::Reserve)).expect_err("no space").to_string();
    assert!(refused.contains("cannot reserve 4.") && refused.contains("drive.media.space"), "{refused}");
    assert!(!path.exists(), "what was begun is taken away");
    std::fs::remove_file(filler).expect("the filler");
    let device = Device::new(&in_file(&path, Space::Reserve)).expect("space enough");
    assert!(device.extent().reserved > 4 << 20);
    small.fill(0);
    let served = serve("reserve", vec![("one".into(), device)], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    for round in 0..4 {
        client.write(0, &pattern(round, 2 * MIB));
        client.flush();
    }
    assert_eq!(client.read(0, 2 * MIB32), pattern(3, 2 * MIB));
    drop(served.stop());
}

/// A file is truncated below a running server: reads of missing data fail, no new data are guaranteed, and
/// the server survives.
#[test]
fn a_file_cut_off_is_unreadable_and_no_more() {
    let path = scratch("cut-off").join("image");
    let _ = std::fs::remove_file(&path);
    let device = Device::new(&in_file(&path, Space::Reserve)).expect("a drive");
    let recording = Box::new(FioTrace::new(io::sink()));
    let (served, log) = serve_watched("cut-off", vec![("one".into(), device)], Time::Instant, recording);
    let mut client = Client::tcp(&served, "one");
    let data = pattern(3, 2 * MIB);
    client.write(0, &data);
    client.flush();
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the image");
    file.set_len(file.metadata().expect("its length").len() / 2).expect("cut off");
    let mut failed = 0;
    for at in (0..2 * MIB).step_by(4096) {
        let reply = client.ask(Command::Read, 0, at as u64, 4096, &[]);
        match reply.error {
            0 => assert!(reply.data == data[at..at + 4096], "{at}"),
            _ => failed += 1,
        }
    }
    assert!(failed > 0, "half of the file is gone");
    for _ in 0..3 {
        assert_ne!(client.ask(Command::Write, command_flag::FUA, 0, 4096, &data[..4096]).error, 0);
        assert_ne!(client.ask(Command::Flush, 0, 0, 0, &[]).error, 0);
    }
    let told = || log.lock().expect("a log").matches("event=store-cut-off").count();
    common::eventually("the log says so", || told() == 1);
    drop(client);
    // The server ends with an error: the image is incomplete.
    drop(served);
    assert_eq!(told(), 1);
}

/// A file is deleted, or another one put in its place, below a running server: no flush promises what ends with the server.
#[test]
fn a_deleted_file_keeps_no_promise() {
    for replaced in [false, true] {
        let path = scratch("deleted").join("image");
        let _ = std::fs::remove_file(&path);
        let device = Device::new(&in_file(&path, Space::Reserve)).expect("a drive");
        let recording = Box::new(FioTrace::new(io::sink()));
        let (served, log) = serve_watched("deleted", vec![("one".into(), device)], Time::Instant, recording);
        let mut client = Client::tcp(&served, "one");
        client.write(0, &pattern(3, MIB));
        client.flush();
        match replaced {
            true => {
                let other = path.with_extension("other");
                std::fs::copy(&path, &other)
                    .and_then(|_| std::fs::rename(&other, &path))
                    .expect("another file");
            }
            false => std::fs::remove_file(&path).expect("deleted"),
        }
        for _ in 0..2 {
            assert_ne!(client.ask(Command::Flush, 0, 0, 0, &[]).error, 0, "replaced: {replaced}");
            assert_ne!(client.ask(Command::Write, 0, 0, 4096, &pattern(4, 4096)).error, 0);
        }
        assert_eq!(client.read(0, MIB32), pattern(3, MIB), "for a copy");
        let told = || log.lock().expect("a log").matches("event=store-deleted").count();
        common::eventually("the log says so", || told() == 1);
    }
}

/// A temporary file and one in memory have no name from the start, so they have lost none.
#[test]
fn a_file_that_never_had_a_name_is_not_deleted() {
    let path = scratch("nameless").join("image");
    let _ = std::fs::remove_file(&path);
    drop(Device::new(&in_file(&path, Space::Reserve)).expect("a drive"));
    let file = std::fs::File::open(&path).expect("its file");
    std::fs::remove_file(&path).expect("a file without a name");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let device = Device::new(&in_file(&path, Space::Reserve)).expect("a drive");
    let recording = Box::new(FioTrace::new(io::sink()));
    let (served, log) = serve_watched("nameless", vec![("one".into(), device)], Time::Instant, recording);
    let mut client = Client::tcp(&served, "one");
    client.write(0, &pattern(3, MIB));
    client.flush();
    assert_eq!(client.read(0, MIB32), pattern(3, MIB));
    assert!(!log.lock().expect("a log").contains("event=store-deleted"));
}

/// Memory use follows the live data, whatever was written before; at the limit writes fail, and trims free
/// memory.
#[test]
fn memory_has_a_bound() {
    let mut described = config(StoreKind::Ram);
    described.media.keep.ram_max = Some(3 << 20);
    let device = Device::new(&described).expect("a drive");
    let (before, at_most) = (memory(&device), device.extent().memory_max);
    assert!(at_most > 3 << 20 && at_most < 5 << 20, "{at_most}");
    let served = serve("bound", vec![("one".into(), device)], Time::Instant);
    let mut client = Client::tcp(&served, "one");
    for round in 0..20 {
        client.write(0, &pattern(round, MIB));
    }
    client.flush();
    let mut refused = None;
    let end = client.size_bytes as usize - (64 << 10);
    for at in (MIB..end).step_by(64 << 10) {
        if client.ask(Command::Write, 0, at as u64, 64 << 10, &pattern(7, 64 << 10)).error != 0 {
            refused = Some(at);
            break;
        }
    }
    let refused = refused.expect("the bound lies below the capacity");
    assert!(refused > 2 * MIB, "{refused}: what is alive has room");
    assert_eq!(client.read(0, MIB32), pattern(19, MIB));
    assert_eq!(client.ask(Command::Trim, 0, MIB as u64, (refused - MIB) as u32, &[]).error, 0);
    client.write(2 * MIB as u64, &pattern(8, MIB / 2));
    client.flush();
    assert_eq!(client.read(2 * MIB as u64, MIB32 / 2), pattern(8, MIB / 2));
    assert_eq!(client.read(0, MIB32), pattern(19, MIB));
    drop(client);
    let devices = served.stop();
    let now = memory(&devices[0]) - before;
    assert!(now < 2 << 20, "{now} bytes for 1.5 MiB that are alive");
    devices[0].check();
}

fn memory(device: &Device) -> u64 {
    let parts = device.memory_bytes();
    parts.iter().find(|(part, _)| *part == "media").expect("the media take memory").1
}

/// A writer with limited space.
struct Limited(usize);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A recording that fails is reported at once, a single time, and service continues.
#[test]
fn a_full_recording_is_told_of_at_once() {
    let recording = Box::new(FioTrace::new(Limited(20_000)));
    let drives = vec![("one".into(), drive(StoreKind::Ram))];
    let (served, log) = serve_watched("recording", drives, Time::Instant, recording);
    let mut client = Client::tcp(&served, "one");
    for round in 0..2_000u64 {
        client.write(round % 64 * 4096, &pattern(1, 4096));
    }
    common::eventually("the log says so", || log.lock().expect("a log").contains("event=record-failed"));
    client.write(0, &pattern(2, 4096));
    assert_eq!(client.read(0, 4096), pattern(2, 4096));
    assert_eq!(log.lock().expect("a log").matches("event=record-failed").count(), 1);
}
