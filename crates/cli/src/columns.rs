//! Short names for drives side by side: the drive's own name, or the difference between drives of one name.

use pellucid_spec::{Place, Spec};
use std::collections::BTreeSet;

/// Longer names are shortened as long as they stay apart.
const LENGTH: usize = 34;

/// A name for each drive; no two are the same.
pub fn names(specs: &[&Spec]) -> Vec<String> {
    let all_alike = specs.iter().all(|spec| spec.drive_name == specs[0].drive_name);
    let mut names: Vec<String> = Vec::new();
    for spec in specs {
        let alike: Vec<&Spec> =
            specs.iter().copied().filter(|other| other.drive_name == spec.drive_name).collect();
        let name = match (difference(spec, &alike), all_alike) {
            (text, _) if text.is_empty() => spec.drive_name.clone(),
            (text, true) => text,
            (text, false) => format!("{} {text}", spec.drive_name),
        };
        names.push(name);
    }
    apart(&mut names, &specs.iter().map(|spec| spec.drive_name.as_str()).collect());
    names
}

/// The names as names of files.
pub fn folders(names: &[String]) -> Vec<String> {
    let plain = |c: char| if c.is_alphanumeric() || "-_=. ()".contains(c) { c } else { '_' };
    let folder = |name: &String| {
        let name: String = name.chars().map(plain).collect();
        if name.starts_with('.') { format!("_{name}") } else { name }
    };
    let mut folders: Vec<String> = names.iter().map(folder).collect();
    apart(&mut folders, &BTreeSet::new());
    folders
}

/// Returns the keys in which a drive differs from those `alike` in name: `victim=fifo`, or as many keys as it takes.
fn difference(spec: &Spec, alike: &[&Spec]) -> String {
    let value = |spec: &Spec, key: &str| spec.provenance.get(key).map(|entry| entry.value.clone());
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for entry in alike.iter().flat_map(|spec| &spec.provenance.entries) {
        let of_work = entry.key.starts_with("run.");
        if !of_work && alike.iter().any(|other| value(other, entry.key).as_ref() != Some(&entry.value)) {
            keys.insert(entry.key);
            // Keys that the user set come before keys that follow from them.
            if matches!(entry.origin.place, Place::Set { .. }) {
                asked.insert(entry.key);
            }
        }
    }
    let keys: Vec<&str> = if asked.is_empty() { keys } else { asked }.into_iter().collect();
    let text = |spec: &Spec, count: usize| {
        let pair = |key: &&str| {
            let value = value(spec, key).unwrap_or_else(|| "-".into());
            // Texts and lists without what TOML needs around them.
            format!("{}={}", short(key, &keys), value.replace(['"', '[', ']', ' '], ""))
        };
        keys[..count].iter().map(pair).collect::<Vec<_>>().join(" ")
    };
    let whole = text(spec, keys.len());
    if whole.chars().count() <= LENGTH {
        return whole;
    }
    let distinct = |count: usize| alike.iter().map(|spec| text(spec, count)).collect::<BTreeSet<_>>().len();
    let enough = (1..keys.len()).find(|&count| distinct(count) == distinct(keys.len()));
    text(spec, enough.unwrap_or(keys.len()))
}

/// The end of a key that no other of `keys` has.
fn short<'a>(key: &'a str, keys: &[&str]) -> &'a str {
    let ends = key.rmatch_indices('.').map(|(dot, _)| &key[dot + 1..]);
    let unique = |end: &&str| keys.iter().filter(|key| key.ends_with(&format!(".{end}"))).count() == 1;
    ends.into_iter().find(unique).unwrap_or(key)
}

/// Numbers equal names; a number that some drive has in a name of its own is left out.
fn apart(names: &mut [String], own: &BTreeSet<&str>) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for at in 0..names.len() {
        if taken.contains(&names[at]) {
            let numbered = (2..).map(|number| format!("{} ({number})", names[at]));
            let free = |name: &String| {
                !taken.contains(name) && !own.contains(name.as_str()) && !names.contains(name)
            };
            names[at] = numbered.into_iter().find(free).unwrap_or_default();
        }
        taken.insert(names[at].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_spec::load;

    fn named(drives: &[(&str, &[&str])]) -> Vec<String> {
        let load = |(name, sets): &(&str, &[&str])| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            load(name, &sets).unwrap_or_else(|error| panic!("{error}"))
        };
        let specs: Vec<Spec> = drives.iter().map(load).collect();
        names(&specs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn columns_are_named_by_what_differs() {
        assert_eq!(
            named(&[("jasmine", &[]), ("cosmos-plus", &["ftl.victim=fifo"])]),
            ["jasmine", "cosmos-plus"]
        );
        let fifo: &[&str] = &["ftl.victim=fifo"];
        assert_eq!(named(&[("jasmine", &[]), ("jasmine", fifo)]), ["victim=greedy", "victim=fifo"]);
        assert_eq!(
            named(&[("cosmos-plus", &[]), ("jasmine", &[]), ("jasmine", fifo)]),
            ["cosmos-plus", "jasmine victim=greedy", "jasmine victim=fifo"]
        );
        assert_eq!(named(&[("jasmine", &[]), ("jasmine", &[])]), ["jasmine", "jasmine (2)"]);
        let spare: &[&str] = &["ftl.victim=fifo", "ftl.over_provisioning=0.2"];
        let names = named(&[("jasmine", &[]), ("jasmine", fifo), ("jasmine", spare)]);
        assert_eq!(
            (names[1].as_str(), names[2].as_str()),
            ("over_provisioning=0.0753 victim=fifo", "over_provisioning=0.2 victim=fifo")
        );
    }

    #[test]
    fn folders_have_plain_names_and_stay_apart() {
        let names = ["a", "a (2)", "path=/x/y", "path=_x_y", "..", "größe"].map(String::from);
        let folders = folders(&names);
        assert_eq!(folders, ["a", "a (2)", "path=_x_y", "path=_x_y (2)", "_..", "größe"]);
    }
}
