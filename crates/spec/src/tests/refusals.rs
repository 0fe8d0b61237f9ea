//! The exact words of refusals: place, key, value, what is allowed.

use super::*;
use pellucid_device::{Device, Structure};
use pellucid_ftl::MapKind;
use pellucid_host::LayerName;
use strum::VariantNames;

#[test]
fn unknown_keys_are_named_with_their_neighbours() {
    let text = small("victm = 'fifo'\n");
    assert_eq!(
        refusal(text),
        "dir/my.toml:15: drive.ftl.victm: unknown key (did you mean victim?); allowed: map, map_cache, log_blocks, \
         over_provisioning, \
         capacity, victim, placement, separation, gc_low, gc_high, gc_pacing, gc_parallel, copyback, wear, \
         durability, checkpoint_every, handles, isolation, slc_cache, seed"
    );
    assert_eq!(
        refusal(small("[drive.meda]\n")),
        "dir/my.toml:15: drive.meda: unknown key (did you mean media?); allowed: preset, name, namespace, media, ecc, ftl, \
         host, \
         firmware, buffer, scheduler, memory, kind"
    );
    assert_eq!(
        refusal(small("[media]\n")),
        "dir/my.toml:15: media: unknown key; allowed: drive, backing, host, kv, target, job, precondition, run"
    );
    assert_eq!(
        refusal(with_sets(&["ftl.wear.dynamik=true"])),
        "--set ftl.wear.dynamik: drive.ftl.wear.dynamik: unknown key (did you mean dynamic?); allowed: \
         dynamic, \
         static_gap"
    );
    // `host` is a table of its own, and one of the drive.
    for (set, told) in [
        ("host.queus=2", "drive.host.queus: unknown key (did you mean queues?)"),
        ("host.layrs=host-ftl", "host.layrs: unknown key (did you mean layers?)"),
        (
            "host.ftl.over_provisionin=0.2",
            "host.ftl.over_provisionin: unknown key (did you mean over_provisioning?)",
        ),
        ("run.adress=fold", "run.adress: unknown key (did you mean address?)"),
    ] {
        let key = set.split('=').next().unwrap();
        let refused = refusal(with_sets(&[set]));
        assert_eq!(refused.split(';').next().unwrap(), format!("--set {key}: {told}"));
    }
}

#[test]
fn the_first_wrong_name_of_a_file_is_reported() {
    let refused = refusal(small("zzz = 1\naaa = 1\n"));
    assert!(refused.starts_with("dir/my.toml:15: drive.ftl.zzz: unknown key;"), "{refused}");
}

#[test]
fn new_media_are_not_beyond_their_endurance() {
    let with = |cycles: u32| {
        let sets = ["media.endurance=3000".to_string(), format!("media.cycles={cycles}")];
        from_str(SMALL, "my.toml", &sets)
    };
    assert_eq!(with(3000).expect("at its end").drive.media.integrity.cycles, 3000);
    assert_eq!(
        with(3001).expect_err("beyond its end").to_string(),
        "--set media.cycles: drive.media.cycles = 3001: not allowed; allowed: 0 to 3000: new media are not beyond their endurance"
    );
}

#[test]
fn numbers_say_where_they_end() {
    let refused = |set: &str| from_str(SMALL, "my.toml", &[set.to_string()]).expect_err(set).to_string();
    for (set, said) in [
        (
            "ftl.checkpoint_every=18446744073709551615",
            "not allowed; allowed: a whole number from 0, below 2^63",
        ),
        ("ftl.capacity=8EiB", "or a whole number of bytes; at least 1; below 8EiB"),
        (
            "media.page_size=1EiB",
            "\"1EiB\": not allowed; allowed: a size such as \"4k\", \"16KiB\", \"1.5 GiB\" (1024-based), or a whole number of bytes; at most 1GiB",
        ),
        (
            "media.page_size=16KB",
            "(did you mean 16KiB?); allowed: a size such as \"4k\", \"16KiB\", \"1.5 GiB\" (1024-based), or a whole number of bytes; at most 1GiB",
        ),
    ] {
        assert!(refused(set).ends_with(said), "{}", refused(set));
    }
}

#[test]
fn wrong_values_are_named_with_what_is_allowed() {
    for (more, expected) in [
        (
            "victim = 'gredy'",
            "15: drive.ftl.victim = \"gredy\": not allowed (did you mean greedy?); allowed: greedy, cost-benefit, fifo, lru, \
             random, \
             d-choices:N",
        ),
        (
            "victim = 'd-choices:0'",
            "15: drive.ftl.victim = \"d-choices:0\": not allowed; allowed: greedy, cost-benefit, fifo, lru, \
             random, \
             d-choices:N",
        ),
        ("gc_low = 0", "15: drive.ftl.gc_low = 0: not allowed; allowed: a whole number from 1 to 65536"),
        (
            "gc_low = 5_000_000_000",
            "15: drive.ftl.gc_low = 5000000000: not allowed; allowed: a whole number from 1 to 65536",
        ),
        ("copyback = 1", "15: drive.ftl.copyback = 1: not allowed; allowed: true, false"),
        (
            "[drive.media.faults]\nread_fail = 1.5",
            "16: drive.media.faults.read_fail = 1.5: not allowed (did you mean 1.5%?); allowed: a share such as \"20%\" or 0.2, from 0% to 100%",
        ),
        (
            "[drive.media.faults]\nread_fail = nan",
            "16: drive.media.faults.read_fail = NaN: not allowed; allowed: a share such as \"20%\" or 0.2, from 0% to 100%",
        ),
        (
            "[drive.host]\nfetch = '5 lightyears'",
            "16: drive.host.fetch = \"5 lightyears\": not allowed; allowed: a duration such as \"300ns\", \
             \"75us\", \
             \"3.8 ms\", \"1s\", \"5m\"; only 0 needs no unit; at most 3600s",
        ),
        (
            "[drive.host]\nweights = [1, 0]",
            "16: drive.host.weights = [1, 0]: not allowed; allowed: a list of whole numbers from 1 to 4294967295",
        ),
        ("[job]\nrw = 'read'", "15: job = a table: not allowed; allowed: a list of tables, [[job]]"),
        (
            "[drive.firmware]\nclock_mhz = 0",
            "16: drive.firmware.clock_mhz = 0: not allowed; allowed: a whole number from 1 to 4294967295",
        ),
        (
            "[drive.buffer]\nentries = 0",
            "16: drive.buffer.entries = 0: not allowed; allowed: a whole number from 1 to 16777215",
        ),
        (
            "[drive.buffer]\nread_entries = 4_294_967_295",
            "16: drive.buffer.read_entries = 4294967295: not allowed; allowed: a whole number from 0 to 16777215",
        ),
        (
            "[drive.host]\ncommands = 2_000_000",
            "16: drive.host.commands = 2000000: not allowed; allowed: a whole number from 1 to 1048575",
        ),
        (
            "[[drive.host]]",
            "15: drive.host = a list of 1 tables: not allowed; allowed: a table, [drive.host]",
        ),
        (
            "[[drive.namespace]]\ninterface = 'zoned'\nbuffer = 'protected'\nstage = 600\nspare_blocks = 3",
            "19: drive.namespace[0].spare_blocks = 3: not allowed; allowed: a whole number from 4 to 31",
        ),
        (
            "[[drive.namespace]]\ninterface = 'fdp'",
            "16: drive.namespace[0].interface = \"fdp\": not allowed; allowed: block, or with fdp drive.ftl.handles of 2 at least",
        ),
        (
            "capacity = '1MiB'\n[[drive.namespace]]\ninterface = 'block'\nblocks = 20\n[[drive.namespace]]\ninterface = 'block'",
            "20: drive.namespace[1].interface = \"block\": not allowed; allowed: one block namespace with drive.ftl.capacity; several with \
             over_provisioning, which is that of each",
        ),
        (
            "[[drive.namespace]]\ninterface = 'zoned'\nappend_max = 1",
            "17: drive.namespace[0].append_max = 1: not allowed; allowed: a whole number from 2 to 4294967295",
        ),
        (
            "[[drive.namespace]]\ninterface = 'zoned'\nbuffer = 'protected'\nstage = 9000\nblocks = 20",
            "17: drive.namespace[0].buffer = \"protected\": not allowed; allowed: volatile: a protected one of 9000 superpages needs 36 \
             spare blocks of every die and at least 1 for zones",
        ),
        (
            "[run]\naddress = 'wrap'",
            "16: run.address = \"wrap\": not allowed; allowed: refuse, fold, compact",
        ),
    ] {
        let refused = refusal(small(&format!("{more}\n")));
        assert_eq!(refused, format!("dir/my.toml:{expected}"));
    }
    assert_eq!(
        refusal(with_sets(&["ftl=3"])),
        "--set ftl: drive.ftl = 3: not allowed; allowed: a table, [drive.ftl]"
    );
    assert_eq!(
        refusal(with_sets(&["ftl.victim"])),
        "--set ftl.victim: not allowed; allowed: KEY=VALUE, for example ftl.victim=fifo"
    );
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    for (sets, expected) in [
        (
            &["media.timing.read=1us,2us"][..],
            "--set media.timing.read: drive.media.timing.read = \"1us,2us\": not allowed; allowed: 1 \
             duration, one \
             per page type in use",
        ),
        (
            &["media.cell=mlc"],
            "my.toml:9: drive.media.timing.read = [\"25us\"]: not allowed; allowed: 2 durations, one per \
             page type \
             in use",
        ),
        (
            &[
                "media.cell=tlc",
                "media.one_shot_pages=2",
                "media.timing.read=1us,2us,3us",
                "media.timing.program=1us,2us",
            ],
            "--set media.timing.program: drive.media.timing.program = \"1us,2us\": not allowed; allowed: 1 \
             duration, \
             that of the whole word line, because one_shot_pages is above 1",
        ),
        (
            &["media.one_shot_pages=2"],
            "--set media.one_shot_pages: drive.media.one_shot_pages = 2: not allowed; allowed: 1, the pages \
             of \
             a word line of these cells in this mode",
        ),
        (
            &["media.mode=slc"],
            "--set media.mode: drive.media.mode = \"slc\": not allowed; allowed: native, because the cells \
             are SLC \
             already",
        ),
        (
            &["media.unit_size=12k"],
            "--set media.unit_size: drive.media.unit_size = \"12k\": not allowed; allowed: a divisor of \
             what one \
             program writes (page_size x planes if multi_plane x one_shot_pages), at most 256 to a program",
        ),
        (
            &["media.channels=257"],
            "--set media.channels: drive.media.channels = 257: not allowed; allowed: a whole number from 1 to 256",
        ),
        (
            &["media.sector_size=100"],
            "--set media.sector_size: drive.media.sector_size = 100: not allowed; allowed: a power of two \
             from 512 \
             to 65536",
        ),
        (
            &["media.store=file"],
            "--set media.store: drive.media.store = \"file\": not allowed; allowed: \"file:PATH\", or \
             \"file\" with \
             drive.media.path",
        ),
        (
            &["scheduler.suspend=true", "media.timing.suspend=10us"],
            "--set scheduler.suspend: drive.scheduler.suspend = true: not allowed; allowed: false, or true \
             with \
             drive.scheduler.order = \"read-first\"",
        ),
        (
            &["scheduler.suspend=true", "scheduler.order=read-first"],
            "--set scheduler.suspend: drive.scheduler.suspend = true: not allowed; allowed: false, or true \
             with a \
             duration in drive.media.timing.suspend",
        ),
        (
            &["host.arbitration=weighted"],
            "--set host.arbitration: drive.host.arbitration = \"weighted\": not allowed; allowed: \
             round-robin, or \
             weighted with drive.host.weights",
        ),
        (
            &["host.queues=1", "host.arbitration=weighted", "host.weights=[1,2]"],
            "--set host.weights: drive.host.weights = [1, 2]: not allowed; allowed: at most 1 weights, one \
             per queue",
        ),
        (
            &["media.planes=4", "media.multi_plane=true", "buffer.entries=3"],
            "--set buffer.entries: drive.buffer.entries = 3: not allowed; allowed: at least 4, the mapping \
             units \
             that one program writes",
        ),
        (
            &["ftl.over_provisioning=0.1"],
            "--set ftl.over_provisioning: drive.ftl.over_provisioning = 0.1: not allowed; allowed: at least \
             0.1544: \
             each die of 32 blocks keeps 4 for itself, the drive one more",
        ),
        (
            &["media.timing.op_deviation=\"30us\""],
            "--set media.timing.op_deviation: drive.media.timing.op_deviation = \"30us\": not allowed; allowed: at \
             most the shortest of read, program and erase",
        ),
        (
            &["host.complete=\"1us\"", "host.completes=controller"],
            "--set host.completes: drive.host.completes = \"controller\": not allowed; allowed: firmware, or \
             controller with drive.host.complete = 0",
        ),
        (
            &["ftl.gc_low=30"],
            "--set ftl.gc_low: drive.ftl.gc_low = 30: not allowed; allowed: at most 28: each die of 32 blocks \
             keeps 32 for itself",
        ),
        (
            &["ftl.capacity=1GiB"],
            "--set ftl.capacity: drive.ftl.capacity = \"1GiB\": not allowed; allowed: whole mapping units \
             (4096 \
             bytes), at most 29069312 bytes: each die of 32 blocks keeps 4 for itself, the drive one more",
        ),
        (
            &["preset=cosmos"],
            "--set preset: drive.preset = \"cosmos\": not allowed; allowed: cosmos-plus, cosmos-plus-slc, cosmos-plus-tlc, cosmos-plus-open-channel, \
             jasmine, jasmine-optimized, jasmine-nameless, jasmine-ssc, \
             memblaze, open-channel, netbook-ssd, netbook-ssd-1, netbook-ssd-2, netbook-ssd-3, netbook-ssd-4, laptop-ssd-5, datacenter-tlc, zoned, client-qlc, wd1502faex",
        ),
    ] {
        assert_eq!(refusal(with_sets(sets)), expected);
    }
    with_sets(&["ftl.over_provisioning=0.1544"]).expect("what a refusal allows is accepted");
    with_sets(&["ftl.capacity=29069312"]).expect("what a refusal allows is accepted");
    with_sets(&["ftl.gc_low=28", "ftl.capacity=4k"]).expect("what a refusal allows is accepted");
}

#[test]
fn namespaces_and_error_correction_fit_together() {
    // The text in front has 19 lines.
    let with = |namespace: &str, ecc: &str, sets: &[&str]| {
        let text = format!(
            "{SMALL}[[drive.namespace]]\ninterface = 'open-channel'\n{namespace}[drive.ecc]\ncode = 'bch'\n{ecc}"
        );
        from_str(&text, "my.toml", &sets.iter().map(|set| set.to_string()).collect::<Vec<_>>())
    };
    let spare = "media.spare_size=390";
    // 16 bytes of the spare area are the host's.
    let refused = refusal(with("", "correctable = 16\n", &[spare]));
    assert_eq!(
        refused,
        "my.toml:19: drive.ecc.correctable = 16: not allowed; allowed: 1 to 15 with these chunks, as 16 x 24 bytes of parity \
         would need 384 spare bytes of 374"
    );
    for set in ["ecc.data=real", "media.bit_errors.enabled=true"] {
        let refused =
            refusal(with("copyback = true\n", "", &["media.spare_size=1k", "media.store=ram", set]));
        assert_eq!(
            refused,
            "my.toml:17: drive.namespace[0].copyback = true: not allowed; allowed: false: a copy inside the die would pass \
             the error correction by"
        );
    }
    with("copyback = true\n", "", &["media.spare_size=1k"]).expect("nothing is done with the data");
}

/// Ranges that bypass a cluster buffer are bytes in a description, and sectors in the layer.
#[test]
fn ranges_that_pass_a_buffer_by_cover_whole_sectors() {
    let with = |range: &str| {
        with_sets(&["host.layers=cluster-buffer", &format!("host.cluster_buffer.bypass={range}")])
    };
    let spec = with("0-4KiB, 5000-1MiB").expect("two ranges");
    let Some(LayerConfig::ClusterBuffer(buffer)) = spec.host.first() else { panic!("a buffer") };
    let sector = u64::from(buffer.sector_bytes);
    assert_eq!(buffer.bypass, [0..4096 / sector, 5000 / sector..(1 << 20) / sector]);
    for wrong in ["4KiB", "2MiB-1MiB", "1MiB-", "0-1MiB,"] {
        assert!(refusal(with(wrong)).contains("host.cluster_buffer.bypass"), "{wrong}");
    }
}

/// Sets that grow with recipes are named as a whole.
#[test]
fn a_wrong_layer_or_map_is_answered_with_all_names() {
    for (more, told, names) in [
        ("map = 'block'", "15: drive.ftl.map = \"block\": not allowed; allowed: ", MapKind::VARIANTS),
        (
            "[host]\nlayers = ['cluster']",
            "16: host.layers = [\"cluster\"]: not allowed; allowed: a list of ",
            LayerName::VARIANTS,
        ),
    ] {
        assert_eq!(refusal(small(more)), format!("dir/my.toml:{told}{}", names.join(", ")));
    }
}

/// A cache has no map behind a cached table; with log blocks, its other keys must fit them.
#[test]
fn a_cache_on_another_map_is_refused() {
    assert_eq!(
        refusal(load("jasmine-ssc", &["ftl.map=demand".into()])),
        "jasmine-ssc:11: drive.namespace[0].interface = \"cache\": not allowed; allowed: another one, or cache with \
         drive.ftl.map of page, bast or fast"
    );
    for map in ["bast", "fast"] {
        assert_eq!(
            refusal(load("jasmine-ssc", &[format!("ftl.map={map}")])),
            "jasmine-ssc:11: drive.namespace[0].log = \"last-page\": not allowed; allowed: spare-area: with log blocks \
             (drive.ftl.map) the spare areas are the only list of what a block holds"
        );
    }
}

/// An empty text is a value like any other; the cache itself requires a name.
#[test]
fn an_empty_name_of_a_cache_is_read() {
    let spec = load("jasmine", &["kv.application=".into()]).expect("the cache refuses it when it starts");
    assert_eq!(spec.kv.application, "");
}

#[test]
fn overwriting_what_was_not_filled_is_refused() {
    let allowed = "0, or anything with a precondition.fill above 0: what was filled is overwritten";
    for value in ["\"steady\"", "2.0"] {
        let refused = refusal(small(&format!("[precondition]\noverwrite = {value}\n")));
        let told =
            format!("dir/my.toml:16: precondition.overwrite = {value}: not allowed; allowed: {allowed}");
        assert_eq!(refused, told);
    }
}

#[test]
fn a_key_that_must_be_given_is_named() {
    assert_eq!(
        refusal(from_str("[drive.media]\nchannels = 1\n", "my.toml", &[])),
        "my.toml: drive.media.ways: missing; allowed: a whole number from 1 to 64; or start from a preset with \
         drive.preset \
         = cosmos-plus, cosmos-plus-slc, cosmos-plus-tlc, cosmos-plus-open-channel, jasmine, jasmine-optimized, jasmine-nameless, jasmine-ssc, memblaze, open-channel, netbook-ssd, netbook-ssd-1, netbook-ssd-2, netbook-ssd-3, netbook-ssd-4, laptop-ssd-5, datacenter-tlc, zoned, \
         client-qlc, wd1502faex"
    );
}

#[test]
fn neither_preset_nor_file() {
    let refused = refusal(load("cosmos-pls", &[]));
    assert!(
        refused.starts_with("cosmos-pls: not a preset (did you mean cosmos-plus?), and not a file"),
        "{refused}"
    );
}

/// Numbers of log blocks, and settings that conflict with them.
#[test]
fn log_blocks_that_do_not_fit_are_refused() {
    let refused = |sets: &[&str]| {
        let all = [&["media.blocks=8", "media.channels=1", "ftl.map=fast"], sets].concat();
        refusal(with_sets(&all)).split_once(": ").map(|(_, told)| told.to_string())
    };
    for (sets, expected) in [
        (
            &["ftl.log_blocks=20"][..],
            "drive.ftl.log_blocks = 20: not allowed; allowed: at most 2: each die of 8 blocks keeps 5 more for merges and metadata",
        ),
        (
            &["ftl.log_blocks=2", "ftl.over_provisioning=690%"],
            "drive.ftl.over_provisioning = \"690%\": not allowed; allowed: at least 700.01%: each die of 8 blocks keeps 7 for 2 log blocks, \
             merges and metadata",
        ),
        (
            &["media.blocks=5"],
            "drive.media.blocks = 5: not allowed; allowed: at least 14: a die has 8 log blocks (drive.ftl.log_blocks), and keeps 5 for merges \
             and metadata",
        ),
        (
            &["ftl.handles=2"],
            "drive.ftl.map = \"fast\": not allowed; allowed: log blocks (\"bast\", \"fast\") with drive.ftl.handles = 1, as they keep \
             nothing apart",
        ),
        (
            &["ftl.slc_cache.blocks=2", "media.timing.slc_read=20us", "media.timing.slc_program=200us"],
            "drive.ftl.map = \"fast\": not allowed; allowed: log blocks (\"bast\", \"fast\") without an SLC cache \
             (drive.ftl.slc_cache.blocks = 0)",
        ),
    ] {
        assert_eq!(refused(sets).as_deref(), Some(expected), "{sets:?}");
    }
}

/// Two channels of two ways each, all open.
const OPEN: &str = "[[drive.namespace]]\ninterface = 'open-channel'\n";

fn targets(tables: &str) -> Result<Spec, SpecError> {
    from_str(&format!("{SMALL}{OPEN}{tables}"), "dir/my.toml", &["media.spare_size=64".into()])
}

#[test]
fn targets_are_ranges_of_units_that_do_not_overlap() {
    let spec = targets(
        "[[target]]\nname = 'a'\nunits = '3'\n[[target]]\nname = 'b'\nkind = 'raw'\nunits = '1 channel x all ways'\nfill = '25%'\n",
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let units: Vec<_> = spec.targets.iter().map(|one| (one.target.units.clone(), one.fill)).collect();
    assert_eq!(units, [(3..4, None), (0..2, Some(0.25))]);
    // The description that is shown is the same description.
    let shown = from_str(&show(&spec), "shown", &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(shown.targets.len(), 2);
    assert!(shown.targets.iter().zip(&spec.targets).all(|(a, b)| a.target == b.target && a.fill == b.fill));
}

#[test]
fn wrong_targets_are_refused_by_name() {
    let one = "[[target]]\nname = 'a'\nunits = '0-1'\n";
    for (tables, told) in [
        (
            "[[target]]\nname = 'a'\nunits = '2-4'\n",
            "target[0].units = \"2-4\": not allowed; allowed: units within 0-3",
        ),
        (
            &format!("{one}[[target]]\nname = 'b'\nunits = '1-2'\n"),
            "target[1].units = \"1-2\": not allowed; allowed: units that no other target has; a has 0-1",
        ),
        (
            &format!("{one}[[target]]\nname = 'a'\nunits = '2'\n"),
            "target[1].name = \"a\": not allowed; allowed: a name that no other target has; there is a a",
        ),
        (
            &format!("{one}[[target]]\nname = 'b'\nunits = '2 channels'\n"),
            "target[1].units = \"2 channels\": not allowed; allowed: units that are free, of 2 channels x 2 ways; a has 0-1",
        ),
        (
            "[[target]]\nname = 'a'\nunits = 'some'\n",
            "target[0].units = \"some\": not allowed; allowed: FIRST-LAST, one number, \"N channels x all ways\", rest",
        ),
        ("[[target]]\nname = 'a'\n", "target[0].units = (missing): not allowed; allowed: FIRST-LAST"),
        ("[[target]]\nunits = '0'\n", "target[0].name = (missing): not allowed; allowed: a name"),
        (
            "[[target]]\nname = 'a'\nunits = '0'\nkind = 'zoned'\n",
            "target[0].kind = \"zoned\": not allowed; allowed: block, raw",
        ),
        ("[[target]]\nname = 'a'\nunit = '0'\n", "target[0].unit: unknown key (did you mean units?)"),
    ] {
        let refused = refusal(targets(tables));
        assert!(refused.contains(told), "{tables}\n{refused}");
    }
    let on_block = refusal(small(one));
    assert!(on_block.contains("allowed: on a drive with one open-channel namespace"), "{on_block}");
    let layered = refusal(targets(&format!("{one}[host]\nlayers = ['host-ftl']\n")));
    assert!(layered.contains("host.layers") && layered.contains("[] with [[target]]"), "{layered}");
    // The layers of a preset need a whole drive.
    let preset = format!("[drive]\npreset = 'open-channel'\n{one}");
    let divided = from_str(&preset, "my.toml", &[]).expect("targets take their place");
    assert!(divided.host.is_empty() && divided.targets.len() == 1);
    let asked = from_str(&preset, "my.toml", &["host.layers=[\"host-ftl\"]".into()]);
    assert!(refusal(asked).contains("[] with [[target]]"), "what is asked for is refused");
}

#[test]
fn tables_and_buffer_fit_the_controllers_memory_or_are_refused_with_the_sum() {
    let base = load("cosmos-plus", &[]).expect("half of the blocks, as in the paper");
    assert_eq!(base.drive.memory.dram_bytes, Some(1 << 30));
    let with = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        load("cosmos-plus", &sets)
    };
    // Section 6.1: with all blocks, MLC mode's map alone is as large as the DRAM.
    let all = refusal(with(&["media.blocks=8192"]));
    assert!(all.contains("drive.memory.dram = \"1GiB\""), "{all}");
    for part in ["mapping table 1.00 GiB + block tables", "+ data buffer 16.0 MiB = 1.04 GiB"] {
        assert!(all.contains(part), "{all}");
    }
    with(&["media.blocks=8192", "memory.dram=2GiB"]).expect("a larger board");
    load("cosmos-plus-slc", &[]).expect("SLC mode maps half of the pages of all blocks");

    // The limit is compared with the figure of the report, to the byte.
    let used = Device::new(&base.drive).expect("a drive").controller_memory();
    assert_eq!(used.of(Structure::MappingTable), 512 << 20, "the paper's 512 MB");
    let needed: u64 = Structure::ALL.into_iter().map(|structure| used.of(structure)).sum();
    with(&[&format!("memory.dram={needed}")]).expect("just fits");
    let less = refusal(with(&[&format!("memory.dram={}", needed - 1)]));
    assert!(less.contains(&format!("at least {needed} bytes")), "{less}");

    // In SRAM, block tables leave DRAM.
    let tables = used.of(Structure::BlockTables);
    let (dram, sram) = (format!("memory.dram={}", needed - tables), format!("memory.sram={tables}"));
    with(&[&dram, &sram, "memory.in_sram=block-tables"]).expect("each fits its memory");
    let sram = format!("memory.sram={}", tables - 1);
    let less = refusal(with(&[&sram, "memory.in_sram=block-tables"]));
    assert!(less.contains(&format!("at least {tables} bytes, for block tables 14.3 MiB; or")), "{less}");
    let absent = refusal(with(&["memory.in_sram=chunk-tables"]));
    assert!(absent.contains("mapping-table, block-tables, data-buffer; it has no chunk tables"), "{absent}");
    with_sets(&["memory.in_sram=chunk-tables"]).expect("no limit, no refusal here: the key has no effect");
}
