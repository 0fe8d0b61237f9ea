//! A timer that epoll waits for with the others: epoll's own timeout counts milliseconds, drives count microseconds.

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

    /// Makes an event `after_ns` from now; replaces what was set before.
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

    /// Takes the event away.
    pub fn clear(&self) {
        let mut expirations = [0; 8];
        // Nothing to read means that the timer was set again meanwhile.
        let _ = rustix::io::read(&self.file, &mut expirations);
    }
}
