//! Errors other than the faults of flash itself: a refused description, a broken rule, a bad image file.

use crate::Health;
use pellucid_flash::GeometryError;
use std::io;
use std::path::PathBuf;

/// An operation that real flash forbids. It changed nothing. `die` and `block` as in [`pellucid_flash::Layout`], the
/// block counted within its die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The superpage has been programmed, torn or half erased since the last complete erase of its block.
    #[error("program of die {die} block {block} superpage {superpage}: not erased since it was last written")]
    NotErased {
        /// Die.
        die: u32,
        /// Block of the die.
        block: u32,
        /// Superpage of the block.
        superpage: u32,
    },
    /// Superpages of a block are programmed in order, each from its first unit on.
    #[error(
        "program of die {die} block {block} superpage {superpage} unit {unit}: out of order, \
         the block continues at superpage {next_superpage} unit 0"
    )]
    OutOfOrder {
        /// Die.
        die: u32,
        /// Block of the die.
        block: u32,
        /// Superpage asked for.
        superpage: u32,
        /// Unit of the superpage at which the program was to start (must be 0).
        unit: u32,
        /// The only superpage that may be programmed now.
        next_superpage: u32,
    },
    /// A bad block is neither programmed nor erased.
    #[error("program or erase of die {die} block {block}: the block is bad {}", since(*.health))]
    BadBlock {
        /// Die.
        die: u32,
        /// Block of the die.
        block: u32,
        /// Reason why it is bad.
        health: Health,
    },
    /// Another program or erase of the block has begun and not ended.
    #[error("program or erase of die {die} block {block}: another operation there has not ended")]
    Busy {
        /// Die.
        die: u32,
        /// Block of the die.
        block: u32,
    },
    /// Sequence numbers of a block's superpages lie in the `2^32 - 1` numbers from that of its first superpage on, the range that its
    /// spare area can hold.
    #[error(
        "program of die {die} block {block} superpage {superpage}: sequence {sequence} does not lie in the \
         2^32 - 1 numbers from {first} on, the sequence of the block's first superpage"
    )]
    Sequence {
        /// Die.
        die: u32,
        /// Block of the die.
        block: u32,
        /// Superpage of the block.
        superpage: u32,
        /// The sequence number asked for.
        sequence: u64,
        /// The sequence number of the block's first superpage.
        first: u64,
    },
}

/// Reason why a block is bad.
fn since(health: Health) -> &'static str {
    if health == Health::FactoryBad { "from the factory" } else { "since it failed" }
}

/// Reason why media cannot be made from a description.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The shape is refused.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Another key is refused.
    #[error("{key} = {value}: allowed: {allowed}")]
    Config {
        /// The offending key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// The image file is refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Defect of an image file. `docs/reference/media-image.md` describes the format.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The image file.
        path: PathBuf,
        /// Attempted operation, as in "cannot ...".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The system gives no memory for the tables of a store in memory.
    #[error(
        "a store in memory takes {needed_bytes} bytes for its tables alone, which the system does not give; allowed: a smaller drive, \
         a store in a file, or a higher limit of memory"
    )]
    Memory {
        /// Bytes that the tables take.
        needed_bytes: u64,
    },
    /// Another process, or another drive of this one, has the image open.
    #[error("{}: in use by another drive; one image serves one drive at a time", .path.display())]
    InUse {
        /// The image file.
        path: PathBuf,
    },
    /// The file exists but is empty: any former content is gone.
    #[error("{}: the file is there and empty, so what it held is gone; restore it from a copy, \
                 or delete it to start with a new drive", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file does not start with the magic number of an image.
    #[error("{}: not a media image (no magic number PELLUCID); \
                 name another file, or delete this one to create it anew", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },
    /// The image has another format version.
    #[error("{}: image format version {found}, but this program knows version {supported} only; \
                 open it with the program that made it", .path.display())]
    Version {
        /// The image file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that this program reads and writes.
        supported: u32,
    },
    /// The image was made with another geometry, or by a drive that interprets the stored data differently.
    #[error("{}: {key} is {image} in the image and {description} in the description; \
                 use the description that the image was made with, or name another file", .path.display())]
    Geometry {
        /// The image file.
        path: PathBuf,
        /// The first key that differs.
        key: &'static str,
        /// Its value in the image.
        image: u64,
        /// Its value in the description.
        description: u64,
    },
    /// The file is shorter or longer than its header says.
    #[error("{}: {found} bytes long, but its geometry needs {expected}; it was cut off or extended: \
                 restore it from a copy", .path.display())]
    Length {
        /// The image file.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The length that its header and geometry imply, in bytes.
        expected: u64,
    },
    /// A checksum is wrong or a field holds an impossible value.
    #[error("{}: {what}; restore the image from a copy", .path.display())]
    Damaged {
        /// The image file.
        path: PathBuf,
        /// Damaged part of the image.
        what: String,
    },
    /// The disk has no space for the image, or cannot reserve any.
    #[error("{}: cannot reserve {:.1} MB for the media: {source}; allowed: a file system that can and has the space, \
                 or drive.media.space = \"sparse\", which takes space as it is written", .path.display(), *.bytes as f64 / 1e6)]
    NoSpace {
        /// The image file.
        path: PathBuf,
        /// Size of the image.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// Media with a file store cannot be copied in memory.
    #[error("{}: media in a file cannot be forked; copy the file (cp --sparse=always) and open the copy", .path.display())]
    NotForkable {
        /// The image file.
        path: PathBuf,
    },
}
