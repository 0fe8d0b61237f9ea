//! The layers of the host, on a reference drive that keeps the rules of open-channel drives and panics when they are broken.

mod crash;
mod model;
mod oracle;
mod reference;
