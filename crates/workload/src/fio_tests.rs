//! Realistic job files, and the errors of wrong ones.

use super::super::{
    Amount, BlockSize, Distribution, Generator, IoLimit, Pattern, Rate, RateProcess, Think, Zone,
};
use super::*;
use pellucid_flash::Nanos;
use proptest::prelude::*;

fn read(text: &str) -> FioFile {
    parse_fio(text, "test.fio", 0).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    parse_fio(text, "test.fio", 0).unwrap_err().to_string()
}

fn ignored(file: &FioFile) -> Vec<(usize, &str)> {
    file.notices.iter().map(|notice| (notice.line, notice.key.as_str())).collect()
}

#[test]
fn a_typical_drive_test() {
    let file = read(
        "; four corners\n\
         [global]\n\
         ioengine=libaio\n\
         direct=1            # no page cache\n\
         filename=${DEV}\n\
         group_reporting\n\
         runtime=60\n\
         time_based\n\
         ramp_time=10s\n\
         \n\
         [seq-read]\n\
         rw=read\n\
         bs=128k\n\
         iodepth=32\n\
         stonewall\n\
         \n\
         [rand-write]\n\
         stonewall\n\
         rw = randwrite\n\
         bs = 4k\n\
         iodepth = 64\n\
         numjobs = 4\n\
         norandommap\n",
    );
    assert_eq!(ignored(&file), [(3, "ioengine"), (4, "direct"), (5, "filename"), (6, "group_reporting")]);
    assert_eq!(
        file.notices[2].to_string(),
        "line 5: filename=${DEV}: ignored: every job works on the drive itself, not on files"
    );
    assert_eq!(file.jobs.len(), 5);
    let (seq, rand) = (&file.jobs[0], &file.jobs[4]);
    assert_eq!((seq.name.as_str(), seq.pattern, seq.iodepth), ("seq-read", Pattern::Read, 32));
    assert_eq!(seq.block[0], BlockSize::Fixed(131_072));
    assert_eq!((seq.runtime, seq.ramp_time), (Some(Nanos::from_secs(60)), Nanos::from_secs(10)));
    assert_eq!((seq.limit, seq.random_map, seq.stonewall), (IoLimit::None, true, true));
    assert_eq!((rand.name.as_str(), rand.random_map, rand.iodepth), ("rand-write", false, 64));
    assert_eq!(
        file.jobs.iter().map(|job| job.stonewall).collect::<Vec<_>>(),
        [true, true, false, false, false]
    );
    assert_eq!(file.jobs.iter().map(|job| job.stream).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for job in &file.jobs {
        assert!(Generator::new(job, 1 << 30, 512).is_ok());
    }
}

#[test]
fn a_database_and_its_log() {
    let file = read(
        "[global]\n\
         ioengine=io_uring\n\
         size=8g\n\
         \n\
         [data]\n\
         rw=randrw\n\
         rwmixread=70\n\
         bssplit=8k/90:16k/10,8k/50:64k/50\n\
         random_distribution=zoned:80/20:20/80\n\
         iodepth=16\n\
         rate_iops=5000,2000\n\
         rate_process=poisson\n\
         \n\
         [log]\n\
         name=redo\n\
         rw=write\n\
         bs=4k\n\
         offset=90%\n\
         size=10%\n\
         fdatasync=1\n\
         thinktime=200\n\
         thinktime_blocks=4\n\
         io_size=1g\n",
    );
    let [data, log] = file.jobs.as_slice() else { panic!("{} jobs", file.jobs.len()) };
    assert_eq!(data.read_percent, 70);
    assert_eq!(data.block[0], BlockSize::Split(vec![(8192, 90.0), (16_384, 10.0)]));
    assert_eq!(data.block[1], BlockSize::Split(vec![(8192, 50.0), (65_536, 50.0)]));
    assert_eq!(data.rate, [Rate::Iops(5000), Rate::Iops(2000), Rate::Iops(2000)]);
    assert_eq!(data.rate_process, RateProcess::Poisson);
    let zone = |access_percent, p| Zone { access_percent, extent: Amount::Percent(p) };
    assert_eq!(data.distribution[1], Distribution::Zoned(vec![zone(80.0, 20), zone(20.0, 80)]));
    assert_eq!((log.name.as_str(), log.size, log.offset), ("redo", Amount::Percent(10), Amount::Percent(90)));
    assert_eq!((log.flush_every, log.limit), (1, IoLimit::Amount(Amount::Bytes(1 << 30))));
    assert_eq!(log.think, Some(Think { time: Nanos::from_us(200), blocks: 4 }));
    assert_eq!(data.size, Amount::Bytes(8 << 30));
}

#[test]
fn later_globals_reach_only_later_sections() {
    let file = read("[global]\nbs=8k\n[a]\n[GLOBAL]\nrw=write\nname=x\n[b]\nbs=16k\nwait_for=a\n");
    let [a, b] = file.jobs.as_slice() else { panic!() };
    assert_eq!((a.name.as_str(), a.pattern, &a.block[0]), ("a", Pattern::Read, &BlockSize::Fixed(8192)));
    assert_eq!((b.name.as_str(), b.pattern, &b.block[0]), ("b", Pattern::Write, &BlockSize::Fixed(16_384)));
    assert_eq!(b.wait_for.as_deref(), Some("a"));
}

#[test]
fn kb_base_counts_from_wherever_it_stands() {
    let file = read("[a]\nbs=4ki\nkb_base=1000\nsize=1m\n");
    assert_eq!(file.jobs[0].block[0], BlockSize::Fixed(4096));
    assert_eq!(file.jobs[0].size, Amount::Bytes(1_000_000));
}

#[test]
fn synchronous_engines_have_depth_one() {
    let file = read("[global]\nioengine=psync\niodepth=32\n[a]\n[b]\nioengine=libaio\n");
    assert_eq!(file.jobs.iter().map(|job| job.iodepth).collect::<Vec<_>>(), [1, 32]);
    assert_eq!(
        file.notices[1].to_string(),
        "line 3: iodepth=32: ignored: ioengine=psync is synchronous and keeps one I/O in flight: depth 1"
    );
    let file = read("[a]\niodepth=32\n");
    assert_eq!(file.jobs[0].iodepth, 32);
    assert_eq!(ignored(&file), [(2, "iodepth")]);
    assert!(read("[a]\niodepth=1\n").notices.is_empty());
}

#[test]
fn windows_line_ends_and_byte_order_marks_are_read() {
    let file = read("\u{feff}[a]\r\nrw=randread\r\n\r\n; end");
    assert_eq!(file.jobs[0].pattern, Pattern::RandRead);
}

#[test]
fn syntax_errors_name_the_line() {
    for (text, what) in [
        ("", "line 1: no job; allowed: at least one [section] besides [global]"),
        ("[global]\nbs=4k\n", "line 1: no job; allowed: at least one [section] besides [global]"),
        ("rw=read\n[a]", "line 1: rw=read: before the first section; allowed: [global] above it"),
        ("[a]\n[b", "line 2: [b: allowed: a section as [name]"),
        ("[ ]", "line 1: [ ]: allowed: a section as [name]"),
        ("[a]\n=4", "line 2: =4: allowed: key=value, key, [section], or a comment after ; or #"),
        ("[a]\nrw read", "line 2: rw read: allowed: key=value, key, [section], or a comment after ; or #"),
        (
            "[a]\ninclude other.fio",
            "line 2: include other.fio: include is refused; allowed: the jobs of that file, written here",
        ),
    ] {
        assert_eq!(error(text), format!("test.fio: {what}"));
    }
}

#[test]
fn every_refused_key_is_named_with_what_is_allowed() {
    assert_eq!(
        error(
            "[global]\nverify=crc32c\nbs=4q\n[a]\nsteadystate=iops:0.3%\n\
             size=${SIZE}\nioengine=cpuio\ndirect=1\n"
        ),
        "test.fio: line 2: verify=crc32c: refused: allowed: 0; or leave it out and use --verify\n\
         test.fio: line 3: bs=4q: refused: allowed: a whole number of bytes, with k, m, g, t or p (4096, \
         4k, 1m)\n\
         test.fio: line 5: steadystate=iops:0.3%: refused: allowed: --steady-state (run.steady_state), with the same words, for all jobs together\n\
         test.fio: line 6: size=${SIZE}: refused: allowed: plain values; variables and keywords ($) are \
         not expanded\n\
         test.fio: line 7: ioengine=cpuio: refused: allowed: libaio, io_uring, io_uring_cmd, posixaio, \
         windowsaio, \
         solarisaio, sync, psync, vsync, pvsync, pvsync2, mmap, splice, sg, null, libzbc, xnvme, spdk; or \
         leave it \
         out; other engines do not do block I/O"
    );
    for key in ["read_iolog=t", "replay_time_scale=2", "zonemode=zbd", "nrfiles=4", "latency_target=5ms"] {
        assert!(
            error(&format!("[a]\n{key}"))
                .starts_with(&format!("test.fio: line 2: {key}: refused: allowed: "))
        );
    }
    for key in ["verify=0", "zonemode=none", "nrfiles=1", "do_verify=0", "exitall=0"] {
        assert_eq!(read(&format!("[a]\n{key}")).notices.len(), 1, "{key}");
    }
}

#[test]
fn an_unknown_key_is_refused() {
    let text = error("[a]\niodepht=4");
    let start = "test.fio: line 2: iodepht=4: refused: iodepht: unknown key (did you mean iodepth?); \
        allowed: name, rw, ";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn sections_that_make_no_sense_are_refused() {
    assert_eq!(
        error("[global]\ntime_based\n\n[a]\n"),
        "test.fio: line 4: [a]: time_based = 1: allowed: only together with runtime"
    );
    assert_eq!(
        error("[a]\nwait_for=b\n[b]\n"),
        "test.fio: line 1: [a]: wait_for = b: unknown; allowed: none: no job stands before this one"
    );
    assert_eq!(
        error("[a]\nflow=8\n[b]\nflow=2\nflow_id=1\n"),
        "test.fio: line 1: [a]: flow = 8: allowed: with two jobs or more of flow_id 0, which keep a ratio, or with numjobs: this one is alone"
    );
    assert_eq!(
        error("[global]\nnumjobs=4096\n[a]\n[b]\n"),
        "test.fio: line 4: [b]: numjobs = 4096: allowed: at most 4096 jobs in a file, clones counted"
    );
}

#[test]
fn no_foreign_key_hides_one_of_ours_or_another() {
    let names: Vec<&str> = FOREIGN.iter().flat_map(|foreign| foreign.names.split_whitespace()).collect();
    for (index, name) in names.iter().enumerate() {
        assert!(JobBuilder::key(name).is_none(), "{name} is a key of ours");
        assert!(!names[..index].contains(name), "{name} stands twice");
    }
    for doc in JobBuilder::keys() {
        assert!(foreign(doc.name).is_none(), "{}", doc.name);
    }
}

/// Lines that resemble a job file, so that the search gets past the first line.
fn any_file() -> impl Strategy<Value = String> {
    let foreign = FOREIGN.iter().flat_map(|foreign| foreign.names.split_whitespace());
    let keys: Vec<&str> = JobBuilder::keys().iter().map(|doc| doc.name).chain(foreign).collect();
    let examples: Vec<&str> = JobBuilder::keys().iter().map(|doc| doc.example).collect();
    let value = prop_oneof![prop::sample::select(examples).prop_map(String::from), "[0-9a-z%:/,.\\-]{0,12}"];
    let own: Vec<_> = JobBuilder::keys().iter().map(|doc| format!("{}={}", doc.name, doc.example)).collect();
    let line = prop_oneof![
        12 => prop::sample::select(own),
        2 => (prop::sample::select(keys), value).prop_map(|(key, value)| format!("{key}={value}")),
        1 => "\\[[a-z]{1,6}\\]",
        1 => Just("[global]".to_string()),
        1 => "[ -~]{0,20}",
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| format!("[a]\n{}", lines.join("\n")))
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(?s).{0,200}") {
        if let Err(error) = parse_fio(&text, "x", 0) {
            prop_assert!(error.to_string().starts_with("x: line "));
        }
    }

    #[test]
    fn no_job_file_makes_parser_or_generator_panic(text in any_file(), sectors in 1u64..100_000) {
        let Ok(file) = parse_fio(&text, "x", 0) else { return Ok(()) };
        prop_assert!(file.notices.iter().all(|notice| notice.severity == Severity::Ignored));
        for job in file.jobs.iter().take(4) {
            let Ok(generator) = Generator::new(job, sectors * 512, 512) else { continue };
            for io in generator.take(100) {
                prop_assert!(io.lba.0 + u64::from(io.sectors) <= sectors, "{io:?}");
            }
        }
    }
}
