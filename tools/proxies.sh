#!/usr/bin/env bash
# Tests syncs and plain HTTP through a proxy in front of `deltic serve`: nginx and Caddy with default settings, which
# get the server's address and no other setting, and nginx with settings that pass WebSockets.
#
#   tools/proxies.sh [DELTIC]     the program, by default target/release/deltic
#
# A proxy that is not installed is skipped, with a message.
set -euo pipefail

deltic=$(realpath "${1:-target/release/deltic}")
work=$(mktemp -d)
# Workers of nginx run as another user, and must enter the directory.
chmod 711 "$work"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir -p photos src/dir
export XDG_CONFIG_HOME=$work/config XDG_DATA_HOME=$work/data XDG_CACHE_HOME=$work/cache HOME=$work

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

until_answers() {
    for _ in $(seq 100); do
        curl -fsS -o /dev/null "$1/healthz" 2>/dev/null && return
        sleep 0.1
    done
    echo "$1 does not answer" >&2
    return 1
}

back=$(free_port)
"$deltic" serve photos --state state --listen "127.0.0.1:$back" >serve.log 2>&1 &
pids+=($!)
until_answers "http://127.0.0.1:$back"
grep -o 'dlt_[A-Za-z0-9_-]*' serve.log | head -n 1 >token
token=$(cat token)

nginx_conf() { # NAME PORT LINES
    mkdir -p "$1"
    cat >"$1/nginx.conf" <<CONF
pid $work/$1/pid;
error_log $work/$1/error.log;
events {}
http {
    access_log off;
    client_body_temp_path $work/$1/body;
    proxy_temp_path $work/$1/proxy;
    fastcgi_temp_path $work/$1/fastcgi;
    uwsgi_temp_path $work/$1/uwsgi;
    scgi_temp_path $work/$1/scgi;
    server {
        listen 127.0.0.1:$2;
        location / {
            proxy_pass http://127.0.0.1:$back;
            $3
        }
        location /sync/ {
            proxy_pass http://127.0.0.1:$back/;
            $3
        }
    }
}
CONF
    nginx -p "$work/$1" -c "$work/$1/nginx.conf" -g 'daemon off;' 2>"$1/out.log" &
    pids+=($!)
}

# noise LENGTH SEED: prints pseudo-random bytes.
noise() { head -c "$1" /dev/zero | openssl enc -aes-128-ctr -K "$(printf '%032x' "$2")" -iv "$(printf "%032x" 0)"; }

through() { # NAME URL MOST: the longest body that the proxy takes
    local name=$1 url=$2 most=$3 begun
    local base=${url%/-}
    local api=$base/v1/volumes/photos/files/$name
    until_answers "$base"
    noise 20000000 1 >src/big
    echo small >src/dir/small
    begun=$(date +%s%N)
    "$deltic" sync -a --token @token src/ "$url/photos/$name/"
    diff -r src "photos/$name"
    noise 1000 2 | dd of=src/big bs=1 seek=7000000 conv=notrunc status=none
    "$deltic" sync -a --stats --token @token src/ "$url/photos/$name/" >stats
    diff -r src "photos/$name"
    "$deltic" sync -a --token @token "$url/photos/$name/" "got-$name/"
    diff -r src "got-$name"
    "$deltic" verify --token @token src "$url/photos/$name" >/dev/null
    # Plain HTTP: upload a file, fetch the file and a part, send a delta, remove the file.
    head -c "$most" src/big >body
    local as=(-fsS -H "Authorization: Bearer $token")
    curl "${as[@]}" -T body "$api/put"
    curl "${as[@]}" -o fetched "$api/put" && cmp body fetched
    curl "${as[@]}" -r 100-199 -o part "$api/put" && test "$(wc -c <part)" = 100
    curl "${as[@]}" -D head -o signature "$api/put?as=signature"
    (cat body && echo more) >edited
    "$deltic" delta signature edited -o delta
    curl "${as[@]}" -H "If-Match: $(sed -n 's/^etag: //Ip' head | tr -d '\r')" --data-binary @delta "$api/put?as=patch"
    cmp edited "photos/$name/put"
    curl "${as[@]}" -H 'If-Match: *' -X DELETE "$api/put"
    echo "$name: sync, pull, verify and plain HTTP; $(( ($(date +%s%N) - begun) / 1000000 )) ms; $(grep -m 1 'Total bytes sent' stats)"
}

if command -v nginx >/dev/null; then
    port=$(free_port)
    nginx_conf nginx "$port" ""
    # The default limit of nginx for a body is 1 MiB (client_max_body_size).
    through nginx "http://127.0.0.1:$port" 1000000
    port=$(free_port)
    nginx_conf nginx-ws "$port" 'proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "upgrade"; proxy_set_header Host $http_host; client_max_body_size 0;'
    through nginx-ws "http://127.0.0.1:$port" 5000000
    through nginx-below "http://127.0.0.1:$port/sync/-" 5000000
else
    echo "SKIPPED: nginx is not installed"
fi
if command -v caddy >/dev/null; then
    port=$(free_port)
    printf '{\n admin off\n auto_https off\n}\nhttp://127.0.0.1:%s {\n handle_path /sync/* {\n  reverse_proxy 127.0.0.1:%s\n }\n reverse_proxy 127.0.0.1:%s\n}\n' \
        "$port" "$back" "$back" >Caddyfile
    caddy run --config Caddyfile --adapter caddyfile >caddy.log 2>&1 &
    pids+=($!)
    through caddy "http://127.0.0.1:$port" 5000000
    through caddy-below "http://127.0.0.1:$port/sync/-" 5000000
else
    echo "SKIPPED: caddy is not installed"
fi
