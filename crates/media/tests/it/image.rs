//! The image file: refusals and their messages.

use crate::common::*;
use pellucid_flash::{BlockId, Geometry, Ppa};
use pellucid_media::{Health, ListedFault, Media, MediaConfig, MediaError, Space, StoreError};

/// Makes an image with some content; returns its bytes.
fn made(file: &TempPath) -> Vec<u8> {
    let mut media = open(&file.config());
    program(&mut media, 0, 0, 10, 1);
    erase(&mut media, 1);
    drop(media);
    std::fs::read(file.path()).unwrap()
}

/// Opens altered bytes, which must be refused and left unchanged.
fn refused(file: &TempPath, bytes: &[u8]) -> StoreError {
    refused_with(file, bytes, &file.config())
}

fn refused_with(file: &TempPath, bytes: &[u8], config: &MediaConfig) -> StoreError {
    std::fs::write(file.path(), bytes).unwrap();
    match Media::new(config) {
        Err(MediaError::Store(e)) => {
            assert!(e.to_string().starts_with(&file.path().display().to_string()), "{e}");
            assert!(std::fs::read(file.path()).unwrap() == bytes, "a refused file was changed");
            e
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_image_keeps_what_was_made_and_what_was_done() {
    let file = TempPath::new("keeps");
    let mut config = file.config();
    config.faults.list = vec![ListedFault::FactoryBad { die: 0, block: 4 }];
    config.timing.die_spread = 0.2;
    let mut media = open(&config);
    program(&mut media, 0, 0, 10, 1);
    media.retire(BlockId(5));
    let slow = media.erase_ns(BlockId(0));
    media.store_mut().sync().unwrap();
    drop(media);
    // Another seed and list change the faults to come, but not the existing dies and blocks.
    config.faults.list.clear();
    config.seed = 99;
    let mut media = open(&config);
    assert!(!media.recovered());
    assert_eq!(media.erase_ns(BlockId(0)), slow);
    assert_eq!(media.array().health(BlockId(4)), Health::FactoryBad);
    assert_eq!(media.array().health(BlockId(5)), Health::GrownBad);
    assert_eq!(read(&mut media, Ppa(2), 0), (GOOD, 12));
}

/// A description of new media has no effect on old ones, so it is refused unless they were made with it.
#[test]
fn a_past_that_the_media_did_not_have_is_refused() {
    let file = TempPath::new("past");
    let mut config = file.config();
    config.integrity.cycles = 100;
    config.faults.list = vec![ListedFault::FactoryBad { die: 0, block: 4 }];
    drop(open(&config));
    drop(open(&file.config()));
    let mut media = open(&config);
    media.retire(BlockId(5));
    erase(&mut media, 1);
    drop(media);
    drop(open(&config));
    let bytes = std::fs::read(file.path()).unwrap();
    let refused = |change: fn(&mut MediaConfig), named: &str| {
        let mut other = config.clone();
        change(&mut other);
        let error = Media::new(&other).map(drop).unwrap_err();
        assert!(matches!(&error, MediaError::Config { key, .. } if *key == named), "{error}");
        assert!(error.to_string().contains("what the media file was made with"), "{error}");
        assert!(std::fs::read(file.path()).unwrap() == bytes, "a refused file was changed");
    };
    refused(|config| config.integrity.cycles = 101, "cycles");
    refused(|config| config.faults.factory_bad = 1.0, "faults.factory_bad");
    refused(
        |config| config.faults.list.push(ListedFault::FactoryBad { die: 0, block: 3 }),
        "faults.factory_bad",
    );
}

/// A unit that a drive gave up as unreadable may be older than the version its host was told of, so no later process may read it either.
#[test]
fn a_unit_that_was_given_up_stays_so_and_so_do_its_copies() {
    let file = TempPath::new("given-up");
    let mut media = open(&file.config());
    program(&mut media, 0, 0, 10, 1);
    media.mark_lost(Ppa(1));
    drop(media);
    for _ in 0..2 {
        let mut media = open(&file.config());
        assert_eq!(read(&mut media, Ppa(0), 0), (GOOD, 10), "its neighbour is good");
        assert_eq!(read(&mut media, Ppa(1), 0).0, pellucid_media::ReadResult::Uncorrectable);
        assert_eq!(
            media.array().spare(Ppa(1)).map(|spare| spare.lpn.0),
            Some(11),
            "whose data it was is known"
        );
        assert!(media.store_mut().notice().is_none(), "the file is as it should be");
        // Given up again, in this process.
        media.mark_lost(Ppa(1));
    }
    let mut media = open(&file.config());
    let to = first(&media, 1, 0);
    media.program_begin(to, 2).unwrap_or_else(|e| panic!("{e}"));
    media.copy_unit(Ppa(1), to);
    media.program_end(to);
    assert_eq!(read(&mut media, to, 0).0, pellucid_media::ReadResult::Uncorrectable);
    drop(media);
    assert_eq!(read(&mut open(&file.config()), to, 0).0, pellucid_media::ReadResult::Uncorrectable);
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let file = TempPath::new("other");
    let image = made(&file);
    for bytes in [b"short".to_vec(), vec![7; 10_000], vec![0; image.len()]] {
        assert!(matches!(refused(&file, &bytes), StoreError::NotAnImage { .. }));
    }
}

/// An image that was truncated to nothing is not taken for a new one; without a file a new one is made.
#[test]
fn an_empty_file_is_refused_and_no_file_is_a_new_drive() {
    let file = TempPath::new("empty");
    made(&file);
    let refusal = refused(&file, &[]);
    assert!(matches!(refusal, StoreError::Empty { .. }), "{refusal}");
    assert!(refusal.to_string().contains("delete it to start with a new drive"), "{refusal}");
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(read(&mut open(&file.config()), Ppa(0), 0).0, pellucid_media::ReadResult::Erased);
}

#[test]
fn a_missing_folder_is_named() {
    let file = TempPath::new("folder");
    let path = file.path().join("drive.img");
    let config = MediaConfig { store: pellucid_media::StoreKind::File(path), ..small() };
    let text = Media::new(&config).unwrap_err().to_string();
    assert!(text.contains("drive.img: cannot open or create the image"), "{text}");
}

#[test]
fn another_version_is_refused() {
    let file = TempPath::new("version");
    let mut image = made(&file);
    image[8] = 2;
    let e = refused(&file, &image);
    assert!(matches!(e, StoreError::Version { found: 2, supported: 3, .. }), "{e}");
}

#[test]
fn another_geometry_is_refused_with_the_key_that_differs() {
    let file = TempPath::new("geometry");
    let image = made(&file);
    type Change = fn(&mut Geometry);
    let changes: [(&str, Change); 5] = [
        ("channels", |g| g.channels = 4),
        ("blocks", |g| g.blocks = 16),
        ("pages", |g| g.pages = 8),
        ("spare_bytes", |g| g.spare_bytes = 64),
        ("unit_bytes", |g| g.unit_bytes = 512),
    ];
    for (key, change) in changes {
        let mut config = file.config();
        change(&mut config.geometry);
        match refused_with(&file, &image, &config) {
            StoreError::Geometry { key: found, .. } => assert_eq!(found, key),
            e => panic!("{e}"),
        }
    }
}

/// The message names the source of the number: no description has such a key.
#[test]
fn another_length_of_metadata_is_explained() {
    let file = TempPath::new("metadata");
    let image = made(&file);
    let config = MediaConfig { metadata_bytes: 16, ..file.config() };
    let text = refused_with(&file, &image, &config).to_string();
    assert!(
        text.contains("metadata_bytes (16 with open-channel or zoned namespaces) is 0 in the image"),
        "{text}"
    );
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn any_damaged_bit_of_the_header_is_refused() {
    let file = TempPath::new("header");
    let image = made(&file);
    // Up to and including the checksum. The first 12 bytes have errors of their own.
    for at in 12..256 {
        let mut bytes = image.clone();
        bytes[at] ^= 1 << (at % 8);
        let e = refused(&file, &bytes);
        assert!(matches!(e, StoreError::Damaged { .. }), "byte {at}: {e}");
    }
}

#[test]
fn any_damaged_block_state_is_refused_by_its_number() {
    let file = TempPath::new("states");
    let image = made(&file);
    for block in 0..16 {
        let mut bytes = image.clone();
        bytes[4096 + 16 * block + block % 16] ^= 0x10;
        let text = refused(&file, &bytes).to_string();
        assert!(
            text.contains(&format!("the state of block {block}, at byte {}", 4096 + 16 * block)),
            "{text}"
        );
    }
}

#[test]
fn a_cut_or_extended_image_is_refused() {
    let file = TempPath::new("length");
    let image = made(&file);
    for len in [image.len() - 1, 4096, image.len() + 4096] {
        let mut bytes = image.clone();
        bytes.resize(len, 0);
        match refused(&file, &bytes) {
            StoreError::Length { found, expected, .. } => {
                assert_eq!((found, expected), (len as u64, image.len() as u64));
            }
            e => panic!("{e}"),
        }
    }
}

#[test]
fn one_image_serves_one_drive() {
    let file = TempPath::new("lock");
    let media = open(&file.config());
    let second = Media::new(&file.config());
    assert!(matches!(second, Err(MediaError::Store(StoreError::InUse { .. }))), "{second:?}");
    assert!(matches!(media.fork(), Err(StoreError::NotForkable { .. })));
    drop(media);
    open(&file.config());
}

#[test]
#[should_panic(expected = "media in a file cannot be forked")]
fn a_clone_of_a_file_is_a_bug() {
    let file = TempPath::new("clone");
    let _ = open(&file.config()).clone();
}

#[test]
fn a_large_image_is_sparse() {
    let file = TempPath::new("sparse");
    let mut config = file.config();
    config.keep.space = Space::Sparse;
    // 1 TiB, within what common file systems allow for one file.
    config.geometry = Geometry {
        channels: 16,
        ways: 8,
        blocks: 2048,
        pages: 256,
        page_bytes: 16_384,
        sector_bytes: 4096,
        unit_bytes: 4096,
        ..config.geometry
    };
    let mut media = open(&config);
    let last = media.layout().blocks - 1;
    program(&mut media, last, 0, 10, 1);
    drop(media);
    let mut media = open(&config);
    let at = first(&media, last, 0);
    assert_eq!(read(&mut media, at, 0), (GOOD, 10));
    let length = std::fs::metadata(file.path()).unwrap();
    assert!(length.len() > 1 << 40);
    #[cfg(unix)]
    assert!(std::os::unix::fs::MetadataExt::blocks(&length) * 512 < 16 << 20);
}

#[test]
fn an_image_says_for_which_drive_it_is_from_the_first_time_on() {
    let file = TempPath::new("claim");
    let words = |units, shape| [("the units", units), ("the shape", shape), ("what is kept", 2)];
    let mut media = open(&file.config());
    media.store_mut().claim(words(10, 7)).expect("a new image");
    media.store_mut().claim(words(10, 7)).expect("the same drive");
    drop(media);
    let before = std::fs::read(file.path()).unwrap();
    for (other, says) in [
        (words(11, 7), "the units is 10 in the image and 11 in the description"),
        (words(0, 7), "the units is 10 in the image and 0 in the description"),
        (words(10, 8), "the shape is 7 in the image and 8 in the description"),
    ] {
        let mut media = open(&file.config());
        let refused = media.store_mut().claim(other).expect_err("another drive").to_string();
        assert!(refused.contains(says), "{refused}");
        drop(media);
        assert!(std::fs::read(file.path()).unwrap() == before, "the image was changed");
    }
}

#[test]
fn the_save_area_survives_and_has_bounds() {
    let file = TempPath::new("save");
    let config = MediaConfig { save_bytes: 5000, ..file.config() };
    let memory = MediaConfig { save_bytes: 5000, ..small() };
    for config in [&config, &memory] {
        let mut media = open(config);
        let mut bytes = [7; 5000];
        media.store().save_read(0, &mut bytes);
        assert_eq!(bytes, [0; 5000]);
        media.store_mut().save_write(4990, b"saved last").unwrap();
        // As when the process is killed: nothing is closed.
        if config.store == memory.store {
            media = media.clone();
        } else {
            let copy = TempPath::new("save-copy");
            std::fs::copy(file.path(), copy.path()).unwrap();
            drop(media);
            std::fs::copy(copy.path(), file.path()).unwrap();
            media = open(config);
            assert!(media.recovered());
        }
        media.store().save_read(4985, &mut bytes[..15]);
        assert_eq!(&bytes[..15], b"\0\0\0\0\0saved last");
        let beyond = std::panic::catch_unwind(|| media.store().save_read(4999, &mut [0; 2]));
        assert!(beyond.is_err(), "beyond the end");
    }
    let text = Media::new(&MediaConfig { save_bytes: 6000, ..config }).unwrap_err().to_string();
    assert!(
        text.contains("bytes of the save area is 5000 in the image and 6000 in the description"),
        "{text}"
    );
}
