#!/usr/bin/env bash
# Installs the tarball, the .deb and the image of an architecture, each into a separate empty root directory, and syncs
# a file with each installed program: dist-test.sh DIST ARCH
set -euo pipefail
dist=$(realpath "$1") arch=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$dist"
sha256sum --quiet -c SHA256SUMS
fail() { printf 'FAILED: %s: %s\n' "$arch" "$*" >&2; exit 1; }

# chroot needs root, or a user namespace.
into=("$(command -v chroot || echo /usr/sbin/chroot)")
[ "$(id -u)" = 0 ] || into=("$(command -v unshare)" --map-root-user "${into[@]}")
runs=yes
"${into[@]}" / true 2>/dev/null || { runs=no; echo "SKIPPED: nothing runs in a root of its own: no chroot and no user namespace"; }
emulator=
if [ "$arch" != "$(uname -m)" ]; then
  emulator=$(command -v "qemu-$arch-static" || true)
  [ -n "$emulator" ] || { runs=no; echo "SKIPPED: nothing here runs programs of $arch (qemu-user-static)"; }
fi

# try ROOT PROGRAM: syncs files with PROGRAM, a path in ROOT, with ROOT as root directory.
try() {
  local root=$1 program=$2 command
  [ -x "$root$program" ] || fail "$program is missing in $root"
  [ "$runs" = yes ] || return 0
  command=("$program")
  if [ -n "$emulator" ]; then
    cp "$emulator" "$root/emulator"
    command=(/emulator "$program")
  elif library=$(ldd "$root$program" 2>/dev/null); then
    for library in $(grep -o '/[^ ]*' <<<"$library"); do
      mkdir -p "$root${library%/*}"
      cp -L "$library" "$root$library"
    done
  fi
  mkdir -p "$root/src/sub"
  seq 10000 >"$root/src/sub/file"
  env -i "${into[@]}" "$root" "${command[@]}" --version
  env -i "${into[@]}" "$root" "${command[@]}" sync -a --no-config /src/ /dst/ >/dev/null
  # The second run sends the changes of a file that source and destination have.
  seq 10001 >"$root/src/sub/file"
  env -i "${into[@]}" "$root" "${command[@]}" sync -a --no-config /src/ /dst/ >/dev/null
  cmp "$root/src/sub/file" "$root/dst/sub/file" || fail "$program copied other bytes"
}

has() { for path in "${@:2}"; do [ -s "$1/$path" ] || fail "no $path in $1"; done; }
installed=(share/man/man1/deltic.1.gz share/man/man1/deltic-sync.1.gz share/bash-completion/completions/deltic
  share/zsh/site-functions/_deltic share/fish/vendor_completions.d/deltic.fish share/doc/deltic/README.md
  share/doc/deltic/LICENSE-MIT share/doc/deltic/LICENSE-APACHE lib/systemd/system/deltic-serve.service)

tarball=$(echo deltic-*-"$arch"-linux.tar.gz)
mkdir "$work/tar"
tar -xzf "$tarball" -C "$work/tar"
has "$work/tar/${tarball%.tar.gz}" "${installed[@]}"
gzip -t "$work/tar/${tarball%.tar.gz}"/share/man/man1/*.gz
try "$work/tar" "/${tarball%.tar.gz}/bin/deltic"

case $arch in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; esac
deb=$(echo deltic_*_"$debian".deb)
mkdir -p "$work/deb/var/lib/dpkg/info" "$work/deb/var/lib/dpkg/updates"
: >"$work/deb/var/lib/dpkg/status"
if command -v dpkg >/dev/null; then
  dpkg --root="$work/deb" --force-not-root --force-architecture --log=/dev/null -i "$deb" >"$work/said" 2>&1 || { cat "$work/said" >&2; fail "dpkg refuses $deb"; }
  [ -z "$(dpkg --root="$work/deb" --verify deltic)" ] || fail "dpkg finds other bytes than $deb says"
else
  ar p "$deb" data.tar.gz | tar -xz -C "$work/deb"
fi
has "$work/deb/usr" "${installed[@]}" share/doc/deltic/copyright
try "$work/deb" /usr/bin/deltic

mkdir "$work/image" "$work/container"
tar -xf deltic-*-"$arch"-image.tar -C "$work/image"
python3 - "$work/image" >"$work/layers" <<'PYTHON'
import hashlib, json, pathlib, sys
image = pathlib.Path(sys.argv[1])
for blob in (image / "blobs/sha256").iterdir():
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name, blob
read = lambda digest: json.loads((image / "blobs" / digest.replace(":", "/")).read_text())
(entry,) = json.loads((image / "index.json").read_text())["manifests"]
manifest = read(entry["digest"])
(docker,) = json.loads((image / "manifest.json").read_text())
layers = ["blobs/" + layer["digest"].replace(":", "/") for layer in manifest["layers"]]
assert docker["Layers"] == layers and read(manifest["config"]["digest"])["config"]["Entrypoint"] == ["/usr/bin/deltic"]
print(*layers, sep="\n")
PYTHON
while read -r layer; do tar -xzf "$work/image/$layer" -C "$work/container"; done <"$work/layers"
try "$work/container" /usr/bin/deltic

python3 - deltic-*.cdx.json <<'PYTHON'
import json, sys
bom = json.load(open(sys.argv[1]))
parts = {part["name"]: part for part in bom["components"]}
assert bom["bomFormat"] == "CycloneDX" and {"deltic-core", "zstd", "rustls"} <= parts.keys()
assert all(part["hashes"] for name, part in parts.items() if not name.startswith("deltic"))
refs = {part["bom-ref"] for part in [bom["metadata"]["component"], *bom["components"]]}
assert all(refs.issuperset([use["ref"], *use["dependsOn"]]) for use in bom["dependencies"])
PYTHON
echo "$arch: the tarball, the .deb and the image are installed, and run"
