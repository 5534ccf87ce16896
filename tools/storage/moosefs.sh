# Starts a master and a chunk server of MooseFS, and mounts the file system; remote.sh sources this script. Installs
# moosefs-master, moosefs-chunkserver and moosefs-client by apt. A chunk server accepts no loopback address, so all
# programs run in a separate network namespace, as root.
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: $system needs root"
    exit 0
fi
"$here/../ensure.sh" mfsmaster moosefs-master
"$here/../ensure.sh" mfschunkserver moosefs-chunkserver
"$here/../ensure.sh" mfsmount moosefs-client
if [ -z "${DELTIC_ALONE:-}" ]; then
    exec unshare --net --mount env DELTIC_ALONE=1 bash "$here/remote.sh" "$system" "$deltic" "$dir"
fi
ip addr add 10.99.0.1/32 dev lo
mfs=$dir/mfs
rm -rf "$mfs" && mkdir -p "$mfs/master" "$mfs/chunks" "$mfs/hdd" "$mfs/mount" "$mfs/other"
printf 'MFSM NEW' >"$mfs/master/metadata.mfs"
echo '* / rw,alldirs,maproot=0' >"$mfs/exports"
echo "$mfs/hdd" >"$mfs/hdd.cfg"
common="WORKING_USER = root
WORKING_GROUP = root"
echo "$common
DATA_PATH = $mfs/master
EXPORTS_FILENAME = $mfs/exports
MATOML_LISTEN_HOST = 10.99.0.1
MATOCS_LISTEN_HOST = 10.99.0.1
MATOCL_LISTEN_HOST = 10.99.0.1" >"$mfs/master.cfg"
echo "$common
DATA_PATH = $mfs/chunks
HDD_CONF_FILENAME = $mfs/hdd.cfg
MASTER_HOST = 10.99.0.1
CSSERV_LISTEN_HOST = 10.99.0.1" >"$mfs/chunks.cfg"
down() {
    umount "$mfs/mount" "$mfs/other" 2>/dev/null || true
    mfschunkserver -c "$mfs/chunks.cfg" stop >/dev/null 2>&1 || true
    mfsmaster -c "$mfs/master.cfg" stop >/dev/null 2>&1 || true
}
mfsmaster -c "$mfs/master.cfg" start >"$log" 2>&1
mfschunkserver -c "$mfs/chunks.cfg" start >>"$log" 2>&1
# Mounts without caches. Otherwise data written or read through the mount would be read from its cache, and its
# attributes would be up to a second old, even after writes through the other mount.
mfsmount -H 10.99.0.1 -o mfscachemode=DIRECT,mfsattrcacheto=0,mfsentrycacheto=0 "$mfs/mount" >>"$log" 2>&1
mfsmount -H 10.99.0.1 "$mfs/other" >>"$log" 2>&1
mkdir "$mfs/mount/dir"
for _ in $(seq 60); do
    if echo x 2>/dev/null >"$mfs/mount/probe" && command sync "$mfs/mount/probe" 2>/dev/null; then break; fi
    sleep 0.5
done
put() {
    cp "$1" "$mfs/other/dir/img" && command sync "$mfs/other/dir/img"
    # A master seems to set a file's time once more, up to a second after the last write; a sync in progress would then
    # begin again. A sync also waits for the end of the second in which a file was written. Neither is to be measured.
    sleep 1.3
}
get() { cp "$mfs/mount/dir/img" "$1"; }
export MOOSEFS_DIR=$mfs/mount/laws
mkdir "$MOOSEFS_DIR"
laws=a_mount_passes_the_conformance_suite
url=moosefs://$mfs/mount/dir/ unit=65536 facts=40960
