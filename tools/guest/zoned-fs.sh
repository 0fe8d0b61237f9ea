# What writes to zones in earnest: fio in its zoned mode with everything verified, zonefs, which appends, and f2fs with its data in
# zones and its own records on a block namespace of the same drive.
#
# kernel: 6.12
# generic kernel
# serve: tools/guest/zoned-fs.toml --time instant
# programs: nvme blkzone fio mkfs.f2fs fsck.f2fs
# modules: nvme-keyring nvme-auth nvme-core nvme-fabrics nvme-tcp crc32_generic lz4_compress lz4hc_compress zonefs f2fs

step connect attach -i 2 || { dmesg | tail -20; poweroff -f; }
step two-namespaces until_true block_device /dev/nvme0n2
# Linux looks at namespaces side by side since 6.11, so that the first may get the second name.
B=/dev/nvme0n1; Z=/dev/nvme0n2
[ "$(cat /sys/block/nvme0n1/queue/zoned)" = none ] || { B=/dev/nvme0n2; Z=/dev/nvme0n1; }
Q=/sys/block/${Z#/dev/}/queue
step linux-sees-zones test "$(cat $Q/zoned)" = host-managed
step the-other-is-a-block-device test "$(cat /sys/block/${B#/dev/}/queue/zoned)" = none
zone=$(($(cat $Q/chunk_sectors) * 512))
zones() { fio --name=z --filename=$Z --zonemode=zbd --direct=1 --ioengine=psync --max_open_zones=6 "$@"; }
step fio-write-and-verify zones --rw=write --bs=64k --size=$((8 * zone)) --verify=crc32c --verify_fatal=1
step fio-random-zones zones --rw=randwrite --bs=16k --size=$((12 * zone)) --io_size=$((12 * zone)) --verify=crc32c --verify_fatal=1
step fio-read zones --rw=randread --bs=4k --size=$((8 * zone)) --io_size=16m
step reset-all blkzone reset $Z
# zonefs: a super block in zone 0 (magic number and checksum, the rest zeros), then every zone is a file.
dd if=/dev/urandom of=/tmp/part bs=4096 count=12 2>/dev/null
dd if=/dev/zero of=/tmp/super bs=4096 count=4 2>/dev/null
printf '\123\106\117\132\005\253\277\131' | dd of=/tmp/super conv=notrunc 2>/dev/null
step zonefs-super-block nvme write $Z -s 0 -c 3 -z 16384 -d /tmp/super
step zonefs-mount mount -t zonefs $Z /mnt
step zonefs-write dd if=/tmp/part of=/mnt/seq/3 bs=16384 count=2 oflag=direct conv=notrunc
step zonefs-append dd if=/tmp/part of=/mnt/seq/3 bs=16384 skip=2 seek=2 count=1 oflag=direct conv=notrunc
step zonefs-size test "$(stat -c %s /mnt/seq/3)" = 49152
step zonefs-umount umount /mnt
forget_cache
step zonefs-remount mount -t zonefs $Z /mnt
step zonefs-compare cmp /tmp/part /mnt/seq/3
step zonefs-umount-again umount /mnt
step reset-all-again blkzone reset $Z
# f2fs
step mkfs.f2fs mkfs.f2fs -f -m -c $Z $B
step f2fs-mount mount -t f2fs $B /mnt
dd if=/dev/urandom of=/tmp/data bs=1M count=$MIB 2>/dev/null
step f2fs-write cp /tmp/data /mnt/data
mkdir /mnt/many; for i in $(seq 1 200); do head -c 3000 /tmp/data >/mnt/many/$i; done
step f2fs-overwrite dd if=/tmp/data of=/mnt/data bs=4096 count=512 skip=512 seek=512 conv=notrunc
step f2fs-sync sync
step f2fs-umount umount /mnt
forget_cache
step data-are-in-zones sh -c "[ \$(blkzone report $Z | grep -vc '(em)') -gt 4 ]"
step f2fs-fsck fsck.f2fs $B
step f2fs-remount mount -t f2fs $B /mnt
step f2fs-compare cmp /tmp/data /mnt/data
step f2fs-files sh -c '[ $(ls /mnt/many | wc -l) = 200 ] && [ $(cat /mnt/many/* | wc -c) = 600000 ]'
step f2fs-remove rm -r /mnt/many
step f2fs-umount-again umount /mnt
step disconnect nvme disconnect -n $NQN
