//! The published claims, run again: what a paper measured on hardware, beside what the model gives.
//!
//! ```text
//! claims() --select--> [Claim] --run(Bench)--> Outcome { checks, figures } --> text, JSON, page
//! ```
//! A [`Claim`] is a small function: it runs drives from presets on a [`Bench`] and returns [`Check`]s, each a number with
//! the limit it must keep, and the paper's figures drawn again. Nothing here tunes a drive: what misses is reported with
//! its distance. Published numbers stand in the claim's file with the place they come from.
//!
//! What is known to miss stands in [`KNOWN_MISSES`]. Each claim has wrong models that make it miss in `mutations.rs`: what no model
//! could miss would be no claim.
//!
//! Invariants: the outcome of a claim depends on presets, overrides and seed alone, not on the number of threads; identifiers
//! are unique; every claim has a section in `docs/explanation/reproduce.md`.

mod bench;
mod cache;
mod chunks;
mod clock;
mod collection;
mod data_sheets;
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
mod throughput;
mod zones;

pub use bench::{Bench, ReproduceError};
pub use known::{KNOWN_MISSES, KnownMiss, Standing, standing};
pub use show::{
    render_details, render_json, render_known, render_list, render_page, render_row, render_rows_head,
};

use crate::report::plot::Unit;

/// Where a group of claims comes from.
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
    /// The name to select its claims by.
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

    /// Its name before a section, table or figure.
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
    /// The section, figure or table.
    pub place: &'static str,
    /// What is claimed.
    pub text: &'static str,
    /// What has to be true for it to hold here.
    pub holds_when: &'static str,
    run: fn(&Bench) -> Result<Outcome, ReproduceError>,
}

impl Claim {
    /// Paper and place.
    pub fn origin(&self) -> String {
        format!("{} {}", self.paper.short(), self.place)
    }

    /// Whether it follows overrides and seeds: the conformance suite makes drives of its own, and lines of code are what they are.
    pub fn has_settings(&self) -> bool {
        !matches!(self.id, "L2" | "P6")
    }

    /// Runs the claim.
    pub fn run(&self, bench: &Bench) -> Result<Outcome, ReproduceError> {
        (self.run)(bench)
    }
}

/// What running a claim gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every number that the claim depends on; never empty.
    pub checks: Vec<Check>,
    /// The paper's figures, drawn again.
    pub figures: Vec<Figure>,
}

impl Outcome {
    /// The claim holds when every check does; one part that is not modelled leaves it open, unless another misses.
    pub fn verdict(&self) -> Verdict {
        self.checks.iter().map(Check::verdict).max().unwrap_or(Verdict::NotModelled)
    }

    /// The check that stands for the claim: of those that decide its verdict the one that is nearest to its limit, or
    /// farthest beyond.
    pub fn headline(&self) -> Option<&Check> {
        let verdict = self.verdict();
        let deciding = self.checks.iter().filter(|check| check.verdict() == verdict);
        deciding.max_by(|a, b| a.strain().total_cmp(&b.strain()))
    }
}

/// A figure of a paper, drawn again.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it shows and how it was measured.
    pub caption: String,
    /// The drawing, an `<svg>` element.
    pub svg: String,
}

/// Whether a check or a claim holds, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Within the limit.
    Holds,
    /// The model has no such part.
    NotModelled,
    /// Beyond the limit.
    Misses,
}

impl Verdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::NotModelled => "not modelled",
            Verdict::Misses => "misses",
        }
    }
}

/// What a measured number has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The published number, give or take this share of it.
    Within(f64),
    /// The published number, give or take this much.
    Points(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// From the first to the second.
    Between(f64, f64),
    /// Nothing can be measured: the model has no such part.
    NotModelled,
    /// Nothing: it is there to be seen, and other checks decide.
    Shown,
}

/// One number beside its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is measured.
    pub what: String,
    /// The number in the paper, where it gives one, or that follows from it.
    pub published: Option<f64>,
    /// The paper does not print `published`: it follows from what the paper prints, or from what was measured here.
    pub derived: bool,
    /// The number here.
    pub measured: f64,
    /// The unit of both.
    pub unit: Unit,
    /// What `measured` has to be.
    pub limit: Limit,
}

impl Check {
    /// A published number that must be met within a share of it.
    pub fn within(what: impl Into<String>, unit: Unit, published: f64, measured: f64, share: f64) -> Check {
        let limit = Limit::Within(share);
        Check { published: Some(published), ..Check::bound(what, unit, measured, limit) }
    }

    /// A number that the paper does not print but that follows, and must be met within a share of it.
    pub fn derived(what: impl Into<String>, unit: Unit, expected: f64, measured: f64, share: f64) -> Check {
        Check { derived: true, ..Check::within(what, unit, expected, measured, share) }
    }

    /// A published share that must be met within so much, both as shares of 1.
    pub fn points(what: impl Into<String>, published: f64, measured: f64, points: f64) -> Check {
        let limit = Limit::Points(points);
        Check { published: Some(published), ..Check::bound(what, Unit::Percent, measured, limit) }
    }

    /// An order or a shape, as a number and its bound.
    pub fn bound(what: impl Into<String>, unit: Unit, measured: f64, limit: Limit) -> Check {
        Check { what: what.into(), published: None, derived: false, measured, unit, limit }
    }

    /// A number that decides nothing.
    pub fn shown(what: impl Into<String>, unit: Unit, published: Option<f64>, measured: f64) -> Check {
        Check { published, ..Check::bound(what, unit, measured, Limit::Shown) }
    }

    /// A part of the claim that nothing here models.
    pub fn not_modelled(what: impl Into<String>) -> Check {
        Check::bound(what, Unit::Plain, f64::NAN, Limit::NotModelled)
    }

    /// Measured / published, where the paper gives a number other than 0.
    pub fn ratio(&self) -> Option<f64> {
        self.published.filter(|published| *published != 0.0).map(|published| self.measured / published)
    }

    /// Whether the number keeps its limit. A number that is none keeps no limit.
    pub fn verdict(&self) -> Verdict {
        match self.limit {
            Limit::NotModelled => Verdict::NotModelled,
            Limit::Shown => Verdict::Holds,
            _ if self.strain() <= 1.0 => Verdict::Holds,
            _ => Verdict::Misses,
        }
    }

    /// How much of the limit is used: 1 at the limit, more beyond.
    pub fn strain(&self) -> f64 {
        let (measured, published) = (self.measured, self.published.unwrap_or(f64::NAN));
        let strain = match self.limit {
            Limit::Within(share) => (measured / published - 1.0).abs() / share,
            Limit::Points(points) => (measured - published).abs() / points,
            Limit::AtLeast(least) if measured >= least => (least / measured).max(0.0),
            Limit::AtLeast(least) => 1.0 + (least - measured),
            Limit::AtMost(most) if measured <= most && most > 0.0 => measured / most,
            Limit::AtMost(most) if measured <= most => 0.0,
            Limit::AtMost(most) => 1.0 + (measured - most),
            Limit::Between(low, high) => (measured - f64::midpoint(low, high)).abs() / ((high - low) / 2.0),
            Limit::NotModelled | Limit::Shown => 0.0,
        };
        if strain.is_nan() { f64::INFINITY } else { strain }
    }
}

/// All claims, in the order of the documentation.
pub fn claims() -> &'static [Claim] {
    CLAIMS
}

macro_rules! cosmos {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $run:path) => {
        Claim {
            id: $id,
            paper: Paper::CosmosPlus,
            place: $place,
            text: $text,
            holds_when: $holds_when,
            run: $run,
        }
    };
}

macro_rules! prism {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $run:path) => {
        Claim { id: $id, paper: Paper::Prism, place: $place, text: $text, holds_when: $holds_when, run: $run }
    };
}

macro_rules! flashfire {
    ($id:literal, $place:literal, $text:literal, $holds_when:literal, $run:path) => {
        Claim {
            id: $id,
            paper: Paper::FlashFire,
            place: $place,
            text: $text,
            holds_when: $holds_when,
            run: $run,
        }
    };
}

static CLAIMS: &[Claim] = &[
    cosmos!(
        "C1",
        "6.2, Fig. 21",
        "sequential reads of 128 KiB, 16 outstanding, reach 1,275 MB/s on 8 channels x 8 ways",
        "within 5 %, in SLC and in MLC mode",
        throughput::maximum
    ),
    cosmos!(
        "C2",
        "Fig. 21",
        "throughput grows in proportion to the channels",
        "8 channels give 7.5 to 8.05 times the reads of one, at 8 ways",
        throughput::over_channels
    ),
    cosmos!(
        "C3",
        "Fig. 21",
        "throughput grows with the ways until the channel or the array time bounds it",
        "no step to more ways loses more than 1 %, and a second way gives 1.8 to 2.05 times the writes, at any number of channels",
        throughput::over_ways
    ),
    cosmos!(
        "C4",
        "6.2, Fig. 21",
        "MLC writes reach about half of SLC writes",
        "0.4 to 0.6, on 8 channels x 8 ways",
        throughput::mlc_writes
    ),
    cosmos!(
        "C5",
        "6.3, Fig. 22",
        "random 4 KiB at 128 outstanding: IOPS are the throughput of Fig. 21 divided by the 16 KiB page",
        "within 10 %, on 8 channels x 8 ways",
        throughput::small_random
    ),
    cosmos!(
        "C6",
        "Table 7",
        "latency of 16 KiB requests at 1, 4, 16 and 64 outstanding, split into host interface, firmware and \
         storage controller",
        "each system latency within 2.5 % and their errors 0.9 % root mean square; each part 10 % root mean square",
        latency::split
    ),
    cosmos!(
        "C7",
        "6.4, Fig. 24",
        "throughput is proportional to the outstanding requests up to 8, less beyond, and reads flatten before writes",
        "8 outstanding give, within 5 %, as many times one as Table 7's growth from 1 to 4 continued (7.0 reads, 7.6 and 7.8 \
         writes); 64 as many times 16 as Table 7 by Little's law (1.4 reads, 2.9 and 3.4 writes); reads gain less from 8 to 64 \
         than writes",
        latency::outstanding
    ),
    cosmos!(
        "C8",
        "6.5, Figs. 25, 26",
        "ChPrev is fastest at all sizes with devC = 0; WayPrev has devW = 0 and equals ChPrev at 1,024 KB; Random beats \
         WayPrev when small; at 256 KB its reads do and its writes do not",
        "every order; equal is within 3 %",
        placement::schemes
    ),
    cosmos!(
        "C9",
        "7.1, Fig. 27",
        "a slower processor costs more the more flash devices there are, and reads more than writes; fewer devices \
         saturate at a lower clock",
        "every order, between 1,000 and 200 MHz",
        clock::frequencies
    ),
    cosmos!(
        "C10",
        "7.3, Fig. 30",
        "the scrambler makes no difference at few P/E cycles, avoids up to 13.7 % of the bit errors at 5,000, and does \
         nothing for pattern 11-00",
        "each within 3 points",
        integrity::scrambler
    ),
    cosmos!(
        "C11",
        "5, 7.2",
        "BCH corrects 13 bits in 256 bytes; a key-equation solver shared by four channels costs little",
        "no chunk wrong; less than 2 % throughput",
        integrity::error_correction
    ),
    cosmos!(
        "C12",
        "7.4, Fig. 32",
        "3D TLC programmed in one shot (1,600 us for three pages) uses the channels more than MLC does",
        "utilisation while writing, and TLC's to MLC's, as page transfers and program time have it with 128 pages outstanding: \
         each within 15 %, the ratio 10 %",
        one_shot::utilisation
    ),
    cosmos!(
        "C13",
        "7.5, Figs. 33, 37",
        "as an open-channel SSD under pblk, write throughput is steady over outstanding requests; with many it is below the \
         block drive's, reads are below writes, and four ways of a channel or fewer are active",
        "most / least write throughput at most 1.1; every order at 64 outstanding",
        pblk::throughput
    ),
    cosmos!(
        "C14",
        "7.5, Figs. 34, 35",
        "many writes of the application end faster than a program; their latency grows with the outstanding requests, and the \
         drive's does not",
        "half of the writes with 16 outstanding; the median 1.5 times for four times as many; the drive's mean within 10 %",
        pblk::latency
    ),
    Claim {
        id: "L1",
        paper: Paper::LightNvm,
        place: "4, Fig. 3",
        text: "4 KiB random reads beside 64 KiB writes, one of each outstanding, at 100/0, 80/20, 66/33 and 50/50: parallel units \
               of their own keep the reads' percentiles flat; a block drive's rise at 80/20 already",
        holds_when: "p95 and p99 within 5 % of 100/0, where the same streams on the same units have p99 four times as long at 80/20; the block \
                     drive's at least 5 % higher at 80/20, and rising",
        run: predictable::isolation,
    },
    Claim {
        id: "L2",
        paper: Paper::LightNvm,
        place: "2",
        text: "the physical-page-address commands: geometry, chunk report, vector read, write, copy, reset, notification",
        holds_when: "every case of the conformance suite",
        run: chunks::conformance,
    },
    Claim {
        id: "B1",
        paper: Paper::Theory,
        place: "closed form",
        text: "write amplification of greedy collection under uniform random 4 KiB writes at 7, 10, 14, 28 and 30 % \
               over-provisioning is a/(a + W0(-a e^-a)), a = 1 + over-provisioning",
        holds_when: "each within 3 %, blocks of 256 pages",
        run: collection::greedy,
    },
    Claim {
        id: "B2",
        paper: Paper::CacheLib,
        place: "device figures",
        text: "a cache's two streams (4 % of the space random 4 KiB, the rest a sequential log): write amplification 1.03 with a \
               placement handle each; mixed 1.22 at 50 % and 3.22 at 100 % utilisation",
        holds_when: "apart within 0.05, and with little spare space as the buckets alone have it by the closed form of B1; mixed within \
                     15 %",
        run: cache::streams,
    },
    Claim {
        id: "B3",
        paper: Paper::Zns,
        place: "device figures",
        text: "zones against a block drive of the same media, with 0 against 7 and 28 % over-provisioning: beside writes, the \
               99.9th percentile of random reads is 2 to 4 times lower",
        holds_when: "lower at every rate of writes; 2 to 4 times without a limit, and as the geometric mean over the rates that both \
                     drives keep, for each block drive",
        run: zones::tail,
    },
    Claim {
        id: "B5",
        paper: Paper::Theory,
        place: "closed forms",
        text: "write amplification of victim policies, 64 random writes outstanding and no limit, is that of theory: FIFO \
               a/(a + W0(-a e^-a)), random (1 + OP)/OP, greedy and d choices a mean field; LRU, cost-benefit and 80/20 writes as \
               in a plain simulation; 7 to 28 % over-provisioning, blocks of 16 to 256 pages",
        holds_when: "each within 3 %, and no victim chosen against the policy",
        run: policies::policies,
    },
    Claim {
        id: "B6",
        paper: Paper::Theory,
        place: "algorithms",
        text: "a map in flash whose cached table holds everything (DFTL) is the page map; log-block hybrids (BAST, FAST) merge as their \
               algorithms say: switch merges for writes in order, full merges with as many copies as a block has pages for \
               writes out of order",
        holds_when: "no key of the report differs; every count exactly as the geometry has it; random writes within 5 % of what follows \
                     in the mean",
        run: maps::maps,
    },
    Claim {
        id: "B7",
        paper: Paper::DataSheets,
        place: "data sheets",
        text: "`datacenter-tlc` is as fast as a Micron 7450 PRO and `client-qlc` as an Intel SSD 670p: random reads and writes at depth 1 \
               and 256, sequential reads and writes",
        holds_when: "each within 20 %",
        run: data_sheets::figures,
    },
    Claim {
        id: "B4",
        paper: Paper::Theory,
        place: "closed form",
        text: "a FIFO cache on flash, under uniform writes, holds 1 - e^(-S/K) of K keys in S slots",
        holds_when: "within 1 point, at 0.5 to 1.5 keys for a slot of flash",
        run: fifo::uniform,
    },
    prism!(
        "P1",
        "VI-A, Fig. 4",
        "a cache of 6 to 12 % of the data, in front of a database: hit ratio 71.1 to 87.3 % with static over-provisioning, 76.5 to \
         94.8 % with dynamic",
        "each end within 3 points; the static ends are fitted, so no prediction",
        prism::hit_ratios
    ),
    prism!(
        "P2",
        "VI-A, Fig. 5",
        "throughput with a cache of 10 %: Raw over Original, Function and Policy by 9.2, 0.4 and 8.8 %",
        "within 5 points, and the order; equal is within 0.2 %",
        prism::throughput
    ),
    prism!(
        "P3",
        "VI-A, Fig. 6",
        "throughput of the cache server with sets only: Raw over Original, Function and Policy by 27.6, 5.2 and 15.5 %, Policy over \
         Original by 10.2 %, Raw as DIDACache; the gain shrinks as gets grow",
        "within 8 points, and every order",
        prism::ratios
    ),
    prism!(
        "P4",
        "VI-A, Fig. 7",
        "mean latency with sets only: Raw below Function below Policy below Original",
        "every order",
        prism::latency
    ),
    prism!(
        "P5",
        "VI-A, Table I",
        "garbage collection of 50 GB of sets on 30 GB: key-values and pages copied, and erases, of the engines over those of Original",
        "ratios to Original within 15 %, and no page copied below the engines that own or map blocks; Original's own copies are fitted, so no prediction",
        prism::collection
    ),
    prism!(
        "P6",
        "VI-A",
        "code that the cache has for a level of the library: raw above function above policy (1,450, 860 and 210 lines)",
        "every order, lines counted from the sources of the engines by a script",
        prism::lines
    ),
    prism!(
        "U1",
        "VI-B, Fig. 8",
        "file servers on a log-structured file system: on the flash library's function level it is faster than on a drive with fileserver, \
         webserver and varmail, with varmail by 21.5 %",
        "every order; the gain with varmail within 10 points",
        file_system::throughput
    ),
    prism!(
        "U2",
        "VI-B, Table II",
        "garbage collection of these file systems and of one that writes in place: both log-structured ones copy 9.82 GB of files; on flash \
         7.24 GB, nothing on the function level, 9.37 GB in place; 6,594, 5,280 and 5,429 erases",
        "nothing copied below the function level; ratios within 15 %",
        file_system::collection
    ),
    prism!(
        "G1",
        "VI-C, Fig. 9",
        "PageRank on a graph like LiveJournal's, out of core, on the flash library's policy level and on a drive behind the kernel: \
         preprocessing takes 5.2 % less time, the iterations 7.6 %, both 5.7 %",
        "each within 5 points",
        graph::page_rank
    ),
    Claim {
        id: "J1",
        paper: Paper::Jasmine,
        place: "3.1.1, Table 2",
        text: "writes on the reference firmware, IO/s: random 4, 16, 32, 128 and 512 KB 2,560, 1,920, 2,912, 648 and 132; sequential 4 KB \
               15,616, and with requests limited to 32 KB 20,736",
        holds_when: "within 10 % each",
        run: jasmine::table,
    },
    Claim {
        id: "J2",
        paper: Paper::Jasmine,
        place: "3.1.2, Fig. 3",
        text: "with a merge buffer random writes of 4 KB are 9 times the baseline, near 22,528 IO/s and 1 % below sequential ones, which \
               gain 22 %",
        holds_when: "within 10 % each",
        run: jasmine::merge_buffer,
    },
    Claim {
        id: "J3",
        paper: Paper::Jasmine,
        place: "3.1.2, Fig. 4",
        text: "reads: 125 MB/s in order, 2,340 IO/s at random; with a read buffer random ones twice as fast, sequential ones 30 % slower",
        holds_when: "within 10 % each",
        run: jasmine::read_buffer,
    },
    Claim {
        id: "S1",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "fileserver on a solid-state cache over the same flash as a block drive under FlashCache: +52 % with write-back, +45 % with write-through",
        holds_when: "within 10 points each",
        run: solid_state_cache::fileserver,
    },
    Claim {
        id: "S2",
        paper: Paper::Jasmine,
        place: "4.2",
        text: "the solid-state cache erases 90 % fewer blocks on fileserver, in both modes",
        holds_when: "at least 80 % fewer",
        run: solid_state_cache::erases,
    },
    Claim {
        id: "S3",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "webserver gains nothing from silent eviction, and loses little",
        holds_when: "within 3 % in both modes",
        run: solid_state_cache::webserver,
    },
    Claim {
        id: "S4",
        paper: Paper::Jasmine,
        place: "4.2, Fig. 7",
        text: "varmail with write-back: the solid-state cache is 27 % above the block drive, whose records cost more than a log in the drive",
        holds_when: "within 10 points",
        run: solid_state_cache::varmail,
    },
    Claim {
        id: "N1",
        paper: Paper::Jasmine,
        place: "4.3, Table 4",
        text: "memory of the FTL for a file system of 4, 16 and 48 GB: page map 2.50, 17.8 and 52.8 MB; nameless writes 94, 325 and 803 KB",
        holds_when: "counted bytes within a factor of two each",
        run: nameless::memory,
    },
    Claim {
        id: "N2",
        paper: Paper::Jasmine,
        place: "4.3, Fig. 8",
        text: "4 KB requests: sequential writes and reads and random reads of the split FTL are like the baseline's; its random writes are above \
               the baseline's and below sequential ones",
        holds_when: "within 10 %; order",
        run: nameless::performance,
    },
    flashfire!(
        "F1",
        "4.5.1, Tables 2, 3",
        "an installation of Office: 35,055 requests of 2,693,322 sectors go into the buffer, and 2,222 requests of 2,048 sectors come out",
        "each within 10 %; what comes out is fitted, so no prediction",
        flashfire::requests_in_and_out
    ),
    flashfire!(
        "F2",
        "4.4, Fig. 20",
        "erases with the buffer are 18 % of those without, as the geometric mean of four workloads on a log-block map",
        "within 5 points",
        flashfire::erase_counts
    ),
    flashfire!(
        "F3",
        "4.3, Figs. 15 to 19",
        "elapsed time with the buffer over that without, as the geometric mean of five drives: MP3 copy 50 %, Linux extraction 35 %, Office install \
         52 %, uninstall 35 %, browsing 52 %",
        "each within 10 points",
        flashfire::elapsed
    ),
    flashfire!(
        "F4",
        "4.5.2, Fig. 21",
        "a buffer of less than 16 MB costs performance",
        "the order, for MP3 copy and Office install",
        flashfire::buffer_size
    ),
    flashfire!(
        "F5",
        "4.2.1, Figs. 9 to 13",
        "small writes gain on every drive, those of 8 KB on drive 5 by 73 %; reads lose slightly",
        "within 15 points, and the order; slightly is at most 20 %",
        flashfire::throughput
    ),
    flashfire!(
        "F6",
        "4.5.3, Fig. 22",
        "on NTFS the buffer gains more than on FAT32, which writes less at random",
        "the order, as the geometric mean of four workloads",
        flashfire::file_systems
    ),
];

/// A name that is neither a claim nor a paper.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownClaim {
    /// The name.
    pub name: String,
}

impl std::fmt::Display for UnknownClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids: Vec<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        let papers = [
            Paper::CosmosPlus,
            Paper::LightNvm,
            Paper::Theory,
            Paper::CacheLib,
            Paper::Zns,
            Paper::DataSheets,
            Paper::Prism,
            Paper::Jasmine,
            Paper::FlashFire,
        ]
        .map(Paper::name);
        let (ids, papers) = (ids.join(", "), papers.join(", "));
        write!(f, "{}: neither a claim nor a paper; allowed: {ids}; {papers}", self.name)
    }
}

/// The claims of these names (identifiers or papers, in any case), each once, in the order of the table; all without names.
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
