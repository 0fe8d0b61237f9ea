//! Why a level refuses a call before it reaches the drive.

use crate::{FlashAddress, SsdGeometry};
use thiserror::Error;

/// A call that is refused; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LevelError {
    /// The namespace has no blocks.
    #[error("namespace {0} is not an open-channel one; the flash library needs channels, LUNs and blocks")]
    NotFlash(u16),
    /// There is no such page.
    #[error("{address}: not in this application's flash, which has {geometry}")]
    OutOfRange {
        /// The page.
        address: FlashAddress,
        /// What there is.
        geometry: SsdGeometry,
    },
    /// More pages than the block has from there on, or none.
    #[error("{pages} pages from {address} on: allowed: 1 to the {left} that its block has from there")]
    Pages {
        /// First page.
        address: FlashAddress,
        /// How many were wanted.
        pages: u32,
        /// How many there are.
        left: u32,
    },
    /// Data or out-of-band data of the wrong length.
    #[error("{what} of {bytes} bytes: allowed: {allowed}")]
    Length {
        /// What has this length.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// Which lengths there are.
        allowed: String,
    },
}
