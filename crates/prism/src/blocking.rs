//! The library as blocking calls: for C, for examples, for any single-threaded program.
//!
//! ```text
//!   Flash ─► open_raw, open_function, open_policy ─► page_read, flash_write, ...      each runs the drive until its answer arrives
//!         └► submit ... poll                                            the same without waiting; both may be mixed
//! ```
//! `wait` advances time, as in [`Stack::call_by`]: it takes the drive and the time of its next event, and returns the new time; `None` gives up. In
//! virtual time it is [`at_once`]; in real time it sleeps, or waits for the drive's sockets.
//!
//! The drive has to keep data, because buffers hold the bytes of sectors.

use crate::levels::{Level, LevelAnswer, LevelAsk, LevelCall, LevelOutcome, Levels};
use crate::{
    Allocated, FlashAddress, Found, Function, FunctionCall, FunctionOutcome, Gc, LevelError, Levelled,
    Mapping, Policy, PolicyConfig, PolicyError, Raw, Space, SsdGeometry,
};
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Opcode, SimTime, Status, Tag};
use pellucid_host::Stack;
use std::collections::VecDeque;
use std::ops::Range;
use thiserror::Error;

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlashError {
    /// The call was refused; nothing was sent.
    #[error(transparent)]
    Refused(#[from] LevelError),
    /// A range was refused; nothing has changed.
    #[error(transparent)]
    Range(#[from] PolicyError),
    /// The drive completed it with this status.
    #[error("the drive ended it with {0:?}")]
    Drive(Status),
    /// The level could not be opened, or has failed.
    #[error("{0}")]
    Level(String),
    /// The drive does not answer.
    #[error("the drive does not answer")]
    Silent,
}

/// An open raw level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawId(pub u32);

/// An open function level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionId(pub u32);

/// An open policy level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyId(pub u32);

/// A `wait` that advances virtual time at once: for simulated drives.
pub fn at_once<D>(_drive: &mut D, next: Option<SimTime>) -> Option<SimTime> {
    next
}

/// A drive and its open levels. With a [`Monitor`](crate) as the drive, each application has its own namespace.
#[derive(Clone, Debug)]
pub struct Flash<D, W> {
    stack: Stack<Levels, D>,
    wait: W,
    tags: Tag,
    answers: VecDeque<LevelAnswer>,
}

impl<D: Drive, W: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>> Flash<D, W> {
    /// The library on a drive whose time is `now`.
    pub fn new(drive: D, now: SimTime, wait: W) -> Flash<D, W> {
        let stack = Stack::new(Levels::default(), drive, now);
        Flash { stack, wait, tags: 0, answers: VecDeque::new() }
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.stack.now()
    }

    /// The drive.
    pub fn drive(&self) -> &D {
        &self.stack.drive
    }

    /// Applies an action to the drive outside of its commands, such as an allocation by a monitor.
    pub fn act_on_drive<R>(&mut self, act: impl FnOnce(&mut D) -> R) -> R {
        self.stack.act_on_drive(self.stack.now(), act)
    }

    /// Returns the drive, once nothing is open on it.
    pub fn into_drive(self) -> D {
        self.stack.drive
    }

    // ---- levels

    /// Opens the raw level on a namespace.
    pub fn open_raw(&mut self, namespace: u16) -> Result<RawId, FlashError> {
        let (interface, image) = self.namespace(namespace);
        let raw = Raw::new(namespace, interface, image)?;
        self.stack.layer.open_raw(raw).map(RawId).ok_or_else(|| is_open(namespace))
    }

    /// Opens the function level on a namespace, and waits until it has found the existing blocks. [`Flash::found`]
    /// lists them; [`Flash::recover`] names those still needed.
    pub fn open_function(&mut self, namespace: u16) -> Result<FunctionId, FlashError> {
        let (interface, image) = self.namespace(namespace);
        let function = Function::new(namespace, interface, image)?;
        self.start(namespace, Level::Function(function)).map(FunctionId)
    }

    /// Opens the policy level on a namespace, and waits until it has found its recorded ranges.
    pub fn open_policy(&mut self, namespace: u16, config: &PolicyConfig) -> Result<PolicyId, FlashError> {
        let (interface, image) = self.namespace(namespace);
        let policy = Policy::new(namespace, interface, image, config)?;
        self.start(namespace, Level::Policy(policy)).map(PolicyId)
    }

    /// Closes a level without calls in progress; `false`: a call is in progress. Waits for background erases, and for writes that make its next start
    /// cheap.
    pub fn close(&mut self, level: u32) -> bool {
        self.rest();
        let now = self.stack.now();
        if let Some(level) = self.stack.layer.get_mut(level) {
            level.stop(now);
            self.stack.advance(now);
        }
        let stopped = |levels: &Levels| levels.get(level).is_none_or(Level::is_stopped);
        // A level that cannot be stopped in order is recovered as after a power cut.
        while !stopped(&self.stack.layer) && !self.stack.layer.is_at_rest() && self.pass() {
            self.take_answers();
        }
        self.rest();
        self.stack.layer.close(level)
    }

    /// Advances time until neither calls nor background erases are in progress.
    pub fn rest(&mut self) {
        while !self.stack.layer.is_at_rest() && self.pass() {
            self.take_answers();
        }
        self.take_answers();
    }

    fn namespace(&self, namespace: u16) -> (Option<Interface>, usize) {
        (self.stack.drive.interface(namespace), self.stack.drive.image_bytes())
    }

    fn start(&mut self, namespace: u16, level: Level) -> Result<u32, FlashError> {
        let number = self.stack.layer.open(level).ok_or_else(|| is_open(namespace))?;
        let started = |levels: &Levels| {
            levels.get(number).is_some_and(|level| level.is_ready() || level.failure().is_some())
        };
        if !self.stack.run_until(started, &mut self.wait) {
            return Err(FlashError::Silent);
        }
        if let Some(sentence) = self.stack.layer.get(number).and_then(Level::failure) {
            self.stack.layer.close(number);
            return Err(FlashError::Level(sentence));
        }
        Ok(number)
    }

    // ---- without waiting

    /// Submits a call to a level without waiting; [`Flash::poll`] returns its answer under the returned tag.
    pub fn submit(&mut self, level: u32, call: LevelCall) -> Tag {
        self.tags += 1;
        self.stack.ask(self.stack.now(), LevelAsk { level, tag: self.tags, call });
        self.tags
    }

    /// The next answer to a submitted call, if one has arrived.
    pub fn poll(&mut self) -> Option<LevelAnswer> {
        self.take_answers();
        self.answers.pop_front()
    }

    /// Waits for the next answer to a submitted call. `None`: no call is in progress, or the drive does not answer.
    pub fn wait_for_any(&mut self) -> Option<LevelAnswer> {
        while self.answers.is_empty() && self.stack.asked() > 0 && self.pass() {
            self.take_answers();
        }
        self.poll()
    }

    /// Advances to the next event; `false`: `wait` gave up.
    pub fn pass(&mut self) -> bool {
        let next = self.stack.next_event();
        let now = (self.wait)(&mut self.stack.drive, next);
        now.map(|now| self.stack.advance(now)).is_some()
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.stack.answer() {
            self.answers.push_back(answer);
        }
    }

    fn call(&mut self, level: u32, call: LevelCall) -> Result<LevelOutcome, FlashError> {
        let tag = self.submit(level, call);
        loop {
            self.take_answers();
            if let Some(at) = self.answers.iter().position(|answer| answer.tag == tag) {
                let answer = self.answers.remove(at).expect("it is there");
                return Ok(answer.outcome);
            }
            if !self.pass() {
                return Err(FlashError::Silent);
            }
        }
    }

    // ---- raw level

    fn raw(&self, id: RawId) -> Raw {
        match self.stack.layer.get(id.0) {
            Some(Level::Raw(queue)) => queue.raw,
            _ => panic!("{id:?} is not open"),
        }
    }

    /// `Get_SSD_Geometry` of the raw level.
    pub fn raw_geometry(&self, id: RawId) -> SsdGeometry {
        self.raw(id).geometry()
    }

    fn raw_call(&mut self, id: RawId, command: Command) -> Result<Completion, FlashError> {
        match self.call(id.0, LevelCall::Raw(command))? {
            LevelOutcome::Raw(completion) => match completion.status {
                Status::Success | Status::HighEcc => Ok(completion),
                status => Err(FlashError::Drive(status)),
            },
            outcome => unreachable!("raw flash answers {outcome:?}"),
        }
    }

    /// `Page_Read`: reads as many pages as `data` holds.
    pub fn page_read(&mut self, id: RawId, address: FlashAddress, data: &mut [u8]) -> Result<(), FlashError> {
        let raw = self.raw(id);
        let pages = pages_of(raw.space(), data.len())?;
        let command = raw.page_read(0, address, pages, Vec::new())?;
        data.copy_from_slice(&self.raw_call(id, command)?.data);
        Ok(())
    }

    /// `Page_Write`: writes whole pages.
    pub fn page_write(&mut self, id: RawId, address: FlashAddress, data: &[u8]) -> Result<(), FlashError> {
        let command = self.raw(id).page_write(0, address, data.to_vec())?;
        self.raw_call(id, command).map(drop)
    }

    /// Like [`Flash::page_write`], with out-of-band data: 16 bytes for each sector.
    pub fn page_write_with_oob(
        &mut self,
        id: RawId,
        address: FlashAddress,
        data: &[u8],
        oob: &[u8],
    ) -> Result<(), FlashError> {
        let command = self.raw(id).page_write_with_oob(0, address, data.to_vec(), oob.to_vec())?;
        self.raw_call(id, command).map(drop)
    }

    /// Like [`Flash::page_read`], with the out-of-band data.
    pub fn page_read_with_oob(
        &mut self,
        id: RawId,
        address: FlashAddress,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<(), FlashError> {
        let raw = self.raw(id);
        let pages = pages_of(raw.space(), data.len())?;
        let command = raw.page_read_with_oob(0, address, pages, Vec::new())?;
        let wanted = command.vector.as_ref().map_or(0, |vector| vector.metadata.len());
        if oob.len() != wanted {
            let allowed = format!("{wanted}, 16 for each sector");
            return Err(LevelError::Length { what: "out-of-band data", bytes: oob.len(), allowed }.into());
        }
        let completion = self.raw_call(id, command)?;
        data.copy_from_slice(&completion.data);
        oob.copy_from_slice(&completion.vector.map(|vector| vector.metadata).unwrap_or_default());
        Ok(())
    }

    /// `Block_Erase`.
    pub fn block_erase(&mut self, id: RawId, address: FlashAddress) -> Result<(), FlashError> {
        let command = self.raw(id).block_erase(0, address)?;
        self.raw_call(id, command).map(drop)
    }

    // ---- function level

    /// The function level itself.
    ///
    /// # Panics
    /// If it is not open.
    pub fn function(&self, id: FunctionId) -> &Function {
        match self.stack.layer.get(id.0) {
            Some(Level::Function(function)) => function,
            _ => panic!("{id:?} is not open"),
        }
    }

    fn function_mut(&mut self, id: FunctionId) -> &mut Function {
        match self.stack.layer.get_mut(id.0) {
            Some(Level::Function(function)) => function,
            _ => panic!("{id:?} is not open"),
        }
    }

    /// Applies an action to the function level at once, and sends the resulting commands.
    fn act_on_function<R>(&mut self, id: FunctionId, act: impl FnOnce(&mut Function) -> R) -> R {
        let result = act(self.function_mut(id));
        self.stack.advance(self.stack.now());
        result
    }

    /// `Get_SSD_Geometry` of the function level.
    pub fn function_geometry(&self, id: FunctionId) -> SsdGeometry {
        self.function(id).geometry()
    }

    /// See [`Function::found`].
    pub fn found(&self, id: FunctionId) -> Vec<Found> {
        self.function(id).found().copied().collect()
    }

    /// See [`Function::recover`].
    pub fn recover(&mut self, id: FunctionId, blocks: &[FlashAddress]) -> Result<(), FlashError> {
        Ok(self.act_on_function(id, |function| function.recover(blocks))?)
    }

    /// `Address_Mapper`.
    pub fn address_mapper(
        &mut self,
        id: FunctionId,
        channel: u32,
        mapping: Mapping,
    ) -> Result<Allocated, FlashError> {
        Ok(self.act_on_function(id, |function| function.address_mapper(channel, mapping))?)
    }

    /// `Flash_Trim`: returns at once; the erase runs in the background, while other calls advance time.
    pub fn flash_trim(&mut self, id: FunctionId, address: FlashAddress) -> Result<(), FlashError> {
        Ok(self.act_on_function(id, |function| function.flash_trim(address))?)
    }

    /// `Flash_SetOPS`.
    pub fn flash_set_ops(&mut self, id: FunctionId, percent: u32) -> Result<(), FlashError> {
        Ok(self.act_on_function(id, |function| function.set_ops(percent))?)
    }

    /// `Wear_Leveler`.
    pub fn wear_leveler(&mut self, id: FunctionId) -> Result<Levelled, FlashError> {
        match self.function_call(id, FunctionCall::LevelWear)? {
            (FunctionOutcome::Levelled(levelled), _) => Ok(levelled),
            (outcome, _) => unreachable!("the wear leveller answers {outcome:?}"),
        }
    }

    /// `Flash_Read`: fills `data` with whole sectors of one block, starting `sector` sectors after the beginning of a page.
    pub fn flash_read(
        &mut self,
        id: FunctionId,
        address: FlashAddress,
        sector: u32,
        data: &mut [u8],
    ) -> Result<(), FlashError> {
        let bytes = self.function(id).space().image_bytes;
        if !data.len().is_multiple_of(bytes) {
            let allowed = format!("a multiple of the {bytes} of a sector");
            return Err(LevelError::Length { what: "data", bytes: data.len(), allowed }.into());
        }
        let sectors = u32::try_from(data.len() / bytes).unwrap_or(u32::MAX);
        let call = FunctionCall::Read { address, sector, sectors, data: Vec::new() };
        let (_, read) = self.function_call(id, call)?;
        data.copy_from_slice(&read);
        Ok(())
    }

    /// `Flash_Write`: writes the next whole pages of one block; `mark` as in [`FunctionCall::Write`].
    pub fn flash_write(
        &mut self,
        id: FunctionId,
        address: FlashAddress,
        mark: u32,
        data: &[u8],
    ) -> Result<(), FlashError> {
        let call = FunctionCall::Write { address, mark, data: data.to_vec() };
        self.function_call(id, call).map(drop)
    }

    fn function_call(
        &mut self,
        id: FunctionId,
        call: FunctionCall,
    ) -> Result<(FunctionOutcome, Vec<u8>), FlashError> {
        match self.call(id.0, LevelCall::Function(call))? {
            LevelOutcome::Function(answer) => match answer.outcome {
                FunctionOutcome::Refused(error) => Err(error.into()),
                FunctionOutcome::Failed(status) => Err(FlashError::Drive(status)),
                outcome => Ok((outcome, answer.data)),
            },
            outcome => unreachable!("the function level answers {outcome:?}"),
        }
    }
}

/// The policy level.
impl<D: Drive, W: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>> Flash<D, W> {
    /// The policy level itself.
    ///
    /// # Panics
    /// If it is not open.
    pub fn policy(&self, id: PolicyId) -> &Policy {
        match self.stack.layer.get(id.0) {
            Some(Level::Policy(policy)) => policy,
            _ => panic!("{id:?} is not open"),
        }
    }

    /// `FTL_Ioctl`: configures a range of bytes, and waits until it has found its data.
    pub fn ftl_ioctl(
        &mut self,
        id: PolicyId,
        mapping: Mapping,
        gc: Gc,
        range: Range<u64>,
        over_provisioning: f64,
    ) -> Result<(), FlashError> {
        let Some(Level::Policy(policy)) = self.stack.layer.get_mut(id.0) else {
            panic!("{id:?} is not open")
        };
        policy.ftl_ioctl(mapping, gc, range, over_provisioning)?;
        self.settled(id)
    }

    /// Removes a range of bytes: its data are lost. Waits until its flash is available.
    pub fn ftl_remove(&mut self, id: PolicyId, range: Range<u64>) -> Result<(), FlashError> {
        let Some(Level::Policy(policy)) = self.stack.layer.get_mut(id.0) else {
            panic!("{id:?} is not open")
        };
        policy.remove_range(range)?;
        self.settled(id)
    }

    /// Waits until the level is ready.
    fn settled(&mut self, id: PolicyId) -> Result<(), FlashError> {
        self.stack.advance(self.stack.now());
        let started = |levels: &Levels| {
            levels.get(id.0).is_none_or(|level| level.is_ready() || level.failure().is_some())
        };
        if !self.stack.run_until(started, &mut self.wait) {
            return Err(FlashError::Silent);
        }
        match self.stack.layer.get(id.0).and_then(Level::failure) {
            Some(sentence) => Err(FlashError::Level(sentence)),
            None => Ok(()),
        }
    }

    /// The command for the sectors starting at byte `at`; the caller fills in its data.
    pub fn ftl_command(
        &self,
        id: PolicyId,
        opcode: Opcode,
        at: u64,
        bytes: u64,
    ) -> Result<Command, FlashError> {
        let Space { namespace, image_bytes, .. } = *self.policy(id).space();
        let sector = image_bytes as u64;
        if !at.is_multiple_of(sector) || !bytes.is_multiple_of(sector) {
            let allowed = format!("multiples of the {sector} of a sector, as their address is");
            return Err(LevelError::Length { what: "a range", bytes: bytes as usize, allowed }.into());
        }
        let sectors = u32::try_from(bytes / sector).unwrap_or(u32::MAX);
        Ok(Command { namespace, ..Command::new(0, opcode, Lba(at / sector), sectors, Vec::new()) })
    }

    fn ftl_call(&mut self, id: PolicyId, command: Command) -> Result<Completion, FlashError> {
        match self.call(id.0, LevelCall::Policy(command))? {
            LevelOutcome::Policy(completion) if completion.status == Status::Success => Ok(completion),
            LevelOutcome::Policy(completion) => Err(FlashError::Drive(completion.status)),
            outcome => unreachable!("the policy level answers {outcome:?}"),
        }
    }

    /// `FTL_Read`: fills `data` starting at byte `at`.
    pub fn ftl_read(&mut self, id: PolicyId, at: u64, data: &mut [u8]) -> Result<(), FlashError> {
        let command = self.ftl_command(id, Opcode::Read, at, data.len() as u64)?;
        let command = Command { data: vec![0; data.len()], ..command };
        data.copy_from_slice(&self.ftl_call(id, command)?.data);
        Ok(())
    }

    /// `FTL_Write`. Written data survive a crash after [`Flash::ftl_flush`].
    pub fn ftl_write(&mut self, id: PolicyId, at: u64, data: &[u8]) -> Result<(), FlashError> {
        let command = self.ftl_command(id, Opcode::Write, at, data.len() as u64)?;
        self.ftl_call(id, Command { data: data.to_vec(), ..command }).map(drop)
    }

    /// TRIM: these bytes are no longer needed.
    pub fn ftl_trim(&mut self, id: PolicyId, range: Range<u64>) -> Result<(), FlashError> {
        let bytes = range.end.saturating_sub(range.start);
        let command = self.ftl_command(id, Opcode::Trim, range.start, bytes)?;
        self.ftl_call(id, command).map(drop)
    }

    /// Flushes all earlier writes to the flash.
    pub fn ftl_flush(&mut self, id: PolicyId) -> Result<(), FlashError> {
        let command = self.ftl_command(id, Opcode::Flush, 0, 0)?;
        self.ftl_call(id, command).map(drop)
    }
}

fn is_open(namespace: u16) -> FlashError {
    FlashError::Level(format!("namespace {namespace} has a level already, or too many levels are open"))
}

fn pages_of(space: &Space, bytes: usize) -> Result<u32, LevelError> {
    let page = space.page_image_bytes();
    match bytes.is_multiple_of(page) {
        true => Ok(u32::try_from(bytes / page).unwrap_or(u32::MAX)),
        false => {
            let allowed = format!("a multiple of the {page} of a page");
            Err(LevelError::Length { what: "data", bytes, allowed })
        }
    }
}
