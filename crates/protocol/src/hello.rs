//! The greeting: who we are, what we share, and what this session is for.
//!
//! Both ends send [`MAGIC`] and a [`Hello`] at once; [`negotiate`] turns the two into [`Terms`], which nothing else can
//! make. Then the dialling end sends one [`Request`] and the other answers with one [`Reply`].

use std::collections::BTreeSet;

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::strategy::Conversation;
use deltic_core::{Fingerprint, Fingerprinter, Key, KeyedSum, Packed, Strategy, SumKey};
use deltic_tree::Name;
use deltic_tree::meta::Inode;
use deltic_tree::path::printable;

use crate::error::PeerError;
use crate::frame::framed;
use crate::limits::{
    MAX_BATCH, MAX_BLOCK_BYTES, MAX_CAPABILITIES, MAX_GREETING_BYTES, MAX_LEVEL, MAX_NAMES,
    MAX_NAMES_BYTES, MAX_RULES, MAX_SOURCES, MAX_STREAMS, MAX_TEXT_BYTES, MAX_THREADS,
};
use crate::options::{Delete, Guard, Metadata, Options};
use crate::streams::Join;
use crate::wire::{Bad, Wire, whole};

/// The first bytes of either direction.
pub const MAGIC: [u8; 8] = *b"deltic/1";

/// The conversation that every end of this version holds.
const RECIPE: &str = "recipe:keyed-8";
/// Content-defined chunks by the sieve.
const SIEVE: &str = "chunker:sieve";
/// Chunks named by the keyed sum: of an end that takes it fast.
const KEYED: &str = "names:keyed";
/// Literals compressed by zstd.
const ZSTD: &str = "compress:zstd";
/// Literals without their long runs of zeros.
const ZEROS: &str = "zeros";
/// Checks behind frames, by CRC-32C.
const CHECKS: &str = "checks:crc32c";
/// More streams than one.
const STREAMS: &str = "streams";
/// A guard that allows a share of the names to be deleted.
const DELETE_SHARE: &str = "delete:share";
/// Troubles that say where they happened.
const TROUBLES: &str = "troubles:located";

/// Totals that say how much was resumed.
const RESUMED: &str = "totals:resumed";
/// Changes that say why a name is passed over.
const PASSED_OVER: &str = "changes:passed-over";

/// Behind it, how many files of a session an end can hold open at once.
const FILES: &str = "files:";

const HELLO: u8 = 1;
const REQUEST: u8 = 2;
const REPLY: u8 = 3;
const NAMES: u8 = 5;
/// The last frame of an end that gives up; its payload says why.
const ABORT: u8 = 4;
const ALIVE: u8 = 6;

/// What one end can do, by name. Unknown names are ignored, so that new ones can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The program and its version, for people.
    pub program: String,
    /// Names of capabilities.
    pub capabilities: BTreeSet<String>,
    /// This end's part of the session's key, drawn at random.
    pub part: Key,
}

impl Hello {
    /// The type of the frame.
    pub const KIND: u8 = HELLO;

    /// What this version can do; `part` is drawn at random.
    #[must_use]
    pub fn ours(part: Key) -> Self {
        let names = [RECIPE, SIEVE, CHECKS, ZSTD, ZEROS, STREAMS, DELETE_SHARE, RESUMED]
            .into_iter()
            .chain([TROUBLES, PASSED_OVER])
            .chain(KeyedSum::is_fast().then_some(KEYED));
        let strategies = Strategy::ALL.iter().map(capability);
        Self {
            program: concat!("deltic ", env!("CARGO_PKG_VERSION")).into(),
            capabilities: names.map(String::from).chain(strategies).collect(),
            part,
        }
    }

    /// The same of an end that does without the fast names of chunks: both name them by BLAKE3 then.
    #[must_use]
    pub fn by_blake3(mut self) -> Self {
        self.capabilities.remove(KEYED);
        self
    }

    /// The same of an end that reads or writes in these places of its machine, as [`place`](Self::place) names them.
    #[must_use]
    pub fn at(mut self, places: &[Fingerprint]) -> Self {
        self.capabilities.extend(places.iter().map(in_place));
        self
    }

    /// The same of an end that can hold no more than so many files of a session open at once.
    #[must_use]
    pub fn holding(mut self, files: Option<usize>) -> Self {
        self.capabilities.extend(files.map(|files| format!("{FILES}{files}")));
        self
    }

    /// The version of the program that says this, or the program where it is another one.
    #[must_use]
    pub fn version(&self) -> &str {
        self.program.strip_prefix("deltic ").unwrap_or(&self.program)
    }

    /// How many files of a session it can hold open at once, if few.
    fn most_files(&self) -> Option<usize> {
        let numbers = self.capabilities.iter().filter_map(|name| name.strip_prefix(FILES));
        numbers.filter_map(|number| number.parse().ok()).min()
    }

    /// Whether it reads or writes there.
    #[must_use]
    pub fn is_at(&self, place: &Fingerprint) -> bool {
        self.capabilities.contains(&in_place(place))
    }

    /// What the end that says this calls the entry `inode` of the machine that was started as `boot`: who is not on that machine
    /// learns nothing of it.
    #[must_use]
    pub fn place(&self, boot: &[u8], inode: Inode) -> Fingerprint {
        let Inode { device, number } = inode;
        let numbers = [device.to_le_bytes(), number.to_le_bytes()].concat();
        Fingerprint::of(&[&self.part.as_bytes()[..], boot, &numbers].concat())
    }

    /// How the sender that says this names chunks before it has heard the receiver, whom it takes for one like itself.
    #[must_use]
    pub fn names(&self) -> Fingerprinter {
        fingerprinter(self.capabilities.contains(KEYED), &self.part.of_session())
    }

    /// The frame that says so.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(HELLO, |to| {
            self.program.put(to);
            self.capabilities.iter().cloned().collect::<Vec<_>>().put(to);
            to.put_bytes(self.part.as_bytes());
        })
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, HELLO, "anything before the hello")?;
        whole("Hello", payload, |from| {
            let (program, names) = (String::take(from)?, Vec::<String>::take(from)?);
            let part = Key::from_bytes(from.array()?);
            if names.len() > MAX_CAPABILITIES {
                return Err(Bad::Limit("capabilities"));
            }
            Ok(Self {
                program: printable(program.as_bytes()),
                capabilities: names.into_iter().collect(),
                part,
            })
        })
    }
}

/// Checks the first bytes of the stream.
///
/// # Errors
/// [`PeerError::NotDeltic`], with what came instead, or before it; [`PeerError::Rsync`].
pub fn check_magic(bytes: &[u8]) -> Result<(), PeerError> {
    if bytes == MAGIC {
        return Ok(());
    }
    // Its server begins with the version of its protocol, its daemon with a word.
    let is_rsync = matches!(bytes, [27..=99, 0, 0, 0, ..]) || bytes.starts_with(b"@RSYNCD:");
    if is_rsync {
        return Err(PeerError::Rsync);
    }
    let magic = bytes.windows(MAGIC.len()).position(|window| window == MAGIC);
    Err(PeerError::NotDeltic(printable(&bytes[..magic.unwrap_or(bytes.len())])))
}

/// What an end that knows a strategy says. The meaning of a name never changes.
fn capability(strategy: &Strategy) -> String {
    format!("strategy:{}", strategy.name)
}

fn in_place(place: &Fingerprint) -> String {
    format!("place:{place}")
}

/// What both ends agreed on. Only [`negotiate`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    zstd: bool,
    zeros: bool,
    streams: bool,
    delete_share: bool,
    resumed: bool,
    troubles: bool,
    passed_over: bool,
    keyed: bool,
    /// Whether the sender may name chunks before it knows the receiver: it guesses [`Terms::is_keyed`] right.
    offers: bool,
    /// A bit for each of [`Strategy::ALL`].
    strategies: u32,
    /// How many files the sender can hold open at once, if few.
    most_files: Option<usize>,
    key: Key,
    /// The sender's, which the key was made of.
    part: Key,
}

impl Terms {
    /// Whether literals may travel as zstd frames.
    #[must_use]
    pub const fn zstd(self) -> bool {
        self.zstd
    }

    /// Whether literals may travel without their long runs of zeros. Strategies of the papers send what they would.
    #[must_use]
    pub fn zeros(self, strategy: &Strategy) -> bool {
        self.zeros && strategy.conversation == Conversation::Recipe
    }

    /// Whether troubles may say where they happened.
    #[must_use]
    pub const fn troubles(self) -> bool {
        self.troubles
    }

    /// Whether the session may have more streams than one.
    #[must_use]
    pub const fn streams(self) -> bool {
        self.streams
    }

    /// Whether totals may say how much was resumed.
    #[must_use]
    pub const fn resumed(self) -> bool {
        self.resumed
    }

    /// True where changes may say why a name is passed over.
    #[must_use]
    pub const fn passed_over(self) -> bool {
        self.passed_over
    }

    /// Checks that both ends know a strategy, and this way to delete.
    ///
    /// # Errors
    /// [`PeerError::NothingInCommon`].
    pub fn admits(self, strategy: &Strategy, delete: Delete) -> Result<(), PeerError> {
        if matches!(delete, Delete::Guarded(Guard { percent: Some(_), .. })) && !self.delete_share {
            return Err(PeerError::NothingInCommon("--max-delete in percent"));
        }
        let place = Strategy::ALL.iter().position(|known| known == strategy);
        let admitted = *strategy == Strategy::DELTIC
            || place.is_some_and(|place| self.strategies >> place & 1 == 1);
        if admitted { Ok(()) } else { Err(PeerError::NothingInCommon("strategy of this name")) }
    }

    /// The key of strong sums in this session.
    #[must_use]
    pub const fn sum_key(self) -> SumKey {
        SumKey::from_bytes(*self.key.as_bytes())
    }

    /// How chunks are named in this session. Strategies of the papers prove what they found by BLAKE3.
    #[must_use]
    pub fn fingerprinter(self, strategy: &Strategy) -> Fingerprinter {
        if strategy.conversation == Conversation::Recipe {
            self.fingerprinter_with(&self.key)
        } else {
            Fingerprinter::blake3(&self.key)
        }
    }

    /// How chunks of a file are named whose transfer began in another session, under that session's `key`.
    #[must_use]
    pub fn fingerprinter_with(self, key: &Key) -> Fingerprinter {
        fingerprinter(self.keyed, key)
    }

    /// Whether chunks are named by the keyed sum; else by BLAKE3 with a key.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        self.keyed
    }

    /// The session's key.
    #[must_use]
    pub const fn key(self) -> Key {
        self.key
    }

    /// The sender's part, which the key is made of.
    #[must_use]
    pub const fn part(self) -> Key {
        self.part
    }

    /// Whether [`Hello::names`] of the sender are the session's: what it offers before it has heard the receiver is good.
    #[must_use]
    pub const fn offers(self) -> bool {
        self.offers
    }

    /// How many files the sender can hold open at once, if few.
    #[must_use]
    pub const fn most_files(self) -> Option<usize> {
        self.most_files
    }

    /// What sums of the blocks of gaps are taken with.
    #[must_use]
    pub fn gap_seed(self) -> u64 {
        self.key.seed()
    }
}

/// How chunks are named with `key`: by the keyed sum, or by BLAKE3.
fn fingerprinter(keyed: bool, key: &Key) -> Fingerprinter {
    if keyed { Fingerprinter::keyed(key) } else { Fingerprinter::blake3(key) }
}

/// What two ends can do together; the same whichever of them computes it.
///
/// # Errors
/// [`PeerError::NothingInCommon`] where a session needs what one of them lacks.
pub fn negotiate(sender: &Hello, receiver: &Hello) -> Result<Terms, PeerError> {
    let both =
        |name: &str| sender.capabilities.contains(name) && receiver.capabilities.contains(name);
    if !both(RECIPE) {
        return Err(PeerError::NothingInCommon("conversation"));
    }
    if !both(SIEVE) {
        return Err(PeerError::NothingInCommon("chunker"));
    }
    if !both(CHECKS) {
        return Err(PeerError::NothingInCommon("checks"));
    }
    let known = Strategy::ALL.iter().enumerate().filter(|(_, known)| both(&capability(known)));
    let strategies = known.fold(0, |bits, (place, _)| bits | 1 << place);
    let (zstd, zeros) = (both(ZSTD), both(ZEROS));
    let (streams, keyed) = (both(STREAMS), both(KEYED));
    let (delete_share, resumed) = (both(DELETE_SHARE), both(RESUMED));
    let (troubles, passed_over) = (both(TROUBLES), both(PASSED_OVER));
    let offers = keyed == sender.capabilities.contains(KEYED);
    let (part, key) = (sender.part, sender.part.of_session());
    let most_files = sender.most_files();
    Ok(Terms {
        zstd,
        zeros,
        streams,
        delete_share,
        resumed,
        troubles,
        passed_over,
        keyed,
        offers,
        strategies,
        most_files,
        key,
        part,
    })
}

/// What the dialling end asks of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Be the sender of these paths.
    Send {
        /// Path arguments, as the user gave them.
        sources: Vec<Box<[u8]>>,
        /// Which names below the only one of them are meant.
        names: NamesFrom,
        /// How to sync.
        options: Options,
    },
    /// Be the receiver.
    Receive {
        /// The destination argument, as the user gave it.
        destination: Box<[u8]>,
        /// The source's own name where it is one entry with nothing in it: the destination may then be its new name.
        single: Option<Name>,
        /// Where names below the only source are listed that the answering end is to tell, if it is to.
        names: NamesFrom,
        /// How to sync.
        options: Options,
    },
}

/// Where the names are written that a [`Request`] is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamesFrom {
    /// Nowhere: the sources stand for themselves.
    #[default]
    Nowhere,
    /// In a file of the answering end.
    File {
        /// Its path.
        path: Box<[u8]>,
        /// Whether names end in NULs there, and not with their lines.
        nul: bool,
    },
    /// In frames that follow the request; an empty one is the last.
    Frames,
}

impl Wire for NamesFrom {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Nowhere => to.put_u8(0),
            Self::File { path, nul } => {
                to.put_u8(1);
                path.put(to);
                nul.put(to);
            }
            Self::Frames => to.put_u8(2),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Nowhere),
            1 => Ok(Self::File { path: Wire::take(from)?, nul: Wire::take(from)? }),
            2 => Ok(Self::Frames),
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

/// Some of the names that a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<Box<[u8]>>);

impl Names {
    /// Checks that the other end takes all of `names`.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where they are more than it does, or longer together.
    pub fn check(names: &Packed) -> Result<(), PeerError> {
        let bytes: usize = names.iter().map(|(_, name)| name.len()).sum();
        if names.len() > MAX_NAMES || bytes > MAX_NAMES_BYTES {
            return Err(PeerError::Limit("names"));
        }
        Ok(())
    }

    /// The frames that tell all of `names`, none of which is longer than a text may be, the last of them empty.
    pub fn frames(names: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
        let mut names = names.peekable();
        let mut told = false;
        std::iter::from_fn(move || {
            let (mut part, mut weight) = (Vec::new(), 0);
            let mut fits = |name: &Vec<u8>| {
                weight += name.len() + 3;
                weight <= MAX_GREETING_BYTES - MAX_TEXT_BYTES
            };
            while part.len() < MAX_BATCH
                && let Some(name) = names.next_if(&mut fits)
            {
                part.push(name.into());
            }
            let is_last = part.is_empty();
            (!std::mem::replace(&mut told, is_last)).then(|| Self(part).encode())
        })
    }

    /// The frame of these.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(NAMES, |to| self.0.put(to))
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, NAMES, "anything before the last name")?;
        whole("Names", payload, |from| Wire::take(from).map(Self))
    }
}

impl Request {
    /// The frame that asks so.
    ///
    /// # Panics
    /// On a request that does not [fit](Self::fits).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(REQUEST, |to| self.put(to))
    }

    /// Whether the other end will take it: arguments and rules are bounded, in number and in bytes.
    #[must_use]
    pub fn fits(&self) -> bool {
        let (sources, options) = match self {
            Self::Send { sources, options, .. } => (sources.len(), options),
            Self::Receive { options, .. } => (1, options),
        };
        let mut payload = Vec::new();
        self.put(&mut payload);
        let Metadata { chmod, user_map, group_map, .. } = &options.metadata;
        let texts = [chmod.text(), user_map.text(), group_map.text()];
        sources <= MAX_SOURCES
            && options.rules.list.len() <= MAX_RULES
            && texts.iter().all(|text| text.len() <= MAX_TEXT_BYTES)
            && payload.len() <= MAX_GREETING_BYTES
    }

    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Send { sources, names, options } => {
                to.put_u8(0);
                sources.put(to);
                names.put(to);
                options.put(to);
            }
            Self::Receive { destination, single, names, options } => {
                to.put_u8(1);
                destination.put(to);
                single.put(to);
                names.put(to);
                options.put(to);
            }
        }
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, REQUEST, "anything before the request")?;
        whole("Request", payload, |from| match from.u8()? {
            0 => Ok(Self::Send {
                sources: Wire::take(from)?,
                names: Wire::take(from)?,
                options: Wire::take(from)?,
            }),
            1 => Ok(Self::Receive {
                destination: Wire::take(from)?,
                single: Wire::take(from)?,
                names: Wire::take(from)?,
                options: Wire::take(from)?,
            }),
            _ => Err(CodecError::OutOfRange.into()),
        })
    }
}

/// The answer to a [`Request`]: the conversation may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// As in [`Request::Receive`], where the answering end is the sender.
    pub single: Option<Name>,
    /// Where further streams may join, if the request asks for them.
    pub join: Option<Join>,
}

impl Reply {
    /// The frame that says so.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(REPLY, |to| {
            self.single.put(to);
            self.join.put(to);
        })
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`PeerError`] where it is none, or is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, PeerError> {
        expect(kind, REPLY, "anything before the reply")?;
        whole("Reply", payload, |from| {
            Ok(Self { single: Wire::take(from)?, join: Wire::take(from)? })
        })
    }
}

/// Why an end gives up, for people; the last frame it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// Whose fault it is.
    pub cause: AbortCause,
    /// What happened.
    pub message: String,
}

/// What an [`Abort`] means for the other end's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// A source or the destination cannot be used.
    Selection,
    /// The peer broke the protocol.
    Protocol,
    /// Anything else.
    Internal,
    /// A stream beside the first ended early.
    Stream,
    /// The two ends have too little in common.
    Incompatible,
    /// A check does not hold.
    Damaged,
}

crate::wire::closed_set!(AbortCause: Selection = 0, Protocol = 1, Internal = 2, Stream = 3,
    Incompatible = 4, Damaged = 5);

impl Abort {
    /// The frame that says so.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        framed(ABORT, |to| {
            self.cause.put(to);
            self.message.put(to);
        })
    }

    /// Reads the frame if it is an abort.
    ///
    /// # Errors
    /// [`PeerError`] where it is malformed.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<Self>, PeerError> {
        if kind != ABORT {
            return Ok(None);
        }
        let (cause, message) =
            whole("Abort", payload, |from| Ok((Wire::take(from)?, String::take(from)?)))?;
        Ok(Some(Self { cause, message: printable(message.as_bytes()) }))
    }
}

/// Says that an end is at work, or has heard what came, though it has had nothing to say. It may stand before any frame and is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alive;

impl Alive {
    /// The type of the frame.
    pub const KIND: u8 = ALIVE;

    /// The frame that says so.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        framed(ALIVE, |_| {})
    }

    /// Reads the frame if it is one.
    ///
    /// # Errors
    /// [`PeerError`] where there is more to it.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<Self>, PeerError> {
        if kind != ALIVE {
            return Ok(None);
        }
        whole("Alive", payload, |_| Ok(Some(Self)))
    }
}

impl Request {
    /// How long either end may be silent, in seconds; 0 for ever.
    #[must_use]
    pub const fn silence(&self) -> u32 {
        match self {
            Self::Send { options, .. } | Self::Receive { options, .. } => options.silence,
        }
    }
}

fn expect(kind: u8, wanted: u8, what: &'static str) -> Result<(), PeerError> {
    if kind == wanted { Ok(()) } else { Err(PeerError::Unexpected(what)) }
}

impl Wire for Options {
    fn put(&self, to: &mut Vec<u8>) {
        let Self { recursive, links, modes, times, checksum, whole_file, dry_run, .. } = *self;
        let flags = [recursive, links, modes, times, checksum, whole_file, dry_run];
        let flags = flags.into_iter().chain([self.compress, self.durable]);
        let strategy = Some(self.strategy).filter(|own| *own != Strategy::DELTIC);
        let flags = flags.chain([strategy.is_some(), self.tells_unchanged, self.tells_owners]);
        let bits = flags.enumerate().fold(0, |bits, (n, flag)| bits | u64::from(flag) << n);
        to.put_varint(bits);
        self.delete.put(to);
        self.threads.put(to);
        self.streams.put(to);
        self.compress_level.put(to);
        self.silence.put(to);
        self.rules.put(to);
        self.follow.put(to);
        self.remove.put(to);
        self.select.put(to);
        self.compare.put(to);
        self.metadata.put(to);
        self.writing.put(to);
        self.block_bytes.put(to);
        strategy.into_iter().for_each(|strategy| strategy.name.to_owned().put(to));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bits = from.varint()?;
        let flag = |n: u32| bits >> n & 1 == 1;
        if bits >> 12 != 0 {
            return Err(CodecError::OutOfRange.into());
        }
        let delete = Delete::take(from)?;
        let (threads, streams) = (from.varint_u32()?, from.varint_u32()?);
        if threads > MAX_THREADS || streams > MAX_STREAMS {
            return Err(Bad::Limit("threads or streams"));
        }
        let compress_level = from.varint_u32()?;
        if compress_level > MAX_LEVEL {
            return Err(Bad::Limit("level of compression"));
        }
        let silence = from.varint_u32()?;
        let rules = Wire::take(from)?;
        let follow = Wire::take(from)?;
        let (remove, select) = (Wire::take(from)?, Wire::take(from)?);
        let (compare, metadata) = (Wire::take(from)?, Wire::take(from)?);
        let writing = Wire::take(from)?;
        let block_bytes: Option<u32> = Wire::take(from)?;
        if block_bytes.is_some_and(|bytes| !(1..=MAX_BLOCK_BYTES).contains(&bytes)) {
            return Err(Bad::Limit("length of a block"));
        }
        let strategy = if flag(9) { other_strategy(from)? } else { Strategy::DELTIC };
        Ok(Self {
            recursive: flag(0),
            links: flag(1),
            modes: flag(2),
            times: flag(3),
            checksum: flag(4),
            whole_file: flag(5),
            dry_run: flag(6),
            tells_unchanged: flag(10),
            tells_owners: flag(11),
            compress: flag(7),
            compress_level,
            durable: flag(8),
            delete,
            threads,
            streams,
            silence,
            strategy,
            block_bytes,
            follow,
            remove,
            select,
            compare,
            rules,
            metadata,
            writing,
        })
    }
}

/// A strategy's name; the default has no need of one.
fn other_strategy(from: &mut Reader<'_>) -> Result<Strategy, Bad> {
    let named = Strategy::named(&String::take(from)?).ok();
    Ok(named.filter(|named| *named != Strategy::DELTIC).ok_or(CodecError::OutOfRange)?)
}

impl Wire for Delete {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Never => to.put_u8(0),
            Self::Guarded(Guard { percent: None, names: None }) => to.put_u8(1),
            Self::AtMost(most) => {
                to.put_u8(2);
                most.put(to);
            }
            Self::Guarded(Guard { percent: None, names: Some(names) }) => {
                to.put_u8(3);
                names.put(to);
            }
            Self::Guarded(Guard { percent: Some(percent), names }) => {
                to.put_u8(4);
                to.put_u8(*percent);
                names.put(to);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match from.u8()? {
            0 => Ok(Self::Never),
            1 => Ok(Self::Guarded(Guard::default())),
            2 => Ok(Self::AtMost(from.varint()?)),
            3 => Ok(Self::Guarded(Guard { percent: None, names: Some(from.varint()?) })),
            4 => {
                let percent = Some(from.u8()?).filter(|percent| *percent <= 100);
                let percent = Some(percent.ok_or(CodecError::OutOfRange)?);
                Ok(Self::Guarded(Guard { percent, names: Wire::take(from)? }))
            }
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
