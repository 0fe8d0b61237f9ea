//! Controllers: connecting as Linux does, identification, features, events, aborts, format, keep-alive,
//! access.

use super::world::{CC_ENABLE, HOST, NQN, SECTOR, World, blocks, in_capsule};
use crate::common;
use pellucid_device::{Device, FirmwareModule, StepCost};
use pellucid_media::StoreKind;
use pellucid_serve::serial_number;
use pellucid_serve::{Core, Time};
use pellucid_target::Drives;
use pellucid_target::Service;
use pellucid_target::connection::Close;
use pellucid_target::nvme::{ConfigError, SubsystemConfig, Target};
use pellucid_wire::nvme::{
    AsyncEvent, Cns, Connect, ConnectReply, DISCOVERY_NQN, DYNAMIC_CONTROLLER, IdentifyController,
    IdentifyNamespace, NamespaceIdentifiers, PersistentEventLogHeader, SglDescriptor, SmartLog, Status,
    SubmissionEntry, id_list,
};
use pellucid_wire::tcp::IcReq;

const PLAIN: IcReq = IcReq { alignment: 0, header_digest: false, data_digest: false, r2t_max: 0 };

fn identify(world: &mut World, link: usize, cns: Cns, nsid: u32) -> Result<Box<[u8; 4096]>, Status> {
    let entry = SubmissionEntry::new(6, 0, nsid).with_cdw(10, cns.raw().into());
    let page = world.fetch(link, entry, 4096)?;
    Ok(page.try_into().expect("4096 bytes"))
}

fn log_entry(id: u8, specific: u32, bytes: u32) -> SubmissionEntry {
    SubmissionEntry::new(2, 0, u32::MAX).with_cdw(10, u32::from(id) | specific << 8 | (bytes / 4 - 1) << 16)
}

fn log(world: &mut World, link: usize, id: u8, bytes: u32) -> Result<Vec<u8>, Status> {
    world.fetch(link, log_entry(id, 0, bytes), bytes)
}

fn smart(world: &mut World, link: usize) -> SmartLog {
    let page = log(world, link, 2, 512).expect("SMART");
    SmartLog::decode(page.first_chunk().expect("512 bytes"))
}

fn admin_connect(queue_entries: u32) -> Connect {
    Connect { queue_id: 0, queue_entries, attributes: 0, keep_alive_ms: 5000 }
}

#[test]
fn a_linux_host_finds_what_it_needs() {
    let mut world = World::new();
    let admin = world.dial(PLAIN);
    let completion = world.connect(admin, &admin_connect(32), NQN, HOST, DYNAMIC_CONTROLLER);
    assert!(completion.status.is_success());
    let id = completion.result as u16;
    let capabilities = world.property(admin, 0);
    assert_eq!(capabilities >> 37 & 0xFF, 1, "NVM command set alone");
    assert_eq!(capabilities >> 59 & 3, 1, "ready with media");
    assert_eq!(world.property(admin, 0x68), capabilities >> 24 & 0xFF, "CRWMT is as long as TO");
    assert!(world.set_cc(admin, 0x0046_0000).status.is_success());
    assert_eq!(world.property(admin, 0x14), 0x0046_0000);
    assert_eq!(world.property(admin, 0x1C), 0);
    assert!(world.set_cc(admin, CC_ENABLE).status.is_success());
    assert_eq!(world.property(admin, 0x1C), 1);
    assert_eq!(world.property(admin, 8), 0x0002_0100);
    let controller =
        IdentifyController::decode(&identify(&mut world, admin, Cns::Controller, 0).expect("CNS 1"));
    assert_eq!(
        (controller.controller_id, controller.controller_type, controller.version),
        (id, 1, 0x0002_0100)
    );
    assert_eq!((controller.submission_entry_sizes, controller.completion_entry_sizes), (0x66, 0x44));
    let sgl = 1 | 1 << 18 | 1 << 20;
    assert_eq!(controller.sgl & sgl, sgl, "lengths beyond the data, too, as they are taken");
    assert_eq!((controller.command_capsule_16b, controller.response_capsule_16b), (1028, 1));
    assert_eq!((controller.in_capsule_offset_16b, controller.sgl_descriptors_max), (0, 1));
    assert!(controller.keep_alive_100ms > 0 && controller.commands_max > 0 && controller.namespaces == 1);
    assert!(controller.subsystem_nqn.starts_with(NQN.as_bytes()));
    assert_eq!(&controller.serial_number[..4], b"SN1 ");
    assert!(log(&mut world, admin, 5, 4096).is_ok());
    let list = identify(&mut world, admin, Cns::ActiveNamespaces, 0).expect("CNS 2");
    assert_eq!(id_list(&list).collect::<Vec<_>>(), [1]);
    let descriptors = identify(&mut world, admin, Cns::NamespaceDescriptors, 1).expect("CNS 3");
    let descriptors = NamespaceIdentifiers::decode(&descriptors).expect("descriptors");
    let namespace =
        IdentifyNamespace::decode(&identify(&mut world, admin, Cns::Namespace, 1).expect("CNS 0"));
    assert_eq!(descriptors.nguid, Some(namespace.nguid));
    assert_eq!(namespace.size_blocks, world.core.namespaces()[0].sectors);
    assert_eq!((namespace.format_list[0].data_shift, namespace.write_granularity), (9, 7));
    let link = world.queue(PLAIN, id, 1);
    assert_eq!(world.fetch(link, blocks(2, 0, 8), 4096), Ok(vec![0; 4096]));
    assert_eq!(world.target.borrow().controllers().collect::<Vec<_>>(), [(id, HOST, NQN, 1)]);
    for opcode in [0x12, 0x1D] {
        let ended = world.ask(link, SubmissionEntry::new(opcode, 0, 1).with_cdw(10, 1), &[]);
        assert_eq!(ended.status, Status::INVALID_OPCODE.do_not_retry(), "there is no placement");
    }
    for cns in [Cns::CommandSetNamespace, Cns::IndependentNamespace, Cns::AttachedControllers] {
        assert!(identify(&mut world, admin, cns, 1).is_ok(), "{cns:?}");
    }
    for cns in
        [Cns::CommandSetController, Cns::Controllers, Cns::CommandSets, Cns::CommandSetActiveNamespaces]
    {
        assert!(identify(&mut world, admin, cns, 0).is_ok(), "{cns:?}");
    }
    let unknown = Err(Status::INVALID_NAMESPACE.do_not_retry());
    assert_eq!(identify(&mut world, admin, Cns::Namespace, 2), unknown);
    // Without in-band head updates a host may disable flow control; the response confirms it.
    let quiet = world.dial(PLAIN);
    let connect = Connect { queue_id: 2, queue_entries: 16, attributes: 4, keep_alive_ms: 0 };
    assert_eq!(world.connect(quiet, &connect, NQN, HOST, id).sq_head, 0xFFFF);
}

#[test]
fn connect_refuses_what_does_not_fit() {
    let mut world = World::of(vec![("one".into(), common::drive(StoreKind::Ram))], Some(vec![HOST.into()]));
    let (admin, id) = world.attach(PLAIN);
    let parameters = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
    let sequence = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
    let io = |queue_id| Connect { queue_id, queue_entries: 32, attributes: 0, keep_alive_ms: 0 };
    let first = world.queue(PLAIN, id, 1);
    let other_host = "nqn.2014-08.org.example:other";
    let cases = [
        (
            admin_connect(32),
            "nqn.2026-01.org.pellucid:no",
            HOST,
            0xFFFF,
            parameters,
            ConnectReply::invalid_in_data(256),
        ),
        (admin_connect(32), NQN, other_host, 0xFFFF, Status::CONNECT_INVALID_HOST.do_not_retry(), 0),
        (admin_connect(32), NQN, HOST, id, parameters, ConnectReply::invalid_in_data(16)),
        (admin_connect(2048), NQN, HOST, 0xFFFF, parameters, ConnectReply::invalid_in_command(44)),
        (admin_connect(1), NQN, HOST, 0xFFFF, parameters, ConnectReply::invalid_in_command(44)),
        (io(1), NQN, HOST, id, sequence, 0),
        (io(5), NQN, HOST, id, parameters, ConnectReply::invalid_in_command(42)),
        (io(2), NQN, HOST, id + 1, parameters, ConnectReply::invalid_in_data(16)),
        (io(2), DISCOVERY_NQN, HOST, id, parameters, ConnectReply::invalid_in_data(16)),
    ];
    for (connect, name, host, controller, status, result) in cases {
        let link = world.dial(PLAIN);
        let completion = world.connect(link, &connect, name, host, controller);
        assert_eq!((completion.status, completion.result), (status, result), "{connect:?} {name} {host}");
        world.pump();
        let closed = world.links[link].closed.clone();
        assert!(matches!(closed, Some(Close::Refused(why)) if why.contains(host) && why.contains(name)));
    }
    // Only Connect before Connect; no second Connect; no I/O queue on a controller that is not enabled.
    let link = world.dial(PLAIN);
    assert_eq!(world.ask(link, SubmissionEntry::new(6, 0, 0).with_cdw(10, 1), &[]).status, sequence);
    assert_eq!(world.connect(admin, &admin_connect(32), NQN, HOST, 0xFFFF).status, sequence);
    assert_eq!(world.connect(first, &io(1), NQN, HOST, id).status, sequence);
    let fresh = world.dial(PLAIN);
    let fresh_id = world.connect(fresh, &admin_connect(32), NQN, HOST, 0xFFFF).result as u16;
    assert_eq!(world.connect(link, &io(1), NQN, HOST, fresh_id).status, sequence, "not enabled");
    assert_eq!(log(&mut world, fresh, 2, 512), Err(sequence), "not enabled");
    assert_eq!(world.set_cc(fresh, CC_ENABLE | 1 << 4).status, Status::INVALID_FIELD.do_not_retry());
}

#[test]
fn a_lost_admin_connection_ends_the_controller() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    world.close(admin, Close::Finished);
    world.pump();
    assert_eq!(world.links[link].closed, Some(Close::Finished));
    assert_eq!(world.target.borrow().controllers().count(), 0);
    let (_, again) = world.attach(PLAIN);
    assert_ne!(id, again, "an identifier is not used again at once");
}

#[test]
fn keep_alive_counts_traffic_and_runs_out() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let start = world.core.now_ns();
    let second = 1_000_000_000;
    world.tick(admin, start + 4 * second);
    assert!(world.fetch(link, blocks(2, 0, 1), SECTOR as u32).is_ok());
    world.tick(link, start + 4 * second);
    world.tick(admin, start + 8 * second);
    assert!(world.links[admin].closed.is_none(), "an I/O command counts");
    world.tick(link, start + 10 * second);
    world.tick(admin, start + 10 * second);
    assert!(matches!(&world.links[admin].closed, Some(Close::Refused(why)) if why.contains("5000 ms")));
    world.pump();
    assert!(world.links[link].closed.is_some());
}

#[test]
fn silent_connections_are_closed() {
    let mut world = World::new();
    let (silent, settled) = (world.open(PLAIN), world.dial(PLAIN));
    let now = world.core.now_ns();
    world.tick(silent, now + 9_000_000_000);
    assert!(world.links[silent].closed.is_none());
    for link in [silent, settled] {
        world.tick(link, now + 11_000_000_000);
        assert!(world.links[link].closed.is_some());
    }
}

#[test]
fn smart_shows_real_figures_of_all_drives() {
    let drives = ["one", "two"].map(|name| (name.to_owned(), common::drive(StoreKind::Ram)));
    let mut world = World::of(drives.into(), None);
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let data = vec![1; 16 << 10];
    for n in 0..70u64 {
        let entry = in_capsule(blocks(1, n * 32, 32), &data);
        assert!(world.ask(link, entry, &data).status.is_success());
    }
    assert!(world.fetch(link, blocks(2, 0, 8), 4096).is_ok());
    world.tick(link, world.core.now_ns());
    let all = smart(&mut world, admin);
    assert_eq!((all.host_write_commands, all.host_read_commands), (70, 1));
    // 70 * 32 blocks of 512 bytes, in thousands, rounded up.
    assert_eq!((all.data_units_written, all.data_units_read), (3, 1));
    assert_eq!((all.available_spare, all.critical_warning), (100, 0));
    let mut of_one = log_entry(2, 0, 512);
    of_one.0[4..8].copy_from_slice(&1u32.to_le_bytes());
    assert_eq!(world.fetch(admin, of_one, 512), Err(Status::INVALID_FIELD.do_not_retry()), "LPA says no");
    let text = String::from_utf8(log(&mut world, admin, 0xC0, 4096).expect("counters")).expect("text");
    let line = format!("1.host_written_sectors {}\n", 70 * 32);
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("1.programmed_sectors.host ") && text.contains("2.host_written_sectors 0\n"));
    let wear = log(&mut world, admin, 0xC1, 16 + 4 * 128).expect("wear");
    let (blocks_in_all, erases) = (
        world.core.device(0).expect("of this process").layout().blocks,
        world.core.device(0).expect("of this process").erase_counts(),
    );
    assert_eq!(wear[..8], u64::from(blocks_in_all).to_le_bytes());
    assert!(wear[16..].chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("4"))).eq(erases));
    let busy = log(&mut world, admin, 0xC2, 16 + 8 * 6).expect("busy times");
    assert_eq!(busy[..8], [2, 0, 0, 0, 4, 0, 0, 0]);
    assert_ne!(busy[16..24], [0; 8]);
    let pages = log(&mut world, admin, 0, 1024).expect("supported pages");
    for id in 0..=255u8 {
        let supported = pages[usize::from(id) * 4] & 1 == 1;
        // The persistent event log needs its context.
        let entry = log_entry(id, u32::from(id == 0x0D), 512);
        let got = world.fetch(admin, entry, 512);
        assert_eq!(got.is_ok(), supported, "log page {id:02X}h: {got:?}");
    }
    assert_eq!(log(&mut world, admin, 3, 512).expect("slots")[8..13], *b"0.1.0");
    let beyond = log_entry(2, 0, 512).with_cdw_pair(12, 516);
    assert_eq!(world.fetch(admin, beyond, 512), Err(Status::INVALID_FIELD.do_not_retry()));
    // Commands completed just before a host disconnects count too, whichever of its connections ends first.
    assert!(world.fetch(link, blocks(2, 0, 8), 4096).is_ok());
    world.close(admin, Close::Finished);
    world.pump();
    let (admin, _) = world.attach(PLAIN);
    assert_eq!(smart(&mut world, admin).host_read_commands, 2);
    let tail = log_entry(3, 0, 16).with_cdw_pair(12, 8);
    assert_eq!(world.fetch(admin, tail, 16).expect("a part")[..5], *b"0.1.0");
}

#[test]
fn features_are_kept_and_reset() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let get = |id: u32| SubmissionEntry::new(0xA, 0, 0).with_cdw(10, id);
    let set = |id: u32, value: u32| SubmissionEntry::new(9, 0, 0).with_cdw(10, id).with_cdw(11, value);
    assert_eq!(world.ask(admin, get(6), &[]).dw0(), 1, "write cache");
    assert!(world.ask(admin, set(6, 0), &[]).status.is_success());
    assert_eq!(world.ask(admin, get(6), &[]).dw0(), 0);
    assert_eq!(world.ask(admin, get(6 | 1 << 8), &[]).dw0(), 1, "default");
    assert_eq!(world.ask(admin, get(6 | 3 << 8), &[]).dw0(), 4, "changeable");
    // With its cache off, the drive programs before it answers.
    let before = world.core.device(0).expect("of this process").counters().media_operations;
    let data = vec![9; 4096];
    assert!(world.ask(link, in_capsule(blocks(1, 0, 8), &data), &data).status.is_success());
    assert!(world.core.device(0).expect("of this process").counters().media_operations > before);
    assert_eq!(world.ask(admin, get(0xF), &[]).dw0(), 5000);
    let timestamp = 1_700_000_000_000u64.to_le_bytes();
    assert!(world.ask(admin, in_capsule(set(0xE, 0), &timestamp), &timestamp).status.is_success());
    let now = world.fetch(admin, get(0xE), 8).expect("a timestamp");
    let now = u64::from_le_bytes(now.try_into().expect("8 bytes"));
    assert!((1_700_000_000_000..1_700_000_100_000).contains(&(now & 0xFFFF_FFFF_FFFF)), "{now}");
    assert_eq!(now >> 49, 1, "set by the host");
    // Host Behavior Support: advanced command retry.
    let mut behavior = vec![0; 512];
    behavior[0] = 1;
    assert!(world.ask(admin, in_capsule(set(0x16, 0), &behavior), &behavior).status.is_success());
    assert_eq!(world.fetch(admin, get(0x16), 512), Ok(behavior));
    assert_eq!(world.fetch(admin, get(0x16 | 1 << 8), 512), Ok(vec![0; 512]), "default");
    assert_eq!(world.fetch(admin, get(0x81).with_cdw(11, 1), 16), Ok(vec![7; 16]));
    let saving = set(6, 1).with_cdw(10, 6 | 1 << 31);
    assert_eq!(world.ask(admin, saving, &[]).status, Status::FEATURE_NOT_SAVEABLE.do_not_retry());
    let unknown = world.ask(admin, get(0x55), &[]).status;
    assert_eq!(unknown, Status::INVALID_FIELD.do_not_retry());
    assert!(world.set_cc(admin, 0x0046_0000).status.is_success());
    assert!(world.set_cc(admin, CC_ENABLE).status.is_success());
    assert_eq!(world.ask(admin, get(6), &[]).dw0(), 1, "reset");
    assert_eq!(world.ask(admin, get(0xF), &[]).dw0(), 5000, "not reset");
}

#[test]
fn events_wait_for_requests_and_requests_can_be_aborted() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let request = SubmissionEntry::new(0xC, 0, 0);
    let first = world.command(admin, request, &[]);
    assert!(!world.links[admin].host.responses.contains_key(&first));
    let abort =
        |queue: u32, cid: u16| SubmissionEntry::new(8, 0, 0).with_cdw(10, queue | u32::from(cid) << 16);
    assert_eq!(world.ask(admin, abort(0, first), &[]).dw0(), 0, "aborted");
    assert_eq!(world.end(admin, first).status, Status::ABORT_REQUESTED.do_not_retry());
    assert_eq!(world.ask(admin, abort(0, first), &[]).dw0(), 1, "not there");
    assert_eq!(world.ask(admin, abort(3, 1), &[]).dw0(), 1, "no such queue");
    let requests: Vec<u16> = (0..8).map(|_| world.command(admin, request, &[])).collect();
    let over = world.ask(admin, request, &[]).status;
    assert_eq!(over, Status::ASYNC_EVENT_LIMIT_EXCEEDED.do_not_retry());
    world.target.borrow_mut().raise(id, AsyncEvent::Reliability);
    world.target.borrow_mut().raise(id, AsyncEvent::Reliability);
    world.tick(admin, world.core.now_ns());
    world.pump();
    assert_eq!(world.end(admin, requests[0]).dw0(), 0x02_0001);
    assert!(!world.links[admin].host.responses.contains_key(&requests[1]), "masked until the log is read");
    assert!(log(&mut world, admin, 2, 512).is_ok());
    world.target.borrow_mut().raise(id, AsyncEvent::Reliability);
    world.tick(admin, world.core.now_ns());
    world.pump();
    assert_eq!(world.end(admin, requests[1]).dw0(), 0x02_0001);
}

#[test]
fn an_io_command_can_be_aborted_while_it_waits_for_data() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let abort = |cid: u16| SubmissionEntry::new(8, 0, 0).with_cdw(10, 1 | u32::from(cid) << 16);
    let entry = blocks(1, 0, 512).with_sgl(SglDescriptor::transport(256 << 10));
    let cids: Vec<u16> = (0..6).map(|_| world.command(link, entry, &[])).collect();
    // The last two have no R2T yet.
    let aborting = world.command(admin, abort(cids[5]), &[]);
    world.pump();
    assert_eq!(world.end(admin, aborting).dw0(), 0);
    assert_eq!(world.end(link, cids[5]).status, Status::ABORT_REQUESTED.do_not_retry());
    // This command has an R2T, so its data still arrive; they are not written.
    let aborting = world.command(admin, abort(cids[0]), &[]);
    world.pump();
    assert_eq!(world.end(admin, aborting).dw0(), 0);
    let r2t = world.r2t(link, cids[0]);
    let bytes = world.h2c(link, &r2t, 0, &[7; 256 << 10], true);
    world.bytes(link, &bytes);
    assert_eq!(world.end(link, cids[0]).status, Status::ABORT_REQUESTED.do_not_retry());
    assert_eq!(world.fetch(link, blocks(2, 0, 8), 4096), Ok(vec![0; 4096]));
    assert_eq!(world.ask(admin, abort(999), &[]).dw0(), 1);
}

#[test]
fn format_forgets_everything_and_is_remembered() {
    let mut world = World::new();
    let (admin, id) = world.attach(PLAIN);
    let link = world.queue(PLAIN, id, 1);
    let data = vec![5; 4096];
    let last = world.core.namespaces()[0].sectors - 8;
    for lba in [0, 800, last] {
        assert!(world.ask(link, in_capsule(blocks(1, lba, 8), &data), &data).status.is_success());
    }
    let format = |cdw10| SubmissionEntry::new(0x80, 0, 1).with_cdw(10, cdw10);
    assert_eq!(world.ask(admin, format(1), &[]).status, Status::INVALID_FORMAT.do_not_retry());
    assert_eq!(world.ask(admin, format(2 << 9), &[]).status, Status::INVALID_FIELD.do_not_retry());
    let cid = world.command(admin, format(1 << 9), &[]);
    world.pump();
    assert!(world.end(admin, cid).status.is_success());
    for lba in [0, 800, last] {
        assert_eq!(world.fetch(link, blocks(2, lba, 8), 4096), Ok(vec![0; 4096]));
    }
    let read = world.fetch(admin, log_entry(0xD, 0, 512), 512);
    assert_eq!(read, Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()), "no context");
    let page = world.fetch(admin, log_entry(0xD, 1, 4096), 4096).expect("a context");
    let header = PersistentEventLogHeader::decode(page.first_chunk().expect("a header"));
    assert_eq!((header.log_id, header.events), (0xD, 3));
    let mut kinds = Vec::new();
    let mut at = 512;
    while at < header.log_bytes as usize {
        kinds.push(page[at]);
        at += 3 + usize::from(page[at + 2]) + usize::from(u16::from_le_bytes([page[at + 22], page[at + 23]]));
    }
    assert_eq!(
        (kinds, at),
        (vec![8, 7, 4], header.log_bytes as usize),
        "format end, start, controller enabled"
    );
    assert!(world.fetch(admin, log_entry(0xD, 2, 512), 512).is_ok(), "released");
}

#[test]
fn discovery_names_what_the_host_may_have() {
    let core_drives = vec![("one".to_owned(), common::drive(StoreKind::Ram))];
    let mut world = World::of(core_drives, Some(vec![HOST.into()]));
    for (host, records) in [(HOST, 2), ("nqn.2014-08.org.example:stranger", 1)] {
        let link = world.dial(PLAIN);
        let completion = world.connect(link, &admin_connect(32), DISCOVERY_NQN, host, DYNAMIC_CONTROLLER);
        assert!(completion.status.is_success());
        assert!(world.set_cc(link, CC_ENABLE).status.is_success());
        let controller =
            IdentifyController::decode(&identify(&mut world, link, Cns::Controller, 0).expect("CNS 1"));
        assert_eq!(controller.controller_type, 2);
        let bytes = 1024 * (1 + records as u32);
        let page = log(&mut world, link, 0x70, bytes).expect("the discovery log");
        assert_eq!(page[8..16], u64::to_le_bytes(records));
        let names: Vec<&[u8]> = page[1024..].chunks_exact(1024).map(|e| &e[256..256 + 36]).collect();
        assert!(names[0].starts_with(DISCOVERY_NQN.as_bytes()));
        if records == 2 {
            assert!(names[1].starts_with(NQN.as_bytes()));
            assert_eq!(&page[2048 + 512..2048 + 522], b"127.0.0.1 ");
            assert_eq!(&page[2048 + 32..2048 + 37], b"4420 ");
            assert_eq!(page[2048..2051], [3, 1, 2]);
        }
        assert_eq!(log(&mut world, link, 2, 512), Err(Status::INVALID_LOG_PAGE.do_not_retry()));
        assert!(world.ask(link, SubmissionEntry::new(0x18, 0, 0), &[]).status.is_success(), "keep alive");
    }
}

#[test]
fn bad_subsystems_are_refused() {
    let good = SubsystemConfig {
        nqn: NQN.into(),
        serial: "1".into(),
        model: "m".into(),
        namespaces: vec![0],
        divided: None,
        hosts: None,
        secrets: std::collections::BTreeMap::new(),
    };
    let refused = |change: fn(&mut SubsystemConfig)| {
        let mut subsystem = good.clone();
        change(&mut subsystem);
        Target::new(vec![subsystem]).expect_err("refused")
    };
    assert_eq!(refused(|s| s.nqn = "mine".into()), ConfigError::Nqn("mine".into()));
    assert_eq!(refused(|s| s.hosts = Some(vec!["you".into()])), ConfigError::Nqn("you".into()));
    assert_eq!(refused(|s| s.nqn = DISCOVERY_NQN.into()), ConfigError::Taken(DISCOVERY_NQN.into()));
    assert_eq!(refused(|s| s.namespaces.clear()), ConfigError::NoNamespace(NQN.into()));
    assert!(matches!(refused(|s| s.serial = "x".repeat(21)), ConfigError::Text { key: "serial", .. }));
    let twice = Target::new(vec![good.clone(), good.clone()]).expect_err("refused");
    assert_eq!(twice, ConfigError::Taken(NQN.into()));
}

/// The drive's temperature is 298 K: thresholds on the wrong side of it raise an event.
#[test]
fn temperatures_beyond_their_thresholds_are_an_event() {
    const OVER: u32 = 0;
    const UNDER: u32 = 1 << 20;
    let mut world = World::new();
    let (admin, _) = world.attach(PLAIN);
    let get = |limit: u32| SubmissionEntry::new(0xA, 0, 0).with_cdw(10, 4).with_cdw(11, limit);
    let set = |id: u32, value: u32| SubmissionEntry::new(9, 0, 0).with_cdw(10, id).with_cdw(11, value);
    assert_eq!(world.ask(admin, get(OVER), &[]).dw0(), 343, "WCTEMP");
    assert_eq!(world.ask(admin, get(UNDER), &[]).dw0(), 0);
    let invalid = Status::INVALID_FIELD.do_not_retry();
    assert_eq!(world.ask(admin, get(0xF << 16), &[]).status, invalid, "of all there is no one value");
    assert_eq!(world.ask(admin, set(4, 1 << 16 | 300), &[]).status, invalid, "no such sensor");
    assert!(world.ask(admin, set(0xF, 3_600_000), &[]).status.is_success(), "a keep-alive time of an hour");
    let mut now = world.core.now_ns();
    let mut told = |world: &mut World, request: u16| {
        now += 5_000_000_000;
        world.tick(admin, now);
        world.pump();
        world.links[admin].host.responses.remove(&request).map(|ended| ended.dw0())
    };
    let request = SubmissionEntry::new(0xC, 0, 0);
    let mut event = world.command(admin, request, &[]);
    for (set_to, back) in [(OVER | 298, OVER | 343), (UNDER | 298, UNDER), (0xF << 16 | 290, 0xF << 16 | 343)]
    {
        assert!(world.ask(admin, set(4, set_to), &[]).status.is_success());
        assert_eq!(smart(&mut world, admin).critical_warning, 1 << 1);
        assert_eq!(told(&mut world, event), None, "not enabled");
        assert!(world.ask(admin, set(0xB, 1 << 1), &[]).status.is_success());
        assert_eq!(told(&mut world, event), Some(1 | 1 << 8 | 2 << 16));
        event = world.command(admin, request, &[]);
        assert_eq!(told(&mut world, event), None, "once");
        assert!(world.ask(admin, set(4, back), &[]).status.is_success());
        assert_eq!(smart(&mut world, admin).critical_warning, 0);
        assert_eq!(told(&mut world, event), None);
        assert!(world.ask(admin, set(0xB, 0), &[]).status.is_success());
    }
}

/// If two drives had one serial number and derived identifiers, a host would take them for two paths to one
/// drive.
#[test]
fn drives_of_one_name_have_serial_numbers_of_their_own() {
    let serial = |store: StoreKind, seed: u64| {
        let mut config = common::config(store);
        config.media.seed = seed;
        let device = Device::new(&config).expect("a good configuration");
        let core = Core::new(vec![("one".into(), device)], Time::Instant).expect("it can be served");
        serial_number("one", 0, &core)
    };
    assert_eq!(serial(StoreKind::Ram, 1), serial(StoreKind::Ram, 1), "after a restart");
    let directory = common::scratch("serials");
    let file = |name: &str| StoreKind::File(directory.join(name));
    let all =
        [serial(StoreKind::Ram, 1), serial(StoreKind::Ram, 2), serial(file("a"), 1), serial(file("b"), 1)];
    for (n, serial) in all.iter().enumerate() {
        assert!(serial.len() <= 20 && !all[..n].contains(serial), "{all:?}");
    }
    std::fs::remove_dir_all(directory).expect("it is there");
}

/// An admin command is handled by the processor that takes commands, too: a read behind it waits.
#[test]
fn admin_commands_take_the_processors_time() {
    let mut config = common::config(StoreKind::Ram);
    config.firmware.modules.admin = StepCost { cycles: 0, fixed_ns: 300_000 };
    let device = Device::new(&config).expect("a good configuration");
    let mut world = World::of(vec![("one".into(), device)], None);
    let (admin, id) = world.attach(PLAIN);
    let queue = world.queue(PLAIN, id, 1);
    let busy = |world: &World| {
        let device = world.core.device(0).expect("of this process");
        (device.busy().firmware_by_module()[FirmwareModule::Admin as usize].0, device.now().0)
    };
    let read = |world: &mut World| world.fetch(queue, blocks(2, 0, 1), SECTOR as u32).expect("zeros");
    read(&mut world);
    let before = busy(&world);
    for _ in 0..3 {
        identify(&mut world, admin, Cns::Controller, 0).expect("a controller");
    }
    // Reading a property is the transport's own work.
    world.property(admin, 0);
    read(&mut world);
    let after = busy(&world);
    assert_eq!(after.0 - before.0, 900_000);
    assert!(after.1 - before.1 > 900_000, "the read came after them: {before:?} {after:?}");
}
