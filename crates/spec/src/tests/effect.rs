//! No key is ignored: it changes the drive or its work, or it is refused with a reason.

use super::super::*;
use super::{SMALL, refusal};

/// Prints everything a description leads to, without the origins of values.
fn used(spec: &Spec) -> String {
    let flash = (spec.medium == Medium::Flash).then_some(&spec.drive);
    let has_disk = spec.medium == Medium::Disk || spec.backing.kind == BackingKind::Disk;
    let disk = has_disk.then_some((&spec.backing.disk, &spec.drive.media.store));
    let is_open =
        |n: &pellucid_device::Namespace| matches!(n, pellucid_device::Namespace::OpenChannel { .. });
    let target = spec.drive.namespaces.iter().any(is_open).then_some(&spec.host_ftl);
    format!(
        "{flash:?} {disk:?} {:?} {target:?} {:?} {:?} {:?} {:?} {} {:?}",
        spec.host, spec.kv, spec.jobs, spec.precondition, spec.run, spec.drive_name, spec.backing.kind
    )
}

/// Values to try for a key; at least one differs from the current one.
fn values(key: &KeyInfo) -> Vec<String> {
    let allowed = key.allowed.as_str();
    let words = allowed.split(", ").filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let words = words.map(|word| format!("\"{word}\""));
    let of_kind: &[&str] = match allowed {
        _ if allowed.contains("true, false") => &["true", "false"],
        _ if allowed.contains("a list of durations") => &["[\"77us\"]", "[\"77us\", \"78us\", \"79us\"]"],
        _ if allowed.contains("a list of whole numbers") => &["[3, 2]"],
        _ if allowed.contains("a list of tables") => &["[]"],
        _ if allowed.contains("a list of ") => &["[\"block-layer\"]", "[]"],
        _ if allowed.contains("a duration") => &["\"77us\"", "\"78us\""],
        _ if allowed.contains("a rate") => &["\"77MB/s\"", "\"78MB/s\""],
        _ if allowed.contains("a share") => &["0.5", "0.25", "\"1%\"", "0.9"],
        _ if allowed.contains("a size") => &["\"128KiB\"", "\"64KiB\"", "\"2MiB\"", "\"512\"", "\"1GiB\""],
        _ if allowed.contains("a whole number") => &["2", "3", "128", "16"],
        _ if allowed.contains("a number") => &["0.5", "0.25"],
        _ if allowed.contains("a text") => &["\"thing\""],
        _ => &[],
    };
    words.chain(of_kind.iter().map(|value| value.to_string())).collect()
}

/// A cache of 40 blocks on each of 8 dies.
const CACHE: &str = "drive.namespace=[{ interface = \"cache\", address_space = \"1GiB\" }]";
const SMALL_BLOCKS: &[&str] = &["media.blocks=40", "media.pages=32", "ftl.over_provisioning=0.5"];

/// A drive of every kind: the presets, and kinds of namespaces and maps that no preset has.
fn kinds_of_drives() -> Vec<(&'static str, Vec<String>)> {
    let own = [
        ("jasmine-optimized", [&[CACHE, "ftl.map=fast", "ftl.log_blocks=2"], SMALL_BLOCKS].concat()),
        ("jasmine-optimized", [&[CACHE, "ftl.map=bast", "ftl.log_blocks=2"], SMALL_BLOCKS].concat()),
        ("jasmine-optimized", [&["ftl.map=fast", "ftl.log_blocks=2"], SMALL_BLOCKS].concat()),
        ("jasmine-optimized", [&["drive.namespace=[{ interface = \"nameless\" }]"], SMALL_BLOCKS].concat()),
        (
            "jasmine-optimized",
            [
                &["drive.namespace=[{ interface = \"block\", blocks = 20 }, { interface = \"block\" }]"],
                SMALL_BLOCKS,
            ]
            .concat(),
        ),
    ];
    // A limit of memory is checked by building a drive, so these drives are small.
    let small = |name| {
        let limited = load(name, &[]).expect("a preset").drive.memory.dram_bytes.is_some();
        if limited { vec!["media.blocks=128"] } else { Vec::new() }
    };
    let presets = presets().iter().map(|preset| (preset.name, small(preset.name)));
    let owned = |(preset, sets): (_, Vec<&str>)| (preset, sets.into_iter().map(String::from).collect());
    presets.chain(own).map(owned).collect()
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn every_key_over_every_kind_of_drive_takes_effect_or_is_refused() {
    let mut swallowed = Vec::new();
    for (preset, sets) in kinds_of_drives() {
        let base = load(preset, &sets).unwrap_or_else(|why| panic!("{preset} {sets:?}: {why}"));
        let before = used(&base);
        for key in keys() {
            let entry = base.provenance.get(key.key).expect("a key");
            // Keeps the keys that make the kind.
            if matches!(entry.origin.place, Place::Set { .. }) {
                continue;
            }
            let now = &entry.value;
            for value in values(&key).iter().filter(|value| *value != now) {
                let all = [sets.clone(), vec![format!("{}={value}", key.key)]].concat();
                let Ok(spec) = load(preset, &all) else { continue };
                let refused = [Use::Work, Use::Show].map(|used| spec.check_effect(used).is_err());
                let same_value = &spec.provenance.get(key.key).expect("a key").value == now;
                if refused == [false; 2] && used(&spec) == before && !same_value {
                    swallowed.push(format!("{preset} {sets:?} {}={value}", key.key));
                }
            }
        }
    }
    assert!(swallowed.is_empty(), "swallowed:\n{}", swallowed.join("\n"));
}

#[test]
fn every_key_has_values_to_try() {
    for key in keys() {
        assert!(!values(&key).is_empty(), "{}: {}", key.key, key.allowed);
    }
}

/// Presets and the output of `show` contain no key without effect, so our own texts cause no warning.
#[test]
fn no_preset_is_warned_of() {
    for preset in presets() {
        let shown = show(&load(preset.name, &[]).expect("a preset"));
        let again = from_str(&shown, "shown.toml", &[]).expect("it reads back");
        for used in [Use::Work, Use::Age, Use::Serve, Use::ServeKv, Use::Show] {
            assert_eq!(
                again.check_effect(used).expect("no override"),
                Vec::<String>::new(),
                "{}",
                preset.name
            );
        }
    }
}

#[test]
fn a_key_without_effect_is_refused_with_what_gives_it_one() {
    let refused = |text: &str, sets: &[&str], used| {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        from_str(text, "my.toml", &sets)
            .and_then(|spec| spec.check_effect(used))
            .expect_err("refused")
            .to_string()
    };
    for (set, said) in [
        (
            "ftl.map_cache=1MiB",
            "--set ftl.map_cache: drive.ftl.map_cache = \"1MiB\": has no effect here; allowed: with drive.ftl.map = \"demand\"",
        ),
        ("ecc.chunk=512", "allowed: with drive.ecc.code = \"bch\""),
        ("scheduler.priorities.read_trigger=0", "allowed: with drive.media.timing.command above 0"),
        ("scheduler.priorities.status_check=9", "allowed: with drive.media.timing.status above 0"),
        ("host.block_layer.plug=1", "allowed: with host.layers with \"block-layer\""),
        (
            "firmware.clock_mhz=500",
            "allowed: with a step of drive.firmware with cycles, which last by the clock",
        ),
        (
            "host.dma_unit=8KiB",
            "allowed: with drive.host.dma_overhead above 0, or drive.firmware.model = \"loop\", which hands over unit by unit",
        ),
        (
            "host.completes=controller",
            "allowed: with a rate of the link, a time of DMA, or drive.firmware.model = \"loop\"",
        ),
        ("ftl.seed=3", "drive.ftl.placement = \"random\", host.layers, or targets"),
        ("scheduler.retry=1ms", "drive.media.bit_errors or drive.media.retry"),
        ("scheduler.read_retries=2", "drive.media.bit_errors or drive.media.retry"),
        ("scheduler.solver.channels=2", "allowed: with a time in drive.scheduler.solver.time"),
        ("media.seed=9", "drive.media.faults, bit_errors or retry"),
        ("run.address=fold", "allowed: with a trace"),
        ("kv.slab=1MiB", "allowed: with app = kv, or pellucid kv, which puts a cache on the drive"),
    ] {
        let message = refused(SMALL, &[set], Use::Work);
        assert!(message.ends_with(said), "{message}");
    }
    let message = refused(SMALL, &["ecc.code=bch", "media.spare_size=2KiB"], Use::Work);
    let said =
        "allowed: with drive.media.bit_errors.enabled = true, or drive.ecc.data = \"real\" or \"checked\"";
    assert!(message.ends_with(said), "{message}");
    let plain = format!("{SMALL}[[job]]\nrw = \"randwrite\"\n");
    let message = refused(&plain, &["ftl.handles=2"], Use::Work);
    assert!(message.ends_with("allowed: with a job with fdp = 1, or an application"), "{message}");
    // A mapping unit spans both planes.
    let sets =
        ["scheduler.page_transfers=true", "media.planes=2", "media.multi_plane=true", "media.unit_size=8KiB"];
    assert!(refused(SMALL, &sets, Use::Work).contains("of half of what they program at most"));
    // Settings that give the keys an effect.
    for sets in [
        &["firmware.clock_mhz=500", "firmware.fetch.cycles=10"][..],
        &["host.dma_unit=8KiB", "host.dma_overhead=1us"],
        &["host.completes=controller", "host.link_rate=1GB/s"],
        &["ftl.seed=3", "ftl.victim=d-choices:2"],
        &[
            "scheduler.page_transfers=true",
            "media.planes=2",
            "media.multi_plane=true",
            "media.unit_size=4KiB",
        ],
        &["ftl.handles=2", "job=[{ rw = \"randwrite\", fdp = 1 }]"],
        // Its jobs are in a fio file.
        &["ftl.handles=2"],
        &["scheduler.retry=1ms", "scheduler.read_retries=2", "media.faults.read_fail=0.1"],
        &["scheduler.solver.channels=2", "scheduler.solver.time=1us"],
        &["media.seed=9", "media.timing.op_spread=0.1"],
    ] {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let spec = from_str(SMALL, "my.toml", &sets).unwrap_or_else(|error| panic!("{sets:?}: {error}"));
        assert!(spec.check_effect(Use::Work).is_ok(), "{sets:?}");
    }
    let clients = format!("{SMALL}[[job]]\napp = \"kv\"\n");
    let spec = from_str(&clients, "my.toml", &["kv.slab=1MiB".into()]).unwrap();
    assert!(spec.check_effect(Use::Work).is_ok(), "clients have a cache");
    for (set, used, said) in [
        ("kv.slab=1MiB", Use::Serve, "allowed: with pellucid kv, which puts a cache on the drive"),
        (
            "precondition.fill=0.5",
            Use::Serve,
            "allowed: with pellucid run, replay, compare and age, whose image can be served",
        ),
        (
            "precondition.fill=0.5",
            Use::ServeKv,
            "allowed: with pellucid run, replay, compare and age, whose image can be served",
        ),
        ("job=[{ rw = \"write\" }]", Use::Serve, "allowed: with pellucid run, replay and compare"),
    ] {
        let message = refused(SMALL, &[set], used);
        assert!(message.ends_with(said), "{message}");
    }
    for (preset, sets) in [
        ("open-channel", &["entries=64", "read_entries=8", "retain=false", "write=\"write-through\""][..]),
        ("zoned", &["entries=64", "read_entries=8", "retain=false"]),
    ] {
        for set in sets {
            let spec = load(preset, &[format!("buffer.{set}")]).expect("a value that the drive allows");
            let message = spec.check_effect(Use::Show).expect_err("refused").to_string();
            assert!(
                message.contains("has no effect here; allowed: with a block"),
                "{preset}, {set}: {message}"
            );
        }
    }
    for victim in ["lru", "fifo"] {
        let sets = |keep: &str| [format!("kv.victim={victim}"), format!("kv.keep={keep}")];
        let message = refused(&clients, &sets("hot").each_ref().map(String::as_str), Use::Work);
        assert!(
            message.contains("kv.keep = \"hot\": has no effect here; allowed: with kv.victim"),
            "{message}"
        );
        let nothing = from_str(&clients, "my.toml", &sets("nothing")).expect("allowed");
        assert!(nothing.check_effect(Use::Work).is_ok(), "{victim} drops all");
    }
    let disk = "[drive]\npreset = 'wd1502faex'\n";
    let message = refused(disk, &["ftl.victim=fifo"], Use::Show);
    assert!(message.ends_with("has no effect here; allowed: with drive.kind = \"flash\""), "{message}");
    let file = from_str(&format!("{SMALL}map_cache = '1MiB'\n"), "my.toml", &[]).expect("kept");
    assert_eq!(
        file.check_effect(Use::Show).expect("warned of"),
        ["my.toml:15: drive.ftl.map_cache has no effect here; it has one with drive.ftl.map = \"demand\""]
    );
}

/// Settings that a namespace could not follow are refused.
#[test]
fn what_a_namespace_cannot_do_is_refused() {
    let with = |sets: &[&str], more: &str| {
        let all = [sets, SMALL_BLOCKS, &[more]].concat();
        load("jasmine-optimized", &all.iter().map(|set| set.to_string()).collect::<Vec<_>>())
    };
    let nameless = |fields: &str| {
        with(&["media.seed=1"], &format!("drive.namespace=[{{ interface = \"nameless\"{fields} }}]"))
    };
    let message = refusal(nameless(", over_provisioning = 0"));
    let least =
        "drive.namespace[0].over_provisioning = 0: not allowed; allowed: at least 0.0747: open blocks";
    assert!(message.contains(least), "{message}");
    assert!(nameless(", over_provisioning = 0.0747").is_ok(), "what is allowed is taken");
    // A default that would have to be raised is refused, too: a die of four blocks leaves no more.
    let tiny = with(
        &["media.seed=1"],
        "drive.namespace=[{ interface = \"block\", blocks = 24 }, { interface = \"nameless\" }]",
    );
    let message = refusal(tiny);
    assert!(message.contains("drive.namespace[1].over_provisioning = (missing): "), "{message}");
    let message = refusal(nameless(", gc_low = 321"));
    assert!(
        message.contains("gc_low = 321: not allowed; allowed: a whole number from 0 to 320"),
        "{message}"
    );
    assert!(nameless(", gc_low = 320").is_ok());
    for map in ["ftl.map=page", "ftl.map=fast", "ftl.map=bast"] {
        let message = refusal(with(&[CACHE, map], "ftl.durability=volatile"));
        assert!(message.contains("cache with drive.ftl.durability = \"journal\""), "{map}: {message}");
        let spec = with(&[CACHE, map], "ftl.victim=fifo").expect("a value that the drive allows");
        let message = spec.check_effect(Use::Show).expect_err("refused").to_string();
        assert!(message.contains("has no effect here"), "{map}: {message}");
    }
}

#[test]
fn layers_above_a_disk_are_there_or_refused() {
    let disk = |layers: &str| load("wd1502faex", &[format!("host.layers=[{layers}]")]);
    assert_eq!(disk("\"block-layer\"").expect("above a disk").host.len(), 1);
    for layers in ["\"host-ftl\"", "\"cache\"", "\"block-layer\", \"zone-log\""] {
        assert!(refusal(disk(layers)).contains("above a disk cluster-buffer, block-layer, ata"), "{layers}");
    }
    assert!(
        refusal(load("wd1502faex", &["media.store=file:x".into()])).contains("a disk is not kept in a file")
    );
}

/// A file under a volatile drive looks as if it kept the data, though the drive cannot read it again.
#[test]
fn a_file_under_a_volatile_drive_is_warned_of() {
    let warnings = |sets: &[&str], used| {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        load("cosmos-plus", &sets).and_then(|spec| spec.check_effect(used)).expect("allowed")
    };
    let volatile = warnings(&["media.store=file:kept"], Use::Work);
    assert!(
        volatile[0].starts_with("drive.media.store = file:kept: the drive finds nothing there"),
        "{volatile:?}"
    );
    assert!(warnings(&["media.store=file:kept", "ftl.durability=journal"], Use::Work).is_empty());
    assert!(warnings(&["media.store=ram"], Use::Work).is_empty());
}
