//! The four drives of `docs/explanation/move-the-line.md`, small: the quantities that move with the line, and their direction.

use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_report::Report;
use pellucid_spec::Spec;

fn example(name: &str, own: &[&str]) -> Spec {
    let path = format!("{}/../../examples/move-the-line/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let small = ["media.blocks=48", "media.pages=16", "buffer.entries=128", "precondition.fill=1.0"];
    let sets: Vec<String> = small.iter().chain(own).map(|set| set.to_string()).collect();
    pellucid_spec::from_str(&text, name, &sets).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The two streams of the example; `handles`: with a placement handle each.
fn run(name: &str, handles: bool, own: &[&str]) -> Report {
    let mut spec = example(name, own);
    spec.run.verify = true;
    let (hot, cold) = if handles { (",plids=1", ",plids=0") } else { ("", "") };
    let paced = "time_based=1,runtime=40s";
    spec.jobs = [
        format!("rw=randwrite,bs=4k,size=5%,norandommap=1,iodepth=32,rate_iops=1000,{paced}{hot}"),
        format!("rw=write,bs=64k,offset=5%,size=95%,iodepth=8,rate=4m,{paced}{cold}"),
        "rw=randread,bs=4k,norandommap=1,iodepth=4,number_ios=3000,startdelay=15s".to_string(),
    ]
    .iter()
    .map(|job| parse_job(job, "test"))
    .collect();
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{name}: {e}"));
    let report = execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{name}: {e}")).1;
    assert_eq!(report.directions.read.errors + report.directions.write.errors, 0, "{name}");
    assert_eq!(report.directions.read.requests, 3000, "{name}");
    report
}

#[test]
fn what_moves_with_the_line() {
    let host = ["host.ftl.over_provisioning=0.5", "host.ftl.buffer=128"];
    // Lines this small lose a third of their room to starts, ends and trailers.
    let zones = [
        "drive.namespace=[{ interface = \"zoned\", dies_per_zone = 2, spare_blocks = 1, active_max = 8 }]",
        "host.ftl.over_provisioning=0.6",
        "host.ftl.buffer=128",
        "host.zone_log.width=2",
        "host.zone_log.batch=16",
    ];
    let block = run("block", false, &["ftl.over_provisioning=0.5"]);
    let fdp = run("fdp", true, &["ftl.over_provisioning=0.5"]);
    let ftl = run("host-ftl", false, &host);
    let log = run("zone-log", false, &zones);

    // The map goes with translation; a zoned drive still knows where the blocks of each zone are.
    let drive = |report: &Report| report.drive.memory_bytes;
    assert!(drive(&ftl) < drive(&log) && drive(&log) < drive(&block), "{} {}", drive(&ftl), drive(&log));
    assert_eq!(block.host_layer, None);
    for report in [&ftl, &log] {
        let layer = report.host_layer.as_ref().expect("a layer");
        assert!(layer.memory_bytes > drive(report), "{}", layer.memory_bytes);
        assert!(layer.cpu_share > 0.0 && layer.cpu_share < 1.0, "{}", layer.cpu_share);
    }
    // All wrote what the jobs ask for.
    let written = |report: &Report| report.directions.write.bytes as f64;
    for report in [&fdp, &ftl, &log] {
        let share = written(report) / written(&block);
        assert!((share - 1.0).abs() < 0.05, "{}: {share}", report.drive.name);
    }
    // Apart, the two kinds of data leave GC next to nothing to move; together they do not.
    let amplification = |report: &Report| report.write_amplification.total.expect("something was written");
    for mixed in [&block, &ftl, &log] {
        assert!(amplification(mixed) > 1.1 * amplification(&fdp), "{}", mixed.drive.name);
    }
}
