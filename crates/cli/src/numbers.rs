//! Numbers of options, each with the sentence that refuses what is none.

use std::ops::{Bound, RangeBounds};

/// Parser of a whole number within `range`, whose end may be that of the type.
pub fn whole<T: TryFrom<u64>>(
    range: impl RangeBounds<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    let least = match range.start_bound() {
        Bound::Included(&least) => least,
        Bound::Excluded(&below) => below + 1,
        Bound::Unbounded => 0,
    };
    let type_most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
    let most = match range.end_bound() {
        Bound::Included(&most) => most,
        Bound::Excluded(&end) => end - 1,
        Bound::Unbounded => type_most,
    };
    move |text| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u64>();
        let is_too_large = is_number && number.is_err();
        let within = number.ok().filter(|number| (least..=most).contains(number));
        within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match most {
            u64::MAX if is_too_large => "allowed: at most 2^64 - 1".to_string(),
            // The end of the type is no bound that a reader of something else than a number needs.
            _ if most == u64::MAX || (most == type_most && !is_number) => {
                format!("allowed: a whole number from {least}")
            }
            _ => format!("allowed: a whole number from {least} to {most}"),
        })
    }
}

/// Parser of a finite number.
pub fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "allowed: a number".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_its_range_is_told_the_range() {
        assert_eq!(whole::<u32>(1..)("7"), Ok(7));
        assert_eq!(whole::<u64>(..)("18446744073709551615"), Ok(u64::MAX));
        for (refused, says) in [
            (whole::<u32>(1..)("0"), "from 1 to 4294967295"),
            (whole::<u32>(1..)("x"), "a whole number from 1"),
            (whole::<u32>(..=10)("11"), "from 0 to 10"),
            (whole::<u32>(..)("5000000000"), "from 0 to 4294967295"),
            (whole::<u32>(..)("-1"), "a whole number from 0"),
            (whole::<u32>(..)(""), "a whole number from 0"),
        ] {
            let why = refused.expect_err(says);
            assert!(why.ends_with(says), "{why}, not {says}");
        }
        assert_eq!(whole::<u64>(..)("99999999999999999999999"), Err("allowed: at most 2^64 - 1".into()));
        assert_eq!(whole::<u64>(1..)("0"), Err("allowed: a whole number from 1".into()));
    }
}
