//! The side band between the engine's thread and its readers.
//!
//! ```text
//!  reader: look ──► asked = true, wake ──► waits (not for long)
//!  engine: wanted? ──► publish(view): swap, asked = false ──► reader has it; others share it while it is fresh
//! ```
//! Invariants: the engine takes a snapshot only when a reader asks, and never waits: everyone holds the lock only to swap a pointer. One view serves
//! all readers within its freshness, so many readers cost as much as one.

use pellucid_device::Snapshot;
use pellucid_flash::{BlockMap, Figure, Histogram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Traffic of a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Name in the log, such as `nbd`.
    pub name: &'static str,
    /// Connections now.
    pub connections: u64,
    /// Connections since the start.
    pub connected: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Drive commands answered.
    pub commands: u64,
}

/// A served layer of the host: what the host's side knows, wherever the drive below is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerSide {
    /// Name under which it is served.
    pub name: String,
    /// State of the connection to a remote drive below, and number of reconnections; `None`: the drive is in this process.
    pub remote: Option<(&'static str, u64)>,
    /// Counters, by name.
    pub figures: Vec<Figure>,
}

/// The LUNs of a divided drive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveLuns {
    /// The drive's name.
    pub drive: String,
    /// Its LUNs, in the order of their numbers.
    pub luns: Vec<LunSide>,
}

/// A LUN, and its owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LunSide {
    /// CHANNEL/LUN.
    pub lun: String,
    /// The application or target that owns it.
    pub owner: Option<String>,
    /// Mean erases of its blocks, as the flash monitor counts them.
    pub average_erases: Option<f64>,
    /// Bad blocks known to the flash monitor.
    pub bad_blocks: Option<u32>,
    /// Good blocks in reserve for bad ones.
    pub spare_blocks: Option<u32>,
}

/// A server at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serving {
    /// Each protocol.
    pub protocols: Vec<Protocol>,
    /// Each layer of the host.
    pub layers: Vec<LayerSide>,
    /// Owners of the LUNs of each drive that is divided among applications or targets.
    pub luns: Vec<DriveLuns>,
    /// Data that each namespace keeps over a power cut: acknowledged, flushed, nothing.
    pub keeps: Vec<(String, &'static str)>,
    /// Bytes of data in drives and outputs.
    pub held_bytes: u64,
    /// Delay of completions, in wall nanoseconds; empty unless paced.
    pub lateness_ns: Histogram<4>,
}

/// Progress of a piece of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Kind: the jobs or the trace.
    pub what: String,
    /// Requests completed.
    pub requests: u64,
    /// Requests in all, if known.
    pub requests_total: Option<u64>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Wall time since the process began to work or serve.
    pub wall: Duration,
    /// Each drive, with its name.
    pub drives: Vec<(String, Snapshot)>,
    /// The blocks of each drive, if a reader asks for them ([`Board::wants_maps`]).
    pub maps: Vec<(String, BlockMap)>,
    /// The server, if there is one.
    pub serving: Option<Serving>,
    /// The work, if it has an end.
    pub work: Option<Work>,
}

#[derive(Default)]
struct Shared {
    asked: AtomicBool,
    maps_asked: AtomicBool,
    closed: AtomicBool,
    latest: Mutex<Option<(Instant, Arc<View>)>>,
    fresh: Condvar,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    fn latest(&self) -> MutexGuard<'_, Option<(Instant, Arc<View>)>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Publishes views to readers. Clones share one board.
#[derive(Clone, Default)]
pub struct Board {
    shared: Arc<Shared>,
}

impl Board {
    /// Sets the callback that wakes a sleeping engine when a reader asks. Only the first one counts.
    pub fn wake_with(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.wake.set(Box::new(wake));
    }

    /// Reports whether a reader asks: a single load, for every turn of the engine.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// Reports whether a reader asks for the blocks of the drives, and clears the question. An engine calls it once per view; that view must have the
    /// blocks.
    pub fn wants_maps(&self) -> bool {
        self.shared.maps_asked.swap(false, Ordering::AcqRel)
    }

    /// Hands a view to all waiting readers.
    pub fn publish(&self, view: View) {
        let view = Arc::new(view);
        let mut latest = self.shared.latest();
        // Under the lock, so that a reader that asks afterwards is not lost.
        self.shared.asked.store(false, Ordering::Release);
        let old = latest.replace((Instant::now(), view));
        drop(latest);
        self.shared.fresh.notify_all();
        drop(old);
    }

    /// Closes the board: readers get the last view.
    pub fn close(&self) {
        let latest = self.shared.latest();
        self.shared.closed.store(true, Ordering::Release);
        drop(latest);
        self.shared.fresh.notify_all();
    }

    /// Reports whether [`Board::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// A view with the blocks of each drive, taken after the call; waits for the engine, at most twice for `patience`. `None`: the engine does not
    /// answer, has no flash drives, or has ended.
    pub fn look_at_maps(&self, patience: Duration) -> Option<Arc<View>> {
        // The first view may have been under construction when this reader asked.
        (0..2).find_map(|_| {
            self.shared.maps_asked.store(true, Ordering::Release);
            self.look(Duration::ZERO, patience).filter(|view| !view.maps.is_empty())
        })
    }

    /// A view taken at most `fresh` before the call, or after it. Waits at most `patience` for the engine; then returns the last view, if any.
    pub fn look(&self, fresh: Duration, patience: Duration) -> Option<Arc<View>> {
        let began = Instant::now();
        let until = began + patience;
        let mut latest = self.shared.latest();
        loop {
            if let Some((taken, view)) = &*latest
                && (*taken >= began || taken.elapsed() <= fresh || self.is_closed())
            {
                return Some(view.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_closed() {
                return latest.as_ref().map(|(_, view)| view.clone());
            }
            if !self.shared.asked.swap(true, Ordering::AcqRel)
                && let Some(wake) = self.shared.wake.get()
            {
                wake();
            }
            let waited = self.shared.fresh.wait_timeout(latest, left);
            latest = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    fn view(seconds: u64) -> View {
        View { wall: Duration::from_secs(seconds), ..View::default() }
    }

    #[test]
    fn a_view_is_taken_when_asked_for_and_shared_while_fresh() {
        let board = Board::default();
        assert!(!board.wanted());
        let (asks, asked) = mpsc::channel();
        board.wake_with(move || asks.send(()).unwrap());
        let reader = std::thread::spawn({
            let board = board.clone();
            move || board.look(LONG, LONG).map(|view| view.wall)
        });
        asked.recv().unwrap();
        assert!(board.wanted());
        board.publish(view(7));
        assert!(!board.wanted());
        assert_eq!(reader.join().unwrap(), Some(Duration::from_secs(7)));
        // Fresh: the engine is not asked again.
        assert_eq!(board.look(LONG, LONG).unwrap().wall.as_secs(), 7);
        assert!(!board.wanted());
    }

    #[test]
    fn an_engine_that_does_not_answer_costs_patience_only() {
        let board = Board::default();
        assert!(board.look(LONG, Duration::ZERO).is_none());
        board.publish(view(1));
        let old = board.look(Duration::ZERO, Duration::from_millis(1)).unwrap();
        assert_eq!(old.wall.as_secs(), 1);
        assert!(board.wanted());
    }

    #[test]
    fn blocks_are_taken_only_when_a_reader_asks_for_them() {
        let board = Board::default();
        assert!(!board.wants_maps());
        let (asks, asked) = mpsc::channel();
        board.wake_with(move || asks.send(()).unwrap());
        let reader = std::thread::spawn({
            let board = board.clone();
            move || board.look_at_maps(LONG).map(|view| view.maps[0].0.clone())
        });
        asked.recv().unwrap();
        // A view begun before the question.
        board.publish(view(1));
        asked.recv().unwrap();
        assert!(board.wants_maps());
        board.publish(View { maps: vec![("drive".into(), BlockMap::default())], ..view(2) });
        assert_eq!(reader.join().unwrap().as_deref(), Some("drive"));
        assert!(!board.wants_maps());
        board.close();
        assert!(Board::default().look_at_maps(Duration::ZERO).is_none());
    }

    #[test]
    fn a_closed_board_keeps_its_last_view_and_wakes_waiting_readers() {
        let board = Board::default();
        let (asks, asked) = mpsc::channel();
        board.wake_with(move || asks.send(()).unwrap());
        let reader = std::thread::spawn({
            let board = board.clone();
            move || board.look(LONG, LONG).is_none()
        });
        asked.recv().unwrap();
        board.close();
        assert!(reader.join().unwrap());
        board.publish(view(9));
        assert_eq!(board.look(Duration::ZERO, LONG).unwrap().wall.as_secs(), 9);
    }
}
