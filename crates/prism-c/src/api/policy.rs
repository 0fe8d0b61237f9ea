//! The policy level: byte ranges that the library maps.

use super::{PrismLevel, gc_of, many, many_mut, mapping_of, on_level};
use crate::types::PrismStatus;
use std::ffi::c_void;

// ---- Policy level

/// Sets up the byte range from `begin` to before `end`: its mapping (a `prism_mapping`), its garbage
/// collection policy (a `prism_gc`), and its over-provisioning in percent of its size. The call waits until
/// the range has found its data. A range that was set up before must be identical in everything but `gc`. A
/// level has at most 8 ranges, which do not overlap.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_ftl_ioctl(
    level: *const PrismLevel,
    mapping: u32,
    gc: u32,
    begin: u64,
    end: u64,
    over_provisioning_percent: u32,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let (mapping, gc) = (mapping_of(mapping)?, gc_of(gc)?);
            let share = f64::from(over_provisioning_percent) / 100.0;
            session.ftl_ioctl(opened, mapping, gc, begin..end, share)
        })
    }
}

/// Sets up a range as `prism_ftl_ioctl` does, with 25 % of over-provisioning.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Ioctl(
    level: *const PrismLevel,
    mapping: u32,
    gc: u32,
    begin: u64,
    end: u64,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { prism_ftl_ioctl(level, mapping, gc, begin, end, 25) }
}

/// Removes the range from `begin` to before `end`, which this run or an earlier one set up. Its data are
/// lost, and another range can use its flash. The call waits until the range is removed. It is refused while
/// operations of the range are under way.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_ftl_remove(level: *const PrismLevel, begin: u64, end: u64) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.ftl_remove(opened, begin..end)) }
}

/// Reads `length` bytes, in whole sectors, starting at byte `at`. Unwritten bytes read as zeros.
///
/// # Safety
/// The handle is open; `length` bytes can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Read(
    level: *const PrismLevel,
    at: u64,
    data: *mut c_void,
    length: u64,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.ftl_read(opened, at, many_mut(data.cast(), length)?)) }
}

/// Writes `length` bytes, in whole sectors, starting at byte `at`. They survive a crash once `FTL_Flush` has
/// ended.
///
/// # Safety
/// The handle is open; `length` bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Write(
    level: *const PrismLevel,
    at: u64,
    data: *const c_void,
    length: u64,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.ftl_write(opened, at, many(data.cast(), length)?)) }
}

/// Discards `length` bytes, in whole sectors, starting at byte `at`. They read as zeros.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Trim(level: *const PrismLevel, at: u64, length: u64) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.ftl_trim(opened, at, length)) }
}

/// Flushes all earlier writes to the flash.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Flush(level: *const PrismLevel) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { on_level(level, |session, opened| session.ftl_flush(opened)) }
}
