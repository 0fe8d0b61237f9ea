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

    /// Wear-level index delta threshold of an open-channel namespace (WIT of its geometry): the gap in the wear index between chunks of a
    /// parallel unit from which on the host is told of it. 0: it is not, or it is no such namespace.
    pub fn wear_threshold(&self, namespace: u16) -> u8 {
        match self.spaces.get(usize::from(namespace)) {
            Some(Space::Chunks(space)) => {
                let gap = space.feedback.wear_gap;
                space.chunks.wear_index(gap).max(u8::from(gap > 0))
            }
            _ => 0,
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
