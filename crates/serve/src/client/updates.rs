//! Updates of files that were synced before, each in one message and its answer.
//!
//! A session takes several messages each way. A client that has synced a file knows the server's version, as long as
//! no other program changes it. The client then sends only the differences, and the name of the version to which they
//! apply.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use deltic_carrier::control::FromClient;
use deltic_carrier::update::{Answer, Base, Head, MAX_FILE_BYTES, Step, encode};
use deltic_core::recipe::Chunk;
use deltic_core::{AnyChunker, AtEnd, ChunkerSpec, Fingerprint, Fingerprinter, Key};
use deltic_net::SyncError;
use deltic_store::{Snapshot, Store, Tree};
use deltic_store_local::{LocalOptions, LocalStore};
use deltic_tree::{RelPath, Timestamp};
use rustix::fs::fstat;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Link, failed};
use crate::channel::invalid;

/// Least length of a file for an update, in bytes; shorter files are sent whole in a session.
const SHORTEST: u64 = 16 << 10;
/// Most bytes of all remembered files. The records of these files take about a hundredth of these bytes in memory.
const MOST_BYTES: u64 = 4 << 30;
/// Longest answer that is read, in bytes.
const MOST_ANSWER_BYTES: u64 = 16;

/// The remembered versions of files at a server.
#[derive(Debug)]
pub struct Updates {
    names: Fingerprinter,
    files: HashMap<RelPath, Known>,
    /// Total length of the remembered files, in bytes.
    bytes: u64,
}

/// The version of a file at the server.
#[derive(Debug)]
struct Known {
    base: Base,
    spec: ChunkerSpec,
    cuts: Vec<Cut>,
    state: State,
}

/// Length, modification time, mode and owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Length, in bytes.
    pub len: u64,
    /// Modification time.
    pub modified: Timestamp,
    /// Permission bits.
    pub mode: u32,
    /// Local user id of the owner.
    pub user: u32,
    /// Local group id.
    pub group: u32,
}

/// A chunk of a file, with its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    start: u64,
    len: u32,
    name: Fingerprint,
}

/// A local file for an update.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// The local root directory. Symlinks below it are not followed.
    pub root: &'a Path,
    /// Path of the file below `root`.
    pub path: &'a RelPath,
    /// Path of the file in the volume.
    pub there: &'a RelPath,
    /// True if the modification time is preserved at the server.
    pub times: bool,
    /// True if the mode is preserved at the server.
    pub modes: bool,
    /// True if the modification time of the file's directory is preserved at the server.
    pub dir_times: bool,
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// The file's state before the update.
    pub old: State,
    /// The file's state now.
    pub new: State,
    /// Literal bytes that were sent.
    pub literal: u64,
    /// Bytes sent and received; zero if the file is unchanged.
    pub traffic: (u64, u64),
}

impl Updated {
    /// True if the file was unchanged.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.traffic.0 == 0
    }
}

impl Default for Updates {
    fn default() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the system has random bytes");
        let names = Fingerprinter::keyed(&Key::from_bytes(key));
        Self { names, files: HashMap::new(), bytes: 0 }
    }
}

impl Updates {
    /// Remembers the version of a file that a session has just synced. If the local file has changed since, the
    /// server refuses the next update, because the remembered version is not the server's.
    pub fn remember(&mut self, root: &Path, path: &RelPath, there: &RelPath) {
        self.forget(there);
        let Some((content, state)) = open(root).and_then(|store| read(&store, path)) else {
            return;
        };
        let spec = ChunkerSpec::for_len(content.len() as u64);
        let cuts = self.cut(&spec.build(), &content);
        self.put(there, Known { base: Base::of(&content), spec, cuts, state });
    }

    /// True if the server's version of a file is remembered.
    #[must_use]
    pub fn knows(&self, there: &RelPath) -> bool {
        self.files.contains_key(there)
    }

    /// Forgets the server's version of a file, for example because another program may change it.
    pub fn forget(&mut self, there: &RelPath) {
        if let Some(known) = self.files.remove(there) {
            self.bytes -= known.state.len;
        }
    }

    fn put(&mut self, there: &RelPath, known: Known) {
        // Beyond the limit, all remembered files are forgotten at once.
        if self.bytes + known.state.len > MOST_BYTES {
            (self.files, self.bytes) = (HashMap::new(), 0);
        }
        self.bytes += known.state.len;
        self.files.insert(there.clone(), known);
    }

    fn cut(&self, chunker: &AnyChunker, content: &[u8]) -> Vec<Cut> {
        let mut start = 0;
        let chunks = self.names.scan(chunker, content, AtEnd::Yes).chunks;
        let place = |Chunk { len, fingerprint: name }| {
            let cut = Cut { start, len, name };
            start += u64::from(len);
            cut
        };
        chunks.into_iter().map(place).collect()
    }

    /// Updates a file at the server in one message. `None` if the file needs a session:
    /// - the server's version is not remembered, or is another version
    /// - much of the content has changed, or nothing but attributes
    /// - the owner has changed
    /// - the file is being changed now
    ///
    /// # Errors
    /// [`SyncError`] if the connection has ended or the server refuses the update. The server's version is then
    /// unknown.
    pub async fn update(
        &mut self,
        link: &Link,
        file: Local<'_>,
    ) -> Result<Option<Updated>, SyncError> {
        let made = match self.made(file) {
            None => return Ok(None),
            Some(Made::Nothing(state)) => {
                let (old, new) = (state, state);
                return Ok(Some(Updated { old, new, literal: 0, traffic: (0, 0) }));
            }
            Some(Made::Update(made)) => made,
        };
        // Until the answer arrives, the server's version is unknown.
        self.forget(file.there);
        let (answer, received) = exchange(link, &made.update).await?;
        if answer == Answer::OtherBase {
            return Ok(None);
        }
        let (old, new, literal) = (made.old, made.new.state, made.literal);
        let traffic = (made.update.len() as u64, received);
        self.put(file.there, made.new);
        Ok(Some(Updated { old, new, literal, traffic }))
    }

    /// Computes the update of a file.
    fn made(&self, file: Local<'_>) -> Option<Made> {
        let known = self.files.get(file.there)?;
        let store = open(file.root)?;
        let (content, state) = read(&store, file.path)?;
        let (old, owners) = (known.state, (state.user, state.group));
        let cuts = self.cut(&known.spec.build(), &content);
        if cuts == known.cuts {
            return (state == old).then_some(Made::Nothing(state));
        }
        if owners != (old.user, old.group) {
            return None;
        }
        let dir_modified = match file.dir_times {
            true => Some(store.look(&file.path.split_last()?.0).ok()??.modified),
            false => None,
        };
        let (steps, literal) = steps(&known.cuts, &cuts, &content);
        if literal > state.len / 2 {
            return None;
        }
        let head = Head {
            path: file.there.clone(),
            base: known.base,
            len: state.len,
            modified: state.modified,
            mode: state.mode,
            times: file.times,
            modes: file.modes,
            dir_modified,
        };
        let update = encode(&head, steps)?;
        let new = Known { base: Base::made_by(&update), spec: known.spec, cuts, state };
        Some(Made::Update(Box::new(Making { update, old, new, literal })))
    }
}

/// Sends an update. Returns the answer, and the number of bytes received.
async fn exchange(link: &Link, update: &[u8]) -> Result<(Answer, u64), SyncError> {
    let volume = link.to.volume.clone();
    let mut channel = link.channel(|channel| FromClient::Update { channel, volume }).await?;
    let answer: io::Result<_> = async {
        channel.write_all(update).await?;
        channel.shutdown().await?;
        let mut answer = Vec::new();
        (&mut channel).take(MOST_ANSWER_BYTES).read_to_end(&mut answer).await?;
        let read = Answer::read(&answer).ok_or_else(|| invalid("no answer to an update"))?;
        Ok((read, answer.len() as u64))
    }
    .await;
    answer.map_err(|error| match error.downcast::<SyncError>() {
        Ok(said) => said.with_host(&link.to.host()),
        Err(error) => failed("update a file at", &link.to.server())(error),
    })
}

/// An update, or the state of an unchanged file.
enum Made {
    Nothing(State),
    Update(Box<Making>),
}

struct Making {
    update: Vec<u8>,
    old: State,
    new: Known,
    literal: u64,
}

/// Reads a file. `None` if the file is too short or too long for an update, or is being changed.
fn read(store: &LocalStore, path: &RelPath) -> Option<(Vec<u8>, State)> {
    let file = Tree::open(store, path).ok()?;
    let (meta, stat) = (file.meta(), fstat(&file).ok()?);
    let fits = (SHORTEST..=MAX_FILE_BYTES).contains(&meta.len);
    let mut content = vec![0; usize::try_from(meta.len).ok().filter(|_| fits)?];
    let whole = file.read_at(0, &mut content).ok()? == content.len();
    file.check_settled().ok().filter(|()| whole)?;
    let (len, modified, mode) = (meta.len, meta.modified, meta.mode & 0o7777);
    Some((content, State { len, modified, mode, user: stat.st_uid, group: stat.st_gid }))
}

/// Opens the root directory `root`.
fn open(root: &Path) -> Option<LocalStore> {
    LocalStore::open(root, LocalOptions::default()).ok()
}

/// Describes the new version as copies from the old version and literal bytes. Returns also the number of literal
/// bytes.
fn steps<'a>(old: &[Cut], new: &[Cut], content: &'a [u8]) -> (Vec<Step<'a>>, u64) {
    let places: HashMap<_, _> = old.iter().rev().map(|cut| ((cut.name, cut.len), cut)).collect();
    let (mut steps, mut literal, mut sent) = (Vec::new(), 0, 0);
    // Offset in the old version after the last copy.
    let mut next = 0;
    for cut in new {
        let equals = |other: &Cut| (other.name, other.len) == (cut.name, cut.len);
        let follows = old.binary_search_by_key(&next, |cut| cut.start).ok().map(|no| &old[no]);
        let found = follows.filter(|other| equals(other));
        let Some(place) = found.or_else(|| places.get(&(cut.name, cut.len)).copied()) else {
            continue;
        };
        if sent < cut.start {
            literal += cut.start - sent;
            steps.push(Step::Bytes(&content[sent as usize..cut.start as usize]));
        }
        let len = u64::from(cut.len);
        match steps.last_mut() {
            Some(Step::Copy { start, len: run }) if *start + *run == place.start => *run += len,
            _ => steps.push(Step::Copy { start: place.start, len }),
        }
        (sent, next) = (cut.start + len, place.start + len);
    }
    let rest = &content[sent as usize..];
    if !rest.is_empty() {
        steps.push(Step::Bytes(rest));
    }
    (steps, literal + rest.len() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn made_of(steps: &[Step<'_>], old: &[u8]) -> Vec<u8> {
        let part = |step: &Step<'_>| match *step {
            Step::Copy { start, len } => old[start as usize..(start + len) as usize].to_vec(),
            Step::Bytes(bytes) => bytes.to_vec(),
        };
        steps.iter().flat_map(part).collect()
    }

    /// Returns bytes with some repetitions.
    fn content(parts: &[(u8, u16)]) -> Vec<u8> {
        let part = |&(seed, len): &(u8, u16)| {
            let mut word = u64::from(seed);
            (0..len).map(move |_| {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(seed));
                if seed == 0 { 0 } else { (word >> 56) as u8 }
            })
        };
        parts.iter().flat_map(part).collect()
    }

    proptest! {
        #[test]
        fn steps_make_the_new_version_of_the_old_one(
            old in vec((0..4_u8, any::<u16>()), 0..6),
            new in vec((0..5_u8, any::<u16>()), 0..6),
        ) {
            let (old, new, updates) = (content(&old), content(&new), Updates::default());
            let chunker = ChunkerSpec::for_len(1 << 20).build();
            let (there, here) = (updates.cut(&chunker, &old), updates.cut(&chunker, &new));
            let (steps, literal) = steps(&there, &here, &new);
            prop_assert_eq!(made_of(&steps, &old), new.clone());
            let sent = steps.iter().filter(|step| matches!(step, Step::Bytes(_)));
            prop_assert_eq!(sent.map(Step::len).sum::<u64>(), literal);
        }
    }

    #[test]
    fn a_short_edit_costs_a_few_chunks_and_two_copies() {
        let updates = Updates::default();
        let chunker = ChunkerSpec::for_len(1 << 20).build();
        for fill in [None, Some(0)] {
            let mut old = content(&[(3, u16::MAX); 16]);
            old.iter_mut().enumerate().for_each(|(at, byte)| {
                *byte = fill.unwrap_or(*byte ^ (at / 65_535) as u8);
            });
            let new = [&old[..500_000], b"some new bytes", &old[500_000..]].concat();
            let (there, here) = (updates.cut(&chunker, &old), updates.cut(&chunker, &new));
            let (steps, literal) = steps(&there, &here, &new);
            assert!(steps.len() <= 5, "{}", steps.len());
            assert!(literal < 30_000, "{literal}");
        }
    }
}
