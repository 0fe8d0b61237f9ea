//! Jobs on chunks and zones by their addresses, and on targets: what they do to the drive, what is refused, and `flow`.

use pellucid_flash::Stage;
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_report::{JobResult, Report};
use pellucid_testing::swarm::TINY;

/// Two channels of two ways.
const WAYS: &str = "media.ways=2";
const OPEN: &str = "\n[[drive.namespace]]\ninterface = \"open-channel\"\n";
const ZONED: &str = "\n[[drive.namespace]]\ninterface = \"zoned\"\nspare_blocks = 4\n";

fn run(more: &str, descriptions: &[&str], sets: &[&str]) -> Result<Report, String> {
    let sets: Vec<String> = [WAYS].iter().chain(sets).map(|set| set.to_string()).collect();
    let mut spec =
        pellucid_spec::from_str(&format!("{TINY}{more}"), "tiny", &sets).map_err(|e| e.to_string())?;
    spec.jobs = descriptions.iter().map(|job| parse_job(job, "test")).collect();
    let jobs = jobs(&spec).map_err(|e| e.to_string())?;
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).map(|(_, report)| report).map_err(|e| e.to_string())
}

fn done(more: &str, descriptions: &[&str], sets: &[&str]) -> Report {
    let report = run(more, descriptions, sets).unwrap_or_else(|error| panic!("{descriptions:?}: {error}"));
    for job in &report.jobs {
        for (name, direction) in job.requests.directions.named() {
            assert_eq!(direction.errors, 0, "{} {name}", job.name);
        }
    }
    report
}

/// Channels and dies of a channel, blocks of a die, and bytes of a block.
fn shape() -> (u32, u32, u64, u64) {
    let spec =
        pellucid_spec::from_str(TINY, "tiny", &[WAYS.into()]).unwrap_or_else(|error| panic!("{error}"));
    let layout = spec.drive.media.geometry.layout().expect("a good shape");
    let block = u64::from(layout.units_per_block) * u64::from(layout.unit_bytes);
    (layout.channels, layout.dies_per_channel, layout.blocks_per_die.into(), block)
}

fn size(bytes: u64) -> String {
    format!("bs={bytes}")
}

/// The least write of a chunk: a superpage.
fn superpage() -> u64 {
    let spec =
        pellucid_spec::from_str(TINY, "tiny", &[WAYS.into()]).unwrap_or_else(|error| panic!("{error}"));
    let layout = spec.drive.media.geometry.layout().expect("a good shape");
    u64::from(layout.units_per_superpage) * u64::from(layout.unit_bytes)
}

fn job<'a>(report: &'a Report, name: &str) -> &'a JobResult {
    report.jobs.iter().find(|job| job.name == name).unwrap_or_else(|| panic!("no job {name}"))
}

/// Without an end of its own a job writes every chunk once, and one that reads or resets does so with every full one.
#[test]
fn every_chunk_is_written_read_and_reset_once() {
    let (channels, ways, blocks, block) = shape();
    let whole = u64::from(channels * ways) * blocks * block;
    let bs = size(superpage());
    let write = format!("name=w,rw=chunk-write,iodepth=7,{bs}");
    let read = format!("name=r,rw=chunk-read,iodepth=3,stonewall=1,{bs}");
    let report = done(OPEN, &[&write, &read, "name=x,rw=chunk-reset,iodepth=2,stonewall=1"], &[]);
    assert_eq!(job(&report, "w").requests.directions.write.bytes, whole);
    assert_eq!(job(&report, "r").requests.directions.read.bytes, whole);
    assert_eq!(job(&report, "x").requests.directions.trim.requests, u64::from(channels * ways) * blocks);
    assert_eq!(report.gc.erased_blocks.total(), u64::from(channels * ways) * blocks);
    assert_eq!(report.write_amplification.host_written_bytes, whole);
}

/// A job that goes on makes room by resets, which its numbers do not count.
#[test]
fn a_job_that_goes_on_resets_what_it_wrote_first() {
    let (channels, ways, blocks, block) = shape();
    let whole = u64::from(channels * ways) * blocks * block;
    let writes = 2 * whole / superpage();
    let report =
        done(OPEN, &[&format!("rw=chunk-write,iodepth=5,number_ios={writes},{}", size(superpage()))], &[]);
    let directions = &report.jobs[0].requests.directions;
    assert_eq!((directions.write.requests, directions.write.bytes), (writes, 2 * whole));
    // One for each chunk that was not free at the beginning, and up to two more in each unit.
    let rounds = u64::from(channels * ways) * blocks;
    assert!((rounds..=rounds + 8).contains(&directions.trim.requests), "{}", directions.trim.requests);
}

#[test]
fn jobs_keep_to_their_units() {
    let write = format!("rw=chunk-write,units=1-2,{}", size(superpage()));
    let report = done(OPEN, &[&write], &[]);
    let busy: Vec<bool> = report.utilisation.dies.concat().iter().map(|busy| *busy > 0.0).collect();
    let expected: Vec<bool> = (0..busy.len()).map(|unit| (1..3).contains(&unit)).collect();
    assert_eq!(busy, expected);
}

/// Copies read nothing to the host, and write what was there to other chunks; a vector command has one completion for several units.
#[test]
fn copies_and_vectors() {
    let (channels, ways, blocks, block) = shape();
    let half = u64::from(channels * ways) * blocks / 2 * block;
    let bs = size(superpage());
    let report = done(
        OPEN,
        &[
            &format!("name=copy,rw=chunk-copy,iodepth=2,{bs}"),
            &format!("name=read,rw=chunk-read,{bs},stonewall=1"),
        ],
        &["precondition.fill=0.5"],
    );
    assert_eq!(job(&report, "copy").requests.directions.write.bytes, half);
    assert_eq!(job(&report, "read").requests.directions.read.bytes, 2 * half);
    assert_eq!(job(&report, "read").requests.reads.unmapped_sectors, 0);
    let (bs, all) = (size(2 * superpage()), 2 * half);
    let report = done(OPEN, &[&format!("rw=chunk-write,vector=2,{bs}")], &[]);
    let write = &report.directions.write;
    assert_eq!((write.bytes, write.requests), (all, all / (2 * superpage())));
    let one = done(OPEN, &[&format!("rw=chunk-write,{bs}")], &[]);
    // Two units program at once.
    assert!(write.latency.mean_ns < one.directions.write.latency.mean_ns);
}

#[test]
fn zones_are_appended_to_written_read_and_reset() {
    let report = done(
        ZONED,
        &[
            "name=a,rw=zone-append,bs=4k,iodepth=6,open_zones=2,number_ios=3000",
            "name=r,rw=zone-randread,bs=4k,number_ios=200,wait_for=a",
            "name=x,rw=zone-reset,stonewall=1",
            "name=w,rw=zone-write,bs=4k,iodepth=2,stonewall=1",
        ],
        &[],
    );
    assert_eq!(job(&report, "a").requests.directions.write.requests, 3000);
    assert_eq!(job(&report, "r").requests.directions.read.requests, 200);
    assert_eq!(report.reads.unmapped_sectors, 0);
    assert!(job(&report, "x").requests.directions.trim.requests > 0);
    let written = job(&report, "w").requests.directions.write.bytes;
    assert!(written > 0 && written.is_multiple_of(4096));
    let appended = job(&report, "a").requests.directions.write.bytes;
    assert_eq!(report.write_amplification.host_written_bytes, written + appended);
}

/// A zone on all dies is erased in two steps, its first superpage before the others; what a reset waits for busy dies is no erase.
#[test]
fn a_reset_takes_two_erases_and_its_wait_for_dies_is_told_apart() {
    let report = done(ZONED, &["rw=zone-reset,iodepth=8"], &["precondition.fill=1"]);
    let resets = &report.directions.trim;
    assert!(resets.requests > 8, "{} resets", resets.requests);
    assert_eq!(resets.stage_ns[Stage::Media], resets.requests * 2 * 3_000_000);
    assert!(resets.stage_ns[Stage::WaitWay] > 0, "{:?}", resets.stage_ns);
}

const TWO: &str = "\n[[drive.namespace]]\ninterface = \"open-channel\"\n[[target]]\nname = \"log\"\nkind = \"raw\"\nunits = \"0-1\"\n\
                   [[target]]\nname = \"main\"\nunits = \"rest\"\nfill = 0.5\n";
const ROOM: &str = "host.ftl.over_provisioning=2.0";

/// Each target has its units, its jobs and, if it is a block target, its host FTL; bytes of both are the drive's.
#[test]
fn targets_share_a_drive_and_a_report() {
    let bs = size(superpage());
    let report = done(
        TWO,
        &[
            &format!("name=chunks,target=log,rw=chunk-write,{bs}"),
            "name=sectors,target=main,rw=randwrite,bs=4k,iodepth=4,number_ios=2000",
        ],
        &[ROOM],
    );
    let [log, main] = report.targets.as_slice() else { panic!("{:?}", report.targets) };
    assert_eq!((log.name.as_str(), log.kind.as_str(), log.first_unit, log.units), ("log", "raw", 0, 2));
    assert_eq!((main.kind.as_str(), main.first_unit, main.units), ("block", 2, 2));
    assert_eq!(
        (log.jobs.as_slice(), main.jobs.as_slice()),
        (&["chunks".into()][..], &["sectors".into()][..])
    );
    assert_eq!(main.requests.directions.write.requests, 2000);
    assert_eq!(job(&report, "sectors").target.as_deref(), Some("main"));
    assert!(log.write_amplification.is_none() && log.gc.is_none());
    let own = main.write_amplification.as_ref().expect("a host FTL");
    assert_eq!(own.host_written_bytes, 2000 * 4096);
    assert!(main.gc.as_ref().is_some_and(|gc| gc.victims > 0), "{:?}", main.gc);
    let all = &report.write_amplification;
    assert_eq!(all.host_written_bytes, own.host_written_bytes + log.requests.directions.write.bytes);
    assert_eq!(report.workload.precondition, "main 50 % filled");
}

/// A verified run checks the sectors of each of two block targets.
#[test]
fn block_targets_are_verified() {
    let two = TWO.replace("kind = \"raw\"\n", "");
    let work = ["target=log,rw=randrw,bs=4k,number_ios=1500", "target=main,rw=randrw,bs=4k,number_ios=1500"];
    let report = done(&two, &work, &[ROOM, "run.verify=true"]);
    assert_eq!(report.requests, 3000);
    let raw = run(TWO, &["target=log,rw=chunk-read,number_ios=1"], &[ROOM, "run.verify=true"]);
    assert!(raw.unwrap_err().starts_with("run.verify: allowed: false with rw = chunk-read"));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let bs = size(superpage());
    let odd = superpage() - 512;
    for (drive, job, told) in [
        (
            TWO,
            "target=log,rw=randwrite",
            "rw = randwrite: allowed: chunk patterns such as chunk-write on target log, which is raw",
        ),
        (
            TWO,
            "target=main,rw=chunk-write",
            "rw = chunk-write: allowed: sector patterns such as randwrite on target main",
        ),
        (
            TWO,
            "target=other,rw=read",
            "target = other: unknown; allowed: log, main: targets of the description",
        ),
        (TWO, "rw=chunk-write", "rw = chunk-write: allowed: on a raw target, so it needs target = log"),
        (
            TWO,
            "rw=chunk-write,namespace=0",
            "namespace = 0: allowed: not beside targets; chunk-write needs target = log instead",
        ),
        (
            OPEN,
            "target=log,rw=chunk-write",
            "target = log: unknown; allowed: none: the description has no [[target]]",
        ),
        (OPEN, "rw=chunk-write,units=3-4", "units = 3-4: allowed: a range within 0-3"),
        (
            OPEN,
            &format!("rw=chunk-write,bs={odd}"),
            &format!("bs = {odd}: allowed: multiples of {} bytes here", superpage()),
        ),
        (
            OPEN,
            "rw=zone-append",
            "rw = zone-append: allowed: other patterns: the drive has no zoned namespace",
        ),
        (OPEN, &format!("rw=chunk-write,size=50%,{bs}"), "size"),
        (OPEN, &format!("rw=chunk-read,number_ios=1,{bs}"), "no chunk was full, and a chunk is full with "),
        (ZONED, "rw=zone-append,open_zones=1000", "open_zones = 1000: allowed: at most"),
        (ZONED, "rw=zone-write,units=0", "units = 0-0: allowed: only with patterns of chunks"),
        ("", "rw=randread,vector=2", "vector = 2: allowed: only with patterns of chunks or zones"),
        (OPEN, "rw=randread", "rw = randread: allowed: chunk or zone patterns"),
    ] {
        match run(drive, &[job], if drive == TWO { &[ROOM] } else { &[] }) {
            Err(refused) => assert!(refused.contains(told), "{job}: {refused}"),
            Ok(report) => panic!("{job}: {} requests", report.requests),
        }
    }
}

/// Two jobs of one group keep to the ratio of their weights, whichever of them could be quicker; others are as quick as they can.
#[test]
fn flow_keeps_a_ratio() {
    let jobs = [
        "name=reads,rw=randread,bs=4k,flow=4,number_ios=4000",
        "name=writes,rw=randwrite,bs=4k,iodepth=4,flow=1,runtime=10s",
        "name=others,rw=randread,bs=4k,flow=3,flow_id=1,number_ios=900,numjobs=2",
    ];
    let ends_together = ["precondition.fill=0.5", "buffer.entries=8", "host.link_rate=\"1GB/s\""];
    let report =
        done("", &[jobs[0], &jobs[1].replace("runtime=10s", "number_ios=1000"), jobs[2]], &ends_together);
    let (reads, writes) = (job(&report, "reads"), job(&report, "writes"));
    let ended = |job: &JobResult| job.time.end_seconds;
    assert!((ended(reads) / ended(writes) - 1.0).abs() < 0.05, "{} {}", ended(reads), ended(writes));
    // One that is alone in its group would wait for nobody.
    let alone = run("", &["rw=randread,bs=4k,flow=3,number_ios=900"], &ends_together).expect_err("no effect");
    assert!(alone.contains("flow = 3: allowed: with two jobs or more of flow_id 0"), "{alone}");
}

/// A raw target is filled, never overwritten, and the report says so; where everything is raw an overwrite is refused.
#[test]
fn what_is_raw_is_not_said_to_be_overwritten() {
    let work = ["target=log,rw=chunk-randread,bs=4k,number_ios=9"];
    let sets = [ROOM, "precondition.fill=0.5", "precondition.overwrite=0.5"];
    let report = done(&TWO.replace("fill = 0.5", ""), &work, &sets);
    let prepared = "log 50 % filled; main 50 % filled, overwritten 0.5 times";
    assert_eq!(report.workload.precondition, prepared);
    let job = ["rw=chunk-randread,bs=4k,number_ios=9"];
    let sets = ["precondition.fill=0.5", "precondition.overwrite=steady"];
    let refused = run(OPEN, &job, &sets).expect_err("chunks alone");
    assert!(refused.contains("chunks and zones are filled, not overwritten"), "{refused}");
}

/// A job that was to go on and ends for want of full chunks or zones says how far it came.
#[test]
fn a_job_that_ends_early_says_why() {
    for (drive, what) in [(OPEN, "chunk"), (ZONED, "zone")] {
        let reset = format!("name=x,rw={what}-reset,number_ios=5000");
        let report = done(drive, &[&reset], &["precondition.fill=0.25"]);
        let resets = job(&report, "x").requests.directions.trim.requests;
        let told = format!(
            "job x did {resets} of 5000 I/Os and ended: no {what} was full, and no job that writes was left to fill one"
        );
        assert!(resets > 0 && report.warnings.contains(&told), "{:?}", report.warnings);
        // One that comes to its number has nothing to say.
        let report = done(drive, &[&reset.replace("5000", "2")], &["precondition.fill=0.25"]);
        assert!(report.warnings.iter().all(|one| !one.contains("ended")), "{:?}", report.warnings);
    }
}

/// A sense brings a page, however many units of it a copy inside the die takes. So a copy that spares the channel takes no longer.
#[test]
fn a_copy_inside_a_die_senses_a_page_once() {
    let sets = [
        "media.unit_size=4KiB",
        "media.page_size=16KiB",
        "media.spare_size=256",
        "media.timing.read=50us",
        "media.timing.program=200us",
        "precondition.fill=0.25",
    ];
    let fastest = |copyback: bool| {
        let namespace = OPEN.replace("channel\"\n", &format!("channel\"\ncopyback = {copyback}\n"));
        let report = done(&namespace, &["rw=chunk-copy,number_ios=20,bs=16k"], &sets);
        report.directions.write.latency.min_ns.expect("it copies")
    };
    let (inside, through) = (fastest(true), fastest(false));
    assert!(
        (250_000..300_000).contains(&inside) && inside < through,
        "{inside} ns inside, {through} ns through"
    );
}
