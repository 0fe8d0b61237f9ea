//! Random operations on every kind of store at once, against a model of the expected results.

use crate::common::*;
use pellucid_flash::{BlockId, Lpn, Ppa, Rng};
use pellucid_media::{Health, ListedFault, Media, MediaConfig, Outcome, ReadResult, StoreKind, SyncTo};

const SUPERPAGES: u32 = 4;
const UNITS: u32 = 3;

#[derive(Clone, Debug)]
enum Superpage {
    Unreadable,
    Data { sequence: u64, units: [Option<(u32, u32)>; UNITS as usize] },
}

#[derive(Clone, Debug, PartialEq)]
enum Doing {
    Nothing,
    Program { sequence: u64, units: [Option<(u32, u32)>; UNITS as usize] },
    Erase,
}

#[derive(Clone, Debug)]
struct Block {
    superpages: Vec<Superpage>,
    half_erased: bool,
    doing: Doing,
    bad: bool,
    erases: u32,
}

impl Block {
    fn new() -> Block {
        Block { superpages: Vec::new(), half_erased: false, doing: Doing::Nothing, bad: false, erases: 0 }
    }

    fn next(&self) -> u32 {
        if self.half_erased || self.doing == Doing::Erase { SUPERPAGES } else { self.superpages.len() as u32 }
    }

    fn power_cut(&mut self) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Program { .. } => self.superpages.push(Superpage::Unreadable),
            Doing::Erase => self.half_erased = true,
        }
    }

    /// Models the end of the process, with a file store: operations under way have not happened.
    fn end_of_process(&mut self) {
        self.doing = Doing::Nothing;
    }

    /// Result, stamp, spare (lpn, sequence) of a unit.
    fn unit(&self, superpage: u32, unit: u32) -> (ReadResult, u32, Option<(u32, u64)>) {
        let unreadable = (ReadResult::Uncorrectable, 0, None);
        if self.half_erased || self.doing == Doing::Erase {
            return unreadable;
        }
        match self.superpages.get(superpage as usize) {
            Some(Superpage::Unreadable) => unreadable,
            Some(Superpage::Data { sequence, units }) => {
                let (lpn, stamp) = units[unit as usize].unwrap_or((Lpn::NONE.0, 0));
                (GOOD, stamp, Some((lpn, *sequence)))
            }
            None if self.doing != Doing::Nothing && superpage == self.next() => unreadable,
            None => (ReadResult::Erased, 0, None),
        }
    }
}

/// The three stores and the model, in step.
struct World {
    media: Vec<Media>,
    blocks: Vec<Block>,
    sequence: u64,
}

impl World {
    fn new(configs: &[MediaConfig]) -> World {
        let media: Vec<Media> = configs.iter().map(open).collect();
        let blocks = (0..media[0].layout().blocks).map(|_| Block::new()).collect();
        World { media, blocks, sequence: 1 << 40 }
    }

    /// Does the same to all media and returns their common answer.
    fn all<T: PartialEq + std::fmt::Debug>(&mut self, mut f: impl FnMut(&mut Media) -> T) -> T {
        let mut answers: Vec<T> = self.media.iter_mut().map(&mut f).collect();
        assert!(answers.windows(2).all(|w| w[0] == w[1]), "stores differ: {answers:?}");
        answers.pop().unwrap()
    }

    fn step(&mut self, rng: &mut Rng) {
        let b = rng.below(self.blocks.len() as u64) as u32;
        match (self.blocks[b as usize].doing.clone(), rng.below(100)) {
            (Doing::Nothing, 0..15) => self.begin_erase(b),
            (Doing::Nothing, 15..16) if rng.below(8) == 0 => {
                self.all(|m| m.retire(BlockId(b)));
                self.blocks[b as usize].bad = true;
            }
            (Doing::Nothing, _) => self.begin_program(b, rng),
            (Doing::Program { .. }, 0..60) => self.put(b, rng),
            (Doing::Program { .. }, 60..70) => self.copy(b, rng),
            (Doing::Program { sequence, units }, _) => self.end_program(b, sequence, units),
            (Doing::Erase, _) => self.end_erase(b),
        }
    }

    fn begin_erase(&mut self, b: u32) {
        let accepted = self.all(|m| m.erase_begin(BlockId(b))).is_ok();
        let block = &mut self.blocks[b as usize];
        assert_eq!(accepted, !block.bad);
        if accepted {
            block.doing = Doing::Erase;
        }
    }

    fn end_erase(&mut self, b: u32) {
        let outcome = self.all(|m| m.erase_end(BlockId(b)));
        let block = &mut self.blocks[b as usize];
        let erases = block.erases;
        *block = match outcome {
            Outcome::Ok => Block { erases: erases + 1, ..Block::new() },
            Outcome::Failed => Block { erases, bad: true, half_erased: true, ..Block::new() },
        };
    }

    fn begin_program(&mut self, b: u32, rng: &mut Rng) {
        self.sequence += rng.below(1000);
        let sequence = self.sequence;
        // Mostly the right superpage, at times any.
        let next = self.blocks[b as usize].next();
        let superpage =
            if rng.below(8) == 0 { rng.below(SUPERPAGES.into()) as u32 } else { next.min(SUPERPAGES - 1) };
        let accepted = self.all(|m| m.program_begin(first(m, b, superpage), sequence)).is_ok();
        let block = &mut self.blocks[b as usize];
        assert_eq!(accepted, !block.bad && superpage == next);
        if accepted {
            block.doing = Doing::Program { sequence, units: [None; UNITS as usize] };
        }
    }

    fn put(&mut self, b: u32, rng: &mut Rng) {
        let (unit, lpn, stamp) =
            (rng.below(UNITS.into()) as u32, rng.next_u64() as u32, rng.next_u64() as u32);
        let next = self.blocks[b as usize].next();
        self.all(|m| {
            let data = images(m, m.layout().sectors_per_unit as usize, stamp);
            m.put_unit(Ppa(first(m, b, next).0 + unit), Lpn(lpn), &data);
        });
        self.given(b, unit, lpn, stamp);
    }

    fn copy(&mut self, b: u32, rng: &mut Rng) {
        let (unit, from) = (rng.below(UNITS.into()) as u32, rng.below(self.blocks.len() as u64 * 12) as u32);
        let (result, stamp, spare) = self.blocks[from as usize / 12].unit(from % 12 / UNITS, from % UNITS);
        let next = self.blocks[b as usize].next();
        if result == GOOD {
            self.all(|m| m.copy_unit(Ppa(from), Ppa(first(m, b, next).0 + unit)));
            self.given(b, unit, spare.unwrap().0, stamp);
        }
    }

    fn given(&mut self, b: u32, unit: u32, lpn: u32, stamp: u32) {
        if let Doing::Program { units, .. } = &mut self.blocks[b as usize].doing {
            units[unit as usize] = Some((lpn, stamp));
        }
    }

    fn end_program(&mut self, b: u32, sequence: u64, units: [Option<(u32, u32)>; UNITS as usize]) {
        let next = self.blocks[b as usize].next();
        let outcome = self.all(|m| m.program_end(first(m, b, next)));
        let block = &mut self.blocks[b as usize];
        block.superpages.push(match outcome {
            Outcome::Ok => Superpage::Data { sequence, units },
            Outcome::Failed => Superpage::Unreadable,
        });
        block.doing = Doing::Nothing;
    }

    fn power_cut(&mut self) {
        self.all(Media::power_cut);
        self.blocks.iter_mut().for_each(Block::power_cut);
    }

    fn check(&mut self) {
        for b in 0..self.blocks.len() as u32 {
            let id = BlockId(b);
            let (next, erases, health) =
                self.all(|m| (m.array().next_superpage(id), m.array().erase_count(id), m.array().health(id)));
            let block = &self.blocks[b as usize];
            assert_eq!((next, erases, health != Health::Good), (block.next(), block.erases, block.bad));
            for unit in 0..12 {
                let expected = self.blocks[b as usize].unit(unit / UNITS, unit % UNITS);
                let ppa = Ppa(b * 12 + unit);
                let seen = self.all(|m| {
                    let (result, stamp) = read(m, ppa, 0);
                    (result, stamp, m.array().spare(ppa).map(|s| (s.lpn.0, s.sequence)))
                });
                assert_eq!(seen, expected, "{ppa:?}");
            }
        }
    }
}

fn three(file: &TempPath, change: impl Fn(&mut MediaConfig)) -> Vec<MediaConfig> {
    let kinds = [StoreKind::None, StoreKind::Ram, StoreKind::File(file.path().into())];
    let make = |store| {
        let mut config = MediaConfig { store, ..small() };
        change(&mut config);
        config
    };
    kinds.into_iter().map(make).collect()
}

#[test]
fn stores_agree_with_the_model_under_faults_and_power_cuts() {
    for seed in 0..12 {
        let file = TempPath::new(&format!("model-{seed}"));
        let mut world = World::new(&three(&file, |c| {
            c.seed = seed;
            c.endurance = Some(40);
            (c.faults.program_fail, c.faults.erase_fail) = (0.05, 0.005);
        }));
        let mut rng = Rng::stream(seed, "operations");
        for step in 0..1_500 {
            world.step(&mut rng);
            if rng.below(100) == 0 {
                world.power_cut();
            }
            if step % 25 == 0 {
                world.check();
            }
        }
        world.check();
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn an_image_reopened_at_any_moment_holds_what_had_ended() {
    for sync in [SyncTo::Process, SyncTo::Machine] {
        let file = TempPath::new(&format!("reopen-{sync:?}"));
        let mut config = file.config();
        config.keep.sync = sync;
        let after = ListedFault::ProgramFail { die: 0, block: 3, superpage: 2, after_erases: 1 };
        config.faults.list = vec![after];
        let mut world = World::new(std::slice::from_ref(&config));
        let mut rng = Rng::stream(5, "operations");
        for _ in 0..400 {
            for _ in 0..rng.below(12) {
                world.step(&mut rng);
            }
            drop(world.media.pop());
            world.blocks.iter_mut().for_each(Block::end_of_process);
            world.media.push(open(&config));
            assert!(!world.media[0].recovered());
            world.check();
        }
    }
}

/// A copy of the file, taken while the drive is in use, shows the state that a killed process leaves behind.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_killed_process_leaves_what_had_ended() {
    let (file, copy) = (TempPath::new("alive"), TempPath::new("killed"));
    let config = file.config();
    let mut world = World::new(std::slice::from_ref(&config));
    let mut rng = Rng::stream(6, "operations");
    for _ in 0..300 {
        world.step(&mut rng);
        std::fs::copy(file.path(), copy.path()).unwrap();
        let media = vec![open(&copy.config())];
        assert!(media[0].recovered());
        let mut dead = World { media, blocks: world.blocks.clone(), sequence: 0 };
        dead.blocks.iter_mut().for_each(Block::end_of_process);
        dead.check();
    }
}
