//! A struct with every attribute, listed and made.

use super::*;
use pellucid_text::Quantity;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
enum Order {
    First,
    AsTheyCome,
}

#[derive(Debug, PartialEq, Settings)]
struct Costs {
    /// Cores.
    ///
    /// The second paragraph is for readers of the code.
    #[setting(kind = few(1), default = 1)]
    cores: u32,
    /// Time of a step
    /// of the processor.
    #[setting(kind = TIME, default = "3us")]
    step_ns: u64,
}

#[derive(Debug, PartialEq, Settings)]
struct Errors {
    /// Factor on the rate.
    #[setting(kind = real(0.0, 10.0), default = 1.0)]
    factor: f64,
}

#[derive(Debug, PartialEq, Settings)]
struct Gone {
    /// Blocks.
    #[setting(default = 0)]
    blocks: u32,
}

impl Gone {
    fn used(self) -> Option<u32> {
        Some(self.blocks).filter(|&blocks| blocks > 0)
    }
}

#[derive(Debug, PartialEq, Settings)]
struct Layer {
    /// Size of a cluster.
    #[setting(kind = size(512, 1 << 20), default = 4 << 10)]
    cluster_bytes: u64,
    /// Order of requests.
    #[setting(key = "elevator", default = "as-they-come")]
    order: Order,
    /// Longest wait.
    #[setting(kind = TIME, or = "never")]
    wait_ns: Option<u64>,
    /// Orders that are tried.
    #[setting(default = [])]
    tried: Vec<Order>,
    /// Errors of reads.
    #[setting(switched)]
    errors: Option<Errors>,
    /// Processor.
    #[setting(beside = "cpu", table, lead)]
    costs: Costs,
    /// Cores of the layer above.
    #[setting(beside = "above", key = "cores", shared, default = 2)]
    above: u32,
    /// Cache.
    #[setting(table, via = Gone, by = Gone::used)]
    cache: Option<u32>,
    /// Sectors of the journal.
    #[setting(kind = size(0, 1 << 30), default = 0, made = 7)]
    journal: u32,
    #[setting(skip)]
    number: u16,
}

/// Values of keys.
struct Given(BTreeMap<String, Typed>);

impl Source for Given {
    fn typed(&self, path: &str) -> &Typed {
        &self.0[path]
    }
}

/// The defaults of `keys`, and other values in place of some.
fn given(keys: &[Key], others: &[(&str, Typed)]) -> Given {
    let value = |key: &Key| key.kind.read(&key.fallback.value::<()>().expect("a default")).expect("allowed");
    let mut values: BTreeMap<String, Typed> = keys.iter().map(|key| (key.path.clone(), value(key))).collect();
    for (path, typed) in others {
        assert!(values.insert((*path).into(), typed.clone()).is_some(), "{path} is a key");
    }
    Given(values)
}

#[test]
fn keys_have_paths_meanings_and_defaults() {
    let keys = table_keys::<Layer>("host.layer");
    let told: Vec<String> = keys
        .iter()
        .map(|key| format!("{} {} {} {}", key.path, key.default().expect("one"), key.about, key.shared))
        .collect();
    assert_eq!(
        told,
        [
            "host.layer.cluster \"4KiB\" Size of a cluster false",
            "host.layer.elevator \"as-they-come\" Order of requests false",
            "host.layer.wait \"never\" Longest wait false",
            "host.layer.tried [] Orders that are tried false",
            "host.layer.errors.enabled false Errors of reads false",
            "host.layer.errors.factor 1.0 Factor on the rate false",
            "host.cpu.cores 1 Processor: cores false",
            "host.cpu.step \"3us\" Processor: time of a step of the processor false",
            "host.above.cores 2 Cores of the layer above true",
            "host.layer.cache.blocks 0 Blocks false",
            "host.layer.journal 0 Sectors of the journal false",
        ]
    );
}

#[test]
fn a_struct_is_made_of_values() {
    let keys = table_keys::<Layer>("host.layer");
    let values = given(
        &keys,
        &[
            ("host.layer.cluster", Typed::Whole(8192)),
            ("host.layer.elevator", Typed::Text("first".into())),
            ("host.layer.wait", Typed::Whole(5)),
            ("host.layer.tried", Typed::Words(vec!["first".into()])),
            ("host.layer.errors.enabled", Typed::Flag(true)),
            ("host.cpu.cores", Typed::Whole(4)),
            ("host.above.cores", Typed::Whole(9)),
            ("host.layer.cache.blocks", Typed::Whole(3)),
        ],
    );
    let expected = Layer {
        cluster_bytes: 8192,
        order: Order::First,
        wait_ns: Some(5),
        tried: vec![Order::First],
        errors: Some(Errors { factor: 1.0 }),
        costs: Costs { cores: 4, step_ns: 3000 },
        above: 9,
        cache: Some(3),
        journal: 7,
        number: 0,
    };
    assert_eq!(Layer::take(&values, "host.layer"), expected);
}

#[test]
fn defaults_make_a_struct() {
    let usual = Layer::usual();
    assert_eq!((usual.cluster_bytes, usual.order, usual.wait_ns), (4096, Order::AsTheyCome, None));
    assert_eq!((usual.errors, usual.costs.step_ns, usual.cache), (None, 3000, None));
}

proptest! {
    #[test]
    fn written_values_read_back(base in 0..=i64::MAX as u64, share in 0.0..=1.0f64) {
        for quantity in [Quantity::Time, Quantity::Size, Quantity::Rate] {
            let kind = Kind::Unit(quantity, 0, i64::MAX as u64);
            let written = kind.write(&Typed::Whole(base));
            let value: Value<()> = match written.strip_prefix('"') {
                Some(text) => Value::Text(text.trim_end_matches('"').into()),
                None => Value::Whole(written.parse().expect("a whole number")),
            };
            prop_assert_eq!(kind.read(&value), Some(Typed::Whole(base)));
        }
        prop_assert_eq!(SHARE.read::<()>(&Value::Real(share)), Some(Typed::Real(share)));
    }
}
