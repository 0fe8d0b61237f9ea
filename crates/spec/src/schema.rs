//! Every key of a description with its value: the keys are those of [`Description`], and reading, checking, `--set`, `show`, suggestions and the
//! reference are derived from them.
//!
//! Invariant: after [`Values::resolve`] every key has a value of the type of its kind.

use super::description::Description;
use super::document::{Document, Origin, Row, Value};
use super::error::{Place, SpecError};
use super::policies::allowed_for;
use pellucid_setting::{Key, Kind, Source, Typed, table_keys};
use pellucid_text::suggest::nearest;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The whole schema, in the order of the reference.
pub(crate) fn schema() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let mut keys = table_keys::<Description>("");
        keys.retain(|key| !key.shared);
        keys
    });
    &KEYS
}

/// The paths of all keys.
pub(crate) fn paths() -> Vec<&'static str> {
    schema().iter().map(|key| key.path.as_str()).collect()
}

/// A key with its value and origin.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub key: &'static Key,
    typed: Typed,
    /// The value as written.
    value: Value,
    pub origin: Origin,
}

impl Resolved {
    /// Writes the value as a description has it, in the largest unit that holds it exactly.
    pub fn to_text(&self) -> String {
        match &self.value {
            Value::Tables(rows) => {
                format!("[{}]", rows.iter().map(Row::to_text).collect::<Vec<_>>().join(", "))
            }
            _ => self.key.kind.write(&self.typed),
        }
    }
}

/// Every key with its value, in the order of the schema.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    all: Vec<Resolved>,
    by_path: BTreeMap<&'static str, usize>,
}

impl Source for Values {
    fn typed(&self, path: &str) -> &Typed {
        &self.find(path).typed
    }
}

impl Values {
    /// Gives every key its value from `document`, or its default. `name` names the document in messages.
    pub fn resolve(document: &Document, name: &str) -> Result<Values, SpecError> {
        let all: Vec<Resolved> =
            schema().iter().map(|key| resolve_key(key, document, name)).collect::<Result<_, _>>()?;
        let by_path = all.iter().enumerate().map(|(at, resolved)| (resolved.key.path.as_str(), at)).collect();
        Ok(Values { all, by_path })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Resolved> {
        self.all.iter()
    }

    fn find(&self, path: &str) -> &Resolved {
        let at = self.by_path.get(path).unwrap_or_else(|| panic!("{path} is not in the schema"));
        &self.all[*at]
    }

    /// The tables of a list of tables.
    pub fn rows(&self, path: &str) -> &[Row] {
        match &self.find(path).value {
            Value::Tables(rows) => rows,
            _ => &[],
        }
    }

    /// Refuses values that contradict each other: names the first one that was written down, or else the first of all.
    pub fn refuse_one(&self, paths: &[String], allowed: impl Into<String>) -> SpecError {
        let is_written = |path: &&String| self.find(path).origin.place != Place::Default;
        let path = paths.iter().find(is_written).or(paths.first());
        self.refuse(path.expect("a contradiction has values"), allowed)
    }

    /// Refuses a value of the right type, for a reason that its kind cannot see.
    pub fn refuse(&self, path: &str, allowed: impl Into<String>) -> SpecError {
        let Resolved { value, origin, .. } = self.find(path);
        SpecError::NotAllowed {
            place: origin.place.clone(),
            key: path.to_string(),
            value: value.to_text(),
            allowed: allowed.into(),
        }
    }
}

fn resolve_key(key: &'static Key, document: &Document, name: &str) -> Result<Resolved, SpecError> {
    let leaf = document.leaves.get(key.path.as_str());
    let missing =
        || SpecError::Missing { name: name.to_string(), key: key.path.clone(), allowed: key.kind.allowed() };
    let (value, origin) = match leaf {
        Some(leaf) => (leaf.value.clone(), leaf.origin.clone()),
        None => (key.fallback.value().ok_or_else(missing)?, Origin { place: Place::Default, comment: None }),
    };
    // Defaults are in base units.
    let read = match leaf {
        Some(_) if key.kind.lacks_unit(&value) => None,
        _ => key.kind.read(&value),
    };
    match read {
        Some(typed) => Ok(Resolved { key, typed, value, origin }),
        None => Err(SpecError::NotAllowed {
            place: origin.place,
            key: key.path.clone(),
            allowed: allowed_for(&value.to_text(), key.kind.allowed()),
            value: value.to_text(),
        }),
    }
}

/// Refuses the first name of `document`, in the order of its text, that is not among the schema's `paths`.
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
            value: value.to_text(),
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

/// Keys of other tables with the last name of `path`, or a similar one, as `--set` takes them.
fn elsewhere(path: &str, paths: &[&str]) -> Option<String> {
    const NAMED: usize = 3;
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_string();
    let names: Vec<String> = paths.iter().map(|path| last(path)).collect();
    let meant = nearest(&last(path), names.iter().map(String::as_str))?;
    let keys = paths.iter().zip(&names).filter(|(_, name)| *name == meant);
    let keys: Vec<&str> = keys.map(|(path, _)| path.strip_prefix("drive.").unwrap_or(path)).collect();
    // A name that many tables share is no help.
    (keys.len() <= NAMED).then(|| keys.join(" or "))
}

fn allowed_instead_of_table(path: &str) -> String {
    let key = schema().iter().find(|key| key.path == path);
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
