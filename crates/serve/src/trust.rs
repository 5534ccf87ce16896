//! Trust in servers: by their pins, by authorities of the system, or by those that are named.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, SignatureScheme, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;
use sha2::{Digest, Sha256};

/// The pin of a public key, as `curl --pinnedpubkey` has it: the hash of its SubjectPublicKeyInfo.
#[must_use]
pub fn pin(public_key_info: &[u8]) -> String {
    format!("sha256//{}", STANDARD.encode(Sha256::digest(public_key_info)))
}

/// Settings of a client that trusts a server by its pin, or else as the system does.
pub(crate) fn client_config(pin: Option<&str>) -> Result<ClientConfig, rustls::Error> {
    client_config_of(|builder| match pin {
        None => builder.with_platform_verifier(),
        Some(pin) => {
            let provider = Arc::clone(builder.crypto_provider());
            let pinned = Arc::new(Pinned { pin: pin.into(), provider });
            Ok(builder.dangerous().with_custom_certificate_verifier(pinned))
        }
    })
}

/// Settings of a client that trusts a server as `trust` says.
pub(crate) fn client_config_of(
    trust: impl FnOnce(
        ConfigBuilder<ClientConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let mut config = trust(builder.with_safe_default_protocol_versions()?)?.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts one key, whoever signed its certificate.
struct Pinned {
    pin: String,
    provider: Arc<rustls::crypto::CryptoProvider>,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({})", self.pin)
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = rustls::server::ParsedCertificate::try_from(end_entity)?;
        let shown = pin(&certificate.subject_public_key_info());
        if shown == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!("its key is another one than the pin says: {shown}")))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
