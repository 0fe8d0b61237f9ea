//! Gives the shared library a soname with the version of the interface.
#![allow(clippy::print_stdout, reason = "this is how cargo is told")]

fn main() {
    // Equals PRISM_API_VERSION in src/types.rs; `tests/header.rs` compares them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpellucid-prism.so.1");
}
