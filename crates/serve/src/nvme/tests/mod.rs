//! The target against hosts made of the wire crate's other end, in memory.

mod admin;
mod authentication;
mod durable;
mod hostile;
mod io;
mod nameless;
mod sets;
mod world;
mod zones;
