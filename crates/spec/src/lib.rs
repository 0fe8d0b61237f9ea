//! Descriptions: one TOML file names a drive and the work to do with it, and is resolved into one validated
//! [`Spec`].
//!
//! ```text
//! text --document--> leaves ----+
//! preset, and the preset's own -+-> one value per key --take--> Description --resolve_*--> Spec --show--> text
//! --set KEY=VALUE --------------+   (schema)           (fields)             (cross-checks)
//! ```
//! The keys are fields of the structs that use them (crate `setting`). This crate reads documents, lays them over each other, remembers where each
//! value came from, and checks what no single key can see.
//!
//! Neither figment (it knows the file of a value, but not its line or comment) nor serde with the spans of `toml` (lines, but no layers) suffices,
//! and neither has bounds, units or texts for `explain`.
//! Later layers replace earlier ones key by key. An unknown name, a value of the wrong type or out of range, and values that contradict each other
//! are refused with the place, the key, the value and what is allowed.
//!
//! In a file, a quantity carries its unit in its value: durations are `"75us"`, rates `"200MB/s"` (1000-based, like data sheets), shares `"20%"` or
//! 0.2, sizes `"16KiB"` or whole bytes (1024-based, like fio); only 0 needs no unit. So keys have no unit in their names, except `clock_mhz`.
//!
//! Invariants: a resolved spec is complete (every key has a value), and [`show`] of it resolves to an equal one.

mod description;
mod document;
mod effect;
mod error;
mod policies;
mod presets;
mod resolve_backing;
mod resolve_controller;
mod resolve_ftl;
mod resolve_host;
mod resolve_media;
mod resolve_memory;
mod resolve_namespaces;
mod resolve_run;
mod resolve_targets;
mod resolved;
mod schema;
mod show;
mod table;
pub mod targets;

#[cfg(test)]
mod tests;

pub use document::Origin;
pub use effect::Use;
pub use error::{Place, SpecError};
pub use policies::{Outside, PYTHON};
pub use presets::{Preset, presets};
pub use resolve_backing::{Backing, BackingKind, Medium};
pub use resolve_run::{AgedBy, Fill, Overwrite, Precondition, RawJob, RawPair, RunSpec, SteadySpec};
pub use resolve_targets::DescribedTarget;
pub use show::{show, show_explained};

use description::Description;
use document::{Document, Value};
use pellucid_device::DeviceConfig;
use pellucid_host::{HostFtlConfig, LayerConfig};
use pellucid_kv::KvConfig;
use pellucid_setting::{Key, Settings, quote};
use pellucid_text::suggest::{hint, nearest};
use schema::{Values, schema};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Maximum length of a description in bytes.
const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// A validated description.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The drive.
    pub drive: DeviceConfig,
    /// Name of the drive in reports: `drive.name`, else the preset's or the file's name.
    pub drive_name: String,
    /// Kind of the drive; for [`Medium::Disk`], `drive` is not built.
    pub medium: Medium,
    /// The second drive.
    pub backing: Backing,
    /// Layers above the drive, nearest the drive first; empty: the work goes to the drive itself.
    pub host: Vec<LayerConfig>,
    /// `[host.ftl]`, whether or not the host has such a layer.
    pub host_ftl: HostFtlConfig,
    /// Targets on ranges of parallel units; only without layers.
    pub targets: Vec<DescribedTarget>,
    /// `[kv]`, whether or not a cache runs on the drive.
    pub kv: KvConfig,
    /// Work, in order.
    pub jobs: Vec<RawJob>,
    /// State of the drive before the run.
    pub precondition: Precondition,
    /// Options of the run.
    pub run: RunSpec,
    /// Where every value came from.
    pub provenance: Provenance,
}

/// Where every value of a [`Spec`] came from, in the order of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// One entry per key.
    pub entries: Vec<Entry>,
}

/// One key of a resolved description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, from the top of the file.
    pub key: &'static str,
    /// Its value as TOML, in the largest unit that holds it exactly.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Entry {
    /// Source of the value: the comment behind it, or the place where it was written.
    pub fn source(&self) -> String {
        self.origin.comment.clone().unwrap_or_else(|| self.origin.place.to_string())
    }
}

impl Provenance {
    /// The keys that were overridden (`--set`), with their values.
    pub fn overrides(&self) -> BTreeMap<String, String> {
        let set = self.entries.iter().filter(|entry| matches!(entry.origin.place, Place::Set { .. }));
        set.map(|entry| (entry.key.to_string(), entry.value.clone())).collect()
    }

    /// The entry of `key`, such as `drive.ftl.victim`.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// The default of a key as TOML.
fn default_of(path: &str) -> Option<String> {
    schema().iter().find(|key| key.path == path)?.default()
}

/// One key of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key, from the top of the file.
    pub key: &'static str,
    /// Type of its values, in a word or two.
    pub kind: String,
    /// Least and greatest value, where it has bounds.
    pub bounds: Option<(String, String)>,
    /// Allowed values.
    pub allowed: String,
    /// The default as TOML; `None`: the key is required.
    pub default: Option<String>,
    /// The unit of a plain number; empty: none.
    pub unit: &'static str,
    /// Meaning of the key.
    pub about: &'static str,
}

/// The reference: every key that a description can have.
pub fn keys() -> Vec<KeyInfo> {
    schema().iter().map(info).collect()
}

fn info(key: &'static Key) -> KeyInfo {
    KeyInfo {
        key: &key.path,
        kind: key.kind.name(),
        bounds: key.kind.bounds(),
        allowed: key.kind.allowed(),
        default: key.default(),
        unit: key.kind.unit(),
        about: &key.about,
    }
}

/// The key of this name, with or without `drive.`; for the name of a table, all of its keys.
///
/// # Errors
/// No key has this name; the sentence suggests similar names.
pub fn find_keys(typed: &str) -> Result<Vec<KeyInfo>, String> {
    let paths = schema::paths();
    let full = full_key(typed, &paths);
    let is_below = |path: &str| {
        path.strip_prefix(full.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found: Vec<KeyInfo> = schema().iter().filter(|key| is_below(&key.path)).map(info).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let last = |path: &&&str| path.rsplit('.').next() == Some(typed);
    let alike: Vec<&str> = paths.iter().filter(last).copied().collect();
    if !alike.is_empty() {
        return Err(format!("{typed}: unknown key; did you mean {}?", alike.join(", ")));
    }
    let unknown = schema::check_name(&full, &Place::Default, Some(&Value::Flag(true)), &paths);
    Err(match unknown {
        Err(SpecError::UnknownKey { key, near, allowed, .. }) => {
            format!("{key}: unknown key{}; allowed: {}", hint(near.as_deref()), allowed.join(", "))
        }
        Err(SpecError::NotAllowed { key, .. }) => format!("{typed}: unknown key; {key} has no keys below it"),
        Err(error) => error.to_string(),
        Ok(()) => format!("{typed}: unknown key"),
    })
}

/// Fields of a table in a list of tables, with a line on each.
pub type Fields = &'static [(&'static str, &'static str)];

/// The tables that a list of tables can have: its name, the condition that selects the table, and its fields.
pub fn tables() -> [(&'static str, &'static str, Fields); 10] {
    let (namespace, fault) = ("drive.namespace", "drive.media.faults.list");
    [
        (namespace, "interface = \"block\" or \"fdp\"", resolve_namespaces::block::ALL),
        (namespace, "interface = \"open-channel\"", resolve_namespaces::open_channel::ALL),
        (namespace, "interface = \"zoned\"", resolve_namespaces::zoned::ALL),
        (namespace, "interface = \"cache\"", resolve_namespaces::cache::ALL),
        (namespace, "interface = \"nameless\"", resolve_namespaces::nameless::ALL),
        ("target", "kind = \"block\" or \"raw\"", resolve_targets::target::ALL),
        (fault, "kind = \"factory-bad\"", resolve_media::factory_bad::ALL),
        (fault, "kind = \"program-fail\"", resolve_media::program_fail::ALL),
        (fault, "kind = \"erase-fail\"", resolve_media::erase_fail::ALL),
        (fault, "kind = \"read-fail\"", resolve_media::read_fail::ALL),
    ]
}

/// The text of a description or preset, read once, so that a description from a pipe can be resolved with several overrides.
#[derive(Clone, Debug)]
pub struct SpecText {
    text: String,
    name: String,
}

impl SpecText {
    /// A preset by its name, or a file by its path. A preset takes precedence over a file of the same name; `./NAME` is always a file.
    pub fn open(path_or_preset: &str) -> Result<SpecText, SpecError> {
        let name = path_or_preset.to_string();
        if let Some(preset) = presets::find(path_or_preset) {
            return Ok(SpecText { text: preset.text.into(), name });
        }
        let text = read_text(path_or_preset).map_err(|reason| SpecError::NotFound {
            name: name.clone(),
            reason,
            near: nearest(path_or_preset, presets::names()).map(String::from),
        })?;
        Ok(SpecText { text, name })
    }

    /// Resolves the description with `KEY=VALUE` overrides in order.
    pub fn spec(&self, sets: &[String]) -> Result<Spec, SpecError> {
        from_str(&self.text, &self.name, sets)
    }
}

/// Reads a description. A file that is not text, or too long, is most likely a disk or flash that the user wants to use.
fn read_text(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(DESCRIPTION_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let is_text = bytes.len() as u64 <= DESCRIPTION_BYTES_MAX && !bytes.contains(&0);
    let text = String::from_utf8(bytes).ok().filter(|_| is_text);
    text.ok_or_else(|| {
        format!(
            "no text, so no description of a drive, and no image made by pellucid age; a file or device that is to hold a cache is file:{path}"
        )
    })
}

/// Loads a preset by its name or a description by its path ([`SpecText::open`]), with `KEY=VALUE` overrides in order.
pub fn load(path_or_preset: &str, sets: &[String]) -> Result<Spec, SpecError> {
    SpecText::open(path_or_preset)?.spec(sets)
}

/// Keys that decide whether a drive, or the host FTL above it, keeps flushed data.
const DURABILITY_KEYS: [&str; 2] = ["drive.ftl.durability", "host.ftl.durability"];

/// Like [`load`], for a drive to be served: a drive that is volatile only because its preset says so, like a paper's firmware, keeps a journal. A
/// file or `--set` can still ask for the volatile drive.
pub fn load_to_serve(path_or_preset: &str, sets: &[String]) -> Result<Spec, SpecError> {
    let text = SpecText::open(path_or_preset)?;
    let spec = text.spec(sets)?;
    let forgets_by_preset = |key: &&str| {
        let entry = spec.provenance.get(key).expect("a key of the schema");
        let by_preset =
            matches!(&entry.origin.place, Place::File { name, .. } if presets::find(name).is_some());
        by_preset && entry.value == "\"volatile\"" && spec.has_effect(key, Use::Serve)
    };
    let kept: Vec<String> =
        DURABILITY_KEYS.into_iter().filter(forgets_by_preset).map(|key| format!("{key}=journal")).collect();
    if kept.is_empty() { Ok(spec) } else { text.spec(&[&kept, sets].concat()) }
}

/// Resolves the description `text`. `name` appears in messages and, without its folder and extension, names the drive.
pub fn from_str(text: &str, name: &str, sets: &[String]) -> Result<Spec, SpecError> {
    let paths = schema::paths();
    let mut own = Document::parse(text, name)?;
    schema::check_names(&own, &paths)?;
    for set in sets {
        let set = Document::parse_set(set, |key| full_key(key, &paths))?;
        schema::check_names(&set, &paths)?;
        own.overlay(set);
    }
    let drive_name = match own.text("drive.name") {
        Some((given, origin)) if !given.is_empty() => drive_name(given, &origin.place)?,
        _ => Path::new(name).file_stem().map_or(name.into(), |stem| named_after(&stem.to_string_lossy())),
    };
    let mut whole = with_base(own, &paths)?;
    if whole.text("drive.kind").is_some_and(|(kind, _)| kind == "disk") {
        // Keys of flash without a default need a value, though nothing reads it.
        let mut flash = Document::parse(NO_FLASH, NO_FLASH_NAME)?;
        flash.overlay(whole);
        whole = flash;
    }
    let values = Values::resolve(&whole, name)?;
    build(&values, drive_name)
}

/// Keys that a `KEY=VALUE` sets, each with its value: the named key or, if the value is a table, each key of the table. A leading `drive.` is
/// dropped. Empty if the text cannot be parsed; it is refused when it is read.
pub fn keys_of_set(set: &str) -> Vec<(String, String)> {
    let Ok(document) = Document::parse_set(set, str::to_string) else { return Vec::new() };
    let (key, value) = set.split_once('=').unwrap_or_default();
    let pair = |leaf: document::Leaf| {
        let own = if leaf.path == key.trim() { value.trim().to_string() } else { leaf.value.to_text() };
        (leaf.path.strip_prefix("drive.").unwrap_or(&leaf.path).to_string(), own)
    };
    document.leaves.into_values().map(pair).collect()
}

/// The first key that appears twice among keys from [`keys_of_set`], with both values.
pub fn given_twice(keys: &[(String, String)]) -> Option<(&str, [&str; 2])> {
    let earlier = |at: usize, key: &str| keys[..at].iter().find(|earlier| earlier.0 == key);
    keys.iter()
        .enumerate()
        .find_map(|(at, (key, later))| Some((key.as_str(), [&*earlier(at, key)?.1, later])))
}

/// Name of [`NO_FLASH`] in places.
const NO_FLASH_NAME: &str = "no flash";

/// Stand-in for the flash of a drive without flash.
const NO_FLASH: &str = "[drive.media]\nchannels = 1\nways = 1\nblocks = 64\npages = 64\npage_size = \"4KiB\"\nsector_size = 512\n\
    cell = \"slc\"\n[drive.media.timing]\nread = \"1us\"\nprogram = \"1us\"\nerase = \"1us\"\nchannel_rate = \"1GB/s\"\n";

/// Lays `top` over the preset that it names, and that one over its own preset, and so on.
fn with_base(mut top: Document, paths: &[&'static str]) -> Result<Document, SpecError> {
    // A preset that leads back to itself is our own bug; the bound turns it into a refusal.
    for _ in 0..=presets().len() {
        let Some((name, origin)) = top.text("drive.preset").filter(|(name, _)| !name.is_empty()) else {
            return Ok(top);
        };
        let refused = |allowed: String| SpecError::NotAllowed {
            place: origin.place.clone(),
            key: "drive.preset".into(),
            value: quote(name),
            allowed,
        };
        let preset = presets::find(name).ok_or_else(|| refused(presets::names().join(", ")))?;
        let mut base = Document::parse(preset.text, preset.name)?;
        schema::check_names(&base, paths)?;
        let next = base.leaves.remove("drive.preset");
        top.leaves.remove("drive.preset");
        if top.leaves.contains_key("target") {
            // The layers of a preset stand above the whole drive, which targets divide.
            base.leaves.remove("host.layers");
        }
        base.overlay(top);
        base.leaves.extend(next.map(|leaf| (leaf.path.clone(), leaf)));
        top = base;
    }
    Err(SpecError::NotAllowed {
        place: Place::Default,
        key: "drive.preset".into(),
        value: top.leaves.get("drive.preset").map_or(String::new(), |leaf| leaf.value.to_text()),
        allowed: "a preset that does not lead back to itself".into(),
    })
}

/// The key of a `--set`: `ftl.victim` is short for `drive.ftl.victim`. A mistyped key is completed in the way that gets more of it right.
fn full_key(typed: &str, paths: &[&'static str]) -> String {
    let known = |key: &str| {
        paths
            .iter()
            .any(|path| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    let in_drive = format!("drive.{typed}");
    // Counts the tables that exist, and reports whether the next name resembles one of theirs.
    let right = |key: &str| {
        let tables = key.match_indices('.').map(|(at, _)| &key[..at]).take_while(|&table| known(table));
        let (count, table) = tables.fold((0, ""), |(count, _), table| (count + 1, table));
        let rest = key[table.len()..].trim_start_matches('.');
        let name = rest.split('.').next().unwrap_or(rest);
        let names = schema::names_in(table, paths);
        (count, nearest(name, names.iter().map(String::as_str)).is_some())
    };
    let ((tables, near), (tables_in_drive, near_in_drive)) = (right(typed), right(&in_drive));
    let top = (tables + 1, near) > (tables_in_drive, near_in_drive);
    if known(typed) || (!known(&in_drive) && top) { typed.to_string() } else { in_drive }
}

/// Checks the name of a drive: report directories have it, and terminals print it.
fn drive_name(given: &str, place: &Place) -> Result<String, SpecError> {
    if !given.starts_with('.') && given.chars().all(in_names) {
        return Ok(given.into());
    }
    Err(SpecError::NotAllowed {
        place: place.clone(),
        key: "drive.name".into(),
        value: Value::Text(given.into()).to_text(),
        allowed: "letters, digits, spaces and . _ - ( ), not beginning with a dot".into(),
    })
}

fn in_names(c: char) -> bool {
    c.is_alphanumeric() || " ._-()".contains(c)
}

/// Derives a drive's name from any file name.
fn named_after(file: &str) -> String {
    let name: String = file.chars().map(|c| if in_names(c) { c } else { '_' }).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

fn build(values: &Values, drive_name: String) -> Result<Spec, SpecError> {
    let mut all = Description::take(values, "");
    let device = &mut all.drive.device;
    let layout = resolve_media::finish(device, values)?;
    resolve_namespaces::finish(device, values, &layout)?;
    resolve_media::check_integrity(values, &device.media)?;
    let translated = resolve_namespaces::Translated::find(&device.namespaces, &layout);
    resolve_ftl::finish(device, values, translated.as_ref())?;
    resolve_controller::check(device, values, &layout)?;
    // A disk has no flash controller, so keys of its memory have no effect.
    if all.drive.kind == Medium::Flash {
        resolve_memory::check(&all.drive.device, values)?;
    }
    resolve_backing::finish(&mut all, values)?;
    resolve_host::finish(&mut all.host, &all.drive.device, values);
    let host = resolve_host::layers(&all, values)?;
    let targets = resolve_targets::resolve(&all, values, &layout)?;
    let jobs = resolve_run::jobs(values.rows("job"))?;
    resolve_run::check(&all.precondition, values)?;
    all.run.steady = resolve_run::steady(values)?;
    Ok(Spec {
        drive: all.drive.device,
        medium: all.drive.kind,
        backing: all.backing,
        host,
        host_ftl: all.host.ftl,
        targets,
        kv: KvConfig::described(values, "kv"),
        jobs,
        precondition: all.precondition,
        run: all.run,
        provenance: provenance(values, &drive_name),
        drive_name,
    })
}

/// Origins of all values; `drive_name` is the name that reports use.
fn provenance(values: &Values, drive_name: &str) -> Provenance {
    let entry = |resolved: &schema::Resolved| Entry {
        key: &resolved.key.path,
        value: resolved.to_text(),
        origin: resolved.origin.clone(),
    };
    let mut provenance = Provenance { entries: values.iter().map(entry).collect() };
    if let Some(name) = provenance.entries.iter_mut().find(|entry| entry.key == "drive.name") {
        name.value = quote(drive_name);
    }
    provenance
}
