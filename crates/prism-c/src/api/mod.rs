//! Functions of the C interface, from which the header is generated: one file for each section. This file
//! holds the parts they share.
#![expect(
    unsafe_code,
    reason = "pointers of C are what they are said to be, or there would be no C interface"
)]

mod drives;
mod function;
mod levels;
mod policy;
mod queue;
mod raw;

pub use drives::*;
pub use function::*;
pub use levels::*;
pub use policy::*;
pub use queue::*;
pub use raw::*;

use crate::failure::{self, Failure};
use crate::session::{Opened, Session};
use crate::types::{PrismGc, PrismMapping, PrismStatus};
use pellucid_prism::{Gc, Mapping};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

/// Open drive with its flash monitor. Any number of threads may use it at once; their calls take turns.
pub struct PrismDrive {
    session: Shared,
}

/// Open level on an application's flash. It keeps its drive open. Any number of threads may use it at once.
pub struct PrismLevel {
    session: Shared,
    opened: Opened,
}

type Shared = Arc<Mutex<Session<Kept>>>;

/// Request data that are kept until the request ends.
struct Kept {
    token: u64,
    destination: *mut u8,
}

// SAFETY: only the call of `prism_poll` that ends the request writes through the pointer; until then the
// memory belongs to this library, as `PrismRequest::data` says, whichever thread calls.
unsafe impl Send for Kept {}

/// Runs a call, catches its panic, and keeps its error sentence.
fn call(run: impl FnOnce() -> Result<(), Failure>) -> PrismStatus {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => PrismStatus::Ok,
        Ok(Err(failure)) => failure::keep(failure),
        Err(_) => failure::keep(broken()),
    }
}

fn broken() -> Failure {
    Failure::new(PrismStatus::Internal, "a mistake in the library; the drive is of no use any more")
}

fn lock(session: &Shared) -> Result<MutexGuard<'_, Session<Kept>>, Failure> {
    session.lock().map_err(|_| broken())
}

/// Returns the target of a handle or an argument.
///
/// # Safety
/// The pointer is null, or points to a `T` that does not change while the answer is used.
unsafe fn at<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what}: a null pointer")))
}

/// # Safety
/// The pointer is null, or a zero-terminated string that lives as long as the answer is used.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what}: a null pointer")));
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what}: not UTF-8")))
}

fn length(length: u64) -> Result<usize, Failure> {
    let fits = usize::try_from(length).ok().filter(|&length| length <= isize::MAX as usize);
    fits.ok_or_else(|| Failure::invalid(format!("{length} bytes: too many")))
}

/// # Safety
/// The pointer is null, or points to `count` values that do not change while the answer is used.
unsafe fn many<'a, T>(pointer: *const T, count: u64) -> Result<&'a [T], Failure> {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    length(bytes)?;
    match pointer.is_null() {
        true if count > 0 => Err(Failure::invalid("data: a null pointer")),
        true => Ok(&[]),
        // SAFETY: guaranteed by the caller; the length is checked above.
        false => Ok(unsafe { std::slice::from_raw_parts(pointer, count as usize) }),
    }
}

/// # Safety
/// As for [`many`], and nothing else reads the values meanwhile.
unsafe fn many_mut<'a, T>(pointer: *mut T, count: u64) -> Result<&'a mut [T], Failure> {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    length(bytes)?;
    match pointer.is_null() {
        true if count > 0 => Err(Failure::invalid("data: a null pointer")),
        true => Ok(&mut []),
        // SAFETY: guaranteed by the caller; the length is checked above.
        false => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count as usize) }),
    }
}

/// Stores a result unless the pointer is null.
///
/// # Safety
/// The pointer is null, or a `T` can be stored there.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { place.write(value) };
    }
}

fn mapping_of(mapping: u32) -> Result<Mapping, Failure> {
    match mapping {
        _ if mapping == PrismMapping::Page as u32 => Ok(Mapping::Page),
        _ if mapping == PrismMapping::Block as u32 => Ok(Mapping::Block),
        _ => Err(Failure::invalid(format!(
            "mapping {mapping}; allowed: PRISM_MAPPING_PAGE, PRISM_MAPPING_BLOCK"
        ))),
    }
}

fn gc_of(gc: u32) -> Result<Gc, Failure> {
    match gc {
        _ if gc == PrismGc::Greedy as u32 => Ok(Gc::Greedy),
        _ if gc == PrismGc::Fifo as u32 => Ok(Gc::Fifo),
        _ if gc == PrismGc::Lru as u32 => Ok(Gc::Lru),
        _ if gc == PrismGc::CostBenefit as u32 => Ok(Gc::CostBenefit),
        _ => Err(Failure::invalid(format!(
            "gc {gc}; allowed: PRISM_GC_GREEDY, PRISM_GC_FIFO, PRISM_GC_LRU, PRISM_GC_COST_BENEFIT"
        ))),
    }
}

/// Runs a call on a level.
///
/// # Safety
/// The handle is open, or null.
unsafe fn on_level(
    level: *const PrismLevel,
    run: impl FnOnce(&mut Session<Kept>, &Opened) -> Result<(), Failure>,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let level = unsafe { at(level, "level") }?;
        run(&mut *lock(&level.session)?, &level.opened)
    })
}
