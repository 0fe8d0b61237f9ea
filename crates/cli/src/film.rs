//! `--film`: what each block holds over time, recorded while a drive works and written as a page that plays it.

use crate::args::Global;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::subject::{Subject, is_one_file};
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_film::{Clock, FILM_BYTES, Film, Recorder};
use pellucid_lab::drive::{Onlooker, Progress};
use pellucid_output::{OutputFile, refuse_foreign_page};
use pellucid_report::render_film_alone;
use pellucid_spec::{Medium, Spec};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Refuses a film that could not be recorded, or would have no place.
pub fn check(subject: &Subject, global: &Global) -> Result<(), Failure> {
    let refuse = |message: &str| Err(Failure::asked(anyhow!("--film: {message}")));
    if !global.film {
        return Ok(());
    }
    if subject.spec.medium == Medium::Disk {
        return refuse(&format!(
            "{} is a disk, which has no blocks; allowed: a drive of flash",
            subject.spec.drive_name
        ));
    }
    match subject.spec.run.report {
        Some(_) => Ok(()),
        None => refuse("a film is a page of the report; allowed: with --report DIR"),
    }
}

/// Refuses a film beside an option with which there is no report of one run.
pub fn check_absent(option: &str, global: &Global) -> Result<(), Failure> {
    match global.film {
        false => Ok(()),
        true => Err(Failure::asked(anyhow!("--film and {option} do not go together; allowed: one of them"))),
    }
}

/// A recorder for a run that is one of `beside` on a page.
pub fn recorder(beside: usize) -> Recorder {
    Recorder::new(Clock::SimulatedNs, FILM_BYTES / beside.max(1))
}

/// A bar, and a film if one is wanted.
pub struct Filmed<'a> {
    bar: &'a Bar,
    film: Option<Recorder>,
}

impl<'a> Filmed<'a> {
    pub fn new(bar: &'a Bar, film: Option<Recorder>) -> Filmed<'a> {
        Filmed { bar, film }
    }

    /// The film of the drive `name`, if one was wanted; a wanted one without a frame is a failure.
    pub fn finish(self, name: &str) -> Result<Option<Film>, Failure> {
        self.film.map(|film| film.finish(name).ok_or_else(nothing)).transpose()
    }
}

/// Looks on while a drive ages, and records a film of it if one is wanted.
pub struct AgeingFilm<'a> {
    /// The bar and the film.
    pub filmed: Filmed<'a>,
    file: Option<OutputFile>,
    path: PathBuf,
}

impl<'a> AgeingFilm<'a> {
    /// Begins the film beside `image`, if one is wanted: `aged.pellucid` has the film `aged.film.html`. It does not replace the `description`.
    pub fn begin(
        bar: &'a Bar,
        image: &Path,
        description: &Path,
        global: &Global,
    ) -> Result<AgeingFilm<'a>, Failure> {
        let path = image.with_extension("film.html");
        let film = global.film.then(|| Recorder::new(Clock::WrittenBytes, FILM_BYTES));
        let file = match global.film {
            true => {
                if is_one_file(&path, description) {
                    let message = "is read by this command; allowed: another name of the image";
                    return Err(Failure::asked(anyhow!("--film {}: {message}", path.display())));
                }
                refuse_foreign_page(&path, global.force)?;
                Some(OutputFile::create(&path)?)
            }
            false => None,
        };
        Ok(AgeingFilm { filmed: Filmed::new(bar, film), file, path })
    }

    /// Writes the film; `Some`: its path.
    pub fn finish(self, spec: &Spec) -> Result<Option<PathBuf>, Failure> {
        let (Some(film), Some(mut file)) = (self.filmed.finish(&spec.drive_name)?, self.file) else {
            return Ok(None);
        };
        let page = render_film_alone(&film, &format!("preconditioning: {}", spec.precondition.words()));
        std::io::Write::write_all(&mut file.writer()?, page.as_bytes())
            .map_err(|error| file.failed(error))?;
        file.commit()?;
        Ok(Some(self.path))
    }
}

/// The failure of a film without a frame.
pub fn nothing() -> Failure {
    Failure::work(anyhow!("--film: nothing was recorded, as no flash drive was used"))
}

impl Onlooker for Filmed<'_> {
    fn film(&mut self) -> Option<&mut Recorder> {
        self.film.as_mut()
    }

    fn prepare(&mut self, written_bytes: u64, total_bytes: Option<u64>) -> ControlFlow<()> {
        self.bar.prepare(written_bytes, total_bytes);
        ControlFlow::Continue(())
    }

    fn look(&mut self, _device: Option<&Device>, progress: Progress) -> ControlFlow<()> {
        self.bar.update(progress);
        ControlFlow::Continue(())
    }
}
