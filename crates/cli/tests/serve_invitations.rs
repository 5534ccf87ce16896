//! The first hour with a server: invitations, logins, a served home directory, and restarts.

use rustix::process::Signal;

use crate::common::http::ask;
use crate::common::server::{Server, spawn};
use crate::common::terminal::Terminal;
use crate::common::{DELTIC, Run, World};

#[test]
fn token_add_prints_the_lines_for_the_other_side_and_the_token_survives_a_restart() {
    let world = World::new();
    let mut server = Server::start(&world, "--lan");
    let run = server.deltic("token add --state state --rw anna");
    let token = run.stdout.trim().to_owned();
    assert!(run.code == Some(0) && token.starts_with("dlt_"), "{run:#?}");
    let pin = server.whole.split("&pin=").nth(1).expect("it has one").to_owned();
    let url = format!("{}/photos/#t={token}&pin={pin}", server.url);
    assert!(run.stderr.contains(&format!("deltic login '{url}'\n")), "{run:#?}");
    let sync = format!("deltic sync -a DIR/ {}/photos/\n", server.url);
    assert!(run.stderr.contains(&sync), "{run:#?}");
    assert!(run.stderr.contains("; --listen 0.0.0.0:PORT serves the network"), "{run:#?}");
    // Another machine with nothing but that line.
    std::fs::remove_file(world.path(".config/deltic/logins.json")).expect("it is there");
    let kept = Run::of(&mut world.command(DELTIC, ["login", &url]));
    assert_eq!(kept.code, Some(0), "{kept:#?}");
    assert!(kept.stderr.contains("volumes: photos\n"), "{kept:#?}");
    world.write("src/a", "a");
    server.ok("sync -a src/ URL/photos/");
    let port = server.url.rsplit(':').next().expect("it has one").to_owned();
    server.child.kill().and_then(|()| server.child.wait()).expect("it runs");
    let words = format!("serve photos --state state --lan --listen [::]:{port}");
    let (mut again, _) = spawn(&world, &words, std::process::Stdio::inherit());
    world.write("src/b", "b");
    server.ok("sync -a src/ URL/photos/");
    assert_eq!(world.read("photos/b"), b"b");
    again.kill().and_then(|()| again.wait()).expect("it runs");
}

#[test]
fn a_token_reads_one_volume_unless_options_say_more() {
    let world = World::new();
    world.mkdir("music");
    let server = Server::of(&world, {
        world.mkdir("photos");
        "serve photos music --state state --listen 127.0.0.1:0".into()
    });
    server.fails(1, "token add --state state tv", "--volume (music, photos)");
    server.fails(1, "token add --state state --no-delete --volume music tv", "--rw");
    let list = |words: &str| {
        let run = server.deltic(&format!("token add --state state {words}"));
        assert_eq!(run.code, Some(0), "{run:#?}");
        server.ok("token list --state state").stdout
    };
    assert!(list("--volume music tv").contains("  tv  read  music\n"));
    assert!(list("--rw --volume music dj").contains("  dj  read+write+delete  music\n"));
    assert!(list("--rw --all-volumes me").contains("  me  read+write+delete  all volumes\n"));
    let added = list("--wo --no-delete --volume photos --expires 1y cam");
    assert!(added.contains("  cam  write  photos  ends in 52 weeks\n"), "{added}");
}

#[test]
fn a_qr_code_is_shown_where_other_machines_reach_the_address_and_stands_above_the_address() {
    let world = World::new();
    for (words, has_code) in [("", false), ("--lan", true)] {
        let server = Server::start(&world, words);
        let mut command = std::process::Command::new(DELTIC);
        command.args(["token", "add", "--state", "state", "tv"]);
        world.place(&mut command);
        let (code, shown) = Terminal::start(&mut command).end();
        assert_eq!(code, Some(0), "{shown}");
        let is_reachable = !server.url.contains("//127.") && !server.url.contains("//localhost");
        let at = shown.find(['█', '▀', '▄']);
        assert_eq!(at.is_some(), has_code && is_reachable, "{shown}");
        let address = shown.find("#t=").expect("it is shown");
        assert!(at.is_none_or(|at| at < address), "{shown}");
        let last = shown.lines().rev().position(|line| line.contains("#t=")).expect("it is shown");
        assert!(last < 24, "{shown}");
    }
}

#[test]
fn a_login_is_kept_once_the_server_accepts_the_token() {
    let world = World::new();
    let server = Server::start(&world, "");
    std::fs::remove_file(world.path(".config/deltic/logins.json")).expect("it is there");
    let stranger = Run::of(&mut world.command(DELTIC, ["token", "new"])).stdout;
    let stranger = stranger.lines().next().expect("it is printed").to_owned();
    for (code, words, why) in [
        (11, format!("login URL/photos/#t={stranger}"), "`deltic token add NAME` on the server"),
        (10, format!("login http://127.0.0.1:1/photos/#t={stranger}"), "cannot connect"),
        (3, format!("login URL/nosuch/#t={}", server.token()), "its volumes: photos"),
    ] {
        server.fails(code, &words, why);
        assert!(!world.exists(".config/deltic/logins.json"), "{words}");
    }
    let kept = server.deltic(&format!("login URL/photos/#t={}", server.token()));
    assert!(kept.code == Some(0) && world.exists(".config/deltic/logins.json"), "{kept:#?}");
}

#[test]
fn a_home_directory_is_served_without_the_state_of_the_server() {
    let world = World::new();
    world.mkdir("home");
    world.write("home/file", "a");
    let home = world.path("home");
    let mut command = std::process::Command::new(DELTIC);
    command.args(["serve", "home", "--listen", "127.0.0.1:0"]);
    world.place(&mut command);
    command.env("HOME", &home).env_remove("XDG_STATE_HOME");
    let mut terminal = Terminal::start(&mut command);
    assert!(terminal.shows("deltic token add NAME"), "{}", terminal.shown);
    let url =
        terminal.shown.split("deltic login '").nth(1).and_then(|rest| rest.split('\'').next());
    let url = url.expect("it is shown").to_owned();
    assert!(world.exists("home/.local/state/deltic/.deltic-serve/lock"));
    let login = Run::of(&mut world.command(DELTIC, ["login", &url]));
    assert_eq!(login.code, Some(0), "{login:#?}");
    let place = url.split('#').next().expect("it has one");
    let got = Run::of(&mut world.command(DELTIC, ["sync", "-a", place, "got/"]));
    assert_eq!(got.code, Some(0), "{got:#?}");
    assert!(world.exists("got/.local/state/deltic") && world.exists("got/file"));
    assert!(!world.exists("got/.local/state/deltic/.deltic-serve"));
    let state = format!("{place}.local/state/deltic/.deltic-serve/");
    let run = Run::of(&mut world.command(DELTIC, ["sync", "-a", &state, "more/"]));
    assert!(run.code == Some(3) && !world.exists("more/tokens.json"), "{run:#?}");
}

#[test]
fn serve_show_tells_address_pin_and_volumes_of_the_server_that_runs() {
    let world = World::new();
    let show = |code: i32| {
        let run = Run::of(&mut world.command(DELTIC, ["serve", "--show", "--state", "state"]));
        assert_eq!(run.code, Some(code), "{run:#?}");
        run
    };
    assert!(show(3).stderr.contains("no server runs"));
    let server = Server::start(&world, "--lan --ro");
    let pin = server.whole.split("&pin=").nth(1).expect("it has one");
    let shown = show(0).stdout;
    for line in [
        format!("address: {}\n", server.url),
        format!("pin: {pin}\n"),
        format!(
            "volume photos: {} (read only)\n",
            world.path("photos").canonicalize().unwrap().display()
        ),
    ] {
        assert!(shown.contains(&line), "{line} in {shown}");
    }
    drop(server);
    assert!(show(3).stderr.contains("no server runs"));
}

#[test]
fn entity_tags_survive_a_restart() {
    let world = World::new();
    world.write("photos/a", "a");
    let past = |server: &Server<'_>| {
        let answer = ask(server, "GET /v1/volumes/photos/files/a", "", b"");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.tag().to_owned()
    };
    world.set_time("photos/a", 1_000_000_000);
    let mut server = Server::start(&world, "");
    let tag = past(&server);
    server.signal(Signal::TERM);
    server.child.wait().expect("it ends");
    drop(server);
    let server = Server::start(&world, "");
    let unchanged = format!("If-None-Match: {}\r\n", tag.trim_start_matches("W/"));
    let answer = ask(&server, "GET /v1/volumes/photos/files/a", &unchanged, b"");
    assert_eq!(answer.status, 304, "{tag} {answer:?}");
}
