//! Configuration of a file drive: its file and how it is used.

use pellucid_flash::Interface;
use pellucid_text::Quantity;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Prefix of a file drive's name.
const SCHEME: &str = "file:";
const ALLOWED: &str = "allowed: file:PATH, then perhaps ,size=SIZE such as 10GiB or 10g (1024-based), ,sector=512..65536 (a power of two), \
                       ,direct=true|false, ,threads=1..64";

/// Configuration of a file drive, as in its name: `file:PATH[,KEY=VALUE,...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Path of a regular file or a block device.
    pub path: PathBuf,
    /// Size of a new file, created if it is missing; `None`: the file must exist.
    pub size_bytes: Option<u64>,
    /// Bytes per sector.
    pub sector_bytes: u32,
    /// Bypass the system's page cache (`O_DIRECT`).
    pub direct: bool,
    /// Number of threads, and so of concurrent operations on the file.
    pub threads: usize,
}

/// Error for a file that cannot be used as a drive.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The name is malformed.
    #[error("{text}: {why}; {ALLOWED}")]
    Name {
        /// Name as given.
        text: String,
        /// Problem with the name.
        why: String,
    },
    /// The system refuses an operation.
    #[error("{}: {action}: {source}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Operation that failed.
        action: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is unsuitable.
    #[error("{}: {why}", .path.display())]
    Unfit {
        /// Path of the file.
        path: PathBuf,
        /// Reason, and what is allowed.
        why: String,
    },
}

impl FileConfig {
    /// Smallest and largest bytes of a sector, which are a power of two.
    pub const SECTOR_BYTES: [u32; 2] = [512, 65_536];

    /// Configures an existing file or block device with the usual settings.
    pub fn new(path: impl Into<PathBuf>) -> FileConfig {
        FileConfig { path: path.into(), size_bytes: None, sector_bytes: 4096, direct: false, threads: 4 }
    }

    /// Returns true if `text` names a file drive, whether well-formed or not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The default name of a drive on this file.
    pub fn drive_name(&self) -> String {
        let stem = self.path.file_stem().map_or_else(|| "file".into(), |stem| stem.to_string_lossy());
        let good = |c: char| if c.is_alphanumeric() || " ._-()".contains(c) { c } else { '_' };
        stem.trim_start_matches('.').chars().map(good).collect()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let refuse = || format!("{key} = {value}");
        match key {
            "size" => self.size_bytes = Some(Quantity::Size.read_text(value).ok_or_else(refuse)?),
            "sector" => {
                let bytes = Quantity::Size.read_text(value).filter(|bytes| bytes.is_power_of_two());
                let [least, most] = FileConfig::SECTOR_BYTES.map(u64::from);
                let bytes = bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(refuse)?;
                self.sector_bytes = bytes as u32;
            }
            "direct" => self.direct = value.parse().map_err(|_| refuse())?,
            "threads" => {
                let threads = value.parse().ok().filter(|threads| (1..=64).contains(threads));
                self.threads = threads.ok_or_else(refuse)?;
            }
            _ => return Err(format!("no such key: {key}")),
        }
        Ok(())
    }
}

impl FromStr for FileConfig {
    type Err = FileError;

    fn from_str(text: &str) -> Result<FileConfig, FileError> {
        let refuse = |why: String| FileError::Name { text: text.into(), why };
        let Some(rest) = text.strip_prefix(SCHEME) else { return Err(refuse("no file: before it".into())) };
        // A comma in the name of an existing file is part of the name.
        let (path, settings) = match rest.split_once(',') {
            Some((path, settings)) if !Path::new(rest).exists() => (path, settings),
            _ => (rest, ""),
        };
        if path.is_empty() {
            return Err(refuse("no path".into()));
        }
        let mut config = FileConfig::new(path);
        for setting in settings.split(',').filter(|_| !settings.is_empty()) {
            let (key, value) =
                setting.split_once('=').ok_or_else(|| refuse(format!("no value: {setting}")))?;
            config.set(key, value).map_err(refuse)?;
        }
        Ok(config)
    }
}

/// Interface of a drive of this size.
pub(super) fn interface(bytes: u64, sector_bytes: u32) -> Interface {
    Interface::Block { sectors: bytes / u64::from(sector_bytes), handles: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_refused_with_what_is_allowed() {
        let good: FileConfig =
            "file:/a/b.img,size=3GiB,sector=512,direct=true,threads=8".parse().expect("good");
        let expected = FileConfig {
            path: "/a/b.img".into(),
            size_bytes: Some(3 << 30),
            sector_bytes: 512,
            direct: true,
            threads: 8,
        };
        assert_eq!(good, expected);
        assert_eq!(good.drive_name(), "b");
        let short = "file:x,size=1.5g,sector=4k".parse::<FileConfig>().expect("good");
        assert_eq!((short.size_bytes, short.sector_bytes), (Some(3 << 29), 4096));
        assert_eq!("file:x".parse::<FileConfig>().expect("good"), FileConfig::new("x"));
        let bad = ["x", "file:", "file:x,size", "file:x,size=1GB", "file:x,sector=1000", "file:x,direct=2"];
        for bad in bad.iter().chain(&["file:x,threads=0", "file:x,color=red", "file:x,size=99999999TiB"]) {
            let why = bad.parse::<FileConfig>().expect_err(bad).to_string();
            assert!(why.contains("file:PATH") && why.starts_with(bad), "{why}");
        }
    }
}
