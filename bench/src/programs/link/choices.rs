//! Choices that hold for a whole run: Deltic's default options, its fixed choices, and rsync.

use clap::ValueEnum;

use super::super::peer::PeerProgram;

/// A program with options that hold for a whole run. No program flushes to the disk.
pub(super) struct LinkChoice {
    pub(super) name: String,
    pub(super) kind: ChoiceKind,
    pub(super) flags: Vec<String>,
    pub(super) compress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChoiceKind {
    /// Default options in a first run.
    Default,
    /// Default options after a run over the same link.
    Later,
    Fixed,
    Rsync,
}

/// Fixed choices beside the default options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FixedSet {
    /// Every level, and each other choice at one level
    Usual,
    /// Every combination
    Every,
}

/// A fixed choice of Deltic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FixedChoice {
    /// Level of zstd; `None` for no compression.
    level: Option<u8>,
    transfer: TransferChoice,
    streams: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferChoice {
    /// Differences from the old version, by chunks of this mean length in bytes; `None` for the usual length.
    Delta(Option<u32>),
    /// Whole files.
    Whole,
}

impl TransferChoice {
    pub(super) const ALL: [Self; 4] =
        [Self::Delta(None), Self::Delta(Some(2 << 10)), Self::Delta(Some(32 << 10)), Self::Whole];
}

/// Levels of zstd; `None` for no compression.
pub(super) const LEVELS: [Option<u8>; 5] = [None, Some(1), Some(3), Some(6), Some(9)];
const STREAMS: [u8; 2] = [1, 4];

impl FixedChoice {
    fn all(set: FixedSet) -> Vec<Self> {
        let mut all = Vec::new();
        for transfer in TransferChoice::ALL {
            for level in LEVELS {
                for streams in STREAMS {
                    all.push(Self { level, transfer, streams });
                }
            }
        }
        all.retain(|choice| set == FixedSet::Every || choice.is_usual());
        all
    }

    /// True for every level with the usual chunks, and for choices that differ from level 3 or no compression in one
    /// other point.
    fn is_usual(self) -> bool {
        let Self { level, transfer, streams } = self;
        match (transfer, streams) {
            (TransferChoice::Delta(None), 1) => true,
            (TransferChoice::Delta(Some(_)), 1) => level == Some(3),
            (TransferChoice::Delta(None), _) | (TransferChoice::Whole, 1) => {
                matches!(level, None | Some(3))
            }
            (TransferChoice::Delta(Some(_)) | TransferChoice::Whole, _) => false,
        }
    }

    fn name(self) -> String {
        let name = fixed_name(self.level, self.transfer);
        if self.streams == 1 { name } else { format!("{name}, {} streams", self.streams) }
    }

    fn flags(self) -> Vec<String> {
        let level = self.level.map_or_else(|| "--zc=none".into(), |level| format!("--zl={level}"));
        let transfer = match self.transfer {
            TransferChoice::Delta(mean) => mean.map(|mean| format!("--block-size={mean}B")),
            TransferChoice::Whole => Some("--whole-file".into()),
        };
        let streams = (self.streams > 1).then(|| format!("--streams={}", self.streams));
        [level].into_iter().chain(transfer).chain(streams).collect()
    }
}

/// Returns the name of a level with a kind of transfer.
pub(super) fn fixed_name(level: Option<u8>, transfer: TransferChoice) -> String {
    let level = level.map_or_else(|| "no compression".into(), |level| format!("zstd {level}"));
    match transfer {
        TransferChoice::Delta(None) => level,
        TransferChoice::Delta(Some(mean)) => format!("{level}, chunks of {} KiB", mean >> 10),
        TransferChoice::Whole => format!("{level}, whole"),
    }
}

/// Returns the choices of the grid: the default options first.
pub(super) fn choices(set: FixedSet) -> Vec<LinkChoice> {
    let adapted = |name: &str, kind| deltic(name.into(), kind, Vec::new());
    let fixed = FixedChoice::all(set);
    let fixed =
        fixed.into_iter().map(|fixed| deltic(fixed.name(), ChoiceKind::Fixed, fixed.flags()));
    let first = [adapted("default", ChoiceKind::Default), adapted("later run", ChoiceKind::Later)];
    let rsync = [rsync("rsync", false), rsync("rsync -z --zc=zstd", true)];
    first.into_iter().chain(fixed).chain(rsync).collect()
}

/// Returns default options of Deltic with more flags.
pub(super) fn deltic(name: String, kind: ChoiceKind, more: Vec<String>) -> LinkChoice {
    let flags = ["-rt", "--no-fsync"].map(String::from).into_iter().chain(more).collect();
    LinkChoice { name, kind, flags, compress: false }
}

fn rsync(name: &str, compress: bool) -> LinkChoice {
    let flags = ["-rt", "--no-whole-file"].map(String::from).into();
    LinkChoice { name: name.into(), kind: ChoiceKind::Rsync, flags, compress }
}

impl LinkChoice {
    pub(super) fn program(&self) -> PeerProgram {
        match self.kind {
            ChoiceKind::Rsync => PeerProgram::Rsync,
            ChoiceKind::Default | ChoiceKind::Later | ChoiceKind::Fixed => PeerProgram::Deltic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_set_has_every_level_and_each_other_choice() {
        let usual = FixedChoice::all(FixedSet::Usual);
        assert_eq!(usual.len(), 5 + 2 + 2 + 2);
        assert_eq!(FixedChoice::all(FixedSet::Every).len(), 5 * 4 * 2);
        assert!(
            TransferChoice::ALL.iter().all(|it| usual.iter().any(|choice| choice.transfer == *it))
        );
        assert!(usual.iter().any(|choice| choice.streams == 4));
    }

    #[test]
    fn a_choice_has_a_name_and_flags_of_its_own() {
        let choices = choices(FixedSet::Every);
        for (no, choice) in choices.iter().enumerate() {
            let before = &choices[..no];
            assert!(before.iter().all(|other| other.name != choice.name), "{}", choice.name);
        }
        let last = FixedChoice { level: Some(9), transfer: TransferChoice::Whole, streams: 4 };
        assert_eq!(last.name(), "zstd 9, whole, 4 streams");
        assert_eq!(last.flags(), ["--zl=9", "--whole-file", "--streams=4"]);
    }
}
