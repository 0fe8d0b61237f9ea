//! FEMU's options of its black-box SSD: a script such as `run-blackbox.sh`, or a file with the `-device femu,...` of QEMU.
//!
//! ```text
//!  line ─► variables filled in ─► what follows "-device femu," ─► option=value
//! ```
//! Names, defaults and meanings are those of FEMU's device properties. A script of the shell is not run: variables that are assigned in
//! it are filled in, and nothing else of it has an effect.

use super::{Imported, Parameters, Toml, number, refused, whole};

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
/// A sentence that begins with the line, as `LINE: why`.
pub fn import(text: &str, name: &str) -> Result<Imported, String> {
    let mut all = options(text);
    if all.is_empty() {
        return Err("1: no option of \"-device femu\"; allowed: a script or command line of FEMU".into());
    }
    if let Some(mode) = all.get("femu_mode")
        && mode.value != "1"
    {
        return Err(refused(mode, "1, the black-box SSD"));
    }
    let mut toml = Toml::default();
    toml.table("[drive]");
    toml.key("name", &format!("{name:?}"), "the file's name");
    let geometry = media(&mut all, &mut toml)?;
    translation(&mut all, &geometry, &mut toml)?;
    controller(&mut all, &mut toml)?;
    Ok(Imported { toml: toml.0, left: all.left(WITHOUT) })
}

/// Options of every `-device femu` in the text, each with the line on which its value appears first.
fn options(text: &str) -> Parameters {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut found = Parameters::default();
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
        for device in line.split("-device femu").skip(1) {
            let listed = device.split_whitespace().next().unwrap_or_default();
            for (name, value) in listed.split(',').filter_map(|option| option.split_once('=')) {
                found.set(name, value, number);
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
    found
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
        toml.key(key, &format!("{count}"), from);
        bytes *= count;
        if key == "blocks" {
            blocks_per_die = count;
        }
    }
    let sector = all.number_or("secsz", 512.0)?;
    let page = sector * all.number_or("secs_per_pg", 8.0)?;
    toml.key("page_size", &format!("{page}"), "secsz x secs_per_pg");
    toml.key("sector_size", &format!("{sector}"), "secsz");
    toml.key("unit_size", &format!("{page}"), "FEMU: pages are mapped");
    toml.key("cell", "\"slc\"", "FEMU: one latency for all pages");
    toml.table("[drive.media.timing]");
    for (key, from, default) in [("read", "pg_rd_lat", 40_000.0), ("program", "pg_wr_lat", 200_000.0)] {
        toml.key(key, &format!("[\"{}ns\"]", all.number_or(from, default)?), from);
    }
    toml.key("erase", &format!("\"{}ns\"", all.number_or("blk_er_lat", 2_000_000.0)?), "blk_er_lat");
    match all.number_or("pg_xfer_lat", 0.0)? {
        0.0 => toml.key("channel_rate", "\"1000GB/s\"", "FEMU: transfers take no time"),
        // Bytes in so many ns are so many GB/s.
        ns => toml.key("channel_rate", &format!("\"{:.0}B/s\"", page * 1e9 / ns), "pg_xfer_lat for a page"),
    }
    for (key, from) in [("command", "cmd_addr_lat"), ("status", "status_lat")] {
        let ns = all.number_or(from, 0.0)?;
        toml.key(key, &format!("\"{ns}ns\""), from);
    }
    Ok(Geometry { bytes: bytes * page, blocks_per_die })
}

fn translation(all: &mut Parameters, media: &Geometry, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.ftl]");
    let flash_map = all.get("mapping").is_some_and(|mapping| mapping.value == "dftl");
    mapping(all, toml)?;
    let percent = all.take("op_pcent").filter(|percent| percent.value != "0");
    let (share, from) = match &percent {
        Some(percent) => (number(percent)? / 100.0, "op_pcent"),
        None => {
            let size = all.number_or("devsz_mb", 1024.0)? * 1_048_576.0;
            if size <= 0.0 || size > media.bytes {
                return Err(format!(
                    "devsz_mb: {size} bytes: allowed: 1 to the {} bytes of the flash",
                    media.bytes
                ));
            }
            (media.bytes / size - 1.0, "flash / devsz_mb - 1")
        }
    };
    toml.key("over_provisioning", &format!("{share:.6}"), from);
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
        let used = all.number_or(from, default)?;
        let free = ((1.0 - used / 100.0) * media.blocks_per_die + 1e-9).floor().max(1.0);
        toml.key(key, &format!("{free}"), &format!("{from} = {used} % of the lines used"));
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
        toml.key("map", "\"page\"", "FEMU: a page map");
        return Ok(());
    };
    match mapping.value.as_str() {
        "page" => toml.key("map", "\"page\"", "mapping"),
        "dftl" => {
            toml.key("map", "\"demand\"", "mapping = dftl");
            let size = all.take("mapping_cache_mb").map_or(Ok("4".into()), |size| whole(&size))?;
            toml.key("map_cache", &format!("\"{size}MiB\""), "mapping_cache_mb");
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
    toml.key("link_rate", &format!("\"{rate}MB/s\""), "pcie_bandwidth_mbps; 0: no time");
    let delay = all.number_or("pcie_prop_delay_ns", 0.0)?;
    toml.key("dma_latency", &format!("\"{delay}ns\""), "pcie_prop_delay_ns");
    let firmware = all.number_or("fw_cpu_ns", 0.0)?;
    toml.table("[drive.firmware]");
    toml.key("fetch.fixed", &format!("\"{firmware}ns\""), "fw_cpu_ns, for each command");
    toml.table("[drive.buffer]");
    toml.key("write", "\"write-through\"", "FEMU: a write ends with its program");
    Ok(())
}
