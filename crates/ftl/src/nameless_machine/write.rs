//! Writes: each command gets flash pages of its own, the parallel units in turn; one write at a time in each.

use super::{NamelessMachine, TAG_WRITE};
use crate::{Content, Taker};
use pellucid_flash::slab::{NIL, Slab};
use pellucid_flash::{Command, Completion, Lpn, NamelessGeometry, NamelessOp, Opcode, Ppa, Status};
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

/// Programs that wait or are under way.
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

impl NamelessMachine {
    /// Starts a write: cuts it into pages, which wait.
    pub(super) fn start_write(&mut self, request: u32) {
        let mut command = self.requests[request].command.take().expect("a request has its command");
        let sectors = command.sectors;
        self.engine.read_again();
        if command.opcode == Opcode::Nameless(NamelessOp::Write)
            && let Some(vector) = &mut command.vector
            && vector.addresses.is_empty()
        {
            vector.addresses.resize(sectors as usize, NamelessGeometry::NAMELESS);
        }
        let nameless = (0..sectors).filter(|&i| content(&command, i) == Content::Nameless).count() as u32;
        let promised = self.engine.promise(nameless);
        let pages = sectors.div_ceil(self.shape.layout.units_per_superpage);
        if promised {
            let taker = if nameless > 0 { Taker::Nameless } else { Taker::Virtual };
            self.cut(request, &command, taker, nameless == sectors);
        }
        let record = &mut self.requests[request];
        (record.command, record.left) = (Some(command), pages);
        if !promised {
            record.status = Some(Status::CapacityExceeded);
            self.finish(request);
        }
    }

    fn cut(&mut self, request: u32, command: &Command, taker: Taker, pure: bool) {
        let most = self.shape.layout.units_per_superpage;
        let mut first = 0;
        while first < command.sectors {
            let end = command.sectors.min(first + most);
            let at = self.writes.programs.take();
            let program = &mut self.writes.programs[at];
            (program.owner, program.page) = (Owner::Request(request, first), None);
            (program.taker, program.pure) = (Some(taker), pure);
            program.contents.clear();
            program.contents.extend((first..end).map(|i| content(command, i)));
            program.data.clear();
            let bytes = |sector: u32| sector as usize * self.image_bytes;
            program.data.extend_from_slice(&command.data[bytes(first)..bytes(end)]);
            self.writes.waiting.push_back(at);
            first = end;
        }
    }

    /// Assigns pages to waiting programs: copies first, then writes in their order; virtual ones may pass nameless ones for which there
    /// is no space.
    pub(super) fn fill(&mut self) {
        while let Some(page) = self.wants_copies().then(|| self.page(Taker::Gc)).flatten() {
            let program = self.next_copies();
            self.program(program, page);
        }
        while let Some(at) = self.next_write() {
            let program = self.writes.waiting[at];
            let taker = self.writes.programs[program].taker.expect("a request's write");
            let Some(page) = self.page(taker) else { return };
            self.writes.waiting.remove(at);
            self.counters.pages += 1;
            self.counters.page_sectors += self.writes.programs[program].contents.len() as u64;
            self.program(program, page);
        }
    }

    fn next_write(&self) -> Option<usize> {
        let fits = |&program: &u32| {
            self.writes.programs[program].taker.is_some_and(|taker| self.engine.has_page(taker))
        };
        self.writes.waiting.iter().position(fits)
    }

    fn page(&mut self, taker: Taker) -> Option<Ppa> {
        let under_way = &self.writes.under_way;
        self.engine.place(taker, |die| under_way[die.0 as usize] != NIL)
    }

    /// Returns whether the write under way in `die` is one of copies.
    pub(super) fn writes_copies(&self, die: u32) -> bool {
        self.writes.programs[self.writes.under_way[die as usize]].owner == Owner::Gc
    }

    fn wants_copies(&mut self) -> bool {
        !self.writes.again.is_empty() || self.has_copies()
    }

    /// Creates a program of copies: a failed one, or the next ones of the victim.
    fn next_copies(&mut self) -> u32 {
        if let Some(program) = self.writes.again.pop_front() {
            return program;
        }
        let at = self.writes.programs.take();
        let mut program = std::mem::take(&mut self.writes.programs[at]);
        program.owner = Owner::Gc;
        program.contents.clear();
        program.data.clear();
        self.take_copies(&mut program.contents, &mut program.data);
        self.counters.copy_pages += 1;
        self.writes.programs[at] = program;
        at
    }

    /// Sends a program to its page; the rest of the page is padding.
    fn program(&mut self, at: u32, page: Ppa) {
        let layout = &self.shape.layout;
        let (die, sectors) = (layout.die_of(page), layout.units_per_superpage);
        let program = &mut self.writes.programs[at];
        program.page = Some(page);
        let mut data = std::mem::take(&mut program.data);
        data.resize(sectors as usize * self.image_bytes, 0);
        self.writes.under_way[die.0 as usize] = at;
        let command =
            Command::new(TAG_WRITE | u64::from(die.0), Opcode::Write, self.shape.sector(page), sectors, data);
        self.send(command);
    }

    /// Ends a write of the drive.
    pub(super) fn written(&mut self, die: u32, completion: &mut Completion) {
        let at = std::mem::replace(&mut self.writes.under_way[die as usize], NIL);
        let mut program = std::mem::take(&mut self.writes.programs[at]);
        let page = program.page.take().expect("a program under way has its page");
        let ok = completion.status == Status::Success;
        self.flushes.changed();
        self.engine.ended(page, &program.contents, ok);
        self.take_moves();
        program.data = std::mem::take(&mut completion.data);
        let owner = program.owner;
        if ok {
            self.name(owner, page, &program.contents);
            self.writes.programs[at] = program;
            self.writes.programs.release(at);
        } else {
            self.counters.write_failures += 1;
            program.data.truncate(program.contents.len() * self.image_bytes);
            self.writes.programs[at] = program;
            match owner {
                Owner::Request(..) => self.writes.waiting.push_front(at),
                Owner::Gc => self.writes.again.push_back(at),
            }
            return;
        }
        match owner {
            Owner::Request(request, _) => self.part_ended(request, Status::Success, &completion.stages),
            Owner::Gc => self.copies_ended(),
        }
    }

    /// Records for a request the names of the written sectors.
    fn name(&mut self, owner: Owner, page: Ppa, contents: &[Content]) {
        let Owner::Request(request, first) = owner else { return };
        let names = (page.0..).map(Ppa).zip(first..).zip(contents);
        let nameless = names.filter(|(_, content)| **content == Content::Nameless);
        self.requests[request].names.extend(nameless.map(|((name, sector), _)| (sector, name)));
    }

    /// Gives up writes that wait while nothing is under way: there is no space, and none comes unless the host acknowledges moves or
    /// frees names. Nameless writes keep waiting for that; a write that a host may need before it can do so is ended. So are all when writes
    /// are refused, as acknowledgements are then.
    pub(super) fn give_up(&mut self) {
        let waits = self.engine.unacknowledged() > 0 && !self.read_only;
        let hopeless =
            |writes: &Writes| writes.waiting.iter().position(|&at| !waits || !writes.programs[at].pure);
        while let Some(at) = hopeless(&self.writes) {
            let program = self.writes.waiting.remove(at).expect("it waits");
            self.drop_write(program);
            self.moved = true;
        }
    }

    /// Drops all waiting writes.
    pub(super) fn drop_waiting(&mut self) {
        while let Some(program) = self.writes.waiting.pop_front() {
            self.drop_write(program);
            self.moved = true;
        }
    }

    fn drop_write(&mut self, at: u32) {
        let program = &self.writes.programs[at];
        let Owner::Request(request, _) = program.owner else { return };
        let nameless = program.contents.iter().filter(|&&content| content == Content::Nameless).count();
        self.engine.break_promise(nameless as u32);
        self.writes.programs.release(at);
        let status = if self.read_only { Status::ReadOnly } else { Status::CapacityExceeded };
        self.part_ended(request, status, &pellucid_flash::StageTimes::default());
    }
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
