//! Parses checksums of objects in answers to `GetObjectAttributes` and in the headers of S3.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use roxmltree::Node;

use super::child;
use crate::RemoteError;
use crate::http::{bare_tag, xml};
use crate::sums::{ContentSum, SumAlgorithm, SummedUnit};

/// Checksum names of the interface, the strongest first.
pub(super) const SUMS: [(&str, SumAlgorithm); 5] = [
    ("SHA256", SumAlgorithm::Sha256),
    ("SHA1", SumAlgorithm::Sha1),
    ("CRC64NVME", SumAlgorithm::Crc64Nvme),
    ("CRC32C", SumAlgorithm::Crc32c),
    ("CRC32", SumAlgorithm::Crc32),
];

/// True if the checksum of an object covers the checksums of the parts instead of the bytes. A server may omit the kind
/// of the checksum, and the number of parts too. Then an entity tag that ends with a number of parts shows that the
/// object was uploaded in parts.
pub(super) fn is_composite(kind: Option<&str>, etag: &str) -> bool {
    match kind {
        Some(kind) => kind != "FULL_OBJECT",
        None => {
            bare_tag(etag).rsplit_once('-').is_some_and(|(_, parts)| parts.parse::<u32>().is_ok())
        }
    }
}

/// Parses a checksum in base 64. `None` for a checksum of checksums, which ends with the number of parts.
pub(super) fn sum_of(text: &str, algorithm: SumAlgorithm) -> Option<ContentSum> {
    ContentSum::new(algorithm, &BASE64.decode(text).ok()?).ok()
}

/// A parsed answer of `GetObjectAttributes`.
pub(super) struct ObjectAttributes {
    pub(super) etag: Option<String>,
    /// The checksum of all bytes.
    pub(super) whole: Option<ContentSum>,
    /// True if the checksum of the object covers the checksums of the parts instead of the bytes.
    pub(super) is_composite: bool,
    pub(super) parts: Vec<SummedUnit>,
    pub(super) next: Option<usize>,
}

impl ObjectAttributes {
    pub(super) fn parse(text: &str) -> Result<Self, RemoteError> {
        let document = xml(text, "attributes")?;
        let root = document.root_element();
        let sums = |node: Node<'_, '_>| {
            SUMS.iter().find_map(|(name, algorithm)| {
                sum_of(child(node, &format!("Checksum{name}"))?, *algorithm)
            })
        };
        let find = |name: &str| root.children().find(|node| node.has_tag_name(name));
        let find = |name: &str| {
            find(name).or_else(|| root.children().find(|node| node.tag_name().name() == name))
        };
        let etag = child(root, "ETag").map(|etag| bare_tag(etag).to_owned());
        let checksum = find("Checksum");
        let is_composite = checksum.is_some_and(|node| {
            is_composite(child(node, "ChecksumType"), etag.as_deref().unwrap_or_default())
        });
        let parts = find("ObjectParts");
        let whole = checksum.filter(|_| !is_composite).and_then(sums);
        let part = |node: Node<'_, '_>| {
            let len: u64 = child(node, "Size")?.parse().ok()?;
            (len > 0).then(|| SummedUnit::new(len, sums(node)))
        };
        let units = parts.into_iter().flat_map(|node| node.children());
        let units =
            units.filter(|node| node.tag_name().name() == "Part").filter_map(part).collect();
        let is_cut = parts.and_then(|node| child(node, "IsTruncated")) == Some("true");
        let next = parts.filter(|_| is_cut).and_then(|node| child(node, "NextPartNumberMarker"));
        Ok(Self {
            etag,
            whole,
            is_composite,
            parts: units,
            next: next.and_then(|next| next.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_checksum_is_that_of_its_header_or_of_the_entity_tag() {
        for (kind, etag, composite) in [
            (Some("COMPOSITE"), "aa", true),
            (Some("FULL_OBJECT"), "aa-13", false),
            (None, "\"aa-13\"", true),
            (None, "\"aa\"", false),
            (None, "a-b", false),
        ] {
            assert_eq!(is_composite(kind, etag), composite, "{kind:?} {etag}");
        }
    }
}
