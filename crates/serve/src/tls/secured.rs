//! A session behind TLS.

use super::layer::{Engine, Layer};
use crate::service::{Answer, Service};
use crate::session::{Close, Port, Session};

/// A session whose peer speaks TLS from its first byte.
pub(crate) struct Secured<T, E> {
    session: T,
    tls: Layer<E>,
}

impl<T, E: Engine> Secured<T, E> {
    pub fn new(session: T, tls: Layer<E>) -> Secured<T, E> {
        Secured { session, tls }
    }
}

impl<S: Service, T: Session<S>, E: Engine> Session<S> for Secured<T, E> {
    fn opened(&mut self, port: &mut Port<'_, S>) {
        let session = &mut self.session;
        self.tls.with(port, |port| session.opened(port));
    }

    fn receive(&mut self, input: &mut &[u8], port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        if session.has_more() && !port.congested() {
            self.tls.with(port, |port| session.receive(&mut &[][..], port))?;
        }
        self.tls.receive(input, port, |input, port| session.receive(input, port))
    }

    fn wants_input(&self) -> bool {
        self.session.wants_input()
    }

    fn completed(&mut self, token: u64, answer: Answer<S>, port: &mut Port<'_, S>) {
        let session = &mut self.session;
        self.tls.with(port, |port| session.completed(token, answer, port));
        // Input that was refused before may be accepted now.
        if let Err(why) = self.receive(&mut &[][..], port) {
            let me = port.connection();
            port.close(me, why);
        }
    }

    fn has_turn(&mut self, port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        self.tls.with(port, |port| session.has_turn(port))
    }

    fn tick(&mut self, now_ns: u64, port: &mut Port<'_, S>) -> Result<(), Close> {
        let session = &mut self.session;
        self.tls.with(port, |port| session.tick(now_ns, port))
    }

    fn has_more(&self) -> bool {
        self.tls.has_more() || self.session.has_more()
    }

    fn closed(&mut self, port: &mut Port<'_, S>) {
        self.session.closed(port);
    }
}
