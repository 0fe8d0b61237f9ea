//! Tests the cache manager above a disk interface above the reference cache: whatever design carries the commands, no data are lost.

use super::exercise;
use super::world::{Crash, Crashing, Flash, World, shape};
use crate::reference::Faults;
use pellucid_flash::{Command, Completion, Drive, Interface, Nanos, SimTime};
use pellucid_host::{Ata, AtaConfig, Carry, Machine, MissReply, Stack};

const SECTOR: usize = 512;

#[derive(Clone)]
struct Disk {
    stack: Stack<Ata, Flash>,
    config: AtaConfig,
}

impl Disk {
    fn new(config: AtaConfig, flash: Flash) -> Disk {
        let ata = Ata::new(&config, flash.interface(0), SECTOR).expect("a cache");
        Disk { stack: Stack::new(ata, flash, SimTime::ZERO), config }
    }
}

impl Crashing for Disk {
    fn faults(&mut self) -> &mut Faults {
        self.stack.drive.faults()
    }

    fn cut(&mut self) {
        self.stack.drive.cut();
        self.stack.restart(self.stack.now()).expect("it keeps nothing");
        // As the reference drive, which says no more of what it had.
        while let Some(completion) = self.stack.pop() {
            assert_eq!(completion.status, pellucid_flash::Status::PowerLoss);
        }
    }

    fn abandon(&mut self) {
        self.stack.drive.abandon();
        let ata = Ata::new(&self.config, self.stack.drive.interface(0), SECTOR).expect("a cache");
        self.stack = Stack::new(ata, self.stack.drive.clone(), self.stack.now());
    }
}

impl Drive for Disk {
    fn namespaces(&self) -> u16 {
        self.stack.namespaces()
    }
    fn interface(&self, namespace: u16) -> Option<Interface> {
        self.stack.interface(namespace)
    }
    fn image_bytes(&self) -> usize {
        self.stack.image_bytes()
    }
    fn submit(&mut self, now: SimTime, command: Command) {
        self.stack.submit(now, command);
        self.stack.layer.check();
    }
    fn advance(&mut self, now: SimTime) {
        Drive::advance(&mut self.stack, now);
        self.stack.layer.check();
    }
    fn next_event(&self) -> Option<SimTime> {
        Drive::next_event(&self.stack)
    }
    fn pop(&mut self) -> Option<Completion> {
        self.stack.pop()
    }
    fn outstanding(&self) -> usize {
        self.stack.outstanding()
    }
    fn completed(&self) -> usize {
        self.stack.completed()
    }
}

/// Designs of the interface.
fn designs() -> [AtaConfig; 4] {
    let base = AtaConfig {
        link_bytes_per_second: 70_000_000_000,
        error_time_ns: Nanos(400),
        ..AtaConfig::default()
    };
    [
        AtaConfig { false_misses: 0.3, ..base.clone() },
        AtaConfig { carry: Carry::SlowPath, false_misses: 0.1, ..base.clone() },
        AtaConfig { miss: MissReply::Error, error_retries: 2, slots: 3, ..base.clone() },
        AtaConfig { slots: 1, ..base },
    ]
}

/// A world on a solid-state cache behind a disk interface; odd seeds have such a cache.
fn world(seed: u64, design: usize) -> World<Disk> {
    let (config, flash, backing) = shape(2 * seed + 1);
    World::on(config, Disk::new(designs()[design].clone(), flash), backing, seed)
}

fn figure(world: &World<Disk>, name: &str) -> u64 {
    let figures = world.host.drive.first.stack.layer.figures();
    figures.iter().find(|figure| figure.name == name).expect("a figure of the layer").value
}

#[test]
fn no_design_of_a_disk_interface_loses_data_of_a_cache() {
    for design in 0..designs().len() {
        let (mut misses, mut false_misses, mut errors, mut alone) = (0, 0, 0, 0);
        for seed in 0..10 {
            let mut world = world(seed, design);
            exercise(&mut world, 1500);
            world.check();
            assert_eq!(world.failed, 0, "seed {seed}, design {design}");
            misses += figure(&world, "ata_misses");
            false_misses += figure(&world, "ata_false_misses");
            errors += figure(&world, "ata_errors");
            alone += figure(&world, "ata_unqueued");
        }
        assert!(misses > 20, "design {design}");
        assert_eq!(false_misses > 0, designs()[design].false_misses > 0.0, "design {design}");
        assert!(design != 2 || errors > 60, "{errors} errors, three for each miss");
        assert!(alone > if design == 1 { 1000 } else { 10 }, "design {design}: {alone} alone");
    }
}

#[test]
fn what_was_promised_survives_crashes_behind_a_disk_interface() {
    for seed in 0..12 {
        let mut world = world(seed, seed as usize % 4);
        exercise(&mut world, 100);
        for event in 0..30u32 {
            exercise(&mut world, 5);
            for who in Crash::ALL {
                let mut crashed = world.clone();
                crashed.crash(who);
                exercise(&mut crashed, 25);
                crashed.crash(Crash::ALL[(event % 3) as usize]);
            }
        }
    }
}
