//! Pages of the papers: text kept by hand around sections that are generated.
//!
//! A page has a part between `<!-- figures -->` and `<!-- /figures -->`. In it each figure has a section between
//! `<!-- f12: COMMAND -->` and `<!-- /f12 -->`; a run replaces the sections of the figures that it redrew. All other text
//! stays. A page that does not exist yet begins with the text of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::manifest::item::{Label, PaperItem, Redraw};
use super::manifest::{self, Paper};
use super::outcome::{Drawn, Outcome};
use crate::files::{make_dir, write};
use crate::machine::{MachineInfo, processors};
use crate::table::TextTable;

/// A row of the manifest with its outcome.
pub(crate) struct PageItem {
    pub(crate) item: PaperItem,
    pub(crate) outcome: Outcome,
}

/// The directory of the pages.
pub(crate) struct PaperPages {
    out: PathBuf,
    /// The command line of this run.
    command: String,
}

impl PaperPages {
    /// Makes the directory. Fails if a `README.md` there is no index of figures.
    pub(crate) fn new(out: &Path, command: String) -> Result<Self> {
        make_dir(out)?;
        let index = out.join("README.md");
        let title = INDEX_HEAD.lines().next().unwrap_or_default();
        if fs::read_to_string(&index).is_ok_and(|text| !text.starts_with(title)) {
            bail!(
                "{} is not an index of figures: choose another directory for --out",
                index.display()
            );
        }
        Ok(Self { out: out.into(), command })
    }

    /// Writes tables and plots, and the sections of these rows into the page of the paper.
    pub(crate) fn write(&self, paper: Paper, items: &[PageItem]) -> Result<()> {
        let path = self.out.join(format!("{}.md", paper.name()));
        let old = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => template(paper).into(),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let page = PageText::parse(&old).with_context(|| format!("read {}", path.display()))?;
        let mut sections = page.sections();
        for PageItem { item, outcome } in items {
            let Some(section) = self.section(paper, item, outcome)? else {
                sections.remove(&order(item.label));
                continue;
            };
            let word = item.label.word();
            let marked = format!("<!-- {word}: {} -->\n{section}<!-- /{word} -->\n", self.command);
            sections.insert(order(item.label), marked);
        }
        let sections: Vec<_> = sections.into_values().collect();
        let text = format!(
            "{}{BEGIN}\n\n{}\n{}\n{END}{}",
            page.head,
            sections.join("\n"),
            not_redrawn(paper),
            page.tail
        );
        write(&path, text.as_bytes())
    }

    /// Returns the section of a row, and writes its table and plot. `None` for a row that is listed only.
    fn section(&self, paper: Paper, item: &PaperItem, outcome: &Outcome) -> Result<Option<String>> {
        let mut text = format!("### {}: {}\n\n", item.label.title(), item.shows);
        match outcome {
            Outcome::Drawn(drawn) => {
                let machine = MachineInfo::here().name;
                let made = format!(
                    "Made by `{}`, {} processors of {machine}.",
                    self.command,
                    processors()
                );
                text.push_str(&wrapped(&format!(
                    "{}. {made}",
                    drawn.caption.trim_end_matches('.')
                )));
                text.push('\n');
                text.push_str(&self.tables(paper, item.label, drawn)?);
            }
            Outcome::Void(why) | Outcome::Skipped(why) => {
                writeln!(text, "{}: {why}.\n", outcome.word())?;
            }
            Outcome::Elsewhere(_) | Outcome::NotHere(_) | Outcome::Sketch => return Ok(None),
        }
        Ok(Some(text))
    }

    fn tables(&self, paper: Paper, label: Label, drawn: &Drawn) -> Result<String> {
        let dir = self.out.join(paper.name());
        make_dir(&dir)?;
        let mut text = String::new();
        for (title, table) in &drawn.tables {
            if !title.is_empty() {
                text.push_str(&format!("{title}\n\n"));
            }
            text.push_str(&format!("{}\n", table.markdown()));
        }
        if let Some(claims) = &drawn.claims {
            text.push_str(&format!("{}\n", claims.markdown()));
        }
        let word = label.word();
        if let Some((_, table)) = drawn.tables.first() {
            write(&dir.join(format!("{word}.csv")), table.csv().as_bytes())?;
            text.push_str(&format!("[CSV]({}/{word}.csv)\n\n", paper.name()));
        }
        if !drawn.commands.is_empty() {
            text.push_str(&format!("```\n{}\n```\n\n", drawn.commands.join("\n")));
        }
        if let Some(plot) = &drawn.plot {
            plot.save_svg(&dir.join(format!("{word}.svg")))?;
            text.push_str(&format!("![{}]({}/{word}.svg)\n\n", label.title(), paper.name()));
        }
        Ok(text)
    }

    /// Writes the index of all figures and tables.
    pub(crate) fn write_index(&self) -> Result<()> {
        write(&self.out.join("README.md"), index().as_bytes())
    }
}

/// A page, split at its generated part.
struct PageText<'a> {
    head: &'a str,
    generated: &'a str,
    tail: &'a str,
}

impl<'a> PageText<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let Some((head, rest)) = text.split_once(BEGIN) else {
            return Ok(Self { head: text, generated: "", tail: "\n" });
        };
        let (generated, tail) =
            rest.split_once(END).with_context(|| format!("{END} is missing"))?;
        Ok(Self { head, generated, tail })
    }

    /// Returns the sections with their marks, in the order of the paper.
    fn sections(&self) -> BTreeMap<(bool, u8), String> {
        let mut sections = BTreeMap::new();
        let mut rest = self.generated;
        while let Some(start) = rest.find("<!-- ") {
            let section = &rest[start..];
            let word = section[5..].split(':').next().unwrap_or_default();
            let end = format!("<!-- /{word} -->\n");
            let (Some(len), Some(label)) = (section.find(&end), parse_label(word)) else {
                rest = &section[5..];
                continue;
            };
            let (section, after) = section.split_at(len + end.len());
            sections.insert(order(label), section.into());
            rest = after;
        }
        sections
    }
}

/// Returns the place of a row on its page: figures, then tables.
fn order(label: Label) -> (bool, u8) {
    match label {
        Label::Figure(no) => (false, no),
        Label::Table(no) => (true, no),
    }
}

fn parse_label(word: &str) -> Option<Label> {
    let number = |word: &str| word.parse().ok();
    match word.split_at_checked(1)? {
        ("f", no) => number(no).map(Label::Figure),
        ("t", no) => number(no).map(Label::Table),
        _ => None,
    }
}

/// Lists the rows of a paper that no run redraws.
fn not_redrawn(paper: Paper) -> String {
    let mut table = TextTable::new(3, ["", "shows", "why it is not redrawn here"]);
    let mut any = false;
    for PaperItem { label, shows, redraw } in manifest::items(paper) {
        let why = match redraw {
            Redraw::Elsewhere(command) => format!("other command: {command}"),
            Redraw::NotHere(why) => why.into(),
            Redraw::Sketch => "a sketch or a list, without measurements".into(),
            _ => continue,
        };
        any = true;
        table.row([label.title(), shows.into(), why]);
    }
    if any { format!("### Not redrawn\n\n{}", table.markdown()) } else { String::new() }
}

/// Returns the index of all rows.
fn index() -> String {
    let mut text = String::from(INDEX_HEAD);
    for paper in Paper::ALL {
        text.push_str(&format!("\n## [{}]({}.md)\n\n", paper.title(), paper.name()));
        let mut table = TextTable::new(3, ["", "shows", "how it is redrawn, or why it is not"]);
        for PaperItem { label, shows, redraw } in manifest::items(paper) {
            table.row([label.title(), shows.into(), redraw.how()]);
        }
        text.push_str(&table.markdown());
    }
    text
}

/// Breaks a paragraph into lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    format!("{lines}{line}\n")
}

/// Returns the text of a page of the documentation.
const fn template(paper: Paper) -> &'static str {
    match paper {
        Paper::ParaSync => include_str!("../../../docs/papers/parasync.md"),
        Paper::NetSync => include_str!("../../../docs/papers/netsync.md"),
        Paper::SkySync => include_str!("../../../docs/papers/skysync.md"),
        Paper::WebR2sync => include_str!("../../../docs/papers/webr2sync.md"),
        Paper::VectorCdc => include_str!("../../../docs/papers/vectorcdc.md"),
        Paper::Beyond => include_str!("../../../docs/papers/beyond.md"),
    }
}

const BEGIN: &str = "<!-- figures -->";
const END: &str = "<!-- /figures -->";
const COLUMNS: usize = 120;
const INDEX_HEAD: &str = "\
# Figures and tables of the papers

Made by `deltic-bench papers`, which has a row for each figure and table of the five papers, and redraws them with equal
settings ([how](../../bench/papers.md), [papers](../papers.md)).
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_text_and_other_sections() {
        let text = "head\n<!-- figures -->\n\n<!-- f2: old -->\ntwo\n<!-- /f2 -->\n\n<!-- t1: old -->\none\n<!-- /t1 -->\n\
                    more\n<!-- /figures -->\ntail\n";
        let page = PageText::parse(text).unwrap();
        assert_eq!((page.head, page.tail), ("head\n", "\ntail\n"));
        let sections: Vec<_> = page.sections().into_values().collect();
        assert_eq!(
            sections,
            ["<!-- f2: old -->\ntwo\n<!-- /f2 -->\n", "<!-- t1: old -->\none\n<!-- /t1 -->\n"]
        );
    }

    #[test]
    fn text_that_a_run_would_lose_is_refused() {
        assert!(PageText::parse("head\n<!-- figures -->\ntext\n").is_err());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("README.md"), "# Another page\n").unwrap();
        assert!(PaperPages::new(dir.path(), String::new()).is_err());
    }

    #[test]
    fn sections_are_replaced_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let pages = |command: &str| PaperPages::new(dir.path(), command.into()).unwrap();
        let item = |no| {
            let items = manifest::items(Paper::SkySync).into_iter();
            items.into_iter().find(|item| item.label == Label::Figure(no)).unwrap()
        };
        let put = |pages: &PaperPages, no, why: &str| {
            let item = PageItem { item: item(no), outcome: Outcome::Void(why.into()) };
            pages.write(Paper::SkySync, &[item]).unwrap();
        };
        put(&pages("a"), 12, "reason one");
        put(&pages("b"), 7, "reason two");
        put(&pages("c"), 12, "reason three");
        let text = fs::read_to_string(dir.path().join("skysync.md")).unwrap();
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(
            at("<!-- f7: b -->") < at("VOID: reason two.")
                && at("VOID: reason two.") < at("<!-- f12: c -->")
        );
        assert!(!text.contains("reason one") && text.contains("VOID: reason three."));
        assert_eq!(text.matches(BEGIN).count(), 1);
    }

    #[test]
    fn a_paragraph_is_wrapped_at_words() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= COLUMNS && !line.ends_with(' ')));
        assert_eq!(text.split_whitespace().count(), 40);
    }
}
