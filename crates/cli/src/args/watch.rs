//! The options of `deltic watch`.

use std::str::FromStr;
use std::time::Duration;

use super::sync::SyncArgs;

/// Arguments of `deltic watch`: the arguments of `deltic sync`, and options for time.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) sync: SyncArgs,
    /// Sync after SECONDS without changes
    #[arg(long, value_name = "SECONDS", default_value = "1", help_heading = WATCH)]
    pub(crate) delay: Seconds,
    /// Sync at the latest SECONDS after a change
    #[arg(long, value_name = "SECONDS", default_value = "10", help_heading = WATCH)]
    pub(crate) max_delay: Seconds,
    /// Allow deletions that running watches hold back
    #[arg(long, help_heading = WATCH)]
    pub(crate) confirm: bool,
}

const WATCH: &str = "Timing";

/// A duration in seconds, perhaps with a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let seconds: f64 = word.parse().map_err(|_| "not a number of seconds")?;
        let known = (0.0..=MOST_SECONDS).contains(&seconds);
        if known { Ok(Self(Duration::from_secs_f64(seconds))) } else { Err("from 0 to a day") }
    }
}

const MOST_SECONDS: f64 = 24.0 * 3600.0;

pub(super) const EXAMPLES: &str = "\
EXAMPLES:
  deltic watch -a --delete src/ backup:/srv/src/
      keep /srv/src equal to src
  deltic watch -av --delay 0.2 site/ /srv/www/
      list changes; sync a fifth of a second after the last change

EXIT CODES:
  as `deltic sync`; 0 if a signal ends the watch after a successful round";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_up_to_a_day() {
        let seconds = |word: &str| word.parse::<Seconds>().ok().map(|Seconds(time)| time);
        assert_eq!(seconds("0.25"), Some(Duration::from_millis(250)));
        assert_eq!(seconds("0"), Some(Duration::ZERO));
        for word in ["", "-1", "x", "inf", "nan", "1e9"] {
            assert_eq!(seconds(word), None, "{word}");
        }
    }
}
