//! Appends to a file of the server by one message, an update (`carrier/src/update.rs`). The server names its version by
//! the digest of the content, so an append replaces no other content.

use std::time::Duration;

use deltic_carrier::control::FromClient;
use deltic_carrier::message::Outgoing;
use deltic_carrier::update::{Answer, Base, Head, MAX_UPDATE_BYTES, Step, encode};
use deltic_tree::RelPath;

use super::Connection;
use crate::requests::{MODE, time};
use crate::{Append, Event, HostFiles, NotRead, RequestError};

/// Most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16;

/// An append that waits for the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appending {
    channel: u32,
    /// Bytes that are copied from the server's version, and bytes that were sent for the file.
    matched: u64,
    literal: u64,
    /// Bytes of the update.
    sent: u64,
}

impl<H: HostFiles> Connection<H> {
    /// Starts to append to a file. Reads the file of the user at once. Returns the number of the transfer.
    ///
    /// # Errors
    /// [`RequestError`] if the file cannot be read, or is too long.
    pub fn append(&mut self, request: &Append) -> Result<u32, RequestError> {
        if self.has_ended {
            return Err(RequestError::Ended);
        }
        let update = self.update(request)?;
        let Append { volume, new, begins, .. } = request;
        let channel = self.control.new_channel();
        let (matched, literal, sent) = (*begins, new.len - begins, update.len() as u64);
        let appending = Appending { channel, matched, literal, sent };
        self.channels
            .open_whole(channel, MAX_ANSWER_BYTES, Duration::ZERO, appending)
            .expect("numbers repeat after billions of channels");
        self.say(FromClient::Update { channel, volume: volume.clone() }.message());
        self.send(channel, &update);
        if let Some(end) = Outgoing::new(channel).end() {
            self.say(end);
        }
        Ok(channel)
    }

    /// Returns the update that appends to the server's version.
    fn update(&self, Append { path, new, begins, .. }: &Append) -> Result<Vec<u8>, RequestError> {
        let bad = |why| RequestError::Path { path: path.clone(), why };
        let path = RelPath::parse(path.as_bytes()).map_err(bad)?;
        let fresh = new.len.checked_sub(*begins).filter(|fresh| *fresh <= MAX_UPDATE_BYTES as u64);
        let fresh = fresh.ok_or(RequestError::NoAppend)? as usize;
        let mut at = 0;
        let base = Base::from_pieces(|piece| {
            let len = (piece.len() as u64).min(begins - at) as usize;
            let got = self.host.read(new.file, at, &mut piece[..len])?;
            at += got as u64;
            Ok::<_, NotRead>(got)
        });
        let base = base.map_err(|NotRead| RequestError::NoAppend)?;
        let mut bytes = vec![0; fresh];
        let got = self.host.read(new.file, *begins, &mut bytes);
        if at != *begins || got != Ok(fresh) {
            return Err(RequestError::NoAppend);
        }
        let head = Head {
            path,
            base,
            len: new.len,
            modified: time(new.modified_ms),
            mode: MODE,
            times: true,
            modes: false,
            dir_modified: None,
        };
        let steps = [Step::Copy { start: 0, len: *begins }, Step::Bytes(&bytes)];
        let steps = steps.into_iter().filter(|step| !step.is_empty());
        encode(&head, steps).ok_or(RequestError::NoAppend)
    }
}

impl Appending {
    /// Returns the report of the answer; `None` for an invalid answer.
    pub(super) fn answered(self, answer: &[u8]) -> Option<Event> {
        let Self { channel, matched, literal, sent } = self;
        let received = answer.len() as u64;
        Some(match Answer::read(answer)? {
            Answer::Done => Event::Finished {
                channel,
                put: None,
                failed: 0,
                changed: 1,
                literal,
                matched,
                sent,
                received,
                weak: 0,
                strong: 0,
            },
            Answer::OtherBase => self.refused("the server has another version".into(), None),
        })
    }

    /// Returns the report of a refusal.
    pub(super) fn refused(self, why: String, retry_secs: Option<u32>) -> Event {
        Event::Failed { channel: self.channel, why, retry_secs }
    }
}
