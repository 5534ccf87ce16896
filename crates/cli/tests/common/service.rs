//! The service that answers questions about storage, and users who have to ask it.

use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use super::attrs::SOMEBODY;
use super::{DELTIC, World, wait_until};

/// A service that has the right which the rest of us lack, for as long as this lives.
pub struct Service(Child);

impl Service {
    pub fn at(world: &World, socket: &str) -> Self {
        let mut command = Command::new(DELTIC);
        command.args(["facts", "--socket", socket]).current_dir(world.path(""));
        let service = Self(command.spawn().expect("it starts"));
        let is_heard = || UnixStream::connect(world.path(socket)).is_ok();
        wait_until("the service listens", is_heard);
        service
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Begins a command line that is run by somebody else than the superuser, who asks the service at `socket`.
pub fn as_somebody(world: &World, socket: &str) -> Vec<String> {
    let (socket, id) = (world.path(socket), SOMEBODY.to_string());
    let socket = format!("DELTIC_FACTS_SOCKET={}", socket.display());
    let words = ["env", &socket, "setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    words.map(str::to_owned).into()
}
