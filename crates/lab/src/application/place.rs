//! The namespace of an application: its target's, the one it names, or the first that its back end can use.

use crate::drive::{Target, target_named};
use pellucid_flash::Interface;
use pellucid_workload::{Backend, FileSystem, FilesApp, Job, JobError};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub namespace: u16,
    pub interface: Interface,
    pub backend: Backend,
}

fn refuse<T>(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.to_string(), allowed: allowed.into() })
}

/// Returns the back end for an interface.
fn backend_of(interface: &Interface) -> Option<Backend> {
    match interface {
        Interface::Block { .. } => Some(Backend::Block),
        Interface::OpenChannel(_) => Some(Backend::Function),
        Interface::Nameless(_) => Some(Backend::Nameless),
        Interface::Zoned(_) | Interface::Cache(_) => None,
    }
}

/// Names the requirement of a back end.
fn needs(backend: Backend) -> &'static str {
    match backend {
        Backend::Block => "a block namespace or target, or [host] layers above chunks or zones",
        Backend::Function => {
            "drive.namespace = [{ interface = \"open-channel\" }] without layers, or a raw target"
        }
        Backend::Nameless => "drive.namespace = [{ interface = \"nameless\" }] without layers",
    }
}

/// Requirements of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Required back end; `None`: any.
    pub backend: Option<Backend>,
    /// Key that requires it, and its value.
    pub by: (&'static str, &'static str),
}

impl Wish {
    /// Returns the requirements of a file server.
    pub fn of_files(job: &Job, work: &FilesApp) -> Wish {
        let in_place = work.file_system == FileSystem::InPlace;
        match if in_place { Some(Backend::Block) } else { work.backend } {
            // The file system determines it.
            Some(backend) if in_place && !job.written.has("backend") => {
                Wish { backend: Some(backend), by: ("filesystem", FileSystem::InPlace.name()) }
            }
            Some(backend) => Wish { backend: Some(backend), by: ("backend", backend.name()) },
            None => Wish { backend: None, by: ("app", work.personality.name()) },
        }
    }
}

impl Place {
    /// Returns the place of an application on a target.
    pub fn of(target: &impl Target, job: &Job, wish: Wish) -> Result<Place, JobError> {
        let all = usable(target);
        let named = named(target, job)?;
        let is_named = |place: &&Place| named.is_none_or(|number| place.namespace == number);
        let suits = |place: &&Place| wish.backend.is_none_or(|wanted| place.backend == wanted);
        if let Some(place) = all.iter().filter(is_named).find(suits) {
            return Ok(*place);
        }
        let (key, value) = wish.by;
        let Some(wanted) = wish.backend else {
            return refuse(key, value, "on a block, open-channel or nameless namespace");
        };
        if key != "backend" {
            return refuse(key, value, format!("with {}", needs(wanted)));
        }
        let there: Vec<String> = all
            .iter()
            .filter(is_named)
            .map(|place| {
                let (backend, number) = (place.backend.name(), place.namespace);
                format!("{backend} (namespace {number} is {})", place.interface.name())
            })
            .collect();
        let there = if there.is_empty() { "none on this drive".into() } else { there.join(", ") };
        refuse(key, value, format!("{there}; {value} needs {}", needs(wanted)))
    }
}

/// Returns all namespaces that an application could use.
fn usable(target: &impl Target) -> Vec<Place> {
    let targets = target.targets();
    let numbers: Vec<u16> = match targets.is_empty() {
        true => (0..target.namespaces()).collect(),
        false => targets.iter().map(|target| target.namespace).collect(),
    };
    let place = |namespace| {
        let interface = target.interface(namespace)?;
        Some(Place { namespace, interface, backend: backend_of(&interface)? })
    };
    numbers.into_iter().filter_map(place).collect()
}

/// Returns the namespace that a job names.
fn named(target: &impl Target, job: &Job) -> Result<Option<u16>, JobError> {
    let targets = target.targets();
    match (&job.target, job.namespace) {
        (Some(name), _) => Ok(Some(target_named(&targets, name)?.namespace)),
        (None, Some(number)) if !targets.is_empty() => {
            refuse("namespace", number, "not beside targets; target names one of them instead")
        }
        (None, Some(number)) if target.interface(number).is_none() => {
            let there = (0..target.namespaces()).filter(|&number| target.interface(number).is_some());
            let there: Vec<String> = there.map(|number| number.to_string()).collect();
            refuse("namespace", number, format!("{}: namespaces of the drive", there.join(", ")))
        }
        (None, number) => Ok(number),
    }
}
