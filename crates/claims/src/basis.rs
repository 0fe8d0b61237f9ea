//! Which claims are predictions: what was set in sight of the published numbers.
//!
//! Invariant: the table of `docs/explanation/reproduce.md` is that of the claims.

/// Worth of a claim that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// No constant or assumption was set in sight of its numbers.
    Prediction,
    /// No constant was set to its numbers, but they were known when mechanisms or assumptions were chosen.
    Seen,
    /// Some of its numbers set constants; the others follow.
    Partly,
    /// Its numbers set constants: that it holds says nothing.
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

    /// The table of the page is that of the claims, in their order.
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
