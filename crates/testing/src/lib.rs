//! Tests of drives: random drives under random commands, and the conformance of command sets.

pub mod conformance;
mod seeds;
pub mod swarm;

pub use seeds::seeds;
