//! `deltic install`: copies this program to another machine.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use deltic_net::plan::{Remote, remote_host};

use super::far::RemoteProgram;
use crate::args::far::InstallArgs;
use crate::plan::{IfMissing, SyncRequest};
use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::report::{hint, question};
use crate::words::shell::quoted;

/// Copies the program, and prints its path there.
pub(crate) fn run(args: &InstallArgs) -> Exit {
    let program = match LinuxProgram::read(args.binary.as_deref()) {
        Ok(program) => program,
        Err(error) => {
            output::complain(&output::words(&error), None);
            return Exit::Selection;
        }
    };
    let InstallArgs { host, to, rsh, .. } = args;
    let remote = Remote::with_shell(rsh.0.clone());
    match (InstallPlace { remote: &remote, host, to: to.as_deref() }).install(&program) {
        Ok(lines) => {
            let mut output = Output::stdout();
            lines.iter().for_each(|line| output.line(line));
            output.finish().map_or(Exit::Files, |()| Exit::Success)
        }
        Err(InstallError { exit, what, mend }) => {
            output::complain(&what, mend.as_deref());
            exit
        }
    }
}

/// Installs this program on the other machine of a run, if the user has asked for that or agrees at the terminal.
/// Returns true if the run can go on with the program there. Prints the reason if the program was not installed.
pub(super) fn offer(request: &mut SyncRequest) -> bool {
    let SyncRequest { plan, if_missing, .. } = request;
    let Some(host) = remote_host(&plan.sources, &plan.destination) else { return false };
    let agrees = match if_missing {
        IfMissing::Fail => false,
        IfMissing::Install => true,
        IfMissing::Ask => question::asks_to_install(host),
    };
    // One attempt is enough.
    *if_missing = IfMissing::Fail;
    if !agrees {
        return false;
    }
    let place = InstallPlace { remote: &plan.remote, host, to: None };
    let installed = LinuxProgram::read(None)
        .map_err(|error| InstallError {
            exit: Exit::Selection,
            what: output::words(&error),
            mend: None,
        })
        .and_then(|program| place.install(&program));
    match installed {
        Ok(lines) => {
            output::note(&format!("deltic: installed {}\n", lines[0]));
            plan.remote.program = Remote::INSTALLED.into();
            true
        }
        Err(InstallError { what, mend, .. }) => {
            output::complain(&what, mend.as_deref());
            false
        }
    }
}

/// The reason why nothing was installed.
struct InstallError {
    exit: Exit,
    what: String,
    mend: Option<String>,
}

/// An executable for Linux.
struct LinuxProgram {
    bytes: Vec<u8>,
    /// The architecture as `uname -m` names it.
    machine: &'static str,
}

impl LinuxProgram {
    fn read(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or_else(|| Path::new("/proc/self/exe"));
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let Some(machine) = machine(&bytes) else {
            bail!("{}: no program for x86-64 or aarch64", path.display());
        };
        Ok(Self { bytes, machine })
    }
}

/// Returns the architecture of an ELF file, if `make static` builds for that architecture.
fn machine(bytes: &[u8]) -> Option<&'static str> {
    let is_elf = bytes.starts_with(b"\x7fELF\x02\x01");
    let machine = bytes.get(18..20).filter(|_| is_elf)?;
    match u16::from_le_bytes([machine[0], machine[1]]) {
        62 => Some("x86_64"),
        183 => Some("aarch64"),
        _ => None,
    }
}

/// The place of the program on another machine.
#[derive(Clone, Copy)]
struct InstallPlace<'a> {
    /// The way to a shell there.
    remote: &'a Remote,
    host: &'a str,
    /// The path there; `None` for the default.
    to: Option<&'a OsStr>,
}

impl InstallPlace<'_> {
    /// Sends the program to a shell on the host. Returns the lines to print.
    fn install(self, program: &LinuxProgram) -> Result<Vec<String>, InstallError> {
        let Self { remote, host, to } = self;
        let mut far =
            RemoteProgram::start(remote, host, &["sh".into()]).map_err(|error| InstallError {
                exit: Exit::from(&error),
                what: error.to_string(),
                mend: hint::of(
                    &error,
                    &hint::RemoteMachine::reached_by(remote, host),
                    hint::NextRun::Same,
                ),
            })?;
        let broken = |exit: Exit| InstallError {
            exit,
            what: match exit {
                Exit::Timeout => format!("{host}: no data for five minutes; gave up"),
                _ => format!("{host}: the remote shell ended early; nothing was installed"),
            },
            // Other failures have already explained themselves.
            mend: matches!(exit, Exit::Timeout | Exit::RemoteShell).then(|| {
                format!("does it connect? try `{} {host} true`", shell_line(&remote.shell))
            }),
        };
        // A shell that does not read may still have printed a reason.
        far.say(&script(to, program)).ok();
        match far.line().as_deref().map(|line| line.split_once(' ').unwrap_or((line, ""))) {
            Some(("ready", _)) => {}
            Some(("machine", there)) => {
                far.finish().ok();
                return Err(wrong_architecture(host, program, there));
            }
            Some(("failed", what)) => {
                far.finish().ok();
                return Err(host_error(host, what));
            }
            Some((first, _)) => {
                let what = format!("{host}: the remote shell printed '{first}' before the answer");
                let mend = Some("start-up files of the shell there may print nothing".into());
                return Err(InstallError { exit: Exit::Incompatible, what, mend });
            }
            None => return Err(broken(far.finish().err().unwrap_or(Exit::Stream))),
        }
        let sent = far.say(&program.bytes);
        let mut lines = Vec::new();
        while let Some(line) = far.line() {
            lines.push(line);
        }
        let why = lines.first().and_then(|line| line.strip_prefix("failed "));
        match (sent, far.finish()) {
            (Ok(()), Ok(())) if lines.len() >= 2 => report_lines(host, &lines),
            (_, Ok(())) if why.is_some() => Err(host_error(host, why.unwrap_or_default())),
            (_, ended) => Err(broken(ended.err().unwrap_or(Exit::Stream))),
        }
    }
}

/// Returns the failure with the reason from the shell on the host.
fn host_error(host: &str, what: &str) -> InstallError {
    InstallError { exit: Exit::Files, what: format!("{host}: {what}"), mend: None }
}

/// Returns the lines to print, from the last lines of the shell on the host.
fn report_lines(host: &str, lines: &[String]) -> Result<Vec<String>, InstallError> {
    let of = |name: &str| {
        lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default()
    };
    if lines[0] == "broken" {
        return Err(InstallError {
            exit: Exit::Unsupported,
            what: format!(
                "the copied program does not run on {host}: {}; nothing was installed",
                of("why")
            ),
            mend: Some(
                "build one that runs anywhere: `make static`, then `deltic install --binary FILE`"
                    .into(),
            ),
        });
    }
    if lines[0] == "another" {
        return Err(InstallError {
            exit: Exit::Selection,
            what: format!(
                "{host}: the copied program is not deltic: its `--version` prints '{}'; nothing was installed",
                of("it")
            ),
            mend: None,
        });
    }
    let path = of("installed");
    let mut told = vec![format!("{host}:{path}: {}", of("version"))];
    match of("found") {
        found if found == path => {}
        "" if path.ends_with(Remote::INSTALLED) => {
            told.push("`deltic sync` finds the program there".to_owned());
        }
        "" => told.push(format!(
            "{path} is not in the PATH of the shell on {host}: use `--deltic-path {path}`, or `deltic-path` in the \
             settings"
        )),
        found => told.push(format!(
            "the shell on {host} finds another deltic, {found}: use `--deltic-path {path}`"
        )),
    }
    Ok(told)
}

fn wrong_architecture(host: &str, program: &LinuxProgram, there: &str) -> InstallError {
    let machine = there.strip_prefix("Linux ").unwrap_or("none");
    let mend = match machine {
        "x86_64" | "aarch64" => format!(
            "`make static` builds deltic for {machine}; then run `deltic install --binary \
             target/{machine}-unknown-linux-musl/release/deltic {host}`"
        ),
        _ => format!("build deltic from source on {host}"),
    };
    InstallError {
        exit: Exit::Unsupported,
        what: format!("{host} is {there}, and the program is for Linux {}", program.machine),
        mend: Some(mend),
    }
}

/// Returns the shell script that installs the program. The script is one compound command: the shell reads the whole
/// command before running anything, and the program's bytes follow.
///
/// Our paths are quoted. The script goes over standard input, because only some remote shells split the words of a
/// command.
fn script(to: Option<&OsStr>, program: &LinuxProgram) -> Vec<u8> {
    // The shell does not expand a quoted `~`.
    let below_home = |path: &[u8]| [b"\"$HOME\"/", &quoted(OsStr::from_bytes(path))[..]].concat();
    let to = match to.map(OsStrExt::as_bytes) {
        None => below_home(Remote::INSTALLED.as_bytes()),
        Some(b"~") => below_home(b""),
        Some(path) => match path.strip_prefix(b"~/") {
            Some(rest) => below_home(rest),
            None => quoted(OsStr::from_bytes(path)),
        },
    };
    let (machine, len) = (program.machine, program.bytes.len());
    let rest = format!(
        r#"
there=$(uname -sm)
[ "$there" = 'Linux {machine}' ] || {{ echo "machine $there"; exit 0; }}
umask 022
case $to in */) mkdir -p -- "$to" || {{ echo "failed cannot make $to"; exit 0; }};; esac
[ ! -d "$to" ] || to=${{to%/}}/deltic
[ ! -d "$to" ] || {{ echo "failed cannot put it at $to, a directory"; exit 0; }}
dir=$(dirname -- "$to")
mkdir -p -- "$dir" || {{ echo "failed cannot make $dir"; exit 0; }}
new=$dir/.deltic.new.$$
(set -C; : >"$new") || {{ echo "failed cannot write to $dir"; exit 0; }}
trap 'rm -f -- "$new"' EXIT
echo ready
head -c {len} >"$new" && [ $(wc -c <"$new") -eq {len} ] && chmod 755 "$new" || {{ echo "failed cannot write to $dir"; exit 0; }}
case $new in /*) run=$new;; *) run=./$new;; esac
version=$("$run" --version 2>&1) || {{ echo broken; echo "why $version"; exit 0; }}
case $version in 'deltic '*) ;; *) echo another; echo "it $version"; exit 0;; esac
mv -f -- "$new" "$to" || {{ echo "failed cannot put it at $to"; exit 0; }}
echo "installed $to"
echo "version $version"
echo "found $(command -v deltic)"
exit 0
}}
"#
    );
    [b"{ to=", &to[..], rest.as_bytes()].concat()
}

fn shell_line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_which_machine_it_is_for() {
        let header =
            |machine: u16| [b"\x7fELF\x02\x01\x01", &[0; 11][..], &machine.to_le_bytes()].concat();
        assert_eq!(machine(&header(62)), Some("x86_64"));
        assert_eq!(machine(&header(183)), Some("aarch64"));
        assert_eq!(machine(&header(8)), None);
        assert_eq!(machine(b"#!/bin/sh"), None);
        assert_eq!(machine(b""), None);
    }
}
