//! The function level: blocks that the library hands out, erases and levels.

use super::{PrismLevel, many, many_mut, mapping_of, on_level, put};
use crate::types::{PrismAddress, PrismFound, PrismStatus};
use pellucid_prism::FlashAddress;
use std::ffi::c_void;

// ---- Function level

/// The channels of the application's flash; 0 where there is no such level.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Get_SSD_Channels(level: *const PrismLevel) -> u32 {
    // SAFETY: as said above.
    unsafe { level.as_ref() }.map_or(0, |level| level.opened.geometry.channel_count)
}

/// Hands out a block of a channel, or with `PRISM_MAPPING_PAGE` a page of one, and says how many blocks of the channel can be had still.
/// `mapping` is a `prism_mapping`; `free_blocks` may be null.
///
/// # Safety
/// A handle that is open; the results can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Address_Mapper(
    level: *const PrismLevel,
    channel: u32,
    address: *mut PrismAddress,
    mapping: u32,
    free_blocks: *mut u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let (allocated, free) = session.address_mapper(opened, channel, mapping_of(mapping)?)?;
            put(address, allocated.into());
            put(free_blocks, free);
            Ok(())
        })
    }
}

/// Gives the block of `address` back: nothing in it is needed any more. It is erased in the background, when nothing reads from it.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Trim(level: *const PrismLevel, address: PrismAddress) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.flash_trim(opened, address.into())) }
}

/// Exchanges the data of the most worn and the least worn of the blocks that are full, if that is of use, and says how far apart erase counts
/// are. `shuffled` has room for `pairs` pairs of addresses, which the application exchanges in its map; `found` says how many there are:
/// one, none, or seldom more where flash has failed. `variance` is that of the erase counts of mapped blocks. Pointers to results may be
/// null.
///
/// # Safety
/// A handle that is open; the results can be stored, and at `shuffled` twice as many addresses as `pairs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Wear_Leveler(
    level: *const PrismLevel,
    shuffled: *mut PrismAddress,
    pairs: u32,
    found: *mut u32,
    variance: *mut f32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let places = many_mut(shuffled, 2 * u64::from(pairs))?;
            let (swapped, spread) = session.level_wear(opened)?;
            for (place, address) in places.iter_mut().zip(swapped.iter().flatten()) {
                *place = (*address).into();
            }
            put(found, swapped.len() as u32);
            put(variance, spread as f32);
            Ok(())
        })
    }
}

/// Reserves so many percent of the application's blocks, which are not handed out. Refused while too many blocks are handed out already;
/// the sentence says how many have to be given back.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_SetOPS(level: *const PrismLevel, percent: u32) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.set_ops(opened, percent)) }
}

/// Reads `length` bytes, whole sectors, of one block from the page of `address` on.
///
/// # Safety
/// A handle that is open; so many bytes can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Read(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *mut c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_read(opened, address.into(), 0, many_mut(data.cast(), length)?)
        })
    }
}

/// Writes `length` bytes, whole pages, of one block from the page of `address` on, which is the next that the block has.
///
/// # Safety
/// A handle that is open; so many bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Write(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { prism_flash_write_marked(level, address, 0, length, data) }
}

/// As `Flash_Write`; the application's own word stands beside the data, and is listed by `prism_found_blocks` after a restart.
///
/// # Safety
/// A handle that is open; so many bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_flash_write_marked(
    level: *const PrismLevel,
    address: PrismAddress,
    mark: u32,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_write(opened, address.into(), mark, many(data.cast(), length)?)
        })
    }
}

/// Lists the blocks that were found to hold data when the function level was opened: at most `room` of them are stored, and `count`
/// says how many there are.
///
/// # Safety
/// A handle that is open; so many blocks can be stored at `blocks`, and their number at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_found_blocks(
    level: *const PrismLevel,
    blocks: *mut PrismFound,
    room: u32,
    count: *mut u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let places = many_mut(blocks, room.into())?;
            let found = session.found(opened)?;
            places.iter_mut().zip(&found).for_each(|(place, found)| *place = *found);
            put(count, found.len() as u32);
            Ok(())
        })
    }
}

/// Says which of the blocks that were found are still needed. They are mapped from now on; all others are erased in the background.
///
/// # Safety
/// A handle that is open; so many addresses are at `blocks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_recover(
    level: *const PrismLevel,
    blocks: *const PrismAddress,
    count: u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let blocks = many(blocks, count.into())?;
            let blocks: Vec<FlashAddress> = blocks.iter().map(|&block| block.into()).collect();
            session.recover(opened, &blocks)
        })
    }
}
