//! Ranges: allocation of rows for a new one, and removal.
//!
//! ```text
//!   configure   a record with the range is written ─► the range starts on its rows
//!   remove      its machine stops ─► a record without the range is written ─► its rows are erased ─► they are available
//! ```
//! A crash after the record and before the last erase leaves data on rows without a range: the next start erases them (`record.rs`).

use super::block_map::{self, BlockMap};
use super::record::{Record, Spec};
use super::{Gc, Policy, PolicyError, RANGES_MAX, Served, Work};
use crate::Mapping;
use pellucid_flash::Interface;
use pellucid_ftl::SetupError;
use pellucid_host::{HostFtl, HostFtlConfig, HostFtlError, Machine};
use std::ops::Range;

impl Policy {
    /// `FTL_Ioctl`: configures the bytes of `range` with this mapping and GC, and with `over_provisioning` as a share of the range. Commands may
    /// follow at once; they wait until the range has found its data.
    ///
    /// A recorded range must agree in everything except `gc`.
    pub fn ftl_ioctl(
        &mut self,
        mapping: Mapping,
        gc: Gc,
        range: Range<u64>,
        over_provisioning: f64,
    ) -> Result<(), PolicyError> {
        if !self.record.is_read() {
            return Err(PolicyError::NotReady);
        }
        let sectors = self.sectors_of(&range)?;
        if !(0.0..=100.0).contains(&over_provisioning) {
            return Err(PolicyError::OverProvisioning(over_provisioning.to_string()));
        }
        let wanted = Spec { sectors, mapping, gc, over_provisioning, rows: 0..0, id: 0 };
        match self.remembered(&wanted, &range)? {
            Some(mut spec) => {
                spec.gc = gc;
                let work = self.build(&spec).map_err(|why| no_room(&range, why))?;
                self.serve(spec, work);
            }
            None => {
                if self.record.specs.len() == RANGES_MAX {
                    return Err(PolicyError::TooMany);
                }
                let (spec, work) = self.place(wanted).map_err(|why| no_room(&range, why))?;
                self.record.add(spec.clone());
                self.serve(spec, work);
            }
        }
        Ok(())
    }

    /// Removes a range, configured or only recorded: its data are lost, and its flash becomes available to other ranges. Commands to it
    /// are refused from now on. Once [`Machine::is_ready`] returns true, the removal survives a crash.
    pub fn remove_range(&mut self, range: Range<u64>) -> Result<(), PolicyError> {
        if !self.record.is_read() {
            return Err(PolicyError::NotReady);
        }
        let sectors = self.sectors_of(&range)?;
        let Range { start: begin, end } = range;
        let Some(known) = self.record.specs.iter().find(|spec| spec.sectors == sectors) else {
            let there: Vec<String> = self
                .remembered_ranges()
                .map(|(range, ..)| format!("{} to {}", range.start, range.end))
                .collect();
            let there = if there.is_empty() { "none".into() } else { there.join(", ") };
            return Err(PolicyError::Missing { begin, end, there });
        };
        let id = known.id;
        let Some(served) = self.ranges.iter_mut().find(|range| range.spec.id == id) else {
            self.record.remove(id);
            return Ok(());
        };
        if served.parts > 0 {
            return Err(PolicyError::InUse { begin, end, commands: served.parts });
        }
        if !std::mem::replace(&mut served.leaves, true) {
            each!(&mut served.work, layer => layer.stop(self.now));
        }
        self.unsent = true;
        self.let_go();
        Ok(())
    }

    /// Drops ranges whose removal has no more work in progress.
    pub(super) fn let_go(&mut self) {
        let rests = |served: &Served| {
            served.leaves
                && served.commands == 0
                && each!(&served.work, layer => layer.is_stopped() && layer.next_event().is_none())
        };
        while let Some(at) = self.ranges.iter().position(rests) {
            self.record.remove(self.ranges.remove(at).spec.id);
        }
    }

    /// Approximate maximum size of another range, in bytes.
    pub fn room_for(&self, mapping: Mapping, over_provisioning: f64) -> u64 {
        let free = self.free_rows();
        let rows = free.len() as u64;
        let spec = Spec { sectors: 0..0, mapping, gc: Gc::Greedy, over_provisioning, rows: free, id: 0 };
        let sectors = match mapping {
            Mapping::Page => {
                let config = HostFtlConfig { capacity_bytes: None, ..self.host_ftl_config(&spec) };
                match HostFtl::new(
                    &config,
                    Some(Interface::OpenChannel(self.space.chunks)),
                    self.space.image_bytes,
                ) {
                    _ if spec.rows.is_empty() => 0,
                    Ok(ftl) => ftl.capacity_sectors(),
                    Err(HostFtlError::Room(SetupError::TooLittleSpare {
                        physical_units,
                        needed_units,
                        ..
                    })) => physical_units.saturating_sub(needed_units),
                    Err(_) => 0,
                }
            }
            Mapping::Block => {
                let chunks = rows * u64::from(self.geometry().luns());
                let blocks = block_map::most_blocks(chunks, over_provisioning);
                blocks * u64::from(self.space.chunks.chunk_sectors)
            }
        };
        sectors * u64::from(self.space.chunks.sector_bytes)
    }

    /// Bytes of the recorded ranges, configured or not.
    pub fn remembered_ranges(&self) -> impl Iterator<Item = (Range<u64>, Mapping, f64)> {
        let bytes = u64::from(self.space.chunks.sector_bytes);
        self.record.specs.iter().map(move |spec| {
            let range = spec.sectors.start * bytes..spec.sectors.end * bytes;
            (range, spec.mapping, spec.over_provisioning)
        })
    }

    fn sectors_of(&self, range: &Range<u64>) -> Result<Range<u64>, PolicyError> {
        let sector_bytes = self.space.chunks.sector_bytes;
        let bytes = u64::from(sector_bytes);
        let &Range { start: begin, end } = range;
        match begin < end && begin.is_multiple_of(bytes) && end.is_multiple_of(bytes) {
            true => Ok(begin / bytes..end / bytes),
            false => Err(PolicyError::Bounds { begin, end, sector_bytes }),
        }
    }

    /// The recorded range; `None`: the range is new, and overlaps no other.
    fn remembered(&self, wanted: &Spec, bytes: &Range<u64>) -> Result<Option<Spec>, PolicyError> {
        let overlaps =
            |spec: &&Spec| spec.sectors.start < wanted.sectors.end && wanted.sectors.start < spec.sectors.end;
        let refuse = |with: String| PolicyError::Overlaps { begin: bytes.start, end: bytes.end, with };
        if let Some(other) = self.ranges.iter().find(|range| overlaps(&&range.spec)) {
            let state = if other.leaves { "being removed" } else { "configured" };
            return Err(refuse(format!("it overlaps one that is {state}")));
        }
        let Some(known) = self.record.specs.iter().find(overlaps) else { return Ok(None) };
        let same = known.sectors == wanted.sectors
            && known.mapping == wanted.mapping
            && known.over_provisioning == wanted.over_provisioning;
        if same {
            return Ok(Some(known.clone()));
        }
        let sector = u64::from(self.space.chunks.sector_bytes);
        let Spec { sectors, mapping, over_provisioning, .. } = known;
        let with = format!(
            "the flash holds data of the range {} to {}, mapped by {mapping:?}, over-provisioning {over_provisioning}; allowed: this range, or a format",
            sectors.start * sector,
            sectors.end * sector
        );
        Err(refuse(with))
    }

    /// The longest run of rows without a range.
    fn free_rows(&self) -> Range<u32> {
        let mut taken: Vec<Range<u32>> = self.record.specs.iter().map(|spec| spec.rows.clone()).collect();
        let chunks = self.space.chunks.chunks;
        taken.push(chunks..chunks);
        taken.sort_by_key(|rows| rows.start);
        let (mut from, mut best) = (Record::rows(&self.space).min(chunks), 0..0);
        for rows in taken {
            if rows.start.saturating_sub(from) > best.len() as u32 {
                best = from..rows.start;
            }
            from = rows.end;
        }
        best
    }

    /// Finds as few rows as possible for a new range.
    fn place(&self, wanted: Spec) -> Result<(Spec, Work), String> {
        let free = self.free_rows();
        let id = self.record.specs.iter().map(|spec| spec.id).max().unwrap_or(0) + 1;
        let of_row = u64::from(self.geometry().luns()) * u64::from(self.space.chunks.chunk_sectors);
        let sectors = (wanted.sectors.end - wanted.sectors.start) as f64;
        let least = (sectors * (1.0 + wanted.over_provisioning) / of_row as f64).ceil();
        let mut why = format!("{} rows of chunks are free, and it takes at least {least}", free.len());
        if least > f64::from(free.len() as u32) {
            return Err(why);
        }
        for rows in least as u32..=free.len() as u32 {
            let spec = Spec { rows: free.start..free.start + rows, id, ..wanted.clone() };
            match self.build(&spec) {
                Ok(work) => return Ok((spec, work)),
                Err(sentence) => why = sentence,
            }
        }
        Err(format!("{why} ({} rows of chunks are free)", free.len()))
    }

    /// Builds the translation of a range; the error is a sentence.
    fn build(&self, spec: &Spec) -> Result<Work, String> {
        match spec.mapping {
            Mapping::Page => self.build_pages(spec).map(|ftl| Work::Page(Box::new(ftl))),
            Mapping::Block => {
                let (sectors, rows) = (spec.sectors.end - spec.sectors.start, spec.rows.clone());
                let map = BlockMap::new(self.space, rows, sectors, spec.gc, spec.id);
                map.map(|map| Work::Block(Box::new(map)))
            }
        }
    }

    fn host_ftl_config(&self, spec: &Spec) -> HostFtlConfig {
        let sectors = spec.sectors.end - spec.sectors.start;
        HostFtlConfig {
            namespace: self.space.namespace,
            first_unit: 0,
            units: 0,
            first_chunk: spec.rows.start,
            chunks: spec.rows.len() as u32,
            over_provisioning: spec.over_provisioning,
            capacity_bytes: Some(sectors * u64::from(self.space.chunks.sector_bytes)),
            victim: spec.gc.victim(),
            uuid: self.config.host_ftl.uuid ^ u64::from(spec.id) << 32,
            ..self.config.host_ftl.clone()
        }
    }

    fn build_pages(&self, spec: &Spec) -> Result<HostFtl, String> {
        if spec.rows.is_empty() {
            return Err("no rows of chunks are free".into());
        }
        let interface = Some(Interface::OpenChannel(self.space.chunks));
        let config = self.host_ftl_config(spec);
        let ftl = HostFtl::new(&config, interface, self.space.image_bytes).map_err(|e| e.to_string())?;
        let sectors = spec.sectors.end - spec.sectors.start;
        let holds = u64::from(ftl.free_lines().1) * u64::from(ftl.units_per_line());
        let needed = sectors as f64 * (1.0 + spec.over_provisioning);
        match holds as f64 >= needed {
            true => Ok(ftl),
            false => Err(format!(
                "{} rows of chunks hold {holds} sectors, and it takes {needed:.0}",
                spec.rows.len()
            )),
        }
    }

    /// Starts a range, which examines its rows.
    fn serve(&mut self, spec: Spec, mut work: Work) {
        each!(&mut work, layer => layer.advance(self.now));
        self.ranges.push(Served { spec, work, leaves: false, parts: 0, commands: 0 });
        self.unsent = true;
    }

    /// Continues the ranges after the record has been read again.
    pub(super) fn configure_again(&mut self) {
        for (spec, gc) in std::mem::take(&mut self.again) {
            let bytes = u64::from(self.space.chunks.sector_bytes);
            let range = spec.sectors.start * bytes..spec.sectors.end * bytes;
            if let Err(error) = self.ftl_ioctl(spec.mapping, gc, range, spec.over_provisioning) {
                self.failure = Some(error.to_string());
            }
        }
    }
}

fn no_room(range: &Range<u64>, why: String) -> PolicyError {
    PolicyError::NoRoom { begin: range.start, end: range.end, why }
}
