#!/usr/bin/env bash
# Checks `deltic storage` for two versions of a file in ZFS snapshots: zfs.sh DELTIC [DIR].
#
# Installs zfs-fuse by apt. Makes a pool in a file of 300 MB in DIR (default /tmp/deltic-zfs), with an uncompressed
# and a compressed dataset and a file of 40 MB in each, and changes ten blocks of 4 KiB between two snapshots. The
# ranges that `DELTIC storage` prints must contain every changed byte, and at most twelve records of 128 KiB. Needs
# root; runs in a separate mount namespace, and stops and unmounts everything at the end.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
deltic=$(realpath "$1") dir=${2:-/tmp/deltic-zfs}
if [ "$(id -u)" != 0 ]; then
    echo "SKIPPED: zfs-fuse needs root"
    exit 0
fi
if [ -z "${DELTIC_ALONE:-}" ]; then
    "$here/../ensure.sh" zfs-fuse zfs-fuse
    exec unshare --mount env DELTIC_ALONE=1 bash "$0" "$deltic" "$dir"
fi
mkdir -p "$dir" && dir=$(realpath "$dir") && cd "$dir"
# shellcheck source=tools/storage/zfs-up.sh
. "$here/zfs-up.sh"
trap down EXIT
zfs_up "$dir" 300M

# Random bytes, and words that are each written eight times.
python3 - plain mount/plain/file packed mount/packed/file <<'END'
import os, sys
for kind, name in zip(sys.argv[1::2], sys.argv[2::2]):
    random = os.urandom(40_000_000)
    content = random if kind == "plain" else b"".join(random[i : i + 8] * 8 for i in range(0, 5_000_000, 8))
    with open(name, "wb") as file:
        file.write(content)
END
for dataset in plain packed; do cp "mount/$dataset/file" "$dataset-a"; done
zfs snapshot -r pool@a
python3 - mount/plain/file mount/packed/file <<'END'
import random, sys
for name in sys.argv[1:]:
    with open(name, "r+b") as file:
        for block in random.sample(range(40_000_000 // 4096), 10):
            file.seek(block * 4096)
            old = file.read(4096)
            file.seek(block * 4096)
            file.write(bytes(byte ^ 0xFF for byte in old))
END
for dataset in plain packed; do cp "mount/$dataset/file" "$dataset-b"; done
zfs snapshot -r pool@b

check() { # dataset: what is told of it holds
    inode=$(stat -c %i "mount/$1/file")
    "$deltic" storage --json "zfs:pool/$1@b:$inode" "zfs:pool/$1@a:$inode" >"$1.json" || [ $? = 26 ]
    python3 - "$1" <<'END'
import json, sys
name = sys.argv[1]
old, new = (open(f"{name}-{version}", "rb").read() for version in "ab")
with open(f"{name}.json") as lines:
    (told,) = (e for e in map(json.loads, lines) if e["event"] == "storage")
ranges = [(r["offset"], r["offset"] + r["length"]) for r in told["differs"]]
assert told["length"] == len(new), f"{name}: the length told is {told['length']}"
assert all(0 <= start < end <= len(new) for start, end in ranges), f"{name}: a range lies past the end"
changed = [at for at in range(0, len(new), 4096) if old[at : at + 4096] != new[at : at + 4096]]
assert len(changed) == 10
changed = [at for block in changed for at in range(block, min(block + 4096, len(new))) if old[at] != new[at]]
missed = [at for at in changed if not any(start <= at < end for start, end in ranges)]
assert not missed, f"{name}: {len(missed)} bytes that changed are not told, the first at {missed[0]}"
total = sum(end - start for start, end in ranges)
assert told["differing_bytes"] == total, f"{name}: {told['differing_bytes']} bytes differ, and {total} are told"
assert total <= 12 << 17, f"{name}: {total} bytes are told"
print(f"{name}: {len(changed)} bytes changed, {total} are told in {len(ranges)} ranges, by {told['evidence']}")
END
}
check plain
check packed
