//! Session of one client that speaks the memcached protocol.
//!
//! ```text
//!   input ─► Decoder ─┬─ get, delete, ... ───────────────────────► cache ─► Replies ─► output
//!                     ├─ set ─► value: straight to its buffer ───► cache ──┘
//!                     └─ version, errors ─► Replies
//! ```
//! Requests of one connection reach the cache in order and are answered in order, however many are
//! outstanding.
//!
//! Invariants: an incoming value is charged to the memory budget from its head to its end; while no data
//! arrive, only the received part is charged. Values that wait for earlier answers are charged too. A value
//! is requested only if its answer has room.

use super::replies::{Kind, Replies};
use super::version;
use crate::connection::{Close, Route};
use crate::service::Items;
use crate::session::{Port, Session};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pellucid_kv::{Answer, Get, Key, Mode, Outcome, Store as StoreWhat, What};
use pellucid_wire::memcached::{
    Arithmetic, Decoder, Delete, ErrorLine, Event, MetaGet, Store, StoreMode, Style, expires_s,
};

/// Maximum number of outstanding requests per connection, as the lengths of their answers are not known in
/// advance.
const UNANSWERED_MAX: usize = 64;

/// A value being received.
struct Incoming {
    /// Number of the request.
    number: u64,
    key: Key,
    what: StoreWhat,
    /// Length of the value.
    length: usize,
    /// Buffer of the value; its first `came` bytes have arrived.
    value: Vec<u8>,
    came: usize,
    /// Bytes received by the last tick.
    came_before: usize,
    /// Bytes charged to the memory budget: the whole value, or the received part.
    reserved: usize,
}

/// Maximum bytes of a value read directly into its buffer at once.
const LANDING_BYTES: usize = 256 << 10;

/// A request that waits for memory budget.
enum Waiting {
    Value(Incoming),
    /// The rest of the value being received.
    Rest,
    Ask(Wanted),
}

/// A get that is not submitted yet.
struct Wanted {
    number: u64,
    key: Key,
    what: What,
    /// Upper bound of the value's length.
    bytes: usize,
}

/// The state of one connection.
#[derive(Default)]
pub struct KvSession {
    decoder: Decoder,
    requests: Requests,
}

/// State of a session beside the decoder, which is borrowed separately.
#[derive(Default)]
struct Requests {
    incoming: Option<Incoming>,
    waiting: Option<Box<Waiting>>,
    /// Get that waits until the client has taken other answers.
    crowded: Option<Box<Wanted>>,
    replies: Replies,
    /// Longest value stored since all requests were last answered; the index may not know it yet.
    stored_bytes: usize,
    /// Time of the last input.
    now_ns: u64,
}

impl Session<dyn Items> for KvSession {
    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, dyn Items>) -> Result<(), Close> {
        let KvSession { decoder, requests } = self;
        requests.now_ns = port.service().look_at_clock();
        if let Some(wanted) = requests.crowded.take() {
            requests.ask_for_value(*wanted, port);
        }
        loop {
            let more = !input.is_empty() || decoder.has_more();
            if more && !requests.goes_on(port) {
                return Ok(());
            }
            let busy = requests.replies.len() >= UNANSWERED_MAX || requests.has_to_wait() || port.congested();
            if !more || (requests.incoming.is_none() && busy) {
                return Ok(());
            }
            let after = match decoder.decode(input) {
                Ok(None) => return Ok(()),
                Ok(Some(event)) => requests.take(event, port)?,
                Err(error) => {
                    requests.replies.say(error.answer().line(), port.output());
                    return Err(Close::Refused(error.to_string()));
                }
            };
            if after == After::DropData {
                decoder.drop_data();
            }
        }
    }

    fn landing(&mut self) -> Option<&mut [u8]> {
        let left = self.decoder.data_left();
        let Incoming { length, value, came, reserved, .. } = self.requests.incoming.as_mut()?;
        if left == 0 || reserved < length {
            return None;
        }
        if value.len() == *came {
            value.reserve_exact(*length - *came);
            value.resize((*came + LANDING_BYTES).min(*length), 0);
        }
        Some(&mut value[*came..])
    }

    fn landed(&mut self, bytes: usize, port: &mut Port<'_, dyn Items>) -> Result<(), Close> {
        port.came(bytes);
        self.decoder.came(bytes as u64);
        if let Some(incoming) = &mut self.requests.incoming {
            incoming.came += bytes;
        }
        Ok(())
    }

    fn wants_input(&self) -> bool {
        self.requests.waiting.is_none()
            && (self.requests.incoming.is_some() || self.requests.replies.len() < UNANSWERED_MAX)
    }

    fn has_turn(&mut self, port: &mut Port<'_, dyn Items>) -> Result<(), Close> {
        match self.requests.waiting.take().map(|waiting| *waiting) {
            None => {}
            Some(Waiting::Value(incoming)) => self.requests.expect(incoming, port),
            Some(Waiting::Rest) => self.requests.expect_rest(port),
            Some(Waiting::Ask(Wanted { number, key, what, bytes })) => {
                self.requests.ask(number, key, what, bytes, port);
            }
        }
        Ok(())
    }

    fn completed(&mut self, token: u64, answer: Answer, port: &mut Port<'_, dyn Items>) {
        self.requests.completed(token, answer.outcome, port);
    }

    fn has_more(&self) -> bool {
        self.decoder.has_more() || self.requests.crowded.is_some()
    }

    fn tick(&mut self, _now_ns: u64, port: &mut Port<'_, dyn Items>) -> Result<(), Close> {
        self.requests.rest(port);
        Ok(())
    }

    fn closed(&mut self, port: &mut Port<'_, dyn Items>) {
        let Requests { incoming, waiting, replies, .. } = &mut self.requests;
        replies.drain().for_each(|buffer| port.service().give_back(buffer));
        let waiting = waiting.take().and_then(|waiting| match *waiting {
            Waiting::Value(incoming) => Some(incoming),
            Waiting::Rest | Waiting::Ask(_) => None,
        });
        for incoming in incoming.take().into_iter().chain(waiting) {
            port.service().give_back(incoming.value);
        }
    }
}

/// Next action of the decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// Drop the value that follows.
    DropData,
}

/// Parses the key of a meta command.
fn meta_key(text: &[u8], base64: bool) -> Option<Key> {
    if !base64 {
        return Key::new(text);
    }
    let mut bytes = [0; Key::BYTES_MAX];
    let length = BASE64_STANDARD.decode_slice(text, &mut bytes).ok()?;
    Key::new(&bytes[..length]).map(|key| key.named(true))
}

fn mode(mode: StoreMode) -> Mode {
    match mode {
        StoreMode::Set => Mode::Set,
        StoreMode::Add => Mode::Add,
        StoreMode::Replace => Mode::Replace,
        StoreMode::Append => Mode::Append,
        StoreMode::Prepend => Mode::Prepend,
    }
}

impl Requests {
    #[inline]
    fn take(&mut self, event: Event<'_>, port: &mut Port<'_, dyn Items>) -> Result<After, Close> {
        let now_s = port.service().now_s();
        match event {
            Event::Key { kind, key, last } => {
                let touch = kind.touch.map(|expiry| expires_s(expiry, now_s));
                let Some(found) = Key::new(key) else { return Ok(After::Nothing) };
                let kind = Kind::Get { cas: kind.cas, last, touch: touch.is_some() };
                let number = self.replies.begin(kind, false, self.now_ns, key, &[]);
                let what = What::Get(Get { touch, ..Get::default() });
                self.look_up(number, found, what, port);
            }
            Event::GetEnd => self.replies.say(b"END\r\n", port.output()),
            Event::Store(store) => return Ok(self.store(&store, now_s, port)),
            Event::Data(bytes) => {
                if let Some(Incoming { value, came, .. }) = &mut self.incoming {
                    port.came(bytes.len());
                    value.truncate(*came);
                    value.extend_from_slice(bytes);
                    *came += bytes.len();
                }
            }
            Event::DataEnd { good } => self.value_ended(good, port),
            Event::Arithmetic(arithmetic) => self.arithmetic(&arithmetic, now_s, port),
            Event::Delete(delete) => self.delete(&delete, now_s, port),
            Event::Touch { key, expiry, noreply } => {
                let Some(key) = Key::new(key) else { return Ok(After::Nothing) };
                let number = self.replies.begin(Kind::Touch, noreply, self.now_ns, &[], &[]);
                self.ask(number, key, What::Touch { expires_s: expires_s(expiry, now_s) }, 0, port);
            }
            Event::MetaGet(get) => self.meta_get(&get, now_s, port),
            Event::MetaDebug { key, base64 } => match meta_key(key, base64) {
                None => self.say(ErrorLine::BadBase64.line(), port),
                Some(found) => {
                    let number = self.replies.begin(
                        Kind::MetaDebug,
                        false,
                        self.now_ns,
                        key,
                        if base64 { b"b" } else { b"" },
                    );
                    let what = What::Get(Get { without_value: true, ..Get::default() });
                    self.ask(number, found, what, 0, port);
                }
            },
            Event::MetaNoop => self.say(b"MN\r\n", port),
            Event::FlushAll { delay, noreply } => {
                let number = self.replies.begin(Kind::FlushAll, noreply, self.now_ns, &[], &[]);
                let at_s = if delay > 0 { expires_s(delay, now_s) } else { 0 };
                self.ask(number, Key::default(), What::FlushAll { at_s }, 0, port);
            }
            Event::Stats(what) => {
                let text = port.service().statistics(what);
                self.say(&text, port);
            }
            Event::Verbosity { noreply: false } => self.say(b"OK\r\n", port),
            Event::Verbosity { noreply: true } => {}
            Event::Version => {
                let text = format!("VERSION {}\r\n", version());
                self.say(text.as_bytes(), port);
            }
            Event::Quit => return Err(Close::Finished),
            Event::Refused { noreply: true, .. } => {}
            Event::Refused { error, noreply: false, .. } => self.say(error.line(), port),
        }
        Ok(After::Nothing)
    }

    fn say(&mut self, text: &[u8], port: &mut Port<'_, dyn Items>) {
        self.replies.say(text, port.output());
    }

    fn store(&mut self, store: &Store<'_>, now_s: u32, port: &mut Port<'_, dyn Items>) -> After {
        let (kind, noreply, flags, base64) = match store.style {
            Style::Text { noreply } => (Kind::Store { cas: store.cas.is_some() }, noreply, &[][..], false),
            Style::Meta(flags) => {
                (Kind::MetaStore { cas: store.cas.is_some() }, false, flags.text(), flags.base64)
            }
        };
        let Some(key) = meta_key(store.key, base64) else {
            self.say(ErrorLine::BadBase64.line(), port);
            return After::DropData;
        };
        if store.length > u64::from(port.service().item_max_bytes()) {
            if !noreply {
                self.say(ErrorLine::TooLarge.line(), port);
            }
            if store.mode == StoreMode::Set && store.cas.is_none() {
                // The item that the client wanted to replace must no longer be served.
                self.forget(key, port);
            }
            return After::DropData;
        }
        let what = StoreWhat {
            mode: mode(store.mode),
            flags: store.flags,
            expires_s: expires_s(store.expiry, now_s),
            cas: store.cas,
            invalidate: store.invalidate,
            vivify: store.vivify.map(|expiry| expires_s(expiry, now_s)),
            value: Vec::new(),
        };
        let shown = if kind.is_meta() { store.key } else { &[] };
        let number = self.replies.begin(kind, noreply, self.now_ns, shown, flags);
        let length = store.length as usize;
        let incoming =
            Incoming { number, key, what, length, value: Vec::new(), came: 0, came_before: 0, reserved: 0 };
        match port.has_budget(length) {
            true => self.expect(incoming, port),
            false => self.waiting = Some(Box::new(Waiting::Value(incoming))),
        }
        After::Nothing
    }

    /// Removes an item without an answer.
    fn forget(&mut self, key: Key, port: &mut Port<'_, dyn Items>) {
        let number = self.replies.begin(Kind::Forget, true, self.now_ns, &[], &[]);
        self.ask(number, key, What::Delete { cas: None, invalidate: None, emptied: None }, 0, port);
    }

    /// Begins to receive a value.
    fn expect(&mut self, mut incoming: Incoming, port: &mut Port<'_, dyn Items>) {
        port.expect(incoming.length);
        incoming.reserved = incoming.length;
        incoming.value = port.service().buffer();
        incoming.value.clear();
        self.incoming = Some(incoming);
    }

    /// Resumes receiving a value: charges all of it to the budget again.
    fn expect_rest(&mut self, port: &mut Port<'_, dyn Items>) {
        if let Some(incoming) = &mut self.incoming {
            port.release(incoming.reserved);
            port.expect(incoming.length);
            incoming.reserved = incoming.length;
        }
    }

    /// Prepares for more input. If it belongs to a value whose budget was released in a pause, budget is
    /// needed again; returns false if there is none yet.
    #[inline]
    fn goes_on(&mut self, port: &mut Port<'_, dyn Items>) -> bool {
        match &self.incoming {
            Some(incoming) if incoming.reserved < incoming.length => {}
            _ => return true,
        }
        let missing = self.incoming.as_ref().map_or(0, |incoming| incoming.length - incoming.reserved);
        if self.waiting.is_some() || !port.has_budget(missing) {
            self.waiting = Some(Box::new(Waiting::Rest));
            return false;
        }
        self.expect_rest(port);
        true
    }

    /// Returns true if a request waits for budget or for room in the output.
    #[inline]
    fn has_to_wait(&self) -> bool {
        self.waiting.is_some() || self.crowded.is_some()
    }

    /// Releases memory of an idle connection; called ten times a second, and more often while budget is
    /// short. A value without new data since the last call keeps only the budget and memory of its received
    /// part.
    fn rest(&mut self, port: &mut Port<'_, dyn Items>) {
        self.replies.rest();
        if let Some(Incoming { length, value, came, came_before, reserved, .. }) = &mut self.incoming {
            if came == came_before && reserved == length {
                port.release(*reserved);
                port.expect(*came);
                *reserved = *came;
                value.truncate(*came);
                value.shrink_to_fit();
            }
            *came_before = *came;
        }
    }

    fn value_ended(&mut self, good: bool, port: &mut Port<'_, dyn Items>) {
        let Some(Incoming { number, key, what, length, reserved, value, .. }) = self.incoming.take() else {
            return;
        };
        port.release(reserved);
        if !good {
            port.service().give_back(value);
            // memcached counts a set when its data have come, whatever they are.
            port.service().count(self.replies.kind(number), &Outcome::NotStored);
            self.replies.amend_last(ErrorLine::BadDataChunk.line());
            return self.answer(port);
        }
        self.stored_bytes = self.stored_bytes.max(length);
        self.ask(number, key, What::Store(StoreWhat { value, ..what }), length, port);
    }

    fn arithmetic(&mut self, arithmetic: &Arithmetic<'_>, now_s: u32, port: &mut Port<'_, dyn Items>) {
        let decrement = arithmetic.decrement;
        let kind = match arithmetic.style {
            Style::Text { .. } => Kind::Arithmetic { decrement },
            Style::Meta(_) => Kind::MetaArithmetic { decrement },
        };
        let Some((number, key)) = self.begin(kind, arithmetic.key, arithmetic.style, port) else {
            return;
        };
        let what = What::Arithmetic {
            delta: arithmetic.delta,
            decrement,
            initial: arithmetic.initial.map(|(value, expiry)| (value, expires_s(expiry, now_s))),
            touch: arithmetic.touch.map(|expiry| expires_s(expiry, now_s)),
            cas: arithmetic.cas,
        };
        self.ask(number, key, what, 0, port);
    }

    fn delete(&mut self, delete: &Delete<'_>, now_s: u32, port: &mut Port<'_, dyn Items>) {
        let kind = match delete.style {
            Style::Text { .. } => Kind::Delete,
            Style::Meta(_) => Kind::MetaDelete { invalidate: delete.invalidate.is_some() },
        };
        let Some((number, key)) = self.begin(kind, delete.key, delete.style, port) else { return };
        let invalidate = delete.invalidate.map(|expiry| expiry.map(|expiry| expires_s(expiry, now_s)));
        let emptied = delete.emptied.map(|expiry| expires_s(expiry, now_s));
        self.ask(number, key, What::Delete { cas: delete.cas, invalidate, emptied }, 0, port);
    }

    /// Begins a request with its key, which may be invalid.
    fn begin(
        &mut self,
        kind: Kind,
        text: &[u8],
        style: Style<'_>,
        port: &mut Port<'_, dyn Items>,
    ) -> Option<(u64, Key)> {
        match style {
            Style::Text { noreply } => {
                let key = Key::new(text)?;
                Some((self.replies.begin(kind, noreply, self.now_ns, &[], &[]), key))
            }
            Style::Meta(flags) => {
                let Some(key) = meta_key(text, flags.base64) else {
                    self.say(ErrorLine::BadBase64.line(), port);
                    return None;
                };
                Some((self.replies.begin(kind, false, self.now_ns, text, flags.text()), key))
            }
        }
    }

    fn meta_get(&mut self, get: &MetaGet<'_>, now_s: u32, port: &mut Port<'_, dyn Items>) {
        let kind = Kind::MetaGet { touch: get.touch.is_some() };
        let Some(key) = meta_key(get.key, get.flags.base64) else {
            return self.say(ErrorLine::BadBase64.line(), port);
        };
        let number = self.replies.begin(kind, false, self.now_ns, get.key, get.flags.text());
        let what = What::Get(Get {
            touch: get.touch.map(|expiry| expires_s(expiry, now_s)),
            without_value: !get.flags.value,
            vivify: get.vivify.map(|expiry| expires_s(expiry, now_s)),
            recache_s: get.recache.map(|seconds| seconds.clamp(0, u32::MAX.into()) as u32),
        });
        match get.flags.value {
            true => self.look_up(number, key, what, port),
            false => self.ask(number, key, what, 0, port),
        }
    }

    /// Looks up a bound for the length of a value, and requests the value.
    #[inline]
    fn look_up(&mut self, number: u64, key: Key, what: What, port: &mut Port<'_, dyn Items>) {
        let bytes = port.service().value_bytes_max(&key).max(self.stored_bytes);
        self.ask_for_value(Wanted { number, key, what, bytes }, port);
    }

    /// Requests a value if the connection has room for it and budget is available.
    #[inline]
    fn ask_for_value(&mut self, wanted: Wanted, port: &mut Port<'_, dyn Items>) {
        let bytes = wanted.bytes;
        if !port.has_room(bytes) {
            self.crowded = Some(Box::new(wanted));
        } else if bytes <= crate::budget::OWN_BYTES || port.has_budget(bytes) {
            let Wanted { number, key, what, .. } = wanted;
            self.ask(number, key, what, bytes, port);
        } else {
            self.waiting = Some(Box::new(Waiting::Ask(wanted)));
        }
    }

    #[inline]
    fn ask(&mut self, number: u64, key: Key, what: What, bytes: usize, port: &mut Port<'_, dyn Items>) {
        let connection = port.connection();
        port.submits(bytes);
        port.service().ask(Route { connection, token: number }, key, what, bytes);
    }

    fn completed(&mut self, number: u64, outcome: Outcome, port: &mut Port<'_, dyn Items>) {
        port.service().count(self.replies.kind(number), &outcome);
        port.expect(self.replies.complete(number, outcome));
        self.answer(port);
    }

    /// Sends the answers that are due.
    #[inline]
    fn answer(&mut self, port: &mut Port<'_, dyn Items>) {
        let now_s = port.service().now_s();
        while let Some(ended) = self.replies.answer_next(now_s, port.output()) {
            port.release(ended.parked);
            port.service().ended(ended);
        }
        if self.replies.len() == 0 {
            self.stored_bytes = 0;
        }
    }
}
