//! Identify (Base 5.1.13): describes the subsystem, its controllers and namespaces.

use super::controller::{Controller, Kind};
use super::subsystem::Subsystem;
use super::{
    ABORTS_MAX, ASYNC_EVENTS_MAX, ERROR_ENTRIES_MAX, IN_CAPSULE_BYTES_MAX, QUEUE_ENTRIES_MAX,
    TRANSFER_MAX_SHIFT, fdp, open_channel, zns,
};
use crate::operation::Namespace;
use crate::session::Port;
use pellucid_flash::{Interface, ZoneGeometry};
use pellucid_wire::nvme::{
    AsyncEventConfig, Cns, CommandSet, ControllerType, DISCOVERY_NQN, IdentifyController, IdentifyNamespace,
    IndependentNamespace, LbaFormat, NamespaceIdentifiers, NvmControllerCapabilities, NvmNamespace, Status,
    SubmissionEntry, Version, ascii, namespace_list, nqn,
};

/// Length of every structure that Identify returns.
pub(super) const BYTES: usize = 4096;
/// Firmware revision: the version of this crate.
pub(super) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");
/// Temperature above which the drive would ask for cooling (70 degrees Celsius). It has no thermal model, so
/// it never does.
pub(super) const WARNING_TEMPERATURE_K: u16 = 343;
const CRITICAL_TEMPERATURE_K: u16 = 358;

/// Builds the page of an Identify command, for an I/O controller or a discovery controller (`subsystem` is
/// `None`).
pub(super) fn page(
    controller: &Controller,
    subsystem: Option<&Subsystem>,
    entry: &SubmissionEntry,
    port: &Port<'_>,
) -> Result<[u8; BYTES], Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let cns = Cns::from_raw(Cns::raw_of(entry)).ok_or(invalid)?;
    let Some(subsystem) = subsystem else {
        return if cns == Cns::Controller {
            Ok(discovery_controller(controller).encode())
        } else {
            Err(invalid)
        };
    };
    let nsid = entry.nsid();
    let zoned = asks_for_zoned(subsystem, entry, cns, port)?;
    match cns {
        Cns::Controller => Ok(io_controller(controller, subsystem, port).encode()),
        Cns::Namespace | Cns::AllocatedNamespace => Ok(namespace(subsystem, nsid, port)?.encode()),
        Cns::ActiveNamespaces | Cns::AllocatedNamespaces => list(subsystem.nsids(), nsid),
        Cns::CommandSetActiveNamespaces => {
            let of_set = |nsid: &u32| zones_of(subsystem, *nsid, port).is_some() == zoned;
            list(subsystem.nsids().filter(of_set), nsid)
        }
        Cns::NamespaceDescriptors => {
            known(subsystem, nsid)?;
            let id = Some(subsystem.unique_id(nsid));
            let is_zoned = zones_of(subsystem, nsid, port).is_some();
            let set = Some(if is_zoned { CommandSet::Zoned } else { CommandSet::Nvm }.raw());
            Ok(NamespaceIdentifiers { eui64: None, nguid: id, uuid: id, command_set: set }.encode())
        }
        Cns::CommandSetNamespace => {
            known(subsystem, nsid)?;
            match zones_of(subsystem, nsid, port) {
                Some(zones) if zoned => Ok(zns::identify_namespace(&zones).encode()),
                None if zoned => Err(invalid),
                _ => Ok(NvmNamespace::default().encode()),
            }
        }
        // All zeros: verify, write zeroes and deallocate have no separate limits.
        Cns::CommandSetController if zoned => {
            let all = subsystem.nsids().filter_map(|nsid| zones_of(subsystem, nsid, port));
            Ok(zns::identify_controller(all).encode())
        }
        Cns::CommandSetController => Ok(NvmControllerCapabilities::default().encode()),
        Cns::IndependentNamespace => Ok(independent_namespace(subsystem, nsid, port)?.encode()),
        Cns::AttachedControllers => {
            known(subsystem, nsid)?;
            Ok(controllers(controller, Cns::controller_of(entry)))
        }
        Cns::Controllers => Ok(controllers(controller, Cns::controller_of(entry))),
        Cns::EnduranceGroups => {
            let first = Cns::specific_of(entry);
            Ok(endurance_group_list(groups(subsystem, port).filter(|&id| id >= first)))
        }
        Cns::CommandSets => Ok(command_sets(subsystem, port)),
    }
}

/// Returns whether the command asks for the structure of the zoned command set.
fn asks_for_zoned(
    subsystem: &Subsystem,
    entry: &SubmissionEntry,
    cns: Cns,
    port: &Port<'_>,
) -> Result<bool, Status> {
    match CommandSet::from_raw(Cns::command_set_of(entry)) {
        Some(CommandSet::Nvm) => Ok(false),
        Some(CommandSet::Zoned) if has_zones(subsystem, port) => Ok(true),
        _ if Cns::is_of_command_set(cns) => Err(Status::INVALID_FIELD.do_not_retry()),
        _ => Ok(false),
    }
}

/// The command sets that the controller has, as one combination.
fn command_sets(subsystem: &Subsystem, port: &Port<'_>) -> [u8; BYTES] {
    let mut page = [0; BYTES];
    page[0] = 1 << CommandSet::Nvm.raw();
    if has_zones(subsystem, port) {
        page[0] |= 1 << CommandSet::Zoned.raw();
    }
    page
}

/// Zones of a namespace, if it is zoned.
pub(super) fn zones_of(subsystem: &Subsystem, nsid: u32, port: &Port<'_>) -> Option<ZoneGeometry> {
    match port.namespaces()[subsystem.namespace(nsid)?].interface {
        Interface::Zoned(zones) => Some(zones),
        _ => None,
    }
}

/// Returns true if the subsystem has a zoned namespace, and so more than the NVM command set.
pub(super) fn has_zones(subsystem: &Subsystem, port: &Port<'_>) -> bool {
    Interfaces::of(subsystem, port).zones
}

/// Returns true if the subsystem has an open-channel namespace.
pub(super) fn has_chunks(subsystem: &Subsystem, port: &Port<'_>) -> bool {
    Interfaces::of(subsystem, port).chunks
}

pub(super) fn has_nameless(subsystem: &Subsystem, port: &Port<'_>) -> bool {
    Interfaces::of(subsystem, port).nameless
}

/// Interfaces of a subsystem's namespaces; they determine its optional commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interfaces {
    pub blocks: bool,
    pub zones: bool,
    pub chunks: bool,
    pub caches: bool,
    pub nameless: bool,
}

impl Interfaces {
    pub fn of(subsystem: &Subsystem, port: &Port<'_>) -> Interfaces {
        let mut found =
            Interfaces { blocks: false, zones: false, chunks: false, caches: false, nameless: false };
        for &namespace in &subsystem.config.namespaces {
            match port.namespaces()[namespace].interface {
                Interface::Block { .. } => found.blocks = true,
                Interface::Zoned(_) => found.zones = true,
                Interface::OpenChannel(_) => found.chunks = true,
                Interface::Cache(_) => found.caches = true,
                Interface::Nameless(_) => found.nameless = true,
            }
        }
        found
    }

    /// Returns true if Dataset Management is supported; on chunks it is a reset.
    pub fn deallocate(self) -> bool {
        self.blocks || self.chunks
    }

    /// Returns true if Write Zeroes is supported.
    pub fn write_zeroes(self) -> bool {
        self.blocks
    }

    /// Optional commands (ONCS). Compare, select, timestamp and verify are always supported.
    fn optional_commands(self) -> u16 {
        let always = 1 | 1 << 4 | 1 << 6 | 1 << 7;
        always | u16::from(self.deallocate()) << 2 | u16::from(self.write_zeroes()) << 3
    }
}

/// Endurance groups in ascending order: each namespace with placement handles is a group with the namespace's
/// number.
pub(super) fn groups(subsystem: &Subsystem, port: &Port<'_>) -> impl Iterator<Item = u16> {
    let ids = subsystem.nsids().zip(&subsystem.config.namespaces);
    ids.filter(|(_, n)| port.namespaces()[**n].handles() > 1).map(|(nsid, _)| nsid as u16)
}

/// Largest identifier of an endurance group; 0 if there is none.
pub(super) fn endurance_groups(subsystem: &Subsystem, port: &Port<'_>) -> u16 {
    groups(subsystem, port).last().unwrap_or(0)
}

/// Builds an endurance group list (Base figure "Endurance Group List"): count and identifiers.
fn endurance_group_list(ids: impl Iterator<Item = u16>) -> [u8; BYTES] {
    let mut page = [0; BYTES];
    let (count, list) = page.split_at_mut(2);
    let mut listed = 0u16;
    for (slot, id) in list.as_chunks_mut::<2>().0.iter_mut().zip(ids) {
        *slot = id.to_le_bytes();
        listed += 1;
    }
    count.copy_from_slice(&listed.to_le_bytes());
    page
}

fn known(subsystem: &Subsystem, nsid: u32) -> Result<usize, Status> {
    subsystem.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.do_not_retry())
}

fn list(nsids: impl Iterator<Item = u32>, after: u32) -> Result<[u8; BYTES], Status> {
    if after >= 0xFFFF_FFFE {
        return Err(Status::INVALID_NAMESPACE.do_not_retry());
    }
    Ok(namespace_list(nsids, after))
}

/// Builds a controller list (Base 4.6.1): a host sees only its own controller.
fn controllers(controller: &Controller, from: u16) -> [u8; BYTES] {
    let mut page = [0; BYTES];
    if controller.id >= from {
        page[0] = 1;
        page[2..4].copy_from_slice(&controller.id.to_le_bytes());
    }
    page
}

/// Fields common to both kinds of controller.
fn common(controller: &Controller) -> IdentifyController {
    IdentifyController {
        firmware_revision: ascii(FIRMWARE),
        transfer_max_shift: TRANSFER_MAX_SHIFT,
        controller_id: controller.id,
        version: Version::V2_1.encode(),
        // 128-bit host identifiers; traffic counts as keep-alive.
        attributes: 1 | 1 << 6,
        abort_limit: (ABORTS_MAX - 1) as u8,
        async_event_limit: (ASYNC_EVENTS_MAX - 1) as u8,
        error_log_entries: (ERROR_ENTRIES_MAX - 1) as u8,
        keep_alive_100ms: 1,
        submission_entry_sizes: 0x66,
        completion_entry_sizes: 0x44,
        commands_max: QUEUE_ENTRIES_MAX as u16,
        // SGLs; they may be longer than the data; an address may be an offset into the capsule; transport
        // data blocks.
        sgl: 1 | 1 << 18 | 1 << 20 | 1 << 21,
        command_capsule_16b: (64 + IN_CAPSULE_BYTES_MAX) / 16,
        response_capsule_16b: 1,
        sgl_descriptors_max: 1,
        ..IdentifyController::default()
    }
}

fn discovery_controller(controller: &Controller) -> IdentifyController {
    IdentifyController {
        serial_number: ascii("0"),
        model_number: ascii("Pellucid discovery"),
        controller_type: ControllerType::Discovery.raw(),
        async_events: AsyncEventConfig::DISCOVERY_LOG,
        log_attributes: 1 << 2,
        // A discovery controller has no I/O queue, and so no larger capsules.
        command_capsule_16b: 4,
        subsystem_nqn: nqn(DISCOVERY_NQN).unwrap_or([0; 256]),
        ..common(controller)
    }
}

fn io_controller(controller: &Controller, subsystem: &Subsystem, port: &Port<'_>) -> IdentifyController {
    debug_assert_ne!(controller.kind, Kind::Discovery);
    let config = &subsystem.config;
    let bytes = config.namespaces.iter().map(|&n| u128::from(port.namespaces()[n].bytes())).sum();
    let cached = is_cached(subsystem, port);
    let namespaces = config.namespaces.len() as u32;
    let groups = endurance_groups(subsystem, port);
    let chunks = has_chunks(subsystem, port);
    let common = common(controller);
    IdentifyController {
        vendor_id: if chunks { open_channel::VENDOR } else { 0 },
        attributes: common.attributes
            | if groups > 0 { fdp::CONTROLLER_ATTRIBUTES } else { 0 }
            | if chunks { open_channel::CONTROLLER_ATTRIBUTES } else { 0 },
        endurance_group_max: groups,
        async_events: if has_zones(subsystem, port) { AsyncEventConfig::ZONE_DESCRIPTOR } else { 0 },
        serial_number: ascii(&config.serial),
        model_number: ascii(&config.model),
        controller_type: ControllerType::Io.raw(),
        // Several controllers may share the subsystem.
        multipath: 1 << 1,
        // Format; directives.
        admin_commands: 1 << 1 | u16::from(groups > 0) << 5,
        // One slot, read-only.
        firmware_updates: 1 | 1 << 1,
        // Effects, extended data, persistent events. No SMART per namespace, as namespaces share a drive. No
        // bit 5: there is no log 13h, and log 05h names no scopes.
        log_attributes: 1 << 1 | 1 << 2 | 1 << 4,
        warning_temperature_k: WARNING_TEMPERATURE_K,
        critical_temperature_k: CRITICAL_TEMPERATURE_K,
        total_capacity_bytes: bytes,
        persistent_event_log_64kib: 2,
        namespaces,
        allowed_namespaces: namespaces,
        nvm_commands: Interfaces::of(subsystem, port).optional_commands(),
        volatile_write_cache: u8::from(cached) | 0b11 << 1,
        subsystem_nqn: nqn(&config.nqn).unwrap_or([0; 256]),
        ..common
    }
}

/// Returns true if the drive acknowledges writes before they are durable.
pub(super) fn has_write_cache(port: &Port<'_>, namespace: usize) -> bool {
    port.namespaces()[namespace].keeps.has_cache()
}

/// Returns true if any drive of the subsystem has a write cache; the controller then has a volatile write
/// cache.
pub(super) fn is_cached(subsystem: &Subsystem, port: &Port<'_>) -> bool {
    subsystem.config.namespaces.iter().any(|&namespace| has_write_cache(port, namespace))
}

/// Endurance group of a namespace with placement; 0 if it belongs to none.
fn endurance_group(served: &Namespace, nsid: u32) -> u16 {
    if served.handles() > 1 { nsid as u16 } else { 0 }
}

/// NSATTR: marks a namespace that no longer takes writes, so that hosts do not try.
fn write_protected(number: usize, port: &Port<'_>) -> u8 {
    u8::from(port.is_read_only(number))
}

/// Builds CNS 08h. Its feature bits differ from CNS 00h: the bit of [`OPTIMAL_SIZES`] means rotational media
/// here.
fn independent_namespace(
    subsystem: &Subsystem,
    nsid: u32,
    port: &Port<'_>,
) -> Result<IndependentNamespace, Status> {
    let number = known(subsystem, nsid)?;
    let served = &port.namespaces()[number];
    Ok(IndependentNamespace {
        features: if served.keeps.has_cache() { 0 } else { NO_WRITE_CACHE },
        sharing: 1,
        attributes: write_protected(number, port),
        endurance_group: endurance_group(served, nsid),
        status: 1,
        ..Default::default()
    })
}

/// NSFEAT bit of CNS 08h: no volatile write cache (VWCNP).
const NO_WRITE_CACHE: u8 = 1 << 5;
/// NSFEAT bit of CNS 00h: preferred sizes are given (OPTPERF).
const OPTIMAL_SIZES: u8 = 1 << 4;

fn namespace(subsystem: &Subsystem, nsid: u32, port: &Port<'_>) -> Result<IdentifyNamespace, Status> {
    let number = known(subsystem, nsid)?;
    let served = &port.namespaces()[number];
    let unit = (served.unit_bytes / served.sector_bytes - 1) as u16;
    let superpage = served.superpage_bytes / served.sector_bytes - 1;
    let mut vendor = [0; 3712];
    let (capacity, dulbe) = match served.interface {
        Interface::Block { .. } => (served.sectors, 0),
        Interface::Zoned(zones) => (u64::from(zones.zones) * zones.capacity_sectors, 0),
        Interface::Nameless(nameless) => {
            let identity = super::nameless::identity(&nameless);
            vendor[..identity.len()].copy_from_slice(&identity);
            (served.sectors, 0)
        }
        Interface::Cache(cache) => {
            let identity = super::cache::identity(&cache);
            vendor[..identity.len()].copy_from_slice(&identity);
            (cache.units * u64::from(cache.unit_sectors), 0)
        }
        Interface::OpenChannel(chunks) => {
            // Hosts recognise an open-channel namespace by this byte.
            vendor[0] = 1;
            let count = u64::from(chunks.parallel_units()) * u64::from(chunks.chunks);
            // Feedback is set for all chunks of a drive, so a target on some of them cannot set it.
            let device = port.device(number);
            let can_set = device.is_some_and(|device| device.namespace(served.number).feedback().is_some());
            (count * u64::from(chunks.chunk_sectors), u8::from(can_set) << 2)
        }
    };
    let mut format_list = [LbaFormat::default(); 64];
    format_list[0].data_shift = served.sector_bytes.trailing_zeros() as u8;
    Ok(IdentifyNamespace {
        size_blocks: served.sectors,
        capacity_blocks: capacity,
        used_blocks: capacity,
        features: OPTIMAL_SIZES | dulbe,
        sharing: 1,
        // Deallocated blocks read as zeros; Write Zeroes, if supported, may deallocate.
        deallocation: 1 | u8::from(matches!(served.interface, Interface::Block { .. })) << 3,
        capacity_bytes: served.bytes().into(),
        write_granularity: unit,
        write_alignment: unit,
        deallocate_granularity: unit,
        deallocate_alignment: unit,
        write_optimal: u16::try_from(superpage).unwrap_or(u16::MAX),
        attributes: write_protected(number, port),
        endurance_group: endurance_group(served, nsid),
        nguid: subsystem.unique_id(nsid),
        format_list,
        vendor,
        ..IdentifyNamespace::default()
    })
}
