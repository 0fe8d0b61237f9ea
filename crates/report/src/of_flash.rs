//! Sections of a report that only a drive of flash has.
//!
//! A disk has no blocks, no garbage collection and no write amplification; zeros would suggest that it has them. Such a section is `null` in JSON and
//! reads as empty here, so that pages and tables omit it like zero values.

use serde::{Serialize, Serializer};
use std::ops::{Deref, DerefMut};

/// A section that is present if the drive has flash.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfFlash<T> {
    section: T,
    /// True if the drive has flash.
    is_there: bool,
}

impl<T> OfFlash<T> {
    /// Returns the section; `None` for a disk.
    pub fn get(&self) -> Option<&T> {
        self.is_there.then_some(&self.section)
    }
}

impl<T> From<T> for OfFlash<T> {
    fn from(section: T) -> OfFlash<T> {
        OfFlash { section, is_there: true }
    }
}

impl<T: Default> From<Option<T>> for OfFlash<T> {
    fn from(section: Option<T>) -> OfFlash<T> {
        section.map_or_else(OfFlash::default, OfFlash::from)
    }
}

impl<T> Deref for OfFlash<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.section
    }
}

impl<T> DerefMut for OfFlash<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.section
    }
}

impl<T: Serialize> Serialize for OfFlash<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}
