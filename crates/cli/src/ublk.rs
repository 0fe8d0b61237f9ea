//! Whether the kernel could make a block device of a served drive by itself (ublk, Linux 6.0 and newer).
//!
//! Pellucid does not drive ublk yet: this only finds out what the kernel has, and says which way leads to a block device.

use std::fmt;
use std::path::Path;

/// The device through which ublk devices are made; it is there when the driver is.
const CONTROL: &str = "dev/ublk-control";
const INSTEAD: &str =
    "a block device comes with --nvme-tcp PORT and `nvme connect`, or with --nbd PORT and `nbd-client`";

/// Why there is no ublk device.
#[derive(Debug, PartialEq, Eq)]
pub enum NoUblk {
    /// The kernel has no such driver, or it is not loaded.
    Kernel {
        /// What the kernel calls itself.
        release: String,
    },
    /// The kernel has it, and we do not.
    NotImplemented,
}

impl fmt::Display for NoUblk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoUblk::Kernel { release } => write!(
                f,
                "--ublk: this kernel ({release}) has no ublk: there is no /{CONTROL}; it needs Linux 6.0 or newer and \
                 `modprobe ublk_drv`. {INSTEAD}"
            ),
            NoUblk::NotImplemented => {
                write!(f, "--ublk: this kernel has ublk, but pellucid does not serve over it yet. {INSTEAD}")
            }
        }
    }
}

impl std::error::Error for NoUblk {}

/// Looks at the system below `root`.
pub fn detect(root: &Path) -> NoUblk {
    if root.join(CONTROL).exists() {
        return NoUblk::NotImplemented;
    }
    let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    NoUblk::Kernel { release: release.map_or_else(|_| "unknown".into(), |text| text.trim().to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked() {
        let root = std::env::temp_dir().join(format!("pellucid-ublk-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/sys/kernel")).expect("a temporary directory");
        std::fs::write(root.join("proc/sys/kernel/osrelease"), "5.10.0-1\n").expect("a file");
        assert_eq!(detect(&root), NoUblk::Kernel { release: "5.10.0-1".into() });
        assert!(detect(&root).to_string().contains("modprobe ublk_drv"));
        std::fs::create_dir_all(root.join("dev")).expect("a temporary directory");
        std::fs::write(root.join(CONTROL), "").expect("a file");
        assert_eq!(detect(&root), NoUblk::NotImplemented);
        std::fs::remove_dir_all(root).expect("ours");
    }
}
