//! Edges in the order of the input.

/// An edge from one vertex to another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Edge {
    /// Start vertex.
    pub from: u32,
    /// End vertex.
    pub to: u32,
    /// Weight; 1 if the input has none.
    pub weight: f32,
}

impl Edge {
    /// An edge of weight 1.
    pub fn new(from: u32, to: u32) -> Edge {
        Edge { from, to, weight: 1.0 }
    }
}

/// End by which edges are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By end vertex: a vertex gathers from its predecessors.
    To,
    /// By start vertex: a vertex reaches its successors.
    From,
}

/// The largest vertex number: one below the 32-bit maximum, so that the number of vertices fits, too.
pub const VERTEX_MAX: u32 = u32::MAX - 1;

/// A list of edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edges {
    /// Start and end vertex of each edge.
    pub ends: Vec<(u32, u32)>,
    /// Weight of each edge; empty if unweighted.
    pub weights: Vec<f32>,
    weighted: bool,
}

impl Edges {
    /// Creates an empty list; `weighted`: edges keep their weights.
    pub fn new(weighted: bool) -> Edges {
        Edges { ends: Vec::new(), weights: Vec::new(), weighted }
    }

    /// Reports whether edges keep their weights.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// Appends an edge.
    #[inline]
    pub fn push(&mut self, edge: Edge) {
        self.ends.push((edge.from, edge.to));
        if self.weighted {
            self.weights.push(edge.weight);
        }
    }

    /// Number of edges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Reports whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all edges.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.weights.clear();
    }

    /// Iterates over the edges.
    pub fn iter(&self) -> impl Iterator<Item = Edge> {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1.0));
        self.ends.iter().zip(weights).map(|(&(from, to), weight)| Edge { from, to, weight })
    }
}
