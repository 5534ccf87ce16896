//! The transport that people use: the system's ssh, to an sshd of our own on a loopback port.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{DELTIC, Run, World, edited, is_installed, noise, skip, wait_until};

/// An address of this machine whose ports no other program takes before sshd does.
const HOST: &str = "127.0.0.22";

/// Waits until no other test looks for a free port. Two tests could find the same port before one starts its sshd.
fn lock_ports() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sshd-ports");
    let file = File::create(path).expect("the lock file can be made");
    file.lock().expect("the file system has locks");
    file
}

/// An sshd that lets its own user in with one key; it ends with this value.
struct Sshd {
    child: Child,
    port: u16,
    key: PathBuf,
}

impl Sshd {
    /// Starts one; loudly nothing where there is none to start.
    fn start(world: &World) -> Option<Self> {
        let program = ["/usr/sbin/sshd", "/usr/bin/sshd"].map(Path::new).into_iter();
        let Some(program) = program.into_iter().find(|path| path.is_file()) else {
            skip("sshd is not installed");
            return None;
        };
        if !is_installed("ssh") || !is_installed("ssh-keygen") {
            skip("ssh is not installed");
            return None;
        }
        for name in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(world.path(name));
            assert!(keygen.status().expect("ssh-keygen starts").success());
        }
        let _lock = lock_ports();
        let listener = TcpListener::bind((HOST, 0)).expect("a loopback port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let at = |name: &str| world.path(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress {HOST}\nHostKey {}\nAuthorizedKeysFile {}\n\
             PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv HOME={}\n",
            at("host"),
            at("user.pub"),
            // Else a shell at the far end runs this user's own start-up files, which may say anything.
            at("home"),
        );
        world.mkdir("home");
        world.write("sshd_config", config);
        if crate::common::is_root() {
            // Where its packaging would have made it at boot.
            std::fs::create_dir_all("/run/sshd").expect("root may");
        }
        let child = Command::new(program)
            .args(["-D", "-f"])
            .arg(world.path("sshd_config"))
            .stderr(Stdio::null())
            .spawn()
            .expect("sshd starts");
        let mut sshd = Self { child, port, key: world.path("user") };
        sshd.wait();
        Some(sshd)
    }

    fn wait(&mut self) {
        wait_until("sshd listens", || TcpStream::connect((HOST, self.port)).is_ok());
        assert!(matches!(self.child.try_wait(), Ok(None)), "another one has its port");
    }

    /// The remote shell that reaches it.
    fn shell(&self) -> String {
        format!(
            "ssh -p {} -i '{}' -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR",
            self.port,
            self.key.display()
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sync(world: &World, sshd: &Sshd, words: &[&str]) -> Run {
    let shell = sshd.shell();
    let fixed = ["sync", "-e", &shell, "--deltic-path", DELTIC];
    Run::of(&mut world.command(DELTIC, fixed.iter().chain(words)))
}

#[test]
fn a_tree_goes_there_and_back_over_the_systems_ssh() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world) else { return };
    let old = noise(3_000_000, 1);
    world.write("src/large", &old);
    world.write("src/dir/a name; $(with) 'signs'", "content");
    world.link("large", "src/link");
    let there = format!("{HOST}:{}", world.path("dst").display());

    let run = sync(&world, &sshd, &["-a", "src/", &there]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    world.assert_same("src", "dst");

    world.write("src/large", edited(&old, 1_000_000));
    let run = sync(&world, &sshd, &["-a", "--stats", "src/", &there]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    assert!(run.stat("Literal data") < 100_000, "{run:#?}");
    world.assert_same("src", "dst");

    let run = sync(&world, &sshd, &["-a", &format!("{there}/"), "back"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    world.assert_same("src", "back");
}

#[test]
fn several_connections_carry_one_session() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world) else { return };
    world.write("dst/large", noise(8_000_000, 1));
    world.write("src/large", [noise(5_000_000, 2), noise(1_000_000, 1)].concat());
    let there = format!("{HOST}:{}", world.path("dst").display());
    let run = sync(&world, &sshd, &["-a", "--streams", "3", "--bwlimit", "4M", "src/", &there]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    world.assert_same("src", "dst");
    world.write("back/large", noise(8_000_000, 1));
    let from = format!("{there}/");
    let run = sync(&world, &sshd, &["-a", "--streams", "3", "--bwlimit", "4M", &from, "back"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    world.assert_same("src", "back");
}

#[test]
fn an_ssh_that_cannot_connect_is_told_apart_from_a_missing_program() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world) else { return };
    world.write("src/file", "content");
    let there = format!("{HOST}:{}", world.path("dst").display());
    let mut missing = world.command(DELTIC, ["sync", "-a", "-e", &sshd.shell()]);
    let run = Run::of(missing.args(["--deltic-path", "/no/such/deltic", "src/", &there]));
    assert_eq!(run.code, Some(127), "{run:#?}");
    assert!(run.stderr.contains("--deltic-path"), "{run:#?}");
    drop(sshd);
    let nobody = "ssh -p 1 -o BatchMode=yes -o ConnectTimeout=5";
    let mut refused = world.command(DELTIC, ["sync", "-a", "-e", nobody, "src/", &there]);
    let run = Run::of(&mut refused);
    assert_eq!(run.code, Some(255), "{run:#?}");
    assert!(run.stderr.contains("before deltic answered"), "{run:#?}");
    assert!(!world.exists("dst"));
}

#[test]
fn what_is_installed_over_ssh_passes_the_doctor() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world) else { return };
    let shell = sshd.shell();
    let to = world.path("there/deltic").display().to_string();
    let run = Run::of(&mut world.command(DELTIC, ["install", "-e", &shell, "--to", &to, HOST]));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    let place = format!("{HOST}:{}", world.path("src").display());
    let run =
        Run::of(&mut world.command(DELTIC, ["doctor", "-e", &shell, "--deltic-path", &to, &place]));
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{run:#?}");
    for name in ["keys: ssh connects without a question", "transfer: 1 MiB is sent in "] {
        assert!(run.stdout.contains(&format!("ok       {name}")), "{name} {run:#?}");
    }
}

#[test]
fn a_key_with_a_forced_command_keeps_to_its_directory() {
    let world = World::new();
    let Some(sshd) = Sshd::start(&world) else { return };
    world.write("src/file", "content");
    world.write("outside/secret", "secret");
    world.mkdir("jail");
    let key = String::from_utf8(world.read("user.pub")).expect("it is text");
    let command = format!("{DELTIC} agent --restrict {}", world.path("jail").display());
    world.write("user.pub", format!("command=\"{command} --no-delete\",restrict {key}"));
    for there in ["/dst", "dst"] {
        let run = sync(&world, &sshd, &["-a", "src/", &format!("{HOST}:{there}")]);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    }
    world.assert_same("src", "jail/dst");
    let run = sync(&world, &sshd, &["-a", &format!("{HOST}:dst/"), "back"]);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""));
    world.assert_same("src", "back");
    let (outside, there) = (format!("{HOST}:../outside/"), format!("{HOST}:dst"));
    for (words, why) in [
        (&["-a", &outside, "got"][..], "'..' is not allowed"),
        (&["-a", "--delete", "src/", &there], "nothing may be deleted"),
    ] {
        let run = sync(&world, &sshd, words);
        assert!(run.code == Some(3) && run.stderr.contains(why), "{run:#?}");
    }
    assert!(!world.exists("got"));
    let ssh = format!("exec {} {HOST} cat outside/secret", sshd.shell());
    let run = Run::of(&mut world.command("sh", ["-c", &ssh]));
    assert_eq!((run.code, &*run.stdout), (Some(4), ""), "{run:#?}");
    assert!(run.stderr.contains("`cat outside/secret` is not run here"), "{run:#?}");
}
