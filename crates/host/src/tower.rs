//! Tower: a drive with the layers that a description puts on it.
//!
//! ```text
//!   [HostFtl, on ZoneChunks]        Stack(HostFtl ─► Stack(ZoneChunks ─► Drive))
//!   [HostFtl]                       Stack(HostFtl ─► Drive)
//!   []                              Drive, or Shared(Drive): with targets, which come and go
//! ```
//! One type covers everything that is run or served, over any drive `D` at the bottom. A new layer needs a
//! variant of [`LayerConfig`] and one of [`AnyLayer`].

use crate::{
    Ata, AtaConfig, BlockChunks, BlockChunksConfig, BlockLayer, BlockLayerConfig, CacheConfig, CacheManager,
    ClusterBuffer, ClusterBufferConfig, CpuCosts, HostFtl, HostFtlConfig, Layer, Machine, NamelessFile,
    NamelessFtl, NamelessFtlConfig, Shared, Stack, ZoneChunks, ZoneChunksConfig,
};
use pellucid_flash::{Command, Completion, Drive, Figure, Held, Interface, Lba, Nanos, Notice, SimTime};

/// Configuration of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerConfig {
    /// Translation layer on an open-channel namespace.
    HostFtl(HostFtlConfig),
    /// Chunks made of the zones of a zoned namespace.
    ZoneChunks(ZoneChunksConfig),
    /// Chunks made of the sectors of a block namespace.
    BlockChunks(BlockChunksConfig),
    /// Write clustering in front of a block namespace.
    ClusterBuffer(ClusterBufferConfig),
    /// A flash cache in front of a backing store: two drives behind one port ([`Pair`](crate::Pair)).
    Cache(CacheConfig),
    /// Request queue of a host.
    BlockLayer(BlockLayerConfig),
    /// Nameless writes on an open-channel namespace.
    NamelessFtl(NamelessFtlConfig),
    /// File with nameless blocks, on this nameless namespace.
    NamelessFile(u16),
    /// Disk interface that knows only reads and writes.
    Ata(AtaConfig),
}

impl LayerConfig {
    /// Builds the layer for a drive. An error is a complete sentence.
    fn build(&self, drive: &impl Drive) -> Result<AnyLayer, String> {
        let images = drive.image_bytes();
        match self {
            LayerConfig::HostFtl(config) => {
                let layer = HostFtl::new(config, drive.interface(config.namespace), images);
                layer.map(AnyLayer::HostFtl).map_err(|error| error.to_string())
            }
            LayerConfig::ZoneChunks(config) => {
                let layer = ZoneChunks::new(config, drive.interface(config.namespace), images);
                layer.map(AnyLayer::ZoneChunks).map_err(|error| error.to_string())
            }
            LayerConfig::BlockChunks(config) => {
                let layer = BlockChunks::new(config, drive.interface(config.namespace), images);
                layer.map(AnyLayer::BlockChunks).map_err(|error| error.to_string())
            }
            LayerConfig::ClusterBuffer(config) => {
                let layer = ClusterBuffer::new(config, drive.interface(config.namespace), images);
                layer.map(AnyLayer::ClusterBuffer).map_err(|error| error.to_string())
            }
            LayerConfig::Cache(config) => {
                let (flash, backing) = (drive.interface(config.flash), drive.interface(config.backing));
                let layer = CacheManager::new(config, flash, backing, images);
                layer.map(AnyLayer::Cache).map_err(|error| error.to_string())
            }
            LayerConfig::BlockLayer(config) => {
                BlockLayer::new(config, drive.interface(config.namespace), images).map(AnyLayer::BlockLayer)
            }
            LayerConfig::NamelessFtl(config) => {
                NamelessFtl::new(config, drive.interface(config.namespace), images).map(AnyLayer::NamelessFtl)
            }
            LayerConfig::NamelessFile(namespace) => {
                NamelessFile::new(*namespace, drive.interface(*namespace), images).map(AnyLayer::NamelessFile)
            }
            LayerConfig::Ata(config) => {
                Ata::new(config, drive.interface(config.namespace), images).map(AnyLayer::Ata)
            }
        }
    }

    /// Reports whether a sector has the same address above and below the layer, and is on the drive once its
    /// write is acknowledged.
    pub fn keeps_addresses(&self) -> bool {
        match self {
            LayerConfig::BlockLayer(_) | LayerConfig::Ata(_) => true,
            LayerConfig::HostFtl(_)
            | LayerConfig::ZoneChunks(_)
            | LayerConfig::BlockChunks(_)
            | LayerConfig::ClusterBuffer(_)
            | LayerConfig::Cache(_)
            | LayerConfig::NamelessFtl(_)
            | LayerConfig::NamelessFile(_) => false,
        }
    }

    /// Reports whether a sequential fill has the same result above the layer as below it, before the layer starts: the layer keeps
    /// addresses, and stores nothing of its own on the drive.
    pub fn is_filled_below(&self) -> bool {
        match self {
            LayerConfig::ClusterBuffer(config) => config.journal.is_none(),
            other => other.keeps_addresses(),
        }
    }

    /// Returns the configuration for real time, where the host's processor is real and its costs are not
    /// modelled.
    #[must_use]
    pub fn in_real_time(&self) -> LayerConfig {
        let cpu = CpuCosts::FREE;
        match self {
            LayerConfig::HostFtl(config) => LayerConfig::HostFtl(HostFtlConfig { cpu, ..config.clone() }),
            LayerConfig::ZoneChunks(config) => {
                LayerConfig::ZoneChunks(ZoneChunksConfig { cpu, ..config.clone() })
            }
            LayerConfig::ClusterBuffer(config) => {
                LayerConfig::ClusterBuffer(ClusterBufferConfig { cpu, ..config.clone() })
            }
            LayerConfig::BlockChunks(_)
            | LayerConfig::Cache(_)
            | LayerConfig::NamelessFile(_)
            | LayerConfig::Ata(_) => self.clone(),
            LayerConfig::NamelessFtl(config) => {
                LayerConfig::NamelessFtl(NamelessFtlConfig { cpu, ..config.clone() })
            }
            LayerConfig::BlockLayer(config) => {
                LayerConfig::BlockLayer(BlockLayerConfig { cpu, ..config.clone() })
            }
        }
    }
}

/// Layer whose kind is chosen at run time.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a few, each in the box of its stack")]
pub enum AnyLayer {
    /// Translation layer on an open-channel namespace.
    HostFtl(HostFtl),
    /// Chunks made of the zones of a zoned namespace.
    ZoneChunks(ZoneChunks),
    /// Chunks made of the sectors of a block namespace.
    BlockChunks(BlockChunks),
    /// Write clustering in front of a block namespace.
    ClusterBuffer(ClusterBuffer),
    /// A flash cache in front of a backing store.
    Cache(CacheManager),
    /// Request queue of a host.
    BlockLayer(BlockLayer),
    /// Nameless writes on an open-channel namespace.
    NamelessFtl(NamelessFtl),
    /// File with nameless blocks.
    NamelessFile(NamelessFile),
    /// Disk interface.
    Ata(Ata),
}

/// Calls the layer of each kind.
macro_rules! each {
    ($self:expr, $layer:ident => $call:expr) => {
        match $self {
            AnyLayer::HostFtl($layer) => $call,
            AnyLayer::ZoneChunks($layer) => $call,
            AnyLayer::BlockChunks($layer) => $call,
            AnyLayer::ClusterBuffer($layer) => $call,
            AnyLayer::Cache($layer) => $call,
            AnyLayer::BlockLayer($layer) => $call,
            AnyLayer::NamelessFtl($layer) => $call,
            AnyLayer::NamelessFile($layer) => $call,
            AnyLayer::Ata($layer) => $call,
        }
    };
}

impl AnyLayer {
    /// Returns the layer's name in descriptions and reports.
    pub fn name(&self) -> &'static str {
        match self {
            AnyLayer::HostFtl(_) => "host-ftl",
            AnyLayer::ZoneChunks(_) => "zone-log",
            AnyLayer::BlockChunks(_) => "block-chunks",
            AnyLayer::ClusterBuffer(_) => "cluster-buffer",
            AnyLayer::Cache(_) => "cache",
            AnyLayer::BlockLayer(_) => "block-layer",
            AnyLayer::NamelessFtl(_) => "nameless-ftl",
            AnyLayer::NamelessFile(_) => "nameless-file",
            AnyLayer::Ata(_) => "ata",
        }
    }

    /// Returns the host FTL, if it is one.
    pub fn host_ftl(&self) -> Option<&HostFtl> {
        match self {
            AnyLayer::HostFtl(ftl) => Some(ftl),
            _ => None,
        }
    }

    /// Returns the layer of chunks on zones, if it is one.
    pub fn zone_chunks(&self) -> Option<&ZoneChunks> {
        match self {
            AnyLayer::ZoneChunks(zones) => Some(zones),
            _ => None,
        }
    }

    /// Returns the cluster buffer, if it is one.
    pub fn cluster_buffer(&self) -> Option<&ClusterBuffer> {
        match self {
            AnyLayer::ClusterBuffer(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Returns the cluster buffer mutably, if it is one.
    pub fn cluster_buffer_mut(&mut self) -> Option<&mut ClusterBuffer> {
        match self {
            AnyLayer::ClusterBuffer(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Returns the cache manager, if it is one.
    pub fn cache(&self) -> Option<&CacheManager> {
        match self {
            AnyLayer::Cache(cache) => Some(cache),
            _ => None,
        }
    }

    /// Returns the cache manager mutably, if it is one.
    pub fn cache_mut(&mut self) -> Option<&mut CacheManager> {
        match self {
            AnyLayer::Cache(cache) => Some(cache),
            _ => None,
        }
    }

    /// Returns the block layer, if it is one.
    pub fn block_layer(&self) -> Option<&BlockLayer> {
        match self {
            AnyLayer::BlockLayer(layer) => Some(layer),
            _ => None,
        }
    }

    /// Returns the split FTL of nameless writes, if it is one.
    pub fn nameless_ftl(&self) -> Option<&NamelessFtl> {
        match self {
            AnyLayer::NamelessFtl(layer) => Some(layer),
            _ => None,
        }
    }

    /// Returns the processor time spent so far.
    pub fn cpu_busy(&self) -> Nanos {
        match self {
            AnyLayer::HostFtl(layer) => layer.cpu_busy(),
            AnyLayer::ZoneChunks(layer) => layer.cpu_busy(),
            AnyLayer::BlockLayer(layer) => layer.cpu_busy(),
            AnyLayer::ClusterBuffer(layer) => layer.cpu_busy(),
            // The costs of the remaining layers are not modelled.
            AnyLayer::NamelessFtl(layer) => layer.cpu_busy(),
            AnyLayer::BlockChunks(_) | AnyLayer::Cache(_) | AnyLayer::NamelessFile(_) | AnyLayer::Ata(_) => {
                Nanos::ZERO
            }
        }
    }

    /// Returns the bytes of host memory in use.
    pub fn memory_bytes(&self) -> u64 {
        each!(self, layer => layer.memory_bytes())
    }
}

impl Machine for AnyLayer {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn namespaces(&self) -> &[u16] {
        each!(self, layer => layer.namespaces())
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        each!(self, layer => layer.submit(now, command));
    }

    #[inline]
    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        each!(self, layer => layer.complete(now, completion));
    }

    fn notice(&mut self, now: SimTime, namespace: u16, notice: Notice) {
        each!(self, layer => layer.notice(now, namespace, notice));
    }

    fn advance(&mut self, now: SimTime) {
        each!(self, layer => layer.advance(now));
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        each!(self, layer => layer.next_event())
    }

    #[inline]
    fn next_command(&mut self) -> Option<Command> {
        each!(self, layer => layer.next_command())
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        each!(self, layer => layer.pop())
    }

    #[inline]
    fn answered(&self) -> usize {
        each!(self, layer => layer.answered())
    }

    fn failure(&self) -> Option<String> {
        each!(self, layer => layer.failure())
    }

    fn is_ready(&self) -> bool {
        each!(self, layer => layer.is_ready())
    }

    fn stop(&mut self, now: SimTime) {
        each!(self, layer => layer.stop(now));
    }

    fn is_stopped(&self) -> bool {
        each!(self, layer => layer.is_stopped())
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        each!(self, layer => Machine::restart(layer, now))
    }

    fn figures(&self) -> Vec<Figure> {
        each!(self, layer => layer.figures())
    }
}

impl Layer for AnyLayer {
    fn interface(&self) -> Interface {
        each!(self, layer => layer.interface())
    }

    fn notices(&self) -> usize {
        each!(self, layer => layer.notices())
    }

    fn pop_notice(&mut self) -> Option<Notice> {
        each!(self, layer => layer.pop_notice())
    }

    #[inline]
    fn prefetch(&self, lba: Lba) {
        each!(self, layer => layer.prefetch(lba));
    }

    fn is_read_only(&self) -> bool {
        each!(self, layer => Layer::is_read_only(layer))
    }

    fn keeps_flushed(&self) -> bool {
        each!(self, layer => layer.keeps_flushed())
    }

    fn unsaved_sectors(&self) -> u64 {
        each!(self, layer => layer.unsaved_sectors())
    }

    fn holding(&self, lba: Lba) -> Held {
        each!(self, layer => layer.holding(lba))
    }

    fn moves(&self) -> Vec<(Lba, Lba)> {
        each!(self, layer => layer.moves())
    }

    fn start_figures(&self) -> Vec<Figure> {
        each!(self, layer => layer.start_figures())
    }

    fn start_notice(&self) -> Option<&'static str> {
        each!(self, layer => layer.start_notice())
    }
}

/// Drive with any number of layers.
#[derive(Clone, Debug)]
pub enum Tower<D> {
    /// Drive alone.
    Drive(D),
    /// Layer on the tower below it.
    Stack(Box<Stack<AnyLayer, Tower<D>>>),
    /// Drive with targets on ranges of its parallel units.
    Shared(Box<Shared<D>>),
}

/// Calls the drive of each kind.
macro_rules! storey {
    ($self:expr, $drive:ident => $call:expr) => {
        match $self {
            Tower::Drive($drive) => $call,
            Tower::Stack($drive) => $call,
            Tower::Shared($drive) => $call,
        }
    };
}

impl<D: Drive> Tower<D> {
    /// Puts layers on a drive that is at `now`, in the given order, and lets each start.
    ///
    /// An error is a complete sentence.
    pub fn build(drive: D, layers: &[LayerConfig], now: SimTime) -> Result<Tower<D>, String> {
        Tower::build_by(drive, layers, now, |_, next| next)
    }

    /// Builds as [`Tower::build`] does; `wait` lets time pass as in [`Stack::call_by`].
    ///
    /// An error is a complete sentence.
    pub fn build_by(
        drive: D,
        layers: &[LayerConfig],
        now: SimTime,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Tower<D>, String> {
        let mut tower = Tower::Drive(drive);
        for config in layers {
            let layer = config.build(&tower)?;
            let now = tower.stack().map_or(now, Stack::now);
            let mut stack = Stack::new(layer, tower, now);
            let started = |layer: &AnyLayer| layer.is_ready() || layer.failure().is_some();
            let done = stack.run_until(started, |below, next| wait(below.bottom_mut(), next));
            if let Some(sentence) = stack.layer.failure() {
                return Err(sentence);
            }
            if !done {
                return Err("the drive does not answer".into());
            }
            tower = Tower::Stack(Box::new(stack));
        }
        Ok(tower)
    }

    /// Returns the drive at the bottom.
    #[inline]
    pub fn bottom(&self) -> &D {
        match self {
            Tower::Drive(drive) => drive,
            Tower::Stack(stack) => stack.drive.bottom(),
            Tower::Shared(shared) => &shared.drive,
        }
    }

    /// Returns the drive at the bottom mutably; see also [`Tower::act_on_bottom`].
    #[inline]
    pub fn bottom_mut(&mut self) -> &mut D {
        match self {
            Tower::Drive(drive) => drive,
            Tower::Stack(stack) => stack.drive.bottom_mut(),
            Tower::Shared(shared) => &mut shared.drive,
        }
    }

    /// Returns the drive itself, without its layers.
    pub fn into_bottom(self) -> D {
        match self {
            Tower::Drive(drive) => drive,
            Tower::Stack(stack) => stack.drive.into_bottom(),
            Tower::Shared(shared) => shared.drive,
        }
    }

    /// Returns the uppermost layer with everything below it.
    #[inline]
    pub fn stack(&self) -> Option<&Stack<AnyLayer, Tower<D>>> {
        match self {
            Tower::Stack(stack) => Some(stack),
            _ => None,
        }
    }

    /// Returns the uppermost layer with everything below it, mutably.
    #[inline]
    pub fn stack_mut(&mut self) -> Option<&mut Stack<AnyLayer, Tower<D>>> {
        match self {
            Tower::Stack(stack) => Some(stack),
            _ => None,
        }
    }

    /// Returns the layers, the uppermost first.
    pub fn layers(&self) -> impl Iterator<Item = &AnyLayer> {
        std::iter::successors(self.stack(), |stack| stack.drive.stack()).map(|stack| &stack.layer)
    }

    /// Returns the layer of a namespace; `None` if the namespace is the drive's own, or raw.
    pub fn layer_of(&self, namespace: u16) -> Option<&dyn Layer> {
        match self {
            Tower::Drive(_) => None,
            Tower::Stack(stack) if stack.namespace() == namespace => Some(&stack.layer),
            Tower::Stack(stack) => stack.drive.layer_of(namespace),
            Tower::Shared(shared) => shared.layer(namespace).map(|layer| layer as &dyn Layer),
        }
    }

    /// Returns the drive with its targets, if this tower can have targets.
    pub fn shared(&self) -> Option<&Shared<D>> {
        match self {
            Tower::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Returns the drive with its targets mutably, if this tower can have targets.
    pub fn shared_mut(&mut self) -> Option<&mut Shared<D>> {
        match self {
            Tower::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Returns all namespaces, the uppermost layer's first.
    pub fn interfaces(&self) -> Vec<(u16, Interface)> {
        let first = self.stack().map(Stack::namespace);
        let others = (0..self.namespaces()).filter(|&number| Some(number) != first);
        let numbers = first.into_iter().chain(others);
        numbers.filter_map(|number| Some((number, self.interface(number)?))).collect()
    }

    /// Runs an action on the drive at the bottom at `now` that is not a command, and handles its effects.
    pub fn act_on_bottom<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        let (mut act, mut result) = (Some(act), None);
        self.act(now, &mut |drive| result = act.take().map(|act| act(drive)));
        result.expect("there is a drive at the bottom")
    }

    fn act(&mut self, now: SimTime, act: &mut dyn FnMut(&mut D)) {
        match self {
            Tower::Drive(drive) => act(drive),
            Tower::Stack(stack) => stack.act_on_drive(now, |below| below.act(now, act)),
            Tower::Shared(shared) => shared.act_on_drive(now, act),
        }
    }

    /// Returns the number of sectors whose newest acknowledged data only the memory of layers holds, as [`Layer::unsaved_sectors`] has them.
    pub fn unsaved_sectors(&self) -> u64 {
        match self {
            Tower::Drive(_) => 0,
            Tower::Stack(stack) => stack.layer.unsaved_sectors() + stack.drive.unsaved_sectors(),
            Tower::Shared(shared) => shared.unsaved_sectors(),
        }
    }

    /// Restarts all layers, from the bottom up, after the drive at the bottom lost power and came back at
    /// `now`.
    ///
    /// An error is a complete sentence.
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        match self {
            Tower::Drive(_) => Ok(()),
            Tower::Stack(stack) => {
                stack.drive.restart(now)?;
                stack.restart(now)
            }
            Tower::Shared(shared) => shared.restart(now),
        }
    }

    /// Stops the layers, so that their next start is cheap. An error is a complete sentence.
    pub fn stop(&mut self) -> Result<(), String> {
        match self {
            Tower::Drive(_) => Ok(()),
            Tower::Stack(stack) => stack.stop(),
            Tower::Shared(shared) => shared.stop(),
        }
    }
}

impl<D: Drive> Drive for Tower<D> {
    fn namespaces(&self) -> u16 {
        storey!(self, drive => drive.namespaces())
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        storey!(self, drive => drive.interface(namespace))
    }

    fn image_bytes(&self) -> usize {
        storey!(self, drive => drive.image_bytes())
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        storey!(self, drive => drive.submit(now, command));
    }

    #[inline]
    fn advance(&mut self, now: SimTime) {
        storey!(self, drive => drive.advance(now));
    }

    #[inline]
    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        storey!(self, drive => drive.advance_to_completion(now, limit))
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        storey!(self, drive => drive.next_event())
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        storey!(self, drive => drive.pop())
    }

    #[inline]
    fn outstanding(&self) -> usize {
        storey!(self, drive => drive.outstanding())
    }

    #[inline]
    fn completed(&self) -> usize {
        storey!(self, drive => drive.completed())
    }

    #[inline]
    fn notices(&self) -> usize {
        storey!(self, drive => drive.notices())
    }

    #[inline]
    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        storey!(self, drive => drive.pop_notice())
    }
}
