//! Tests of the programs, on a flash that breaks as it is told.

mod exact;
mod flash;
mod fs;
mod kv;
mod model;
