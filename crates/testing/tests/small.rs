//! A drive of a few small blocks of SLC, which several tests have: each adds its layers, and changes what it must.

/// The media and their times.
pub const MEDIA: &str = r#"
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 24
pages = 8
page_size = "2KiB"
spare_size = 64
sector_size = 512
unit_size = "512"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "20us"
program = "200us"
erase = "1ms"
channel_rate = "100MB/s"
"#;

/// The media, with chunks for a host.
pub fn of_chunks() -> String {
    format!("{MEDIA}[[drive.namespace]]\ninterface = \"open-channel\"\n")
}
