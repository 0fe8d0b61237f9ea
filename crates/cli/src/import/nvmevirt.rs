//! NVMeVirt's `ssd_config.h`: the model that its Makefile chooses, as definitions of the C preprocessor.
//!
//! ```text
//!  line ─► #if, #elif, #else, #endif by BASE_SSD ─► #define NAME expression ─► number
//! ```
//! Definitions inside the branch of the chosen model are parameters; those outside are constants that they use. The drive's size is no
//! parameter: NVMeVirt takes the memory that is set aside for it, and makes blocks as large as they have to be.

use super::{Imported, Parameter, Parameters, Toml, entries, positive, refused, share};

/// Parameters without a counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("NR_NAMESPACES", "a description has one block namespace, or a list, [[drive.namespace]]"),
    ("NS_SSD_TYPE_0", "the conventional drive is what is imported"),
    ("NS_SSD_TYPE_1", "the conventional drive is what is imported"),
    ("NS_CAPACITY_0", "--memory says the size"),
    ("NS_CAPACITY_1", "--memory says the size"),
    ("MDTS", "the protocol that serves the drive says how large a command may be"),
    ("SSD_PARTITIONS", "one translation has all channels"),
    ("BLK_SIZE", "counts with BLKS_PER_PLN = 0 only"),
    ("MAX_CH_XFER_SIZE", "a page is transferred as a whole"),
    ("WRITE_UNIT_SIZE", "written units leave when a superpage is full"),
    ("NAND_4KB_READ_LATENCY_LSB", "reads of a part of a page take as long as those of a page"),
    ("NAND_4KB_READ_LATENCY_MSB", "reads of a part of a page take as long as those of a page"),
    ("NAND_4KB_READ_LATENCY_CSB", "reads of a part of a page take as long as those of a page"),
    ("NAND_READ_LATENCY_MSB", "cells of one bit have none"),
    ("NAND_READ_LATENCY_CSB", "cells of two bits have none"),
    (
        "FW_4KB_READ_LATENCY",
        "a delay of reads alone; drive.host.fetch delays all commands, drive.firmware takes time of a processor",
    ),
    (
        "FW_READ_LATENCY",
        "a delay of reads alone; drive.host.fetch delays all commands, drive.firmware takes time of a processor",
    ),
    (
        "FW_WBUF_LATENCY0",
        "a delay of writes alone; drive.host.fetch delays all commands, drive.firmware takes time of a processor",
    ),
    (
        "FW_WBUF_LATENCY1",
        "a delay of writes alone; drive.host.fetch delays all commands, drive.firmware takes time of a processor",
    ),
    ("FW_CH_XFER_LATENCY", "drive.media.timing.command is the nearest"),
    ("LBA_SIZE", "follows from LBA_BITS"),
];

/// Definitions of the file, with those of them that are parameters of the model.
struct Header {
    constants: Vec<(String, String)>,
    parameters: Parameters,
}

/// A drive. `text` is the header, `model` the name that BASE_SSD has, `memory` the bytes that the module is given.
///
/// # Errors
/// A sentence that begins with the line, as `LINE: why`, where there is one.
pub fn import(text: &str, model: &str, memory: u64, name: &str) -> Result<Imported, String> {
    let mut header = read(text, model)?;
    if header.parameters.is_empty() {
        return Err(format!("no model {model}: allowed: a name that BASE_SSD is compared with"));
    }
    if header.number("NS_SSD_TYPE_0")? != header.constant("SSD_TYPE_CONV")? {
        let (kind, line) =
            header.parameters.get("NS_SSD_TYPE_0").map_or(("", 0), |kind| (&kind.value, kind.line));
        return Err(format!(
            "{line}: {model}: NS_SSD_TYPE_0 = {kind}: allowed: SSD_TYPE_CONV, a conventional drive"
        ));
    }
    let mut toml = Toml::default();
    toml.table("[drive]");
    toml.key("name", &format!("{name:?}"), "the model");
    media(&mut header, memory, &mut toml)?;
    controller(&mut header, &mut toml)?;
    Ok(Imported::of(toml, header.parameters, WITHOUT))
}

/// Reads the definitions, by the conditions that hold for the model.
fn read(text: &str, model: &str) -> Result<Header, String> {
    let mut header = Header { constants: Vec::new(), parameters: Parameters::of("NVMeVirt", 0) };
    // Each open condition: whether its branch is read, whether one has been, and whether it is about the model.
    let mut open: Vec<(bool, bool, bool)> = Vec::new();
    for (number, line) in (1..).zip(without_comments(text).lines()) {
        let Some(directive) = line.trim().strip_prefix('#').map(str::trim) else { continue };
        let (word, rest) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let live = open.iter().all(|branch| branch.0);
        match word {
            "if" => {
                let holds = live && header.holds(rest, model, number)?;
                open.push((holds, holds, rest.contains("BASE_SSD")));
            }
            "ifndef" => open.push((true, true, false)),
            "ifdef" => open.push((false, false, false)),
            "elif" | "else" => {
                let (_, taken, about) = open.pop().ok_or_else(|| format!("{number}: #{word} without #if"))?;
                let live = open.iter().all(|branch| branch.0);
                let holds = live && !taken && (word == "else" || header.holds(rest, model, number)?);
                open.push((holds, taken || holds, about));
            }
            "endif" => {
                open.pop().ok_or_else(|| format!("{number}: #endif without #if"))?;
            }
            "define" if live => header.define(rest, number, open.iter().any(|branch| branch.2)),
            _ => {}
        }
    }
    Ok(header)
}

impl Header {
    /// Takes a definition; macros with arguments are none of ours.
    fn define(&mut self, definition: &str, line: u32, is_parameter: bool) {
        let (name, value) = definition.split_once(char::is_whitespace).unwrap_or((definition, ""));
        if name.contains('(') || value.trim().is_empty() {
            return;
        }
        self.constants.retain(|(known, _)| known != name);
        self.constants.push((name.into(), value.trim().into()));
        if is_parameter {
            self.parameters.set(name, value.trim(), line);
        }
    }

    /// Tells whether a condition holds: a comparison of BASE_SSD with a model, or a number.
    fn holds(&self, condition: &str, model: &str, line: u32) -> Result<bool, String> {
        let condition = condition.trim().trim_start_matches('(').trim_end_matches(')');
        match condition.split_once("==") {
            Some((base, other)) if base.trim() == "BASE_SSD" => Ok(other.trim() == model),
            _ => self
                .value(condition, 0)
                .map(|value| value != 0.0)
                .map_err(|why| format!("{line}: #if: {why}")),
        }
    }

    /// A constant, of the model or outside.
    fn constant(&self, name: &str) -> Result<f64, String> {
        let found = self.constants.iter().find(|(known, _)| known == name);
        let (_, value) = found.ok_or_else(|| format!("{name} is missing"))?;
        self.value(value, 0).map_err(|why| format!("{name} = {value}: {why}"))
    }

    /// A parameter that must be there, without taking it.
    fn number(&self, name: &str) -> Result<f64, String> {
        let parameter = self.parameters.get(name).ok_or_else(|| format!("{name} is missing"))?;
        let value = self.value(&parameter.value, 0);
        value.map_err(|why| format!("{}: {name} = {}: {why}", parameter.line, parameter.value))
    }

    /// A parameter that was taken, with its value as a number.
    fn given(&self, name: &str, value: f64) -> Parameter {
        let line =
            self.parameters.given().iter().find(|given| given.name == name).map_or(0, |given| given.line);
        Parameter { name: name.into(), value: value.to_string(), line }
    }

    /// A parameter that must be there, which is used up.
    fn take(&mut self, name: &str) -> Result<f64, String> {
        let value = self.number(name)?;
        self.parameters.take(name);
        Ok(value)
    }

    /// Value of an expression; names are replaced by their definitions, at most this many levels deep.
    fn value(&self, text: &str, depth: u32) -> Result<f64, String> {
        if depth > 20 {
            return Err("defined by itself".into());
        }
        let mut expression = Expression { header: self, tokens: tokens(text)?, at: 0, depth };
        let value = expression.shift()?;
        if expression.at < expression.tokens.len() {
            return Err(format!(
                "{:?}: allowed: numbers, names, + - * / % << and parentheses",
                expression.tokens[expression.at]
            ));
        }
        Ok(value)
    }
}

/// A whole number without its suffix, a name, or an operator.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_alphanumeric() || first == '_' {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len())
        } else if rest.starts_with("<<") {
            2
        } else if "+-*/%()".contains(first) {
            1
        } else {
            return Err(format!("{rest:?}: allowed: numbers, names, + - * / % << and parentheses"));
        };
        found.push(rest[..length].to_string());
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// An expression of C, as far as the header has any: `<<` binds weaker than sums, these weaker than products.
struct Expression<'a> {
    header: &'a Header,
    tokens: Vec<String>,
    at: usize,
    depth: u32,
}

impl Expression<'_> {
    /// Moves on if the next token is one of these, and returns it.
    fn next_of(&mut self, wanted: &[&str]) -> Option<String> {
        let token = self.tokens.get(self.at).filter(|token| wanted.contains(&token.as_str()))?.clone();
        self.at += 1;
        Some(token)
    }

    fn shift(&mut self) -> Result<f64, String> {
        let mut value = self.sum()?;
        while self.next_of(&["<<"]).is_some() {
            value *= self.sum()?.exp2();
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.next_of(&["+", "-"]) {
            let other = self.product()?;
            value = if sign == "+" { value + other } else { value - other };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.one()?;
        while let Some(sign) = self.next_of(&["*", "/", "%"]) {
            let other = self.one()?;
            match sign.as_str() {
                "*" => value *= other,
                _ if other == 0.0 => return Err("division by 0".into()),
                "/" => value = (value / other).trunc(),
                _ => value %= other,
            }
        }
        Ok(value)
    }

    fn one(&mut self) -> Result<f64, String> {
        if self.next_of(&["("]).is_some() {
            let value = self.shift()?;
            return self.next_of(&[")"]).map(|_| value).ok_or_else(|| "a parenthesis without its end".into());
        }
        let token = self.tokens.get(self.at).cloned().ok_or("an expression without its end")?;
        self.at += 1;
        // Macros of NVMeVirt for sizes.
        if let Some(unit) = ["KB", "MB", "GB"].iter().position(|unit| *unit == token) {
            return Ok(self.one()? * 1024_f64.powi(unit as i32 + 1));
        }
        let plain = token.trim_end_matches(['u', 'U', 'l', 'L']);
        if let Ok(value) = plain.parse::<f64>() {
            return Ok(value);
        }
        let definition = self.header.constants.iter().find(|(name, _)| *name == token);
        let (_, value) = definition.ok_or_else(|| format!("{token} is not defined"))?;
        self.header.value(value, self.depth + 1)
    }
}

/// The text with spaces for comments; lines stay lines.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        out.push_str(&rest[..at]);
        let end = if rest[at..].starts_with("//") {
            rest[at..].find('\n').map_or(rest.len(), |end| at + end)
        } else {
            rest[at..].find("*/").map_or(rest.len(), |end| at + end + 2)
        };
        out.extend(rest[at..end].chars().filter(|c| *c == '\n'));
        out.push(' ');
        rest = &rest[end..];
    }
    out + rest
}

fn media(header: &mut Header, memory: u64, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.media]");
    let page = header.take("FLASH_PAGE_SIZE")?;
    let mut planes = 1.0;
    for (key, from) in
        [("channels", "NAND_CHANNELS"), ("ways", "LUNS_PER_NAND_CH"), ("planes", "PLNS_PER_LUN")]
    {
        let count = header.take(from)?;
        toml.key(key, &format!("{count}"), from);
        planes *= count;
    }
    let (blocks, pages, from) = match header.take("BLKS_PER_PLN")? {
        0.0 => {
            let block = header.take("BLK_SIZE")?;
            (memory as f64 / (block * planes), block / page, "BLK_SIZE")
        }
        blocks => (blocks, memory as f64 / (blocks * planes) / page, "BLKS_PER_PLN"),
    };
    toml.key("blocks", &format!("{}", blocks.ceil()), from);
    toml.key("pages", &format!("{}", pages.ceil()), "--memory over blocks and FLASH_PAGE_SIZE");
    toml.key("page_size", &format!("{page}"), "FLASH_PAGE_SIZE");
    toml.key("unit_size", "4096", "NVMeVirt: 4 KiB are mapped");
    toml.key("sector_size", &format!("{}", header.take("LBA_BITS")?.exp2()), "LBA_BITS");
    let cell = header.take("CELL_MODE")?;
    let cells: [(&str, &str, &[&str]); 3] = [
        ("CELL_MODE_SLC", "slc", &["LSB"]),
        ("CELL_MODE_MLC", "mlc", &["LSB", "MSB"]),
        ("CELL_MODE_TLC", "tlc", &["LSB", "CSB", "MSB"]),
    ];
    let known = cells.iter().find(|(mode, ..)| header.constant(mode).is_ok_and(|mode| mode == cell));
    let (mode, word, types) = known.ok_or_else(|| {
        refused(&header.given("CELL_MODE", cell), "CELL_MODE_SLC, CELL_MODE_MLC, CELL_MODE_TLC")
    })?;
    toml.key("cell", &format!("{word:?}"), &format!("CELL_MODE = {mode}"));
    timing(header, toml, types, page)
}

fn timing(header: &mut Header, toml: &mut Toml, types: &[&str], page: f64) -> Result<(), String> {
    toml.table("[drive.media.timing]");
    let reads = types.iter().map(|kind| header.take(&format!("NAND_READ_LATENCY_{kind}")));
    let reads: Vec<f64> = reads.collect::<Result<_, String>>()?;
    let list = |times: &[f64]| times.iter().map(|ns| format!("\"{ns}ns\"")).collect::<Vec<_>>().join(", ");
    toml.key("read", &format!("[{}]", list(&reads)), "NAND_READ_LATENCY_*");
    // One program is for several pages at once; here each page has its share.
    let pages = (header.take("ONESHOT_PAGE_SIZE")? / page).max(1.0);
    let program = header.take("NAND_PROG_LATENCY")? / pages;
    let programs = vec![program.round(); types.len()];
    toml.key(
        "program",
        &format!("[{}]", list(&programs)),
        "NAND_PROG_LATENCY over the pages of ONESHOT_PAGE_SIZE",
    );
    toml.key("erase", &format!("\"{}ns\"", header.take("NAND_ERASE_LATENCY")?), "NAND_ERASE_LATENCY");
    let rate = header.take("NAND_CHANNEL_BANDWIDTH")?;
    toml.key("channel_rate", &format!("\"{rate}MiB/s\""), "NAND_CHANNEL_BANDWIDTH");
    Ok(())
}

fn controller(header: &mut Header, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.ftl]");
    toml.key("map", "\"page\"", "NVMeVirt: a page map");
    toml.key("victim", "\"greedy\"", "NVMeVirt: fewest valid pages");
    toml.key("gc_low", "2", "NVMeVirt: two free lines");
    toml.key("over_provisioning", &share(header.take("OP_AREA_PERCENT")?), "OP_AREA_PERCENT");
    toml.key("durability", "\"volatile\"", "NVMeVirt writes no journal");
    toml.table("[drive.host]");
    let rate = header.take("PCIE_BANDWIDTH")?;
    let rate = positive(&header.given("PCIE_BANDWIDTH", rate))?;
    toml.key("link_rate", &format!("\"{rate}MiB/s\""), "PCIE_BANDWIDTH");
    toml.table("[drive.buffer]");
    let bytes = header.take("GLOBAL_WB_SIZE")?;
    let entries = entries(&header.given("GLOBAL_WB_SIZE", bytes), 4096.0)?;
    toml.key("entries", &format!("{entries}"), "GLOBAL_WB_SIZE in units of 4 KiB");
    toml.key("dirty_high", "\"0%\"", "NVMeVirt: what fills a page is programmed at once");
    let early = header.take("WRITE_EARLY_COMPLETION")? != 0.0;
    let write = if early { "write-back" } else { "write-through" };
    toml.key("write", &format!("{write:?}"), "WRITE_EARLY_COMPLETION");
    Ok(())
}
