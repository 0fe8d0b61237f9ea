//! Log pages (Base 5.1.12.1): supported pages, errors, health, firmware, effects, events, and discovery.

use crate::layout::{wire_enum, wire_struct};

wire_enum! {
    /// Log page identifiers.
    pub enum LogId: u8 {
        /// Supported Log Pages.
        SupportedPages = 0x00,
        /// Error Information.
        Error = 0x01,
        /// SMART / Health Information.
        Smart = 0x02,
        /// Firmware Slot Information.
        FirmwareSlot = 0x03,
        /// Changed Attached Namespace List.
        ChangedNamespaces = 0x04,
        /// Commands Supported and Effects.
        CommandEffects = 0x05,
        /// Device Self-test.
        SelfTest = 0x06,
        /// Telemetry Host-Initiated.
        TelemetryHost = 0x07,
        /// Telemetry Controller-Initiated.
        TelemetryController = 0x08,
        /// Endurance Group Information.
        EnduranceGroup = 0x09,
        /// Asymmetric Namespace Access.
        AsymmetricAccess = 0x0C,
        /// Persistent Event Log.
        PersistentEvents = 0x0D,
        /// Feature Identifiers Supported and Effects.
        FeatureEffects = 0x12,
        /// FDP Configurations.
        FdpConfigurations = 0x20,
        /// Reclaim Unit Handle Usage.
        FdpHandleUsage = 0x21,
        /// FDP Statistics.
        FdpStatistics = 0x22,
        /// FDP Events.
        FdpEvents = 0x23,
        /// Discovery.
        Discovery = 0x70,
        /// Reservation Notification.
        ReservationNotification = 0x80,
        /// Changed Zone List (ZNS).
        ChangedZones = 0xBF,
        /// Chunk Information (OCSSD).
        OpenChannelChunks = 0xCA,
        /// Chunk Notification (OCSSD).
        OpenChannelNotifications = 0xD0,
        /// Unacknowledged moves of a nameless namespace.
        NamelessMoves = 0xD1,
    }
}

/// Supported Log Pages, log 00h (Base 5.1.12.1.1): one dword for each identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportedLogPages(pub [u32; 256]);

impl SupportedLogPages {
    /// Encoded length.
    pub const BYTES: usize = 1024;

    /// A page that lists the given identifiers as supported (LSUPP, bit 0).
    pub fn of(ids: &[LogId]) -> Self {
        let mut pages = [0; 256];
        ids.iter().for_each(|id| pages[usize::from(id.raw())] |= 1);
        Self(pages)
    }

    /// The page.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        crate::layout::put(&mut bytes, 0, self.0);
        bytes
    }
}

wire_struct! {
    /// One entry of the Error Information log, 01h (Base 5.1.12.1.2); newest first, a count of 0 ends the list.
    pub struct ErrorLogEntry: 64 {
        /// Errors since the beginning, this one included.
        0 => count: u64,
        /// Submission queue of the command, FFFFh if none.
        8 => queue_id: u16,
        /// Command identifier, FFFFh if none.
        10 => cid: u16,
        /// Status field (15:1) and phase (0).
        12 => status_and_phase: u16,
        /// Byte (7:0) and bit (10:8) of the field in error, FFFFh if none.
        14 => parameter_location: u16,
        /// First logical block in error.
        16 => lba: u64,
        /// Namespace.
        24 => nsid: u32,
        /// Identifier of a vendor log with more, 80h to FFh, or 0.
        28 => vendor_log_id: u8,
        /// Transport type: 3 is TCP.
        29 => transport_type: u8,
        /// Command set of the command.
        30 => command_set: u8,
        /// Opcode of the command.
        31 => opcode: u8,
        /// Command specific.
        32 => command_specific: u64,
        /// Transport specific.
        40 => transport_specific: u16,
        /// Version of this entry: 1 says that `command_set` and `opcode` are valid.
        63 => version: u8,
    }
}

wire_struct! {
    /// SMART / Health Information, log 02h (Base 5.1.12.1.3).
    pub struct SmartLog: 512 {
        /// Bit 0 spare low, 1 temperature, 2 reliability degraded, 3 read-only, 4 backup failed.
        0 => critical_warning: u8,
        /// Composite temperature in kelvin.
        1 => temperature_k: u16,
        /// Available spare, percent.
        3 => available_spare: u8,
        /// Threshold of the available spare, percent.
        4 => available_spare_threshold: u8,
        /// Estimate of life used, percent; may pass 100, saturates at 255.
        5 => percentage_used: u8,
        /// Critical warnings of endurance groups.
        6 => endurance_group_warning: u8,
        /// Units of 1,000 blocks of 512 bytes that the host read, rounded up.
        32 => data_units_read: u128,
        /// Units of 1,000 blocks of 512 bytes that the host wrote, rounded up.
        48 => data_units_written: u128,
        /// Read commands completed.
        64 => host_read_commands: u128,
        /// Write commands completed.
        80 => host_write_commands: u128,
        /// Minutes busy.
        96 => controller_busy_minutes: u128,
        /// Power cycles.
        112 => power_cycles: u128,
        /// Hours powered.
        128 => power_on_hours: u128,
        /// Power lost without shutdown.
        144 => unsafe_shutdowns: u128,
        /// Unrecovered data integrity errors.
        160 => media_errors: u128,
        /// Error log entries since the beginning.
        176 => error_log_entries: u128,
        /// Minutes above the warning temperature.
        192 => warning_temperature_minutes: u32,
        /// Minutes above the critical temperature.
        196 => critical_temperature_minutes: u32,
        /// Sensors in kelvin, 0 for none.
        200 => sensors_k: [u16; 8],
    }
}

wire_struct! {
    /// Endurance Group Information, log 09h (Base 5.1.12.1.10). Bytes are given in billions, rounded up.
    pub struct EnduranceGroupLog: 512 {
        /// Bit 0 spare low, 2 reliability degraded, 3 all namespaces read-only.
        0 => critical_warning: u8,
        /// Available spare, percent.
        3 => available_spare: u8,
        /// Threshold of the available spare, percent.
        4 => available_spare_threshold: u8,
        /// Estimate of life used, percent; may pass 100, saturates at 255.
        5 => percentage_used: u8,
        /// Billions of bytes that may be written in all; 0: not reported.
        32 => endurance_estimate: u128,
        /// Billions of bytes that hosts read.
        48 => data_units_read: u128,
        /// Billions of bytes that hosts wrote.
        64 => data_units_written: u128,
        /// Billions of bytes written to the media, for any reason.
        80 => media_units_written: u128,
        /// Read commands completed.
        96 => host_read_commands: u128,
        /// Write commands completed.
        112 => host_write_commands: u128,
        /// Unrecovered data integrity errors.
        128 => media_errors: u128,
        /// Error log entries since the beginning.
        144 => error_log_entries: u128,
        /// Capacity in bytes.
        160 => total_capacity_bytes: u128,
        /// Capacity in bytes that belongs to no namespace.
        176 => unallocated_capacity_bytes: u128,
    }
}

wire_struct! {
    /// Firmware Slot Information, log 03h (Base 5.1.12.1.4).
    pub struct FirmwareSlotLog: 512 {
        /// Active slot (2:0) and slot of the next reset (6:4).
        0 => active: u8,
        /// Revisions of slots 1 to 7, ASCII.
        8 => revisions: [[u8; 8]; 7],
    }
}

/// Effects of one command, a dword of the effects log (Base 5.1.12.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CommandEffect(pub u32);

impl CommandEffect {
    /// Supported, with no effect besides its work (CSUPP).
    pub const SUPPORTED: Self = Self(1);

    /// Adds that the command changes the contents of logical blocks (LBCC).
    pub const fn changes_content(self) -> Self {
        Self(self.0 | 1 << 1)
    }

    /// Must run alone for its namespace (CSE 001b).
    pub const fn exclusive_in_namespace(self) -> Self {
        Self(self.0 | 1 << 16)
    }
}

/// Commands Supported and Effects, log 05h (Base 5.1.12.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEffects {
    /// By admin opcode.
    pub admin: [CommandEffect; 256],
    /// By I/O opcode of the command set that was asked for.
    pub io: [CommandEffect; 256],
}

impl CommandEffects {
    /// Encoded length.
    pub const BYTES: usize = 4096;

    /// A page on which nothing is supported.
    pub const fn none() -> Self {
        Self { admin: [CommandEffect(0); 256], io: [CommandEffect(0); 256] }
    }

    /// The page.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        crate::layout::put(&mut bytes, 0, self.admin.map(|effect| effect.0));
        crate::layout::put(&mut bytes, 1024, self.io.map(|effect| effect.0));
        bytes
    }
}

/// Effects of one feature, a dword of the feature effects log (Base 5.1.12.1.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FeatureEffect(pub u32);

impl FeatureEffect {
    /// Supported (FSUPP); each namespace has a value of its own (scope, bit 20).
    pub const OF_NAMESPACE: Self = Self(1 | 1 << 20);
    /// Supported; each controller has one (bit 21).
    pub const OF_CONTROLLER: Self = Self(1 | 1 << 21);
    /// Supported; each endurance group has one (bit 23).
    pub const OF_ENDURANCE_GROUP: Self = Self(1 | 1 << 23);
}

/// Feature Identifiers Supported and Effects, log 12h (Base 5.1.12.1.19): one dword for each identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureEffects(pub [FeatureEffect; 256]);

impl FeatureEffects {
    /// Encoded length.
    pub const BYTES: usize = 1024;

    /// A page on which nothing is supported.
    pub const fn none() -> Self {
        Self([FeatureEffect(0); 256])
    }

    /// The page.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        crate::layout::put(&mut bytes, 0, self.0.map(|effect| effect.0));
        bytes
    }
}

wire_struct! {
    /// Header of the Persistent Event Log, 0Dh (Base 5.1.12.1.14).
    pub struct PersistentEventLogHeader: 512 {
        /// 0Dh.
        0 => log_id: u8,
        /// Events that follow (TNEV).
        4 => events: u32,
        /// Header and events (TLL).
        8 => log_bytes: u64,
        /// Revision of the log's layout (LREV).
        16 => revision: u8,
        /// Length of the rest of this header: 492 (LHL).
        18 => header_bytes: u16,
        /// Milliseconds (47:0) and their origin, as in the Timestamp feature.
        20 => timestamp: u64,
        /// Hours powered.
        28 => power_on_hours: u128,
        /// Power cycles.
        44 => power_cycles: u64,
        /// PCI vendor.
        52 => vendor_id: u16,
        /// PCI subsystem vendor.
        54 => subsystem_vendor_id: u16,
        /// Serial number, ASCII.
        56 => serial_number: [u8; 20],
        /// Model number, ASCII.
        76 => model_number: [u8; 40],
        /// Name of the subsystem.
        116 => subsystem_nqn: [u8; 256],
        /// Generation number.
        372 => generation: u16,
        /// Reporting context.
        374 => reporting_context: u32,
        /// One bit for each event type that the log may hold.
        480 => supported_events: [u8; 32],
    }
}

wire_struct! {
    /// Header of one persistent event (Base 5.1.12.1.14, figure "Persistent Event Format").
    pub struct PersistentEventHeader: 24 {
        /// Type: 1 SMART snapshot, 2 firmware commit, 4 power-on or reset, 5 hardware error, 7 format start, 8 format
        /// completion, DEh vendor specific.
        0 => event_type: u8,
        /// Revision of the event's layout.
        1 => revision: u8,
        /// Length of this header after this field: 21.
        2 => header_bytes: u8,
        /// Additional information.
        3 => header_info: u8,
        /// Controller.
        4 => controller_id: u16,
        /// Time of the event, as in the Timestamp feature.
        6 => timestamp: u64,
        /// Port.
        14 => port_id: u16,
        /// Bytes of vendor information after this header.
        20 => vendor_bytes: u16,
        /// Vendor information and the event's data.
        22 => event_bytes: u16,
    }
}

wire_struct! {
    /// Header of the Discovery log, 70h (Base 5.1.12.3.1); entries follow.
    pub struct DiscoveryHeader: 1024 {
        /// Grows with every change of the log.
        0 => generation: u64,
        /// Entries that follow.
        8 => records: u64,
        /// Format: 0.
        16 => format: u16,
    }
}

wire_struct! {
    /// One entry of the Discovery log (Base 5.1.12.3.1).
    pub struct DiscoveryEntry: 1024 {
        /// Transport: 3 is TCP.
        0 => transport_type: u8,
        /// Address family: 1 IPv4, 2 IPv6.
        1 => address_family: u8,
        /// Subsystem type: 1 referral, 2 I/O subsystem, 3 this discovery subsystem.
        2 => subsystem_type: u8,
        /// Transport requirements: bits 1:0 secure channel (1 required, 2 not), bit 2 flow control may be off.
        3 => requirements: u8,
        /// Port.
        4 => port_id: u16,
        /// Controller identifier to connect with (FFFFh dynamic).
        6 => controller_id: u16,
        /// Largest admin queue.
        8 => admin_queue_max: u16,
        /// Flags: bit 0 duplicate information, 1 explicit persistent connection.
        10 => flags: u16,
        /// Transport service: the TCP port in decimal, ASCII.
        32 => service: [u8; 32],
        /// Name of the subsystem.
        256 => subsystem_nqn: [u8; 256],
        /// Address, ASCII.
        512 => address: [u8; 256],
        /// Security type: 0 none, 2 TLS 1.3 (TCP transport 3.1.1).
        768 => security_type: u8,
    }
}
