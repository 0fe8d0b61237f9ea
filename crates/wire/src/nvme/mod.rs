//! NVMe structures: commands, completions, identify data, log pages, features, fabrics commands, and the zoned,
//! placement and open-channel additions.
//!
//! Sources, cited per item: NVM Express Base Specification 2.1 ("Base"), NVM Command Set Specification 1.1 ("NVM"),
//! Zoned Namespace Command Set Specification 1.2 ("ZNS"), Open-Channel SSD Specification 2.0 ("OCSSD").
//!
//! ```text
//!   64 bytes --> SubmissionEntry --> opcode + typed arguments ---> the controller
//!   16 bytes <-- Completion       <-- Status + result          <--'
//! ```
//!
//! A [`SubmissionEntry`] keeps the raw bytes and reads fields on demand: the I/O path needs only three of them. Large structures are plain structs
//! that encode and decode as a whole.

pub mod auth;
pub mod cache;
mod command;
mod completion;
mod fabrics;
pub mod fdp;
mod feature;
mod identify;
mod log;
pub mod nameless;
mod namespace;
mod opcode;
pub mod open_channel;
mod property;
mod sgl;
mod status;
mod text;
pub mod zns;

pub use command::{DsmRange, GetLogPage, LbaRange, SubmissionEntry};
pub use completion::Completion;
pub use fabrics::{
    AuthArguments, Connect, ConnectData, ConnectReply, ConnectRequirements, DYNAMIC_CONTROLLER, PropertyGet,
    PropertySet, STATIC_CONTROLLER_ANY,
};
pub use feature::{AsyncEvent, AsyncEventConfig, FeatureId, FeatureSelect, QueueCount};
pub use identify::{
    Cns, CommandSet, ControllerType, IdentifyController, NvmControllerCapabilities, PowerState,
};
pub use log::{
    CommandEffect, CommandEffects, DiscoveryEntry, DiscoveryHeader, EnduranceGroupLog, ErrorLogEntry,
    FeatureEffect, FeatureEffects, FirmwareSlotLog, LogId, PersistentEventHeader, PersistentEventLogHeader,
    SmartLog, SupportedLogPages,
};
pub use namespace::{
    IdentifyNamespace, IndependentNamespace, LbaFormat, NamespaceIdentifiers, NvmNamespace, id_list,
    namespace_list,
};
pub use opcode::{AdminOpcode, FABRICS_OPCODE, FabricsType, NvmOpcode};
pub use property::{
    Capabilities, ControllerConfig, ControllerStatus, Property, ShutdownNotice, ShutdownState, Version,
};
pub use sgl::{DataPointer, SglDescriptor};
pub use status::Status;
pub use text::{DISCOVERY_NQN, NQN_BYTES_MAX, NqnError, ascii, nqn, parse_nqn};

/// Namespace identifier that means "all namespaces" (Base 3.2.1).
pub const BROADCAST_NSID: u32 = 0xFFFF_FFFF;
