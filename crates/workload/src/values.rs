//! Values in fio's syntax: parsed, or refused with the allowed values.
//!
//! [`keys`](super::keys) adds the key to these refusals.

use super::units::{Grammar, UnitError, parse_bytes};
use super::{BlockSize, Pattern, Rate, raw};
use crate::files::Personality;

/// Allowed values, for an error.
pub(super) struct Allowed(pub String);

impl From<UnitError> for Allowed {
    fn from(error: UnitError) -> Allowed {
        Allowed(error.to_string())
    }
}

pub(super) type Parsed<T> = Result<T, Allowed>;

pub(super) fn allowed<T>(text: impl Into<String>) -> Parsed<T> {
    Err(Allowed(text.into()))
}

/// Parses fio's `read,write,trim`: an empty part keeps its value; a missing one repeats the part before it.
pub(super) fn set_each<T: Clone>(
    target: &mut [T; 3],
    value: &str,
    parse: impl Fn(&str) -> Parsed<T>,
) -> Parsed<()> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    if parts.len() > 3 || parts.iter().all(|part| part.is_empty()) {
        return allowed("one value, or up to three for read,write,trim");
    }
    let mut result = target.clone();
    for (index, slot) in result.iter_mut().enumerate() {
        let part = parts[index.min(parts.len() - 1)];
        if !part.is_empty() {
            *slot = parse(part)?;
        }
    }
    *target = result;
    Ok(())
}

pub(super) fn text(value: &str) -> Parsed<String> {
    if value.is_empty() { allowed("a name") } else { Ok(value.into()) }
}

pub(super) fn boolean(value: &str) -> Parsed<bool> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => allowed("0 or 1"),
    }
}

/// Parses a count; as in fio, it may have the prefixes of sizes, so `10k` is 10240.
pub(super) fn count(value: &str, grammar: Grammar, min: u64, max: u64) -> Parsed<u64> {
    // Plain numbers first: seeds have 64 bits.
    match value.trim().parse().or_else(|_| parse_bytes(value, grammar)) {
        Ok(count) if (min..=max).contains(&count) => Ok(count),
        _ if max == u64::MAX && min == 0 => allowed("a whole number below 2^64"),
        _ if max == u64::MAX => allowed(format!("a whole number from {min}, below 2^64")),
        _ => allowed(format!("a whole number from {min} to {max}")),
    }
}

pub(super) fn percent(value: &str) -> Parsed<u8> {
    match value.strip_suffix('%').unwrap_or(value).trim().parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => allowed("a whole number from 0 to 100"),
    }
}

pub(super) fn rate(amount: u64, kind: fn(u64) -> Rate) -> Rate {
    if amount == 0 { Rate::Unlimited } else { kind(amount) }
}

pub(super) fn pattern(value: &str) -> Parsed<Pattern> {
    if let Some((_, pattern)) = Pattern::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*pattern);
    }
    let files = Personality::ALL.into_iter().map(Personality::name);
    let names: Vec<&str> = Pattern::NAMES.iter().map(|(name, _)| *name).chain(files).collect();
    let raw = raw::names();
    let hint = if value.contains(':') { " (without the :number that fio allows)" } else { "" };
    allowed(format!("{}, {raw}{hint}", names.join(", ")))
}

pub(super) fn block_bytes(value: &str, grammar: Grammar) -> Parsed<u64> {
    match parse_bytes(value, grammar)? {
        0 => allowed("more than 0 bytes"),
        bytes => Ok(bytes),
    }
}

/// Parses bytes, at least `least`.
pub(super) fn bytes_from(value: &str, grammar: Grammar, least: u64) -> Parsed<u64> {
    match parse_bytes(value, grammar)? {
        bytes if bytes < least => allowed(format!("at least {least} bytes")),
        bytes => Ok(bytes),
    }
}

pub(super) fn block_range(value: &str, grammar: Grammar) -> Parsed<BlockSize> {
    let Some((low, high)) = value.split_once(['-', ':']) else { return allowed("two sizes (4k-64k)") };
    let (low, high) = (block_bytes(low, grammar)?, block_bytes(high, grammar)?);
    Ok(BlockSize::Range { min_bytes: low.min(high), max_bytes: low.max(high) })
}

pub(super) fn block_split(value: &str, grammar: Grammar) -> Parsed<BlockSize> {
    let what =
        "at most 64 sizes with shares that sum to 100, an empty share taking what is left (4k/60:64k/)";
    let mut sizes = Vec::new();
    let mut shares = Vec::new();
    for entry in value.split(':') {
        let (size, share) = entry.split_once('/').unwrap_or((entry, ""));
        sizes.push(block_bytes(size, grammar)?);
        shares.push(optional_share(share, what)?);
    }
    if sizes.len() > 64 {
        return allowed(what);
    }
    Ok(BlockSize::Split(sizes.into_iter().zip(fill_shares(&shares, what)?).collect()))
}

pub(super) fn optional_share(share: &str, what: &str) -> Parsed<Option<f64>> {
    match share.trim().trim_end_matches('%') {
        "" => Ok(None),
        share => match share.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Some(percent)),
            _ => allowed(what),
        },
    }
}

/// Omitted shares divide the rest of 100 evenly.
pub(super) fn fill_shares(shares: &[Option<f64>], what: &str) -> Parsed<Vec<f64>> {
    let given: f64 = shares.iter().flatten().sum();
    let open = shares.iter().filter(|share| share.is_none()).count();
    let left = 100.0 - given;
    if left < -1e-6 || (open == 0 && left > 1e-6) {
        return allowed(what);
    }
    Ok(shares.iter().map(|share| share.unwrap_or(left.max(0.0) / open as f64)).collect())
}
