//! The objects of a cache. Each has private fields and keeps its own invariants; the paths (`paths/`) are functions over all of them.

use crate::answers::Answers;
use crate::classes::Classes;
use crate::clock::Clock;
use crate::config::size;
use crate::engine::{Engine, Shape};
use crate::evictions::Evictions;
use crate::flash::Flash;
use crate::health::Health;
use crate::index::{Entry, Index};
use crate::passage::Passage;
use crate::requests::Requests;
use crate::slabs::{Buffers, Slabs};
use crate::statistics::Counters;
use crate::watermarks::Watermarks;
use crate::{KvConfig, Outcome};

/// The objects of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub config: KvConfig,
    pub shape: Shape,
    pub clock: Clock,
    pub index: Index,
    pub slabs: Slabs,
    pub buffers: Buffers,
    pub flash: Flash,
    pub requests: Requests,
    pub evictions: Evictions,
    pub health: Health,
    pub passage: Passage,
    pub answers: Answers,
    pub counters: Counters,
}

impl Core {
    /// An empty cache on an engine.
    ///
    /// The error is a sentence.
    pub fn new(config: KvConfig, engine: Engine) -> Result<Core, String> {
        let shape = engine.shape();
        let buffers = (config.memory_bytes / u64::from(shape.slab_bytes)).clamp(4, 1 << 16) as u32;
        if shape.slabs < 4 {
            return Err(format!(
                "the flash has room for {} slabs of {}; allowed: 4 or more, by a larger drive or kv.capacity, or a smaller kv.slab or kv.item_max",
                shape.slabs,
                size(shape.slab_bytes.into())
            ));
        }
        let numbers = shape.slabs.saturating_add(buffers).min(Entry::SLABS_MAX);
        Ok(Core {
            clock: Clock::default(),
            index: Index::new(shape.items()),
            slabs: Slabs::new(numbers, Classes::new(&config, shape.slab_bytes), shape.slab_bytes),
            buffers: Buffers::new(buffers, shape.slab_bytes as usize),
            flash: Flash::new(engine),
            requests: Requests::default(),
            evictions: Evictions::new(Watermarks::new(&config, &shape)),
            health: Health::default(),
            passage: Passage::default(),
            answers: Answers::default(),
            counters: Counters::default(),
            config,
            shape,
        })
    }

    /// Answers a request.
    #[inline]
    pub fn answer(&mut self, tag: u32, outcome: Outcome) {
        self.answers.push(tag, self.clock.now(), outcome);
    }
}
