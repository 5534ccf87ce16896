//! Tests the features of a directory's file system, in a temporary directory created there.

use std::fmt;
use std::fs::{File, FileTimes};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use deltic_net::{folds_names, reason};
use deltic_tree::path::printable;
use indicatif::BinaryBytes;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, XattrFlags, fsetxattr, fstatfs, ioctl_ficlone, linkat, mkdirat,
    openat, symlinkat, unlinkat,
};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// Features of the file system of a directory.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct DirFeatures {
    pub(super) path: String,
    /// The reason why the directory cannot be used; other fields have no meaning then.
    pub(super) error: Option<String>,
    /// True if the reason is a full file system or quota.
    pub(super) is_full: bool,
    free_bytes: u64,
    /// The type of file system, as the kernel's number.
    kind: u64,
    /// True if copies can share blocks.
    reflink: bool,
    xattrs: bool,
    acls: bool,
    symlinks: bool,
    hard_links: bool,
    sparse: bool,
    /// True if `a` and `A` are one name.
    folds_case: bool,
    /// The resolution of file times.
    time_step: Duration,
    /// True if the user is root: only root can set owners.
    is_root: bool,
}

impl DirFeatures {
    /// Tests the features of the directory `path`.
    pub(super) fn of(path: &Path) -> Self {
        let shown = printable(path.as_os_str().as_encoded_bytes());
        let found = TrialDir::new(path).and_then(|trial| trial.run());
        match found {
            Ok(found) if found.free_bytes < LEAST_BYTES => {
                let free = BinaryBytes(found.free_bytes);
                let error = Some(format!("the file system is full: {free} free"));
                Self { error, is_full: true, path: shown, ..found }
            }
            Ok(found) => Self { path: shown, ..found },
            Err(error) => {
                use io::ErrorKind::{QuotaExceeded, StorageFull};
                let is_full = matches!(error.kind(), StorageFull | QuotaExceeded);
                Self { is_full, ..Self::unusable(reason(&error)).called(shown) }
            }
        }
    }

    /// Returns the findings for a directory that cannot be used for the reason `error`.
    pub(super) fn unusable(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Sets the path that is shown.
    pub(super) fn called(self, path: String) -> Self {
        Self { path, ..self }
    }

    /// Lists missing features, each with advice.
    pub(super) fn lacks(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let coarse = self.time_step > Duration::from_micros(1);
        [
            (!self.symlinks, "no symbolic links", "use --no-links, or -L to copy the targets"),
            (!self.hard_links, "no hard links", "do without -H and --link-dest"),
            (!self.xattrs, "no extended attributes", "do without -X and --fake-super"),
            (!self.acls, "no ACLs", "do without -A"),
            (
                self.folds_case,
                "names that differ only in case are equal",
                "rename such files at the source",
            ),
            (coarse, "times are coarse", "--modify-window=2 treats times up to 2 s apart as equal"),
        ]
        .into_iter()
        .filter_map(|(lacks, what, mend)| lacks.then_some((what, mend)))
    }
}

impl fmt::Display for DirFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let can = [
            (self.reflink, "reflinks"),
            (self.sparse, "holes"),
            (self.symlinks, "symbolic links"),
            (self.hard_links, "hard links"),
            (self.xattrs, "extended attributes"),
            (self.acls, "ACLs"),
            (self.is_root, "owners (root)"),
        ];
        let can = can.into_iter().filter_map(|(can, what)| can.then_some(what));
        let free = BinaryBytes(self.free_bytes);
        let step = self.time_step;
        write!(f, "{free} free, times to {step:?}; {}", can.collect::<Vec<_>>().join(", "))
    }
}

/// A temporary directory, removed when this value is dropped.
///
/// Another user with write access to the parent may replace the directory by another one or by links. So the
/// directory is held open, and files are created new and then used by their handles.
struct TrialDir {
    above: OwnedFd,
    name: String,
    dir: OwnedFd,
}

impl Drop for TrialDir {
    fn drop(&mut self) {
        for name in NAMES {
            unlinkat(&self.dir, name, AtFlags::empty()).ok();
        }
        unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR).ok();
    }
}

impl TrialDir {
    fn new(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = openat(CWD, path, flags, Mode::empty())?;
        let name = format!(".deltic-trial-{}", std::process::id());
        mkdirat(&above, &name, Mode::RWXU)?;
        let dir = openat(&above, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { above, name, dir })
    }

    fn run(&self) -> io::Result<DirFeatures> {
        let system = fstatfs(&self.dir)?;
        let mut file = self.make("a")?;
        file.write_all(SAMPLE)?;
        let (dir, none) = (&self.dir, XattrFlags::empty());
        Ok(DirFeatures {
            free_bytes: system.f_bavail.saturating_mul(system.f_bsize as u64),
            kind: system.f_type as u64,
            reflink: self.make("clone").is_ok_and(|clone| ioctl_ficlone(clone, &file).is_ok()),
            xattrs: fsetxattr(&file, "user.deltic", b"x", none).is_ok(),
            acls: fsetxattr(&file, "system.posix_acl_access", ACL, none).is_ok(),
            symlinks: symlinkat("a", dir, "link").is_ok(),
            hard_links: linkat(dir, "a", dir, "other", AtFlags::empty()).is_ok(),
            sparse: self.sparse().unwrap_or(false),
            folds_case: folds_names(dir.try_clone()?)?,
            time_step: step(&file)?,
            is_root: geteuid().is_root(),
            ..DirFeatures::default()
        })
    }

    /// Creates a new file; fails if the name exists.
    fn make(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        Ok(openat(&self.dir, name, flags | OFlags::CLOEXEC, Mode::from(0o644))?.into())
    }

    /// True if a hole takes no blocks.
    fn sparse(&self) -> io::Result<bool> {
        let mut file = self.make("sparse")?;
        file.seek(SeekFrom::Start(HOLE_BYTES))?;
        file.write_all(b"end")?;
        file.sync_all()?;
        Ok(file.metadata()?.blocks() * 512 < HOLE_BYTES)
    }
}

/// Returns the resolution at which the file system keeps times.
fn step(file: &File) -> io::Result<Duration> {
    for step in [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000] {
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 0);
        let time = time + Duration::from_nanos(step);
        file.set_times(FileTimes::new().set_modified(time))?;
        if file.metadata()?.modified()? == time {
            return Ok(Duration::from_nanos(step));
        }
    }
    Ok(Duration::from_secs(2))
}

/// Lowest number of free bytes: with less, the transfer test would find no room.
const LEAST_BYTES: u64 = 1 << 20;
/// Names of all entries created in the temporary directory.
const NAMES: [&str; 5] = ["a", "clone", "link", "other", "sparse"];
/// Only full blocks can be shared.
const SAMPLE: &[u8] = &[b'x'; 64 << 10];
const HOLE_BYTES: u64 = 1 << 20;
/// An ACL that permission bits cannot express: the owner and user 1 may read and write, others may not.
const ACL: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, // the owner
    2, 0, 6, 0, 1, 0, 0, 0, // user 1
    4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, // the group
    16, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, // the mask
    32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, // others
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_directory_can_do_is_tried_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let found = DirFeatures::of(dir.path());
        assert_eq!(found.error, None);
        assert!(found.symlinks && found.hard_links && !found.folds_case, "{found:?}");
        assert!(found.time_step <= Duration::from_secs(2), "{found:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let missing = DirFeatures::of(&dir.path().join("missing"));
        assert_eq!(missing.error.as_deref(), Some("no such file or directory"));
    }

    /// The owner of the parent directory may replace the temporary directory by a directory with links.
    #[test]
    fn nothing_is_written_through_what_somebody_put_there_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let plant = |at: &Path| {
            for name in ["a", "clone", "sparse"] {
                std::os::unix::fs::symlink(&victim, at.join(name)).unwrap();
            }
        };
        let trial = TrialDir::new(dir.path()).unwrap();
        let path = dir.path().join(&trial.name);
        fs::rename(&path, dir.path().join("aside")).unwrap();
        fs::create_dir(&path).unwrap();
        plant(&path);
        assert!(trial.run().unwrap().symlinks);
        assert!(dir.path().join("aside/a").is_file());
        drop(trial);
        // Links inside the held directory are not followed either.
        fs::remove_dir_all(&path).unwrap();
        let trial = TrialDir::new(dir.path()).unwrap();
        plant(&path);
        assert_eq!(trial.run().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(trial);
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        assert!(!path.exists());
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let lacks =
            |abilities: DirFeatures| abilities.lacks().map(|(what, _)| what).collect::<Vec<_>>();
        let all = DirFeatures {
            symlinks: true,
            hard_links: true,
            xattrs: true,
            acls: true,
            ..DirFeatures::default()
        };
        assert_eq!(lacks(all.clone()), [""; 0]);
        let fat = DirFeatures {
            time_step: Duration::from_secs(2),
            folds_case: true,
            xattrs: false,
            ..all
        };
        assert_eq!(lacks(fat).len(), 3);
    }
}
