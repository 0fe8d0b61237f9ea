//! Flexible data placement (Base 8.1.10): configurations, handle usage and status, statistics, events.

use super::{LbaRange, SubmissionEntry};
use crate::layout::wire_struct;

/// Directive type of placement in a write command (dword 12, bits 23:20).
pub const DIRECTIVE_PLACEMENT: u8 = 2;
/// Directive type of Identify, which lists the others.
pub const DIRECTIVE_IDENTIFY: u8 = 0;
/// Directive Receive operation of [`DIRECTIVE_IDENTIFY`]: the supported directives.
pub const RECEIVE_DIRECTIVES: u8 = 1;
/// I/O Management Receive operation: reclaim unit handle status.
pub const RECEIVE_HANDLE_STATUS: u8 = 1;
/// I/O Management Send operation: reclaim unit handle update.
pub const SEND_HANDLE_UPDATE: u8 = 1;

wire_struct! {
    /// Header of the configurations log, 20h.
    pub struct ConfigurationsHeader: 16 {
        /// Configurations, one less.
        0 => configurations: u16,
        /// Version: 0.
        2 => version: u8,
        /// Size of the log, this header included.
        4 => log_bytes: u32,
    }
}

wire_struct! {
    /// One configuration; `handles` entries of [`HandleDescriptor`] follow.
    pub struct Configuration: 64 {
        /// This descriptor with its handle descriptors; a multiple of 8.
        0 => descriptor_bytes: u16,
        /// Bits 3:0 width of the reclaim group in a placement identifier, 4 volatile cache, 7 valid.
        2 => attributes: u8,
        /// Vendor bytes.
        3 => vendor_bytes: u8,
        /// Reclaim groups.
        4 => groups: u32,
        /// Reclaim unit handles.
        8 => handles: u16,
        /// Placement identifiers of a namespace, one less.
        10 => placements_max: u16,
        /// Namespaces.
        12 => namespaces: u32,
        /// Nominal size of a reclaim unit.
        16 => unit_bytes: u64,
        /// Estimated time limit of a reclaim unit in seconds, 0 for none.
        24 => unit_time_limit_s: u32,
    }
}

wire_struct! {
    /// Type of a reclaim unit handle.
    pub struct HandleDescriptor: 4 {
        /// 1 initially isolated, 2 persistently isolated.
        0 => kind: u8,
    }
}

wire_struct! {
    /// Header of the handle usage log, 21h; one [`HandleUsage`] for each handle follows.
    pub struct HandleUsageHeader: 8 {
        /// Handles.
        0 => handles: u16,
    }
}

wire_struct! {
    /// Use of one handle.
    pub struct HandleUsage: 8 {
        /// 0 unused, 1 specified by a host, 2 by the controller.
        0 => attributes: u8,
    }
}

wire_struct! {
    /// Statistics, log 22h. Write amplification is `media_bytes / host_bytes`.
    pub struct Statistics: 64 {
        /// Host bytes written, metadata included.
        0 => host_bytes: u128,
        /// Media bytes written, metadata included.
        16 => media_bytes: u128,
        /// Media bytes erased.
        32 => erased_bytes: u128,
    }
}

wire_struct! {
    /// Header of the events log, 23h; events follow.
    pub struct EventsHeader: 64 {
        /// Events that follow.
        0 => events: u32,
    }
}

wire_struct! {
    /// One event.
    pub struct Event: 64 {
        /// 0 unit not fully written, 1 time limit, 2 reset, 3 invalid placement; 80h media reallocated, 81h implicitly
        /// modified.
        0 => kind: u8,
        /// Bit 0 placement valid, 1 namespace valid, 2 location valid.
        1 => flags: u8,
        /// Placement identifier.
        2 => placement: u16,
        /// Time, as in the Timestamp feature.
        4 => timestamp: u64,
        /// Namespace.
        12 => nsid: u32,
        /// Specific to the type.
        16 => specific: [u8; 16],
        /// Reclaim group.
        32 => group: u16,
        /// Handle.
        34 => handle: u8,
    }
}

wire_struct! {
    /// Header of the handle status that I/O Management Receive returns; [`HandleStatus`] entries follow.
    pub struct HandleStatusHeader: 16 {
        /// Entries.
        14 => handles: u16,
    }
}

wire_struct! {
    /// Status of one placement identifier.
    pub struct HandleStatus: 32 {
        /// Placement identifier.
        0 => placement: u16,
        /// Reclaim unit handle.
        2 => handle: u16,
        /// Estimated active reclaim unit time remaining, seconds.
        4 => time_remaining_s: u32,
        /// Blocks left in the reclaim unit (RUAMW).
        8 => writable_blocks: u64,
    }
}

/// The placement identifier that a write names, if it carries the placement directive.
pub fn placement_of(entry: &SubmissionEntry, range: &LbaRange) -> Option<u16> {
    (range.directive_type() == DIRECTIVE_PLACEMENT).then_some((entry.cdw(13) >> 16) as u16)
}

wire_struct! {
    /// Directives of a namespace (Base figure "Identify Directive - Return Parameters Data Structure"): bit n of each is type n.
    pub struct Directives: 4096 {
        /// Supported.
        0 => supported: [u8; 32],
        /// Enabled for this host.
        32 => enabled: [u8; 32],
        /// Still enabled after a reset of the controller.
        64 => persistent: [u8; 32],
    }
}

/// Operation (dword 11, bits 7:0) and type (15:8) of Directive Receive or Send.
pub fn directive_operation(entry: &SubmissionEntry) -> (u8, u8) {
    (entry.cdw(11) as u8, (entry.cdw(11) >> 8) as u8)
}

/// Operation of I/O Management Receive or Send (dword 10, bits 7:0) and its specific half (31:16): for a handle update
/// the number of placement identifiers less one.
pub fn management_operation(entry: &SubmissionEntry) -> (u8, u16) {
    (entry.cdw(10) as u8, (entry.cdw(10) >> 16) as u16)
}
