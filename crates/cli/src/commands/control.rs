//! `pellucid power-cut` and `pellucid fault`: a drive in service is broken on purpose.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use anyhow::anyhow;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// So long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Which drive of which server.
#[derive(Debug, clap::Args)]
struct Target {
    /// The control socket of pellucid serve
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// The drive, when the server has several
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
}

/// Cut the power of a drive in service and switch it on again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pellucid power-cut --control /tmp/pellucid.control")]
pub struct PowerCut {
    #[command(flatten)]
    target: Target,
}

/// Have operations of a drive in service fail by chance
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pellucid fault --control /tmp/pellucid.control --program-fail 0.001")]
pub struct Fault {
    #[command(flatten)]
    target: Target,
    /// Chance that a program fails
    #[arg(long, value_name = "P")]
    program_fail: Option<f64>,
    /// Chance that an erase fails
    #[arg(long, value_name = "P")]
    erase_fail: Option<f64>,
    /// Chance that an attempt to read fails
    #[arg(long, value_name = "P")]
    read_fail: Option<f64>,
}

/// Print what a server and its drives count, as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pellucid status --control /tmp/pellucid.control")]
pub struct Status {
    /// The control socket of pellucid serve
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
}

impl PowerCut {
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        self.target.ask("power-cut", Map::new())
    }
}

impl Fault {
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        let given = [
            ("program_fail", self.program_fail),
            ("erase_fail", self.erase_fail),
            ("read_fail", self.read_fail),
        ];
        let fields = given.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?.into())));
        self.target.ask("faults", fields.collect())
    }
}

impl Status {
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        let fields = Map::from_iter([("do".to_string(), "status".into())]);
        print(&ask(&self.control, fields)?)
    }
}

impl Target {
    fn ask(self, what: &str, mut fields: Map<String, Value>) -> Result<(), Failure> {
        fields.insert("do".into(), what.into());
        if let Some(drive) = self.drive {
            fields.insert("drive".into(), drive.into());
        }
        print(&ask(&self.control, fields)?)
    }
}

fn print(answer: &Value) -> Result<(), Failure> {
    Ok(output::print(&format!("{answer:#}\n"))?)
}

/// Sends one request and reads its answer.
fn ask(control: &Path, fields: Map<String, Value>) -> Result<Value, Failure> {
    Control::connect(control)?.ask(fields)
}

/// A connection to the control socket.
pub struct Control {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the server at `path`.
    pub fn connect(path: &Path) -> Result<Control, Failure> {
        let stream = UnixStream::connect(path).and_then(|stream| {
            // A server answers at once; one that does not is stuck.
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| Failure::work(anyhow!("{}: {error}", path.display())))?;
        Ok(Control { path: path.into(), stream: BufReader::new(stream) })
    }

    /// Sends one request and reads its answer.
    pub fn ask(&mut self, fields: Map<String, Value>) -> Result<Value, Failure> {
        let path = self.path.display();
        let said = |error: std::io::Error| Failure::work(anyhow!("{path}: {error}"));
        // In one piece: a line that comes in parts is answered late.
        let request = format!("{}\n", Value::Object(fields));
        self.stream.get_mut().write_all(request.as_bytes()).map_err(said)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line).map_err(said)? == 0 {
            return Err(Failure::work(anyhow!("{path}: the server has stopped")));
        }
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| Failure::work(anyhow!("{path}: answer: {error}")))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::work(anyhow!("{error}"))),
            None => Ok(answer),
        }
    }
}
