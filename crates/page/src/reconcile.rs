//! The plan of a synced folder, from JSON to JSON (`deltic_tree::reconcile`).
//!
//! A request has the three trees as lists, with paths as text: `"d"` for a directory, `"o"` for another kind of entry,
//! and an array for a file.

use std::collections::BTreeMap;

use deltic_tree::RelPath;
use deltic_tree::reconcile::{
    CommonEntry, ConflictNaming, DeletionGuard, Deletions, FileVersion, PathClash, SyncEnd,
    SyncPlan, SyncStep, TreeNode, Trees, reconcile,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// A request for a plan.
#[derive(Debug, Deserialize)]
struct PlanRequest {
    ancestor: Vec<(String, CommonRow)>,
    here: Vec<(String, EndRow)>,
    there: Vec<(String, EndRow)>,
    day: Box<str>,
    /// Names of the two ends, for the names of conflicts.
    here_name: Box<str>,
    there_name: Box<str>,
    /// True if the user has agreed to delete many files.
    #[serde(default)]
    confirmed: bool,
    /// Number of files that earlier plans deleted here and there, since the user was asked last.
    #[serde(default)]
    deleted: [usize; 2],
}

/// Tag, length, modification time and digest.
type VersionRow = (Box<str>, u64, i64, Option<Box<str>>);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum EndRow {
    Other(String),
    File(VersionRow),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum CommonRow {
    /// The file here and there.
    File(VersionRow, VersionRow),
    Dir(IgnoredAny),
}

fn state((tag, bytes, modified, digest): VersionRow) -> FileVersion {
    FileVersion { tag, bytes, modified, digest }
}

fn node(is: EndRow) -> TreeNode {
    match is {
        EndRow::Other(kind) if kind == "d" => TreeNode::Dir,
        EndRow::Other(_) => TreeNode::Other,
        EndRow::File(file) => TreeNode::File(state(file)),
    }
}

fn common(was: CommonRow) -> CommonEntry {
    match was {
        CommonRow::Dir(_) => CommonEntry::Dir,
        CommonRow::File(here, there) => {
            CommonEntry::File { here: state(here), there: state(there) }
        }
    }
}

/// Returns the entries with valid paths. Adds the other paths to `bad`.
fn by_path<T, N>(
    entries: Vec<(String, T)>,
    to: fn(T) -> N,
    bad: &mut Vec<String>,
) -> BTreeMap<RelPath, N> {
    let mut found = BTreeMap::new();
    for (text, is) in entries {
        match RelPath::parse(text.as_bytes()) {
            Ok(path) if !path.is_root() => drop(found.insert(path, to(is))),
            _ => bad.push(text),
        }
    }
    found
}

/// Returns the plan of a synced folder for a request, or an object with `error`; both are JSON.
#[must_use]
pub fn plan(text: &[u8]) -> Vec<u8> {
    let told = match serde_json::from_slice::<PlanRequest>(text) {
        Ok(request) => planned(request),
        Err(error) => json!({ "error": error.to_string() }),
    };
    told.to_string().into_bytes()
}

fn planned(request: PlanRequest) -> Value {
    let mut bad = Vec::new();
    let trees = Trees {
        ancestor: by_path(request.ancestor, common, &mut bad),
        here: by_path(request.here, node, &mut bad),
        there: by_path(request.there, node, &mut bad),
    };
    let naming =
        ConflictNaming { day: request.day, here: request.here_name, there: request.there_name };
    let deletions = match request.confirmed {
        true => Deletions::Confirmed,
        false => Deletions::Guarded { before: request.deleted },
    };
    let SyncPlan { steps, clashes, guard } = reconcile(&trees, &naming, deletions);
    let mut told: Vec<Value> = clashes.iter().map(clash).collect();
    told.extend(bad.into_iter().map(|path| json!({ "is": "name", "path": path })));
    let steps: Vec<Value> = steps.iter().map(step).collect();
    json!({ "steps": steps, "clashes": told, "guard": guard.map(guarded) })
}

const fn end(end: SyncEnd) -> &'static str {
    match end {
        SyncEnd::Here => "here",
        SyncEnd::There => "there",
    }
}

fn text(path: &RelPath) -> String {
    // All paths of a request are text.
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

fn step(step: &SyncStep) -> Value {
    match step {
        SyncStep::Aside { end: at, from, to } => {
            json!({ "is": "aside", "end": end(*at), "path": text(from), "to": text(to) })
        }
        SyncStep::Move { end: at, from, to } => {
            json!({ "is": "move", "end": end(*at), "path": text(from), "to": text(to) })
        }
        SyncStep::Delete { end: at, path } => {
            json!({ "is": "delete", "end": end(*at), "path": text(path) })
        }
        SyncStep::MakeDir { end: at, path } => {
            json!({ "is": "make", "end": end(*at), "path": text(path) })
        }
        SyncStep::Transfer { to, path } => {
            json!({ "is": "transfer", "end": end(*to), "path": text(path) })
        }
        SyncStep::Compare { path } => json!({ "is": "compare", "path": text(path) }),
        SyncStep::Adopt { path } => json!({ "is": "adopt", "path": text(path) }),
        SyncStep::Forget { path } => json!({ "is": "forget", "path": text(path) }),
    }
}

fn clash(clash: &PathClash) -> Value {
    match clash {
        PathClash::Folds { end: at, path, with } => {
            json!({ "is": "folds", "end": end(*at), "path": text(path), "with": text(with) })
        }
        PathClash::Other { end: at, path } => {
            json!({ "is": "other", "end": end(*at), "path": text(path) })
        }
    }
}

fn guarded(DeletionGuard { end: at, files, of }: DeletionGuard) -> Value {
    json!({ "end": end(at), "files": files, "of": of })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(request: &Value) -> Value {
        serde_json::from_slice(&plan(request.to_string().as_bytes())).unwrap()
    }

    #[test]
    fn a_request_in_json_is_answered_by_a_plan() {
        let request = json!({
            "ancestor": [["d", "d"], ["d/a", [["1", 3, 5, null], ["x", 3, 7, null]]]],
            "here": [["d", "d"], ["d/a", ["2", 4, 6, null]]],
            "there": [["d", "d"], ["d/a", ["x", 3, 7, null]], ["../b", ["y", 1, 1, null]]],
            "day": "2026-11-29", "here_name": "laptop", "there_name": "server",
        });
        let expected = json!({
            "steps": [{ "is": "transfer", "end": "there", "path": "d/a" }],
            "clashes": [{ "is": "name", "path": "../b" }],
            "guard": null,
        });
        assert_eq!(plan_of(&request), expected);
        assert!(plan_of(&json!({}))["error"].is_string());
    }
}
