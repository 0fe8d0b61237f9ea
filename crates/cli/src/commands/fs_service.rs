//! A modelled drive under a mount, in service as those of `serve`: it can be watched and broken.
//!
//! ```text
//!  threads of the mount ─► ModelledDrive ─► LocalDrive ─►│◄─ LocalEnd ◄─► Server, Core ─► drive     a thread of its own
//! ```

use super::serving::Oversight;
use crate::args::Global;
use crate::failure::Failure;
use crate::log_line::LogFormat;
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{Figure, SimTime};
use pellucid_host::LayerConfig;
use pellucid_mount::{ModelledDrive, Pace};
use pellucid_serve::{Core, LocalDrive, Options, Refusal, Served, Server, Stopper, Time, in_process};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A drive that does not answer for so long, while a file system begins on it, does not answer at all.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A drive to put in service.
pub struct Wanted {
    /// Name of the drive.
    pub name: String,
    pub device: Device,
    /// Layers on the drive.
    pub layers: Vec<LayerConfig>,
    pub time: Time,
}

/// Figures of the file system, once it is mounted.
type Figures = Arc<OnceLock<Box<dyn Fn() -> Vec<Figure> + Send + Sync>>>;

/// A drive in service, and a file system's place on it.
pub struct InService {
    figures: Figures,
    drive: Arc<ModelledDrive<LocalDrive>>,
    stopper: Stopper,
    server: JoinHandle<Result<(), Failure>>,
}

type Began = Result<(LocalDrive, Stopper), Failure>;

impl InService {
    /// Puts a drive in service whose media are in the file at `path`.
    pub fn start(
        path: &Path,
        wanted: Wanted,
        oversight: Oversight,
        global: &Global,
    ) -> Result<InService, Failure> {
        let (tell, told) = mpsc::channel();
        let (of_thread, figures) = (global.clone(), Figures::default());
        let shown = Arc::clone(&figures);
        let server = std::thread::spawn(move || serve(wanted, shown, &oversight, &of_thread, &tell));
        let ended = || Failure::work(anyhow!("the thread of the drive has ended"));
        let (local, stopper) = told.recv().map_err(|_| ended())??;
        let (number, clock) = (local.number(), Instant::now());
        let wait = |local: &mut LocalDrive, next: Option<SimTime>| match next {
            Some(next) => Some(next.max(SimTime(clock.elapsed().as_nanos() as u64))),
            None => local.wait(clock, ANSWER_MAX),
        };
        let pace = Pace::Paced(1.0);
        let drive = ModelledDrive::start_by(path, local, number, SimTime::ZERO, pace, wait);
        let drive = match drive {
            Ok(drive) => Arc::new(drive),
            Err(why) => {
                stopper.stop();
                let _ = server.join();
                return Err(Failure::asked(anyhow!("{}: {why}", path.display())));
            }
        };
        let waiting: Weak<ModelledDrive<LocalDrive>> = Arc::downgrade(&drive);
        let wake = move |is_gone| {
            if let Some(drive) = waiting.upgrade() {
                drive.woken(is_gone);
            }
        };
        drive.act(|local| local.call(wake));
        Ok(InService { figures, drive, stopper, server })
    }

    /// The file system's place.
    pub fn drive(&self) -> &Arc<ModelledDrive<LocalDrive>> {
        &self.drive
    }

    /// Shows the figures of the file system from now on, beside the drive's.
    pub fn show(&self, figures: impl Fn() -> Vec<Figure> + Send + Sync + 'static) {
        assert!(self.figures.set(Box::new(figures)).is_ok(), "a drive in service has one file system");
    }

    /// Calls `end` from a separate thread when the server must stop.
    pub fn on_stop(&self, end: impl Fn() + Send + Sync + 'static) {
        let end = Arc::new(end);
        self.drive.act(|local| {
            local.on_stop(move || {
                let end = Arc::clone(&end);
                std::thread::spawn(move || end());
            });
        });
    }

    /// Ends the service; what the drive holds is in its file then.
    pub fn end(self) -> Result<(), Failure> {
        self.drive.act(LocalDrive::close);
        self.stopper.stop_because("unmounted");
        self.server.join().unwrap_or_else(|_| Err(Failure::work(anyhow!("the thread of the drive panicked"))))
    }
}

/// Serves the drive, on a thread of its own.
fn serve(
    wanted: Wanted,
    figures: Figures,
    oversight: &Oversight,
    global: &Global,
    tell: &Sender<Began>,
) -> Result<(), Failure> {
    let began = begin(wanted, figures, oversight, global);
    let (server, local) = match began {
        Ok(began) => began,
        Err(why) => {
            // Nobody waits for it any more if this fails.
            let _ = tell.send(Err(why));
            return Ok(());
        }
    };
    let _ = tell.send(Ok((local, server.stopper())));
    let core = server.run().map_err(Failure::work)?;
    match core.unstopped() {
        [] => Ok(()),
        failed => Err(Failure::work(anyhow!("not stopped in order: {}", failed.join("; ")))),
    }
}

fn begin(
    wanted: Wanted,
    figures: Figures,
    oversight: &Oversight,
    global: &Global,
) -> Result<(Server, LocalDrive), Failure> {
    let Wanted { name, device, layers, time } = wanted;
    let refuse = |why: String| Failure::asked(anyhow!("{name}: {why}"));
    let served = Served::with_layers(device, &layers).map_err(refuse)?;
    let core = Core::new(vec![(name.clone(), served)], time);
    let mut core = core.map_err(|refusal: Refusal| Failure::asked(anyhow!("{refusal}")))?;
    oversight.plan(&mut core)?;
    let told = move || figures.get().map_or_else(Vec::new, |figures| figures());
    core.show_user(format!("{name}, file system"), Box::new(told));
    let (end, local) = in_process(0, &core).map_err(Failure::work)?;
    let log = LogFormat::Text.log(global);
    let mut server = Server::new(core, Options::default(), Box::new(log)).map_err(Failure::work)?;
    server.attach(Box::new(end)).map_err(Failure::work)?;
    oversight.listen(&mut server)?;
    oversight.show(&mut server, log)?;
    Ok((server, local))
}

/// Returns whether the drive was read-only when it was put in service.
pub fn is_read_only(drive: &ModelledDrive<LocalDrive>) -> bool {
    drive.act(|local| local.is_read_only())
}
