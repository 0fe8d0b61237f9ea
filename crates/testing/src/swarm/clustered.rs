//! Cluster buffers for the swarm: any drive of it, with a small buffer in front. The power is cut for both.

use super::{Subject, TINY};
use pellucid_device::{Device, DeviceError};
use pellucid_flash::{Drive, Interface, Lba, Nanos, Rng, SimTime};
use pellucid_host::{
    ClusterBuffer, ClusterBufferConfig, ClusterBufferError, CpuCosts, FlushPolicy, JournalConfig, JournalUse,
    Stack, TableMemory,
};
use pellucid_media::Fault;

/// A cluster buffer in front of a drive.
pub type Clustered = Stack<ClusterBuffer, Device>;

impl Subject for Clustered {
    fn device(&self) -> &Device {
        &self.drive
    }

    fn capacity_sectors(&self) -> u64 {
        self.layer.capacity_sectors()
    }

    fn now(&self) -> SimTime {
        Stack::now(self)
    }

    fn check(&self) {
        self.layer.check();
        self.drive.check();
    }

    fn is_read_only(&self) -> bool {
        self.drive.is_read_only()
    }

    fn inject(&mut self, now: SimTime, fault: Fault) {
        self.advance(now);
        self.drive.inject(now, fault).unwrap_or_else(|e| panic!("{e}"));
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.drive.power_cut().map_err(|e| e.to_string())?;
        // The layer's own commands are forgotten with it.
        while self.drive.pop().is_some() {}
        let now = self.drive.now();
        self.restart(now)
    }

    fn writes_through(&self) -> bool {
        false
    }

    fn at_risk(&self) -> Option<Vec<Lba>> {
        (self.layer.config().flush == FlushPolicy::Paper).then(|| self.layer.held().collect())
    }
}

/// A small random buffer for a drive of this many sectors.
pub fn clustered_config(seed: u64, sectors: u64) -> ClusterBufferConfig {
    let mut rng = Rng::stream(seed, "cluster buffer");
    let mut pick = |values: &[u64]| values[rng.below(values.len() as u64) as usize];
    let cluster_sectors = pick(&[2, 5, 8, 16, 24]) as u32;
    let evictions = pick(&[1, 1, 2, 4]) as u32;
    let cost = Nanos(pick(&[0, 0, 700, 20_000]));
    let config = ClusterBufferConfig {
        namespace: 0,
        sector_bytes: 512,
        cluster_sectors,
        size_bytes: 0,
        tables: random_tables(seed),
        flush: if pick(&[0, 1]) == 0 { FlushPolicy::Strict } else { FlushPolicy::Paper },
        journal: None,
        idle_ns: [None, Some(Nanos(1000)), Some(Nanos(3_000_000))][pick(&[0, 1, 2]) as usize],
        age_ns: [None, Some(Nanos(2_000_000))][pick(&[0, 1]) as usize],
        padding: pick(&[0, 1, 1]) == 1,
        early_retirement: pick(&[0, 1]) == 1,
        evictions,
        bypass: Vec::new(),
        cpu: CpuCosts {
            cores: pick(&[1, 3]) as u32,
            submit_ns: cost,
            sector_ns: Nanos(cost.0 / 10),
            command_ns: cost,
            completion_ns: cost,
        },
    };
    // From hardly more than a cluster on.
    let table = sectors.div_ceil(cluster_sectors.into()) * 4 + u64::from(cluster_sectors) * 4 * 40;
    let clusters = u64::from(evictions) + pick(&[2, 3, 6, 20]);
    ClusterBufferConfig { size_bytes: table + clusters * u64::from(cluster_sectors) * 600 + 8192, ..config }
}

/// Every third buffer has its tables beside its memory.
fn random_tables(seed: u64) -> TableMemory {
    match Rng::stream(seed, "tables").below(3) {
        0 => TableMemory::Beside,
        _ => TableMemory::Within,
    }
}

/// Gives a buffer a journal, unless the drive is too small for one.
fn add_journal(config: &mut ClusterBufferConfig, sectors: u64, sector_bytes: u32, seed: u64) {
    let usage = if seed.is_multiple_of(8) { JournalUse::Always } else { JournalUse::Cheaper };
    let unit_bytes = sector_bytes << (seed / 16 % 3);
    let journal = JournalConfig { ring_bytes: 0, unit_bytes, usage, make: Some(seed) };
    let with = |journal| ClusterBufferConfig {
        sector_bytes,
        cluster_sectors: config.cluster_sectors.min(8),
        // Sectors are larger now, and a record needs memory, too.
        size_bytes: config.size_bytes * u64::from(sector_bytes) / 512 + 64 * 1024,
        journal: Some(journal),
        ..config.clone()
    };
    let block = Some(Interface::Block { sectors, handles: 1 });
    let Err(ClusterBufferError::Journal { least, .. }) =
        ClusterBuffer::new(&with(journal), block, sector_bytes as usize)
    else {
        panic!("a ring of nothing");
    };
    let ring_bytes = least + seed % 7 * u64::from(unit_bytes);
    if ring_bytes / u64::from(sector_bytes) < sectors / 2 {
        *config = with(JournalConfig { ring_bytes, ..journal });
    }
}

/// A drive of `sets` with the buffer of a seed; `None`: too many of its blocks are bad from the factory.
pub fn clustered(seed: u64, sets: &[String]) -> Option<Clustered> {
    let journals = seed.is_multiple_of(4) && clustered_config(seed, 1).flush == FlushPolicy::Strict;
    make(seed, sets, journals)
}

/// Like [`clustered`] on a drive that damages data. Never with a journal: a start refuses one that it cannot read.
pub fn clustered_on_damaged(seed: u64, sets: &[String]) -> Option<Clustered> {
    make(seed, sets, false)
}

fn make(seed: u64, sets: &[String], journals: bool) -> Option<Clustered> {
    let mut sets = sets.to_vec();
    if clustered_config(seed, 1).flush == FlushPolicy::Paper {
        // What has left the buffer is safe, so that the buffer is all of the window.
        sets.push("buffer.write=write-through".into());
    }
    if journals {
        // A drive that keeps data keeps records.
        sets.push("media.store=ram".into());
    }
    let spec = pellucid_spec::from_str(TINY, "tiny", &sets).unwrap_or_else(|e| panic!("{e}"));
    let device = match Device::new(&spec.drive) {
        Err(DeviceError::Translation(_)) if spec.drive.media.faults.factory_bad > 0.0 => return None,
        device => device.unwrap_or_else(|e| panic!("{e}")),
    };
    let interface = Drive::interface(&device, 0);
    let mut config = clustered_config(seed, interface?.capacity_sectors());
    if journals {
        add_journal(&mut config, interface?.capacity_sectors(), spec.drive.media.geometry.sector_bytes, seed);
    }
    let layer =
        ClusterBuffer::new(&config, interface, device.image_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let now = device.now();
    Some(Stack::start(layer, device, now).unwrap_or_else(|e| panic!("{e}")))
}
