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
<Address_Distribution>UNIFORM_RANDOM</Address_Distribution>
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
        "over_provisioning = 0.250000",
        "victim = \"d-choices:8\"",
        "rw = \"randrw\"",
        "bs = 8192",
        "number_ios = 500",
        "fill = 0.75",
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
            "ssdconfig.xml:Flash_Channel_Count is missing",
        ),
        (&DRIVE.replace("MLC", "XLC"), "ssdconfig.xml:30: Flash_Technology = XLC: allowed: SLC, MLC, TLC"),
        (
            &DRIVE.replace("RGA", "BEST"),
            "ssdconfig.xml:19: GC_Block_Selection_Policy = BEST: allowed: GREEDY",
        ),
        (&DRIVE.replace(">64<", ">0<"), "no drive here: the import:"),
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
