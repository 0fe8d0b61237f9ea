//! Tests of the layer between a session and its socket, with an engine that does not encrypt.

use crate::{Core, Operated, Time, common};
use pellucid_media::StoreKind;
use pellucid_target::Output;
use pellucid_target::Pool;
use pellucid_target::connection::{Close, ConnectionId};
use pellucid_target::session::{BYTES_MAX, Load, Port};
use pellucid_target::tls::{Engine, Layer};

/// A TLS engine that does not encrypt.
struct Clear;

impl Engine for Clear {
    fn decrypt(&mut self, input: &mut &[u8], received: &mut Vec<u8>) -> Result<bool, Close> {
        received.extend_from_slice(std::mem::take(input));
        Ok(false)
    }

    fn encrypt(&mut self, plain: &mut Output, out: &mut Output, _: &mut Pool) {
        out.head(&plain.take_all());
    }
}

/// Each input byte is answered with a mebibyte. A peer that takes no answers must not get further ones queued
/// without limit; a peer that takes them gets all.
#[test]
fn answers_that_nobody_takes_stay_bounded() {
    const EACH: usize = 1 << 20;
    let drive = common::drive(StoreKind::Ram);
    let mut core = Core::new(vec![("one".into(), drive)], Time::Instant).expect("a drive to serve");
    let (mut load, mut output) = (Load::default(), Output::default());
    let mut port = Port::new(core.face(), ConnectionId::new(1), &mut load, &mut output);
    let answer = |input: &mut &[u8], port: &mut Port<'_>| {
        while !input.is_empty() && !port.congested() {
            *input = &input[1..];
            port.output().data(vec![0; EACH]);
        }
        Ok(())
    };
    let mut layer = Layer::new(Clear);
    layer.receive(&mut &[0; 40][..], &mut port, answer).expect("all is well");
    for _ in 0..5 {
        layer.with(&mut port, |_| ());
        layer.receive(&mut &[][..], &mut port, answer).expect("all is well");
        assert_eq!((port.output().bytes(), layer.has_more()), (BYTES_MAX, true));
    }
    let mut taken = 0;
    while layer.has_more() {
        taken += port.output().take_all().len();
        layer.receive(&mut &[][..], &mut port, answer).expect("all is well");
    }
    assert_eq!(taken + port.output().bytes(), 40 * EACH);
}
