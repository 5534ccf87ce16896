#!/usr/bin/env bash
# Records the fixtures of crates/remote/src/labs/layout/fixtures again, from the real programs:
# layouts.sh [DIR [SYSTEM...]], where SYSTEM is one of verity hdfs moosefs ceph zfs mega mfdedup. The default is all.
#
# Installs by apt: cryptsetup-bin, moosefs-master, moosefs-chunkserver, moosefs-client, ceph-mon, ceph-osd and zfs-fuse.
# Installs by Maven: Hadoop's MiniDFSCluster, ~100 MB, into DIR (default /tmp/deltic-storage). MeGA and MFDedup are in
# no registry: the variables MEGA and MFDEDUP name the directories with the built programs; without a variable, the
# system is skipped. Needs root; everything runs in separate network and mount namespaces.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-/tmp/deltic-storage} && mkdir -p "$dir" && dir=$(realpath "$dir")
[ $# = 0 ] || shift
systems=${*:-verity hdfs moosefs ceph zfs mega mfdedup}
fixtures=$here/../../crates/remote/src/labs/layout/fixtures
mkdir -p "$fixtures/zfs" && fixtures=$(realpath "$fixtures")
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: the fixtures are recorded as root"
    exit 0
fi
ensure() { "$here/../ensure.sh" "$@"; }
wants() { case " $systems " in *" $1 "*) ;; *) false ;; esac }
if [ -z "${DELTIC_ALONE:-}" ]; then
    ! wants verity || ensure veritysetup cryptsetup-bin
    ! wants zfs || ensure zfs-fuse zfs-fuse
    if wants hdfs; then
        ensure mvn maven
        [ -d "$dir/lib" ] ||
            mvn -q -B -f "$here/hdfs-pom.xml" dependency:copy-dependencies -DoutputDirectory="$dir/lib"
    fi
    if wants moosefs; then
        ensure mfsmaster moosefs-master
        ensure mfschunkserver moosefs-chunkserver
        ensure mfsmount moosefs-client
    fi
    if wants ceph; then
        ensure ceph-mon ceph-mon
        ensure ceph-osd ceph-osd
    fi
    # shellcheck disable=SC2086 # The variable has several words.
    exec unshare --net --mount env DELTIC_ALONE=1 bash "$0" "$dir" $systems
fi
ip link set lo up
work=$dir/layouts
rm -rf "$work" && mkdir -p "$work"

stream() { python3 "$here/stream.py" "$@"; }

record_verity() {
    cd "$work"
    uuid=00112233-4455-6677-8899-aabbccddeeff
    salt=$(seq 0 31 | xargs printf '%02x')
    hash() { # data, hash, option...
        data=$1 to=$2
        shift 2
        veritysetup format --uuid $uuid --hash-block-size 4096 "$@" "$data" hash.img | grep 'Root hash'
        cat hash.img >"$fixtures/$to" && rm hash.img
    }
    stream plain first 819200
    stream plain second 819200
    stream change second 5000 700000
    stream plain short 10240
    hash first dm-verity.hash --hash sha256 --data-block-size 4096 --salt "$salt"
    hash second dm-verity-v2.hash --hash sha256 --data-block-size 4096 --salt "$salt"
    hash short dm-verity-sha1.hash --hash sha1 --data-block-size 1024 --salt 0001020304050607
    hash short dm-verity-type0.hash --format 0 --hash sha1 --data-block-size 1024 --salt 0001020304050607
}

record_hdfs() {
    jars=$(echo "$dir"/lib/*.jar | tr ' ' ':')
    mkdir -p "$work/classes" && javac -cp "$jars" -d "$work/classes" "$here/Mini.java"
    stream plain "$work/img" 10000
    hdfs_of CRC32C hdfs.meta
    hdfs_of CRC32 hdfs-crc32.meta
}
hdfs_of() { # kind of sum, fixture
    home=$work/hdfs-$1
    mkdir -p "$home" && cd "$home" && mkfifo in && : >log
    echo "<configuration><property><name>dfs.checksum.type</name><value>$1</value></property></configuration>" \
        >hdfs-site.xml
    java --add-opens java.base/java.lang=ALL-UNNAMED -Dhadoop.log.dir=data -Dtest.build.data=data \
        -cp "$home:$work/classes:$jars" Mini data <in >log 2>errors &
    pid=$!
    exec 9>in
    until grep -q PORT log; do kill -0 $pid && sleep 0.2; done
    echo "put $work/img /img" >&9
    until grep -q PUT log; do kill -0 $pid && sleep 0.1; done
    cat "$(find data -name 'blk_*.meta')" >"$fixtures/$2"
    exec 9>&-
    wait $pid
}

record_moosefs() {
    system=moosefs log=$work/moosefs.log deltic=
    # shellcheck source=tools/storage/moosefs.sh
    . "$here/moosefs.sh"
    trap down EXIT
    stream plain "$work/img" 200000
    put "$work/img"
    chunk=$(mfsfileinfo "$mfs/other/dir/img" | sed -n 's/.*chunk 0: \([0-9A-F_]*\).*/\1/p')
    down
    head -c 8192 "$(find "$mfs/hdd" -name "chunk_$chunk.mfs")" >"$fixtures/moosefs.chunk"
}

record_ceph() {
    system=ceph log=$work/ceph.log deltic=
    # shellcheck source=tools/storage/ceph.sh
    . "$here/ceph.sh"
    trap down EXIT
    home=$ceph
    stream plain "$work/img" 300000
    put "$work/img"
    head -c 5000 /dev/zero | tr '\0' U >"$work/over"
    timeout 120 rados -p pool --offset 100000 put dir/img "$work/over"
    timeout 120 rados -p pool put dir/cut "$work/img"
    timeout 120 rados -p pool truncate dir/cut 250001
    timeout 60 ceph osd pool create packed 8 8 >>"$log" 2>&1
    for option in 'size 1 --yes-i-really-mean-it' 'compression_algorithm zlib' 'compression_mode force'; do
        # shellcheck disable=SC2086 # The variable has several words.
        timeout 60 ceph osd pool set packed $option >>"$log" 2>&1
    done
    stream repeat "$work/img" 300000 100000
    timeout 120 rados -p packed put dir/packed "$work/img"
    osd=$(cat "$home/run/osd.0.pid")
    down
    while kill -0 "$osd" 2>/dev/null; do sleep 0.1; done
    dump dir/img bluestore.json
    dump dir/cut bluestore-cut.json
    dump dir/packed bluestore-compressed.json
}
dump() { # object, fixture
    tool="ceph-objectstore-tool --no-mon-config --data-path $home/osd"
    $tool "$($tool --op list "$1")" dump >"$fixtures/$2"
}

# Records the output of zdb for a pool in a file.
record_zfs() {
    # shellcheck source=tools/storage/zfs-up.sh
    . "$here/zfs-up.sh"
    trap down EXIT
    zfs_up "$work/zfs" 100M
    plain=$work/zfs/mount/plain
    stream plain "$plain/small" 700
    stream plain "$plain/file" 1000000
    stream plain "$work/part" 200000
    truncate -s 1M "$plain/sparse"
    cat "$work/part" >>"$plain/sparse"
    truncate -s 3M "$plain/sparse"
    mkdir "$plain/directory"
    stream repeat "$work/zfs/mount/packed/file" 1000000 262144
    zfs create -o checksum=sha256 -o recordsize=8K pool/sha256
    stream plain "$work/zfs/mount/sha256/file" 100000
    zfs snapshot -r pool@a
    stream change "$plain/file" 5000 700000
    zfs snapshot -r pool@b
    cd "$fixtures/zfs"
    of() { stat -c %i "$work/zfs/mount/$1"; }
    told file-a pool/plain@a "$(of plain/file)"
    told file-b pool/plain@b "$(of plain/file)"
    told file-now pool/plain "$(of plain/file)"
    told sparse pool/plain@b "$(of plain/sparse)"
    told small pool/plain@b "$(of plain/small)"
    told packed pool/packed@b "$(of packed/file)"
    told sha256 pool/sha256@b "$(of sha256/file)"
    told directory pool/plain@b "$(of plain/directory)"
    told no-object pool/plain@b 999
    told no-snapshot pool/plain@none 5
    told no-dataset pool/none@a 5
}
told() { # fixture, dataset, object
    rm -f "$1".*
    code=0
    zdb -ddddd -bbbbbb "$2" "$3" >"$1.txt" 2>"$1.err" || code=$?
    [ -s "$1.err" ] || rm "$1.err"
    echo "zdb $2 $3: exit $code"
}

record_mega() { dedup "${MEGA:-}" MeGA mega --DeltaSelectorThreshold=0; }
record_mfdedup() { dedup "${MFDEDUP:-}" MFDedup mfdedup; }
dedup() { # directory, program, fixtures, option...
    if [ ! -x "$1/$2" ]; then
        echo "SKIPPED: no $2 in the directory that is given for it"
        exit 0
    fi
    program=$(realpath "$1/$2") name=$3 home=$work/$3
    shift 3
    mkdir -p "$home/logicFiles" "$home/storageFiles" && cd "$home"
    printf 'path = "%s"\n\nretention = 20\n' "$home" >config.toml
    stream plain version1 400000
    { head -c 150000 version1 && head -c 100 /dev/zero | tr '\0' U && tail -c +150001 version1; } >version2
    cp version2 version3
    stream change version3 276000 280000 284000
    for version in 1 2 3; do
        timeout 60 "$program" --ConfigFile=config.toml --task=write --InputFile="version$version" "$@" >>log 2>&1
        cat "logicFiles/Recipe$version" >"$fixtures/$name-Recipe$version"
    done
}

for one in $systems; do
    (
        "record_$one"
        echo "$one: recorded"
    )
done
