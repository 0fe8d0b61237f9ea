//! Supported commands and features: logs 05h and 12h. Both follow from the interfaces of the subsystem, so no
//! announced command ends with Invalid Opcode.

use super::identify::{self, Interfaces};
use super::open_channel::STAGE_OPCODE;
use super::subsystem::Subsystem;
use crate::session::Port;
use pellucid_wire::nvme::cache::CacheOpcode;
use pellucid_wire::nvme::nameless::NamelessOpcode;
use pellucid_wire::nvme::open_channel::{GEOMETRY_OPCODE, VectorOpcode};
use pellucid_wire::nvme::{
    AdminOpcode, CommandEffect, CommandEffects, FABRICS_OPCODE, FeatureEffect, FeatureEffects, FeatureId,
    NvmOpcode,
};

const SUPPORTED: CommandEffect = CommandEffect::SUPPORTED;

/// Commands of the NVM command set, which open-channel namespaces use too.
pub(super) fn nvm(subsystem: &Subsystem, port: &Port<'_>) -> CommandEffects {
    let found = Interfaces::of(subsystem, port);
    let mut page = common(found);
    let mut io = |wanted: bool, opcode: u8, effect: CommandEffect| {
        if wanted {
            page.io[usize::from(opcode)] = effect;
        }
    };
    io(found.write_zeroes(), NvmOpcode::WriteZeroes.raw(), SUPPORTED.changes_content());
    io(found.deallocate(), NvmOpcode::DatasetManagement.raw(), SUPPORTED.changes_content());
    let placed = identify::endurance_groups(subsystem, port) > 0;
    io(placed, NvmOpcode::IoManagementReceive.raw(), SUPPORTED);
    io(placed, NvmOpcode::IoManagementSend.raw(), SUPPORTED);
    if placed {
        page.admin[usize::from(AdminOpcode::DirectiveReceive.raw())] = SUPPORTED;
        page.admin[usize::from(AdminOpcode::DirectiveSend.raw())] = SUPPORTED;
    }
    for opcode in [VectorOpcode::Reset, VectorOpcode::Write, VectorOpcode::Copy] {
        io(found.chunks, opcode.raw(), SUPPORTED.changes_content());
    }
    for opcode in [CacheOpcode::WriteClean, CacheOpcode::WriteDirty, CacheOpcode::Evict] {
        io(found.caches, opcode.raw(), SUPPORTED.changes_content());
    }
    io(found.caches, CacheOpcode::Clean.raw(), SUPPORTED);
    io(found.caches, CacheOpcode::Exists.raw(), SUPPORTED);
    for opcode in [NamelessOpcode::Write, NamelessOpcode::Free] {
        io(found.nameless, opcode.raw(), SUPPORTED.changes_content());
    }
    for opcode in [NamelessOpcode::Read, NamelessOpcode::Acknowledge, NamelessOpcode::Names] {
        io(found.nameless, opcode.raw(), SUPPORTED);
    }
    io(found.chunks, VectorOpcode::Read.raw(), SUPPORTED);
    io(found.chunks, STAGE_OPCODE, SUPPORTED);
    page
}

/// Commands of zoned namespaces. Linux writes to a zoned namespace only if append is among them.
pub(super) fn zoned(subsystem: &Subsystem, port: &Port<'_>) -> CommandEffects {
    let mut page = common(Interfaces::of(subsystem, port));
    page.io[usize::from(NvmOpcode::ZoneManagementReceive.raw())] = SUPPORTED;
    for opcode in [NvmOpcode::ZoneManagementSend, NvmOpcode::ZoneAppend] {
        page.io[usize::from(opcode.raw())] = SUPPORTED.changes_content();
    }
    page
}

/// Commands common to all namespaces.
fn common(found: Interfaces) -> CommandEffects {
    let mut page = CommandEffects::none();
    for opcode in [
        AdminOpcode::GetLogPage,
        AdminOpcode::Identify,
        AdminOpcode::Abort,
        AdminOpcode::SetFeatures,
        AdminOpcode::GetFeatures,
        AdminOpcode::AsyncEventRequest,
        AdminOpcode::KeepAlive,
    ] {
        page.admin[usize::from(opcode.raw())] = SUPPORTED;
    }
    page.admin[usize::from(AdminOpcode::FormatNvm.raw())] =
        SUPPORTED.changes_content().exclusive_in_namespace();
    page.admin[usize::from(FABRICS_OPCODE)] = SUPPORTED;
    if found.chunks {
        page.admin[usize::from(GEOMETRY_OPCODE)] = SUPPORTED;
    }
    for opcode in [NvmOpcode::Flush, NvmOpcode::Read, NvmOpcode::Compare, NvmOpcode::Verify] {
        page.io[usize::from(opcode.raw())] = SUPPORTED;
    }
    page.io[usize::from(NvmOpcode::Write.raw())] = SUPPORTED.changes_content();
    page
}

/// Supported features and the scope of each.
pub(super) fn features(subsystem: &Subsystem, port: &Port<'_>) -> FeatureEffects {
    let mut page = FeatureEffects::none();
    let mut add = |wanted: bool, id: FeatureId, effect: FeatureEffect| {
        if wanted {
            page.0[usize::from(id.raw())] = effect;
        }
    };
    for id in [
        FeatureId::Arbitration,
        FeatureId::PowerManagement,
        FeatureId::TemperatureThreshold,
        FeatureId::QueueCount,
        FeatureId::WriteAtomicity,
        FeatureId::AsyncEventConfig,
        FeatureId::Timestamp,
        FeatureId::KeepAliveTimer,
        FeatureId::HostBehavior,
        FeatureId::HostIdentifier,
    ] {
        add(true, id, FeatureEffect::OF_CONTROLLER);
    }
    let chunks = identify::has_chunks(subsystem, port);
    let placed = identify::endurance_groups(subsystem, port) > 0;
    let cached = identify::is_cached(subsystem, port);
    add(cached, FeatureId::VolatileWriteCache, FeatureEffect::OF_CONTROLLER);
    let zones = identify::has_zones(subsystem, port);
    add(zones, FeatureId::CommandSetProfile, FeatureEffect::OF_CONTROLLER);
    add(true, FeatureId::ErrorRecovery, FeatureEffect::OF_NAMESPACE);
    add(chunks, FeatureId::OpenChannelMediaFeedback, FeatureEffect::OF_NAMESPACE);
    add(placed, FeatureId::DataPlacement, FeatureEffect::OF_ENDURANCE_GROUP);
    add(placed, FeatureId::DataPlacementEvents, FeatureEffect::OF_NAMESPACE);
    page
}
