//! Tests of the wrappers' counters.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BENCH: &str = env!("CARGO_BIN_EXE_deltic-bench");

/// A shell loop with a noticeable, constant processor time.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

fn measured(file: &Path, script: &str) -> Output {
    Command::new(BENCH).arg("measured").arg(file).args(["--", "sh", "-c", script]).output().unwrap()
}

/// Wall time and processor time in microseconds; largest resident set of all processes and of the command's own
/// process.
fn cost(file: &Path) -> Vec<u64> {
    fs::read_to_string(file).unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn an_exit_code_passes_through() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(measured(&dir.path().join("cost"), "exit 23").status.code(), Some(23));
    assert_eq!(measured(&dir.path().join("cost"), "kill -9 $$").status.code(), Some(137));
}

#[test]
fn an_orphaned_child_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (waited, orphaned) = (dir.path().join("waited"), dir.path().join("orphaned"));
    measured(&waited, &format!("sh -c '{BURN}'"));
    measured(&orphaned, &format!("sh -c '{BURN}' & exit 0"));
    let (waited, orphaned) = (cost(&waited), cost(&orphaned));
    assert!(orphaned[1] * 3 > waited[1], "cpu: {orphaned:?} of {waited:?}");
    assert!(
        orphaned[0] * 2 < waited[0],
        "the command itself ended at once: {orphaned:?} of {waited:?}"
    );
}

#[test]
fn a_relay_passes_all_bytes_and_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let (counts, input) = (dir.path().join("counts"), dir.path().join("input"));
    fs::write(&input, vec![7; 300_001]).unwrap();
    let output = Command::new(BENCH)
        .arg("relay")
        .arg(&counts)
        .args(["--", "sh", "-c", "cat; printf tail; exit 5"])
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 300_005));
    assert_eq!(passed(&counts), (300_001, 300_005));
}

/// The benchmarks rely on the byte counts of `--stats`.
#[test]
fn rsync_counts_the_bytes_that_really_pass() {
    if Command::new("rsync").arg("--version").output().is_err() {
        eprintln!("SKIPPED: rsync is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (from, to, counts) =
        (dir.path().join("from"), dir.path().join("to"), dir.path().join("counts"));
    fs::write(
        &from,
        (0..3_000_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect::<Vec<_>>(),
    )
    .unwrap();
    fs::write(&to, vec![1; 2_000_000]).unwrap();
    let output = Command::new("rsync")
        .args(["-t", "--no-whole-file", "--stats", "-e"])
        .arg(shell(dir.path(), &counts))
        .arg(&from)
        .arg(format!("far:{}", to.display()))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
    let (up, down) = passed(&counts);
    close(stat(&said, "Total bytes sent: "), up);
    close(stat(&said, "Total bytes received: "), down);
}

fn shell(dir: &Path, counts: &Path) -> PathBuf {
    let path = dir.join("shell");
    fs::write(
        &path,
        format!("#!/bin/sh\nshift; exec {BENCH} relay {} -- \"$@\"\n", counts.display()),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn passed(counts: &Path) -> (u64, u64) {
    let bytes = fs::read(counts).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (word(0), word(8))
}

fn stat(said: &str, label: &str) -> u64 {
    let rest = said.split_once(label).unwrap().1.lines().next().unwrap();
    rest.replace(',', "").parse().unwrap()
}

/// The counts may differ by framing and by the report itself, which a program sends after counting.
fn close(told: u64, counted: u64) {
    assert!(told.abs_diff(counted) <= counted / 100 + 200, "told {told}, counted {counted}");
}
