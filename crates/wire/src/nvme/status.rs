//! The status field of a completion (Base 4.2.3): a type, a code, and whether a retry may help.
//!
//! ```text
//!   bit 14    13     12:11   10:8          7:0
//!   DNR       more   CRD     type (SCT)    code (SC)
//! ```
//! The constants are written as type and code together, so `0x287` is type 2, code 87h.

use std::fmt;

/// A status field without the phase bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Status(u16);

const DO_NOT_RETRY: u16 = 1 << 14;
const CODE_MASK: u16 = 0x7FF;

macro_rules! statuses {
    ($($(#[$meta:meta])* $name:ident = $value:literal, $text:literal;)+) => {
        impl Status {
            $($(#[$meta])* #[doc = concat!($text, ".")] pub const $name: Status = Status($value);)+

            /// The specification's text for this type and code.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 & CODE_MASK {
                    $($value => Some($text),)+
                    _ => None,
                }
            }
        }
    };
}

// Base 4.2.3.1 (generic), 4.2.3.2 (command specific), 4.2.3.3 (media), NVM 3.2, ZNS 4.1, OCSSD 2.0.
statuses! {
    SUCCESS = 0x000, "Successful Completion";
    INVALID_OPCODE = 0x001, "Invalid Command Opcode";
    INVALID_FIELD = 0x002, "Invalid Field in Command";
    COMMAND_ID_CONFLICT = 0x003, "Command ID Conflict";
    DATA_TRANSFER_ERROR = 0x004, "Data Transfer Error";
    POWER_LOSS_ABORT = 0x005, "Commands Aborted due to Power Loss Notification";
    INTERNAL_ERROR = 0x006, "Internal Error";
    ABORT_REQUESTED = 0x007, "Command Abort Requested";
    ABORTED_QUEUE_DELETED = 0x008, "Command Aborted due to SQ Deletion";
    ABORTED_FUSED_FAILED = 0x009, "Command Aborted due to Failed Fused Command";
    ABORTED_FUSED_MISSING = 0x00A, "Command Aborted due to Missing Fused Command";
    INVALID_NAMESPACE = 0x00B, "Invalid Namespace or Format";
    COMMAND_SEQUENCE_ERROR = 0x00C, "Command Sequence Error";
    INVALID_SGL_SEGMENT = 0x00D, "Invalid SGL Segment Descriptor";
    INVALID_SGL_COUNT = 0x00E, "Invalid Number of SGL Descriptors";
    SGL_DATA_LENGTH_INVALID = 0x00F, "Data SGL Length Invalid";
    SGL_METADATA_LENGTH_INVALID = 0x010, "Metadata SGL Length Invalid";
    SGL_TYPE_INVALID = 0x011, "SGL Descriptor Type Invalid";
    PRP_OFFSET_INVALID = 0x013, "PRP Offset Invalid";
    ATOMIC_WRITE_UNIT_EXCEEDED = 0x014, "Atomic Write Unit Exceeded";
    OPERATION_DENIED = 0x015, "Operation Denied";
    SGL_OFFSET_INVALID = 0x016, "SGL Offset Invalid";
    HOST_ID_FORMAT = 0x018, "Host Identifier Inconsistent Format";
    KEEP_ALIVE_EXPIRED = 0x019, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0x01A, "Keep Alive Timeout Invalid";
    SANITIZE_FAILED = 0x01C, "Sanitize Failed";
    SANITIZE_IN_PROGRESS = 0x01D, "Sanitize In Progress";
    WRITE_PROTECTED = 0x020, "Namespace is Write Protected";
    COMMAND_INTERRUPTED = 0x021, "Command Interrupted";
    TRANSIENT_TRANSPORT_ERROR = 0x022, "Transient Transport Error";
    PROHIBITED_BY_LOCKDOWN = 0x023, "Command Prohibited by Command and Feature Lockdown";
    MEDIA_NOT_READY = 0x024, "Admin Command Media Not Ready";
    FDP_DISABLED = 0x029, "FDP Disabled";
    INVALID_PLACEMENT_HANDLES = 0x02A, "Invalid Placement Handle List";
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0x082, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0x083, "Reservation Conflict";
    FORMAT_IN_PROGRESS = 0x084, "Format In Progress";

    COMPLETION_QUEUE_INVALID = 0x100, "Completion Queue Invalid";
    INVALID_QUEUE_ID = 0x101, "Invalid Queue Identifier";
    INVALID_QUEUE_SIZE = 0x102, "Invalid Queue Size";
    ABORT_LIMIT_EXCEEDED = 0x103, "Abort Command Limit Exceeded";
    ASYNC_EVENT_LIMIT_EXCEEDED = 0x105, "Asynchronous Event Request Limit Exceeded";
    INVALID_FIRMWARE_SLOT = 0x106, "Invalid Firmware Slot";
    INVALID_FIRMWARE_IMAGE = 0x107, "Invalid Firmware Image";
    INVALID_LOG_PAGE = 0x109, "Invalid Log Page";
    INVALID_FORMAT = 0x10A, "Invalid Format";
    FEATURE_NOT_SAVEABLE = 0x10D, "Feature Identifier Not Saveable";
    FEATURE_NOT_CHANGEABLE = 0x10E, "Feature Not Changeable";
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10F, "Feature Not Namespace Specific";
    OVERLAPPING_RANGE = 0x114, "Overlapping Range";
    COMMAND_SET_NOT_SUPPORTED = 0x129, "I/O Command Set Not Supported";
    COMMAND_SET_NOT_ENABLED = 0x12A, "I/O Command Set Not Enabled";
    COMMAND_SET_COMBINATION_REJECTED = 0x12B, "I/O Command Set Combination Rejected";
    COMMAND_SET_INVALID = 0x12C, "Invalid I/O Command Set";
    /// Connect only (Base 6.3); as an I/O status it is "Conflicting Attributes".
    CONNECT_INCOMPATIBLE_FORMAT = 0x180, "Conflicting Attributes, or Connect Incompatible Format";
    /// Connect only; as an I/O status it is "Invalid Protection Information".
    CONNECT_CONTROLLER_BUSY = 0x181, "Invalid Protection Information, or Connect Controller Busy";
    /// Connect only; as an I/O status it is "Attempted Write to Read Only Range".
    CONNECT_INVALID_PARAMETERS = 0x182, "Attempted Write to Read Only Range, or Connect Invalid Parameters";
    /// Connect only; as an I/O status it is "Command Size Limit Exceeded".
    CONNECT_RESTART_DISCOVERY = 0x183, "Command Size Limit Exceeded, or Connect Restart Discovery";
    CONNECT_INVALID_HOST = 0x184, "Connect Invalid Host";
    INVALID_QUEUE_TYPE = 0x185, "Invalid Queue Type";
    DISCOVER_RESTART = 0x190, "Discover Restart";
    AUTHENTICATION_REQUIRED = 0x191, "Authentication Required";

    ZONE_INVALID_OPERATION = 0x1B6, "Invalid Zone Operation Request";
    ZONE_BOUNDARY = 0x1B8, "Zone Boundary Error";
    ZONE_FULL = 0x1B9, "Zone Is Full";
    ZONE_READ_ONLY = 0x1BA, "Zone Is Read Only";
    ZONE_OFFLINE = 0x1BB, "Zone Is Offline";
    ZONE_INVALID_WRITE = 0x1BC, "Zone Invalid Write";
    ZONE_TOO_MANY_ACTIVE = 0x1BD, "Too Many Active Zones";
    ZONE_TOO_MANY_OPEN = 0x1BE, "Too Many Open Zones";
    ZONE_INVALID_TRANSITION = 0x1BF, "Invalid Zone State Transition";

    WRITE_FAULT = 0x280, "Write Fault";
    UNRECOVERED_READ_ERROR = 0x281, "Unrecovered Read Error";
    GUARD_CHECK = 0x282, "End-to-end Guard Check Error";
    APPLICATION_TAG_CHECK = 0x283, "End-to-end Application Tag Check Error";
    REFERENCE_TAG_CHECK = 0x284, "End-to-end Reference Tag Check Error";
    COMPARE_FAILURE = 0x285, "Compare Failure";
    ACCESS_DENIED = 0x286, "Access Denied";
    DEALLOCATED_BLOCK = 0x287, "Deallocated or Unwritten Logical Block";

    OC_OFFLINE_CHUNK = 0x2C0, "Offline Chunk";
    OC_INVALID_RESET = 0x2C1, "Invalid Reset";
    OC_HIGH_ECC = 0x2D0, "High ECC";
    OC_WRITE_FAIL_NEXT_UNIT = 0x2F0, "Write Fail, Write Next Unit";
    OC_CHUNK_EARLY_CLOSE = 0x2F1, "Chunk Early Close";
    OC_OUT_OF_ORDER = 0x2F2, "Out of Order Write";
    CACHE_ABSENT = 0x7C0, "Block Not Cached";
    CACHE_FULL = 0x7C1, "Cache Full of Dirty Blocks";
}

impl Status {
    /// A status from its parts; `code_type` keeps its low three bits.
    pub const fn new(code_type: u8, code: u8) -> Self {
        Self((code_type as u16 & 7) << 8 | code as u16)
    }

    /// The 15-bit field of the completion, retry bits included.
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// From the 15-bit field of a completion; bit 15 is dropped.
    pub const fn from_raw(raw: u16) -> Self {
        Self(raw & 0x7FFF)
    }

    /// The status code.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// Returns the status with "Do Not Retry" set: repeating the command cannot help.
    #[must_use]
    pub const fn do_not_retry(self) -> Self {
        Self(self.0 | DO_NOT_RETRY)
    }

    /// Returns whether "Do Not Retry" is set.
    pub const fn is_final(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// Reports whether type and code equal those of `other`, ignoring the retry bits.
    pub const fn is(self, other: Self) -> bool {
        (self.0 ^ other.0) & CODE_MASK == 0
    }

    /// Returns whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.0 & CODE_MASK == 0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Status({:03X}h{}, {})",
            self.0 & CODE_MASK,
            if self.is_final() { " DNR" } else { "" },
            self
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(f, "status type {} code {:02X}h", self.0 >> 8 & 7, self.code()),
        }
    }
}
