#!/bin/sh
# Builds examples/serve/Containerfile and runs the program in the image, with the engine that works here: docker, else buildah as root, which
# needs no daemon. buildah takes the two base images from their registry; where that is not reached it makes them: bare Debian by debootstrap,
# one with a C compiler and this machine's Rust. Prints what it did; status 3: nothing here can build an image.
# Usage: container_check.sh
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
file=$here/examples/serve/Containerfile
name=localhost/pellucid-release-check
if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
    docker build -q -f "$file" -t $name "$here" >/dev/null
    docker run --rm $name --version
    echo "container image: built and run by docker"
    exit 0
fi
[ "$(id -u)" = 0 ] && command -v buildah >/dev/null || exit 3

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Neither a user namespace nor a file system in layers is needed this way.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah() { command buildah --root "$scratch/images" --runroot "$scratch/run" "$@"; }
build() { buildah bud -q "$@" -f "$file" -t $name "$here" >/dev/null; }

# A base image of our own. $1: its name, $2: its root
base() {
    container=$(buildah from scratch)
    buildah copy -q "$container" "$2" / >/dev/null
    buildah config --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
    buildah commit -q --rm "$container" "$1" >/dev/null
    rm -rf "$2"
}
made=
if ! buildah pull -q docker.io/library/debian:bookworm-slim >/dev/null 2>&1; then
    command -v debootstrap >/dev/null || exit 3
    debootstrap --variant=minbase bookworm "$scratch/slim" >"$scratch/log" 2>&1 || { tail -3 "$scratch/log" >&2; exit 1; }
    debootstrap --variant=minbase --include=gcc,libc6-dev,ca-certificates bookworm "$scratch/rust" >"$scratch/log" 2>&1 ||
        { tail -3 "$scratch/log" >&2; exit 1; }
    mkdir -p "$scratch/rust/usr/local/rust"
    cp -a "$(rustc --print sysroot)/bin" "$(rustc --print sysroot)/lib" "$scratch/rust/usr/local/rust/"
    # The crates are fetched through whatever this machine trusts.
    cp -L /etc/ssl/certs/ca-certificates.crt "$scratch/rust/etc/ssl/certs/ca-certificates.crt"
    base docker.io/library/debian:bookworm-slim "$scratch/slim"
    base docker.io/library/rust:1-slim-bookworm "$scratch/rust"
    made=" on base images made here"
    build --pull-never
else
    build
fi
container=$(buildah from --pull-never $name)
buildah run "$container" -- pellucid --version
buildah run "$container" -- pellucid run netbook-ssd --rw randwrite --bs 4k --number-ios 2000 --json -q >"$scratch/run.json"
[ -s "$scratch/run.json" ]
echo "container image: built and run by buildah$made"
