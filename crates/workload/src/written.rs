//! Source positions of a job's keys, so that errors about keys that do not suit the drive can name the
//! place.

/// Places of a job and its keys. No part of what the job does: two jobs are equal wherever they were written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The job's own, where keys that were not given are blamed on it; empty: unknown.
    job: String,
    /// Given keys, the position of each, and its value.
    keys: Vec<(&'static str, String, String)>,
    /// Keys that were given and change nothing, each with the reason.
    pub(super) no_effect: Vec<(&'static str, &'static str)>,
}

impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Written {
    /// The job begins at `place`.
    pub(super) fn begin(&mut self, place: String) {
        self.job = place;
    }

    /// `key`, by its first name, was written at `place` with this value.
    pub(super) fn note(&mut self, key: &'static str, place: &str, value: &str) {
        self.keys.push((key, place.into(), value.into()));
    }

    /// Returns the value that `key` was given last, as it was written; of a key that was set without a place, "given".
    pub fn value_of(&self, key: &str) -> &str {
        self.keys.iter().rev().find(|(name, ..)| *name == key).map_or("given", |(_, _, value)| value)
    }

    /// Returns whether `key` was given.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, ..)| *name == key)
    }

    /// Given keys without effect: the position of each, its name, and the reason.
    pub fn without_effect(&self) -> impl Iterator<Item = (&str, &'static str, &'static str)> {
        self.no_effect.iter().map(|&(key, why)| (self.place_of(key).unwrap_or_default(), key, why))
    }

    /// Where `key` was written last, or else the job; `None`: it was made, not written.
    pub fn place_of(&self, key: &str) -> Option<&str> {
        let own = self.keys.iter().rev().find(|(name, ..)| *name == key).map(|(_, place, _)| place);
        own.or(Some(&self.job)).map(String::as_str).filter(|place| !place.is_empty())
    }
}
