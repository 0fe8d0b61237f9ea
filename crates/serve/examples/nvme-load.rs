//! Random 4 KiB reads over NVMe/TCP from one thread. Measures how fast a target answers without a kernel in
//! between.
//!
//! ```text
//! pellucid serve bench/serve-ram.toml --nvme-tcp 4420 --time instant --poll-us 100
//! cargo run --release -p pellucid-serve --example nvme-load -- 127.0.0.1:4420 nqn.2026-01.org.pellucid:serve-ram 32 5
//! ```
//! Arguments: address, subsystem, queue depth, seconds, connections (default 1). This is a measuring aid, not
//! a benchmark of record: client and target share code.

use pellucid_wire::nvme::{
    Connect, ConnectData, DYNAMIC_CONTROLLER, PropertySet, SglDescriptor, SubmissionEntry, nqn,
};
use pellucid_wire::tcp::{Decoder, Encoder, Event, HEADER_BYTES_MAX, IcReq, Pdu, Terms, encode_ic_req};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const READ_BYTES: u32 = 4096;
const SECTORS: u64 = READ_BYTES as u64 / 512;
const SPAN_READS: u64 = 200_000;

struct Queue {
    stream: TcpStream,
    decoder: Decoder,
    encoder: Encoder,
    input: Vec<u8>,
    output: Vec<u8>,
    started: Vec<Instant>,
}

impl Queue {
    fn dial(address: &str) -> Result<Queue, Box<dyn Error>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let request = IcReq::default();
        let decoder = Decoder::host(request, 1 << 20);
        let encoder = Encoder::host(&Terms::default());
        let mut queue = Queue {
            stream,
            decoder,
            encoder,
            input: vec![0; 1 << 20],
            output: Vec::new(),
            started: Vec::new(),
        };
        queue.stream.write_all(&encode_ic_req(&request))?;
        queue.events(|_, _| {})?;
        Ok(queue)
    }

    fn push(&mut self, entry: &SubmissionEntry, data: &[u8]) {
        let mut out = [0; HEADER_BYTES_MAX];
        let length = self.encoder.command(entry, data.len() as u32, &mut out);
        self.output.extend(&out[..length]);
        self.output.extend(data);
    }

    /// Reads once; calls `ended` for each completed command, with its result.
    fn events(&mut self, mut ended: impl FnMut(u16, u64)) -> Result<(), Box<dyn Error>> {
        let count = self.stream.read(&mut self.input)?;
        if count == 0 {
            return Err("the target closed the connection".into());
        }
        let mut input = &self.input[..count];
        while let Some(event) = self.decoder.decode(&mut input)? {
            match event {
                Event::Pdu(Pdu::C2hData(header)) if header.success => ended(header.cid, 0),
                Event::Pdu(Pdu::Response(completion)) if completion.status.is_success() => {
                    ended(completion.cid, completion.result);
                }
                Event::Pdu(Pdu::Response(completion)) => return Err(completion.status.to_string().into()),
                Event::Pdu(Pdu::TermReq(term)) => return Err(format!("{term:?}").into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    fn ask(&mut self, entry: &SubmissionEntry, data: &[u8]) -> Result<u64, Box<dyn Error>> {
        self.push(entry, data);
        self.flush()?;
        let mut answer = None;
        while answer.is_none() {
            self.events(|_, result| answer = Some(result))?;
        }
        Ok(answer.unwrap_or(0))
    }

    fn connect(&mut self, subsystem: &str, queue_id: u16, controller_id: u16) -> Result<u16, Box<dyn Error>> {
        let data = ConnectData {
            host_id: [1; 16],
            controller_id,
            subsystem_nqn: nqn(subsystem).ok_or("not a qualified name")?,
            host_nqn: nqn("nqn.2026-01.org.pellucid:load").ok_or("not a qualified name")?,
        };
        let connect = Connect { queue_id, queue_entries: 1024, attributes: 4, keep_alive_ms: 0 };
        Ok(self.ask(&connect.entry(0), &data.encode())? as u16)
    }

    fn read_block(&mut self, cid: u16, seed: &mut u64) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let entry = SubmissionEntry::new(2, cid, 1)
            .with_cdw_pair(10, *seed % SPAN_READS * SECTORS)
            .with_cdw(12, SECTORS as u32 - 1)
            .with_sgl(SglDescriptor::transport(READ_BYTES));
        self.started[usize::from(cid)] = Instant::now();
        self.push(&entry, &[]);
    }
}

fn fill(queue: &mut Queue) -> Result<(), Box<dyn Error>> {
    let data = vec![0x5A; 16 << 10];
    for lba in (0..SPAN_READS * SECTORS).step_by(32) {
        let entry = SubmissionEntry::new(1, 0, 1)
            .with_cdw_pair(10, lba)
            .with_cdw(12, 31)
            .with_sgl(SglDescriptor::in_capsule(0, data.len() as u32));
        queue.ask(&entry, &data)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, subsystem, depth, seconds, rest @ ..] = &arguments[..] else {
        return Err("arguments: ADDRESS NQN DEPTH SECONDS [CONNECTIONS]".into());
    };
    let depth: u16 = depth.parse()?;
    let connections: u16 = rest.first().map_or(Ok(1), |text| text.parse())?;
    let mut admin = Queue::dial(address)?;
    let id = admin.connect(subsystem, 0, DYNAMIC_CONTROLLER)?;
    let enable = PropertySet { is_8_bytes: false, offset: 0x14, value: 0x0046_0001 };
    admin.ask(&enable.entry(0), &[])?;
    let mut queues = Vec::new();
    for queue_id in 1..=connections {
        let mut queue = Queue::dial(address)?;
        queue.connect(subsystem, queue_id, id)?;
        queues.push(queue);
    }
    fill(&mut queues[0])?;
    let mut latencies: Vec<u32> = Vec::with_capacity(16 << 20);
    let (begin, limit) = (Instant::now(), Duration::from_secs(seconds.parse()?));
    let mut seed = 0x9E37_79B9_7F4A_7C15;
    for queue in &mut queues {
        queue.started = vec![begin; usize::from(depth)];
        (0..depth).for_each(|cid| queue.read_block(cid, &mut seed));
        queue.flush()?;
    }
    let mut ended = Vec::new();
    while begin.elapsed() < limit {
        for queue in &mut queues {
            ended.clear();
            queue.events(|cid, _| ended.push(cid))?;
            let now = Instant::now();
            for &cid in &ended {
                latencies.push((now - queue.started[usize::from(cid)]).as_nanos() as u32);
                queue.read_block(cid, &mut seed);
            }
            queue.flush()?;
        }
    }
    let rate = latencies.len() as f64 / begin.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let percentile = |p: usize| f64::from(latencies[(latencies.len() - 1) * p / 1000]) / 1e3;
    writeln!(
        std::io::stdout(),
        "depth {depth} x {connections}: {:.0} k IOPS, p50 {:.1} us, p99 {:.1} us",
        rate / 1e3,
        percentile(500),
        percentile(990)
    )?;
    Ok(())
}
