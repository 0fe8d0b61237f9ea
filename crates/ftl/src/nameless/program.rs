//! Programs: their addresses and their effects.

use super::units::{begin, kill, note_if_empty, replace};
use super::victim::Taken;
use super::{Content, Nameless, Taker};
use crate::block_manager::{BlockKind, BlockState};
use pellucid_flash::{BlockId, BlockStream, DieId, Migration, Ppa};

/// Order of programs. Invariant: each that ends has the next number.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    /// The die whose turn it is.
    next_die: u32,
    /// Programs that have ended.
    ended: u64,
}

impl Programs {
    /// Returns the first able die of `dies` in round-robin order; the next turn starts after it.
    fn next_able(&mut self, dies: u32, able: impl Fn(DieId) -> bool) -> Option<DieId> {
        let mut in_turn = (0..dies).map(|at| DieId((self.next_die + at) % dies));
        let die = in_turn.find(|&die| able(die))?;
        self.next_die = (die.0 + 1) % dies;
        Some(die)
    }

    /// Number of a program that has ended.
    fn end(&mut self) -> u64 {
        self.ended += 1;
        self.ended
    }
}

/// Takes the next page of a die that is not `busy`, and returns its first unit. `None`: there is none now.
pub(super) fn place(state: &mut Nameless, taker: Taker, busy: impl Fn(DieId) -> bool) -> Option<Ppa> {
    if !state.pages.has(taker) {
        return None;
    }
    let (dies, blocks) = (state.layout.dies, &mut state.blocks);
    let able = |die: DieId| !busy(die) && (blocks.open().at(die, 0).is_some() || blocks.free_count(die) > 0);
    let die = state.programs.next_able(dies, able)?;
    let superpages = state.layout.superpages_per_block;
    let kind =
        || BlockKind { cache: false, most_worn: false, meta: false, owner: 0, stream: BlockStream::Host };
    state.pages.take();
    Some(blocks.take_superpage(die, 0, (superpages, false), kind).0)
}

/// Ends the program of the page at `page`. If it succeeded, its units now live; otherwise they have to be placed again.
pub(super) fn ended(state: &mut Nameless, page: Ppa, contents: &[Content], ok: bool) {
    let sequence = state.programs.end();
    let block = state.layout.block_of(page);
    if ok {
        for (ppa, &content) in (page.0..).map(Ppa).zip(contents) {
            written(state, ppa, content);
        }
    }
    state.blocks.settled(block, !ok, sequence);
    if !ok {
        close_failed(state, block, sequence);
    }
    if state.blocks.state(block) == BlockState::Closed {
        note_if_empty(state, block);
    }
}

fn close_failed(state: &mut Nameless, block: BlockId, sequence: u64) {
    let die = state.layout.die_of_block(block);
    if let Some(open) = state.blocks.open().at(die, 0).filter(|open| open.block == block) {
        state.pages.close(open.superpage);
    }
    state.blocks.close_failed(block, sequence);
    state.damage.fail(block);
}

fn written(state: &mut Nameless, ppa: Ppa, content: Content) {
    match content {
        Content::Padding => {}
        Content::Nameless => {
            state.names.written();
            begin(state, ppa, false);
        }
        Content::Virtual(lpn) => replace(state, lpn, ppa),
        Content::Copy(old) => copied(state, old, ppa),
    }
}

/// Records that a copy is on the media; it counts if the unit is still wanted.
fn copied(state: &mut Nameless, old: Ppa, new: Ppa) {
    state.tally.copied();
    let taken = state.victim.as_mut().and_then(|victim| victim.written(old));
    match taken {
        Some(Taken { wanted: false, .. }) => {}
        Some(Taken { lpn: Some(lpn), .. }) => {
            begin(state, new, true);
            state.virtuals.set(lpn, new);
        }
        Some(Taken { lpn: None, .. }) => {
            begin(state, new, false);
            tell(state, old, new);
        }
        None if !state.units.lives(old) => {}
        None if state.units.is_virtual(old) => {
            let owner = state.victim.as_ref().and_then(|victim| victim.owner(old));
            replace(state, owner.expect("a virtual unit of the victim has an address"), new);
        }
        None => {
            begin(state, new, false);
            if state.config.migration == Migration::Acknowledged {
                state.moves.begin(&state.layout, old, new);
            }
            kill(state, old);
            tell(state, old, new);
        }
    }
}

fn tell(state: &mut Nameless, old: Ppa, new: Ppa) {
    state.tally.moved();
    state.moves.tell(old, new);
}
