//! Drives whose controllers are as Jasmine's: dies take operations in the order of all of them, writes go to the die of their address, and
//! the buffer is first in, first out. Random and damaged drives, with power cuts, beside the oracle.

use pellucid_testing::swarm;

const LIKE_JASMINE: [&str; 7] = [
    "scheduler.order=in-order",
    "scheduler.suspend=false",
    "firmware.model=tasks",
    "media.independent_plane_reads=false",
    "buffer.fifo=true",
    "buffer.retain=false",
    "buffer.dirty_high=0.0",
];

#[test]
fn a_controller_in_order_never_returns_a_wrong_sector() {
    for placement in ["ftl.placement=address", "ftl.placement=channel-first"] {
        let sets: Vec<&str> = LIKE_JASMINE.into_iter().chain([placement]).collect();
        let tried = (0..120).filter(|&seed| swarm::run_harder_seed_with(seed, &sets, 800)).count();
        assert!(tried > 60, "{placement}: {tried} of 120 drives");
    }
}

#[test]
fn no_write_waits_for_ever_behind_one_that_nothing_sends_to_the_media() {
    for placement in ["ftl.placement=address", "ftl.placement=channel-first"] {
        let sets: Vec<&str> = LIKE_JASMINE.into_iter().chain([placement]).collect();
        // A drive whose media are healthy never becomes read-only: this is what a wait without an end would come to.
        let tried = (0..120).filter(|&seed| swarm::run_seed_with(seed, &sets, 800)).count();
        assert!(tried > 60, "{placement}: {tried} of 120 drives");
    }
}
