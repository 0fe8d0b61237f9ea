//! Files of secrets: for their owner only, and never shown; and the printed form of keys, which is the same for authentication and TLS.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a file of secrets; two secrets and some comments are far less.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Why a file of secrets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .path.display(), .reason)]
pub struct SecretError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it; nothing of its content.
    pub reason: String,
}

/// Reads a file, which must be for its owner only, and has `parse` make something of it.
///
/// # Errors
/// A file that cannot be read, that others may read or write, or what `parse` says.
pub(super) fn load<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, SecretError> {
    let refused = |reason: String| SecretError { path: path.into(), reason };
    let data = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    let mode = data.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(refused(format!("mode {mode:04o} lets others at the secret; allowed: 0600, 0400")));
    }
    if data.len() > FILE_BYTES_MAX {
        return Err(refused(format!("{} bytes; allowed: at most {FILE_BYTES_MAX}", data.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    parse(&text).map_err(refused)
}

/// Lines that are neither empty nor comments (`#`), with their numbers from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The transformation and the encoded key of `PREFIX:XX:BASE64:`.
pub(super) fn printed_fields<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let fields = text.strip_prefix(prefix)?.strip_prefix(':')?.strip_suffix(':')?;
    fields.split_once(':')
}

/// The key of such an encoding, which ends with its checksum.
///
/// # Errors
/// What is wrong, without the key; `wrong_length` if `fits` does not hold for its bytes.
pub(super) fn printed_key(
    encoded: &str,
    fits: impl FnOnce(usize) -> bool,
    wrong_length: &'static str,
) -> Result<Vec<u8>, &'static str> {
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| "the key is not base64")?;
    let (key, checksum) = bytes.split_last_chunk().ok_or("the key is too short")?;
    if !fits(key.len()) {
        return Err(wrong_length);
    }
    if crc32fast::hash(key) != u32::from_le_bytes(*checksum) {
        return Err("the checksum of the key is wrong: a character is lost or mistyped");
    }
    Ok(key.to_vec())
}
