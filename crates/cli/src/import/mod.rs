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
use std::ops::Range;

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
#[derive(Debug)]
struct Parameters {
    /// The other simulator, whose defaults replace missing values.
    simulator: &'static str,
    /// Line on which the place of these parameters begins, from 1; 0: the whole file.
    begin: u32,
    /// Each with whether it was taken.
    all: Vec<(Parameter, bool)>,
}

impl Parameters {
    fn of(simulator: &'static str, begin: u32) -> Parameters {
        Parameters { simulator, begin, all: Vec::new() }
    }

    /// Adds a parameter, which must not be there.
    fn add(&mut self, name: &str, value: &str, line: u32) -> Result<(), String> {
        if let Some((first, _)) = self.all.iter().find(|(parameter, _)| parameter.name == name) {
            return Err(format!(
                "{line}: {name}: given twice, in lines {} and {line}; allowed: once",
                first.line
            ));
        }
        self.all.push((Parameter { name: name.into(), value: value.into(), line }, false));
        Ok(())
    }

    /// Adds a parameter, or gives it another value where it is there already.
    fn set(&mut self, name: &str, value: &str, line: u32) {
        match self.all.iter_mut().find(|(parameter, _)| parameter.name == name) {
            Some((parameter, _)) if parameter.value != value => {
                (parameter.value, parameter.line) = (value.into(), line);
            }
            Some(_) => {}
            None => self.all.push((Parameter { name: name.into(), value: value.into(), line }, false)),
        }
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A parameter that was not taken.
    fn get(&self, name: &str) -> Option<&Parameter> {
        self.all
            .iter()
            .find(|(parameter, taken)| parameter.name == name && !taken)
            .map(|(parameter, _)| parameter)
    }

    fn take(&mut self, name: &str) -> Option<Parameter> {
        let (parameter, taken) =
            self.all.iter_mut().find(|(parameter, taken)| parameter.name == name && !taken)?;
        *taken = true;
        Some(parameter.clone())
    }

    /// A parameter, which must be there.
    fn need(&mut self, name: &str) -> Result<Parameter, String> {
        let missing = match self.begin {
            0 => format!("{name} is missing"),
            line => format!("{line}: {name} is missing"),
        };
        self.take(name).ok_or(missing)
    }

    /// A number, which must be there.
    fn number(&mut self, name: &str) -> Result<f64, String> {
        number(&self.need(name)?)
    }

    /// A number, or the value that the other simulator takes where the file has none.
    fn number_or(&mut self, name: &str, default: f64) -> Result<f64, String> {
        self.take(name).map_or(Ok(default), |parameter| number(&parameter))
    }

    /// Names the origin of a value: the parameter, or the default of the other simulator where it is not given.
    fn from(&self, name: &str) -> String {
        if self.all.iter().any(|(parameter, _)| parameter.name == name) {
            return name.into();
        }
        format!("{}'s default of {name}", self.simulator)
    }

    /// Every parameter of the file.
    fn given(&self) -> Vec<Parameter> {
        self.all.iter().map(|(parameter, _)| parameter.clone()).collect()
    }

    /// Returns the parameters that were not taken, each with its reason from `without`.
    fn left(self, without: &[(&str, &'static str)]) -> Vec<Left> {
        let why = |name: &str| {
            let known = without.iter().find(|(without, _)| *without == name);
            known.map_or("not known to the import", |(_, why)| why)
        };
        let left = self.all.into_iter().filter(|(_, taken)| !taken);
        left.map(|(parameter, _)| Left { why: why(&parameter.name), parameter }).collect()
    }
}

fn number(parameter: &Parameter) -> Result<f64, String> {
    let value = parameter.value.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| refused(parameter, "a number from 0"))
}

/// A whole number, as it is.
fn whole(parameter: &Parameter) -> Result<String, String> {
    let value = parameter.value.parse::<u64>().map(|value| value.to_string());
    value.map_err(|_| refused(parameter, "a whole number from 0, below 2^64"))
}

/// The sentence about a value that cannot be: its line, the parameter and what is allowed.
fn refused(parameter: &Parameter, allowed: &str) -> String {
    format!("{}: {} = {}: allowed: {allowed}", parameter.line, parameter.name, parameter.value)
}

/// A number between two others, both included.
fn within(parameter: &Parameter, least: f64, most: f64, unit: &str) -> Result<f64, String> {
    let value = number(parameter)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let end = if most.is_finite() { format!(" to {most}") } else { " or more".into() };
    Err(refused(parameter, &format!("{least}{end}{unit}")))
}

/// A number that is not 0, as nothing at all would mean something else here.
fn positive(parameter: &Parameter) -> Result<f64, String> {
    let value = number(parameter).ok().filter(|value| *value > 0.0);
    value.ok_or_else(|| refused(parameter, "a number above 0"))
}

/// A whole number from 1.
fn count(parameter: &Parameter) -> Result<u64, String> {
    let value = parameter.value.parse::<u64>().ok().filter(|value| *value > 0);
    value.ok_or_else(|| refused(parameter, "a whole number from 1"))
}

/// One of a closed set of words.
fn word<'a>(parameter: &Parameter, allowed: &[&'a str]) -> Result<&'a str, String> {
    let known = allowed.iter().find(|allowed| **allowed == parameter.value);
    known.copied().ok_or_else(|| refused(parameter, &allowed.join(", ")))
}

/// `true` or `false`.
fn truth(parameter: &Parameter) -> Result<bool, String> {
    match parameter.value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(refused(parameter, "true, false")),
    }
}

/// The placement that is nearest to an order of channels (C), ways (W), dies (D) and planes (P).
fn placement(order: &Parameter) -> Result<&'static str, String> {
    let mut letters: Vec<char> = order.value.chars().collect();
    letters.sort_unstable();
    if letters != ['C', 'D', 'P', 'W'] {
        return Err(refused(order, "C, W, D and P in any order, as CWDP"));
    }
    let is_channel_first = order.value.find('C') < order.value.find('W');
    Ok(if is_channel_first { "channel-first" } else { "way-first" })
}

/// Entries of a buffer of this many bytes.
fn entries(parameter: &Parameter, entry_bytes: f64) -> Result<f64, String> {
    let most = entry_bytes * ENTRIES_MAX;
    Ok((within(parameter, entry_bytes, most, " bytes")? / entry_bytes).floor())
}

/// A share as a description takes it whatever its size: in percent, in quotes.
fn share(share: f64) -> String {
    format!("\"{}%\"", (share * 1e6).round() / 1e4)
}

/// Entries of a buffer, at most.
const ENTRIES_MAX: f64 = 16_777_215.0;

/// A parameter of a file, and the lines of the description that are from its place.
#[derive(Clone, Debug)]
pub struct Given {
    pub parameter: Parameter,
    /// Number of the file.
    pub file: usize,
    /// Lines of the description, from 0.
    lines: Range<usize>,
}

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The description in TOML.
    pub toml: String,
    /// Parameters without a counterpart, or with another meaning than in their source.
    pub left: Vec<Left>,
    given: Vec<Given>,
}

/// Writes tables of TOML, each key with the parameter that it is from.
#[derive(Debug, Default)]
struct Toml(String);

impl Toml {
    /// Lines so far.
    fn lines(&self) -> usize {
        self.0.lines().count()
    }

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
    /// A description of all that `parameters` became.
    fn of(toml: Toml, parameters: Parameters, without: &[(&str, &'static str)]) -> Imported {
        let mut imported = Imported::default();
        imported.took(parameters, without, 0, 0..toml.lines());
        imported.toml = toml.0;
        imported
    }

    /// Notes the parameters of a place, which became `lines` of the description.
    fn took(
        &mut self,
        parameters: Parameters,
        without: &[(&str, &'static str)],
        file: usize,
        lines: Range<usize>,
    ) {
        let given = parameters.given().into_iter();
        self.given.extend(given.map(|parameter| Given { parameter, file, lines: lines.clone() }));
        self.left.extend(parameters.left(without));
    }

    /// The parameters that the comment of a line of the description names; `line` from 0.
    pub fn named(&self, line: usize, comment: &str) -> Vec<&Given> {
        let words: Vec<&str> =
            comment.split(|c: char| !(c.is_ascii_alphanumeric() || "_.*".contains(c))).collect();
        let names = |name: &str| {
            words.iter().any(|word| match word.split_once('*') {
                Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
                None => *word == name,
            })
        };
        let given = self.given.iter().filter(|given| given.lines.contains(&line));
        given.filter(|given| names(&given.parameter.name)).collect()
    }

    /// The list of what has no counterpart, one line each; empty if all has one.
    pub fn list(&self) -> String {
        let line = |Left { parameter, why }: &Left| {
            let value = parameter.value.replace(|c: char| c.is_control(), " ");
            format!("{}: {} = {value}: {why}\n", parameter.line, parameter.name)
        };
        self.left.iter().map(line).collect()
    }
}
