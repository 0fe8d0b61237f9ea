//! In-band authentication with DH-HMAC-CHAP (Base 8.3.5): a host proves that it knows its secret; on request,
//! the controller proves that it knows its own.
//!
//! ```text
//!   text ─► secret: HostSecrets ─► transaction: Authentication, one for each queue ◄─► connection/authentication
//!                              └─► host: authenticate, of a host of ours                      group: for both
//! ```
//! With the null group, an eavesdropper can later try passwords against the exchange, so secrets should be
//! random, as `nvme gen-dhchap-key` makes them. No group protects the data that follow.
//!
//! Invariant: errors and `Debug` output never show a secret, key or response.

mod group;
mod host;
mod secret;
mod transaction;

pub use host::{Step as HostStep, authenticate};
pub use pellucid_wire::nvme::auth::DhGroup;
pub use secret::HostSecrets;
pub(super) use transaction::{Authentication, MESSAGE_BYTES_MAX, Refusal};

use pellucid_wire::nvme::auth::AuthHash;
use ring::{digest, hmac};
use secret::Secret;

/// The server's source of randomness: fills the bytes, and returns false if it has none.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> bool;

/// Error for a source that has no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NoRandomness;

/// Fills `bytes`.
fn draw(bytes: &mut [u8], random: Random<'_>) -> Result<(), NoRandomness> {
    if random(bytes) { Ok(()) } else { Err(NoRandomness) }
}

/// Inputs of a response beside key and challenge: both ends and the transaction.
#[derive(Clone, Copy, Debug)]
struct Context<'a> {
    hash: AuthHash,
    transaction: u16,
    sequence: u32,
    /// Name of the responder.
    from: &'a str,
    /// Name of the challenger.
    to: &'a str,
}

impl Context<'_> {
    /// Computes the host's response to C1.
    fn of_host(&self, secret: &Secret, challenge: &[u8]) -> hmac::Tag {
        self.response(secret, challenge, "HostHost")
    }

    /// Computes the controller's response to C2.
    fn of_controller(&self, secret: &Secret, challenge: &[u8]) -> hmac::Tag {
        self.response(secret, challenge, "Controller")
    }

    /// Computes a response as an HMAC with the responder's key. SC_C is always 0: no secure channel follows.
    fn response(&self, secret: &Secret, challenge: &[u8], role: &str) -> hmac::Tag {
        let key = hmac::Key::new(algorithm(self.hash), &secret.transformed(self.from));
        let mut response = hmac::Context::with_key(&key);
        response.update(challenge);
        response.update(&self.sequence.to_le_bytes());
        response.update(&self.transaction.to_le_bytes());
        response.update(&[0]);
        response.update(role.as_bytes());
        response.update(self.from.as_bytes());
        response.update(&[0]);
        response.update(self.to.as_bytes());
        response.sign()
    }
}

/// Challenge that the response covers: with a group, the sent challenge combined with the shared value.
fn augmented(hash: AuthHash, shared: Option<&[u8]>, challenge: &[u8]) -> Vec<u8> {
    let Some(shared) = shared else { return challenge.to_vec() };
    let key = digest::digest(algorithm(hash).digest_algorithm(), shared);
    hmac::sign(&hmac::Key::new(algorithm(hash), key.as_ref()), challenge).as_ref().to_vec()
}

fn algorithm(hash: AuthHash) -> hmac::Algorithm {
    match hash {
        AuthHash::Sha256 => hmac::HMAC_SHA256,
        AuthHash::Sha384 => hmac::HMAC_SHA384,
        AuthHash::Sha512 => hmac::HMAC_SHA512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Columns of the vectors: see `tools/dhchap_vectors.py`.
    #[test]
    fn responses_are_those_of_an_independent_implementation() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dhchap-vectors.txt");
        let text = std::fs::read_to_string(path).expect("the vectors");
        let mut seen = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split(' ').collect();
            let [secret, hash, transaction, sequence, host, subsystem, challenge, of_host, of_controller] =
                columns[..]
            else {
                panic!("{line}")
            };
            let secret = Secret::parse(secret).expect("a secret");
            let number = |text: &str| text.parse::<u32>().expect("a number");
            let host_to_controller = Context {
                hash: AuthHash::from_raw(number(hash) as u8).expect("a hash"),
                transaction: number(transaction) as u16,
                sequence: number(sequence),
                from: host,
                to: subsystem,
            };
            let back = Context { from: subsystem, to: host, ..host_to_controller };
            let challenge = bytes(challenge);
            assert_eq!(host_to_controller.of_host(&secret, &challenge).as_ref(), bytes(of_host), "{line}");
            assert_eq!(back.of_controller(&secret, &challenge).as_ref(), bytes(of_controller), "{line}");
            seen += 1;
        }
        assert_eq!(seen, 18, "three hashes with each of six kinds of secrets");
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }
}
