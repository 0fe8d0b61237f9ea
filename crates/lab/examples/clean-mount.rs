//! How long a host FTL takes to start after a clean stop: `cargo run --release -p pellucid-lab --example clean-mount -- DRIVE.toml [WRITES]`.
//!
//! The description has a host FTL on a drive that stores data (`store = "ram"` or `"file"`). The program writes random sectors, stops the layer, and
//! starts it again on the same drive; then it does the same with a power cut instead of the stop.

#![allow(clippy::print_stdout, reason = "an example prints")]

use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Opcode, Rng};
use pellucid_host::{HostFtl, HostFtlConfig, LayerConfig, Stack};
use std::time::Instant;

fn start(config: &HostFtlConfig, device: Device) -> Stack<HostFtl, Device> {
    let began = Instant::now();
    let layer = HostFtl::new(config, Drive::interface(&device, 0), device.image_bytes());
    let now = device.now();
    let layer = layer.unwrap_or_else(|e| panic!("{e}"));
    let stack = Stack::start(layer, device, now).unwrap_or_else(|e| panic!("{e}"));
    let cost = stack.layer.mount_cost();
    println!(
        "start: {:.3} s simulated, {:.3} s real; {} reads of {} sectors; {} translation pages, {} sectors replayed, {} mapped; \
         peak memory {:.2} GB",
        cost.time.as_secs_f64(),
        began.elapsed().as_secs_f64(),
        cost.reads,
        cost.sectors,
        cost.report.map_page_reads,
        cost.report.replay_reads,
        cost.report.mapped_units,
        pellucid_lab::experiment::peak_memory_bytes().unwrap_or(0) as f64 / 1e9,
    );
    stack
}

fn write(stack: &mut Stack<HostFtl, Device>, writes: u64, rng: &mut Rng) {
    let (sectors, bytes) = (stack.layer.capacity_sectors(), stack.image_bytes());
    for _ in 0..writes {
        let lba = Lba(rng.below(sectors));
        stack.submit(stack.now(), Command::new(0, Opcode::Write, lba, 1, vec![1; bytes]));
        while stack.pop().is_none() {
            let next = stack.next_event().expect("a write ends");
            stack.advance(next);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: clean-mount DRIVE.toml [WRITES]");
    let writes = arguments.next().map_or(100_000, |n| n.parse().expect("WRITES is a number"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let spec = pellucid_spec::from_str(&text, &path, &[]).unwrap_or_else(|e| panic!("{e}"));
    let [LayerConfig::HostFtl(config)] = &spec.host[..] else { panic!("{path}: no host FTL") };
    let mut rng = Rng::new(1);
    let mut stack = start(config, Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e}")));
    println!(
        "{:.3} TB offered, {:.3} GB of host memory",
        { (stack.layer.capacity_sectors() * u64::from(stack.layer.sector_bytes())) as f64 / 1e12 },
        stack.layer.memory_bytes() as f64 / 1e9
    );
    write(&mut stack, writes, &mut rng);
    let (began, before) = (Instant::now(), stack.now());
    stack.stop().unwrap_or_else(|e| panic!("{e}"));
    println!(
        "stop: {:.3} s simulated, {:.3} s real",
        (stack.now() - before).as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    let mut stack = start(config, stack.drive);
    write(&mut stack, writes, &mut rng);
    let mut device = stack.drive;
    device.power_cut().unwrap_or_else(|e| panic!("{e}"));
    while device.pop().is_some() {}
    start(config, device);
}
