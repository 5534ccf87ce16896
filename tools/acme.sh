#!/usr/bin/env bash
# Tests the certificates of `deltic serve` with a real ACME server: pebble, by the authors of Let's Encrypt.
#
#   tools/acme.sh [DELTIC]     the program, by default target/release/deltic
#
# Installs what is missing: pebble by `go install` into target/acme, and Go by apt. The server obtains a certificate,
# syncs with it and renews it. Then the authority refuses a name, is not reachable, and has lost the server's account.
set -euo pipefail
cd "$(dirname "$0")/.."
deltic=$(realpath "${1:-target/release/deltic}")
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/acme")
version=v2.10.3

if [ ! -x "$tools/pebble" ]; then
    command -v go >/dev/null || tools/ensure.sh go golang-go
    echo "installing pebble $version into $tools, by go install"
    GOBIN=$tools go install "github.com/letsencrypt/pebble/v2/cmd/pebble@$version"
fi

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
export XDG_CONFIG_HOME=$work/config HOME=$work
mkdir -m 700 state
mkdir photos src

fail() { echo "acme.sh: $*" >&2; cat serve.log pebble.log >&2 || true; exit 1; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until_says() { # FILE WORDS [SECONDS]
    for _ in $(seq $((10 * ${3:-30}))); do
        grep -qF -- "$2" "$1" 2>/dev/null && return
        sleep 0.1
    done
    fail "$1 does not contain: $2"
}

directory=$(free_port) manage=$(free_port) port=$(free_port)

# The issuer of pebble's own TLS certificate (the setting ca_file), and that certificate.
new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "$@" 2>/dev/null; }
new -keyout ca.key -out ca.pem -subj "/CN=test"
new -CA ca.pem -CAkey ca.key -keyout pebble.key -out pebble.pem -subj "/CN=localhost" \
    -addext "subjectAltName=DNS:localhost" -addext "basicConstraints=critical,CA:FALSE"

start_pebble() { # SECONDS for which certificates are good
    cat >pebble.json <<JSON
{ "pebble": {
    "listenAddress": "127.0.0.1:$directory", "managementListenAddress": "127.0.0.1:$manage",
    "certificate": "pebble.pem", "privateKey": "pebble.key", "httpPort": 1, "tlsPort": $port,
    "domainBlocklist": ["refused.example"],
    "retryAfter": { "authz": 1, "order": 1 },
    "profiles": { "default": { "description": "the one", "validityPeriod": $1 } }
} }
JSON
    PEBBLE_VA_NOSLEEP=1 "$tools/pebble" -config pebble.json >pebble.log 2>&1 &
    pebble=$!
    pids+=("$pebble")
    until_says pebble.log "Listening on"
    for _ in $(seq 100); do
        curl -fsS --cacert ca.pem -o root.pem "https://localhost:$manage/roots/0" 2>/dev/null && return
        sleep 0.1
    done
    fail "pebble does not answer"
}
stop() { kill "$1"; wait "$1" 2>/dev/null || true; }

settings() { # NAME
    cat >deltic.toml <<TOML
listen = "[::]:$port"
state = "$work/state"
audit = "$work/audit.jsonl"
[tls.acme]
domains = ["$1"]
contact = "mailto:me@example.org"
directory = "https://localhost:$directory/dir"
ca_file = "$work/ca.pem"
[volumes.photos]
path = "$work/photos"
TOML
}
start_server() {
    "$deltic" serve --config deltic.toml >out.log 2>serve.log &
    server=$!
    pids+=("$server")
    until_says out.log "#t="
    grep -o 'dlt_[A-Za-z0-9_-]*' out.log | head -n 1 >token
}
serial() {
    openssl s_client -connect "127.0.0.1:$port" -servername localhost </dev/null 2>/dev/null |
        openssl x509 -noout -serial
}

echo "== a certificate, and a sync over it"
start_pebble 3600
settings localhost
start_server
until_says serve.log "a new certificate"
test "$(stat -c %a state/acme.json)" = 600 || fail "other users can read the key"
head -c 3000000 /dev/urandom >src/big
echo small >src/small
export SSL_CERT_FILE=$work/root.pem
"$deltic" sync -a --token @token src/ "https://localhost:$port/photos/" || fail "the sync failed"
diff -r src photos
grep -q '"event":"certificate"' audit.jsonl || fail "the audit log has no certificate"

echo "== a start with the stored certificate: no request to the authority"
first=$(serial)
stop "$server"
stop "$pebble"
start_server
"$deltic" verify --token @token src "https://localhost:$port/photos" >/dev/null || fail "the certificate was not stored"
test "$(serial)" = "$first" || fail "the certificate is another one than before the restart"
stop "$server"

echo "== renewal by an authority that has lost the account"
# A new pebble has new root certificates, and no accounts.
start_pebble 30
rm state/acme.json
start_server
until_says serve.log "a new certificate"
SSL_CERT_FILE=$work/root.pem "$deltic" verify --token @token src "https://localhost:$port/photos" >/dev/null
first=$(serial)
stop "$pebble"
start_pebble 3600
for _ in $(seq 400); do
    [ "$(serial)" = "$first" ] || break
    sleep 0.1
done
test "$(serial)" != "$first" || fail "the certificate was not renewed"
"$deltic" sync -a --token @token src/ "https://localhost:$port/photos/" || fail "the new certificate is not trusted"
stop "$server"

echo "== a name that the authority refuses: the reason is logged, and the old certificate is not used for that name"
settings refused.example
start_server
until_says serve.log "no certificate for refused.example"
grep -q "rejectedIdentifier" serve.log || fail "the log lacks the reason of the authority"
stop "$server"

echo "== an authority that is not reachable: the old certificate stays in use"
settings localhost
rm state/acme.json
stop "$pebble"
start_pebble 12
start_server
until_says serve.log "a new certificate"
stop "$pebble"
until_says serve.log "connect to localhost:$directory" 60
grep -q "the present certificate" serve.log || fail "the log does not name the certificate in use"
first=$(serial) && test -n "$first" || fail "the server shows no certificate"
stop "$server"
echo "acme: all is as it should be"
