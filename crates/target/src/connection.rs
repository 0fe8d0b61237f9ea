//! Names of connections, and the ends of answers.

/// Identifier of a connection, unique for the lifetime of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// Bits of a [`ConnectionId`] that hold its slot in the server's table; above them is its serial number.
const SLOT_BITS: u32 = 16;

impl ConnectionId {
    /// The server itself, which is no connection.
    pub const SERVER: ConnectionId = ConnectionId(0);
    /// Number of slots that a server may have.
    pub const SLOTS: usize = 1 << SLOT_BITS;

    /// Creates the identifier of connection `serial`, above 0, in slot 0.
    pub fn new(serial: u64) -> ConnectionId {
        ConnectionId::in_slot(serial, 0)
    }

    /// Creates the identifier of connection `serial`, above 0, in a slot below [`ConnectionId::SLOTS`].
    pub fn in_slot(serial: u64, slot: usize) -> ConnectionId {
        ConnectionId(serial << SLOT_BITS | slot as u64)
    }

    /// Slot of the connection in its server's table.
    #[inline]
    pub fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    /// Creates the identifier of attachment number `at`, which is no connection. Connections have a serial
    /// number above 0.
    pub fn of_attachment(at: usize) -> ConnectionId {
        ConnectionId(at as u64 + 1)
    }

    /// Number of the attachment; `None` for a connection, or the server itself.
    pub fn attachment(self) -> Option<usize> {
        let is_one = self.0 >> SLOT_BITS == 0;
        is_one.then_some(usize::try_from(self.0).ok()?.checked_sub(1)?)
    }
}

impl std::fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.0 >> SLOT_BITS).fmt(f)
    }
}

/// Destination of an answer: a connection's session, and the session's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection.
    pub connection: ConnectionId,
    /// Token that the session chose for the request.
    pub token: u64,
}

/// Reason why a connection ends. Its pending output is still sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Close {
    /// The peer has ended the connection. Operations in the drives are still answered.
    Finished,
    /// The peer has broken the protocol or was refused; the text goes to the log.
    Refused(String),
}
