//! Small tables with one entry per cause of a flash operation or per stage of a request.
//!
//! In JSON they are objects whose keys are the names of [`Cause`] and [`Stage`] in snake case, in declaration order, so that readers never depend on
//! positions.

use pellucid_flash::{Cause, Stage, StageTimes, add_each};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ops::{Index, IndexMut};

/// Converts a name to its JSON key or CSV column: `wait for way` becomes `wait_for_way`, `wear-level` becomes `wear_level`.
pub fn key(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

macro_rules! table {
    ($(#[$doc:meta])* $table:ident, $index:ident, $omits_zero:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $table<T>(pub [T; $index::COUNT]);

        impl<T> $table<T> {
            /// Iterates over the entries with their names, in order.
            pub fn iter(&self) -> impl Iterator<Item = ($index, &T)> {
                $index::ALL.into_iter().zip(&self.0)
            }

            /// Applies `f` to each entry.
            pub fn map<U>(self, f: impl FnMut(T) -> U) -> $table<U> {
                $table(self.0.map(f))
            }
        }

        impl $table<u64> {
            /// Returns the sum of all entries.
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }
        }

        impl<T> Index<$index> for $table<T> {
            type Output = T;
            fn index(&self, index: $index) -> &T {
                &self.0[index as usize]
            }
        }

        impl<T> IndexMut<$index> for $table<T> {
            fn index_mut(&mut self, index: $index) -> &mut T {
                &mut self.0[index as usize]
            }
        }

        impl<T: Serialize + Default + PartialEq> Serialize for $table<T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                let zero = T::default();
                let omitted = |index, value: &T| $omits_zero(index) && *value == zero;
                for (index, value) in self.iter().filter(|&(index, value)| !omitted(index, value)) {
                    map.serialize_entry(&key(index.name()), value)?;
                }
                map.end()
            }
        }
    };
}

table!(
    /// One entry per [`Cause`].
    ByCause,
    Cause,
    Cause::is_particular
);
table!(
    /// One entry per [`Stage`].
    ByStage,
    Stage,
    |_: Stage| false
);

impl ByStage<u64> {
    /// Adds the stage times of one request, in nanoseconds.
    #[inline]
    pub fn add(&mut self, stages: &StageTimes) {
        add_each(&mut self.0, &stages.0);
    }
}
