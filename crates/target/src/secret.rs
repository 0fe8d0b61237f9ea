//! The text form of keys for authentication and TLS.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Lines that are neither empty nor comments (`#`), numbered from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Splits `PREFIX:XX:BASE64:` into the transformation and the encoded key.
pub(crate) fn printed_fields<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let fields = text.strip_prefix(prefix)?.strip_prefix(':')?.strip_suffix(':')?;
    fields.split_once(':')
}

/// Decodes a key, which ends with its checksum.
///
/// # Errors
/// Describes the problem without the key; returns `wrong_length` if `fits` rejects its length.
pub(crate) fn printed_key(
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
