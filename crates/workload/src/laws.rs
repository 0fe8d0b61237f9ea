//! Values of `random_distribution`: laws of addresses as fio writes them.
//!
//! ```text
//!  law[,law[,law]]      random | zipf:theta | pareto:h | normal:deviation[%] | zoned:access/size[:...] | zoned_abs:access/bytes[:...]
//!  read,write,trim
//! ```
//! Invariant: access shares of a zoned law sum to 100, and so do sizes in percent.

use super::units::{Amount, Grammar};
use super::values::{Parsed, allowed, block_bytes, fill_shares, optional_share, percent};
use super::{Distribution, Zone};

/// Laws for read,write,trim; a part may leave out `zoned:` when the part before it is zoned.
pub(super) fn distributions(value: &str, grammar: Grammar) -> Parsed<[Distribution; 3]> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let (head, _) = parts[0].split_once(':').unwrap_or((parts[0], ""));
    if parts.len() > 3 {
        return allowed("one law, or up to three for read,write,trim");
    }
    let mut laws = Vec::new();
    for part in &parts {
        let zones_only = head.starts_with("zoned") && part.starts_with(|c: char| c.is_ascii_digit());
        laws.push(if zones_only { law(head, part, grammar)? } else { whole_law(part, grammar)? });
    }
    Ok(std::array::from_fn(|index| laws[index.min(laws.len() - 1)].clone()))
}

fn whole_law(value: &str, grammar: Grammar) -> Parsed<Distribution> {
    let (name, argument) = value.split_once(':').unwrap_or((value, ""));
    law(name, argument, grammar)
}

fn law(name: &str, argument: &str, grammar: Grammar) -> Parsed<Distribution> {
    let number = |allow: fn(f64) -> bool, what: &str| match argument.parse::<f64>() {
        Ok(x) if allow(x) => Ok(x),
        _ => allowed(what),
    };
    match name {
        "random" if argument.is_empty() => Ok(Distribution::Uniform),
        "zipf" => {
            number(|x| x > 0.0 && x <= 100.0, "zipf:theta with theta above 0 and up to 100, and no centre")
                .map(Distribution::Zipf)
        }
        "pareto" => number(|x| x > 0.0 && x < 1.0, "pareto:h with h between 0 and 1, and no centre")
            .map(Distribution::Pareto),
        "normal" | "gauss" => {
            let deviation = argument.strip_suffix('%').unwrap_or(argument).parse::<f64>();
            match deviation.ok().filter(|share| (0.001..=100.0).contains(share)) {
                Some(share) => Ok(Distribution::Normal(share)),
                None => allowed("normal:deviation% from 0.001 to 100, and no centre"),
            }
        }
        "zoned" => zones(argument, |extent| match extent.trim_end_matches('%') {
            "" => Ok(None),
            text => percent(text).map(|p| Some(Amount::Percent(p))),
        }),
        "zoned_abs" => zones(argument, |extent| Ok(Some(Amount::Bytes(block_bytes(extent, grammar)?)))),
        _ => allowed(
            "random, zipf:theta, pareto:h, normal:deviation%, zoned:access%/size%:..., \
             zoned_abs:access%/bytes:...",
        ),
    }
}

fn zones(argument: &str, extent: impl Fn(&str) -> Parsed<Option<Amount>>) -> Parsed<Distribution> {
    let what = "at most 256 zones access/size whose access shares, and sizes in percent, sum to 100 \
        (zoned:60/10:40/90)";
    let mut shares = Vec::new();
    let mut extents = Vec::new();
    for entry in argument.split(':') {
        let Some((share, size)) = entry.split_once('/') else { return allowed(what) };
        shares.push(optional_share(share, what)?);
        extents.push(extent(size.trim())?);
    }
    if shares.len() > 256 {
        return allowed(what);
    }
    let shares = fill_shares(&shares, what)?;
    let extents = fill_extents(&extents, what)?;
    let zones = shares.into_iter().zip(extents);
    Ok(Distribution::Zoned(zones.map(|(access_percent, extent)| Zone { access_percent, extent }).collect()))
}

/// Omitted sizes divide the rest of 100 % evenly; if that is not whole, the first ones get one more.
fn fill_extents(extents: &[Option<Amount>], what: &str) -> Parsed<Vec<Amount>> {
    if extents.iter().all(|extent| matches!(extent, Some(Amount::Bytes(_)))) {
        return Ok(extents.iter().flatten().copied().collect());
    }
    let given: u32 =
        extents.iter().flatten().map(|e| if let Amount::Percent(p) = e { u32::from(*p) } else { 0 }).sum();
    let open = extents.iter().filter(|extent| extent.is_none()).count() as u32;
    if given > 100 || (open == 0 && given != 100) {
        return allowed(what);
    }
    let left = 100 - given;
    let mut nth = 0;
    let fill = |extent: &Option<Amount>| {
        extent.unwrap_or_else(|| {
            nth += 1;
            Amount::Percent((left / open + u32::from(nth <= left % open)) as u8)
        })
    };
    Ok(extents.iter().map(fill).collect())
}
