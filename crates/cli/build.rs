//! Gives the program its commit, the day of that commit, its target and its profile.
//!
//! Equal sources give an equal program: no time and no place of the build is in it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commit = commit(&root).unwrap_or_default();
    println!("cargo::rustc-env=DELTIC_COMMIT={commit}");
    let date = if commit.is_empty() { None } else { git(&root, &["log", "-1", "--format=%cs"]) };
    println!("cargo::rustc-env=DELTIC_DATE={}", date.unwrap_or_default());
    for name in ["TARGET", "PROFILE"] {
        let value = std::env::var(name).expect("cargo says it");
        println!("cargo::rustc-env=DELTIC_{name}={value}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Returns the commit of the checkout at `root`, with a mark if files differ from the commit. `None` if `root` is no
/// checkout, or a directory inside of a checkout.
fn commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // A commit or a checkout writes to the log; an edit changes a source file.
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={}", root.join(log).display());
    for entry in root.join("crates").read_dir().ok()?.flatten() {
        println!("cargo::rerun-if-changed={}", entry.path().join("src").display());
    }
    let describe = ["describe", "--always", "--abbrev=12", "--match=v*", "--dirty"];
    git(root, &describe)
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
