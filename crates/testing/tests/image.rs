//! Images of aged drives: the drive that comes back, and what is refused.

use pellucid_device::Device;
use pellucid_flash::{BlockId, Lpn};
use pellucid_lab::drive::{Onlooker, Oracle, Progress, Unwatched};
use pellucid_lab::experiment::{execute_on, jobs, prepare};
use pellucid_lab::image;
use pellucid_lab::image::Image;
use pellucid_output::OutputFile;
use pellucid_spec::Spec;
use std::ops::ControlFlow;
use std::path::PathBuf;

const DRIVE: &str = r#"
[drive]
name = "tiny"
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 24
pages = 16
page_size = "8KiB"
spare_size = 256
sector_size = 512
unit_size = "4KiB"
cell = "slc"
store = "none"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[drive.ftl]
over_provisioning = 0.35
durability = "volatile"
[precondition]
fill = 0.9
overwrite = 3.0
[run]
verify = false
[[job]]
rw = "randrw"
bs = "4k"
iodepth = 8
number_ios = 3000
"#;

struct TempPath(PathBuf);

impl TempPath {
    fn new(name: &str) -> TempPath {
        TempPath(std::env::temp_dir().join(format!("pellucid-image-{}-{name}", std::process::id())))
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn described(sets: &[&str]) -> Spec {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    pellucid_spec::from_str(DRIVE, "tiny.toml", &sets).unwrap_or_else(|e| panic!("{e}"))
}

/// Ages the drive, saves it, and gives it back with its description.
fn aged(name: &str, sets: &[&str]) -> (Spec, Device, TempPath) {
    let spec = described(sets);
    let device = prepare(&spec, None).unwrap_or_else(|e| panic!("{e}"));
    let path = TempPath::new(name);
    let bytes = OutputFile::create(&path.0)
        .and_then(|file| image::write(file, &spec, &device))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(bytes, std::fs::metadata(&path.0).unwrap().len());
    assert!(image::is_image(&path.0));
    (spec, device, path)
}

fn restored(path: &TempPath, sets: &[String]) -> (Spec, Device) {
    let image = Image::open(&path.0).unwrap_or_else(|e| panic!("{e}"));
    let spec = image.spec(sets).unwrap_or_else(|e| panic!("{e}"));
    let device = image.device(&spec).unwrap_or_else(|e| panic!("{e}"));
    (spec, device)
}

/// Returns the content of every logical page: sequence number and place need not agree, the data must.
fn contents(device: &Device) -> Vec<Option<Vec<u8>>> {
    let mut media = device.media().clone();
    let bytes = device.image_bytes() * device.layout().sectors_per_unit as usize;
    let units = device.namespace(0).capacity_sectors() / u64::from(device.layout().sectors_per_unit);
    (0..units as u32)
        .map(|lpn| {
            device.namespace(0).locate(Lpn(lpn)).map(|ppa| {
                let mut data = vec![0; bytes];
                media.read(ppa, 0, &mut data, 0);
                data
            })
        })
        .collect()
}

#[test]
fn a_restored_drive_holds_what_the_aged_one_held() {
    for durability in ["\"volatile\"", "\"journal\""] {
        let (_, before, path) = aged("same", &[&format!("ftl.durability={durability}")]);
        let (_, after) = restored(&path, &[]);
        after.check();
        assert!(contents(&before) == contents(&after), "{durability}");
        assert!(
            contents(&before).iter().filter(|c| c.is_some()).count() > 1000,
            "{durability}: nothing aged"
        );
        for block in (0..before.layout().blocks).map(BlockId) {
            assert_eq!(before.media().array().erase_count(block), after.media().array().erase_count(block));
        }
    }
}

#[test]
fn runs_from_an_image_repeat() {
    let (spec, _, path) = aged("repeat", &[]);
    let run = || {
        let (described, mut device) = restored(&path, &["ftl.victim=\"fifo\"".into()]);
        let report =
            execute_on(&mut device, &described, &jobs(&spec).unwrap(), None, &|| 0.0, &mut Unwatched)
                .unwrap();
        device.check();
        report.to_json(false)
    };
    let (described, mut device) = restored(&path, &[]);
    let oracle = Oracle::of_drive(&device);
    execute_on(&mut device, &described, &jobs(&spec).unwrap(), Some(oracle), &|| 0.0, &mut Unwatched)
        .unwrap_or_else(|e| panic!("verified: {e}"));
    let first = run();
    assert_eq!(first, run());
    assert!(first.contains("\"requests\": 3000"));
}

/// Stops a run at its first look.
struct Stop;

impl Onlooker for Stop {
    fn look(&mut self, _: Option<&Device>, _: Progress) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// However a run ends before its work, the next one of the drive has no completion but its own.
#[test]
fn a_run_that_ends_early_leaves_nothing_to_the_next() {
    let (_, _, path) = aged("early", &[]);
    let (drive, _) = DRIVE.split_once("[[job]]").unwrap();
    let work = |job: &str| {
        let text = format!("{drive}[[job]]\n{job}");
        jobs(&pellucid_spec::from_str(&text, "tiny.toml", &[]).unwrap_or_else(|e| panic!("{e}"))).unwrap()
    };
    let endless = "rw = \"randwrite\"\nbs = \"4k\"\niodepth = 8\ntime_based = true\nruntime = \"100s\"";
    let next = "rw = \"randread\"\nbs = \"4k\"\niodepth = 2\nnumber_ios = 500";
    let steady = ["run.steady_state=\"iops:90%\"".into(), "run.steady_round=\"20ms\"".into()];
    for (name, sets) in [("stopped", &[][..]), ("steady", &steady)] {
        let (first, mut device) = restored(&path, sets);
        let mut unwatched = Unwatched;
        let mut stop = Stop;
        let onlooker: &mut dyn Onlooker = if name == "steady" { &mut unwatched } else { &mut stop };
        let report = execute_on(&mut device, &first, &work(endless), None, &|| 0.0, onlooker).unwrap();
        assert!(report.requests > 0 && device.completed() == 0, "{name}");
        device.check();
        let (then, _) = restored(&path, &[]);
        let report = execute_on(&mut device, &then, &work(next), None, &|| 0.0, &mut Unwatched).unwrap();
        assert_eq!((report.requests, report.directions.read.latency.count), (500, 500), "{name}");
    }
}

#[test]
fn other_drives_and_damage_are_refused() {
    let (_, _, path) = aged("refused", &[]);
    let refused = |spec: &Spec| Image::open(&path.0).unwrap().device(spec).unwrap_err().to_string();
    let name = path.0.display();
    assert_eq!(
        refused(&described(&["media.blocks=32"])),
        format!("{name}: drive.media.blocks = 32: allowed: 24, as in the image")
    );
    assert!(refused(&described(&["ftl.over_provisioning=0.5"])).contains(
        "mapping units for the host (ftl.over_provisioning, ftl.capacity), but the data were written with"
    ));
    let spec = described(&[]);
    let mut bytes = std::fs::read(&path.0).unwrap();
    let near_the_end = bytes.len() - 20;
    bytes[near_the_end] ^= 1;
    std::fs::write(&path.0, &bytes).unwrap();
    assert!(refused(&spec).contains("damaged"), "{}", refused(&spec));
    bytes.truncate(near_the_end);
    std::fs::write(&path.0, &bytes).unwrap();
    assert!(refused(&spec).ends_with("too early"), "{}", refused(&spec));
    std::fs::write(&path.0, "PELLUCID").unwrap();
    assert!(!image::is_image(&path.0));
    assert!(Image::open(&path.0).is_err_and(|e| e.to_string().contains("not the image of a drive")));
}

/// A damaged description is often one that no drive has: the damage is named, not a key that nobody wrote.
#[test]
fn damage_of_the_description_is_named_as_damage() {
    let (spec, _, path) = aged("description", &[]);
    let bytes = std::fs::read(&path.0).unwrap();
    let text = 16..16 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    assert!(bytes[text.clone()].starts_with(b"#") || bytes[text.clone()].starts_with(b"["), "the layout");
    for (at, bit) in text.step_by(11).flat_map(|at| [(at, 1_u8), (at, 0x80)]) {
        let mut flipped = bytes.clone();
        flipped[at] ^= bit;
        std::fs::write(&path.0, &flipped).unwrap();
        let found = Image::open(&path.0).and_then(|image| image.device(&spec).map(drop));
        let why = found.expect_err("a flip is noticed").to_string();
        assert!(why.contains("the image is damaged"), "byte {at}: {why}");
    }
}
