//! The file server on a file system that writes in place.

use super::{FileSystemReport, report};
use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, SimTime, Status};
use pellucid_workload::files::{BlockRequest, Files, FilesConfig, FilesNext, RequestKind};

/// Threads on an in-place file system with a journal, on namespace 0 of a drive that keeps no data.
#[derive(Debug)]
pub struct InPlaceServer {
    files: Files,
    drive: Device,
    /// Sectors of a block of the file system.
    sectors_each: u32,
    now: SimTime,
    /// Buffers of commands that have ended.
    buffers: Vec<Vec<u8>>,
}

impl InPlaceServer {
    /// Makes a file system of this many bytes (0: all there is), and its files. They are there from the first moment on.
    ///
    /// The error is a sentence.
    pub fn new(config: &FilesConfig, drive: Device, bytes: u64) -> Result<InPlaceServer, String> {
        let most = drive.capacity_bytes();
        let bytes = if bytes == 0 { most } else { most.min(bytes) };
        let files = Files::new(&FilesConfig { runtime: None, ..config.clone() }, bytes)?;
        let sector = drive.layout().sector_bytes;
        let now = drive.now();
        let sectors_each = (pellucid_workload::files::BLOCK_BYTES / u64::from(sector)) as u32;
        Ok(InPlaceServer { files, drive, sectors_each, now, buffers: Vec::new() })
    }

    /// Carries out this many operations, and says what was done.
    pub fn run(&mut self, operations: u64) -> Result<FileSystemReport, String> {
        let (start, drive) = (self.now, self.drive.counters());
        let before = self.files.report(self.now);
        while self.files.operations() < before.operations + operations {
            let next = match self.files.next(self.now) {
                FilesNext::Now(request) => {
                    self.submit(&request);
                    continue;
                }
                FilesNext::At(at) => Some(at),
                FilesNext::Blocked => None,
                FilesNext::End => return Err("the work ended by itself".to_string()),
            };
            let Some(next) = [next, self.drive.next_event()].into_iter().flatten().min() else {
                return Err("the file system waits for nothing".to_string());
            };
            self.now = self.now.max(next);
            self.drive.advance(self.now);
            while let Some(ended) = self.drive.pop() {
                if ended.status != Status::Success {
                    return Err(format!("the drive answers {}", ended.status.name()));
                }
                self.files.completed(ended.tag as u32, self.now);
                self.buffers.push(ended.data);
            }
        }
        let after = self.files.report(self.now);
        let operations = after.operations - before.operations;
        Ok(FileSystemReport {
            operations,
            operations_per_second: operations as f64 / self.now.since(start).as_secs_f64(),
            refused: after.refused - before.refused,
            ..report(&self.drive, &drive)
        })
    }

    fn submit(&mut self, request: &BlockRequest) {
        let opcode = match request.kind {
            RequestKind::Read => Opcode::Read,
            RequestKind::Write => Opcode::Write,
            RequestKind::Flush => Opcode::Flush,
        };
        let lba = Lba(u64::from(request.extent.block) * u64::from(self.sectors_each));
        let sectors = request.extent.count * self.sectors_each;
        let mut data = self.buffers.pop().unwrap_or_default();
        let bytes = if opcode == Opcode::Flush { 0 } else { sectors as usize * self.drive.image_bytes() };
        data.resize(bytes, 0);
        let command = Command::new(request.token.into(), opcode, lba, sectors, data);
        self.drive.submit(self.now, command);
    }

    /// Panics where an invariant is broken.
    pub fn check(&self) {
        self.files.check();
    }
}
