//! Pictures of every size.

use super::*;
use pellucid_monitor::{Figures, ProtocolFigures, ServingFigures, WatchedFigures, WorkFigures};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn bins(ns: u64, count: u64) -> Bins {
    Bins { upper: vec![ns], weight: vec![count], sum: ns * count }
}

/// Two channels of two ways; in a millisecond the second way of the first channel reads for 0.6 ms.
fn figures(step: u64) -> Figures {
    let way = |ns: u64| WayFigures {
        operations: [step, 0, 0, 0],
        time_ns: [[0, 0, ns * step, 0], [0; 4], [0; 4], [0; 4]],
        p99_ns: [(ns > 0).then_some(ns), None, None, None],
        longest_ns: ns,
        ..Default::default()
    };
    let stages = [("media".to_string(), bins(75_000, 100 * step))].into();
    let read = CommandFigures { failed: 0, latency: bins(100_000, 100 * step), stages };
    let watched = WatchedFigures {
        commands: [("read".to_string(), read)].into(),
        ways: vec![way(0), way(600_000), way(0), way(0)],
        ..Default::default()
    };
    let drive = DriveFigures {
        name: "glass\u{1b}[2J".into(),
        simulated_ns: step * 1_000_000,
        host_read_bytes: step * 4_096_000,
        host_written_bytes: step * 1_000,
        programmed_bytes: [("host".to_string(), step * 1_000), ("gc".to_string(), step * 500)].into(),
        blocks: 64,
        chunks_by_wrong_bits: vec![5, 3, 0, 2, 0],
        free_blocks: 16,
        channel_busy_ns: vec![100_000 * step, 0],
        way_busy_ns: vec![0, 600_000 * step, 0, 0],
        watched: Some(watched),
        ..Default::default()
    };
    let work = WorkFigures { what: "randread".into(), requests: 100 * step, requests_total: Some(1_000) };
    Figures { wall_seconds: step as f64, work: Some(work), drives: vec![drive], ..Default::default() }
}

/// A server with one drive of 8 channels x 8 ways under reads and writes, every stage of which takes time.
fn machine(step: u64) -> Figures {
    let way = || WayFigures {
        operations: [step, step, 0, 0],
        time_ns: [[0, 0, 60_000 * step, 0], [0, 0, 700_000 * step, 0], [0; 4], [0; 4]],
        p99_ns: [Some(120_000), Some(1_700_000), None, None],
        longest_ns: 2_000_000,
        ..Default::default()
    };
    let stages = |ns: u64| {
        let each = Stage::ALL.iter().zip(1..);
        each.map(|(stage, i)| (key(stage.name()), bins(ns * i, 100 * step))).collect()
    };
    let command = |ns| CommandFigures { failed: 0, latency: bins(ns * 55, 100 * step), stages: stages(ns) };
    let watched = WatchedFigures {
        commands: [("read".to_string(), command(4_321)), ("write".to_string(), command(123_456))].into(),
        ways: (0..64).map(|_| way()).collect(),
        ..Default::default()
    };
    let programmed = ["host", "read_modify_write", "gc", "mapping", "wear_level"];
    let drive = DriveFigures {
        name: "cosmos-plus".into(),
        simulated_ns: step * 1_000_000_000,
        host_read_bytes: step * 812_345_678,
        host_written_bytes: step * 412_345_678,
        programmed_bytes: programmed.map(|name| (name.to_string(), step * 123_456_789)).into(),
        copied_units: step * 1_234_567,
        blocks: 262_144,
        free_blocks: 12_345,
        corrected_bits: 123_456_789,
        chunks_by_wrong_bits: vec![5_000_000, 3_000_000, 100, 2, 0],
        channel_busy_ns: (0..8).map(|i| 100_000_000 * i * step).collect(),
        way_busy_ns: (0..64).map(|i| 15_000_000 * i * step).collect(),
        watched: Some(watched),
        ..Default::default()
    };
    let protocol = |name: &str| ProtocolFigures {
        name: name.into(),
        connected: 12,
        connections: 3,
        commands: 123_456_789,
        ..Default::default()
    };
    let serving =
        ServingFigures { protocols: vec![protocol("nbd"), protocol("nvme-tcp")], ..Default::default() };
    let serving = Some(serving);
    Figures { wall_seconds: step as f64, serving, drives: vec![drive], ..Default::default() }
}

#[test]
fn nothing_is_cut_off_where_there_is_little_room() {
    let mut model = Model::new("");
    (1..=5).for_each(|step| model.push(machine(step)));
    for (width, height) in [(80, 24), (200, 60)] {
        let text = picture(&model, width, height);
        let cut = format!("{text}\nis cut off");
        for part in [
            "812 MB/s     100 IOPS",
            "write amplification 1.50",
            "host 0.30 + ",
            "free blocks 12.3 k of 262 k, 5 %",
            "erases 0",
            "ways: 30.2 of 64 active, channels 2.8",
            "ch 7  ████████████████ bus  70 %",
            "outstanding 0   mean -",
            "link in 0 % out 0 %",
            "bits corrected 123 M",
            "wrong bits 0.38 a chunk, most 3 of 3",
            "failed programs 0 erases 0",
            "read p99 120 us, ch 7 way 7 120 us",
            "erases per block 0 to 0, mean 0",
            "bad 0",
            "host layer",
            "transfer",
            "late p50 - p99 -",
            "q: end",
        ] {
            let whole = match (part, height) {
                // In a line of its own each, where there is room.
                ("812 MB/s     100 IOPS", 60) => "812 MB/s",
                _ => part,
            };
            assert!(text.contains(whole), "{whole:?} {cut}");
        }
        for rows in text.lines().filter(|line| line.contains('│')) {
            let cells = rows.trim_matches('"').split('│').filter(|cell| !cell.trim().is_empty());
            // A cell that reaches the frame is cut off, or a number at the right of a table.
            cells.for_each(|cell| {
                let right = cell.ends_with(' ') || cell.ends_with('s') || cell.ends_with("p99.9");
                assert!(right || cell.ends_with('█') || cell.ends_with("p99"), "{cell:?} {cut}");
            });
        }
    }
}

fn picture(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn layers_are_shown_where_no_drive_is_modelled() {
    let values =
        [("evictions".to_string(), LayerValue::One(12)), ("held_bytes".into(), LayerValue::One(4_000_000))]
            .into();
    let layer = LayerFigures { name: "stick".into(), values, ..Default::default() };
    let serving = Some(ServingFigures { layers: vec![layer], ..Default::default() });
    let mut model = Model::new("waiting");
    model.push(Figures { serving, ..Default::default() });
    let text = picture(&model, 80, 24);
    for part in ["stick", "evictions 12   held 4.00 MB", "q: end"] {
        assert!(text.contains(part), "{part:?} {text}");
    }
}

#[test]
fn a_picture_says_what_the_figures_say() {
    let mut model = Model::new("preparing the drive");
    assert!(picture(&model, 120, 40).contains("preparing the drive ..."));
    (1..=5).for_each(|step| model.push(figures(step)));
    let text = picture(&model, 120, 40);
    for part in [
        "500 of 1,000 requests",
        "4.10 GB/s",
        "100 k IOPS",
        "write amplification 1.50",
        "host 1.00 + gc 0.50",
        "ways: 0.6 of 4 active, channels 0.1",
        "ch 0  ··▓▓ bus  10 %",
        "ch 1  ···· bus   0 %",
        "free blocks 16 of 64, 25 %",
        "wrong bits 0.90 a chunk, most 3 of 3",
        "read p99 600 us, ch 0 way 1 600 us",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let line =
        |name: &str| text.lines().find(|l| l.contains(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(line("│all ").contains("100 %  100 us  100 us  100 us  100 us"), "{text}");
    assert!(line("│media ").contains("75 % 75.0 us"), "{text}");
}

#[test]
fn every_size_gives_a_picture() {
    let mut model = Model::new("");
    (1..=3).for_each(|step| model.push(figures(step)));
    for (width, height) in [(1, 1), (79, 24), (80, 23), (80, 24), (81, 30), (200, 24), (300, 100)] {
        let text = picture(&model, width, height);
        assert_eq!(text.contains("write amplification"), width >= WIDTH_MIN && height >= HEIGHT_MIN);
        assert!(!text.contains('\u{1b}'), "a name reaches the terminal unescaped");
    }
}
