//! Preconditioning through layers of the host: the writes are commands like any other, and simulated time passes.

use super::SILENCE_MAX;
use super::ageing::{Ageing, Overwrites, overwrite};
use super::namespaces::BlockNamespace;
use super::oracle::{Oracle, fill_images};
use super::raw::fill_raw;
use super::target::{Target, TimedDrive};
use super::{Onlooker, Prepared, RunError};
use pellucid_device::Device;
use pellucid_flash::{Command, Drive, Lba, Opcode, Rng, SimTime, Status};
use pellucid_host::Tower;
use pellucid_spec::{DescribedTarget, Precondition};
use pellucid_workload::trace::SectorSet;

/// Maximum number of writes in flight.
const OUTSTANDING: usize = 256;
/// Sectors per write of the fill.
const FILL_SECTORS: u32 = 32;

/// Fills and overwrites the capacity of the layers as described. With an oracle, its expectations follow.
pub fn precondition_stack(
    stack: &mut Tower<Device>,
    what: &Precondition,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<Ageing, RunError> {
    let namespace = stack.block_namespaces().first().copied().unwrap_or_default();
    let filled = (namespace.sectors as f64 * what.fill.share()) as u64;
    let mut ageing = Ageing::default();
    if filled > 0 {
        let bytes = what.written_bytes(filled * u64::from(stack.sector_bytes()));
        ageing = write(stack, namespace, what, filled, oracle, &mut Prepared::new(onlooker, bytes))?;
    }
    stack.bottom_mut().elapse(what.shelf_seconds());
    Ok(ageing)
}

/// Fills each target as described, one after the other: a block target like any drive, a raw one by whole chunks. With an oracle, its expectations
/// follow.
pub fn precondition_targets(
    stack: &mut Tower<Device>,
    described: &[DescribedTarget],
    what: &Precondition,
    mut oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), RunError> {
    let (blocks, raw) = (stack.block_namespaces(), stack.raw_namespaces());
    let share = |name: &str| {
        let fill = described.iter().find(|one| one.target.name == name).and_then(|one| one.fill);
        fill.unwrap_or(what.fill.share())
    };
    let mut prepared = Prepared::new(onlooker, None);
    for target in stack.targets() {
        let share = share(&target.name);
        let block = blocks.iter().find(|block| block.number == target.namespace);
        let filled = block.map_or(0, |block| (block.sectors as f64 * share) as u64);
        if let Some(block) = block.filter(|_| filled > 0) {
            write(stack, *block, what, filled, oracle.as_deref_mut(), &mut prepared)?;
        }
        if let Some(&raw) = raw.iter().find(|(number, _)| *number == target.namespace) {
            fill_raw(stack, raw, share, &mut prepared)?;
        }
    }
    stack.bottom_mut().elapse(what.shelf_seconds());
    Ok(())
}

/// Writes these sectors, in order. With an oracle, its expectations follow.
pub fn precondition_sectors_stack(
    stack: &mut Tower<Device>,
    sectors: &SectorSet,
    oracle: Option<&mut Oracle>,
    onlooker: &mut dyn Onlooker,
) -> Result<(), RunError> {
    let namespace = stack.block_namespaces().first().copied().unwrap_or_default();
    let mut prepared = Prepared::new(onlooker, None);
    let mut writer = Writer::new(stack, namespace, oracle, &mut prepared);
    for (first, count) in sectors.runs() {
        writer.run(first, count)?;
    }
    writer.end()
}

/// Fills this many sectors, and overwrites them.
fn write(
    stack: &mut Tower<Device>,
    namespace: BlockNamespace,
    what: &Precondition,
    filled: u64,
    oracle: Option<&mut Oracle>,
    prepared: &mut Prepared<'_>,
) -> Result<Ageing, RunError> {
    let mut writer = Writer::new(stack, namespace, oracle, prepared);
    writer.run(0, filled)?;
    let ageing = overwrite(&mut writer, what, filled)?;
    writer.end()?;
    Ok(ageing)
}

struct Writer<'a, 'o> {
    stack: &'a mut Tower<Device>,
    oracle: Option<&'a mut Oracle>,
    now: SimTime,
    /// Time of the last completion.
    silent_since: SimTime,
    namespace: BlockNamespace,
    /// Sectors being written, by tag.
    in_flight: Vec<Option<(Lba, u32)>>,
    idle: Vec<usize>,
    pool: Vec<Vec<u8>>,
    version: u32,
    prepared: &'a mut Prepared<'o>,
}

impl<'a, 'o> Writer<'a, 'o> {
    fn new(
        stack: &'a mut Tower<Device>,
        namespace: BlockNamespace,
        oracle: Option<&'a mut Oracle>,
        prepared: &'a mut Prepared<'o>,
    ) -> Writer<'a, 'o> {
        Writer {
            now: stack.now(),
            silent_since: stack.now(),
            namespace,
            stack,
            oracle,
            in_flight: vec![None; OUTSTANDING],
            idle: (0..OUTSTANDING).collect(),
            pool: Vec::new(),
            version: 0,
            prepared,
        }
    }

    /// Writes `sectors` sectors from `first` on.
    fn run(&mut self, first: u64, sectors: u64) -> Result<(), RunError> {
        let (mut at, end) = (first, first + sectors);
        while at < end {
            let count = u64::from(FILL_SECTORS).min(end - at) as u32;
            self.write(Lba(at), count)?;
            at += u64::from(count);
        }
        Ok(())
    }

    fn write(&mut self, lba: Lba, sectors: u32) -> Result<(), RunError> {
        while self.idle.is_empty() {
            self.step()?;
        }
        let Some(tag) = self.idle.pop() else { return Ok(()) };
        let bytes = u64::from(sectors) * u64::from(self.stack.sector_bytes());
        self.prepared.add(bytes, self.stack.flash())?;
        let stamped = self.namespace.stamped(lba);
        self.version = match &mut self.oracle {
            Some(oracle) => oracle.submit_change(Opcode::Write, stamped, sectors),
            None => (self.version + 1) & 0x7fff_ffff,
        };
        let image_bytes = self.stack.image_bytes();
        let mut data = self.pool.pop().unwrap_or_default();
        data.resize(sectors as usize * image_bytes, 0);
        fill_images(&mut data, image_bytes, stamped, self.version);
        self.in_flight[tag] = Some((lba, sectors));
        let command = Command::new(tag as u64, Opcode::Write, lba, sectors, data);
        self.stack.submit(self.now, Command { namespace: self.namespace.number, ..command });
        self.collect()
    }

    fn step(&mut self) -> Result<(), RunError> {
        if self.in_flight.len() == self.idle.len() {
            self.silent_since = self.now;
        }
        let next = self.stack.next_event().filter(|next| next.since(self.silent_since) <= SILENCE_MAX);
        let Some(next) = next else {
            let outstanding = self.in_flight.len() - self.idle.len();
            return Err(RunError::Host(format!(
                "preconditioning: the drive does not answer: {outstanding} writes are outstanding, and none ends any more"
            )));
        };
        self.now = next;
        self.stack.advance(next);
        self.collect()
    }

    fn collect(&mut self) -> Result<(), RunError> {
        while let Some(completion) = self.stack.pop() {
            let tag = completion.tag as usize;
            let Some((lba, sectors)) = self.in_flight[tag].take() else { continue };
            if completion.status != Status::Success {
                let sentence = format!(
                    "preconditioning: a write of sector {} ended with {:?}",
                    lba.0, completion.status
                );
                return Err(RunError::Host(sentence));
            }
            if let Some(oracle) = &mut self.oracle {
                oracle.complete_change(self.namespace.stamped(lba), sectors, true, false);
            }
            self.silent_since = self.now;
            self.idle.push(tag);
            self.pool.push(completion.data);
        }
        Ok(())
    }

    /// Waits until nothing is in flight.
    fn end(&mut self) -> Result<(), RunError> {
        while self.in_flight.len() > self.idle.len() || self.stack.next_event().is_some() {
            self.step()?;
        }
        self.prepared.film(self.stack.flash());
        Ok(())
    }
}

impl Overwrites for Writer<'_, '_> {
    fn overwrite(&mut self, rng: &mut Rng, filled: u64, count: u64) -> Result<(), RunError> {
        for _ in 0..count {
            self.write(Lba(rng.below(filled)), 1)?;
        }
        Ok(())
    }

    fn moved(&self) -> u64 {
        let of_target = self.stack.host_of(self.namespace.number);
        of_target.or_else(|| self.stack.host()).map_or(0, |host| host.ftl.copied_units)
    }

    fn namespace(&self) -> u16 {
        self.namespace.number
    }
}
