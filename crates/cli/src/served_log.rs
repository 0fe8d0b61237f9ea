//! Log lines at the start of a server: each namespace with its kind, and the address under which it is reached, ready to be pasted.

use pellucid_device::Device;
use pellucid_flash::Interface;
use pellucid_media::StoreKind;
use pellucid_serve::event::{DriveFacts, Event, Reach};
use pellucid_serve::{Address, Core, FileConfig, Time};
use pellucid_target::Drives;
use pellucid_target::operation::{NQN_PREFIX, Namespace};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A namespace that clients can reach, with the names that they use.
pub struct Offered {
    name: String,
    is_block: bool,
    /// Its drive, as NVMe hosts name it.
    nqn: String,
}

/// The namespaces that can be reached.
pub fn offered(core: &Core, drives: &[String]) -> Vec<Offered> {
    let there = core.namespaces().iter().filter(|n| !n.gone);
    there
        .map(|n| Offered {
            name: n.name.clone(),
            is_block: matches!(n.interface, Interface::Block { .. }),
            nqn: match &n.target {
                Some(target) => format!("{NQN_PREFIX}{}.{target}", drives[n.drive]),
                None => format!("{NQN_PREFIX}{}", drives[n.drive]),
            },
        })
        .collect()
}

/// Describes each namespace; `from`: the preset, file or remote address of each drive.
pub fn drives(core: &Core, from: &[String]) -> Vec<Event> {
    let numbered = core.namespaces().iter().enumerate().filter(|(_, n)| !n.gone);
    numbered.map(|(at, n)| drive(core.device(at), n, &from[n.drive], core.time())).collect()
}

fn drive(device: Option<&Device>, namespace: &Namespace, from: &str, time: Time) -> Event {
    let Namespace { ref name, sector_bytes, interface, keeps, .. } = *namespace;
    let kind = interface.name();
    let store = match device.map(|device| &device.config().media.store) {
        None if FileConfig::is_meant(from) => from.to_owned(),
        None => "remote".to_owned(),
        Some(StoreKind::None | StoreKind::Unstamped) => "none".to_owned(),
        Some(StoreKind::Ram) => "ram".to_owned(),
        Some(StoreKind::File(path)) => format!("file:{}", path.display()),
    };
    let (name, from) = (name.clone(), from.to_owned());
    let capacity_bytes = namespace.bytes();
    Event::Drive(DriveFacts { name, from, kind, capacity_bytes, sector_bytes, store, keeps, time })
}

/// Says how each block namespace is reached at an address for NBD.
pub fn nbd(offered: &[Offered], address: &Address, tls: bool) -> Vec<Event> {
    let scheme = if tls { "nbds" } else { "nbd" };
    let uri = |name: &str| match address {
        Address::Tcp(tcp) => format!("{scheme}://{}/{}", to_reach(*tcp), encoded(name, b"")),
        Address::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let path = encoded(&path.to_string_lossy(), b"/");
            format!("{scheme}+unix:///{}?socket={path}", encoded(name, b""))
        }
    };
    let blocks = offered.iter().filter(|offered| offered.is_block);
    blocks
        .map(|Offered { name, .. }| Event::Reachable {
            drive: name.clone(),
            protocol: "nbd",
            how: Reach::Uri(uri(name)),
        })
        .collect()
}

/// Says how each subsystem is reached at an address for NVMe/TCP.
pub fn nvme(offered: &[Offered], address: &Address) -> Vec<Event> {
    let Address::Tcp(tcp) = address else { return Vec::new() };
    let reach = to_reach(*tcp);
    let mut events: Vec<Event> = Vec::new();
    for Offered { name, nqn, .. } in offered {
        let command = format!("nvme connect -t tcp -a {} -s {} -n {nqn}", reach.ip(), reach.port());
        let same = |event: &Event| matches!(event, Event::Reachable { how: Reach::Command(other), .. } if *other == command);
        // Namespaces of one drive are reached together.
        if !events.iter().any(same) {
            let how = Reach::Command(command);
            events.push(Event::Reachable { drive: name.clone(), protocol: "nvme-tcp", how });
        }
    }
    events
}

/// Says how a cache is reached at an address.
pub fn memcached(name: &str, address: &Address) -> Event {
    let uri = match address {
        Address::Tcp(tcp) => format!("memcached://{}", to_reach(*tcp)),
        Address::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("memcached+unix://{}", encoded(&path.to_string_lossy(), b"/"))
        }
    };
    Event::Reachable { drive: name.to_owned(), protocol: "memcached", how: Reach::Uri(uri) }
}

/// Returns the address at which a client of this machine finds a listener: a listener on all addresses is on the loopback, too.
fn to_reach(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A text as a part of a URI (RFC 3986); the bytes of `kept` are not escaped either.
fn encoded(text: &str, kept: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_can_be_pasted() {
        let drive =
            |name: &str| Offered { name: name.into(), is_block: true, nqn: format!("{NQN_PREFIX}{name}") };
        let offered = [drive("jasmine"), drive("a b/c")];
        let all = nbd(&offered, &"0.0.0.0:10809".parse().expect("an address"), true);
        assert!(all[0].to_string().ends_with("uri=\"nbds://127.0.0.1:10809/jasmine\""), "{}", all[0]);
        assert!(all[1].to_string().ends_with("uri=\"nbds://127.0.0.1:10809/a%20b%2Fc\""), "{}", all[1]);
        let unix = nbd(&offered[..1], &"unix:/tmp/a b".parse().expect("an address"), false);
        assert!(
            unix[0].to_string().ends_with("uri=\"nbd+unix:///jasmine?socket=/tmp/a%20b\""),
            "{}",
            unix[0]
        );
        let nvme = nvme(&offered[..1], &"[::1]:4420".parse().expect("an address"));
        let command = "command=\"nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-01.org.pellucid:jasmine\"";
        assert!(nvme[0].to_string().ends_with(command), "{}", nvme[0]);
    }
}
