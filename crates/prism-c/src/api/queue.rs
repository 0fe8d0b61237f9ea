//! Operations that nobody waits for.

use super::{Kept, PrismDrive, PrismLevel, at, call, length, lock, many, many_mut, on_level, put};
use crate::failure::Failure;
use crate::session::{Done, Work};
use crate::types::{PrismCompletion, PrismOperation, PrismRequest, PrismStatus};

// ---- Without waiting

/// Begins an operation and does not wait for its end, which `prism_poll` tells. An operation that is refused here is not told there.
///
/// # Safety
/// A handle that is open; a request, and its data as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_submit(level: *const PrismLevel, request: *const PrismRequest) -> PrismStatus {
    // SAFETY: as said above.
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

/// Tells which operations have ended, of all levels of the drive: at most `room` are stored, and `count` says how many. It waits until
/// there are `least`, or all that are under way have ended. With `least` 0 it does not wait: in virtual time nothing goes on then.
///
/// # Safety
/// A handle that is open; so many completions can be stored, and their number at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_poll(
    drive: *const PrismDrive,
    completions: *mut PrismCompletion,
    room: u32,
    least: u32,
    count: *mut u32,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let (drive, places) = unsafe { (at(drive, "drive")?, many_mut(completions, room.into())?) };
        let mut session = lock(&drive.session)?;
        session.look();
        let mut ended = 0;
        for place in places {
            let Some(done) = session.poll(ended < least) else { break };
            let Done { keep: Kept { token, destination }, at, status, data } = done;
            if status == PrismStatus::Ok && !destination.is_null() {
                // SAFETY: as many bytes as were asked for, where the submitting caller said that they may be stored.
                unsafe { destination.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            }
            session.put_back(data);
            *place = PrismCompletion { token, at_ns: at.0, status };
            ended += 1;
        }
        // SAFETY: as said above.
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
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_rest(drive: *const PrismDrive) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let drive = unsafe { at(drive, "drive") }?;
        lock(&drive.session)?.rest();
        Ok(())
    })
}
