//! The conformance suite of the command sets beside block: every command, rule and status, each as a case of its own that makes a
//! tiny drive and talks to it through the port only.
//!
//! `cargo test` runs every case, and so does `pellucid reproduce L2`, which counts them. A failing case panics and shows its observation.

mod bench;
mod chunks;
mod zones;

pub use bench::Bench;

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Command set and what is checked, as in `open-channel: writes begin at the write pointer`.
    pub name: &'static str,
    /// Does it.
    pub run: fn(),
}

/// Every case of the suite.
pub fn cases() -> impl Iterator<Item = Case> {
    [chunks::CASES, zones::CASES].into_iter().flatten().copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_holds() {
        let failed = super::cases().filter(|case| std::panic::catch_unwind(case.run).is_err());
        assert_eq!(failed.map(|case| case.name).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
