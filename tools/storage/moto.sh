#!/usr/bin/env bash
# Checks S3 as a source with the server moto: moto.sh DELTIC [DIR]. moto keeps a checksum of the parts' checksums, and
# does not mark such a checksum.
#
# Installs moto by pip into DIR (default /tmp/deltic-storage), once. Then uploads 73 MB in parts, and checks that the
# second run fetches no content, that `verify` finds the trees equal, that the reported received bytes are those of the
# loopback interface, and the results of `ls`, `size`, `cat` and wildcards.
set -eu
deltic=$(realpath "$1") dir=${2:-/tmp/deltic-storage}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir" && cd "$dir"
[ -d py ] || python3 -m venv --system-site-packages py
py/bin/python -c 'import awscrt, moto.server' 2>/dev/null || py/bin/pip -q install 'moto[server]' 'boto3[crt]'
# All bytes of the loopback interface are counted, so the script runs in a separate network namespace.
if [ -z "${DELTIC_ALONE:-}" ]; then
    exec unshare --net --mount env DELTIC_ALONE=1 bash "$here/moto.sh" "$deltic" "$dir"
fi
ip link set lo up
export AWS_ACCESS_KEY_ID=deltic AWS_SECRET_ACCESS_KEY=deltic-secret AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://127.0.0.1:9420 AWS_DEFAULT_REGION=us-east-1 HOME=$dir/home
py/bin/python -m moto.server -H 127.0.0.1 -p 9420 >moto.log 2>&1 &
pid=$!
trap 'kill "$pid"' EXIT
until (exec 3<>/dev/tcp/127.0.0.1/9420) 2>/dev/null; do sleep 0.1; done
rm -rf out home && mkdir -p home
head -c 73000000 /dev/urandom >img
py/bin/python "$here/put-s3.py" bucket dir/img img
printf 'a,b\n' >small.csv
py/bin/python "$here/put-s3.py" bucket dir/small.csv small.csv

loopback() { sed -n 's/ *lo: *\([0-9]*\) .*/\1/p' /proc/net/dev; }
field() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" | tail -n 1; }
received() { # the bytes that a run said to have received; at most a tenth below those of the loopback
    before=$(loopback)
    said=$("$deltic" sync -rt --json s3://bucket/dir/ out/ | field received_bytes)
    came=$(($(loopback) - before))
    echo "$1: $said bytes said, $came on the loopback"
    [ "$said" -le "$came" ]
    [ "$said" -ge "$((came * 9 / 10 - 20000))" ]
}
time received "first copy"
cmp img out/img
received "second run"
[ "$said" -lt 20000 ]
"$deltic" verify out/ s3://bucket/dir
[ "$("$deltic" size --json s3://bucket | field bytes)" = 73000004 ]
[ "$("$deltic" ls 's3://bucket/d*/*.csv' | wc -l)" = 1 ]
"$deltic" cat s3://bucket/dir/img | cmp - img
[ "$("$deltic" cat 's3://bucket/dir/*.csv')" = a,b ]
rm -rf out
"$deltic" sync 's3://bucket/dir/*.csv' out/
[ "$(ls out)" = small.csv ]
if "$deltic" sync --strategy rsync s3://bucket/dir/img out/ 2>why; then exit 1; fi
grep -q -- '--strategy rsync' why
echo "s3 (moto): all as expected"
