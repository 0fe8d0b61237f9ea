# Pellucid's two set-up commands, `make run` and `make test`, and the benchmarks.

# rustup installs cargo here; a shell that was already open does not know it.
export PATH := $(PATH):$(HOME)/.cargo/bin
SHELL := /bin/sh

NEXTEST_VERSION := 0.9.148
DENY_VERSION := 0.20.2
NEXTEST := .tools/nextest-$(NEXTEST_VERSION)
DENY := .tools/deny-$(DENY_VERSION)
MDBOOK_VERSION := 0.5.4
MDBOOK := .tools/mdbook-$(MDBOOK_VERSION)
# The Python package is built and tested in an environment of its own; its tools come from PyPI, once.
PYTHON_TOOLS := 'maturin>=1.7,<2' pytest pyarrow pandas matplotlib distributed ray duckdb nbclient ipykernel scikit-learn optuna
VENV := target/python/venv
# Tests and the command, which tests run. The examples are checked by clippy, and what tests use of them is compiled with the tests.
# A test that clones drives, cut after cut, gives their memory back to itself: without the two settings every clone asks the kernel for it anew.
RUN_NEXTEST := PATH="$(CURDIR)/.tools/bin:$$PATH" MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824 \
    cargo nextest run --workspace --locked --tests
# TLS under NVMe/TCP needs the system's OpenSSL, so the default build leaves it out; tests include it where OpenSSL is installed.
# Evaluated at each use, because client-tools may have installed it.
TLS = $(shell pkg-config --exists openssl 2>/dev/null && echo --features pellucid-cli/tls-psk)
# Absolute: a relative one is below the folder of whoever asks, so that a notebook compiled pandas anew.
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache

# How often each branch is taken, by which the compiler lays the command out (tools/train.py). The counts are of one version of Rust, and of no
# use to another, which builds without them. Cargo sees that they are other ones by the name of the file; it would compile everything anew for
# a file that is newer, so the file is written once. Functions that changed since are compiled without, in silence: a first build has nothing to
# warn of. Evaluated at each use.
RUST = $(word 2,$(shell rustc --version 2>/dev/null))
COUNTS = $(wildcard bench/trained-$(RUST).profdata.gz)
TRAINED = $(CURDIR)/target/trained-$(shell cksum <$(COUNTS) | cut -d' ' -f1).profdata
TRAINED_FLAGS = $(if $(COUNTS),RUSTFLAGS="$(strip $(RUSTFLAGS) -Cprofile-use=$(TRAINED) -Cllvm-args=-no-pgo-warn-mismatch)")

.NOTPARALLEL:
PREFIX ?= /usr/local

.PHONY: help run build counts install install-lib deb static wheel sbom release release-check site test test-site test-python python-tools quick check test-recipes test-tools test-pages test-docs test-crates build-tests test-clients client-tools long-run fs-trials fuzz swarm advisories \
    bench bench-small bench-curves train prerequisites record-workloads clustering

help:
	@echo 'make run          build, and replay the example trace on a full cosmos-plus of 8 GB with a report'
	@echo 'make test         all checks and tests; tools they need are put into .tools'
	@echo 'make install      the command with its manual pages, completions and systemd unit under PREFIX (/usr/local)'
	@echo 'make install-lib  the flash library for C: header, libraries and pkg-config file under PREFIX (/usr/local)'
	@echo 'make deb          a Debian package of it, in target/packages'
	@echo 'make static       the command as one static file, in target/packages'
	@echo 'make wheel        a wheel for Python in target/packages, tried in a new environment'
	@echo 'make release      all three, a bill of materials (SBOM) and checksums, after all checks and the search for known vulnerabilities'
	@echo 'make release-check  the packages, tried where nothing of ours is (root; part of make release)'
	@echo 'make site         the documents as a site in target/site/html, with all figures: half an hour the first time'
	@echo 'make test-site    the site without figures of long runs; its links, anchors and search, and the tutorials (part of make test)'
	@echo 'make quick        formatting, dependency rules, and all tests of the crates but the slowest: for the inner loop'
	@echo 'make test-pages   report, comparison and films in headless Chromium (part of make test)'
	@echo 'make test-python  the Python package: built in an environment of its own in target/python, and tested (part of make test)'
	@echo 'make test-clients real clients alone: fio, QEMU, libnbd, a Linux guest (part of make test)'
	@echo 'make long-run     half an hour of serving with faults, power cuts and kills; nothing flushed may be lost'
	@echo 'make fs-trials    the mounted file system against fsx, pjdfstest, dbench, git, SQLite, kills and cuts at full length'
	@echo 'make fuzz         the fuzz targets, FUZZ_SECONDS each (60); needs a nightly compiler'
	@echo 'make swarm        random drives, faults and power cuts with SEEDS (300) seeds that have never run'
	@echo 'make train        counts, in a run, which branches of the command are taken; make build compiles by these counts'
	@echo 'make bench        requests per second and peak memory of the two benchmarks'
	@echo 'make bench-small  small versions of them, compared with themselves (part of make test)'
	@echo 'make bench-curves cost per request over outstanding requests, capacity, request size and dies, in instructions'
	@echo 'make clustering    where write clustering helps today, as a table: recorded workloads on four drives'
	@echo 'make record-workloads  these workloads, recorded again (root; a Linux guest)'
	@echo 'make advisories   known vulnerabilities of dependencies (fetches cargo-deny and a database)'

run: build
	$(TRAINED_FLAGS) cargo run --release --locked --quiet --bin pellucid -- \
	    replay cosmos-plus examples/cloudphysics.csv.zst --set media.blocks=32 --address compact --precondition fill \
	    --closed-loop 16 --report report

build: prerequisites counts
	$(TRAINED_FLAGS) cargo build --release --locked --bin pellucid

counts:
	@$(if $(COUNTS),test -f $(TRAINED) || { mkdir -p target && gzip -dc $(COUNTS) >$(TRAINED).new && mv $(TRAINED).new $(TRAINED); }, \
	    echo 'no counts of branches for Rust $(RUST): the command simulates slower (make train)')

# Before a release, and after changes of the drive that matter to its speed. Needs `rustup component add llvm-tools`.
train: prerequisites
	python3 tools/train.py

# DESTDIR as usual: what is written goes there, and says PREFIX all the same.
install: build
	sh tools/install.sh target/release $(PREFIX) $(DESTDIR)

# DESTDIR as usual: what is written goes there, and says PREFIX all the same.
install-lib: prerequisites
	cargo build --release --locked --package pellucid-prism-c
	sh tools/install_lib.sh target/release $(PREFIX) $(DESTDIR)

PACKAGES := target/packages

deb: build
	@sh tools/deb.sh target/release $(PACKAGES)

static: prerequisites
	@sh tools/static.sh $(PACKAGES)

# As maturin builds it: with the release profile, apart from the other builds of target/release.
wheel: $(VENV)/tools counts
	@mkdir -p $(PACKAGES)
	rm -f $(PACKAGES)/pellucid-*.whl
	$(TRAINED_FLAGS) $(VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(PACKAGES) .
	sh tools/try_wheel.sh $(PACKAGES)/pellucid-*.whl

sbom: prerequisites
	@mkdir -p $(PACKAGES)
	python3 tools/sbom.py $(PACKAGES)/pellucid.cdx.json

release-check: deb static
	sh tools/release_check.sh $(PACKAGES)/pellucid-static $(PACKAGES)/pellucid_*.deb

# All that a release has, without publishing anything: a tag is set by hand.
release: check advisories release-check wheel sbom
	cd $(PACKAGES) && sha256sum pellucid-static pellucid_*.deb pellucid-*.whl pellucid.cdx.json >SHA256SUMS

# Every step runs, whatever happened to those before it, and the failures are named at the end. Everything is compiled once, with the checks
# of a debug build: the tests, the command that the real clients attach to, and the small benchmarks. Beside the clients, which wait a lot, run
# the steps that use one core, and the tests of the crates, which take what is left. What is fetched comes while the compiler works.
test:
	@python3 tools/steps.py '!prerequisites' 'client-tools test-tools // check test-recipes' 'build-tests // python-tools' \
	    'test-site test-pages bench-small test-python // test-clients // test-docs test-crates'

# The package in an environment of its own, compiled with the other tests.
test-python: build-tests $(VENV)/tools
	cargo build --workspace --lib --locked $(TLS)
	$(VENV)/bin/python tools/editable.py target/debug/lib_pellucid.so
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider crates/python/tests

python-tools: $(VENV)/tools

$(VENV)/tools: Makefile | prerequisites
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(PYTHON_TOOLS)
	touch $@

# What docs/how-to/extend says, done to a copy of the tree, compiles.
test-recipes: prerequisites
	python3 tools/recipes.py

# Figures of long runs are kept, so that later builds are short.
site: build $(MDBOOK)
	nice python3 tools/build_site.py --pellucid target/release/pellucid
	python3 tools/check_site.py

test-site: build-tests $(MDBOOK)
	python3 tools/run_tutorials.py
	python3 tools/build_site.py --quick
	python3 tools/check_site.py

# The pages that the command writes, in a real browser.
test-pages: build-tests client-tools
	python3 tools/pages.py

test-docs: prerequisites
	cargo test --workspace --locked --doc $(TLS)

test-crates: build-tests
	$(RUN_NEXTEST) $(TLS)

# For the inner loop: formatting, dependency rules, and all tests but the slowest, those marked #[cfg_attr(quick, ignore = "slow")]. Compiled
# apart from the rest and incrementally: a change takes seconds instead of minutes, but code is slower and its first build takes as long as any.
quick: export CARGO_INCREMENTAL := 1
quick: export CARGO_PROFILE_DEV_CODEGEN_UNITS := 256
quick: export RUSTFLAGS := $(RUSTFLAGS) --cfg quick
quick: export CARGO_TARGET_DIR := $(CURDIR)/target/quick
quick: prerequisites $(NEXTEST)
	cargo fmt --all --check
	python3 tools/check_dependencies.py
	python3 tools/check_circles.py
	python3 tools/check_types.py
	python3 tools/check_functions.py
	$(RUN_NEXTEST) $(TLS)

build-tests: prerequisites $(NEXTEST)
	@[ -n '$(TLS)' ] || echo 'TLS under NVMe/TCP: not tested, OpenSSL is missing (Debian: apt install libssl-dev pkg-config)'
	$(RUN_NEXTEST) $(TLS) --no-run

# Real clients and a Linux kernel against the server.
test-clients: build-tests client-tools
	python3 tools/side_by_side.py linux_guest.py // real_clients.py + promises.py + hostile.py + cache_promises.py --stops 3 + kv_clients.py + graphs.py + fs_trials.py + fire_clients.py + break_databases.py + long_run.py --seconds 60

# Half an hour of fio and our own checker over NBD, with failing flash, power cuts and kills. make test runs a minute of it.
long-run: build-tests client-tools
	nice python3 tools/long_run.py --seconds 1800 --time x2

# The mounted file system at full length: minutes for each trial. make test runs a minute of it.
fs-trials: build-tests client-tools
	FS_TRIALS=long nice python3 tools/fs_trials.py

# What examples/fire/README.md describes, and docs/explanation/clustering.md shows.
record-workloads: build client-tools
	python3 tools/record_workloads.py --pellucid target/release/pellucid

clustering: build
	nice python3 tools/clustering.py

client-tools:
	@sh tools/client_tools.sh

check: prerequisites
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	python3 tools/check_dependencies.py
	python3 tools/check_circles.py
	python3 tools/check_types.py
	python3 tools/check_functions.py
	python3 tools/check_packages.py
	python3 tools/check_words.py

test-tools: prerequisites
	python3 -m py_compile tools/*.py
	python3 -m unittest discover --start-directory tools

# Guided by coverage; needs a nightly compiler. FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 60
# Random tests with seeds that have never run: SEEDS of them from FIRST on, by default from the time on.
SEEDS ?= 300
ifndef FIRST
FIRST := $(shell date +%s)000
endif
swarm: build-tests
	PELLUCID_FIRST=$(FIRST) PELLUCID_SEEDS=$$(($(FIRST) + $(SEEDS))) $(RUN_NEXTEST) $(TLS) \
	    -E 'package(pellucid-testing) & test(/(^|::)(swarm|clustered|tight|pacing|zones)::/) | binary_id(pellucid-device::cache)'

fuzz: prerequisites
	sh tools/fuzz.sh $(FUZZ_SECONDS)

advisories: $(DENY)
	PATH="$(CURDIR)/.tools/bin:$$PATH" cargo deny check advisories

bench: prerequisites
	python3 tools/bench.py

bench-small: build-tests
	python3 tools/bench_small.py

bench-curves: prerequisites
	python3 tools/bench_curves.py
	python3 tools/write_cost.py --pellucid target/release/pellucid

prerequisites:
	@sh tools/prerequisites.sh

# Prebuilt; where there is none, compiled unoptimised: it mostly waits for tests.
$(NEXTEST): | prerequisites
	CARGO_PROFILE_DEV_DEBUG=0 sh tools/rust_tool.sh cargo-nextest $(NEXTEST_VERSION) --debug \
	    --no-default-features --features default-no-update
	touch $@

$(MDBOOK): | prerequisites
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 sh tools/rust_tool.sh mdbook $(MDBOOK_VERSION)
	touch $@

$(DENY): | prerequisites
	sh tools/rust_tool.sh cargo-deny $(DENY_VERSION)
	touch $@
