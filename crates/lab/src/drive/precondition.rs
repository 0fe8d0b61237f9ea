//! Preconditioning: what is written to a drive before the measurement, without simulating time.

use super::ageing::{Ageing, Overwrites, overwrite};
use super::oracle::{Oracle, fill_images};
use super::{Onlooker, Prepared, RunError};
use crate::spec::Precondition;
use crate::trace::SectorSet;
use pellucid_device::{Device, Filler};
use pellucid_flash::{Lba, Lpn, Opcode, Rng};

/// Fills and overwrites the block namespace of `device` as described. With an oracle, its expectations follow.
pub fn precondition(
    device: &mut Device,
    what: &Precondition,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<Ageing, RunError> {
    let share = what.fill.share();
    if share > 0.0 && !device.has_block_namespace() {
        return Err(RunError::NoBlock);
    }
    let units = device.capacity_sectors() / u64::from(device.layout().sectors_per_unit);
    let filled = (units as f64 * share) as u64;
    let mut ageing = Ageing::default();
    if filled > 0 {
        let bytes = what.written_bytes(filled * u64::from(device.layout().unit_bytes));
        ageing = write(device, what, filled, oracle, Prepared::new(onlooker, bytes))?;
        device.reset_counters();
    }
    // What a file holds from earlier runs grows older, too.
    device.elapse(what.shelf_seconds());
    Ok(ageing)
}

/// Writes the mapping units that these sectors lie in, in order, unless they have data. With an oracle, its expectations follow.
pub fn precondition_sectors(
    device: &mut Device,
    sectors: &SectorSet,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), RunError> {
    let per_unit = u64::from(device.layout().sectors_per_unit);
    let mut writer = Writer::new(device, oracle, Prepared::new(onlooker, None));
    let mut next = 0;
    for (first, count) in sectors.runs() {
        for unit in next.max(first / per_unit)..(first + count).div_ceil(per_unit) {
            if writer.device.locate(Lpn(unit as u32)).is_none() {
                writer.write(Lpn(unit as u32))?;
            }
            next = unit + 1;
        }
    }
    writer.end()?;
    device.reset_counters();
    Ok(())
}

/// Fills so many units, and overwrites them.
fn write<'a>(
    device: &'a mut Device,
    what: &Precondition,
    filled: u64,
    oracle: Option<&'a mut Oracle>,
    prepared: Prepared<'a>,
) -> Result<Ageing, RunError> {
    let mut writer = Writer::new(device, oracle, prepared);
    for lpn in 0..filled {
        writer.write(Lpn(lpn as u32))?;
    }
    let ageing = overwrite(&mut writer, what, filled)?;
    writer.end()?;
    Ok(ageing)
}

struct Writer<'a> {
    device: &'a mut Device,
    oracle: Option<&'a mut Oracle>,
    filler: Filler,
    image: Vec<u8>,
    version: u32,
    prepared: Prepared<'a>,
}

impl<'a> Writer<'a> {
    fn new(device: &'a mut Device, oracle: Option<&'a mut Oracle>, prepared: Prepared<'a>) -> Writer<'a> {
        let image = vec![0; device.image_bytes() * device.layout().sectors_per_unit as usize];
        Writer { device, oracle, filler: Filler::default(), image, version: 0, prepared }
    }

    #[inline]
    fn write(&mut self, lpn: Lpn) -> Result<(), RunError> {
        self.prepared.add(self.device.layout().unit_bytes.into());
        let sectors = self.device.layout().sectors_per_unit;
        let lba = Lba(u64::from(lpn.0) * u64::from(sectors));
        let image_bytes = self.device.image_bytes();
        self.version = match &mut self.oracle {
            Some(oracle) => {
                let version = oracle.submit_change(Opcode::Write, lba, sectors);
                oracle.complete_change(lba, sectors, true, true);
                version
            }
            None => self.version + 1,
        };
        fill_images(&mut self.image, image_bytes, lba, self.version);
        self.device.fill_unit(&mut self.filler, lpn, &self.image).map_err(RunError::Precondition)
    }

    fn end(&mut self) -> Result<(), RunError> {
        self.device.fill_end(&mut self.filler).map_err(RunError::Precondition)
    }
}

impl Overwrites for Writer<'_> {
    /// They are drawn in batches, so that the drive can be told.
    fn overwrite(&mut self, rng: &mut Rng, filled: u64, count: u64) -> Result<(), RunError> {
        let mut batch = [Lpn(0); 16];
        let mut left = count;
        while left > 0 {
            let here = left.min(batch.len() as u64) as usize;
            for lpn in &mut batch[..here] {
                *lpn = Lpn(rng.below(filled) as u32);
                self.device
                    .announce(Lba(u64::from(lpn.0) * u64::from(self.device.layout().sectors_per_unit)));
            }
            for &lpn in &batch[..here] {
                self.write(lpn)?;
            }
            left -= here as u64;
        }
        Ok(())
    }

    fn moved(&self) -> u64 {
        self.device.ftl_counters().relocated_units
    }
}
