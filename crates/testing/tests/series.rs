//! The run over time adds up to the run as a whole.

use pellucid_flash::Stage;
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_report::{Report, Series, render_text};

/// Programs take several intervals of the series, and so do transfers.
const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 2
planes = 1
blocks = 24
pages = 16
page_size = "4KiB"
spare_size = 256
sector_size = 512
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "50us"
program = "1500us"
erase = "3ms"
channel_rate = "10MB/s"
[drive.ftl]
over_provisioning = 0.35
[drive.buffer]
entries = 32
"#;

fn run(job: &str) -> Report {
    run_on(job, &[])
}

fn run_on(job: &str, sets: &[String]) -> Report {
    let mut spec = pellucid_spec::from_str(DRIVE, "series", sets).unwrap_or_else(|e| panic!("{e}"));
    spec.jobs = vec![parse_job(job, "test")];
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1
}

/// The mean of a column over the run.
fn mean(series: &Series, column: &[f64]) -> f64 {
    let seconds: f64 = series.length_seconds.iter().sum();
    series.length_seconds.iter().zip(column).map(|(length, share)| length * share).sum::<f64>() / seconds
}

#[test]
fn busy_shares_of_intervals_are_shares_and_sum_to_those_of_the_run() {
    for job in [
        "rw=randwrite,bs=4k,number_ios=400,iodepth=64",
        "rw=randwrite,bs=4k,number_ios=40,rate_iops=100,end_fsync=1",
        "rw=randrw,bs=4k,number_ios=300,iodepth=4,ramp_time=20ms",
    ] {
        let report = run(job);
        let (series, whole) = (&report.series, &report.utilisation);
        for column in [&series.die_busy_share, &series.channel_busy_share] {
            assert!(column.iter().all(|share| (0.0..=1.0).contains(share)), "{job}: {column:?}");
        }
        let dies: Vec<f64> = whole.dies.iter().flatten().copied().collect();
        let die_mean = dies.iter().sum::<f64>() / dies.len() as f64;
        assert!((mean(series, &series.die_busy_share) - die_mean).abs() < 1e-9, "{job}: {die_mean}");
        let channel_mean = whole.channels.iter().sum::<f64>() / whole.channels.len() as f64;
        let difference = channel_mean - mean(series, &series.channel_busy_share);
        assert!(difference.abs() < 1e-9, "{job}: {channel_mean}, {difference}");
    }
}

/// A pause after the last request is no part of the measurement, and what the drive does in it is not counted.
#[test]
fn the_run_ends_with_the_last_completion_whatever_pause_follows() {
    for job in [
        "rw=randwrite,bs=16k,number_ios=5,rate_iops=10",
        "rw=randwrite,bs=4k,number_ios=100,iodepth=8,rate_iops=1000",
        "rw=write,bs=64k,number_ios=60,thinktime=10ms,thinktime_blocks=20",
        "rw=randwrite,bs=4k,rate_iops=10,runtime=950ms,time_based=1",
        "rw=randwrite,bs=4k,thinktime=100ms,thinktime_blocks=1,runtime=950ms,time_based=1",
        "rw=randwrite,bs=4k,thinktime=100ms,thinktime_blocks=1,number_ios=3,end_fsync=1",
    ] {
        let report = run(job);
        let seconds: f64 = report.series.length_seconds.iter().sum();
        assert!((seconds - report.simulated_seconds).abs() < 1e-9, "{job}: {seconds}, {report:?}");
        let last = report.jobs[0].time.end_seconds;
        assert!((last - report.simulated_seconds).abs() < 1e-12, "{job}: {last}");
        let die_mean = report.utilisation.dies.iter().flatten().sum::<f64>() / 4.0;
        let difference = die_mean - mean(&report.series, &report.series.die_busy_share);
        assert!(difference.abs() < 1e-9, "{job}: {die_mean}, {difference}");
    }
}

/// A write-back write that finds no vacant entry waits for the program that frees one. That is a stall, though its stages are the program's.
#[test]
fn a_wait_for_an_entry_is_a_stall_whatever_stages_it_has() {
    for retain in [false, true] {
        let sets = ["buffer.entries=8".to_string(), format!("buffer.retain={retain}")];
        let report = run_on("rw=randwrite,bs=4k,number_ios=400,iodepth=1", &sets);
        let stalled: u64 = report.series.write.stall_ns.iter().sum();
        let write = &report.directions.write;
        let latency = write.latency.mean_ns.expect("it writes") * write.requests as f64;
        // What is no stall is the link and the firmware, and neither takes time here.
        assert!(
            stalled as f64 > 0.99 * latency && stalled as f64 <= latency * 1.0001,
            "{stalled} of {latency}"
        );
        assert!(
            write.stage_ns[Stage::Media] > 0,
            "the wait has the stages of the program: {:?}",
            write.stage_ns
        );
    }
    let apart = run_on("rw=randwrite,bs=4k,number_ios=20,iodepth=1", &[]);
    assert_eq!(apart.series.write.stall_ns.iter().sum::<u64>(), 0, "there are 32 entries");
}

/// A controller that polls decides ahead which transfer comes next, so an interval may end before a transfer that is booked begins.
#[test]
fn busy_shares_are_shares_where_the_controller_polls_and_the_work_is_paced() {
    for (drive, job) in [
        ("jasmine", "rw=randwrite,bs=4k,number_ios=200,rate_iops=100"),
        ("jasmine", "rw=write,bs=32k,number_ios=100,thinktime=20ms"),
        ("jasmine", "rw=randwrite,bs=4k,number_ios=2"),
        ("jasmine-optimized", "rw=randwrite,bs=4k,number_ios=40,rate_iops=1"),
    ] {
        let mut spec = pellucid_spec::load(drive, &[]).unwrap_or_else(|e| panic!("{e}"));
        spec.jobs = vec![parse_job(job, "test")];
        let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
        let report = execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1;
        for column in [&report.series.die_busy_share, &report.series.channel_busy_share] {
            assert!(column.iter().all(|share| (0.0..=1.0).contains(share)), "{drive}, {job}: {column:?}");
            assert!(column.iter().any(|share| *share > 0.0), "{drive}, {job}");
        }
    }
}

/// Trims are requests of a direction of their own, which the series does not show, however much they name.
#[test]
fn trims_are_no_writes_of_the_series() {
    for job in
        ["rw=randtrimwrite,bs=4k,number_ios=200", "rw=trim,bs=1m,number_ios=3", "rw=write,bs=1m,number_ios=2"]
    {
        let report = run(job);
        let (series, whole) = (&report.series.write, &report.directions.write);
        assert_eq!(series.requests.iter().sum::<u64>(), whole.latency.count, "{job}");
        assert_eq!(series.bytes.iter().sum::<u64>(), whole.bytes, "{job}");
        assert_eq!(series.max_ns.iter().flatten().max().copied(), whole.latency.max_ns, "{job}");
    }
}

/// Work of the drive after the last completion belongs to no measurement.
#[test]
fn the_state_of_blocks_is_that_of_the_last_completion() {
    let report = run("rw=randwrite,bs=4k,number_ios=6000,iodepth=64");
    let erased = report.gc.erased_blocks.total();
    assert!(erased > 0, "it collects");
    assert_eq!(report.wear.erases.total, erased, "the drive was new");
    assert_eq!(report.series.free_blocks.last(), Some(&report.wear.free_blocks));
}

/// Only this tells the end of a drive's life from other failing writes.
#[test]
fn the_end_of_life_is_told() {
    let job = "rw=randwrite,bs=4k,number_ios=6000,iodepth=4";
    assert!(!run(job).wear.read_only);
    let report = run_on(job, &["media.endurance=3".into()]);
    assert!(report.wear.read_only && report.directions.write.errors > 0);
    let text = render_text(&report, 200);
    assert!(text.contains("read-only: too few good blocks are left"), "{text}");
}

#[test]
fn a_run_that_ends_within_its_warm_up_is_refused() {
    let mut spec = pellucid_spec::from_str(DRIVE, "series", &[]).unwrap_or_else(|e| panic!("{e}"));
    spec.jobs = vec![parse_job("rw=randwrite,bs=4k,number_ios=100,iodepth=4,ramp_time=100s", "test")];
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    let Err(error) = execute(&spec, &jobs, &|| 0.0, &mut Unwatched) else { panic!("nothing was measured") };
    assert!(error.to_string().starts_with("nothing was measured: 100 requests were done"), "{error}");
}
