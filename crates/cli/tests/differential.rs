//! Deltic and rsync, given the same trees and the same words: the results are equal.
//!
//! A case is a source, an older version of it in two equal targets, other trees to compare with, files of names and
//! rules, and random options; run here or over a pipe in either direction, by root or by an ordinary user. Each line of
//! [`CHOICES`] is an option: whoever adds one to Deltic adds a line. `DELTIC_DIFFERENTIAL_CASES` says how many cases
//! are tried, `DELTIC_DIFFERENTIAL_SEED` which is the first; `make differential` tries thousands. A case that fails is
//! made as small as it can be while it fails, and told with what repeats it.
//!
//! Where the two are meant to differ, the choices see to it that it does not show, or [`compare`] lets it pass:
//!
//! - Times are compared to the nanosecond by default. rsync is told so too (`-@-1`).
//! - With `-@-1`, rsync's `-u` takes a file that is up to a second newer for an older one. `-u` comes with a window
//!   here.
//! - `-c` with an alternate and an old version in place: that is brought up to date; rsync replaces it by a link.
//! - Without `-t`, times say what was written: nothing that was equal already, and directories with something staged in
//!   them. They are left out.
//! - Without `-p`, what is made of a file of an alternate or of another name has the mode of a new file; rsync gives it
//!   that of the file that it was matched against. Such options come with `-p` here.
//! - Without `-p`, modes are compared without setuid, setgid and sticky, which a new content loses; and not at all
//!   where FIFOs and the like are made, or attributes: rsync gives what takes another kind's place that one's mode, and
//!   a new directory with attributes the sender's. Nor are ACLs.
//! - A directory whose time is within the window keeps it with rsync; Deltic sets it. With `-b` alone rsync leaves
//!   times of directories alone. With either they are left out.
//! - With `-c` or `-I`, rsync carries times within the window as well where contents are equal; and of what it sets an
//!   attribute of (`-X`).
//! - What is found equal by its content (`-I`, and all that is compared over a pipe) is not written again: there is no
//!   backup of it, and it keeps the owner, ACL and attributes that are not carried (`--no-super`: those of others than
//!   the user), and its other names.
//! - `--append` leaves alone what is not shorter; with `-c` rsync compares it first, and with `-H` links nothing to it.
//!   What it makes of an alternate is not looked at either.
//! - Which of the names of one file comes first, and is compared with what the destination has, is another one. So
//!   targets have a name for each file with `-H`, and it comes without `-u` and without other trees.
//! - A link among the alternates is not followed where it stands for a directory; rsync follows it, if links are
//!   followed.
//! - In logs rsync escapes all bytes from 128 to 159, whatever `-8` says. Its dry run logs directories alone.
//! - `-T`: what rsync makes there has the group and ACL of a new file there, whatever setgid bit and default ACL its
//!   own directory has.
//! - `-m` with a followed link to nothing: the directory that it is in stays; rsync takes it for empty. Those on the
//!   way that are closed to an ordinary user are opened for as long as he needs them; rsync opens what it carries.
//! - `-H` with `--existing` or `--ignore-existing` and `--max-size` or `--min-size`: rsync hangs where the first of
//!   several names does not take part. `-H --append-verify` of several names: its ends misunderstand each other. Cases
//!   in which it hangs or breaks down so are left out, and counted.
//! - Where links are munged, rsync leaves those of the destination as they are that are not and else equal, and tells
//!   where links lead without that. `-M` with `--files-from` or `--append` breaks rsync down where both ends are here.
//! - Where an owner may not be set (`--super`), rsync sets neither mode nor times.
//! - What an alternate takes the place of is backed up; rsync does not.
//! - Where a directory stands in the place of a file that an alternate has, the file comes from the source.
//! - `--ignore-existing` where a directory is to be and a file is: rsync fails on all below the directory, Deltic
//!   passes over it. No such trees are made for it.
//! - After an error nothing is deleted; rsync has by then deleted in some directories, perhaps.
//! - Where files of rules came or went at the target, what either says is protected stays, and there is no backup of
//!   it; rsync may delete it and tell so.
//! - Which names go of more than `--max-delete` allows differs: it comes with 0 or more than there is. Where nothing
//!   takes part nothing goes, and the code is 25.
//! - A name that begins with `./` (`-R`, `--files-from`) makes rsync carry the attributes of the directory that it
//!   starts in.
//! - An ordinary user's rsync makes writable what it deletes, and so the backup of it; with `--no-super` root's too.
//! - `--inplace` or `--append` with a backup directory above the target: rsync cannot finish the copies that it makes
//!   there (23).
//! - rsync cannot list a directory that may be read and not entered, even if it is empty. No such modes are made.
//! - `-b` with the name of a backup (`a~`) that gives way: rsync keeps it no more.
//! - `--delete-excluded`, and rules that admit them, with backups beside the files: rsync deletes them, which stay
//!   here, and the directories that they are in.
//! - `--delete-after` with a backup directory in the target: rsync deletes that, and keeps it in itself.
//! - `--chmod` changes an ACL's mask, as chmod(2) does; rsync also the owning group, where it equals the mask.
//! - `-d`, filters and the like leave names alone that may be of one file with others: what is only touched is touched
//!   under all. With `-c`, over a pipe and so on targets have a name for each file.
//! - `--no-super` and `--no-d` do not reach rsync's far end.
//! - `--no-implied-dirs`: directories are made on the way to what files of rules there leave out.
//! - `--ignore-existing` with a link where a followed one leads to a directory: rsync gives it the time of that.
//! - A target that is no part of the transfer (`src/a` is copied into it) has a new time: files are staged in it.
//! - What may not be read: it cannot be told attributes of; for `-m` rsync takes a directory for empty; for `-c` two
//!   files for equal; with `-n` it looks into new directories at the target; with `-H` and `-y` it reads a file of
//!   which a name is there already. There is none with these.
//! - `-m` with a list of names: rsync deletes in directories that are pruned. `-R` with `--delete-missing-args`: rsync
//!   makes directories on the way to what is missing. Neither is tried.
//! - `-i` lines are compared but for: alternates, `-I`, `-H`, `--append`, hard links at the target; whether bytes
//!   travelled; times of directories from which something was deleted; `p`, `o` and `g` where files are setuid.
//!   `--stats`: the lines of files created and transferred, and of all files where all take part: rsync counts what it
//!   skips for its kind.
//! - An ordinary user's rsync makes writable what `--max-delete` spares, in its ACL too; and other names of what it
//!   deletes.
//! - What is not carried of a file of several names (without `-p` its mode) is that of the name that led: what it had
//!   there before, or what its directory hands down (a default ACL).
//! - `--partial-dir`: a file with a full directory in its place stays there; rsync does not begin with it.
//! - `-H`: rsync links names to one that it takes for equal, by its size and time, and that has another content.
//! - `--no-implied-dirs` with a link that is followed and points at nothing: rsync makes some of the directories on the
//!   way to it.
//! - `--no-implied-dirs` where a directory is to be on the way and a file is: rsync fails, Deltic replaces it. No such
//!   trees are made for it.
//! - `-C` with `--delete-excluded`: in a pull rsync spares what that leaves out.
//! - `--inplace` with backups: rsync's copies of old versions have the owner of a new file.
//! - `--remove-source-files` where one source is in another: rsync does not find under one name what it removed under
//!   the other.
//! - `-n` with `-X` and an alternate: rsync complains of new directories that this has (23).
//! - Two files of one name in two sources: Deltic takes the first.
//! - What is protected stays, also where `--compare-dest` or `--force` would remove it.
//! - With `--numeric-ids` and a map rsync maps owners and not ACLs.
//! - Of a symlink that is followed, rsync carries the attributes of the link and not of what it points at (`-X`).
//! - An ordinary user's rsync wants to list a directory that gives way to what is none, and says so if it may not (23).
//! - The same takes for done what it made of a directory of mode 0200 (with `--chmod` of others too), or of a new one
//!   that a default ACL closes, to write in it: 0700 stays; and opens a full one that is in a file's way, which stays.
//! - `-y`: what rsync matches a file against may have given way meanwhile; it breaks down then (2).
//! - `--append` with `-y`: rsync adds to what has a similar name, or makes nothing.
//! - `--append` with `-S` and `--preallocate`: rsync gives up where it is to add a hole (11).
//! - `--existing` with `-H`: rsync removes what stands in a name's place and is no file, and puts nothing there.
//! - `-H` with a full directory in the place of the first of several names: rsync breaks down (12, or by a signal). The
//!   case is tried again with that directory empty. With `-A` it then asks for the directory's ACL of what it linked
//!   (23).
//! - What an ordinary user may read and does not own, rsync does not read with `--open-noatime`. He owns all here, and
//!   no link that is followed then leads elsewhere.
//! - That a file of rules was read shows with rsync, whatever `-UU` says; at the file of an alternate that it links to
//!   it as well.
//! - `-U` without `--open-noatime`: when a source was last read changes as it is read under another name. It is not
//!   compared where files have several names or links are followed. What rsync reads at the target (`-n`, `-y`,
//!   backups) counts as read.
//! - `-b` with `--safe-links`: rsync does not keep links that lead out.
//! - Where an ACL comes and setuid or setgid goes, rsync leaves out what the owning group may do, and sets it in the
//!   next run.
//! - `-R` without `-r`: files of rules in the directories on the way to a file do not count for rsync. Nor do they
//!   where it has the whole list before it begins (`-m`, `--delete-before` and the like).
//! - A default ACL that keeps its owner out makes rsync's `.~tmp~` (`--delay-updates`) one that an ordinary user cannot
//!   put anything in. He gives no such ones then.
//! - In a pull rsync applies rules to what comes, with paths of its own: where a `/` rule matches only these, it ends
//!   (4).
//! - A file of rules that is named again (`:r- .cvsignore` and `-C`) does not count again; in a pull it does with
//!   rsync.
//! - What has the name of a file of rules is one: rsync waits for rules to come out of a FIFO, follows a link, goes on
//!   without what it may not read, drops a rule that is longer than a path, and ends the run at what is no rule.
//! - Of a file that an ordinary user may not read, rsync makes a new one, and tells of that: without `-p` with a new
//!   mode.
//! - Where an ACL changes and the mode with it, rsync tells of the ACL alone.
//! - What goes of a directory that stays is counted and not named (`-i`).
//! - `--remove-source-files` with `-L` or `-k`: rsync does not find what a link leads to once it has removed that.
//! - `--remove-source-files` with `--copy-unsafe-links`: rsync leaves the links that it followed, and ends with 23.
//! - `--remove-source-files` with an alternate that has a symlink or the like: rsync leaves it at the source.

#[path = "differential/case.rs"]
mod case;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/limit.rs"]
mod limit;
#[path = "differential/smaller.rs"]
mod smaller;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::dice::Dice;
use crate::common::maker::{PATTERNS, rule};
use crate::common::{is_installed, skip};
use case::{Case, Verdict};

/// Cases without a word to the contrary.
const CASES: u64 = 300;

/// rsync hangs or breaks down in fewer than one of so many cases, and in a few of few.
const CASES_PER_BREAK: u64 = 300;
const FEW: u64 = 3;

/// An option, how often in a hundred cases it is there, and what it looks like.
struct Choice {
    percent: u64,
    words: fn(&mut Dice) -> Vec<OsString>,
}

const fn at(percent: u64, words: fn(&mut Dice) -> Vec<OsString>) -> Choice {
    Choice { percent, words }
}

/// Every option that both know; one line each. Paths are seen from a target: `../../alt1` is a tree to compare with.
/// But `aside` is seen from the world.
const CHOICES: &[Choice] = &[
    at(100, |dice| {
        some(dice, &["-rlpt", "-rlpt", "-a", "-a", "-rlt", "-rlp", "-rt", "-r", "-rl", "-lptd"])
    }),
    at(20, |dice| some(dice, &["--specials -p", "-D -p", "-D --no-devices -p", "--no-D"])),
    at(10, |dice| some(dice, &["-o", "-g", "-og", "-E", "-O", "-J", "--no-o", "--no-g"])),
    at(10, |dice| some(dice, &["--chmod=Fg-w,o=", "--chmod=D2755,Fgo-w,+X", "--chmod=go=u,a+r"])),
    at(15, |_| words("-A -p")),
    at(15, |dice| some(dice, &["-X -p", "-X -p", "-XX -p"])),
    at(6, |dice| some(dice, &["-U", "-UU", "--open-noatime"])),
    at(8, |dice| {
        some(dice, &["--numeric-ids -og", "--no-super", "--numeric-ids -og --no-super", "--super"])
    }),
    at(5, |dice| some(dice, &["--usermap=1:33,*:1000", "--groupmap=0-40:65534", "--chown=33:1"])),
    at(35, |dice| some(dice, DELETES)),
    at(15, |_| words("-c")),
    at(20, |dice| some(dice, &["--no-whole-file", "--no-whole-file", "--no-whole-file", "-W"])),
    at(15, |dice| some(dice, &["-z", "-z", "--zl=1", "--zc=none", "--zc=lz4 --skip-compress=c"])),
    at(10, |_| words("--size-only")),
    at(10, |_| words("-I")),
    at(15, |dice| some(dice, &["--modify-window=0", "-@1", "-@2"])),
    at(12, |dice| words(&format!("-u {}", dice.pick(&["-@0", "-@1", "-@2"])))),
    at(6, |_| words("--existing")),
    at(6, |_| words("--ignore-existing")),
    at(6, |dice| words(&format!("--max-size={}", dice.pick(&["0", "20", "1k", "1K-1", "2KB+1"])))),
    at(6, |dice| words(&format!("--min-size={}", dice.pick(&["1", "20", "1.5k", "1K-1"])))),
    at(20, alternates),
    at(8, |dice| some(dice, &["-y -p", "-yy -p"])),
    at(10, |_| words("-m")),
    at(12, |dice| some(dice, BACKUPS)),
    at(8, |_| words("--force")),
    at(20, |_| words("-H")),
    at(8, |_| words("-K")),
    at(10, |dice| {
        let sums = ["--cc=none", "--cc=md5", "--cc=xxh64,xxh128"];
        let blocks = ["-S", "--preallocate", "-S --preallocate", "-B700", "-B 8K"];
        some(dice, &[&blocks[..], &blocks, &sums].concat())
    }),
    at(12, |dice| some(dice, WRITING)),
    at(6, |_| words("--temp-dir=aside")),
    at(6, |dice| some(dice, &["--munge-links", "-M--munge-links"])),
    at(10, |dice| {
        some(dice, &["--safe-links", "-L", "-k", "--copy-unsafe-links", "-k --copy-unsafe-links"])
    }),
    at(25, filters),
    at(8, |dice| some(dice, NAMES)),
    at(6, |dice| some(dice, &["-R", "-R --no-implied-dirs"])),
    at(6, |dice| some(dice, &["--ignore-missing-args", "--delete-missing-args"])),
    at(6, |_| words("--remove-source-files")),
    at(6, |_| words("-n")),
    at(6, |dice| some(dice, &["-x", "-xx", "--mkpath", "--partial", "--bwlimit=0"])),
    at(6, |dice| some(dice, &["--no-i-r", "--trust-sender", "--insecure-links"])),
    at(4, |dice| some(dice, &["--timeout=60", "--stop-after=9", "--bwlimit=100m"])),
    at(6, |dice| some(dice, &["-h", "-hh", "--no-h"])),
    at(10, |_| words("--log-file=aside/log")),
];

const DELETES: &[&str] = &[
    "--delete",
    "--delete",
    "--del",
    "--delete-during",
    "--delete-before",
    "--delete-after",
    "--delete-delay",
    "--delete-excluded",
    "--delete --max-delete=0",
    "--delete --max-delete=1000",
    "--delete --ignore-errors",
];
const BACKUPS: &[&str] = &[
    "-b",
    "-b --suffix=.old",
    "-b --backup-dir=kept",
    "-b --backup-dir=../kept",
    "-b --backup-dir=kept --suffix=.old",
];
const WRITING: &[&str] = &[
    "--inplace",
    "--append",
    "--append-verify",
    "--delay-updates",
    "--partial-dir=.part",
    "--delay-updates --partial-dir=.part",
];
const NAMES: &[&str] = &[
    "--files-from=list",
    "-0 --files-from=zero",
    "--files-from=list -r",
    "--files-from=list --no-R",
    "--files-from=list --no-implied-dirs",
    "--files-from=list --no-d",
];

/// Words that do not go together in a case, for a reason in the head of this file.
const APART: &[(&str, &str)] = &[
    ("-c", "-dest="),
    ("-b", "-dest="),
    ("--inplace", "--backup-dir=../kept"),
    ("--append", "--backup-dir=../kept"),
    ("-c", "-@"),
    ("-c", "window"),
    ("-b", "--no-whole-file"),
    ("-I", "--no-whole-file"),
    ("-C", "--delete-excluded"),
    ("--safe-links", "munge-links"),
    ("--files-from", "-R"),
    ("--files-from", "-lptd"),
    ("--delete-after", "--backup-dir=kept"),
    ("-A", "--chmod=go=u"),
    ("-H", "-u"),
    ("-H", "-dest="),
    ("-c", "--cc=none"),
    ("--append", "--cc=none"),
    ("--append", "-c"),
    ("--append", "-dest="),
    ("--append", "-y"),
    ("--append", "-yy"),
    ("-R", "--delete-missing-args"),
    ("-m", "--files-from"),
    ("--files-from", "--filter"),
    ("--files-from", "--exclude"),
    ("--files-from", "--include"),
    ("--files-from", "-f"),
    ("--files-from", "-C"),
    ("--files-from", "-F"),
    ("--compare-dest", "--filter"),
    ("--compare-dest", "-f:"),
    ("--compare-dest", "-F"),
    ("--compare-dest", "-C"),
    ("--force", "--filter"),
    ("--remove-source-files", "-L"),
    ("--remove-source-files", "-k"),
    ("--ignore-existing", "--no-R"),
    ("--super", "map="),
    ("--super", "--chown"),
    ("--files-from", "-M--munge"),
    ("--append", "-M--munge"),
    ("--numeric-ids", "map="),
    ("--numeric-ids", "--chown"),
];
/// Words with which no entry is of another kind than before, for the same.
const NO_KINDS: &[&str] = &["--ignore-existing", "-dest=", "--max-delete=0", "--no-implied-dirs"];

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn some(dice: &mut Dice, all: &[&str]) -> Vec<OsString> {
    words(dice.pick::<&str>(all))
}

fn alternates(dice: &mut Dice) -> Vec<OsString> {
    let usage = dice.pick(&["compare", "copy", "link"]);
    let dirs: &[&[&str]] =
        &[&["../../alt1"], &["../../alt1", "../../alt2"], &["../../none", "../../alt2"]];
    let dirs = dice.pick(dirs).iter().map(|dir| format!("--{usage}-dest={dir}").into());
    std::iter::once("-p".into()).chain(dirs).collect()
}

fn filters(dice: &mut Dice) -> Vec<OsString> {
    let count = 1 + dice.below(4);
    let filter = |dice: &mut Dice| {
        let absolute: [&[u8]; 5] = [b"src/d/a", b"dst/d/", b"**/src/*", b"dst**b", b"/a"];
        match dice.below(13) {
            0..=4 => [&b"--filter="[..], &*rule(dice)].concat(),
            5 => b"-F".to_vec(),
            6 => [&b"--exclude="[..], *dice.pick(&PATTERNS)].concat(),
            7 => [&b"--include="[..], *dice.pick(&PATTERNS)].concat(),
            8 => dice.pick(&["-C", "-f:C", "-f-C", "-f:sC"]).as_bytes().to_vec(),
            9 => [&b"--filter=-/ "[..], *dice.pick(&absolute)].concat(),
            10 => dice
                .pick(&["--exclude-from=patterns", "--include-from=patterns", "-f. patterns"])
                .as_bytes()
                .to_vec(),
            _ => dice.pick(MERGES).as_bytes().to_vec(),
        }
    };
    let mut all: Vec<_> = (0..count).map(|_| OsString::from_vec(filter(dice))).collect();
    if all.iter().any(|word| word == "-f:r- .cvsignore") {
        all.retain(|word| !["-C", "-f:C", "-f:sC"].iter().any(|other| word == other));
    }
    all
}

const MERGES: &[&str] = &[
    "-f: .f",
    "-f:n .f",
    "-f:e .f",
    "-f:- .cvsignore",
    "-f:s- .cvsignore",
    "-f:r- .cvsignore",
    "-f:p .f",
    "-f!",
    "-f:/ .f",
    "-f: /.f",
    "-f:nw+ .cvsignore",
    "-f: .other",
];

/// The options of a case, choice by choice.
fn options(dice: &mut Dice) -> Vec<Vec<OsString>> {
    let mut all: Vec<Vec<OsString>> = Vec::new();
    for choice in CHOICES {
        if !dice.percent(choice.percent) {
            continue;
        }
        let fresh = (choice.words)(dice);
        let has = |words: &[OsString], part: &str| {
            words.iter().any(|word| {
                let word = word.to_string_lossy();
                let is_whole = part.len() == 2 && !matches!(part, "-f" | "-@");
                if is_whole { word == part } else { word.contains(part) }
            })
        };
        let before = all.concat();
        let clash = |(one, other): &(&str, &str)| {
            has(&before, one) && has(&fresh, other) || has(&before, other) && has(&fresh, one)
        };
        if !APART.iter().any(clash) {
            all.push(fresh);
        }
    }
    all
}

#[test]
fn deltic_and_rsync_make_the_same_of_the_same() {
    if !is_installed("rsync") {
        return skip("rsync is not installed: nothing to compare with");
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("DELTIC_DIFFERENTIAL_SEED").unwrap_or(0);
    let cases: u64 = number("DELTIC_DIFFERENTIAL_CASES").unwrap_or(CASES);
    let threads = std::thread::available_parallelism().map_or(2, |threads| threads.get().max(2));
    let next = AtomicU64::new(first);
    let (failures, left_out) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + cases {
                return;
            }
            match Case::random(seed).verdict_on_the_smallest() {
                Verdict::Alike => {}
                Verdict::Differs(text) | Verdict::DelticHangs(text) => {
                    failures.lock().expect("no thread panics").push(text);
                }
                Verdict::RsyncBreaks => left_out.lock().expect("no thread panics").push(seed),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("no thread panics");
    let left_out = left_out.into_inner().expect("no thread panics");
    if !left_out.is_empty() {
        skip(&format!("rsync breaks down in {} of {cases} cases: {left_out:?}", left_out.len()));
    }
    assert!(
        failures.is_empty(),
        "{} of {cases} cases from {first} differ, and rsync breaks down in {}:\n{}",
        failures.len(),
        left_out.len(),
        failures.join("\n")
    );
    assert!(
        left_out.len() as u64 <= FEW + cases / CASES_PER_BREAK,
        "rsync breaks down in too many of {cases} cases: {left_out:?}"
    );
}
