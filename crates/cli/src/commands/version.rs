//! `deltic sync --version`, or `rsync --version` under the name of rsync: the version and features of this build.
//! `-V` prints text, `-VV` prints JSON.

use std::borrow::Cow;
use std::fmt;

use deltic_core::{Isa, Strategy};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::report::exit::Exit;
use crate::report::output::{self, Output};
use crate::words::ways::OptionBehaviour;

/// Prints the version; as JSON if the option is given twice, with the build if `verbose`.
pub(crate) fn print(times: u8, verbose: bool) -> Exit {
    let build = if verbose { BUILD.lines() } else { String::new() };
    print_text(&if times > 1 { for_programs() } else { for_people() + &build })
}

/// Version, commit, target and profile of a build.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct BuildInfo {
    pub(crate) version: Cow<'static, str>,
    /// The commit, as `git describe` names it; empty if the sources were not a git checkout.
    pub(crate) commit: Cow<'static, str>,
    pub(crate) target: Cow<'static, str>,
    profile: Cow<'static, str>,
}

/// The build of this program.
pub(crate) const BUILD: BuildInfo = BuildInfo {
    version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
    commit: Cow::Borrowed(env!("DELTIC_COMMIT")),
    target: Cow::Borrowed(env!("DELTIC_TARGET")),
    profile: Cow::Borrowed(env!("DELTIC_PROFILE")),
};

impl BuildInfo {
    fn lines(&self) -> String {
        let Self { commit, target, profile, .. } = self;
        let commit = if commit.is_empty() { "unknown" } else { commit };
        format!("\nBuild:\n    commit {commit}\n    target {target}\n    profile {profile}")
    }
}

impl fmt::Display for BuildInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commit = if self.commit.is_empty() { "no commit" } else { &self.commit };
        write!(f, "deltic {} ({commit}, {})", self.version, self.target)
    }
}

/// Prints the answer to an option such as `--version`.
pub(crate) fn print_text(text: &str) -> Exit {
    let mut output = Output::stdout();
    output.line(text.trim_end());
    match output.finish() {
        Ok(()) => Exit::Success,
        Err(error) => {
            output::complain_unwritten(&error);
            Exit::Files
        }
    }
}

/// The first lines of `--version` under the name of rsync. Scripts read the first line to learn rsync's features.
const AS_RSYNC: &str = "rsync  version 3.5.0  protocol version 32\n\
    which this is not: it takes the words of that rsync, and speaks a protocol of its own, as\n";

fn for_people() -> String {
    format!(
        "{}deltic  version {}  protocol {}\n\
         Capabilities:\n    \
         64-bit files, 64-bit timestamps, {},\n    \
         devices, owners, nanosecond times, sparse files, resumed transfers, moved files,\n    \
         several streams\n\
         Instruction sets of this machine:\n    {}\n\
         Strategies:\n    {}\n\
         Checksum list:\n    blake3 (proof of every file)\n\
         Compress list:\n    zstd none\n\
         \n\
         deltic comes with ABSOLUTELY NO WARRANTY. It is free software: {}.",
        if output::behaves_like_rsync() { AS_RSYNC } else { "" },
        env!("CARGO_PKG_VERSION"),
        protocol(),
        capabilities(),
        isas().join(" "),
        strategies().join(" "),
        env!("CARGO_PKG_LICENSE"),
    )
}

/// Capabilities by rsync's names, and whether Deltic has them.
const CAPABILITIES: [(&str, bool); 17] = [
    ("symlinks", true),
    ("symtimes", true),
    ("hardlinks", true),
    ("hardlink_specials", true),
    ("hardlink_symlinks", true),
    ("IPv6", true),
    ("atimes", true),
    ("batchfiles", true),
    ("inplace", true),
    ("append", true),
    ("ACLs", true),
    ("xattrs", true),
    ("secluded_args", true),
    ("prealloc", true),
    ("stop_at", true),
    ("iconv", false),
    ("crtimes", false),
];

/// Returns the capabilities as rsync shows them, six a line.
fn capabilities() -> String {
    let shown = CAPABILITIES
        .map(|(name, has)| format!("{}{}", if has { "" } else { "no " }, name.replace('_', "-")));
    shown.chunks(6).map(|line| line.join(", ")).collect::<Vec<_>>().join(",\n    ")
}

fn for_programs() -> String {
    let mut capabilities: Map<_, _> =
        CAPABILITIES.map(|(name, has)| (name.to_owned(), has.into())).into_iter().collect();
    for size in ["file_bits", "timestamp_bits"] {
        capabilities.insert(size.into(), 64.into());
    }
    let version = json!({
        "program": "deltic",
        "version": BUILD.version,
        "commit": BUILD.commit,
        "target": BUILD.target,
        "profile": BUILD.profile,
        "protocol": protocol(),
        "capabilities": capabilities,
        "instruction_sets": isas(),
        "strategies": strategies(),
        "checksum_list": OptionBehaviour::here().checksums(),
        "compress_list": ["zstd", "none"],
        "license": env!("CARGO_PKG_LICENSE"),
    });
    serde_json::to_string_pretty(&version).expect("a version is text")
}

pub(super) fn protocol() -> String {
    String::from_utf8_lossy(&deltic_protocol::hello::MAGIC).into_owned()
}

fn isas() -> Vec<String> {
    Isa::available().iter().map(|isa| isa.name().to_owned()).collect()
}

fn strategies() -> Vec<&'static str> {
    Strategy::ALL.iter().map(|strategy| strategy.name).collect()
}
