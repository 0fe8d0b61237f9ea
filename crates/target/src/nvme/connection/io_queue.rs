//! An I/O queue: submits requests to the drives, sends completions to the host, and handles aborts.

use super::{Connection, Role, room_for};
use crate::nvme::io::{self, Request};
use crate::nvme::open_channel::{self, LISTS_MAX, VectorRequest};
use crate::nvme::slots::{State, Work};
use crate::nvme::{cache, fdp, nameless, zns};
use crate::session::Port;
use pellucid_flash::{Completion as Ended, Status as DriveStatus};
use pellucid_wire::nvme::{FABRICS_OPCODE, Status};
use pellucid_wire::tcp::CapsuleCommand;
use std::rc::Rc;

impl Connection {
    #[inline]
    pub(super) fn start_io(&mut self, capsule: &CapsuleCommand, port: &mut Port<'_>) -> Result<(), Status> {
        let entry = &capsule.entry;
        if !self.gate.ready.get() || entry.opcode() == FABRICS_OPCODE {
            return self.start_outside_io(capsule, port);
        }
        let Some(request) = io::parse(entry, &self.volumes)? else {
            self.respond(entry.cid(), Status::SUCCESS, 0, port);
            return Ok(());
        };
        if request.takes_data() {
            return self.take_data(capsule, Work::Io(request), request.bytes, port);
        }
        if request.gives_data() {
            room_for(entry, request.bytes)?;
        }
        let index = self.slot(entry.cid(), Work::Io(request))?;
        if request.gives_data() && !port.has_budget(request.bytes as usize) {
            let slot = self.slots.get(index);
            (slot.state, slot.wanted) = (State::Waiting, request.bytes);
            self.waiting.push_back(index);
            return Ok(());
        }
        self.execute_io(index, &request, Vec::new(), port);
        Ok(())
    }

    #[inline]
    pub(super) fn execute_io(
        &mut self,
        index: u16,
        request: &Request,
        mut data: Vec<u8>,
        port: &mut Port<'_>,
    ) {
        let Role::Io { queue, .. } = self.role else { return };
        let through = self.gate.write_through.get();
        if let io::Kind::Special(io::Special::Vector(vector)) = request.kind
            && let Err(status) = self.use_list(&vector, &mut data)
        {
            self.slots.get(index).status = status;
            self.log_error(self.slots.cid(index), status, Some(request));
            port.give_back(data);
            return self.finish(index, 0, port);
        }
        let submitted = io::submit(request, &self.volumes, queue - 1, index.into(), &mut data, through, port);
        let slot = self.slots.get(index);
        match submitted {
            Ok(operations) => {
                slot.operations = operations;
                if request.kind == io::Kind::Compare {
                    port.expect(data.len());
                    slot.buffer = data;
                } else {
                    port.give_back(data);
                }
            }
            Err(status) => {
                slot.status = status;
                port.give_back(data);
            }
        }
        if slot.operations == 0 {
            let (cid, status) = (slot.cid, slot.status);
            if !status.is_success() {
                self.log_error(cid, status, Some(request));
            }
            self.finish(index, 0, port);
        }
    }

    /// Stores a staged list of addresses, or fetches the list that a vector command names.
    fn use_list(&mut self, vector: &VectorRequest, data: &mut Vec<u8>) -> Result<(), Status> {
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let mut lists = self.gate.lists.borrow_mut();
        if vector.opcode.is_none() {
            if lists.len() >= LISTS_MAX && !lists.contains_key(&vector.address) {
                return Err(invalid);
            }
            lists.insert(vector.address, std::mem::take(data));
        } else if vector.needs_list() {
            *data = lists.remove(&vector.address).ok_or(invalid)?;
        }
        Ok(())
    }

    /// Aborts the command with the host's identifier `cid`, if possible.
    pub(super) fn abort(&mut self, cid: u16, port: &mut Port<'_>) -> bool {
        let aborted = Status::ABORT_REQUESTED.do_not_retry();
        let Some(index) = self.slots.find(cid) else { return false };
        let slot = self.slots.get(index);
        match (slot.state, &slot.work) {
            (State::Waiting, _) => {
                self.waiting.retain(|&waiting| waiting != index);
                self.slots.get(index).status = aborted;
                self.finish(index, 0, port);
                true
            }
            // The command ends when its data have arrived.
            (State::Receiving, _) => {
                slot.status = aborted;
                true
            }
            (State::Working, Work::Io(request)) if request.is_harmless() => {
                slot.state = State::Orphan;
                self.respond(cid, aborted, 0, port);
                true
            }
            _ => false,
        }
    }

    pub(super) fn tick_io(&mut self, id: u16, queue: u16, now_ns: u64, port: &mut Port<'_>) {
        let shared = Rc::clone(&self.target);
        let mut target = shared.borrow_mut();
        let Some((controller, subsystem)) = target.get(id) else { return };
        if std::mem::take(&mut self.active) {
            controller.active_ns = now_ns;
        }
        if let Some(subsystem) = subsystem {
            subsystem.host_reads += std::mem::take(&mut self.reads);
            subsystem.host_writes += std::mem::take(&mut self.writes);
        }
        for abort in controller.aborts.iter_mut().filter(|a| a.queue == queue && a.outcome.is_none()) {
            abort.outcome = Some(self.abort(abort.cid, port));
            port.nudge(controller.admin);
        }
    }

    /// Ends the queue after its connection is gone and has nothing left in the drives.
    pub(super) fn end_queue(&mut self, id: u16, queue: u16, port: &mut Port<'_>) {
        let mut target = self.target.borrow_mut();
        // The controller may be gone before its queue.
        let subsystem = &mut target.subsystems[self.subsystem];
        subsystem.host_reads += self.reads;
        subsystem.host_writes += self.writes;
        let Some((controller, _)) = target.get(id) else { return };
        let me = port.connection();
        controller.ending.retain(|&ending| ending != me);
        if controller.queues.get(&queue) == Some(&me) {
            controller.queues.remove(&queue);
            for abort in controller.aborts.iter_mut().filter(|a| a.queue == queue) {
                abort.outcome.get_or_insert(false);
                port.nudge(controller.admin);
            }
        }
    }

    /// Continues an I/O command after one of its operations has ended.
    #[inline]
    pub(super) fn io_ended(&mut self, index: u16, request: Request, ended: Ended, port: &mut Port<'_>) {
        let slot = self.slots.get(index);
        let good = slot.status.is_success();
        match request.kind {
            io::Kind::Read if good => {
                let cid = slot.cid;
                self.slots.free(index);
                self.reads += 1;
                return self.send(cid, ended.data, port);
            }
            // The data are good but took effort: the status reports it, and the data are still sent.
            io::Kind::Read if ended.status == DriveStatus::HighEcc => {
                let (cid, status) = (slot.cid, slot.status);
                self.slots.free(index);
                self.reads += 1;
                return self.send_with(cid, ended.data, status, ended.result, port);
            }
            io::Kind::Special(io::Special::Vector(vector))
                if request.gives_data() && (good || gives_part(&ended)) =>
            {
                let (cid, status) = (slot.cid, slot.status);
                self.slots.free(index);
                self.reads += u64::from(good);
                if !good {
                    self.log_error(cid, status, Some(&request));
                }
                let (result, mut ended) = (ended.result, ended);
                let data = open_channel::data_of(&vector, &mut ended, port);
                return self.send_with(cid, data, status, result, port);
            }
            io::Kind::Special(special) if good && request.gives_data() => {
                let cid = slot.cid;
                self.slots.free(index);
                let data = match special {
                    io::Special::HandleStatus => fdp::status(&ended.data, request.bytes),
                    io::Special::ZoneReport { filter, partial } => {
                        zns::report(&ended.data, filter, partial, request.bytes)
                    }
                    _ => ended.data,
                };
                self.reads += 1;
                return match special {
                    io::Special::Cache(_) => self.send_with(cid, data, Status::SUCCESS, ended.result, port),
                    _ => self.send(cid, data, port),
                };
            }
            io::Kind::Compare => {
                if good && ended.data != slot.buffer {
                    slot.status = Status::COMPARE_FAILURE.do_not_retry();
                }
                slot.give_back(port);
            }
            _ => {}
        }
        let result = ended.result;
        port.give_back(ended.data);
        if slot.operations > 0 {
            return;
        }
        if slot.status.is_success() {
            match request.kind {
                io::Kind::Write | io::Kind::WriteZeroes => self.writes += 1,
                io::Kind::Special(io::Special::Append) => self.writes += 1,
                io::Kind::Special(io::Special::Cache(opcode)) => {
                    self.writes += u64::from(cache::takes_data(opcode));
                }
                io::Kind::Special(io::Special::Nameless(opcode)) => {
                    self.writes += u64::from(nameless::takes_data(opcode));
                }
                io::Kind::Compare | io::Kind::Verify => self.reads += 1,
                _ => {}
            }
        } else if !slot.status.is(Status::CACHE_ABSENT) {
            // A block that a cache does not hold is no error.
            let (cid, status) = (slot.cid, slot.status);
            self.log_error(cid, status, Some(&request));
        }
        self.finish(index, result, port);
    }
}

/// Returns true if a failed vector read still has data of some or all addresses. A refused read has not
/// touched its buffer, which holds old data of another connection.
fn gives_part(ended: &Ended) -> bool {
    match ended.status {
        DriveStatus::HighEcc => true,
        DriveStatus::UnrecoveredRead | DriveStatus::Unwritten => ended.result != 0,
        _ => false,
    }
}
