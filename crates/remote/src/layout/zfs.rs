//! Records of a file in a snapshot of ZFS, by the text that `zdb` prints: experimental.
//!
//! A record's place on the devices and the transaction that wrote it tell it from all others of the pool. What it is
//! summed as is packed, where the data set is compressed: such sums are of no content. Without a snapshot `zdb` tells
//! what was there seconds ago, so that one is asked for. The text is for developers, and its form is promised by
//! nobody: a line that is not understood is an error.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;

use super::input::bytes;
use super::parts::{Layout, LayoutError, LayoutPart, PartContent, StorageId, UnitSums};
use crate::sums::{ContentSum, SumAlgorithm};

/// The snapshot and the inode of `POOL/DATASET@SNAPSHOT:INODE`.
#[must_use]
pub fn object(word: &OsStr) -> Option<(&str, u64)> {
    let (snapshot, inode) = word.to_str()?.rsplit_once(':')?;
    let (dataset, name) = snapshot.split_once('@')?;
    let is_snapshot = !dataset.is_empty() && !name.is_empty() && !dataset.starts_with('-');
    Some((snapshot, inode.parse().ok()?)).filter(|_| is_snapshot)
}

/// Asks `zdb` for the layout of an inode in a snapshot.
///
/// # Errors
/// [`LayoutError`] where `zdb` is missing or refuses, and of text that is not understood.
pub fn ask((snapshot, inode): (&str, u64)) -> Result<Layout, LayoutError> {
    let mut zdb = Command::new("zdb");
    let zdb = deltic_net::withhold_secrets(&mut zdb)
        .args(["-ddddd", "-bbbbbb", snapshot, &inode.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut zdb = zdb.map_err(|error| {
        LayoutError(format!("cannot run zdb: {}", deltic_store::reason(&error)))
    })?;
    let (out, errors) = (zdb.stdout.take(), zdb.stderr.take());
    // Whoever writes to one of them waits for nobody who reads the other.
    let why = thread::spawn(move || errors.map(first_line).unwrap_or_default());
    let told = bytes(&mut out.expect("it is piped"));
    let why = why.join().unwrap_or_default();
    let ended = zdb.wait().map_err(|error| LayoutError(deltic_store::reason(&error)))?;
    let told = String::from_utf8_lossy(&told?).into_owned();
    if !ended.success() || !told.contains(BLOCKS) {
        let why = if why.is_empty() { "it knows no such file" } else { &why };
        return Err(LayoutError(format!("zdb: {why}")));
    }
    read(&told)
}

/// The first line of a stream, which is read to its end.
fn first_line(mut stream: impl Read) -> String {
    let mut first = Vec::new();
    let _ = stream.by_ref().take(4096).read_to_end(&mut first);
    let _ = io::copy(&mut stream, &mut io::sink());
    String::from_utf8_lossy(&first).lines().next().unwrap_or_default().to_owned()
}

/// Reads what `zdb -ddddd -bbbbbb` prints of one file.
pub(super) fn read(told: &str) -> Result<Layout, LayoutError> {
    // The path of the file stands before all that counts here, and may have lines of its own.
    let (head, blocks) = told.rsplit_once(BLOCKS).ok_or_else(|| not_understood("no blocks"))?;
    if !head.contains("  ZFS plain file") {
        return Err(LayoutError("zdb: it is no plain file".into()));
    }
    let snapshot = head.lines().find_map(|line| line.strip_prefix("Dataset "));
    let snapshot = snapshot.and_then(|line| line.split(' ').next()).unwrap_or_default();
    let mut lens = head.lines().filter_map(|line| line.trim().strip_prefix("size\t"));
    let len = lens.next().and_then(|len| len.trim().parse().ok());
    let len =
        len.filter(|_| lens.next().is_none()).ok_or_else(|| not_understood("no size, or two"))?;
    let pool = snapshot.split(['/', '@']).next().unwrap_or_default();
    let history = blake3::derive_key("deltic 2026-11 records of a pool of ZFS", pool.as_bytes());
    let mut layout = Layout::new("ZFS", history);
    push_records(&mut layout, len, blocks)?;
    layout.about = vec![format!("experimental: by zdb, of {snapshot}")];
    layout.token = snapshot.to_owned();
    Ok(layout)
}

/// Appends the records of a file of `len` bytes. What has none is a hole. But zdb leaves out what it cannot read: so
/// records count only where they are as many as the highest block says.
fn push_records(layout: &mut Layout, len: u64, lines: &str) -> Result<(), LayoutError> {
    let mut fills: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for line in lines.lines().map(str::trim).take_while(|line| !line.starts_with("segment")) {
        let Some(block) = ZdbBlock::read(line).map_err(|()| not_understood(line))? else {
            continue;
        };
        let fill = fills.entry(block.level).or_insert(Some(0));
        *fill = fill.zip(block.fill).map(|(all, fill)| all.saturating_add(fill));
        let Some(record) = block.record else { continue };
        if record.start < layout.len() {
            return Err(not_understood(line));
        }
        let end = record.start.saturating_add(record.len).min(len);
        let gap = record.start.min(len) - layout.len();
        layout.push(LayoutPart { len: gap, id: None, content: PartContent::Zero })?;
        let len = end.saturating_sub(record.start);
        layout.push(record.part(len))?;
    }
    let records = fills.get(&0).copied().flatten().unwrap_or(0);
    if fills.values().flatten().any(|fill| *fill != records) {
        return Err(LayoutError("zdb could not read all of its records".into()));
    }
    layout.push(LayoutPart { len: len - layout.len(), id: None, content: PartContent::Zero })
}

fn not_understood(line: &str) -> LayoutError {
    LayoutError(format!("zdb prints what is not understood: {line:.200}"))
}

const BLOCKS: &str = "Indirect blocks:";

/// A block of a file: a record, where it is of level 0 and not a hole.
struct ZdbBlock<'a> {
    level: u32,
    /// Records that it has below it, or is; `None` where that is not told.
    fill: Option<u64>,
    record: Option<ZfsRecord<'a>>,
}

impl<'a> ZdbBlock<'a> {
    /// The block of a line; nothing of an empty line. An error of what is not understood.
    fn read(line: &'a str) -> Result<Option<Self>, ()> {
        let mut words = line.split_whitespace();
        let (Some(start), Some(level)) = (words.next(), words.next()) else { return Ok(None) };
        let start = u64::from_str_radix(start, 16).map_err(drop)?;
        let level = level.strip_prefix('L').and_then(|level| level.parse().ok()).ok_or(())?;
        let words: Vec<_> = words.collect();
        if words.contains(&"HOLE") {
            return Ok(Some(Self { level, fill: Some(0), record: None }));
        }
        let is_embedded = words.contains(&"EMBEDDED");
        let fill = match field(&words, "fill=") {
            // It is in the block that points at it, or in the inode.
            None if is_embedded => (level == 0).then_some(1),
            fill => Some(fill.and_then(|fill| fill.parse().ok()).ok_or(())?),
        };
        let record = match level {
            0 if is_embedded => Some(ZfsRecord::unknown(start, &words)?),
            0 => Some(ZfsRecord::read(start, &words)?),
            _ => None,
        };
        Ok(Some(Self { level, fill, record }))
    }
}

/// A record that lies on the devices.
struct ZfsRecord<'a> {
    start: u64,
    len: u64,
    id: Option<[u64; 3]>,
    /// Method by which it is packed, if it is.
    packed: Option<&'a str>,
    sum: Option<ContentSum>,
}

impl<'a> ZfsRecord<'a> {
    /// A record of which nothing but its length counts.
    fn unknown(start: u64, words: &[&'a str]) -> Result<Self, ()> {
        let (len, _) = lens(words)?;
        Ok(Self { start, len, id: None, packed: None, sum: None })
    }

    /// The record that these words describe.
    fn read(start: u64, words: &[&'a str]) -> Result<Self, ()> {
        let (len, is_whole) = lens(words)?;
        let births = field(words, "birth=").and_then(|births| births.split_once("L/")).ok_or(())?;
        let birth: u64 = births.1.strip_suffix('P').and_then(|it| it.parse().ok()).ok_or(())?;
        let place = field(words, "DVA[0]=<").map(|place| place.trim_end_matches('>'));
        let place: Option<Vec<_>> = place.map(|place| place.split(':').collect());
        let id = match place.as_deref() {
            Some([device, offset, ..]) => {
                let offset = u64::from_str_radix(offset, 16).map_err(drop)?;
                Some([device.parse().map_err(drop)?, offset, birth])
            }
            Some(_) => return Err(()),
            None => None,
        };
        let way = words.iter().position(|word| word.ends_with(']'));
        let way = way.map_or(&[][..], |at| &words[at + 1..]);
        let (kind, how) = (way.first().copied(), way.get(1).copied());
        let is_plain = is_whole && matches!(how, Some("uncompressed" | "off"));
        let packed = if is_plain { None } else { how.or(Some("packed")) };
        // Words are summed in the order of the machine that wrote them.
        let counts = !words.contains(&"encrypted") && !words.contains(&"BE");
        let sum = field(words, "cksum=").filter(|_| counts).and_then(|told| sum(kind?, told));
        Ok(Self { start, len, id, packed, sum })
    }

    /// The same, of which a file has `len` bytes.
    fn part(self, len: u64) -> LayoutPart {
        let id = self.id.map(|of| StorageId { of, from: 0 });
        let content = match (self.sum, self.packed) {
            (Some(sum), Some(how)) => PartContent::Encoded(how.to_owned(), sum),
            (Some(sum), None) => match u32::try_from(self.len) {
                Ok(bytes) if bytes > 0 => {
                    let units = UnitSums::plain(sum.algorithm, bytes, sum.bytes.into());
                    PartContent::Units(UnitSums { padded: true, ..units })
                }
                _ => PartContent::Unknown,
            },
            (None, _) => PartContent::Unknown,
        };
        LayoutPart { len, id, content }
    }
}

/// The word behind `name`.
fn field<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name))
}

/// Length of a record in bytes, and whether as many are stored.
fn lens(words: &[&str]) -> Result<(u64, bool), ()> {
    let (len, stored) = field(words, "size=").and_then(|it| it.split_once("L/")).ok_or(())?;
    Ok((u64::from_str_radix(len, 16).map_err(drop)?, stored.strip_suffix('P') == Some(len)))
}

/// A sum of four numbers.
fn sum(kind: &str, told: &str) -> Option<ContentSum> {
    let algorithm = match kind {
        "fletcher4" => SumAlgorithm::Fletcher4,
        "sha256" => SumAlgorithm::Sha256,
        _ => return None,
    };
    let numbers = told.split(':').map(|number| u64::from_str_radix(number, 16).ok());
    let numbers: Vec<_> = numbers.collect::<Option<_>>()?;
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    (numbers.len() == 4).then(|| ContentSum { algorithm, bytes: bytes.into() })
}
