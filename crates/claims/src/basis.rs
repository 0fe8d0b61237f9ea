//! Which claims are predictions: what was set in sight of the published numbers.
//!
//! Invariant: the table of `docs/explanation/claims.md` is that of the claims.

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
    use crate::{KNOWN_MISSES, claims};

    /// The page has a row for each claim, in their order, with its basis and a verdict; what misses there is what is known to.
    #[test]
    fn the_page_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/claims.md");
        let page = std::fs::read_to_string(path).expect("the page");
        // Other rows of a claim leave its first cells empty.
        let is_of_a_claim =
            |line: &&str| line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(char::is_uppercase));
        let rows: Vec<&str> = page.lines().filter(is_of_a_claim).collect();
        assert_eq!(
            rows.len(),
            claims().len(),
            "rows of the claims.md that `pellucid reproduce --report DIR` writes"
        );
        for (row, claim) in rows.iter().zip(claims()) {
            let first = format!("| {} | {} | {} | ", claim.id, claim.basis.name(), claim.set_or_seen);
            let rest = row.strip_prefix(&first).unwrap_or_else(|| panic!("{first}: {row}"));
            let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
            let [verdict, what, _, measured, range, ..] = cells[..] else { panic!("{row}: cells") };
            let is_known = KNOWN_MISSES.iter().any(|known| known.claim == claim.id);
            assert_eq!(verdict.ends_with(", known"), is_known, "{row}");
            assert!(is_known || ["holds", "in range", "in range, reversed"].contains(&verdict), "{row}");
            assert!(!what.is_empty() && !measured.is_empty(), "{row}");
            assert!(!verdict.starts_with("in range") || !range.is_empty(), "{row}");
        }
    }
}
