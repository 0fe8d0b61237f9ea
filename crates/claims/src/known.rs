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
        claim: "S1",
        check: "fileserver, write-back: SSC over SSD",
        reason: "FlashCache's own cleaner falls behind, and the cache is nearly full of dirty blocks, of which none can be evicted; where it keeps up \
                 the solid-state cache gains too much",
    },
    KnownMiss { claim: "S1", check: "fileserver, write-through: SSC over SSD", reason: "not established" },
    KnownMiss {
        claim: "S2",
        check: "fileserver, write-back: erases saved for an operation",
        reason: "as S1: dirty blocks are copied by both",
    },
    KnownMiss {
        claim: "S2",
        check: "fileserver, write-through: erases saved for an operation",
        reason: "what the cache takes in has to be erased",
    },
    KnownMiss {
        claim: "S4",
        check: "varmail, write-back: SSC over SSD",
        reason: "each commit waits for two checkpoints of the solid-state cache, and for nothing under FlashCache, which refuses barriers; if \
                 no flush reaches either the gain is positive",
    },
    KnownMiss {
        claim: "N2",
        check: "sequential write, nameless / baseline",
        reason: "requests of the split FTL are whole flash pages, and those of the baseline are not; with requests of 32 KB the baseline is as fast",
    },
    KnownMiss {
        claim: "N2",
        check: "random write of nameless / sequential write of the baseline",
        reason: "writes that wait fill every page here; the paper finds its requests smaller than a page and does not say why",
    },
    KnownMiss {
        claim: "C6",
        check: "MLC write, 64 outstanding",
        reason: "no mechanism is known for 16.6 us of the storage controller's time in an MLC write, and 64 of them wait too little for \
                 slow devices",
    },
    KnownMiss {
        claim: "C6",
        check: "system latency, root mean square error of 16",
        reason: "the same 16.6 us are in four of the 16 latencies",
    },
    KnownMiss {
        claim: "C6",
        check: "MLC write, 1 outstanding, storage controller beyond bus and array: unexplained",
        reason: "nothing in the public firmware or the paper takes this time",
    },
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
    KnownMiss {
        claim: "P3",
        check: "throughput, sets only, Raw over Policy",
        reason: "the split of Raw over Original (29.6 of 27.6 %) between the two: here the server's one core is the bound of Original alone, which pays the kernel for each KiB that it copies, so copies cost Policy too little; not established what bounds the paper's",
    },
    KnownMiss {
        claim: "P3",
        check: "throughput, sets only, Policy over Original",
        reason: "the split of Raw over Original (29.6 of 27.6 %) between the two: here the server's one core is the bound of Original alone, which pays the kernel for each KiB that it copies, so copies cost Policy too little; not established what bounds the paper's",
    },
    KnownMiss {
        claim: "P3",
        check: "throughput, sets only, Function / Raw",
        reason: "both levels cost the same calls here, and both do the same: the paper does not say what Function pays for",
    },
    KnownMiss {
        claim: "P4",
        check: "mean latency, sets only, Raw / Function",
        reason: "as in P3: both levels cost the same calls here, and both do the same: the paper does not say what Function pays for",
    },
    KnownMiss {
        claim: "P5",
        check: "page copies, Original's drive / its key-value copies",
        reason: "not established; the order in which slabs of several classes die, and the simulator's allocation, are not known, and with less spare space the drive copies more",
    },
    KnownMiss {
        claim: "U1",
        check: "fileserver, ULFS-Prism / ULFS-SSD",
        reason: "slower by 2 %: the length of ULFS-SSD's segments decides, which the paper does not give; with 1 MiB ULFS-Prism is faster by 10 %",
    },
    KnownMiss {
        claim: "U2",
        check: "file copies, ULFS-Prism / ULFS-SSD",
        reason: "ULFS-Prism has a segment open in each of 12 channels, so files of one age lie in more segments and die less together; with segments \
                 of 1 MiB in ULFS-SSD the ratio is 0.71",
    },
    KnownMiss {
        claim: "U2",
        check: "flash copies / file copies, ULFS-SSD",
        reason: "a segment is as long as a flash block and striped over 12 of them, so each holds pieces of many segments, and the drive copies \
                 nearly as under random writes; with segments of 1 and 3 MiB 2.8 and 1.3; the paper does not say how long its segments are",
    },
    KnownMiss {
        claim: "U2",
        check: "flash copies, MIT-XMP / ULFS-SSD",
        reason: "ULFS-SSD's drive copies too much, as above",
    },
    KnownMiss { claim: "U2", check: "erases, ULFS-SSD / ULFS-Prism", reason: "the same copies" },
    KnownMiss {
        claim: "U2",
        check: "erases, MIT-XMP / ULFS-Prism",
        reason: "in place, files stay in a dense part of the addresses, and the rest is spare space, so the drive copies little; the paper does not say \
                 how full its file systems were",
    },
];

impl KnownMiss {
    fn is_of(&self, claim: &Claim, check: &Check) -> bool {
        // What decides nothing cannot miss.
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
    /// The claim's verdict, and whether it was known.
    pub fn word(&self, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Misses if self.unknown.is_empty() => "misses, known",
            other => other.name(),
        }
    }
}

/// Compares an outcome with [`KNOWN_MISSES`].
pub fn standing<'a>(claim: &Claim, outcome: &'a Outcome) -> Standing<'a> {
    let mut standing = Standing::default();
    for check in outcome.checks.iter().filter(|check| check.verdict() != Verdict::Holds) {
        match KNOWN_MISSES.iter().find(|known| known.is_of(claim, check)) {
            Some(known) => standing.known.push((check, known)),
            None => standing.unknown.push(check),
        }
    }
    let met = |known: &KnownMiss| standing.known.iter().any(|(_, other)| *other == known);
    standing.over = KNOWN_MISSES.iter().filter(|known| known.claim == claim.id && !met(known)).collect();
    standing
}
