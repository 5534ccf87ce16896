//! A directory as a ZIP archive, made while it is sent: files as they are, without compression.
//!
//! With a moment, the archive has the files that the directory had then, from the old versions of the volume.
//!
//! Sums follow the content of each file, so the archive needs no second read and no room on the disk. Files that cannot
//! be opened are listed in a text at the end of the archive. If a file changes while it is read, the answer breaks off,
//! and the client gets an incomplete archive.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use axum::http::{StatusCode, header};
use axum::response::Response;
use crc32fast::Hasher;
use deltic_store::{Snapshot, Store, StoreError, Tree};
use deltic_store_local::{LocalSnapshot, LocalStore, OldVersions, PastEntry, VersionId};
use deltic_tree::path::printable;
use deltic_tree::{Kind, Meta, RelPath, Timestamp};
use rawzip::extra_fields::ExtraFieldId;
use rawzip::time::UtcDateTime;
use rawzip::{DataDescriptorOutput, Header, ZipArchiveWriter};

use super::incoming::Memory;
use super::moment::{MAX_LOOKS, names_ever};
use super::pieces::{BrokenOff, Outgoing, PIECE, Pieces, Reader, made_body};
use super::request::{At, no_store, on_disk};
use super::versions::kept;
use crate::lock;
use crate::server::problem::Problem;
use crate::server::shared::Server;
use crate::server::volume::Right;

/// Most bytes of memory for the archive's directory, which is kept until the end.
const MAX_DIRECTORY: usize = 256 << 20;
/// Memory of an entry of the archive's directory, in bytes, besides its name.
const ENTRY_BYTES: usize = 256;
/// Memory of a member that is still to come, in bytes: longer paths are rare.
const MEMBER_BYTES: usize = 256;
/// Name of the text about files that are missing.
const MISSING: &str = "files that could not be read.txt";
/// Files from this length on have lengths of 64 bits (ZIP64).
const LARGE: u64 = u32::MAX as u64;

/// Streams a directory as a ZIP archive.
pub(super) async fn archive(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let reader = Reader::of(&server, &at)?;
    let dir = at.file()?;
    let moment = at.moment;
    let members = on_disk(&server, move || {
        let store = volume.store()?;
        if let Some(moment) = moment {
            let past = Past { kept: kept(&volume)?, moment };
            // Fails if the directory exists neither now nor then.
            names_ever(&past.kept, &store, &dir)?;
            return Ok(Members::new(store, dir).of_past(past));
        }
        match store.look(&dir)? {
            Some(there) if there.is_dir() => Ok(Members::new(store, dir)),
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
    let body = made_body(reader, |out| write(members, out));
    Ok(no_store(response.body(body).expect("headers are plain text")))
}

/// Writes an archive with all members. Errors: a file changed, or there are too many.
async fn write(mut members: Members, out: Outgoing) -> Result<(), BrokenOff> {
    let made = MadeBytes::default();
    let mut zip = ZipArchiveWriter::new(made.clone());
    while let Some(member) = members.left.pop() {
        let (again, begun) = out.on_disk(move || members.begin(&member)).await?;
        members = again;
        match begun {
            Begun::Nothing => {}
            Begun::Dir(head) => {
                let dir = zip.new_dir(&*head.name).last_modified(head.modified());
                dir.unix_permissions(0o040_755).create()?;
            }
            Begun::File(head, snapshot) => add_file(&mut zip, &made, &head, snapshot, &out).await?,
        }
        out.send(made.take()).await?;
    }
    if !members.missing.is_empty() {
        let (mut text, _) = zip.new_file(MISSING).unix_permissions(0o100_644).start()?;
        let (sum, len) = (crc32fast::hash(members.missing.as_bytes()), members.missing.len());
        text.write_all(members.missing.as_bytes())?;
        text.finish(DataDescriptorOutput::new(sum, len as u64))?;
    }
    out.on_disk(move || zip.finish().map(drop)).await?;
    // The memory of the directory stays counted until the client has taken all but the last pieces.
    for piece in made.take().chunks(PIECE) {
        out.send(piece.to_vec()).await?;
    }
    drop(members);
    Ok(())
}

/// Adds a file with its content.
async fn add_file(
    zip: &mut ZipArchiveWriter<MadeBytes>,
    made: &MadeBytes,
    head: &Head,
    snapshot: LocalSnapshot,
    out: &Outgoing,
) -> Result<(), BrokenOff> {
    let len = snapshot.meta().len;
    let mut file = zip.new_file(&*head.name).last_modified(head.modified());
    if len >= LARGE {
        // A reader of a stream learns here that the lengths behind the content have 64 bits.
        file = file.extra_field(ExtraFieldId::ZIP64, &[0; 16], Header::LOCAL)?;
    }
    let (mut entry, _) = file.unix_permissions(0o100_644).start()?;
    let (mut pieces, mut sum) = (Pieces::whole(snapshot), Hasher::new());
    loop {
        let read = move || {
            let piece = pieces.next()?;
            sum.update(piece.as_deref().unwrap_or_default());
            Ok::<_, StoreError>((pieces, sum, piece))
        };
        let piece;
        (pieces, sum, piece) = out.on_disk(read).await?;
        let Some(piece) = piece else { break };
        entry.write_all(&piece)?;
        out.send(made.take()).await?;
    }
    entry.finish(DataDescriptorOutput::new(sum.finalize(), len))?;
    Ok(())
}

/// Bytes of the archive that were not sent yet. Clones share the bytes.
#[derive(Clone, Debug, Default)]
struct MadeBytes(Arc<Mutex<Vec<u8>>>);

impl MadeBytes {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Write for MadeBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The directories and files of an archive.
struct Members {
    store: LocalStore,
    /// Set for an archive of a directory as of a moment.
    past: Option<Past>,
    /// Number of leading bytes of paths that names in the archive leave out.
    prefix: usize,
    /// Directories and files that are still to come, the next one last.
    left: Vec<Member>,
    /// Memory for the archive's directory, in bytes.
    directory: usize,
    /// Text about files that are missing.
    missing: String,
    memory: Memory,
}

struct Member {
    path: RelPath,
    is_dir: bool,
    modified: Timestamp,
    /// The old version of a file; `None` for the present version.
    version: Option<VersionId>,
}

/// The old versions of a volume, and a moment in seconds since 1970.
struct Past {
    kept: OldVersions,
    moment: u64,
}

impl Past {
    /// Returns the entry that `path` had, if it was a directory or a file.
    fn member(
        &self,
        store: &LocalStore,
        path: RelPath,
        looks: &mut usize,
    ) -> Result<Option<Member>, StoreError> {
        let there = || store.look(&path);
        Ok(match self.kept.entry_at(&path, self.moment, looks)? {
            PastEntry::Nothing => None,
            PastEntry::Old(old) => {
                let (modified, version) = (old.snapshot.meta().modified, Some(old.id));
                Some(Member { path, is_dir: false, modified, version })
            }
            PastEntry::Dir => {
                let there = there().ok().flatten();
                let modified = there.filter(Meta::is_dir).map(|there| there.modified);
                let modified = modified.unwrap_or_default();
                Some(Member { path, is_dir: true, modified, version: None })
            }
            PastEntry::Present => there()?.filter(Meta::is_file).map(|there| Member {
                path,
                is_dir: false,
                modified: there.modified,
                version: None,
            }),
        })
    }

    /// Opens a file that was listed as unchanged since the moment. If the file was replaced or removed since the listing,
    /// opens the old version.
    fn open_present(
        &self,
        store: &LocalStore,
        path: &RelPath,
    ) -> Result<LocalSnapshot, StoreError> {
        // The file is opened before the look at the old versions, so a version that is younger is seen.
        let (present, mut looks) = (store.open(path), MAX_LOOKS);
        match self.kept.entry_at(path, self.moment, &mut looks)? {
            PastEntry::Old(old) => Ok(old.snapshot),
            _ => present,
        }
    }
}

/// Name and time of a member in the archive.
struct Head {
    name: String,
    modified: Timestamp,
}

impl Head {
    fn modified(&self) -> UtcDateTime {
        UtcDateTime::from_unix(self.modified.secs)
    }
}

/// A member whose content follows.
enum Begun {
    /// The member could not be read.
    Nothing,
    Dir(Head),
    File(Head, LocalSnapshot),
}

impl Members {
    fn new(store: LocalStore, dir: RelPath) -> Self {
        let above = dir.split_last().map(|(above, _)| above.as_bytes().len());
        let prefix = above.map_or(0, |len| if len == 0 { 0 } else { len + 1 });
        let modified = Timestamp::default();
        let left = vec![Member { path: dir, is_dir: true, modified, version: None }];
        let (missing, memory) = (String::new(), Memory::default());
        Self { store, past: None, prefix, left, directory: 0, missing, memory }
    }

    /// Archives the directory as of a moment in place of the present directory.
    fn of_past(self, past: Past) -> Self {
        Self { past: Some(past), ..self }
    }

    /// Opens a file, or lists a directory. Errors: there are too many members.
    fn begin(mut self, member: &Member) -> Result<(Self, Begun), StoreError> {
        let begun = if member.is_dir { self.begin_dir(member) } else { self.begin_file(member) };
        if let Begun::Dir(head) | Begun::File(head, _) = &begun {
            // The name is in memory twice when the directory is written.
            self.directory += ENTRY_BYTES + 2 * head.name.len();
        }
        let held = self.left.len() * MEMBER_BYTES + self.directory + self.missing.len();
        if self.directory > MAX_DIRECTORY || self.memory.hold(held as u64).is_err() {
            return Err(StoreError::Changed { path: member.path.clone() });
        }
        Ok((self, begun))
    }

    fn begin_dir(&mut self, member: &Member) -> Begun {
        match self.past.take() {
            Some(past) => {
                if let Err(error) = self.list_past(&past, &member.path) {
                    self.miss(format_args!("{}: {error}", member.path));
                }
                self.past = Some(past);
            }
            None => self.list_present(member),
        }
        let name = format!("{}/", self.name(&member.path));
        Begun::Dir(Head { name, modified: member.modified })
    }

    /// Adds the entries that a directory had at the moment.
    fn list_past(&mut self, past: &Past, dir: &RelPath) -> Result<(), StoreError> {
        let mut looks = MAX_LOOKS;
        for name in names_ever(&past.kept, &self.store, dir)?.iter().rev() {
            let member = match dir.join(name) {
                Ok(path) => past.member(&self.store, path, &mut looks),
                Err(why) => {
                    self.miss(format_args!("{dir}/{}: {why}", printable(name.as_bytes())));
                    continue;
                }
            };
            match member {
                Ok(member) => self.left.extend(member),
                Err(error) => self.miss(format_args!("{error}")),
            }
        }
        Ok(())
    }

    /// Adds the entries of a directory.
    fn list_present(&mut self, member: &Member) {
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
                    let modified = entry.meta.modified;
                    self.left.push(Member { path, is_dir, modified, version: None });
                }
            }
            Err(error) => self.miss(format_args!("{}: {error}", member.path)),
        }
    }

    fn begin_file(&mut self, member: &Member) -> Begun {
        let opened = match (&self.past, member.version) {
            (Some(past), Some(version)) => past.kept.open(&member.path, version),
            (Some(past), None) => past.open_present(&self.store, &member.path),
            (None, _) => self.store.open(&member.path),
        };
        match opened {
            Ok(snapshot) => {
                let (name, modified) = (self.name(&member.path), snapshot.meta().modified);
                Begun::File(Head { name, modified }, snapshot)
            }
            Err(error) => {
                self.miss(format_args!("{}: {error}", member.path));
                Begun::Nothing
            }
        }
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
}
