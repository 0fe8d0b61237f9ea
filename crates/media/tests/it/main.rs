//! The media as their callers see them.

mod common;
mod faults;
mod image;
mod integrity;
mod model;
mod retries;
mod rules;
mod snapshot;
mod times;
