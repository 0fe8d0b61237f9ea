use crate::convert::time;
use crate::{
    Begun, Carrier, Format, Image, ImageError, MountError, Purpose, Target, TargetError, Volume, check_point,
    now,
};
use pellucid_fs::{
    BLOCK_BYTES, Caller, CleanerPolicy, Errno, Fs, FsState, Ino, Job, JobAnswer, MountOptions, Time,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

const FORMAT: Format = Format { bytes: Some(8 << 20), force: false, data_checksums: true };
const LOOK: MountOptions = MountOptions {
    memory_bytes: 4 << 20,
    read_only: true,
    repair: false,
    discard: false,
    cleaner: CleanerPolicy::CostBenefit,
    open_segments: 1,
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
#[cfg_attr(quick, ignore = "slow")]
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

/// A volume on `carrier`, which holds the file system of `image`, and its reports.
fn volume(carrier: Arc<dyn Carrier>, image: &Path) -> (Volume, Arc<Mutex<Vec<String>>>) {
    let blocks = image.metadata().unwrap().len() / BLOCK_BYTES as u64;
    let mut fs = Fs::mount(now(), blocks, CHANGE);
    while fs.state() == FsState::Mounting {
        if let Some(job) = fs.next_job(now()) {
            fs.answered(now(), carrier.end(carrier.begin(job)));
        }
    }
    let told = Arc::<Mutex<Vec<String>>>::default();
    let teller = Arc::clone(&told);
    (Volume::new(Target { fs, carrier }, move |sentence| teller.lock().unwrap().push(sentence)), told)
}

#[test]
fn a_mount_that_becomes_read_only_says_so_with_the_systems_reason() {
    let folder = Folder::new("degraded");
    let path = folder.path("image");
    Target::format(&path, &FORMAT).unwrap().close().unwrap();
    // The descriptor allows no writes: each of them fails with EBADF.
    let image = Image::open(&path, Purpose::Look).unwrap();
    let (volume, told) = volume(Arc::new(image), &path);
    let make = |name: &[u8]| volume.named(|fs| fs.create(now(), &Caller::ROOT, Ino::ROOT, name, 0o644));
    make(b"first").unwrap();
    assert_eq!(volume.sync(), Err(Errno::Io));
    assert_eq!(make(b"second").unwrap_err(), Errno::ReadOnly);
    let told = told.lock().unwrap();
    let why = format!("{}: cannot write: Bad file descriptor (os error 9); it is read-only", path.display());
    assert!(told.len() == 1 && told[0].starts_with(&why), "{told:?}");
}

/// An unlinked image loses its contents at the end of the mount, so no sync may succeed.
#[test]
fn a_mount_of_a_deleted_or_truncated_image_is_told_at_its_sync() {
    for truncated in [false, true] {
        let folder = Folder::new("deleted");
        let path = folder.path("image");
        Target::format(&path, &FORMAT).unwrap().close().unwrap();
        let image = Image::open(&path, Purpose::Change).unwrap();
        let bytes = image.bytes();
        let (volume, told) = volume(Arc::new(image), &path);
        volume.named(|fs| fs.create(now(), &Caller::ROOT, Ino::ROOT, b"first", 0o644)).unwrap();
        volume.sync().unwrap();
        volume.named(|fs| fs.create(now(), &Caller::ROOT, Ino::ROOT, b"second", 0o644)).unwrap();
        match truncated {
            true => std::fs::File::options().write(true).open(&path).unwrap().set_len(bytes / 2).unwrap(),
            false => std::fs::remove_file(&path).unwrap(),
        }
        assert_eq!(volume.sync(), Err(Errno::Io));
        let told = told.lock().unwrap();
        let why = if truncated { "the file was cut off" } else { "the file was deleted or replaced" };
        assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
    }
}

/// An image may be formatted again with another length.
#[test]
fn an_image_is_formatted_anew_with_another_size() {
    let folder = Folder::new("resized");
    let path = folder.path("image");
    for mib in [128u64, 64, 256] {
        let how = Format { bytes: Some(mib << 20), force: true, ..FORMAT };
        Target::format(&path, &how).unwrap().close().unwrap();
        assert_eq!(path.metadata().unwrap().len(), mib << 20);
    }
}

/// An image that loses its power on command.
struct Powered(Image, AtomicBool);

impl Carrier for Powered {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn begin(&self, job: Job) -> Begun {
        self.0.begin(job)
    }

    fn end(&self, begun: Begun) -> JobAnswer {
        if self.is_lost() { begun.failed() } else { self.0.end(begun) }
    }

    fn is_lost(&self) -> bool {
        self.1.load(Ordering::Acquire)
    }
}

#[test]
fn after_a_loss_of_power_everything_is_refused_at_once() {
    let folder = Folder::new("lost");
    let path = folder.path("image");
    Target::format(&path, &FORMAT).unwrap().close().unwrap();
    let image = Image::open(&path, Purpose::Change).unwrap();
    let powered = Arc::new(Powered(image, AtomicBool::new(false)));
    let (volume, told) = volume(Arc::clone(&powered) as Arc<dyn Carrier>, &path);
    let file = volume.named(|fs| fs.create(now(), &Caller::ROOT, Ino::ROOT, b"file", 0o644)).unwrap().ino;
    volume.run(|fs| fs.write(now(), &Caller::ROOT, file, 0, b"hi")).unwrap();
    powered.1.store(true, Ordering::Release);
    let mut read = Vec::new();
    assert_eq!(volume.run(|fs| fs.read(now(), file, 0, 2, &mut read)), Err(Errno::Io), "in memory, but lost");
    assert_eq!(volume.run(|fs| fs.getattr(now(), file)).unwrap_err(), Errno::Io);
    assert_eq!(volume.sync(), Err(Errno::Io));
    let forgotten = Mutex::new(Vec::new());
    volume.keep(|ino| forgotten.lock().unwrap().push(ino));
    assert_eq!(forgotten.into_inner().unwrap(), [file, Ino::ROOT], "what the kernel caches is dropped");
    assert_eq!(volume.end(), Err(Errno::Io));
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("has lost its power"), "{told:?}");
}

#[test]
fn times_before_1970_are_what_the_kernel_meant() {
    // One nanosecond before 1970, the kernel says second -1 and 999,999,999 ns; `fuser` subtracts both.
    assert_eq!(time(UNIX_EPOCH - Duration::new(1, 999_999_999)), Time(-1));
    assert_eq!(time(UNIX_EPOCH - Duration::new(7, 0)), Time(-7_000_000_000));
    assert_eq!(time(UNIX_EPOCH + Duration::new(7, 5)), Time(7_000_000_005));
}
