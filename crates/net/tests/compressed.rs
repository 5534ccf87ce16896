//! Compression of a session: the history of a frame, and code without its addresses.
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

/// A program of functions that call each other. Every seventh function is `grown` bytes longer.
fn program(grown: usize) -> Vec<u8> {
    const FUNCTIONS: usize = 4000;
    let len = |no: usize| 180 + no % 50 + if no.is_multiple_of(7) { grown } else { 0 };
    let starts: Vec<usize> =
        (0..FUNCTIONS).scan(0, |at, no| Some(std::mem::replace(at, *at + len(no)))).collect();
    let mut code = Vec::new();
    for no in 0..FUNCTIONS {
        let end = starts[no] + len(no);
        // No byte of this content begins an instruction with a field.
        let mut content = noise(len(no), no as u64).into_iter().map(|byte| 0x90 | byte & 0x0f);
        for call in (0..).take_while(|call| call * 29 + 40 < 180) {
            code.extend(content.by_ref().take(24));
            code.push(0xe8);
            let target = starts[(no * 31 + call * 577) % FUNCTIONS];
            let distance = (target as u32).wrapping_sub(code.len() as u32 + 4);
            code.extend_from_slice(&distance.to_le_bytes());
        }
        code.extend(content.chain(std::iter::repeat(0x90)).take(end - code.len()));
    }
    code
}

#[tokio::test]
async fn a_new_release_of_a_program_is_compared_without_its_addresses() {
    let trees = tempfile::tempdir().unwrap();
    let (source, to) = (trees.path().join("source"), trees.path().join("to"));
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&to).unwrap();
    let (old, new) = (program(0), program(3));
    std::fs::write(to.join("program"), &old).unwrap();
    std::fs::write(source.join("program"), &new).unwrap();
    let plan = plan(source.join("program"), there(to.join("")), Options::default());
    let (there, back) = common::pushed(plan, Embedding::default()).await;
    assert!(std::fs::read(to.join("program")).unwrap() == new);
    let bytes = there.iter().chain(&back).map(|frame| frame.len).sum::<usize>();
    assert!(bytes * 5 < new.len(), "{bytes} of {}", new.len());
}
