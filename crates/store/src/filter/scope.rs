//! Rules of per-directory rules files, and their inheritance by the directories below.
//!
//! A [`Scope`] never changes. When a directory is listed, its scope is made from the scope of its parent; a directory
//! without rules files shares the scope of its parent. So walks run in parallel, and deciding about a name takes no
//! lock. A lock is taken once for each directory, to find the scope of its parent, and never if the rules name no rules
//! files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use deltic_tree::path::printable;
use deltic_tree::rule::{
    self, Action, FileSyntax, LineEnd, LineSyntax, MAX_DIR_MERGES, MAX_MERGE_DEPTH, Rule, RuleLine,
};
use deltic_tree::{Meta, Name, RelPath};

use super::dirs::{Place, dirs_between, resolved};
use super::pattern::Text;
use super::{Book, Filter, Linked, Merge, Node, Reads, git};
use crate::{StoreError, lock};

/// Rules that apply in one directory in addition to the filter's own rules.
#[derive(Clone, Debug, Default)]
pub struct Scope(Vec<Slot>);

/// A per-directory rules file, and its rules in this directory.
#[derive(Clone, Debug)]
struct Slot {
    merge: Arc<Merge>,
    /// Topmost directory in which the file is searched, if directories above the walk are searched. The search goes
    /// from there down to the start of the walk.
    from: Option<Arc<[u8]>>,
    layer: Option<Arc<Layer>>,
}

/// The rules of one file.
#[derive(Debug)]
struct Layer {
    nodes: Vec<Node>,
    /// Offset at which patterns with an anchor start: after the path of the file's directory.
    anchor: usize,
    /// Rules inherited from the directories above.
    above: Option<Arc<Self>>,
}

/// Whether the directory that contains a name is kept or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The directory is kept, so all rules apply.
    Stays,
    /// The directory is being deleted, so perishable rules do not apply.
    Goes,
}

/// Names of the root that a walk lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Every name in the root. The root's own rules file applies.
    Root,
    /// Some names in the root. The root's own rules file applies only if a rule searches the directories above the
    /// root.
    Names,
}

/// Scopes of the directories below one root. A scope without rules of its own may be dropped, and is built again on
/// demand.
#[derive(Debug)]
pub struct Scopes {
    filter: Filter,
    /// Absolute path of the root, without a slash at the end.
    base: Box<[u8]>,
    start: Start,
    known: Mutex<Known>,
}

/// Scopes by directory.
#[derive(Debug, Default)]
struct Known {
    scopes: HashMap<RelPath, Arc<Scope>>,
    /// Directories with a rules file. Their scopes are never dropped, since the rules file may be gone by now.
    own: HashSet<RelPath>,
}

impl Scopes {
    /// Returns the scopes of the root at `base`, an absolute, [clean](super::cleaned) path. `base` is empty if the
    /// tree is not in a file system.
    #[must_use]
    pub fn new(filter: Filter, base: Box<[u8]>, start: Start) -> Self {
        Self { filter, base, start, known: Mutex::default() }
    }

    /// Returns the filter of this root.
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns the [`Judge`], which decides whether names in `dir` are included.
    ///
    /// # Errors
    /// If a rules file in `dir` or in a directory above cannot be read or parsed, so its exclude rules are unknown.
    pub fn judge(&self, dir: &RelPath, reads: &dyn Reads) -> Result<Judge, StoreError> {
        Ok(self.judge_in(self.scope(dir, reads)?, dir))
    }

    /// Returns the scope of `dir`. Rules files are read once, at the first request.
    ///
    /// # Errors
    /// As [`judge`](Self::judge).
    pub fn scope(&self, dir: &RelPath, reads: &dyn Reads) -> Result<Arc<Scope>, StoreError> {
        match &self.filter.0 {
            Some(book) if !book.merges.is_empty() => Chain { scopes: self, book, reads }.known(dir),
            _ => Ok(Arc::default()),
        }
    }

    /// Returns a [`Judge`] of names in `dir` that applies only the filter's own rules, and no rules files.
    pub fn judge_by_global_rules(&self, dir: &RelPath) -> Judge {
        self.judge_in(Arc::default(), dir)
    }

    /// Returns the scope of `dir` after reading all rules files again.
    ///
    /// # Errors
    /// As [`judge`](Self::judge).
    pub fn fresh(&self, dir: &RelPath, reads: &dyn Reads) -> Result<Arc<Scope>, StoreError> {
        match &self.filter.0 {
            Some(book) if !book.merges.is_empty() => Chain { scopes: self, book, reads }.fresh(dir),
            _ => Ok(Arc::default()),
        }
    }

    /// Returns the scope of `dir`, given the scope of its parent directory.
    ///
    /// # Errors
    /// As [`judge`](Self::judge).
    pub fn enter(
        &self,
        above: &Arc<Scope>,
        dir: &RelPath,
        reads: &dyn Reads,
    ) -> Result<Arc<Scope>, StoreError> {
        match &self.filter.0 {
            Some(book) if !book.merges.is_empty() => {
                Chain { scopes: self, book, reads }.enter(above, dir)
            }
            _ => Ok(Arc::clone(above)),
        }
    }

    /// Returns the judge of names in `dir` under the rules of `scope`.
    pub fn judge_in(&self, scope: Arc<Scope>, dir: &RelPath) -> Judge {
        let Some(book) = &self.filter.0 else { return Judge(None) };
        let top = self.base.len() + 1;
        let mut slashed = [&self.base[..], b"/", dir.as_bytes()].concat();
        if !dir.is_root() {
            slashed.push(b'/');
        }
        let name_at = slashed.len();
        Judge(Some(Judging { book: Arc::clone(book), scope, slashed, top, name_at }))
    }
}

impl Known {
    fn insert(&mut self, dir: &RelPath, scope: &Arc<Scope>, is_own: bool) {
        let Self { scopes, own } = self;
        if scopes.len() >= MAX_KNOWN + 2 * own.len() {
            scopes.retain(|dir, _| own.contains(dir));
        }
        scopes.insert(dir.clone(), Arc::clone(scope));
        if is_own {
            own.insert(dir.clone());
        }
    }
}

/// Decides which names of one directory are included.
#[derive(Debug)]
pub struct Judge(Option<Judging>);

#[derive(Debug)]
struct Judging {
    book: Arc<Book>,
    scope: Arc<Scope>,
    slashed: Vec<u8>,
    top: usize,
    name_at: usize,
}

impl Judge {
    /// True if the entry `name` is included: an included entry is sent, or may be deleted.
    pub fn admits(&mut self, name: &Name, is_dir: bool) -> bool {
        self.admits_as(name, is_dir, Fate::Stays)
    }

    /// True if the entry `name` is included, given the fate of its directory.
    pub fn admits_as(&mut self, name: &Name, is_dir: bool, fate: Fate) -> bool {
        self.decide(name, is_dir, fate) != Some(Action::Exclude)
    }

    /// True if a rule includes the file `name`. False if a rule excludes the file, or no rule matches.
    pub fn risks(&mut self, name: &Name) -> bool {
        self.decide(name, false, Fate::Stays) == Some(Action::Include)
    }

    fn decide(&mut self, name: &Name, is_dir: bool, fate: Fate) -> Option<Action> {
        let judging = self.0.as_mut()?;
        judging.slashed.truncate(judging.name_at);
        judging.slashed.extend_from_slice(name.as_bytes());
        judging.slashed.push(b'/');
        let Judging { book, scope, slashed, top, .. } = &*judging;
        let text = Text { slashed, is_dir, top: *top, anchor: *top };
        scope.decide(&book.nodes, &text, fate)
    }

    /// Removes the extended attributes of an entry that the rules exclude.
    pub fn remove_excluded_xattrs(&self, meta: &mut Meta) {
        if self.0.is_some() {
            super::retain_xattrs(meta, |name| self.admits_xattr(name));
        }
    }

    /// True if the rules allow the extended attribute `name` of an entry to be sent.
    pub fn admits_xattr(&self, name: &[u8]) -> bool {
        let Some(Judging { book, scope, .. }) = &self.0 else { return true };
        scope.decide_xattr(&book.nodes, name) != Some(Action::Exclude)
    }
}

impl Scope {
    /// Returns the decision of the first of `nodes` with a matching rule about extended attributes. The attribute
    /// name is matched like an entry at the top, without a directory.
    pub(super) fn decide_xattr(&self, nodes: &[Node], name: &[u8]) -> Option<Action> {
        let slashed = [b"/", name, b"/"].concat();
        let text = Text { slashed: &slashed, is_dir: false, top: 1, anchor: 1 };
        nodes.iter().find_map(|node| match node {
            Node::Rule(rule) if rule.xattr => rule.matches(&text).then_some(rule.action),
            Node::Rule(_) => None,
            Node::Merge(n) => {
                let own = self.0.get(*n)?.layer.as_deref();
                let mut layers = std::iter::successors(own, |layer| layer.above.as_deref());
                layers.find_map(|layer| self.decide_xattr(&layer.nodes, name))
            }
        })
    }

    /// Returns the decision of the first of `nodes` with a matching rule about entries.
    fn decide(&self, nodes: &[Node], text: &Text<'_>, fate: Fate) -> Option<Action> {
        nodes.iter().find_map(|node| match node {
            Node::Rule(rule) if rule.xattr || (rule.perishable && fate == Fate::Goes) => None,
            Node::Rule(rule) => rule.matches(text).then_some(rule.action),
            Node::Merge(n) => {
                let slot = self.0.get(*n)?;
                let own = slot.layer.as_deref();
                let mut layers = std::iter::successors(own, |layer| layer.above.as_deref());
                let action = layers.find_map(|layer| {
                    self.decide(&layer.nodes, &Text { anchor: layer.anchor, ..*text }, fate)
                });
                // A later rule may still exclude a name that git does not ignore.
                let is_git = slot.merge.reading.syntax == LineSyntax::Git;
                action.filter(|action| !(is_git && *action == Action::Include))
            }
        })
    }
}

/// Builds the scope of a directory from the scopes of the directories above.
#[derive(Clone, Copy)]
struct Chain<'a> {
    scopes: &'a Scopes,
    book: &'a Book,
    reads: &'a dyn Reads,
}

impl Chain<'_> {
    /// Returns the scope of `dir`, built on the nearest known scope above.
    fn known(&self, dir: &RelPath) -> Result<Arc<Scope>, StoreError> {
        let (mut missing, mut at) = (Vec::new(), dir.clone());
        let mut scope = loop {
            if let Some(scope) = lock(&self.scopes.known).scopes.get(&at) {
                break Arc::clone(scope);
            }
            missing.push(at.clone());
            match at.split_last() {
                Some((above, _)) => at = above,
                None => break self.above_root()?,
            }
        };
        for dir in missing.iter().rev() {
            let own = self.enter(&scope, dir)?;
            lock(&self.scopes.known).insert(dir, &own, !Arc::ptr_eq(&own, &scope));
            scope = own;
        }
        Ok(scope)
    }

    /// Returns the scope of `dir`, built from the top down.
    fn fresh(&self, dir: &RelPath) -> Result<Arc<Scope>, StoreError> {
        let mut scope = self.enter(&self.above_root()?, &RelPath::root())?;
        let mut at = RelPath::root();
        for name in dir.components() {
            at = Name::new(name).and_then(|name| at.join(&name)).expect("a part of a path");
            scope = self.enter(&scope, &at)?;
        }
        Ok(scope)
    }

    /// Returns the scope that the root inherits, from the rules files in the directories above the root.
    fn above_root(&self) -> Result<Arc<Scope>, StoreError> {
        let Scopes { base, start, .. } = self.scopes;
        // For a walk of some names in the root, the root itself is one of the directories above.
        let path = match start {
            Start::Root => base.to_vec(),
            Start::Names => [base, &b"/"[..]].concat(),
        };
        let slot = |merge: &Arc<Merge>| {
            let from = self.first_above(merge, &path);
            Slot { merge: Arc::clone(merge), from, layer: None }
        };
        let mut scope = Scope(self.book.merges.iter().map(slot).collect());
        let mut n = 0;
        // A rules file may name further rules files.
        while n < scope.0.len() {
            self.fill_above(&mut scope, n, &path)?;
            n += 1;
        }
        Ok(Arc::new(scope))
    }

    /// Returns the topmost directory in which to search for the rules file of `merge`. `path` is the directory of the
    /// listed names. `None` if no directory above is searched.
    fn first_above(&self, merge: &Merge, path: &[u8]) -> Option<Arc<[u8]>> {
        match (&merge.above, merge.reading.syntax) {
            (_, LineSyntax::Git) => {
                let is_top = |dir: &&[u8]| {
                    self.reads.reader_above(dir).is_some_and(|dir| dir.has_file(&git_dir()))
                };
                let root_is_top =
                    self.scopes.start == Start::Root && self.reads.has_file(&git_dir());
                let mut dirs = dirs_between(b"", path).rev();
                if root_is_top { None } else { dirs.find(is_top).map(Arc::from) }
            }
            (None, _) => None,
            (Some(above), _) => Some(resolved(self.reads, &self.scopes.base, above)),
        }
    }

    /// Reads rules file `n` of each searched directory above `path`, downwards. Returns true if the scope changed.
    fn fill_above(&self, scope: &mut Scope, n: usize, path: &[u8]) -> Result<bool, StoreError> {
        let Some(from) = scope.0[n].from.clone() else { return Ok(false) };
        if !self.reads.may_read(&self.scopes.base, &from) {
            let file = [&from[..], b"/", scope.0[n].merge.name.as_bytes()].concat();
            let why = "it is not in the directory that this end is restricted to".into();
            return Err(StoreError::Rules { file: printable(&file), why });
        }
        let mut changed = false;
        for path in dirs_between(&from, path) {
            changed |= match self.below_root(path) {
                Some(dir) => self.fill(scope, n, &Place { dir: &dir, reads: self.reads, path })?,
                None => match self.reads.reader_above(path) {
                    Some(above) => {
                        let place = Place { dir: &RelPath::root(), reads: &*above, path };
                        self.fill(scope, n, &place)?
                    }
                    None => false,
                },
            };
        }
        Ok(changed)
    }

    /// Returns the directory at the absolute path `path`, `None` if outside of the root.
    fn below_root(&self, path: &[u8]) -> Option<RelPath> {
        match path.strip_prefix(&*self.scopes.base)? {
            [] => Some(RelPath::root()),
            [b'/', dir @ ..] => RelPath::parse(dir).ok(),
            _ => None,
        }
    }

    /// Returns the scope of `dir`, given the scope of its parent directory.
    fn enter(&self, above: &Arc<Scope>, dir: &RelPath) -> Result<Arc<Scope>, StoreError> {
        if dir.is_root() && self.scopes.start == Start::Names {
            return Ok(Arc::clone(above));
        }
        let slashed = if dir.is_root() { Vec::new() } else { [b"/", dir.as_bytes()].concat() };
        let path = [&self.scopes.base[..], &slashed].concat();
        let place = Place { dir, reads: self.reads, path: &path };
        let mut scope = (**above).clone();
        let mut changed = false;
        let mut n = 0;
        // A rules file may name further rules files, which may be in directories above as well.
        while n < scope.0.len() {
            if n >= above.0.len() {
                changed |= self.fill_above(&mut scope, n, &path)?;
            }
            changed |= self.fill(&mut scope, n, &place)?;
            n += 1;
        }
        Ok(if changed { Arc::new(scope) } else { Arc::clone(above) })
    }

    /// Reads rules file `n` of the directory at `place`. Returns true if the scope changed.
    fn fill(&self, scope: &mut Scope, n: usize, place: &Place<'_>) -> Result<bool, StoreError> {
        let merge = Arc::clone(&scope.0[n].merge);
        if !merge.counts {
            return Ok(false);
        }
        let mut changed = false;
        if !merge.inherited {
            changed = scope.0[n].layer.take().is_some();
        }
        if merge.reading.syntax == LineSyntax::Git {
            changed |= self.fill_from_git(scope, n, place)?;
        }
        let file = place.file(merge.name.as_bytes())?;
        // git does not follow a symlink to a rules file, and treats the file as missing.
        let linked = match merge.reading.syntax {
            LineSyntax::Git => Linked::Ignore,
            _ => Linked::Follow,
        };
        let bytes = match place.reads.read(&file, linked) {
            // Another user must neither choose the file that is read, nor make this run fail.
            Err(StoreError::ForeignSymlink { .. }) => {
                self.book.ignore(place.shown(&file));
                None
            }
            read => read?,
        };
        let Some(bytes) = bytes else { return Ok(changed) };
        let mut draft = Draft {
            nodes: Vec::new(),
            anchor: place.path.len() + 1,
            above: scope.0[n].layer.clone(),
        };
        match merge.reading.syntax {
            LineSyntax::Git => draft.nodes = git::nodes(&bytes, merge.reading.marks),
            _ => {
                let (bytes, reading) = (&*bytes, &merge.reading);
                let text = Source { bytes, reading, file: &file, depth: 0 };
                self.read(&mut draft, scope, place, &text)?;
            }
        }
        place.check(&file, draft.nodes.len() <= MAX_RULES_OF_FILE, "too many rules")?;
        scope.0[n].layer = draft.finish();
        Ok(true)
    }

    /// Starts the rules of a git repository: drops all inherited rules, and adds the rules of `.git/info/exclude`.
    fn fill_from_git(
        &self,
        scope: &mut Scope,
        n: usize,
        place: &Place<'_>,
    ) -> Result<bool, StoreError> {
        if !place.reads.has_file(&place.file(b".git")?) {
            return Ok(false);
        }
        let bytes = place.reads.read(&place.file(b".git/info/exclude")?, Linked::Ignore)?;
        let marks = scope.0[n].merge.reading.marks;
        let nodes = git::nodes(&bytes.unwrap_or_default(), marks);
        scope.0[n].layer = Draft { nodes, anchor: place.path.len() + 1, above: None }.finish();
        Ok(true)
    }

    /// Adds the rules of `text` to `draft`, and the rules files that `text` names to `scope`.
    fn read(
        &self,
        draft: &mut Draft,
        scope: &mut Scope,
        place: &Place<'_>,
        text: &Source<'_>,
    ) -> Result<(), StoreError> {
        let end = if self.book.from0 { LineEnd::Nul } else { LineEnd::Line };
        let lines = rule::parse_rules(text.bytes, text.reading, end).map_err(|bad| {
            StoreError::Rules {
                file: place.shown(text.file),
                // The message does not quote the line: a symlink may lead to a file that its creator may not read.
                why: format!("line {}: {}", bad.line, bad.why.kind()),
            }
        })?;
        for line in lines {
            match line {
                RuleLine::Rule(rule) => self.add(draft, scope, &rule, place.path),
                RuleLine::CvsDefaults(marks) => {
                    for line in rule::cvs_defaults(marks) {
                        if let RuleLine::Rule(rule) = line {
                            self.add(draft, scope, &rule, place.path);
                        }
                    }
                }
                RuleLine::Clear => {
                    draft.nodes.clear();
                    draft.above = None;
                }
                RuleLine::Merge { file, reading } => {
                    place.check(text.file, text.depth < MAX_MERGE_DEPTH, rule::TOO_DEEP)?;
                    let inner = place.merged(text.file, &file)?;
                    let missing = || StoreError::Rules {
                        file: place.shown(text.file),
                        why: "a file that it merges is not there".into(),
                    };
                    let bytes = place.reads.read(&inner, Linked::Follow)?.ok_or_else(missing)?;
                    let (bytes, reading, depth) = (&*bytes, &reading, text.depth + 1);
                    let text = Source { bytes, reading, file: &inner, depth };
                    self.read(draft, scope, place, &text)?;
                }
            }
            place.check(text.file, draft.nodes.len() <= MAX_RULES_OF_FILE, "too many rules")?;
            place.check(text.file, scope.0.len() <= MAX_DIR_MERGES, "too many names of files")?;
        }
        Ok(())
    }

    /// Adds a rule from a rules file in the directory at `path`.
    fn add(&self, draft: &mut Draft, scope: &mut Scope, rule: &Rule, path: &[u8]) {
        match rule {
            Rule::Pattern(rule) => draft.nodes.extend(self.book.compile(rule).map(Node::Rule)),
            Rule::DirMerge(merge) => {
                let merge = self
                    .book
                    .merge(merge)
                    .filter(|merge| scope.0.iter().all(|slot| slot.merge.name != merge.name));
                draft.nodes.extend(merge.is_some().then_some(Node::Merge(scope.0.len())));
                scope.0.extend(merge.map(|merge| {
                    let from = merge.above.as_deref().unwrap_or_default();
                    let from = Some(resolved(self.reads, path, from));
                    Slot { merge, from, layer: None }
                }));
            }
        }
    }
}

/// An unfinished layer.
struct Draft {
    nodes: Vec<Node>,
    anchor: usize,
    above: Option<Arc<Layer>>,
}

impl Draft {
    fn finish(self) -> Option<Arc<Layer>> {
        let Self { nodes, anchor, above } = self;
        if nodes.is_empty() { above } else { Some(Arc::new(Layer { nodes, anchor, above })) }
    }
}

/// Content of a rules file.
struct Source<'a> {
    bytes: &'a [u8],
    reading: &'a FileSyntax,
    file: &'a RelPath,
    /// Number of files that lead to this file, each by a rule in the file before.
    depth: usize,
}

fn git_dir() -> RelPath {
    RelPath::parse(b".git").expect("a name")
}

/// Most scopes kept for one root. Each directory with a rules file raises the limit by two.
const MAX_KNOWN: usize = 4096;
/// Most rules that a per-directory rules file may have.
const MAX_RULES_OF_FILE: usize = 4096;
