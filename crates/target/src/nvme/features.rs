//! Get Features and Set Features (Base 5.1.11, 5.1.25).
//!
//! No value is saved across a reset or a power cut: the "saved" value is the default, and a request to save is refused.

use super::controller::Controller;
use super::identify::{self, WARNING_TEMPERATURE_K};
use super::subsystem::Subsystem;
use super::{ASYNC_EVENTS_MAX, IO_QUEUES_MAX};
use super::{fdp, open_channel};
use crate::session::Port;
use pellucid_device::Feedback;
use pellucid_wire::nvme::{AsyncEventConfig, FeatureId, FeatureSelect, QueueCount, Status, SubmissionEntry};

/// Capabilities word of a changeable feature.
const CHANGEABLE: u32 = 1 << 2;
/// Length of the data structure of the feature Host Behavior Support.
const HOST_BEHAVIOR_BYTES: usize = 512;
/// Capabilities bit: each namespace has its own value.
const OF_NAMESPACE: u32 = 1 << 1;
const _: () = assert!(ASYNC_EVENTS_MAX <= 256);

/// Values that hosts can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    pub async_events: AsyncEventConfig,
    pub keep_alive_ms: u32,
    /// Number of granted I/O queues.
    pub io_queues: u16,
    write_cache: bool,
    arbitration: u32,
    error_recovery: u32,
    temperature_over: u16,
    temperature_under: u16,
    write_atomicity: u32,
    /// Timestamp and the time at which it was that, in milliseconds.
    timestamp: (u64, u64),
    /// The host has set the timestamp; else it began at 0 (Timestamp Origin).
    timestamp_is_set: bool,
    /// Capabilities that the host reports; nothing here depends on them.
    host_behavior: [u8; HOST_BEHAVIOR_BYTES],
}

impl Default for Features {
    fn default() -> Features {
        Features {
            async_events: AsyncEventConfig::default(),
            keep_alive_ms: 0,
            io_queues: IO_QUEUES_MAX,
            write_cache: true,
            arbitration: 0,
            error_recovery: 0,
            temperature_over: WARNING_TEMPERATURE_K,
            temperature_under: 0,
            write_atomicity: 0,
            timestamp: (0, 0),
            timestamp_is_set: false,
            host_behavior: [0; HOST_BEHAVIOR_BYTES],
        }
    }
}

/// Answer to Get Features.
pub(super) enum Value {
    Word(u32),
    Data(Vec<u8>),
    /// A list, and its number of entries.
    List(Vec<u8>, u64),
}

/// Bytes of data that a Set Features command takes from the host.
pub(super) fn data_bytes(entry: &SubmissionEntry) -> u32 {
    match FeatureId::from_raw(FeatureId::raw_of(entry)) {
        Some(FeatureId::DataPlacementEvents) => entry.cdw(11) >> 16 & 0xFF,
        Some(FeatureId::Timestamp) => 8,
        Some(FeatureId::HostBehavior) => HOST_BEHAVIOR_BYTES as u32,
        _ => 0,
    }
}

impl Features {
    /// Sets the keep-alive time, which a reset preserves.
    pub fn with_keep_alive(self, keep_alive_ms: u32) -> Features {
        Features { keep_alive_ms, ..self }
    }

    /// Values after a power cut of a drive: the defaults, except values that belong to the surviving connection. The
    /// timestamp restarts at 0.
    pub fn after_power_cut(&self, now_ns: u64) -> Features {
        let Features { keep_alive_ms, io_queues, .. } = *self;
        Features { keep_alive_ms, io_queues, timestamp: (0, now_ns / 1_000_000), ..Features::default() }
    }

    /// Value of the timestamp feature: milliseconds since the time that the host set, else since the server started or the last power
    /// cut.
    pub fn timestamp(&self, now_ns: u64) -> u64 {
        let (was_ms, at_ms) = self.timestamp;
        let origin = u64::from(self.timestamp_is_set) << 49;
        (was_ms + (now_ns / 1_000_000).saturating_sub(at_ms)) & 0xFFFF_FFFF_FFFF | origin
    }

    /// Returns true if a composite temperature is within both thresholds.
    pub fn tolerates(&self, kelvin: u16) -> bool {
        kelvin < self.temperature_over && kelvin > self.temperature_under
    }

    fn word(&self, id: FeatureId, entry: &SubmissionEntry) -> Result<u32, Status> {
        Ok(match id {
            FeatureId::Arbitration => self.arbitration,
            // There is one power state, and one combination of command sets if there are several sets (CNS
            // 1Ch).
            FeatureId::PowerManagement | FeatureId::CommandSetProfile => 0,
            FeatureId::TemperatureThreshold => match limit(entry, &[COMPOSITE])? {
                Limit::Over => self.temperature_over.into(),
                Limit::Under => self.temperature_under.into(),
            },
            FeatureId::ErrorRecovery => self.error_recovery,
            FeatureId::VolatileWriteCache => self.write_cache.into(),
            FeatureId::QueueCount => granted(self.io_queues),
            FeatureId::WriteAtomicity => self.write_atomicity,
            FeatureId::AsyncEventConfig => self.async_events.0,
            FeatureId::KeepAliveTimer => self.keep_alive_ms,
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        })
    }
}

fn granted(queues: u16) -> u32 {
    QueueCount { submission: queues.into(), completion: queues.into() }.encode()
}

enum Limit {
    Over,
    Under,
}

/// The only temperature sensor (TMPSEL).
const COMPOSITE: u32 = 0;
/// All temperature sensors; valid only in Set Features.
const ALL_SENSORS: u32 = 0xF;

/// Threshold that a command selects; its sensor must be one of `sensors`.
fn limit(entry: &SubmissionEntry, sensors: &[u32]) -> Result<Limit, Status> {
    match entry.cdw(11) >> 20 & 3 {
        _ if !sensors.contains(&(entry.cdw(11) >> 16 & 0xF)) => Err(Status::INVALID_FIELD.do_not_retry()),
        0 => Ok(Limit::Over),
        1 => Ok(Limit::Under),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}

/// Feature that a command names. A missing cache cannot be queried either (Base 5.1.25.1.4).
fn known(
    subsystem: Option<&Subsystem>,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<FeatureId, Status> {
    let is_there = |id: &FeatureId| match id {
        FeatureId::VolatileWriteCache => subsystem.is_some_and(|s| identify::is_cached(s, port)),
        FeatureId::CommandSetProfile => subsystem.is_some_and(|s| identify::has_zones(s, port)),
        _ => true,
    };
    let id = FeatureId::from_raw(FeatureId::raw_of(entry)).filter(is_there);
    id.ok_or(Status::INVALID_FIELD.do_not_retry())
}

/// Executes Get Features.
pub(super) fn get(
    controller: &Controller,
    subsystem: Option<&Subsystem>,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<Value, Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let id = known(subsystem, entry, port)?;
    let select = FeatureSelect::of(entry).ok_or(invalid)?;
    let defaults = Features::default();
    let features = match select {
        FeatureSelect::Current => &controller.features,
        _ => &defaults,
    };
    if select == FeatureSelect::Capabilities {
        return capabilities(subsystem, id, entry, port).map(Value::Word);
    }
    let current = select == FeatureSelect::Current;
    if let Some(subsystem) = subsystem {
        match id {
            FeatureId::DataPlacement => {
                return fdp::feature(subsystem, entry.cdw(11) as u16, port).map(Value::Word);
            }
            FeatureId::DataPlacementEvents => {
                let (list, kinds) = fdp::event_feature(subsystem, entry, select, port)?;
                return Ok(if list.is_empty() {
                    Value::Word(kinds)
                } else {
                    Value::List(list, kinds.into())
                });
            }
            FeatureId::OpenChannelMediaFeedback => {
                let feedback =
                    open_channel::feedback(subsystem, entry.nsid(), current, port).ok_or(invalid)?;
                let word = u32::from(feedback.high_ecc) | u32::from(feedback.very_high_ecc) << 1;
                return Ok(Value::Word(word));
            }
            FeatureId::ErrorRecovery => {
                let dulbe = open_channel::feedback(subsystem, entry.nsid(), current, port);
                let dulbe = u32::from(dulbe.is_some_and(|feedback| feedback.unwritten_is_error));
                return Ok(Value::Word(features.error_recovery | dulbe << 16));
            }
            _ => {}
        }
    }
    match id {
        FeatureId::Timestamp => Ok(Value::Data(features.timestamp(port.now_ns()).to_le_bytes().to_vec())),
        FeatureId::HostBehavior => Ok(Value::Data(features.host_behavior.to_vec())),
        FeatureId::HostIdentifier if entry.cdw(11) & 1 == 1 => Ok(Value::Data(controller.host_id.to_vec())),
        FeatureId::HostIdentifier => Err(Status::HOST_ID_FORMAT.do_not_retry()),
        _ => features.word(id, entry).map(Value::Word),
    }
}

/// Answers Get Features for the capabilities of a feature.
fn capabilities(
    subsystem: Option<&Subsystem>,
    id: FeatureId,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<u32, Status> {
    let placed = subsystem.is_some_and(|subsystem| identify::endurance_groups(subsystem, port) > 0);
    let chunks = subsystem.is_some_and(|subsystem| identify::has_chunks(subsystem, port));
    match id {
        FeatureId::HostIdentifier => Ok(0),
        // Placement cannot be disabled under a namespace.
        FeatureId::DataPlacement if placed => Ok(0),
        FeatureId::DataPlacementEvents if placed => Ok(CHANGEABLE | OF_NAMESPACE),
        FeatureId::OpenChannelMediaFeedback | FeatureId::ErrorRecovery if chunks => {
            Ok(CHANGEABLE | OF_NAMESPACE)
        }
        _ if has_data(id) => Ok(CHANGEABLE),
        _ => Features::default().word(id, entry).map(|_| CHANGEABLE),
    }
}

fn has_data(id: FeatureId) -> bool {
    matches!(id, FeatureId::Timestamp | FeatureId::HostBehavior | FeatureId::HostIdentifier)
}

/// Returns true if a completed Set Features command has disabled the volatile write cache.
pub(super) fn cache_is_off(entry: &SubmissionEntry) -> bool {
    FeatureId::raw_of(entry) == FeatureId::VolatileWriteCache.raw() && entry.cdw(11) & 1 == 0
}

/// Executes Set Features; returns dword 0 of the completion.
pub(super) fn set(
    controller: &mut Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let id = known(subsystem.as_deref(), entry, port)?;
    if FeatureId::save_of(entry) {
        return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
    }
    let value = entry.cdw(11);
    let has_queues = controller.queue_count() > 0;
    let features = &mut controller.features;
    match id {
        FeatureId::Arbitration => features.arbitration = value,
        FeatureId::PowerManagement if value & 0x1F != 0 => return Err(invalid),
        FeatureId::CommandSetProfile if value & 0x1FF != 0 => {
            return Err(Status::COMMAND_SET_COMBINATION_REJECTED.do_not_retry());
        }
        FeatureId::PowerManagement | FeatureId::CommandSetProfile => {}
        FeatureId::HostBehavior => {
            let bytes = data.first_chunk().ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
            features.host_behavior = *bytes;
        }
        FeatureId::TemperatureThreshold => {
            match limit(entry, &[COMPOSITE, ALL_SENSORS])? {
                Limit::Over => features.temperature_over = value as u16,
                Limit::Under => features.temperature_under = value as u16,
            }
            controller.look_at_health();
        }
        FeatureId::ErrorRecovery => return set_error_recovery(controller, subsystem, entry, port),
        FeatureId::OpenChannelMediaFeedback => {
            let set = set_feedback(controller, subsystem, entry, port, |feedback| {
                (feedback.high_ecc, feedback.very_high_ecc) = (value & 1 == 1, value >> 1 & 1 == 1);
            });
            if !set {
                return Err(invalid);
            }
        }
        // Placement cannot be disabled under a namespace.
        FeatureId::DataPlacement => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        FeatureId::DataPlacementEvents => {
            fdp::set_events(subsystem.ok_or(invalid)?, entry, data, port)?;
        }
        FeatureId::VolatileWriteCache => {
            features.write_cache = value & 1 == 1;
            controller.gate.write_through.set(!features.write_cache);
        }
        FeatureId::QueueCount if has_queues => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        FeatureId::QueueCount => {
            let asked = QueueCount::decode(value).ok_or(invalid)?;
            features.io_queues = asked.submission.min(asked.completion).min(IO_QUEUES_MAX.into()) as u16;
            return Ok(granted(features.io_queues));
        }
        FeatureId::WriteAtomicity => features.write_atomicity = value & 1,
        FeatureId::AsyncEventConfig => {
            features.async_events = AsyncEventConfig(value);
            controller.look_at_health();
        }
        FeatureId::KeepAliveTimer => features.keep_alive_ms = value,
        FeatureId::Timestamp => return set_timestamp(controller, subsystem, data, port),
        FeatureId::HostIdentifier => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        _ => return Err(invalid),
    }
    Ok(0)
}

/// Changes the notifications of a namespace of chunks; `false`: the command names no such
/// namespace.
fn set_feedback(
    controller: &Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    port: &mut Port<'_>,
    change: impl Fn(&mut Feedback),
) -> bool {
    subsystem.is_some_and(|subsystem| {
        open_channel::set_feedback(subsystem, controller.id, entry.nsid(), port, change)
    })
}

/// Only unwritten chunks can return an error (DULBE); elsewhere unwritten blocks read as zeros.
fn set_error_recovery(
    controller: &mut Controller,
    subsystem: Option<&mut Subsystem>,
    entry: &SubmissionEntry,
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let value = entry.cdw(11);
    if value >> 17 != 0 {
        return Err(invalid);
    }
    let dulbe = value >> 16 & 1 == 1;
    let set =
        set_feedback(controller, subsystem, entry, port, |feedback| feedback.unwritten_is_error = dulbe);
    if dulbe && !set {
        return Err(invalid);
    }
    controller.features.error_recovery = value & 0xFFFF;
    Ok(0)
}

/// Sets the clock of the controller, from which its events are dated.
fn set_timestamp(
    controller: &mut Controller,
    subsystem: Option<&mut Subsystem>,
    data: &[u8],
    port: &mut Port<'_>,
) -> Result<u32, Status> {
    let bytes = data.first_chunk::<8>().ok_or(Status::SGL_DATA_LENGTH_INVALID.do_not_retry())?;
    let features = &mut controller.features;
    let (now_ns, previous) = (port.now_ns(), features.timestamp(port.now_ns()));
    features.timestamp = (u64::from_le_bytes(*bytes) & 0xFFFF_FFFF_FFFF, now_ns / 1_000_000);
    features.timestamp_is_set = true;
    if let Some(subsystem) = subsystem {
        subsystem.history.timestamp(controller.id, previous, now_ns);
    }
    Ok(0)
}
