//! MQSim's two files: the drive (`Execution_Parameter_Set`) and the work (`MQSim_IO_Scenarios`).
//!
//! Names and units are those of MQSim's README. What a parameter of MQSim makes there and nothing makes here is listed with its reason.

use super::xml::{Element, parse};
use super::{
    Imported, Left, Parameter, Parameters, Toml, count, entries, number, placement, positive, refused, share,
    truth, whole, within, word,
};

/// Bytes of MQSim's sectors.
const SECTOR_BYTES: u64 = 512;

/// MQSim's default of Static_Wearleveling_Threshold, in erasures.
const STATIC_GAP: &str = "100";

/// Parameters of the drive without a counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("Enable_ResponseTime_Logging", "--log writes one line per request"),
    ("ResponseTime_Logging_Period_Length", "reports have series over time of their own"),
    ("Enabled_Preconditioning", "decides with Initial_Occupancy_Percentage whether precondition.fill is set"),
    (
        "Initial_Occupancy_Percentage",
        "Enabled_Preconditioning is false and nothing reads: writes begin on an empty drive",
    ),
    ("SATA_Processing_Delay", "drive.host.fetch is the nearest: time before the firmware sees a command"),
    ("Caching_Mechanism", "drive.buffer is the cache there is"),
    ("Generated_Aligned_Addresses", "counts with true only"),
    ("Address_Alignment_Unit", "counts with Generated_Aligned_Addresses only"),
    ("Memory_Type", "FLASH is all that is modelled"),
    ("Queue_Fetch_Size", "fetching has no such limit; drive.host.commands limits commands at work"),
    ("Data_Cache_Sharing_Mode", "the buffer is shared by all commands"),
    ("Data_Cache_DRAM_Row_Size", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_Data_Rate", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_Data_Busrt_Size", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_Data_Burst_Size", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_tRCD", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_tCL", "time of the buffer's memory is not modelled"),
    ("Data_Cache_DRAM_tRP", "time of the buffer's memory is not modelled"),
    ("CMT_Capacity", "an ideal table needs no cache"),
    ("CMD_Suspension_Support", "nothing is suspended"),
    ("Suspend_Program_Time", "nothing is suspended"),
    ("Suspend_Erase_Time", "nothing is suspended"),
    ("Percentage_of_Hot_Region", "counts with RANDOM_HOTCOLD only"),
    ("Request_Size_Distribution", "all requests have the mean size"),
    ("Variance_Request_Size", "all requests have the mean size"),
    ("Average_No_of_Reqs_in_Queue", "counts with QUEUE_DEPTH only"),
    ("Intensity", "counts with BANDWIDTH only"),
    ("Bandwidth", "counts with BANDWIDTH only"),
    ("Stop_Time", "0 ends nothing"),
    ("Total_Requests_To_Generate", "0 ends nothing"),
    ("CMT_Sharing_Mode", "the cached table is shared"),
    (
        "Transaction_Scheduling_Policy",
        "drive.scheduler.order and .suspend are the nearest; set them as you need",
    ),
    ("GC_Exec_Threshold", "GC starts by blocks of a die, drive.ftl.gc_low, not by a share"),
    ("GC_Hard_Threshold", "GC has one threshold, drive.ftl.gc_low"),
    ("Preemptible_GC_Enabled", "drive.ftl.gc_pacing is the nearest"),
    (
        "Preferred_suspend_erase_time_for_read",
        "operations are suspended at once; see drive.scheduler.suspend_gap",
    ),
    ("Preferred_suspend_erase_time_for_write", "nothing is suspended for a write"),
    (
        "Preferred_suspend_write_time_for_read",
        "operations are suspended at once; see drive.scheduler.suspend_gap",
    ),
    ("Flash_Comm_Protocol", "only the rate of the channel counts"),
    ("Page_Read_Latency_CSB", "cells of two bits have none"),
    ("Page_Program_Latency_CSB", "cells of two bits have none"),
    ("Page_Read_Latency_MSB", "cells of one bit have none"),
    ("Page_Program_Latency_MSB", "cells of one bit have none"),
    ("Priority_Class", "queues have weights, drive.host.weights"),
    ("Device_Level_Data_Caching_Mode", "drive.buffer.write is for all work of a drive"),
    ("Channel_IDs", "work goes to all channels; a namespace or a target can have some of them"),
    ("Chip_IDs", "work goes to all ways; a namespace or a target can have some of them"),
    ("Die_IDs", "work goes to all dies; a namespace or a target can have some of them"),
    ("Plane_IDs", "work goes to all planes"),
];

/// Collects the parameters of an element, and of elements in it that are `groups`.
fn parameters(element: &Element, groups: &[&str]) -> Result<Parameters, String> {
    let mut found = Parameters::of("MQSim", element.line);
    collect(element, groups, &mut found)?;
    Ok(found)
}

fn collect(element: &Element, groups: &[&str], found: &mut Parameters) -> Result<(), String> {
    for child in &element.children {
        if groups.contains(&child.name.as_str()) {
            collect(child, groups, found)?;
        } else {
            found.add(&child.name, &child.text, child.line)?;
        }
    }
    Ok(())
}

/// A drive and its work. `drive` and `work` are the texts of the files, `name` what the drive is called.
///
/// # Errors
/// A sentence that begins with the line, as `LINE: why`, where there is one; the first of the pair is the file, 0 the drive and 1 the work.
pub fn import(drive: &str, work: &str, name: &str) -> Result<Imported, (usize, String)> {
    let mut imported = Imported::default();
    let mut toml = Toml::default();
    let fills = one_drive(drive, name, &mut toml, &mut imported).map_err(|why| (0, why))?;
    one_work(work, fills, &mut toml, &mut imported).map_err(|why| (1, why))?;
    imported.toml = toml.0;
    Ok(imported)
}

/// Returns whether the drive is filled before the work.
fn one_drive(text: &str, name: &str, toml: &mut Toml, imported: &mut Imported) -> Result<bool, String> {
    let root = parse(text)?;
    if root.name != "Execution_Parameter_Set" {
        return Err(format!("{}: <{}>: allowed: Execution_Parameter_Set of MQSim", root.line, root.name));
    }
    let groups = ["Host_Parameter_Set", "Device_Parameter_Set", "Flash_Parameter_Set"];
    let mut all = parameters(&root, &groups)?;
    toml.table("[drive]");
    toml.key("name", &format!("{name:?}"), "the file's name");
    media(&mut all, toml)?;
    translation(&mut all, toml)?;
    controller(&mut all, toml)?;
    let fills = all.get("Enabled_Preconditioning").map_or(Ok(true), truth)?;
    imported.took(all, WITHOUT, 0, 0..toml.lines());
    Ok(fills)
}

fn media(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.media]");
    for (key, from) in [
        ("channels", "Flash_Channel_Count"),
        ("ways", "Chip_No_Per_Channel"),
        ("dies", "Die_No_Per_Chip"),
        ("planes", "Plane_No_Per_Die"),
        ("blocks", "Block_No_Per_Plane"),
        ("pages", "Page_No_Per_Block"),
    ] {
        toml.key(key, &format!("{}", all.number(from)?), from);
    }
    let page = all.number("Page_Capacity")?;
    toml.key("page_size", &format!("{page}"), "Page_Capacity");
    if let Some(spare) = all.take("Page_Metadat_Capacity") {
        toml.key("spare_size", &whole(&spare)?, "Page_Metadat_Capacity");
    }
    toml.key("sector_size", &SECTOR_BYTES.to_string(), "MQSim: sectors of 512 bytes");
    toml.key("unit_size", &format!("{page}"), "MQSim: pages are mapped");
    let cell = all.need("Flash_Technology")?;
    let pages: &[&str] = match cell.value.as_str() {
        "SLC" => &["LSB"],
        "MLC" => &["LSB", "MSB"],
        "TLC" => &["LSB", "CSB", "MSB"],
        _ => return Err(refused(&cell, "SLC, MLC, TLC")),
    };
    toml.key("cell", &format!("{:?}", cell.value.to_lowercase()), "Flash_Technology");
    if let Some(cycles) = all.take("Block_PE_Cycles_Limit") {
        toml.key("endurance", &whole(&cycles)?, "Block_PE_Cycles_Limit");
    }
    if let Some(seed) = all.take("Seed") {
        toml.key("seed", &whole(&seed)?, "Seed");
    }
    timing(all, toml, pages)
}

fn timing(all: &mut Parameters, toml: &mut Toml, pages: &[&str]) -> Result<(), String> {
    toml.table("[drive.media.timing]");
    for (key, prefix) in [("read", "Page_Read_Latency"), ("program", "Page_Program_Latency")] {
        let times = pages.iter().map(|page| all.number(&format!("{prefix}_{page}")));
        let times: Vec<f64> = times.collect::<Result<_, String>>()?;
        let texts: Vec<String> = times.iter().map(|ns| format!("\"{ns}ns\"")).collect();
        toml.key(key, &format!("[{}]", texts.join(", ")), &format!("{prefix}_*"));
    }
    toml.key("erase", &format!("\"{}ns\"", all.number("Block_Erase_Latency")?), "Block_Erase_Latency");
    // MT/s and bytes of width.
    let width = all.number("Flash_Channel_Width")?;
    let rate = all.number("Channel_Transfer_Rate")?;
    let from = "Channel_Transfer_Rate x Flash_Channel_Width";
    toml.key("channel_rate", &format!("\"{}MB/s\"", rate * width), from);
    let suspends = match all.get("CMD_Suspension_Support") {
        Some(support) => word(support, &["NONE", "PROGRAM", "PROGRAM_ERASE", "ERASE"])? != "NONE",
        None => false,
    };
    if suspends {
        let (program, erase) = (all.need("Suspend_Program_Time")?, all.need("Suspend_Erase_Time")?);
        let support = all.take("CMD_Suspension_Support").map_or(String::new(), |support| support.value);
        toml.key("suspend", &format!("\"{}ns\"", whole(&program)?), "Suspend_Program_Time");
        toml.key("suspend_erase", &format!("\"{}ns\"", whole(&erase)?), "Suspend_Erase_Time");
        toml.table("[drive.scheduler]");
        toml.key("order", "\"read-first\"", "as suspended operations need");
        toml.key(
            "suspend",
            "true",
            &format!("CMD_Suspension_Support = {support}, here for programs and erases"),
        );
    }
    Ok(())
}

fn translation(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.ftl]");
    if let Some(mapping) = all.take("Address_Mapping")
        && mapping.value != "PAGE_LEVEL"
    {
        return Err(refused(&mapping, "PAGE_LEVEL"));
    }
    let table = all.from("Ideal_Mapping_Table");
    let ideal = all.take("Ideal_Mapping_Table").map_or(Ok(false), |ideal| truth(&ideal))?;
    let capacity = if ideal { None } else { all.take("CMT_Capacity") };
    let flash_map = capacity.is_some();
    match capacity {
        Some(capacity) => {
            toml.key("map", "\"demand\"", &format!("{table} = false"));
            toml.key("map_cache", &whole(&capacity)?, "CMT_Capacity");
        }
        None if ideal => toml.key("map", "\"page\"", "Ideal_Mapping_Table = true"),
        None => toml.key("map", "\"page\"", "no CMT_Capacity: all of the table is in memory"),
    }
    if let Some(ratio) = all.take("Overprovisioning_Ratio") {
        // There a share of the whole flash, here of what the host sees.
        let of_all = number(&ratio)?;
        if of_all >= 1.0 {
            return Err(refused(&ratio, "below 1"));
        }
        let from = format!("Overprovisioning_Ratio {of_all} of all");
        toml.key("over_provisioning", &share(of_all / (1.0 - of_all)), &from);
    }
    if let Some(policy) = all.take("GC_Block_Selection_Policy") {
        let (victim, more) = match policy.value.as_str() {
            "GREEDY" => ("greedy", ""),
            "FIFO" => ("fifo", ""),
            "RGA" => ("d-choices:8", ", here of 8"),
            "RANDOM" | "RANDOM_P" | "RANDOM_PP" => ("random", ", here of all blocks"),
            _ => return Err(refused(&policy, "GREEDY, RGA, RANDOM, RANDOM_P, RANDOM_PP, FIFO")),
        };
        let from = format!("GC_Block_Selection_Policy = {}{more}", policy.value);
        toml.key("victim", &format!("{victim:?}"), &from);
    }
    if let Some(scheme) = all.take("Plane_Allocation_Scheme") {
        let from = format!("Plane_Allocation_Scheme = {}", scheme.value);
        toml.key("placement", &format!("{:?}", placement(&scheme)?), &from);
    }
    if let Some(copyback) = all.take("Use_Copyback_for_GC") {
        toml.key("copyback", &truth(&copyback)?.to_string(), "Use_Copyback_for_GC");
    }
    if let Some(dynamic) = all.take("Dynamic_Wearleveling_Enabled") {
        toml.key("wear.dynamic", &truth(&dynamic)?.to_string(), "Dynamic_Wearleveling_Enabled");
    }
    let default_gap = all.from("Static_Wearleveling_Threshold");
    let (enabled, gap) = (all.take("Static_Wearleveling_Enabled"), all.take("Static_Wearleveling_Threshold"));
    match (enabled.as_ref().map(truth).transpose()?, gap) {
        (Some(false), _) => {
            toml.key("wear.static_gap", "\"never\"", "Static_Wearleveling_Enabled = false");
        }
        (_, Some(gap)) => toml.key("wear.static_gap", &whole(&gap)?, "Static_Wearleveling_Threshold"),
        (Some(true), None) => toml.key("wear.static_gap", STATIC_GAP, &default_gap),
        (None, None) => {}
    }
    if flash_map {
        toml.key("durability", "\"journal\"", "as a map in flash needs; MQSim writes no journal");
    } else {
        toml.key("durability", "\"volatile\"", "MQSim writes no journal");
    }
    Ok(())
}

fn controller(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    toml.table("[drive.host]");
    // GB/s of a lane.
    let (lane, lanes) =
        (positive(&all.need("PCIe_Lane_Bandwidth")?)?, count(&all.need("PCIe_Lane_Count")?)? as f64);
    let rate = (lane * lanes * 1e9).round();
    toml.key("link_rate", &format!("\"{rate}B/s\""), "PCIe_Lane_Bandwidth x PCIe_Lane_Count");
    if let Some(kind) = all.take("HostInterface_Type") {
        let queues = if word(&kind, &["NVME", "SATA"])? == "SATA" { "1" } else { "8" };
        toml.key("queues", queues, &format!("HostInterface_Type = {}", kind.value));
    }
    if let Some(depth) = all.take("IO_Queue_Depth") {
        toml.key("commands", &count(&depth)?.to_string(), "IO_Queue_Depth");
    }
    if let (Some(capacity), Some(page)) = (all.take("Data_Cache_Capacity"), written(toml, "page_size")) {
        let entries = entries(&capacity, page)?;
        let planes: f64 =
            ["channels", "ways", "dies", "planes"].iter().filter_map(|key| written(toml, key)).product();
        toml.table("[drive.buffer]");
        toml.key(
            "entries",
            &format!("{entries}"),
            &format!("Data_Cache_Capacity {} in pages", capacity.value),
        );
        // MQSim gives a slot to the next write as soon as its data are on their way, for as many pages as it has planes.
        let dirty = (1.0 - planes / entries).max(0.0);
        toml.key("dirty_high", &share(dirty), "MQSim: a page of each plane is on its way to flash");
    }
    Ok(())
}

/// The number of a key of the drive, as it was written.
fn written(toml: &Toml, key: &str) -> Option<f64> {
    let line = toml.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn one_work(text: &str, fills: bool, toml: &mut Toml, imported: &mut Imported) -> Result<(), String> {
    let root = parse(text)?;
    if root.name != "MQSim_IO_Scenarios" {
        return Err(format!("{}: <{}>: allowed: MQSim_IO_Scenarios of MQSim", root.line, root.name));
    }
    let Some((scenario, others)) = root.children.split_first() else {
        return Err(format!("{}: no IO_Scenario", root.line));
    };
    for other in others {
        let parameter = Parameter { name: other.name.clone(), value: "...".into(), line: other.line };
        imported
            .left
            .push(Left { parameter, why: "only the first scenario is taken; a file for each of the others" });
    }
    let is_trace = |flow: &&Element| flow.name == "IO_Flow_Parameter_Set_Trace_Based";
    let traces = scenario.children.iter().filter(is_trace).count();
    if traces > 0 && scenario.children.len() > 1 {
        return Err(format!(
            "{}: a trace beside other work; allowed: one trace, or synthetic flows",
            scenario.line
        ));
    }
    // MQSim reads pages that nothing has written, as if they were full; here they cost nothing.
    let mut reading = false;
    for flow in &scenario.children {
        reading |= reads(flow)?;
    }
    let fills = fills || reading;
    if fills {
        fill(scenario, toml)?;
    }
    for (at, flow) in scenario.children.iter().enumerate() {
        let begin = toml.lines();
        let mut all = parameters(flow, &[])?;
        if fills {
            all.take("Initial_Occupancy_Percentage");
        }
        match flow.name.as_str() {
            "IO_Flow_Parameter_Set_Trace_Based" => trace(&mut all, toml)?,
            "IO_Flow_Parameter_Set_Synthetic" => job(&mut all, at, toml)?,
            other => return Err(format!("{}: <{other}>: not a flow of MQSim", flow.line)),
        }
        imported.took(all, WITHOUT, 1, begin..toml.lines());
    }
    Ok(())
}

/// Tells whether a flow reads, or may.
fn reads(flow: &Element) -> Result<bool, String> {
    let all = parameters(flow, &[])?;
    Ok(all.get("Read_Percentage").is_none_or(|reads| number(reads) != Ok(0.0)))
}

fn fill(scenario: &Element, toml: &mut Toml) -> Result<(), String> {
    let mut most: f64 = 0.0;
    for flow in &scenario.children {
        if let Some(filled) = parameters(flow, &[])?.take("Initial_Occupancy_Percentage") {
            most = most.max(within(&filled, 0.0, 100.0, " %")?);
        }
    }
    if most > 0.0 {
        toml.table("[precondition]");
        toml.key("fill", &share(most / 100.0), "Initial_Occupancy_Percentage, the most of all flows");
    }
    Ok(())
}

fn trace(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    toml.table("[run]");
    let path = all.need("File_Path")?;
    toml.key("trace", &format!("{:?}", path.value.replace('\\', "/")), "File_Path");
    toml.key("format", "\"mqsim\"", "a trace of MQSim");
    toml.key("address", "\"fold\"", "MQSim takes addresses modulo the drive");
    if let Some(times) = all.take("Relay_Count") {
        toml.key("repeat", &count(&times)?.to_string(), "Relay_Count");
    }
    if let Some(unit) = all.take("Time_Unit") {
        let scale = match unit.value.as_str() {
            "PICOSECOND" => "1e-3",
            "NANOSECOND" => "1.0",
            "MICROSECOND" => "1000.0",
            _ => return Err(refused(&unit, "PICOSECOND, NANOSECOND, MICROSECOND")),
        };
        toml.key("time_scale", scale, &format!("Time_Unit = {}", unit.value));
    }
    Ok(())
}

fn job(all: &mut Parameters, at: usize, toml: &mut Toml) -> Result<(), String> {
    toml.table("[[job]]");
    toml.key("name", &format!("\"flow {at}\""), "IO_Flow_Parameter_Set_Synthetic");
    let reads = within(&all.need("Read_Percentage")?, 0.0, 100.0, " %")?;
    let distribution = all.need("Address_Distribution")?;
    let distribution = word(&distribution, &["STREAMING", "RANDOM_UNIFORM", "RANDOM_HOTCOLD"])?;
    let random = distribution != "STREAMING";
    let rw = match (random, reads) {
        (true, 0.0) => "randwrite",
        (true, 100.0) => "randread",
        (true, _) => "randrw",
        (false, 0.0) => "write",
        (false, 100.0) => "read",
        (false, _) => "rw",
    };
    let from = format!("Read_Percentage, Address_Distribution = {distribution}");
    toml.key("rw", &format!("{rw:?}"), &from);
    if reads > 0.0 && reads < 100.0 {
        toml.key("rwmixread", &format!("{reads}"), "Read_Percentage");
    }
    if distribution == "RANDOM_HOTCOLD" {
        let region = all.need("Percentage_of_Hot_Region")?;
        let hot = number(&region)?;
        if hot <= 0.0 || hot >= 100.0 {
            return Err(refused(&region, "above 0 and below 100, with RANDOM_HOTCOLD"));
        }
        let zones = format!("\"zoned:{}/{hot}:{hot}/{}\"", 100.0 - hot, 100.0 - hot);
        toml.key("random_distribution", &zones, "Percentage_of_Hot_Region");
    }
    size(all, toml)?;
    if let Some(percent) = all.take("Working_Set_Percentage") {
        let size = within(&percent, f64::MIN_POSITIVE, 100.0, " %");
        let size = size.map_err(|_| refused(&percent, "above 0, to 100"))?;
        toml.key("size", &format!("\"{size}%\""), "Working_Set_Percentage");
    }
    pace(all, toml)?;
    if let Some(seed) = all.take("Seed") {
        toml.key("randseed", &whole(&seed)?, "Seed");
    }
    end(all, toml)
}

fn size(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    let sectors = count(&all.need("Average_Request_Size")?)?;
    let from = "Average_Request_Size in sectors of 512 bytes";
    toml.key("bs", &sectors.saturating_mul(SECTOR_BYTES).to_string(), from);
    if all.get("Generated_Aligned_Addresses").map_or(Ok(false), truth)?
        && let Some(unit) = all.take("Address_Alignment_Unit")
    {
        all.take("Generated_Aligned_Addresses");
        let unit = count(&unit)?.saturating_mul(SECTOR_BYTES);
        toml.key("blockalign", &format!("{unit}"), "Address_Alignment_Unit in sectors of 512 bytes");
    }
    if let Some(kind) = all.get("Request_Size_Distribution")
        && word(kind, &["FIXED", "NORMAL"])? == "FIXED"
    {
        all.take("Request_Size_Distribution");
    }
    Ok(())
}

fn pace(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    let kind = all.take("Synthetic_Generator_Type");
    let kinds = ["QUEUE_DEPTH", "BANDWIDTH"];
    if kind.map_or(Ok(kinds[0]), |kind| word(&kind, &kinds))? == "QUEUE_DEPTH" {
        let depth = count(&all.need("Average_No_of_Reqs_in_Queue")?)?;
        toml.key("iodepth", &depth.to_string(), "Average_No_of_Reqs_in_Queue");
        return Ok(());
    }
    let rate = all.take("Bandwidth").or_else(|| all.take("Intensity"));
    let rate = rate.map_or_else(|| all.need("Bandwidth"), Ok)?;
    toml.key("rate", &within(&rate, 1.0, f64::INFINITY, " bytes/s")?.to_string(), &rate.name);
    toml.key("rate_process", "\"poisson\"", "MQSim: exponential gaps");
    toml.key("iodepth", "65536", "MQSim: no limit of outstanding requests");
    Ok(())
}

fn end(all: &mut Parameters, toml: &mut Toml) -> Result<(), String> {
    for (name, key) in [("Total_Requests_To_Generate", "number_ios"), ("Stop_Time", "runtime")] {
        let Some(parameter) = all.get(name).cloned() else { continue };
        let limit = number(&parameter)?;
        if limit > 0.0 {
            all.take(name);
            let value = if key == "runtime" { format!("\"{limit}ns\"") } else { format!("{limit}") };
            toml.key(key, &value, name);
        }
    }
    Ok(())
}
