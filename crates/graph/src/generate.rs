//! Random graphs with the shapes of real ones.
//!
//! | shape | source |
//! |---|---|
//! | R-MAT: each edge falls into a quarter of the adjacency matrix, then into a quarter of that | Chakrabarti et al., SDM 2004; the quarters 0.57, 0.19, 0.19, 0.05 are Graph500's |
//! | power laws: the numbers of edges that leave and reach a vertex, independent of each other | exponents by Mislove et al., IMC 2007, Table 2 |
//!
//! A graph is a function of its shape, its size and a seed.

use crate::edges::Edges;
use pellucid_flash::Rng;

/// Shape of a random graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RandomGraph {
    /// R-MAT with Graph500's quarters.
    Rmat,
    /// Power laws for both ends of each edge, truncated to match the mean.
    PowerLaw {
        /// Exponent of the number of edges that leave a vertex.
        out: f64,
        /// Exponent of the number of edges that reach it.
        into: f64,
    },
}

/// Probability of the first, second and third quarter of R-MAT's matrix.
const QUARTERS: [f64; 3] = [0.57, 0.19, 0.19];

impl RandomGraph {
    /// Generates a graph of at least one vertex. With power laws it may have fewer edges than requested: as many as both laws give.
    pub fn edges(self, vertices: u32, edges: u64, seed: u64) -> Edges {
        let mut found = Edges::new(false);
        match self {
            RandomGraph::Rmat => {
                let mut rng = Rng::stream(seed, "r-mat");
                found.ends.extend((0..edges).map(|_| cell(vertices, &mut rng)));
            }
            RandomGraph::PowerLaw { out, into } => {
                let mut rng = Rng::stream(seed, "friends");
                let mean = edges as f64 / f64::from(vertices);
                let mut ends = [out, into].map(|exponent| ends(vertices, edges, exponent, mean, &mut rng));
                for ends in &mut ends {
                    for at in (1..ends.len()).rev() {
                        ends.swap(at, rng.below(at as u64 + 1) as usize);
                    }
                }
                let [from, to] = ends;
                found.ends.extend(from.into_iter().zip(to).take(edges as usize));
            }
        }
        found
    }
}

/// Gives each edge a weight in (0, 1].
pub fn with_weights(edges: &Edges, seed: u64) -> Edges {
    let mut rng = Rng::stream(seed, "weights");
    let mut weighted = Edges::new(true);
    weighted.ends.extend_from_slice(&edges.ends);
    weighted.weights.extend(edges.ends.iter().map(|_| (1.0 - rng.unit_f64()) as f32));
    weighted
}

/// Draws a cell of R-MAT's matrix, again and again until it is inside the graph.
fn cell(vertices: u32, rng: &mut Rng) -> (u32, u32) {
    let levels = u64::from(vertices).next_power_of_two().trailing_zeros();
    let [first, second, third] = QUARTERS;
    loop {
        let (mut from, mut to) = (0_u64, 0_u64);
        for _ in 0..levels {
            let drawn = rng.unit_f64();
            let (down, right) = match drawn {
                _ if drawn < first => (0, 0),
                _ if drawn < first + second => (0, 1),
                _ if drawn < first + second + third => (1, 0),
                _ => (1, 1),
            };
            (from, to) = (2 * from + down, 2 * to + right);
        }
        if from < u64::from(vertices) && to < u64::from(vertices) {
            return (from as u32, to as u32);
        }
    }
}

/// One end of each edge: each vertex appears as often as its degree.
fn ends(vertices: u32, edges: u64, exponent: f64, mean: f64, rng: &mut Rng) -> Vec<u32> {
    let sums = sums(exponent, most_for(exponent, mean));
    let mut ends = Vec::with_capacity(edges as usize);
    for vertex in 0..vertices {
        let drawn = rng.unit_f64() * sums[sums.len() - 1];
        let degree = sums.partition_point(|&sum| sum < drawn) + 1;
        ends.extend(std::iter::repeat_n(vertex, degree));
    }
    ends
}

/// Partial sums of k^-exponent, k from 1 on.
fn sums(exponent: f64, most: u32) -> Vec<f64> {
    let weights = (1..=most).map(|degree| f64::from(degree).powf(-exponent));
    weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect()
}

/// The largest degree for which a power law has this mean.
fn most_for(exponent: f64, mean: f64) -> u32 {
    let (mut edges, mut vertices) = (0.0, 0.0);
    for degree in 1..1_000_000 {
        let weight = f64::from(degree).powf(-exponent);
        edges += weight * f64::from(degree);
        vertices += weight;
        if edges >= mean * vertices {
            return degree;
        }
    }
    1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_graph_has_the_size_and_shape_that_were_asked_for() {
        let rmat = RandomGraph::Rmat;
        let found = rmat.edges(1000, 20_000, 1);
        assert_eq!(found.len(), 20_000);
        assert!(found.ends.iter().all(|&(from, to)| from < 1000 && to < 1000));
        assert_eq!(found, rmat.edges(1000, 20_000, 1));
        assert_ne!(found, rmat.edges(1000, 20_000, 2));
        // Each level puts 0.57 + 0.19 of the edges into the first half, here 512 of the 1000 vertices.
        let low = found.ends.iter().filter(|&&(from, _)| from < 512).count();
        assert!((14_000..17_000).contains(&low), "{low}");
        let law = RandomGraph::PowerLaw { out: 1.6, into: 1.6 }.edges(10_000, 80_000, 1);
        assert!((70_000..=80_000).contains(&law.len()), "{}", law.len());
        let mut degrees = vec![0_u32; 10_000];
        law.ends.iter().for_each(|&(from, _)| degrees[from as usize] += 1);
        let one = degrees.iter().filter(|&&degree| degree == 1).count();
        assert!((3000..6000).contains(&one) && degrees.iter().any(|&degree| degree > 50), "{one}");
    }

    #[test]
    fn weights_are_drawn_for_each_edge() {
        let edges = RandomGraph::Rmat.edges(100, 1000, 1);
        let weighted = with_weights(&edges, 1);
        assert_eq!((weighted.len(), weighted.is_weighted()), (1000, true));
        assert!(weighted.weights.iter().all(|&weight| weight > 0.0 && weight <= 1.0));
        assert!(weighted.weights[0] != weighted.weights[1]);
    }
}
