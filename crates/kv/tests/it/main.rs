//! Tests of the cache, on a flash that breaks as it is told.

mod exact;
mod flash;
mod kv;
mod model;
mod trace;
