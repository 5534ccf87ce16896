//! A process that is restricted to one directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use rustix::fs::Mode;

use crate::handles::dir::{Dir, Trust, VolumeDir, part_path};
use crate::{NamedDir, NamedFile, QuotaLimits, StoreContext};

const CHILD: &str = "DELTIC_TEST_JAIL";
const NAME: &str = "tests::jail::no_way_leads_out_of_the_directory_that_a_process_keeps_to";

/// The directory becomes the working directory of the process, so the test runs in a child process.
#[test]
fn no_way_leads_out_of_the_directory_that_a_process_keeps_to() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return keep_to(Path::new(&dir));
    }
    let world = tempfile::tempdir().unwrap();
    let at = |name: &str| world.path().join(name);
    std::fs::create_dir_all(at("jail/dir/deep")).unwrap();
    std::fs::create_dir(at("out")).unwrap();
    std::fs::create_dir(at("jail2")).unwrap();
    for file in ["jail/file", "jail/dir/file", "out/file", "jail2/file"] {
        std::fs::write(at(file), "x").unwrap();
    }
    let jail = at("jail").canonicalize().unwrap();
    for (name, target) in [
        ("up", Path::new("../out")),
        ("deep", Path::new("dir/deep/../../../out")),
        ("top", Path::new("/")),
        ("away", &at("out")),
        ("beside", &at("jail2")),
        ("here", &jail),
        ("back", &jail.join("dir/deep/..")),
        ("round", Path::new("dir/../dir/deep")),
        ("self", Path::new("/proc/self/cwd")),
        ("loop", Path::new("loop")),
        ("dir/up", Path::new("../dir")),
        ("dir/out", Path::new("../../out")),
    ] {
        symlink(target, jail.join(name)).unwrap();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let run = child.args(["--exact", NAME]).env(CHILD, world.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    assert!(String::from_utf8_lossy(&run.stdout).contains("1 passed"));
}

fn keep_to(world: &Path) {
    let (context, jail) = StoreContext::of_dir(&world.join("jail")).unwrap();
    let whole = |path: &str| jail.join(path).display().to_string();
    let out = |path: &str| world.join(path).canonicalize().unwrap().display().to_string();
    let inside = [".", "dir", "./dir/deep/..", "here", "here/dir", "back", "round", "dir/up/deep"];
    for path in inside.map(String::from).into_iter().chain([whole(""), whole("dir"), whole("back")])
    {
        let path = Path::new(&path);
        assert!(!context.leads_out(path), "{path:?}");
        assert!(NamedDir::new(path, Trust::Ours).in_context(&context).open().is_ok(), "{path:?}");
        assert!(Dir::open_root(path, &context.shared).is_ok(), "{path:?}");
        assert!(context.stat_path(path).is_ok() && context.lstat_path(path).is_ok(), "{path:?}");
    }
    let outside = [
        "..",
        "../jail",
        "dir/../..",
        "up",
        "up/",
        "up/file",
        "deep",
        "top",
        "top/etc",
        "away",
        "beside",
        "self",
        "dir/out",
        "dir/deep/../../..",
        "here/..",
        "round/../../..",
        "/",
        "/etc",
        "/proc/self/cwd",
        "../jail2",
    ];
    let outside = outside.map(String::from).into_iter();
    for path in
        outside.chain([out("out"), out("jail2"), out("jail2/file"), whole(".."), whole("../out")])
    {
        let path = Path::new(&path);
        assert!(context.leads_out(path), "{path:?}");
        for trust in [Trust::Ours, Trust::Anyone] {
            let dir = NamedDir::new(path, trust).in_context(&context);
            assert!(
                dir.open().is_err() && dir.list_names().is_err() && dir.enter().is_err(),
                "{path:?}"
            );
            let read =
                NamedFile::find_within(path, trust, &context).and_then(|file| file.open_to_read());
            assert!(read.is_err(), "{path:?}");
        }
        assert!(
            Dir::open_root(path, &context.shared).is_err()
                && Dir::open_without_symlinks(path, &context.shared).is_err(),
            "{path:?}"
        );
        assert!(context.stat_path(path).is_err(), "{path:?}");
    }
    // A directory that is open for other reasons: the link of its file does not lead out either.
    let dir = Dir::open_root(Path::new("dir"), &context.shared).unwrap();
    let name = |text: &str| deltic_tree::Name::new(text.as_bytes()).unwrap();
    assert!(dir.stat_behind(&name("out")).is_err() && dir.stat_behind(&name("up")).is_ok());
    assert!(!context.leads_out(Path::new("loop")) && !context.leads_out(Path::new("missing/..")));
    assert!(
        context.lstat_path(Path::new("up")).is_ok()
            && context.lstat_path(Path::new("up/file")).is_err()
    );
    let made = NamedDir::new("up/made", Trust::Ours).in_context(&context).make_dir(Mode::RWXU);
    assert!(made.is_err() && !world.join("out/made").exists());
}

#[test]
fn no_way_leads_out_of_the_volume_that_it_begins_in() {
    let world = tempfile::tempdir().unwrap();
    let at = |name: &str| world.path().join(name);
    for volume in ["photos", "notes"] {
        std::fs::create_dir_all(at(volume).join("dir/deep")).unwrap();
        std::fs::write(at(volume).join("dir/file"), volume).unwrap();
    }
    for (name, target) in [
        ("up", Path::new("../notes")),
        ("round", Path::new("dir/../dir/deep")),
        ("virtual", Path::new("/photos/dir")),
        ("other", Path::new("/notes/dir")),
        ("real", &at("photos/dir")),
        ("self", Path::new("/proc/self/cwd")),
        ("dir/in", Path::new("deep")),
        ("dir/out", Path::new("..")),
        ("dir/deep/up", Path::new("../..")),
    ] {
        symlink(target, at("photos").join(name)).unwrap();
    }
    assert_paths_stay_in_volumes(world.path());
}

fn assert_paths_stay_in_volumes(world: &Path) {
    let name = |text: &str| deltic_tree::Name::new(text.as_bytes()).unwrap();
    let (photos, notes) = (name("photos"), name("n"));
    let at = [world.join("photos"), world.join("notes")];
    let volume = |name: &deltic_tree::Name, path: &std::path::PathBuf| VolumeDir {
        name: name.clone(),
        path: path.clone(),
        versions: None,
        quota: QuotaLimits::default(),
    };
    let volumes = [volume(&photos, &at[0]), volume(&notes, &at[1])];
    let context = StoreContext::of_volumes(&volumes).unwrap();
    for path in ["/photos", "/photos/", "/photos/dir/deep/..", "/photos/round", "/n/dir"] {
        let path = Path::new(path);
        assert!(
            !context.leads_out(path)
                && context.stat_path(path).is_ok()
                && context.lstat_path(path).is_ok(),
            "{path:?}"
        );
        assert!(Dir::open_root(path, &context.shared).is_ok(), "{path:?}");
        assert!(NamedDir::new(path, Trust::Ours).in_context(&context).open().is_ok(), "{path:?}");
    }
    let real = world.join("photos/dir").display().to_string();
    let outside = [
        "",
        ".",
        "photos",
        "dir",
        "/",
        "/notes",
        "/photosx",
        "/photos/..",
        "/photos/../n",
        "/photos/up",
        "/photos/virtual",
        "/photos/other",
        "/photos/real",
        "/photos/self",
        "/n/../../etc",
        "/etc",
        &real,
    ];
    for path in outside.map(Path::new) {
        assert!(context.leads_out(path), "{path:?}");
        for trust in [Trust::Ours, Trust::Anyone] {
            let dir = NamedDir::new(path, trust).in_context(&context);
            assert!(dir.open().is_err() && dir.list_names().is_err(), "{path:?}");
            assert!(
                NamedFile::find_within(path, trust, &context)
                    .and_then(|file| file.open_to_read())
                    .is_err(),
                "{path:?}"
            );
        }
        assert!(
            Dir::open_root(path, &context.shared).is_err()
                && Dir::open_without_symlinks(path, &context.shared).is_err(),
            "{path:?}"
        );
        assert!(context.stat_path(path).is_err(), "{path:?}");
    }
    assert!(
        context.shared.bounds.may_read(b"/photos/a", b"/photos")
            && !context.shared.bounds.may_read(b"/photos/a", b"/n/b")
    );
    assert_eq!(context.shared.bounds.path_in_process(b"/photos/a", b"/rules"), b"/photos/rules");
    keep_to_parts(&context);
}

/// Paths that begin at a part of a volume stay in the part.
fn keep_to_parts(context: &StoreContext) {
    let photos = deltic_tree::Name::new(b"photos").unwrap();
    let part = |text: &str| deltic_tree::RelPath::parse(text.as_bytes()).unwrap();
    assert_eq!(part_path(&photos, &part("dir/de%2Fep")), Path::new("/photos:dir%2Fde%252Fep"));
    let dir = part_path(&photos, &part("dir"));
    let leads_in = |below: &str| {
        let path = [dir.as_os_str().as_bytes(), below.as_bytes()].concat();
        let path = Path::new(OsStr::from_bytes(&path));
        assert_eq!(
            Dir::open_root(path, &context.shared).is_err(),
            context.leads_out(path),
            "{path:?}"
        );
        !context.leads_out(path)
    };
    assert!(leads_in("") && leads_in("/deep") && leads_in("/deep/..") && leads_in("/in"));
    for below in ["/..", "/../dir", "/deep/../..", "/out", "/deep/up", "/deep/up/dir"] {
        assert!(!leads_in(below), "{below}");
    }
    // Paths are shown to users as users write them.
    for (way, written) in [
        ("/photos:dir", "/photos/dir"),
        ("/photos:dir/a b", "/photos/dir/a b"),
        ("/photos:dir%2Fde%252Fep/a", "/photos/dir/de%2Fep/a"),
        ("/photos/a:b", "/photos/a:b"),
        ("/else:dir", "/else:dir"),
        ("photos:dir", "photos:dir"),
    ] {
        assert_eq!(context.client_path(Path::new(way)), Path::new(written));
    }
    // No symlink leads to a part; invalid names are no parts.
    for first in ["photos:round", "photos:..", "photos:dir%2F..", "photos:.deltic-x", "x:dir"] {
        let path = Path::new("/").join(first);
        assert!(
            Dir::open_root(&path, &context.shared).is_err() && context.stat_path(&path).is_err(),
            "{first}"
        );
    }
    assert!(context.shared.bounds.may_read(b"/photos:dir/deep", b"/photos:dir/x"));
    assert!(!context.shared.bounds.may_read(b"/photos:dir/deep", b"/photos/x"));
    assert_eq!(
        context.shared.bounds.path_in_process(b"/photos:dir/deep", b"/rules"),
        b"/photos:dir/rules"
    );
}
