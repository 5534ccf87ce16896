# The few commands that people and machines use here. `make` alone lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build static install demo test deny bench differential rsync-suite storage storage-remote storage-verity storage-zfs proxies acme serve-long bench-remote fuzz fmt shape clippy unit neon docs wasm targets end-to-end page-files dist web page toolchain

target := $(or $(CARGO_TARGET_DIR),target)
bench := $(target)/release/deltic-bench
# Built by `unit`, and no worse at keeping promises than a release build.
debug_bench := $(target)/debug/deltic-bench
# `page-files` is first, so that all builds embed the page.
checks := page-files fmt shape deny clippy unit web neon docs wasm targets end-to-end fuzz
# Systems that few use, which the tests cover and the default build leaves out.
labs := --features deltic-cli/labs
# Builds what `unit` builds, and the programs beside: other targets and features would compile most crates once more.
programs := cargo test --locked --workspace $(labs) --no-run
# Crates that run in a browser as well: no operating system, no threads.
portable := deltic-core deltic-tree deltic-protocol deltic-engine deltic-store deltic-worker deltic-carrier deltic-page
out := $(target)/bench-out
laws := env HOME=$(HOME) cargo test --locked --manifest-path $(CURDIR)/Cargo.toml -p deltic-remote --features labs -- --ignored
systems := s3 azure gs hdfs seaweedfs moosefs ceph
wasm_examples := $(target)/wasm/wasm32-unknown-unknown/wasm/examples

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

build: toolchain ## build the deltic binary (release)
	cargo build --release --locked -p deltic-cli
	@echo "built $(target)/release/deltic"

page: toolchain ## build the page and the deltic binary with the page (needs Node 20.19)
	tools/web.sh build
	$(MAKE) --no-print-directory build

static: toolchain ## build deltic for any Linux, x86-64 and aarch64, and try it (ARCHS)
	tools/static-build.sh $(ARCHS)

# The page is in these programs if Node is there. PROGRAMS packs programs that are built: PROGRAMS=x86_64=PATH
dist: page-files ## make what people install: tarballs, .deb, container images, SBOM; and install and try each (PROGRAMS)
	tools/dist.sh $(PROGRAMS)

install: toolchain ## install the deltic binary into cargo's bin directory
	cargo install --path crates/cli --locked

demo: toolchain ## sync one release of a real package over another and show what moved
	tools/demo.sh

test: toolchain ## everything that CI checks
	@for check in $(checks); do \
	  started=$$SECONDS; $(MAKE) --no-print-directory SECONDS_EACH=$(or $(SECONDS_EACH),20) $$check; echo "== $$check: $$((SECONDS - started)) s"; \
	done
	@echo "all checks passed"

# The suite in `unit` tries the same few hundred cases each time, this thousands of others.
differential: toolchain ## compare with rsync on 5,000 random trees, from another seed each time (CASES, SEED)
	tools/ensure.sh rsync rsync
	DELTIC_DIFFERENTIAL_CASES=$(or $(CASES),5000) DELTIC_DIFFERENTIAL_SEED=$(or $(SEED),$(shell date +%s000)) \
	  cargo test --locked -p deltic-cli --test suite_command differential

rsync-suite: ## run rsync's own tests against deltic under the name rsync (RSYNC_SRC: a directory with rsync's sources)
	if [ -n "$(RSYNC_SRC)" ]; then $(MAKE) --no-print-directory build; fi
	tools/rsync-suite.py "$(RSYNC_SRC)"

# The suite in `unit` does some 100 rounds of each, this 10,000: of facts, of facts beside writers that race, and of syncs
# beside them. Root only.
storage: toolchain ## check facts of btrfs, and syncs by them, against random changes, from another seed each time (SEED)
	tools/ensure.sh mkfs.btrfs btrfs-progs
	export DELTIC_FACTS_SEED=$(or $(SEED),$(shell date +%s000)) && \
	  cargo test --locked -p deltic-store-local facts::fuzz -- --ignored --nocapture && \
	  cargo test --locked -p deltic-net --test racing -- --ignored --nocapture

# Each script says what it installs; real clouds are not asked.
storage-verity: toolchain ## compare contents by fs-verity, on an emulated machine (root: it installs what it needs)
	cargo build --locked -p deltic-cli --features labs
	tools/storage/verity.sh target/debug/deltic

storage-zfs: toolchain ## tell what changed between two snapshots of ZFS (root: it installs zfs-fuse)
	cargo build --locked -p deltic-cli --features labs
	tools/storage/zfs.sh target/debug/deltic

storage-remote: toolchain ## sync from real servers of stores that a URL names (SYSTEMS="s3 azure gs hdfs seaweedfs moosefs ceph")
	cargo build --locked -p deltic-cli --features labs
	for system in $(or $(SYSTEMS),$(systems)); do LAWS="$(laws)" tools/storage/remote.sh $$system target/debug/deltic || exit 1; done
	if [ -n "$(filter s3,$(or $(SYSTEMS),s3))" ]; then tools/storage/moto.sh target/debug/deltic; fi

# Root only, and after `storage-remote` has installed what there is to measure.
bench-remote: toolchain ## what a sync from such stores fetches, beside a plain download (SYSTEMS, BENCH_DIR, BENCH_SIZE)
	cargo build --release --locked -p deltic-cli -p deltic-bench $(labs)
	for system in $(or $(SYSTEMS),s3 hdfs seaweedfs moosefs ceph); do \
	  BENCH=$(abspath $(bench)) BENCH_OPTIONS="--out $(abspath $(out))" \
	    tools/storage/remote.sh $$system $(target)/release/deltic || exit 1; done

proxies: toolchain ## sync through nginx and Caddy in their default settings
	tools/ensure.sh nginx nginx || echo "SKIPPED: nginx"
	tools/ensure.sh caddy caddy || echo "SKIPPED: caddy"
	cargo build --release --locked -p deltic-cli
	tools/proxies.sh $(target)/release/deltic

# The script says what it installs.
acme: toolchain ## have a server get and renew its certificate from pebble, an ACME server
	cargo build --release --locked -p deltic-cli
	tools/acme.sh $(target)/release/deltic

# The suite in `unit` does 40 of the sessions, always the same, and 20,000 of the tokens. Takes an hour: by hand, or weekly.
serve-long: toolchain ## have servers bear 10,000 mutated sessions and a million wrong tokens (MUTATIONS, SEED, WRONG_TOKENS)
	DELTIC_MUTATIONS=$(or $(MUTATIONS),10000) DELTIC_MUTATIONS_SEED=$(or $(SEED),$(shell date +%s)) \
	  cargo test --locked --workspace --test suite_serve of_which_bytes_are_changed
	DELTIC_WRONG_TOKENS=$(or $(WRONG_TOKENS),1000000) \
	  cargo test --locked --workspace --test suite_serve wrong_tokens_by_the_thousand

fuzz: toolchain ## fuzz what a server hears, each target for a minute (SECONDS_EACH, TARGETS)
	if tools/ensure.sh g++ g++; then \
	  tools/fuzz.sh $(or $(SECONDS_EACH),60) $(TARGETS); \
	else \
	  echo "SKIPPED: the fuzzer needs a compiler of C++"; \
	fi

bench: toolchain ## measure deltic and rsync side by side (takes long; tables go to bench/out)
	tools/ensure.sh rsync rsync
	cargo build --release --locked -p deltic-cli -p deltic-bench
	$(bench) e2e
	$(bench) tree
	$(bench) kill
	$(bench) enospc
	$(bench) serve
	$(bench) skysync --size 10MB
	$(target)/release/deltic bench chunk

fmt: toolchain
	cargo fmt --all --check

# Lengths of files and functions, parameters, import circles; and how plain doc comments and names are.
shape:
	if tools/ensure.sh python3 python3; then \
	  python3 tools/shape.py && python3 tools/words.py; \
	else \
	  echo "SKIPPED: the shape of the code is not checked without python3"; \
	fi

deny: toolchain ## check licences, sources and bans of dependencies, and advisories where their database is reached
	if tools/ensure.sh python3 python3; then tools/deny.sh; else echo "SKIPPED: dependencies are not checked without python3"; fi

# The second check is without labs. With one test among its targets, dependencies have the features of the first check
# and are not compiled again.
clippy: toolchain
	cargo clippy --locked --workspace --all-targets $(labs) -- -D warnings
	cargo clippy --locked --workspace --lib --bins --test document -- -D warnings

unit: toolchain
	tools/ensure.sh fakeroot fakeroot || echo "SKIPPED: no test runs under fakeroot"
	tools/ensure.sh eatmydata eatmydata || echo "SKIPPED: no test runs under eatmydata"
	tools/ensure.sh strace strace || echo "SKIPPED: the test under eatmydata needs strace"
	tools/ensure.sh faketime faketime || echo "SKIPPED: no server sees a wrong clock"
	tools/ensure.sh python3 python3 || echo "SKIPPED: no write is held up half way, no other client is refused, and nobody floods a server"
	tools/ensure.sh curl curl || echo "SKIPPED: no other client is refused"
	tools/ensure.sh mkfs.xfs xfsprogs || echo "SKIPPED: the test of long attributes needs a file system that has them"
	tools/ensure.sh mkfs.btrfs btrfs-progs || echo "SKIPPED: facts of files need a file system that has them"
	tools/ensure.sh mount.exfat-fuse exfat-fuse || echo "SKIPPED: tests of exFAT need exfat-fuse"
	tools/ensure.sh mkfs.exfat exfatprogs || echo "SKIPPED: tests of exFAT need exfatprogs"
	tools/ensure.sh linux.uml user-mode-linux || echo "SKIPPED: tests of FAT need user-mode-linux"
	tools/ensure.sh insmod kmod || echo "SKIPPED: tests of FAT need kmod"
	tools/ensure.sh mkfs.vfat dosfstools || echo "SKIPPED: tests of FAT need dosfstools"
	tools/ensure.sh mergerfs mergerfs || echo "SKIPPED: no test is of a union of directories"
	tools/ensure.sh sshfs sshfs openssh-sftp-server || echo "SKIPPED: no test is of a directory over SFTP"
	cargo test --locked --workspace --no-fail-fast $(labs) --config 'target."cfg(unix)".runner="tools/run-tests.sh"'

page-files: toolchain web/dist/index.html

# Made again only for changed sources: a new page is a new build of the server.
web/dist/index.html: $(shell find web/src web/public web/index.html web/*.json web/*.ts web/tools web/engine/src web/engine/build.sh Cargo.toml Cargo.lock $(patsubst deltic-%,crates/%/src,$(portable)) -type f)
	tools/web.sh dist

web: page-files ## test the page in Chromium against a real server
	$(programs)
	tools/web.sh test

neon: toolchain
	tools/neon-test.sh

# The program and the library `deltic` have one folder, so their documentation is made one after the other.
docs: toolchain
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --bins $(labs)
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --lib $(labs)

# In the profile of the page's modules, which `page-files` has built by then.
wasm: toolchain
	tools/wasm-build.sh $(portable) -- --profile wasm --no-default-features --features deltic-page/push,deltic-page/pull
	WASM_RUSTFLAGS= tools/wasm-build.sh deltic-core
	rm -f $(wasm_examples)/suite.wasm $(wasm_examples)/sync.wasm
	tools/wasm-build.sh deltic-core -- --profile wasm --example suite
	tools/wasm-build.sh deltic-worker -- --profile wasm --no-default-features --example sync
	if [ ! -e $(wasm_examples)/sync.wasm ]; then \
	  echo "SKIPPED: the suites in WebAssembly were not built"; \
	elif tools/ensure.sh node nodejs; then \
	  node tools/wasm-suite.mjs $(wasm_examples)/suite.wasm "chunkers cut alike with vectors of 16 bytes" && \
	  node tools/wasm-suite.mjs $(wasm_examples)/sync.wasm "sessions between two stores ended well"; \
	else \
	  echo "SKIPPED: the suites in WebAssembly need node"; \
	fi

# The portable crates for Windows, and all crates for static programs.
targets: toolchain
	tools/target-check.sh x86_64-pc-windows-gnu $(portable)
	tools/target-check.sh x86_64-unknown-linux-musl deltic-cli

# Real processes through real pipes: small sizes, every promise checked, figures of no worth.
end-to-end: toolchain
	$(programs)
	$(debug_bench) kill --runs 20 --size 32MiB --peers deltic --out $(out)
	$(debug_bench) enospc --steps 8 --peers deltic --out $(out)
	$(debug_bench) e2e --sizes 10MB --edits 0,1,10 --release-pair none --peers deltic --runs 1 --out $(out)
	$(debug_bench) again --size 40MiB --peers deltic --runs 2 --out $(out)
	$(debug_bench) storage --size 40MiB --peers deltic --runs 2 --out $(out)
	$(debug_bench) serve --clients 10 --period 0.5 --seconds 2 --dir $(target) --client-dir $(target) --plot $(out)
	$(debug_bench) serve --load intensive --clients 10 --ways deltic --seconds 8 --kill-every 1 --dir $(target)
	tools/dist.sh $(shell uname -m)=$(abspath $(target)/debug/deltic)
	DELTIC_LARGE_MIB=1024 cargo test --locked --workspace $(labs) --test suite_sync a_large_file
	if tools/ensure.sh rsync rsync; then \
	  $(debug_bench) tree --files 2000 --peers deltic --runs 1 --out $(out) && \
	  $(debug_bench) link --link 1000Mbit,1ms --data edits,noise --runs 1 --out $(out); \
	else \
	  echo "SKIPPED: the checks of a tree and of links compare with rsync"; \
	fi

toolchain:
	@tools/ensure.sh cargo
	@tools/ensure.sh cc gcc libc6-dev
