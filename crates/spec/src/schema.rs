//! The rows of the schema: a key's name, its allowed values, its default, the field of the [`Draft`] that it sets, and
//! its meaning. Reading, checking, `--set`, `show`, suggestions and the reference are derived from the rows, so a new
//! key is one row in one file.
//!
//! Invariant: after [`Values::resolve`] every key has a value of the type its [`Kind`] promises. A row whose field
//! has another type than its kind is found by the first description that is read.

use super::document::{Document, Leaf, Origin, Row, Value};
use super::draft::Draft;
use super::error::{Place, SpecError};
use super::policies::allowed_for;
use super::value::{quote, read_quantity, write_real};
use pellucid_flash::Nanos;
use pellucid_text::suggest::nearest;
use pellucid_text::{PLAIN_SHARE_MAX, Quantity, read_share, write_share};
use strum::VariantNames;

/// The type of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A finite number within bounds.
    Real(f64, f64),
    /// A share of a whole within bounds, as a number or with a percent sign.
    Share(f64, f64),
    /// `true` or `false`.
    Flag,
    /// A quantity with a unit; smallest and largest value in base units.
    Unit(Quantity, u64, u64),
    /// A list of durations.
    Times,
    /// A list of whole numbers, each at least 1.
    Weights,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or `PREFIX:N` with N at least 1.
    WordOrCount(&'static [&'static str], &'static str),
    /// One of these words, or `PREFIX:TEXT`.
    WordOrText(&'static [&'static str], &'static str),
    /// Any text; empty means none.
    Text,
    /// The word for "none", or the other kind.
    Or(&'static str, &'static Kind),
    /// A list of tables, which their owner reads.
    Tables,
    /// A list of these words, or one text with commas.
    Words(&'static [&'static str]),
}

/// The value of a key that is not given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fallback {
    /// No default: the key must be given.
    Required,
    Whole(i64),
    Real(f64),
    Flag(bool),
    Word(&'static str),
    Empty,
}

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// The dotted path from the top of the file.
    pub path: &'static str,
    pub kind: Kind,
    pub fallback: Fallback,
    /// Meaning, in one line.
    pub about: &'static str,
    /// Puts the value into the draft.
    pub set: fn(&mut Draft, &Typed),
}

impl Key {
    /// Its default as TOML; `None`: it must be given.
    pub fn default(&self) -> Option<String> {
        let value = fallback_value(self.fallback)?;
        // As `show` writes it, with its unit.
        Some(self.kind.read(&value).map_or_else(|| value.to_toml(), |typed| self.kind.write(&typed)))
    }
}

/// The rows of one part of the schema: `"KEY": KIND, DEFAULT => FIELD OF THE DRAFT, "MEANING";`
macro_rules! keys {
    ($($path:literal: $kind:expr, $fallback:expr => $($field:ident).+, $about:literal;)+) => {
        pub(crate) const KEYS: &[$crate::schema::Key] = &[$($crate::schema::Key {
            path: $path,
            kind: $kind,
            fallback: $fallback,
            about: $about,
            set: |draft, typed| draft.$($field).+ = $crate::draft::Take::take(typed),
        }),+];
    };
}
pub(crate) use keys;

/// One of the words of a closed set.
pub(crate) const fn word<T: VariantNames>() -> Kind {
    Kind::Word(T::VARIANTS)
}

/// Any `u32` from `min`.
pub(crate) const fn count(min: u64) -> Kind {
    Kind::Whole(min, u32::MAX as u64)
}

/// A number of things of which there are few, so that products with other keys stay far from the end of 32 bits.
pub(crate) const fn few(min: u64) -> Kind {
    Kind::Whole(min, 1 << 16)
}

/// The longest duration, one hour: no part of a drive is slower, and sums of many stay far from the end of 64
/// bits.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A duration.
pub(crate) const TIME: Kind = Kind::Unit(Quantity::Time, 0, LONGEST_NS);

/// A probability or share.
pub(crate) const SHARE: Kind = Kind::Share(0.0, 1.0);

/// A value after its kind has read it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    /// A whole number, or a quantity in base units.
    Whole(u64),
    Real(f64),
    Flag(bool),
    Times(Vec<Nanos>),
    Wholes(Vec<u32>),
    Words(Vec<String>),
    Text(String),
    Tables(Vec<Row>),
    /// The word for "none", or an empty text.
    Absent,
}

impl Kind {
    /// The value of this kind, or `None` if it is not one.
    pub fn read(self, value: &Value) -> Option<Typed> {
        match (self, value) {
            (Kind::Whole(min, max), Value::Whole(number)) => {
                u64::try_from(*number).ok().filter(|n| (min..=max).contains(n)).map(Typed::Whole)
            }
            (Kind::Real(min, max), Value::Whole(_) | Value::Real(_)) => {
                let number = if let Value::Real(number) = value { *number } else { whole_as_real(value) };
                (min..=max).contains(&number).then_some(Typed::Real(number))
            }
            (Kind::Share(min, max), _) => {
                read_share_of(value).filter(|share| (min..=max).contains(share)).map(Typed::Real)
            }
            (Kind::Flag, Value::Flag(flag)) => Some(Typed::Flag(*flag)),
            (Kind::Unit(quantity, min, max), _) => {
                read_quantity(quantity, value).filter(|base| (min..=max).contains(base)).map(Typed::Whole)
            }
            (Kind::Times, _) => read_times(value).map(Typed::Times),
            (Kind::Weights, Value::List(items)) => {
                let weight = |item: &Value| match item {
                    Value::Whole(number) => u32::try_from(*number).ok().filter(|&weight| weight > 0),
                    _ => None,
                };
                items.iter().map(weight).collect::<Option<Vec<u32>>>().map(Typed::Wholes)
            }
            (Kind::Word(words), Value::Text(text)) => is_word(words, text),
            (Kind::WordOrCount(words, prefix), Value::Text(text)) => is_word(words, text).or_else(|| {
                let number = text.strip_prefix(prefix)?.strip_prefix(':')?.parse::<u32>().ok()?;
                (number > 0).then(|| Typed::Text(format!("{prefix}:{number}")))
            }),
            (Kind::WordOrText(words, prefix), Value::Text(text)) => is_word(words, text).or_else(|| {
                let rest = text.strip_prefix(prefix)?.strip_prefix(':')?;
                (!rest.is_empty()).then(|| Typed::Text(text.clone()))
            }),
            (Kind::Text, Value::Text(text)) if text.is_empty() => Some(Typed::Absent),
            (Kind::Text, Value::Text(text)) => Some(Typed::Text(text.clone())),
            (Kind::Or(word, _), Value::Text(text)) if text == word => Some(Typed::Absent),
            (Kind::Or(_, kind), _) => kind.read(value),
            (Kind::Tables, Value::Tables(rows)) => Some(Typed::Tables(rows.clone())),
            (Kind::Words(words), _) => read_words(words, value),
            (Kind::Tables, Value::List(items)) if items.is_empty() => Some(Typed::Tables(Vec::new())),
            _ => None,
        }
    }

    /// Returns the allowed values, for messages and the reference.
    pub fn allowed(self) -> String {
        match self {
            // Where numbers of TOML end.
            Kind::Whole(min, max) if max == i64::MAX as u64 => format!("a whole number from {min}"),
            Kind::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Real(min, f64::MAX) => format!("a number from {min}"),
            Kind::Real(min, max) => format!("a number from {min} to {max}"),
            Kind::Share(min, max) => {
                format!("a share such as \"20%\" or 0.2, from {}% to {}%", min * 100.0, max * 100.0)
            }
            Kind::Flag => "true, false".into(),
            Kind::Unit(quantity, min, max) => {
                let bounded =
                    |bound: &str, base| format!("; {bound} {}", quantity.write(base).trim_matches('"'));
                let low = if min > 0 { bounded("at least", min) } else { String::new() };
                let high = if max < i64::MAX as u64 { bounded("at most", max) } else { String::new() };
                format!("{}{low}{high}", quantity.syntax())
            }
            Kind::Times => "a list of durations such as [\"58us\", \"90us\"]".into(),
            Kind::Weights => format!("a list of whole numbers from 1 to {}", u32::MAX),
            Kind::Word(words) => words.join(", "),
            Kind::WordOrCount(words, prefix) => format!("{}, {prefix}:N", words.join(", ")),
            Kind::WordOrText(words, prefix) => format!("{}, {prefix}:PATH", words.join(", ")),
            Kind::Text => "a text".into(),
            Kind::Or(word, kind) => format!("{word}, or {}", kind.allowed()),
            Kind::Tables => "a list of tables".into(),
            Kind::Words(words) => format!("a list of {}", words.join(", ")),
        }
    }

    /// The type, in a few words.
    pub fn name(self) -> String {
        let name = match self {
            Kind::Whole(..) => "whole number",
            Kind::Real(..) => "number",
            Kind::Share(..) => "share of a whole",
            Kind::Flag => "flag",
            Kind::Unit(Quantity::Time, ..) => "duration",
            Kind::Unit(Quantity::Size, ..) => "size",
            Kind::Unit(Quantity::Rate, ..) => "rate",
            Kind::Times => "list of durations",
            Kind::Weights => "list of whole numbers",
            Kind::Word(_) => "word",
            Kind::WordOrCount(_, prefix) => return format!("word, or {prefix}:N"),
            Kind::WordOrText(_, prefix) => return format!("word, or {prefix}:PATH"),
            Kind::Text => "text",
            Kind::Or(word, kind) => return format!("{}, or {word}", kind.name()),
            Kind::Tables => "list of tables",
            Kind::Words(_) => "list of words",
        };
        name.into()
    }

    /// Least and greatest value; `None` where there are none, or only those of the machine's numbers.
    pub fn bounds(self) -> Option<(String, String)> {
        let most = |max: u64, shown: String| if max >= i64::MAX as u64 { "any".into() } else { shown };
        match self {
            Kind::Whole(min, max) => Some((min.to_string(), most(max, max.to_string()))),
            Kind::Real(min, f64::MAX) => Some((min.to_string(), "any".into())),
            Kind::Real(min, max) => Some((min.to_string(), max.to_string())),
            Kind::Share(min, max) => Some((format!("{}%", min * 100.0), format!("{}%", max * 100.0))),
            Kind::Unit(quantity, min, max) => {
                let shown = |base| quantity.write(base).trim_matches('"').to_string();
                Some((shown(min), most(max, shown(max))))
            }
            Kind::Or(_, kind) => kind.bounds(),
            _ => None,
        }
    }

    /// Reports whether a time or a rate lacks its unit, as no description may write it.
    fn lacks_unit(self, value: &Value) -> bool {
        let plain = |quantity: Quantity, value: &Value| match value {
            Value::Whole(number) => u64::try_from(*number).is_ok_and(|base| !quantity.may_lack_unit(base)),
            _ => false,
        };
        match (self, value) {
            (Kind::Unit(quantity, ..), _) => plain(quantity, value),
            (Kind::Times, Value::List(items)) => items.iter().any(|item| plain(Quantity::Time, item)),
            (Kind::Or(_, kind), _) => kind.lacks_unit(value),
            _ => false,
        }
    }

    /// The unit of a plain number; empty: none.
    pub fn unit(self) -> &'static str {
        match self {
            // Times and rates have no plain numbers.
            Kind::Unit(Quantity::Size, ..) => Quantity::Size.base(),
            Kind::Unit(..) => "",
            Kind::Or(_, kind) => kind.unit(),
            _ => "",
        }
    }

    /// The value as TOML.
    pub fn write(self, typed: &Typed) -> String {
        match (self, typed) {
            (Kind::Or(word, _), Typed::Absent) => quote(word),
            (Kind::Text, Typed::Absent) => quote(""),
            (Kind::Or(_, kind), _) => kind.write(typed),
            (Kind::Unit(quantity, ..), Typed::Whole(base)) => quantity.write(*base),
            (_, Typed::Whole(number)) => number.to_string(),
            (Kind::Share(..), Typed::Real(share)) => write_share(*share),
            (_, Typed::Real(number)) => write_real(*number),
            (_, Typed::Flag(flag)) => flag.to_string(),
            (_, Typed::Text(text)) => quote(text),
            (_, Typed::Times(times)) => list(times.iter().map(|time| Quantity::Time.write(time.0))),
            (_, Typed::Wholes(numbers)) => list(numbers.iter().map(u32::to_string)),
            (_, Typed::Words(words)) => list(words.iter().map(|word| quote(word))),
            (_, Typed::Tables(rows)) => list(rows.iter().map(write_row)),
            (_, Typed::Absent) => unreachable!("only Kind::Or and Kind::Text read as absent"),
        }
    }
}

fn read_share_of(value: &Value) -> Option<f64> {
    match value {
        Value::Text(text) => read_share(text),
        Value::Whole(_) => Some(whole_as_real(value)).filter(|&share| share <= PLAIN_SHARE_MAX),
        Value::Real(share) => Some(*share).filter(|&share| share <= PLAIN_SHARE_MAX),
        _ => None,
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn write_row(row: &Row) -> String {
    let field = |leaf: &Leaf| format!("{} = {}", leaf.path, leaf.value.to_toml());
    format!("{{ {} }}", row.fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

fn whole_as_real(value: &Value) -> f64 {
    if let Value::Whole(number) = value { *number as f64 } else { f64::NAN }
}

/// Former words of values and their present ones; a former word is taken for one version more.
const RENAMED: &[(&str, &str)] = &[("collected", "gc-copies")];

fn is_word(words: &[&str], text: &str) -> Option<Typed> {
    let present = RENAMED.iter().find(|(former, _)| *former == text).map_or(text, |(_, present)| present);
    words.contains(&present).then(|| Typed::Text(present.to_string()))
}

/// A list of durations; also one text with commas, which is easier to type after `--set`.
fn read_times(value: &Value) -> Option<Vec<Nanos>> {
    let time = |item: &Value| read_quantity(Quantity::Time, item).filter(|&ns| ns <= LONGEST_NS).map(Nanos);
    match value {
        Value::List(items) if !items.is_empty() => items.iter().map(time).collect(),
        Value::Text(text) => text.split(',').map(|part| time(&Value::Text(part.to_string()))).collect(),
        _ => None,
    }
}

fn read_words(words: &[&str], value: &Value) -> Option<Typed> {
    let word = |text: &str| is_word(words, text).map(|_| text.to_string());
    let of_item = |item: &Value| match item {
        Value::Text(text) => word(text),
        _ => None,
    };
    let read = match value {
        Value::List(items) => items.iter().map(of_item).collect(),
        Value::Text(text) if text.is_empty() => Some(Vec::new()),
        Value::Text(text) => text.split(',').map(word).collect(),
        _ => None,
    };
    read.map(Typed::Words)
}

/// A key with its value and where that came from.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub key: &'static Key,
    pub typed: Typed,
    /// The value as written, for messages.
    pub written: String,
    pub origin: Origin,
}

/// Every key of the schema with its value, in the order of the schema.
#[derive(Clone, Debug)]
pub(crate) struct Values(pub Vec<Resolved>);

impl Values {
    /// Gives every key of `schema` its value from `document`, or its default. `name` is what is being read.
    pub fn resolve(
        schema: impl Iterator<Item = &'static Key>,
        document: &Document,
        name: &str,
    ) -> Result<Values, SpecError> {
        schema.map(|key| resolve_key(key, document, name)).collect::<Result<_, _>>().map(Values)
    }

    fn find(&self, path: &str) -> &Resolved {
        let found = self.0.iter().find(|resolved| resolved.key.path == path);
        found.unwrap_or_else(|| panic!("{path} is not in the schema"))
    }

    /// The draft with every value in its field.
    pub fn draft(&self) -> Draft {
        let mut draft = Draft::blank();
        self.0.iter().for_each(|resolved| (resolved.key.set)(&mut draft, &resolved.typed));
        draft
    }

    /// Refuses values that contradict each other: names the first that was written down, or the first of all.
    pub fn refuse_one(&self, paths: &[String], allowed: impl Into<String>) -> SpecError {
        let is_written = |path: &&String| self.find(path).origin.place != Place::Default;
        let path = paths.iter().find(is_written).or(paths.first());
        self.refuse(path.expect("a contradiction has values"), allowed)
    }

    /// Refuses the value of `path`, which is of the right type, for a reason that its kind cannot see.
    pub fn refuse(&self, path: &str, allowed: impl Into<String>) -> SpecError {
        let Resolved { written, origin, .. } = self.find(path);
        SpecError::NotAllowed {
            place: origin.place.clone(),
            key: path.to_string(),
            value: written.clone(),
            allowed: allowed.into(),
        }
    }
}

fn resolve_key(key: &'static Key, document: &Document, name: &str) -> Result<Resolved, SpecError> {
    let leaf = document.leaves.get(key.path);
    let missing = || SpecError::Missing {
        name: name.to_string(),
        key: key.path.to_string(),
        allowed: key.kind.allowed(),
    };
    let (value, origin) = match leaf {
        Some(leaf) => (leaf.value.clone(), leaf.origin.clone()),
        None => (
            fallback_value(key.fallback).ok_or_else(missing)?,
            Origin { place: Place::Default, comment: None },
        ),
    };
    // Our own defaults are in base units.
    let read = match leaf {
        Some(_) if key.kind.lacks_unit(&value) => None,
        _ => key.kind.read(&value),
    };
    match read {
        Some(typed) => Ok(Resolved { key, typed, written: value.to_toml(), origin }),
        None => Err(SpecError::NotAllowed {
            place: origin.place,
            key: key.path.to_string(),
            allowed: allowed_for(&value.to_toml(), key.kind.allowed()),
            value: value.to_toml(),
        }),
    }
}

pub(crate) fn fallback_value(fallback: Fallback) -> Option<Value> {
    match fallback {
        Fallback::Required => None,
        Fallback::Whole(number) => Some(Value::Whole(number)),
        Fallback::Real(number) => Some(Value::Real(number)),
        Fallback::Flag(flag) => Some(Value::Flag(flag)),
        Fallback::Word(word) => Some(Value::Text(word.to_string())),
        Fallback::Empty => Some(Value::List(Vec::new())),
    }
}

/// Refuses the first name of `document`, in the order of its text, that the schema `paths` do not have.
pub(crate) fn check_names(document: &Document, paths: &[&'static str]) -> Result<(), SpecError> {
    let leaves =
        document.leaves.values().map(|leaf| (leaf.path.as_str(), &leaf.origin.place, Some(&leaf.value)));
    let tables = document.tables.iter().map(|(path, place)| (path.as_str(), place, None));
    let mut names: Vec<_> = tables.chain(leaves).collect();
    names.sort_by_key(|(_, place, _)| place.line());
    names.into_iter().try_for_each(|(path, place, value)| check_name(path, place, value, paths))
}

pub(crate) fn check_name(
    path: &str,
    place: &Place,
    value: Option<&Value>,
    paths: &[&str],
) -> Result<(), SpecError> {
    let is_table =
        |path: &str| paths.iter().any(|p| p.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')));
    let known_leaf = paths.contains(&path);
    if (value.is_some() && known_leaf) || (value.is_none() && is_table(path)) {
        return Ok(());
    }
    let refuse = |key: &str, value: &Value, allowed: String| {
        Err(SpecError::NotAllowed {
            place: place.clone(),
            key: key.to_string(),
            value: value.to_toml(),
            allowed,
        })
    };
    if let (Some(value), true) = (value, is_table(path)) {
        return refuse(path, value, format!("a table, [{path}]"));
    }
    // The longest beginning of the path that exists, and the name after it that does not.
    let mut known = "";
    for (at, _) in path.match_indices('.') {
        if paths.contains(&&path[..at]) {
            return refuse(&path[..at], &Value::Table, allowed_instead_of_table(&path[..at]));
        }
        if !is_table(&path[..at]) {
            break;
        }
        known = &path[..at];
    }
    if known_leaf {
        return refuse(path, &Value::Table, allowed_instead_of_table(path));
    }
    let depth = if known.is_empty() { 0 } else { known.len() + 1 };
    let end = path[depth..].find('.').map_or(path.len(), |at| depth + at);
    let allowed = names_in(known, paths);
    Err(SpecError::UnknownKey {
        place: place.clone(),
        key: path[..end].to_string(),
        near: nearest(&path[depth..end], allowed.iter().map(String::as_str))
            .map(String::from)
            .or_else(|| elsewhere(path, paths)),
        allowed,
    })
}

/// Keys of other tables whose last name is that of `path`, or like it, as `--set` takes them.
fn elsewhere(path: &str, paths: &[&str]) -> Option<String> {
    const NAMED: usize = 3;
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_string();
    let names: Vec<String> = paths.iter().map(|path| last(path)).collect();
    let meant = nearest(&last(path), names.iter().map(String::as_str))?;
    let keys = paths.iter().zip(&names).filter(|(_, name)| *name == meant);
    let keys: Vec<&str> = keys.map(|(path, _)| path.strip_prefix("drive.").unwrap_or(path)).collect();
    // A name that many tables have tells nothing.
    (keys.len() <= NAMED).then(|| keys.join(" or "))
}

fn allowed_instead_of_table(path: &str) -> String {
    let key = super::schema_keys().find(|key| key.path == path);
    match key.map(|key| key.kind) {
        Some(Kind::Tables) => format!("a list of tables, [[{path}]]"),
        Some(kind) => kind.allowed(),
        None => "a value".into(),
    }
}

/// The names directly below the table `table`, in the order of the schema.
pub(crate) fn names_in(table: &str, paths: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for path in paths {
        let rest = if table.is_empty() {
            Some(*path)
        } else {
            path.strip_prefix(table).and_then(|rest| rest.strip_prefix('.'))
        };
        let name = rest.and_then(|rest| rest.split('.').next());
        if let Some(name) = name.filter(|name| !names.iter().any(|known| known == name)) {
            names.push(name.to_string());
        }
    }
    names
}
