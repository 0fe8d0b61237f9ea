//! The control socket: one JSON object per line in, one per line out.
//!
//! ```text
//!  {"do":"status"}                                    counters, wear and lateness of every drive
//!  {"do":"power-cut","drive":"NAME"}                  cut its power, mount it, go on
//!  {"do":"faults","drive":"NAME","program_fail":0.01} failures by chance from now on: program_fail, erase_fail, read_fail
//!  {"do":"damage","what":"slow-die","die":3,"factor":10}  see the table in [`Action`](crate::request::Action)
//!  {"do":"targets"}                                   a drive's parallel units and the targets on them
//!  {"do":"target-create","name":"log","kind":"raw","first_unit":4,"units":2}  answered when the target takes commands
//!  {"do":"target-remove","name":"log"}                answered when its units are free; refused while a connection uses it
//!  {"do":"apps"}                                      a drive's applications (serve --apps), and who has which LUN
//!  {"do":"app-allocate","name":"cache","capacity_bytes":1073741824,"over_provisioning":0.1}  LUNs for a new application
//!  {"do":"app-release","name":"cache"}                takes them away; refused while a connection uses them
//!  {"do":"detach"}                                    a cache writes everything back and is out of use; answered when that has ended
//!  {"do":"fire-pause"}                                a cluster buffer writes what it holds and passes later writes by; answered when that has ended
//!  {"do":"fire-resume"}                               it takes writes again
//!  {"do":"watch"}                                     the figures of monitors; from the first time on, drives are watched
//!  {"do":"stop"}                                      as SIGTERM
//! ```
//! One line is answered per turn of the server; while others are served, answering takes at most a fifth of
//! the time.
//!
//! Keys that a request does not have are refused. Without `drive`, a request addresses the only drive;
//! requests about targets take the name of the drive. Lines are answered in order. Answers are
//! `{"ok":true,...}` or `{"ok":false,"error":"..."}`.

use crate::connection::Close;
use crate::request::Request;
use crate::service::{Answer, Service};
use crate::session::{Port, Session};
use serde_json::{Value, json};

/// Limit of unanswered input: a longer line, or more requests behind a slow one, end the connection.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Time given to served connections after an answer, in multiples of the time that the answer took.
const REST_FACTOR: u64 = 4;
/// Other connections count as served if they had input within this time.
const HEARD_NS: u64 = 10_000_000;
/// Session of one connection to the control socket.
pub struct ControlSession {
    /// Received input that is not answered.
    input: Vec<u8>,
    /// A target starts or stops; the request is answered when that ends.
    waits: bool,
    /// While others are served, no request is answered before this time.
    rests_until_ns: u64,
    stop: Box<dyn FnMut()>,
}

impl ControlSession {
    /// Creates a session; `stop` stops the server.
    pub fn new(stop: Box<dyn FnMut()>) -> ControlSession {
        ControlSession { input: Vec::new(), waits: false, rests_until_ns: 0, stop }
    }

    /// Answers a request; returns `None` if the answer comes later.
    fn answer<S: Service + ?Sized>(
        &mut self,
        line: &[u8],
        port: &mut Port<'_, S>,
    ) -> Result<Option<Value>, String> {
        let me = port.connection();
        match Request::parse(line)? {
            Request::Stop => {
                (self.stop)();
                Ok(Some(json!({})))
            }
            request => port.service().control(me, request),
        }
    }

    /// Answers the next complete line, unless the previous answer is pending or others must be served first.
    fn work<S: Service + ?Sized>(&mut self, port: &mut Port<'_, S>) {
        let began = port.now_ns();
        let rests = began < self.rests_until_ns && port.service().hub().heard_ns() + HEARD_NS > began;
        if self.waits || rests {
            return;
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else { return };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        match self.answer(&line[..end], port).transpose() {
            Some(answer) => say(answer, port),
            None => self.waits = true,
        }
        self.look(port);
        let ended = port.now_ns();
        // All control connections share this budget of time.
        self.rests_until_ns = port.service().hub_mut().charge_control(ended, (ended - began) * REST_FACTOR);
    }

    fn has_line(&self) -> bool {
        self.input.contains(&b'\n')
    }

    /// Sends a pending answer if its outcome is known.
    fn look<S: Service + ?Sized>(&mut self, port: &mut Port<'_, S>) {
        let me = port.connection();
        if self.waits
            && let Some(outcome) = port.service().outcome(me)
        {
            self.waits = false;
            say(outcome.map(|()| json!({})), port);
        }
    }
}

fn say<S: Service + ?Sized>(answer: Result<Value, String>, port: &mut Port<'_, S>) {
    let answer = match answer {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".into(), true.into());
            Value::Object(fields)
        }
        Ok(other) => json!({"ok": true, "value": other}),
        Err(error) => json!({"ok": false, "error": error}),
    };
    port.output().head(format!("{answer}\n").as_bytes());
}

impl<S: Service + ?Sized> Session<S> for ControlSession {
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, S>) -> Result<(), Close> {
        // Input after a line stays in place until the line is answered; after a slow request, it is kept
        // here.
        if self.waits {
            self.input.extend_from_slice(std::mem::take(input));
        } else if !self.has_line() {
            let end = input.iter().position(|&byte| byte == b'\n').map_or(input.len(), |at| at + 1);
            let (line, rest) = input.split_at(end);
            self.input.extend_from_slice(line);
            *input = rest;
        }
        self.work(port);
        if self.input.len() > INPUT_BYTES_MAX {
            return Err(Close::Refused(format!(
                "more than {INPUT_BYTES_MAX} bytes without an answer to wait for"
            )));
        }
        Ok(())
    }

    fn tick(&mut self, _now_ns: u64, port: &mut Port<'_, S>) -> Result<(), Close> {
        self.look(port);
        self.work(port);
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.waits && self.has_line()
    }

    fn completed(&mut self, _token: u64, answer: Answer<S>, port: &mut Port<'_, S>) {
        port.service().discard(answer);
    }
}
