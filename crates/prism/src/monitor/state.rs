//! The monitor's durable state: owners of LUNs, the block maps of LUNs, bad blocks, and a swap in progress.
//!
//! A LUN shows a fixed number of its first good blocks; the others are spares. During a swap of two LUNs, `moved` tells which of their blocks have
//! moved: a moved block is in the other LUN, in the block that this LUN shows at the same position. Invariants ([`State::check`]): the blocks that a
//! LUN shows are distinct, not bad, and not those of the records; a LUN has one owner.

use super::config::Request;
use pellucid_flash::ChunkGeometry;

const MAGIC: &[u8; 8] = b"PLPRISM1";
/// Magic, checksum, and length of the rest.
pub(super) const HEADER_BYTES: usize = 16;

/// A LUN of the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lun {
    /// The chunk of each block; empty: the LUN is retired.
    shown: Vec<u32>,
    /// Retired chunks that the LUN does not show, ascending.
    bad: Vec<u32>,
    /// Erases of all its blocks.
    erases: u64,
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

/// A swap of two LUNs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Swap {
    luns: [u32; 2],
    /// By block: true if it has moved.
    moved: Vec<bool>,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// By parallel unit of the drive.
    luns: Vec<Lun>,
    /// By namespace.
    applications: Vec<Option<Application>>,
    swap: Option<Swap>,
    /// Blocks that a LUN in use shows.
    shown: u32,
}

impl State {
    /// The state of blank media without bad blocks: `luns` LUNs that show `shown` blocks each.
    pub fn blank(luns: u32, shown: u32) -> State {
        let lun = Lun { shown: (0..shown).collect(), ..Lun::default() };
        State { luns: vec![lun; luns as usize], applications: Vec::new(), swap: None, shown }
    }

    // ---- LUNs

    fn lun(&self, lun: u32) -> &Lun {
        &self.luns[lun as usize]
    }

    fn lun_mut(&mut self, lun: u32) -> &mut Lun {
        &mut self.luns[lun as usize]
    }

    /// Blocks that a LUN in use shows.
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Reports whether a LUN is in use, not retired.
    pub fn is_in_use(&self, lun: u32) -> bool {
        !self.lun(lun).shown.is_empty()
    }

    /// Retires a LUN.
    pub fn withdraw(&mut self, lun: u32) {
        self.lun_mut(lun).shown.clear();
    }

    /// Total erases of a LUN's blocks.
    pub fn erases(&self, lun: u32) -> u64 {
        self.lun(lun).erases
    }

    /// Counts the erase of a block of a LUN.
    pub fn count_erase(&mut self, lun: u32) {
        self.lun_mut(lun).erases += 1;
    }

    /// Number of retired chunks of a LUN that are not shown.
    pub fn bad_blocks(&self, lun: u32) -> u32 {
        self.lun(lun).bad.len() as u32
    }

    /// Reports whether a chunk of a LUN is retired and not shown.
    pub fn is_bad(&self, lun: u32, chunk: u32) -> bool {
        self.lun(lun).bad.contains(&chunk)
    }

    /// Good chunks of a LUN with `chunks` that are not shown.
    pub fn hidden(&self, lun: u32, chunks: u32) -> impl Iterator<Item = u32> + use<> {
        let Lun { shown, bad, .. } = self.lun(lun);
        let mut hidden = vec![true; chunks as usize];
        shown.iter().chain(bad).for_each(|&chunk| hidden[chunk as usize] = false);
        (0..chunks).filter(move |&chunk| hidden[chunk as usize])
    }

    /// The block that shows a chunk of a LUN.
    pub fn block_of(&self, lun: u32, chunk: u32) -> Option<u32> {
        self.lun(lun).shown.iter().position(|&shown| shown == chunk).map(|block| block as u32)
    }

    /// The chunk of a LUN's block.
    pub fn chunk_of(&self, lun: u32, block: u32) -> u32 {
        self.lun(lun).shown[block as usize]
    }

    /// Replaces a bad chunk of a LUN with `spare`, if it was shown. `false`: it was shown and there is no spare; nothing has changed.
    pub fn put_aside(&mut self, lun: u32, chunk: u32, spare: Option<u32>) -> bool {
        let block = self.block_of(lun, chunk);
        let record = self.lun_mut(lun);
        match (block, spare) {
            (Some(_), None) => return false,
            (Some(block), Some(spare)) => record.shown[block as usize] = spare,
            (None, _) => {}
        }
        if let Err(at) = record.bad.binary_search(&chunk) {
            record.bad.insert(at, chunk);
        }
        true
    }

    // ---- applications

    /// The applications, by namespace.
    pub fn applications(&self) -> impl Iterator<Item = (u16, &Application)> {
        (0..).zip(&self.applications).filter_map(|(id, app)| Some((id, app.as_ref()?)))
    }

    /// The application of a namespace.
    pub fn application(&self, id: u16) -> Option<&Application> {
        self.applications.get(usize::from(id))?.as_ref()
    }

    /// The namespace of an application.
    pub fn find(&self, name: &str) -> Option<u16> {
        self.applications().find(|(_, app)| app.name == name).map(|(id, _)| id)
    }

    /// Adds an application, and returns its namespace.
    pub fn add(&mut self, app: Application) -> u16 {
        let free = self.applications.iter().position(Option::is_none);
        let at = free.unwrap_or(self.applications.len());
        if free.is_none() {
            self.applications.push(None);
        }
        self.applications[at] = Some(app);
        at as u16
    }

    /// Removes an application, and returns it.
    pub fn remove(&mut self, id: u16) -> Option<Application> {
        self.applications[usize::from(id)].take()
    }

    /// Restores a removed application.
    pub fn put_back(&mut self, id: u16, app: Application) {
        let place = &mut self.applications[usize::from(id)];
        assert!(place.is_none(), "a namespace has one application");
        *place = Some(app);
    }

    // ---- two LUNs that change places

    /// The LUNs being swapped.
    pub fn swapping(&self) -> Option<[u32; 2]> {
        self.swap.as_ref().map(|swap| swap.luns)
    }

    /// Starts a swap of two LUNs.
    pub fn begin_swap(&mut self, luns: [u32; 2]) {
        assert!(self.swap.is_none(), "two LUNs change places at a time");
        self.swap = Some(Swap { luns, moved: vec![false; self.shown as usize] });
    }

    /// Blocks that have not moved yet.
    pub fn unmoved(&self) -> impl Iterator<Item = u32> {
        let moved = self.swap.iter().flat_map(|swap| &swap.moved);
        (0..).zip(moved).filter(|(_, moved)| !**moved).map(|(block, _)| block)
    }

    /// Moves a block: `targets` are the chunks of the other LUN that took it, by side. Returns the former chunk of each LUN that took one, with the
    /// LUN.
    pub fn move_block(&mut self, block: u32, targets: [Option<u32>; 2]) -> Vec<(u32, u32)> {
        let swap = self.swap.as_mut().expect("two LUNs that change places");
        let was = std::mem::replace(&mut swap.moved[block as usize], true);
        assert!(!was, "a block moves once");
        let [a, b] = swap.luns;
        let taken = targets.into_iter().zip([b, a]).filter_map(|(target, lun)| Some((lun, target?)));
        let place = |(lun, target): (u32, u32)| {
            let shown = &mut self.luns[lun as usize].shown[block as usize];
            (lun, std::mem::replace(shown, target))
        };
        taken.map(place).collect()
    }

    /// Ends the swap, and returns its LUNs: each now belongs to the other's owner.
    pub fn end_swap(&mut self) -> Option<[u32; 2]> {
        let Swap { luns: [a, b], .. } = self.swap.take()?;
        for lun in self.applications.iter_mut().flatten().flat_map(|app| &mut app.luns) {
            *lun = match *lun {
                lun if lun == a => b,
                lun if lun == b => a,
                lun => lun,
            };
        }
        Some([a, b])
    }

    // ---- what follows from it

    /// The application that owns a LUN, and the LUN's number in it.
    pub fn owner(&self, lun: u32) -> Option<(u16, u32)> {
        self.applications()
            .find_map(|(id, app)| Some((id, app.luns.iter().position(|&has| has == lun)? as u32)))
    }

    /// The LUN that currently holds block `block` of `lun`.
    pub fn home(&self, lun: u32, block: u32) -> u32 {
        match &self.swap {
            Some(Swap { luns: [a, b], moved }) if moved[block as usize] && lun == *a => *b,
            Some(Swap { luns: [a, b], moved }) if moved[block as usize] && lun == *b => *a,
            _ => lun,
        }
    }

    /// Reports whether a LUN may be allocated.
    pub fn is_free(&self, lun: u32) -> bool {
        let swaps = self.swapping().is_some_and(|luns| luns.contains(&lun));
        self.is_in_use(lun) && !swaps && self.owner(lun).is_none()
    }

    /// Mean erases of a block of a LUN.
    pub fn average_erases(&self, lun: u32) -> f64 {
        self.erases(lun) as f64 / f64::from(self.shown.max(1))
    }

    /// Encodes the state as record `number`.
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

    /// Length of the record that begins with `header`; `None`: not a record.
    pub fn record_bytes(header: &[u8]) -> Option<usize> {
        let length = header.starts_with(MAGIC).then(|| header.get(12..16))??;
        Some(HEADER_BYTES + u32::from_le_bytes(length.try_into().ok()?) as usize)
    }

    /// Number of a record, if it is whole.
    pub fn record_number(record: &[u8]) -> Option<u64> {
        let checksum = u32::from_le_bytes(record.get(8..12)?.try_into().ok()?);
        let good = State::record_bytes(record)? == record.len()
            && crc32c::crc32c(&record[HEADER_BYTES..]) == checksum;
        good.then(|| record.get(16..24)?.try_into().ok().map(u64::from_le_bytes))?
    }

    /// Decodes a whole record; `None`: it is of another drive.
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

    /// Checks every invariant, and panics with its name if one is broken. `kept`: chunks that hold records.
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

    /// Reads at most `limit` numbers, each below `limit`.
    fn list(&mut self, limit: u32) -> Option<Vec<u32>> {
        let count = self.u32()?;
        let values = (0..count.min(limit + 1)).map(|_| self.u32().filter(|&value| value < limit));
        values.collect::<Option<Vec<u32>>>().filter(|values| values.len() == count as usize)
    }
}
