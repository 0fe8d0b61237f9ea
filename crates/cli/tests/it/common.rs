//! Running the command, and files for it.

use serde_json::Value;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A drive of 6 MiB that is quickly filled.
pub const TINY: &str = r#"
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 24
pages = 16
page_size = "4KiB"
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
[drive.buffer]
entries = 32
[precondition]
fill = 0.9
"#;

/// Result of a command.
pub struct Done {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    fn of(output: Output) -> Done {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Done {
            status: output.status.code().expect("it was not killed"),
            stdout: text(output.stdout),
            stderr: without_progress(&text(output.stderr)),
        }
    }

    /// The answer of a command that worked.
    pub fn answer(self) -> String {
        assert_eq!(self.status, 0, "{}", self.stderr);
        self.stdout
    }

    pub fn json(self) -> Value {
        let answer = self.answer();
        serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{e}: {answer}"))
    }
}

/// Drops the lines that a command says every ten seconds: how many there are depends on how fast the machine is.
fn without_progress(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(" so far)")).collect()
}

/// A folder of its own, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pellucid-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A folder with the tiny drive in `tiny.toml`.
    pub fn with_drive() -> Folder {
        let folder = Folder::new();
        folder.write("tiny.toml", TINY);
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs the command in this folder with this on its standard input, through a pipe.
    pub fn run_with_input(&self, words: &[&str], input: &str) -> Done {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pellucid"))
            .args(words)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Shorter than what a pipe holds.
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Done::of(child.wait_with_output().unwrap())
    }

    /// Runs the command in this folder.
    pub fn run(&self, words: &[&str]) -> Done {
        run_in(&self.0, words)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every command of the program.
pub const COMMANDS: [&str; 26] = [
    "run",
    "replay",
    "compare",
    "age",
    "sweep",
    "rerun",
    "diff",
    "reproduce",
    "demo",
    "show",
    "explain",
    "import",
    "presets",
    "serve",
    "cache",
    "detach",
    "fire",
    "kv",
    "graph",
    "fs",
    "target",
    "apps",
    "top",
    "status",
    "power-cut",
    "fault",
];

/// A server in a process of its own, which ends with the test.
pub struct Serving(Child);

impl Serving {
    /// Runs `script` with a shell in a folder; `$0` is the command. Its standard error goes to the file `log`.
    pub fn new(folder: &Folder, script: &str) -> Serving {
        Serving::logging_to(folder, script, std::fs::File::create(folder.path("log")).unwrap())
    }

    /// Runs `script` as [`Serving::new`] does, and logs to `log`.
    pub fn logging_to(folder: &Folder, script: &str, log: impl Into<Stdio>) -> Serving {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_pellucid")]).current_dir(&folder.0).stderr(log);
        Serving(shell.spawn().unwrap())
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Refuses its writes to files beyond this byte from now on, as on a full disk; `None`: refuses none.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".into(), |bytes| bytes.to_string());
        let pid = self.0.id().to_string();
        let set =
            Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}:unlimited")]).status();
        assert!(set.is_ok_and(|status| status.success()), "prlimit --fsize={limit}");
    }

    /// Sends it a signal and waits for its end. `None`: the signal ended it.
    pub fn end(&mut self, name: &str) -> Option<i32> {
        self.signal(name);
        self.0.wait().unwrap().code()
    }

    /// Waits for its end, which was asked for.
    pub fn wait(&mut self) {
        assert!(self.0.wait().unwrap().success(), "a good end");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Waits until something is so; longer than a loaded machine takes.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(600), "{what}: not within ten minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `name` in `folder`, a Unix socket, takes connections: its file is there a moment before.
pub fn listens(folder: &Folder, name: &str) {
    eventually("the server listens", || UnixStream::connect(folder.path(name)).is_ok());
}

/// The project's top folder.
pub fn project() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs the command in a folder.
pub fn run_in(folder: &Path, words: &[&str]) -> Done {
    let output: Output =
        Command::new(env!("CARGO_BIN_EXE_pellucid")).args(words).current_dir(folder).output().unwrap();
    Done::of(output)
}

/// The report without what real time has put into it.
pub fn repeatable(mut report: Value) -> Value {
    for key in ["wall_seconds", "requests_per_wall_second", "peak_memory_bytes"] {
        assert!(report.as_object_mut().unwrap().remove(key).is_some(), "{key} is missing");
    }
    report
}
