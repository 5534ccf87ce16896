//! File systems that take several spellings for one name: exFAT in a loop file, and FAT in a kernel of its own.

use std::fs;

use super::{Mounted, Run, World, is_installed, is_root, skip};

/// Bytes of a disk with more room than a server keeps free.
const IMAGE_BYTES: u64 = 2 << 30;

/// A loop device over a file, gone with this value.
pub struct LoopDevice<'a> {
    world: &'a World,
    path: String,
}

impl<'a> LoopDevice<'a> {
    fn over(world: &'a World, image: &str) -> Option<Self> {
        let run = Run::of(&mut world.command("losetup", ["-f", "--show", image]));
        (run.code == Some(0)).then(|| Self { world, path: run.stdout.trim().to_owned() })
    }
}

impl Drop for LoopDevice<'_> {
    fn drop(&mut self) {
        Run::of(&mut self.world.command("losetup", ["-d", &self.path]));
    }
}

/// Mounts a new exFAT at `at` with more room than a server keeps free, or says why the test is skipped.
pub fn exfat<'a>(world: &'a World, at: &'a str) -> Option<(Mounted<'a>, LoopDevice<'a>)> {
    exfat_of(world, at, IMAGE_BYTES)
}

/// Mounts a new exFAT of `bytes` at `at`, or says why the test is skipped.
pub fn exfat_of<'a>(
    world: &'a World,
    at: &'a str,
    bytes: u64,
) -> Option<(Mounted<'a>, LoopDevice<'a>)> {
    let without = "exFAT cannot be mounted here (exfat-fuse, exfatprogs, root)";
    make_image(world, bytes);
    let tools = ["mkfs.exfat", "mount.exfat-fuse", "losetup"];
    let made = is_root()
        && tools.iter().all(|tool| is_installed(tool))
        && Run::of(&mut world.command("mkfs.exfat", ["image"])).code == Some(0);
    let Some(device) = made.then(|| LoopDevice::over(world, "image")).flatten() else {
        skip(without);
        return None;
    };
    let words = ["-o", "allow_other", &device.path, at];
    let mounted = Mounted::by((world, at), ("mount.exfat-fuse", &words), without)?;
    Some((mounted, device))
}

/// Makes the file `image`, which is a hole of `bytes`.
fn make_image(world: &World, bytes: u64) {
    let file = fs::File::create(world.path("image"));
    file.and_then(|file| file.set_len(bytes)).expect("the file of the disk is made");
}

/// Runs a shell script in the directory of `world`, in a User-Mode Linux that has a new FAT at `dst`. Returns what the
/// script says, or says why the test is skipped.
///
/// The kernel of the machine may have no FAT. User-Mode Linux has, and sees the files of the machine.
pub fn on_fat(world: &World, script: &str) -> Option<String> {
    make_image(world, IMAGE_BYTES);
    world.mkdir("dst");
    world.write("script", script);
    world.write("init", INIT.replace("WORLD", &world.path("").display().to_string()));
    world.chmod("init", 0o755);
    let tools = ["linux.uml", "insmod", "mkfs.vfat"];
    let made = tools.iter().all(|tool| is_installed(tool))
        && Run::of(&mut world.command("mkfs.vfat", ["image"])).code == Some(0);
    if made {
        let (disk, init) = (world.path("image"), world.path("init"));
        let words = [
            "mem=256M".to_owned(),
            "root=/dev/root rootfstype=hostfs rootflags=/ rw con=null con0=null,fd:1 quiet"
                .to_owned(),
            format!("ubd0={}", disk.display()),
            format!("init={}", init.display()),
        ];
        let words = words.iter().flat_map(|words| words.split(' '));
        // A kernel that cannot start here says nothing of its own.
        let _ = world.command("linux.uml", words).output();
    }
    if !world.exists("said") {
        skip("FAT cannot be mounted here (user-mode-linux, kmod, dosfstools)");
        return None;
    }
    Some(String::from_utf8(world.read("said")).expect("it is text"))
}

/// First program of the User-Mode Linux.
const INIT: &str = r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run LC_ALL=C
cd WORLD || exit
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
modules=/usr/lib/uml/modules/$(uname -r)/kernel/fs
for module in nls/nls_cp437 nls/nls_iso8859-1 nls/nls_ascii fat/fat fat/vfat; do
  insmod $modules/$module.ko
done
mount -t vfat -o utf8 /dev/ubda dst && { sh script >said.new 2>&1; mv said.new said; }
umount dst
echo o >/proc/sysrq-trigger
sleep 10
"#;
