//! Files that are not traces: unsupported compressions, archives, and binary data.

/// Byte-order mark of UTF-8, as written by spreadsheets.
pub(super) const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// First bytes of unsupported files, with their names.
const KINDS: [(&[u8], &str); 10] = [
    (b"\xfd7zXZ\0", "compressed by xz"),
    (b"BZh", "compressed by bzip2"),
    (b"\x04\x22\x4d\x18", "compressed by lz4"),
    (b"PK\x03\x04", "a zip archive or a workbook"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (&[0xff, 0xfe], "text in UTF-16"),
    (&[0xfe, 0xff], "text in UTF-16"),
];
/// Number of first bytes searched for control characters.
const LOOKED_AT_BYTES: usize = 4096;

/// Names an unsupported file by its first bytes.
pub(super) fn kind(head: &[u8]) -> Option<&'static str> {
    let found = KINDS.iter().find(|(magic, _)| head.starts_with(magic));
    found.filter(|_| is_binary(head)).map(|(_, kind)| *kind)
}

/// Names a file that no format matches, if it is not text.
pub(super) fn kind_or_binary(head: &[u8]) -> Option<&'static str> {
    kind(head).or_else(|| is_binary(head).then_some("binary data of no known format"))
}

/// Returns true if the data contain control characters that no text has.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(LOOKED_AT_BYTES)];
    head.iter()
        .any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1a | 0x1b))
}
