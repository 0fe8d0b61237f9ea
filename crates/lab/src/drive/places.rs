//! Places for jobs: block namespaces, namespaces of chunks or zones, and targets by name.

use super::namespaces::BlockNamespace;
use super::target::Target;
use super::targets::TargetPlace;
use pellucid_flash::Interface;
use pellucid_host::TargetKind;
use pellucid_workload::{Container, Job, JobError, RawJob};

/// The place of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Sectors of a block namespace.
    Block(BlockNamespace),
    /// Chunks or zones of this namespace.
    Raw(u16),
}

/// All places of a drive.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Block namespaces.
    pub blocks: Vec<BlockNamespace>,
    /// Namespaces of chunks or zones.
    pub raw: Vec<(u16, Interface)>,
    /// Targets.
    pub targets: Vec<TargetPlace>,
}

fn refuse<T>(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::Value { key, value: value.to_string(), allowed: allowed.into() })
}

fn container(interface: &Interface) -> Option<Container> {
    match interface {
        Interface::OpenChannel(_) => Some(Container::Chunk),
        Interface::Zoned(_) => Some(Container::Zone),
        _ => None,
    }
}

impl Places {
    /// Returns the places of a drive.
    pub fn of(target: &impl Target) -> Places {
        Places { blocks: target.block_namespaces(), raw: target.raw_namespaces(), targets: target.targets() }
    }

    /// Returns the namespaces of chunks or zones that these jobs work on, each once.
    pub fn used_raw(&self, jobs: &[Job]) -> Result<Vec<(u16, Interface)>, JobError> {
        let mut used: Vec<u16> = Vec::new();
        for job in jobs {
            if let Place::Raw(number) = self.place(job)? {
                used.push(number);
            }
        }
        Ok(self.raw.iter().filter(|(number, _)| used.contains(number)).copied().collect())
    }

    /// Returns the place of a job: its target, its namespace, or the first that suits its pattern.
    pub fn place(&self, job: &Job) -> Result<Place, JobError> {
        match (&job.target, &job.raw) {
            (Some(name), _) => self.on_target(job, name),
            (None, Some(raw)) => self.raw_place(job, raw),
            (None, None) => Ok(Place::Block(self.block_place(job)?)),
        }
    }

    fn on_target(&self, job: &Job, name: &str) -> Result<Place, JobError> {
        let target = target_named(&self.targets, name)?;
        let pattern = job.pattern_name();
        match (target.kind, &job.raw) {
            (TargetKind::Raw, Some(raw)) if raw.container == Container::Chunk => {
                Ok(Place::Raw(target.namespace))
            }
            (TargetKind::Raw, _) => {
                let allowed = format!("chunk patterns such as chunk-write on target {name}, which is raw");
                refuse("rw", pattern, allowed)
            }
            (TargetKind::Block, Some(_)) => {
                let allowed =
                    format!("sector patterns such as randwrite on target {name}, which is a block target");
                refuse("rw", pattern, allowed)
            }
            (TargetKind::Block, None) => {
                let found = self.blocks.iter().find(|block| block.number == target.namespace);
                Ok(Place::Block(found.copied().unwrap_or_default()))
            }
        }
    }

    fn raw_place(&self, job: &Job, raw: &RawJob) -> Result<Place, JobError> {
        if !self.targets.is_empty() {
            let names = self.targets.iter().filter(|target| target.kind == TargetKind::Raw);
            let names: Vec<&str> = names.map(|target| target.name.as_str()).collect();
            let (pattern, names) = (raw.name(), names.join(" or "));
            return match job.namespace {
                _ if names.is_empty() => refuse("rw", pattern, "sector patterns: no target is raw"),
                None => refuse("rw", pattern, format!("on a raw target, so it needs target = {names}")),
                Some(number) => {
                    let instead = format!("not beside targets; {pattern} needs target = {names} instead");
                    refuse("namespace", number, instead)
                }
            };
        }
        let suits = |(_, interface): &&(u16, Interface)| container(interface) == Some(raw.container);
        let mut suiting = self.raw.iter().filter(suits);
        let found = match job.namespace {
            None => suiting.next(),
            Some(number) => suiting.find(|(own, _)| *own == number),
        };
        if let Some((number, _)) = found {
            return Ok(Place::Raw(*number));
        }
        let kind = if raw.container == Container::Chunk { "open-channel" } else { "zoned" };
        let numbers: Vec<String> = self.raw.iter().filter(suits).map(|(n, _)| n.to_string()).collect();
        match (job.namespace, numbers.is_empty()) {
            (Some(number), false) => {
                refuse("namespace", number, format!("{}: {kind} namespaces of the drive", numbers.join(", ")))
            }
            _ => {
                let allowed =
                    format!("other patterns: the drive has no {kind} namespace without layers above it");
                refuse("rw", raw.name(), allowed)
            }
        }
    }

    fn block_place(&self, job: &Job) -> Result<BlockNamespace, JobError> {
        let Some(number) = job.namespace else {
            if self.blocks.is_empty() && !self.raw.is_empty() {
                let allowed = "chunk or zone patterns: there is no block namespace and no block target";
                return refuse("rw", job.pattern_name(), allowed);
            }
            return Ok(self.blocks.first().copied().unwrap_or_default());
        };
        let found = self.blocks.iter().find(|namespace| namespace.number == number);
        found.map_or_else(
            || {
                let numbers: Vec<String> = self.blocks.iter().map(|block| block.number.to_string()).collect();
                let allowed = match numbers.is_empty() {
                    true => "none: the drive has no block namespace".into(),
                    false => format!("{}: block namespaces of the drive", numbers.join(", ")),
                };
                refuse("namespace", number, allowed)
            },
            |found| Ok(*found),
        )
    }
}

/// Finds a target by name.
pub(crate) fn target_named<'a>(targets: &'a [TargetPlace], name: &str) -> Result<&'a TargetPlace, JobError> {
    targets.iter().find(|target| target.name == name).ok_or_else(|| {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        let allowed = match names.is_empty() {
            true => "none: the description has no [[target]]".into(),
            false => format!("{}: targets of the description", names.join(", ")).into(),
        };
        JobError::Unknown { key: "target", value: name.into(), allowed }
    })
}
