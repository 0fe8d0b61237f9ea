//! The ublk interface of the kernel in numbers and bytes (`linux/ublk_cmd.h`; Linux 6.5 and newer, for user
//! copy).
//!
//! ```text
//!  control command  dev_id u32 │ queue u16 │ len u16 │ addr u64 │ data u64 │ 8 bytes of 0          32 bytes, in the entry
//!  device           queues u16 │ depth u16 │ state u16 │ 0 u16 │ io bytes u32 │ dev_id u32 │ pid i32 │ 0 u32
//!                   flags u64 │ 0 u64 │ uid u32 │ gid u32 │ 0 u64 │ 0 u64                           64 bytes
//!  parameters       len u32 │ types u32 │ basic 32 bytes │ discard 20 bytes                         60 bytes
//!  I/O command      queue u16 │ tag u16 │ result i32 │ addr u64                                     16 bytes, in the entry
//!  request          operation and flags u32 │ sectors u32 │ first sector u64 │ addr u64             24 bytes, mapped
//! ```
//! All fields are in native byte order. Sectors have 512 bytes, whatever the drive's sector size.

/// Size of a kernel sector, as a power of two.
pub(super) const SECTOR_SHIFT: u32 = 9;
/// Length of a control command in its entry, zero-padded.
pub(super) const CONTROL_BYTES: usize = 80;
/// Length of a device description.
pub(super) const DEVICE_BYTES: usize = 64;
/// Length of one request in the mapped table.
pub(super) const REQUEST_BYTES: usize = 24;
/// Device number that lets the kernel choose.
pub(super) const ANY_DEVICE: u32 = u32::MAX;

/// Feature flag: the server copies data through the character device.
const USER_COPY: u64 = 1 << 7;
/// Feature flag: commands encode their size and direction.
const IOCTL_ENCODED: u64 = 1 << 6;

/// Directions of an encoded command.
const READ: u32 = 2;
const BOTH: u32 = 3;

const fn encoded(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Commands to the control device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Control {
    Add = encoded(BOTH, 0x04, 32),
    Delete = encoded(BOTH, 0x05, 32),
    Start = encoded(BOTH, 0x06, 32),
    Stop = encoded(BOTH, 0x07, 32),
    SetParameters = encoded(BOTH, 0x08, 32),
    GetFeatures = encoded(READ, 0x13, 32),
}

/// Commands to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Io {
    /// Wait for the first request of a tag.
    Fetch = encoded(BOTH, 0x20, 16),
    /// End the request of a tag and wait for its next one.
    CommitAndFetch = encoded(BOTH, 0x21, 16),
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
    /// Kind that was not announced to the kernel.
    Other(u8),
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub asked: Asked,
    /// The data must be on the media when the request ends.
    pub fua: bool,
    pub sectors: u32,
    pub first_sector: u64,
}

impl Request {
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Request {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let operation = word(0);
        Request {
            asked: match operation as u8 {
                0 => Asked::Read,
                1 => Asked::Write,
                2 => Asked::Flush,
                3 => Asked::Discard,
                5 => Asked::WriteZeroes,
                other => Asked::Other(other),
            },
            fua: operation & 1 << 13 != 0,
            sectors: word(4),
            first_sector: u64::from_ne_bytes(bytes[8..16].try_into().expect("8 bytes")),
        }
    }
}

/// Writes consecutive fields.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (field, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        field.copy_from_slice(bytes);
        self.0 = rest;
    }
}

/// Encodes a control command; `buffer` is the address and length of its data.
pub(super) fn control(device: u32, buffer: (u64, u16), data: u64) -> [u8; CONTROL_BYTES] {
    let mut bytes = [0; CONTROL_BYTES];
    let mut fields = Fields(&mut bytes);
    fields.put(&device.to_ne_bytes());
    fields.put(&u16::MAX.to_ne_bytes()); // of no queue
    fields.put(&buffer.1.to_ne_bytes());
    fields.put(&buffer.0.to_ne_bytes());
    fields.put(&data.to_ne_bytes());
    bytes
}

/// Encodes a device with one queue, whose number the kernel chooses.
pub(super) fn device(depth: u16, io_bytes_max: u32) -> [u8; DEVICE_BYTES] {
    let mut bytes = [0; DEVICE_BYTES];
    let mut fields = Fields(&mut bytes);
    fields.put(&1u16.to_ne_bytes());
    fields.put(&depth.to_ne_bytes());
    fields.put(&[0; 4]);
    fields.put(&io_bytes_max.to_ne_bytes());
    fields.put(&ANY_DEVICE.to_ne_bytes());
    fields.put(&[0; 8]);
    fields.put(&(USER_COPY | IOCTL_ENCODED).to_ne_bytes());
    bytes
}

/// Number that the kernel assigned to a device.
pub(super) fn device_number(device: &[u8; DEVICE_BYTES]) -> u32 {
    u32::from_ne_bytes(device[12..16].try_into().expect("4 bytes"))
}

/// Returns true if a kernel with these features is sufficient.
pub(super) fn suffices(features: u64) -> bool {
    features & (USER_COPY | IOCTL_ENCODED) == USER_COPY | IOCTL_ENCODED
}

/// Properties of a drive that the kernel needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Number of sectors of 512 bytes.
    pub sectors: u64,
    pub sector_bytes: u32,
    /// Preferred alignment of requests, and granularity of discards.
    pub unit_bytes: u32,
    pub io_bytes_max: u32,
    /// A flush makes earlier writes durable, and forced writes are durable.
    pub keeps_flushed: bool,
}

/// Length of encoded parameters.
pub(super) const PARAMETERS_BYTES: usize = 60;

impl Parameters {
    pub fn encode(&self) -> [u8; PARAMETERS_BYTES] {
        const BASIC: u32 = 1 << 0;
        const DISCARD: u32 = 1 << 1;
        const VOLATILE_CACHE: u32 = 1 << 2;
        const FUA: u32 = 1 << 3;
        // Maximum that a kernel request can express, in whole units.
        let discard_sectors = (u32::MAX >> SECTOR_SHIFT) / (self.unit_bytes >> SECTOR_SHIFT).max(1)
            * (self.unit_bytes >> SECTOR_SHIFT).max(1);
        let shift = |bytes: u32| bytes.trailing_zeros() as u8;
        let mut bytes = [0; PARAMETERS_BYTES];
        let mut fields = Fields(&mut bytes);
        fields.put(&(PARAMETERS_BYTES as u32).to_ne_bytes());
        fields.put(&(BASIC | DISCARD).to_ne_bytes());
        let cache = if self.keeps_flushed { VOLATILE_CACHE | FUA } else { 0 };
        fields.put(&cache.to_ne_bytes());
        fields.put(&[shift(self.sector_bytes), shift(self.unit_bytes), shift(self.unit_bytes)]);
        fields.put(&[shift(self.sector_bytes)]);
        fields.put(&(self.io_bytes_max >> SECTOR_SHIFT).to_ne_bytes());
        fields.put(&[0; 4]);
        fields.put(&self.sectors.to_ne_bytes());
        fields.put(&[0; 8]);
        fields.put(&0u32.to_ne_bytes()); // discards begin where the drive does
        fields.put(&self.unit_bytes.to_ne_bytes());
        fields.put(&discard_sectors.to_ne_bytes());
        fields.put(&discard_sectors.to_ne_bytes());
        fields.put(&1u16.to_ne_bytes()); // segments of a discard
        bytes
    }
}

/// Encodes an I/O command for a tag; `result` belongs to the request that it ends.
pub(super) fn io(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut fields = Fields(&mut bytes);
    fields.put(&0u16.to_ne_bytes());
    fields.put(&tag.to_ne_bytes());
    fields.put(&result.to_ne_bytes());
    bytes
}

/// Offset of a tag's data in the character device.
pub(super) fn data_offset(tag: u16) -> u64 {
    0x8000_0000 + (u64::from(tag) << 25)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command numbers as computed by the kernel's headers.
    #[test]
    fn commands_have_the_numbers_of_the_kernel() {
        assert_eq!(Control::Add as u32, 0xc020_7504);
        assert_eq!(Control::Start as u32, 0xc020_7506);
        assert_eq!(Control::GetFeatures as u32, 0x8020_7513);
        assert_eq!(Io::Fetch as u32, 0xc010_7520);
        assert_eq!(Io::CommitAndFetch as u32, 0xc010_7521);
    }

    #[test]
    fn fields_stand_where_the_kernel_looks() {
        let command = control(7, (0x1122, 60), 9);
        assert_eq!(&command[..4], &7u32.to_ne_bytes());
        assert_eq!(&command[6..8], &60u16.to_ne_bytes());
        assert_eq!(&command[8..16], &0x1122u64.to_ne_bytes());
        assert_eq!(&command[16..24], &9u64.to_ne_bytes());
        let mut given = device(128, 1 << 18);
        assert_eq!(device_number(&given), ANY_DEVICE);
        given[12..16].copy_from_slice(&3u32.to_ne_bytes());
        assert_eq!(device_number(&given), 3);
        let parameters = Parameters {
            sectors: 1 << 20,
            sector_bytes: 512,
            unit_bytes: 16384,
            io_bytes_max: 1 << 18,
            keeps_flushed: true,
        };
        let bytes = parameters.encode();
        assert_eq!(&bytes[8..12], &12u32.to_ne_bytes(), "a volatile cache, and forced writes");
        let without_flush = Parameters { keeps_flushed: false, ..parameters }.encode();
        assert_eq!(
            &without_flush[8..12],
            &0u32.to_ne_bytes(),
            "a host that is promised nothing has nothing to flush"
        );
        assert_eq!(&bytes[12..16], &[9, 14, 14, 9], "logical, physical, best and least block");
        assert_eq!(&bytes[16..20], &512u32.to_ne_bytes());
        assert_eq!(&bytes[24..32], &(1u64 << 20).to_ne_bytes());
        assert_eq!(&bytes[44..48], &16384u32.to_ne_bytes());
        assert_eq!(&bytes[56..58], &1u16.to_ne_bytes());
    }

    #[test]
    fn requests_are_read() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&(1u32 | 1 << 13).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&4096u64.to_ne_bytes());
        let write = Request { asked: Asked::Write, fua: true, sectors: 8, first_sector: 4096 };
        assert_eq!(Request::decode(&bytes), write);
        bytes[0] = 15;
        assert_eq!(Request::decode(&bytes).asked, Asked::Other(15));
    }

    #[test]
    fn a_tag_has_a_place_of_its_own() {
        assert_eq!(data_offset(0), 1 << 31);
        assert_eq!(data_offset(1) - data_offset(0), 1 << 25, "32 MiB for each tag");
    }
}
