//! Source positions of a job's keys, so that errors about keys that do not fit the drive can name the place.

/// Source positions of a job and its keys. They do not affect equality of jobs.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Place of the job itself, for keys that were not given; empty: unknown.
    job: String,
    /// Given keys, each with its place and value.
    keys: Vec<(&'static str, String, String)>,
    /// Given keys without effect, each with the reason.
    pub(super) no_effect: Vec<(&'static str, &'static str)>,
}

impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Written {
    /// Sets the place at which the job begins.
    pub(super) fn begin(&mut self, place: String) {
        self.job = place;
    }

    /// Records that `key` (first name) was given at `place` with this value.
    pub(super) fn note(&mut self, key: &'static str, place: &str, value: &str) {
        self.keys.push((key, place.into(), value.into()));
    }

    /// The last given value of `key`, as written; "given" if it was set without a place.
    pub fn value_of(&self, key: &str) -> &str {
        self.keys.iter().rev().find(|(name, ..)| *name == key).map_or("given", |(_, _, value)| value)
    }

    /// Reports whether `key` was given.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, ..)| *name == key)
    }

    /// Given keys without effect: place, name, and reason.
    pub fn without_effect(&self) -> impl Iterator<Item = (&str, &'static str, &'static str)> {
        self.no_effect.iter().map(|&(key, why)| (self.place_of(key).unwrap_or_default(), key, why))
    }

    /// Last place of `key`, or else the place of the job; `None`: the job was not written anywhere.
    pub fn place_of(&self, key: &str) -> Option<&str> {
        let own = self.keys.iter().rev().find(|(name, ..)| *name == key).map(|(_, place, _)| place);
        own.or(Some(&self.job)).map(String::as_str).filter(|place| !place.is_empty())
    }
}
