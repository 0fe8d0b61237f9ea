//! Codecs, byte by byte.
//! One program: each further one is linked and kept on disk with the whole crate in it.

mod memcached;
mod nbd;
mod nvme;
mod tcp;
