//! Images of used drives: age a drive once, and fork every experiment from the file.
//!
//! ```text
//!  8 bytes   "PELLAGED"
//!  u32       version of the layout: 2
//!  u32, text the resolved description as TOML (`pellucid_spec::show`), without its jobs
//!  u64       sectors that the host can address
//!  ...       the media, as `pellucid_media::Media::export` writes them
//!  u64       FNV-1a (64 bits) of everything before
//! ```
//! All numbers are little-endian. An image has the state of the media: programmed superpages with their spare areas, erase counts, bad blocks. A
//! drive made from it is mounted from them, so its buffer is empty and its policies start from their seeds. The same file always gives the same
//! drive.
//!
//! A description may differ from the saved one (another victim policy, other times, a faster link) as long as geometry, store, capacity, namespaces,
//! kind of map and durability agree, because these determine the meaning of the stored bytes.

use pellucid_device::{Device, DeviceError, keeps_data};
use pellucid_flash::{FNV_BASIS, fnv1a};
use pellucid_media::{Media, SnapshotError};
use pellucid_output::{OutputError, OutputFile};
use pellucid_report::EraseCounts;
use pellucid_spec::{Spec, SpecError};
use pellucid_text::format::significant;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"PELLAGED";
const VERSION: u32 = 2;
/// A description takes a few kilobytes; more is damage.
const TEXT_BYTES_MAX: u32 = 1 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// Why an image cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ImageError {
    /// The file.
    pub path: PathBuf,
    /// Kind of error.
    pub problem: Box<ImageProblem>,
}

/// Kind of error of an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageProblem {
    /// The file cannot be read or written.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    /// The file does not begin like an image.
    #[error("not the image of a drive; `pellucid age` makes them")]
    NotAnImage,
    /// The version of the layout is unknown.
    #[error("image version {0}; allowed: {VERSION}")]
    Version(u32),
    /// The checksum does not match the content.
    #[error("the image is damaged: its checksum does not fit its content")]
    Checksum,
    /// The description is invalid.
    #[error("{0}")]
    Spec(SpecError),
    /// The media are invalid.
    #[error("{0}")]
    Media(SnapshotError),
    /// The drive cannot be made.
    #[error("{0}")]
    Device(DeviceError),
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the image ends too early".into(),
        _ => error.to_string(),
    }
}

impl From<SnapshotError> for ImageProblem {
    fn from(error: SnapshotError) -> ImageProblem {
        match error {
            SnapshotError::Io(error) => ImageProblem::Io(error),
            other => ImageProblem::Media(other),
        }
    }
}

/// Returns whether the file begins like an image. A pipe never does: reading it would consume it.
pub fn is_image(path: impl AsRef<Path>) -> bool {
    let mut magic = [0; 8];
    path.as_ref().is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *MAGIC
}

/// Writes the image of a drive at rest, made from `spec`; returns its length in bytes.
///
/// # Errors
/// The file cannot be written; a previous file of that name remains.
pub fn write(mut file: OutputFile, spec: &Spec, device: &Device) -> Result<u64, OutputError> {
    let bytes = write_all(&mut file, spec, device).map_err(|error| file.failed(error))?;
    file.commit()?;
    Ok(bytes)
}

/// Returns the host sectors of all block namespaces.
fn sectors_of(device: &Device) -> u64 {
    device.capacity_bytes() / u64::from(device.layout().sector_bytes)
}

fn write_all(file: &mut OutputFile, spec: &Spec, device: &Device) -> io::Result<u64> {
    let text = pellucid_spec::show(&Spec { jobs: Vec::new(), ..spec.clone() });
    let mut out = Hashed::new(BufWriter::with_capacity(BUFFER_BYTES, file));
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&(text.len() as u32).to_le_bytes())?;
    out.write_all(text.as_bytes())?;
    out.write_all(&sectors_of(device).to_le_bytes())?;
    device.media().export(&spec.drive.media, &mut out).map_err(|error| match error {
        SnapshotError::Io(error) => error,
        other => io::Error::other(other),
    })?;
    let (hash, bytes) = (out.hash, out.bytes);
    out.inner.write_all(&hash.to_le_bytes())?;
    out.inner.flush()?;
    Ok(bytes + 8)
}

/// An opened image whose media are not yet read.
pub struct Image {
    path: PathBuf,
    description: String,
    input: Hashed<BufReader<File>>,
}

impl Image {
    /// Opens an image and reads its description.
    pub fn open(path: impl AsRef<Path>) -> Result<Image, ImageError> {
        let path = path.as_ref();
        Image::open_file(path).map_err(|problem| explained(path, problem))
    }

    fn open_file(path: &Path) -> Result<Image, ImageProblem> {
        let mut input = Hashed::new(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?));
        let mut magic = [0; 8];
        let begun = input.read_exact(&mut magic);
        if begun.is_err() || magic != *MAGIC {
            return Err(ImageProblem::NotAnImage);
        }
        let version = input.u32()?;
        if version != VERSION {
            return Err(ImageProblem::Version(version));
        }
        let length = input.u32()?;
        if length > TEXT_BYTES_MAX {
            return Err(ImageProblem::Checksum);
        }
        let mut text = vec![0; length as usize];
        input.read_exact(&mut text)?;
        let description = String::from_utf8(text).map_err(|_| ImageProblem::Checksum)?;
        let image = Image { path: path.into(), description, input };
        image.spec(&[]).map_err(ImageProblem::Spec)?;
        Ok(image)
    }

    /// Returns the description that the drive was aged with, as TOML.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Resolves the image's description with `KEY=VALUE` overrides. Its preconditioning is that of the image.
    pub fn spec(&self, sets: &[String]) -> Result<Spec, SpecError> {
        let name = self.path.display().to_string();
        pellucid_spec::from_str(&self.description, &name, sets)
    }

    /// Returns a sentence if `spec` uses the blocks of the drive differently than when it was aged.
    pub fn aged_otherwise(&self, spec: &Spec) -> Option<String> {
        let aged = self.spec(&[]).ok()?;
        crate::steadiness::aged_otherwise(&self.path.display().to_string(), &aged.drive.ftl, &spec.drive.ftl)
    }

    /// Describes the drive's history, for reports.
    pub fn past(&self) -> String {
        let made = self.spec(&[]).map_or_else(|error| error.to_string(), |spec| spec.precondition.words());
        format!("image {}: {made}", self.path.display())
    }

    /// Makes the drive of `spec` on the media of the image.
    pub fn device(self, spec: &Spec) -> Result<Device, ImageError> {
        let path = self.path.clone();
        self.read_device(spec).map_err(|problem| explained(&path, problem))
    }

    fn read_device(mut self, spec: &Spec) -> Result<Device, ImageProblem> {
        let aged = self.spec(&[]).map_err(ImageProblem::Spec)?;
        let sectors = self.input.u64()?;
        let media = Media::import(&spec.drive.media, &mut self.input)?;
        let hash = self.input.hash;
        if self.input.u64()? != hash || self.input.inner.read(&mut [0])? != 0 {
            return Err(ImageProblem::Checksum);
        }
        keeps_data(&aged.drive, &spec.drive, media.layout()).map_err(ImageProblem::Device)?;
        let device = Device::restore(&spec.drive, media).map_err(ImageProblem::Device)?;
        if sectors_of(&device) != sectors {
            return Err(ImageProblem::Checksum);
        }
        Ok(device)
    }
}

/// Returns the error of an image. If the file is damaged, the problem may be a consequence, such as an unknown key.
fn explained(path: &Path, problem: ImageProblem) -> ImageError {
    let by_content =
        matches!(problem, ImageProblem::Spec(_) | ImageProblem::Media(_) | ImageProblem::Device(_));
    let problem = if by_content && is_damaged(path) { ImageProblem::Checksum } else { problem };
    ImageError { path: path.into(), problem: problem.into() }
}

/// Returns whether the checksum at the end of a file does not match the bytes before it, as far as the file can be read.
fn is_damaged(path: &Path) -> bool {
    let checked = || -> io::Result<bool> {
        let file = File::open(path)?;
        let body_bytes = file.metadata()?.len().saturating_sub(8);
        let mut input = Hashed::new(BufReader::with_capacity(BUFFER_BYTES, file));
        io::copy(&mut input.by_ref().take(body_bytes), &mut io::sink())?;
        let hash = input.hash;
        Ok(input.u64()? != hash)
    };
    checked().unwrap_or(false)
}

/// A stream with the checksum of everything that passed through.
struct Hashed<T> {
    inner: T,
    hash: u64,
    bytes: u64,
}

impl<T> Hashed<T> {
    fn new(inner: T) -> Hashed<T> {
        Hashed { inner, hash: FNV_BASIS, bytes: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash = fnv1a(self.hash, bytes.iter().copied());
    }
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashed<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.add(&bytes[..read]);
        Ok(read)
    }
}

impl<T: Read> Hashed<T> {
    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Describes the wear of a drive made from an image, to follow [`Image::past`].
pub fn wear_words(device: &Device) -> String {
    let erases = EraseCounts::of(&device.erase_counts().collect::<Vec<_>>());
    format!("; erases per block {} to {}, mean {}", erases.min, erases.max, significant(erases.mean))
}
