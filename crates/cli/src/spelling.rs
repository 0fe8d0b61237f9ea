//! Options that are another spelling of a key: beside `--set` of that key they must say the same.

use crate::failure::Failure;
use anyhow::anyhow;
use pellucid_spec::{Place, Provenance};

/// An option that was given.
pub struct Given<'a, T> {
    /// The option with its dashes.
    pub option: &'a str,
    /// Its value as it was typed; empty for a switch.
    pub typed: &'a str,
    /// The key that it spells, from the top of a description.
    pub key: &'a str,
    /// Its value.
    pub value: T,
}

impl<T: PartialEq> Given<'_, T> {
    /// Puts the value into its place in the description.
    ///
    /// # Errors
    /// `--set` of the key says another value.
    pub fn put(self, held: &mut T, provenance: &Provenance) -> Result<(), Failure> {
        self.check(held, provenance)?;
        *held = self.value;
        Ok(())
    }

    /// Makes the check of [`Given::put`], and puts nothing.
    pub fn check(&self, held: &T, provenance: &Provenance) -> Result<(), Failure> {
        let entry = provenance.get(self.key);
        let set = entry.filter(|entry| matches!(entry.origin.place, Place::Set { .. }));
        match set.filter(|_| *held != self.value) {
            Some(entry) => {
                let (place, value) = (&entry.origin.place, &entry.value);
                let option = format!("{} {}", self.option, self.typed);
                let option = option.trim_end();
                Err(Failure::asked(anyhow!(
                    "{option} and {place}={value} contradict each other; allowed: one of them"
                )))
            }
            None => Ok(()),
        }
    }
}

/// Adds an option as an override of its key.
///
/// # Errors
/// The value is empty, or an override of the key that says another value is there.
pub fn add_set(sets: &mut Vec<String>, option: &str, key: &str, value: Option<&str>) -> Result<(), Failure> {
    let Some(value) = value else { return Ok(()) };
    if value.trim().is_empty() {
        return Err(Failure::asked(anyhow!(
            "{option}: no value; `pellucid explain {key}` lists what is allowed"
        )));
    }
    let same_key = |set: &&String| set.split_once('=').is_some_and(|(other, _)| other.trim() == key);
    let set_value =
        |set: &String| set.split_once('=').map(|(_, value)| value.trim().trim_matches('"').to_owned());
    match sets.iter().find(same_key).filter(|set| set_value(set).as_deref() != Some(value)) {
        Some(set) => {
            let sentence =
                format!("{option} {value} and --set {set} contradict each other; allowed: one of them");
            Err(Failure::asked(anyhow!(sentence)))
        }
        None => {
            sets.push(format!("{key}={value}"));
            Ok(())
        }
    }
}
