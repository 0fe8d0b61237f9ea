//! The flash monitor: allocates LUNs of a drive to applications (section IV-A of the paper), persistently.
//!
//! ```text
//!   above     namespace 0: "cache", 2 channels x 2 LUNs        namespace 1: "log", 2 channels x 1 LUN
//!             │ block 0 1 2 ...                                │
//!   monitor   each block ─► a chunk of the application's LUN; all other chunks are refused
//!             │                    hidden: spare chunks of each LUN, and a few for the monitor's state
//!   drive     channel 0: LUN 0 1 2 3        channel 1: LUN 4 5 6 7
//! ```
//! **Allocation.** A request is counted in LUNs, rounded up, plus over-provisioning. LUNs are taken round robin over channels. All channels of an
//! application have equally many LUNs; if the number does not divide, the cheapest shape is taken, counted in extra LUNs and unused channels
//! ([`Allocation::wanted_luns`] has the requested number). The least worn free LUNs of a channel are taken, and erased before the application gets
//! them.
//!
//! **Isolation.** An application has its own open-channel namespace, with addresses counted from 0, and cannot name anything else: every address of a
//! command is looked up ([`ChunkView`]), and a foreign one refuses the whole command with [`Status::LbaOutOfRange`]. A run of sectors stays in its
//! block.
//!
//! **Bad blocks.** All LUNs show equally many blocks. If one cannot be erased, a spare replaces it and the erase succeeds. Without a spare the block
//! is offline.
//!
//! **Wear.** Erases are counted per LUN. When a LUN exceeds the least worn one by a limit, the two are swapped, block by block, while they are in use
//! (`level.rs`).
//!
//! **State.** See `state.rs` and `ring.rs`. A change takes effect when its record is on the media, and applications learn of it only then.
//! A record is the whole state, so there is no log to replay. Erase counts are as old as the last record, which is rewritten each time the
//! number of erases reaches the number of blocks that a LUN shows.
//!
//! Commands take one table lookup and no allocation; tags may use all 64 bits.
//!
//! # Objects
//!
//! | object | owns | invariant |
//! |---|---|---|
//! | [`State`] | durable state: LUNs, applications, the swap in progress | see there |
//! | [`Namespaces`] | views, statistics and counts of open applications; generations of commands | the counts add up |
//! | [`Commands`] | commands with the drive, completions on their way up | a command has a record until it ends |
//! | [`Records`], [`Ring`](ring::Ring) | records of the state, what waits for one | one record is written at a time |
//! | [`Leveller`] | the block being moved, commands that wait for it | one block is moved at a time |
//! | [`Calls`] | answers to the monitor's own calls | a call has one answer |
//!
//! Only an object itself writes its fields. Paths are functions without state: commands (`route`), the monitor's own (`calls`), records (`save`),
//! start, allocation, spares, and the leveller's steps (`level`). The [`Monitor`] wires them.

mod allocate;
mod calls;
mod commands;
mod config;
mod level;
mod namespaces;
mod records;
mod ring;
mod route;
mod save;
mod spares;
mod start;
mod state;

pub use config::{
    Allocation, AppId, ApplicationInfo, LunWear, MonitorConfig, MonitorError, Request, Statistics,
};

use crate::SsdGeometry;
use calls::Calls;
use commands::Commands;
use level::Leveller;
use namespaces::Namespaces;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkNotice, Command, Completion, Drive, Interface, Notice, SimTime,
};
use pellucid_host::ChunkView;
use records::Records;
use state::{Application, State};
use std::collections::BTreeSet;

#[cfg(doc)]
use pellucid_flash::Status;

/// Chunks that the monitor keeps open: those of records, and those filled during a swap of LUNs.
const OPEN_CHUNKS: u32 = 4;

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
    namespaces: Namespaces,
    commands: Commands,
    records: Records,
    leveller: Leveller,
    calls: Calls,
}

impl<D: Drive> Monitor<D> {
    /// Starts a monitor on a drive whose time is `now`, and runs until it has found its state, or has created one on blank media.
    pub fn start(drive: D, config: MonitorConfig, now: SimTime) -> Result<Monitor<D>, MonitorError> {
        Monitor::start_by(drive, config, now, |_, next| next)
    }

    /// Like [`Monitor::start`]; `wait` advances time as in [`Stack::call_by`](pellucid_host::Stack::call_by).
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
        let records = Records::new(&geometry);
        let state = start::blank(&geometry, &records, &config)?;
        let format = config.format;
        let mut monitor = Monitor {
            drive,
            config,
            namespace,
            geometry,
            now,
            state,
            namespaces: Namespaces::default(),
            commands: Commands::default(),
            records,
            leveller: Leveller::default(),
            calls: Calls::default(),
        };
        start::load(&mut monitor, format, &mut { wait })?;
        Ok(monitor)
    }

    /// Handles a power loss of the drive, which came back at `now`: reads the state again; open applications stay open. Their unanswered
    /// commands end with [`Status::PowerLoss`](pellucid_flash::Status::PowerLoss).
    pub fn restart(&mut self, now: SimTime) -> Result<(), MonitorError> {
        self.now = self.now.max(now);
        route::forget(self);
        start::load(self, false, &mut |_: &mut D, next| next)
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The shape of the drive's flash, hidden blocks included.
    pub fn drive_geometry(&self) -> SsdGeometry {
        SsdGeometry::of(&self.geometry)
    }

    /// Bytes that an application can store in a LUN.
    pub fn lun_bytes(&self) -> u64 {
        u64::from(self.state.shown())
            * u64::from(self.geometry.chunk_sectors)
            * u64::from(self.geometry.sector_bytes)
    }

    /// Number of free LUNs.
    pub fn free_luns(&self) -> u32 {
        (0..self.geometry.parallel_units()).filter(|&lun| self.state.is_free(lun)).count() as u32
    }

    /// Applies an action to the drive at `now`, outside of its commands, and handles the effects.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.drive);
        route::pump(self);
        result
    }

    // ---- applications

    /// Allocates flash to a new application and opens it. Runs the drive until that is on the media.
    pub fn allocate(&mut self, name: &str, request: Request) -> Result<Allocation, MonitorError> {
        self.allocate_by(name, request, |_, next| next)
    }

    /// Like [`Monitor::allocate`]; `wait` advances time as in [`Stack::call_by`](pellucid_host::Stack::call_by).
    pub fn allocate_by(
        &mut self,
        name: &str,
        request: Request,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Allocation, MonitorError> {
        allocate::allocate(self, name, request, &mut wait)
    }

    /// Maximum number of LUNs for one further application, with equally many of each channel that it sees. Fewer than are free if bad
    /// blocks have taken LUNs of some channels.
    pub fn largest_luns(&self) -> u32 {
        allocate::largest_luns(self)
    }

    /// Opens an application that owns flash: its namespace exists from now on.
    pub fn open(&mut self, name: &str) -> Result<AppId, MonitorError> {
        let id = self.known(name)?;
        self.open_now(id);
        Ok(id)
    }

    /// Closes an application: it keeps its flash and loses its namespace.
    pub fn close(&mut self, name: &str) -> Result<(), MonitorError> {
        let id = self.known(name)?;
        self.at_rest(id, name)?;
        self.namespaces.close(id.0);
        Ok(())
    }

    /// Takes the flash of an application away; its data are lost. Runs the drive until that is on the media.
    pub fn release(&mut self, name: &str) -> Result<(), MonitorError> {
        self.release_by(name, |_, next| next)
    }

    /// Like [`Monitor::release`]; `wait` advances time as in [`Stack::call_by`](pellucid_host::Stack::call_by).
    pub fn release_by(
        &mut self,
        name: &str,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), MonitorError> {
        let id = self.known(name)?;
        self.at_rest(id, name)?;
        let before = self.state.remove(id.0).expect("an application that is known");
        let was_open = self.namespaces.close(id.0);
        save::save_by(self, &mut wait).inspect_err(|_| {
            self.state.put_back(id.0, before);
            if was_open {
                self.open_now(id);
            }
        })
    }

    fn at_rest(&self, id: AppId, name: &str) -> Result<(), MonitorError> {
        let under_way = self.namespaces.get(id.0).map_or(0, |namespace| namespace.under_way());
        let held = self.leveller.held().filter(|command| command.namespace == id.0).count();
        match under_way + held {
            0 => Ok(()),
            commands => Err(MonitorError::Busy { name: name.into(), commands }),
        }
    }

    fn known(&self, name: &str) -> Result<AppId, MonitorError> {
        self.state.find(name).map(AppId).ok_or_else(|| {
            let names: Vec<&str> = self.state.applications().map(|(_, app)| &app.name[..]).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            MonitorError::Missing { name: name.into(), known }
        })
    }

    fn open_now(&mut self, id: AppId) {
        if self.namespaces.get(id.0).is_none() {
            let app = self.state.application(id.0).expect("an application that is opened");
            self.namespaces.open(id.0, self.view_of(app));
        }
    }

    /// Returns the view of an application, from the state. If the drive limits open chunks, the application gets a share, after the
    /// chunks that the monitor itself needs.
    fn view_of(&self, app: &Application) -> ChunkView {
        let share = |max: u32, luns: u32, of: u32| match max {
            0 => 0,
            max => (max.saturating_sub(OPEN_CHUNKS) * luns / of).max(1),
        };
        let luns = app.luns.len() as u32;
        let own = ChunkGeometry {
            groups: app.channels,
            units: luns / app.channels,
            chunks: self.state.shown(),
            open_chunks_max: share(self.geometry.open_chunks_max, luns, self.geometry.parallel_units()),
            open_chunks_per_unit_max: share(self.geometry.open_chunks_per_unit_max, 1, 1),
            ..self.geometry
        };
        let mut view = ChunkView::listed(self.geometry, own);
        for (at, &lun) in (0..).zip(&app.luns) {
            for block in 0..self.state.shown() {
                view.set(at * self.state.shown() + block, self.chunk_of(lun, block));
            }
        }
        view
    }

    /// The drive's chunk of a block of an application's LUN.
    fn chunk_of(&self, lun: u32, block: u32) -> u32 {
        let home = self.state.home(lun, block);
        home * self.geometry.chunks + self.state.chunk_of(home, block)
    }

    /// Reports whether the drive keeps stamps instead of data.
    fn keeps_stamps(&self) -> bool {
        self.drive.image_bytes() != self.geometry.sector_bytes as usize
    }

    /// The applications that own flash.
    pub fn applications(&self) -> impl Iterator<Item = ApplicationInfo> {
        self.state.applications().map(|(id, app)| {
            let Application { name, request, channels, luns } = app.clone();
            let is_open = self.namespaces.get(id).is_some();
            ApplicationInfo { id: AppId(id), name, request, units: luns, channels, is_open }
        })
    }

    /// Returns the statistics of an application since it was opened.
    pub fn statistics(&self, id: AppId) -> Option<Statistics> {
        let namespace = self.namespaces.get(id.0)?;
        let luns = &self.state.application(id.0)?.luns;
        let erases: f64 = luns.iter().map(|&lun| self.state.average_erases(lun)).sum();
        Some(Statistics { average_erases: erases / luns.len() as f64, ..namespace.statistics() })
    }

    /// Descriptor of a block of an open application; `of_drive` looks at this namespace and chunk of the drive. `None`: the block does not exist.
    pub fn block_info(
        &self,
        id: AppId,
        block: u32,
        of_drive: impl FnOnce(&D, u16, u32) -> Option<ChunkInfo>,
    ) -> Option<ChunkInfo> {
        let view = self.namespaces.get(id.0)?.view();
        let chunk = view.chunk_on_drive(block)?;
        let info = of_drive(&self.drive, self.namespace, chunk)?;
        let own = view.geometry();
        Some(ChunkInfo { start: own.lba(own.chunk_at(block)), ..info })
    }

    /// Wear of the drive's LUNs.
    pub fn wear(&self) -> impl Iterator<Item = LunWear> {
        (0..self.geometry.parallel_units()).map(|lun| LunWear {
            owner: self.state.owner(lun).map(|(id, _)| AppId(id)),
            average_erases: self.state.average_erases(lun),
            bad_blocks: self.state.bad_blocks(lun),
            spare_blocks: spares::spares(self, lun).count() as u32,
        })
    }

    /// Number of completed swaps of LUNs, and whether one is in progress.
    pub fn swaps(&self) -> (u64, bool) {
        (self.leveller.swaps(), self.state.swapping().is_some())
    }

    /// Checks every invariant, and panics with its name if one is broken.
    pub fn check(&self) {
        self.state.check(&self.geometry, |lun, chunk| self.records.keeps(lun * self.geometry.chunks + chunk));
        self.namespaces.check();
        let (mut seen, shown) = (BTreeSet::new(), self.state.shown());
        for (id, app) in self.state.applications() {
            let Some(namespace) = self.namespaces.get(id) else { continue };
            let (view, name) = (namespace.view(), &app.name);
            assert_eq!(view.chunks(), app.luns.len() as u32 * shown, "{name}: blocks");
            for block in 0..view.chunks() {
                let chunk = view.chunk_on_drive(block).expect("each block is a chunk");
                assert!(seen.insert(chunk), "chunk {chunk} is seen twice, by {name} as block {block}");
                assert!(!self.records.keeps(chunk), "{name} sees a record");
                let known = self.chunk_of(app.luns[(block / shown) as usize], block % shown);
                let waits = self.records.has_commits() || self.records.is_dead();
                assert!(chunk == known || waits, "{name}: block {block}");
            }
        }
    }
}

impl<D: Drive> Drive for Monitor<D> {
    fn namespaces(&self) -> u16 {
        self.namespaces.count()
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        Some(Interface::OpenChannel(self.namespaces.get(namespace)?.view().geometry()))
    }

    fn image_bytes(&self) -> usize {
        self.drive.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::advance(self, now);
        route::route(self, now, command);
        route::pump(self);
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(next) = self.drive.next_event().filter(|&next| next <= now) {
            self.now = self.now.max(next);
            self.drive.advance(self.now);
            route::pump(self);
        }
        self.now = self.now.max(now);
        self.drive.advance(self.now);
        route::pump(self);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Drive::advance(self, now);
        while self.commands.completed() == 0
            && let Some(next) = self.drive.next_event().filter(|&next| next < limit)
        {
            self.now = self.drive.advance_to_completion(self.now.max(next), limit);
            route::pump(self);
        }
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        self.drive.next_event()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.commands.pop()
    }

    fn outstanding(&self) -> usize {
        self.namespaces.under_way() + self.leveller.held().len()
    }

    fn completed(&self) -> usize {
        self.commands.completed()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        while let Some((namespace, notice)) = self.drive.pop_notice() {
            let Notice::Chunk(chunk) = notice else { continue };
            if namespace != self.namespace {
                continue;
            }
            for (app, namespace) in self.namespaces.iter() {
                let view = namespace.view();
                let Some(lba) = view.in_view(chunk.lba) else { continue };
                if view.on_drive(lba) == Some(chunk.lba) {
                    return Some((app, Notice::Chunk(ChunkNotice { lba, ..chunk })));
                }
            }
        }
        None
    }
}
