//! A temporary directory with real files, in which tests run the real program.
#![allow(dead_code, unreachable_pub, reason = "tests share this")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and talk")]

pub mod csv;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Path of the tested program.
pub const BENCH: &str = env!("CARGO_BIN_EXE_deltic-bench");

/// A temporary directory for a test.
pub struct World {
    dir: TempDir,
}

/// Exit status and output of a command.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    /// Makes a directory with an empty directory `src`.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        Self { dir }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and creates its parent directories.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Returns the names in a directory.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    pub fn mkdir(&self, name: &str) {
        fs::create_dir_all(self.path(name)).unwrap();
    }

    pub fn link(&self, target: &str, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).unwrap();
    }

    /// Runs the program with these arguments in this directory, with the best instruction set.
    pub fn bench(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(BENCH);
        command.args(words).current_dir(self.dir.path()).env_remove("DELTIC_ISA");
        command
    }
}

impl Run {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }
}

/// Prints that a test did not run.
pub fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Returns pseudo-random bytes (SplitMix64).
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| word()).collect();
    bytes.truncate(len);
    bytes
}
