//! A line on the control socket: it is refused in a sentence, or it is a request that is the same when it is written and read again.

use pellucid_target::request::Request;

/// One input.
pub fn run(line: &[u8]) {
    match Request::parse(line) {
        Ok(request) => assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request)),
        Err(why) => assert!(!why.is_empty()),
    }
}
