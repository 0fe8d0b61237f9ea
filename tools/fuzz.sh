#!/bin/sh
# Runs the fuzz targets, guided by coverage: tools/fuzz.sh SECONDS [TARGET...]. Needs a nightly compiler and a C++ compiler
# (libFuzzer comes with the crate that the targets use); does what cargo-fuzz does, without installing it. The inputs found
# stay in target/fuzz-corpus; what a target fails on is written beside them and named.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET...]}
shift
cargo +nightly --version >/dev/null 2>&1 || { echo 'fuzzing needs: rustup toolchain install nightly' >&2; exit 2; }
command -v c++ >/dev/null || { echo 'fuzzing needs a C++ compiler: apt install g++' >&2; exit 2; }
[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v '^pellucid-fuzz$')
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
export RUSTFLAGS='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=4'
for name; do set -- "$@" --bin "$name"; shift; done
cargo +nightly build --quiet --release --locked --manifest-path fuzz/Cargo.toml --target-dir target/fuzz-run --target "$triple" \
    --config 'profile.release.lto="off"' "$@"
failed=0
for name in "$@"; do
    [ "$name" = --bin ] && continue
    mkdir -p "target/fuzz-corpus/$name"
    echo "fuzz $name: $seconds s"
    "target/fuzz-run/$triple/release/$name" "target/fuzz-corpus/$name" -max_total_time="$seconds" -max_len=4096 -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="target/fuzz-corpus/$name-" \
        >"target/fuzz-corpus/$name.log" 2>&1 || { failed=1; echo "FAILED $name:"; grep -av '^#' "target/fuzz-corpus/$name.log" | tail -20; }
    grep -a 'stat::number_of_executed_units\|stat::peak_rss_mb' "target/fuzz-corpus/$name.log" || true
    grep -a 'cov:' "target/fuzz-corpus/$name.log" | tail -1
done
exit $failed
