//! A timer in the epoll set: epoll's own timeout is in milliseconds, while drives need microseconds.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub(crate) struct Timer {
    file: OwnedFd,
}

impl Timer {
    pub fn new(registry: &Registry, token: Token) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { file })
    }

    /// Sets the timer to fire `after_ns` from now, replacing any earlier setting.
    pub fn set(&self, after_ns: u64) -> io::Result<()> {
        let after_ns = after_ns.max(1);
        let it_value = Timespec {
            tv_sec: (after_ns / 1_000_000_000) as i64,
            tv_nsec: (after_ns % 1_000_000_000) as i64,
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value })?;
        Ok(())
    }

    /// Clears a fired event.
    pub fn clear(&self) {
        let mut expirations = [0; 8];
        // An empty read means that the timer was set again meanwhile.
        let _ = rustix::io::read(&self.file, &mut expirations);
    }
}
