//! Keys: every key works, and every wrong one reports the allowed values.

use super::super::Zone;
use super::*;

fn built(keys: &[(&str, &str)]) -> Result<Job, JobError> {
    let mut builder = JobBuilder::new(Dialect::Native);
    for (key, value) in keys {
        builder.set(key, value)?;
    }
    builder.build()
}

fn error(key: &str, value: &str) -> String {
    JobBuilder::new(Dialect::Native).set(key, value).unwrap_err().to_string()
}

#[test]
fn every_key_accepts_its_example_and_changes_the_job() {
    for doc in JobBuilder::keys() {
        for name in std::iter::once(&doc.name).chain(doc.aliases) {
            let of_fio = doc.name == "kb_base";
            let mut builder = JobBuilder::new(if of_fio { Dialect::Fio } else { Dialect::Native });
            let before = format!("{builder:?}");
            builder.set(name, doc.example).unwrap();
            let is_default = ["direct", "bs", "queue", "kb_base"].contains(&doc.name);
            assert_eq!(before == format!("{builder:?}"), is_default, "{name}");
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = JobBuilder::keys()
        .iter()
        .flat_map(|doc| std::iter::once(doc.name).chain(doc.aliases.iter().copied()))
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn an_unknown_key_names_its_neighbour_and_the_allowed_ones() {
    let text = error("iodpeth", "4");
    assert!(
        text.starts_with(
            "iodpeth: unknown key (did you mean iodepth?); allowed: name, rw, app, filesystem, backend, "
        ),
        "{text}"
    );
    assert!(text.ends_with(", plids, plid_select, kb_base"), "{text}");
    let text = error("colour", "red");
    assert!(text.starts_with("colour: unknown key; allowed: name, "), "{text}");
    assert_eq!(nearest("blocksise"), Some("blocksize"));
    assert_eq!(nearest("x"), None);
}

#[test]
fn wrong_values_say_what_is_allowed() {
    for (key, value, text) in [
        ("bs", "4x", "bs = 4x: allowed: a size such as 4096, 4k, 16KiB, 1.5GiB (1024-based), below 8EiB"),
        ("bs", "0", "bs = 0: allowed: more than 0 bytes"),
        ("bs", "1k,2k,3k,4k", "bs = 1k,2k,3k,4k: allowed: one value, or up to three for read,write,trim"),
        ("iodepth", "0", "iodepth = 0: allowed: a whole number from 1 to 65536"),
        ("size", "0%", "size = 0%: allowed: more than 0"),
        ("rwmixread", "101", "rwmixread = 101: allowed: a whole number from 0 to 100"),
        ("norandommap", "yes", "norandommap = yes: allowed: 0 or 1"),
        ("rate_process", "burst", "rate_process = burst: allowed: linear or poisson"),
        (
            "runtime",
            "10y",
            "runtime = 10y: allowed: a time such as 75us, 3.8ms, 30s, 5m, at most 3650d; only 0 needs no unit",
        ),
        (
            "rw",
            "randread:8",
            "rw = randread:8: allowed: read, write, trim, rw, readwrite, trimwrite, randread, randwrite, \
             randtrim, \
             randrw, randtrimwrite, fileserver, webserver, varmail, chunk-read, chunk-randread, chunk-write, \
             chunk-copy, chunk-reset, zone-read, zone-randread, zone-write, zone-append, zone-reset (without the \
             :number that fio allows)",
        ),
        (
            "random_distribution",
            "zipf:0",
            "random_distribution = zipf:0: allowed: zipf:theta with theta above 0 and up to 100, and no \
             centre",
        ),
        (
            "bssplit",
            "4k/60:8k/50",
            "bssplit = 4k/60:8k/50: allowed: at most 64 sizes with shares that sum to 100, an empty share \
             taking \
             what is left (4k/60:64k/)",
        ),
    ] {
        assert_eq!(error(key, value), text);
    }
    for value in [
        "pareto:1",
        "pareto:nan",
        "normal:0",
        "zipf:1.2:0.5",
        "zoned",
        "zoned:50/10",
        "zoned:60/10:40/80",
        "zoned_abs:100/",
        "x",
    ] {
        assert!(error("random_distribution", value).contains("allowed: "), "{value}");
    }
    for value in ["4k/x", "4k/-1:8k/101", "4k/nan", "4k/40", "/50", ""] {
        assert!(error("bssplit", value).contains("allowed: "), "{value}");
    }
}

#[test]
fn keys_that_do_not_go_together_are_refused() {
    assert_eq!(
        built(&[("time_based", "1")]).unwrap_err().to_string(),
        "time_based = 1: allowed: only together with runtime"
    );
    assert_eq!(
        built(&[("rate", "1m"), ("rate_iops", "10")]).unwrap_err().to_string(),
        "rate_iops = given: allowed: not together with rate"
    );
}

#[test]
fn commas_give_each_direction_its_own() {
    let fixed = |keys: &[(&str, &str)]| {
        built(keys).unwrap().block.map(|b| if let BlockSize::Fixed(bytes) = b { bytes } else { 0 })
    };
    assert_eq!(fixed(&[("bs", "256k")]), [262_144; 3]);
    assert_eq!(fixed(&[("bs", "8k,32k")]), [8192, 32_768, 32_768]);
    assert_eq!(fixed(&[("bs", "8k,32k,")]), [8192, 32_768, 4096]);
    assert_eq!(fixed(&[("bs", ",8k")]), [4096, 8192, 8192]);
    assert_eq!(fixed(&[("bs", ",8k,")]), [4096, 8192, 4096]);
    assert_eq!(fixed(&[("bs", "4kib")]), [4096; 3]);
    assert!(error("kb_base", "1000").contains("only in a job file of fio"));
    let rates = built(&[("rate_iops", "100,,50")]).unwrap().rate;
    assert_eq!(rates, [Rate::Iops(100), Rate::Unlimited, Rate::Iops(50)]);
}

#[test]
fn splits_and_zones_fill_what_is_left() {
    let job = built(&[("bssplit", "4k/50:1k/:32k/,8k"), ("bs", "64k")]).unwrap();
    assert_eq!(job.block[0], BlockSize::Split(vec![(4096, 50.0), (1024, 25.0), (32_768, 25.0)]));
    assert_eq!(job.block[1], BlockSize::Split(vec![(8192, 100.0)]));
    let job = built(&[("random_distribution", "zoned:60/10:30/:/,50/50:50/50")]).unwrap();
    let zone = |access_percent, p| Zone { access_percent, extent: Amount::Percent(p) };
    assert_eq!(
        job.distribution[0],
        Distribution::Zoned(vec![zone(60.0, 10), zone(30.0, 45), zone(10.0, 45)])
    );
    assert_eq!(job.distribution[1], Distribution::Zoned(vec![zone(50.0, 50), zone(50.0, 50)]));
    let job = built(&[("random_distribution", "zoned_abs:60/20G:40/1t")]).unwrap();
    let Distribution::Zoned(zones) = &job.distribution[2] else { panic!("not zoned") };
    assert_eq!(zones[1], Zone { access_percent: 40.0, extent: Amount::Bytes(1 << 40) });
    let job = built(&[("bsrange", "4k-1k,2k:8k")]).unwrap();
    assert_eq!(job.block[0], BlockSize::Range { min_bytes: 1024, max_bytes: 4096 });
    assert_eq!(job.block[2], BlockSize::Range { min_bytes: 2048, max_bytes: 8192 });
}

#[test]
fn the_block_sizes_of_a_job_read_as_they_were_given() {
    for (keys, words) in [
        ("rw=randrw bs=4k", "4k"),
        ("rw=randrw bs=,8k", "4k,8k"),
        ("rw=randrw bs=4k,8k", "4k,8k"),
        ("rw=randwrite bs=4k,8k", "8k"),
        ("rw=trimwrite bs=4k,8k,16k", ",8k,16k"),
        ("rw=read bs=4", "4"),
        ("rw=read bsrange=512-4k", "512-4k"),
        ("rw=randread bssplit=4k/60:64k/40", "4k/60:64k/40"),
    ] {
        let pairs: Vec<(&str, &str)> = keys.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        assert_eq!(built(&pairs).unwrap().block_words(), words, "{keys}");
    }
}

#[test]
fn the_dialects_differ_in_map_and_end() {
    let limit = |dialect, keys: &[(&str, &str)]| {
        let mut builder = JobBuilder::new(dialect);
        keys.iter().for_each(|(key, value)| builder.set(key, value).unwrap());
        let job = builder.build().unwrap();
        (job.random_map, job.limit)
    };
    assert_eq!(limit(Dialect::Native, &[]), (false, IoLimit::Region));
    assert_eq!(limit(Dialect::Fio, &[]), (true, IoLimit::Region));
    for (key, value) in [("number_ios", "9"), ("runtime", "9s")] {
        assert_eq!(limit(Dialect::Native, &[(key, value)]), (false, IoLimit::None));
        assert_eq!(limit(Dialect::Fio, &[(key, value)]), (true, IoLimit::Region));
    }
    let bytes = IoLimit::Amount(Amount::Bytes(8192));
    assert_eq!(limit(Dialect::Native, &[("number_ios", "9"), ("io_size", "8k")]), (false, bytes));
    assert_eq!(
        limit(Dialect::Fio, &[("runtime", "9"), ("time_based", ""), ("io_size", "8k")]),
        (true, IoLimit::None)
    );
}

#[test]
fn jobs_on_chunks_and_zones_have_keys_of_their_own() {
    let job = built(&[("rw", "chunk-write"), ("bs", "64k"), ("units", "2-5"), ("vector", "4")]).unwrap();
    let raw = job.raw.as_ref().unwrap();
    assert_eq!((raw.container, raw.action), (crate::Container::Chunk, Action::Write));
    assert_eq!((raw.units.clone(), raw.vector, job.pattern_name()), (Some(2..6), 4, "chunk-write"));
    assert_eq!(built(&[("rw", "randread")]).unwrap().raw, None);
    for (keys, told) in [
        (&[("rw", "zone-append"), ("units", "1")][..], "units = 1-1: allowed: only with patterns of chunks"),
        (
            &[("rw", "chunk-write"), ("open_zones", "2")],
            "open_zones = 2: allowed: only with zone-write or zone-append",
        ),
        (
            &[("rw", "zone-read"), ("open_zones", "2")],
            "open_zones = 2: allowed: only with zone-write or zone-append",
        ),
        (
            &[("rw", "chunk-reset"), ("vector", "2")],
            "vector = 2: allowed: only with patterns of chunks that transfer or copy data",
        ),
        (&[("rw", "read"), ("vector", "2")], "vector = 2: allowed: only with patterns of chunks or zones"),
        (&[("target", "a"), ("namespace", "1")], "namespace = given: allowed: not together with target"),
    ] {
        let refused = built(keys).unwrap_err().to_string();
        assert!(refused.starts_with(told), "{refused}");
    }
    let mut builder = JobBuilder::new(Dialect::Native);
    builder.set_at("here", "rw", "chunk-write").unwrap();
    builder.set_at("here", "size", "50%").unwrap();
    assert_eq!(builder.build().unwrap_err().to_string(), "size = 50%: allowed: not with rw = chunk-write");
    let flow = built(&[("flow", "4"), ("flow_id", "2")]).unwrap().flow;
    assert_eq!(flow, Some(Flow { weight: 4, group: 2 }));
    assert_eq!(built(&[("flow", "0")]).unwrap().flow, None);
}

/// Applications: consequences of their keys, and keys that they do not use.
#[test]
fn applications_are_jobs_with_keys_of_their_own() {
    use crate::kv::laws::ValueSize;
    use crate::kv::{DatabaseConfig, OnMiss};
    use crate::{AppWork, FileCount, FileSystem};
    let made = |pairs: &[(&str, &str)]| {
        let mut builder = JobBuilder::new(Dialect::Native);
        for (key, value) in pairs {
            builder.set_at("here", key, value)?;
        }
        builder.build()
    };
    let app = made(&[("app", "varmail"), ("filled", "55%"), ("warm_up", "7"), ("ops", "10%")])
        .unwrap()
        .app
        .unwrap();
    assert_eq!((app.name(), app.warm_up, app.operations, app.needs_data()), ("varmail", Some(7), None, true));
    let AppWork::Files(files) = app.work else { panic!("{app:?}") };
    assert_eq!((files.files, files.ops_percent), (FileCount::Percent(55), 10));
    assert_eq!(files.file_system, FileSystem::LogStructured);
    let place =
        made(&[("app", "fileserver"), ("filesystem", "in-place"), ("nfiles", "99")]).unwrap().app.unwrap();
    assert!(!place.needs_data());
    let clients = made(&[("app", "kv"), ("popularity", "pareto:0.03:0.1"), ("set_share", "30%")]).unwrap();
    assert!(matches!(clients.app.unwrap().work, AppWork::Kv(kv) if (kv.set_share - 0.3).abs() < 1e-12));
    let behind =
        [("app", "kv"), ("on_miss", "query"), ("database_fixed", "50us"), ("value_size", "etc-tail")];
    let AppWork::Kv(kv) = made(&behind).unwrap().app.unwrap().work else { panic!("no cache") };
    let database = DatabaseConfig { fixed: Nanos::from_us(50), ..DatabaseConfig::default() };
    assert_eq!((kv.on_miss, kv.value_size), (OnMiss::Query(database), ValueSize::EtcTail { max: 4096 }));
    let ranks =
        made(&[("app", "pagerank"), ("engine", "policy"), ("graph", "power-law:1.59:1.65"), ("bs", "64k")]);
    let AppWork::Graph(graph) = ranks.unwrap().app.unwrap().work else { panic!("no graph") };
    assert_eq!((graph.io_bytes, graph.depth, graph.ops_percent), (64 << 10, 32, 5));
    assert_eq!(graph.source, crate::GraphSource::PowerLaw(1.59, 1.65));
    for (pairs, allowed) in [
        (&[("app", "kv"), ("filled", "55%")][..], "not with app = kv"),
        (&[("app", "kv"), ("database_queries", "3")], "only with on_miss = query"),
        (&[("app", "kv"), ("load", "3")], "only together with nkeys"),
        (&[("app", "kv"), ("load", "30"), ("nkeys", "29")], "up to 29, the keys that there are"),
        (&[("app", "kv"), ("requests", "file:x"), ("load", "3")], "not with requests = file:PATH"),
        (&[("app", "kv"), ("on_miss", "fill")], "store, nothing, query"),
        (&[("app", "varmail"), ("clients", "3")], "not with app = varmail"),
        (&[("app", "varmail"), ("bs", "4k")], "not with app = varmail"),
        (&[("app", "varmail"), ("filled", "5%"), ("nfiles", "99")], "not together with nfiles"),
        (
            &[("app", "varmail"), ("filesystem", "in-place"), ("cleaner", "greedy")],
            "only with filesystem = log-structured",
        ),
        (
            &[("app", "varmail"), ("filesystem", "in-place"), ("open_segments", "2")],
            "only with filesystem = log-structured",
        ),
        (&[("app", "varmail"), ("open_segments", "33")], "1 to 32"),
        (&[("app", "varmail"), ("picks", "shared")], "together, apart, random"),
        (
            &[("app", "varmail"), ("filesystem", "in-place"), ("backend", "function")],
            "block with filesystem = in-place",
        ),
        (&[("app", "tar"), ("meanappendsize", "8k")], "which append nothing"),
        (&[("rw", "tar")], "fileserver"),
        (&[("filled", "5%")], "filled = 5%: allowed: only with an app"),
        (&[("app", "pagerank"), ("warm_up", "5")], "warm_up = 5: allowed: not with app = pagerank"),
        (&[("app", "bfs"), ("iterations", "5")], "iterations = 5: allowed: only with app = pagerank"),
        (&[("app", "pagerank"), ("from_vertex", "5")], "only with app = bfs or sssp"),
        (&[("app", "pagerank"), ("ops", "5%")], "only with engine = policy"),
        (&[("app", "pagerank"), ("bs", "4k,8k")], "one size with a program on a graph"),
        (&[("app", "pagerank"), ("bsrange", "4k-8k")], "not with app = pagerank"),
        (&[("app", "sssp"), ("graph", "file:x"), ("edges", "5")], "not with graph = file:PATH"),
        (&[("app", "sssp"), ("graph", "power-law:1.5")], "power-law:OUT:INTO"),
        (&[("app", "sssp"), ("damping", "1")], "below 1"),
        (&[("edges", "5")], "edges = 5: allowed: only with an app"),
        (&[("app", "mp3-copy"), ("bs", "4k")], "only with app = atto-read or atto-write"),
        (&[("app", "mp3-copy"), ("warm_up", "4")], "only with app = atto-read or atto-write"),
        (&[("app", "mp3-copy"), ("volume", "ext4")], "ntfs, fat32"),
        (&[("app", "mp3-copy"), ("clients", "4")], "not with app = mp3-copy"),
        (&[("app", "browse"), ("others", "5%")], "only with app = office-remove"),
        (&[("app", "atto-write"), ("part", "2")], "operations says how many"),
        (&[("app", "atto-read"), ("bs", "1000")], "whole sectors of 512 bytes"),
        (&[("part", "2")], "part = 2: allowed: only with an app"),
    ] {
        let error = made(pairs).unwrap_err().to_string();
        assert!(error.contains(allowed), "{pairs:?}: {error}");
    }
}
