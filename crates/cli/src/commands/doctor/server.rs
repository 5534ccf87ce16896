//! The checks of a server: address, key, token, rights and quota.

use std::time::Instant;

use deltic_net::SyncError;
use deltic_serve::client::{Address, Credentials, QuotaUse, VolumeRights};
use deltic_tree::path::printable;
use indicatif::BinaryBytes;

use super::findings::Findings;
use crate::args::far::DoctorArgs;
use crate::plan::server::{address_of, credentials};
use crate::report::exit::Exit;
use crate::report::hint::{self, NextRun, RemoteMachine};
use crate::report::output;
use crate::report::summary::duration;

/// Checks the server of the URL in `args`, and prints each finding.
pub(super) fn examine(args: &DoctorArgs, findings: &mut Findings) {
    let found = args.place.to_str().ok_or_else(|| anyhow::anyhow!("the URL is not UTF-8"));
    let found = found.and_then(address_of).and_then(|address| {
        let credentials = credentials(&address, &args.login)?;
        Ok((address, credentials))
    });
    match found {
        Ok((address, credentials)) => ask(&address, &credentials, findings),
        Err(error) => {
            let mend = "`deltic login URL` keeps a token, and the pin of the server's key";
            let exit = Exit::after_refusal(&error);
            findings.fail(exit, "login", &output::words(&error), Some(mend));
        }
    }
}

/// Asks the server for the volumes of the token.
fn ask(address: &Address, credentials: &Credentials, findings: &mut Findings) {
    let (server, start) = (address.server(), Instant::now());
    let volumes = match address.volumes(credentials) {
        Ok(volumes) => volumes,
        Err(error) => return refused(&error, &server, findings),
    };
    let took = duration(start.elapsed());
    let key = match (address.is_secret, credentials.pin) {
        (false, _) => "on this machine, without TLS",
        (true, Some(_)) => "its key has the pin of the login",
        (true, None) => "this machine trusts its certificate",
    };
    findings.ok("server", &format!("{server} answers after {took}; {key}"));
    let names: Vec<_> = volumes.iter().map(|volume| printable(volume.name.as_bytes())).collect();
    findings.ok("token", &format!("the server accepts the token; volumes: {}", names.join(", ")));
    let asked = &address.volume;
    if !asked.is_empty() && !volumes.iter().any(|volume| volume.name == *asked) {
        let what = format!("the token is for no volume named '{}'", printable(asked.as_bytes()));
        let mend = "name a volume of the token, or ask for another token";
        findings.fail(Exit::Selection, "volume", &what, Some(mend));
    }
    let its = volumes.iter().filter(|volume| asked.is_empty() || volume.name == *asked);
    its.for_each(|volume| examine_volume(volume, findings));
}

/// Prints the rights of the token in a volume, and the use of quotas.
fn examine_volume(volume: &VolumeRights, findings: &mut Findings) {
    let VolumeRights { name, read, write, bytes, token } = volume;
    let name = format!("volume {}", printable(name.as_bytes()));
    let rights = match (read, write) {
        (true, true) => "read and write",
        (true, false) => "read only",
        (false, true) => "write only",
        (false, false) => "no right",
    };
    findings.ok(&name, rights);
    let quotas =
        [("the volume", bytes.as_ref()), ("the token", token.as_ref().map(|own| &own.bytes))];
    for (whose, quota) in quotas {
        let Some(QuotaUse { used, quota: Some(quota) }) = quota else { continue };
        let left = quota.saturating_sub(*used);
        let what = format!(
            "{} of {} left in the quota of {whose}",
            BinaryBytes(left),
            BinaryBytes(*quota)
        );
        match left < LEAST_BYTES {
            true => findings.warn(&name, &what, "delete files there, or ask for a larger quota"),
            false => findings.ok(&name, &what),
        }
    }
}

/// Prints the reason why the server did not answer as it should.
fn refused(error: &SyncError, server: &str, findings: &mut Findings) {
    let is_token = matches!(error, SyncError::Refused(_));
    let (name, otherwise) = match is_token {
        true => (
            "token",
            "`deltic token add NAME` on the server makes a token; `deltic login` keeps it",
        ),
        false => ("server", "try again"),
    };
    let mend = hint::of(error, &RemoteMachine::default(), NextRun::Same);
    let mend = mend.as_deref().unwrap_or(otherwise);
    let what = error.to_string();
    let what = if what.contains(server) { what } else { format!("{server}: {what}") };
    findings.fail(Exit::from(error), name, &what, Some(mend));
}

/// Fewer bytes than this are a warning.
const LEAST_BYTES: u64 = 1 << 20;
