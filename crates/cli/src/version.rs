//! Which Pellucid this is: version, commit, and the commit's date.

/// The commit; `None`: built from a source archive.
pub const COMMIT: Option<&str> = option_env!("PELLUCID_COMMIT");

/// Version, commit and date of the commit, as `--version` and manual pages show them.
pub const VERSION: &str = env!("PELLUCID_VERSION");
