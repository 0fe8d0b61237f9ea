# A drive served by the machine itself: a block device of its own kernel, ext4 across a power cut, a restart and a kill.
#
# kernel: 6.12
# programs: pellucid mkfs.ext4 fsck.ext4
# modules: ublk_drv

# serve_it: starts the server; B is then the device.
serve_it() {
    # Nothing of the last one is taken for its own: it opens its log when it gets to it.
    rm -f /tmp/control; : >/tmp/log
    pellucid serve jasmine --set media.blocks=96 --set media.store=file:/tmp/drive --set ftl.durability=journal \
        --ublk --time instant --control /tmp/control 2>/tmp/log &
    server=$!
    until_true grep -q event=attached /tmp/log || { cat /tmp/log; return 1; }
    B=$(sed -n 's/.*event=attached.*device="\([^"]*\)".*/\1/p' /tmp/log)
    block_device $B
}
gone() { ! [ -b $B ]; }
ended() { ! kill -0 $server 2>/dev/null; }

step serve serve_it || { dmesg | tail -20; poweroff -f; }
Q=/sys/block/${B#/dev/}/queue
step block-size test "$(cat $Q/logical_block_size)" -ge 512
step cache-is-told test "$(cat $Q/write_cache)" = "write back"
step fua-is-told test "$(cat $Q/fua)" = 1
step discard-is-told test "$(cat $Q/discard_max_bytes)" -gt 0
step zeros-at-first sh -c "dd if=$B bs=64k count=4 2>/dev/null | cmp -n 262144 - /dev/zero"
step mkfs mkfs.ext4 -q -F $B
step mount mount -t ext4 $B /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=$MIB 2>/dev/null
step write cp /tmp/data /mnt/data
mkdir /mnt/many; for i in $(seq 1 200); do head -c 3000 /tmp/data >/mnt/many/$i; done
step sync sync
step umount umount /mnt
forget_cache
step remount mount -t ext4 $B /mnt
step compare cmp /tmp/data /mnt/data
step files sh -c '[ $(ls /mnt/many | wc -l) = 200 ]'
rm /mnt/many/*; sync
step trim fstrim /mnt
step umount-before-power-cut umount /mnt
step power-cut pellucid power-cut --control /tmp/control
step fsck fsck.ext4 -f -n $B
step mount-after-power-cut mount -t ext4 $B /mnt
step compare-after-power-cut cmp /tmp/data /mnt/data
step umount-again umount /mnt
step status pellucid status --control /tmp/control; show status
kill -TERM $server
step server-ends until_true ended
step device-is-gone gone
step detached-before-stopped grep -q event=detached /tmp/log
step nothing-failed sh -c "! grep -i 'failed\|panicked' /tmp/log"

step serve-again serve_it
step mount-after-restart mount -t ext4 $B /mnt
step compare-after-restart cmp /tmp/data /mnt/data
step write-more cp /tmp/data /mnt/more
step sync-before-kill sync
kill -KILL $server
step killed until_true ended
step device-dies-with-its-server until_true gone
umount -l /mnt
step serve-after-kill serve_it
step mount-after-kill mount -t ext4 $B /mnt
step compare-after-kill cmp /tmp/data /mnt/more
step umount-last umount /mnt
step fsck-last fsck.ext4 -f -n $B
kill -TERM $server
step server-ends-again until_true ended
step no-kernel-trouble sh -c "! dmesg | grep -i 'Call Trace\|hung task'"
