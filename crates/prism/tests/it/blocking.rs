//! The blocking calls, and the examples that use them.

use crate::reference::{Reference, geometry};
use pellucid_flash::{SimTime, Status};
use pellucid_prism::blocking::{Flash, FlashError, at_once};
use pellucid_prism::levels::{LevelCall, LevelOutcome};
use pellucid_prism::{FlashAddress, FunctionCall, Gc, LevelError, Mapping, PolicyConfig};

#[test]
fn the_function_example_collects_and_goes_on() {
    let said = crate::gc_function::run().expect("it runs");
    assert!(said.contains(" erased") && !said.contains(" 0 erased"), "{said}");
}

#[test]
fn the_policy_example_finds_its_data_again() {
    let said = crate::init_policy::run().expect("it runs");
    assert_eq!(said, "102400 bytes mapped by blocks, 921600 by pages; both found again");
}

#[test]
fn policy_calls_read_what_was_written_and_refuse_the_rest() {
    let mut flash = Flash::new(Reference::new(geometry(2, 2, 64, 16, 4), 1), SimTime::ZERO, at_once);
    let level = flash.open_policy(0, &PolicyConfig::default()).expect("flash");
    flash.ftl_ioctl(level, Mapping::Page, Gc::Greedy, 0..64 << 10, 0.5).expect("it fits");
    flash.ftl_write(level, 1024, &page(1)).expect("it is configured");
    flash.ftl_trim(level, 1024..1536).expect("whole sectors");
    let mut found = vec![1; 2048];
    flash.ftl_read(level, 1024, &mut found).expect("it is configured");
    assert_eq!((&found[..512], &found[512..]), (&[0; 512][..], &page(1)[512..]));
    assert_eq!(flash.ftl_write(level, 64 << 10, &[0; 512]), Err(FlashError::Drive(Status::LbaOutOfRange)));
    let odd = flash.ftl_read(level, 100, &mut found).unwrap_err().to_string();
    assert_eq!(odd, "a range of 2048 bytes: allowed: multiples of the 512 of a sector, as their address is");
    let again = flash.ftl_ioctl(level, Mapping::Block, Gc::Lru, 0..512, 0.5).unwrap_err().to_string();
    assert_eq!(again, "range 0 to 512: it overlaps one that is configured");
    assert!(flash.close(level.0));
    // The data are the policy level's and have no marks for the function level.
    let level = flash.open_function(0).expect("flash");
    let found = flash.found(level);
    assert!(!found.is_empty() && found.iter().all(|found| found.mark.is_none()), "{found:?}");
}

#[test]
fn the_raw_example_collects_channel_by_channel() {
    let said = crate::gc_raw::run().expect("it runs");
    assert!(said.contains(" erased") && !said.contains(" 0 blocks") && !said.starts_with("0 "), "{said}");
}

fn page(at: u32) -> Vec<u8> {
    (0..4 * 512).map(|byte| (byte as u32 + 31 * at) as u8).collect()
}

#[test]
fn raw_calls_return_what_was_written() {
    let mut flash = Flash::new(Reference::new(geometry(1, 2, 4, 16, 4), 1), SimTime::ZERO, at_once);
    let raw = flash.open_raw(0).expect("flash");
    assert!(matches!(flash.open_function(0), Err(FlashError::Level(_))), "one level for each namespace");
    assert_eq!(flash.raw_geometry(raw).page_bytes, 2048);
    let at = |page| FlashAddress::new(0, 1, 2, page);
    // The reference drive requires out-of-band data with every write.
    let write = |flash: &mut Flash<_, _>, p: u32| {
        let raw = pellucid_prism::Raw::new(
            0,
            Some(pellucid_flash::Interface::OpenChannel(geometry(1, 2, 4, 16, 4))),
            512,
        );
        let command =
            raw.expect("flash").page_write_with_oob(0, at(p), page(p), vec![0; 64]).expect("inside");
        flash.submit(0, LevelCall::Raw(command))
    };
    let tags = [0, 1].map(|p| {
        let tag = write(&mut flash, p);
        let answer = flash.wait_for_any().expect("it ends");
        assert_eq!(answer.tag, tag);
        assert!(matches!(answer.outcome, LevelOutcome::Raw(done) if done.status == Status::Success));
        tag
    });
    assert_ne!(tags[0], tags[1]);
    let mut both = vec![0; 2 * 2048];
    flash.page_read(raw, at(0), &mut both).expect("it was written");
    assert_eq!(both, [page(0), page(1)].concat());
    flash.block_erase(raw, at(1)).expect("it holds data");
    assert_eq!(flash.block_erase(raw, at(1)), Err(FlashError::Drive(Status::ChunkInvalidReset)));
    let outside = flash.page_read(raw, at(9), &mut both).unwrap_err().to_string();
    assert!(outside.contains("not in this application's flash"), "{outside}");
    assert!(flash.close(raw.0));
    flash.open_function(0).expect("it is closed");
}

#[test]
fn function_calls_and_asks_that_do_not_wait_are_mixed() {
    let mut flash = Flash::new(Reference::new(geometry(1, 1, 6, 16, 4), 1), SimTime::ZERO, at_once);
    let level = flash.open_function(0).expect("flash");
    let block = flash.address_mapper(level, 0, Mapping::Block).expect("all are free");
    assert_eq!(block.free_blocks, 5);
    let tags: Vec<_> = (0..4)
        .map(|p| {
            let address = FlashAddress { page: p, ..block.address };
            flash
                .submit(level.0, LevelCall::Function(FunctionCall::Write { address, mark: 5, data: page(p) }))
        })
        .collect();
    // Waits for its own answer and leaves the others.
    let levelled = flash.wear_leveler(level).expect("it answers");
    assert_eq!((levelled.swapped.len(), levelled.spread), (0, 0));
    let mut ended = Vec::new();
    while let Some(answer) = flash.wait_for_any() {
        ended.push(answer.tag);
    }
    assert_eq!(ended, tags);
    let mut sector = vec![0; 512];
    flash.flash_read(level, block.address, 5, &mut sector).expect("it was written");
    assert_eq!(sector, page(1)[512..1024]);
    assert_eq!(
        flash.flash_set_ops(level, 99),
        Err(FlashError::Refused(LevelError::Ops { percent: 99, release: 1 }))
    );
    flash.flash_set_ops(level, 80).expect("one block is mapped");
    assert!(matches!(
        flash.address_mapper(level, 0, Mapping::Block),
        Err(FlashError::Refused(LevelError::NoBlock { channel: 0, ops: 80 }))
    ));
    flash.flash_trim(level, block.address).expect("it is mapped");
    assert_eq!(flash.function(level).counters().erases, 0);
    flash.rest();
    assert_eq!(flash.function(level).counters().erases, 1);

    // The next user of the level finds what is left.
    let block = flash.address_mapper(level, 0, Mapping::Block).expect("one may be mapped").address;
    flash.flash_write(level, block, 77, &page(0)).expect("it is erased");
    assert!(flash.close(level.0));
    let level = flash.open_function(0).expect("flash");
    let found = flash.found(level);
    assert_eq!((found.len(), found[0].address, found[0].mark, found[0].pages), (1, block, Some(77), 1));
    flash.recover(level, &[block]).expect("it was found");
    flash.flash_write(level, FlashAddress { page: 1, ..block }, 77, &page(1)).expect("it goes on");
}

#[test]
fn policy_calls_return_what_was_written_and_so_they_do_after_a_close() {
    let mut flash = Flash::new(Reference::new(geometry(2, 2, 16, 32, 4), 1), SimTime::ZERO, at_once);
    let id = flash.open_policy(0, &PolicyConfig::default()).expect("blank flash");
    let range = 0..256 * 512;
    let outside = flash.ftl_write(id, 0, &page(0)).unwrap_err();
    assert_eq!(outside, FlashError::Drive(Status::LbaOutOfRange), "no range is configured");
    flash.ftl_ioctl(id, Mapping::Page, Gc::Greedy, range.clone(), 0.5).expect("it fits");
    for p in 0..64 {
        flash.ftl_write(id, u64::from(p) * 2048, &page(p)).expect("inside");
    }
    let mut data = vec![0; 2048];
    flash.ftl_read(id, 63 * 2048, &mut data).expect("it was written");
    assert_eq!(data, page(63));
    flash.ftl_trim(id, 0..2048).expect("inside");
    assert!(flash.ftl_read(id, 100, &mut data).unwrap_err().to_string().contains("multiples of the 512"));
    assert!(flash.close(id.0));
    let id = flash.open_policy(0, &PolicyConfig::default()).expect("it has a record");
    let other = flash.ftl_ioctl(id, Mapping::Page, Gc::Fifo, 0..512, 0.5).unwrap_err();
    assert!(matches!(other, FlashError::Range(_)), "{other}");
    flash.ftl_ioctl(id, Mapping::Page, Gc::Fifo, range, 0.5).expect("the same range");
    for p in 1..64 {
        flash.ftl_read(id, u64::from(p) * 2048, &mut data).expect("it was written");
        assert_eq!(data, page(p));
    }
    flash.ftl_flush(id).expect("nothing to do");
}
