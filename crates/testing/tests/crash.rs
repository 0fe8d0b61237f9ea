//! Power cut at every event of a short history on a tiny drive: flushed and forced data survive, nothing torn or stale
//! comes back, and the drive goes on working.

use pellucid_testing::swarm::Swarm;

/// Cuts a clone of the drive at every event of `commands` commands, with `depth` in flight.
fn cut_everywhere(sets: &[&str], seed: u64, commands: u32, depth: u32) -> u32 {
    Swarm::cut_at_every_event(sets, seed, commands, depth).1
}

const SMALL: &str = "media.blocks=10";

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn write_back_survives_a_cut_at_every_event() {
    let cuts = cut_everywhere(
        &[
            "media.channels=1",
            SMALL,
            "ftl.over_provisioning=1.1",
            "buffer.write=write-back",
            "buffer.entries=8",
        ],
        1,
        700,
        6,
    );
    assert!(cuts > 700, "{cuts} cuts");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn write_through_survives_a_cut_at_every_event() {
    let cuts = cut_everywhere(
        &[
            "media.channels=1",
            SMALL,
            "ftl.over_provisioning=1.1",
            "buffer.write=write-through",
            "buffer.entries=8",
        ],
        2,
        700,
        6,
    );
    assert!(cuts > 700, "{cuts} cuts");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn packed_superpages_and_separate_streams_survive_a_cut_at_every_event() {
    let sets = [
        "media.channels=1",
        "media.planes=2",
        "media.multi_plane=true",
        "media.unit_size=2048",
        "media.blocks=16",
        "ftl.over_provisioning=1.2",
        "ftl.separation=gc-copies",
        "ftl.gc_low=2",
        "buffer.entries=16",
        "buffer.write=write-back",
    ];
    let cuts = cut_everywhere(&sets, 3, 700, 8);
    assert!(cuts > 700, "{cuts} cuts");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn faults_and_cuts_together_lose_nothing_durable() {
    let sets = [
        "media.blocks=40",
        "ftl.over_provisioning=1.1",
        "media.faults.program_fail=0.01",
        "media.faults.erase_fail=0.01",
        "buffer.entries=8",
        "buffer.write=write-back",
    ];
    let cuts = cut_everywhere(&sets, 4, 500, 6);
    assert!(cuts > 400, "{cuts} cuts");
}

#[test]
fn placement_handles_survive_a_cut_at_every_event() {
    for isolation in ["ftl.isolation=initial", "ftl.isolation=persistent"] {
        let sets = [
            "media.channels=1",
            "media.blocks=20",
            "ftl.over_provisioning=2.0",
            "ftl.handles=3",
            isolation,
            "buffer.entries=8",
        ];
        let cuts = cut_everywhere(&sets, 9, 400, 6);
        assert!(cuts > 400, "{cuts} cuts");
    }
}
