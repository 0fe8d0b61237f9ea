//! A TOML text as a flat list of leaves: dotted path, value, line, and the comment behind the value.
//!
//! Flat, because a description is laid over its preset key by key: its `drive.media.timing.erase` replaces that of the preset. A list of tables
//! (`[[job]]`, or an array of inline tables) is one leaf and is replaced as a whole.

use super::error::{Place, SpecError};
use pellucid_setting::quote;
use std::collections::BTreeMap;
use toml_edit::{Document as Toml, Item, TableLike, Value as TomlValue};

/// A value as written.
pub(crate) type Value = pellucid_setting::Value<Row>;

/// One table of a list of tables; the paths of its fields are relative to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub place: Place,
    pub fields: Vec<Leaf>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where it was written.
    pub place: Place,
    /// The comment behind it on the same line, without its `#`: the source of the constant.
    pub comment: Option<String>,
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub path: String,
    pub value: Value,
    pub origin: Origin,
}

/// End of the message about a key that a table has twice.
const TWICE: &str = ": given twice; allowed: once";

/// Reports whether a value is written as a table or a list, and not as bare text that may continue on the next line.
fn is_toml_of_one(value: &str) -> bool {
    value.starts_with(['{', '['])
}

/// A TOML text, flat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    /// Leaves by path.
    pub leaves: BTreeMap<String, Leaf>,
    /// Tables that have a header or are written inline, so that an empty one with a wrong name is noticed too.
    pub tables: Vec<(String, Place)>,
}

impl Document {
    /// Parses `text`; `name` is its name in places.
    pub fn parse(text: &str, name: &str) -> Result<Document, SpecError> {
        let reader = Reader { text, name, lines: line_starts(text) };
        let toml = Toml::parse(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let reason = error.message().trim_end().replace('\n', "; ");
            let reason = match text.get(span.clone()) {
                Some(key) if reason == "duplicate key" => format!("{key}{TWICE}"),
                _ => reason,
            };
            SpecError::Syntax { place: reader.place(span.start), reason }
        })?;
        let mut document = Document::default();
        reader.table("", toml.as_table(), None, &mut document);
        Ok(document)
    }

    /// Reads one `--set KEY=VALUE`: the value is TOML if it can be read as such, else a bare string.
    /// `full_key` completes the key.
    pub fn parse_set(set: &str, full_key: impl Fn(&str) -> String) -> Result<Document, SpecError> {
        let place = |key: &str| Place::Set { key: key.trim().to_string() };
        let Some((key, value)) = set.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            let what =
                if set.trim().is_empty() { "empty, as behind a comma at the end" } else { "not allowed" };
            let reason = format!("{what}; allowed: KEY=VALUE, for example ftl.victim=fifo");
            return Err(SpecError::Syntax { place: place(set), reason });
        };
        let (key, value) = (key.trim(), value.trim());
        let mut parsed = match Document::parse(&format!("v = {value}\n"), "--set") {
            Ok(document) if document.is_only("v") => document,
            Err(SpecError::Syntax { reason, .. }) if reason.ends_with(TWICE) && is_toml_of_one(value) => {
                return Err(SpecError::Syntax { place: place(key), reason });
            }
            _ => Document::parse(&format!("v = {}\n", quote(value)), "--set")?,
        };
        let full = full_key(key);
        let rename = |path: &str| format!("{full}{}", &path["v".len()..]);
        let mut document = Document::default();
        for (path, mut leaf) in std::mem::take(&mut parsed.leaves) {
            leaf.path = rename(&path);
            leaf.origin = Origin { place: place(key), comment: None };
            if let Value::Tables(rows) = &mut leaf.value {
                rows.iter_mut().for_each(|row| row.set_place(&place(key)));
            }
            document.leaves.insert(leaf.path.clone(), leaf);
        }
        document.tables = parsed.tables.iter().map(|(path, _)| (rename(path), place(key))).collect();
        Ok(document)
    }

    fn is_only(&self, name: &str) -> bool {
        let mut paths = self.leaves.keys().chain(self.tables.iter().map(|(path, _)| path));
        paths.all(|path| path.split('.').next() == Some(name))
    }

    /// Lays `top` over this document: its leaves replace those of the same path.
    pub fn overlay(&mut self, top: Document) {
        self.leaves.extend(top.leaves);
    }

    /// The text at `path`, if there is one.
    pub fn text(&self, path: &str) -> Option<(&str, &Origin)> {
        match self.leaves.get(path) {
            Some(Leaf { value: Value::Text(text), origin, .. }) => Some((text, origin)),
            _ => None,
        }
    }
}

impl Row {
    /// Writes the table in one line.
    pub fn to_text(&self) -> String {
        let field = |leaf: &Leaf| format!("{} = {}", leaf.path, leaf.value.to_text());
        format!("{{ {} }}", self.fields.iter().map(field).collect::<Vec<_>>().join(", "))
    }

    fn set_place(&mut self, place: &Place) {
        self.place = place.clone();
        self.fields.iter_mut().for_each(|field| field.origin.place = place.clone());
    }
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    lines: Vec<usize>,
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

impl Reader<'_> {
    fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|&start| start <= offset) as u32;
        Place::File { name: self.name.to_string(), line: line.max(1) }
    }

    /// The comment on the line where a value ends.
    fn comment(&self, end: usize) -> Option<String> {
        let rest = self.text.get(end..)?.lines().next()?.trim();
        rest.strip_prefix('#').map(|comment| comment.trim().to_string()).filter(|comment| !comment.is_empty())
    }

    /// Adds everything below `table`. `inherited` is the comment behind an inline table, which applies to everything in it.
    fn table(&self, prefix: &str, table: &dyn TableLike, inherited: Option<&String>, out: &mut Document) {
        for (name, item) in table.iter() {
            let path = if prefix.is_empty() { bare(name) } else { format!("{prefix}.{}", bare(name)) };
            let place = self.place(table.key(name).and_then(|key| key.span()).map_or(0, |span| span.start));
            let own = || item.span().and_then(|span| self.comment(span.end));
            let comment = inherited.cloned().or_else(own);
            match item {
                Item::None => {}
                Item::Table(inner) => {
                    out.tables.push((path.clone(), place));
                    self.table(&path, inner, None, out);
                }
                Item::Value(TomlValue::InlineTable(inner)) => {
                    out.tables.push((path.clone(), place));
                    self.table(&path, inner, comment.as_ref(), out);
                }
                Item::Value(value) => {
                    let leaf = Leaf {
                        path: path.clone(),
                        value: self.value(value),
                        origin: Origin { place, comment },
                    };
                    out.leaves.insert(path, leaf);
                }
                Item::ArrayOfTables(rows) => {
                    let value = Value::Tables(rows.iter().map(|row| self.row(row, row.span())).collect());
                    let leaf = Leaf { path: path.clone(), value, origin: Origin { place, comment: None } };
                    out.leaves.insert(path, leaf);
                }
            }
        }
    }

    fn row(&self, table: &dyn TableLike, span: Option<std::ops::Range<usize>>) -> Row {
        let mut document = Document::default();
        self.table("", table, None, &mut document);
        let mut fields: Vec<Leaf> = document.leaves.into_values().collect();
        // Restores the order of the file.
        let order: Vec<String> = table.iter().map(|(name, _)| bare(name)).collect();
        fields.sort_by_key(|field| {
            let first = field.path.split('.').next().unwrap_or_default();
            order.iter().position(|name| name == first || *name == field.path)
        });
        Row { place: self.place(span.map_or(0, |span| span.start)), fields }
    }

    fn value(&self, value: &TomlValue) -> Value {
        match value {
            TomlValue::String(text) => Value::Text(text.value().clone()),
            TomlValue::Integer(number) => Value::Whole(*number.value()),
            TomlValue::Float(number) => Value::Real(*number.value()),
            TomlValue::Boolean(flag) => Value::Flag(*flag.value()),
            TomlValue::Datetime(date) => Value::Date(date.value().to_string()),
            TomlValue::InlineTable(_) => Value::Table,
            TomlValue::Array(array) => {
                let rows: Option<Vec<Row>> = array
                    .iter()
                    .map(|item| item.as_inline_table().map(|table| self.row(table, item.span())))
                    .collect();
                match rows {
                    Some(rows) if !rows.is_empty() => Value::Tables(rows),
                    _ => Value::List(array.iter().map(|item| self.value(item)).collect()),
                }
            }
        }
    }
}

/// A name as one part of a path: quoted when a dot or blank in it could be taken for something else.
fn bare(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) { name.to_string() } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf<'a>(document: &'a Document, path: &str) -> &'a Leaf {
        document.leaves.get(path).unwrap_or_else(|| panic!("{path} in {document:?}"))
    }

    #[test]
    fn leaves_carry_line_and_comment() {
        let text = "\
# top
[drive.media]
ways = 8 # Table 5

[drive.firmware]
fetch = { cycles = 3, fixed = '1us' } # fitted
read = [
  1, # one
  2,
] # both
";
        let document = Document::parse(text, "f").unwrap();
        let at = |line| Place::File { name: "f".into(), line };
        let ways = leaf(&document, "drive.media.ways");
        assert_eq!((&ways.value, &ways.origin.place), (&Value::Whole(8), &at(3)));
        assert_eq!(ways.origin.comment.as_deref(), Some("Table 5"));
        let fixed = leaf(&document, "drive.firmware.fetch.fixed");
        assert_eq!(fixed.origin, Origin { place: at(6), comment: Some("fitted".into()) });
        let read = leaf(&document, "drive.firmware.read");
        assert_eq!(read.origin, Origin { place: at(7), comment: Some("both".into()) });
    }

    #[test]
    fn rows_keep_the_order_of_the_file() {
        let document = Document::parse("[[job]]\nrw = 'read'\nbs = '4k'\n[[job]]\na.b = 1\n", "f").unwrap();
        let Value::Tables(rows) = &leaf(&document, "job").value else { panic!() };
        let paths: Vec<&str> = rows[0].fields.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["rw", "bs"]);
        assert_eq!(rows[1].place, Place::File { name: "f".into(), line: 4 });
        assert_eq!(rows[1].fields[0].path, "a.b");
    }

    #[test]
    fn a_quoted_dot_is_no_path() {
        let document = Document::parse("'drive.media'.ways = 1", "f").unwrap();
        assert_eq!(document.leaves.keys().next().unwrap(), "\"drive.media\".ways");
    }

    #[test]
    fn sets_are_toml_or_bare_strings() {
        let value = |set: &str| {
            let document = Document::parse_set(set, str::to_string).unwrap();
            document.leaves.into_values().next().unwrap().value
        };
        assert_eq!(value("a.b=3"), Value::Whole(3));
        assert_eq!(value("a.b = fifo"), Value::Text("fifo".into()));
        assert_eq!(value("a.b=58us,90us"), Value::Text("58us,90us".into()));
        assert_eq!(value("a=1\nb=2"), Value::Text("1\nb=2".into()));
        let table = Document::parse_set("a={ x = 1, y = 2 }", str::to_string).unwrap();
        assert_eq!(table.leaves.keys().collect::<Vec<_>>(), ["a.x", "a.y"]);
        assert!(Document::parse_set("novalue", str::to_string).is_err());
        for (set, key) in
            [("ftl={victim='fifo',victim='lru'}", "victim"), ("job=[{rw='read'},{bs=1,bs=1}]", "bs")]
        {
            let told = Document::parse_set(set, str::to_string).unwrap_err().to_string();
            assert!(told.ends_with(&format!("{key}: given twice; allowed: once")), "{told}");
        }
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let error = Document::parse("[drive]\nx = = 1\n", "my.toml").unwrap_err();
        assert!(error.to_string().starts_with("my.toml:2: "), "{error}");
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back(text in any::<String>()) {
            let document = Document::parse(&format!("v = {}\n", quote(&text)), "t").unwrap();
            prop_assert_eq!(document.text("v").unwrap().0, text.as_str());
        }
    }

    #[test]
    fn a_key_or_table_that_is_there_twice_is_named() {
        for (text, told) in [
            ("[drive]\nname = 'a'\nname = 'b'\n", "my.toml:3: name: given twice; allowed: once"),
            ("[a]\nwear.gap = 1\nwear.gap = 2\n", "my.toml:3: gap: given twice; allowed: once"),
            ("[drive]\n[drive.ecc]\n[drive.ecc]\n", "my.toml:3: ecc: given twice; allowed: once"),
        ] {
            assert_eq!(Document::parse(text, "my.toml").unwrap_err().to_string(), told);
        }
    }
}
