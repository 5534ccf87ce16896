#!/usr/bin/env bash
# Checks contents that fs-verity tells, on a kernel that has it: verity.sh DELTIC [DIR].
#
# Installs by apt, as root: qemu-system-x86, busybox-static, cpio, fsverity, e2fsprogs and a kernel package that is unpacked into
# DIR (default /tmp/deltic-verity), ~50 MB. An emulated machine then makes files on an ext4, gives them fs-verity by
# `fsverity enable`, and compares them by --trust-sums; it fails where more is read than has no digest, or the answer is
# wrong. Takes about a minute.
set -eu
deltic=$(realpath "$1") dir=${2:-/tmp/deltic-verity}
mkdir -p "$dir" && dir=$(realpath "$dir") && cd "$dir"
has() { command -v "$1" >/dev/null; }
if ! has qemu-system-x86_64 || ! has busybox || ! has fsverity || ! has cpio; then
    apt-get -q install -y --no-install-recommends qemu-system-x86 busybox-static cpio fsverity e2fsprogs
fi
if ! ls boot/vmlinuz-* >/dev/null 2>&1; then
    kernel=$(apt-cache search --names-only '^linux-image-[0-9.]+-[0-9]+-cloud-amd64$' | sort -V | tail -n 1)
    apt-get -q download "${kernel%% *}"
    dpkg -x linux-image-*.deb .
fi

rm -rf root && mkdir -p root/{bin,dev,proc,sys,tmp,mnt}
cp "$(command -v busybox)" root/bin/busybox
for program in "$deltic" "$(command -v fsverity)"; do
    cp "$program" root/bin/
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        mkdir -p "root$(dirname "$library")" && cp -L "$library" "root$library"
    done
done
cat >root/init <<'INIT'
#!/bin/busybox sh
export PATH=/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
mount -t ext4 /dev/nvme0n1 /mnt && cd /mnt && mkdir a b

# code, most bytes to be read, words
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
head -c $big /dev/urandom >a/big
head -c 4096 /dev/urandom >a/block
head -c 530000 /dev/urandom >a/odd
: >a/empty
cp a/* b/
for file in a/* b/*; do fsverity enable $file || echo "WRONG: $file"; done
check 0 8000000 $verify
# What has no digest is read, and has the same one.
rm b/big b/odd && cp a/big a/odd b/
check 0 $((big + 9000000)) $verify
# Another salt is another digest.
fsverity enable --salt=01020304 b/odd
check 0 $((big + 9000000)) $verify
printf x | dd of=b/big bs=1 seek=1000000 conv=notrunc 2>/dev/null
fsverity enable b/big
check 26 9000000 $verify
check 0 $((big * 4)) deltic sync -rtc --trust-sums a/ b
check 0 $((big + 9000000)) $verify
echo DONE
poweroff -f
INIT
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz
rm -f disk.img && truncate -s 512M disk.img && mkfs.ext4 -q -b 4096 -O verity -F disk.img
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -nographic -no-reboot -net none -monitor none \
    -kernel boot/vmlinuz-* -initrd initrd.gz -append "console=ttyS0 quiet panic=-1 mitigations=off" \
    -drive file=disk.img,if=none,id=disk,format=raw,cache=unsafe -device nvme,drive=disk,serial=1 </dev/null | tee console.log
grep -q DONE console.log && ! grep -q WRONG console.log
