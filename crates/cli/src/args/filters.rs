//! Filter options in the order of the command line, and the rules that they make.
//!
//! Files named on the command line are read on the machine of the command. Both ends get the rules in these files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use deltic_net::{NamedFile, Trust};
use deltic_protocol::limits::MAX_RULES;
use deltic_tree::path::printable;
use deltic_tree::rule::{
    self, Action, FileSyntax, LineEnd, LineSyntax, MAX_DIR_MERGES, MAX_MERGE_DEPTH, Rule, RuleLine,
    RuleModifiers, Rules,
};

use super::headings::CHOOSE;
use crate::words::refused::UnreadableFile;

/// Filter options in the order of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilterArgs {
    words: Vec<FilterOption>,
    cvs_exclude: bool,
    /// True if excluded names are deleted too.
    pub(crate) delete_excluded: bool,
}

/// An option that adds filter rules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FilterOption {
    Filter(OsString),
    Pattern(Action, OsString),
    From(Action, OsString),
    /// `-F`: rules from `.rsync-filter` files in each directory. A second `-F` excludes these files themselves.
    RsyncFilterFiles,
    Gitignore,
}

impl FilterArgs {
    /// Moves the first `count` rules behind the other rules, which then win.
    pub(crate) fn put_last(&mut self, count: usize) {
        self.words.rotate_left(count);
    }

    /// Builds the rules of these options, and reads the rule files that they name.
    ///
    /// With `from0`, lines of rule files end in NULs. Only symlinks that `trust` allows are followed. Names that end
    /// in `suffix` are protected, and so are directories called `partial_dir`.
    pub(crate) fn rules(
        &self,
        from0: bool,
        trust: Trust,
        suffix: Option<&[u8]>,
        partial_dir: Option<&OsStr>,
    ) -> Result<Rules> {
        let end = if from0 { LineEnd::Nul } else { LineEnd::Line };
        let mut gathered = RuleCollector { rules: Vec::new(), end, trust };
        let mut sprinkled = 0;
        for word in &self.words {
            match word {
                FilterOption::Filter(text) => {
                    gathered.add(rule::parse_rule(text.as_bytes())?, 0)?
                }
                FilterOption::Pattern(action, text) => {
                    gathered.add(rule::parse_pattern(text.as_bytes(), *action)?, 0)?;
                }
                FilterOption::From(action, path) => {
                    let lines = rule::parse_patterns(&contents(path, trust)?, *action, end);
                    gathered.add(lines.with_context(|| printable_path(path))?, 0)?;
                }
                FilterOption::RsyncFilterFiles => {
                    sprinkled += 1;
                    let text: &[u8] = match sprinkled {
                        1 => b": /.rsync-filter",
                        2 => b"- .rsync-filter",
                        _ => b"",
                    };
                    gathered.add(rule::parse_rule(text)?, 0)?;
                }
                FilterOption::Gitignore => gathered.add(rule::parse_rule(b":g")?, 0)?,
            }
        }
        if self.cvs_exclude {
            gathered.add(rule::parse_rule(b":C")?, 0)?;
            gathered.add(rule::parse_rule(b"-C")?, 0)?;
        }
        if let Some(suffix) = suffix {
            gathered.add(rule::parse_rule(&[b"P *", suffix].concat())?, 0)?;
        }
        if let Some(dir) = partial_dir.map(OsStr::as_bytes).filter(|dir| !dir.starts_with(b"/")) {
            let name = dir.strip_suffix(b"/").unwrap_or(dir);
            gathered.add(rule::parse_rule(&[b"-p ", name, b"/"].concat())?, 0)?;
        }
        let list = gathered.rules;
        Ok(Rules { list, delete_excluded: self.delete_excluded, from0 })
    }
}

/// The rules gathered so far.
struct RuleCollector {
    rules: Vec<Rule>,
    end: LineEnd,
    trust: Trust,
}

impl RuleCollector {
    fn add(&mut self, lines: impl IntoIterator<Item = RuleLine>, depth: usize) -> Result<()> {
        for line in lines {
            match line {
                RuleLine::Rule(rule) => self.rules.push(rule),
                RuleLine::Clear => self.rules.clear(),
                RuleLine::CvsDefaults(marks) => self.add_cvs(marks)?,
                RuleLine::Merge { file, reading } => {
                    self.merge(&OsString::from_vec(file.into()), &reading, depth)?;
                }
            }
            if self.rules.len() > MAX_RULES {
                bail!("more than {MAX_RULES} filter rules");
            }
            let is_merge = |rule: &&Rule| matches!(rule, Rule::DirMerge(_));
            if self.rules.iter().filter(is_merge).count() > MAX_DIR_MERGES {
                bail!("more than {MAX_DIR_MERGES} names of per-directory filter files");
            }
        }
        Ok(())
    }

    /// Adds the rules of the file `path`, at a depth of `depth` merged rule files.
    ///
    /// The author of a merged rule file may have no right to read `path`: no error shows a line of `path`.
    fn merge(&mut self, path: &OsStr, reading: &FileSyntax, depth: usize) -> Result<()> {
        let bytes = match contents(path, self.trust) {
            Err(_) if depth > 1 => Err(anyhow::Error::msg(UnreadableFile(UNREAD_WITHIN.into()))),
            bytes => bytes,
        };
        let lines = rule::parse_rules(&bytes?, reading, self.end).map_err(|bad| match depth {
            0 => bad.into(),
            _ => anyhow!("line {}: {}", bad.line, bad.why.kind()),
        });
        let lines = lines.with_context(|| printable_path(path))?;
        let merges = lines.iter().any(|line| matches!(line, RuleLine::Merge { .. }));
        if merges && depth + 1 >= MAX_MERGE_DEPTH {
            let why = format!("cannot read rules {}: {}", printable_path(path), rule::TOO_DEEP);
            return Err(anyhow::Error::msg(UnreadableFile(why)));
        }
        self.add(lines, depth + 1)
    }

    /// Adds the rules of `-C`, at the position of the option.
    fn add_cvs(&mut self, marks: RuleModifiers) -> Result<()> {
        self.add(rule::cvs_defaults(marks), MAX_MERGE_DEPTH)?;
        let reading = FileSyntax { syntax: LineSyntax::Cvs, words: true, marks };
        if let Some(home) = std::env::var_os("HOME") {
            let path = Path::new(&home).join(".cvsignore");
            match contents(path.as_os_str(), self.trust) {
                Ok(bytes) => {
                    self.add(rule::parse_rules(&bytes, &reading, LineEnd::Line)?, MAX_MERGE_DEPTH)?
                }
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let own = std::env::var_os("CVSIGNORE").unwrap_or_default();
        self.add(rule::parse_rules(own.as_bytes(), &reading, LineEnd::Line)?, MAX_MERGE_DEPTH)
    }
}

/// Reads a whole rule file, or standard input for `-`.
fn contents(path: &OsStr, trust: Trust) -> Result<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let source: Box<dyn Read> = match path == "-" {
            true => Box::new(io::stdin()),
            false => {
                Box::new(File::from(NamedFile::find_file(Path::new(path), trust)?.open_to_read()?))
            }
        };
        source.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read()
        .with_context(|| UnreadableFile(format!("cannot read rules {}", printable_path(path))))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        bail!("cannot read rules {}: more than {MAX_FILE_BYTES} bytes", printable_path(path));
    }
    Ok(bytes)
}

fn is_missing(error: &anyhow::Error) -> bool {
    let kind = error.root_cause().downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::NotFound)
}

fn printable_path(path: &OsStr) -> String {
    printable(path.as_bytes())
}

impl clap::Args for FilterArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let flag = |name: &'static str, help| {
            let arg = Arg::new(name).long(name).action(ArgAction::SetTrue);
            arg.help_heading(CHOOSE).help(help)
        };
        let sprinkled = Arg::new("F").short('F').action(ArgAction::Append).num_args(0);
        let sprinkled = sprinkled.default_missing_value("").help_heading(CHOOSE);
        command
            .arg(
                filter_arg("filter", "RULE", "Add a filter rule: '- PATTERN', ': .rules', ...")
                    .short('f'),
            )
            .arg(filter_arg("exclude", "PATTERN", "Exclude matching names; the first match wins"))
            .arg(filter_arg("include", "PATTERN", "Include matching names, whatever rule follows"))
            .arg(filter_arg(
                "exclude-from",
                "FILE",
                "Read exclude patterns from FILE, one a line (-: stdin)",
            ))
            .arg(filter_arg(
                "include-from",
                "FILE",
                "Read include patterns from FILE, one a line (-: stdin)",
            ))
            .arg(sprinkled.help("Apply .rsync-filter files; -FF: also exclude them"))
            .arg(
                flag("cvs-exclude", "Exclude files as CVS does: objects, backups, .git/")
                    .short('C'),
            )
            .arg(flag("gitignore", "Exclude files that git ignores"))
            .arg(flag("delete-excluded", "Also delete excluded names (implies --delete)"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut words: Vec<(usize, FilterOption)> = Vec::new();
        words.extend(texts(matches, "filter", FilterOption::Filter));
        for (name, action) in [("exclude", Action::Exclude), ("include", Action::Include)] {
            words.extend(texts(matches, name, |text| FilterOption::Pattern(action, text)));
            let from = |path| FilterOption::From(action, path);
            words.extend(texts(matches, &format!("{name}-from"), from));
        }
        let positions = |name| matches.indices_of(name).into_iter().flatten();
        words.extend(positions("F").map(|position| (position, FilterOption::RsyncFilterFiles)));
        if matches.get_flag("gitignore") {
            words.extend(positions("gitignore").take(1).map(|at| (at, FilterOption::Gitignore)));
        }
        words.sort_by_key(|(position, _)| *position);
        Ok(Self {
            words: words.into_iter().map(|(_, word)| word).collect(),
            cvs_exclude: matches.get_flag("cvs-exclude"),
            delete_excluded: matches.get_flag("delete-excluded"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn filter_arg(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .action(ArgAction::Append)
        .value_parser(value_parser!(OsString))
        .allow_hyphen_values(true)
        .help_heading(CHOOSE)
        .help(help)
}

/// Returns the values of one option with their positions on the command line.
fn texts(
    matches: &ArgMatches,
    name: &str,
    word: impl Fn(OsString) -> FilterOption,
) -> Vec<(usize, FilterOption)> {
    let positions = matches.indices_of(name).into_iter().flatten();
    let texts = matches.get_many::<OsString>(name).into_iter().flatten();
    positions.zip(texts).map(|(position, text)| (position, word(text.clone()))).collect()
}

/// Longest rule file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Error for an unreadable file that a merged rule file names.
const UNREAD_WITHIN: &str = "cannot read a rule file that a merged rule file names";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::fs;

    fn filters(words: &str) -> FilterArgs {
        let words = shlex::split(&format!("deltic sync {words} a b")).unwrap();
        match Cli::try_parse_from(words).unwrap().command {
            Command::Sync(args) => args.filters,
            _ => unreachable!("the words say sync"),
        }
    }

    fn patterns(words: &str) -> Vec<String> {
        let text = |rule: &Rule| match rule {
            Rule::Pattern(rule) => {
                let sign = if rule.action == Action::Include { '+' } else { '-' };
                format!("{sign}{}", String::from_utf8_lossy(&rule.pattern))
            }
            Rule::DirMerge(merge) => format!(":{}", String::from_utf8_lossy(&merge.file)),
        };
        filters(words)
            .rules(false, Trust::Ours, None, None)
            .unwrap()
            .list
            .iter()
            .map(text)
            .collect()
    }

    #[test]
    fn words_keep_their_order_whatever_their_kind() {
        assert_eq!(
            patterns(
                "--exclude=a -F --include b -f'- c' -F --gitignore --exclude '+ d' -F -f '+ e'"
            ),
            ["-a", ":/.rsync-filter", "+b", "-c", "-.rsync-filter", ":.gitignore", "+d", "+e"]
        );
        assert_eq!(patterns("-FFf '- x' -f '!' --exclude y"), ["-y"]);
        assert_eq!(patterns("-FF"), [":/.rsync-filter", "-.rsync-filter"]);
    }

    #[test]
    fn the_rules_of_cvs_come_last_unless_they_are_placed() {
        let all = patterns("-C --include core");
        assert_eq!(&all[..3], ["+core", ":.cvsignore", "-RCS"]);
        assert_eq!(patterns("-f :C -f '- x' -f -C")[..3], [":.cvsignore", "-x", "-RCS"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_or_understood_is_named() {
        let refusal = |words: &str| {
            format!("{:#}", filters(words).rules(false, Trust::Ours, None, None).unwrap_err())
        };
        assert!(refusal("-f '. /no/such'").contains("cannot read rules /no/such: "));
        assert!(refusal("--exclude-from /no/such").contains("cannot read rules /no/such: "));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rules");
        fs::write(&file, "- a\n\nbad\n").unwrap();
        let bad = refusal(&format!("-f '. {}'", file.display()));
        assert!(bad.ends_with("rules: line 3: unknown filter rule: 'bad'"), "{bad}");
        // No error shows a line of a merged file: the author of the rule may have no right to read the file.
        let (secret, inner) = (dir.path().join("secret"), dir.path().join("inner"));
        fs::write(&file, format!(". {}\n", secret.display())).unwrap();
        for (text, told) in [
            ("- a\nroot:$6$hash\n", "secret: line 2: unknown filter rule"),
            ("-hash hash\n", "secret: line 1: invalid modifier in filter rule"),
            (". /hash\n", UNREAD_WITHIN),
        ] {
            fs::write(&secret, text).unwrap();
            let bad = refusal(&format!("-f '. {}'", file.display()));
            assert!(bad.ends_with(told) && !bad.contains("hash"), "{bad}");
        }
        fs::write(&secret, format!(". {}\n", inner.display())).unwrap();
        fs::write(&inner, "hash\n").unwrap();
        let bad = refusal(&format!("-f '. {}'", file.display()));
        assert!(bad.ends_with("inner: line 1: unknown filter rule"), "{bad}");
        fs::write(&file, format!(". {}\n", file.display())).unwrap();
        let deep = format!("cannot read rules {}: too many rule files", file.display());
        assert!(refusal(&format!("-f '. {}'", file.display())).contains(&deep));
        fs::write(&file, "x\n".repeat(MAX_RULES + 1)).unwrap();
        assert!(refusal(&format!("--exclude-from {}", file.display())).contains("filter rules"));
    }
}
