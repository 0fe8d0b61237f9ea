//! docs/reference: every page is what the program prints. `PELLUCID_WRITE_REFERENCE=1` writes them anew.

use crate::common::{project, run_in};

#[test]
fn the_pages_of_the_reference_are_what_the_code_says() {
    let folder = project().join("docs/reference");
    let write = std::env::var_os("PELLUCID_WRITE_REFERENCE").is_some();
    let mut stale = Vec::new();
    for page in ["keys", "workload", "commands", "statuses", "causes", "metrics"] {
        let printed = run_in(project(), &["reference", page]).answer();
        assert!(printed.lines().filter(|line| line.starts_with('|')).count() > 5, "{page} is empty");
        let path = folder.join(format!("{page}.md"));
        if write {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &printed).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != printed {
            stale.push(page);
        }
    }
    assert!(
        stale.is_empty(),
        "stale in docs/reference: {stale:?}; PELLUCID_WRITE_REFERENCE=1 cargo test -p pellucid-cli reference writes them"
    );
}
