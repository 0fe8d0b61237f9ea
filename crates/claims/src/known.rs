//! Misses that are known, each with its reason: what else misses is news.
//!
//! Invariants: every entry names a claim and is explained in `docs/explanation/reproduce.md`; one whose check holds again is reported by every
//! run with the standard seed and presets, and then has to go.

use super::{Check, Claim, Limit, Outcome, Verdict};

/// A check of a claim that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMiss {
    /// The claim's identifier.
    pub claim: &'static str,
    /// How the text of the check begins.
    pub check: &'static str,
    /// Why it does not hold.
    pub reason: &'static str,
}

/// All of them.
pub static KNOWN_MISSES: &[KnownMiss] = &[
    KnownMiss {
        claim: "B3",
        check: "block drive, 7 % over-provisioning, no limit",
        reason: "without a limit the block drive takes a sixth of what the zones take, and its reads wait for its writes",
    },
    KnownMiss {
        claim: "B3",
        check: "block drive, 28 % over-provisioning, no limit",
        reason: "the block drive takes half of what the zones take, so its reads wait for room half as often",
    },
    KnownMiss {
        claim: "B3",
        check: "block drive, 28 % over-provisioning, p99.9 of reads / zones, geometric mean",
        reason: "where both drives keep the pace, collection is rare with so much spare space",
    },
];

impl KnownMiss {
    fn is_of(&self, claim: &Claim, check: &Check) -> bool {
        // A check that is only shown cannot miss.
        self.claim == claim.id && check.limit != Limit::Shown && check.what.starts_with(self.check)
    }
}

/// Outcome of a claim, compared with the known misses.
#[derive(Clone, Debug, Default)]
pub struct Standing<'a> {
    /// Checks that do not hold, as is known.
    pub known: Vec<(&'a Check, &'static KnownMiss)>,
    /// Checks that do not hold, which is news.
    pub unknown: Vec<&'a Check>,
    /// Known misses all of whose checks hold: they have to leave the table.
    pub over: Vec<&'static KnownMiss>,
}

impl Standing<'_> {
    /// The outcome's verdict; whether a miss was known; and whether a number in the range has the paper's order turned round.
    pub fn word(&self, outcome: &Outcome) -> &'static str {
        match outcome.verdict() {
            Verdict::Misses if self.unknown.is_empty() => "misses, known",
            Verdict::Contradicts if self.unknown.is_empty() => "contradicts, known",
            Verdict::InRange if outcome.is_reversed() => "in range, reversed",
            other => other.name(),
        }
    }
}

/// Compares an outcome with [`KNOWN_MISSES`].
pub fn standing<'a>(claim: &Claim, outcome: &'a Outcome) -> Standing<'a> {
    let mut standing = Standing::default();
    for check in outcome.checks.iter().filter(|check| check.verdict() > Verdict::InRange) {
        match KNOWN_MISSES.iter().find(|known| known.is_of(claim, check)) {
            Some(known) => standing.known.push((check, known)),
            None => standing.unknown.push(check),
        }
    }
    let met = |known: &KnownMiss| standing.known.iter().any(|(_, other)| *other == known);
    standing.over = KNOWN_MISSES.iter().filter(|known| known.claim == claim.id && !met(known)).collect();
    standing
}
