//! Settings, written once: a key of a description is a field of the struct that uses it.
//!
//! ```text
//! struct with #[derive(Settings)] --list--> keys: path, kind, bounds, default, meaning --> reading, refusals, show, reference, explain
//!                                 <--take-- values, one for each key
//! ```
//! `#[derive(Settings)]` lists the keys of a struct below the table that it is given, and makes the struct from values. Each field says in `#[setting(...)]`
//! what its type does not say:
//!
//! | attribute | meaning |
//! |---|---|
//! | `kind = few(1)` | the [`Kind`], by a function or constant of this crate, which needs no import; without it, the kind of the field's type ([`Setting::KIND`]) |
//! | `default = 8` | the value where none is given; without it, one must be given (with `or`, the word is it) |
//! | `or = "never"` | a word in place of the kind, for `None` |
//! | `key = "page_size"` | the key, where it is not the field's name without `_ns` or `_bytes`: a value carries its unit itself |
//! | `about = "..."` | the meaning, where the first paragraph of the doc comment cannot be it |
//! | `table`, `flatten` | the field is a struct with settings: in a table below, or in the same table |
//! | `lead` | with `table`: its meanings begin with that of the field |
//! | `switched` | an `Option` of such a struct in a table below, whose key `enabled` decides whether it is there |
//! | `beside = "ecc"` | the table is a neighbour, not one below |
//! | `shared` | the keys are listed by another struct and only read here |
//! | `via = Word` | the value, or struct, that is read is of this type, and converted by `Into` |
//! | `by = path` | ... or by this function |
//! | `made = EXPR` | the key is listed here; the reader of a description makes the field of it and of others, and until then it is this |
//! | `skip`, `skip = EXPR` | no key: the field is its default, or this |
//!
//! Invariant: a struct takes only values that the kinds of its keys have read, so a field whose type does not hold all values of its kind panics.

// The derive names the crate by this name, here too.
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
