//! `pellucid reference`: the pages of docs/reference, printed from the tables that the program works with.
//!
//! A test compares the pages in the repository with what is printed here, so none of them can grow stale.

use super::Command;
use crate::failure::Failure;
use crate::{args, output};
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Subcommand};
use pellucid_flash::{Cause, Opcode, Status};
use pellucid_fs::FsCounters;
use pellucid_host::{HostCounters, HostHoldings};
use pellucid_monitor::{Figures, LayerFigures, LayerSide, ServingFigures, WorkFigures, metrics};
use pellucid_target::{nbd, nvme};
use pellucid_workload::JobBuilder;
use std::fmt::Write;
use strum::{EnumMessage, VariantArray};

/// Print a page of the reference as Markdown
#[derive(Debug, clap::Args)]
pub struct Reference {
    /// The page
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Page {
    Keys,
    Workload,
    Commands,
    Statuses,
    Causes,
    Metrics,
}

impl Reference {
    pub fn run(self) -> Result<(), Failure> {
        let page = match self.page {
            Page::Keys => keys(),
            Page::Workload => workload(),
            Page::Commands => commands(),
            Page::Statuses => statuses(),
            Page::Causes => causes(),
            Page::Metrics => prometheus(),
        };
        Ok(output::print(&page)?)
    }
}

/// A page begins with its title, that it is generated, and an introduction.
fn page(title: &str, introduction: &str) -> String {
    format!("# {title}\n\nGenerated from the code by `pellucid reference`; do not edit.\n\n{introduction}\n")
}

/// A table of Markdown; `|` in a cell does not end it.
fn table(out: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| cell.to_string()).collect();
    *out += "\n";
    *out += &line(&head);
    *out += &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        *out += &line(&row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>());
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// The table of a key: all of its path but the last name, at most three of them.
fn section(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(table, _)| match table.match_indices('.').nth(2) {
        Some((at, _)) => &table[..at],
        None => table,
    })
}

fn keys() -> String {
    let mut out = page(
        "Description keys",
        "Every key of a description in TOML, and of `--set KEY=VALUE` (where `drive.` can be left out). Values with a \
         unit are texts such as `\"75us\"`, `\"16KiB\"` or `\"200MB/s\"`; a plain number is in the unit named here, and a \
         time needs its unit. Shares are numbers or `\"20%\"`. \
         `pellucid show DRIVE` prints all keys of a drive with the source of each value. `[[job]]` takes the keys of \
         [workload.md](workload.md).",
    );
    let keys = pellucid_spec::keys();
    let mut sections: Vec<&str> = Vec::new();
    for key in &keys {
        if !sections.contains(&section(key.key)) {
            sections.push(section(key.key));
        }
    }
    for name in sections {
        let _ = write!(out, "\n## `[{name}]`\n");
        let rows = keys.iter().filter(|key| section(key.key) == name).map(|key| {
            let default = key.default.as_deref().map_or("required".into(), code);
            vec![code(key.key), key.allowed.clone(), default, key.unit.into(), key.about.into()]
        });
        table(&mut out, &["Key", "Allowed", "Default", "Unit of plain numbers", "Meaning"], rows);
    }
    for (list, which, fields) in pellucid_spec::tables() {
        let _ = write!(out, "\n## `[[{list}]]` with {}\n", code(which));
        table(
            &mut out,
            &["Field", "Meaning"],
            fields.iter().map(|(name, about)| vec![code(name), about.to_string()]),
        );
    }
    out
}

fn workload() -> String {
    let mut out = page(
        "Workload keys",
        "Keys of `[[job]]` in a description, of jobs in fio files, and of options: `iodepth = 64`, `iodepth=64`, \
         `--iodepth 64`. They mean what they mean to fio unless a line says otherwise.",
    );
    let rows = JobBuilder::keys().iter().map(|key| {
        let aliases = key.aliases.iter().map(|alias| code(alias)).collect::<Vec<_>>().join(", ");
        vec![code(key.name), aliases, code(key.example), key.help.into()]
    });
    table(&mut out, &["Key", "Also", "Example", "Meaning"], rows);
    out
}

fn commands() -> String {
    let mut out = page(
        "Commands",
        "`run` and `compare` also take every key of [workload.md](workload.md) as an option. Files in `bench/` and `examples/` are in \
         the repository. Exit status: 0; 1 when the work failed; 2 when something was asked for that cannot be; 130 after Ctrl-C or SIGTERM.",
    );
    let mut root = args::command();
    root.build();
    // In the order of `--help`, which changes to a command do not keep.
    let listed = Command::augment_subcommands(clap::Command::new("pellucid"));
    let names =
        listed.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    for command in names.filter_map(|name| root.find_subcommand(name)) {
        one_command(&mut out, "pellucid", command);
    }
    out
}

fn one_command(out: &mut String, parent: &str, command: &clap::Command) {
    let name = format!("{parent} {}", command.get_name());
    let text = |text: Option<&StyledStr>| text.map_or(String::new(), |text| text.to_string());
    let about = text(command.get_long_about().or(command.get_about()));
    let _ = write!(out, "\n## `{name}`\n\n{about}\n");
    let usage = command.clone().render_usage().to_string();
    // One line for each way to call it.
    let calls = usage.trim_start_matches("Usage: ").replace("\n       pellucid ", "\u{0}pellucid ");
    let calls = calls.split('\u{0}').map(|call| call.split_whitespace().collect::<Vec<_>>().join(" "));
    let lines = calls.map(|call| format!("    {call}\n")).collect::<String>();
    let _ = write!(out, "\n{lines}");
    let workload = |arg: &Arg| arg.get_help_heading().is_some_and(|heading| heading.starts_with("Workload"));
    let shown = |arg: &&Arg| {
        !arg.is_hide_set() && !workload(arg) && !["help", "version"].contains(&arg.get_id().as_str())
    };
    let rows: Vec<Vec<String>> = command.get_arguments().filter(shown).map(argument).collect();
    if !rows.is_empty() {
        table(out, &["Argument", "Values", "Meaning"], rows);
    }
    let after = text(command.get_after_help());
    if let Some(examples) = after.split("\n\n").find_map(|part| part.strip_prefix("Examples:\n")) {
        let lines = examples.lines().map(|line| format!("    {}\n", line.trim()));
        let _ = write!(out, "\nExamples:\n\n{}", lines.collect::<String>());
    }
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        one_command(out, &name, sub);
    }
}

/// Describes one argument or option: its spelling, the words that it takes, its effect, its other names and its default.
fn argument(arg: &Arg) -> Vec<String> {
    let value = arg.get_value_names().map_or(String::new(), |names| names.join(" "));
    let mut spelled = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("--{long}, -{short}"),
        (Some(long), None) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => value.clone(),
    };
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if takes && !arg.is_positional() {
        spelled = format!("{spelled} {value}");
    }
    let words: Vec<String> = match takes {
        true => arg.get_possible_values().iter().map(|word| word.get_name().to_string()).collect(),
        false => Vec::new(),
    };
    let help = arg.get_long_help().or(arg.get_help()).map_or(String::new(), |help| help.to_string());
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let also = arg.get_visible_aliases().unwrap_or_default();
    let also: String = also.iter().map(|alias| format!("; also --{alias}")).collect();
    let default: Vec<_> = match takes && !help.contains("[default: ") {
        true => arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect(),
        false => Vec::new(),
    };
    let default =
        if default.is_empty() { String::new() } else { format!(" [default: {}]", default.join(",")) };
    vec![code(spelled.trim()), words.join(", "), format!("{help}{also}{default}")]
}

/// The doc comment of a variant, in one line.
fn documentation(of: &impl EnumMessage) -> String {
    of.get_documentation().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn statuses() -> String {
    let mut out = page(
        "Statuses",
        "How a command can end: the name in request logs, and what clients of the protocols are told. NVMe: the status \
         code type and status code as one number, of a read and of a write where they differ. NBD: the error value.",
    );
    let rows = Status::VARIANTS.iter().map(|&status| {
        let told = |opcode| {
            let told = nvme::host_status(status, opcode);
            format!("{:03X}h {told}", told.raw() & 0x7FF)
        };
        let (read, write) = (told(Opcode::Read), told(Opcode::Write));
        let nvme = if read == write { read } else { format!("{read}; write: {write}") };
        let nbd = nbd::errno(status).map_or("0".into(), |errno| errno.raw().to_string());
        vec![code(status.name()), documentation(&status), nvme, nbd]
    });
    table(&mut out, &["Name", "Meaning", "NVMe", "NBD"], rows);
    out
}

fn causes() -> String {
    let mut out = page(
        "Causes",
        "Why a flash operation is done. Reports, metrics and logs count programs, reads and erases by these names; JSON \
         keys have `_` for `-`.",
    );
    let rows = Cause::ALL.iter().map(|cause| vec![code(cause.name()), documentation(cause)]);
    table(&mut out, &["Name", "Meaning"], rows);
    out
}

fn prometheus() -> String {
    let mut out = page(
        "Metrics",
        "What `/metrics` of a [monitor](monitors.md) (`--monitor ADDR`) offers Prometheus. Every metric has the label `drive`, unless it \
         is about the server (`protocol`), a layer of the host, or a file system mounted on the drive (`layer`). Other labels are in the meaning, in code marks. *Watched* \
         metrics count from the moment at which the drive is first watched, and are absent before. A histogram has `_bucket`, `_sum` \
         and `_count`.",
    );
    let mut figures = HostCounters::default().figures(&HostHoldings::default());
    figures.extend(FsCounters::default().figures());
    let layer = LayerSide { figures, ..LayerSide::default() };
    let layers = vec![LayerFigures::from(&layer)];
    let serving = Some(ServingFigures { layers, ..Default::default() });
    let figures = Figures { serving, work: Some(WorkFigures::default()), ..Figures::default() };
    let text = metrics(&figures);
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("# "));
    let mut rows = Vec::new();
    while let (Some(help), Some(kind)) = (lines.next(), lines.next()) {
        let mut words = help.trim_start_matches("HELP ").splitn(2, ' ');
        let (name, help) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let kind = kind.rsplit(' ').next().unwrap_or_default();
        rows.push(vec![code(name), kind.into(), help.into()]);
    }
    table(&mut out, &["Name", "Type", "Meaning"], rows);
    out
}
