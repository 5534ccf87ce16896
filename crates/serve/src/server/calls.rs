//! Calls of the system that a server never makes: the kernel refuses them to it, whoever has it make them.
//!
//! Landlock keeps it to its files. This keeps it from what goes round that: other programs, other processes' memory,
//! mounts, handles of files, and the parts of the kernel where most of its holes have been.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// Has the kernel refuse them from now on, for good, where it knows how. No other thread may have been started.
pub(super) fn refuse() -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules: BTreeMap<i64, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)
}

/// Their numbers.
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

    /// It is for good, so it is another process.
    #[test]
    fn a_server_starts_no_program_and_its_threads_do_not_either() {
        if std::env::var_os(CHILD).is_some() {
            assert!(Command::new("/bin/true").status().is_ok());
            refuse().unwrap();
            let runs = || Command::new("/bin/true").status().map_err(|error| error.kind());
            assert_eq!(runs().unwrap_err(), std::io::ErrorKind::PermissionDenied);
            let thread = std::thread::spawn(runs).join().unwrap();
            assert_eq!(thread.unwrap_err(), std::io::ErrorKind::PermissionDenied);
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "server::calls::tests::a_server_starts_no_program_and_its_threads_do_not_either";
        let run = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        let shown = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && shown.contains("1 passed"), "{shown}");
    }
}
