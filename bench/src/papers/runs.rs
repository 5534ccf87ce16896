//! Runs: measurements that rows of the manifest share.
//!
//! A run is the words of a command line of `deltic-bench sync` or `deltic-bench chunk`. A word `a|b|c` is `a` with
//! `--smoke`, `b` with `--quick`, else `c`. `{NAME}` is a file or directory of `--data`, `{made/NAME}` a made tree.

use std::path::{Path, PathBuf};

/// Size of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    Smoke,
    Quick,
    Full,
}

/// The words of a run of NetSync with chunks of this mean length.
macro_rules! by_block_len {
    ($len:literal) => {
        concat!(
            "--strategy netsync --strong sha1 --zc none --block-size ",
            $len,
            " --size 300kB|10MB|10MB --data text --places netsync --kind inverse \
             --change 2KiB|16KiB,1MiB|2KiB,16KiB,1MiB --threads 1 --link 100Mbit,4ms|10Mbit,30ms|10Mbit,30ms \
             --link 10Gbit,1ms|100Mbit,30ms|100Mbit,30ms --runs 1|1|3"
        )
    };
}

/// The words of a run of these strategies with this compressor.
macro_rules! by_codec {
    ($strategies:literal, $codec:literal) => {
        concat!(
            "--strategy ",
            $strategies,
            " --strong sha1 --zc ",
            $codec,
            " --size 300kB|10MB|10MB --data text --places netsync --kind inverse \
             --change 2KiB|16KiB,1MiB|16KiB,128KiB,1MiB --threads 1 --link 100Mbit,4ms|10Mbit,30ms|10Mbit,30ms \
             --link 10Gbit,1ms|100Mbit,30ms|100Mbit,30ms --runs 1|1|3"
        )
    };
}

/// Runs of whole syncs. All have equal hashes, compressors and threads, except where the name says otherwise.
pub(crate) const SYNC: &[(&str, &str)] = &[
    (
        "parasync",
        "--strategy dsync,pdsync,pdsync-skip,parasync,deltic --strong blake3 --zc none --size 2MB|64MiB|1GiB \
         --kind insert --change 1% --threads 1,2 --runs 1|3|3",
    ),
    (
        "parasync-links",
        "--strategy dsync,pdsync,parasync,deltic --strong blake3 --zc none --size 1MB|64MiB|1GiB --kind insert \
         --change 1% --threads 1|2|2 --link 500Mbit,4ms|500Mbit,50ms|500Mbit,50ms --link 10Gbit,0.4ms --runs 1|3|3",
    ),
    (
        "parasync-release",
        "--strategy dsync,pdsync,parasync,deltic --strong blake3 --zc none --pair {esbuild/0.25.10.tar} \
         {esbuild/0.25.11.tar} --threads 2 --link 500Mbit,50ms --link 10Gbit,0.4ms --runs 1|3|5",
    ),
    (
        "netsync",
        "--strategy netsync,netsync-16,netsync-last,dsync,webr2sync+,deltic --strong sha1 --zc none \
         --size 300kB|10MB|10MB --data text --places netsync --kind inverse|inverse|insert,cut,inverse \
         --change 2KiB|256B,16KiB,1MiB|32B,256B,2KiB,16KiB,128KiB,1MiB --threads 1 \
         --link 100Mbit,4ms|10Mbit,30ms|10Mbit,30ms --link 1Gbit,3ms|100Mbit,30ms|50Mbit,30ms \
         --link 10Gbit,1ms|1Gbit,30ms|100Mbit,30ms --runs 1|1|3",
    ),
    (
        "netsync-8k",
        "--strategy netsync,dsync --strong sha1 --zc none --block-size 8KiB --size 300kB|10MB|10MB --data text \
         --places netsync --kind insert|inverse|insert,inverse --change 2KiB|32B,256B,2KiB,16KiB,128KiB,1MiB|32B,256B,2KiB,16KiB,128KiB,1MiB \
         --threads 1 --link 10Gbit,1ms|100Mbit,30ms|100Mbit,30ms --runs 1",
    ),
    ("netsync-512", by_block_len!("512B")),
    ("netsync-1k", by_block_len!("1KiB")),
    ("netsync-2k", by_block_len!("2KiB")),
    ("netsync-8k-links", by_block_len!("8KiB")),
    ("netsync-codec-own", by_codec!("netsync", "own")),
    ("netsync-codec-none", by_codec!("netsync,dsync,webr2sync+", "none")),
    ("netsync-codec-zstd", by_codec!("netsync,dsync,webr2sync+", "zstd:6")),
    (
        "netsync-release",
        "--strategy netsync,dsync,webr2sync+,deltic --strong sha1 --zc zstd:3 --pair {esbuild/0.25.10.tar} \
         {esbuild/0.25.11.tar} --threads 1 --link 100Mbit,30ms --link 50Mbit,30ms --link 10Mbit,30ms --runs 1|1|3",
    ),
    (
        "netsync-large",
        "--strategy netsync,dsync,webr2sync+,deltic --strong sha1 --zc none --size 1MB|100MB|1GB --places netsync \
         --kind insert --change 4KiB|1MiB|1MiB --threads 1 --link 10Gbit,1ms|1Gbit,30ms|1Gbit,30ms --runs 1",
    ),
    (
        "skysync-10",
        "--strategy rsync,dsync,skysync-f,skysync-c,deltic --strong sha256 --zc none --size 300kB|10MB|10MB \
         --kind insert|insert|insert,cut,inverse --change 0,2KiB|0,256B,16KiB,1MiB|0,256B,2KiB,16KiB,128KiB,1MiB \
         --threads 1 --runs 1|3|3",
    ),
    (
        "skysync-100",
        "--strategy rsync,dsync,skysync-f,skysync-c,deltic --strong sha256 --zc none --size 1MB|100MB|100MB \
         --kind insert|insert|insert,cut,inverse --change 0,2KiB|0,2KiB,128KiB,8MiB|0,2KiB,16KiB,128KiB,1MiB,8MiB \
         --threads 1 --runs 1|1|3",
    ),
    (
        "skysync-links",
        "--strategy rsync,dsync,skysync-f,skysync-c,deltic --strong sha256 --zc none --size 300kB|10MB,100MB|10MB,100MB \
         --kind insert --change 2KiB|2KiB,128KiB|2KiB,16KiB,128KiB,1MiB --threads 1 \
         --link 10Gbit,1ms|500Mbit,35ms|500Mbit,35ms --link 1Gbit,1ms|100Mbit,35ms|100Mbit,35ms --runs 1",
    ),
    (
        "skysync-release",
        "--strategy rsync,dsync,skysync-f,skysync-c,deltic --strong sha256 --zc none --pair {esbuild/0.25.10.tar} \
         {esbuild/0.25.11.tar} --threads 1 --link 500Mbit,35ms --runs 1|3|5",
    ),
    (
        "webr2sync",
        "--strategy rsync,webr2sync,webr2sync+,deltic --zc none --size 300kB|1MB|1MB --change 1kB|1,100,1kB,10kB,100kB|1,10,100,1kB,10kB,100kB \
         --kind insert,cut --threads 1 --link 10Gbit,1ms|100Mbit,30ms|100Mbit,30ms --runs 1|3|5",
    ),
    (
        "webr2sync-equal",
        "--strategy rsync,webr2sync,webr2sync+ --strong md5 --zc none --size 300kB|1MB|1MB --change 1kB|1,100,1kB,10kB,100kB|1,10,100,1kB,10kB,100kB \
         --kind insert --threads 1 --link 10Gbit,1ms|100Mbit,30ms|100Mbit,30ms --runs 1|3|5",
    ),
    (
        "beyond",
        "--strategy all --zc none --size 300kB|10MB|10MB --kind inverse,insert,move --change 4KiB|64KiB|4KiB,64KiB,1MiB \
         --threads 1 --link 10Gbit,1ms|1Gbit,0.4ms|1Gbit,0.4ms --link 1Gbit,1ms|100Mbit,20ms|100Mbit,20ms \
         --link 1Gbit,2ms|10Mbit,30ms|10Mbit,30ms --runs 1|1|3",
    ),
    (
        "beyond-release",
        "--strategy all --zc none --pair {esbuild/0.25.10.tar} {esbuild/0.25.11.tar} --threads 1 --link 1Gbit,0.4ms \
         --link 100Mbit,20ms --link 10Mbit,30ms --runs 1|1|3",
    ),
    (
        "beyond-kept",
        "--strategy skysync-f,skysync-c,deltic --zc none --size 300kB|10MB|10MB --kind inverse,insert,move \
         --change 4KiB|64KiB|4KiB,64KiB,1MiB --threads 1 --link 1Gbit,0.4ms --link 100Mbit,20ms --link 10Mbit,30ms \
         --runs 1|1|3",
    ),
    (
        "beyond-tree",
        "--strategy all --zc none --pair {made/old} {made/new} --threads 1 --link 10Gbit,1ms|1Gbit,0.4ms|1Gbit,0.4ms \
         --link 1Gbit,1ms|100Mbit,20ms|100Mbit,20ms --link 1Gbit,2ms|10Mbit,30ms|10Mbit,30ms --runs 1|1|3",
    ),
];

/// The run of all systems in which the files are on a btrfs that keeps sums.
pub(crate) const KEPT: &str = "beyond-kept";

/// Runs of chunkers.
pub(crate) const CHUNK: &[(&str, &str)] = &[
    (
        "random",
        "--random 1MB|128MiB|1GiB --avg 8KiB --runs 1|3|5 --published \
         --algorithms crc,gear,ram|crc,rabin,tttd,gear,fastcdc,ae-max,ram,sieve|crc,rabin,tttd,gear,fastcdc,ae-max,ram,sieve",
    ),
    (
        "releases",
        "{typescript} --avg 8KiB --runs 1|1|3 --published --limit 64MB|400MB|4GiB \
         --algorithms fixed,crc,rabin,tttd,gear,fastcdc,ae-max,ram,sieve",
    ),
];

/// Runs of all systems on the same work.
pub(crate) const BEYOND: [&str; 3] = ["beyond", "beyond-release", "beyond-tree"];

/// Returns the words of a run.
pub(crate) fn words(name: &str) -> Option<&'static str> {
    SYNC.iter().chain(CHUNK).find(|(run, _)| *run == name).map(|(_, words)| *words)
}

/// Directories of sets.
#[derive(Clone, Copy, Default)]
pub(crate) struct DataSets<'a> {
    /// Directory with releases.
    pub(crate) data: Option<&'a Path>,
    /// Directory with made trees, for `{made/NAME}`.
    pub(crate) made: Option<&'a Path>,
}

impl DataSets<'_> {
    fn path(self, name: &str) -> Option<PathBuf> {
        let path = match name.strip_prefix("made/") {
            Some(name) => self.made?.join(name),
            None => self.data?.join(name),
        };
        path.exists().then_some(path)
    }

    /// Replaces the directories in a text by words that are the same on each machine.
    pub(crate) fn hidden_in(self, text: &str) -> String {
        let dirs = [(self.data, "DIR"), (self.made, "MADE")].into_iter();
        dirs.filter_map(|(dir, word)| Some((dir?, word)))
            .fold(text.into(), |text, (dir, word)| text.replace(&dir.display().to_string(), word))
    }
}

/// Returns the words of a command line. Fails with the name of a missing set.
pub(crate) fn expand(
    words: &str,
    mode: RunMode,
    sets: DataSets<'_>,
) -> Result<Vec<String>, MissingSet> {
    let mut expanded = Vec::new();
    for word in words.split_whitespace() {
        let choice = word.split('|').nth(mode as usize).unwrap_or(word);
        let named = choice.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        let Some(name) = named else {
            expanded.push(choice.to_owned());
            continue;
        };
        let path = sets.path(name).ok_or_else(|| MissingSet(name.into()))?;
        expanded.push(path.display().to_string());
    }
    Ok(expanded)
}

/// Error: a data set is missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingSet(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_chosen_by_the_mode() {
        let expand =
            |mode| expand("--size 1MB|10MB|1GB --threads 1", mode, DataSets::default()).unwrap();
        assert_eq!(expand(RunMode::Smoke), ["--size", "1MB", "--threads", "1"]);
        assert_eq!(expand(RunMode::Full), ["--size", "1GB", "--threads", "1"]);
    }

    #[test]
    fn a_missing_set_is_named() {
        let missing = Err(MissingSet("x/y".into()));
        let sets = |data| DataSets { data, made: Some(Path::new("/tmp")) };
        let expand = |words, data| expand(words, RunMode::Full, sets(data));
        assert_eq!(expand("--pair {x/y} {x/z}", None), missing);
        assert_eq!(expand("{x/y}", Some(Path::new("/nowhere"))), missing);
        assert_eq!(expand("{tmp}", Some(Path::new("/"))).unwrap(), ["/tmp"]);
        assert_eq!(expand("{made/x/y}", None), Err(MissingSet("made/x/y".into())));
        assert_eq!(sets(Some(Path::new("/data"))).hidden_in("/data/a /tmp/b"), "DIR/a MADE/b");
    }

    #[test]
    fn each_word_has_a_choice_for_each_mode() {
        for (name, words) in SYNC.iter().chain(CHUNK) {
            for word in words.split_whitespace() {
                assert!([1, 3].contains(&word.split('|').count()), "{name}: {word}");
            }
        }
    }
}
