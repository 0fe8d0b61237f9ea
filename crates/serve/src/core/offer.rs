//! The namespaces of a server, and the drives that it accepts.
//!
//! Invariant: names of namespaces are unique, and a drive with listed namespaces keeps data.

use crate::drive::Served;
use crate::engine::Time;
use pellucid_flash::Interface;
use pellucid_target::operation::Namespace;

/// Error for drives that cannot be served.
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
        /// Name of the drive.
        name: String,
    },
    /// Two drives have the same name.
    #[error("{name}: two drives of this name; names must differ")]
    SameName {
        /// The common name.
        name: String,
    },
    /// The dilation is not a number above 0.
    #[error("dilation {value}; allowed: a number above 0")]
    Dilation {
        /// Value as given.
        value: String,
    },
}

/// Lists the namespaces of a drive. A single namespace, or the namespace of a layer, has the drive's name;
/// each of several others has its number appended, and that of an application its name.
fn namespaces_of(drive: usize, name: &str, served: &Served) -> Vec<Namespace> {
    let interfaces = served.interfaces();
    let application = |number: u16| served.bottom().apps().and_then(|apps| apps.name(number));
    let named = |number: u16| match (
        application(number),
        interfaces.len() == 1 || served.namespace(number).is_of_layer(),
    ) {
        (Some(application), _) => format!("{name}.{application}"),
        (None, true) => name.to_string(),
        (None, false) => format!("{name}.{}", number + 1),
    };
    let namespace = |&(number, interface): &(u16, Interface)| {
        let [sector_bytes, unit_bytes, superpage_bytes] = served.namespace(number).sizes();
        Namespace {
            name: named(number),
            drive,
            number,
            interface,
            sectors: interface.address_sectors(),
            sector_bytes,
            unit_bytes,
            superpage_bytes,
            keeps: served.namespace(number).keeps(),
            target: application(number),
            gone: false,
        }
    };
    interfaces.iter().map(namespace).collect()
}

/// Lists the namespaces of all drives with their names, in the order of their numbers.
///
/// # Errors
/// Refuses drives that cannot be served.
pub(super) fn namespaces(drives: &[(String, Served)]) -> Result<Vec<Namespace>, Refusal> {
    if drives.is_empty() {
        return Err(Refusal::NoDrive);
    }
    let mut namespaces: Vec<Namespace> = Vec::new();
    for (number, (name, served)) in drives.iter().enumerate() {
        if served.image_bytes() != served.namespace(0).sizes()[0] as usize {
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

/// Checks a time mode.
///
/// # Errors
/// Refuses an invalid dilation.
pub(super) fn check_time(time: Time) -> Result<(), Refusal> {
    match time {
        Time::Paced { dilation } if !(dilation.is_finite() && dilation > 0.0) => {
            Err(Refusal::Dilation { value: dilation.to_string() })
        }
        _ => Ok(()),
    }
}
