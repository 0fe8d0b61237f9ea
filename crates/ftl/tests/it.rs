//! Translations, block managers and garbage collection, without a drive.
//! One program: each further one is linked and kept on disk with the whole crate in it.

mod common;
mod direct;
mod log_block;
mod log_block_merges;
mod log_block_power;
mod pacing;
mod placement;
mod trims;
mod unreadable;
mod victims;
