//! The monitor's durable state: which application has which LUN, which block of a LUN is which, bad blocks, and a swap that is under way.
//!
//! A LUN shows a fixed number of its first good blocks; the others are spares. While two LUNs change places, `moved` says of each block of theirs
//! whether it has: it then lies in the other LUN, in the block that this one shows at the same place. Invariants ([`State::check`]): the
//! blocks that a LUN shows are distinct, not bad, and not those of the records; a LUN has one owner.

use super::config::Request;
use pellucid_flash::ChunkGeometry;

const MAGIC: &[u8; 8] = b"PLPRISM1";
/// Magic, checksum, and length of what follows.
pub(super) const HEADER_BYTES: usize = 16;

/// A LUN of the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lun {
    /// The chunk of the LUN that each block is; empty: the LUN is out of use.
    pub shown: Vec<u32>,
    /// Chunks out of use that the LUN does not show, ascending.
    pub bad: Vec<u32>,
    /// Erases of all its blocks.
    pub erases: u64,
}

/// An application and its LUNs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Application {
    pub name: String,
    pub request: Request,
    /// Channels that it sees.
    pub channels: u32,
    /// Parallel units of the drive, channel by channel.
    pub luns: Vec<u32>,
}

/// Two LUNs that change places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Swap {
    pub luns: [u32; 2],
    /// By block.
    pub moved: Vec<bool>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// By parallel unit of the drive.
    pub luns: Vec<Lun>,
    /// By namespace.
    pub applications: Vec<Option<Application>>,
    pub swap: Option<Swap>,
    /// Blocks that a LUN in use shows.
    pub shown: u32,
}

impl State {
    /// The application that has a LUN, and the LUN's number in it.
    pub fn owner(&self, lun: u32) -> Option<(u16, u32)> {
        let mut owners = (0..).zip(&self.applications).filter_map(|(id, app)| Some((id, app.as_ref()?)));
        owners.find_map(|(id, app)| Some((id, app.luns.iter().position(|&has| has == lun)? as u32)))
    }

    /// The LUN in which block `block` of `lun` lies now.
    pub fn home(&self, lun: u32, block: u32) -> u32 {
        match &self.swap {
            Some(Swap { luns: [a, b], moved }) if moved[block as usize] && lun == *a => *b,
            Some(Swap { luns: [a, b], moved }) if moved[block as usize] && lun == *b => *a,
            _ => lun,
        }
    }

    /// Returns whether a LUN may be given away.
    pub fn is_free(&self, lun: u32) -> bool {
        let swaps = self.swap.as_ref().is_some_and(|swap| swap.luns.contains(&lun));
        !self.luns[lun as usize].shown.is_empty() && !swaps && self.owner(lun).is_none()
    }

    /// Erases of a block of a LUN, on average.
    pub fn average_erases(&self, lun: u32) -> f64 {
        self.luns[lun as usize].erases as f64 / f64::from(self.shown.max(1))
    }

    /// Packs the state as record `number`.
    pub fn encode(&self, drive: &ChunkGeometry, number: u64) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        let word = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
        let list = |out: &mut Vec<u8>, values: &[u32]| {
            word(out, values.len() as u32);
            values.iter().for_each(|&value| word(out, value));
        };
        out.extend_from_slice(&number.to_le_bytes());
        for value in [drive.groups, drive.units, drive.chunks, drive.chunk_sectors, self.shown] {
            word(&mut out, value);
        }
        for lun in &self.luns {
            out.extend_from_slice(&lun.erases.to_le_bytes());
            list(&mut out, &lun.bad);
            list(&mut out, &lun.shown);
        }
        word(&mut out, self.applications.len() as u32);
        for app in &self.applications {
            let name = app.as_ref().map_or("", |app| &app.name);
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            let Some(app) = app else { continue };
            out.extend_from_slice(&app.request.capacity_bytes.to_le_bytes());
            out.extend_from_slice(&app.request.over_provisioning.to_le_bytes());
            word(&mut out, app.channels);
            list(&mut out, &app.luns);
        }
        match &self.swap {
            None => out.push(0),
            Some(swap) => {
                out.push(1);
                swap.luns.iter().for_each(|&lun| word(&mut out, lun));
                out.extend(swap.moved.iter().map(|&moved| u8::from(moved)));
            }
        }
        let length = (out.len() - HEADER_BYTES) as u32;
        out[..8].copy_from_slice(MAGIC);
        let checksum = crc32c::crc32c(&out[HEADER_BYTES..]);
        out[8..12].copy_from_slice(&checksum.to_le_bytes());
        out[12..16].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// Bytes of the record that begins with `header`; `None`: none begins here.
    pub fn record_bytes(header: &[u8]) -> Option<usize> {
        let length = header.starts_with(MAGIC).then(|| header.get(12..16))??;
        Some(HEADER_BYTES + u32::from_le_bytes(length.try_into().ok()?) as usize)
    }

    /// The number of a record, if it is whole.
    pub fn record_number(record: &[u8]) -> Option<u64> {
        let checksum = u32::from_le_bytes(record.get(8..12)?.try_into().ok()?);
        let good = State::record_bytes(record)? == record.len()
            && crc32c::crc32c(&record[HEADER_BYTES..]) == checksum;
        good.then(|| record.get(16..24)?.try_into().ok().map(u64::from_le_bytes))?
    }

    /// Unpacks a whole record; `None`: it is of another drive.
    pub fn decode(drive: &ChunkGeometry, record: &[u8]) -> Option<State> {
        let mut from = Reader(record.get(HEADER_BYTES + 8..)?);
        let shape = [drive.groups, drive.units, drive.chunks, drive.chunk_sectors];
        for value in shape {
            (from.u32()? == value).then_some(())?;
        }
        let shown = from.u32()?;
        let units = drive.parallel_units();
        let mut luns = Vec::new();
        for _ in 0..units {
            let erases = from.u64()?;
            luns.push(Lun { erases, bad: from.list(drive.chunks)?, shown: from.list(drive.chunks)? });
        }
        let mut applications = Vec::new();
        for _ in 0..from.u32()? {
            let name = from.take(1)?[0];
            let name = String::from_utf8(from.take(name.into())?.to_vec()).ok()?;
            if name.is_empty() {
                applications.push(None);
                continue;
            }
            let capacity_bytes = from.u64()?;
            let request = Request { capacity_bytes, over_provisioning: f64::from_bits(from.u64()?) };
            let (channels, luns) = (from.u32()?, from.list(units)?);
            applications.push(Some(Application { name, request, channels, luns }));
        }
        let swap = match from.take(1)?[0] {
            0 => None,
            _ => {
                let luns = [from.u32()?, from.u32()?];
                let moved = from.take(shown as usize)?.iter().map(|&moved| moved != 0).collect();
                luns.iter().all(|&lun| lun < units).then_some(Swap { luns, moved })
            }
        };
        let state = State { luns, applications, swap, shown };
        let whole = |lun: &Lun| lun.shown.is_empty() || lun.shown.len() == shown as usize;
        (from.0.is_empty() && state.luns.iter().all(whole)).then_some(state)
    }

    /// Walks every invariant and panics, naming it, where one is broken. `kept`: chunks that hold records.
    pub fn check(&self, drive: &ChunkGeometry, kept: impl Fn(u32, u32) -> bool) {
        let mut owned = vec![0; self.luns.len()];
        for app in self.applications.iter().flatten() {
            app.luns.iter().for_each(|&lun| owned[lun as usize] += 1);
            assert!((app.luns.len() as u32).is_multiple_of(app.channels), "{}: channels alike", app.name);
        }
        for (number, lun) in (0..).zip(&self.luns) {
            assert!(owned[number as usize] <= u32::from(!lun.shown.is_empty()), "LUN {number}: owners");
            let mut seen = vec![false; drive.chunks as usize];
            for &chunk in lun.shown.iter().chain(&lun.bad) {
                assert!(
                    !std::mem::replace(&mut seen[chunk as usize], true),
                    "LUN {number}: chunk {chunk} twice"
                );
            }
            assert!(!lun.shown.iter().any(|&chunk| kept(number, chunk)), "LUN {number} shows a record");
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Numbers below `limit`, at most as many.
    fn list(&mut self, limit: u32) -> Option<Vec<u32>> {
        let count = self.u32()?;
        let values = (0..count.min(limit + 1)).map(|_| self.u32().filter(|&value| value < limit));
        values.collect::<Option<Vec<u32>>>().filter(|values| values.len() == count as usize)
    }
}
