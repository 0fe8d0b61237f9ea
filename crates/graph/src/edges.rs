//! Edges in the order of the input.

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

/// End by which an edge is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By where it ends: a vertex gathers from its predecessors.
    To,
    /// By where it begins: a vertex reaches its successors.
    From,
}

/// The largest number of a vertex: one below what 32 bits can count, so that the number of vertices fits, too.
pub const VERTEX_MAX: u32 = u32::MAX - 1;

/// List of edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edges {
    /// Where each begins and ends.
    pub ends: Vec<(u32, u32)>,
    /// The weight of each; empty without.
    pub weights: Vec<f32>,
    weighted: bool,
}

impl Edges {
    /// Makes an empty list; `weighted`: its edges keep their weights.
    pub fn new(weighted: bool) -> Edges {
        Edges { ends: Vec::new(), weights: Vec::new(), weighted }
    }

    /// Returns whether they keep their weights.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// One more.
    #[inline]
    pub fn push(&mut self, edge: Edge) {
        self.ends.push((edge.from, edge.to));
        if self.weighted {
            self.weights.push(edge.weight);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.weights.clear();
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Edge> {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1.0));
        self.ends.iter().zip(weights).map(|(&(from, to), weight)| Edge { from, to, weight })
    }
}
