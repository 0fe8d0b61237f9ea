//! Differences between two reports in JSON, value by value.

use pellucid_text::format::significant;
use serde_json::Value;

/// Keys of a run's cost on its machine, which differ from run to run.
const COST: [&str; 3] = ["wall_seconds", "requests_per_wall_second", "peak_memory_bytes"];

/// One value that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Path of keys to the value.
    pub path: String,
    /// The first document's value, if any.
    pub first: Option<Value>,
    /// The second document's value, if any.
    pub second: Option<Value>,
}

impl Difference {
    /// Returns whether the value is a list, whose entries are not shown one by one.
    pub fn is_list(&self) -> bool {
        [&self.first, &self.second].into_iter().flatten().any(Value::is_array)
    }

    /// Returns the relative change of a number, with its sign; `None` if it is undefined.
    pub fn change(&self) -> Option<String> {
        let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
        let (first, second) = (number(&self.first)?, number(&self.second)?);
        let share = (first != 0.0).then(|| (second - first) / first.abs() * 100.0)?;
        let sign = if share < 0.0 { "" } else { "+" };
        Some(format!("{sign}{} %", significant(share)))
    }

    /// Returns both values as text; for lists, how many entries differ.
    pub fn values(&self) -> (String, String) {
        match (&self.first, &self.second) {
            (Some(Value::Array(first)), Some(Value::Array(second))) => {
                let same = first.iter().zip(second).filter(|(first, second)| first == second).count();
                let differ = first.len().max(second.len()) - same;
                (format!("{} values", first.len()), format!("{} values, {differ} differ", second.len()))
            }
            (first, second) => (written(first.as_ref()), written(second.as_ref())),
        }
    }
}

fn written(value: Option<&Value>) -> String {
    match value {
        None => "absent".into(),
        Some(Value::Array(items)) => format!("{} values", items.len()),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Returns the values of two JSON documents that differ. A list of plain values is one value; lists of objects are compared entry by entry.
pub fn differences(first: &Value, second: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(first), Some(second), &mut found);
    found
}

/// Returns a report without the cost of the run, and without values that identify the run rather than its results.
pub fn results(report: &Value) -> Value {
    let mut results = report.clone();
    if let Some(keys) = results.as_object_mut() {
        let apart = ["provenance", "pellucid_version", "drive", "workload", "overrides", "seeds"];
        COST.iter().chain(&apart).for_each(|key| drop(keys.remove(*key)));
    }
    results
}

fn compare(path: String, first: Option<&Value>, second: Option<&Value>, found: &mut Vec<Difference>) {
    let below = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    match (first, second) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for (name, value) in a {
                compare(below(name), Some(value), b.get(name), found);
            }
            for (name, value) in b.iter().filter(|(name, _)| !a.contains_key(*name)) {
                compare(below(name), None, Some(value), found);
            }
        }
        (Some(Value::Object(keys)), None | Some(Value::Null)) => {
            keys.iter().for_each(|(name, value)| compare(below(name), Some(value), None, found));
        }
        (None | Some(Value::Null), Some(Value::Object(keys))) => {
            keys.iter().for_each(|(name, value)| compare(below(name), None, Some(value), found));
        }
        (Some(Value::Array(a)), Some(Value::Array(b)))
            if a.len() == b.len() && a.iter().all(Value::is_object) =>
        {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(format!("{path}[{at}]"), Some(a), Some(b), found);
            }
        }
        (first, second) => {
            found.push(Difference { path, first: first.cloned(), second: second.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_value_that_differs_is_found_once_with_its_path() {
        let first = json!({ "same": 1, "a": { "b": 4.0, "c": "x" }, "list": [1, 2, 3], "jobs": [{ "n": 1 }], "gone": 1 });
        let second = json!({ "same": 1, "a": { "b": 5.0, "c": "y" }, "list": [1, 2, 4], "jobs": [{ "n": 2 }], "new": null });
        let found = differences(&first, &second);
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["a.b", "a.c", "gone", "jobs[0].n", "list", "new"]);
        assert_eq!(found[0].change().as_deref(), Some("+25.0 %"));
        assert_eq!(found[1].change(), None);
        assert_eq!(found[2].values(), ("1".into(), "absent".into()));
        assert_eq!(found[4].values(), ("3 values".into(), "3 values, 1 differ".into()));
        assert!(found[4].is_list() && !found[0].is_list());
        assert!(differences(&first, &first).is_empty());
    }

    #[test]
    fn a_change_has_a_sign_and_none_from_zero() {
        let change = |first: f64, second: f64| {
            Difference { path: String::new(), first: Some(json!(first)), second: Some(json!(second)) }
                .change()
        };
        assert_eq!(change(200.0, 150.0).as_deref(), Some("-25.0 %"));
        assert_eq!(change(-2.0, -1.0).as_deref(), Some("+50.0 %"));
        assert_eq!(change(0.0, 1.0), None);
    }

    #[test]
    fn results_have_neither_costs_nor_names() {
        let report = json!({ "wall_seconds": 1, "requests": 2, "provenance": {}, "drive": { "name": "x" } });
        assert_eq!(results(&report), json!({ "requests": 2 }));
    }
}
