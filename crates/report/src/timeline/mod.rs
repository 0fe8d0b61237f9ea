//! Views of a drive's [timeline](pellucid_device::Timeline): a trace for Perfetto's viewer, and figures of the page.

mod figures;
mod perfetto;
mod protobuf;

pub(crate) use figures::figures;
pub use perfetto::{TIMELINE_BEGINNING, to_perfetto};
