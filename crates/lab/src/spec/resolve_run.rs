//! `[[job]]`, `[precondition]`, `[run]`: what is done with the drive.

use super::document::{Leaf, Origin, Row, Value};
use super::error::{Place, SpecError};
use super::schema::Fallback::{Empty, Flag, Real, Whole, Word};
use super::schema::{Key, Kind, SHARE, Values, count, key};
use crate::trace::AddressPolicy;
use std::path::PathBuf;

const CAPACITIES: Kind = Kind::Or("steady", &Kind::Real(0.0, f64::MAX));
const FILL: Kind = Kind::Or("trace", &SHARE);
const SEED: Kind = Kind::Whole(0, i64::MAX as u64);
const ADDRESSES: Kind = Kind::Word(&["refuse", "fold", "compact"]);
/// A factor on recorded arrival times: above zero, and within reason.
const TIME_SCALE: Kind = Kind::Real(1e-9, 1e9);

pub(crate) const KEYS: &[Key] = &[
    key("job", Kind::Tables, Empty, "Jobs in order: [[job]], with fio's keys"),
    key(
        "precondition.fill",
        FILL,
        Real(0.0),
        "Share of the capacity written sequentially before the run; trace: only what the trace reads before it writes it",
    ),
    key("precondition.overwrite", CAPACITIES, Real(0.0), "Capacities of random overwrites after the fill"),
    key(
        "precondition.shelf_days",
        Kind::Real(0.0, 36_525.0),
        Real(0.0),
        "Days that the data then lie, unread, before the run (they matter to bit errors)",
    ),
    key("precondition.seed", SEED, Whole(1), "Seed of the overwrites"),
    key("run.seed", SEED, Whole(1), "Seed of the jobs"),
    key("run.verify", Kind::Flag, Flag(false), "Check every byte that is read"),
    key("run.report", Kind::Text, Word(""), "Directory of the report; empty: none"),
    key("run.log", Kind::Text, Word(""), "File for one line per request; empty: none"),
    key("run.trace", Kind::Text, Word(""), "Trace to replay; empty: the jobs run"),
    key("run.format", Kind::Text, Word(""), "Format of the trace; empty: recognised"),
    key("run.address", ADDRESSES, Word("refuse"), "Trace requests beyond the end of the drive"),
    key("run.time_scale", TIME_SCALE, Real(1.0), "Factor on the trace's arrival times"),
    key(
        "run.closed_loop",
        Kind::Or("off", &count(1)),
        Word("off"),
        "Keep so many requests outstanding instead",
    ),
    key(
        "run.stream",
        Kind::Or("all", &Kind::Whole(0, u32::MAX as u64)),
        Word("all"),
        "The device of the trace to replay, by its number there (files of fio: 0, 1, ... as they come)",
    ),
    key("run.limit", Kind::Or("all", &count(1)), Word("all"), "Records of the trace to replay"),
];

/// One `[[job]]`: fio's words, not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawJob {
    /// Where the table begins.
    pub place: Place,
    /// Its keys in the order of the file.
    pub pairs: Vec<RawPair>,
}

/// One key of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPair {
    /// The key.
    pub key: String,
    /// The value as fio would take it: numbers and booleans as text.
    pub value: String,
    /// Where it was written, and the comment behind it.
    pub origin: Origin,
}

/// What is written before the run, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// This share of the capacity, 0 to 1, sequentially.
    Share(f64),
    /// What the trace reads before it writes it.
    Trace,
}

impl Fill {
    /// The share of the capacity, where that was asked for.
    pub fn share(self) -> f64 {
        match self {
            Fill::Share(share) => share,
            Fill::Trace => 0.0,
        }
    }
}

/// Writes before the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// What is written first.
    pub fill: Fill,
    /// Random overwrites after the fill.
    pub overwrite: Overwrite,
    /// Seed of the overwrites.
    pub seed: u64,
    /// Days between the last write and the run.
    pub shelf_days: f64,
}

impl Precondition {
    /// In a few words.
    pub fn words(&self) -> String {
        let written = match self.fill {
            Fill::Trace => return "trace: what it reads before it writes it".into(),
            Fill::Share(0.0) => return "none".into(),
            Fill::Share(share) => format!("{} % filled", share * 100.0),
        };
        match self.overwrite {
            Overwrite::Capacities(0.0) => written,
            Overwrite::Capacities(times) => format!("{written}, overwritten {times} times"),
            Overwrite::Steady => format!("{written}, overwritten until steady"),
        }
    }

    /// Seconds between the last write and the run.
    pub fn shelf_seconds(&self) -> u64 {
        (self.shelf_days * 86_400.0) as u64
    }
}

/// How long random overwrites go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overwrite {
    /// So many times the capacity.
    Capacities(f64),
    /// Until write amplification no longer changes.
    Steady,
}

/// How the run is done and what it leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// Seed of the jobs.
    pub seed: u64,
    /// Whether every byte that is read is checked.
    pub verify: bool,
    /// Directory of the report.
    pub report: Option<PathBuf>,
    /// File for one line per request.
    pub log: Option<PathBuf>,
    /// Trace to replay.
    pub trace: Option<PathBuf>,
    /// Where the trace's bytes are, if it could be read only once and was copied.
    pub trace_copy: Option<PathBuf>,
    /// Format of the trace; `None`: to be recognised.
    pub format: Option<String>,
    /// Requests beyond the end of the drive.
    pub address: AddressPolicy,
    /// Factor on the trace's arrival times; 0.5 replays twice as fast.
    pub time_scale: f64,
    /// Requests kept outstanding, instead of the trace's arrival times.
    pub closed_loop: Option<u32>,
    /// The device of the trace to replay; `None`: all.
    pub stream: Option<u32>,
    /// Records of the trace to replay; `None`: all.
    pub limit: Option<u64>,
}

pub(crate) fn precondition(values: &Values) -> Result<Precondition, SpecError> {
    let fill = values.real_or_none("precondition.fill").map_or(Fill::Trace, Fill::Share);
    let overwrite =
        values.real_or_none("precondition.overwrite").map_or(Overwrite::Steady, Overwrite::Capacities);
    if fill.share() == 0.0 && overwrite != Overwrite::Capacities(0.0) {
        let allowed = "0, or anything with a precondition.fill above 0: what was filled is overwritten";
        return Err(values.refuse("precondition.overwrite", allowed));
    }
    Ok(Precondition {
        fill,
        overwrite,
        shelf_days: values.real("precondition.shelf_days"),
        seed: values.whole("precondition.seed"),
    })
}

pub(crate) fn run(values: &Values) -> RunSpec {
    let some = |path: &str| Some(values.text(path)).filter(|text| !text.is_empty());
    RunSpec {
        seed: values.whole("run.seed"),
        verify: values.flag("run.verify"),
        report: some("run.report").map(PathBuf::from),
        log: some("run.log").map(PathBuf::from),
        trace: some("run.trace").map(PathBuf::from),
        trace_copy: None,
        format: some("run.format").map(str::to_string),
        address: match values.text("run.address") {
            "refuse" => AddressPolicy::Refuse,
            "fold" => AddressPolicy::Fold,
            _ => AddressPolicy::Compact,
        },
        time_scale: values.real("run.time_scale"),
        closed_loop: values.whole_or_none("run.closed_loop").map(|depth| depth as u32),
        stream: values.whole_or_none("run.stream").map(|stream| stream as u32),
        limit: values.whole_or_none("run.limit"),
    }
}

pub(crate) fn jobs(values: &Values) -> Result<Vec<RawJob>, SpecError> {
    values.tables("job").iter().enumerate().map(|(index, row)| job(index, row)).collect()
}

fn job(index: usize, row: &Row) -> Result<RawJob, SpecError> {
    let pairs = row.fields.iter().map(|field| pair(index, field)).collect::<Result<_, _>>()?;
    Ok(RawJob { place: row.place.clone(), pairs })
}

fn pair(index: usize, field: &Leaf) -> Result<RawPair, SpecError> {
    let value = match &field.value {
        Value::Text(text) => text.clone(),
        Value::Whole(_) | Value::Real(_) | Value::Flag(_) => field.value.to_toml(),
        other => {
            return Err(SpecError::NotAllowed {
                place: field.origin.place.clone(),
                key: format!("job[{index}].{}", field.path),
                value: other.to_toml(),
                allowed: "a text, a number, true, false".into(),
            });
        }
    };
    Ok(RawPair { key: field.path.clone(), value, origin: field.origin.clone() })
}
