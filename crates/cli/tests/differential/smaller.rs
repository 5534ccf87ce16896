//! A case that fails, made smaller while it fails.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::{Case, Verdict};
use super::compare::Asked;
use crate::common::Way;
use crate::common::maker::Tree;

/// Enough for the largest cases.
const MOST_TRIES: usize = 600;

/// Most cases that are made small.
const MOST_MINIMISED: usize = 8;
static FAILED: AtomicUsize = AtomicUsize::new(0);

impl Case {
    /// What came of this case; what differs is told of the smallest case found in which something does.
    pub(crate) fn verdict_on_the_smallest(self) -> Verdict {
        match self.verdict() {
            Verdict::Differs(first) => {
                // Where much is wrong, the first cases will do.
                let many = FAILED.fetch_add(1, Ordering::Relaxed) >= MOST_MINIMISED;
                let (smallest, text) = if many { (self, first) } else { self.smallest(first) };
                Verdict::Differs(smallest.with_its_trees(text))
            }
            // Each case that is tried would take as long.
            Verdict::DelticHangs(text) => Verdict::DelticHangs(self.with_its_trees(text)),
            verdict => verdict,
        }
    }

    /// `text`, with what is needed to repeat the case.
    fn with_its_trees(&self, mut text: String) -> String {
        for (name, tree) in self.trees() {
            write!(text, "\n  {name}:").expect("a string");
            for (path, node) in &tree.0 {
                write!(
                    text,
                    "\n    {} {node:?}",
                    path.as_os_str().as_encoded_bytes().escape_ascii()
                )
                .expect("a string");
            }
        }
        let again = "cargo test --locked -p deltic-cli --test suite_command differential";
        write!(
            text,
            "\n  list {:?}, patterns {:?}\n  to repeat: DELTIC_DIFFERENTIAL_SEED={} DELTIC_DIFFERENTIAL_CASES=1 {again}\n",
            self.list, self.patterns, self.seed
        )
        .expect("a string");
        text
    }

    fn smallest(mut self, mut difference: String) -> (Self, String) {
        let (mut at, mut left_out) = (0, false);
        for _ in 0..MOST_TRIES {
            match self.lessers().into_iter().nth(at) {
                Some(lesser) => match lesser.verdict() {
                    Verdict::Differs(found) => (self, difference, left_out) = (lesser, found, true),
                    _ => at += 1,
                },
                // What could not be left out before may be now.
                None if left_out => (at, left_out) = (0, false),
                None => break,
            }
        }
        (self, difference)
    }

    /// This case without each of the things that may be missing.
    fn lessers(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut lesser = self.clone();
            change(&mut lesser);
            all.push(lesser);
        };
        for n in 1..self.options.len() {
            with(&|case| drop(case.options.remove(n)));
        }
        for (n, words) in self.options.iter().enumerate() {
            if words.len() > 1 && Asked::new(words).rules() {
                (0..words.len()).for_each(|word| with(&|case| drop(case.options[n].remove(word))));
            }
        }
        if self.way != Way::Local {
            with(&|case| case.way = Way::Local);
        }
        if self.lowered {
            with(&|case| case.lowered = false);
        }
        for n in 1..self.sources.len() {
            with(&|case| drop(case.sources.remove(n)));
        }
        for (n, (_, tree)) in self.trees().into_iter().enumerate() {
            for path in tree.0.keys().filter(|path| n > 0 || *path != "always") {
                with(&|case| case.tree_mut(n).remove(path));
            }
        }
        (0..self.list.len()).for_each(|n| with(&|case| drop(case.list.remove(n))));
        (0..self.patterns.len()).for_each(|n| with(&|case| drop(case.patterns.remove(n))));
        all
    }

    fn trees(&self) -> [(&'static str, &Tree); 4] {
        let [first, second] = &self.alternates;
        [("src", &self.new), ("dst", &self.old), ("alt1", first), ("alt2", second)]
    }

    fn tree_mut(&mut self, n: usize) -> &mut Tree {
        match n {
            0 => &mut self.new,
            1 => &mut self.old,
            n => &mut self.alternates[n - 2],
        }
    }
}
