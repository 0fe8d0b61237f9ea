//! Messages of in-band authentication with DH-HMAC-CHAP (Base 8.3.5): what Authentication Send and Receive carry.
//!
//! ```text
//!   host                                     controller
//!   AUTH_Negotiate    ── Send ────►
//!                     ◄─ Receive ──   DH-HMAC-CHAP_Challenge    hash, S1, C1
//!   DH-HMAC-CHAP_Reply ─ Send ────►                             response, and C2, S2 to challenge the controller
//!                     ◄─ Receive ──   DH-HMAC-CHAP_Success1     the controller's response
//!   DH-HMAC-CHAP_Success2  Send ──►                             only if the host has challenged the controller
//!
//!   AUTH_Failure1 (controller) or AUTH_Failure2 (host) ends it at any point
//! ```
//! This module only encodes and decodes; it knows no secrets. A message of any other length than it declares is rejected.

use crate::layout::wire_enum;
use head::{Common, Head};

/// SECP of the two commands: protocols of NVMe.
pub const AUTH_PROTOCOL: u8 = 0xE9;
/// SPSP1 and SPSP0 of the two commands: in-band authentication.
pub const AUTH_SPECIFIC: u16 = 0x0101;
/// Protocol identifier of DH-HMAC-CHAP in a negotiation.
pub const DHCHAP_ID: u8 = 1;
/// Longest challenge or response: that of SHA-512.
pub const DHCHAP_VALUE_BYTES_MAX: usize = 64;

/// AUTH_TYPE of messages that all protocols share.
const COMMON: u8 = 0;
/// AUTH_TYPE of messages of DH-HMAC-CHAP.
const DHCHAP: u8 = 1;
/// Bytes of a protocol's description in a negotiation.
const DESCRIPTOR_BYTES: usize = 64;
/// Most identifiers in each of its two lists, and where they begin.
const IDS_MAX: usize = 30;
const HASHES_AT: usize = 4;
const GROUPS_AT: usize = HASHES_AT + IDS_MAX;
/// Bytes before the values of a message.
const HEAD_BYTES: usize = Head::BYTES;

wire_enum! {
    /// AUTH_ID: which message it is.
    pub enum AuthMessage: u8 {
        /// AUTH_Negotiate.
        Negotiate = 0x00,
        /// DH-HMAC-CHAP_Challenge.
        Challenge = 0x01,
        /// DH-HMAC-CHAP_Reply.
        Reply = 0x02,
        /// DH-HMAC-CHAP_Success1.
        Success1 = 0x03,
        /// DH-HMAC-CHAP_Success2.
        Success2 = 0x04,
        /// AUTH_Failure2, of the host.
        Failure2 = 0xF0,
        /// AUTH_Failure1, of the controller.
        Failure1 = 0xF1,
    }
}

wire_enum! {
    /// Reason code explanation of a failure; the reason code is always "authentication failure".
    pub enum AuthFailure: u8 {
        /// Authentication failed.
        Failed = 1,
        /// Authentication protocol not usable.
        ProtocolNotUsable = 2,
        /// Secure channel concatenation mismatch.
        SecureChannelMismatch = 3,
        /// Hash function not usable.
        HashNotUsable = 4,
        /// DH group not usable.
        GroupNotUsable = 5,
        /// Incorrect payload.
        IncorrectPayload = 6,
        /// Incorrect protocol message.
        IncorrectMessage = 7,
    }
}

wire_enum! {
    /// Hash functions.
    pub enum AuthHash: u8 {
        /// SHA-256.
        Sha256 = 1,
        /// SHA-384.
        Sha384 = 2,
        /// SHA-512.
        Sha512 = 3,
    }
}

wire_enum! {
    /// Diffie-Hellman groups.
    pub enum DhGroup: u8 {
        /// No exchange: the challenge is used as it is.
        Null = 0,
        /// 2048 bits (RFC 7919).
        Ffdhe2048 = 1,
        /// 3072 bits.
        Ffdhe3072 = 2,
        /// 4096 bits.
        Ffdhe4096 = 3,
        /// 6144 bits.
        Ffdhe6144 = 4,
        /// 8192 bits.
        Ffdhe8192 = 5,
    }
}

impl DhGroup {
    /// Bytes of its values, those of the modulus; 0 for the null group.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 256,
            Self::Ffdhe3072 => 384,
            Self::Ffdhe4096 => 512,
            Self::Ffdhe6144 => 768,
            Self::Ffdhe8192 => 1024,
        }
    }
}

impl AuthHash {
    /// Bytes of its values.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

mod head {
    use crate::layout::wire_struct;

    wire_struct! {
        /// Head of every message.
        pub struct Common: 6 {
            /// AUTH_TYPE.
            0 => auth_type: u8,
            /// AUTH_ID.
            1 => auth_id: u8,
            /// T_ID.
            4 => transaction: u16,
        }
    }

    wire_struct! {
        /// The first bytes of Challenge and Reply.
        pub struct Head: 16 {
            /// AUTH_TYPE.
            0 => auth_type: u8,
            /// AUTH_ID.
            1 => auth_id: u8,
            /// T_ID.
            4 => transaction: u16,
            /// HL.
            6 => value_bytes: u8,
            /// Challenge: the hash function; Reply: CVALID.
            8 => first: u8,
            /// Challenge: the group.
            9 => second: u8,
            /// DHVLEN.
            10 => dh_bytes: u16,
            /// SEQNUM.
            12 => sequence: u32,
        }
    }
}

/// Identifies a message and its transaction (T_ID); `None`: unknown.
pub fn auth_message(bytes: &[u8]) -> Option<(AuthMessage, u16)> {
    let common = Common::decode(bytes.first_chunk()?);
    let message = AuthMessage::from_raw(common.auth_id)?;
    let fits = match message {
        AuthMessage::Negotiate | AuthMessage::Failure1 => common.auth_type == COMMON,
        // Common hosts also send their failure with the protocol's type.
        AuthMessage::Failure2 => common.auth_type <= DHCHAP,
        _ => common.auth_type == DHCHAP,
    };
    fits.then_some((message, common.transaction))
}

/// AUTH_Negotiate: the host's capabilities in order of preference. Unknown identifiers are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiate {
    /// T_ID.
    pub transaction: u16,
    /// SC_C: secure channel wanted after authentication; 0 for none.
    pub secure_channel: u8,
    /// Hash functions for DH-HMAC-CHAP.
    pub hashes: Vec<AuthHash>,
    /// Diffie-Hellman groups for DH-HMAC-CHAP.
    pub groups: Vec<DhGroup>,
}

impl Negotiate {
    /// Reads the message.
    ///
    /// # Errors
    /// A wrong length, an overlong list, or no DH-HMAC-CHAP among the protocols.
    pub fn parse(bytes: &[u8]) -> Result<Self, AuthFailure> {
        let (head, descriptors) = bytes.split_at_checked(8).ok_or(AuthFailure::IncorrectPayload)?;
        if head[7] == 0 || descriptors.len() != usize::from(head[7]) * DESCRIPTOR_BYTES {
            return Err(AuthFailure::IncorrectPayload);
        }
        let descriptor = descriptors.chunks_exact(DESCRIPTOR_BYTES).find(|d| d[0] == DHCHAP_ID);
        let descriptor = descriptor.ok_or(AuthFailure::ProtocolNotUsable)?;
        let (hashes, groups) = (usize::from(descriptor[2]), usize::from(descriptor[3]));
        if hashes > IDS_MAX || groups > IDS_MAX {
            return Err(AuthFailure::IncorrectPayload);
        }
        let list = |at: usize, count: usize| descriptor[at..at + count].iter().copied();
        Ok(Self {
            transaction: u16::from_le_bytes([head[4], head[5]]),
            secure_channel: head[6],
            hashes: list(HASHES_AT, hashes).filter_map(AuthHash::from_raw).collect(),
            groups: list(GROUPS_AT, groups).filter_map(DhGroup::from_raw).collect(),
        })
    }

    /// Encodes the message; each list is cut at 30 entries.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8 + DESCRIPTOR_BYTES];
        let [low, high] = self.transaction.to_le_bytes();
        bytes[..8].copy_from_slice(&[
            COMMON,
            AuthMessage::Negotiate.raw(),
            0,
            0,
            low,
            high,
            self.secure_channel,
            1,
        ]);
        let descriptor = &mut bytes[8..];
        let (hashes, groups) = (self.hashes.len().min(IDS_MAX), self.groups.len().min(IDS_MAX));
        descriptor[..HASHES_AT].copy_from_slice(&[DHCHAP_ID, 0, hashes as u8, groups as u8]);
        for (slot, hash) in descriptor[HASHES_AT..GROUPS_AT].iter_mut().zip(&self.hashes) {
            *slot = hash.raw();
        }
        for (slot, group) in descriptor[GROUPS_AT..].iter_mut().zip(self.groups.iter().take(IDS_MAX)) {
            *slot = group.raw();
        }
        bytes
    }
}

/// DH-HMAC-CHAP_Challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// T_ID.
    pub transaction: u16,
    /// The hash function that the controller has chosen.
    pub hash: AuthHash,
    /// S1.
    pub sequence: u32,
    /// C1, as long as the hash.
    pub challenge: Vec<u8>,
    /// The group that the controller has chosen.
    pub group: DhGroup,
    /// The controller's public value, as long as the group's modulus.
    pub dh_value: Vec<u8>,
}

impl Challenge {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let head = Head {
            auth_type: DHCHAP,
            auth_id: AuthMessage::Challenge.raw(),
            transaction: self.transaction,
            value_bytes: self.challenge.len() as u8,
            first: self.hash.raw(),
            second: self.group.raw(),
            dh_bytes: self.dh_value.len() as u16,
            sequence: self.sequence,
        };
        [&head.encode()[..], &self.challenge, &self.dh_value].concat()
    }

    /// Parses the message.
    ///
    /// # Errors
    /// A wrong length, an unknown hash function or group.
    pub fn parse(bytes: &[u8]) -> Result<Self, AuthFailure> {
        let head = Head::decode(bytes.first_chunk().ok_or(AuthFailure::IncorrectPayload)?);
        let hash = AuthHash::from_raw(head.first).ok_or(AuthFailure::HashNotUsable)?;
        let group = DhGroup::from_raw(head.second).ok_or(AuthFailure::GroupNotUsable)?;
        let values = &bytes[HEAD_BYTES..];
        let lengths: [usize; 2] = [head.value_bytes.into(), head.dh_bytes.into()];
        if lengths != [hash.bytes(), group.bytes()] || values.len() != hash.bytes() + group.bytes() {
            return Err(AuthFailure::IncorrectPayload);
        }
        let (challenge, dh_value) = values.split_at(hash.bytes());
        Ok(Self {
            transaction: head.transaction,
            hash,
            sequence: head.sequence,
            challenge: challenge.to_vec(),
            group,
            dh_value: dh_value.to_vec(),
        })
    }
}

/// DH-HMAC-CHAP_Reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// T_ID.
    pub transaction: u16,
    /// The response to C1.
    pub response: Vec<u8>,
    /// C2, if the host challenges the controller (CVALID).
    pub challenge: Option<Vec<u8>>,
    /// S2; 0 with a challenge: only for a secure channel, and needs no response.
    pub sequence: u32,
    /// The host's public value, as long as the group's modulus.
    pub dh_value: Vec<u8>,
}

impl Reply {
    /// Encodes the message; without a challenge, its field is zero.
    pub fn encode(&self) -> Vec<u8> {
        let head = Head {
            auth_type: DHCHAP,
            auth_id: AuthMessage::Reply.raw(),
            transaction: self.transaction,
            value_bytes: self.response.len() as u8,
            first: self.challenge.is_some().into(),
            second: 0,
            dh_bytes: self.dh_value.len() as u16,
            sequence: self.sequence,
        };
        let zeros = vec![0; self.response.len()];
        let challenge = self.challenge.as_ref().unwrap_or(&zeros);
        [&head.encode()[..], &self.response, challenge, &self.dh_value].concat()
    }

    /// Parses the message of a transaction with this hash function and group.
    ///
    /// # Errors
    /// A wrong length of the message or a value.
    pub fn parse(bytes: &[u8], hash: AuthHash, group: DhGroup) -> Result<Self, AuthFailure> {
        let head = Head::decode(bytes.first_chunk().ok_or(AuthFailure::IncorrectPayload)?);
        let (length, values) = (hash.bytes(), &bytes[HEAD_BYTES..]);
        let lengths: [usize; 2] = [head.value_bytes.into(), head.dh_bytes.into()];
        if lengths != [length, group.bytes()] || values.len() != 2 * length + group.bytes() {
            return Err(AuthFailure::IncorrectPayload);
        }
        let (response, rest) = values.split_at(length);
        let (challenge, dh_value) = rest.split_at(length);
        Ok(Self {
            transaction: head.transaction,
            response: response.to_vec(),
            challenge: (head.first & 1 != 0).then(|| challenge.to_vec()),
            sequence: head.sequence,
            dh_value: dh_value.to_vec(),
        })
    }
}

/// DH-HMAC-CHAP_Success1, with the controller's response if it was challenged (RVALID). The field of the response is always present.
pub fn encode_success1(transaction: u16, hash: AuthHash, response: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES + hash.bytes()];
    bytes[..Common::BYTES].copy_from_slice(&common(DHCHAP, AuthMessage::Success1, transaction));
    bytes[6] = hash.bytes() as u8;
    if let Some(response) = response {
        bytes[8] = 1;
        bytes[HEAD_BYTES..].copy_from_slice(response);
    }
    bytes
}

/// Reads a Success1: the controller's response, if there is one.
///
/// # Errors
/// A wrong length.
pub fn parse_success1(bytes: &[u8], hash: AuthHash) -> Result<Option<&[u8]>, AuthFailure> {
    if bytes.len() != HEAD_BYTES + hash.bytes() || usize::from(bytes[6]) != hash.bytes() {
        return Err(AuthFailure::IncorrectPayload);
    }
    Ok((bytes[8] & 1 != 0).then_some(&bytes[HEAD_BYTES..]))
}

/// DH-HMAC-CHAP_Success2: the host believes the controller.
pub fn encode_success2(transaction: u16) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..Common::BYTES].copy_from_slice(&common(DHCHAP, AuthMessage::Success2, transaction));
    bytes
}

/// Checks the length of a Success2.
///
/// # Errors
/// A wrong length.
pub fn check_success2(bytes: &[u8]) -> Result<(), AuthFailure> {
    if bytes.len() == HEAD_BYTES { Ok(()) } else { Err(AuthFailure::IncorrectPayload) }
}

/// AUTH_Failure1 or AUTH_Failure2.
pub fn encode_failure(message: AuthMessage, transaction: u16, why: AuthFailure) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..Common::BYTES].copy_from_slice(&common(COMMON, message, transaction));
    bytes[6] = 1;
    bytes[7] = why.raw();
    bytes
}

/// The other side's reason; `None` for a message of a wrong length or an unknown reason.
pub fn parse_failure(bytes: &[u8]) -> Option<AuthFailure> {
    let bytes: &[u8; 8] = bytes.try_into().ok()?;
    AuthFailure::from_raw(bytes[7])
}

fn common(auth_type: u8, message: AuthMessage, transaction: u16) -> [u8; Common::BYTES] {
    Common { auth_type, auth_id: message.raw(), transaction }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_form() {
        let negotiate = Negotiate {
            transaction: 0x1234,
            secure_channel: 0,
            hashes: vec![AuthHash::Sha512, AuthHash::Sha256],
            groups: vec![DhGroup::Ffdhe2048, DhGroup::Null],
        };
        let bytes = negotiate.encode();
        assert_eq!(bytes[..16], [0, 0, 0, 0, 0x34, 0x12, 0, 1, 1, 0, 2, 2, 3, 1, 0, 0]);
        assert_eq!((bytes.len(), bytes[8 + 34], bytes[8 + 35]), (72, 1, 0));
        assert_eq!(Negotiate::parse(&bytes), Ok(negotiate));
        let (hash, challenge) = (AuthHash::Sha256, vec![0xAB; 32]);
        let message = Challenge {
            transaction: 7,
            hash,
            sequence: 0x0102_0304,
            challenge: challenge.clone(),
            group: DhGroup::Null,
            dh_value: Vec::new(),
        };
        let bytes = message.encode();
        assert_eq!(bytes[..17], [1, 1, 0, 0, 7, 0, 32, 0, 1, 0, 0, 0, 4, 3, 2, 1, 0xAB]);
        assert_eq!(Challenge::parse(&bytes), Ok(message.clone()));
        let (group, dh_value) = (DhGroup::Ffdhe3072, vec![0xCD; 384]);
        let message = Challenge { group, dh_value: dh_value.clone(), ..message };
        let bytes = message.encode();
        assert_eq!((bytes.len(), &bytes[8..12], bytes[48]), (16 + 32 + 384, &[1, 2, 0x80, 1][..], 0xCD));
        assert_eq!(Challenge::parse(&bytes), Ok(message));
        let none = Vec::new();
        let reply = Reply {
            transaction: 7,
            response: vec![1; 32],
            challenge: Some(challenge),
            sequence: 9,
            dh_value: none,
        };
        let bytes = reply.encode();
        assert_eq!(bytes[..17], [1, 2, 0, 0, 7, 0, 32, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1]);
        assert_eq!(Reply::parse(&bytes, hash, DhGroup::Null), Ok(reply.clone()));
        let reply = Reply { dh_value, ..reply };
        let bytes = reply.encode();
        assert_eq!((bytes.len(), &bytes[10..12], bytes[80]), (16 + 64 + 384, &[0x80, 1][..], 0xCD));
        assert_eq!(Reply::parse(&bytes, hash, group), Ok(reply));
        assert_eq!(Reply::parse(&bytes, hash, DhGroup::Ffdhe4096), Err(AuthFailure::IncorrectPayload));
        let success = encode_success1(7, hash, Some(&[5; 32]));
        assert_eq!(success[..17], [1, 3, 0, 0, 7, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(parse_success1(&success, hash), Ok(Some(&[5; 32][..])));
        assert_eq!(parse_success1(&encode_success1(7, hash, None), hash), Ok(None));
        assert_eq!(encode_success2(0x102)[..6], [1, 4, 0, 0, 2, 1]);
        let failure = encode_failure(AuthMessage::Failure1, 7, AuthFailure::HashNotUsable);
        assert_eq!(failure, [0, 0xF1, 0, 0, 7, 0, 1, 4]);
        assert_eq!(auth_message(&failure), Some((AuthMessage::Failure1, 7)));
    }

    #[test]
    fn other_lengths_are_refused() {
        let (response, dh_value) = (vec![1; 48], Vec::new());
        let reply = Reply { transaction: 7, response, challenge: None, sequence: 0, dh_value }.encode();
        let negotiate = Negotiate {
            transaction: 7,
            secure_channel: 0,
            hashes: vec![AuthHash::Sha384],
            groups: vec![DhGroup::Null],
        };
        let negotiate = negotiate.encode();
        for length in 0..=200 {
            let resized = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes.resize(length, 0);
                bytes
            };
            let parse = |hash| Reply::parse(&resized(&reply), hash, DhGroup::Null);
            assert_eq!(parse(AuthHash::Sha384).is_ok(), length == reply.len());
            assert!(parse(AuthHash::Sha256).is_err());
            assert_eq!(Negotiate::parse(&resized(&negotiate)).is_ok(), length == negotiate.len());
        }
        let mut long_list = negotiate;
        long_list[8 + 2] = 31;
        assert_eq!(Negotiate::parse(&long_list), Err(AuthFailure::IncorrectPayload));
        long_list[8] = 2;
        assert_eq!(Negotiate::parse(&long_list), Err(AuthFailure::ProtocolNotUsable));
    }
}
