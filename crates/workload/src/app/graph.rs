//! Graph programs as jobs: `app = "pagerank"` and so on.

use super::refuse;
use crate::units::{Amount, Grammar, parse_amount, parse_time};
use crate::values::{Allowed, Parsed, allowed, bytes_from, count};
use crate::{BlockSize, Job, JobError};
use pellucid_flash::Nanos;
use std::path::PathBuf;
use strum::{EnumString, IntoStaticStr, VariantNames};

/// A graph program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphProgram {
    /// PageRank of each vertex.
    PageRank {
        /// `iterations`: the maximum.
        iterations: u32,
        /// `damping`.
        damping: f64,
        /// `tolerance`: ends when the sum of all changes is below this.
        tolerance: f64,
    },
    /// Connected components.
    Components,
    /// Distances from vertex `from_vertex`, in edges.
    Bfs {
        /// `from_vertex`.
        from: u32,
    },
    /// Distances from vertex `from_vertex`, by weights.
    Sssp {
        /// `from_vertex`.
        from: u32,
    },
    /// Number of triangles.
    Triangles,
}

/// Storage of the graph's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum GraphEngine {
    /// Logical blocks of a drive.
    #[default]
    Original,
    /// Two block-mapped ranges of the flash library's policy level.
    Policy,
}

impl GraphEngine {
    /// Its name, as in `engine`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Source of the edges.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphSource {
    /// `rmat`: R-MAT with Graph500's quarters.
    Rmat,
    /// `power-law:OUT:INTO`: exponents of the numbers of edges that leave and reach a vertex.
    PowerLaw(f64, f64),
    /// `file:PATH`: an edge list.
    File(PathBuf),
}

/// Costs on the host's processor, per command, completion, KiB, edge or vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCosts {
    /// `cpu_request`.
    pub request: Nanos,
    /// `cpu_completion`.
    pub completion: Nanos,
    /// `cpu_kib`.
    pub kib: Nanos,
    /// `cpu_sort`: per edge, in each of the two passes of preparation.
    pub sort: Nanos,
    /// `cpu_follow`: per edge.
    pub follow: Nanos,
    /// `cpu_apply`: per vertex.
    pub apply: Nanos,
}

/// Settings of a graph program; `None`: derived from the drive or the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphApp {
    /// `app`.
    pub program: GraphProgram,
    /// `engine`.
    pub engine: GraphEngine,
    /// `graph`.
    pub source: GraphSource,
    /// `vertices` of a random graph.
    pub vertices: Option<u32>,
    /// `edges` of a random graph.
    pub edges: Option<u64>,
    /// `graph_memory`.
    pub memory_bytes: Option<u64>,
    /// `shards`: share of the storage for write-once data.
    pub shards: Option<Amount>,
    /// `segment`: bytes of a piece of storage that is allocated and freed.
    pub segment_bytes: Option<u64>,
    /// `ops`: spare percentage of each range, at the policy level.
    pub ops_percent: u32,
    /// `bs`: bytes of a command.
    pub io_bytes: u64,
    /// `iodepth`: maximum number of commands in flight.
    pub depth: u32,
    /// `edge_block`: bytes of edges read at a time.
    pub edge_block_bytes: Option<u64>,
    /// Costs on the host's processor.
    pub costs: GraphCosts,
}

/// Names of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum GraphName {
    Pagerank,
    Components,
    Bfs,
    Sssp,
    Triangles,
}

impl GraphName {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl GraphProgram {
    /// Its name, as in `app`.
    pub fn name(self) -> &'static str {
        match self {
            GraphProgram::PageRank { .. } => GraphName::Pagerank,
            GraphProgram::Components => GraphName::Components,
            GraphProgram::Bfs { .. } => GraphName::Bfs,
            GraphProgram::Sssp { .. } => GraphName::Sssp,
            GraphProgram::Triangles => GraphName::Triangles,
        }
        .name()
    }
}

/// Default size of commands in bytes, and default queue depth.
const IO_BYTES: u64 = 128 << 10;
const DEPTH: u32 = 32;
/// Spare blocks of a range, for writes that start before old blocks are erased.
const OPS_PERCENT: u32 = 5;
/// Processor time per edge: GraphChi took 4.2 s for 16.8 million edges and 4 iterations, 79 % of it in the two passes of preparation, a share
/// **fitted** to the published percentages of claim G1.
const SORT: Nanos = Nanos(98);
const FOLLOW: Nanos = Nanos(13);
/// Iterations, tolerance and damping of `pellucid graph pagerank`.
const ITERATIONS: u32 = 20;
const TOLERANCE: f64 = 1e-6;
const DAMPING: f64 = 0.85;

/// Keys of graph programs.
pub(super) const OF_GRAPHS: &[&str] = &[
    "engine",
    "graph",
    "vertices",
    "edges",
    "graph_memory",
    "iterations",
    "damping",
    "tolerance",
    "from_vertex",
    "shards",
    "segment",
    "ops",
    "bs",
    "iodepth",
    "edge_block",
    "cpu_request",
    "cpu_completion",
    "cpu_kib",
    "cpu_sort",
    "cpu_follow",
    "cpu_apply",
    "namespace",
    "target",
];

/// Keys that only graph programs have.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphKeys {
    engine: GraphEngine,
    source: Option<GraphSource>,
    vertices: Option<u32>,
    edges: Option<u64>,
    memory_bytes: Option<u64>,
    iterations: Option<u32>,
    damping: Option<f64>,
    tolerance: Option<f64>,
    from: Option<u32>,
    shards: Option<Amount>,
    edge_block_bytes: Option<u64>,
    completion: Nanos,
    sort: Option<Nanos>,
    follow: Option<Nanos>,
    apply: Option<Nanos>,
}

/// Values of keys shared with other applications.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedKeys {
    pub segment_bytes: Option<u64>,
    pub ops_percent: Option<u32>,
    pub request: Option<Nanos>,
    pub kib: Option<Nanos>,
}

impl GraphKeys {
    pub fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        let time = |value: &str| parse_time(value, Nanos(1), base);
        match key {
            "engine" => {
                self.engine = value.parse().map_err(|_| Allowed(GraphEngine::VARIANTS.join(", ")))?;
            }
            "graph" => self.source = Some(source(value)?),
            "vertices" => self.vertices = Some(count(value, base, 2, (u32::MAX - 1).into())? as u32),
            "edges" => self.edges = Some(count(value, base, 1, 1 << 40)?),
            "graph_memory" => self.memory_bytes = Some(bytes_from(value, base, 1 << 16)?),
            "iterations" => self.iterations = Some(count(value, base, 1, u32::MAX.into())? as u32),
            "damping" => self.damping = Some(number(value, 0.0..1.0, "a number from 0 to below 1")?),
            "tolerance" => {
                self.tolerance = Some(number(value, 0.0..f64::INFINITY, "a number from 0 on")?);
            }
            "from_vertex" => self.from = Some(count(value, base, 0, (u32::MAX - 1).into())? as u32),
            "shards" => {
                self.shards = match parse_amount(value, base)? {
                    Amount::Percent(1..=90) => Some(parse_amount(value, base)?),
                    Amount::Bytes(1..) => Some(parse_amount(value, base)?),
                    Amount::Percent(_) | Amount::Bytes(0) => return allowed("1% to 90%, or bytes"),
                }
            }
            "edge_block" => self.edge_block_bytes = Some(bytes_from(value, base, 1 << 12)?),
            "cpu_completion" => self.completion = time(value)?,
            "cpu_sort" => self.sort = Some(time(value)?),
            "cpu_follow" => self.follow = Some(time(value)?),
            "cpu_apply" => self.apply = Some(time(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds the program of a job.
    pub fn build(&self, name: GraphName, job: &Job, shared: SharedKeys) -> Result<GraphApp, JobError> {
        self.check(name, job)?;
        let given = |key: &str| job.written.has(key);
        let [BlockSize::Fixed(read_bytes), BlockSize::Fixed(write_bytes), _] = job.block else {
            unreachable!("bsrange and bssplit are refused")
        };
        if given("bs") && read_bytes != write_bytes {
            return refuse(
                "bs",
                &format!("{read_bytes},{write_bytes}"),
                "one size with a program on a graph",
            );
        }
        let program = match name {
            GraphName::Pagerank => GraphProgram::PageRank {
                iterations: self.iterations.unwrap_or(ITERATIONS),
                damping: self.damping.unwrap_or(DAMPING),
                tolerance: self.tolerance.unwrap_or(TOLERANCE),
            },
            GraphName::Components => GraphProgram::Components,
            GraphName::Bfs => GraphProgram::Bfs { from: self.from.unwrap_or(0) },
            GraphName::Sssp => GraphProgram::Sssp { from: self.from.unwrap_or(0) },
            GraphName::Triangles => GraphProgram::Triangles,
        };
        Ok(GraphApp {
            program,
            engine: self.engine,
            source: self.source.clone().unwrap_or(GraphSource::Rmat),
            vertices: self.vertices,
            edges: self.edges,
            memory_bytes: self.memory_bytes,
            shards: self.shards,
            segment_bytes: shared.segment_bytes,
            ops_percent: shared.ops_percent.unwrap_or(OPS_PERCENT),
            io_bytes: if given("bs") { read_bytes } else { IO_BYTES },
            depth: if given("iodepth") { job.iodepth } else { DEPTH },
            edge_block_bytes: self.edge_block_bytes,
            costs: GraphCosts {
                request: shared.request.unwrap_or_default(),
                completion: self.completion,
                kib: shared.kib.unwrap_or_default(),
                sort: self.sort.unwrap_or(SORT),
                follow: self.follow.unwrap_or(FOLLOW),
                apply: self.apply.unwrap_or(FOLLOW),
            },
        })
    }

    /// Refuses keys that this program does not use.
    fn check(&self, name: GraphName, job: &Job) -> Result<(), JobError> {
        let ranks = name == GraphName::Pagerank;
        let walks = matches!(name, GraphName::Bfs | GraphName::Sssp);
        let from_file = matches!(self.source, Some(GraphSource::File(_)));
        let rules: [(&'static str, bool, &str); 7] = [
            ("iterations", !ranks, "only with app = pagerank"),
            ("damping", !ranks, "only with app = pagerank"),
            ("tolerance", !ranks, "only with app = pagerank"),
            ("from_vertex", !walks, "only with app = bfs or sssp"),
            ("vertices", from_file, "not with graph = file:PATH, whose edges say"),
            ("edges", from_file, "not with graph = file:PATH, which has them"),
            ("ops", self.engine != GraphEngine::Policy, "only with engine = policy"),
        ];
        match rules.into_iter().find(|(key, wrong, _)| *wrong && job.written.has(key)) {
            Some((key, _, allowed)) => refuse(key, job.written.value_of(key), allowed),
            None => Ok(()),
        }
    }
}

/// Parses `rmat`, `power-law:OUT:INTO` or `file:PATH`.
fn source(value: &str) -> Parsed<GraphSource> {
    const ALLOWED: &str = "rmat, power-law:OUT:INTO (exponents above 1, to 4), file:PATH";
    if let Some(path) = value.strip_prefix("file:").filter(|path| !path.is_empty()) {
        return Ok(GraphSource::File(path.into()));
    }
    let exponent = |text: &str| text.parse::<f64>().ok().filter(|n| *n > 1.0 && *n <= 4.0);
    let parts: Vec<&str> = value.split(':').collect();
    let found = match parts[..] {
        ["rmat"] => Some(GraphSource::Rmat),
        ["power-law", out, into] => {
            exponent(out).zip(exponent(into)).map(|(out, into)| GraphSource::PowerLaw(out, into))
        }
        _ => None,
    };
    found.ok_or_else(|| Allowed(ALLOWED.into()))
}

fn number(value: &str, range: std::ops::Range<f64>, what: &str) -> Parsed<f64> {
    match value.parse::<f64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => allowed(what),
    }
}
