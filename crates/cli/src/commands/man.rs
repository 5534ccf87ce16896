//! `deltic man` and `deltic completions`: manual pages and shell completions, from the same declarations as the
//! arguments.

use anyhow::{Context, Result};
use clap::Arg;
use clap::builder::Resettable;
use deltic_net::{NamedDir, Trust};

use crate::args;
use crate::args::tools::{CompletionsArgs, ManArgs};
use crate::report::exit::Exit;

use super::files::ResultFile;
use super::version;

/// The date of the commit; empty if the sources were not a git checkout.
const DATE: &str = env!("DELTIC_DATE");

/// Prints one manual page, or writes all pages to a directory.
pub(crate) fn run(args: &ManArgs) -> Result<()> {
    let mut deltic = args::command();
    deltic.build();
    let commands: Vec<_> =
        deltic.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
    let Some(dir) = &args.dir else {
        let command = commands.into_iter().find(|one| one.get_name() == args.command);
        version::print_text(&page(command.expect("its name is known"))?);
        return Ok(());
    };
    NamedDir::of_operator(dir)
        .open_or_create(0o777)
        .with_context(|| format!("cannot create {}", dir.display()))?;
    for command in commands.into_iter().chain([deltic.clone()]) {
        let path = dir.join(format!("{}.1", named(&command)));
        let mut output = ResultFile::create(&path, None, Trust::Ours)?;
        output.write(page(command)?.as_bytes())?;
        output.commit()?;
    }
    Ok(())
}

fn page(mut command: clap::Command) -> Result<String> {
    let name = named(&command);
    let mut text = Vec::new();
    let usage = usage(&mut command);
    let mut behind = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if command.get_name() == "sync" {
        behind += BEHIND_SYNC;
    }
    let command = command.name(name).after_help(Resettable::Reset).mut_args(with_aliases);
    let page = clap_mangen::Man::new(command).manual("Deltic").date(DATE);
    let page = page.source(concat!("Deltic ", env!("CARGO_PKG_VERSION")));
    page.render(&mut text).context("cannot write a manual page")?;
    Ok(with_synopsis(&String::from_utf8_lossy(&text), &usage) + &sections(&behind))
}

/// Adds the aliases of `arg` to its help, as `--help` shows them.
fn with_aliases(arg: Arg) -> Arg {
    let names = arg.get_visible_aliases().unwrap_or_default();
    let names: Vec<_> = names.into_iter().map(|name| format!("--{name}")).collect();
    if names.is_empty() {
        return arg;
    }
    let help = arg.get_long_help().or_else(|| arg.get_help()).cloned().unwrap_or_default();
    let label = if names.len() == 1 { "alias" } else { "aliases" };
    arg.long_help(format!("{help} [{label}: {}]", names.join(", ")))
}

/// Renders sections with their lines unchanged; each section starts with a line like `EXAMPLES:`.
fn sections(text: &str) -> String {
    let (mut page, mut is_open) = (String::new(), false);
    for line in text.lines() {
        let heading = line
            .strip_suffix(':')
            .filter(|name| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == ' '));
        let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
        let line = match heading {
            Some(name) if is_open => format!(".fi\n.SH {name}\n.nf\n"),
            Some(name) => format!(".SH {name}\n.nf\n"),
            // A dot at the start of a line would start a roff command.
            None => format!("\\&{escaped}\n"),
        };
        is_open |= heading.is_some();
        page += &line;
    }
    if is_open { page + ".fi\n" } else { page }
}

/// Sections of the manual page of `sync` that belong to no option.
const BEHIND_SYNC: &str = "
FILTER RULES:
A rule is a letter or a word, modifiers, a blank and a pattern. The first that matches decides.
  - PATTERN   exclude: left out, and not deleted at the destination
  + PATTERN   include
  H PATTERN   hide: left out          S PATTERN   show
  P PATTERN   protect: not deleted    R PATTERN   risk: deleted
  . FILE      merge: the rules in FILE
  : FILE      dir-merge: the rules in the FILE of each directory
  !           clear: no rule before it counts
Modifiers, behind the letter or behind a comma:
  /  the pattern is of the whole path    !  of what does not match
  C  the rules of --cvs-exclude          s  for the sender   r  for the receiver
  p  not in directories that are removed  x  names of extended attributes
of files of rules too:
  e  leave the file out                  n  not in directories below
  w  rules end at blanks                 -  +  each line is a pattern to exclude, to include
  g  as in .gitignore
Patterns:
  /name       where the transfer starts, or where the file of rules is
  name/       directories only
  a/b         the end of a path          name        the last name in a path
  *  anything but a slash    **  anything    ?  one character but a slash    [a-z]  one of these
  dir/***     the directory and all in it

ENVIRONMENT:
  DELTIC_RSH, RSYNC_RSH       the remote shell (-e)
  DELTIC_RSYNC                1: rsync's ways, as under the name rsync
  DELTIC_CONFIG               the one configuration file to read, or none
  DELTIC_OPTION               an option that may be set, as DELTIC_MAX_DELETE=500
  DELTIC_CACHE_DIR            where what is known of files is kept, else XDG_CACHE_HOME
  DELTIC_ISA                  the instruction set that chunkers use
  RSYNC_PARTIAL_DIR           --partial-dir for --partial
  CVSIGNORE, HOME             rules of --cvs-exclude
  NO_COLOR                    no colours
  TZ                          the zone of times that are shown

FILES:
  DEST/.deltic                new versions while they grow; removed at the end of a run
  ~/.config/deltic/config.toml, /etc/deltic/config.toml
                              options of all runs, and profiles
  ~/.cache/deltic             what is known of files: digests for -c, recipes of large ones; may be removed
  .rsync-filter, .gitignore   rules of each directory (-F, --gitignore)
  ~/.cvsignore, .cvsignore    rules of --cvs-exclude

SEE ALSO:
  deltic(1), deltic-verify(1), deltic-watch(1), ssh(1)
";

/// Returns the usage as in `--help`: `deltic sync [OPTIONS] SRC... DEST`.
fn usage(command: &mut clap::Command) -> String {
    let usage = command.render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_owned()
}

/// Replaces the synopsis of `page` by `usage`: a synopsis of two hundred options is of no use.
fn with_synopsis(page: &str, usage: &str) -> String {
    const HEAD: &str = ".SH SYNOPSIS\n";
    let (before, rest) = page.split_once(HEAD).unwrap_or((page, ""));
    let after = rest.find(".SH ").map_or("", |next| &rest[next..]);
    format!("{before}{HEAD}{}\n{after}", usage.replace('-', "\\-"))
}

/// Returns the name of a manual page, such as `deltic-sync`.
fn named(command: &clap::Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

/// Prints a script for the completion of arguments by a shell.
pub(crate) fn complete(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut completed(&args.name), &args.name, &mut script);
    version::print_text(&String::from_utf8_lossy(&script))
}

/// Returns the command to complete, without hidden subcommands.
fn completed(name: &str) -> clap::Command {
    let all = args::command();
    match all.find_subcommand("sync").filter(|_| name == "rsync") {
        Some(sync) => sync.clone().name("rsync"),
        None => {
            let shown = all.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
            let deltic = clap::Command::new("deltic").version(env!("CARGO_PKG_VERSION"));
            deltic.disable_help_subcommand(true).subcommands(shown)
        }
    }
}
