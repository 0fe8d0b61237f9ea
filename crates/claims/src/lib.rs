//! Published claims, reproduced: numbers that papers measured on hardware, beside those of the model.
//!
//! ```text
//! claims() --select--> [Claim] --run(Bench)--> Outcome { checks, figures } --> text, JSON, page
//! ```
//! A [`Claim`] is a small function: it runs drives from presets on a [`Bench`] and returns [`Check`]s, each a number with its limit, and the paper's
//! figures redrawn. Nothing here tunes a drive: a miss is reported with its distance. Published numbers are in the claim's file, with their place in
//! the paper.
//!
//! [`KNOWN_MISSES`] lists the known misses. For each claim, `mutations.rs` has wrong models that make it miss: a check that no model could miss would
//! be worthless.
//!
//! Invariants: the outcome of a claim depends on presets, overrides and seed alone, not on the number of threads; identifiers
//! are unique; every claim has a section in the page of its paper, `docs/explanation/papers`.

mod basis;
mod bench;
mod cache;
mod check;
mod chunks;
mod clock;
mod collection;
mod data_sheets;
mod described;
mod fifo;
mod file_system;
mod flashfire;
mod graph;
mod integrity;
mod jasmine;
mod known;
mod latency;
mod maps;
#[cfg(test)]
mod mutations;
mod nameless;
mod one_shot;
mod pblk;
mod placement;
mod plain_log;
mod policies;
mod predictable;
mod prism;
mod show;
mod solid_state_cache;
mod split;
mod table;
mod throughput;
mod wear;
mod zones;

pub use basis::Basis;
pub use bench::{Bench, ReproduceError};
use check::vary;
pub use check::{Check, Limit, Range, Verdict};
pub use known::{KNOWN_MISSES, KnownMiss, Standing, standing};
pub use show::{
    render_details, render_json, render_known, render_list, render_page, render_ranges, render_reversed,
    render_row, render_rows_head, render_table, render_total,
};

use table::CLAIMS;

/// Source of a group of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Kwak et al., "Cosmos+ OpenSSD: Rapid Prototype for Flash Storage Systems", ACM Transactions on Storage 16(3), 2020.
    CosmosPlus,
    /// Bjørling, "Open-Channel SSDs: Linux' Open-Channel Solid-State Drive Subsystem", extended abstract on LightNVM.
    LightNvm,
    /// Analytic results.
    Theory,
    /// Allison et al., "Towards Efficient Flash Caches with Emerging NVMe Flexible Data Placement SSDs", EuroSys 2025.
    CacheLib,
    /// Bjørling et al., "ZNS: Avoiding the Block Interface Tax for Flash-based SSDs", USENIX ATC 2021.
    Zns,
    /// Data sheets and announcements of drives.
    DataSheets,
    /// Shen, Chen, Yadgar, Shao, "One Size Never Fits All: A Flexible Storage Interface for SSDs", ICDCS 2019: Prism-SSD.
    Prism,
    /// Saxena, Zhang, Swift, Arpaci-Dusseau, Arpaci-Dusseau, "Getting Real: Lessons in Transitioning Research Simulations into Hardware
    /// Systems", FAST 2013.
    Jasmine,
    /// Kim, Kim, Lee, Maeng, Ramachandran, "FlashFire: Overcoming the Performance Bottleneck of Flash Storage Technology".
    FlashFire,
}

impl Paper {
    /// Name that selects its claims.
    pub fn name(self) -> &'static str {
        match self {
            Paper::CosmosPlus => "cosmos-plus",
            Paper::Theory => "theory",
            Paper::LightNvm => "lightnvm",
            Paper::CacheLib => "cachelib",
            Paper::Zns => "zns",
            Paper::DataSheets => "data-sheets",
            Paper::Prism => "prism",
            Paper::Jasmine => "jasmine",
            Paper::FlashFire => "flashfire",
        }
    }

    /// Short name, in front of a section, table or figure.
    pub fn short(self) -> &'static str {
        match self {
            Paper::CosmosPlus => "Cosmos+",
            Paper::Theory => "theory,",
            Paper::LightNvm => "LightNVM",
            Paper::CacheLib => "CacheLib,",
            Paper::Zns => "ZNS,",
            Paper::DataSheets => "Micron, Intel:",
            Paper::Prism => "Prism-SSD",
            Paper::Jasmine => "Jasmine",
            Paper::FlashFire => "FlashFire",
        }
    }
}

/// One published claim.
pub struct Claim {
    /// Its identifier, such as `C6`.
    pub id: &'static str,
    /// Where it was published.
    pub paper: Paper,
    /// Section, figure or table.
    pub place: &'static str,
    /// Statement of the claim.
    pub text: &'static str,
    /// Condition under which it holds here.
    pub holds_when: &'static str,
    /// Evidential value if it holds.
    pub basis: Basis,
    /// Constants and assumptions set with its numbers in sight, or the numbers that were seen.
    pub set_or_seen: &'static str,
    run: fn(&Bench) -> Result<Outcome, ReproduceError>,
}

impl Claim {
    /// Paper and place.
    pub fn origin(&self) -> String {
        format!("{} {}", self.paper.short(), self.place)
    }

    /// Reports whether overrides and seeds affect it: the conformance suite builds its own drives, and lines of code are a count.
    pub fn has_settings(&self) -> bool {
        !matches!(self.id, "L2" | "P6")
    }

    /// Runs the claim.
    pub fn run(&self, bench: &Bench) -> Result<Outcome, ReproduceError> {
        (self.run)(bench)
    }
}

/// Result of running a claim.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every number that the claim depends on; never empty.
    pub checks: Vec<Check>,
    /// The paper's figures, drawn again.
    pub figures: Vec<Figure>,
}

impl Outcome {
    /// The worst verdict of its checks; a claim without checks misses.
    pub fn verdict(&self) -> Verdict {
        self.checks.iter().map(Check::verdict).max().unwrap_or(Verdict::Misses)
    }

    /// Reports whether a check reverses the paper's order at the chosen settings.
    pub fn is_reversed(&self) -> bool {
        self.checks.iter().any(Check::is_reversed)
    }

    /// The check that represents the claim: of those that decide its verdict, the one nearest to its limit or farthest beyond it.
    pub fn headline(&self) -> Option<&Check> {
        let verdict = self.verdict();
        let deciding = self.checks.iter().filter(|check| check.verdict() == verdict);
        deciding.max_by(|a, b| a.strain().total_cmp(&b.strain()))
    }
}

/// A figure of a paper, redrawn.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Content of the figure, and how it was measured.
    pub caption: String,
    /// The drawing, an `<svg>` element.
    pub svg: String,
}

/// All claims, in the order of the documentation.
pub fn claims() -> &'static [Claim] {
    CLAIMS
}

/// A name that is neither a claim nor a paper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownClaim {
    /// The name.
    pub name: String,
}

impl std::fmt::Display for UnknownClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids: Vec<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        let mut papers: Vec<&str> = Vec::new();
        for name in CLAIMS.iter().map(|claim| claim.paper.name()) {
            if !papers.contains(&name) {
                papers.push(name);
            }
        }
        let (ids, papers) = (ids.join(", "), papers.join(", "));
        write!(f, "{}: neither a claim nor a paper; allowed: {ids}; {papers}", self.name)
    }
}

/// The claims of these names (identifiers or papers, in any case), each once, in the order of the table; all claims if there are no names.
pub fn select(names: &[String]) -> Result<Vec<&'static Claim>, UnknownClaim> {
    let matches = |claim: &Claim, name: &str| {
        claim.id.eq_ignore_ascii_case(name) || claim.paper.name().eq_ignore_ascii_case(name)
    };
    if let Some(name) = names.iter().find(|name| !CLAIMS.iter().any(|claim| matches(claim, name))) {
        return Err(UnknownClaim { name: name.clone() });
    }
    let wanted = |claim: &&Claim| names.is_empty() || names.iter().any(|name| matches(claim, name));
    Ok(CLAIMS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests;
