//! Outcomes of targets are reported to the right connections.

use crate::common;
use crate::{Core, Time};
use pellucid_host::{Target, TargetKind};
use pellucid_target::Service;
use pellucid_target::connection::ConnectionId;

/// A target is removed before the client that created it has asked for the outcome.
#[test]
fn each_is_told_of_its_own_request() {
    let mut core = Core::new(vec![("chunks".into(), common::chunks())], Time::Instant).expect("a drive");
    let [maker, remover] = [1, 2].map(ConnectionId::new);
    let target = Target::new("log".into(), TargetKind::Raw, 0..2);
    super::create(&mut core, maker, 0, target).expect("room");
    super::settle(&mut core);
    super::remove(&mut core, remover, 0, "log").expect("it is there");
    assert_eq!(core.outcome(remover), Some(Ok(())));
    assert_eq!(core.outcome(maker), Some(Ok(())));
    assert_eq!((core.outcome(maker), core.outcome(remover)), (None, None));
}
