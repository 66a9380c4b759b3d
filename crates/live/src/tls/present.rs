//! TLS by rustls.
//!
//! A [`Stream`] has bytes in four places: what came and is not decrypted, what is decrypted and not taken, what is to be sent and not encrypted (never more than one call's), and
//! what is encrypted and not sent ([`OUTPUT`] at most). Whoever drives it asks [`Stream::holds_input`] before it waits for the socket.

use super::{Received, TlsError, TlsOptions};
use rustix::net::SendFlags;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Encrypted bytes of a connection that wait to be sent.
const OUTPUT: usize = 128 << 10;

/// Makes a stream for each client that asks for TLS.
#[derive(Clone, Debug)]
pub(crate) struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    /// Reads the certificates.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn new(options: &TlsOptions) -> Result<Acceptor, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let file = |name: &str| options.certificates.join(name);
        let unfit = |what: &Path, remedy| {
            let what = what.display().to_string();
            move |error: rustls::Error| TlsError { what, why: error.to_string(), remedy }
        };
        let (of_server, key_file) = (file("server-cert.pem"), file("server-key.pem"));
        let chain = certificates(&of_server)?;
        let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|error| unreadable(&key_file, &error))?;
        let versions =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let versions = versions.map_err(unfit(&of_server, "this is a fault of this program: report it"))?;
        let verified = if options.verify_clients {
            let path = file("ca-cert.pem");
            let mut roots = RootCertStore::empty();
            for root in certificates(&path)? {
                roots.add(root).map_err(unfit(&path, "put certificates of authorities there, in PEM"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier = verifier.map_err(|error| TlsError {
                what: path.display().to_string(),
                why: error.to_string(),
                remedy: "put the certificate of at least one authority there, in PEM",
            })?;
            versions.with_client_cert_verifier(verifier)
        } else {
            versions.with_no_client_auth()
        };
        let config = verified.with_single_cert(chain, key);
        let config = config.map_err(unfit(&key_file, "put the key that belongs to server-cert.pem there"))?;
        Ok(Acceptor(Arc::new(config)))
    }

    /// The stream of one client.
    ///
    /// # Errors
    /// Why there is none.
    pub fn accept(&self) -> Result<Stream, String> {
        let mut tls = ServerConnection::new(Arc::clone(&self.0)).map_err(|error| error.to_string())?;
        tls.set_buffer_limit(Some(OUTPUT));
        Ok(Stream { tls: Box::new(tls) })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unreadable(path, &error))?;
    match all.is_empty() {
        true => Err(unreadable(path, &"it has no certificate")),
        false => Ok(all),
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError {
        what: path.display().to_string(),
        why: why.to_string(),
        remedy: "name a folder that has it in PEM, and that this user may read",
    }
}

/// The socket as rustls wants it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, into)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, from, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection with TLS.
#[derive(Debug)]
pub(crate) struct Stream {
    tls: Box<ServerConnection>,
}

impl Stream {
    /// Takes what was read of the socket before the stream began.
    ///
    /// # Errors
    /// The client breaks the protocol: why.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            self.tls.read_tls(&mut bytes).map_err(|error| error.to_string())?;
            self.tls.process_new_packets().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Takes decrypted bytes, and reads the socket where there are none.
    pub fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Received {
        loop {
            match self.tls.reader().read(into) {
                Ok(0) => return Received::End,
                Ok(count) => return Received::Bytes(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Received::End, // without a goodbye
            }
            match self.tls.read_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
                Err(_) => return Received::Broken,
            }
            if let Err(error) = self.tls.process_new_packets() {
                return Received::Refused(error.to_string());
            }
        }
    }

    /// Whether decrypted bytes are there, of which the socket says nothing.
    pub fn holds_input(&mut self) -> bool {
        let state = self.tls.process_new_packets(); // an error comes again where it is dealt with
        state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Encrypts the beginning of a message. Returns how much of it.
    pub fn take(&mut self, message: &[IoSlice<'_>]) -> usize {
        self.tls.writer().write_vectored(message).unwrap_or_default()
    }

    /// Whether encrypted bytes wait.
    pub fn wants_to_send(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends encrypted bytes.
    ///
    /// # Errors
    /// What the socket says; `WouldBlock`: it takes nothing now.
    pub fn send(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        self.tls.write_tls(&mut Socket(socket))
    }

    /// Tells the client that nothing more comes, if that can be told at once.
    pub fn say_goodbye(&mut self, socket: &OwnedFd) {
        self.tls.send_close_notify();
        let _ = self.send(socket); // the end of the stream says it too
    }
}
