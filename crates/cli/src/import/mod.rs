//! Descriptions made from the files of other simulators.
//!
//! ```text
//!  file ─► parameters (name, value, place) ─► a line of TOML, or why there is none
//! ```
//! Invariant: every parameter of the file comes out once: as a key, or in the list of those without a counterpart.

pub mod mqsim;
mod xml;

use std::fmt::Write;

/// A parameter of a foreign file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub value: String,
    /// Line of the file, from 1.
    pub line: u32,
}

/// A parameter that has become nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub parameter: Parameter,
    pub why: &'static str,
}

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The description in TOML.
    pub toml: String,
    /// Parameters without a counterpart, or with another meaning than in their source.
    pub left: Vec<Left>,
}

/// Writes tables of TOML, each key with the parameter that it is from.
#[derive(Debug, Default)]
struct Toml(String);

impl Toml {
    fn table(&mut self, header: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(header);
        self.0.push('\n');
    }

    fn key(&mut self, name: &str, value: &str, from: &str) {
        let assignment = format!("{name} = {value}");
        // A comment is one line, whatever is in the file.
        let from = from.replace(|c: char| c.is_control(), " ");
        let _ = writeln!(self.0, "{assignment:<44}  # {from}");
    }
}

impl Imported {
    /// The list of what has no counterpart, one line each; empty if all has one.
    pub fn list(&self) -> String {
        let line = |Left { parameter, why }: &Left| {
            let value = parameter.value.replace(|c: char| c.is_control(), " ");
            format!("{}: {} = {value}: {why}\n", parameter.line, parameter.name)
        };
        self.left.iter().map(line).collect()
    }
}
