//! File servers on the log-structured file system, over a modelled drive in virtual time.
//!
//! ```text
//!  threads ─ operations ─► Fs ─ jobs ─► Volume ─► drive          a block namespace (ULFS-SSD), or Prism's function level (ULFS-Prism)
//!  (Personality)            ◄─ ended ──
//! ```
//! The operations are those of [`pellucid_workload::files`], which models an in-place file system with a journal: the same personalities, sizes,
//! memory and processor time. Here the file system is the real one, with its data; [`InPlaceServer`] does the same work on the model. Order at the
//! same time: answers of the drive, then threads by number.

mod in_place;

pub use in_place::InPlaceServer;

use crate::drive::TimedDrive;
use pellucid_device::Device;
use pellucid_flash::{Nanos, Rng, SimTime};
use pellucid_fs::{
    BLOCK_BYTES, Caller, Errno, FormatOptions, Fs, FsCounters, Ino, Job, MountOptions, SetAttributes, Step,
    SyncPoint, Time, Volume,
};
use pellucid_host::Stack;
use pellucid_workload::files::{FilesConfig, Meter, Operation, Personality, Picks};
use std::collections::VecDeque;

/// Maximum number of jobs in flight.
const JOBS_MAX: usize = 128;

/// Location of a file system, and its mount options.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Namespace.
    pub namespace: u16,
    /// Bytes of the file system; 0: all the space.
    pub bytes: u64,
    /// Bytes of a segment on a block drive; 0: the default of `fs format`. On flash a segment is a flash block.
    pub segment_bytes: u64,
    /// Percent of the flash that the library keeps as over-provisioning. A block drive has its own.
    pub ops_percent: u32,
    /// Mount options.
    pub mount: MountOptions,
}

#[derive(Clone, Copy, Debug)]
struct File {
    ino: Ino,
    bytes: u64,
    wanted_bytes: u64,
    exists: bool,
    /// Number of threads that have it open.
    open: u32,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// Index of the operation in the loop.
    at: usize,
    file: Option<usize>,
    rotor: usize,
    append: u64,
    sync: Option<SyncPoint>,
    due: SimTime,
}

/// Threads on a file system on a drive.
pub struct FileServer<D: TimedDrive = Device> {
    config: FilesConfig,
    fs: Fs,
    stack: Stack<Volume, D>,
    files: Vec<File>,
    threads: Vec<Thread>,
    /// Positions of the rotations shared by the threads: over files that do not exist, and over files that do.
    rotors: [usize; 2],
    cores: Vec<SimTime>,
    /// Jobs being built by the processor, and when they are ready. They go to the drive in this order.
    building: VecDeque<(SimTime, Job)>,
    rng: Rng,
    data: Vec<u8>,
    buffer: Vec<u8>,
    operations: u64,
    refused: u64,
    /// Operations of the measurement, and the file system's counters at its beginning.
    meter: Meter,
    before: FsCounters,
    /// True if a webserver's log has grown long, and is to be emptied.
    rotates: bool,
    /// Progress of the threads at this time; `None`: time is to pass first.
    turn: Option<Turn>,
}

/// One pass over all threads, repeated until none can make progress.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The next thread.
    thread: usize,
    /// True if a thread made progress in this pass.
    moved: bool,
}

fn time(now: SimTime) -> Time {
    Time(now.0 as i64)
}

impl<D: TimedDrive> FileServer<D> {
    /// Makes a file system on a drive, and its files.
    ///
    /// The error is a sentence.
    pub fn new(config: &FilesConfig, drive: D, placement: &Placement) -> Result<FileServer<D>, String> {
        let volume = Volume::new(&drive, placement.namespace)?;
        let now = drive.now();
        let mut stack = Stack::start(volume, drive, now)?;
        stack.layer.set_ops(placement.ops_percent)?;
        let most = stack.layer.blocks();
        let blocks_of = |bytes: u64| bytes / BLOCK_BYTES as u64;
        let format = FormatOptions {
            backend: stack.layer.backend(),
            blocks: if placement.bytes == 0 { most } else { most.min(blocks_of(placement.bytes)) },
            segment_blocks: blocks_of(placement.segment_bytes) as u32,
            data_checksums: false,
            id: 1,
        };
        let fs = Fs::format(time(now), &format, placement.mount)?;
        let mut rng = Rng::stream(config.seed, "file server");
        let sizes = config.personality.sizes(config.file_bytes);
        let file = |rng: &mut Rng| File {
            ino: Ino::ROOT,
            bytes: 0,
            wanted_bytes: sizes.draw(rng),
            exists: false,
            open: 0,
        };
        // The log of a webserver is one more file.
        let files: Vec<File> = (0..=config.files).map(|_| file(&mut rng)).collect();
        let thread = |rng: &mut Rng| {
            let rotor = rng.below(config.files.into()) as usize;
            Thread { at: 0, file: None, rotor, append: 0, sync: None, due: SimTime::ZERO }
        };
        let threads = (0..config.threads).map(|_| thread(&mut rng)).collect();
        let cores = vec![SimTime::ZERO; config.host.cores.max(1) as usize];
        let (config, buffer) = (config.clone(), Vec::new());
        let mut server = FileServer {
            config,
            fs,
            stack,
            files,
            threads,
            rotors: [0; 2],
            cores,
            building: VecDeque::new(),
            rng,
            data: Vec::new(),
            buffer,
            operations: 0,
            refused: 0,
            meter: Meter::new(),
            before: FsCounters::default(),
            rotates: false,
            turn: None,
        };
        server.populate()?;
        Ok(server)
    }

    /// Returns the file system.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// Refuses files that have no room, before memory is allocated for their data.
    fn check_room(&mut self, existing: &[usize]) -> Result<(), String> {
        let mut free = 0;
        self.wait(|server, now| match server.fs.statfs(now)? {
            Step::Done(found) => {
                free = found.blocks_free;
                Ok(Step::Done(()))
            }
            Step::Wait => Ok(Step::Wait),
        })?;
        let blocks = |&number: &usize| self.files[number].wanted_bytes.div_ceil(BLOCK_BYTES as u64);
        let needed = existing.iter().map(blocks).fold(0, u64::saturating_add);
        if needed <= free {
            return Ok(());
        }
        let mib = |blocks: u64| blocks / ((1 << 20) / BLOCK_BYTES as u64);
        Err(format!(
            "{} files of {} KiB need about {} MiB; allowed: fewer or smaller files, or a file system with more room than {} MiB",
            self.config.files,
            self.config.file_bytes >> 10,
            mib(needed).max(mib(free) + 1),
            mib(free)
        ))
    }

    fn populate(&mut self) -> Result<(), String> {
        let last = self.files.len() - 1;
        let percent = u64::from(self.config.personality.existing_percent());
        let mut existing: Vec<usize> =
            (0..=last).filter(|&number| number == last || self.rng.below(100) < percent).collect();
        self.check_room(&existing)?;
        if self.config.host.picks == Picks::Together {
            // In random order, as filebench makes a set that it then goes through in the order of the numbers.
            for at in (1..existing.len()).rev() {
                existing.swap(at, self.rng.below(at as u64 + 1) as usize);
            }
        }
        // As much as one operation writes.
        let longest = self.files.iter().map(|file| file.wanted_bytes).max().unwrap_or(0);
        let longest = longest.max(self.config.append_bytes).max(1 << 16);
        self.data = (0..longest).map(|n| (n / 7) as u8).collect();
        for number in existing {
            self.wait(|server, now| server.create(now, number))?;
            let bytes = self.files[number].wanted_bytes;
            self.wait(|server, now| server.write(now, number, 0, bytes))?;
        }
        self.files[last].open = 1;
        let point = self.fs.sync();
        self.wait(|server, _| Ok(if server.fs.is_synced(point)? { Step::Done(()) } else { Step::Wait }))
    }

    /// Repeats an operation until it is done.
    fn wait(
        &mut self,
        mut operation: impl FnMut(&mut FileServer<D>, Time) -> Result<Step<()>, Errno>,
    ) -> Result<(), String> {
        loop {
            match operation(self, time(self.stack.now())) {
                Ok(Step::Done(())) => return Ok(()),
                Ok(Step::Wait) => self.go_on(SimTime::MAX)?,
                Err(why) => return Err(format!("the files cannot be made: {why}")),
            }
        }
    }

    /// Hands jobs to the drive, and its answers to the file system; returns whether there were any.
    fn exchange(&mut self) -> bool {
        let mut any = false;
        loop {
            let now = self.stack.now();
            let mut moved = false;
            while self.stack.asked() + self.building.len() < JOBS_MAX
                && let Some(job) = self.fs.next_job(time(now))
            {
                let built = self.computes(now, self.cost_of(&job));
                let before = self.building.back().map_or(now, |last| last.0);
                self.building.push_back((built.max(before), job));
                moved = true;
            }
            while self.building.front().is_some_and(|(built, _)| *built <= now)
                && let Some((_, job)) = self.building.pop_front()
            {
                self.stack.ask(now, job);
                moved = true;
            }
            while let Some(answer) = self.stack.answer() {
                self.fs.answered(time(now), answer);
                (moved, any) = (true, true);
            }
            if !moved {
                return any;
            }
        }
    }

    /// Returns the CPU time before a job reaches the drive. A flush of flash and the library's own work are not commands.
    fn cost_of(&self, job: &Job) -> Nanos {
        let blocks = match job {
            Job::Read { blocks, .. } => u64::from(*blocks),
            Job::Write { data, .. } | Job::NamelessWrite { data, .. } => data.count() as u64,
            Job::Flush { .. } if self.stack.layer.function_counters().is_none() => 0,
            _ => return Nanos::ZERO,
        };
        let host = &self.config.host;
        Nanos(host.request.0 + host.request_kib.0 * blocks * (BLOCK_BYTES as u64 >> 10))
    }

    /// Keeps a core busy for so long; returns when it is done.
    fn computes(&mut self, now: SimTime, length: Nanos) -> SimTime {
        if length == Nanos::ZERO {
            return now;
        }
        let core = self.cores.iter_mut().min().expect("there is a core");
        *core = now.max(*core) + length;
        *core
    }

    /// Advances time until the drive has answered, the file system has work to do, or `until`.
    fn go_on(&mut self, until: SimTime) -> Result<(), String> {
        while !self.exchange() {
            let now = self.stack.now();
            let wanted = self.fs.wants_time().map(|at| SimTime(at.0.max(0) as u64)).filter(|at| *at > now);
            let built = self.building.front().map(|first| first.0);
            let next = [self.stack.next_event(), wanted, built].into_iter().flatten().chain([until]).min();
            match next {
                Some(next) if next < SimTime::MAX => self.stack.advance(next),
                _ => return Err("the file system waits for nothing".to_string()),
            }
            if self.stack.now() >= until {
                self.exchange();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Executes operations until exactly the given total is reached. The result does not depend on how the work is divided into calls.
    ///
    /// The error is a sentence.
    pub fn run_until(&mut self, operations: u64) -> Result<(), String> {
        while self.operations < operations {
            let now = self.stack.now();
            let mut turn = match self.turn.take() {
                Some(turn) => turn,
                None => {
                    self.rotate(now)?;
                    Turn::default()
                }
            };
            loop {
                while turn.thread < self.threads.len() {
                    if self.operations >= operations {
                        self.turn = Some(turn);
                        return Ok(());
                    }
                    turn.moved |= self.threads[turn.thread].due <= now && self.step(turn.thread, now);
                    turn.thread += 1;
                }
                if !turn.moved {
                    break;
                }
                turn = Turn::default();
            }
            let due = self.threads.iter().map(|thread| thread.due).filter(|due| *due > now).min();
            self.go_on(due.unwrap_or(SimTime::MAX))?;
        }
        Ok(())
    }

    /// Starts to count operations.
    pub fn begin(&mut self) {
        self.meter = Meter::new();
        self.before = self.fs.counters();
    }

    /// Returns the file system's counters when operations began to count.
    pub fn counted_from(&self) -> FsCounters {
        self.before
    }

    /// Returns the operations that count.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the operations since the file set was made.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the simulated time.
    pub fn now(&self) -> SimTime {
        self.stack.now()
    }

    /// Returns the drive.
    pub fn drive_mut(&mut self) -> &mut D {
        &mut self.stack.drive
    }

    /// Runs a thread's operation; returns whether it was done.
    fn step(&mut self, number: usize, now: SimTime) -> bool {
        let loops = self.config.personality.operations();
        let operation = loops[self.threads[number].at % loops.len()];
        let Some(file) = self.file_of(number, operation) else {
            // No such file exists at the moment.
            self.meter.refused += 1;
            self.end(number, now, None, 0);
            return true;
        };
        let before = self.files[file].bytes;
        let append = self.threads[number].append;
        let at = time(now);
        let done = match operation {
            Operation::Create => self.create(at, file),
            Operation::WriteWhole => {
                let bytes = self.files[file].wanted_bytes;
                self.write(at, file, 0, bytes)
            }
            Operation::Append | Operation::AppendLog => self.write(at, file, before, append),
            Operation::ReadWhole => {
                let (ino, buffer) = (self.files[file].ino, &mut self.buffer);
                self.fs.read(at, ino, 0, before as usize, buffer)
            }
            Operation::Fsync => {
                let fs = &mut self.fs;
                let point = *self.threads[number].sync.get_or_insert_with(|| fs.sync());
                fs.is_synced(point).map(|synced| if synced { Step::Done(()) } else { Step::Wait })
            }
            Operation::Delete => self.fs.unlink(at, &Caller::ROOT, Ino::ROOT, name(file).as_bytes()),
            Operation::Stat => self.fs.getattr(at, self.files[file].ino).map(|step| match step {
                Step::Done(_) => Step::Done(()),
                Step::Wait => Step::Wait,
            }),
            Operation::Open | Operation::Close => Ok(Step::Done(())),
        };
        match done {
            Ok(Step::Wait) => return false,
            Ok(Step::Done(())) => {}
            Err(_) => {
                self.refused += 1;
                self.meter.refused += 1;
            }
        }
        if operation == Operation::Delete {
            self.files[file] = File { exists: false, bytes: 0, ..self.files[file] };
        }
        if matches!(operation, Operation::Delete | Operation::Close | Operation::Stat) {
            self.files[file].open -= 1;
            self.threads[number].file = None;
        }
        if operation == Operation::AppendLog && self.files[file].bytes > self.config.log_bytes {
            self.rotates = true;
        }
        let bytes = match operation {
            Operation::ReadWhole => before,
            _ => self.files[file].bytes.saturating_sub(before),
        };
        if done.is_ok() {
            match operation {
                Operation::ReadWhole => self.meter.read_bytes += before,
                Operation::WriteWhole => self.meter.written_bytes += self.files[file].wanted_bytes,
                Operation::Append | Operation::AppendLog => self.meter.written_bytes += append,
                _ => {}
            }
        }
        self.end(number, now, done.is_ok().then_some(operation), bytes.div_ceil(BLOCK_BYTES as u64));
        true
    }

    /// Empties the log if it has grown long.
    fn rotate(&mut self, now: SimTime) -> Result<(), String> {
        if !self.rotates {
            return Ok(());
        }
        let log = self.files.len() - 1;
        let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
        match self.fs.setattr(time(now), &Caller::ROOT, self.files[log].ino, &set) {
            Ok(Step::Done(_)) => (self.files[log].bytes, self.rotates) = (0, false),
            Ok(Step::Wait) => {}
            Err(why) => return Err(format!("the log cannot be emptied: {why}")),
        }
        Ok(())
    }

    /// Sets the next operation, after the processor's time for this one.
    fn end(&mut self, number: usize, now: SimTime, done: Option<Operation>, pages: u64) {
        self.operations += 1;
        let host = &self.config.host;
        let due = self.computes(now, Nanos(host.operation.0 + host.page.0 * pages));
        let append = 1 + self.rng.below(self.config.append_bytes);
        let thread = &mut self.threads[number];
        if let Some(operation) = done {
            self.meter.record(operation, due - thread.due);
        }
        (thread.due, thread.sync, thread.append) = (due, None, append);
        thread.at += 1;
    }

    /// Returns the file of an operation: the open one, or the next that exists or does not.
    fn file_of(&mut self, number: usize, operation: Operation) -> Option<usize> {
        let count = self.files.len() - 1;
        if operation == Operation::AppendLog {
            return Some(count);
        }
        if self.threads[number].file.is_none() {
            let picks = matches!(
                operation,
                Operation::Create | Operation::Open | Operation::Delete | Operation::Stat
            );
            if !picks {
                return None;
            }
            let wanted = operation != Operation::Create;
            let files = &self.files;
            // A webserver's files are only read, by any number of threads.
            let shared = self.config.personality == Personality::Webserver;
            let fits = |at: &usize| files[*at].exists == wanted && (shared || files[*at].open == 0);
            let thread = &mut self.threads[number];
            let rotor = match self.config.host.picks {
                Picks::Together => &mut self.rotors[usize::from(wanted)],
                Picks::Apart => &mut thread.rotor,
                Picks::Random => &mut (self.rng.below(count as u64) as usize),
            };
            let found = (0..count).map(|n| (*rotor + n) % count).find(fits)?;
            (*rotor, thread.file) = ((found + 1) % count, Some(found));
            self.files[found].open += 1;
        }
        self.threads[number].file
    }

    fn create(&mut self, now: Time, file: usize) -> Result<Step<()>, Errno> {
        match self.fs.create(now, &Caller::ROOT, Ino::ROOT, name(file).as_bytes(), 0o644)? {
            Step::Wait => Ok(Step::Wait),
            Step::Done(made) => {
                self.fs.release(made.ino);
                self.files[file] = File { ino: made.ino, exists: true, bytes: 0, ..self.files[file] };
                Ok(Step::Done(()))
            }
        }
    }

    fn write(&mut self, now: Time, file: usize, offset: u64, bytes: u64) -> Result<Step<()>, Errno> {
        let data = &self.data[..bytes as usize];
        let step = self.fs.write(now, &Caller::ROOT, self.files[file].ino, offset, data)?;
        if step == Step::Done(()) {
            let of = &mut self.files[file];
            of.bytes = of.bytes.max(offset + bytes);
        }
        Ok(step)
    }
}

fn name(file: usize) -> String {
    format!("file {file:08}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_device::Counters;
    use pellucid_flash::{Cause, Pauses};
    use pellucid_fs::CleanerPolicy;
    use pellucid_workload::files::Personality;

    /// Result of a measurement.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct FileSystemReport {
        operations: u64,
        /// Without those skipped for lack of a file or of space.
        operations_per_second: f64,
        /// Operations that found no space.
        refused: u64,
        /// Bytes of files moved by the file system's cleaner.
        file_copied_bytes: u64,
        /// Bytes copied by the drive's garbage collection.
        flash_copied_bytes: u64,
        programmed_bytes: u64,
        erases: u64,
        cleaner_pauses: Pauses,
    }

    /// Reports the work of a drive since `before`.
    fn report(drive: &Device, before: &Counters) -> FileSystemReport {
        let counters = drive.counters().since(before);
        let sector = u64::from(drive.layout().sector_bytes);
        FileSystemReport {
            flash_copied_bytes: counters.programmed_sectors[Cause::Gc as usize] * sector,
            programmed_bytes: counters.programmed_sectors.iter().sum::<u64>() * sector,
            erases: counters.erases.iter().sum(),
            ..FileSystemReport::default()
        }
    }

    impl FileServer {
        /// Executes this many operations, and reports on them.
        fn run(&mut self, operations: u64) -> Result<FileSystemReport, String> {
            let (start, before) = (self.stack.now(), (self.operations, self.refused));
            let left_out = self.meter.refused;
            let (fs, drive) = (self.fs.counters(), self.stack.drive.counters());
            self.run_until(before.0 + operations)?;
            let operations = self.operations - before.0;
            let done = operations - (self.meter.refused - left_out);
            let moved = self.fs.counters().moved_blocks - fs.moved_blocks;
            Ok(FileSystemReport {
                operations,
                operations_per_second: done as f64 / self.stack.now().since(start).as_secs_f64(),
                refused: self.refused - before.1,
                file_copied_bytes: moved * BLOCK_BYTES as u64,
                cleaner_pauses: self.fs.counters().pauses.since(&fs.pauses),
                ..report(&self.stack.drive, &drive)
            })
        }
    }

    impl InPlaceServer {
        /// Executes this many operations, and reports on them.
        fn run(&mut self, operations: u64) -> Result<FileSystemReport, String> {
            let (start, drive) = (self.now(), self.drive_mut().counters());
            let (done, refused) = (self.files().meter().operations(), self.files().meter().refused);
            self.run_until(done + refused + operations)?;
            let done = self.files().meter().operations() - done;
            let refused = self.files().meter().refused - refused;
            let seconds = self.now().since(start).as_secs_f64();
            Ok(FileSystemReport {
                operations: done + refused,
                operations_per_second: done as f64 / seconds,
                refused,
                ..report(self.drive_mut(), &drive)
            })
        }
    }

    /// `memblaze`'s channels and bus; blocks of 256 KiB, pages of 4 KiB that are programmed in a quarter of the time.
    const DRIVE: &str = r#"
[drive.media]
channels = 12
ways = 1
blocks = 40
pages = 64
page_size = "4KiB"
spare_size = 64
sector_size = "4KiB"
unit_size = "4KiB"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "50us"
program = "187us"
erase = "187us"
channel_rate = "200MB/s"
[drive.ftl]
gc_low = 1
over_provisioning = 0.25
durability = "volatile"
placement = "channel-first"
[drive.buffer]
entries = 64
write = "write-through"
retain = false
"#;

    fn run(personality: Personality, flash: bool) -> FileSystemReport {
        let sets: Vec<String> = match flash {
            true => vec!["drive.namespace=[{ interface = \"open-channel\" }]".into()],
            false => Vec::new(),
        };
        let spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &sets).unwrap();
        let drive = Device::new(&spec.drive).unwrap();
        let mean = personality.file_bytes();
        let mut config = FilesConfig::new(personality);
        (config.files, config.threads, config.log_bytes) = (((60 << 20) / mean) as u32, 8, 1 << 20);
        let mount =
            MountOptions { memory_bytes: 8 << 20, cleaner: CleanerPolicy::Greedy, ..MountOptions::default() };
        let placement = Placement { namespace: 0, bytes: 92 << 20, segment_bytes: 0, ops_percent: 0, mount };
        let mut server = FileServer::new(&config, drive, &placement).unwrap();
        server.run(10_000).unwrap();
        let report = server.run(20_000).unwrap();
        server.fs.check();
        server.stack.layer.check();
        let fs = server.fs.counters();
        let written = fs.data_blocks + fs.moved_blocks + fs.node_blocks + fs.record_blocks;
        let filled = written / u64::from(server.fs.view().segment_blocks);
        assert_eq!(fs.pauses.count(), fs.cleaned);
        assert!(fs.cleaned <= filled, "{} segments were cleaned, {filled} had been filled", fs.cleaned);
        let log = server.files.last().unwrap();
        assert!(log.bytes <= (1 << 20) + 8 * config.append_bytes, "the log has {} bytes", log.bytes);
        report
    }

    /// Equal work always takes equal time; below the function level nothing is copied.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_file_server_runs_on_both_back_ends() {
        let personality = Personality::Fileserver;
        let (block, flash) = (run(personality, false), run(personality, true));
        assert_eq!(flash, run(personality, true));
        assert!(block.operations_per_second > 1000.0 && flash.operations_per_second > 1000.0);
        assert!(block.flash_copied_bytes > 0, "the block drive collects");
        assert_eq!(flash.flash_copied_bytes, 0);
        assert_eq!((block.refused, flash.refused), (0, 0));
    }

    /// Threads take one file after the other in a shared rotation, or each in a rotation of its own from any start; both are reproducible.
    #[test]
    fn threads_pick_files_together_or_apart() {
        let picked = |picks: Picks| {
            let mut config = FilesConfig::new(Personality::Fileserver);
            (config.files, config.threads, config.host.picks) = (300, 3, picks);
            let mut server = log_structured(&config).unwrap();
            let mut pick = |thread: usize, operation: Operation| {
                server.threads[thread].file = None;
                server.file_of(thread, operation).unwrap()
            };
            let open = [0, 1, 2, 0].map(|thread| pick(thread, Operation::Open));
            let created = [0, 1].map(|thread| pick(thread, Operation::Create));
            assert!(open.iter().all(|&file| server.files[file].exists));
            assert!(created.iter().all(|&file| !server.files[file].exists));
            (open, created)
        };
        let (open, created) = picked(Picks::Together);
        assert!(open.is_sorted() && open[3] < 16, "{open:?}");
        assert!(created.is_sorted() && created[1] < 60, "{created:?}");
        let (apart, _) = picked(Picks::Apart);
        assert!(!apart[..3].is_sorted() || apart[2] > 30, "{apart:?}");
        assert!(apart[3] > apart[0], "{apart:?}");
        assert_eq!(picked(Picks::Random), picked(Picks::Random));
    }

    /// The log is long enough to be emptied several times; nothing is refused.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_log_does_not_fill_the_file_system() {
        for flash in [false, true] {
            let report = run(Personality::Webserver, flash);
            assert_eq!((report.refused, report.file_copied_bytes), (0, 0));
        }
    }

    /// A LUN dies below the function level: file data on it are unreadable, all other data are readable, and writes go elsewhere.
    #[test]
    fn a_dead_lun_costs_what_lies_on_it() {
        let sets = ["drive.namespace=[{ interface = \"open-channel\" }]".to_string()];
        let spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &sets).unwrap();
        let mut config = FilesConfig::new(Personality::Fileserver);
        (config.files, config.threads) = (300, 8);
        let mount = MountOptions { memory_bytes: 8 << 20, ..MountOptions::default() };
        let placement = Placement { namespace: 0, bytes: 92 << 20, segment_bytes: 0, ops_percent: 0, mount };
        let drive = Device::new(&spec.drive).unwrap();
        let mut server = FileServer::new(&config, drive, &placement).unwrap();
        let now = server.stack.now();
        let die = pellucid_flash::DieId(3);
        let kill = pellucid_media::Fault::KillDie { die };
        server.stack.act_on_drive(now, |drive| drive.inject(now, kill)).unwrap();
        let (mut read, mut lost) = (0, 0);
        for number in 0..server.files.len() - 1 {
            let File { ino, bytes, exists, .. } = server.files[number];
            if !exists {
                continue;
            }
            let found =
                server.wait(|server, now| server.fs.read(now, ino, 0, bytes as usize, &mut server.buffer));
            match found {
                Ok(()) => {
                    assert_eq!(server.buffer, server.data[..bytes as usize]);
                    read += 1;
                }
                Err(_) => lost += 1,
            }
        }
        assert!(read > 100 && lost > 10, "{read} are read, {lost} are not");
        let number = (0..server.files.len()).find(|&number| !server.files[number].exists).unwrap();
        server.wait(|server, now| server.create(now, number)).unwrap();
        for turn in 0..40 {
            server.wait(|server, now| server.write(now, number, turn << 16, 1 << 16)).unwrap();
            let point = server.fs.sync();
            server
                .wait(|server, _| Ok(if server.fs.is_synced(point)? { Step::Done(()) } else { Step::Wait }))
                .unwrap();
        }
        let ino = server.files[number].ino;
        server.wait(|server, now| server.fs.read(now, ino, 0, 40 << 16, &mut server.buffer)).unwrap();
        let expected = &server.data[..1 << 16];
        assert!(
            server.buffer.len() == 40 << 16 && server.buffer.chunks(1 << 16).all(|part| part == expected)
        );
        assert!(server.fs.counters().write_failures > 0, "nothing was written to the dead LUN");
        server.fs.check();
        server.stack.layer.check();
    }

    /// The in-place file system moves no data, and reuses freed blocks however quickly files are created and deleted.
    #[test]
    fn files_in_place_are_written_again_and_again() {
        let mut spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &[]).unwrap();
        spec.drive.media.store = pellucid_media::StoreKind::None;
        let mut config = FilesConfig::new(Personality::Fileserver);
        (config.files, config.threads, config.page_cache_bytes) = (560, 8, 8 << 20);
        let drive = Device::new(&spec.drive).unwrap();
        let mut server = InPlaceServer::new(&config, drive, 0, 92 << 20).unwrap();
        server.run(10_000).unwrap();
        let report = server.run(20_000).unwrap();
        server.check();
        // A write of a whole file is one of eleven operations.
        let written = report.operations / 11 * config.file_bytes;
        // Sometimes all files exist, or none that nobody has open.
        assert!(1000 * report.refused < report.operations, "{} are refused", report.refused);
        assert_eq!(report.file_copied_bytes, 0);
        assert!(report.programmed_bytes > written / 2, "{} of {written}", report.programmed_bytes);
    }

    /// A flush that has nothing to write ends as it is submitted, and its threads continue at once.
    #[test]
    fn a_flush_that_takes_no_time_wakes_its_threads() {
        let mut spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &[]).unwrap();
        spec.drive.media.store = pellucid_media::StoreKind::None;
        let mut config = FilesConfig::new(Personality::Varmail);
        (config.files, config.threads) = (560, 1);
        let drive = Device::new(&spec.drive).unwrap();
        let mut server = InPlaceServer::new(&config, drive, 0, 92 << 20).unwrap();
        let report = server.run(1_300).unwrap();
        // Two in thirteen operations sync, each with fewer than ten requests of less than a millisecond, one after the other.
        assert!(report.operations_per_second > 500.0, "{report:?}");
    }

    fn log_structured(config: &FilesConfig) -> Result<FileServer, String> {
        let spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &[]).unwrap();
        let mount = MountOptions { memory_bytes: 8 << 20, ..MountOptions::default() };
        let placement = Placement { namespace: 0, bytes: 92 << 20, segment_bytes: 0, ops_percent: 0, mount };
        FileServer::new(config, Device::new(&spec.drive).unwrap(), &placement)
    }

    #[test]
    fn appends_are_as_long_as_they_are_asked_for() {
        let mut config = FilesConfig::new(Personality::Varmail);
        (config.files, config.threads, config.append_bytes) = (100, 4, 300 << 10);
        let mut server = log_structured(&config).unwrap();
        server.run(3_000).unwrap();
        // Two of thirteen operations append half of it in the mean.
        assert!(server.meter().written_bytes > 300 * (150 << 10), "{}", server.meter().written_bytes);
        server.fs.check();
    }

    /// Files of any size are refused before memory is allocated for their data.
    #[test]
    fn files_that_do_not_fit_are_refused_before_they_are_made() {
        for bytes in [2 << 20, 100 << 30] {
            let mut config = FilesConfig::new(Personality::Varmail);
            (config.files, config.file_bytes) = (100, bytes);
            let why = log_structured(&config).err().expect("it is refused");
            assert!(why.starts_with(&format!("100 files of {} KiB need about", bytes >> 10)), "{why}");
        }
    }

    /// Files grow by appends until there is no room, in place.
    #[test]
    fn what_is_left_out_in_place_is_in_no_figure() {
        let mut spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &[]).unwrap();
        spec.drive.media.store = pellucid_media::StoreKind::None;
        let mut config = FilesConfig::new(Personality::Fileserver);
        (config.files, config.threads, config.append_bytes) = (200, 4, 64 << 20);
        let drive = Device::new(&spec.drive).unwrap();
        let mut server = InPlaceServer::new(&config, drive, 0, 92 << 20).unwrap();
        let report = server.run(11_000).unwrap();
        let meter = server.files().meter();
        assert!(report.refused > 300 && meter.refused == report.refused, "{} are refused", report.refused);
        assert_eq!(meter.operations() + meter.refused, report.operations);
        assert_eq!(meter.latency().summary().count, meter.operations());
        // One in eleven appends, 32 MiB in the mean; only few have room.
        let appended = report.operations / 11 * (32 << 20);
        assert!(meter.written_bytes < appended / 2, "{} of {appended}", meter.written_bytes);
    }

    /// Holds even if operations take no time at all, and time stands still.
    #[test]
    fn exactly_the_operations_that_were_asked_for_are_carried_out() {
        for host_time in [0, 10_000] {
            let mut config = FilesConfig::new(Personality::Webserver);
            (config.files, config.threads) = (300, 16);
            (config.host.operation, config.host.page) = (Nanos(host_time), Nanos(host_time / 10));
            let mut server = log_structured(&config).unwrap();
            for operations in [700, 701, 3_000] {
                server.run_until(operations).unwrap();
                assert_eq!(server.operations(), operations, "log-structured, {host_time} ns each");
            }
            let cut = server.now();
            let mut server = log_structured(&config).unwrap();
            server.run_until(3_000).unwrap();
            assert_eq!(server.now(), cut);
            let mut spec = pellucid_spec::from_str(DRIVE, "the drive of the test", &[]).unwrap();
            spec.drive.media.store = pellucid_media::StoreKind::None;
            let drive = Device::new(&spec.drive).unwrap();
            let mut server = InPlaceServer::new(&config, drive, 0, 92 << 20).unwrap();
            for operations in [700, 701, 3_000] {
                server.run_until(operations).unwrap();
                assert_eq!(server.files().operations(), operations, "in place, {host_time} ns each");
            }
        }
    }
}
