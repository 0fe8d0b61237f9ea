//! Work before the measurement, which reports leave out.

use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs};
use pellucid_report::Report;
use pellucid_testing::swarm::TINY;

fn run(job: &str) -> Report {
    let text = format!("{TINY}[precondition]\nfill = 1.0\n[[job]]\n{job}\n");
    // A buffer that does not hold the whole drive, and writes that take time.
    let sets = ["buffer.entries=8".to_string(), "host.link_rate=\"1GB/s\"".into()];
    let spec = pellucid_spec::from_str(&text, "ramp", &sets).unwrap_or_else(|e| panic!("{e}"));
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1
}

/// Requests of the warm-up are left out of the time too, and of every other count.
#[test]
fn a_warm_up_is_no_part_of_the_measurement() {
    let writes = "rw = 'randwrite'\nbs = '4k'\niodepth = 4\nruntime = '2s'";
    let (plain, warm) = (run(writes), run(&format!("{writes}\nramp_time = '3s'\nstartdelay = '1s'")));
    assert!((warm.simulated_seconds - 2.0).abs() < 0.02, "{}", warm.simulated_seconds);
    let rate = |report: &Report| report.directions.write.iops;
    assert!((rate(&warm) / rate(&plain) - 1.0).abs() < 0.1, "{} and {}", rate(&warm), rate(&plain));
    let bytes = warm.directions.write.bytes as f64 / warm.write_amplification.host_written_bytes as f64;
    assert!((bytes - 1.0).abs() < 0.01, "{bytes}: the drive's counters begin when those of the host do");
    let busy = |report: &Report| report.utilisation.mean_die().unwrap();
    assert!((busy(&warm) / busy(&plain) - 1.0).abs() < 0.1, "{} and {}", busy(&warm), busy(&plain));
    let collected = warm.gc.copied_units as f64 / plain.gc.copied_units as f64;
    assert!((0.7..1.4).contains(&collected), "{collected}");
    assert!(warm.series.write.bytes.iter().sum::<u64>() == warm.directions.write.bytes);
}
