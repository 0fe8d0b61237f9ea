//! The persistent event log: the history of a subsystem (Base 5.1.12.1.14).
//!
//! The log lives as long as the server. Hosts read it through a *context*, a frozen copy, so a host that
//! reads it in pieces sees one state.

use pellucid_wire::nvme::{PersistentEventHeader, PersistentEventLogHeader, ascii, nqn};
use std::collections::VecDeque;

/// Number of events kept; the oldest are dropped first.
const EVENTS_MAX: usize = 128;

/// Recorded event types.
pub(super) mod event_type {
    pub const SMART_SNAPSHOT: u8 = 0x01;
    pub const TIMESTAMP_CHANGE: u8 = 0x03;
    pub const POWER_ON_OR_RESET: u8 = 0x04;
    pub const FORMAT_START: u8 = 0x07;
    pub const FORMAT_END: u8 = 0x08;
    pub const ALL: [u8; 5] = [SMART_SNAPSHOT, TIMESTAMP_CHANGE, POWER_ON_OR_RESET, FORMAT_START, FORMAT_END];
}

#[derive(Clone, Debug)]
struct Event {
    kind: u8,
    controller_id: u16,
    at_ms: u64,
    data: Vec<u8>,
}

/// The log of one subsystem.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    generation: u16,
    power_cuts_seen: u64,
}

/// Subsystem data in the header of the log.
pub(super) struct Owner<'a> {
    pub nqn: &'a str,
    pub serial: &'a str,
    pub model: &'a str,
    pub now_ns: u64,
}

impl History {
    fn add(&mut self, kind: u8, controller_id: u16, now_ns: u64, data: Vec<u8>) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { kind, controller_id, at_ms: now_ns / 1_000_000, data });
        self.generation = self.generation.wrapping_add(1);
    }

    /// Records that a controller was enabled.
    pub fn reset(&mut self, controller_id: u16, firmware: &[u8; 8], power_cycles: u64, now_ns: u64) {
        let at_ms = now_ns / 1_000_000;
        let mut data = firmware.to_vec();
        data.extend(controller_id.to_le_bytes());
        data.extend([0; 14]);
        data.extend((power_cycles as u32).to_le_bytes());
        data.extend(at_ms.to_le_bytes());
        data.extend(at_ms.to_le_bytes());
        self.add(event_type::POWER_ON_OR_RESET, controller_id, now_ns, data);
    }

    /// Records new power cuts as an event; `total` counts all that the drives have survived.
    pub fn power_cuts(&mut self, total: u64, firmware: &[u8; 8], now_ns: u64) {
        if total > self.power_cuts_seen {
            self.power_cuts_seen = total;
            self.reset(0, firmware, total + 1, now_ns);
        }
    }

    /// Records a SMART page.
    pub fn smart(&mut self, controller_id: u16, page: &[u8; 512], now_ns: u64) {
        self.add(event_type::SMART_SNAPSHOT, controller_id, now_ns, page.to_vec());
    }

    /// Records that the host set the clock.
    pub fn timestamp(&mut self, controller_id: u16, previous: u64, now_ns: u64) {
        let mut data = previous.to_le_bytes().to_vec();
        data.extend((now_ns / 1_000_000).to_le_bytes());
        self.add(event_type::TIMESTAMP_CHANGE, controller_id, now_ns, data);
    }

    /// Records the start of a format.
    pub fn format_start(&mut self, controller_id: u16, nsid: u32, cdw10: u32, now_ns: u64) {
        let mut data = nsid.to_le_bytes().to_vec();
        data.extend([0; 4]);
        data.extend(cdw10.to_le_bytes());
        self.add(event_type::FORMAT_START, controller_id, now_ns, data);
    }

    /// Records the end of a format, with its status field.
    pub fn format_end(&mut self, controller_id: u16, nsid: u32, status: u16, now_ns: u64) {
        let mut data = nsid.to_le_bytes().to_vec();
        data.extend([0, u8::from(status != 0), 0, 0]);
        data.extend(u32::from(status).to_le_bytes());
        self.add(event_type::FORMAT_END, controller_id, now_ns, data);
    }

    /// Builds the whole log, newest event first.
    pub fn page(&self, owner: &Owner<'_>) -> Vec<u8> {
        let mut page = vec![0; PersistentEventLogHeader::BYTES];
        for event in self.events.iter().rev() {
            let header = PersistentEventHeader {
                event_type: event.kind,
                revision: 1,
                header_bytes: (PersistentEventHeader::BYTES - 3) as u8,
                controller_id: event.controller_id,
                timestamp: event.at_ms,
                event_bytes: event.data.len() as u16,
                ..PersistentEventHeader::default()
            };
            page.extend(header.encode());
            page.extend(&event.data);
        }
        let mut supported_events = [0; 32];
        for kind in event_type::ALL {
            supported_events[usize::from(kind / 8)] |= 1 << (kind % 8);
        }
        let header = PersistentEventLogHeader {
            log_id: 0x0D,
            events: self.events.len() as u32,
            log_bytes: page.len() as u64,
            revision: 3,
            header_bytes: (PersistentEventLogHeader::BYTES - 20) as u16,
            timestamp: owner.now_ns / 1_000_000,
            power_on_hours: u128::from(owner.now_ns / 3_600_000_000_000),
            power_cycles: self.power_cuts_seen + 1,
            serial_number: ascii(owner.serial),
            model_number: ascii(owner.model),
            subsystem_nqn: nqn(owner.nqn).unwrap_or([0; 256]),
            generation: self.generation,
            supported_events,
            ..PersistentEventLogHeader::default()
        };
        page[..PersistentEventLogHeader::BYTES].copy_from_slice(&header.encode());
        page
    }
}
