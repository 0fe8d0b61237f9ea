//! Tests a nameless file above the block layer above the split FTL, against a plain list of sectors.

use crate::reference::{Faults, Reference, geometry};
use pellucid_flash::{
    Command, Completion, Drive, Interface, Lba, Migration, NamelessGeometry, NamelessOp, Nanos, Opcode, Rng,
    SimTime, Status, Vector,
};
use pellucid_host::{
    AnyLayer, AtaConfig, BlockLayerConfig, Carry, CpuCosts, Elevator, Join, LayerConfig, Machine, NameReply,
    NamelessConfig, NamelessFtlConfig, Tower, Upcalls,
};
use std::collections::BTreeMap;

fn block_layer(depth: u32, join: Join) -> LayerConfig {
    LayerConfig::BlockLayer(BlockLayerConfig {
        namespace: 0,
        elevator: Elevator::Deadline,
        requests: 32,
        depth,
        largest: 64,
        plug: 4,
        join,
        plug_ns: Nanos(500),
        read_expire: Nanos::from_secs(1),
        write_expire: Nanos::from_secs(1),
        cpu: CpuCosts::FREE,
    })
}

fn ftl(migration: Migration) -> LayerConfig {
    let ftl = NamelessConfig {
        over_provisioning: 0.5,
        virtual_share: 0.15,
        migration,
        ..NamelessConfig::default()
    };
    let config = NamelessFtlConfig { ftl, ..NamelessFtlConfig::default() };
    LayerConfig::NamelessFtl(config)
}

fn wait(tower: &mut Tower<Reference>, now: &mut SimTime) -> Vec<Completion> {
    let mut done = Vec::new();
    loop {
        while let Some(completion) = tower.pop() {
            done.push(completion);
        }
        let Some(next) = tower.next_event() else { return done };
        *now = next.max(*now);
        tower.advance(*now);
    }
}

/// Runs random commands above the split FTL, with a disk interface above that, if one is given; returns its figures.
fn exercise(seed: u64, migration: Migration, ata: Option<&AtaConfig>) -> BTreeMap<&'static str, u64> {
    let drive = Reference::new(geometry(2, 2, 24, 32, 4), seed);
    let image = drive.image_bytes();
    let ata = ata.map(|config| LayerConfig::Ata(config.clone()));
    let join = if seed.is_multiple_of(2) { Join::Newest } else { Join::LastMerge };
    let above = [block_layer(4, join), LayerConfig::NamelessFile(0)];
    let layers: Vec<_> = [ftl(migration)].into_iter().chain(ata).chain(above).collect();
    let mut tower = Tower::build(drive, &layers, SimTime::ZERO).expect("it stands");
    let Some(Interface::Block { sectors, .. }) = tower.interface(0) else { panic!("a block drive") };
    let mut now = tower.stack().expect("layers").now();
    let mut rng = Rng::stream(seed, "file");
    let (mut content, mut version) = (vec![0u32; sectors as usize], 0u32);
    for round in 0..400 {
        // Commands that are outstanding together touch different sectors.
        let mut reads = BTreeMap::new();
        let part = sectors / 8;
        for slot in 0..8 {
            let lba = slot * part + rng.below(part - 6);
            let count = 1 + rng.below(6) as u32;
            let range = lba as usize..lba as usize + count as usize;
            let tag = round * 8 + slot;
            let command = match rng.below(10) {
                0..5 => {
                    version += 1;
                    content[range].fill(version);
                    let data = version.to_le_bytes().repeat(image / 4 * count as usize);
                    Command::new(tag, Opcode::Write, Lba(lba), count, data)
                }
                5 => {
                    content[range].fill(0);
                    Command::new(tag, Opcode::Trim, Lba(lba), count, Vec::new())
                }
                6 => Command::new(tag, Opcode::Flush, Lba(0), 0, Vec::new()),
                _ => {
                    reads.insert(tag, range);
                    Command::new(tag, Opcode::Read, Lba(lba), count, vec![1; image * count as usize])
                }
            };
            tower.submit(now, command);
        }
        let done = wait(&mut tower, &mut now);
        assert_eq!(done.len(), 8, "seed {seed}, round {round}");
        for completion in done {
            assert_eq!(
                completion.status,
                Status::Success,
                "seed {seed}, round {round}: {:?}",
                completion.opcode
            );
            let Some(range) = reads.get(&completion.tag) else { continue };
            for (sector, found) in range.clone().zip(completion.data.chunks_exact(image)) {
                assert_eq!(
                    found,
                    content[sector].to_le_bytes().repeat(image / 4),
                    "seed {seed}, round {round}, sector {sector}"
                );
            }
        }
        for layer in tower.layers() {
            match layer {
                AnyLayer::NamelessFtl(layer) => layer.check(),
                AnyLayer::NamelessFile(layer) => layer.check(),
                AnyLayer::BlockLayer(layer) => layer.check(),
                AnyLayer::Ata(layer) => layer.check(),
                _ => {}
            }
        }
    }
    let counters = tower.layers().find_map(AnyLayer::nameless_ftl).expect("it is there").counters();
    assert!(counters.engine.erases > 10 && counters.engine.moves > 0, "seed {seed}: {counters:?}");
    let ata = tower.layers().find(|layer| matches!(layer, AnyLayer::Ata(_)));
    let figures = ata.map(Machine::figures).unwrap_or_default();
    figures.into_iter().map(|figure| (figure.name, figure.value)).collect()
}

#[test]
fn no_design_of_a_disk_interface_loses_data_of_a_nameless_file() {
    let base =
        AtaConfig { link_bytes_per_second: 70_000_000_000, poll_ns: Nanos(5_000), ..AtaConfig::default() };
    let base = AtaConfig { error_time_ns: Nanos(3_000), ..base };
    for seed in 0..3 {
        let run = |config: AtaConfig| exercise(seed, Migration::Acknowledged, Some(&config));
        let usual = run(base.clone());
        assert!(usual["ata_addresses"] > 500 && usual["ata_unqueued"] > usual["ata_addresses"], "{usual:?}");
        assert!(usual["ata_polls"] > usual["ata_empty_polls"] && usual["ata_empty_polls"] > 0, "{usual:?}");
        assert!(usual["ata_upcalls"] > 10 && usual["ata_errors"] == 0, "{usual:?}");
        let slow = run(AtaConfig { carry: Carry::SlowPath, ..base.clone() });
        assert!(slow["ata_unqueued"] > usual["ata_unqueued"], "{slow:?}");
        let errors = run(AtaConfig { address: NameReply::Error, ..base.clone() });
        assert!(errors["ata_addresses"] == 0 && errors["ata_errors"] > 500, "{errors:?}");
        let told = run(AtaConfig { upcalls: Upcalls::Piggyback, ..base.clone() });
        assert!(told["ata_polls"] == 0 && told["ata_upcalls"] > 10 && told["ata_errors"] > 5, "{told:?}");
        run(AtaConfig { slots: 1, ..base.clone() });
    }
}

#[test]
fn a_nameless_file_is_a_block_drive() {
    for seed in 0..4 {
        exercise(seed, Migration::Acknowledged, None);
        exercise(seed, Migration::Prototype, None);
    }
}

/// Checks that all waiting writes, virtual and nameless, share one flash page, and that reads of the two
/// kinds are not merged.
#[test]
fn one_request_of_the_block_layer_gets_one_page() {
    let drive = Reference::new(geometry(1, 2, 24, 64, 8), 1);
    let image = drive.image_bytes();
    let layers = [ftl(Migration::Acknowledged), block_layer(4, Join::Newest)];
    let mut tower = Tower::build(drive, &layers, SimTime::ZERO).expect("it stands");
    let mut now = tower.stack().expect("layers").now();
    let data = |word: u32, sectors: usize| word.to_le_bytes().repeat(image / 4 * sectors);
    // The writes are scattered virtual sectors, single nameless ones, and a nameless write of two: eight
    // sectors.
    let names = Some(Box::new(Vector::default()));
    let pair = Command {
        vector: names,
        ..Command::new(9, Opcode::Nameless(NamelessOp::Write), NamelessGeometry::NAMELESS, 2, data(9, 2))
    };
    let mut commands = vec![pair];
    for (tag, lba) in [(1, 40), (2, 3), (3, 17)] {
        commands.push(Command::new(tag, Opcode::Write, Lba(lba), 1, data(tag as u32, 1)));
        commands.push(Command::new(
            10 + tag,
            Opcode::Nameless(NamelessOp::Write),
            Lba(0),
            1,
            data(10 + tag as u32, 1),
        ));
    }
    commands.pop();
    commands.push(Command::new(4, Opcode::Write, Lba(4), 1, data(4, 1)));
    commands.into_iter().for_each(|command| tower.submit(now, command));
    let done = wait(&mut tower, &mut now);
    assert_eq!(done.len(), 7);
    let mut found = BTreeMap::new();
    for completion in &done {
        assert_eq!(completion.status, Status::Success);
        match (&completion.vector, completion.opcode) {
            (Some(vector), _) => found.extend(vector.addresses.iter().map(|name| (name.0, 9))),
            (None, Opcode::Nameless(NamelessOp::Write)) => {
                _ = found.insert(completion.result, completion.tag as u32)
            }
            _ => {}
        }
    }
    let layer = tower.layers().find_map(AnyLayer::nameless_ftl).expect("it is there");
    assert_eq!((layer.counters().pages, layer.counters().page_sectors), (1, 8));
    let names: Vec<u64> = found.keys().copied().collect();
    assert!(names.len() == 4 && names[3] - names[0] < 8, "names of one page: {names:?}");
    // The neighbours are two adjacent names, and two virtual sectors with the same numbers.
    let before = tower.layers().find_map(AnyLayer::block_layer).expect("it is there").counters();
    for (tag, opcode, lba) in [
        (20, Opcode::Nameless(NamelessOp::Read), names[0]),
        (21, Opcode::Nameless(NamelessOp::Read), names[0] + 1),
        (22, Opcode::Read, 3),
        (23, Opcode::Read, 4),
    ] {
        tower.submit(now, Command::new(tag, opcode, Lba(lba), 1, vec![0; image]));
    }
    let done = wait(&mut tower, &mut now);
    let words: BTreeMap<u64, u32> =
        done.iter().map(|c| (c.tag, u32::from_le_bytes(c.data[..4].try_into().expect("4 bytes")))).collect();
    assert_eq!(words[&20], found[&names[0]]);
    assert_eq!((words[&22], words[&23]), (2, 4));
    let after = tower.layers().find_map(AnyLayer::block_layer).expect("it is there").counters();
    assert_eq!((after.commands - before.commands, after.requests - before.requests), (4, 2));
}

/// Checks that nothing is read after the names in the host's memory are lost, because they may now name any
/// data.
#[test]
fn after_a_power_cut_a_nameless_file_answers_errors_and_no_data_of_others() {
    let drive = Reference::new(geometry(2, 2, 24, 32, 4), 3);
    let image = drive.image_bytes();
    let layers = [ftl(Migration::Acknowledged), block_layer(4, Join::Newest), LayerConfig::NamelessFile(0)];
    let mut tower = Tower::build(drive, &layers, SimTime::ZERO).expect("it stands");
    let mut now = tower.stack().expect("layers").now();
    for tag in 0..40 {
        tower.submit(now, Command::new(tag, Opcode::Write, Lba(tag), 1, vec![tag as u8; image]));
    }
    assert!(wait(&mut tower, &mut now).iter().all(|ended| ended.status == Status::Success));
    tower.submit(now, Command::new(100, Opcode::Write, Lba(3), 1, vec![9; image]));
    tower.bottom_mut().power_cut();
    assert!(tower.restart(now).is_err_and(|why| why.contains("its names were in the host")));
    let ended = wait(&mut tower, &mut now);
    let ended: Vec<_> = ended.iter().map(|ended| (ended.tag, ended.status)).collect();
    assert_eq!(ended, [(100, Status::PowerLoss)]);
    for (tag, opcode, status) in
        [(101, Opcode::Read, Status::UnrecoveredRead), (102, Opcode::Write, Status::WriteFault)]
    {
        tower.submit(now, Command::new(tag, opcode, Lba(5), 1, vec![7; image]));
        let ended = tower.pop().expect("it is refused at once");
        assert_eq!((ended.tag, ended.status), (tag, status));
        assert!(opcode == Opcode::Write || ended.data.iter().all(|&byte| byte == 7), "no data");
    }
}

/// Programs or reads fail one time in a hundred: commands end, whatever their status, until the drive is spent and after. Reads that fail
/// spend nothing: writes go on.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn no_command_above_a_failing_drive_waits_for_good() {
    let faults = [
        Faults { write: 0.01, ..Faults::default() },
        Faults { read: 0.01, ..Faults::default() },
        Faults { write: 0.01, reset: 0.01, read: 0.01 },
    ];
    let ata = AtaConfig {
        link_bytes_per_second: 70_000_000_000,
        poll_ns: Nanos(5_000),
        error_time_ns: Nanos(3_000),
        ..AtaConfig::default()
    };
    for (seed, faults) in (0..4).flat_map(|seed| faults.map(|faults| (seed, faults))) {
        for migration in [Migration::Acknowledged, Migration::Prototype] {
            fail(seed, faults, migration, 4, None);
            fail(seed, faults, migration, 32, None);
        }
        // A disk interface tells moves late, when the prototype has used their old names again.
        fail(seed, faults, Migration::Acknowledged, 32, Some(&ata));
    }
}

/// Random commands above a failing drive, behind a block layer of this depth, and a disk interface if one is given.
fn fail(seed: u64, faults: Faults, migration: Migration, depth: u32, ata: Option<&AtaConfig>) {
    let mut drive = Reference::new(geometry(2, 2, 24, 32, 4), seed);
    drive.faults = faults;
    let image = drive.image_bytes();
    let join = if seed.is_multiple_of(2) { Join::LastMerge } else { Join::Newest };
    let above = [block_layer(depth, join), LayerConfig::NamelessFile(0)];
    let ata = ata.map(|config| LayerConfig::Ata(config.clone()));
    let layers: Vec<_> = [ftl(migration)].into_iter().chain(ata).chain(above).collect();
    let mut tower = Tower::build(drive, &layers, SimTime::ZERO).expect("it stands");
    let Some(Interface::Block { sectors, .. }) = tower.interface(0) else { panic!("a block drive") };
    let mut now = tower.stack().expect("layers").now();
    let mut rng = Rng::stream(seed, "failing");
    let mut late_writes = 0;
    for round in 0..400u64 {
        for slot in 0..40 {
            let count = 1 + rng.below(6) as u32;
            let lba = Lba(rng.below(sectors - 6));
            let data = || vec![round as u8; image * count as usize];
            let command = match rng.below(20) {
                0 => Command::new(slot, Opcode::Flush, Lba(0), 0, Vec::new()),
                1 => Command::new(slot, Opcode::Trim, lba, count, Vec::new()),
                2..6 => Command::new(slot, Opcode::Read, lba, count, data()),
                _ => Command::new(slot, Opcode::Write, lba, count, data()),
            };
            tower.submit(now, command);
        }
        let done = wait(&mut tower, &mut now);
        let case = format!("seed {seed}, round {round}, depth {depth}, {migration:?}, {faults:?}");
        assert_eq!(done.len(), 40, "{case}, {} layers", layers.len());
        let written = |done: &&Completion| done.opcode == Opcode::Write && done.status == Status::Success;
        late_writes += if round < 300 { 0 } else { done.iter().filter(written).count() };
        for layer in tower.layers() {
            match layer {
                AnyLayer::NamelessFtl(layer) => layer.check(),
                AnyLayer::NamelessFile(layer) => layer.check(),
                AnyLayer::BlockLayer(layer) => layer.check(),
                _ => {}
            }
        }
    }
    let goes_on = faults.write > 0.0 || late_writes > 2_000;
    assert!(goes_on, "seed {seed}, depth {depth}, {migration:?}, {faults:?}: {late_writes} of some 2,800");
}
