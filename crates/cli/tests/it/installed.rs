//! `make install` puts binary, manual pages, completions and unit under a prefix.

use crate::common::{Folder, project};
use std::path::Path;
use std::process::Command;

#[test]
fn everything_is_installed_and_names_the_prefix() {
    let folder = Folder::new();
    let built = Path::new(env!("CARGO_BIN_EXE_pellucid")).parent().unwrap();
    let script = project().join("tools/install.sh");
    let mut install = Command::new("sh");
    let status = install.arg(script).arg(built).arg("/opt/pellucid").arg(folder.path("")).status().unwrap();
    assert!(status.success());
    let read = |name: &str| {
        let path = folder.path(&format!("opt/pellucid/{name}"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let page = read("share/man/man1/pellucid-replay.1");
    assert!(page.contains("trace") && page.contains("report"), "{page}");
    assert!(read("share/man/man1/pellucid.1").contains("pellucid"));
    assert!(read("share/bash-completion/completions/pellucid").contains("replay"));
    assert!(read("share/zsh/site-functions/_pellucid").starts_with("#compdef pellucid"));
    assert!(read("share/fish/vendor_completions.d/pellucid.fish").contains("replay"));
    let unit = read("lib/systemd/system/pellucid@.service");
    assert!(unit.contains("ExecStart=/opt/pellucid/bin/pellucid serve"), "{unit}");
    assert!(folder.path("opt/pellucid/bin/pellucid").exists());
}

#[test]
fn a_prefix_that_is_no_absolute_path_is_refused() {
    let folder = Folder::new();
    let script = project().join("tools/install.sh");
    let done = Command::new("sh").arg(script).arg(folder.path("")).arg("usr/local").output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("allowed: an absolute path"));
}
