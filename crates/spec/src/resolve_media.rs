//! `[drive.media]`: shape, cells, times, faults and what is kept of the data.

use super::document::Row;
use super::error::SpecError;
use super::schema::Values;
use super::table::{Table, fields};
use pellucid_device::{DeviceConfig, FirmwareModel};
use pellucid_flash::{Geometry, GeometryError, Layout, Nanos};
use pellucid_media::{
    Cell, EccData, ListedFault, MediaConfig, MediaError, SlcBlocks, StoreKind, StoreName, StoreSettings,
    Timing,
};
use pellucid_setting::{Kind, Settings, count, get};
use std::path::Path;
use strum::{EnumString, VariantNames};

/// Completes and checks the media, and derives the layout against which the other parts are checked.
pub(crate) fn finish(drive: &mut DeviceConfig, values: &Values) -> Result<Layout, SpecError> {
    let media = &mut drive.media;
    let layout = media.geometry.layout().map_err(|error| geometry_error(values, &error))?;
    let page_types = page_types(media, values)?;
    let one_shot = media.geometry.one_shot_pages > 1;
    finish_timing(&mut media.timing, one_shot, page_types, values)?;
    media.slc_blocks = slc_blocks(media.slc_blocks, get(values, "drive.ftl.slc_cache.blocks"), values)?;
    if media.independent_plane_reads {
        check_plane_reads(&media.geometry, drive.firmware.model, values)?;
    }
    media.faults.list = faults(values.rows("drive.media.faults.list"), &layout)?;
    media.store = store(values)?;
    check_codes(drive, values)?;
    Ok(layout)
}

/// Page types in use, which equal the bits of a cell.
fn page_types(media: &MediaConfig, values: &Values) -> Result<u32, SpecError> {
    let (cell, slc_mode) = (media.cell, media.slc_mode);
    if slc_mode && cell == Cell::Slc {
        return Err(values.refuse("drive.media.mode", "native, because the cells are SLC already"));
    }
    let page_types = if slc_mode { 1 } else { cell.bits() };
    if media.geometry.one_shot_pages > page_types {
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

/// Blocks in SLC mode that the translation asks for.
fn slc_blocks(
    times: Option<SlcBlocks>,
    blocks: u32,
    values: &Values,
) -> Result<Option<SlcBlocks>, SpecError> {
    let Some(asked) = times.filter(|_| blocks > 0) else { return Ok(None) };
    if !values.rows("drive.namespace").is_empty() {
        // No timing would allow it.
        return Err(values.refuse(
            "drive.ftl.slc_cache.blocks",
            "0, or more with one block namespace of the whole drive (drive.namespace = [])",
        ));
    }
    for (key, time) in
        [("drive.media.timing.slc_read", asked.read_ns), ("drive.media.timing.slc_program", asked.program_ns)]
    {
        if time == Nanos::ZERO {
            let allowed = "a duration above 0, because drive.ftl.slc_cache.blocks is";
            return Err(values.refuse(key, allowed));
        }
    }
    Ok(Some(SlcBlocks { blocks, ..asked }))
}

fn check_plane_reads(geometry: &Geometry, model: FirmwareModel, values: &Values) -> Result<(), SpecError> {
    let allowed = match () {
        _ if geometry.planes == 1 => "false, or true with drive.media.planes of 2 or more".to_string(),
        _ if geometry.unit_bytes > geometry.page_bytes => {
            "false, or true with drive.media.unit_size at most drive.media.page_size".into()
        }
        _ if geometry.ways * geometry.dies * geometry.planes > Geometry::WAYS_MAX => {
            format!("false, or true with ways x dies x planes at most {} on a channel", Geometry::WAYS_MAX)
        }
        _ if model == FirmwareModel::Loop => "false, or true with drive.firmware.model = \"tasks\"".into(),
        _ => return Ok(()),
    };
    Err(values.refuse("drive.media.independent_plane_reads", allowed))
}

fn check_codes(drive: &DeviceConfig, values: &Values) -> Result<(), SpecError> {
    let integrity = &drive.media.integrity;
    if integrity.ecc.is_none() && get::<EccData>(values, "drive.ecc.data") != EccData::Drawn {
        let allowed = "drawn, or real and checked with drive.ecc.code = \"bch\"";
        return Err(values.refuse("drive.ecc.data", allowed));
    }
    if drive.ftl.copyback && integrity.forbids_copies() {
        return Err(values.refuse("drive.ftl.copyback", NO_COPIES));
    }
    Ok(())
}

/// Allowed value of `copyback` if [`Integrity::forbids_copies`].
pub(super) const NO_COPIES: &str = "false: a copy inside the die would pass the error correction by";

/// Refuses an error correction that does not fit beside what namespaces take of the spare area.
pub(crate) fn check_integrity(values: &Values, media: &MediaConfig) -> Result<(), SpecError> {
    pellucid_media::check_integrity(media).map_err(|error| integrity_error(values, error))
}

/// The media's own refusal, attributed to the key of the file.
fn integrity_error(values: &Values, error: MediaError) -> SpecError {
    let MediaError::Config { key, allowed, .. } = error else {
        unreachable!("only keys are checked: {error}")
    };
    let table = if key.starts_with("ecc.") { "drive" } else { "drive.media" };
    values.refuse(&format!("{table}.{key}"), allowed)
}

/// The geometry's own refusal, in the words of the file: keys of sizes end in `_size` there, because the value carries the unit.
fn geometry_error(values: &Values, error: &GeometryError) -> SpecError {
    let path = format!("drive.media.{}", error.key.replace("_bytes", "_size"));
    let allowed = error.allowed.strip_prefix("allowed: ").unwrap_or(&error.allowed);
    values.refuse(&path, allowed.replace("_bytes", "_size"))
}

/// Checks the times, and derives the time to suspend an erase.
fn finish_timing(
    timing: &mut Timing,
    one_shot: bool,
    page_types: u32,
    values: &Values,
) -> Result<(), SpecError> {
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
    let suspend_erase: Option<Nanos> = get(values, "drive.media.timing.suspend_erase");
    timing.suspend_erase_ns = suspend_erase.or(timing.suspend_ns).unwrap_or(Nanos::ZERO);
    Ok(())
}

fn store(values: &Values) -> Result<StoreKind, SpecError> {
    // Options of a served plain file; media take their size from the geometry.
    let has_options = |path: &Path| {
        let text = path.to_string_lossy();
        [",size=", ",sector=", ",direct=", ",threads="].iter().any(|option| text.contains(option))
    };
    let settings = StoreSettings::take(values, "drive.media");
    if let StoreName::FileAt(path) = &settings.store
        && has_options(path)
    {
        return Err(values
            .refuse("drive.media.store", "\"file:PATH\" alone: the geometry says how large the file is"));
    }
    settings
        .kind()
        .ok_or_else(|| values.refuse("drive.media.store", "\"file:PATH\", or \"file\" with drive.media.path"))
}

fn faults(rows: &[Row], layout: &Layout) -> Result<Vec<ListedFault>, SpecError> {
    let table = |(index, row)| Table { list: "drive.media.faults.list", index, row };
    rows.iter().enumerate().map(table).map(|row| fault(&row, layout)).collect()
}

const ATTEMPTS: Kind = Kind::Or("always", &count(1));

/// Kinds of faults, by where they occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum FaultKind {
    FactoryBad,
    ProgramFail,
    EraseFail,
    ReadFail,
}

fields! {
    /// Fields of a bad block.
    factory_bad {
        KIND: "kind", "factory-bad: the block is bad from the factory";
        DIE: "die", "Die, counted through all channels and ways";
        BLOCK: "block", "Block of the die";
    }

    /// Fields of a program that fails.
    program_fail {
        KIND: "kind", "program-fail: the program of this superpage fails";
        DIE: "die", "Die, counted through all channels and ways";
        BLOCK: "block", "Block of the die";
        SUPERPAGE: "superpage", "Superpage of the block";
        AFTER_ERASES: "after_erases", "Erases of the block from which on the fault applies; default 0";
    }

    /// Fields of erases that fail.
    erase_fail {
        KIND: "kind", "erase-fail: erases of the block fail";
        DIE: "die", "Die, counted through all channels and ways";
        BLOCK: "block", "Block of the die";
        AFTER_ERASES: "after_erases", "Erase of the block from which on the fault applies; default 0";
    }

    /// Fields of reads that fail.
    read_fail {
        KIND: "kind", "read-fail: reads of this superpage are uncorrectable";
        DIE: "die", "Die, counted through all channels and ways";
        BLOCK: "block", "Block of the die";
        SUPERPAGE: "superpage", "Superpage of the block";
        ATTEMPTS: "attempts", "Attempts that fail: a number, or always, the default";
    }
}

/// Parses one table of `[[drive.media.faults.list]]`.
fn fault(row: &Table, layout: &Layout) -> Result<ListedFault, SpecError> {
    let kind = row.word(read_fail::KIND, None)?;
    row.check_names(match kind {
        FaultKind::FactoryBad => factory_bad::ALL,
        FaultKind::ProgramFail => program_fail::ALL,
        FaultKind::EraseFail => erase_fail::ALL,
        FaultKind::ReadFail => read_fail::ALL,
    })?;
    // The index of a die, block or superpage, below `limit`.
    let place_of = |field, limit: u32| row.number(field, Kind::Whole(0, u64::from(limit) - 1), None);
    let die = place_of(read_fail::DIE, layout.dies)?;
    let block = place_of(read_fail::BLOCK, layout.blocks_per_die)?;
    let superpage = || place_of(read_fail::SUPERPAGE, layout.superpages_per_block);
    let after_erases = || row.number(erase_fail::AFTER_ERASES, count(0), Some(0));
    Ok(match kind {
        FaultKind::FactoryBad => ListedFault::FactoryBad { die, block },
        FaultKind::ProgramFail => {
            ListedFault::ProgramFail { die, block, superpage: superpage()?, after_erases: after_erases()? }
        }
        FaultKind::EraseFail => ListedFault::EraseFail { die, block, after_erases: after_erases()? },
        FaultKind::ReadFail => {
            let attempts = row.number(read_fail::ATTEMPTS, ATTEMPTS, Some(u32::MAX))?;
            ListedFault::ReadFail { die, block, superpage: superpage()?, attempts }
        }
    })
}
