//! What an administrator of an open-channel namespace may look at and set, beside its commands.

use crate::config::Feedback;
use crate::device::Device;
use crate::spaces::Space;
use pellucid_flash::ChunkInfo;

impl Device {
    /// Chunks `first..first + count` of an open-channel namespace, as far as they exist; empty for any other namespace.
    pub fn chunk_infos(
        &self,
        namespace: u16,
        first: u32,
        count: u32,
    ) -> impl Iterator<Item = ChunkInfo> + use<'_> {
        let space = match self.spaces.get(usize::from(namespace)) {
            Some(Space::Chunks(space)) => Some(space),
            _ => None,
        };
        space.into_iter().flat_map(move |space| {
            let end = first.saturating_add(count).min(space.chunks.count());
            (first..end).map(|number| space.chunks.info(number))
        })
    }

    /// What an open-channel namespace tells its host; `None` for any other namespace.
    pub fn feedback(&self, namespace: u16) -> Option<Feedback> {
        match self.spaces.get(usize::from(namespace)) {
            Some(Space::Chunks(space)) => Some(space.feedback),
            _ => None,
        }
    }

    /// Sets what an open-channel namespace tells its host; says whether it is one.
    pub fn set_feedback(&mut self, namespace: u16, feedback: Feedback) -> bool {
        match self.spaces.get_mut(usize::from(namespace)) {
            Some(Space::Chunks(space)) => {
                space.feedback = feedback;
                true
            }
            _ => false,
        }
    }
}
