//! The figures and tables of five papers, and how each is redrawn.
//!
//! Every figure and table has a row, in the order of the paper. A test checks that no number is missing.

mod beyond;
pub(crate) mod item;
mod netsync;
mod parasync;
mod skysync;
mod vectorcdc;
mod webr2sync;

use item::PaperItem;

/// A paper, or Deltic's own comparison of all systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paper {
    ParaSync,
    NetSync,
    SkySync,
    WebR2sync,
    VectorCdc,
    /// A comparison of all systems, which sync the same files in one run.
    Beyond,
}

impl Paper {
    /// All papers whose figures the manifest lists.
    pub(crate) const ALL: [Self; 6] = [
        Self::ParaSync,
        Self::NetSync,
        Self::SkySync,
        Self::WebR2sync,
        Self::VectorCdc,
        Self::Beyond,
    ];

    /// Returns the name of the page and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ParaSync => "parasync",
            Self::NetSync => "netsync",
            Self::SkySync => "skysync",
            Self::WebR2sync => "webr2sync",
            Self::VectorCdc => "vectorcdc",
            Self::Beyond => "beyond",
        }
    }

    /// Returns authors, place and year.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::ParaSync => "ParaSync (Zhang et al., FAST '26)",
            Self::NetSync => "NetSync (Xia et al., TPDS 2022)",
            Self::SkySync => "SkySync (Zhang et al.)",
            Self::WebR2sync => "WebR2sync+ (Xiao et al., FAST '18)",
            Self::VectorCdc => "VectorCDC (Udayashankar et al., FAST '25)",
            Self::Beyond => "All systems on the same work",
        }
    }

    /// Returns the number of figures and of tables.
    #[cfg(test)]
    const fn counts(self) -> (u8, u8) {
        match self {
            Self::ParaSync => (22, 1),
            Self::NetSync => (20, 3),
            Self::SkySync => (18, 2),
            Self::WebR2sync => (22, 2),
            Self::VectorCdc => (8, 1),
            Self::Beyond => (0, 2),
        }
    }
}

/// Returns the rows of a paper: figures, then tables.
pub(crate) fn items(paper: Paper) -> Vec<PaperItem> {
    match paper {
        Paper::ParaSync => parasync::items(),
        Paper::NetSync => netsync::items(),
        Paper::SkySync => skysync::items(),
        Paper::WebR2sync => webr2sync::items(),
        Paper::VectorCdc => vectorcdc::items(),
        Paper::Beyond => beyond::items(),
    }
}

#[cfg(test)]
mod tests {
    use super::item::{Label, Redraw};
    use super::*;
    use crate::papers::runs;

    #[test]
    fn each_figure_and_table_of_each_paper_has_a_row() {
        for paper in Paper::ALL {
            let (figures, tables) = paper.counts();
            let wanted = (1..=figures).map(Label::Figure).chain((1..=tables).map(Label::Table));
            let labels: Vec<_> = items(paper).iter().map(|item| item.label).collect();
            assert_eq!(labels, wanted.collect::<Vec<_>>(), "{}", paper.name());
        }
    }

    #[test]
    fn each_run_of_a_row_exists_and_each_run_has_a_row() {
        let all = || Paper::ALL.into_iter().flat_map(items);
        let mut used = Vec::new();
        for item in all() {
            match item.redraw {
                Redraw::Sync(view) => used.extend(view.runs),
                Redraw::Chunk(view) => used.push(view.run),
                _ => {}
            }
        }
        used.extend(runs::BEYOND);
        used.push(runs::KEPT);
        for name in &used {
            assert!(runs::words(name).is_some(), "{name}");
        }
        for (name, _) in runs::SYNC.iter().chain(runs::CHUNK) {
            assert!(used.contains(name), "{name} is measured for no row");
        }
    }

    #[test]
    fn what_a_row_shows_is_a_line() {
        for item in Paper::ALL.into_iter().flat_map(items) {
            let len = item.shows.chars().count();
            assert!((5..=140).contains(&len), "{}: {}", item.label.title(), item.shows);
        }
    }
}
