//! File with nameless blocks: the minimal use that a file system makes of names.
//!
//! The layer looks like a block drive above a nameless namespace: each sector of the file has a name, as an
//! inode would keep it. A write is nameless, and its end frees the old name. When a sector is moved, its new
//! name replaces the old one, and the move is acknowledged at once.
//!
//! The names are in memory only: the layer is for measurements, and starts with an empty file on an empty
//! namespace. A power cut loses the names, and the names may then refer to any data: every command fails
//! until the file is made anew.

use crate::{Layer, Machine};
use pellucid_flash::slab::Slab;
use pellucid_flash::{
    Command, Completion, Figure, Held, Interface, Lba, NamelessOp, Notice, Opcode, SimTime, Stage,
    StageTimes, Status, Vector,
};
use std::collections::{BTreeMap, VecDeque};

/// Marker for no name and for no sector.
const NONE: u32 = u32::MAX;
/// Divisor of the names: this share is not offered, because overwritten sectors have two names for a while.
const SPARE: u64 = 16;
/// Maximum number of attempts at a read whose names were moved meanwhile (prototype: a move ends the old
/// name).
const ATTEMPTS: u32 = 16;

#[derive(Clone, Debug, Default)]
struct Request {
    command: Option<Command>,
    submitted: SimTime,
    left: u32,
    status: Option<Status>,
    unmapped: u32,
    stages: StageTimes,
}

/// Purpose of a command below.
#[derive(Clone, Copy, Debug, Default)]
enum Purpose {
    /// The whole of a request: a write, or a flush.
    Whole(u32),
    /// A part of a read.
    Piece(Piece),
    /// Background work: old names are freed.
    #[default]
    Upkeep,
}

/// Sectors of a read with names in a row.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    /// First sector of the request, and how many.
    from: u32,
    count: u32,
    /// Name of the first.
    name: u32,
    attempts: u32,
}

/// Names in use, of as many as the drive has.
#[derive(Clone, Copy, Debug)]
struct Room {
    names: u64,
    /// Names of sectors.
    used: u64,
    /// Sectors of writes under way, which will have names.
    writing: u64,
    /// Names that are being freed.
    freeing: u64,
}

impl Room {
    /// Returns whether a write of so many sectors may be sent: there are names for it, or none will be free later.
    fn admits(&self, sectors: u64) -> bool {
        let others = self.writing + self.freeing;
        others == 0 || self.used + others + sectors <= self.names
    }
}

/// Layer of a nameless file. Clone it together with the drive below to fork the simulation.
#[derive(Clone, Debug)]
pub struct NamelessFile {
    namespace: u16,
    image_bytes: usize,
    now: SimTime,
    /// Name of each sector.
    names: Vec<u32>,
    /// Sector of each name.
    sectors: Vec<u32>,
    requests: Slab<Request>,
    sent: Slab<Purpose>,
    /// Moves of sectors whose old name is being freed: old name and new name.
    orphans: BTreeMap<u32, u32>,
    room: Room,
    /// Writes that wait for names, first come, first served.
    held: VecDeque<u32>,
    down: VecDeque<Command>,
    up: VecDeque<Completion>,
    moves: u64,
    /// A power cut has lost the names.
    lost: bool,
}

impl NamelessFile {
    /// Creates the file on a nameless namespace. An error is a complete sentence.
    pub fn new(
        namespace: u16,
        interface: Option<Interface>,
        image_bytes: usize,
    ) -> Result<NamelessFile, String> {
        let geometry = match interface {
            Some(Interface::Nameless(geometry)) => geometry,
            Some(other) => {
                return Err(format!(
                    "a nameless file needs a nameless namespace; namespace {namespace} is {}",
                    other.name()
                ));
            }
            None => return Err(format!("the drive has no namespace {namespace}")),
        };
        let sectors = geometry.capacity_sectors - geometry.capacity_sectors / SPARE;
        Ok(NamelessFile {
            namespace,
            image_bytes,
            now: SimTime::ZERO,
            names: vec![NONE; sectors as usize],
            sectors: vec![NONE; geometry.name_sectors as usize],
            requests: Slab::default(),
            sent: Slab::default(),
            orphans: BTreeMap::new(),
            room: Room { names: geometry.capacity_sectors, used: 0, writing: 0, freeing: 0 },
            held: VecDeque::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            moves: 0,
            lost: false,
        })
    }

    /// Returns the bytes of host memory in use.
    pub fn memory_bytes(&self) -> u64 {
        (self.names.len() + self.sectors.len()) as u64 * 4
            + self.requests.memory_bytes()
            + self.sent.memory_bytes()
    }

    /// Checks the names; panics if they disagree.
    pub fn check(&self) {
        for (sector, &name) in self.names.iter().enumerate().filter(|(_, name)| **name != NONE) {
            assert_eq!(self.sectors[name as usize], sector as u32, "the sector of name {name}");
        }
        let named = self.names.iter().filter(|&&name| name != NONE).count();
        assert_eq!(named, self.sectors.iter().filter(|&&sector| sector != NONE).count(), "names");
        assert_eq!(named as u64, self.room.used, "names in use");
    }

    fn refuse(&self, command: &Command) -> Option<Status> {
        if self.lost {
            let is_read = command.opcode == Opcode::Read;
            return Some(if is_read { Status::UnrecoveredRead } else { Status::WriteFault });
        }
        let carries = match command.opcode {
            Opcode::Write => true,
            Opcode::Read => !command.data.is_empty(),
            Opcode::Flush => return None,
            Opcode::Trim | Opcode::WriteZeroes => false,
            _ => return Some(Status::InvalidOpcode),
        };
        let bytes = command.sectors as usize * self.image_bytes;
        if command.sectors == 0 || command.vector.is_some() || (carries && command.data.len() != bytes) {
            return Some(Status::InvalidField);
        }
        let end = command.lba.0.checked_add(command.sectors.into());
        end.is_none_or(|end| end > self.names.len() as u64).then_some(Status::LbaOutOfRange)
    }

    fn send(&mut self, purpose: Purpose, command: Command) {
        let tag = self.sent.insert(purpose).into();
        self.down.push_back(Command { tag, namespace: self.namespace, ..command });
    }

    fn start(&mut self, request: u32) {
        let mut command = self.requests[request].command.take().expect("a request has its command");
        let (lba, sectors) = (command.lba.0 as u32, command.sectors);
        match command.opcode {
            Opcode::Write => {
                self.requests[request].command = Some(command);
                self.held.push_back(request);
                return self.send_held();
            }
            Opcode::Flush => {
                self.send(Purpose::Whole(request), Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
                self.requests[request].left = 1;
            }
            Opcode::Read => {
                if !command.data.is_empty() {
                    command.data.fill(0);
                }
                self.requests[request].command = Some(command);
                return self.read(request, 0, sectors, 0);
            }
            _ => {
                let gone = (lba..lba + sectors).map(|sector| self.rename(sector, NONE)).collect();
                self.free(gone);
            }
        }
        self.requests[request].command = Some(command);
        self.end_if_done(request);
    }

    /// Reads sectors of a request, with one command for each run of names.
    fn read(&mut self, request: u32, from: u32, count: u32, attempts: u32) {
        let command = self.requests[request].command.as_ref().expect("a request has its command");
        let (first, wanted) = (command.lba.0 as usize, !command.data.is_empty());
        let mut at = from;
        while at < from + count {
            let name = self.names[first + at as usize];
            let follows = |&i: &u32| self.names[first + i as usize] == name.wrapping_add(i - at);
            let run = if name == NONE { 0 } else { (at..from + count).take_while(follows).count() as u32 };
            if run == 0 {
                self.requests[request].unmapped += 1;
                at += 1;
                continue;
            }
            let data = if wanted { vec![0; run as usize * self.image_bytes] } else { Vec::new() };
            let read = Command::new(0, Opcode::Nameless(NamelessOp::Read), Lba(name.into()), run, data);
            self.send(Purpose::Piece(Piece { request, from: at, count: run, name, attempts }), read);
            self.requests[request].left += 1;
            at += run;
        }
        self.end_if_done(request);
    }

    /// Sets the name of a sector; returns its old name.
    fn rename(&mut self, sector: u32, name: u32) -> u32 {
        let old = std::mem::replace(&mut self.names[sector as usize], name);
        self.room.used = self.room.used + u64::from(name != NONE) - u64::from(old != NONE);
        if old != NONE {
            self.sectors[old as usize] = NONE;
        }
        if name != NONE {
            self.sectors[name as usize] = sector;
            self.orphans.remove(&name);
        }
        old
    }

    fn free(&mut self, mut names: Vec<u32>) {
        names.retain(|&name| name != NONE);
        if !names.is_empty() {
            self.room.freeing += names.len() as u64;
            let addresses: Vec<Lba> = names.iter().map(|&name| Lba(name.into())).collect();
            let command = Command::new(
                0,
                Opcode::Nameless(NamelessOp::Free),
                Lba(0),
                addresses.len() as u32,
                Vec::new(),
            );
            let vector = Some(Box::new(Vector { addresses, ..Vector::default() }));
            self.send(Purpose::Upkeep, Command { vector, ..command });
        }
    }

    /// Takes the new names of a write's sectors.
    fn written(&mut self, request: u32, completion: &mut Completion) {
        let command = self.requests[request].command.as_mut().expect("a request has its command");
        command.data = std::mem::take(&mut completion.data);
        let (lba, sectors) = (command.lba.0 as u32, command.sectors);
        self.room.writing -= u64::from(sectors);
        if completion.status == Status::Success {
            let name = |i: u32| {
                completion.vector.as_ref().map_or(completion.result, |vector| vector.addresses[i as usize].0)
            };
            let old = (0..sectors).map(|i| self.rename(lba + i, name(i) as u32)).collect();
            self.free(old);
        }
    }

    /// Sends writes that waited for names, as far as there are some.
    fn send_held(&mut self) {
        while let Some(&request) = self.held.front() {
            let command = self.requests[request].command.as_mut().expect("a request has its command");
            let (sectors, fua) = (command.sectors, command.fua);
            if !self.room.admits(sectors.into()) {
                return;
            }
            self.held.pop_front();
            self.room.writing += u64::from(sectors);
            // The drive takes no address; a block layer between sees by it which writes of the file are neighbours.
            let (place, data) = (command.lba, std::mem::take(&mut command.data));
            let write = Command::new(0, Opcode::Nameless(NamelessOp::Write), place, sectors, data);
            let vector = (sectors > 1).then(Box::default);
            self.requests[request].left = 1;
            self.send(Purpose::Whole(request), Command { vector, fua, ..write });
        }
    }

    /// Handles the end of a free; a name that ended with its move is freed under its new name.
    fn upkeep_ended(&mut self, completion: &Completion) {
        if completion.opcode == Opcode::Nameless(NamelessOp::Free)
            && let Some(vector) = &completion.vector
        {
            self.room.freeing -= vector.addresses.len() as u64;
            let moved: Vec<u32> =
                vector.addresses.iter().filter_map(|old| self.orphans.remove(&(old.0 as u32))).collect();
            if completion.status == Status::Unwritten {
                self.free(moved);
            }
        }
    }

    /// Returns whether the sectors of a piece have the names by which they were read. One that has another name by now was moved or
    /// overwritten meanwhile, and its old name may name other data.
    fn has_names(&self, piece: &Piece) -> bool {
        let command = self.requests[piece.request].command.as_ref().expect("a request has its command");
        let first = command.lba.0 as u32 + piece.from;
        (0..piece.count).all(|i| self.names[(first + i) as usize] == piece.name + i)
    }

    fn read_ended(&mut self, piece: &Piece, completion: &Completion) {
        let command = self.requests[piece.request].command.as_mut().expect("a request has its command");
        let at = piece.from as usize * self.image_bytes;
        if completion.status == Status::Success && !completion.data.is_empty() {
            command.data[at..at + completion.data.len()].copy_from_slice(&completion.data);
        }
    }

    fn end_if_done(&mut self, request: u32) {
        let record = &mut self.requests[request];
        if record.left > 0 {
            return;
        }
        let command = record.command.take().expect("a request has its command");
        let (mut stages, status) = (record.stages, record.status.unwrap_or(Status::Success));
        let total = self.now.since(record.submitted);
        stages.add(Stage::Host, pellucid_flash::Nanos(total.0.saturating_sub(stages.total().0)));
        let ended = command.ended(status, record.submitted, self.now, stages);
        self.up.push_back(Completion { unmapped: record.unmapped, ..ended });
        self.requests.release(request);
    }
}

impl Machine for NamelessFile {
    type Ask = Command;
    type Answer = Completion;

    fn namespaces(&self) -> &[u16] {
        std::slice::from_ref(&self.namespace)
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        let status = self.refuse(&command);
        let request = Request { command: Some(command), submitted: now, status, ..Request::default() };
        let request = self.requests.insert(request);
        match status {
            Some(_) => self.end_if_done(request),
            None => self.start(request),
        }
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        self.now = now;
        let tag = completion.tag as u32;
        let purpose = self.sent[tag];
        self.sent.release(tag);
        let request = match purpose {
            Purpose::Upkeep => {
                self.upkeep_ended(completion);
                return self.send_held();
            }
            Purpose::Whole(request) | Purpose::Piece(Piece { request, .. }) => request,
        };
        self.requests[request].left -= 1;
        match purpose {
            Purpose::Piece(piece) if completion.status == Status::Success && !self.has_names(&piece) => {
                return self.read(request, piece.from, piece.count, piece.attempts);
            }
            Purpose::Piece(piece) if completion.status == Status::Unwritten && piece.attempts < ATTEMPTS => {
                // The sectors were moved meanwhile; their new names are now known.
                return self.read(request, piece.from, piece.count, piece.attempts + 1);
            }
            Purpose::Piece(piece) => self.read_ended(&piece, completion),
            _ if completion.opcode == Opcode::Nameless(NamelessOp::Write) => {
                self.written(request, completion)
            }
            _ => {}
        }
        let record = &mut self.requests[request];
        if completion.status != Status::Success {
            record.status.get_or_insert(completion.status);
        }
        record.stages = completion.stages;
        self.end_if_done(request);
        self.send_held();
    }

    fn notice(&mut self, now: SimTime, _namespace: u16, notice: Notice) {
        self.now = now;
        if let Notice::Moved { old, new } = notice
            && !self.lost
        {
            self.moves += 1;
            match self.sectors[old.0 as usize] {
                // The sector's free is under way, and may arrive too late for the old name.
                NONE => _ = self.orphans.insert(old.0 as u32, new.0 as u32),
                sector => _ = self.rename(sector, new.0 as u32),
            }
            self.send(
                Purpose::Upkeep,
                Command::new(0, Opcode::Nameless(NamelessOp::Acknowledge), old, 1, Vec::new()),
            );
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
    }

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

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = now;
        self.lost = true;
        self.names.fill(NONE);
        self.sectors.fill(NONE);
        self.orphans.clear();
        self.held.clear();
        self.room = Room { used: 0, writing: 0, freeing: 0, ..self.room };
        self.sent.clear();
        self.down.clear();
        let under_way = std::mem::take(&mut self.requests);
        for Request { command, submitted, stages, .. } in under_way.iter() {
            if let Some(command) = command {
                let command = command.clone();
                self.up.push_back(command.ended(Status::PowerLoss, *submitted, now, *stages));
            }
        }
        Err("the file is gone: its names were in the host's memory, and the power cut has taken them; every command of it fails from now on, \
             until it is made anew by a new start on empty media"
            .into())
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::count("nameless_file_moves", "Sectors of the file that got another name.", self.moves)]
    }
}

impl Layer for NamelessFile {
    fn interface(&self) -> Interface {
        Interface::Block { sectors: self.names.len() as u64, handles: 1 }
    }

    fn keeps_flushed(&self) -> bool {
        false
    }

    fn holding(&self, lba: Lba) -> Held {
        let holds = self.names.get(lba.0 as usize).is_some_and(|&name| name != NONE);
        Held { holds, until: lba.0 + 1, looks: 1 }
    }
}
