//! The functions of the C interface, from which the header is made.
#![expect(
    unsafe_code,
    reason = "pointers of C are what they are said to be, or there would be no C interface"
)]

use crate::failure::{self, Failure};
use crate::session::{Done, Kind, Opened, Session, Work};
use crate::types::{
    PRISM_API_VERSION, PRISM_FORMAT, PRISM_REAL_TIME, PrismAddress, PrismCompletion, PrismFound, PrismGc,
    PrismGeometry, PrismMapping, PrismOperation, PrismRequest, PrismStatistics, PrismStatus,
};
use pellucid_prism::{FlashAddress, Gc, Mapping};
use pellucid_serve::Pace;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

/// A drive that is open, with its flash monitor. Any number of threads may use one at once: their calls take turns.
pub struct PrismDrive {
    session: Shared,
}

/// A level that is open on an application's flash. It keeps its drive open. Any number of threads may use one at once.
pub struct PrismLevel {
    session: Shared,
    opened: Opened,
}

type Shared = Arc<Mutex<Session<Kept>>>;

/// What is kept of a request until it has ended.
struct Kept {
    token: u64,
    destination: *mut u8,
}

// SAFETY: the pointer is only written through, by the call of `prism_poll` that ends the request; until then the memory is this library's, as
// `PrismRequest::data` says, whichever thread that is.
unsafe impl Send for Kept {}

/// Runs a call: no panic leaves it, and its sentence is kept.
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

/// What a handle or an argument points to.
///
/// # Safety
/// It is null, or points to a `T` that nobody changes for as long as the answer is used.
unsafe fn at<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{what}: a null pointer")))
}

/// # Safety
/// It is null, or a string that ends with a zero and stays for as long as the answer is used.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what}: a null pointer")));
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what}: not UTF-8")))
}

fn length(length: u64) -> Result<usize, Failure> {
    let fits = usize::try_from(length).ok().filter(|&length| length <= isize::MAX as usize);
    fits.ok_or_else(|| Failure::invalid(format!("{length} bytes: too many")))
}

/// # Safety
/// It is null, or points to so many `T` that nobody changes for as long as the answer is used.
unsafe fn many<'a, T>(pointer: *const T, count: u64) -> Result<&'a [T], Failure> {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    length(bytes)?;
    match pointer.is_null() {
        true if count > 0 => Err(Failure::invalid("data: a null pointer")),
        true => Ok(&[]),
        // SAFETY: the caller's; the length is looked at above.
        false => Ok(unsafe { std::slice::from_raw_parts(pointer, count as usize) }),
    }
}

/// # Safety
/// As [`many`], and nobody else reads it either.
unsafe fn many_mut<'a, T>(pointer: *mut T, count: u64) -> Result<&'a mut [T], Failure> {
    let bytes = count.saturating_mul(size_of::<T>() as u64);
    length(bytes)?;
    match pointer.is_null() {
        true if count > 0 => Err(Failure::invalid("data: a null pointer")),
        true => Ok(&mut []),
        // SAFETY: the caller's; the length is looked at above.
        false => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count as usize) }),
    }
}

/// Stores a result, unless nobody wants it.
///
/// # Safety
/// It is null, or a `T` can be stored there.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's.
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

/// Runs a call of a level.
///
/// # Safety
/// The handle is open, or null.
unsafe fn on_level(
    level: *const PrismLevel,
    run: impl FnOnce(&mut Session<Kept>, &Opened) -> Result<(), Failure>,
) -> PrismStatus {
    call(|| {
        // SAFETY: as said above.
        let level = unsafe { at(level, "level") }?;
        run(&mut *lock(&level.session)?, &level.opened)
    })
}

// ---- Raw level

/// Reads `pages` pages of one block.
///
/// # Safety
/// A handle that is open; so many pages can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Page_Read(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *mut c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let bytes = u64::from(pages) * u64::from(opened.geometry.page_size);
            session.page_read(opened, address.into(), many_mut(data.cast(), bytes)?)
        })
    }
}

/// Writes `pages` pages of one block, the next that it has: the pages of a block are written in order, each once between two erases.
///
/// # Safety
/// A handle that is open; so many pages are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Page_Write(
    level: *const PrismLevel,
    address: PrismAddress,
    data: *const c_void,
    pages: u32,
) -> PrismStatus {
    // SAFETY: as said above.
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
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Block_Erase(level: *const PrismLevel, address: PrismAddress) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.block_erase(opened, address.into())) }
}

// ---- Function level

/// The channels of the application's flash; 0 where there is no such level.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Get_SSD_Channels(level: *const PrismLevel) -> u32 {
    // SAFETY: as said above.
    unsafe { level.as_ref() }.map_or(0, |level| level.opened.geometry.channel_count)
}

/// Hands out a block of a channel, or with `PRISM_MAPPING_PAGE` a page of one, and says how many blocks of the channel can be had still.
/// `mapping` is a `prism_mapping`; `free_blocks` may be null.
///
/// # Safety
/// A handle that is open; the results can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Address_Mapper(
    level: *const PrismLevel,
    channel: u32,
    address: *mut PrismAddress,
    mapping: u32,
    free_blocks: *mut u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let (allocated, free) = session.address_mapper(opened, channel, mapping_of(mapping)?)?;
            put(address, allocated.into());
            put(free_blocks, free);
            Ok(())
        })
    }
}

/// Gives the block of `address` back: nothing in it is needed any more. It is erased in the background, when nothing reads from it.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Trim(level: *const PrismLevel, address: PrismAddress) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.flash_trim(opened, address.into())) }
}

/// Exchanges the data of the most worn and the least worn of the blocks that are full, if that is of use, and says how far apart erase counts
/// are. `shuffled` has room for `pairs` pairs of addresses, which the application exchanges in its map; `found` says how many there are:
/// one, none, or seldom more where flash has failed. `variance` is that of the erase counts of mapped blocks. Pointers to results may be
/// null.
///
/// # Safety
/// A handle that is open; the results can be stored, and at `shuffled` twice as many addresses as `pairs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Wear_Leveler(
    level: *const PrismLevel,
    shuffled: *mut PrismAddress,
    pairs: u32,
    found: *mut u32,
    variance: *mut f32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let places = many_mut(shuffled, 2 * u64::from(pairs))?;
            let (swapped, spread) = session.level_wear(opened)?;
            for (place, address) in places.iter_mut().zip(swapped.iter().flatten()) {
                *place = (*address).into();
            }
            put(found, swapped.len() as u32);
            put(variance, spread as f32);
            Ok(())
        })
    }
}

/// Reserves so many percent of the application's blocks, which are not handed out. Refused while too many blocks are handed out already;
/// the sentence says how many have to be given back.
///
/// # Safety
/// A handle that is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_SetOPS(level: *const PrismLevel, percent: u32) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { on_level(level, |session, opened| session.set_ops(opened, percent)) }
}

/// Reads `length` bytes, whole sectors, of one block from the page of `address` on.
///
/// # Safety
/// A handle that is open; so many bytes can be stored at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Read(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *mut c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_read(opened, address.into(), 0, many_mut(data.cast(), length)?)
        })
    }
}

/// Writes `length` bytes, whole pages, of one block from the page of `address` on, which is the next that the block has.
///
/// # Safety
/// A handle that is open; so many bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Flash_Write(
    level: *const PrismLevel,
    address: PrismAddress,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe { prism_flash_write_marked(level, address, 0, length, data) }
}

/// As `Flash_Write`; the application's own word stands beside the data, and is listed by `prism_found_blocks` after a restart.
///
/// # Safety
/// A handle that is open; so many bytes are at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_flash_write_marked(
    level: *const PrismLevel,
    address: PrismAddress,
    mark: u32,
    length: u64,
    data: *const c_void,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            session.flash_write(opened, address.into(), mark, many(data.cast(), length)?)
        })
    }
}

/// Lists the blocks that were found to hold data when the function level was opened: at most `room` of them are stored, and `count`
/// says how many there are.
///
/// # Safety
/// A handle that is open; so many blocks can be stored at `blocks`, and their number at `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_found_blocks(
    level: *const PrismLevel,
    blocks: *mut PrismFound,
    room: u32,
    count: *mut u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let places = many_mut(blocks, room.into())?;
            let found = session.found(opened)?;
            places.iter_mut().zip(&found).for_each(|(place, found)| *place = *found);
            put(count, found.len() as u32);
            Ok(())
        })
    }
}

/// Says which of the blocks that were found are still needed. They are mapped from now on; all others are erased in the background.
///
/// # Safety
/// A handle that is open; so many addresses are at `blocks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prism_recover(
    level: *const PrismLevel,
    blocks: *const PrismAddress,
    count: u32,
) -> PrismStatus {
    // SAFETY: as said above.
    unsafe {
        on_level(level, |session, opened| {
            let blocks = many(blocks, count.into())?;
            let blocks: Vec<FlashAddress> = blocks.iter().map(|&block| block.into()).collect();
            session.recover(opened, &blocks)
        })
    }
}

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
            let copy = || Ok::<Vec<u8>, Failure>(many(data.cast_const().cast(), bytes)?.to_vec());
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
                // SAFETY: as many bytes as were asked for, where whoever submitted it said that they may be stored.
                unsafe { destination.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            }
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
