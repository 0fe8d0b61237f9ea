//! Programs on the flash library and on the port.
//!
//! [`kv`] is a key-value cache on flash, [`graph`] an out-of-core graph engine, [`fs`] a log-structured file system. Each program is a state machine without I/O ([`Machine`](pellucid_host::Machine)), so it runs
//! in virtual time, behind a server, and can be cloned together with the drive that it stands on.

pub mod fs;
pub mod graph;
pub mod kv;
