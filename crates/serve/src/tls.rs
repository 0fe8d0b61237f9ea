//! TLS configuration of a server, from a directory of PEM files with the names that QEMU, libnbd and nbdkit
//! use.
//!
//! | file              | holds                                                     |
//! |-------------------|-----------------------------------------------------------|
//! | `server-cert.pem` | the server's certificate, then those that it was signed by |
//! | `server-key.pem`  | its key                                                   |
//! | `ca-cert.pem`     | the signer of clients' certificates, if they need one     |

mod records;
#[cfg(test)]
mod tests;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Error that prevents TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable or malformed.
    #[error("{}: {reason}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Problem with the file.
        reason: String,
    },
    /// The files do not match.
    #[error("{}: certificates and key: {reason}", .directory.display())]
    Together {
        /// Directory of the files.
        directory: PathBuf,
        /// Reason.
        reason: String,
    },
}

/// TLS offer of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TlsConfig(pub(crate) Arc<ServerConfig>);

impl TlsConfig {
    /// Names of the files of a directory: the server's certificate, its key, and who signs the clients' certificates.
    pub const FILES: [&str; 3] = ["server-cert.pem", "server-key.pem", "ca-cert.pem"];

    /// Reads the files of `directory`; with `verify_clients`, only clients with a certificate signed by
    /// `ca-cert.pem` are admitted.
    ///
    /// # Errors
    /// Fails if files are missing, malformed, or do not match.
    pub fn load(directory: &Path, verify_clients: bool) -> Result<TlsConfig, TlsError> {
        let together = |reason: String| TlsError::Together { directory: directory.into(), reason };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| together(error.to_string()))?;
        let builder = if verify_clients {
            let mut roots = RootCertStore::empty();
            let path = directory.join(TlsConfig::FILES[2]);
            for certificate in certificates(&path)? {
                let refused =
                    |error: rustls::Error| TlsError::File { path: path.clone(), reason: error.to_string() };
                roots.add(certificate).map_err(refused)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| together(error.to_string()))?)
        } else {
            builder.with_no_client_auth()
        };
        let path = directory.join(TlsConfig::FILES[1]);
        let key = PrivateKeyDer::from_pem_file(&path)
            .map_err(|error| TlsError::File { path, reason: format!("private key: {}", words(error)) })?;
        let config = builder.with_single_cert(certificates(&directory.join(TlsConfig::FILES[0]))?, key);
        Ok(TlsConfig(Arc::new(config.map_err(|error| together(error.to_string()))?)))
    }
}

/// Describes a problem of a file that should be PEM.
fn words(error: pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "the file is cut off: its PEM has no end line".into(),
        pem::Error::NoItemsFound => "none in this file; allowed: one in PEM".into(),
        other => other.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |reason: String| TlsError::File { path: path.into(), reason };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    let found = found.map_err(|error| refused(format!("certificate: {}", words(error))))?;
    if found.is_empty() {
        return Err(refused("holds no certificate".into()));
    }
    Ok(found)
}
