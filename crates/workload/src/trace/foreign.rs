//! Files that hold no trace as they are: other compressions, archives, and binary data.

/// Mark before text in UTF-8, as table programs write it.
pub(super) const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// First bytes of files that are not read, and what they are.
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
/// First bytes of a file that are searched for control characters.
const LOOKED_AT_BYTES: usize = 4096;

/// Names the content of a file that is not read, by its first bytes.
pub(super) fn kind(head: &[u8]) -> Option<&'static str> {
    let found = KINDS.iter().find(|(magic, _)| head.starts_with(magic));
    found.filter(|_| is_binary(head)).map(|(_, kind)| *kind)
}

/// Names the content of a file that no format fits, if it is not text.
pub(super) fn kind_or_binary(head: &[u8]) -> Option<&'static str> {
    kind(head).or_else(|| is_binary(head).then_some("binary data of no known format"))
}

/// Returns true if the data hold control characters that no text has.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(LOOKED_AT_BYTES)];
    head.iter()
        .any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1a | 0x1b))
}
