//! The command line: every command, and the options that several commands share.
//!
//! A shared option is written once, in [`Global`]; [`COMMON`] says which commands have it. A command refuses any option
//! that it does not use, and names the commands that do.

use crate::commands::Command;
use crate::failure::Failure;
use crate::numbers::whole;
use crate::version::VERSION;
use crate::{output, stderr, workload};
use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args as _, CommandFactory, FromArgMatches, Parser};
use pellucid_spec::{given_twice, keys_of_set};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  pellucid replay cosmos-plus examples/cloudphysics.csv.zst --report report
  pellucid run datacenter-tlc --rw randwrite --bs 4k --iodepth 64 --number-ios 100000
  pellucid show cosmos-plus > my-drive.toml

A DRIVE is a preset (see pellucid presets), a TOML file, or an image made by pellucid age.
It may carry overrides of its own: cosmos-plus,ftl.victim=fifo,media.ways=4

Exit status: 0; 1 when the work failed; 2 when something was asked for that cannot be; 130 after Ctrl-C or SIGTERM.
Ctrl-C ends run, replay and compare with a report of what has completed, marked as partial; a second one ends at once.";

/// Text that the program prints when it is called without arguments.
const FIRST: &str = "\
Pellucid, an open SSD in software. Three things to try:

  pellucid demo
      one drive in a minute: fill it, watch garbage collection, cut its power, look at the report
  pellucid run datacenter-tlc --rw randwrite --bs 4k --iodepth 64 --number-ios 100000
      work on a drive in simulated time, in fio's words
  pellucid serve cosmos-plus --set media.store=ram --nbd 10809
      a drive that real programs attach

Help: pellucid --help, pellucid COMMAND --help, pellucid explain KEY
";

/// An open SSD: describe a drive, run work on it in simulated time or serve it to real hosts, see inside.
#[derive(Debug, Parser)]
#[command(name = "pellucid", version = VERSION, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Options that several commands share. A command keeps the default of those that it does not have.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Common options")]
pub struct Global {
    /// Override a key of the description, such as ftl.victim=fifo; may be given several times. A table, such as
    /// ftl={victim="fifo",over_provisioning=0.2}, overrides only the keys in it
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Print the answer as JSON, alone on standard output
    #[arg(long)]
    pub json: bool,
    /// Write the results into this directory: JSON, tables (CSV), and a page with drawings (index.html)
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Record the contents of each block over time, as a page that plays them: film.html of the report; with `age`, beside the image
    #[arg(long)]
    pub film: bool,
    /// Write one line for each measured request (none of ramp_time) to this file: CSV, or Parquet if its name ends in .parquet; with Parquet also the run over
    /// time and flash operations beside it, as NAME.series.parquet and NAME.operations.parquet
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Check every byte that is read; on a drive in a file with earlier data, each sector from its first write on
    #[arg(long)]
    pub verify: bool,
    /// Seed of the jobs; with `age`, of the overwrites; with `reproduce`, of work and media
    #[arg(long, value_name = "N", value_parser = whole::<u64>(..1 << 63))]
    pub seed: Option<u64>,
    /// Seed of this run of `--seeds`. It takes precedence over every other seed of the jobs; no option sets it.
    #[arg(skip)]
    pub seed_of_run: Option<u64>,
    /// Nothing follows an interrupt, as only whole runs are of use. No option sets it.
    #[arg(skip)]
    pub whole_only: bool,
    /// The drive that is opened is one of several, to which the same `--set` apply. No option sets it.
    #[arg(skip)]
    pub one_of_several: bool,
    /// Replace files that this program did not write
    #[arg(long)]
    pub force: bool,
    /// No progress, notices, warnings or hints
    #[arg(long, short)]
    pub quiet: bool,
}

/// Commands with the options of [`Global`] that each of them has, by the names of its fields.
const COMMON: [(&str, &[&str]); 26] = [
    ("run", &["sets", "json", "report", "film", "log", "verify", "seed", "force", "quiet"]),
    ("replay", &["sets", "json", "report", "film", "log", "verify", "force", "quiet"]),
    ("compare", &["sets", "json", "report", "film", "log", "verify", "seed", "force", "quiet"]),
    ("age", &["sets", "json", "film", "seed", "force", "quiet"]),
    ("sweep", &["json", "quiet"]),
    ("rerun", &["json", "quiet"]),
    ("diff", &["json"]),
    ("reproduce", &["sets", "json", "report", "seed", "force", "quiet"]),
    ("demo", &["report", "force", "quiet"]),
    ("show", &["sets", "json"]),
    ("explain", &["sets", "json"]),
    ("import", &["force", "quiet"]),
    ("presets", &["json"]),
    ("serve", &["sets", "force", "quiet"]),
    ("cache", &["sets", "force", "quiet"]),
    ("fire", &["sets", "json", "force", "quiet"]),
    ("detach", &["json"]),
    ("top", &["json"]),
    ("status", &["json"]),
    ("power-cut", &["json"]),
    ("fault", &["json"]),
    ("target", &["sets", "json"]),
    ("apps", &["sets", "json"]),
    ("kv", &["sets", "json", "quiet"]),
    ("graph", &["json", "quiet"]),
    ("fs", &["sets", "json", "quiet"]),
];
/// Commands that print no answer, with the reason and what to use instead.
const WITHOUT_JSON: [(&str, &str); 4] = [
    ("demo", "it is a walk to read; its results are report.json of --report"),
    ("import", "it prints a description, in TOML; pellucid show FILE --json prints that as JSON"),
    ("serve", SERVES),
    ("cache", SERVES),
];
pub const SERVES: &str =
    "a server prints no answer; its log: --log-format json; its counters: pellucid status";
/// Commands with a command `run`, which does the work of `run` for an application, and the options of [`Global`] that it has beside those of
/// its group.
const APP_RUNS: [(&str, &[&str]); 2] = [
    ("fs", &["report", "film", "log", "verify", "seed", "force"]),
    ("graph", &["sets", "report", "film", "log", "verify", "seed", "force"]),
];
/// Commands that have commands of their own.
const GROUPS: [&str; 6] = ["import", "target", "apps", "kv", "graph", "fs"];

impl Global {
    fn of(matches: &ArgMatches) -> Global {
        fn one<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
            matches.try_get_one(name).ok().flatten().cloned()
        }
        let sets = matches.try_get_many::<String>("sets").ok().flatten();
        let switch = |name| one(matches, name).unwrap_or(false);
        Global {
            sets: sets.into_iter().flatten().cloned().collect(),
            json: switch("json"),
            report: one(matches, "report"),
            film: switch("film"),
            log: one(matches, "log"),
            verify: switch("verify"),
            seed: one(matches, "seed"),
            seed_of_run: None,
            whole_only: false,
            one_of_several: false,
            force: switch("force"),
            quiet: switch("quiet"),
        }
    }

    /// Refuses two `--set` of one key, also as part of a table, whether they say the same or not.
    pub fn check_sets(&self) -> Result<(), Failure> {
        let given: Vec<_> = self.sets.iter().flat_map(|set| keys_of_set(set)).collect();
        match given_twice(&given) {
            None => Ok(()),
            Some((key, [one, other])) => Err(Failure::asked(anyhow!(
                "--set {key}: given twice, as {one} and as {other}; allowed: once"
            ))),
        }
    }
}

/// Every command with its options.
pub fn command() -> clap::Command {
    let common = Global::augment_args(clap::Command::new("common"));
    let mut command = Args::command();
    for (name, options) in COMMON {
        let has = |arg: &&clap::Arg| options.contains(&arg.get_id().as_str());
        let args = common.get_arguments().filter(has).map(|arg| arg.clone().global(GROUPS.contains(&name)));
        command = command.mut_subcommand(name, |sub| sub.args(args));
    }
    for (group, options) in APP_RUNS {
        let has = |arg: &&clap::Arg| options.contains(&arg.get_id().as_str());
        let args: Vec<clap::Arg> = common.get_arguments().filter(has).cloned().collect();
        command = command.mut_subcommand(group, |group| group.mut_subcommand("run", |run| run.args(args)));
    }
    // A server has no answer, but those who ask it have one.
    let json =
        common.get_arguments().filter(|arg| arg.get_id() == "json").cloned().collect::<Vec<clap::Arg>>();
    command = command.mut_subcommand("fire", |fire| fire.mut_subcommands(|sub| sub.args(&json)));
    for group in GROUPS {
        command = command.mut_subcommand(group, with_examples);
    }
    // A negative number is a value that may be wrong, not an option that nobody knows.
    command.mut_subcommands(|sub| {
        sub.mut_args(|arg| {
            let takes_value = arg.get_long().is_some() && arg.get_action().takes_values();
            if takes_value { arg.allow_negative_numbers(true) } else { arg }
        })
    })
}

/// Shows each command of a group those examples of the group that are its own.
fn with_examples(group: clap::Command) -> clap::Command {
    let (name, all) = (group.get_name().to_string(), group.get_after_help().map(ToString::to_string));
    let all = all.unwrap_or_default();
    group.mut_subcommands(move |sub| {
        let begins = format!("  pellucid {name} {} ", sub.get_name());
        let own: Vec<&str> = all.lines().filter(|line| line.starts_with(&begins)).collect();
        match own.is_empty() || sub.get_after_help().is_some() {
            true => sub,
            false => sub.after_help(format!("Examples:\n{}", own.join("\n"))),
        }
    })
}

/// Parses the command line: the command and the shared options, or the exit status after help or one sentence on the mistake.
pub fn parse() -> Result<(Command, Global), ExitCode> {
    if std::env::args_os().count() == 1 {
        return Err(printed(output::print(FIRST), ExitCode::SUCCESS));
    }
    parsed(std::env::args_os().collect()).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            printed(error.print(), ExitCode::from(error.exit_code() as u8))
        }
        _ => {
            let words: Vec<String> = output::words().collect();
            stderr::say(&format!("error: {}", sentence(&command(), &words, &error)));
            ExitCode::from(2)
        }
    })
}

/// The exit status after help, which standard output may have refused.
fn printed(result: io::Result<()>, status: ExitCode) -> ExitCode {
    result.map_or_else(|refused| Failure::from(refused).report(), |()| status)
}

fn parsed(words: Vec<OsString>) -> Result<(Command, Global), clap::Error> {
    parsed_by(command(), words)
}

fn parsed_by(command: clap::Command, words: Vec<OsString>) -> Result<(Command, Global), clap::Error> {
    command.try_get_matches_from(normalised(words)).and_then(|matches| {
        let global =
            matches.subcommand().map_or_else(Global::default, |(name, sub)| match sub.subcommand() {
                Some(("run", own)) if APP_RUNS.iter().any(|(group, _)| *group == name) => Global::of(own),
                _ => Global::of(sub),
            });
        Ok((Args::from_arg_matches(&matches)?.command, global))
    })
}

/// A command by the words behind the program's name, as a report keeps them.
///
/// # Errors
/// A sentence on what is wrong with them.
pub fn again(words: &[String]) -> Result<(Command, Global), String> {
    let words = std::iter::once("pellucid").chain(words.iter().map(String::as_str)).map(OsString::from);
    parsed(words.collect()).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
        format!("its command is refused: {first}")
    })
}

/// The command line as the parser takes it: `help COMMAND` is `COMMAND --help`, and several overrides may follow one `--set`.
fn normalised(words: Vec<OsString>) -> Vec<OsString> {
    let mut words = words;
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    let is_app_run = words.get(1).is_some_and(|word| APP_RUNS.iter().any(|(group, _)| word == group))
        && words.get(2).is_some_and(|word| word == "run");
    if is_app_run || words.get(1).is_some_and(|word| word == "run" || word == "compare") {
        words = workload::join_switches(words);
    }
    let mut out: Vec<OsString> = Vec::new();
    // After `--set` and its value; the value may also follow `=`.
    let mut in_sets = false;
    for word in words {
        let (before, last) = (out.len().checked_sub(2).map(|at| out[at] == "--set"), out.last());
        in_sets = match last {
            Some(last) if last == "--set" => true,
            Some(last) if last.to_str().is_some_and(|last| last.starts_with("--set=")) => true,
            _ => in_sets && before == Some(true),
        };
        let another = in_sets && out.last().is_some_and(|last| last != "--set") && is_override(&word);
        if another {
            out.push("--set".into());
        }
        out.push(word);
    }
    out
}

/// Returns whether a word is `KEY=VALUE`, and cannot be a drive with overrides of its own.
fn is_override(word: &OsStr) -> bool {
    let key = word.to_str().and_then(|word| word.split_once('=')).map(|(key, _)| key);
    let in_keys = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    key.is_some_and(|key| key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(in_keys))
}

/// Explains the mistake in the command line in one sentence; `words` are the words after the program's name.
fn sentence(command: &clap::Command, words: &[String], error: &clap::Error) -> String {
    let first = words.first().map_or("", String::as_str);
    let sub = command.find_subcommand(first);
    let inner = inner_of(sub, words);
    let asked = inner.map_or(first.to_string(), |inner| format!("{first} {}", inner.get_name()));
    if let (ErrorKind::UnknownArgument, Some(sub), Some(ContextValue::String(option))) =
        (error.kind(), sub, error.get(ContextKind::InvalidArg))
    {
        let others = takers(command, option);
        if !others.is_empty() && !has(inner.unwrap_or(sub), option) {
            let why = WITHOUT_JSON.iter().find(|(name, _)| option == "--json" && *name == asked);
            let why = why.map_or(String::new(), |(_, why)| format!("; {why}"));
            return format!("{option} means nothing to {asked}; allowed: with {}{why}", others.join(", "));
        }
    }
    if let Some(text) = needed(command, &asked, words, error) {
        return text;
    }
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(arg))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && arg.starts_with('-')
        && arg[1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let pair =
            words.windows(2).find(|pair| pair[0].starts_with("--") && pair[1].starts_with(arg.as_str()));
        let (option, value) = pair.map_or((asked.as_str(), arg.as_str()), |pair| (&pair[0], &pair[1]));
        return format!("{option}: {value} is a negative number; allowed: numbers from 0");
    }
    if let Some(text) = invalid_value(error) {
        return text;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let parts = text.split("\n\n").filter(|part| {
        !["Usage:", "For more information", "tip: to pass"].iter().any(|no| part.trim_start().starts_with(no))
    });
    let parts: Vec<String> = parts
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .map(|part| part.trim_start_matches("tip: ").to_string())
        .filter(|part| !part.is_empty())
        .collect();
    let text = parts.join("; ");
    if text.contains("allowed: ") {
        return text;
    }
    match sub {
        Some(sub) => format!("{text}; see pellucid {} --help", sub.get_name()),
        None => format!("{text}; see pellucid --help"),
    }
}

/// The command of a group that the command line names; `None`: the group itself, or a command without others.
fn inner_of<'a>(group: Option<&'a clap::Command>, words: &[String]) -> Option<&'a clap::Command> {
    let named = words.iter().skip(1).find(|word| !word.starts_with('-'))?;
    group?.find_subcommand(named)
}

/// The commands that take an option: a group, or else those of its commands that take it.
fn takers(command: &clap::Command, option: &str) -> Vec<String> {
    let of_group = |sub: &clap::Command| {
        let inner = sub.get_subcommands().filter(|inner| has(inner, option));
        inner.map(|inner| format!("{} {}", sub.get_name(), inner.get_name())).collect()
    };
    let named = |sub: &clap::Command| match has(sub, option) {
        true => vec![sub.get_name().to_string()],
        false => of_group(sub),
    };
    command.get_subcommands().flat_map(named).collect()
}

/// The sentence on an option without another one that it needs; `None`: the command itself lacks an argument.
fn needed(command: &clap::Command, asked: &str, words: &[String], error: &clap::Error) -> Option<String> {
    let lacking = |line: &[&str]| {
        let line = ["pellucid"].iter().chain(line).map(OsString::from).collect();
        let refused = command.clone().try_get_matches_from(normalised(line)).err();
        refused.map_or(Vec::new(), |error| missing(&error))
    };
    let all = missing(error);
    let path: Vec<&str> = asked.split(' ').collect();
    let always = if all.is_empty() { return None } else { lacking(&path) };
    words.iter().enumerate().filter(|(_, word)| word.starts_with("--")).find_map(|(at, word)| {
        let option = word.split('=').next().unwrap_or(word);
        let value = words.get(at + 1).filter(|next| !next.starts_with('-') && !word.contains('='));
        let line: Vec<&str> =
            path.iter().copied().chain([word.as_str()]).chain(value.map(String::as_str)).collect();
        let own = lacking(&line).into_iter().filter(|need| all.contains(need) && !always.contains(need));
        let own: Vec<String> = own.map(|need| need.replace(['<', '>'], "")).collect();
        (!own.is_empty()).then(|| format!("{option}: allowed: with {}", own.join(" and ")))
    })
}

/// The arguments that a command line lacks.
fn missing(error: &clap::Error) -> Vec<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(args))) => args.clone(),
        _ => Vec::new(),
    }
}

/// Returns whether a command has an option, given as `--name` or `-n`.
fn has(command: &clap::Command, option: &str) -> bool {
    let named = |arg: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => option.strip_prefix('-').and_then(|short| short.chars().next()) == arg.get_short(),
    };
    command.get_arguments().any(named)
}

/// The sentence on a value that an option does not take; `None`: something else is wrong.
fn invalid_value(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (value, arg) = (text(ContextKind::InvalidValue)?, text(ContextKind::InvalidArg)?);
    let begin = format!("invalid value '{value}' for '{arg}'");
    if error.kind() == ErrorKind::ValueValidation {
        let why = std::error::Error::source(error)?.to_string();
        let mark = if why.starts_with("allowed: ") { ";" } else { ":" };
        return Some(format!("{begin}{mark} {why}"));
    }
    let Some(ContextValue::Strings(words)) = error.get(ContextKind::ValidValue) else { return None };
    let similar = text(ContextKind::SuggestedValue);
    let similar = similar.map_or(String::new(), |word| format!("; a similar value exists: '{word}'"));
    // Without a value the parser has a sentence of its own.
    (!value.is_empty()).then(|| format!("{begin}; allowed: {}{similar}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The long options that the help of each command lists, also of those in groups.
    fn options(command: &clap::Command) -> BTreeMap<String, BTreeSet<String>> {
        let of = |sub: &clap::Command| -> BTreeSet<String> {
            let shown = sub.get_arguments().filter(|arg| !arg.is_hide_set());
            shown.filter_map(clap::Arg::get_long).map(|name| format!("--{name}")).collect()
        };
        let mut each = BTreeMap::new();
        for (name, _) in COMMON {
            let sub = command.find_subcommand(name).expect("a command");
            let shared =
                sub.get_arguments().filter(|arg| arg.is_global_set()).filter_map(clap::Arg::get_long);
            let shared: BTreeSet<String> = shared.map(|name| format!("--{name}")).collect();
            for inner in sub.get_subcommands() {
                each.insert(format!("{name} {}", inner.get_name()), &of(inner) | &shared);
            }
            each.insert(name.to_string(), of(sub));
        }
        each
    }

    /// As `the_command_refuses_options_of_others` (tests/it/options.rs) has it of a process for each command, for each option of all others.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn a_command_refuses_the_options_of_others_and_names_their_commands() {
        let command = command();
        let each = options(&command);
        let all: BTreeSet<&String> = each.values().flatten().collect();
        assert!(all.len() > 80, "{}", all.len());
        for (name, own) in &each {
            for option in all.iter().filter(|option| !own.contains(**option)) {
                let words: Vec<String> = name.split(' ').chain([option.as_str()]).map(String::from).collect();
                let line = std::iter::once("pellucid").chain(words.iter().map(String::as_str));
                let refused = parsed_by(command.clone(), line.map(OsString::from).collect());
                let error = refused.expect_err("an option that the command does not have");
                let said = sentence(&command, &words, &error);
                // Another name of one that the command has.
                if said.contains("a value is required") || said.contains("required arguments") {
                    assert_eq!((name.as_str(), option.as_str()), ("age", "--image"), "{said}");
                    continue;
                }
                let start = format!("{option} means nothing to {name}; allowed: with ");
                assert!(said.starts_with(&start) && !said.contains('\n'), "{name} {option}: {said}");
                // Behind the names, of some, what to use instead.
                let names = said[start.len()..].split("; ").next().unwrap_or_default();
                for other in names.split(", ") {
                    let alias = (other, option.as_str()) == ("age", "--image");
                    assert!(alias || each[other].contains(*option), "{other} has no {option}");
                }
            }
        }
    }

    /// The words of an option with a value that it takes; `None`: it is no option.
    fn given(command: &clap::Command, sub: &str, arg: &clap::Arg) -> Option<Vec<String>> {
        let option = format!("--{}", arg.get_long()?);
        if !arg.get_action().takes_values() {
            return Some(vec![option]);
        }
        let own: Vec<String> =
            arg.get_possible_values().iter().map(|word| word.get_name().to_string()).collect();
        let others = [
            "1",
            "2",
            "a=file",
            "ffdhe2048",
            "127.0.0.1:1",
            "1ms",
            "1ms..2ms",
            "instant",
            "power-cut@2s",
            "json",
            "text",
            "none",
            "msr",
            "fold",
            "io-error:on=read",
            "5x2",
            "/tmp",
            "nqn.2014-08.org.example:a",
        ];
        let is_taken = |value: &&str| {
            let line = ["pellucid", sub, &option, value].map(OsString::from);
            let refused = command.clone().try_get_matches_from(line).err().map(|error| error.kind());
            !matches!(refused, Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue))
        };
        let value = own.iter().map(String::as_str).chain(others).find(is_taken);
        let value = value.unwrap_or_else(|| panic!("{sub} {option} takes none of {own:?} and {others:?}"));
        Some(vec![option, value.to_string()])
    }

    /// The parser drops a need where the needed option conflicts with another one, so both have to conflict with that.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn an_option_whose_need_conflicts_with_another_option_does_so_too() {
        let command = command();
        let mut tried = 0;
        for sub in command.get_subcommands() {
            let name = sub.get_name();
            let refusal = |words: &[String]| {
                let line = ["pellucid", name].into_iter().map(String::from).chain(words.iter().cloned());
                let refused = command.clone().try_get_matches_from(line);
                refused.err()
            };
            let lacking = |words: &[String]| refusal(words).map_or(Vec::new(), |error| missing(&error));
            let always = lacking(&[]);
            let options: Vec<(Vec<String>, &clap::Arg)> =
                sub.get_arguments().filter_map(|arg| Some((given(&command, name, arg)?, arg))).collect();
            for (needing, arg) in &options {
                let needs: Vec<String> =
                    lacking(needing).into_iter().filter(|need| !always.contains(need)).collect();
                let is_need = |other: &clap::Arg| {
                    needs.iter().any(|need| {
                        other
                            .get_long()
                            .is_some_and(|long| need.split(' ').next() == Some(&format!("--{long}")))
                    })
                };
                for (excluding, other) in options.iter().filter(|(_, other)| {
                    other.get_id() != arg.get_id()
                        && sub.get_arg_conflicts_with(other).iter().any(|arg| is_need(arg))
                }) {
                    tried += 1;
                    let both = [excluding.clone(), needing.clone()].concat();
                    let kind = refusal(&both).map(|error| error.kind());
                    assert_eq!(
                        kind,
                        Some(ErrorKind::ArgumentConflict),
                        "{name} {both:?}, of which {other} excludes {needs:?}"
                    );
                }
            }
        }
        assert!(tried >= 8, "{tried} pairs");
    }

    #[test]
    fn an_option_without_the_one_that_it_needs_is_named_with_it() {
        for (line, expected) in [
            ("serve jasmine --nbd 1 --dhchap a=k", "--dhchap: allowed: with --nvme-tcp ADDR"),
            ("serve jasmine --nbd 1 --tls-psk=a=k", "--tls-psk: allowed: with --nvme-tcp ADDR"),
            (
                "serve jasmine --nvme-tcp 1 --tls-verify-peer",
                "--tls-verify-peer: allowed: with --nbd ADDR and --tls DIR",
            ),
            (
                "serve jasmine --nvme-tcp 1 --remote-queues 3",
                "--remote-queues: allowed: with --remote ADDR[/NQN]",
            ),
            (
                "fire --probe x.img --poll-us 7",
                "the argument '--probe <DEVICE>' cannot be used with '--poll-us <N>'; see pellucid fire --help",
            ),
            ("fs mount x.img mnt --time instant", "--time: allowed: with --drive DRIVE"),
            ("run jasmine --timeline-slower 1s", "--timeline-slower: allowed: with --timeline FILE"),
            (
                "fs format x.img --time instant",
                "--time means nothing to fs format; allowed: with serve, cache, fire, kv, fs mount",
            ),
            (
                "kv replay x.csv --drive jasmine --poll-us 4",
                "--poll-us means nothing to kv replay; allowed: with serve, cache, fire, kv",
            ),
            (
                "serve --nbd 1",
                "the following required arguments were not provided: <DRIVE>...; see pellucid serve --help",
            ),
        ] {
            let words: Vec<String> = line.split(' ').map(String::from).collect();
            let whole = std::iter::once("pellucid".to_string()).chain(words.iter().cloned());
            let error = parsed_by(command(), whole.map(OsString::from).collect()).expect_err(line);
            assert_eq!(sentence(&command(), &words, &error), expected);
        }
    }
}
