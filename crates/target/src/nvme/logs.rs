//! Get Log Page (Base 5.1.12).
//!
//! | page | what |
//! |---|---|
//! | 00h, 01h, 02h, 03h, 04h, 05h, 0Dh | supported pages, errors, SMART, firmware slot, changed namespaces, effects, persistent events |
//! | 09h | health of an endurance group |
//! | 12h | features and whose they are |
//! | 20h to 23h | flexible data placement: configurations, handles, statistics, events |
//! | 70h | discovery (discovery controllers only) |
//! | BFh | changed zones |
//! | CAh, D0h | chunks and chunk notifications of one open-channel namespace |
//! | D1h | moves of one nameless namespace that are not acknowledged |
//! | C0h | counters of the drives as text, one `namespace.name value` per line, padded with zeros |
//! | C1h | wear of one namespace: header (u64 blocks, u64 reserved), then erase counts, u32 each, in block order |
//! | C2h | busy times of one namespace in ns: header (u32 channels, u32 dies, u64 drive time), then channels, then dies, u64 each |

use super::controller::Controller;
use super::discovery;
use super::fdp::Group;
use super::history::Owner;
use super::identify::FIRMWARE;
use super::subsystem::Subsystem;
use super::{effects, fdp, identify, nameless, open_channel, zns};
use crate::session::Port;
use pellucid_device::Device;
use pellucid_flash::Cause;
use pellucid_wire::nvme::nameless::MOVES;
use pellucid_wire::nvme::{
    BROADCAST_NSID, CommandSet, EnduranceGroupLog, ErrorLogEntry, FirmwareSlotLog, GetLogPage, LogId,
    SmartLog, Status, SupportedLogPages, ascii,
};
use std::fmt::Write;
use std::net::SocketAddr;

/// Vendor page: counters as text.
const COUNTERS: u8 = 0xC0;
/// Vendor page: erase counts.
const WEAR: u8 = 0xC1;
/// Vendor page: busy times.
const BUSY: u8 = 0xC2;
/// Available spare, in percent, below which the SMART log warns.
const SPARE_THRESHOLD: u8 = 10;
/// Constant temperature (25 degrees Celsius), as there is no thermal model.
const TEMPERATURE_K: u16 = 298;

/// Returns the requested part of a log page.
pub(super) fn get(
    controller: &mut Controller,
    subsystem: &mut Subsystem,
    arguments: &GetLogPage,
    nsid: u32,
    port: &Port<'_>,
) -> Result<Vec<u8>, Status> {
    if arguments.offset_is_index {
        return Err(Status::INVALID_FIELD.do_not_retry());
    }
    if let Some(page) = fdp::log(subsystem, arguments, port) {
        return part(&page?, arguments);
    }
    let page = match LogId::from_raw(arguments.log_id) {
        Some(LogId::SupportedPages) => supported(subsystem, port).encode().to_vec(),
        Some(LogId::Error) => errors(controller),
        Some(LogId::Smart) if matches!(nsid, 0 | BROADCAST_NSID) => {
            smart(controller, subsystem, port).encode().to_vec()
        }
        // The SMART log belongs to the controller (LPA bit 0): namespaces share a drive and its wear.
        Some(LogId::Smart) => return Err(Status::INVALID_FIELD.do_not_retry()),
        Some(LogId::EnduranceGroup) if identify::endurance_groups(subsystem, port) > 0 => {
            endurance_group(subsystem, arguments.specific_id, port)?.encode().to_vec()
        }
        Some(LogId::FirmwareSlot) => firmware().encode().to_vec(),
        // The set of namespaces does not change while they are served.
        Some(LogId::ChangedNamespaces) => vec![0; 4096],
        Some(LogId::ChangedZones) if identify::has_zones(subsystem, port) => {
            // Each zoned namespace has its own list; other namespaces have none.
            let zones = identify::zones_of(subsystem, nsid, port);
            zones.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
            zns::changed_log(controller, subsystem, nsid, arguments.retain_event)
        }
        Some(LogId::CommandEffects) => match CommandSet::from_raw(arguments.command_set) {
            Some(CommandSet::Nvm) => effects::nvm(subsystem, port).encode().to_vec(),
            Some(CommandSet::Zoned) if identify::has_zones(subsystem, port) => {
                effects::zoned(subsystem, port).encode().to_vec()
            }
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        },
        Some(LogId::FeatureEffects) => effects::features(subsystem, port).encode().to_vec(),
        Some(LogId::PersistentEvents) => return persistent_events(controller, subsystem, arguments, port),
        _ => match arguments.log_id {
            open_channel::CHUNKS if identify::has_chunks(subsystem, port) => {
                return open_channel::chunk_log(one(subsystem, nsid)?, arguments, port);
            }
            open_channel::NOTICES if identify::has_chunks(subsystem, port) => {
                one(subsystem, nsid)?;
                open_channel::notice_log(subsystem, nsid)
            }
            MOVES if identify::has_nameless(subsystem, port) => {
                nameless::move_log(one(subsystem, nsid)?, port)?
            }
            COUNTERS => counters(subsystem, port),
            WEAR => wear(here(one(subsystem, nsid)?, port)?),
            BUSY => busy(here(one(subsystem, nsid)?, port)?),
            _ => return Err(Status::INVALID_LOG_PAGE.do_not_retry()),
        },
    };
    if !arguments.retain_event {
        controller.log_read(arguments.log_id);
    }
    part(&page, arguments)
}

/// Subsystems that a discovery controller reports.
pub(super) struct Offered<'a> {
    pub subsystems: &'a [Subsystem],
    /// Address that the host queried.
    pub local: SocketAddr,
    /// The address accepts only TLS.
    pub secured: bool,
    /// Number of changes so far.
    pub generation: u64,
}

/// Works like [`get`], on a discovery controller.
pub(super) fn get_discovery(
    controller: &mut Controller,
    offered: &Offered<'_>,
    arguments: &GetLogPage,
) -> Result<Vec<u8>, Status> {
    if !arguments.retain_event {
        controller.log_read(arguments.log_id);
    }
    match LogId::from_raw(arguments.log_id) {
        Some(LogId::Discovery) if !arguments.offset_is_index => {
            part(&discovery::log(offered, &controller.host_nqn), arguments)
        }
        Some(LogId::SupportedPages) => part(
            &SupportedLogPages::of(&[LogId::SupportedPages, LogId::Error, LogId::Discovery]).encode(),
            arguments,
        ),
        Some(LogId::Error) => part(&errors(controller), arguments),
        _ => Err(Status::INVALID_LOG_PAGE.do_not_retry()),
    }
}

/// Requested part of a page; zeros follow the end of the page.
fn part(page: &[u8], arguments: &GetLogPage) -> Result<Vec<u8>, Status> {
    let start = usize::try_from(arguments.offset).ok().filter(|&start| start <= page.len());
    let start = start.ok_or(Status::INVALID_FIELD.do_not_retry())?;
    let length = arguments.length_bytes as usize;
    let end = page.len().min(start + length);
    let mut bytes = page[start..end].to_vec();
    bytes.resize(length, 0);
    Ok(bytes)
}

/// The first namespace of each drive of a subsystem.
pub(super) fn first_namespaces(subsystem: &Subsystem, port: &Port<'_>) -> Vec<usize> {
    let drive = |n: &usize| port.namespaces()[*n].drive;
    let mut firsts: Vec<usize> = Vec::new();
    for namespace in &subsystem.config.namespaces {
        if !firsts.iter().any(|first| drive(first) == drive(namespace)) {
            firsts.push(*namespace);
        }
    }
    firsts
}

/// Modelled drives of a subsystem, each once however many namespaces it has.
fn drives<'a>(subsystem: &Subsystem, port: &'a Port<'_>) -> Vec<&'a Device> {
    let firsts = first_namespaces(subsystem, port);
    firsts.into_iter().filter_map(|namespace| port.device(namespace)).collect()
}

/// Namespace that a vendor log page addresses; the first by default.
fn one(subsystem: &Subsystem, nsid: u32) -> Result<usize, Status> {
    let nsid = if matches!(nsid, 0 | BROADCAST_NSID) { 1 } else { nsid };
    subsystem.namespace(nsid).ok_or(Status::INVALID_NAMESPACE.do_not_retry())
}

fn supported(subsystem: &Subsystem, port: &Port<'_>) -> SupportedLogPages {
    let mut pages = SupportedLogPages::of(&[
        LogId::SupportedPages,
        LogId::Error,
        LogId::Smart,
        LogId::FirmwareSlot,
        LogId::ChangedNamespaces,
        LogId::CommandEffects,
        LogId::PersistentEvents,
        LogId::FeatureEffects,
    ]);
    let mut add = |wanted: bool, ids: &[u8]| {
        ids.iter().filter(|_| wanted).for_each(|&id| pages.0[usize::from(id)] = 1);
    };
    let placement = [
        LogId::EnduranceGroup,
        LogId::FdpConfigurations,
        LogId::FdpHandleUsage,
        LogId::FdpStatistics,
        LogId::FdpEvents,
    ];
    add(true, &[COUNTERS, WEAR, BUSY]);
    add(identify::endurance_groups(subsystem, port) > 0, &placement.map(LogId::raw));
    add(identify::has_zones(subsystem, port), &[LogId::ChangedZones.raw()]);
    add(identify::has_chunks(subsystem, port), &[open_channel::CHUNKS, open_channel::NOTICES]);
    add(identify::has_nameless(subsystem, port), &[MOVES]);
    pages
}

fn errors(controller: &Controller) -> Vec<u8> {
    let mut page: Vec<u8> = controller.errors().flat_map(ErrorLogEntry::encode).collect();
    page.resize(super::ERROR_ENTRIES_MAX * ErrorLogEntry::BYTES, 0);
    page
}

fn firmware() -> FirmwareSlotLog {
    let mut revisions = [[0; 8]; 7];
    revisions[0] = ascii(FIRMWARE);
    FirmwareSlotLog { active: 1, revisions }
}

/// Critical warning bits of a SMART page (Base figure "SMART / Health Information Log Page").
pub(super) mod warning {
    pub const SPARE: u8 = 1 << 0;
    pub const TEMPERATURE: u8 = 1 << 1;
    pub const RELIABILITY: u8 = 1 << 2;
    pub const READ_ONLY: u8 = 1 << 3;
}

/// Health of a subsystem's drives: counts are summed, ratios are the worst; temperature limits are the
/// controller's.
pub(super) fn smart(controller: &Controller, subsystem: &Subsystem, port: &Port<'_>) -> SmartLog {
    let hours = u128::from(port.now_ns() / 3_600_000_000_000);
    let (reads, writes, errors) = subsystem.counts();
    let mut page = SmartLog {
        temperature_k: TEMPERATURE_K,
        available_spare: 100,
        available_spare_threshold: SPARE_THRESHOLD,
        host_read_commands: reads.into(),
        host_write_commands: writes.into(),
        power_on_hours: hours,
        error_log_entries: errors.into(),
        power_cycles: 1,
        ..SmartLog::default()
    };
    // The log of a remote drive is on its own server.
    for device in drives(subsystem, port) {
        let counters = device.counters();
        let units = |sectors: u64| {
            let bytes = u128::from(sectors) * u128::from(device.layout().sector_bytes);
            bytes.div_ceil(512 * 1000)
        };
        page.data_units_read += units(counters.host_read_sectors);
        page.data_units_written += units(counters.host_written_sectors);
        // A failed program is repeated elsewhere, so it loses no data.
        page.media_errors += u128::from(counters.uncorrectable_reads);
        page.controller_busy_minutes += u128::from(device.busy().firmware().0 / 60_000_000_000);
        page.unsafe_shutdowns += u128::from(counters.power_cuts);
        page.power_cycles = page.power_cycles.max(u128::from(counters.power_cuts) + 1);
        page.available_spare = page.available_spare.min(spare_percent(device));
        page.percentage_used = page.percentage_used.max(used_percent(device));
    }
    let read_only = subsystem.config.namespaces.iter().any(|&namespace| port.is_read_only(namespace));
    page.critical_warning = worn(page.available_spare, page.percentage_used, read_only);
    if !controller.features.tolerates(TEMPERATURE_K) {
        page.critical_warning |= warning::TEMPERATURE;
    }
    for id in identify::groups(subsystem, port) {
        page.endurance_group_warning |=
            endurance_group(subsystem, id, port).map_or(0, |group| group.critical_warning);
    }
    page
}

/// Warning bits for low spare, used-up life, and media that no longer take writes.
fn worn(available_spare: u8, percentage_used: u8, read_only: bool) -> u8 {
    let warn = |warned: bool, bit: u8| if warned { bit } else { 0 };
    warn(available_spare < SPARE_THRESHOLD, warning::SPARE)
        | warn(percentage_used >= 100, warning::RELIABILITY)
        | warn(read_only, warning::READ_ONLY)
}

/// Health of an endurance group, a namespace with placement: traffic and capacity are the group's; spare,
/// life used and media errors are those of its drive.
fn endurance_group(subsystem: &Subsystem, id: u16, port: &Port<'_>) -> Result<EnduranceGroupLog, Status> {
    let invalid = Status::INVALID_FIELD.do_not_retry();
    let namespace = subsystem.namespace(id.into()).ok_or(invalid)?;
    let Group { device, number, .. } = Group::find(subsystem, id, port).map_err(|_| invalid)?;
    let traffic = device.namespace(number).placement_statistics();
    let billions = |bytes: u64| u128::from(bytes.div_ceil(1_000_000_000));
    let (available_spare, percentage_used) = (spare_percent(device), used_percent(device));
    Ok(EnduranceGroupLog {
        critical_warning: worn(available_spare, percentage_used, port.is_read_only(namespace)),
        available_spare,
        available_spare_threshold: SPARE_THRESHOLD,
        percentage_used,
        data_units_read: billions(traffic.read_bytes),
        data_units_written: billions(traffic.host_bytes),
        media_units_written: billions(traffic.media_bytes),
        host_read_commands: traffic.reads.into(),
        host_write_commands: traffic.writes.into(),
        media_errors: device.counters().uncorrectable_reads.into(),
        error_log_entries: subsystem.counts().2.into(),
        total_capacity_bytes: port.namespaces()[namespace].bytes().into(),
        ..EnduranceGroupLog::default()
    })
}

/// Spare blocks left, in percent of the spare blocks at the factory.
fn spare_percent(device: &Device) -> u8 {
    let layout = device.layout();
    let (factory, grown) = device.bad_blocks();
    let user_units = device.capacity_bytes() / u64::from(layout.unit_bytes);
    let user_blocks = user_units.div_ceil(layout.units_per_block.into());
    let spare = u64::from(layout.blocks - factory).saturating_sub(user_blocks).max(1);
    (spare.saturating_sub(grown.into()) * 100 / spare) as u8
}

/// Mean erase count in percent of the endurance; 0 for unlimited endurance.
fn used_percent(device: &Device) -> u8 {
    let Some(endurance) = device.config().media.endurance.filter(|&erases| erases > 0) else { return 0 };
    let (sum, blocks) =
        device.erase_counts().fold((0u64, 0u64), |(sum, n), erases| (sum + u64::from(erases), n + 1));
    (sum * 100 / (blocks.max(1) * u64::from(endurance))).min(255) as u8
}

fn persistent_events(
    controller: &mut Controller,
    subsystem: &mut Subsystem,
    arguments: &GetLogPage,
    port: &Port<'_>,
) -> Result<Vec<u8>, Status> {
    const READ: u8 = 0;
    const ESTABLISH: u8 = 1;
    const RELEASE: u8 = 2;
    match arguments.specific & 3 {
        ESTABLISH if controller.event_log.is_some() => {
            return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
        }
        ESTABLISH => {
            let cuts = drives(subsystem, port).into_iter();
            let cuts = cuts.map(|device| device.counters().power_cuts).max().unwrap_or(0);
            subsystem.history.power_cuts(cuts, &ascii(FIRMWARE), port.now_ns());
            let config = &subsystem.config;
            let owner = Owner {
                nqn: &config.nqn,
                serial: &config.serial,
                model: &config.model,
                now_ns: port.now_ns(),
            };
            controller.event_log = Some(subsystem.history.page(&owner));
        }
        READ if controller.event_log.is_none() => return Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        READ => {}
        RELEASE => {
            controller.event_log = None;
            return Ok(vec![0; arguments.length_bytes as usize]);
        }
        _ => return Err(Status::INVALID_FIELD.do_not_retry()),
    }
    part(controller.event_log.as_deref().unwrap_or_default(), arguments)
}

fn counters(subsystem: &Subsystem, port: &Port<'_>) -> Vec<u8> {
    let mut text = String::new();
    for (nsid, &namespace) in subsystem.nsids().zip(&subsystem.config.namespaces) {
        let Some(device) = port.device(namespace) else { continue };
        for (name, value) in values(device) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{nsid}.{name} {value}");
        }
        let programmed = device.counters().programmed_sectors;
        for cause in Cause::listed(&programmed) {
            let sectors = programmed[cause as usize];
            let _ = writeln!(text, "{nsid}.programmed_sectors.{} {sectors}", cause.name());
        }
    }
    text.into_bytes()
}

fn values(device: &Device) -> [(&'static str, u64); 21] {
    let counters = device.counters();
    let programmed: u64 = counters.programmed_sectors.iter().sum();
    let amplification = (programmed * 1000).checked_div(counters.host_written_sectors).unwrap_or(0);
    let (factory_bad, grown_bad) = device.bad_blocks();
    [
        ("time_ns", device.now().0),
        ("host_read_sectors", counters.host_read_sectors),
        ("host_written_sectors", counters.host_written_sectors),
        ("programmed_sectors", programmed),
        ("write_amplification_permille", amplification),
        ("erases", counters.erases.iter().sum()),
        ("copybacks", counters.copybacks),
        ("read_retries", counters.read_retries),
        ("corrected_bits", counters.corrected_bits),
        ("uncorrectable_reads", counters.uncorrectable_reads),
        ("program_failures", counters.program_failures),
        ("erase_failures", counters.erase_failures),
        ("buffer_read_hits", counters.buffer_read_hits),
        ("buffer_write_hits", counters.buffer_write_hits),
        ("media_operations", counters.media_operations),
        ("power_cuts", counters.power_cuts),
        ("free_blocks", device.free_blocks().into()),
        ("factory_bad_blocks", factory_bad.into()),
        ("grown_bad_blocks", grown_bad.into()),
        ("busy_dies", device.busy().dies_at_work().into()),
        ("outstanding_commands", device.outstanding_commands().into()),
    ]
}

/// Modelled drive behind a namespace.
fn here<'a>(namespace: usize, port: &'a Port<'_>) -> Result<&'a Device, Status> {
    port.device(namespace).ok_or(Status::INVALID_LOG_PAGE.do_not_retry())
}

fn wear(device: &Device) -> Vec<u8> {
    let erases = device.erase_counts();
    let mut page = vec![0; 16];
    page.extend(erases.flat_map(u32::to_le_bytes));
    let blocks = (page.len() as u64 - 16) / 4;
    page[..8].copy_from_slice(&blocks.to_le_bytes());
    page
}

fn busy(device: &Device) -> Vec<u8> {
    let (channels, dies) = (device.busy().channels(), device.busy().dies());
    let mut page = Vec::with_capacity(16 + 8 * (channels.len() + dies.len()));
    page.extend((channels.len() as u32).to_le_bytes());
    page.extend((dies.len() as u32).to_le_bytes());
    page.extend(device.now().0.to_le_bytes());
    page.extend(channels.iter().chain(&dies).flat_map(|time| time.0.to_le_bytes()));
    page
}
