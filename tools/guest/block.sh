# An ordinary NVMe drive: discovery, every log page, ext4 across a restart of the server and a power cut, every command of
# the NVM command set, reset, format, digests.
#
# serve: bench/serve-ram.toml --time instant
# file store
# programs: nvme mkfs.ext4 fsck.ext4
# modules: nvme-fabrics nvme-tcp

step discover nvme discover $TARGET
cp /tmp/out /tmp/found
step discover-finds-it grep -q "$NQN" /tmp/found
step connect attach -i 2 --reconnect-delay=1 || { dmesg | tail -20; poweroff -f; }
step list nvme list; show list
step id-ctrl nvme id-ctrl $D
step id-ns nvme id-ns $N
step ns-descs nvme ns-descs $N
step list-ns nvme list-ns $D
step smart-log nvme smart-log $D
step error-log nvme error-log $D
step fw-log nvme fw-log $D
step effects-log nvme effects-log $D
step changed-ns-list-log nvme changed-ns-list-log $D
step supported-log-pages nvme supported-log-pages $D
# Every page that the drive itself says it has, in its first 512 bytes. 0Dh needs an action first and comes below.
pages=$(nvme get-log $D --log-id=0 --log-len=1024 -b | od -An -v -t u4 -w4 | awk '$1 % 2 { printf "%d ", NR - 1 }')
step supported-pages-are-told test -n "$pages"
for page in $pages; do
    [ $page = 13 ] || step "get-log-$page" nvme get-log $D --log-id=$page --log-len=512
done
step get-features nvme get-feature $D -f 7 -H
step write-cache nvme get-feature $D -f 6
step show-regs nvme show-regs $D
step vendor-log nvme get-log $D --log-id=0xc0 --log-len=4096 -b

step mkfs mkfs.ext4 -q -F $N
step mount mount -t ext4 $N /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=$MIB 2>/dev/null
step write cp /tmp/data /mnt/data
mkdir /mnt/many; for i in $(seq 1 200); do head -c 3000 /tmp/data >/mnt/many/$i; done
step sync sync
step umount umount /mnt
forget_cache
step remount mount -t ext4 $N /mnt
step compare cmp /tmp/data /mnt/data
step files sh -c '[ $(ls /mnt/many | wc -l) = 200 ]'
if [ $HOST = 1 ]; then
    step server-restarts host restart
    step connection-lost until_true state_is_not live
    step reconnected until_true state_is live
    forget_cache
    step compare-after-restart cmp /tmp/data /mnt/data
    step write-after-restart cp /tmp/data /mnt/data-again
    # A host that does not lose power with its drive must not have it mounted: what the drive's buffer forgets, the host
    # takes for written. Both losing power together is the theme `power`.
    step umount-before-power-cut umount /mnt
    step power-cut host power-cut
    step fsck-after-power-cut fsck.ext4 -f -n $N
    step mount-after-power-cut mount -t ext4 $N /mnt
    step compare-after-power-cut cmp /tmp/data /mnt/data-again
fi
step trim fstrim /mnt
rm /mnt/many/*; sync
step umount-again umount /mnt
step fsck fsck.ext4 -f -n $N

dd if=/tmp/data of=/tmp/part bs=64k count=1 2>/dev/null
step nvme-write nvme write $N -s 0 -c 127 -z 65536 -d /tmp/part
step nvme-read nvme read $N -s 0 -c 127 -z 65536 -d /tmp/back
step nvme-read-same same /tmp/part /tmp/back
step nvme-compare nvme compare $N -s 0 -c 127 -z 65536 -d /tmp/part
step nvme-verify nvme verify $N -s 0 -c 127
step nvme-write-zeroes nvme write-zeroes $N -s 0 -c 63
step nvme-compare-differs refused nvme compare $N -s 0 -c 127 -z 65536 -d /tmp/part
step nvme-dsm nvme dsm $N -d -s 64 -b 64
step nvme-flush nvme flush $N
step persistent-event-log nvme persistent-event-log $D -a 1
step persistent-event-log-read nvme persistent-event-log $D -a 0; show events
step persistent-event-log-release nvme persistent-event-log $D -a 2
step reset nvme reset $D
step after-reset until_true block_device
step read-after-reset dd if=$N of=/dev/null bs=64k count=16
step format nvme format $N -f
dd if=$N of=/tmp/zeros bs=64k count=1 2>/dev/null; dd if=/dev/zero of=/tmp/zero bs=64k count=1 2>/dev/null
step format-zeros same /tmp/zero /tmp/zeros
step disconnect nvme disconnect -n $NQN
step connect-digests attach -i 1 --hdr-digest --data-digest
step write-digests dd if=/tmp/data of=$N bs=1M count=4 conv=fsync
forget_cache
dd if=$N of=/tmp/again bs=1M count=4 2>/dev/null; dd if=/tmp/data of=/tmp/first bs=1M count=4 2>/dev/null
step read-digests same /tmp/first /tmp/again
step smart-moved sh -c "nvme smart-log $D | grep -i 'data_units_written\|Data Units Written' | grep -qv ': *0 *$'"
nvme smart-log $D >/tmp/out; show smart
step disconnect-digests nvme disconnect -n $NQN
step wrong-name refused nvme connect $TARGET -n ${NQN%:*}:no-such
step no-kernel-error sh -c "! dmesg | grep -i 'I/O error\|Call Trace\|data digest error'"
