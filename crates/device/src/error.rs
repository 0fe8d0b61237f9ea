//! Why a drive cannot be made: a setting, the media, or what they hold, refuses.

use pellucid_ftl::SetupError;
use pellucid_media::MediaError;
use std::path::PathBuf;

/// Why a drive cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The media refuse.
    #[error("{0}")]
    Media(MediaError),
    /// Translation refuses.
    #[error("{0}")]
    Translation(SetupError),
    /// A nameless namespace cannot be made: a sentence.
    #[error("{0}")]
    Nameless(String),
    /// The data were written under another description, and would be misread or not be found.
    #[error(
        "{}the description has {described}, but the data were written with {made}; allowed: the same, or another file",
        .file.as_ref().map_or_else(String::new, |file| format!("{}: ", file.display()))
    )]
    Kept {
        /// The file of the media, where their store has one.
        file: Option<PathBuf>,
        /// The setting that the data were written with.
        made: String,
        /// The setting of the description.
        described: String,
    },
    /// A controller setting is out of range.
    #[error("{key}: allowed: {allowed}")]
    Setting {
        /// The key as in the TOML description.
        key: &'static str,
        /// Values that are allowed.
        allowed: &'static str,
    },
}
