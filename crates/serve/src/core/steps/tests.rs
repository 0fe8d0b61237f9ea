use super::*;
use crate::common::drive;
use crate::core::Core;
use crate::engine::Time;
use crate::service::Operated;
use pellucid_flash::{SimTime, StageTimes};
use pellucid_media::StoreKind;
use pellucid_target::Drives;
use pellucid_target::connection::{ConnectionId, Route};

/// Completion of a step that has succeeded.
fn ended(opcode: Opcode) -> Completion {
    Completion {
        tag: 0,
        opcode,
        status: Status::Success,
        submitted: SimTime::ZERO,
        completed: SimTime::ZERO,
        stages: StageTimes::default(),
        data: Vec::new(),
        result: 0,
        unmapped: 0,
        vector: None,
    }
}

const SECTORS: u32 = 64;

fn core() -> Core {
    Core::new(vec![("one".into(), drive(StoreKind::Ram))], Time::Instant).expect("a drive to serve")
}

fn submit(core: &mut Core, token: u64, operation: Operation) {
    core.submit(0, Route { connection: ConnectionId::new(1), token }, operation);
}

/// Completions in order: token, opcode, status.
fn ends(core: &mut Core) -> Vec<(u64, Opcode, Status)> {
    let mut found = Vec::new();
    while core.outstanding() > 0 {
        core.run();
        while let Some(done) = core.pop() {
            found.push((done.route.token, done.answer.opcode, done.answer.status));
        }
    }
    found
}

fn writes(core: &mut Core) {
    let bytes = SECTORS as usize * core.namespaces()[0].sector_bytes as usize;
    submit(core, 0, Operation::new(Opcode::Write, Lba(0), SECTORS, vec![0xAA; bytes]));
    submit(core, 1, Operation::flush());
    ends(core);
}

fn is_zero(core: &mut Core) -> bool {
    let bytes = SECTORS as usize * core.namespaces()[0].sector_bytes as usize;
    submit(core, 9, Operation::new(Opcode::Read, Lba(0), SECTORS, vec![1; bytes]));
    loop {
        core.run();
        if let Some(done) = core.pop() {
            return done.answer.data.iter().all(|&byte| byte == 0);
        }
    }
}

/// For any protocol: a forced discard, or zeros, survive a power cut, and end once, under their own opcode.
#[test]
fn a_forced_discard_survives_a_power_cut() {
    for opcode in [Opcode::Trim, Opcode::WriteZeroes] {
        let mut core = core();
        writes(&mut core);
        submit(&mut core, 5, Operation { fua: true, ..Operation::new(opcode, Lba(0), SECTORS, Vec::new()) });
        assert_eq!(ends(&mut core), [(5, opcode, Status::Success)]);
        core.power_cut(0).expect("a mount");
        assert!(is_zero(&mut core), "{opcode:?}");
    }
}

/// A long discard is split; if the power is cut between two pieces, the operation does not succeed.
#[test]
fn a_power_cut_between_two_steps_ends_the_operation() {
    let mut whole = core();
    let sectors = u32::try_from(whole.namespaces()[0].sectors).expect("a small drive");
    let namespace = &whole.namespaces()[0];
    let mut steps = Steps::default();
    let trim = || Operation::new(Opcode::Trim, Lba(0), sectors, Vec::new());
    let mut completion = ended(Opcode::Trim);
    // A namespace of many units, as far as the steps can see.
    let namespace =
        Namespace { sectors: u64::from(u32::MAX), unit_bytes: namespace.sector_bytes, ..namespace.clone() };
    let long = Operation { sectors: 3 << 15, fua: true, ..trim() };
    assert_eq!(steps.begin(&namespace, 7, long.clone()).sectors, 1 << 15);
    let second = steps.go_on(7, &mut completion).expect("two more pieces");
    assert_eq!((second.lba, second.sectors, second.fua), (Lba(1 << 15), 1 << 15, false));
    assert_eq!(steps.go_on(7, &mut completion).expect("one more").lba, Lba(2 << 15));
    assert_eq!(steps.go_on(7, &mut completion).expect("a flush").opcode, Opcode::Flush);
    completion.opcode = Opcode::Flush;
    assert_eq!((steps.go_on(7, &mut completion), completion.opcode, steps.count), (None, Opcode::Trim, 0));
    // The last piece of an unforced discard was waiting when the power was cut.
    for (pieces, fua) in [(2, false), (1, true), (2, true)] {
        steps.begin(&namespace, 3, Operation { sectors: pieces << 15, fua, ..trim() });
        for _ in 1..pieces {
            steps.go_on(3, &mut completion).expect("a piece");
        }
        steps.lose(|tag| tag == 3);
        let mut last = ended(Opcode::Trim);
        assert_eq!((steps.go_on(3, &mut last), last.status, steps.count), (None, Status::PowerLoss, 0));
    }
    submit(&mut whole, 2, trim());
    assert_eq!(ends(&mut whole), [(2, Opcode::Trim, Status::Success)]);
}
