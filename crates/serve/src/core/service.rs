//! Drives as the service of a server: their turns, and their shutdown.
//!
//! ```text
//!  put away: flush each namespace ─► all have ended, no target changes ─► layers stop ─► at rest
//! ```

use super::Core;
use crate::drive::Served;
use crate::engine::Engine;
use crate::event::Event;
use crate::logbook::Logbook;
use crate::remote::TOKENS;
use crate::secret;
use crate::service::{Done, Operated};
use mio::{Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Completion, Held, Lba, Notice, Status};
use pellucid_monitor::Board;
use pellucid_target::Hub;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::{Namespace, Operation};
use pellucid_target::request::Request;
use pellucid_target::{CutReport, Drives, Service};
use serde_json::Value;
use std::sync::Arc;

impl Service for Core {
    type Answer = Completion;

    #[inline]
    fn hub(&self) -> &Hub {
        &self.hub
    }

    #[inline]
    fn hub_mut(&mut self) -> &mut Hub {
        &mut self.hub
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    #[inline]
    fn bytes_inside(&self) -> usize {
        self.engine.bytes()
    }

    fn discard(&mut self, completion: Completion) {
        self.hub.pool.give_back(completion.data);
    }

    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String> {
        Core::control(self, by, request)
    }

    fn outcome(&mut self, by: ConnectionId) -> Option<Result<(), String>> {
        Core::outcome(self, by)
    }

    fn draw_random(&mut self, bytes: &mut [u8]) -> bool {
        secret::draw_random(bytes)
    }
}

/// Requests of NBD and NVMe/TCP to the drives.
impl Drives for Core {
    fn namespaces(&self) -> &[Namespace] {
        Core::namespaces(self)
    }

    #[inline]
    fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        Core::submit(self, namespace, route, operation);
    }

    fn attach_to(&mut self, connection: ConnectionId, namespace: usize) {
        Core::attach_to(self, connection, namespace);
    }

    fn target_changes(&self) -> u64 {
        Core::target_changes(self)
    }

    fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].chunk_infos(number, first, count)
    }

    fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)> {
        let Namespace { drive, number, .. } = self.namespaces[namespace];
        self.engine.backends()[drive].moves(number)
    }

    fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        Core::pop_notice(self, namespaces)
    }

    fn device(&self, namespace: usize) -> Option<&Device> {
        Core::device(self, namespace)
    }

    fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        Core::device_mut(self, namespace)
    }

    fn is_read_only(&self, namespace: usize) -> bool {
        Core::is_read_only(self, namespace)
    }

    fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held {
        Core::held(self, namespace, lba, sectors, looks_max)
    }

    fn power_cut(&mut self, namespace: usize) -> Result<CutReport, String> {
        Core::power_cut(self, namespace)
    }
}

impl Operated for Core {
    type Backend = Served;
    type Face = dyn Drives;

    #[inline]
    fn face(&mut self) -> &mut (dyn Drives + 'static) {
        self
    }

    #[inline]
    fn logbook(&self) -> &Logbook {
        &self.logbook
    }

    #[inline]
    fn logbook_mut(&mut self) -> &mut Logbook {
        &mut self.logbook
    }

    #[inline]
    fn engine(&self) -> &Engine<Served> {
        &self.engine
    }

    #[inline]
    fn engine_mut(&mut self) -> &mut Engine<Served> {
        &mut self.engine
    }

    #[inline]
    fn run(&mut self) -> bool {
        Core::run(self)
    }

    #[inline]
    fn pop(&mut self) -> Option<Done<Completion>> {
        Core::pop(self)
    }

    fn show_on(&mut self, board: Board) {
        self.watch();
        self.board = Some(board);
    }

    #[inline]
    fn show(&self) {
        if let Some(board) = self.board.as_ref().filter(|board| board.wanted()) {
            board.publish(self.view());
        }
    }

    /// Also logs the messages of the drives' stores and of the observer.
    fn look_after(&mut self) {
        self.settle_targets();
        for (name, drive) in self.names.iter().zip(self.engine.backends_mut()) {
            while let Some(notice) = drive.device_mut().and_then(Device::store_notice) {
                self.logbook.events.push(Event::StoreNotice { drive: name.clone(), notice });
            }
        }
        if let Some(why) = self.observer.as_mut().and_then(|observer| observer.failed()) {
            self.logbook.events.push(Event::RecordFailed { why });
        }
    }

    fn release(&mut self, connection: ConnectionId) {
        Core::release(self, connection);
    }

    /// Each remote drive has [`TOKENS`] tokens.
    fn attach(&mut self, poll: &Poll, first: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        for (at, drive) in self.engine.backends_mut().iter_mut().enumerate() {
            drive.attach(poll, Token(first.0 + at * TOKENS), waker)?;
        }
        Ok(())
    }

    fn remote_ready(&mut self, token: usize) {
        if let Some(drive) = self.engine.backends_mut().get_mut(token / TOKENS) {
            drive.ready(token % TOKENS);
        }
    }

    fn next_fault_ns(&self) -> Option<u64> {
        Core::next_fault_ns(self)
    }

    fn strike(&mut self, now_ns: u64) {
        Core::strike(self, None, now_ns);
    }

    /// Operations no longer wait for remote drives that are away, either.
    fn stop(&mut self) {
        self.hub.stop();
        self.engine.stop_pacing();
        self.engine.backends_mut().iter_mut().for_each(Served::stop);
    }

    fn put_away(&mut self) {
        self.tell_faults_not_struck();
        for namespace in 0..self.namespaces.len() {
            if !self.namespaces[namespace].gone {
                let route = Route { connection: ConnectionId::SERVER, token: namespace as u64 };
                self.submit(namespace, route, Operation::flush());
            }
        }
    }

    fn is_put_away(&mut self) -> bool {
        while let Some(Done { route: Route { connection, token }, answer, .. }) = Core::pop(self) {
            if connection == ConnectionId::SERVER && answer.status != Status::Success {
                self.last_flush_failed(token as usize, answer.status);
            }
        }
        if self.outstanding() > 0 || self.is_changing() {
            return false;
        }
        if !std::mem::replace(&mut self.resting, true) {
            self.quiesce();
        }
        self.is_at_rest()
    }

    fn finish(&mut self) -> Result<(), String> {
        let observed = self.observer.as_mut().map_or(Ok(()), |observer| observer.finished());
        for (device, name) in self.engine.backends_mut().iter_mut().zip(&self.names) {
            device.sync().map_err(|error| format!("{name}: {error}"))?;
        }
        observed.map_err(|error| format!("recording: {error}"))
    }
}

impl Core {
    /// Drives whose layers could not be stopped in order, each with the reason: their data in memory are
    /// lost.
    pub fn unstopped(&self) -> &[String] {
        &self.unstopped
    }

    /// Begins to write the layers' state that their next start needs; [`Core::is_at_rest`] reports the end.
    fn quiesce(&mut self) {
        for drive in 0..self.names.len() {
            if let Err(why) = self.engine.backends_mut()[drive].quiesce() {
                self.stop_failed(drive, why);
            }
        }
    }

    /// Returns true once no layer is still stopping. A layer that failed to stop recovers as after a power
    /// cut.
    fn is_at_rest(&mut self) -> bool {
        let mut all = true;
        for drive in 0..self.names.len() {
            match self.engine.backends_mut()[drive].rested() {
                None => all = false,
                Some(Ok(())) => {}
                Some(Err(why)) => self.stop_failed(drive, why),
            }
        }
        all
    }

    /// Logs a failed final flush. A read-only drive has reported its state earlier and does not count as
    /// unstopped.
    fn last_flush_failed(&mut self, namespace: usize, status: Status) {
        let drive = self.namespaces[namespace].name.clone();
        if !(status == Status::ReadOnly && self.is_read_only(namespace)) {
            self.unstopped.push(format!(
                "{drive}: what was not flushed before may be lost, its last flush failed ({status:?})"
            ));
        }
        self.logbook.events.push(Event::FlushFailed { drive, status });
    }

    fn stop_failed(&mut self, drive: usize, why: String) {
        let drive = self.names[drive].clone();
        self.unstopped.push(format!("{drive}: {why}"));
        self.logbook.events.push(Event::StopFailed { drive, why });
    }
}
