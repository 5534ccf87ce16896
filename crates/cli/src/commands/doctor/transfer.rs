//! Test transfer: sends a file and fetches the same file.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use deltic_net::plan::{Destination, SessionTimeouts, Sources};
use deltic_net::{Outcome, Plan, SyncError, User, reason};
use deltic_protocol::options::{Missing, Options, Remove, Select};
use deltic_protocol::report::Notice;
use deltic_tree::path::printable;

use super::findings::Findings;
use super::probe::noise;
use super::way::RemoteDir;
use crate::commands::far::TIMEOUT;
use crate::report::exit::Exit;
use crate::report::summary::duration;

impl RemoteDir {
    /// Sends a file to the other machine, fetches the file, and removes it there.
    pub(super) fn transfer(&self, findings: &mut Findings) {
        let name = format!(".deltic-doctor-{}", std::process::id());
        let here = std::env::temp_dir().join(&name);
        let tried = self.there_and_back(&name, &here);
        std::fs::remove_dir_all(&here).ok();
        match tried {
            Ok((push, pull)) => {
                let what = format!(
                    "1 MiB is sent in {} and fetched in {}, connections included",
                    duration(push),
                    duration(pull)
                );
                findings.ok("transfer", &what);
            }
            Err((exit, why)) => findings.fail(exit, "transfer", &why, None),
        }
    }

    fn there_and_back(
        &self,
        name: &str,
        here: &Path,
    ) -> Result<(Duration, Duration), (Exit, String)> {
        let bytes = noise(SAMPLE_BYTES);
        let (from, back) = (here.join("sent"), here.join("fetched"));
        let made = std::fs::create_dir(here).and_then(|()| std::fs::write(&from, &bytes));
        made.map_err(|error| (Exit::Files, format!("{}: {}", here.display(), reason(&error))))?;
        let slash: &[u8] = if self.path.as_bytes().ends_with(b"/") { b"" } else { b"/" };
        let there = [self.path.as_bytes(), slash, name.as_bytes()].concat();
        let (host, path) = (self.host.clone(), OsString::from_vec(there));
        let to = Destination::Remote { host: host.clone(), path: path.clone() };
        let push = self.sync(Sources::Local(vec![from]), to, Options::default())?;
        let options =
            Options { remove: Remove { sources: true, ..Remove::default() }, ..Options::default() };
        let from = Sources::Remote { host, paths: vec![path.clone()] };
        let pull = self.sync(from, Destination::Local(back.clone()), options);
        let pull = pull.map_err(|(exit, why)| match self.remove(here, name) {
            Ok(_) => (exit, why),
            Err(_) => {
                let path = printable(path.as_bytes());
                (exit, format!("{why}; {}:{path} may be left there", self.host))
            }
        })?;
        match std::fs::read(back).is_ok_and(|fetched| fetched == bytes) {
            true => Ok((push.elapsed, pull.elapsed)),
            false => Err((Exit::Stream, "the received file differs from the sent file".into())),
        }
    }

    /// Removes the sent file: syncs a missing source with `--delete-missing-args`.
    fn remove(&self, here: &Path, name: &str) -> Result<Outcome, (Exit, String)> {
        let select = Select { missing: Missing::Delete, ..Select::default() };
        let to = Destination::Remote { host: self.host.clone(), path: self.path.clone() };
        let options = Options { select, ..Options::default() };
        self.sync(Sources::Local(vec![here.join(name)]), to, options)
    }

    fn sync(
        &self,
        sources: Sources,
        destination: Destination,
        options: Options,
    ) -> Result<Outcome, (Exit, String)> {
        let plan = Plan {
            remote: self.remote.clone(),
            timeouts: SessionTimeouts {
                answer: Some(TIMEOUT),
                whole: Some(TIMEOUT),
                silence: None,
            },
            ..Plan::new(sources, destination, options)
        };
        let mut trouble = None;
        let ended: Result<Outcome, SyncError> =
            deltic_net::run(plan, &User::default(), &mut |notice| {
                if let Notice::Trouble(found) = notice {
                    trouble.get_or_insert(found.message);
                }
            });
        match (ended, trouble) {
            (Err(error), _) => Err((Exit::from(&error), error.to_string())),
            (Ok(_), Some(trouble)) => Err((Exit::Partial, trouble)),
            (Ok(outcome), None) => Ok(outcome),
        }
    }
}

const SAMPLE_BYTES: usize = 1 << 20;
