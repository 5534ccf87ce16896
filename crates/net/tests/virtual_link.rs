//! Choices of compression over simulated links in virtual time, beside every fixed choice.

use std::time::Duration;

use deltic_core::strategy::{CodecModel, LinkModel};
use deltic_net::virtual_link::{VirtualChoice, VirtualData, VirtualLink, transfer_time};

/// Typical ratios and speeds for source code, on a machine `speed` times as fast as usual.
fn text(bytes: u64, speed: f64) -> VirtualData {
    let levels = [(1, 0.32, 300e6), (3, 0.29, 180e6), (6, 0.26, 60e6), (9, 0.25, 30e6)];
    let levels = levels.map(|(level, ratio, compressed)| {
        let [compressed_per_second, decompressed_per_second] = [compressed * speed, 750e6 * speed];
        (level, CodecModel { ratio, compressed_per_second, decompressed_per_second })
    });
    VirtualData {
        literal_bytes: bytes,
        levels: levels.into(),
        threads: 2,
        work: [Duration::from_nanos(bytes * 3 / 2); 2],
        round_trips: 2,
        ..VirtualData::default()
    }
}

fn link(mbit: u64, millis: u64) -> VirtualLink {
    let round_trip = Duration::from_millis(millis);
    let figures = LinkModel { bits_per_second: mbit * 1_000_000, round_trip };
    VirtualLink { figures, buffer_bytes: 512 << 10, change: None }
}

const FIXED: [Option<i32>; 5] = [None, Some(1), Some(3), Some(6), Some(9)];

/// Returns the time of the default as a multiple of the time of the best fixed choice.
fn beside_best(data: &VirtualData, link: &VirtualLink) -> f64 {
    let time = |choice| transfer_time(data, link, choice).as_secs_f64();
    let best = FIXED.map(|level| time(VirtualChoice::Fixed(level)));
    time(VirtualChoice::Adapted) / best.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn a_fixed_choice_takes_as_long_as_its_slowest_step() {
    let data = text(100_000_000, 1.0);
    let seconds =
        |link, level| transfer_time(&data, &link, VirtualChoice::Fixed(level)).as_secs_f64();
    for (link, level, wanted) in [
        (link(100, 30), None, 8.0),
        (link(100, 30), Some(3), 8.0 * 0.29),
        (link(10_000, 1), Some(9), 100.0 / 60.0),
        (link(10, 100), Some(6), 80.0 * 0.26),
    ] {
        let ratio = seconds(link, level) / wanted;
        assert!((0.99..1.1).contains(&ratio), "{link:?} {level:?}: {ratio}");
    }
    let falls = VirtualLink { change: Some((Duration::from_secs(4), 10_000_000)), ..link(100, 1) };
    let ratio = seconds(falls, None) / (4.0 + 40.0);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn a_new_connection_begins_with_a_short_window_that_grows_with_each_round_trip() {
    let seconds_with = |literal_bytes, other_bytes| {
        let data = VirtualData { literal_bytes, other_bytes, threads: 1, ..VirtualData::default() };
        transfer_time(&data, &link(1000, 100), VirtualChoice::Fixed(None)).as_secs_f64()
    };
    let seconds = |bytes| seconds_with(bytes, 0);
    let first = 14_480;
    // Round trips until the last byte arrives: half of one, and one more for each window before the last.
    for (windows, trips) in [(1, 0.5), (2, 1.5), (5, 2.5), (10, 3.5), (100, 6.5)] {
        let found = seconds(windows * first);
        assert!((found - trips * 0.1).abs() < 0.03, "{windows} windows: {found}");
    }
    let conversed = seconds_with(first, first);
    assert!(
        (conversed - 0.05).abs() < 0.01,
        "the conversation has widened the window: {conversed}"
    );
    // Once the window holds what the link carries in a round trip, the link alone counts.
    let rest = seconds(300_000_000) - seconds(200_000_000);
    assert!((0.79..0.81).contains(&rest), "{rest}");
}

#[test]
fn the_default_is_near_the_best_fixed_choice_on_every_link() {
    let (mut all, mut near) = (0, 0);
    for speed in [0.25, 1.0, 2.0] {
        for mbit in [1, 10, 50, 100, 500, 1000, 10_000] {
            for millis in [1, 30, 100, 200] {
                let bytes_of_four_seconds = mbit * 1_000_000 / 8 * 4;
                let data = text(bytes_of_four_seconds.max(16_000_000), speed);
                let ratio = beside_best(&data, &link(mbit, millis));
                (all, near) = (all + 1, near + u32::from(ratio <= 1.1));
                assert!(ratio <= 1.25, "speed {speed}, {mbit} Mbit/s, {millis} ms: {ratio}");
            }
        }
    }
    assert!(near * 100 >= all * 95, "{near} of {all} within a tenth");
}

#[test]
fn the_default_is_ahead_of_every_fixed_choice_if_a_link_falls_and_the_level_matters() {
    let falls = VirtualLink { change: Some((Duration::from_secs(1), 5_000_000)), ..link(100, 30) };
    // On a fast machine one level is best before and after the fall.
    for (speed, most) in [(1.0, 1.1), (0.1, 1.0)] {
        let ratio = beside_best(&text(200_000_000, speed), &falls);
        assert!(ratio <= most, "{speed}: {ratio}");
    }
}

#[test]
fn incompressible_data_costs_no_compression() {
    let mut data = text(50_000_000, 1.0);
    data.levels.iter_mut().for_each(|(_, codec)| codec.ratio = 1.0);
    assert!(beside_best(&data, &link(100, 30)) <= 1.001);
}
