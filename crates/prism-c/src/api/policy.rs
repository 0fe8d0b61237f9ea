//! The policy level: ranges of bytes that the library maps.

use super::{PrismLevel, gc_of, many, many_mut, mapping_of, on_level};
use crate::types::PrismStatus;
use std::ffi::c_void;

// ---- Policy level

/// Sets up the bytes from `begin` to before `end`: how they are mapped (a `prism_mapping`), which block garbage collection empties next (a
/// `prism_gc`), and how many percent of flash they have beside their size. It waits until the range has found its data: a range that was
/// set up before has to be the same in everything but `gc`. A level has 8 ranges at most, which do not overlap.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_ftl_ioctl(
    level: *const PrismLevel,
    mapping: u32,
    gc: u32,
    begin: u64,
    end: u64,
    over_provisioning_percent: u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let (mapping, gc) = (mapping_of(mapping)?, gc_of(gc)?);
            let share = f64::from(over_provisioning_percent) / 100.0;
            session.ftl_ioctl(opened, mapping, gc, begin..end, share)
        })
    }
}

/// As `prism_ftl_ioctl`, with 25 % of over-provisioning.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Ioctl(
    level: *const PrismLevel,
    mapping: u32,
    gc: u32,
    begin: u64,
    end: u64,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { prism_ftl_ioctl(level, mapping, gc, begin, end, 25) }
}

/// Removes the range from `begin` to before `end`, which was set up before, perhaps in another run: its data are lost, and its flash can be
/// given to another one. It waits until that is so. Refused while operations of the range are under way.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_ftl_remove(level: *const PrismLevel, begin: u64, end: u64) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.ftl_remove(opened, begin..end)) }
}

/// Reads `length` bytes, whole sectors, from byte `at` on. What was never written is zeros.
///
/// # Safety
/// A handle that is open; so many bytes can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Read(
    level: *const PrismLevel,
    at: u64,
    data: *mut c_void,
    length: u64,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.ftl_read(opened, at, many_mut(data.cast(), length)?)) }
}

/// Writes `length` bytes, whole sectors, from byte `at` on. They survive a crash once `FTL_Flush` has ended.
///
/// # Safety
/// A handle that is open; so many bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Write(
    level: *const PrismLevel,
    at: u64,
    data: *const c_void,
    length: u64,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.ftl_write(opened, at, many(data.cast(), length)?)) }
}

/// Says that nothing in `length` bytes, whole sectors, from byte `at` on is needed any more. They read as zeros.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Trim(level: *const PrismLevel, at: u64, length: u64) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.ftl_trim(opened, at, length)) }
}

/// Brings everything that was written before to the flash.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FTL_Flush(level: *const PrismLevel) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.ftl_flush(opened)) }
}
