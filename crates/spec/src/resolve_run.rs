//! `[[job]]`, `[precondition]`, `[run]`: what is done with the drive.

use super::document::{Leaf, Origin, Row, Value};
use super::draft::Draft;
use super::error::{Place, SpecError};
use super::schema::Fallback::{Empty, Flag, Real, Whole, Word};
use super::schema::{Kind, SHARE, Values, count, keys, word};
use pellucid_flash::Nanos;
use pellucid_text::Quantity;
use pellucid_workload::trace::AddressPolicy;
use pellucid_workload::{SNIA_ROUNDS, SteadyRule};
use std::path::PathBuf;

const CAPACITIES: Kind = Kind::Or("steady", &Kind::Real(0.0, 1e6));
const FILL: Kind = Kind::Or("trace", &SHARE);
const SEED: Kind = Kind::Whole(0, i64::MAX as u64);
const ROUND: Kind = Kind::Unit(Quantity::Time, 1_000_000, 86_400_000_000_000);
/// A factor on recorded arrival times: above zero, and within reason.
const TIME_SCALE: Kind = Kind::Real(1e-9, 1e9);

keys! {
    "job": Kind::Tables, Empty => jobs,
        "Jobs in order: [[job]], with fio's keys";
    "precondition.fill": FILL, Real(0.0) => precondition.fill,
        "Share of the capacity written sequentially before the run; trace: only what the trace reads before it writes it";
    "precondition.overwrite": CAPACITIES, Real(0.0) => precondition.overwrite,
        "Random overwrites after the fill, in capacities; steady: until write amplification no longer changes";
    "precondition.steady": word::<AgedBy>(), Word("change") => precondition.aged_by,
        "When overwriting is steady. change: write amplification of a pass differs by less than 1 %; snia: that of five passes ranges over at most 20 %, with a slope of at most 10 %";
    "precondition.shelf_days": Kind::Real(0.0, 36_525.0), Real(0.0) => precondition.shelf_days,
        "Days that the data then lie unread before the run (they matter to bit errors and read retries)";
    "precondition.seed": SEED, Whole(1) => precondition.seed,
        "Seed of the overwrites";
    "run.seed": SEED, Whole(1) => run.seed,
        "Seed of the jobs";
    "run.verify": Kind::Flag, Flag(false) => run.verify,
        "Check every byte that is read";
    "run.steady_state": Kind::Or("off", &Kind::Text), Word("off") => steady_rule,
        "Ends the run once it is steady by this rule: SNIA's (snia, snia:bw, snia:lat) or fio's (iops:3%, bw_slope:1%, ...)";
    "run.steady_round": ROUND, Word("60s") => steady_round,
        "Length of a round, whose IOPS, bandwidth or mean latency is one value";
    "run.steady_window": Kind::Whole(2, 1000), Whole(SNIA_ROUNDS as i64) => steady_window,
        "Rounds that are judged together; SNIA's rule has 5";
    "run.report": Kind::Text, Word("") => run.report,
        "Directory of the report; empty: none";
    "run.log": Kind::Text, Word("") => run.log,
        "File for one line per request; empty: none";
    "run.trace": Kind::Text, Word("") => run.trace,
        "Trace to replay; empty: the jobs run";
    "run.format": Kind::Text, Word("") => run.format,
        "Format of the trace, or csv: and its columns; empty: recognised";
    "run.address": word::<AddressPolicy>(), Word("refuse") => run.address,
        "What is done with trace requests beyond the end of the drive";
    "run.time_scale": TIME_SCALE, Real(1.0) => run.time_scale,
        "Factor on the trace's arrival times";
    "run.closed_loop": Kind::Or("off", &count(1)), Word("off") => run.closed_loop,
        "Requests kept outstanding, instead of following the arrival times of the trace";
    "run.stream": Kind::Or("all", &Kind::Whole(0, u32::MAX as u64)), Word("all") => run.stream,
        "Device of the trace to replay, by its number there (files of fio: 0, 1, ... as they come)";
    "run.repeat": count(1), Whole(1) => run.repeat,
        "Times that the trace is replayed, one pass after the other; run.limit counts the records of each";
    "run.limit": Kind::Or("all", &count(1)), Word("all") => run.limit,
        "Records of the trace to replay";
}

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

/// State of the drive before the run, made once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// This share of the capacity, 0 to 1, sequentially.
    Share(f64),
    /// All data that the trace reads before it writes them.
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
    /// Data that are written first.
    pub fill: Fill,
    /// Random overwrites after the fill.
    pub overwrite: Overwrite,
    /// Rule by which overwrites that go on until steady end.
    pub aged_by: AgedBy,
    /// Seed of the overwrites.
    pub seed: u64,
    /// Days between the last write and the run.
    pub shelf_days: f64,
}

impl Precondition {
    /// Bytes that are written where `filled` are filled; `None`: not known before.
    pub fn written_bytes(&self, filled: u64) -> Option<u64> {
        match self.overwrite {
            Overwrite::Capacities(times) => Some(filled.saturating_add((filled as f64 * times) as u64)),
            Overwrite::Steady => None,
        }
    }

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
            Overwrite::Steady if self.aged_by == AgedBy::Snia => {
                format!("{written}, overwritten until steady by SNIA's rule")
            }
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
    /// A multiple of the capacity.
    Capacities(f64),
    /// Until write amplification no longer changes.
    Steady,
}

/// When random overwrites that go on until steady end.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
pub enum AgedBy {
    /// Write amplification of a pass differs little from that of the pass before.
    #[default]
    Change,
    /// Write amplification of five passes holds SNIA's rule.
    Snia,
}

/// Rounds of a run that goes on until it is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadySpec {
    /// The rule.
    pub rule: SteadyRule,
    /// Length of a round.
    pub round: Nanos,
    /// Rounds that are judged together.
    pub window: u32,
}

/// How the run is done and what it leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// Seed of the jobs.
    pub seed: u64,
    /// True if every byte that is read is checked.
    pub verify: bool,
    /// The run ends once it is steady; `None`: when its work is done.
    pub steady: Option<SteadySpec>,
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
    /// Times that the trace is replayed.
    pub repeat: u32,
    /// Records of the trace to replay; `None`: all.
    pub limit: Option<u64>,
}

/// The rounds of a run that ends once it is steady.
pub(crate) fn steady(draft: &Draft, values: &Values) -> Result<Option<SteadySpec>, SpecError> {
    let Some(text) = &draft.steady_rule else { return Ok(None) };
    let allowed = || format!("off, {}", SteadyRule::ALLOWED);
    let rule: SteadyRule = text.parse().map_err(|()| values.refuse("run.steady_state", allowed()))?;
    if matches!(rule, SteadyRule::Snia(_)) && draft.steady_window != SNIA_ROUNDS {
        return Err(
            values.refuse("run.steady_window", format!("{SNIA_ROUNDS} with run.steady_state = \"snia\""))
        );
    }
    Ok(Some(SteadySpec { rule, round: draft.steady_round, window: draft.steady_window }))
}

/// Refuses overwrites of what was not filled.
pub(crate) fn check(precondition: &Precondition, values: &Values) -> Result<(), SpecError> {
    if precondition.fill.share() == 0.0 && precondition.overwrite != Overwrite::Capacities(0.0) {
        let allowed = "0, or anything with a precondition.fill above 0: what was filled is overwritten";
        return Err(values.refuse("precondition.overwrite", allowed));
    }
    Ok(())
}

pub(crate) fn jobs(rows: &[Row]) -> Result<Vec<RawJob>, SpecError> {
    rows.iter().enumerate().map(|(index, row)| job(index, row)).collect()
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
