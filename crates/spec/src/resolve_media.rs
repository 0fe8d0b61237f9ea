//! `[drive.media]`: shape, cells, times, faults and what is kept of the data.

use super::document::Row;
use super::draft::{Draft, EccCode, Mode, Store};
use super::error::SpecError;
use super::schema::Fallback::{Empty, Flag, Real, Required, Whole, Word};
use super::schema::{Kind, SHARE, TIME, Values, count, keys, word};
use super::table::{Fields, Table};
use pellucid_device::FirmwareModel;
use pellucid_flash::{Geometry, GeometryError, Layout, Nanos};
use pellucid_media::{
    Bch, Cell, EccData, Integrity, ListedFault, MediaConfig, MediaError, SlcBlocks, Space, StoreKind, SyncTo,
    Timing,
};
use pellucid_text::Quantity;
use std::path::Path;
use strum::{EnumString, VariantNames};

/// Far above what any geometry allows, and small enough for 32 bits.
const SIZE32: Kind = Kind::Unit(Quantity::Size, 0, 1 << 30);
/// Below 1, so that a scaled time stays above zero.
const SPREAD: Kind = Kind::Share(0.0, 0.99);

/// A count of at least 1 and at most `max`.
const fn up_to(max: u32) -> Kind {
    Kind::Whole(1, max as u64)
}

const STORE: Kind = Kind::WordOrText(Store::WORDS, Store::PREFIX);
const RATE: Kind = Kind::Unit(Quantity::Rate, 1, i64::MAX as u64);

keys! {
    "drive.media.channels": up_to(Geometry::CHANNELS_MAX), Required => drive.media.geometry.channels,
        "Channels: independent buses between controller and media";
    "drive.media.ways": up_to(Geometry::WAYS_MAX), Required => drive.media.geometry.ways,
        "Ways per channel: chip enables that share the bus";
    "drive.media.dies": up_to(Geometry::DIES_MAX), Whole(1) => drive.media.geometry.dies,
        "Dies per way that work independently of each other";
    "drive.media.planes": up_to(Geometry::PLANES_MAX), Whole(1) => drive.media.geometry.planes,
        "Planes per die";
    "drive.media.blocks": up_to(Geometry::BLOCKS_MAX), Required => drive.media.geometry.blocks,
        "Blocks per plane";
    "drive.media.pages": up_to(Geometry::PAGES_MAX), Required => drive.media.geometry.pages,
        "Pages per block, in the mode used";
    "drive.media.page_size": SIZE32, Required => drive.media.geometry.page_bytes,
        "Data of one page";
    "drive.media.spare_size": SIZE32, Whole(0) => drive.media.geometry.spare_bytes,
        "Spare (out-of-band) bytes of one page; they cross the channel too";
    "drive.media.sector_size": SIZE32, Word("4KiB") => drive.media.geometry.sector_bytes,
        "Host sector (logical block)";
    "drive.media.unit_size": SIZE32, Word("4KiB") => drive.media.geometry.unit_bytes,
        "Mapping unit: what one entry of the mapping table covers";
    "drive.media.multi_plane": Kind::Flag, Flag(false) => drive.media.geometry.multi_plane,
        "Planes of a die always operate together";
    "drive.media.independent_plane_reads": Kind::Flag, Flag(false) => drive.media.independent_plane_reads,
        "Each plane of a die reads independently (ONFI); programs and erases take the whole die";
    "drive.media.one_shot_pages": up_to(Geometry::ONE_SHOT_PAGES_MAX), Whole(1) => drive.media.geometry.one_shot_pages,
        "Pages of a word line that one program writes";
    "drive.media.cell": word::<Cell>(), Required => drive.media.cell,
        "Cells as manufactured";
    "drive.media.mode": word::<Mode>(), Word("native") => mode,
        "\"slc\": only the LSB pages are used";
    "drive.media.endurance": Kind::Or("unlimited", &count(1)), Word("unlimited") => drive.media.endurance,
        "Erases that a block survives";
    "drive.media.cycles": Kind::Whole(0, 10_000_000), Whole(0) => drive.media.integrity.cycles,
        "Program/erase cycles behind every good block of new media";
    "drive.media.store": STORE, Word("none") => store,
        "What is kept of the data. none: only which write each sector came from (a stamp); ram, file: all bytes";
    "drive.media.path": Kind::Text, Word("") => path,
        "Path of the file of store = \"file\"";
    "drive.media.space": word::<Space>(), Word("sparse") => drive.media.keep.space,
        "Space of that file: allocated as it is written, or reserved at once";
    "drive.media.sync": word::<SyncTo>(), Word("process") => drive.media.keep.sync,
        "Flushed data in that file survive the end of the process, or of the machine";
    "drive.media.ram_max": Kind::Or("unlimited", &Kind::Unit(Quantity::Size, 1, i64::MAX as u64)), Word("unlimited") => drive.media.keep.ram_max,
        "Memory that data may take with store = \"ram\"; beyond it hosts cannot write";
    "drive.media.seed": Kind::Whole(0, i64::MAX as u64), Whole(1) => drive.media.seed,
        "Seed of all media randomness";
    "drive.media.timing.read": Kind::Times, Required => drive.media.timing.read_ns,
        "Sense time of each page type, LSB first: 1 time for slc, 2 for mlc, 3 for tlc, 4 for qlc";
    "drive.media.timing.program": Kind::Times, Required => drive.media.timing.program_ns,
        "Program time of each page type, LSB first; with one_shot_pages: one time, of the word line";
    "drive.media.timing.slc_read": TIME, Whole(0) => slc_blocks.read_ns,
        "Sense time of a page in a block of the SLC cache (ftl.slc_cache.blocks)";
    "drive.media.timing.slc_program": TIME, Whole(0) => slc_blocks.program_ns,
        "Program time of a page in a block of the SLC cache, of all planes";
    "drive.media.timing.erase": TIME, Required => drive.media.timing.erase_ns,
        "Erase time";
    "drive.media.timing.die_spread": SPREAD, Real(0.0) => drive.media.timing.die_spread,
        "Spread of array times between dies: a factor of 1 +- this";
    "drive.media.timing.op_spread": SPREAD, Real(0.0) => drive.media.timing.op_spread,
        "Spread of array times between operations";
    "drive.media.timing.op_deviation": TIME, Whole(0) => drive.media.timing.op_deviation_ns,
        "Additional deviation of each array operation, either way, whatever its length";
    "drive.media.timing.channel_rate": RATE, Required => drive.media.timing.channel_bytes_per_second,
        "Channel transfer rate, for data and spare";
    "drive.media.timing.command": TIME, Whole(0) => drive.media.timing.command_ns,
        "Channel time of the command and address cycles of an operation";
    "drive.media.timing.status": TIME, Whole(0) => drive.media.timing.status_ns,
        "Channel time of one status check";
    "drive.media.timing.suspend": Kind::Or("never", &TIME), Word("never") => drive.media.timing.suspend_ns,
        "Time to suspend a program";
    "drive.media.timing.suspend_erase": Kind::Or("same", &TIME), Word("same") => suspend_erase_ns,
        "Time to suspend an erase";
    "drive.media.timing.resume": TIME, Whole(0) => drive.media.timing.resume_ns,
        "Time to resume a program or an erase";
    "drive.media.variation.layer": SPREAD, Real(0.0) => drive.media.timing.variation.layer,
        "Spread of read and program times between word-line layers: a factor from 1 - this in a block's first superpage to 1 + this in its last";
    "drive.media.variation.block": SPREAD, Real(0.0) => drive.media.timing.variation.block,
        "Spread of array times between blocks: a factor of 1 +- this for each";
    "drive.media.faults.factory_bad": SHARE, Real(0.0) => drive.media.faults.factory_bad,
        "Probability that a block is bad from the factory";
    "drive.media.faults.program_fail": SHARE, Real(0.0) => drive.media.faults.program_fail,
        "Probability that a program fails";
    "drive.media.faults.erase_fail": SHARE, Real(0.0) => drive.media.faults.erase_fail,
        "Probability that an erase fails";
    "drive.media.faults.read_fail": SHARE, Real(0.0) => drive.media.faults.read_fail,
        "Probability that a read attempt is uncorrectable";
    "drive.media.bit_errors.enabled": Kind::Flag, Flag(false) => bit_errors_enabled,
        "Reads have bit errors by wear, retention, reads, page type and data pattern";
    "drive.media.bit_errors.factor": Kind::Real(0.0, 1e9), Real(1.0) => bit_errors.factor,
        "Factor on the modelled bit error rate, which is that of no particular part";
    "drive.media.bit_errors.retry_factor": SHARE, Real(0.5) => bit_errors.retry_factor,
        "Share of the errors that each read retry leaves";
    "drive.media.bit_errors.retry_floor": SHARE, Real(0.1) => bit_errors.retry_floor,
        "Share of the errors that no retry removes";
    "drive.media.retry.enabled": Kind::Flag, Flag(false) => retry_enabled,
        "Reads need retries by wear, retention and reads of their block";
    "drive.media.retry.factor": Kind::Real(0.0, 1e6), Real(1.0) => retry.factor,
        "Factor on the modelled number of retries: 3 on average at the rated cycles after a year";
    "drive.media.faults.list": Kind::Tables, Empty => faults,
        "Faults by place: [[drive.media.faults.list]]";
    "drive.ecc.code": word::<EccCode>(), Word("none") => ecc_code,
        "Error-correcting code";
    "drive.ecc.chunk": SIZE32, Word("256B") => ecc.chunk_bytes,
        "Data bytes of one codeword";
    "drive.ecc.correctable": up_to(Bch::STRENGTH_MAX as u32), Whole(13) => ecc.correctable,
        "Bits that can be corrected in one codeword";
    "drive.ecc.data": word::<EccData>(), Word("drawn") => ecc.data,
        "What is coded: nothing (bit errors are drawn), codewords with errors, or everything that is read";
    "drive.ecc.scrambler": Kind::Flag, Flag(true) => drive.media.integrity.scrambler,
        "Data are scrambled by their row address";
    "drive.ecc.refresh_above": Kind::Or("never", &count(0)), Word("never") => drive.scheduler.refresh_above,
        "A read that corrects more bits than this in one codeword has its block refreshed";
}

/// Checks the media, and derives the layout that the other parts are checked against.
pub(crate) fn finish(draft: &mut Draft, values: &Values) -> Result<Layout, SpecError> {
    let layout = draft.drive.media.geometry.layout().map_err(|error| geometry_error(values, &error))?;
    let page_types = page_types(draft, values)?;
    draft.drive.media.slc_mode = draft.mode == Mode::Slc;
    check_timing(draft, values, page_types)?;
    draft.drive.media.slc_blocks = slc_blocks(&draft.slc_blocks, values)?;
    if draft.drive.media.independent_plane_reads {
        check_plane_reads(draft, values)?;
    }
    draft.drive.media.faults.list = faults(&draft.faults, &layout)?;
    draft.drive.media.store = store(draft, values)?;
    finish_integrity(draft, values)?;
    Ok(layout)
}

/// Page types in use, which are the bits of a cell.
fn page_types(draft: &Draft, values: &Values) -> Result<u32, SpecError> {
    let (cell, slc_mode) = (draft.drive.media.cell, draft.mode == Mode::Slc);
    if slc_mode && cell == Cell::Slc {
        return Err(values.refuse("drive.media.mode", "native, because the cells are SLC already"));
    }
    let page_types = if slc_mode { 1 } else { cell.bits() };
    if draft.drive.media.geometry.one_shot_pages > page_types {
        let range = if page_types == 1 { "1".to_string() } else { format!("1 to {page_types}") };
        let allowed = format!("{range}, the pages of a word line of these cells in this mode");
        return Err(values.refuse("drive.media.one_shot_pages", allowed));
    }
    Ok(page_types)
}

/// Bits of a cell whose pages are programmed together.
pub(super) fn one_shot_bits(media: &MediaConfig) -> Option<u32> {
    let bits = media.cell.bits();
    (!media.slc_mode && bits > 1 && media.geometry.one_shot_pages == bits).then_some(bits)
}

/// Blocks in SLC mode, as the translation layer asks for them.
fn slc_blocks(asked: &SlcBlocks, values: &Values) -> Result<Option<SlcBlocks>, SpecError> {
    if asked.blocks == 0 {
        return Ok(None);
    }
    for (key, time) in
        [("drive.media.timing.slc_read", asked.read_ns), ("drive.media.timing.slc_program", asked.program_ns)]
    {
        if time == Nanos::ZERO {
            let allowed = "a duration above 0, because drive.ftl.slc_cache.blocks is";
            return Err(values.refuse(key, allowed));
        }
    }
    Ok(Some(*asked))
}

fn check_plane_reads(draft: &Draft, values: &Values) -> Result<(), SpecError> {
    let geometry = &draft.drive.media.geometry;
    let allowed = match () {
        _ if geometry.planes == 1 => "false, or true with drive.media.planes of 2 or more".to_string(),
        _ if geometry.unit_bytes > geometry.page_bytes => {
            "false, or true with drive.media.unit_size at most drive.media.page_size".into()
        }
        _ if geometry.ways * geometry.dies * geometry.planes > Geometry::WAYS_MAX => {
            format!("false, or true with ways x dies x planes at most {} on a channel", Geometry::WAYS_MAX)
        }
        _ if draft.drive.firmware.model == FirmwareModel::Loop => {
            "false, or true with drive.firmware.model = \"tasks\"".into()
        }
        _ => return Ok(()),
    };
    Err(values.refuse("drive.media.independent_plane_reads", allowed))
}

fn finish_integrity(draft: &mut Draft, values: &Values) -> Result<(), SpecError> {
    let protected = draft.ecc_code == EccCode::Bch;
    if !protected && draft.ecc.data != EccData::Drawn {
        let allowed = "drawn, or real and checked with drive.ecc.code = \"bch\"";
        return Err(values.refuse("drive.ecc.data", allowed));
    }
    let integrity: &mut Integrity = &mut draft.drive.media.integrity;
    integrity.ecc = protected.then_some(draft.ecc);
    integrity.bit_errors = draft.bit_errors_enabled.then_some(draft.bit_errors);
    integrity.retry = draft.retry_enabled.then_some(draft.retry);
    if draft.drive.ftl.copyback && integrity.forbids_copies() {
        return Err(values.refuse("drive.ftl.copyback", NO_COPIES));
    }
    Ok(())
}

/// Value of copyback that [`Integrity::forbids_copies`] leaves.
pub(super) const NO_COPIES: &str = "false: a copy inside the die would pass the error correction by";

/// Refuses an error correction that does not fit, once it is known what the namespaces take of the spare area.
pub(crate) fn check_integrity(values: &Values, media: &MediaConfig) -> Result<(), SpecError> {
    pellucid_media::check_integrity(media).map_err(|error| integrity_error(values, error))
}

/// The media's own refusal, at the key of the file that it is about.
fn integrity_error(values: &Values, error: MediaError) -> SpecError {
    let MediaError::Config { key, allowed, .. } = error else {
        unreachable!("only keys are checked: {error}")
    };
    let table = if key.starts_with("ecc.") { "drive" } else { "drive.media" };
    values.refuse(&format!("{table}.{key}"), allowed)
}

/// The geometry's own refusal, in the words of the file: there a size's key ends in `_size`, because its
/// value carries the unit.
fn geometry_error(values: &Values, error: &GeometryError) -> SpecError {
    let path = format!("drive.media.{}", error.key.replace("_bytes", "_size"));
    let allowed = error.allowed.strip_prefix("allowed: ").unwrap_or(&error.allowed);
    values.refuse(&path, allowed.replace("_bytes", "_size"))
}

/// Checks the times, and derives that of suspending an erase.
fn check_timing(draft: &mut Draft, values: &Values, page_types: u32) -> Result<(), SpecError> {
    let one_shot = draft.drive.media.geometry.one_shot_pages > 1;
    let timing: &mut Timing = &mut draft.drive.media.timing;
    let plural = if page_types == 1 { "" } else { "s" };
    let one_per_page_type = || format!("{page_types} duration{plural}, one per page type in use");
    if timing.read_ns.len() != page_types as usize {
        return Err(values.refuse("drive.media.timing.read", one_per_page_type()));
    }
    if one_shot && timing.program_ns.len() != 1 {
        let allowed = "1 duration, that of the whole word line, because one_shot_pages is above 1";
        return Err(values.refuse("drive.media.timing.program", allowed));
    }
    if !one_shot && timing.program_ns.len() != page_types as usize {
        return Err(values.refuse("drive.media.timing.program", one_per_page_type()));
    }
    let shortest = timing.read_ns.iter().chain(&timing.program_ns).chain([&timing.erase_ns]).min();
    if shortest.is_some_and(|&shortest| timing.op_deviation_ns > shortest) {
        let allowed = "at most the shortest of read, program and erase";
        return Err(values.refuse("drive.media.timing.op_deviation", allowed));
    }
    timing.suspend_erase_ns = draft.suspend_erase_ns.or(timing.suspend_ns).unwrap_or(Nanos::ZERO);
    Ok(())
}

fn store(draft: &Draft, values: &Values) -> Result<StoreKind, SpecError> {
    // As of a plain file that is served: media have their size from the geometry.
    let has_options = |path: &Path| {
        let text = path.to_string_lossy();
        [",size=", ",sector=", ",direct=", ",threads="].iter().any(|option| text.contains(option))
    };
    if let Store::FileAt(path) = &draft.store
        && has_options(path)
    {
        return Err(values
            .refuse("drive.media.store", "\"file:PATH\" alone: the geometry says how large the file is"));
    }
    match (&draft.store, &draft.path) {
        (Store::None, _) => Ok(StoreKind::None),
        (Store::Ram, _) => Ok(StoreKind::Ram),
        (Store::FileAt(path), _) | (Store::File, Some(path)) => Ok(StoreKind::File(path.clone())),
        (Store::File, None) => {
            Err(values.refuse("drive.media.store", "\"file:PATH\", or \"file\" with drive.media.path"))
        }
    }
}

fn faults(rows: &[Row], layout: &Layout) -> Result<Vec<ListedFault>, SpecError> {
    let table = |(index, row)| Table { list: "drive.media.faults.list", index, row };
    rows.iter().enumerate().map(table).map(|row| fault(&row, layout)).collect()
}

const ATTEMPTS: Kind = Kind::Or("always", &count(1));

/// Kinds of faults by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum FaultKind {
    FactoryBad,
    ProgramFail,
    EraseFail,
    ReadFail,
}

const FAULT_DIE: (&str, &str) = ("die", "Die, counted through all channels and ways");
const FAULT_BLOCK: (&str, &str) = ("block", "Block of the die");
const FAULT_SUPERPAGE: (&str, &str) = ("superpage", "Superpage of the block");
pub(crate) const FACTORY_BAD: Fields =
    &[("kind", "factory-bad: the block is bad from the factory"), FAULT_DIE, FAULT_BLOCK];
pub(crate) const PROGRAM_FAIL: Fields = &[
    ("kind", "program-fail: the program of this superpage fails"),
    FAULT_DIE,
    FAULT_BLOCK,
    FAULT_SUPERPAGE,
    ("after_erases", "Only once the block has been erased this often; default 0"),
];
pub(crate) const ERASE_FAIL: Fields = &[
    ("kind", "erase-fail: erases of the block fail"),
    FAULT_DIE,
    FAULT_BLOCK,
    ("after_erases", "From this erase of the block on; default 0"),
];
pub(crate) const READ_FAIL: Fields = &[
    ("kind", "read-fail: reads of this superpage are uncorrectable"),
    FAULT_DIE,
    FAULT_BLOCK,
    FAULT_SUPERPAGE,
    ("attempts", "How many attempts fail: a number, or always, the default"),
];

/// One table of `[[drive.media.faults.list]]`.
fn fault(row: &Table, layout: &Layout) -> Result<ListedFault, SpecError> {
    let kind = row.word("kind", None)?;
    row.check_names(match kind {
        FaultKind::FactoryBad => FACTORY_BAD,
        FaultKind::ProgramFail => PROGRAM_FAIL,
        FaultKind::EraseFail => ERASE_FAIL,
        FaultKind::ReadFail => READ_FAIL,
    })?;
    // A die, block or superpage of the drive, which has `limit` of them.
    let place_of = |name, limit: u32| row.number(name, Kind::Whole(0, u64::from(limit) - 1), None);
    let die = place_of("die", layout.dies)?;
    let block = place_of("block", layout.blocks_per_die)?;
    let superpage = || place_of("superpage", layout.superpages_per_block);
    let after_erases = || row.number("after_erases", count(0), Some(0));
    Ok(match kind {
        FaultKind::FactoryBad => ListedFault::FactoryBad { die, block },
        FaultKind::ProgramFail => {
            ListedFault::ProgramFail { die, block, superpage: superpage()?, after_erases: after_erases()? }
        }
        FaultKind::EraseFail => ListedFault::EraseFail { die, block, after_erases: after_erases()? },
        FaultKind::ReadFail => {
            let attempts = row.number("attempts", ATTEMPTS, Some(u32::MAX))?;
            ListedFault::ReadFail { die, block, superpage: superpage()?, attempts }
        }
    })
}
