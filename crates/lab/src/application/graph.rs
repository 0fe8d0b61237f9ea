//! Out-of-core graph programs: the engine of `pellucid graph` in simulated time.
//!
//! ```text
//!   original     engine ─► DriveStore ─► Meter ─► a block namespace
//!   policy       engine ─► DriveStore ─► policy level, two block-mapped ranges ─► flash monitor ─► Meter ─► an open-channel namespace
//! ```
//! Edges come from memory, as if received over a network: reading them takes no simulated time. Three measured phases follow: *prepare* sorts the
//! edges into shards, *compute* iterates, *deliver* reads the values. Equal checksums of all values show that two runs computed the same.

use super::place::{Place, Wish};
use super::{Settings, refused};
use crate::drive::{AppDone, AppDrive, Lent, RunError, Target};
use pellucid_flash::{Drive, FNV_BASIS, Figure, FigureKind, Interface, Nanos, SimTime, fnv1a};
use pellucid_graph::drive::{Costs, DriveStore, DriveStoreConfig, Moved};
use pellucid_graph::edges::Edges;
use pellucid_graph::generate::{RandomGraph, with_weights};
use pellucid_graph::grid::Grid;
use pellucid_graph::pagerank::PageRankConfig;
use pellucid_graph::prepare::{Chunk, Intake, PrepareError};
use pellucid_graph::program::{BeginError, Computing, Program};
use pellucid_graph::store::StoreError;
use pellucid_graph::text::{EdgeFormat, EdgeReader};
use pellucid_graph::traverse::Distance;
use pellucid_graph::workers::Alone;
use pellucid_host::{Machine, Stack};
use pellucid_prism::{Gc, Mapping, Monitor, MonitorConfig, Policy, PolicyConfig, Request};
use pellucid_report::{
    ApplicationReport, Latency, LatencyRecorder, OperationReport, PartFigure, PhaseReport,
};
use pellucid_workload::trace::decompressed_within;
use pellucid_workload::{Backend, GraphApp, GraphEngine, GraphProgram, GraphSource, Job, JobError};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

/// Maximum number of edges of a random graph by default, which has one edge per this many bytes of storage. A third of the storage holds shards with
/// 4 bytes per edge; the rest meanwhile holds 8 bytes per edge.
const EDGES_MAX: u64 = 4 << 20;
const BYTES_EACH: u64 = 36;
/// Edges per vertex, as in Graph500.
const EDGES_OF_VERTEX: u64 = 16;
/// Minimum of the default memory.
const MEMORY_BYTES_MIN: u64 = 256 << 10;
/// Bytes of a segment on a drive without flash.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Minimum number of segments of the shards: each interval has at least two.
const SEGMENTS_MIN: u64 = 64;
/// Number of edges taken in at a time.
const INTAKE_EDGES: usize = 1 << 12;
/// Maximum window of a zstd frame.
const ZSTD_WINDOW_BYTES: u64 = 128 << 20;

fn value<T>(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.to_string(), allowed: allowed.into() })
}

/// Returns the place of a program: blocks, or flash managed by its library.
fn place(target: &impl Target, job: &Job, work: &GraphApp) -> Result<Place, JobError> {
    let backend = match work.engine {
        GraphEngine::Original => Backend::Block,
        GraphEngine::Policy => Backend::Function,
    };
    let wish = Wish { backend: Some(backend), by: ("engine", work.engine.name()) };
    let place = Place::of(target, job, wish)?;
    // The monitor takes the first flash namespace that it finds; on a target it sees no other.
    let is_flash = |number: &u16| matches!(target.interface(*number), Some(Interface::OpenChannel(_)));
    let first = (0..target.namespaces()).find(is_flash);
    let chosen = target.targets().is_empty() && first != Some(place.namespace);
    if work.engine == GraphEngine::Policy && chosen {
        let allowed = "the first open-channel namespace, which the flash library takes";
        return value("namespace", job.written.value_of("namespace"), allowed);
    }
    Ok(place)
}

/// Layout of a graph on its storage.
#[derive(Clone, Copy, Debug)]
struct Layout {
    capacity_bytes: u64,
    shard_bytes: u64,
    segment_bytes: u64,
}

impl Layout {
    /// Returns the place of the graph, and its layout.
    fn new(target: &impl Target, job: &Job, work: &GraphApp) -> Result<(Place, Layout), JobError> {
        let place = place(target, job, work)?;
        let sector_bytes = u64::from(target.sector_bytes());
        let capacity_bytes = place.interface.capacity_sectors() * sector_bytes;
        let io = work.io_bytes;
        if !io.is_multiple_of(sector_bytes) {
            return value("bs", io, format!("whole sectors of {sector_bytes} bytes"));
        }
        let shares = work.shards.map_or(capacity_bytes / 3, |shards| shards.of(capacity_bytes));
        let segment_bytes = match work.segment_bytes {
            Some(bytes) if !bytes.is_multiple_of(io) => {
                return value("segment", bytes, format!("whole commands of {io} bytes (bs)"));
            }
            Some(bytes) => bytes,
            None => match segment_bytes(target, &place, shares) {
                bytes if place.backend == Backend::Function => multiple(bytes, io),
                bytes => bytes.next_multiple_of(io),
            },
        };
        let shard_bytes = shares / segment_bytes * segment_bytes;
        let (least, most) = (segment_bytes, capacity_bytes.saturating_sub(segment_bytes));
        if !(least..=most).contains(&shard_bytes) {
            let given = if job.written.has("shards") { "shards" } else { "app" };
            let said = if given == "app" { work.program.name().into() } else { shares.to_string() };
            let allowed = format!(
                "segments of {segment_bytes} bytes, at least one for shards and one beside them, of {capacity_bytes} bytes of storage"
            );
            return value(given, said, allowed);
        }
        Ok((place, Layout { capacity_bytes, shard_bytes, segment_bytes }))
    }

    /// Returns the numbers of vertices and edges of a random graph.
    fn size(&self, work: &GraphApp) -> (u32, u64) {
        let edges = work.edges.unwrap_or((self.capacity_bytes / BYTES_EACH).clamp(1, EDGES_MAX));
        let vertices = (edges / EDGES_OF_VERTEX).clamp(2, (u32::MAX - 1).into()) as u32;
        (work.vertices.unwrap_or(vertices), edges)
    }
}

/// Returns the default size of a segment: a block of each channel. If that gives too few segments, it is one block or, on a drive with its own map,
/// as many bytes as give enough segments.
fn segment_bytes(target: &impl Target, place: &Place, shard_bytes: u64) -> u64 {
    let (channels, block) = match (place.interface, target.flash()) {
        (Interface::OpenChannel(geometry), _) => {
            let chunk = u64::from(geometry.chunk_sectors) * u64::from(target.sector_bytes());
            (u64::from(geometry.groups), chunk)
        }
        (_, Some(device)) => {
            let layout = device.layout();
            let block = u64::from(layout.units_per_block) * u64::from(layout.unit_bytes);
            (u64::from(layout.channels), block)
        }
        (_, None) => (1, SEGMENT_BYTES),
    };
    match place.backend {
        _ if shard_bytes / (channels * block) >= SEGMENTS_MIN => channels * block,
        Backend::Function => block,
        Backend::Block | Backend::Nameless => block.min(shard_bytes / (4 * SEGMENTS_MIN)).max(1),
    }
}

/// Returns the least common multiple.
fn multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Refuses a program that cannot run on this target.
pub(super) fn check(target: &impl Target, job: &Job, work: &GraphApp) -> Result<(), JobError> {
    Layout::new(target, job, work)?;
    if let GraphSource::File(path) = &work.source {
        let opened = File::open(path).and_then(|file| file.metadata());
        let refuse = |why: String| value("graph", format!("file:{}", path.display()), why);
        match opened {
            Err(error) => return refuse(format!("a file of edges: {error}")),
            Ok(data) if data.is_dir() => return refuse("a file of edges: it is a directory".into()),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Returns the maximum bytes of memory for the edges and their derived data on a drive of the given size.
pub(super) fn data_bytes(drive_bytes: u64, work: &GraphApp) -> u64 {
    let edges = match &work.source {
        GraphSource::File(path) => path.metadata().map_or(0, |data| data.len() / 4),
        GraphSource::Rmat | GraphSource::PowerLaw(..) => {
            work.edges.unwrap_or((drive_bytes / BYTES_EACH).min(EDGES_MAX))
        }
    };
    let on_drive = edges.saturating_mul(24).saturating_add(u64::from(work.vertices.unwrap_or(0)) * 64);
    on_drive.min(drive_bytes).saturating_add(edges.saturating_mul(12))
}

struct Graph {
    edges: Edges,
    /// Number of vertices according to the file, and the number of the first.
    vertices: u32,
    first: u32,
}

fn graph(layout: &Layout, job: &Job, work: &GraphApp) -> Result<Graph, RunError> {
    let weighted = program(work).is_weighted();
    let random = |shape: RandomGraph| {
        let (vertices, edges) = layout.size(work);
        let found = shape.edges(vertices, edges, job.seed);
        let edges = if weighted { with_weights(&found, job.seed) } else { found };
        Ok(Graph { edges, vertices: 0, first: 0 })
    };
    match &work.source {
        GraphSource::Rmat => random(RandomGraph::Rmat),
        &GraphSource::PowerLaw(out, into) => random(RandomGraph::PowerLaw { out, into }),
        GraphSource::File(path) => {
            let refused = |allowed| JobError::Value {
                key: "graph",
                value: format!("file:{}", path.display()),
                allowed: format!("an edge list: {allowed}"),
            };
            read(path, weighted).map_err(|why| RunError::Job(refused(why)))
        }
    }
}

/// Reads an edge list. The error is a sentence.
fn read(path: &Path, weighted: bool) -> Result<Graph, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let file = File::open(path).map_err(|error| told(&error))?;
    let mut input = decompressed_within(Box::new(file), ZSTD_WINDOW_BYTES).map_err(|error| told(&error))?;
    let mut piece = vec![0; 1 << 18];
    let mut length = 0;
    // The first piece must reveal the format.
    while length < piece.len() {
        match input.read(&mut piece[length..]).map_err(|error| told(&error))? {
            0 => break,
            bytes => length += bytes,
        }
    }
    let name = path.to_string_lossy();
    let plain = [".gz", ".zst"].into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let format = match plain {
        _ if plain.ends_with(".parquet") => {
            return Err("Parquet is read by pellucid graph alone; allowed: text, Matrix Market (.mtx), or pairs of 32-bit numbers (.bin)".into());
        }
        _ if plain.ends_with(".mtx") => EdgeFormat::MatrixMarket,
        _ if plain.ends_with(".bin") => EdgeFormat::Binary,
        _ => EdgeFormat::recognise(&piece[..length]),
    };
    let mut reader = EdgeReader::new(format, weighted);
    let mut edges = Edges::new(weighted);
    while length > 0 {
        reader.feed(&piece[..length], &mut edges).map_err(|error| told(&error))?;
        length = input.read(&mut piece).map_err(|error| told(&error))?;
    }
    reader.finish(&mut edges).map_err(|error| told(&error))?;
    if edges.is_empty() {
        return Err("it has no edges, so there is nothing to compute".into());
    }
    Ok(Graph { edges, vertices: reader.vertices(), first: format.first() })
}

fn program(work: &GraphApp) -> Program {
    match work.program {
        GraphProgram::PageRank { iterations, damping, tolerance } => {
            Program::PageRank(PageRankConfig { damping, iterations, tolerance })
        }
        GraphProgram::Components => Program::Components,
        GraphProgram::Bfs { from } => Program::Bfs(from),
        GraphProgram::Sssp { from } => Program::Sssp(from),
        GraphProgram::Triangles => Program::Triangles,
    }
}

/// Resolved settings of a program.
struct Plan {
    work: GraphApp,
    program: Program,
    layout: Layout,
    graph: Graph,
    memory_bytes: u64,
    block_edges: usize,
}

impl Plan {
    fn store(&self, namespace: u16) -> DriveStoreConfig {
        let (work, costs) = (&self.work, self.work.costs);
        let thousand = |each: Nanos| Nanos(each.0.saturating_mul(1000));
        DriveStoreConfig {
            namespace,
            shard_bytes: self.layout.shard_bytes,
            extent_bytes: self.layout.segment_bytes,
            io_bytes: work.io_bytes,
            depth: work.depth as usize,
            // Preparing reserves this for edges, which sorting leaves free.
            pieces: (self.memory_bytes / 2 / work.io_bytes).max(2) as usize,
            // A library is told which data are removed; the kernel is not.
            trims: work.engine == GraphEngine::Policy,
            costs: Costs {
                command: costs.request,
                completion: costs.completion,
                kib: costs.kib,
                sort: thousand(costs.sort),
                follow: thousand(costs.follow),
                apply: thousand(costs.apply),
            },
        }
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = Settings(BTreeMap::new());
        let (work, costs) = (&self.work, self.work.costs);
        settings.put("engine", work.engine.name());
        let (vertices, edges) = self.layout.size(work);
        match &work.source {
            GraphSource::Rmat => settings.put("graph", "rmat"),
            GraphSource::PowerLaw(out, into) => settings.put("graph", format!("power-law:{out}:{into}")),
            GraphSource::File(path) => settings.put("graph", format!("file:{}", path.display())),
        }
        if !matches!(work.source, GraphSource::File(_)) {
            settings.put("vertices", vertices);
            settings.put("edges", edges);
        }
        settings.put("graph_memory", self.memory_bytes);
        settings.put("shards", self.layout.shard_bytes);
        settings.put("segment", self.layout.segment_bytes);
        settings.put("bs", work.io_bytes);
        settings.put("iodepth", work.depth);
        settings.put("edge_block", 4 * self.block_edges);
        if work.engine == GraphEngine::Policy {
            settings.put("ops", format!("{}%", work.ops_percent));
        }
        for (key, time) in [
            ("cpu_request", costs.request),
            ("cpu_completion", costs.completion),
            ("cpu_kib", costs.kib),
            ("cpu_sort", costs.sort),
            ("cpu_follow", costs.follow),
            ("cpu_apply", costs.apply),
        ] {
            settings.put(key, format!("{}ns", time.0));
        }
        match work.program {
            GraphProgram::PageRank { iterations, damping, tolerance } => {
                settings.put("iterations", iterations);
                settings.put("damping", damping);
                settings.put("tolerance", tolerance);
            }
            GraphProgram::Bfs { from } | GraphProgram::Sssp { from } => settings.put("from_vertex", from),
            GraphProgram::Components | GraphProgram::Triangles => {}
        }
        settings.0
    }

    /// Returns why the program failed: a setting that the graph proves wrong, or the storage.
    fn failed(&self, error: PrepareError) -> RunError {
        match error {
            PrepareError::Memory { what, needed, .. } => RunError::Job(JobError::Value {
                key: "graph_memory",
                value: self.memory_bytes.to_string(),
                allowed: format!("at least {needed} bytes, which {what} need"),
            }),
            PrepareError::Store(StoreError::Full { .. }) => RunError::Application(
                self.work.program.name(),
                format!(
                    "{error}; allowed: fewer edges, a larger drive, or smaller segments, or another share for shards"
                ),
            ),
            error => RunError::Application(self.work.program.name(), error.to_string()),
        }
    }
}

type OnPolicy<D> = Stack<Policy, Monitor<D>>;

/// Takes all of the flash, with two block-mapped ranges on it. The error is a sentence.
fn configured<D: Drive>(
    drive: D,
    now: SimTime,
    layout: &Layout,
    ops_percent: u32,
) -> Result<(OnPolicy<D>, SimTime), String> {
    let sentence = |error: &dyn std::fmt::Display| error.to_string();
    let mut monitor =
        Monitor::start(drive, MonitorConfig::default(), now).map_err(|error| sentence(&error))?;
    let capacity_bytes = u64::from(monitor.largest_luns()) * monitor.lun_bytes();
    let request = Request { capacity_bytes, over_provisioning: 0.0 };
    monitor.allocate("graph", request).map_err(|error| sentence(&error))?;
    let (interface, image) = (monitor.interface(0), monitor.image_bytes());
    let policy =
        Policy::new(0, interface, image, &PolicyConfig::default()).map_err(|error| sentence(&error))?;
    let now = monitor.now();
    let mut stack = Stack::start(policy, monitor, now)?;
    let (spare, segment, shards) = (f64::from(ops_percent) / 100.0, layout.segment_bytes, layout.shard_bytes);
    for results in [false, true] {
        let room = stack.layer.room_for(Mapping::Block, spare) / segment * segment;
        let range = if results { shards..shards + room } else { 0..shards };
        stack.layer.ftl_ioctl(Mapping::Block, Gc::Greedy, range, spare).map_err(|error| sentence(&error))?;
        let now = stack.now();
        stack.advance(now);
    }
    let now = stack.now();
    Ok((stack, now))
}

/// A drive below a store, with the application's drive at the bottom.
trait Storage: Drive {
    /// Name of the part that copies, besides drive and layers.
    const COPIES: &'static str;
    fn drive(&mut self) -> &mut dyn AppDrive;
    /// Returns the counters of the library.
    fn library(&self) -> Vec<Figure>;
}

impl Storage for Lent<'_> {
    const COPIES: &'static str = "engine";

    fn drive(&mut self) -> &mut dyn AppDrive {
        &mut **self
    }

    fn library(&self) -> Vec<Figure> {
        Vec::new()
    }
}

impl Storage for OnPolicy<Lent<'_>> {
    const COPIES: &'static str = "flash library";

    fn drive(&mut self) -> &mut dyn AppDrive {
        &mut *self.drive.drive
    }

    fn library(&self) -> Vec<Figure> {
        self.layer.figures()
    }
}

pub(crate) struct Prepared {
    job: Job,
    work: GraphApp,
    layout: Layout,
}

pub(super) fn prepare(
    target: &impl Target,
    job: &Job,
    work: &GraphApp,
) -> Result<(Place, Prepared), JobError> {
    let (place, layout) = Layout::new(target, job, work)?;
    Ok((place, Prepared { job: job.clone(), work: work.clone(), layout }))
}

impl Prepared {
    pub fn carry_out(self, place: Place, drive: Lent<'_>) -> Result<AppDone, RunError> {
        let Prepared { job, work, layout } = self;
        let (name, engine, ops_percent) = (work.program.name(), work.engine, work.ops_percent);
        let failed = |why| RunError::Application(name, why);
        let (program, graph) = (program(&work), graph(&layout, &job, &work)?);
        let each = if program.is_weighted() { 20 } else { 12 };
        let memory_bytes =
            work.memory_bytes.unwrap_or((each * graph.edges.len() as u64 / 4).max(MEMORY_BYTES_MIN));
        let block_edges = work.edge_block_bytes.unwrap_or(memory_bytes / 32) / 4;
        let block_edges = block_edges.clamp(1 << 10, 1 << 20) as usize;
        let plan = Plan { work, program, layout, graph, memory_bytes, block_edges };
        let now = drive.now();
        match engine {
            GraphEngine::Original => {
                let store = DriveStore::new(drive, plan.store(place.namespace), now).map_err(failed)?;
                run(store, &plan)
            }
            GraphEngine::Policy => {
                let (stack, now) = configured(drive, now, &layout, ops_percent)
                    .map_err(|why| refused(name, format!("engine = policy: {why}")))?;
                run(DriveStore::new(stack, plan.store(0), now).map_err(failed)?, &plan)
            }
        }
    }
}

/// Measures how long phases take.
struct Phases {
    began: SimTime,
    busy: Nanos,
    all: Vec<PhaseReport>,
}

impl Phases {
    fn end<D: Drive>(&mut self, phase: &str, store: &DriveStore<D>) {
        let (now, Moved { busy, .. }) = (store.now(), store.moved());
        self.all.push(PhaseReport {
            phase: phase.into(),
            seconds: now.since(self.began).as_secs_f64(),
            busy_seconds: Nanos(busy.0 - self.busy.0).as_secs_f64(),
        });
        (self.began, self.busy) = (now, busy);
    }
}

#[derive(Default)]
struct Came {
    rounds: LatencyRecorder,
    count: u64,
    result: BTreeMap<String, String>,
}

/// Runs a program on its storage.
fn run<S: Storage>(mut store: DriveStore<S>, plan: &Plan) -> Result<AppDone, RunError> {
    let stopped = store.drive.drive().stopped();
    store.drive.drive().begin();
    let before = store.drive.library();
    let (moved_before, busy) = (store.moved(), store.moved().busy);
    let mut phases = Phases { began: store.now(), busy, all: Vec::new() };
    let mut came = Came::default();
    let grid = sort(&mut store, plan, &stopped)?;
    phases.end("prepare", &store);
    if let Some(grid) = grid {
        let computed = compute(&mut store, &grid, plan, &stopped, &mut came)?;
        phases.end("compute", &store);
        if let Some(computing) = computed {
            deliver(&mut store, &grid, computing, &mut came).map_err(|error| plan.failed(error.into()))?;
            phases.end("deliver", &store);
        }
    }
    let end = store.now();
    store.drive.advance(end);
    let moved = store.moved();
    let library = since(store.drive.library(), &before);
    let copied = library.iter().find(|figure| figure.name == "block_map_copied_bytes");
    let copied_bytes = copied.map_or(0, |figure| figure.value);
    let report = ApplicationReport {
        name: plan.work.program.name().into(),
        settings: plan.settings(),
        written_bytes: moved.written_bytes - moved_before.written_bytes,
        read_bytes: moved.read_bytes - moved_before.read_bytes,
        figures: library,
        ..reported(came, phases.all)
    };
    let own_copies = Some((S::COPIES, copied_bytes));
    Ok(AppDone { report, own_copies, end })
}

/// Returns the part of a report that phases and rounds fill.
fn reported(came: Came, phases: Vec<PhaseReport>) -> ApplicationReport {
    let latency: Latency = came.rounds.summary();
    let computed = phases.iter().find(|phase| phase.phase == "compute").map_or(0.0, |phase| phase.seconds);
    let rate = (computed > 0.0).then(|| came.count as f64 / computed);
    let kind = OperationReport { operation: "round".into(), per_second: rate.unwrap_or(0.0), latency };
    ApplicationReport {
        operations: came.count,
        operations_per_second: rate,
        latency,
        by_operation: if came.count > 0 { vec![kind] } else { Vec::new() },
        phases,
        result: came.result,
        ..ApplicationReport::default()
    }
}

/// Returns counters since `before`, and gauges as they are.
fn since(now: Vec<Figure>, before: &[Figure]) -> Vec<PartFigure> {
    let earlier = |figure: &Figure| {
        before
            .iter()
            .find(|old| (old.name, old.cause) == (figure.name, figure.cause))
            .map_or(0, |old| old.value)
    };
    now.into_iter()
        .map(|figure| PartFigure {
            name: figure.name.into(),
            value: match figure.kind {
                FigureKind::Counter => figure.value - earlier(&figure),
                FigureKind::Gauge => figure.value,
            },
        })
        .collect()
}

/// Sorts the edges into shards; `None` if stopped early.
fn sort<D: Drive>(
    store: &mut DriveStore<D>,
    plan: &Plan,
    stopped: &Rc<Cell<bool>>,
) -> Result<Option<Grid>, RunError> {
    let failed = |error| plan.failed(error);
    let asked = plan.program.asked(plan.memory_bytes);
    let (shape, edges) = (asked.shape, &plan.graph.edges);
    let mut intake = Intake::new(asked);
    intake.number_from(plan.graph.first);
    intake.see(plan.graph.vertices);
    let mut part = Edges::new(edges.is_weighted());
    for first in (0..edges.len()).step_by(INTAKE_EDGES) {
        let range = first..edges.len().min(first + INTAKE_EDGES);
        part.clear();
        part.ends.extend_from_slice(&edges.ends[range.clone()]);
        if edges.is_weighted() {
            part.weights.extend_from_slice(&edges.weights[range]);
        }
        intake.push(store, Chunk::new(&part, shape)).map_err(failed)?;
        if stopped.get() {
            return Ok(None);
        }
    }
    let mut preparing = intake.finish(store).map_err(failed)?;
    while preparing.step(store).map_err(failed)?.is_some() {
        if stopped.get() {
            return Ok(None);
        }
    }
    let grid = preparing.finish(store, &Alone);
    if grid.resident.is_some() {
        let allowed = format!(
            "less: the whole graph of {} edges fits into it, so that nothing would reach the storage",
            grid.plan.edges
        );
        let value = plan.memory_bytes.to_string();
        return Err(RunError::Job(JobError::Value { key: "graph_memory", value, allowed }));
    }
    Ok(Some(grid))
}

/// Iterates; `None` if stopped early.
fn compute<D: Drive>(
    store: &mut DriveStore<D>,
    grid: &Grid,
    plan: &Plan,
    stopped: &Rc<Cell<bool>>,
    came: &mut Came,
) -> Result<Option<Computing>, RunError> {
    let failed = |error: StoreError| plan.failed(error.into());
    let begun = Computing::new(&plan.program, grid, store, plan.block_edges);
    let mut computing = begun.map_err(|error| match error {
        BeginError::Store(error) => failed(error),
        BeginError::Source(error) => RunError::Job(JobError::Value {
            key: "from_vertex",
            value: error.source_vertex.to_string(),
            allowed: format!("a vertex of the graph: {} vertices, from {} on", error.vertices, error.first),
        }),
    })?;
    // One pass over all edges is one round.
    let is_pass = matches!(computing, Computing::Components(_) | Computing::Triangles(_));
    let mut began = store.now();
    while computing.step(grid, store, &Alone).map_err(failed)?.is_some() {
        if stopped.get() {
            return Ok(None);
        }
        let rounds = u64::from(computing.rounds());
        if !is_pass && rounds > came.count {
            came.rounds.record(store.now().since(began));
            (came.count, began) = (rounds, store.now());
        }
    }
    if is_pass {
        came.rounds.record(store.now().since(began));
        came.count = 1;
    }
    Ok(Some(computing))
}

/// Reads the values, and computes their checksum.
fn deliver<D: Drive>(
    store: &mut DriveStore<D>,
    grid: &Grid,
    computing: Computing,
    came: &mut Came,
) -> Result<(), StoreError> {
    let mut result = BTreeMap::from([
        ("vertices".to_string(), grid.plan.vertices.to_string()),
        ("edges".to_string(), grid.plan.edges.to_string()),
        ("intervals".to_string(), grid.plan.interval_count().to_string()),
    ]);
    let mut sum = FNV_BASIS;
    match computing {
        Computing::PageRank(mut rank) => {
            result.insert("change".into(), format!("{:e}", rank.last_change()));
            rank.ranks(grid, store, |_, ranks| {
                sum = fnv1a(sum, ranks.iter().flat_map(|rank| rank.to_bits().to_le_bytes()));
                Ok::<_, StoreError>(())
            })?;
        }
        Computing::Components(components) => {
            let labels = components.finish();
            let roots = (0..).zip(&labels).filter(|(vertex, label)| *vertex == **label).count();
            result.insert("components".into(), roots.to_string());
            sum = fnv1a(sum, labels.iter().flat_map(|label| label.to_le_bytes()));
        }
        Computing::Bfs(traverse) => {
            let distances = traverse.finish();
            result.insert("reached".into(), reached(&distances).to_string());
            sum = fnv1a(sum, distances.iter().flat_map(|distance| distance.to_le_bytes()));
        }
        Computing::Sssp(traverse) => {
            let distances = traverse.finish();
            result.insert("reached".into(), reached(&distances).to_string());
            sum = fnv1a(sum, distances.iter().flat_map(|distance| distance.to_bits().to_le_bytes()));
        }
        Computing::Triangles(triangles) => {
            result.insert("triangles".into(), triangles.count().to_string());
            sum = fnv1a(sum, triangles.count().to_le_bytes());
        }
    }
    result.insert("checksum".into(), format!("{sum:016x}"));
    came.result = result;
    Ok(())
}

/// Returns the number of vertices that can be reached.
fn reached<D: Distance>(distances: &[D]) -> usize {
    distances.iter().filter(|&&distance| distance < D::UNREACHED).count()
}
