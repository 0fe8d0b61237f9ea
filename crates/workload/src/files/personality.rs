//! Filebench's personalities: what a thread does, again and again, and with which files.
//!
//! From `workloads/fileserver.f`, `webserver.f` and `varmail.f` of filebench (versions 3.0 and 3.1 of the personalities).

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Operation {
    /// Creates a file that does not exist, and opens it.
    Create,
    /// Writes the open file from its beginning to the size that it is to have.
    WriteWhole,
    /// Opens a file that exists.
    Open,
    /// Appends a random amount to the open file.
    Append,
    /// Reads the open file from its beginning to its end.
    ReadWhole,
    /// Appends to the log.
    AppendLog,
    /// Makes the open file durable.
    Fsync,
    /// Closes the open file.
    Close,
    /// Deletes a file that exists.
    Delete,
    /// Reads the attributes of a file that exists.
    Stat,
}

impl Operation {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A file server of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Personality {
    /// Creates, writes, appends to, reads, deletes files of 128 KiB.
    Fileserver,
    /// Reads ten files of 16 KiB, then appends to a log.
    Webserver,
    /// Mail in files of 16 KiB: deletes, creates, appends, syncs, reads.
    Varmail,
}

impl Personality {
    /// All of them.
    pub const ALL: [Personality; 3] = [Personality::Fileserver, Personality::Webserver, Personality::Varmail];

    /// Its name in jobs.
    pub fn name(self) -> &'static str {
        match self {
            Personality::Fileserver => "fileserver",
            Personality::Webserver => "webserver",
            Personality::Varmail => "varmail",
        }
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
        }
    }

    /// `nfiles`.
    pub fn files(self) -> u32 {
        if self == Personality::Fileserver { 10_000 } else { 1_000 }
    }

    /// `meanfilesize`.
    pub fn file_bytes(self) -> u64 {
        if self == Personality::Fileserver { 128 << 10 } else { 16 << 10 }
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
        }
    }

    /// `meanappendsize`: an append is uniform up to this.
    pub fn append_bytes(self) -> u64 {
        16 << 10
    }

    /// `prealloc`: percent of the files that exist at the beginning.
    pub fn existing_percent(self) -> u32 {
        if self == Personality::Webserver { 100 } else { 80 }
    }

    /// Shape of the gamma distribution of file sizes, filebench's default.
    pub fn shape(self) -> f64 {
        1.5
    }
}
