//! Trees: odd ones to sync, and what a tree looks like in every attribute that Deltic carries.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::noise;

/// Names that have caught programs out before.
pub const ODD_NAMES: [&[u8]; 14] = [
    b"with space",
    b"  two leading, one trailing ",
    b"new\nline",
    b"tab\tand\x1b[31mescape",
    b"not utf-8 \xff\xfe\x80",
    b"-leading-dash",
    b"--delete",
    b"*?[glob]*",
    b"'quotes\" and `ticks` $HOME",
    b"back\\slash",
    b"colon:inside",
    "nfd e\u{301} nfc \u{e9} rtl \u{202e}txt".as_bytes(),
    b"...",
    b".hidden",
];

/// Every attribute of every name below `root`, and of `root` itself, that Deltic carries.
pub fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    look(root, root, &mut picture);
    picture
}

fn look(root: &Path, path: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    let meta =
        path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let content = if meta.is_symlink() {
        format!("-> {}", fs::read_link(path).expect("it is a link").display())
    } else if meta.is_file() {
        let bytes = fs::read(path).expect("it can be read");
        format!("{:o} {} bytes, {:x}", meta.mode(), bytes.len(), fingerprint(&bytes))
    } else {
        format!("{:o}", meta.mode())
    };
    let time = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
    let name = path.strip_prefix(root).expect("it is below").to_path_buf();
    picture.insert(name, format!("{time} {content}"));
    if meta.is_dir() {
        for entry in fs::read_dir(path).expect("it can be listed") {
            look(root, &entry.expect("it can be listed").path(), picture);
        }
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Names each difference between two trees.
#[track_caller]
pub fn assert_same(src: &Path, dst: &Path) {
    let (src, dst) = (picture(src), picture(dst));
    let names = src.keys().chain(dst.keys());
    let mut differ: Vec<_> = names.filter(|name| src.get(*name) != dst.get(*name)).collect();
    differ.sort();
    differ.dedup();
    let shown: Vec<_> =
        differ.iter().take(10).map(|name| (name, src.get(*name), dst.get(*name))).collect();
    assert!(differ.is_empty(), "{} names differ: {shown:#?}", differ.len());
}

/// Sets the time of a name, a link's own.
pub fn set_time(path: &Path, (secs, nanos): (i64, i64)) {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: secs, tv_nsec: nanos },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("it is ours");
}

/// A tree with something of everything: kinds, modes, times before 1970 and after 2038, odd names, depth, a wide
/// directory, empty files and directories, and a file of several chunks.
pub fn everything(root: &Path) {
    let dir = |name: &str| fs::create_dir_all(root.join(name)).expect("it can be made");
    let file = |name: &OsStr, bytes: &[u8]| fs::write(root.join(name), bytes).expect("it is free");
    let chmod = |name: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(root.join(name), permissions).expect("it is ours");
    };
    for name in ["empty dir", "odd", "modes", "times", "wide", "links/dir", &"deep/".repeat(60)] {
        dir(name);
    }
    for name in ODD_NAMES {
        file(&Path::new("odd").join(OsStr::from_bytes(name)).into_os_string(), name);
    }
    // Whoever is not root may not read what nobody may.
    let modes = [0o400, 0o444, 0o640, 0o755, 0o777, 0o7777, 0o000];
    for mode in modes.into_iter().filter(|mode| *mode > 0 || super::is_root()) {
        let name = format!("modes/{mode:o}");
        file(name.as_ref(), name.as_bytes());
        chmod(&name, mode);
    }
    for secs in [-2_000_000_000, -1, 0, 1, 1_000_000_000, 4_000_000_000] {
        let name = format!("times/{secs}");
        file(name.as_ref(), b"");
        set_time(&root.join(&name), (secs, 999_999_999));
    }
    for n in 0..300 {
        file(format!("wide/{n}").as_ref(), &noise(n * 17, n as u64));
    }
    file(format!("{}file", "deep/".repeat(60)).as_ref(), b"deep");
    file("several chunks".as_ref(), &noise(300_000, 1));
    file("empty".as_ref(), b"");
    for (target, name) in
        [("dir", "links/to dir"), ("nowhere", "links/dangling"), ("/etc/passwd", "links/absolute")]
    {
        symlink(target, root.join(name)).expect("it is free");
        set_time(&root.join(name), (1_234_567_890, 5));
    }
    symlink(OsStr::from_bytes(b"\xff\n"), root.join("links/odd")).expect("it is free");
    dir("modes/dir");
    file("modes/dir/in it".as_ref(), b"x");
    chmod("modes/dir", 0o550);
    set_time(&root.join("modes/dir"), (1_111_111_111, 1));
    set_time(&root.join("wide"), (1_222_222_222, 2));
    chmod("", 0o750);
    set_time(root, (1_000_000_001, 3));
}
