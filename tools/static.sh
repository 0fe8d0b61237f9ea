#!/bin/sh
# Builds the command as one static file that needs nothing of its system. With musl where its target is installed
# (`rustup target add`), else with the system's glibc (Debian: libc6-dev), which then finds hosts by address, and by name only where the
# system has glibc's name services. Prints the file.
# Usage: static.sh OUT
set -eu
out=$1
machine=$(uname -m)
musl=$machine-unknown-linux-musl
if rustup target list --installed 2>/dev/null | grep -qx "$musl" && command -v musl-gcc >/dev/null; then
    target=$musl
    export CC="${CC:-musl-gcc}"
else
    target=$machine-unknown-linux-gnu
fi
flags="CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)_RUSTFLAGS"
export "$flags=-C target-feature=+crt-static"
cargo build --release --locked --bin pellucid --target "$target" >&2
file=${CARGO_TARGET_DIR:-target}/$target/release/pellucid
if ldd "$file" 2>&1 | grep -q '=>'; then echo "$file is not static" >&2; exit 1; fi
mkdir -p "$out"
install -m 755 "$file" "$out/pellucid-static"
echo "$out/pellucid-static"
