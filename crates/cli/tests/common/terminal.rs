//! A terminal for the program under test: it sees what is shown, and types.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::time::Timespec;

/// A program whose standard streams are a terminal.
pub struct Terminal {
    screen: File,
    child: Child,
    /// All that was shown so far.
    pub shown: String,
}

/// Longest silence: a program that says nothing for so long hangs.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

impl Terminal {
    /// Starts `command` on a terminal of its own.
    pub fn start(command: &mut Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = openpt(flags).expect("there are terminals");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("it is ours");
        let name = ptsname(&screen, Vec::new()).expect("it has a name");
        let open = || {
            // In another child of this process it would stay open beyond the program's end.
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let own: OwnedFd =
                rustix::fs::open(&name, flags, Mode::empty()).expect("it can be opened");
            Stdio::from(own)
        };
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn();
        let child = child.expect("the program starts");
        // The command holds its ends of the terminal, whose last one is to be the child's.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { screen: screen.into(), child, shown: String::new() }
    }

    /// Reads until `text` is shown; whether it was before the program ended.
    pub fn shows(&mut self, text: &str) -> bool {
        while !self.shown.contains(text) {
            let mut ready = [PollFd::new(&self.screen, PollFlags::IN)];
            match poll(&mut ready, Some(&PATIENCE)) {
                Err(Errno::INTR) => continue,
                ready => assert_ne!(ready, Ok(0), "nothing more is shown after {:?}", self.shown),
            }
            let mut bytes = [0; 4096];
            // The end of a terminal that nobody holds any more is an error.
            match self.screen.read(&mut bytes) {
                Ok(0) | Err(_) => return false,
                Ok(len) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..len])),
            }
        }
        true
    }

    /// Types.
    pub fn types(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).expect("the terminal takes it");
    }

    /// Waits for the program's end; its exit code, and all that was shown.
    pub fn end(mut self) -> (Option<i32>, String) {
        while self.shows("\0never") {}
        let status = self.child.wait().expect("it is our child");
        (status.code(), std::mem::take(&mut self.shown))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
