//! Target in its place: its implementation, its commands under way, and its state.
//!
//! ```text
//!   starting ─ its host FTL has found what is on its units ─► ready ─ remove ─► stopping ─ nothing is under way ─► gone
//!      └─ it has failed ─► stopping, with the sentence
//! ```
//! Invariants: `above` counts the commands from above, and `below` those with the drive; a place with either
//! of them stays. A raw target has no state to restore, so it begins ready.

use crate::{ChunkView, HostFtl, Machine};

/// State of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// The host FTL reads the data on its units.
    Starting,
    /// The target takes commands.
    Ready,
    /// The target is being removed.
    Stopping,
}

impl TargetState {
    /// Returns the state's name.
    pub fn name(self) -> &'static str {
        match self {
            TargetState::Starting => "starting",
            TargetState::Ready => "ready",
            TargetState::Stopping => "stopping",
        }
    }
}

/// Change of a target's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// The target takes commands.
    Ready(u16),
    /// The target's namespace and units are free. A failed start adds its reason.
    Gone(u16, Option<String>),
}

/// Implementation of a target.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Block(Box<HostFtl>),
    Raw(Box<ChunkView>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// Progress of a place.
pub(super) enum Stage {
    Starting,
    Ready,
    /// The target is being removed, with the reason if its start failed.
    Stopping(Option<String>),
}

/// Target in its place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub name: String,
    pub work: Work,
    pub stage: Stage,
    /// Number of commands from above under way.
    pub above: usize,
    /// Number of commands with the drive.
    pub below: usize,
}

impl Place {
    /// Returns the target's state.
    pub fn state(&self) -> TargetState {
        match self.stage {
            Stage::Starting => TargetState::Starting,
            Stage::Ready => TargetState::Ready,
            Stage::Stopping(_) => TargetState::Stopping,
        }
    }

    /// Advances a target that starts or stops. Returns the event of its namespace, which is `namespace`.
    pub fn step(&mut self, namespace: u16) -> Option<TargetEvent> {
        if let (Stage::Starting, Work::Block(layer)) = (&self.stage, &self.work) {
            if let Some(sentence) = layer.failure() {
                self.stage = Stage::Stopping(Some(sentence));
            } else if layer.is_ready() {
                self.stage = Stage::Ready;
                return Some(TargetEvent::Ready(namespace));
            }
        }
        let Stage::Stopping(why) = &self.stage else { return None };
        // A layer that is not stopped and has nothing under way lacks the space to continue.
        let rests = !matches!(&self.work, Work::Block(layer) if layer.next_event().is_some());
        let is_gone = self.above == 0 && self.below == 0 && rests;
        is_gone.then(|| TargetEvent::Gone(namespace, why.clone()))
    }
}
