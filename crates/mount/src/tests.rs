use crate::convert::time;
use crate::{Format, Image, ImageError, MountError, Purpose, Target, TargetError, check_point, now};
use pellucid_fs::{Caller, CleanerPolicy, Ino, MountOptions, Time};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

const FORMAT: Format = Format { bytes: Some(8 << 20), force: false, data_checksums: true };
const LOOK: MountOptions = MountOptions {
    memory_bytes: 4 << 20,
    read_only: true,
    repair: false,
    discard: false,
    cleaner: CleanerPolicy::CostBenefit,
};
const CHANGE: MountOptions = MountOptions { read_only: false, ..LOOK };

/// A directory that is removed when the value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pellucid-mount-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_closed_is_found_again() {
    let folder = Folder::new("found");
    let image = folder.path("image");
    let mut target = Target::format(&image, &FORMAT).unwrap();
    let file = target.run(|fs| fs.create(now(), &Caller::ROOT, Ino::ROOT, b"file", 0o644)).unwrap().ino;
    target.run(|fs| fs.write(now(), &Caller::ROOT, file, 5000, b"data")).unwrap();
    target.run(|fs| fs.mkdir(now(), &Caller::ROOT, Ino::ROOT, b"d", 0o755)).unwrap();
    target.close().unwrap();
    let mut target = Target::open(&image, LOOK).unwrap();
    let mut read = Vec::new();
    target.run(|fs| fs.read(now(), file, 4998, 100, &mut read)).unwrap();
    assert_eq!(read, b"\0\0data");
    let mut paths = Vec::new();
    target.walk(|path, entry| paths.push((path.to_vec(), entry.attributes.unwrap().size))).unwrap();
    paths.sort();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[1], (b"/file".to_vec(), 5004));
}

#[test]
fn an_image_has_one_user_or_many_that_look() {
    let folder = Folder::new("users");
    let image = folder.path("image");
    Target::format(&image, &FORMAT).unwrap().close().unwrap();
    let looks = [Target::open(&image, LOOK).unwrap(), Target::open(&image, LOOK).unwrap()];
    let refused = Image::open(&image, Purpose::Change).unwrap_err();
    assert!(matches!(refused, ImageError::InUse(_)), "{refused}");
    drop(looks);
    let _one = Target::open(&image, CHANGE).unwrap();
    let refused = Image::open(&image, Purpose::Look).unwrap_err();
    assert!(matches!(refused, ImageError::InUse(_)), "{refused}");
}

#[test]
fn nothing_is_replaced_or_left_behind_unasked() {
    let folder = Folder::new("refused");
    let (image, tiny) = (folder.path("image"), folder.path("tiny"));
    std::fs::write(&image, [&[0; 70_000][..], b"something"].concat()).unwrap();
    let refused = Target::format(&image, &FORMAT).err().unwrap();
    assert!(matches!(refused, TargetError::NotEmpty(_)), "{refused}");
    assert_eq!(std::fs::read(&image).unwrap().len(), 70_009);
    let refused = Target::format(&tiny, &Format { bytes: Some(4096), ..FORMAT }).err().unwrap();
    assert!(matches!(refused, TargetError::Unfit(..)), "{refused}");
    assert!(!tiny.exists());
    let refused = Target::format(&folder.path("absent"), &Format { bytes: None, ..FORMAT }).err().unwrap();
    assert!(matches!(refused, TargetError::Image(ImageError::Absent(_))), "{refused}");
    Target::format(&image, &Format { force: true, ..FORMAT }).unwrap();
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 8 << 20);
}

#[test]
fn a_mount_point_is_a_directory_with_nothing_on_it() {
    let folder = Folder::new("point");
    std::fs::write(folder.path("file"), "").unwrap();
    check_point(&folder.0).unwrap();
    for wrong in [folder.path("absent"), folder.path("file"), PathBuf::from("/proc")] {
        assert!(matches!(check_point(&wrong), Err(MountError::Point(..))), "{}", wrong.display());
    }
}

#[test]
fn times_before_1970_are_what_the_kernel_meant() {
    // One nanosecond before 1970, the kernel says second -1 and 999,999,999 ns; `fuser` subtracts both.
    assert_eq!(time(UNIX_EPOCH - Duration::new(1, 999_999_999)), Time(-1));
    assert_eq!(time(UNIX_EPOCH - Duration::new(7, 0)), Time(-7_000_000_000));
    assert_eq!(time(UNIX_EPOCH + Duration::new(7, 5)), Time(7_000_000_005));
}
