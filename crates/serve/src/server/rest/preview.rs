//! Content types of previews: only kinds of files in which a browser runs nothing. Any other file is sent as bytes.

use deltic_tree::RelPath;

/// Returns the content type by which a browser may show a file, or `None` if the file is sent as bytes to be saved.
/// SVG and HTML can contain scripts, so these files are shown as text.
pub(super) fn content_type(file: &RelPath) -> Option<&'static str> {
    let (_, name) = file.split_last()?;
    let name = name.as_bytes().to_ascii_lowercase();
    let ending = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[dot + 1..])?;
    let of = |(endings, kind): &(&[&str], &'static str)| {
        endings.iter().any(|one| one.as_bytes() == ending).then_some(*kind)
    };
    KINDS.iter().find_map(of)
}

/// Endings of names, and the content type of files with such names.
const KINDS: [(&[&str], &str); 18] = [
    (&["png"], "image/png"),
    (&["jpg", "jpeg", "jfif"], "image/jpeg"),
    (&["gif"], "image/gif"),
    (&["webp"], "image/webp"),
    (&["avif"], "image/avif"),
    (&["bmp"], "image/bmp"),
    (&["ico"], "image/x-icon"),
    (&["mp3"], "audio/mpeg"),
    (&["m4a", "aac"], "audio/mp4"),
    (&["ogg", "oga", "opus"], "audio/ogg"),
    (&["wav"], "audio/wav"),
    (&["flac"], "audio/flac"),
    (&["mp4", "m4v"], "video/mp4"),
    (&["mov"], "video/quicktime"),
    (&["webm"], "video/webm"),
    (&["ogv"], "video/ogg"),
    (&["mkv"], "video/x-matroska"),
    (
        &["txt", "md", "log", "csv", "json", "svg", "html", "htm", "xml"],
        "text/plain; charset=utf-8",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_as_a_kind_in_which_scripts_run() {
        let kind = |name: &str| content_type(&RelPath::parse(name.as_bytes()).unwrap());
        assert_eq!(kind("a/b.JPG"), Some("image/jpeg"));
        assert_eq!(kind("a/b.svg"), Some("text/plain; charset=utf-8"));
        assert_eq!(kind("index.html"), Some("text/plain; charset=utf-8"));
        assert_eq!([kind("a.pdf"), kind("a.js"), kind("png"), kind(".png.exe")], [None; 4]);
        let scripted = ["html", "svg", "xml", "pdf", "javascript"];
        let runs = |kind: &str| scripted.iter().any(|word| kind.contains(word));
        assert!(!KINDS.iter().any(|(_, kind)| runs(kind)));
    }
}
