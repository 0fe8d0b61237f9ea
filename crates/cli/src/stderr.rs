//! Standard error: notices, errors, and the log of a server.
//!
//! ```text
//!  a command that ends     say ─► standard error
//!  a server, never_wait    say ─► queue (bounded) ─► thread ─► standard error
//!                                   └► full: the line is dropped and counted; a line tells how many, in their place
//! ```
//! A pipe that nobody reads blocks its writer. A server must go on serving then, and must end when it is asked to.
//!
//! Invariant: after [`never_wait`], [`say`] never waits for standard error, and [`finish`] waits for one that takes nothing no longer than
//! [`GRACE`].

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes of lines that wait, at most. As many more are with the thread that writes them.
const HELD_BYTES_MAX: usize = 256 << 10;
/// Bytes written at once: a pipe that takes some has taken all of them.
const PIECE_BYTES: usize = 4 << 10;
/// The end of a server waits so long for a standard error that takes nothing.
const GRACE: Duration = Duration::from_secs(1);

/// The queue of a server.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Writes a line. A standard error that is closed loses the line and nothing else.
pub fn say(line: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push(line),
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

/// Stops lines from waiting for standard error from now on. `dropped` makes the line with the number of dropped lines.
///
/// # Errors
/// When the system gives no thread.
pub fn never_wait(dropped: impl Fn(u64) -> String + Send + 'static) -> io::Result<()> {
    let queue = Queue::default();
    let writer = queue.clone();
    let thread = std::thread::Builder::new().name("log".into());
    thread.spawn(move || writer.write_to(io::stderr(), dropped))?;
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// Waits until everything is written that was said, while standard error takes something.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.finish(GRACE);
    }
}

/// Lines on their way to the thread that writes them.
#[derive(Clone, Default)]
struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// Wakes the thread that writes, and those that wait for it.
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    /// Lines dropped behind those in `held`.
    dropped: u64,
    /// The thread has lines that are not written yet.
    writing: bool,
    /// Pieces written.
    pieces: u64,
}

impl Lines {
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.dropped == 0
    }
}

impl Queue {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line, or counts it as dropped.
    fn push(&self, line: &str) {
        let mut lines = self.lines();
        // After a dropped line no other line is queued until the drop is reported, so the count appears where the lines are missing.
        if lines.dropped > 0 || lines.held.len() + line.len() >= HELD_BYTES_MAX {
            lines.dropped += 1;
        } else {
            lines.held.extend_from_slice(line.as_bytes());
            lines.held.push(b'\n');
        }
        self.0.changed.notify_all();
    }

    /// Writes lines as they come. Lines that `output` refuses are lost.
    fn write_to(&self, mut output: impl Write, dropped: impl Fn(u64) -> String) {
        loop {
            for piece in self.take(&dropped).chunks(PIECE_BYTES) {
                let _ = output.write_all(piece);
                self.lines().pieces += 1;
                self.0.changed.notify_all();
            }
        }
    }

    /// Waits for lines; after those that were dropped, how many.
    fn take(&self, dropped: &impl Fn(u64) -> String) -> Vec<u8> {
        let mut lines = self.lines();
        lines.writing = false;
        self.0.changed.notify_all();
        let waited = self.0.changed.wait_while(lines, |lines| lines.is_empty());
        lines = waited.unwrap_or_else(PoisonError::into_inner);
        lines.writing = true;
        let mut batch = std::mem::take(&mut lines.held);
        if let count @ 1.. = std::mem::take(&mut lines.dropped) {
            batch.extend_from_slice(dropped(count).as_bytes());
            batch.push(b'\n');
        }
        batch
    }

    /// Waits until everything is written, or nothing has been for so long.
    fn finish(&self, grace: Duration) {
        let mut lines = self.lines();
        while lines.writing || !lines.is_empty() {
            let pieces = lines.pieces;
            let waits = |lines: &mut Lines| lines.pieces == pieces && (lines.writing || !lines.is_empty());
            let waited = self.0.changed.wait_timeout_while(lines, grace, waits);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return;
            }
            lines = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A pipe of one piece: a write waits until it is read.
    struct Pipe {
        written: Sender<Vec<u8>>,
        read: Receiver<()>,
    }

    impl Write for Pipe {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.written.send(piece.to_vec()).map_err(gone)?;
            self.read.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Unread lines block nobody; the number of missing lines appears in their place.
    #[test]
    fn a_pipe_that_is_not_read_drops_lines_and_tells_how_many() {
        let (queue, (written, pieces), (go, read)) = (Queue::default(), channel(), channel());
        let writer = queue.clone();
        std::thread::spawn(move || {
            writer.write_to(Pipe { written, read }, |count| format!("{count} dropped"))
        });
        queue.push("first");
        // The thread has the first line, and nobody reads it.
        let first = pieces.recv().expect("a piece");
        assert_eq!(first, b"first\n");
        let line = "x".repeat(1023);
        let taken = HELD_BYTES_MAX / 1024;
        (0..taken + 7).for_each(|_| queue.push(&line));
        queue.finish(Duration::ZERO);
        assert_eq!(queue.lines().dropped, 7, "a line that does not fit is counted");
        assert!(queue.lines().held.len() <= HELD_BYTES_MAX);
        // It is read again.
        let mut text = Vec::new();
        while !text.ends_with(b" dropped\n") {
            go.send(()).expect("the thread lives");
            text.extend(pieces.recv().expect("a piece"));
        }
        queue.push("last");
        go.send(()).expect("the thread lives");
        text.extend(pieces.recv().expect("a piece"));
        go.send(()).expect("the thread lives");
        queue.finish(Duration::MAX);
        let text = String::from_utf8(text).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), taken + 2);
        assert_eq!(lines[taken..], ["7 dropped", "last"]);
    }

    /// A closed pipe loses lines and nothing else.
    #[test]
    fn a_pipe_that_is_closed_keeps_nobody_waiting() {
        let (queue, (written, pieces), (_go, read)) = (Queue::default(), channel(), channel::<()>());
        drop(pieces);
        let writer = queue.clone();
        std::thread::spawn(move || {
            writer.write_to(Pipe { written, read }, |count| format!("{count} dropped"))
        });
        (0..2000).for_each(|_| queue.push("line"));
        queue.finish(Duration::MAX);
        assert!(queue.lines().is_empty());
    }
}
