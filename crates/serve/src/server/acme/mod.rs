//! A certificate from an authority by ACME (RFC 8555), obtained and renewed while the server runs.
//!
//! The authority connects to the server's own port by TLS (`tls-alpn-01`, RFC 8737), so no other port is needed. A
//! certificate is renewed after two thirds of its life. Until a new certificate arrives, the present one stays in
//! use.

mod caller;
mod kept;
mod order;
mod shown;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use httpdate::fmt_http_date;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use self::caller::Caller;
use self::kept::Kept;
use self::shown::Shown;
pub(super) use self::shown::TLS_ALPN;
use super::config::{AcmeConfig, ConfigError};
use super::tls::{Identity, config};
use crate::lock;

/// Longest time for one attempt to get a certificate.
const ATTEMPT: Duration = Duration::from_secs(5 * 60);
/// Pause before a second attempt; each further pause is twice as long. Authorities allow five failures in an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(2 * 60);
/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);
/// Least time between two certificates, however short their lives are.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// Longest certificate chain, in bytes of PEM.
const MAX_CHAIN_BYTES: usize = 256 << 10;
/// Longest sleep between two looks at the clock, because the clock may be set meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(60 * 60);

/// Files and directories that the system reads to resolve host names.
pub(super) const NAME_SERVICE: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/resolve",
];

/// A server's certificate from an ACME authority.
#[derive(Debug)]
pub(super) struct Acme {
    pub(super) settings: AcmeConfig,
    /// File with the account and the certificate.
    path: PathBuf,
    kept: Mutex<Kept>,
    shown: Arc<Shown>,
    caller: Arc<Caller>,
}

/// The outcome of an attempt to get a certificate.
pub(super) struct News {
    /// Line for the operator.
    pub(super) line: String,
    /// Event for the audit log, with its fields.
    pub(super) event: &'static str,
    pub(super) fields: Value,
}

impl Acme {
    /// Loads the account and the certificate kept in `state`. Call before the process is confined to its directories,
    /// and before any other thread starts.
    pub(super) fn prepare(
        settings: &AcmeConfig,
        state: &Path,
    ) -> Result<(Self, Identity), ConfigError> {
        let path = state.join("acme.json");
        let kept = Kept::read(&path, settings)?;
        let shown = Arc::new(Shown::default());
        if let Some(certificate) = &kept.certificate {
            let bad = |why| ConfigError::Bad(format!("{}: {why}", path.display()));
            shown.show(certificate).map_err(bad)?;
        }
        let caller = Arc::new(Caller::new(settings)?);
        let config = config(|builder| Ok(builder.with_cert_resolver(Arc::clone(&shown) as _)))?;
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols.push(TLS_ALPN.to_vec());
        let identity = Identity { config: Arc::new(config), pin: None };
        Ok((
            Self { settings: settings.clone(), path, kept: Mutex::new(kept), shown, caller },
            identity,
        ))
    }

    /// Obtains and renews the certificate for ever, and reports each outcome to `told`.
    pub(super) async fn keep(&self, told: &dyn Fn(News)) -> Infallible {
        let (names, mut failures) = (self.settings.domains.join(", "), 0);
        if self.shown.ends().is_none() {
            let line = format!("{names}: asking {} for a certificate", self.settings.directory);
            told(News { line, event: "certificate_wanted", fields: json!({ "names": names }) });
        }
        loop {
            self.wait_until_due().await;
            let pause = match self.attempt().await {
                Ok(()) => {
                    // A new certificate that is already due for renewal slows down the attempts, like a failure.
                    let is_due = self.shown.due().is_some_and(|due| due <= SystemTime::now());
                    failures = if is_due { failures + 1 } else { 0 };
                    let ends = fmt_http_date(self.shown.ends().unwrap_or(UNIX_EPOCH));
                    let line = format!("{names}: a new certificate, good until {ends}");
                    let fields = json!({ "names": names, "ends": ends });
                    told(News { line, event: "certificate", fields });
                    if is_due { pause_after(failures) } else { MIN_PAUSE }
                }
                Err(why) => {
                    let pause = pause_after(failures);
                    failures += 1;
                    let line = self.complaint(&why, pause);
                    let fields = json!({ "names": names, "why": why });
                    told(News { line, event: "certificate_refused", fields });
                    pause
                }
            };
            sleep(pause).await;
        }
    }

    /// Waits until the certificate is due for renewal, by the system's clock.
    async fn wait_until_due(&self) {
        while let Some(due) = self.shown.due() {
            match due.duration_since(SystemTime::now()) {
                Ok(left) if !left.is_zero() => sleep(left.min(LOOK_EVERY)).await,
                _ => return,
            }
        }
    }

    /// Line for the operator after a failed attempt.
    fn complaint(&self, why: &str, pause: Duration) -> String {
        let AcmeConfig { domains, directory, .. } = &self.settings;
        let mut text =
            format!("no certificate for {} from {directory}: {why}; ", domains.join(", "));
        let _ = match self.shown.ends() {
            Some(ends) if ends > SystemTime::now() => {
                write!(text, "the present certificate is valid until {}", fmt_http_date(ends))
            }
            Some(ends) => write!(text, "the present certificate ended on {}", fmt_http_date(ends)),
            None => write!(text, "no client can connect without a certificate"),
        };
        let _ = write!(text, "; trying again in {} s", pause.as_secs());
        text
    }

    /// Gets a certificate in bounded time. No answer of the authority stops the server, not even by a panic.
    async fn attempt(&self) -> Result<(), String> {
        let renewing = AssertUnwindSafe(self.renew()).catch_unwind();
        match timeout(ATTEMPT, renewing).await {
            Err(_) => Err(format!("the authority did not finish within {} s", ATTEMPT.as_secs())),
            Ok(Err(_)) => Err("invalid answer".into()),
            Ok(Ok(renewed)) => renewed,
        }
    }

    /// Orders a certificate, shows the certificate to clients, and stores it.
    async fn renew(&self) -> Result<(), String> {
        let certificate = self.order().await?;
        if certificate.chain.len() > MAX_CHAIN_BYTES {
            return Err("the certificate is too long".into());
        }
        self.shown.show(&certificate)?;
        self.change(|kept| kept.certificate = Some(certificate))
    }

    /// Changes the stored account and certificate, in memory and in the file.
    fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), String> {
        let mut kept = lock(&self.kept);
        change(&mut kept);
        let failed = deltic_store_local::reason;
        kept.write(&self.path)
            .map_err(|error| format!("cannot write {}: {}", self.path.display(), failed(&error)))
    }

    /// Returns the end of the certificate, in seconds since 1970, if there is a certificate.
    pub(super) fn ends(&self) -> Option<u64> {
        self.shown.ends()?.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    }
}

/// Returns the pause after a failed attempt, with `failures` failed attempts before it.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_no_more_than_authorities_allow() {
        let hour = Duration::from_secs(60 * 60);
        let at = (0..).scan(Duration::ZERO, |at, nth| {
            let now = *at;
            *at += pause_after(nth);
            Some(now)
        });
        assert!(at.take_while(|at| *at < hour).count() <= 5);
        assert_eq!(pause_after(40), MAX_PAUSE);
    }
}
