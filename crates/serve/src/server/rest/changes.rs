//! Tells the change of a file: the bytes that were kept, the bytes that moved, and new bytes.
//!
//! A new version gets a note of its change when it is put in place ([`ChangeNote`]). Any other two versions are read and
//! compared, in steps, if both together are short enough.

use std::sync::Arc;

use axum::Json;
use axum::response::Response;
use deltic_core::{ChangeMap, ChangeSums, Chunk, ChunkerSpec, Origins, StreamCutter};
use deltic_store::{Snapshot, StoreError};
use deltic_store_local::{ChangeNote, LocalSnapshot, VersionId, compare_short_versions};
use deltic_tree::RelPath;
use serde_json::{Value, json};

use super::pieces::{Pieces, Step, steps};
use super::request::{At, no_store, on_disk};
use super::versions;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::server::volume::{Right, Volume};

/// Most bytes of two versions together that are read to compare the versions.
const MAX_COMPARED: u64 = 256 << 20;

/// Answers with the change between two versions of a file: from `&from=` to `&version=`. By default, from the version
/// before, and to the present version.
pub(super) async fn changes(server: Arc<Server>, at: At) -> Result<Response, Problem> {
    let volume = at.volume(&server, Right::Read)?;
    let (names, token) = (Names::of(&at.known), at.known.token);
    let found = on_disk(&server, move || Found::of(&volume, &at)).await?;
    let Found { new, from, old, note } = found;
    let len = new.meta().len;
    let mut answer = json!({
        "length": len,
        "from": from.map(|id| id.to_string()),
        "kept": null, "moved": null, "new": null, "buckets": null, "known": null,
    });
    if let Some(note) = note {
        put(&mut answer, &shown(&note, names));
        answer["known"] = "noted".into();
    } else if let Some(old) = old.filter(|old| old.meta().len.saturating_add(len) <= MAX_COMPARED) {
        let origins = compared(&server, old, new).await?;
        if let Some(spans) = origins.spans(len) {
            put(&mut answer, &map_shown(&ChangeMap::of(len, &spans)));
            answer["known"] = "compared".into();
        }
    }
    // The token may have been revoked during the comparison.
    server.known_begun(token)?;
    Ok(no_store(Json(answer)))
}

/// Adds the fields of `more`.
fn put(answer: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        answer[name] = value.clone();
    }
}

/// Whether the names of clients are told: only to tokens that may write a whole volume. A guest learns nothing of other
/// clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Told,
    Hidden,
}

impl Names {
    pub(super) fn of(known: &Known) -> Self {
        if known.grant.path.is_none() && known.grant.write { Self::Told } else { Self::Hidden }
    }
}

/// Returns the note about a change, as listings and answers show it.
pub(super) fn shown(note: &ChangeNote, names: Names) -> Value {
    let mut shown = map_shown(&note.map);
    shown["at"] = note.at.into();
    if names == Names::Told && !note.author.is_empty() {
        shown["by"] = note.author.as_str().into();
    }
    shown
}

fn map_shown(ChangeMap { sums, buckets }: &ChangeMap) -> Value {
    let bucket = |&ChangeSums { kept, moved, new }: &ChangeSums| [kept, moved, new];
    let buckets: Vec<_> = buckets.iter().map(bucket).collect();
    json!({ "kept": sums.kept, "moved": sums.moved, "new": sums.new, "buckets": buckets })
}

/// The two versions of a request, and the note about their difference.
struct Found {
    new: LocalSnapshot,
    /// Name of the old version; `None` if no version is before the new one.
    from: Option<VersionId>,
    old: Option<LocalSnapshot>,
    note: Option<ChangeNote>,
}

impl Found {
    fn of(volume: &Volume, at: &At) -> Result<Self, Problem> {
        let file = at.file()?;
        let (version, from) = (at.version()?, at.from()?);
        let new = versions::open(volume, at)?;
        let before = version_before(volume, &file, version)?;
        let id = from.or(before);
        // The note is about the change from the version before.
        let note = if from.is_none() || from == before { ChangeNote::of(&new) } else { None };
        let old = match id.filter(|_| note.is_none()) {
            None => None,
            Some(id) => match versions::version(volume, &file, id) {
                // The version before was removed meanwhile.
                Err(_) if from.is_none() => None,
                opened => Some(opened?),
            },
        };
        Ok(Self { new, from: id, old, note })
    }
}

/// Returns the newest version of `file` that was replaced before `version` was replaced.
fn version_before(
    volume: &Volume,
    file: &RelPath,
    version: Option<VersionId>,
) -> Result<Option<VersionId>, Problem> {
    let Some(kept) = volume.versions()? else { return Ok(None) };
    let all = kept.list(file)?;
    let ids = all.iter().map(|old| old.id);
    Ok(ids.filter(|id| version.is_none_or(|version| *id < version)).max())
}

/// Reads both versions, and compares their chunks.
async fn compared(
    server: &Server,
    old: LocalSnapshot,
    new: LocalSnapshot,
) -> Result<Origins, Problem> {
    let spec = ChunkerSpec::for_len(old.meta().len.max(new.meta().len));
    let (old, new) = (Arc::new(old), Arc::new(new));
    let both = (Arc::clone(&old), Arc::clone(&new));
    if let Some(origins) =
        on_disk(server, move || Ok(compare_short_versions(&both.0, &both.1)?)).await?
    {
        return Ok(origins);
    }
    let cutting = [old, new].map(|snapshot| Cutting::of(snapshot, &spec));
    let cutting = steps(server, cutting, |cutting| {
        let left = cutting.iter_mut().find(|cutting| cutting.cutter.is_some());
        left.map_or(Ok(Step::Done), Cutting::step)
    })
    .await?;
    let [old, new] = cutting.map(|cutting| cutting.chunks);
    on_disk(server, move || Ok(Origins::of_chunks(&old, &new))).await
}

/// A version that is cut into chunks.
struct Cutting {
    pieces: Pieces,
    /// `None` at the end.
    cutter: Option<StreamCutter>,
    chunks: Vec<Chunk>,
}

impl Cutting {
    fn of(snapshot: Arc<LocalSnapshot>, spec: &ChunkerSpec) -> Self {
        let cutter = Some(StreamCutter::new(spec));
        Self { pieces: Pieces::whole(snapshot), cutter, chunks: Vec::new() }
    }

    fn step(&mut self) -> Result<Step, Problem> {
        let chunks = &mut self.chunks;
        let mut each = |_: &[u8], chunk: Chunk| {
            chunks.push(chunk);
            Ok::<(), StoreError>(())
        };
        match self.pieces.next()? {
            Some(piece) => {
                let cutter = self.cutter.as_mut().expect("the end was not reached");
                cutter.push(&piece, &mut each)?;
            }
            None => {
                let cutter = self.cutter.take().expect("the end was not reached");
                cutter.finish(&mut each)?;
            }
        }
        Ok(Step::On)
    }
}
