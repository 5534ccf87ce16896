//! Filter rules on the wire.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::rule::{
    self, DirMerge, FileSyntax, MAX_DIR_MERGES, PatternRule, Rule, RuleModifiers, Rules,
};

use super::codec::{BadPayload, WireEncoding, closed_set};
use super::limits::MAX_RULES;

closed_set!(rule::Action: Include = 0, Exclude = 1);
closed_set!(rule::RuleSides: Unsaid = 0, Sender = 1, Receiver = 2, Both = 3);
closed_set!(rule::LineSyntax: Rules = 0, Excludes = 1, Includes = 2, Cvs = 3, Git = 4);

impl WireEncoding for Rule {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Pattern(PatternRule { action, negated, marks, pattern }) => {
                to.put_u8(0);
                action.put(to);
                negated.put(to);
                marks.put(to);
                pattern.put(to);
            }
            Self::DirMerge(DirMerge { file, reading, inherited }) => {
                to.put_u8(1);
                reading.syntax.put(to);
                reading.words.put(to);
                reading.marks.put(to);
                inherited.put(to);
                file.put(to);
            }
        }
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Pattern(PatternRule {
                action: WireEncoding::take(from)?,
                negated: WireEncoding::take(from)?,
                marks: WireEncoding::take(from)?,
                pattern: WireEncoding::take(from)?,
            })),
            1 => {
                let (syntax, words) = (WireEncoding::take(from)?, WireEncoding::take(from)?);
                let reading = FileSyntax { syntax, words, marks: WireEncoding::take(from)? };
                let inherited = WireEncoding::take(from)?;
                Ok(Self::DirMerge(DirMerge { file: WireEncoding::take(from)?, reading, inherited }))
            }
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

impl WireEncoding for RuleModifiers {
    fn put(&self, to: &mut Vec<u8>) {
        self.sides.put(to);
        let bits = [self.absolute, self.perishable, self.xattr];
        to.put_u8(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let sides = WireEncoding::take(from)?;
        let byte = from.u8()?;
        let bit = |n: u8| byte >> n & 1 == 1;
        if byte > 7 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { sides, absolute: bit(0), perishable: bit(1), xattr: bit(2) })
    }
}

impl WireEncoding for Rules {
    fn put(&self, to: &mut Vec<u8>) {
        self.list.put(to);
        self.delete_excluded.put(to);
        self.from0.put(to);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let count = from.varint()?;
        if count > MAX_RULES as u64 {
            return Err(BadPayload::Limit("filter rules"));
        }
        let list = (0..count).map(|_| Rule::take(from)).collect::<Result<Vec<_>, _>>()?;
        let merges = list.iter().filter(|rule| matches!(rule, Rule::DirMerge(_))).count();
        if merges > MAX_DIR_MERGES {
            return Err(BadPayload::Limit("filter rules"));
        }
        Ok(Self {
            list,
            delete_excluded: WireEncoding::take(from)?,
            from0: WireEncoding::take(from)?,
        })
    }
}
