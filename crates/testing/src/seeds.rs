//! The seeds that a random test tries.

use std::ops::Range;

/// Returns the seeds to try: one (`PELLUCID_SEED`), those from `PELLUCID_FIRST` on up to but without `PELLUCID_SEEDS`, or the `usual` number of
/// them from `PELLUCID_FIRST` or 0 on.
///
/// # Panics
/// Panics if one of them is no whole number, or if the range is empty: a test of no seed would pass.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        Some(value.parse::<u64>().unwrap_or_else(|_| panic!("{name} = {value:?}: allowed: a whole number")))
    };
    chosen(number("PELLUCID_SEED"), number("PELLUCID_FIRST"), number("PELLUCID_SEEDS"), usual)
}

fn chosen(one: Option<u64>, first: Option<u64>, end: Option<u64>, usual: u64) -> Range<u64> {
    let first = one.or(first).unwrap_or(0);
    let end = if one.is_some() { first + 1 } else { end.unwrap_or(first + usual) };
    assert!(first < end, "PELLUCID_SEEDS = {end}: allowed: more than PELLUCID_FIRST, {first}");
    first..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!(chosen(None, None, None, 300), 0..300);
        assert_eq!(chosen(None, None, Some(20), 300), 0..20);
        assert_eq!(chosen(None, Some(7_000), None, 300), 7_000..7_300);
        assert_eq!(chosen(None, Some(7_000), Some(7_001), 300), 7_000..7_001);
        assert_eq!(chosen(Some(5), Some(7_000), Some(8_000), 300), 5..6);
        assert!(std::panic::catch_unwind(|| chosen(None, Some(7_000), Some(300), 1)).is_err());
    }
}
