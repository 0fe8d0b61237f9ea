//! Drives, and the applications that own flash on them.

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

/// Returns the library's interface version. A program compares it with the `PRISM_API_VERSION` that it was
/// compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn prism_api_version() -> u32 {
    PRISM_API_VERSION
}

/// Returns a sentence about this thread's last call that did not end with `PRISM_STATUS_OK`. It stays until
/// the thread's next such call.
#[unsafe(no_mangle)]
pub extern "C" fn prism_error() -> *const c_char {
    failure::last(CStr::as_ptr)
}

/// Returns the name of a status, as one word.
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

/// Opens a drive and its flash monitor; blank media get a new monitor. `uri` is one of:
///
/// - a preset or the path of a description, optionally with settings:
///   `open-channel,drive.media.blocks=64`. The drive is modelled in this process, and its data are
///   in memory unless the settings say `drive.media.store=file:PATH`.
/// - `nvme+tcp://HOST:PORT`, optionally with `/NQN`: an open-channel or zoned drive that another process or
///   machine serves.
/// - `file:PATH`, optionally with `,size=10GiB`: a block device, or a plain file, which is created if it does
///   not exist and a size is given.
///
/// `flags`: 0, `PRISM_REAL_TIME`, `PRISM_FORMAT`, or their sum.
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
        // SAFETY: guaranteed by the caller, as documented.
        let uri = unsafe { text(uri, "uri") }?;
        if drive.is_null() || flags & !(PRISM_REAL_TIME | PRISM_FORMAT) != 0 {
            return Err(Failure::invalid(format!(
                "flags {flags}; allowed: 0, PRISM_REAL_TIME, PRISM_FORMAT"
            )));
        }
        let pace = if flags & PRISM_REAL_TIME != 0 { Pace::Real } else { Pace::Virtual };
        let session = Session::open(uri, pace, flags & PRISM_FORMAT != 0)?;
        let opened = Box::new(PrismDrive { session: Arc::new(Mutex::new(session)) });
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { drive.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// Closes a drive; null is ignored. The drive lives on while a level on it is open. Completions that were not
/// polled are lost.
///
/// # Safety
/// The handle is open, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_close(drive: *mut PrismDrive) {
    if !drive.is_null() {
        call(|| {
            // SAFETY: the pointer came out of a box in `prism_open`, and goes back once.
            drop(unsafe { Box::from_raw(drive) });
            Ok(())
        });
    }
}

/// Returns the layout of the whole drive, including the flash that no application sees.
///
/// # Safety
/// The handle is open; a geometry can be stored at `geometry`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_drive_geometry(
    drive: *const PrismDrive,
    geometry: *mut PrismGeometry,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let drive = unsafe { at(drive, "drive") }?;
        let found = lock(&drive.session)?.geometry();
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { put(geometry, found) };
        Ok(())
    })
}

/// Returns the number of LUNs that no application owns, and the bytes that an application can store in one.
/// Each of the last two pointers may be null.
///
/// # Safety
/// The handle is open; the results can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_free_luns(
    drive: *const PrismDrive,
    luns: *mut u32,
    lun_bytes: *mut u64,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let drive = unsafe { at(drive, "drive") }?;
        let (free, bytes) = lock(&drive.session)?.free_luns();
        // SAFETY: guaranteed by the caller, as documented.
        unsafe {
            put(luns, free);
            put(lun_bytes, bytes);
        }
        Ok(())
    })
}

/// Returns the drive's time in nanoseconds: simulated time, or time since it was opened. Returns 0 if the
/// handle is null.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_now_ns(drive: *const PrismDrive) -> u64 {
    let mut now = 0;
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let drive = unsafe { at(drive, "drive") }?;
        now = lock(&drive.session)?.now().0;
        Ok(())
    });
    now
}

// ---- Applications

/// Allocates flash to a new application, in whole LUNs, round robin over channels: as many as `capacity`
/// bytes need, and `over_provisioning_percent` % more. The application keeps it until it is released, also
/// over restarts.
///
/// # Safety
/// The handle is open; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_allocate(
    drive: *const PrismDrive,
    name: *const c_char,
    capacity: u64,
    over_provisioning_percent: u32,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        lock(&drive.session)?.allocate(name, capacity, f64::from(over_provisioning_percent) / 100.0)
    })
}

/// Releases the flash of an application; its data are lost. None of its levels may be open.
///
/// # Safety
/// The handle is open; `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_release(drive: *const PrismDrive, name: *const c_char) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        lock(&drive.session)?.release(name)
    })
}

/// Returns an application's statistics since the drive was opened.
///
/// # Safety
/// The handle is open; `name` is a string; the statistics can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_statistics_of(
    drive: *const PrismDrive,
    name: *const c_char,
    statistics: *mut PrismStatistics,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let (drive, name) = unsafe { (at(drive, "drive")?, text(name, "name")?) };
        let found = lock(&drive.session)?.statistics(name)?;
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { put(statistics, found) };
        Ok(())
    })
}
