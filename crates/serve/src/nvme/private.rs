//! Files of secrets: for their owner only, and never shown.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a file of secrets; two secrets and some comments are far less.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Why a file of secrets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it; nothing of its content.
    pub reason: String,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for SecretError {}

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
