//! Small files, compressed with the files before as their history.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use common::{noise, plan, there};
use deltic_net::embed::Embedding;
use deltic_protocol::compressed::CompressedFrame;
use deltic_protocol::options::Options;

#[tokio::test]
async fn small_files_are_compressed_with_the_files_before() {
    let trees = tempfile::tempdir().unwrap();
    let source = trees.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let lines: Vec<_> = (0..40).map(|line| format!("{line}: {:?}\n", noise(24, line))).collect();
    let names = || (0..200).map(|file| file.to_string());
    for (file, name) in names().enumerate() {
        let (before, after) = lines.split_at(file * 7 % lines.len());
        let text = format!("{file}\n{}{}", after.concat(), before.concat());
        std::fs::write(source.join(name), text).unwrap();
    }
    let mut sent = Vec::new();
    // Level 19 has no history: each payload is compressed alone.
    for compress_level in [3, 19] {
        let to = trees.path().join(compress_level.to_string());
        let options =
            Options { recursive: true, compress: true, compress_level, ..Options::default() };
        let plan = plan(source.join(""), there(&to), options);
        let (frames, _) = common::pushed(plan, Embedding::default()).await;
        let are_compressed = frames.iter().any(|frame| frame.kind == CompressedFrame::KIND);
        assert_eq!(are_compressed, compress_level == 3);
        sent.push(frames.iter().map(|frame| frame.len).sum::<usize>());
        for name in names() {
            let read = |dir: &std::path::Path| std::fs::read(dir.join(&name)).unwrap();
            assert!(read(&to) == read(&source), "{name}");
        }
    }
    assert!(sent[0] * 2 < sent[1], "{sent:?}");
}
