//! The file system against a plain model, on drives that fail and lose power.

mod basic;
mod crash;
mod damage;
mod disk;
// The drive is that of the key-value cache's tests.
#[path = "../../../kv/tests/it/flash.rs"]
mod flash;
mod model;
mod trace;
