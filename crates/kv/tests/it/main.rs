//! Tests of the cache, on a flash with injected faults.

mod exact;
mod flash;
mod kv;
mod model;
mod trace;
