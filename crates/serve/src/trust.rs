//! Trust in servers: by pins, by the system's authorities, or by named authorities.

use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, InvalidMessage,
    OtherError, SignatureScheme, WantsVerifier,
};
use rustls_platform_verifier::BuilderVerifierExt;
use sha2::{Digest, Sha256};

/// The pin of a public key, in the format of `curl --pinnedpubkey`: the SHA-256 of the SubjectPublicKeyInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// Prefix of a pin in text form, before the hash in Base64.
const PREFIX: &str = "sha256//";

impl Pin {
    /// Returns the pin of a public key.
    #[must_use]
    pub fn of(public_key_info: &[u8]) -> Self {
        Self(Sha256::digest(public_key_info).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD.encode(self.0))
    }
}

/// Error for a text that is not a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a pin: a pin is sha256// and 44 characters that end in =; copy the whole pin")]
pub struct BadPin;

impl FromStr for Pin {
    type Err = BadPin;

    fn from_str(text: &str) -> Result<Self, BadPin> {
        let letters = text.trim().strip_prefix(PREFIX).ok_or(BadPin)?;
        let bytes = STANDARD.decode(letters).map_err(|_| BadPin)?;
        bytes.try_into().map(Self).map_err(|_| BadPin)
    }
}

/// Reason why a connection to a server is not made, found while the client checks the server's TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// The server has another key than the pin requires.
    #[error("the server's key does not match the pin: expected {wanted}, got {shown}")]
    WrongPin {
        /// The required pin.
        wanted: Pin,
        /// The pin of the key that the server has.
        shown: Pin,
    },
    /// The client has no pin, and no authority that the system trusts has signed the server's certificate.
    #[error("the server's certificate is self-signed, or signed by an unknown authority")]
    UnknownSigner,
    /// The port answers without TLS.
    #[error("the server answers without TLS")]
    WithoutTls,
    /// The port does not answer in HTTP: the port may expect TLS.
    #[error("the answer is not HTTP")]
    NotHttp,
}

impl TlsFault {
    /// Returns the fault in `error`, if there is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref().and_then(|why| why.downcast_ref()).copied()
    }

    /// Unwraps a `TlsFault` from the error of a TLS handshake. Returns other errors unchanged.
    pub(crate) fn unwrap_fault(error: io::Error) -> io::Error {
        let why = error.get_ref().and_then(|why| why.downcast_ref());
        match why.and_then(Self::of_tls) {
            Some(fault) => fault.into(),
            None => error,
        }
    }

    /// Returns the fault that an error of rustls stands for.
    fn of_tls(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::Other(OtherError(other)) => other.downcast_ref().copied(),
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                Some(Self::UnknownSigner)
            }
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                Some(Self::WithoutTls)
            }
            _ => None,
        }
    }
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

/// Returns the TLS configuration of a client that trusts a server by its pin, or else by the system's authorities.
pub(crate) fn client_config(pin: Option<&Pin>) -> Result<ClientConfig, rustls::Error> {
    client_config_of(|builder| match pin {
        None => builder.with_platform_verifier(),
        Some(pin) => {
            let provider = Arc::clone(builder.crypto_provider());
            let pinned = Arc::new(Pinned { pin: *pin, provider });
            Ok(builder.dangerous().with_custom_certificate_verifier(pinned))
        }
    })
}

/// Returns the TLS configuration of a client; `trust` sets the verification of servers.
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

/// Verifier that accepts one public key and ignores the signatures of the certificate.
struct Pinned {
    pin: Pin,
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
        let (wanted, shown) = (self.pin, Pin::of(&certificate.subject_public_key_info()));
        if shown == wanted {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::Other(OtherError(Arc::new(TlsFault::WrongPin { wanted, shown }))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_its_text_and_nothing_else_is_one() {
        let pin = Pin::of(b"a key");
        let text = pin.to_string();
        assert_eq!(text.parse(), Ok(pin));
        let short = text.strip_suffix("=").expect("it is padded");
        let more = format!("{text}AAAA");
        for bad in ["", "sha256//", "sha256//AAAA", "sha256//=", "x", short, &more, &text[8..]] {
            assert_eq!(bad.parse::<Pin>(), Err(BadPin), "{bad}");
        }
    }
}
