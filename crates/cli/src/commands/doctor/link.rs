//! Probe of the link to another machine (`deltic doctor HOST --link`): the rate in each direction, as the network
//! monitor of NetSync measures rates before a sync (NetSync §4.4).
//!
//! A probe repeats with twice the bytes until one takes [`LONG_ENOUGH`].

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use deltic_net::LinkDirection;
use rustix::event::PollFlags;

use super::findings::Findings;
use super::probe::{PIECE, PROBE_BYTES, request, write_noise};
use super::way::RemoteDir;
use crate::commands::far::{self, MAX_LINE_BYTES, TIMEOUT, wait_until_ready, write_within};
use crate::plan::cache;
use crate::report::exit::Exit;
use crate::report::link::megabits;

/// Time of a probe that counts: long beside a round trip, and beside the time in which TCP finds its rate.
const LONG_ENOUGH: Duration = Duration::from_millis(1000);

impl RemoteDir {
    /// Measures the rate of the link in each direction, prints both rates beside the measured round trip, and notes both
    /// rates for the next push and the next pull.
    pub(super) fn probe_link(&self, round_trip: Duration, findings: &mut Findings) {
        match self.probe(round_trip) {
            Ok(LinkRates { there, back }) => {
                let what = format!(
                    "a round trip takes {:.1} ms; {} to the other machine, {} back",
                    round_trip.as_secs_f64() * 1000.0,
                    megabits(there),
                    megabits(back)
                );
                findings.ok("link", &what);
                if let Some(dir) = cache::dir() {
                    for (direction, rate) in
                        [(LinkDirection::There, there), (LinkDirection::Back, back)]
                    {
                        deltic_net::note_link_rate(&dir, &self.host, direction, rate);
                    }
                }
            }
            Err(error) => {
                let what = format!("cannot measure the link: {error}");
                findings.fail(Exit::Stream, "link", &what, None);
            }
        }
    }

    fn probe(&self, round_trip: Duration) -> io::Result<LinkRates> {
        let command = [self.remote.program.clone(), "agent".into(), "--examine".into()];
        let mut far = ProbedProgram::start(self, &command)?;
        far.write(&[self.path.as_encoded_bytes(), &[0]].concat())?;
        far.read_line()?;
        let there = measured(round_trip, |bytes| far.send(bytes))?;
        let back = measured(round_trip, |bytes| far.fetch(bytes))?;
        Ok(LinkRates { there, back })
    }
}

/// Rates of a link in bits a second.
struct LinkRates {
    there: u64,
    back: u64,
}

/// Repeats a probe with twice the bytes until the probe is long enough. Returns the rate in bits a second.
fn measured(round_trip: Duration, mut probe: impl FnMut(u32) -> io::Result<()>) -> io::Result<u64> {
    let mut bytes = *PROBE_BYTES.start();
    loop {
        let start = Instant::now();
        probe(bytes)?;
        let time = start.elapsed();
        if time >= LONG_ENOUGH + round_trip || bytes >= *PROBE_BYTES.end() {
            let time = time.saturating_sub(round_trip).max(Duration::from_micros(1));
            return Ok((f64::from(bytes) * 8.0 / time.as_secs_f64()) as u64);
        }
        bytes *= 2;
    }
}

/// A far end under probe.
struct ProbedProgram {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl ProbedProgram {
    fn start(remote: &RemoteDir, command: &[OsString]) -> io::Result<Self> {
        let child = far::spawn(&remote.remote, &remote.host, command);
        let mut child = child.map_err(io::Error::other)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).expect("both are piped");
        Ok(Self { child, input, output })
    }

    /// Sends so many bytes, and waits until all have arrived.
    fn send(&mut self, bytes: u32) -> io::Result<()> {
        self.write(&request(b'u', bytes))?;
        write_noise(bytes, |piece| self.write(piece))?;
        self.read_line().map(drop)
    }

    /// Fetches so many bytes.
    fn fetch(&mut self, bytes: u32) -> io::Result<()> {
        self.write(&request(b'd', bytes))?;
        let (mut left, mut piece) = (bytes as usize, vec![0; PIECE]);
        while left > 0 {
            let most = left.min(PIECE);
            left -= self.read(&mut piece[..most])?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_within(&mut self.input, bytes, TIMEOUT)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        wait_until_ready(&self.output, PollFlags::IN, TIMEOUT)?;
        match self.output.read(into)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            some => Ok(some),
        }
    }

    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while (line.len() as u64) < MAX_LINE_BYTES {
            self.read(&mut byte)?;
            if byte == *b"\n" {
                return Ok(line);
            }
            line.extend(byte);
        }
        Err(io::Error::other("the far end sends no line"))
    }
}

impl Drop for ProbedProgram {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_grows_until_it_is_long_beside_the_round_trip() {
        let (mut sizes, trip) = (Vec::new(), Duration::from_millis(1));
        let rate = measured(trip, |bytes| {
            sizes.push(bytes);
            // The last probe takes long.
            if bytes >= 256 << 10 {
                std::thread::sleep(LONG_ENOUGH + 2 * trip);
            }
            Ok(())
        });
        assert_eq!(sizes, [64 << 10, 128 << 10, 256 << 10]);
        let rate = rate.unwrap();
        assert!((1_000_000..2_100_000).contains(&rate), "{rate}");
    }
}
