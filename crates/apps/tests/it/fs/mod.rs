//! The file system beside a plain model, on drives that fail and lose power.

mod basic;
mod crash;
mod disk;
mod model;
