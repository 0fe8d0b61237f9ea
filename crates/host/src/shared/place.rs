//! A target in its place: what does its work, what it has under way, and how far it is.
//!
//! ```text
//!   starting ─ its host FTL has found what is on its units ─► ready ─ remove ─► stopping ─ nothing is under way ─► gone
//!      └─ it has failed ─► stopping, with the sentence
//! ```
//! Invariants: `above` counts the commands from above and `below` those with the drive that have not ended; a place with
//! either is not gone. A raw target has nothing to find: it begins ready.

use crate::{ChunkView, HostFtl, Machine};

/// How far a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// Its host FTL reads what is on its units.
    Starting,
    /// It takes commands.
    Ready,
    /// It is taken away.
    Stopping,
}

impl TargetState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            TargetState::Starting => "starting",
            TargetState::Ready => "ready",
            TargetState::Stopping => "stopping",
        }
    }
}

/// What became of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// It takes commands.
    Ready(u16),
    /// Its namespace and its units are free. A start that failed says why.
    Gone(u16, Option<String>),
}

/// What does the work of a target.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Block(Box<HostFtl>),
    Raw(Box<ChunkView>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
/// How far a place is.
pub(super) enum Stage {
    Starting,
    Ready,
    /// Because its start failed, if there is a sentence.
    Stopping(Option<String>),
}

/// A target in its place.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub name: String,
    pub work: Work,
    pub stage: Stage,
    /// Commands from above that have not ended.
    pub above: usize,
    /// Commands with the drive.
    pub below: usize,
}

impl Place {
    /// How far it is.
    pub fn state(&self) -> TargetState {
        match self.stage {
            Stage::Starting => TargetState::Starting,
            Stage::Ready => TargetState::Ready,
            Stage::Stopping(_) => TargetState::Stopping,
        }
    }

    /// Goes on if it starts or stops. Returns what became of `namespace`, which is its own.
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
        // With nothing under way, a layer that is not at its end has no room to go on.
        let rests = !matches!(&self.work, Work::Block(layer) if layer.next_event().is_some());
        let is_gone = self.above == 0 && self.below == 0 && rests;
        is_gone.then(|| TargetEvent::Gone(namespace, why.clone()))
    }
}
