//! Known misses, each with its reason; any other miss is news.
//!
//! Invariants: every entry names a claim and is explained in `docs/explanation/reproduce.md`. Every run with the standard seed and presets reports an
//! entry whose check holds again; the entry must then be removed.

use super::{Check, Claim, Limit, Outcome, Verdict};

/// A check of a claim that is known not to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMiss {
    /// The claim's identifier.
    pub claim: &'static str,
    /// Prefix of the check's text.
    pub check: &'static str,
    /// Why it does not hold.
    pub reason: &'static str,
}

/// All known misses.
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
        // A check without a limit cannot miss.
        self.claim == claim.id && check.limit != Limit::Shown && check.what.starts_with(self.check)
    }
}

/// Outcome of a claim, compared with the known misses.
#[derive(Clone, Debug, Default)]
pub struct Standing<'a> {
    /// Checks that are known not to hold.
    pub known: Vec<(&'a Check, &'static KnownMiss)>,
    /// Checks that unexpectedly do not hold.
    pub unknown: Vec<&'a Check>,
    /// Known misses all of whose checks hold: they must leave the table.
    pub over: Vec<&'static KnownMiss>,
}

impl Standing<'_> {
    /// The outcome's verdict, whether a miss was known, and whether a number in its range reverses the paper's order.
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
