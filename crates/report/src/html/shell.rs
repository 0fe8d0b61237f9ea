//! The frame of every page of reports: the head with embedded styles, and the foot.
//!
//! The monitor's live page (`monitor/src/page.html`) is a fixed file of its own: `monitor` and `lab` may not depend on each other, and the two would
//! share five lines.

use crate::plot;
use crate::plot::escape;
use pellucid_output::PAGE_MARK;
use std::fmt::Write;

const STYLE: &str = include_str!("../page.css");

/// A page under construction; its body may be appended to.
pub struct Shell(pub String);

impl Shell {
    /// Begins a page. `style`: additional rules of this page, after the common ones.
    pub fn new(title: &str, style: &str) -> Shell {
        let mut page = String::with_capacity(1 << 16);
        let _ = write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <title>{}{PAGE_MARK}<style>\n{}{STYLE}{style}</style></head><body>",
            escape(title),
            plot::STYLE
        );
        Shell(page)
    }

    /// Returns the whole page, with a sentence at its foot.
    pub fn end(mut self, foot: &str) -> String {
        let _ = writeln!(self.0, "<footer><p>{}</p></footer></body></html>", escape(foot));
        self.0
    }
}
