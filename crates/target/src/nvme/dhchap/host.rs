//! The host's side of the authentication of one queue, for hosts of this project. It runs straight through,
//! as connecting blocks.
//!
//! ```text
//!   Negotiate ─► Challenge ─► Reply ─► Success1 [the controller's response, if it has a secret here] ─► Success2
//! ```
//! Invariant: a controller that has a secret here but does not prove it is refused, and is told so.

use super::group::KeyPair;
use super::{Context, HostSecrets, Random, augmented, draw};
use pellucid_wire::nvme::auth::{
    AuthFailure, AuthHash, AuthMessage, Challenge, DhGroup, Negotiate, Reply, auth_message, encode_failure,
    encode_success2, parse_failure, parse_success1,
};
use subtle::ConstantTimeEq;

/// Offered groups, in order of preference; the controller chooses.
const GROUPS: [DhGroup; 6] = [
    DhGroup::Ffdhe2048,
    DhGroup::Ffdhe3072,
    DhGroup::Ffdhe4096,
    DhGroup::Ffdhe6144,
    DhGroup::Ffdhe8192,
    DhGroup::Null,
];

/// Next step of the exchange.
pub enum Step<'a> {
    /// Send this message; the answer is empty.
    Send(&'a [u8]),
    /// Fetch a message.
    Receive,
}

/// Authenticates the queue behind `ask` as `host` to `subsystem`.
///
/// # Errors
/// Returns one sentence, without a secret, if it fails.
pub fn authenticate(
    secrets: &HostSecrets,
    [host, subsystem]: [&str; 2],
    random: Random<'_>,
    ask: &mut dyn FnMut(Step<'_>) -> Result<Vec<u8>, String>,
) -> Result<(), String> {
    let [low, high] = bytes(random)?;
    let transaction = u16::from_le_bytes([low, high]);
    let hashes = vec![AuthHash::Sha256, AuthHash::Sha384, AuthHash::Sha512];
    let groups = if secrets.group_min == DhGroup::Null { GROUPS.to_vec() } else { secrets.groups() };
    ask(Step::Send(&Negotiate { transaction, secure_channel: 0, hashes, groups }.encode()))?;

    let message = ask(Step::Receive)?;
    expect(&message, AuthMessage::Challenge, transaction)?;
    let challenge = Challenge::parse(&message).map_err(|_| malformed("challenge"))?;
    if challenge.group < secrets.group_min {
        return Err("the controller chose a group that was not offered".into());
    }
    let pair = KeyPair::draw(challenge.group, random).map_err(|_| no_randomness())?;
    let shared = match &pair {
        Some(pair) => Some(pair.agree(&challenge.dh_value).ok_or_else(|| malformed("public value"))?),
        None => None,
    };
    let context = Context {
        hash: challenge.hash,
        transaction,
        sequence: challenge.sequence,
        from: host,
        to: subsystem,
    };
    let answered = augmented(challenge.hash, shared.as_deref(), &challenge.challenge);
    let response = context.of_host(&secrets.host, &answered).as_ref().to_vec();
    let mine = bytes::<64>(random)?[..challenge.hash.bytes()].to_vec();
    let sequence = u32::from_le_bytes(bytes(random)?).max(1);
    let reply = Reply {
        transaction,
        response,
        challenge: secrets.controller.as_ref().map(|_| mine.clone()),
        sequence: if secrets.controller.is_some() { sequence } else { 0 },
        dh_value: pair.map_or_else(Vec::new, |pair| pair.public().to_vec()),
    };
    ask(Step::Send(&reply.encode()))?;

    let message = ask(Step::Receive)?;
    expect(&message, AuthMessage::Success1, transaction)?;
    let answer = parse_success1(&message, challenge.hash).map_err(|_| malformed("success"))?;
    let Some(secret) = &secrets.controller else { return Ok(()) };
    let back = Context { sequence, from: subsystem, to: host, ..context };
    let expected = back.of_controller(secret, &augmented(challenge.hash, shared.as_deref(), &mine));
    let is_right = answer.is_some_and(|answer| bool::from(expected.as_ref().ct_eq(answer)));
    if !is_right {
        // The host closes the queue, so a lost message does not matter.
        let refusal = encode_failure(AuthMessage::Failure2, transaction, AuthFailure::Failed);
        let _ = ask(Step::Send(&refusal));
        return Err("the controller does not know the secret that it has here".into());
    }
    ask(Step::Send(&encode_success2(transaction))).map(drop)
}

/// Checks that a message is the one expected now.
fn expect(message: &[u8], wanted: AuthMessage, transaction: u16) -> Result<(), String> {
    match auth_message(message) {
        Some((kind, of)) if kind == wanted && of == transaction => Ok(()),
        Some((AuthMessage::Failure1, _)) => Err(match parse_failure(message) {
            Some(AuthFailure::Failed) => {
                "the controller refuses this host: it has another secret for it".into()
            }
            Some(AuthFailure::GroupNotUsable) => {
                "the controller refuses every group that this host offers".into()
            }
            Some(why) => format!("the controller refuses: {why:?}"),
            None => malformed("failure"),
        }),
        _ => Err(malformed("message")),
    }
}

fn malformed(what: &str) -> String {
    format!("the controller's {what} is malformed or out of order")
}

fn no_randomness() -> String {
    "the system gives no randomness".into()
}

fn bytes<const N: usize>(random: Random<'_>) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    draw(&mut bytes, random).map_err(|_| no_randomness())?;
    Ok(bytes)
}
