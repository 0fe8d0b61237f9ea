//! Programs against plain implementations on small random graphs, in memory and partitioned so that nothing fits.

use super::components::{Components, sizes};
use super::edges::{Edge, Edges, Key};
use super::grid::{Grid, reopen};
use super::pagerank::{PageRank, PageRankConfig};
use super::prepare::{Asked, Chunk, Intake, PrepareError, Shape};
use super::store::{Memory, Segment, Store};
use super::text::{EdgeFormat, EdgeReader};
use super::traverse::{Distance, Traverse};
use super::triangles::Triangles;
use super::workers::{Alone, Workers};
use pellucid_flash::Rng;

fn asked(shape: Shape, memory_bytes: u64) -> Asked {
    Asked {
        shape,
        weighted: false,
        degrees: shape == Shape::All(Key::To),
        memory_bytes,
        vertex_bytes: if shape == Shape::All(Key::To) { 12 } else { 6 },
        chunked: shape == Shape::All(Key::To),
        vertices: 0,
        mapped: false,
        origin: 7,
    }
}

fn edges_of(edges: &[Edge], weighted: bool) -> Edges {
    let mut found = Edges::new(weighted);
    edges.iter().for_each(|&edge| found.push(edge));
    found
}

fn prepare(store: &mut Memory, asked: &Asked, edges: &[Edge]) -> Grid {
    let mut intake = Intake::new(asked.clone());
    for part in edges.chunks(997) {
        intake.push(store, Chunk::new(&edges_of(part, asked.weighted), asked.shape)).unwrap();
    }
    let mut preparing = intake.finish(store).unwrap();
    while preparing.step(store).unwrap().is_some() {}
    preparing.finish(store, &Three)
}

fn random(seed: u64, vertices: u32, edges: usize) -> Vec<Edge> {
    let mut rng = Rng::new(seed);
    let mut vertex = || {
        let any = rng.below(u64::from(vertices)) as u32;
        // Some vertices have most of the edges; every seventh has none.
        let vertex = if rng.below(3) == 0 { any % (vertices / 16 + 1) } else { any };
        vertex - u32::from(vertex % 7 == 6)
    };
    let pairs: Vec<(u32, u32)> = (0..edges).map(|_| (vertex(), vertex())).collect();
    pairs
        .iter()
        .enumerate()
        .map(|(at, &(from, to))| Edge { from, to, weight: (at % 13) as f32 / 4.0 })
        .collect()
}

/// Three workers in one thread: only the partition into pieces could change results.
struct Three;
impl Workers for Three {
    fn count(&self) -> usize {
        3
    }
    fn each<T: Send>(&self, pieces: Vec<T>, work: impl Fn(T) + Sync) {
        pieces.into_iter().rev().for_each(work);
    }
}

/// Memory limits: everything fits; little; so little that values come in chunks.
const MEMORIES: [u64; 3] = [1 << 30, 200_000, 100_000];

fn plain_ranks(edges: &[Edge], vertices: u32, iterations: u32) -> Vec<f64> {
    let count = vertices as usize;
    let mut degrees = vec![0.0; count];
    edges.iter().for_each(|edge| degrees[edge.from as usize] += 1.0);
    let mut ranks = vec![1.0 / count as f64; count];
    for _ in 0..iterations {
        let lost: f64 = (0..count).filter(|&v| degrees[v] == 0.0).map(|v| ranks[v]).sum();
        let mut next = vec![(0.15 + 0.85 * lost) / count as f64; count];
        for edge in edges {
            next[edge.to as usize] += 0.85 * ranks[edge.from as usize] / degrees[edge.from as usize];
        }
        ranks = next;
    }
    ranks
}

fn ranks(grid: &Grid, store: &mut Memory, iterations: u32, workers: &impl Workers) -> Vec<f64> {
    let config = PageRankConfig { damping: 0.85, iterations, tolerance: 0.0 };
    let mut rank = PageRank::new(grid, store, config, 1024).unwrap();
    while rank.step(grid, store, workers).unwrap().is_some() {}
    let mut ranks = Vec::new();
    rank.ranks(grid, store, |first, part| {
        assert_eq!(first as usize, ranks.len());
        ranks.extend_from_slice(part);
        Ok::<_, super::store::StoreError>(())
    })
    .unwrap();
    ranks
}

#[test]
fn ranks_are_those_of_a_plain_program_whatever_fits_and_with_any_workers() {
    let edges = random(1, 5000, 60_000);
    let vertices = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap();
    let expected = plain_ranks(&edges, vertices, 6);
    let mut first: Option<Vec<f64>> = None;
    for memory in MEMORIES {
        let mut store = Memory::default();
        let grid = prepare(&mut store, &asked(Shape::All(Key::To), memory), &edges);
        assert_eq!(grid.resident.is_some(), memory == MEMORIES[0]);
        if memory == MEMORIES[2] {
            assert!(grid.plan.chunk_count() > 1 && grid.plan.interval_count() > 4, "{:?}", grid.plan);
        }
        let found = ranks(&grid, &mut store, 6, &Three);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6 * expected.max(1e-4), "{found} for {expected}");
        }
        // Bit for bit the same at any memory limit and number of threads.
        let alone = prepare(&mut Memory::default(), &asked(Shape::All(Key::To), 1 << 30), &edges);
        let alone = ranks(&alone, &mut Memory::default(), 6, &Alone);
        if grid.plan.chunk_count() == 1 {
            assert!(found == *first.get_or_insert(alone));
        }
    }
}

#[test]
fn a_store_that_was_left_between_two_steps_goes_on() {
    let edges = random(2, 3000, 40_000);
    for memory in [MEMORIES[1], MEMORIES[2]] {
        let mut store = Memory::default();
        let grid = prepare(&mut store, &asked(Shape::All(Key::To), memory), &edges);
        let expected = ranks(&grid, &mut store.clone(), 5, &Alone);
        let config = PageRankConfig { damping: 0.85, iterations: 5, tolerance: 0.0 };
        for steps in 0..4 * grid.plan.interval_count() {
            let mut store = store.clone();
            let mut rank = PageRank::new(&grid, &mut store, config.clone(), 1024).unwrap();
            for _ in 0..steps {
                rank.step(&grid, &mut store, &Alone).unwrap();
            }
            let complete = rank.iteration();
            drop(rank);
            let grid = reopen(&mut store, 7).unwrap().expect("it is prepared");
            assert_eq!(PageRank::new(&grid, &mut store, config.clone(), 1024).unwrap().iteration(), complete);
            assert!(ranks(&grid, &mut store, 5, &Alone) == expected, "after {steps} steps");
        }
        assert!(reopen(&mut store, 8).unwrap().is_none(), "another graph");
    }
}

#[test]
fn what_was_computed_further_than_is_asked_is_computed_anew() {
    let edges = random(2, 3000, 40_000);
    let mut store = Memory::default();
    let grid = prepare(&mut store, &asked(Shape::All(Key::To), MEMORIES[1]), &edges);
    let fresh = store.clone();
    ranks(&grid, &mut store, 6, &Alone);
    assert!(ranks(&grid, &mut store.clone(), 3, &Alone) == ranks(&grid, &mut fresh.clone(), 3, &Alone));
    let asked = |tolerance| PageRankConfig { damping: 0.85, iterations: 6, tolerance };
    // Runs that end after some iterations, with their changes; then the same requests to a store that has six iterations.
    let mut changes = Vec::new();
    let mut rank = PageRank::new(&grid, &mut fresh.clone(), asked(0.0), 1024).unwrap();
    let mut between = fresh.clone();
    while rank.step(&grid, &mut between, &Alone).unwrap().is_some() {
        if changes.len() < rank.iteration() as usize {
            changes.push(rank.last_change());
        }
    }
    assert!(changes.len() == 6 && changes.is_sorted_by(|one, next| one > next), "{changes:?}");
    for (tolerance, kept) in [(changes[2] * 1.01, 0), (changes[4] / 1.01, 6), (changes[5] * 1.01, 6)] {
        let began = PageRank::new(&grid, &mut store.clone(), asked(tolerance), 1024).unwrap();
        assert_eq!(began.iteration(), kept, "{tolerance} of {changes:?}");
    }
}

#[test]
fn components_are_those_of_a_plain_program() {
    for seed in 0..20 {
        let edges = random(seed, 4000, 2500);
        let vertices = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap() as usize;
        let mut expected: Vec<u32> = (0..vertices as u32).collect();
        loop {
            let before = expected.clone();
            for edge in &edges {
                let (from, to) = (edge.from as usize, edge.to as usize);
                let least = expected[from].min(expected[to]);
                (expected[from], expected[to]) = (least, least);
            }
            if before == expected {
                break;
            }
        }
        for memory in [MEMORIES[0], MEMORIES[2]] {
            let mut store = Memory::default();
            let grid = prepare(&mut store, &asked(Shape::All(Key::From), memory), &edges);
            let mut components = Components::new(&grid, 1024);
            while components.step(&grid, &mut store).unwrap().is_some() {}
            let labels = components.finish();
            assert!(labels == expected, "seed {seed}, {memory} bytes");
            let counted = (0..).map(|vertex| labels.iter().filter(|&&label| label == vertex).count() as u32);
            assert!(sizes(labels.clone()) == counted.take(vertices).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

#[test]
fn distances_are_those_of_a_plain_program() {
    for seed in 0..20 {
        let edges = random(seed, 3000, 9000);
        let vertices = edges.iter().map(|edge| edge.from.max(edge.to) + 1).max().unwrap() as usize;
        for weighted in [false, true] {
            let mut expected = vec![f64::INFINITY; vertices];
            expected[edges[0].from as usize] = 0.0;
            loop {
                let before = expected.clone();
                for edge in &edges {
                    let weight = if weighted { f64::from(edge.weight) } else { 1.0 };
                    let through = expected[edge.from as usize] + weight;
                    let known = &mut expected[edge.to as usize];
                    *known = known.min(through);
                }
                if before == expected {
                    break;
                }
            }
            for memory in [MEMORIES[0], MEMORIES[2]] {
                let mut store = Memory::default();
                let mut asked = asked(Shape::All(Key::From), memory);
                asked.weighted = weighted;
                let grid = prepare(&mut store, &asked, &edges);
                let sum: f64 = edges.iter().map(|edge| f64::from(edge.weight)).sum();
                let mean = if weighted { (sum / edges.len() as f64) as f32 } else { 1.0 };
                assert!((grid.plan.mean_weight - mean).abs() < 1e-6, "{}, not {mean}", grid.plan.mean_weight);
                let found = match weighted {
                    true => distances::<f64>(&grid, &mut store, edges[0].from),
                    false => {
                        let found = distances::<u32>(&grid, &mut store, edges[0].from);
                        let far =
                            |&edges: &u32| if edges < u32::UNREACHED { edges.into() } else { f64::INFINITY };
                        found.iter().map(far).collect()
                    }
                };
                assert!(found == expected, "seed {seed}, weighted {weighted}, {memory} bytes");
            }
        }
    }
}

fn distances<D: Distance>(grid: &Grid, store: &mut Memory, source: u32) -> Vec<D> {
    let mut traverse = Traverse::new(grid, source, 1024);
    while traverse.step(grid, store).unwrap().is_some() {}
    traverse.finish()
}

#[test]
fn sums_of_weights_are_exact_beyond_24_bits() {
    // 2^24 + 1 is the first integer that a 32-bit float cannot represent.
    let weights = [16_777_216.0, 1.0, 1.0, f32::MAX, f32::MAX];
    let edges = (0..).zip(weights).map(|(at, weight)| Edge { from: at, to: at + 1, weight });
    for memory in [MEMORIES[0], MEMORIES[2]] {
        let (mut store, mut asked) = (Memory::default(), asked(Shape::All(Key::From), memory));
        asked.weighted = true;
        let grid = prepare(&mut store, &asked, &edges.clone().collect::<Vec<_>>());
        let found = distances::<f64>(&grid, &mut store, 0);
        assert_eq!(found[..4], [0.0, 16_777_216.0, 16_777_217.0, 16_777_218.0]);
        assert!(found[5] > f64::from(f32::MAX) && found[5] < f64::INFINITY, "{found:?}");
    }
}

#[test]
fn triangles_are_as_many_as_a_plain_program_finds() {
    for seed in 0..20 {
        let edges = random(seed, 400, 3000);
        let mut near = vec![vec![false; 400]; 400];
        for edge in edges.iter().filter(|edge| edge.from != edge.to) {
            near[edge.from as usize][edge.to as usize] = true;
            near[edge.to as usize][edge.from as usize] = true;
        }
        let mut expected = 0;
        for a in 0..400 {
            for b in (a + 1..400).filter(|&b| near[a][b]) {
                expected += (b + 1..400).filter(|&c| near[a][c] && near[b][c]).count() as u64;
            }
        }
        for memory in [MEMORIES[0], 20_000] {
            let mut store = Memory::default();
            let grid = prepare(&mut store, &asked(Shape::Simple, memory), &edges);
            assert!(grid.resident.is_some() || grid.plan.interval_count() > 3, "{:?}", grid.plan);
            let mut triangles = Triangles::new();
            while triangles.step(&grid, &mut store, &Three).unwrap().is_some() {}
            assert_eq!(triangles.count(), expected, "seed {seed}, {memory} bytes");
        }
    }
}

#[test]
fn a_graph_without_vertices_is_none() {
    let mut store = Memory::default();
    let grid = prepare(&mut store, &asked(Shape::All(Key::To), 1 << 20), &[]);
    assert!(ranks(&grid, &mut store, 3, &Three).is_empty());
    let grid = prepare(&mut store, &asked(Shape::All(Key::From), 1 << 20), &[]);
    let mut components = Components::new(&grid, 1024);
    while components.step(&grid, &mut store).unwrap().is_some() {}
    assert!(components.finish().is_empty());
    let grid = prepare(&mut store, &asked(Shape::Simple, 1 << 20), &[]);
    let mut triangles = Triangles::new();
    while triangles.step(&grid, &mut store, &Three).unwrap().is_some() {}
    assert_eq!(triangles.count(), 0);
}

#[test]
fn what_cannot_fit_is_said_with_what_would() {
    let mut intake = Intake::new(asked(Shape::All(Key::From), 1 << 20));
    let mut store = Memory::default();
    let edges = edges_of(&[Edge::new(3, 1_000_000)], false);
    intake.push(&mut store, Chunk::new(&edges, Shape::All(Key::From))).unwrap();
    let Err(PrepareError::Memory { needed, allowed, .. }) = intake.finish(&mut store) else {
        panic!("it fits")
    };
    assert!(needed > 6_000_000 && allowed == 1 << 20);
}

#[test]
fn damage_is_an_error_and_no_wrong_result() {
    let edges = random(3, 3000, 40_000);
    let mut store = Memory::default();
    let grid = prepare(&mut store, &asked(Shape::All(Key::To), MEMORIES[1]), &edges);
    let offsets = Segment::Offsets(0, 0);
    let bytes = store.bytes(offsets).unwrap();
    store.create(offsets).unwrap();
    store.append(offsets, &vec![0xff; bytes as usize]).unwrap();
    let config = PageRankConfig { damping: 0.85, iterations: 1, tolerance: 0.0 };
    let mut rank = PageRank::new(&grid, &mut store, config, 1024).unwrap();
    rank.step(&grid, &mut store, &Alone).unwrap_err();
}

fn read(format: EdgeFormat, weighted: bool, bytes: &[u8], piece: usize) -> Result<Vec<Edge>, String> {
    let mut reader = EdgeReader::new(format, weighted);
    let mut edges = Edges::new(weighted);
    for part in bytes.chunks(piece) {
        reader.feed(part, &mut edges).map_err(|error| error.to_string())?;
    }
    reader.finish(&mut edges).map_err(|error| error.to_string())?;
    Ok(edges.iter().collect())
}

#[test]
fn edge_lists_are_read_in_whatever_pieces_they_come() {
    let list = b"# SNAP\n0 1\n1\t2\r\n\n2,3,x\n 4   5  \n% remark\n6 7 0.5";
    let matrix = b"%%MatrixMarket matrix coordinate real symmetric\n% remark\n4 4 2\n2 1 0.5\n3 3 2\n";
    for piece in 1..60 {
        let edges = read(EdgeFormat::Text, false, list, piece).unwrap();
        let pairs: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(pairs, [(0, 1), (1, 2), (2, 3), (4, 5), (6, 7)], "pieces of {piece}");
        let edges = read(EdgeFormat::MatrixMarket, true, matrix, piece).unwrap();
        let found: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to, edge.weight)).collect();
        assert_eq!(found, [(1, 0, 0.5), (0, 1, 0.5), (2, 2, 2.0)], "pieces of {piece}");
        let binary: Vec<u8> = [1_u32, 2, 3, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
        let edges = read(EdgeFormat::Binary, false, &binary, piece).unwrap();
        assert_eq!(edges, [Edge::new(1, 2), Edge::new(3, 4)]);
    }
}

#[test]
fn a_wrong_line_is_named_and_what_is_allowed() {
    for (format, weighted, bytes, expected) in [
        (EdgeFormat::Text, false, &b"0 1\n1 x\n"[..], "line 2: \"x\" is no vertex"),
        (EdgeFormat::Text, false, b"0 1\n\n7\n", "line 3: \"7\": one field"),
        (EdgeFormat::Text, false, b"0 4294967295\n", "line 1: vertex 4294967295 is too large"),
        (EdgeFormat::Text, false, b"0 99999999999999999999999\n", "is too large"),
        (EdgeFormat::Text, false, b"-1 2\n", "\"-1\" is no vertex"),
        // Lone carriage returns as line ends would hide all lines but the first.
        (EdgeFormat::Text, false, b"0 1\r1 2\r2 3\r", "line 1: \"1\\r1\" is no vertex"),
        (EdgeFormat::Text, false, b"0 1\n1 \0\n", "line 2: \"\\0\" is no vertex"),
        (EdgeFormat::Text, true, b"0 1 -3\n", "\"-3\" is no weight"),
        (EdgeFormat::Text, true, b"0 1 nan\n", "is no weight"),
        (EdgeFormat::Text, true, b"0 1 2 3\n", "more than three fields"),
        (EdgeFormat::Text, false, &[b'1'; 5000], "line 1: longer than 4096"),
        (EdgeFormat::Text, false, &[&[b'1'; 5000], &b" 2\n"[..]].concat(), "line 1: longer than 4096"),
        (EdgeFormat::Binary, false, b"123456789abc", "record 2: 4 bytes, cut short"),
        (EdgeFormat::Binary, false, &[255; 8], "is too large"),
        (EdgeFormat::MatrixMarket, false, b"1 2\n", "line 1: no banner"),
        (EdgeFormat::MatrixMarket, false, b"%%MatrixMarket matrix coordinate complex general\n", "complex"),
        (
            EdgeFormat::MatrixMarket,
            false,
            b"%%MatrixMarket matrix coordinate pattern general\n2 2\n",
            "no sizes",
        ),
        (
            EdgeFormat::MatrixMarket,
            false,
            b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n",
            "from 1 to 2",
        ),
        (
            EdgeFormat::MatrixMarket,
            false,
            b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n",
            "1 entries before",
        ),
        (
            EdgeFormat::MatrixMarket,
            true,
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2\n",
            "line 3: \"1 2\": no value",
        ),
        (
            EdgeFormat::MatrixMarket,
            false,
            b"%%MatrixMarket matrix coordinate pattern general\n",
            "before its line of sizes",
        ),
    ] {
        for piece in [1, 7, 100_000] {
            let error = read(format, weighted, bytes, piece).unwrap_err();
            assert!(error.contains(expected), "{error}, expected {expected}");
        }
    }
}
