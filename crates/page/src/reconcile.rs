//! The plan of a synced folder, from JSON to JSON (`deltic_tree::reconcile`).
//!
//! A request has the three trees as lists, with paths as text: `"d"` for a directory, `"o"` for another kind of entry,
//! and an array for a file.

use std::collections::BTreeMap;

use deltic_tree::RelPath;
use deltic_tree::reconcile::{
    Clash, Common, Deletions, End, FileState, Guard, Naming, Node, Plan, Step, Trees, reconcile,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// A request for a plan.
#[derive(Debug, Deserialize)]
struct Request {
    ancestor: Vec<(String, Was)>,
    here: Vec<(String, Is)>,
    there: Vec<(String, Is)>,
    day: Box<str>,
    /// Names of the two ends, for the names of conflicts.
    here_name: Box<str>,
    there_name: Box<str>,
    /// True if the user has agreed to delete many files.
    #[serde(default)]
    confirmed: bool,
}

/// Tag, length, modification time and digest.
type State = (Box<str>, u64, i64, Option<Box<str>>);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Is {
    Other(String),
    File(State),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Was {
    /// The file here and there.
    File(State, State),
    Dir(IgnoredAny),
}

fn state((tag, bytes, modified, digest): State) -> FileState {
    FileState { tag, bytes, modified, digest }
}

fn node(is: Is) -> Node {
    match is {
        Is::Other(kind) if kind == "d" => Node::Dir,
        Is::Other(_) => Node::Other,
        Is::File(file) => Node::File(state(file)),
    }
}

fn common(was: Was) -> Common {
    match was {
        Was::Dir(_) => Common::Dir,
        Was::File(here, there) => Common::File { here: state(here), there: state(there) },
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

/// Returns the plan for a request, or an object with `error`.
pub(crate) fn plan(text: &[u8]) -> Vec<u8> {
    let told = match serde_json::from_slice::<Request>(text) {
        Ok(request) => planned(request),
        Err(error) => json!({ "error": error.to_string() }),
    };
    told.to_string().into_bytes()
}

fn planned(request: Request) -> Value {
    let mut bad = Vec::new();
    let trees = Trees {
        ancestor: by_path(request.ancestor, common, &mut bad),
        here: by_path(request.here, node, &mut bad),
        there: by_path(request.there, node, &mut bad),
    };
    let naming = Naming { day: request.day, here: request.here_name, there: request.there_name };
    let deletions = if request.confirmed { Deletions::Confirmed } else { Deletions::Guarded };
    let Plan { steps, clashes, guard } = reconcile(&trees, &naming, deletions);
    let mut told: Vec<Value> = clashes.iter().map(clash).collect();
    told.extend(bad.into_iter().map(|path| json!({ "is": "name", "path": path })));
    let steps: Vec<Value> = steps.iter().map(step).collect();
    json!({ "steps": steps, "clashes": told, "guard": guard.map(guarded) })
}

const fn end(end: End) -> &'static str {
    match end {
        End::Here => "here",
        End::There => "there",
    }
}

fn text(path: &RelPath) -> String {
    // All paths of a request are text.
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

fn step(step: &Step) -> Value {
    match step {
        Step::Aside { end: at, from, to } => {
            json!({ "is": "aside", "end": end(*at), "path": text(from), "to": text(to) })
        }
        Step::Move { end: at, from, to } => {
            json!({ "is": "move", "end": end(*at), "path": text(from), "to": text(to) })
        }
        Step::Delete { end: at, path } => {
            json!({ "is": "delete", "end": end(*at), "path": text(path) })
        }
        Step::MakeDir { end: at, path } => {
            json!({ "is": "make", "end": end(*at), "path": text(path) })
        }
        Step::Transfer { to, path } => {
            json!({ "is": "transfer", "end": end(*to), "path": text(path) })
        }
        Step::Compare { path } => json!({ "is": "compare", "path": text(path) }),
        Step::Adopt { path } => json!({ "is": "adopt", "path": text(path) }),
        Step::Forget { path } => json!({ "is": "forget", "path": text(path) }),
    }
}

fn clash(clash: &Clash) -> Value {
    match clash {
        Clash::Folds { end: at, path, with } => {
            json!({ "is": "folds", "end": end(*at), "path": text(path), "with": text(with) })
        }
        Clash::Other { end: at, path } => {
            json!({ "is": "other", "end": end(*at), "path": text(path) })
        }
    }
}

fn guarded(Guard { end: at, files, of }: Guard) -> Value {
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
