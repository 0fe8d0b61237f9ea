//! Keys in their text form, `NVMeTLSkey-1:XX:base64(key, CRC-32):`, and keys derived from them (TCP transport
//! 3.6.1).
//!
//! XX tells how the retained key derives from the configured one: 00 unchanged; 01 and 02 with SHA-256 and
//! SHA-384 and the name of the host. The identity that a host sends has version, hash and both names:
//! `NVMe0R01 HOST SUBSYSTEM`. Version 1 adds a digest of the retained key, which identifies the key:
//! `NVMe1R01 HOST SUBSYSTEM DIGEST`.
//!
//! Invariants: a [`TlsKey`] has passed its checksum and has 32 or 48 bytes; no key is ever shown.

use crate::secret::{lines, printed_fields, printed_key};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pellucid_wire::nvme::nqn;
use ring::{hkdf, hmac};
use std::collections::BTreeMap;
use std::fmt;

/// Hash of an identity, which is also the hash of the cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHash {
    /// SHA-256, with TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384, with TLS_AES_256_GCM_SHA384.
    Sha384,
}

impl KeyHash {
    fn named(text: &str) -> Option<KeyHash> {
        match text {
            "01" => Some(KeyHash::Sha256),
            "02" => Some(KeyHash::Sha384),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            KeyHash::Sha256 => "01",
            KeyHash::Sha384 => "02",
        }
    }

    /// Length in bytes of digests and keys.
    pub fn bytes(self) -> usize {
        match self {
            KeyHash::Sha256 => 32,
            KeyHash::Sha384 => 48,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            KeyHash::Sha256 => hmac::HMAC_SHA256,
            KeyHash::Sha384 => hmac::HMAC_SHA384,
        }
    }

    /// Computes HKDF-Extract without salt, then HKDF-Expand-Label (RFC 8446 section 7.1). Returns `None` if
    /// the context is too long.
    fn derive(self, key: &[u8], label: &str, context: &[u8], length: usize) -> Option<Vec<u8>> {
        let algorithm = match self {
            KeyHash::Sha256 => hkdf::HKDF_SHA256,
            KeyHash::Sha384 => hkdf::HKDF_SHA384,
        };
        let label = format!("tls13 {label}");
        let mut info = u16::try_from(length).ok()?.to_be_bytes().to_vec();
        for part in [label.as_bytes(), context] {
            info.push(u8::try_from(part.len()).ok()?);
            info.extend_from_slice(part);
        }
        let extracted = hkdf::Salt::new(algorithm, &[]).extract(key);
        let mut derived = vec![0; length];
        extracted.expand(&[&info], Length(length)).ok()?.fill(&mut derived).ok()?;
        Some(derived)
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// A configured key.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    key: Vec<u8>,
    transform: Option<KeyHash>,
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsKey(..)")
    }
}

impl TlsKey {
    /// Parses the text form.
    ///
    /// # Errors
    /// Describes the problem without the key.
    pub fn parse(text: &str) -> Result<TlsKey, &'static str> {
        let fields = printed_fields(text, "NVMeTLSkey-1");
        let (transform, encoded) = fields.ok_or("not of the form NVMeTLSkey-1:XX:BASE64:")?;
        let transform = match transform {
            "00" => None,
            other => Some(KeyHash::named(other).ok_or("unknown transformation; allowed: 00, 01, 02")?),
        };
        let fits = |bytes| transform.map_or(matches!(bytes, 32 | 48), |hash: KeyHash| bytes == hash.bytes());
        let wrong_length = "the key has a wrong length; allowed: 32 (01), 48 (02) or any of them (00)";
        Ok(TlsKey { key: printed_key(encoded, fits, wrong_length)?, transform })
    }

    /// Parses the content of a file that holds one key, beside empty lines and comments (`#`).
    ///
    /// # Errors
    /// Names the wrong line and its problem.
    pub fn parse_file(text: &str) -> Result<TlsKey, String> {
        let mut lines = lines(text);
        match (lines.next(), lines.next()) {
            (Some((number, line)), None) => {
                TlsKey::parse(line).map_err(|why| format!("line {number}: {why}"))
            }
            (None, _) => Err("holds no key; allowed: one".into()),
            _ => Err("holds more than one key; allowed: one".into()),
        }
    }

    /// Hash of the identities that use this key.
    pub fn hash(&self) -> KeyHash {
        if self.key.len() == KeyHash::Sha256.bytes() { KeyHash::Sha256 } else { KeyHash::Sha384 }
    }

    /// Derives the retained key for a host.
    fn retained(&self, host: &str) -> Option<Vec<u8>> {
        match self.transform {
            None => Some(self.key.clone()),
            Some(hash) => hash.derive(&self.key, "HostNQN", host.as_bytes(), self.key.len()),
        }
    }

    /// Identity of version 0 or 1 under which `host` offers this key to `subsystem`.
    pub fn identity(&self, version: u8, host: &str, subsystem: &str) -> Option<String> {
        let hash = self.hash().name();
        match version {
            0 => Some(format!("NVMe0R{hash} {host} {subsystem}")),
            1 => Some(format!("NVMe1R{hash} {host} {subsystem} {}", self.digest(host, subsystem)?)),
            _ => None,
        }
    }

    fn digest(&self, host: &str, subsystem: &str) -> Option<String> {
        let key = hmac::Key::new(self.hash().hmac(), &self.retained(host)?);
        let tag = hmac::sign(&key, format!("{host} {subsystem} NVMe-over-Fabrics").as_bytes());
        Some(BASE64_STANDARD.encode(tag.as_ref()))
    }

    /// Derives the handshake key for an identity. Returns `None` if the identity belongs to another key, or
    /// is too long for any key (version 0: 255 bytes).
    pub fn for_identity(&self, identity: &Identity<'_>) -> Option<Vec<u8>> {
        if self.identity(identity.version, identity.host, identity.subsystem)? != identity.text {
            return None;
        }
        let context = match identity.digest {
            None => identity.text.to_owned(),
            Some(digest) => format!("{} {digest}", self.hash().name()),
        };
        let retained = self.retained(identity.host)?;
        self.hash().derive(&retained, "nvme-tls-psk", context.as_bytes(), self.hash().bytes())
    }
}

/// Identity that a host claims, with the subsystem that it addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    text: &'a str,
    version: u8,
    /// Name of the host.
    pub host: &'a str,
    /// Name of the subsystem.
    pub subsystem: &'a str,
    digest: Option<&'a str>,
}

impl<'a> Identity<'a> {
    /// Parses an identity of a retained key; returns `None` if it is malformed or of another kind.
    pub fn parse(text: &'a [u8]) -> Option<Identity<'a>> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split(' ');
        let (kind, host, subsystem, digest) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
        let (version, hash) = kind.strip_prefix("NVMe")?.split_once('R')?;
        let version = match (version, digest) {
            ("0", None) => 0,
            ("1", Some(_)) => 1,
            _ => return None,
        };
        KeyHash::named(hash)?;
        nqn(host)?;
        nqn(subsystem)?;
        parts.next().is_none().then_some(Identity { text, version, host, subsystem, digest })
    }
}

/// A host that has proved that it knows a key, and the key's subsystem: it may connect to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name of the host.
    pub host: String,
    /// Name of the subsystem.
    pub subsystem: String,
}

/// Keys of hosts by qualified name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsKeys(BTreeMap<String, TlsKey>);

impl TlsKeys {
    /// Sets the key of a host; returns true if it had none.
    pub fn add(&mut self, host: &str, key: TlsKey) -> bool {
        self.0.insert(host.to_owned(), key).is_none()
    }

    /// Hosts with their keys.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &TlsKey)> {
        self.0.iter().map(|(host, key)| (host.as_str(), key))
    }

    /// Returns true if a host has a key.
    pub fn has(&self, host: &str) -> bool {
        self.0.contains_key(host)
    }

    /// Finds the owner of an identity, with the handshake key.
    pub fn find(&self, identity: &[u8]) -> Option<(Peer, Vec<u8>)> {
        let identity = Identity::parse(identity)?;
        let key = self.0.get(identity.host)?.for_identity(&identity)?;
        Some((Peer { host: identity.host.into(), subsystem: identity.subsystem.into() }, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "nqn.psk-test-host";
    const SUBSYSTEM: &str = "nqn.psk-test-subsys";
    /// Keys and identities from the tests of libnvme (test/psk.c).
    const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const KEY_384: &str =
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

    fn key(text: &str) -> TlsKey {
        TlsKey::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn identities_are_those_of_libnvme() {
        for (text, kind, digest) in [
            (KEY_256, "NVMe1R01", "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU="),
            (KEY_384, "NVMe1R02", "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a"),
        ] {
            let expected = format!("{kind} {HOST} {SUBSYSTEM} {digest}");
            assert_eq!(key(text).identity(1, HOST, SUBSYSTEM), Some(expected));
        }
        let plain = key(KEY_256).identity(0, HOST, SUBSYSTEM);
        assert_eq!(plain.as_deref(), Some("NVMe0R01 nqn.psk-test-host nqn.psk-test-subsys"));
        assert_eq!(key(KEY_256).identity(2, HOST, SUBSYSTEM), None);
    }

    /// Columns of the vectors: see `tools/tls_psk_vectors.py`.
    #[test]
    fn keys_are_those_of_an_independent_implementation() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls-psk-vectors.txt");
        let text = std::fs::read_to_string(path).expect("the vectors");
        let mut seen = 0;
        for (_, line) in lines(&text) {
            let columns: Vec<&str> = line.split('|').collect();
            let [configured, identity, derived] = columns[..] else { panic!("{line}") };
            let mut keys = TlsKeys::default();
            let parsed = Identity::parse(identity.as_bytes()).expect("an identity");
            assert!(keys.add(parsed.host, key(configured)) && keys.has(parsed.host));
            let (peer, found) = keys.find(identity.as_bytes()).expect("its key");
            let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, derived, "{line}");
            assert_eq!([&*peer.host, &*peer.subsystem], [parsed.host, parsed.subsystem]);
            seen += 1;
        }
        assert_eq!(seen, 16, "four kinds of keys, two versions, two pairs of names");
    }

    #[test]
    fn what_is_no_identity_finds_no_key() {
        let mut keys = TlsKeys::default();
        assert!(keys.add(HOST, key(KEY_256)));
        let good = key(KEY_256).identity(1, HOST, SUBSYSTEM).expect("an identity");
        assert!(keys.find(good.as_bytes()).is_some());
        let long = [format!("nqn.{}", "h".repeat(150)), format!("nqn.{}", "s".repeat(150))];
        assert!(keys.add(&long[0], key(KEY_256)));
        let with_digest = key(KEY_256).identity(1, &long[0], &long[1]).expect("an identity");
        assert!(keys.find(with_digest.as_bytes()).is_some(), "names of a length that is allowed");
        let long = format!("NVMe0R01 {} {}", long[0], long[1]);
        for bad in [
            &*good.replace("NVMe1", "NVMe0"),
            &good.replace("NVMe1", "NVMe2"),
            &good.replace("R01", "R02"),
            &good.replace("R01", "R00"),
            &good.replace("R01", "G01"),
            &good.replace("=", "+"),
            &good.replace(HOST, "nqn.psk-test-other"),
            &good.replace(SUBSYSTEM, "psk-test-subsys"),
            &format!("{good} more"),
            good.trim_end_matches('='),
            &long,
            "",
            "NVMe0R01",
        ] {
            assert_eq!(keys.find(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(keys.find(&[0xFF; 40]), None);
    }

    #[test]
    fn keys_that_are_none_are_refused_without_being_shown() {
        for (text, why) in [
            (KEY_256.replace("VRL", "VRM"), "checksum"),
            (KEY_256.replace(":01:", ":02:"), "length"),
            (KEY_256.replace(":01:", ":03:"), "transformation"),
            (KEY_256.replace("key-1", "key-2"), "form"),
            (KEY_256.trim_end_matches(':').into(), "form"),
            ("NVMeTLSkey-1:01:AA==:".into(), "short"),
            ("NVMeTLSkey-1:01:!!!!:".into(), "base64"),
        ] {
            let refused = TlsKey::parse(&text).expect_err(&text);
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(format!("{:?}", key(KEY_256)), "TlsKey(..)");
        let untransformed = key(&KEY_256.replace(":01:", ":00:"));
        assert_ne!(untransformed.identity(1, HOST, SUBSYSTEM), key(KEY_256).identity(1, HOST, SUBSYSTEM));
    }
}
