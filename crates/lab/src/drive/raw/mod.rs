//! Work on chunks and zones by their addresses.
//!
//! [`RawSpace`] knows the state of each chunk or zone of a namespace; a [`RawWorker`] assigns addresses in it to the I/Os of a job. [`RawSpaces`]
//! holds the spaces of a run, and the effect of each command in flight on them.

mod fill;
mod space;
mod worker;

pub use fill::{fill_raw, fill_raw_alone};
pub use space::{Part, RawSpace};
pub use worker::{Draw, RawRequest, RawWorker};

use super::RunError;
use super::target::Target;
use pellucid_flash::{Command, Interface, Lba, Opcode, Status};

/// A command in flight.
#[derive(Clone, Debug, Default)]
struct Held {
    space: usize,
    parts: Vec<Part>,
    makes_room: bool,
}

/// The spaces of a run.
#[derive(Clone, Debug, Default)]
pub struct RawSpaces {
    spaces: Vec<RawSpace>,
    /// By tag.
    held: Vec<Held>,
}

impl RawSpaces {
    /// Asks a drive at rest for the state of these namespaces of chunks or zones.
    pub fn survey(target: &mut impl Target, namespaces: &[(u16, Interface)]) -> Result<RawSpaces, RunError> {
        let mut spaces = Vec::new();
        for (number, interface) in namespaces {
            let report = ask(target, *number, interface)?;
            spaces.push(RawSpace::new(*number, *interface, &report));
        }
        Ok(RawSpaces { spaces, held: Vec::new() })
    }

    /// Returns a space by its index.
    pub fn get(&self, space: usize) -> &RawSpace {
        &self.spaces[space]
    }

    /// Returns a space by its index, for changes.
    pub fn get_mut(&mut self, space: usize) -> &mut RawSpace {
        &mut self.spaces[space]
    }

    /// Returns the index of the space of a namespace.
    pub fn find(&self, namespace: u16) -> Option<usize> {
        self.spaces.iter().position(|space| space.number() == namespace)
    }

    /// Notes that a request was submitted to a space under this tag.
    pub fn submitted(&mut self, tag: usize, space: usize, request: &mut RawRequest) {
        if self.held.len() <= tag {
            self.held.resize(tag + 1, Held::default());
        }
        self.spaces[space].submitted();
        let parts = std::mem::take(&mut request.parts);
        self.held[tag] = Held { space, parts, makes_room: request.makes_room };
    }

    /// Handles the end of the request with this tag; returns whether it freed space.
    pub fn ended(&mut self, tag: usize, ok: bool) -> bool {
        let Held { space, parts, makes_room } = std::mem::take(&mut self.held[tag]);
        self.spaces[space].ended(&parts, ok);
        makes_room
    }
}

/// Returns the descriptors of all chunks or zones of a namespace.
fn ask(target: &mut impl Target, namespace: u16, interface: &Interface) -> Result<Vec<u8>, RunError> {
    let sectors = match interface {
        Interface::OpenChannel(chunks) => chunks.parallel_units() * chunks.chunks,
        Interface::Zoned(zones) => zones.zones,
        other => panic!("a namespace of {} has neither chunks nor zones", other.name()),
    };
    let now = target.now();
    let command = Command::new(0, Opcode::Report, Lba(0), sectors, Vec::new());
    target.submit(now, Command { namespace, ..command });
    loop {
        if let Some(completion) = target.pop() {
            return match completion.status {
                Status::Success => Ok(completion.data),
                status => {
                    Err(RunError::Host(format!("a report of namespace {namespace} ended with {status:?}")))
                }
            };
        }
        let Some(next) = target.next_event() else {
            return Err(RunError::Host("the drive does not answer".into()));
        };
        target.advance(next);
    }
}
