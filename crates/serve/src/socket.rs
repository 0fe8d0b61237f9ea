//! Addresses, listeners and streams: TCP and Unix alike.

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::sockopt;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A peer that has said nothing for this long is asked whether it is there,
const SILENCE: Duration = Duration::from_secs(60);
/// again and again,
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// and given up after so many questions.
const PROBES: u32 = 6;
/// What a Unix socket holds, as far as the system allows: its usual 208 KiB are fewer than 64 answers of 4 KiB, and a server that waits
/// to send has to be woken. TCP finds its own measure.
pub(crate) const UNIX_SEND_BYTES: usize = 1 << 20;

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP socket.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A text that names no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AddressError {
    value: String,
    reason: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AddressError { value, reason } = self;
        write!(f, "address {value:?}: {reason}; allowed: HOST:PORT, PORT (on 127.0.0.1), unix:PATH")
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let refuse = |reason: String| AddressError { value: text.into(), reason };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(refuse("no path".into())),
                false => Ok(Address::Unix(path.into())),
            };
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
        }
        let mut found = text.to_socket_addrs().map_err(|error| refuse(error.to_string()))?;
        found.next().map(Address::Tcp).ok_or_else(|| refuse("no such host".into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The two ends of a connection.
pub(crate) struct Ends {
    /// The peer, for the log.
    pub peer: String,
    /// The address that the peer connected to: where one listens on all of a machine's addresses, one of them; `None`: a Unix socket.
    pub local: Option<SocketAddr>,
}

/// Something that accepts connections. A Unix socket's file goes with it.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => TcpListener::bind(*address).map(Listener::Tcp),
            Address::Unix(path) => {
                remove_stale(path);
                let listener = Listener::Unix(UnixListener::bind(path)?, path.clone());
                // For its owner only: a client that can connect can write to the drive, or break it.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok(listener)
            }
        }
    }

    /// Where it really is: with the port that the system chose.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    /// The next connection, with its two ends.
    pub fn accept(&self) -> io::Result<(Stream, Ends)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                // Without it small replies would wait for acknowledgements.
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                let local = stream.local_addr()?;
                // A socket for both families sees hosts of IPv4 at ::ffff:A.B.C.D, where they themselves can connect to nothing.
                let local = SocketAddr::new(local.ip().to_canonical(), local.port());
                Ok((Stream::Tcp(stream), Ends { peer: peer.to_string(), local: Some(local) }))
            }
            Listener::Unix(listener, path) => {
                let (stream, _) = listener.accept()?;
                sockopt::set_socket_send_buffer_size(&stream, UNIX_SEND_BYTES)?;
                Ok((Stream::Unix(stream), Ends { peer: format!("unix:{}", path.display()), local: None }))
            }
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Has the kernel ask after a silent peer, and end the connection when its machine is gone: NBD itself has no such question.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Removes the socket file of a server that is gone. Anything else stays, and binding fails on it.
fn remove_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        let _ = std::fs::remove_file(path);
    }
}

/// A connected, non-blocking stream.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($stream:expr, $inner:ident => $body:expr) => {
        match $stream {
            Stream::Tcp($inner) => $body,
            Stream::Unix($inner) => $body,
        }
    };
}

impl Stream {
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        either!(self, s => s.register(registry, token, Interest::READABLE | Interest::WRITABLE))
    }

    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        either!(self, s => s.deregister(registry))
    }

    /// A Unix socket holds so many bytes that have not been taken; TCP finds its own measure.
    pub fn hold(&self, bytes: usize) -> io::Result<()> {
        match self {
            Stream::Tcp(_) => Ok(()),
            Stream::Unix(stream) => Ok(sockopt::set_socket_send_buffer_size(stream, bytes)?),
        }
    }

    /// Says that nothing more will be sent.
    pub fn shutdown_write(&self) {
        let _ = either!(self, s => s.shutdown(Shutdown::Write));
    }

    pub fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        either!(self, s => s.read_vectored(slices))
    }

    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        either!(self, s => s.read(bytes))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, s => s.write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, s => s.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
