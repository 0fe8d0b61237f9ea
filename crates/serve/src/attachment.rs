//! What hands requests to the server and is no stream socket: a block device of this machine's kernel (ublk) today; a FUSE mount or a
//! vhost-user queue would be others.
//!
//! ```text
//!  descriptor readable ─► Attachment::take ─► Port::submit ─► drive
//!  Attachment::send    ◄─ Attachment::completed ◄───────────────┘
//! ```
//! An attachment runs on the one thread of the [`Server`](crate::Server), which looks after all of them in every turn.
//!
//! Invariant: every submitted operation is answered by exactly one [`Attachment::completed`], never from inside [`Port::submit`].

use crate::core::Core;
use crate::output::Output;
use crate::service::{Answer, Done, Service};
use crate::session::{ConnectionId, Load, Port};
use std::os::fd::RawFd;

/// An end that gives requests and takes completions.
pub trait Attachment<S: Service = Core> {
    /// The word for it in logs and figures.
    fn protocol(&self) -> &'static str;

    /// The namespace that it uses as long as it lives.
    fn namespace(&self) -> usize;

    /// Descriptors of which one is readable when there is something to take.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Takes what the other end has to say, and submits its requests. Called in every turn; there may be nothing.
    fn take(&mut self, port: &mut Port<'_, S>);

    /// The operation submitted under `token` has ended. A buffer in the answer goes back with
    /// [`Port::give_back`].
    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>);

    /// Gives the other end what was completed.
    fn send(&mut self);

    /// Begins to end: what is under way is answered, and what the other end still has to write is taken.
    fn stop(&mut self, port: &mut Port<'_, S>);

    /// Whether it has ended: nothing more comes, and nothing of it is in the drives.
    fn has_ended(&self) -> bool;
}

/// An attachment and what the server keeps of it.
pub(crate) struct Attached<S: Service> {
    pub id: ConnectionId,
    /// Its protocol's place in the hub's list.
    protocol: usize,
    attachment: Box<dyn Attachment<S>>,
    load: Load,
    /// Stays empty: an attachment sends by itself.
    output: Output,
}

impl<S: Service> Attached<S> {
    /// Attachment number `at` of a server.
    pub fn new(at: usize, protocol: usize, attachment: Box<dyn Attachment<S>>) -> Attached<S> {
        let id = ConnectionId::of_attachment(at);
        Attached { id, protocol, attachment, load: Load::default(), output: Output::default() }
    }

    fn with<T>(
        &mut self,
        service: &mut S,
        work: impl FnOnce(&mut dyn Attachment<S>, &mut Port<'_, S>) -> T,
    ) -> T {
        let result =
            work(&mut *self.attachment, &mut Port::new(service, self.id, &mut self.load, &mut self.output));
        debug_assert!(self.output.is_empty(), "an attachment sends by itself");
        result
    }

    pub fn take(&mut self, service: &mut S) {
        self.with(service, |attachment, port| attachment.take(port));
    }

    /// One of its operations has ended.
    pub fn completed(&mut self, service: &mut S, done: Done<Answer<S>>) {
        self.load.commands -= 1;
        self.load.bytes -= done.bytes;
        service.hub_mut().protocols[self.protocol].commands += 1;
        self.with(service, |attachment, port| attachment.completed(done.route.token, done.answer, port));
    }

    pub fn send(&mut self) {
        self.attachment.send();
    }

    pub fn stop(&mut self, service: &mut S) {
        self.with(service, |attachment, port| attachment.stop(port));
    }

    pub fn has_ended(&self) -> bool {
        self.attachment.has_ended()
    }
}
