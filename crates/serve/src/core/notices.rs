//! Notices of drives that no host has taken yet.

use pellucid_flash::Notice;
use std::collections::VecDeque;

/// Notices kept for hosts that have not asked yet; beyond this number the oldest are dropped.
const NOTICES_MAX: usize = 1 << 16;

/// Notices, each with its namespace.
#[derive(Default)]
pub(super) struct Notices {
    untold: VecDeque<(usize, Notice)>,
}

impl Notices {
    pub fn add(&mut self, namespace: usize, notice: Notice) {
        if self.untold.len() == NOTICES_MAX {
            self.untold.pop_front();
        }
        self.untold.push_back((namespace, notice));
    }

    /// Takes the next notice of one of these namespaces.
    pub fn take(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)> {
        let at = self.untold.iter().position(|(namespace, _)| namespaces.contains(namespace))?;
        self.untold.remove(at)
    }
}
