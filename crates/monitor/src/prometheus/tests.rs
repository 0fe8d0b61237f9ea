//! Figures in the exposition format.

use super::*;
use crate::board::LayerSide;
use pellucid_flash::Cause;
use std::collections::BTreeSet;

fn bins() -> Bins {
    Bins { upper: vec![0, 1_000, 200_000], weight: vec![1, 2, 3], sum: 500_000 }
}

fn figures() -> Figures {
    let watched = WatchedFigures {
        commands: [("read".to_string(), crate::CommandFigures { latency: bins(), ..Default::default() })]
            .into(),
        ways: vec![
            crate::WayFigures {
                operations: [1, 0, 0, 0],
                p99_ns: [Some(2_000), None, None, None],
                ..Default::default()
            };
            4
        ],
        active_ways_ns: vec![0, 5_000],
        outstanding: Bins { upper: vec![0, 33], weight: vec![2_000, 3_000], sum: 96_000 },
        ..Default::default()
    };
    let drive = DriveFigures {
        name: "a\"b\\c\nd".into(),
        channel_busy_ns: vec![5, 6],
        way_busy_ns: vec![1; 4],
        firmware_module_ns: [("fetch".to_string(), 7), ("issue".to_string(), 9)].into(),
        chunks_by_wrong_bits: vec![7, 0, 2, 1],
        watched: Some(watched),
        ..Default::default()
    };
    let layer = LayerFigures::from(&LayerSide {
        name: "far".into(),
        remote: Some(("connected", 0)),
        figures: vec![
            Figure::count("erased_lines", "Lines erased.", 3),
            Figure::count("free_lines", "Lines that can be opened.", 2).gauge(),
            Figure::bytes("programmed_bytes", "Bytes written to the drive.", 4096).of(Cause::Host),
        ],
    });
    let serving = ServingFigures { layers: vec![layer], ..ServingFigures::default() };
    Figures { drives: vec![drive], serving: Some(serving), ..Figures::default() }
}

#[test]
fn every_sample_stands_under_its_help_and_type_and_names_are_right() {
    let text = metrics(&figures());
    let (mut known, mut current, mut kind) = (BTreeSet::new(), String::new(), String::new());
    let mut lines = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["#", "HELP", name, ..] = words[..] {
            assert!(known.insert(name.to_string()), "{name}: twice");
            current = name.to_string();
        } else if let ["#", "TYPE", name, of] = words[..] {
            assert_eq!(name, current);
            kind = of.to_string();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let base =
                ["_bucket", "_sum", "_count"].iter().fold(name, |n, end| n.strip_suffix(end).unwrap_or(n));
            let whole = ["histogram", "summary"].contains(&kind.as_str());
            assert_eq!(if whole { base } else { name }, current, "{line}");
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(lines.insert(series.to_string()), "{series}: twice");
            value.parse::<f64>().unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
    assert!(known.len() > 40);
}

#[test]
fn ways_have_quantiles_and_chunks_their_wrong_bits() {
    let text = metrics(&figures());
    let value = |series: &str| {
        let line = text.lines().find(|line| line.starts_with(series) && !line.starts_with('#'));
        line.unwrap_or_else(|| panic!("{series} is missing")).rsplit_once(' ').unwrap().1.to_string()
    };
    let drive = "drive=\"a\\\"b\\\\c\\nd\"";
    let way = format!(
        "pellucid_way_operation_latency_seconds{{{drive},channel=\"1\",way=\"0\",operation=\"read\",quantile=\"0.99\"}}"
    );
    assert_eq!(value(&way), "0.000002");
    let chunks = |end: &str| value(&format!("pellucid_chunk_wrong_bits{end}"));
    let bucket = |le: &str| chunks(&format!("_bucket{{{drive},le=\"{le}\"}}"));
    assert_eq!(["0", "1", "2", "3", "+Inf"].map(bucket), ["7", "7", "9", "10", "10"]);
    assert_eq!((chunks("_sum"), chunks("_count")), ("7".into(), "10".into()));
}

#[test]
fn times_with_so_many_at_work_are_counters() {
    let text = metrics(&figures());
    let has = |metric: &str, label: &str, value: &str| {
        let line = format!("\n{metric}{{drive=\"a\\\"b\\\\c\\nd\",{label}}} {value}\n");
        assert!(text.contains(&line), "{line}");
    };
    has("pellucid_active_ways_seconds_total", "ways=\"1\"", "0.000005");
    has("pellucid_outstanding_commands_seconds_total", "commands=\"0\"", "0.000002");
    has("pellucid_outstanding_commands_seconds_total", "commands=\"33\"", "0.000003");
}

#[test]
fn bins_are_cumulative_and_names_are_escaped() {
    let text = metrics(&figures());
    let of = |le: &str| {
        let start = format!(
            "pellucid_command_latency_seconds_bucket{{drive=\"a\\\"b\\\\c\\nd\",command=\"read\",le=\"{le}\"}} "
        );
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {start} in {text}")).parse::<u64>().unwrap()
    };
    assert_eq!([of("0.000000255"), of("0.000001023"), of("0.000262143"), of("+Inf")], [1, 3, 6, 6]);
    assert!(text.contains(
        "pellucid_command_latency_seconds_sum{drive=\"a\\\"b\\\\c\\nd\",command=\"read\"} 0.0005\n"
    ));
    assert!(text.contains("channel=\"1\",way=\"1\",operation=\"read\"} 1\n"));
}
