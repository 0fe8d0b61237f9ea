//! Addresses of an application's flash.

use std::fmt;

/// A page of an application's flash: `<channel, LUN, block, page>`, each counted from 0 within the application's flash.
///
/// Calls that concern a block ignore `page`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlashAddress {
    /// Channel.
    pub channel: u32,
    /// LUN of the channel.
    pub lun: u32,
    /// Block of the LUN.
    pub block: u32,
    /// Page of the block.
    pub page: u32,
}

impl FlashAddress {
    /// A page.
    pub const fn new(channel: u32, lun: u32, block: u32, page: u32) -> FlashAddress {
        FlashAddress { channel, lun, block, page }
    }

    /// The first page of the same block.
    #[must_use]
    pub const fn block(self) -> FlashAddress {
        FlashAddress { page: 0, ..self }
    }
}

impl fmt::Display for FlashAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlashAddress { channel, lun, block, page } = self;
        write!(f, "<channel {channel}, LUN {lun}, block {block}, page {page}>")
    }
}
