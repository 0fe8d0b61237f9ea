//! `--film`: what is written, that it is bounded and changes nothing, and what is refused.

use crate::common::Folder;
use serde_json::Value;

const WORK: [&str; 9] =
    ["--rw", "randwrite", "--bs", "4k", "--iodepth", "8", "--number-ios", "20000", "--quiet"];

/// The films of a page.
fn films(folder: &Folder, page: &str) -> Vec<Value> {
    let page = std::fs::read_to_string(folder.path(page)).expect("the page");
    let (_, data) = page.split_once("id=\"films\">").expect("its films");
    serde_json::from_str(data.split("</script>").next().unwrap()).expect("JSON")
}

fn sum(film: &Value, column: &str) -> u64 {
    let of = |at: Option<&Value>| at.and_then(Value::as_u64).unwrap();
    let values = film[column].as_array().unwrap();
    of(values.last()) - of(values.first())
}

#[test]
fn a_film_is_a_page_of_the_report_and_changes_nothing_in_it() {
    let folder = Folder::with_drive();
    let run = |more: &[&str]| folder.run(&[&["run", "tiny.toml"], &WORK[..], more].concat()).answer();
    let with = run(&["--report", "with", "--film"]);
    let without = run(&["--report", "without"]);
    let results =
        |text: &str| text.split("gc ").nth(1).unwrap().split("\nreport ").next().unwrap().to_string();
    assert_eq!(results(&with), results(&without));
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.path("with/report.json")).unwrap()).unwrap();
    let [film] = &films(&folder, "with/film.html")[..] else { panic!("one film") };
    assert_eq!(film["grid"]["cells_per_die"], 24);
    assert_eq!(film["frame_bytes"].as_array().unwrap().len(), film["at"].as_array().unwrap().len());
    assert!(film["at"].as_array().unwrap().len() > 100, "frames");
    assert_eq!(sum(film, "victims"), report["gc"]["victims"].as_u64().unwrap());
    assert_eq!(sum(film, "copied_units"), report["gc"]["copied_units"].as_u64().unwrap());
    let length = film["at"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    assert_eq!(length as f64 / 1e9, report["simulated_seconds"].as_f64().unwrap());
    let page = std::fs::read_to_string(folder.path("with/index.html")).unwrap();
    assert!(page.contains("href=\"film.html\""));
    let still = std::fs::read_to_string(folder.path("with/film.svg")).unwrap();
    assert!(still.starts_with("<svg") && still.contains("randwrite bs=4k"));
    assert!(!folder.path("without/film.html").exists());
    // A report in its place takes the film away.
    run(&["--report", "with"]);
    assert!(!folder.path("with/film.html").exists());
}

#[test]
fn drives_side_by_side_have_one_film_and_one_clock() {
    let folder = Folder::with_drive();
    let drives = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--report", "both", "--film"];
    folder.run(&[&drives[..], &WORK].concat()).answer();
    let films = films(&folder, "both/film.html");
    let names: Vec<_> = films.iter().map(|film| film["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["victim=greedy", "victim=fifo"]);
    assert!(
        films.iter().all(|film| film["clock"] == "simulated_ns"
            && !film["curves"]["seconds"].as_array().unwrap().is_empty())
    );
    assert!(folder.path("both/victim=fifo/film.html").exists());
}

#[test]
fn an_aged_drive_has_a_film_by_bytes_written() {
    let folder = Folder::with_drive();
    let said =
        folder.run(&["age", "tiny.toml", "--overwrite", "1", "-o", "aged.pellucid", "--film"]).answer();
    assert!(said.contains("aged.film.html"), "{said}");
    let [film] = &films(&folder, "aged.film.html")[..] else { panic!("one film") };
    assert_eq!(film["clock"], "written_bytes");
    assert!(film["at"].as_array().unwrap().len() > 100, "frames");
    // 90 % of the capacity, once in order and once at random.
    let written = film["at"].as_array().unwrap().last().unwrap().as_u64().unwrap();
    let probe = ["run", "tiny.toml", "--rw", "randread", "--number-ios", "1", "--json"];
    let capacity = folder.run(&probe).json()["drive"]["capacity_bytes"].as_u64().unwrap();
    let times = written as f64 / capacity as f64;
    assert!((times - 1.8).abs() < 0.01, "written {times} times");
    assert!(sum(film, "erases") > 10);
}

#[test]
fn films_without_a_place_or_blocks_are_refused() {
    let folder = Folder::with_drive();
    folder.write("aged.film.html", "<p>mine</p>");
    for (words, why) in [
        (
            "run tiny.toml --rw randread --number-ios 9 --film",
            "a page of the report; allowed: with --report DIR",
        ),
        ("run wd1502faex --rw randread --number-ios 9 --film --report out", "is a disk, which has no blocks"),
        (
            "run tiny.toml --rw randread --number-ios 9 --film --seeds 3",
            "--film and --seeds do not go together",
        ),
        (
            "age tiny.toml -o aged.pellucid --film",
            "aged.film.html: exists, and this command did not write it",
        ),
        ("show tiny.toml --film", "--film"),
    ] {
        let done = folder.run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(done.status, 2, "{words}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{words}: {}", done.stderr);
    }
}
