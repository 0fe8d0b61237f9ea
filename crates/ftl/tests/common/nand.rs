//! A toy flash memory that refuses the operations that NAND refuses.

use pellucid_flash::{BlockId, Layout, Lpn, Ppa};
use pellucid_ftl::MountSource;

/// Content of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Padding,
    /// Host data: the number of the write.
    Version(u64),
    Metadata(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Superpage {
    sequence: u64,
    units: Vec<(Lpn, Data)>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// Superpages begun so far; `None`: torn, or failed.
    superpages: Vec<Option<Superpage>>,
    first: u64,
    erases: u32,
    bad: bool,
}

/// Blocks of superpages.
#[derive(Clone, Debug)]
pub struct Nand {
    layout: Layout,
    blocks: Vec<Block>,
    /// Units that cannot be read.
    pub unreadable: std::collections::BTreeSet<Ppa>,
    /// Programs and erases that were carried out.
    pub programs: u64,
    pub erases: u64,
}

impl Nand {
    pub fn new(layout: &Layout, bad: &[BlockId]) -> Nand {
        let mut blocks = vec![Block::default(); layout.blocks as usize];
        bad.iter().for_each(|block| blocks[block.0 as usize].bad = true);
        Nand { layout: layout.clone(), blocks, unreadable: Default::default(), programs: 0, erases: 0 }
    }

    /// Programs a superpage; `ok`: it can be read from then on.
    pub fn program(&mut self, first: Ppa, sequence: u64, units: Vec<(Lpn, Data)>, ok: bool) {
        let superpage = self.layout.superpage_of(first);
        let block = &mut self.blocks[self.layout.block_of(first).0 as usize];
        assert!(!block.bad, "a program in a bad block");
        assert_eq!(block.superpages.len() as u32, superpage, "out of order, or not erased");
        assert!(units.len() <= self.layout.units_per_superpage as usize);
        block.first = if superpage == 0 { sequence } else { block.first };
        assert!(sequence >= block.first && sequence - block.first < u64::from(u32::MAX), "sequence number");
        block.superpages.push(ok.then_some(Superpage { sequence, units }));
        self.programs += 1;
    }

    /// Erases a block; not `ok`: it failed, or was cut off.
    pub fn erase(&mut self, block: BlockId, ok: bool) {
        let all = self.layout.superpages_per_block as usize;
        let units = self.layout.ppa(block, 0)..self.layout.ppa(block, self.layout.units_per_block);
        self.unreadable.retain(|ppa| !units.contains(ppa));
        let block = &mut self.blocks[block.0 as usize];
        assert!(!block.bad, "an erase of a bad block");
        block.superpages = if ok { Vec::new() } else { vec![None; all] };
        block.erases += u32::from(ok);
        self.erases += 1;
    }

    pub fn retire(&mut self, block: BlockId) {
        self.blocks[block.0 as usize].bad = true;
    }

    /// Page and content of a unit; `None`: erased, torn or unreadable.
    pub fn read(&self, ppa: Ppa) -> Option<(Lpn, Data)> {
        if self.unreadable.contains(&ppa) {
            return None;
        }
        let superpage = self.superpage(ppa)?;
        let unit = (self.layout.index_in_block(ppa) % self.layout.units_per_superpage) as usize;
        Some(superpage.units.get(unit).cloned().unwrap_or((Lpn::NONE, Data::Padding)))
    }

    fn superpage(&self, ppa: Ppa) -> Option<&Superpage> {
        let block = &self.blocks[self.layout.block_of(ppa).0 as usize];
        block.superpages.get(self.layout.superpage_of(ppa) as usize)?.as_ref()
    }
}

impl MountSource for Nand {
    fn spare(&self, ppa: Ppa) -> Option<(Lpn, u64)> {
        let superpage = self.superpage(ppa)?;
        let unit = (self.layout.index_in_block(ppa) % self.layout.units_per_superpage) as usize;
        Some((superpage.units.get(unit).map_or(Lpn::NONE, |unit| unit.0), superpage.sequence))
    }

    fn used_superpages(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].superpages.len() as u32
    }

    fn erases(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].erases
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.blocks[block.0 as usize].bad
    }

    fn map_page(&self, ppa: Ppa) -> Option<Vec<u8>> {
        match self.read(ppa)? {
            (_, Data::Metadata(bytes)) => Some(bytes),
            _ => None,
        }
    }
}
