//! A file of which the sender told before it was asked: it lies here until it is decided how the file is wanted.

use crate::message::FileNo;
use crate::receiver::transfer::Transfer;

/// The one file that was offered in this session.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) file: FileNo,
    /// The transfer that it comes to, until that is taken or of no use any more.
    pub(super) transfer: Option<Box<Transfer>>,
}
