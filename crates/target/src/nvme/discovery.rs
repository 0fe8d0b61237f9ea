//! The discovery log (Base 5.1.12.3.1): the subsystems that a host may connect to, at the address that it
//! queried.

use super::QUEUE_ENTRIES_MAX;
use super::logs::Offered;
use pellucid_wire::nvme::{DISCOVERY_NQN, DYNAMIC_CONTROLLER, DiscoveryEntry, DiscoveryHeader, nqn};

/// Builds the log for a host: the discovery subsystem itself, then the subsystems that admit the host.
pub(super) fn log(offered: &Offered<'_>, host_nqn: &str) -> Vec<u8> {
    let admitted = offered.subsystems.iter().filter(|subsystem| subsystem.admits(host_nqn));
    let mut page = vec![0; DiscoveryHeader::BYTES];
    page.extend(entry(DISCOVERY_NQN, 3, offered).encode());
    let mut records = 1;
    for subsystem in admitted {
        page.extend(entry(&subsystem.config.nqn, 2, offered).encode());
        records += 1;
    }
    let header = DiscoveryHeader { generation: offered.generation + 1, records, format: 0 };
    page[..DiscoveryHeader::BYTES].copy_from_slice(&header.encode());
    page
}

fn entry(name: &str, subsystem_type: u8, offered: &Offered<'_>) -> DiscoveryEntry {
    let (local, secured) = (offered.local, offered.secured);
    DiscoveryEntry {
        transport_type: 3,
        address_family: if local.is_ipv4() { 1 } else { 2 },
        subsystem_type,
        // Secure channel required or not; submission queue flow control may be disabled.
        requirements: if secured { 1 } else { 2 } | 1 << 2,
        port_id: 1,
        controller_id: DYNAMIC_CONTROLLER,
        admin_queue_max: QUEUE_ENTRIES_MAX as u16,
        service: padded(&local.port().to_string()),
        subsystem_nqn: nqn(name).unwrap_or([0; 256]),
        address: padded(&local.ip().to_string()),
        security_type: if secured { 2 } else { 0 },
        ..DiscoveryEntry::default()
    }
}

/// Text in a field padded with spaces.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    pellucid_wire::nvme::ascii(text)
}
