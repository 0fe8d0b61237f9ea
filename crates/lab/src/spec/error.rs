//! Why a description is refused: always the place, the key, its value and what is allowed.

use std::fmt;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file or preset, at a line counted from 1.
    File {
        /// The file's path as given, or the preset's name.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// Neither a preset nor a readable file.
    NotFound {
        /// What was asked for.
        name: String,
        /// Why the file could not be read.
        reason: String,
        /// A preset with a similar name.
        near: Option<String>,
    },
    /// Not TOML, or a `--set` without `=`.
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
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
        /// The keys that exist there.
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
        /// What is allowed.
        allowed: String,
    },
    /// A key without a default that nobody gave.
    Missing {
        /// The file or preset being read.
        name: String,
        /// The key, from the top of the file.
        key: String,
        /// What is allowed.
        allowed: String,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::NotFound { name, reason, near } => {
                write!(f, "{name}: not a preset")?;
                did_you_mean(f, near)?;
                write!(f, ", and not a file that can be read: {reason}; presets: {}", preset_names())
            }
            SpecError::Syntax { place, reason } => write!(f, "{place}: {reason}"),
            SpecError::UnknownKey { place, key, near, allowed } => {
                write!(f, "{place}: {key}: unknown key")?;
                did_you_mean(f, near)?;
                write!(f, "; allowed: {}", allowed.join(", "))
            }
            SpecError::NotAllowed { place, key, value, allowed } => {
                write!(f, "{place}: {key} = {value}: not allowed; allowed: {allowed}")
            }
            SpecError::Missing { name, key, allowed } => write!(
                f,
                "{name}: {key}: missing; allowed: {allowed}; or start from a preset with drive.preset = {}",
                preset_names()
            ),
        }
    }
}

impl std::error::Error for SpecError {}

fn did_you_mean(f: &mut fmt::Formatter<'_>, near: &Option<String>) -> fmt::Result {
    near.as_ref().map_or(Ok(()), |near| write!(f, " (did you mean {near}?)"))
}

fn preset_names() -> String {
    super::presets::names().join(", ")
}

/// The candidate most like `word`, if any is like it at all: at most a third of its letters differ.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // A misspelling is short; comparing a long text would only cost time.
    let limit = (word.chars().count().min(60) / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate, limit), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate.to_string())
}

/// Letters to insert, remove or replace to get from `a` to `b` (Levenshtein), or more than `limit` when
/// lengths differ by more.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let b: Vec<char> = b.chars().collect();
    let a_len = a.chars().count();
    if a_len.abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_misspellings_and_nothing_else() {
        let keys = ["victim", "placement", "map"];
        assert_eq!(nearest("victm", keys), Some("victim".into()));
        assert_eq!(nearest("palcement", keys), Some("placement".into()));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(distance("kitten", "sitting", 9), 3);
    }
}
