//! Tests of the report as a whole, on a sample with invented data.

use super::sample::report;
use super::*;

#[test]
fn show() {
    std::fs::write("/tmp/r.html", report().to_html()).unwrap();
    println!("{}", render_text(&report(), 100));
}
