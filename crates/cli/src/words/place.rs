//! Operands: a local path, or a path on a host.
//!
//! As in rsync, an operand is remote if a colon comes before any slash; `./a:b` names a local `a:b`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use deltic_net::plan::{Destination, Sources};
use deltic_remote::{SystemKind, kind_of};
use deltic_serve::client::Address;
use deltic_tree::path::printable;

use super::password;
use super::refused::Misused;

/// A parsed operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedOperand {
    /// A path on this machine.
    Local(PathBuf),
    /// A path on another machine.
    Remote {
        /// `[user@]host`; `None` for an operand that starts with a colon: the host of the operand before.
        host: Option<String>,
        /// The path on the host.
        path: OsString,
    },
}

impl ParsedOperand {
    /// Parses an operand.
    pub(crate) fn parse(word: &OsStr) -> Result<Self> {
        let shown = printable(word.as_bytes());
        ensure!(!word.is_empty(), "an operand is empty: a path is missing");
        password::refuse(&shown)?;
        if Address::looks_like(word.as_bytes()) {
            return parse_server_url(&shown, word);
        }
        let Some((host, path)) = split_host(word.as_bytes()) else {
            return Ok(Self::Local(word.into()));
        };
        if path.starts_with(b":") || (host == b"rsync" && path.starts_with(b"//")) {
            bail!(
                "'{shown}': rsync daemons are not supported; Deltic starts itself over ssh, as host:path"
            );
        }
        if let (Some(kind), Some(rest)) = (kind_of(&host), path.strip_prefix(b"//")) {
            return parse_store_url(&shown, kind, &host, rest);
        }
        if let Some(why) = foreign_address_hint(&host, path) {
            bail!("'{shown}': {why}");
        }
        let path = if path.is_empty() { b"." } else { path };
        Ok(Self::Remote { host: host_name(&host, &shown)?, path: OsStr::from_bytes(path).into() })
    }
}

/// The operands of a sync: sources and destination.
pub(crate) struct SyncOperands {
    pub(crate) sources: Sources,
    pub(crate) destination: Destination,
}

/// True if `host` is the URL of a store.
pub(crate) fn is_store(host: &str) -> bool {
    host.split_once("://").is_some_and(|(scheme, _)| kind_of(scheme.as_bytes()).is_some())
}

/// Parses the URL of a server: the volume becomes the host, the rest the path.
fn parse_server_url(shown: &str, word: &OsStr) -> Result<ParsedOperand> {
    let text = word.to_str().with_context(|| format!("'{shown}': not UTF-8"))?;
    let address = text.parse::<Address>().map_err(|why| Misused(format!("'{shown}': {why}")))?;
    let kept = "the text after '#' holds a token, which all users of this machine can read in a command line; \
                keep it by `deltic login`";
    ensure!(address.fragment.is_none(), Misused(kept.into()));
    has_volume(&address, shown)?;
    let host = address.host();
    let path = if address.path.is_empty() { b"./".to_vec() } else { address.path };
    Ok(ParsedOperand::Remote { host: Some(host), path: OsString::from_vec(path) })
}

/// Refuses an address without a volume, which the user wrote as `shown`.
pub(crate) fn has_volume(address: &Address, shown: &str) -> Result<(), Misused> {
    let (host, server) = (address.host(), address.server());
    match address.volume.is_empty() {
        false => Ok(()),
        true => Err(Misused(format!(
            "'{shown}': no volume behind the host: {host}VOLUME/PATH; `deltic doctor {server}` lists the volumes"
        ))),
    }
}

/// Parses the URL of a store.
fn parse_store_url(
    shown: &str,
    kind: SystemKind,
    scheme: &[u8],
    rest: &[u8],
) -> Result<ParsedOperand> {
    let (host, path) = match rest.iter().position(|byte| *byte == b'/') {
        Some(slash) => (&rest[..slash], &rest[slash + 1..]),
        None => (rest, &b""[..]),
    };
    ensure!(host.is_empty() == kind.is_local_mount(), "'{shown}': write {}", kind.url_form());
    let host = [scheme, b"://", host].concat();
    let host = String::from_utf8(host).map_err(|_| anyhow!("'{shown}': not UTF-8"))?;
    let path = if path.is_empty() { b"./" } else { path };
    Ok(ParsedOperand::Remote { host: Some(host), path: OsStr::from_bytes(path).into() })
}

/// Explains an operand in a form of other programs, such as a Windows path or an `sftp://` URL. `None` for other
/// operands.
fn foreign_address_hint(host: &[u8], path: &[u8]) -> Option<String> {
    if let ([letter], [b'\\', ..]) = (host, path)
        && letter.is_ascii_alphabetic()
    {
        let letter = char::from(letter.to_ascii_lowercase());
        return Some(format!("a path of Windows; in WSL that drive is /mnt/{letter}"));
    }
    let rest = printable(path.strip_prefix(b"//")?);
    match host {
        b"ssh" | b"scp" | b"sftp" => {
            let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
            let (host, shell) = match host.rsplit_once(':') {
                Some((host, port)) => (host, format!("-e 'ssh -p {port}' ")),
                None => (host, String::new()),
            };
            Some(format!("an address of another kind; write {shell}'{host}:/{path}'"))
        }
        b"file" => Some(format!(
            "URLs of this kind are not supported; write '/{}'",
            rest.trim_start_matches('/')
        )),
        b"abfs" | b"b2" | b"ftp" | b"ftps" | b"dav" | b"davs" | b"webdav" | b"smb" | b"cifs"
        | b"nfs" | b"afp" => {
            Some("not supported: use host:path over ssh, or a mounted path".into())
        }
        _ => None,
    }
}

/// Returns `host` for the remote shell. Refuses a host that the remote shell would take for an option.
fn host_name(host: &[u8], shown: &str) -> Result<Option<String>> {
    let Ok(host) = std::str::from_utf8(host) else { bail!("'{shown}': the host is not UTF-8") };
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    ensure!(
        !host.starts_with('-') && !name.starts_with('-'),
        "'{shown}': a host cannot start with '-'; write './{shown}' for a file of that name"
    );
    ensure!(
        !host.starts_with('@') || name.is_empty(),
        "'{shown}': no user before the '@'; write './{shown}' for a file of that name"
    );
    ensure!(
        !name.is_empty() || host.is_empty(),
        "'{shown}': no host after the '@'; write './{shown}' for a file of that name"
    );
    Ok((!host.is_empty()).then(|| host.to_owned()))
}

/// Splits a remote operand into host and path. Takes off the brackets of an IPv6 address.
fn split_host(word: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let user = match word.iter().position(|b| matches!(b, b'@' | b':' | b'/')) {
        Some(at) if word[at] == b'@' => at + 1,
        _ => 0,
    };
    let (user, rest) = word.split_at(user);
    let (name, path) = match rest.first() {
        Some(b'[') => split_address(rest),
        _ => split_name(rest),
    }?;
    Some(([user, name].concat(), path))
}

/// Splits `[address]:path`.
fn split_address(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = rest.strip_prefix(b"[")?;
    let close = inner.iter().position(|b| matches!(b, b']' | b'/'))?;
    let path = inner[close..].strip_prefix(b"]:")?;
    (close > 0).then_some((&inner[..close], path))
}

/// Splits `name:path`.
fn split_name(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = rest.iter().position(|b| matches!(b, b':' | b'/'))?;
    let path = rest[end..].strip_prefix(b":")?;
    Some((&rest[..end], path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(word: &str) -> Result<ParsedOperand> {
        ParsedOperand::parse(OsStr::new(word))
    }

    #[test]
    fn a_colon_before_any_slash_makes_an_operand_remote() {
        for (word, host, path) in [
            ("host:path", "host", "path"),
            ("user@host:/a/b/", "user@host", "/a/b/"),
            ("host:a:b", "host", "a:b"),
            ("host:.", "host", "."),
            ("host://x", "host", "//x"),
            ("C:/x", "C", "/x"),
            ("host:", "host", "."),
            ("[::1]:x", "::1", "x"),
            ("me@[fe80::1%eth0]:/x", "me@fe80::1%eth0", "/x"),
        ] {
            let remote = ParsedOperand::Remote { host: Some(host.into()), path: path.into() };
            assert_eq!(place(word).unwrap(), remote, "{word}");
        }
    }

    #[test]
    fn a_slash_first_or_no_colon_makes_an_operand_local() {
        for word in ["a", "a/b:c", "./a:b", "/a:b", "user@x/y:z", "-x", "@", "[::1", "[a:b", "[]:c"]
        {
            assert_eq!(place(word).unwrap(), ParsedOperand::Local(word.into()), "{word}");
        }
    }

    #[test]
    fn a_colon_first_means_the_same_host_again() {
        assert_eq!(place(":b").unwrap(), ParsedOperand::Remote { host: None, path: "b".into() });
    }

    #[test]
    fn operands_that_mean_no_place_are_refused() {
        for (word, why) in [
            ("", "empty"),
            ("host::module", "daemons"),
            ("rsync://host/module", "daemons"),
            ("b2://bucket/key", "mounted"),
            ("s3:///key", "s3://BUCKET/PATH"),
            ("http://host/x", "use https://"),
            ("https://host/", "no volume"),
            ("https://me:secret@host/v/", "all users of this machine see the password"),
            ("https://secret@host/v/", "'https://***@host/v/': no host"),
            ("https://host/x#t=y", "deltic login"),
            ("ssh://me@host/srv/x", "write 'me@host:/srv/x'"),
            ("ssh://host:2222/srv/x", "write -e 'ssh -p 2222' 'host:/srv/x'"),
            ("ssh://me:secret@host/srv/x", "me:***@host"),
            ("s3://id:secret@bucket/x", "id:***@bucket"),
            ("file:///srv/x", "write '/srv/x'"),
            (r"C:\Users", "/mnt/c"),
            ("-oProxyCommand=x:y", "start with '-'"),
            ("me@-x:y", "start with '-'"),
            ("@host:x", "no user before the '@'"),
            ("me@work@-x:y", "start with '-'"),
            ("me@:y", "no host"),
            ("me@work@:y", "no host"),
        ] {
            let refusal = place(word).unwrap_err().to_string();
            let shown = password::without_passwords(&refusal);
            assert!(shown.contains(why) && !shown.contains("secret"), "{word}: {refusal}");
        }
    }
}
