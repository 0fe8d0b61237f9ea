//! Translation: where a logical page lies, where the next one goes, and which block is emptied next.

mod config;

pub use config::{Durability, FtlConfig, Placement, Separation, Victim, WearLevelling};
