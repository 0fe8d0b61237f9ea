//! The file server on a file system that writes in place.

use crate::drive::TimedDrive;
use pellucid_device::Device;
use pellucid_flash::{Command, Interface, Lba, Opcode, SimTime, Status};
use pellucid_workload::files::{BlockRequest, Files, FilesConfig, FilesNext, RequestKind};

/// Threads on an in-place file system with a journal, on a block namespace; the drive stores no data for it.
#[derive(Debug)]
pub struct InPlaceServer<D: TimedDrive = Device> {
    files: Files,
    drive: D,
    namespace: u16,
    /// Sectors per block of the file system.
    sectors_each: u32,
    now: SimTime,
    /// Buffers of completed commands.
    buffers: Vec<Vec<u8>>,
}

impl<D: TimedDrive> InPlaceServer<D> {
    /// Makes a file system of this many bytes (0: all the space) on a block namespace. Its files exist from the beginning.
    ///
    /// The error is a sentence.
    pub fn new(
        config: &FilesConfig,
        drive: D,
        namespace: u16,
        bytes: u64,
    ) -> Result<InPlaceServer<D>, String> {
        let sector = drive.sector_bytes();
        let sectors_each = (pellucid_workload::files::BLOCK_BYTES / u64::from(sector)) as u32;
        if sectors_each == 0 {
            let most = pellucid_workload::files::BLOCK_BYTES;
            return Err(format!("sectors of {sector} B; allowed: at most {most} B"));
        }
        let Some(Interface::Block { sectors, .. }) = drive.interface(namespace) else {
            return Err(format!(
                "namespace {namespace} has no logical blocks, and this file system needs them"
            ));
        };
        let most = sectors * u64::from(sector);
        let bytes = if bytes == 0 { most } else { most.min(bytes) };
        let files = Files::new(&FilesConfig { runtime: None, ..config.clone() }, bytes)?;
        let now = drive.now();
        Ok(InPlaceServer { files, drive, namespace, sectors_each, now, buffers: Vec::new() })
    }

    /// Executes operations until exactly the given number counts. The result does not depend on how the work is divided into calls.
    ///
    /// The error is a sentence.
    pub fn run_until(&mut self, operations: u64) -> Result<(), String> {
        self.files.pause_at(operations);
        while self.files.operations() < operations {
            let next = match self.files.next(self.now) {
                FilesNext::Now(request) => {
                    self.submit(&request);
                    continue;
                }
                FilesNext::At(at) => Some(at),
                FilesNext::Blocked => None,
                FilesNext::End if self.files.operations() >= operations => return Ok(()),
                FilesNext::End => return Err("the work ended by itself".to_string()),
            };
            // A request may have ended as it was submitted.
            if self.take_answers()? {
                continue;
            }
            let Some(now) = self.drive.wait(self.now, next) else {
                return Err("the file system waits for nothing".to_string());
            };
            self.now = now;
            self.take_answers()?;
        }
        Ok(())
    }

    /// Hands the drive's answers to the threads; returns whether there were any.
    fn take_answers(&mut self) -> Result<bool, String> {
        let mut any = false;
        while let Some(ended) = self.drive.pop() {
            if ended.status != Status::Success {
                return Err(format!("the drive answers {}", ended.status.name()));
            }
            self.files.completed(ended.tag as u32, self.now);
            self.buffers.push(ended.data);
            any = true;
        }
        Ok(any)
    }

    /// Returns the threads.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Starts to count operations.
    pub fn begin(&mut self) {
        self.files.begin();
    }

    /// Returns the simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the drive.
    pub fn drive_mut(&mut self) -> &mut D {
        &mut self.drive
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
        self.drive.submit(self.now, Command { namespace: self.namespace, ..command });
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        self.files.check();
    }
}
