#!/bin/sh
# Names every missing prerequisite and how to get it on Debian; succeeds if there is none.

rust_minor=91 # the test runner of `make test` needs 1.91
missing=0

lacks() {
    echo "missing: $1" >&2
    echo "    $2" >&2
    missing=1
}

rustup_how='install stable Rust with rustup (https://rustup.rs): apt install curl; curl https://sh.rustup.rs -sSf | sh'

# In the checkout, rustup's cargo is the version that rust-toolchain.toml asks for.
version=$(cargo --version 2>/dev/null) || version=
minor=$(echo "$version" | sed -n 's/^cargo 1\.\([0-9][0-9]*\)\..*/\1/p')
if [ -z "$version" ]; then
    lacks 'cargo' "$rustup_how"
elif [ -z "$minor" ] || [ "$minor" -lt "$rust_minor" ]; then
    lacks "cargo 1.$rust_minor or newer (found: $version)" "rustup update stable; or $rustup_how"
fi

command -v cc >/dev/null || lacks 'cc, a C compiler, with which Rust links' 'apt install build-essential'

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    found=$(python3 --version 2>/dev/null) || found=none
    lacks "python3, 3.11 or newer (found: $found)" 'apt install python3 (Debian 12 or newer)'
fi

# A linker that finds no room dies of a bus error, which tells nobody why. A first build takes 2 GB, a later one a part of it.
room_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
if [ "${room_kib:-3000000}" -lt 1000000 ]; then
    lacks "room on this disk: $((room_kib / 1000)) MB are free, a build takes up to 2,000" 'make room (cargo clean), or set CARGO_TARGET_DIR to another disk'
fi

exit $missing
