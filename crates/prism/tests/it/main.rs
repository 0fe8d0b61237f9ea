//! Tests of the flash library over the reference drive of the host's tests, which checks every rule of flash.

#![allow(clippy::duplicate_mod, reason = "each example brings the drive that it runs on")]

mod allocation;
mod blocking;
mod function;
mod gc;
mod monitor;
#[path = "../../../host/tests/it/oracle.rs"]
#[allow(dead_code, reason = "the host's tests use the rest")]
mod oracle;
mod policy;
mod ranges;
#[path = "../../../host/tests/it/reference.rs"]
#[allow(dead_code, reason = "the host's tests use the rest")]
mod reference;

#[path = "../../examples/gc_function.rs"]
#[allow(dead_code, reason = "its main")]
mod gc_function;

#[path = "../../examples/gc_raw.rs"]
#[allow(dead_code, reason = "its main")]
mod gc_raw;
#[path = "../../examples/init_policy.rs"]
#[allow(dead_code, reason = "its main")]
mod init_policy;
