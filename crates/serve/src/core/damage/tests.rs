use super::*;
use crate::Operated;
use crate::common::drive;
use crate::core::{Arrival, Observer};
use crate::engine::Time;
use pellucid_flash::Lba;
use pellucid_media::StoreKind;
use pellucid_target::connection::{ConnectionId, Route};
use pellucid_target::operation::Operation;
use std::cell::RefCell;
use std::rc::Rc;

const WRITES: u64 = 64;
const SECTORS: u32 = 128;

/// First sectors in the order in which operations reached the drive.
struct Arrivals(Rc<RefCell<Vec<u64>>>);

impl Observer for Arrivals {
    fn arrived(&mut self, arrival: &Arrival, _data: &[u8]) {
        self.0.borrow_mut().push(arrival.lba.0);
    }
}

/// A batch of requests, larger than a drive takes at once, meets the same faults in the same order as single
/// requests.
#[test]
fn faults_by_operations_all_come_however_requests_arrive() {
    let cuts = |together: u64| {
        let mut core =
            Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive");
        core.plan("power-cut@10ops:times=5".parse().expect("a plan")).expect("a drive to cut");
        let arrivals = Rc::new(RefCell::new(Vec::new()));
        core.observe(Box::new(Arrivals(arrivals.clone())));
        let bytes = (SECTORS * core.namespaces()[0].sector_bytes) as usize;
        let (mut asked, mut ended) = (0, 0);
        while ended < WRITES {
            while asked < WRITES && asked - ended < together {
                let lba = Lba(asked * u64::from(SECTORS));
                let write = Operation::new(Opcode::Write, lba, SECTORS, vec![asked as u8; bytes]);
                core.submit(0, Route { connection: ConnectionId::new(1), token: asked }, write);
                asked += 1;
            }
            core.run();
            while core.pop().is_some() {
                ended += 1;
            }
        }
        assert!(arrivals.borrow().is_sorted(), "{:?}", arrivals.borrow());
        core.device(0).expect("it is here").counters().power_cuts
    };
    assert_eq!([1, 8, WRITES].map(cuts), [5, 5, 5]);
}
