//! The monitor over real sockets: its answers and refusals.

use pellucid_flash::{BlockMap, BlockUse, BlockView};
use pellucid_monitor::{Board, Figures, Listen, Monitor, MonitorError, View};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A monitor of a board with one fixed view.
fn monitor() -> SocketAddr {
    let board = Board::default();
    board.publish(View { wall: Duration::from_secs(7), ..View::default() });
    board.close();
    start(board)
}

fn start(board: Board) -> SocketAddr {
    Monitor::start("0".parse().unwrap(), false, board).unwrap_or_else(|e| panic!("{e}")).address()
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A refusal may arrive before everything was sent; only the answer counts.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", address.port()).as_bytes())
}

#[test]
fn five_addresses_are_answered() {
    let address = monitor();
    let page = get(address, "/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<title>Pellucid monitor</title>"));
    let metrics = get(address, "/metrics");
    assert!(
        metrics.contains("text/plain; version=0.0.4") && metrics.contains("\npellucid_uptime_seconds 7\n")
    );
    let json = get(address, "/snapshot.json?now");
    let (_, body) = json.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Figures>(body).unwrap().wall_seconds, 7.0);
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(json.contains(&length), "{json}");
    // The board is closed, so the request for blocks gets no answer.
    assert!(get(address, "/map.json").starts_with("HTTP/1.1 503"));
    let history = get(address, "/history.json");
    assert!(history.starts_with("HTTP/1.1 200 OK\r\n") && history.ends_with("\"drives\":[]}"), "{history}");
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = get(monitor(), "/");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("default-src 'none'; connect-src 'self'"));
    for elsewhere in ["http://", "https://", "//cdn", "@import", "src=", "innerHTML"] {
        assert!(!body.contains(elsewhere), "the page has {elsewhere}");
    }
}

#[test]
fn blocks_come_in_the_form_of_a_film_and_the_page_draws_them() {
    let board = Board::default();
    let address = start(board.clone());
    assert!(get(address, "/").contains("class DriveMap"));
    let asking = std::thread::spawn(move || get(address, "/map.json"));
    let block = BlockView { usage: BlockUse::Full, units: 8, ..BlockView::default() };
    let map = BlockMap {
        channels: 1,
        dies_per_channel: 2,
        blocks_per_die: 2,
        units_per_block: 8,
        blocks: vec![block; 4],
        ..BlockMap::default()
    };
    while !asking.is_finished() {
        if board.wanted() {
            let maps = if board.wants_maps() { vec![("a drive".into(), map.clone())] } else { Vec::new() };
            board.publish(View { maps, ..View::default() });
        }
        std::thread::yield_now();
    }
    let answer = asking.join().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(value["drives"][0]["name"], "a drive");
    assert_eq!(value["drives"][0]["grid"]["cells_per_die"], 2);
    // One run of four cells, all valid and full.
    assert_eq!(value["drives"][0]["frame"], "ABB5");
}

#[test]
fn the_page_shows_the_past_with_a_time_axis_and_marks_faults() {
    let page = get(monitor(), "/");
    for part in [
        "fetch(\"/history.json\"",
        "since the start</option>",
        "function timeTicks(",
        "track.faults",
        "id=\"faultlist\"",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    // Points collected by the page itself would vanish with the page.
    assert!(!page.contains("POINTS"), "a past of the page's own");
}

#[test]
fn every_cause_of_a_program_has_a_colour() {
    let page = get(monitor(), "/");
    let (_, list) = page.split_once("hues = [").expect("the page names its colours");
    let colours = list.split(']').next().unwrap_or_default().split(',').count();
    assert_eq!(colours, pellucid_flash::Cause::COUNT);
}

#[test]
fn what_is_wrong_is_refused() {
    let address = monitor();
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\n\r\n", "404"),
        ("POST / HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", "403"),
        ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "200"),
    ] {
        let answer = ask(address, request.as_bytes());
        assert_eq!(answer.get(9..12), Some(status), "{request:?}");
    }
    let head = ask(address, b"HEAD / HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
    assert!(ask(address, many.as_bytes()).starts_with("HTTP/1.1 400"));
    // Exactly as long as the server reads: further bytes would cause a reset.
    let endless = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(8 << 10));
    assert!(ask(address, &endless.as_bytes()[..8 << 10]).starts_with("HTTP/1.1 431"));
}

#[test]
fn silent_clients_take_their_own_places_only() {
    let address = monitor();
    let silent: Vec<TcpStream> = (0..15).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(get(address, "/metrics").starts_with("HTTP/1.1 200"));
    // One too many: the connection is closed without an answer.
    let last = TcpStream::connect(address).unwrap();
    let mut full = TcpStream::connect(address).unwrap();
    full.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    match full.read(&mut [0; 16]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    drop((silent, last));
}

#[test]
fn a_drive_that_has_not_begun_is_unavailable() {
    let board = Board::default();
    board.close();
    let address = start(board);
    for path in ["/metrics", "/snapshot.json", "/history.json"] {
        assert!(get(address, path).starts_with("HTTP/1.1 503"), "{path}");
    }
}

#[test]
fn addresses_are_checked() {
    for (text, part) in
        [("99999", "port \"99999\""), ("x", "port \"x\""), ("127.0.0.1:", "port \"\""), ("", "port \"\"")]
    {
        let error = text.parse::<Listen>().unwrap_err();
        assert!(error.contains(part) && error.contains("allowed: HOST:PORT"), "{error}");
    }
    assert_eq!("9300".parse::<Listen>().unwrap().0.to_string(), "127.0.0.1:9300");
    assert_eq!("[::1]:9300".parse::<Listen>().unwrap().0.to_string(), "[::1]:9300");
    let everyone: Listen = "0.0.0.0:0".parse().unwrap();
    let refused = Monitor::start(everyone, false, Board::default());
    assert!(matches!(refused, Err(MonitorError::NotLoopback { .. })));
    Monitor::start(everyone, true, Board::default()).unwrap();
    let taken = Listen(monitor());
    let error = Monitor::start(taken, false, Board::default()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("monitor {}: cannot listen: ", taken.0)), "{error}");
}
