//! The rows of the comparison in which all systems sync the same files.

use super::super::beyond;
use super::item::{PaperItem, Redraw, table};

/// Returns the rows of Deltic's own comparison.
pub(super) fn items() -> Vec<PaperItem> {
    vec![
        table(
            1,
            "all systems on the same work: time, bytes, processor time, memory",
            Redraw::Own(beyond::all_systems),
        ),
        table(2, "work where deltic is not within 5 % of the first", Redraw::Own(beyond::misses)),
    ]
}
