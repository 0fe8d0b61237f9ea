//! The controller's side of the authentication of one queue.
//!
//! ```text
//!            Negotiate             Receive             Reply, right             Receive
//!   Idle ──────────────► Challenge ───────► Challenged ────────────► Success1 ──┬─────────► Idle, authenticated
//!    ▲                                                                          │ challenged by the host
//!    └────────────────────────────── Success2 ◄─────────────────────────────────┘
//!   anything else ─► Failed ─ Receive: AUTH_Failure1 ─► the queue is closed
//! ```
//! Invariants: each transaction draws a new challenge, which is answered at most once; S1 never repeats on a
//! queue and is never 0; a queue that has failed stays unauthenticated.

use super::group::KeyPair;
use super::{Context, HostSecrets, Random, augmented, draw};
use pellucid_wire::nvme::Status;
use pellucid_wire::nvme::auth::{
    AuthFailure, AuthHash, AuthMessage, Challenge, DHCHAP_VALUE_BYTES_MAX, DhGroup, Negotiate, Reply,
    auth_message, check_success2, encode_failure, encode_success1, parse_failure,
};
use ring::hmac;
use subtle::ConstantTimeEq;

/// Longest message that a host may send; every valid message is far shorter.
pub(in crate::nvme) const MESSAGE_BYTES_MAX: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// No transaction, or one that has succeeded.
    Idle,
    /// The host may fetch its challenge.
    Challenge,
    /// The host must send a Reply.
    Challenged,
    /// The host may fetch Success1.
    Success1,
    /// The host must send Success2.
    Success2,
    /// The host may fetch the reason.
    Failed(Refusal),
}

/// Reason why a queue is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme) struct Refusal {
    /// Reason for the host.
    pub failure: AuthFailure,
    /// Reason for the log.
    pub reason: &'static str,
}

impl From<AuthFailure> for Refusal {
    fn from(failure: AuthFailure) -> Refusal {
        let reason = match failure {
            AuthFailure::Failed => "failed",
            AuthFailure::ProtocolNotUsable => "the host does not offer DH-HMAC-CHAP",
            AuthFailure::SecureChannelMismatch => "the host wants a secure channel, which is not offered",
            AuthFailure::HashNotUsable => "the host offers none of SHA-256, SHA-384, SHA-512",
            AuthFailure::GroupNotUsable => "the host offers no Diffie-Hellman group that is good enough here",
            AuthFailure::IncorrectPayload => "a message is malformed",
            AuthFailure::IncorrectMessage => "a message is out of order",
        };
        Refusal { failure, reason }
    }
}

/// State of the authentication of one queue.
#[derive(Debug)]
pub(in crate::nvme) struct Authentication {
    secrets: HostSecrets,
    host_nqn: String,
    subsystem_nqn: String,
    step: Step,
    hash: AuthHash,
    transaction: u16,
    /// S1 of this transaction.
    sequence: u32,
    /// C1 of this transaction, in the first bytes.
    challenge: [u8; DHCHAP_VALUE_BYTES_MAX],
    group: DhGroup,
    /// Diffie-Hellman key pair of this transaction; `None` with the null group.
    pair: Option<KeyPair>,
    /// Response to C2.
    answer: Option<hmac::Tag>,
    authenticated: bool,
}

impl Authentication {
    pub fn new(secrets: HostSecrets, host_nqn: &str, subsystem_nqn: &str) -> Authentication {
        Authentication {
            secrets,
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            step: Step::Idle,
            hash: AuthHash::Sha256,
            transaction: 0,
            sequence: 0,
            challenge: [0; DHCHAP_VALUE_BYTES_MAX],
            group: DhGroup::Null,
            pair: None,
            answer: None,
            authenticated: false,
        }
    }

    /// Returns true if the queue may be used.
    pub fn is_done(&self) -> bool {
        self.authenticated
    }

    /// Names of host and subsystem, for the log.
    pub fn names(&self) -> (&str, &str) {
        (&self.host_nqn, &self.subsystem_nqn)
    }

    /// Takes a message of the host. The host learns of an error with its next Receive.
    ///
    /// # Errors
    /// Returns a refusal if the host has refused the controller: the queue must be closed.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let taken = self.take(message);
        if let Err(refusal) = taken {
            self.fail(refusal);
            if matches!(auth_message(message), Some((AuthMessage::Failure2, _))) {
                return taken;
            }
        }
        Ok(())
    }

    /// Returns the message that the host may fetch now. An AUTH_Failure1 comes with its reason, and the queue
    /// must then be closed.
    ///
    /// # Errors
    /// Returns `INVALID_FIELD` if the buffer is too small, and keeps the message; returns `INTERNAL_ERROR`
    /// without randomness.
    pub fn receive(
        &mut self,
        room_bytes: u32,
        random: Random<'_>,
    ) -> Result<(Vec<u8>, Option<Refusal>), Status> {
        let challenge_bytes = 16 + self.hash.bytes() + self.group.bytes();
        if self.step == Step::Challenge && challenge_bytes > room_bytes as usize {
            // Checked before the costly computation.
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let (message, next) = match self.step {
            Step::Challenge => (self.draw_challenge(random)?, Step::Challenged),
            Step::Success1 => {
                let answer = self.answer.as_ref().map(hmac::Tag::as_ref);
                let next = if answer.is_some() { Step::Success2 } else { Step::Idle };
                (encode_success1(self.transaction, self.hash, answer), next)
            }
            Step::Failed(refusal) => (self.failure(refusal), self.step),
            Step::Idle | Step::Challenged | Step::Success2 => {
                let refusal = AuthFailure::IncorrectMessage.into();
                (self.failure(refusal), Step::Failed(refusal))
            }
        };
        if message.len() > room_bytes as usize {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        if let Step::Failed(refusal) = next {
            self.fail(refusal);
            return Ok((message, Some(refusal)));
        }
        self.authenticated |= next == Step::Idle;
        self.step = next;
        Ok((message, None))
    }

    fn take(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let (kind, transaction) = auth_message(message).ok_or(AuthFailure::IncorrectMessage)?;
        if kind != AuthMessage::Negotiate && transaction != self.transaction {
            return Err(AuthFailure::IncorrectPayload.into());
        }
        match (self.step, kind) {
            (Step::Failed(refusal), _) => Err(refusal),
            (_, AuthMessage::Failure2) => {
                parse_failure(message).ok_or(AuthFailure::IncorrectPayload)?;
                let reason = "the host refuses the controller";
                Err(Refusal { failure: AuthFailure::Failed, reason })
            }
            (Step::Idle, AuthMessage::Negotiate) => {
                self.transaction = transaction;
                self.negotiate(message)
            }
            (Step::Challenged, AuthMessage::Reply) => self.reply(message),
            (Step::Success2, AuthMessage::Success2) => {
                check_success2(message)?;
                self.authenticated = true;
                self.step = Step::Idle;
                Ok(())
            }
            _ => Err(AuthFailure::IncorrectMessage.into()),
        }
    }

    fn negotiate(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let offer = Negotiate::parse(message)?;
        if offer.secure_channel != 0 {
            return Err(AuthFailure::SecureChannelMismatch.into());
        }
        self.hash = *offer.hashes.first().ok_or(AuthFailure::HashNotUsable)?;
        // The smallest acceptable group: a larger one costs all hosts of this server time.
        let good = self.secrets.groups().into_iter().find(|group| offer.groups.contains(group));
        self.group = good.ok_or(AuthFailure::GroupNotUsable)?;
        self.step = Step::Challenge;
        Ok(())
    }

    /// Draws C1 and S1 of this transaction. S1 starts at a random value and increments.
    fn draw_challenge(&mut self, random: Random<'_>) -> Result<Vec<u8>, Status> {
        let mut start = [0; 4];
        let none = |_| Status::INTERNAL_ERROR;
        draw(&mut start, random).map_err(none)?;
        draw(&mut self.challenge, random).map_err(none)?;
        let last = if self.sequence == 0 { u32::from_le_bytes(start) } else { self.sequence };
        self.sequence = last.wrapping_add(1).max(1);
        let challenge = self.challenge[..self.hash.bytes()].to_vec();
        self.pair = KeyPair::draw(self.group, random).map_err(none)?;
        let dh_value = self.pair.as_ref().map_or_else(Vec::new, |pair| pair.public().to_vec());
        let (transaction, hash, sequence) = (self.transaction, self.hash, self.sequence);
        Ok(Challenge { transaction, hash, sequence, challenge, group: self.group, dh_value }.encode())
    }

    fn reply(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let reply = Reply::parse(message, self.hash, self.group)?;
        // The pair is used once only, whatever the result.
        let shared = match self.pair.take() {
            Some(pair) => Some(pair.agree(&reply.dh_value).ok_or(AuthFailure::IncorrectPayload)?),
            None => None,
        };
        let failed = |reason| Refusal { failure: AuthFailure::Failed, reason };
        let context = Context {
            hash: self.hash,
            transaction: self.transaction,
            sequence: self.sequence,
            from: &self.host_nqn,
            to: &self.subsystem_nqn,
        };
        let challenge = augmented(self.hash, shared.as_deref(), &self.challenge[..self.hash.bytes()]);
        let expected = context.of_host(&self.secrets.host, &challenge);
        // The comparison takes the same time wherever the difference is.
        if !bool::from(expected.as_ref().ct_eq(&reply.response)) {
            return Err(failed("wrong response: the host has another secret"));
        }
        self.answer = match &reply.challenge {
            Some(challenge) if reply.sequence != 0 => {
                let secret = self.secrets.controller.as_ref();
                let secret =
                    secret.ok_or(failed("the host challenges the controller, which has no secret for it"))?;
                let back =
                    Context { sequence: reply.sequence, from: context.to, to: context.from, ..context };
                Some(back.of_controller(secret, &augmented(self.hash, shared.as_deref(), challenge)))
            }
            _ => None,
        };
        self.step = Step::Success1;
        Ok(())
    }

    fn fail(&mut self, refusal: Refusal) {
        self.authenticated = false;
        self.step = Step::Failed(refusal);
    }

    fn failure(&self, refusal: Refusal) -> Vec<u8> {
        encode_failure(AuthMessage::Failure1, self.transaction, refusal.failure).to_vec()
    }
}
