//! Secrets in their text form, `DHHC-1:XX:base64(key, CRC-32):` (Base 8.3.5.8), and files of secrets.
//!
//! XX gives the transformation of the key before use: 00 none; 01, 02 and 03 HMAC of SHA-256, SHA-384 and
//! SHA-512 over the name of its owner, so that a file does not hold the key that another party must know.
//!
//! Invariant: a [`Secret`] has passed its checksum and has 32, 48 or 64 bytes.

use super::algorithm;
use crate::secret::{lines, printed_fields, printed_key};
use pellucid_wire::nvme::auth::{AuthHash, DhGroup};
use ring::hmac;
use std::fmt;

/// A key and its transformation.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret {
    key: Vec<u8>,
    transform: Option<AuthHash>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Parses the text form. The error describes the problem without the secret.
    pub fn parse(text: &str) -> Result<Secret, &'static str> {
        let fields = printed_fields(text, "DHHC-1");
        let (transform, encoded) = fields.ok_or("not of the form DHHC-1:XX:BASE64:")?;
        let transform = match transform {
            "00" => None,
            "01" => Some(AuthHash::Sha256),
            "02" => Some(AuthHash::Sha384),
            "03" => Some(AuthHash::Sha512),
            _ => return Err("the transformation after DHHC-1: is unknown; allowed: 00, 01, 02, 03"),
        };
        let fits =
            |bytes| transform.map_or(matches!(bytes, 32 | 48 | 64), |hash: AuthHash| bytes == hash.bytes());
        let wrong_length =
            "the key has a wrong length; allowed: 32 (01), 48 (02), 64 (03) or any of them (00)";
        Ok(Secret { key: printed_key(encoded, fits, wrong_length)?, transform })
    }

    /// Key as its owner uses it in a response.
    pub fn transformed(&self, owner_nqn: &str) -> Vec<u8> {
        let Some(hash) = self.transform else { return self.key.clone() };
        let key = hmac::Key::new(algorithm(hash), &self.key);
        let mut context = hmac::Context::with_key(&key);
        context.update(owner_nqn.as_bytes());
        context.update(b"NVMe-over-Fabrics");
        context.sign().as_ref().to_vec()
    }
}

/// Secrets that a host and a controller share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSecrets {
    /// Secret with which the host authenticates.
    pub(super) host: Secret,
    /// Secret with which the controller answers a challenge of the host.
    pub(super) controller: Option<Secret>,
    /// Smallest acceptable Diffie-Hellman group.
    pub(super) group_min: DhGroup,
}

impl HostSecrets {
    /// Sets the smallest acceptable group.
    pub fn with_group_min(self, group_min: DhGroup) -> HostSecrets {
        HostSecrets { group_min, ..self }
    }

    /// Returns true if the controller has a secret too.
    pub fn has_controller(&self) -> bool {
        self.controller.is_some()
    }

    /// Acceptable groups, the smallest first.
    pub(super) fn groups(&self) -> Vec<DhGroup> {
        DhGroup::ALL.iter().copied().filter(|&group| group >= self.group_min).collect()
    }

    /// Parses the secrets of a host. Empty lines and comments (`#`) aside, the first line is the host's
    /// secret, and the optional second line the controller's.
    ///
    /// # Errors
    /// Names the wrong line and its problem.
    pub fn parse(text: &str) -> Result<HostSecrets, String> {
        let mut secrets = Vec::new();
        for (number, line) in lines(text) {
            secrets.push(Secret::parse(line).map_err(|why| format!("line {number}: {why}"))?);
        }
        let mut secrets = secrets.into_iter();
        match (secrets.next(), secrets.next(), secrets.next()) {
            (Some(host), controller, None) => Ok(HostSecrets { host, controller, group_min: DhGroup::Null }),
            (None, ..) => {
                Err("holds no secret; allowed: that of the host, then that of the controller".into())
            }
            _ => {
                Err("holds more than two secrets; allowed: that of the host, then that of the controller"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    fn printed(transform: &str, key: &[u8], damage: u8) -> String {
        let mut bytes = [key, &crc32fast::hash(key).to_le_bytes()].concat();
        bytes[3] ^= damage;
        format!("DHHC-1:{transform}:{}:", BASE64_STANDARD.encode(bytes))
    }

    #[test]
    fn secrets_that_are_none_are_refused_without_being_shown() {
        let good = printed("01", &[7; 32], 0);
        assert!(Secret::parse(&good).is_ok());
        let cases = [
            (printed("01", &[7; 32], 1), "checksum"),
            (printed("01", &[7; 48], 0), "length"),
            (printed("00", &[7; 20], 0), "length"),
            (printed("04", &[7; 32], 0), "transformation"),
            (good.replace("DHHC-1", "DHHC-2"), "form"),
            (good.trim_end_matches(':').into(), "form"),
            ("DHHC-1:00:AA==:".into(), "short"),
            ("DHHC-1:00:!!!!:".into(), "base64"),
        ];
        for (text, why) in cases {
            let refused = Secret::parse(&text).expect_err(&text);
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(format!("{:?}", Secret::parse(&good)), "Ok(Secret(..))");
    }

    #[test]
    fn a_file_has_one_secret_or_two() {
        let (host, controller) = (printed("00", &[1; 64], 0), printed("02", &[2; 48], 0));
        let one = HostSecrets::parse(&format!("# the host\n\n{host}\n")).expect("one");
        assert!(one.controller.is_none());
        let two = HostSecrets::parse(&format!("{host}\n{controller}")).expect("two");
        assert_eq!((two.host, two.controller.is_some()), (one.host, true));
        assert!(HostSecrets::parse("# nothing\n").is_err());
        assert!(HostSecrets::parse(&format!("{host}\n{host}\n{host}")).is_err());
        let wrong = HostSecrets::parse(&format!("{host}\nsecret")).expect_err("no secret");
        assert!(wrong.starts_with("line 2: ") && !wrong.contains("secret"), "{wrong}");
    }
}
