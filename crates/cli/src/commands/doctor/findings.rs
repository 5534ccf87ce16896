//! Findings of `deltic doctor`, each printed at once.

use serde::Serialize;
use serde_json::json;

use super::abilities::DirFeatures;
use crate::report::exit::Exit;
use crate::report::output::Output;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    Warning,
    Failed,
}

/// Prints each finding at once.
pub(super) struct Findings {
    json: bool,
    output: Output,
    /// The exit code of the first failed check: a sync would end with the same code.
    exit: Exit,
}

impl Findings {
    /// Starts without findings.
    pub(super) fn new(json: bool) -> Self {
        Self { json, output: Output::stdout(), exit: Exit::Success }
    }

    pub(super) fn ok(&mut self, name: &str, what: &str) {
        self.report(CheckState::Ok, name, what, None);
    }

    pub(super) fn warn(&mut self, name: &str, what: &str, mend: &str) {
        self.report(CheckState::Warning, name, what, Some(mend));
    }

    pub(super) fn fail(&mut self, exit: Exit, name: &str, what: &str, mend: Option<&str>) {
        self.report(CheckState::Failed, name, what, mend);
        if self.exit == Exit::Success {
            self.exit = exit;
        }
    }

    fn report(&mut self, state: CheckState, name: &str, what: &str, mend: Option<&str>) {
        if self.json {
            let event = json!({
                "event": "check", "name": name, "state": state, "what": what, "mend": mend
            });
            self.output.line(event.to_string());
        } else {
            let state = match state {
                CheckState::Ok => "ok",
                CheckState::Warning => "warning",
                CheckState::Failed => "failed",
            };
            self.output.line(format!("{state:8} {name}: {what}"));
            if let Some(mend) = mend {
                self.output.line(format!("{:8} mend: {mend}", ""));
            }
        }
        self.output.flush();
    }

    /// Prints the features of a directory; returns false if the directory cannot be used.
    pub(super) fn abilities(&mut self, abilities: &DirFeatures) -> bool {
        let name = &*abilities.path;
        if let Some(error) = &abilities.error {
            let (exit, mend) = match abilities.is_full {
                true => (Exit::Files, "make room there"),
                false => {
                    (Exit::Selection, "name a directory that is there and that you may write to")
                }
            };
            self.fail(exit, name, error, Some(mend));
            return false;
        }
        self.ok(name, &abilities.to_string());
        if self.json {
            self.output.line(json!({ "event": "abilities", "abilities": abilities }).to_string());
        }
        for (what, mend) in abilities.lacks() {
            self.warn(name, what, mend);
        }
        true
    }

    pub(super) fn finish(mut self) -> Exit {
        if self.json {
            self.output
                .line(json!({ "event": "diagnosis", "exit_code": self.exit.code() }).to_string());
        }
        match self.output.finish() {
            Ok(()) => self.exit,
            Err(_) => Exit::Files,
        }
    }
}
