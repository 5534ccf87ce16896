//! The rate of a link that an earlier run noted, in both directions.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "makes and looks at trees")]

mod common;

use std::path::Path;

use common::{noise, there};
use deltic_net::embed::{Embedding, serve_over, sync};
use deltic_net::plan::{Destination, Dial, Plan, Sources, Stream};
use deltic_net::{LinkDirection, note_link_rate};
use deltic_protocol::options::Options;
use tokio::io::duplex;

/// A rate at which no compression pays, in bits a second.
const FASTEST: u64 = 100_000_000_000;

/// Returns text that compresses well.
fn text() -> String {
    (0..8_000).map(|line| format!("{line}: {:?}\n", noise(2, line % 40))).collect()
}

/// Syncs the text in a direction over a connection in memory. Returns the bytes sent and received.
async fn bytes_of(direction: LinkDirection, cache: &Path) -> u64 {
    let trees = tempfile::tempdir().unwrap();
    // Directories of their own: a receiver also finds content in files beside the destination.
    let [from, to] = ["from", "to"].map(|name| {
        std::fs::create_dir(trees.path().join(name)).unwrap();
        trees.path().join(name).join("text")
    });
    std::fs::write(&from, text()).unwrap();
    let mut options = Options::default();
    options.compare.cached = true;
    let mut plan = match direction {
        LinkDirection::There => Plan::new(Sources::Local(vec![from]), there(&to), options),
        LinkDirection::Back => {
            let sources = Sources::Remote { host: "there".into(), paths: vec![from.into()] };
            Plan::new(sources, Destination::Local(to.clone()), options)
        }
    };
    plan.cache = Some(cache.to_owned());
    plan.dial = Some(Dial::new(|| {
        Box::pin(async {
            let (near, far) = duplex(256 << 10);
            tokio::spawn(async move { serve_over(far, &Embedding::default()).await });
            let near: std::pin::Pin<Box<dyn Stream>> = Box::pin(near);
            Ok(near)
        })
    }));
    let outcome = sync(plan, &Embedding::default(), &mut |_| ()).await.unwrap();
    assert!(std::fs::read_to_string(to).unwrap() == text());
    outcome.traffic.sent + outcome.traffic.received
}

#[tokio::test]
async fn a_run_starts_with_the_noted_rate_of_its_direction() {
    use LinkDirection::{Back, There};
    let len = text().len() as u64;
    for (direction, other) in [(There, Back), (Back, There)] {
        for (noted, is_compressed) in [(other, true), (direction, false)] {
            let cache = tempfile::tempdir().unwrap();
            note_link_rate(cache.path(), "there", noted, FASTEST);
            let bytes = bytes_of(direction, cache.path()).await;
            assert_eq!(
                bytes < len / 2,
                is_compressed,
                "{direction:?}, {noted:?}: {bytes} of {len}"
            );
        }
    }
}
