//! Policies that are written in Python.
//!
//! ```text
//!  Drive(ftl={"victim": Mine()}) ─► prototype ── copy.deepcopy for each new drive and each fork ─► Mine.choose(candidates, now)
//!                                                                            │ raises, or chooses what is not offered
//!                                                                            ▼
//!                                     Raised (of the thread) ─► the onlooker stops the run ─► the exception leaves `run`
//! ```
//! A drive works on one thread from the beginning of a call to its end, so an exception waits in that thread until the run has been stopped.
//! The drive goes on by the built-in policy until then; its result is never seen. A policy that has failed is not asked again, as its
//! drive is no longer what the policy made of it.

use crate::errors::Refusal;
use pellucid_flash::Lpn;
use pellucid_ftl::{DieCandidate, PlacementPolicy, VictimCandidate, VictimPolicy};
use pellucid_spec::{Outside, Spec};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Takes the first exception that a policy has raised in this thread.
pub fn take_raised() -> Option<PyErr> {
    RAISED.with_borrow_mut(Option::take)
}

/// Fails with the exception that a policy has raised in this thread, if one has.
pub fn check() -> PyResult<()> {
    take_raised().map_or(Ok(()), Err)
}

fn raise(error: PyErr) {
    RAISED.with_borrow_mut(|raised| _ = raised.get_or_insert(error));
}

/// A closed block that garbage collection may empty.
#[pyclass(frozen, get_all, module = "pellucid")]
pub struct Candidate {
    /// Number of the block.
    block: u32,
    /// Its valid mapping units, which have to be copied.
    valid: u32,
    /// Mapping units of a block.
    units: u32,
    /// Pages of a cache in the block, dirty or clean; without a cache: `valid`.
    cached: u32,
    /// Times that it was erased.
    erases: u32,
    /// When it was closed, in programs of translation.
    closed_at: u64,
    /// When one of its units became invalid last, in programs of translation.
    touched_at: u64,
    /// It holds translation pages.
    holds_map: bool,
}

/// A die that can take the next superpage.
#[pyclass(frozen, get_all, module = "pellucid")]
pub struct Die {
    /// Number of the die.
    die: u32,
    /// Its channel.
    channel: u32,
    /// Its way on the channel.
    way: u32,
    /// Its free blocks.
    free_blocks: u32,
}

/// An object of Python that makes choices.
#[derive(Debug)]
pub struct Foreign {
    key: &'static str,
    name: String,
    /// `None`: it has failed.
    object: Option<Py<PyAny>>,
    is_stateless: bool,
}

impl Foreign {
    fn copied(&self) -> Foreign {
        let object = self.object.as_ref().and_then(|object| {
            Python::attach(|py| match self.is_stateless {
                true => Some(object.clone_ref(py)),
                false => {
                    let copy =
                        py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (object.bind(py),)));
                    copy.map(Bound::unbind).map_err(raise).ok()
                }
            })
        });
        Foreign { key: self.key, name: self.name.clone(), object, is_stateless: self.is_stateless }
    }

    /// Asks for a choice by `ask`; its answer is the number of one of those offered, or as `Err` what else was chosen, in words.
    fn choose(
        &mut self,
        offered: &[u32],
        ask: impl Fn(Python<'_>, &Bound<'_, PyAny>) -> PyResult<Result<u32, String>>,
    ) -> Option<usize> {
        let answer = Python::attach(|py| match &self.object {
            None => {
                let sentence = format!(
                    "{} = {}: this policy has failed, so the drive is no longer what it made of it; allowed: a fork from before",
                    self.key, self.name
                );
                Err(Refusal::new(sentence).into())
            }
            Some(object) => ask(py, object.bind(py)),
        });
        let chosen = answer.and_then(|answer| {
            let place =
                |number: u32| offered.iter().position(|&one| one == number).ok_or_else(|| number.to_string());
            answer.and_then(place).map_err(|chosen| {
                let list: Vec<String> = offered.iter().map(u32::to_string).collect();
                let what = format!("{}, which chose {chosen}", self.name);
                Refusal::value(self.key, &what, &list.join(", ")).into()
            })
        });
        chosen
            .map_err(|error| {
                self.object = None;
                raise(error);
            })
            .ok()
    }
}

/// The number that was answered, or the answer in Python's words.
fn number(answer: &Bound<'_, PyAny>) -> Result<u32, String> {
    answer.extract().map_err(|_| answer.repr().map_or("what has no words".into(), |words| words.to_string()))
}

impl VictimPolicy for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose(&mut self, candidates: &[VictimCandidate], now: u64) -> Option<usize> {
        let offered: Vec<u32> = candidates.iter().map(|candidate| candidate.block.0).collect();
        Foreign::choose(self, &offered, |py, policy| {
            let made = candidates.iter().map(|candidate| Py::new(py, Candidate::from(candidate)));
            let answer = policy.call_method1("choose", (made.collect::<PyResult<Vec<_>>>()?, now))?;
            Ok(answer.cast::<Candidate>().map_or_else(|_| number(&answer), |one| Ok(one.get().block)))
        })
    }

    fn fork(&self) -> Box<dyn VictimPolicy> {
        Box::new(self.copied())
    }
}

impl PlacementPolicy for Foreign {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose(&mut self, candidates: &[DieCandidate], page: Lpn, now: u64) -> Option<usize> {
        let offered: Vec<u32> = candidates.iter().map(|candidate| candidate.die.0).collect();
        Foreign::choose(self, &offered, |py, policy| {
            let made = candidates.iter().map(|candidate| Py::new(py, Die::from(candidate)));
            let answer = policy.call_method1("choose", (made.collect::<PyResult<Vec<_>>>()?, page.0, now))?;
            Ok(answer.cast::<Die>().map_or_else(|_| number(&answer), |one| Ok(one.get().die)))
        })
    }

    fn fork(&self) -> Box<dyn PlacementPolicy> {
        Box::new(self.copied())
    }
}

impl From<&VictimCandidate> for Candidate {
    fn from(candidate: &VictimCandidate) -> Candidate {
        let VictimCandidate { block, valid, units, cached, erases, closed_at, touched_at, holds_map } =
            *candidate;
        Candidate { block: block.0, valid, units, cached, erases, closed_at, touched_at, holds_map }
    }
}

impl From<&DieCandidate> for Die {
    fn from(candidate: &DieCandidate) -> Die {
        let DieCandidate { die, channel, way, free_blocks } = *candidate;
        Die { die: die.0, channel, way, free_blocks }
    }
}

/// The policies of a drive, by the keys that they stand for.
#[derive(Clone, Default)]
pub struct Policies(Vec<Outside>);

impl Policies {
    /// Policies as Python has them: key, name in reports, object, and whether the object has no state.
    ///
    /// # Errors
    /// No policy can stand for such a key.
    pub fn of(given: Vec<(String, String, Py<PyAny>, bool)>) -> Result<Policies, Refusal> {
        let outside = |(key, name, object, is_stateless): (String, String, Py<PyAny>, bool)| {
            let foreign =
                |key| Arc::new(Foreign { key, name: name.clone(), object: Some(object), is_stateless });
            Ok(match key.as_str() {
                "drive.ftl.victim" => Outside::Victim(foreign("drive.ftl.victim")),
                "host.ftl.victim" => Outside::HostVictim(foreign("host.ftl.victim")),
                "drive.ftl.placement" => Outside::Placement(foreign("drive.ftl.placement")),
                "cache.eviction" => Outside::Eviction(foreign("cache.eviction")),
                _ => {
                    let allowed = "as ftl.victim, host.ftl.victim, ftl.placement or cache.eviction, of the class for it";
                    return Err(Refusal::value(&key, &name, allowed));
                }
            })
        };
        given.into_iter().map(outside).collect::<Result<_, _>>().map(Policies)
    }

    /// Puts the policies into a description.
    ///
    /// # Errors
    /// The drive has nothing for which one would choose.
    pub fn adopt(&self, mut spec: Spec) -> Result<Spec, Refusal> {
        self.0.iter().try_for_each(|outside| spec.adopt(outside.clone()))?;
        Ok(spec)
    }
}
