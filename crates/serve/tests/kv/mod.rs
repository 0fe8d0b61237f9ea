//! The key-value server over real sockets, on a cache in memory.

mod map;

use map::MapCache;
use pellucid_flash::Rng;
use pellucid_kv::{EngineKind, KvConfig};
use pellucid_serve::kv::{KvService, session};
use pellucid_serve::{Address, Options, Server, Stopper, Time};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A server in its own thread.
struct Served {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<KvService<MapCache>>>,
}

impl Served {
    fn new(seed: u64) -> Served {
        Served::with(seed, 4000)
    }

    fn with(seed: u64, connections_max: usize) -> Served {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let config = KvConfig::new(EngineKind::Original);
            let service = KvService::new("map", MapCache::new(seed, 1000), &config, Time::Instant);
            // No peer is given up, so a request that waited for this would hang.
            let options = Options { connections_max, stall: Duration::MAX, ..Options::default() };
            let mut server = Server::new(service, options, Box::new(|_| {})).expect("an event queue");
            let address = "127.0.0.1:0".parse().expect("an address");
            let bound = server.listen(&address, "memcached", Box::new(|_, _| session(None))).expect("a port");
            tell.send((bound, server.stopper())).expect("somebody listens");
            server.run().expect("a good end")
        });
        let (bound, stopper) = told.recv().expect("the server starts");
        let Address::Tcp(address) = bound else { panic!("a TCP address") };
        Served { address, stopper, thread: Some(thread) }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(600))).expect("a timeout");
        stream.set_nodelay(true).expect("a socket");
        Client { input: BufReader::new(stream.try_clone().expect("a socket")), stream }
    }

    /// Stops the server and returns the cache.
    fn stop(mut self) -> MapCache {
        self.stopper.stop();
        let service = self.thread.take().expect("stopped once").join().expect("the server does not panic");
        service.into_cache().expect("the cache is handed back")
    }
}

struct Client {
    stream: TcpStream,
    input: BufReader<TcpStream>,
}

impl Client {
    fn say(&mut self, text: &[u8]) {
        self.stream.write_all(text).expect("the server reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("the server answers");
        line.trim_end().to_owned()
    }

    /// Sends `text` and returns the lines before the answer to `mn`.
    fn ask(&mut self, text: &[u8]) -> Vec<String> {
        self.say(text);
        self.say(b"mn\r\n");
        std::iter::repeat_with(|| self.line()).take_while(|line| line != "MN").collect()
    }

    /// Reads the next value of a get.
    fn value(&mut self) -> Option<(String, Vec<u8>)> {
        let head = self.line();
        if head == "END" {
            return None;
        }
        let words: Vec<&str> = head.split(' ').collect();
        assert_eq!(words[0], "VALUE", "{head}");
        let mut value = vec![0; words[3].parse::<usize>().expect("a length") + 2];
        self.input.read_exact(&mut value).expect("the whole value");
        assert_eq!(value.split_off(value.len() - 2), b"\r\n");
        Some((words[1].to_owned(), value))
    }
}

/// The cache answers in any order, but each connection gets its answers in order, with every value complete
/// and correct.
#[test]
fn answers_come_in_the_order_of_requests() {
    let served = Served::new(7);
    let threads: Vec<_> = (0..4u64)
        .map(|number| {
            let mut client = served.connect();
            std::thread::spawn(move || {
                let mut rng = Rng::new(number);
                let mut model = std::collections::BTreeMap::<String, Vec<u8>>::new();
                for _ in 0..60 {
                    let (mut text, mut expected) = (Vec::new(), Vec::new());
                    for _ in 0..rng.below(40) {
                        let key = format!("{number}:{}", rng.below(8));
                        match rng.below(4) {
                            0 => {
                                let magnitude = rng.below(17);
                                let length = rng.below(1 << magnitude) as usize;
                                let value: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
                                let noreply = rng.below(2) == 0;
                                let end = if noreply { " noreply" } else { "" };
                                text.extend(format!("set {key} 0 0 {length}{end}\r\n").bytes());
                                text.extend_from_slice(&value);
                                text.extend_from_slice(b"\r\n");
                                model.insert(key, value);
                                expected.extend((!noreply).then_some(Expected::Line("STORED")));
                            }
                            1 => {
                                text.extend(format!("delete {key}\r\n").bytes());
                                let there = model.remove(&key).is_some();
                                expected.push(Expected::Line(if there { "DELETED" } else { "NOT_FOUND" }));
                            }
                            2 => {
                                text.extend_from_slice(b"nonsense\r\n");
                                expected.push(Expected::Line("ERROR"));
                            }
                            _ => {
                                let other = format!("{number}:{}", rng.below(8));
                                text.extend(format!("get {key} {other}\r\n").bytes());
                                let found = [key, other].into_iter();
                                let found =
                                    found.filter_map(|key| Some((key.clone(), model.get(&key)?.clone())));
                                expected.push(Expected::Values(found.collect()));
                            }
                        }
                    }
                    let mut writer = client.stream.try_clone().expect("a socket");
                    // Writes while reading, as the buffers of both ends cannot hold all of it.
                    let writing =
                        std::thread::spawn(move || writer.write_all(&text).expect("the server reads"));
                    for expected in expected {
                        match expected {
                            Expected::Line(line) => assert_eq!(client.line(), line),
                            Expected::Values(values) => {
                                for wanted in values {
                                    assert!(client.value() == Some(wanted), "another value");
                                }
                                assert!(client.value().is_none(), "END");
                            }
                        }
                    }
                    writing.join().expect("all was written");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    served.stop();
}

enum Expected {
    Line(&'static str),
    Values(Vec<(String, Vec<u8>)>),
}

/// An error on one connection is reported there, in the protocol's own words, and the connection continues.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn bad_requests_get_their_line_and_cost_nothing_else() {
    let served = Served::new(1);
    let mut client = served.connect();
    let large = [b"set big 0 0 1048577\r\n", &vec![b'x'; 1_048_577][..], b"\r\n"].concat();
    let cases: [(&[u8], &[&str]); 8] = [
        (b"set a 0 0 1\r\nx\r\n", &["STORED"]),
        (&large, &["SERVER_ERROR object too large for cache"]),
        (b"set a 0 0 3\r\nabcde\r\n", &["CLIENT_ERROR bad data chunk", "ERROR"]),
        (b"set a 0 0 -1\r\n", &["CLIENT_ERROR bad command line format"]),
        (b"incr a x\r\n", &["CLIENT_ERROR invalid numeric delta argument"]),
        (b"mg a v v\r\n", &["CLIENT_ERROR duplicate flag"]),
        (b"ms !! 1 b\r\nx\r\n", &["CLIENT_ERROR error decoding key"]),
        (b"get a\r\nstats reset\r\n", &["VALUE a 0 1", "x", "END", "RESET"]),
    ];
    for (text, answers) in cases {
        assert_eq!(client.ask(text), answers, "{}", text[..text.len().min(40)].escape_ascii());
    }
    let largest = [b"set big 0 0 1048576\r\n", &vec![b'x'; 1 << 20][..], b"\r\n"].concat();
    assert_eq!(client.ask(&largest), ["STORED"]);
    let mut other = served.connect();
    other.say(&vec![b'x'; 20_000]);
    assert_eq!(other.line(), "CLIENT_ERROR line too long");
    assert_eq!(other.line(), "", "and it hangs up");
    assert_eq!(client.ask(b"get nothing\r\n"), ["END"]);
    served.stop();
}

/// A client of the binary protocol is told at once that it is not supported.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_binary_protocol_is_refused() {
    let served = Served::new(2);
    let mut client = served.connect();
    client.say(&[0x80, 0x0b, 0, 0, 0, 0]);
    assert_eq!(client.line(), "ERROR");
    assert_eq!(client.line(), "", "and it hangs up");
    // A key may contain such a byte.
    let mut text = served.connect();
    assert_eq!(text.ask(b"get \x80\r\n"), ["END"]);
    served.stop();
}

/// `stats reset` resets all counters, and keeps gauges.
#[test]
fn stats_reset_begins_all_counts_anew() {
    let served = Served::new(4);
    let mut client = served.connect();
    client.ask(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\n");
    assert_eq!(client.ask(b"stats reset\r\n"), ["RESET"]);
    let stats = client.ask(b"stats\r\n");
    for line in
        ["cmd_get 0", "cmd_set 0", "get_misses 0", "total_connections 0", "total_items 0", "curr_items 1"]
    {
        assert!(stats.contains(&format!("STAT {line}")), "{line}: {stats:?}");
    }
    served.stop();
}

/// Closed connections free their places: a full set of connections can be opened again and again.
#[test]
fn places_of_closed_connections_are_free() {
    let served = Served::with(2, 8);
    for _ in 0..200 {
        let clients: Vec<Client> = (0..8).map(|_| served.connect()).collect();
        for mut client in clients {
            assert_eq!(client.ask(b"get a\r\n"), ["END"]);
        }
    }
    let mut clients: Vec<Client> = (0..9).map(|_| served.connect()).collect();
    assert_eq!(clients[7].ask(b"get a\r\n"), ["END"]);
    assert_eq!(clients[8].line(), "", "one too many");
    served.stop();
}

/// Every buffer from the cache is returned, whatever happens to the request and its connection.
#[test]
fn buffers_come_back() {
    let served = Served::new(3);
    let mut client = served.connect();
    let asked: [&[u8]; 5] = [
        b"set a 0 0 5\r\nhello\r\n",
        b"get a a a b\r\nmg a\r\nmg a v q\r\nme a\r\ngat 0 a\r\n",
        b"set a 0 0 3 noreply\r\nabcde\r\n",
        b"add a 0 0 1\r\nx\r\nappend a 0 0 1\r\ny\r\ncas a 0 0 1 7\r\nz\r\nms a 1 C7\r\nz\r\n",
        b"incr a 1\r\ntouch a 0\r\nmd a\r\nmg a N30 v\r\nmg a N30\r\n",
    ];
    for text in asked {
        client.ask(text);
    }
    // Half a value, and a pipeline whose answers are never read.
    let mut gone = served.connect();
    gone.say(b"get a\r\nget a\r\nset b 0 0 1000\r\nhalf");
    drop(gone);
    client.ask(b"get a\r\n");
    drop(client);
    assert_eq!(served.stop().buffers_out(), 0);
}

/// One client requests much and reads nothing, another sends half a value. Other clients are served, and
/// memory does not grow.
#[test]
fn a_slow_reader_and_a_slow_writer_cost_nobody_else_anything() {
    let served = Served::new(5);
    let mut client = served.connect();
    let large = [b"set big 0 0 1000000\r\n", &vec![b'x'; 1_000_000][..], b"\r\n"].concat();
    assert_eq!(client.ask(&large), ["STORED"]);
    let mut slow = served.connect();
    slow.say(&b"get big\r\n".repeat(2000));
    let mut half = served.connect();
    half.say(b"set half 0 0 1000000\r\nbegins");
    for round in 0..200 {
        let text = format!("set k{round} 0 0 2\r\n{:02}\r\nget k{round}\r\n", round % 100);
        let answers = client.ask(text.as_bytes());
        assert_eq!(
            answers[1..],
            [format!("VALUE k{round} 0 2"), format!("{:02}", round % 100), "END".into()]
        );
    }
    // The slow client gets everything when it reads.
    for _ in 0..20 {
        let (key, value) = slow.value().expect("a value");
        assert_eq!((key.as_str(), value.len()), ("big", 1_000_000));
        assert!(slow.value().is_none(), "END");
    }
    served.stop();
}

/// Clients that request much and read nothing fill only their own share of memory: others get large values as
/// if alone.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn many_that_read_nothing_cost_nobody_else_anything() {
    let served = Served::new(6);
    let mut client = served.connect();
    let large = [b"set big 0 0 1048576\r\n", &vec![b'x'; 1 << 20][..], b"\r\n"].concat();
    assert_eq!(client.ask(&large), ["STORED"]);
    let mut silent: Vec<Client> = (0..40).map(|_| served.connect()).collect();
    for one in &mut silent {
        one.say(&b"get big\r\n".repeat(200));
    }
    for _ in 0..40 {
        client.say(b"get big\r\n");
        assert_eq!(client.value().expect("a value").1.len(), 1 << 20);
        assert!(client.value().is_none(), "END");
    }
    // These clients get everything when they read.
    for one in &mut silent {
        for _ in 0..10 {
            assert_eq!(one.value().expect("a value").1.len(), 1 << 20);
            assert!(one.value().is_none(), "END");
        }
    }
    served.stop();
}

/// Values of which only the beginning arrives hold no memory that others need.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn many_half_sent_values_cost_nobody_else_anything() {
    let served = Served::new(8);
    let mut halves: Vec<Client> = (0..600).map(|_| served.connect()).collect();
    for half in &mut halves {
        half.say(&[&b"set half 0 0 1000000\r\n"[..], &[b'h'; 1000]].concat());
    }
    let mut client = served.connect();
    let set = [b"set k 0 0 100000\r\n", &vec![b'x'; 100_000][..], b"\r\n"].concat();
    for _ in 0..20 {
        assert_eq!(client.ask(&set), ["STORED"]);
    }
    // Each of these values can still be completed.
    for half in halves.iter_mut().take(50) {
        half.say(&[&[b'h'; 999_000][..], b"\r\n"].concat());
        assert_eq!(half.line(), "STORED");
    }
    drop(halves);
    drop(client);
    assert_eq!(served.stop().buffers_out(), 0);
}

/// Hundreds of concurrent connections, each with its own place.
#[test]
fn hundreds_of_connections_are_served() {
    let served = Served::new(9);
    let mut clients = Vec::new();
    for _ in 0..400 {
        clients.push(served.connect());
    }
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(format!("set c{number} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    for (number, client) in clients.iter_mut().enumerate().rev() {
        assert_eq!(
            client.ask(format!("get c{number}\r\n").as_bytes()),
            [format!("VALUE c{number} 0 1").as_str(), "x", "END"]
        );
    }
    served.stop();
}
