//! Same inputs, same bits: reports of two runs, and a clone against the drive that it was taken from.

use pellucid_flash::Rng;
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment;
use pellucid_testing::swarm::{Swarm, TINY, random_sets, tiny};

const JOB: &str = r#"
[[job]]
rw = "randrw"
bs = "4k"
iodepth = 8
number_ios = 2000
"#;

fn report(seed: u32) -> String {
    let sets = [
        format!("run.seed={seed}"),
        "media.faults.read_fail=0.01".into(),
        "media.timing.op_spread=0.1".into(),
    ];
    let spec =
        pellucid_spec::from_str(&format!("{TINY}{JOB}"), "tiny", &sets).unwrap_or_else(|e| panic!("{e}"));
    let jobs = experiment::jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    let (_, report) =
        experiment::execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    report.to_json(false)
}

#[test]
fn two_runs_give_the_same_report() {
    let first = report(1);
    assert!(first == report(1), "two runs of one description differ");
    assert!(first != report(2), "the seed of the workload does nothing");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_clone_continues_like_its_original() {
    for seed in 0..40 {
        let mut rng = Rng::stream(seed, "drive");
        let mut swarm = Swarm::new(&tiny(&random_sets(&mut rng)), seed);
        let go = |swarm: &mut Swarm, commands| {
            for _ in 0..commands {
                if swarm.device.is_read_only() {
                    break;
                }
                swarm.submit();
                while swarm.in_flight() >= 8 {
                    assert!(swarm.step(), "seed {seed}: commands in flight and nothing happens");
                }
            }
        };
        go(&mut swarm, 300);
        // In the middle of things, with commands in flight.
        let mut other = swarm.clone();
        go(&mut swarm, 300);
        go(&mut other, 300);
        assert_eq!(swarm.completed, other.completed, "seed {seed}: completions");
        assert_eq!(swarm.device.now(), other.device.now(), "seed {seed}: clocks");
        // What reports have of it is no matter of what an allocator gave.
        let tables = ["mapping table", "block tables", "namespaces"];
        let memory = |swarm: &Swarm| -> Vec<_> {
            swarm.device.memory_bytes().into_iter().filter(|(part, _)| tables.contains(part)).collect()
        };
        assert!(memory(&swarm).len() == tables.len());
        assert_eq!(memory(&swarm), memory(&other), "seed {seed}: memory");
        assert!(format!("{swarm:?}") == format!("{other:?}"), "seed {seed}: states differ");
    }
}
