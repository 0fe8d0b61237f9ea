//! Tests of the report as a whole, on a sample with invented data.

use super::plot::tests::assert_well_formed;
use super::sample::{self, report};
use super::*;
use pellucid_flash::{Cause, Completion, Nanos, Opcode, SimTime, Stage, Status};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const SCHEMA: &str = include_str!("../../../docs/reference/report-schema.md");

/// A drive with an awkward name that did nothing at all.
fn idle() -> Report {
    Report { drive: Drive { name: "<nothing> & \"more\"".into(), ..Drive::default() }, ..Report::default() }
}

#[test]
fn json_is_the_same_for_equal_runs_and_wall_time_can_be_left_out() {
    let (first, second) = (report(), report());
    assert_eq!(first.to_json(false), second.to_json(false));
    let slower = Report { host: Some(HostCost::new(first.requests, 99.0, None)), ..second };
    assert_eq!(first.to_json(false), slower.to_json(false));
    assert_ne!(first.to_json(true), slower.to_json(true));
}

#[test]
fn a_comparison_says_whether_applications_came_to_the_same_result() {
    let with = |checksum: &str| {
        let result = BTreeMap::from([("checksum".into(), checksum.into()), ("reached".into(), "9".into())]);
        let applications = vec![ApplicationReport { result, ..ApplicationReport::default() }];
        Report { applications, ..report() }
    };
    assert!(
        render_compare(&[with("ab"), with("ab")]).contains("note: the results are the same on all drives")
    );
    let differ = render_compare(&[with("ab"), with("cd")]);
    let name = &report().drive.name;
    assert!(
        differ.contains(&format!("note: the results differ: checksum is ab on {name}, cd on {name}")),
        "{differ}"
    );
    assert!(!render_compare(&[with("ab"), report()]).contains("results"), "one has no result");
    let mut other = with("cd");
    other.applications.iter_mut().for_each(|application| application.name = "another".into());
    assert!(!render_compare(&[with("ab"), other]).contains("results"), "another application");
}

#[test]
fn json_shows_the_cost_of_the_run_at_the_top_level() {
    let sample = report();
    let with: Value = serde_json::from_str(&sample.to_json(true)).unwrap();
    let without: Value = serde_json::from_str(&sample.to_json(false)).unwrap();
    assert_eq!(with["requests"], sample.requests);
    for key in ["wall_seconds", "requests_per_wall_second", "peak_memory_bytes"] {
        assert!(with[key].is_number(), "{key}");
        assert!(without.get(key).is_none(), "{key}");
    }
    let unknown = Report { host: Some(HostCost::new(10, 2.0, None)), ..report() };
    let unknown: Value = serde_json::from_str(&unknown.to_json(true)).unwrap();
    assert_eq!(unknown["peak_memory_bytes"], Value::Null);
    assert_eq!(unknown["requests_per_wall_second"], 5.0);
}

#[test]
fn warnings_stand_in_the_json_and_on_the_pages() {
    let report = report();
    let json: Value = serde_json::from_str(&report.to_json(false)).unwrap();
    assert_eq!(json["warnings"][0].as_str(), Some(report.warnings[0].as_str()));
    let said = "an invented sentence with &lt;signs&gt; &amp; more</li>";
    assert!(report.to_html().contains(&format!("<li>{said}")));
    let pages = ["a/index.html".to_string(), "b/index.html".to_string()];
    let both = render_compare_html(&[report.clone(), idle()], &pages, &[]);
    assert!(both.contains(&format!("<li>cosmos-plus: {said}")));
    assert!(!idle().to_html().contains("<ul"), "a list of nothing");
}

#[test]
fn numbers_of_the_json_agree_with_each_other() {
    let json: Value = serde_json::from_str(&report().to_json(false)).unwrap();
    let read = &json["directions"]["read"];
    let sum = |table: &Value| table.as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>();
    let latencies = read["latency"]["mean_ns"].as_f64().unwrap() * read["latency"]["count"].as_f64().unwrap();
    assert!((sum(&read["stage_ns"]) / latencies - 1.0).abs() < 1e-12);
    assert!((sum(&read["stage_percent"]) - 100.0).abs() < 1e-9);
    let amplification = &json["write_amplification"];
    assert!((sum(&amplification["ratio"]) - amplification["total"].as_f64().unwrap()).abs() < 1e-9);
    let requests: f64 =
        json["series"]["read"]["requests"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    assert!(requests >= read["latency"]["count"].as_f64().unwrap());
}

/// Collects every path of keys in `json`, with the keys of maps replaced by `<cause>`, `<stage>`, `<direction>`, `<name>`.
fn paths(json: &Value, path: &str, out: &mut BTreeSet<String>) {
    let map = match json {
        Value::Object(map) => map,
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), out));
            return;
        }
        _ => {
            out.insert(path.into());
            return;
        }
    };
    for (name, value) in map {
        let (cause, stage) = (
            Cause::ALL.iter().find(|cause| key(cause.name()) == *name),
            Stage::ALL.iter().find(|stage| key(stage.name()) == *name),
        );
        let shown = match path {
            "directions" => "<direction>",
            "seeds" => "<name>",
            "overrides" | "provenance.description" | "applications[].settings" => "<key>",
            "applications[].result" => "<name>",
            "provenance.seeds" => "<name>",
            "series" | "utilisation" => name,
            "" | "namespaces[]" | "targets[]" => name,
            // One of the reasons has the name of a cause.
            _ if path.starts_with("map_cache.") => name,
            // Some modules have the name of a cause or stage.
            "utilisation.firmware_modules" => name,
            _ if cause.is_some() => "<cause>",
            _ if stage.is_some() => "<stage>",
            _ => name,
        };
        let path = if path.is_empty() { shown.into() } else { format!("{path}.{shown}") };
        // Groups of keys that occur in several places are documented once.
        let same = match path.as_str() {
            "jobs[].directions" | "groups[].directions" | "targets[].directions" => Some("directions"),
            "jobs[].reads" | "groups[].reads" | "targets[].reads" => Some("reads"),
            "namespaces[].write_amplification" | "targets[].write_amplification" => {
                Some("write_amplification")
            }
            "namespaces[].gc" | "targets[].gc" => Some("gc"),
            "namespaces[].mount" => Some("mount"),
            "namespaces[].map_cache" => Some("map_cache"),
            "namespaces[].merges" => Some("merges"),
            "namespaces[].slc_cache" => Some("slc_cache"),
            "reads.mapped" | "reads.unmapped" => Some("directions.<direction>"),
            "applications[].pauses" => Some("gc.pauses"),
            "applications[].latency" | "applications[].by_operation[].latency" => {
                Some("directions.<direction>.latency")
            }
            "files.by_operation[].latency" => Some("directions.<direction>.latency"),
            _ => None,
        };
        if same.is_some() {
            out.insert(path.clone());
        }
        paths(value, same.unwrap_or(&path), out);
    }
}

#[test]
fn the_schema_document_names_exactly_the_keys_of_the_json() {
    let replay = Some(Replay::default());
    let job = JobResult { target: Some("log".into()), ..JobResult::default() };
    let (jobs, groups) = (vec![job], vec![GroupResult::default()]);
    let targets = vec![TargetResult {
        write_amplification: Some(WriteAmplification::default()),
        gc: Some(GcSummary::default()),
        ..TargetResult::default()
    }];
    let (slc_cache, map_cache) = (Some(SlcCache::default()), Some(MapCache::default()));
    let host_layer = Some(HostLayer::default());
    let provenance = Some(Provenance {
        description: BTreeMap::from([("run.seed".into(), "1".into())]),
        seeds: BTreeMap::from([("media".into(), 1)]),
        inputs: vec![Input::default()],
        ..Provenance::default()
    });
    let merges = Some(Merges::default());
    let namespaces = vec![NamespaceResult {
        gc: Some(GcSummary::default()),
        mount: Some(Mount::default()),
        map_cache,
        merges,
        slc_cache,
        ..NamespaceResult::default()
    }];
    let files = Some(FilesReport { by_operation: vec![Default::default()], ..FilesReport::default() });
    let applications = vec![ApplicationReport {
        target: Some("log".into()),
        settings: BTreeMap::from([("backend".into(), "block".into())]),
        by_operation: vec![Default::default()],
        copies: vec![Copies::default()],
        phases: vec![Default::default()],
        result: BTreeMap::from([("checksum".into(), "0".into())]),
        figures: vec![Default::default()],
        ..ApplicationReport::default()
    }];
    let parts = vec![PartFigures { figures: vec![Default::default()], ..PartFigures::default() }];
    let steady_state = Some(SteadyState::default());
    let report = Report {
        provenance,
        verified_reads: Some(0),
        steady_state,
        files,
        applications,
        parts,
        host_layer,
        slc_cache,
        map_cache,
        merges,
        replay,
        jobs,
        groups,
        namespaces,
        targets,
        ..report()
    };
    let json: Value = serde_json::from_str(&report.to_json(true)).unwrap();
    let mut written = BTreeSet::new();
    paths(&json, "", &mut written);
    let rows = SCHEMA.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(path, _)| path.to_string()).collect();
    let missing: Vec<_> = written.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&written).collect();
    assert!(missing.is_empty(), "not in docs/reference/report-schema.md: {missing:#?}");
    assert!(stale.is_empty(), "in docs/reference/report-schema.md but not in the JSON: {stale:#?}");
    let empty = SCHEMA.lines().find(|line| line.starts_with("| `") && line.trim_end().ends_with("| |"));
    assert_eq!(empty, None, "a row without a definition");
}

#[test]
fn drives_side_by_side_make_a_page_and_a_file_of_drawings() {
    let mut other = Report { host_layer: Some(HostLayer::default()), ..report() };
    other.drive.name = "a <second> drive".into();
    let reports = [report(), other];
    let page = render_compare_html(&reports, &[String::new(), String::new()], &[]);
    let met = assert_well_formed(&without_scripts(&page));
    assert!(met.iter().filter(|name| *name == "svg").count() >= 5, "{met:?}");
    assert!(
        page.contains("a &lt;second&gt; drive")
            && page.contains("<th scope=\"row\">write amplification</th>")
    );
    let svg = render_compare_svg(&reports);
    assert_well_formed(&svg);
    assert!(svg.starts_with("<svg") && svg.contains("p99.9") && svg.contains("of one core"));
    // Without layers of the host, its processor has no figure.
    assert!(!render_compare_svg(&[report(), report()]).contains("of one core"));
}

/// Returns a page without its scripts, each of which must be valid in XML: inside a CDATA section, or without special characters.
fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let mut left = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (script, rest) = part.split_once("</script>").expect("a script ends");
        let (head, text) = script.split_once('>').expect("its tag ends");
        assert!(!head.contains("src"), "{head}");
        let is_data = text.starts_with("//<![CDATA[") && text.ends_with("//]]>");
        assert!(is_data || !text.contains(['<', '>', '&']), "{text:.80}");
        left.push_str(rest);
    }
    left
}

#[test]
fn the_figures_of_the_page_are_those_of_their_file_and_each_has_a_name() {
    let report = report();
    let page = report.to_html();
    let (_, data) = page.split_once("id=\"figures\">").expect("the page has their data");
    let inside: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let files = report.files(Path::new(""));
    let (_, file) = files.iter().find(|(path, _)| path == Path::new("figures.json")).expect("a file");
    assert_eq!(serde_json::from_slice::<Value>(file).unwrap(), inside);
    let models = inside.as_array().unwrap();
    let names: BTreeSet<&str> = models.iter().filter_map(|model| model["name"].as_str()).collect();
    assert_eq!((names.len(), models.len()), (models.len(), page.matches("<figure").count()));
    for name in names {
        assert!(page.contains(&format!("data-figure=\"{name}\"")), "{name}");
    }
}

#[test]
fn every_figure_has_values() {
    for figure in report_figures(&report()) {
        let model = figure.to_json();
        let lists = |list: &Value, key: &str| {
            let items = list.as_array().unwrap().iter();
            items.map(|one| one.get(key).unwrap_or(one).as_array().unwrap().len()).sum::<usize>()
        };
        let values = match model["kind"].as_str() {
            Some("plot") => lists(&model["series"], "y"),
            Some("bars") => lists(&model["series"], "values"),
            _ => lists(&model["values"], "values"),
        };
        assert!(values > 0, "{}", figure.name);
    }
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_from_elsewhere() {
    for report in [report(), idle(), Report { series: Series::default(), ..report() }] {
        let page = without_scripts(&report.to_html());
        let met = assert_well_formed(&page);
        for element in ["link", "img", "iframe", "object", "embed", "use", "image"] {
            assert!(!met.iter().any(|name| name == element), "<{element}> asks for a resource");
        }
        let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for reference in ["http://", "https://", "url(", "@import", "src=", "href="] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(!page.contains("NaN") && !page.contains(">inf"));
    }
}

#[test]
fn the_page_shows_every_drawing_and_keeps_its_size() {
    let page = report().to_html();
    assert_eq!(page.matches("<figure").count(), 23);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("randrw 55 % reads &lt;mixed sizes&gt; &amp; a think time"));
    assert_eq!(idle().to_html().matches("<figure").count(), 0);
}

/// Returns a length of a style rule, in pixels.
fn pixels(style: &str, selector: &str, property: &str) -> f64 {
    let begin = format!("\n{selector} {{");
    let rules = style.split(&begin).skip(1).filter_map(|rule| rule.split('}').next());
    let value = rules.into_iter().find_map(|rule| rule.split(&format!(" {property}: ")).nth(1));
    let number = value.and_then(|value| value.split("px").next()).and_then(|value| value.parse().ok());
    number.unwrap_or_else(|| panic!("no {property} of {selector}"))
}

#[test]
fn the_text_of_drawings_stays_readable_on_narrow_pages() {
    let page = report().to_html();
    let (widest, least) = (640.0, pixels(&page, ".plot", "min-width"));
    for drawing in page.split(" viewBox=\"0 0 ").skip(1) {
        let width: f64 = drawing.split(' ').next().and_then(|width| width.parse().ok()).expect("a width");
        assert!(width <= widest, "{width}");
    }
    let text = least / widest * pixels(&page, ".plot", "font-size");
    assert!(text >= 10.0, "text of {text} pixels");
    assert!(page.contains("\n.scroll, figure { overflow-x: auto; }"), "what does not fit is scrolled to");
}

/// Lists the cards of a page: whether each is wide, and its text up to the next one.
fn cards(page: &str) -> Vec<(bool, &str)> {
    let cards = page.split(" class=\"card").skip(1);
    cards.map(|card| (card.split('"').next().is_some_and(|class| class.contains("wide")), card)).collect()
}

#[test]
fn no_card_stands_alone_in_half_a_row() {
    let mut odd = report();
    odd.directions.write = Direction::default();
    for report in [report(), odd] {
        let page = report.to_html();
        for section in page.split("<section>").skip(1) {
            let mut halves = 0;
            for (wide, card) in cards(section) {
                assert!(!wide || halves % 2 == 0, "an empty half before {card:.200}");
                halves += usize::from(!wide);
            }
            assert_eq!(halves % 2, 0, "an empty half at the end of {section:.60}");
        }
    }
}

#[test]
fn tables_of_many_columns_take_the_whole_width() {
    for (wide, card) in cards(&report().to_html()) {
        let columns = card.split("</thead>").next().map_or(0, |head| head.matches("<th ").count());
        assert!(wide || columns <= 5, "{columns} columns in {card:.200}");
    }
}

#[test]
fn nothing_is_shown_for_work_that_was_not_done() {
    let page = report().to_html();
    for shown in [">Wear</text>", "Where writes went", ">write</text>", ">Latency tail</text>"] {
        assert!(page.contains(shown), "{shown}");
    }
    let mut read_only = report();
    read_only.wear.erases = EraseCounts::of(&[0; 16]);
    read_only.wear.histogram = WearHistogram::of(&[0; 16]);
    read_only.write_amplification = WriteAmplification::new(0, ByCause::default()).into();
    read_only.gc = GcSummary::default().into();
    read_only.directions.write = Direction::default();
    let page = read_only.to_html();
    assert!(!page.contains(">Wear</text>"), "erases of no block");
    assert!(!page.contains("Where writes went"), "a table of zeros");
    assert!(!page.contains(">write</text>"), "a legend of nothing");
    read_only.directions.read.distribution = Default::default();
    assert!(!read_only.to_html().contains(">Latency tail</text>"), "a drawing without a line");
}

#[test]
fn the_text_fits_the_screen_and_says_what_matters() {
    for width in [60, 70, 80, 100, 140] {
        let text = render_text(&report(), width);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
            assert_eq!(line, line.trim_end());
        }
    }
    let text = render_text(&report(), 100);
    assert!(text.lines().count() <= 26, "more than one screen:\n{text}");
    for words in [
        "112,144 requests, 2 m 00 s simulated in 410 ms",
        "where reads wait    queue 1.00 %   link 9.00 %",
        "=  1.87 programmed per host byte",
        "bad blocks 12 (2 grown)",
        "uncorrectable 2",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(!render_text(&idle(), 100).contains("wear"), "parts without data are left out");
    assert!(render_text(&idle(), 100).contains("measured            nothing"), "and this is said");
}

#[test]
fn columns_stay_apart_however_long_their_numbers_are() {
    let mut slow = report();
    for direction in [&mut slow.directions.read, &mut slow.directions.write] {
        direction.requests = 3_000_000_000;
        (direction.iops, direction.throughput_bytes_per_second) = (1.11e-7, 0.000_455);
    }
    for width in [60, 70, 80, 100, 140] {
        let text = render_text(&slow, width);
        let row = text.lines().find(|line| line.starts_with("  read")).expect("a row of reads");
        assert!(row.chars().count() <= width, "{row}");
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[..2], ["read", "3,000,000,000"], "{row}");
        if width == 140 {
            assert_eq!(cells[3..5], ["0.000000111", "0.000455 B/s"], "{row}");
        }
    }
}

#[test]
fn drives_stand_side_by_side_with_changes_from_the_first() {
    let first = report();
    let mut second = report();
    second.drive.name = "a drive with quite a long name indeed".into();
    second.requests *= 2;
    second.directions.read.latency.p50_ns = first.directions.read.latency.p50_ns.map(|ns| ns / 2);
    second.write_amplification.total = None;
    let text = render_compare(&[first, second, idle()]);
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).map(str::to_string);
    assert!(
        row("requests").unwrap().contains(" +100 %  "),
        "more requests are neither better nor worse: {text}"
    );
    assert!(row("read p50").unwrap().contains("-50.0 % better"), "{text}");
    assert!(row("write amplification").unwrap().trim_end().ends_with("-"), "{text}");
    assert_eq!(row("trim"), None, "no drive trimmed");
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    assert_eq!(render_compare(&[]), "");
}

/// Two policies that differ by five percent are distinguished, and the better one is named.
#[test]
fn a_small_difference_is_seen() {
    let (mut first, mut second) = (report(), report());
    (first.write_amplification.total, second.write_amplification.total) = (Some(5.92), Some(6.21));
    second.directions.read.iops = first.directions.read.iops * 1.001;
    let text = render_compare(&[first, second]);
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap();
    let columns = |label: &str| {
        row(label)[LABEL..].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(columns("write amplification"), ["5.92", "6.21", "+4.90 % worse"], "{text}");
    assert_eq!(columns("read IOPS")[2], "+0.100 % better", "{text}");
    assert_eq!(columns("write p99")[2], "0 %", "the same is neither: {text}");
    const LABEL: usize = 22;
}

#[test]
fn caches_stand_side_by_side_with_their_misses() {
    let figure = |(name, value): (&str, u64)| PartFigure { name: name.into(), value };
    let cached = |hits, misses| {
        let figures =
            [("read_hits", hits), ("read_misses", misses), ("memory_bytes", 2048)].map(figure).to_vec();
        Report { parts: vec![PartFigures { part: "cache".into(), figures }], ..report() }
    };
    let text = render_compare(&[cached(75, 25), cached(50, 50), idle()]);
    let row = |label: &str| text.lines().find(|line| line.starts_with(label)).map(str::to_string);
    let misses = row("cache read misses").unwrap();
    assert!(
        misses.contains("25.0 %") && misses.contains("+100 % worse") && misses.trim_end().ends_with('-'),
        "{text}"
    );
    assert!(row("host memory").unwrap().contains("2"), "{text}");
    let text = render_compare(&[report(), idle()]);
    assert!(!text.contains("cache read misses"), "no drive has a cache: {text}");
}

/// A part with counters of its own has every counter on the page, and is in the text even if it counted nothing.
#[test]
fn a_layer_is_on_the_page_and_in_the_text() {
    let with = |value| {
        let figures = vec![PartFigure { name: "delayed_writes".into(), value }];
        Report { parts: vec![PartFigures { part: "delay".into(), figures }], ..report() }
    };
    let page = render_html(&with(1234));
    assert!(page.contains("Parts above the flash") && page.contains("<h3>delay</h3>"), "{page}");
    assert!(page.contains("delayed writes") && page.contains("1,234"), "{page}");
    assert!(render_html(&with(0)).contains("<h3>delay</h3>"));
    let line = |value| {
        render_text(&with(value), 100)
            .lines()
            .find(|line| line.starts_with("delay "))
            .map(str::to_string)
            .unwrap()
    };
    assert!(line(1234).contains("delayed_writes 1,234"));
    assert!(line(0).contains("nothing counted"));
}

/// A report of two consecutive jobs, the second without measured work.
fn of_two_jobs() -> Report {
    let whole = report();
    let second = Nanos::from_secs(1);
    let first = JobResult {
        name: "prepare, \"all\"".into(),
        instances: 4,
        time: Span::new(Nanos::ZERO, second),
        requests: whole.all_requests(),
        ..JobResult::default()
    };
    let idle = JobResult { name: "idle".into(), group: 1, instances: 1, ..JobResult::default() };
    Report { jobs: vec![first, idle], ..whole }
}

#[test]
fn jobs_have_rows_of_their_own_and_the_whole_says_what_it_is() {
    let report = of_two_jobs();
    let text = render_text(&report, 100);
    assert!(text.contains("\nall jobs, over the drive's whole 2 m 00 s\n"), "{text}");
    assert!(text.contains("\nprepare, \"all\" x 4, 1.00 s from 0 ns on\n"), "{text}");
    assert!(text.contains("\nidle, 0 ns from 0 ns on\n  none "), "{text}");
    assert!(!render_text(&sample::report(), 100).contains("all jobs"));
    let page = report.to_html();
    assert_well_formed(&without_scripts(&page));
    assert!(page.contains("<h3>prepare, &quot;all&quot; x 4, 1.00 s"), "no table of the job");
    let mut csv = Vec::new();
    jobs::write_csv(&report, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 * 6, "{csv}");
    assert!(csv.contains("\njob,\"idle\",1,1,0,0,0,read,0,0,0,0,0,,,,,,,,\n"), "{csv}");
    let compared = render_compare(&[report.clone(), report]);
    assert!(compared.contains("idle: runtime"), "{compared}");
    // Rows that begin alike are told apart by their ends.
    for end in ["read IOPS", "read mean", "read p99"] {
        assert!(compared.contains(&format!("prepare, \"all\" x 4: {end}  ")), "{compared}");
    }
}

#[test]
fn reads_without_data_have_rows_of_their_own() {
    let mut report = report();
    let mut recorder = RequestRecorder::new();
    recorder.record(&unmapped_read(), 4096);
    report.reads = recorder.finish(Nanos::from_secs(1)).reads;
    let text = render_text(&report, 60);
    assert!(text.contains("\n   unmapped "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(report.to_html().contains("> unmapped</th>"));
    assert!(render_compare(&[report]).contains("unmapped reads        100"));
}

fn unmapped_read() -> Completion {
    Completion {
        tag: 0,
        opcode: Opcode::Read,
        status: Status::Success,
        submitted: SimTime(5),
        completed: SimTime(9),
        stages: Default::default(),
        data: Vec::new(),
        result: 0,
        unmapped: 8,
        vector: None,
    }
}

#[test]
fn wear_statistics_match_a_direct_count() {
    let counts = [3, 3, 5, 9, 200];
    let spread = EraseCounts::of(&counts);
    assert_eq!((spread.min, spread.max, spread.total, spread.mean), (3, 200, 220, 44.0));
    assert!((spread.stddev - 6088.8f64.sqrt()).abs() < 1e-9, "{}", spread.stddev);
    let histogram = WearHistogram::of(&counts);
    assert_eq!(histogram.bin_erases, 4);
    assert!(histogram.blocks.len() <= 64);
    assert_eq!(histogram.blocks.iter().sum::<u64>(), 5);
    assert_eq!((histogram.blocks[0], histogram.blocks[1]), (3, 1));
    assert_eq!(histogram.from_erases[1], 7);
    assert_eq!(WearHistogram::of(&[]), WearHistogram::default());
    assert_eq!(WearHistogram::of(&[7, 7]).blocks, [2]);
    let whole = WearHistogram::of(&[0, u32::MAX]);
    assert_eq!((whole.blocks.first(), whole.blocks.last()), (Some(&1), Some(&1)));
}

#[test]
fn a_drive_that_was_not_written_has_no_write_amplification() {
    let mut programmed = ByCause::default();
    programmed[Cause::Journal] = 4096;
    let amplification = WriteAmplification::new(0, programmed);
    assert_eq!(amplification.total, None);
    assert_eq!(amplification.programmed_bytes_total, 4096);
    assert_eq!(amplification.ratio[Cause::Journal], None);
}
