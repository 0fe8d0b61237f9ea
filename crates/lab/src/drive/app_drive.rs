//! The drive of a measured application, and what the application returns when it ends.
//!
//! ```text
//!   alone          application ─► Meter ─► drive
//!   beside others  application ─► Seat ─► run ─► drive
//! ```
//! An application does not see which of the two it has.

use super::{HostUse, Measured, TimedDrive};
use pellucid_flash::{Cause, SimTime};
use pellucid_report::{ApplicationReport, Copies};
use std::cell::Cell;
use std::rc::Rc;

/// A drive below an application.
pub trait AppDrive: TimedDrive {
    /// Begins the measurement: everything before was warm-up.
    fn begin(&mut self);

    /// Returns whether the user wants the application to end.
    fn is_stopped(&self) -> bool {
        self.stopped().get()
    }

    /// Returns the answer of [`AppDrive::is_stopped`], for a caller without access to the drive.
    fn stopped(&self) -> Rc<Cell<bool>>;
}

/// The drive as an application gets it. Dynamic dispatch compiles applications once; they submit rarely enough for its cost.
pub type Lent<'a> = &'a mut dyn AppDrive;

impl TimedDrive for Lent<'_> {
    fn now(&self) -> SimTime {
        (**self).now()
    }

    fn sector_bytes(&self) -> u32 {
        (**self).sector_bytes()
    }

    fn drain(&mut self) -> Result<(), String> {
        (**self).drain()
    }

    fn wait(&mut self, now: SimTime, until: Option<SimTime>) -> Option<SimTime> {
        (**self).wait(now, until)
    }
}

/// Work of an application that has ended.
#[derive(Debug)]
pub struct AppDone {
    /// Report on the work, without its effect on the flash.
    pub report: ApplicationReport,
    /// The application's own part that copies valid data, and the bytes copied; `None` if there is none.
    pub own_copies: Option<(&'static str, u64)>,
    /// End of the measurement.
    pub end: SimTime,
}

impl AppDone {
    /// Returns the whole report, with the use of flash meanwhile.
    pub fn on_flash(self, flash: &FlashUse, sector_bytes: u64) -> ApplicationReport {
        let own = self.own_copies.map(|(by, bytes)| Copies { by: by.into(), bytes });
        let copies = own.into_iter().chain(flash.copies.iter().cloned()).collect();
        let report = ApplicationReport { copies, ..self.report };
        report.with_flash(&flash.programmed_sectors, sector_bytes, &[flash.erases])
    }
}

/// Use of flash by an application.
#[derive(Clone, Debug, Default)]
pub struct FlashUse {
    /// Sectors programmed, by cause.
    pub programmed_sectors: [u64; Cause::COUNT],
    /// Blocks erased.
    pub erases: u64,
    /// Valid data copied, by layers of the host and by the drive.
    pub copies: Vec<Copies>,
}

fn copied(sectors: &[u64; Cause::COUNT], sector_bytes: u64) -> u64 {
    sectors[Cause::Gc as usize] * sector_bytes
}

impl FlashUse {
    /// Returns the use of a whole drive in a run.
    pub fn of(measured: &Measured, sector_bytes: u64) -> FlashUse {
        let layers = measured.host.map(|HostUse { layer, counters, .. }| Copies {
            by: layer.into(),
            bytes: copied(&counters.programmed_sectors, sector_bytes),
        });
        // Parts without causes of their own: a cluster buffer completes clusters, the split FTL of nameless writes collects.
        let counted = measured.figures.iter().filter_map(|part| {
            let bytes = match part.part.as_str() {
                "cluster-buffer" => part.get("padding_bytes")?,
                "nameless-ftl" => part.get("nameless_copied_sectors")? * sector_bytes,
                _ => return None,
            };
            Some(Copies { by: part.part.clone(), bytes })
        });
        let programmed_sectors = measured.counters.programmed_sectors;
        let drive = Copies { by: "drive".into(), bytes: copied(&programmed_sectors, sector_bytes) };
        FlashUse {
            programmed_sectors,
            erases: measured.counters.erases.iter().sum(),
            copies: layers.into_iter().chain(counted).chain([drive]).collect(),
        }
    }

    /// Returns the use of a part of a drive, possibly below a host layer.
    pub fn of_part(
        layer: Option<&'static str>,
        programmed_sectors: [u64; Cause::COUNT],
        erases: u64,
        sector_bytes: u64,
    ) -> FlashUse {
        let by = layer.unwrap_or("drive").into();
        let copies = vec![Copies { by, bytes: copied(&programmed_sectors, sector_bytes) }];
        FlashUse { programmed_sectors, erases, copies }
    }
}
