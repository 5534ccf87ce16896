//! `deltic token`: creates, lists and revokes tokens.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use deltic_net::NamedDir;
use deltic_serve::server::announcement::{self, Announcement, ServedVolume};
use deltic_serve::server::grant::Grant;
use deltic_serve::server::state_dir::{has_state, may_have_volume};
use deltic_serve::server::token_file::TokenFile;
use deltic_serve::token::{Token, TokenHash, new_token};
use deltic_tree::path::printable;

use super::invitation::Invitation;
use super::serve::{make_own, state_dir};
use crate::args::server::{TokenAddArgs, TokenArgs, TokenCommand};
use crate::report::numbers::counted;
use crate::report::output::{self, Output};
use crate::words::age::Age;
use crate::words::refused::Misused;
use crate::words::size::Size;

/// Makes, lists and revokes tokens.
pub(crate) fn run(args: &TokenArgs) -> Result<()> {
    let mut output = Output::stdout();
    match &args.command {
        TokenCommand::Add(add) => {
            let state = state_dir(&add.state)?;
            make_own(&state)?;
            let server = Announcement::read(&state)?;
            let (file, grant) = (TokenFile::of(&state), grant(add, server.as_ref())?);
            refuse_unknown_volumes(&grant, server.as_ref(), &state)?;
            warn_of_same_name(&file, &grant)?;
            warn_of_missing_directory(&grant, server.as_ref());
            let token = file.add(grant.clone())?;
            output.line(token.reveal());
            output.flush();
            invite(&state, server.as_ref(), &grant, &token);
        }
        TokenCommand::New => {
            let token = new_token();
            output.line(token.reveal());
            output.line(format!("hash = \"{}\"", token.hash()));
        }
        TokenCommand::List { json, state } => {
            let state = state_dir(state)?;
            let shown = state.display();
            ensure!(has_state(&state), "{shown} holds no state of a server; --state names another");
            for (hash, grant) in TokenFile::of(&state).read()? {
                output.line(if *json { json_line(&hash, &grant) } else { line(&hash, grant) });
            }
        }
        TokenCommand::Revoke { which, state } => {
            let gone = TokenFile::of(&state_dir(state)?).revoke(which)?;
            ensure!(gone > 0, "no token has the name {which}, or a hash that begins with {which}");
            output.line(format!("revoked: {}", counted(gone as u64, "token")));
        }
    }
    Ok(output.finish()?)
}

/// Refuses a volume that neither the last server with this state directory has, nor an earlier one had.
fn refuse_unknown_volumes(
    grant: &Grant,
    server: Option<&Announcement>,
    state: &Path,
) -> Result<()> {
    let served: Vec<_> = server.iter().flat_map(|server| &server.volumes).collect();
    let is_unknown = |name: &&String| {
        !served.is_empty()
            && !served.iter().any(|volume| volume.name == **name)
            && !may_have_volume(state, name)
    };
    let Some(unknown) = grant.volumes.iter().flatten().find(is_unknown) else { return Ok(()) };
    let names: Vec<_> = served.iter().map(|volume| volume.name.as_str()).collect();
    let (names, state) = (names.join(", "), state.display());
    bail!(
        "--volume {unknown}: the server with {state} has no volume '{unknown}'; its volumes: {names}"
    )
}

/// Warns if another token has the same name.
fn warn_of_same_name(file: &TokenFile, grant: &Grant) -> Result<()> {
    let Grant { name, .. } = grant;
    if file.read()?.values().any(|other| other.name == *name) {
        let hint = "`deltic token revoke` with this name revokes all tokens of this name";
        output::complain(&format!("another token has the name '{name}'"), Some(hint));
    }
    Ok(())
}

/// Warns if a volume of this machine lacks the directory to which the token is limited.
fn warn_of_missing_directory(grant: &Grant, server: Option<&Announcement>) {
    let Some(below) = grant.path_text() else { return };
    let is_granted = |volume: &&ServedVolume| grant.is_for(&volume.name);
    for ServedVolume { name, path, .. } in
        server.iter().flat_map(|server| &server.volumes).filter(is_granted)
    {
        if NamedDir::of_operator(&path.join(&below)).real_path().is_err() {
            let why = format!("the volume '{name}' has no directory {below}");
            output::complain(&why, Some("the token has no use until somebody makes the directory"));
        }
    }
}

/// Prints the lines for the other side to standard error.
fn invite(state: &Path, server: Option<&Announcement>, grant: &Grant, token: &Token) {
    let Some(server) = server else {
        let why = format!("no server has used the directory {} yet", state.display());
        return output::note(&format!(
            "{why}: start `deltic serve`, or name the directory of another server by --state\n"
        ));
    };
    let is_granted = |volume: &&ServedVolume| grant.is_for(&volume.name);
    let volume = server.volumes.iter().find(is_granted);
    // A volume of an earlier server, if the present one has none of the token's volumes.
    let earlier = grant.volumes.as_ref().and_then(|names| names.first());
    let name = volume.map(|volume| &volume.name).or(earlier);
    let below = grant.path_text().map(|path| format!("{path}/")).unwrap_or_default();
    let invitation = Invitation {
        server,
        token,
        path: name.map(|name| format!("{name}/{below}")).unwrap_or_default(),
        is_read_only: !grant.write || volume.is_some_and(|volume| volume.is_read_only),
    };
    output::note(&invitation.text(io::stderr().is_terminal()));
    if !announcement::is_running(state) {
        output::note(
            "The server is not running; this was its last address. Start `deltic serve` first.\n",
        );
    }
}

/// Returns the volumes that the arguments name, or else the only volume of the server; `None` for all volumes.
fn volumes(add: &TokenAddArgs, server: Option<&Announcement>) -> Result<Option<Vec<String>>> {
    if add.all_volumes {
        return Ok(None);
    }
    if !add.volume.is_empty() {
        return Ok(Some(add.volume.clone()));
    }
    let names = server.iter().flat_map(|server| &server.volumes);
    let names: Vec<_> = names.map(|volume| volume.name.clone()).collect();
    ensure!(
        names.len() == 1,
        Misused(format!(
            "which volume is the token for? use --volume{}, or --all-volumes",
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
        ))
    );
    Ok(Some(names))
}

/// Returns the rights that the arguments grant.
fn grant(add: &TokenAddArgs, server: Option<&Announcement>) -> Result<Grant> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = |age: &Age| Some(now.as_secs().saturating_add(age.0?));
    let writes = add.rw || add.wo;
    let grant = Grant {
        volumes: volumes(add, server)?,
        read: !add.wo,
        write: writes,
        delete: writes && !add.no_delete,
        quota_bytes: add.quota.map(Size::bytes),
        quota_files: add.quota_files,
        expires: add.expires.as_ref().and_then(end),
        ..Grant::with_all_rights(add.name.clone())
    };
    match &add.path {
        None => Ok(grant),
        Some(path) => {
            let refused = |why| Misused(format!("--path={path}: {why}")).into();
            grant.within(path).map_err(refused)
        }
    }
}

/// Returns the line of `token list` for a token and its rights.
fn line(hash: &TokenHash, grant: Grant) -> String {
    let rights = [(grant.read, "read"), (grant.write, "write"), (grant.delete, "delete")];
    let rights: Vec<_> = rights.iter().filter(|(has, _)| *has).map(|(_, right)| *right).collect();
    let path = grant.path_text().map(|path| format!(", below {path}")).unwrap_or_default();
    let volumes = grant
        .volumes
        .map_or_else(|| "all volumes".into(), |names| printable(names.join(" ").as_bytes()));
    let bytes = grant.quota_bytes.map(|bytes| format!("  at most {}", counted(bytes, "byte")));
    let files = grant.quota_files.map(|files| format!("  at most {}", counted(files, "name")));
    let quotas = [bytes, files].map(Option::unwrap_or_default).concat();
    let made = if grant.parent.is_some() { "  made by a token" } else { "" };
    let ends = grant.expires.map(expiry).unwrap_or_default();
    let (name, rights) = (printable(grant.name.as_bytes()), rights.join("+"));
    format!("{hash:.12}  {name}  {rights}  {volumes}{path}{quotas}{ends}{made}")
}

/// Returns the line of `token list --json`; the names are the same as in `POST /v1/tokens`.
fn json_line(hash: &TokenHash, grant: &Grant) -> String {
    let Grant { name, volumes, read, write, delete, .. } = grant;
    let Grant { quota_bytes, quota_files, expires, parent, .. } = grant;
    let shown = serde_json::json!({
        "id": hash.to_string(), "name": name, "volumes": volumes, "path": grant.path_text(),
        "read": read, "write": write, "delete": delete,
        "quota_bytes": quota_bytes, "quota_files": quota_files, "expires": expires,
        "made_by": parent.as_ref().map(TokenHash::to_string),
    });
    shown.to_string()
}

fn expiry(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match at.checked_sub(now).map(Duration::from_secs) {
        None => "  has ended".into(),
        Some(left) => format!("  ends in {}", indicatif::HumanDuration(left)),
    }
}
