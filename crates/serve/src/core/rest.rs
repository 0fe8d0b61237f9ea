//! Rest: the end of the drives in service.

/// State of the end.
#[derive(Default)]
pub(super) struct Rest {
    /// The layers are being stopped.
    resting: bool,
    /// Drives whose layers could not be stopped, each with the reason.
    unstopped: Vec<String>,
}

impl Rest {
    /// Begins the rest; returns `true` the first time.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.resting, true)
    }

    /// Notes a drive whose state was not stored as it should.
    pub fn fail(&mut self, drive: &str, why: &str) {
        self.unstopped.push(format!("{drive}: {why}"));
    }

    pub fn unstopped(&self) -> &[String] {
        &self.unstopped
    }
}
