//! TLS keys and certificates.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use deltic_store_local::NamedFile;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WantsServerCert;
use rustls::{ConfigBuilder, ServerConfig};

use super::config::{ConfigError, Tls};
use crate::private;
use crate::trust::Pin;

/// TLS configuration with the server's certificate.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// Pin of the key, if the certificate is self-signed.
    pub(crate) pin: Option<String>,
}

/// Name of the file with the server's self-made key, in the state directory.
pub(crate) const OWN_KEY: &str = "key.pem";

/// Loads key and certificate as `tls` says. Makes a missing self-made key in the directory `state`.
pub(crate) fn identity(tls: &Tls, state: &Path) -> Result<Option<Identity>, ConfigError> {
    match tls {
        Tls::Off => Ok(None),
        Tls::Acme(_) => unreachable!("it is prepared with the authority's settings"),
        Tls::Files { cert, key } => {
            let read = |path: &Path| {
                // A pipe or device may have no end.
                let read = private::read_regular(path);
                read.map_err(ConfigError::io(format!("read {}", path.display())))
            };
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert)?).collect();
            let chain = chain.ok().filter(|chain| !chain.is_empty());
            let no_cert = || ConfigError::Bad(format!("{}: no certificate in it", cert.display()));
            let key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|_| ConfigError::Bad(format!("{}: no key in it", key.display())))?;
            let chain = chain.ok_or_else(no_cert)?;
            let of = |why| ConfigError::Bad(format!("{}: {why}", cert.display()));
            let config = config(|builder| builder.with_single_cert(chain, key)).map_err(of)?;
            Ok(Some(Identity { config, pin: None }))
        }
        Tls::SelfSigned => {
            let failed =
                |error: rcgen::Error| ConfigError::Bad(format!("cannot make a key: {error}"));
            let path = state.join(OWN_KEY);
            let key = own_key(&path)
                .map_err(ConfigError::io(format!("read or store the key {}", path.display())))?;
            let key = KeyPair::from_pem(&key).map_err(failed)?;
            let pin = Pin::of(&key.subject_public_key_info()).to_string();
            // Clients compare only the key, so names and dates do not matter.
            let params = CertificateParams::new(vec!["localhost".into()]).map_err(failed)?;
            let cert = params.self_signed(&key).map_err(failed)?;
            let der = PrivateKeyDer::try_from(key.serialize_der())
                .map_err(|why| ConfigError::Bad(why.into()))?;
            let chain = vec![cert.der().clone()];
            let config = config(|builder| builder.with_single_cert(chain, der))?;
            Ok(Some(Identity { config, pin: Some(pin) }))
        }
    }
}

/// Builds a TLS configuration; `shows` sets the certificate.
pub(super) fn config(
    shows: impl FnOnce(
        ConfigBuilder<ServerConfig, WantsServerCert>,
    ) -> Result<ServerConfig, rustls::Error>,
) -> Result<Arc<ServerConfig>, ConfigError> {
    let bad = |error: rustls::Error| ConfigError::Bad(format!("TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(bad)?
        .with_no_client_auth();
    let mut config = shows(builder).map_err(bad)?;
    // Uploads by HTTP/2 cost browsers twice the processor time at a quarter of the rate.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Reads the server's self-made key as PEM, and makes the key if it is missing.
fn own_key(path: &Path) -> io::Result<String> {
    match private::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate().map_err(io::Error::other)?.serialize_pem();
            let mut file = File::from(NamedFile::of_operator(path)?.create_file()?);
            file.write_all(key.as_bytes())?;
            file.sync_all()?;
            Ok(key)
        }
        read => String::from_utf8(read?).map_err(io::Error::other),
    }
}
