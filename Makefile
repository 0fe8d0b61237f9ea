# Pellucid's two set-up commands, `make run` and `make test`, and the benchmarks.

# rustup puts cargo here; a shell that was open before does not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
SHELL := /bin/sh

NEXTEST_VERSION := 0.9.151
DENY_VERSION := 0.20.2
NEXTEST := .tools/nextest-$(NEXTEST_VERSION)
DENY := .tools/deny-$(DENY_VERSION)

.NOTPARALLEL:
.PHONY: help run build test check test-tools test-fuzz build-tests test-clients test-tls client-tools long-run fuzz advisories \
    bench bench-small bench-curves prerequisites

help:
	@echo 'make run          build, and replay the example trace on cosmos-plus with a report'
	@echo 'make test         all checks and tests; tools they need are put into .tools'
	@echo 'make test-clients real clients alone: fio, QEMU, libnbd, a Linux guest (part of make test)'
	@echo 'make test-tls     TLS under NVMe/TCP, if OpenSSL is there (part of make test)'
	@echo 'make long-run     half an hour of service with faults, power cuts and kills; nothing flushed may be lost'
	@echo 'make fuzz         the fuzz targets, FUZZ_SECONDS each (60); needs a nightly compiler'
	@echo 'make bench        requests per second and peak memory of the two benchmarks'
	@echo 'make bench-small  small versions of them, compared with themselves (part of make test)'
	@echo 'make bench-curves cost per request over capacity, outstanding requests and length of the run'
	@echo 'make advisories   known vulnerabilities of dependencies (fetches a database)'

run: build
	cargo run --release --locked --quiet --bin pellucid -- \
	    replay cosmos-plus examples/cloudphysics.csv.zst --report report

build: prerequisites
	cargo build --release --locked --bin pellucid

# The tests of the crates come last, so that the end of the output says how they went.
test: prerequisites check test-tools test-fuzz bench-small test-clients test-tls
	cargo test --workspace --locked --doc
	PATH="$(CURDIR)/.tools/bin:$$PATH" cargo nextest run --workspace --locked

# Everything that the tests need is compiled once, the command with it, which the real clients attach to: with the checks of
# a debug build.
build-tests: prerequisites $(NEXTEST)
	PATH="$(CURDIR)/.tools/bin:$$PATH" cargo nextest run --workspace --locked --no-run

# Programs that nobody here wrote, and a Linux kernel, against the server.
test-clients: build-tests client-tools
	PYTHONPYCACHEPREFIX=target/pycache python3 tools/real_clients.py
	PYTHONPYCACHEPREFIX=target/pycache python3 tools/promises.py
	PYTHONPYCACHEPREFIX=target/pycache python3 tools/hostile.py
	PYTHONPYCACHEPREFIX=target/pycache python3 tools/linux_guest.py
	PYTHONPYCACHEPREFIX=target/pycache python3 tools/long_run.py --seconds 60

# TLS under NVMe/TCP, which is left out of the usual build: it takes OpenSSL of the system.
test-tls: prerequisites $(NEXTEST)
	@if pkg-config --exists openssl 2>/dev/null; then \
	    PATH="$(CURDIR)/.tools/bin:$$PATH" cargo nextest run --locked -p pellucid-serve --features tls-psk --test nvme; \
	else \
	    echo 'TLS under NVMe/TCP: not tested, OpenSSL is not here (Debian: apt install libssl-dev pkg-config)'; \
	fi

# Half an hour of fio and a checker of our own over NBD, with flash that fails, power cuts and kills: a minute of it is in make test.
long-run: build-tests client-tools
	PYTHONPYCACHEPREFIX=target/pycache nice python3 tools/long_run.py --seconds 1800 --time x2

client-tools:
	@sh tools/client_tools.sh

check: prerequisites $(DENY)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	python3 tools/check_dependencies.py
	PATH="$(CURDIR)/.tools/bin:$$PATH" cargo deny --locked check licenses bans sources
	@echo 'advisories: not checked here, their database needs a network that CI lacks; see make advisories'

test-tools: prerequisites
	PYTHONPYCACHEPREFIX=target/pycache python3 -m py_compile tools/*.py
	PYTHONPYCACHEPREFIX=target/pycache python3 -m unittest discover --start-directory tools

# Types and names only. Stable Rust cannot run a fuzz target, and the named library, which need not exist, saves
# compiling libFuzzer, which wants a C++ compiler.
test-fuzz: prerequisites
	CUSTOM_LIBFUZZER_PATH=target/unused.a \
	    cargo check --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --locked

# Guided by coverage; needs a nightly compiler. FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 60
fuzz: prerequisites
	sh tools/fuzz.sh $(FUZZ_SECONDS)

advisories: $(DENY)
	PATH="$(CURDIR)/.tools/bin:$$PATH" cargo deny check advisories

bench: prerequisites
	python3 tools/bench.py

bench-small: prerequisites
	python3 tools/bench_small.py

bench-curves: prerequisites
	python3 tools/bench_curves.py

prerequisites:
	@sh tools/prerequisites.sh

$(NEXTEST): | prerequisites
	cargo install --locked --root .tools --no-default-features --features default-no-update \
	    cargo-nextest@$(NEXTEST_VERSION)
	touch $@

$(DENY): | prerequisites
	cargo install --locked --root .tools cargo-deny@$(DENY_VERSION)
	touch $@
