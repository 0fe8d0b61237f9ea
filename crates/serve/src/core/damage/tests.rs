use super::*;
use crate::common::drive;
use crate::engine::{Route, Time};
use crate::session::{ConnectionId, Operation};
use pellucid_flash::Lba;
use pellucid_media::StoreKind;

/// Requests that came together and wait together meet the same faults as those that come one by one.
#[test]
fn faults_by_operations_all_come_however_requests_arrive() {
    let cuts = |together: u64| {
        let mut core =
            Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive");
        core.plan("power-cut@10ops:times=5".parse().expect("a plan")).expect("a drive to cut");
        let sector_bytes = core.namespaces()[0].sector_bytes as usize;
        let (mut asked, mut ended) = (0, 0);
        while ended < 64 {
            while asked < 64 && asked - ended < together {
                let data = vec![asked as u8; sector_bytes];
                let write = Operation::new(Opcode::Write, Lba(asked), 1, data);
                core.submit(0, Route { connection: ConnectionId::new(1), token: asked }, write);
                asked += 1;
            }
            core.run();
            while core.pop().is_some() {
                ended += 1;
            }
        }
        core.device(0).expect("it is here").counters().power_cuts
    };
    assert_eq!([1, 8, 64].map(cuts), [5, 5, 5]);
}
