//! `app = "kv"`: clients of a key-value cache, as keys of a job.
//!
//! The clients' work is defined here, the cache in `[kv]`.

use super::super::units::{Grammar, parse_bytes, parse_time};
use super::super::values::{Parsed, allowed, count, percent};
use super::super::{Job, JobError};
use super::refuse;
use crate::kv::laws::{Popularity, ValueSize};
use crate::kv::{DatabaseConfig, OnMiss};
use pellucid_flash::Nanos;
use std::path::PathBuf;

/// Settings of the clients of a key-value cache, and of their requests; the cache's own are in `[kv]`.
#[derive(Clone, Debug, PartialEq)]
pub struct KvApp {
    /// `requests`: a trace of key-value requests, instead of the laws below.
    pub trace: Option<PathBuf>,
    /// `clients`: number of clients, each with one request at a time.
    pub clients: u32,
    /// `think`: pause of a client between an answer and its next request.
    pub think: Nanos,
    /// `nkeys`; `None`: as many as fill half of the flash.
    pub keys: Option<u64>,
    /// `load`: number of keys set once, in order, before anything else; `None`: all.
    pub load: Option<u64>,
    /// `set_share`: share of sets among the requests.
    pub set_share: f64,
    /// `popularity`.
    pub popularity: Popularity,
    /// `value_size`.
    pub value_size: ValueSize,
    /// `on_miss`, with the keys of its database.
    pub on_miss: OnMiss,
}

/// Name of the key-value cache.
pub(super) const KV: &str = "kv";
/// Cut-off of values of the ETC pool: one in twenty is longer, and would need separate slabs.
const ETC_VALUE_MAX: u32 = 4096;
/// Default skew of requests, as in YCSB.
const ZIPF: f64 = 0.99;
/// Default share of sets: YCSB's workload B has 5 %, A has 50 %.
const SET_SHARE: f64 = 0.05;
/// Maximum number of simultaneous queries of a database.
const DATABASE_QUERIES_MAX: u64 = 65_536;

/// Keys of clients of a key-value cache.
pub(super) const OF_KV: &[&str] = &[
    "warm_up",
    "operations",
    "requests",
    "clients",
    "think",
    "nkeys",
    "load",
    "set_share",
    "popularity",
    "value_size",
    "on_miss",
    "database_queries",
    "database_fixed",
    "database_variable",
    "target",
];

/// Keys of laws, which a trace replaces.
const OF_LAWS: [&str; 5] = ["nkeys", "load", "set_share", "popularity", "value_size"];
/// Keys of the database behind the cache.
const OF_DATABASE: [&str; 3] = ["database_queries", "database_fixed", "database_variable"];

/// Names of `on_miss`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MissName {
    Nothing,
    #[default]
    Store,
    Query,
}

/// Keys of clients of a key-value cache.
#[derive(Clone, Debug, Default)]
pub(super) struct KvKeys {
    trace: Option<PathBuf>,
    clients: Option<u32>,
    think: Nanos,
    keys: Option<u64>,
    load: Option<u64>,
    set_percent: Option<u8>,
    popularity: Option<Popularity>,
    value_size: Option<ValueSize>,
    on_miss: MissName,
    database: DatabaseConfig,
}

impl KvKeys {
    pub fn take(&mut self, key: &str, value: &str, base: Grammar) -> Parsed<bool> {
        let time = |value: &str| parse_time(value, Nanos::from_us(1), base);
        match key {
            "clients" => self.clients = Some(count(value, base, 1, 65_536)? as u32),
            "think" => self.think = time(value)?,
            "nkeys" => self.keys = Some(count(value, base, 10, 1 << 40)?),
            "load" => self.load = Some(count(value, base, 0, 1 << 40)?),
            "set_share" => self.set_percent = Some(percent(value)?),
            "popularity" => self.popularity = Some(popularity(value)?),
            "value_size" => self.value_size = Some(value_size(value, base)?),
            "requests" => {
                self.trace = match value.strip_prefix("file:") {
                    Some(path) if !path.is_empty() => Some(path.into()),
                    _ if value == "laws" => None,
                    _ => return allowed("laws, file:PATH"),
                }
            }
            "on_miss" => {
                self.on_miss = match value {
                    "store" => MissName::Store,
                    "nothing" => MissName::Nothing,
                    "query" => MissName::Query,
                    _ => return allowed("store, nothing, query"),
                }
            }
            "database_queries" => {
                self.database.servers = count(value, base, 1, DATABASE_QUERIES_MAX)? as u32;
            }
            "database_fixed" => self.database.fixed = time(value)?,
            "database_variable" => self.database.variable = time(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds the clients of a job.
    pub fn build(&self, job: &Job) -> Result<KvApp, JobError> {
        self.check(job)?;
        Ok(KvApp {
            trace: self.trace.clone(),
            clients: self.clients.unwrap_or(16),
            think: self.think,
            keys: self.keys,
            load: self.load,
            set_share: self.set_percent.map_or(SET_SHARE, |percent| f64::from(percent) / 100.0),
            popularity: self.popularity.unwrap_or(Popularity::Zipf(ZIPF)),
            value_size: self.value_size.unwrap_or(ValueSize::Etc { max: ETC_VALUE_MAX }),
            on_miss: match self.on_miss {
                MissName::Nothing => OnMiss::Nothing,
                MissName::Store => OnMiss::Store,
                MissName::Query => OnMiss::Query(self.database),
            },
        })
    }

    /// Refuses contradictory keys.
    fn check(&self, job: &Job) -> Result<(), JobError> {
        let given = |key: &&str| job.written.has(key);
        let refuse = |key: &'static str, allowed: &str| refuse(key, job.written.value_of(key), allowed);
        if self.trace.is_some()
            && let Some(key) = OF_LAWS.into_iter().find(given)
        {
            return refuse(key, "not with requests = file:PATH, which has them");
        }
        if self.on_miss != MissName::Query
            && let Some(key) = OF_DATABASE.into_iter().find(given)
        {
            return refuse(key, "only with on_miss = query");
        }
        match (self.load, self.keys) {
            (Some(_), None) => refuse("load", "only together with nkeys"),
            (Some(load), Some(keys)) if load > keys => {
                refuse("load", &format!("up to {keys}, the keys that there are (nkeys)"))
            }
            _ => Ok(()),
        }
    }
}

/// Parses `etc`, `etc-tail`, or bytes.
fn value_size(value: &str, base: Grammar) -> Parsed<ValueSize> {
    match value {
        "etc" => Ok(ValueSize::Etc { max: ETC_VALUE_MAX }),
        "etc-tail" => Ok(ValueSize::EtcTail { max: ETC_VALUE_MAX }),
        _ => match parse_bytes(value, base) {
            Ok(bytes @ 1..=0x10_0000) => Ok(ValueSize::Fixed(bytes as u32)),
            _ => allowed("etc, etc-tail, or 1 byte to 1m"),
        },
    }
}

/// Parses `uniform`, `zipf:THETA`, `normal:PERCENT` or `pareto:SCALE:SHAPE`.
fn popularity(value: &str) -> Parsed<Popularity> {
    let number = |text: &str, most: f64| text.parse::<f64>().ok().filter(|n| *n > 0.0 && *n <= most);
    let parts: Vec<&str> = value.split(':').collect();
    let law = match parts[..] {
        ["uniform"] => Some(Popularity::Uniform),
        ["zipf", theta] => number(theta, 4.0).filter(|theta| *theta != 1.0).map(Popularity::Zipf),
        ["normal", share] => {
            number(share.trim_end_matches('%'), 100.0).map(|n| Popularity::Normal(n / 100.0))
        }
        ["pareto", scale, shape] => number(scale, 1.0)
            .zip(number(shape, 4.0))
            .map(|(scale, shape)| Popularity::Pareto { scale, shape }),
        _ => None,
    };
    law.map_or_else(
        || {
            allowed(
                "uniform, zipf:THETA (above 0, to 4, not 1), normal:DEVIATION% of the keys, pareto:SCALE:SHAPE \
                 (scale a share of the keys, to 1; shape above 0, to 4)",
            )
        },
        Ok,
    )
}
