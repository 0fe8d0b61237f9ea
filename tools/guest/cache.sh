# A flash cache (pellucid cache) in front of a device of the kernel's device mapper that breaks and works again, served back to the kernel by
# ublk: errors reach the client, dirty blocks stay and are written back, in both modes; the backing store past the page cache and through it.
# ext4 on the cached device, across power cuts and kills, with each kind of cache drive.
#
# kernel: 6.12
# programs: pellucid fio dmsetup mkfs.ext4 fsck.ext4
# modules: ublk_drv loop dm-mod

S=/dev/dm-0
dm() { dmsetup --noudevsync --noudevrules "$@"; }
whole='0 196608 linear /dev/loop0 0'
# table TABLE: what the backing store is from now on.
table() { dm suspend --nolockfs --noflush disk && echo "$1" | dm load disk && dm resume disk; }

FLASH=file:/tmp/flash,size=16MiB
# serve_it BACKING OPTION...: puts the cache, FLASH, before the device; B is the cached device.
serve_it() {
    backing=$1; shift
    # Nothing of the last one is taken for its own: it opens its log when it gets to it.
    rm -f /tmp/control; : >/tmp/log
    pellucid cache --backing $backing --drive $FLASH --sequential-kib 0 --dirty 50 --ublk --monitor 127.0.0.1:9300 \
        --control /tmp/control "$@" 2>/tmp/log &
    server=$!
    until_true settled
    grep -q event=attached /tmp/log || { cat /tmp/log; return 1; }
    B=$(sed -n 's/.*event=attached.*device="\([^"]*\)".*/\1/p' /tmp/log)
    block_device $B
}
settled() { grep -q event=attached /tmp/log || ! kill -0 $server 2>/dev/null; }
gone() { ! [ -b $B ]; }
# ends SIGNAL STATUS: how the server ends by a signal.
ends() {
    kill -$1 $server
    wait $server
    [ $? = $2 ] || { cat /tmp/log; return 1; }
    until_true gone
}
# figure NAME: what the cache counts.
figure() { wget -q -O - http://127.0.0.1:9300/metrics | sed -n "s/^pellucid_layer_$1{[^}]*} //p" | head -1; }
above() { n=$(figure $1); echo "$1 $n"; [ "${n:-0}" -gt $2 ]; }
# io DEVICE ...: past the page cache, so that the device is told of each request and its errors are seen.
io() { device=$1; shift; fio --name=x --filename=$device --direct=1 --ioengine=psync --verify_state_save=0 "$@"; }
# pattern DEVICE PLACE SEED ...: a MiB of verified data.
pattern() { device=$1 at=$2 seed=$3; shift 3; io $device --offset=$at --size=1M --rw=write --bs=64k --randseed=$seed --verify=crc32c --verify_fatal=1 "$@"; }
writes() { pattern "$@" --do_verify=0; }
holds() { pattern "$@" --verify_only; }
reads() { io $1 --offset=$2 --size=64k --rw=read --bs=64k; }
detached() { pellucid detach --control /tmp/control; }
not_detached() { detached >/tmp/said 2>&1 && return 1; cat /tmp/said; grep -q 'dirty still' /tmp/said; }

truncate -s 96M /tmp/disk
step loop losetup /dev/loop0 /tmp/disk
step device sh -c "echo '$whole' | dmsetup --noudevsync --noudevrules create disk"
step older-data writes $S 16M 9 --end_fsync=1

# Past the page cache: each request sees how the device is at the time.
step serve serve_it file:$S,direct=true || { dmesg | tail -20; poweroff -f; }
step dirty writes $B 16M 1 --end_fsync=1
step breaks table '0 196608 error'
step dirty-is-read holds $B 16M 1
step a-miss-is-an-error refused reads $B 64M
step new-data-are-taken writes $B 32M 2
# More than may be dirty: they are to be written back, and cannot be.
for at in 40 41 42 43 44 45 46 47 48; do writes $B ${at}M $at >/dev/null 2>&1; done
step the-cache-counts until_true above backing_write_errors_total 0
step it-is-not-detached not_detached
step dirty-stays above dirty_blocks 500
step dirty-is-read-again holds $B 16M 1
step works-again table "$whole"
step a-miss-is-read reads $B 64M
step flush io $B --offset=80M --size=4k --rw=write --bs=4k --end_fsync=1
step detach detached
step says-what-failed grep -q event=file-failed /tmp/log
for place in '16M 1' '32M 2' '40M 40' '48M 48'; do step "there ${place% *}" holds $S $place; done
step end ends TERM 0

# The program dies while the device is broken, and comes back when it works.
step serve-to-be-killed serve_it file:$S,direct=true
step flushed writes $B 16M 3 --end_fsync=1
step breaks-again table '0 196608 error'
step more writes $B 20M 4
step killed ends KILL 137
step not-served-while-it-is-broken refused serve_it file:$S,direct=true
step works-once-more table "$whole"
step older-data-are-there holds $S 16M 1
step serve-after-kill serve_it file:$S,direct=true
step flushed-is-there holds $B 16M 3
step detach-after-kill detached
step flushed-is-back holds $S 16M 3
step end-after-kill ends TERM 0

# Through the page cache a flush brings the news: the store then takes no writes before the next start.
step serve-buffered serve_it $S
step flushed-buffered writes $B 16M 5 --end_fsync=1
step breaks-buffered table '0 196608 error'
step not-detached-buffered not_detached
step dirty-is-read-buffered holds $B 16M 5
step works-buffered table "$whole"
step killed-buffered ends KILL 137
step serve-again serve_it $S
step flushed-buffered-is-there holds $B 16M 5
step detach-buffered detached
step end-buffered ends TERM 0
step flushed-buffered-is-back holds $S 16M 5

# Write-through: a write is where it belongs, or an error.
step serve-through serve_it file:$S,direct=true --mode write-through
step through writes $B 16M 6 --end_fsync=1
step breaks-through table '0 196608 error'
step clean-is-read holds $B 16M 6
step a-write-is-an-error refused writes $B 24M 7
step works-through table "$whole"
step a-write-is-taken writes $B 24M 8 --end_fsync=1
step through-is-there holds $S 16M 6
step later-is-there holds $S 24M 8
step end-through ends TERM 0
# ext4_on NAME OPTION...: a file system on the cached device. A power cut is one of the cache drive, where that is a model.
ext4_on() {
    called=$1; shift
    step serve-$called serve_it file:$S,direct=true --format "$@" || return
    step mkfs-$called mkfs.ext4 -q -F $B
    step mount-$called mount -t ext4 $B /mnt
    step write-$called cp /tmp/data /mnt/data
    mkdir /mnt/many; for i in $(seq 1 100); do head -c 3000 /tmp/data >/mnt/many/$i; done
    step sync-$called sync
    case $called in file*) ;; *) step cut-$called pellucid power-cut --control /tmp/control ;; esac
    forget_cache
    step compare-$called cmp /tmp/data /mnt/data
    cp /tmp/data /mnt/more; sync
    head -c 2000000 /tmp/data >/mnt/unsynced
    step kill-$called ends KILL 137
    umount -l /mnt
    step serve-$called-again serve_it file:$S,direct=true "$@"
    step mount-$called-again mount -t ext4 $B /mnt
    step compare-$called-again cmp /tmp/data /mnt/more
    step files-$called sh -c '[ $(ls /mnt/many | wc -l) = 100 ]'
    step umount-$called umount /mnt
    step fsck-$called fsck.ext4 -f -n $B
    step detach-$called detached
    step end-$called ends TERM 0
    step fsck-$called-without fsck.ext4 -f -n $S
}
dd if=/dev/urandom of=/tmp/data bs=1M count=6 2>/dev/null
small="--set media.store=file --set media.path=/tmp/media --set media.channels=1 --set media.ways=2 --set media.blocks=32 --set media.pages=8"
small="$small --set ftl.over_provisioning=0.55 --time instant"
FLASH=file:/tmp/flash,size=16MiB ext4_on file-write-back
# As the preset's, for a backing store of this size: a new cache asks for the state of every block of the address space, of 1.5 TB there.
ssc='drive.namespace=[{interface="cache",address_space="128MiB",eviction="se-util",guarantee="flush",log="last-page",checkpoint="on-flush"}]'
FLASH=jasmine-ssc ext4_on ssc-write-back $small --set "$ssc"
rm /tmp/media
FLASH=jasmine-optimized ext4_on model-write-through --mode write-through $small
step no-kernel-trouble sh -c "! dmesg | grep -i 'Call Trace\|hung task'"
