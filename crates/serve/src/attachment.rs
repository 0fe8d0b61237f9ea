//! Sources of requests that are not stream sockets: today a block device of this machine's kernel (ublk); a
//! FUSE mount or a vhost-user queue would be others.
//!
//! ```text
//!  descriptor readable ─► Attachment::take ─► Port::submit ─► drive
//!  Attachment::send    ◄─ Attachment::completed ◄───────────────┘
//! ```
//! An attachment runs on the single thread of the [`Server`](crate::Server), which polls all attachments in
//! every turn.
//!
//! Invariant: every submitted operation is answered by exactly one [`Attachment::completed`], never from inside [`Port::submit`].

use crate::event::Event;
use crate::service::{Done, Operated};
use pellucid_target::Answer;
use pellucid_target::Output;
use pellucid_target::connection::ConnectionId;
use pellucid_target::session::{Load, Port};
use pellucid_target::{Drives, Service};
use std::os::fd::RawFd;

/// An endpoint that submits requests and takes completions.
pub trait Attachment<S: Service + ?Sized = dyn Drives> {
    /// Protocol name for logs and figures.
    fn protocol(&self) -> &'static str;

    /// Namespace that the attachment uses for its lifetime.
    fn namespace(&self) -> usize;

    /// Descriptors, one of which is readable when there is input.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Takes available input and submits its requests. Called in every turn, even without input.
    fn take(&mut self, port: &mut Port<'_, S>);

    /// Takes the attachment's events for the log. Called in every turn.
    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Handles the completion of the operation submitted under `token`. A buffer in the answer is returned
    /// with [`Port::give_back`].
    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>);

    /// Sends completions to the other end. Called before the connections send theirs.
    fn send(&mut self, port: &mut Port<'_, S>);

    /// Begins to stop: outstanding requests are answered, and remaining writes of the other end are taken.
    fn stop(&mut self, port: &mut Port<'_, S>);

    /// Returns true if the attachment has ended: no more requests will come, and none are in the
    /// drives.
    fn has_ended(&self) -> bool;
}

/// An attachment with the server's state for it.
pub(crate) struct Attached<S: Operated> {
    pub id: ConnectionId,
    /// Index of its protocol in the hub's list.
    protocol: usize,
    attachment: Box<dyn Attachment<S::Face>>,
    load: Load,
    /// Stays empty: an attachment sends its own output.
    output: Output,
}

impl<S: Operated> Attached<S> {
    /// Creates attachment number `at` of a server.
    pub fn new(at: usize, protocol: usize, attachment: Box<dyn Attachment<S::Face>>) -> Attached<S> {
        let id = ConnectionId::of_attachment(at);
        Attached { id, protocol, attachment, load: Load::default(), output: Output::default() }
    }

    fn with<T>(
        &mut self,
        service: &mut S,
        work: impl FnOnce(&mut dyn Attachment<S::Face>, &mut Port<'_, S::Face>) -> T,
    ) -> T {
        let result = work(
            &mut *self.attachment,
            &mut Port::new(service.face(), self.id, &mut self.load, &mut self.output),
        );
        debug_assert!(self.output.is_empty(), "an attachment sends by itself");
        result
    }

    pub fn take(&mut self, service: &mut S) {
        self.with(service, |attachment, port| attachment.take(port));
        service.logbook_mut().events.append(&mut self.attachment.take_events());
    }

    /// Passes on the completion of one of its operations.
    pub fn completed(&mut self, service: &mut S, done: Done<Answer<S>>) {
        self.load.answered(done.bytes);
        service.logbook_mut().protocols[self.protocol].commands += 1;
        self.with(service, |attachment, port| attachment.completed(done.route.token, done.answer, port));
    }

    pub fn send(&mut self, service: &mut S) {
        self.with(service, |attachment, port| attachment.send(port));
    }

    pub fn stop(&mut self, service: &mut S) {
        self.with(service, |attachment, port| attachment.stop(port));
    }

    pub fn has_ended(&self) -> bool {
        self.attachment.has_ended()
    }
}
