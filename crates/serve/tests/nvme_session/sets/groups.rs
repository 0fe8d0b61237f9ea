//! Properties of a namespace beside its commands: endurance group, directives, wear notifications.

use super::*;
use pellucid_device::Namespace;
use pellucid_wire::nvme::EnduranceGroupLog;
use pellucid_wire::nvme::fdp::Directives;

/// The group consists of namespace 1 alone: operations on chunks of the same drive do not count as its
/// traffic.
#[test]
fn an_endurance_group_is_listed_and_tells_its_health() {
    let mut sets = sets();
    for (from, listed) in [(0, [1, 0, 1, 0]), (1, [1, 0, 1, 0]), (2, [0; 4])] {
        let entry = SubmissionEntry::new(6, 0, 0).with_cdw(10, 0x19).with_cdw(11, from);
        assert_eq!(sets.world.fetch(sets.admin, entry, 4096).expect("a list")[..4], listed, "from {from}");
    }
    assert_eq!(sets.log(0, 0, 0, 0, 1024).expect("supported pages")[4 * 9], 1);
    for group in [0, 2, 3] {
        assert_eq!(sets.log(9, 0, group, 0, 512), Err(no(Status::INVALID_FIELD)), "group {group}");
    }
    let (start, data) = (sets.chunk(1).start, [1; 8 * SECTOR]);
    assert!(sets.place(0, 1).is_success() && sets.place(8, 2).is_success());
    assert!(
        sets.world
            .ask(sets.io, in_capsule(of_two(blocks(WRITE, start, 8)), &data), &data)
            .status
            .is_success()
    );
    for entry in [blocks(READ, 0, 8), of_two(blocks(READ, start, 8)), of_two(blocks(READ, start, 8))] {
        assert!(sets.world.fetch(sets.io, entry, 8 * SECTOR as u32).is_ok());
    }
    let page = sets.log(9, 0, 1, 0, 512).expect("group 1");
    let group = EnduranceGroupLog::decode(page.first_chunk().expect("512 bytes"));
    assert_eq!((group.host_write_commands, group.host_read_commands), (2, 1));
    assert_eq!((group.data_units_written, group.data_units_read), (1, 1), "billions of bytes, rounded up");
    assert_eq!(
        (group.critical_warning, group.available_spare, group.available_spare_threshold),
        (0, 100, 10)
    );
    let capacity = IdentifyNamespace::decode(&sets.identify(0, 1)).capacity_bytes;
    assert_eq!((group.total_capacity_bytes, group.unallocated_capacity_bytes), (capacity, 0));
    // A read-only drive: the group warns, and so does the controller about its groups.
    for die in 0..4 {
        sets.world.core.inject(0, Fault::KillDie { die: DieId(die) }).expect("there are four");
    }
    for lba in (0..256).step_by(8) {
        sets.place(lba, 1);
    }
    sets.world.ask(sets.io, SubmissionEntry::new(0, 0, 1), &[]);
    let page = sets.log(9, 0, 1, 0, 512).expect("group 1");
    let warned = EnduranceGroupLog::decode(page.first_chunk().expect("512 bytes")).critical_warning;
    let smart = sets.log(2, 0, 0, 0, 512).expect("SMART");
    let smart = SmartLog::decode(smart.first_chunk().expect("512 bytes"));
    assert_eq!((warned & 1 << 3, smart.endurance_group_warning), (1 << 3, warned), "read-only");
}

/// Placement is a directive: supported if there are handles, and not switchable by hosts.
#[test]
fn directives_are_told_and_not_changed() {
    const DIRECTIVE_SEND: u8 = 0x19;
    const DIRECTIVE_RECEIVE: u8 = 0x1A;
    let mut sets = sets();
    assert_eq!(IdentifyController::decode(&sets.identify(1, 0)).admin_commands, 1 << 1 | 1 << 5);
    let receive =
        |nsid| SubmissionEntry::new(DIRECTIVE_RECEIVE, 0, nsid).with_cdw(10, 4096 / 4 - 1).with_cdw(11, 1);
    for (nsid, known, persistent) in [(1, 0b101, 0b100), (2, 0b001, 0)] {
        let page = sets.world.fetch(sets.admin, receive(nsid), 4096).expect("directives");
        let directives = Directives::decode(page.first_chunk().expect("4096 bytes"));
        let told = [directives.supported, directives.enabled, directives.persistent].map(|bits| bits[0]);
        assert_eq!(told, [known, known, persistent], "namespace {nsid}");
    }
    let effects = sets.log(5, 0, 0, 0, 4096).expect("effects");
    assert_eq!([0x19, 0x1A].map(|opcode: usize| effects[4 * opcode]), [1, 1]);
    assert_eq!(sets.world.fetch(sets.admin, receive(3), 4096), Err(no(Status::INVALID_NAMESPACE)));
    // Another operation, and another type.
    for operation in [2, 1 | 2 << 8] {
        let other = receive(1).with_cdw(11, operation);
        assert_eq!(sets.world.fetch(sets.admin, other, 4096), Err(no(Status::INVALID_FIELD)));
    }
    // Enable or disable placement (type 2).
    for enable in [0, 1] {
        let send = SubmissionEntry::new(DIRECTIVE_SEND, 0, 1).with_cdw(11, 1).with_cdw(12, enable | 2 << 8);
        assert_eq!(sets.world.ask(sets.admin, send, &[]).status, no(Status::INVALID_FIELD));
    }
    let mut plain = World::of(vec![("plain".into(), common::drive(StoreKind::Ram))], None);
    let (admin, _) = plain.attach(PLAIN);
    for opcode in [DIRECTIVE_SEND, DIRECTIVE_RECEIVE] {
        let entry = SubmissionEntry::new(opcode, 0, 1).with_cdw(10, 1023).with_cdw(11, 1);
        assert_eq!(plain.fetch(admin, entry, 4096), Err(no(Status::INVALID_OPCODE)), "no placement");
    }
}

/// WIT of the geometry is in steps of the wear index: 255 at the rated erases of a chunk.
#[test]
fn a_geometry_tells_which_gap_in_wear_is_noticed() {
    for (gap, rated, threshold) in [(0, 3000, 0), (1, 3000, 1), (100, 3000, 8), (9000, 3000, 255)] {
        let mut config = common::config(StoreKind::Ram);
        config.media.metadata_bytes = 16;
        config.media.geometry.spare_bytes = 256;
        let mut namespace = common::chunk_namespace(0..config.media.geometry.blocks, Management::Host);
        let Namespace::OpenChannel { chunks, feedback } = &mut namespace else { panic!("chunks") };
        (chunks.rated_erases, feedback.wear_gap) = (rated, gap);
        config.namespaces = vec![namespace];
        let mut sets = sets_on(Device::new(&config).expect("a good configuration"));
        let page = sets.world.fetch(sets.admin, SubmissionEntry::new(0xE2, 0, 1), 4096).expect("geometry");
        let geometry = Geometry::decode(page.first_chunk().expect("4096 bytes"));
        assert_eq!(geometry.wear_threshold, threshold, "{gap} of {rated} erases");
    }
}
