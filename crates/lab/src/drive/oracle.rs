//! The oracle: a plain map of every sector, against which each run can be checked.
//!
//! Every write gets a version, and every sector it writes a *stamp*: a mix of sector number and version. Reading converts a stamp back to a version;
//! a stale, torn or misplaced sector gives a version out of range.
//!
//! A read may return, for each sector:
//!
//! ```text
//!   lower bound ≤ version ≤ newest submitted          (lower bound: the newest write that had surely taken effect
//!                                                      when the read was submitted)
//!   zeros: if the sector was never written, or trimmed at or after the lower bound
//! ```
//! Writes in flight together may take effect in any order, so the lower bound is the oldest of such a group. After a power cut the lower bound falls
//! back to the version that a flush or a forced write had made durable.

use super::namespaces::BlockNamespace;
use pellucid_device::Device;
use pellucid_flash::{Lba, Lpn, Opcode};
use pellucid_media::ReadResult;
use std::collections::HashMap;
use std::ops::{Index, IndexMut, Range};

/// Returns the stamp of a sector and a version, from 1 on.
pub fn stamp(lba: Lba, version: u32) -> u32 {
    mix(lba) ^ version
}

fn mix(lba: Lba) -> u32 {
    let mut z = lba.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // The top bit is never zero, so that a stamp is not mistaken for a blank sector.
    ((z ^ (z >> 31)) >> 32) as u32 | 0x8000_0000
}

/// Fills the images of consecutive sectors with their stamps, repeated over each image.
#[inline]
pub fn fill_images(images: &mut [u8], image_bytes: usize, lba: Lba, version: u32) {
    let (words, _) = images.as_chunks_mut::<4>();
    if image_bytes == 4 {
        for (sector, word) in (lba.0..).zip(words) {
            *word = stamp(Lba(sector), version).to_le_bytes();
        }
        return;
    }
    for (sector, image) in (lba.0..).zip(words.chunks_exact_mut((image_bytes / 4).max(1))) {
        image.fill(stamp(Lba(sector), version).to_le_bytes());
    }
}

/// A sector read with wrong data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// Address of the sector.
    pub lba: Lba,
    /// Version read, or `None` for zeros or no stamp of this sector.
    pub version: Option<u32>,
    /// Oldest version allowed.
    pub oldest: u32,
    /// Newest version allowed.
    pub newest: u32,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch { lba, version, oldest, newest } = self;
        match version {
            Some(v) => write!(f, "sector {} came back in version {v}; allowed: {oldest} to {newest}", lba.0),
            None => write!(f, "sector {} came back blank or foreign; allowed: {oldest} to {newest}", lba.0),
        }
    }
}

/// Memory of the oracle per sector written.
pub const ORACLE_BYTES_PER_SECTOR: u64 = size_of::<Sector>() as u64;

/// A sector that was never written.
const BLANK: Sector = Sector { settled: 0, newest: 0, trimmed: 0, durable: 0 };

#[derive(Clone, Copy, Debug)]
struct Sector {
    settled: u32,
    newest: u32,
    trimmed: u32,
    durable: u32,
}

/// Sectors per table page: small enough that scattered writes cost little, large enough that pages are few.
const PAGE: usize = 1024;

/// All sectors, in memory only where something was written: a drive of a terabyte is mostly blank.
#[derive(Clone, Debug)]
struct Sectors(Vec<Option<Box<[Sector; PAGE]>>>);

impl Sectors {
    fn new(sectors: u64) -> Sectors {
        Sectors(vec![None; sectors.div_ceil(PAGE as u64) as usize])
    }

    fn touched(&mut self) -> impl Iterator<Item = &mut Sector> {
        self.0.iter_mut().flatten().flat_map(|page| page.iter_mut())
    }
}

impl Index<usize> for Sectors {
    type Output = Sector;

    fn index(&self, at: usize) -> &Sector {
        self.0[at / PAGE].as_deref().map_or(&BLANK, |page| &page[at % PAGE])
    }
}

impl IndexMut<usize> for Sectors {
    fn index_mut(&mut self, at: usize) -> &mut Sector {
        &mut self.0[at / PAGE].get_or_insert_with(|| Box::new([BLANK; PAGE]))[at % PAGE]
    }
}

/// A write that has not completed.
#[derive(Clone, Copy, Debug)]
struct Group {
    writes: u32,
    oldest: u32,
    newest: u32,
}

/// The expected content of a drive.
#[derive(Clone, Debug)]
pub struct Oracle {
    sectors: Sectors,
    version: u32,
    open: HashMap<u64, Group>,
    /// Sector and lower bound of changes completed since the last flush.
    unflushed: Vec<(u64, u32)>,
    /// True if the content of sectors without a later write is unknown.
    unknown: bool,
}

/// The versions that a read may return, as of its submission.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    oldest: Vec<u32>,
}

impl Oracle {
    /// Returns the oracle of an empty drive of `sectors` sectors.
    pub fn new(sectors: u64) -> Oracle {
        let sectors = Sectors::new(sectors);
        Oracle { sectors, version: 0, open: HashMap::new(), unflushed: Vec::new(), unknown: false }
    }

    /// Returns the oracle of a drive of `sectors` sectors that others have written: a sector is checked from its first write on. For media that
    /// cannot be read without leaving traces, such as those in a file.
    pub fn of_unknown(sectors: u64) -> Oracle {
        Oracle { unknown: true, ..Oracle::new(sectors) }
    }

    /// Reads the present content of a drive at rest that others have written. Earlier losses remain unknown.
    ///
    /// # Panics
    /// With a file store.
    pub fn of_drive(device: &Device) -> Oracle {
        let namespaces = BlockNamespace::all(device);
        let mut oracle = Oracle::new(namespaces.iter().map(|namespace| namespace.sectors).sum());
        let sectors = u64::from(device.layout().sectors_per_unit);
        let image_bytes = device.image_bytes();
        let mut images = vec![0; image_bytes * sectors as usize];
        // Reading advances the random streams of faults, so it uses a copy: the run that follows is the same as without.
        let mut media = device.media().clone();
        let units = namespaces
            .iter()
            .flat_map(|namespace| (0..(namespace.sectors / sectors) as u32).map(move |lpn| (namespace, lpn)));
        for (namespace, lpn) in units {
            let Some(ppa) = device.namespace(namespace.number).locate(Lpn(lpn)) else { continue };
            let attempts = 0..=device.config().scheduler.read_retries;
            let found = attempts.map(|attempt| media.read(ppa, 0, &mut images, attempt));
            if !found.into_iter().any(|result| matches!(result, ReadResult::Ok { .. })) {
                continue;
            }
            for (i, image) in images.chunks_exact(image_bytes).enumerate() {
                let lba = namespace.stamped(Lba(u64::from(lpn) * sectors + i as u64));
                oracle.observed(lba, version_of(lba, image).unwrap_or(0));
            }
        }
        oracle
    }

    /// Submits a write or trim of these sectors; returns its version.
    pub fn submit_change(&mut self, opcode: Opcode, lba: Lba, sectors: u32) -> u32 {
        self.version += 1;
        let version = self.version;
        for at in lba.0..lba.0 + u64::from(sectors) {
            let sector = &mut self.sectors[at as usize];
            sector.newest = version;
            if opcode != Opcode::Write {
                sector.trimmed = version;
            }
            let group = self.open.entry(at).or_insert(Group { writes: 0, oldest: version, newest: version });
            group.writes += 1;
            group.newest = version;
        }
        version
    }

    /// Completes a change. `durable`: it was a forced write. `ok`: it succeeded; otherwise it may or may not have taken effect.
    pub fn complete_change(&mut self, lba: Lba, sectors: u32, ok: bool, durable: bool) {
        for at in lba.0..lba.0 + u64::from(sectors) {
            let group = self.open.get_mut(&at).expect("a completion without its submission");
            group.writes -= 1;
            if !ok {
                // The older content is possible too from here on.
                group.oldest = group.oldest.min(self.sectors[at as usize].settled);
            }
            if group.writes == 0 {
                let oldest = group.oldest;
                self.open.remove(&at);
                let sector = &mut self.sectors[at as usize];
                sector.settled = sector.settled.max(oldest);
                if durable {
                    sector.durable = sector.durable.max(oldest);
                } else {
                    self.unflushed.push((at, oldest));
                }
            }
        }
    }

    /// Submits a flush of these sectors; returns the changes that it will make durable.
    pub fn submit_flush(&mut self, sectors: Range<u64>) -> Vec<(u64, u32)> {
        self.unflushed.iter().filter(|(at, _)| sectors.contains(at)).copied().collect()
    }

    /// Completes a successful flush.
    pub fn complete_flush(&mut self, covered: &[(u64, u32)]) {
        for &(at, version) in covered {
            let sector = &mut self.sectors[at as usize];
            sector.durable = sector.durable.max(version);
        }
        let sectors = &self.sectors;
        self.unflushed.retain(|&(at, version)| sectors[at as usize].durable < version);
    }

    /// Marks sectors whose data the next power cut may lose although they were flushed; trims since the last flush may then be lost with the data.
    pub fn forgo(&mut self, sectors: &[Lba]) {
        for lba in sectors {
            self.sectors[lba.0 as usize].durable = 0;
        }
        for sector in self.sectors.touched().filter(|sector| sector.trimmed > sector.durable) {
            sector.durable = 0;
        }
    }

    /// Cuts power: unflushed writes, and those in flight, may be lost.
    pub fn power_cut(&mut self) {
        self.open.clear();
        self.unflushed.clear();
        for sector in self.sectors.touched() {
            sector.settled = sector.durable;
        }
    }

    /// Takes the version read from a sector after a power cut, with nothing in flight: data on the media stay, and lost data do not reappear, so a
    /// first full read fixes the state. (The drive may hold versions that this oracle did not write.)
    pub fn observed(&mut self, lba: Lba, version: u32) {
        let sector = &mut self.sectors[lba.0 as usize];
        (sector.settled, sector.durable, sector.newest) = (version, version, version);
        // Zeros read are the state; a lost trim no longer matters.
        sector.trimmed = 0;
        self.version = self.version.max(version);
    }

    /// Submits a read, and fills in its promise.
    pub fn submit_read(&self, lba: Lba, sectors: u32, promise: &mut Promise) {
        promise.oldest.clear();
        promise
            .oldest
            .extend((lba.0..lba.0 + u64::from(sectors)).map(|at| self.sectors[at as usize].settled));
    }

    /// Checks a completed read with these images.
    pub fn check_read(
        &self,
        lba: Lba,
        image_bytes: usize,
        data: &[u8],
        promise: &Promise,
    ) -> Result<(), Mismatch> {
        for (i, image) in data.chunks_exact(image_bytes).enumerate() {
            let lba = Lba(lba.0 + i as u64);
            let sector = &self.sectors[lba.0 as usize];
            let oldest = promise.oldest[i];
            self.check_image(lba, image, oldest, sector)?;
        }
        Ok(())
    }

    fn check_image(&self, lba: Lba, image: &[u8], oldest: u32, sector: &Sector) -> Result<(), Mismatch> {
        let version = version_of(lba, image);
        let ok = match version {
            Some(0) => oldest == 0 || sector.trimmed >= oldest,
            _ if self.unknown && oldest == 0 => true,
            Some(v) => v >= oldest && v <= sector.newest,
            None => false,
        };
        let version = version.filter(|&v| v != 0);
        if ok { Ok(()) } else { Err(Mismatch { lba, version, oldest, newest: sector.newest }) }
    }

    /// Returns the current lower bound of a sector.
    pub fn settled(&self, lba: Lba) -> u32 {
        self.sectors[lba.0 as usize].settled
    }
}

/// Returns the version in an image; 0 for a blank one; `None` if it belongs to another sector or is torn.
pub fn version_of(lba: Lba, image: &[u8]) -> Option<u32> {
    let first = u32::from_le_bytes(image[..4].try_into().expect("an image has at least 4 bytes"));
    if image.chunks_exact(4).any(|w| w != first.to_le_bytes()) {
        return None;
    }
    if first == 0 {
        return Some(0);
    }
    let version = first ^ mix(lba);
    (version < 0x8000_0000).then_some(version)
}
