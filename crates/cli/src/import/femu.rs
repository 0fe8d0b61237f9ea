//! FEMU's options of its black-box SSD: a script such as `run-blackbox.sh`, or a file with the `-device femu,...` of QEMU.
//!
//! ```text
//!  line ─► variables filled in ─► what follows "-device femu," ─► option=value
//! ```
//! Names, defaults and meanings are those of FEMU's device properties. A script of the shell is not run: variables that are assigned in
//! it are filled in, and nothing else of it has an effect.

use super::{Imported, Parameter, Parameters, Toml, number, refused, share, whole, within};

/// Options without a counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("femu_mode", "the black-box SSD is what is imported"),
    ("devsz_mb", "op_pcent says the over-provisioning"),
    ("ch_xfer_lat", "FEMU itself ignores it: transfers take no time"),
    ("gc_strategy", "counts with reclaim units (FDP) only"),
    ("nand_cell_type", "one latency for all pages: cells are imported as of one bit"),
    ("flash_type", "counts with open-channel drives only"),
    (
        "cell_pages",
        "all pages take the same time; drive.media.timing.read takes a time for each page of a word line",
    ),
    (
        "pgtype_lat",
        "all pages take the same time; drive.media.timing.read takes a time for each page of a word line",
    ),
    ("ecc_step_ns", "drive.media.bit_errors and drive.media.retry are the nearest"),
    ("tplpbsy", "planes are programmed together; their busy time is that of the program"),
    ("tplrbsy", "planes are sensed together; their busy time is that of the read"),
    ("tplebsy", "planes are erased together; their busy time is that of the erase"),
    ("trcbsy", "there is no cached read"),
    ("trim_lat_ns", "a trim takes time of the firmware only"),
    ("nand_bad_blocks", "drive.media.faults.factory_bad is a share of the blocks"),
    ("err_read_unc_ppm", "drive.media.faults.read_fail is the nearest"),
    ("err_write_fail_ppm", "drive.media.faults.program_fail is the nearest"),
    ("read_cache_mb", "drive.buffer is for reads and writes"),
    ("cache_evict", "drive.buffer keeps what was used last"),
    ("mapping_cache_mb", "counts with mapping = dftl only"),
    ("namespaces", "a description has one block namespace, or a list, [[drive.namespace]]"),
    ("namespace_sizes", "a description has one block namespace, or a list, [[drive.namespace]]"),
    ("namespace_modes", "a description has one block namespace, or a list, [[drive.namespace]]"),
    ("subsys", "placement handles: drive.ftl.handles"),
    ("femu-subsys.id", "a name of QEMU"),
    ("femu-subsys.nqn", "how the controller presents itself is no part of a description"),
    ("femu-subsys.fdp", "placement handles: drive.ftl.handles"),
    ("femu-subsys.fdp.nruh", "placement handles: drive.ftl.handles"),
    ("femu-subsys.fdp.nrg", "placement handles: drive.ftl.handles"),
    ("femu-subsys.fdp.nru", "placement handles: drive.ftl.handles"),
    ("entries", "drive.host.commands limits the commands at work, not a queue"),
    ("multipoller_enabled", "a detail of the emulator"),
    ("poller_ratio", "a detail of the emulator"),
    ("hiops_inline", "a detail of the emulator"),
    ("debug_ftl", "a detail of the emulator"),
    ("serial", "how the controller presents itself is no part of a description"),
    ("id", "a name of QEMU"),
    ("bus", "a name of QEMU"),
    ("mdts", "the protocol that serves the drive says how large a command may be"),
    ("vwc", "drive.buffer.write says whether writes are cached"),
    ("meta", "sectors have no metadata of the host"),
    ("ms", "sectors have no metadata of the host"),
];

/// A drive. `text` is the script or command line, `name` what the drive is called.
///
/// # Errors
/// A sentence that begins with the line, as `LINE: why`, where there is one.
pub fn import(text: &str, name: &str) -> Result<Imported, String> {
    let mut all = options(text)?;
    if all.is_empty() {
        return Err("no option of \"-device femu\"; allowed: a script or command line of FEMU".into());
    }
    match all.get("femu_mode") {
        Some(mode) if mode.value == "1" => {}
        Some(mode) => return Err(refused(mode, "1, the black-box SSD")),
        None => {
            return Err(
                "no femu_mode: FEMU then adds no latency; allowed: femu_mode=1, the black-box SSD".into()
            );
        }
    }
    let mut toml = Toml::default();
    toml.table("[drive]");
    toml.key("name", &format!("{name:?}"), "the file's name");
    let geometry = media(&mut all, &mut toml)?;
    translation(&mut all, &geometry, &mut toml)?;
    controller(&mut all, &mut toml)?;
    Ok(Imported::of(toml, all, WITHOUT))
}

/// Options of the one `-device femu` of the text, each with the line on which its value appears first.
fn options(text: &str) -> Result<Parameters, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let (mut device, mut subsystem) = (Device::default(), Device::default());
    let mut line_number = 0;
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        line_number += 1;
        let (number, mut line) = (line_number, without_comment(first).to_string());
        while line.trim_end().ends_with('\\')
            && let Some(more) = lines.next()
        {
            line_number += 1;
            line = format!("{} {}", line.trim_end().trim_end_matches('\\'), without_comment(more));
        }
        let line = filled_in(&line, &variables);
        for (model, of) in [("femu", &mut device), ("femu-subsys", &mut subsystem)] {
            for (at, listed) in listed(&line, model).enumerate() {
                if at > 0 {
                    return Err(two_devices(number, number));
                }
                of.appears(listed, number)?;
            }
        }
        if let Some((name, value)) = line.trim().split_once('=')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value.trim_end().into()));
        }
    }
    let mut found = Parameters::of("FEMU", 0);
    for option in device.options {
        found.add(&option.name, &option.value, option.line)?;
    }
    if found.is_empty() {
        return Ok(found);
    }
    for option in subsystem.options {
        found.add(&format!("femu-subsys.{}", option.name), &option.value, option.line)?;
    }
    Ok(found)
}

/// The options of each `-device MODEL` in a line.
fn listed<'a>(line: &'a str, model: &str) -> impl Iterator<Item = &'a str> {
    let words = line.split("-device").skip(1).filter_map(|device| device.split_whitespace().next());
    words.filter_map(move |word| {
        word.strip_prefix(model).filter(|rest| rest.is_empty() || rest.starts_with(','))
    })
}

/// A device whose options may grow from line to line, as a script puts them together.
#[derive(Default)]
struct Device {
    options: Vec<Parameter>,
    /// Line on which it appeared last, from 1.
    line: u32,
}

impl Device {
    /// Takes the options of a device: the same one if all options of one appearance are among those of the other.
    fn appears(&mut self, listed: &str, line: u32) -> Result<(), String> {
        let is =
            |known: &Parameter, (name, value): &(&str, &str)| known.name == *name && known.value == *value;
        let listed: Vec<(&str, &str)> =
            listed.split(',').filter_map(|option| option.split_once('=')).collect();
        let is_more = self.options.iter().all(|known| listed.iter().any(|option| is(known, option)));
        let is_less = listed.iter().all(|option| self.options.iter().any(|known| is(known, option)));
        if !is_more && !is_less {
            return Err(two_devices(self.line, line));
        }
        self.line = line;
        if is_less {
            return Ok(());
        }
        let known = std::mem::take(&mut self.options);
        for option in listed {
            let first = known.iter().find(|known| is(known, &option)).map_or(line, |known| known.line);
            self.options.push(Parameter { name: option.0.into(), value: option.1.into(), line: first });
        }
        Ok(())
    }
}

fn two_devices(first: u32, second: u32) -> String {
    format!("{second}: two devices, in lines {first} and {second}; allowed: one -device femu")
}

/// The line without a comment of the shell: a `#` at its beginning or behind a space.
fn without_comment(line: &str) -> &str {
    let begins =
        line.char_indices().find(|&(at, c)| c == '#' && (at == 0 || line[..at].ends_with([' ', '\t'])));
    begins.map_or(line, |(at, _)| &line[..at])
}

/// The line without quotes, and with the values of variables that were assigned; others stay as they are.
fn filled_in(line: &str, variables: &[(String, String)]) -> String {
    let mut line = line.replace(['"', '\''], "");
    // The longest names first, as `$a` is the beginning of `$ab`.
    let mut variables: Vec<&(String, String)> = variables.iter().collect();
    variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for (name, value) in variables {
        line = line.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
    }
    line
}

/// Numbers of the media that the translation needs.
struct Geometry {
    bytes: f64,
    blocks_per_die: f64,
}

fn media(all: &mut Parameters, toml: &mut Toml) -> Result<Geometry, String> {
    toml.table("[drive.media]");
    let mut bytes = 1.0;
    let mut blocks_per_die = 0.0;
    for (key, from, default) in [
        ("channels", "nchs", 8.0),
        ("ways", "luns_per_ch", 8.0),
        ("planes", "pls_per_lun", 1.0),
        ("blocks", "blks_per_pl", 256.0),
        ("pages", "pgs_per_blk", 256.0),
    ] {
        let count = all.number_or(from, default)?;
        toml.key(key, &format!("{count}"), &all.from(from));
        bytes *= count;
        if key == "blocks" {
            blocks_per_die = count;
        }
    }
    let sector = all.number_or("secsz", 512.0)?;
    let page = sector * all.number_or("secs_per_pg", 8.0)?;
    let from = format!("{} x {}", all.from("secsz"), all.from("secs_per_pg"));
    toml.key("page_size", &format!("{page}"), &from);
    toml.key("sector_size", &format!("{sector}"), &all.from("secsz"));
    toml.key("unit_size", &format!("{page}"), "FEMU: pages are mapped");
    toml.key("cell", "\"slc\"", "FEMU: one latency for all pages");
    toml.table("[drive.media.timing]");
    for (key, from, default) in [("read", "pg_rd_lat", 40_000.0), ("program", "pg_wr_lat", 200_000.0)] {
        toml.key(key, &format!("[\"{}ns\"]", all.number_or(from, default)?), &all.from(from));
    }
    let erase = all.number_or("blk_er_lat", 2_000_000.0)?;
    toml.key("erase", &format!("\"{erase}ns\""), &all.from("blk_er_lat"));
    match all.number_or("pg_xfer_lat", 0.0)? {
        0.0 => toml.key("channel_rate", "\"1000GB/s\"", "FEMU: transfers take no time"),
        // Bytes in this many ns are this many GB/s.
        ns => toml.key("channel_rate", &format!("\"{:.0}B/s\"", page * 1e9 / ns), "pg_xfer_lat for a page"),
    }
    for (key, from) in [("command", "cmd_addr_lat"), ("status", "status_lat")] {
        let ns = all.number_or(from, 0.0)?;
        toml.key(key, &format!("\"{ns}ns\""), &all.from(from));
    }
    Ok(Geometry { bytes: bytes * page, blocks_per_die })
}

fn translation(all: &mut Parameters, media: &Geometry, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.ftl]");
    let flash_map = all.get("mapping").is_some_and(|mapping| mapping.value == "dftl");
    mapping(all, toml)?;
    let percent = all.take("op_pcent").filter(|percent| percent.value != "0");
    let (spare, from) = match &percent {
        Some(percent) => (number(percent)? / 100.0, "op_pcent".into()),
        None => {
            let from = all.from("devsz_mb");
            let size = all.get("devsz_mb").cloned();
            let bytes = all.number_or("devsz_mb", 1024.0)? * 1_048_576.0;
            if bytes <= 0.0 || bytes > media.bytes {
                let allowed = format!("above 0, to {} (the flash)", media.bytes / 1_048_576.0);
                return Err(match size {
                    Some(size) => refused(&size, &allowed),
                    None => format!("{from} = 1024: allowed: {allowed}"),
                });
            }
            (media.bytes / bytes - 1.0, format!("flash / {from} - 1"))
        }
    };
    toml.key("over_provisioning", &share(spare), &from);
    if let Some(policy) = all.take("gc_policy") {
        let victim = match policy.value.as_str() {
            "greedy" | "random" | "cost-benefit" | "fifo" => policy.value.as_str(),
            "d-choice" => "d-choices:2",
            _ => return Err(refused(&policy, "greedy, random, cost-benefit, fifo, d-choice")),
        };
        toml.key("victim", &format!("{victim:?}"), "gc_policy");
    }
    // A line of FEMU has one block of each die, so its free lines are the free blocks of a die.
    for (key, from, default) in [("gc_low", "gc_thres_pcent_high", 95.0), ("gc_high", "gc_thres_pcent", 75.0)]
    {
        let given = all.from(from);
        let used = all.take(from).map_or(Ok(default), |used| within(&used, 0.0, 100.0, " %"))?;
        let free = ((1.0 - used / 100.0) * media.blocks_per_die + 1e-9).floor().max(1.0);
        toml.key(key, &format!("{free}"), &format!("{given} = {used} % of the lines used"));
    }
    if flash_map {
        toml.key("durability", "\"journal\"", "as a map in flash needs; FEMU writes no journal");
    } else {
        toml.key("durability", "\"volatile\"", "FEMU writes no journal");
    }
    Ok(())
}

fn mapping(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    let Some(mapping) = all.take("mapping") else {
        toml.key("map", "\"page\"", "FEMU's default of mapping");
        return Ok(());
    };
    match mapping.value.as_str() {
        "page" => toml.key("map", "\"page\"", "mapping"),
        "dftl" => {
            toml.key("map", "\"demand\"", "mapping = dftl");
            let size = all.take("mapping_cache_mb").map_or(Ok("4".into()), |size| whole(&size))?;
            toml.key("map_cache", &format!("\"{size}MiB\""), &all.from("mapping_cache_mb"));
        }
        "fast" => toml.key("map", "\"fast\"", "mapping"),
        "hybrid" => toml.key("map", "\"bast\"", "mapping = hybrid: log blocks"),
        _ => return Err(refused(&mapping, "page, dftl, fast, hybrid")),
    }
    Ok(())
}

fn controller(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.host]");
    if let Some(queues) = all.take("queues") {
        toml.key("queues", &whole(&queues)?, "queues");
    }
    let rate = all.number_or("pcie_bandwidth_mbps", 0.0)?;
    toml.key(
        "link_rate",
        &format!("\"{rate}MB/s\""),
        &format!("{}; 0: no time", all.from("pcie_bandwidth_mbps")),
    );
    let delay = all.number_or("pcie_prop_delay_ns", 0.0)?;
    toml.key("dma_latency", &format!("\"{delay}ns\""), &all.from("pcie_prop_delay_ns"));
    let firmware = all.number_or("fw_cpu_ns", 0.0)?;
    toml.table("[drive.firmware]");
    let from = format!("{}, for each command", all.from("fw_cpu_ns"));
    toml.key("fetch.fixed", &format!("\"{firmware}ns\""), &from);
    toml.table("[drive.buffer]");
    toml.key("write", "\"write-through\"", "FEMU: a write ends with its program");
    Ok(())
}
