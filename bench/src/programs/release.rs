//! Two consecutive releases of a real package, downloaded by the registry's own client.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::run::helper;
use crate::progress::progress;

/// `npm:NAME@OLD..NEW`, or `none`.
#[derive(Clone, Debug)]
pub(crate) struct ReleasePair(Option<PackagePair>);

#[derive(Clone, Debug)]
struct PackagePair {
    name: String,
    old: String,
    new: String,
}

impl ReleasePair {
    /// Downloads both releases to `dir` and unpacks each to a tar file. Returns the old and the new file.
    pub(crate) fn fetch(&self, dir: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
        let Some(pair) = &self.0 else { return Ok(None) };
        progress(&format!("fetching {self}"));
        fs::create_dir_all(dir)?;
        let fetch = |version: &str| tar(dir, &format!("{}@{version}", pair.name));
        Ok(Some((fetch(&pair.old)?, fetch(&pair.new)?)))
    }
}

impl FromStr for ReleasePair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let pair = || {
            let (name, versions) = text.strip_prefix("npm:")?.rsplit_once('@')?;
            let (old, new) = versions.split_once("..")?;
            Some(PackagePair { name: name.into(), old: old.into(), new: new.into() })
        };
        pair()
            .map(|pair| Self(Some(pair)))
            .ok_or_else(|| format!("{text}: want npm:NAME@OLD..NEW or none"))
    }
}

impl fmt::Display for ReleasePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("none"),
            Some(pair) => write!(f, "npm:{}@{}..{}", pair.name, pair.old, pair.new),
        }
    }
}

fn tar(dir: &Path, package: &str) -> Result<PathBuf> {
    let words = ["pack", "--silent", package, "--pack-destination"].map(OsStr::new);
    let said = helper("npm", &[&words[..], &[dir.as_os_str()]].concat())?;
    let name = said.lines().last().with_context(|| format!("npm pack {package} named no file"))?;
    let packed = dir.join(name.trim());
    let unpacked = packed.with_extension("tar");
    let status = Command::new("gzip")
        .arg("-dc")
        .arg(&packed)
        .stdout(Stdio::from(File::create(&unpacked)?))
        .status()
        .context("start gzip")?;
    if !status.success() {
        bail!("gzip -dc {}: {status}", packed.display());
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_shown_as_it_was_written() {
        for text in ["none", "npm:typescript@5.9.2..5.9.3", "npm:@types/node@1.0.0..1.0.1"] {
            assert_eq!(text.parse::<ReleasePair>().unwrap().to_string(), text);
        }
        assert!("typescript".parse::<ReleasePair>().is_err());
    }
}
