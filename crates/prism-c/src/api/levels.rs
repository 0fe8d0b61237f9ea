//! Opening and closing levels.

use super::{PrismDrive, PrismLevel, at, call, lock, put, text};
use crate::failure::Failure;
use crate::session::Kind;
use crate::types::{PrismGeometry, PrismStatus};
use std::ffi::c_char;
use std::sync::Arc;

// ---- Levels

/// # Safety
/// A handle that is open, and a string; a pointer can be stored at `level`.
unsafe fn open_level(
    drive: *const PrismDrive,
    name: *const c_char,
    kind: Kind,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        if level.is_null() {
            return Err(Failure::invalid("level: a null pointer"));
        }
        let opened = lock(&drive.session)?.open_level(name, kind)?;
        let opened = Box::new(PrismLevel { session: Arc::clone(&drive.session), opened });
        // SAFETY: as said above.
        unsafe { level.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Opens the raw level on the flash of an application.
///
/// # Safety
/// A handle that is open, and a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_raw(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { open_level(drive, name, Kind::Raw, level) }
}

/// Opens the function level on the flash of an application. What it finds there is listed by `prism_found_blocks`; calls but that one and
/// `prism_recover` are refused until `prism_recover` has said what of it is still needed, unless nothing was found.
///
/// # Safety
/// A handle that is open, and a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_function(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { open_level(drive, name, Kind::Function, level) }
}

/// Opens the policy level on the flash of an application. Nothing can be read or written before `FTL_Ioctl` has set a range up.
///
/// # Safety
/// A handle that is open, and a string; a pointer can be stored at `level`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open_policy(
    drive: *const PrismDrive,
    name: *const c_char,
    level: *mut *mut PrismLevel,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { open_level(drive, name, Kind::Policy, level) }
}

/// Closes a level, after what is under way on it. Null is nothing. Where it ends with `PRISM_STATUS_BUSY` the level is open still.
///
/// # Safety
/// The handle was opened, is not closed, and nobody else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_close_level(level: *mut PrismLevel) -> PrismStatus {
    if level.is_null() {
        return PrismStatus::Ok;
    }
    call(|| {
        // SAFETY: as said above.
        let open = unsafe { at(level, "level") }?;
        // Where the drive is of no use any more, the handle goes all the same.
        if let Ok(mut session) = open.session.lock() {
            session.close_level(&open.opened)?;
        }
        // SAFETY: it came out of a box when it was opened, and goes back once.
        drop(unsafe { Box::from_raw(level) });
        Ok(())
    })
}

/// Shows the layout of the application's flash, at every level.
///
/// # Safety
/// A handle that is open; a geometry can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Get_SSD_Geometry(
    level: *const PrismLevel,
    geometry: *mut PrismGeometry,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        unsafe { put(geometry, at(level, "level")?.opened.geometry) };
        Ok(())
    })
}
