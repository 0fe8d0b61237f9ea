//! Names: their targets, their release, and the moves that the host acknowledges.

use super::units::{kill, note_if_empty};
use super::victim::Taken;
use super::{Name, Nameless};
use pellucid_flash::Ppa;

/// Target of a name.
pub(super) fn name(state: &Nameless, name: Ppa) -> Name {
    match state.victim.as_ref().and_then(|victim| victim.taken(name)) {
        Some(Taken { wanted: true, lpn: None }) => return Name::Leaving,
        Some(Taken { wanted: true, lpn: Some(_) }) => return Name::Virtual,
        _ => {}
    }
    if name.0 >= state.layout.units {
        Name::Unknown
    } else if let Some(new) = state.moves.target(name) {
        Name::Moved(new)
    } else if !state.units.lives(name) {
        Name::Unknown
    } else if state.units.is_virtual(name) {
        Name::Virtual
    } else {
        Name::Here
    }
}

/// Frees a name; freeing the old name of a move frees the new one too. `false`: there is no such name.
pub(super) fn free(state: &mut Nameless, freed: Ppa) -> bool {
    match name(state, freed) {
        Name::Unknown | Name::Virtual => return false,
        Name::Leaving => {
            let victim = state.victim.as_mut().expect("a unit that leaves has a victim");
            victim.discard(freed);
        }
        Name::Moved(new) => {
            end_move(state, freed);
            kill(state, new);
        }
        Name::Here => {
            if let Some(old) = state.moves.origin(state.layout.block_of(freed), freed) {
                end_move(state, old);
            }
            kill(state, freed);
        }
    }
    state.names.freed();
    true
}

/// Acknowledges a move: the host knows the new name of the data at `old`. `false`: there is no such move.
pub(super) fn acknowledge(state: &mut Nameless, old: Ppa) -> bool {
    let known = state.moves.target(old).is_some();
    if known {
        end_move(state, old);
    }
    known
}

fn end_move(state: &mut Nameless, old: Ppa) {
    let held = state.moves.end(&state.layout, old);
    note_if_empty(state, held);
}
