//! SimpleSSD's configuration file: sections of `Key = value`.
//!
//! Names and units are those of SimpleSSD's sample: times in picoseconds, sizes in bytes. A parameter is named with its section
//! (`pal.Channel`), as sections share names.

use super::{
    Imported, Parameter, Parameters, Toml, entries, number, placement, positive, refused, share, whole,
    within,
};

/// Whole sections that are left out, each with its reason.
const SECTIONS: &[(&str, &str)] = &[
    ("ufs", "the NVMe interface is taken"),
    ("sata", "the NVMe interface is taken"),
    ("dram", "time of the drive's memory is not modelled"),
];

/// Why the numbers of cores have no counterpart.
const CORES: &str = "drive.firmware.processors is the nearest: 1, or 2 with one of them for the scheduler; drive.firmware has the time of each task";

/// Parameters without a counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("cpu.HILCoreCount", CORES),
    ("cpu.ICLCoreCount", CORES),
    ("cpu.FTLCoreCount", CORES),
    (
        "nvme.AXIBusWidth",
        "drive.host.write_rate is the nearest: something between link and memory that is slower",
    ),
    (
        "nvme.AXIClock",
        "drive.host.write_rate is the nearest: something between link and memory that is slower",
    ),
    (
        "nvme.FIFOTransferUnit",
        "drive.host.dma_unit is the nearest; at least 512 bytes, and a whole number of it in a page",
    ),
    ("nvme.WorkInterval", "drive.firmware.model = \"loop\" is the nearest: a controller that polls"),
    ("nvme.MaxRequestCount", "drive.host.commands limits the commands at work, not those of a loop"),
    ("nvme.MaxIOCQueue", "completion queues are as many as submission queues"),
    ("nvme.WRRHigh", "drive.host.weights, one for each queue"),
    ("nvme.WRRMedium", "drive.host.weights, one for each queue"),
    ("nvme.DefaultNamespace", "a description has one block namespace, or a list, [[drive.namespace]]"),
    ("nvme.EnableDiskImage", "drive.media.store says where data are kept"),
    ("nvme.StrictSizeCheck", "drive.media.store says where data are kept"),
    ("nvme.DiskImageFile1", "drive.media.store says where data are kept"),
    ("nvme.UseCopyOnWriteDisk", "drive.media.store says where data are kept"),
    ("pal.EnableMultiPlaneOperation", "planes of a die always work together on a superpage"),
    (
        "pal.SuperblockSize",
        "blocks of each die are erased by themselves; a superpage has the planes of one die",
    ),
    ("ftl.FillingMode", "a fill is in order and overwrites are at random, as with 1"),
    ("ftl.DChoiceParam", "counts with EvictPolicy = 3 only"),
    ("ftl.GCMode", "GC frees block by block, until drive.ftl.gc_low is exceeded"),
    ("ftl.GCReclaimBlocks", "GC frees block by block, until drive.ftl.gc_low is exceeded"),
    ("ftl.GCReclaimThreshold", "drive.ftl.gc_high is the nearest, for GC in the background"),
    ("ftl.EnableRandomIOTweak", "units are mapped one by one"),
    ("icl.CacheWaySize", "the buffer is fully associative"),
    ("icl.EnableReadPrefetch", "nothing is read ahead"),
    ("icl.ReadPrefetchMode", "nothing is read ahead"),
    ("icl.ReadPrefetchCount", "nothing is read ahead"),
    ("icl.ReadPrefetchRatio", "nothing is read ahead"),
    ("icl.EvictPolicy", "what was used last stays longest"),
    ("icl.EvictMode", "written units leave when a superpage is full"),
    ("icl.CacheLatency", "time of the buffer's memory is not modelled"),
];

/// A drive. `text` is the configuration, `name` what the drive is called.
///
/// # Errors
/// A sentence that begins with the line, as `LINE: why`, where there is one.
pub fn import(text: &str, name: &str) -> Result<Imported, String> {
    let mut all = parameters(text)?;
    let mut toml = Toml::default();
    toml.table("[drive]");
    toml.key("name", &format!("{name:?}"), "the file's name");
    let media = media(&mut all, &mut toml)?;
    translation(&mut all, media.blocks, &mut toml)?;
    controller(&mut all, &media, &mut toml)?;
    filling(&mut all, &mut toml)?;
    let mut imported = Imported::of(toml, all, WITHOUT);
    for left in &mut imported.left {
        let section = left.parameter.name.split('.').next().unwrap_or_default();
        if let Some((_, why)) = SECTIONS.iter().find(|(name, _)| *name == section) {
            left.why = why;
        }
    }
    Ok(imported)
}

fn parameters(text: &str) -> Result<Parameters, String> {
    let mut found = Parameters::of("SimpleSSD", 0);
    let mut section = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim().into();
        } else if let Some((name, value)) = line.split_once('=') {
            found.add(&format!("{section}.{}", name.trim()), value.trim(), number)?;
        } else if !line.is_empty() {
            return Err(format!("{number}: {line}: allowed: [SECTION], KEY = VALUE, # comment"));
        }
    }
    Ok(found)
}

/// Numbers of the media that other parts need.
struct Geometry {
    page_bytes: f64,
    /// Blocks of a plane.
    blocks: f64,
    planes: f64,
}

fn media(all: &mut Parameters, toml: &mut Toml) -> Result<Geometry, String> {
    toml.table("[drive.media]");
    let (mut blocks, mut planes) = (0.0, 1.0);
    for (key, from) in [
        ("channels", "pal.Channel"),
        ("ways", "pal.Package"),
        ("dies", "pal.Die"),
        ("planes", "pal.Plane"),
        ("blocks", "pal.Block"),
        ("pages", "pal.Page"),
    ] {
        let count = all.number(from)?;
        toml.key(key, &format!("{count}"), from);
        match key {
            "blocks" => blocks = count,
            "pages" => {}
            _ => planes *= count,
        }
    }
    let page = all.number("pal.PageSize")?;
    toml.key("page_size", &format!("{page}"), "pal.PageSize");
    toml.key("unit_size", &format!("{page}"), "SimpleSSD: pages are mapped");
    if let Some(sector) = all.take("nvme.LBASize") {
        toml.key("sector_size", &whole(&sector)?, "nvme.LBASize");
    }
    let kind = all.need("pal.NANDType")?;
    let (cell, pages): (&str, &[&str]) = match kind.value.as_str() {
        "0" => ("slc", &["LSB"]),
        "1" => ("mlc", &["LSB", "MSB"]),
        "2" => ("tlc", &["LSB", "CSB", "MSB"]),
        _ => return Err(refused(&kind, "0 (SLC), 1 (MLC), 2 (TLC)")),
    };
    toml.key("cell", &format!("{cell:?}"), "pal.NANDType");
    if let Some(cycles) = all.take("ftl.EraseThreshold") {
        toml.key("endurance", &whole(&cycles)?, "ftl.EraseThreshold");
    }
    timing(all, toml, pages)?;
    Ok(Geometry { page_bytes: page, blocks, planes })
}

fn timing(all: &mut Parameters, toml: &mut Toml, pages: &[&str]) -> Result<(), String> {
    toml.table("[drive.media.timing]");
    for (key, what) in [("read", "Read"), ("program", "Write")] {
        let times = pages.iter().map(|page| nanoseconds(&all.need(&format!("pal.{page}{what}"))?));
        let times: Vec<String> = times.collect::<Result<_, String>>()?;
        toml.key(key, &format!("[{}]", times.join(", ")), &format!("pal.*{what} in ps"));
    }
    toml.key("erase", &nanoseconds(&all.need("pal.Erase")?)?, "pal.Erase in ps");
    // Transfers per us, of this many bits.
    let rate = all.number("pal.DMASpeed")? * all.number("pal.DMAWidth")? / 8.0;
    toml.key("channel_rate", &format!("\"{rate}MB/s\""), "pal.DMASpeed x pal.DMAWidth");
    for page in ["LSB", "CSB", "MSB"].iter().filter(|page| !pages.contains(page)) {
        for what in ["Read", "Write"] {
            let name = format!("pal.{page}{what}");
            // A page type that these cells do not have: 0 says nothing.
            if all.get(&name).is_some_and(|time| time.value == "0") {
                all.take(&name);
            }
        }
    }
    Ok(())
}

/// A time in ps as one in ns, which must not become nothing.
fn nanoseconds(time: &Parameter) -> Result<String, String> {
    let ps = number(time)?;
    let ns = (ps / 1000.0).round();
    if ns == 0.0 && ps > 0.0 {
        return Err(refused(time, "0, or 500 or more: the time is in ps, and becomes whole ns"));
    }
    Ok(format!("\"{ns}ns\""))
}

fn translation(all: &mut Parameters, blocks: f64, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.ftl]");
    let mode = all.from("ftl.MappingMode");
    if let Some(mode) = all.take("ftl.MappingMode")
        && mode.value != "0"
    {
        return Err(refused(&mode, "0, a page map"));
    }
    toml.key("map", "\"page\"", &format!("{mode} = 0"));
    if let Some(ratio) = all.take("ftl.OverProvisioningRatio") {
        // There a share of the whole flash, here of what the host sees.
        let of_all = number(&ratio)?;
        if of_all >= 1.0 {
            return Err(refused(&ratio, "below 1"));
        }
        let from = format!("ftl.OverProvisioningRatio {of_all} of all");
        toml.key("over_provisioning", &share(of_all / (1.0 - of_all)), &from);
    }
    if let Some(policy) = all.take("ftl.EvictPolicy") {
        let victim = match policy.value.as_str() {
            "0" => "greedy".into(),
            "1" => "cost-benefit".into(),
            "2" => "random".into(),
            "3" => format!("d-choices:{}", all.number_or("ftl.DChoiceParam", 3.0)?),
            _ => return Err(refused(&policy, "0 (greedy), 1 (cost-benefit), 2 (random), 3 (d-choice)")),
        };
        let mut from = format!("ftl.EvictPolicy = {}", policy.value);
        if policy.value == "3" {
            from = format!("{from}, {}", all.from("ftl.DChoiceParam"));
        }
        toml.key("victim", &format!("{victim:?}"), &from);
    }
    if let Some(threshold) = all.take("ftl.GCThreshold") {
        if positive(&threshold)? > 1.0 {
            return Err(refused(&threshold, "above 0, to 1"));
        }
        let free = (number(&threshold)? * blocks).ceil();
        toml.key("gc_low", &format!("{free}"), "ftl.GCThreshold of the blocks, here of each die");
    }
    if let Some(order) = all.take("pal.PageAllocation") {
        let from = format!("pal.PageAllocation = {}", order.value);
        toml.key("placement", &format!("{:?}", placement(&order)?), &from);
    }
    toml.key("durability", "\"volatile\"", "SimpleSSD writes no journal");
    Ok(())
}

fn controller(all: &mut Parameters, media: &Geometry, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.host]");
    if let Some(generation) = all.take("nvme.PCIEGeneration") {
        // MB/s of a lane after its line code.
        let lane = match generation.value.as_str() {
            "0" => 250.0,
            "1" => 500.0,
            "2" => 984.6,
            _ => return Err(refused(&generation, "0, 1, 2 (PCIe 1.x, 2.x, 3.x)")),
        };
        let rate = (lane * positive(&all.need("nvme.PCIELane")?)? * 1e6).round();
        toml.key("link_rate", &format!("\"{rate}B/s\""), "nvme.PCIEGeneration x nvme.PCIELane");
    }
    if let Some(queues) = all.take("nvme.MaxIOSQueue") {
        toml.key("queues", &whole(&queues)?, "nvme.MaxIOSQueue");
    }
    if let Some(clock) = all.take("cpu.ClockSpeed") {
        toml.table("[drive.firmware]");
        let mhz = (within(&clock, 500_000.0, f64::INFINITY, ": the clock is in Hz, and becomes whole MHz")?
            / 1e6)
            .round();
        toml.key("clock_mhz", &format!("{mhz}"), "cpu.ClockSpeed");
    }
    toml.table("[drive.buffer]");
    if let Some(size) = all.take("icl.CacheSize") {
        let entries = entries(&size, media.page_bytes)?;
        toml.key("entries", &format!("{entries}"), &format!("icl.CacheSize {} in pages", size.value));
        if all.get("icl.EvictMode").is_some_and(|mode| mode.value == "1") {
            all.take("icl.EvictMode");
            let dirty = (1.0 - media.planes / entries).max(0.0);
            toml.key("dirty_high", &share(dirty), "icl.EvictMode = 1: a page of each plane at once");
        }
    }
    if let Some(write) = all.take("icl.EnableWriteCache") {
        let when = if flag(&write)? { "write-back" } else { "write-through" };
        toml.key("write", &format!("{when:?}"), "icl.EnableWriteCache");
    }
    if let Some(read) = all.take("icl.EnableReadCache") {
        toml.key("retain", &flag(&read)?.to_string(), "icl.EnableReadCache");
    }
    Ok(())
}

fn filling(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    let (fill, invalid) = (all.take("ftl.FillRatio"), all.take("ftl.InvalidPageRatio"));
    if fill.is_none() && invalid.is_none() {
        return Ok(());
    }
    toml.table("[precondition]");
    if let Some(fill) = fill {
        toml.key("fill", &share(number(&fill)?), "ftl.FillRatio");
    }
    if let Some(invalid) = invalid {
        toml.key("overwrite", &format!("{:?}", number(&invalid)?), "ftl.InvalidPageRatio, at random");
    }
    Ok(())
}

/// A flag, 0 or 1.
fn flag(parameter: &Parameter) -> Result<bool, String> {
    match parameter.value.as_str() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(refused(parameter, "0, 1")),
    }
}
