//! Export and import: imported media behave as the exported ones.

use crate::common::{TempPath, erase, first, open, program, read, small};
use pellucid_flash::{BlockId, Nanos, Ppa};
use pellucid_media::{Faults, ListedFault, Media, MediaConfig, Outcome, SnapshotError, StoreKind};

/// Media with each store in memory, after everything that media can go through.
fn lived_in(store: StoreKind) -> (MediaConfig, Media) {
    let list = vec![
        ListedFault::FactoryBad { die: 1, block: 7 },
        ListedFault::ProgramFail { die: 0, block: 2, superpage: 1, after_erases: 0 },
        ListedFault::EraseFail { die: 0, block: 3, after_erases: 2 },
    ];
    let mut config = MediaConfig { store, faults: Faults { list, ..Faults::default() }, ..small() };
    config.timing.die_spread = 0.1;
    let mut media = open(&config);
    for superpage in 0..4 {
        assert_eq!(
            program(&mut media, 0, superpage, 100 + superpage * 10, 7 + u64::from(superpage)),
            Outcome::Ok
        );
    }
    assert_eq!(erase(&mut media, 0), Outcome::Ok);
    program(&mut media, 0, 0, 200, 1 << 40);
    program(&mut media, 1, 0, 300, 20);
    program(&mut media, 2, 0, 400, 21);
    assert_eq!(program(&mut media, 2, 1, 410, 22), Outcome::Failed);
    program(&mut media, 2, 2, 420, 23);
    media.retire(BlockId(2));
    assert_eq!(erase(&mut media, 3), Outcome::Ok);
    assert_eq!(erase(&mut media, 3), Outcome::Failed);
    let segment: Vec<u8> = (0..1024u32).map(|i| i as u8).collect();
    let at = first(&media, 9, 0);
    media.program_begin(at, 30).unwrap();
    media.put_translation_page(at, pellucid_flash::Lpn(99), &segment);
    media.program_end(at);
    (config, media)
}

fn saved(media: &Media, config: &MediaConfig) -> Vec<u8> {
    let mut bytes = Vec::new();
    media.export(config, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes
}

fn same(a: &mut Media, b: &mut Media) {
    let layout = a.layout().clone();
    for block in (0..layout.blocks).map(BlockId) {
        assert_eq!(a.array().health(block), b.array().health(block), "{block:?}");
        assert_eq!(a.array().erase_count(block), b.array().erase_count(block), "{block:?}");
        assert_eq!(a.array().next_superpage(block), b.array().next_superpage(block), "{block:?}");
        assert_eq!(a.erase_ns(block), b.erase_ns(block), "{block:?}");
    }
    for ppa in (0..layout.units).map(Ppa) {
        assert_eq!(a.array().spare(ppa), b.array().spare(ppa), "{ppa:?}");
        let bytes = layout.sectors_per_unit as usize * a.image_bytes();
        let (mut x, mut y) = (vec![1; bytes], vec![2; bytes]);
        assert_eq!(a.read(ppa, 0, &mut x, 0), b.read(ppa, 0, &mut y, 0), "{ppa:?}");
        assert_eq!(x, y, "{ppa:?}");
        assert_eq!(a.map_page(ppa), b.map_page(ppa), "{ppa:?}");
    }
}

#[test]
fn imported_media_are_the_exported_ones() {
    for store in [StoreKind::None, StoreKind::Ram] {
        let (config, mut media) = lived_in(store);
        let bytes = saved(&media, &config);
        // With another seed, the speed of the dies and the factory-bad blocks are still those the media were made with.
        let mut again =
            Media::import(&MediaConfig { seed: 99, ..config.clone() }, &mut bytes.as_slice()).unwrap();
        same(&mut media, &mut again);
        assert_eq!(saved(&again, &config), bytes, "a second generation");
        // The same future.
        for media in [&mut media, &mut again] {
            assert_eq!(program(media, 0, 1, 500, (1 << 40) + 1), Outcome::Ok);
            assert_eq!(erase(media, 1), Outcome::Ok);
            assert!(media.program_begin(first(media, 2, 3), 40).is_err(), "retired");
            assert!(media.program_begin(first(media, 0, 0), 40).is_err(), "programmed");
        }
        same(&mut media, &mut again);
    }
}

#[test]
fn operations_under_way_are_torn() {
    let config = small();
    let mut media = open(&config);
    program(&mut media, 4, 0, 10, 1);
    program(&mut media, 5, 0, 20, 2);
    media.program_begin(first(&media, 4, 1), 3).unwrap();
    media.erase_begin(BlockId(5)).unwrap();
    let mut again = Media::import(&config, &mut saved(&media, &config).as_slice()).unwrap();
    media.power_cut();
    same(&mut media, &mut again);
    assert_eq!(read(&mut again, first(&media, 4, 1), 0).0, pellucid_media::ReadResult::Uncorrectable);
}

#[test]
fn other_media_are_refused_by_key() {
    let (config, media) = lived_in(StoreKind::None);
    let bytes = saved(&media, &config);
    let refused = |change: fn(&mut MediaConfig)| {
        let mut other = config.clone();
        change(&mut other);
        Media::import(&other, &mut bytes.as_slice()).unwrap_err().to_string()
    };
    assert_eq!(refused(|c| c.geometry.blocks = 16), "drive.media.blocks = 16: allowed: 8, as in the image");
    assert_eq!(
        refused(|c| c.store = StoreKind::Ram),
        "drive.media.store (bytes kept per sector) = 512: allowed: 4, as in the image"
    );
    let file = TempPath::new("snapshot");
    assert!(matches!(media.export(&file.config(), &mut Vec::new()), Err(SnapshotError::FileStore)));
    assert!(matches!(Media::import(&file.config(), &mut bytes.as_slice()), Err(SnapshotError::FileStore)));
}

#[test]
fn cut_and_damaged_snapshots_are_refused() {
    let mut config = small();
    config.timing.read_ns[0] = Nanos(60);
    let mut media = open(&config);
    program(&mut media, 0, 0, 10, 1);
    let bytes = saved(&media, &config);
    for length in 0..bytes.len() {
        let cut = Media::import(&config, &mut &bytes[..length]);
        assert_eq!(cut.unwrap_err().to_string(), "the image ends too early", "{length} bytes");
    }
    let mut damaged = bytes;
    damaged[16 * 4 + 16] ^= 4;
    let error = Media::import(&config, &mut damaged.as_slice()).unwrap_err();
    assert_eq!(error.to_string(), "the image is damaged: state of block 0");
}
