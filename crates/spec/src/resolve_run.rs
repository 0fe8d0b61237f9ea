//! `[[job]]`, `[precondition]`, `[run]`: the work on the drive.

use super::document::{Leaf, Origin, Row, Value};
use super::error::{Place, SpecError};
use super::schema::Values;
use pellucid_flash::Nanos;
use pellucid_setting::{Kind, SHARE, Setting, Settings, Typed, Word};
use pellucid_workload::trace::AddressPolicy;
use pellucid_workload::{JobBuilder, SNIA_ROUNDS, SteadyRule};
use std::path::PathBuf;

/// One `[[job]]`: fio's words, not parsed yet.
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
    /// The share of the capacity, if one was given.
    pub fn share(self) -> f64 {
        match self {
            Fill::Share(share) => share,
            Fill::Trace => 0.0,
        }
    }
}

impl Setting for Fill {
    const KIND: Kind = Kind::Or("trace", &SHARE);

    fn take(typed: &Typed) -> Self {
        <Option<f64> as Setting>::take(typed).map_or(Fill::Trace, Fill::Share)
    }
}

/// Writes before the run.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct Precondition {
    /// Share of the capacity written sequentially before the run; trace: only sectors that the trace reads before it writes them.
    #[setting(default = 0.0)]
    pub fill: Fill,
    /// Random overwrites after the fill, in capacities; steady: until write amplification no longer changes.
    #[setting(default = 0.0)]
    pub overwrite: Overwrite,
    /// Rule for steady overwriting. change: the write amplification of two passes differs by less than 1 %; snia: that of five passes
    /// ranges over at most 20 %, with a slope of at most 10 %.
    #[setting(key = "steady", default = "change")]
    pub aged_by: AgedBy,
    /// Days between preconditioning and run, in which nothing is read or written (they matter to bit errors and read retries).
    #[setting(kind = real(0.0, 36_525.0), default = 0.0)]
    pub shelf_days: f64,
    /// Seed of the overwrites.
    #[setting(default = 1)]
    pub seed: u64,
}

impl Precondition {
    /// Bytes written in all if `filled` bytes are filled; `None`: not known in advance.
    pub fn written_bytes(&self, filled: u64) -> Option<u64> {
        match self.overwrite {
            Overwrite::Capacities(times) => Some(filled.saturating_add((filled as f64 * times) as u64)),
            Overwrite::Steady => None,
        }
    }

    /// Describes it in a few words.
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

impl Setting for Overwrite {
    const KIND: Kind = Kind::Or("steady", &Kind::Real(0.0, 1e6));

    fn take(typed: &Typed) -> Self {
        <Option<f64> as Setting>::take(typed).map_or(Overwrite::Steady, Overwrite::Capacities)
    }
}

/// Rule that ends overwriting until steady.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::EnumString,
    strum::VariantNames,
    strum::IntoStaticStr,
    Word,
)]
#[strum(serialize_all = "kebab-case")]
pub enum AgedBy {
    /// Write amplification of a pass is close to that of the pass before.
    #[default]
    Change,
    /// Write amplification of five passes meets SNIA's rule.
    Snia,
}

/// Rounds of a run that continues until it is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadySpec {
    /// The rule.
    pub rule: SteadyRule,
    /// Length of a round.
    pub round: Nanos,
    /// Number of rounds judged together.
    pub window: u32,
}

/// Options and results of the run.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct RunSpec {
    /// Seed of the jobs.
    #[setting(default = 1)]
    pub seed: u64,
    /// Check every byte that is read.
    #[setting(default = false)]
    pub verify: bool,
    /// The run ends once it is steady; `None`: when its work is done.
    #[setting(flatten, via = SteadySettings, made = None)]
    pub steady: Option<SteadySpec>,
    /// Directory of the report; empty: none.
    #[setting(default = "")]
    pub report: Option<PathBuf>,
    /// File for one line per request; empty: none.
    #[setting(default = "")]
    pub log: Option<PathBuf>,
    /// Trace to replay; empty: the jobs run.
    #[setting(default = "")]
    pub trace: Option<PathBuf>,
    /// Copy of a trace that could be read only once.
    #[setting(skip)]
    pub trace_copy: Option<PathBuf>,
    /// Format of the trace, or csv: and its columns; empty: recognised from its content.
    #[setting(default = "")]
    pub format: Option<String>,
    /// Treatment of trace requests beyond the end of the drive.
    #[setting(default = "refuse")]
    pub address: AddressPolicy,
    /// Factor on the trace's arrival times.
    ///
    /// 0.5 replays twice as fast. The bounds keep it within reason.
    #[setting(kind = real(1e-9, 1e9), default = 1.0)]
    pub time_scale: f64,
    /// Requests kept outstanding, instead of following the arrival times of the trace.
    #[setting(kind = count(1), or = "off")]
    pub closed_loop: Option<u32>,
    /// Device of the trace to replay, by its number in the trace (files of fio: 0, 1, ... in order of appearance).
    #[setting(kind = count(0), or = "all")]
    pub stream: Option<u32>,
    /// Number of passes over the trace; run.limit counts the records of each pass.
    #[setting(kind = count(1), default = 1)]
    pub repeat: u32,
    /// Records of the trace to replay.
    #[setting(kind = count(1), or = "all")]
    pub limit: Option<u64>,
}

/// Keys that together decide when a run is steady.
#[derive(Clone, Debug, PartialEq, Settings)]
pub(crate) struct SteadySettings {
    /// Rule by which a steady run ends: SNIA's (snia, snia:bw, snia:lat) or fio's (iops:3%, bw_slope:1%, ...).
    #[setting(key = "steady_state", or = "off")]
    rule: Option<String>,
    /// Length of a round, whose IOPS, bandwidth or mean latency is one value.
    #[setting(key = "steady_round", kind = time(1_000_000, 86_400_000_000_000), default = "60s")]
    round: Nanos,
    /// Rounds in the window that is judged; SNIA's rule has 5.
    #[setting(key = "steady_window", kind = whole(2, 1000), default = SNIA_ROUNDS)]
    window: u32,
}

/// Rounds of a run that ends once it is steady.
pub(crate) fn steady(values: &Values) -> Result<Option<SteadySpec>, SpecError> {
    let SteadySettings { rule, round, window } = SteadySettings::take(values, "run");
    let Some(text) = rule else { return Ok(None) };
    let allowed = || format!("off, {}", SteadyRule::ALLOWED);
    let rule: SteadyRule = text.parse().map_err(|()| values.refuse("run.steady_state", allowed()))?;
    if matches!(rule, SteadyRule::Snia(_)) && window != SNIA_ROUNDS {
        return Err(
            values.refuse("run.steady_window", format!("{SNIA_ROUNDS} with run.steady_state = \"snia\""))
        );
    }
    Ok(Some(SteadySpec { rule, round, window }))
}

/// Refuses overwrites where nothing was filled.
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
    let pairs: Vec<RawPair> = row.fields.iter().map(|field| pair(index, field)).collect::<Result<_, _>>()?;
    let named = |pair: &RawPair| JobBuilder::key(&pair.key).map(|doc| doc.name);
    for (at, pair) in pairs.iter().enumerate() {
        let same = |other: &&RawPair| named(pair).is_some() && named(other) == named(pair);
        if let Some(other) = pairs[..at].iter().find(same) {
            return Err(SpecError::NotAllowed {
                place: pair.origin.place.clone(),
                key: format!("job[{index}].{}", pair.key),
                value: pair.value.clone(),
                allowed: format!("one of {} and {}, which are one key", other.key, pair.key),
            });
        }
    }
    Ok(RawJob { place: row.place.clone(), pairs })
}

fn pair(index: usize, field: &Leaf) -> Result<RawPair, SpecError> {
    let value = match &field.value {
        Value::Text(text) => text.clone(),
        Value::Whole(_) | Value::Real(_) | Value::Flag(_) => field.value.to_text(),
        other => {
            return Err(SpecError::NotAllowed {
                place: field.origin.place.clone(),
                key: format!("job[{index}].{}", field.path),
                value: other.to_text(),
                allowed: "a text, a number, true, false".into(),
            });
        }
    };
    Ok(RawPair { key: field.path.clone(), value, origin: field.origin.clone() })
}
