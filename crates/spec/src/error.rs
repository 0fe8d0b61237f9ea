//! Why a description is refused: always with the place, the key, the value and what is allowed.

use pellucid_text::suggest::{hint, meant};
use std::fmt;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file or preset, at a line counted from 1.
    File {
        /// Path of the file as given, or name of the preset.
        name: String,
        /// Line, from 1.
        line: u32,
    },
    /// On the command line, as `--set KEY=...`.
    Set {
        /// The key as typed.
        key: String,
    },
    /// On the command line, as an option of its own, such as `--bs`.
    Option {
        /// The option without its dashes.
        name: String,
    },
    /// Nowhere: the value is the default.
    Default,
}

impl Place {
    /// The line in a file, from 1; 0 where there is none.
    pub fn line(&self) -> u32 {
        if let Place::File { line, .. } = self { *line } else { 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { name, line } => write!(f, "{name}:{line}"),
            Place::Set { key } => write!(f, "--set {key}"),
            Place::Option { name } => write!(f, "--{name}"),
            Place::Default => f.write_str("default"),
        }
    }
}

/// Why a description is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Neither a preset nor a readable file.
    NotFound {
        /// Requested name.
        name: String,
        /// Why the file could not be read.
        reason: String,
        /// A preset with a similar name.
        near: Option<String>,
    },
    /// The text is not TOML, or a `--set` has no `=`.
    Syntax {
        /// Where.
        place: Place,
        /// Reason of the refusal.
        reason: String,
    },
    /// A key that does not exist.
    UnknownKey {
        /// Where.
        place: Place,
        /// The key, from the top of the file.
        key: String,
        /// A key with a similar name.
        near: Option<String>,
        /// Keys that exist there.
        allowed: Vec<String>,
    },
    /// A value of the wrong type or out of range, or one that contradicts another.
    NotAllowed {
        /// Where.
        place: Place,
        /// The key, from the top of the file.
        key: String,
        /// Its value as TOML.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// A key that has no effect here.
    NoEffect {
        /// Where.
        place: Place,
        /// The key, from the top of the file.
        key: String,
        /// Its value as TOML.
        value: String,
        /// Condition that gives the key an effect.
        with: &'static str,
    },
    /// A key without a default that was not given.
    Missing {
        /// The file or preset being read.
        name: String,
        /// The key, from the top of the file.
        key: String,
        /// Allowed values.
        allowed: String,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::NotFound { name, reason, near } => {
                let (near, presets) = (hint(near.as_deref()), preset_names());
                write!(
                    f,
                    "{name}: not a preset{near}, and not a file that can be read: {reason}; presets: {presets}"
                )
            }
            SpecError::Syntax { place, reason } => write!(f, "{place}: {reason}"),
            SpecError::UnknownKey { place, key, near, allowed } => {
                let near = hint(near.as_deref());
                write!(f, "{place}: {key}: unknown key{near}; allowed: {}", allowed.join(", "))
            }
            SpecError::NotAllowed { place, key, value, allowed } => {
                let meant = hint(meant(value, allowed).as_deref());
                write!(f, "{place}: {key} = {value}: not allowed{meant}; allowed: {allowed}")
            }
            SpecError::NoEffect { place, key, value, with } => {
                write!(f, "{place}: {key} = {value}: has no effect here; allowed: with {with}")
            }
            SpecError::Missing { name, key, allowed } => write!(
                f,
                "{name}: {key}: missing; allowed: {allowed}; or start from a preset with drive.preset = {}",
                preset_names()
            ),
        }
    }
}

fn preset_names() -> String {
    super::presets::names().join(", ")
}
