//! One table of a list of tables: reads its fields and checks them by their kinds.

use super::document::{Leaf, Row};
use super::error::SpecError;
use pellucid_setting::{Kind, Typed};
use pellucid_text::suggest::nearest;
use std::str::FromStr;
use strum::VariantNames;

/// A field of a table: its name, and its meaning in one line.
pub(crate) type Field = (&'static str, &'static str);

/// All fields of a table.
pub(crate) type Fields = &'static [Field];

/// The fields of a table, each written once: `MODULE { CONSTANT: "NAME", "MEANING"; }` makes a constant of each, and `ALL` of them.
macro_rules! fields {
    ($($(#[$doc:meta])+ $table:ident { $($field:ident: $name:literal, $about:expr;)+ })+) => {$(
        $(#[$doc])+
        pub(crate) mod $table {
            $(pub(crate) const $field: $crate::table::Field = ($name, $about);)+
            pub(crate) const ALL: $crate::table::Fields = &[$($field),+];
        }
    )+};
}
pub(crate) use fields;

/// One table, with the name of its list for messages.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub list: &'static str,
    pub index: usize,
    pub row: &'a Row,
}

impl Table<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}[{}].{name}", self.list, self.index)
    }

    fn leaf(&self, name: &str) -> Option<&Leaf> {
        self.row.fields.iter().find(|field| field.path == name)
    }

    /// Reports whether the table has the field.
    pub fn has(&self, (name, _): Field) -> bool {
        self.leaf(name).is_some()
    }

    /// The field's value; `None` if it is not given.
    pub fn field(&self, field: Field, kind: Kind) -> Result<Option<Typed>, SpecError> {
        let Some(leaf) = self.leaf(field.0) else { return Ok(None) };
        match kind.read(&leaf.value) {
            Some(typed) => Ok(Some(typed)),
            None => Err(self.refuse(field, kind.allowed())),
        }
    }

    /// Refuses a field's value, or its absence.
    pub fn refuse(&self, (name, _): Field, allowed: impl Into<String>) -> SpecError {
        let (place, value) = match self.leaf(name) {
            Some(leaf) => (leaf.origin.place.clone(), leaf.value.to_text()),
            None => (self.row.place.clone(), "(missing)".into()),
        };
        SpecError::NotAllowed { place, key: self.path(name), value, allowed: allowed.into() }
    }

    /// A number; `fallback` if it is not given; the word for "none" reads as `u32::MAX`.
    pub fn number(&self, field: Field, kind: Kind, fallback: Option<u32>) -> Result<u32, SpecError> {
        match self.field(field, kind)? {
            Some(Typed::Whole(number)) => Ok(number as u32),
            Some(_) => Ok(u32::MAX),
            None => fallback.ok_or_else(|| self.refuse(field, kind.allowed())),
        }
    }

    /// A word of a closed set; `fallback` if it is not given.
    pub fn word<T: VariantNames + FromStr>(&self, field: Field, fallback: Option<T>) -> Result<T, SpecError> {
        let kind = Kind::Word(T::VARIANTS);
        match self.field(field, kind)? {
            Some(Typed::Text(word)) => word.parse().map_err(|_| self.refuse(field, kind.allowed())),
            Some(other) => unreachable!("a word reads as text: {other:?}"),
            None => fallback.ok_or_else(|| self.refuse(field, kind.allowed())),
        }
    }

    /// A flag; `fallback` if it is not given.
    pub fn flag(&self, field: Field, fallback: bool) -> Result<bool, SpecError> {
        match self.field(field, Kind::Flag)? {
            Some(Typed::Flag(flag)) => Ok(flag),
            Some(other) => unreachable!("a flag reads as a flag: {other:?}"),
            None => Ok(fallback),
        }
    }

    /// Refuses fields that are not among `names`.
    pub fn check_names(&self, names: Fields) -> Result<(), SpecError> {
        let is_known = |field: &&Leaf| names.iter().any(|(name, _)| *name == field.path);
        let unknown = self.row.fields.iter().find(|field| !is_known(field));
        unknown.map_or(Ok(()), |field| {
            Err(SpecError::UnknownKey {
                place: field.origin.place.clone(),
                key: self.path(&field.path),
                near: nearest(&field.path, names.iter().map(|(name, _)| *name)).map(String::from),
                allowed: names.iter().map(|(name, _)| name.to_string()).collect(),
            })
        })
    }
}
