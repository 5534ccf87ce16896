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
    fn write_to(&self, to: &mut Vec<u8>) {
        match self {
            Self::Pattern(PatternRule { action, negated, marks, pattern }) => {
                to.put_u8(0);
                action.write_to(to);
                negated.write_to(to);
                marks.write_to(to);
                pattern.write_to(to);
            }
            Self::DirMerge(DirMerge { file, reading, inherited }) => {
                to.put_u8(1);
                reading.syntax.write_to(to);
                reading.words.write_to(to);
                reading.marks.write_to(to);
                inherited.write_to(to);
                file.write_to(to);
            }
        }
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.u8()? {
            0 => Ok(Self::Pattern(PatternRule {
                action: WireEncoding::read_from(from)?,
                negated: WireEncoding::read_from(from)?,
                marks: WireEncoding::read_from(from)?,
                pattern: WireEncoding::read_from(from)?,
            })),
            1 => {
                let (syntax, words) =
                    (WireEncoding::read_from(from)?, WireEncoding::read_from(from)?);
                let reading = FileSyntax { syntax, words, marks: WireEncoding::read_from(from)? };
                let inherited = WireEncoding::read_from(from)?;
                Ok(Self::DirMerge(DirMerge {
                    file: WireEncoding::read_from(from)?,
                    reading,
                    inherited,
                }))
            }
            _ => Err(CodecError::OutOfRange.into()),
        }
    }
}

impl WireEncoding for RuleModifiers {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.sides.write_to(to);
        let bits = [self.absolute, self.perishable, self.xattr];
        to.put_u8(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let sides = WireEncoding::read_from(from)?;
        let byte = from.u8()?;
        let bit = |n: u8| byte >> n & 1 == 1;
        if byte > 7 {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self { sides, absolute: bit(0), perishable: bit(1), xattr: bit(2) })
    }
}

impl WireEncoding for Rules {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.list.write_to(to);
        self.delete_excluded.write_to(to);
        self.from0.write_to(to);
    }
    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let count = from.varint()?;
        if count > MAX_RULES as u64 {
            return Err(BadPayload::Limit("filter rules"));
        }
        let list = (0..count).map(|_| Rule::read_from(from)).collect::<Result<Vec<_>, _>>()?;
        let merges = list.iter().filter(|rule| matches!(rule, Rule::DirMerge(_))).count();
        if merges > MAX_DIR_MERGES {
            return Err(BadPayload::Limit("filter rules"));
        }
        Ok(Self {
            list,
            delete_excluded: WireEncoding::read_from(from)?,
            from0: WireEncoding::read_from(from)?,
        })
    }
}
