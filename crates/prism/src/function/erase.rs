//! Background erases of blocks that the application has returned, and of blocks left from before a restart.
//!
//! ```text
//!   give_back ─► queue of the LUN (`erase_queue.rs`) ─► one erase at a time ─► free; bad, if the drive says so; else spoiled
//! ```

use super::blocks::{GivenBack, State};
use super::link::{Op, Purpose};
use super::{Function, io, wear};
use pellucid_flash::{ChunkOp, Command, Opcode, Status};

/// Gives back a block whose data are no longer needed.
pub(super) fn give_back(function: &mut Function, block: u32) {
    function.blocks.close(block);
    io::break_off(function, block, Status::ChunkWriteInvalid);
    match function.blocks.give_back(block) {
        GivenBack::Queued => erase_waiting(function, function.blocks.lun_of(block)),
        GivenBack::Retired => function.tally.retired(),
        GivenBack::Waits | GivenBack::Free => {}
    }
}

/// Sends the next erase of a LUN, if it may start.
pub(super) fn erase_waiting(function: &mut Function, lun: u32) {
    if let Some(block) = function.blocks.next_erase(lun) {
        send_erase(function, Purpose::Erase, block);
    }
}

pub(super) fn send_erase(function: &mut Function, purpose: Purpose, block: u32) {
    let command = Command::new(0, Opcode::Chunk(ChunkOp::Reset), function.sector(block, 0), 0, Vec::new());
    function.link.send(purpose, 0, block, command);
}

/// Handles the end of a background erase.
pub(super) fn ended(function: &mut Function, op: &Op, status: Status) {
    let block = op.block();
    function.blocks.end_erase(block);
    let erased = erased(function, block, status);
    let cleaning = function.blocks[block].end_cleaning();
    match (erased, cleaning) {
        (true, true) => io::write_next(function, block),
        (true, false) => function.blocks.set_state(block, State::Free),
        // The application has mapped it, and learns of the failure when it writes.
        (false, true) => {
            io::break_off(function, block, status);
            if status == Status::ChunkOffline {
                function.blocks[block].lose();
            }
        }
        (false, false) if status == Status::ChunkOffline => retire(function, block),
        (false, false) => function.blocks.spoil(block),
    }
    erase_waiting(function, function.blocks.lun_of(block));
    wear::go_on(function);
}

/// Counts an erase. Returns whether it succeeded.
pub(super) fn erased(function: &mut Function, block: u32, status: Status) -> bool {
    // An empty chunk refuses to be erased.
    let ok = matches!(status, Status::Success | Status::ChunkInvalidReset);
    if ok {
        function.blocks[block].erased();
        function.tally.erase();
        function.blocks.set_erases(block, function.blocks.erases(block) + 1);
    }
    ok
}

/// Retires a block.
pub(super) fn retire(function: &mut Function, block: u32) {
    function.tally.retired();
    function.blocks.retire(block);
}
