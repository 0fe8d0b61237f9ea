//! `--seeds`: work over several seeds, with intervals.

use crate::common::{Folder, run_in};
use serde_json::{Value, json};

const WORK: [&str; 6] = ["--rw", "randwrite", "--bs", "4k", "--number-ios", "4000"];

/// The values of a measure, by drive.
fn measure<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let measures = answer["measures"].as_array().unwrap();
    &measures.iter().find(|measure| measure["measure"] == name).unwrap_or_else(|| panic!("{name}"))["drives"]
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_values_of_run_are_those_of_single_seeds() {
    let folder = Folder::with_drive();
    let answer = folder.run(&[&["run", "tiny.toml", "--seeds", "3", "--json"], &WORK[..]].concat()).json();
    assert_eq!((&answer["seeds"], &answer["confidence"]), (&json!([1, 2, 3]), &json!(0.95)));
    let found = &measure(&answer, "write amplification")[0];
    let values: Vec<f64> = found["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    for (seed, value) in ["1", "2", "3"].iter().zip(&values) {
        let one = folder.run(&[&["run", "tiny.toml", "--seed", seed, "--json"], &WORK[..]].concat()).json();
        assert_eq!(one["write_amplification"]["total"].as_f64(), Some(*value), "seed {seed}");
    }
    let mean = values.iter().sum::<f64>() / 3.0;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert!(deviation > 0.0, "{values:?}");
    assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!((found["half_width"].as_f64().unwrap() - 4.302_653 * deviation / 3f64.sqrt()).abs() < 1e-6);
    let from =
        folder.run(&[&["run", "tiny.toml", "--seeds", "2", "--seed", "7", "--json"], &WORK[..]].concat());
    assert_eq!(from.json()["seeds"], json!([7, 8]));
    let set = ["run", "tiny.toml", "--seeds", "2", "--set", "run.seed=9", "--json"];
    let from = folder.run(&[&set[..], &WORK[..]].concat()).json();
    assert_eq!(from["seeds"], json!([9, 10]));
    let one = folder.run(&[&["run", "tiny.toml", "--seed", "10", "--json"], &WORK[..]].concat()).json();
    let last = &measure(&from, "write amplification")[0]["values"][1];
    assert_eq!(&one["write_amplification"]["total"], last, "the second seed is used");
    let text = folder.run(&[&["run", "tiny.toml", "--seeds", "3"], &WORK[..]].concat()).answer();
    assert!(text.contains("3 seeds") && text.contains(" ± ") && text.contains("Student's t"), "{text}");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn compare_tells_a_difference_from_chance() {
    let folder = Folder::with_drive();
    let words =
        ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "tiny.toml,ftl.victim=greedy", "--seeds", "4"];
    let answer = folder.run(&[&words[..], &["--json"], &WORK[..]].concat()).json();
    let found = measure(&answer, "write amplification");
    assert_eq!(found[1]["difference"]["is_larger_than_chance"], true, "{found:#}");
    assert!(found[1]["difference"]["mean"].as_f64().unwrap() > 0.0);
    // The third is the first in other words.
    assert_eq!(
        found[2]["difference"],
        json!({ "mean": 0.0, "half_width": 0.0, "is_larger_than_chance": false })
    );
    let text = folder.run(&[&words[..], &WORK[..]].concat()).answer();
    let line = text.lines().find(|line| line.starts_with("write amplification")).unwrap();
    assert!(line.contains(" worse ") && line.ends_with(" equal"), "{line}");
    // The seed of the first drive is where they count from.
    let own = ["compare", "tiny.toml,run.seed=4", "tiny.toml,run.seed=5", "--seeds", "2", "--json"];
    let own = folder.run(&[&own[..], &WORK[..]].concat()).json();
    assert_eq!(own["seeds"], json!([4, 5]));
    assert_eq!(measure(&own, "write amplification")[1]["difference"]["mean"], 0.0, "both do the same work");
}

#[test]
fn what_cannot_be_repeated_over_seeds_is_refused() {
    let folder = Folder::with_drive();
    folder.write("t.csv", "0,host,0,Write,0,4096,10\n");
    folder.write("traced.toml", &format!("{}[run]\ntrace = \"t.csv\"\n", crate::common::TINY));
    let media = ["media.store=file", "media.path=flash.img", "ftl.durability=journal"]
        .map(|set| ["--set", set])
        .concat();
    fn run<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["run", "tiny.toml", "--seeds", "2"], &WORK[..], words].concat()
    }
    let compare = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--seeds", "2", "--trace", "t.csv"];
    for (words, why) in [
        (run(&["--log", "l.csv"]), "--log"),
        (run(&["--monitor", "0"]), "--monitor and --seeds do not go together"),
        (run(&["--output-format", "json"]), "--output-format and --seeds do not go together"),
        (run(&["--set", "run.log=l.csv"]), "run.log is of one run"),
        (run(&["--seed", "9223372036854775807"]), "the last seed is not below 2^63"),
        (run(&media), "flash.img"),
        (run(&["--randseed", "7"]), "each job has a randseed of its own"),
        (vec!["run", "-", "--seeds", "2"], "can be read only once"),
        (vec!["run", "traced.toml", "--seeds", "2"], "a trace draws nothing at random"),
        (compare.to_vec(), "a trace draws nothing at random"),
        (vec!["run", "tiny.toml", "--seeds", "1"], "allowed: a whole number from 2"),
    ] {
        let done = run_in(&folder.path(""), &words);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{words:?}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{words:?}: {}", done.stderr);
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn numbers_over_seeds_are_kept_with_every_run() {
    let folder = Folder::with_drive();
    let kept =
        folder.run(&[&["run", "tiny.toml", "--seeds", "3", "--report", "r"], &WORK[..]].concat()).answer();
    assert!(kept.contains("r/index.html"), "{kept}");
    let json = folder.run(&[&["run", "tiny.toml", "--seeds", "3", "--json"], &WORK[..]].concat()).json();
    let text = |path: &str| std::fs::read_to_string(folder.path(path)).unwrap();
    let read = |path: &str| -> Value { serde_json::from_str(&text(path)).unwrap() };
    assert_eq!(read("r/seeds.json"), json);
    let page = text("r/index.html");
    for seed in 1..=3 {
        assert!(page.contains(&format!("href=\"seed-{seed}/index.html\"")), "{page}");
        assert_eq!(read(&format!("r/seed-{seed}/report.json"))["seeds"]["workload"], seed);
    }
    assert!(page.contains("<td>write IOPS</td>") && page.contains(" ± "), "{page}");
    // The report of a seed can be repeated, the last one as the first.
    for seed in ["r/seed-1", "r/seed-3"] {
        let again = folder.run(&["rerun", seed]).answer();
        assert!(again.contains("every result is equal bit for bit"), "{again}");
    }
    let compare = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--seeds", "2", "--report", "c"];
    folder.run(&[&compare, &WORK[..]].concat()).answer();
    let page = text("c/index.html");
    assert_eq!(page.matches("/seed-2/index.html").count(), 2, "{page}");
    assert!(page.contains("<th>difference</th>"), "{page}");
    let of_fifo = std::fs::read_dir(folder.path("c")).unwrap().map(|entry| entry.unwrap().path());
    let of_fifo = of_fifo.filter(|path| path.join("seed-2/report.json").exists()).count();
    assert_eq!(of_fifo, 2);
}

#[test]
fn requests_that_fail_are_told_over_seeds_too() {
    let folder = Folder::with_drive();
    let sets = ["--set", "precondition.fill=0", "--set", "media.faults.program_fail=0.9"];
    let words = [&["run", "tiny.toml", "--seeds", "2"], &sets[..]].concat();
    let done = folder.run(&[&words[..], &WORK[..]].concat());
    assert_eq!(done.status, 1, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("write errors") && done.stderr.contains("write requests failed"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_sweep_without_the_python_package_says_how_to_get_it() {
    let folder = Folder::new();
    // Programs that stand in for a Python without the package, and with one of another version.
    for (name, script) in [
        ("without", "echo \"ModuleNotFoundError: No module named 'pellucid'\" >&2; exit 1"),
        ("other", "echo 0.0.7"),
    ] {
        folder.write(name, &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(folder.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    for (python, why) in [
        ("./without", "No module named 'pellucid'"),
        ("./other", "its package is version 0.0.7"),
        ("./none", "No such file"),
    ] {
        let done = folder.run(&["sweep", "plan.toml", "--python", python]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(why) && done.stderr.contains("pip install ."), "{}", done.stderr);
    }
}

#[test]
fn a_sweep_hands_its_words_to_the_python_package() {
    let folder = Folder::new();
    let version = env!("CARGO_PKG_VERSION");
    let script =
        format!("#!/bin/sh\nif [ \"$1\" = -c ]; then echo {version}; else echo \"$@\"; exit 7; fi\n");
    folder.write("python", &script);
    std::fs::set_permissions(folder.path("python"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let words =
        ["sweep", "plan.toml", "--python", "./python", "--on", "local:2", "--out", "d", "--report", "-q"];
    let done = folder.run(&words);
    assert_eq!(done.stdout, "-m pellucid sweep plan.toml --on local:2 --out d --report --quiet\n");
    // The exit status is the package's.
    assert_eq!(done.status, 7);
}
