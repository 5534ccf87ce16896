//! VectorCDC's figures.

use super::super::chunkers::{ChunkQuantity, ChunkView};
use super::item::{PaperItem, Redraw, figure, table};

/// Returns the rows of VectorCDC.
pub(super) fn items() -> Vec<PaperItem> {
    let view = |run, quantity| Redraw::Chunk(ChunkView { run, quantity });
    vec![
        figure(
            1,
            "speed of SS-CDC to the plain chunkers, random bytes",
            view("random", ChunkQuantity::TwoStages),
        ),
        figure(2, "search of the extreme byte by a tree of vectors", Redraw::Sketch),
        figure(3, "scan of a range by vectors", Redraw::Sketch),
        figure(4, "AE and RAM", Redraw::Sketch),
        figure(5, "space savings on five sets", view("releases", ChunkQuantity::Savings)),
        figure(6, "speed with AVX-512", view("random", ChunkQuantity::Best)),
        figure(7, "speed with SSE and AVX2", view("random", ChunkQuantity::InstructionSets)),
        figure(
            8,
            "speed of RAM with one of its two phases by vectors",
            view("releases", ChunkQuantity::Phases),
        ),
        table(
            1,
            "the sets, and savings with blocks of a fixed length",
            view("releases", ChunkQuantity::Fixed),
        ),
    ]
}
