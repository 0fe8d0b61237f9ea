//! The drives of the swarm: small, and random in everything else.
//!
//! A drive follows from its seed. Later additions draw from a stream, or a copy, of their own, so that the drives of older seeds stay the
//! same.
use pellucid_device::DeviceConfig;
use pellucid_flash::Rng;
use pellucid_ftl::Victim;

/// Victim policies that the drives of the oldest seeds choose from. A policy that is added comes from the list by itself.
const FIRST_VICTIMS: [&str; 6] = ["greedy", "cost-benefit", "fifo", "lru", "random", "d-choices:3"];

/// A small random drive as TOML `--set`s on the tiny base.
pub fn random_sets(rng: &mut Rng) -> Vec<String> {
    let mut sets = Vec::new();
    fn choose<T: std::fmt::Display>(sets: &mut Vec<String>, rng: &mut Rng, key: &str, values: &[T]) {
        sets.push(format!("{key}={}", values[rng.below(values.len() as u64) as usize]));
    }
    let mut pick = |key: &str, values: &[&str]| choose(&mut sets, rng, key, values);
    pick("media.channels", &["1", "2", "3"]);
    pick("media.ways", &["1", "2"]);
    pick("media.planes", &["1", "2"]);
    pick("media.multi_plane", &["false", "true"]);
    pick("media.unit_size", &["1024", "2048", "4096"]);
    choose(&mut sets, rng, "ftl.victim", &FIRST_VICTIMS);
    let mut pick = |key: &str, values: &[&str]| choose(&mut sets, rng, key, values);
    pick("ftl.placement", &["channel-first", "way-first", "random"]);
    pick("ftl.separation", &["off", "gc-copies", "frequency"]);
    pick("ftl.gc_low", &["1", "2"]);
    pick("ftl.gc_high", &["0", "4"]);
    pick("ftl.gc_parallel", &["1", "4"]);
    pick("ftl.copyback", &["false", "true"]);
    pick("ftl.wear.dynamic", &["false", "true"]);
    pick("ftl.wear.static_gap", &["\"never\"", "2"]);
    pick("ftl.checkpoint_every", &["64", "1000"]);
    pick("buffer.entries", &["8", "16", "60"]);
    pick("buffer.write", &["write-back", "write-through"]);
    pick("buffer.retain", &["false", "true"]);
    pick("buffer.dirty_high", &["1.0", "0.3"]);
    pick("host.link_rate", &["0", "\"1GB/s\""]);
    pick("firmware.model", &["tasks", "loop"]);
    pick("firmware.turn.cycles", &["0", "200"]);
    pick("firmware.poll.fixed", &["0", "\"150ns\""]);
    pick("firmware.slice.cycles", &["0", "500"]);
    pick("firmware.status.fixed", &["0", "\"200ns\""]);
    pick("media.timing.command", &["0", "\"300ns\""]);
    pick("media.timing.status", &["0", "\"200ns\""]);
    pick("media.timing.op_spread", &["0.0", "0.1"]);
    pick("scheduler.order", &["fifo", "read-first"]);
    pick("scheduler.decode", &["0", "\"5us\""]);
    pick("host.completes", &["firmware", "controller"]);
    pick("firmware.spread", &["0.0", "0.3"]);
    pick("firmware.register.fixed", &["0", "\"100ns\""]);
    pick("media.timing.op_deviation", &["0", "\"3us\""]);
    pick("scheduler.solver.channels", &["0", "2"]);
    if sets.iter().any(|s| s == "scheduler.order=read-first") && rng.chance(0.5) {
        sets.push("scheduler.suspend=true".into());
        sets.push("media.timing.suspend=\"20us\"".into());
        sets.extend(random_suspension(rng.clone()));
    }
    if rng.chance(0.5) {
        sets.push("media.faults.program_fail=0.002".into());
        sets.push("media.faults.erase_fail=0.002".into());
        sets.push("media.faults.read_fail=0.01".into());
        sets.push("media.faults.factory_bad=0.02".into());
    }
    sets.push(format!("media.seed={}", rng.below(1 << 30)));
    sets.push(format!("ftl.seed={}", rng.below(1 << 30)));
    // Drawn from a copy, so that what is drawn next stays what it was.
    let mut later = rng.clone();
    sets.extend(random_handles(&mut later));
    if later.chance(0.5) {
        sets.push("ftl.gc_pacing=true".into());
    }
    let all = Victim::ALL.iter().map(Victim::to_string);
    let added: Vec<String> = all.filter(|name| !FIRST_VICTIMS.contains(&name.as_str())).collect();
    if later.chance(added.len() as f64 / Victim::ALL.len() as f64) {
        choose(&mut sets, &mut later, "ftl.victim", &added);
    }
    sets.extend(random_map(&mut later));
    sets
}

/// Harder things, beside [`random_sets`]: cells of several bits, one-shot programs, weighted queues, blocks that wear out.
/// They have a stream of their own, so that the drives of [`sets_of`] stay what they were.
pub fn random_harder_sets(rng: &mut Rng) -> Vec<String> {
    let mut sets = Vec::new();
    if rng.chance(0.5) {
        sets.push("media.cell=mlc".to_string());
        sets.push("media.timing.read=\"50us,70us\"".into());
        let one_shot = rng.chance(0.4);
        sets.push(format!("media.one_shot_pages={}", if one_shot { 2 } else { 1 }));
        // A superpage may be twice as long now, and must fit the buffer.
        sets.push("buffer.entries=60".into());
        sets.push(format!("media.timing.program=\"400us{}\"", if one_shot { "" } else { ",900us" }));
    }
    if rng.chance(0.5) {
        sets.push("host.queues=3".into());
        sets.push("host.arbitration=weighted".into());
        sets.push(format!("host.weights=[1, {}, {}]", 1 + rng.below(5), 1 + rng.below(5)));
    }
    if rng.chance(0.3) {
        sets.push(format!("media.endurance={}", 2 + rng.below(10)));
    }
    if rng.chance(0.5) {
        let mlc = sets.iter().any(|set| set == "media.cell=mlc");
        random_bit_errors(rng, mlc, &mut sets);
    }
    sets.push(format!("scheduler.queue={}", rng.below(4)));
    sets.push(format!("firmware.word.fixed={}ns", 100 * rng.below(2)));
    sets.push(format!("buffer.read_entries={}", 3 * rng.below(2)));
    sets
}

/// Bit errors: from a few corrected ones to losses in spite of retries, with and without the codec at work.
fn random_bit_errors(rng: &mut Rng, mlc: bool, sets: &mut Vec<String>) {
    let with_codec = rng.chance(0.5);
    let mut pick = |key: &str, values: &[&str]| {
        sets.push(format!("{key}={}", values[rng.below(values.len() as u64) as usize]));
    };
    pick("ftl.copyback", &["false"]);
    pick("media.spare_size", &["256"]);
    pick("media.bit_errors.enabled", &["true"]);
    // About 0.1, 0.7 and 2 wrong bits in a chunk.
    pick("media.bit_errors.factor", if mlc { &["40", "300", "800"] } else { &["4e3", "3e4", "8e4"] });
    pick("media.bit_errors.retry_floor", &["0.1", "0.5"]);
    pick("ecc.code", &["bch"]);
    pick("ecc.chunk", &["256", "512"]);
    pick("ecc.correctable", &["4", "6"]);
    pick("ecc.scrambler", &["true", "false"]);
    pick("ecc.refresh_above", &["\"never\"", "1", "3"]);
    if with_codec {
        pick("media.store", &["ram"]);
        pick("ecc.data", &["real", "checked"]);
    }
}

/// How often operations are suspended, and whether reads pass writes. It draws from a copy of the stream, so that the rest of the
/// drive stays what it was.
fn random_suspension(mut rng: Rng) -> Vec<String> {
    let mut pick =
        |key: &str, values: &[&str]| format!("{key}={}", values[rng.below(values.len() as u64) as usize]);
    vec![
        pick("scheduler.suspensions", &["\"unlimited\"", "0", "1", "4"]),
        pick("scheduler.suspend_gap", &["0", "\"30us\"", "\"200us\""]),
        pick("media.timing.suspend_erase", &["\"same\"", "\"300us\""]),
        pick("host.in_order", &["false", "true"]),
    ]
}

/// Another translation than a page map in memory, for some. Log blocks keep nothing apart, and need more blocks beside those for data.
fn random_map(rng: &mut Rng) -> Vec<String> {
    let map = ["page", "page", "demand", "bast", "fast"][rng.below(5) as usize];
    match map {
        "page" => Vec::new(),
        // From two entries to all of the map.
        "demand" => {
            let bytes = ["16", "100", "800", "\"1MiB\""][rng.below(4) as usize];
            vec!["ftl.map=demand".into(), format!("ftl.map_cache={bytes}")]
        }
        _ => vec![
            format!("ftl.map={map}"),
            format!("ftl.log_blocks={}", 1 + rng.below(3)),
            "ftl.handles=1".into(),
            "ftl.over_provisioning=1.5".into(),
        ],
    }
}

/// Placement handles; drawn from a copy, so that drives of older seeds stay as they were but for these.
fn random_handles(rng: &mut Rng) -> Vec<String> {
    let handles = [1, 1, 2, 4][rng.below(4) as usize];
    let isolation = ["initial", "persistent"][rng.below(2) as usize];
    if handles == 1 {
        return Vec::new();
    }
    // Every handle takes an open block or two of each die.
    vec![
        format!("ftl.handles={handles}"),
        format!("ftl.isolation={isolation}"),
        "ftl.over_provisioning=1.5".into(),
    ]
}

/// The tiny base drive: 1 KiB sectors, 4 KiB pages, 16 pages, 24 blocks per plane.
pub const TINY: &str = r#"
[drive]
name = "tiny"
[drive.media]
channels = 2
ways = 1
dies = 1
planes = 1
blocks = 24
pages = 16
page_size = 4096
spare_size = 64
sector_size = 1024
unit_size = 4096
cell = "slc"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "200MB/s"
[drive.ftl]
over_provisioning = 0.6
durability = "journal"
checkpoint_every = 100
[drive.scheduler]
read_retries = 4
"#;

/// The tiny drive with overrides.
pub fn tiny(sets: &[String]) -> DeviceConfig {
    pellucid_spec::from_str(TINY, "tiny", sets).unwrap_or_else(|e| panic!("{e} in {sets:?}")).drive
}

/// The drive that [`super::run_harder_seed`] makes of `seed`.
pub fn harder_sets_of(seed: u64) -> Vec<String> {
    let mut sets = sets_of(seed);
    let mut rng = Rng::stream(seed, "harder drive");
    sets.extend(random_harder_sets(&mut rng));
    // A loop has none.
    if sets.iter().any(|set| set == "firmware.model=tasks") && rng.chance(0.5) {
        sets.push("scheduler.page_transfers=true".into());
    }
    // From a copy, so that what is drawn next stays what it was.
    let planes = sets.iter().any(|set| set == "media.planes=2");
    if planes && sets.iter().any(|set| set == "firmware.model=tasks") && rng.clone().chance(0.5) {
        sets.push("media.independent_plane_reads=true".into());
    }
    // Of superpages so long, and so many kinds of data apart, that the base has too little to spare for them.
    if pellucid_spec::from_str(TINY, "tiny", &sets).is_err() {
        sets.push("ftl.over_provisioning=0.7".into());
    }
    sets
}

/// The drive that [`super::run_seed`] makes of `seed`, as `--set`s on [`TINY`].
pub fn sets_of(seed: u64) -> Vec<String> {
    random_sets(&mut Rng::stream(seed, "drive"))
}
