# Write clustering (pellucid fire) in front of block devices of the kernel, and served back to it by ublk: a netbook's SSD in its own time, over
# NVMe/TCP, and a device that the kernel's device mapper delays. ext4 across a kill and a detach; recorded workloads beside the device
# alone; the device fails for a while, and is pulled out.
#
# kernel: 6.12
# serve: netbook-ssd-2 --set drive.media.blocks=1024 --set drive.media.store=ram
# programs: nvme pellucid fio dmsetup mkfs.ext4 fsck.ext4
# modules: nvme-keyring nvme-auth nvme-core nvme-fabrics nvme-tcp ublk_drv loop dm-mod dm-bufio dm-delay
# files: examples/fire/ext4-install.fio.zst

# serve_it DEVICE: puts the buffer in front of it; B is then the device behind which it is.
serve_it() {
    # Nothing of the last one is taken for its own: it opens its log when it gets to it.
    rm -f /tmp/control; : >/tmp/log
    pellucid fire --device $1 --cluster 1MiB --memory 32MiB --set host.cluster_buffer.idle=never --ublk --control /tmp/control 2>/tmp/log &
    server=$!
    until_true grep -q event=attached /tmp/log || { cat /tmp/log; return 1; }
    B=$(sed -n 's/.*event=attached.*device="\([^"]*\)".*/\1/p' /tmp/log)
    block_device $B
}
# ends STATUS: tells the server to end, and checks how it has.
ends() {
    kill -TERM $server
    wait $server
    [ $? = $1 ] || { cat /tmp/log; return 1; }
}
gone() { ! [ -b $1 ]; }
# io DEVICE ...: past the page cache, so that the device is told of each request and its errors are seen.
io() { device=$1; shift; fio --name=x --filename=$device --direct=1 --ioengine=psync --verify_state_save=0 "$@"; }
# replay LINES DEVICE: so much of the recorded installation of packages, as fast as it goes, and flushed in the end.
replay() {
    head -n $1 /files/ext4-install.fio >/tmp/trace
    io $2 --read_iolog=/tmp/trace --replay_redirect=$2 --replay_no_stall=1 --end_fsync=1
}
# pattern PLACE SEED ...: a MiB of verified data.
pattern() { device=$1 at=$2 seed=$3; shift 3; io $device --offset=$at --size=1M --rw=write --bs=64k --randseed=$seed --verify=crc32c --verify_fatal=1 "$@"; }
writes() { pattern "$@" --do_verify=0; }
holds() { pattern "$@" --verify_only; }
# Readings, none of which depends on how busy the machine is: the writes that a device has got, each of which takes a delayed one a
# fixed time; the sectors that the served drive has programmed, its garbage collection and folding included.
written() { reading=$(awk '{ print $5 }' /sys/class/block/${1#/dev/}/stat); }
programmed() { host programmed && reading=${answer##* }; }
# gains READING TIMES DEVICE LINES: with the buffer, its end included, READING grows by less than without, even TIMES as much.
gains() {
    $1 $3 && before=$reading && replay $4 $3 && $1 $3 || return 1
    alone=$((reading - before))
    serve_it $3 && $1 $3 && before=$reading && replay $4 $B && ends 0 && $1 $3 || return 1
    with=$((reading - before))
    echo "SHOW $4 lines on $3: $with $1, alone $alone" >/dev/ttyS0
    [ $(($2 * with)) -lt $alone ]
}

step connect attach -i 1 || { dmesg | tail -20; poweroff -f; }
step serve serve_it $N || { dmesg | tail -20; poweroff -f; }
step nobody-else-gets-it refused pellucid fire --probe $N
step mkfs mkfs.ext4 -q -F $B 256M
step mount mount -t ext4 $B /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=8 2>/dev/null
step write cp /tmp/data /mnt/data
mkdir /mnt/many; for i in $(seq 1 200); do head -c 3000 /tmp/data >/mnt/many/$i; done
step sync sync
kill -KILL $server
step device-dies-with-its-server until_true gone $B
umount -l /mnt
step mount-bare-after-kill mount -t ext4 $N /mnt
step compare-after-kill cmp /tmp/data /mnt/data
step files-after-kill sh -c '[ $(ls /mnt/many | wc -l) = 200 ]'
step umount-bare umount /mnt
step fsck-bare fsck.ext4 -f -n $N
step serve-again serve_it $N
step mount-again mount -t ext4 $B /mnt
step write-more cp /tmp/data /mnt/more
step umount umount /mnt
step detach ends 0
step device-is-gone gone $B
step fsck-detached fsck.ext4 -f -n $N
step mount-detached mount -t ext4 $N /mnt
step compare-detached cmp /tmp/data /mnt/more
step umount-detached umount /mnt

step fewer-programs-on-a-netbooks-drive gains programmed 1 $N 1200

# The trace has written over the file system: a new one, which is not touched any more.
step mkfs-once-more mkfs.ext4 -q -F $N 64M
step serve-to-be-pulled-out serve_it $N
step flushed writes $B 256M 1 --end_fsync=1
step held writes $B 300M 2
echo 1 >/sys/class/nvme/nvme0/delete_controller
step flush-fails refused writes $B 400M 3 --end_fsync=1
step held-can-be-read holds $B 300M 2
step a-sentence grep -q event=file-failed /tmp/log
step ends-with-an-error ends 1
step says-what-is-lost grep -q event=stop-failed /tmp/log
step connect-again attach -i 1
step flushed-is-there holds $N 256M 1
step fsck-after-the-pull fsck.ext4 -f -n $N

# A device of the device mapper: 16 ms a write.
truncate -s 768M /tmp/disk
step loop losetup /dev/loop0 /tmp/disk
S=/dev/dm-0
delayed() { echo "0 1572864 delay /dev/loop0 0 0 /dev/loop0 0 16"; }
dm() { dmsetup --noudevsync --noudevrules "$@"; }
step delay sh -c "echo '$(delayed)' | dmsetup --noudevsync --noudevrules create slow"
step fewer-writes-to-a-delayed-device gains written 2 $S 400
step serve-delayed serve_it $S
step flushed-delayed writes $B 16M 1 --end_fsync=1
step held-delayed writes $B 32M 2
# table TABLE: what the device is from now on.
table() { dm suspend slow && echo "$1" | dm load slow && dm resume slow; }
step breaks table "0 1572864 error"
step flush-fails-while-it-is-broken refused io $B --offset=48M --size=4k --rw=write --bs=4k --end_fsync=1
step held-can-be-read-while-it-is-broken holds $B 32M 2
step works-again table "$(delayed)"
step flush-brings-all-of-it io $B --offset=48M --size=4k --rw=write --bs=4k --end_fsync=1
step held-is-there holds $S 32M 2
step detach-delayed ends 0
step flushed-delayed-is-there holds $S 16M 1
step no-kernel-trouble sh -c "! dmesg | grep -i 'Call Trace\|hung task'"
