//! Save area of a zoned namespace's protected buffer, updated as the buffer fills, so that any end of the process has only the effect of a
//! power cut.
//!
//! ```text
//! | record 0                                               | record 1 ...      each record is of one superpage in the buffer
//! | header A, twice | header B, twice | data of the superpage |
//! ```
//! A drive with capacitors writes its buffer to flash when its power fails. A killed process cannot, so the persistent store saves every
//! sector before its write is acknowledged. Data are written first, then a header, alternating between A and B with rising numbers: a
//! header that was being written when the process ended is invalid, and the previous one still holds. A header has its own checksum and
//! contains one for the data. A damaged header must not pass for an unfinished one: its data, and all later superpages of its zone, would
//! be missing silently. So each header is stored twice, and damage in one place costs at most one superpage.
//!
//! Invariants: a superpage has one record at most; a record that holds nothing (0 sectors) is free.

use crate::config::Namespace;
use pellucid_flash::Layout;
use pellucid_ftl::{Mark, SavedSuperpage, ZoneConfig};
use pellucid_media::Media;

/// Size of a header: number, mark, checksum of the data, and checksum of all these.
const HEADER_BYTES: usize = 8 + Mark::BYTES + 4 + 4;
/// Space for a header, twice: no header crosses a page of the file.
const HEADER_ROOM: usize = 2 * HEADER_BYTES;
const HEADERS_ROOM: usize = 2 * HEADER_ROOM;

/// State of a record.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Number of its newest header.
    number: u64,
    /// Sectors that it holds; 0: it is free.
    sectors: u32,
    /// Checksum of the data.
    checksum: u32,
}

/// The records of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct SaveArea {
    /// In the save area of the media.
    base: usize,
    stride: usize,
    image_bytes: usize,
    records: Vec<Record>,
    /// Free records, the first on top.
    free: Vec<u32>,
}

/// Records that a namespace needs: its buffer, and the superpages that stay beyond it after power cuts (each time as many zones more may be
/// partly written as superpages were in the buffer), or because their zone has no block.
fn records(zones: &ZoneConfig, layout: &Layout) -> u64 {
    let stay = layout.superpages_per_block / 2;
    u64::from(zones.stage_superpages) * 2 + u64::from(zones.active_max) + u64::from(stay)
}

fn superpage_bytes(layout: &Layout, image_bytes: usize) -> usize {
    (layout.units_per_superpage * layout.sectors_per_unit) as usize * image_bytes
}

/// Bytes of a namespace in the save area.
fn bytes(namespace: &Namespace, layout: &Layout) -> u64 {
    match namespace {
        Namespace::Zoned { zones } if zones.protected => {
            // A store that outlives the process keeps sectors as they are.
            let stride = HEADERS_ROOM + superpage_bytes(layout, layout.sector_bytes as usize);
            records(zones, layout) * stride as u64
        }
        _ => 0,
    }
}

/// Length of the save area that a drive with these namespaces needs, where its store outlives the process.
pub fn save_bytes(namespaces: &[Namespace], layout: &Layout) -> u64 {
    namespaces.iter().map(|namespace| bytes(namespace, layout)).sum()
}

impl SaveArea {
    /// The area of namespace `number`, with the superpages in it; `None`: the media have none, as nothing outlives the process.
    pub fn open(
        namespaces: &[Namespace],
        number: usize,
        layout: &Layout,
        media: &Media,
    ) -> Option<(SaveArea, Vec<SavedSuperpage>)> {
        let Namespace::Zoned { zones } = &namespaces[number] else { return None };
        if !zones.protected || media.array().save_bytes() == 0 {
            return None;
        }
        let image_bytes = media.image_bytes();
        let mut area = SaveArea {
            base: save_bytes(&namespaces[..number], layout) as usize,
            stride: HEADERS_ROOM + superpage_bytes(layout, image_bytes),
            image_bytes,
            records: vec![Record::default(); records(zones, layout) as usize],
            free: Vec::new(),
        };
        let mut found = Vec::new();
        for place in (0..area.records.len() as u32).rev() {
            match area.newest(place, media) {
                Some((record, mark)) if record.sectors > 0 => {
                    area.records[place as usize] = record;
                    found.push(SavedSuperpage { mark, place });
                }
                newest => {
                    area.records[place as usize].number = newest.map_or(0, |(record, _)| record.number);
                    area.free.push(place);
                }
            }
        }
        Some((area, found))
    }

    fn at(&self, place: u32) -> usize {
        self.base + place as usize * self.stride
    }

    /// The newer one of the headers that are whole.
    fn newest(&self, place: u32, media: &Media) -> Option<(Record, Mark)> {
        let mut bytes = [0; HEADERS_ROOM];
        media.store().save_read(self.at(place), &mut bytes);
        let headers = bytes.chunks_exact(HEADER_BYTES).filter_map(decode);
        headers.max_by_key(|(record, _)| record.number)
    }

    /// A free record.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Has a record hold the first sectors of a superpage, as many as `mark` says; those that it holds already are not written again.
    /// `false`: the store could not take them.
    pub fn save(&mut self, place: u32, mark: Mark, images: &[u8], media: &mut Media) -> bool {
        let record = self.records[place as usize];
        let held = record.sectors as usize * self.image_bytes;
        let new = &images[held..mark.sectors as usize * self.image_bytes];
        if media.store_mut().save_write(self.at(place) + HEADERS_ROOM + held, new).is_err() {
            return false;
        }
        let checksum = crc32c::crc32c_append(record.checksum, new);
        self.put_header(
            place,
            Record { number: record.number + 1, sectors: mark.sectors, checksum },
            mark,
            media,
        )
    }

    /// Reads the content of a record into the images of a superpage; `false`: it is damaged.
    pub fn load(&self, place: u32, images: &mut [u8], media: &Media) -> bool {
        let record = self.records[place as usize];
        let held = &mut images[..record.sectors as usize * self.image_bytes];
        media.store().save_read(self.at(place) + HEADERS_ROOM, held);
        crc32c::crc32c(held) == record.checksum
    }

    /// Clears a record. If the store cannot accept the header, the record stays; such a store accepts no further writes
    /// either.
    pub fn clear(&mut self, place: u32, media: &mut Media) {
        let number = self.records[place as usize].number + 1;
        let nothing = Mark { zone: 0, superpage: 0, sectors: 0, finished: false, verdict: None, epoch: 0 };
        if self.put_header(place, Record { number, sectors: 0, checksum: 0 }, nothing, media) {
            self.free.push(place);
        }
    }

    fn put_header(&mut self, place: u32, record: Record, mark: Mark, media: &mut Media) -> bool {
        let at = self.at(place) + (record.number % 2) as usize * HEADER_ROOM;
        let mut twice = [0; HEADER_ROOM];
        twice.chunks_exact_mut(HEADER_BYTES).for_each(|copy| copy.copy_from_slice(&encode(record, mark)));
        let ok = media.store_mut().save_write(at, &twice).is_ok();
        if ok {
            self.records[place as usize] = record;
        }
        ok
    }
}

fn encode(record: Record, mark: Mark) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&record.number.to_le_bytes());
    bytes[8..][..Mark::BYTES].copy_from_slice(&mark.encode());
    bytes[HEADER_BYTES - 8..][..4].copy_from_slice(&record.checksum.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// `None`: it is none, or not whole. Zeros have another checksum.
fn decode(bytes: &[u8]) -> Option<(Record, Mark)> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let number = u64::from(word(0)) | u64::from(word(4)) << 32;
    let whole = number > 0 && crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) == word(HEADER_BYTES - 4);
    let mark = Mark::decode(&std::array::from_fn(|i| bytes[8 + i]));
    let record = Record { number, sectors: mark.sectors, checksum: word(HEADER_BYTES - 8) };
    whole.then_some((record, mark))
}
