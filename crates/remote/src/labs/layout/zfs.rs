//! Records of a file in a ZFS snapshot, from the output of `zdb`. Experimental.
//!
//! A record's device offset and birth transaction identify the record within its pool. Checksums of a compressed
//! dataset are of the compressed bytes, not of content. Without a snapshot, `zdb` shows the state of some seconds ago,
//! so a snapshot is required. The output of `zdb` is for developers and not stable: an unknown line is an error.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;

use super::input::bytes;
use super::parts::{Layout, LayoutError, LayoutPart, PartContent, StorageId, UnitSums};
use crate::sums::{ContentSum, SumAlgorithm};

/// Splits `POOL/DATASET@SNAPSHOT:INODE` into snapshot and inode.
#[must_use]
pub fn split_object(word: &OsStr) -> Option<(&str, u64)> {
    let (snapshot, inode) = word.to_str()?.rsplit_once(':')?;
    let (dataset, name) = snapshot.split_once('@')?;
    let is_snapshot = !dataset.is_empty() && !name.is_empty() && !dataset.starts_with('-');
    Some((snapshot, inode.parse().ok()?)).filter(|_| is_snapshot)
}

/// Runs `zdb` for an inode in a snapshot and parses the output.
///
/// # Errors
/// [`LayoutError`] if `zdb` is missing, fails, or prints an unknown line.
pub fn read_snapshot(snapshot: &str, inode: u64) -> Result<Layout, LayoutError> {
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
    // Both pipes are read at once, so that `zdb` never blocks on one of them.
    let why = thread::spawn(move || errors.map(first_line).unwrap_or_default());
    let told = bytes(&mut out.expect("standard output is piped"));
    let why = why.join().unwrap_or_default();
    let ended = zdb.wait().map_err(|error| LayoutError(deltic_store::reason(&error)))?;
    let told = String::from_utf8_lossy(&told?).into_owned();
    if !ended.success() || !told.contains(BLOCKS) {
        let why = if why.is_empty() { "no such file" } else { &why };
        return Err(LayoutError(format!("zdb: {why}")));
    }
    read(&told)
}

/// Reads a whole stream and returns the first line.
fn first_line(mut stream: impl Read) -> String {
    let mut first = Vec::new();
    let _ = stream.by_ref().take(4096).read_to_end(&mut first);
    let _ = io::copy(&mut stream, &mut io::sink());
    String::from_utf8_lossy(&first).lines().next().unwrap_or_default().to_owned()
}

/// Parses the output of `zdb -ddddd -bbbbbb` for a file.
pub(super) fn read(told: &str) -> Result<Layout, LayoutError> {
    // The path of the file comes first, and may contain line breaks.
    let (head, blocks) = told.rsplit_once(BLOCKS).ok_or_else(|| not_understood("no blocks"))?;
    if !head.contains("  ZFS plain file") {
        return Err(LayoutError("zdb: not a regular file".into()));
    }
    let snapshot = head.lines().find_map(|line| line.strip_prefix("Dataset "));
    let snapshot = snapshot.and_then(|line| line.split(' ').next()).unwrap_or_default();
    let mut lens = head.lines().filter_map(|line| line.trim().strip_prefix("size\t"));
    let len = lens.next().and_then(|len| len.trim().parse().ok());
    let len = len
        .filter(|_| lens.next().is_none())
        .ok_or_else(|| not_understood("missing or repeated size"))?;
    let pool = snapshot.split(['/', '@']).next().unwrap_or_default();
    let history = blake3::derive_key("deltic 2026-11 records of a pool of ZFS", pool.as_bytes());
    let mut layout = Layout::new("ZFS", history);
    push_records(&mut layout, len, blocks)?;
    layout.about = vec![format!("experimental: by zdb, of {snapshot}")];
    layout.token = snapshot.to_owned();
    Ok(layout)
}

/// Appends the records of a file of `len` bytes. A gap between records is a hole.
///
/// `zdb` omits blocks that it cannot read. So the number of records must match the fill count of the top block.
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
        return Err(LayoutError("zdb could not read all records".into()));
    }
    layout.push(LayoutPart { len: len - layout.len(), id: None, content: PartContent::Zero })
}

fn not_understood(line: &str) -> LayoutError {
    LayoutError(format!("unknown output of zdb: {line:.200}"))
}

const BLOCKS: &str = "Indirect blocks:";

/// A block of a file. A block of level 0 is a record, unless it is a hole.
struct ZdbBlock<'a> {
    level: u32,
    /// Number of records at or below this block; `None` if not printed.
    fill: Option<u64>,
    record: Option<ZfsRecord<'a>>,
}

impl<'a> ZdbBlock<'a> {
    /// Parses a line. `Ok(None)` for an empty line, `Err` for an unknown line.
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
            // The data is embedded in the parent block or in the inode.
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

/// A record on the devices.
struct ZfsRecord<'a> {
    start: u64,
    len: u64,
    id: Option<[u64; 3]>,
    /// Compression method, if the record is compressed.
    packed: Option<&'a str>,
    sum: Option<ContentSum>,
}

impl<'a> ZfsRecord<'a> {
    /// A record of which only offset and length are known.
    fn unknown(start: u64, words: &[&'a str]) -> Result<Self, ()> {
        let (len, _) = lens(words)?;
        Ok(Self { start, len, id: None, packed: None, sum: None })
    }

    /// Parses the fields of a record.
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
        // Fletcher-4 depends on the byte order of the machine that wrote the record.
        let counts = !words.contains(&"encrypted") && !words.contains(&"BE");
        let sum = field(words, "cksum=").filter(|_| counts).and_then(|told| sum(kind?, told));
        Ok(Self { start, len, id, packed, sum })
    }

    /// The layout part of this record, `len` bytes of which belong to the file.
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

/// The value of the field `name`.
fn field<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name))
}

/// Length of a record in bytes, and true if the record is stored uncompressed.
fn lens(words: &[&str]) -> Result<(u64, bool), ()> {
    let (len, stored) = field(words, "size=").and_then(|it| it.split_once("L/")).ok_or(())?;
    Ok((u64::from_str_radix(len, 16).map_err(drop)?, stored.strip_suffix('P') == Some(len)))
}

/// Parses a checksum of four hexadecimal numbers.
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
