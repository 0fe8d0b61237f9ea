//! What decides whom TLS lets in: the identity that a host sends, and the printed key of a file.
//!
//! The input is an identity, and after a line end a key. A key that is read has an identity of its own in both versions, which is
//! found again; the identity of the input finds a key only if it is one of these.

use pellucid_target::nvme::{Identity, TlsKey, TlsKeys};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// One input.
pub fn run(bytes: &[u8]) {
    let split = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (identity, printed) = (&bytes[..split], &bytes[(split + 1).min(bytes.len())..]);
    let printed = std::str::from_utf8(printed).ok().and_then(|text| TlsKey::parse(text).ok());
    let key = printed.unwrap_or_else(|| TlsKey::parse(KEY).expect("a key"));
    let mut keys = TlsKeys::default();
    keys.add(HOST, key.clone());
    for version in [0, 1] {
        let own = key.identity(version, HOST, "nqn.2026-01.org.pellucid:fuzz").expect("short names");
        let (peer, found) = keys.find(own.as_bytes()).expect("its own");
        assert_eq!((peer.host.as_str(), found.len()), (HOST, key.hash().bytes()));
    }
    if let Some((peer, _)) = keys.find(identity) {
        let parsed = Identity::parse(identity).expect("it was found by it");
        assert_eq!([&*peer.host, &*peer.subsystem], [parsed.host, parsed.subsystem]);
        let own = [0, 1].map(|version| key.identity(version, &peer.host, &peer.subsystem));
        assert!(own.iter().flatten().any(|own| own.as_bytes() == identity));
    }
}
