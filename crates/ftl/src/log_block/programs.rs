//! Programs from plan to end: until then the mapping table names a copy that the media do not hold yet.
//!
//! ```text
//!  append ─► table: new copy ─► program_ended ─┬─ ok ─────► references of the old copies end
//!            old copy stays referenced         └─ failed ─► table: old copy (or the successor has it to replace)
//! ```
//! Copies of merges and metadata are in the same table of programs under way, but replace nothing before their merge commits, or their
//! program ends.

use super::LogBlock;
use super::blocks::Role;
use super::mark::{self, Kind};
use crate::translation::{Outdated, Plan, ProgramId};
use pellucid_flash::{BlockId, Cause, DieId, Lpn, Ppa};

/// Content of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Host,
    /// Copies of the merge of its die.
    Merge,
    Metadata,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) first: Ppa,
    pub(super) sequence: u64,
    units: u32,
    active: bool,
    pub(super) content: Content,
}

/// A page of the host that is being programmed, and the copy that it replaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) lpn: Lpn,
    pub(super) old: Ppa,
}

/// The programs that have not ended.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    programs: Vec<Program>,
    units: Vec<Unit>,
    idle: Vec<u32>,
    stride: usize,
}

impl Programs {
    pub fn new(units_per_superpage: u32) -> Programs {
        Programs {
            programs: Vec::new(),
            units: Vec::new(),
            idle: Vec::new(),
            stride: units_per_superpage as usize,
        }
    }

    /// Begins a program; its units are set one by one.
    fn begin(&mut self, first: Ppa, sequence: u64, content: Content, units: u32) -> ProgramId {
        let program = Program { first, sequence, units, active: true, content };
        let id = self.idle.pop().unwrap_or_else(|| {
            self.programs.push(program.clone());
            let none = Unit { lpn: Lpn::NONE, old: Ppa::NONE };
            self.units.resize(self.programs.len() * self.stride, none);
            self.programs.len() as u32 - 1
        });
        self.programs[id as usize] = program;
        ProgramId(id)
    }

    fn end(&mut self, id: ProgramId) -> Program {
        self.programs[id.0 as usize].active = false;
        self.idle.push(id.0);
        self.programs[id.0 as usize].clone()
    }

    pub fn active(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.active)
    }

    /// Units of the host that are being programmed, with their places.
    pub fn host_units(&self) -> impl Iterator<Item = (Ppa, Unit)> {
        self.numbers().map(|at| (self.place(at), self.units[at])).filter(|(_, unit)| unit.lpn != Lpn::NONE)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let host = self.programs.iter().enumerate().filter(|(_, p)| p.active && p.content == Content::Host);
        host.flat_map(|(id, p)| id * self.stride..id * self.stride + p.units as usize)
    }

    fn place(&self, at: usize) -> Ppa {
        Ppa(self.programs[at / self.stride].first.0 + (at % self.stride) as u32)
    }

    /// Copy that the program under way that writes `ppa` replaces there; `None`: no host program writes it.
    pub fn replaced_by(&self, ppa: Ppa) -> Option<Ppa> {
        let at = |p: &Program| (p.first.0..p.first.0 + p.units).contains(&ppa.0);
        let writes = |p: &Program| p.active && p.content == Content::Host && at(p);
        let id = self.programs.iter().position(writes)?;
        Some(self.units[id * self.stride + (ppa.0 - self.programs[id].first.0) as usize].old)
    }

    /// The unit being programmed that replaces the copy at `old`.
    pub fn replacing(&mut self, old: Ppa) -> Option<&mut Unit> {
        let at = self.numbers().find(|&at| self.units[at].lpn != Lpn::NONE && self.units[at].old == old)?;
        Some(&mut self.units[at])
    }
}

impl LogBlock {
    fn begin(
        &mut self,
        block: BlockId,
        superpage: u32,
        kind: Kind,
        content: Content,
        units: u32,
    ) -> (Plan, usize) {
        let first = self.layout.ppa(block, superpage * self.layout.units_per_superpage);
        let sequence = self.sequence;
        self.sequence += 1;
        let id = self.programs.begin(first, sequence, content, units);
        self.blocks.program_begins(block);
        let plan =
            Plan { id, first, die: self.layout.die_of_block(block), sequence: mark::join(kind, sequence) };
        (plan, id.0 as usize * self.programs.stride)
    }

    /// Plans the program of `lpns` as superpage `superpage` of `block`; the table names the new copies from now on.
    pub(super) fn plan_host(&mut self, block: BlockId, superpage: u32, kind: Kind, lpns: &[Lpn]) -> Plan {
        let (plan, base) = self.begin(block, superpage, kind, Content::Host, lpns.len() as u32);
        for (at, &lpn) in lpns.iter().enumerate() {
            let mut old = Ppa::NONE;
            if lpn != Lpn::NONE {
                old = self.map.replace(lpn, Ppa(plan.first.0 + at as u32));
                self.blocks.refer(block);
            }
            self.programs.units[base + at] = Unit { lpn, old };
        }
        plan
    }

    /// Plans a program that changes nothing in the table before its end.
    pub(super) fn plan_other(
        &mut self,
        block: BlockId,
        superpage: u32,
        kind: Kind,
        content: Content,
        units: u32,
    ) -> Plan {
        self.begin(block, superpage, kind, content, units).0
    }

    /// Prefetches the state that the end of a planned program accesses, when the program has reached its die.
    #[inline]
    pub fn program_started(&self, _id: ProgramId) {}

    /// Ends a program. If it failed, the caller still has the host data and plans them again; copies of merges and metadata are planned
    /// again from here. The block takes no more data, and is retired when its data have moved.
    pub fn program_ended(&mut self, id: ProgramId, ok: bool) {
        let program = self.programs.end(id);
        let block = self.layout.block_of(program.first);
        let die = self.layout.die_of_block(block);
        self.blocks.program_ended(block);
        match program.content {
            Content::Host => self.host_program_ended(id, &program, ok),
            Content::Merge => self.copy_ended(die, ok),
            Content::Metadata => self.metadata_ended(die, program.first, ok),
        }
        if !ok {
            self.fail_block(block, Cause::Retirement);
        }
        self.map_jobs = true;
        self.switch_when_full(block);
        self.step(die);
    }

    fn host_program_ended(&mut self, id: ProgramId, program: &Program, ok: bool) {
        let base = id.0 as usize * self.programs.stride;
        for at in 0..program.units {
            // A superpage may hold a page twice: a failed one is undone from its end.
            let at = if ok { at } else { program.units - 1 - at };
            let Unit { lpn, old } = self.programs.units[base + at as usize];
            if lpn == Lpn::NONE {
                continue;
            }
            if ok {
                self.release(old, Outdated::Replaced);
            } else {
                self.undo(lpn, Ppa(program.first.0 + at), old);
            }
        }
    }

    /// Undoes the copy at `failed`, which does not exist: its successor replaces `old` instead.
    fn undo(&mut self, lpn: Lpn, failed: Ppa, old: Ppa) {
        let block = self.layout.block_of(failed);
        if self.map.get(lpn) == failed {
            self.map.set(lpn, old);
            self.blocks.unrefer(block);
        } else if let Some(successor) = self.programs.replacing(failed) {
            successor.old = old;
            self.blocks.unrefer(block);
        } else {
            // Trimmed, or overwritten by a program that has ended. Until the trim is on the media, a power cut brings the old copy back.
            let trimmed = self.map.get(lpn) == Ppa::NONE;
            self.keep_until_saved(old);
            self.release(old, if trimmed { Outdated::Trimmed } else { Outdated::Replaced });
        }
    }

    /// Releases the copy at `ppa`, which is no longer needed for this reason.
    pub(super) fn release(&mut self, ppa: Ppa, why: Outdated) {
        if ppa.is_some() {
            self.blocks.unrefer(self.layout.block_of(ppa));
            self.outdate(ppa, why);
        }
    }

    /// Reports that the copy at `ppa` is not needed.
    pub(super) fn outdate(&mut self, ppa: Ppa, why: Outdated) {
        if self.names_outdated {
            self.outdated.push((ppa, why));
        }
    }

    /// Keeps the block of `ppa` from its erase until the current trims are on the media.
    pub(super) fn keep_until_saved(&mut self, ppa: Ppa) {
        if ppa.is_some() {
            self.blocks.set_last_trim(self.layout.block_of(ppa), self.trims);
        }
    }

    /// Place where the data of the copy at `ppa` can be read now: there, or, until its program has ended, in the copy that it replaces.
    /// [`Ppa::NONE`]: it has none on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        if self.blocks.in_flight(self.layout.block_of(ppa)) == 0 { ppa } else { self.on_media(ppa) }
    }

    fn on_media(&self, mut ppa: Ppa) -> Ppa {
        while ppa.is_some()
            && let Some(old) = self.programs.replaced_by(ppa)
        {
            ppa = old;
        }
        ppa
    }

    /// Returns whether the copy at `ppa` is being programmed.
    pub(super) fn is_under_way(&self, ppa: Ppa) -> bool {
        self.blocks.in_flight(self.layout.block_of(ppa)) > 0 && self.programs.replaced_by(ppa).is_some()
    }

    /// The lowest sequence number of a program of `die` that has not ended; the next number if all have.
    pub(super) fn oldest_program(&self, die: DieId) -> u64 {
        let of_die = self.programs.active().filter(|p| self.layout.die_of(p.first) == die);
        of_die.map(|p| p.sequence).min().unwrap_or(self.sequence)
    }

    /// Fails `block`: it takes no more programs; its data move, and then it is retired. Returns whether that is new.
    pub(super) fn fail_block(&mut self, block: BlockId, cause: Cause) -> bool {
        let role = self.blocks.role(block);
        if !self.blocks.fail(block) {
            return false;
        }
        let die = self.layout.die_of_block(block);
        match role {
            Role::Data(_) | Role::Log => _ = self.evacuate(block, cause),
            Role::Destination => self.fail_merge(die),
            Role::Metadata => self.give_up_metadata(die, block),
            Role::Leaving | Role::Free | Role::Erasing | Role::Bad => {}
        }
        if self.dies[die.0 as usize].merge.as_ref().is_some_and(|merge| merge.target == block) {
            self.fail_merge(die);
        }
        true
    }
}
