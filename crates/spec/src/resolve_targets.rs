//! `[[target]]`: ranges of parallel units of the open-channel namespace, each with its own use.
//!
//! ```text
//!   parallel units   0 ............ 63 64 ............ 95 96 ..... 127
//!   [[target]]       "reads", raw      "main", block       free
//! ```
//! Invariants after resolving: names are unique; ranges lie inside the drive and do not overlap.

use super::description::Description;
use super::document::Row;
use super::error::{Place, SpecError};
use super::schema::Values;
use super::table::{Field, Table, fields};
use pellucid_device::Namespace;
use pellucid_flash::Layout;
use pellucid_host::{Target, TargetError, TargetKind, Targets};
use pellucid_setting::{Kind, SHARE, Typed};
use pellucid_text::read_range;
use std::ops::Range;
use strum::{EnumString, VariantNames};

fields! {
    /// Fields of a target.
    target {
        NAME: "name", "Name of the target; a job names it with target";
        KIND: "kind", "block: a host FTL with the settings of [host.ftl]; raw: chunks for jobs that address them; application: for one job with app, a host FTL or chunks as the app needs (chunks on a served drive); default block";
        UNITS: "units", "Its parallel units, numbered through all groups: FIRST-LAST, or \"N channels x all ways\": the first N whole channels \
         that no target above it has, or rest: all that are left";
        FILL: "fill", "Share of the target that is written before the run; of a raw target whole chunks, in turn over its units; default precondition.fill";
    }
}

/// A target of a description.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedTarget {
    /// Its name, kind and parallel units.
    pub target: Target,
    /// Share that is written before the run; `None`: `precondition.fill` decides.
    pub fill: Option<f64>,
    /// True if an application works on it; its job decides whether it needs chunks or a host FTL.
    pub for_application: bool,
    /// The table as written.
    pub(crate) row: Row,
}

impl DescribedTarget {
    /// A target that is not part of a description.
    pub fn new(target: Target) -> DescribedTarget {
        let row = Row { place: Place::Default, fields: Vec::new() };
        DescribedTarget { target, fill: None, for_application: false, row }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
enum KindWord {
    Block,
    Raw,
    Application,
}

/// Parallel units as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Units {
    /// `FIRST-LAST`, or one number.
    Range(Range<u32>),
    /// This many whole channels.
    Channels(u32),
    /// All remaining units.
    Rest,
}

const ALLOWED_UNITS: &str = "FIRST-LAST, one number, \"N channels x all ways\", rest";

impl Units {
    fn read(text: &str) -> Option<Units> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["rest"] => Some(Units::Rest),
            [count, "channel" | "channels"] | [count, "channel" | "channels", "x", "all", "ways"] => {
                Some(Units::Channels(count.parse().ok().filter(|count| *count > 0)?))
            }
            [range] => read_range(range).map(Units::Range),
            _ => None,
        }
    }

    /// The range on a drive whose units `taken` belong to other targets; `None`: too few units are free.
    fn range(self, layout: &Layout, taken: &Targets) -> Option<Range<u32>> {
        let ways = layout.dies_per_channel;
        let is_free = |units: &Range<u32>| {
            taken.list().iter().all(|t| t.units.end <= units.start || units.end <= t.units.start)
        };
        match self {
            Units::Range(units) => Some(units),
            Units::Channels(count) => {
                let starts = 0..=layout.channels.checked_sub(count)?;
                starts.map(|first| first * ways..(first + count) * ways).find(is_free)
            }
            Units::Rest => {
                let first = taken.list().iter().map(|target| target.units.end).max().unwrap_or(0);
                (first < layout.dies).then_some(first..layout.dies)
            }
        }
    }
}

/// Resolves the targets of a description.
pub(crate) fn resolve(
    description: &Description,
    values: &Values,
    layout: &Layout,
) -> Result<Vec<DescribedTarget>, SpecError> {
    let rows = values.rows("target");
    let mut all = Targets::default();
    let mut described = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let target = one(&Table { list: "target", index, row }, layout, &mut all)?;
        described.push(target);
    }
    if let Some(row) = rows.first() {
        check_drive(description, values, row)?;
    }
    Ok(described)
}

/// Refuses targets on a drive without parallel units for them, or whose layers use the units.
fn check_drive(description: &Description, values: &Values, row: &Row) -> Result<(), SpecError> {
    let open = description
        .drive
        .device
        .namespaces
        .iter()
        .filter(|n| matches!(n, Namespace::OpenChannel { .. }))
        .count();
    if open != 1 {
        let table = Table { list: "target", index: 0, row };
        let allowed =
            "on a drive with one open-channel namespace ([[drive.namespace]] interface = \"open-channel\")";
        return Err(table.refuse(target::UNITS, allowed));
    }
    if !description.host.layers.is_empty() {
        return Err(values.refuse("host.layers", "[] with [[target]]; a block target is a host FTL itself"));
    }
    Ok(())
}

fn one(table: &Table, layout: &Layout, all: &mut Targets) -> Result<DescribedTarget, SpecError> {
    table.check_names(target::ALL)?;
    let text = |field: Field| match table.field(field, Kind::Text)? {
        Some(Typed::Text(text)) => Ok(text),
        _ => Err(table.refuse(field, if field == target::UNITS { ALLOWED_UNITS } else { "a name" })),
    };
    let word = table.word(target::KIND, Some(KindWord::Block))?;
    let kind = match word {
        KindWord::Block => TargetKind::Block,
        KindWord::Raw | KindWord::Application => TargetKind::Raw,
    };
    let (name, units) = (text(target::NAME)?, text(target::UNITS)?);
    let units = Units::read(&units).ok_or_else(|| table.refuse(target::UNITS, ALLOWED_UNITS))?;
    let range = units.range(layout, all).ok_or_else(|| table.refuse(target::UNITS, no_units(layout, all)))?;
    let target = Target::new(name, kind, range);
    all.create_within(layout.dies, target.clone()).map_err(|error| {
        let field = match &error {
            TargetError::Name(_) | TargetError::Exists(_) | TargetError::Missing { .. } => target::NAME,
            TargetError::Range { .. } | TargetError::Overlap { .. } => target::UNITS,
        };
        table.refuse(field, allowed_by(&error))
    })?;
    let fill = match table.field(target::FILL, SHARE)? {
        Some(Typed::Real(share)) => Some(share),
        _ => None,
    };
    let for_application = word == KindWord::Application;
    Ok(DescribedTarget { target, fill, for_application, row: table.row.clone() })
}

/// Allowed values, for the refusal of a target.
fn allowed_by(error: &TargetError) -> String {
    match error {
        TargetError::Name(_) => "letters, digits, '-', '_' and '.', at least one".into(),
        TargetError::Exists(name) => format!("a name that no other target has; there is a {name}"),
        TargetError::Range { all, .. } => format!("units within 0-{}", all - 1),
        TargetError::Overlap { other, .. } => format!(
            "units that no other target has; {} has {}-{}",
            other.name,
            other.units.start,
            other.units.end - 1
        ),
        TargetError::Missing { .. } => error.to_string(),
    }
}

fn no_units(layout: &Layout, all: &Targets) -> String {
    let (channels, ways) = (layout.channels, layout.dies_per_channel);
    let taken = all.list().iter().map(|t| format!("{} has {}-{}", t.name, t.units.start, t.units.end - 1));
    let taken: Vec<String> = taken.collect();
    let taken = if taken.is_empty() { String::new() } else { format!("; {}", taken.join(", ")) };
    format!("units that are free, of {channels} channels x {ways} ways{taken}")
}
