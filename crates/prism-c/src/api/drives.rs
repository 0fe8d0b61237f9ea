//! Drives and the applications that have flash on them.

use super::{PrismDrive, at, call, lock, put, text};
use crate::failure::{self, Failure};
use crate::session::Session;
use crate::types::{
    PRISM_API_VERSION, PRISM_FORMAT, PRISM_REAL_TIME, PrismGeometry, PrismStatistics, PrismStatus,
};
use pellucid_serve::Pace;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex};

// ---- Drives

/// The version of this interface that the library has; a program compares it with `PRISM_API_VERSION`, with which it was compiled.
#[unsafe(no_mangle)]
pub extern "C" fn prism_api_version() -> u32 {
    PRISM_API_VERSION
}

/// A sentence about the last call of this thread that did not end with `PRISM_STATUS_OK`. It stays until the next such call of the
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn prism_error() -> *const c_char {
    failure::last(CStr::as_ptr)
}

/// The name of a status, in a word.
#[unsafe(no_mangle)]
pub extern "C" fn prism_status_name(status: u32) -> *const c_char {
    let name = match status {
        0 => c"ok",
        1 => c"invalid",
        2 => c"out-of-range",
        3 => c"order",
        4 => c"no-space",
        5 => c"exists",
        6 => c"missing",
        7 => c"read-error",
        8 => c"write-error",
        9 => c"read-only",
        10 => c"unreachable",
        11 => c"busy",
        12 => c"internal",
        _ => c"unknown",
    };
    name.as_ptr()
}

/// Opens a drive and the flash monitor on it, which is made where the media are blank. `uri` is one of:
///
/// - a preset or the path of a description, perhaps with settings: `open-channel,drive.media.geometry.blocks=64`. The drive is modelled in
///   this process, and its data are in memory unless the settings say `drive.media.store=file:PATH`.
/// - `nvme+tcp://HOST:PORT` and perhaps `/NQN`: an open-channel or zoned drive that another process or machine serves.
/// - `file:PATH` and perhaps `,size=10GiB`: a plain file, which is made where there is none and a size is given, or a block device.
///
/// `flags`: 0, or `PRISM_REAL_TIME` and `PRISM_FORMAT`, added.
///
/// # Safety
/// `uri` is a string; a pointer can be stored at `drive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_open(
    uri: *const c_char,
    flags: u32,
    drive: *mut *mut PrismDrive,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let uri = unsafe { text(uri, "uri") }?;
        if drive.is_null() || flags & !(PRISM_REAL_TIME | PRISM_FORMAT) != 0 {
            return Err(Failure::invalid(format!(
                "flags {flags}; allowed: 0, PRISM_REAL_TIME, PRISM_FORMAT"
            )));
        }
        let pace = if flags & PRISM_REAL_TIME != 0 { Pace::Real } else { Pace::Virtual };
        let session = Session::open(uri, pace, flags & PRISM_FORMAT != 0)?;
        let opened = Box::new(PrismDrive { session: Arc::new(Mutex::new(session)) });
        // SAFETY: as said above.
        unsafe { drive.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Closes a drive; null is nothing. It goes on for as long as a level on it is open. What was submitted and not polled is lost.
///
/// # Safety
/// The handle was opened, is not closed, and nobody else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_close(drive: *mut PrismDrive) {
    if !drive.is_null() {
        call(|| {
            // SAFETY: it came out of a box in `prism_open`, and goes back once.
            drop(unsafe { Box::from_raw(drive) });
            Ok(())
        });
    }
}

/// The layout of the whole drive, with what applications do not see.
///
/// # Safety
/// A handle that is open; a geometry can be stored at `geometry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_drive_geometry(
    drive: *const PrismDrive,
    geometry: *mut PrismGeometry,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let drive = unsafe { at(drive, "drive") }?;
        let found = lock(&drive.session)?.geometry();
        // SAFETY: as said above.
        unsafe { put(geometry, found) };
        Ok(())
    })
}

/// How many LUNs no application has, and what an application can keep in one. Each of the last two pointers may be null.
///
/// # Safety
/// A handle that is open; the results can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_free_luns(
    drive: *const PrismDrive,
    luns: *mut u32,
    lun_bytes: *mut u64,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let drive = unsafe { at(drive, "drive") }?;
        let (free, bytes) = lock(&drive.session)?.free_luns();
        // SAFETY: as said above.
        unsafe {
            put(luns, free);
            put(lun_bytes, bytes);
        }
        Ok(())
    })
}

/// The drive's time in nanoseconds: simulated, or since it was opened. 0 where there is no such drive.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_now_ns(drive: *const PrismDrive) -> u64 {
    let mut now = 0;
    call(|| {
        // SAFETY: as said above.
        let drive = unsafe { at(drive, "drive") }?;
        now = lock(&drive.session)?.now().0;
        Ok(())
    });
    now
}

// ---- Applications

/// Gives flash to a new application, in whole LUNs, round robin over channels: as many as `capacity` bytes need, and
/// `over_provisioning_percent` more. It has it until it is released, over restarts too.
///
/// # Safety
/// A handle that is open, and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_allocate(
    drive: *const PrismDrive,
    name: *const c_char,
    capacity: u64,
    over_provisioning_percent: u32,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        lock(&drive.session)?.allocate(name, capacity, f64::from(over_provisioning_percent) / 100.0)
    })
}

/// Takes the flash of an application away; its data are lost. No level of it is open.
///
/// # Safety
/// A handle that is open, and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_release(drive: *const PrismDrive, name: *const c_char) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        lock(&drive.session)?.release(name)
    })
}

/// What an application did since the drive was opened.
///
/// # Safety
/// A handle that is open, and a string; the statistics can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_statistics_of(
    drive: *const PrismDrive,
    name: *const c_char,
    statistics: *mut PrismStatistics,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        let found = lock(&drive.session)?.statistics(name)?;
        // SAFETY: as said above.
        unsafe { put(statistics, found) };
        Ok(())
    })
}
