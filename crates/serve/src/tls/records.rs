//! TLS records, which rustls handles.

use super::TlsConfig;
use pellucid_target::Output;
use pellucid_target::Pool;
use pellucid_target::connection::Close;
use pellucid_target::tls::{Engine, Layer, Offer, refused};
use rustls::ServerConnection;
use std::io::Read;
use std::sync::Arc;

impl TlsConfig {
    /// Begins TLS on a connection whose client speaks it from its first byte.
    pub(crate) fn layer(&self) -> Result<Layer<Records>, Close> {
        Records::begin(self).map(Layer::new)
    }
}

impl Offer for TlsConfig {
    fn begin(&self) -> Result<Box<dyn Engine>, Close> {
        Ok(Box::new(Records::begin(self)?))
    }
}

/// TLS state of one connection.
pub(crate) struct Records(ServerConnection);

impl Records {
    fn begin(config: &TlsConfig) -> Result<Records, Close> {
        let mut connection = ServerConnection::new(Arc::clone(&config.0)).map_err(refused)?;
        // The session's limits also bound this buffer.
        connection.set_buffer_limit(None);
        Ok(Records(connection))
    }
}

impl Engine for Records {
    fn decrypt(&mut self, input: &mut &[u8], received: &mut Vec<u8>) -> Result<bool, Close> {
        self.0.read_tls(input).map_err(refused)?;
        let state = self.0.process_new_packets().map_err(refused)?;
        let (count, closed) = (state.plaintext_bytes_to_read(), state.peer_has_closed());
        let start = received.len();
        received.resize(start + count, 0);
        self.0.reader().read_exact(&mut received[start..]).map_err(refused)?;
        Ok(closed)
    }

    fn encrypt(&mut self, plain: &mut Output, out: &mut Output, pool: &mut Pool) {
        // Without a limit the connection takes all plain text; before the handshake has ended there is none.
        let all = plain.write_to(&mut self.0.writer(), pool);
        debug_assert!(matches!(all, Ok(true)), "{all:?}");
        while self.0.wants_write() {
            let connection = &mut self.0;
            out.encode(|out| {
                // Writing to a vector cannot fail.
                let _ = connection.write_tls(out);
            });
        }
    }
}
