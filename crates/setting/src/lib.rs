//! Settings, written once: a key of a description is a field of the struct that uses it.
//!
//! ```text
//! struct with #[derive(Settings)] --list--> keys: path, kind, bounds, default, meaning --> reading, refusals, show, reference, explain
//!                                 <--take-- values, one for each key
//! ```
//! `#[derive(Settings)]` lists the keys of a struct below a given table, and makes the struct from values. `#[setting(...)]` adds what a field's type
//! does not say:
//!
//! | attribute | meaning |
//! |---|---|
//! | `kind = few(1)` | the [`Kind`], by a function or constant of this crate, which needs no import; without it, the kind of the field's type ([`Setting::KIND`]) |
//! | `default = 8` | the default; without it, the key is required (with `or`, the word is the default) |
//! | `or = "never"` | a word that stands for `None` |
//! | `key = "page_size"` | the key, if it is not the field's name without `_ns` or `_bytes` (a value carries its own unit) |
//! | `about = "..."` | the meaning, if the first paragraph of the doc comment does not serve |
//! | `table`, `flatten` | the field is a struct with settings, in a subtable or in the same table |
//! | `lead` | with `table`: the meanings of its keys begin with that of the field |
//! | `switched` | an `Option` of such a struct in a subtable, whose key `enabled` decides whether it exists |
//! | `beside = "ecc"` | the table is a neighbour instead of a subtable |
//! | `shared` | the keys are listed by another struct and only read here |
//! | `via = Word` | the value or struct is read as this type and converted by `Into` |
//! | `by = path` | the value or struct is converted by this function |
//! | `made = EXPR` | the key is listed here, but the reader of a description computes the field from several keys; until then it is this |
//! | `skip`, `skip = EXPR` | not a key: the field has its default, or this |
//!
//! Invariant: a struct is made only from values that the kinds of its keys have read, so a field whose type does not hold all values of its kind
//! panics.

// The derive names the crate this way, here too.
#[cfg(test)]
extern crate self as pellucid_setting;

mod key;
mod kind;
mod value;

pub use key::{Fallback, Item, Key, Setting, Settings, Source, get, join, neighbour, switched, table_keys};
pub use kind::{
    ANY_WHOLE, Kind, SHARE, TIME, Typed, count, few, rate, rate_from, real, share, size, size_from, time,
    whole,
};
pub use pellucid_setting_derive::{Settings, Word};
pub use value::{Value, quote, write_real};

#[cfg(test)]
mod tests;
