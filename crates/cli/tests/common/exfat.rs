//! File systems that have no holes, and take several spellings for one name: exFAT in loop files, by `exfat-fuse`.

use std::fs;

use super::{Mounted, Run, World, is_installed, is_root, skip};

/// A loop device over a file, gone with this value.
pub struct Loop<'a>(&'a World, String);

impl<'a> Loop<'a> {
    fn of(world: &'a World, image: &str) -> Option<Self> {
        let run = Run::of(&mut world.command("losetup", ["-f", "--show", image]));
        (run.code == Some(0)).then(|| Self(world, run.stdout.trim().to_owned()))
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        Run::of(&mut self.0.command("losetup", ["-d", &self.1]));
    }
}

/// A new exFAT of 64 MiB at `at`, or the reason to skip the test said.
pub fn exfat<'a>(world: &'a World, at: &'a str) -> Option<(Mounted<'a>, Loop<'a>)> {
    let without = "exFAT cannot be mounted here (exfat-fuse, exfatprogs, root)";
    fs::File::create(world.path("image"))
        .and_then(|file| file.set_len(64 << 20))
        .expect("the file of the disk is made");
    let tools = ["mkfs.exfat", "mount.exfat-fuse", "losetup"];
    let made = is_root()
        && tools.iter().all(|tool| is_installed(tool))
        && Run::of(&mut world.command("mkfs.exfat", ["image"])).code == Some(0);
    let Some(device) = made.then(|| Loop::of(world, "image")).flatten() else {
        skip(without);
        return None;
    };
    let words = ["-o", "allow_other", &device.1, at];
    let mounted = Mounted::by((world, at), ("mount.exfat-fuse", &words), without)?;
    Some((mounted, device))
}
