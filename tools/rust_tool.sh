#!/bin/sh
# Puts a Rust program into .tools/bin: rust_tool.sh NAME VERSION [OPTION OF cargo install ...].
# Prebuilt from PyPI (tools/rust_tools.txt has the hashes); compiled, which takes minutes, where there is no pip or no file for this machine.
set -eu
cd "$(dirname "$0")/.."
name=$1 version=$2
shift 2
line=$(grep "^[a-z-]*-$name==$version " tools/rust_tools.txt) || { echo "$name $version: not in tools/rust_tools.txt" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$line" >"$scratch/wanted.txt"
mkdir -p .tools/bin
if python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target "$scratch/found" --requirement "$scratch/wanted.txt" >"$scratch/log" 2>&1; then
    mv "$scratch/found/bin/$name" .tools/bin/
else
    echo "$name: no package ($(grep . "$scratch/log" | head -n 1)), so it is compiled"
    cargo install --locked --root .tools "$@" "$name@$version"
fi
