//! Options on the wire.

use deltic_core::Strategy;
use deltic_core::codec::{CodecError, Put, Reader};

use crate::options::{Delete, Guard, Options};

use super::codec::{BadPayload, WireEncoding};
use super::limits::{MAX_BLOCK_BYTES, MAX_LEVEL, MAX_STREAMS, MAX_THREADS};

impl WireEncoding for Options {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { recursive, links, modes, times, checksum, whole_file, dry_run, .. } = *self;
        let flags = [recursive, links, modes, times, checksum, whole_file, dry_run];
        let flags = flags.into_iter().chain([self.compress, self.durable]);
        let strategy = Some(self.strategy).filter(|own| *own != Strategy::DELTIC);
        let flags = flags.chain([strategy.is_some(), self.tells_unchanged, self.tells_owners]);
        let bits = flags.enumerate().fold(0, |bits, (n, flag)| bits | u64::from(flag) << n);
        to.put_varint(bits);
        self.delete.write_to(to);
        self.threads.write_to(to);
        self.streams.write_to(to);
        self.compress_level.write_to(to);
        self.silence.write_to(to);
        self.rules.write_to(to);
        self.follow.write_to(to);
        self.remove.write_to(to);
        self.select.write_to(to);
        self.compare.write_to(to);
        self.metadata.write_to(to);
        self.writing.write_to(to);
        self.block_bytes.write_to(to);
        strategy.into_iter().for_each(|strategy| strategy.name.to_owned().write_to(to));
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let bits = from.varint()?;
        let flag = |n: u32| bits >> n & 1 == 1;
        if bits >> 12 != 0 {
            return Err(CodecError::OutOfRange.into());
        }
        let delete = Delete::read_from(from)?;
        let (threads, streams) = (from.varint_u32()?, from.varint_u32()?);
        if threads > MAX_THREADS || streams > MAX_STREAMS {
            return Err(BadPayload::Limit("threads or streams"));
        }
        let compress_level = from.varint_u32()?;
        if compress_level > MAX_LEVEL {
            return Err(BadPayload::Limit("level of compression"));
        }
        let silence = from.varint_u32()?;
        let rules = WireEncoding::read_from(from)?;
        let follow = WireEncoding::read_from(from)?;
        let (remove, select) = (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
        let (compare, metadata) = (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
        let writing = WireEncoding::read_from(from)?;
        let block_bytes: Option<u32> = WireEncoding::read_from(from)?;
        if block_bytes.is_some_and(|bytes| !(1..=MAX_BLOCK_BYTES).contains(&bytes)) {
            return Err(BadPayload::Limit("length of a block"));
        }
        let strategy = if flag(9) { read_strategy_name(from)? } else { Strategy::DELTIC };
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
            tells_digests: false,
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

/// Reads the name of a strategy. The default strategy is never named.
fn read_strategy_name(from: &mut Reader<'_>) -> Result<Strategy, BadPayload> {
    let named = Strategy::by_name(&String::read_from(from)?).ok();
    Ok(named.filter(|named| *named != Strategy::DELTIC).ok_or(CodecError::OutOfRange)?)
}

impl WireEncoding for Delete {
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Never => to.put_u8(0),
            Self::Guarded(Guard { percent: None, names: None }) => to.put_u8(1),
            Self::AtMost(most) => {
                to.put_u8(2);
                most.write_to(to);
            }
            Self::Guarded(Guard { percent: None, names: Some(names) }) => {
                to.put_u8(3);
                names.write_to(to);
            }
            Self::Guarded(Guard { percent: Some(percent), names }) => {
                to.put_u8(4);
                to.put_u8(*percent);
                names.write_to(to);
            }
        }
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Never),
            1 => Ok(Self::Guarded(Guard::default())),
            2 => Ok(Self::AtMost(from.varint()?)),
            3 => Ok(Self::Guarded(Guard { percent: None, names: Some(from.varint()?) })),
            4 => {
                let percent = Some(from.u8()?).filter(|percent| *percent <= 100);
                let percent = Some(percent.ok_or(CodecError::OutOfRange)?);
                Ok(Self::Guarded(Guard { percent, names: WireEncoding::read_from(from)? }))
            }
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}
