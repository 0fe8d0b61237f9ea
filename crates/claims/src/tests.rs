use super::*;
use pellucid_report::plot::Unit;
use std::collections::BTreeSet;

/// The index page, with the known misses.
const INDEX: &str = include_str!("../../../docs/explanation/reproduce.md");

/// The pages of the papers, in the order of the claims.
const PAGES: &str = concat!(
    include_str!("../../../docs/explanation/papers/cosmos-plus.md"),
    include_str!("../../../docs/explanation/papers/lightnvm.md"),
    include_str!("../../../docs/explanation/papers/beyond.md"),
    include_str!("../../../docs/explanation/papers/prism.md"),
    include_str!("../../../docs/explanation/papers/jasmine.md"),
    include_str!("../../../docs/explanation/papers/flashfire.md"),
);

#[test]
fn identifiers_are_unique_and_no_name_of_a_paper() {
    let ids: BTreeSet<&str> = claims().iter().map(|claim| claim.id).collect();
    assert_eq!(ids.len(), claims().len());
    assert!(!claims().iter().any(|claim| ids.contains(claim.paper.name())));
}

#[test]
fn every_claim_is_documented_as_it_is_defined() {
    // One row per claim: | id | where | claim | holds when |.
    let rows = PAGES.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.split(" | ").collect()).filter(|r: &Vec<_>| r.len() == 4).collect();
    let is_id = |text: &str| {
        text.starts_with(char::is_uppercase) && text.ends_with(|c: char| c.is_ascii_digit()) && text.len() < 4
    };
    let documented: Vec<[&str; 4]> =
        rows.iter().filter(|row| is_id(row[0])).map(|row| [row[0], row[1], row[2], row[3]]).collect();
    let defined: Vec<[&str; 4]> = claims().iter().map(|c| [c.id, c.place, c.text, c.holds_when]).collect();
    assert_eq!(documented, defined);
    for claim in claims() {
        assert!(PAGES.contains(&format!("\n### {}\n", claim.id)), "{} has no section", claim.id);
    }
}

#[test]
fn claims_are_selected_by_identifier_and_paper() {
    let ids = |names: &[&str]| -> Vec<&str> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        select(&names).unwrap().iter().map(|claim| claim.id).collect()
    };
    assert_eq!(ids(&["c10", "B1", "C10"]), ["C10", "B1"]);
    assert_eq!(ids(&["theory"]), ["B1", "B5", "B6", "B8", "B4"]);
    assert_eq!(ids(&["prism"]), ["P1", "P2", "P3", "P4", "P5", "P6", "U1", "U2", "G1"]);
    assert_eq!(ids(&["Cosmos-Plus"]).len(), 15);
    assert_eq!(ids(&[]).len(), claims().len());
    let error = select(&["C99".into()]).err().unwrap().to_string();
    assert!(error.starts_with("C99: neither a claim nor a paper; allowed: C1, C2, "), "{error}");
    assert!(
        error.ends_with(
            "F8; cosmos-plus, lightnvm, theory, cachelib, zns, data-sheets, prism, jasmine, flashfire"
        ),
        "{error}"
    );
}

#[test]
fn a_check_holds_up_to_its_limit_and_not_beyond() {
    let check = |measured, limit| {
        let check = Check { published: Some(100.0), ..Check::bound("x", Unit::Plain, measured, limit) };
        check.verdict()
    };
    for (limit, inside, outside) in [
        (Limit::Within(0.05), [96.0, 104.0], [94.0, 106.0]),
        (Limit::Points(3.0), [97.5, 102.5], [96.0, 104.0]),
        (Limit::AtLeast(7.5), [7.5, 9.0], [7.4, -1.0]),
        (Limit::AtMost(0.0), [0.0, -1.0], [0.1, 5.0]),
        (Limit::Between(0.4, 0.6), [0.41, 0.59], [0.39, 0.61]),
    ] {
        for measured in inside {
            assert_eq!(check(measured, limit), Verdict::Holds, "{measured} {limit:?}");
        }
        for measured in [outside[0], outside[1], f64::NAN] {
            assert_eq!(check(measured, limit), Verdict::Misses, "{measured} {limit:?}");
        }
    }
}

/// A number beyond its limit is in range if a value of an unknown meets the limit or the published number lies between two values; it contradicts if
/// all values are on one side.
#[test]
fn what_is_unknown_decides_between_in_range_and_contradicts() {
    let range = |numbers: &[f64]| Range {
        unknown: "u",
        points: numbers.iter().map(|&number| (number.to_string(), number)).collect(),
    };
    let check = |measured, limit, ranges| Check {
        published: Some(100.0),
        ranges,
        ..Check::bound("x", Unit::Plain, measured, limit)
    };
    let (near, spans, below) = (range(&[50.0, 96.0]), range(&[50.0, 150.0]), range(&[50.0, 94.0]));
    let verdict = |ranges: &[&Range]| {
        check(50.0, Limit::Within(0.05), ranges.iter().map(|&range| range.clone()).collect()).verdict()
    };
    assert_eq!(verdict(&[]), Verdict::Misses);
    assert_eq!(verdict(&[&near]), Verdict::InRange);
    assert_eq!(verdict(&[&spans]), Verdict::InRange);
    assert_eq!(verdict(&[&below]), Verdict::Contradicts);
    assert_eq!(verdict(&[&below, &near]), Verdict::InRange);
    // Two unknowns on two sides of the number prove nothing: each is varied alone.
    assert_eq!(verdict(&[&below, &range(&[106.0, 150.0])]), Verdict::Contradicts);
    assert_eq!(check(99.0, Limit::Within(0.05), vec![below.clone()]).verdict(), Verdict::Holds);
    let order = |ranges| Check { published: None, ..check(1.1, Limit::AtMost(1.0), ranges) }.verdict();
    assert_eq!(order(vec![range(&[1.1, 0.9])]), Verdict::InRange);
    assert_eq!(order(vec![range(&[1.1, 1.05])]), Verdict::Contradicts);
}

/// Only checks beyond their limits are varied, and nothing is measured if all hold.
#[test]
fn settings_are_varied_for_checks_beyond_their_limits_alone() {
    let bench = Bench::new(1, 1, Vec::new());
    let checks = |b: f64| {
        vec![
            Check::within("a", Unit::Plain, 1.0, 1.0, 0.1),
            Check::within("b", Unit::Plain, 1.0, b, 0.1),
            Check::shown("c", Unit::Plain, None, b),
        ]
    };
    let unknown = ("u", "1.5");
    let mut open = checks(1.5);
    vary(&bench, &mut open, unknown, &[("0.5", 0.5), ("2", 2.0)], |&b| Ok(checks(b))).unwrap();
    assert_eq!([&open[0], &open[2]].map(|check| check.ranges.len()), [0, 0]);
    let points = vec![("1.5".to_string(), 1.5), ("0.5".to_string(), 0.5), ("2".to_string(), 2.0)];
    assert_eq!(open[1].ranges, [Range { unknown: "u", points }]);
    assert_eq!(open[1].verdict(), Verdict::InRange);
    vary(&bench, &mut checks(1.0), unknown, &[("2", 2.0)], |_| panic!("all holds")).unwrap();
    let words = render_ranges(&Outcome { checks: open, figures: Vec::new() });
    assert_eq!(words, "     range: b: u: 1.500 with 1.5, 0.500 with 0.5, 2.000 with 2\n");
}

#[test]
fn a_claim_is_as_good_as_its_worst_check() {
    let good = Check::within("a", Unit::Plain, 1.0, 1.0, 0.1);
    let near = Check::within("b", Unit::Plain, 1.0, 1.09, 0.1);
    let bad = Check::within("c", Unit::Plain, 1.0, 1.2, 0.1);
    // Beyond its limit, with an unknown setting that decides.
    let point = |measured: f64| (measured.to_string(), measured);
    let unknown = Range { unknown: "u", points: vec![point(1.3), point(1.0)] };
    let open = Check { ranges: vec![unknown], ..Check::within("d", Unit::Plain, 1.0, 1.3, 0.1) };
    let outcome = |checks: &[&Check]| Outcome {
        checks: checks.iter().map(|&check| check.clone()).collect(),
        figures: Vec::new(),
    };
    let headline = |outcome: &Outcome| outcome.headline().map(|check| check.what.clone());
    assert_eq!(outcome(&[&good, &near]).verdict(), Verdict::Holds);
    assert_eq!(headline(&outcome(&[&good, &near])), Some(near.what.clone()));
    assert_eq!(outcome(&[&good, &open]).verdict(), Verdict::InRange);
    assert_eq!(headline(&outcome(&[&open, &good])), Some(open.what.clone()));
    assert_eq!(outcome(&[&open, &bad, &near]).verdict(), Verdict::Misses);
    assert_eq!(headline(&outcome(&[&open, &bad, &near])), Some(bad.what.clone()));
    assert_eq!(headline(&outcome(&[&open])), Some(open.what.clone()));
    assert_eq!(outcome(&[]).verdict(), Verdict::Misses);
}

#[test]
fn what_is_known_to_miss_is_of_a_claim_and_explained() {
    for known in KNOWN_MISSES {
        let claim = claims().iter().find(|claim| claim.id == known.claim);
        assert!(claim.is_some(), "{known:?}");
        let row = format!("| {} | ", known.claim);
        let misses = |line: &str| line.starts_with(&row) && line.contains("misses");
        assert!(PAGES.lines().any(misses), "{known:?}: no result that says so");
        let (_, listed) = INDEX.split_once("## Known misses").unwrap();
        let named = |line: &str| line.split('|').nth(1).is_some_and(|cell| cell.contains(known.claim));
        assert!(listed.lines().any(named), "{known:?}: not in the index");
    }
}

#[test]
fn a_known_miss_is_told_from_news_and_from_one_that_is_over() {
    let claim = select(&["B3".into()]).unwrap()[0];
    let of_claim: Vec<&KnownMiss> = KNOWN_MISSES.iter().filter(|known| known.claim == "B3").collect();
    let misses = |what: &str| Check::within(what, Unit::Nanos, 100.0, 90.0, 0.05);
    let outcome = |checks: Vec<Check>| Outcome { checks, figures: Vec::new() };
    let all = outcome(of_claim.iter().map(|known| misses(known.check)).collect());
    let as_known = standing(claim, &all);
    assert_eq!((as_known.known.len(), as_known.unknown.len(), as_known.over.len()), (of_claim.len(), 0, 0));
    assert_eq!(as_known.word(&all), "misses, known");
    let reasons = render_known(claim, &all);
    assert!(of_claim.iter().all(|known| reasons.contains(known.reason)), "{reasons}");

    let other = outcome(vec![misses(of_claim[0].check), misses("zones, write amplification, largest")]);
    let news = standing(claim, &other);
    assert_eq!((news.known.len(), news.unknown.len()), (1, 1));
    assert_eq!(news.word(&other), "misses");
    assert_eq!(news.over, of_claim[1..]);
    let over = format!("known to miss, but holds now: {}", of_claim[1].check);
    assert!(render_known(claim, &other).contains(&over));

    // A miss of the same words in another claim is news.
    let c7 = select(&["C7".into()]).unwrap()[0];
    assert_eq!(standing(c7, &all).unknown.len(), of_claim.len());
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_cheap_claim_runs_the_same_on_any_number_of_threads() {
    let claim = select(&["C11".into()]).unwrap()[0];
    let [one, three] = [1, 3].map(|threads| claim.run(&Bench::new(threads, 7, Vec::new())).unwrap());
    assert_eq!(one.checks, three.checks);
    assert_eq!(one.verdict(), Verdict::Holds);
    assert_eq!(render_details(&one, false).lines().count(), 1, "the check that decides");
    assert_eq!(render_details(&one, true).lines().count(), 2, "all checks");
}

/// A claim whose first check holds and whose second is in range with the order reversed: the claim's verdict stands alone, and each check has its
/// own.
#[test]
fn the_verdict_of_a_claim_stands_apart_from_those_of_its_checks() {
    let claim = select(&["N2".into()]).unwrap()[0];
    let holds = Check::within("equal", Unit::Plain, 1.0, 1.02, 0.1);
    let points = vec![("here".to_string(), 1.3), ("there".to_string(), 0.9)];
    let reversed = Check {
        ranges: vec![Range { unknown: "u", points }],
        ..Check::bound("below", Unit::Plain, 1.3, Limit::AtMost(1.0)).even_at(1.0)
    };
    let shown = Check::shown("seen", Unit::Plain, None, 7.0);
    let outcome = Outcome { checks: vec![holds, reversed, shown], figures: Vec::new() };
    let own = render_row(claim, &outcome);
    assert!(own.starts_with("N2   Jasmine 4.3, Fig. 8 "), "{own}");
    assert!(own.ends_with(" in range, reversed  1 of 2 checks hold\n"), "{own}");
    assert!(!own.contains("1.0") && !own.contains("1.3"), "no number of a check: {own}");
    let checks = render_details(&outcome, true);
    let ends: Vec<&str> = checks.lines().map(|line| line.split("  ").last().unwrap_or("").trim()).collect();
    assert_eq!(ends, ["equal", "below", "seen"]);
    let words = ["holds", "in range, reversed", "shown"];
    assert!(checks.lines().zip(words).all(|(line, word)| line.contains(word)), "{checks}");

    let table = render_table(&[(claim, outcome.clone())]);
    let cells: Vec<&str> = table.lines().nth(2).unwrap().split(" | ").collect();
    assert_eq!((cells[3], cells[4], cells[7]), ("in range, reversed", "below", "in range, reversed"));
    let page = render_page(&[(claim, outcome.clone())], "pellucid reproduce N2");
    assert!(page.contains("<td>in range, reversed: 1 of 2 checks hold</td><td>below</td>"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&render_json(&[(claim, outcome)])).unwrap();
    let of_claim = &json["claims"][0];
    assert_eq!(
        (&of_claim["verdict"], &of_claim["is_reversed"]),
        (&"in range, reversed".into(), &true.into())
    );
    assert_eq!(of_claim["checks"][0]["verdict"], "holds");
    assert_eq!(of_claim["checks"][1]["verdict"], "in range, reversed");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_scrambler_holds_and_draws_its_six_patterns() {
    let claim = select(&["C10".into()]).unwrap()[0];
    let outcome = claim.run(&Bench::new(2, 1, Vec::new())).unwrap();
    assert_eq!(outcome.verdict(), Verdict::Holds, "{:?}", outcome.checks);
    assert_eq!(outcome.figures.len(), 7);
    let page = render_page(&[(claim, outcome.clone())], "pellucid reproduce C10 <&>");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(&page, options).unwrap_or_else(|error| panic!("{error}"));
    let json: serde_json::Value = serde_json::from_str(&render_json(&[(claim, outcome)])).unwrap();
    assert_eq!(json["all_hold"], true);
    assert_eq!(json["claims"][0]["checks"].as_array().unwrap().len(), 3);
}

#[test]
fn results_stand_in_the_order_of_the_points_and_the_first_failure_counts() {
    let bench = Bench::new(4, 1, Vec::new());
    let points: Vec<u64> = (0..100).collect();
    let squares = bench.map(&points, |n| Ok(n * n)).unwrap();
    assert_eq!(squares, points.iter().map(|n| n * n).collect::<Vec<_>>());
    assert_eq!(bench.map(&[0u8; 0], |_| Ok(0)).unwrap(), [0; 0]);
}

#[test]
fn a_wrong_override_is_refused_by_the_claim_that_meets_it() {
    let claim = select(&["C12".into()]).unwrap()[0];
    let bench = Bench::new(1, 1, vec!["ftl.victm=fifo".into()]);
    let error = claim.run(&bench).err().unwrap().to_string();
    assert!(error.contains("victm: unknown key"), "{error}");
}
