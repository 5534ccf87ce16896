//! Options for the connection to the other machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use clap::{ArgAction, ValueEnum, value_parser};
use deltic_net::plan::SessionTimeouts;
use deltic_protocol::limits::MAX_LEVEL;

use crate::words::age::Age;
use crate::words::rate::Bandwidth;
use crate::words::refused::Unsupported;
use crate::words::ways::RSYNCS_CHECKSUMS;
use crate::words::zone::Zone;

use super::headings::TRAVEL;

/// Options for compression.
#[derive(Debug, clap::Args)]
pub(crate) struct CompressionArgs {
    /// Compress data during the transfer (zstd)
    ///
    /// Over a network, data is compressed without this option too, wherever that saves time.
    #[arg(short = 'z', long, help_heading = TRAVEL)]
    pub(crate) compress: bool,
    /// Compress nothing
    #[arg(long, hide = true, overrides_with = "compress")]
    no_compress: bool,
    /// Choose zstd or none; other names mean zstd (implies -z)
    #[arg(long, value_name = "NAME", visible_alias = "zc", help_heading = TRAVEL)]
    pub(crate) compress_choice: Option<CompressChoice>,
    /// Compress all data at level N, 1 to 22 (implies -z)
    #[arg(long, value_name = "N", visible_alias = "zl")]
    #[arg(help_heading = TRAVEL)]
    pub(crate) compress_level: Option<i32>,
    /// Accepted: incompressible data is sent uncompressed
    #[arg(long, value_name = "LIST", help_heading = TRAVEL)]
    pub(crate) skip_compress: Option<OsString>,
    /// Accepted: --threads sets the number of threads
    #[arg(long, value_name = "N", visible_alias = "zt", help_heading = TRAVEL)]
    pub(crate) compress_threads: Option<u32>,
}

/// Options for the connection and the transfer.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) compression: CompressionArgs,
    /// Limit bytes a second: 500K, 1.5M, 2GB, auto; 0: none
    ///
    /// A number without a unit is in KiB. auto leaves room for other traffic: the round trip stays below twice that of
    /// an idle network. A timetable changes the rate: '08:00,512K 18:00,10M Sat-00:00,off'.
    #[arg(long, value_name = "RATE", help_heading = TRAVEL)]
    pub(crate) bwlimit: Option<Bandwidth>,
    /// Set the I/O timeout in seconds; 0: no timeout
    #[arg(long, value_name = "SECONDS", default_value_t = 0, help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(..=MAX_SECONDS))]
    pub(crate) timeout: u32,
    /// Set the connection timeout in seconds; 0: no timeout
    ///
    /// The default is 60 if the remote shell cannot ask for a password and --timeout is not set, else 0.
    #[arg(long, value_name = "SECONDS", help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(..=MAX_SECONDS))]
    pub(crate) contimeout: Option<u32>,
    /// Connect again until TIME passes without progress
    ///
    /// A number of seconds, or with a unit: 90s, 10m, 12h; `forever` for no limit. Runs with a batch or with --append
    /// do not connect again.
    #[arg(long, value_name = "TIME", default_value = "1m", help_heading = TRAVEL)]
    #[arg(overrides_with = "no_retry")]
    pub(crate) retry_for: Age,
    /// Do not connect again after a lost connection
    #[arg(long, overrides_with = "retry_for", help_heading = TRAVEL)]
    pub(crate) no_retry: bool,
    /// Stop after MINUTES; the next run resumes
    #[arg(long, value_name = "MINUTES", visible_alias = "time-limit", help_heading = TRAVEL)]
    #[arg(value_parser = minutes)]
    pub(crate) stop_after: Option<u32>,
    /// Stop at [[year-]month-]dayThour:minute, local time
    ///
    /// The date or the time alone is enough.
    #[arg(long, value_name = "TIME", conflicts_with = "stop_after", help_heading = TRAVEL)]
    pub(crate) stop_at: Option<String>,
    /// Pass OPTION to the other end only
    ///
    /// Supported: --bwlimit, --fake-super, --munge-links, --super, --no-super.
    #[arg(short = 'M', long, value_name = "OPTION")]
    #[arg(action = ArgAction::Append, help_heading = TRAVEL)]
    pub(crate) remote_option: Vec<OsString>,
    /// Use IPv4 only (ssh)
    #[arg(short = '4', long, conflicts_with = "ipv6", help_heading = TRAVEL)]
    pub(crate) ipv4: bool,
    /// Use IPv6 only (ssh)
    #[arg(short = '6', long, help_heading = TRAVEL)]
    pub(crate) ipv6: bool,
}

/// Longest timeout: a year in seconds.
const MAX_SECONDS: i64 = 365 * 24 * 3600;

/// Longest wait in seconds for the other machine's first answer, if no user types a password. A slow machine may take
/// this long to wake up and to accept the login.
const UNASKED_SECONDS: u32 = 60;

/// rsync's names of compression algorithms. All names but `none` mean zstd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressChoice {
    Auto,
    Zstd,
    Lz4,
    Zlibx,
    Zlib,
    None,
}

impl CompressionArgs {
    /// Returns the request for compression: the options of the sync with the same names.
    pub(crate) fn requested(&self) -> (bool, u32) {
        let level = self.compress_level.unwrap_or(0);
        let is_refused = match self.compress_choice {
            Some(choice) => choice == CompressChoice::None,
            None => self.no_compress || self.compress_level == Some(0) && !self.compress,
        };
        if is_refused {
            return (false, 1);
        }
        let packs = self.compress || self.compress_choice.is_some() || level != 0;
        // The nearest valid level counts, as in rsync.
        let level = if level == 0 { 0 } else { level.clamp(1, MAX_LEVEL as i32).unsigned_abs() };
        (packs, level)
    }
}

impl ConnectionArgs {
    /// Returns the limits of time; `asks` is true if a remote shell can ask the user for a password.
    ///
    /// # Errors
    /// If `--stop-at` is no time in the future.
    pub(crate) fn timeouts(&self, asks: bool) -> Result<SessionTimeouts> {
        let seconds = |n: u32| (n > 0).then(|| Duration::from_secs(n.into()));
        let unasked = if asks || self.timeout > 0 { 0 } else { UNASKED_SECONDS };
        let minutes = self.stop_after.map(|n| Duration::from_secs(u64::from(n) * 60));
        Ok(SessionTimeouts {
            silence: seconds(self.timeout),
            answer: seconds(self.contimeout.unwrap_or(unasked)),
            whole: match &self.stop_at {
                Some(word) => Some(until(word)?),
                None => minutes,
            },
        })
    }

    /// Returns the limits of further attempts after a lost connection; `can_ask` is true if ssh may ask the user again.
    pub(crate) fn retry(&self, can_ask: bool) -> RetryLimits {
        let longest = match self.no_retry {
            true => Some(Duration::ZERO),
            false => self.retry_for.0.map(Duration::from_secs),
        };
        RetryLimits { longest, can_ask }
    }

    /// Returns the command of the remote shell. Adds `-4` or `-6` for ssh.
    pub(crate) fn shell(&self, words: &[OsString]) -> Vec<OsString> {
        let mut words = words.to_vec();
        let version = match (self.ipv4, self.ipv6) {
            (true, _) => Some("-4"),
            (_, true) => Some("-6"),
            _ => None,
        };
        // Directly behind the program: later arguments may be placeholders for the host and the command.
        if let Some(version) = version.filter(|_| is_ssh(&words)) {
            words.insert(1, version.into());
        }
        words
    }
}

/// True if the remote shell is ssh.
fn is_ssh(words: &[OsString]) -> bool {
    words.first().is_some_and(|program| program.as_encoded_bytes().ends_with(b"ssh"))
}

/// Limits of further attempts after a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryLimits {
    /// Longest time without progress; zero for no further attempt, `None` for no limit.
    pub(crate) longest: Option<Duration>,
    /// True if ssh may ask the user for a password again.
    can_ask: bool,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self { longest: Some(Duration::from_secs(60)), can_ask: false }
    }
}

impl RetryLimits {
    /// Lets ssh fail without a question, if nobody would answer.
    pub(crate) fn ask_nothing(self, shell: &mut Vec<OsString>) {
        let is_told = || shell.get(2).is_some_and(|word| *word == *BATCH_MODE);
        if !self.can_ask && is_ssh(shell) && !is_told() {
            // Directly behind the program, as `-4`.
            shell.splice(1..1, ["-o".into(), BATCH_MODE.into()]);
        }
    }
}

/// ssh's setting for no questions.
const BATCH_MODE: &str = "BatchMode=yes";

/// Parses whole minutes; as in rsync, a fraction is ignored.
fn minutes(word: &str) -> Result<u32, String> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let minutes = whole.parse().ok().filter(|minutes| is_number && *minutes > 0);
    minutes.ok_or_else(|| "not a whole number of minutes above 0".into())
}

/// Returns the time until the local time `word`.
fn until(word: &str) -> Result<Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = now.as_secs() as i64;
    let Some(at) = Zone::here().next(word, now) else {
        bail!(
            "--stop-at={word}: not a time; write 2030-12-31T23:59, or a part such as 23:59 or 12-31"
        )
    };
    if at <= now {
        bail!("--stop-at={word}: not in the future");
    }
    Ok(Duration::from_secs((at - now) as u64))
}

/// Options for batch files.
#[derive(Debug, clap::Args)]
pub(crate) struct BatchArgs {
    /// Also record the run in FILE; FILE.sh applies the batch
    ///
    /// A batch fits destinations that are equal to DEST before the run.
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    write_batch: Option<OsString>,
    /// Record the run in FILE, without changing DEST
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    only_write_batch: Option<OsString>,
    /// Apply the run recorded in FILE; - is standard input
    #[arg(long, value_name = "FILE", help_heading = TRAVEL)]
    read_batch: Option<OsString>,
}

/// Use of a batch file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchUse {
    Write(PathBuf),
    OnlyWrite(PathBuf),
    Read(PathBuf),
}

impl BatchArgs {
    /// True if this run leaves the destination unchanged.
    pub(crate) const fn only_writes(&self) -> bool {
        self.only_write_batch.is_some()
    }

    /// Returns the batch file, if any, and its use.
    ///
    /// # Errors
    /// If the options ask for several batch files, or contradict a batch.
    pub(crate) fn batch(&self, removes_sources: bool, compares: bool) -> Result<Option<BatchUse>> {
        let words = [
            ("--write-batch", self.write_batch.clone().map(|path| BatchUse::Write(path.into()))),
            (
                "--only-write-batch",
                self.only_write_batch.clone().map(|path| BatchUse::OnlyWrite(path.into())),
            ),
            ("--read-batch", self.read_batch.clone().map(|path| BatchUse::Read(path.into()))),
        ];
        let mut asked = words.into_iter().filter_map(|(word, batch)| Some((word, batch?)));
        let Some((word, batch)) = asked.next() else { return Ok(None) };
        if let Some((other, _)) = asked.next() {
            bail!("{word} and {other}: a run has one batch file");
        }
        // `--only-write-batch` changes no destination, so the sources stay.
        if removes_sources && !matches!(batch, BatchUse::OnlyWrite(_)) {
            bail!("{word} cannot be used with --remove-source-files: a batch removes no sources");
        }
        if compares && !matches!(batch, BatchUse::Read(_)) {
            bail!(
                "{word} cannot be used with -c, which compares with one destination; -I takes all files"
            );
        }
        Ok(Some(batch))
    }
}

/// Options for checksums.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SumArgs {
    /// Choose checksums: auto, blake3, none
    ///
    /// blake3 uses no faster checksum; none sends whole files; rsync's names mean auto. Two names, separated by a
    /// comma, choose the checksums of transfers and of -c.
    #[arg(long, value_name = "NAMES", visible_alias = "cc", help_heading = TRAVEL)]
    checksum_choice: Option<String>,
}

/// The chosen checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChecksumChoice {
    /// True if chunks are named by BLAKE3.
    pub(crate) by_blake3: bool,
    /// True if files are sent whole.
    pub(crate) whole: bool,
}

impl SumArgs {
    /// Returns the chosen checksums; `compares` is true with `-c`.
    ///
    /// # Errors
    /// [`Unsupported`] for other checksums, or for none with `-c`.
    pub(crate) fn sums(&self, compares: bool) -> Result<ChecksumChoice> {
        let Some(word) = &self.checksum_choice else { return Ok(ChecksumChoice::default()) };
        let (transfer, before) = word.split_once(',').unwrap_or((word, word));
        for name in [transfer, before] {
            match name {
                "auto" | "blake3" | "none" | "xxhash" => {}
                // rsync's faster checksums: BLAKE3 proves more.
                _ if RSYNCS_CHECKSUMS.contains(&name) => {}
                _ => {
                    let what = format!("checksum {name}");
                    bail!(Unsupported::new(what, "use auto, blake3 or none"))
                }
            }
        }
        if before == "none" && compares {
            let what = "checksum none with --checksum".into();
            bail!(Unsupported::new(what, "--checksum needs a checksum; leave out `none`"));
        }
        let by_blake3 = [transfer, before].contains(&"blake3");
        Ok(ChecksumChoice { by_blake3, whole: transfer == "none" })
    }

    /// Returns the name of rsync's checksum for transfers, if one is chosen.
    pub(crate) fn rsyncs(&self) -> Option<&str> {
        let name = self.checksum_choice.as_deref()?.split(',').next()?;
        RSYNCS_CHECKSUMS.contains(&name).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        travel: ConnectionArgs,
    }

    #[test]
    fn nobody_is_asked_again_where_nobody_answers() {
        let limits = |words: &str, can_ask| {
            let words = ["x"].into_iter().chain(words.split_whitespace());
            Words::parse_from(words).travel.retry(can_ask)
        };
        assert_eq!(limits("", false), RetryLimits::default());
        for (words, secs) in [
            ("--retry-for=10m", Some(600)),
            ("--no-retry", Some(0)),
            ("--no-retry --retry-for=forever", None),
            ("--retry-for=2h --no-retry", Some(0)),
        ] {
            assert_eq!(limits(words, false).longest, secs.map(Duration::from_secs), "{words}");
        }
        for (shell, can_ask, wanted) in [
            ("ssh -p 2", false, "ssh -o BatchMode=yes -p 2"),
            ("ssh -p 2", true, "ssh -p 2"),
            ("docker exec", false, "docker exec"),
        ] {
            let mut shell: Vec<_> = shell.split(' ').map(OsString::from).collect();
            (0..2).for_each(|_| limits("", can_ask).ask_nothing(&mut shell));
            assert_eq!(shell.join(&OsString::from(" ")), wanted);
        }
    }

    #[test]
    fn where_nobody_types_a_password_the_first_word_is_waited_for_a_minute() {
        let answer = |words: &str, asks| {
            let words = ["x"].into_iter().chain(words.split_whitespace());
            let travel = Words::parse_from(words).travel;
            travel.timeouts(asks).unwrap().answer.map(|wait| wait.as_secs())
        };
        assert_eq!((answer("", true), answer("", false)), (None, Some(60)));
        for asks in [true, false] {
            assert_eq!(answer("--contimeout 5", asks), Some(5));
            assert_eq!(answer("--contimeout 300", asks), Some(300));
            assert_eq!(answer("--contimeout 0", asks), None);
            // With `--timeout`, silence counts from the start.
            assert_eq!(answer("--timeout 120", asks), None);
        }
    }
}
