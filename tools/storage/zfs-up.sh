# Makes a ZFS pool in a file, by zfs-fuse (installed by apt), for layouts.sh and zfs.sh. Needs root and a separate mount
# namespace, so that this machine's list of pools does not change.
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: zfs-fuse needs root"
    exit 0
fi
zfs_pid=
zfs_up() { # directory, length of the file: makes the datasets pool/plain and pool/packed, mounted in its `mount`
    mkdir -p "$1/mount" /var/lib/zfs /run/zfs
    mount -t tmpfs none /var/lib/zfs
    mount -t tmpfs none /run/zfs
    zfs-fuse -n --no-kstat-mount -p "$1/pid" >"$1/log" 2>&1 &
    zfs_pid=$!
    for _ in $(seq 100); do
        [ ! -S /run/zfs/zfs_socket ] || break
        sleep 0.1
    done
    # Remove the file of the last run, which holds a pool.
    rm -f "$1/file" && truncate -s "$2" "$1/file"
    zpool create -m "$1/mount" pool "$1/file"
    zfs create -o compression=off pool/plain
    zfs create -o compression=on pool/packed
}
down() {
    [ -n "$zfs_pid" ] || return 0
    zpool export pool 2>/dev/null || zpool export -f pool || true
    kill "$zfs_pid" 2>/dev/null || true
    wait "$zfs_pid" 2>/dev/null || true
    zfs_pid=
    umount /run/zfs /var/lib/zfs
}
