//! Opening an image: a new one is made, an old one is checked as a whole.
//!
//! ```text
//!  open ─┬─ none, unfinished ─► create ─► (the drive takes it) ─► finish_creation: it has its magic number
//!        └─ an image ─► header fits? ─► load: every state and spare area has its checksum ─► marked as in use
//! ```
//! Invariant: an image that is refused is left as it was found.

use super::*;

impl FileStore {
    /// Opens the image at `path`, or creates it when there is none. An empty file is refused: it may have been cut. A new image has no magic number until
    /// [`FileStore::finish_creation`].
    pub(crate) fn open(path: &Path, config: &MediaConfig, shape: StoreShape) -> Result<Opened, StoreError> {
        let record = RecordShape::new(&shape);
        let regions = Regions::new(&shape, STATE_BYTES, record.bytes);
        let (backing, found) = Backing::open(path)?;
        if found == 0 && !backing.is_new() {
            return Err(StoreError::Empty { path: path.into() });
        }
        let created = found == 0 || Header::is_unfinished(&backing, found);
        let header = match created {
            true => Header::new(config),
            false => Header::read(&backing, found, config, &regions)?,
        };
        let recovered = !created && !header.clean;
        let mut store = FileStore {
            path: path.into(),
            record,
            regions,
            header,
            backing,
            states: vec![BlockState::default(); shape.blocks as usize],
            metas: vec![None; shape.blocks as usize],
            stages: Vec::new(),
            idle_stages: Vec::new(),
            damaged: BTreeSet::new(),
            unit: vec![0; shape.unit_stored_bytes],
            unit_is: NO_UNIT,
            buffer: Mutex::new(vec![0; record.bytes]),
            sync: config.keep.sync,
            behind: BTreeMap::new(),
            created,
            closes: !recovered,
            reserved: 0,
            shape,
        };
        if created {
            if !store.backing.is_new() {
                store.backing.tell(StoreNotice::Blank { path: path.into() });
            }
            store.create(config).inspect_err(|_| store.discard())?;
        } else {
            store.load()?;
            store.reserve(config)?;
            store.header.clean = false;
            store.write_header();
            store.settled("write the header")?;
        }
        let (made, age_s) = (store.header.seed, store.header.age_s);
        Ok(Opened { store: Store::of_file(store), created, made, recovered, age_s })
    }

    fn create(&mut self, config: &MediaConfig) -> Result<(), StoreError> {
        // Starts anew where the last attempt was cut off.
        self.backing.set_len(0)?;
        self.backing.write(0, Header::UNFINISHED);
        self.backing.set_len(self.regions.file_bytes)?;
        self.reserve(config)?;
        // A state of zeros is invalid: a lost part of the file never passes for blocks that were never used.
        let states: Vec<u8> =
            (0..self.shape.blocks).flat_map(|b| encode_state(b, BlockState::default(), 0)).collect();
        self.backing.write(self.regions.state_at, &states);
        self.settled("write the new image")
    }

    /// Reserves the largest size of the image, if the description asks for that.
    fn reserve(&mut self, config: &MediaConfig) -> Result<(), StoreError> {
        if config.keep.space == Space::Reserve {
            self.backing.reserve(self.regions.file_bytes)?;
            self.reserved = self.regions.file_bytes;
        }
        Ok(())
    }

    /// Loads states and spare areas, each with its checksum. Damage is refused: without the owner of a block's data, an older copy would
    /// pass for the newest.
    fn load(&mut self) -> Result<(), StoreError> {
        let damaged = |path: &Path, what| Err(StoreError::Damaged { path: path.into(), what });
        let mut states = vec![0; self.shape.blocks as usize * STATE_BYTES];
        self.backing.read(self.regions.state_at, &mut states).map_err(|e| self.io("read block states", e))?;
        let mut records = vec![0; self.record.bytes * self.shape.superpages_per_block as usize];
        for (block, entry) in (0..).zip(states.chunks_exact(STATE_BYTES)) {
            let Some((state, reads)) = decode_state(block, entry, self.shape.superpages_per_block) else {
                let at = self.state_at(block);
                return damaged(&self.path, format!("the state of block {block}, at byte {at}, is damaged"));
            };
            self.states[block as usize] = state;
            if state.next_superpage() == 0 {
                continue;
            }
            let mut meta = self.fresh_meta();
            if !state.all_unreadable() {
                let used = &mut records[..self.record.bytes * state.next_superpage() as usize];
                let at = self.record_at(block, 0);
                self.backing.read(at, used).map_err(|e| self.io("read spare areas", e))?;
                for (superpage, record) in (0..).zip(used.chunks_exact_mut(self.record.bytes)) {
                    let name = (block, superpage, state.erase_count());
                    if !self.record.decode(&self.shape, name, record, &mut meta) {
                        let at = self.record_at(block, superpage);
                        let what = format!(
                            "the spare area of block {block}, superpage {superpage}, at byte {at}, is damaged"
                        );
                        return damaged(&self.path, what);
                    }
                }
                let (born_s, _) = self.shape.meta.history(&meta);
                self.shape.meta.set_history(&mut meta, (born_s, u64::from(reads)));
            }
            self.metas[block as usize] = Some(meta);
        }
        Ok(())
    }

    /// Makes a new image valid; until then it counts as unfinished, and the next start begins it anew.
    pub(crate) fn finish_creation(&mut self) -> Result<(), StoreError> {
        self.sync().inspect_err(|_| self.discard())?;
        self.write_header();
        self.sync().inspect_err(|_| self.discard())
    }
}

fn decode_state(block: u32, entry: &[u8], superpages_per_block: u32) -> Option<(BlockState, u32)> {
    let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four bytes"));
    let state = u64::from(word(0)) | u64::from(word(4)) << 32;
    (word(12) == state_sum(block, &entry[..12])).then_some(())?;
    Some((BlockState::from_checked(state, superpages_per_block)?, word(8)))
}
