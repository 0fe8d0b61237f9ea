//! Output files: written under a temporary name, and renamed when they are complete.
//!
//! ```text
//!  file       FILE.part, locked ─► write ─► fsync ─► rename to FILE
//!  directory  DIR locked; DIR.part ─► write ─► fsync ─► exchange with DIR ─► remove what was there
//! ```
//! A reader sees the old file or the new one, never a part of it; a full disk leaves the old one. Locks die with their process, so the next writer
//! takes over the files of a killed one. Anything but a regular file (a pipe, `/dev/stdout`) is written directly.
//!
//! No crate does this: `tempfile` and `atomic-write-file` replace one file under a random temporary name, so a killed writer leaves a file that
//! nobody takes over, and two writers do not notice each other; neither exchanges directories.
//!
//! A directory that holds more than a report is not exchanged: its files are replaced one by one, after all new ones have been written.

use rustix::fs::{CWD, OFlags, RenameFlags, fcntl_setfl, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files of a report.
const REPORT_FILES: [&str; 11] = [
    "report.json",
    "series.csv",
    "requests.csv",
    "index.html",
    "figures.json",
    "film.html",
    "film.svg",
    "compare.json",
    "compare.svg",
    "reproduce.json",
    "claims.md",
];

/// A file of a directory: its relative path and its content.
pub type Part = (PathBuf, Vec<u8>);

/// Files that would be left behind if the process ended now.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Directories created for results that are still to come.
static EMPTY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes incomplete files; for a process that ends early.
pub fn remove_unfinished() {
    for path in std::mem::take(&mut *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)) {
        remove(&path);
    }
    for path in std::mem::take(&mut *EMPTY.lock().unwrap_or_else(PoisonError::into_inner)) {
        // Fails if somebody has put something into it.
        let _ = fs::remove_dir(&path);
    }
}

fn note_empty(path: &Path, empty: bool) {
    let mut all = EMPTY.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other != path);
    if empty {
        all.push(path.into());
    }
}

fn note(path: &Path, unfinished: bool) {
    let mut all = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other != path);
    if unfinished {
        all.push(path.into());
    }
}

fn remove(path: &Path) {
    let _ = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
}

/// Reason why an output cannot be written.
#[derive(Debug, thiserror::Error)]
pub struct OutputError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    /// Another program is writing it.
    Held,
    /// A directory stands where a file is expected.
    IsDirectory,
    /// Something else stands where a directory is expected.
    NotDirectory,
    /// The parent directory does not exist.
    NoParent(PathBuf),
    /// `-`, which elsewhere means standard output.
    Dash,
    /// A file that Pellucid did not write.
    Foreign,
    /// Another program has it open and locked, such as a drive its file.
    InUse,
    /// A pipe without a reader; opening it would block.
    NoReader,
    Io(io::Error),
}

impl OutputError {
    /// Reports whether the name is a mistake, so that retrying is useless.
    pub fn is_mistake(&self) -> bool {
        use io::ErrorKind::{
            InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
            ReadOnlyFilesystem,
        };
        match &self.problem {
            Problem::Held | Problem::InUse => false,
            Problem::Io(error) => matches!(
                error.kind(),
                InvalidFilename
                    | InvalidInput
                    | IsADirectory
                    | NotADirectory
                    | NotFound
                    | PermissionDenied
                    | ReadOnlyFilesystem
            ),
            Problem::IsDirectory
            | Problem::NotDirectory
            | Problem::NoParent(_)
            | Problem::Dash
            | Problem::Foreign
            | Problem::NoReader => true,
        }
    }

    fn new(path: &Path, problem: impl Into<Problem>) -> OutputError {
        OutputError { path: path.into(), problem: problem.into() }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Io(error)
    }
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Held => {
                write!(
                    f,
                    "{path}: another program is writing it; allowed: another name, or when that has ended"
                )
            }
            Problem::InUse => {
                write!(f, "{path}: in use, by a drive on it or another program; allowed: another name")
            }
            Problem::IsDirectory => write!(f, "{path}: a directory; allowed: a file, or a new name"),
            Problem::NotDirectory => write!(f, "{path}: a file; allowed: a directory, or a new name"),
            Problem::NoParent(parent) => {
                let parent = parent.display();
                write!(f, "{path}: {parent} is no directory; allowed: a name in one that exists")
            }
            Problem::Dash => {
                write!(f, "{path}: not the name of a file here; allowed: a file, or /dev/stdout")
            }
            Problem::Foreign => {
                write!(
                    f,
                    "{path}: exists, and this command did not write it; allowed: another name, or --force, which replaces it"
                )
            }
            Problem::NoReader => {
                write!(
                    f,
                    "{path}: a pipe that nobody reads; allowed: a file, or a pipe whose reader has begun"
                )
            }
            Problem::Io(error) => write!(f, "{path}: cannot be written: {}", reason(error)),
        }
    }
}

/// The system's reason, without its error number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).into()
}

/// Opens an existing file for writing, without waiting for the reader of a pipe.
fn open_there(path: &Path, there: &fs::Metadata) -> Result<File, Problem> {
    if !there.file_type().is_fifo() {
        return Ok(File::options().write(true).open(path)?);
    }
    let waits_not = OFlags::NONBLOCK.bits().cast_signed();
    let pipe = File::options().write(true).custom_flags(waits_not).open(path);
    let pipe = pipe.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => Problem::NoReader,
        _ => Problem::Io(error),
    })?;
    // Makes writes block while the pipe is full.
    fcntl_setfl(&pipe, OFlags::empty()).map_err(io::Error::from)?;
    Ok(pipe)
}

/// Refuses to replace a file that Pellucid did not write, unless `force` is set. `is_ours` judges the existing file. An empty file may be replaced;
/// anything but a regular file (a pipe, `/dev/stdout`) is written to, not replaced. A dangling or circular link is foreign.
///
/// # Errors
/// The file at `path` is foreign.
pub fn refuse_foreign(
    path: &Path,
    force: bool,
    is_ours: impl FnOnce(&File) -> bool,
) -> Result<(), OutputError> {
    let replaced = match fs::metadata(path) {
        Ok(there) => there.is_file() && there.len() > 0,
        Err(_) => path.is_symlink(),
    };
    // A file that cannot be read counts as foreign.
    if force || !replaced || File::open(path).is_ok_and(|file| is_ours(&file)) {
        return Ok(());
    }
    Err(OutputError::new(path, Problem::Foreign))
}

/// Reports whether a file begins with one of `beginnings`.
pub fn begins_with(file: &File, beginnings: &[&[u8]]) -> bool {
    beginnings.iter().any(|beginning| {
        let mut found = vec![0; beginning.len()];
        file.read_exact_at(&mut found, 0).is_ok_and(|()| found == *beginning)
    })
}

/// Mark in the head of every page that Pellucid writes.
pub const PAGE_MARK: &str = " | Pellucid</title>";
/// The mark is within this many bytes.
const PAGE_HEAD_BYTES: usize = 16_384;

/// Reports whether a file is one of Pellucid's pages.
fn is_page(page: &File) -> bool {
    let mut head = vec![0; PAGE_HEAD_BYTES];
    let length = page.read_at(&mut head, 0).unwrap_or(0);
    head[..length].windows(PAGE_MARK.len()).any(|part| part == PAGE_MARK.as_bytes())
}

/// Refuses to replace a file that is not one of Pellucid's pages, like [`refuse_foreign`].
///
/// # Errors
/// The file at `path` is foreign.
pub fn refuse_foreign_page(path: &Path, force: bool) -> Result<(), OutputError> {
    refuse_foreign(path, force, is_page)
}

/// Refuses a directory in which a report would replace foreign files, unless `force` is set. Every report of Pellucid has a page with its mark.
///
/// # Errors
/// The directory holds a foreign file.
pub fn refuse_foreign_report(directory: &Path, force: bool) -> Result<(), OutputError> {
    let there = |name: &&&str| directory.join(name).is_file();
    let Some(name) = REPORT_FILES.iter().find(there).filter(|_| !force) else { return Ok(()) };
    let page = directory.join("index.html");
    match File::open(&page) {
        Ok(file) if is_page(&file) => Ok(()),
        Ok(_) => Err(OutputError::new(&page, Problem::Foreign)),
        Err(_) => Err(OutputError::new(&directory.join(name), Problem::Foreign)),
    }
}

/// A file that gets its name when it is complete.
#[derive(Debug)]
pub struct OutputFile {
    /// Path as given.
    path: PathBuf,
    file: File,
    /// Temporary and final name; `None`: not a regular file, or already renamed.
    rename: Option<(PathBuf, PathBuf)>,
}

impl OutputFile {
    /// Starts the file at `path`. An existing file stays until [`OutputFile::commit`].
    ///
    /// # Errors
    /// Another program is writing it, or it cannot be written.
    pub fn create(path: &Path) -> Result<OutputFile, OutputError> {
        OutputFile::begin(path).map_err(|problem| OutputError::new(path, problem))
    }

    /// Creates a file that only its owner can read, like [`OutputFile::create`].
    ///
    /// # Errors
    /// As [`OutputFile::create`].
    pub fn create_private(path: &Path) -> Result<OutputFile, OutputError> {
        let begun = OutputFile::create(path)?;
        if begun.rename.is_some() {
            let private = begun.file.set_permissions(fs::Permissions::from_mode(0o600));
            private.map_err(|error| OutputError::new(path, error))?;
        }
        Ok(begun)
    }

    fn begin(path: &Path) -> Result<OutputFile, Problem> {
        if path == Path::new("-") {
            return Err(Problem::Dash);
        }
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Problem::IsDirectory);
        }
        // Opening also checks the permission to write.
        let old = there.as_ref().map(|there| open_there(path, there)).transpose()?;
        match (there, old) {
            (Some(there), Some(file)) if there.is_file() => {
                if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                    return Err(Problem::InUse);
                }
                check_parent(path)?;
            }
            (Some(_), Some(file)) => {
                return Ok(OutputFile { path: path.into(), file, rename: None });
            }
            _ => check_parent(path)?,
        }
        // For a link, beside the file that it points to.
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let part = with_suffix(&name);
        let open = || File::options().write(true).create(true).truncate(false).open(&part);
        let file = lock(&part, open)?;
        note(&part, true);
        file.set_len(0)?;
        if let Ok(there) = fs::metadata(&name) {
            let _ = file.set_permissions(there.permissions());
        }
        Ok(OutputFile { path: path.into(), file, rename: Some((part, name)) })
    }

    /// Duplicates the handle for writing.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn writer(&self) -> Result<File, OutputError> {
        self.file.try_clone().map_err(|error| OutputError::new(&self.path, error))
    }

    /// Leaves the file incomplete, under its name with `.part`.
    pub fn leave(&mut self) {
        if let Some((part, _)) = self.rename.take() {
            note(&part, false);
        }
    }

    /// The error for a failed write.
    pub fn failed(&self, error: io::Error) -> OutputError {
        OutputError::new(&self.path, error)
    }

    /// Completes the file: syncs it to disk and renames it.
    ///
    /// # Errors
    /// It cannot be synced or renamed; then the old file stays.
    pub fn commit(&mut self) -> Result<(), OutputError> {
        let Some((part, name)) = &self.rename else { return Ok(()) };
        let renamed = self.file.sync_all().and_then(|()| fs::rename(part, name));
        renamed.map_err(|error| OutputError::new(&self.path, error))?;
        note(part, false);
        sync_parent(name);
        // The next writer may replace the complete file.
        let _ = self.file.unlock();
        self.rename = None;
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.rename {
            let _ = fs::remove_file(part);
            note(part, false);
        }
    }
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check_parent(path: &Path) -> Result<(), Problem> {
    let parent = parent(path);
    match parent.is_dir() {
        true => Ok(()),
        false => Err(Problem::NoParent(parent.into())),
    }
}

/// Syncs the directory, so that a rename survives a power loss.
fn sync_parent(path: &Path) {
    let _ = File::open(parent(path)).and_then(|directory| directory.sync_all());
}

/// Opens and locks the file at `path`. Its holder may rename or remove it between the two steps, so the name is checked again.
fn lock(path: &Path, open: impl Fn() -> io::Result<File>) -> Result<File, Problem> {
    loop {
        let file = open()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Problem::Held),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let (held, named) = (file.metadata()?, fs::metadata(path));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(file);
        }
    }
}

/// A directory whose files are replaced together.
#[derive(Debug)]
pub struct OutputDirectory {
    /// Path as given.
    path: PathBuf,
    /// Path with links resolved.
    name: PathBuf,
    /// Held open for its lock.
    lock: File,
    /// True if the directory was created here and is still empty.
    empty: bool,
}

impl OutputDirectory {
    /// Claims the directory at `path`, and creates it if it does not exist. Its content stays until [`OutputDirectory::replace`].
    ///
    /// # Errors
    /// Another program is writing it, or it cannot be created.
    pub fn claim(path: &Path) -> Result<OutputDirectory, OutputError> {
        let failed = |problem| OutputError::new(path, problem);
        if path == Path::new("-") {
            return Err(failed(Problem::Dash));
        }
        if path.exists() && !path.is_dir() {
            return Err(failed(Problem::NotDirectory));
        }
        if let Some(file) = path.ancestors().find(|parent| parent.is_file()) {
            return Err(failed(Problem::NoParent(file.into())));
        }
        let empty = !path.exists();
        fs::create_dir_all(path).map_err(|error| failed(error.into()))?;
        let name = fs::canonicalize(path).map_err(|error| failed(error.into()))?;
        let lock = lock(&name, || File::open(&name)).map_err(failed)?;
        note_empty(&name, empty);
        Ok(OutputDirectory { path: path.into(), name, lock, empty })
    }

    /// Path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the report in the directory.
    ///
    /// # Errors
    /// The new report cannot be written; then the old one stays.
    pub fn replace(&mut self, parts: &[Part]) -> Result<(), OutputError> {
        let replaced = match self.can_exchange(parts) && self.exchange(parts)? {
            true => Ok(()),
            false => replace_one_by_one(&self.name, parts),
        };
        self.empty = false;
        note_empty(&self.name, false);
        replaced.map_err(|error| OutputError::new(&self.path, error))
    }

    /// Reports whether the directory holds only a report, and this process does not work inside it.
    fn can_exchange(&self, parts: &[Part]) -> bool {
        let inside = std::env::current_dir().and_then(fs::canonicalize);
        let goes = |at: &Path| parts.iter().any(|(path, _)| path.starts_with(at));
        let known = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| {
                let path = entry.path();
                let replaced = !path.is_dir() || goes(Path::new(&entry.file_name()));
                replaced && is_report(&path)
            })
        };
        !inside.is_ok_and(|inside| inside.starts_with(&self.name))
            && self.name.parent().is_some()
            && fs::read_dir(&self.name).is_ok_and(|mut entries| entries.all(known))
    }

    /// Writes a second directory beside this one and exchanges the two; returns false if the file system cannot exchange here.
    fn exchange(&mut self, parts: &[Part]) -> Result<bool, OutputError> {
        let part = with_suffix(&self.name);
        if part.exists() && !is_report(&part) {
            return Ok(false);
        }
        remove(&part);
        if fs::create_dir(&part).is_err() {
            return Ok(false);
        }
        note(&part, true);
        let written = fs::metadata(&self.name)
            .and_then(|there| fs::set_permissions(&part, there.permissions()))
            .and_then(|()| write_all(&part, parts))
            .map_err(Problem::Io)
            .and_then(|()| lock(&part, || File::open(&part)));
        let exchanged = written.map(|lock| {
            let exchanged = renameat_with(CWD, &part, CWD, &self.name, RenameFlags::EXCHANGE).is_ok();
            if exchanged {
                self.lock = lock;
                sync_parent(&self.name);
            }
            exchanged
        });
        remove(&part);
        note(&part, false);
        exchanged.map_err(|problem| OutputError::new(&self.path, problem))
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        note_empty(&self.name, false);
        if self.empty {
            // A failed run leaves nothing behind.
            let _ = fs::remove_dir(&self.name);
        }
    }
}

/// Reports whether a report in `directory` would replace `file`.
pub fn is_replaced(directory: &Path, file: &Path) -> bool {
    let place = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.into());
    file.file_name().is_some_and(|name| REPORT_FILES.iter().any(|own| name == *own))
        && place(parent(file)) == place(directory)
}

/// Reports whether a file, or everything in a directory, belongs to a report.
fn is_report(path: &Path) -> bool {
    if path.is_dir() {
        let entries = fs::read_dir(path);
        return entries
            .is_ok_and(|mut all| all.all(|entry| entry.is_ok_and(|entry| is_report(&entry.path()))));
    }
    path.is_file() && path.file_name().is_some_and(|name| REPORT_FILES.iter().any(|file| name == *file))
}

fn write_all(directory: &Path, parts: &[Part]) -> io::Result<()> {
    for (path, content) in parts {
        let path = directory.join(path);
        fs::create_dir_all(parent(&path))?;
        write_synced(&path, content)?;
        sync_parent(&path);
    }
    Ok(())
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Writes all files under temporary names before renaming the first.
fn replace_one_by_one(directory: &Path, parts: &[Part]) -> io::Result<()> {
    let names: Vec<(PathBuf, PathBuf)> =
        parts.iter().map(|(path, _)| directory.join(path)).map(|name| (with_suffix(&name), name)).collect();
    let write = || {
        for ((part, _), (_, content)) in names.iter().zip(parts) {
            fs::create_dir_all(parent(part))?;
            note(part, true);
            write_synced(part, content)?;
        }
        for (part, name) in &names {
            fs::rename(part, name)?;
            sync_parent(name);
        }
        Ok(())
    };
    let written = write();
    for (part, _) in &names {
        if written.is_err() {
            let _ = fs::remove_file(part);
        }
        note(part, false);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pellucid-output-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder");
        path
    }

    fn parts(text: &str) -> Vec<Part> {
        ["report.json", "one/index.html", "index.html"].map(|name| (name.into(), text.into())).into()
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_takes_its_name_when_it_is_complete_and_has_one_writer() {
        let folder = folder("file");
        let path = folder.join("log.csv");
        fs::write(&path, "old").expect("written");
        let mut file = OutputFile::create(&path).expect("nobody has it");
        let refused = OutputFile::create(&path).expect_err("held").to_string();
        assert!(refused.contains("log.csv: another program is writing it"), "{refused}");
        file.write_all(b"new").expect("room");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        file.commit().expect("room");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        drop(OutputFile::create(&path).expect("free again"));
        assert_eq!(
            (names(&folder), fs::read_to_string(&path).expect("there")),
            (vec!["log.csv".into()], "new".into())
        );
        // Files left by a killed writer block nobody, and links stay links.
        fs::write(folder.join("log.csv.part"), "half a line, and more than is written now").expect("written");
        std::os::unix::fs::symlink("log.csv", folder.join("link")).expect("a link");
        let mut file = OutputFile::create(&folder.join("link")).expect("free");
        file.write_all(b"newer").and_then(|()| file.commit().map_err(io::Error::other)).expect("room");
        assert_eq!(
            (names(&folder), fs::read_to_string(&path).expect("there")),
            (vec!["link".into(), "log.csv".into()], "newer".into())
        );
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_pipe_is_written_where_somebody_reads_it_and_refused_where_nobody_does() {
        let folder = folder("pipe");
        let path = folder.join("pipe");
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
        let refused = OutputFile::create(&path).map(drop).expect_err("nobody reads it");
        assert!(
            refused.is_mistake() && refused.to_string().contains("a pipe that nobody reads"),
            "{refused}"
        );
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let reader = File::options().read(true).custom_flags(nonblock).open(&path).expect("a reader");
        let mut file = OutputFile::create(&path).expect("somebody reads it");
        file.write_all(b"line").expect("room");
        let mut read = [0; 4];
        assert_eq!(rustix::io::read(&reader, &mut read), Ok(4));
        assert_eq!(&read, b"line");
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_file_that_is_not_ours_is_refused_without_force() {
        let folder = folder("foreign");
        let path = folder.join("mine.toml");
        let refused =
            |force| refuse_foreign(&path, force, |file| begins_with(file, &[b"vertex,", b"time_ns,"]));
        refused(false).expect("nothing is there");
        fs::write(&path, "").expect("written");
        refused(false).expect("nothing is lost");
        for foreign in ["vertex", "[drive]\n"] {
            fs::write(&path, foreign).expect("written");
            let error = refused(false).expect_err("somebody's");
            let said = "mine.toml: exists, and this command did not write it; allowed: another name, or --force, which replaces it";
            assert!(error.is_mistake() && error.to_string().ends_with(said), "{error}");
            refused(true).expect("forced");
        }
        fs::write(&path, "time_ns,kind\n").expect("written");
        refused(false).expect("ours");
        for target in ["nothing", "mine.toml"] {
            fs::remove_file(&path).expect("a file, or a link");
            std::os::unix::fs::symlink(target, &path).expect("a link");
            assert!(refused(false).expect_err("somebody's link").is_mistake());
            refused(true).expect("forced");
        }
        refuse_foreign(Path::new("/dev/null"), false, |_| false).expect("nothing is replaced");
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_report_replaces_reports_only() {
        let folder = folder("foreign-report");
        let refused = |force| refuse_foreign_report(&folder, force);
        refused(false).expect("nothing is there");
        fs::write(folder.join("notes"), "mine").expect("written");
        refused(false).expect("it stays");
        let page = folder.join("index.html");
        for foreign in ["<html>my page</html>", ""] {
            fs::write(&page, foreign).expect("written");
            let error = refused(false).expect_err("somebody's").to_string();
            assert!(error.contains("index.html: exists, and this command did not write it"), "{error}");
            refused(true).expect("forced");
        }
        fs::write(&page, format!("<!DOCTYPE html><title>jasmine{PAGE_MARK}")).expect("written");
        refused(false).expect("ours");
        fs::rename(&page, folder.join("report.json")).expect("renamed");
        let error = refused(false).expect_err("no page beside it").to_string();
        assert!(error.contains("report.json: exists"), "{error}");
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_directory_is_exchanged_or_keeps_what_is_no_report() {
        let folder = folder("directory");
        let path = folder.join("out");
        let mut directory = OutputDirectory::claim(&path).expect("free");
        let refused = OutputDirectory::claim(&path).expect_err("held");
        assert!(!refused.is_mistake() && refused.to_string().contains("another program"), "{refused}");
        directory.replace(&parts("old")).expect("room");
        let first = fs::metadata(&path).expect("there").ino();
        // Still held, under its new inode.
        assert!(OutputDirectory::claim(&path).is_err());
        directory.replace(&parts("new")).expect("room");
        assert_ne!(fs::metadata(&path).expect("there").ino(), first, "exchanged");
        drop(directory);
        assert_eq!(names(&folder), ["out"]);
        // A user's notes: they stay, and so does the directory.
        fs::write(path.join("notes"), "mine").expect("written");
        let before = fs::metadata(&path).expect("there").ino();
        OutputDirectory::claim(&path).and_then(|mut it| it.replace(&parts("newest"))).expect("room");
        assert_eq!(fs::metadata(&path).expect("there").ino(), before);
        assert_eq!(names(&path), ["index.html", "notes", "one", "report.json"]);
        assert_eq!(fs::read_to_string(path.join("one/index.html")).expect("there"), "newest");
        // A report of another kind in its own directory is also the user's.
        fs::create_dir(path.join("two"))
            .and_then(|()| fs::write(path.join("two/index.html"), "x"))
            .expect("written");
        fs::remove_file(path.join("notes")).expect("there");
        OutputDirectory::claim(&path).and_then(|mut it| it.replace(&parts("last"))).expect("room");
        assert_eq!(names(&path), ["index.html", "one", "report.json", "two"]);
        fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn what_cannot_be_is_a_mistake_and_leaves_nothing() {
        let folder = folder("mistakes");
        fs::write(folder.join("file"), "").expect("written");
        for (error, end) in [
            (
                OutputFile::create(&folder).expect_err("a directory"),
                "a directory; allowed: a file, or a new name",
            ),
            (
                OutputDirectory::claim(&folder.join("file")).expect_err("a file"),
                "a file; allowed: a directory, or a new name",
            ),
            (
                OutputFile::create(&folder.join("file/log")).expect_err("no parent"),
                "is no directory; allowed: a name in one that exists",
            ),
            (
                OutputFile::create(&folder.join("no/log")).expect_err("no parent"),
                "is no directory; allowed: a name in one that exists",
            ),
            (
                OutputDirectory::claim(&folder.join("file/a/b")).expect_err("no parent"),
                "is no directory; allowed: a name in one that exists",
            ),
        ] {
            assert!(error.is_mistake() && error.to_string().ends_with(end), "{error}");
        }
        drop(OutputDirectory::claim(&folder.join("new")).expect("free"));
        assert_eq!(names(&folder), ["file"]);
        fs::remove_dir_all(&folder).expect("ours");
    }
}
