//! Content of the platters: sector images, for sectors that have been written.

use std::collections::BTreeMap;

/// Sectors of a page of images.
const PAGE: u64 = 256;

#[derive(Clone, Debug)]
pub(super) struct Images {
    image_bytes: usize,
    /// Nothing is kept.
    blank: bool,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Images {
    pub fn new(image_bytes: usize, blank: bool) -> Images {
        Images { image_bytes, blank, pages: BTreeMap::new() }
    }

    pub fn is_blank(&self) -> bool {
        self.blank
    }

    /// Calls `each` with page, range of bytes in it, and range of bytes in the images.
    fn runs(&self, lba: u64, bytes: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
        let (mut at, mut done) = (lba, 0);
        while done < bytes {
            let within = (at % PAGE) as usize * self.image_bytes;
            let here = (PAGE as usize * self.image_bytes - within).min(bytes - done);
            each(at / PAGE, within, done..done + here);
            at += (here / self.image_bytes) as u64;
            done += here;
        }
    }

    pub fn write(&mut self, lba: u64, images: &[u8]) {
        if self.blank {
            return;
        }
        let page_bytes = PAGE as usize * self.image_bytes;
        let mut pages = std::mem::take(&mut self.pages);
        self.runs(lba, images.len(), |page, within, range| {
            let page = pages.entry(page).or_insert_with(|| vec![0; page_bytes].into());
            page[within..within + range.len()].copy_from_slice(&images[range]);
        });
        self.pages = pages;
    }

    pub fn read(&self, lba: u64, images: &mut [u8]) {
        if self.blank {
            return images.fill(0);
        }
        self.runs(lba, images.len(), |page, within, range| match self.pages.get(&page) {
            Some(page) => images[range.clone()].copy_from_slice(&page[within..within + range.len()]),
            None => images[range].fill(0),
        });
    }

    pub fn memory_bytes(&self) -> u64 {
        self.pages.values().map(|page| page.len() as u64 + 48).sum()
    }
}
