//! Statistics of wear are over good blocks.

use pellucid_lab::experiment::prepare;

#[test]
fn grown_bad_blocks_do_not_count_as_worn() {
    let sets = [
        "media.blocks=24",
        "ftl.over_provisioning=0.5",
        "media.faults.program_fail=0.002",
        "precondition.fill=0.5",
        "precondition.overwrite=2",
    ];
    let sets = sets.map(String::from);
    let spec = pellucid_spec::load("jasmine", &sets).unwrap_or_else(|e| panic!("{e}"));
    let device = prepare(&spec, None).unwrap_or_else(|e| panic!("{e}"));
    let (factory, grown) = device.bad_blocks();
    assert!(grown > 0, "no block has failed");
    assert_eq!(device.erase_counts().count() as u32, device.layout().blocks - factory - grown);
}
