//! Systems with few users, and layouts of files in storage. Built with the feature `labs` only.

pub mod layout;
pub(crate) mod moosefs;
pub(crate) mod rados;
pub(crate) mod seaweed;

/// Marks a lossy form of a name that is not UTF-8. The mark is a zero byte, which no file name may contain, so the
/// listing refuses the name.
pub(crate) fn mark_not_utf8(shown: &str) -> String {
    format!("{shown}\0")
}

/// True if [`mark_not_utf8`] marked the name.
pub(crate) fn is_not_utf8(name: &str) -> bool {
    name.ends_with('\0')
}
