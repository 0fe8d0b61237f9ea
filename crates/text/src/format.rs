//! Numbers for readers: three significant digits, decimal units; the rules of every renderer.

/// `46974` as `46,974`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits without an exponent: `0.0612`, `1.80`, `38.4`, `512`, `5120`.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Position of the first digit after rounding: 0.9996 becomes 1.00.
    let power = (value.abs() * 1.0005).log10().floor() as i32;
    let digits = (2 - power).clamp(0, DIGITS_MAX) as usize;
    format!("{value:.digits$}")
}

/// Maximum number of decimals; smaller values show as zero.
const DIGITS_MAX: i32 = 9;

/// Picks the largest unit that leaves at least 1 before the point (after rounding to three digits).
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let (factor, unit) = units
        .iter()
        .rev()
        .find(|(factor, _)| value.abs() >= factor * 0.9995)
        .or(units.first())
        .copied()
        .unwrap_or((1.0, ""));
    format!("{} {unit}", significant(value / factor)).trim_end().to_string()
}

/// Bytes in decimal units: `1.80 GB`.
pub fn bytes(value: f64) -> String {
    scaled(value, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
}

/// Bytes in powers of 1024: `4.00 KiB`.
pub fn binary_bytes(value: f64) -> String {
    let power = |n: i32| 1024f64.powi(n);
    scaled(value, &[(1.0, "B"), (power(1), "KiB"), (power(2), "MiB"), (power(3), "GiB"), (power(4), "TiB")])
}

/// A latency in nanoseconds: `512 us`, `1.92 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")])
}

/// A plain number with a letter for thousands: `12.5 k`, `3.20 M`.
pub fn quantity(value: f64) -> String {
    scaled(value, &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")])
}

/// A run length in seconds: `0.41 s`, `3 m 05 s`, `2 h 00 m`.
pub fn span(seconds: f64) -> String {
    if seconds < 59.95 {
        return duration(seconds * 1e9);
    }
    let whole = seconds.round() as u64;
    let (value, next) = if whole < 3600 {
        (format!("{} m", whole / 60), format!("{:02} s", whole % 60))
    } else {
        (format!("{} h", count(whole / 3600)), format!("{:02} m", whole % 3600 / 60))
    };
    format!("{value} {next}")
}

/// A share of 1 as percent with three significant digits; never `100 %` for less than all.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.001 => "<0.001 %".into(),
        p if (99.95..100.0).contains(&p) => ">99.9 %".into(),
        p => format!("{} %", significant(p)),
    }
}

/// A share of 1 as whole percent, for tight space; never `0 %` for something, never `100 %` for less than all.
pub fn whole_percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.5 => "<1 %".into(),
        p if p < 100.0 && p > 99.5 => ">99 %".into(),
        p => format!("{p:.0} %"),
    }
}

/// A relative change as percent with a sign and three significant digits: `+4.90 %`, `-16.7 %`; `0 %` for none at all.
pub fn signed_percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p.abs() < 0.001 => (if p > 0.0 { "+<0.001 %" } else { "-<0.001 %" }).into(),
        p if p > 0.0 => format!("+{} %", significant(p)),
        p => format!("{} %", significant(p)),
    }
}

/// A number that may be undefined.
pub fn optional<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_the_sample_screen() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(46_974), "46,974");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(1.8e9), "1.80 GB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999_999.0), "1.00 MB", "rounding moves to the next unit");
        assert_eq!(duration(241_000.0), "241 us");
        assert_eq!(duration(1_920_000.0), "1.92 ms");
        assert_eq!(duration(38_400.0), "38.4 us");
        assert_eq!(span(7200.0), "2 h 00 m");
        assert_eq!(span(185.0), "3 m 05 s");
        assert_eq!(span(59.97), "1 m 00 s");
        assert_eq!(span(0.41), "410 ms");
        for (share, text) in [
            (0.0, "0 %"),
            (6.21 / 5.92 - 1.0, "+4.90 %"),
            (-0.166_666, "-16.7 %"),
            (0.000_4, "+0.0400 %"),
            (-1e-9, "-<0.001 %"),
            (10.5, "+1050 %"),
        ] {
            assert_eq!(signed_percent(share), text);
        }
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_001), "<0.001 %");
        assert_eq!(percent(0.000_617), "0.0617 %");
        assert_eq!(percent(0.404), "40.4 %");
        assert_eq!(percent(0.9999), ">99.9 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(whole_percent(0.001), "<1 %");
        assert_eq!(whole_percent(0.404), "40 %");
        assert_eq!(whole_percent(0.9999), ">99 %");
        for (value, text) in [
            (0.0, "0"),
            (0.06123, "0.0612"),
            (0.9996, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (5120.4, "5120"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
