//! The stored account and certificate with its key, in a file with mode 0600.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use deltic_store_local::NamedFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::private;
use crate::server::config::{AcmeConfig, ConfigError};

/// Largest valid file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// An account and a certificate.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Address of the authority's directory.
    directory: String,
    /// Our account at the authority, with its key.
    pub(super) account: Option<Value>,
    pub(super) certificate: Option<Certificate>,
}

/// A certificate chain with its key.
#[derive(Serialize, Deserialize)]
pub(super) struct Certificate {
    /// Host names of the certificate.
    pub(super) domains: Vec<String>,
    /// The certificate and its issuers, as PEM.
    pub(super) chain: String,
    /// The private key, as PEM.
    pub(super) key: String,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.directory)
    }
}

impl Kept {
    /// Reads the file. Returns an empty value if the file is missing or is about another authority. Leaves out a
    /// certificate for other names.
    pub(super) fn read(path: &Path, settings: &AcmeConfig) -> Result<Self, ConfigError> {
        let failed = || ConfigError::io(format!("read {}", path.display()));
        let empty = || Self { directory: settings.directory.clone(), ..Self::default() };
        let opened = NamedFile::of_operator(path).and_then(|file| file.open_regular());
        let file = match opened.map(File::from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty()),
            file => file.map_err(failed())?,
        };
        let meta = file.metadata().map_err(failed())?;
        let bad = |why: String| ConfigError::Bad(format!("{}: {why}", path.display()));
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let why = format!(
                "other users can read the key (mode {mode:o}); delete the file, and the server gets a new key and \
                 certificate"
            );
            return Err(bad(why));
        }
        if meta.len() > MAX_BYTES {
            return Err(bad("the file is too long for an account and a certificate".into()));
        }
        let text = private::bytes(file).map_err(failed())?;
        let kept: Self = serde_json::from_slice(&text).map_err(|why| {
            bad(format!("{why}; delete the file, and the server gets a new certificate"))
        })?;
        if kept.directory != settings.directory {
            return Ok(empty());
        }
        let certificate = kept.certificate.filter(|kept| kept.domains == settings.domains);
        Ok(Self { certificate, ..kept })
    }

    /// Replaces the file, in one step.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        private::replace(path, &serde_json::to_vec_pretty(self).map_err(io::Error::other)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(domain: &str, directory: &str) -> AcmeConfig {
        AcmeConfig {
            domains: vec![domain.into()],
            directory: directory.into(),
            ..AcmeConfig::default()
        }
    }

    #[test]
    fn what_is_kept_is_for_one_authority_and_these_names_and_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme.json");
        let ours = settings("nas.example", "https://ca.example/");
        let mut kept = Kept::read(&path, &ours).unwrap();
        kept.account = Some(Value::from("account"));
        let domains = ours.domains.clone();
        kept.certificate = Some(Certificate { domains, chain: "c".into(), key: "k".into() });
        kept.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let has = |settings: &AcmeConfig| {
            let kept = Kept::read(&path, settings).unwrap();
            (kept.account.is_some(), kept.certificate.is_some())
        };
        assert_eq!(has(&ours), (true, true));
        assert_eq!(has(&settings("other.example", "https://ca.example/")), (true, false));
        assert_eq!(has(&settings("nas.example", "https://other.example/")), (false, false));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Kept::read(&path, &ours).unwrap_err().to_string();
        assert!(refused.contains("other users can read"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{").unwrap();
        let refused = Kept::read(&path, &ours).unwrap_err().to_string();
        assert!(refused.contains("delete the file"), "{refused}");
    }
}
