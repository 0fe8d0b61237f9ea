//! A tiny drive and a host with one command at a time.
use pellucid_device::{Device, DeviceConfig, save_bytes};
use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkNotice, Command, Completion, Drive, Interface, Lba, Notice,
    Opcode, SimTime, Vector, ZoneGeometry,
};
use pellucid_media::Media;

/// 2 channels x 2 ways; 6 blocks of 8 superpages; a superpage of 2 units of 4 sectors.
const TINY: &str = r#"
[drive.media]
channels = 2
ways = 2
planes = 2
blocks = 6
pages = 8
page_size = "4KiB"
spare_size = 256
sector_size = "1KiB"
unit_size = "4KiB"
multi_plane = true
cell = "slc"
store = "ram"
[drive.media.timing]
read = ["50us"]
program = ["200us"]
erase = "1ms"
channel_rate = "200MB/s"
[drive.ftl]
over_provisioning = 1.4
separation = "off"
[drive.host]
link_rate = "1GB/s"
[drive.scheduler]
read_retries = 2
"#;

/// The description of the tiny drive with these namespaces, the rest overridden by `sets`.
pub fn tiny(namespaces: &str, sets: &[&str]) -> DeviceConfig {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let text = format!("{TINY}{namespaces}");
    pellucid_spec::from_str(&text, "tiny", &sets).unwrap_or_else(|e| panic!("{e}")).drive
}

/// A drive, and a host that waits for each command.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The drive.
    pub drive: Device,
    now: SimTime,
    tag: u64,
    ended: Vec<Completion>,
    /// The namespace that commands go to.
    pub namespace: u16,
}

impl Bench {
    /// The tiny drive with these namespaces.
    pub fn new(namespaces: &str, sets: &[&str]) -> Bench {
        let drive = Device::new(&tiny(namespaces, sets)).unwrap_or_else(|e| panic!("{e}"));
        Bench { drive, now: SimTime::ZERO, tag: 0, ended: Vec::new(), namespace: 0 }
    }

    /// Makes a bench with a save area, as drives have it whose store outlives the process.
    pub fn saving(namespaces: &str, sets: &[&str]) -> Bench {
        let mut config = tiny(namespaces, sets);
        let layout = config.media.geometry.layout().unwrap_or_else(|e| panic!("{e}"));
        config.media.save_bytes = save_bytes(&config.namespaces, &layout);
        let drive = Device::new(&config).unwrap_or_else(|e| panic!("{e}"));
        Bench { drive, now: SimTime::ZERO, tag: 0, ended: Vec::new(), namespace: 0 }
    }

    /// Submits a command without waiting; its tag.
    pub fn submit(&mut self, mut command: Command) -> u64 {
        self.tag += 1;
        (command.tag, command.namespace) = (self.tag, self.namespace);
        Drive::submit(&mut self.drive, self.now, command);
        self.tag
    }

    /// Runs the drive's next event; `false`: it is at rest.
    pub fn step(&mut self) -> bool {
        let Some(at) = Drive::next_event(&self.drive) else { return false };
        Drive::advance(&mut self.drive, at);
        self.now = at;
        true
    }

    /// Completions since the last call.
    pub fn ended(&mut self) -> Vec<Completion> {
        while let Some(completion) = Drive::pop(&mut self.drive) {
            let (took, booked) = (completion.completed - completion.submitted, completion.stages.total());
            assert_eq!(booked, took, "stages of {:?}", completion.opcode);
            self.ended.push(completion);
        }
        std::mem::take(&mut self.ended)
    }

    /// Waits for a command.
    pub fn wait(&mut self, tag: u64) -> Completion {
        loop {
            self.ended = self.ended();
            if let Some(at) = self.ended.iter().position(|completion| completion.tag == tag) {
                self.drive.check();
                return self.ended.swap_remove(at);
            }
            assert!(self.step(), "command {tag} never ends");
        }
    }

    /// Submits a command and waits for it.
    pub fn run(&mut self, command: Command) -> Completion {
        let tag = self.submit(command);
        self.wait(tag)
    }

    /// Reads `sectors` from `lba` on.
    pub fn read(&mut self, lba: Lba, sectors: u32) -> Completion {
        let data = vec![0xEE; sectors as usize * Drive::image_bytes(&self.drive)];
        self.run(Command::new(0, Opcode::Read, lba, sectors, data))
    }

    /// Writes `sectors` from `lba` on, with content that follows from `seed`.
    pub fn write(&mut self, lba: Lba, sectors: u32, seed: u64) -> Completion {
        let data = self.pattern(lba, sectors, seed);
        self.run(Command::new(0, Opcode::Write, lba, sectors, data))
    }

    /// The content that [`Bench::write`] gives.
    pub fn pattern(&self, lba: Lba, sectors: u32, seed: u64) -> Vec<u8> {
        let image = Drive::image_bytes(&self.drive);
        let sector = |i: u64| {
            let mut rng =
                pellucid_flash::Rng::new(seed ^ lba.0.wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            (0..image).map(move |_| rng.below(256) as u8)
        };
        (0..sectors.into()).flat_map(sector).collect()
    }

    /// A command with a list of addresses.
    pub fn vector(&self, opcode: Opcode, addresses: &[Lba], data: Vec<u8>) -> Command {
        let vector = Vector { addresses: addresses.to_vec(), ..Vector::default() };
        let mut command = Command::new(0, opcode, Lba(0), addresses.len() as u32, data);
        command.vector = Some(Box::new(vector));
        command
    }

    /// The geometry of the open-channel namespace.
    pub fn chunks(&self) -> ChunkGeometry {
        match Drive::interface(&self.drive, self.namespace) {
            Some(Interface::OpenChannel(geometry)) => geometry,
            other => panic!("no open-channel namespace: {other:?}"),
        }
    }

    /// The geometry of the zoned namespace.
    pub fn zones(&self) -> ZoneGeometry {
        match Drive::interface(&self.drive, self.namespace) {
            Some(Interface::Zoned(geometry)) => geometry,
            other => panic!("no zoned namespace: {other:?}"),
        }
    }

    /// A sector of the open-channel namespace.
    pub fn lba(&self, group: u32, unit: u32, chunk: u32, sector: u32) -> Lba {
        self.chunks().lba(ChunkAddress { group, unit, chunk, sector })
    }

    /// Returns the drive's report of one chunk.
    pub fn chunk(&mut self, lba: Lba) -> ChunkInfo {
        let report = self.run(Command::new(0, Opcode::Report, lba, 1, Vec::new()));
        let bytes = report.data.as_slice().try_into().expect("one descriptor");
        ChunkInfo::decode(bytes).expect("a descriptor")
    }

    /// Notices of chunks since the last call.
    pub fn notices(&mut self) -> Vec<ChunkNotice> {
        let chunk = |(_, notice)| match notice {
            Notice::Chunk(notice) => notice,
            other => panic!("{other:?} of a drive of chunks"),
        };
        std::iter::from_fn(|| Drive::pop_notice(&mut self.drive)).map(chunk).collect()
    }

    /// Zones that have changed without a command since the last call, by their first sectors.
    pub fn changed_zones(&mut self) -> Vec<Lba> {
        let zone = |(_, notice)| match notice {
            Notice::ZoneChanged(start) => start,
            other => panic!("{other:?} of a drive of zones"),
        };
        std::iter::from_fn(|| Drive::pop_notice(&mut self.drive)).map(zone).collect()
    }

    /// The process ends here, and another one opens the media; commands under way are lost.
    pub fn process_end(&mut self) {
        let media = self.drive.media().clone();
        self.reopen(media);
    }

    /// Goes on with what `media` hold, and with nothing else.
    pub fn reopen(&mut self, mut media: Media) {
        media.power_cut();
        self.drive = Device::restore(self.drive.config(), media).unwrap_or_else(|e| panic!("{e}"));
        self.now = SimTime::ZERO;
        self.ended.clear();
        self.drive.check();
    }

    /// Cuts the power and switches it on again; commands under way are lost.
    pub fn power_cut(&mut self) {
        self.drive.power_cut().unwrap_or_else(|e| panic!("{e}"));
        self.ended.clear();
        while Drive::pop(&mut self.drive).is_some() {}
        self.drive.check();
    }
}
