//! The file system beside a plain model, on drives that fail and lose power.

mod basic;
mod crash;
mod damage;
mod disk;
mod model;
