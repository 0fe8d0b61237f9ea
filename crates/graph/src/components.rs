//! Connected components: vertices joined by a path, ignoring the direction of edges.
//!
//! One pass over all edges. Each vertex points to a vertex of its component with a smaller number, or to itself (*root*); an edge joins the roots of
//! its ends. So each component is named by its smallest vertex, in any order of the edges.

use super::grid::{Buffers, Grid};
use super::prepare::Share;
use super::store::{Store, StoreError, Work};

/// Bytes kept per vertex.
pub const VERTEX_BYTES: u64 = 4;

/// State of the computation.
#[derive(Clone, Debug)]
pub struct Components {
    parents: Vec<u32>,
    interval: usize,
    buffers: Buffers,
}

impl Components {
    /// Makes each vertex its own component.
    pub fn new(grid: &Grid, block_edges: usize) -> Components {
        let parents = (0..grid.plan.vertices).collect();
        Components { parents, interval: 0, buffers: Buffers::new(block_edges) }
    }

    /// Processes the next interval; `None`: all edges were seen.
    pub fn step<S: Store>(&mut self, grid: &Grid, store: &mut S) -> Result<Option<Share>, StoreError> {
        let of = grid.plan.interval_count();
        if self.interval == of {
            return Ok(None);
        }
        for chunk in 0..grid.plan.chunk_count() {
            let Components { parents, buffers, .. } = self;
            grid.scan(store, self.interval, chunk, buffers, |store, block| {
                for at in 0..block.keys() {
                    for &other in &block.others[block.edges(at)] {
                        join(parents, block.first + at as u32, other);
                    }
                }
                store.spend(Work::Follow(block.others.len() as u64));
                Ok::<_, StoreError>(())
            })?;
        }
        self.interval += 1;
        Ok(Some(Share { done: self.interval as u64, of: of as u64 }))
    }

    /// Returns for each vertex the smallest vertex of its component.
    pub fn finish(mut self) -> Vec<u32> {
        for vertex in 0..self.parents.len() {
            // Parents are smaller, so their labels are final.
            self.parents[vertex] = self.parents[self.parents[vertex] as usize];
        }
        self.parents
    }
}

/// Number of vertices of each component, at its smallest vertex, from the labels that [`Components::finish`] returns; 0 elsewhere.
pub fn sizes(mut labels: Vec<u32>) -> Vec<u32> {
    for vertex in 0..labels.len() {
        // The smallest vertex comes first, so its entry already is a size.
        let label = std::mem::take(&mut labels[vertex]) as usize;
        labels[label] += 1;
    }
    labels
}

fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
    while parents[vertex as usize] != vertex {
        let grand = parents[parents[vertex as usize] as usize];
        parents[vertex as usize] = grand;
        vertex = grand;
    }
    vertex
}

fn join(parents: &mut [u32], one: u32, other: u32) {
    let (one, other) = (root(parents, one), root(parents, other));
    parents[one.max(other) as usize] = one.min(other);
}
