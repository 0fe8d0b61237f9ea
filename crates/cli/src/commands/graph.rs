//! `pellucid graph`: programs on graphs that may be larger than memory.

use super::run::{AppRun, Run};
use crate::args::Global;
use crate::failure::Failure;
use crate::numbers::{number, whole};
use crate::output::warn;
use crate::progress::Bar;
use crate::subject::is_one_file;
use crate::workload::OfGraphs;
use crate::{interrupt, output};
use anyhow::anyhow;
use pellucid_flash::{FNV_BASIS, fnv1a};
use pellucid_graph::pagerank::PageRankConfig;
use pellucid_graph::prepare::PrepareError;
use pellucid_graph::text::EdgeFormat;
use pellucid_graph_files::{
    Config, Input, InputError, Job, JobError, OWN_BYTES, Outcome, Output, OutputError, Phase, Program,
    RowFormat, Storage, Target, Wanted, is_result,
};
use pellucid_lab::experiment::peak_memory_bytes;
use pellucid_output::{OutputFile, refuse_foreign};
use pellucid_text::format::{binary_bytes, bytes, count, percent, significant, span};
use pellucid_workload::trace::{decompressed_within, zstd_window_bytes};
use pellucid_workload::{Grammar, parse_bytes};
use serde_json::json;
use std::fs::{File, Metadata};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pellucid graph pagerank edges.txt.zst --memory 256MiB --out ranks.parquet
  pellucid graph components soc-LiveJournal1.txt.gz --top 5
  pellucid graph bfs edges.txt.zst --from 17 --out levels.csv
  pellucid graph sssp roads.mtx --from 17 --out distances.csv
  pellucid graph triangles edges.txt.zst --memory 256MiB
  pellucid graph run pagerank --drive jasmine --set media.blocks=64 --edges 1m

An edge list is text (SNAP: two vertices a line, and maybe a weight), Matrix Market, pairs of 32-bit numbers (--format binary) or
Parquet; the first three plain, gzip or zstd. What does not fit into --memory lies in --work meanwhile. A run that was killed goes on
from there when it is asked again.";

/// PageRank, components, distances and triangles of a graph that may be larger than the memory it is allowed
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Graph {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GraphCommand {
    /// PageRank of each vertex
    Pagerank {
        #[command(flatten)]
        common: Common,
        /// Most iterations
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..))]
        iterations: u32,
        /// End when the sum of all changes is below X
        #[arg(long, value_name = "X", default_value_t = 1e-6, value_parser = number)]
        tolerance: f64,
        /// Probability that the random walk follows an edge instead of restarting anywhere
        #[arg(long, value_name = "D", default_value_t = 0.85, value_parser = number)]
        damping: f64,
        /// Method of reading edges: windows, the engine's own; mmap, the system's, as a baseline
        #[arg(long, value_name = "HOW", default_value = "windows", value_parser = ["windows", "mmap"])]
        storage: String,
    },
    /// Connected components, ignoring edge direction
    Components {
        #[command(flatten)]
        common: Common,
    },
    /// Distance of each vertex from one vertex, in edges
    Bfs {
        #[command(flatten)]
        common: Common,
        /// The vertex to begin at
        #[arg(long, value_name = "VERTEX", value_parser = whole::<u32>(..))]
        from: u32,
    },
    /// Shortest distance of each vertex from one vertex, by weights
    Sssp {
        #[command(flatten)]
        common: Common,
        /// The vertex to begin at
        #[arg(long, value_name = "VERTEX", value_parser = whole::<u32>(..))]
        from: u32,
    },
    /// Number of triangles, ignoring edge direction
    Triangles {
        #[command(flatten)]
        common: Common,
    },
    /// Run a program on a described drive in simulated time, as a job with app does
    Run(Box<AppRun<OfGraphs>>),
}

/// Arguments of every program.
#[derive(Debug, clap::Args)]
struct Common {
    /// The edges
    #[arg(value_name = "EDGES")]
    edges: PathBuf,
    /// Memory that the whole process may take, such as 256MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: String,
    /// Write the value of each vertex to this file: .parquet, .csv, or columns with tabs (.tsv, .txt, or no ending)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file of --out whatever it holds; without this option only results of this command are replaced
    #[arg(long, requires = "out")]
    force: bool,
    /// Print the N largest values, or components
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<u32>(..=10_000))]
    top: u32,
    /// Format of the edges: text, matrix-market, binary or parquet [default: as name and first bytes show]
    #[arg(long, value_name = "NAME", value_parser = ["text", "matrix-market", "binary", "parquet"])]
    format: Option<String>,
    /// Columns of a Parquet file: from,to or from,to,weight [default: the first ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Threads that compute [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1024))]
    threads: Option<u32>,
    /// Directory for what does not fit into memory [default: beside the edges]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Keep the prepared graph: the next run with the same options starts from it
    #[arg(long)]
    keep: bool,
}

impl Graph {
    /// The run on a described drive that it is, if it is one.
    pub fn whole_run(self) -> Result<Option<Run>, Failure> {
        match self.command {
            GraphCommand::Run(command) => command.whole().map(Some),
            _ => Ok(None),
        }
    }

    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let (name, common, program, storage) = match self.command {
            GraphCommand::Run(command) => return command.whole()?.run(global),
            command => command.parts()?,
        };
        pellucid_graph_files::keep_little();
        let memory_bytes = parse_bytes(&common.memory, Grammar::Ours)
            .map_err(|error| Failure::asked(anyhow!("--memory {}: {error}", common.memory)))?;
        let format = Format::of(&common);
        refuse_without_meaning(&common, format, name, &program)?;
        let (file, data) = edges(&common)?;
        let window_bytes = window_bytes(&file, &common.edges, format);
        let not_graph = beside_graph(format, window_bytes);
        let Some(graph_bytes) = memory_bytes.checked_sub(not_graph).filter(|&bytes| bytes >= MEMORY_MIN)
        else {
            let (had, least) = (&common.memory, binary_bytes((not_graph + MEMORY_MIN) as f64));
            return Err(Failure::asked(anyhow!("--memory {had}: too small; allowed: at least {least}")));
        };
        let config = Config {
            origin: origin(&common, &program, storage, memory_bytes, &data)?,
            memory_bytes: graph_bytes,
            threads: common.threads.map_or_else(processors, |threads| threads as usize),
            storage,
            work: common.work.clone().unwrap_or_else(|| beside(&common.edges, data.is_file())),
            keep: common.keep,
            program: program.clone(),
        };
        let open = |wanted| open(&common, file, format, window_bytes, wanted);
        let began = Instant::now();
        let column = program.column().unwrap_or(("count", true));
        let target = common.out.as_deref().map(|out| target(out, &common)).transpose()?;
        let rows = Output::new(target, column, common.top as usize, graph_bytes / 8)
            .map_err(|error| failure(&common, not_graph, error.into()))?;
        interrupt::running("ending; asked again, the run goes on from what was prepared");
        let bar = Bar::new(global, Some(1));
        let mut look = |phase| {
            show(&bar, phase);
            if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let found = Job::new(config).and_then(|job| job.run(open, rows, &mut look));
        bar.clear();
        let (outcome, top) = found.map_err(|error| failure(&common, not_graph, error))?;
        if outcome.dropped {
            let work = common.work.clone().unwrap_or_else(|| beside(&common.edges, data.is_file()));
            let work = work.display();
            warn(
                global,
                [format!("{work}: its iterations are not as they were written; they were computed anew")],
            );
        }
        let seconds = began.elapsed().as_secs_f64();
        let told = Told {
            name,
            common: &common,
            program: &program,
            memory_bytes,
            outcome: &outcome,
            top: &top,
            seconds,
        };
        let text = if global.json { told.json() } else { told.text() };
        Ok(output::print(&text)?)
    }
}

/// Refuses options that mean nothing to the program or the format.
fn refuse_without_meaning(
    common: &Common,
    format: Format,
    name: &str,
    program: &Program,
) -> Result<(), Failure> {
    if let (Format::Table, true) = (format, common.columns.len() == 1 || common.columns.len() > 3) {
        let names = common.columns.join(",");
        return Err(Failure::asked(anyhow!("--columns {names}; allowed: two or three names")));
    }
    if !common.columns.is_empty() && format != Format::Table {
        return Err(Failure::asked(anyhow!("--columns: allowed: with Parquet")));
    }
    if let Some(out) = &common.out {
        output::refuse_answer_place("--out", out)?;
    }
    if program.column().is_none() && common.out.is_some() {
        return Err(Failure::asked(anyhow!("--out means nothing to {name}: it gives one number")));
    }
    Ok(())
}

/// Opens the edges.
fn edges(common: &Common) -> Result<(File, Metadata), Failure> {
    let about = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", common.edges.display());
    let file = File::open(&common.edges).map_err(|error| Failure::asked(about(&error)))?;
    let data = file.metadata().map_err(|error| Failure::asked(about(&error)))?;
    if data.is_dir() {
        return Err(Failure::asked(about(&"is a directory; allowed: a file of edges")));
    }
    Ok((file, data))
}

/// Less for the graph is of no use: buffers would take all of it.
const MEMORY_MIN: u64 = 1 << 20;
/// zstd's window at the usual levels, and the memory that decompression takes beside and for it.
const WINDOW_BYTES: u64 = 8 << 20;
const ZSTD_BYTES: u64 = 12 << 20;
/// Memory of a table: pages of its columns.
const TABLE_BYTES: u64 = 8 << 20;

/// The largest window that a zstd frame of the edges may have: that of the first, or a usual one; 0: there are no frames.
fn window_bytes(file: &File, edges: &Path, format: Format) -> u64 {
    let mut first = [0; 18];
    match format {
        Format::Table => 0,
        Format::Bytes(format) if is_plain(edges, format) => 0,
        Format::Bytes(_) => match file.read_at(&mut first, 0) {
            Ok(length) => match zstd_window_bytes(&first[..length]) {
                Some(bytes) => bytes.max(WINDOW_BYTES),
                // A frame to be skipped may come first.
                None if first[1..4] == [0x2a, 0x4d, 0x18] || ending(edges) == "zst" => WINDOW_BYTES,
                None => 0,
            },
            // A pipe does not say what will come.
            Err(_) => WINDOW_BYTES,
        },
    }
}

/// Memory that is not for the graph.
fn beside_graph(format: Format, window_bytes: u64) -> u64 {
    OWN_BYTES
        + match (format, window_bytes) {
            (Format::Table, _) => TABLE_BYTES,
            (_, 0) => 0,
            // Larger ones take up to a quarter more than they are: measured.
            (_, bytes) => ZSTD_BYTES + (bytes - WINDOW_BYTES) / 4 * 5,
        }
}

/// Any bytes may begin a binary list, those of a compressed file too.
fn is_plain(edges: &Path, format: Option<EdgeFormat>) -> bool {
    format == Some(EdgeFormat::Binary) && !matches!(ending(edges).as_str(), "gz" | "zst")
}

impl GraphCommand {
    fn parts(self) -> Result<(&'static str, Common, Program, Storage), Failure> {
        let windows = Storage::Windows;
        Ok(match self {
            GraphCommand::Pagerank { common, iterations, tolerance, damping, storage } => {
                if !(0.0..1.0).contains(&damping) {
                    return Err(Failure::asked(anyhow!("--damping {damping}; allowed: from 0 to below 1")));
                }
                if tolerance.is_nan() || tolerance < 0.0 {
                    return Err(Failure::asked(anyhow!(
                        "--tolerance {tolerance}; allowed: numbers from 0 on"
                    )));
                }
                let storage = if storage == "mmap" { Storage::Mapped } else { windows };
                let config = PageRankConfig { damping, iterations, tolerance };
                ("pagerank", common, Program::PageRank(config), storage)
            }
            GraphCommand::Components { common } => ("components", common, Program::Components, windows),
            GraphCommand::Bfs { common, from } => ("bfs", common, Program::Bfs(from), windows),
            GraphCommand::Sssp { common, from } => ("sssp", common, Program::Sssp(from), windows),
            GraphCommand::Triangles { common } => ("triangles", common, Program::Triangles, windows),
            GraphCommand::Run(_) => unreachable!("it is a run of its own"),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Bytes(Option<EdgeFormat>),
    Table,
}

impl Format {
    fn of(common: &Common) -> Format {
        match (common.format.as_deref(), ending(&common.edges).as_str()) {
            (Some("parquet"), _) | (None, "parquet") => Format::Table,
            (Some("binary"), _) => Format::Bytes(Some(EdgeFormat::Binary)),
            (Some("matrix-market"), _) => Format::Bytes(Some(EdgeFormat::MatrixMarket)),
            (Some(_), _) => Format::Bytes(Some(EdgeFormat::Text)),
            // A file with the name of a matrix is read as one, or refused.
            (None, "mtx") => Format::Bytes(Some(EdgeFormat::MatrixMarket)),
            (None, "gz" | "zst")
                if ending(Path::new(common.edges.file_stem().unwrap_or_default())) == "mtx" =>
            {
                Format::Bytes(Some(EdgeFormat::MatrixMarket))
            }
            (None, _) => Format::Bytes(None),
        }
    }
}

fn open(
    common: &Common,
    file: File,
    format: Format,
    window_bytes: u64,
    wanted: Wanted,
) -> Result<Input, InputError> {
    match format {
        Format::Table => Ok(Input::table(file, common.columns.clone(), wanted)),
        Format::Bytes(format) => {
            let file = Box::new(file);
            let plain = is_plain(&common.edges, format);
            let bytes = if plain { file } else { decompressed_within(file, window_bytes)? };
            Ok(Input::bytes(bytes, format, wanted)?)
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The file of results, which takes its name when it is complete.
fn target(out: &Path, common: &Common) -> Result<Target, Failure> {
    if is_one_file(out, &common.edges) {
        let out = out.display();
        return Err(Failure::asked(anyhow!("--out {out}: has the edges; allowed: another file")));
    }
    let format = match ending(out).as_str() {
        "parquet" => RowFormat::Table,
        "csv" => RowFormat::Text(','),
        "" | "tsv" | "txt" => RowFormat::Text('\t'),
        // A pipe may have any name.
        _ if out.exists() && !out.is_file() => RowFormat::Text('\t'),
        other => {
            let why = match other {
                "gz" | "zst" | "bz2" | "xz" => "results are not compressed".into(),
                _ => format!("no format has the ending .{other}"),
            };
            let allowed = ".parquet, .csv, .tsv, .txt, or no ending";
            return Err(Failure::asked(anyhow!("--out {}: {why}; allowed: {allowed}", out.display())));
        }
    };
    refuse_foreign(out, common.force, is_result)?;
    let mut begun = OutputFile::create(out)?;
    let file = begun.writer()?;
    Ok(Target { file, format, complete: Box::new(move || Ok(begun.commit()?)) })
}

/// Returns the file name extension in lower case; empty if there is none.
fn ending(path: &Path) -> String {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase()
}

/// The work directory: beside the edges, and so on a disk large enough for them. Edges from a pipe have no directory.
fn beside(edges: &Path, is_file: bool) -> PathBuf {
    let mut path = if is_file { edges.as_os_str().to_owned() } else { "edges".into() };
    path.push(".work");
    PathBuf::from(path)
}

/// Returns a fingerprint of everything that must be unchanged if a prepared graph is to be used again.
fn origin(
    common: &Common,
    program: &Program,
    storage: Storage,
    memory_bytes: u64,
    data: &Metadata,
) -> Result<u64, Failure> {
    let program = match program {
        // More iterations, or another end, go on where fewer have ended.
        Program::PageRank(config) => format!("pagerank {}", config.damping),
        Program::Components | Program::Bfs(_) => "edges".into(),
        Program::Sssp(_) => "weights".into(),
        Program::Triangles => "triangles".into(),
    };
    // A pipe has no name of its own, and is never the same again.
    let (path, process) = match data.is_file() {
        true => (common.edges.canonicalize().map_err(Failure::asked)?, 0),
        false => (common.edges.clone(), std::process::id()),
    };
    let told = format!(
        "{} {process}\n{} {} {}\n{program} {storage:?} {memory_bytes} {:?} {:?}",
        path.display(),
        data.len(),
        data.mtime(),
        data.mtime_nsec(),
        common.format,
        common.columns
    );
    Ok(fnv1a(FNV_BASIS, told.into_bytes()))
}

fn show(bar: &Bar, phase: Phase) {
    match phase {
        Phase::Read(edges) => bar.say(&format!("reading: {} edges", count(edges))),
        Phase::Prepare(share) => {
            bar.part(share.done, share.of, "ordering edges");
        }
        Phase::Compute(share, rounds) => {
            bar.part(share.done, share.of, &format!("computing: {} complete", count(rounds.into())))
        }
    }
}

/// `not_graph`: memory of `--memory` that is not for the graph.
fn failure(common: &Common, not_graph: u64, error: JobError) -> Failure {
    let edges = common.edges.display();
    match error {
        JobError::Interrupted => {
            Failure::stopped("interrupted; asked again, it goes on from what was prepared")
        }
        JobError::Input(error @ (InputError::Read(_) | InputError::Panic)) => {
            Failure::work(anyhow!("{edges}: {error}"))
        }
        JobError::Input(error) => Failure::asked(anyhow!("{edges}: {error}")),
        JobError::Work(why) => Failure::of_sentence(why),
        JobError::Prepare(PrepareError::Store(error)) => Failure::work(anyhow!("{error}")),
        JobError::Prepare(PrepareError::Memory { what, needed, .. }) => {
            let least = binary_bytes((needed + not_graph) as f64);
            Failure::asked(anyhow!("{edges}: {what} need at least --memory {least}"))
        }
        // It names the file itself.
        JobError::Output(OutputError::Complete(error)) => Failure::work(anyhow!(error)),
        JobError::Output(error) => {
            let out = common.out.as_deref().unwrap_or(Path::new("--out"));
            Failure::work(anyhow!("{}: {error}", out.display()))
        }
        JobError::Prepare(error) => Failure::asked(anyhow!("{edges}: {error}")),
        error @ (JobError::Source { .. } | JobError::Empty) => Failure::asked(anyhow!("{edges}: {error}")),
        error => Failure::work(anyhow!("{error}")),
    }
}

/// Summary at the end of a run.
struct Told<'a> {
    name: &'a str,
    common: &'a Common,
    program: &'a Program,
    memory_bytes: u64,
    outcome: &'a Outcome,
    top: &'a [(u32, f64)],
    seconds: f64,
}

impl Told<'_> {
    fn text(&self) -> String {
        let outcome = self.outcome;
        let [read, prepare, compute] = outcome.seconds;
        let mut text = format!(
            "graph {}  {}  {} vertices, {} edges\n\n",
            self.name,
            self.common.edges.display(),
            count(u64::from(outcome.vertices)),
            count(outcome.edges)
        );
        let prepared = match outcome.reopened {
            true => "prepared before".into(),
            false => format!("read {}, ordered {}", span(read), span(prepare)),
        };
        text += &format!("time      {} in all: {prepared}, computed {}\n", span(self.seconds), span(compute));
        let place = match outcome.in_memory {
            true => "all in memory".into(),
            false => {
                let (written, read) = outcome.moved_bytes;
                let (intervals, chunks) = outcome.windows;
                let moved = format!("wrote {}, read {}", bytes(written as f64), bytes(read as f64));
                format!("{moved} in {intervals} x {chunks} windows")
            }
        };
        let peak = peak_memory_bytes().map_or("unknown".into(), |peak| binary_bytes(peak as f64));
        let allowed = binary_bytes(self.memory_bytes as f64);
        text += &format!("memory    {allowed} allowed, {peak} taken; {place}\n");
        text += &format!("{}\n", self.found());
        if let (Some((column, whole)), false) = (self.program.column(), self.top.is_empty()) {
            let (name, column) = self.names(column);
            text += &format!("\n  {name:>10}  {column}\n");
            for &(vertex, value) in self.top {
                let value = if whole { count(value as u64) } else { significant(value) };
                text += &format!("  {vertex:>10}  {value}\n");
            }
        }
        text
    }

    /// Returns the names of the ranked objects and of the values that rank them: vertices by their values, or components by their numbers
    /// of vertices.
    fn names(&self, column: &'static str) -> (&'static str, &'static str) {
        if *self.program == Program::Components { ("component", "vertices") } else { ("vertex", column) }
    }

    fn found(&self) -> String {
        let outcome = self.outcome;
        let found = outcome.count.unwrap_or(0);
        match self.program {
            Program::PageRank(_) => {
                let change = significant(outcome.change.unwrap_or(0.0));
                format!(
                    "ranks     {} iterations, the last changed them by {change} in all",
                    outcome.iterations
                )
            }
            Program::Components => format!("found     {} components", count(found)),
            Program::Bfs(from) | Program::Sssp(from) => {
                let share = percent(found as f64 / f64::from(outcome.vertices.max(1)));
                format!("reached   {} vertices from {from} ({share})", count(found))
            }
            Program::Triangles => format!("found     {} triangles", count(found)),
        }
    }

    fn json(&self) -> String {
        let outcome = self.outcome;
        let [read, prepare, compute] = outcome.seconds;
        let (written, fetched) = outcome.moved_bytes;
        let (name, column) = self.names("value");
        let top: Vec<_> =
            self.top.iter().map(|(vertex, value)| json!({name: vertex, column: value})).collect();
        let value = json!({
            "program": self.name,
            "edges_file": self.common.edges,
            "vertices": outcome.vertices,
            "edges": outcome.edges,
            "iterations": outcome.iterations,
            "change": outcome.change,
            "count": outcome.count,
            "reopened": outcome.reopened,
            "in_memory": outcome.in_memory,
            "memory_bytes_allowed": self.memory_bytes,
            "peak_memory_bytes": peak_memory_bytes(),
            "work_written_bytes": written,
            "work_read_bytes": fetched,
            "read_seconds": read,
            "prepare_seconds": prepare,
            "compute_seconds": compute,
            "wall_seconds": self.seconds,
            "top": top,
        });
        format!("{value:#}\n")
    }
}
