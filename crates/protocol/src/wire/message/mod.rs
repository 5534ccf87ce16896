//! The frames of the conversation, one enum for each direction: a frame in the wrong direction cannot be constructed.
//!
//! docs/protocol.md says what each frame means and when it may come; the golden frames in `tests/golden` pin the
//! bytes.

mod answers;
mod done;
mod lines;
mod numbers;
mod payload;
mod shared_path;
mod short_entries;
mod sums;
mod to_receiver;
mod to_sender;

pub use answers::{Answers, Outcome};
pub use done::Done;
pub(crate) use lines::shortened;
pub use lines::{
    BriefDigest, ChunkLine, ChunkLines, DataLine, DigestLine, Extent, FileNo, GapLine, GroupLine,
    NameLine, ProofPrefix, ShortDigest, ShortDigestLine, ShortDigestLines, TransferKind,
};
pub use numbers::CutDigest;
pub(crate) use numbers::frames;
pub use payload::{Payload, Sparse};
pub use shared_path::{PathBefore, SharedPath};
pub use short_entries::ShortEntries;
pub use sums::{PatchStep, Sum, SumLine, Token, TokenScope};
pub use to_receiver::ToReceiver;
pub use to_sender::ToSender;
