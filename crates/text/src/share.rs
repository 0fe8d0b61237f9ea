//! Shares of a whole: `20%` or `0.2`.

/// The largest share written as a plain number. Larger numbers most likely mean percent: `20` is not 2,000 %.
pub const PLAIN_SHARE_MAX: f64 = 3.0;

/// Reads a share, with a percent sign or as a number up to [`PLAIN_SHARE_MAX`]; `None` if malformed.
pub fn read_share(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = |text: &str| {
        let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        text.parse::<f64>().ok().filter(|_| begins)
    };
    match text.strip_suffix('%').map(str::trim_end) {
        // Rounded only once, so that 690% is exactly 6.9.
        Some(percent) if !percent.contains(['e', 'E']) => {
            number(percent)?;
            number(&format!("{percent}e-2"))
        }
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text).filter(|&share| share <= PLAIN_SHARE_MAX),
    }
}

/// Writes a share as TOML that reads back as the same number.
pub fn write_share(share: f64) -> String {
    if share <= PLAIN_SHARE_MAX { format!("{share:?}") } else { format!("\"{}\"", write_percent(share)) }
}

/// Writes a share of at least 0 in percent that reads back as the same number.
pub fn write_percent(share: f64) -> String {
    let text = format!("{share}");
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let shifted = format!("{whole}{decimals:0<2}");
    let (percent, rest) = shifted.split_at(whole.len() + 2);
    let percent = match percent.trim_start_matches('0') {
        "" => "0",
        percent => percent,
    };
    let point = if rest.is_empty() { "" } else { "." };
    format!("{percent}{point}{rest}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_numbers_or_percent() {
        for (text, share) in [
            ("20%", Some(0.2)),
            (" 12.5 % ", Some(0.125)),
            ("0.2", Some(0.2)),
            (".5", Some(0.5)),
            ("1", Some(1.0)),
            ("690%", Some(6.9)),
            ("20", None),
            ("-5%", None),
            ("%", None),
            ("", None),
            ("1e-3", Some(0.001)),
            ("inf", None),
            ("x%", None),
        ] {
            assert_eq!(read_share(text), share, "{text}");
        }
        assert_eq!(write_share(0.07), "0.07");
        assert_eq!(write_share(6.9), "\"690%\"");
        assert_eq!(write_share(7.00015), "\"700.015%\"");
        for (share, percent) in [(0.03, "3%"), (0.005, "0.5%"), (0.2, "20%"), (1.0, "100%"), (0.0, "0%")] {
            assert_eq!(write_percent(share), percent);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(share in 0.0f64..100.0) {
            prop_assume!(share == 0.0 || share >= 1e-4);
            let written = write_share(share);
            prop_assert_eq!(read_share(written.trim_matches('"')), Some(share), "{}", written);
            let percent = write_percent(share);
            prop_assert_eq!(read_share(&percent), Some(share), "{}", percent);
        }
    }
}
