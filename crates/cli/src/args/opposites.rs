//! Negated options: `--no-OPTION` for each reversible option.

use std::collections::HashSet;

use clap::{Arg, ArgAction};

/// Adds `--no-OPTION` (and `--no-O`) for the options of `sync`, except for negated options that are declared, and for
/// options that cannot be negated.
pub(super) fn with_opposites(sync: clap::Command) -> clap::Command {
    // The argument behind an option with a value is that value, even with a leading hyphen, as in rsync.
    let sync = sync.mut_args(|arg| match takes_value(&arg) {
        true => arg.allow_hyphen_values(true),
        false => arg,
    });
    let mut known: HashSet<_> = sync.get_arguments().flat_map(long_names).collect();
    let ids: Vec<_> = sync.get_arguments().map(|arg| arg.get_id().clone()).collect();
    ids.iter().fold(sync, |sync, id| with_opposite(sync, id, &mut known))
}

/// Adds the negated form of the option `id`; `known` holds all long names so far.
fn with_opposite(sync: clap::Command, id: &clap::Id, known: &mut HashSet<String>) -> clap::Command {
    let Some(arg) = sync.get_arguments().find(|arg| arg.get_id() == id) else { return sync };
    let Some(long) = arg.get_long() else { return sync };
    let flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
    let once = matches!(long, "help" | "version" | "server" | "sender" | "daemon");
    if once || long.starts_with("no-") || !(flag || TAKEN_BACK.contains(&long)) {
        return sync;
    }
    let short = arg.get_short().map(|short| short.to_string());
    let mut fresh: Vec<_> = long_names(arg)
        .chain(short)
        .map(|name| format!("no-{name}"))
        .filter(|name| known.insert(name.clone()))
        .collect();
    let opposite = format!("no_{id}");
    if sync.get_arguments().any(|other| *other.get_id() == *opposite) {
        return sync.mut_arg(opposite, |arg| arg.aliases(fresh));
    }
    if fresh.is_empty() {
        return sync;
    }
    let arg = Arg::new(opposite).long(fresh.remove(0)).aliases(fresh).overrides_with(id.clone());
    sync.arg(arg.action(ArgAction::SetTrue).hide(true))
}

/// True if the option takes a value.
fn takes_value(arg: &Arg) -> bool {
    let takes_values = arg.get_num_args().is_none_or(|values| values.takes_values());
    arg.get_action().takes_values() && takes_values && !arg.is_positional()
}

/// Returns all long names of an option.
pub(crate) fn long_names(arg: &Arg) -> impl Iterator<Item = String> {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    arg.get_long().into_iter().chain(aliases).map(str::to_owned)
}

/// Options with a value that rsync can negate too.
const TAKEN_BACK: &[&str] = &["bwlimit", "timeout", "contimeout", "iconv"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    #[test]
    fn every_option_can_be_taken_back_unless_it_answers_or_is_refused() {
        let command = command();
        let sync = command.find_subcommand("sync").unwrap();
        let known: Vec<_> = sync.get_arguments().flat_map(long_names).collect();
        for option in sync.get_arguments() {
            let Some(long) = option.get_long() else { continue };
            let flag = matches!(option.get_action(), ArgAction::SetTrue | ArgAction::Count);
            let once = ["help", "version", "server", "sender", "daemon"].contains(&long);
            if flag && !once && !long.starts_with("no-") {
                assert!(known.contains(&format!("no-{long}")), "--no-{long}");
            }
        }
    }

    #[test]
    fn a_word_behind_an_option_that_takes_one_is_its_value_though_it_begins_with_a_hyphen() {
        let command = command();
        let sync = command.find_subcommand("sync").unwrap();
        let mut options = 0;
        for option in sync.get_arguments().filter(|option| takes_value(option)) {
            let short = option.get_short().map(|short| format!("-{short}"));
            for name in option.get_long().map(|long| format!("--{long}")).into_iter().chain(short) {
                let words = ["deltic", "sync", &name, "-v-", "src", "dst"];
                let parsed = crate::args::parse(words.into_iter().map(Into::into));
                // Only the parsing is tested, not the meaning.
                let why = parsed.map_or_else(|error| error.to_string(), |_| String::new());
                assert!(why.is_empty() || why.contains("invalid value '-v-'"), "{name}: {why}");
                options += 1;
            }
        }
        assert!(options > 50, "{options}");
    }
}
