//! A key-value cache as a service: serves the memcached protocol from a [`Cache`].
//!
//! ```text
//!   Server ─► KvSession ─► KvService ─► Engine ─► Cache: the cache on a drive ([`DriveCache`])
//! ```
//! Invariant: every value buffer comes from the cache and returns to it, or to the pool if it was sent
//! without a copy.

mod cache;
mod stats;
#[cfg(test)]
mod tests;

pub use cache::{Cache, DriveCache};

use crate::engine::{Answered, Entry, Time};
use crate::event::{By, Event};
use crate::secret;
use crate::service::{Desk, Done, Operated};
use crate::tls::TlsConfig;
use mio::{Poll, Token, Waker};
use pellucid_flash::{Histogram, SimTime};
use pellucid_kv::{Answer, Ask, Key, KvConfig, Outcome, What};
use pellucid_monitor::{Figures, View};
use pellucid_target::budget::large_part;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::memcached::{Ended, Kind, KvSession};
use pellucid_target::request::{Action, Chances, Request};
use pellucid_target::session::Session;
use pellucid_target::tls::Secured;
use pellucid_target::{Base, Items, Service};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Creates the session of a new connection; with `tls`, the client speaks TLS from its first byte.
///
/// # Errors
/// Returns the TLS error.
pub fn session(tls: Option<&TlsConfig>) -> Result<Box<dyn Session<dyn Items>>, String> {
    match tls {
        None => Ok(Box::new(KvSession::default())),
        Some(config) => {
            let tls = config.layer().map_err(|why| format!("{why:?}"))?;
            Ok(Box::new(Secured::new(KvSession::default(), tls)))
        }
    }
}

/// Requests of clients, as `stats` counts them: each as memcached 1.6 does (a `gat` touches and gets nothing, a number that is none is no hit).
#[derive(Clone, Debug, Default)]
struct Asked {
    gets: u64,
    hits: u64,
    sets: u64,
    touches: u64,
    touch_hits: u64,
    deletes: u64,
    delete_hits: u64,
    incrs: [u64; 2],
    decrs: [u64; 2],
    cas: [u64; 3],
    flushes: u64,
    meta: u64,
    /// Wall time from input to answer, for reads and for other requests.
    latency: [Histogram<4>; 2],
}

/// A cache in service.
pub struct KvService<C: Cache> {
    desk: Desk<C>,
    name: String,
    config: KvConfig,
    asked: Asked,
    baseline: stats::Baseline,
    /// Wall-clock seconds when [`Service::now_ns`] was 0.
    began_s: u64,
    /// Time of the last clock reading.
    clock_ns: u64,
    now_s: u32,
    put_away: Option<Result<(), String>>,
}

impl<C: Cache> KvService<C> {
    /// Takes a cache into service. A dilation must be above 0.
    pub fn new(name: &str, cache: C, config: &KvConfig, time: Time) -> KvService<C> {
        let began_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
        let items = config.warm_restart.then(|| cache.statistics().items);
        let mut desk = Desk::new(vec![cache], time);
        if let Some(items) = items {
            desk.logbook.events.push(Event::CacheStarted { cache: name.into(), items });
        }
        KvService {
            desk,
            name: name.into(),
            config: config.clone(),
            asked: Asked::default(),
            baseline: stats::Baseline::default(),
            began_s,
            clock_ns: 0,
            now_s: began_s as u32,
            put_away: None,
        }
    }

    /// The cache.
    pub fn cache(&self) -> &C {
        &self.desk.engine.backends()[0]
    }

    fn cache_mut(&mut self) -> &mut C {
        &mut self.desk.engine.backends_mut()[0]
    }

    /// Unwraps the cache in its present state.
    pub fn into_cache(self) -> Option<C> {
        self.desk.engine.into_backends().pop()
    }

    /// Acts on the drive below and logs it.
    fn act(&mut self, by: ConnectionId, action: Action) -> Result<Value, String> {
        let outcome = self.cache_mut().act(action);
        let (drive, by) = (self.name.clone(), By::Control(by));
        let count = |found: &Value, key: &str| found[key].as_u64().unwrap_or(0);
        if action == Action::Chances(Chances::default()) {
            // The request only reads the probabilities.
            return outcome;
        }
        self.desk.logbook.events.push(match (action, &outcome) {
            (Action::PowerCut, Ok(found)) => Event::PowerCut {
                drive,
                commands_lost: count(found, "commands_lost") as usize,
                undone_host_sectors: count(found, "undone_host_sectors"),
                by,
            },
            _ => Event::Fault {
                drive,
                fault: action.to_string(),
                by,
                read_only: outcome.as_ref().ok().and_then(|found| found["read_only"].as_bool()),
                error: outcome.as_ref().err().cloned(),
            },
        });
        outcome
    }
}

impl<C: Cache> Service for KvService<C> {
    type Answer = Answer;

    #[inline]
    fn base(&self) -> &dyn Base {
        &self.desk
    }

    #[inline]
    fn base_mut(&mut self) -> &mut dyn Base {
        &mut self.desk
    }

    fn discard(&mut self, answer: Answer) {
        if let Outcome::Item(item) = answer.outcome {
            self.give_back(item.value);
        }
    }

    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String> {
        match request {
            Request::Status => Ok(Some(self.status())),
            Request::Watch => {
                self.watch();
                serde_json::to_value(Figures::from(&stats::view(self)))
                    .map(Some)
                    .map_err(|error| error.to_string())
            }
            // The server's owner stops it.
            Request::Stop => Ok(Some(json!({}))),
            Request::Break { drive: Some(drive), .. } if drive != self.name => {
                Err(format!("drive: {drive}; allowed: {}", self.name))
            }
            Request::Break { action, .. } => self.act(by, action).map(Some),
            Request::Targets { .. }
            | Request::Apps { .. }
            | Request::AppAllocate { .. }
            | Request::AppRelease { .. }
            | Request::TargetCreate { .. }
            | Request::TargetRemove { .. }
            | Request::FirePause { .. }
            | Request::FireResume { .. }
            | Request::Detach { .. } => {
                Err("do: not of a cache; allowed: status, watch, stop, power-cut, faults, damage".into())
            }
        }
    }

    fn draw_random(&mut self, bytes: &mut [u8]) -> bool {
        secret::draw_random(bytes)
    }
}

impl<C: Cache> Items for KvService<C> {
    fn item_max_bytes(&self) -> u32 {
        self.config.item_max_bytes
    }

    #[inline]
    fn look_at_clock(&mut self) -> u64 {
        self.clock_ns = self.desk.engine.now_ns();
        self.now_s = (self.began_s + self.clock_ns / 1_000_000_000) as u32;
        self.clock_ns
    }

    #[inline]
    fn now_s(&self) -> u32 {
        self.now_s
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.cache_mut().buffer()
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        self.cache_mut().give_back(buffer);
    }

    #[inline]
    fn ask(&mut self, route: Route, key: Key, what: What, bytes: usize) {
        self.desk.hub.budget.hold_large(large_part(bytes));
        // In instant time requests enter in batches, so the requests in between hide the memory latency of
        // the prefetch.
        self.cache().prefetch(&key);
        self.desk.engine.submit(0, route, bytes, Ask { tag: 0, time_s: self.now_s, key, what });
    }

    #[inline]
    fn count(&mut self, kind: Kind, outcome: &Outcome) {
        let asked = &mut self.asked;
        match (kind, outcome) {
            (Kind::Get { touch: true, .. } | Kind::MetaGet { touch: true }, Outcome::Item(_)) => {
                (asked.touches, asked.touch_hits) = (asked.touches + 1, asked.touch_hits + 1)
            }
            (Kind::Get { touch: true, .. }, _) => asked.touches += 1,
            (Kind::Get { .. } | Kind::MetaGet { .. }, Outcome::Item(_)) => {
                (asked.gets, asked.hits) = (asked.gets + 1, asked.hits + 1)
            }
            (Kind::Get { .. } | Kind::MetaGet { .. }, _) => asked.gets += 1,
            (Kind::Store { cas } | Kind::MetaStore { cas }, outcome) => {
                asked.sets += 1;
                match outcome {
                    Outcome::NotFound if cas => asked.cas[0] += 1,
                    Outcome::Stored { .. } if cas => asked.cas[1] += 1,
                    Outcome::Exists => asked.cas[2] += 1,
                    _ => {}
                }
            }
            (Kind::MetaDelete { invalidate: true }, Outcome::Deleted) => {}
            (Kind::Delete | Kind::MetaDelete { .. }, outcome) => {
                asked.deletes += 1;
                asked.delete_hits += u64::from(*outcome == Outcome::Deleted);
            }
            (Kind::Touch, outcome) => {
                asked.touches += 1;
                asked.touch_hits += u64::from(*outcome == Outcome::Touched);
            }
            (Kind::Arithmetic { decrement } | Kind::MetaArithmetic { decrement }, outcome) => {
                let counts = if decrement { &mut asked.decrs } else { &mut asked.incrs };
                let hit = matches!(outcome, Outcome::Number { created: false, .. });
                counts[0] += u64::from(hit || *outcome == Outcome::NotFound);
                counts[1] += u64::from(hit);
            }
            (Kind::FlushAll, _) => asked.flushes += 1,
            _ => {}
        }
        asked.meta += u64::from(kind.is_meta());
    }

    #[inline]
    fn ended(&mut self, Ended { kind, began_ns, buffer, .. }: Ended) {
        if let Some(buffer) = buffer {
            self.give_back(buffer);
        }
        if kind != Kind::Text {
            let latency = &mut self.asked.latency[usize::from(!kind.is_get())];
            latency.record(self.clock_ns.saturating_sub(began_ns), 1);
        }
    }

    fn value_bytes_max(&self, key: &Key) -> usize {
        self.cache().value_bytes_max(key)
    }

    fn statistics(&mut self, what: &[u8]) -> Vec<u8> {
        stats::answer(what, self)
    }
}

impl<C: Cache> Operated for KvService<C> {
    type Backend = C;
    type Face = dyn Items;

    #[inline]
    fn face(&mut self) -> &mut (dyn Items + 'static) {
        self
    }

    #[inline]
    fn desk(&self) -> &Desk<C> {
        &self.desk
    }

    #[inline]
    fn desk_mut(&mut self) -> &mut Desk<C> {
        &mut self.desk
    }

    fn run(&mut self) -> bool {
        if self.cache().is_in_wall_time() {
            let now = SimTime(self.desk.engine.now_ns());
            let mut events = self.cache_mut().turn(now);
            self.desk.logbook.events.append(&mut events);
        }
        let more = self.desk.engine.run();
        self.look_at_clock();
        more
    }

    #[inline]
    fn pop(&mut self) -> Option<Done<Answer>> {
        let Answered { tag, at, answer } = self.desk.engine.take()?;
        let Entry { route, bytes, .. } = self.desk.engine.end(tag, at);
        self.desk.hub.budget.release_large(large_part(bytes));
        Some(Done { route, bytes, answer })
    }

    fn attach(&mut self, poll: &Poll, first: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        self.cache_mut().attach(poll, first, waker)
    }

    fn remote_ready(&mut self, token: usize) {
        self.cache_mut().ready(token);
    }

    fn watch(&mut self) {
        self.cache_mut().watch();
    }

    fn view(&self) -> View {
        stats::view(self)
    }

    fn put_away(&mut self) {
        self.put_away = Some(self.cache_mut().put_away());
    }

    fn is_put_away(&mut self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), String> {
        let name = &self.name;
        self.put_away.take().unwrap_or(Ok(())).map_err(|why| format!("{name}: {why}"))
    }
}
