//! The `pellucid` command.
fn main() {}
