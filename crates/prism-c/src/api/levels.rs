//! Functions that open and close levels.

use super::{PrismDrive, PrismLevel, at, call, lock, put, text};
use crate::failure::Failure;
use crate::session::Kind;
use crate::types::{PrismGeometry, PrismStatus};
use std::ffi::c_char;
use std::sync::Arc;

// ---- Levels

/// # Safety
/// The handle is open; `name` is a string; a pointer can be stored at `level`.
unsafe fn open_level(
    drive: *const PrismDrive,
    name: *const c_char,
    kind: Kind,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        if level.is_null() {
            return Err(Failure::invalid("level: a null pointer"));
        }
        let opened = lock(&drive.session)?.open_level(name, kind)?;
        let opened = Box::new(PrismLevel { session: Arc::clone(&drive.session), opened });
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { level.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Opens the raw level on the flash of an application.
///
/// # Safety
/// The handle is open; `name` is a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_raw(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { open_level(drive, name, Kind::Raw, level) }
}

/// Opens the function level on the flash of an application. `prism_found_blocks` lists the blocks that hold
/// data. If there are any, all calls but that one and `prism_recover` are refused until `prism_recover` has
/// named the blocks that are still needed.
///
/// # Safety
/// The handle is open; `name` is a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_function(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { open_level(drive, name, Kind::Function, level) }
}

/// Opens the policy level on the flash of an application. Reads and writes need a range that `FTL_Ioctl` has
/// set up.
///
/// # Safety
/// The handle is open; `name` is a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_policy(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe { open_level(drive, name, Kind::Policy, level) }
}

/// Closes a level once its operations under way have ended; null is ignored. If the call ends with
/// `PRISM_STATUS_BUSY`, the level is still open.
///
/// # Safety
/// The handle is open, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_close_level(level: *mut PrismLevel) -> PrismStatus {
    if level.is_null() {
        return PrismStatus::Ok;
    }
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let open = unsafe { at(level, "level") }?;
        // The handle is freed even if the drive is unusable.
        if let Ok(mut session) = open.session.lock() {
            session.close_level(&open.opened)?;
        }
        // SAFETY: the pointer came out of a box when the level was opened, and goes back once.
        drop(unsafe { Box::from_raw(level) });
        Ok(())
    })
}

/// Returns the layout of the application's flash; every level has it.
///
/// # Safety
/// The handle is open; a geometry can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Get_SSD_Geometry(
    level: *const PrismLevel,
    geometry: *mut PrismGeometry,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { put(geometry, at(level, "level")?.opened.geometry) };
        Ok(())
    })
}
