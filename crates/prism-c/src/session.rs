//! Open drive, independent of C.

use crate::failure::{Failure, of_drive};
use crate::open::{self, Clock};
use crate::types::{PrismFound, PrismGeometry, PrismStatistics, PrismStatus};
use pellucid_flash::{Command, Drive, Opcode, SimTime, Tag};
use pellucid_host::Tower;
use pellucid_prism::blocking::{Flash, FunctionId, PolicyId, RawId};
use pellucid_prism::levels::{LevelAnswer, LevelCall, LevelOutcome};
use pellucid_prism::{
    AppId, FlashAddress, FunctionCall, FunctionOutcome, Gc, Mapping, Monitor, MonitorConfig, PolicyConfig,
    Raw, Request,
};
use pellucid_serve::{Bottom, Pace};
use std::collections::HashMap;

type Below = Monitor<Tower<Bottom>>;
type Wait = Box<dyn FnMut(&mut Below, Option<SimTime>) -> Option<SimTime> + Send>;

/// Kind of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Raw,
    Function,
    Policy,
}

/// Open level.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub kind: Kind,
    pub application: String,
    pub geometry: PrismGeometry,
    number: u32,
    /// Maker of the raw level's commands.
    raw: Raw,
}

/// Asynchronous operation.
#[derive(Debug)]
pub(crate) enum Work {
    PageRead { address: FlashAddress, bytes: usize },
    PageWrite { address: FlashAddress, data: Vec<u8> },
    BlockErase { address: FlashAddress },
    FlashRead { address: FlashAddress, offset: u64, bytes: usize },
    FlashWrite { address: FlashAddress, mark: u32, data: Vec<u8> },
    FtlRead { at: u64, bytes: usize },
    FtlWrite { at: u64, data: Vec<u8> },
    FtlTrim { at: u64, bytes: u64 },
    FtlFlush,
}

/// Completion of an operation; `keep` was submitted with it.
pub(crate) struct Done<K> {
    pub keep: K,
    pub at: SimTime,
    pub status: PrismStatus,
    /// Data read.
    pub data: Vec<u8>,
}

/// Drive, its monitor, and the levels that are open on it. `K`: the caller's data for each operation.
pub(crate) struct Session<K> {
    flash: Flash<Below, Wait>,
    clock: Clock,
    pace: Pace,
    under_way: HashMap<Tag, K>,
    /// Buffers of completed operations, for reuse.
    buffers: Vec<Vec<u8>>,
}

/// Maximum number of reusable buffers, and the maximum size of one.
const BUFFERS_MAX: usize = 1024;
const BUFFER_BYTES_MAX: usize = 1 << 20;

impl<K> Session<K> {
    pub fn open(uri: &str, pace: Pace, format: bool) -> Result<Session<K>, Failure> {
        let (tower, clock) = open::open(uri, pace, format)?;
        let is_real = tower.bottom().is_in_wall_time();
        let now = match (is_real, tower.stack()) {
            (true, _) => clock.with(|waiter| waiter.now()),
            (false, Some(stack)) => stack.now(),
            (false, None) => tower.bottom().now(),
        };
        let config = MonitorConfig { format, ..MonitorConfig::default() };
        let wait =
            |tower: &mut Tower<Bottom>, next| clock.with(|waiter| waiter.wait(tower.bottom_mut(), next));
        let monitor = Monitor::start_by(tower, config, now, wait)?;
        let now = monitor.now();
        let own = clock.clone();
        let wait: Wait =
            Box::new(move |below, next| own.with(|waiter| waiter.wait(below.drive.bottom_mut(), next)));
        let pace = if is_real { Pace::Real } else { pace };
        let flash = Flash::new(monitor, now, wait);
        Ok(Session { flash, clock, pace, under_way: HashMap::new(), buffers: Vec::new() })
    }

    /// Lets the drive catch up with the clock, in real time.
    fn catch_up(&mut self) {
        if self.pace == Pace::Real {
            self.clock.with(|waiter| waiter.set_patient(false));
            self.flash.pass();
            self.clock.with(|waiter| waiter.set_patient(true));
        }
    }

    /// Returns the drive's time.
    pub fn now(&mut self) -> SimTime {
        self.catch_up();
        self.flash.now()
    }

    pub fn geometry(&self) -> PrismGeometry {
        let monitor = self.flash.drive();
        PrismGeometry::new(&monitor.drive_geometry(), sector_bytes(monitor))
    }

    pub fn free_luns(&self) -> (u32, u64) {
        (self.flash.drive().free_luns(), self.flash.drive().lun_bytes())
    }

    pub fn allocate(
        &mut self,
        name: &str,
        capacity_bytes: u64,
        over_provisioning: f64,
    ) -> Result<(), Failure> {
        let request = Request { capacity_bytes, over_provisioning };
        self.act(|monitor, wait| monitor.allocate_by(name, request, wait).map(drop))
    }

    pub fn release(&mut self, name: &str) -> Result<(), Failure> {
        self.act(|monitor, wait| monitor.release_by(name, wait))
    }

    /// Runs an action that lets time pass on the monitor.
    fn act<R>(
        &mut self,
        act: impl FnOnce(
            &mut Below,
            &mut dyn FnMut(&mut Tower<Bottom>, Option<SimTime>) -> Option<SimTime>,
        ) -> Result<R, pellucid_prism::MonitorError>,
    ) -> Result<R, Failure> {
        self.catch_up();
        let clock = self.clock.clone();
        let mut wait =
            |tower: &mut Tower<Bottom>, next| clock.with(|waiter| waiter.wait(tower.bottom_mut(), next));
        Ok(self.flash.act_on_drive(|monitor| act(monitor, &mut wait))?)
    }

    pub fn statistics(&self, name: &str) -> Result<PrismStatistics, Failure> {
        let monitor = self.flash.drive();
        let found = monitor.applications().find(|application| application.name == name);
        let statistics = found.and_then(|application| monitor.statistics(application.id));
        let missing = || Failure::new(PrismStatus::Missing, format!("{name}: no such application"));
        let s = statistics.ok_or_else(missing)?;
        Ok(PrismStatistics {
            reads: s.reads,
            read_sectors: s.read_sectors,
            writes: s.writes,
            written_sectors: s.written_sectors,
            erases: s.erases,
            refused: s.refused,
            replaced_blocks: s.replaced_blocks,
            lost_blocks: s.lost_blocks,
            swapped_luns: s.swapped_luns,
            average_erases: s.average_erases,
        })
    }

    // ---- levels

    pub fn open_level(&mut self, name: &str, kind: Kind) -> Result<Opened, Failure> {
        let AppId(namespace) = self.flash.act_on_drive(|monitor| monitor.open(name))?;
        let drive = self.flash.drive();
        let (interface, image) = (drive.interface(namespace), drive.image_bytes());
        let raw = Raw::new(namespace, interface, image)?;
        self.catch_up();
        let opened = match kind {
            Kind::Raw => self.flash.open_raw(namespace).map(|RawId(number)| number),
            Kind::Function => self.flash.open_function(namespace).map(|FunctionId(number)| number),
            Kind::Policy => {
                let config = PolicyConfig::default();
                self.flash.open_policy(namespace, &config).map(|PolicyId(number)| number)
            }
        };
        let geometry = PrismGeometry::new(&raw.geometry(), raw.space().chunks.sector_bytes);
        Ok(Opened { kind, application: name.into(), geometry, number: opened?, raw })
    }

    /// Waits for the operations of a level, drops their completions, and closes it.
    pub fn close_level(&mut self, opened: &Opened) -> Result<(), Failure> {
        let busy =
            || Failure::new(PrismStatus::Busy, format!("{}: operations are under way", opened.application));
        self.flash.close(opened.number).then_some(()).ok_or_else(busy)?;
        Ok(self.flash.act_on_drive(|monitor| monitor.close(&opened.application))?)
    }

    /// Returns the number of a level, if it is of the given kind.
    fn number(&self, opened: &Opened, kind: Kind) -> Result<u32, Failure> {
        let refuse =
            || Failure::invalid(format!("a call of the {kind:?} level, and this level is {:?}", opened.kind));
        (opened.kind == kind).then_some(opened.number).ok_or_else(refuse)
    }

    fn raw(&self, opened: &Opened) -> Result<RawId, Failure> {
        self.number(opened, Kind::Raw).map(RawId)
    }

    fn function(&self, opened: &Opened) -> Result<FunctionId, Failure> {
        self.number(opened, Kind::Function).map(FunctionId)
    }

    fn policy(&self, opened: &Opened) -> Result<PolicyId, Failure> {
        self.number(opened, Kind::Policy).map(PolicyId)
    }

    pub fn page_read(
        &mut self,
        opened: &Opened,
        address: FlashAddress,
        data: &mut [u8],
    ) -> Result<(), Failure> {
        let id = self.raw(opened)?;
        self.catch_up();
        Ok(self.flash.page_read(id, address, data)?)
    }

    pub fn page_write(&mut self, opened: &Opened, address: FlashAddress, data: &[u8]) -> Result<(), Failure> {
        let id = self.raw(opened)?;
        self.catch_up();
        Ok(self.flash.page_write(id, address, data)?)
    }

    pub fn page_write_oob(
        &mut self,
        opened: &Opened,
        address: FlashAddress,
        data: &[u8],
        oob: &[u8],
    ) -> Result<(), Failure> {
        let id = self.raw(opened)?;
        self.catch_up();
        Ok(self.flash.page_write_with_oob(id, address, data, oob)?)
    }

    pub fn page_read_oob(
        &mut self,
        opened: &Opened,
        address: FlashAddress,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<(), Failure> {
        let id = self.raw(opened)?;
        self.catch_up();
        Ok(self.flash.page_read_with_oob(id, address, data, oob)?)
    }

    pub fn block_erase(&mut self, opened: &Opened, address: FlashAddress) -> Result<(), Failure> {
        let id = self.raw(opened)?;
        self.catch_up();
        Ok(self.flash.block_erase(id, address)?)
    }

    pub fn address_mapper(
        &mut self,
        opened: &Opened,
        channel: u32,
        mapping: Mapping,
    ) -> Result<(FlashAddress, u32), Failure> {
        let id = self.function(opened)?;
        self.catch_up();
        let allocated = self.flash.address_mapper(id, channel, mapping)?;
        Ok((allocated.address, allocated.free_blocks))
    }

    /// Waits for everything that is under way, including erases in the background.
    pub fn rest(&mut self) {
        self.flash.rest();
    }

    pub fn flash_trim(&mut self, opened: &Opened, address: FlashAddress) -> Result<(), Failure> {
        let id = self.function(opened)?;
        self.catch_up();
        Ok(self.flash.flash_trim(id, address)?)
    }

    pub fn set_ops(&mut self, opened: &Opened, percent: u32) -> Result<(), Failure> {
        let id = self.function(opened)?;
        Ok(self.flash.flash_set_ops(id, percent)?)
    }

    pub fn level_wear(&mut self, opened: &Opened) -> Result<(Vec<[FlashAddress; 2]>, f64), Failure> {
        let id = self.function(opened)?;
        self.catch_up();
        let levelled = self.flash.wear_leveler(id)?;
        Ok((levelled.swapped, levelled.variance))
    }

    pub fn flash_read(
        &mut self,
        opened: &Opened,
        address: FlashAddress,
        offset: u64,
        data: &mut [u8],
    ) -> Result<(), Failure> {
        let id = self.function(opened)?;
        let sector = sectors(opened, offset)?;
        self.catch_up();
        Ok(self.flash.flash_read(id, address, sector, data)?)
    }

    pub fn flash_write(
        &mut self,
        opened: &Opened,
        address: FlashAddress,
        mark: u32,
        data: &[u8],
    ) -> Result<(), Failure> {
        let id = self.function(opened)?;
        self.catch_up();
        Ok(self.flash.flash_write(id, address, mark, data)?)
    }

    pub fn found(&mut self, opened: &Opened) -> Result<Vec<PrismFound>, Failure> {
        let id = self.function(opened)?;
        let found = self.flash.found(id).into_iter().map(|found| PrismFound {
            address: found.address.into(),
            mark: found.mark.unwrap_or(0),
            has_mark: found.mark.is_some().into(),
            pages: found.pages,
            erases: found.erases,
        });
        Ok(found.collect())
    }

    pub fn recover(&mut self, opened: &Opened, blocks: &[FlashAddress]) -> Result<(), Failure> {
        let id = self.function(opened)?;
        Ok(self.flash.recover(id, blocks)?)
    }

    pub fn ftl_ioctl(
        &mut self,
        opened: &Opened,
        mapping: Mapping,
        gc: Gc,
        range: std::ops::Range<u64>,
        over_provisioning: f64,
    ) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_ioctl(id, mapping, gc, range, over_provisioning)?)
    }

    pub fn ftl_remove(&mut self, opened: &Opened, range: std::ops::Range<u64>) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_remove(id, range)?)
    }

    pub fn ftl_read(&mut self, opened: &Opened, at: u64, data: &mut [u8]) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_read(id, at, data)?)
    }

    pub fn ftl_write(&mut self, opened: &Opened, at: u64, data: &[u8]) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_write(id, at, data)?)
    }

    pub fn ftl_trim(&mut self, opened: &Opened, at: u64, bytes: u64) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_trim(id, at..at.saturating_add(bytes))?)
    }

    pub fn ftl_flush(&mut self, opened: &Opened) -> Result<(), Failure> {
        let id = self.policy(opened)?;
        self.catch_up();
        Ok(self.flash.ftl_flush(id)?)
    }

    // ---- without waiting

    /// Returns an empty buffer, reused if possible.
    fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Returns a buffer with a copy of the bytes.
    pub fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.buffer();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Takes back the buffer of a completed operation.
    pub fn put_back(&mut self, mut buffer: Vec<u8>) {
        if (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) && self.buffers.len() < BUFFERS_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    pub fn submit(&mut self, opened: &Opened, work: Work, keep: K) -> Result<(), Failure> {
        let call = self.call(opened, work)?;
        self.catch_up();
        let tag = self.flash.submit(opened.number, call);
        self.under_way.insert(tag, keep);
        Ok(())
    }

    /// Makes a command of the policy level.
    fn block(
        &self,
        opened: &Opened,
        opcode: Opcode,
        at: u64,
        bytes: u64,
        data: Vec<u8>,
    ) -> Result<LevelCall, Failure> {
        let command = self.flash.ftl_command(self.policy(opened)?, opcode, at, bytes)?;
        Ok(LevelCall::Policy(Command { data, ..command }))
    }

    fn call(&mut self, opened: &Opened, work: Work) -> Result<LevelCall, Failure> {
        let page_bytes = opened.geometry.page_size as usize;
        Ok(match work {
            Work::PageRead { address, bytes } => {
                self.raw(opened)?;
                if !bytes.is_multiple_of(page_bytes) {
                    return Err(Failure::invalid(format!(
                        "{bytes} bytes: allowed: whole pages of {page_bytes}"
                    )));
                }
                let pages = u32::try_from(bytes / page_bytes).unwrap_or(u32::MAX);
                LevelCall::Raw(opened.raw.page_read(0, address, pages, self.buffer())?)
            }
            Work::PageWrite { address, data } => {
                self.raw(opened)?;
                LevelCall::Raw(opened.raw.page_write(0, address, data)?)
            }
            Work::BlockErase { address } => {
                self.raw(opened)?;
                LevelCall::Raw(opened.raw.block_erase(0, address)?)
            }
            Work::FlashRead { address, offset, bytes } => {
                self.function(opened)?;
                let (sector, sectors) = (sectors(opened, offset)?, sectors(opened, bytes as u64)?);
                LevelCall::Function(FunctionCall::Read { address, sector, sectors, data: self.buffer() })
            }
            Work::FlashWrite { address, mark, data } => {
                self.function(opened)?;
                LevelCall::Function(FunctionCall::Write { address, mark, data })
            }
            Work::FtlRead { at, bytes } => {
                let mut data = self.buffer();
                data.resize(bytes, 0);
                self.block(opened, Opcode::Read, at, bytes as u64, data)?
            }
            Work::FtlWrite { at, data } => self.block(opened, Opcode::Write, at, data.len() as u64, data)?,
            Work::FtlTrim { at, bytes } => self.block(opened, Opcode::Trim, at, bytes, Vec::new())?,
            Work::FtlFlush => self.block(opened, Opcode::Flush, 0, 0, Vec::new())?,
        })
    }

    /// Returns the next completion; waits for it if `patient` is set.
    pub fn poll(&mut self, patient: bool) -> Option<Done<K>> {
        loop {
            let answer = match self.flash.poll() {
                Some(answer) => answer,
                None if patient => self.flash.wait_for_any()?,
                None => return None,
            };
            // Completions of a closed level are dropped.
            if let Some(keep) = self.under_way.remove(&answer.tag) {
                return Some(done(answer, keep, self.flash.now()));
            }
        }
    }

    /// Picks up completions, in real time.
    pub fn look(&mut self) {
        self.catch_up();
    }

    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

fn done<K>(answer: LevelAnswer, keep: K, now: SimTime) -> Done<K> {
    match answer.outcome {
        LevelOutcome::Raw(completion) | LevelOutcome::Policy(completion) => Done {
            keep,
            at: completion.completed,
            status: of_drive(completion.status),
            data: completion.data,
        },
        LevelOutcome::Function(answer) => {
            let status = match answer.outcome {
                FunctionOutcome::Done | FunctionOutcome::Levelled(_) => PrismStatus::Ok,
                FunctionOutcome::Failed(status) => of_drive(status),
                FunctionOutcome::Refused(error) => Failure::from(error).status,
            };
            Done { keep, at: answer.at.max(SimTime::ZERO).min(now), status, data: answer.data }
        }
    }
}

/// Converts bytes to sectors.
fn sectors(opened: &Opened, bytes: u64) -> Result<u32, Failure> {
    let sector = u64::from(opened.geometry.sector_size);
    match bytes.is_multiple_of(sector) {
        true => Ok(u32::try_from(bytes / sector).unwrap_or(u32::MAX)),
        false => Err(Failure::invalid(format!("{bytes} bytes: allowed: whole sectors of {sector}"))),
    }
}

fn sector_bytes(monitor: &Below) -> u32 {
    monitor.image_bytes() as u32
}
