//! `pellucid generate`: the manual pages and the completions of shells, made from the definition that `--help` has.

use crate::args;
use crate::failure::Failure;
use anyhow::Context;
use clap_complete::aot::{Shell, generate_to};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in which each shell looks for completions, below `share` of a prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// Write manual pages and completions below a directory such as /usr/local/share
#[derive(Debug, clap::Args)]
pub struct Generate {
    /// The directory; man/man1, bash-completion, zsh and fish are made in it
    directory: PathBuf,
}

impl Generate {
    pub fn run(self) -> Result<(), Failure> {
        write(&self.directory).map_err(Failure::work)
    }
}

fn write(share: &Path) -> anyhow::Result<()> {
    let command = || args::command().disable_help_subcommand(true);
    let make = |folder: &Path| fs::create_dir_all(folder).with_context(|| folder.display().to_string());
    let manual = share.join("man/man1");
    make(&manual)?;
    clap_mangen::generate_to(command(), &manual).with_context(|| manual.display().to_string())?;
    for (shell, folder) in SHELLS {
        let folder = share.join(folder);
        make(&folder)?;
        let made = generate_to(shell, &mut command(), "pellucid", &folder)
            .with_context(|| folder.display().to_string())?;
        // bash-completion loads the file that has the name of the command.
        if shell == Shell::Bash {
            fs::rename(&made, folder.join("pellucid")).with_context(|| made.display().to_string())?;
        }
    }
    Ok(())
}
