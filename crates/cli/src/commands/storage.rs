//! `deltic storage`: shows the checksums and block addresses that a storage system keeps for a file, and compares two
//! files by them.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use deltic_core::stored::SumStrength;
use deltic_net::{LocalSnapshot, Trust};
use deltic_remote::labs::layout::{
    Comparison, Layout, LayoutPart, LayoutSource, PartContent, local, zfs,
};
use deltic_remote::{SumAlgorithm, hex};
use indicatif::HumanBytes;
use serde::{Serialize, Serializer};

use super::files::opened_to_read;
use crate::args::storage::StorageArgs;
use crate::report::escape::Escape;
use crate::report::exit::Exit;
use crate::report::numbers::counted;
use crate::report::output::Output;
use crate::words::refused::Misused;

/// Shows one layout, or compares two.
pub(crate) fn run(args: &StorageArgs) -> Result<Exit> {
    let mut output = Output::stdout();
    let Some(old) = &args.old else {
        let layout = read(&args.new, args.links.trust())?;
        show(args, &layout, &mut output);
        output.finish()?;
        return Ok(Exit::Success);
    };
    let (new, was) = read_layouts(&args.new, old, args.links.trust())?;
    let found = new.differing(&was);
    let is_same = found.differs.is_empty() && new.len() == was.len();
    compare(args, &new, &was, &found, &mut output);
    output.finish()?;
    Ok(if is_same { Exit::Success } else { Exit::Different })
}

/// Reads both layouts.
///
/// Layouts of local files must be of one moment: block addresses of a file are only valid while the other file keeps
/// its blocks. So `new` is read before and after `old`, until both readings agree.
fn read_layouts(new: &OsStr, old: &OsStr, trust: Trust) -> Result<(Layout, Layout)> {
    let mut layout = read(new, trust)?;
    if LayoutSource::of(new).is_some() {
        return Ok((layout, read(old, trust)?));
    }
    for _ in 0..TRIES {
        let was = read(old, trust)?;
        let again = read(new, trust)?;
        if again == layout {
            return Ok((layout, was));
        }
        layout = again;
    }
    Err(anyhow!("{} changes all the time; compare a snapshot", shown(new)))
}

const TRIES: usize = 5;

/// Reads the layout of one file.
fn read(word: &OsStr, trust: Trust) -> Result<Layout> {
    let failed = || format!("cannot read the storage records of {}", shown(word));
    match LayoutSource::of(word) {
        Some((LayoutSource::Zfs, word)) => {
            let (snapshot, inode) = zfs::split_object(word).ok_or_else(|| {
                Misused(format!("'{}' is no POOL/DATASET@SNAPSHOT:INODE", shown(word)))
            })?;
            zfs::read_snapshot(snapshot, inode).map_err(|why| anyhow!(why))
        }
        Some((kind, path)) => {
            let mut file = opened_to_read(Path::new(path), trust)?;
            let len = file.metadata().with_context(failed)?.len();
            kind.read(&mut file, len).map_err(|why| anyhow!(why))
        }
        None => {
            let no_file = || anyhow!("not a regular file");
            // Opening a pipe would wait for the other end.
            if fs::metadata(word).is_ok_and(|meta| !meta.is_file()) {
                return Err(no_file()).with_context(failed);
            }
            let file = opened_to_read(Path::new(word), trust)?;
            let snapshot = LocalSnapshot::of_open_file(file.into()).with_context(failed)?;
            let snapshot = snapshot.ok_or_else(no_file).with_context(failed)?;
            local::layout(&snapshot).map_err(|why| anyhow!(why))
        }
    }
    .with_context(failed)
}

fn shown(word: &OsStr) -> String {
    String::from_utf8_lossy(&Escape::Unprintable.escaped(word.as_bytes())).into_owned()
}

/// An event of the output for programs.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Part {
        offset: u64,
        length: u64,
        cover: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        sum: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        unit_bytes: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        padded: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        salt: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        packed: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sums: Option<Sums<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<[u64; 4]>,
    },
    Storage {
        source: String,
        system: &'a str,
        length: u64,
        token: &'a str,
        about: &'a [String],
        #[serde(flatten)]
        compared: Option<Compared>,
    },
}

/// The checksums of a part.
#[derive(Debug)]
struct Sums<'a>(&'a PartContent);

impl Serialize for Sums<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            PartContent::Units(units) => {
                serializer.collect_seq((0..units.count()).filter_map(|no| units.sum(no).map(hex)))
            }
            PartContent::Whole(sum) | PartContent::Encoded(_, sum) => {
                serializer.collect_seq([hex(&sum.bytes)])
            }
            PartContent::Zero | PartContent::Unknown => serializer.collect_seq([(); 0]),
        }
    }
}

/// The comparison with another layout.
#[derive(Debug, Serialize)]
struct Compared {
    other: String,
    other_length: u64,
    differs: Vec<Differs>,
    differing_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Differs {
    offset: u64,
    length: u64,
}

fn show(args: &StorageArgs, layout: &Layout, output: &mut Output) {
    for (offset, part) in layout.parts() {
        if args.json {
            let event = part_event(offset, part, args.sums);
            say(output, serde_json::to_string(&event).expect("it is plain"));
            continue;
        }
        say(output, format!("{offset:>16} {:>14}  {}", part.len, words(part)));
        if let (true, PartContent::Units(units)) = (args.sums, &part.content) {
            for no in 0..units.count() {
                let (at, sum) = (offset + no * u64::from(units.bytes), units.sum(no));
                say(output, format!("{at:>16}   {}", hex(sum.unwrap_or_default())));
            }
        }
    }
    if args.json {
        return output.line(event(args, layout, None));
    }
    let parts = counted(layout.parts().count() as u64, "part");
    output.line(format!("{} in {parts}, as {} says", HumanBytes(layout.len()), layout.system));
    for about in layout.about.iter().chain([&format!("as of {}", layout.token)]) {
        output.line(format!("  {about}"));
    }
}

/// Writes a line; there may be millions of lines.
fn say(output: &mut Output, line: String) {
    output.line(line);
    if output.is_full() {
        output.flush();
    }
}

fn event(args: &StorageArgs, layout: &Layout, compared: Option<Compared>) -> String {
    let (source, about) = (args.new.to_string_lossy().into_owned(), &layout.about[..]);
    let (system, length, token) = (layout.system, layout.len(), &*layout.token);
    let event = Event::Storage { source, system, length, token, about, compared };
    serde_json::to_string(&event).expect("it is plain")
}

fn part_event(offset: u64, part: &LayoutPart, with_sums: bool) -> Event<'_> {
    let (cover, sum, units, packed) = match &part.content {
        PartContent::Units(units) => ("units", Some(units.algorithm), Some(units), None),
        PartContent::Whole(sum) => ("whole", Some(sum.algorithm), None, None),
        PartContent::Encoded(how, sum) => ("encoded", Some(sum.algorithm), None, Some(&**how)),
        PartContent::Zero => ("zero", None, None, None),
        PartContent::Unknown => ("unknown", None, None, None),
    };
    Event::Part {
        offset,
        length: part.len,
        cover,
        sum: sum.map(SumAlgorithm::name),
        unit_bytes: units.map(|units| units.bytes),
        padded: units.map(|units| units.padded),
        salt: units.filter(|units| !units.salt.is_empty()).map(|units| hex(&units.salt)),
        packed,
        sums: with_sums.then_some(Sums(&part.content)),
        identity: part.id.map(|id| [id.of[0], id.of[1], id.of[2], id.from]),
    }
}

/// Describes a part: `16 sums CRC-32C of 4,096 bytes, at 13631488:7:0 + 4096`.
fn words(part: &LayoutPart) -> String {
    let cover = match &part.content {
        PartContent::Units(units) => {
            let sums = counted(units.count(), "sum");
            format!("{sums} {} of {} bytes", units.algorithm.name(), units.bytes)
        }
        PartContent::Whole(sum) => format!("{} {}", sum.algorithm.name(), hex(&sum.bytes)),
        PartContent::Encoded(how, sum) => {
            format!("{how}, {} {}", sum.algorithm.name(), hex(&sum.bytes))
        }
        PartContent::Zero => "zeros".into(),
        PartContent::Unknown => "unknown".into(),
    };
    match part.id {
        Some(id) if id.of == [0; 3] => format!("{cover}, at {}", id.from),
        Some(id) => format!("{cover}, at {}:{}:{} + {}", id.of[0], id.of[1], id.of[2], id.from),
        None => cover,
    }
}

fn compare(
    args: &StorageArgs,
    new: &Layout,
    old: &Layout,
    found: &Comparison,
    output: &mut Output,
) {
    if args.json {
        let other = args.old.as_deref().unwrap_or_default().to_string_lossy().into_owned();
        let differs =
            |range: &Range<u64>| Differs { offset: range.start, length: range.end - range.start };
        let compared = Compared {
            other,
            other_length: old.len(),
            differs: found.differs.iter().map(differs).collect(),
            differing_bytes: found.bytes(),
            evidence: found.by.map(strength),
        };
        return output.line(event(args, new, Some(compared)));
    }
    for range in &found.differs {
        say(output, format!("{:>16} {:>14}", range.start, range.end - range.start));
    }
    let (bytes, ranges) = (found.bytes(), counted(found.differs.len() as u64, "range"));
    let of = HumanBytes(new.len());
    output.line(match (bytes, found.by) {
        (0, _) if new.is_empty() => "empty".into(),
        (0, Some(by)) if new.len() != old.len() => {
            format!("equal up to the shorter length: {of}, {}", evidence(by))
        }
        (0, Some(by)) => format!("equal: {of}, {}", evidence(by)),
        (bytes, Some(by)) => {
            format!(
                "{} of {of} in {ranges} may differ; the rest is equal, {}",
                HumanBytes(bytes),
                evidence(by)
            )
        }
        (_, None) => format!("all of {of} may differ: no block address and no checksum is equal"),
    });
    if new.len() != old.len() {
        output.line(format!("the old version has {}", counted(old.len(), "byte")));
    }
    for (word, layout) in [&args.new].into_iter().chain(&args.old).zip([new, old]) {
        for about in &layout.about {
            output.line(format!("  {}: {about}", shown(word)));
        }
    }
}

fn evidence(by: SumStrength) -> &'static str {
    match by {
        SumStrength::Proof => "which is proof",
        SumStrength::AgainstAccidents => "unless checksums are forged",
        SumStrength::Hint => "which is a hint and no proof",
    }
}

const fn strength(by: SumStrength) -> &'static str {
    match by {
        SumStrength::Proof => "proof",
        SumStrength::AgainstAccidents => "accident_proof",
        SumStrength::Hint => "hint",
    }
}
