//! Jobs that wait for others begin, whatever those others have outstanding; and each has a result of its own, over its own time.

use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_report::{Direction, JobResult, Report, Requests};
use pellucid_testing::swarm::TINY;

/// Reads and writes of all jobs, or why the run cannot be done.
fn run(descriptions: &[&str]) -> Result<(u64, u64), String> {
    let report = report(descriptions, &[])?;
    Ok((report.directions.read.requests, report.directions.write.requests))
}

fn report(descriptions: &[&str], sets: &[&str]) -> Result<Report, String> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let mut spec = pellucid_spec::from_str(TINY, "tiny", &sets).unwrap_or_else(|e| panic!("{e}"));
    spec.jobs = descriptions.iter().map(|job| parse_job(job, "test")).collect();
    let jobs = jobs(&spec).map_err(|e| e.to_string())?;
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).map(|(_, report)| report).map_err(|e| e.to_string())
}

/// On a full drive whose requests take time.
fn on_full_drive(descriptions: &[&str]) -> Report {
    let sets = ["precondition.fill=1.0", "buffer.entries=8", "host.link_rate=\"1GB/s\""];
    report(descriptions, &sets).unwrap_or_else(|e| panic!("{e}"))
}

/// Sums over jobs and over groups are the whole; rates are those of the time that is told.
fn check(report: &Report) {
    let all = report.all_requests();
    let jobs: Vec<&Requests> = report.jobs.iter().map(|job| &job.requests).collect();
    let groups: Vec<&Requests> = report.groups.iter().map(|group| &group.requests).collect();
    for parts in [&jobs, &groups] {
        assert_eq!(parts.iter().map(|part| part.requests).sum::<u64>(), all.requests);
        for direction in 0..4 {
            let sum = |of: fn(&Direction) -> u64| {
                let each = parts.iter().map(|part| of(part.directions.named()[direction].1));
                (each.sum::<u64>(), of(all.directions.named()[direction].1))
            };
            for (sum, whole) in [
                sum(|d| d.requests),
                sum(|d| d.bytes),
                sum(|d| d.errors),
                sum(|d| d.latency.count),
                sum(|d| d.stage_ns.total()),
            ] {
                assert_eq!(sum, whole);
            }
        }
    }
    for job in &report.jobs {
        for (_, direction) in job.requests.directions.named() {
            let expected = match job.time.runtime_seconds {
                0.0 => 0.0,
                seconds => (direction.requests - direction.errors) as f64 / seconds,
            };
            assert!((direction.iops - expected).abs() <= expected * 1e-9, "{}", job.name);
        }
        assert!((job.time.end_seconds - job.time.start_seconds - job.time.runtime_seconds).abs() < 1e-9);
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn jobs_one_after_the_other_have_rates_of_their_own() {
    let both = [
        "name=fill,rw=write,bs=4k,number_ios=2000",
        "rw=randread,bs=4k,iodepth=8,stonewall=1,number_ios=3000",
    ];
    let report = on_full_drive(&both);
    check(&report);
    let [first, second] = &report.jobs[..] else { panic!("{} results", report.jobs.len()) };
    assert_eq!((first.name.as_str(), second.name.as_str()), ("fill", "job2"));
    assert_eq!((first.group, second.group, report.groups.len()), (0, 1, 2));
    assert_eq!((first.requests.requests, second.requests.requests), (2000, 3000));
    assert!(close(first.time.start_seconds, 0.0) && close(second.time.start_seconds, first.time.end_seconds));
    assert!(close(second.time.end_seconds, report.simulated_seconds));
    // Alone, each does what it does after the other.
    let alone = |job: &str| on_full_drive(&[job]).directions;
    let (written, read) =
        (alone(both[0]).write.iops, alone("rw=randread,bs=4k,iodepth=8,number_ios=3000").read.iops);
    let of = |job: &JobResult| (job.requests.directions.write.iops, job.requests.directions.read.iops);
    assert!((of(first).0 / written - 1.0).abs() < 0.02, "{} and {written}", of(first).0);
    assert!((of(second).1 / read - 1.0).abs() < 0.1, "{} and {read}", of(second).1);
    assert!(of(first).0 > report.directions.write.iops && of(second).1 > report.directions.read.iops);
}

#[test]
fn jobs_that_overlap_have_each_its_own_time() {
    let report = on_full_drive(&[
        "name=a,rw=randread,bs=4k,runtime=40ms,numjobs=3",
        "name=b,rw=randread,bs=4k,startdelay=20ms,runtime=40ms",
    ]);
    check(&report);
    let [a, b] = &report.jobs[..] else { panic!("{} results", report.jobs.len()) };
    assert_eq!((a.instances, b.instances, report.groups.len()), (3, 1, 1));
    let near = |seconds: f64, expected: f64| (seconds - expected).abs() < 0.001;
    assert!(close(a.time.start_seconds, 0.0) && near(a.time.end_seconds, 0.04), "{:?}", a.time);
    assert!(close(b.time.start_seconds, 0.02) && near(b.time.end_seconds, 0.06), "{:?}", b.time);
    assert!(near(report.groups[0].time.runtime_seconds, 0.06), "{:?}", report.groups[0].time);
    assert!(near(report.simulated_seconds, 0.06));
}

#[test]
fn a_job_of_which_nothing_counts_has_zeros() {
    let report = on_full_drive(&[
        "name=a,rw=randread,number_ios=100",
        "name=b,rw=randread,number_ios=5,ramp_time=10s",
    ]);
    check(&report);
    let b = &report.jobs[1];
    assert_eq!((b.requests.requests, b.requests.directions.read.iops, b.time.runtime_seconds), (0, 0.0, 0.0));
    assert!(!report.to_json(false).contains("NaN"));
}

/// `ramp_time` begins when its job does, as with fio.
#[test]
fn a_job_that_waits_has_its_warm_up_after_that() {
    let report = on_full_drive(&[
        "name=a,rw=randread,bs=4k,runtime=50ms",
        "name=b,rw=randread,bs=4k,stonewall=1,ramp_time=20ms,runtime=30ms",
    ]);
    check(&report);
    let (a, b) = (&report.jobs[0].time, &report.jobs[1].time);
    assert!((b.start_seconds - a.end_seconds - 0.02).abs() < 0.001, "{a:?} {b:?}");
    assert!((b.runtime_seconds - 0.03).abs() < 0.001, "{b:?}");
    // Where all have one, measuring begins with the first that counts, not with the run.
    let late = on_full_drive(&[
        "name=a,rw=randread,bs=4k,ramp_time=1s,number_ios=10",
        "name=b,rw=randread,bs=4k,stonewall=1,number_ios=50",
    ]);
    check(&late);
    assert!(
        close(late.jobs[1].time.start_seconds, 0.0)
            && close(late.jobs[1].time.end_seconds, late.simulated_seconds)
    );
    assert_eq!(late.requests, 50);
}

#[test]
fn a_job_begins_when_the_one_before_it_has_ended() {
    for waits in ["stonewall=1", "wait_for=a"] {
        for depth in [1, 2, 8] {
            for requests in 1..8 {
                let first = format!("name=a,rw=randread,iodepth={depth},number_ios={requests}");
                let second = format!("name=b,rw=randwrite,{waits},number_ios=3");
                assert_eq!(run(&[&first, &second]), Ok((requests, 3)), "{waits}, depth {depth}");
            }
        }
    }
}

#[test]
fn a_chain_of_jobs_is_gone_through() {
    let chain = [
        "name=a,rw=read,number_ios=1",
        "name=b,rw=write,wait_for=a,number_ios=2",
        "name=c,rw=read,wait_for=b,number_ios=5",
    ];
    assert_eq!(run(&chain), Ok((6, 2)));
}

#[test]
fn jobs_that_wait_for_each_other_are_refused() {
    let ring = ["name=a,rw=read,wait_for=b,number_ios=1", "name=b,rw=read,wait_for=a,number_ios=1"];
    let refused = run(&ring).expect_err("nobody begins");
    assert!(refused.contains("wait"), "{refused}");
}
