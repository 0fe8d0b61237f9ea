//! Errors of calls that a level refuses without sending anything to the drive.

use crate::{FlashAddress, SsdGeometry};
use thiserror::Error;

/// A refused call; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LevelError {
    /// The namespace has no blocks.
    #[error("namespace {0} is not an open-channel one; the flash library needs channels, LUNs and blocks")]
    NotFlash(u16),
    /// The page does not exist.
    #[error("{address}: not in this application's flash, which has {geometry}")]
    OutOfRange {
        /// The page.
        address: FlashAddress,
        /// Geometry of the flash.
        geometry: SsdGeometry,
    },
    /// More pages than the rest of the block has, or none.
    #[error("{pages} pages from {address} on: allowed: 1 to {left}, the pages left in its block")]
    Pages {
        /// First page.
        address: FlashAddress,
        /// Number of pages wanted.
        pages: u32,
        /// Number of pages left.
        left: u32,
    },
    /// Data or out-of-band data of the wrong length.
    #[error("{what} of {bytes} bytes: allowed: {allowed}")]
    Length {
        /// Item of this length.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// Allowed lengths.
        allowed: String,
    },
    /// The level is still reading the content of the flash.
    #[error("the level is still starting: it reads the contents of the flash")]
    NotReady,
    /// The channel does not exist.
    #[error("channel {channel}: allowed: 0 to {}", .channels - 1)]
    NoChannel {
        /// The channel.
        channel: u32,
        /// Number of channels.
        channels: u32,
    },
    /// All blocks of a channel are mapped, except for the reserve.
    #[error("channel {channel} has no free block beside the reserve of {ops} %; give blocks back first")]
    NoBlock {
        /// The channel.
        channel: u32,
        /// Over-provisioning in percent.
        ops: u32,
    },
    /// The block is not mapped.
    #[error("{address}: this block is not mapped")]
    NotMapped {
        /// The block.
        address: FlashAddress,
    },
    /// A write to the block has failed.
    #[error(
        "{address}: a write to this block has failed, so it takes no more writes; copy its data, and give the block back"
    )]
    Broken {
        /// The block.
        address: FlashAddress,
    },
    /// The pages of a block must be written in order.
    #[error("{address}: the next page to write in this block is {next}")]
    OutOfOrder {
        /// The page.
        address: FlashAddress,
        /// The next page to write.
        next: u32,
    },
    /// Sectors to be read are unwritten, or still held back by the drive.
    #[error(
        "{sectors} sectors from sector {sector} behind {address} on: {readable} sectors of this block can be read"
    )]
    Unwritten {
        /// The page.
        address: FlashAddress,
        /// Sectors after its beginning.
        sector: u32,
        /// Sectors wanted.
        sectors: u32,
        /// Readable sectors, from the beginning of the block.
        readable: u32,
    },
    /// Too many blocks are mapped for the reserve.
    #[error(
        "over-provisioning of {percent} %: {release} more blocks would have to be given back; allowed: 0 to 99"
    )]
    Ops {
        /// Over-provisioning in percent.
        percent: u32,
        /// Number of blocks too many.
        release: u32,
    },
}
