#!/bin/sh
# Sees to the programs that the tests with real clients need (Debian's names): installs what is missing where we may
# (root, or CI=true with sudo), otherwise names it. Fails only where CI=true, because there nothing may be skipped.
#
#   tools/client_tools.sh            what is missing, or nothing

packages=
need() { # PROGRAM PACKAGE
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null && return
    case " $packages " in *" $2 "*) ;; *) packages="$packages $2" ;; esac
}
find_missing() {
    packages=
    need qemu-system-x86_64 qemu-system-x86
    need qemu-img qemu-utils
    need qemu-io qemu-utils
    need fio fio
    need nbdinfo libnbd-bin
    need nbdcopy libnbd-bin
    need nvme nvme-cli
    need mkfs.ext4 e2fsprogs
    need fsck.ext4 e2fsprogs
    need mkfs.f2fs f2fs-tools
    need mkfs.vfat dosfstools
    need busybox busybox-static
    need dmsetup dmsetup
    need zstd zstd
    need memcached memcached
    need memccapable libmemcached-tools
    need dbench dbench
    need losetup mount
    # Debian keeps the programs of a cluster apart.
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql
    need git git
    # Pages are opened in a real browser.
    command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || need chromium chromium
    need strace strace
    { python3 -c 'import pymemcache' || /usr/bin/python3 -c 'import pymemcache'; } 2>/dev/null || packages="$packages python3-pymemcache"
    { python3 -c 'import networkx' || /usr/bin/python3 -c 'import networkx'; } 2>/dev/null || packages="$packages python3-networkx"
    # The Python package is tested in an environment of its own, and instructions are counted by valgrind.
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
    need valgrind valgrind
    # TLS under NVMe/TCP is built on OpenSSL; where it is there, the tests have it.
    need pkg-config pkg-config
    pkg-config --exists openssl 2>/dev/null || packages="$packages libssl-dev"
    # The guest has no libraries for busybox.
    if [ "$packages" != "${packages%busybox-static*}" ]; then :
    elif ldd "$(command -v busybox)" >/dev/null 2>&1; then packages="$packages busybox-static"; fi
}

find_missing
[ -z "$packages" ] && exit 0
how="apt-get update && apt-get install --no-install-recommends$packages"
as_root=
if [ "$(id -u)" != 0 ]; then as_root='sudo -n'; fi
if command -v apt-get >/dev/null && { [ -z "$as_root" ] || { [ "$CI" = true ] && $as_root true 2>/dev/null; }; }; then
    echo "installing for the tests with real clients:$packages"
    export DEBIAN_FRONTEND=noninteractive
    { $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends $packages; } >/dev/null
    find_missing
fi
[ -z "$packages" ] && exit 0
echo "missing for the tests with real clients:$packages" >&2
echo "    as root: $how" >&2
if [ "$CI" = true ]; then exit 1; fi
echo '    the tests that need them are skipped' >&2
