//! The built command, as a shell sees it.

mod cache;
mod common;
mod fire;
mod fs;
mod fuzz;
mod graph;
mod images;
mod import;
mod installed;
mod kv;
mod mistakes;
mod namespaces;
mod one_meaning;
mod options;
mod outputs;
mod policies;
mod preconditioning;
mod promises;
mod provenance;
mod reference;
mod reproduce;
mod serving;
mod storage;
mod tails;
mod targets;
mod work;
