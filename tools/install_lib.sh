#!/bin/sh
# Puts the flash library where C programs find it: header, shared and static library, pkg-config file.
# Usage: install_lib.sh BUILT PREFIX [DESTDIR]   BUILT: the directory with what cargo has built
set -eu
built=$1 prefix=$2 root=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
api=$(sed -n 's/^#define PRISM_API_VERSION //p' "$here/crates/prism-c/include/pellucid/prism.h")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n 1)
case $prefix in
    /*) ;;
    *) echo "PREFIX=$prefix: allowed: an absolute path" >&2; exit 2 ;;
esac
lib=$root$prefix/lib include=$root$prefix/include/pellucid
mkdir -p "$lib/pkgconfig" "$include"
install -m 644 "$here/crates/prism-c/include/pellucid/prism.h" "$include/prism.h"
install -m 755 "$built/libpellucid_prism_c.so" "$lib/libpellucid-prism.so.$api.$version"
ln -sf "libpellucid-prism.so.$api.$version" "$lib/libpellucid-prism.so.$api"
ln -sf "libpellucid-prism.so.$api" "$lib/libpellucid-prism.so"
install -m 644 "$built/libpellucid_prism_c.a" "$lib/libpellucid-prism.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/crates/prism-c/pellucid-prism.pc.in" \
    >"$lib/pkgconfig/pellucid-prism.pc"
echo "installed libpellucid-prism $version (interface $api) under $root$prefix"
