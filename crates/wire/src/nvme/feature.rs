//! Features (Base 5.1.25) and asynchronous events (Base 5.1.2).

use super::SubmissionEntry;
use crate::layout::wire_enum;

wire_enum! {
    /// Feature identifiers.
    pub enum FeatureId: u8 {
        /// Arbitration.
        Arbitration = 0x01,
        /// Power Management.
        PowerManagement = 0x02,
        /// LBA Range Type.
        LbaRangeType = 0x03,
        /// Temperature Threshold.
        TemperatureThreshold = 0x04,
        /// Error Recovery: bit 16 enables errors for deallocated blocks (DULBE).
        ErrorRecovery = 0x05,
        /// Volatile Write Cache: bit 0 enables it.
        VolatileWriteCache = 0x06,
        /// Number of Queues.
        QueueCount = 0x07,
        /// Interrupt Coalescing (memory-mapped controllers only).
        InterruptCoalescing = 0x08,
        /// Interrupt Vector Configuration (memory-mapped controllers only).
        InterruptVector = 0x09,
        /// Write Atomicity Normal.
        WriteAtomicity = 0x0A,
        /// Asynchronous Event Configuration.
        AsyncEventConfig = 0x0B,
        /// Autonomous Power State Transition.
        AutonomousPower = 0x0C,
        /// Timestamp.
        Timestamp = 0x0E,
        /// Keep Alive Timer, in milliseconds.
        KeepAliveTimer = 0x0F,
        /// Host Controlled Thermal Management.
        ThermalManagement = 0x10,
        /// Non-Operational Power State Config.
        NonOperationalPower = 0x11,
        /// Host Behavior Support.
        HostBehavior = 0x16,
        /// I/O Command Set Profile.
        CommandSetProfile = 0x19,
        /// Flexible Data Placement.
        DataPlacement = 0x1D,
        /// Flexible Data Placement Events.
        DataPlacementEvents = 0x1E,
        /// Software Progress Marker.
        SoftwareProgress = 0x80,
        /// Host Identifier.
        HostIdentifier = 0x81,
        /// Reservation Notification Mask.
        ReservationMask = 0x82,
        /// Reservation Persistence.
        ReservationPersistence = 0x83,
        /// Namespace Write Protection.
        WriteProtection = 0x84,
        /// Media feedback of open-channel drives (OCSSD): bit 0 high ECC, bit 1 very high ECC.
        OpenChannelMediaFeedback = 0xCA,
    }
}

impl FeatureId {
    /// The raw identifier in dword 10 of Get or Set Features.
    pub fn raw_of(entry: &SubmissionEntry) -> u8 {
        entry.cdw(10) as u8
    }

    /// Set Features: keep the value over a power cycle (bit 31 of dword 10).
    pub fn save_of(entry: &SubmissionEntry) -> bool {
        entry.cdw(10) >> 31 != 0
    }
}

wire_enum! {
    /// Value that Get Features asks for (dword 10, bits 10:8).
    pub enum FeatureSelect: u8 {
        /// The value in force.
        Current = 0,
        /// The default.
        Default = 1,
        /// The saved value.
        Saved = 2,
        /// Capabilities: bit 0 saveable, bit 1 namespace specific, bit 2 changeable.
        Capabilities = 3,
    }
}

impl FeatureSelect {
    /// The selection in a Get Features command; `None` if it is reserved.
    pub fn of(entry: &SubmissionEntry) -> Option<Self> {
        Self::from_raw((entry.cdw(10) >> 8 & 7) as u8)
    }
}

/// Number of I/O queues, asked for in dword 11 of Set Features and granted in dword 0 (both one less per half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// I/O submission queues, 1 to 65535.
    pub submission: u32,
    /// I/O completion queues, 1 to 65535.
    pub completion: u32,
}

impl QueueCount {
    /// Reads either form; `None` for FFFFh, which the specification forbids.
    pub fn decode(raw: u32) -> Option<Self> {
        let (submission, completion) = (raw & 0xFFFF, raw >> 16);
        (submission != 0xFFFF && completion != 0xFFFF)
            .then_some(Self { submission: submission + 1, completion: completion + 1 })
    }

    /// Writes either form.
    pub fn encode(self) -> u32 {
        let field = |count: u32| count.clamp(1, 0xFFFF) - 1;
        field(self.completion) << 16 | field(self.submission)
    }
}

/// Asynchronous Event Configuration, dword 11: which events a host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AsyncEventConfig(pub u32);

impl AsyncEventConfig {
    /// Critical warnings of the SMART log that raise an event (bits 7:0).
    pub fn smart_warnings(self) -> u8 {
        self.0 as u8
    }

    /// Zone descriptor changed notices (ZNS).
    pub const ZONE_DESCRIPTOR: u32 = 1 << 27;
    /// Discovery log page change notices.
    pub const DISCOVERY_LOG: u32 = 1 << 31;

    /// Returns whether all bits of `notice` are wanted.
    pub fn wants(self, notice: u32) -> bool {
        self.0 & notice == notice
    }
}

/// An asynchronous event, dword 0 of its completion: type (2:0), information (15:8), log page to read (23:16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Error status (type 0): persistent internal error, and the error log.
    PersistentError,
    /// Error status: transient internal error, and the error log.
    TransientError,
    /// SMART (type 1): reliability degraded.
    Reliability,
    /// SMART: temperature above or below its threshold.
    Temperature,
    /// SMART: spare below its threshold.
    SpareBelowThreshold,
    /// Notice (type 2): namespaces changed; read log 04h.
    NamespaceAttribute,
    /// Notice: firmware activation starts.
    FirmwareActivation,
    /// Notice: the discovery log changed; read log 70h.
    DiscoveryLog,
    /// Notice: zone descriptors changed (ZNS); read log BFh.
    ZoneDescriptor,
    /// Open-channel chunk notification (vendor type 7); read log D0h.
    ChunkNotification,
    /// Sectors of a nameless namespace were moved (vendor type 7); read log D1h.
    Moved,
}

impl AsyncEvent {
    /// Every event.
    pub const ALL: [Self; 11] = [
        Self::PersistentError,
        Self::TransientError,
        Self::Reliability,
        Self::Temperature,
        Self::SpareBelowThreshold,
        Self::NamespaceAttribute,
        Self::FirmwareActivation,
        Self::DiscoveryLog,
        Self::ZoneDescriptor,
        Self::ChunkNotification,
        Self::Moved,
    ];

    /// The result of the completion.
    pub fn encode(self) -> u32 {
        let (kind, information, log_id) = match self {
            Self::PersistentError => (0, 0x03, 0x01),
            Self::TransientError => (0, 0x04, 0x01),
            Self::Reliability => (1, 0x00, 0x02),
            Self::Temperature => (1, 0x01, 0x02),
            Self::SpareBelowThreshold => (1, 0x02, 0x02),
            Self::NamespaceAttribute => (2, 0x00, 0x04),
            Self::FirmwareActivation => (2, 0x01, 0x03),
            Self::DiscoveryLog => (2, 0xF0, 0x70),
            Self::ZoneDescriptor => (2, 0xEF, 0xBF),
            Self::ChunkNotification => (7, 0x00, 0xD0),
            Self::Moved => (7, 0x01, 0xD1),
        };
        log_id << 16 | information << 8 | kind
    }

    /// The event of a result; `None` if it is not one of these.
    pub fn decode(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.encode() == raw & 0x00FF_FF07)
    }
}
