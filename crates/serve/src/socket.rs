//! Addresses, listeners and streams of both kinds, TCP and Unix.

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Silence of a peer after which TCP keep-alive probes it.
const SILENCE: Duration = Duration::from_secs(60);
/// Interval of keep-alive probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Unanswered probes after which a peer is given up.
const PROBES: u32 = 6;
/// Send buffer of a Unix socket, as far as the system allows. The default of 208 KiB holds fewer than 64
/// answers of 4 KiB, and a server that waits to send must be woken. TCP sizes its own buffer.
pub(crate) const UNIX_SEND_BYTES: usize = 1 << 20;

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP socket.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Error in the text of an address.
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

/// Both ends of a connection.
pub(crate) struct Ends {
    /// Peer, for the log.
    pub peer: String,
    /// Local address that the peer connected to, one of several if the listener accepts on all; `None` for a
    /// Unix socket.
    pub local: Option<SocketAddr>,
}

/// A socket that accepts connections. Dropping it removes the file of a Unix socket.
pub(crate) enum Listener {
    /// With the address that it takes, until it listens.
    Tcp(TcpListener, Option<Taken>),
    /// With its path, and the name that it has until it listens.
    Unix(UnixListener, PathBuf, Option<Hidden>),
}

/// Paths that sockets of this process are to take.
static TO_TAKE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Name of a socket before it has its own. Its file, if it is still there, goes with it.
pub(crate) struct Hidden {
    name: PathBuf,
    /// The path to take, without links.
    path: PathBuf,
}

impl Hidden {
    /// A name beside `path` that no other socket has.
    fn beside(path: &Path) -> io::Result<Hidden> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = path.with_file_name(format!(".{}.{count}", std::process::id()));
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let path = folder.canonicalize()?.join(path.file_name().unwrap_or_default());
        let mut all = TO_TAKE.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.insert(path.clone()) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "given twice; allowed: a path for each socket",
            ));
        }
        Ok(Hidden { name, path })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.name);
        TO_TAKE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

/// Addresses that TCP sockets of this process are to listen on.
static TO_LISTEN: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

/// An address that a TCP socket is to listen on. Several sockets may have one address until one of them listens.
pub(crate) struct Taken(SocketAddr);

impl Taken {
    /// Takes the address, which no other socket of this process may have, alone or among all of the machine.
    fn new(address: SocketAddr) -> io::Result<Taken> {
        let mut all = TO_LISTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |other: &SocketAddr| {
            let (one, other_ip) = (address.ip(), other.ip());
            other.port() == address.port()
                && (one == other_ip || one.is_unspecified() || other_ip.is_unspecified())
        };
        if all.iter().any(is_same) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "given twice; allowed: a port for each socket",
            ));
        }
        all.push(address);
        Ok(Taken(address))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TO_LISTEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|address| *address != self.0);
    }
}

impl Listener {
    /// Takes the address. Peers are refused until [`Listener::listen`].
    pub fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = stream_socket(family)?;
                sockopt::set_socket_reuseaddr(&socket, true)?;
                // Refused where another program listens. One that is about to is found when this one listens.
                rustix::net::bind(&socket, address)?;
                let listener = TcpListener::from_std(socket.into());
                let taken = Taken::new(listener.local_addr()?)?;
                Ok(Listener::Tcp(listener, Some(taken)))
            }
            Address::Unix(path) => {
                remove_stale(path);
                if let Ok(found) = std::fs::symlink_metadata(path) {
                    let (kind, message) = match found.file_type().is_socket() {
                        true => (io::ErrorKind::AddrInUse, "another program listens there"),
                        false => (
                            io::ErrorKind::AlreadyExists,
                            "a file is there that is no socket; allowed: a path where nothing is, or a socket that a server left",
                        ),
                    };
                    return Err(io::Error::new(kind, message));
                }
                // A client may connect as soon as the path exists, so the socket gets its name only when it listens.
                let hidden = Hidden::beside(path)?;
                let socket = stream_socket(AddressFamily::UNIX)?;
                rustix::net::bind(&socket, &SocketAddrUnix::new(&hidden.name)?)?;
                let listener =
                    Listener::Unix(UnixListener::from_std(socket.into()), path.clone(), Some(hidden));
                // Accessible to its owner only: a client that can connect can write to the drive, or break
                // it.
                if let Listener::Unix(_, _, Some(hidden)) = &listener {
                    std::fs::set_permissions(&hidden.name, std::fs::Permissions::from_mode(0o600))?;
                }
                Ok(listener)
            }
        }
    }

    /// Lets peers connect from now on.
    pub fn listen(&mut self) -> io::Result<()> {
        match self {
            Listener::Tcp(listener, taken) => {
                rustix::net::listen(&*listener, BACKLOG)?;
                // From now on the system refuses others.
                *taken = None;
            }
            Listener::Unix(listener, path, hidden) => {
                rustix::net::listen(&*listener, BACKLOG)?;
                if let Some(Hidden { name, .. }) = hidden {
                    rustix::fs::renameat_with(CWD, &*name, CWD, &*path, RenameFlags::NOREPLACE)?;
                    // There is nothing left to remove under that name.
                    *hidden = None;
                }
            }
        }
        Ok(())
    }

    /// Actual address, with the port that the system chose.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener, _) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_, path, _) => Ok(Address::Unix(path.clone())),
        }
    }

    /// Accepts the next connection and returns it with its two ends.
    pub fn accept(&self) -> io::Result<(Stream, Ends)> {
        match self {
            Listener::Tcp(listener, _) => {
                let (stream, peer) = listener.accept()?;
                // Without it small replies would wait for acknowledgements.
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                let local = stream.local_addr()?;
                // A dual-stack socket shows IPv4 hosts as ::ffff:A.B.C.D, an address that the hosts
                // themselves cannot connect to.
                let local = SocketAddr::new(local.ip().to_canonical(), local.port());
                Ok((Stream::Tcp(stream), Ends { peer: peer.to_string(), local: Some(local) }))
            }
            Listener::Unix(listener, path, _) => {
                let (stream, _) = listener.accept()?;
                sockopt::set_socket_send_buffer_size(&stream, UNIX_SEND_BYTES)?;
                Ok((Stream::Unix(stream), Ends { peer: format!("unix:{}", path.display()), local: None }))
            }
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener, _) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, ..) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

/// A socket that neither blocks nor outlives this program.
fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path, None) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Enables TCP keep-alive, so that the kernel ends a connection whose machine is gone: NBD itself has no
/// keep-alive.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Removes the socket file of a server that is gone. Any other file stays, and binding fails on it.
fn remove_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && is_left(path) {
        let _ = std::fs::remove_file(path);
    }
}

/// Returns whether no process listens at the path of a socket. Does not wait for a server that is not accepting at this
/// moment.
fn is_left(path: &Path) -> bool {
    let (socket, address) = (stream_socket(AddressFamily::UNIX), SocketAddrUnix::new(path));
    let (Ok(socket), Ok(address)) = (socket, address) else { return false };
    rustix::net::connect(&socket, &address) == Err(Errno::CONNREFUSED)
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

    /// Sets the buffer for unread bytes of a Unix socket; TCP sizes its own.
    pub fn hold(&self, bytes: usize) -> io::Result<()> {
        match self {
            Stream::Tcp(_) => Ok(()),
            Stream::Unix(stream) => Ok(sockopt::set_socket_send_buffer_size(stream, bytes)?),
        }
    }

    /// Signals the end of the output to the peer.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(address: &str) -> io::Result<Listener> {
        Listener::bind(&address.parse().expect("an address"))
    }

    fn tcp(listener: &Listener) -> SocketAddr {
        match listener.address().expect("it has one") {
            Address::Tcp(address) => address,
            Address::Unix(path) => panic!("{}", path.display()),
        }
    }

    /// A server that has its address may still be opening its drives, and cannot be stopped in order before they are open.
    #[test]
    fn peers_are_refused_until_it_listens() {
        let mut listener = bind("127.0.0.1:0").expect("a free port");
        let address = tcp(&listener);
        let refused = std::net::TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        listener.listen().expect("the port is ours");
        std::net::TcpStream::connect(address).expect("somebody listens");
    }

    #[test]
    fn an_address_is_taken_once() {
        let mut first = bind("127.0.0.1:0").expect("a free port");
        let port = tcp(&first).port();
        for same in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
            let refused = bind(&same).err().expect("taken before it listens");
            assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "{same}: {refused}");
        }
        first.listen().expect("the port is ours");
        let refused = bind(&format!("127.0.0.1:{port}")).err().expect("taken while it listens");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        bind(&format!("127.0.0.1:{port}")).expect("free again");
    }
}
