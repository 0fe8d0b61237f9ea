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

use crate::core::{Core, Done};
use crate::output::Output;
use crate::session::{ConnectionId, Load, Port};
use pellucid_flash::Completion;
use std::os::fd::RawFd;

/// An end that gives requests and takes completions.
pub trait Attachment {
    /// The word for it in logs and figures.
    fn protocol(&self) -> &'static str;

    /// The namespace that it uses as long as it lives.
    fn namespace(&self) -> usize;

    /// Descriptors of which one is readable when there is something to take.
    fn descriptors(&self) -> Vec<RawFd>;

    /// Takes what the other end has to say, and submits its requests. Called in every turn; there may be nothing.
    fn take(&mut self, port: &mut Port<'_>);

    /// The operation submitted under `token` has ended. `completion.data` is the operation's buffer: it goes back with
    /// [`Port::give_back`].
    fn completed(&mut self, token: u64, completion: Completion, port: &mut Port<'_>);

    /// Gives the other end what was completed.
    fn send(&mut self);

    /// Begins to end: what is under way is answered, and what the other end still has to write is taken.
    fn stop(&mut self, port: &mut Port<'_>);

    /// Whether it has ended: nothing more comes, and nothing of it is in the drives.
    fn has_ended(&self) -> bool;
}

/// An attachment and what the server keeps of it.
pub(crate) struct Attached {
    pub id: ConnectionId,
    /// Its protocol's place in the core's list.
    protocol: usize,
    attachment: Box<dyn Attachment>,
    load: Load,
    /// Stays empty: an attachment sends by itself.
    output: Output,
}

impl Attached {
    /// Attachment number `at` of a server.
    pub fn new(at: usize, protocol: usize, attachment: Box<dyn Attachment>) -> Attached {
        let id = ConnectionId::of_attachment(at);
        Attached { id, protocol, attachment, load: Load::default(), output: Output::default() }
    }

    fn with<T>(&mut self, core: &mut Core, work: impl FnOnce(&mut dyn Attachment, &mut Port<'_>) -> T) -> T {
        let result =
            work(&mut *self.attachment, &mut Port::new(core, self.id, &mut self.load, &mut self.output));
        debug_assert!(self.output.is_empty(), "an attachment sends by itself");
        result
    }

    pub fn take(&mut self, core: &mut Core) {
        self.with(core, |attachment, port| attachment.take(port));
    }

    /// One of its operations has ended.
    pub fn completed(&mut self, core: &mut Core, done: Done) {
        self.load.commands -= 1;
        self.load.bytes -= done.bytes;
        core.hub.protocols[self.protocol].commands += 1;
        self.with(core, |attachment, port| attachment.completed(done.route.token, done.completion, port));
    }

    pub fn send(&mut self) {
        self.attachment.send();
    }

    pub fn stop(&mut self, core: &mut Core) {
        self.with(core, |attachment, port| attachment.stop(port));
    }

    pub fn has_ended(&self) -> bool {
        self.attachment.has_ended()
    }
}
