//! Algorithm IV.1 of the paper: garbage collection by an application at the raw level, on flash allocated by a monitor.
//!
//! `cargo run -p pellucid-prism --example gc_raw`

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../../host/tests/it/reference.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod reference;

use pellucid_flash::SimTime;
use pellucid_prism::blocking::{Flash, FlashError, RawId, at_once};
use pellucid_prism::{FlashAddress, Monitor, MonitorConfig, Request};
use reference::Reference;

type Drive = Flash<Monitor<Reference>, fn(&mut Monitor<Reference>, Option<SimTime>) -> Option<SimTime>>;

/// A block: which of its pages are written, and hold valid data.
#[derive(Clone, Default)]
struct Block {
    written: u32,
    valid: Vec<u32>,
}

fn main() {
    println!("{}", run().unwrap_or_else(|error| panic!("{error}")));
}

/// Writes most of the flash, invalidates much of it, collects garbage, and describes the result.
pub fn run() -> Result<String, FlashError> {
    let drive = Reference::new(reference::geometry(2, 2, 16, 32, 4), 1);
    let mut monitor = Monitor::start(drive, MonitorConfig::default(), SimTime::ZERO)
        .unwrap_or_else(|error| panic!("{error}"));
    let wanted = Request { capacity_bytes: 2 * monitor.lun_bytes(), over_provisioning: 0.5 };
    let app = monitor.allocate("gc_raw", wanted).unwrap_or_else(|error| panic!("{error}")).id;
    let now = monitor.now();
    let mut flash: Drive = Flash::new(monitor, now, at_once);
    let raw = flash.open_raw(app.0)?;

    let geometry = flash.raw_geometry(raw);
    let mut blocks = vec![Block::default(); geometry.blocks() as usize];
    let used = blocks.len() * 7 / 8;
    for (number, block) in blocks.iter_mut().enumerate().take(used) {
        for page in 0..geometry.pages_each_block {
            let data = vec![number as u8; geometry.page_bytes as usize];
            flash.page_write(raw, FlashAddress { page, ..geometry.block_at(number as u32) }, &data)?;
            block.written += 1;
            // The data in some blocks are soon obsolete.
            if (page as usize * 5 + number * 3) % 8 < number % 6 {
                block.valid.push(page);
            }
        }
    }
    let valid = |blocks: &[Block]| blocks.iter().map(|block| block.valid.len()).sum::<usize>();
    let before = valid(&blocks);
    let (copied, erased) = gc(&mut flash, raw, &mut blocks, used / 2)?;
    assert_eq!(valid(&blocks), before, "nothing is lost");
    Ok(format!("{copied} valid pages copied, {erased} blocks erased, {before} pages kept"))
}

/// The procedure of the paper: channel by channel, collects the block with the least valid data, until enough blocks are free.
fn gc(flash: &mut Drive, raw: RawId, blocks: &mut [Block], enough: usize) -> Result<(u32, u32), FlashError> {
    let geometry = flash.raw_geometry(raw);
    let (mut channel, mut copied, mut erased) = (0, 0, 0);
    let mut page_data = vec![0; geometry.page_bytes as usize];
    while blocks.iter().filter(|block| block.written == 0).count() < enough {
        // Block i of the channel, with the least valid data.
        let full = |n: &u32| {
            geometry.block_at(*n).channel == channel
                && blocks[*n as usize].written == geometry.pages_each_block
        };
        let victim = (0..geometry.blocks()).filter(full).min_by_key(|&n| blocks[n as usize].valid.len());
        let Some(victim) = victim else { break };
        while let Some(page) = blocks[victim as usize].valid.pop() {
            // The application selects page "new": the next one of a block with space in the channel.
            let new = (0..geometry.blocks()).find(|&n| {
                geometry.block_at(n).channel == channel
                    && blocks[n as usize].written < geometry.pages_each_block
            });
            let new = new.expect("a block of each channel is kept free") as usize;
            flash.page_read(raw, FlashAddress { page, ..geometry.block_at(victim) }, &mut page_data)?;
            let to = FlashAddress { page: blocks[new].written, ..geometry.block_at(new as u32) };
            flash.page_write(raw, to, &page_data)?;
            blocks[new].valid.push(to.page);
            (blocks[new].written, copied) = (blocks[new].written + 1, copied + 1);
        }
        flash.block_erase(raw, geometry.block_at(victim))?;
        (blocks[victim as usize], erased) = (Block::default(), erased + 1);
        channel = (channel + 1) % geometry.channel_count;
    }
    Ok((copied, erased))
}
