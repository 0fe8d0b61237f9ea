//! Controller properties as a fabrics host reads and writes them (Base 3.1.4).
//!
//! ```text
//!              CC.EN=1                    ready
//!   disabled ----------> enabling (RDY=0) ------> ready (RDY=1) --CC.SHN--> shutdown (SHST=10b)
//!      ^                                            |   |                         |
//!      +--------------------- CC.EN=0 --------------+---+----- fatal: CFS=1 ------+
//! ```

use crate::layout::wire_enum;

wire_enum! {
    /// Property offsets that exist over fabrics.
    pub enum Property: u32 {
        /// Controller Capabilities, 8 bytes.
        Capabilities = 0x00,
        /// Version, 4 bytes.
        Version = 0x08,
        /// Controller Configuration, 4 bytes.
        Configuration = 0x14,
        /// Controller Status, 4 bytes.
        Status = 0x1C,
        /// NVM Subsystem Reset, 4 bytes.
        SubsystemReset = 0x20,
        /// Controller Ready Timeouts, 4 bytes.
        ReadyTimeouts = 0x68,
    }
}

impl Property {
    /// True if a Property Get or Set must use 8 bytes.
    pub fn is_8_bytes(self) -> bool {
        self == Self::Capabilities
    }
}

/// Controller Capabilities (CAP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Entries of the largest queue, 2 to 65536.
    pub queue_entries_max: u32,
    /// Longest time until ready, in units of 500 ms.
    pub timeout_500ms: u8,
    /// NVM subsystem reset is supported.
    pub subsystem_reset: bool,
    /// Command sets besides NVM are selectable (CSS bit 6 of the field: CAP bit 43).
    pub other_command_sets: bool,
}

impl Capabilities {
    /// Encodes the property. Queues are contiguous, doorbell stride 0, page size 4 KiB, NVM command set; a ready controller has its media ready (CRMS
    /// bit 0, CRWMS).
    pub fn encode(&self) -> u64 {
        let entries = u64::from(self.queue_entries_max.clamp(2, 1 << 16) - 1);
        entries
            | 1 << 16
            | u64::from(self.timeout_500ms) << 24
            | u64::from(self.subsystem_reset) << 36
            | 1 << 37
            | u64::from(self.other_command_sets) << 43
            | 1 << 59
    }

    /// Decodes the value of a controller.
    pub fn decode(raw: u64) -> Self {
        Self {
            queue_entries_max: (raw as u16 as u32) + 1,
            timeout_500ms: (raw >> 24) as u8,
            subsystem_reset: raw >> 36 & 1 != 0,
            other_command_sets: raw >> 43 & 1 != 0,
        }
    }
}

/// Version (VS): major, minor, tertiary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u8, pub u8);

impl Version {
    /// NVM Express 2.1.
    pub const V2_1: Self = Self(2, 1, 0);

    /// The property's value, also at byte 80 of Identify Controller.
    pub fn encode(self) -> u32 {
        u32::from(self.0) << 16 | u32::from(self.1) << 8 | u32::from(self.2)
    }
}

wire_enum! {
    /// Shutdown notification of the host (CC.SHN).
    pub enum ShutdownNotice: u8 {
        /// None.
        None = 0,
        /// Normal.
        Normal = 1,
        /// Abrupt.
        Abrupt = 2,
    }
}

/// Controller Configuration (CC), as written by a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfig(pub u32);

impl ControllerConfig {
    /// Enable.
    pub fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// Selected command sets: 0 NVM, 6 all supported, 7 admin only.
    pub fn command_set(self) -> u8 {
        (self.0 >> 4 & 7) as u8
    }

    /// Memory page size in bytes: 2^(12 + MPS).
    pub fn page_bytes(self) -> u64 {
        1 << (12 + (self.0 >> 7 & 0xF))
    }

    /// Arbitration mechanism: 0 is round robin.
    pub fn arbitration(self) -> u8 {
        (self.0 >> 11 & 7) as u8
    }

    /// Shutdown notification; `None` for the reserved value.
    pub fn shutdown(self) -> Option<ShutdownNotice> {
        ShutdownNotice::from_raw((self.0 >> 14 & 3) as u8)
    }

    /// Submission entry size as a power of two (6 for 64 bytes).
    pub fn submission_entry_shift(self) -> u8 {
        (self.0 >> 16 & 0xF) as u8
    }

    /// Completion entry size as a power of two (4 for 16 bytes).
    pub fn completion_entry_shift(self) -> u8 {
        (self.0 >> 20 & 0xF) as u8
    }
}

wire_enum! {
    /// Progress of a shutdown (CSTS.SHST).
    pub enum ShutdownState: u8 {
        /// Normal operation.
        Normal = 0,
        /// In progress.
        InProgress = 1,
        /// Complete.
        Complete = 2,
    }
}

/// Controller Status (CSTS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Ready to process commands.
    pub ready: bool,
    /// A fatal error occurred.
    pub fatal: bool,
    /// Shutdown.
    pub shutdown: ShutdownState,
}

impl ControllerStatus {
    /// The property's value.
    pub fn encode(self) -> u32 {
        u32::from(self.ready) | u32::from(self.fatal) << 1 | u32::from(self.shutdown.raw()) << 2
    }

    /// Decodes the value of a controller; `None` if its shutdown state is reserved.
    pub fn decode(raw: u32) -> Option<Self> {
        let shutdown = ShutdownState::from_raw((raw >> 2 & 3) as u8)?;
        Some(Self { ready: raw & 1 != 0, fatal: raw & 2 != 0, shutdown })
    }
}
