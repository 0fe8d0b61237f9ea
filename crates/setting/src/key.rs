//! Keys, and the conversions between them and structs.

use crate::kind::{Kind, Typed};
use crate::value::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// Default of a key.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// No default: the key must be given.
    Required,
    /// A whole number, or a quantity in base units.
    Whole(i64),
    /// A number.
    Real(f64),
    /// A flag.
    Flag(bool),
    /// A word or text, or a quantity with its unit.
    Word(&'static str),
    /// An empty list.
    Empty,
}

impl Fallback {
    /// The default as written; `None`: the key is required.
    pub fn value<R>(self) -> Option<Value<R>> {
        match self {
            Fallback::Required => None,
            Fallback::Whole(number) => Some(Value::Whole(number)),
            Fallback::Real(number) => Some(Value::Real(number)),
            Fallback::Flag(flag) => Some(Value::Flag(flag)),
            Fallback::Word(word) => Some(Value::Text(word.to_string())),
            Fallback::Empty => Some(Value::List(Vec::new())),
        }
    }
}

/// One key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Dotted path from the top of a description.
    pub path: String,
    /// Type and bounds.
    pub kind: Kind,
    /// Default.
    pub fallback: Fallback,
    /// Meaning, in one line.
    pub about: String,
    /// True if another struct lists the key, too.
    pub shared: bool,
}

impl Key {
    /// Prefixes the meaning with that of the table.
    pub fn lead(&mut self, table: &str) {
        let mut rest = self.about.chars();
        let first = rest.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
        self.about = format!("{table}: {first}{}", rest.as_str());
    }

    /// The default as in a description; `None`: the key is required.
    pub fn default(&self) -> Option<String> {
        let value = self.fallback.value::<()>()?;
        // Written as by `show`, with its unit.
        Some(self.kind.read(&value).map_or_else(|| value.to_text(), |typed| self.kind.write(&typed)))
    }
}

/// Values of keys, already read by their kinds.
pub trait Source {
    /// Returns the value of a key.
    ///
    /// # Panics
    /// If there is no such key.
    fn typed(&self, path: &str) -> &Typed;
}

/// A type made from one value. The [`Kind`] of the key has checked the value.
pub trait Setting: Sized {
    /// Kind of its values, unless a key names another.
    const KIND: Kind;

    /// Makes it from a value.
    ///
    /// # Panics
    /// If the kind of the key allows values that the type cannot hold.
    fn take(typed: &Typed) -> Self;
}

/// A type of which a value can hold a list.
pub trait Item: Sized {
    /// Kind of the list.
    const LIST: Kind;

    /// Makes the list from a value.
    ///
    /// # Panics
    /// If the key is of another kind.
    fn take_list(typed: &Typed) -> Vec<Self>;
}

/// A struct whose fields are settings. `#[derive(Settings)]` implements it; see the [crate].
pub trait Settings: Sized {
    /// Appends its keys, below `table`.
    fn list(table: &str, keys: &mut Vec<Key>);

    /// Makes the struct from the values below `table`.
    fn take(values: &dyn Source, table: &str) -> Self;

    /// Makes the struct from its defaults.
    ///
    /// # Panics
    /// If one of its keys is required.
    fn usual() -> Self {
        Self::take(&Usual::of(&table_keys::<Self>("")), "")
    }
}

/// The keys of a struct below a table.
pub fn table_keys<T: Settings>(table: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    T::list(table, &mut keys);
    keys
}

/// Defaults.
struct Usual(BTreeMap<String, Typed>);

impl Usual {
    fn of(keys: &[Key]) -> Usual {
        let typed = |key: &Key| {
            let value = key.fallback.value::<()>().unwrap_or_else(|| panic!("{}: has no default", key.path));
            let typed = key.kind.read(&value);
            (key.path.clone(), typed.unwrap_or_else(|| panic!("{}: its default is not allowed", key.path)))
        };
        Usual(keys.iter().map(typed).collect())
    }
}

impl Source for Usual {
    fn typed(&self, path: &str) -> &Typed {
        self.0.get(path).unwrap_or_else(|| panic!("{path}: no key"))
    }
}

/// Reads the value of one key.
pub fn get<T: Setting>(values: &dyn Source, path: &str) -> T {
    T::take(values.typed(path))
}

/// Reads a struct that exists only if the key `enabled` of its table says so.
pub fn switched<T: Settings>(values: &dyn Source, table: &str) -> Option<T> {
    get::<bool>(values, &join(table, "enabled")).then(|| T::take(values, table))
}

/// The key `name` of a table; the top-level table has no name.
pub fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.into() } else { format!("{table}.{name}") }
}

/// The table `name` beside a table.
pub fn neighbour(table: &str, name: &str) -> String {
    join(table.rsplit_once('.').map_or("", |(above, _)| above), name)
}

/// Panics: the type cannot hold what the kind of its key allows.
fn mismatch<T>(typed: &Typed) -> T {
    panic!("a key makes {} of {typed:?}", std::any::type_name::<T>())
}

impl Typed {
    /// Parses words of a closed set.
    ///
    /// # Panics
    /// If a word is not in the set.
    pub fn parse_list<T: FromStr>(&self) -> Vec<T> {
        match self {
            Typed::Words(words) => {
                words.iter().map(|word| word.parse().unwrap_or_else(|_| mismatch(self))).collect()
            }
            _ => mismatch(self),
        }
    }

    /// Parses a word of a closed set.
    ///
    /// # Panics
    /// If it is not in the set.
    pub fn parse<T: FromStr>(&self) -> T {
        match self {
            Typed::Text(word) => word.parse().unwrap_or_else(|_| mismatch(self)),
            _ => mismatch(self),
        }
    }
}

macro_rules! setting_whole {
    ($($number:ty: $max:expr),+ $(,)?) => {$(
        impl Setting for $number {
            const KIND: Kind = Kind::Whole(0, $max);

            fn take(typed: &Typed) -> Self {
                match typed {
                    Typed::Whole(number) => <$number>::try_from(*number).unwrap_or_else(|_| mismatch(typed)),
                    _ => mismatch(typed),
                }
            }
        }
    )+};
}
setting_whole!(u8: u8::MAX as u64, u16: u16::MAX as u64, u32: u32::MAX as u64, u64: i64::MAX as u64);

macro_rules! setting {
    ($($type:ty, $kind:expr, $variant:ident);+ $(;)?) => {$(
        impl Setting for $type {
            const KIND: Kind = $kind;

            fn take(typed: &Typed) -> Self {
                match typed {
                    Typed::$variant(value) => value.clone(),
                    _ => mismatch(typed),
                }
            }
        }
    )+};
}
setting!(bool, Kind::Flag, Flag;
    f64, Kind::Real(0.0, f64::MAX), Real);

impl Setting for String {
    const KIND: Kind = Kind::Text;

    fn take(typed: &Typed) -> Self {
        match typed {
            Typed::Text(text) => text.clone(),
            Typed::Absent => String::new(),
            _ => mismatch(typed),
        }
    }
}

impl Setting for PathBuf {
    const KIND: Kind = Kind::Text;

    fn take(typed: &Typed) -> Self {
        String::take(typed).into()
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;

    fn take(typed: &Typed) -> Self {
        (*typed != Typed::Absent).then(|| T::take(typed))
    }
}

impl<T: Item> Setting for Vec<T> {
    const KIND: Kind = T::LIST;

    fn take(typed: &Typed) -> Self {
        T::take_list(typed)
    }
}

impl Item for u32 {
    const LIST: Kind = Kind::Weights;

    fn take_list(typed: &Typed) -> Vec<u32> {
        match typed {
            Typed::Wholes(numbers) => numbers.clone(),
            _ => mismatch(typed),
        }
    }
}
