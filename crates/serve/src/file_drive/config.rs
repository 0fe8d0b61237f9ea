//! Which file, and how it is used.

use pellucid_flash::Interface;
use pellucid_text::Quantity;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What the name of a file drive begins with.
const SCHEME: &str = "file:";
const ALLOWED: &str = "allowed: file:PATH, then perhaps ,size=SIZE such as 10GiB or 10g (1024-based), ,sector=512..65536 (a power of two), \
                       ,direct=true|false, ,threads=1..64";

/// A file drive as it is named: `file:PATH[,KEY=VALUE,...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// A regular file or a block device.
    pub path: PathBuf,
    /// Makes a file of this size where there is none; `None`: it must be there.
    pub size_bytes: Option<u64>,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Past the system's page cache (`O_DIRECT`).
    pub direct: bool,
    /// Threads, which is how many operations the file sees at once.
    pub threads: usize,
}

/// Why a file cannot be used as a drive.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A name that says nothing.
    #[error("{text}: {why}; {ALLOWED}")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system refuses.
    #[error("{}: {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// It is not what is needed.
    #[error("{}: {why}", .path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why, and what is allowed.
        why: String,
    },
}

impl FileConfig {
    /// A file or block device that is there, with the usual settings.
    pub fn new(path: impl Into<PathBuf>) -> FileConfig {
        FileConfig { path: path.into(), size_bytes: None, sector_bytes: 4096, direct: false, threads: 4 }
    }

    /// Whether `text` names a file drive, a good one or not.
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
                let bytes = bytes.filter(|bytes| (512..=65536).contains(bytes)).ok_or_else(refuse)?;
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
        // A comma in the name of a file that is there is part of that name.
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

/// What a drive of so many bytes offers.
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
