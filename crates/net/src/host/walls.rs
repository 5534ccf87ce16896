//! Seccomp filter of a process that serves other users, and protection of the memory of that process.
//!
//! Landlock restricts a server, or a restricted agent, to its files. Seccomp refuses the system calls that go round
//! Landlock: starting programs, reading the memory of other processes, mounting, opening files by handle, and the
//! parts of the kernel where most of its holes have been.

use std::collections::BTreeMap;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Makes the kernel refuse the calls of this filter to this process, for good. Call before any thread is started.
///
/// # Errors
/// The kernel has no seccomp.
pub fn refuse_system_calls() -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules: BTreeMap<i64, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)
}

/// Keeps the memory of this process out of core dumps, and from other processes of the same user: only the superuser
/// can trace this process from now on. The memory holds tokens, keys and files of other users.
pub fn hide_memory() {
    // A kernel that refuses this call makes core dumps as before.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}

/// Numbers of the calls that are refused.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "DELTIC_TEST_CALLS";

    /// The filter of a process is permanent, so the test runs in another process.
    #[test]
    fn behind_the_wall_no_program_starts_in_any_thread() {
        if std::env::var_os(CHILD).is_some() {
            assert!(Command::new("/bin/true").status().is_ok());
            refuse_system_calls().unwrap();
            let runs = || Command::new("/bin/true").status().map_err(|error| error.kind());
            assert_eq!(runs().unwrap_err(), std::io::ErrorKind::PermissionDenied);
            let thread = std::thread::spawn(runs).join().unwrap();
            assert_eq!(thread.unwrap_err(), std::io::ErrorKind::PermissionDenied);
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "host::walls::tests::behind_the_wall_no_program_starts_in_any_thread";
        let run = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        let shown = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && shown.contains("1 passed"), "{shown}");
    }
}
