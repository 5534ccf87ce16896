//! A limit of time for a program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// What `command` says and how it ends, and whether it hangs: after `limit` it is killed, and all that it started.
pub(crate) fn output_within(limit: Duration, mut command: Command) -> (Output, bool) {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let group = Pid::from_child(&child);
    let (done, end) = channel::<()>();
    let watch = thread::spawn(move || {
        let hangs = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if hangs {
            kill_process_group(group, Signal::KILL).ok();
        }
        hangs
    });
    let output = child.wait_with_output().expect("it is our child");
    drop(done);
    (output, watch.join().expect("it does not panic"))
}

#[test]
fn what_hangs_is_killed_with_all_that_it_started() {
    let shell = |words: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        command
    };
    // The child in the background holds the streams; with it alive nobody would see their end.
    let (output, hangs) =
        output_within(Duration::from_millis(100), shell("echo said; sleep 1000 & wait"));
    assert_eq!((output.stdout, output.status.code(), hangs), (b"said\n".into(), None, true));
    let (output, hangs) = output_within(Duration::from_secs(60), shell("echo said; exit 3"));
    assert_eq!((output.stdout, output.status.code(), hangs), (b"said\n".into(), Some(3), false));
}
