#!/usr/bin/env bash
# Checks a source that a URL names, with a real server: remote.sh SYSTEM DELTIC [DIR], where SYSTEM is one of
# s3 azure gs hdfs seaweedfs moosefs ceph.
#
# Installs into DIR (default /tmp/deltic-storage), once: s3: MinIO by `go install` and boto3 by pip; azure: azurite by
# npm and its client by pip; gs: fake-gcs-server by `go install`; hdfs: Hadoop's MiniDFSCluster by Maven, ~100 MB. The
# other systems have scripts of their names, which say what they install.
# Then uploads 100 MiB, syncs them, changes a byte, and prints the bytes that the next sync fetches. Fails if these are
# more than 1.3 times the unit that changed, or if the file differs. Then verifies the file by checksums; as root on a
# btrfs too, which stores CRC-32C. For ceph and moosefs, which have no server in memory for the unit tests, runs the
# command LAWS with the name of a test: that test is the conformance suite of all systems.
set -eu
# A benchmark counts all bytes of the loopback interface, so it runs in a separate network namespace. Nothing can be
# installed from there.
if [ -n "${BENCH:-}" ] && [ -z "${DELTIC_ALONE:-}" ]; then
    exec unshare --net --mount env DELTIC_ALONE=1 bash "$0" "$@"
fi
[ -z "${DELTIC_ALONE:-}" ] || ip link set lo up
system=$1 deltic=$(realpath "$2") dir=${3:-/tmp/deltic-storage}
# Most bytes of lists, metadata and checksums in a sync; and the length of the file in a benchmark.
facts=32768 size=512MiB
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir" && dir=$(realpath "$dir") && cd "$dir"
log=$dir/$system.log
pid=

python() {
    [ -d "$dir/py" ] || python3 -m venv "$dir/py"
    "$dir/py/bin/python" -c "import $1" 2>/dev/null || "$dir/py/bin/pip" -q install "$2"
}

up() { # port command...: starts it, and waits until the port answers
    port=$1
    shift
    "$@" >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
        sleep 0.1
    done
    echo "$system does not answer; see $log" >&2
    exit 1
}

down() { # and waits, for the next one takes the same port
    [ -n "$pid" ] && kill "$pid" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
}
trap 'down; umount disk 2>/dev/null || true' EXIT
rm -rf data out home && mkdir -p data out home classes
case $system in
s3)
    python boto3 'boto3[crt]'
    [ -x bin/minio ] || GOBIN=$dir/bin go install github.com/minio/minio@latest
    export AWS_ACCESS_KEY_ID=deltic AWS_SECRET_ACCESS_KEY=deltic-secret AWS_REGION=us-east-1
    export AWS_ENDPOINT_URL=http://127.0.0.1:9410 AWS_DEFAULT_REGION=us-east-1
    export MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY
    up 9410 bin/minio server --address 127.0.0.1:9410 data
    put() { "$dir/py/bin/python" "$here/put-s3.py" bucket dir/img "$1"; }
    get() {
        curl -sf --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
            -o "$1" "$AWS_ENDPOINT_URL/bucket/dir/img"
    }
    url=s3://bucket/dir/ unit=8388608
    ;;
azure)
    python azure.storage.blob azure-storage-blob
    [ -d node_modules/azurite ] || npm install --no-audit --no-fund azurite >"$log" 2>&1
    name=devstoreaccount1
    # The emulator has one key, which is public.
    key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
    endpoint=http://127.0.0.1:9510/$name
    export AZURE_STORAGE_CONNECTION_STRING="AccountName=$name;AccountKey=$key;BlobEndpoint=$endpoint"
    up 9510 node_modules/.bin/azurite-blob --silent --skipApiVersionCheck --location data --blobPort 9510
    put() { "$dir/py/bin/python" "$here/put-azure.py" container dir/img "$1"; }
    url=azure://container/dir/ unit=1048576
    ;;
gs)
    [ -x bin/fake-gcs-server ] || GOBIN=$dir/bin go install github.com/fsouza/fake-gcs-server@latest
    export STORAGE_EMULATOR_HOST=127.0.0.1:9610
    up 9610 bin/fake-gcs-server -scheme http -host 127.0.0.1 -port 9610 -backend memory
    curl -sf -o /dev/null -H 'Content-Type: application/json' -d '{"name":"bucket"}' \
        http://127.0.0.1:9610/storage/v1/b
    put() {
        curl -sf -o /dev/null -X POST --data-binary @"$1" \
            'http://127.0.0.1:9610/upload/storage/v1/b/bucket/o?uploadType=media&name=dir/img'
    }
    # Google stores one checksum of the whole object.
    url=gs://bucket/dir/ unit=104857600
    ;;
hdfs)
    [ -d lib ] || mvn -q -B -f "$here/hdfs-pom.xml" dependency:copy-dependencies -DoutputDirectory="$dir/lib"
    jars=$(echo lib/*.jar | tr ' ' ':')
    [ -f classes/Mini.class ] || javac -cp "$jars" -d classes "$here/Mini.java"
    rm -f in && mkfifo in
    # Empty the log: the log of the last run has the port of another server.
    : >"$log"
    java --add-opens java.base/java.lang=ALL-UNNAMED -Dhadoop.log.dir=data -Dtest.build.data=data \
        -cp "classes:$jars" Mini data <in >"$log" 2>/dev/null &
    pid=$!
    exec 9>in
    until grep -q PORT "$log"; do sleep 0.2; done
    port=$(sed -n 's/PORT //p' "$log")
    put() {
        before=$(grep -c PUT "$log" || true)
        echo "put $(realpath "$1") /dir/img" >&9
        until [ "$(grep -c PUT "$log")" != "$before" ]; do sleep 0.1; done
    }
    get() { curl -sfL -o "$1" "http://127.0.0.1:$port/webhdfs/v1/dir/img?op=OPEN&user.name=root"; }
    export HADOOP_USER_NAME=root log port
    url=hdfs://127.0.0.1:$port/dir/ unit=65536 facts=24576
    ;;
seaweedfs | moosefs | ceph) . "$here/$system.sh" ;;
*)
    sed -n '2,3p' "$0" >&2
    exit 2
    ;;
esac

export HOME=$dir/home
if [ -n "${BENCH:-}" ]; then
    export -f put get
    export dir here mfs CEPH_CONF 2>/dev/null || true
    # shellcheck disable=SC2086 # Options are several words.
    "$BENCH" remote --system "$system" --url "$url" --put 'put "$1"' --get 'get "$1"' --unit "$unit" \
        --size "${BENCH_SIZE:-$size}" \
        --dir "${BENCH_DIR:-$dir}" --deltic "$deltic" ${BENCH_OPTIONS:-}
    exit
fi
sync() { "$deltic" sync -rt --json "$url" out/; }
check() { # most bytes
    got=$(sync | sed -n 's/.*"received_bytes":\([0-9]*\).*/\1/p' | tail -n 1)
    cmp img out/img
    echo "$system: $got bytes came"
    [ "$got" -le "$1" ]
}
head -c 104857600 /dev/urandom >img
put img
echo "$system: first copy" && check 109051904
printf x | dd of=img bs=1 seek=50000000 conv=notrunc 2>/dev/null
put img
echo "$system: one byte changed, and the last run left notes" && check $((unit * 13 / 10 + facts))
rm -rf home/.cache && touch -d yesterday out/img
echo "$system: equal content, which nobody knows" && check $facts
printf y | dd of=out/img bs=1 seek=50000000 conv=notrunc 2>/dev/null
rm -rf home/.cache && touch -d yesterday out/img
echo "$system: another content, which nobody knows" && check $((unit * 13 / 10 + facts))

# verified CODE MAX_READ MAX_RECEIVED A B: checks the exit code of `verify A B`, and the bytes read here and received.
verified() {
    told=$("$deltic" verify --json "$4" "$5" | tail -n 1)
    word() { echo "$told" | sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p"; }
    echo "$system: verify $4 $5: $(word by) $(word sum), $(word read_bytes) read here, $(word received_bytes) came"
    [ "$(word exit_code)" = "$1" ] && [ "$(word read_bytes)" -le "$2" ] && [ "$(word received_bytes)" -le "$3" ]
}
mkdir -p tree && cp out/img tree/img
echo "$system: equal, in both orders"
verified 0 104857600 65536 tree/ "$url"
verified 0 104857600 65536 "$url" tree/
# Nine bytes: one of them alone could equal the old byte.
printf different | dd of=tree/img bs=1 seek=70000000 conv=notrunc 2>/dev/null
echo "$system: some bytes differ" && verified 26 104857600 65536 tree/ "$url"
if [ -n "${laws:-}" ] && [ -n "${LAWS:-}" ]; then
    echo "$system: the laws of all systems" && $LAWS "$laws"
fi
# No local file system stores the kind of checksum that these systems store.
case $system in azure | seaweedfs | moosefs | ceph) exit 0 ;; esac
image=$(mktemp "$dir/btrfs.XXXXXX")
mkdir -p disk
if truncate -s 400M "$image" && mkfs.btrfs -q "$image" && mount -o loop "$image" disk; then
    rm "$image"
    cp out/img disk/
    echo "$system: equal, and btrfs keeps the same sums" && verified 0 4096 65536 disk/ "$url"
else
    rm "$image"
    echo "SKIPPED: no btrfs can be mounted here"
fi
