//! Tests targets on one drive: a stop of all of them, and actions on the drive that are not commands.

use crate::reference::{Reference, geometry};
use pellucid_flash::{Command, Drive, Lba, Opcode, SimTime, Status};
use pellucid_ftl::Separation;
use pellucid_host::{HostFtlConfig, Shared, SharedError, Target, TargetKind, TargetState};

fn settings() -> HostFtlConfig {
    HostFtlConfig { over_provisioning: 1.4, spare_chunks: 2, ..HostFtlConfig::default() }
}

fn run(shared: &mut Shared<Reference>, mut until: impl FnMut(&Shared<Reference>) -> bool) {
    while !until(shared) {
        let next = shared.next_event().expect("it goes on");
        shared.advance(next);
    }
}

/// Makes a drive with these block targets, all started.
fn shared(drive: Reference, now: SimTime, names: &[&str]) -> (Shared<Reference>, Vec<u16>) {
    let mut shared = Shared::new(drive, now, 0).unwrap_or_else(|_| panic!("chunks"));
    let mut namespaces = Vec::new();
    for (at, name) in (0..).zip(names) {
        let target = Target::new((*name).into(), TargetKind::Block, at * 2..at * 2 + 2);
        namespaces.push(shared.create(target, &settings()).expect("room"));
        run(&mut shared, |shared| shared.find(name).is_some_and(|(_, state)| state == TargetState::Ready));
    }
    (shared, namespaces)
}

#[test]
fn targets_that_have_stopped_replay_nothing_when_they_start_again() {
    let names = ["one", "two"];
    let (mut first, namespaces) =
        shared(Reference::new(geometry(1, 4, 24, 128, 4), 3), SimTime::ZERO, &names);
    let mut write = |n: u64, namespace| {
        let data = vec![n as u8 | 1; 512];
        let command = Command::new(n, Opcode::Write, Lba(n % 90), 1, data);
        first.submit(first.now(), Command { namespace, ..command });
        run(&mut first, |shared| shared.completed() > 0);
        assert_eq!(first.pop().map(|ended| ended.status), Some(Status::Success));
    };
    for n in 0..700 {
        namespaces.iter().for_each(|&namespace| write(n, namespace));
    }
    let starts = |mut drive: Reference, now| {
        drive.power_cut();
        let (again, namespaces) = shared(drive, now, &names);
        let cost = |&namespace: &u16| again.layer(namespace).expect("a block target").mount_cost();
        namespaces.iter().map(|namespace| cost(namespace).report.replay_reads).collect::<Vec<_>>()
    };
    assert!(
        starts(first.drive.clone(), first.now()).iter().all(|&replayed| replayed > 0),
        "nobody has stopped"
    );
    first.stop().expect("room for the maps");
    assert_eq!(starts(first.drive.clone(), first.now()), [0, 0]);
}

/// Checks that each target needs one more chunk of each unit if GC copies have their own lines.
#[test]
fn the_limit_of_open_chunks_counts_the_lines_of_collected_data() {
    let mut geometry = geometry(1, 4, 24, 128, 4);
    geometry.open_chunks_max = 14;
    let mut shared =
        Shared::new(Reference::new(geometry, 3), SimTime::ZERO, 0).unwrap_or_else(|_| panic!("chunks"));
    let target = |name: &str, first| Target::new(name.into(), TargetKind::Block, first..first + 2);
    let apart = HostFtlConfig { separation: Separation::GcCopies, ..settings() };
    shared.create(target("one", 0), &apart).expect("8 of 14");
    let refused = shared.create(target("two", 2), &apart).expect_err("16 of 14");
    assert_eq!(refused, SharedError::OpenChunks { allows: 14, needs: 16, each: 4 });
}
