//! Tests of the report as a whole, on a sample with invented data.

use super::sample::report;
use super::*;

#[test]
fn show() {
    println!(
        "{}\n{}\n{}",
        render_text(&report(), 100),
        render_text(&report(), 70),
        render_compare(&[report(), report(), report()])
    );
    println!("{}", &report().to_json(true).chars().take(9000).collect::<String>());
}
