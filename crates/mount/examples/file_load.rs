//! Loads a directory from several threads in the manner of filebench's fileserver, webserver and varmail.
//!
//! ```text
//! file_load DIRECTORY fileserver|webserver|varmail FILES THREADS SECONDS SEED
//! ```
//! Creates the files if the directory is empty, runs, and prints one line of JSON. As in filebench, each call
//! of its loop (create, write, close, ...) is an operation. Sizes are exponentially distributed about
//! filebench's means.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq)]
enum Load {
    FileServer,
    WebServer,
    VarMail,
}

const APPEND_BYTES: usize = 16 << 10;
const DIRECTORY_WIDTH: u64 = 20;
const BUFFER_BYTES: usize = 1 << 20;

impl Load {
    fn mean_bytes(self) -> f64 {
        if self == Load::FileServer { 128.0 * 1024.0 } else { 16.0 * 1024.0 }
    }

    /// Path of a file. Filebench's varmail keeps all its files in one directory.
    fn path(self, root: &Path, file: u64) -> PathBuf {
        match self {
            Load::VarMail => root.join(format!("{file:08}")),
            _ => root.join(format!(
                "{:04}/{:04}/{file:08}",
                file / DIRECTORY_WIDTH / DIRECTORY_WIDTH,
                file / DIRECTORY_WIDTH
            )),
        }
    }
}

/// A pseudo-random sequence from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self, mean: f64) -> usize {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((-(1.0 - share).ln() * mean) as usize).max(1)
    }
}

struct Thread<'a> {
    load: Load,
    root: &'a Path,
    files: u64,
    random: Random,
    buffer: Vec<u8>,
    operations: &'a AtomicU64,
    log: Option<&'a File>,
}

impl Thread<'_> {
    fn count(&self, operations: u64) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
    }

    fn some_file(&mut self) -> PathBuf {
        let file = self.random.below(self.files);
        self.load.path(self.root, file)
    }

    fn write(&mut self, file: &mut File, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            let part = bytes.min(BUFFER_BYTES);
            file.write_all(&self.buffer[..part])?;
            bytes -= part;
        }
        Ok(())
    }

    fn read(&mut self, file: &mut File) -> io::Result<()> {
        while file.read(&mut self.buffer)? > 0 {}
        Ok(())
    }

    /// Makes a file: create, write, (fsync,) close.
    fn create(&mut self, bytes: usize) -> io::Result<()> {
        let path = self.some_file();
        let mut file = File::create(path)?;
        self.write(&mut file, bytes)?;
        self.finish(&file, 3)
    }

    /// Appends: open, (read,) append, (fsync,) close. Filebench chooses among existing files, so a missing
    /// one is created.
    fn append(&mut self, reads: bool) -> io::Result<()> {
        let path = self.some_file();
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if reads {
            self.read(&mut file)?;
        }
        file.seek(SeekFrom::End(0))?;
        let bytes = self.random.below(2 * APPEND_BYTES as u64) as usize + 1;
        self.write(&mut file, bytes)?;
        self.finish(&file, 3 + u64::from(reads))
    }

    fn finish(&self, file: &File, operations: u64) -> io::Result<()> {
        if self.load == Load::VarMail {
            file.sync_all()?;
            self.count(1);
        }
        self.count(operations);
        Ok(())
    }

    /// Reads a whole file: open, read, close.
    fn read_whole(&mut self) -> io::Result<()> {
        let path = self.some_file();
        if let Some(mut file) = there(File::open(path))? {
            self.read(&mut file)?;
            self.count(3);
        }
        Ok(())
    }

    fn delete(&mut self) -> io::Result<()> {
        let path = self.some_file();
        if there(fs::remove_file(path))?.is_some() {
            self.count(1);
        }
        Ok(())
    }

    fn stat(&mut self) -> io::Result<()> {
        let path = self.some_file();
        if there(fs::metadata(path))?.is_some() {
            self.count(1);
        }
        Ok(())
    }

    /// Runs the loop of the load once.
    fn turn(&mut self) -> io::Result<()> {
        match self.load {
            Load::FileServer => {
                let bytes = self.random.bytes(self.load.mean_bytes());
                self.create(bytes)?;
                self.append(false)?;
                self.read_whole()?;
                self.delete()?;
                self.stat()
            }
            Load::WebServer => {
                for _ in 0..10 {
                    self.read_whole()?;
                }
                let mut log = self.log.expect("a web server has a log");
                log.write_all(&self.buffer[..APPEND_BYTES])?;
                self.count(1);
                Ok(())
            }
            Load::VarMail => {
                self.delete()?;
                let bytes = self.random.below(2 * APPEND_BYTES as u64) as usize + 1;
                self.create(bytes)?;
                self.append(true)?;
                self.read_whole()
            }
        }
    }
}

/// Turns "not found" into `None`: another thread may have deleted the file.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn fill(load: Load, root: &Path, files: u64, seed: u64) -> io::Result<()> {
    let (mut random, buffer) = (Random(seed), vec![b'f'; 64 << 20]);
    for file in 0..files {
        let path = load.path(root, file);
        fs::create_dir_all(path.parent().expect("a directory"))?;
        fs::write(path, &buffer[..random.bytes(load.mean_bytes()).min(buffer.len())])?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [root, load, files, threads, seconds, seed] = words.as_slice() else {
        return Err(io::Error::other(
            "file_load DIRECTORY fileserver|webserver|varmail FILES THREADS SECONDS SEED",
        ));
    };
    let number = |word: &String| word.parse::<u64>().map_err(io::Error::other);
    let (files, threads, seconds, seed) = (number(files)?, number(threads)?, number(seconds)?, number(seed)?);
    let load = match load.as_str() {
        "fileserver" => Load::FileServer,
        "webserver" => Load::WebServer,
        "varmail" => Load::VarMail,
        other => return Err(io::Error::other(format!("{other}; allowed: fileserver, webserver, varmail"))),
    };
    let root = Path::new(root);
    if fs::read_dir(root)?.next().is_none() {
        fill(load, root, files, seed)?;
    }
    let log = match load {
        Load::WebServer => Some(OpenOptions::new().append(true).create(true).open(root.join("log"))?),
        _ => None,
    };
    let (operations, began) = (AtomicU64::new(0), Instant::now());
    let end = began + Duration::from_secs(seconds);
    std::thread::scope(|scope| -> io::Result<()> {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (random, buffer) = (Random(seed << 8 | thread), vec![b'x'; BUFFER_BYTES]);
                let mut thread =
                    Thread { load, root, files, random, buffer, operations: &operations, log: log.as_ref() };
                scope.spawn(move || -> io::Result<()> {
                    while Instant::now() < end {
                        match thread.turn() {
                            // passthrough_hp occasionally reports this for a file that another thread has
                            // just deleted.
                            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                            done => done?,
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let (operations, seconds) = (operations.into_inner(), began.elapsed().as_secs_f64());
    let mut out = io::stdout();
    writeln!(out, "{{\"operations\": {operations}, \"seconds\": {seconds:.3}}}")
}
