//! State of channels and dies at one moment, for the recorder of the timeline (`timeline`).

use crate::timeline::Activity;
use pellucid_flash::SimTime;

/// The transfer on a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub begin: SimTime,
    pub end: SimTime,
    pub activity: Activity,
    /// The operation, unless the die has set it aside meanwhile.
    pub op: Option<u32>,
}

/// The operation that a die works on, or one of its planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub op: u32,
    /// Its present activity for it; `None`: it waits for the channel or the firmware.
    pub activity: Option<Activity>,
}
