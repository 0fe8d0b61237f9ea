//! Nameless namespaces: random commands of a program that keeps names, beside a model, and the power cut at every event.

#[expect(dead_code, reason = "a part is of caches")]
#[path = "../cache/config.rs"]
mod config;
mod program;

use config::{Shape, config};
use pellucid_device::{DeviceConfig, Namespace};
use pellucid_flash::{ChunkGeometry, Lba, Migration, Opcode, Status};
use pellucid_ftl::{NamelessConfig, NamelessMachine};
use program::Program;

fn drive(shape: &Shape, migration: Migration) -> DeviceConfig {
    let ftl =
        NamelessConfig { over_provisioning: 0.5, virtual_share: 0.1, migration, ..NamelessConfig::default() };
    let (blocks, config) = (0..shape.blocks, config(shape));
    let layout = config.media.geometry.layout().expect("a good geometry");
    let chunks = NamelessMachine::chunks(blocks.clone()).geometry(&layout, ChunkGeometry::default());
    // Some of these drives are so small that more is spare in any case.
    let least = NamelessMachine::over_provisioning_least(&ftl, &chunks).expect("room for data");
    let ftl = NamelessConfig { over_provisioning: least.map_or(0.5, |least| least.max(0.5)), ..ftl };
    let namespaces = vec![Namespace::Nameless { blocks, ftl }];
    DeviceConfig { namespaces, ..config }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn random_commands_agree_with_the_model() {
    let mut moves = 0;
    // 20300011: the three chunks of a place of checkpoints fail, and the drive gives up.
    for seed in (0..12).chain([20_300_011]) {
        for migration in [Migration::Acknowledged, Migration::Prototype] {
            let mut program = Program::new(&drive(&Shape::random(seed), migration), seed);
            for round in 0..1_500 {
                program.submit();
                while program.in_flight() > 10 {
                    program.step_or_flush();
                }
                if program.gave_up {
                    break;
                }
                if round % 97 == 0 {
                    program.device.check();
                }
                if round % 301 == 300 && migration == Migration::Acknowledged {
                    program.power_cut();
                }
            }
            program.drain();
            program.device.check();
            moves += program.moves;
        }
    }
    assert!(moves > 2_000, "{moves} sectors moved");
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn the_power_may_be_cut_at_every_event() {
    for keeps_data in [true, false] {
        let shape = Shape { keeps_data, ..Shape::small() };
        let mut program = Program::new(&drive(&shape, Migration::Acknowledged), 5);
        let mut cuts = 0;
        for round in 0..500 {
            program.submit();
            while program.in_flight() > 6 {
                program.step_or_flush();
                if round > 150 && cuts % 3 == 0 {
                    let mut other = program.clone();
                    other.power_cut();
                    (0..6).for_each(|_| other.submit());
                    (0..9).for_each(|_| _ = other.step());
                    other.power_cut();
                }
                cuts += 1;
            }
        }
        program.drain();
        assert!(cuts > 900 && program.moves > 100, "{cuts} events, {} moves", program.moves);
    }
}

/// Units that cannot be read stay where they are; all others move, and the host is told.
#[test]
fn garbage_collection_goes_on_where_reads_fail() {
    let (mut unread, mut collected) = (0, 0);
    for seed in 0..6 {
        let mut program = Program::new(&drive(&Shape::random(seed), Migration::Acknowledged), seed);
        let faults = pellucid_media::Faults { read_fail: 0.5, ..Default::default() };
        program.set_faults(faults);
        for _ in 0..1_200 {
            program.submit();
            while program.in_flight() > 10 {
                program.step_or_flush();
            }
        }
        program.drain();
        program.device.check();
        let counters = program.device.namespace(0).nameless().expect("a nameless namespace").counters();
        let ended = counters.engine.victims.abs_diff(counters.pauses.count());
        assert!(ended <= 1, "seed {seed}: {counters:?}");
        collected += counters.pauses.count();
        unread += program.device.counters().uncorrectable_reads;
        program.power_cut();
    }
    assert!(unread > 50 && collected > 0, "{unread} reads failed, {collected} blocks were collected");
}

/// Each write of a host is an occasion to read once more what could not be read; where no read ever succeeds, a block is tried after 1, 2, 4 and
/// so on of them.
#[test]
fn reads_that_always_fail_do_not_keep_garbage_collection_busy() {
    for seed in 0..3 {
        let shape = Shape::random(seed);
        let mut program = Program::new(&drive(&shape, Migration::Acknowledged), seed);
        let faults = pellucid_media::Faults { read_fail: 1.0, ..Default::default() };
        program.set_faults(faults);
        for _ in 0..1_200 {
            program.submit();
            while program.in_flight() > 10 {
                program.step_or_flush();
            }
        }
        program.drain();
        program.device.check();
        let victims =
            program.device.namespace(0).nameless().expect("a nameless namespace").counters().engine.victims;
        let blocks = u64::from(shape.channels * shape.blocks);
        // 2 + 4 + ... + 1024 occasions are more than there are writes and erases.
        assert!(victims <= 13 * blocks, "seed {seed}: {victims} victims on {blocks} blocks");
    }
}

/// Every slot for commands is taken by writes that wait for an acknowledgement: they end, so that it can be heard.
#[test]
fn writes_that_wait_leave_room_for_the_acknowledgement() {
    let shape = Shape { keeps_data: true, ..Shape::small() };
    let mut described = drive(&shape, Migration::Acknowledged);
    described.host.commands_max = 4;
    let mut program = Program::new(&described, 3);
    program.acknowledges = false;
    let mut refused = 0;
    for _ in 0..6_000 {
        program.submit();
        while program.in_flight() > 12 && program.step() {}
        refused += std::mem::take(&mut program.refused);
        if program.device.next_event().is_none() && refused > 0 {
            break;
        }
    }
    assert!(refused > 0, "no write was refused");
    program.acknowledges = true;
    program.drain();
    let flush = program.call(Opcode::Flush, Lba(0), 0);
    assert_eq!(flush.status, Status::Success);
}
