//! Files of secrets, which are private to their owner and never shown, and randomness for keys.

use ring::rand::{SecureRandom, SystemRandom};
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
pub fn load<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, SecretError> {
    let refused = |reason: String| SecretError { path: path.into(), reason };
    let data = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    let mode = data.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(refused(format!("mode {mode:04o} lets others at the secret; allowed: 0600, 0400")));
    }
    if data.len() > FILE_BYTES_MAX {
        return Err(refused(format!("{} bytes; allowed: at most {FILE_BYTES_MAX}", data.len())));
    }
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData => refused("no text; allowed: secrets in text".into()),
        _ => refused(error.to_string()),
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    parse(&text).map_err(refused)
}

/// Fills `bytes` from the system's source of randomness for keys; returns false if it has none.
pub(crate) fn draw_random(bytes: &mut [u8]) -> bool {
    SystemRandom::new().fill(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_secrets_is_for_its_owner() {
        let path = std::env::temp_dir().join(format!("pellucid-secret-{}", std::process::id()));
        std::fs::write(&path, "hidden").expect("a file");
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
        let parse = |text: &str| if text == "hidden" { Ok(()) } else { Err("no secret".to_string()) };
        mode(0o640).expect("mode");
        let refused = load(&path, parse).expect_err("others may read it").to_string();
        assert!(refused.contains("mode 0640") && !refused.contains("hidden"), "{refused}");
        mode(0o600).expect("mode");
        assert_eq!(load(&path, parse), Ok(()));
        std::fs::write(&path, "other").expect("a file");
        assert!(load(&path, parse).expect_err("no secret").to_string().ends_with("no secret"));
        std::fs::write(&path, [0xff, 0xfe]).expect("a file");
        assert!(
            load(&path, parse)
                .expect_err("no text")
                .to_string()
                .ends_with("no text; allowed: secrets in text")
        );
        std::fs::remove_file(&path).expect("removed");
        assert!(load(&path, parse).is_err());
    }
}
