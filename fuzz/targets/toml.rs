//! Any text is resolved as a description; what is accepted can be shown, and the shown text means the same.

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The second half of the input, after a zero byte, is taken as overrides, one a line.
    let (text, sets) = text.split_once('\0').unwrap_or((text, ""));
    let sets: Vec<String> = sets.lines().map(str::to_string).collect();
    let Ok(first) = pellucid_spec::from_str(text, "fuzz", &sets) else { return };
    let shown = pellucid_spec::show(&first);
    let again = pellucid_spec::from_str(&shown, "shown", &[]).expect("what is shown can be read");
    assert_eq!(first.drive, again.drive);
    assert_eq!(pellucid_spec::show(&again), shown);
}
