//! Requests of the page: transfers of one file, as JSON.

use deltic_core::keyed::KEY_BYTES;
use deltic_core::strategy::UnknownStrategy;
use deltic_core::{Key, Strategy};
use deltic_engine::pack::HAS_ZSTD;
use deltic_protocol::options::{Options, Select};
use deltic_protocol::{Hello, PeerError};
use deltic_tree::path::BadPath;
use deltic_tree::{Kind, Meta, Name, RelPath, Timestamp};
use serde::Deserialize;

/// Longest frame that this end accepts, in bytes. Bounds the memory of a tab.
const FRAME_BYTES: usize = 256 << 10;
/// Mode of a new file. A browser does not tell the modes of the user's files.
pub(crate) const MODE: u32 = 0o644;

/// A request to push a file of the user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Push {
    /// The volume of the server.
    pub volume: String,
    /// Path of the file in the volume.
    pub path: String,
    /// The file to read.
    #[serde(flatten)]
    pub new: OldFile,
    /// True if the file is read only after the server has requested the content, which the server then does even for an
    /// equal length and time.
    #[serde(default)]
    pub on_request: bool,
    /// Entity tag of the version that the push may replace, without quotes; empty if the push may only create the file.
    /// Equal lengths and times then do not count as equal content. `None` if the push may replace all versions.
    #[serde(default)]
    pub replaces: Option<String>,
    /// Name of the strategy, as in `deltic sync --strategy`. `None` is Deltic's own.
    #[serde(default)]
    pub strategy: Option<String>,
    /// Random bytes for the session, as 64 hexadecimal digits.
    pub random: String,
}

/// A request to append to a file of the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Append {
    /// The volume of the server.
    pub volume: String,
    /// Path of the file in the volume.
    pub path: String,
    /// The file to read.
    #[serde(flatten)]
    pub new: OldFile,
    /// Length of the server's version, which is the beginning of the file.
    pub begins: u64,
}

/// A request to pull a file of the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pull {
    /// The volume of the server.
    pub volume: String,
    /// Path of the file in the volume.
    pub path: String,
    /// The version that the user has, if any.
    #[serde(default)]
    pub old: Option<OldFile>,
    /// Number of an empty file of the host, which gets the new version.
    pub staged: u32,
    /// Name of an old version of the server's file, which is pulled in place of the present version.
    #[serde(default)]
    pub version: Option<String>,
    /// Name of the strategy, as in `deltic sync --strategy`. `None` is Deltic's own.
    #[serde(default)]
    pub strategy: Option<String>,
    /// Random bytes for the session, as 64 hexadecimal digits.
    pub random: String,
}

/// A file of the user, as the page sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct OldFile {
    /// Number of the file at the host.
    pub file: u32,
    /// Length in bytes.
    pub len: u64,
    /// Modification time, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// Error of a request that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request cannot be parsed.
    #[error(transparent)]
    Garbled(#[from] serde_json::Error),
    /// The path cannot be the path of a file in a volume.
    #[error("{path}: {why}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        why: BadPath,
    },
    /// The request does not fit a frame.
    #[error("{0}")]
    Peer(#[from] PeerError),
    /// The random bytes are missing or too few.
    #[error("a session needs {KEY_BYTES} random bytes")]
    Random,
    /// No strategy has this name.
    #[error(transparent)]
    Strategy(#[from] UnknownStrategy),
    /// The file changed, is too long for an append, or is shorter than the server's version.
    #[error("the file changed while it was read, or the new bytes are too many for one message")]
    NoAppend,
    /// The connection has ended.
    #[error("the connection has ended")]
    Ended,
    /// The server knows neither conditions nor old versions.
    #[error("this server is too old for a transfer that names a version")]
    OlderServer,
}

impl OldFile {
    /// Returns the metadata of the file.
    pub(crate) fn meta(&self) -> Meta {
        Meta::without_owner(Kind::File, self.len, time(self.modified_ms), MODE)
    }
}

/// Converts milliseconds since 1970.
pub(crate) fn time(ms: i64) -> Timestamp {
    Timestamp { secs: ms.div_euclid(1000), nanos: ms.rem_euclid(1000) as u32 * 1_000_000 }
}

/// Converts a time to milliseconds since 1970, rounded down.
pub(crate) fn milliseconds(time: Timestamp) -> i64 {
    time.secs.saturating_mul(1000).saturating_add(i64::from(time.nanos / 1_000_000))
}

/// Splits the path of a file in a volume into the directory, with a slash at the end, and the name.
pub(crate) fn place(path: &str) -> Result<(Box<[u8]>, Name), RequestError> {
    let bad = |why| RequestError::Path { path: path.into(), why };
    let parsed = RelPath::parse(path.as_bytes()).map_err(bad)?;
    let (dir, name) = parsed.split_last().ok_or_else(|| bad(BadPath::Empty))?;
    let dir = if dir.is_root() { b"/"[..].into() } else { [dir.as_bytes(), b"/"].concat().into() };
    Ok((dir, name))
}

/// Returns the hello of a page for one file by `strategy`, with these random bytes, as hexadecimal digits.
pub(crate) fn hello(random: &str, strategy: &Strategy) -> Result<Hello, RequestError> {
    let mut bytes = [0; KEY_BYTES];
    let digits = random.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return Err(RequestError::Random);
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| RequestError::Random)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| RequestError::Random)?;
    }
    let ours = Hello::of_this_version(Key::from_bytes(bytes)).with_frame_limit(FRAME_BYTES);
    let ours = ours.for_one_file(strategy);
    Ok(if HAS_ZSTD { ours } else { ours.without_zstd() })
}

/// Returns the options of a page's transfers by the strategy of this name: times are kept, missing directories are made.
pub(crate) fn options(strategy: Option<&str>) -> Result<Options, RequestError> {
    let strategy = strategy.map_or(Ok(Strategy::DELTIC), Strategy::by_name)?;
    let select = Select { mkpath: true, ..Select::default() };
    Ok(Options { times: true, durable: true, strategy, select, ..Options::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_and_those_that_leave_the_volume_are_refused() {
        let (dir, name) = place("2026/june/a.img").unwrap();
        assert_eq!((&*dir, name.as_bytes()), (&b"2026/june/"[..], &b"a.img"[..]));
        assert_eq!(&*place("a.img").unwrap().0, b"/");
        for bad in ["", "../a", "/a", "a/../../b"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_before_1970_keep_their_milliseconds() {
        for ms in [0, 1, 1_700_000_000_123, -1, -1_500] {
            assert_eq!(milliseconds(time(ms)), ms);
        }
        assert_eq!(time(-1), Timestamp { secs: -1, nanos: 999_000_000 });
    }

    #[test]
    fn a_strategy_is_known_by_its_name_or_refused() {
        assert_eq!(options(None).unwrap().strategy, Strategy::DELTIC);
        for strategy in Strategy::ALL {
            assert_eq!(options(Some(strategy.name)).unwrap().strategy, strategy);
        }
        assert!(matches!(options(Some("sync")), Err(RequestError::Strategy(_))));
    }

    #[test]
    fn a_hello_names_what_one_file_needs_and_is_short() {
        for strategy in Strategy::ALL {
            let ours = hello(&"0f".repeat(32), &strategy).unwrap();
            let server = Hello::of_this_version(Key::from_bytes([1; KEY_BYTES]));
            let terms = deltic_protocol::negotiate(&ours, &server).unwrap();
            terms.check_support(&strategy, deltic_protocol::options::Delete::Never).unwrap();
            assert!(ours.encode().len() < 260, "{}: {:?}", strategy.name, ours.capabilities);
        }
    }

    #[test]
    fn a_hello_needs_random_bytes() {
        assert!(hello(&"0f".repeat(32), &Strategy::DELTIC).is_ok());
        for bad in [String::new(), "0f".repeat(31), "zz".repeat(32), "é".repeat(32)] {
            assert!(matches!(hello(&bad, &Strategy::DELTIC), Err(RequestError::Random)), "{bad}");
        }
    }
}
