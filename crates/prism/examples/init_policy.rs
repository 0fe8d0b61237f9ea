//! Algorithm IV.3 of the paper: an application configures its flash at the policy level, in bytes instead of the paper's gigabytes.
//!
//! `cargo run -p pellucid-prism --example init_policy`

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../../host/tests/it/reference.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod reference;

use pellucid_flash::SimTime;
use pellucid_prism::blocking::{Flash, FlashError, at_once};
use pellucid_prism::{Gc, Mapping, PolicyConfig};

fn main() {
    println!("{}", run().unwrap_or_else(|error| panic!("{error}")));
}

/// Configures two ranges, writes to both and reads the data back after a restart.
pub fn run() -> Result<String, FlashError> {
    let mut drive = reference::Reference::new(reference::geometry(2, 2, 64, 64, 4), 1);
    let start_addr = 0;
    let split_addr = 100 << 10;
    let end_addr = 1000 << 10;
    for life in 0..2 {
        let mut flash = Flash::new(drive, SimTime::ZERO, at_once);
        let level = flash.open_policy(0, &PolicyConfig::default())?;
        flash.ftl_ioctl(level, Mapping::Block, Gc::Fifo, start_addr..split_addr, 0.25)?;
        // Addresses between 0 and 100 KiB can be read and written now.
        flash.ftl_ioctl(level, Mapping::Page, Gc::Greedy, split_addr..end_addr, 0.25)?;
        // Addresses between 100 and 1000 KiB can be read and written now.
        let mut found = [0; 1024];
        for (at, byte) in [(0, 7), (split_addr - 512, 8), (split_addr + 4096, 9)] {
            match life {
                0 => flash.ftl_write(level, at, &[byte; 1024])?,
                _ => {
                    flash.ftl_read(level, at, &mut found)?;
                    assert!(found == [byte; 1024], "byte {at}");
                }
            }
        }
        flash.ftl_flush(level)?;
        flash.rest();
        drive = flash.into_drive();
    }
    Ok(format!("{split_addr} bytes mapped by blocks, {} by pages; both found again", end_addr - split_addr))
}
