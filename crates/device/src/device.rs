//! One drive: `submit / advance / next_event / pop`.
//!
//! The drive as its callers have it. Where a command and what follows from it go inside is in `router.rs`.
//!
//! ```text
//!            front/                        block/ or direct/                        back/
//!  submit ─► queue ─► fetch ─► slices ─► the namespace of the command ─► die queue ─► channel ─► array
//!  pop    ◄─ complete ◄─ host DMA ◄───── begins, arrived, ended ◄──────────────────── advance ◄─┘
//! ```
//! Order at one moment: events due at t run before arrivals stamped t; equal events in order of creation.

use crate::config::DeviceConfig;
use crate::error::DeviceError;
use crate::events::Event;
use crate::firmware::Chore;
use crate::namespaces::{self, Namespace};
use crate::probes;
use crate::router::Router;
use crate::shared::Shared;
use pellucid_flash::{Command, Completion, Effect, Nanos, Opcode, SimTime, Status};
use pellucid_ftl::MountReport;
use pellucid_media::{Fault, Media, MediaError};

/// One drive. Clone it to fork its future.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) router: Router,
}

impl Device {
    /// Makes the drive. Media that hold data (a file store) are mounted.
    pub fn new(config: &DeviceConfig) -> Result<Device, DeviceError> {
        let media = Media::new(&config.media).map_err(DeviceError::Media)?;
        Device::with_media(config, media, false)
    }

    /// Makes a drive from media saved by [`Media::export`]. It is mounted from what they hold, also with
    /// [`pellucid_ftl::Durability::Volatile`], which would forget it at a power cut. Buffer, open programs and random streams
    /// start anew: the same media always give the same drive, but not the one that was saved in all its state.
    pub fn restore(config: &DeviceConfig, media: Media) -> Result<Device, DeviceError> {
        Device::with_media(config, media, true)
    }

    fn with_media(config: &DeviceConfig, mut media: Media, keep: bool) -> Result<Device, DeviceError> {
        let layout = media.layout().clone();
        // A file with the bad blocks of a drive that cannot be would be in the way of the next description.
        let parts = crate::build::parts(config, &layout, &mut media, keep)
            .inspect_err(|_| media.store_mut().discard());
        let (config, namespaces) = parts?;
        Ok(Device { router: Router::new(Shared::new(config, media), namespaces) })
    }

    /// Hands a command to the drive at `now`, which must not lie before the last `advance`. Its completion comes out of
    /// [`Device::pop`], whatever becomes of it. Events due at `now` have run before.
    pub fn submit(&mut self, now: SimTime, mut command: Command) {
        self.advance(now);
        self.router.namespaces.iter_mut().for_each(Namespace::command_comes);
        let Router { shared, namespaces, .. } = &mut self.router;
        let status = match namespaces.get_mut(usize::from(command.namespace)) {
            None => Some(Status::InvalidField),
            Some(namespace) => {
                namespace.settle_handle(shared, &mut command);
                namespace.refuse(shared, &command)
            }
        };
        let status = status.or_else(|| self.refuse_for_store(&command));
        let shared = &mut self.router.shared;
        let settled = match command.opcode {
            Opcode::Flush => shared.settled(command.namespace),
            _ => SimTime::ZERO,
        };
        let work = shared.works.take();
        shared.works[work].begin(command, now, status.unwrap_or(Status::Success));
        shared.works[work].settled = settled;
        if status.is_some() {
            shared.finish(work);
        } else if shared.config.host.fetch_ns == Nanos::ZERO {
            let told = self.router.visible(work);
            self.router.drain(told);
        } else {
            shared.events.at(now + shared.config.host.fetch_ns, Event::Visible(work));
        }
    }

    /// Returns the status with which the media's store refuses a command, if it does: nothing changes while its file refuses writes, and
    /// new data need space. Asking makes the file try again.
    fn refuse_for_store(&mut self, command: &Command) -> Option<Status> {
        let Router { shared, namespaces, .. } = &mut self.router;
        let effect = command.opcode.effect();
        if shared.media.store().has_room() || effect.changes_nothing() {
            return None;
        }
        shared.media.store_mut().try_again();
        namespaces.iter_mut().for_each(|namespace| namespace.forget_some(shared));
        let media = &self.router.shared.media;
        let lacks_room = effect == Effect::Writes && !media.store().has_room();
        (media.store().holds_back() || lacks_room).then_some(Status::WriteFault)
    }

    /// Runs everything that is due until `now`.
    #[inline]
    pub fn advance(&mut self, now: SimTime) {
        match self.router.shared.events.next_at() {
            Some(due) if due <= now => _ = self.advance_to_completion(now, now),
            // Before most submissions nothing is.
            _ => probes::pass_to(&mut self.router.shared, now),
        }
    }

    /// Advances as [`Device::advance`] does, and then from one moment to the next as long as it lies before `limit`, nothing has completed
    /// and no notice has come. Returns the moment reached.
    pub fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        debug_assert!(now >= self.router.shared.now, "time runs forward");
        let (mut now, told) = (now, self.router.notices());
        loop {
            while let Some((at, event)) = self.router.shared.events.pop_due(now) {
                probes::pass_to(&mut self.router.shared, at);
                let told = self.router.happen(at, event);
                self.router.drain(told);
            }
            probes::pass_to(&mut self.router.shared, now);
            let Some(next) = self.router.shared.events.next_at().filter(|&next| next < limit) else {
                return now;
            };
            if !self.router.shared.completions.is_empty() || self.router.notices() != told {
                return now;
            }
            now = next;
        }
    }

    /// When the drive next does something by itself; `None` if it is at rest.
    pub fn next_event(&self) -> Option<SimTime> {
        self.router.shared.events.next_at()
    }

    /// Completions that wait for [`Device::pop`].
    pub fn completed(&self) -> usize {
        self.router.shared.completions.len()
    }

    /// The next completion.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.router.shared.completions.pop_front()
    }

    /// The firmware handles an admin command of a host at `now`, which must not lie before the last `advance`: its processor is busy with
    /// it, and steps of other commands wait. The answer is the caller's. As after [`Device::inject`], the drive may have something to
    /// do at once.
    pub fn handle_admin(&mut self, now: SimTime) {
        self.advance(now);
        self.router.shared.charge(Chore::Admin, 1);
        self.router.drain(true);
    }

    /// Cuts the power now and switches the drive on again. Everything volatile is lost; superpages being programmed are torn,
    /// blocks being erased must be erased again. Outstanding commands end with [`Status::PowerLoss`].
    pub fn power_cut(&mut self) -> Result<MountReport, DeviceError> {
        let Router { shared, namespaces, .. } = &mut self.router;
        let lost = shared.lose_all();
        shared.media.power_cut();
        namespaces.iter_mut().for_each(|namespace| namespace.power_fails(&mut shared.media, &shared.layout));
        let kept = namespaces.iter_mut().map(Namespace::take_kept).collect();
        let mounted = namespaces::mount(&shared.config, &shared.layout, &mut shared.media, false, kept)?;
        let before = self.router.replace(mounted);
        let Router { shared, namespaces, .. } = &mut self.router;
        let report = crate::views::add_up(namespaces.iter().filter_map(Namespace::mounted));
        let mut report = report.unwrap_or_default();
        for (namespace, before) in namespaces.iter_mut().zip(before) {
            namespace.follow(before, &shared.media, &mut report);
        }
        shared.power_off();
        shared.tally.of_drive().power_cuts += 1;
        probes::observe_mount(shared);
        shared.completions.extend(lost);
        Ok(report)
    }

    /// Refuses damage that this drive cannot take, without doing it.
    ///
    /// # Errors
    /// A die that is not there, a factor or count out of range, or spare blocks where the host manages the flash.
    pub fn check_fault(&self, fault: Fault) -> Result<(), MediaError> {
        if fault == Fault::WearOut && !self.router.namespaces.iter().any(Namespace::has_spare_blocks) {
            return Err(MediaError::Config {
                key: "fault",
                value: "wear-out".into(),
                allowed: "on a drive that has spare blocks of its own; where the host manages the flash: kill-die, fail-programs, program-fail".into(),
            });
        }
        self.router.shared.media.check_fault(fault)
    }

    /// Does damage at `now`, which must not lie before the last `advance`. The drive may have something to do at once, so
    /// [`Device::next_event`] and [`Device::pop`] have to be asked again.
    ///
    /// # Errors
    /// Those of [`Device::check_fault`]; nothing has happened then.
    pub fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), MediaError> {
        self.check_fault(fault)?;
        self.advance(now);
        let Router { shared, namespaces, .. } = &mut self.router;
        shared.media.inject(fault)?;
        match fault {
            Fault::KillDie { .. } | Fault::WearOut => {
                namespaces.iter_mut().for_each(|namespace| namespace.flash_died(shared));
            }
            Fault::BitErrors { .. }
            | Fault::SlowDie { .. }
            | Fault::FailPrograms { .. }
            | Fault::FailErases { .. } => {}
        }
        self.router.drain(true);
        Ok(())
    }
}
