//! A real server on loopback, and the real command as its client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{DELTIC, Run, World};

/// A server of the volume `photos`, which ends with this value.
pub struct Server<'a> {
    world: &'a World,
    pub child: Child,
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    /// The whole address, with the token.
    pub whole: String,
}

impl<'a> Server<'a> {
    pub fn start(world: &'a World, words: &str) -> Self {
        world.mkdir("photos");
        Self::of(world, format!("serve photos --state state --listen 127.0.0.1:0 {words}"))
    }

    pub fn of(world: &'a World, all: String) -> Self {
        let mut command = Command::new(DELTIC);
        command.args(all.split_whitespace()).stdout(Stdio::piped());
        world.place(&mut command);
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let line = lines.map_while(Result::ok).find(|line| line.contains("#t="));
        let whole = line.expect("it says where it is").trim().to_owned();
        let url = whole.split("/photos/").next().expect("it has one").to_owned();
        let server = Self { world, child, url, whole };
        let login = server.deltic(&format!("login {}", server.whole));
        assert_eq!(login.code, Some(0), "{login:#?}");
        server
    }

    pub fn token(&self) -> &str {
        self.whole.split("#t=").nth(1).and_then(|rest| rest.split('&').next()).expect("it has one")
    }

    pub fn deltic(&self, words: &str) -> Run {
        let words = words.replace("URL", &self.url);
        Run::of(&mut self.world.command(DELTIC, words.split_whitespace()))
    }

    #[track_caller]
    pub fn ok(&self, words: &str) -> Run {
        let run = self.deltic(words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "deltic {words}\n{run:#?}");
        run
    }

    #[track_caller]
    pub fn fails(&self, code: i32, words: &str, why: &str) {
        let run = self.deltic(words);
        assert_eq!(run.code, Some(code), "deltic {words}\n{run:#?}");
        assert!(run.stderr.contains(why), "deltic {words}\n{run:#?}");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("it is a process");
        kill_process(pid, signal).expect("it is ours");
    }

    /// Sends `head` as it is, and returns the first line of the answer.
    pub fn raw(&self, head: &[u8]) -> String {
        let address = self.url.split("://").nth(1).expect("it has one");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("it is a socket");
        // A server that has heard enough closes its side.
        let _ = stream.write_all(head);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// The status of a request with a token.
    pub fn status(&self, method: &str, path: &str, more: &str) -> u16 {
        let token = self.token();
        let line = self.raw(
            format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
            )
            .as_bytes(),
        );
        line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
