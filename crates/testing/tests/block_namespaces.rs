//! Several block namespaces on one drive: each has its own translation, buffer and GC over its own blocks, and neither sees the other.

use pellucid_device::{Device, DeviceConfig, Filler, Namespace};
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Lpn, Opcode, Rng, Status};
use pellucid_testing::swarm::tiny;

const NAMESPACES: usize = 2;

/// Two fifths of the blocks, and the rest.
fn config(sets: &[&str]) -> DeviceConfig {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let mut config = tiny(&sets);
    let blocks = Device::new(&config).unwrap_or_else(|e| panic!("{e}")).layout().blocks_per_die;
    let part = blocks * 2 / 5;
    config.namespaces = vec![Namespace::Block { blocks: 0..part }, Namespace::Block { blocks: part..blocks }];
    config
}

fn drive(sets: &[&str]) -> Device {
    Device::new(&config(sets)).unwrap_or_else(|e| panic!("{e}"))
}

fn sectors(device: &Device, namespace: usize) -> u64 {
    let Some(Interface::Block { sectors, .. }) = device.interface(namespace as u16) else {
        panic!("a block namespace")
    };
    sectors
}

fn completions(device: &mut Device) -> Vec<Completion> {
    let mut ended = Vec::new();
    loop {
        while let Some(completion) = device.pop() {
            ended.push(completion);
        }
        let Some(next) = device.next_event() else { return ended };
        device.advance(next);
    }
}

/// Possible contents of a mapping unit: the content when it was last flushed, and everything since; the newest last.
#[derive(Clone, Debug)]
struct Unit(Vec<u8>);

struct Run {
    device: Device,
    units: [Vec<Unit>; NAMESPACES],
    per_unit: u32,
    rng: Rng,
    tag: u64,
}

impl Run {
    fn new(device: Device, seed: u64) -> Run {
        let per_unit = device.layout().sectors_per_unit;
        let units = std::array::from_fn(|n| {
            vec![Unit(vec![0]); (sectors(&device, n) / u64::from(per_unit)) as usize]
        });
        Run { device, units, per_unit, rng: Rng::new(seed), tag: 0 }
    }

    fn submit(&mut self, namespace: usize, opcode: Opcode, unit: usize, value: u8) {
        let bytes = self.per_unit as usize * self.device.image_bytes();
        let data = match opcode {
            Opcode::Read | Opcode::Write => vec![value; bytes],
            _ => Vec::new(),
        };
        let sectors = if opcode == Opcode::Flush { 0 } else { self.per_unit };
        let lba = Lba(unit as u64 * u64::from(self.per_unit));
        self.tag += 1;
        let command = Command::new(self.tag, opcode, lba, sectors, data);
        self.device.submit(self.device.now(), Command { namespace: namespace as u16, ..command });
    }

    /// Commands at once on both namespaces, each on a unit of its own.
    fn batch(&mut self) -> Vec<(u64, usize, Opcode, usize)> {
        let mut sent = Vec::new();
        for _ in 0..1 + self.rng.below(24) {
            let namespace = self.rng.below(NAMESPACES as u64) as usize;
            // Most in a part of it, so that GC has something to choose from.
            let all = self.units[namespace].len() as u64;
            let span = if self.rng.below(3) > 0 { all / 4 } else { all };
            let unit = self.rng.below(span) as usize;
            if sent.iter().any(|&(_, n, _, u)| (n, u) == (namespace, unit)) {
                continue;
            }
            let (opcode, value) = match self.rng.below(10) {
                0..6 => (Opcode::Write, 1 + self.rng.below(255) as u8),
                6 => (Opcode::Trim, 0),
                _ => (Opcode::Read, 0),
            };
            if opcode != Opcode::Read {
                self.units[namespace][unit].0.push(value);
            }
            self.submit(namespace, opcode, unit, value);
            sent.push((self.tag, namespace, opcode, unit));
        }
        sent
    }

    fn judge(&self, sent: &[(u64, usize, Opcode, usize)], ended: &[Completion]) {
        assert_eq!(sent.len(), ended.len());
        for completion in ended {
            assert_eq!(completion.status, Status::Success, "{:?}", completion.opcode);
            let &(_, namespace, opcode, unit) =
                sent.iter().find(|sent| sent.0 == completion.tag).expect("was sent");
            if opcode == Opcode::Read {
                let newest = *self.units[namespace][unit].0.last().expect("never empty");
                assert!(completion.data.iter().all(|&b| b == newest), "namespace {namespace}, unit {unit}");
            }
        }
    }

    fn flush(&mut self, namespace: usize) {
        self.submit(namespace, Opcode::Flush, 0, 0);
        assert!(completions(&mut self.device).iter().all(|c| c.status == Status::Success));
        for unit in &mut self.units[namespace] {
            unit.0.drain(..unit.0.len() - 1);
        }
    }

    /// Every unit of every namespace holds something that it may, which is what it holds from now on.
    fn settle(&mut self) {
        for namespace in 0..NAMESPACES {
            for unit in 0..self.units[namespace].len() {
                self.submit(namespace, Opcode::Read, unit, 0);
                let ended = completions(&mut self.device);
                let [read] = &ended[..] else { panic!("one read") };
                assert_eq!(read.status, Status::Success);
                let found = read.data[0];
                let allowed = &mut self.units[namespace][unit].0;
                assert!(read.data.iter().all(|&b| b == found), "namespace {namespace}, unit {unit}: torn");
                assert!(
                    allowed.contains(&found),
                    "namespace {namespace}, unit {unit}: {found} of {allowed:?}"
                );
                *allowed = vec![found];
            }
        }
    }
}

#[test]
fn blocks_buffer_and_capacity_are_divided() {
    let device = drive(&["ftl.over_provisioning=1.5"]);
    let [small, large] = [0, 1].map(|n| sectors(&device, n));
    assert!(small > 0 && large > small, "{small} and {large}");
    assert_eq!(device.namespaces(), 2);
    assert_eq!(device.namespace(0).capacity_sectors(), small, "the first one");
    device.check();
}

#[test]
fn two_namespaces_keep_what_they_promise_through_gc_trims_flushes_and_power_cuts() {
    for (seed, sets) in [
        (1, &["ftl.over_provisioning=1.5", "ftl.durability=journal"][..]),
        (2, &["ftl.over_provisioning=1.5", "ftl.durability=journal", "buffer.write=write-through"]),
        (3, &["ftl.over_provisioning=1.5", "ftl.durability=journal", "ftl.gc_pacing=true"]),
    ] {
        let mut run = Run::new(drive(sets), seed);
        let mut cuts = 0;
        for step in 0..900 {
            let sent = run.batch();
            if step % 60 == 59 {
                // In the middle of whatever goes on.
                for _ in 0..run.rng.below(40) {
                    if let Some(next) = run.device.next_event() {
                        run.device.advance(next);
                    }
                }
                run.device.power_cut().expect("the media can be mounted");
                while run.device.pop().is_some() {}
                cuts += 1;
                run.device.check();
                run.settle();
                continue;
            }
            let ended = completions(&mut run.device);
            run.judge(&sent, &ended);
            if step % 7 == 0 {
                run.flush(step / 7 % NAMESPACES);
            }
            if step % 25 == 0 {
                run.device.check();
            }
        }
        let counters = run.device.counters();
        assert_eq!(counters.power_cuts, cuts);
        assert!(counters.erases.iter().sum::<u64>() > 0, "there was no GC");
    }
}

#[test]
fn filling_one_namespace_leaves_the_other_empty() {
    let mut device = drive(&["ftl.over_provisioning=1.5"]);
    // Fill the second one without simulated time, and leave the first one empty.
    let mut filler = Filler::new(1);
    let unit = vec![9; device.layout().sectors_per_unit as usize * device.image_bytes()];
    let units = sectors(&device, 1) / u64::from(device.layout().sectors_per_unit);
    for lpn in 0..units as u32 {
        device.fill_unit(&mut filler, Lpn(lpn), &unit).expect("room");
    }
    device.fill_end(&mut filler).expect("room");
    device.check();
    assert!(!device.namespace(0).is_mapped(Lpn(0)), "of the first namespace");
    let mut run = Run::new(device, 4);
    run.units[1].fill(Unit(vec![9]));
    run.settle();
}
