//! `deltic man`: manual pages, from the same declarations as the words.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::version;
use crate::args;

/// Print the manual page of `deltic sync`, or write all pages
///
///   deltic man | man -l -
///   deltic man --dir ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Write the pages of all commands into DIR, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints one page or writes all.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut deltic = args::command();
    deltic.build();
    let commands: Vec<_> =
        deltic.get_subcommands().filter(|one| !one.is_hide_set()).cloned().collect();
    let Some(dir) = &args.dir else {
        let sync = commands.into_iter().find(|one| one.get_name() == "sync");
        version::print_text(&page(sync.context("there is no sync")?)?);
        return Ok(());
    };
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    for command in commands.into_iter().chain([deltic.clone()]) {
        let path = dir.join(format!("{}.1", named(&command)));
        fs::write(&path, page(command)?).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn page(mut command: clap::Command) -> Result<String> {
    let name = named(&command);
    let mut text = Vec::new();
    let usage = usage(&mut command);
    clap_mangen::Man::new(command.name(name)).render(&mut text).context("write a manual page")?;
    Ok(with_synopsis(&String::from_utf8_lossy(&text), &usage))
}

/// `deltic sync [OPTIONS] SRC... DEST`, as `--help` has it.
fn usage(command: &mut clap::Command) -> String {
    let usage = command.render_usage().to_string();
    usage.trim_start_matches("Usage:").trim().to_owned()
}

/// `page` with `usage` for a synopsis: all options by name, of which there are two hundred, tell nobody anything.
fn with_synopsis(page: &str, usage: &str) -> String {
    const HEAD: &str = ".SH SYNOPSIS\n";
    let (before, rest) = page.split_once(HEAD).unwrap_or((page, ""));
    let after = rest.find(".SH ").map_or("", |next| &rest[next..]);
    format!("{before}{HEAD}{}\n{after}", usage.replace('-', "\\-"))
}

/// `deltic-sync`, as manual pages are called.
fn named(command: &clap::Command) -> String {
    command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}
