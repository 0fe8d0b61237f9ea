#!/bin/busybox sh
# The guest's init: brings up modules and network, then runs one theme (theme.sh) and powers off.
# `settings` has PORT, NQN, HOST_NQN, HOST_ID, MIB, MODULES, BOOT, and HOST=1 if the host carries out what it is asked for.
export PATH=/bin:/sbin
/bin/busybox mkdir -p /proc /sys /mnt; /bin/busybox mount -t proc proc /proc; /bin/busybox --install -s /bin
mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
ln -sf /proc/mounts /etc/mtab
stty -echo </dev/ttyS0
echo GUEST BEGINS
. /settings

# step NAME COMMAND...: runs a command and says how it went.
step() {
    name=$1; shift
    "$@" >/tmp/out 2>&1; status=$?
    if [ $status = 0 ]; then echo "STEP PASS $name"; return 0; fi
    echo "STEP FAIL $name (status $status)"; head -c 1500 /tmp/out; return 1
}
# refused COMMAND...: succeeds if the command does not.
refused() { ! "$@"; }
# show NAME: puts the output of the last step on the console.
show() { echo "SHOW $1"; cat /tmp/out; echo "SHOWN"; }
same() { cmp -s "$1" "$2"; }
# host ACTION: has the host do something (restart, power-cut, ...) and waits until it is done. Asks again if no answer comes:
# a line can be lost between kernel messages; the host does what has this number only once.
asked=0
host() {
    asked=$((asked + 1)); tries=0
    while [ $tries -lt 120 ]; do
        tries=$((tries + 1))
        echo "HOST $asked $*" >/dev/ttyS0
        read -r -t 5 answer </dev/ttyS0
        case $answer in "done $asked"|"done $asked "*) return 0 ;; "refused $asked"*) echo "$answer"; return 1 ;; esac
    done
    return 1
}
# until_true COMMAND...: every 50 ms, as long as it fails, for ten minutes at most: what hangs ends, however slow the machine is.
until_true() { tries=12000; while ! "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; usleep 50000; done; }
forget_cache() { echo 3 >/proc/sys/vm/drop_caches; }
md5() { md5sum <"$1"; }

D=/dev/nvme0; N=/dev/nvme0n1
TARGET="-t tcp -a 10.0.2.2 -s $PORT --hostnqn=$HOST_NQN --hostid=$HOST_ID"
block_device() { [ -b ${1:-$N} ]; }
attach() { nvme connect $TARGET -n $NQN "$@" && until_true block_device; }
state_is() { [ "$(cat /sys/class/nvme/nvme0/state 2>/dev/null)" = "$1" ]; }
state_is_not() { ! state_is "$1"; }

for module in $MODULES; do [ -f /modules/$module.ko ] && insmod /modules/$module.ko; done
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
. /theme.sh
dmesg | grep -i nvme | tail -40 >/tmp/out; show dmesg
echo GUEST DONE
poweroff -f
