//! Why translation cannot be set up.

/// Reason why translation cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The user capacity leaves too little space to work.
    #[error(
        "over_provisioning: {physical_units} mapping units on good blocks cannot serve {user_units} user units; \
         at least {needed_units} more are needed for open blocks and GC; allowed: more over_provisioning, or fewer bad blocks \
         (media.faults)"
    )]
    TooLittleSpare {
        /// Units on good blocks.
        physical_units: u64,
        /// Units the host may use.
        user_units: u64,
        /// Units needed beside them.
        needed_units: u64,
    },
    /// A die has too few blocks for its part of the user capacity and its log blocks.
    #[error(
        "log_blocks: die {die} has {good_blocks} good blocks; its data need {data_blocks}, and log blocks, merges and \
         metadata {other_blocks}; allowed: at most {log_blocks_max} log blocks, or over_provisioning that leaves at \
         most {user_units_max} mapping units for the host"
    )]
    TooFewBlocks {
        /// The die.
        die: u32,
        /// Its good blocks.
        good_blocks: u32,
        /// Blocks that its data need.
        data_blocks: u32,
        /// Log blocks, destinations of merges, metadata.
        other_blocks: u32,
        /// The most log blocks with this user capacity; 0: none.
        log_blocks_max: u32,
        /// The most units of the host with these log blocks.
        user_units_max: u64,
    },
    /// The system gives no memory for the mapping table.
    #[error(
        "the mapping table takes {needed_bytes} bytes of memory, which the system does not give; allowed: a smaller drive, larger \
         mapping units, or a higher limit of memory"
    )]
    Memory {
        /// Bytes of memory that the table takes.
        needed_bytes: u64,
    },
}
