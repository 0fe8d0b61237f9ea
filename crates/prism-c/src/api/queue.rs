//! Asynchronous operations.

use super::{Kept, PrismDrive, PrismLevel, at, call, length, lock, many, many_mut, on_level, put};
use crate::failure::Failure;
use crate::session::{Done, Work};
use crate::types::{PrismCompletion, PrismOperation, PrismRequest, PrismStatus};

// ---- Without waiting

/// Begins an operation without waiting for its end; `prism_poll` reports its completion. An operation that is
/// refused here has no completion.
///
/// # Safety
/// The handle is open; `request` is a request, and its data are as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_submit(level: *const PrismLevel, request: *const PrismRequest) -> PrismStatus {
    // SAFETY: guaranteed by the caller, as documented.
    unsafe {
        on_level(level, |session, opened| {
            let request = at(request, "request")?;
            let PrismRequest { token, operation, mark, address, offset, data, length: bytes } = *request;
            let address = address.into();
            let is = |wanted: PrismOperation| operation == wanted as u32;
            let reads = [PrismOperation::PageRead, PrismOperation::FlashRead, PrismOperation::FtlRead];
            let reads = reads.into_iter().any(is);
            if reads && data.is_null() && bytes > 0 {
                return Err(Failure::invalid("data: a null pointer"));
            }
            let mut copy = || Ok::<Vec<u8>, Failure>(session.copy(many(data.cast_const().cast(), bytes)?));
            let work = if is(PrismOperation::PageRead) {
                Work::PageRead { address, bytes: length(bytes)? }
            } else if is(PrismOperation::PageWrite) {
                Work::PageWrite { address, data: copy()? }
            } else if is(PrismOperation::BlockErase) {
                Work::BlockErase { address }
            } else if is(PrismOperation::FlashRead) {
                Work::FlashRead { address, offset, bytes: length(bytes)? }
            } else if is(PrismOperation::FlashWrite) {
                Work::FlashWrite { address, mark, data: copy()? }
            } else if is(PrismOperation::FtlRead) {
                Work::FtlRead { at: offset, bytes: length(bytes)? }
            } else if is(PrismOperation::FtlWrite) {
                Work::FtlWrite { at: offset, data: copy()? }
            } else if is(PrismOperation::FtlTrim) {
                Work::FtlTrim { at: offset, bytes }
            } else if is(PrismOperation::FtlFlush) {
                Work::FtlFlush
            } else {
                return Err(Failure::invalid(format!("operation {operation}: allowed: a prism_operation")));
            };
            let destination = if reads { data.cast() } else { std::ptr::null_mut() };
            session.submit(opened, work, Kept { token, destination })
        })
    }
}

/// Returns completions of operations on all levels of the drive: stores at most `room` of them, and returns
/// their number in `count`. The call waits until `least` operations, or all that are under way, have ended.
/// With `least` 0 it returns immediately; virtual time then stands still.
///
/// # Safety
/// The handle is open; `room` completions can be stored, and their number at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_poll(
    drive: *const PrismDrive,
    completions: *mut PrismCompletion,
    room: u32,
    least: u32,
    count: *mut u32,
) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let (drive, places) = unsafe { (at(drive, "drive")?, many_mut(completions, room.into())?) };
        let mut session = lock(&drive.session)?;
        session.look();
        let mut ended = 0;
        for place in places {
            let Some(done) = session.poll(ended < least) else { break };
            let Done { keep: Kept { token, destination }, at, status, data } = done;
            if status == PrismStatus::Ok && !destination.is_null() {
                // SAFETY: the data are as long as was asked for, and the submitting caller said that this many
                // bytes may be stored.
                unsafe { destination.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            }
            session.put_back(data);
            *place = PrismCompletion { token, at_ns: at.0, status };
            ended += 1;
        }
        // SAFETY: guaranteed by the caller, as documented.
        unsafe { put(count, ended) };
        match ended < least.min(room) && session.under_way() > 0 {
            true => Err(Failure::new(PrismStatus::Unreachable, "the drive does not answer")),
            false => Ok(()),
        }
    })
}

/// Waits until nothing is under way on the drive: neither operations nor erases in the background.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_rest(drive: *const PrismDrive) -> PrismStatus {
    call(|| {
        // SAFETY: guaranteed by the caller, as documented.
        let drive = unsafe { at(drive, "drive") }?;
        lock(&drive.session)?.rest();
        Ok(())
    })
}
