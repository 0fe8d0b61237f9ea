//! Ends: the stop of a buffer, and its pauses.
//!
//! ```text
//!  stop: Draining ─► Flushing ─► Stopped      a command takes the stop back
//!  pause: new writes bypass the buffer, which writes what it holds; resume
//! ```

/// Progress of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopping {
    #[default]
    No,
    Draining,
    Flushing,
    Stopped,
}

/// Stop and pause.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    stopping: Stopping,
    /// New writes bypass the buffer while it writes its contents.
    paused: bool,
    /// Why the last pause did not end as it should.
    pause_failed: Option<&'static str>,
}

impl Ends {
    // ---- stop

    pub fn begin_stop(&mut self) {
        self.stopping = Stopping::Draining;
    }

    /// Takes the stop back.
    #[inline]
    pub fn cancel_stop(&mut self) {
        self.stopping = Stopping::No;
    }

    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping != Stopping::No
    }

    #[inline]
    pub fn is_draining(&self) -> bool {
        self.stopping == Stopping::Draining
    }

    /// Notes that the drive is flushed for the stop.
    pub fn flush(&mut self) {
        assert_eq!(self.stopping, Stopping::Draining, "a stop flushes what has left the buffer");
        self.stopping = Stopping::Flushing;
    }

    /// Notes that the flush for the stop has ended well.
    pub fn flushed(&mut self) {
        if self.stopping == Stopping::Flushing {
            self.stopping = Stopping::Stopped;
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopping == Stopping::Stopped
    }

    // ---- pause

    pub fn pause(&mut self) {
        (self.paused, self.pause_failed) = (true, None);
    }

    pub fn resume(&mut self) {
        self.paused = false;
    }

    #[inline]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Notes why the pause cannot end as it should.
    pub fn fail_pause(&mut self, why: &'static str) {
        self.pause_failed = Some(why);
    }

    pub fn pause_failure(&self) -> Option<&'static str> {
        self.pause_failed
    }

    /// Takes over the pause of an earlier life. `was_cut`: it had not ended.
    pub fn inherit(&mut self, before: &Ends, was_cut: bool) {
        self.paused = before.paused;
        if was_cut {
            self.fail_pause("the power was cut before the buffer was empty, and it lost what it held");
        }
    }
}
