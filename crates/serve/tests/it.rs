//! Servers through real sockets, and the data they keep. All tests are one program, because each further one
//! would be linked and stored with the whole crate in it.

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
mod nvme_session;
mod paced;
mod remote;
mod storage;
mod targets;
