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
    folder.write("short.bin", "\u{1}\0\0\0\u{2}\0\0\0x");
    std::fs::create_dir(folder.path("folder")).unwrap();
    for (words, said) in [
        (&["bfs", "edges.txt", "--from", "9"][..], "edges.txt: vertex 9 is not in the graph, which has 6"),
        (&["pagerank", "absent.txt"], "absent.txt: No such file"),
        (&["pagerank", "folder"], "folder: is a directory"),
        (&["pagerank", "wrong.txt"], "wrong.txt: line 2: \"two\" is no vertex"),
        (&["pagerank", "large.txt"], "large.txt: line 1: vertex 5000000000 is too large"),
        (&["pagerank", "short.bin", "--format", "binary"], "record 2: 1 bytes, cut short"),
        (&["pagerank", "edges.txt", "--memory", "1"], "--memory 1: too little; allowed: from 17.0 MiB on"),
        (&["pagerank", "edges.txt", "--memory", "lots"], "--memory lots"),
        (&["pagerank", "edges.txt", "--damping", "1.5"], "--damping 1.5; allowed: from 0 to below 1"),
        (&["pagerank", "edges.txt", "--format", "parquet"], "edges.txt"),
        (&["pagerank", "edges.txt", "--out", "absent/ranks.csv"], "absent/ranks.csv: absent is no directory"),
        (&["pagerank", "edges.txt", "--out", "folder"], "folder: a directory; allowed: a file"),
        (&["pagerank", "edges.txt", "--out", "./edges.txt"], "--out ./edges.txt: has the edges"),
        (&["pagerank", "edges.txt", "--out", "ranks.csv.gz"], "ranks.csv.gz: results are not compressed"),
        (&["triangles", "edges.txt", "--out", "count.csv"], "--out means nothing to triangles"),
        (&["pagerank", "edges.txt", "--columns", "a,b"], "allowed: with Parquet"),
    ] {
        let done = folder.run(&[&["graph"], words].concat());
        assert!(done.status == 2 && done.stderr.contains(said), "{words:?}: {} {}", done.status, done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    }
    // Without edges there is nothing to find, and nothing wrong.
    folder.write("empty.txt", "# from to\n");
    for program in ["pagerank", "components", "triangles"] {
        let told = folder.run(&["graph", program, "empty.txt", "--json"]).json();
        assert_eq!((told["vertices"].as_u64(), told["edges"].as_u64()), (Some(0), Some(0)), "{program}");
    }
    let refused = folder.run(&["graph", "bfs", "empty.txt", "--from", "0"]);
    assert!(refused.status == 2 && refused.stderr.contains("vertex 0 is not in the graph, which has 0"));
    folder.write("far.txt", "0 4000000000\n");
    let done = folder.run(&["graph", "components", "far.txt", "--memory", "17MiB"]);
    assert!(
        done.status == 2
            && done.stderr.contains("far.txt: the values of all vertices need --memory 29.8 GiB at least"),
        "{}",
        done.stderr
    );
}
