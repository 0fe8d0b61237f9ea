//! Map of virtual units: a table of leaves, which exist only for written ranges.
//!
//! Units written together lie together, so a leaf is a list of runs: units at consecutive places, or units without a place. If the runs
//! take more memory than one number for each unit, the leaf is an array of numbers instead.

use pellucid_flash::{Lpn, Ppa};

/// Units of a leaf.
const LEAF: u32 = 1024;

/// Most runs of a leaf: more would be larger than a table.
const RUNS_MAX: usize = LEAF as usize * size_of::<Ppa>() / (size_of::<u16>() + size_of::<Ppa>());

/// Runs by which the memory of a leaf grows.
const RUNS_MORE: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Virtuals {
    leaves: Vec<Option<Box<Leaf>>>,
}

#[derive(Clone, Debug)]
enum Leaf {
    /// The first unit of each run, the first of them 0, and its location.
    Runs(Vec<u16>, Vec<Ppa>),
    Table(Box<[Ppa]>),
}

/// Location of the unit `behind` units after one at `ppa`, in the same run.
fn next(ppa: Ppa, behind: u32) -> Ppa {
    if ppa.is_some() { Ppa(ppa.0 + behind) } else { ppa }
}

impl Leaf {
    fn new() -> Leaf {
        Leaf::Runs(vec![0], vec![Ppa::NONE])
    }

    fn get(&self, unit: u32) -> Ppa {
        match self {
            Leaf::Table(places) => places[unit as usize],
            Leaf::Runs(firsts, places) => {
                let run = firsts.partition_point(|&first| u32::from(first) <= unit) - 1;
                next(places[run], unit - u32::from(firsts[run]))
            }
        }
    }

    fn set(&mut self, unit: u32, ppa: Ppa) {
        match self {
            Leaf::Table(places) => places[unit as usize] = ppa,
            Leaf::Runs(firsts, places) => {
                set_in_runs(firsts, places, unit, ppa);
                if firsts.len() > RUNS_MAX {
                    *self = Leaf::Table((0..LEAF).map(|unit| self.get(unit)).collect());
                }
            }
        }
    }

    /// Number of runs; in a table each unit is a run.
    fn runs(&self) -> usize {
        match self {
            Leaf::Table(places) => places.len(),
            Leaf::Runs(firsts, _) => firsts.len(),
        }
    }

    /// First unit of a run, its length, and the location of the first unit.
    fn run(&self, at: usize) -> (u32, u32, Ppa) {
        match self {
            Leaf::Table(places) => (at as u32, 1, places[at]),
            Leaf::Runs(firsts, places) => {
                let end = firsts.get(at + 1).map_or(LEAF, |&first| first.into());
                let first = u32::from(firsts[at]);
                (first, end - first, places[at])
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        let held = match self {
            Leaf::Table(places) => places.len() * size_of::<Ppa>(),
            Leaf::Runs(firsts, places) => firsts.len() * size_of::<u16>() + places.len() * size_of::<Ppa>(),
        };
        size_of::<Leaf>() + held
    }
}

/// Moves a unit from its run to its new location; joins runs that continue each other.
fn set_in_runs(firsts: &mut Vec<u16>, places: &mut Vec<Ppa>, unit: u32, ppa: Ppa) {
    let run = firsts.partition_point(|&first| u32::from(first) <= unit) - 1;
    let (first, place) = (u32::from(firsts[run]), places[run]);
    let end = firsts.get(run + 1).map_or(LEAF, |&first| first.into());
    let mut pieces = [(0, Ppa::NONE); 3];
    let mut count = 0;
    let mut put = |first: u32, place: Ppa| {
        pieces[count] = (first as u16, place);
        count += 1;
    };
    let goes_on = |before: Option<(u32, Ppa)>, first: u32, place: Ppa| {
        before.is_some_and(|(start, before)| next(before, first - start) == place)
    };
    let before = run.checked_sub(1).map(|run| (u32::from(firsts[run]), places[run]));
    // The unit before, the unit, and the unit after it.
    let mut newest = before;
    if first < unit {
        put(first, place);
        newest = Some((first, place));
    }
    if !goes_on(newest, unit, ppa) {
        put(unit, ppa);
        newest = Some((unit, ppa));
    }
    let mut replaced = 1;
    let behind = next(place, unit + 1 - first);
    if unit + 1 < end {
        if !goes_on(newest, unit + 1, behind) {
            put(unit + 1, behind);
        }
    } else if end < LEAF && goes_on(newest, end, places[run + 1]) {
        replaced = 2;
    }
    let more = count.saturating_sub(replaced);
    if firsts.capacity() < firsts.len() + more {
        firsts.reserve_exact(RUNS_MORE);
        places.reserve_exact(RUNS_MORE);
    }
    firsts.splice(run..run + replaced, pieces[..count].iter().map(|piece| piece.0));
    places.splice(run..run + replaced, pieces[..count].iter().map(|piece| piece.1));
}

impl Virtuals {
    pub fn new(units: u32) -> Virtuals {
        Virtuals { leaves: vec![None; units.div_ceil(LEAF) as usize] }
    }

    /// Location of a virtual unit; [`Ppa::NONE`]: nowhere, [`Ppa::LOST`]: its data are lost.
    pub fn get(&self, lpn: Lpn) -> Ppa {
        let leaf = &self.leaves[(lpn.0 / LEAF) as usize];
        leaf.as_ref().map_or(Ppa::NONE, |leaf| leaf.get(lpn.0 % LEAF))
    }

    /// Sets the location of a virtual unit; returns the former one.
    pub fn set(&mut self, lpn: Lpn, ppa: Ppa) -> Ppa {
        let leaf = &mut self.leaves[(lpn.0 / LEAF) as usize];
        if leaf.is_none() && ppa == Ppa::NONE {
            return Ppa::NONE;
        }
        let leaf = leaf.get_or_insert_with(|| Box::new(Leaf::new()));
        let old = leaf.get(lpn.0 % LEAF);
        if old != ppa {
            leaf.set(lpn.0 % LEAF, ppa);
        }
        old
    }

    /// Every virtual unit that was written.
    pub fn iter(&self) -> impl Iterator<Item = (Lpn, Ppa)> + '_ {
        let leaves = (0..).zip(&self.leaves).filter_map(|(at, leaf)| Some((at, leaf.as_ref()?)));
        let runs = leaves.flat_map(|(at, leaf)| (0..leaf.runs()).map(move |run| (at * LEAF, leaf.run(run))));
        let written = runs.filter(|(_, (_, _, ppa))| *ppa != Ppa::NONE);
        written.flat_map(|(base, (first, units, ppa))| {
            (0..units).map(move |n| (Lpn(base + first + n), next(ppa, n)))
        })
    }

    pub fn memory_bytes(&self) -> u64 {
        let leaves: usize = self.leaves.iter().flatten().map(|leaf| leaf.memory_bytes()).sum();
        (leaves + self.leaves.len() * size_of::<Option<Box<Leaf>>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeMap;

    /// Runs of several lengths, of several places, and single units; dense enough that some leaves become tables.
    #[test]
    fn it_does_what_a_map_does() {
        let units = 3 * LEAF + 100;
        let (mut virtuals, mut map, mut rng) = (Virtuals::new(units), BTreeMap::new(), Rng::new(5));
        let mut tables = 0;
        for step in 0..20_000 {
            let length = if step < 12_000 { 1 + rng.below(64) as u32 } else { 1 };
            let first = rng.below(u64::from(units - length)) as u32;
            let place = match rng.below(10) {
                0 => Ppa::NONE,
                1 => Ppa::LOST,
                // Often the location next to a neighbour's, so that runs are joined.
                2..6 => Ppa(first + 5_000),
                _ => Ppa(rng.below(1_000_000) as u32),
            };
            for n in 0..length {
                let ppa = next(place, n);
                let old = map.insert(first + n, ppa).unwrap_or(Ppa::NONE);
                assert_eq!(virtuals.set(Lpn(first + n), ppa), old, "unit {}", first + n);
            }
            tables =
                virtuals.leaves.iter().flatten().filter(|leaf| matches!(***leaf, Leaf::Table(_))).count();
        }
        for unit in 0..units {
            assert_eq!(virtuals.get(Lpn(unit)), map.get(&unit).copied().unwrap_or(Ppa::NONE), "unit {unit}");
        }
        let expected: Vec<_> =
            map.iter().filter(|(_, ppa)| **ppa != Ppa::NONE).map(|(&u, &p)| (Lpn(u), p)).collect();
        assert_eq!(virtuals.iter().collect::<Vec<_>>(), expected);
        assert!(tables > 0, "a leaf became a table");
    }

    #[test]
    fn what_was_written_together_takes_little() {
        let mut virtuals = Virtuals::new(LEAF);
        for unit in 0..LEAF {
            virtuals.set(Lpn(unit), Ppa(unit + 10_000 * (unit / 128)));
        }
        let table = u64::from(LEAF) * size_of::<Ppa>() as u64;
        assert!(virtuals.memory_bytes() < table / 20, "{} bytes", virtuals.memory_bytes());
    }
}
