//! The small HTTP server of a monitor: four addresses, all read-only.
//!
//! ```text
//!  listener thread: accept ─► room? ── no ─► closed
//!                               └ yes ─► a thread for the one request: read head ─► look at the board ─► answer ─► closed
//!  history thread: each second look at the board ─► history
//! ```
//! It is hand-written for its limits, which small HTTP libraries lack: number of connections, bytes of a request, and total time, whatever a client
//! does. `httparse` parses the head.
//!
//! Invariants: at most [`CONNECTIONS_MAX`] connections at once, each closed after [`LIFE_MAX`]; the engine never waits for this server.

use crate::board::Board;
use crate::figures::Figures;
use crate::history::History;
use crate::prometheus::metrics;
use pellucid_film::{MAP_SCRIPT, live_frame};
use pellucid_flash::BlockMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of connections; further ones are closed.
const CONNECTIONS_MAX: usize = 16;
/// Maximum size of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// Longest time from accept to the end of the answer.
const LIFE_MAX: Duration = Duration::from_secs(10);
/// Age up to which a view is shown again; it bounds the number of snapshots that the drive takes.
const FRESH: Duration = Duration::from_millis(100);
/// Longest wait of a reader for the drive before it gets the last view.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failed accept, such as for want of file descriptors.
const BREATHER: Duration = Duration::from_millis(100);

/// Interval between samples of the history.
const PERIOD: Duration = Duration::from_secs(1);

/// The page; its line `/* map.js */` is replaced by the script that draws block maps.
const PAGE: &str = include_str!("page.html");

/// Address of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Listen {
    /// Refuses an address that other machines can reach, unless `open`.
    ///
    /// # Errors
    /// The address is not local.
    pub fn check(self, open: bool) -> Result<(), MonitorError> {
        let Listen(address) = self;
        if address.ip().is_loopback() || open { Ok(()) } else { Err(MonitorError::NotLoopback { address }) }
    }
}

impl FromStr for Listen {
    type Err = String;

    /// `HOST:PORT`, or `PORT` on 127.0.0.1.
    fn from_str(text: &str) -> Result<Listen, String> {
        let allowed =
            "allowed: HOST:PORT, or PORT (on 127.0.0.1), with a port from 0 to 65535 (0: any free one)";
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("port {text:?}; {allowed}"));
        let Some((host, end)) = text.rsplit_once(':') else {
            return Ok(Listen(SocketAddr::from(([127, 0, 0, 1], port(text)?))));
        };
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let found = (host, port(end)?)
            .to_socket_addrs()
            .map_err(|error| format!("host {host:?}: {error}; {allowed}"));
        found?.next().map(Listen).ok_or_else(|| format!("host {host:?}: no such host; {allowed}"))
    }
}

/// Reason why a monitor cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The address is reachable by other machines, without `open`.
    #[error(
        "monitor {address}: other machines can reach this address, and see the figures; allowed: \
                 127.0.0.1, [::1], or any address with --open"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("monitor {address}: cannot listen: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The system provides no thread.
    #[error("monitor: no thread: {0}")]
    Thread(io::Error),
}

/// A running monitor. It ends with the process.
#[derive(Debug)]
pub struct Monitor {
    address: SocketAddr,
}

impl Monitor {
    /// Serves `board` at `listen`; `open`: other machines may reach it.
    ///
    /// # Errors
    /// The address cannot be bound, or is not allowed.
    pub fn start(listen: Listen, open: bool, board: Board) -> Result<Monitor, MonitorError> {
        listen.check(open)?;
        let Listen(address) = listen;
        let refuse = |error| MonitorError::Bind { address, error };
        let listener = TcpListener::bind(address).map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        let shown = Shown { board, history: Arc::default(), open };
        let remember = {
            let shown = shown.clone();
            move || shown.remember()
        };
        let work = move || accept(&listener, &shown);
        let history = std::thread::Builder::new().name("monitor-history".into());
        history.spawn(remember).map_err(MonitorError::Thread)?;
        std::thread::Builder::new().name("monitor".into()).spawn(work).map_err(MonitorError::Thread)?;
        Ok(Monitor { address })
    }

    /// Address of the server, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Present and past figures, and who may see them.
#[derive(Clone)]
struct Shown {
    board: Board,
    history: Arc<Mutex<History>>,
    open: bool,
}

impl Shown {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest figures and adds them to the history; `None`: there are none yet.
    fn look(&self) -> Option<Figures> {
        let view = self.board.look(FRESH, PATIENCE)?;
        let figures = Figures::from(&*view);
        self.history().take(&figures);
        Some(figures)
    }

    /// Samples the drives each second, up to the last view of a closed board.
    fn remember(&self) {
        loop {
            let is_last = self.board.is_closed();
            self.look();
            if is_last {
                return;
            }
            std::thread::sleep(PERIOD);
        }
    }
}

/// One of the allowed connections; frees its slot when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Place> {
        let place = Place(taken.clone());
        (taken.fetch_add(1, Ordering::AcqRel) < CONNECTIONS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn accept(listener: &TcpListener, shown: &Shown) {
    let taken = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(BREATHER);
            continue;
        };
        let Some(place) = Place::take(&taken) else { continue };
        let shown = shown.clone();
        let serve = move || {
            // A client that leaves or is too slow harms only itself.
            let _ = Client { _place: place, stream, until: Instant::now() + LIFE_MAX }.serve(&shown);
        };
        // Without a thread the connection is closed, like one too many.
        let _ = std::thread::Builder::new().name("monitor-client".into()).spawn(serve);
    }
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn refuse(status: &'static str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: format!("{status}\n").into_bytes() }
    }
}

/// One connection: one request, one answer, within a time limit.
struct Client {
    /// Dropped before the stream, so that a client that has its answer finds a free slot for its next request.
    _place: Place,
    stream: TcpStream,
    until: Instant,
}

impl Client {
    fn serve(&mut self, shown: &Shown) -> io::Result<()> {
        let head = self.read_head()?;
        let (answer, with_body) = match &head {
            Some(head) => answer(head, shown),
            None => (Answer::refuse("431 Request Header Fields Too Large"), true),
        };
        let Answer { status, kind, body } = answer;
        let length = body.len();
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src data:; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\r\n\r\n"
        )
        .into_bytes();
        if with_body {
            text.extend(body);
        }
        self.write(&text)
    }

    /// Time left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Reads the request up to the blank line; `None`: too long.
    fn read_head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = Vec::new();
        let mut bytes = [0; 1024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() >= HEAD_BYTES_MAX {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => head.extend_from_slice(&bytes[..count]),
            }
        }
        Ok(Some(head))
    }

    fn write(&mut self, mut text: &[u8]) -> io::Result<()> {
        while !text.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(text)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => text = &text[count..],
            }
        }
        Ok(())
    }
}

/// Returns the answer, and whether its body is sent.
fn answer(head: &[u8], shown: &Shown) -> (Answer, bool) {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if !request.parse(head).is_ok_and(|status| status.is_complete()) {
        return (Answer::refuse("400 Bad Request"), true);
    }
    let with_body = request.method != Some("HEAD");
    if !matches!(request.method, Some("GET" | "HEAD")) {
        return (Answer::refuse("405 Method Not Allowed"), true);
    }
    let mut hosts = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    if !shown.open && !hosts.all(|host| is_local(host.value)) {
        return (Answer::refuse("403 Forbidden"), with_body);
    }
    let path = request.path.unwrap_or_default();
    let answer = match path.split('?').next().unwrap_or_default() {
        "/" => Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: page() },
        "/metrics" => {
            figures(shown, "text/plain; version=0.0.4; charset=utf-8", |figures| metrics(figures).into())
        }
        "/snapshot.json" => figures(shown, "application/json", json),
        "/history.json" => figures(shown, "application/json", |_| json(&shown.history().columns())),
        "/map.json" => maps(shown),
        _ => Answer::refuse("404 Not Found"),
    };
    (answer, with_body)
}

fn page() -> Vec<u8> {
    PAGE.replacen("/* map.js */", MAP_SCRIPT, 1).into()
}

/// The blocks of each drive, in the form of a film's first frame.
fn maps(shown: &Shown) -> Answer {
    let Some(view) = shown.board.look_at_maps(PATIENCE) else {
        return Answer::refuse("503 Service Unavailable");
    };
    let one = |(name, map): &(String, BlockMap)| {
        let mut value = live_frame(map);
        value["name"] = name.as_str().into();
        value
    };
    let drives: Vec<_> = view.maps.iter().map(one).collect();
    let body = json(&serde_json::json!({ "wall_seconds": view.wall.as_secs_f64(), "drives": drives }));
    Answer { status: "200 OK", kind: "application/json", body }
}

/// Reports whether a Host header names this machine. A foreign page whose name was made to resolve to this machine cannot read the figures.
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("figures have string keys and finite numbers")
}

fn figures(shown: &Shown, kind: &'static str, body: impl FnOnce(&Figures) -> Vec<u8>) -> Answer {
    match shown.look() {
        Some(figures) => Answer { status: "200 OK", kind, body: body(&figures) },
        None => Answer::refuse("503 Service Unavailable"),
    }
}
