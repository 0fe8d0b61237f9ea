//! `[drive.media]`: shape, cells, times, faults and what is kept of the data.

use super::error::SpecError;
use super::schema::Fallback::{Empty, Flag, Real, Required, Whole, Word};
use super::schema::{Key, Kind, SHARE, TIME, Values, count, key};
use super::table::Table;
use super::value::Quantity;
use pellucid_flash::{Geometry, GeometryError, Layout, Nanos};
use pellucid_media::{
    Bch, BitErrors, Cell, Ecc, EccData, Faults, Integrity, Keep, ListedFault, MediaConfig, MediaError,
    SlcBlocks, Space, StoreKind, SyncTo, Timing,
};
use std::path::PathBuf;

/// Far above what any geometry allows, and small enough for 32 bits.
const SIZE32: Kind = Kind::Unit(Quantity::Size, 0, 1 << 30);
/// Below 1, so that a scaled time stays above zero.
const SPREAD: Kind = Kind::Real(0.0, 0.99);

/// A count of at least 1 and at most `max`.
const fn up_to(max: u32) -> Kind {
    Kind::Whole(1, max as u64)
}

pub(crate) const KEYS: &[Key] = &[
    key(
        "drive.media.channels",
        up_to(Geometry::CHANNELS_MAX),
        Required,
        "Channels: independent buses between controller and media",
    ),
    key(
        "drive.media.ways",
        up_to(Geometry::WAYS_MAX),
        Required,
        "Ways per channel: chip enables that share the bus",
    ),
    key(
        "drive.media.dies",
        up_to(Geometry::DIES_MAX),
        Whole(1),
        "Dies per way that work independently of each other",
    ),
    key("drive.media.planes", up_to(Geometry::PLANES_MAX), Whole(1), "Planes per die"),
    key("drive.media.blocks", up_to(Geometry::BLOCKS_MAX), Required, "Blocks per plane"),
    key("drive.media.pages", up_to(Geometry::PAGES_MAX), Required, "Pages per block, in the mode used"),
    key("drive.media.page_size", SIZE32, Required, "Data of one page"),
    key(
        "drive.media.spare_size",
        SIZE32,
        Whole(0),
        "Spare (out-of-band) bytes of one page; they cross the channel too",
    ),
    key("drive.media.sector_size", SIZE32, Word("4KiB"), "Host sector (logical block)"),
    key("drive.media.unit_size", SIZE32, Word("4KiB"), "Mapping unit: what one map entry covers"),
    key("drive.media.multi_plane", Kind::Flag, Flag(false), "Planes of a die are always operated together"),
    key(
        "drive.media.independent_plane_reads",
        Kind::Flag,
        Flag(false),
        "Each plane of a die reads by itself (ONFI: independent plane reads); programs and erases take the whole die",
    ),
    key(
        "drive.media.one_shot_pages",
        up_to(Geometry::ONE_SHOT_PAGES_MAX),
        Whole(1),
        "Pages of a word line that one program writes",
    ),
    key("drive.media.cell", Kind::Word(&["slc", "mlc", "tlc", "qlc"]), Required, "Cells as manufactured"),
    key(
        "drive.media.mode",
        Kind::Word(&["native", "slc"]),
        Word("native"),
        "\"slc\": only the LSB pages are used",
    ),
    key(
        "drive.media.endurance",
        Kind::Or("unlimited", &count(1)),
        Word("unlimited"),
        "Erases that a block survives",
    ),
    key(
        "drive.media.cycles",
        Kind::Whole(0, 10_000_000),
        Whole(0),
        "Program/erase cycles behind every good block of new media",
    ),
    key(
        "drive.media.store",
        STORE,
        Word("none"),
        "What is kept of the data: a stamp per sector, or all bytes",
    ),
    key("drive.media.path", Kind::Text, Word(""), "File of store = \"file\""),
    key(
        "drive.media.space",
        Kind::Word(&["sparse", "reserve"]),
        Word("sparse"),
        "That file's space: as it is written, or all of it at once",
    ),
    key(
        "drive.media.sync",
        Kind::Word(&["process", "machine"]),
        Word("process"),
        "What flushed data in that file outlive: the end of the process, or of the machine",
    ),
    key(
        "drive.media.ram_max",
        Kind::Or("unlimited", &Kind::Unit(Quantity::Size, 1, i64::MAX as u64)),
        Word("unlimited"),
        "Memory that data may take with store = \"ram\"; then hosts cannot write",
    ),
    key("drive.media.seed", Kind::Whole(0, i64::MAX as u64), Whole(1), "Seed of all media randomness"),
    key("drive.media.timing.read", Kind::Times, Required, "Sense time per page type, LSB first"),
    key(
        "drive.media.timing.program",
        Kind::Times,
        Required,
        "Program time per page type; one-shot: of the word line",
    ),
    key(
        "drive.media.timing.slc_read",
        TIME,
        Whole(0),
        "Sense time of a page in a block of the SLC cache (ftl.slc_cache.blocks)",
    ),
    key("drive.media.timing.slc_program", TIME, Whole(0), "Program time of such a page, of all planes"),
    key("drive.media.timing.erase", TIME, Required, "Erase time"),
    key(
        "drive.media.timing.die_spread",
        SPREAD,
        Real(0.0),
        "Spread of array times between dies: a factor of 1 +- this",
    ),
    key("drive.media.timing.op_spread", SPREAD, Real(0.0), "Spread of array times between operations"),
    key(
        "drive.media.timing.op_deviation",
        TIME,
        Whole(0),
        "... and a time by which each operation deviates, either way",
    ),
    key("drive.media.timing.channel_rate", RATE, Required, "Channel transfer rate, for data and spare"),
    key(
        "drive.media.timing.command",
        TIME,
        Whole(0),
        "Channel time of the command and address cycles of an operation",
    ),
    key("drive.media.timing.status", TIME, Whole(0), "Channel time of one status check"),
    key("drive.media.timing.suspend", Kind::Or("never", &TIME), Word("never"), "Time to suspend a program"),
    key(
        "drive.media.timing.suspend_erase",
        Kind::Or("same", &TIME),
        Word("same"),
        "Time to suspend an erase",
    ),
    key("drive.media.timing.resume", TIME, Whole(0), "Time to resume either"),
    key(
        "drive.media.faults.factory_bad",
        SHARE,
        Real(0.0),
        "Probability that a block is bad from the factory",
    ),
    key("drive.media.faults.program_fail", SHARE, Real(0.0), "Probability that a program fails"),
    key("drive.media.faults.erase_fail", SHARE, Real(0.0), "Probability that an erase fails"),
    key("drive.media.faults.read_fail", SHARE, Real(0.0), "Probability that a read attempt is uncorrectable"),
    key(
        "drive.media.bit_errors.enabled",
        Kind::Flag,
        Flag(false),
        "Bits are wrong as the model says: by wear, retention, reads, page type, pattern",
    ),
    key(
        "drive.media.bit_errors.factor",
        Kind::Real(0.0, 1e9),
        Real(1.0),
        "Factor on the rate of the model, which is that of no particular part",
    ),
    key(
        "drive.media.bit_errors.retry_factor",
        SHARE,
        Real(0.5),
        "Share of the errors that each read retry leaves",
    ),
    key("drive.media.bit_errors.retry_floor", SHARE, Real(0.1), "Share of the errors that no retry removes"),
    key("drive.media.faults.list", Kind::Tables, Empty, "Faults by place: [[drive.media.faults.list]]"),
    key("drive.ecc.code", Kind::Word(&["none", "bch"]), Word("none"), "Error-correcting code"),
    key("drive.ecc.chunk", SIZE32, Word("256B"), "Data that one code word protects"),
    key(
        "drive.ecc.correctable",
        up_to(Bch::STRENGTH_MAX as u32),
        Whole(13),
        "Bits that can be corrected in a chunk and its parity together",
    ),
    key(
        "drive.ecc.data",
        Kind::Word(&["drawn", "real", "checked"]),
        Word("drawn"),
        "What is coded: nothing (wrong bits are drawn), chunks with wrong bits, or all that is read",
    ),
    key("drive.ecc.scrambler", Kind::Flag, Flag(true), "Data are scrambled by their row address"),
    key(
        "drive.ecc.refresh_above",
        Kind::Or("never", &count(0)),
        Word("never"),
        "A read that corrects more bits in one chunk has its block written anew",
    ),
];

const STORE: Kind = Kind::WordOrText(&["none", "ram", "file"], "file");
const RATE: Kind = Kind::Unit(Quantity::Rate, 1, i64::MAX as u64);

/// The media, and the layout that the other parts are checked against.
pub(crate) fn build(values: &Values) -> Result<(MediaConfig, Layout), SpecError> {
    let geometry = geometry(values);
    let layout = geometry.layout().map_err(|error| geometry_error(values, &error))?;
    let cell = match values.text("drive.media.cell") {
        "slc" => Cell::Slc,
        "mlc" => Cell::Mlc,
        "tlc" => Cell::Tlc,
        _ => Cell::Qlc,
    };
    let slc_mode = values.text("drive.media.mode") == "slc";
    if slc_mode && cell == Cell::Slc {
        return Err(values.refuse("drive.media.mode", "native, because the cells are SLC already"));
    }
    let page_types = if slc_mode { 1 } else { cell.bits() };
    if geometry.one_shot_pages > page_types {
        let range = if page_types == 1 { "1".to_string() } else { format!("1 to {page_types}") };
        let allowed = format!("{range}, the pages of a word line of these cells in this mode");
        return Err(values.refuse("drive.media.one_shot_pages", allowed));
    }
    let media = MediaConfig {
        timing: timing(values, page_types, geometry.one_shot_pages > 1)?,
        geometry: geometry.clone(),
        cell,
        slc_mode,
        slc_blocks: slc_blocks(values)?,
        independent_plane_reads: independent_plane_reads(values, &geometry)?,
        endurance: values.whole_or_none("drive.media.endurance").map(|erases| erases as u32),
        faults: faults(values, &layout)?,
        store: store(values)?,
        // What a namespace asks for; filled in when the namespaces are known.
        metadata_bytes: 0,
        save_bytes: 0,
        keep: keep(values),
        integrity: integrity(values)?,
        seed: values.whole("drive.media.seed"),
    };
    Ok((media, layout))
}

/// Bits of a cell whose pages are programmed together.
pub(super) fn one_shot_bits(values: &Values) -> Option<u32> {
    let bits = match values.text("drive.media.cell") {
        "slc" => 1,
        "mlc" => 2,
        "tlc" => 3,
        _ => 4,
    };
    let native = values.text("drive.media.mode") == "native";
    (native && bits > 1 && values.u32("drive.media.one_shot_pages") == bits).then_some(bits)
}

/// Blocks in SLC mode, as the translation layer asks for them.
fn slc_blocks(values: &Values) -> Result<Option<SlcBlocks>, SpecError> {
    let blocks = values.u32("drive.ftl.slc_cache.blocks");
    if blocks == 0 {
        return Ok(None);
    }
    let time = |key: &str| match values.time(key) {
        Nanos::ZERO => Err(values.refuse(key, "a duration above 0, because drive.ftl.slc_cache.blocks is")),
        time => Ok(time),
    };
    let read_ns = time("drive.media.timing.slc_read")?;
    Ok(Some(SlcBlocks { blocks, read_ns, program_ns: time("drive.media.timing.slc_program")? }))
}

fn independent_plane_reads(values: &Values, geometry: &Geometry) -> Result<bool, SpecError> {
    const KEY: &str = "drive.media.independent_plane_reads";
    if !values.flag(KEY) {
        return Ok(false);
    }
    let allowed = match () {
        _ if geometry.planes == 1 => "false, or true with drive.media.planes of 2 or more".to_string(),
        _ if geometry.unit_bytes > geometry.page_bytes => {
            "false, or true with drive.media.unit_size at most drive.media.page_size".into()
        }
        _ if geometry.ways * geometry.dies * geometry.planes > Geometry::WAYS_MAX => {
            format!("false, or true with ways x dies x planes at most {} on a channel", Geometry::WAYS_MAX)
        }
        _ if values.text("drive.firmware.model") == "loop" => {
            "false, or true with drive.firmware.model = \"tasks\"".into()
        }
        _ => return Ok(true),
    };
    Err(values.refuse(KEY, allowed))
}

fn integrity(values: &Values) -> Result<Integrity, SpecError> {
    let data = match values.text("drive.ecc.data") {
        "drawn" => EccData::Drawn,
        "real" => EccData::Real,
        _ => EccData::Checked,
    };
    let ecc = Ecc {
        chunk_bytes: values.u32("drive.ecc.chunk"),
        correctable: values.u32("drive.ecc.correctable"),
        data,
    };
    let protected = values.text("drive.ecc.code") == "bch";
    if !protected && data != EccData::Drawn {
        return Err(
            values.refuse("drive.ecc.data", "drawn, or real and checked with drive.ecc.code = \"bch\"")
        );
    }
    let enabled = values.flag("drive.media.bit_errors.enabled");
    let bit_errors = BitErrors {
        factor: values.real("drive.media.bit_errors.factor"),
        retry_factor: values.real("drive.media.bit_errors.retry_factor"),
        retry_floor: values.real("drive.media.bit_errors.retry_floor"),
    };
    let integrity = Integrity {
        ecc: protected.then_some(ecc),
        scrambler: values.flag("drive.ecc.scrambler"),
        bit_errors: enabled.then_some(bit_errors),
        cycles: values.u32("drive.media.cycles"),
    };
    if values.flag("drive.ftl.copyback") && integrity.forbids_copies() {
        return Err(values.refuse("drive.ftl.copyback", NO_COPIES));
    }
    Ok(integrity)
}

/// What copyback may be where [`Integrity::forbids_copies`].
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

fn geometry(values: &Values) -> Geometry {
    Geometry {
        channels: values.u32("drive.media.channels"),
        ways: values.u32("drive.media.ways"),
        dies: values.u32("drive.media.dies"),
        planes: values.u32("drive.media.planes"),
        blocks: values.u32("drive.media.blocks"),
        pages: values.u32("drive.media.pages"),
        page_bytes: values.u32("drive.media.page_size"),
        spare_bytes: values.u32("drive.media.spare_size"),
        sector_bytes: values.u32("drive.media.sector_size"),
        unit_bytes: values.u32("drive.media.unit_size"),
        multi_plane: values.flag("drive.media.multi_plane"),
        one_shot_pages: values.u32("drive.media.one_shot_pages"),
    }
}

/// The geometry's own refusal, in the words of the file: there a size's key ends in `_size`, because its
/// value carries the unit.
fn geometry_error(values: &Values, error: &GeometryError) -> SpecError {
    let path = format!("drive.media.{}", error.key.replace("_bytes", "_size"));
    let allowed = error.allowed.strip_prefix("allowed: ").unwrap_or(&error.allowed);
    values.refuse(&path, allowed.replace("_bytes", "_size"))
}

fn timing(values: &Values, page_types: u32, one_shot: bool) -> Result<Timing, SpecError> {
    let plural = if page_types == 1 { "" } else { "s" };
    let one_per_page_type = || format!("{page_types} duration{plural}, one per page type in use");
    let read_ns = values.times("drive.media.timing.read");
    if read_ns.len() != page_types as usize {
        return Err(values.refuse("drive.media.timing.read", one_per_page_type()));
    }
    let program_ns = values.times("drive.media.timing.program");
    if one_shot && program_ns.len() != 1 {
        let allowed = "1 duration, that of the whole word line, because one_shot_pages is above 1";
        return Err(values.refuse("drive.media.timing.program", allowed));
    }
    if !one_shot && program_ns.len() != page_types as usize {
        return Err(values.refuse("drive.media.timing.program", one_per_page_type()));
    }
    let op_deviation_ns = values.time("drive.media.timing.op_deviation");
    let erase_ns = values.time("drive.media.timing.erase");
    let shortest = read_ns.iter().chain(&program_ns).chain([&erase_ns]).min();
    if shortest.is_some_and(|&shortest| op_deviation_ns > shortest) {
        let allowed = "at most the shortest of read, program and erase";
        return Err(values.refuse("drive.media.timing.op_deviation", allowed));
    }
    let suspend_ns = values.whole_or_none("drive.media.timing.suspend").map(Nanos);
    let suspend_erase_ns = values.whole_or_none("drive.media.timing.suspend_erase").map(Nanos);
    Ok(Timing {
        read_ns,
        program_ns,
        erase_ns,
        die_spread: values.real("drive.media.timing.die_spread"),
        op_spread: values.real("drive.media.timing.op_spread"),
        op_deviation_ns,
        channel_bytes_per_second: values.whole("drive.media.timing.channel_rate"),
        command_ns: values.time("drive.media.timing.command"),
        status_ns: values.time("drive.media.timing.status"),
        suspend_ns,
        suspend_erase_ns: suspend_erase_ns.or(suspend_ns).unwrap_or(Nanos::ZERO),
        resume_ns: values.time("drive.media.timing.resume"),
    })
}

fn store(values: &Values) -> Result<StoreKind, SpecError> {
    let path = values.text("drive.media.path");
    match values.text("drive.media.store") {
        "none" => Ok(StoreKind::None),
        "ram" => Ok(StoreKind::Ram),
        "file" if path.is_empty() => {
            Err(values.refuse("drive.media.store", "\"file:PATH\", or \"file\" with drive.media.path"))
        }
        "file" => Ok(StoreKind::File(PathBuf::from(path))),
        named => Ok(StoreKind::File(PathBuf::from(named.strip_prefix("file:").unwrap_or(named)))),
    }
}

fn keep(values: &Values) -> Keep {
    let is = |key, word| values.text(key) == word;
    Keep {
        space: if is("drive.media.space", "reserve") { Space::Reserve } else { Space::Sparse },
        sync: if is("drive.media.sync", "machine") { SyncTo::Machine } else { SyncTo::Process },
        ram_max: values.whole_or_none("drive.media.ram_max"),
    }
}

fn faults(values: &Values, layout: &Layout) -> Result<Faults, SpecError> {
    let rows = values.tables("drive.media.faults.list");
    let list = rows
        .iter()
        .enumerate()
        .map(|(index, row)| fault(&Table { list: "drive.media.faults.list", index, row }, layout));
    Ok(Faults {
        factory_bad: values.real("drive.media.faults.factory_bad"),
        program_fail: values.real("drive.media.faults.program_fail"),
        erase_fail: values.real("drive.media.faults.erase_fail"),
        read_fail: values.real("drive.media.faults.read_fail"),
        list: list.collect::<Result<_, _>>()?,
    })
}

const ATTEMPTS: Kind = Kind::Or("always", &count(1));
const FAULT_KINDS: &[&str] = &["factory-bad", "program-fail", "erase-fail", "read-fail"];

/// One table of `[[drive.media.faults.list]]`.
fn fault(row: &Table, layout: &Layout) -> Result<ListedFault, SpecError> {
    let kind = row.word("kind", FAULT_KINDS, None)?;
    let names: &[&str] = match kind.as_str() {
        "factory-bad" => &["kind", "die", "block"],
        "program-fail" => &["kind", "die", "block", "stripe", "after_erases"],
        "erase-fail" => &["kind", "die", "block", "after_erases"],
        _ => &["kind", "die", "block", "stripe", "attempts"],
    };
    row.check_names(names)?;
    // A die, block or stripe of the drive, which has `limit` of them.
    let place_of = |name, limit: u32| row.number(name, Kind::Whole(0, u64::from(limit) - 1), None);
    let die = place_of("die", layout.dies)?;
    let block = place_of("block", layout.blocks_per_die)?;
    let stripe = || place_of("stripe", layout.stripes_per_block);
    let after_erases = || row.number("after_erases", count(0), Some(0));
    Ok(match kind.as_str() {
        "factory-bad" => ListedFault::FactoryBad { die, block },
        "program-fail" => {
            ListedFault::ProgramFail { die, block, stripe: stripe()?, after_erases: after_erases()? }
        }
        "erase-fail" => ListedFault::EraseFail { die, block, after_erases: after_erases()? },
        _ => {
            let attempts = row.number("attempts", ATTEMPTS, Some(u32::MAX))?;
            ListedFault::ReadFail { die, block, stripe: stripe()?, attempts }
        }
    })
}
