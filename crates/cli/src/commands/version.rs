//! `deltic sync --version`, `rsync --version` where it is a link to this program: what this build is, for people (`-V`) and for programs (`-VV`).

use deltic_core::{Isa, Strategy};
use serde_json::{Map, json};

use crate::exit::Exit;
use crate::output::{self, Output};

/// Prints the version; as JSON when it is asked for twice.
pub(crate) fn print(times: u8) -> Exit {
    print_text(&if times > 1 { for_programs() } else { for_people() })
}

/// Prints an answer to an option that asks for one.
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

/// Scripts look at the first line of rsync to learn what it can do.
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
        if output::stands_in() { AS_RSYNC } else { "" },
        env!("CARGO_PKG_VERSION"),
        protocol(),
        capabilities(),
        isas().join(" "),
        strategies().join(" "),
        env!("CARGO_PKG_LICENSE"),
    )
}

/// What rsync says of itself by these names, and whether it is so here.
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

/// The capabilities as rsync shows them, some in a line.
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
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": protocol(),
        "capabilities": capabilities,
        "instruction_sets": isas(),
        "strategies": strategies(),
        "checksum_list": ["blake3"],
        "compress_list": ["zstd", "none"],
        "license": env!("CARGO_PKG_LICENSE"),
    });
    serde_json::to_string_pretty(&version).expect("a version is text")
}

fn protocol() -> String {
    String::from_utf8_lossy(&deltic_protocol::hello::MAGIC).into_owned()
}

fn isas() -> Vec<String> {
    Isa::available().iter().map(|isa| isa.name().to_owned()).collect()
}

fn strategies() -> Vec<&'static str> {
    Strategy::ALL.iter().map(|strategy| strategy.name).collect()
}
