//! Programs: where they go, and what they leave behind.

use super::units::{begin, kill, note_if_empty, replace};
use super::victim::Taken;
use super::{Content, Nameless, Taker};
use crate::block_manager::{BlockKind, BlockState};
use pellucid_flash::{BlockId, BlockStream, DieId, Migration, Ppa};

/// Takes the next page of a die that is not `busy`, and returns its first unit. `None`: there is none now.
pub(super) fn place(state: &mut Nameless, taker: Taker, busy: impl Fn(DieId) -> bool) -> Option<Ppa> {
    if !state.pages.has(taker) {
        return None;
    }
    let (dies, blocks) = (state.layout.dies, &mut state.blocks);
    let able = |die: DieId| !busy(die) && (blocks.open_block(die, 0).is_some() || blocks.free_count(die) > 0);
    let die = (0..dies).map(|i| DieId((state.next_die + i) % dies)).find(|&die| able(die))?;
    state.next_die = (die.0 + 1) % dies;
    let superpages = state.layout.superpages_per_block;
    let kind =
        || BlockKind { cache: false, most_worn: false, meta: false, owner: 0, stream: BlockStream::Host };
    state.pages.take();
    Some(blocks.take_superpage(die, 0, (superpages, false), kind).0)
}

/// Ends the program of the page at `page`. If it succeeded, its units now live; otherwise they have to be placed again.
pub(super) fn ended(state: &mut Nameless, page: Ppa, contents: &[Content], ok: bool) {
    state.sequence += 1;
    let block = state.layout.block_of(page);
    if ok {
        for (ppa, &content) in (page.0..).map(Ppa).zip(contents) {
            written(state, ppa, content);
        }
    }
    state.blocks.settled(block, !ok, state.sequence);
    if !ok {
        close_failed(state, block);
    }
    if state.blocks.state(block) == BlockState::Closed {
        note_if_empty(state, block);
    }
}

fn close_failed(state: &mut Nameless, block: BlockId) {
    let die = state.layout.die_of_block(block);
    if let Some(open) = state.blocks.open_block(die, 0).filter(|open| open.block == block) {
        state.pages.close(open.superpage);
    }
    state.blocks.close_failed(block, state.sequence);
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
    state.counters.copied += 1;
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
    state.counters.moves += 1;
    state.moves.tell(old, new);
}
