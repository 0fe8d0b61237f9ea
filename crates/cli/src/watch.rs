//! Watching a run: the progress bar, the terminal view, the monitor.
//!
//! ```text
//!  the run's thread:  look ─► bar; board.wanted()? ─► snapshot ─► board
//!  view, monitor:     threads of their own, which ask the board
//! ```

use crate::args::Global;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::view::LiveView;
use crate::{interrupt, output};
use anyhow::anyhow;
use pellucid_device::{Device, Timeline};
use pellucid_film::Recorder;
use pellucid_lab::drive::{Onlooker, Progress, TimelinePart};
use pellucid_monitor::{Board, Listen, Monitor, View, Work};
use pellucid_report::{Report, RequestSink};
use pellucid_text::format::count;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Instant;

/// Where figures are shown over HTTP.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MonitorOptions {
    /// Show the figures of the drives here: a web page, /metrics for Prometheus, /snapshot.json, /history.json; HOST:PORT or PORT (on 127.0.0.1)
    #[arg(long, value_name = "ADDR")]
    monitor: Option<Listen>,
    /// Allow addresses that other machines can reach; any client may connect
    #[arg(long)]
    pub open: bool,
}

impl MonitorOptions {
    /// Returns whether figures are to be shown.
    pub fn is_wanted(&self) -> bool {
        self.monitor.is_some()
    }

    /// Refuses an address that others can reach, unless that is wanted.
    pub fn check(&self) -> Result<(), Failure> {
        self.monitor.map_or(Ok(()), |listen| listen.check(self.open)).map_err(Failure::asked)
    }

    /// Makes the check of [`MonitorOptions::check`] for a command in which nothing but the monitor listens on a network.
    pub fn check_alone(&self) -> Result<(), Failure> {
        if self.open && self.monitor.is_none() {
            return Err(Failure::asked(anyhow!(
                "--open: nothing listens here; allowed: with --monitor ADDR"
            )));
        }
        self.check()
    }

    /// Starts the monitor, if one is asked for; prints its address.
    pub fn start(&self, tell: impl FnOnce(SocketAddr)) -> Result<Option<Board>, Failure> {
        let Some(listen) = self.monitor else { return Ok(None) };
        let board = Board::default();
        let monitor = Monitor::start(listen, self.open, board.clone()).map_err(Failure::asked)?;
        tell(monitor.address());
        Ok(Some(board))
    }
}

/// How a run is watched.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WatchOptions {
    /// Watch the drive in the terminal during the run; q ends the run
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    monitor: MonitorOptions,
}

impl WatchOptions {
    /// Refuses what cannot be, before anything is printed.
    pub fn check(&self, global: &Global) -> Result<(), Failure> {
        self.monitor.check_alone()?;
        if self.live && global.json {
            let message =
                "--live and --json do not go together: both need standard output; allowed: one of them";
            return Err(Failure::asked(anyhow!(message)));
        }
        if self.live && !console::user_attended() {
            let allowed = "allowed: a terminal; or without one, --monitor 9300";
            return Err(Failure::asked(anyhow!("--live: standard output is no terminal; {allowed}")));
        }
        Ok(())
    }

    /// Refuses the options beside one that they do not go together with.
    pub fn check_absent(&self, option: &str) -> Result<(), Failure> {
        let given =
            [("--live", self.live), ("--monitor", self.monitor.is_wanted()), ("--open", self.monitor.open)];
        match given.iter().find(|option| option.1) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Failure::asked(anyhow!("{name} and {option} do not go together; allowed: one of them")))
            }
        }
    }

    /// Begins to watch the run of `drive`.
    pub fn begin(
        &self,
        global: &Global,
        drive: &str,
        what: String,
        total: Option<u64>,
    ) -> Result<Watcher, Failure> {
        let board = self.monitor.start(|address| {
            output::notice(global, &format!("monitor  http://{address}/"));
        })?;
        let board = board.or_else(|| self.live.then(Board::default));
        let live = match (&board, self.live) {
            (Some(board), true) => Some(LiveView::start(board.clone()).map_err(Failure::work)?),
            _ => None,
        };
        let bar = if live.is_some() { Bar::hidden() } else { Bar::new(global, total) };
        let work = Work { what, requests: 0, requests_total: total };
        let (drive, began) = (drive.into(), Instant::now());
        let interrupted = if global.whole_only { interrupt::NOTHING } else { interrupt::REPORT };
        Ok(Watcher {
            bar,
            board,
            drive,
            work,
            began,
            live,
            log: None,
            film: None,
            timeline: Recorded::default(),
            interrupted,
            ended: false,
        })
    }
}

/// The timeline of a run: the part that is to be recorded, then what was.
#[derive(Default)]
struct Recorded {
    part: Option<TimelinePart>,
    timeline: Option<Timeline>,
}

/// Watches one run.
pub struct Watcher {
    bar: Bar,
    board: Option<Board>,
    drive: String,
    work: Work,
    began: Instant,
    live: Option<LiveView>,
    /// A log of requests that the run does not write by itself.
    log: Option<Box<dyn RequestSink>>,
    /// A film of the run.
    film: Option<Recorder>,
    /// A timeline of the run.
    timeline: Recorded,
    /// Effect of an interrupt, in the words of the message.
    interrupted: &'static str,
    /// The user has ended the run.
    ended: bool,
}

impl Watcher {
    /// Says what is being done before requests flow.
    pub fn say(&self, what: &str) {
        self.bar.say(what);
    }

    /// Makes the run write this log, too.
    pub fn keep_log(&mut self, log: Box<dyn RequestSink>) {
        self.log = Some(log);
    }

    /// Makes the run record this film.
    pub fn keep_film(&mut self, film: Recorder) {
        self.film = Some(film);
    }

    /// Makes the run record a timeline of this part.
    pub fn record(&mut self, part: TimelinePart) {
        self.timeline.part = Some(part);
    }

    /// Takes the timeline, if one was recorded.
    pub fn timeline(&mut self) -> Option<Timeline> {
        self.timeline.timeline.take()
    }

    /// Takes the film, if one was recorded.
    pub fn film(&mut self) -> Option<Recorder> {
        self.film.take()
    }

    /// The run is over. Returns whether it was ended before its time.
    pub fn finish(self, report: &Report) -> bool {
        drop(self.live);
        if let Some(board) = &self.board {
            board.close();
        }
        let early = self.ended && self.work.requests_total.is_none_or(|all| report.requests < all);
        if !early {
            self.bar.finish(report.requests, report.simulated_seconds);
        }
        early
    }
}

/// Work of the run's own thread for observers.
impl Onlooker for Watcher {
    fn watches(&self) -> bool {
        self.board.is_some()
    }

    fn log(&mut self) -> Option<Box<dyn RequestSink>> {
        self.log.take()
    }

    fn film(&mut self) -> Option<&mut Recorder> {
        self.film.as_mut()
    }

    fn timeline(&mut self) -> Option<TimelinePart> {
        self.timeline.part
    }

    fn keep_timeline(&mut self, timeline: Timeline) {
        self.timeline.timeline = Some(timeline);
    }

    fn prepare(&mut self, written_bytes: u64, total_bytes: Option<u64>) -> ControlFlow<()> {
        self.bar.prepare(written_bytes, total_bytes);
        ControlFlow::Continue(())
    }

    fn look(&mut self, device: Option<&Device>, progress: Progress) -> ControlFlow<()> {
        self.bar.update(progress);
        self.work.requests = progress.requests;
        if let Some(board) = self.board.as_ref().filter(|board| board.wanted())
            && let Some(device) = device
        {
            let maps = match board.wants_maps() {
                true => vec![(self.drive.clone(), device.block_map())],
                false => Vec::new(),
            };
            board.publish(View {
                maps,
                wall: self.began.elapsed(),
                drives: vec![(self.drive.clone(), device.snapshot())],
                serving: None,
                work: Some(self.work.clone()),
            });
        }
        interrupt::running(self.interrupted);
        self.ended = interrupt::asked() || self.live.as_ref().is_some_and(LiveView::wants_end);
        if self.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// `1,234 of 5,000 requests`.
pub fn requests(done: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => format!("{} of {} requests", count(done), count(total)),
        None => format!("{} requests", count(done)),
    }
}
