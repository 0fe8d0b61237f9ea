//! Fills a namespace of chunks or zones before the measurement: whole chunks or zones, by commands in simulated time.

use super::super::oracle::fill_images;
use super::super::target::Target;
use super::super::{Onlooker, Prepared, RunError};
use super::RawSpaces;
use super::space::RawSpace;
use pellucid_flash::{Command, Interface, Opcode, Status};

/// Maximum number of commands in flight.
const OUTSTANDING: usize = 256;
/// Maximum sectors per write to zones.
const WRITE_SECTORS: u64 = 64;

/// Writes the given share of the chunks or zones of a namespace, at least one, round-robin over its parallel units. Chunks or zones with data stay
/// unchanged.
pub fn fill_raw(
    target: &mut impl Target,
    (number, interface): (u16, Interface),
    share: f64,
    prepared: &mut Prepared<'_>,
) -> Result<(), RunError> {
    if share <= 0.0 {
        return Ok(());
    }
    let mut spaces = RawSpaces::survey(target, &[(number, interface)])?;
    let space = spaces.get_mut(0);
    let step = match interface {
        Interface::OpenChannel(chunks) => u64::from(chunks.write_optimal_sectors),
        _ => WRITE_SECTORS,
    };
    let containers = match interface {
        Interface::OpenChannel(chunks) => chunks.parallel_units() * chunks.chunks,
        Interface::Zoned(zones) => zones.zones,
        other => panic!("a namespace of {} has neither chunks nor zones", other.name()),
    };
    // The share may have been rounded up.
    let mut left = (f64::from(containers) * share - 1e-6).ceil() as u32;
    let mut writer = Writer { target, number, under_way: 0, prepared };
    while left > 0 {
        // A unit without free chunks is skipped.
        let open: Vec<u32> =
            (0..space.lanes()).filter_map(|lane| space.take(lane)).take(left as usize).collect();
        if open.is_empty() {
            break;
        }
        left -= open.len() as u32;
        while open.iter().any(|&at| space.room(at) > 0) {
            for &at in &open {
                writer.write(space, at, step)?;
            }
        }
    }
    writer.wait(0)
}

/// Like [`fill_raw`], with an onlooker for this namespace alone.
pub fn fill_raw_alone(
    target: &mut impl Target,
    namespace: (u16, Interface),
    share: f64,
    onlooker: &mut dyn Onlooker,
) -> Result<(), RunError> {
    fill_raw(target, namespace, share, &mut Prepared::new(onlooker, None))
}

struct Writer<'a, 'o, T: Target> {
    target: &'a mut T,
    number: u16,
    under_way: usize,
    prepared: &'a mut Prepared<'o>,
}

impl<T: Target> Writer<'_, '_, T> {
    /// Writes the next sectors of an extent.
    fn write(&mut self, space: &mut RawSpace, at: u32, step: u64) -> Result<(), RunError> {
        let sectors = space.room(at).min(step);
        if sectors == 0 {
            return Ok(());
        }
        self.wait(OUTSTANDING - 1)?;
        let (lba, _) = space.begin_write(at, sectors);
        self.prepared.add(sectors * u64::from(self.target.sector_bytes()), self.target.flash())?;
        let image_bytes = self.target.image_bytes();
        let mut data = vec![0; sectors as usize * image_bytes];
        fill_images(&mut data, image_bytes, lba, 1);
        let now = self.target.now();
        let command = Command::new(0, Opcode::Write, lba, sectors as u32, data);
        self.target.submit(now, Command { namespace: self.number, ..command });
        self.under_way += 1;
        Ok(())
    }

    /// Returns the user's name of the place being filled.
    fn whose(&self) -> String {
        match self.target.targets().into_iter().find(|place| place.namespace == self.number) {
            Some(place) => format!("target {}", place.name),
            None => format!("namespace {}", self.number),
        }
    }

    /// Waits until at most `most` commands are in flight.
    fn wait(&mut self, most: usize) -> Result<(), RunError> {
        loop {
            while let Some(completion) = self.target.pop() {
                self.under_way -= 1;
                if completion.status != Status::Success {
                    let status = completion.status.name();
                    let whose = self.whose();
                    return Err(RunError::Host(format!(
                        "precondition: a write of {whose} ended with {status}"
                    )));
                }
            }
            if self.under_way <= most {
                return Ok(());
            }
            let Some(next) = self.target.next_event() else {
                return Err(RunError::Host("precondition: the drive does not answer".into()));
            };
            self.target.advance(next);
        }
    }
}
