//! Descriptions from text to spec and back: presets, overrides, provenance, and the exact words of refusals.

use super::*;
use pellucid_device::{Arbitration, DieOrder};
use pellucid_flash::Nanos;
use pellucid_ftl::{Durability, Victim};
use pellucid_media::{ListedFault, StoreKind};
use pellucid_setting::{Kind, Source, Typed};
use proptest::prelude::*;
use std::collections::BTreeMap;

mod effect;
mod refusals;

const SMALL: &str = "\
[drive.media]
channels = 2
ways = 2
blocks = 32
pages = 64
page_size = '4k'
cell = 'slc'
[drive.media.timing]
read = ['25us']
program = ['200us']
erase = '1.5ms'
channel_rate = '400MB/s'
[drive.ftl]
over_provisioning = 0.2
";

fn small(more: &str) -> Result<Spec, SpecError> {
    from_str(&format!("{SMALL}{more}"), "dir/my.toml", &[])
}

fn with_sets(sets: &[&str]) -> Result<Spec, SpecError> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    from_str(SMALL, "my.toml", &sets)
}

fn refusal(result: Result<Spec, SpecError>) -> String {
    result.map(|spec| spec.drive_name).expect_err("should be refused").to_string()
}

/// A spec without the origins of its values.
fn content(spec: &Spec) -> impl PartialEq + std::fmt::Debug {
    let pairs = |job: &RawJob| -> Vec<(String, String)> {
        job.pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect()
    };
    (
        spec.drive.clone(),
        spec.drive_name.clone(),
        spec.jobs.iter().map(pairs).collect::<Vec<_>>(),
        spec.precondition.clone(),
        spec.run.clone(),
    )
}

#[track_caller]
fn assert_round_trip(spec: &Spec) {
    let shown = show(spec);
    let again = from_str(&shown, "shown.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert_eq!(content(&again), content(spec));
    assert_eq!(show(&again), shown, "showing what was shown changes it");
}

#[test]
fn every_preset_loads_and_round_trips() {
    assert_eq!(presets().len(), 20);
    for preset in presets() {
        let spec = load(preset.name, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.drive_name, preset.name);
        assert_round_trip(&spec);
    }
}

#[test]
fn every_constant_of_a_preset_names_its_source() {
    for preset in presets() {
        let document = Document::parse(preset.text, preset.name).unwrap();
        for leaf in document.leaves.values().filter(|leaf| leaf.path != "drive.preset") {
            assert!(leaf.origin.comment.is_some(), "{}: {} has no source", leaf.origin.place, leaf.path);
        }
    }
}

#[test]
fn cosmos_plus_is_what_the_paper_describes() {
    let mlc = load("cosmos-plus", &[]).unwrap().drive;
    let layout = mlc.media.geometry.layout().unwrap();
    assert_eq!(layout.media_bytes(), 1 << 40);
    assert_eq!((layout.dies, layout.superpages_per_block, layout.sectors_per_unit), (64, 256, 32));
    let mean = |times: &[Nanos]| times.iter().map(|time| time.0).sum::<u64>() / times.len() as u64;
    // Table 5 also gives the averages.
    assert_eq!(mean(&mlc.media.timing.read_ns), 74_000);
    assert_eq!(mean(&mlc.media.timing.program_ns), 1_388_000);
    assert_eq!(mlc.ftl.durability, Durability::Volatile);
    assert_eq!(mlc.buffer.entries * mlc.media.geometry.unit_bytes, 16 << 20);

    let slc = load("cosmos-plus-slc", &[]).unwrap().drive;
    assert_eq!(slc.media.geometry.layout().unwrap().media_bytes(), 1 << 40);
    assert!(slc.media.slc_mode);
    assert_eq!(slc.firmware, mlc.firmware, "inherited");
}

/// Firmware time of one 16 KiB read alone, without polling: fetch, slice, sense issued and handled, data handled, DMA issued. Table 7 has 7.3 us,
/// polling included.
#[test]
fn cosmos_plus_firmware_takes_less_than_seven_microseconds_alone() {
    let firmware = load("cosmos-plus", &[]).unwrap().drive.firmware;
    let ns = |cost: pellucid_device::StepCost| cost.cycles * 1000 / firmware.clock_mhz + cost.fixed_ns;
    let steps = [(firmware.fetch, 1), (firmware.slice, 1), (firmware.dma, 1), (firmware.issue, 1)];
    let steps =
        steps.into_iter().chain([(firmware.register, 3), (firmware.status, 2), (firmware.arrival, 1)]);
    let total: u32 = steps.map(|(cost, times)| ns(cost) * times).sum();
    assert!((4_000..7_000).contains(&total), "{total} ns");
}

#[test]
fn a_file_overrides_its_preset_key_by_key() {
    let text =
        "[drive]\npreset = 'cosmos-plus-slc'\n[drive.ftl]\nvictim = 'd-choices:8' # mine\ngc_low = 3\n";
    let spec = from_str(text, "a/b/mine.toml", &[]).unwrap();
    assert_eq!(spec.drive_name, "mine");
    assert_eq!(spec.drive.ftl.victim, Victim::DChoices(8));
    assert_eq!(spec.drive.media.geometry.blocks, 8192, "from the preset");
    assert_eq!(spec.drive.media.geometry.channels, 8, "from the preset's own preset");
    assert_round_trip(&spec);

    let origin = |key: &str| spec.provenance.get(key).unwrap().origin.clone();
    let file = |name: &str, line| Place::File { name: name.into(), line };
    assert_eq!(
        origin("drive.ftl.victim"),
        Origin { place: file("a/b/mine.toml", 4), comment: Some("mine".into()) }
    );
    assert_eq!(origin("drive.ftl.gc_low"), Origin { place: file("a/b/mine.toml", 5), comment: None });
    let page_size = origin("drive.media.page_size");
    assert_eq!(page_size.comment.as_deref(), Some("Table 5: 16,384 data bytes"));
    assert!(matches!(page_size.place, Place::File { name, .. } if name == "cosmos-plus"));
    assert_eq!(origin("run.seed").place, Place::Default);
}

#[test]
fn show_names_every_source() {
    let sets = ["ftl.victim=fifo".to_string()];
    let spec = from_str(&format!("{SMALL}seed = 7 # lucky\n"), "my.toml", &sets).unwrap();
    let shown = show(&spec);
    for (start, source) in [
        ("victim = \"fifo\" ", "# --set ftl.victim"),
        ("seed = 7 ", "# lucky"),
        ("channels = 2 ", "# my.toml:2"),
        ("page_size = \"4KiB\" ", "# my.toml:6"),
        ("erase = \"1500us\" ", "# my.toml:11"),
        ("queues = 8 ", "# default"),
        ("name = \"my\" ", "# default"),
    ] {
        let line =
            shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {shown}"));
        assert!(line.ends_with(source), "{line}");
    }
    assert_round_trip(&spec);
}

#[test]
fn every_key_can_be_set() {
    let spec = load("jasmine-optimized", &[]).unwrap();
    for entry in &spec.provenance.entries {
        if ["drive.preset", "target", "job"].contains(&entry.key) {
            continue;
        }
        let short = entry.key.strip_prefix("drive.").unwrap_or(entry.key);
        let key = short;
        let again =
            load("jasmine-optimized", &[format!("{key}={}", entry.value)]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(content(&again), content(&spec), "{key}");
        let set = Place::Set { key: key.to_string() };
        assert_eq!(again.provenance.get(entry.key).unwrap().origin.place, set);
    }
}

#[test]
fn sets_come_last_and_in_order() {
    let spec =
        with_sets(&["ftl.victim=lru", "drive.ftl.victim=random", "media.timing.read=[\"30us\"]"]).unwrap();
    assert_eq!(spec.drive.ftl.victim, Victim::Random);
    assert_eq!(spec.drive.media.timing.read_ns, [Nanos(30_000)]);
    let spec =
        with_sets(&["preset=jasmine", "media.unit_size=4k", "media.timing.program=1ms", "host.queues=3"])
            .unwrap();
    assert_eq!(spec.drive.ftl.over_provisioning, 0.2, "the file overrides the preset that --set names");
    assert!(spec.drive.ftl.copyback, "the rest is the preset's");
    assert_eq!(spec.drive.media.timing.program_ns, [Nanos(1_000_000)]);
    assert_eq!(spec.drive.host.queues, 3);
    let spec = with_sets(&["firmware.fetch={ cycles = 5, fixed = \"1us\" }"]).unwrap();
    assert_eq!((spec.drive.firmware.fetch.cycles, spec.drive.firmware.fetch.fixed_ns), (5, 1000));
}

#[test]
fn faults_by_place() {
    let list = "\
[[drive.media.faults.list]]
kind = 'factory-bad'
die = 3
block = 31
[[drive.media.faults.list]]
kind = 'program-fail'
die = 0
block = 1
superpage = 63
after_erases = 2
[[drive.media.faults.list]]
kind = 'erase-fail'
die = 0
block = 2
[[drive.media.faults.list]]
kind = 'read-fail'
die = 1
block = 0
superpage = 5
attempts = 'always'
";
    let spec = small(list).unwrap();
    assert_eq!(
        spec.drive.media.faults.list,
        [
            ListedFault::FactoryBad { die: 3, block: 31 },
            ListedFault::ProgramFail { die: 0, block: 1, superpage: 63, after_erases: 2 },
            ListedFault::EraseFail { die: 0, block: 2, after_erases: 0 },
            ListedFault::ReadFail { die: 1, block: 0, superpage: 5, attempts: u32::MAX },
        ]
    );
    assert_round_trip(&spec);
    let former = small(&list.replace("superpage = 63", "stripe = 63"));
    assert_eq!(
        refusal(former),
        "dir/my.toml:23: drive.media.faults.list[1].stripe: unknown key; allowed: kind, die, block, superpage, after_erases"
    );
    assert_eq!(
        refusal(with_sets(&["drive.ftl.separation=collected"])),
        "--set drive.ftl.separation: drive.ftl.separation = \"collected\": not allowed; allowed: off, gc-copies, frequency"
    );
    assert_eq!(
        refusal(small(&list.replace("die = 3", "die = 4"))),
        "dir/my.toml:17: drive.media.faults.list[0].die = 4: not allowed; allowed: a whole number from 0 to 3"
    );
    assert_eq!(
        refusal(small(&list.replace("after_erases = 2", "after_erase = 2"))),
        "dir/my.toml:24: drive.media.faults.list[1].after_erase: unknown key (did you mean after_erases?); \
         allowed: \
         kind, die, block, superpage, after_erases"
    );
    assert_eq!(
        refusal(small("[[drive.media.faults.list]]\nkind = 'erase-fail'\ndie = 0\n")),
        "dir/my.toml:15: drive.media.faults.list[0].block = (missing): not allowed; allowed: a whole number \
         from 0 \
         to 31"
    );
}

#[test]
fn jobs_are_words_in_order() {
    let text = "\
[[job]]
rw = 'randwrite'
bs = '4k'
iodepth = 64
number_ios = 1_000_000
time_based = true
rate = 0.5
[[job]]
rw = 'read' # second
";
    let spec = small(text).unwrap();
    let pairs = |job: &RawJob| job.pairs.iter().map(|p| format!("{}={}", p.key, p.value)).collect::<Vec<_>>();
    assert_eq!(
        pairs(&spec.jobs[0]),
        ["rw=randwrite", "bs=4k", "iodepth=64", "number_ios=1000000", "time_based=true", "rate=0.5"]
    );
    assert_eq!(spec.jobs[1].place, Place::File { name: "dir/my.toml".into(), line: 22 });
    assert_eq!(spec.jobs[1].pairs[0].origin.place, Place::File { name: "dir/my.toml".into(), line: 23 });
    assert_round_trip(&spec);
    assert_eq!(
        refusal(small("[[job]]\nrw = ['read']\n")),
        "dir/my.toml:16: job[0].rw = [\"read\"]: not allowed; allowed: a text, a number, true, false"
    );
}

#[test]
fn run_and_precondition() {
    let text = "\
[precondition]
fill = 1
overwrite = 'steady'
[run]
verify = true
report = 'out'
trace = 't.csv'
format = 'msr'
address = 'fold'
time_scale = 0.5
closed_loop = 32
stream = 3
repeat = 2
limit = 500
";
    let spec = small(text).unwrap();
    assert_eq!(
        spec.precondition,
        Precondition {
            fill: Fill::Share(1.0),
            overwrite: Overwrite::Steady,
            aged_by: AgedBy::Change,
            shelf_days: 0.0,
            seed: 1
        }
    );
    assert_eq!(
        spec.run,
        RunSpec {
            trace_copy: None,
            seed: 1,
            verify: true,
            steady: None,
            report: Some("out".into()),
            log: None,
            trace: Some("t.csv".into()),
            format: Some("msr".into()),
            address: pellucid_workload::trace::AddressPolicy::Fold,
            time_scale: 0.5,
            closed_loop: Some(32),
            stream: Some(3),
            repeat: 2,
            limit: Some(500),
        }
    );
    assert_round_trip(&spec);
    let spec = small("[precondition]\nfill = 0.5\noverwrite = 2.0\n").unwrap();
    assert_eq!(spec.precondition.overwrite, Overwrite::Capacities(2.0));
}

#[test]
fn stores_arbitration_and_order() {
    let spec = with_sets(&["media.store=file:dir/a b.img"]).unwrap();
    assert_eq!(spec.drive.media.store, StoreKind::File("dir/a b.img".into()));
    assert_round_trip(&spec);
    let spec = with_sets(&["media.store=file", "media.path=file:x"]).unwrap();
    assert_eq!(spec.drive.media.store, StoreKind::File("file:x".into()));
    let sets =
        ["host.queues=2", "host.arbitration=weighted", "host.weights=[3,1]", "scheduler.order=read-first"];
    let spec = with_sets(&sets).unwrap();
    assert_eq!(spec.drive.host.arbitration, Arbitration::Weighted(vec![3, 1]));
    assert_eq!(spec.drive.scheduler.order, DieOrder::ReadFirst);
    assert_round_trip(&spec);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let dotted = format!("{}a = 1", "a.".repeat(50_000));
    let nested = format!("a = {}", "[".repeat(50_000));
    let tables = format!("[{}a]\n", "a.".repeat(50_000));
    for text in [dotted, nested, tables] {
        from_str(&text, "t", &[]).expect_err("no such key");
    }
    with_sets(&[&format!("a={}", "{a=".repeat(50_000))]).expect_err("no such key");
}

#[test]
fn the_reference_lists_each_key_once() {
    let keys = keys();
    let mut names: Vec<&str> = keys.iter().map(|key| key.key).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    // A key that is a prefix of another would be a value and a table at once.
    for (first, second) in names.iter().zip(&names[1..]) {
        assert!(!second.starts_with(&format!("{first}.")), "{first} and {second}");
    }
    for key in schema() {
        if let Some(value) = key.fallback.value::<()>() {
            assert!(key.kind.read(&value).is_some(), "the default of {} is not allowed", key.path);
        }
    }
}

fn any_toml_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "[ -~]{0,12}",
        "(file:|d-choices:)?[0-9a-z]{0,9}( ?(ns|us|ms|s|k|MiB|GB/s))?",
        prop::collection::vec("[0-9]{1,3}(us)?", 0..4).prop_map(|items| format!("{items:?}")),
        Just("{ cycles = 1 }".to_string()),
        Just("[{ kind = \"read-fail\", die = 0, block = 0, superpage = 0 }]".to_string()),
    ]
}

/// Values of one preset on another: many conflict; those that fit must read back.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn presets_mixed_are_refused_or_round_trip() {
    let specs: Vec<Spec> = presets().iter().map(|preset| load(preset.name, &[]).unwrap()).collect();
    let mut rng = pellucid_flash::Rng::new(7);
    let mut pick = |n: usize| rng.below(n as u64) as usize;
    let (mut resolved, mut refused) = (0, 0);
    for _ in 0..800 {
        let base = presets()[pick(specs.len())].name;
        let sets: Vec<String> = (0..1 + pick(4))
            .map(|_| {
                let entries = &specs[pick(specs.len())].provenance.entries;
                let entry = &entries[pick(entries.len())];
                format!("{}={}", entry.key, entry.value)
            })
            .collect();
        match load(base, &sets) {
            Ok(spec) => {
                resolved += 1;
                assert_round_trip(&spec);
            }
            Err(error) => {
                refused += 1;
                // `drive.preset=""` removes the base, so keys are missing.
                let expected = matches!(error, SpecError::NotAllowed { .. } | SpecError::Missing { .. });
                assert!(expected, "{base} {sets:?}: {error}");
            }
        }
    }
    assert!(resolved >= 100 && refused >= 20, "{resolved} resolved, {refused} refused");
}

/// An assignment, a table header or a comment, correct or not.
const TOML_LIKE_LINE: &str = concat!(
    r#"[a-z.]{1,9} = [-0-9a-z'"\[\]{}=,. ]{1,12}\r?"#,
    r"|\[{1,2}(drive|job|run)[.a-z]{0,8}\]{1,2}|#[a-zé]{0,4}",
);

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>(), set in any::<String>()) {
        let _ = from_str(&text, "t", &[]);
        let _ = from_str(SMALL, "t", &[set]);
    }

    #[test]
    fn toml_like_text_never_panics(lines in prop::collection::vec(TOML_LIKE_LINE, 1..6)) {
        let text = lines.join("\n");
        let _ = from_str(&text, "t", &[]);
        let _ = from_str(&format!("{SMALL}{text}"), "t", &[]);
    }

    /// Any value for any key is either refused or resolved into a spec that reads back.
    #[test]
    fn any_value_for_any_key_is_refused_or_round_trips(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any_toml_value()), 1..4)
    ) {
        let keys = schema::paths();
        let set = |(pick, value): &(prop::sample::Index, String)| format!("{}={value}", pick.get(&keys));
        let sets: Vec<String> = picks.iter().map(set).collect();
        if let Ok(spec) = from_str(SMALL, "my.toml", &sets) {
            assert_round_trip(&spec);
        }
    }
}

#[test]
fn victims_have_the_names_that_are_read() {
    for victim in Victim::ALL {
        let spec = from_str(SMALL, "my.toml", &[format!("ftl.victim={victim}")]);
        assert_eq!(spec.unwrap_or_else(|e| panic!("{e}")).drive.ftl.victim, *victim);
    }
}

/// In service, a preset's volatile drive keeps a journal, unless the user asked for a volatile one.
#[test]
fn a_preset_that_forgets_is_served_with_a_journal() {
    for preset in presets() {
        let spec = load_to_serve(preset.name, &[]).unwrap();
        let has = |key| spec.has_effect(key, Use::Serve);
        let forgets = (has("drive.ftl.durability") && spec.drive.ftl.durability == Durability::Volatile)
            || (has("host.ftl.durability") && spec.host_ftl.durability == Durability::Volatile);
        assert!(!forgets, "{}", preset.name);
        assert_eq!(load_to_serve(preset.name, &[]).unwrap().drive_name, preset.name);
    }
    for (name, key) in [("cosmos-plus", "drive.ftl"), ("open-channel", "host.ftl")] {
        let asked = load_to_serve(name, &[format!("{key}.durability=volatile")]).unwrap();
        let durability =
            if key == "drive.ftl" { asked.drive.ftl.durability } else { asked.host_ftl.durability };
        assert_eq!(durability, Durability::Volatile, "{name}");
    }
    let folder = std::env::temp_dir().join(format!("pellucid-to-serve-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let load = |text: &str| {
        let path = folder.join("mine.toml");
        std::fs::write(&path, text).unwrap();
        load_to_serve(path.to_str().unwrap(), &[]).unwrap().drive.ftl.durability
    };
    let (plain, asked) = (
        load("[drive]\npreset = \"cosmos-plus\"\n"),
        load("[drive]\npreset = \"cosmos-plus\"\nftl.durability = \"volatile\"\n"),
    );
    std::fs::remove_dir_all(&folder).unwrap();
    assert_ne!(plain, Durability::Volatile);
    assert_eq!(asked, Durability::Volatile);
}

/// Different values of a kind: both ends of a range, every word.
fn samples(kind: Kind) -> Vec<Typed> {
    let words = |words: &[&str]| words.iter().map(|word| Typed::Text(word.to_string())).collect::<Vec<_>>();
    let and = |mut list: Vec<Typed>, last: Typed| {
        list.push(last);
        list
    };
    match kind {
        Kind::Whole(min, max) | Kind::Unit(_, min, max) => vec![Typed::Whole(min), Typed::Whole(max)],
        Kind::Real(min, max) | Kind::Share(min, max) => vec![Typed::Real(min), Typed::Real(max)],
        Kind::Flag => vec![Typed::Flag(false), Typed::Flag(true)],
        Kind::Times => vec![Typed::Times(vec![1]), Typed::Times(vec![2])],
        Kind::Weights => vec![Typed::Wholes(vec![1]), Typed::Wholes(vec![2])],
        Kind::Word(all) => words(all),
        Kind::WordOrCount(all, prefix) => and(words(all), Typed::Text(format!("{prefix}:7"))),
        Kind::WordOrText(all, prefix) => and(words(all), Typed::Text(format!("{prefix}:x"))),
        Kind::Text => vec![Typed::Text("x".into()), Typed::Text("y".into())],
        Kind::Or(_, kind) => and(samples(*kind), Typed::Absent),
        Kind::Tables => vec![Typed::Tables],
        Kind::Words(all) => {
            and(all.iter().map(|w| Typed::Words(vec![w.to_string()])).collect(), Typed::Words(Vec::new()))
        }
    }
}

/// Keys whose field is filled by the `resolve_*` modules, or that the documents themselves use.
const MADE_LATER: &[&str] = &[
    "drive.preset",
    "drive.name",
    "drive.media.store",
    "drive.media.path",
    "drive.media.timing.suspend_erase",
    "drive.ftl.slc_cache.blocks",
    "drive.ftl.slc_cache.fold_after",
    "backing.capacity",
    "host.cluster_buffer.bypass",
    "host.cluster_buffer.cluster",
    "host.block_layer.largest",
    "kv.over_provisioning",
    "kv.keep",
    "run.steady_state",
    "run.steady_round",
    "run.steady_window",
];

/// A value of every key.
struct Given(BTreeMap<&'static str, Typed>);

impl Source for Given {
    fn typed(&self, path: &str) -> &Typed {
        &self.0[path]
    }
}

/// Each allowed value of a key produces its own field value: no two words mean the same, and no number is cut off.
#[test]
fn every_key_makes_its_field_of_what_is_given() {
    let mut given =
        Given(schema().iter().map(|key| (key.path.as_str(), samples(key.kind).remove(0))).collect());
    // Keys that decide whether others have an effect.
    for (path, typed) in [
        ("drive.host.arbitration", Typed::Text("weighted".into())),
        ("drive.media.bit_errors.enabled", Typed::Flag(true)),
        ("drive.media.retry.enabled", Typed::Flag(true)),
        ("drive.ecc.code", Typed::Text("bch".into())),
        ("drive.ftl.durability", Typed::Text("journal".into())),
        ("drive.scheduler.solver.channels", Typed::Whole(1)),
    ] {
        given.0.insert(path, typed);
    }
    let mut of_keys: Vec<(&str, Vec<Description>)> = Vec::new();
    for key in schema().iter().filter(|key| !MADE_LATER.contains(&key.path.as_str())) {
        let map = if key.path == "drive.ftl.map_cache" { "demand" } else { "bast" };
        given.0.insert("drive.ftl.map", Typed::Text(map.into()));
        let mut made = |typed: &Typed| {
            let usual = given.0.insert(&key.path, typed.clone()).expect("a key of the schema");
            let made = Description::take(&given, "");
            given.0.insert(&key.path, usual);
            made
        };
        let all: Vec<Description> = samples(key.kind).iter().map(&mut made).collect();
        for (index, one) in all.iter().enumerate() {
            let same = all[..index].iter().position(|earlier| earlier == one);
            assert_eq!(same, None, "{}: values {same:?} and {index} mean the same", key.path);
        }
        of_keys.push((&key.path, all));
    }
    // Two keys that fill one field would show here.
    given.0.insert("drive.ftl.map", Typed::Text("bast".into()));
    let usual = Description::take(&given, "");
    for (at, (path, all)) in
        of_keys.iter().enumerate().filter(|(_, (path, _))| *path != "drive.ftl.map_cache")
    {
        for one in all.iter().filter(|one| **one != usual) {
            let other = of_keys[..at].iter().find(|(_, others)| others.contains(one));
            assert!(other.is_none(), "{path} and {} make the same field", other.unwrap().0);
        }
    }
}
