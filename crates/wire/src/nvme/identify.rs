//! Identify: request codes (Base 5.1.13), and the controller's answers.

use super::SubmissionEntry;
use crate::layout::{wire_enum, wire_struct};

wire_enum! {
    /// Controller or Namespace Structure: which structure Identify returns (Base 5.1.13, figure "CNS Values").
    pub enum Cns: u8 {
        /// Identify Namespace of the NVM command set.
        Namespace = 0x00,
        /// Identify Controller.
        Controller = 0x01,
        /// Active namespace list, above a given identifier.
        ActiveNamespaces = 0x02,
        /// Namespace Identification Descriptor list.
        NamespaceDescriptors = 0x03,
        /// Identify Namespace specific to a command set.
        CommandSetNamespace = 0x05,
        /// Identify Controller specific to a command set.
        CommandSetController = 0x06,
        /// Active namespace list of a command set.
        CommandSetActiveNamespaces = 0x07,
        /// Identify Namespace independent of the command set.
        IndependentNamespace = 0x08,
        /// Allocated namespace list.
        AllocatedNamespaces = 0x10,
        /// Identify Namespace of an allocated namespace.
        AllocatedNamespace = 0x11,
        /// Controllers attached to a namespace.
        AttachedControllers = 0x12,
        /// Controllers of the subsystem.
        Controllers = 0x13,
        /// Endurance groups, from a given identifier on.
        EnduranceGroups = 0x19,
        /// I/O Command Set data structure: combinations of command sets, 512 u64 bitmaps.
        CommandSets = 0x1C,
    }
}

impl Cns {
    /// Reports whether the structure depends on the command set named in the command.
    pub fn is_of_command_set(self) -> bool {
        matches!(
            self,
            Self::CommandSetNamespace | Self::CommandSetController | Self::CommandSetActiveNamespaces
        )
    }

    /// Raw structure code in dword 10.
    pub fn raw_of(entry: &SubmissionEntry) -> u8 {
        entry.cdw(10) as u8
    }

    /// Controller identifier in dword 10.
    pub fn controller_of(entry: &SubmissionEntry) -> u16 {
        (entry.cdw(10) >> 16) as u16
    }

    /// Identifier in the lower half of dword 11 (CNS specific).
    pub fn specific_of(entry: &SubmissionEntry) -> u16 {
        entry.cdw(11) as u16
    }

    /// Raw command set identifier in dword 11.
    pub fn command_set_of(entry: &SubmissionEntry) -> u8 {
        (entry.cdw(11) >> 24) as u8
    }
}

wire_enum! {
    /// I/O command set identifiers (CSI).
    pub enum CommandSet: u8 {
        /// NVM.
        Nvm = 0,
        /// Key value.
        KeyValue = 1,
        /// Zoned namespaces.
        Zoned = 2,
    }
}

wire_enum! {
    /// Controller type (byte 111).
    pub enum ControllerType: u8 {
        /// I/O controller.
        Io = 1,
        /// Discovery controller.
        Discovery = 2,
        /// Administrative controller.
        Administrative = 3,
    }
}

wire_struct! {
    /// Power state descriptor (Base figure "Power State Descriptor"): the fields that a drive with a single power state needs.
    pub struct PowerState: 32 {
        /// Maximum power, in units of 10 mW.
        0 => maximum_power_10mw: u16,
        /// Bit 0 max power scale (100 uW), bit 1 non-operational.
        3 => flags: u8,
        /// Entry latency in microseconds.
        4 => entry_us: u32,
        /// Exit latency in microseconds.
        8 => exit_us: u32,
    }
}

wire_struct! {
    /// Identify Controller, CNS 01h (Base 5.1.13.2.1). Field names are spelled out; the abbreviation of the
    /// specification follows in each comment.
    pub struct IdentifyController: 4096 {
        /// PCI vendor (VID).
        0 => vendor_id: u16,
        /// PCI subsystem vendor (SSVID).
        2 => subsystem_vendor_id: u16,
        /// Serial number (SN), ASCII.
        4 => serial_number: [u8; 20],
        /// Model number (MN), ASCII.
        24 => model_number: [u8; 40],
        /// Firmware revision (FR), ASCII.
        64 => firmware_revision: [u8; 8],
        /// Recommended arbitration burst (RAB), a power of two.
        72 => arbitration_burst: u8,
        /// IEEE OUI (IEEE).
        73 => ieee_oui: [u8; 3],
        /// Multi-path capabilities (CMIC): bit 0 ports, 1 controllers, 3 asymmetric access.
        76 => multipath: u8,
        /// Maximum transfer (MDTS): 2^n pages of 4 KiB; 0 is no limit.
        77 => transfer_max_shift: u8,
        /// Controller identifier (CNTLID).
        78 => controller_id: u16,
        /// Version (VER), see [`super::Version`].
        80 => version: u32,
        /// Resume latency (RTD3R) in microseconds.
        84 => resume_us: u32,
        /// Entry latency (RTD3E) in microseconds.
        88 => entry_us: u32,
        /// Optional asynchronous events (OAES), bits as in [`super::AsyncEventConfig`].
        92 => async_events: u32,
        /// Controller attributes (CTRATT): bit 0 128-bit host identifier, 4 endurance groups, 19 data placement.
        96 => attributes: u32,
        /// Controller type (CNTRLTYPE), see [`ControllerType`].
        111 => controller_type: u8,
        /// FRU globally unique identifier (FGUID).
        112 => fru_guid: [u8; 16],
        /// Command retry delays 1 to 3 (CRDT), in units of 100 ms.
        128 => retry_delays_100ms: [u16; 3],
        /// Optional admin commands (OACS): bit 0 security, 1 format, 2 firmware, 3 namespaces, 5 directives.
        256 => admin_commands: u16,
        /// Abort command limit (ACL), one less.
        258 => abort_limit: u8,
        /// Asynchronous event request limit (AERL), one less.
        259 => async_event_limit: u8,
        /// Firmware updates (FRMW): bit 0 slot 1 read-only, 3:1 number of slots.
        260 => firmware_updates: u8,
        /// Log page attributes (LPA): bit 0 SMART per namespace, 1 effects log, 2 extended data, 4 persistent event,
        /// 5 supported log pages.
        261 => log_attributes: u8,
        /// Error log entries (ELPE), one less.
        262 => error_log_entries: u8,
        /// Power states (NPSS), one less.
        263 => power_states: u8,
        /// Warning composite temperature (WCTEMP) in kelvin.
        266 => warning_temperature_k: u16,
        /// Critical composite temperature (CCTEMP) in kelvin.
        268 => critical_temperature_k: u16,
        /// Total NVM capacity (TNVMCAP) in bytes.
        280 => total_capacity_bytes: u128,
        /// Unallocated NVM capacity (UNVMCAP) in bytes.
        296 => unallocated_capacity_bytes: u128,
        /// Keep-alive granularity (KAS) in units of 100 ms; a host over fabrics refuses 0.
        320 => keep_alive_100ms: u16,
        /// Sanitize capabilities (SANICAP).
        328 => sanitize: u32,
        /// Largest endurance group identifier (ENDGIDMAX).
        340 => endurance_group_max: u16,
        /// Size of the persistent event log (PELS), in units of 64 KiB.
        352 => persistent_event_log_64kib: u32,
        /// Submission entry sizes (SQES): required (3:0) and maximum (7:4), powers of two. 66h.
        512 => submission_entry_sizes: u8,
        /// Completion entry sizes (CQES). 44h.
        513 => completion_entry_sizes: u8,
        /// Commands outstanding per queue (MAXCMD).
        514 => commands_max: u16,
        /// Number of namespaces (NN): the largest valid identifier.
        516 => namespaces: u32,
        /// Optional NVM commands (ONCS): bit 0 compare, 1 write uncorrectable, 2 dataset management, 3 write zeroes,
        /// 4 save and select in features, 5 reservations, 6 timestamp, 7 verify, 8 copy.
        520 => nvm_commands: u16,
        /// Fused operations (FUSES): bit 0 compare and write.
        522 => fused: u16,
        /// Format attributes (FNA).
        524 => format_attributes: u8,
        /// Volatile write cache (VWC): bit 0 present, 2:1 flush with the broadcast identifier (11b supported).
        525 => volatile_write_cache: u8,
        /// Atomic write unit, normal (AWUN), blocks less one.
        526 => atomic_write_normal: u16,
        /// Atomic write unit, power fail (AWUPF), blocks less one.
        528 => atomic_write_power_fail: u16,
        /// Namespace write protection (NWPC).
        531 => write_protection: u8,
        /// Atomic compare and write unit (ACWU), blocks less one.
        532 => atomic_compare_write: u16,
        /// SGL support (SGLS): bits 1:0 supported, bit 20 an address may be an offset, bit 21 transport blocks.
        536 => sgl: u32,
        /// Maximum number of allowed namespaces (MNAN).
        540 => allowed_namespaces: u32,
        /// Qualified name of the subsystem (SUBNQN).
        768 => subsystem_nqn: [u8; 256],
        /// I/O command capsule size (IOCCSZ), units of 16 bytes; 4 is a capsule without data.
        1792 => command_capsule_16b: u32,
        /// I/O response capsule size (IORCSZ), units of 16 bytes; 1.
        1796 => response_capsule_16b: u32,
        /// In-capsule data offset (ICDOFF), units of 16 bytes; 0.
        1800 => in_capsule_offset_16b: u16,
        /// Fabrics controller attributes (FCATT): bit 0 set for a static controller model.
        1802 => fabrics_attributes: u8,
        /// SGL data block descriptors per command (MSDBD); 1.
        1803 => sgl_descriptors_max: u8,
        /// Optional fabrics commands (OFCS): bit 0 disconnect.
        1804 => fabrics_commands: u16,
        /// Power state descriptors (PSD).
        2048 => power_state: [PowerState; 32],
        /// Vendor specific.
        3072 => vendor: [u8; 1024],
    }
}

wire_struct! {
    /// Identify Controller of the NVM command set, CNS 06h CSI 00h (NVM 4.1.5.4). Zero means "no limit".
    pub struct NvmControllerCapabilities: 4096 {
        /// Largest verify (VSL), 2^n pages.
        0 => verify_max_shift: u8,
        /// Largest write zeroes (WZSL), 2^n pages.
        1 => write_zeroes_max_shift: u8,
        /// Largest write uncorrectable (WUSL), 2^n pages.
        2 => write_uncorrectable_max_shift: u8,
        /// Ranges of a dataset management command (DMRL).
        3 => dsm_ranges_max: u8,
        /// Blocks in one range (DMRSL).
        4 => dsm_range_blocks_max: u32,
        /// Blocks in all ranges (DMSL).
        8 => dsm_blocks_max: u64,
    }
}
