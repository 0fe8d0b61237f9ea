//! Algorithm IV.2 of the paper: allocation of blocks and garbage collection by an application, at the function level.
//!
//! `cargo run -p pellucid-prism --example gc_function`

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../../host/tests/it/reference.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod reference;

use pellucid_flash::{Drive, SimTime};
use pellucid_prism::blocking::{Flash, FlashError, FunctionId, at_once};
use pellucid_prism::{FlashAddress, Mapping};
use std::collections::BTreeMap;

const GC_THRESHOLD: u32 = 3;

/// Logical to physical blocks, and the validity of each page.
type Map = BTreeMap<u32, (FlashAddress, Vec<bool>)>;

fn main() {
    println!("{}", run().unwrap_or_else(|error| panic!("{error}")));
}

/// Repeatedly allocates ten blocks in the channel with the least workload, and describes the result.
pub fn run() -> Result<String, FlashError> {
    let drive = reference::Reference::new(reference::geometry(2, 2, 12, 32, 4), 1);
    let mut flash = Flash::new(drive, SimTime::ZERO, at_once);
    let level = flash.open_function(0)?;
    let pages = flash.function_geometry(level).pages_each_block as usize;
    let (mut map, mut next) = (Map::new(), 0);
    for round in 0..8 {
        // Most of the earlier data are obsolete by now.
        for (lbn, (_, valid)) in &mut map {
            (0..pages).for_each(|page| valid[page] &= (page as u32 + lbn) % 8 == round);
        }
        allocate(&mut flash, level, &mut map, &mut next, 10)?;
    }
    let counters = flash.function(level).counters();
    let bytes = counters.written_sectors * u64::from(flash.function(level).space().chunks.sector_bytes);
    Ok(format!("{next} blocks allocated, {} erased, {bytes} bytes written", counters.erases))
}

fn allocate<D: Drive, W: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>>(
    flash: &mut Flash<D, W>,
    level: FunctionId,
    map: &mut Map,
    next: &mut u32,
    len: u32,
) -> Result<(), FlashError> {
    let page = vec![7; flash.function_geometry(level).page_bytes as usize];
    for _ in 0..len {
        // The channel with the least workload.
        let channels = 0..flash.function_geometry(level).channel_count;
        let channel = channels.max_by_key(|&c| flash.function(level).free_blocks(c)).unwrap_or(0);
        let pbn = flash.address_mapper(level, channel, Mapping::Block)?;
        let lbn = *next;
        *next += 1;
        let pages = flash.function_geometry(level).pages_each_block;
        (0..pages).try_for_each(|p| {
            flash.flash_write(level, FlashAddress { page: p, ..pbn.address }, lbn, &page)
        })?;
        map.insert(lbn, (pbn.address, vec![true; pages as usize]));
        if pbn.free_blocks < GC_THRESHOLD {
            app_gc(flash, level, map, next, channel)?;
        }
    }
    Ok(())
}

fn app_gc<D: Drive, W: FnMut(&mut D, Option<SimTime>) -> Option<SimTime>>(
    flash: &mut Flash<D, W>,
    level: FunctionId,
    map: &mut Map,
    next: &mut u32,
    channel: u32,
) -> Result<(), FlashError> {
    // Valid data of the victims go to one block until it is full.
    let to = flash.address_mapper(level, channel, Mapping::Block)?.address;
    let (lbn, mut copied) = (*next, vec![]);
    *next += 1;
    let mut page = vec![0; flash.function_geometry(level).page_bytes as usize];
    let room = flash.function_geometry(level).pages_each_block as usize;
    let count = |valid: &[bool]| valid.iter().filter(|&&v| v).count();
    while flash.function(level).free_blocks(channel) < GC_THRESHOLD {
        // Greedy: the victim with the least valid data.
        let of_channel = map.iter().filter(|(_, (at, _))| at.channel == channel);
        let Some((&victim, _)) = of_channel.min_by_key(|(_, (_, valid))| count(valid)) else { break };
        if count(&map[&victim].1) + copied.len() > room {
            break;
        }
        let (from, valid) = map.remove(&victim).expect("it was chosen");
        for p in (0..room as u32).filter(|&p| valid[p as usize]) {
            flash.flash_read(level, FlashAddress { page: p, ..from }, 0, &mut page)?;
            let at = FlashAddress { page: copied.len() as u32, ..to };
            flash.flash_write(level, at, lbn, &page)?;
            copied.push(true);
        }
        flash.flash_trim(level, from)?;
    }
    copied.resize(room, false);
    map.insert(lbn, (to, copied));
    Ok(())
}
