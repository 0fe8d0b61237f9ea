use super::*;

/// Checks that every element is closed in the right order and every attribute is quoted; returns the elements.
pub(crate) fn assert_well_formed(xml: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut met = Vec::new();
    let body = xml.strip_prefix("<!DOCTYPE html>\n").unwrap_or(xml);
    for (i, piece) in body.trim_end().split('<').enumerate() {
        if i == 0 {
            assert_eq!(piece, "", "text before the first element");
            continue;
        }
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("no end of <{piece}"));
        assert!(!open.is_empty() || i == 1 || tag == "/svg" || tag == "/html", "second root: <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in the wrong order");
        } else {
            let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
            assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
            met.push(name.to_string());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        let entities = text.split('&').skip(1).chain(tag.split('&').skip(1));
        for entity in entities {
            let name = entity.split(';').next().unwrap_or_default();
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "unescaped & before {name:.20}");
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "never closed");
    met
}

fn plot(y: Axis, points: Vec<(f64, f64)>) -> String {
    Plot::new("a <b> & \"c\"").x_axis(Axis::linear("x", Unit::Plain)).y_axis(y).line("l", points).to_svg()
}

#[test]
fn hostile_names_and_odd_values_still_give_well_formed_drawings() {
    let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, -5.0), (3.0, f64::INFINITY), (4.0, 1e300)];
    for y in
        [Axis::linear("<y>", Unit::Bytes), Axis::log("y & z", Unit::Nanos), Axis::doubling("z", Unit::Count)]
    {
        for points in [points.clone(), vec![], vec![(7.0, 7.0)]] {
            let svg = plot(y.clone(), points);
            assert_well_formed(&svg);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
    for bars in [Bars::Stacked, Bars::Grouped] {
        let empty = BarChart::new("none", bars).to_svg();
        let short = BarChart::new("few", bars).categories(["a", "<b>"]).series("s", vec![f64::NAN]).to_svg();
        assert_well_formed(&empty);
        assert!(!assert_well_formed(&short).is_empty() && !short.contains("NaN"));
    }
    let ragged = vec![vec![0.5, 2.0, f64::NAN], vec![], vec![1.0]];
    assert_well_formed(&HeatMap::new("ragged", "row", "column", ragged).to_svg());
    assert_well_formed(&HeatMap::new("empty", "row", "column", vec![]).to_svg());
}

#[test]
fn a_line_goes_through_its_points_and_breaks_at_gaps() {
    let points = vec![(0.0, 0.0), (5.0, 10.0), (6.0, f64::NAN), (10.0, 5.0)];
    let svg = plot(Axis::linear("y", Unit::Plain).from(0.0), points);
    // The frame of a plot with one row of legend is 556 units wide from 66 on and 185 high down to 258.
    assert!(svg.contains("d=\"M66.0 258.0h0L344.0 73.0M622.0 165.5h0\""), "{svg}");
}

#[test]
fn ticks_are_round_and_cover_the_values() {
    let words = |axis: Axis, values: &[f64]| -> Vec<String> {
        axis.scale(values.iter().copied()).ticks.into_iter().filter_map(|tick| tick.1).collect()
    };
    let bytes = words(Axis::linear("", Unit::BytesPerSecond).from(0.0), &[3.0e7]);
    assert_eq!(bytes, ["0", "10 MB/s", "20 MB/s", "30 MB/s"]);
    let latency = words(Axis::log("", Unit::Nanos), &[15_000.0, 21_000_000.0]);
    assert_eq!(latency, ["10 us", "100 us", "1 ms", "10 ms"]);
    let narrow = words(Axis::log("", Unit::Nanos), &[90_000.0, 410_000.0]);
    assert_eq!(narrow, ["50 us", "100 us", "200 us", "500 us"]);
    let hours = words(Axis::linear("", Unit::Seconds).from(0.0).to(7200.0), &[]);
    assert_eq!(hours, ["0", "30 m", "1 h", "1 h 30 m", "2 h"]);
    let shares = words(Axis::log("", Unit::Percent).to(1.0), &[0.000_2, 1.0]);
    assert_eq!(shares, ["0.1 %", "1 %", "10 %", "100 %"]);
    let sizes = words(Axis::doubling("", Unit::BinaryBytes), &[4096.0, 40_000.0]);
    assert_eq!(sizes, ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
    let depths = words(Axis::doubling("", Unit::Count), &[1.0, 8.0]);
    assert_eq!(depths, ["1", "2", "4", "8"]);
    let same = words(Axis::linear("", Unit::Plain), &[4.0, 4.0]);
    assert!(same.len() >= 2, "a single value still has an axis: {same:?}");
}

#[test]
fn stacked_bars_lie_end_to_end_in_proportion() {
    let svg = BarChart::new("t", Bars::Stacked)
        .value_axis(Axis::linear("v", Unit::Percent).to(1.0))
        .categories(["a"])
        .series("one", vec![0.25])
        .series("two", vec![0.75])
        .to_svg();
    let bars: Vec<(f64, f64)> = svg
        .split("<rect class=\"bar")
        .skip(1)
        .map(|bar| (attribute(bar, " x=\""), attribute(bar, "width=\"")))
        .collect();
    assert_eq!(bars.len(), 2);
    assert!((bars[0].0 + bars[0].1 - bars[1].0).abs() < 0.11, "{bars:?}");
    assert!((bars[1].1 / bars[0].1 - 3.0).abs() < 0.01, "{bars:?}");
}

fn attribute(element: &str, name: &str) -> f64 {
    let value = element.split(name).nth(1).and_then(|rest| rest.split('"').next());
    value.and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_standalone_file_carries_its_style_and_its_name_space() {
    let file = standalone(&plot(Axis::linear("y", Unit::Plain), vec![(0.0, 1.0), (1.0, 2.0)]));
    assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    let met = assert_well_formed(&file);
    assert_eq!(met[1], "style");
}

/// Most programs that show SVG files do not support custom properties, and draw black where a colour is one.
#[test]
fn a_standalone_file_carries_plain_colours() {
    let heat = HeatMap::new("t", "row", "column", vec![vec![0.5]]).to_svg();
    let file = standalone(&heat);
    for (variable, colour) in [("heat", "#1f5fbf"), ("cell", "#edf1f6"), ("paper", "#ffffff")] {
        assert!(file.contains(&format!(".plot .{variable} {{ fill: {colour}; }}")), "{variable}");
    }
    assert!(!file.contains("var(") && !file.contains("--"), "a custom property");
    assert!(file.contains(&plain_style()), "other colours than those of today");
}

fn heats(svg: &str) -> Vec<f64> {
    let cells = svg.split("<rect class=\"heat\"").skip(1).filter(|cell| cell.contains("<title>"));
    cells.map(|cell| attribute(cell, "fill-opacity=\"")).collect()
}

#[test]
fn the_scale_of_a_heat_map_is_that_of_its_values() {
    let svg =
        HeatMap::new("t", "row", "column", vec![vec![0.0, 0.002, 0.01], vec![0.02, 0.04, 0.04]]).to_svg();
    let heats = heats(&svg);
    assert!(heats[0] == 0.0 && heats[1] > 0.1, "busy or idle: {heats:?}");
    assert!(heats.is_sorted() && heats[5] == 1.0 && heats[2] < heats[3], "{heats:?}");
    assert!(svg.contains(">4 %</text>") && !svg.contains(">100 %<"), "the end of the scale: {svg}");
}

#[test]
fn one_busy_cell_does_not_make_the_others_look_idle() {
    let mut dies = vec![vec![0.01; 8]; 8];
    dies[3][3] = 1.0;
    let svg = HeatMap::new("t", "row", "column", dies).to_svg();
    assert_eq!(heats(&svg).iter().filter(|heat| **heat > 0.1).count(), 64);
    let idle = HeatMap::new("t", "row", "column", vec![vec![0.0; 4]]).to_svg();
    assert!(heats(&idle).iter().all(|heat| *heat == 0.0) && !idle.contains("NaN"));
}

/// Bars of stages and causes are stacked: two parts of one colour could not be told apart.
#[test]
fn every_stage_and_cause_has_a_colour_of_its_own() {
    const { assert!(pellucid_flash::Stage::COUNT <= COLOURS && pellucid_flash::Cause::COUNT <= COLOURS) };
    for n in 0..COLOURS {
        assert_eq!(STYLE.matches(&format!("--c{n}: #")).count(), 2, "colour {n}, light and dark");
        assert!(STYLE.contains(&format!(".s{n} {{")) && STYLE.contains(&format!(".f{n} {{")), "colour {n}");
    }
}
