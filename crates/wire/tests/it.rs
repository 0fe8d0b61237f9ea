//! Codecs, byte by byte.
//! One program, as each further test program would link and store the whole crate.

mod memcached;
mod nbd;
mod nvme;
mod tcp;
