//! Drives as the service of a server: their turns, and their shutdown.
//!
//! ```text
//!  put away: flush each namespace ─► all have ended, no target changes ─► layers stop ─► at rest
//! ```

use super::{Core, damage, figures, layers, status, targets};
use crate::drive::Served;
use crate::engine::{Answered, Entry};
use crate::event::{By, Event, User};
use crate::remote::TOKENS;
use crate::secret;
use crate::service::{Desk, Done, Operated};
use mio::{Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Completion, Drive, Held, Lba, Notice, Status};
use pellucid_monitor::View;
use pellucid_target::budget::large_part;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::{Namespace, Operation};
use pellucid_target::request::Request;
use pellucid_target::{Base, CutReport, Drives, Service};
use serde_json::Value;
use std::sync::Arc;

impl Service for Core {
    type Answer = Completion;

    #[inline]
    fn base(&self) -> &dyn Base {
        &self.desk
    }

    #[inline]
    fn base_mut(&mut self) -> &mut dyn Base {
        &mut self.desk
    }

    fn discard(&mut self, completion: Completion) {
        self.desk.hub.pool.give_back(completion.data);
    }

    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String> {
        status::control(self, by, request)
    }

    fn outcome(&mut self, by: ConnectionId) -> Option<Result<(), String>> {
        layers::outcome(self, by).or_else(|| targets::outcome(self, by))
    }

    fn draw_random(&mut self, bytes: &mut [u8]) -> bool {
        secret::draw_random(bytes)
    }
}

/// Requests of NBD and NVMe/TCP to the drives.
impl Drives for Core {
    fn namespaces(&self) -> &[Namespace] {
        self.register.all()
    }

    #[inline]
    fn submit(&mut self, namespace: usize, route: Route, operation: Operation) {
        self.begin(namespace, route, operation);
    }

    fn attach_to(&mut self, connection: ConnectionId, namespace: usize) {
        self.hold(connection, namespace);
        let drive = self.register.get(namespace).name.clone();
        self.log(Event::Attached { by: User::Connection(connection), drive });
    }

    fn target_changes(&self) -> u64 {
        self.book.changes()
    }

    fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo> {
        self.served(namespace).namespace(self.register.get(namespace).number).chunk_infos(first, count)
    }

    fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)> {
        self.served(namespace).namespace(self.register.get(namespace).number).moves()
    }

    fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        let Core { desk, register, notices, .. } = self;
        for (drive, served) in desk.engine.backends_mut().iter_mut().enumerate() {
            while let Some((number, notice)) = served.pop_notice() {
                if let Some(namespace) = register.on_drive(drive, number) {
                    notices.add(namespace, notice);
                }
            }
        }
        notices.take(namespaces)
    }

    fn device(&self, namespace: usize) -> Option<&Device> {
        self.served(namespace).device()
    }

    fn device_mut(&mut self, namespace: usize) -> Option<&mut Device> {
        self.submit_waiting();
        let drive = self.register.get(namespace).drive;
        self.drive_mut(drive).device_mut()
    }

    fn handle_admin(&mut self, namespace: usize) {
        self.submit_waiting();
        let (now, drive) = (self.desk.engine.backend_now(), self.register.get(namespace).drive);
        self.drive_mut(drive).handle_admin(now);
    }

    fn is_read_only(&self, namespace: usize) -> bool {
        self.served(namespace).namespace(self.register.get(namespace).number).is_read_only()
    }

    fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held {
        let &Namespace { number, sector_bytes, unit_bytes, .. } = self.register.get(namespace);
        let served = self.served(namespace).namespace(number);
        let per_unit = u64::from(unit_bytes / sector_bytes);
        let end = (lba.0 + sectors).div_ceil(per_unit);
        let mut all = served.held(lba.0 / per_unit);
        while all.until < end && all.looks < looks_max {
            let next = served.held(all.until);
            all.looks += next.looks;
            if next.holds != all.holds {
                break;
            }
            all.until = next.until;
        }
        Held { until: all.until.min(end).saturating_mul(per_unit).min(lba.0 + sectors), ..all }
    }

    /// All submitted operations are in the drive by then.
    fn power_cut(&mut self, namespace: usize) -> Result<CutReport, String> {
        self.submit_waiting();
        damage::power_cut_by(self, namespace, By::Owner)
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
    fn desk(&self) -> &Desk<Served> {
        &self.desk
    }

    #[inline]
    fn desk_mut(&mut self) -> &mut Desk<Served> {
        &mut self.desk
    }

    #[inline]
    fn run(&mut self) -> bool {
        if self.in_wall_time {
            self.run_in_wall_time();
        }
        self.enter_batch(false);
        self.desk.engine.advance()
    }

    #[inline]
    fn pop(&mut self) -> Option<Done<Completion>> {
        loop {
            let Answered { tag, at, answer: mut completion } = self.desk.engine.take()?;
            let namespace = self.desk.engine.entry(tag).namespace;
            if let Some(observer) = &mut self.observer {
                observer.completed(namespace, &completion);
            }
            match self.steps.go_on(tag, &mut completion) {
                Some(step) => self.take_step(namespace, tag, step),
                None => {
                    let Entry { route, bytes, .. } = self.desk.engine.end(tag, at);
                    self.desk.hub.budget.release_large(large_part(bytes));
                    return Some(Done { route, bytes, answer: completion });
                }
            }
        }
    }

    fn watch(&mut self) {
        figures::watch(self);
    }

    fn view(&self) -> View {
        figures::view(self)
    }

    /// Also logs the messages of the drives' stores and of the observer.
    fn look_after(&mut self) {
        targets::settle(self);
        let Core { desk, register, .. } = self;
        for (name, drive) in register.names().iter().zip(desk.engine.backends_mut()) {
            while let Some(notice) = drive.device_mut().and_then(Device::store_notice) {
                desk.logbook.events.push(Event::StoreNotice { drive: name.clone(), notice });
            }
        }
        if let Some(why) = self.observer.as_mut().and_then(|observer| observer.failed()) {
            self.log(Event::RecordFailed { why });
        }
    }

    fn release(&mut self, connection: ConnectionId) {
        for namespace in self.book.release(connection) {
            let drive = self.register.get(namespace).name.clone();
            self.log(Event::Detached { by: User::Connection(connection), drive });
        }
        layers::forget(self, connection);
    }

    /// Each remote drive has [`TOKENS`] tokens.
    fn attach(&mut self, poll: &Poll, first: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        for (at, drive) in self.desk.engine.backends_mut().iter_mut().enumerate() {
            drive.bottom_mut().attach(poll.registry(), Token(first.0 + at * TOKENS), Arc::clone(waker))?;
        }
        Ok(())
    }

    fn remote_ready(&mut self, token: usize) {
        if let Some(drive) = self.desk.engine.backends_mut().get_mut(token / TOKENS) {
            drive.bottom_mut().ready(token % TOKENS);
        }
    }

    fn next_fault_ns(&self) -> Option<u64> {
        let at = self.plan.next_ns();
        (at < u64::MAX).then_some(at)
    }

    fn strike(&mut self, now_ns: u64) {
        damage::strike(self, None, now_ns);
    }

    /// Operations no longer wait for remote drives that are away, either.
    fn stop(&mut self) {
        self.desk.hub.stop();
        self.desk.engine.stop_pacing();
        self.desk.engine.backends_mut().iter_mut().for_each(|drive| drive.bottom_mut().stop());
    }

    fn put_away(&mut self) {
        damage::tell_faults_not_struck(self);
        for namespace in 0..self.register.all().len() {
            if !self.register.get(namespace).gone {
                let route = Route { connection: ConnectionId::SERVER, token: namespace as u64 };
                self.submit(namespace, route, Operation::flush());
            }
        }
    }

    fn is_put_away(&mut self) -> bool {
        while let Some(Done { route: Route { connection, token }, answer, .. }) = self.pop() {
            if connection == ConnectionId::SERVER && answer.status != Status::Success {
                last_flush_failed(self, token as usize, answer.status);
            }
        }
        if self.outstanding() > 0 || targets::is_changing(self) {
            return false;
        }
        if self.rest.begin() {
            quiesce(self);
        }
        let is_over = is_at_rest(self);
        if is_over {
            tell_dirty(self);
        }
        is_over
    }

    fn busy_drives(&self) -> Vec<String> {
        let drives = self.desk.engine.backends().iter().zip(self.register.names());
        // Commands of hosts, and those of layers.
        let is_busy = |drive: &Served| drive.outstanding_commands() + drive.bottom().outstanding() > 0;
        drives.filter(|(drive, _)| is_busy(drive)).map(|(_, name)| name.clone()).collect()
    }

    fn finish(&mut self) -> Result<(), String> {
        let observed = self.observer.as_mut().map_or(Ok(()), |observer| observer.finished());
        for (device, name) in self.desk.engine.backends_mut().iter_mut().zip(self.register.names()) {
            device.sync().map_err(|error| format!("{name}: {error}"))?;
        }
        observed.map_err(|error| format!("recording: {error}"))
    }
}

/// Logs what caches have not written back.
fn tell_dirty(core: &mut Core) {
    for drive in 0..core.register.names().len() {
        let blocks = core.drive_mut(drive).dirty_blocks();
        if blocks > 0 {
            core.log(Event::CacheDirty { drive: core.register.name(drive).to_owned(), blocks });
        }
    }
}

/// Begins to write the layers' state that their next start needs; [`is_at_rest`] reports the end.
fn quiesce(core: &mut Core) {
    for drive in 0..core.register.names().len() {
        if let Err(why) = core.drive_mut(drive).quiesce() {
            stop_failed(core, drive, why);
        }
    }
}

/// Returns true once no layer is still stopping. A layer that failed to stop recovers as after a power
/// cut.
fn is_at_rest(core: &mut Core) -> bool {
    let mut all = true;
    for drive in 0..core.register.names().len() {
        match core.drive_mut(drive).rested() {
            None => all = false,
            Some(Ok(())) => {}
            Some(Err(why)) => stop_failed(core, drive, why),
        }
    }
    all
}

/// Logs a failed final flush. A read-only drive has reported its state earlier and does not count as
/// unstopped.
fn last_flush_failed(core: &mut Core, namespace: usize, status: Status) {
    let drive = core.register.get(namespace).name.clone();
    if !(status == Status::ReadOnly && core.is_read_only(namespace)) {
        let why = format!("what was not flushed before may be lost, its last flush failed ({status:?})");
        core.rest.fail(&drive, &why);
    }
    core.log(Event::FlushFailed { drive, status });
}

fn stop_failed(core: &mut Core, drive: usize, why: String) {
    let drive = core.register.name(drive).to_owned();
    core.rest.fail(&drive, &why);
    core.log(Event::StopFailed { drive, why });
}
