//! Servers through real sockets, and what they keep.
//! One program: each further one is linked and kept on disk with the whole crate in it.

mod common;
mod damaged;
mod engine;
mod file;
mod host_faults;
mod hostile;
mod kv;
mod monitor;
mod nbd;
mod nbd_session;
mod nvme;
mod paced;
mod remote;
mod storage;
mod targets;
