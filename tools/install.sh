#!/bin/sh
# Puts the command where a system has its programs: binary, manual pages, completions of shells, systemd unit.
# Usage: install.sh BUILT PREFIX [DESTDIR]   BUILT: the directory with what cargo has built
set -eu
built=$1 prefix=$2 root=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
case $prefix in
    /*) ;;
    *) echo "PREFIX=$prefix: allowed: an absolute path" >&2; exit 2 ;;
esac
mkdir -p "$root$prefix/bin" "$root$prefix/lib/systemd/system"
install -m 755 "$built/pellucid" "$root$prefix/bin/pellucid"
"$root$prefix/bin/pellucid" generate "$root$prefix/share"
sed "s|/usr/local/bin/|$prefix/bin/|" "$here/examples/serve/pellucid@.service" >"$root$prefix/lib/systemd/system/pellucid@.service"
echo "installed $("$root$prefix/bin/pellucid" --version) under $root$prefix"
