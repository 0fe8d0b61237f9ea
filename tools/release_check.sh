#!/bin/sh
# Tries the packages where nothing of ours is: the static binary alone in an empty root, the Debian package on a bare Debian, and what the
# container file copies in an empty directory. Needs root for chroot; names what it cannot try, and counts it with CI=true as a failure.
# Usage: release_check.sh STATIC DEB
set -eu
static=$1 package=$2
here=$(cd "$(dirname "$0")/.." && pwd)
skipped=
skip() { echo "not tried: $1"; skipped=yes; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
try="run netbook-ssd --rw randwrite --bs 4k --number-ios 2000 --json -q"

if [ "$(id -u)" = 0 ]; then
    root=$scratch/empty
    mkdir "$root"
    cp "$static" "$root/pellucid"
    chroot "$root" /pellucid --version
    chroot "$root" /pellucid $try >"$scratch/static.json"
    echo "static binary: runs in an empty root"
else
    skip "static binary in an empty root: needs root for chroot"
fi

dpkg-deb --info "$package" >/dev/null
if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
    root=$scratch/debian
    # The suite of this system, as its packages are reached already.
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\(http[^ ]*\) .*/\2/p; s/^URIs: *\(http[^ ]*\).*/\1/p' /etc/apt/sources.list \
        /etc/apt/sources.list.d/* 2>/dev/null | head -1)
    debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >"$scratch/debootstrap.log" 2>&1 ||
        { tail -3 "$scratch/debootstrap.log" >&2; exit 1; }
    cp "$package" "$root/tmp/pellucid.deb"
    chroot "$root" dpkg --install /tmp/pellucid.deb >/dev/null
    chroot "$root" pellucid $try >"$scratch/deb.json"
    chroot "$root" dpkg --purge pellucid >/dev/null
    [ ! -e "$root/usr/bin/pellucid" ] || { echo "the package leaves files behind" >&2; exit 1; }
    echo "Debian package: installed, run and purged on a bare $suite"
else
    root=$scratch/unpacked
    dpkg-deb --extract "$package" "$root"
    "$root/usr/bin/pellucid" $try >"$scratch/deb.json"
    [ -s "$root/usr/share/man/man1/pellucid.1.gz" ]
    skip "Debian package on a bare system: needs root and debootstrap; unpacked and run here"
fi

# The image is built from these alone (.dockerignore), so nothing else may be needed to compile.
context=$scratch/context
mkdir "$context"
for name in $(sed -n 's/^!//p' "$here/.dockerignore"); do cp -r "$here/$name" "$context/"; done
(cd "$context" && cargo metadata --no-deps --locked --offline --format-version 1 >/dev/null)
status=0
sh "$here/tools/container_check.sh" || status=$?
case $status in
0) ;;
3) skip "container image: needs docker, or root with buildah and debootstrap" ;;
*) exit "$status" ;;
esac
[ -z "$skipped" ] || [ "${CI:-}" != true ] || { echo "with CI=true nothing is skipped" >&2; exit 1; }
