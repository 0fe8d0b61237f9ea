//! `pellucid import`: descriptions from the files of other simulators.

use crate::common::Folder;

const DRIVE: &str = "<?xml version=\"1.0\" encoding=\"us-ascii\"?>
<Execution_Parameter_Set>
<Host_Parameter_Set>
<PCIe_Lane_Bandwidth>1.000000</PCIe_Lane_Bandwidth>
<PCIe_Lane_Count>4</PCIe_Lane_Count>
<Enable_ResponseTime_Logging>true</Enable_ResponseTime_Logging>
</Host_Parameter_Set>
<Device_Parameter_Set>
<Seed>321</Seed>
<HostInterface_Type>NVME</HostInterface_Type>
<IO_Queue_Depth>65535</IO_Queue_Depth>
<Data_Cache_Capacity>8388608</Data_Cache_Capacity>
<Address_Mapping>PAGE_LEVEL</Address_Mapping>
<Ideal_Mapping_Table>true</Ideal_Mapping_Table>
<CMT_Capacity>2097152</CMT_Capacity>
<Plane_Allocation_Scheme>CWDP</Plane_Allocation_Scheme>
<Overprovisioning_Ratio>0.2</Overprovisioning_Ratio>
<GC_Exec_Threshold>0.05</GC_Exec_Threshold>
<GC_Block_Selection_Policy>RGA</GC_Block_Selection_Policy>
<Use_Copyback_for_GC>false</Use_Copyback_for_GC>
<Dynamic_Wearleveling_Enabled>true</Dynamic_Wearleveling_Enabled>
<Static_Wearleveling_Enabled>true</Static_Wearleveling_Enabled>
<Static_Wearleveling_Threshold>100</Static_Wearleveling_Threshold>
<Flash_Channel_Count>2</Flash_Channel_Count>
<Flash_Channel_Width>1</Flash_Channel_Width>
<Channel_Transfer_Rate>333</Channel_Transfer_Rate>
<Chip_No_Per_Channel>2</Chip_No_Per_Channel>
<Made_Up>7</Made_Up>
<Flash_Parameter_Set>
<Flash_Technology>MLC</Flash_Technology>
<CMD_Suspension_Support>ERASE</CMD_Suspension_Support>
<Page_Read_Latency_LSB>75000</Page_Read_Latency_LSB>
<Page_Read_Latency_CSB>75000</Page_Read_Latency_CSB>
<Page_Read_Latency_MSB>90000</Page_Read_Latency_MSB>
<Page_Program_Latency_LSB>750000</Page_Program_Latency_LSB>
<Page_Program_Latency_CSB>750000</Page_Program_Latency_CSB>
<Page_Program_Latency_MSB>950000</Page_Program_Latency_MSB>
<Block_Erase_Latency>3800000</Block_Erase_Latency>
<Block_PE_Cycles_Limit>10000</Block_PE_Cycles_Limit>
<Suspend_Erase_Time>700000</Suspend_Erase_Time>
<Suspend_Program_Time>100000</Suspend_Program_Time>
<Die_No_Per_Chip>1</Die_No_Per_Chip>
<Plane_No_Per_Die>2</Plane_No_Per_Die>
<Block_No_Per_Plane>64</Block_No_Per_Plane>
<Page_No_Per_Block>64</Page_No_Per_Block>
<Page_Capacity>8192</Page_Capacity>
<Page_Metadat_Capacity>448</Page_Metadat_Capacity>
</Flash_Parameter_Set>
</Device_Parameter_Set>
</Execution_Parameter_Set>
";

const FLOW: &str = "<MQSim_IO_Scenarios>
<IO_Scenario>
<IO_Flow_Parameter_Set_Synthetic>
<Priority_Class>HIGH</Priority_Class>
<Channel_IDs>0,1</Channel_IDs>
<Initial_Occupancy_Percentage>75</Initial_Occupancy_Percentage>
<Working_Set_Percentage>50</Working_Set_Percentage>
<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type>
<Read_Percentage>30</Read_Percentage>
<Address_Distribution>RANDOM_UNIFORM</Address_Distribution>
<Percentage_of_Hot_Region>0</Percentage_of_Hot_Region>
<Request_Size_Distribution>FIXED</Request_Size_Distribution>
<Average_Request_Size>16</Average_Request_Size>
<Variance_Request_Size>0</Variance_Request_Size>
<Seed>798</Seed>
<Average_No_of_Reqs_in_Queue>16</Average_No_of_Reqs_in_Queue>
<Intensity>32768</Intensity>
<Stop_Time>0</Stop_Time>
<Total_Requests_To_Generate>500</Total_Requests_To_Generate>
</IO_Flow_Parameter_Set_Synthetic>
</IO_Scenario>
<IO_Scenario></IO_Scenario>
</MQSim_IO_Scenarios>
";

#[test]
fn a_drive_and_work_of_mqsim_become_a_description_that_runs() {
    let folder = Folder::new();
    folder.write("ssdconfig.xml", DRIVE);
    folder.write("workload.xml", FLOW);
    let done = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-o", "mine.toml"]);
    let left: Vec<&str> = done.stderr.lines().collect();
    assert_eq!((done.status, left.len()), (0, 13), "{}", done.stderr);
    assert!(left.contains(&"no counterpart: line 28: Made_Up = 7: not known to the import"), "{left:?}");
    assert!(
        left.iter()
            .any(|line| line.starts_with("no counterpart: line 6: Enable_ResponseTime_Logging = true: "))
    );
    let text = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    for line in [
        "page_size = 8192",
        "channel_rate = \"333MB/s\"",
        "read = [\"75000ns\", \"90000ns\"]",
        "over_provisioning = \"25%\"",
        "victim = \"d-choices:8\"",
        "entries = 1024",
        // 8 planes.
        "dirty_high = \"99.2188%\"",
        "rw = \"randrw\"",
        "bs = 8192",
        "number_ios = 500",
        "fill = \"75%\"",
        "#   line 28: Made_Up = 7: not known to the import",
    ] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    let report = folder.run(&["run", "mine.toml", "--json"]).json();
    assert_eq!(report["requests"], 500);
    assert_eq!(report["drive"]["name"], "ssdconfig");
    // It replaces what it made, and nothing else.
    folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-o", "mine.toml", "-q"]).answer();
    folder.write("mine.toml", "[drive]\n");
    assert_eq!(
        folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-o", "mine.toml"]).status,
        2
    );
}

/// MQSim's own example has a cached table, which is a map in flash here.
#[test]
fn a_drive_of_mqsim_with_a_cached_table_runs() {
    let folder = Folder::new();
    folder.write("ssdconfig.xml", &DRIVE.replace("<Ideal_Mapping_Table>true", "<Ideal_Mapping_Table>false"));
    folder.write("workload.xml", FLOW);
    folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-o", "mine.toml", "-q"]).answer();
    let text = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    assert!(text.contains("\nmap_cache = 2097152") && text.contains("\ndurability = \"journal\""), "{text}");
    assert_eq!(folder.run(&["run", "mine.toml", "--json"]).json()["requests"], 500);
}

/// Without preconditioning, MQSim writes on an empty drive; what is read is there in any case.
#[test]
fn a_drive_of_mqsim_is_filled_where_mqsim_has_data() {
    let folder = Folder::new();
    let off = DRIVE.replace("<Seed>321", "<Enabled_Preconditioning>false</Enabled_Preconditioning><Seed>321");
    let writes = FLOW.replace(
        "<Read_Percentage>30<",
        "<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses>\
         <Address_Alignment_Unit>32</Address_Alignment_Unit><Read_Percentage>0<",
    );
    for (drive, work, fills) in
        [(DRIVE, FLOW, true), (DRIVE, &writes, true), (&off, FLOW, true), (&off, &writes, false)]
    {
        folder.write("ssdconfig.xml", drive);
        folder.write("workload.xml", work);
        let text = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-q"]).answer();
        assert_eq!(text.contains("\nfill = \"75%\""), fills, "{text}");
        assert_eq!(text.contains(": Initial_Occupancy_Percentage = 75: "), !fills, "{text}");
        assert_eq!(text.contains("\nblockalign = 16384"), work == writes, "{text}");
    }
}

#[test]
fn a_trace_of_mqsim_becomes_a_replay() {
    let folder = Folder::new();
    folder.write("ssdconfig.xml", DRIVE);
    folder.write(
        "workload.xml",
        "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based><File_Path>a\\b.trace</File_Path>\
         <Relay_Count>2</Relay_Count><Time_Unit>MICROSECOND</Time_Unit><Percentage_To_Be_Executed>100</Percentage_To_Be_Executed>\
         </IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>",
    );
    let text = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-q"]).answer();
    for line in ["trace = \"a/b.trace\"", "repeat = 2", "time_scale = 1000.0", "format = \"mqsim\""] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    assert!(text.contains("Percentage_To_Be_Executed = 100"), "{text}");
}

#[test]
fn files_that_are_none_of_mqsim_are_refused_with_their_line() {
    let folder = Folder::new();
    folder.write("workload.xml", FLOW);
    for (drive, said) in [
        ("", "ssdconfig.xml:1: no element"),
        ("<a></a>", "ssdconfig.xml:1: <a>: allowed: Execution_Parameter_Set of MQSim"),
        (
            "<Execution_Parameter_Set></Execution_Parameter_Set>",
            "ssdconfig.xml:1: Flash_Channel_Count is missing",
        ),
        (&DRIVE.replace("MLC", "XLC"), "ssdconfig.xml:30: Flash_Technology = XLC: allowed: SLC, MLC, TLC"),
        (
            &DRIVE.replace("RGA", "BEST"),
            "ssdconfig.xml:19: GC_Block_Selection_Policy = BEST: allowed: GREEDY",
        ),
        (
            &DRIVE.replace("Plane>64<", "Plane>0<"),
            "ssdconfig.xml:44: Block_No_Per_Plane = 0: becomes drive.media.blocks = 0: not allowed",
        ),
    ] {
        folder.write("ssdconfig.xml", drive);
        let done = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
    folder.write("ssdconfig.xml", DRIVE);
    let done = folder.run(&["import", "mqsim", "ssdconfig.xml", "ssdconfig.xml"]);
    assert!(
        done.stderr.contains("ssdconfig.xml:2: <Execution_Parameter_Set>: allowed: MQSim_IO_Scenarios"),
        "{}",
        done.stderr
    );
}

/// Each of these was a default, or a description that `run` refused.
#[test]
fn values_of_mqsim_that_cannot_be_are_refused_with_what_is_allowed() {
    let folder = Folder::new();
    let twice = "<Flash_Channel_Count>2</Flash_Channel_Count>\n<Flash_Channel_Count>4</Flash_Channel_Count>";
    for (drive, from, to, said) in [
        (true, ">CWDP<", ">XYZ<", "ssdconfig.xml:16: Plane_Allocation_Scheme = XYZ: allowed: C, W, D and P"),
        (true, ">8388608<", ">0<", "ssdconfig.xml:12: Data_Cache_Capacity = 0: allowed: 8192 to "),
        (
            true,
            "Count>4<",
            "Count>0<",
            "ssdconfig.xml:5: PCIe_Lane_Count = 0: allowed: a whole number from 1",
        ),
        (
            true,
            "<Suspend_Erase_Time>700000</Suspend_Erase_Time>\n",
            "",
            "ssdconfig.xml:2: Suspend_Erase_Time is missing",
        ),
        (true, ">65535<", ">0<", "ssdconfig.xml:11: IO_Queue_Depth = 0: allowed: a whole number from 1"),
        (true, "GC>false<", "GC>no<", "ssdconfig.xml:20: Use_Copyback_for_GC = no: allowed: true, false"),
        (true, ">NVME<", ">USB<", "ssdconfig.xml:10: HostInterface_Type = USB: allowed: NVME, SATA"),
        (true, ">ERASE<", ">ALL<", "CMD_Suspension_Support = ALL: allowed: NONE, PROGRAM, "),
        (
            true,
            "<Flash_Channel_Count>2</Flash_Channel_Count>",
            twice,
            "ssdconfig.xml:25: Flash_Channel_Count: given twice, in lines 24 and 25; allowed: once",
        ),
        (false, ">30<", ">130<", "workload.xml:9: Read_Percentage = 130: allowed: 0 to 100 %"),
        (
            false,
            ">RANDOM_UNIFORM<",
            ">ODD<",
            "Address_Distribution = ODD: allowed: STREAMING, RANDOM_UNIFORM",
        ),
        (false, ">RANDOM_UNIFORM<", ">RANDOM_HOTCOLD<", "Percentage_of_Hot_Region = 0: allowed: above 0"),
        (false, ">QUEUE_DEPTH<", ">ODD<", "Synthetic_Generator_Type = ODD: allowed: QUEUE_DEPTH, BANDWIDTH"),
        (false, "Queue>16<", "Queue>0<", "Average_No_of_Reqs_in_Queue = 0: allowed: a whole number from 1"),
        (false, "Size>16<", "Size>0<", "Average_Request_Size = 0: allowed: a whole number from 1"),
        (false, ">50<", ">0<", "Working_Set_Percentage = 0: allowed: above 0, to 100"),
        (false, ">75<", ">175<", "Initial_Occupancy_Percentage = 175: allowed: 0 to 100 %"),
        (false, ">FIXED<", ">ODD<", "Request_Size_Distribution = ODD: allowed: FIXED, NORMAL"),
        (
            false,
            "Size>16<",
            "Size>9999999999<",
            "workload.xml:13: Average_Request_Size = 9999999999: becomes bs = 5119999999488: allowed: at most",
        ),
        (
            false,
            ">500<",
            ">5.5<",
            "workload.xml:19: Total_Requests_To_Generate = 5.5: becomes number_ios = 5.5: ",
        ),
        (false, "<Read_Percentage>30</Read_Percentage>\n", "", "workload.xml:3: Read_Percentage is missing"),
    ] {
        let (config, work) = if drive {
            (DRIVE.replace(from, to), FLOW.into())
        } else {
            (DRIVE.into(), FLOW.replace(from, to))
        };
        assert!(config != DRIVE || work != FLOW, "{from}");
        folder.write("ssdconfig.xml", &config);
        folder.write("workload.xml", &work);
        let done = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{said}: {}", done.stderr);
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
}

/// One of two parameters that go together counts alone, too.
#[test]
fn wear_levelling_of_mqsim_is_imported_without_its_threshold() {
    let folder = Folder::new();
    folder.write("workload.xml", FLOW);
    let alone = DRIVE.replace("<Static_Wearleveling_Threshold>100</Static_Wearleveling_Threshold>\n", "");
    let off = alone.replace("Static_Wearleveling_Enabled>true", "Static_Wearleveling_Enabled>false");
    for (drive, gap, from) in [
        (&alone, "100 ", "# MQSim's default of Static_Wearleveling_Threshold\n"),
        (&off, "\"never\"", "# Static_Wearleveling_Enabled = false\n"),
    ] {
        folder.write("ssdconfig.xml", drive);
        let text = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml", "-q"]).answer();
        assert!(text.contains(&format!("\nwear.static_gap = {gap}")) && text.contains(from), "{text}");
    }
}

/// The subsystem beside it is no second device; its options are listed.
#[test]
fn a_script_of_femu_with_a_subsystem_is_imported() {
    let folder = Folder::new();
    let script =
        FEMU.replace("./qemu-system-x86_64", "./qemu-system-x86_64 -device femu-subsys,id=s0,fdp.nruh=8");
    folder.write("black-box.sh", &script);
    let done = folder.run(&["import", "femu", "black-box.sh", "-o", "mine.toml"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    for said in
        ["line 16: femu-subsys.id = s0: a name", "line 16: femu-subsys.fdp.nruh = 8: placement handles"]
    {
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
}

/// The flow with the refused value is named, of several.
#[test]
fn a_refused_key_of_a_second_flow_is_named_with_its_line() {
    let folder = Folder::new();
    folder.write("ssdconfig.xml", DRIVE);
    let begin = FLOW.find("<IO_Flow").unwrap();
    let end = FLOW.find("</IO_Scenario>").unwrap();
    let second = FLOW[begin..end].replace("Queue>16<", "Queue>70000<");
    folder.write("workload.xml", &format!("{}{second}{}", &FLOW[..end], &FLOW[end..]));
    let done = folder.run(&["import", "mqsim", "ssdconfig.xml", "workload.xml"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    let said = "workload.xml:34: Average_No_of_Reqs_in_Queue = 70000: becomes iodepth = 70000: allowed: ";
    assert!(done.stderr.contains(said), "{}", done.stderr);
}

/// A share above 300 % needs its percent sign.
#[test]
fn large_over_provisioning_is_imported() {
    let folder = Folder::new();
    folder.write("black-box.sh", &FEMU.replace("devsz_mb=192", "devsz_mb=16"));
    let text = folder.run(&["import", "femu", "black-box.sh", "-q"]).answer();
    assert!(text.contains("\nover_provisioning = \"1500%\""), "{text}");
}

/// Edits of an imported description are kept.
#[test]
fn an_edited_import_is_replaced_with_force_only() {
    let folder = Folder::new();
    folder.write("black-box.sh", FEMU);
    let import = ["import", "femu", "black-box.sh", "-q", "-o", "mine.toml"];
    folder.run(&import).answer();
    folder.run(&import).answer();
    let imported = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    let edited = imported.replace("\nchannels = 2", "\nchannels = 4");
    assert_ne!(imported, edited);
    folder.write("mine.toml", &edited);
    let done = folder.run(&import);
    assert!(
        done.status == 2 && done.stderr.contains("mine.toml: was edited after it was imported"),
        "{}",
        done.stderr
    );
    assert_eq!(std::fs::read_to_string(folder.path("mine.toml")).unwrap(), edited);
    folder.run(&[&import[..], &["--force"]].concat()).answer();
    assert_eq!(std::fs::read_to_string(folder.path("mine.toml")).unwrap(), imported);
}

/// A comment names the parameter of the file, or says that it is the other simulator's default.
#[test]
fn defaults_of_the_other_simulator_are_told_from_given_parameters() {
    let folder = Folder::new();
    folder.write("black-box.sh", "qemu -device femu,femu_mode=1,nchs=2,devsz_mb=900\n");
    let text = folder.run(&["import", "femu", "black-box.sh", "-q"]).answer();
    let comment = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).expect(key);
        line.split_once("# ").expect(key).1
    };
    for (key, said) in [
        ("channels", "nchs"),
        ("ways", "FEMU's default of luns_per_ch"),
        ("read", "FEMU's default of pg_rd_lat"),
        ("over_provisioning", "flash / devsz_mb - 1"),
        ("fetch.fixed", "FEMU's default of fw_cpu_ns, for each command"),
    ] {
        assert_eq!(comment(key), said);
    }
}

/// The answer names memory with which the import succeeds, and 1 MiB less does not.
#[test]
fn too_little_memory_for_nvmevirt_is_refused_with_what_is_enough() {
    let folder = Folder::new();
    folder.write("ssd_config.h", NVMEVIRT);
    let with = |memory: &str| {
        folder.run(&["import", "nvmevirt", "ssd_config.h", "--model", "SMALL", "--memory", memory])
    };
    let done = with("1MiB");
    assert_eq!(done.status, 2, "{}", done.stderr);
    let (_, least) = done.stderr.split_once("--memory 1MiB: too small for SMALL").expect("the option");
    let least: u64 = least
        .split_once("allowed: at least ")
        .and_then(|(_, it)| it.split_once("MiB"))
        .unwrap()
        .0
        .parse()
        .unwrap();
    assert!(least > 1);
    assert_eq!(with(&format!("{least}MiB")).status, 0);
    assert_eq!(with(&format!("{}MiB", least - 1)).status, 2);
}

const FEMU: &str = "#!/bin/bash
# A comment with pg_rd_lat=1
IMGDIR=$HOME/images
secs_per_pg=8 # sectors of a page
nchs=2
blks=64
read_ns=45000

FEMU_OPTIONS=\"-device femu\"
FEMU_OPTIONS=${FEMU_OPTIONS}\",devsz_mb=192,femu_mode=1\"
FEMU_OPTIONS=${FEMU_OPTIONS}\",secsz=512,secs_per_pg=${secs_per_pg}\"
FEMU_OPTIONS=${FEMU_OPTIONS}\",pgs_per_blk=64,blks_per_pl=$blks,pls_per_lun=1,luns_per_ch=8,nchs=${nchs}\"
FEMU_OPTIONS=${FEMU_OPTIONS}\",pg_rd_lat=${read_ns},pg_wr_lat=200000,blk_er_lat=2000000,ch_xfer_lat=0\"
FEMU_OPTIONS=${FEMU_OPTIONS}\",gc_thres_pcent=75,gc_thres_pcent_high=95,gc_policy=d-choice,mapping=dftl\"

./qemu-system-x86_64 \\
    -m 4G \\
    ${FEMU_OPTIONS},fw_cpu_ns=1500,made_up=7 \\
    -nographic
";

#[test]
fn a_script_of_femu_becomes_a_drive_that_runs() {
    let folder = Folder::new();
    folder.write("black-box.sh", FEMU);
    let done = folder.run(&["import", "femu", "black-box.sh", "-o", "mine.toml"]);
    let left: Vec<&str> = done.stderr.lines().collect();
    assert_eq!((done.status, left.len()), (0, 3), "{}", done.stderr);
    assert_eq!(left[2], "no counterpart: line 16: made_up = 7: not known to the import");
    assert!(left[1].starts_with("no counterpart: line 13: ch_xfer_lat = 0: "), "{left:?}");
    let text = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    for line in [
        "channels = 2",
        "ways = 8",
        "blocks = 64",
        "page_size = 4096",
        "read = [\"45000ns\"]",
        // 256 MiB of flash for 192 MiB.
        "over_provisioning = \"33.3333%\"",
        "victim = \"d-choices:2\"",
        "map_cache = \"4MiB\"",
        "gc_low = 3",
        "gc_high = 16",
        "fetch.fixed = \"1500ns\"",
        "#   line 16: made_up = 7: not known to the import",
    ] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    let report = folder
        .run(&["run", "mine.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "500", "--json"])
        .json();
    assert_eq!(
        (report["requests"].clone(), report["drive"]["name"].clone()),
        (500.into(), "black-box".into())
    );
}

#[test]
fn a_script_that_is_none_of_femu_s_black_box_is_refused() {
    let folder = Folder::new();
    for (script, said) in [
        ("echo\n", "black-box.sh: no option of \"-device femu\""),
        (&FEMU.replace("femu_mode=1", "femu_mode=3"), "black-box.sh:10: femu_mode = 3: allowed: 1"),
        (
            &FEMU.replace(",femu_mode=1", ""),
            "black-box.sh: no femu_mode: FEMU then adds no latency; allowed: femu_mode=1",
        ),
        (
            &FEMU.replace("read_ns=45000", ""),
            "black-box.sh:13: pg_rd_lat = ${read_ns}: allowed: a number from 0",
        ),
        (
            &FEMU.replace("devsz_mb=192", "devsz_mb=300"),
            "black-box.sh:10: devsz_mb = 300: allowed: above 0, to 256 (the flash)",
        ),
        (
            &FEMU.replace("nchs=2", "nchs=0").replace("devsz_mb=192,", "op_pcent=7,"),
            "black-box.sh:12: nchs = 0: becomes drive.media.channels = 0: not allowed",
        ),
        (
            &FEMU.replace("made_up=7", "id=a -device femu,id=b"),
            "black-box.sh:16: two devices, in lines 16 and 16; allowed: one -device femu",
        ),
        (
            &format!("{FEMU}\n./qemu-system-x86_64 -device femu,femu_mode=1,nchs=4\n"),
            "black-box.sh:21: two devices, in lines 16 and 21",
        ),
        (&FEMU.replace("made_up=7", "nchs=4"), "black-box.sh:16: nchs: given twice, in lines 12 and 16"),
        (
            &FEMU.replace("high=95", "high=195"),
            "black-box.sh:14: gc_thres_pcent_high = 195: allowed: 0 to 100 %",
        ),
        (&FEMU.replace("d-choice", "best"), "black-box.sh:14: gc_policy = best: allowed: greedy"),
    ] {
        folder.write("black-box.sh", script);
        let done = folder.run(&["import", "femu", "black-box.sh"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
}

const NVMEVIRT: &str = "#ifndef _CONFIG_H
#define _CONFIG_H
#define SMALL 1
#define ZONED 2 /* not
                   this one */
#define SSD_TYPE_CONV 1
#define SSD_TYPE_ZNS 2
#define CELL_MODE_SLC 1
#define CELL_MODE_MLC 2
#if (BASE_SSD == ZONED)
#define NS_SSD_TYPE_0 SSD_TYPE_ZNS
#define NAND_CHANNELS (4)
#elif (BASE_SSD == SMALL)
#define NS_SSD_TYPE_0 SSD_TYPE_CONV
#define MDTS (5)
#define CELL_MODE (CELL_MODE_MLC)
#define NAND_CHANNELS (2)
#define LUNS_PER_NAND_CH (2)
#define PLNS_PER_LUN (1)
#define FLASH_PAGE_SIZE KB(16)
#if 0
#define ONESHOT_PAGE_SIZE (FLASH_PAGE_SIZE * 3)
#else
#define ONESHOT_PAGE_SIZE (FLASH_PAGE_SIZE * 2)
#endif
#define BLKS_PER_PLN (64)
#define NAND_CHANNEL_BANDWIDTH (800ull) //MB/s
#define PCIE_BANDWIDTH (3360ull)
#define NAND_READ_LATENCY_LSB (36013 - 6000)
#define NAND_READ_LATENCY_MSB (36013 + 6000)
#define NAND_READ_LATENCY_CSB (0)
#define NAND_PROG_LATENCY (370000)
#define NAND_ERASE_LATENCY (0)
#define FW_READ_LATENCY (30490)
#define OP_AREA_PERCENT (0.25)
#define GLOBAL_WB_SIZE (NAND_CHANNELS * LUNS_PER_NAND_CH * ONESHOT_PAGE_SIZE * 2)
#define WRITE_EARLY_COMPLETION 1
#define LBA_BITS (9)
#define LBA_SIZE (1 << LBA_BITS)
#define MADE_UP (LBA_SIZE % 7)
#endif
#define SUPPORTED(type) (NS_SSD_TYPE_0 == type)
#endif
";

#[test]
fn a_model_of_nvmevirt_becomes_a_drive_that_runs() {
    let folder = Folder::new();
    folder.write("ssd_config.h", NVMEVIRT);
    let import =
        ["import", "nvmevirt", "ssd_config.h", "--model", "SMALL", "--memory", "256MiB", "-o", "mine.toml"];
    let done = folder.run(&import);
    let left: Vec<&str> =
        done.stderr.lines().map(|line| line.trim_start_matches("no counterpart: line ")).collect();
    let names: Vec<&str> = left.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    let expected =
        ["NS_SSD_TYPE_0", "MDTS", "NAND_READ_LATENCY_CSB", "FW_READ_LATENCY", "LBA_SIZE", "MADE_UP"];
    assert_eq!((done.status, names), (0, expected.to_vec()), "{}", done.stderr);
    assert!(left[5].starts_with("40: MADE_UP = (LBA_SIZE % 7): not known"), "{left:?}");
    let text = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    for line in [
        "channels = 2",
        // 256 MiB over 2 x 2 dies, 64 blocks and 16 KiB.
        "pages = 64",
        "page_size = 16384",
        "unit_size = 4096",
        "cell = \"mlc\"",
        "read = [\"30013ns\", \"42013ns\"]",
        // One program is for two pages.
        "program = [\"185000ns\", \"185000ns\"]",
        "channel_rate = \"800MiB/s\"",
        "over_provisioning = \"25%\"",
        "entries = 64",
        "dirty_high = \"0%\"",
        "write = \"write-back\"",
    ] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    let report = folder
        .run(&["run", "mine.toml", "--rw", "randwrite", "--bs", "4k", "--number-ios", "500", "--json"])
        .json();
    assert_eq!((report["requests"].clone(), report["drive"]["name"].clone()), (500.into(), "small".into()));
}

#[test]
fn headers_that_are_none_of_a_conventional_drive_are_refused() {
    let folder = Folder::new();
    for (header, model, said) in [
        (NVMEVIRT, "OTHER", "ssd_config.h: no model OTHER"),
        (NVMEVIRT, "ZONED", "ssd_config.h:11: ZONED: NS_SSD_TYPE_0 = SSD_TYPE_ZNS: allowed: SSD_TYPE_CONV"),
        (
            &NVMEVIRT.replace("(36013 - 6000)", "(GONE - 1)"),
            "SMALL",
            "ssd_config.h:29: NAND_READ_LATENCY_LSB = (GONE - 1): GONE is not defined",
        ),
        (&NVMEVIRT.replace("(370000)", "(370000 ? 1)"), "SMALL", "allowed: numbers, names"),
        (&NVMEVIRT.replace("(370000)", "(1 / 0)"), "SMALL", "division by 0"),
        (&NVMEVIRT.replace("(370000)", "NAND_PROG_LATENCY"), "SMALL", "defined by itself"),
        (
            &NVMEVIRT.replace("(CELL_MODE_MLC)", "7"),
            "SMALL",
            "ssd_config.h:16: CELL_MODE = 7: allowed: CELL_MODE_SLC, CELL_MODE_MLC, CELL_MODE_TLC",
        ),
        (
            &NVMEVIRT.replace("(NAND_CHANNELS * LUNS_PER_NAND_CH * ONESHOT_PAGE_SIZE * 2)", "KB(2)"),
            "SMALL",
            "ssd_config.h:36: GLOBAL_WB_SIZE = 2048: allowed: 4096 to ",
        ),
        ("#endif\n", "SMALL", "ssd_config.h:1: #endif without #if"),
    ] {
        folder.write("ssd_config.h", header);
        let done =
            folder.run(&["import", "nvmevirt", "ssd_config.h", "--model", model, "--memory", "256MiB"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
    let done = folder.run(&["import", "nvmevirt", "ssd_config.h", "--model", "SMALL", "--memory", "much"]);
    assert!(done.status == 2 && done.stderr.contains("--memory much: "), "{}", done.stderr);
}

const SIMPLESSD: &str = "# A small drive
[cpu]
ClockSpeed = 400000000
FTLCoreCount = 1
[nvme]
PCIEGeneration = 2
PCIELane = 4  # lanes
MaxIOSQueue = 16
LBASize = 512
[sata]
LBASize = 512
[pal]
Channel = 2
Package = 2
Die = 1
Plane = 2
Block = 64
Page = 64
PageSize = 8192
NANDType = 1
LSBRead = 40000000
LSBWrite = 500000000
CSBRead = 0
CSBWrite = 7
MSBRead = 65000000
MSBWrite = 1300000000
Erase = 3500000000
DMASpeed = 400
DMAWidth = 8
SuperblockSize =
PageAllocation = WCDP
[ftl]
MappingMode = 0
OverProvisioningRatio = 0.2
EraseThreshold = 100000
FillRatio = 0.5
InvalidPageRatio = 0.25
EvictPolicy = 3
DChoiceParam = 5
GCThreshold = 0.05
[icl]
CacheSize = 1048576
EnableReadCache = 0
EnableWriteCache = 1
EvictPolicy = 2
EvictMode = 1
[dram]
Model = 0
[other]
MadeUp = 1
";

#[test]
fn a_configuration_of_simplessd_becomes_a_drive_that_runs() {
    let folder = Folder::new();
    folder.write("sample.cfg", SIMPLESSD);
    let done = folder.run(&["import", "simplessd", "sample.cfg", "-o", "mine.toml"]);
    let names: Vec<&str> = done.stderr.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    let expected = [
        "cpu.FTLCoreCount",
        "sata.LBASize",
        "pal.CSBWrite",
        "pal.SuperblockSize",
        "icl.EvictPolicy",
        "dram.Model",
        "other.MadeUp",
    ];
    assert_eq!((done.status, names), (0, expected.to_vec()), "{}", done.stderr);
    let text = std::fs::read_to_string(folder.path("mine.toml")).unwrap();
    for line in [
        "dies = 1",
        "sector_size = 512",
        "read = [\"40000ns\", \"65000ns\"]",
        "channel_rate = \"400MB/s\"",
        "over_provisioning = \"25%\"",
        "victim = \"d-choices:5\"",
        "gc_low = 4",
        "placement = \"way-first\"",
        "link_rate = \"3938400000B/s\"",
        "clock_mhz = 400",
        "entries = 128",
        // 8 planes.
        "dirty_high = \"93.75%\"",
        "retain = false",
        "fill = \"50%\"",
        "overwrite = 0.25",
        "#   line 11: sata.LBASize = 512: the NVMe interface is taken",
    ] {
        assert!(text.contains(&format!("\n{line}")), "{line}: {text}");
    }
    let report = folder
        .run(&["run", "mine.toml", "--rw", "randread", "--bs", "8k", "--number-ios", "500", "--json"])
        .json();
    assert_eq!((report["requests"].clone(), report["drive"]["name"].clone()), (500.into(), "sample".into()));
}

#[test]
fn configurations_that_are_none_of_simplessd_are_refused_with_their_line() {
    let folder = Folder::new();
    for (text, said) in [
        ("[pal]\nnonsense\n", "sample.cfg:2: nonsense: allowed: [SECTION], KEY = VALUE"),
        ("", "sample.cfg: pal.Channel is missing"),
        (
            &SIMPLESSD.replace("NANDType = 1", "NANDType = 4"),
            "sample.cfg:20: pal.NANDType = 4: allowed: 0 (SLC)",
        ),
        (
            &SIMPLESSD.replace("Erase = 35", "Erase = x35"),
            "sample.cfg:27: pal.Erase = x3500000000: allowed: a number",
        ),
        (
            &SIMPLESSD.replace("Ratio = 0.2\n", "Ratio = 1.0\n"),
            "sample.cfg:34: ftl.OverProvisioningRatio = 1.0: allowed: below 1",
        ),
        (
            &SIMPLESSD.replace("Page = 64", "Page = 0"),
            "sample.cfg:18: pal.Page = 0: becomes drive.media.pages = 0: not allowed",
        ),
        (
            &SIMPLESSD.replace("= WCDP", "= XYZ"),
            "sample.cfg:31: pal.PageAllocation = XYZ: allowed: C, W, D and P",
        ),
        (
            &SIMPLESSD.replace("Die = 1", "Die = 1\nDie = 2"),
            "sample.cfg:16: pal.Die: given twice, in lines 15 and 16; allowed: once",
        ),
        (
            &SIMPLESSD.replace("LSBRead = 40000000", "LSBRead = 58"),
            "sample.cfg:21: pal.LSBRead = 58: allowed: 0, or 500 or more",
        ),
        (
            &SIMPLESSD.replace("ClockSpeed = 400000000", "ClockSpeed = 400"),
            "sample.cfg:3: cpu.ClockSpeed = 400: allowed: 500000 or more",
        ),
        (
            &SIMPLESSD.replace("GCThreshold = 0.05", "GCThreshold = 0"),
            "ftl.GCThreshold = 0: allowed: a number above 0",
        ),
        (
            &SIMPLESSD.replace("PCIELane = 4", "PCIELane = 0"),
            "sample.cfg:7: nvme.PCIELane = 0: allowed: a number above 0",
        ),
        (
            &SIMPLESSD.replace("CacheSize = 1048576", "CacheSize = 8191"),
            "icl.CacheSize = 8191: allowed: 8192 to ",
        ),
    ] {
        folder.write("sample.cfg", text);
        let done = folder.run(&["import", "simplessd", "sample.cfg"]);
        assert_eq!((done.status, done.stdout.as_str()), (2, ""), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{said}: {}", done.stderr);
    }
}
