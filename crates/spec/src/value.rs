//! Values of a description: how a quantity is read from one, and how values are written so that they read back unchanged.

use super::document::Value;
use pellucid_text::Quantity;
use std::fmt::Write;

/// Reads `value` in the base units of `quantity`; `None` if it cannot be read, is finer than the base unit or too large.
pub(crate) fn read_quantity(quantity: Quantity, value: &Value) -> Option<u64> {
    match value {
        Value::Whole(number) => u64::try_from(*number).ok(),
        Value::Text(text) => quantity.read_text(text),
        _ => None,
    }
}

/// `text` as a TOML string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A floating-point number as TOML; reads back as the same number.
pub(crate) fn write_real(number: f64) -> String {
    format!("{number:?}")
}

impl Value {
    /// The value as TOML, for messages.
    pub fn to_toml(&self) -> String {
        match self {
            Value::Text(text) => quote(text),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => write_real(*number),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_toml).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Tables(rows) => format!("a list of {} tables", rows.len()),
            Value::Date(date) => date.clone(),
            Value::Table => "a table".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn negative_and_fractional_plain_numbers_are_no_quantity() {
        assert_eq!(read_quantity(Quantity::Time, &Value::Whole(-1)), None);
        assert_eq!(read_quantity(Quantity::Time, &Value::Real(1.0)), None);
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back(text in any::<String>()) {
            let toml = format!("v = {}\n", quote(&text));
            let document = crate::document::Document::parse(&toml, "t").unwrap();
            prop_assert_eq!(document.text("v").unwrap().0, text.as_str());
        }
    }
}
