//! The raw level: pages and blocks by address.

use super::{PrismLevel, many, many_mut, on_level};
use crate::session::Opened;
use crate::types::{PRISM_OOB_SIZE, PrismAddress, PrismStatus};
use std::ffi::c_void;

// ---- Raw level

/// Reads `pages` pages of one block.
///
/// # Safety
/// The handle is open; `pages` pages can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Page_Read(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *mut c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let bytes = u64::from(pages) * u64::from(opened.geometry.page_size);
            session.page_read(opened, address.into(), many_mut(data.cast(), bytes)?)
        })
    }
}

/// Writes the next `pages` pages of one block. The pages of a block are written in order, each once between
/// two erases.
///
/// # Safety
/// The handle is open; `pages` pages are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Page_Write(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *const c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let bytes = u64::from(pages) * u64::from(opened.geometry.page_size);
            session.page_write(opened, address.into(), many(data.cast(), bytes)?)
        })
    }
}

/// Erases the block of `address`.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Block_Erase(level: *const PrismLevel, address: PrismAddress) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.block_erase(opened, address.into())) }
}

/// Writes as `Page_Write` does, with the application's own bytes beside the data: `PRISM_OOB_SIZE` for each
/// sector.
///
/// # Safety
/// The handle is open; `pages` pages are at `data`, and the bytes beside them at `oob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_page_write_oob(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *const c_void,
    oob: *const c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let (bytes, beside) = page_bytes(opened, pages);
            let (data, oob) = (many(data.cast(), bytes)?, many(oob.cast(), beside)?);
            session.page_write_oob(opened, address.into(), data, oob)
        })
    }
}

/// Reads as `Page_Read` does, with the bytes beside the data: `PRISM_OOB_SIZE` for each sector.
///
/// # Safety
/// The handle is open; `pages` pages can be stored at `data`, and the bytes beside them at `oob`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_page_read_oob(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *mut c_void,
    oob: *mut c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let (bytes, beside) = page_bytes(opened, pages);
            let (data, oob) = (many_mut(data.cast(), bytes)?, many_mut(oob.cast(), beside)?);
            session.page_read_oob(opened, address.into(), data, oob)
        })
    }
}

/// Returns the bytes of `pages` pages, and the bytes beside their data.
fn page_bytes(opened: &Opened, pages: u32) -> (u64, u64) {
    let bytes = u64::from(pages) * u64::from(opened.geometry.page_size);
    (bytes, bytes / u64::from(opened.geometry.sector_size) * u64::from(PRISM_OOB_SIZE))
}
