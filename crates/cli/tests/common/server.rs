//! A real server on loopback, and the real command as its client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{DELTIC, PATIENCE, Run, World, wait_until};

/// Time for which a server is heard that may have nothing to say.
const SHORTLY: Duration = Duration::from_secs(5);

/// Starts a server, whose complaints go there; what it says until its address is there.
pub fn spawn(world: &World, words: &str, complaints: Stdio) -> (Child, Vec<String>) {
    spawn_in(world, (words, &[]), complaints)
}

/// Starts a server in an environment that has these variables as well.
fn spawn_in(
    world: &World,
    (words, more): (&str, &[(&str, &str)]),
    complaints: Stdio,
) -> (Child, Vec<String>) {
    let mut command = Command::new(DELTIC);
    command.args(words.split_whitespace()).stdout(Stdio::piped()).stderr(complaints);
    world.place(&mut command);
    command.envs(more.iter().copied());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (mut said, mut is_there) = (Vec::new(), false);
    while let (false, Some(Ok(line))) = (is_there, lines.next()) {
        is_there = line.contains("#t=");
        said.push(line);
    }
    (child, said)
}

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
        Self::of_in(world, &all, &[])
    }

    /// The same in an environment that has these variables as well.
    pub fn of_in(world: &'a World, all: &str, more: &[(&str, &str)]) -> Self {
        let (child, mut lines) = spawn_in(world, (all, more), Stdio::inherit());
        let whole = lines.pop().expect("it says where it is").trim().to_owned();
        let url = whole.split("/photos/").next().expect("it has one").to_owned();
        let server = Self { world, child, url, whole };
        // A token may have any letters: none of them stands for an address.
        let login = Run::of(&mut world.command(DELTIC, ["login", &server.whole]));
        // Clients trust a certificate of the test's own only by a pin, which its address lacks.
        let is_trusted = !login.stderr.contains("cannot trust");
        assert_eq!(login.code, Some(if is_trusted { 0 } else { 10 }), "{login:#?}");
        server
    }

    /// Starts one with settings of a file, behind those of the volume.
    pub fn set(world: &'a World, settings: &str) -> Self {
        Self::set_volume(world, "", settings)
    }

    /// The same with settings of the volume.
    pub fn set_volume(world: &'a World, volume: &str, settings: &str) -> Self {
        Self::set_in(world, volume, settings, &[])
    }

    /// The same in an environment that has these variables as well.
    pub fn set_in(world: &'a World, volume: &str, settings: &str, more: &[(&str, &str)]) -> Self {
        world.mkdir("photos");
        world.mkdir("state");
        let path = |name: &str| world.path(name).display().to_string();
        let (state, photos) = (path("state"), path("photos"));
        // What is in no table comes first.
        let (top, tables) = settings.split_at(settings.find("[limits]").unwrap_or(settings.len()));
        let text = format!(
            "state = \"{state}\"\n{top}\n[volumes.photos]\npath = \"{photos}\"\n{volume}\n{tables}"
        );
        world.write("deltic.toml", text);
        Self::of_in(world, "serve --config deltic.toml --listen 127.0.0.1:0", more)
    }

    /// Makes a token with these words of `deltic token add`, which may warn. It may write unless the words say more.
    pub fn add_token(&self, words: &str) -> String {
        let is_said = words.contains("--ro") || words.contains("--wo");
        let rights = if is_said { "" } else { "--rw" };
        let run = self.deltic(&format!("token add --state state {rights} {words}"));
        assert_eq!(run.code, Some(0), "deltic token add {words}\n{run:#?}");
        run.stdout.trim().to_owned()
    }

    pub fn connect(&self) -> TcpStream {
        let address = self.url.split("://").nth(1).expect("it has one");
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        stream
    }

    /// Answer to a request with a token; with headers that end in a line each.
    pub fn answer(&self, token: &str, path: &str, more: &str) -> String {
        let mut stream = self.connect();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A WebSocket of a token.
    pub fn socket(&self, token: &str) -> Socket {
        let (head, socket) = self.upgrade(&format!("Authorization: Bearer {token}\r\n"));
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        socket
    }

    /// The answer to a request for a WebSocket, and what it becomes; with headers that end in a line each.
    pub fn upgrade(&self, more: &str) -> (String, Socket) {
        let mut stream = self.connect();
        let head = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
             Sec-WebSocket-Protocol: deltic.1\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it listens");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it answers");
            answer.push(byte[0]);
        }
        (String::from_utf8_lossy(&answer).into_owned(), Socket(stream))
    }

    /// Begins an upload of so many bytes, of which it sends the first ones; the server has let it in.
    #[track_caller]
    pub fn upload(&self, token: &str, (name, len): (&str, usize), first: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let head = format!(
            "PUT /v1/volumes/photos/files/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Expect: 100-continue\r\nContent-Length: {len}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is heard");
        // The server asks for the body once it is to be read.
        let mut line = [0; 25];
        stream.read_exact(&mut line).expect("it is heard");
        assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(first).expect("it is heard");
        stream
    }

    /// The number of sockets that the server has open, by its port: what a server has open, only root sees.
    pub fn sockets(&self) -> usize {
        let port = self.url.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let local = format!(":{:04X}", port.expect("it has one"));
        let table = std::fs::read_to_string("/proc/net/tcp").expect("it is the system's");
        let is_its = |line: &&str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            // One that nobody holds any more has no inode.
            fields.get(1).is_some_and(|at| at.ends_with(&local)) && fields.get(9) != Some(&"0")
        };
        table.lines().skip(1).filter(is_its).count()
    }

    /// The number of its threads to which the system prefers others.
    pub fn threads_giving_way(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let niceness = |stat: &str| {
            let mut fields = stat.rsplit(')').next().expect("it has a name").split_whitespace();
            fields.nth(16).expect("it has as many").parse::<i32>().expect("a number")
        };
        let all: Vec<_> = stats.map(|stat| niceness(&stat)).collect();
        let own = all.iter().min();
        all.iter().filter(|nice| Some(*nice) != own).count()
    }

    /// Waits until the server has no more than these sockets.
    #[track_caller]
    pub fn wait_for_sockets(&self, most: usize) {
        wait_until(&format!("at most {most} sockets are open"), || self.sockets() <= most);
    }

    /// Waits until the volume has no staging directory: it goes a moment after the last of what was in it.
    #[track_caller]
    pub fn wait_for_no_staging(&self) {
        wait_until("nothing is staged", || !self.world.exists("photos/.deltic"));
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

    /// Sends `head` as it is, and returns the first line of the answer; none if it waits for more.
    pub fn raw(&self, head: &[u8]) -> String {
        self.first_line(head, SHORTLY)
    }

    /// The first line of the answer to `head`, which may begin so late.
    fn first_line(&self, head: &[u8], patience: Duration) -> String {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(patience)).expect("it is a socket");
        // A server that has heard enough closes its side.
        let _ = stream.write_all(head);
        let mut answer = vec![0];
        let len = stream.read(&mut answer).unwrap_or_default();
        answer.truncate(len);
        stream.set_read_timeout(Some(SHORTLY)).expect("it is a socket");
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// The status of a request with a token.
    pub fn status(&self, method: &str, path: &str, more: &str) -> u16 {
        let token = self.token();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        let line = self.first_line(head.as_bytes(), PATIENCE);
        line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A WebSocket, by its bytes.
pub struct Socket(pub TcpStream);

impl Socket {
    /// Sends a short message, by the mask of zeros.
    pub fn send(&mut self, channel: u8, text: &str) {
        self.send_as(0x82, channel, text);
    }

    /// The same in a frame that begins so.
    pub fn send_as(&mut self, first: u8, channel: u8, text: &str) {
        self.send_frame(first, channel, text.as_bytes());
    }

    /// Sends bytes of a channel, up to 64 KiB.
    pub fn send_bytes(&mut self, channel: u8, bytes: &[u8]) {
        self.send_frame(0x82, channel, bytes);
    }

    fn send_frame(&mut self, first: u8, channel: u8, bytes: &[u8]) {
        let len = u16::try_from(bytes.len() + 1).expect("it is no long one");
        let [high, low] = len.to_be_bytes();
        let len = if len < 126 { vec![0x80 | low] } else { vec![0x80 | 126, high, low] };
        let frame = [&[first], &*len, &[0; 4], &[channel], bytes].concat();
        self.0.write_all(&frame).expect("it listens");
    }

    /// The next message that has bytes: its channel, and these. Answers pings.
    pub fn hear_bytes(&mut self) -> (u8, Vec<u8>) {
        loop {
            let (first, message) = self.frame();
            match first {
                0x82 if message.len() > 1 => return (message[0], message[1..].to_vec()),
                0x89 => self.pong(&message),
                _ => {}
            }
        }
    }

    fn pong(&mut self, message: &[u8]) {
        let head = [0x8a, 0x80 | message.len() as u8, 0, 0, 0, 0];
        self.0.write_all(&[&head, message].concat()).expect("it listens");
    }

    /// The next frame: its first byte, and what is in it.
    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("it answers");
        assert!(head[1] < 127, "it is no long one");
        let len = if head[1] == 126 {
            let mut len = [0; 2];
            self.0.read_exact(&mut len).expect("it answers");
            usize::from(u16::from_be_bytes(len))
        } else {
            usize::from(head[1])
        };
        let mut message = vec![0; len];
        self.0.read_exact(&mut message).expect("it answers");
        (head[0], message)
    }

    /// The next control message.
    pub fn hear(&mut self) -> String {
        loop {
            let (first, message) = self.frame();
            if first == 0x82 && message.first() == Some(&0) {
                return String::from_utf8_lossy(&message[1..]).into_owned();
            }
        }
    }

    /// Takes a frame; if it is a ping, answers it.
    pub fn answer_ping(&mut self) -> bool {
        let (first, message) = self.frame();
        if first != 0x89 {
            return false;
        }
        self.pong(&message);
        true
    }

    /// Opens a channel to `photos`.
    pub fn open(&mut self, channel: u8) {
        self.send(0, &format!(r#"{{"open":{{"channel":{channel},"volume":"photos"}}}}"#));
    }
}
