//! Personalities: the operations of a thread's loop, and its files.
//!
//! Three are filebench's, from `workloads/fileserver.f`, `webserver.f` and `varmail.f` (versions 3.0 and 3.1 of the personalities). Two work on a
//! source tree: `tar`, which is `tar c | tar x` over an older copy, and `build`, the compilers of a parallel make. Their file sizes are those of
//! Linux's sources ([`SourceSizes`]); the sequence of operations and the number of compilers are assumed.

use super::laws::{Gamma, Sizes, SourceSizes};

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Operation {
    /// Creates a file that does not exist, and opens it.
    Create,
    /// Writes the open file from its beginning to its intended size.
    WriteWhole,
    /// Opens an existing file.
    Open,
    /// Appends a random amount to the open file.
    Append,
    /// Reads the open file from beginning to end.
    ReadWhole,
    /// Appends to the log.
    AppendLog,
    /// Makes the open file durable.
    Fsync,
    /// Closes the open file.
    Close,
    /// Deletes an existing file.
    Delete,
    /// Reads the attributes of an existing file.
    Stat,
}

impl Operation {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A kind of file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Personality {
    /// Creates, writes, appends to, reads and deletes files of 128 KiB.
    Fileserver,
    /// Reads ten files of 16 KiB, then appends to a log.
    Webserver,
    /// Mail in files of 16 KiB: deletes, creates, appends, syncs, reads.
    Varmail,
    /// Copies a source tree over an older copy: reads a file, deletes the old one, writes the new one.
    Tar,
    /// Compiles: reads attributes, a source and its headers, and replaces an object.
    Build,
}

impl Personality {
    /// Personalities of filebench.
    pub const ALL: [Personality; 3] = [Personality::Fileserver, Personality::Webserver, Personality::Varmail];
    /// Personalities that an application can have.
    pub const APPS: [Personality; 5] = [
        Personality::Fileserver,
        Personality::Webserver,
        Personality::Varmail,
        Personality::Tar,
        Personality::Build,
    ];

    /// Its name in jobs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The loop of each thread.
    pub fn operations(self) -> &'static [Operation] {
        use Operation::{Append, AppendLog, Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};
        match self {
            Personality::Fileserver => {
                &[Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat]
            }
            Personality::Webserver => &[
                Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
                Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
                ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, AppendLog,
            ],
            Personality::Varmail => &[
                Delete, Create, Append, Fsync, Close, Open, ReadWhole, Append, Fsync, Close, Open, ReadWhole,
                Close,
            ],
            Personality::Tar => &[Open, ReadWhole, Close, Delete, Create, WriteWhole, Close],
            Personality::Build => &[
                Stat, Stat, Stat, Stat, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
                Close, Open, ReadWhole, Close, Delete, Create, WriteWhole, Close,
            ],
        }
    }

    /// Reports whether its files are a source tree.
    pub fn is_sources(self) -> bool {
        matches!(self, Personality::Tar | Personality::Build)
    }

    /// Reports whether it appends.
    pub fn appends(self) -> bool {
        self.operations()
            .iter()
            .any(|operation| matches!(operation, Operation::Append | Operation::AppendLog))
    }

    /// `nfiles`.
    pub fn files(self) -> u32 {
        match self {
            Personality::Fileserver => 10_000,
            Personality::Webserver | Personality::Varmail => 1_000,
            // About as many as in linux-2.6.28.1.
            Personality::Tar | Personality::Build => 25_000,
        }
    }

    /// `meanfilesize`.
    pub fn file_bytes(self) -> u64 {
        match self {
            Personality::Fileserver => 128 << 10,
            Personality::Webserver | Personality::Varmail => 16 << 10,
            Personality::Tar | Personality::Build => SourceSizes::LINUX_MEAN as u64,
        }
    }

    /// `meandirwidth`.
    pub fn directory_width(self) -> u32 {
        if self == Personality::Varmail { 1_000_000 } else { 20 }
    }

    /// `nthreads`.
    pub fn threads(self) -> u32 {
        match self {
            Personality::Fileserver => 50,
            Personality::Webserver => 100,
            Personality::Varmail => 16,
            Personality::Tar => 1,
            Personality::Build => 4,
        }
    }

    /// `meanappendsize`: appends are uniform up to this.
    pub fn append_bytes(self) -> u64 {
        16 << 10
    }

    /// `prealloc`: percentage of the files that exist at the beginning.
    pub fn existing_percent(self) -> u32 {
        match self {
            Personality::Fileserver | Personality::Varmail => 80,
            Personality::Webserver | Personality::Tar | Personality::Build => 100,
        }
    }

    /// Law of file sizes with this mean: filebench's default is a gamma distribution of shape 1.5.
    pub fn sizes(self, mean_bytes: u64) -> Sizes {
        match self.is_sources() {
            true => Sizes::Sources(SourceSizes::with_mean(mean_bytes as f64)),
            false => Sizes::Gamma(Gamma::with_mean(mean_bytes as f64, 1.5)),
        }
    }
}
