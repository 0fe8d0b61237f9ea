//! The known word nearest to a mistyped one.

use crate::Quantity;

/// The candidate most similar to `word`, if at most a third of the letters differ.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Mistyped words are short; comparing a long text would only take time.
    let limit = (length.min(60) / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The value most likely meant, out of those in the sentence `allowed`: a word of its list, a unit of its examples, a share for percent.
pub fn meant(value: &str, allowed: &str) -> Option<String> {
    // A list of one word is also a word.
    let value = value.trim_matches(|c| "[]\"".contains(c));
    let allowed = allowed.strip_prefix("a list of ").unwrap_or(allowed);
    let other = |found: &&str| *found != value;
    if is_word(value) {
        return nearest(value, allowed.split(", ").filter(|part| is_word(part)).filter(other))
            .map(String::from);
    }
    if let Some(percent) = value.strip_suffix('%') {
        let share = percent.trim().parse::<f64>().ok().filter(|_| allowed.contains("a number"))? / 100.0;
        return Some(share.to_string());
    }
    let quantity = quantity_of(allowed);
    let is_plain = value.parse::<f64>().is_ok_and(|number| number > 0.0);
    if is_plain && quantity == Some(Quantity::Time) {
        return Some(format!("{value}us or {value}ms"))
            .filter(|_| is_allowed(&format!("{value}ms"), allowed));
    }
    if is_plain && quantity == Some(Quantity::Rate) {
        let unit = if value.parse::<f64>().is_ok_and(|rate| rate < 1e5) { "MB/s" } else { "B/s" };
        return Some(format!("{value}{unit}")).filter(|meant| is_allowed(meant, allowed));
    }
    if is_plain && allowed.contains("a share such as") {
        return Some(format!("{value}%"));
    }
    if [Quantity::Time, Quantity::Size, Quantity::Rate]
        .iter()
        .any(|quantity| quantity.read_text(value).is_some())
    {
        // The unit is spelt correctly, but the value is too large, or the key is not a time.
        return None;
    }
    let (number, unit) = split_unit(value);
    Some(format!("{number}{}", nearest_unit(unit, quantity?)?)).filter(|meant| is_allowed(meant, allowed))
}

/// The kind of quantity that `allowed` asks for.
fn quantity_of(allowed: &str) -> Option<Quantity> {
    let all = [
        ("a duration such as", Quantity::Time),
        ("a size such as", Quantity::Size),
        ("a rate such as", Quantity::Rate),
    ];
    all.into_iter().find(|(words, _)| allowed.contains(words)).map(|(_, quantity)| quantity)
}

/// The unit most similar to a mistyped one. Their first letters agree, as these give the magnitude: `PB` does not mean `KiB`.
fn nearest_unit(unit: &str, quantity: Quantity) -> Option<&'static str> {
    let small = unit.to_ascii_lowercase();
    let mut alike = quantity.unit_names().filter(|name| {
        let name = name.to_ascii_lowercase();
        small.starts_with(&name[..1]) && (name.starts_with(&small) || strsim::levenshtein(&small, &name) == 1)
    });
    alike.next()
}

/// Reports whether a quantity can be read and is within the bounds in `allowed`.
fn is_allowed(text: &str, allowed: &str) -> bool {
    let Some(quantity) = quantity_of(allowed) else { return false };
    let bound = |words: &str| {
        let rest = allowed.split_once(words)?.1;
        quantity.read_text(rest.split([';', ',']).next()?)
    };
    let (least, most) = (bound("at least ").unwrap_or(0), bound("at most ").unwrap_or(u64::MAX));
    quantity.read_text(text).is_some_and(|base| (least..=most).contains(&base))
}

/// " (did you mean ...?)", or nothing.
pub fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"))
}

fn is_word(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    text.len() >= 3 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(letter)
}

/// Splits a number from the unit behind it; without a number, the unit is empty.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && !"._ ".contains(c)).unwrap_or(text.len());
    if end == 0 { (text, "") } else { text.split_at(end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_misspellings_and_nothing_else() {
        let keys = ["victim", "placement", "map"];
        assert_eq!(nearest("victm", keys), Some("victim"));
        assert_eq!(nearest("palcement", keys), Some("placement"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn words_units_and_percent_are_understood() {
        let durations = r#"a duration such as "300ns", "75us", "3.8 ms", "1s", "5m"; only 0 needs no unit; at most 3600s"#;
        let sizes = "a size such as \"4k\", \"16KiB\", \"1.5 GiB\" (1024-based), or a whole number of bytes; below 8EiB";
        let small = "a size such as \"4k\", \"16KiB\" (1024-based), or a whole number of bytes; at least 1; at most 1GiB";
        let rates =
            "a rate such as \"200MB/s\", \"1.6 GB/s\" (1000-based), \"1 GiB/s\"; only 0 needs no unit";
        for (value, allowed, expected) in [
            ("\"gredy\"", "greedy, cost-benefit, fifo, d-choices:N", Some("greedy")),
            ("cost_benefit", "greedy, cost-benefit", Some("cost-benefit")),
            ("[\"block_layer\"]", "a list of host-ftl, block-layer, cache", Some("block-layer")),
            ("[\"host-ftl\", \"cash\"]", "a list of host-ftl, cache", None),
            ("\"rom\"", "none, ram, file, file:PATH", Some("ram")),
            ("\"ram\"", "ram, or none", None),
            ("randwirte", "read, write, randwrite", Some("randwrite")),
            ("\"5mz\"", durations, Some("5ms")),
            ("\"5 sx\"", durations, Some("5 s")),
            ("\"9000s\"", durations, None),
            ("3", durations, Some("3us or 3ms")),
            ("20", "a share such as \"20%\" or 0.2", Some("20%")),
            ("\"1w\"", durations, None),
            ("9000000", durations, None),
            ("\"100TiB\"", sizes, None),
            ("\"16KB\"", sizes, Some("16KiB")),
            ("\"16MB\"", sizes, Some("16MiB")),
            ("\"3PB\"", sizes, Some("3PiB")),
            ("\"3PB\"", small, None),
            ("\"1EiB\"", small, None),
            ("\"2EiC\"", sizes, Some("2EiB")),
            ("\"9EiC\"", sizes, None),
            ("\"2QiB\"", sizes, None),
            ("\"333MB\"", rates, Some("333MB/s")),
            ("333", rates, Some("333MB/s")),
            ("\"99999999999999999999\"", rates, None),
            ("\"10%\"", "a number from 0 to 100", Some("0.1")),
            ("\"x%\"", "a number from 0 to 100", None),
            ("101", "a number from 0 to 100", None),
        ] {
            assert_eq!(meant(value, allowed).as_deref(), expected, "{value}");
        }
    }
}
