//! Changes below a watched directory, and the control messages that report them.

use deltic_tree::RelPath;
use deltic_tree::path::printable;
use serde::{Deserialize, Serialize};

use crate::control::{FromServer, MAX_CHANGED_BYTES};

/// Most bytes of a [`FromServer::Changed`] message besides its paths.
const ENVELOPE_BYTES: usize = 96;

/// A path that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Path in the volume. Bytes of names that are not UTF-8 are written as `\xNN`, as in listings.
    pub path: String,
    /// State of the path after the change.
    pub became: ChangeKind,
}

/// State of a path after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A file at the path has a new version, or a new entry is at the path.
    Put,
    /// No entry is at the path.
    Gone,
}

impl PathChange {
    /// Returns a change of `path`.
    #[must_use]
    pub fn new(path: &RelPath, became: ChangeKind) -> Self {
        Self { path: printable(path.as_bytes()), became }
    }

    /// Returns the length of the change in a message, with the comma after it, in bytes.
    fn bytes(&self) -> usize {
        serde_json::to_vec(self).expect("a change is plain data").len() + 1
    }
}

/// Writes and numbers the messages of a watch.
#[derive(Debug)]
pub struct WatchMessages {
    channel: u32,
    seq: u64,
}

impl WatchMessages {
    /// Returns the writer for the watch with number `channel`.
    #[must_use]
    pub const fn new(channel: u32) -> Self {
        Self { channel, seq: 0 }
    }

    /// Returns the first message, which says that changes are reported from now on.
    pub fn first_message(&mut self) -> FromServer {
        self.next(Some(Vec::new()))
    }

    /// Packs `changes`, in order, into as few messages as possible. Without changes there is no message.
    pub fn messages_for(
        &mut self,
        changes: impl IntoIterator<Item = PathChange>,
    ) -> Vec<FromServer> {
        let (mut messages, mut paths, mut bytes) = (Vec::new(), Vec::new(), ENVELOPE_BYTES);
        for change in changes {
            let more = change.bytes();
            if bytes + more > MAX_CHANGED_BYTES && !paths.is_empty() {
                messages.push(self.next(Some(std::mem::take(&mut paths))));
                bytes = ENVELOPE_BYTES;
            }
            bytes += more;
            paths.push(change);
        }
        if !paths.is_empty() {
            messages.push(self.next(Some(paths)));
        }
        messages
    }

    /// Returns the message that says that changes were lost, so the client must list the directory again.
    pub fn missed(&mut self) -> FromServer {
        self.next(None)
    }

    fn next(&mut self, paths: Option<Vec<PathChange>>) -> FromServer {
        let seq = self.seq;
        self.seq += 1;
        FromServer::Changed { channel: self.channel, seq, paths }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_path_fits_a_message() {
        let worst = vec!["\u{200b}".repeat(85); 16].join("/");
        for path in
            [vec![0xff; 255], vec![0x7f; 255], vec![b'\\'; 255], worst.into_bytes(), vec![1; 255]]
        {
            let many = vec![&path[..]; 4096 / (path.len() + 1)].join(&b'/');
            let change = PathChange::new(&RelPath::parse(&many).unwrap(), ChangeKind::Gone);
            let messages =
                WatchMessages { channel: u32::MAX, seq: u64::MAX - 9 }.messages_for([change]);
            let [message] = &messages[..] else { panic!("{}", messages.len()) };
            assert!(message.message().len() <= MAX_CHANGED_BYTES);
        }
    }

    #[test]
    fn messages_of_a_watch_are_counted() {
        let mut teller = WatchMessages::new(3);
        let first = FromServer::Changed { channel: 3, seq: 0, paths: Some(Vec::new()) };
        assert_eq!(teller.first_message(), first);
        assert!(teller.messages_for([]).is_empty());
        assert_eq!(teller.missed(), FromServer::Changed { channel: 3, seq: 1, paths: None });
    }

    proptest! {
        #[test]
        fn changes_are_told_in_order_and_in_messages_within_the_bound(
            lengths in vec((1_usize..255, any::<bool>()), 0..200),
        ) {
            let change = |(len, gone): &(usize, bool)| {
                let path = RelPath::parse(&vec![0xff; *len]).unwrap();
                PathChange::new(&path, if *gone { ChangeKind::Gone } else { ChangeKind::Put })
            };
            let changes: Vec<_> = lengths.iter().map(change).collect();
            let messages = WatchMessages::new(1).messages_for(changes.clone());
            let mut told = Vec::new();
            for (at, message) in messages.into_iter().enumerate() {
                let bytes = message.message();
                prop_assert!(bytes.len() <= MAX_CHANGED_BYTES);
                prop_assert_eq!(FromServer::parse(&bytes[1..]).unwrap(), message.clone());
                let FromServer::Changed { seq, paths: Some(paths), .. } = message else {
                    panic!("these are changes")
                };
                prop_assert_eq!(seq, at as u64);
                told.extend(paths);
            }
            prop_assert_eq!(told, changes);
        }
    }
}
