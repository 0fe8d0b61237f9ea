//! Tests that a stack carries more than the commands of its layer: other namespaces, and notices. Also tests
//! pairs of drives.

use crate::stub::Stub;
use pellucid_flash::{
    ChunkNotice, ChunkReason, ChunkScope, Command, Completion, Drive, Interface, Lba, Notice, Opcode,
    SimTime, Status,
};
use pellucid_host::{Layer, Machine, Pair, Stack};
use std::collections::VecDeque;

/// Layer that passes each command to its first namespace, with its own tag, and passes notices on.
#[derive(Clone, Debug)]
struct Through {
    uses: Vec<u16>,
    heard: Vec<(u16, Notice)>,
    tells: VecDeque<Notice>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    tags: Vec<u64>,
}

fn through(uses: &[u16]) -> Through {
    let uses = uses.to_vec();
    let (heard, tags) = (Vec::new(), Vec::new());
    Through { uses, heard, tells: VecDeque::new(), down: VecDeque::new(), up: VecDeque::new(), tags }
}

impl Machine for Through {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        &self.uses
    }

    fn submit(&mut self, _: SimTime, command: Command) {
        assert_eq!(command.namespace, 0, "a layer sees one namespace");
        self.tags.push(command.tag);
        self.down.push_back(Command { tag: self.tags.len() as u64 - 1, namespace: self.uses[0], ..command });
    }

    fn complete(&mut self, _: SimTime, completion: &mut Completion) {
        let mut completion = completion.take();
        completion.tag = self.tags[completion.tag as usize];
        self.up.push_back(completion);
    }

    fn notice(&mut self, _: SimTime, namespace: u16, notice: Notice) {
        self.heard.push((namespace, notice));
        if let Notice::Moved { old, new } = notice {
            self.tells.push_back(Notice::Moved { old: new, new: old });
        }
    }

    fn advance(&mut self, _: SimTime) {}

    fn next_event(&self) -> Option<SimTime> {
        None
    }

    fn next_command(&mut self) -> Option<Command> {
        self.down.pop_front()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn answered(&self) -> usize {
        self.up.len()
    }

    fn restart(&mut self, _: SimTime) -> Result<(), String> {
        *self = through(&self.uses);
        Ok(())
    }
}

impl Layer for Through {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: 7, handles: 1 }
    }

    fn pop_notice(&mut self) -> Option<Notice> {
        self.tells.pop_front()
    }
}

fn read(tag: u64, namespace: u16, lba: u64) -> Command {
    Command { namespace, ..Command::new(tag, Opcode::Read, Lba(lba), 1, Vec::new()) }
}

fn run(drive: &mut impl Drive) -> Vec<(u64, u64, Status)> {
    let mut all = Vec::new();
    loop {
        while let Some(ended) = drive.pop() {
            all.push((ended.tag, ended.completed.0, ended.status));
        }
        match drive.next_event() {
            Some(next) => drive.advance(next),
            None => return all,
        }
    }
}

fn sectors(drive: &impl Drive, namespace: u16) -> Option<u64> {
    drive.interface(namespace).map(|interface| interface.capacity_sectors())
}

fn chunk(count: u64) -> Notice {
    let (reason, scope) = (ChunkReason::ErrorsHigh, ChunkScope::Chunk);
    Notice::Chunk(ChunkNotice { count, lba: Lba(3), sectors: 8, reason, scope })
}

const NEW: SimTime = SimTime::ZERO;

/// Checks two layers, each on its own namespace, with the others beside them: a number has one meaning at
/// every height.
#[test]
fn namespaces_that_a_layer_does_not_use_are_those_of_the_drive() {
    let lower = Stack::start(through(&[1, 3]), Stub::new(5), NEW).unwrap();
    let mut stack = Stack::start(through(&[2]), lower, NEW).unwrap();
    let all: Vec<_> = (0..6).map(|namespace| sectors(&stack, namespace)).collect();
    assert_eq!(all, [Some(100), Some(7), Some(7), None, Some(500), None], "3 is hidden, 5 is not there");
    // Tags of any value come back, although both layers and the pump have their own tags.
    for (tag, namespace, lba) in
        [(u64::MAX, 0, 50), (1 << 63, 1, 30), (0, 2, 40), (7, 3, 1), (8, 4, 30), (9, 5, 1)]
    {
        stack.submit(NEW, read(tag, namespace, lba));
    }
    assert_eq!((stack.outstanding(), stack.completed()), (4, 2));
    let (good, bad) = (Status::Success, Status::InvalidField);
    let ended =
        [(7, 0, bad), (9, 0, bad), (1 << 63, 30, good), (8, 30, good), (0, 40, good), (u64::MAX, 50, good)];
    assert_eq!(run(&mut stack), ended);
    let reached: Vec<u16> = stack.drive.drive.seen.iter().map(|(namespace, _)| *namespace).collect();
    assert_eq!(reached, [0, 1, 2, 4]);
    assert_eq!((stack.outstanding(), stack.completed()), (0, 0));
}

/// Checks that answers which were not taken for a while come in the order in which they arose.
#[test]
fn completions_of_the_layer_and_of_others_keep_their_order() {
    let mut stack = Stack::start(through(&[1]), Stub::new(2), NEW).unwrap();
    for (tag, lba) in [(0, 10), (1, 20), (2, 30), (3, 40), (4, 50)] {
        stack.submit(NEW, read(tag, (tag % 2) as u16, lba));
    }
    Drive::advance(&mut stack, SimTime(35));
    assert_eq!(stack.pop().map(|ended| ended.tag), Some(0));
    Drive::advance(&mut stack, SimTime(60));
    let rest: Vec<u64> = std::iter::from_fn(|| stack.pop()).map(|ended| ended.tag).collect();
    assert_eq!(rest, [1, 2, 3, 4]);
}

#[test]
fn notices_reach_the_layer_that_uses_the_namespace_and_all_others_pass() {
    let evicted = Notice::Evicted { lba: Lba(8), sectors: 4 };
    let moved = |old, new| Notice::Moved { old: Lba(old), new: Lba(new) };
    let zone = Notice::ZoneChanged(Lba(64));
    let told = [(0, zone), (1, chunk(1)), (2, evicted), (1, moved(3, 4)), (3, chunk(2)), (2, moved(5, 6))];
    let mut drive = Stub::new(4);
    drive.notices = told.into();
    let lower = Stack::start(through(&[1]), drive, NEW).unwrap();
    let mut stack = Stack::start(through(&[2]), lower, NEW).unwrap();
    assert_eq!(stack.drive.layer.heard, [(1, chunk(1)), (1, moved(3, 4))]);
    assert_eq!(stack.layer.heard, [(2, evicted), (2, moved(5, 6))]);
    let mut up: Vec<_> = std::iter::from_fn(|| stack.pop_notice()).collect();
    up.sort_by_key(|(namespace, _)| *namespace);
    assert_eq!(up, [(0, zone), (1, moved(4, 3)), (2, moved(6, 5)), (3, chunk(2))]);
    // Later notices also arrive, when time advances.
    stack.drive.drive.notices.push_back((2, evicted));
    stack.submit(NEW, read(1, 0, 5));
    assert_eq!(run(&mut stack).len(), 1);
    assert_eq!(stack.layer.heard.len(), 3);
}

/// Checks that the layer's commands with the drive are lost, while bypassing commands end as the drive says.
#[test]
fn a_restart_forgets_the_layers_commands_only() {
    let mut stack = Stack::start(through(&[1]), Stub::new(2), NEW).unwrap();
    stack.submit(NEW, read(5, 0, 50));
    stack.submit(NEW, read(6, 1, 50));
    stack.drive.power_cut(SimTime(20));
    stack.restart(SimTime(20)).unwrap();
    assert_eq!(run(&mut stack), [(5, 20, Status::PowerLoss)]);
}

// ---- pairs

fn pair() -> Pair<Stub, Stub> {
    Pair::new(Stub::new(2), Stub::new(3), NEW).unwrap()
}

#[test]
fn a_pair_is_one_drive_with_one_clock() {
    let mut pair = pair();
    let all: Vec<_> = (0..6).map(|namespace| sectors(&pair, namespace)).collect();
    assert_eq!(all, [Some(100), Some(200), Some(100), Some(200), Some(300), None]);
    assert_eq!((pair.namespaces(), pair.of_second(1)), (5, 3));
    // Both drives have commands with the same tags, interleaved ends, and two ends at one moment.
    for (tag, namespace, lba) in [(1, 0, 30), (1, 3, 20), (2, 4, 10), (3, 1, 40), (4, 2, 40), (5, 5, 9)] {
        pair.submit(NEW, read(tag, namespace, lba));
    }
    assert_eq!((pair.outstanding(), pair.completed()), (5, 1));
    let fork = run(&mut pair.clone());
    let good = Status::Success;
    let ended = [
        (5, 0, Status::InvalidField),
        (2, 10, good),
        (1, 20, good),
        (1, 30, good),
        (3, 40, good),
        (4, 40, good),
    ];
    assert_eq!(run(&mut pair), ended);
    assert_eq!(fork, ended, "a fork has the same future");
    assert_eq!(
        (&pair.first.seen[..], &pair.second.seen[..]),
        (&[(0, 1), (1, 3)][..], &[(1, 1), (2, 2), (0, 4)][..])
    );
    assert_eq!(pair.now(), SimTime(40));
}

#[test]
fn completions_that_were_not_taken_keep_their_order() {
    let mut pair = pair();
    for (tag, namespace, lba) in [(0, 0, 40), (1, 2, 10), (2, 0, 20), (3, 2, 30)] {
        pair.submit(NEW, read(tag, namespace, lba));
    }
    Drive::advance(&mut pair, SimTime(100));
    let tags: Vec<u64> = std::iter::from_fn(|| pair.pop()).map(|ended| ended.tag).collect();
    assert_eq!(tags, [1, 2, 3, 0]);
}

#[test]
fn notices_of_both_drives_have_the_numbers_of_the_pair() {
    let mut pair = pair();
    pair.first.notices.push_back((1, chunk(1)));
    pair.second.notices.push_back((1, chunk(2)));
    let all: Vec<_> = std::iter::from_fn(|| pair.pop_notice()).collect();
    assert_eq!(all, [(1, chunk(1)), (3, chunk(2))]);
}

#[test]
fn a_power_cut_of_one_drive_leaves_the_other_at_work() {
    let mut pair = pair();
    pair.submit(NEW, read(1, 0, 50));
    pair.submit(NEW, read(2, 2, 50));
    pair.submit(NEW, read(3, 2, 90));
    pair.act(SimTime(20), |first, _| first.power_cut(SimTime(20)));
    // The drive is away until time 60.
    pair.restart(SimTime(60));
    let good = Status::Success;
    assert_eq!(run(&mut pair), [(1, 20, Status::PowerLoss), (2, 50, good), (3, 90, good)]);
    pair.submit(pair.now(), read(4, 0, 5));
    assert_eq!(run(&mut pair), [(4, 95, good)]);
}

/// Checks a layer on both drives of a pair: it is visible at the first of its namespaces.
#[test]
fn a_layer_stands_on_a_pair() {
    let mut stack = Stack::start(through(&[0, 2]), pair(), NEW).unwrap();
    let all: Vec<_> = (0..5).map(|namespace| sectors(&stack, namespace)).collect();
    assert_eq!(all, [Some(7), Some(200), None, Some(200), Some(300)]);
    stack.submit(NEW, read(1, 0, 30));
    stack.submit(NEW, read(2, 4, 20));
    assert_eq!(run(&mut stack), [(2, 20, Status::Success), (1, 30, Status::Success)]);
}

#[test]
fn drives_of_other_images_make_no_pair() {
    let disk = crate::reference::Reference::new(crate::reference::geometry(1, 2, 18, 8, 2), 1);
    let why = Pair::new(Stub::new(1), disk, NEW).expect_err("images differ");
    assert!(why.contains("4 and"), "{why}");
}
