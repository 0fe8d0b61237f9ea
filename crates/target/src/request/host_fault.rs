//! Faults that a host sees, in their text form: kind of failure, affected commands, range and rate.
//!
//! ```text
//!  KIND[:KEY=VALUE,...]
//!
//!  io-error:on=read,range=1GiB-2GiB          every read that touches the range fails
//!  io-error:rate=1%,seed=7                   one command of a hundred fails, by the seed; also rate=0.01
//!  io-error:on=write,count=1                 the next write fails
//!  torn-write:range=0-1MiB                   only the first sectors of a write are stored; it is answered as if all were
//!  lost-flush                                flushes, and the forced part of forced writes, are answered and not done
//!  corrupt:rate=0.001,seed=3                 one sector of a thousand is read with a wrong bit, the same bit each time
//!  corrupt:on=write,range=4KiB-8KiB          sectors are stored with a wrong bit
//!  delay=50ms:rate=0.01                      one command of a hundred ends so much later
//! ```
//! `serve --fault TEXT@WHEN`, `fault --inject TEXT` and the control socket all take this text.
//!
//! Invariant: a text that is parsed and formatted again keeps its meaning.

use super::error::{CHANCES, PlanError};
use pellucid_flash::{Nanos, Opcode};
use pellucid_text::{read_byte_range, read_share};
use std::fmt;
use std::str::FromStr;

const KINDS: &str = "io-error, torn-write, lost-flush, corrupt, delay=TIME (50ms, 2s, 100us)";
const OPTIONS: &str = "on=read+write+flush+trim, range=FROM-TO, rate=P, count=N, seed=N";

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFaultKind {
    /// The command is not executed and ends with an error.
    IoError,
    /// Only the first sectors of a write are stored.
    TornWrite,
    /// A flush is not executed; a forced write is not forced.
    LostFlush,
    /// One bit of a sector is wrong.
    Corrupt,
    /// The command ends later.
    Delay(Nanos),
}

/// A set of command kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandSet(u8);

impl CommandSet {
    const NAMES: [&str; 4] = ["read", "write", "flush", "trim"];
    /// All commands.
    pub const ALL: CommandSet = CommandSet(0b1111);
    const READ: CommandSet = CommandSet(0b0001);
    const WRITE: CommandSet = CommandSet(0b0010);
    const FLUSH: CommandSet = CommandSet(0b0100);
    const WRITE_OR_FLUSH: CommandSet = CommandSet(0b0110);

    /// Returns true if the set contains a command. Write Zeroes counts as a write.
    pub fn has(self, opcode: Opcode) -> bool {
        let bit = match opcode {
            Opcode::Read => 0,
            Opcode::Write | Opcode::WriteZeroes => 1,
            Opcode::Flush => 2,
            Opcode::Trim => 3,
            _ => return false,
        };
        self.0 >> bit & 1 == 1
    }

    /// The others of the set than flushes.
    pub fn without_flush(self) -> CommandSet {
        CommandSet(self.0 & !CommandSet::FLUSH.0)
    }

    fn parse(text: &str) -> Option<CommandSet> {
        let bit = |name: &str| CommandSet::NAMES.iter().position(|&known| known == name);
        let bits = text.split('+').map(|name| bit(name).map(|bit| 1 << bit));
        bits.sum::<Option<u8>>()
            .filter(|_| {
                let mut names: Vec<&str> = text.split('+').collect();
                names.sort_unstable();
                names.windows(2).all(|pair| pair[0] != pair[1])
            })
            .map(CommandSet)
    }
}

impl fmt::Display for CommandSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = CommandSet::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        f.write_str(&names.map(|(_, name)| *name).collect::<Vec<&str>>().join("+"))
    }
}

/// A fault that a host sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostFault {
    /// Kind of failure.
    pub kind: HostFaultKind,
    /// Affected commands.
    pub on: CommandSet,
    /// Affected byte range of the namespace, end exclusive. Flushes have no range: a fault with one hits none.
    pub range_bytes: (u64, u64),
    /// Probability that a command is hit; for `corrupt`, the fraction of corrupt sectors.
    pub rate: f64,
    /// Maximum number of commands hit; `None`: unlimited.
    pub count: Option<u64>,
    /// Seed of the random choice.
    pub seed: u64,
}

impl HostFaultKind {
    fn parse(text: &str) -> Option<HostFaultKind> {
        Some(match text.split_once('=') {
            None if text == "io-error" => HostFaultKind::IoError,
            None if text == "torn-write" => HostFaultKind::TornWrite,
            None if text == "lost-flush" => HostFaultKind::LostFlush,
            None if text == "corrupt" => HostFaultKind::Corrupt,
            Some(("delay", time)) => HostFaultKind::Delay(nanos(time)?),
            _ => return None,
        })
    }

    /// Commands that the kind can hit. They are the default without `on`, except for `corrupt`, which
    /// defaults to reads.
    fn possible(self) -> CommandSet {
        match self {
            HostFaultKind::IoError | HostFaultKind::Delay(_) => CommandSet::ALL,
            HostFaultKind::TornWrite => CommandSet::WRITE,
            HostFaultKind::LostFlush => CommandSet::WRITE_OR_FLUSH,
            HostFaultKind::Corrupt => CommandSet(CommandSet::READ.0 | CommandSet::WRITE.0),
        }
    }

    fn usual(self) -> CommandSet {
        if self == HostFaultKind::Corrupt { CommandSet::READ } else { self.possible() }
    }
}

impl HostFault {
    /// A fault of this kind that always hits every command it can.
    pub fn of(kind: HostFaultKind) -> HostFault {
        HostFault { kind, on: kind.usual(), range_bytes: (0, u64::MAX), rate: 1.0, count: None, seed: 0 }
    }

    /// Returns true if a text begins with the kind of a host fault.
    pub(super) fn is_meant(text: &str) -> bool {
        let kind = text.split([':', '=']).next().unwrap_or_default();
        ["io-error", "torn-write", "lost-flush", "corrupt", "delay"].contains(&kind)
    }

    /// Returns true if `key` is one of the keys that follow the kind.
    pub(super) fn has_key(key: &str) -> bool {
        ["on", "range", "rate", "count", "seed"].contains(&key)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), PlanError> {
        let refuse = |allowed: String| PlanError::new(&format!("fault's {key}"), value, allowed);
        let whole = |min: u64| {
            let number = value.parse().ok().filter(|&number: &u64| number >= min);
            number.ok_or_else(|| refuse(format!("a whole number from {min}")))
        };
        match key {
            "on" => {
                let possible = self.kind.possible();
                let on = CommandSet::parse(value).filter(|on| on.0 & !possible.0 == 0);
                self.on = on.ok_or_else(|| refuse(format!("some of {possible}")))?;
            }
            "range" => {
                let range = read_byte_range(value).filter(|(from, to)| from < to);
                self.range_bytes =
                    range.ok_or_else(|| refuse("FROM-TO, bytes such as 4096 or 1GiB, or FROM-".into()))?;
            }
            "rate" => {
                let rate = read_share(value).filter(|&rate| rate <= 1.0);
                self.rate = rate.ok_or_else(|| refuse(CHANCES.into()))?;
                if self.rate == 0.0 {
                    return Err(refuse(
                        "above 0, as the fault would hit nothing; --clear ends faults".into(),
                    ));
                }
            }
            "count" => self.count = Some(whole(1)?),
            "seed" => self.seed = whole(0)?,
            _ => return Err(PlanError::new("fault's option", key, OPTIONS)),
        }
        Ok(())
    }
}

impl HostFault {
    /// A fault with a range hits no flush, which has no address; a fault meant for flushes has no
    /// range.
    fn spare_flushes(&mut self, text: &str, options: &str) -> Result<(), PlanError> {
        let is_asked = options.split(',').any(|option| option.starts_with("on="));
        let meant = is_asked || self.kind == HostFaultKind::LostFlush;
        if meant && self.on.0 & CommandSet::FLUSH.0 != 0 {
            return Err(PlanError::new("fault's range", text, "none with on=flush: a flush has no range"));
        }
        self.on = self.on.without_flush();
        Ok(())
    }
}

impl FromStr for HostFault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<HostFault, PlanError> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        let known = HostFaultKind::parse(kind);
        let kind = known.ok_or_else(|| PlanError::new("fault's kind", kind, KINDS))?;
        let mut fault = HostFault::of(kind);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            fault.set(key, value)?;
        }
        if fault.range_bytes != (0, u64::MAX) {
            fault.spare_flushes(text, options)?;
        }
        Ok(fault)
    }
}

impl fmt::Display for HostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            HostFaultKind::IoError => f.write_str("io-error")?,
            HostFaultKind::TornWrite => f.write_str("torn-write")?,
            HostFaultKind::LostFlush => f.write_str("lost-flush")?,
            HostFaultKind::Corrupt => f.write_str("corrupt")?,
            HostFaultKind::Delay(time) => write!(f, "delay={}ns", time.0)?,
        }
        let mut options = Vec::new();
        if self.on != self.kind.usual() {
            options.push(format!("on={}", self.on));
        }
        match self.range_bytes {
            (0, u64::MAX) => {}
            (from, u64::MAX) => options.push(format!("range={from}-")),
            (from, to) => options.push(format!("range={from}-{to}")),
        }
        if self.rate != 1.0 {
            options.push(format!("rate={}", self.rate));
        }
        options.extend(self.count.map(|count| format!("count={count}")));
        if self.seed != 0 {
            options.push(format!("seed={}", self.seed));
        }
        let separator = if options.is_empty() { "" } else { ":" };
        write!(f, "{separator}{}", options.join(","))
    }
}

fn nanos(text: &str) -> Option<Nanos> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, scale) = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    number.parse::<u64>().ok()?.checked_mul(scale).filter(|&ns| ns > 0).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_written_again_means_the_same() {
        for text in [
            "io-error",
            "io-error:on=read+trim,range=4096-8192,rate=0.25,count=3,seed=7",
            "torn-write:range=512-",
            "lost-flush:on=flush",
            "corrupt:on=read+write",
            "delay=50000ns:seed=1",
        ] {
            let fault: HostFault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), text);
        }
        let fault: HostFault = "delay=2ms:range=1KiB-1GiB,on=write".parse().expect("good");
        assert_eq!(fault.kind, HostFaultKind::Delay(Nanos::from_ms(2)));
        assert_eq!(fault.range_bytes, (1 << 10, 1 << 30));
        assert!(fault.on.has(Opcode::Write) && !fault.on.has(Opcode::Read));
        // A flush has no range, so a fault of one spares it.
        let fault: HostFault = "io-error:range=0-4096".parse().expect("good");
        assert!(fault.on.has(Opcode::Write) && !fault.on.has(Opcode::Flush));
        assert_eq!(fault.to_string().parse(), Ok(fault));
    }

    #[test]
    fn a_rate_is_a_share_as_everywhere() {
        let parse = |text: &str| text.parse::<HostFault>().expect("a fault");
        assert_eq!(parse("io-error:rate=1%"), parse("io-error:rate=0.01"));
        assert_eq!(parse("corrupt:rate=0.5 %").rate, 0.005);
        assert_eq!(parse("corrupt:rate=100%").rate, 1.0);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        for (text, named) in [
            ("eio", "fault's kind: \"eio\"; allowed: io-error, torn-write"),
            ("delay", "fault's kind: \"delay\""),
            ("delay=0s", "fault's kind: \"delay=0s\""),
            ("io-error:on=erase", "fault's on: \"erase\"; allowed: some of read+write+flush+trim"),
            ("io-error:on=read+read", "fault's on: \"read+read\""),
            ("torn-write:on=read", "fault's on: \"read\"; allowed: some of write"),
            ("io-error:range=8-4", "fault's range: \"8-4\"; allowed: FROM-TO"),
            ("io-error:rate=2", "fault's rate: \"2\"; allowed: a probability from 0 to 1, or 0% to 100%"),
            (
                "io-error:rate=101%",
                "fault's rate: \"101%\"; allowed: a probability from 0 to 1, or 0% to 100%",
            ),
            ("io-error:rate=0", "fault's rate: \"0\"; allowed: above 0, as the fault would hit nothing"),
            ("io-error:rate=0%", "fault's rate: \"0%\"; allowed: above 0, as the fault would hit nothing"),
            (
                "io-error:on=flush,range=0-4096",
                "fault's range: \"io-error:on=flush,range=0-4096\"; allowed: none with on=flush",
            ),
            (
                "io-error:on=write+flush,range=0-4096",
                "fault's range: \"io-error:on=write+flush,range=0-4096\"; allowed: none with on=flush",
            ),
            (
                "lost-flush:range=0-4096",
                "fault's range: \"lost-flush:range=0-4096\"; allowed: none with on=flush",
            ),
            ("io-error:count=0", "fault's count: \"0\"; allowed: a whole number from 1"),
            ("io-error:seed", "fault's seed: \"\"; allowed: a whole number from 0"),
            ("io-error:color=red", "fault's option: \"color\"; allowed: on="),
        ] {
            let error = text.parse::<HostFault>().expect_err(text).to_string();
            assert!(error.starts_with(named), "{text}: {error}");
        }
    }
}
