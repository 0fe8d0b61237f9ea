//! A drive with a volatile cache, whose power can be cut and whose blocks can fail.

use super::trace::{fold, fold_bytes, fold_debug, fold_job, fold_state};
use crate::flash::Flash;
use pellucid_flash::{ChunkGeometry, Migration, Rng, SimTime};
use pellucid_fs::{BLOCK_BYTES, Backend, Fs, FsState, Job, JobError, MountOptions, Step, Time, Volume};
use pellucid_host::{LayerConfig, NamelessConfig, NamelessFtlConfig, Stack, Tower};
use std::collections::{BTreeMap, BTreeSet};

type Block = [u8; BLOCK_BYTES];

#[derive(Clone)]
pub struct Disk {
    pub blocks: u64,
    media: BTreeMap<u64, Block>,
    /// Written but not flushed, in order.
    cached: Vec<(u64, Block)>,
    /// Accepted but not executed.
    jobs: Vec<Job>,
    rng: Rng,
    pub jobs_done: u64,
    /// Number of jobs after which the power fails.
    pub cut_after: u64,
    pub broken_reads: BTreeSet<u64>,
    /// Probability that a write fails.
    pub write_failures: f64,
    pub read_only: bool,
    /// Flash below the library, or below the FTL of nameless writes.
    flash: Option<Stack<Volume, Tower<Flash>>>,
    /// The power failed.
    lost_power: bool,
}

/// The power failed.
#[derive(Debug)]
pub struct Cut;

impl Disk {
    pub fn new(blocks: u64, seed: u64) -> Disk {
        Disk {
            blocks,
            media: BTreeMap::new(),
            cached: Vec::new(),
            jobs: Vec::new(),
            rng: Rng::stream(seed, "disk"),
            jobs_done: 0,
            cut_after: u64::MAX,
            broken_reads: BTreeSet::new(),
            write_failures: 0.0,
            read_only: false,
            flash: None,
            lost_power: false,
        }
    }

    pub fn on_flash(geometry: ChunkGeometry, seed: u64) -> Disk {
        Disk::on(Tower::Drive(Flash::chunks(geometry, seed)), seed)
    }

    /// Nameless writes, on flash.
    pub fn on_names(geometry: ChunkGeometry, seed: u64) -> Disk {
        let ftl = NamelessConfig {
            over_provisioning: 0.27,
            virtual_share: 0.5,
            migration: Migration::Acknowledged,
            ..NamelessConfig::default()
        };
        let config = NamelessFtlConfig { ftl, ..NamelessFtlConfig::default() };
        let flash = Flash::chunks(geometry, seed);
        Disk::on(Tower::build(flash, &[LayerConfig::NamelessFtl(config)], SimTime::ZERO).unwrap(), seed)
    }

    fn on(drive: Tower<Flash>, seed: u64) -> Disk {
        let volume = Volume::new(&drive, 0).unwrap();
        let stack = Stack::start(volume, drive, SimTime::ZERO).unwrap();
        Disk { blocks: stack.layer.blocks(), flash: Some(stack), ..Disk::new(0, seed) }
    }

    pub fn backend(&self) -> Backend {
        self.flash.as_ref().map_or(Backend::Block, |stack| stack.layer.backend())
    }

    /// Mounts the disk, as a new process does.
    pub fn mount(&mut self, now: Time, options: MountOptions) -> Fs {
        let Some(stack) = &mut self.flash else { return Fs::mount(now, self.blocks, options) };
        while let Some(next) = stack.next_event() {
            stack.advance(next);
        }
        if std::mem::take(&mut self.lost_power) {
            stack.drive.restart(stack.now()).unwrap();
        }
        stack.restart(stack.now()).unwrap();
        // Answers for the last process.
        while stack.answer().is_some() {}
        stack.layer.mount(now, options)
    }

    fn step_on_flash(&mut self, fs: &mut Fs, now: Time) -> Result<bool, Cut> {
        let stack = self.flash.as_mut().unwrap();
        let faults = &mut stack.drive.bottom_mut().faults;
        (faults.program, faults.erase) = (self.write_failures, self.write_failures);
        while stack.asked() < 8
            && let Some(job) = fs.next_job(now)
        {
            fold_job(&job);
            stack.ask(stack.now(), job);
        }
        if stack.asked() == 0 {
            return Ok(false);
        }
        if self.jobs_done >= self.cut_after {
            return Err(Cut);
        }
        loop {
            if let Some(answer) = stack.answer() {
                self.jobs_done += 1;
                fold_debug(&answer);
                fs.answered(now, answer);
                if self.jobs_done.is_multiple_of(8) {
                    fold_state(fs);
                }
                stack.layer.check();
                return Ok(true);
            }
            let next = stack.next_event().expect("a job ends");
            stack.advance(next);
        }
    }

    pub fn read(&self, block: u64) -> Block {
        self.media.get(&block).copied().unwrap_or([0; BLOCK_BYTES])
    }

    pub fn block_mut(&mut self, block: u64) -> &mut Block {
        self.media.extend(self.cached.drain(..));
        self.media.entry(block).or_insert([0; BLOCK_BYTES])
    }

    fn newest(&self, block: u64) -> Block {
        let cached = self.cached.iter().rev().find(|(at, _)| *at == block);
        cached.map_or_else(|| self.read(block), |(_, data)| *data)
    }

    /// Accepts jobs and executes one; false: there is none.
    pub fn step(&mut self, fs: &mut Fs, now: Time) -> Result<bool, Cut> {
        if self.flash.is_some() {
            return self.step_on_flash(fs, now);
        }
        while self.jobs.len() < 8
            && let Some(job) = fs.next_job(now)
        {
            fold_job(&job);
            self.jobs.push(job);
        }
        if self.jobs.is_empty() {
            return Ok(false);
        }
        if self.jobs_done >= self.cut_after {
            return Err(Cut);
        }
        let job = self.jobs.swap_remove(self.rng.below(self.jobs.len() as u64) as usize);
        self.jobs_done += 1;
        let id = job.id();
        let outcome = self.run(job);
        fold(id.0);
        match &outcome {
            Ok(data) => fold_bytes(data),
            Err(why) => fold(1 + *why as u64),
        }
        fs.ended(now, id, outcome);
        if self.jobs_done.is_multiple_of(8) {
            fold_state(fs);
        }
        Ok(true)
    }

    fn run(&mut self, job: Job) -> Result<Vec<u8>, JobError> {
        match job {
            Job::Read { block, blocks, .. } => {
                let range = block..block + u64::from(blocks);
                assert!(range.end <= self.blocks, "reads stay on the drive");
                if range.clone().any(|block| self.broken_reads.contains(&block)) {
                    return Err(JobError::Failed);
                }
                Ok(range.flat_map(|block| self.newest(block)).collect())
            }
            Job::Write { .. } if self.read_only => Err(JobError::ReadOnly),
            Job::Write { block, data, .. } => {
                let fails = block > 16 && self.rng.chance(self.write_failures);
                for (n, bytes) in data.iter().enumerate() {
                    let at = block + n as u64;
                    assert!(at < self.blocks, "writes stay on the drive");
                    // A failed write leaves arbitrary content.
                    if !fails || self.rng.chance(0.5) {
                        self.cached.push((at, *bytes));
                    }
                }
                if fails { Err(JobError::Failed) } else { Ok(Vec::new()) }
            }
            Job::Flush { .. } => {
                self.media.extend(self.cached.drain(..));
                Ok(Vec::new())
            }
            Job::Discard { block, blocks, .. } => {
                for at in block..block + u64::from(blocks) {
                    self.cached.push((at, [0xdd; BLOCK_BYTES]));
                }
                Ok(Vec::new())
            }
            other => panic!("a block drive is not asked {other:?}"),
        }
    }

    /// Cuts the power: any cached or in-flight blocks may reach the media.
    pub fn cut(&mut self) {
        if let Some(stack) = &mut self.flash {
            stack.drive.bottom_mut().power_cut();
            self.lost_power = true;
        }
        for job in std::mem::take(&mut self.jobs) {
            if let Job::Write { .. } | Job::Discard { .. } = job {
                let _ = self.run(job);
            }
        }
        let share = self.rng.unit_f64();
        for (block, data) in std::mem::take(&mut self.cached) {
            if self.rng.chance(share) {
                self.media.insert(block, data);
            }
        }
        self.cut_after = u64::MAX;
    }

    /// Ends the process: its writes stay; unanswered requests were not executed.
    pub fn kill(&mut self) {
        self.jobs.clear();
        self.media.extend(self.cached.drain(..));
    }

    /// Blocks with content.
    pub fn written(&self) -> Vec<u64> {
        self.media.iter().filter(|(_, data)| **data != [0; BLOCK_BYTES]).map(|(&block, _)| block).collect()
    }

    /// Repeats an operation until it is done.
    pub fn until<T>(
        &mut self,
        fs: &mut Fs,
        now: Time,
        mut operation: impl FnMut(&mut Fs) -> Result<Step<T>, pellucid_fs::Errno>,
    ) -> Result<Result<T, pellucid_fs::Errno>, Cut> {
        for _ in 0..20_000 {
            match operation(fs) {
                Ok(Step::Done(value)) => return Ok(Ok(value)),
                Ok(Step::Wait) => {
                    let before = fs.view();
                    let goes_on = self.step(fs, now)?;
                    assert!(goes_on || fs.view() != before, "an operation waits for nothing: {before:?}");
                }
                Err(errno) => return Ok(Err(errno)),
            }
        }
        panic!("an operation waits for ever: {:?} {:?}", fs.view(), fs.counters());
    }

    /// Executes jobs until a state is reached.
    pub fn reach(&mut self, fs: &mut Fs, now: Time, wanted: &FsState) -> Result<(), Cut> {
        for _ in 0..20_000 {
            let state = fs.state();
            if state == *wanted {
                return Ok(());
            }
            if let FsState::Failed(why) = state {
                panic!("{why}");
            }
            let goes_on = self.step(fs, now)?;
            assert!(goes_on || fs.state() != state, "nothing goes on in {state:?}: {:?}", fs.view());
        }
        panic!("it never becomes {wanted:?}");
    }

    /// Makes everything durable.
    pub fn sync(&mut self, fs: &mut Fs, now: Time) -> Result<Result<(), pellucid_fs::Errno>, Cut> {
        let point = fs.sync();
        for _ in 0..20_000 {
            match fs.is_synced(point) {
                Ok(true) => return Ok(Ok(())),
                Err(errno) => return Ok(Err(errno)),
                Ok(false) => assert!(self.step(fs, now)?, "a sync waits for nothing: {:?}", fs.view()),
            }
        }
        panic!("a sync waits for ever");
    }
}
