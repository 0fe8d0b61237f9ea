//! Files of secrets, which are private to their owner and never shown, and the text form of keys for
//! authentication and TLS.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file of secrets; two secrets and some comments need far less.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Error of a file of secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .path.display(), .reason)]
pub struct SecretError {
    /// Path of the file.
    pub path: PathBuf,
    /// Problem with the file, without its content.
    pub reason: String,
}

/// Reads a file, which only its owner may access, and parses it with `parse`.
///
/// # Errors
/// Fails if the file cannot be read, has permissions for others, or is refused by `parse`.
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

/// Lines that are neither empty nor comments (`#`), numbered from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Splits `PREFIX:XX:BASE64:` into the transformation and the encoded key.
pub(super) fn printed_fields<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let fields = text.strip_prefix(prefix)?.strip_prefix(':')?.strip_suffix(':')?;
    fields.split_once(':')
}

/// Decodes a key, which ends with its checksum.
///
/// # Errors
/// Describes the problem without the key; returns `wrong_length` if `fits` rejects its length.
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
