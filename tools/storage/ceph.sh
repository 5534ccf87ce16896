# Starts a Ceph monitor and a Ceph object server (OSD) with its data in a file; remote.sh sources this script. Installs
# ceph-mon and ceph-osd by apt: 55 MB, with librados. Needs root.
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: $system needs root"
    exit 0
fi
"$here/../ensure.sh" ceph-mon ceph-mon
"$here/../ensure.sh" ceph-osd ceph-osd
ceph=$dir/ceph fsid=141f92a6-4b7a-4869-ab97-2f793fc6e71b
rm -rf "$ceph" && mkdir -p "$ceph/run" "$ceph/log" "$ceph/crash" "$ceph/mon" "$ceph/osd"
monitor=[v2:127.0.0.1:13300,v1:127.0.0.1:16789]
cat >"$ceph/ceph.conf" <<END
[global]
fsid = $fsid
mon host = $monitor
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = $ceph/run
admin socket = $ceph/run/\$name.\$pid.asok
pid file = $ceph/run/\$name.pid
log file = $ceph/log/\$name.log
crash dir = $ceph/crash
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = bluestore
bluestore block size = 4294967296
bluestore block create = true
bluestore cache size = 134217728
bluestore cache autotune = false
osd memory target = 939524096
mon data = $ceph/mon
osd data = $ceph/osd
mon warn on pool no redundancy = false
mon data avail crit = 1
END
export CEPH_CONF=$ceph/ceph.conf
down() {
    for name in osd.0 mon.a; do
        [ ! -f "$ceph/run/$name.pid" ] || kill "$(cat "$ceph/run/$name.pid")" 2>/dev/null || true
    done
}
{
    monmaptool --create --clobber --fsid "$fsid" --addv a "$monitor" "$ceph/monmap"
    ceph-mon -i a --mkfs --monmap "$ceph/monmap"
    ceph-mon -i a
    id=$(cat /proc/sys/kernel/random/uuid)
    timeout 60 ceph osd new "$id"
    ceph-osd -i 0 --mkfs --osd-uuid "$id"
    ceph-osd -i 0
    for _ in $(seq 120); do
        if timeout 20 ceph osd stat 2>/dev/null | grep -q '1 up'; then break; fi
        sleep 0.5
    done
    timeout 60 ceph osd pool create pool 8 8
    timeout 60 ceph osd pool set pool size 1 --yes-i-really-mean-it
} >"$log" 2>&1
put() { timeout 120 rados -p pool put dir/img "$1"; }
get() { timeout 120 rados -p pool get dir/img "$1"; }
# The default limit of Ceph for an object is 128 MiB, so the benchmark uses 100 MiB.
laws=a_pool_passes_the_conformance_suite
url=rados://pool/dir/ unit=65536 facts=40960 size=100MiB
