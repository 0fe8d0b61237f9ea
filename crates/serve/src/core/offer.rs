//! Which namespaces a server has, and which drives it takes.
//!
//! Invariant: names of namespaces differ, and a drive whose namespaces are listed keeps data.

use crate::drive::Served;
use crate::engine::Time;
use crate::session::Namespace;
use pellucid_flash::Interface;

/// Why drives cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no drive.
    #[error("drives: none given; allowed: at least 1")]
    NoDrive,
    /// The drive keeps stamps instead of data.
    #[error(
        "{name}: drive.media.store = \"none\" keeps no data, so a host would read garbage; allowed: \"ram\", \"file\""
    )]
    Stamps {
        /// The drive.
        name: String,
    },
    /// Two drives have one name.
    #[error("{name}: two drives of this name; names must differ")]
    SameName {
        /// The name.
        name: String,
    },
    /// A dilation that is not a number above 0.
    #[error("dilation {value}; allowed: a number above 0")]
    Dilation {
        /// The value.
        value: String,
    },
}

/// The namespaces of a drive. A drive that has one gives it its own name, and so it does that of a layer; of several others, each
/// has its number behind that.
fn namespaces_of(drive: usize, name: &str, served: &Served) -> Vec<Namespace> {
    let interfaces = served.interfaces();
    let named = |number: u16| match interfaces.len() == 1 || served.is_of_layer(number) {
        true => name.to_string(),
        false => format!("{name}.{}", number + 1),
    };
    let namespace = |&(number, interface): &(u16, Interface)| {
        let [sector_bytes, unit_bytes, superpage_bytes] = served.sizes(number);
        Namespace {
            name: named(number),
            drive,
            number,
            interface,
            sectors: interface.address_sectors(),
            sector_bytes,
            unit_bytes,
            superpage_bytes,
            keeps: served.keeps(number),
            target: None,
            gone: false,
        }
    };
    interfaces.iter().map(namespace).collect()
}

/// The namespaces of drives, each with its name, in the order of their numbers.
///
/// # Errors
/// Drives that cannot be served.
pub(super) fn namespaces(drives: &[(String, Served)]) -> Result<Vec<Namespace>, Refusal> {
    if drives.is_empty() {
        return Err(Refusal::NoDrive);
    }
    let mut namespaces: Vec<Namespace> = Vec::new();
    for (number, (name, served)) in drives.iter().enumerate() {
        if served.image_bytes() != served.sizes(0)[0] as usize {
            return Err(Refusal::Stamps { name: name.clone() });
        }
        let of_drive = namespaces_of(number, name, served);
        let taken = |name: &str| namespaces.iter().any(|n| n.name == name);
        if let Some(same) = of_drive.iter().find(|n| taken(&n.name)) {
            return Err(Refusal::SameName { name: same.name.clone() });
        }
        namespaces.extend(of_drive);
    }
    Ok(namespaces)
}

/// Whether time can go like this.
///
/// # Errors
/// A dilation that is none.
pub(super) fn check_time(time: Time) -> Result<(), Refusal> {
    match time {
        Time::Paced { dilation } if !(dilation.is_finite() && dilation > 0.0) => {
            Err(Refusal::Dilation { value: dilation.to_string() })
        }
        _ => Ok(()),
    }
}
