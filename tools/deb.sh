#!/bin/sh
# Makes a Debian package of what `make install` installs, with dpkg-deb alone.
# Usage: deb.sh BUILT OUT   BUILT: the directory with what cargo has built; OUT: the directory for the package
set -eu
built=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
command -v dpkg-deb >/dev/null || { echo "dpkg-deb is missing (Debian: apt install dpkg)" >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
sh "$here/tools/install.sh" "$built" /usr "$root" >/dev/null
version=$(sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' "$here/Cargo.toml")
binary="$root/usr/bin/pellucid"
# The newest symbol version of glibc that the binary needs; a static one needs none.
glibc=$(grep -ao 'GLIBC_2\.[0-9]*' "$binary" | sort -uV | tail -1 | sed 's/GLIBC_//') || glibc=
depends=
if ldd "$binary" >/dev/null 2>&1 && [ -n "$glibc" ]; then
    depends="Depends: libc6 (>= $glibc), libgcc-s1"
    if ldd "$binary" | grep -q libssl.so.3; then depends="$depends, libssl3"; fi
fi
doc="$root/usr/share/doc/pellucid"
mkdir -p "$doc" "$root/DEBIAN"
cp "$here/README.md" "$here/LICENSE-MIT" "$here/LICENSE-APACHE" "$here/examples/serve/pellucid@.service" "$doc/"
gzip -9n <"$here/CHANGELOG.md" >"$doc/changelog.gz"
find "$root/usr/share/man" -type f -exec gzip -9n {} +
cat >"$doc/copyright" <<EOF
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pellucid

Files: *
Copyright: the authors of Pellucid
License: Expat or Apache-2.0
 The texts are LICENSE-MIT and LICENSE-APACHE in this directory.
EOF
cat >"$root/DEBIAN/control" <<EOF
Package: pellucid
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: the authors of Pellucid <pellucid@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Section: utils
Priority: optional
$depends
Description: open SSD in software
 Describes a drive in one file, runs a workload or a trace on it in simulated
 time, or serves it to real hosts over NVMe/TCP and NBD, and shows where time
 and writes went.
EOF
sed -i '/^$/d' "$root/DEBIAN/control"
chmod -R u=rwX,go=rX "$root"
mkdir -p "$out"
package="$out/pellucid_${version}_$(dpkg --print-architecture).deb"
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
