//! The certificate in TLS handshakes: the server's own, or an answer to an authority that validates a name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::parse_x509_certificate;

use super::kept::Certificate;
use crate::lock;

/// ALPN protocol by which an authority validates a name (RFC 8737).
pub(crate) const TLS_ALPN: &[u8] = b"acme-tls/1";
/// Most certificates in a chain.
const MAX_CHAIN: usize = 16;
/// Renewals of many servers are spread over up to 1/`SPREAD` of a certificate's life.
const SPREAD: u32 = 20;

/// The certificates in use at the moment.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    certificate: Option<Live>,
    /// Answers to the authority, by the validated names.
    answers: BTreeMap<String, Arc<CertifiedKey>>,
}

/// A certificate in use.
#[derive(Debug)]
struct Live {
    key: Arc<CertifiedKey>,
    /// Time of renewal.
    due: SystemTime,
    ends: SystemTime,
}

impl Shown {
    /// Uses this certificate from now on.
    pub(super) fn show(&self, certificate: &Certificate) -> Result<(), String> {
        let live = Live::read(certificate)?;
        lock(&self.0).certificate = Some(live);
        Ok(())
    }

    /// Answers an authority that validates `name`, until the returned `Answer` is dropped.
    pub(super) fn answer(self: &Arc<Self>, name: &str, digest: &[u8]) -> Result<Answer, String> {
        let failed = |error: rcgen::Error| {
            format!("cannot make the validation certificate for {name}: {error}")
        };
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let der = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&der);
        let key =
            key.map_err(|why| format!("cannot make the validation certificate for {name}: {why}"))?;
        // `CertifiedKey::new` does not check that key and certificate match: only authorities know the extension.
        let key = CertifiedKey::new(vec![certificate.der().clone()], key);
        lock(&self.0).answers.insert(name.to_owned(), Arc::new(key));
        Ok(Answer { shown: Arc::clone(self), name: name.to_owned() })
    }

    /// Returns the end of the certificate, if there is one.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        lock(&self.0).certificate.as_ref().map(|live| live.ends)
    }

    /// Returns the time of the certificate's renewal, if there is a certificate.
    pub(super) fn due(&self) -> Option<SystemTime> {
        lock(&self.0).certificate.as_ref().map(|live| live.due)
    }
}

/// An answer to an authority, in use until dropped.
pub(super) struct Answer {
    shown: Arc<Shown>,
    name: String,
}

impl Drop for Answer {
    fn drop(&mut self) {
        lock(&self.shown.0).answers.remove(&self.name);
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let state = lock(&self.0);
        if hello.alpn().is_some_and(|mut protocols| protocols.any(|it| it == TLS_ALPN)) {
            return state.answers.get(&hello.server_name()?.to_ascii_lowercase()).cloned();
        }
        state.certificate.as_ref().map(|live| Arc::clone(&live.key))
    }
}

/// The last second of the year 9999, in seconds since 1970: the latest date in HTTP.
const LAST_SECOND: u64 = 253_402_300_799;

impl Live {
    fn read(certificate: &Certificate) -> Result<Self, String> {
        let chain = CertificateDer::pem_slice_iter(certificate.chain.as_bytes());
        let chain: Result<Vec<_>, _> = chain.take(MAX_CHAIN).collect();
        let chain = chain.map_err(|why| format!("the certificate: {why}"))?;
        let first = chain.first().ok_or("no certificate in it")?;
        let (_, parsed) =
            parse_x509_certificate(first).map_err(|why| format!("the certificate: {why}"))?;
        let at = |time: i64| {
            UNIX_EPOCH + Duration::from_secs(u64::try_from(time).unwrap_or(0).min(LAST_SECOND))
        };
        let validity = parsed.validity();
        let (begins, ends) =
            (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
        let due = due(begins, ends, random());
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes());
        let key = certified(chain, key.map_err(|why| format!("the key: {why}"))?)?;
        Ok(Self { key: Arc::new(key), due, ends })
    }
}

/// Returns the time of a renewal: after two thirds of the certificate's life, minus a random share of a twentieth of
/// it.
fn due(begins: SystemTime, ends: SystemTime, share: u32) -> SystemTime {
    let life = ends.duration_since(begins).unwrap_or_default();
    let early = life / SPREAD * (share % 1_000) / 1_000;
    (begins + life * 2 / 3).checked_sub(early).unwrap_or(begins)
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    u32::from_le_bytes(bytes)
}

/// Combines a key with its certificate chain. Fails if the key and the certificate do not match.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, String> {
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map_err(|why| format!("the certificate: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["nas.example".into()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 3, 31);
        let chain = params.self_signed(&key).unwrap().pem();
        Certificate { domains: Vec::new(), chain, key: key.serialize_pem() }
    }

    #[test]
    fn a_certificate_is_renewed_two_thirds_into_its_life() {
        let shown = Shown::default();
        assert_eq!((shown.due(), shown.ends()), (None, None));
        shown.show(&certificate()).unwrap();
        let day = |day: u64| UNIX_EPOCH + Duration::from_secs((18_262 + day) * 24 * 60 * 60);
        assert_eq!(shown.ends(), Some(day(90)));
        let at = shown.due().unwrap();
        assert!(at > day(55) && at <= day(60), "{at:?}");
        assert_eq!(due(day(0), day(90), 0), day(60));
        assert_eq!(due(day(1), day(0), 7), day(1), "a life that is none");
    }

    #[test]
    fn a_key_of_another_certificate_is_refused_and_the_present_one_stays() {
        let shown = Shown::default();
        shown.show(&certificate()).unwrap();
        let mixed = Certificate { key: certificate().key, ..certificate() };
        assert!(shown.show(&mixed).is_err());
        let none = Certificate { chain: String::new(), ..certificate() };
        assert!(shown.show(&none).unwrap_err().contains("no certificate"));
        assert!(shown.due().is_some());
    }
}
