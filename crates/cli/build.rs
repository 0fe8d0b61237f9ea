//! Tells the program which commit it is built from, and that it is not known in a source archive without git.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the answer of git about the repository whose top is `folder`; `None` without git or such a repository.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit();
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let from = match &commit {
        Some((commit, date)) => format!("commit {commit} of {date}"),
        None => "commit unknown: built from a source archive without git".into(),
    };
    println!("cargo::rustc-env=PELLUCID_VERSION={version} ({from})");
    if let Some((commit, _)) = commit {
        println!("cargo::rustc-env=PELLUCID_COMMIT={commit}");
    }
}

/// The commit that is checked out, and its date.
fn commit() -> Option<(String, String)> {
    let top = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let is_top = git(&top, &["rev-parse", "--show-prefix"]).is_none()
        && git(&top, &["rev-parse", "--is-inside-work-tree"]).is_some();
    // A source archive may lie in the repository of something else.
    if !is_top {
        return None;
    }
    // Commits move the log of HEAD; a checkout moves HEAD.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&top, &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={}", top.join(path).display());
        }
    }
    let text = git(&top, &["log", "-1", "--abbrev=12", "--format=%h %cs"])?;
    text.split_once(' ').map(|(commit, date)| (commit.into(), date.into()))
}
