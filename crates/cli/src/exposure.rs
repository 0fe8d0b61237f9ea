//! Exposure: one rule for every server that listens on an address.
//!
//! An address that other machines can reach is opened only to peers who prove who they are, or where `--open` says that anybody may.

use crate::failure::Failure;
use anyhow::anyhow;
use pellucid_serve::Address;

/// Refuses an address that other machines can reach. `proof`: the options by which peers prove who they are.
pub fn check(protocol: &str, address: &Address, proof: &str) -> Result<(), Failure> {
    match address {
        Address::Tcp(tcp) if !tcp.ip().to_canonical().is_loopback() => Err(Failure::asked(anyhow!(
            "{protocol} {address}: other machines can reach this address, and could read and change the drive; \
             allowed: 127.0.0.1, [::1], any address with {proof}, or with --open, which lets everybody in"
        ))),
        Address::Tcp(_) | Address::Unix(_) => Ok(()),
    }
}
