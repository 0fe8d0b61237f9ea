//! The built-in drives. Each is an ordinary description in which every constant names its source.

/// A built-in drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// The description, as TOML.
    pub text: &'static str,
}

macro_rules! preset {
    ($name:literal, $summary:literal) => {
        Preset {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../../../presets/", $name, ".toml")),
        }
    };
}

static PRESETS: &[Preset] = &[
    preset!("cosmos-plus", "Cosmos+ OpenSSD, 8 channels x 8 ways, MLC mode, half of the blocks (1 TiB)"),
    preset!("cosmos-plus-slc", "Cosmos+ OpenSSD, 8 channels x 8 ways, SLC mode (1 TiB)"),
    preset!("cosmos-plus-tlc", "Cosmos+ OpenSSD, 8 channels x 8 ways, 3D TLC programmed in one shot (1 TiB)"),
    preset!(
        "cosmos-plus-open-channel",
        "Cosmos+ OpenSSD as an open-channel drive, SLC mode, with a host FTL (1 TiB)"
    ),
    preset!("jasmine", "OpenSSD Jasmine with GreedyFTL, 8 banks, 32 KiB virtual pages (64 GiB)"),
    preset!(
        "jasmine-optimized",
        "OpenSSD Jasmine with a merge buffer, a 4 KiB mapping and a read buffer (64 GiB)"
    ),
    preset!(
        "jasmine-nameless",
        "jasmine with nameless writes: page read, page write and block erase, and the FTL in the host"
    ),
    preset!("jasmine-ssc", "jasmine-optimized as a solid-state cache of a backing store of up to 1.5 TB"),
    preset!("memblaze", "Prism-SSD's open-channel drive, 12 channels x 16 LUNs (1.5 TiB)"),
    preset!(
        "open-channel",
        "LightNVM's first-generation open-channel SSD, 16 groups x 8 parallel units, with a host FTL"
    ),
    preset!("netbook-ssd", "A netbook's SSD of 2008: one channel, hardly any buffer (16 GB)"),
    preset!("netbook-ssd-1", "FlashFire's SSD-1: Acer Aspire One, BAST with erase units of 2 MiB (16 GB)"),
    preset!("netbook-ssd-2", "FlashFire's SSD-2: Asus Eee PC 1000, BAST with erase units of 1 MiB (8 GB)"),
    preset!(
        "netbook-ssd-3",
        "FlashFire's SSD-3: Dell Inspiron Mini 9, FAST with erase units of 2 MiB (16 GB)"
    ),
    preset!("netbook-ssd-4", "FlashFire's SSD-4: HP Mini 1010NR, BAST, slow flash (8 GB)"),
    preset!("laptop-ssd-5", "FlashFire's SSD-5: OCZ Core in a Dell XPS, FAST with a write buffer (128 GB)"),
    preset!("datacenter-tlc", "A data-centre NVMe drive as the Micron 7450 PRO: Gen4 x4, 3D TLC"),
    preset!("zoned", "datacenter-tlc with zones over all dies (NVMe ZNS) instead of a page map"),
    preset!(
        "client-qlc",
        "A client NVMe drive as the Intel SSD 670p: Gen3 x4, four channels of 3D QLC, an SLC cache"
    ),
    preset!(
        "wd1502faex",
        "A hard disk, Western Digital Caviar Black of 1.5 TB at 7,200 rpm; for pellucid run"
    ),
];

/// All presets.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The preset of this name.
pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The names of all presets.
pub(crate) fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}
