//! User policies in a description: a program that uses the library puts them in place of a word.

use crate::document::Value;
use crate::{Entry, Origin, Place, Spec, SpecError};
use pellucid_device::Namespace;
use pellucid_ftl::{PlacementPolicy, VictimPolicy};
use pellucid_host::LayerConfig;
use std::sync::Arc;

/// Prefix of the names of policies written in Python. A description cannot use such a name.
pub const PYTHON: &str = "python:";

/// Allowed values, for the message about `value`.
pub(crate) fn allowed_for(value: &str, allowed: String) -> String {
    match value.starts_with(&format!("\"{PYTHON}")) {
        true => format!("{allowed}; a policy written in Python works only in the program that has it"),
        false => allowed,
    }
}

/// A user policy.
#[derive(Clone, Debug)]
pub enum Outside {
    /// `drive.ftl.victim`.
    Victim(Arc<dyn VictimPolicy>),
    /// `host.ftl.victim`.
    HostVictim(Arc<dyn VictimPolicy>),
    /// `drive.ftl.placement`.
    Placement(Arc<dyn PlacementPolicy>),
    /// `eviction` of every cache namespace.
    Eviction(Arc<dyn VictimPolicy>),
}

impl Outside {
    fn name(&self) -> &str {
        match self {
            Outside::Victim(policy) | Outside::HostVictim(policy) | Outside::Eviction(policy) => {
                policy.name()
            }
            Outside::Placement(policy) => policy.name(),
        }
    }

    /// The key that the policy replaces.
    fn key(&self) -> &'static str {
        match self {
            Outside::Victim(_) => "drive.ftl.victim",
            Outside::HostVictim(_) => "host.ftl.victim",
            Outside::Placement(_) => "drive.ftl.placement",
            Outside::Eviction(_) => "drive.namespace",
        }
    }
}

impl Spec {
    /// Replaces the value of a key by a user policy. The description then shows the policy's name, as if the key had been overridden.
    ///
    /// # Errors
    /// The drive makes no such choice.
    pub fn adopt(&mut self, outside: Outside) -> Result<(), SpecError> {
        let is_cache = |namespace: &Namespace| matches!(namespace, Namespace::Cache { .. });
        let (key, name) = (outside.key(), outside.name().to_string());
        let entry = self.provenance.entries.iter_mut().find(|entry| entry.key == key);
        let entry = entry.expect("a key of the schema");
        let evicts_by_policy =
            self.drive.namespaces.iter().any(is_cache) && self.drive.ftl.map.log_blocks().is_none();
        if matches!(outside, Outside::Eviction(_)) && !evicts_by_policy {
            return Err(SpecError::NotAllowed {
                place: Place::Set { key: "cache.eviction".into() },
                key: "cache.eviction".into(),
                value: name,
                allowed: "with a drive that has a cache namespace and a page map".into(),
            });
        }
        entry.adopt(&outside, &name);
        let policies = &mut self.drive.ftl.policies;
        match outside {
            Outside::Victim(policy) => policies.victim = Some(policy),
            Outside::Placement(policy) => policies.placement = Some(policy),
            Outside::Eviction(policy) => policies.eviction = Some(policy),
            Outside::HostVictim(policy) => {
                self.host_ftl.policies.victim = Some(policy.clone());
                for layer in &mut self.host {
                    if let LayerConfig::HostFtl(ftl) = layer {
                        ftl.policies.victim = Some(policy.clone());
                    }
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    fn adopt(&mut self, outside: &Outside, name: &str) {
        let name = Value::Text(name.into()).to_text();
        let key = match outside {
            Outside::Eviction(_) => "cache.eviction",
            _ => self.key,
        };
        self.value = match outside {
            Outside::Eviction(_) => with_eviction(&self.value, &name),
            _ => name,
        };
        self.origin = Origin { place: Place::Set { key: key.into() }, comment: None };
    }
}

/// The list of namespaces `value`, with this eviction in every cache.
fn with_eviction(value: &str, name: &str) -> String {
    const INTERFACE: &str = "interface = \"cache\"";
    const KEY: &str = "eviction = \"";
    let tables = value.split_inclusive('}').map(|table| match (table.contains(INTERFACE), table.find(KEY)) {
        (false, _) => table.to_string(),
        (true, None) => table.replacen(INTERFACE, &format!("{INTERFACE}, eviction = {name}"), 1),
        (true, Some(at)) => {
            let rest = &table[at + KEY.len()..];
            let behind = rest.split_once('"').map_or("", |(_, behind)| behind);
            format!("{}eviction = {name}{behind}", &table[..at])
        }
    });
    tables.collect()
}
