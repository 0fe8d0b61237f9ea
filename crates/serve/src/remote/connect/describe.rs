//! A drive's self-description: its namespaces, their geometries, and the state of each chunk or zone.
//!
//! Invariant: an unusable geometry is refused here, so later code need not check geometries again.

use super::{
    CHUNKS, CHUNKS_MAX, DATA_MAX, IDENTIFY_OF_SET, Identity, RemoteConfig, SECTOR_SHIFT_MAX,
    SECTOR_SHIFT_MIN, ZONED_SET, done,
};
use crate::remote::queue::{Payload, Queue};
use crate::remote::zones;
use pellucid_flash::{CacheGeometry, ChunkGeometry, ChunkInfo, Nanos, Vector, ZoneGeometry, ZoneInfo};
use pellucid_wire::nvme::cache::{CACHE_NAMESPACE, CacheIdentity};
use pellucid_wire::nvme::open_channel::{GEOMETRY_OPCODE, Geometry};
use pellucid_wire::nvme::zns::ZonedNamespace;
use pellucid_wire::nvme::{AdminOpcode, GetLogPage, IdentifyNamespace, SubmissionEntry};

impl RemoteConfig {
    /// Finds a usable zoned namespace, if there is one. The zone capacity is set by the later report.
    pub(super) fn zoned(
        &self,
        admin: &mut Queue,
        namespaces: u32,
    ) -> Result<Option<(u32, ZoneGeometry)>, String> {
        let nsids = match self.nsid {
            Some(nsid) => nsid..=nsid,
            None => 1..=namespaces.min(1024),
        };
        for nsid in nsids {
            let page = IdentifyNamespace::decode(&identify(admin, 0, nsid)?);
            let ask = SubmissionEntry::new(AdminOpcode::Identify.raw(), 0, nsid)
                .with_cdw(10, IDENTIFY_OF_SET)
                .with_cdw(11, ZONED_SET << 24);
            let answer = admin.ask(ask, Payload::In(vec![0; 4096])).map_err(|broken| broken.to_string())?;
            if page.size_blocks == 0 || !answer.status.is_success() {
                continue;
            }
            let own = ZonedNamespace::decode(answer.data.first_chunk().expect("as many bytes as asked for"));
            let format = usize::from(page.format & 0xF);
            let (zone_sectors, shift) =
                (own.formats[format].zone_blocks, page.format_list[format].data_shift);
            let zones = page.size_blocks.checked_div(zone_sectors).unwrap_or(0);
            let sound = zone_sectors.is_power_of_two()
                && zone_sectors <= 1 << 24
                && (1..=CHUNKS_MAX).contains(&zones)
                && (SECTOR_SHIFT_MIN..=SECTOR_SHIFT_MAX).contains(&shift);
            if !sound {
                return Err(format!(
                    "its {zones} zones of {zone_sectors} sectors of 2^{shift} bytes; allowed: at most 2^24 zones, of a power of \
                     two of sectors up to 2^24, of 2^{SECTOR_SHIFT_MIN} to 2^{SECTOR_SHIFT_MAX} bytes"
                ));
            }
            // All ones means no limit.
            let limit = |less_one: u32| less_one.wrapping_add(1);
            let geometry = ZoneGeometry {
                zones: zones as u32,
                zone_sectors,
                capacity_sectors: zone_sectors,
                sector_bytes: 1 << shift,
                open_max: limit(own.open_max),
                active_max: limit(own.active_max),
                append_max_sectors: 1,
            };
            return Ok(Some((nsid, geometry)));
        }
        Ok(None)
    }

    /// Finds the cache namespace, with its bytes per sector.
    pub(super) fn cache(
        &self,
        admin: &mut Queue,
        namespaces: u32,
    ) -> Result<Option<(u32, CacheGeometry, u32)>, String> {
        let nsids = match self.nsid {
            Some(nsid) => nsid..=nsid,
            None => 1..=namespaces.min(1024),
        };
        for nsid in nsids {
            let page = IdentifyNamespace::decode(&identify(admin, 0, nsid)?);
            let own = CacheIdentity::decode(page.vendor.first_chunk().expect("a vendor area is longer"));
            if page.size_blocks == 0 || own.kind != CACHE_NAMESPACE {
                continue;
            }
            let shift = page.format_list[usize::from(page.format & 0xF)].data_shift;
            let is_sound = (SECTOR_SHIFT_MIN..=SECTOR_SHIFT_MAX).contains(&shift)
                && (1..=DATA_MAX >> shift).contains(&own.unit_sectors)
                && page.size_blocks.is_multiple_of(own.unit_sectors.into());
            if !is_sound {
                let unit = own.unit_sectors;
                return Err(format!(
                    "its cached blocks of {unit} sectors of 2^{shift} bytes; allowed: up to 1 MiB"
                ));
            }
            let CacheIdentity { unit_sectors, units, .. } = own;
            let geometry = CacheGeometry { address_sectors: page.size_blocks, unit_sectors, units };
            return Ok(Some((nsid, geometry, 1 << shift)));
        }
        Ok(None)
    }

    /// Finds the open-channel namespace.
    pub(super) fn open_channel(
        &self,
        admin: &mut Queue,
        subsystem: &str,
        namespaces: u32,
    ) -> Result<(u32, ChunkGeometry), String> {
        /// Value in the vendor area of Identify Namespace for an open-channel namespace.
        const OPEN_CHANNEL: u8 = 1;
        let nsids = match self.nsid {
            Some(nsid) => nsid..=nsid,
            // The search covers at most this many namespaces.
            None => 1..=namespaces.min(1024),
        };
        for nsid in nsids {
            let page = IdentifyNamespace::decode(&identify(admin, 0, nsid)?);
            if page.size_blocks == 0 || page.vendor[0] != OPEN_CHANNEL {
                continue;
            }
            let format = page.format_list[usize::from(page.format & 0xF)];
            let entry = SubmissionEntry::new(GEOMETRY_OPCODE, 0, nsid);
            let answer = done(admin.ask(entry, Payload::In(vec![0; Geometry::BYTES])), "geometry")?.data;
            let geometry = Geometry::decode(answer.first_chunk().expect("as many bytes as asked for"));
            if !(SECTOR_SHIFT_MIN..=SECTOR_SHIFT_MAX).contains(&format.data_shift) {
                let bits = format.data_shift;
                return Err(format!(
                    "its sectors are of 2^{bits} bytes; allowed: 2^{SECTOR_SHIFT_MIN} to 2^{SECTOR_SHIFT_MAX}"
                ));
            }
            return Ok((nsid, understand(&geometry, 1u32 << format.data_shift)?));
        }
        Err(match self.nsid {
            Some(nsid) => {
                format!("namespace {nsid} of {subsystem} is not an open-channel one; a host FTL needs chunks")
            }
            None => format!("{subsystem} has no open-channel namespace; a host FTL needs chunks"),
        })
    }
}

/// Converts the drive's geometry, if it is usable.
fn understand(geometry: &Geometry, sector_bytes: u32) -> Result<ChunkGeometry, String> {
    let metadata = geometry.profile_metadata_bytes();
    if metadata != Some(Vector::METADATA_BYTES as u16) {
        return Err(
            "the drive takes no out-of-band data over fabrics, where a host FTL keeps what each sector is; \
                    drives served by pellucid do"
                .into(),
        );
    }
    let times = |range: [u32; 2]| range.map(|time| Nanos(time.into()));
    let chunks = ChunkGeometry {
        groups: geometry.groups.into(),
        units: geometry.units.into(),
        chunks: geometry.chunks,
        chunk_sectors: geometry.chunk_blocks,
        sector_bytes,
        write_min_sectors: geometry.write_min,
        write_optimal_sectors: geometry.write_optimal,
        cached_sectors: geometry.cache_units,
        open_chunks_max: geometry.open_chunks_max,
        open_chunks_per_unit_max: geometry.open_chunks_per_unit_max,
        read_ns: times(geometry.read_ns),
        write_ns: times(geometry.write_ns),
        reset_ns: times(geometry.reset_ns),
    };
    let counts = [chunks.groups, chunks.units, chunks.chunks, chunks.chunk_sectors];
    let in_all = counts[..3].iter().map(|&count| u64::from(count)).fold(1u64, u64::saturating_mul);
    let bits =
        [geometry.group_bits, geometry.unit_bits, geometry.chunk_bits, geometry.block_bits].map(u32::from);
    let sound = (1..=CHUNKS_MAX).contains(&in_all)
        && (1..=1 << 24).contains(&chunks.chunk_sectors)
        && (1..=chunks.chunk_sectors).contains(&chunks.write_min_sectors)
        && (1..=chunks.chunk_sectors).contains(&chunks.write_optimal_sectors)
        && chunks.address_bits() == bits;
    if !sound {
        return Err(format!(
            "its geometry ({counts:?} groups, units, chunks and sectors, with {bits:?} bits of address) is none that a host FTL \
             can use; allowed: numbers above 0 with just as many bits as they need, at most 2^24 chunks, writes within a chunk"
        ));
    }
    Ok(chunks)
}

pub(super) fn identify(admin: &mut Queue, cns: u32, nsid: u32) -> Result<[u8; 4096], String> {
    let entry = SubmissionEntry::new(AdminOpcode::Identify.raw(), 0, nsid).with_cdw(10, cns);
    let page = done(admin.ask(entry, Payload::In(vec![0; 4096])), "Identify")?.data;
    Ok(*page.first_chunk().expect("as many bytes as asked for"))
}

/// Builds the command that reads `count` chunk descriptors from number `first` on.
pub(in crate::remote) fn chunks_entry(nsid: u32, first: u32, count: u32) -> SubmissionEntry {
    let each = ChunkInfo::BYTES as u32;
    GetLogPage::entry(CHUNKS, count * each, u64::from(first) * u64::from(each), 0, nsid)
}

/// Parses received chunk descriptors.
pub(in crate::remote) fn parse_chunks(page: &[u8]) -> Option<Vec<ChunkInfo>> {
    page.as_chunks().0.iter().map(ChunkInfo::decode).collect()
}

pub(super) fn chunk_log(admin: &mut Queue, identity: &Identity) -> Result<Vec<ChunkInfo>, String> {
    let Identity { nsid, geometry, data_max, .. } = identity;
    let all = geometry.parallel_units() * geometry.chunks;
    let at_once = data_max / ChunkInfo::BYTES as u32;
    let mut chunks = Vec::with_capacity(all as usize);
    while (chunks.len() as u32) < all {
        let first = chunks.len() as u32;
        let count = at_once.min(all - first);
        let data = Payload::In(vec![0; count as usize * ChunkInfo::BYTES]);
        let page = done(admin.ask(chunks_entry(*nsid, first, count), data), "chunk log")?.data;
        chunks.extend(parse_chunks(&page).ok_or("chunk log: a descriptor makes no sense")?);
    }
    Ok(chunks)
}

/// Reads all zones as extents; sets the zone capacity from the first.
pub(super) fn zone_log(queue: &mut Queue, identity: &mut Identity) -> Result<Vec<ChunkInfo>, String> {
    let Some(zones) = &mut identity.zones else { return Ok(Vec::new()) };
    let at_once = (identity.data_max as usize - zones::HEADER_BYTES) / ZoneInfo::BYTES;
    let mut found = Vec::with_capacity(zones.zones as usize);
    while (found.len() as u32) < zones.zones {
        let count = (at_once as u32).min(zones.zones - found.len() as u32);
        let (entry, bytes) = zones::report(identity.nsid, found.len() as u64 * zones.zone_sectors, count);
        let ended = done(queue.ask(entry, Payload::In(vec![0; bytes])), "zone report")?;
        let (reported, extents) =
            zones::parse(&ended.data[..ended.filled]).ok_or("zone report: it makes no sense")?;
        let first = reported.first().ok_or("zone report: fewer zones than there are")?;
        if found.is_empty() {
            zones.capacity_sectors = first.capacity_sectors;
        }
        found.extend(extents);
    }
    found.truncate(zones.zones as usize);
    Ok(found)
}
