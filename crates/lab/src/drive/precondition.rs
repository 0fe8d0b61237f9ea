//! Preconditioning: writes to a drive before the measurement, without simulated time.

use super::ageing::{Ageing, Overwrites, overwrite};
use super::namespaces::BlockNamespace;
use super::oracle::{Oracle, fill_images};
use super::{Onlooker, Prepared, RunError};
use pellucid_device::{Device, Filler};
use pellucid_flash::{Lba, Lpn, Opcode, Rng};
use pellucid_spec::Precondition;
use pellucid_workload::trace::SectorSet;

/// Fills and overwrites each block namespace of `device` as described, one after the other. With an oracle, its expectations follow.
pub fn precondition(
    device: &mut Device,
    what: &Precondition,
    mut oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<Vec<Ageing>, RunError> {
    let share = what.fill.share();
    if share > 0.0 && device.block_namespaces().next().is_none() {
        return Err(RunError::NoBlock);
    }
    let namespaces = BlockNamespace::all(device);
    let per_unit = u64::from(device.layout().sectors_per_unit);
    let filled = |namespace: &BlockNamespace| ((namespace.sectors / per_unit) as f64 * share) as u64;
    let units: u64 = namespaces.iter().map(filled).sum();
    let mut ageing = Vec::new();
    if units > 0 {
        let bytes = what.written_bytes(units * u64::from(device.layout().unit_bytes));
        let mut prepared = Prepared::new(onlooker, bytes);
        for namespace in &namespaces {
            let writer = Writer::new(device, *namespace, oracle.as_deref_mut(), &mut prepared);
            ageing.push(writer.fill(what, filled(namespace))?);
        }
        device.reset_counters();
    }
    // Data in a file from earlier runs age too.
    device.elapse(what.shelf_seconds());
    Ok(ageing)
}

/// Writes the mapping units of the first block namespace that contain these sectors, in order, unless they have data. With an oracle, its
/// expectations follow.
pub fn precondition_sectors(
    device: &mut Device,
    sectors: &SectorSet,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), RunError> {
    let per_unit = u64::from(device.layout().sectors_per_unit);
    let namespace = BlockNamespace::all(device).first().copied().unwrap_or_default();
    let mut prepared = Prepared::new(onlooker, None);
    let mut writer = Writer::new(device, namespace, oracle, &mut prepared);
    let mut next = 0;
    for (first, count) in sectors.runs() {
        for unit in next.max(first / per_unit)..(first + count).div_ceil(per_unit) {
            if writer.device.namespace(namespace.number).locate(Lpn(unit as u32)).is_none() {
                writer.write(Lpn(unit as u32))?;
            }
            next = unit + 1;
        }
    }
    writer.end()?;
    device.reset_counters();
    Ok(())
}

struct Writer<'a, 'o> {
    device: &'a mut Device,
    namespace: BlockNamespace,
    oracle: Option<&'a mut Oracle>,
    filler: Filler,
    image: Vec<u8>,
    version: u32,
    prepared: &'a mut Prepared<'o>,
}

impl<'a, 'o> Writer<'a, 'o> {
    fn new(
        device: &'a mut Device,
        namespace: BlockNamespace,
        oracle: Option<&'a mut Oracle>,
        prepared: &'a mut Prepared<'o>,
    ) -> Writer<'a, 'o> {
        let image = vec![0; device.image_bytes() * device.layout().sectors_per_unit as usize];
        let filler = Filler::new(namespace.number);
        Writer { device, namespace, oracle, filler, image, version: 0, prepared }
    }

    /// Fills this many units, and overwrites them.
    fn fill(mut self, what: &Precondition, filled: u64) -> Result<Ageing, RunError> {
        for lpn in 0..filled {
            self.write(Lpn(lpn as u32))?;
        }
        let ageing = overwrite(&mut self, what, filled)?;
        self.end()?;
        Ok(ageing)
    }

    #[inline]
    fn write(&mut self, lpn: Lpn) -> Result<(), RunError> {
        self.prepared.add(self.device.layout().unit_bytes.into(), Some(self.device))?;
        let sectors = self.device.layout().sectors_per_unit;
        let lba = self.namespace.stamped(Lba(u64::from(lpn.0) * u64::from(sectors)));
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
        self.device.fill_end(&mut self.filler).map_err(RunError::Precondition)?;
        self.prepared.film(Some(self.device));
        Ok(())
    }
}

impl Overwrites for Writer<'_, '_> {
    /// Overwrites at random. Addresses are drawn in batches, so that the drive can prefetch.
    fn overwrite(&mut self, rng: &mut Rng, filled: u64, count: u64) -> Result<(), RunError> {
        let sectors = u64::from(self.device.layout().sectors_per_unit);
        self.filler.scatter();
        let mut batch = [Lpn(0); 16];
        let mut left = count;
        while left > 0 {
            let here = left.min(batch.len() as u64) as usize;
            for lpn in &mut batch[..here] {
                *lpn = Lpn(rng.below(filled) as u32);
                self.device.namespace(self.namespace.number).prefetch(Lba(u64::from(lpn.0) * sectors));
            }
            for &lpn in &batch[..here] {
                self.write(lpn)?;
            }
            left -= here as u64;
        }
        Ok(())
    }

    fn moved(&self) -> u64 {
        self.device.namespace(self.namespace.number).ftl_counters().copied_units
    }

    fn namespace(&self) -> u16 {
        self.namespace.number
    }
}
