//! Random drives under random commands, checked against the oracle: the tests' engine, and `pellucid`'s own self-test.
//!
//! Everything follows from one seed: drive, policies, faults, commands, and where the power is cut. A failure is a panic
//! that names the seed. After every step that the caller asks for, `Device::check` walks the invariants.

mod clustered;
mod host;
mod sets;

pub use clustered::{Clustered, clustered, clustered_config, clustered_on_damaged};
pub use host::{HostDrive, host_drive, host_text};
pub use sets::{TINY, harder_sets_of, random_harder_sets, random_sets, sets_of, tiny};

use pellucid_device::{Device, DeviceConfig, DeviceError};
use pellucid_flash::{Command, Completion, DieId, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_lab::drive::{Mismatch, Oracle, Promise, fill_images, version_of};
use pellucid_media::Fault;

/// Subject of a swarm: a drive, or a host's layer on one.
pub trait Subject: Drive {
    /// The drive at the bottom.
    fn device(&self) -> &Device;
    /// Sectors that can be addressed.
    fn capacity_sectors(&self) -> u64;
    /// Simulated time.
    fn now(&self) -> SimTime;
    /// Walks every invariant and panics where one is broken.
    fn check(&self);
    /// Returns whether it stores nothing any more.
    fn is_read_only(&self) -> bool;
    /// Does damage to the media.
    fn inject(&mut self, now: SimTime, fault: Fault);
    /// Cuts the power and switches on again; a sentence where it does not come back.
    fn power_cut(&mut self) -> Result<(), String>;
    /// Returns whether every acknowledged write is on the media.
    fn writes_through(&self) -> bool;
    /// Sectors whose data would be lost with the power though they were flushed: a stated window. `None`: a flush keeps its promise.
    fn at_risk(&self) -> Option<Vec<Lba>> {
        None
    }
}

impl Subject for Device {
    fn device(&self) -> &Device {
        self
    }

    fn capacity_sectors(&self) -> u64 {
        self.namespace(0).capacity_sectors()
    }

    fn now(&self) -> SimTime {
        Device::now(self)
    }

    fn check(&self) {
        Device::check(self);
    }

    fn is_read_only(&self) -> bool {
        Device::is_read_only(self)
    }

    fn inject(&mut self, now: SimTime, fault: Fault) {
        Device::inject(self, now, fault).unwrap_or_else(|e| panic!("{e}"));
    }

    fn power_cut(&mut self) -> Result<(), String> {
        Device::power_cut(self).map(drop).map_err(|e| e.to_string())
    }

    fn writes_through(&self) -> bool {
        self.config().buffer.write == pellucid_device::WritePolicy::WriteThrough
    }
}

/// Tag of commands that concern no data.
const NEXT_UNIT: u64 = u64::MAX - 1;

#[derive(Clone, Debug)]
struct Pending {
    opcode: Opcode,
    lba: Lba,
    sectors: u32,
    fua: bool,
    promise: Promise,
    covered: Vec<(u64, u32)>,
    open: bool,
}

/// A drive, its oracle and a stream of random commands. Clone it to try a power cut without losing the present.
#[derive(Clone, Debug)]
pub struct Swarm<T = Device> {
    /// The drive, or the layer above it.
    pub device: T,
    oracle: Oracle,
    rng: Rng,
    pending: Vec<Pending>,
    in_flight: u32,
    now: SimTime,
    /// True if uncorrectable reads, and the end of the drive, are expected (faults are on).
    lossy: bool,
    /// Commands completed.
    pub completed: u64,
    /// A planted bug, to prove that the swarm finds one: flushes are acknowledged and never reach the drive.
    #[doc(hidden)]
    pub canary: bool,
}

impl Swarm {
    /// A drive of `config`, driven by `seed`.
    pub fn new(config: &DeviceConfig, seed: u64) -> Swarm {
        Swarm::over(Device::new(config).unwrap_or_else(|e| panic!("{e}")), seed)
    }

    /// [`Swarm::cut_everywhere`] on the drive of `sets`.
    pub fn cut_at_every_event(sets: &[&str], seed: u64, commands: u32, depth: u32) -> (Swarm, u32) {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        Swarm::new(&tiny(&sets), seed).cut_everywhere(seed, commands, depth)
    }
}

impl<T: Subject + Clone> Swarm<T> {
    /// Runs random commands, `depth` in flight, and cuts the power of a clone at every event; the clone goes on,
    /// and is cut again soon after. Gives the drive after its history, and the number of cuts.
    pub fn cut_everywhere(mut self, seed: u64, commands: u32, depth: u32) -> (Swarm<T>, u32) {
        let mut rng = Rng::new(seed);
        let mut cuts = 0;
        for _ in 0..commands {
            self.submit();
            while self.in_flight() >= depth {
                assert!(self.step());
                self.device.check();
                let mut other = self.clone();
                other.power_cut();
                for _ in 0..rng.below(6) {
                    other.submit();
                    other.step();
                }
                other.power_cut();
                cuts += 1;
            }
        }
        self.drain();
        assert!(!self.device.is_read_only(), "the history wore the drive out");
        (self, cuts)
    }
}

impl<T: Subject> Swarm<T> {
    /// A drive in its first moment, driven by `seed`.
    pub fn over(device: T, seed: u64) -> Swarm<T> {
        let config = device.device().config();
        let faults = &config.media.faults;
        let lossy = faults.read_fail > 0.0
            || faults.program_fail > 0.0
            || faults.erase_fail > 0.0
            || !faults.list.is_empty()
            || config.media.endurance.is_some()
            || config.media.integrity.bit_errors.is_some();
        Swarm {
            oracle: Oracle::new(device.capacity_sectors()),
            rng: Rng::stream(seed, "swarm"),
            pending: Vec::new(),
            in_flight: 0,
            now: device.now(),
            completed: 0,
            canary: false,
            lossy,
            device,
        }
    }

    /// Submits one random command.
    pub fn submit(&mut self) {
        let sectors = self.device.capacity_sectors();
        let roll = self.rng.below(100);
        let (opcode, fua) = match roll {
            0..30 => (Opcode::Read, false),
            30..80 => (Opcode::Write, false),
            80..88 => (Opcode::Write, true),
            88..94 => (Opcode::Trim, false),
            94..96 => (Opcode::WriteZeroes, false),
            _ => (Opcode::Flush, false),
        };
        // Half of the work on a tenth of the drive, so that requests meet.
        let span = if self.rng.chance(0.5) { sectors.div_ceil(10) } else { sectors };
        let longest = if self.rng.chance(0.1) { 24 } else { 6 };
        let length = 1 + self.rng.below(longest).min(span - 1);
        let lba = Lba(self.rng.below(span - length + 1));
        let length = if opcode == Opcode::Flush { 0 } else { length as u32 };
        self.submit_this(opcode, lba, length, fua);
    }

    /// Submits this command now.
    pub fn submit_this(&mut self, opcode: Opcode, lba: Lba, sectors: u32, fua: bool) {
        let image_bytes = self.device.image_bytes();
        let mut promise = Promise::default();
        let mut covered = Vec::new();
        let mut data = Vec::new();
        match opcode {
            Opcode::Read => {
                self.oracle.submit_read(lba, sectors, &mut promise);
                data.resize(sectors as usize * image_bytes, 0xaa);
            }
            Opcode::Write => {
                let version = self.oracle.submit_change(opcode, lba, sectors);
                data.resize(sectors as usize * image_bytes, 0);
                fill_images(&mut data, image_bytes, lba, version);
            }
            Opcode::Trim | Opcode::WriteZeroes => {
                self.oracle.submit_change(opcode, lba, sectors);
            }
            Opcode::Flush => covered = self.oracle.submit_flush(0..u64::MAX),
            _ => unreachable!("block commands only"),
        }
        if self.canary && opcode == Opcode::Flush {
            return self.oracle.complete_flush(&covered);
        }
        let tag = self.pending.len() as u64;
        self.pending.push(Pending { opcode, lba, sectors, fua, promise, covered, open: true });
        self.in_flight += 1;
        let queue = match self.device.device().config().host.queues {
            1 => 0,
            queues => self.rng.below(queues.into()) as u16,
        };
        let handle = self.handle(opcode, lba);
        let command = Command { queue, fua, handle, ..Command::new(tag, opcode, lba, sectors, data) };
        self.device.submit(self.now, command);
        if handle > 0 && self.rng.chance(0.01) {
            let next = Command { handle, ..Command::new(NEXT_UNIT, Opcode::NextUnit, Lba(0), 0, Vec::new()) };
            self.device.submit(self.now, next);
            self.in_flight += 1;
        }
        self.collect();
    }

    /// Parts of the drive have a handle each, but now and then a write comes with another one.
    fn handle(&mut self, opcode: Opcode, lba: Lba) -> u16 {
        let handles = u64::from(self.device.device().config().ftl.handles);
        let writes = matches!(opcode, Opcode::Write | Opcode::WriteZeroes);
        let handle = match handles {
            2.. if writes && self.rng.chance(0.9) => lba.0 * handles / self.device.capacity_sectors(),
            2.. if writes => self.rng.below(handles),
            _ => 0,
        };
        handle as u16
    }

    /// Does random damage to the drive, now.
    pub fn damage(&mut self) {
        let die = DieId(self.rng.below(self.device.device().layout().dies.into()) as u32);
        let count = 1 + self.rng.below(5) as u32;
        let fault = match self.rng.below(20) {
            0..3 if self.device.device().config().media.integrity.bit_errors.is_some() => {
                Fault::BitErrors { die: Some(die), factor: [0.0, 2.0, 10.0][self.rng.below(3) as usize] }
            }
            0..5 => Fault::FailPrograms { count },
            5..9 => Fault::FailErases { count },
            9..14 => Fault::SlowDie { die, factor: [0.5, 3.0, 50.0][self.rng.below(3) as usize] },
            14..19 => Fault::KillDie { die },
            _ => Fault::WearOut,
        };
        self.lossy = true;
        self.device.inject(self.now, fault);
        self.collect();
        self.device.check();
    }

    /// Runs the next event; `false`: the drive is at rest.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.device.next_event() else { return false };
        self.now = next;
        self.device.advance(next);
        self.collect();
        true
    }

    /// Runs until nothing is in flight.
    pub fn drain(&mut self) {
        while self.step() {}
        assert_eq!(self.in_flight, 0, "the drive is at rest and owes {} completions", self.in_flight);
    }

    /// Panics where a drive has given up writing though nothing is wrong with its media.
    pub fn check_alive(&self) {
        assert!(self.lossy || !self.device.is_read_only(), "read-only at {}, on healthy media", self.now);
    }

    /// Commands in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn collect(&mut self) {
        while let Some(completion) = self.device.pop() {
            self.in_flight -= 1;
            self.completed += 1;
            if completion.tag == NEXT_UNIT {
                continue;
            }
            self.verify(completion).unwrap_or_else(|e| panic!("{e} at {}", self.now));
        }
    }

    fn verify(&mut self, completion: Completion) -> Result<(), Mismatch> {
        // A command cut short by power loss was still in a stage.
        let latency = completion.completed - completion.submitted;
        assert!(
            completion.status == Status::PowerLoss || completion.stages.total() == latency,
            "the stages of a {:?} do not sum to its latency of {latency}: {:?}",
            completion.opcode,
            completion.stages
        );
        let pending = &mut self.pending[completion.tag as usize];
        assert!(pending.open, "command {} completed twice", completion.tag);
        pending.open = false;
        let ok = match completion.status {
            Status::Success => true,
            Status::PowerLoss | Status::ReadOnly => false,
            Status::UnrecoveredRead | Status::WriteFault if self.lossy => false,
            other => panic!("command {} ended with {other:?}", completion.tag),
        };
        let Pending { opcode, lba, sectors, fua, .. } = *pending;
        match opcode {
            Opcode::Read if ok => {
                let image_bytes = self.device.image_bytes();
                self.oracle.check_read(lba, image_bytes, &completion.data, &pending.promise)?;
            }
            Opcode::Flush if ok => {
                let covered = std::mem::take(&mut pending.covered);
                self.oracle.complete_flush(&covered);
            }
            Opcode::Read | Opcode::Flush => {}
            // Trim and write-zeroes become durable with a flush only.
            _ => self.oracle.complete_change(
                lba,
                sectors,
                ok,
                ok && opcode == Opcode::Write && (fua || self.device.writes_through()),
            ),
        }
        Ok(())
    }

    /// Cuts the power now, switches on, and reads everything back.
    pub fn power_cut(&mut self) {
        if let Some(at_risk) = self.device.at_risk() {
            self.oracle.forgo(&at_risk);
        }
        self.device.power_cut().unwrap_or_else(|e| panic!("mount after a power cut: {e}"));
        self.now = self.now.max(self.device.now());
        self.collect();
        self.oracle.power_cut();
        self.device.check();
        self.read_all();
    }

    /// Reads the whole drive, checks it, and takes what is there as the truth from now on.
    pub fn read_all(&mut self) {
        let image_bytes = self.device.image_bytes();
        let sectors = self.device.capacity_sectors();
        let mut at = 0;
        while at < sectors {
            let length = (sectors - at).min(16) as u32;
            let mut promise = Promise::default();
            self.oracle.submit_read(Lba(at), length, &mut promise);
            let data = vec![0xaa; length as usize * image_bytes];
            self.device.submit(self.now, Command::new(u64::MAX, Opcode::Read, Lba(at), length, data));
            let completion = loop {
                if let Some(completion) = self.device.pop() {
                    break completion;
                }
                self.now = self.device.next_event().expect("a read in flight");
                self.device.advance(self.now);
            };
            if completion.status == Status::Success {
                self.oracle
                    .check_read(Lba(at), image_bytes, &completion.data, &promise)
                    .unwrap_or_else(|e| panic!("{e} after a power cut"));
                for (i, image) in completion.data.chunks_exact(image_bytes).enumerate() {
                    let lba = Lba(at + i as u64);
                    self.oracle.observed(lba, version_of(lba, image).expect("checked"));
                }
            } else {
                assert!(self.lossy, "read of sector {at} ended with {:?}", completion.status);
            }
            at += u64::from(length);
        }
    }
}

/// One seed's worth of swarm: `commands` random commands at random depth, with checks and power cuts on the way.
pub fn run_seed(seed: u64, commands: u32) {
    run(seed, &tiny(&sets_of(seed)), commands, Trouble::None);
}

/// Like [`run_seed`], with harder drives that are damaged on the way.
pub fn run_harder_seed(seed: u64, commands: u32) {
    run(seed, &tiny(&harder_sets_of(seed)), commands, Trouble::Damage);
}

/// Like [`run_harder_seed`], with these overrides for its drive. False: that drive is refused.
pub fn run_harder_seed_with(seed: u64, overrides: &[&str], commands: u32) -> bool {
    let mut sets = harder_sets_of(seed);
    sets.extend(overrides.iter().map(ToString::to_string));
    let Ok(spec) = pellucid_spec::from_str(TINY, "tiny", &sets) else { return false };
    run(seed, &spec.drive, commands, Trouble::Damage);
    true
}

/// Like [`run_seed`], with these overrides. False: the drive of this seed is refused with them.
pub fn run_seed_with(seed: u64, overrides: &[&str], commands: u32) -> bool {
    let mut sets = sets_of(seed);
    sets.extend(overrides.iter().map(ToString::to_string));
    let Ok(spec) = pellucid_spec::from_str(TINY, "tiny", &sets) else { return false };
    run(seed, &spec.drive, commands, Trouble::None);
    true
}

/// Like [`run_seed`], with the host's translation on small open-channel drives, every other one of which has failing flash.
/// False: the drive of this seed is refused, as it is too small.
pub fn run_host_seed(seed: u64, commands: u32) -> bool {
    let Some(drive) = host_drive(seed) else { return false };
    work(Swarm::over(drive, seed), Rng::stream(seed, "host swarm"), commands, Trouble::None);
    true
}

/// Like [`run_seed`], with a cluster buffer in front of the drive, in either mode.
pub fn run_clustered_seed(seed: u64, commands: u32) {
    let Some(drive) = clustered(seed, &sets_of(seed)) else { return };
    work(Swarm::over(drive, seed), Rng::stream(seed, "clustered swarm"), commands, Trouble::None);
}

/// Like [`run_clustered_seed`], with harder drives that are damaged on the way.
pub fn run_harder_clustered_seed(seed: u64, commands: u32) {
    let Some(drive) = clustered_on_damaged(seed, &harder_sets_of(seed)) else { return };
    work(Swarm::over(drive, seed), Rng::stream(seed, "clustered swarm"), commands, Trouble::Damage);
}

/// Like [`run_seed`], with the planted bug: must panic for some seed.
#[doc(hidden)]
pub fn run_seed_with_canary(seed: u64, commands: u32) {
    run(seed, &tiny(&sets_of(seed)), commands, Trouble::Canary);
}

/// Event beside commands and power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    Damage,
    Canary,
}

fn run(seed: u64, config: &DeviceConfig, commands: u32, trouble: Trouble) {
    let mut rng = Rng::stream(seed, "drive");
    random_sets(&mut rng);
    // Too many factory-bad blocks for so small a drive: refused, and rightly so.
    if config.media.faults.factory_bad > 0.0
        && matches!(Device::new(config), Err(DeviceError::Translation(_)))
    {
        return;
    }
    let mut swarm = Swarm::new(config, seed);
    swarm.canary = trouble == Trouble::Canary;
    work(swarm, rng, commands, trouble);
}

/// Random commands, checks, damage and power cuts.
fn work<T: Subject>(mut swarm: Swarm<T>, mut rng: Rng, commands: u32, trouble: Trouble) {
    let depth = 1 + rng.below(20) as u32;
    let cut_every = 50 + rng.below(400);
    // A damaged drive is used for a while after it has become read-only.
    let mut left_read_only = if trouble == Trouble::Damage { 100 } else { 0 };
    for i in 0..commands {
        swarm.check_alive();
        if swarm.device.is_read_only() {
            if left_read_only == 0 {
                break;
            }
            left_read_only -= 1;
        }
        if trouble == Trouble::Damage && rng.below(300) == 0 {
            swarm.damage();
        }
        while swarm.in_flight() >= depth {
            assert!(swarm.step(), "{} commands in flight and nothing happens", swarm.in_flight());
        }
        swarm.submit();
        if i % 64 == 0 {
            swarm.device.check();
        }
        if rng.below(cut_every) == 0 {
            // Let part of what is in flight happen.
            for _ in 0..rng.below(40) {
                swarm.step();
            }
            swarm.power_cut();
        }
    }
    swarm.drain();
    swarm.device.check();
    swarm.check_alive();
    swarm.read_all();
}
