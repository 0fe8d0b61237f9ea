//! Descriptions made from the files of other simulators.
//!
//! ```text
//!  file ─► parameters (name, value, place) ─► a line of TOML, or why there is none
//! ```
//! Invariant: every parameter of the file comes out once: as a key, or in the list of those without a counterpart.

pub mod femu;
pub mod mqsim;
pub mod nvmevirt;
pub mod simplessd;
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

/// Parameters by name; each is taken once, and what is left over has no counterpart.
#[derive(Debug, Default)]
struct Parameters(Vec<Parameter>);

impl Parameters {
    fn add(&mut self, name: &str, value: &str, line: u32) {
        self.0.push(Parameter { name: name.into(), value: value.into(), line });
    }

    /// Adds a parameter, or gives it another value where it is there already.
    fn set(&mut self, name: &str, value: &str, line: u32) {
        match self.0.iter_mut().find(|parameter| parameter.name == name) {
            Some(parameter) if parameter.value != value => {
                (parameter.value, parameter.line) = (value.into(), line);
            }
            Some(_) => {}
            None => self.add(name, value, line),
        }
    }

    fn append(&mut self, other: Parameters) {
        self.0.extend(other.0);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Parameter> {
        self.0.iter().find(|parameter| parameter.name == name)
    }

    fn take(&mut self, name: &str) -> Option<Parameter> {
        let at = self.0.iter().position(|parameter| parameter.name == name)?;
        Some(self.0.remove(at))
    }

    /// A number, which must be there.
    fn number(&mut self, name: &str) -> Result<f64, String> {
        let parameter = self.take(name).ok_or_else(|| format!("{name} is missing"))?;
        number(&parameter)
    }

    /// A number, or the value that the other simulator takes where the file has none.
    fn number_or(&mut self, name: &str, default: f64) -> Result<f64, String> {
        self.take(name).map_or(Ok(default), |parameter| number(&parameter))
    }

    /// Returns the parameters that were not taken, each with its reason from `without`.
    fn left(self, without: &[(&str, &'static str)]) -> Vec<Left> {
        let why = |name: &str| {
            let known = without.iter().find(|(without, _)| *without == name);
            known.map_or("not known to the import", |(_, why)| why)
        };
        self.0.into_iter().map(|parameter| Left { why: why(&parameter.name), parameter }).collect()
    }
}

fn number(parameter: &Parameter) -> Result<f64, String> {
    let value = parameter.value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| refused(parameter, "a number from 0"))
}

/// A whole number, as it is.
fn whole(parameter: &Parameter) -> Result<String, String> {
    let value = parameter.value.parse::<u64>().map(|value| value.to_string());
    value.map_err(|_| refused(parameter, "a whole number from 0"))
}

/// The sentence about a value that cannot be: its line, the parameter and what is allowed.
fn refused(parameter: &Parameter, allowed: &str) -> String {
    format!("{}: {} = {}: allowed: {allowed}", parameter.line, parameter.name, parameter.value)
}

fn is_true(parameter: &Parameter) -> bool {
    parameter.value.eq_ignore_ascii_case("true")
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
