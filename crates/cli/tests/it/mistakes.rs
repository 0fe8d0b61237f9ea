//! Typical mistakes: exit status 2, nothing on standard output, one sentence that names the thing.

use crate::common::{Folder, TINY};

/// Runs what must be refused, and gives the sentence.
fn refused(folder: &Folder, words: &[&str]) -> String {
    let done = folder.run(words);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{words:?}: {}", done.stderr);
    let sentence = done.stderr.strip_prefix("error: ").unwrap_or_else(|| panic!("{}", done.stderr));
    assert!(!sentence.contains('\u{1b}') && !sentence.contains("panicked"), "{sentence}");
    sentence.trim_end().to_string()
}

#[test]
fn an_unknown_drive_or_key_is_named_with_a_suggestion() {
    let folder = Folder::with_drive();
    let sentence = refused(&folder, &["show", "cosmos-pluss"]);
    assert!(
        sentence.starts_with(
            "cosmos-pluss: not a preset (did you mean cosmos-plus?), and not a file that can be read: "
        ),
        "{sentence}"
    );
    let sentence = refused(&folder, &["show", "tiny.toml", "--set", "ftl.victm=fifo"]);
    assert!(
        sentence.starts_with(
            "--set ftl.victm: drive.ftl.victm: unknown key (did you mean victim?); allowed: map, map_cache, log_blocks, over_provisioning, "
        ),
        "{sentence}"
    );
    folder.write("wrong.toml", "[drive]\npreset = \"jasmine\"\n\n[drive.ftl]\nvictm = \"fifo\"\n");
    let sentence = refused(&folder, &["run", "wrong.toml", "--rw", "read"]);
    assert!(
        sentence.starts_with("wrong.toml:5: drive.ftl.victm: unknown key (did you mean victim?); allowed: "),
        "{sentence}"
    );
}

/// A drive that cannot be: the key, its value and what is allowed, whichever check finds it.
#[test]
fn impossible_drives_are_refused_by_key_and_value() {
    let folder = Folder::with_drive();
    let show = |preset: &str, sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|&set| ["--set", set]).collect();
        refused(&folder, &[&["show", preset], &sets[..]].concat())
    };
    let not = |key: &str, value: &str, allowed: &str| {
        format!("--set {key}: drive.{key} = {value}: not allowed; allowed: {allowed}")
    };
    for (preset, sets, expected) in [
        // A code that does not fit the spare area, or the page, or anything.
        (
            "cosmos-plus",
            &["ecc.correctable=40"][..],
            not(
                "ecc.correctable",
                "40",
                "1 to 17 with these chunks, as 64 x 60 bytes of parity would need 3840 spare bytes of 1664",
            ),
        ),
        (
            "cosmos-plus",
            &["ecc.correctable=200"],
            not("ecc.correctable", "200", "a whole number from 1 to 128"),
        ),
        (
            "cosmos-plus",
            &["ecc.correctable=2.5"],
            not("ecc.correctable", "2.5", "a whole number from 1 to 128"),
        ),
        (
            "cosmos-plus",
            &["ecc.chunk=3000B"],
            not("ecc.chunk", "\"3000B\"", "divisors of the page's 16384 data bytes"),
        ),
        (
            "cosmos-plus",
            &["ecc.data=real"],
            not("ecc.data", "\"real\"", "drawn, or real and checked with a store that keeps the data"),
        ),
        (
            "tiny.toml",
            &["media.bit_errors.enabled=true"],
            not("media.bit_errors.enabled", "true", "false, or true with an error-correcting code"),
        ),
        (
            "cosmos-plus",
            &["firmware.clock_mhz=0"],
            not("firmware.clock_mhz", "0", "a whole number from 1 to 4294967295"),
        ),
        (
            "cosmos-plus",
            &["media.timing.channel_rate=0"],
            not(
                "media.timing.channel_rate",
                "0",
                "a rate such as \"200MB/s\", \"1.6 GB/s\" (1000-based), \"1 GiB/s\"; only 0 needs no unit; at least 1B/s; below 2^63 B/s",
            ),
        ),
        // Beyond what can be addressed: by a key alone, and by several together.
        (
            "cosmos-plus",
            &["media.channels=257"],
            not("media.channels", "257", "a whole number from 1 to 256"),
        ),
        ("cosmos-plus", &["media.channels=0"], not("media.channels", "0", "a whole number from 1 to 256")),
        (
            "cosmos-plus",
            &["media.ways=99999999999"],
            not("media.ways", "99999999999", "a whole number from 1 to 64"),
        ),
        (
            "cosmos-plus",
            &["media.ways=33", "media.dies=2"],
            not("media.ways", "33", "ways x dies at most 64 on a channel"),
        ),
        (
            "cosmos-plus",
            &["media.blocks=2000000"],
            not("media.blocks", "2000000", "a whole number from 1 to 1048576"),
        ),
        (
            "cosmos-plus",
            &["media.pages=100000"],
            not("media.pages", "100000", "a whole number from 1 to 65536"),
        ),
        (
            "cosmos-plus",
            &["media.blocks=1000000", "media.unit_size=4KiB"],
            not(
                "media.unit_size",
                "\"4KiB\"",
                "fewer than 2^32 - 1 mapping units in the drive; use a larger unit_size or a smaller drive",
            ),
        ),
    ] {
        assert_eq!(show(preset, sets), expected, "{preset} {sets:?}");
    }
    // The code for which a smaller spare area has no room is the preset's own, and named at its line there.
    let sentence = show("cosmos-plus", &["media.spare_size=1000"]);
    let (place, why) = sentence.split_once(": drive.").expect("a place");
    let line: usize = place.strip_prefix("cosmos-plus:").and_then(|line| line.parse().ok()).expect("a line");
    let preset = pellucid_spec::presets().iter().find(|preset| preset.name == "cosmos-plus").unwrap();
    assert!(preset.text.lines().nth(line - 1).unwrap().starts_with("correctable = 13"), "{sentence}");
    assert_eq!(
        why,
        "ecc.correctable = 13: not allowed; allowed: 1 to 10 with these chunks, as 64 x 20 bytes of parity would need \
         1280 spare bytes of 1000"
    );
}

/// A buffer that is larger than the memory of any machine that runs the tests is refused before it is made.
#[test]
fn buffers_larger_than_the_memory_of_the_machine_are_refused() {
    let folder = Folder::with_drive();
    let with_layer = ["media.store=ram", "host.layers=[\"cluster-buffer\"]", "host.cluster_buffer.size=1TiB"];
    let wide = [
        "media.page_size=1MiB",
        "media.unit_size=1MiB",
        "media.sector_size=64KiB",
        "media.store=ram",
        "drive.buffer.entries=16777215",
    ];
    // Half a petabyte, whose tables would have 4 bytes for each of its sectors.
    let tables = [
        "media.channels=1",
        "media.ways=1",
        "media.page_size=1MiB",
        "media.unit_size=256KiB",
        "media.sector_size=4KiB",
        "media.pages=512",
        "media.blocks=1048576",
        "host.layers=[\"cluster-buffer\"]",
        "host.cluster_buffer.size=8GiB",
        "host.cluster_buffer.cluster=1GiB",
        "host.cluster_buffer.tables=beside",
    ];
    for (sets, named) in [
        (
            &with_layer[..],
            "host.cluster_buffer.size = 1099511627776: allowed: at most the memory of this machine, ",
        ),
        (&wide[..], "drive.buffer.entries = 16777215: allowed: at most "),
        (&tables[..], "host.cluster_buffer.tables = beside: they would take "),
    ] {
        for command in
            [&["run", "tiny.toml", "--rw", "write"][..], &["serve", "tiny.toml", "--nbd", "unix:nbd"][..]]
        {
            let sets = sets.iter().flat_map(|set| ["--set", set]);
            let words: Vec<&str> = command.iter().copied().chain(sets).collect();
            let sentence = refused(&folder, &words);
            assert!(sentence.starts_with(named), "{words:?}: {sentence}");
        }
    }
}

/// An unknown key of a preset's user: in a file on top of it, and by --set; of every table.
#[test]
fn unknown_keys_are_refused_in_every_table() {
    let folder = Folder::new();
    for (table, key, hint) in [
        ("media", "chanels", "channels"),
        ("media.timing", "erse", "erase"),
        ("media.bit_errors", "enable", "enabled"),
        ("ecc", "corectable", "correctable"),
        ("ftl", "victm", "victim"),
        ("host", "queus", "queues"),
        ("firmware", "clock_mz", "clock_mhz"),
        ("buffer", "entires", "entries"),
        ("scheduler", "oder", "order"),
    ] {
        let text = format!("[drive]\npreset = \"cosmos-plus\"\n[drive.{table}]\n{key} = 1\n");
        folder.write("mine.toml", &text);
        let named = format!("drive.{table}.{key}: unknown key (did you mean {hint}?); allowed: ");
        let sentence = refused(&folder, &["show", "mine.toml"]);
        assert!(sentence.starts_with(&format!("mine.toml:4: {named}")), "{sentence}");
        let sentence = refused(&folder, &["show", "cosmos-plus", "--set", &format!("{table}.{key}=1")]);
        assert!(sentence.starts_with(&format!("--set {table}.{key}: {named}")), "{sentence}");
    }
}

#[test]
fn workload_mistakes_are_named() {
    let folder = Folder::with_drive();
    assert_eq!(
        refused(&folder, &["run", "tiny.toml"]),
        "nothing to do: give a [[job]], a trace ([run] trace), or workload options"
    );
    assert_eq!(
        refused(&folder, &["run", "tiny.toml", "--rw", "randraed"]),
        "--rw: rw = randraed (did you mean randread?): allowed: read, write, trim, rw, readwrite, trimwrite, randread, randwrite, randtrim, \
         randrw, randtrimwrite, fileserver, webserver, varmail, chunk-read, chunk-randread, chunk-write, chunk-copy, chunk-reset, \
         zone-read, zone-randread, zone-write, zone-append, zone-reset"
    );
    let sentence = refused(&folder, &["run", "tiny.toml", "--job", "rw=read,iodeth=4"]);
    assert!(
        sentence.starts_with("--job: iodeth: unknown key (did you mean iodepth?); allowed: "),
        "{sentence}"
    );
    let sentence = refused(&folder, &["run", "tiny.toml", "--rww=read"]);
    assert!(sentence.contains("'--rww'") && sentence.contains("'--rw'"), "{sentence}");
    folder.write("job.fio", "[job]\nrw=read\nverify=md5\n");
    let sentence = refused(&folder, &["run", "tiny.toml", "job.fio"]);
    assert!(sentence.starts_with("job.fio: line 3: verify=md5: refused: "), "{sentence}");
    assert_eq!(
        refused(&folder, &["run", "tiny.toml", "job.fio", "--bs", "4k"]),
        "job.fio: workload options and a job file do not go together; allowed: one of them"
    );
    assert_eq!(
        refused(&folder, &["run", "job.fio"]),
        "job.fio: a job file, where a drive is expected; allowed: pellucid run DRIVE FILE.fio"
    );
}

/// A key that does not suit the drive is refused before the drive is preconditioned, which would fail here.
#[test]
fn a_job_that_does_not_suit_the_drive_is_named_with_its_line_at_once() {
    let folder = Folder::with_drive();
    let run = |words: &[&str]| {
        let done = folder.run(&[&["run"], words, &["--set", "media.faults.program_fail=1"]].concat());
        assert_eq!(done.status, 2, "{words:?}: {}", done.stderr);
        done.stderr.trim_end().strip_prefix("error: ").expect("a sentence").to_string()
    };
    let allowed = "allowed: multiples of the sector, 512 bytes";
    folder.write("job.fio", "[global]\nrw=randwrite\n[a]\nbs=4k\n\n[b]\nbs=1000\nsize=1m\n");
    assert_eq!(run(&["tiny.toml", "job.fio"]), format!("job.fio: line 7: bs = 1000: {allowed}"));
    folder.write("global.fio", "[global]\nblocksize=1000\n[a]\nrw=randwrite\n");
    assert_eq!(run(&["tiny.toml", "global.fio"]), format!("global.fio: line 2: bs = 1000: {allowed}"));
    folder.write("queue.fio", "[a]\nrw=write\n[b]\nsize=20m\n");
    assert_eq!(
        run(&["tiny.toml", "queue.fio"]).split(": allowed").next(),
        Some("queue.fio: line 4: size = 20971520")
    );
    assert_eq!(run(&["tiny.toml", "--rw", "write", "--bs", "1000"]), format!("--bs: bs = 1000: {allowed}"));
    assert_eq!(run(&["tiny.toml", "--rw", "write", "--queue", "9"]), "--queue: queue = 9: allowed: 0 to 7");
    let jobs = format!("{TINY}[[job]]\nrw = \"write\"\n[[job]]\nrw = \"write\"\nbs = 1000\n");
    folder.write("jobs.toml", &jobs);
    let line = jobs.lines().count();
    assert_eq!(run(&["jobs.toml"]), format!("jobs.toml:{line}: bs = 1000: {allowed}"));
}

/// Reading what was never written takes no time on a drive whose controller takes none.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_runtime_that_would_never_be_over_is_refused() {
    let folder = Folder::with_drive();
    let words = ["run", "tiny.toml", "--set", "precondition.fill=0.0", "--rw", "randread", "--runtime", "1s"];
    let done = folder.run(&words);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.starts_with("error: job 1: 2097152 requests took no simulated time"),
        "{}",
        done.stderr
    );
    // Jobs with another end are done, and so are jobs with a rate.
    for (end, requests) in [(["--number-ios", "3000"], 3_000), (["--rate_iops", "1000"], 1_000)] {
        let report = folder.run(&[&words[..], &end, &["--json"]].concat()).json();
        assert_eq!(report["requests"], requests, "{end:?}");
    }
}

#[test]
fn a_missing_file_and_a_malformed_line_are_named() {
    let folder = Folder::with_drive();
    let missing = "cannot read: No such file or directory (os error 2)";
    assert_eq!(refused(&folder, &["replay", "tiny.toml", "gone.csv"]), format!("gone.csv: {missing}"));
    assert_eq!(refused(&folder, &["run", "tiny.toml", "gone.fio"]), format!("gone.fio: {missing}"));
    folder.write(
        "trace.csv",
        "100,host,0,Read,0,4096,0\n200,host,0,Write,4096,4096,0\n300,host,0,Wrte,0,4096,0\n",
    );
    let done = folder.run(&["replay", "tiny.toml", "trace.csv"]);
    assert_eq!(done.status, 2);
    assert!(
        done.stderr.starts_with("error: trace.csv: line 3: Type is \"Wrte\"; expected "),
        "{}",
        done.stderr
    );
    let sentence = refused(&folder, &["replay", "tiny.toml", "trace.csv", "--format", "mrs"]);
    assert!(sentence.contains("unknown trace format \"mrs\"; allowed: msr, alibaba"), "{sentence}");
    folder.write("far.csv", "100,host,0,Read,1099511627776,4096,0\n");
    let done = folder.run(&["replay", "tiny.toml", "far.csv"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("far.csv: line 1:") && done.stderr.contains("folded"), "{}", done.stderr);
    assert_eq!(folder.run(&["replay", "tiny.toml", "far.csv", "--address", "fold"]).status, 0);
}

/// Careless arguments and files get one line that names them and status 2, and nothing is lost.
#[test]
fn careless_command_lines_get_one_sentence_each() {
    let folder = Folder::with_drive();
    folder.write("empty", "");
    std::fs::write(folder.path("junk"), [0xff, 0, 1, 0xfe, 10, 200]).unwrap();
    std::fs::create_dir(folder.path("dir")).unwrap();
    folder.write("trace.csv", "100,host,0,Read,0,4096,0\n");
    folder.write("j.fio", "[a]\nrw=read\nsize=1m\n");
    folder.write("app.toml", &format!("[[job]]\napp = 'varmail'\n{TINY}"));
    folder.write("twice.toml", &format!("[[job]]\nbs = '4k'\nblocksize = '8k'\n{TINY}"));
    folder.write("jobs.toml", &format!("[[job]]\nrw = \"nonsense\"\n{TINY}"));
    let work = ["--rw", "read", "--number-ios", "10"];
    let run = |words: &[&'static str]| [&["run", "tiny.toml"], &work[..], words].concat();
    let serve =
        |words: &[&'static str]| [&["serve", "tiny.toml", "--set", "media.store=ram"], words].concat();
    for (words, named) in [
        (vec!["run", "", "--rw", "read"], "\"\": an empty name, where a drive is expected"),
        (run(&["--rw", "write"]), "the argument '--rw <randrw>' cannot be used multiple times"),
        (
            run(&["--set", "ftl.victim=fifo", "--set", "drive.ftl.victim=greedy"]),
            "--set ftl.victim: given twice, as fifo and as greedy; allowed: once",
        ),
        (
            run(&["--set", "ftl={victim=\"fifo\"}", "--set", "ftl.victim=greedy"]),
            "--set ftl.victim: given twice, as \"fifo\" and as greedy; allowed: once",
        ),
        (
            run(&["--set", "drive={ftl={victim=\"fifo\"}}", "--set", "ftl={victim=\"greedy\"}"]),
            "--set ftl.victim: given twice, as \"fifo\" and as \"greedy\"; allowed: once",
        ),
        (
            vec!["run", "tiny.toml,ftl.victim=fifo", "--rw", "read", "--set", "ftl={victim=\"greedy\"}"],
            "--set ftl={victim=\"greedy\"}: has no effect here: tiny.toml,ftl.victim=fifo has a value of its own for ftl.victim",
        ),
        (
            vec!["run", "tiny.toml,ftl={victim=\"fifo\"},ftl.victim=greedy", "--rw", "read"],
            "tiny.toml,ftl={victim=\"fifo\"},ftl.victim=greedy: ftl.victim: given twice, as \"fifo\" and as greedy; allowed: once",
        ),
        (
            run(&["--set", "ftl.victim=fifo", "--set", "ftl.victim=fifo"]),
            "--set ftl.victim: given twice, as fifo and as fifo; allowed: once",
        ),
        (
            run(&["--set", "ftl={victim=\"fifo\",victim=\"fifo\"}"]),
            "--set ftl: victim: given twice; allowed: once",
        ),
        (
            run(&["--set", "job=[{rw=\"write\"}]"]),
            "--set job= and --rw read do not go together: both describe the work; allowed: one of them",
        ),
        (
            vec!["run", "tiny.toml", "--job", "rw=read", "--set", "job=[{rw=\"write\"}]"],
            "--set job= and --job rw=read do not go together",
        ),
        (
            vec!["replay", "tiny.toml", "trace.csv", "--set", "job=[{rw=\"write\"}]"],
            "--set job= and trace.csv do not go together",
        ),
        (
            vec!["run", "tiny.toml", "j.fio", "--set", "job=[{rw=\"write\"}]"],
            "--set job= and j.fio do not go together",
        ),
        (
            run(&["--log", "/dev/stdout"]),
            "--log /dev/stdout: the standard output, which has the answer of this command",
        ),
        (
            run(&["--json", "--timeline", "/dev/stdout"]),
            "--timeline /dev/stdout: the standard output, which has the answer of this command",
        ),
        (vec!["kv", "tiny.toml", "--json"], "--json: a server prints no answer; its log: --log-format json"),
        (
            serve(&["--nbd", "unix:s", "--time", "x1e30"]),
            "invalid value 'x1e30' for '--time <TIME>'; allowed: paced, instant, xF with a number F from 0.001 to 1000000",
        ),
        (
            serve(&["--nbd", "unix:s", "--time", "x0.0001"]),
            "invalid value 'x0.0001' for '--time <TIME>'; allowed: paced, instant, xF with a number F from 0.001 to 1000000",
        ),
        (run(&["--flow", "3"]), "--flow: flow = 3: allowed: with two jobs or more of flow_id 0"),
        (
            run(&["--job", "flow=2", "--job", "flow=2,flow_id=1"]),
            "--job: flow = 2: allowed: with two jobs or more of flow_id 0",
        ),
        (vec!["serve", "tiny.toml", "--json"], "--json means nothing to serve; allowed: with run, "),
        (vec!["demo", "--json"], "--json means nothing to demo; allowed: with run, "),
        (vec!["import", "--json"], "--json means nothing to import; allowed: with run, "),
        (
            vec!["fire", "--device", "file", "--nbd", "unix:s", "--json"],
            "--json: a server prints no answer; ",
        ),
        (vec!["top", "--control", "c", "--drive", "d", "--json"], "--drive d: not with --json"),
        (vec!["run", "twice.toml"], "twice.toml:3: job[0].blocksize"),
        (run(&["--job", "bs=4k,blocksize=8k"]), "--job bs=4k,blocksize=8k: blocksize twice"),
        (
            vec!["run", "tiny.toml,media.ways=2,media.ways=4", "--rw", "read"],
            "tiny.toml,media.ways=2,media.ways=4: media.ways: given twice, as 2 and as 4; allowed: once",
        ),
        (vec!["replay", "app.toml", "trace.csv"], "app.toml: its applications would not work"),
        (
            vec!["run", "dir", "--rw", "read"],
            "dir: not a preset, and not a file that can be read: Is a directory",
        ),
        (vec!["run", "junk", "--rw", "read"], "junk: not a preset"),
        (vec!["run", "empty", "--rw", "read"], "empty: drive.media.channels: missing"),
        (vec!["run", "tiny.toml", "dir"], "dir: cannot read: Is a directory"),
        (vec!["run", "tiny.toml", "empty"], "empty: line 1: no job"),
        (vec!["run", "tiny.toml", "--rw", ""], "--rw: rw = : allowed: read"),
        (vec!["runn", "tiny.toml"], "unrecognized subcommand 'runn'; a similar subcommand exists: 'run'"),
        (vec!["replay", "tiny.toml", "dir"], "dir: cannot read: Is a directory"),
        (vec!["replay", "tiny.toml", "empty"], "empty: no line from which to recognise the format"),
        (vec!["replay", "tiny.toml", "junk"], "junk: it is binary data of no known format"),
        (vec!["replay", "tiny.toml", "tiny.toml"], "tiny.toml: no known format"),
        (vec!["replay", "tiny.toml"], "the following required arguments were not provided: <TRACE>"),
        (
            vec!["replay", "tiny.toml", "trace.csv", "--log", "trace.csv"],
            "--log trace.csv: trace.csv is read by",
        ),
        (
            vec!["replay", "tiny.toml", "trace.csv", "--limit", "0"],
            "invalid value '0' for '--limit <N>'; allowed: a whole number from 1",
        ),
        (vec!["replay", "tiny.toml", "trace.csv", "--stream", "-1"], "invalid value '-1' for '--stream <N>'"),
        (vec!["replay", "tiny.toml", "trace.csv", "--stream", "5000000000"], "invalid value '5000000000'"),
        (
            vec!["replay", "tiny.toml", "trace.csv", "--address", "wrap"],
            "invalid value 'wrap' for '--address <HOW>'; allowed: refuse, fold",
        ),
        (vec!["compare", "tiny.toml", "", "--rw", "read"], "\"\": an empty name"),
        (
            vec!["age", "tiny.toml", "--fill", "-1"],
            "invalid value '-1' for '--fill <SHARE>'; allowed: 0 to 1",
        ),
        (vec!["age", "tiny.toml", "--overwrite", "nan"], "invalid value 'nan'"),
        (vec!["age", "tiny.toml", "-o", "dir"], "dir: not a file"),
        (vec!["target", "list", "nope"], "nope: not a preset"),
        (vec!["target", "create", "tiny.toml", "x", "--units", "5-2"], "invalid value '5-2'"),
        (vec!["fault", "--control", "c", "--kill-die", "-1"], "invalid value '-1' for '--kill-die <DIE>'"),
        (
            vec!["status"],
            "the following required arguments were not provided: --control <PATH>; see pellucid status --help",
        ),
        (vec!["reproduce", "nope"], "nope: neither a claim nor a paper"),
        (
            vec!["reproduce", "--seed", "-1", "C10"],
            "invalid value '-1' for '--seed <N>'; allowed: a whole number from 0",
        ),
        (vec!["show", "jobs.toml"], "jobs.toml:2: rw = nonsense: allowed: read, "),
        (run(&["--steady-state="]), "--steady-state: no value; `pellucid explain run.steady_state`"),
        (
            serve(&["--nbd", "unix:s", "--lead-us", "99999999999"]),
            "invalid value '99999999999' for '--lead-us <N|measured>'; allowed: a number of microseconds from 0 to 1000000",
        ),
        (serve(&["--nbd", "99999"]), "invalid value '99999' for '--nbd <ADDR>'"),
        (serve(&["--nbd", "unix:s", "--record", "dir"]), "dir: a directory; allowed: a file"),
        (serve(&["--nbd", "unix:s", "--record", "no/file"]), "no/file: no is no directory"),
        (vec!["serve", "--nbd", "unix:s"], "the following required arguments were not provided: <DRIVE>"),
        (run(&["--bs", "0"]), "--bs: bs = 0: allowed: more than 0 bytes"),
        (run(&["--bs", "99999999999999999999"]), "--bs: bs = 99999999999999999999: allowed"),
        (run(&["--iodepth", "0"]), "--iodepth: iodepth = 0: allowed: a whole number from 1"),
        (run(&["--size", "-1"]), "--size: size = -1: allowed"),
        (
            vec!["run", "tiny.toml", "--rw", "read", "--number-ios", "-5"],
            "--number-ios: number_ios = -5: allowed",
        ),
        (run(&["--runtime", "-5s"]), "--runtime: -5s is a negative number; allowed: numbers from 0"),
        (
            run(&["--seed", "99999999999999999999999"]),
            "invalid value '99999999999999999999999' for '--seed <N>'; allowed: a whole number from 0 to 9223372036854775807",
        ),
        (run(&["--set"]), "a value is required for '--set <KEY=VALUE>'"),
        (run(&["--set", "x"]), "--set x: not allowed; allowed: KEY=VALUE"),
        (run(&["--set", "=3"]), "--set =3: not allowed"),
        (run(&["--report", ""]), "a value is required for '--report <DIR>'"),
        (run(&["--log", "tiny.toml"]), "--log tiny.toml: a log of requests is CSV"),
        (run(&["--image", "junk"]), "junk: not the image of a drive"),
        (run(&["--image", "dir"]), "dir: not the image of a drive"),
        (run(&["-x"]), "unexpected argument '-x' found; see pellucid run --help"),
        (run(&["a", "b"]), "unexpected argument 'b' found"),
    ] {
        let sentence = refused(&folder, &words);
        assert!(sentence.starts_with(named), "{words:?}: {sentence}");
        assert_eq!(sentence.lines().count(), 1, "{words:?}: {sentence}");
    }
    assert_eq!(std::fs::read_to_string(folder.path("tiny.toml")).unwrap(), TINY);
}

/// A reader that goes away, no standard input, nothing that could be written where one stands.
#[test]
fn surroundings_that_are_not_as_usual_do_no_harm() {
    let folder = Folder::with_drive();
    let shell = |script: &str| {
        let script = format!("P={}; {script}", env!("CARGO_BIN_EXE_pellucid"));
        let done = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path(""))
            .output()
            .unwrap();
        (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let run = "$P run tiny.toml --rw randread --size 50% --number-ios 100 --quiet";
    for script in [
        "{ $P show cosmos-plus; echo $? >&2; } | head -1 >/dev/null".to_string(),
        format!("{{ {run} --json; echo $? >&2; }} | head -c 1 >/dev/null"),
        "{ $P run --help; echo $? >&2; } | head -1 >/dev/null".to_string(),
        format!("{run} <&- >/dev/null; echo $? >&2"),
        format!("{run} </dev/null >/dev/null; echo $? >&2"),
        format!(
            "cd /proc && {} >/dev/null; echo $? >&2",
            run.replace("tiny.toml", folder.path("tiny.toml").to_str().unwrap())
        ),
    ] {
        assert_eq!(shell(&script), (0, "0\n".into()), "{script}");
    }
    for words in [run, "$P", "$P --help", "$P run --help", "$P --version"] {
        let (status, stderr) = shell(&format!("{words} >/dev/full"));
        assert_eq!(
            (status, stderr.as_str()),
            (1, "error: No space left on device (os error 28)\n"),
            "{words}"
        );
    }
}

/// Keys of a drive have no effect on one that is served from elsewhere.
#[test]
fn a_remote_drive_takes_keys_of_its_host_ftl_alone() {
    let folder = Folder::new();
    for set in ["ftl.victim=fifo", "ftl.over_provisioning=0.2", "media.blocks=32", "drive.name=bob"] {
        let done = folder.run(&["serve", "--remote", "127.0.0.1:1", "--set", set, "--nbd", "unix:nbd"]);
        let told = format!("127.0.0.1:1: --set {set}: without effect on a drive that is not modelled here");
        assert!(done.status == 2 && done.stderr.contains(&told), "{}", done.stderr);
    }
    let with = ["serve", "--remote", "127.0.0.1:1", "--set", "host.ftl.over_provisioning=0.2"];
    let done = folder.run(&[&with[..], &["--nbd", "unix:nbd"]].concat());
    assert!(done.status == 1 && !done.stderr.contains("without effect"), "{}", done.stderr);
}

/// The host's view of a namespace does not depend on how its data are stored.
#[test]
fn a_drive_with_namespaces_is_shown_whatever_its_store() {
    let folder = Folder::new();
    let words = ["show", "zoned", "--set", "ecc.code=bch", "--set", "ecc.data=real", "--set"];
    let shown = |store| folder.run(&[&words[..], &[store]].concat()).answer();
    let told = shown("media.store=ram");
    assert!(told.starts_with("# namespace 0: zoned, "), "{told}");
    let in_file = shown("media.store=file:media.img");
    assert_eq!(in_file.lines().next(), told.lines().next());
    assert!(!folder.path("media.img").exists());
}

#[test]
fn placement_handles_are_shown_as_an_interface() {
    let folder = Folder::with_drive();
    let sets = [
        "drive.namespace=[{ interface = \"fdp\" }]",
        "ftl.handles=3",
        "ftl.isolation=persistent",
        "ftl.over_provisioning=0.5",
    ];
    let words = sets.iter().flat_map(|set| ["--set", *set]);
    let told = folder.run(&["show", "tiny.toml"].into_iter().chain(words).collect::<Vec<_>>()).answer();
    let lines: Vec<&str> = told.lines().take(2).collect();
    assert!(lines[0].starts_with("# namespace 0: fdp, "), "{told}");
    assert!(
        lines[1].starts_with("#   3 reclaim unit handles, persistently isolated, reclaim units of "),
        "{told}"
    );
}

#[test]
fn files_that_cannot_be_written_are_named_before_any_work() {
    let folder = Folder::with_drive();
    folder.write("taken", "");
    // Before the drive is preconditioned: that would fail here.
    let words = ["run", "tiny.toml", "--number-ios", "10", "--json", "--set", "media.faults.program_fail=1"];
    for (option, why) in [
        (["--report", "taken"], "a file; allowed: a directory, or a new name"),
        (["--log", "taken/log.csv"], "taken is no directory; allowed: a name in one that exists"),
        (["--log", "."], "a directory; allowed: a file, or a new name"),
    ] {
        let sentence = refused(&folder, &[&words[..], &option].concat());
        assert_eq!(sentence, format!("{}: {why}", option[1]), "{option:?}");
    }
    for option in [["--report", "/proc/nope"], ["--log", "/proc/nope"]] {
        let done = folder.run(&[&words[..], &option].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{option:?}");
        assert_eq!(done.stderr, "error: /proc/nope: cannot be written: No such file or directory\n");
    }
    let age = ["age", "tiny.toml", "-o", "nowhere/aged", "--set", "media.faults.program_fail=1"];
    assert!(refused(&folder, &age).starts_with("nowhere/aged: nowhere is no directory; "));
    assert!(refused(&folder, &["reproduce", "C10", "--report", "taken"]).starts_with("taken: a file; "));
}

#[test]
fn mistakes_in_serving_are_named() {
    let folder = Folder::with_drive();
    assert_eq!(
        refused(&folder, &["serve", "tiny.toml"]),
        "no way to reach the drive; allowed: --nvme-tcp ADDR, --nbd ADDR, --ublk; for one: pellucid serve tiny.toml \
         --set media.store=ram --nvme-tcp 4420"
    );
    // A host would take them for two paths to one.
    assert_eq!(
        refused(&folder, &["serve", "tiny.toml", "tiny.toml", "--set", "media.store=ram", "--nvme-tcp", "0"]),
        "tiny: two drives of this name; names must differ; for one: tiny.toml,drive.name=tiny-2"
    );
    assert_eq!(
        refused(&folder, &["serve", "tiny.toml", "--nvme-tcp", "0"]).split("; ").last(),
        Some("for one: --set media.store=ram")
    );
    let done = folder.run(&["status", "--control", "nowhere"]);
    assert_eq!((done.status, done.stdout.as_str()), (1, ""));
    let why = "error: nowhere: no server answers here (a server is started with --control nowhere): ";
    assert!(done.stderr.starts_with(why), "{}", done.stderr);
    for command in [&["status", "--control", "nowhere"][..], &["presets"]] {
        for option in [["--report", "out"], ["--set", "ftl.victim=fifo"], ["--seed", "7"]] {
            let sentence = refused(&folder, &[command, &option].concat());
            let name = format!("{} means nothing to ", option[0]);
            assert!(sentence.starts_with(&name), "{command:?}: {sentence}");
        }
    }
    let sentence = refused(&folder, &["fault", "--control", "nowhere", "--program-fail", "2"]);
    assert!(sentence.contains("allowed: a probability from 0 to 1"), "{sentence}");
    let serve = ["serve", "tiny.toml", "--set", "media.store=ram", "--nbd", "unix:socket"];
    let fault = |text| folder.run(&[&serve[..], &["--fault", text]].concat());
    for (text, named) in [
        ("lightning@2s", "allowed: power-cut, program-fail=P"),
        ("power-cut@soon", "allowed: a time (2s, 500ms), a number of operations (1000ops), random"),
        ("power-cut@2s:drive=other", "drive: \"other\"; allowed: tiny"),
    ] {
        let done = fault(text);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{text}: {}", done.stderr);
        assert!(done.stderr.contains(named), "{text}: {}", done.stderr);
    }
    for connections in ["0", "65520"] {
        let done = folder.run(&[&serve[..], &["--connections", connections]].concat());
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{connections}: {}", done.stderr);
        assert!(done.stderr.contains("allowed: a whole number from 1 to 65519"), "{}", done.stderr);
    }
    let sentence = refused(&folder, &[&serve[..], &["--tls", "nowhere"]].concat());
    assert!(
        sentence.starts_with("nowhere/server-key.pem: private key: ") && !sentence.contains('{'),
        "{sentence}"
    );
    std::fs::create_dir(folder.path("keys")).unwrap();
    let key = folder.path("keys").join("server-key.pem");
    for (content, named) in [
        (&b"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n"[..], "the file is cut off: its PEM has no end line"),
        (&[0xff, 0xfe, 0x00, 0x0a], "none in this file; allowed: one in PEM"),
    ] {
        std::fs::write(&key, content).unwrap();
        let sentence = refused(&folder, &[&serve[..], &["--tls", "keys"]].concat());
        assert!(sentence.starts_with(&format!("keys/server-key.pem: private key: {named}")), "{sentence}");
    }
    // Where the kernel has it, there is nothing to refuse; tools/guest/ublk.sh is the test of that.
    if std::path::Path::new("/dev/ublk-control").exists() {
        return;
    }
    let done = folder.run(&["serve", "tiny.toml", "--set", "media.store=ram", "--ublk"]);
    assert_eq!((done.status, done.stdout.as_str()), (1, ""), "{}", done.stderr);
    assert!(
        done.stderr.contains("--ublk: this kernel") && done.stderr.contains("nvme connect"),
        "{}",
        done.stderr
    );
}

#[test]
fn usage_is_explained_with_examples() {
    let folder = Folder::new();
    for command in crate::common::COMMANDS {
        let help = folder.run(&[command, "--help"]).answer();
        assert!(help.contains(&format!(":\n  pellucid {command}")), "{help}");
        assert!(!help.contains('\u{1b}'), "{help}");
    }
    let help = folder.run(&["run", "--help"]).answer();
    // It says something of job files alone.
    for key in pellucid_workload::JobBuilder::keys().iter().filter(|key| key.name != "kb_base") {
        assert!(help.contains(&format!("--{}", key.name)), "{} is not listed", key.name);
    }
    // Without a word it shows where to begin.
    let first = folder.run(&[]).answer();
    assert_eq!(first.matches("\n  pellucid ").count(), 3, "{first}");
    assert!(first.contains("Help: pellucid --help"), "{first}");
    assert_eq!(folder.run(&["rnu"]).status, 2);
}

#[test]
fn a_workload_on_zones_alone_is_refused() {
    let sentence = refused(&Folder::new(), &["run", "zoned", "--rw", "randwrite", "--number-ios", "1"]);
    assert_eq!(
        sentence,
        "zoned: no block namespace to run a workload on; allowed: a drive with one, or with [host] layers or [[target]] above an \
         open-channel or zoned namespace, or jobs on chunks or zones (rw = chunk-write, zone-append)"
    );
}

#[test]
fn an_unknown_claim_is_named_with_those_that_exist() {
    let folder = Folder::new();
    assert_eq!(
        refused(&folder, &["reproduce", "C10", "C99"]),
        "C99: neither a claim nor a paper; allowed: C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, \
         C13, C14, C15, L1, L2, B1, B2, B3, B5, B6, B7, B8, B4, P1, P2, P3, P4, P5, P6, U1, U2, G1, J1, J2, J3, S1, S2, S3, S4, N1, N2, F1, F2, F3, F4, F5, F6, F7, F8; \
         cosmos-plus, lightnvm, theory, cachelib, zns, data-sheets, prism, jasmine, flashfire"
    );
    let sentence = refused(&folder, &["reproduce", "C10", "--verify"]);
    assert_eq!(
        sentence,
        "--verify means nothing to reproduce; allowed: with run, replay, compare, graph run, fs run"
    );
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let folder = Folder::with_drive();
    let run = |more: &[&str]| refused(&folder, &[&["run", "tiny.toml", "--rw", "read"], more].concat());
    for (more, start) in [
        (&["--live"][..], "--live: standard output is no terminal; allowed: "),
        (&["--live", "--json"], "--live and --json do not go together"),
        (&["--monitor", "0.0.0.0:0"], "monitor 0.0.0.0:0: other machines can reach this address"),
        (
            &["--monitor", "99999"],
            "invalid value '99999' for '--monitor <ADDR>': port \"99999\"; allowed: HOST:PORT",
        ),
    ] {
        let sentence = run(more);
        assert!(sentence.starts_with(start), "{sentence}");
    }
    let sentence = refused(&folder, &["top", "--control", "nowhere"]);
    assert!(
        sentence.starts_with("top: standard output is no terminal; allowed: pellucid status"),
        "{sentence}"
    );
}

#[test]
fn secrets_that_cannot_be_used_are_named_and_not_shown() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_drive();
    folder.write("host.key", "DHHC-1:01:c2VjcmV0:\n");
    let serve =
        ["serve", "tiny.toml", "--set", "media.store=ram", "--nvme-tcp", "0", "--dhchap", "nqn.h=host.key"];
    let mode = |mode| {
        let path = folder.path("host.key");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode");
    };
    mode(0o644);
    let others = "--dhchap nqn.h: host.key: mode 0644 lets others at the secret; allowed: 0600, 0400";
    assert_eq!(refused(&folder, &serve), others);
    mode(0o600);
    let sentence = refused(&folder, &serve);
    assert!(
        sentence.starts_with("--dhchap nqn.h: host.key: line 1: the key has a wrong length"),
        "{sentence}"
    );
    assert!(!sentence.contains("c2VjcmV0"), "{sentence}");
}

#[test]
fn keys_for_tls_that_cannot_be_used_are_named_and_not_shown() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_drive();
    let serve = |host: &str| {
        let key = format!("{host}=tls.key");
        let options =
            ["serve", "tiny.toml", "--set", "media.store=ram", "--nvme-tcp", "0", "--tls-psk", &key];
        refused(&folder, &[&options[..], &["--host-nqn", "nqn.h"]].concat())
    };
    folder.write("tls.key", "NVMeTLSkey-1:01:c2VjcmV0:\n");
    let path = folder.path("tls.key");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("mode");
    let sentence = serve("nqn.h");
    assert!(
        sentence.starts_with("--tls-psk nqn.h: tls.key: line 1: the key has a wrong length"),
        "{sentence}"
    );
    assert!(!sentence.contains("c2VjcmV0"), "{sentence}");
    folder.write("tls.key", "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:\n");
    assert!(serve("nqn.other").contains("nqn.h: has no key for TLS"), "a host that could not get in");
    if cfg!(not(feature = "tls-psk")) {
        let sentence = serve("nqn.h");
        assert!(sentence.starts_with("--tls-psk: this build has no TLS for NVMe/TCP"), "{sentence}");
    }
}

/// A drive that wears out refuses writes: the report is there, and the exit status and a sentence say that the work failed.
#[test]
fn requests_that_failed_fail_the_command() {
    let folder = Folder::with_drive();
    folder.write("fifo.toml", &TINY.replace("[drive.ftl]\n", "[drive.ftl]\nvictim = \"fifo\"\n"));
    let worn = ["--set", "media.endurance=20", "--rw", "randwrite", "--number-ios", "60000", "--json"];
    for command in [["run", "tiny.toml"].as_slice(), &["compare", "tiny.toml", "fifo.toml"]] {
        let done = folder.run(&[command, &worn].concat());
        assert_eq!(done.status, 1, "{}", done.stderr);
        let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("the report is there");
        let sentence = done.stderr.lines().last().expect("a sentence").to_string();
        assert!(
            sentence.contains("of 60,000 write requests failed; the drive takes no writes any more"),
            "{sentence}"
        );
        if command[0] == "run" {
            let failed = report["directions"]["write"]["errors"].as_u64().unwrap();
            assert!(failed > 0 && report["wear"]["read_only"] == true);
        }
    }
    let unreadable =
        ["--set", "media.faults.read_fail=0.9", "--rw", "randread", "--number-ios", "500", "--json"];
    let done = folder.run(&[&["run", "tiny.toml"], &unreadable[..]].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.ends_with(" of 500 read requests failed\n"), "{}", done.stderr);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("the report is there");
    assert!(report["directions"]["read"]["errors"].as_u64().unwrap() > 0);
}

#[test]
fn keys_of_another_translation_are_refused_or_warned_of() {
    let folder = Folder::with_drive();
    folder.write("cached.toml", &TINY.replace("[drive.ftl]\n", "[drive.ftl]\nmap_cache = \"1MiB\"\n"));
    let warned = |words: &[&str]| {
        let done = folder.run(&[&["show"], words].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        done.stderr
    };
    assert_eq!(
        refused(&folder, &["show", "tiny.toml", "--set", "ftl.map_cache=1MiB"]),
        "--set ftl.map_cache: drive.ftl.map_cache = \"1MiB\": has no effect here; allowed: with drive.ftl.map = \"demand\""
    );
    assert!(warned(&["cached.toml"]).contains("drive.ftl.map_cache has no effect"));
    let bast = ["--set", "ftl.map=bast", "--set", "media.blocks=60", "--set", "ftl.log_blocks=4"];
    let over = ["--set", "ftl.over_provisioning=1"];
    // A description keeps what is meant for its own translation when `--set` takes another.
    assert_eq!(warned(&[&["cached.toml"], &bast[..], &over[..]].concat()), "");
    assert!(
        refused(&folder, &[&["show", "tiny.toml"], &bast[4..], &over[..]].concat())
            .contains("drive.ftl.log_blocks = 4: has no effect here")
    );
    assert_eq!(warned(&["tiny.toml"]), "");
    // The output of `show` has every key, and causes no warning.
    folder.write("shown.toml", &folder.run(&["show", "tiny.toml"]).answer());
    assert_eq!(warned(&["shown.toml"]), "");
}

/// A file has no model that a key could change: each key is refused, in front of it and in front of a cache on it.
#[test]
fn keys_for_plain_files_are_refused() {
    let folder = Folder::new();
    std::fs::write(folder.path("disk"), vec![0; 1 << 20]).expect("a file");
    std::fs::write(folder.path("flash"), vec![0; 1 << 20]).expect("a file");
    for set in ["nonsense.key=1", "media.store=ram", "media.sector_size=512", "host.cache.mode=write-through"]
    {
        let expected = format!(
            "file:disk: --set {set}: without effect on a drive that is not modelled here; allowed: none"
        );
        assert_eq!(refused(&folder, &["serve", "file:disk", "--set", set, "--nbd", "unix:s"]), expected);
        let cache = ["cache", "--backing", "disk", "--drive", "file:flash", "--set", set, "--nbd", "unix:s"];
        let sentence = refused(&folder, &cache);
        assert!(
            sentence.starts_with(&format!("file:flash: --set {set}: without effect on a drive")),
            "{sentence}"
        );
    }
}
