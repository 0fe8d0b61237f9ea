//! Commands of the application: each is passed to the ranges that contain its sectors.

use super::{Policy, Served, Work};
use pellucid_flash::{Command, Lba, Opcode, SimTime, Status, Tag};
use pellucid_host::Machine;
use std::ops::Range;

/// A command of the application.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub tag: Tag,
    pub opcode: Opcode,
    pub submitted: SimTime,
    /// Unfinished parts; 0: the number is unused.
    pub left: u32,
    pub status: Status,
    /// Its buffer, if it has several parts.
    pub data: Vec<u8>,
}

/// Part of a command in one range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    request: u32,
    /// Position of its data in those of the command.
    at: usize,
}

impl Default for Request {
    fn default() -> Self {
        let submitted = SimTime::ZERO;
        Request {
            tag: 0,
            opcode: Opcode::Flush,
            submitted,
            left: 0,
            status: Status::Success,
            data: Vec::new(),
        }
    }
}

impl Policy {
    /// The range that contains a sector.
    fn range_of(&self, sector: u64) -> Option<usize> {
        self.ranges.iter().position(|range| !range.leaves && range.spec.sectors.contains(&sector))
    }

    pub(super) fn refuse(&mut self, command: Command, status: Status) {
        self.up.push_back(command.refused(self.now, status));
    }

    /// Adds a command with this many parts.
    fn begin(&mut self, command: &Command, left: u32) -> u32 {
        let Command { tag, opcode, .. } = *command;
        let (submitted, status, data) = (self.now, Status::Success, Vec::new());
        self.requests.insert(Request { tag, opcode, submitted, left, status, data })
    }

    /// Passes a part of a command to a range.
    fn hand(&mut self, range: usize, request: u32, at: usize, command: Command) {
        let tag = self.parts.insert(Part { request, at }).into();
        let served = &mut self.ranges[range];
        served.parts += 1;
        each!(&mut served.work, layer => layer.submit(self.now, Command { tag, namespace: 0, ..command }));
    }

    pub(super) fn flush(&mut self, command: Command) {
        let stays = |served: &Served| !served.leaves;
        let count = self.ranges.iter().filter(|served| stays(served)).count() as u32;
        if count == 0 {
            return self.refuse(command, Status::Success);
        }
        let request = self.begin(&command, count);
        for at in 0..self.ranges.len() {
            if stays(&self.ranges[at]) {
                self.hand(at, request, 0, command.clone());
            }
        }
    }

    /// Passes on a command for sectors of one range, or of several adjacent ones.
    pub(super) fn access(&mut self, mut command: Command) {
        let end = command.lba.0.saturating_add(command.sectors.into());
        let (mut at, mut ranges) = (command.lba.0, 0);
        while at < end {
            let Some(range) = self.range_of(at) else { return self.refuse(command, Status::LbaOutOfRange) };
            (at, ranges) = (self.ranges[range].spec.sectors.end, ranges + 1);
        }
        let first = self.range_of(command.lba.0);
        let bytes = command.sectors as usize * self.space.image_bytes;
        let fits = command.data.is_empty() || command.data.len() == bytes;
        let Some(first) = first.filter(|_| command.vector.is_none() && fits) else {
            return self.refuse(command, Status::InvalidField);
        };
        let request = self.begin(&command, ranges);
        if ranges == 1 {
            command.lba.0 -= self.ranges[first].spec.sectors.start;
            return self.hand(first, request, 0, command);
        }
        let (mut at, image) = (command.lba.0, self.space.image_bytes);
        while let Some(range) = self.range_of(at).filter(|_| at < end) {
            let Range { start, end: limit } = self.ranges[range].spec.sectors;
            let sectors = (limit.min(end) - at) as u32;
            let from = (at - command.lba.0) as usize * image;
            let to = (from + sectors as usize * image).min(command.data.len());
            let data = command.data.get(from..to).unwrap_or_default().to_vec();
            let part = Command { lba: Lba(at - start), sectors, data, ..command.clone() };
            self.hand(range, request, from, part);
            at = limit;
        }
        self.requests[request].data = command.data;
    }

    /// Collects the answers of the ranges.
    pub(super) fn gather(&mut self) {
        for range in &mut self.ranges {
            while let Some(mut done) = each!(&mut range.work, layer => layer.pop()) {
                let Part { request: number, at } = self.parts[done.tag as u32];
                self.parts.release(done.tag as u32);
                range.parts -= 1;
                let request = &mut self.requests[number];
                request.left -= 1;
                if done.status != Status::Success {
                    request.status = done.status;
                }
                if let Some(into) = request.data.get_mut(at..at + done.data.len()) {
                    into.copy_from_slice(&done.data);
                }
                if request.left > 0 {
                    continue;
                }
                (done.tag, done.status) = (request.tag, request.status);
                if !request.data.is_empty() {
                    done.data = std::mem::take(&mut request.data);
                }
                self.requests.release(number);
                self.up.push_back(done);
            }
        }
    }
}
