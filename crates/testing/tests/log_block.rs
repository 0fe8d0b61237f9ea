//! Log-block hybrids (`ftl.map = "bast"`, `"fast"`) as drives: nothing is lost at power cuts, with failures, on random drives; and merges are
//! those that the pattern of writes asks for.

use pellucid_ftl::MergeKind;
use pellucid_testing::swarm;
use pellucid_testing::swarm::Swarm;

const MAPS: [&str; 2] = ["ftl.map=bast", "ftl.map=fast"];

/// Cuts a clone of the drive at every event of a short history, which has full merges.
fn cut_everywhere(sets: &[&str], seed: u64, commands: u32, depth: u32) -> u32 {
    let (swarm, cuts) = Swarm::cut_at_every_event(sets, seed, commands, depth);
    let merges = swarm.device.ftl_counters().merges;
    assert!(merges[MergeKind::Full as usize].merges > 0, "{merges:?}");
    cuts
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn log_blocks_survive_a_cut_at_every_event() {
    for map in MAPS {
        for (seed, buffer) in [
            (31, ["buffer.write=write-back", "buffer.entries=8"]),
            (32, ["buffer.write=write-through", "buffer.entries=16"]),
        ] {
            let sets = [map, "ftl.log_blocks=2", "media.blocks=24", "ftl.over_provisioning=1.2"];
            let cuts = cut_everywhere(&[&sets[..], &buffer[..]].concat(), seed, 300, 6);
            assert!(cuts > 300, "{cuts} cuts");
        }
    }
}

/// Superpages of several units: streams of log blocks share the queues of the packer.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn superpages_of_several_units_survive_a_cut_at_every_event() {
    for map in MAPS {
        let sets = [
            map,
            "ftl.log_blocks=2",
            "media.channels=1",
            "media.planes=2",
            "media.multi_plane=true",
            "media.unit_size=2048",
            "media.blocks=20",
            "ftl.over_provisioning=1.5",
            "ftl.gc_parallel=3",
            "buffer.entries=16",
            "buffer.write=write-back",
        ];
        let cuts = cut_everywhere(&sets, 33, 300, 8);
        assert!(cuts > 300, "{cuts} cuts");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn failures_and_cuts_together_lose_nothing_durable() {
    for map in MAPS {
        let sets = [
            map,
            "ftl.log_blocks=2",
            "media.blocks=48",
            "ftl.over_provisioning=1.5",
            "media.faults.program_fail=0.01",
            "media.faults.erase_fail=0.01",
            "buffer.entries=8",
            "buffer.write=write-back",
        ];
        let cuts = cut_everywhere(&sets, 34, 300, 6);
        assert!(cuts > 300, "{cuts} cuts");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_drives_with_log_blocks_never_return_a_wrong_sector() {
    for map in MAPS {
        let run = |&seed: &u64| {
            let log_blocks = ["ftl.log_blocks=1", "ftl.log_blocks=2", "ftl.log_blocks=4"][seed as usize % 3];
            let overrides = [map, log_blocks, "ftl.handles=1"];
            swarm::run_harder_seed_with(seed, &overrides, 1000)
        };
        let ran = (0..30).filter(run).count();
        assert!(ran > 15, "{ran} drives were not refused");
    }
}
