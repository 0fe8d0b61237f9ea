//! Reference zoned drive: zones in a few simple data structures, with every rule checked.
//!
//! It panics when a host breaks a rule that a drive would enforce, because the log must never do that: a
//! write off the write pointer, beside another one in its zone, or one that the drive may lose again; too
//! many active zones; a read or a reset of a zone that is being reset.

use crate::reference::Faults;
use pellucid_flash::{
    Command, Completion, Drive, Interface, Lba, Opcode, Rng, SimTime, Stage, StageTimes, Status, ZoneAction,
    ZoneGeometry, ZoneInfo, ZoneOp, ZoneState,
};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug, Default)]
struct Zone {
    state: ZoneState,
    data: Vec<Vec<u8>>,
    /// A write or an action is under way.
    busy: bool,
    reading: u32,
    /// Where a write began that was carried out and not promised: it may come again.
    unpromised: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct ZoneReference {
    pub geometry: ZoneGeometry,
    zones: Vec<Zone>,
    pending: BTreeMap<(SimTime, u64), (Command, SimTime)>,
    free_at: Vec<SimTime>,
    serial: u64,
    rng: Rng,
    pub faults: Faults,
    /// Writes and actions are refused, as by a drive whose store is full; or carried out, and not promised.
    pub refuses: bool,
    pub refused: u64,
    /// Zones filled by a write that was not promised.
    pub filled_unpromised: u64,
    now: SimTime,
    done: VecDeque<Completion>,
    /// Maximum number of zones that were active at a time.
    pub most_active: u32,
    pub finished: u64,
}

impl ZoneReference {
    pub fn new(geometry: ZoneGeometry, seed: u64) -> ZoneReference {
        ZoneReference {
            geometry,
            zones: vec![Zone::default(); geometry.zones as usize],
            pending: BTreeMap::new(),
            free_at: vec![SimTime::ZERO; geometry.zones as usize],
            serial: 0,
            rng: Rng::stream(seed, "zones"),
            faults: Faults::default(),
            refuses: false,
            refused: 0,
            filled_unpromised: 0,
            now: SimTime::ZERO,
            done: VecDeque::new(),
            most_active: 0,
            finished: 0,
        }
    }

    /// Puts a zone into a state before the drive is used.
    pub fn put(&mut self, zone: usize, state: ZoneState) {
        self.zones[zone].state = state;
    }

    fn zone(&self, lba: Lba) -> usize {
        (lba.0 / self.geometry.zone_sectors) as usize
    }

    fn image(&self) -> usize {
        self.geometry.sector_bytes as usize
    }

    /// Cuts the power: commands under way are carried out completely, partly or not at all; a write leaves
    /// any prefix.
    pub fn cut(&mut self) {
        for (_, (command, _)) in std::mem::take(&mut self.pending) {
            let at = self.zone(command.lba);
            match command.opcode {
                Opcode::Write => {
                    let written = self.rng.below(u64::from(command.sectors) + 1) as usize;
                    self.append(at, &command.data, written);
                }
                Opcode::Zone(ZoneOp::Change(action)) if self.rng.chance(0.5) => self.act(at, action),
                _ => {}
            }
        }
        for zone in &mut self.zones {
            (zone.busy, zone.reading) = (false, 0);
            zone.state = match zone.state {
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen if zone.data.is_empty() => {
                    ZoneState::Empty
                }
                ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen => ZoneState::Closed,
                state => state,
            };
        }
        self.free_at.fill(self.now);
        self.done.clear();
    }

    fn append(&mut self, at: usize, data: &[u8], sectors: usize) {
        let image = self.image();
        let zone = &mut self.zones[at];
        zone.data.extend(data.chunks_exact(image).take(sectors).map(<[u8]>::to_vec));
        if zone.data.len() as u64 == self.geometry.capacity_sectors {
            zone.state = ZoneState::Full;
        }
    }

    fn act(&mut self, at: usize, action: ZoneAction) {
        match action {
            ZoneAction::Reset => self.zones[at] = Zone { reading: self.zones[at].reading, ..Zone::default() },
            ZoneAction::Finish => self.zones[at].state = ZoneState::Full,
            other => panic!("the log has no use for {other:?}"),
        }
    }

    fn is_active(zone: &Zone) -> bool {
        matches!(zone.state, ZoneState::ImplicitlyOpen | ZoneState::ExplicitlyOpen | ZoneState::Closed)
    }

    /// Checks the rules that hold when a command arrives.
    fn take(&mut self, command: &Command) {
        let at = self.zone(command.lba);
        let offset = command.lba.0 % self.geometry.zone_sectors;
        match command.opcode {
            Opcode::Write => {
                assert!(command.fua, "a write that the drive may lose again");
                assert!(
                    !std::mem::replace(&mut self.zones[at].busy, true),
                    "two writes at once in zone {at}"
                );
                let zone = &mut self.zones[at];
                let writable = ZoneReference::is_active(zone) || zone.state == ZoneState::Empty;
                assert!(writable, "write to zone {at}, which is {:?}", zone.state);
                if zone.unpromised == Some(offset) {
                    return;
                }
                assert_eq!(offset as usize, zone.data.len(), "write off the write pointer of zone {at}");
                assert!(
                    offset + u64::from(command.sectors) <= self.geometry.capacity_sectors,
                    "zone boundary"
                );
                zone.state = ZoneState::ImplicitlyOpen;
                let active = self.zones.iter().filter(|z| ZoneReference::is_active(z)).count() as u32;
                self.most_active = self.most_active.max(active);
                assert!(active <= self.geometry.active_max, "{active} active zones");
            }
            Opcode::Zone(ZoneOp::Change(_)) => {
                assert_eq!(offset, 0);
                assert!(
                    !std::mem::replace(&mut self.zones[at].busy, true),
                    "an action beside a write in zone {at}"
                );
                let reset = command.opcode == Opcode::Zone(ZoneOp::Change(ZoneAction::Reset));
                assert!(!reset || self.zones[at].reading == 0, "reset of zone {at}, which is being read");
            }
            Opcode::Read => {
                assert!(
                    offset + u64::from(command.sectors) <= self.geometry.zone_sectors,
                    "read over a zone's end"
                );
                self.zones[at].reading += 1;
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, (mut command, submitted): (Command, SimTime)) {
        let at = self.zone(command.lba);
        let mut status = Status::Success;
        let refuses = self.refuses && !matches!(command.opcode, Opcode::Read | Opcode::Report);
        self.refused += u64::from(refuses);
        match command.opcode {
            Opcode::Write
                if self.zones[at].unpromised == Some(command.lba.0 % self.geometry.zone_sectors) =>
            {
                self.zones[at].busy = false;
                status = Status::ZoneInvalidWrite;
            }
            _ if refuses && self.rng.chance(0.5) => {
                self.zones[at].busy = false;
                status = Status::WriteFault;
            }
            Opcode::Write => {
                self.zones[at].busy = false;
                let whole = command.sectors as usize;
                if self.rng.chance(self.faults.write) {
                    let written = self.rng.below(whole as u64) as usize;
                    self.append(at, &command.data, written);
                    // The host cannot know how far the zone was written, whether it is still writable or not.
                    if self.rng.chance(0.5) {
                        self.zones[at].state = ZoneState::ReadOnly;
                    }
                    status = Status::WriteFault;
                } else {
                    self.append(at, &command.data, whole);
                    if refuses {
                        self.filled_unpromised += u64::from(self.zones[at].state == ZoneState::Full);
                        self.zones[at].unpromised = Some(command.lba.0 % self.geometry.zone_sectors);
                    }
                }
            }
            Opcode::Zone(ZoneOp::Change(action)) => {
                self.zones[at].busy = false;
                let state = self.zones[at].state;
                if matches!(state, ZoneState::ReadOnly | ZoneState::Offline) {
                    status = Status::ZoneInvalidTransition;
                } else if action == ZoneAction::Reset && self.rng.chance(self.faults.reset) {
                    self.zones[at].state = ZoneState::Offline;
                    status = Status::WriteFault;
                } else {
                    self.finished += u64::from(action == ZoneAction::Finish);
                    self.act(at, action);
                }
            }
            Opcode::Report => {
                command.data.clear();
                for (number, zone) in self.zones.iter().enumerate().skip(at).take(command.sectors as usize) {
                    let start = number as u64 * self.geometry.zone_sectors;
                    // If the write pointer is undefined, it has a wrong value.
                    let written = match zone.state {
                        ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => u64::MAX - start,
                        _ => zone.data.len() as u64,
                    };
                    let info = ZoneInfo {
                        reset_recommended: false,
                        state: zone.state,
                        start: Lba(start),
                        capacity_sectors: self.geometry.capacity_sectors,
                        write_pointer: Lba(start + written),
                    };
                    info.encode(&mut command.data);
                }
            }
            Opcode::Read => {
                self.zones[at].reading -= 1;
                let (image, offset) = (self.image(), (command.lba.0 % self.geometry.zone_sectors) as usize);
                if self.zones[at].state == ZoneState::Offline {
                    status = Status::ZoneOffline;
                } else if self.rng.chance(self.faults.read) {
                    status = Status::UnrecoveredRead;
                } else {
                    for (i, out) in command.data.chunks_exact_mut(image).enumerate() {
                        match self.zones[at].data.get(offset + i) {
                            Some(data) => out.copy_from_slice(data),
                            None => out.fill(0),
                        }
                    }
                }
            }
            other => panic!("the log has no use for {other:?}"),
        }
        if refuses {
            status = Status::WriteFault;
        }
        let mut stages = StageTimes::default();
        stages.add(Stage::Media, self.now - submitted);
        self.done.push_back(Completion {
            tag: command.tag,
            opcode: command.opcode,
            status,
            submitted,
            completed: self.now,
            stages,
            data: command.data,
            result: 0,
            unmapped: 0,
            vector: None,
        });
    }
}

impl Drive for ZoneReference {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(Interface::Zoned(self.geometry))
    }

    fn image_bytes(&self) -> usize {
        self.image()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        assert_eq!(command.namespace, 0);
        self.take(&command);
        let time = match command.opcode {
            Opcode::Read => 10,
            Opcode::Write => 100,
            Opcode::Zone(ZoneOp::Change(_)) => 200,
            _ => 5,
        };
        let at = self.zone(command.lba);
        // Random durations make commands of different zones overtake each other.
        let done = self.free_at[at].max(now) + pellucid_flash::Nanos(time + self.rng.below(time));
        self.free_at[at] = done;
        self.serial += 1;
        self.pending.insert((done, self.serial), (command, now));
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(entry) = self.pending.first_entry().filter(|entry| entry.key().0 <= now) {
            self.now = entry.key().0;
            let pending = entry.remove();
            self.carry_out(pending);
        }
        self.now = now;
    }

    fn next_event(&self) -> Option<SimTime> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.pending.len()
    }

    fn completed(&self) -> usize {
        self.done.len()
    }
}
