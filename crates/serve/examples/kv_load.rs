//! Load for a server of the memcached protocol, as memtier_benchmark generates it: each connection keeps a
//! fixed number of requests outstanding and draws random keys from its own seed; all values have one size.
//! Runs one thread and prints one line of JSON.
//!
//! ```text
//! kv_load ADDRESS fill|get|set|mixed KEYS VALUE_BYTES CONNECTIONS PIPELINE REQUESTS [SEED]
//! ```
//! `fill` sets every key once; `mixed` does one set per ten gets. ADDRESS is HOST:PORT. A value begins with
//! its key; a get that returns another key ends the program.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use pellucid_flash::Histogram;
use std::collections::VecDeque;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Fill,
    Get,
    Set,
    Mixed,
}

struct Settings {
    mode: Mode,
    keys: u64,
    pipeline: usize,
    /// Text of a set command after the key.
    set_rest: Vec<u8>,
}

/// A request that has not been answered.
struct Sent {
    at: Instant,
    /// Key of a get; `None` for a set.
    get: Option<u64>,
}

struct Connection {
    stream: TcpStream,
    random: u64,
    /// Next key of a fill.
    next_key: u64,
    end_key: u64,
    left: u64,
    sent: VecDeque<Sent>,
    output: Vec<u8>,
    input: Vec<u8>,
}

#[derive(Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
}

impl Connection {
    /// Sends requests until the configured number is outstanding.
    fn ask(&mut self, settings: &Settings, value: &mut [u8]) {
        // The requests are sent together.
        let now = Instant::now();
        while self.left > 0 && self.sent.len() < settings.pipeline {
            self.left -= 1;
            let key = match settings.mode {
                Mode::Fill if self.next_key < self.end_key => {
                    self.next_key += 1;
                    self.next_key - 1
                }
                _ => random(&mut self.random) % settings.keys,
            };
            let sets = match settings.mode {
                Mode::Fill | Mode::Set => true,
                Mode::Get => false,
                Mode::Mixed => random(&mut self.random).is_multiple_of(11),
            };
            let name = Name::of(key);
            let name = name.bytes();
            if sets {
                self.output.extend_from_slice(b"set ");
                self.output.extend_from_slice(name);
                self.output.extend_from_slice(&settings.set_rest);
                value[..name.len()].copy_from_slice(name);
                value[name.len()] = b' ';
                self.output.extend_from_slice(value);
                self.output.extend_from_slice(b"\r\n");
            } else {
                self.output.extend_from_slice(b"get ");
                self.output.extend_from_slice(name);
                self.output.extend_from_slice(b"\r\n");
            }
            self.sent.push_back(Sent { at: now, get: (!sets).then_some(key) });
        }
    }

    fn send(&mut self) -> std::io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives and handles the available answers.
    fn receive(
        &mut self,
        scratch: &mut [u8],
        counts: &mut Counts,
        latency: &mut Histogram<4>,
    ) -> Result<(), Box<dyn Error>> {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => return Err("the server hung up".into()),
                Ok(count) => {
                    self.take(&scratch[..count], counts, latency)?;
                    // A short read means that the stream has no more bytes now.
                    if count < scratch.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Handles the complete answers in the input and keeps the rest.
    fn take(
        &mut self,
        came: &[u8],
        counts: &mut Counts,
        latency: &mut Histogram<4>,
    ) -> Result<(), Box<dyn Error>> {
        let mut kept = std::mem::take(&mut self.input);
        if !kept.is_empty() {
            kept.extend_from_slice(came);
        }
        let input = if kept.is_empty() { came } else { &kept };
        let (mut at, now) = (0, Instant::now());
        while let Some(sent) = self.sent.front() {
            let Some(used) = answer(&input[at..], sent.get, counts)? else { break };
            at += used;
            latency.record(now.duration_since(sent.at).as_nanos() as u64, 1);
            self.sent.pop_front();
        }
        self.input = input[at..].to_vec();
        Ok(())
    }
}

/// The name of a key.
struct Name {
    bytes: [u8; 28],
    from: usize,
}

impl Name {
    const PREFIX: &[u8] = b"memtier-";

    fn of(mut key: u64) -> Name {
        let mut name = Name { bytes: [0; 28], from: 28 };
        loop {
            name.from -= 1;
            name.bytes[name.from] = b'0' + (key % 10) as u8;
            key /= 10;
            if key == 0 {
                break;
            }
        }
        name.from -= Name::PREFIX.len();
        name.bytes[name.from..][..Name::PREFIX.len()].copy_from_slice(Name::PREFIX);
        name
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// Length of a complete answer at the front of `input`.
fn answer(input: &[u8], get: Option<u64>, counts: &mut Counts) -> Result<Option<usize>, Box<dyn Error>> {
    let Some(end) = input.iter().position(|&byte| byte == b'\n').map(|at| at + 1) else { return Ok(None) };
    let line = &input[..end];
    let Some(key) = get else {
        if line != b"STORED\r\n" {
            return Err(format!("set: {}", line.escape_ascii()).into());
        }
        counts.sets += 1;
        return Ok(Some(end));
    };
    if line == b"END\r\n" {
        counts.gets += 1;
        return Ok(Some(end));
    }
    if !line.starts_with(b"VALUE ") {
        return Err(format!("get: {}", line.escape_ascii()).into());
    }
    let length: usize = std::str::from_utf8(line)?.trim_end().rsplit(' ').next().unwrap_or("").parse()?;
    let all = end + length + b"\r\nEND\r\n".len();
    if input.len() < all {
        return Ok(None);
    }
    let name = Name::of(key);
    let rest = input[end..].strip_prefix(name.bytes());
    if rest.is_none_or(|rest| rest[0] != b' ') || !input[..all].ends_with(b"\r\nEND\r\n") {
        let name = name.bytes().escape_ascii();
        return Err(format!("get {name}: another value: {}", input[end..end + 20].escape_ascii()).into());
    }
    (counts.gets, counts.hits) = (counts.gets + 1, counts.hits + 1);
    Ok(Some(all))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, mode, keys, value_bytes, connections, pipeline, requests, rest @ ..] = &words[..] else {
        return Err(
            "kv_load ADDRESS fill|get|set|mixed KEYS VALUE_BYTES CONNECTIONS PIPELINE REQUESTS [SEED]".into(),
        );
    };
    let mode = match mode.as_str() {
        "fill" => Mode::Fill,
        "get" => Mode::Get,
        "set" => Mode::Set,
        "mixed" => Mode::Mixed,
        _ => return Err("allowed: fill, get, set, mixed".into()),
    };
    let (keys, connections): (u64, u64) = (keys.parse()?, connections.parse()?);
    let value_bytes: usize = value_bytes.parse()?;
    let set_rest = format!(" 0 0 {value_bytes}\r\n").into_bytes();
    let settings = Settings { mode, keys, pipeline: pipeline.parse()?, set_rest };
    let requests: u64 = if mode == Mode::Fill { keys } else { requests.parse()? };
    let seed: u64 = rest.first().map_or(Ok(1), |seed| seed.parse())?;
    let mut poll = Poll::new()?;
    let mut all = Vec::new();
    for at in 0..connections {
        let mut stream = TcpStream::connect(address.parse()?)?;
        stream.set_nodelay(true)?;
        poll.registry().register(&mut stream, Token(at as usize), Interest::READABLE | Interest::WRITABLE)?;
        let share = |at: u64| requests * at / connections;
        all.push(Connection {
            stream,
            random: (seed * 1000 + at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            next_key: share(at),
            end_key: share(at + 1),
            left: share(at + 1) - share(at),
            sent: VecDeque::new(),
            output: Vec::new(),
            input: Vec::new(),
        });
    }
    let mut value: Vec<u8> = (0..value_bytes).map(|at| b'a' + (at % 26) as u8).collect();
    let (mut scratch, mut counts) = (vec![0; 256 << 10], Counts::default());
    let mut latency = Histogram::<4>::default();
    let mut events = Events::with_capacity(1024);
    let began = Instant::now();
    while all.iter().any(|connection| connection.left > 0 || !connection.sent.is_empty()) {
        poll.poll(&mut events, None)?;
        for event in &events {
            let connection = &mut all[event.token().0];
            connection.receive(&mut scratch, &mut counts, &mut latency)?;
            connection.ask(&settings, &mut value);
            connection.send()?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let us = |share| latency.quantile(share).unwrap_or(0) as f64 / 1e3;
    writeln!(
        std::io::stdout(),
        "{{\"requests\": {}, \"seconds\": {seconds:.3}, \"per_second\": {:.0}, \"gets\": {}, \"hits\": {}, \"sets\": {}, \
         \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}}}",
        latency.total(),
        latency.total() as f64 / seconds,
        counts.gets,
        counts.hits,
        counts.sets,
        us(0.5),
        us(0.99),
        us(0.999),
    )?;
    Ok(())
}
