//! The flash monitor: gives LUNs of a drive to applications (section IV-A of the paper), and remembers it over restarts.
//!
//! ```text
//!   above     namespace 0: "cache", 2 channels x 2 LUNs        namespace 1: "log", 2 channels x 1 LUN
//!             │ block 0 1 2 ...                                │
//!   monitor   each block ─► a chunk of the LUN that is the application's now; others are refused
//!             │                    hidden: spare chunks of each LUN, and a few for the monitor's state
//!   drive     channel 0: LUN 0 1 2 3        channel 1: LUN 4 5 6 7
//! ```
//! **Allocation.** A request is counted in LUNs, rounded up, over-provisioning on top. LUNs are taken round robin over channels. All channels of an
//! application have equally many LUNs; where the number does not divide, the cheapest shape is taken, counted in extra LUNs and channels left
//! out ([`Allocation::wanted_luns`] has the number wanted). The least worn free LUNs of a channel are taken, and erased before the
//! application gets them.
//!
//! **Isolation.** An application has an open-channel namespace of its own, with addresses counted from 0, and cannot name anything else:
//! every address of a command is looked up ([`ChunkView`]), and a foreign one refuses the whole command with [`Status::LbaOutOfRange`]. A run of sectors stays in its block.
//!
//! **Bad blocks.** All LUNs show equally many blocks. If one cannot be erased, a spare replaces it and the erase succeeds. Without a spare the block
//! is offline.
//!
//! **Wear.** Erases are counted for each LUN. When a LUN exceeds the least worn one by a limit, the two change places, block by block, while they are
//! used (`level.rs`).
//!
//! **State.** See `state.rs` and `records.rs`. A change counts when its record is on the media, and applications learn of it after
//! that. A record is the whole state, so there is no log to replay. Erase counts are as old as the last record, which is rewritten after as many
//! erases as a LUN shows blocks.
//!
//! Commands take one table look-up and allocate nothing; tags of all 64 bits come back.

mod allocate;
mod config;
mod level;
mod records;
mod route;
mod start;
mod state;

pub use config::{
    Allocation, AppId, ApplicationInfo, LunWear, MonitorConfig, MonitorError, Request, Statistics,
};

use crate::SsdGeometry;
use level::Leveller;
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Interface, Lba, Opcode,
    SimTime,
};
use pellucid_host::ChunkView;
use route::Op;
use start::Records;
use state::{Application, State};
use std::collections::VecDeque;

#[cfg(doc)]
use pellucid_flash::Status;

/// Commands that the monitor has under way by itself at a time, when no application is served.
const BATCH: usize = 64;

/// Chunks that the monitor has open: of records, and those that are filled while LUNs change places.
const OPEN_CHUNKS: u32 = 4;

/// An application that is open.
#[derive(Clone, Debug)]
struct Opened {
    view: ChunkView,
    statistics: Statistics,
    /// Its commands that have not ended.
    under_way: usize,
}

/// Effect of a record that is on the media.
#[derive(Clone, Debug)]
enum Commit {
    /// A block of an application is another chunk from now on.
    Place { app: u16, block: u32, chunk: u32 },
    /// This command ends.
    Answer(u32),
    /// The blocks that the leveller has copied have new places.
    Moved,
}

/// A drive divided among applications. Clone it to fork the future of both.
#[derive(Clone, Debug)]
pub struct Monitor<D> {
    /// The drive. No other caller submits to it.
    pub drive: D,
    config: MonitorConfig,
    namespace: u16,
    geometry: ChunkGeometry,
    now: SimTime,
    state: State,
    opened: Vec<Option<Opened>>,
    ops: Slab<Op>,
    /// Commands of applications that have not ended, and the generation of those that are submitted now.
    under_way: usize,
    epoch: u32,
    /// Commands of earlier generations that have not ended.
    draining: usize,
    held: VecDeque<(SimTime, Command)>,
    up: VecDeque<Completion>,
    records: Records,
    commits: VecDeque<(u64, Commit)>,
    leveller: Leveller,
    /// LUNs that are being prepared for an application.
    reserved: Vec<u32>,
    /// Answers to the monitor's own calls.
    answers: Vec<Option<Completion>>,
}

impl<D: Drive> Monitor<D> {
    /// Puts a monitor on a drive that is at `now`, and runs until it has found its state, or has made one on blank media.
    pub fn start(drive: D, config: MonitorConfig, now: SimTime) -> Result<Monitor<D>, MonitorError> {
        Monitor::start_by(drive, config, now, |_, next| next)
    }

    /// Like [`Monitor::start`]; `wait` lets time pass as in [`Stack::call_by`](pellucid_host::Stack::call_by).
    pub fn start_by(
        drive: D,
        config: MonitorConfig,
        now: SimTime,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Monitor<D>, MonitorError> {
        let chunks = |namespace| match drive.interface(namespace) {
            Some(Interface::OpenChannel(geometry)) => Some((namespace, geometry)),
            _ => None,
        };
        let (namespace, geometry) = (0..drive.namespaces()).find_map(chunks).ok_or(MonitorError::NotFlash)?;
        let state = start::blank(&geometry, &config)?;
        let mut monitor = Monitor {
            records: Records::new(&geometry),
            drive,
            config,
            namespace,
            geometry,
            now,
            state,
            opened: Vec::new(),
            ops: Slab::default(),
            under_way: 0,
            epoch: 0,
            draining: 0,
            held: VecDeque::new(),
            up: VecDeque::new(),
            commits: VecDeque::new(),
            leveller: Leveller::default(),
            reserved: Vec::new(),
            answers: Vec::new(),
        };
        let format = monitor.config.format;
        monitor.load(format, wait)?;
        Ok(monitor)
    }

    /// The drive has lost its power and has come back at `now`: the state is read again, and applications that were open are open. What they
    /// had under way and the drive has not answered ends with [`Status::PowerLoss`](pellucid_flash::Status::PowerLoss).
    pub fn restart(&mut self, now: SimTime) -> Result<(), MonitorError> {
        self.now = self.now.max(now);
        self.forget();
        self.load(false, |_, next| next)
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The shape of the drive's flash, hidden blocks included.
    pub fn drive_geometry(&self) -> SsdGeometry {
        SsdGeometry::of(&self.geometry)
    }

    /// Bytes that an application can keep in a LUN.
    pub fn lun_bytes(&self) -> u64 {
        u64::from(self.state.shown)
            * u64::from(self.geometry.chunk_sectors)
            * u64::from(self.geometry.sector_bytes)
    }

    /// LUNs that are free.
    pub fn free_luns(&self) -> u32 {
        (0..self.geometry.parallel_units()).filter(|&lun| self.state.is_free(lun)).count() as u32
    }

    /// Does something to the drive at `now`, beside its commands, and what follows from it.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.drive);
        self.pump();
        result
    }

    // ---- applications

    /// Opens an application that has flash: its namespace is there from now on.
    pub fn open(&mut self, name: &str) -> Result<AppId, MonitorError> {
        let id = self.known(name)?;
        self.open_now(id);
        Ok(id)
    }

    /// Closes an application: its flash stays its own, and its namespace goes.
    pub fn close(&mut self, name: &str) -> Result<(), MonitorError> {
        let id = self.known(name)?;
        self.at_rest(id, name)?;
        self.opened[usize::from(id.0)] = None;
        Ok(())
    }

    /// Takes the flash of an application away; its data are lost. Runs the drive until that is on the media.
    pub fn release(&mut self, name: &str) -> Result<(), MonitorError> {
        self.release_by(name, |_, next| next)
    }

    /// Like [`Monitor::release`]; `wait` lets time pass as in [`Stack::call_by`](pellucid_host::Stack::call_by).
    pub fn release_by(
        &mut self,
        name: &str,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), MonitorError> {
        let id = self.known(name)?;
        self.at_rest(id, name)?;
        let at = usize::from(id.0);
        let before = self.state.applications[at].take();
        let opened = self.opened.get_mut(at).and_then(Option::take);
        self.save_by(&mut wait).inspect_err(|_| {
            self.state.applications[at] = before;
            if opened.is_some() {
                self.open_now(id);
            }
        })
    }

    fn at_rest(&self, id: AppId, name: &str) -> Result<(), MonitorError> {
        let under_way =
            self.opened.get(usize::from(id.0)).and_then(Option::as_ref).map_or(0, |app| app.under_way);
        let held = self.held.iter().filter(|(_, command)| command.namespace == id.0).count();
        match under_way + held {
            0 => Ok(()),
            commands => Err(MonitorError::Busy { name: name.into(), commands }),
        }
    }

    fn find(&self, name: &str) -> Option<AppId> {
        let named = |app: &Option<Application>| app.as_ref().is_some_and(|app| app.name == name);
        self.state.applications.iter().position(named).map(|at| AppId(at as u16))
    }

    fn known(&self, name: &str) -> Result<AppId, MonitorError> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> =
                self.state.applications.iter().flatten().map(|app| &app.name[..]).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            MonitorError::Missing { name: name.into(), known }
        })
    }

    fn open_now(&mut self, id: AppId) {
        let at = usize::from(id.0);
        if self.opened.len() <= at {
            self.opened.resize_with(at + 1, || None);
        }
        if self.opened[at].is_none() {
            let app = self.state.applications[at].as_ref().expect("an application that is opened");
            let view = self.view_of(app);
            self.opened[at] = Some(Opened { view, statistics: Statistics::default(), under_way: 0 });
        }
    }

    /// Returns the view of an application, from the state. A drive that limits open chunks grants it a share, beside those that the
    /// monitor needs for itself.
    fn view_of(&self, app: &Application) -> ChunkView {
        let share = |max: u32, luns: u32, of: u32| match max {
            0 => 0,
            max => (max.saturating_sub(OPEN_CHUNKS) * luns / of).max(1),
        };
        let luns = app.luns.len() as u32;
        let own = ChunkGeometry {
            groups: app.channels,
            units: luns / app.channels,
            chunks: self.state.shown,
            open_chunks_max: share(self.geometry.open_chunks_max, luns, self.geometry.parallel_units()),
            open_chunks_per_unit_max: share(self.geometry.open_chunks_per_unit_max, 1, 1),
            ..self.geometry
        };
        let mut view = ChunkView::listed(self.geometry, own);
        for (at, &lun) in (0..).zip(&app.luns) {
            for block in 0..self.state.shown {
                view.set(at * self.state.shown + block, self.chunk_of(lun, block));
            }
        }
        view
    }

    /// The drive's number of the chunk that a block of an application's LUN is.
    fn chunk_of(&self, lun: u32, block: u32) -> u32 {
        let home = self.state.home(lun, block);
        home * self.geometry.chunks + self.state.luns[home as usize].shown[block as usize]
    }

    /// The applications that have flash.
    pub fn applications(&self) -> impl Iterator<Item = ApplicationInfo> {
        (0..).zip(&self.state.applications).filter_map(|(id, app)| {
            let Application { name, request, channels, luns } = app.clone()?;
            let is_open = matches!(self.opened.get(usize::from(id)), Some(Some(_)));
            Some(ApplicationInfo { id: AppId(id), name, request, units: luns, channels, is_open })
        })
    }

    /// Returns the statistics of an application since it was opened.
    pub fn statistics(&self, id: AppId) -> Option<Statistics> {
        let at = usize::from(id.0);
        let opened = self.opened.get(at)?.as_ref()?;
        let luns = &self.state.applications[at].as_ref()?.luns;
        let erases: f64 = luns.iter().map(|&lun| self.state.average_erases(lun)).sum();
        Some(Statistics { average_erases: erases / luns.len() as f64, ..opened.statistics })
    }

    /// Descriptor of a block of an open application; `of_drive` looks at this namespace and chunk of the drive. `None`: there is no such
    /// block.
    pub fn block_info(
        &self,
        id: AppId,
        block: u32,
        of_drive: impl FnOnce(&D, u16, u32) -> Option<ChunkInfo>,
    ) -> Option<ChunkInfo> {
        let view = &self.opened.get(usize::from(id.0))?.as_ref()?.view;
        let chunk = view.chunk_on_drive(block)?;
        let info = of_drive(&self.drive, self.namespace, chunk)?;
        let own = view.geometry();
        Some(ChunkInfo { start: own.lba(own.chunk_at(block)), ..info })
    }

    /// The LUNs of the drive.
    pub fn wear(&self) -> impl Iterator<Item = LunWear> {
        (0..self.geometry.parallel_units()).map(|lun| LunWear {
            owner: self.state.owner(lun).map(|(id, _)| AppId(id)),
            average_erases: self.state.average_erases(lun),
            bad_blocks: self.state.luns[lun as usize].bad.len() as u32,
            spare_blocks: self.spares(lun).count() as u32,
        })
    }

    /// Swaps of LUNs that have ended, and whether one is under way.
    pub fn swaps(&self) -> (u64, bool) {
        (self.leveller.swaps, self.state.swap.is_some())
    }

    /// Good chunks of a LUN that it does not show.
    fn spares(&self, lun: u32) -> impl Iterator<Item = u32> {
        let Some(state::Lun { shown, bad, .. }) = self.state.luns.get(lun as usize) else {
            unreachable!("a LUN")
        };
        let mut hidden = vec![true; self.geometry.chunks as usize];
        shown.iter().chain(bad).for_each(|&chunk| hidden[chunk as usize] = false);
        (0..self.geometry.chunks).filter(move |&chunk| {
            hidden[chunk as usize] && !self.records.keeps(lun * self.geometry.chunks + chunk)
        })
    }

    // ---- the monitor's own commands

    fn own(&self, opcode: Opcode, chunk: u32, sector: u32, sectors: u32, data: Vec<u8>) -> Command {
        let Lba(start) = self.geometry.lba(self.geometry.chunk_at(chunk));
        let command = Command::new(0, opcode, Lba(start + u64::from(sector)), sectors, data);
        Command { namespace: self.namespace, fua: opcode == Opcode::Write, ..command }
    }

    /// Hands commands to the drive, and waits for all of them.
    fn call_by(
        &mut self,
        commands: Vec<Command>,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Vec<Completion>, MonitorError> {
        let mut ended = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            let batch = commands.by_ref().take(BATCH);
            self.answers.clear();
            for (at, command) in batch.enumerate() {
                self.answers.push(None);
                self.send(route::What::Call(at), command);
            }
            if self.answers.is_empty() {
                return Ok(ended);
            }
            self.pump();
            self.run_by(wait, |monitor| monitor.answers.iter().all(Option::is_some))?;
            ended.extend(self.answers.drain(..).flatten());
        }
    }

    /// Lets time pass until `done`.
    fn run_by(
        &mut self,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
        done: impl Fn(&Monitor<D>) -> bool,
    ) -> Result<(), MonitorError> {
        while !done(self) {
            let next = Drive::next_event(self);
            match wait(&mut self.drive, next) {
                Some(now) => Drive::advance(self, now),
                None => return Err(MonitorError::NoAnswer),
            }
        }
        Ok(())
    }

    /// Decodes the drive's report on these chunks.
    fn infos_by(
        &mut self,
        runs: Vec<(u32, u32)>,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Vec<ChunkInfo>, MonitorError> {
        let report = |(first, count)| self.own(Opcode::Report, first, 0, count, Vec::new());
        let commands = runs.into_iter().map(report).collect();
        let mut infos = Vec::new();
        for ended in self.call_by(commands, wait)? {
            infos.extend(ended.data.as_chunks().0.iter().filter_map(ChunkInfo::decode));
        }
        Ok(infos)
    }

    /// Erases what is written of these LUNs, and puts spares in the place of what is bad. A LUN with too few good blocks is out of use.
    fn clean(
        &mut self,
        luns: &[u32],
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), MonitorError> {
        let chunks = self.geometry.chunks;
        let infos = self.infos_by(luns.iter().map(|lun| (lun * chunks, chunks)).collect(), wait)?;
        let numbers = luns.iter().flat_map(|lun| lun * chunks..(lun + 1) * chunks);
        let mut bad = Vec::new();
        let mut dirty = Vec::new();
        for (chunk, info) in numbers.zip(infos).filter(|&(chunk, _)| !self.records.keeps(chunk)) {
            match info.state {
                ChunkState::Free => {}
                ChunkState::Offline => bad.push(chunk),
                ChunkState::Open | ChunkState::Closed => dirty.push(chunk),
            }
        }
        let resets = dirty
            .iter()
            .map(|&chunk| self.own(Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new()))
            .collect();
        let ended = self.call_by(resets, wait)?;
        for (&chunk, ended) in dirty.iter().zip(&ended) {
            match ended.status {
                pellucid_flash::Status::Success => self.state.luns[(chunk / chunks) as usize].erases += 1,
                _ => bad.push(chunk),
            }
        }
        for chunk in bad {
            let lun = chunk / chunks;
            if self.state.luns[lun as usize].bad.contains(&(chunk % chunks)) {
                continue;
            }
            if !self.put_aside(lun, chunk % chunks) {
                let shown = std::mem::take(&mut self.state.luns[lun as usize].shown);
                drop(shown);
            }
        }
        Ok(())
    }

    /// A chunk of a LUN is bad: a spare takes its place, if it was shown. Returns whether the LUN shows as many good ones as before.
    fn put_aside(&mut self, lun: u32, chunk: u32) -> bool {
        let place = self.state.luns[lun as usize].shown.iter().position(|&shown| shown == chunk);
        let number = lun * self.geometry.chunks;
        let spare = self.spares(lun).find(|&spare| spare != chunk && !self.leveller.uses(number + spare));
        let record = &mut self.state.luns[lun as usize];
        match (place, spare) {
            (Some(_), None) => return false,
            (Some(place), Some(spare)) => record.shown[place] = spare,
            (None, _) => {}
        }
        if let Err(at) = record.bad.binary_search(&chunk) {
            record.bad.insert(at, chunk);
        }
        true
    }

    /// Walks every invariant and panics, naming it, where one is broken.
    pub fn check(&self) {
        self.state.check(&self.geometry, |lun, chunk| self.records.keeps(lun * self.geometry.chunks + chunk));
        let under_way: usize = self.opened.iter().flatten().map(|app| app.under_way).sum();
        assert_eq!(under_way, self.under_way, "commands under way");
        assert!(self.draining <= self.under_way, "commands of earlier generations");
        let mut seen = std::collections::BTreeSet::new();
        for (app, opened) in self.state.applications.iter().zip(&self.opened) {
            let (Some(app), Some(opened)) = (app, opened) else { continue };
            assert_eq!(
                opened.view.chunks(),
                app.luns.len() as u32 * self.state.shown,
                "{}: blocks",
                app.name
            );
            for block in 0..opened.view.chunks() {
                let chunk = opened.view.chunk_on_drive(block).expect("each block is a chunk");
                assert!(seen.insert(chunk), "chunk {chunk} is seen twice, by {} as block {block}", app.name);
                assert!(!self.records.keeps(chunk), "{} sees a record", app.name);
                let lun = app.luns[(block / self.state.shown) as usize];
                let known = self.chunk_of(lun, block % self.state.shown);
                assert!(
                    chunk == known || !self.commits.is_empty() || self.records.dead,
                    "{}: block {block}",
                    app.name
                );
            }
        }
    }
}
