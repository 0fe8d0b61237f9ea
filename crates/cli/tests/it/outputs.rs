//! Output files: old or new, never a mixture; one writer; partial reports.

use crate::common::{Folder, TINY, eventually};
use std::process::{Child, Command, Stdio};

fn spawn(folder: &Folder, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_pellucid"))
        .args(words)
        .current_dir(folder.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sends a signal by its name.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// A run that goes on until it is ended.
const LONG: [&str; 7] = ["run", "tiny.toml", "--rw", "randread", "--runtime", "10000000s", "--time-based"];
const SHORT: [&str; 6] = ["run", "tiny.toml", "--rw", "randread", "--number-ios", "100"];

#[test]
fn a_second_writer_is_refused_and_the_first_goes_on() {
    let folder = Folder::with_drive();
    for (option, name) in [("--report", "out"), ("--log", "log.csv")] {
        let mut first = spawn(&folder, &[&LONG[..], &[option, name]].concat());
        let began = match option {
            "--report" => folder.path("out"),
            _ => folder.path("log.csv.part"),
        };
        // It has the name before it works, and keeps it.
        eventually("the first writer begins", || began.exists());
        let mut refused = None;
        eventually("the second is refused", || {
            let done = folder.run(&[&SHORT[..], &[option, name]].concat());
            let held = done.status == 1;
            refused = Some(done);
            held
        });
        let refused = refused.unwrap();
        let sentence = format!(
            "error: {name}: another program is writing it; allowed: another name, or when that has ended\n"
        );
        assert_eq!((refused.stdout.as_str(), refused.stderr), ("", sentence));
        signal(&first, "KILL");
        first.wait().unwrap();
        // A lock dies with its process.
        folder.run(&[&SHORT[..], &[option, name]].concat()).answer();
    }
    assert_eq!(std::fs::read_to_string(folder.path("log.csv")).unwrap().lines().count(), 101);
    assert!(!folder.path("log.csv.part").exists());
}

#[test]
fn a_full_disk_leaves_the_last_good_report_and_log() {
    let folder = Folder::with_drive();
    let outputs = ["--report", "out", "--log", "log.csv"];
    folder.run(&[&SHORT[..], &outputs].concat()).answer();
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    let names = ["out/report.json", "out/series.csv", "out/index.html", "log.csv"];
    let before = names.map(read);
    // No file may become longer than 8 blocks of 512 bytes; the first that is too long ends the run.
    for (outputs, named) in [("--report out", "out"), ("--log log.csv", "log.csv")] {
        let words = "run tiny.toml --rw randread --number-ios 5000";
        let script = format!("ulimit -f 8; exec \"$0\" {words} {outputs}");
        let done = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_pellucid")])
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.ends_with(&format!("error: {named}: cannot be written: File too large\n")),
            "{stderr}"
        );
        assert_eq!(names.map(read), before);
        // Results that could not be written are still told.
        let told = String::from_utf8_lossy(&done.stdout).contains("5,000 requests");
        assert_eq!(told, named == "out", "{}", String::from_utf8_lossy(&done.stdout));
    }
    let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    let full = folder.run(&[&SHORT[..], &["--log", "/dev/full"]].concat());
    assert_eq!(
        (full.status, full.stderr.as_str()),
        (1, "error: /dev/full: cannot be written: No space left on device\n")
    );
}

#[test]
fn an_interrupt_leaves_a_partial_report() {
    let folder = Folder::with_drive();
    for name in ["INT", "TERM"] {
        let run = spawn(&folder, &[&LONG[..], &["--log", "log.csv", "--report", "out"]].concat());
        // Requests complete.
        let part = folder.path("log.csv.part");
        eventually("requests", || std::fs::metadata(&part).is_ok_and(|file| file.len() > 1 << 20));
        signal(&run, name);
        let done = run.wait_with_output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.status.code(), Some(130), "{name}: {stderr}");
        assert!(stdout.contains("\npartial             the user ended the run before"), "{stdout}");
        assert!(
            stderr.lines().last().unwrap().starts_with("error: interrupted; the report is partial: "),
            "{stderr}"
        );
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(folder.path("out/report.json")).unwrap()).unwrap();
        assert_eq!(report["partial"], true);
        assert!(std::fs::read_to_string(folder.path("out/index.html")).unwrap().contains("<b>Partial:</b>"));
        let lines = std::fs::read_to_string(folder.path("log.csv")).unwrap().lines().count() as u64;
        assert_eq!(lines, report["requests"].as_u64().unwrap() + 1);
        assert!(!part.exists());
    }
    let whole = folder.run(&[&SHORT[..], &["--json"]].concat()).json();
    assert_eq!(whole["partial"], false);
}

/// Counts near 2^64 mean "until it is ended", and the warm-up is told as it was.
#[test]
fn an_interrupt_ends_an_application_without_end() {
    let folder = Folder::with_drive();
    let most = u64::MAX.to_string();
    for count in ["--operations", "--warm-up"] {
        let words =
            ["run", "tiny.toml", "--app", "varmail", "--filesystem", "in-place", "--meanfilesize", "4k"];
        let outputs = ["--log", "log.csv", "--report", "out"];
        let run = spawn(&folder, &[&words[..], &[count, &most], &outputs].concat());
        // The warm-up has no log: what an interrupt does is installed once the run looks.
        let part = folder.path("log.csv.part");
        match count {
            "--operations" => {
                eventually("requests", || std::fs::metadata(&part).is_ok_and(|file| file.len() > 1 << 20))
            }
            _ => eventually("the run begins", || part.exists()),
        }
        signal(&run, "INT");
        let done = run.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(130), "{count}: {stderr}");
        let report = std::fs::read_to_string(folder.path("out/report.json"));
        assert!(report.is_ok() || count == "--warm-up", "{stderr}");
        if let Ok(text) = report {
            let report: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(report["applications"][0]["warm_up"].as_u64().unwrap() < 1 << 40, "{count}: {report}");
        }
        let _ = std::fs::remove_dir_all(folder.path("out"));
        let _ = std::fs::remove_file(folder.path("log.csv"));
    }
}

#[test]
fn an_interrupt_of_a_comparison_leaves_what_was_done() {
    let folder = Folder::with_drive();
    let words =
        ["--rw", "randread", "--runtime", "10000000s", "--time-based", "--log", "log", "--report", "out"];
    let compare =
        spawn(&folder, &[&["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo"], &words[..]].concat());
    let part = folder.path("log.victim=greedy.part");
    eventually("requests", || std::fs::metadata(&part).is_ok_and(|file| file.len() > 1 << 20));
    signal(&compare, "INT");
    let done = compare.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130));
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert!(
        stdout.contains("note: victim=greedy is partial") && !stdout.contains(" victim=fifo\n"),
        "{stdout}"
    );
    assert!(folder.path("out/victim=greedy/report.json").exists());
}

/// An ageing that is interrupted leaves nothing behind.
#[test]
fn an_image_takes_its_name_when_it_is_complete() {
    let folder = Folder::with_drive();
    folder.run(&["age", "tiny.toml", "--overwrite", "0", "-o", "aged"]).answer();
    let before = std::fs::read(folder.path("aged")).unwrap();
    let age = spawn(&folder, &["age", "tiny.toml", "--overwrite", "1000000", "-o", "aged"]);
    let part = folder.path("aged.part");
    eventually("the image is begun", || part.exists());
    let second = folder.run(&["age", "tiny.toml", "--overwrite", "0", "-o", "aged"]);
    assert_eq!(second.status, 1, "{}", second.stderr);
    assert!(second.stderr.starts_with("error: aged: another program is writing it; "), "{}", second.stderr);
    signal(&age, "INT");
    assert_eq!(age.wait_with_output().unwrap().status.code(), Some(130));
    assert!(!part.exists());
    assert!(std::fs::read(folder.path("aged")).unwrap() == before);
    // Neither the description itself nor another file is what is meant.
    folder.write("notes", "of somebody");
    for (file, sentence) in [
        (
            "tiny.toml",
            "--output tiny.toml: the description, which is read by this command; allowed: another file",
        ),
        (
            "notes",
            "notes: a file that is no image; allowed: an image, a new name, or --force, which replaces it",
        ),
    ] {
        let done = folder.run(&["age", "tiny.toml", "--overwrite", "0", "-o", file]);
        assert_eq!((done.status, done.stderr), (2, format!("error: {sentence}\n")));
    }
}

/// A name that cannot be meant is status 2 whatever command and option it stands behind, and nothing is done before.
#[test]
fn output_names_that_cannot_be_are_status_2() {
    let folder = Folder::with_drive();
    folder.write("file", "");
    let work = ["--rw", "read", "--number-ios", "10"];
    for path in ["no/such/folder/x", "file/x", "/proc/pellucid", "/sys/pellucid", "-"] {
        for words in [
            &["run", "tiny.toml", "--log", path][..],
            &["compare", "tiny.toml", "tiny.toml", "--log", path],
            &["age", "tiny.toml", "-o", path],
        ] {
            let more: &[&str] = if words[0] == "age" { &[] } else { &work };
            // The logs of a comparison have the drive's name behind theirs.
            if words[0] == "compare" && path == "-" {
                continue;
            }
            let done = folder.run(&[words, more].concat());
            assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        }
    }
    for path in ["file", "file/x", "/proc/pellucid", "/sys/pellucid", "-"] {
        for words in [
            &["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--report", path][..],
            &["compare", "tiny.toml", "tiny.toml", "--rw", "read", "--number-ios", "10", "--report", path],
            &["reproduce", "C10", "--report", path],
        ] {
            let done = folder.run(words);
            assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        }
    }
}

/// A report would replace a log that has the name of one of its files.
#[test]
fn a_log_that_the_report_would_replace_is_refused() {
    let folder = Folder::with_drive();
    let words = ["run", "tiny.toml", "--rw", "read", "--number-ios", "10", "--report", "out"];
    folder.run(&words).answer();
    for name in ["out/requests.csv", "./out/series.csv"] {
        let done = folder.run(&[&words[..], &["--log", name]].concat());
        let told = format!(
            "error: --log {name}: the report in that directory has a file of this name; allowed: another name\n"
        );
        assert_eq!((done.status, done.stderr), (2, told));
    }
    folder.run(&[&words[..], &["--log", "out/log.csv"]].concat()).answer();
    let log = std::fs::read_to_string(folder.path("out/log.csv")).unwrap();
    assert_eq!(log.lines().count(), 11, "{log}");
}

/// Files of other programs are not replaced without a word.
#[test]
fn somebodys_files_are_replaced_by_force_only() {
    let folder = Folder::with_drive();
    folder.write("mine.csv", "name,phone\n");
    std::fs::create_dir(folder.path("site")).unwrap();
    folder.write("site/index.html", "<title>My page</title>");
    let trace = (0..20).map(|i| format!("{i},h,0,Read,{},512,0\n", i * 512)).collect::<String>();
    folder.write("trace.csv", &trace);
    for words in [
        &[&SHORT[..], &["--log", "mine.csv"]].concat()[..],
        &[&SHORT[..], &["--set", "run.log=mine.csv"]].concat(),
        &["replay", "tiny.toml", "trace.csv", "--log", "mine.csv"],
        &[&SHORT[..], &["--report", "site"]].concat(),
        &["compare", "tiny.toml", "tiny.toml", "--rw", "read", "--number-ios", "10", "--report", "site"],
        &["reproduce", "C10", "--report", "site"],
    ] {
        let done = folder.run(words);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
        assert!(
            done.stderr.contains("exists, and this command did not write it; allowed: "),
            "{}",
            done.stderr
        );
    }
    assert_eq!(std::fs::read_to_string(folder.path("mine.csv")).unwrap(), "name,phone\n");
    assert_eq!(std::fs::read_to_string(folder.path("site/index.html")).unwrap(), "<title>My page</title>");
    for (option, name) in [("--log", "mine.csv"), ("--report", "site")] {
        folder.run(&[&SHORT[..], &[option, name, "--force"]].concat()).answer();
        // Files of our own are replaced as before.
        folder.run(&[&SHORT[..], &[option, name]].concat()).answer();
    }
    let done = folder.run(&[&SHORT[..], &["--log", "drive.toml"]].concat());
    assert_eq!(
        (done.status, done.stderr.as_str()),
        (
            2,
            "error: --log drive.toml: a log of requests is CSV or Parquet; allowed: FILE.csv, FILE.log, FILE.parquet, or a name without an ending\n"
        )
    );
    let words = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--log", "log.csv"];
    folder.run(&[&words[..], &["--rw", "read", "--number-ios", "10"]].concat()).answer();
    assert!(folder.path("log.victim=fifo.csv").exists());
}

/// The folder was made for a report that never came.
#[test]
fn an_interrupted_reproduction_leaves_no_folder() {
    let folder = Folder::new();
    let child = spawn(&folder, &["reproduce", "C1", "--report", "claims"]);
    let place = folder.path("claims");
    eventually("the folder is claimed", || place.exists());
    signal(&child, "INT");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!place.exists());
}

/// Neither a link to the edges nor a place of the command's own is an output.
#[test]
fn no_output_replaces_a_link_or_a_socket() {
    let folder = Folder::with_drive();
    folder.write("edges.csv", "1,2\n2,3\n");
    std::fs::hard_link(folder.path("edges.csv"), folder.path("ranks.csv")).unwrap();
    let done = folder.run(&["graph", "pagerank", "edges.csv", "--out", "ranks.csv", "--force"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--out ranks.csv: has the edges; allowed: another file"), "{}", done.stderr);
    std::os::unix::fs::symlink(folder.path("."), folder.path("here")).unwrap();
    let serve = ["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:nbd", "--force"];
    for (more, option, record) in [
        (&["--control", "control"][..], "--control control", "control"),
        (&["--control", "control"], "--control control", "here/control"),
        (&[], "--nbd nbd", "./nbd"),
    ] {
        let done = folder.run(&[&serve[..], more, &["--record", record]].concat());
        assert_eq!(done.status, 2, "{}", done.stderr);
        let told = format!("--record {record}: {option} is this command's, too; allowed: another file");
        assert!(done.stderr.contains(&told), "{}", done.stderr);
    }
    folder.write("key.psk", "DHHC-1:00:secret\n");
    let remote =
        ["serve", "--remote", "127.0.0.1:1", "--nbd", "unix:nbd", "--remote-dhchap", "key.psk", "--force"];
    let done = folder.run(&[&remote[..], &["--record", "key.psk"]].concat());
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("--record key.psk: it holds a drive, or this command reads it as one"),
        "{}",
        done.stderr
    );
    assert_eq!(std::fs::read_to_string(folder.path("key.psk")).unwrap(), "DHHC-1:00:secret\n");
    assert_eq!(std::fs::read_to_string(folder.path("edges.csv")).unwrap(), "1,2\n2,3\n");
}

/// Names of files are bytes.
#[test]
fn a_name_that_is_no_utf_8_is_no_panic() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::with_drive();
    let name = std::ffi::OsStr::from_bytes(b"n\xff.csv");
    let done = Command::new(env!("CARGO_BIN_EXE_pellucid"))
        .current_dir(folder.path("."))
        .args(["run", "tiny.toml", "--rw", "read", "--number-ios", "4", "--json", "--log"])
        .arg(name)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(folder.path(".").join(name).exists() && !done.stdout.is_empty());
}

/// Files that a command reads or works on are not replaced by its output, forced or not.
#[test]
fn no_output_replaces_an_input() {
    let folder = Folder::with_drive();
    let trace = "100,host,0,Read,0,4096,0\n".repeat(20);
    folder.write("trace.csv", &trace);
    folder.write("used.film.html", TINY);
    folder.write("work.fio", "[global]\nrw=randread\nnumber_ios=10\n[one]\n");
    folder.write("series.csv", &trace);
    folder.run(&["age", "tiny.toml", "--fill", "0.1", "--overwrite", "0", "-o", "used.pellucid"]).answer();
    let media = ["--set", "media.store=file:media.drive", "--set", "ftl.durability=journal"];
    folder
        .run(&[&["run", "tiny.toml"], &media[..], &["--rw", "write", "--number-ios", "10"]].concat())
        .answer();
    std::fs::hard_link(folder.path("media.drive"), folder.path("media.csv")).unwrap();
    let work = ["--rw", "read", "--number-ios", "10"];
    let on_media = [&["run", "tiny.toml"], &media[..], &work].concat();
    let replay = ["replay", "tiny.toml", "trace.csv", "--address", "fold"];
    let image = [&["run", "--image", "used.pellucid"], &work[..]].concat();
    for (words, option, file) in [
        (replay.to_vec(), "--timeline", "trace.csv"),
        (replay.to_vec(), "--log", "trace.csv"),
        ([&["run", "tiny.toml"], &work[..]].concat(), "--timeline", "tiny.toml"),
        (vec!["run", "tiny.toml", "work.fio"], "--timeline", "work.fio"),
        (image, "--timeline", "used.pellucid"),
        (on_media.clone(), "--timeline", "media.drive"),
        (on_media, "--log", "media.csv"),
        (vec!["replay", "tiny.toml", "series.csv", "--address", "fold"], "--report", "."),
        (vec!["age", "tiny.toml", "--fill", "0.1"], "--output", "tiny.toml"),
        (vec!["age", "used.film.html", "--fill", "0.1", "-o", "used"], "--film", "used.film.html"),
        (
            vec!["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:nbd"],
            "--record",
            "tiny.toml",
        ),
    ] {
        let read = if option == "--report" { "series.csv" } else { file };
        let before = std::fs::read(folder.path(read)).unwrap();
        let named = if option == "--film" { &[option][..] } else { &[option, file] };
        let done = folder.run(&[&words[..], named, &["--force"]].concat());
        assert_eq!(done.status, 2, "{words:?} {option} {file}: {}", done.stderr);
        assert!(done.stderr.contains(option) && done.stderr.contains("allowed: another"), "{}", done.stderr);
        assert!(std::fs::read(folder.path(read)).unwrap() == before, "{words:?} {option} {file}");
    }
}
