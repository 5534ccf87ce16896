//! Certificates by ACME, as far as no authority is needed; `make acme` asks a real one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::{DELTIC, Run, World};
use rustix::process::{Pid, Signal, kill_process};

fn settings(world: &World, acme: &str) {
    world.mkdir("photos");
    world.mkdir("state");
    let [state, photos] = ["state", "photos"].map(|name| world.path(name).display().to_string());
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstate = \"{state}\"\n[tls.acme]\n{acme}\n[volumes.photos]\npath = \"{photos}\"\n"
    );
    world.write("deltic.toml", text);
}

#[test]
fn an_authority_that_is_not_there_is_told_and_the_server_goes_on() {
    let world = World::new();
    // Nobody listens on that port of this machine.
    settings(&world, "domains = [\"nas.example\"]\ndirectory = \"https://127.0.0.1:1/dir\"");
    let mut command = Command::new(DELTIC);
    world.place(&mut command);
    command.args(["serve", "--config", "deltic.toml"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let mut said = said.map_while(Result::ok);
    let asks = said.next().expect("it says what it does");
    assert_eq!(asks, "nas.example: asking https://127.0.0.1:1/dir for a certificate");
    let why = said.next().expect("it says what came of it");
    assert_eq!(
        why,
        "no certificate for nas.example from https://127.0.0.1:1/dir: cannot connect to 127.0.0.1:1: connection refused; \
         no client can connect without a certificate; trying again in 120 s"
    );
    let shown = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let whole = shown.map_while(Result::ok).find(|line| line.contains("#t="));
    let whole = whole.expect("it says where it is");
    let port = whole.split("://nas.example:").nth(1).expect("by its name").split('/').next();
    let address = format!("127.0.0.1:{}", port.expect("a port"));
    // It listens, and shows nothing to whoever comes.
    let url = format!("https://{address}/photos/");
    world.write("token", whole.split("#t=").nth(1).expect("a token"));
    world.write("a/file", "x");
    let words = ["sync", "-a", "--token", "@token", "a/", &url];
    let run = Run::of(&mut world.command(DELTIC, words));
    assert_eq!(run.code, Some(10), "{run:#?}");
    let pid = Pid::from_raw(child.id() as i32).expect("it is a process");
    kill_process(pid, Signal::TERM).expect("it is ours");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn settings_that_make_no_sense_are_told() {
    let world = World::new();
    for (acme, why) in [
        ("domains = []", "between 1 and 100 names"),
        ("domains = [\"*.example\"]", "no name of a host"),
        ("domains = [\"192.0.2.1\"]", "no name of a host"),
        ("domains = [\"NAS.example\"]", "in small letters"),
        ("domains = [\"a.example\"]\ndirectory = \"http://ca.example\"", "is not an https:// URL"),
        ("domains = [\"a.example\"]\ncontact = \"me@example.org\"", "does not begin with mailto:"),
        ("domains = [\"a.example\"]\nca_file = \"/missing\"", "read /missing"),
    ] {
        settings(&world, acme);
        let words = ["serve", "--config", "deltic.toml"];
        let run = Run::of(&mut world.command(DELTIC, words));
        assert!(matches!(run.code, Some(1 | 11)), "{acme}: {run:#?}");
        assert!(run.stderr.contains(why), "{acme}: {run:#?}");
    }
}

#[test]
fn a_name_on_the_command_line_is_one_of_a_host() {
    let world = World::new();
    world.mkdir("photos");
    let check = |name: &str| {
        let words = ["serve", "photos", "--state", "state", "--domain", name, "--check"];
        Run::of(&mut world.command(DELTIC, words))
    };
    let run = check("nas.example");
    assert_eq!((run.code, &*run.stderr), (Some(0), "the settings are right\n"), "{run:#?}");
    let run = check("https://nas.example");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("'https://nas.example' is no name of a host"), "{run:#?}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let world = World::new();
    settings(&world, "domains = [\"nas.example\"]\ndirectory = \"https://127.0.0.1:1/dir\"");
    world.write("state/acme.json", "{}");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(world.path("state/acme.json"), mode).expect("it is ours");
    let run = Run::of(&mut world.command(DELTIC, ["serve", "--config", "deltic.toml"]));
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.stderr.contains("other users can read the key (mode 644)"), "{run:#?}");
}
