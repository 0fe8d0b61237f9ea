//! Errors of calls that a level refuses before they reach the drive.

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
        /// Geometry that the address does not fit.
        geometry: SsdGeometry,
    },
    /// More pages than the block has from there on, or none.
    #[error("{pages} pages from {address} on: allowed: 1 to {left}, the pages left in its block")]
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
        /// Item that has this length.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// Allowed lengths.
        allowed: String,
    },
    /// The level has not read yet what is on the flash.
    #[error("the level is still starting: it reads the contents of the flash")]
    NotReady,
    /// There is no such channel.
    #[error("channel {channel}: allowed: 0 to {}", .channels - 1)]
    NoChannel {
        /// The channel.
        channel: u32,
        /// How many there are.
        channels: u32,
    },
    /// Everything in a channel is mapped, but for the reserve.
    #[error("channel {channel} has no free block beside the reserve of {ops} %; give blocks back first")]
    NoBlock {
        /// The channel.
        channel: u32,
        /// Percent of over-provisioning.
        ops: u32,
    },
    /// The application does not have this block.
    #[error("{address}: this block is not mapped")]
    NotMapped {
        /// The block.
        address: FlashAddress,
    },
    /// A write of the block has failed.
    #[error(
        "{address}: a write to this block has failed, so it takes no more writes; copy its data, and give the block back"
    )]
    Broken {
        /// The block.
        address: FlashAddress,
    },
    /// The pages of a block are written in order.
    #[error("{address}: the next page to write in this block is {next}")]
    OutOfOrder {
        /// The page.
        address: FlashAddress,
        /// The page whose turn it is.
        next: u32,
    },
    /// Something is read that was not written, or that the drive still holds back.
    #[error(
        "{sectors} sectors from sector {sector} behind {address} on: {readable} sectors of this block can be read"
    )]
    Unwritten {
        /// The page.
        address: FlashAddress,
        /// Sectors behind its beginning.
        sector: u32,
        /// Sectors wanted.
        sectors: u32,
        /// Sectors that can be read, from the beginning of the block.
        readable: u32,
    },
    /// The reserve cannot be had.
    #[error(
        "over-provisioning of {percent} %: {release} more blocks would have to be given back; allowed: 0 to 99"
    )]
    Ops {
        /// Percent of over-provisioning.
        percent: u32,
        /// Blocks too many.
        release: u32,
    },
}
