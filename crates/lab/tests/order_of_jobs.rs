//! Jobs that wait for others begin, whatever those others have outstanding.

use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_lab::spec;
use pellucid_lab::swarm::TINY;

/// Reads and writes of all jobs, or why the run cannot be done.
fn run(descriptions: &[&str]) -> Result<(u64, u64), String> {
    let mut spec = spec::from_str(TINY, "tiny", &[]).unwrap_or_else(|e| panic!("{e}"));
    spec.jobs = descriptions.iter().map(|job| parse_job(job, "test")).collect();
    let jobs = jobs(&spec).map_err(|e| e.to_string())?;
    let (_, report) = execute(&spec, &jobs, &|| 0.0, |_| ()).map_err(|e| e.to_string())?;
    Ok((report.directions.read.requests, report.directions.write.requests))
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
