//! Subsystems: their namespaces, names, allowed hosts, and their state for the lifetime of the server.
//!
//! Invariant: a namespace keeps its identifiers (NGUID, UUID) across restarts. They derive from the name and
//! serial number of its subsystem, and the serial number, which the server chooses, from properties of the drive.

use super::dhchap::HostSecrets;
use super::history::History;
use super::open_channel;
use crate::session::Port;
use pellucid_device::{Device, Feedback};
use pellucid_flash::{ChunkNotice, FNV_BASIS, Notice, fnv1a};
use pellucid_wire::nvme::{DISCOVERY_NQN, nqn};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Configuration of one subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Qualified name, `nqn.yyyy-mm.reverse-domain:...`.
    pub nqn: String,
    /// Serial number, at most 20 printable ASCII characters.
    pub serial: String,
    /// Model, at most 40 printable ASCII characters.
    pub model: String,
    /// Numbers of its namespaces in the server, in the order of their identifiers (1, 2, ...).
    pub namespaces: Vec<usize>,
    /// Drive that is divided among applications: each becomes a subsystem like this one, which has no namespace itself and takes no
    /// connection.
    pub divided: Option<usize>,
    /// Qualified names of the hosts that may connect; `None` admits every host.
    pub hosts: Option<Vec<String>>,
    /// Secrets of hosts by qualified name. Unless the map is empty, only these hosts may connect, and every
    /// queue of theirs must authenticate.
    pub secrets: BTreeMap<String, HostSecrets>,
}

/// Error in the configuration of subsystems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The name is not a qualified name.
    #[error("{0:?}: not a qualified name; allowed: \"nqn.\" and at most 219 bytes more")]
    Nqn(String),
    /// Another subsystem has this name.
    #[error("{0}: the name of another subsystem")]
    Taken(String),
    /// The subsystem has no namespace.
    #[error("{0}: has no namespace; allowed: at least 1")]
    NoNamespace(String),
    /// Serial number or model has a wrong length or invalid characters.
    #[error("{key} = {value:?}: allowed: 1 to {length_max} printable ASCII characters")]
    Text {
        /// `serial` or `model`.
        key: &'static str,
        /// Value as given.
        value: String,
        /// Maximum number of characters.
        length_max: usize,
    },
}

pub(super) fn check(subsystems: &[SubsystemConfig]) -> Result<(), ConfigError> {
    for (index, subsystem) in subsystems.iter().enumerate() {
        let SubsystemConfig { nqn: name, serial, model, namespaces, divided, hosts, secrets } = subsystem;
        for name in hosts.iter().flatten().chain(secrets.keys()).chain([name]) {
            nqn(name).ok_or_else(|| ConfigError::Nqn(name.clone()))?;
        }
        if name == DISCOVERY_NQN || subsystems[..index].iter().any(|other| other.nqn == *name) {
            return Err(ConfigError::Taken(name.clone()));
        }
        if namespaces.is_empty() && divided.is_none() {
            return Err(ConfigError::NoNamespace(name.clone()));
        }
        for (key, value, length_max) in [("serial", serial, 20), ("model", model, 40)] {
            let printable = value.bytes().all(|byte| (0x20..0x7F).contains(&byte));
            if value.is_empty() || value.len() > length_max || !printable {
                return Err(ConfigError::Text { key, value: value.clone(), length_max });
            }
        }
    }
    Ok(())
}

/// Commands that hosts completed. Every queue of a subsystem counts here, so that a log page has what was answered before it was asked for.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    reads: Cell<u64>,
    writes: Cell<u64>,
}

impl Traffic {
    /// Counts a command: as a read, including compare and verify, and as a write.
    #[inline]
    pub fn count(&self, reads: bool, writes: bool) {
        self.reads.set(self.reads.get() + u64::from(reads));
        self.writes.set(self.writes.get() + u64::from(writes));
    }
}

/// A subsystem in service.
#[derive(Debug)]
pub(super) struct Subsystem {
    pub config: SubsystemConfig,
    /// Name of the target on parallel units of a drive, if the subsystem belongs to one.
    pub target: Option<String>,
    /// The target is gone, or there is no namespace; no host may connect.
    pub gone: bool,
    /// History for the persistent event log.
    pub history: History,
    traffic: Rc<Traffic>,
    /// Commands of all controllers that ended with an error.
    errors: u64,
    /// Most recent chunk notices, each with the identifier of its namespace.
    pub notices: VecDeque<(u32, ChunkNotice)>,
    /// Number of notices so far.
    pub notices_seen: u64,
    /// Zones that changed without a command, by namespace identifier and first sector, with the number of the
    /// last change.
    pub changed_zones: BTreeMap<(u32, u64), u64>,
    /// Number of zone changes so far.
    pub zone_changes: u64,
    /// Number of moves of nameless namespaces so far.
    pub moves: u64,
    /// Initial feedback settings of open-channel namespaces that hosts have changed, by number in the server.
    pub feedback_defaults: BTreeMap<usize, Feedback>,
    /// Controllers whose hosts have changed feedback settings.
    pub feedback_setters: BTreeSet<u16>,
    /// Hosts of namespaces that have one at a time.
    pub hosts: Succession,
}

/// Name and identifier of a host.
pub(super) type HostName = (String, [u8; 16]);

/// Host that has the namespaces, if only one may at a time.
///
/// ```text
///  comes ─► has them ─► shuts its controller down ─► nobody
///              └─ its connection is lost ─► may come back, until another one comes: what it knows of the media is old then
/// ```
#[derive(Debug, Default)]
pub(super) struct Succession {
    last: Option<HostName>,
    /// Hosts whose connection was lost, and in whose place another has been; the last [`SUPERSEDED_MAX`].
    superseded: VecDeque<HostName>,
}

/// Peers cost no additional memory, however many names they use.
const SUPERSEDED_MAX: usize = 1024;

impl Succession {
    /// Returns whether another host has been there since this one lost its connection.
    pub fn is_superseded(&self, host: &HostName) -> bool {
        self.superseded.contains(host)
    }

    /// A host comes, while no other is there.
    pub fn come(&mut self, host: HostName) {
        let before = self.last.replace(host);
        if let Some(before) = before.filter(|before| Some(before) != self.last.as_ref()) {
            if self.superseded.len() == SUPERSEDED_MAX {
                self.superseded.pop_front();
            }
            self.superseded.push_back(before);
        }
    }

    /// Handles a host that has shut its controller down: it starts again when it reconnects.
    pub fn leave(&mut self, host: &HostName) {
        self.last.take_if(|last| last == host);
    }
}

impl Subsystem {
    pub fn new(config: SubsystemConfig) -> Subsystem {
        let gone = config.namespaces.is_empty();
        Subsystem {
            config,
            target: None,
            gone,
            history: History::default(),
            traffic: Rc::default(),
            errors: 0,
            notices: VecDeque::new(),
            notices_seen: 0,
            changed_zones: BTreeMap::new(),
            zone_changes: 0,
            moves: 0,
            feedback_defaults: BTreeMap::new(),
            feedback_setters: BTreeSet::new(),
            hosts: Succession::default(),
        }
    }

    /// Count of the commands that hosts completed, for a queue of the subsystem.
    pub fn traffic(&self) -> Rc<Traffic> {
        Rc::clone(&self.traffic)
    }

    /// Power cuts of its drives: a number that changes with every cut.
    pub fn power_cuts(&self, port: &Port<'_>) -> u64 {
        self.config.namespaces.iter().filter_map(|&n| port.device(n)).map(Device::power_cuts).sum()
    }

    /// Counts a command that ended with an error.
    pub fn count_error(&mut self) {
        self.errors += 1;
    }

    /// Returns the reads and the writes that hosts completed, and the commands that ended with an error.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.traffic.reads.get(), self.traffic.writes.get(), self.errors)
    }

    pub fn admits(&self, host_nqn: &str) -> bool {
        let SubsystemConfig { hosts, secrets, .. } = &self.config;
        !self.gone
            && hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|host| host == host_nqn))
            && (secrets.is_empty() || secrets.contains_key(host_nqn))
    }

    /// Takes the notices that its namespaces raised.
    pub fn take_notices(&mut self, port: &mut Port<'_>) {
        while let Some((namespace, notice)) = port.pop_notice(&self.config.namespaces) {
            let Some(at) = self.config.namespaces.iter().position(|&n| n == namespace) else { continue };
            let nsid = at as u32 + 1;
            match notice {
                Notice::Chunk(notice) => {
                    if self.notices.len() == open_channel::NOTICES_MAX {
                        self.notices.pop_front();
                    }
                    self.notices.push_back((nsid, notice));
                    self.notices_seen += 1;
                }
                Notice::ZoneChanged(start) => {
                    self.zone_changes += 1;
                    self.changed_zones.insert((nsid, start.0), self.zone_changes);
                }
                Notice::Moved { .. } => self.moves += 1,
                // No command set here has a log of evictions.
                Notice::Evicted { .. } => {}
            }
        }
    }

    /// Number of a namespace in the server.
    pub fn namespace(&self, nsid: u32) -> Option<usize> {
        let index = usize::try_from(nsid).ok()?.checked_sub(1)?;
        self.config.namespaces.get(index).copied()
    }

    /// Identifiers of the active namespaces.
    pub fn nsids(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.config.namespaces.len() as u32
    }

    /// NGUID of a namespace. It has the bits of an RFC 9562 version 8 UUID, so it also serves as UUID.
    pub fn unique_id(&self, nsid: u32) -> [u8; 16] {
        let SubsystemConfig { nqn, serial, .. } = &self.config;
        let bytes = || nqn.bytes().chain([0]).chain(serial.bytes()).chain(nsid.to_be_bytes());
        let mut id = [0; 16];
        id[..8].copy_from_slice(&fnv1a(FNV_BASIS, bytes()).to_be_bytes());
        id[8..].copy_from_slice(&fnv1a(FNV_BASIS ^ 0x9E37_79B9_7F4A_7C15, bytes()).to_be_bytes());
        id[6] = 0x80 | id[6] & 0x0F;
        id[8] = 0x80 | id[8] & 0x3F;
        id
    }
}
