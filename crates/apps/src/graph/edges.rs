//! Edges, and how many of them the vertices have, roughly.

/// An edge from one vertex to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edge {
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Its weight; 1 where the input has none.
    pub weight: f32,
}

impl Edge {
    /// An edge of weight 1.
    pub fn new(from: u32, to: u32) -> Edge {
        Edge { from, to, weight: 1.0 }
    }
}

/// Which end of an edge it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By where it ends: a vertex gathers from its predecessors.
    To,
    /// By where it begins: a vertex reaches its successors.
    From,
}

/// The largest number of a vertex: one below what 32 bits can count, so that the number of vertices fits, too.
pub const VERTEX_MAX: u32 = u32::MAX - 1;

/// Number of edges in ranges of keys, whatever the largest key is: ranges become twice as wide when a key lies beyond the last.
#[derive(Clone, Debug)]
pub struct Histogram {
    shift: u32,
    counts: Vec<u64>,
}

const RANGES: usize = 1 << 16;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { shift: 0, counts: vec![0; RANGES] }
    }
}

impl Histogram {
    /// One more edge with this key.
    #[inline]
    pub fn note(&mut self, key: u32) {
        while (key >> self.shift) as usize >= RANGES {
            self.widen();
        }
        self.counts[(key >> self.shift) as usize] += 1;
    }

    #[cold]
    fn widen(&mut self) {
        for at in 0..RANGES / 2 {
            self.counts[at] = self.counts[2 * at] + self.counts[2 * at + 1];
        }
        self.counts[RANGES / 2..].fill(0);
        self.shift += 1;
    }

    /// Cuts `0..vertices` into intervals with at most about `edges_max` edges and at most `vertices_max` vertices each. Returns where
    /// they begin, and `vertices` last. An interval never is narrower than a range, however many edges that has.
    pub fn cut(&self, vertices: u32, edges_max: u64, vertices_max: u32) -> Vec<u32> {
        let width = 1_u64 << self.shift;
        let mut begins = vec![0];
        let (mut edges, mut from) = (0, 0_u64);
        for (range, count) in self.counts.iter().enumerate() {
            let begin = range as u64 * width;
            if begin >= u64::from(vertices) {
                break;
            }
            let end = begin + width;
            let too_many = edges + count > edges_max || end - from > u64::from(vertices_max).max(width);
            if begin > from && too_many {
                begins.push(begin as u32);
                (edges, from) = (0, begin);
            }
            edges += count;
        }
        begins.push(vertices);
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_no_more_edges_than_they_should_where_ranges_allow() {
        let mut histogram = Histogram::default();
        for key in 0..200_000_u32 {
            for _ in 0..=(key % 7) {
                histogram.note(key);
            }
        }
        let begins = histogram.cut(200_000, 50_000, 1 << 20);
        assert!(begins.first() == Some(&0) && begins.last() == Some(&200_000));
        for pair in begins.windows(2) {
            assert!(pair[0] < pair[1]);
            let edges: u64 = (pair[0]..pair[1]).map(|key| u64::from(key % 7) + 1).sum();
            assert!(edges <= 50_000, "{pair:?} has {edges}");
        }
        assert!(begins.len() < 20, "{} intervals for 800,000 edges", begins.len());
        assert_eq!(Histogram::default().cut(1, 10, 10), [0, 1]);
        let by_vertices = histogram.cut(200_000, u64::MAX, 50_000);
        assert!(by_vertices.windows(2).all(|pair| pair[1] - pair[0] <= 50_000), "{by_vertices:?}");
    }
}
