//! Where the keys of a job were written, so that one which does not suit the drive is named with its place.

/// Places of a job and its keys. No part of what the job does: two jobs are equal wherever they were written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The job's own, where keys that nobody gave are blamed on it; empty: unknown.
    job: String,
    keys: Vec<(&'static str, String)>,
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

    /// `key`, by its first name, was written at `place`.
    pub(super) fn note(&mut self, key: &'static str, place: &str) {
        self.keys.push((key, place.into()));
    }

    /// Where `key` was written last, or else the job; `None`: it was made, not written.
    pub fn place_of(&self, key: &str) -> Option<&str> {
        let own = self.keys.iter().rev().find(|(name, _)| *name == key).map(|(_, place)| place);
        own.or(Some(&self.job)).map(String::as_str).filter(|place| !place.is_empty())
    }
}
