//! Sensitivity of S1, S2 and S4: each assumption varied alone. The tables in `docs/explanation/papers/jasmine.md` come from here:
//! `cargo test --release -p pellucid-claims --lib solid_state_cache::variations -- --ignored --nocapture`.

use super::{ASSUMED, Assumptions, CacheStudy, FILESERVER, MODES, System, VARMAIL, gain, saved};
use crate::Bench;
use pellucid_host::CacheMode;
use std::time::Instant;

struct Variation {
    what: &'static str,
    assumed: Assumptions,
}

const fn vary(what: &'static str, assumed: Assumptions) -> Variation {
    Variation { what, assumed }
}

static OF_FILESERVER: &[Variation] = &[
    vary("none", ASSUMED),
    vary("measured earlier: after 60 s", Assumptions { warm_up: 0.3, ..ASSUMED }),
    vary(
        "runs are cleaned 64 blocks at once",
        Assumptions { both: &["host.cache.clean_blocks=64"], ..ASSUMED },
    ),
    vary("8,192 blocks at once", Assumptions { both: &["host.cache.clean_blocks=8192"], ..ASSUMED }),
    vary("clock", Assumptions { both: &["host.cache.replacement=clock"], ..ASSUMED }),
    vary("streams of 256 KiB go past", Assumptions { both: &["host.cache.sequential=256KiB"], ..ASSUMED }),
    vary("no stream goes past", Assumptions { both: &["host.cache.sequential=0"], ..ASSUMED }),
    vary("sectors and records of 512 bytes", Assumptions { both: &["media.sector_size=512"], ..ASSUMED }),
    vary("a queue for each bank", Assumptions { both: &["scheduler.order=fifo"], ..ASSUMED }),
    vary("page cache of 64 MiB", Assumptions { page_cache: 64, ..ASSUMED }),
    vary("files fill 3/2 of the cache", Assumptions { files: 2.0, ..ASSUMED }),
    vary(
        "lists in last pages",
        Assumptions { namespace: Some("checkpoint = \"on-flush\", log = \"last-page\""), ..ASSUMED },
    ),
    vary(
        "a flush reaches the disk below the SSC",
        Assumptions { ssc: &["host.cache.flushes=both"], ..ASSUMED },
    ),
    vary(
        "a flush reaches both drives in both systems",
        Assumptions { both: &["host.cache.flushes=both"], ..ASSUMED },
    ),
];

static OF_VARMAIL: &[Variation] = &[
    vary("none", ASSUMED),
    vary("sectors and records of 512 bytes", Assumptions { both: &["media.sector_size=512"], ..ASSUMED }),
    vary(
        "the table is written as it rolls",
        Assumptions { namespace: Some("checkpoint = \"rolling\""), ..ASSUMED },
    ),
    vary("no flush reaches the SSC", Assumptions { ssc: &["host.cache.flushes=none"], ..ASSUMED }),
    vary(
        "a flush reaches the disk below the SSC",
        Assumptions { ssc: &["host.cache.flushes=both"], ..ASSUMED },
    ),
    vary(
        "a flush reaches both drives in both systems",
        Assumptions { both: &["host.cache.flushes=both"], ..ASSUMED },
    ),
    vary("a queue for each bank", Assumptions { both: &["scheduler.order=fifo"], ..ASSUMED }),
    vary("page cache of 64 MiB", Assumptions { page_cache: 64, ..ASSUMED }),
];

/// Factor by which studies are shorter than in `pellucid reproduce`, unless the environment says otherwise (`SHORTER=1`). Erase blocks are smaller by
/// the same factor, so the drive needs more spare space.
const SHORTER: u32 = 4;
const SPARE: &str = "ftl.over_provisioning=0.17";

#[allow(clippy::print_stdout, reason = "its output is what it is for")]
fn table(set: usize, variations: &[Variation]) {
    let shorter = std::env::var("SHORTER").ok().and_then(|word| word.parse().ok()).unwrap_or(SHORTER);
    let only = std::env::var("ONLY").unwrap_or_default();
    for Variation { what, assumed } in variations.iter().filter(|row| row.what.contains(&only)) {
        let began = Instant::now();
        let spare = if shorter > 1 { vec![SPARE.to_string()] } else { Vec::new() };
        let bench = Bench::of_test(shorter, spare);
        let study = CacheStudy::assuming(&bench, set, assumed).unwrap_or_else(|e| panic!("{what}: {e}"));
        let [back, through] = MODES.map(|mode| (gain(&study, mode), saved(&study, mode)));
        let ssd = study.of(System::Ssd(CacheMode::WriteBack));
        assert!(back.0.is_finite() && through.0.is_finite(), "{what}: nothing was done");
        println!(
            "{what:45} {:+5.0} %; {:+5.0} %   erases saved {:3.0} %; {:3.0} %   SSD {:6.0} op/s, hits {:3.0} %   {:3.0} s",
            100.0 * back.0,
            100.0 * through.0,
            100.0 * back.1,
            100.0 * through.1,
            ssd.operations_per_second,
            100.0 * ssd.hit_ratio,
            began.elapsed().as_secs_f64(),
        );
    }
}

#[test]
#[ignore = "minutes: it prints the table of the document"]
fn what_each_assumption_moves_of_fileserver() {
    table(FILESERVER, OF_FILESERVER);
}

#[test]
#[ignore = "minutes: it prints the table of the document"]
fn what_each_assumption_moves_of_varmail() {
    table(VARMAIL, OF_VARMAIL);
}
