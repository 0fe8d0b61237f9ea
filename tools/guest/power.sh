# Host and drive lose power together, in the middle of writing: behind the second boot the file system recovers, and what
# was synced is there. Twice, so that the second cut meets a drive and a file system that have recovered once.
#
# serve: bench/serve-ram.toml
# file store
# boots: 3
# programs: nvme mkfs.ext4 fsck.ext4
# modules: nvme-fabrics nvme-tcp

step connect attach -i 2
if [ $BOOT = 1 ]; then
    step mkfs mkfs.ext4 -q -F $N
else
    dmesg -c >/dev/null
    step mount-recovers mount -t ext4 $N /mnt
    step journal-was-needed sh -c "dmesg | grep -q 'EXT4-fs.*recovery complete'"
    for i in $(seq 1 $(((BOOT - 1) * 20))); do cmp /bin/busybox /mnt/kept-$i || break; done >/tmp/differs 2>&1
    step synced-files-are-whole test ! -s /tmp/differs
    step umount umount /mnt
    step fsck fsck.ext4 -f -n $N
fi
if [ $BOOT -lt 3 ]; then
    step mount mount -t ext4 $N /mnt
    for i in $(seq $((BOOT * 20 - 19)) $((BOOT * 20))); do cp /bin/busybox /mnt/kept-$i; done
    step sync sync
    # Under way when the power goes: data and metadata, some of it written back and never flushed.
    (i=0; while :; do i=$((i + 1)); cp /bin/busybox /mnt/lost-$i; [ $i = 30 ] && rm -f /mnt/lost-*; done) 2>/dev/null &
    (while :; do dd if=/bin/busybox of=/mnt/stream bs=64k conv=notrunc oflag=sync; done) >/dev/null 2>&1 &
    usleep 1500000
    host power-off
fi
