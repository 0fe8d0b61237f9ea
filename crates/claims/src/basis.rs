//! Which claims are predictions: what was set in sight of the published numbers, claim by claim.
//!
//! Invariants: every claim has exactly one entry, and the table of `docs/explanation/reproduce.md` is this one.

use super::Claim;

/// Worth of a claim that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// No constant or assumption was set in sight of its numbers.
    Prediction,
    /// No constant was set to its numbers, but they were known when mechanisms or assumptions were chosen.
    Seen,
    /// Some of its numbers set constants; the others follow.
    Partly,
    /// Its numbers set constants: that it holds says nothing.
    Fitted,
    /// It has no constants: a rule, a count, or a closed form.
    Exact,
}

impl Basis {
    /// Word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Prediction => "prediction",
            Basis::Seen => "seen",
            Basis::Partly => "partly fitted",
            Basis::Fitted => "fitted",
            Basis::Exact => "exact",
        }
    }
}

/// Identifier, basis, and what was set or seen.
static BASES: &[(&str, Basis, &str)] = &[
    ("C1", Basis::Seen, "known when the model was chosen; its constants are those of C6"),
    ("C2", Basis::Seen, "as C1"),
    ("C3", Basis::Prediction, "follows from constants fitted to C6"),
    ("C4", Basis::Prediction, "as C3"),
    ("C5", Basis::Seen, "as C1"),
    (
        "C6",
        Basis::Fitted,
        "ten constants to the visible columns of Table 7; 16.6 us of an MLC write are left unexplained",
    ),
    ("C7", Basis::Partly, "growth from 1 to 4 outstanding is Table 7's; 8 and 64 follow"),
    ("C8", Basis::Prediction, "as C3"),
    ("C9", Basis::Seen, "as C1"),
    (
        "C10",
        Basis::Partly,
        "the weight of interference to the 13.7 % at 5,000 cycles; few cycles and pattern 11-00 follow",
    ),
    ("C11", Basis::Prediction, "follows from the code and the constants of C6"),
    ("C12", Basis::Prediction, "published program time; as C3"),
    ("C13", Basis::Prediction, "as C3, with pblk's settings of the paper"),
    ("C14", Basis::Prediction, "as C13"),
    (
        "L1",
        Basis::Seen,
        "the write buffer of the block drive is assumed, and decides how its percentiles rise",
    ),
    ("L2", Basis::Exact, "a conformance suite"),
    ("B1", Basis::Exact, "closed form"),
    (
        "B2",
        Basis::Partly,
        "bytes of small objects and over-provisioning to the two mixed figures; apart follows",
    ),
    ("B3", Basis::Prediction, "suspensions are fitted to other measurements"),
    ("B4", Basis::Exact, "closed form"),
    ("B5", Basis::Exact, "closed forms, and a plain simulation"),
    ("B6", Basis::Exact, "counts of the algorithms"),
    (
        "B7",
        Basis::Partly,
        "latency of the controllers, decoding and programs to some rows of the data sheets",
    ),
    ("B8", Basis::Exact, "the gap that is set"),
    ("P1", Basis::Partly, "scale and shape of the popularity to the two static ends; dynamic ends follow"),
    (
        "P2",
        Basis::Seen,
        "cost of the kernel's path, LUNs, clients and memory were chosen in sight of results",
    ),
    ("P3", Basis::Seen, "as P2; range over the LUNs of the flash"),
    ("P4", Basis::Seen, "as P2; range over the LUNs of the flash"),
    (
        "P5",
        Basis::Partly,
        "deviation of the law of keys to Original's copies; range over the LUNs of the flash",
    ),
    ("P6", Basis::Exact, "counted lines"),
    ("U1", Basis::Seen, "scale and number of blocks; range over segments and fill"),
    ("U2", Basis::Seen, "as U1"),
    ("G1", Basis::Partly, "cost of an edge to the published percentages"),
    (
        "J1",
        Basis::Partly,
        "program time to 32 KB, filled share to 4 KB, page cache and largest request to sizes of requests; other rows follow",
    ),
    ("J2", Basis::Prediction, "follows from J1"),
    ("J3", Basis::Partly, "two costs of the read buffer to its two ratios; rates of the baseline follow"),
    ("S1", Basis::Seen, "mechanisms by source, sizes ours; range over cleaner and files"),
    ("S2", Basis::Seen, "as S1"),
    ("S3", Basis::Seen, "as S1; firmware alone decides it"),
    ("S4", Basis::Seen, "as S1; range over what a flush reaches"),
    ("N1", Basis::Seen, "runs in the map of virtual sectors came after a miss was known"),
    ("N2", Basis::Prediction, "constants of J1 and J3; range over the writes that wait"),
    ("F1", Basis::Fitted, "share of small writes that go anywhere to Table 3"),
    ("F2", Basis::Prediction, "volume of F1; number of log blocks assumed"),
    ("F3", Basis::Partly, "time of a page was looked for after browsing had missed; the others follow"),
    ("F4", Basis::Prediction, "as F2"),
    ("F5", Basis::Partly, "buffer of SSD-5 chosen by outcome; the others follow"),
    ("F6", Basis::Prediction, "as F2"),
];

impl Claim {
    /// Worth of a result of this claim, and what was set or seen.
    pub fn basis(&self) -> (Basis, &'static str) {
        let found = BASES.iter().find(|(id, ..)| *id == self.id);
        found.map(|&(_, basis, why)| (basis, why)).expect("every claim has a basis, as a test says")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;

    #[test]
    fn every_claim_has_one_basis() {
        let ids: Vec<&str> = claims().iter().map(|claim| claim.id).collect();
        let mut with: Vec<&str> = BASES.iter().map(|(id, ..)| *id).collect();
        assert_eq!(with.len(), ids.len());
        with.retain(|id| !ids.contains(id));
        assert!(with.is_empty(), "no such claims: {with:?}");
        claims().iter().for_each(|claim| assert!(!claim.basis().1.is_empty()));
    }

    /// The table of the page is this one, in the order of the claims.
    #[test]
    fn the_page_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/reproduce.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let row =
            |claim: &Claim| format!("| {} | {} | {} |\n", claim.id, claim.basis().0.name(), claim.basis().1);
        let table: String = claims().iter().map(row).collect();
        assert!(page.contains(&table), "docs/explanation/reproduce.md needs these rows:\n{table}");
    }
}
