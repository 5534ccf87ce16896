#!/usr/bin/env bash
# Records the fixtures of crates/remote/src/layout/fixtures again, from the real programs: layouts.sh [DIR [SYSTEM...]],
# where SYSTEM is one of verity hdfs moosefs ceph zfs mega mfdedup; all of them unless some are named.
#
# Installs by apt cryptsetup-bin, moosefs-master, moosefs-chunkserver, moosefs-client, ceph-mon, ceph-osd and zfs-fuse, and
# by Maven, into DIR (default /tmp/deltic-storage), Hadoop's MiniDFSCluster, ~100 MB. MeGA and MFDedup are in no registry:
# MEGA and MFDEDUP name the directories where they were built, and without them they are skipped. As root; everything runs
# in a network and with mounts of its own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-/tmp/deltic-storage} && mkdir -p "$dir" && dir=$(realpath "$dir")
[ $# = 0 ] || shift
systems=${*:-verity hdfs moosefs ceph zfs mega mfdedup}
fixtures=$here/../../crates/remote/src/layout/fixtures
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
    # shellcheck disable=SC2086 # They are several words.
    exec unshare --net --mount env DELTIC_ALONE=1 bash "$0" "$dir" $systems
fi
ip link set lo up
work=$dir/layouts
rm -rf "$work" && mkdir -p "$work"

# Writes a content: content FILE LENGTH [OFFSET...] is the first LENGTH bytes of the stream, with the bytes at the offsets
# inverted. `repeated FILE LENGTH PLAIN` is PLAIN bytes of it, then each further word eight times.
python() { PYTHONPATH=$work python3 - "$@"; }
cat >"$work/stream.py" <<'END'
"""The words of SplitMix64, whose state starts at 0."""
import itertools
import struct

MASK = (1 << 64) - 1


def words():
    state = 0
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
        yield struct.pack("<Q", word ^ (word >> 31))


def stream(length):
    return b"".join(itertools.islice(words(), (length + 7) // 8))[:length]


def changed(content, offsets):
    content = bytearray(content)
    for offset in offsets:
        content[offset] ^= 0xFF
    return bytes(content)
END
content() {
    python "$@" <<'END'
import sys
from stream import changed, stream
name, length, *offsets = sys.argv[1:]
open(name, "wb").write(changed(stream(int(length)), map(int, offsets)))
END
}
repeated() {
    python "$@" <<'END'
import itertools, sys
from stream import words
name, length, plain = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
word = words()
start = b"".join(itertools.islice(word, plain // 8))
more = itertools.islice(word, (length - plain + 63) // 64)
open(name, "wb").write((start + b"".join(w * 8 for w in more))[:length])
END
}

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
    content first 819200
    content second 819200 5000 700000
    content short 10240
    hash first dm-verity.hash --hash sha256 --data-block-size 4096 --salt "$salt"
    hash second dm-verity-v2.hash --hash sha256 --data-block-size 4096 --salt "$salt"
    hash short dm-verity-sha1.hash --hash sha1 --data-block-size 1024 --salt 0001020304050607
    hash short dm-verity-type0.hash --format 0 --hash sha1 --data-block-size 1024 --salt 0001020304050607
}

record_hdfs() {
    jars=$(echo "$dir"/lib/*.jar | tr ' ' ':')
    mkdir -p "$work/classes" && javac -cp "$jars" -d "$work/classes" "$here/Mini.java"
    content "$work/img" 10000
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
    content "$work/img" 200000
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
    content "$work/img" 300000
    put "$work/img"
    head -c 5000 /dev/zero | tr '\0' U >"$work/over"
    timeout 120 rados -p pool --offset 100000 put dir/img "$work/over"
    timeout 60 ceph osd pool create packed 8 8 >>"$log" 2>&1
    for option in 'size 1 --yes-i-really-mean-it' 'compression_algorithm zlib' 'compression_mode force'; do
        # shellcheck disable=SC2086 # They are several words.
        timeout 60 ceph osd pool set packed $option >>"$log" 2>&1
    done
    repeated "$work/img" 300000 100000
    timeout 120 rados -p packed put dir/packed "$work/img"
    osd=$(cat "$home/run/osd.0.pid")
    down
    while kill -0 "$osd" 2>/dev/null; do sleep 0.1; done
    dump dir/img bluestore.json
    dump dir/packed bluestore-compressed.json
}
dump() { # object, fixture
    tool="ceph-objectstore-tool --no-mon-config --data-path $home/osd"
    $tool "$($tool --op list "$1")" dump >"$fixtures/$2"
}

# A pool in a file, told by zdb.
record_zfs() {
    # shellcheck source=tools/storage/zfs-up.sh
    . "$here/zfs-up.sh"
    trap down EXIT
    zfs_up "$work/zfs" 100M
    plain=$work/zfs/mount/plain
    content "$work/img" 1000000
    content "$plain/small" 700
    cp "$work/img" "$plain/file"
    content "$work/part" 200000
    truncate -s 1M "$plain/sparse"
    cat "$work/part" >>"$plain/sparse"
    truncate -s 3M "$plain/sparse"
    repeated "$work/zfs/mount/packed/file" 1000000 262144
    zfs snapshot -r pool@a
    content "$work/img" 1000000 5000 700000
    cmp -l "$work/img" "$plain/file" | while read -r at byte _; do
        # shellcheck disable=SC2059 # It is a byte.
        printf "\\$byte" | dd of="$plain/file" bs=1 seek=$((at - 1)) conv=notrunc 2>/dev/null
    done
    zfs snapshot -r pool@b
    cd "$fixtures/zfs"
    of() { stat -c %i "$work/zfs/mount/$1"; }
    told file-a.txt pool/plain@a "$(of plain/file)"
    told file-b.txt pool/plain@b "$(of plain/file)"
    told file-now.txt pool/plain "$(of plain/file)"
    told sparse.txt pool/plain@b "$(of plain/sparse)"
    told small.txt pool/plain@b "$(of plain/small)"
    told packed.txt pool/packed@b "$(of packed/file)"
    told no-object.txt pool/plain@b 999
    told no-snapshot.txt pool/plain@none 5
    told no-dataset.txt pool/none@a 5
    told directory.txt pool/plain@b "$(of plain)"
}
told() { # fixture, dataset, object: what zdb prints to both outputs, and its code in the last line
    code=0
    zdb -ddddd -bbbbbb "$2" "$3" >"$1" 2>&1 || code=$?
    echo "exit $code" >>"$1"
}

record_mega() { dedup "${MEGA:-}" MeGA mega --DeltaSelectorThreshold=0; }
record_mfdedup() { dedup "${MFDEDUP:-}" MFDedup mfdedup; }
dedup() { # directory, program, fixtures, option...
    if [ ! -x "$1/$2" ]; then
        echo "SKIPPED: no $2 in the directory that is given for it"
        return
    fi
    program=$(realpath "$1/$2") name=$3 home=$work/$3
    shift 3
    mkdir -p "$home/logicFiles" "$home/storageFiles" && cd "$home"
    printf 'path = "%s"\n\nretention = 20\n' "$home" >config.toml
    python <<'END'
from stream import changed, stream
first = stream(400000)
second = first[:150000] + b"\x55" * 100 + first[150000:]
third = changed(second, (276000, 280000, 284000))
for name, content in ("1", first), ("2", second), ("3", third):
    open("version" + name, "wb").write(content)
END
    for version in 1 2 3; do
        timeout 60 "$program" --ConfigFile=config.toml --task=write --InputFile="version$version" "$@" >>log 2>&1
        cat "logicFiles/Recipe$version" >"$fixtures/$name-Recipe$version"
    done
}

for one in $systems; do
    ("record_$one")
    echo "$one: recorded"
done
