//! NVMe sessions over served drives, against in-memory hosts built from the wire crate's host side.

mod admin;
mod authentication;
mod durable;
mod hostile;
mod io;
mod nameless;
mod sets;
mod world;
mod zones;
