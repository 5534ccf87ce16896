//! A directory as a ZIP archive, made while it is sent: files as they are, without compression (APPNOTE.TXT 6.3).
//!
//! Sums follow the content of each file, so the archive needs no second read and no room on the disk. Files that cannot
//! be opened are listed in a text at the end of the archive. A file that changes while it is read breaks the archive off.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use crc32fast::Hasher;
use deltic_store::{Snapshot, Store, StoreError, Tree};
use deltic_store_local::LocalStore;
use deltic_tree::path::printable;
use deltic_tree::{Kind, RelPath, Timestamp};

use super::incoming::Memory;
use super::pieces::{Pieces, Reader, body_of};
use super::request::{At, no_store, on_disk};
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Right;

/// Most bytes of the archive's directory, which is kept in memory until the end.
const MAX_DIRECTORY: usize = 64 << 20;
/// Memory of a member that is still to come, in bytes: longer paths are rare.
const MEMBER_BYTES: usize = 256;
/// Name of the text about files that are missing.
const MISSING: &str = "files that could not be read.txt";

/// Streams a directory as a ZIP archive.
pub(super) async fn archive(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let reader = Reader::of(&server, &at)?;
    let dir = at.file()?;
    let mut archive = on_disk(&server, move || {
        let store = volume.store()?;
        match store.look(&dir)? {
            Some(there) if there.is_dir() => Ok(Archive::new(store, dir)),
            Some(_) => Err(Problem::new(StatusCode::CONFLICT, format!("{dir}: not a directory"))),
            None => Err(Problem::new(StatusCode::NOT_FOUND, format!("{dir}: no such directory"))),
        }
    })
    .await?;
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "application/zip")
        .header(header::CONTENT_DISPOSITION, "attachment")
        .header(header::CONTENT_SECURITY_POLICY, "sandbox")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let body: Body = body_of(reader, move || archive.next());
    Ok(no_store(response.body(body).expect("headers are plain text")))
}

/// An archive that is being made.
struct Archive {
    store: LocalStore,
    /// Number of leading bytes of paths that names in the archive leave out.
    prefix: usize,
    /// Directories and files that are still to come, the next one last.
    left: Vec<Member>,
    file: Option<OpenMember>,
    directory: Vec<u8>,
    members: u64,
    written: u64,
    missing: String,
    state: ArchiveState,
    /// Memory for `left`, `directory` and `missing`.
    memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArchiveState {
    Members,
    Missing,
    End,
    Done,
}

struct Member {
    path: RelPath,
    is_dir: bool,
    modified: Timestamp,
}

/// The file whose content is being sent.
struct OpenMember {
    pieces: Pieces,
    sum: Hasher,
    entry: ArchiveEntry,
}

/// An entry of the archive's directory.
struct ArchiveEntry {
    name: String,
    modified: Timestamp,
    len: u64,
    sum: u32,
    offset: u64,
}

impl Archive {
    fn new(store: LocalStore, dir: RelPath) -> Self {
        let above = dir.split_last().map(|(above, _)| above.as_bytes().len());
        let prefix = above.map_or(0, |len| if len == 0 { 0 } else { len + 1 });
        let left = vec![Member { path: dir, is_dir: true, modified: Timestamp::default() }];
        Self {
            store,
            prefix,
            left,
            file: None,
            directory: Vec::new(),
            members: 0,
            written: 0,
            missing: String::new(),
            state: ArchiveState::Members,
            memory: Memory::default(),
        }
    }

    /// Returns the next bytes of the archive, or `None` at the end. Errors: a file changed, or there are too many.
    fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes = match self.state {
            ArchiveState::Members => self.next_of_members()?,
            ArchiveState::Missing => {
                self.state = ArchiveState::End;
                self.text_of_missing()
            }
            ArchiveState::End => {
                self.state = ArchiveState::Done;
                self.end()
            }
            ArchiveState::Done => return Ok(None),
        };
        self.written += bytes.len() as u64;
        Ok(Some(bytes))
    }

    /// Returns the next bytes of the current file, or the head of the next member.
    fn next_of_members(&mut self) -> Result<Vec<u8>, StoreError> {
        if let Some(file) = &mut self.file {
            if let Some(piece) = file.pieces.next()? {
                file.sum.update(&piece);
                return Ok(piece);
            }
            return Ok(self.end_of_file());
        }
        let Some(member) = self.left.pop() else {
            self.state = ArchiveState::Missing;
            return Ok(Vec::new());
        };
        if self.directory.len() > MAX_DIRECTORY {
            return Err(StoreError::Changed { path: member.path });
        }
        let head = match member.is_dir {
            true => self.begin_dir(&member),
            false => self.begin_file(&member),
        };
        let held = self.left.len() * MEMBER_BYTES + self.directory.len() + self.missing.len();
        let full = |_| StoreError::Changed { path: member.path };
        self.memory.hold(held as u64).map_err(full)?;
        Ok(head)
    }

    fn begin_dir(&mut self, member: &Member) -> Vec<u8> {
        match self.store.list(&member.path) {
            Ok(listing) => {
                listing.errors.iter().for_each(|error| self.miss(format_args!("{error}")));
                for entry in listing.entries.iter().rev() {
                    let is_dir = entry.meta.is_dir();
                    if !is_dir && entry.meta.kind != Kind::File {
                        continue;
                    }
                    let path = match member.path.join(&entry.name) {
                        Ok(path) => path,
                        Err(why) => {
                            let name = printable(entry.name.as_bytes());
                            self.miss(format_args!("{}/{name}: {why}", member.path));
                            continue;
                        }
                    };
                    self.left.push(Member { path, is_dir, modified: entry.meta.modified });
                }
            }
            Err(error) => self.miss(format_args!("{}: {error}", member.path)),
        }
        let name = format!("{}/", self.name(&member.path));
        let entry = self.entry(name, member.modified, 0);
        let head = entry.head(false);
        self.note(&entry, false);
        head
    }

    fn begin_file(&mut self, member: &Member) -> Vec<u8> {
        let snapshot = match self.store.open(&member.path) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                self.miss(format_args!("{}: {error}", member.path));
                return Vec::new();
            }
        };
        let (len, modified) = (snapshot.meta().len, snapshot.meta().modified);
        let entry = self.entry(self.name(&member.path), modified, len);
        let head = entry.head(true);
        self.file = Some(OpenMember { pieces: Pieces::whole(snapshot), sum: Hasher::new(), entry });
        head
    }

    /// Returns the descriptor behind the content of the current file.
    fn end_of_file(&mut self) -> Vec<u8> {
        let Some(OpenMember { sum, mut entry, .. }) = self.file.take() else { return Vec::new() };
        entry.sum = sum.finalize();
        self.note(&entry, true);
        entry.descriptor()
    }

    fn text_of_missing(&mut self) -> Vec<u8> {
        if self.missing.is_empty() {
            return Vec::new();
        }
        let text = std::mem::take(&mut self.missing).into_bytes();
        let mut entry = self.entry(MISSING.into(), Timestamp::default(), text.len() as u64);
        entry.sum = crc32fast::hash(&text);
        self.note(&entry, true);
        [entry.head(true), text, entry.descriptor()].concat()
    }

    /// Notes the reason why a file is missing.
    fn miss(&mut self, why: fmt::Arguments<'_>) {
        if self.missing.len() < MAX_DIRECTORY {
            self.missing += &format!("{why}\n");
        }
    }

    /// Returns the name of a member. On Windows, `\` separates directories, and `:` ends a drive or begins a stream:
    /// these are written as in the address of a file.
    fn name(&self, path: &RelPath) -> String {
        printable(&path.as_bytes()[self.prefix..]).replace('\\', "%5C").replace(':', "%3A")
    }

    const fn entry(&self, name: String, modified: Timestamp, len: u64) -> ArchiveEntry {
        ArchiveEntry { name, modified, len, sum: 0, offset: self.written }
    }

    fn note(&mut self, entry: &ArchiveEntry, is_file: bool) {
        self.members += 1;
        entry.list(&mut self.directory, is_file);
    }

    /// Returns the archive's directory and its end.
    fn end(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.directory);
        let (len, start) = (bytes.len() as u64, self.written);
        let is_large = self.members >= u64::from(u16::MAX) || start + len >= LARGE;
        if is_large {
            let end = start + len;
            bytes.extend(0x0606_4b50_u32.to_le_bytes());
            bytes.extend(44_u64.to_le_bytes());
            bytes.extend([VERSION.to_le_bytes(), VERSION.to_le_bytes()].concat());
            bytes.extend([0; 8]);
            for number in [self.members, self.members, len, start] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(0x0706_4b50_u32.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(end.to_le_bytes());
            bytes.extend(1_u32.to_le_bytes());
        }
        let members = u16::try_from(self.members).unwrap_or(u16::MAX);
        bytes.extend(0x0605_4b50_u32.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend([members.to_le_bytes(), members.to_le_bytes()].concat());
        bytes.extend(short(len).to_le_bytes());
        bytes.extend(short(start).to_le_bytes());
        bytes.extend([0; 2]);
        bytes
    }
}

/// Numbers from here on are written in fields of 64 bits.
const LARGE: u64 = u32::MAX as u64;
/// Version of the format that a reader needs: 4.5, for fields of 64 bits.
const VERSION: u16 = 45;
/// The sum follows the content, and the name is UTF-8.
const FLAGS: u16 = 1 << 3 | 1 << 11;

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl ArchiveEntry {
    /// Returns the header before the content.
    fn head(&self, is_file: bool) -> Vec<u8> {
        let mut bytes = 0x0403_4b50_u32.to_le_bytes().to_vec();
        let extra =
            if self.len >= LARGE { [&[1, 0, 16, 0][..], &[0; 16]].concat() } else { Vec::new() };
        self.common(&mut bytes, is_file);
        let len = if self.len >= LARGE { u32::MAX } else { 0 };
        bytes.extend([[0; 4], len.to_le_bytes(), len.to_le_bytes()].concat());
        self.names(&mut bytes, &extra);
        bytes.extend(self.name.as_bytes());
        bytes.extend(self.time());
        bytes.extend(extra);
        bytes
    }

    /// Returns the sum and the length behind the content.
    fn descriptor(&self) -> Vec<u8> {
        let mut bytes = 0x0807_4b50_u32.to_le_bytes().to_vec();
        bytes.extend(self.sum.to_le_bytes());
        match self.len >= LARGE {
            true => bytes.extend([self.len.to_le_bytes(), self.len.to_le_bytes()].concat()),
            false => {
                bytes.extend(
                    [short(self.len).to_le_bytes(), short(self.len).to_le_bytes()].concat(),
                );
            }
        }
        bytes
    }

    /// Adds the entry to the archive's directory.
    fn list(&self, directory: &mut Vec<u8>, is_file: bool) {
        let mut large = Vec::new();
        if self.len >= LARGE {
            large.extend([self.len.to_le_bytes(), self.len.to_le_bytes()].concat());
        }
        if self.offset >= LARGE {
            large.extend(self.offset.to_le_bytes());
        }
        let mut extra = Vec::new();
        if !large.is_empty() {
            extra.extend([1, 0, large.len() as u8, 0]);
            extra.extend(large);
        }
        directory.extend(0x0201_4b50_u32.to_le_bytes());
        // Made on Unix, so that the attributes have a mode.
        directory.extend((3 << 8 | VERSION).to_le_bytes());
        self.common(directory, is_file);
        directory.extend(self.sum.to_le_bytes());
        directory.extend([short(self.len).to_le_bytes(), short(self.len).to_le_bytes()].concat());
        self.names(directory, &extra);
        directory.extend([0; 6]);
        let mode: u32 = if is_file { 0o100_644 << 16 } else { 0o040_755 << 16 | 0x10 };
        directory.extend(mode.to_le_bytes());
        directory.extend(short(self.offset).to_le_bytes());
        directory.extend(self.name.as_bytes());
        directory.extend(self.time());
        directory.extend(extra);
    }

    /// Writes version, flags, method, and a time that readers ignore for the exact one.
    fn common(&self, bytes: &mut Vec<u8>, is_file: bool) {
        let flags = if is_file { FLAGS } else { FLAGS & !(1 << 3) };
        for number in [VERSION, flags, 0, 0, 0x21] {
            bytes.extend(number.to_le_bytes());
        }
    }

    /// Writes the lengths of the name and of the extra fields.
    fn names(&self, bytes: &mut Vec<u8>, extra: &[u8]) {
        // A path has at most 4,096 bytes, each of which is printed by at most seven.
        let name = u16::try_from(self.name.len()).unwrap_or(u16::MAX);
        bytes.extend(name.to_le_bytes());
        bytes.extend(((self.time().len() + extra.len()) as u16).to_le_bytes());
    }

    /// Returns the extra field of the modification time, in seconds since 1970.
    fn time(&self) -> Vec<u8> {
        let secs = u32::try_from(self.modified.secs).unwrap_or_default();
        [&[0x55, 0x54, 5, 0, 1][..], &secs.to_le_bytes()].concat()
    }
}
