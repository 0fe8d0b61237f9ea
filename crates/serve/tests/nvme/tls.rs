//! TLS with a pre-shared key of host and drive. The host's end also uses OpenSSL; code of this project that
//! both ends share is checked independently in `nvme/tls/key.rs`.

use super::{HOST, NQN, Queue, Served, Stream, attach_by, blocks, dial, serve_as};
use crate::common;
use openssl::ssl::{HandshakeError, Ssl, SslContext, SslMethod, SslVersion};
use pellucid_media::StoreKind;
use pellucid_serve::Time;
use pellucid_serve::nvme_tls::{SecuredConnection, TlsOffer};
use pellucid_target::nvme::{Identity, TlsKey, TlsKeys};
use pellucid_wire::nvme::{DISCOVERY_NQN, DYNAMIC_CONTROLLER, SubmissionEntry};
use std::io::{Read, Write};
use std::net::TcpStream;

const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const OTHER_KEY: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

fn key(text: &str) -> TlsKey {
    TlsKey::parse(text).expect("a key")
}

/// Serves a drive that only [`HOST`] can reach, with [`KEY`].
fn serve(time: Time) -> Served {
    serve_as(common::drive(StoreKind::Ram), time, |target, local| {
        let mut keys = TlsKeys::default();
        keys.add(HOST, key(KEY));
        let offer = TlsOffer::new(keys)?;
        Ok(Box::new(SecuredConnection::new(target, local, &offer)?))
    })
}

/// Creates the host's end of TLS, with this identity and handshake key.
fn secure(stream: TcpStream, identity: String, key: Vec<u8>) -> Result<Box<dyn Stream>, String> {
    let mut context = SslContext::builder(SslMethod::tls_client()).expect("OpenSSL");
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).expect("TLS 1.3");
    context.set_psk_client_callback(move |_, _, identity_room, key_room| {
        identity_room[..identity.len()].copy_from_slice(identity.as_bytes());
        identity_room[identity.len()] = 0;
        key_room[..key.len()].copy_from_slice(&key);
        Ok(key.len())
    });
    let ssl = Ssl::new(&context.build()).expect("OpenSSL");
    match ssl.connect(stream) {
        Ok(stream) => Ok(Box::new(stream)),
        Err(HandshakeError::Failure(failed)) => Err(failed.error().to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a queue of `host` to `subsystem`, with an identity of this version.
fn queue(served: &Served, version: u8, host: &str, subsystem: &str) -> Queue {
    let identity = key(KEY).identity(version, host, subsystem).expect("an identity");
    let shared = key(KEY).for_identity(&Identity::parse(identity.as_bytes()).expect("just made"));
    let stream = secure(dial(served), identity, shared.expect("its key")).expect("a handshake");
    Queue::over(stream)
}

fn end(served: Served) {
    served.stopper.stop();
    served.thread.join().expect("no panic");
}

fn logged(served: &Served, text: &str) {
    let is_there = || served.log.lock().expect("a log").iter().any(|line| line.contains(text));
    common::eventually(text, is_there);
}

#[test]
fn data_come_back_through_tls() {
    for (version, time) in [(0, Time::Instant), (1, Time::Paced { dilation: 1.0 })] {
        let served = serve(time);
        let (_admin, mut io) = attach_by(|| queue(&served, version, HOST, NQN));
        let data: Vec<u8> = (0..200 * common::SECTOR).map(|n| (n * 31 + (n >> 9)) as u8).collect();
        io.write(64, &data);
        let flush = io.send(SubmissionEntry::new(0, 0, 1), &[]);
        assert!(io.end(flush).status.is_success());
        let cids: Vec<u16> = (0..50).map(|n| io.send(blocks(2, 64 + n * 4, 2048), &[])).collect();
        for (n, cid) in cids.into_iter().enumerate() {
            assert!(io.end(cid).status.is_success());
            assert!(io.data.remove(&cid).expect("data") == data[n * 2048..][..2048], "block {n}");
        }
        // More than one record in each direction.
        let whole = io.send(blocks(2, 64, data.len()), &[]);
        assert!(io.end(whole).status.is_success());
        assert!(io.data.remove(&whole) == Some(data));
        end(served);
    }
}

#[test]
fn who_does_not_know_the_key_gets_nowhere() {
    let served = serve(Time::Instant);
    let identity = key(KEY).identity(0, HOST, NQN).expect("an identity");
    let refused = secure(dial(&served), identity.clone(), vec![7; 32]).err().expect("a wrong key");
    assert!(refused.contains("alert"), "{refused}");
    logged(&served, &format!("host {HOST} has another key"));
    let stranger = "nqn.2014-08.org.example:stranger";
    let theirs = identity.replace(HOST, stranger);
    assert!(secure(dial(&served), theirs, vec![7; 32]).is_err());
    logged(&served, &format!("no key here for the identity \\\"NVMe0R01 {stranger}"));
    // The digest in the identity tells that another key is meant.
    let theirs = key(OTHER_KEY).identity(1, HOST, NQN).expect("an identity");
    assert!(secure(dial(&served), theirs, vec![7; 32]).is_err());
    logged(&served, "no key here for the identity \\\"NVMe1R01");

    // Without TLS, and with garbage.
    for bytes in [
        &pellucid_wire::tcp::encode_ic_req(&Default::default())[..],
        &[0x16, 3, 1, 0xFF, 0xFF, 9][..],
        &[0xFF; 40],
    ] {
        let mut stream = dial(&served);
        stream.write_all(bytes).expect("it takes bytes");
        stream.shutdown(std::net::Shutdown::Write).expect("a half-closed stream");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 20, "an alert at most: {answer:?}");
    }
    logged(&served, "no key was offered");
    let (_admin, mut io) = attach_by(|| queue(&served, 0, HOST, NQN));
    io.write(0, &[7; 4096]);
    end(served);
}

#[test]
fn a_key_opens_what_its_identity_names_and_nothing_else() {
    let served = serve(Time::Instant);
    let mut crossed = queue(&served, 0, HOST, DISCOVERY_NQN);
    assert_eq!(crossed.connect(0, DYNAMIC_CONTROLLER, HOST).status.raw() & 0x7FF, 0x182);
    let mut disguised = queue(&served, 0, HOST, NQN);
    let other = "nqn.2014-08.org.example:other";
    assert_eq!(disguised.connect(0, DYNAMIC_CONTROLLER, other).status.raw() & 0x7FF, 0x184);
    drop((crossed, disguised));

    // Discovery reports that TLS 1.3 is required.
    for entry in queue(&served, 0, HOST, DISCOVERY_NQN).discover(2) {
        assert_eq!((entry.requirements & 3, entry.security_type), (1, 2));
    }
    end(served);
}

#[test]
fn keys_that_cannot_be_used_are_refused_at_the_start() {
    let mut keys = TlsKeys::default();
    let long = "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
    keys.add(HOST, key(long));
    let why = TlsOffer::new(keys).err().expect("a key for SHA-384");
    assert!(why.contains(HOST) && why.contains("32 bytes"), "{why}");
}

/// The host requests more at once than may be in flight. The rest of the last record continues when the host
/// has taken answers, without further input.
#[test]
fn what_could_not_be_begun_at_once_is_begun_later() {
    let served = serve(Time::Instant);
    let (_admin, mut io) = attach_by(|| queue(&served, 1, HOST, NQN));
    let cids: Vec<u16> = (0..200).map(|_| io.send(blocks(2, 0, 256 << 10), &[])).collect();
    for cid in cids {
        assert!(io.end(cid).status.is_success(), "read {cid}");
        io.data.remove(&cid);
    }
    end(served);
}
