//! NVMe structures: golden bytes of the specification, round trips of every structure, refusals.

use pellucid_wire::nvme::*;
use proptest::prelude::*;

#[test]
fn a_completion_has_the_bytes_of_the_specification() {
    let completion = Completion {
        result: 0x1122_3344_5566_7788,
        sq_head: 0x0A0B,
        sq_id: 3,
        cid: 0xBEEF,
        phase: true,
        status: Status::new(1, 0x80).do_not_retry(),
    };
    let bytes = completion.encode();
    let golden = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x0B, 0x0A, 3, 0, 0xEF, 0xBE, 0x01, 0x83];
    assert_eq!(bytes, golden);
    assert_eq!(Completion::decode(&bytes), completion);
    assert!(completion.status.is(Status::CONNECT_INCOMPATIBLE_FORMAT) && completion.status.is_final());
}

#[test]
fn statuses_have_the_codes_of_the_specification() {
    let codes = [
        (Status::INVALID_NAMESPACE, 0, 0x0B),
        (Status::LBA_OUT_OF_RANGE, 0, 0x80),
        (Status::TRANSIENT_TRANSPORT_ERROR, 0, 0x22),
        (Status::FDP_DISABLED, 0, 0x29),
        (Status::INVALID_LOG_PAGE, 1, 0x09),
        (Status::CONNECT_INVALID_HOST, 1, 0x84),
        (Status::ZONE_INVALID_WRITE, 1, 0xBC),
        (Status::COMPARE_FAILURE, 2, 0x85),
        (Status::DEALLOCATED_BLOCK, 2, 0x87),
        (Status::OC_OUT_OF_ORDER, 2, 0xF2),
    ];
    for (status, kind, code) in codes {
        assert_eq!(status, Status::new(kind, code));
        assert!(status.text().is_some());
    }
    assert_eq!(Status::new(7, 0x12).to_string(), "status type 7 code 12h");
    assert!(Status::SUCCESS.is_success() && !Status::INVALID_FIELD.is_success());
}

#[test]
fn a_read_command_has_the_bytes_that_a_host_sends() {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&[0x02, 0x40, 0x34, 0x12, 1, 0, 0, 0]);
    bytes[32..36].copy_from_slice(&4096_u32.to_le_bytes());
    bytes[39] = 0x5A;
    bytes[40..48].copy_from_slice(&0x1_0000_0000_u64.to_le_bytes());
    bytes[48..52].copy_from_slice(&[7, 0, 0, 0x40]);
    let entry = SubmissionEntry(bytes);
    assert_eq!(NvmOpcode::from_raw(entry.opcode()), Some(NvmOpcode::Read));
    assert_eq!((entry.cid(), entry.nsid(), entry.psdt(), entry.fuse()), (0x1234, 1, 1, 0));
    assert_eq!(entry.sgl().pointer(), Ok(DataPointer::Transport { length_bytes: 4096 }));
    let range = entry.lba_range();
    assert_eq!((range.start, range.count, range.end()), (1 << 32, 8, Some((1 << 32) + 8)));
    assert!(range.force_unit_access() && !range.limited_retry());
    let built = SubmissionEntry::new(2, 0x1234, 1)
        .with_sgl(SglDescriptor::transport(4096))
        .with_cdw_pair(10, 1 << 32)
        .with_cdw(12, 0x4000_0007);
    assert_eq!(built, entry);
}

#[test]
fn only_the_descriptors_of_tcp_are_taken() {
    for kind in 0..=255 {
        let pointer = SglDescriptor { kind, ..SglDescriptor::default() }.pointer();
        match kind {
            0x01 | 0x5A => assert!(pointer.is_ok()),
            _ => assert_eq!(pointer, Err(Status::SGL_TYPE_INVALID.do_not_retry())),
        }
    }
    let pointer = |offset_bytes, length_bytes| DataPointer::InCapsule { offset_bytes, length_bytes };
    assert_eq!(pointer(0, 1024).range_in_capsule(1024), Ok(0..1024));
    let invalid = Err(Status::SGL_OFFSET_INVALID.do_not_retry());
    assert_eq!(pointer(1, 1024).range_in_capsule(1024), invalid);
    assert_eq!(pointer(u64::MAX, 1).range_in_capsule(1024), invalid);
}

#[test]
fn connect_goes_both_ways_and_refuses_what_the_specification_refuses() {
    let connect = Connect { queue_id: 0, queue_entries: 32, attributes: 0, keep_alive_ms: 5000 };
    let entry = connect.entry(1);
    assert_eq!(entry.0[..5], [0x7F, 0x40, 1, 0, 1]);
    assert_eq!(entry.0[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(entry.0[40..52], [0, 0, 0, 0, 31, 0, 0, 0, 0x88, 0x13, 0, 0]);
    assert_eq!(Connect::parse(&entry), Ok(connect));
    let mut wrong = entry;
    wrong.0[44] = 0;
    assert_eq!(Connect::parse(&wrong), Err((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), 44)));
    wrong.0[40] = 1;
    assert_eq!(Connect::parse(&wrong), Err((Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry(), 0)));

    let requirements = ConnectRequirements { authentication: true, secure_channel: false };
    assert_eq!(ConnectReply::accepted(7, requirements), 0x2_0007);
    assert_eq!(ConnectReply::parse_accepted(0x2_0007), (7, requirements));
    assert_eq!(ConnectReply::invalid_in_data(256), 0x1_0100);

    let data = ConnectData {
        host_id: [9; 16],
        controller_id: DYNAMIC_CONTROLLER,
        subsystem_nqn: nqn(DISCOVERY_NQN).expect("valid"),
        host_nqn: nqn("nqn.2014-08.org.nvmexpress:uuid:1").expect("valid"),
    };
    let bytes = data.encode();
    assert_eq!((bytes[16], bytes[17], bytes[256], bytes[512]), (0xFF, 0xFF, b'n', b'n'));
    assert_eq!(parse_nqn(&ConnectData::decode(&bytes).subsystem_nqn), Ok(DISCOVERY_NQN));
}

#[test]
fn qualified_names_are_checked() {
    let field = |text: &[u8]| {
        let mut field = [0; 256];
        field[..text.len()].copy_from_slice(text);
        field
    };
    assert_eq!(parse_nqn(&field(b"")), Err(NqnError::Empty));
    assert_eq!(parse_nqn(&field(b"iqn.x")), Err(NqnError::Prefix));
    assert_eq!(parse_nqn(&field(b"nqn.\xFF")), Err(NqnError::NotUtf8));
    assert_eq!(parse_nqn(&field(b"nqn.\n")), Err(NqnError::Control));
    let longest = format!("nqn.{}", "a".repeat(219));
    assert_eq!(parse_nqn(&field(longest.as_bytes())), Ok(&longest[..]));
    assert!(nqn(&longest).is_some());
    let longer = format!("{longest}a");
    assert_eq!(parse_nqn(&field(longer.as_bytes())), Err(NqnError::Unterminated));
    assert_eq!(nqn(&longer), None);
    assert_eq!(nqn("nqn.a\0b"), None);
    assert_eq!(ascii::<8>("ab\u{e9}"), *b"ab??    ");
}

#[test]
fn properties_have_the_bits_of_the_specification() {
    let capabilities = Capabilities {
        queue_entries_max: 128,
        timeout_500ms: 30,
        subsystem_reset: false,
        other_command_sets: true,
    };
    assert_eq!(capabilities.encode(), 127 | 1 << 16 | 30 << 24 | 1 << 37 | 1 << 43 | 1 << 59);
    assert_eq!(Capabilities::decode(capabilities.encode()), capabilities);
    assert_eq!(Version::V2_1.encode(), 0x0002_0100);
    // What Linux writes to enable a controller with all command sets.
    let config = ControllerConfig(0x0046_0061);
    assert!(config.enabled());
    assert_eq!((config.command_set(), config.page_bytes(), config.arbitration()), (6, 4096, 0));
    assert_eq!((config.submission_entry_shift(), config.completion_entry_shift()), (6, 4));
    assert_eq!(ControllerConfig(0x0046_4061).shutdown(), Some(ShutdownNotice::Normal));
    let status = ControllerStatus { ready: true, fatal: false, shutdown: ShutdownState::Complete };
    assert_eq!(status.encode(), 0b1001);
    assert_eq!(ControllerStatus::decode(0b1001), Some(status));

    let set = PropertySet { is_8_bytes: false, offset: Property::Configuration.raw(), value: 0x0046_0061 };
    let entry = set.entry(2);
    assert_eq!((entry.fabrics_type(), entry.0[44], entry.0[48]), (0, 0x14, 0x61));
    assert_eq!(PropertySet::parse(&entry), Ok(set));
    let get = PropertyGet { is_8_bytes: true, offset: Property::Capabilities.raw() };
    assert_eq!(PropertyGet::parse(&get.entry(3)), Ok(get));
    let mut wrong = get.entry(3);
    wrong.0[40] = 2;
    assert_eq!(PropertyGet::parse(&wrong), Err(Status::INVALID_FIELD.do_not_retry()));
}

#[test]
fn get_log_page_takes_lengths_of_both_halves() {
    let entry = SubmissionEntry::new(2, 0, BROADCAST_NSID)
        .with_cdw(10, 0xFFFF_8105)
        .with_cdw(11, 0x0007_0001)
        .with_cdw_pair(12, 4096)
        .with_cdw(14, 2 << 24);
    let page = GetLogPage::parse(&entry).expect("valid");
    assert_eq!((page.log_id, page.specific, page.retain_event), (5, 1, true));
    assert_eq!((page.length_bytes, page.specific_id), (0x2_0000 * 4, 7));
    assert_eq!((page.offset, page.offset_is_index, page.command_set), (4096, false, 2));
    let odd = entry.with_cdw_pair(12, 2);
    assert_eq!(GetLogPage::parse(&odd), Err(Status::INVALID_FIELD.do_not_retry()));
}

#[test]
fn identify_controller_puts_each_field_where_hosts_look() {
    let identify = IdentifyController {
        serial_number: ascii("S1"),
        controller_id: 0x0102,
        controller_type: ControllerType::Io.raw(),
        keep_alive_100ms: 10,
        submission_entry_sizes: 0x66,
        completion_entry_sizes: 0x44,
        commands_max: 128,
        namespaces: 32,
        sgl: 1 | 1 << 20,
        subsystem_nqn: nqn("nqn.2014-08.org.nvmexpress:x").expect("valid"),
        command_capsule_16b: 4 + 4096 / 16,
        response_capsule_16b: 1,
        sgl_descriptors_max: 1,
        endurance_group_max: 1,
        ..IdentifyController::default()
    };
    let bytes = identify.encode();
    assert_eq!(bytes[4..8], *b"S1  ");
    assert_eq!((bytes[78], bytes[79], bytes[111], bytes[320], bytes[340]), (2, 1, 1, 10, 1));
    assert_eq!((bytes[512], bytes[513], bytes[514], bytes[516]), (0x66, 0x44, 128, 32));
    assert_eq!(bytes[536..540], [1, 0, 0x10, 0]);
    assert_eq!((bytes[768], bytes[1792], bytes[1793], bytes[1796], bytes[1803]), (b'n', 4, 1, 1, 1));
    assert_eq!(IdentifyController::decode(&bytes), identify);
}

#[test]
fn identify_namespace_puts_each_field_where_hosts_look() {
    let mut identify =
        IdentifyNamespace { size_blocks: 1 << 20, endurance_group: 3, ..IdentifyNamespace::default() };
    identify.format_list[1] = LbaFormat { metadata_bytes: 8, data_shift: 12, relative_performance: 0 };
    identify.nguid = [0xAB; 16];
    identify.vendor[0] = 1;
    let bytes = identify.encode();
    assert_eq!((bytes[2], bytes[102], bytes[104], bytes[119], bytes[120]), (0x10, 3, 0xAB, 0xAB, 0));
    assert_eq!(bytes[132..136], [8, 0, 12, 0]);
    assert_eq!(bytes[384], 1);
}

#[test]
fn lists_of_namespaces_and_identifiers() {
    let list = namespace_list([1, 2, 5, 9], 2);
    assert_eq!(list[..12], [5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(id_list(&list).collect::<Vec<_>>(), [5, 9]);
    assert_eq!(id_list(&namespace_list(1..5000, 0)).count(), 1024);

    let identifiers = NamespaceIdentifiers {
        nguid: Some([7; 16]),
        command_set: Some(2),
        ..NamespaceIdentifiers::default()
    };
    let bytes = identifiers.encode();
    assert_eq!(bytes[..5], [2, 16, 0, 0, 7]);
    assert_eq!(bytes[20..26], [4, 1, 0, 0, 2, 0]);
    assert_eq!(NamespaceIdentifiers::decode(&bytes), Some(identifiers));
    let mut wrong = bytes;
    wrong[1] = 15;
    assert_eq!(NamespaceIdentifiers::decode(&wrong), None);
}

#[test]
fn log_pages_have_the_bytes_of_the_specification() {
    let pages = SupportedLogPages::of(&[LogId::Smart, LogId::Discovery]).encode();
    assert_eq!((pages[0], pages[8], pages[0x70 * 4]), (0, 1, 1));
    let mut effects = CommandEffects::none();
    effects.io[0x7D] = CommandEffect::SUPPORTED.changes_content();
    let bytes = effects.encode();
    assert_eq!(bytes[1024 + 4 * 0x7D..][..4], [3, 0, 0, 0]);
    let smart =
        SmartLog { temperature_k: 310, data_units_read: 1 << 64, media_errors: 5, ..SmartLog::default() };
    let bytes = smart.encode();
    assert_eq!((bytes[1], bytes[2], bytes[40], bytes[160]), (0x36, 1, 1, 5));
    let group = EnduranceGroupLog {
        percentage_used: 3,
        media_units_written: 7,
        total_capacity_bytes: 9,
        ..Default::default()
    };
    let bytes = group.encode();
    assert_eq!((bytes.len(), bytes[5], bytes[80], bytes[160]), (512, 3, 7, 9));
    let entry = DiscoveryEntry {
        transport_type: 3,
        address_family: 1,
        subsystem_type: 2,
        service: ascii("4420"),
        address: ascii("127.0.0.1"),
        ..DiscoveryEntry::default()
    };
    let bytes = entry.encode();
    assert_eq!(bytes[..3], [3, 1, 2]);
    assert_eq!((&bytes[32..36], &bytes[512..521]), (&b"4420"[..], &b"127.0.0.1"[..]));
    let header =
        PersistentEventLogHeader { power_on_hours: 1, vendor_id: 2, generation: 3, ..Default::default() };
    let bytes = header.encode();
    assert_eq!((bytes[28], bytes[52], bytes[372]), (1, 2, 3));
}

#[test]
fn features_and_events() {
    assert_eq!(QueueCount { submission: 4, completion: 8 }.encode(), 0x0007_0003);
    assert_eq!(QueueCount::decode(0x0007_0003), Some(QueueCount { submission: 4, completion: 8 }));
    assert_eq!(QueueCount::decode(0xFFFF), None);
    let get = SubmissionEntry::new(AdminOpcode::GetFeatures.raw(), 0, 0).with_cdw(10, 0x307);
    assert_eq!(FeatureId::from_raw(FeatureId::raw_of(&get)), Some(FeatureId::QueueCount));
    assert_eq!(FeatureSelect::of(&get), Some(FeatureSelect::Capabilities));
    assert_eq!(AsyncEvent::NamespaceAttribute.encode(), 0x0004_0002);
    assert_eq!(AsyncEvent::DiscoveryLog.encode(), 0x0070_F002);
    for event in AsyncEvent::ALL {
        assert_eq!(AsyncEvent::decode(event.encode()), Some(event));
    }
    assert!(AsyncEventConfig(0x8000_0100).wants(AsyncEventConfig::DISCOVERY_LOG));
}

#[test]
fn ranges_of_dataset_management() {
    let entry = SubmissionEntry::new(9, 0, 1).with_cdw(10, 1);
    let ranges = [
        DsmRange { attributes: 0, length_blocks: 8, start: 16 },
        DsmRange { attributes: 0, length_blocks: 1, start: 1 << 40 },
    ];
    let data = [ranges[0].encode(), ranges[1].encode()].concat();
    assert_eq!(data[4..9], [8, 0, 0, 0, 16]);
    let read: Vec<_> = DsmRange::list(&entry, &data).expect("long enough").collect();
    assert_eq!(read, ranges);
    let short = DsmRange::list(&entry, &data[..31]).map(|_| ()).expect_err("too short");
    assert!(short.is(Status::SGL_DATA_LENGTH_INVALID));
}

#[test]
fn zones() {
    let send = SubmissionEntry::new(0x79, 0, 1).with_cdw_pair(10, 128).with_cdw(13, 0x104);
    let parsed = zns::ZoneManagementSend::parse(&send).expect("valid");
    assert_eq!((parsed.action, parsed.select_all, parsed.start), (zns::ZoneAction::Reset, true, 128));
    assert!(zns::ZoneManagementSend::parse(&send.with_cdw(13, 0x06)).is_err());
    let receive = SubmissionEntry::new(0x7A, 0, 1).with_cdw(12, 1023).with_cdw(13, 0x1_0500);
    let parsed = zns::ZoneManagementReceive::parse(&receive).expect("valid");
    assert_eq!((parsed.length_bytes, parsed.filter, parsed.partial), (4096, zns::ReportFilter::Full, true));
    assert!(zns::ZoneManagementReceive::parse(&receive.with_cdw(13, 2)).is_err());
    let mut namespace = zns::ZonedNamespace { open_max: 13, ..zns::ZonedNamespace::default() };
    namespace.formats[0] = zns::ZonedFormat { zone_blocks: 0x1000, extension_64b: 0 };
    assert_eq!((namespace.encode()[8], namespace.encode()[2817]), (13, 0x10));
}

#[test]
fn placement() {
    let write = SubmissionEntry::new(1, 0, 1).with_cdw(12, 2 << 20).with_cdw(13, 5 << 16);
    assert_eq!(fdp::placement_of(&write, &write.lba_range()), Some(5));
    let without = write.with_cdw(12, 0);
    assert_eq!(fdp::placement_of(&without, &without.lba_range()), None);
    let configuration =
        fdp::Configuration { handles: 8, unit_bytes: 1 << 24, ..fdp::Configuration::default() };
    assert_eq!((configuration.encode()[8], configuration.encode()[19]), (8, 1));
    assert_eq!(fdp::HandleStatusHeader { handles: 2 }.encode()[14], 2);
}

#[test]
fn open_channel_commands() {
    let inline = SubmissionEntry::new(0x92, 0, 1).with_cdw_pair(10, 77);
    let read = open_channel::VectorCommand::parse(&inline).expect("valid");
    assert_eq!(read.addresses(&[]).expect("inline").collect::<Vec<_>>(), [77]);
    let write = SubmissionEntry::new(0x91, 0, 1).with_cdw(12, 1);
    let write = open_channel::VectorCommand::parse(&write).expect("valid");
    let list = [5_u64.to_le_bytes(), 6_u64.to_le_bytes(), [0xEE; 8]].concat();
    assert_eq!(write.addresses(&list).expect("long enough").collect::<Vec<_>>(), [5, 6]);
    assert!(write.addresses(&list[..15]).is_err());
    assert!(open_channel::VectorCommand::parse(&SubmissionEntry::new(0x94, 0, 1)).is_err());
    let run = open_channel::VectorCommand {
        data: open_channel::VectorData::Metadata,
        is_run: true,
        count: 64,
        limited_retry: true,
        ..read
    };
    assert_eq!(open_channel::VectorCommand::parse(&run.entry(3, 1)), Ok(run));
    // Out-of-band data alone cannot be written, and an erase moves none.
    let only =
        |opcode: u8| SubmissionEntry::new(opcode, 0, 1).with_cdw(12, open_channel::profile::METADATA_ONLY);
    assert!(open_channel::VectorCommand::parse(&only(0x91)).is_err());
    assert!(open_channel::VectorCommand::parse(&only(0x90)).is_err());
    let geometry = open_channel::Geometry { major: 2, groups: 8, read_ns: [1, 2], ..Default::default() };
    assert_eq!(geometry.profile_metadata_bytes(), None);
    assert_eq!(geometry.with_profile(16).profile_metadata_bytes(), Some(16));
    let bytes = geometry.encode();
    assert_eq!((bytes[0], bytes[64], bytes[192], bytes[196]), (2, 8, 1, 2));
    let chunk = open_channel::ChunkDescriptor { write_pointer: 9, ..Default::default() };
    assert_eq!(chunk.encode()[24], 9);
}

/// Decode, encode, decode gives the same for all bytes, and zeros decode to the default.
macro_rules! round_trips {
    ($($name:ident: $ty:ty,)+) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(16))]
            $(
                #[test]
                fn $name(seed in proptest::collection::vec(any::<u8>(), 64)) {
                    let bytes: [u8; <$ty>::BYTES] =
                        std::array::from_fn(|index| seed[index % 64].wrapping_add((index / 64) as u8));
                    let value = <$ty>::decode(&bytes);
                    prop_assert_eq!(<$ty>::decode(&value.encode()), value);
                    prop_assert_eq!(<$ty>::decode(&[0; <$ty>::BYTES]), <$ty>::default());
                    prop_assert_eq!(<$ty>::default().encode(), [0; <$ty>::BYTES]);
                }
            )+
        }
    };
}

round_trips! {
    completion: Completion,
    sgl_descriptor: SglDescriptor,
    dsm_range: DsmRange,
    connect_data: ConnectData,
    identify_controller: IdentifyController,
    nvm_controller: NvmControllerCapabilities,
    identify_namespace: IdentifyNamespace,
    independent_namespace: IndependentNamespace,
    nvm_namespace: NvmNamespace,
    error_log_entry: ErrorLogEntry,
    smart_log: SmartLog,
    endurance_group_log: EnduranceGroupLog,
    firmware_slot_log: FirmwareSlotLog,
    persistent_header: PersistentEventLogHeader,
    persistent_event: PersistentEventHeader,
    discovery_header: DiscoveryHeader,
    discovery_entry: DiscoveryEntry,
    zoned_namespace: zns::ZonedNamespace,
    zoned_controller: zns::ZonedController,
    zone_report: zns::ZoneReportHeader,
    fdp_configuration: fdp::Configuration,
    fdp_event: fdp::Event,
    fdp_status: fdp::HandleStatus,
    fdp_statistics: fdp::Statistics,
    geometry: open_channel::Geometry,
    chunk: open_channel::ChunkDescriptor,
    notification: open_channel::ChunkNotification,
}

proptest! {
    #[test]
    fn every_parser_takes_any_command(bytes in any::<[u8; 32]>(), tail in any::<[u8; 32]>(), data in any::<[u8; 24]>()) {
        let mut raw = [0; 64];
        raw[..32].copy_from_slice(&bytes);
        raw[32..].copy_from_slice(&tail);
        let entry = SubmissionEntry(raw);
        let range = entry.lba_range();
        prop_assert!((1..=65536).contains(&range.count));
        let _ = (entry.sgl().pointer(), Connect::parse(&entry), PropertySet::parse(&entry), GetLogPage::parse(&entry));
        let _ = (zns::ZoneManagementSend::parse(&entry), zns::ZoneManagementReceive::parse(&entry));
        let _ = (AuthArguments::parse(&entry), FeatureSelect::of(&entry), Cns::raw_of(&entry));
        if let Ok(ranges) = DsmRange::list(&entry, &data) {
            prop_assert!(ranges.count() <= 1);
        }
        if let Ok(vector) = open_channel::VectorCommand::parse(&entry)
            && let Ok(addresses) = vector.addresses(&data)
        {
            prop_assert_eq!(addresses.count() as u32, vector.count);
        }
    }

    #[test]
    fn any_bytes_decode_as_identifiers_or_not_at_all(front in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = [0xFF; 4096];
        bytes[..front.len()].copy_from_slice(&front);
        let _ = NamespaceIdentifiers::decode(&bytes);
        let mut field = [0; 256];
        field[..front.len()].copy_from_slice(&front);
        if let Ok(name) = parse_nqn(&field) {
            prop_assert_eq!(nqn(name).map(|again| again[..name.len()].to_vec()), Some(name.as_bytes().to_vec()));
        }
    }
}
