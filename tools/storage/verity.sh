#!/usr/bin/env bash
# Checks comparisons by the digests of fs-verity, on a kernel with fs-verity: verity.sh DELTIC [DIR].
#
# Installs by apt, as root: qemu-system-x86, busybox-static, cpio, fsverity, e2fsprogs, f2fs-tools and btrfs-progs.
# Unpacks parts of a kernel package into DIR (default /tmp/deltic-verity), ~120 MB. Then an emulated machine makes files
# on an ext4, an F2FS and a btrfs, enables fs-verity by `fsverity enable`, and compares the files by --trust-sums. Fails
# if more is read than the files without a digest, or if a result is wrong. The digests of btrfs cannot be used, so its
# own checksums are compared, and all bytes may be read. For file systems with hashes of blocks, checks that
# skysync-f uses the hashes. Takes about two minutes.
set -eu
deltic=$(realpath "$1") dir=${2:-/tmp/deltic-verity}
mkdir -p "$dir" && dir=$(realpath "$dir") && cd "$dir"
has() { command -v "$1" >/dev/null; }
programs=(qemu-system-x86_64 busybox fsverity cpio mkfs.ext4 mkfs.f2fs mkfs.btrfs)
for program in "${programs[@]}"; do
    has "$program" && continue
    apt-get -q install -y --no-install-recommends qemu-system-x86 busybox-static cpio fsverity e2fsprogs f2fs-tools btrfs-progs
    break
done
# The kernel package for clouds has no F2FS.
if ! ls kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache search --names-only '^linux-image-[0-9.]+-[0-9]+-amd64$' | sort -V | tail -n 1)
    rm -f linux-image-*.deb && apt-get -q download "${package%% *}"
    mkdir -p kernel
    dpkg --fsys-tarfile linux-image-*.deb | tar -x -C kernel --wildcards './boot/vmlinuz-*' './lib/modules/*/modules.*' \
        './lib/modules/*/kernel/'{fs,lib,crypto,block,arch,drivers/nvme}/'*'
    rm -f linux-image-*.deb
fi

rm -rf root && mkdir -p root/{bin,dev,proc,sys,tmp,mnt}
cp "$(command -v busybox)" root/bin/busybox
for program in "$deltic" "$(command -v fsverity)"; do
    cp "$program" root/bin/
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        mkdir -p "root$(dirname "$library")" && cp -L "$library" "root$library"
    done
done
version=$(ls kernel/lib/modules) && modules=lib/modules/$version
for part in fs/{ext4,jbd2,mbcache.ko,f2fs,btrfs} lib crypto block arch/x86/crypto drivers/nvme/host; do
    mkdir -p "root/$modules/kernel/$(dirname "$part")" && cp -r "kernel/$modules/kernel/$part" "root/$modules/kernel/$part"
done
cp "kernel/$modules"/modules.* "root/$modules/" && busybox depmod -b "$PWD/root" "$version"
cat >root/init <<'INIT'
#!/bin/busybox sh
export PATH=/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
modprobe -a crc32c_generic crc32_generic xxhash_generic blake2b_generic nvme ext4 f2fs btrfs
until [ -e /dev/nvme2n1 ]; do sleep 1; done

# check CODE MAX_READ COMMAND...: runs a command, and checks its exit code and the number of bytes that it read.
check() {
    code=$1 most=$2
    shift 2
    read=$(sh -c '"$@" >/tmp/told 2>&1; echo $? >/tmp/code; sed -n "s/rchar: //p" /proc/$$/io' sh "$@")
    if [ "$(cat /tmp/code)" = "$code" ] && [ "$read" -le "$most" ]; then
        echo "as it should be: $* ($read bytes read)"
    else
        echo "WRONG: $*: code $(cat /tmp/code), $read bytes read: $(cat /tmp/told)"
    fi
}
verify="deltic verify --trust-sums a b"
big=33554432

# suite ALL: compares files. ALL is the number of large files (32 MiB) that are read although they have a digest.
suite() {
    all=$1
    mkdir a b
    head -c $big /dev/urandom >a/big
    head -c 4096 /dev/urandom >a/block
    head -c 530000 /dev/urandom >a/odd
    : >a/empty
    cp a/* b/
    for file in a/* b/*; do fsverity enable $file || echo "WRONG: $file"; done
    check 0 $((8000000 + big * all)) $verify
    # Files without a digest are read, and are equal.
    rm b/big b/odd && cp a/big a/odd b/
    check 0 $((big + 9000000 + big * all)) $verify
    # With another salt the digest differs, so the file is read.
    fsverity enable --salt=01020304 b/odd
    check 0 $((big + 9000000 + big * all)) $verify
    printf x | dd of=b/big bs=1 seek=1000000 conv=notrunc 2>/dev/null
    fsverity enable b/big
    check 26 $((9000000 + big * all)) $verify
    check 0 $((big * (4 + all))) deltic sync -rtc --trust-sums a/ b
    check 0 $((big + 9000000 + big * all)) $verify
}

# literal BYTES NEW OLD: checks that a sync by skysync-f sends BYTES of literals for one changed byte.
literal() {
    bytes=$1
    shift
    told=$(deltic sync -I --stats --strategy skysync-f "$@" 2>&1 | sed -n 's/^Literal data: \([0-9,]*\) .*/\1/p' | tr -d ,)
    if [ "$told" = "$bytes" ] && cmp "$1" "$2"; then
        echo "as it should be: $* ($told bytes sent)"
    else
        echo "WRONG: $*: $told bytes sent, and not $bytes"
    fi
}

# If either end has hashes of fs-verity, of blocks of 4 KiB, they are the strong sums. Otherwise blocks have 8 KiB.
signatures() {
    mkdir c
    cp a/big c/plain && cp a/big c/old
    printf x | dd of=c/old bs=1 seek=1000000 conv=notrunc 2>/dev/null
    cp c/old c/sealed && cp c/old c/other && cp c/old c/salted
    fsverity enable c/sealed && fsverity enable --salt=01020304 c/salted
    literal 4096 c/plain c/sealed
    literal 4096 a/big c/other
    literal 8192 c/plain c/salted
    literal 8192 c/plain c/old
}

for fs in ext4 f2fs btrfs; do
    echo "On $fs:"
    disk=$(grep -l $fs /sys/block/nvme*/device/serial | cut -d / -f 4)
    mount -t $fs /dev/$disk /mnt && cd /mnt || echo "WRONG: it is not mounted"
    if [ $fs = btrfs ]; then suite 2; else suite 0 && signatures; fi
    cd / && umount /mnt
done
echo DONE
poweroff -f
INIT
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz
rm -f ./*.img && truncate -s 512M ext4.img f2fs.img btrfs.img
mkfs.ext4 -q -b 4096 -O verity -F ext4.img && mkfs.f2fs -q -O verity f2fs.img >/dev/null && mkfs.btrfs -q --csum sha256 btrfs.img >/dev/null
disks=()
for fs in ext4 f2fs btrfs; do
    disks+=(-drive "file=$fs.img,if=none,id=$fs,format=raw,cache=unsafe" -device "nvme,drive=$fs,serial=$fs")
done
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -nographic -no-reboot -net none -monitor none \
    -kernel kernel/boot/vmlinuz-* -initrd initrd.gz -append "console=ttyS0 quiet panic=-1 mitigations=off" \
    "${disks[@]}" </dev/null | tee console.log
grep -q DONE console.log && ! grep -q WRONG console.log
