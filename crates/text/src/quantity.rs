//! Values with their units: durations, sizes, rates. A value that is written reads back as the same value.
//!
//! Arithmetic is exact: "1.388 ms" becomes 1,388,000 ns in integer arithmetic, and a value finer than the base unit is refused instead of rounded.

/// Units of a quantity, largest first, in base units.
type Units = &'static [(&'static str, u64)];

/// Base unit: nanoseconds.
const TIME: Units = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Base unit: bytes. Powers of 1024, as in fio. "KB" is left out, as some read it as 1000.
const SIZE: Units = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("t", 1 << 40),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("k", 1 << 10),
    ("b", 1),
];

/// Base unit: bytes per second. Decimal as in data sheets, unless the unit says otherwise.
const RATE: Units = &[
    ("GB/s", 1_000_000_000),
    ("MB/s", 1_000_000),
    ("kB/s", 1_000),
    ("B/s", 1),
    ("GiB/s", 1 << 30),
    ("MiB/s", 1 << 20),
    ("KiB/s", 1 << 10),
];

/// Units that are read but not written.
const LONG_TIME: Units =
    &[("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("min", 60_000_000_000), ("m", 60_000_000_000)];
const LONG_SIZE: Units = &[("EiB", 1 << 60), ("e", 1 << 60), ("PiB", 1 << 50), ("p", 1 << 50)];
const LONG_RATE: Units = &[("TB/s", 1_000_000_000_000), ("TiB/s", 1 << 40)];

/// Kind of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// In nanoseconds.
    Time,
    /// In bytes.
    Size,
    /// In bytes per second.
    Rate,
}

impl Quantity {
    fn units(self) -> Units {
        match self {
            Quantity::Time => TIME,
            Quantity::Size => SIZE,
            Quantity::Rate => RATE,
        }
    }

    fn long_units(self) -> Units {
        match self {
            Quantity::Time => LONG_TIME,
            Quantity::Size => LONG_SIZE,
            Quantity::Rate => LONG_RATE,
        }
    }

    /// Returns the names of all units that are read.
    pub fn unit_names(self) -> impl Iterator<Item = &'static str> {
        self.units().iter().chain(self.long_units()).map(|(name, _)| *name)
    }

    /// Returns the exclusive upper bound of all values, as text.
    pub fn bound(self) -> &'static str {
        match self {
            Quantity::Time => "2^63 ns",
            Quantity::Size => "8EiB",
            Quantity::Rate => "2^63 B/s",
        }
    }

    /// The unit of a plain number.
    pub fn base(self) -> &'static str {
        match self {
            Quantity::Time => "ns",
            Quantity::Size => "bytes",
            Quantity::Rate => "bytes/s",
        }
    }

    /// Describes the syntax of such values.
    pub fn syntax(self) -> &'static str {
        match self {
            Quantity::Time => {
                "a duration such as \"300ns\", \"75us\", \"3.8 ms\", \"1s\", \"5m\"; only 0 needs no unit"
            }
            Quantity::Size => {
                "a size such as \"4k\", \"16KiB\", \"1.5 GiB\" (1024-based), or a whole number of bytes"
            }
            Quantity::Rate => {
                "a rate such as \"200MB/s\", \"1.6 GB/s\" (1000-based), \"1 GiB/s\"; only 0 needs no unit"
            }
        }
    }

    /// Reads a number with its unit, in base units; `None` if it cannot be read, is finer than the base unit or too large. Sizes may lack a unit; of
    /// times and rates, only 0 may: a bare 3 hardly means 3 ns.
    pub fn read_text(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        if unit.is_empty() {
            return scale(number, 1).filter(|&base| self.may_lack_unit(base));
        }
        let mut units = self.units().iter().chain(self.long_units());
        scale(number, units.find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1)
    }

    /// Reports whether a plain number of base units is unambiguous.
    pub fn may_lack_unit(self, base: u64) -> bool {
        self == Quantity::Size || base == 0
    }

    /// Writes `base` units as TOML, in the largest unit that holds them exactly.
    pub fn write(self, base: u64) -> String {
        let unit = self.units().iter().find(|(_, factor)| base >= *factor && base.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) if self != Quantity::Size || *factor > 1 => {
                format!("\"{}{name}\"", base / factor)
            }
            _ => base.to_string(),
        }
    }
}

/// Multiplies `number` (decimal digits, at most one point) by `factor`; `None` if the product is not whole.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let digits: String = number.chars().filter(|c| c.is_ascii_digit()).collect();
    let points = number.matches('.').count();
    if digits.is_empty()
        || points > 1
        || number.starts_with('.')
        || number.ends_with('.')
        || digits.len() > 19
    {
        return None;
    }
    let decimals =
        number.split_once('.').map_or(0, |(_, after)| after.chars().filter(char::is_ascii_digit).count());
    let scaled = digits.parse::<u128>().ok()? * u128::from(factor);
    let divisor = 10u128.pow(decimals as u32);
    if !scaled.is_multiple_of(divisor) {
        return None;
    }
    // TOML integers end at i64::MAX, and a plain number must read back.
    u64::try_from(scaled / divisor).ok().filter(|&base| base <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(quantity: Quantity, text: &str) -> Option<u64> {
        quantity.read_text(text)
    }

    #[test]
    fn durations() {
        for (text, ns) in [
            ("300 ns", Some(300)),
            ("75us", Some(75_000)),
            ("3.8ms", Some(3_800_000)),
            ("0.5ns", None),
            ("1.0ns", Some(1)),
            ("75", None),
            ("0", Some(0)),
            ("5m", Some(300_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("2 d", Some(172_800_000_000_000)),
            ("75 lightyears", None),
            ("-1us", None),
            ("1.2.3us", None),
            ("us", None),
            (".5us", None),
            ("99999999999999999999s", None),
            ("", None),
        ] {
            assert_eq!(read(Quantity::Time, text), ns, "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_and_rates_decimal() {
        assert_eq!(read(Quantity::Size, "4k"), Some(4096));
        assert_eq!(read(Quantity::Size, "16KiB"), Some(16_384));
        assert_eq!(read(Quantity::Size, "1.5 GiB"), Some(3 << 29));
        assert_eq!(read(Quantity::Size, "16KB"), None);
        assert_eq!(read(Quantity::Size, "1M"), Some(1 << 20));
        assert_eq!(read(Quantity::Size, "512KiB"), Some(524_288));
        assert_eq!(read(Quantity::Size, "1PiB"), Some(1 << 50));
        assert_eq!(read(Quantity::Size, "1EiB"), Some(1 << 60));
        assert_eq!(read(Quantity::Size, "8EiB"), None);
        assert_eq!(read(Quantity::Rate, "1.6GB/s"), Some(1_600_000_000));
        assert_eq!(read(Quantity::Rate, "333MB/s"), Some(333_000_000));
        assert_eq!(read(Quantity::Rate, "1KiB/s"), Some(1024));
        assert_eq!(read(Quantity::Rate, "1TB/s"), Some(1_000_000_000_000));
        assert_eq!(read(Quantity::Rate, "333MB"), None);
        assert_eq!(read(Quantity::Rate, "333"), None);
        assert_eq!(read(Quantity::Rate, "0"), Some(0));
    }

    #[test]
    fn written_in_the_largest_exact_unit() {
        assert_eq!(Quantity::Time.write(2_295_000), "\"2295us\"");
        assert_eq!(Quantity::Time.write(5_000_000), "\"5ms\"");
        assert_eq!(Quantity::Time.write(0), "0");
        assert_eq!(Quantity::Size.write(1664), "1664");
        assert_eq!(Quantity::Size.write(16_384), "\"16KiB\"");
        assert_eq!(Quantity::Rate.write(1_600_000_000), "\"1600MB/s\"");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(base in 0u64..=i64::MAX as u64, shift in 0u32..60) {
            for quantity in [Quantity::Time, Quantity::Size, Quantity::Rate] {
                for base in [base, base >> shift, (base >> shift).saturating_mul(1000).min(i64::MAX as u64)] {
                    let written = quantity.write(base);
                    let text = written.trim_matches('"');
                    prop_assert_eq!(read(quantity, text), Some(base), "{}", written);
                }
            }
        }
    }
}
