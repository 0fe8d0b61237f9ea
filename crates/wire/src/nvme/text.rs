//! Text fields: space-padded ASCII (Base 1.4.2) and NVMe Qualified Names (Base 4.7).

/// The well-known name of a discovery subsystem (Base 4.7).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest NQN in bytes, without the terminating zero (Base 4.7).
pub const NQN_BYTES_MAX: usize = 223;

/// Reason why a 256-byte field is not a qualified name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// No zero byte within the first 224 bytes.
    #[error("qualified name: no zero byte ends it; allowed: at most 223 bytes")]
    Unterminated,
    /// The name has no bytes.
    #[error("qualified name: empty")]
    Empty,
    /// Not UTF-8.
    #[error("qualified name: not UTF-8")]
    NotUtf8,
    /// A control character.
    #[error("qualified name: control characters are not allowed")]
    Control,
    /// Does not begin with `nqn.`.
    #[error("qualified name: must begin with \"nqn.\"")]
    Prefix,
}

/// Text in a space-padded field, cut at its end. Bytes outside printable ASCII become `?`.
pub fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (slot, byte) in field.iter_mut().zip(text.bytes()) {
        *slot = if (0x20..0x7F).contains(&byte) { byte } else { b'?' };
    }
    field
}

/// A qualified name in its zero-padded field; `None` if it is no valid name.
pub fn nqn(name: &str) -> Option<[u8; 256]> {
    let mut field = [0; 256];
    field.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    parse_nqn(&field).is_ok_and(|parsed| parsed == name).then_some(field)
}

/// The name in a 256-byte field.
///
/// # Errors
/// Reason why the field is not a name. The receiver answers with Connect Invalid Parameters.
pub fn parse_nqn(field: &[u8; 256]) -> Result<&str, NqnError> {
    let end = field[..=NQN_BYTES_MAX].iter().position(|&byte| byte == 0).ok_or(NqnError::Unterminated)?;
    if end == 0 {
        return Err(NqnError::Empty);
    }
    let name = str::from_utf8(&field[..end]).map_err(|_| NqnError::NotUtf8)?;
    if name.chars().any(char::is_control) {
        return Err(NqnError::Control);
    }
    if !name.starts_with("nqn.") {
        return Err(NqnError::Prefix);
    }
    Ok(name)
}
