//! Tables on the drive as a whole: their epoch, and out-of-band data that a drive of stamps cannot keep.

use pellucid_flash::Vector;

/// Tables on the drive.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    epoch: u64,
    /// Out-of-band data of each chunk, if the drive keeps stamps.
    stamps: Vec<Vec<u8>>,
    /// Sectors that were written.
    written: u64,
}

impl Tables {
    /// Creates the tables; `stamps`: number of chunks whose out-of-band data are kept here.
    pub fn new(stamps: usize) -> Tables {
        Tables { epoch: 0, stamps: vec![Vec::new(); stamps], written: 0 }
    }

    /// Returns whether the drive keeps content.
    pub fn keep_content(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Number of the last format.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sets the number of the last format.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Counts a sector that is written.
    pub fn count_write(&mut self) {
        self.written += 1;
    }

    /// Sectors that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Out-of-band data of a sector of a chunk that are kept here.
    pub fn stamp(&self, chunk: u32, sector: u32) -> &[u8] {
        let from = sector as usize * Vector::METADATA_BYTES;
        &self.stamps[chunk as usize][from..][..Vector::METADATA_BYTES]
    }

    /// Keeps out-of-band data of `sectors` of a chunk of `all`; `None`: zeros.
    pub fn keep_stamps(&mut self, chunk: u32, all: u32, first: u32, sectors: u32, oob: Option<&[u8]>) {
        let stamps = &mut self.stamps[chunk as usize];
        stamps.resize(all as usize * Vector::METADATA_BYTES, 0);
        let place = &mut stamps[first as usize * Vector::METADATA_BYTES..]
            [..sectors as usize * Vector::METADATA_BYTES];
        match oob {
            Some(oob) => place.copy_from_slice(oob),
            None => place.fill(0),
        }
    }

    /// Takes the out-of-band data of a former life of the layer.
    pub fn take_stamps(&mut self, from: &mut Tables) {
        self.stamps = std::mem::take(&mut from.stamps);
    }
}
