//! Writes: each command gets its own flash pages, with parallel units in rotation and one write at a time in
//! each.

use super::core::Core;
use super::link::TAG_WRITE;
use super::{collect, ends};
use crate::{Content, Taker};
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{
    Command, Completion, Lpn, NamelessGeometry, NamelessOp, Opcode, Ppa, StageTimes, Status,
};
use std::collections::VecDeque;

/// Owner of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    /// A request: its number, and the first sector of its command.
    Request(u32, u32),
    /// Copies of the victim.
    #[default]
    Gc,
}

/// The program of a page, from the time at which its data are known.
#[derive(Clone, Debug, Default)]
struct Program {
    owner: Owner,
    taker: Option<Taker>,
    /// Its command has nameless sectors only.
    pure: bool,
    contents: Vec<Content>,
    data: Vec<u8>,
    page: Option<Ppa>,
}

/// Programs that wait or are in flight. Invariant: a die has at most one program in flight, which does not wait.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    programs: Slab<Program>,
    waiting: VecDeque<u32>,
    /// Copies whose first program failed.
    again: VecDeque<u32>,
    /// By die: the program under way.
    under_way: Vec<u32>,
}

impl Writes {
    pub fn new(dies: u32) -> Writes {
        Writes {
            programs: Slab::default(),
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            under_way: vec![NIL; dies as usize],
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn memory_bytes(&self) -> u64 {
        let held = |program: &Program| program.data.len() + program.contents.len() * size_of::<Content>();
        self.programs.memory_bytes() + self.programs.iter().map(held).sum::<usize>() as u64
    }

    pub fn check(&self) {
        for (die, &program) in self.under_way.iter().enumerate().filter(|(_, program)| **program != NIL) {
            assert!(
                self.programs[program].page.is_some(),
                "die {die}: a program without a page is under way"
            );
            assert!(
                !self.waiting.contains(&program) && !self.again.contains(&program),
                "program {program} waits, too"
            );
        }
    }
}

/// Starts a write: cuts it into pages, which wait.
pub(super) fn start_write(core: &mut Core, request: u32) {
    let mut command = core.requests.take_command(request);
    let sectors = command.sectors;
    core.engine.read_again();
    if command.opcode == Opcode::Nameless(NamelessOp::Write)
        && let Some(vector) = &mut command.vector
        && vector.addresses.is_empty()
    {
        vector.addresses.resize(sectors as usize, NamelessGeometry::NAMELESS);
    }
    let nameless = (0..sectors).filter(|&i| content(&command, i) == Content::Nameless).count() as u32;
    let promised = core.engine.promise(nameless);
    let pages = sectors.div_ceil(core.shape.layout.units_per_superpage);
    if promised {
        let taker = if nameless > 0 { Taker::Nameless } else { Taker::Virtual };
        cut(core, request, &command, taker, nameless == sectors);
    }
    core.requests.put_command(request, command);
    core.requests.awaits(request, pages);
    if !promised {
        ends::finish_with(core, request, Some(Status::CapacityExceeded));
    }
}

fn cut(core: &mut Core, request: u32, command: &Command, taker: Taker, pure: bool) {
    let most = core.shape.layout.units_per_superpage;
    let mut first = 0;
    while first < command.sectors {
        let end = command.sectors.min(first + most);
        let at = core.writes.programs.take();
        let program = &mut core.writes.programs[at];
        (program.owner, program.page) = (Owner::Request(request, first), None);
        (program.taker, program.pure) = (Some(taker), pure);
        program.contents.clear();
        program.contents.extend((first..end).map(|i| content(command, i)));
        program.data.clear();
        let bytes = |sector: u32| sector as usize * core.image_bytes;
        program.data.extend_from_slice(&command.data[bytes(first)..bytes(end)]);
        core.writes.waiting.push_back(at);
        first = end;
    }
}

/// Assigns pages to waiting programs: copies first, then writes in their order; virtual ones may pass nameless ones for which there
/// is no space.
pub(super) fn fill(core: &mut Core) {
    while let Some(page) = wants_copies(core).then(|| page(core, Taker::Gc)).flatten() {
        let program = next_copies(core);
        send_program(core, program, page);
    }
    while let Some(at) = next_write(core) {
        let program = core.writes.waiting[at];
        let taker = core.writes.programs[program].taker.expect("a request's write");
        let Some(page) = page(core, taker) else { return };
        core.writes.waiting.remove(at);
        core.tally.page(core.writes.programs[program].contents.len());
        send_program(core, program, page);
    }
}

fn next_write(core: &Core) -> Option<usize> {
    let fits =
        |&program: &u32| core.writes.programs[program].taker.is_some_and(|taker| core.engine.has_page(taker));
    core.writes.waiting.iter().position(fits)
}

fn page(core: &mut Core, taker: Taker) -> Option<Ppa> {
    let under_way = &core.writes.under_way;
    core.engine.place(taker, |die| under_way[die.0 as usize] != NIL)
}

/// Returns whether the write in flight in `die` consists of copies.
pub(super) fn writes_copies(core: &Core, die: u32) -> bool {
    core.writes.programs[core.writes.under_way[die as usize]].owner == Owner::Gc
}

fn wants_copies(core: &mut Core) -> bool {
    !core.writes.again.is_empty() || collect::has_copies(core)
}

/// Creates a program of copies: a failed one, or the next ones of the victim.
fn next_copies(core: &mut Core) -> u32 {
    if let Some(program) = core.writes.again.pop_front() {
        return program;
    }
    let at = core.writes.programs.take();
    let mut program = std::mem::take(&mut core.writes.programs[at]);
    program.owner = Owner::Gc;
    program.contents.clear();
    program.data.clear();
    collect::take_copies(core, &mut program.contents, &mut program.data);
    core.tally.copy_page();
    core.writes.programs[at] = program;
    at
}

/// Sends a program to its page; the rest of the page is padding.
fn send_program(core: &mut Core, at: u32, page: Ppa) {
    let layout = &core.shape.layout;
    let (die, sectors) = (layout.die_of(page), layout.units_per_superpage);
    let program = &mut core.writes.programs[at];
    program.page = Some(page);
    let mut data = std::mem::take(&mut program.data);
    data.resize(sectors as usize * core.image_bytes, 0);
    core.writes.under_way[die.0 as usize] = at;
    let command =
        Command::new(TAG_WRITE | u64::from(die.0), Opcode::Write, core.shape.sector(page), sectors, data);
    core.link.send(command);
}

/// Ends a write of the drive.
pub(super) fn written(core: &mut Core, die: u32, completion: &mut Completion) {
    let at = std::mem::replace(&mut core.writes.under_way[die as usize], NIL);
    let mut program = std::mem::take(&mut core.writes.programs[at]);
    let page = program.page.take().expect("a program under way has its page");
    let ok = completion.status == Status::Success;
    core.flushes.changed();
    core.engine.ended(page, &program.contents, ok);
    ends::take_moves(core);
    program.data = std::mem::take(&mut completion.data);
    let owner = program.owner;
    if ok {
        name(core, owner, page, &program.contents);
        core.writes.programs[at] = program;
        core.writes.programs.release(at);
    } else {
        core.tally.write_failure();
        program.data.truncate(program.contents.len() * core.image_bytes);
        core.writes.programs[at] = program;
        match owner {
            Owner::Request(..) => core.writes.waiting.push_front(at),
            Owner::Gc => core.writes.again.push_back(at),
        }
        return;
    }
    match owner {
        Owner::Request(request, _) => ends::part_ended(core, request, Status::Success, &completion.stages),
        Owner::Gc => collect::copies_ended(core),
    }
}

/// Records for a request the names of the written sectors.
fn name(core: &mut Core, owner: Owner, page: Ppa, contents: &[Content]) {
    let Owner::Request(request, first) = owner else { return };
    let names = (page.0..).map(Ppa).zip(first..).zip(contents);
    let nameless = names.filter(|(_, content)| **content == Content::Nameless);
    core.requests.name(request, nameless.map(|((name, sector), _)| (sector, name)));
}

/// Ends writes that wait while nothing is in progress: no space is left, and none becomes free unless the host acknowledges moves or
/// frees names. Nameless writes keep waiting for that, but a write that the host may need before it can do so is ended. All are ended
/// when writes are refused, because acknowledgements are then refused, too.
pub(super) fn give_up(core: &mut Core) {
    let waits = core.engine.unacknowledged() > 0 && !core.health.refuses_writes();
    let hopeless =
        |writes: &Writes| writes.waiting.iter().position(|&at| !waits || !writes.programs[at].pure);
    while let Some(at) = hopeless(&core.writes) {
        let program = core.writes.waiting.remove(at).expect("it waits");
        drop_write(core, program);
        core.progress.note();
    }
}

/// Drops all waiting writes.
pub(super) fn drop_waiting(core: &mut Core) {
    while let Some(program) = core.writes.waiting.pop_front() {
        drop_write(core, program);
        core.progress.note();
    }
}

fn drop_write(core: &mut Core, at: u32) {
    let program = &core.writes.programs[at];
    let Owner::Request(request, _) = program.owner else { return };
    let nameless = program.contents.iter().filter(|&&content| content == Content::Nameless).count();
    core.engine.break_promise(nameless as u32);
    core.writes.programs.release(at);
    let status = if core.health.refuses_writes() { Status::ReadOnly } else { Status::CapacityExceeded };
    ends::part_ended(core, request, status, &StageTimes::default());
}

/// Content of sector `i` of a write.
fn content(command: &Command, i: u32) -> Content {
    if command.opcode == Opcode::Write {
        return Content::Virtual(Lpn((command.lba.0 + u64::from(i)) as u32));
    }
    match command.vector.as_ref().and_then(|vector| vector.addresses.get(i as usize)) {
        Some(&NamelessGeometry::NAMELESS) | None => Content::Nameless,
        Some(lba) => Content::Virtual(Lpn(lba.0 as u32)),
    }
}
