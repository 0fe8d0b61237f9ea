//! How far each claim is a prediction: which constants were set with the published numbers in sight.
//!
//! Invariant: the table of `docs/explanation/reproduce.md` lists the claims with their basis.

/// Evidential value of a claim that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// No constant or assumption was set with its numbers in sight.
    Prediction,
    /// No constant was fitted to its numbers, but they were known when mechanisms or assumptions were chosen.
    Seen,
    /// Some of its numbers set constants; the rest follow.
    Partly,
    /// Its numbers set constants, so holding proves nothing.
    Fitted,
    /// It has no constants: a rule, a count, or a closed form.
    Exact,
}

impl Basis {
    /// Word in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Prediction => "prediction",
            Basis::Seen => "seen",
            Basis::Partly => "partly fitted",
            Basis::Fitted => "fitted",
            Basis::Exact => "exact",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Claim, claims};

    /// The table of the page lists the claims in their order.
    #[test]
    fn the_page_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/reproduce.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let row =
            |claim: &Claim| format!("| {} | {} | {} |\n", claim.id, claim.basis.name(), claim.set_or_seen);
        let table: String = claims().iter().map(row).collect();
        assert!(page.contains(&table), "docs/explanation/reproduce.md needs these rows:\n{table}");
    }
}
