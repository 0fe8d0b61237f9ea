//! The records of TLS under NBD, which are rustls'.

use crate::output::Output;
use crate::session::{Close, Port};
use crate::tls::{Engine, Layer, TlsConfig, refused};
use rustls::ServerConnection;
use std::io::Read;
use std::sync::Arc;

/// The TLS state of one connection.
pub(super) type Tls = Layer<Records>;

/// TLS as `config` offers it, from its beginning.
pub(super) fn begin(config: &TlsConfig) -> Result<Tls, Close> {
    let mut connection = ServerConnection::new(Arc::clone(&config.0)).map_err(refused)?;
    // What it holds is bounded by what the session may have under way.
    connection.set_buffer_limit(None);
    Ok(Layer::new(Records(connection)))
}

pub(super) struct Records(ServerConnection);

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

    fn encrypt(&mut self, plain: &mut Output, port: &mut Port<'_>) {
        // Without a limit the connection takes all; before the handshake has ended there is nothing.
        let all = plain.write_to(&mut self.0.writer(), port.pool());
        debug_assert!(matches!(all, Ok(true)), "{all:?}");
        while self.0.wants_write() {
            let connection = &mut self.0;
            port.output().encode(|out| {
                // A vector takes everything.
                let _ = connection.write_tls(out);
            });
        }
    }
}
