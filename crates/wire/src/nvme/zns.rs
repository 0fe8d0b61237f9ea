//! Zoned namespaces (ZNS): identify, zone descriptors, Zone Management Send and Receive, append.
//!
//! ```text
//!              write/open                full, finish
//!   empty 1h -----------> open 2h/3h ------------------> full Eh
//!      ^                    | ^ close/limit  ^             |
//!      |                    v | open, write  | finish      |
//!      |                  closed 4h ---------'             |
//!      '---------------------- reset ----------------------'     read only Dh, offline Fh: failures
//! ```

use super::{Status, SubmissionEntry};
use crate::layout::{wire_enum, wire_struct};

wire_struct! {
    /// LBA format extension (ZNS 4.1.5.1).
    pub struct ZonedFormat: 16 {
        /// Zone size in blocks, a power of two for Linux.
        0 => zone_blocks: u64,
        /// Descriptor extension size, units of 64 bytes.
        8 => extension_64b: u8,
    }
}

wire_struct! {
    /// Identify Namespace of the zoned command set, CNS 05h CSI 02h (ZNS 4.1.5.1).
    pub struct ZonedNamespace: 4096 {
        /// Zone operation characteristics (ZOC): bit 0 capacity may change, bit 1 active excursions.
        0 => characteristics: u16,
        /// Optional capabilities (OZCS): bit 0 read across zone boundaries, bit 1 random write area.
        2 => capabilities: u16,
        /// Active zones less one (MAR); FFFFFFFFh is no limit.
        4 => active_max: u32,
        /// Open zones less one (MOR); FFFFFFFFh is no limit.
        8 => open_max: u32,
        /// Reset recommended limit (RRL) in seconds.
        12 => reset_recommended_s: u32,
        /// Finish recommended limit (FRL) in seconds.
        16 => finish_recommended_s: u32,
        /// Extensions of the formats of Identify Namespace (LBAFE).
        2816 => formats: [ZonedFormat; 64],
    }
}

wire_struct! {
    /// Identify Controller of the zoned command set, CNS 06h CSI 02h (ZNS 4.1.5.2).
    pub struct ZonedController: 4096 {
        /// Largest append (ZASL): 2^n pages of 4 KiB, 0 for the controller's transfer limit.
        0 => append_max_shift: u8,
    }
}

wire_struct! {
    /// Header of a zone report; descriptors follow (ZNS 3.4.2.2.1).
    pub struct ZoneReportHeader: 64 {
        /// Zones that match (or, for a partial report, that were returned).
        0 => zones: u64,
    }
}

wire_enum! {
    /// Zone Send Actions (ZNS 3.4.3).
    pub enum ZoneAction: u8 {
        /// Close.
        Close = 0x01,
        /// Finish.
        Finish = 0x02,
        /// Open.
        Open = 0x03,
        /// Reset.
        Reset = 0x04,
        /// Offline.
        Offline = 0x05,
        /// Set zone descriptor extension.
        SetExtension = 0x10,
        /// Flush the explicit part of a random write area.
        FlushRandomWriteArea = 0x11,
    }
}

/// Arguments of Zone Management Send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneManagementSend {
    /// First block of the zone; without meaning if `select_all`.
    pub start: u64,
    /// Action.
    pub action: ZoneAction,
    /// All zones in a state that the action applies to.
    pub select_all: bool,
    /// With Open: allocate a random write area (ZRWAA).
    pub random_write_area: bool,
}

impl ZoneManagementSend {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a reserved action.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        let cdw13 = entry.cdw(13);
        let action = ZoneAction::from_raw(cdw13 as u8).ok_or(Status::INVALID_FIELD.do_not_retry())?;
        Ok(Self {
            start: entry.cdw_pair(10),
            action,
            select_all: cdw13 & 1 << 8 != 0,
            random_write_area: cdw13 & 1 << 9 != 0,
        })
    }
}

wire_enum! {
    /// Zones that a report lists (ZNS 3.4.2, Zone Receive Action Specific).
    pub enum ReportFilter: u8 {
        /// All.
        All = 0,
        /// Empty.
        Empty = 1,
        /// Implicitly opened.
        ImplicitlyOpened = 2,
        /// Explicitly opened.
        ExplicitlyOpened = 3,
        /// Closed.
        Closed = 4,
        /// Full.
        Full = 5,
        /// Read only.
        ReadOnly = 6,
        /// Offline.
        Offline = 7,
    }
}

/// Arguments of Zone Management Receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneManagementReceive {
    /// A block of the first zone to report.
    pub start: u64,
    /// Buffer length for the report.
    pub length_bytes: u64,
    /// The extended report (action 1): descriptors with their extensions.
    pub extended: bool,
    /// Zones to list.
    pub filter: ReportFilter,
    /// The header counts only the zones returned.
    pub partial: bool,
}

impl ZoneManagementReceive {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a reserved action or filter.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        let cdw13 = entry.cdw(13);
        let invalid = Status::INVALID_FIELD.do_not_retry();
        let action = cdw13 as u8;
        if action > 1 {
            return Err(invalid);
        }
        Ok(Self {
            start: entry.cdw_pair(10),
            length_bytes: (u64::from(entry.cdw(12)) + 1) * 4,
            extended: action == 1,
            filter: ReportFilter::from_raw((cdw13 >> 8) as u8).ok_or(invalid)?,
            partial: cdw13 & 1 << 16 != 0,
        })
    }
}
