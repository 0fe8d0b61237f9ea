//! Graphs as they are typed: every program, every format, what is refused, and what is left behind.

use crate::common::Folder;

/// A triangle, a tail, and a vertex by itself.
const EDGES: &str = "# from to weight\n0 1 2\n1 2 2\n2 0 2\n2 3 1.5\n5 5 1\n";

fn rows(folder: &Folder, name: &str, between: char) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.path(name)).unwrap();
    let cells = |line: &str| line.split_once(between).map(|(a, b)| (a.to_string(), b.to_string()));
    text.lines().skip(1).map(|line| cells(line).unwrap()).collect()
}

fn values(folder: &Folder, name: &str) -> Vec<String> {
    rows(folder, name, ',').into_iter().map(|(_, value)| value).collect()
}

#[test]
fn every_program_gives_its_rows() {
    let folder = Folder::new();
    folder.write("edges.txt", EDGES);
    let told = folder.run(&["graph", "pagerank", "edges.txt", "--out", "ranks.csv", "--json"]).json();
    assert_eq!((told["vertices"].as_u64(), told["edges"].as_u64()), (Some(6), Some(5)));
    let ranks: Vec<f64> = values(&folder, "ranks.csv").iter().map(|rank| rank.parse().unwrap()).collect();
    assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-6 && ranks[2] > ranks[3], "{ranks:?}");
    let text = folder.run(&["graph", "components", "edges.txt", "--out", "parts.csv"]).answer();
    assert!(text.contains("component  vertices\n           0  4\n           4  1\n"), "{text}");
    assert_eq!(values(&folder, "parts.csv"), ["0", "0", "0", "0", "4", "5"]);
    folder.run(&["graph", "bfs", "edges.txt", "--from", "1", "--out", "far.csv"]).answer();
    assert_eq!(values(&folder, "far.csv"), ["2", "0", "1", "2", "", ""]);
    folder.run(&["graph", "sssp", "edges.txt", "--from", "1", "--out", "far.tsv"]).answer();
    let far = rows(&folder, "far.tsv", '\t');
    assert_eq!(far[3], ("3".to_string(), "3.5".to_string()));
    let text = folder.run(&["graph", "triangles", "edges.txt"]).answer();
    assert!(text.contains("1 triangles"), "{text}");
    let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
}

#[test]
fn parquet_is_written_and_read_again() {
    let folder = Folder::new();
    folder.write("edges.txt", EDGES);
    folder.run(&["graph", "components", "edges.txt", "--out", "parts.parquet"]).answer();
    // Each vertex and the name of its component are edges, too.
    let words =
        ["graph", "components", "parts.parquet", "--columns", "vertex,component", "--out", "again.csv"];
    folder.run(&words).answer();
    assert_eq!(values(&folder, "again.csv"), ["0", "0", "0", "0", "4", "5"]);
    let refused = folder.run(&["graph", "components", "parts.parquet", "--columns", "vertex,rank"]);
    assert!(refused.status == 2 && refused.stderr.contains("no column rank; allowed: vertex, component"));
}

#[test]
fn what_is_prepared_is_used_again_if_it_is_this_graph() {
    let folder = Folder::new();
    let line = |at: u32| format!("{} {}\n", at * 7 % 30_011, at * at % 29_989);
    folder.write("edges.txt", &(0..120_000).map(|at| line(at % 46_000)).collect::<String>());
    let words = ["graph", "pagerank", "edges.txt", "--memory", "17MiB", "--work", "work", "--keep", "--json"];
    let first = folder.run(&words).json();
    assert!(first["in_memory"] == false && first["reopened"] == false, "{first}");
    let again = folder.run(&words).json();
    assert!(again["reopened"] == true && again["top"] == first["top"], "{again}");
    let whole = folder.run(&["graph", "pagerank", "edges.txt", "--json"]).json();
    assert!(whole["in_memory"] == true && whole["top"] == first["top"], "{whole}");
    folder.write("edges.txt", "0 1\n");
    assert_eq!(folder.run(&words).json()["vertices"], 2);
}

#[test]
fn others_files_are_left_alone() {
    let folder = Folder::new();
    folder.write("edges.txt", EDGES);
    // Another run writes these results.
    let part = std::fs::File::create(folder.path("ranks.csv.part")).unwrap();
    part.lock().unwrap();
    let held = folder.run(&["graph", "pagerank", "edges.txt", "--out", "ranks.csv"]);
    assert!(held.status == 1 && held.stderr.contains("another program is writing it"), "{}", held.stderr);
    assert!(folder.path("ranks.csv.part").exists());
    // A work directory with files that are no segments, and where it cannot be removed.
    let mine = ["lock", "boot", "mine.seg", "run.seg"];
    mine.iter().for_each(|name| folder.write(name, "mine"));
    folder.run(&["graph", "pagerank", "edges.txt", "--work", "."]).answer();
    for name in mine {
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), "mine", "{name}");
    }
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new();
    folder.write("edges.txt", EDGES);
    folder.write("wrong.txt", "0 1\n1 two\n");
    folder.write("large.txt", "0 5000000000\n");
    folder.write("no-banner.mtx", "3 3 1\n1 2\n");
    folder.write("short.bin", "\u{1}\0\0\0\u{2}\0\0\0x");
    std::fs::create_dir(folder.path("folder")).unwrap();
    for (words, said) in [
        (&["bfs", "edges.txt", "--from", "9"][..], "edges.txt: vertex 9 is not in the graph, which has 6"),
        (&["pagerank", "absent.txt"], "absent.txt: No such file"),
        (&["pagerank", "folder"], "folder: is a directory"),
        (&["pagerank", "wrong.txt"], "wrong.txt: line 2: \"two\" is no vertex"),
        (&["pagerank", "large.txt"], "large.txt: line 1: vertex 5000000000 is too large"),
        (&["pagerank", "short.bin", "--format", "binary"], "record 2: 1 bytes, cut short"),
        (&["pagerank", "edges.txt", "--memory", "1"], "--memory 1: too small; allowed: at least 17.0 MiB"),
        (&["pagerank", "edges.txt", "--memory", "lots"], "--memory lots"),
        (&["pagerank", "edges.txt", "--damping", "1.5"], "--damping 1.5; allowed: from 0 to below 1"),
        (&["pagerank", "edges.txt", "--format", "parquet"], "edges.txt"),
        (&["pagerank", "edges.txt", "--out", "absent/ranks.csv"], "absent/ranks.csv: absent is no directory"),
        (&["pagerank", "edges.txt", "--out", "folder"], "folder: a directory; allowed: a file"),
        (&["pagerank", "edges.txt", "--out", "./edges.txt"], "--out ./edges.txt: has the edges"),
        (&["pagerank", "edges.txt", "--out", "ranks.csv.gz"], "ranks.csv.gz: results are not compressed"),
        (
            &["pagerank", "edges.txt", "--out", "ranks.xlsx"],
            "--out ranks.xlsx: no format has the ending .xlsx; allowed: .parquet, .csv, .tsv, .txt, or no ending",
        ),
        (&["pagerank", "edges.txt", "--force"], "--out"),
        (&["pagerank", "no-banner.mtx"], "no-banner.mtx: line 1: no banner of a matrix"),
        (&["triangles", "edges.txt", "--out", "count.csv"], "--out means nothing to triangles"),
        (&["pagerank", "edges.txt", "--columns", "a,b"], "allowed: with Parquet"),
    ] {
        let done = folder.run(&[&["graph"], words].concat());
        assert!(done.status == 2 && done.stderr.contains(said), "{words:?}: {} {}", done.status, done.stderr);
        assert!(words.contains(&"--force") || done.stderr.lines().count() == 1, "{}", done.stderr);
    }
    // Without edges nothing is done.
    folder.write("empty.txt", "# from to\n");
    folder.write("old.csv", "vertex,rank\n0,1\n");
    for words in [
        &["pagerank", "--out", "old.csv"][..],
        &["components"],
        &["triangles"],
        &["bfs", "--from", "0"],
        &["sssp", "--from", "0"],
    ] {
        let done = folder.run(&[&["graph"], &words[..1], &["empty.txt"], &words[1..]].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        assert!(
            done.stderr.contains("empty.txt: it has no edges, so there is nothing to compute"),
            "{}",
            done.stderr
        );
    }
    assert_eq!(std::fs::read_to_string(folder.path("old.csv")).unwrap(), "vertex,rank\n0,1\n");
    folder.write("far.txt", "0 4000000000\n");
    let done = folder.run(&["graph", "components", "far.txt", "--memory", "17MiB"]);
    assert!(
        done.status == 2
            && done.stderr.contains("far.txt: the values of all vertices need at least --memory 29.8 GiB"),
        "{}",
        done.stderr
    );
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn damage_in_a_kept_work_directory_is_named_and_gives_no_result() {
    let folder = Folder::new();
    let line = |at: u32| format!("{} {}\n", at * 7 % 30_011, at * at % 29_989);
    folder.write("edges.txt", &(0..120_000).map(|at| line(at % 46_000)).collect::<String>());
    let run = |iterations: &str| {
        let words = [
            "graph",
            "pagerank",
            "edges.txt",
            "--memory",
            "17MiB",
            "--work",
            "work",
            "--keep",
            "--tolerance",
        ];
        let more = ["0", "--iterations", iterations, "--out", "ranks.csv", "--threads", "1", "--top", "0"];
        folder.run(&[&words[..], &more].concat())
    };
    run("3").answer();
    let entries = || std::fs::read_dir(folder.path("work")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = entries().map(|name| name.into_string().unwrap()).collect();
    let kept: Vec<(String, Vec<u8>)> = names
        .iter()
        .map(|name| (name.clone(), std::fs::read(folder.path("work").join(name)).unwrap()))
        .collect();
    assert!(kept.len() > 10, "{names:?}");
    let put_back = || {
        std::fs::create_dir_all(folder.path("work")).unwrap();
        kept.iter().for_each(|(name, bytes)| std::fs::write(folder.path("work").join(name), bytes).unwrap());
    };
    run("5").answer();
    let ranks = || std::fs::read(folder.path("ranks.csv")).unwrap();
    let (right, mut refused) = (ranks(), 0);
    for (name, bytes) in kept.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            put_back();
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            std::fs::write(folder.path("work").join(name), bad).unwrap();
            std::fs::remove_file(folder.path("ranks.csv")).unwrap();
            let done = run("5");
            let segment = name.trim_end_matches(".seg");
            if done.status == 1 {
                refused += 1;
                assert!(
                    done.stderr.contains(&format!("work: {segment} is damaged: ")),
                    "{name}: {}",
                    done.stderr
                );
                assert!(!folder.path("ranks.csv").exists() && done.stdout.is_empty(), "{name}");
                // The damage is gone with what was kept.
                run("5").answer();
            } else {
                // Iterations are computed anew, and what another start of the machine left is prepared anew.
                assert_eq!(done.status, 0, "{name}: {}", done.stderr);
                let iterations = segment == "state" || segment.starts_with("values");
                assert!(iterations || name == "graph.boot", "{name} at {at}");
                assert_eq!(
                    done.stderr.contains("iterations are not as they were written"),
                    iterations,
                    "{}",
                    done.stderr
                );
            }
            assert!(ranks() == right, "{name} at {at}");
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_matrix_is_recognised_and_keeps_its_numbers() {
    let folder = Folder::new();
    let rest = "\n% a remark\n3 3 2\n1 2\n2 3\n";
    for banner in [
        "%%MatrixMarket matrix coordinate pattern general",
        "%MatrixMarket matrix coordinate pattern general",
        "  %%matrixmarket MATRIX Coordinate Pattern General",
        "\u{feff}%%MATRIXMARKET matrix coordinate pattern general\r",
        "\n%% MatrixMarket matrix coordinate pattern general",
        "% from somewhere\n%MatrixMarket matrix coordinate pattern general",
    ] {
        folder.write("edges", &format!("{banner}{rest}"));
        folder.run(&["graph", "bfs", "edges", "--from", "1", "--out", "far.csv"]).answer();
        let far = rows(&folder, "far.csv", ',');
        let expected = [("1", "0"), ("2", "1"), ("3", "2")].map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(far, expected, "{banner}");
    }
    folder.write("edges.mtx", &format!("%MatrixMarket matrix coordinate pattern symmetric{rest}"));
    folder.run(&["graph", "bfs", "edges.mtx", "--from", "3", "--out", "far.csv"]).answer();
    assert_eq!(values(&folder, "far.csv"), ["2", "1", "0"]);
    folder.run(&["graph", "components", "edges.mtx", "--out", "parts.csv"]).answer();
    assert_eq!(values(&folder, "parts.csv"), ["1", "1", "1"]);
    let told = folder.run(&["graph", "components", "edges.mtx", "--json"]).json();
    assert_eq!(told["top"][0]["component"], 1, "{told}");
    let told = folder.run(&["graph", "pagerank", "edges.mtx", "--json"]).json();
    assert_eq!(told["top"][0]["vertex"], 2, "{told}");
    for from in ["0", "4"] {
        let refused = folder.run(&["graph", "bfs", "edges.mtx", "--from", from]);
        let said = format!("vertex {from} is not in the graph, which has 3, from 1 on");
        assert!(refused.status == 2 && refused.stderr.contains(&said), "{}", refused.stderr);
    }
}

#[test]
fn results_replace_results_and_nothing_else_without_force() {
    let folder = Folder::new();
    folder.write("edges.txt", EDGES);
    folder.write("mine.toml", "[drive]\n");
    let run = |out: &str, more: &[&str]| {
        folder.run(&[&["graph", "pagerank", "edges.txt", "--out", out][..], more].concat())
    };
    for (name, text) in
        [("mine.csv", "name,rank\n"), ("mine.parquet", "PAR1 of somebody"), ("mine", "vertex rank\n")]
    {
        folder.write(name, text);
        let refused = run(name, &[]);
        let said =
            format!("{name}: exists, and this command did not write it; allowed: another name, or --force");
        assert!(refused.status == 2 && refused.stderr.contains(&said), "{}", refused.stderr);
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), text);
        run(name, &["--force"]).answer();
        // Now it is ours.
        run(name, &[]).answer();
    }
    assert_eq!(run("mine.toml", &["--force"]).status, 2, "the ending of no format");
    assert_eq!(std::fs::read_to_string(folder.path("mine.toml")).unwrap(), "[drive]\n");
    run("/dev/null", &[]).answer();
}
