//! Fabrics commands (Base section 6): Connect, Property Get and Set, Authentication Send and Receive.

use super::{FABRICS_OPCODE, FabricsType, SglDescriptor, Status, SubmissionEntry};
use crate::layout::wire_struct;

/// Controller identifier of a Connect to any dynamic controller.
pub const DYNAMIC_CONTROLLER: u16 = 0xFFFF;
/// Controller identifier of a Connect to any static controller.
pub const STATIC_CONTROLLER_ANY: u16 = 0xFFFE;

/// A fabrics command of a given type, with no data.
fn fabrics_entry(kind: FabricsType, cid: u16) -> SubmissionEntry {
    let mut entry = SubmissionEntry::new(FABRICS_OPCODE, cid, 0);
    entry.0[4] = kind.raw();
    entry
}

/// Arguments of Connect (Base 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Queue: 0 is the admin queue.
    pub queue_id: u16,
    /// Entries of the submission queue, 2 or more (on the wire it is one less).
    pub queue_entries: u32,
    /// Attributes: bits 1:0 priority class, bit 2 disables submission queue flow control, bit 3 individual deletion.
    pub attributes: u8,
    /// Keep-alive timeout in milliseconds, 0 for none; admin queue only.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Incompatible Format for an unknown record format, Invalid Parameters for a queue of fewer than two entries;
    /// the value that goes with the status in the completion's result is [`ConnectReply::invalid_in_command`].
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, (Status, u64)> {
        if entry.get::<u16>(40) != 0 {
            return Err((Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry(), 0));
        }
        let queue_entries = u32::from(entry.get::<u16>(44)) + 1;
        if queue_entries < 2 {
            let result = ConnectReply::invalid_in_command(44);
            return Err((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), result));
        }
        let (queue_id, attributes, keep_alive_ms) = (entry.get(42), entry.get(46), entry.get(48));
        Ok(Self { queue_id, queue_entries, attributes, keep_alive_ms })
    }

    /// Submission queue flow control is off: completions carry no head pointer.
    pub fn flow_control_disabled(&self) -> bool {
        self.attributes & 1 << 2 != 0
    }

    /// The command, with its 1,024 bytes of data in the capsule.
    pub fn entry(&self, cid: u16) -> SubmissionEntry {
        let mut entry = fabrics_entry(FabricsType::Connect, cid)
            .with_sgl(SglDescriptor::in_capsule(0, ConnectData::BYTES as u32));
        entry.put(42, self.queue_id);
        entry.put(44, (self.queue_entries.clamp(1, 1 << 16) - 1) as u16);
        entry.put(46, self.attributes);
        entry.put(48, self.keep_alive_ms);
        entry
    }
}

wire_struct! {
    /// Data of Connect (Base 6.3): the connecting host and the subsystem. The names are read with [`super::parse_nqn`].
    pub struct ConnectData: 1024 {
        /// Host identifier.
        0 => host_id: [u8; 16],
        /// Controller identifier asked for.
        16 => controller_id: u16,
        /// Name of the subsystem.
        256 => subsystem_nqn: [u8; 256],
        /// Name of the host.
        512 => host_nqn: [u8; 256],
    }
}

/// Steps that a host must take between a successful Connect and use of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectRequirements {
    /// Authenticate with an in-band transaction (bit 17 of the result).
    pub authentication: bool,
    /// Authenticate, then set up a secure channel (bit 18).
    pub secure_channel: bool,
}

/// The result dwords of a Connect completion.
#[derive(Clone, Copy, Debug)]
pub struct ConnectReply;

impl ConnectReply {
    /// Success.
    pub fn accepted(controller_id: u16, requirements: ConnectRequirements) -> u64 {
        u64::from(controller_id)
            | u64::from(requirements.authentication) << 17
            | u64::from(requirements.secure_channel) << 18
    }

    /// Reads the result of a success.
    pub fn parse_accepted(result: u64) -> (u16, ConnectRequirements) {
        let requirements = ConnectRequirements {
            authentication: result & 1 << 17 != 0,
            secure_channel: result & 1 << 18 != 0,
        };
        (result as u16, requirements)
    }

    /// Result of "Connect Invalid Parameters" for a field of the command, by its byte offset.
    pub fn invalid_in_command(offset: u16) -> u64 {
        u64::from(offset)
    }

    /// Result of "Connect Invalid Parameters" for a field of the data, by its byte offset.
    pub fn invalid_in_data(offset: u16) -> u64 {
        u64::from(offset) | 1 << 16
    }
}

/// Arguments of Property Get (Base 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyGet {
    /// The host asks for 8 bytes, else 4.
    pub is_8_bytes: bool,
    /// Offset of the property, raw.
    pub offset: u32,
}

impl PropertyGet {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a size other than 4 or 8 bytes.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        Ok(Self { is_8_bytes: parse_property_size(entry)?, offset: entry.get(44) })
    }

    /// The command.
    pub fn entry(&self, cid: u16) -> SubmissionEntry {
        let mut entry = fabrics_entry(FabricsType::PropertyGet, cid);
        entry.0[40] = u8::from(self.is_8_bytes);
        entry.put(44, self.offset);
        entry
    }
}

/// Arguments of Property Set (Base 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySet {
    /// The host writes 8 bytes, else 4.
    pub is_8_bytes: bool,
    /// Offset of the property, raw.
    pub offset: u32,
    /// The value; its high half is zero for a 4-byte property.
    pub value: u64,
}

impl PropertySet {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `INVALID_FIELD` for a size other than 4 or 8 bytes.
    pub fn parse(entry: &SubmissionEntry) -> Result<Self, Status> {
        let is_8_bytes = parse_property_size(entry)?;
        let value: u64 = entry.get(48);
        let value = if is_8_bytes { value } else { value & 0xFFFF_FFFF };
        Ok(Self { is_8_bytes, offset: entry.get(44), value })
    }

    /// The command.
    pub fn entry(&self, cid: u16) -> SubmissionEntry {
        let mut entry = fabrics_entry(FabricsType::PropertySet, cid);
        entry.0[40] = u8::from(self.is_8_bytes);
        entry.put(44, self.offset);
        entry.put(48, self.value);
        entry
    }
}

fn parse_property_size(entry: &SubmissionEntry) -> Result<bool, Status> {
    match entry.get::<u8>(40) & 7 {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}

/// Arguments of Authentication Send and Receive (Base 6.1, 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthArguments {
    /// SECP: E9h for the protocols of NVMe.
    pub protocol: u8,
    /// SPSP1 (high byte) and SPSP0: 0101h for NVMe in-band authentication.
    pub specific: u16,
    /// Length of the message, or room for it, in bytes.
    pub length_bytes: u32,
}

impl AuthArguments {
    /// Reads the arguments; the caller checks protocol and length.
    pub fn parse(entry: &SubmissionEntry) -> Self {
        Self { protocol: entry.get(43), specific: entry.get(41), length_bytes: entry.get(44) }
    }
    /// The command of the host, Authentication Send or Receive; without its data pointer.
    pub fn entry(&self, kind: FabricsType, cid: u16) -> SubmissionEntry {
        let mut entry = fabrics_entry(kind, cid);
        entry.put(41, self.specific);
        entry.put(43, self.protocol);
        entry.put(44, self.length_bytes);
        entry
    }
}
