//! The cache manager: against what is known of every sector, over crashes of the flash, of the program and of both at every event, with
//! failing drives; both backends and modes.

mod ssc;
#[allow(dead_code, reason = "crashes follow")]
mod world;

use world::World;

fn exercise(world: &mut World, steps: u32) {
    for _ in 0..steps {
        while world.outstanding() < 8 && world.rng.chance(0.7) {
            world.submit();
        }
        if !world.step() {
            world.submit();
        }
    }
}

#[test]
fn it_matches_what_is_known_of_every_sector() {
    for seed in 0..40 {
        let mut world = World::new(seed);
        exercise(&mut world, 1500);
        world.check();
        assert_eq!(world.failed, 0, "seed {seed}");
    }
}
