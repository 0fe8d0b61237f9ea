//! Identify structures of namespaces, and the lists of namespaces and of their identifiers (Base 5.1.13.2, NVM 4.1.5).

use crate::layout::{Field, put, wire_struct};

wire_struct! {
    /// LBA format (NVM 4.1.5.1).
    pub struct LbaFormat: 4 {
        /// Metadata bytes per block.
        0 => metadata_bytes: u16,
        /// Data bytes per block as a power of two; 9 or more, 0 for no format.
        2 => data_shift: u8,
        /// Relative performance: 0 is best.
        3 => relative_performance: u8,
    }
}

wire_struct! {
    /// Identify Namespace, CNS 00h (NVM 4.1.5.1). An inactive namespace is all zeros.
    pub struct IdentifyNamespace: 4096 {
        /// Size in blocks (NSZE).
        0 => size_blocks: u64,
        /// Capacity in blocks (NCAP).
        8 => capacity_blocks: u64,
        /// Allocated blocks (NUSE).
        16 => used_blocks: u64,
        /// Features (NSFEAT): bit 0 thin provisioning, 1 namespace atomics, 2 errors for deallocated blocks (DAE),
        /// 4 preferred I/O sizes are given (OPTPERF).
        24 => features: u8,
        /// Number of formats, one less (NLBAF).
        25 => formats: u8,
        /// Format in use (FLBAS): bits 3:0.
        26 => format: u8,
        /// Metadata capabilities (MC).
        27 => metadata_capabilities: u8,
        /// Protection capabilities (DPC).
        28 => protection_capabilities: u8,
        /// Protection in use (DPS).
        29 => protection: u8,
        /// Sharing (NMIC): bit 0 shared between controllers.
        30 => sharing: u8,
        /// Reservation capabilities (RESCAP).
        31 => reservations: u8,
        /// Format progress (FPI).
        32 => format_progress: u8,
        /// Deallocation (DLFEAT): bits 2:0 value read back (1 zeros, 2 ones), bit 3 by write zeroes too.
        33 => deallocation: u8,
        /// Atomic write unit, normal (NAWUN).
        34 => atomic_write_normal: u16,
        /// Atomic write unit, power fail (NAWUPF).
        36 => atomic_write_power_fail: u16,
        /// Atomic compare and write (NACWU).
        38 => atomic_compare_write: u16,
        /// Optimal I/O boundary in blocks (NOIOB).
        46 => io_boundary_blocks: u16,
        /// Capacity in bytes (NVMCAP).
        48 => capacity_bytes: u128,
        /// Preferred write granularity, one less (NPWG).
        64 => write_granularity: u16,
        /// Preferred write alignment, one less (NPWA).
        66 => write_alignment: u16,
        /// Preferred deallocate granularity, one less (NPDG).
        68 => deallocate_granularity: u16,
        /// Preferred deallocate alignment, one less (NPDA).
        70 => deallocate_alignment: u16,
        /// Optimal write size, one less (NOWS).
        72 => write_optimal: u16,
        /// Attributes (NSATTR): bit 0 write protected.
        99 => attributes: u8,
        /// Endurance group (ENDGID).
        102 => endurance_group: u16,
        /// Globally unique identifier (NGUID), big-endian.
        104 => nguid: [u8; 16],
        /// IEEE extended unique identifier (EUI64), big-endian.
        120 => eui64: [u8; 8],
        /// Formats (LBAF).
        128 => format_list: [LbaFormat; 64],
        /// Vendor specific; byte 384 is 1 on an open-channel drive.
        384 => vendor: [u8; 3712],
    }
}

wire_struct! {
    /// Identify Namespace independent of the command set, CNS 08h (Base 5.1.13.2.8).
    pub struct IndependentNamespace: 4096 {
        /// Features (NSFEAT): bit 4 rotational media, 5 no volatile write cache (VWCNP).
        0 => features: u8,
        /// Sharing (NMIC).
        1 => sharing: u8,
        /// Reservation capabilities (RESCAP).
        2 => reservations: u8,
        /// Format progress (FPI).
        3 => format_progress: u8,
        /// Asymmetric access group (ANAGRPID).
        4 => access_group: u32,
        /// Attributes (NSATTR).
        8 => attributes: u8,
        /// NVM set (NVMSETID).
        10 => nvm_set: u16,
        /// Endurance group (ENDGID).
        12 => endurance_group: u16,
        /// Status (NSTAT): bit 0 ready.
        14 => status: u8,
    }
}

wire_struct! {
    /// Identify Namespace of the NVM command set, CNS 05h CSI 00h (NVM 4.1.5.3).
    pub struct NvmNamespace: 4096 {
        /// Logical block storage tag mask (LBSTM).
        0 => storage_tag_mask: u64,
        /// Protection information capabilities (PIC).
        8 => protection_capabilities: u8,
        /// Extended LBA formats (ELBAF).
        12 => extended_formats: [u32; 64],
    }
}

/// A namespace list of 1,024 identifiers (Base 4.6.2), for CNS 02h, 07h, 10h and log 04h: those of `active` above
/// `after`, ascending, closed by zeros. `active` must ascend.
pub fn namespace_list(active: impl IntoIterator<Item = u32>, after: u32) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    for (slot, nsid) in bytes.chunks_exact_mut(4).zip(active.into_iter().filter(|&nsid| nsid > after)) {
        nsid.put(slot);
    }
    bytes
}

/// Reads a list that [`namespace_list`] wrote: identifiers up to the first zero.
pub fn id_list(bytes: &[u8; 4096]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(u32::get).take_while(|&nsid| nsid != 0)
}

/// The identifiers of a namespace, as in the descriptor list of CNS 03h (Base 5.1.13.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NamespaceIdentifiers {
    /// Type 1.
    pub eui64: Option<[u8; 8]>,
    /// Type 2.
    pub nguid: Option<[u8; 16]>,
    /// Type 3.
    pub uuid: Option<[u8; 16]>,
    /// Type 4: command set, raw.
    pub command_set: Option<u8>,
}

impl NamespaceIdentifiers {
    /// The descriptor list, closed by zeros.
    pub fn encode(&self) -> [u8; 4096] {
        let mut bytes = [0; 4096];
        let mut end = 0;
        let mut add = |kind: u8, value: &[u8]| {
            put(&mut bytes, end, kind);
            put(&mut bytes, end + 1, value.len() as u8);
            bytes[end + 4..end + 4 + value.len()].copy_from_slice(value);
            end += 4 + value.len();
        };
        self.eui64.iter().for_each(|value| add(1, value));
        self.nguid.iter().for_each(|value| add(2, value));
        self.uuid.iter().for_each(|value| add(3, value));
        self.command_set.iter().for_each(|&value| add(4, &[value]));
        bytes
    }

    /// Reads a descriptor list; unknown types are passed over. `None` if a known type has another length, or a
    /// descriptor passes the end.
    pub fn decode(bytes: &[u8; 4096]) -> Option<Self> {
        let mut identifiers = Self::default();
        let mut rest = &bytes[..];
        while let [kind, length, _, _, tail @ ..] = rest {
            if *length == 0 {
                break;
            }
            let (value, tail) = tail.split_at_checked(usize::from(*length))?;
            match kind {
                1 => identifiers.eui64 = Some(value.try_into().ok()?),
                2 => identifiers.nguid = Some(value.try_into().ok()?),
                3 => identifiers.uuid = Some(value.try_into().ok()?),
                4 => identifiers.command_set = Some(<[u8; 1]>::try_from(value).ok()?[0]),
                _ => {}
            }
            rest = tail;
        }
        Some(identifiers)
    }
}
