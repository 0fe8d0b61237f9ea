//! Serial numbers of drives.

use pellucid_flash::{FNV_BASIS, fnv1a};
use pellucid_media::StoreKind;
use pellucid_target::Drives;
use pellucid_target::operation::Namespace;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::core::Core;

/// Serial number of the drive called `name`. It differs between drives of one name, so that a host does not
/// take them for two paths to one drive. It derives from the name, the size, the seed of the media, and the
/// path of their file, if any, and is stable as long as these are.
pub fn serial_number(name: &str, drive: usize, core: &Core) -> String {
    let own = |namespace: &&Namespace| namespace.drive == drive && namespace.target.is_none();
    let bytes: u64 = core.namespaces().iter().filter(own).map(Namespace::bytes).sum();
    let first = core.namespaces().iter().position(|namespace| own(&namespace));
    let media = first.and_then(|namespace| core.device(namespace)).map(|device| &device.config().media);
    let seed = media.map_or(0, |media| media.seed);
    let file = match media.map(|media| &media.store) {
        Some(StoreKind::File(path)) => std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
        _ => PathBuf::new(),
    };
    let numbers = [bytes, seed].into_iter().flat_map(u64::to_be_bytes);
    let parts = name.bytes().chain([0]).chain(numbers).chain(file.as_os_str().as_bytes().iter().copied());
    format!("{:016X}", fnv1a(FNV_BASIS, parts))
}
