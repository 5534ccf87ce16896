//! A world of real files with the real binary in it: `src`, `dst`, and a remote shell that stays on this machine.
//!
//! Every word of a command is relative to the world's directory, where both ends start; so `h:dst` over the shell is
//! `dst`. Where rsync is installed it judges what Deltic did; where it is not, [`rsync`] says so and the test goes on.
#![allow(dead_code, unreachable_pub)]

pub mod attrs;
pub mod bucket;
pub mod dice;
pub mod disks;
pub mod http;
pub mod limited;
pub mod look;
pub mod maker;
pub mod peer;
pub mod server;
pub mod service;
pub mod terminal;
pub mod tree;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use tempfile::TempDir;

/// The program under test.
pub const DELTIC: &str = env!("CARGO_BIN_EXE_deltic");
/// A remote shell that drops the host and runs the rest here. A command of words, so it tests `-e` as well.
pub const SHELL: &str = r#"sh -c 'shift; exec "$@"' rsh"#;
/// Time after which a run hangs, and what has not come never comes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The end on the other side of the remote shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Local,
    Push,
    Pull,
}

/// All of them.
pub const WAYS: [Way; 3] = [Way::Local, Way::Push, Way::Pull];

impl Way {
    /// The last operand where it is remote.
    pub fn to(self, word: &str) -> String {
        if self == Self::Push { format!("h:{word}") } else { word.into() }
    }

    /// A source where it is remote.
    pub fn from(self, word: &str) -> String {
        if self == Self::Pull { format!("h:{word}") } else { word.into() }
    }
}

/// A directory of its own for a test.
pub struct World {
    dir: TempDir,
}

/// Result of a command.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    /// An empty world, but for an empty directory `src`.
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory can be made");
        fs::create_dir(dir.path().join("src")).expect("it is empty");
        Self { dir }
    }

    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.path().join(name.as_ref())
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a name has a parent")).expect("it can be made");
        fs::write(path, bytes).expect("it can be written");
    }

    pub fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn exists(&self, name: impl AsRef<OsStr>) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Content of a directory, as text.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).expect("it can be listed");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("it can be listed").file_name().to_string_lossy().into_owned()
        };
        entries.map(name).collect()
    }

    /// Blocks of 4 KiB of a file in which something is written: what is staged has room for all of it at once.
    pub fn written_blocks(&self, name: impl AsRef<OsStr>) -> usize {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        bytes.chunks(4096).filter(|block| **block != [0; 4096][..block.len()]).count()
    }

    pub fn mkdir(&self, name: &str) {
        fs::create_dir_all(self.path(name)).expect("it can be made");
    }

    pub fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("it can be made");
    }

    pub fn chmod(&self, name: &str, mode: u32) {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.path(name), permissions).expect("it is ours");
    }

    /// Permission bits of a name.
    pub fn mode(&self, name: &str) -> u32 {
        self.meta(name).mode() & 0o7777
    }

    pub fn inode(&self, name: &str) -> u64 {
        self.meta(name).ino()
    }

    /// Seconds and nanoseconds of the time of last change.
    pub fn time(&self, name: &str) -> (i64, i64) {
        let meta = self.meta(name);
        (meta.mtime(), meta.mtime_nsec())
    }

    /// Writes over sectors of a file, which then has this time.
    pub fn write_over(&self, name: impl AsRef<Path>, sectors: &[u64], time: i64) {
        let path = self.path(name.as_ref());
        let file = fs::File::options().write(true).open(&path).expect("it is there");
        for sector in sectors {
            let bytes = noise(SECTOR as usize, time as u64 + sector);
            file.write_all_at(&bytes, sector * SECTOR).expect("there is room");
        }
        self.set_time(name.as_ref(), time);
    }

    /// Sets the time of a name, a link's own.
    pub fn set_time(&self, name: impl AsRef<OsStr>, secs: i64) {
        tree::set_time(&self.path(name), (secs, 123_456_789));
    }

    fn meta(&self, name: &str) -> fs::Metadata {
        let meta = self.path(name).symlink_metadata();
        meta.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// `program` with `words`, in this world.
    pub fn command(
        &self,
        program: &str,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = std::process::Command::new(program);
        command.args(words);
        self.settle(command)
    }

    /// `command`, in this world.
    pub fn settle(&self, mut command: std::process::Command) -> Command {
        self.place(&mut command);
        let mut command = Command::from_std(command);
        command.timeout(PATIENCE);
        command
    }

    /// Sets the directory of `command`, and its environment.
    pub fn place(&self, command: &mut std::process::Command) {
        command
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .env_remove("DELTIC_RSH")
            .env_remove("DELTIC_CACHE_DIR")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("DELTIC_CONFIG")
            .env_remove("RSYNC_RSH")
            .env_remove("TZ")
            .env("LC_ALL", "C");
    }

    /// `deltic sync` with these words, and the remote shell that stays here.
    pub fn sync(&self, words: &[impl AsRef<OsStr>]) -> Run {
        let mut all: Vec<OsString> =
            ["sync", "-e", SHELL, "--deltic-path", DELTIC].map(Into::into).into();
        all.extend(words.iter().map(|word| word.as_ref().to_owned()));
        Run::of(&mut self.command(DELTIC, all))
    }

    /// The same, in words divided by spaces; it must succeed.
    pub fn ok(&self, words: &str) -> Run {
        let run = self.sync(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "deltic sync {words}\n{run:#?}");
        run
    }

    /// The same; it must end with `code` and say why.
    pub fn fails(&self, code: i32, words: &str) -> Run {
        let run = self.sync(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(run.code, Some(code), "deltic sync {words}\n{run:#?}");
        assert!(run.stderr.starts_with("deltic: "), "deltic sync {words}\n{run:#?}");
        run
    }

    /// True if `dst` holds what `src` holds, by our own eyes and by rsync's.
    #[track_caller]
    pub fn assert_same(&self, src: &str, dst: &str) {
        tree::assert_same(&self.path(src), &self.path(dst));
        if let Some(run) =
            rsync(self, &["-anci", "--delete", &format!("{src}/"), &format!("{dst}/")])
        {
            assert_eq!(run.stdout, "", "rsync sees differences between {src} and {dst}");
        }
    }

    /// The report on `name`, by its whole path: what was tried, and why it failed.
    pub fn told(&self, tried: &str, name: &str, why: &str) -> String {
        format!("cannot {tried} {}: {why}", self.path(name).display())
    }

    /// True if nothing of a staging directory is left in `dir`.
    #[track_caller]
    pub fn assert_clean(&self, dir: &str) {
        assert!(!self.exists(format!("{dir}/.deltic")), "{dir} has a staging directory");
    }
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }

    /// The number in the line `label: 1,234 bytes …` of `--stats`.
    #[track_caller]
    pub fn stat(&self, label: &str) -> u64 {
        let line =
            self.stdout.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
        let line = line.unwrap_or_else(|| panic!("no {label} in {self:#?}"));
        let digits: String =
            line.chars().take_while(|c| *c != ' ').filter(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    }

    /// Bytes that crossed the line, both ways, by `--stats`.
    #[track_caller]
    pub fn traffic(&self) -> u64 {
        self.stat("Total bytes sent") + self.stat("Total bytes received")
    }

    /// The lines of standard output, sorted.
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// Waits until something holds, which is called so.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "it never holds that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Tries each of these, all at once: what is slow on purpose leaves the machine to the others.
pub fn at_once<T: Send>(all: impl IntoIterator<Item = T>, try_one: impl Fn(T) + Sync) {
    let (try_one, test) = (&try_one, thread::current().name().unwrap_or_default().to_owned());
    thread::scope(|scope| {
        for one in all {
            let thread = thread::Builder::new().name(test.clone());
            thread.spawn_scoped(scope, move || try_one(one)).expect("a thread starts");
        }
    });
}

/// Runs rsync in this world; loudly nothing where it is not installed.
pub fn rsync(world: &World, words: &[&str]) -> Option<Run> {
    if !is_installed("rsync") {
        skip("rsync is not installed: nobody else judges the result");
        return None;
    }
    let run = Run::of(&mut world.command("rsync", words));
    assert_eq!(run.code, Some(0), "rsync {words:?}\n{run:#?}");
    Some(run)
}

/// Says on the terminal, past the capture of output, what a test leaves out.
pub fn skip(why: &str) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let text = format!("SKIPPED in {test}: {why}\n");
    // Where there is no terminal the captured output has to do.
    match fs::OpenOptions::new().append(true).open("/dev/tty") {
        Ok(mut terminal) => drop(terminal.write_all(text.as_bytes())),
        Err(_) => drop(std::io::stderr().write_all(text.as_bytes())),
    }
}

pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Something mounted at a name of a world, gone with this value.
pub struct Mounted<'a>(pub &'a World, &'a str);

impl<'a> Mounted<'a> {
    /// Makes the directory `at` and calls `program` with `words`, which mounts something there; says that `without` it
    /// this test is skipped.
    pub fn by(
        (world, at): (&'a World, &'a str),
        (program, words): (&str, &[&str]),
        without: &str,
    ) -> Option<Self> {
        world.mkdir(at);
        let mut mount = world.command(program, words);
        let mounted = is_root() && is_installed(program) && Run::of(&mut mount).code == Some(0);
        if !mounted {
            skip(without);
        }
        mounted.then(|| Self(world, at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        Run::of(&mut self.0.command("umount", ["-l", self.1]));
    }
}

/// A btrfs of half a GiB at `disk`.
pub fn btrfs(world: &World) -> Option<Mounted<'_>> {
    btrfs_by(world, "crc32c")
}

/// The same with sums of another kind.
pub fn btrfs_by<'a>(world: &'a World, sums: &str) -> Option<Mounted<'a>> {
    btrfs_at(world, sums, ("disk", "image"))
}

/// The same at another name, made in an image of that name.
pub fn btrfs_at<'a>(
    world: &'a World,
    sums: &str,
    (at, image): (&'a str, &str),
) -> Option<Mounted<'a>> {
    let without = "btrfs cannot be mounted here";
    let made = fs::File::create(world.path(image));
    made.and_then(|image| image.set_len(512 << 20)).expect("there is room");
    let made =
        || Run::of(&mut world.command("mkfs.btrfs", ["-q", "--csum", sums, image])).code == Some(0);
    if !(is_installed("mkfs.btrfs") && made()) {
        skip(without);
        return None;
    }
    Mounted::by((world, at), ("mount", &["-o", "loop", image, at]), without)
}

/// Bytes that `deltic` and what it waits for read; `None` where the system does not count.
pub fn bytes_read(world: &World, words: &str) -> Option<u64> {
    bytes_read_by(world, &["env".into()], words)
}

/// The same of one that a command line which begins so runs.
pub fn bytes_read_by(world: &World, enter: &[String], words: &str) -> Option<u64> {
    let line = format!("\"$0\" {words} && cat /proc/$$/io");
    let words = enter[1..].iter().map(String::as_str).chain(["sh", "-c", &line, DELTIC]);
    let run = Run::of(&mut world.command(&enter[0], words));
    if !run.stderr.is_empty() && run.stderr.contains("/proc") {
        skip("the system does not count what is read");
        return None;
    }
    assert_eq!(run.code, Some(0), "{run:#?}");
    let count = run.stdout.lines().find_map(|line| line.strip_prefix("rchar: "));
    Some(count.expect("a count").parse().expect("a number"))
}

pub fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|meta| meta.uid() == 0)
}

/// Bytes of a sector, as [`World::write_over`] counts them.
pub const SECTOR: u64 = 4096;

/// Bytes that look random and are the same every time.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    (0..len.div_ceil(8)).flat_map(|_| word().to_le_bytes()).take(len).collect()
}

/// `old` with a few bytes inserted at `at`.
pub fn edited(old: &[u8], at: usize) -> Vec<u8> {
    [&old[..at], b"a few new bytes", &old[at..]].concat()
}
