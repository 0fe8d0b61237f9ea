//! `pellucid power-cut` and `pellucid fault`: a drive in service is broken on purpose.

use crate::failure::Failure;
use crate::numbers::whole;
use crate::output;
use anyhow::anyhow;
use pellucid_flash::DieId;
use pellucid_media as media;
use pellucid_output::reason;
use pellucid_target::request::{Action, Chances, HostFault, Request};
use pellucid_text::read_share;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
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

const FAULT_EXAMPLES: &str = "\
Examples:
  pellucid fault --control /tmp/pellucid.control --program-fail 0.001
  pellucid fault --control /tmp/pellucid.control --slow-die 5x20
  pellucid fault --control /tmp/pellucid.control --kill-die 5
  pellucid fault --control /tmp/pellucid.control --bit-errors --factor 100
  pellucid fault --control /tmp/pellucid.control --wear-out
  pellucid fault --control /tmp/pellucid.control --inject io-error:on=write,range=1GiB-2GiB,rate=0.01,seed=7
  pellucid fault --control /tmp/pellucid.control --clear";

fn chance(text: &str) -> Result<f64, String> {
    let chance = read_share(text).filter(|&chance| chance <= 1.0);
    chance.ok_or_else(|| "allowed: a probability from 0 to 1, or 0% to 100%".into())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|f| (0.0..=1e9).contains(f));
    factor.ok_or_else(|| "allowed: a number from 0 to 1000000000".into())
}

/// Break a drive in service: have operations fail, slow or kill a die, raise bit errors, wear it out, have hosts meet errors, torn writes,
/// lost flushes, corruption and delays; without a fault, print the current probabilities
#[derive(Debug, clap::Args)]
#[command(after_help = FAULT_EXAMPLES)]
pub struct Fault {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    damage: Damage,
    /// Factor on the times (--slow-die), or on the bit error rate (--bit-errors)
    #[arg(long, value_name = "F", value_parser = factor)]
    factor: Option<f64>,
    /// Probability that a program fails
    #[arg(long, value_name = "P", value_parser = chance)]
    program_fail: Option<f64>,
    /// Probability that an erase fails
    #[arg(long, value_name = "P", value_parser = chance)]
    erase_fail: Option<f64>,
    /// Probability that a read attempt fails
    #[arg(long, value_name = "P", value_parser = chance)]
    read_fail: Option<f64>,
}

/// At most one of them at a time.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Damage {
    /// Array operations of this die take F times as long (F here, or by --factor); dies count channel by channel, way by way
    #[arg(long, value_name = "DIExF")]
    slow_die: Option<SlowDie>,
    /// Kill this die: its programs and erases fail, and its data are lost
    #[arg(long, value_name = "DIE", value_parser = whole::<u32>(..))]
    kill_die: Option<u32>,
    /// The raw bit error rate is --factor times the model's, on this die or, without a number, on all
    #[arg(long, value_name = "DIE", num_args = 0..=1, requires = "factor", value_parser = whole::<u32>(..))]
    bit_errors: Option<Option<u32>>,
    /// The next N programs fail
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    fail_programs: Option<u32>,
    /// The next N erases fail
    #[arg(long, value_name = "N", value_parser = whole::<u32>(..))]
    fail_erases: Option<u32>,
    /// Use up all spare blocks: the drive is read-only from now on
    #[arg(long)]
    wear_out: bool,
    /// Make hosts see this fault from now on: KIND[:KEY=VALUE,...]. Kinds: io-error, torn-write, lost-flush, corrupt, delay=TIME; keys:
    /// on=read+write+flush+trim, range=FROM-TO, rate=P, count=N, seed=N
    #[arg(long, value_name = "FAULT")]
    inject: Option<HostFault>,
    /// Remove all faults of --inject
    #[arg(long)]
    clear: bool,
}

/// `DIE` or `DIExF`, as in the faults that serve plans.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SlowDie {
    die: u32,
    factor: Option<f64>,
}

impl FromStr for SlowDie {
    type Err = String;

    fn from_str(text: &str) -> Result<SlowDie, String> {
        let (die, times) = text.split_once('x').map_or((text, None), |(die, times)| (die, Some(times)));
        let allowed = || "allowed: DIExF, as in 5x20, or DIE with --factor F".to_string();
        let die = die.parse().map_err(|_| allowed())?;
        let factor = times.map(|times| factor(times).map_err(|_| allowed())).transpose()?;
        Ok(SlowDie { die, factor })
    }
}

impl Damage {
    /// Returns the action that the options ask for; `None`: they ask for nothing.
    fn action(&self, factor: Option<f64>) -> Option<Action> {
        // The options that need a factor require it.
        let factor = factor.or(self.slow_die.and_then(|slow| slow.factor)).unwrap_or(1.0);
        Some(Action::Damage(match *self {
            Damage { inject: Some(fault), .. } => return Some(Action::Inject(fault)),
            Damage { clear: true, .. } => return Some(Action::Clear),
            Damage { slow_die: Some(SlowDie { die, .. }), .. } => {
                media::Fault::SlowDie { die: DieId(die), factor }
            }
            Damage { kill_die: Some(die), .. } => media::Fault::KillDie { die: DieId(die) },
            Damage { bit_errors: Some(die), .. } => media::Fault::BitErrors { die: die.map(DieId), factor },
            Damage { fail_programs: Some(count), .. } => media::Fault::FailPrograms { count },
            Damage { fail_erases: Some(count), .. } => media::Fault::FailErases { count },
            Damage { wear_out: true, .. } => media::Fault::WearOut,
            _ => return None,
        }))
    }
}

/// Print the counters of a server and its drives, as JSON
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pellucid status --control /tmp/pellucid.control")]
pub struct Status {
    /// The control socket of pellucid serve
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Print the monitor's figures instead, as in /snapshot.json; the drives are watched from then on
    #[arg(long)]
    figures: bool,
}

impl PowerCut {
    pub fn run(self) -> Result<(), Failure> {
        self.target.ask(Action::PowerCut)
    }
}

impl Fault {
    pub fn run(self) -> Result<(), Failure> {
        let Fault { program_fail: program, erase_fail: erase, read_fail: read, .. } = self;
        let chances = Chances { program, erase, read };
        if self.factor.is_some() && self.damage.slow_die.is_none() && self.damage.bit_errors.is_none() {
            return Err(Failure::asked(anyhow!("--factor: goes with --slow-die or --bit-errors")));
        }
        if let Some(slow) = &self.damage.slow_die
            && slow.factor.is_some() == self.factor.is_some()
        {
            let die = slow.die;
            let message =
                format!("one factor, which says how many times as slow; allowed: --slow-die {die}x20");
            return Err(Failure::asked(anyhow!("--slow-die: {message}")));
        }
        match self.damage.action(self.factor) {
            Some(action) if chances == Chances::default() => self.target.ask(action),
            Some(_) => Err(Failure::asked(anyhow!("chances and damage: one at a time"))),
            None => self.target.ask(Action::Chances(chances)),
        }
    }
}

impl Status {
    pub fn run(self) -> Result<(), Failure> {
        let request = if self.figures { Request::Watch } else { Request::Status };
        print(&Control::connect(&self.control)?.ask(&request)?)
    }
}

impl Target {
    fn ask(self, action: Action) -> Result<(), Failure> {
        let request = Request::Break { drive: self.drive, action };
        print(&Control::connect(&self.control)?.ask(&request)?)
    }
}

/// Prints the answer of a server, which is JSON with `--json` and without.
pub fn print(answer: &Value) -> Result<(), Failure> {
    Ok(output::print(&format!("{answer:#}\n"))?)
}

/// A connection to the control socket.
pub struct Control {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the server at `path`.
    pub fn connect(path: &Path) -> Result<Control, Failure> {
        Control::connect_until(path, Some(ANSWER_MAX))
    }

    /// Connects as [`Control::connect`] does, without a limit on the time of an answer.
    pub fn connect_for_long(path: &Path) -> Result<Control, Failure> {
        Control::connect_until(path, None)
    }

    fn connect_until(path: &Path, longest: Option<Duration>) -> Result<Control, Failure> {
        let stream = UnixStream::connect(path).and_then(|stream| {
            // A server answers at once; one that does not is stuck.
            stream.set_read_timeout(longest)?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| {
            let path = path.display();
            Failure::work(anyhow!(
                "{path}: no server answers here (a server is started with --control {path}): {}",
                reason(&error)
            ))
        })?;
        Ok(Control { path: path.into(), stream: BufReader::new(stream) })
    }

    /// Sends one request and reads its answer.
    pub fn ask(&mut self, request: &Request) -> Result<Value, Failure> {
        let answer = self.ask_while_it_runs(request)?;
        answer.ok_or_else(|| Failure::work(anyhow!("{}", self.stopped())))
    }

    /// Says that the server has stopped.
    pub fn stopped(&self) -> String {
        format!("{}: the server has stopped", self.path.display())
    }

    /// Sends one request and reads its answer, as [`Control::ask`] does; `None`: the server has stopped.
    pub fn ask_while_it_runs(&mut self, request: &Request) -> Result<Option<Value>, Failure> {
        let path = self.path.display();
        // In one piece: a line that comes in parts is answered late.
        let request = format!("{}\n", request.to_line());
        let mut line = String::new();
        let written = self.stream.get_mut().write_all(request.as_bytes());
        match written.and_then(|()| self.stream.read_line(&mut line)) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                return Ok(None);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = ANSWER_MAX.as_secs();
                return Err(Failure::work(anyhow!("{path}: the server has not answered for {seconds} s")));
            }
            Err(error) => return Err(Failure::work(anyhow!("{path}: {}", reason(&error)))),
        }
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| Failure::work(anyhow!("{path}: answer: {error}")))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::of_sentence(error.to_owned())),
            None => Ok(Some(answer)),
        }
    }
}
