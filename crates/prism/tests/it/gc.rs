//! The GC policy of a range has the effect predicted by theory.

use crate::policy::figure;
use crate::reference::{Reference, geometry};
use pellucid_flash::{Cause, Command, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_ftl::Durability;
use pellucid_host::{HostFtlConfig, Machine, Stack};
use pellucid_prism::{Gc, Mapping, Policy, PolicyConfig};

const SECTOR: u64 = 512;

fn host(mapping: Mapping, gc: Gc, over_provisioning: f64) -> (Stack<Policy, Reference>, u64) {
    // Lines of pages are short: in longer lines, uniform overwrites make all of them alike, and the choice matters less.
    let shape = match mapping {
        Mapping::Page => geometry(2, 2, 300, 8, 1),
        Mapping::Block => geometry(2, 2, 100, 64, 4),
    };
    let drive = Reference::new(shape, 9);
    // No translation pages, which would occupy lines of their own.
    let durability = Durability::Volatile;
    let host_ftl =
        HostFtlConfig { spare_chunks: 0, buffer_sectors: 16, durability, ..HostFtlConfig::default() };
    let config = PolicyConfig { host_ftl, ..PolicyConfig::default() };
    let layer = Policy::new(0, drive.interface(0), drive.image_bytes(), &config).expect("it is flash");
    let mut host = Stack::start(layer, drive, SimTime::ZERO).expect("it starts");
    let bytes = host.layer.room_for(mapping, over_provisioning) / SECTOR * SECTOR;
    host.layer.ftl_ioctl(mapping, gc, 0..bytes, over_provisioning).expect("there is room");
    assert!(host.run_until(Policy::is_ready, |_, next| next));
    (host, bytes / SECTOR)
}

fn write(host: &mut Stack<Policy, Reference>, lba: u64, sectors: u32) {
    while host.asked() >= 16 {
        let next = host.next_event().expect("it goes on");
        host.advance(next);
        while let Some(done) = host.answer() {
            assert_eq!(done.status, Status::Success);
        }
    }
    let data = vec![1; sectors as usize * 512];
    host.ask(host.now(), Command::new(0, Opcode::Write, Lba(lba), sectors, data));
}

fn programmed(host: &Stack<Policy, Reference>, cause: Cause) -> f64 {
    let figures = host.layer.figures();
    let of = figures.iter().find(|f| f.name == "programmed_bytes" && f.cause == Some(cause));
    of.map_or(0.0, |figure| figure.value as f64)
}

/// Write amplification of uniform overwrites, and lines in use relative to those that the data fill.
fn of_pages(gc: Gc) -> (f64, f64) {
    let (mut host, sectors) = host(Mapping::Page, gc, 0.25);
    let mut rng = Rng::stream(1, "uniform");
    (0..sectors).for_each(|lba| write(&mut host, lba, 1));
    (0..4 * sectors).for_each(|_| write(&mut host, rng.below(sectors), 1));
    let before = [Cause::Host, Cause::Gc].map(|cause| programmed(&host, cause));
    let mut in_use = 0;
    for _ in 0..4 * sectors {
        write(&mut host, rng.below(sectors), 1);
        let (free, lines) = host.layer.host_ftl(0).expect("pages").free_lines();
        in_use += u64::from(lines - free);
    }
    let after = [Cause::Host, Cause::Gc].map(|cause| programmed(&host, cause));
    let (host_bytes, moved) = (after[0] - before[0], after[1] - before[1]);
    let of_line = f64::from(host.layer.host_ftl(0).expect("pages").units_per_line());
    // On average, the open line is half full, and the victim half empty.
    let lines = in_use as f64 / (4 * sectors) as f64 - 1.0;
    ((host_bytes + moved) / host_bytes, lines * of_line / sectors as f64)
}

/// FIFO under uniform overwrites, for a log `alpha` times as long as the data: a victim's share `u` of valid sectors satisfies `u = exp(-alpha (1 -
/// u))`, and 1 / (1 - u) is the write amplification (Desnoyers; Robinson).
fn fifo(alpha: f64) -> f64 {
    let u = (0..1000).fold(0.5_f64, |u, _| (-alpha * (1.0 - u)).exp());
    1.0 / (1.0 - u)
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn fifo_costs_what_theory_says_and_greedy_less() {
    let (measured, alpha) = of_pages(Gc::Fifo);
    let theory = fifo(alpha);
    assert!((measured / theory - 1.0).abs() < 0.05, "FIFO: {measured}, theory {theory} for {alpha}");
    let (greedy, _) = of_pages(Gc::Greedy);
    assert!(greedy < 0.95 * measured, "greedy {greedy}, FIFO {measured}");
    // Under uniform overwrites age carries no information: LRU is no better than FIFO, and cost-benefit no better than greedy.
    let (lru, _) = of_pages(Gc::Lru);
    let (benefit, _) = of_pages(Gc::CostBenefit);
    assert!(lru > greedy && benefit > 0.98 * greedy, "LRU {lru}, cost-benefit {benefit}, greedy {greedy}");
}

/// Blocks are rewritten from their beginning, to a random length; a merge copies the rest.
#[test]
fn greedy_merges_copy_less_than_those_of_the_oldest_block() {
    let copied = |gc| {
        let (mut host, sectors) = host(Mapping::Block, gc, 0.1);
        let mut rng = Rng::stream(2, "rewrites");
        let blocks = sectors / 64;
        (0..blocks).for_each(|block| write(&mut host, block * 64, 64));
        for _ in 0..6 * blocks {
            let part = 4 * (1 + rng.below(16)) as u32;
            write(&mut host, rng.below(blocks) * 64, part);
        }
        while let Some(next) = host.next_event() {
            host.advance(next);
        }
        host.layer.check();
        assert_eq!(figure(&host.layer, "gc_pauses"), figure(&host.layer, "block_map_merges"));
        assert!(figure(&host.layer, "gc_pause_max_ns") >= figure(&host.layer, "gc_pause_p50_ns"));
        (figure(&host.layer, "block_map_copied_bytes"), figure(&host.layer, "block_map_merges"))
    };
    let [greedy, fifo, lru, benefit] = [Gc::Greedy, Gc::Fifo, Gc::Lru, Gc::CostBenefit].map(copied);
    assert!(fifo.1 > 1000, "{fifo:?}");
    assert!(greedy.0 * 20 < fifo.0 * 19, "greedy {greedy:?}, FIFO {fifo:?}, LRU {lru:?}");
    assert!(benefit.0 < fifo.0, "cost-benefit {benefit:?}, FIFO {fifo:?}");
}
