//! B8: the spread of erase counts against the gap of static wear levelling, with a host that never pauses and with one that does.
//!
//! One die. A fifth of the pages is overwritten at random, the rest is static. Without levelling, only the blocks of that fifth would wear. A block
//! is due when it lags by more than the gap, which is detected at an erase, and it is moved one erase later: so the spread may exceed the gap by one.

use super::bench::{Bench, ReproduceError, measure};
use super::collection::DRIVE;
use super::{Check, Limit, Outcome};
use pellucid_lab::experiment::prepare;
use pellucid_report::plot::Unit;

const GAP: u32 = 8;
const BLOCKS: u32 = 128;
const PAGES: u32 = 64;
/// Mean erases of each block, GC copies not counted: several times the gap.
const ROUNDS: u32 = 32;

/// Host behaviours, with the options of the job.
const HOSTS: [(&str, &str); 2] =
    [("64 writes outstanding and no limit", ""), ("150 writes a second", ",rate_iops=150")];

pub(super) fn levelling(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let spreads = bench.map(&HOSTS, |&(_, rate)| spread(bench, rate))?;
    let checks = HOSTS.iter().zip(spreads).map(|(&(host, _), spread)| {
        let what = format!("{host}: most erased block - least erased one, gap {GAP}");
        Check::bound(what, Unit::Plain, spread.into(), Limit::AtMost((GAP + 1).into()))
    });
    Ok(Outcome { checks: checks.collect(), figures: Vec::new() })
}

fn spread(bench: &Bench, rate: &str) -> Result<u32, ReproduceError> {
    let sets = [
        format!("media.blocks={BLOCKS}"),
        format!("media.pages={PAGES}"),
        "ftl.over_provisioning=0.14".into(),
        "ftl.wear.dynamic=true".into(),
        format!("ftl.wear.static_gap={GAP}"),
    ];
    let spec = bench.drive(DRIVE, "the drive of the claim", &sets)?;
    let mut device = prepare(&spec, None)?;
    let count = BLOCKS * PAGES * ROUNDS / bench.shorter();
    let job = format!("rw=randwrite,bs=4k,iodepth=64,size=20%,number_ios={count}{rate}");
    let erases = measure(&mut device, &spec, &job)?.wear.erases;
    Ok(erases.max - erases.min)
}
