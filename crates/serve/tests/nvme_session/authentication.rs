//! Hosts that must authenticate. The host here computes its responses independently, from the text of the
//! specification.

use super::world::{CC_ENABLE, HOST, NQN, SECTOR, World, blocks};
use crate::common::drive;
use pellucid_media::StoreKind;
use pellucid_target::Service;
use pellucid_target::connection::Close;
use pellucid_target::nvme::HostSecrets;
use pellucid_wire::nvme::auth::{
    AUTH_PROTOCOL, AUTH_SPECIFIC, AuthFailure, AuthHash, AuthMessage, Challenge, DhGroup, Negotiate, Reply,
    auth_message, encode_failure, encode_success2, parse_failure, parse_success1,
};
use pellucid_wire::nvme::{
    AuthArguments, Connect, ConnectReply, DYNAMIC_CONTROLLER, FabricsType, PropertyGet, SglDescriptor,
    Status, SubmissionEntry,
};
use pellucid_wire::tcp::IcReq;
use ring::hmac;
use std::collections::BTreeMap;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };
const KEEP_ALIVE: u8 = 0x18;
const TRANSACTION: u16 = 0x4321;

/// Keys that a host knows: its own, and the controller's. Neither is transformed, as the known answers cover
/// that.
struct Keys {
    host: [u8; 32],
    controller: [u8; 48],
}

const KEYS: Keys = Keys { host: [3; 32], controller: [4; 48] };

fn printed(key: &[u8]) -> String {
    use base64::Engine;
    let bytes = [key, &crc32fast::hash(key).to_le_bytes()].concat();
    format!("DHHC-1:00:{}:", base64::prelude::BASE64_STANDARD.encode(bytes))
}

fn world(controller: bool) -> World {
    let controller = if controller { printed(&KEYS.controller) } else { String::new() };
    let secrets = HostSecrets::parse(&format!("{}\n{controller}\n", printed(&KEYS.host))).expect("secrets");
    let drives = vec![("one".into(), drive(StoreKind::Ram))];
    World::secured(drives, None, BTreeMap::from([(HOST.to_owned(), secrets)]))
}

fn response(
    hash: AuthHash,
    key: &[u8],
    challenge: &[u8],
    sequence: u32,
    role: &str,
    names: [&str; 2],
) -> Vec<u8> {
    let algorithm = match hash {
        AuthHash::Sha256 => hmac::HMAC_SHA256,
        AuthHash::Sha384 => hmac::HMAC_SHA384,
        AuthHash::Sha512 => hmac::HMAC_SHA512,
    };
    let numbers = [&sequence.to_le_bytes()[..], &TRANSACTION.to_le_bytes(), &[0]].concat();
    let text = format!("{role}{}\0{}", names[0], names[1]);
    let message = [challenge, &numbers, text.as_bytes()].concat();
    hmac::sign(&hmac::Key::new(algorithm, key), &message).as_ref().to_vec()
}

/// Connects an admin queue without authenticating.
fn admin(world: &mut World) -> (usize, u16) {
    admin_with_keep_alive(world, 0)
}

fn admin_with_keep_alive(world: &mut World, keep_alive_ms: u32) -> (usize, u16) {
    let link = world.dial(PLAIN);
    let connect = Connect { queue_id: 0, queue_entries: 32, attributes: 0, keep_alive_ms };
    let completion = world.connect(link, &connect, NQN, HOST, DYNAMIC_CONTROLLER);
    assert!(completion.status.is_success(), "{completion:?}");
    let (id, required) = ConnectReply::parse_accepted(completion.result);
    assert!(required.authentication && !required.secure_channel, "ATR without ASCR");
    (link, id)
}

fn arguments(length: u32) -> AuthArguments {
    AuthArguments { protocol: AUTH_PROTOCOL, specific: AUTH_SPECIFIC, length_bytes: length }
}

fn send(world: &mut World, link: usize, message: &[u8]) -> Status {
    let length = message.len() as u32;
    let entry = arguments(length).entry(FabricsType::AuthenticationSend, 0);
    world.ask(link, entry.with_sgl(SglDescriptor::in_capsule(0, length)), message).status
}

fn receive(world: &mut World, link: usize) -> Result<Vec<u8>, Status> {
    world.fetch(link, arguments(4096).entry(FabricsType::AuthenticationReceive, 0), 4096)
}

fn negotiate(hashes: &[AuthHash], groups: &[DhGroup]) -> Vec<u8> {
    let (hashes, groups) = (hashes.to_vec(), groups.to_vec());
    Negotiate { transaction: TRANSACTION, secure_channel: 0, hashes, groups }.encode()
}

fn challenge(world: &mut World, link: usize, hash: AuthHash) -> Challenge {
    assert_eq!(send(world, link, &negotiate(&[hash], &[DhGroup::Ffdhe2048, DhGroup::Null])), Status::SUCCESS);
    let challenge = Challenge::parse(&receive(world, link).expect("a message")).expect("a challenge");
    assert_eq!((challenge.transaction, challenge.hash), (TRANSACTION, hash));
    assert_ne!(challenge.sequence, 0);
    challenge
}

fn reply_to(challenge: &Challenge, key: &[u8]) -> Reply {
    let names = [HOST, NQN];
    let Challenge { hash, sequence, challenge, .. } = challenge;
    let response = response(*hash, key, challenge, *sequence, "HostHost", names);
    Reply { transaction: TRANSACTION, response, challenge: None, sequence: 0, dh_value: Vec::new() }
}

/// Runs a whole exchange, without a challenge by the host.
fn authenticate(world: &mut World, link: usize, hash: AuthHash) {
    let reply = reply_to(&challenge(world, link, hash), &KEYS.host);
    assert_eq!(send(world, link, &reply.encode()), Status::SUCCESS);
    assert!(!usable(world, link), "not before Success1");
    let success = receive(world, link).expect("a message");
    assert_eq!(auth_message(&success), Some((AuthMessage::Success1, TRANSACTION)));
    assert_eq!(parse_success1(&success, hash), Ok(None));
}

/// Returns true if a harmless command is executed.
fn usable(world: &mut World, link: usize) -> bool {
    let status = world.ask(link, PropertyGet { is_8_bytes: false, offset: 0x1C }.entry(0), &[]).status;
    assert!(status.is_success() || status.is(Status::AUTHENTICATION_REQUIRED), "{status:?}");
    status.is_success()
}

/// Checks that the host fetches AUTH_Failure1, that the queue is then closed, and that the log gives the
/// reason.
fn refused(world: &mut World, link: usize, failure: AuthFailure, why: &str) {
    let message = receive(world, link).expect("a message");
    assert_eq!(auth_message(&message).map(|(kind, _)| kind), Some(AuthMessage::Failure1));
    assert_eq!(parse_failure(&message), Some(failure));
    closed(world, link, why);
}

fn closed(world: &World, link: usize, why: &str) {
    let Some(Close::Refused(text)) = &world.links[link].closed else { panic!("still open: {why}") };
    assert!(text.contains(HOST) && text.contains(NQN) && text.contains(why), "{text}");
}

#[test]
fn a_host_that_knows_its_secret_is_let_in_on_every_queue() {
    for hash in AuthHash::ALL {
        let mut world = world(false);
        let (link, id) = admin(&mut world);
        assert!(!usable(&mut world, link));
        authenticate(&mut world, link, *hash);
        assert!(usable(&mut world, link));
        assert!(world.set_cc(link, CC_ENABLE).status.is_success());
        let queues = SubmissionEntry::new(0x09, 0, 0).with_cdw(10, 7);
        assert!(world.ask(link, queues, &[]).status.is_success());
        let queue = world.queue(PLAIN, id, 1);
        let read = |world: &mut World| world.fetch(queue, blocks(2, 0, 1), SECTOR as u32);
        assert!(read(&mut world).expect_err("not yet").is(Status::AUTHENTICATION_REQUIRED));
        let reply = reply_to(&challenge(&mut world, queue, *hash), &KEYS.host);
        assert!(read(&mut world).expect_err("not yet").is(Status::AUTHENTICATION_REQUIRED));
        assert_eq!(send(&mut world, queue, &reply.encode()), Status::SUCCESS);
        assert!(read(&mut world).expect_err("not yet").is(Status::AUTHENTICATION_REQUIRED));
        receive(&mut world, queue).expect("Success1");
        assert_eq!(read(&mut world), Ok(vec![0; SECTOR]));
    }
}

#[test]
fn a_controller_that_is_challenged_proves_its_own_secret() {
    let mut world = world(true);
    let (link, _) = admin(&mut world);
    let hash = AuthHash::Sha512;
    let (mine, sequence) = (vec![0x5A; 64], 77);
    let reply = reply_to(&challenge(&mut world, link, hash), &KEYS.host);
    let reply = Reply { challenge: Some(mine.clone()), sequence, ..reply };
    assert_eq!(send(&mut world, link, &reply.encode()), Status::SUCCESS);
    let success = receive(&mut world, link).expect("Success1");
    let expected = response(hash, &KEYS.controller, &mine, sequence, "Controller", [NQN, HOST]);
    assert_eq!(parse_success1(&success, hash), Ok(Some(&expected[..])));
    assert!(!usable(&mut world, link), "not before Success2");
    assert_eq!(send(&mut world, link, &encode_success2(TRANSACTION)), Status::SUCCESS);
    assert!(usable(&mut world, link));
    // In a second exchange, the host does not believe the controller.
    let reply = reply_to(&challenge(&mut world, link, hash), &KEYS.host);
    assert!(usable(&mut world, link), "a new transaction leaves the queue usable");
    let reply = Reply { challenge: Some(mine), sequence: 78, ..reply };
    assert_eq!(send(&mut world, link, &reply.encode()), Status::SUCCESS);
    receive(&mut world, link).expect("Success1");
    let failure = encode_failure(AuthMessage::Failure2, TRANSACTION, AuthFailure::Failed);
    assert_eq!(send(&mut world, link, &failure), Status::SUCCESS);
    closed(&world, link, "the host refuses the controller");
}

#[test]
fn wrong_secrets_and_unknown_hosts_are_refused() {
    let mut world = world(false);
    let (link, _) = admin(&mut world);
    let reply = reply_to(&challenge(&mut world, link, AuthHash::Sha256), &[9; 32]);
    assert_eq!(send(&mut world, link, &reply.encode()), Status::SUCCESS);
    assert!(!usable(&mut world, link));
    refused(&mut world, link, AuthFailure::Failed, "wrong response");
    assert_eq!(world.target.borrow().controllers().count(), 0, "its controller is gone");

    let (link, _) = admin(&mut world);
    let reply = reply_to(&challenge(&mut world, link, AuthHash::Sha256), &KEYS.host);
    let reply = Reply { challenge: Some(vec![1; 32]), sequence: 5, ..reply };
    assert_eq!(send(&mut world, link, &reply.encode()), Status::SUCCESS);
    refused(&mut world, link, AuthFailure::Failed, "the controller, which has no secret");

    let link = world.dial(PLAIN);
    let connect = Connect { queue_id: 0, queue_entries: 32, attributes: 0, keep_alive_ms: 0 };
    let stranger = "nqn.2026-01.org.example:stranger";
    let status = world.connect(link, &connect, NQN, stranger, DYNAMIC_CONTROLLER).status;
    assert!(status.is(Status::CONNECT_INVALID_HOST), "{status:?}");
    let Some(Close::Refused(text)) = &world.links[link].closed else { panic!("open") };
    assert!(text.contains(stranger), "{text}");
}

#[test]
fn a_host_cannot_go_without() {
    let mut world = world(false);
    let (link, id) = admin(&mut world);
    for opcode in [0x06, 0x02, 0x09, 0x0C, KEEP_ALIVE] {
        let status = world.ask(link, SubmissionEntry::new(opcode, 0, 0), &[]).status;
        assert!(status.is(Status::AUTHENTICATION_REQUIRED), "{opcode:#x}: {status:?}");
    }
    assert!(world.set_cc(link, CC_ENABLE).status.is(Status::AUTHENTICATION_REQUIRED));
    let queue = world.dial(PLAIN);
    let connect = Connect { queue_id: 1, queue_entries: 32, attributes: 0, keep_alive_ms: 0 };
    let status = world.connect(queue, &connect, NQN, HOST, id).status;
    assert!(!status.is_success(), "an I/O queue before the admin queue is through");
    world.tick(link, 29_000_000_000);
    assert_eq!(world.links[link].closed, None);
    world.tick(link, 31_000_000_000);
    closed(&world, link, "not done in time");
}

#[test]
fn a_replayed_reply_is_refused() {
    let mut world = world(false);
    let (link, _) = admin(&mut world);
    let first = challenge(&mut world, link, AuthHash::Sha256);
    let old = reply_to(&first, &KEYS.host).encode();
    assert_eq!(send(&mut world, link, &old), Status::SUCCESS);
    receive(&mut world, link).expect("Success1");
    assert!(usable(&mut world, link));
    let second = challenge(&mut world, link, AuthHash::Sha256);
    assert_ne!(first.challenge, second.challenge);
    assert_ne!(first.sequence, second.sequence);
    assert_eq!(send(&mut world, link, &old), Status::SUCCESS);
    assert!(!usable(&mut world, link), "what was proved before counts no more");
    refused(&mut world, link, AuthFailure::Failed, "wrong response");
}

#[test]
fn negotiations_without_common_ground_are_refused() {
    let null = [DhGroup::Null];
    let secure = Negotiate {
        transaction: TRANSACTION,
        secure_channel: 1,
        hashes: vec![AuthHash::Sha256],
        groups: null.to_vec(),
    };
    let mut other_protocol = negotiate(&[AuthHash::Sha256], &null);
    other_protocol[8] = 9;
    let cases = [
        (negotiate(&[], &null), AuthFailure::HashNotUsable, "SHA-256"),
        (negotiate(&[AuthHash::Sha256], &[]), AuthFailure::GroupNotUsable, "no Diffie-Hellman group"),
        (secure.encode(), AuthFailure::SecureChannelMismatch, "secure channel"),
        (other_protocol, AuthFailure::ProtocolNotUsable, "DH-HMAC-CHAP"),
    ];
    let mut world = world(false);
    for (message, failure, why) in cases {
        let (link, _) = admin(&mut world);
        assert_eq!(send(&mut world, link, &message), Status::SUCCESS);
        refused(&mut world, link, failure, why);
    }
}

#[test]
fn malformed_messages_end_the_authentication() {
    let mut world = world(false);
    let good = negotiate(&[AuthHash::Sha256], &[DhGroup::Null]);
    for length in [8, 71, 73, 4096] {
        let (link, _) = admin(&mut world);
        let mut message = good.clone();
        message.resize(length, 0);
        assert_eq!(send(&mut world, link, &message), Status::SUCCESS);
        refused(&mut world, link, AuthFailure::IncorrectPayload, "malformed");
    }
    // (damage done to a good reply)
    let damage: [fn(&mut Vec<u8>); 5] =
        [|m| m.truncate(16 + 32), |m| m.push(0), |m| m[6] = 48, |m| m[10] = 1, |m| m[4] ^= 1];
    for damage in damage {
        let (link, _) = admin(&mut world);
        let mut reply = reply_to(&challenge(&mut world, link, AuthHash::Sha256), &KEYS.host).encode();
        damage(&mut reply);
        assert_eq!(send(&mut world, link, &reply), Status::SUCCESS);
        refused(&mut world, link, AuthFailure::IncorrectPayload, "malformed");
    }
    for message in [&encode_success2(TRANSACTION)[..], &[1, 2, 3]] {
        let (link, _) = admin(&mut world);
        challenge(&mut world, link, AuthHash::Sha256);
        assert_eq!(send(&mut world, link, message), Status::SUCCESS);
        refused(&mut world, link, AuthFailure::IncorrectMessage, "out of order");
    }
    let (link, _) = admin(&mut world);
    refused(&mut world, link, AuthFailure::IncorrectMessage, "out of order");
}

#[test]
fn commands_that_make_no_sense_change_nothing() {
    let mut world = world(false);
    let (link, _) = admin(&mut world);
    let kind = FabricsType::AuthenticationSend;
    let ask = |world: &mut World, arguments: AuthArguments, kind| {
        let pointer = SglDescriptor::transport(arguments.length_bytes);
        world.ask(link, arguments.entry(kind, 0).with_sgl(pointer), &[]).status
    };
    for wrong in [
        AuthArguments { protocol: 0xEA, ..arguments(72) },
        AuthArguments { specific: 0x0102, ..arguments(72) },
        arguments(0),
        arguments(4097),
        arguments(u32::MAX),
    ] {
        assert!(ask(&mut world, wrong, kind).is(Status::INVALID_FIELD), "{wrong:?}");
    }
    assert_eq!(send(&mut world, link, &negotiate(&[AuthHash::Sha256], &[DhGroup::Null])), Status::SUCCESS);
    let short = ask(&mut world, arguments(47), FabricsType::AuthenticationReceive);
    assert!(short.is(Status::INVALID_FIELD), "room for less than the challenge: {short:?}");
    let message = receive(&mut world, link).expect("the challenge is still there");
    let reply = reply_to(&Challenge::parse(&message).expect("a challenge"), &KEYS.host);
    // Data may arrive by an R2T too.
    let reply = reply.encode();
    let entry = arguments(reply.len() as u32).entry(kind, 0);
    assert_eq!(world.write_r2t(link, entry, &reply, 40), Status::SUCCESS);
    receive(&mut world, link).expect("Success1");
    assert!(usable(&mut world, link));
}

#[test]
fn without_secrets_nothing_is_asked() {
    let mut world = World::new();
    let (link, _) = world.attach(PLAIN);
    let entry = arguments(4096).entry(FabricsType::AuthenticationReceive, 0);
    assert!(world.fetch(link, entry, 4096).expect_err("refused").is(Status::INVALID_OPCODE));
}

#[test]
fn a_host_that_computes_for_long_is_not_given_up() {
    let mut world = world(false);
    let (link, _) = admin_with_keep_alive(&mut world, 5000);
    let challenge = challenge(&mut world, link, AuthHash::Sha256);
    let second = 1_000_000_000;
    world.tick(link, world.core.now_ns() + 20 * second);
    assert!(world.links[link].closed.is_none(), "longer than the keep-alive time");
    let reply = reply_to(&challenge, &KEYS.host).encode();
    assert_eq!(send(&mut world, link, &reply), Status::SUCCESS);
    assert!(receive(&mut world, link).is_ok());
    world.tick(link, world.core.now_ns() + 20 * second);
    assert!(matches!(&world.links[link].closed, Some(Close::Refused(why)) if why.contains("5000 ms")));
}
