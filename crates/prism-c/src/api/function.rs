//! The function level: blocks that the library hands out, erases and wear-levels.

use super::{PrismLevel, many, many_mut, mapping_of, on_level, put};
use crate::types::{PrismAddress, PrismFound, PrismStatus};
use pellucid_prism::FlashAddress;
use std::ffi::c_void;

// ---- Function level

/// Returns the number of channels of the application's flash; 0 if the handle is null.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Get_SSD_Channels(level: *const PrismLevel) -> u32 {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { level.as_ref() }.map_or(0, |level| level.opened.geometry.channel_count)
}

/// Hands out a block of a channel, or a page with `PRISM_MAPPING_PAGE`, and returns the number of blocks that
/// the channel can still hand out. `mapping` is a `prism_mapping`; `free_blocks` may be null.
///
/// # Safety
/// The handle is open; the results can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Address_Mapper(
    level: *const PrismLevel,
    channel: u32,
    address: *mut PrismAddress,
    mapping: u32,
    free_blocks: *mut u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let (allocated, free) = session.address_mapper(opened, channel, mapping_of(mapping)?)?;
            put(address, allocated.into());
            put(free_blocks, free);
            Ok(())
        })
    }
}

/// Gives back the block of `address`, whose data are no longer needed. It is erased in the background, once
/// no read uses it.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Trim(level: *const PrismLevel, address: PrismAddress) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.flash_trim(opened, address.into())) }
}

/// Swaps the data of the most worn and the least worn full block if that reduces wear imbalance, and returns
/// the spread of erase counts. `shuffled` has room for `pairs` pairs of addresses, which the application
/// swaps in its map; `found` returns their number: one, none, or seldom more if flash has failed. `variance`
/// is the variance of the erase counts of mapped blocks. Pointers to results may be null.
///
/// # Safety
/// The handle is open; the results can be stored, and twice as many addresses as `pairs` at `shuffled`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Wear_Leveler(
    level: *const PrismLevel,
    shuffled: *mut PrismAddress,
    pairs: u32,
    found: *mut u32,
    variance: *mut f32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
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

/// Reserves `percent` % of the application's blocks, which are not handed out. The call is refused while too
/// many blocks are handed out; `prism_error` says how many have to be given back.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_SetOPS(level: *const PrismLevel, percent: u32) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.set_ops(opened, percent)) }
}

/// Reads `length` bytes of one block, in whole sectors, starting at the page of `address`.
///
/// # Safety
/// The handle is open; `length` bytes can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Read(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *mut c_void,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_read(opened, address.into(), 0, many_mut(data.cast(), length)?)
        })
    }
}

/// Writes `length` bytes to one block, in whole pages, starting at the page of `address`, which must be the
/// block's next page.
///
/// # Safety
/// The handle is open; `length` bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Write(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { prism_flash_write_marked(level, address, 0, length, data) }
}

/// Writes as `Flash_Write` does, and stores the application's own word beside the data; `prism_found_blocks`
/// lists it after a restart.
///
/// # Safety
/// The handle is open; `length` bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_flash_write_marked(
    level: *const PrismLevel,
    address: PrismAddress,
    mark: u32,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_write(opened, address.into(), mark, many(data.cast(), length)?)
        })
    }
}

/// Lists the blocks that held data when the function level was opened: stores at most `room` of them, and
/// returns their number in `count`.
///
/// # Safety
/// The handle is open; `room` blocks can be stored at `blocks`, and their number at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_found_blocks(
    level: *const PrismLevel,
    blocks: *mut PrismFound,
    room: u32,
    count: *mut u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
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

/// Names the found blocks that are still needed. They are mapped from now on; all others are erased in the
/// background.
///
/// # Safety
/// The handle is open; `count` addresses are at `blocks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_recover(
    level: *const PrismLevel,
    blocks: *const PrismAddress,
    count: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let blocks = many(blocks, count.into())?;
            let blocks: Vec<FlashAddress> = blocks.iter().map(|&block| block.into()).collect();
            session.recover(opened, &blocks)
        })
    }
}
