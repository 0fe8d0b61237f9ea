//! Sectors that a trace reads before it writes them: the drive must hold data there in advance.
//!
//! One pass over the trace, with two bits for each touched sector, in pages allocated on demand.

use super::{Shaped, TraceError};
use pellucid_flash::Opcode;

/// Words of a page of a set: 4096 sectors.
const PAGE_WORDS: usize = 64;
const PAGE_SECTORS: u64 = PAGE_WORDS as u64 * 64;

/// A set of sectors, in memory only where it has members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectorSet {
    pages: Vec<Option<Box<[u64; PAGE_WORDS]>>>,
}

impl SectorSet {
    fn word(&mut self, word: u64) -> &mut u64 {
        let page = (word / PAGE_WORDS as u64) as usize;
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        &mut self.pages[page].get_or_insert_with(|| Box::new([0; PAGE_WORDS]))[word as usize % PAGE_WORDS]
    }

    /// Adds the sectors from `first` up to `end`; calls `new` for sectors not yet in the set, with a word and its
    /// bits.
    fn add(&mut self, first: u64, end: u64, mut new: impl FnMut(u64, u64)) {
        let mut at = first;
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let count = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - count)) << bit;
            let held = self.word(word);
            let fresh = mask & !*held;
            *held |= mask;
            if fresh != 0 {
                new(word, fresh);
            }
            at += count;
        }
    }

    /// Its sectors as runs, in order: first sector and count.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let pages = self.pages.iter().zip(0..).filter_map(|(page, at)| page.as_ref().map(|page| (page, at)));
        let sectors = pages.flat_map(|(page, at): (_, u64)| {
            let held = move |&sector: &u64| page[sector as usize / 64] >> (sector % 64) & 1 == 1;
            (0..PAGE_SECTORS).filter(held).map(move |sector| at * PAGE_SECTORS + sector)
        });
        let mut sectors = sectors.peekable();
        std::iter::from_fn(move || {
            let first = sectors.next()?;
            let mut count = 1;
            while sectors.next_if_eq(&(first + count)).is_some() {
                count += 1;
            }
            Some((first, count))
        })
    }

    /// Number of sectors.
    pub fn count(&self) -> u64 {
        self.pages
            .iter()
            .flatten()
            .flat_map(|page| page.iter())
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }
}

/// The sectors that a trace reads before it writes or trims them.
pub fn read_first(trace: Shaped, sector_bytes: u32) -> Result<SectorSet, TraceError> {
    let sector_bytes = u64::from(sector_bytes);
    let (mut touched, mut read) = (SectorSet::default(), SectorSet::default());
    for record in trace {
        let record = record?;
        let first = record.offset_bytes / sector_bytes;
        let end = first + record.length_bytes / sector_bytes;
        match record.action.into() {
            Opcode::Flush => {}
            Opcode::Read => touched.add(first, end, |word, bits| *read.word(word) |= bits),
            _ => touched.add(first, end, |_, _| {}),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::super::{Format, ReadOptions, Shaping, TraceReader};
    use super::*;
    use pellucid_flash::Rng;
    use std::collections::BTreeSet;

    fn read_first_of(text: &str) -> SectorSet {
        let options = ReadOptions { format: Some(Format::Msr), ..ReadOptions::default() };
        let input = std::io::Cursor::new(text.as_bytes().to_vec());
        let reader = TraceReader::from_read("trace", input, &options).unwrap();
        read_first(reader.shaped(Shaping::new(1 << 30, 512)).unwrap(), 512).unwrap()
    }

    #[test]
    fn only_what_is_read_before_it_is_written_is_wanted() {
        let trace =
            "1,h,0,Write,0,4096,1\n2,h,0,Read,0,8192,1\n3,h,0,Write,4096,8192,1\n4,h,0,Read,8192,8192,1\n";
        // Sectors 0 to 7 are written first, 8 to 15 read first; 16 to 23 written first, 24 to 31 read first.
        assert_eq!(read_first_of(trace).runs().collect::<Vec<_>>(), [(8, 8), (24, 8)]);
    }

    /// Compares with a plain set, with runs across words and pages.
    #[test]
    fn sectors_are_those_of_a_plain_set() {
        let mut rng = Rng::new(3);
        let (mut touched, mut read) = (BTreeSet::new(), BTreeSet::new());
        let mut text = String::new();
        for at in 0..2000 {
            let (first, sectors) = (rng.below(30_000), 1 + rng.below(300));
            let reads = rng.chance(0.5);
            let kind = if reads { "Read" } else { "Write" };
            text.push_str(&format!("{},h,0,{kind},{},{},1\n", at + 1, first * 512, sectors * 512));
            for sector in first..first + sectors {
                if touched.insert(sector) && reads {
                    read.insert(sector);
                }
            }
        }
        let found = read_first_of(&text);
        let sectors: Vec<u64> = found.runs().flat_map(|(first, count)| first..first + count).collect();
        assert_eq!(sectors, read.iter().copied().collect::<Vec<_>>());
        assert_eq!(found.count(), read.len() as u64);
        assert!(found.runs().zip(found.runs().skip(1)).all(|(a, b)| a.0 + a.1 < b.0), "runs touch");
    }
}
